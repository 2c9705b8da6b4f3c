"""A place in a pool, which holds a connection or not, and the queue of those that are free."""

from __future__ import annotations

import asyncio
import collections
import random
import weakref
from typing import TYPE_CHECKING, Any, Optional

from . import compat, exceptions
from .pool_proxy import PoolConnectionProxy

if TYPE_CHECKING:
    from .connection import Connection
    from .pool import Pool


class PoolConnectionHolder:
    """A place in a pool: it connects when it is first needed, and again when its connection is gone or too old."""

    __slots__ = (
        "__weakref__",
        "_con",
        "_expires",
        "_generation",
        "_idle_since",
        "_in_use",
        "_inactive_callback",
        "_pool",
        "_proxy",
        "_released",
        "_timeout",
    )

    def __init__(self, pool: Pool[Any]) -> None:
        self._pool = pool
        self._con: Optional[Connection[Any]] = None
        self._proxy: Optional[PoolConnectionProxy] = None
        self._in_use: Optional[bool] = None
        # Made only when somebody waits for the release.
        self._released: Optional[asyncio.Future[None]] = None
        self._inactive_callback: Optional[asyncio.TimerHandle] = None
        self._idle_since = 0.0
        self._expires = 0.0
        self._timeout: Optional[float] = None
        self._generation: Optional[int] = None

    def is_connected(self) -> bool:
        """Whether there is a connection, and it is open."""
        return self._con is not None and not self._con.is_closed()

    def is_idle(self) -> bool:
        """Whether nobody has the connection."""
        return not self._in_use

    def is_ready(self) -> bool:
        """Whether the connection can be handed out as it is."""
        con = self._con
        if con is None or con.is_closed() or self._generation != self._pool._generation:
            return False
        pool = self._pool
        if not pool._watches_age:
            return True
        now = pool._loop.time()
        if self._expires and now >= self._expires:
            return False
        return not pool._health_check_interval or now - self._idle_since < pool._health_check_interval

    async def connect(self) -> None:
        """Open the connection of an empty place."""
        if self._con is not None:
            raise exceptions.InternalClientError(
                "PoolConnectionHolder.connect() called while another connection already exists"
            )
        pool = self._pool
        generation = pool._generation
        con = await pool._get_new_connection()
        if pool.is_closing():
            await con.close()
            raise exceptions.InterfaceError("pool is closing")
        if con.is_closed():
            raise exceptions.ConnectionDoesNotExistError("connection was closed during pool initialization")
        self._con = con
        # The connection tells its holder of its end, and does not keep an abandoned pool alive for that.
        con._pool_holder = weakref.ref(self)
        self._generation = generation
        pool._counts.connections_opened += 1
        if pool._max_lifetime:
            spread = pool._max_lifetime * pool._max_lifetime_jitter
            self._expires = pool._loop.time() + pool._max_lifetime - random.random() * spread
        self._arm()

    async def acquire(self) -> PoolConnectionProxy:
        """Hand the connection out, opened anew if need be."""
        pool = self._pool
        if not self.is_ready():
            await self._make_ready()
        assert self._con is not None
        self._proxy = proxy = PoolConnectionProxy(self, self._con)
        if pool._setup is not None:
            try:
                await pool._setup(proxy)
            except (Exception, asyncio.CancelledError):
                # Half set up it is of no use to anybody. That a statement failed need not mean that the transport did,
                # so it is closed as is proper, which empties this place too.
                try:
                    await self._con.close()
                finally:
                    raise
        self._in_use = True
        return proxy

    def acquire_now(self) -> PoolConnectionProxy:
        """Hand out a connection that is ready, in a pool without `setup`."""
        assert self._con is not None
        self._proxy = proxy = PoolConnectionProxy(self, self._con)
        self._in_use = True
        return proxy

    async def _make_ready(self) -> None:
        con, pool = self._con, self._pool
        if con is not None and not con.is_closed():
            now = pool._loop.time()
            expired = self._generation != pool._generation or (self._expires and now >= self._expires)
            if not expired and await self._answers(con):
                return
            self._con = None
            con._pool_holder = None
            if expired:
                pool._close_later(con, self._timeout)
            else:
                con.terminate()
                pool._counts.health_checks_failed += 1
        self._con = None
        await self.connect()

    async def _answers(self, con: Connection[Any]) -> bool:
        """Ask the server an empty query; whether it answers in time."""
        try:
            await con.execute("", timeout=self._pool._health_check_timeout)
        except (exceptions.PostgresError, exceptions.InterfaceError, OSError, asyncio.TimeoutError):
            return False
        return not con.is_closed()

    def release_now(self) -> bool:
        """Take the connection back if that needs no waiting; whether it did."""
        con, pool = self._con, self._pool
        if con is None or pool._reset is not None or self._generation != pool._generation:
            return False
        session = con._protocol
        if con._top_xact is not None or con._callbacks.channels or con._callbacks.log or session is None:
            return False
        if session.queries_count >= pool._max_queries:
            return False
        if pool._watches_age and self._expires and pool._loop.time() >= self._expires:
            return False
        if session.is_unchanged():
            pool._counts.resets_spared += 1
        elif not pool._resets_itself or con._watched or not self._reset_behind(con, session):
            return False
        self._free()
        return True

    def _reset_behind(self, con: Connection[Any], session: Any) -> bool:
        """Send the reset without waiting for its answer: whatever comes next goes behind it on the same connection."""
        if session.is_in_transaction() or session._is_cancelling() or con.is_closed():
            return False
        query = con._reset_commands()
        if query:
            waiting = session.query(query, None).__await__()
            try:
                future = waiting.send(None)
            except StopIteration:
                future = None
            except Exception:
                return False
            if future is not None:
                # The future is watched here, not by a task.
                future._asyncio_future_blocking = False
                future.add_done_callback(_Ending(waiting, con))
        session.forget_changes()
        self._pool._counts.resets += 1
        return True

    async def release(self, timeout: Optional[float], given: Optional[Connection[Any]] = None) -> None:
        """Take the connection back, as a new one: reset, or closed when its time is over.

        `given` is the connection that was to be given back when this was called: since then it may have ended, and this
        place may have another one, which somebody else has.
        """
        con, pool = self._con, self._pool
        if given is not None and con is not given:
            return
        if self._in_use is None or con is None:
            raise exceptions.InternalClientError("PoolConnectionHolder.release() called on a free connection holder")
        if con.is_closed():
            # A session that was aborted may not have been cleaned up after; this does it, and empties this place.
            con.terminate()
            return
        self._timeout = None
        if (
            con._protocol.queries_count >= pool._max_queries
            or self._generation != pool._generation
            or (self._expires and pool._loop.time() >= self._expires)
        ):
            # The end of the connection empties this place.
            await con.close(timeout=timeout)
            return
        try:
            budget = timeout
            if con._protocol._is_cancelling():
                budget = await con._protocol._wait_for_cancellation(budget)
            if self._con is None:
                # The cancellation came to nothing, and the connection was given up while we waited.
                return
            if con.is_closed():
                con.terminate()
                return
            if pool._reset is not None:
                async with compat.timeout(budget):
                    await con._reset()
                    await pool._reset(con)
            else:
                await con.reset(timeout=budget)
            con._protocol.forget_changes()
            pool._counts.resets += 1
        except (Exception, asyncio.CancelledError):
            # Nobody knows what state it is in, and most likely it is the transport that failed.
            try:
                if self._con is not None:
                    self._con.terminate()
            finally:
                raise
        self._free()

    async def wait_until_released(self) -> None:
        """Wait until nobody has the connection."""
        while self._in_use is not None:
            if self._released is None:
                self._released = self._pool._loop.create_future()
            await asyncio.shield(self._released)

    async def close(self) -> None:
        """Close the connection, if there is one; its end empties this place."""
        self._disarm()
        if self._con is not None:
            await self._con.close()

    def terminate(self) -> None:
        """Drop the connection, if there is one; its end empties this place."""
        self._disarm()
        if self._con is not None:
            self._con.terminate()

    def _arm(self) -> None:
        """Note that the connection is idle from now on, and see to it that somebody looks after it.

        The timer is left running when the connection is taken, and finds out when it ends: a connection that is taken
        a thousand times a second has its timer set once.
        """
        pool = self._pool
        if pool._idle_limit or pool._watches_age:
            self._idle_since = pool._loop.time()
            if self._inactive_callback is None and pool._idle_limit:
                self._inactive_callback = pool._loop.call_later(pool._idle_limit, _look_after, weakref.ref(self))

    def _disarm(self) -> None:
        if self._inactive_callback is not None:
            self._inactive_callback.cancel()
            self._inactive_callback = None

    def _deactivate_inactive_connection(self) -> None:
        self._inactive_callback = None
        con, pool = self._con, self._pool
        if con is None or self._in_use is not None:
            # Its release sets the timer again.
            return
        now = pool._loop.time()
        over_age = bool(self._expires) and now >= self._expires
        left = self._idle_since + pool._idle_limit - now
        if left > 0.001 and not over_age:
            self._inactive_callback = pool._loop.call_later(left, _look_after, weakref.ref(self))
            return
        if not over_age:
            inactive_for = now - self._idle_since
            limit = pool._max_inactive_connection_lifetime
            is_floor = not pool.is_closing() and pool.get_size() <= pool.get_min_size()
            if not limit or inactive_for < limit - 0.001 or (is_floor and self.is_connected()):
                if self._expires:
                    left = max(self._expires - now, 0.01)
                    self._inactive_callback = pool._loop.call_later(left, _look_after, weakref.ref(self))
                # Without a greatest age, one that belongs to the floor need not be looked after any more.
                return
        # Idle, so there is nothing that closing it politely would save.
        con.terminate()

    def _release_on_close(self) -> None:
        """Called by the connection at its end."""
        self._disarm()
        self._pool._counts.connections_closed += 1
        self._con = None
        self._expires = 0.0
        if self._in_use is not None:
            self._leave()
            self._in_use = None
            self._tell_released()
            self._pool._queue.put_nowait(self)
        self._pool._schedule_min_size_maintenance()

    def _free(self) -> None:
        self._leave()
        self._arm()
        if self._in_use is not None:
            self._in_use = None
            self._tell_released()
            self._pool._queue.put_nowait(self)

    def _leave(self) -> None:
        """Make the proxy of who had the connection useless."""
        if self._proxy is not None:
            self._proxy._detach()
            self._proxy = None

    def _tell_released(self) -> None:
        if self._released is not None:
            if not self._released.done():
                self._released.set_result(None)
            self._released = None


def _look_after(place: weakref.ref[PoolConnectionHolder]) -> None:
    holder = place()
    if holder is not None:
        holder._deactivate_inactive_connection()


class _Ending:
    """Takes the answer to a reset that nobody waits for; a connection whose reset fails is dropped."""

    __slots__ = ("_con", "_waiting")

    def __init__(self, waiting: Any, con: Connection[Any]) -> None:
        self._waiting = waiting
        self._con = con

    def __call__(self, future: asyncio.Future[Any]) -> None:
        try:
            self._waiting.send(None)
        except StopIteration:
            return
        except (Exception, asyncio.CancelledError):
            self._con.terminate()


class _HolderQueue:
    """The places that are free, and those who wait for one, first come first served.

    A free place goes to the first who waits at the moment it becomes free, so nobody who comes later can take it away.
    Who finds places free gets the one with a live connection that was used last, so that the others grow idle.
    """

    __slots__ = ("_loop", "_queue", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._queue: list[PoolConnectionHolder] = []
        self._waiters: collections.OrderedDict[asyncio.Future[PoolConnectionHolder], None] = collections.OrderedDict()
        self._loop = loop

    def qsize(self) -> int:
        """How many places are free."""
        return len(self._queue)

    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiters)

    def take(self) -> Optional[PoolConnectionHolder]:
        """A free place, the live one used last if there is one; None if none is free."""
        free = self._queue
        if not free:
            return None
        if not free[-1].is_connected():
            for index in range(len(free) - 2, -1, -1):
                if free[index].is_connected():
                    return free.pop(index)
        return free.pop()

    async def get(self) -> PoolConnectionHolder:
        """A free place, as soon as it is one's turn."""
        holder = self.take()
        if holder is not None:
            return holder
        future: asyncio.Future[PoolConnectionHolder] = self._loop.create_future()
        self._waiters[future] = None
        try:
            return await future
        except asyncio.CancelledError:
            self._waiters.pop(future, None)
            if future.done() and not future.cancelled():
                self.put_nowait(future.result())
            raise

    def put_nowait(self, holder: PoolConnectionHolder) -> None:
        """Give a place to the first who waits, or have it free."""
        while self._waiters:
            future, _ = self._waiters.popitem(last=False)
            if not future.done():
                future.set_result(holder)
                return
        self._queue.append(holder)

    def get_disconnected_nowait(self) -> PoolConnectionHolder:
        """A free place without a connection.

        Raises
        ------
        asyncio.QueueEmpty
            There is none.
        """
        for index in range(len(self._queue) - 1, -1, -1):
            if not self._queue[index].is_connected():
                return self._queue.pop(index)
        raise asyncio.QueueEmpty
