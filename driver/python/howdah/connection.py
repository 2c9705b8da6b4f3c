"""A session with a server.

A connection is put together from objects, each with a concern of its own: its :class:`.statements.Statements`, the
program's :class:`.listeners.Callbacks`, the :class:`.cancellation.Cancellations` under way, and the native session.
The class lists its methods; those that stand in other modules are functions there, named for what they do.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, overload

from . import (
    _core,
    additions,
    capabilities,
    columnar,
    compat,
    copying,
    cursor,
    exceptions,
    listeners,
    named,
    pipeline,
    prepared_stmt,
    queries,
    reports,
    serverversion,
    statements,
    transaction,
    type_codecs,
)
from ._typing import IsolationLevel, RecordT, RowT
from .cancellation import Cancellations
from .capabilities import ServerCapabilities as ServerCapabilities
from .fetching import Fetching, name_methods
from .listeners import Callbacks
from .listeners import LoggedQuery as LoggedQuery
from .listeners import _Callback as _Callback
from .statement_cache import _StatementCache as _StatementCache
from .statements import Statements
from .types import ServerVersion


class _ConnectionProxy:
    """The base of a pool's proxies, which pass for connections."""

    __slots__ = ()


class ConnectionMeta(type):
    """Makes a pool's proxy pass for an instance of the connection's class."""

    def __instancecheck__(cls, instance: object) -> bool:
        mro = type(instance).__mro__
        return Connection in mro or _ConnectionProxy in mro


class Connection(Fetching[RecordT], metaclass=ConnectionMeta):
    """A session with a server, made by :func:`connect`.

    Any number of tasks may run queries at the same time: the queries travel together, and are answered in the order in
    which they were started. Within a transaction's block the connection belongs to the tasks of the block.

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
        "_callbacks",
        "_cancelling",
        "_config",
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
        "_statements",
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
        settings = protocol.get_settings()
        settings.set_truncates(config.truncate)
        self._server_version = serverversion.split_server_version_string(settings.server_version)
        self._server_caps = capabilities.detect(self._server_version, settings)
        self._statements = Statements(
            protocol,
            loop,
            config,
            has_multiranges=self._server_version >= (14, 0),
            has_jit=self._server_caps.jit,
        )
        self._callbacks = Callbacks(loop, addr, params)
        # The callbacks' own, looked at with each query.
        self._query_loggers = self._callbacks.queries
        self._cancelling = Cancellations(loop)
        self._reset_query: Optional[str] = None
        self._proxy: Any = None
        self._pool_holder: Any = None
        self._source_traceback = _extract_stack() if loop.get_debug() else None
        self._watched = queries.is_watched(type(self), protocol)
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
            Whether the transaction is read-only.
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

    if not TYPE_CHECKING:
        # Their types are those of the declarations.
        fetch = queries.fetch
        fetchmany = queries.fetchmany
        fetchrow = queries.fetchrow
    execute = queries.execute
    executemany = queries.executemany
    fetchval = queries.fetchval
    reload_schema_state = statements.reload_schema_state

    # asyncpg's names, which libraries that watch queries put methods of their own in place of.
    _execute = statements.run_once
    _executemany = statements.run_many
    _do_execute = statements.run_statement

    # What the native session calls.
    _fetch_unprepared = statements.fetch_unprepared
    _fetch_again = statements.fetch_again

    def pipeline(self) -> pipeline.Pipeline[RecordT]:
        """Send queries without waiting for their answers, within a block.

        Queries of tasks that run at the same time travel together without a pipeline, too.

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
        by_name: bool = True,
    ) -> prepared_stmt.PreparedStatement[Any]:
        self._check_open()
        if name is None:
            name = self._config.statement_cache_size > 0
        text, names = named.find(query) if by_name else (query, ())
        statement = await self._statements.get(
            text, timeout, named=name, use_cache=use_cache, record_class=record_class
        )
        return prepared_stmt.PreparedStatement(self, query, statement, names)

    # COPY, columns and matrices, codecs, callbacks, and what is built on the others.

    copy_from_query = copying.copy_from_query
    copy_from_table = copying.copy_from_table
    copy_records_to_table = copying.copy_records_to_table
    copy_to_table = copying.copy_to_table

    copy_columns_to_table = columnar.copy_columns_to_table
    explain = columnar.explain
    fetch_columns = columnar.fetch_columns
    predict = columnar.predict
    predict_proba = columnar.predict_proba

    decode_far_dates = type_codecs.decode_far_dates
    decode_json = type_codecs.decode_json
    keep_texts = type_codecs.keep_texts
    reset_type_codec = type_codecs.reset_type_codec
    set_builtin_type_codec = type_codecs.set_builtin_type_codec
    set_type_codec = type_codecs.set_type_codec

    add_listener = listeners.add_listener
    add_log_listener = listeners.add_log_listener
    add_query_logger = listeners.add_query_logger
    add_termination_listener = listeners.add_termination_listener
    query_logger = listeners.query_logger
    remove_listener = listeners.remove_listener
    remove_log_listener = listeners.remove_log_listener
    remove_query_logger = listeners.remove_query_logger
    remove_termination_listener = listeners.remove_termination_listener

    export_model = additions.export_model
    import_model = additions.import_model
    notifications = additions.notifications
    run_transaction = additions.run_transaction
    train = additions.train

    calibration_curve = reports.calibration_curve
    drift = reports.drift
    evaluate = reports.evaluate
    explain_row = reports.explain_row
    feature_importance = reports.feature_importance
    learning_curve = reports.learning_curve
    permutation_importance = reports.permutation_importance
    precision_recall_curve = reports.precision_recall_curve
    roc_curve = reports.roc_curve

    # What the native session calls: something came that nobody has asked for, or a query is to be cancelled.

    def _process_notification(self, pid: int, channel: str, payload: str) -> None:
        callbacks = self._callbacks
        callbacks.call(callbacks.channels.get(channel, ()), self._unwrap(), pid, channel, payload)

    def _process_log_message(self, fields: dict[str, str], last_query: Optional[str]) -> None:
        callbacks = self._callbacks
        if callbacks.log:
            message = exceptions.PostgresLogMessage.new(fields, query=last_query)
            callbacks.call(callbacks.log, self._unwrap(), message)

    async def _introspect_types(self, typeoids: Iterable[int], timeout: Optional[float]) -> Any:
        return await self._statements.introspect(typeoids, timeout)

    def _get_unique_id(self, prefix: str) -> str:
        global _uid
        _uid += 1
        return f"__howdah_{prefix}_{_uid:x}__"

    def _maybe_gc_stmt(self, statement: Any) -> None:
        self._statements.release(statement)

    def _cancel_current_command(self, waiter: Any, cancel_waiter: Any = None) -> None:
        self._cancelling.begin(self, waiter, cancel_waiter)

    def _unwrap(self) -> Any:
        """What the program knows as the connection: a pool's proxy, if it is a pool's."""
        return self if self._proxy is None else self._proxy

    @property
    def _stmt_cache(self) -> _StatementCache:
        return self._statements.cache

    @property
    def _stmts_to_close(self) -> set[Any]:
        return self._statements.to_close

    @property
    def _cancellations(self) -> set[Any]:
        return self._cancelling.tasks

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
        """Close the connection gracefully.

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
        self._callbacks.end(self._unwrap())
        if self._pool_holder is not None:
            holder, self._pool_holder = self._pool_holder(), None
            if holder is not None and holder._con is self:
                holder._release_on_close()
        self._statements.end()
        self._callbacks.forget()
        self._cancelling.end()

    async def _reset(self) -> None:
        self._check_open()
        self._callbacks.forget_session()
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
        """Reset the session: nothing remains of its transaction, cursors, settings, role, temporary tables, listeners,
        advisory locks and PREPARE.

        Parameters
        ----------
        timeout : float, optional
            Seconds.
        """
        async with compat.timeout(timeout):
            await self._reset()
            query = self._reset_commands()
            if query:
                await self.execute(query)

    def get_reset_query(self) -> str:
        """Return the commands that reset the session; a derived class may override this method."""
        if self._reset_query is None:
            self._reset_query = capabilities.reset_commands(self._server_caps)
        return self._reset_query

    def _reset_commands(self) -> str:
        """The commands of a reset, and what only some sessions need of it."""
        query = self.get_reset_query()
        if self._protocol.take_prepared():
            # The driver's own statements go with those of PREPARE.
            self._statements.forget()
            query += "\nDEALLOCATE ALL;"
        return query

    def _set_proxy(self, proxy: Any) -> None:
        if self._proxy is not None and proxy is not None:
            raise exceptions.InterfaceError("internal error: connection is already proxied")
        self._proxy = proxy

    def _on_release(self, stacklevel: int = 1) -> None:
        """Called when the connection goes back to its pool."""
        self._pool_release_ctr += 1
        self._callbacks.warn_of_leftovers(self)


# Numbers the names of statements, portals and savepoints.
_uid = 0

name_methods(Connection)


def _extract_stack(limit: int = 10) -> str:
    """Where the program is, outside of this package."""
    stack = traceback.StackSummary.extract(traceback.walk_stack(sys._getframe().f_back), lookup_lines=False)
    here = __file__.rpartition("connection.py")[0]
    frames = list(stack)
    while frames and frames[0].filename.startswith(here):
        frames.pop(0)
    return "".join(traceback.format_list(frames[:limit][::-1]))


# It needs the class, and has this module's name with asyncpg.
from .connecting import connect as connect  # noqa: E402
