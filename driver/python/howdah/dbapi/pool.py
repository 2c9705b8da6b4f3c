"""Connections for threads, made when they are needed and lent one at a time."""

from __future__ import annotations

import collections
import contextlib
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Optional

from .._typing import CursorRowT, SessionOptions
from ..listeners import LoggedQuery
from .connection import Connection, connect
from .errors import Error, InterfaceError, OperationalError
from .rows import RowFactory, check_factory

if TYPE_CHECKING:
    from typing_extensions import Unpack

_pools: weakref.WeakSet[Pool[Any]] = weakref.WeakSet()


class Pool(Generic[CursorRowT]):
    """Connections that threads borrow.

    Threads that wait for a connection are served in the order in which they came. No thread looks after the pool:
    connections are made by those who borrow them, and checked when they are lent and when they come back.

    Parameters
    ----------
    dsn : str, optional
        As for :func:`connect`.
    min_size : int, default 0
        How many connections to open at once; errors of the parameters then show at once.
    max_size : int, default 10
        How many connections there may be.
    timeout : float, default 30
        Seconds that who borrows waits for a connection to come back.
    max_idle : float, default 300
        Seconds after which an idle connection is replaced; 0 for never.
    configure : callable, optional
        It is called with each new connection before that is lent: each borrower finds what it sets, such as settings,
        the role, codecs, temporary tables, `autocommit` and `row_factory`. It is called again when a connection comes
        back whose session may have been changed, after that was made as new. What it leaves open is committed.
    autocommit, row_factory, **options
        As for :func:`connect`.

    Examples
    --------
    >>> with howdah.dbapi.Pool("postgres://localhost/app", max_size=20) as pool:
    ...     with pool.connection() as connection:
    ...         connection.execute("select 1").fetchone()
    (1,)
    """

    def __init__(
        self,
        dsn: Optional[str] = None,
        *,
        min_size: int = 0,
        max_size: int = 10,
        timeout: float = 30,
        max_idle: float = 300,
        configure: Optional[Callable[[Connection[CursorRowT]], object]] = None,
        autocommit: bool = False,
        row_factory: Optional[RowFactory[CursorRowT]] = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        if not 0 <= min_size <= max_size or max_size < 1:
            raise InterfaceError(
                f"the pool's sizes are expected as 0 <= min_size <= max_size, got {min_size}, {max_size}"
            )
        check_factory(row_factory)
        self._dsn = dsn
        self._autocommit = autocommit
        self._row_factory = row_factory
        self._options = options
        self._max_size = max_size
        self._timeout = timeout
        self._max_idle = max_idle or math.inf
        self._configure = configure
        self._query_loggers: list[Callable[[LoggedQuery], object]] = []
        self._closed = False
        self._begin_empty()
        _pools.add(self)
        try:
            for connection in [self.getconn() for _ in range(min_size)]:
                self.putconn(connection)
        except BaseException:
            self.close()
            raise

    def _begin_empty(self) -> None:
        """Have no connections."""
        # It is held for moments, in which nothing is asked of the system: whoever would let the interpreter go with it
        # in hand has all other threads come to wait for it.
        self._lock = threading.Lock()
        # The last one that came back is lent first: the others may grow old. None is idle while somebody waits.
        self._idle: list[Connection[CursorRowT]] = []
        self._lent: set[Connection[CursorRowT]] = set()
        # How many there are, with those that are being made, or being reset.
        self._places = 0
        self._queue: collections.deque[_Waiter[CursorRowT]] = collections.deque()

    def getconn(self, timeout: Optional[float] = None) -> Connection[CursorRowT]:
        """Borrow a connection, which :meth:`putconn` gives back.

        Raises
        ------
        OperationalError
            None came back in time, or no connection can be made.
        """
        connection: Optional[Connection[CursorRowT]] = None
        waiter: Optional[_Waiter[CursorRowT]] = None
        with self._lock:
            if self._closed:
                raise InterfaceError("the pool is closed")
            if self._idle:
                connection = self._idle.pop()
                self._lent.add(connection)
            elif self._places < self._max_size:
                self._places += 1
            else:
                waiter = _Waiter()
                self._queue.append(waiter)
        if waiter is not None:
            connection = self._wait(waiter, self._timeout if timeout is None else timeout)
        while connection is not None:
            if time.monotonic() - connection._returned <= self._max_idle and (
                connection._session.is_quiet() or self._stands(connection)
            ):
                return connection
            connection = self._take_another(connection)
        return self._make()

    def putconn(self, connection: Connection[CursorRowT]) -> None:
        """Give a connection back: its transaction is undone, and its session made as it was lent."""
        with self._lock:
            if connection not in self._lent:
                if isinstance(connection, Connection) and connection._is_elsewhere():
                    # Borrowed before a fork, by the parent.
                    return
                raise InterfaceError("the connection was not lent by this pool")
            self._lent.remove(connection)
            if not self._closed and connection._is_as_new():
                self._pass_on(connection)
                return
        usable = False
        try:
            if not connection.closed:
                connection._reset(self._configure)
                usable = True
        except Error:
            # It is replaced.
            pass
        finally:
            with self._lock:
                usable = usable and not self._closed
                self._pass_on(connection if usable else None)
            if not usable:
                connection.close()

    def connection(self, timeout: Optional[float] = None) -> contextlib.AbstractContextManager[Connection[CursorRowT]]:
        """Borrow a connection for a block, which commits at its end, or rolls back after an exception."""
        return _Loan(self, timeout)

    def add_query_logger(self, callback: Callable[[LoggedQuery], object]) -> None:
        """Call a function after each query on any of the connections, those that are yet to be made too.

        Parameters
        ----------
        callback : callable
            As in :meth:`Connection.add_query_logger`.
        """
        with self._lock:
            self._query_loggers.append(callback)
            for connection in (*self._lent, *self._idle):
                connection.add_query_logger(callback)

    def close(self) -> None:
        """Close the connections; those that are lent, when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._places -= len(idle)
            for waiter in self._queue:
                waiter.refuse()
            self._queue.clear()
        for connection in idle:
            connection.close()

    def __enter__(self) -> Pool[CursorRowT]:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def _sizes(self) -> dict[str, int]:
        """What `howdah.opentelemetry` tells of a pool; idle connections are not kept."""
        with self._lock:
            return {
                "idle": len(self._idle),
                "used": len(self._lent),
                "waiting": len(self._queue),
                "min_size": 0,
                "max_size": self._max_size,
            }

    def _pass_on(self, connection: Optional[Connection[CursorRowT]]) -> None:
        """Give a connection, or the place of one that is gone, to the thread that has waited longest.

        Called with the lock.
        """
        if connection is not None:
            connection._returned = time.monotonic()
        if self._queue:
            if connection is not None:
                self._lent.add(connection)
            self._queue.popleft().give(connection)
        elif connection is None:
            self._places -= 1
        else:
            self._idle.append(connection)

    def _wait(self, waiter: _Waiter[CursorRowT], patience: float) -> Optional[Connection[CursorRowT]]:
        """The connection that a waiter is given; None for a place to make one in."""
        try:
            served = waiter.wait(patience) or not self._withdraw(waiter)
        except BaseException:
            # Interrupted: what it was given at the same time is for the next one.
            if not self._withdraw(waiter) and not waiter.refused:
                self._let_go(waiter.connection)
            raise
        if not served:
            raise OperationalError(
                f"no connection came back to the pool within {patience:g} seconds: "
                f"all {self._max_size} connections are lent"
            )
        if waiter.refused:
            raise InterfaceError("the pool is closed")
        return waiter.connection

    def _withdraw(self, waiter: _Waiter[CursorRowT]) -> bool:
        """Take a waiter out of the queue; false when it has been served."""
        with self._lock:
            if waiter not in self._queue:
                return False
            self._queue.remove(waiter)
            return True

    def _let_go(self, connection: Optional[Connection[CursorRowT]]) -> None:
        """Give up a connection as it is, or a place, that this thread has got from the pool."""
        with self._lock:
            if connection is not None:
                self._lent.discard(connection)
            self._pass_on(None if self._closed else connection)
        if connection is not None and self._closed:
            connection.terminate()

    def _stands(self, connection: Connection[CursorRowT]) -> bool:
        """Whether a connection to which something has come since it was lent can be used."""
        try:
            return connection._look()
        except BaseException:
            self._let_go(connection)
            raise

    def _take_another(self, useless: Connection[CursorRowT]) -> Optional[Connection[CursorRowT]]:
        """Another idle connection in place of one that is of no use; None when there is none, for a new one."""
        useless.terminate()
        with self._lock:
            self._lent.discard(useless)
            if not self._idle:
                return None
            self._places -= 1
            connection = self._idle.pop()
            self._lent.add(connection)
            return connection

    def _make(self) -> Connection[CursorRowT]:
        """A new connection, in a place that was taken for it."""
        connection = None
        try:
            made = connect(self._dsn, autocommit=self._autocommit, row_factory=self._row_factory, **self._options)
            try:
                if self._configure is not None:
                    made._prepare_for(self._configure)
            except BaseException:
                made.terminate()
                raise
            connection = made
            return connection
        finally:
            with self._lock:
                if connection is None:
                    self._pass_on(None)
                else:
                    for callback in self._query_loggers:
                        connection.add_query_logger(callback)
                    self._lent.add(connection)


class _Waiter(Generic[CursorRowT]):
    """A thread in the queue.

    What it is given is its own from that moment: a connection, or None for a place in which it makes one.
    """

    __slots__ = ("_served", "connection", "refused")

    def __init__(self) -> None:
        self._served = threading.Lock()
        self._served.acquire()
        self.connection: Optional[Connection[CursorRowT]] = None
        self.refused = False

    def wait(self, patience: float) -> bool:
        """Whether it was served in time."""
        return self._served.acquire(timeout=min(max(patience, 0), threading.TIMEOUT_MAX))

    def give(self, connection: Optional[Connection[CursorRowT]]) -> None:
        """Serve it."""
        self.connection = connection
        self._served.release()

    def refuse(self) -> None:
        """Tell it that the pool is closed."""
        self.refused = True
        self._served.release()


class _Loan(contextlib.AbstractContextManager[Connection[CursorRowT]]):
    """The block for which a connection is lent."""

    __slots__ = ("_connection", "_pool", "_timeout")

    def __init__(self, pool: Pool[CursorRowT], timeout: Optional[float]) -> None:
        self._pool = pool
        self._timeout = timeout

    def __enter__(self) -> Connection[CursorRowT]:
        self._connection = connection = self._pool.getconn(self._timeout)
        return connection

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        connection = self._connection
        try:
            if kind is None and connection._session.is_in_transaction() and not connection.closed:
                connection.commit()
        finally:
            self._pool.putconn(connection)


def _forget_in_child() -> None:
    """Have each pool begin anew in a forked process: its threads are not there, and its connections the parent's."""
    for pool in _pools:
        pool._begin_empty()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
