"""Parts of the newest Python that the oldest supported one does not have."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import pathlib
import platform
import sys
from collections.abc import Awaitable as Awaitable
from types import TracebackType
from typing import Any, Callable, Final, Optional, TypeVar

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

SYSTEM: Final = platform.uname().system


def get_pg_home_directory() -> Optional[pathlib.Path]:
    """The folder of `.pgpass` and `.pg_service.conf`: the user's home, None if there is none."""
    try:
        return pathlib.Path.home()
    except (RuntimeError, KeyError):
        return None


async def wait_closed(stream: asyncio.StreamWriter) -> None:
    """Wait until `stream` is closed; that the peer was faster is no error."""
    with contextlib.suppress(ConnectionResetError):
        await stream.wait_closed()


if sys.version_info >= (3, 12):
    from inspect import markcoroutinefunction as markcoroutinefunction
else:

    def markcoroutinefunction(func: _F) -> _F:
        """Mark a function that returns a coroutine as a coroutine function, for asyncio and `unittest.mock`."""
        func._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
        return func


if sys.version_info >= (3, 11):
    from asyncio import timeout as timeout
    from enum import StrEnum as StrEnum
else:

    class StrEnum(str, enum.Enum):
        """An enumeration whose members are strings."""

        __str__ = str.__str__

    class timeout:
        """An asynchronous context that is cancelled after `delay` seconds, and then raises `asyncio.TimeoutError`.

        Parameters
        ----------
        delay : float or None
            Seconds; None waits without end.
        """

        def __init__(self, delay: Optional[float]) -> None:
            self._delay = delay
            self._handle: Optional[asyncio.TimerHandle] = None
            self._task: Optional[asyncio.Task[Any]] = None
            self._expired = False

        async def __aenter__(self) -> timeout:
            self._task = asyncio.current_task()
            if self._task is None:
                raise RuntimeError("timeout() needs a running task")
            if self._delay is not None:
                self._handle = asyncio.get_running_loop().call_later(max(self._delay, 0), self._expire)
            return self

        async def __aexit__(
            self,
            exc_type: Optional[type[BaseException]],
            exc: Optional[BaseException],
            traceback: Optional[TracebackType],
        ) -> Optional[bool]:
            if self._handle is not None:
                self._handle.cancel()
            if self._expired and exc_type is asyncio.CancelledError:
                raise asyncio.TimeoutError from exc
            return None

        def _expire(self) -> None:
            self._expired = True
            if self._task is not None:
                self._task.cancel()


if sys.version_info >= (3, 12):
    from asyncio import wait_for as wait_for
else:

    async def wait_for(fut: Awaitable[_T], timeout: Optional[float]) -> _T:
        """Wait for `fut`, at most `timeout` seconds, without losing a result that arrives with the timeout.

        Parameters
        ----------
        fut : awaitable
            What to wait for; it is cancelled when the time is over.
        timeout : float or None
            Seconds; None waits without end.

        Raises
        ------
        asyncio.TimeoutError
            The time was over first.
        """
        if timeout is None:
            return await fut
        if timeout > 0:
            async with _timeout(timeout):
                return await fut
        # No time at all: only what is ready already counts.
        future = asyncio.ensure_future(fut)
        if future.done():
            return future.result()
        future.cancel()
        await asyncio.wait([future])
        try:
            return future.result()
        except asyncio.CancelledError as error:
            raise asyncio.TimeoutError from error


_timeout = timeout
