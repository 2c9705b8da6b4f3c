"""A connection of a pool, for `async with` or `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional

from . import compat, connection, exceptions
from ._typing import RecordT

if TYPE_CHECKING:
    from .pool import Pool
    from .pool_holder import PoolConnectionHolder
    from .pool_proxy import PoolConnectionProxy


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
        self.connection = con = await acquire(self.pool, self.timeout)
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
        return acquire(self.pool, self.timeout).__await__()


async def acquire(pool: Pool[Any], timeout: Optional[float]) -> Any:
    """A connection of the pool, as soon as one is free."""
    if pool._closing:
        raise exceptions.InterfaceError("pool is closing")
    pool._check_init()
    if pool._direct:
        holder = pool._queue.take()
        if holder is not None:
            if holder.is_ready():
                pool._counts.acquired += 1
                holder._timeout = timeout
                return holder.acquire_now()
            pool._queue.put_nowait(holder)
    began = pool._loop.time()
    if timeout is None:
        proxy = await _acquire_when_free(pool, None)
    else:
        try:
            proxy = await compat.wait_for(_acquire_when_free(pool, timeout), timeout)
        except asyncio.TimeoutError as error:
            if error.args:
                raise
            raise asyncio.TimeoutError(
                f"no connection of the pool became free in timeout={timeout:g} seconds: "
                f"{pool.get_size() - pool.get_idle_size()} of {pool._maxsize} connections are lent"
            ) from error
    pool._counts.acquired += 1
    pool._counts.waited += 1
    pool._counts.wait_seconds += pool._loop.time() - began
    return proxy


async def _acquire_when_free(pool: Pool[Any], timeout: Optional[float]) -> PoolConnectionProxy:
    holder: PoolConnectionHolder = await pool._queue.get()
    try:
        if pool._closed:
            raise exceptions.InterfaceError("pool is closed")
        proxy = await holder.acquire()
    except (Exception, asyncio.CancelledError):
        pool._queue.put_nowait(holder)
        pool._schedule_min_size_maintenance()
        raise
    holder._timeout = timeout
    return proxy
