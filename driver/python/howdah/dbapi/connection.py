"""A connection that blocks: the driver's own, driven on the thread that asks."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import inspect
import select
import warnings
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Optional, Union, overload

from .. import _core, connect_utils, connection, exceptions, prepared_stmt, queries
from .._typing import Arguments, CursorRowT, IsolationLevel, SessionOptions
from ..cursor import CursorFactory
from ..listeners import LoggedQuery
from ..transaction import ISOLATION_LEVELS
from . import errors
from ._loop import Loop
from ._models import Models
from ._notices import Notices
from ._two_phase import TwoPhase
from .columns import ColumnCursor
from .cursor import Cursor
from .errors import Diagnostics, InterfaceError, InternalError, ProgrammingError, raise_not_connected
from .info import ConnectionInfo
from .rows import RowFactory, check_factory
from .server_cursor import ServerCursor
from .streaming import StreamCursor

if TYPE_CHECKING:
    from typing import TypeVar

    from typing_extensions import Self, Unpack

    _T = TypeVar("_T")

# How long a polite end may take.
_GOODBYE = 5


# Attributes of psycopg's that do not exist here.
_ELSEWHERE = {
    "prepare_threshold": "each statement is prepared; connect(statement_cache_size=0) keeps none",
    "prepared_max": "use connect(statement_cache_size=...)",
    "cursor_factory": "use row_factory, or cursor(stream=True) and its like",
    "server_cursor_factory": "use cursor(name, scrollable=...)",
    "adapters": "use connection.asynchronous.set_type_codec()",
}

_Asynchronous = connection.Connection
_Statement = prepared_stmt.PreparedStatement
# The coroutines of the asynchronous interface's queries and COPY.
_COMMANDS = frozenset(
    inspect.unwrap(function).__code__
    for function in (
        queries._ask_checked,
        queries._ask_watched,
        queries._execute_checked,
        queries.executemany,
        queries.fetchmany,
        _Asynchronous.copy_columns_to_table,
        _Asynchronous.copy_from_query,
        _Asynchronous.copy_from_table,
        _Asynchronous.copy_records_to_table,
        _Asynchronous.copy_to_table,
        _Asynchronous.fetch_columns,
        _Asynchronous.prepare,
        _Statement.executemany,
        _Statement.explain,
        _Statement.fetch,
        _Statement.fetchmany,
        _Statement.fetchrow,
        _Statement.fetchval,
    )
)


def _is_command(awaitable: Any) -> bool:
    """Whether it is a query or COPY of the asynchronous interface."""
    if isinstance(awaitable, (_core.Operation, CursorFactory)):
        return True
    return getattr(awaitable, "cr_code", None) in _COMMANDS


class Connection(Models, TwoPhase, Generic[CursorRowT]):
    """A session with a server, made by :func:`connect`.

    Several threads may use it: one waits while another one's command runs. As a block it commits at the end, or rolls
    back after an exception, and closes.

    Examples
    --------
    >>> with howdah.dbapi.connect("postgres://localhost/app") as connection:
    ...     with connection.cursor() as cursor:
    ...         cursor.execute("insert into flights values (%s, %s)", (1, "LH"))
    """

    # PEP 249's exceptions are attributes of connections too.
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    #: What makes the rows of new cursors, from the names of the columns; tuples by default.
    row_factory: Optional[RowFactory[CursorRowT]] = None

    def __init__(
        self,
        loop: Loop,
        inner: connection.Connection[Any],
        autocommit: bool,
        row_factory: Optional[RowFactory[CursorRowT]],
    ) -> None:
        super().__init__(loop, inner)
        self._made_with = autocommit, row_factory, None, None, None
        self._notices = Notices()
        self._notices.listen(inner)
        self._use(self._made_with)
        self._keep()
        self._savepoints = 0
        # How many blocks of transaction() are open.
        self._blocks = 0
        # When a pool got it back last.
        self._returned = 0.0

    def __setattr__(self, name: str, value: Any) -> None:
        # What is not known would do nothing.
        if name[0] != "_" and not hasattr(type(self), name):
            hint = _ELSEWHERE.get(name)
            raise AttributeError(f"a connection has no attribute {name!r}" + (f": {hint}" if hint else ""))
        super().__setattr__(name, value)

    def _use(self, attributes: tuple[Any, ...]) -> None:
        """Take the values of the attributes that can be set."""
        self._isolation: Optional[IsolationLevel]
        self._readonly: Optional[bool]
        self._deferrable: Optional[bool]
        self._autocommit, self.row_factory, self._isolation, self._readonly, self._deferrable = attributes
        self._choose_begin()

    def _keep(self) -> None:
        """Have each borrower find the attributes and handlers as they are now."""
        self._kept = self._autocommit, self.row_factory, self._isolation, self._readonly, self._deferrable
        self._kept_begin = self._begin_sql
        self._kept_handlers = tuple(self._notices.handlers)

    # What PEP 249 asks for.

    @overload
    def cursor(
        self,
        name: None = None,
        *,
        stream: Literal[False] = False,
        columns: Literal[False] = False,
        row_factory: None = None,
    ) -> Cursor[CursorRowT]: ...

    @overload
    def cursor(
        self,
        name: None = None,
        *,
        stream: Literal[False] = False,
        columns: Literal[False] = False,
        row_factory: RowFactory[_T],
    ) -> Cursor[_T]: ...

    @overload
    def cursor(self, name: None = None, *, columns: Literal[True]) -> ColumnCursor: ...

    @overload
    def cursor(
        self, name: Optional[str] = None, *, stream: bool = True, row_factory: None = None
    ) -> StreamCursor[CursorRowT]: ...

    @overload
    def cursor(
        self, name: Optional[str] = None, *, stream: bool = True, row_factory: RowFactory[_T]
    ) -> StreamCursor[_T]: ...

    @overload
    def cursor(
        self,
        name: str,
        *,
        scrollable: Optional[bool] = None,
        withhold: bool = False,
        row_factory: Optional[RowFactory[Any]] = None,
    ) -> Any: ...

    def cursor(
        self,
        name: Optional[str] = None,
        *,
        stream: bool = False,
        columns: bool = False,
        scrollable: Optional[bool] = None,
        withhold: bool = False,
        row_factory: Optional[RowFactory[Any]] = None,
    ) -> Any:
        """Make a cursor.

        Parameters
        ----------
        name : str, optional
            A name stands for `stream=True`; with one of the next two it is the name of a cursor on the server.
        stream : bool, default False
            Whether rows are to come piece by piece while they are fetched, within a transaction.
        columns : bool, default False
            Whether results are to be columns, as for :meth:`howdah.Connection.fetch_columns`.
        scrollable : bool, optional
            Whether :meth:`ServerCursor.scroll` may go backwards; None leaves it to the query.
        withhold : bool, default False
            Whether the cursor outlives its transaction, its rows being kept on the server.
        row_factory : callable, optional
            What makes rows of tuples: :func:`dict_row`, `class_row(kind)`, or a function of the columns' names that
            gives a function of a tuple.

        Returns
        -------
        Cursor, StreamCursor, ServerCursor or ColumnCursor
            The cursor.
        """
        self._check()
        check_factory(row_factory)
        if scrollable is not None or withhold:
            if name is None or stream or columns:
                raise InterfaceError("scrollable and withhold need a name, and neither stream=True nor columns=True")
            return ServerCursor(self, name, scrollable, withhold, row_factory or self.row_factory)
        if not (stream or columns or name is not None):
            return Cursor(self, row_factory or self.row_factory)
        if not columns:
            return StreamCursor(self, row_factory or self.row_factory)
        if stream or name is not None:
            raise InterfaceError("columns=True cannot be combined with stream=True or a name")
        return ColumnCursor(self)

    def commit(self) -> None:
        """End the transaction, and keep what it did.

        Raises
        ------
        InternalError
            The transaction had failed, so that the server has rolled it back.
        ProgrammingError
            It is that of a block of :meth:`transaction`, which ends it itself.
        """
        self._check_one_phase("commit")
        self._check_no_block("commit")
        self._commit()

    def rollback(self) -> None:
        """End the transaction, and undo what it did."""
        self._check_one_phase("rollback")
        self._check_no_block("rollback")
        self._finish("ROLLBACK")

    def close(self) -> None:
        """Close the connection; a transaction that was not committed is undone."""
        with self._lock:
            if self._loop.is_closed():
                return
            try:
                if not self._inner.is_closed():
                    self._loop.complete(self._inner.close(timeout=_GOODBYE))
            except (OSError, asyncio.TimeoutError, exceptions.PostgresError, exceptions.InterfaceError):
                pass
            finally:
                self.terminate()

    # What is more.

    @property
    def autocommit(self) -> bool:
        """Whether each command is a transaction of its own, in place of one that begins by itself."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._check_idle("autocommit")
        self._autocommit = bool(value)

    @property
    def isolation_level(self) -> Optional[IsolationLevel]:
        """The level of transactions: "serializable", "repeatable_read", ...; None for the server's default.

        SQL's own words, `"REPEATABLE READ"`, are taken too, and psycopg's `IsolationLevel`.
        """
        return self._isolation

    @isolation_level.setter
    def isolation_level(self, value: Optional[IsolationLevel]) -> None:
        self._check_idle("isolation_level")
        if isinstance(value, enum.Enum):
            value = value.name
        if isinstance(value, str):
            value = value.lower().replace(" ", "_")  # type: ignore[assignment]
        if value is not None and value not in ISOLATION_LEVELS:
            raise ProgrammingError(f"isolation_level is expected to be one of {list(ISOLATION_LEVELS)}, got {value!r}")
        self._isolation = value
        self._choose_begin()

    @property
    def read_only(self) -> Optional[bool]:
        """Whether transactions only read; None for the server's default."""
        return self._readonly

    @read_only.setter
    def read_only(self, value: Optional[bool]) -> None:
        self._check_idle("read_only")
        self._readonly = None if value is None else bool(value)
        self._choose_begin()

    @property
    def readonly(self) -> Optional[bool]:
        """The same by psycopg2's name."""
        return self._readonly

    @readonly.setter
    def readonly(self, value: Optional[bool]) -> None:
        self.read_only = value

    @property
    def deferrable(self) -> Optional[bool]:
        """Whether a serializable transaction that only reads may wait at its beginning so that it cannot fail.

        None is the server's default.
        """
        return self._deferrable

    @deferrable.setter
    def deferrable(self, value: Optional[bool]) -> None:
        self._check_idle("deferrable")
        self._deferrable = None if value is None else bool(value)
        self._choose_begin()

    @property
    def in_transaction(self) -> bool:
        """Whether the session is in a transaction."""
        return not self.closed and bool(self._session.is_in_transaction())

    @property
    def info(self) -> ConnectionInfo:
        """What is known of the connection: its server, user, database, transaction, settings."""
        return ConnectionInfo(self)

    @property
    def notices(self) -> list[str]:
        """The last fifty messages of the server below errors, as psycopg2 writes them; the list may be emptied."""
        return self._notices.kept

    def add_notice_handler(self, callback: Callable[[Diagnostics], object]) -> None:
        """Call a function with each message of the server below errors.

        Parameters
        ----------
        callback : callable
            Called with the message's fields by psycopg's names: `message_primary`, `severity` and so on.

        Examples
        --------
        >>> connection.add_notice_handler(lambda diag: print(diag.severity, diag.message_primary))
        """
        self._notices.handlers.append(callback)

    def remove_notice_handler(self, callback: Callable[[Diagnostics], object]) -> None:
        """Undo :meth:`add_notice_handler`."""
        self._notices.handlers.remove(callback)

    @property
    def server_version(self) -> Any:
        """The server's version, a tuple."""
        return self._inner.get_server_version()

    @property
    def asynchronous(self) -> connection.Connection[Any]:
        """The same connection with asyncpg's interface; pass its awaitables to :meth:`wait`."""
        return self._inner

    def wait(self, awaitable: Awaitable[_T]) -> _T:
        """Run an awaitable to its end, on this thread.

        Queries and COPY of :attr:`asynchronous` are part of the transaction, and begin one as other commands do.
        What sets the session up (codecs, listeners), `transaction()` and coroutines of the program's own begin none.

        Parameters
        ----------
        awaitable : awaitable
            A call of a method of :attr:`asynchronous`.

        Returns
        -------
        object
            The result of the awaitable.

        Examples
        --------
        >>> connection.wait(connection.asynchronous.reload_schema_state())
        """
        with self._lock:
            self._check()
            if _is_command(awaitable):
                self._begin()
            return self._complete(awaitable)  # type: ignore[no-any-return]

    def execute(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> Cursor[CursorRowT]:
        """Make a cursor and execute a command with it."""
        return self.cursor().execute(operation, parameters)

    def fetch_columns(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> _core.Columns:
        """Run a query, and give its result as columns.

        Returns
        -------
        Columns
            Columns that Arrow's libraries and NumPy take without copying.
        """
        return self.cursor(columns=True).execute(operation, parameters).fetch_columns()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Make a block a transaction, or a savepoint within one: kept at its end, undone by an exception.

        Within it :meth:`commit` and :meth:`rollback` are refused.

        Examples
        --------
        >>> with connection.transaction():
        ...     connection.execute("delete from flights")
        """
        with self._lock:
            self._check()
            name = None
            if self._session.is_in_transaction():
                self._savepoints += 1
                name = f"howdah_{self._savepoints}"
                self._simple(f"SAVEPOINT {name}")
            else:
                self._session.begin(self._begin_sql)
            self._blocks += 1
        try:
            yield self
        except BaseException:
            self._blocks -= 1
            # The block's exception comes through, whatever becomes of its transaction.
            with contextlib.suppress(errors.Error):
                if not self.closed:
                    self._undo(name)
            raise
        self._blocks -= 1
        if name is None:
            self._commit()
        else:
            self._simple(f"RELEASE SAVEPOINT {name}")

    def ping(self) -> None:
        """Send an empty query, to learn whether the server answers; this begins no transaction."""
        with self._lock:
            self._check()
            self._simple(";")

    def cancel(self) -> None:
        """Cancel the command that another thread runs on the connection: that thread gets :exc:`OperationalError`."""
        if self.closed:
            return
        inner, session = self._inner, self._session
        loop = Loop()
        try:
            loop.complete(
                connect_utils._cancel(
                    loop=loop,
                    addr=inner._addr,
                    params=inner._params,
                    backend_pid=session.backend_pid,
                    backend_secret=session.backend_secret,
                )
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise_not_connected(error)
        finally:
            loop.close()

    def add_query_logger(self, callback: Callable[[LoggedQuery], object]) -> None:
        """Call a function after each command of the connection and its cursors.

        Operations that :meth:`wait` runs go to the query loggers of :attr:`asynchronous` instead.

        Parameters
        ----------
        callback : callable
            Called with a `LoggedQuery`: its `query`, `args`, `elapsed` (seconds), `exception`, `conn_addr` and
            `conn_params`.

        Examples
        --------
        >>> connection.add_query_logger(lambda record: print(record.query, record.elapsed))
        """
        self._query_loggers.append(callback)

    def remove_query_logger(self, callback: Callable[[LoggedQuery], object]) -> None:
        """Undo :meth:`add_query_logger`."""
        if callback in self._query_loggers:
            self._query_loggers.remove(callback)

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        try:
            if not self.closed:
                if kind is None:
                    self.commit()
                else:
                    with contextlib.suppress(errors.Error):
                        self.rollback()
        finally:
            self.close()

    def __del__(self) -> None:
        inner = getattr(self, "_inner", None)
        if inner is None or self._loop.is_closed() or inner.is_closed():
            return
        warnings.warn(f"unclosed connection {self!r}", ResourceWarning, stacklevel=2)
        self.terminate()

    # How transactions begin, and savepoints are undone.

    def _check_idle(self, name: str) -> None:
        self._check()
        if self._session.is_in_transaction():
            raise ProgrammingError(f"{name} cannot be set within a transaction: commit or roll back first")

    def _check_no_block(self, name: str) -> None:
        if self._blocks:
            raise ProgrammingError(
                f"{name}() cannot be used within a block of transaction(), which commits at its end and rolls back "
                "after an exception"
            )

    def _commit(self) -> None:
        if self._finish("COMMIT") == "ROLLBACK":
            raise InternalError("the transaction had failed before, and was rolled back by COMMIT")

    def _choose_begin(self) -> None:
        parts = ["BEGIN"]
        if self._isolation is not None:
            parts.append(f"ISOLATION LEVEL {ISOLATION_LEVELS[self._isolation].upper()}")
        if self._readonly is not None:
            parts.append("READ ONLY" if self._readonly else "READ WRITE")
        if self._deferrable is not None:
            parts.append("DEFERRABLE" if self._deferrable else "NOT DEFERRABLE")
        self._begin_sql = " ".join(parts) + ";"

    def _undo(self, savepoint: Optional[str]) -> None:
        if savepoint is None:
            self._finish("ROLLBACK")
        else:
            self._simple(f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}")

    # What a pool asks.

    def _look(self) -> bool:
        """Read what came while nobody asked; whether the connection still stands."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self._session.transport.get_extra_info("socket").fileno(), select.POLLIN)
        while not self.closed and poll.poll(0):
            self._loop.turn()
        # A server says why it closes a connection before it does.
        return not self.closed and not self._session.is_dismissed()

    def _is_as_new(self) -> bool:
        """Whether there is nothing to reset, for certain."""
        return (
            self._autocommit is self._kept[0]
            and self.row_factory is self._kept[1]
            and self._begin_sql == self._kept_begin
            and not self._notices.kept
            and tuple(self._notices.handlers) == self._kept_handlers
            and self._session.is_unchanged()
        )

    def _prepare_for(self, configure: Callable[[Self], object]) -> None:
        """Have a pool's function set what each borrower is to find."""
        configure(self)
        self.commit()
        self._notices.kept.clear()
        self._keep()
        # There is nothing of a borrower's.
        self._session.forget_changes()

    def _reset(self, configure: Optional[Callable[[Self], object]] = None) -> None:
        """Make the session as new, or as a pool's function leaves a new one."""
        self._finish("ROLLBACK")
        self._two_phase = None
        self._blocks = 0
        self._notices.kept.clear()
        unchanged = self._session.is_unchanged()
        if unchanged or configure is None:
            self._use(self._kept)
            self._notices.handlers[:] = self._kept_handlers
        if unchanged:
            return
        self._complete(self._inner.reset())
        self._notices.listen(self._inner)
        self._session.forget_changes()
        if configure is not None:
            self._use(self._made_with)
            self._notices.handlers.clear()
            loggers = len(self._query_loggers)
            self._prepare_for(configure)
            # Those that it has added the first time are there.
            del self._query_loggers[loggers:]

    def _is_elsewhere(self) -> bool:
        """Whether the connection is another process's, which has forked this one since."""
        return self._loop.is_elsewhere()


def connect(
    dsn: Optional[str] = None,
    *,
    autocommit: bool = False,
    row_factory: Optional[RowFactory[CursorRowT]] = None,
    timeout: Optional[float] = 60,
    **options: Unpack[SessionOptions],
) -> Connection[CursorRowT]:
    """Connect to a server.

    Parameters
    ----------
    dsn : str, optional
        A URI (`postgres://user@host/database`) or libpq's words (`host=... dbname=...`). Values that are not given come
        from the environment, as with libpq.
    autocommit : bool, default False
        Whether each command is a transaction of its own. If not, the first command begins one, which
        :meth:`Connection.commit` ends.
    row_factory : callable, optional
        The factory of the cursors' rows: :func:`dict_row`, `class_row(kind)`; tuples by default.
    timeout : float, default 60
        Seconds for connecting.
    **options
        As for :func:`howdah.connect`: `host`, `port`, `user`, `password`, `database`, `ssl`, `server_settings`,
        `command_timeout` and the others.

    Returns
    -------
    Connection
        The connection.

    Raises
    ------
    OperationalError
        No host can be reached, it takes too long, the server refuses, or a parameter has a wrong value.

    Examples
    --------
    >>> connection = howdah.dbapi.connect("host=localhost dbname=app", autocommit=True)
    """
    check_factory(row_factory)
    loop = Loop()
    settings: SessionOptions = {"max_cached_statement_lifetime": 0, **options}
    try:
        inner = loop.complete(connection.connect(dsn, loop=loop, timeout=timeout, **settings))
    except BaseException as error:
        loop.turn()
        loop.close()
        raise_not_connected(error)
    return Connection(loop, inner, autocommit, row_factory)
