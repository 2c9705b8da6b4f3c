"""Requests to cancel what the server is doing for a connection, each sent on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from . import compat, connect_utils

if TYPE_CHECKING:
    from .connection import Connection


class Cancellations:
    """The requests of one connection that are under way."""

    __slots__ = ("_loop", "tasks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tasks: set[Any] = set()

    def begin(self, connection: Connection[Any], waiter: Any, cancel_waiter: Any) -> None:
        """Ask the server to cancel the connection's current command, in a task.

        `waiter` is done when the request has been delivered, `cancel_waiter` when the cancelled command is over.
        """
        self.tasks.add(self._loop.create_task(self._cancel(connection, waiter, cancel_waiter)))

    async def _cancel(self, connection: Connection[Any], waiter: Any, cancel_waiter: Any) -> None:
        try:
            async with compat.timeout(connection._config.command_timeout):
                # Some servers end the connection that way once they have read the request.
                with contextlib.suppress(ConnectionResetError):
                    await connect_utils._cancel(
                        loop=self._loop,
                        addr=connection._addr,
                        params=connection._params,
                        backend_pid=connection._protocol.backend_pid,
                        backend_secret=connection._protocol.backend_secret,
                    )
                if not waiter.done():
                    waiter.set_result(None)
                if cancel_waiter is not None:
                    await asyncio.shield(cancel_waiter)
        except asyncio.CancelledError:
            pass
        except Exception:
            if not connection._aborted:
                # Nobody knows whether the request will hit something later.
                connection.terminate()
        finally:
            self.tasks.discard(asyncio.current_task(self._loop))
            if not waiter.done():
                waiter.set_result(None)

    def end(self) -> None:
        """Give the requests up: the connection has ended."""
        if not self.tasks:
            return
        try:
            current = asyncio.current_task(self._loop)
        except RuntimeError:
            current = None
        for task in self.tasks:
            if task is not current and not task.done():
                task.cancel()
        self.tasks.clear()
