"""Connections that are opened once and lent many times."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional

from . import compat, connection, exceptions, protocol
from ._typing import ConnectOptions, PoolOptions, RecordT
from .pool_holder import PoolConnectionHolder as PoolConnectionHolder
from .pool_holder import _HolderQueue
from .pool_proxy import PoolConnectionProxy as PoolConnectionProxy
from .pool_proxy import PoolConnectionProxyMeta as PoolConnectionProxyMeta
from .pool_queries import PoolQueries
from .pool_statistics import Counts
from .pool_statistics import PoolStatistics as PoolStatistics

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger(__name__)


class Pool(PoolQueries[RecordT]):
    """A pool of connections, made by :func:`create_pool`.

    A connection is lent by :meth:`acquire` and comes back, as good as new, by :meth:`release` or at the end of the
    block. The methods that run one operation (:meth:`fetch`, :meth:`execute` and so on) lend themselves one for it.

    Places are given out first come, first served. A connection that comes back is reset only if something in its
    session may have changed; the server's answer to that is not waited for, what comes next is sent behind it.

    Examples
    --------
    >>> async with howdah.create_pool("postgres://localhost/app") as pool:
    ...     await pool.fetchval("select count(*) from flights")
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_closing",
        "_connect",
        "_connect_args",
        "_connect_kwargs",
        "_connection_class",
        "_counts",
        "_direct",
        "_generation",
        "_health_check_interval",
        "_health_check_timeout",
        "_holders",
        "_idle_limit",
        "_init",
        "_initialized",
        "_initializing",
        "_initsize",
        "_loop",
        "_maintenance_task",
        "_max_inactive_connection_lifetime",
        "_max_lifetime",
        "_max_lifetime_jitter",
        "_max_queries",
        "_maxsize",
        "_minsize",
        "_query_loggers",
        "_queue",
        "_record_class",
        "_reset",
        "_resets_itself",
        "_setup",
        "_tasks",
        "_watches_age",
    )

    def __init__(
        self,
        *connect_args: Any,
        init_size: Optional[int] = None,
        min_size: int,
        max_size: int,
        max_queries: int,
        max_inactive_connection_lifetime: float,
        connect: Optional[Callable[..., Awaitable[connection.Connection[Any]]]] = None,
        setup: Optional[Callable[[Any], Awaitable[None]]] = None,
        init: Optional[Callable[[Any], Awaitable[None]]] = None,
        reset: Optional[Callable[[Any], Awaitable[None]]] = None,
        loop: Optional[asyncio.AbstractEventLoop],
        connection_class: type[connection.Connection[Any]],
        record_class: type[RecordT],
        max_lifetime: float = 0.0,
        max_lifetime_jitter: float = 0.1,
        health_check_interval: float = 0.0,
        health_check_timeout: float = 5.0,
        **connect_kwargs: Any,
    ) -> None:
        if len(connect_args) > 1:
            warnings.warn(
                "Passing multiple positional arguments to Pool is deprecated; it takes a DSN and keyword arguments",
                DeprecationWarning,
                stacklevel=2,
            )
        if init_size is None:
            init_size = min_size
        _check_sizes(init_size, min_size, max_size)
        _check_limits(
            max_queries,
            max_lifetime_jitter,
            health_check_timeout,
            max_inactive_connection_lifetime=max_inactive_connection_lifetime,
            max_lifetime=max_lifetime,
            health_check_interval=health_check_interval,
        )
        _check_classes(connection_class, record_class)
        self._loop = asyncio.get_event_loop() if loop is None else loop
        self._initsize = init_size
        self._minsize = min_size
        self._maxsize = max_size
        self._holders: list[PoolConnectionHolder] = []
        # Made when the pool begins, as are the holders.
        self._queue: Any = None
        self._initialized = False
        self._initializing = False
        self._closing = False
        self._closed = False
        self._generation = 0
        self._maintenance_task: Optional[asyncio.Task[None]] = None
        # Connections that are being closed in the background.
        self._tasks: set[asyncio.Task[None]] = set()
        self._connect: Callable[..., Awaitable[Any]] = connection.connect if connect is None else connect
        self._connect_args: Sequence[Any] = connect_args
        self._connect_kwargs: Mapping[str, Any] = connect_kwargs
        self._connection_class = connection_class
        self._record_class = record_class
        self._setup = setup
        self._init = init
        self._reset = reset
        self._max_queries = max_queries
        self._max_inactive_connection_lifetime = max_inactive_connection_lifetime
        self._max_lifetime = max_lifetime
        self._max_lifetime_jitter = max_lifetime_jitter
        self._health_check_interval = health_check_interval
        self._health_check_timeout = health_check_timeout
        # How long an idle connection may be left alone.
        self._idle_limit = min(
            (limit for limit in (max_inactive_connection_lifetime, max_lifetime) if limit), default=0.0
        )
        self._watches_age = bool(max_lifetime or health_check_interval)
        # Whoever overrides how connections are lent or reset wants to be called.
        kind = type(self)
        self._direct = setup is None and kind.acquire is Pool.acquire and kind.release is Pool.release
        self._resets_itself = (
            connection_class.reset is connection.Connection.reset
            and connection_class._reset is connection.Connection._reset
        )
        self._counts = Counts()
        self._query_loggers: dict[Callable[..., Any], bool] = {}

    async def _async__init__(self) -> Pool[RecordT]:
        if self._initialized:
            return self
        if self._initializing:
            raise exceptions.InterfaceError("pool is being initialized in another task")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")
        self._initializing = True
        try:
            await self._initialize()
            return self
        except (Exception, asyncio.CancelledError):
            # Those that did connect must not be left behind.
            self._closed = True
            for holder in self._holders:
                holder.terminate()
            raise
        finally:
            self._initializing = False
            self._initialized = True
            self._schedule_min_size_maintenance()

    async def _initialize(self) -> None:
        self._queue = _HolderQueue(self._loop)
        for _ in range(self._maxsize):
            holder = PoolConnectionHolder(self)
            self._holders.append(holder)
            self._queue.put_nowait(holder)
        # The last ones are taken first, so these are the ones to connect: one alone, so that a wrong password is tried
        # once, and then the others together.
        first = self._holders[self._maxsize - self._initsize :][::-1]
        if first:
            await first[0].connect()
        if first[1:]:
            await asyncio.gather(*(holder.connect() for holder in first[1:]))

    def _schedule_min_size_maintenance(self) -> None:
        if (
            self._minsize
            and self._initialized
            and not self._initializing
            and not self.is_closing()
            and self._maintenance_task is None
            and self.get_size() < self._minsize
        ):
            self._maintenance_task = self._loop.create_task(self._maintain_min_size())

    async def _maintain_min_size(self) -> None:
        """Open connections until there are `min_size` again; after a failure wait 1 s, then 2, and so on up to 60."""
        delay = 1.0
        try:
            while not self.is_closing() and self.get_size() < self._minsize:
                try:
                    holder = self._queue.get_disconnected_nowait()
                except asyncio.QueueEmpty:
                    # All the empty places are taken, by those who are about to connect them.
                    return
                try:
                    if holder._con is not None:
                        holder.terminate()
                    await holder.connect()
                    delay = 0.0
                except Exception as error:
                    if self.is_closing():
                        return
                    # Where it failed is the same each time, and somebody may be without a server for hours.
                    logger.warning(
                        "the pool could not open a connection to reach min_size=%d, and tries again in %g s: %s: %s",
                        self._minsize,
                        delay,
                        type(error).__name__,
                        error,
                        exc_info=logger.isEnabledFor(logging.DEBUG),
                    )
                finally:
                    self._queue.put_nowait(holder)
                if delay:
                    await asyncio.sleep(delay)
                delay = min(delay * 2, 60.0) if delay else 1.0
        finally:
            self._maintenance_task = None

    def is_closing(self) -> bool:
        """Whether the pool is closing or closed.

        Returns
        -------
        bool
            True from the first moment of :meth:`close` or :meth:`terminate` on.
        """
        return self._closed or self._closing

    def get_size(self) -> int:
        """How many connections are open.

        Returns
        -------
        int
            Connections, lent or free.
        """
        return sum(holder.is_connected() for holder in self._holders)

    def get_init_size(self) -> int:
        """How many connections the pool begins with.

        Returns
        -------
        int
            Connections.
        """
        return self._initsize

    def get_min_size(self) -> int:
        """How many connections the pool keeps open.

        Returns
        -------
        int
            Connections.
        """
        return self._minsize

    def get_max_size(self) -> int:
        """How many connections the pool opens at most.

        Returns
        -------
        int
            Connections.
        """
        return self._maxsize

    def get_idle_size(self) -> int:
        """How many connections are open and free.

        Returns
        -------
        int
            Connections.
        """
        return sum(holder.is_connected() and holder.is_idle() for holder in self._holders)

    def get_statistics(self) -> PoolStatistics:
        """What the pool has, and what it has done since it was made.

        Returns
        -------
        PoolStatistics
            The numbers of this moment.

        Examples
        --------
        >>> numbers = pool.get_statistics()
        >>> numbers.wait_seconds / max(numbers.acquired, 1)
        """
        counts = self._counts
        size = self.get_size()
        idle = self.get_idle_size()
        return PoolStatistics(
            size=size,
            idle=idle,
            in_use=size - idle,
            waiting=0 if self._queue is None else self._queue.waiting(),
            acquired=counts.acquired,
            waited=counts.waited,
            wait_seconds=counts.wait_seconds,
            resets=counts.resets,
            resets_spared=counts.resets_spared,
            connections_opened=counts.connections_opened,
            connections_closed=counts.connections_closed,
            health_checks_failed=counts.health_checks_failed,
        )

    def _sizes(self) -> dict[str, int]:
        """What `howdah.opentelemetry` tells of a pool."""
        size, idle = self.get_size(), self.get_idle_size()
        waiting = 0 if self._queue is None else self._queue.waiting()
        sizes = {"idle": idle, "used": size - idle, "waiting": waiting}
        return {**sizes, "min_size": self._minsize, "max_size": self._maxsize}

    def set_connect_args(self, dsn: Optional[str] = None, **connect_kwargs: Unpack[ConnectOptions]) -> None:
        """Change how the pool connects from now on; connections that are open stay as they are.

        Parameters
        ----------
        dsn : str, optional
            Where to connect to, as a URI.
        **connect_kwargs
            Arguments for :func:`connect`.
        """
        self._connect_args = [dsn]
        self._connect_kwargs = connect_kwargs

    async def _get_new_connection(self) -> connection.Connection[RecordT]:
        con = await self._connect(
            *self._connect_args,
            loop=self._loop,
            connection_class=self._connection_class,
            record_class=self._record_class,
            **self._connect_kwargs,
        )
        wanted = self._connection_class
        if not isinstance(con, wanted):
            raise exceptions.InterfaceError(
                "expected pool connect callback to return an instance of "
                f"'{_full_name(wanted)}', got '{_full_name(type(con))}'"
            )
        for callback, at_once in self._query_loggers.items():
            con.add_query_logger(callback, at_once=at_once)
        if self._init is not None:
            try:
                await self._init(con)
            except (Exception, asyncio.CancelledError):
                try:
                    await con.close()
                finally:
                    raise
        return con

    def _close_later(self, con: connection.Connection[RecordT], timeout: Optional[float]) -> None:
        """Close a connection that is no longer in its place, in the background."""

        async def close() -> None:
            try:
                await con.close(timeout=timeout)
            except (exceptions.InterfaceError, exceptions.PostgresError, OSError, asyncio.TimeoutError):
                con.terminate()

        self._counts.connections_closed += 1
        task = self._loop.create_task(close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _borrow(self) -> Optional[PoolConnectionHolder]:
        """A place whose connection is free and ready, for one operation; None if that needs waiting."""
        if not self._direct or not self._initialized or self._closed or self._closing:
            return None
        holder: Optional[PoolConnectionHolder] = self._queue.take()
        if holder is None:
            return None
        if not holder.is_ready():
            self._queue.put_nowait(holder)
            return None
        self._counts.acquired += 1
        holder._in_use = True
        return holder

    def _bring_back(
        self, holder: PoolConnectionHolder, con: connection.Connection[RecordT]
    ) -> Optional[Awaitable[None]]:
        """Give back what :meth:`_borrow` lent; what is returned has to be awaited."""
        if holder._con is not con:
            # It was closed meanwhile, and the place is free again.
            return None
        con._pool_release_ctr += 1
        if holder.release_now():
            return None
        return asyncio.shield(holder.release(None, con))

    def acquire(self, *, timeout: Optional[float] = None) -> PoolAcquireContext[RecordT]:
        """Borrow a connection.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for one, and then also the limit for giving it back; None waits without end.

        Returns
        -------
        PoolAcquireContext
            For `async with`, at whose end the connection goes back, or `await`, after which :meth:`release` gives it
            back.

        Raises
        ------
        InterfaceError
            The pool is not yet open, or closing.
        asyncio.TimeoutError
            None became free in time.

        Examples
        --------
        >>> async with pool.acquire() as connection:
        ...     async with connection.transaction():
        ...         await connection.execute("insert into visits default values")
        """
        return PoolAcquireContext(self, timeout)

    async def _acquire(self, timeout: Optional[float]) -> Any:
        if self._closing:
            raise exceptions.InterfaceError("pool is closing")
        self._check_init()
        if self._direct:
            holder = self._queue.take()
            if holder is not None:
                if holder.is_ready():
                    self._counts.acquired += 1
                    holder._timeout = timeout
                    return holder.acquire_now()
                self._queue.put_nowait(holder)
        began = self._loop.time()
        if timeout is None:
            proxy = await self._acquire_when_free(None)
        else:
            try:
                proxy = await compat.wait_for(self._acquire_when_free(timeout), timeout)
            except asyncio.TimeoutError as error:
                if error.args:
                    raise
                raise asyncio.TimeoutError(
                    f"no connection of the pool became free in timeout={timeout:g} seconds: "
                    f"{self.get_size() - self.get_idle_size()} of {self._maxsize} are lent"
                ) from error
        self._counts.acquired += 1
        self._counts.waited += 1
        self._counts.wait_seconds += self._loop.time() - began
        return proxy

    async def _acquire_when_free(self, timeout: Optional[float]) -> PoolConnectionProxy:
        holder: PoolConnectionHolder = await self._queue.get()
        try:
            if self._closed:
                raise exceptions.InterfaceError("pool is closed")
            proxy = await holder.acquire()
        except (Exception, asyncio.CancelledError):
            self._queue.put_nowait(holder)
            self._schedule_min_size_maintenance()
            raise
        holder._timeout = timeout
        return proxy

    async def release(self, connection: Any, *, timeout: Optional[float] = None) -> None:
        """Give a connection back.

        A transaction that is still open is rolled back, cursors are closed, and if anything in the session may have
        changed (settings, advisory locks, `LISTEN`) it is reset.

        Parameters
        ----------
        connection : Connection
            What :meth:`acquire` gave. Given back already, nothing happens.
        timeout : float, optional
            Seconds; by default what was said to :meth:`acquire`.

        Raises
        ------
        InterfaceError
            It is not from this pool.
        """
        if type(connection) is not PoolConnectionProxy or connection._holder._pool is not self:
            raise exceptions.InterfaceError(
                f"Pool.release() received invalid connection: {connection!r} is not a member of this pool"
            )
        con = connection._con
        if con is None:
            return
        self._check_init()
        con._on_release()
        holder = connection._holder
        if holder.release_now():
            return
        # Who gives it back may be cancelled; the connection has to come back all the same.
        return await asyncio.shield(holder.release(holder._timeout if timeout is None else timeout, con))

    async def close(self) -> None:
        """Wait until all connections are given back, and close them.

        If that fails, or is cancelled, the pool is terminated.

        Examples
        --------
        >>> await asyncio.wait_for(pool.close(), 10)
        """
        if self._closed:
            return
        self._check_init()
        self._closing = True
        warning = None
        try:
            if self._maintenance_task is not None:
                self._maintenance_task.cancel()
                await asyncio.gather(self._maintenance_task, return_exceptions=True)
                self._maintenance_task = None
            warning = self._loop.call_later(60, self._warn_on_long_close)
            await asyncio.gather(*(holder.wait_until_released() for holder in self._holders))
            await asyncio.gather(*(holder.close() for holder in self._holders), *self._tasks)
        except (Exception, asyncio.CancelledError):
            self.terminate()
            raise
        finally:
            if warning is not None:
                warning.cancel()
            self._closed = True
            self._closing = False

    def _warn_on_long_close(self) -> None:
        logger.warning(
            "Pool.close() is taking over 60 seconds to complete. Check if you have any unreleased connections left. "
            "Use asyncio.wait_for() to set a timeout for Pool.close()."
        )

    def terminate(self) -> None:
        """Drop all connections at once, whoever has them."""
        if self._closed:
            return
        self._check_init()
        self._closed = True
        if self._maintenance_task is not None:
            self._maintenance_task.cancel()
        for holder in self._holders:
            holder.terminate()

    async def expire_connections(self) -> None:
        """Have every connection that is open now replaced, when it is next acquired or given back."""
        self._generation += 1

    def _check_init(self) -> None:
        if not self._initialized:
            if self._initializing:
                raise exceptions.InterfaceError(
                    "pool is being initialized, but not yet ready: "
                    "likely there is a race between creating a pool and using it"
                )
            raise exceptions.InterfaceError("pool is not initialized")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")

    def _open_connections(self) -> Iterator[connection.Connection[Any]]:
        return (holder._con for holder in self._holders if holder._con is not None)

    def _drop_statement_cache(self) -> None:
        for con in self._open_connections():
            con._drop_local_statement_cache()

    def _drop_type_cache(self) -> None:
        for con in self._open_connections():
            con._drop_local_type_cache()

    def __await__(self) -> Generator[Any, None, Pool[RecordT]]:
        return self._async__init__().__await__()

    async def __aenter__(self) -> Pool[RecordT]:
        await self._async__init__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class PoolAcquireContext(Generic[RecordT]):
    """What :meth:`Pool.acquire` returns: a connection, once it is awaited or entered."""

    __slots__ = ("connection", "done", "pool", "timeout")

    def __init__(self, pool: Pool[RecordT], timeout: Optional[float]) -> None:
        self.pool = pool
        self.timeout = timeout
        self.connection: Any = None
        self.done = False

    async def __aenter__(self) -> connection.Connection[RecordT]:
        if self.connection is not None or self.done:
            raise exceptions.InterfaceError("a connection is already acquired")
        self.connection = con = await self.pool._acquire(self.timeout)
        return con  # type: ignore[no-any-return]

    async def __aexit__(
        self,
        exc_type: Optional[type[BaseException]] = None,
        exc_val: Optional[BaseException] = None,
        exc_tb: Optional[TracebackType] = None,
    ) -> None:
        self.done = True
        con = self.connection
        self.connection = None
        await self.pool.release(con)

    def __await__(self) -> Generator[Any, None, connection.Connection[RecordT]]:
        self.done = True
        return self.pool._acquire(self.timeout).__await__()


def _check_sizes(init_size: int, min_size: int, max_size: int) -> None:
    if max_size <= 0:
        raise ValueError("max_size is expected to be greater than zero")
    if min_size < 0:
        raise ValueError("min_size is expected to be greater or equal to zero")
    if min_size > max_size:
        raise ValueError("min_size is greater than max_size")
    if init_size < 0:
        raise ValueError("init_size is expected to be greater or equal to zero")
    if init_size > max_size:
        raise ValueError("init_size is greater than max_size")
    if init_size < min_size:
        raise ValueError("init_size is smaller than min_size")


def _check_limits(
    max_queries: int, max_lifetime_jitter: float, health_check_timeout: float, **lifetimes: float
) -> None:
    if max_queries <= 0:
        raise ValueError("max_queries is expected to be greater than zero")
    for name, seconds in lifetimes.items():
        if seconds < 0:
            raise ValueError(f"{name} is expected to be greater or equal to zero")
    if not 0 <= max_lifetime_jitter <= 1:
        raise ValueError("max_lifetime_jitter is expected to be between zero and one")
    if health_check_timeout <= 0:
        raise ValueError("health_check_timeout is expected to be greater than zero")


def _check_classes(connection_class: Any, record_class: Any) -> None:
    if not issubclass(connection_class, connection.Connection):
        raise TypeError(
            "connection_class is expected to be a subclass of asyncpg.Connection, here howdah.Connection, "
            f"got {connection_class!r}"
        )
    if not issubclass(record_class, protocol.Record):
        raise TypeError(
            f"record_class is expected to be a subclass of asyncpg.Record, here howdah.Record, got {record_class!r}"
        )


def _full_name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def create_pool(
    dsn: Optional[str] = None,
    *,
    init_size: Optional[int] = None,
    min_size: int = 10,
    max_size: int = 10,
    max_queries: int = 50000,
    max_inactive_connection_lifetime: float = 300.0,
    connect: Optional[Callable[..., Awaitable[connection.Connection[Any]]]] = None,
    setup: Optional[Callable[[Any], Awaitable[None]]] = None,
    init: Optional[Callable[[Any], Awaitable[None]]] = None,
    reset: Optional[Callable[[Any], Awaitable[None]]] = None,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    connection_class: type[connection.Connection[Any]] = connection.Connection,
    record_class: type[RecordT] = protocol.Record,  # type: ignore[assignment]
    **connect_kwargs: Unpack[PoolOptions],
) -> Pool[RecordT]:
    """Make a pool of connections.

    The pool connects when it is awaited, or entered by `async with`.

    Parameters
    ----------
    dsn : str, optional
        Where to connect to, as a URI.
    init_size : int, optional
        Connections to begin with, from `min_size` to `max_size`; by default `min_size`.
    min_size : int, default 10
        Connections that are kept open when idle, and opened again in the background when lost. With 0 the pool may run
        empty.
    max_size : int, default 10
        Connections at most.
    max_queries : int, default 50000
        Queries after which a connection is replaced.
    max_inactive_connection_lifetime : float, default 300.0
        Seconds after which an idle connection beyond `min_size` is closed; 0 for never.
    connect : coroutine function, optional
        Called in place of :func:`connect`, with the same arguments.
    setup : coroutine function, optional
        Called with the connection whenever one is acquired.
    init : coroutine function, optional
        Called with each new connection.
    reset : coroutine function, optional
        Called with each connection that comes back, in place of the pool's own reset.
    loop : asyncio.AbstractEventLoop, optional
        The loop, by default the current one.
    connection_class : type, optional
        The class of connections, a subclass of :class:`Connection`.
    record_class : type, optional
        The class of rows, a subclass of :class:`Record`.
    max_lifetime : float, default 0.0
        Seconds after which a connection is replaced when it is free, however busy it was; 0 for never.
    max_lifetime_jitter : float, default 0.1
        The part of `max_lifetime`, from 0 to 1, by which connections may be replaced earlier, each by chance, so that
        they are not replaced all at once.
    health_check_interval : float, default 0.0
        A connection that was idle for so many seconds is asked an empty query before it is lent, and replaced if it
        does not answer; 0 for never.
    health_check_timeout : float, default 5.0
        Seconds within which it has to answer.
    **connect_kwargs
        Arguments for :func:`connect`.

    Returns
    -------
    Pool
        The pool, not yet connected.

    Raises
    ------
    ValueError
        A size or a time makes no sense.
    TypeError
        A class is not a subclass of what it has to be.

    Examples
    --------
    >>> async with howdah.create_pool(user="postgres", command_timeout=60, max_lifetime=3600) as pool:
    ...     async with pool.acquire() as connection:
    ...         await connection.fetchval("select 2 ^ 10")
    """
    return Pool(
        dsn,
        init_size=init_size,
        min_size=min_size,
        max_size=max_size,
        max_queries=max_queries,
        max_inactive_connection_lifetime=max_inactive_connection_lifetime,
        connect=connect,
        setup=setup,
        init=init,
        reset=reset,
        loop=loop,
        connection_class=connection_class,
        record_class=record_class,
        **connect_kwargs,
    )
