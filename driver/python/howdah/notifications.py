"""Notifications as an asynchronous iterator."""

from __future__ import annotations

import asyncio
import collections
from types import TracebackType
from typing import Any, NamedTuple, Optional

from . import exceptions


class Notification(NamedTuple):
    """A notification that `NOTIFY` sent.

    Attributes
    ----------
    channel : str
        The channel.
    payload : str
        The text, empty without one.
    pid : int
        The process id of the backend that sent it.
    """

    channel: str
    payload: str
    pid: int


class Notifications:
    """The notifications of some channels, from the beginning of the block to its end.

    Made by :meth:`Connection.notifications`.

    Examples
    --------
    >>> async with connection.notifications("orders") as feed:
    ...     async for notification in feed:
    ...         print(notification.payload)
    """

    __slots__ = ("_channels", "_closed", "_connection", "_dropped", "_queue", "_waiter")

    def __init__(self, connection: Any, channels: tuple[str, ...], max_queued: Optional[int]) -> None:
        if not channels:
            raise ValueError("notifications() needs a channel")
        if max_queued is not None and max_queued < 1:
            raise ValueError("max_queued is expected to be greater than zero")
        self._connection = connection
        self._channels = tuple(dict.fromkeys(channels))
        self._queue: collections.deque[Notification] = collections.deque(maxlen=max_queued)
        self._waiter: Optional[asyncio.Future[None]] = None
        self._closed = True
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """How many notifications were dropped, oldest first, because more than `max_queued` waited to be read."""
        return self._dropped

    async def __aenter__(self) -> Notifications:
        if not self._closed:
            raise exceptions.InterfaceError("cannot enter context: already in an `async with` block")
        listening = []
        try:
            for channel in self._channels:
                await self._connection.add_listener(channel, self._take)
                listening.append(channel)
        except BaseException:
            for channel in listening:
                await self._connection.remove_listener(channel, self._take)
            raise
        self._connection.add_termination_listener(self._end)
        self._closed = False
        return self

    async def __aexit__(
        self,
        extype: Optional[type[BaseException]],
        ex: Optional[BaseException],
        tb: Optional[TracebackType],
    ) -> None:
        self._end()
        connection = self._connection
        connection.remove_termination_listener(self._end)
        if not connection.is_closed():
            for channel in self._channels:
                await connection.remove_listener(channel, self._take)

    def __aiter__(self) -> Notifications:
        return self

    async def __anext__(self) -> Notification:
        while not self._queue:
            if self._connection.is_closed():
                raise exceptions.ConnectionDoesNotExistError(
                    "the connection was closed while waiting for notifications"
                )
            if self._closed:
                raise StopAsyncIteration
            if self._waiter is not None:
                raise exceptions.InterfaceError("another task is already waiting for these notifications")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._queue.popleft()

    def _take(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if len(self._queue) == self._queue.maxlen:
            self._dropped += 1
        self._queue.append(Notification(channel, str(payload), pid))
        self._wake()

    def _end(self, connection: Any = None) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
