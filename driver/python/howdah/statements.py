"""Statements on their way to being run: found in the cache or prepared, their types learnt, tried again and closed."""

from __future__ import annotations

import collections.abc
from collections.abc import Awaitable
from typing import Any, Callable, Optional

from . import exceptions, named, protocol
from ._parts import ConnectionPart
from .records import check_columns, check_row_class

# The forms in which the session gives what a query answers: its rows, or one value.
ROWS = 0
VALUE = 2


class StatementMethods(ConnectionPart):
    """Methods of :class:`Connection` about its statements."""

    __slots__ = ()

    _loop: Any
    _config: Any
    _server_caps: Any
    _intro_query: Any
    _pool_holder: Any
    _query_loggers: Any
    _stmt_cache: Any
    _stmt_cache_enabled: Any
    _stmts_to_close: Any

    async def _get_statement(
        self,
        query: str,
        timeout: Optional[float],
        *,
        named: Any = False,
        use_cache: bool = True,
        ignore_custom_codec: bool = False,
        record_class: Optional[type] = None,
    ) -> Any:
        """The state of a statement, from the cache or from the server."""
        session = self._protocol
        if record_class is None:
            record_class = session.get_record_class()
        else:
            check_row_class(record_class)
        key = (query, record_class, ignore_custom_codec)
        if use_cache:
            statement = self._stmt_cache.get(key)
            if statement is not None:
                return statement
            limit = self._config.max_cacheable_statement_size
            use_cache = self._stmt_cache_enabled and (not limit or len(query) <= limit)
        name = named if isinstance(named, str) else self._get_unique_id("stmt") if use_cache or named else ""
        statement = await session.prepare(
            name, query, timeout, record_class=record_class, ignore_custom_codec=ignore_custom_codec
        )
        try:
            await self._learn_types(statement, timeout)
            if record_class is not session.get_record_class():
                check_columns(record_class, [column.name for column in statement._get_attributes()])
        except BaseException:
            self._maybe_gc_stmt(statement)
            raise
        if not name:
            # Whatever is asked in the meantime may take the unnamed statement's place: it is parsed with each use.
            statement.mark_unprepared()
        if use_cache:
            other = self._stmt_cache.get(key)
            if other is not None:
                # Another task has asked the same in the meantime.
                self._maybe_gc_stmt(statement)
                statement = other
            else:
                self._stmt_cache.put(key, statement)
        if self._stmts_to_close:
            await self._cleanup_stmts()
        return statement

    async def _learn_types(self, statement: Any, timeout: Optional[float]) -> None:
        """Ask for the types of a statement that are not known, and make its codecs."""
        tries = 0
        while missing := statement._init_types():
            types = await self._introspect_types(missing, timeout)
            self._protocol.get_settings().register_data_types(types)
            tries += 1
            if tries > 5:
                raise exceptions.InternalClientError(
                    f"could not resolve query result and/or argument types in {tries} attempts"
                )
        statement._init_codecs()

    async def _introspect_types(self, typeoids: Any, timeout: Optional[float]) -> Any:
        # Compiling the query takes longer than running it.
        jit = "off"
        if self._server_caps.jit:
            try:
                rows = await self._fetch_plain(
                    "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new", (), timeout
                )
                jit = rows[0]["cur"]
            except exceptions.UndefinedObjectError:
                pass
        types = await self._fetch_plain(self._intro_query, (list(typeoids),), timeout)
        if jit != "off":
            await self._fetch_plain("SELECT set_config('jit', $1, false)", (jit,), timeout)
        return types

    async def _fetch_plain(self, query: str, args: tuple[Any, ...], timeout: Optional[float]) -> Any:
        """Rows of a query of the driver's own, whatever codecs the program has set."""
        statement = await self._get_statement(query, timeout, ignore_custom_codec=True)
        return await self._protocol.bind_run(statement, args, "", 0, ROWS, timeout)

    async def _fetch_unprepared(
        self, query: str, args: Any, limit: int, shape: int, column: Any, record_class: Any, timeout: Optional[float]
    ) -> Any:
        """A query whose statement the session does not find by itself."""
        before = self._loop.time()
        statement = await self._get_statement(query, timeout, record_class=record_class)
        if timeout is not None:
            timeout -= self._loop.time() - before
        statement.attach()
        try:
            return await self._protocol.bind_run(statement, args, "", limit, shape, timeout, column)
        except exceptions.OutdatedSchemaCacheError as error:
            return await self._fetch_again(error, query, args, limit, shape, column, record_class, timeout)
        except exceptions.InvalidCachedStatementError as error:
            return await self._fetch_again(error, query, args, limit, shape, column, record_class, timeout)
        finally:
            statement.detach()
            self._maybe_gc_stmt(statement)

    async def _fetch_again(
        self,
        error: BaseException,
        query: str,
        args: Any,
        limit: int,
        shape: int,
        column: Any,
        record_class: Any,
        timeout: Optional[float],
    ) -> Any:
        """A second try of a query whose types or tables have changed since its statement was prepared."""
        if isinstance(error, exceptions.OutdatedSchemaCacheError):
            # The query was run already.
            await self.reload_schema_state()
            raise error
        self._drop_global_statement_cache()
        if self._protocol.is_in_transaction():
            raise error
        statement = await self._get_statement(query, timeout, record_class=record_class)
        return await self._protocol.bind_run(statement, args, "", limit, shape, timeout, column)

    async def _executemany(
        self,
        query: str,
        args: Any,
        timeout: Optional[float],
        return_rows: bool = False,
        record_class: Optional[type] = None,
    ) -> Any:
        timeout = self._protocol._get_timeout(timeout)
        if isinstance(args, collections.abc.AsyncIterable):
            # They are one unit, which another task's query must not wait for while the next list is awaited.
            args = [arguments async for arguments in args]
        query, args = named.bind_many(query, args)
        with self._logged(query, args, timeout):
            return await self._run_many(query, args, timeout, return_rows, record_class)

    async def _run_many(
        self, query: str, args: Any, timeout: Optional[float], return_rows: bool, record_class: Optional[type]
    ) -> Any:
        def run(statement: Any, timeout: Optional[float]) -> Any:
            return self._protocol.bind_execute_many(
                state=statement, args=args, portal_name="", timeout=timeout, return_rows=return_rows
            )

        rows, _ = await self._do_execute(query, run, timeout, record_class=record_class)
        return rows

    async def _execute(
        self,
        query: str,
        args: Any,
        limit: int,
        timeout: Optional[float],
        *,
        return_status: bool = False,
        ignore_custom_codec: bool = False,
        record_class: Optional[type] = None,
    ) -> Any:
        """A query in the form in which libraries on asyncpg ask it, and in which those who watch queries see it."""

        def run(statement: Any, timeout: Optional[float]) -> Any:
            return self._protocol.bind_execute(
                state=statement, args=args, portal_name="", limit=limit, return_extra=return_status, timeout=timeout
            )

        timeout = self._protocol._get_timeout(timeout)
        with self._logged(query, args, timeout):
            answer, _ = await self._do_execute(
                query, run, timeout, record_class=record_class, ignore_custom_codec=ignore_custom_codec
            )
        return answer

    async def _do_execute(
        self,
        query: str,
        executor: Callable[[Any, Optional[float]], Awaitable[Any]],
        timeout: Optional[float],
        retry: bool = True,
        *,
        ignore_custom_codec: bool = False,
        record_class: Optional[type] = None,
    ) -> tuple[Any, Any]:
        """Run a query's statement, and again if it was prepared before a change; what it gives, and the statement."""
        deadline = None if timeout is None else self._loop.time() + timeout
        while True:
            statement = await self._get_statement(
                query, timeout, record_class=record_class, ignore_custom_codec=ignore_custom_codec
            )
            if deadline is not None:
                timeout = deadline - self._loop.time()
            statement.attach()
            try:
                return await executor(statement, timeout), statement
            except exceptions.OutdatedSchemaCacheError:
                await self.reload_schema_state()
                raise
            except exceptions.InvalidCachedStatementError:
                self._drop_global_statement_cache()
                if not retry or self._protocol.is_in_transaction():
                    raise
                retry = False
            finally:
                statement.detach()
                self._maybe_gc_stmt(statement)

    def _maybe_gc_stmt(self, statement: Any) -> None:
        """Have a statement closed that nobody can use any more."""
        if statement.refs or not statement.name or statement.closed:
            return
        # Another one of the same query may be there: tasks that ask it at the same time prepare it each.
        key = (statement.query, statement.record_class, statement.ignore_custom_codec)
        if self._stmt_cache.get(key, promote=False) is not statement:
            statement.mark_closed()
            self._stmts_to_close.add(statement)

    async def _cleanup_stmts(self) -> None:
        while self._stmts_to_close:
            statement = self._stmts_to_close.pop()
            try:
                # Or they would stay on the server: for this there is no timeout.
                await self._protocol.close_statement(statement, protocol.NO_TIMEOUT)
            except BaseException:
                # Closing one twice does no harm.
                self._stmts_to_close.add(statement)
                raise

    def _mark_stmts_as_closed(self) -> None:
        for statement in self._stmt_cache.iter_statements():
            statement.mark_closed()
        for statement in self._stmts_to_close:
            statement.mark_closed()
        self._stmt_cache.clear()
        self._stmts_to_close.clear()

    def _drop_local_statement_cache(self) -> None:
        self._stmt_cache.clear()

    def _drop_global_statement_cache(self) -> None:
        holder = None if self._pool_holder is None else self._pool_holder()
        if holder is not None:
            holder._pool._drop_statement_cache()
        else:
            self._drop_local_statement_cache()

    def _drop_local_type_cache(self) -> None:
        self._protocol.get_settings().clear_type_cache()

    def _drop_global_type_cache(self) -> None:
        holder = None if self._pool_holder is None else self._pool_holder()
        if holder is not None:
            holder._pool._drop_type_cache()
        else:
            self._drop_local_type_cache()

    async def reload_schema_state(self) -> None:
        """Forget what is known of the database's types, because they have been changed.

        The driver notices most changes by itself; this avoids the :exc:`OutdatedSchemaCacheError` by which it says so.
        """
        self._drop_global_type_cache()
        self._drop_global_statement_cache()
