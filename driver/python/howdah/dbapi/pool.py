"""Connections for threads, made when they are needed and lent one at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Optional

from .._typing import CursorRowT, SessionOptions
from ..listeners import LoggedQuery
from .connection import Connection, connect
from .errors import Error, InterfaceError, OperationalError
from .rows import RowFactory

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Pool(Generic[CursorRowT]):
    """Connections that threads borrow.

    No thread looks after it: connections are made by those who borrow them, and checked when they come back.

    Parameters
    ----------
    dsn : str, optional
        As for :func:`connect`.
    min_size : int, default 0
        How many connections to make at once, so that a mistake shows.
    max_size : int, default 10
        How many connections there may be.
    timeout : float, default 30
        Seconds that who borrows waits for a connection to come back.
    max_idle : float, default 300
        Seconds after which a connection that nobody has borrowed is replaced; 0 for never.
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
        autocommit: bool = False,
        row_factory: Optional[RowFactory[CursorRowT]] = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        if not 0 <= min_size <= max_size or max_size < 1:
            raise InterfaceError(
                f"the pool's sizes are expected as 0 <= min_size <= max_size, got {min_size}, {max_size}"
            )
        self._dsn = dsn
        self._autocommit = autocommit
        self._row_factory = row_factory
        self._options = options
        self._max_size = max_size
        self._timeout = timeout
        self._max_idle = max_idle
        self._changed = threading.Condition()
        # The last one that came back is lent first: the others may grow old.
        self._idle: list[tuple[Connection[CursorRowT], float]] = []
        self._lent: set[Connection[CursorRowT]] = set()
        # Those that are being made.
        self._making = 0
        self._waiting = 0
        self._closed = False
        self._query_loggers: list[Callable[[LoggedQuery], object]] = []
        try:
            for connection in [self.getconn() for _ in range(min_size)]:
                self.putconn(connection)
        except BaseException:
            self.close()
            raise

    def getconn(self, timeout: Optional[float] = None) -> Connection[CursorRowT]:
        """Borrow a connection, which :meth:`putconn` gives back.

        Raises
        ------
        OperationalError
            None came back in time, or no connection can be made.
        """
        patience = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + patience
        old: list[Connection[CursorRowT]] = []
        try:
            with self._changed:
                while True:
                    if self._closed:
                        raise InterfaceError("the pool is closed")
                    found = self._take(old)
                    if found is not None:
                        self._lent.add(found)
                        return found
                    if len(self._lent) + len(self._idle) + self._making < self._max_size:
                        self._making += 1
                        break
                    self._waiting += 1
                    try:
                        changed = self._changed.wait(deadline - time.monotonic())
                    finally:
                        self._waiting -= 1
                    if not changed and time.monotonic() >= deadline:
                        raise OperationalError(
                            f"no connection came back to the pool within {patience:g} seconds: "
                            f"all {self._max_size} are lent"
                        )
        finally:
            for connection in old:
                connection.close()
        return self._make()

    def putconn(self, connection: Connection[CursorRowT]) -> None:
        """Give a connection back: its transaction is undone, and its session made as new."""
        with self._changed:
            if connection not in self._lent:
                raise InterfaceError("the connection is not one that this pool has lent")
        usable = False
        try:
            if not connection.closed:
                connection._reset()
                usable = True
        except Error:
            # It is replaced.
            pass
        finally:
            with self._changed:
                self._lent.discard(connection)
                usable = usable and not self._closed
                if usable:
                    self._idle.append((connection, time.monotonic()))
                self._changed.notify()
            if not usable:
                connection.close()

    @contextlib.contextmanager
    def connection(self, timeout: Optional[float] = None) -> Iterator[Connection[CursorRowT]]:
        """Borrow a connection for a block, which commits at its end, or rolls back after an exception."""
        connection = self.getconn(timeout)
        try:
            yield connection
            if not connection.closed:
                connection.commit()
        finally:
            self.putconn(connection)

    def add_query_logger(self, callback: Callable[[LoggedQuery], object]) -> None:
        """Call a function after each query on any of the connections, those that are yet to be made too.

        Parameters
        ----------
        callback : callable
            As in :meth:`Connection.add_query_logger`.
        """
        with self._changed:
            self._query_loggers.append(callback)
            for connection in (*self._lent, *(connection for connection, _ in self._idle)):
                connection.add_query_logger(callback)

    def close(self) -> None:
        """Close the connections; those that are lent, when they come back."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for connection, _ in idle:
            connection.close()

    def __enter__(self) -> Pool[CursorRowT]:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def _sizes(self) -> dict[str, int]:
        """What `howdah.opentelemetry` tells of a pool; idle connections are not kept."""
        with self._changed:
            return {
                "idle": len(self._idle),
                "used": len(self._lent),
                "waiting": self._waiting,
                "min_size": 0,
                "max_size": self._max_size,
            }

    def _take(self, old: list[Connection[CursorRowT]]) -> Optional[Connection[CursorRowT]]:
        """An idle connection; those that cannot be used any more are put into `old`."""
        now = time.monotonic()
        while self._idle:
            connection, since = self._idle.pop()
            if not (self._max_idle and now - since > self._max_idle) and connection._look():
                return connection
            old.append(connection)
        return None

    def _make(self) -> Connection[CursorRowT]:
        connection = None
        try:
            connection = connect(self._dsn, autocommit=self._autocommit, row_factory=self._row_factory, **self._options)
            return connection
        finally:
            with self._changed:
                self._making -= 1
                if connection is None:
                    self._changed.notify()
                else:
                    for callback in self._query_loggers:
                        connection.add_query_logger(callback)
                    self._lent.add(connection)
