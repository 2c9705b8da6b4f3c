"""Functions of the program that a connection calls: for notifications, the server's messages, the end, and queries."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import exceptions, utils

if TYPE_CHECKING:
    from .connection import Connection

LoggedQuery = collections.namedtuple(
    "LoggedQuery", ["query", "args", "timeout", "elapsed", "exception", "conn_addr", "conn_params"]
)
LoggedQuery.__doc__ = "A query that was executed, how long it took (seconds) and what came of it."


_UNLOGGED = contextlib.nullcontext()


class _Callback(NamedTuple):
    cb: Callable[..., Any]
    is_async: bool
    # Called where the event is, in place of in the loop's next turn.
    at_once: bool = False

    @classmethod
    def from_callable(cls, cb: Callable[..., Any]) -> _Callback:
        if inspect.iscoroutinefunction(cb):
            return cls(cb, True)
        if callable(cb):
            return cls(cb, False)
        raise exceptions.InterfaceError(f"expected a callable or an `async def` function, got {cb!r}")


class Callbacks:
    """The functions of the program that a connection calls."""

    __slots__ = ("_addr", "_loop", "_params", "channels", "ends", "log", "queries")

    def __init__(self, loop: asyncio.AbstractEventLoop, addr: Any, params: Any) -> None:
        self._loop = loop
        self._addr = addr
        self._params = params
        #: For notifications, by channel.
        self.channels: dict[str, set[_Callback]] = {}
        #: For the server's messages below errors.
        self.log: set[_Callback] = set()
        #: For the end of the connection.
        self.ends: set[_Callback] = set()
        #: For queries that have ended.
        self.queries: set[_Callback] = set()

    def forget_session(self) -> None:
        """Forget those that a reset of the session ends."""
        self.channels.clear()
        self.log.clear()

    def forget(self) -> None:
        """Forget all but those for the end of the connection."""
        self.forget_session()
        self.queries.clear()

    def call(self, callbacks: Iterable[_Callback], *args: Any) -> None:
        """Call functions: in the loop's next turn, or at once those that asked for that."""
        for callback in callbacks:
            if callback.is_async:
                self._loop.create_task(callback.cb(*args))
            elif callback.at_once:
                _call_at_once(self._loop, callback.cb, *args)
            else:
                self._loop.call_soon(callback.cb, *args)

    def end(self, connection: Any) -> None:
        """Tell once that the connection has ended."""
        self.call(self.ends, connection)
        self.ends.clear()

    def logged(self, query: str, args: Any, timeout: Optional[float]) -> contextlib.AbstractContextManager[None]:
        """A block in which a query runs, measured for query loggers if there are any."""
        return self.timed(query, args, timeout) if self.queries else _UNLOGGED

    @contextlib.contextmanager
    def timed(self, query: str, args: Any, timeout: Optional[float]) -> Iterator[None]:
        """A block in which a query runs, measured for query loggers."""
        start = time.monotonic()
        exception: Optional[BaseException] = None
        try:
            yield
        except BaseException as error:
            exception = error
            raise
        finally:
            self.tell_query(query, args, timeout, time.monotonic() - start, exception)

    def tell_query(
        self, query: str, args: Any, timeout: Optional[float], elapsed: float, exception: Optional[BaseException]
    ) -> None:
        """Tell query loggers of a query that has ended."""
        self.call(self.queries, LoggedQuery(query, args, timeout, elapsed, exception, self._addr, self._params))

    def warn_of_leftovers(self, connection: object) -> None:
        """Warn of a connection that goes back to its pool with functions for notifications or messages."""
        for count, kind in (
            (sum(len(group) for group in self.channels.values()), "notification"),
            (len(self.log), "log"),
        ):
            if count:
                plural = "s" if count > 1 else ""
                warnings.warn(
                    exceptions.InterfaceWarning(
                        f"{connection!r} is being released to the pool but has {count} active {kind} listener{plural}"
                    ),
                    stacklevel=2,
                )


async def add_listener(self: Connection[Any], channel: str, callback: Callable[..., Any]) -> None:
    """Call a function for each notification on a channel.

    Parameters
    ----------
    channel : str
        The channel; the session begins to listen to it.
    callback : callable
        A function or coroutine function, called with the connection, the process id of the backend that sent the
        notification, the channel and the payload.

    Raises
    ------
    InterfaceError
        The connection is closed, or `callback` cannot be called.

    Examples
    --------
    >>> await connection.add_listener("orders", lambda connection, pid, channel, payload: print(payload))
    """
    self._check_open()
    if channel not in self._callbacks.channels:
        await self.fetch(f"LISTEN {utils._quote_ident(channel)}")
        self._callbacks.channels.setdefault(channel, set())
    self._callbacks.channels[channel].add(_Callback.from_callable(callback))


async def remove_listener(self: Connection[Any], channel: str, callback: Callable[..., Any]) -> None:
    """Undo :meth:`add_listener`.

    Parameters
    ----------
    channel : str
        The channel; without a function left for the channel, the session stops listening to it.
    callback : callable
        The function that was given to :meth:`add_listener`.
    """
    if self.is_closed() or channel not in self._callbacks.channels:
        return
    found = _Callback.from_callable(callback)
    if found not in self._callbacks.channels[channel]:
        return
    self._callbacks.channels[channel].remove(found)
    if not self._callbacks.channels[channel]:
        del self._callbacks.channels[channel]
        await self.fetch(f"UNLISTEN {utils._quote_ident(channel)}")


def add_log_listener(self: Connection[Any], callback: Callable[..., Any]) -> None:
    """Call a function for each message of the server below errors (NOTICE, WARNING and so on).

    Parameters
    ----------
    callback : callable
        A function or coroutine function, called with the connection and a :class:`PostgresLogMessage`.
    """
    if self.is_closed():
        raise exceptions.InterfaceError("connection is closed")
    self._callbacks.log.add(_Callback.from_callable(callback))


def remove_log_listener(self: Connection[Any], callback: Callable[..., Any]) -> None:
    """Undo :meth:`add_log_listener`."""
    self._callbacks.log.discard(_Callback.from_callable(callback))


def add_termination_listener(self: Connection[Any], callback: Callable[..., Any]) -> None:
    """Call a function once when the connection ends.

    Parameters
    ----------
    callback : callable
        A function or coroutine function, called with the connection.
    """
    self._callbacks.ends.add(_Callback.from_callable(callback))


def remove_termination_listener(self: Connection[Any], callback: Callable[..., Any]) -> None:
    """Undo :meth:`add_termination_listener`."""
    self._callbacks.ends.discard(_Callback.from_callable(callback))


def add_query_logger(self: Connection[Any], callback: Callable[..., Any], *, at_once: bool = False) -> None:
    """Call a function after each query: of a pool too, where the connection goes back to it.

    Parameters
    ----------
    callback : callable
        A function or coroutine function, called with a :class:`LoggedQuery`.
    at_once : bool, default False
        Whether the function is called before the caller of the query gets the answer, instead of in the loop's next
        turn.
    """
    found = _Callback.from_callable(callback)
    self._callbacks.queries.add(found._replace(at_once=at_once and not found.is_async))


def remove_query_logger(self: Connection[Any], callback: Callable[..., Any]) -> None:
    """Undo :meth:`add_query_logger`."""
    found = _Callback.from_callable(callback)
    self._callbacks.queries.difference_update((found, found._replace(at_once=True)))


@contextlib.contextmanager
def query_logger(self: Connection[Any], callback: Callable[..., Any]) -> Iterator[None]:
    """Call a function after each query, within a block.

    Parameters
    ----------
    callback : callable
        As in :meth:`add_query_logger`.

    Examples
    --------
    >>> with connection.query_logger(lambda record: print(record.query, record.elapsed)):
    ...     await connection.execute("select 1")
    """
    self.add_query_logger(callback)
    try:
        yield
    finally:
        self.remove_query_logger(callback)


def _call_at_once(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> None:
    """Call a function whose failure is not that of what it is told of."""
    try:
        callback(*args)
    except Exception as error:
        loop.call_exception_handler({"message": f"{callback!r} has failed", "exception": error})
