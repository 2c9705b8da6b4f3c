"""Callbacks of a connection: for notifications, the server's messages, the end, and queries."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

from . import exceptions, utils
from ._parts import ConnectionPart

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
        raise exceptions.InterfaceError(f"expected a callable or an `async def` function,got {cb!r}")


class ListenerMethods(ConnectionPart):
    """Methods of :class:`Connection` about callbacks."""

    __slots__ = ()

    _listeners: dict[str, set[_Callback]]
    _log_listeners: set[_Callback]
    _termination_listeners: set[_Callback]
    _query_loggers: set[_Callback]
    _loop: asyncio.AbstractEventLoop
    _protocol: Any
    _proxy: Any
    _addr: Any
    _params: Any

    async def add_listener(self, channel: str, callback: Callable[..., Any]) -> None:
        """Call a function for each notification on a channel.

        Parameters
        ----------
        channel : str
            The channel, which the session is made to listen to.
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
        if channel not in self._listeners:
            await self.fetch(f"LISTEN {utils._quote_ident(channel)}")
            self._listeners.setdefault(channel, set())
        self._listeners[channel].add(_Callback.from_callable(callback))

    async def remove_listener(self, channel: str, callback: Callable[..., Any]) -> None:
        """Call a function no more for a channel's notifications.

        Parameters
        ----------
        channel : str
            The channel; the session stops listening to it with its last function.
        callback : callable
            What was given to :meth:`add_listener`.
        """
        if self.is_closed() or channel not in self._listeners:
            return
        found = _Callback.from_callable(callback)
        if found not in self._listeners[channel]:
            return
        self._listeners[channel].remove(found)
        if not self._listeners[channel]:
            del self._listeners[channel]
            await self.fetch(f"UNLISTEN {utils._quote_ident(channel)}")

    def add_log_listener(self, callback: Callable[..., Any]) -> None:
        """Call a function for each message of the server below errors (NOTICE, WARNING and so on).

        Parameters
        ----------
        callback : callable
            A function or coroutine function, called with the connection and a :class:`PostgresLogMessage`.
        """
        if self.is_closed():
            raise exceptions.InterfaceError("connection is closed")
        self._log_listeners.add(_Callback.from_callable(callback))

    def remove_log_listener(self, callback: Callable[..., Any]) -> None:
        """Undo :meth:`add_log_listener`."""
        self._log_listeners.discard(_Callback.from_callable(callback))

    def add_termination_listener(self, callback: Callable[..., Any]) -> None:
        """Call a function once when the connection ends.

        Parameters
        ----------
        callback : callable
            A function or coroutine function, called with the connection.
        """
        self._termination_listeners.add(_Callback.from_callable(callback))

    def remove_termination_listener(self, callback: Callable[..., Any]) -> None:
        """Undo :meth:`add_termination_listener`."""
        self._termination_listeners.discard(_Callback.from_callable(callback))

    def add_query_logger(self, callback: Callable[..., Any], *, at_once: bool = False) -> None:
        """Call a function after each query: of a pool too, where the connection goes back to it.

        Parameters
        ----------
        callback : callable
            A function or coroutine function, called with a :class:`LoggedQuery`.
        at_once : bool, default False
            Whether a function is called before who asked has the answer, in place of in the loop's next turn.
        """
        found = _Callback.from_callable(callback)
        self._query_loggers.add(found._replace(at_once=at_once and not found.is_async))

    def remove_query_logger(self, callback: Callable[..., Any]) -> None:
        """Undo :meth:`add_query_logger`."""
        found = _Callback.from_callable(callback)
        self._query_loggers.difference_update((found, found._replace(at_once=True)))

    @contextlib.contextmanager
    def query_logger(self, callback: Callable[..., Any]) -> Iterator[None]:
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

    @contextlib.contextmanager
    def _time_and_log(self, query: str, args: Any, timeout: Optional[float]) -> Iterator[None]:
        start = time.monotonic()
        exception: Optional[BaseException] = None
        try:
            yield
        except BaseException as error:
            exception = error
            raise
        finally:
            self._log_query(query, args, timeout, time.monotonic() - start, exception)

    def _log_query(
        self, query: str, args: Any, timeout: Optional[float], elapsed: float, exception: Optional[BaseException]
    ) -> None:
        record = LoggedQuery(query, args, timeout, elapsed, exception, self._addr, self._params)
        self._call(self._query_loggers, record)

    def _logged(self, query: str, args: Any, timeout: Optional[float]) -> contextlib.AbstractContextManager[None]:
        """A block in which a query runs, for those who log queries, if there are any."""
        return self._time_and_log(query, args, timeout) if self._query_loggers else _UNLOGGED

    def _call(self, callbacks: Any, *args: Any) -> None:
        for callback in callbacks:
            if callback.is_async:
                self._loop.create_task(callback.cb(*args))
            elif callback.at_once:
                _call_at_once(self._loop, callback.cb, *args)
            else:
                self._loop.call_soon(callback.cb, *args)

    def _process_log_message(self, fields: dict[str, str], last_query: Optional[str]) -> None:
        if self._log_listeners:
            message = exceptions.PostgresLogMessage.new(fields, query=last_query)
            self._call(self._log_listeners, self._unwrap(), message)

    def _call_termination_listeners(self) -> None:
        self._call(self._termination_listeners, self._unwrap())
        self._termination_listeners.clear()

    def _process_notification(self, pid: int, channel: str, payload: str) -> None:
        self._call(self._listeners.get(channel, ()), self._unwrap(), pid, channel, payload)

    def _unwrap(self) -> Any:
        """What the program knows as the connection: a pool's proxy, if it is a pool's."""
        return self if self._proxy is None else self._proxy

    def _check_listeners(self, listeners: Any, listener_type: str) -> None:
        count = len(listeners)
        if count:
            plural = "s" if count > 1 else ""
            warnings.warn(
                exceptions.InterfaceWarning(
                    f"{self!r} is being released to the pool but has {count} active {listener_type} listener{plural}"
                ),
                stacklevel=2,
            )


def _call_at_once(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> None:
    """Call a function whose failure is not that of what it is told of."""
    try:
        callback(*args)
    except Exception as error:
        loop.call_exception_handler({"message": f"{callback!r} has failed", "exception": error})
