"""The upkeep of a pool's connections, and their end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from . import pool as pools

if TYPE_CHECKING:
    from .pool import Pool


async def keep_min_size(pool: Pool[Any]) -> None:
    """Open connections until there are `min_size` again; after a failure wait 1 s, then 2, and so on up to 60."""
    delay = 1.0
    try:
        while not pool.is_closing() and pool.get_size() < pool._minsize:
            try:
                holder = pool._queue.get_disconnected_nowait()
            except asyncio.QueueEmpty:
                # All the empty places are taken, by those who are about to connect them.
                return
            try:
                if holder._con is not None:
                    holder.terminate()
                await holder.connect()
                delay = 0.0
            except Exception as error:
                if pool.is_closing():
                    return
                # Where it failed is the same each time, and somebody may be without a server for hours.
                pools.logger.warning(
                    "the pool could not open a connection to reach min_size=%d, and tries again in %g s: %s: %s",
                    pool._minsize,
                    delay,
                    type(error).__name__,
                    error,
                    exc_info=pools.logger.isEnabledFor(logging.DEBUG),
                )
            finally:
                pool._queue.put_nowait(holder)
            if delay:
                await asyncio.sleep(delay)
            delay = min(delay * 2, 60.0) if delay else 1.0
    finally:
        pool._maintenance_task = None


async def close(self: Pool[Any]) -> None:
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
        warning = self._loop.call_later(60, _warn_on_long_close)
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


def _warn_on_long_close() -> None:
    pools.logger.warning(
        "Pool.close() is taking over 60 seconds to complete. Check if you have any unreleased connections left. "
        "Use asyncio.wait_for() to set a timeout for Pool.close()."
    )
