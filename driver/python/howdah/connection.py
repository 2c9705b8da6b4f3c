"""A session with a server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import traceback
import warnings
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Optional, Union, overload

from . import (
    _core,
    compat,
    connect_utils,
    cursor,
    exceptions,
    introspection,
    named,
    pipeline,
    prepared_stmt,
    protocol,
    serverversion,
    transaction,
)
from ._typing import ArgumentLists, ConnectionT, ConnectOptions, IsolationLevel, RecordT, RowT
from .additions import ConnectionAdditions
from .columnar import ColumnMethods
from .copying import CopyMethods
from .listeners import ListenerMethods
from .listeners import LoggedQuery as LoggedQuery
from .listeners import _Callback as _Callback
from .records import check_record_class, check_row_class
from .statement_cache import _StatementCache as _StatementCache
from .statements import StatementMethods
from .type_codecs import TypeCodecMethods
from .types import ServerVersion

if TYPE_CHECKING:
    from typing_extensions import Unpack

# In which form the session gives a query's answer.
_ROWS, _ROW, _VALUE, _STATUS, _EXTRA = range(5)


class _ConnectionProxy:
    """The base of a pool's proxies, which pass for connections."""

    __slots__ = ()


class ConnectionMeta(type):
    """Makes a pool's proxy pass for an instance of the connection's class."""

    def __instancecheck__(cls, instance: object) -> bool:
        mro = type(instance).__mro__
        return Connection in mro or _ConnectionProxy in mro


class ServerCapabilities(NamedTuple):
    """What the server can do, for servers that only speak PostgreSQL's protocol are not all PostgreSQL."""

    advisory_locks: bool
    notifications: bool
    plpgsql: bool
    sql_reset: bool
    sql_close_all: bool
    sql_copy_from_where: bool
    jit: bool


class Connection(
    StatementMethods,
    ListenerMethods,
    CopyMethods,
    TypeCodecMethods,
    ColumnMethods,
    ConnectionAdditions,
    Generic[RecordT],
    metaclass=ConnectionMeta,
):
    """A session with a server, made by :func:`connect`.

    Queries may be asked at the same time, by any number of tasks: they travel together, and are answered in the order
    in which they were asked. Within a transaction's block the connection belongs to the tasks of the block.

    Examples
    --------
    >>> connection = await howdah.connect("postgres://localhost/app")
    >>> await connection.fetchval("select count(*) from flights where carrier = $1", "LH")
    42
    >>> await connection.close()
    """

    __slots__ = (
        "__weakref__",
        "_aborted",
        "_addr",
        "_cancellations",
        "_config",
        "_intro_query",
        "_listeners",
        "_log_listeners",
        "_loop",
        "_params",
        "_pool_holder",
        "_pool_release_ctr",
        "_protocol",
        "_proxy",
        "_query_loggers",
        "_reset_query",
        "_server_caps",
        "_server_version",
        "_source_traceback",
        "_stmt_cache",
        "_stmt_cache_enabled",
        "_stmts_to_close",
        "_termination_listeners",
        "_top_xact",
        "_transport",
        "_watched",
    )

    def __init__(
        self, protocol: Any, transport: Any, loop: asyncio.AbstractEventLoop, addr: Any, config: Any, params: Any
    ) -> None:
        # Until all of it is made: what cannot be made has nothing to close.
        self._protocol: Any = None
        self._transport = transport
        self._loop = loop
        self._addr = addr
        self._config = config
        self._params = params
        self._top_xact: Any = None
        self._aborted = False
        # Counts how often the connection went back to its pool: what was made before is not valid after.
        self._pool_release_ctr = 0
        self._stmt_cache = _StatementCache(
            loop=loop,
            max_size=config.statement_cache_size,
            on_remove=functools.partial(_weak_maybe_gc_stmt, weakref.ref(self)),
            max_lifetime=config.max_cached_statement_lifetime,
            session=protocol,
        )
        self._stmts_to_close: set[Any] = set()
        self._stmt_cache_enabled = config.statement_cache_size > 0
        self._listeners: dict[str, set[_Callback]] = {}
        self._log_listeners: set[_Callback] = set()
        self._cancellations: set[Any] = set()
        self._termination_listeners: set[_Callback] = set()
        self._query_loggers: set[_Callback] = set()
        settings = protocol.get_settings()
        self._server_version = serverversion.split_server_version_string(settings.server_version)
        self._server_caps = _detect_server_capabilities(self._server_version, settings)
        if self._server_version < (14, 0):
            self._intro_query = introspection.INTRO_LOOKUP_TYPES_13
        else:
            self._intro_query = introspection.INTRO_LOOKUP_TYPES
        self._reset_query: Optional[str] = None
        self._proxy: Any = None
        self._pool_holder: Any = None
        self._source_traceback = _extract_stack() if loop.get_debug() else None
        self._watched = _is_watched(type(self), protocol)
        self._protocol = protocol
        protocol.set_connection(self)

    def __del__(self) -> None:
        if self._protocol is not None and not self.is_closed():
            if self._source_traceback:
                message = f"unclosed connection {self!r}; created at:\n {self._source_traceback}"
            else:
                message = (
                    f"unclosed connection {self!r}; run in asyncio debug "
                    "mode to show the traceback of connection origin"
                )
            # Not with itself as the source: whoever collects warnings would keep it alive.
            warnings.warn(message, ResourceWarning, stacklevel=2)
            if not self._loop.is_closed():
                # A pool that is being collected too must not be woken.
                self._pool_holder = None
                self.terminate()

    # What the server is.

    def get_server_pid(self) -> int:
        """Return the process id of the backend."""
        return int(self._protocol.get_server_pid())

    def get_server_version(self) -> ServerVersion:
        """Return the server's version, a :class:`ServerVersion` tuple."""
        return self._server_version

    def get_settings(self) -> _core.ConnectionSettings:
        """Return the parameters that the server has reported, as attributes of an object."""
        return self._protocol.get_settings()  # type: ignore[no-any-return]

    # Transactions.

    def transaction(
        self, *, isolation: Optional[IsolationLevel] = None, readonly: bool = False, deferrable: bool = False
    ) -> transaction.Transaction:
        """Make a transaction, or a savepoint within one.

        Parameters
        ----------
        isolation : {"read_uncommitted", "read_committed", "repeatable_read", "serializable"}, optional
            The isolation level; the server's default without it.
        readonly : bool, default False
            Whether nothing is to be written.
        deferrable : bool, default False
            Whether a serializable transaction that only reads may wait at its beginning so that it cannot fail.

        Returns
        -------
        Transaction
            For `async with`, or to be started and ended by its methods.

        Examples
        --------
        >>> async with connection.transaction():
        ...     await connection.execute("delete from flights")
        """
        self._check_open()
        return transaction.Transaction(self, isolation, readonly, deferrable)

    def is_in_transaction(self) -> bool:
        """Return whether the session is in a transaction."""
        return bool(self._protocol.is_in_transaction())

    # Queries.

    async def _ask_checked(
        self, query: str, args: tuple[Any, ...], timeout: Any, record_class: Any, limit: int, shape: int, column: Any
    ) -> Any:
        # A coroutine, so that what is wrong is raised where the query is awaited, as for all other errors.
        session = self._protocol
        if session is None:
            raise exceptions.InterfaceError("connection is closed")
        if record_class is not None:
            check_row_class(record_class)
        if not self._query_loggers:
            return await session.fetch(query, args, timeout, record_class, limit, shape, column)
        with self._time_and_log(query, args, session._get_timeout(timeout)):
            return await session.fetch(query, args, timeout, record_class, limit, shape, column)

    @compat.markcoroutinefunction
    def execute(
        self, query: str, *args: Any, timeout: Optional[float] = None, **values: Any
    ) -> Coroutine[Any, Any, str]:
        """Execute an SQL command, or several without arguments.

        Parameters
        ----------
        query : str
            The commands; only one when there are arguments.
        *args
            The values of `$1`, `$2` and so on.
        timeout : float, optional
            Seconds; the connection's `command_timeout` by default.
        **values
            The values of `:name` parameters, in place of `args`.

        Returns
        -------
        str
            The status of the last command, as `INSERT 0 1`.

        Examples
        --------
        >>> await connection.execute("delete from flights where id = :id", id=1)
        'DELETE 1'
        """
        if values:
            query, args = named.bind(query, values, args)
        if args:
            return _ask(self, query, args, timeout, None, 0, _STATUS, None)  # type: ignore[no-any-return]
        session = self._protocol
        if session is None or self._query_loggers:
            return self._execute_checked(query, timeout)
        return session.query(query, timeout)  # type: ignore[no-any-return]

    async def _execute_checked(self, query: str, timeout: Any) -> Any:
        session = self._protocol
        if session is None:
            raise exceptions.InterfaceError("connection is closed")
        with self._time_and_log(query, (), timeout):
            return await session.query(query, timeout)

    @overload
    def fetch(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: None = None, **values: Any
    ) -> Coroutine[Any, Any, list[RecordT]]: ...

    @overload
    def fetch(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: type[RowT], **values: Any
    ) -> Coroutine[Any, Any, list[RowT]]: ...

    @compat.markcoroutinefunction
    def fetch(
        self,
        query: str,
        *args: Any,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run a query, and give its rows.

        Parameters
        ----------
        query : str
            The query.
        *args
            The values of `$1`, `$2` and so on.
        timeout : float, optional
            Seconds; the connection's `command_timeout` by default.
        record_class : type, optional
            The class of the rows: one derived from :class:`Record`, or `tuple`, `dict`, a dataclass, a named tuple or a
            model of pydantic, which is called with the values by their columns' names; the connection's own class by
            default.
        **values
            The values of `:name` parameters, in place of `args`.

        Returns
        -------
        list of Record
            The rows.

        Examples
        --------
        >>> await connection.fetch("select id, carrier from flights where day = $1", 3)
        [<Record id=1 carrier='LH'>]
        """
        if values:
            query, args = named.bind(query, values, args)
        if record_class is not None or self._query_loggers or self._watched or self._protocol is None:
            return _ask(self, query, args, timeout, record_class, 0, _ROWS, None)  # type: ignore[no-any-return]
        return self._protocol.fetch(query, args, timeout, None, 0, 0)  # type: ignore[no-any-return]

    @compat.markcoroutinefunction
    def fetchval(
        self, query: str, *args: Any, column: Union[int, str] = 0, timeout: Optional[float] = None, **values: Any
    ) -> Coroutine[Any, Any, Any]:
        """Run a query, and give one value of its first row.

        Parameters
        ----------
        query, args, timeout, values
            As in :meth:`fetch`.
        column : int or str, default 0
            Which value.

        Returns
        -------
        object
            The value; None if it is NULL or there is no row.

        Examples
        --------
        >>> await connection.fetchval("select count(*) from flights")
        42
        """
        if values:
            query, args = named.bind(query, values, args)
        if self._query_loggers or self._watched or self._protocol is None:
            return _ask(self, query, args, timeout, None, 1, _VALUE, column)  # type: ignore[no-any-return]
        return self._protocol.fetch(query, args, timeout, None, 1, 2, column)  # type: ignore[no-any-return]

    @overload
    def fetchrow(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: None = None, **values: Any
    ) -> Coroutine[Any, Any, Optional[RecordT]]: ...

    @overload
    def fetchrow(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: type[RowT], **values: Any
    ) -> Coroutine[Any, Any, Optional[RowT]]: ...

    @compat.markcoroutinefunction
    def fetchrow(
        self,
        query: str,
        *args: Any,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a query, and give its first row.

        Parameters
        ----------
        query, args, timeout, record_class, values
            As in :meth:`fetch`.

        Returns
        -------
        Record or None
            The row; None if there is none.

        Examples
        --------
        >>> await connection.fetchrow("select id, carrier from flights where id = $1", 1)
        <Record id=1 carrier='LH'>
        """
        if values:
            query, args = named.bind(query, values, args)
        return _ask(self, query, args, timeout, record_class, 1, _ROW, None)  # type: ignore[no-any-return]

    async def executemany(self, command: str, args: ArgumentLists, *, timeout: Optional[float] = None) -> None:
        """Run a command once for each of many argument lists, all or none.

        Parameters
        ----------
        command : str
            The command.
        args : iterable or asynchronous iterable of sequences or of mappings
            The argument lists, taken piece by piece while they are sent (of an asynchronous iterable all at first); or
            the values of `:name` parameters.
        timeout : float, optional
            Seconds for the whole.

        Examples
        --------
        >>> await connection.executemany("insert into flights values ($1, $2)", [(1, "LH"), (2, "AF")])
        """
        self._check_open()
        await self._executemany(command, args, timeout)

    @overload
    async def fetchmany(
        self, query: str, args: ArgumentLists, *, timeout: Optional[float] = None, record_class: None = None
    ) -> list[RecordT]: ...

    @overload
    async def fetchmany(
        self, query: str, args: ArgumentLists, *, timeout: Optional[float] = None, record_class: type[RowT]
    ) -> list[RowT]: ...

    async def fetchmany(
        self,
        query: str,
        args: ArgumentLists,
        *,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
    ) -> list[Any]:
        """Run a query once for each of many argument lists, and give the rows of all.

        Parameters
        ----------
        query : str
            The query.
        args : iterable of sequences or of mappings
            The argument lists, or the values of `:name` parameters.
        timeout : float, optional
            Seconds for the whole.
        record_class : type, optional
            As in :meth:`fetch`.

        Returns
        -------
        list of Record
            The rows.

        Examples
        --------
        >>> await connection.fetchmany("insert into flights values ($1) returning id", [(1,), (2,)])
        [<Record id=1>, <Record id=2>]
        """
        self._check_open()
        rows: list[Any] = await self._executemany(query, args, timeout, return_rows=True, record_class=record_class)
        return rows

    def pipeline(self) -> pipeline.Pipeline[RecordT]:
        """Send queries without waiting for their answers, within a block.

        Queries of tasks that run at the same time travel together without this too.

        Returns
        -------
        Pipeline
            A block with the connection's methods that run one query, which give futures.

        Examples
        --------
        >>> async with connection.pipeline() as pipeline:
        ...     first = pipeline.fetchval("select 1")
        ...     second = pipeline.fetchval("select 2")
        >>> first.result() + second.result()
        3
        """
        self._check_open()
        return pipeline.Pipeline(self)

    @overload
    def cursor(
        self,
        query: str,
        *args: Any,
        prefetch: Optional[int] = None,
        timeout: Optional[float] = None,
        record_class: None = None,
        **values: Any,
    ) -> cursor.CursorFactory[RecordT]: ...

    @overload
    def cursor(
        self,
        query: str,
        *args: Any,
        prefetch: Optional[int] = None,
        timeout: Optional[float] = None,
        record_class: type[RowT],
        **values: Any,
    ) -> cursor.CursorFactory[RowT]: ...

    def cursor(
        self,
        query: str,
        *args: Any,
        prefetch: Optional[int] = None,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> cursor.CursorFactory[Any]:
        """Read a query's rows piece by piece, within a transaction.

        Parameters
        ----------
        query, args, record_class, values
            As in :meth:`fetch`.
        prefetch : int, optional
            How many rows the iterator fetches at a time; 50 by default.
        timeout : float, optional
            Seconds for each step.

        Returns
        -------
        CursorFactory
            For `async for`; or to be awaited, for a :class:`Cursor`.

        Examples
        --------
        >>> async with connection.transaction():
        ...     async for row in connection.cursor("select * from flights"):
        ...         print(row)
        """
        self._check_open()
        if values:
            query, args = named.bind(query, values, args)
        return cursor.CursorFactory(self, query, None, args, prefetch, timeout, record_class)

    @overload
    async def prepare(
        self, query: str, *, name: Optional[str] = None, timeout: Optional[float] = None, record_class: None = None
    ) -> prepared_stmt.PreparedStatement[RecordT]: ...

    @overload
    async def prepare(
        self, query: str, *, name: Optional[str] = None, timeout: Optional[float] = None, record_class: type[RowT]
    ) -> prepared_stmt.PreparedStatement[RowT]: ...

    async def prepare(
        self,
        query: str,
        *,
        name: Optional[str] = None,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
    ) -> prepared_stmt.PreparedStatement[Any]:
        """Prepare a statement, to be run many times or to learn its types.

        Parameters
        ----------
        query : str
            The query, with `$1` or `:name` in place of values.
        name : str, optional
            Its name on the server; one is made up without it, and an empty one is the server's unnamed statement.
        timeout : float, optional
            Seconds.
        record_class : type, optional
            As in :meth:`fetch`.

        Returns
        -------
        PreparedStatement
            The statement.

        Examples
        --------
        >>> statement = await connection.prepare("select :number::int + 1")
        >>> await statement.fetchval(number=41)
        42
        """
        return await self._prepare(query, name=name, timeout=timeout, record_class=record_class)

    async def _prepare(
        self,
        query: str,
        *,
        name: Any = None,
        timeout: Optional[float] = None,
        use_cache: bool = False,
        record_class: Optional[type[Any]] = None,
    ) -> prepared_stmt.PreparedStatement[Any]:
        self._check_open()
        if name is None:
            name = self._stmt_cache_enabled
        text, names = named.find(query)
        statement = await self._get_statement(text, timeout, named=name, use_cache=use_cache, record_class=record_class)
        return prepared_stmt.PreparedStatement(self, query, statement, names)

    def _get_unique_id(self, prefix: str) -> str:
        global _uid
        _uid += 1
        return f"__howdah_{prefix}_{_uid:x}__"

    # The session's end, and its being made as new.

    def is_closed(self) -> bool:
        """Return whether the connection is closed."""
        session = self._protocol
        return session is None or self._aborted or not session.is_connected()

    def _check_open(self) -> None:
        if self.is_closed():
            if self._protocol is not None:
                # It knows better why.
                self._protocol._check_open()
            raise exceptions.InterfaceError("connection is closed")

    async def close(self, *, timeout: Optional[float] = None) -> None:
        """Close the connection politely.

        Parameters
        ----------
        timeout : float, optional
            Seconds; after that the connection is dropped.
        """
        try:
            if not self.is_closed():
                await self._protocol.close(timeout)
        except (Exception, asyncio.CancelledError):
            self._abort()
            raise
        finally:
            self._cleanup()

    def terminate(self) -> None:
        """Drop the connection, whatever is under way."""
        if not self._aborted and self._protocol is not None:
            self._abort()
        self._cleanup()

    def _abort(self) -> None:
        self._aborted = True
        if self._protocol is not None:
            self._protocol.abort()
            self._protocol = None

    def _cleanup(self) -> None:
        """Give up what the connection holds; called whenever it has ended."""
        self._call_termination_listeners()
        if self._pool_holder is not None:
            holder, self._pool_holder = self._pool_holder(), None
            if holder is not None and holder._con is self:
                holder._release_on_close()
        self._mark_stmts_as_closed()
        self._listeners.clear()
        self._log_listeners.clear()
        self._query_loggers.clear()
        self._clean_tasks()

    def _clean_tasks(self) -> None:
        if self._cancellations:
            try:
                current = asyncio.current_task(self._loop)
            except RuntimeError:
                current = None
            for task in self._cancellations:
                if task is not current and not task.done():
                    task.cancel()
            self._cancellations.clear()

    async def _reset(self) -> None:
        self._check_open()
        self._listeners.clear()
        self._log_listeners.clear()
        if self._protocol.is_in_transaction() or self._top_xact is not None:
            if self._top_xact is None or not self._top_xact._managed:
                # A block ends its transaction by itself, one begun by hand was forgotten.
                self._loop.call_exception_handler(
                    {"message": f"Resetting connection with an active transaction {self!r}"}
                )
            transaction, self._top_xact = self._top_xact, None
            await self._protocol.finish("ROLLBACK")
            if transaction is not None:
                transaction._give_lease_back()

    async def reset(self, *, timeout: Optional[float] = None) -> None:
        """Make the session as new: no transaction, cursors, settings, listeners or advisory locks.

        Parameters
        ----------
        timeout : float, optional
            Seconds.
        """
        async with compat.timeout(timeout):
            await self._reset()
            query = self.get_reset_query()
            if query:
                await self.execute(query)

    def get_reset_query(self) -> str:
        """Return the commands that make the session as new, which a derived class may change."""
        if self._reset_query is None:
            caps = self._server_caps
            commands = []
            if caps.advisory_locks:
                commands.append("SELECT pg_advisory_unlock_all();")
            if caps.sql_close_all:
                commands.append("CLOSE ALL;")
            if caps.notifications and caps.plpgsql:
                commands.append("UNLISTEN *;")
            if caps.sql_reset:
                commands.append("RESET ALL;")
            self._reset_query = "\n".join(commands)
        return self._reset_query

    def _set_proxy(self, proxy: Any) -> None:
        if self._proxy is not None and proxy is not None:
            raise exceptions.InterfaceError("internal error: connection is already proxied")
        self._proxy = proxy

    def _on_release(self, stacklevel: int = 1) -> None:
        """Called when the connection goes back to its pool."""
        self._pool_release_ctr += 1
        if self._listeners:
            callbacks = [callback for group in self._listeners.values() for callback in group]
            self._check_listeners(callbacks, "notification")
        if self._log_listeners:
            self._check_listeners(self._log_listeners, "log")

    # Cancellation.

    def _cancel_current_command(self, waiter: Any, cancel_waiter: Any = None) -> None:
        self._cancellations.add(self._loop.create_task(self._cancel(waiter, cancel_waiter)))

    async def _cancel(self, waiter: Any, cancel_waiter: Any = None) -> None:
        """Ask the server to cancel the current command, and wait until it has ended."""
        try:
            async with compat.timeout(self._config.command_timeout):
                # Some servers end the connection that way once they have read the request.
                with contextlib.suppress(ConnectionResetError):
                    await connect_utils._cancel(
                        loop=self._loop,
                        addr=self._addr,
                        params=self._params,
                        backend_pid=self._protocol.backend_pid,
                        backend_secret=self._protocol.backend_secret,
                    )
                if not waiter.done():
                    waiter.set_result(None)
                if cancel_waiter is not None:
                    await asyncio.shield(cancel_waiter)
        except asyncio.CancelledError:
            pass
        except Exception:
            if not self._aborted:
                # Nobody knows whether the request will hit something later.
                self.terminate()
        finally:
            self._cancellations.discard(asyncio.current_task(self._loop))
            if not waiter.done():
                waiter.set_result(None)


# Those who watch queries, as a derived class or by replacing methods, do so in places that asyncpg passes.
_EXECUTE = Connection.execute


def _is_watched(kind: type[Connection[Any]], session: Any) -> bool:
    """Whether somebody has put methods of their own in the place of those that asyncpg's queries pass."""
    own = (
        (kind, "execute", _EXECUTE),
        (kind, "_execute", StatementMethods._execute),
        (kind, "_do_execute", StatementMethods._do_execute),
        (type(session), "bind_execute", _core.Session.bind_execute),
        (type(session), "query", _core.Session.query),
    )
    return any(getattr(holder, name, None) is not method for holder, name, method in own)


def _ask(
    connection: Connection[Any],
    query: str,
    args: tuple[Any, ...],
    timeout: Any,
    record_class: Any,
    limit: int,
    shape: int,
    column: Any,
) -> Any:
    """What is common to queries that are not the plain case."""
    if connection._watched:
        return _ask_watched(connection, query, args, timeout, record_class, limit, shape, column)
    session = connection._protocol
    if session is None or record_class is not None or connection._query_loggers:
        return connection._ask_checked(query, args, timeout, record_class, limit, shape, column)
    return session.fetch(query, args, timeout, None, limit, shape, column)


async def _ask_watched(
    connection: Connection[Any],
    query: str,
    args: tuple[Any, ...],
    timeout: Any,
    record_class: Any,
    limit: int,
    shape: int,
    column: Any,
) -> Any:
    """The same, past those who watch it."""
    connection._check_open()
    if shape == _STATUS:
        _, status, _ = await connection._execute(query, args, limit, timeout, return_status=True)
        return status.decode()
    rows = await connection._execute(query, args, limit, timeout, record_class=record_class)
    if shape == _ROWS:
        return rows
    if not rows:
        return None
    return rows[0] if shape == _ROW else rows[0][column]


@overload
async def connect(
    dsn: Optional[str] = None,
    *,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    record_class: type[RecordT] = ...,
    **options: Unpack[ConnectOptions],
) -> Connection[RecordT]: ...


@overload
async def connect(
    dsn: Optional[str] = None,
    *,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    connection_class: type[ConnectionT],
    record_class: type[protocol.Record] = ...,
    **options: Unpack[ConnectOptions],
) -> ConnectionT: ...


async def connect(
    dsn: Optional[str] = None,
    *,
    host: Any = None,
    port: Any = None,
    user: Optional[str] = None,
    password: Any = None,
    passfile: Any = None,
    service: Optional[str] = None,
    servicefile: Any = None,
    database: Optional[str] = None,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    timeout: Optional[float] = 60,
    statement_cache_size: int = 100,
    max_cached_statement_lifetime: float = 300,
    max_cacheable_statement_size: int = 1024 * 15,
    command_timeout: Optional[float] = None,
    ssl: Any = None,
    direct_tls: Optional[bool] = None,
    connection_class: Any = Connection,
    record_class: Any = protocol.Record,
    server_settings: Optional[dict[str, str]] = None,
    target_session_attrs: Any = None,
    krbsrvname: Optional[str] = None,
    gsslib: Optional[str] = None,
) -> Any:
    """Connect to a server.

    What is not given comes from the environment (PGHOST and the like), the service file and the password file, as with
    libpq.

    Parameters
    ----------
    dsn : str, optional
        A URI: `postgres://user:password@host1:port1,host2:port2/database?option=value`, with libpq's options
        (`sslmode`, `connect_timeout`, `channel_binding`, ...); unknown ones are settings of the server. Or libpq's
        words: `host=... port=... dbname=... user=...`.
    host : str or list of str, optional
        Host names, addresses or directories of Unix sockets, tried one after the other.
    port : int or list of int, optional
        One port for all hosts or one for each.
    user, database : str, optional
        Who logs in, and to which database.
    password : str or callable, optional
        The password, or a function or coroutine function that gives it.
    passfile, service, servicefile : str or path, optional
        Where passwords are, and a service with the file that describes it.
    loop : asyncio.AbstractEventLoop, optional
        The loop; the running one by default.
    timeout : float, default 60
        Seconds for connecting.
    statement_cache_size : int, default 100
        How many statements to keep prepared; 0 for none.
    max_cached_statement_lifetime : float, default 300
        Seconds for which a statement is kept; 0 for ever.
    max_cacheable_statement_size : int, default 15360
        Queries longer than this are not kept; 0 for any.
    command_timeout : float, optional
        Seconds for each operation that is not given its own.
    ssl : bool, str or ssl.SSLContext, optional
        One of libpq's modes (`prefer` by default over TCP), or a context; True is `verify-full` with the system's
        certificates.
    direct_tls : bool, optional
        Whether to begin with TLS at once, without asking the server; a context of one's own then has to offer the
        protocol `postgresql` (:meth:`ssl.SSLContext.set_alpn_protocols`).
    connection_class : type
        The class of the connection, derived from :class:`Connection`.
    record_class : type
        The class of rows, derived from :class:`Record`.
    server_settings : dict, optional
        Settings of the session.
    target_session_attrs : {"any", "primary", "standby", "prefer-standby", "read-write", "read-only"}, optional
        What the server has to be.
    krbsrvname, gsslib : str, optional
        The service name and the library for GSSAPI.

    Returns
    -------
    Connection
        The connection.

    Raises
    ------
    OSError
        No host can be reached.
    PostgresError
        The server refuses.
    ClientConfigurationError
        The parameters contradict each other or cannot be read.
    asyncio.TimeoutError
        It takes too long.

    Examples
    --------
    >>> connection = await howdah.connect("postgres://app@localhost/app", command_timeout=10)
    """
    if not issubclass(connection_class, Connection):
        raise exceptions.InterfaceError(
            "connection_class is expected to be a subclass of asyncpg.Connection, here howdah.Connection, "
            f"got {connection_class!r}"
        )
    if record_class is not protocol.Record:
        check_record_class(record_class)
    if loop is None:
        loop = asyncio.get_event_loop()
    async with compat.timeout(timeout):
        return await connect_utils._connect(
            loop=loop,
            connection_class=connection_class,
            record_class=record_class,
            dsn=dsn,
            host=host,
            port=port,
            user=user,
            password=password,
            passfile=passfile,
            service=service,
            servicefile=servicefile,
            ssl=ssl,
            direct_tls=direct_tls,
            database=database,
            server_settings=server_settings,
            command_timeout=command_timeout,
            statement_cache_size=statement_cache_size,
            max_cached_statement_lifetime=max_cached_statement_lifetime,
            max_cacheable_statement_size=max_cacheable_statement_size,
            target_session_attrs=target_session_attrs,
            krbsrvname=krbsrvname,
            gsslib=gsslib,
        )


def _detect_server_capabilities(server_version: Any, settings: Any) -> ServerCapabilities:
    if hasattr(settings, "padb_revision"):
        # Amazon Redshift.
        return ServerCapabilities(False, False, False, True, False, False, False)
    if hasattr(settings, "crdb_version") or hasattr(settings, "crate_version"):
        # CockroachDB, CrateDB.
        return ServerCapabilities(False, False, False, False, False, False, False)
    return ServerCapabilities(
        advisory_locks=True,
        notifications=True,
        plpgsql=True,
        sql_reset=True,
        sql_close_all=True,
        sql_copy_from_where=server_version.major >= 12,
        jit=server_version >= (11, 0),
    )


def _extract_stack(limit: int = 10) -> str:
    """Where the program is, outside of this package."""
    stack = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe().f_back), lookup_lines=False)
    here = __file__.rpartition("connection.py")[0]
    frames = list(stack)
    while frames and frames[0].filename.startswith(here):
        frames.pop(0)
    return "".join(traceback.format_list(frames[:limit][::-1]))


def _weak_maybe_gc_stmt(weak_ref: Any, statement: Any) -> None:
    connection = weak_ref()
    if connection is not None:
        connection._maybe_gc_stmt(statement)


_uid = 0
