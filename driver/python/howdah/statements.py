"""Statements on their way to being run: found in the cache or prepared, their types learnt, tried again and closed."""

from __future__ import annotations

import asyncio
import collections.abc
import contextlib
import functools
import weakref
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import exceptions, introspection, named, protocol
from .records import check_columns, check_row_class
from .statement_cache import _StatementCache

if TYPE_CHECKING:
    from .connection import Connection

# The forms in which the session gives what a query answers: its rows, or one value.
ROWS = 0
VALUE = 2


class Statements:
    """The statements that a session has prepared."""

    __slots__ = (
        "__weakref__",
        "_intro_query",
        "_is_caching",
        "_limit",
        "_session",
        "_turns_jit_off",
        "cache",
        "to_close",
    )

    def __init__(
        self, session: Any, loop: asyncio.AbstractEventLoop, config: Any, *, has_multiranges: bool, has_jit: bool
    ) -> None:
        self._session = session
        self._limit = config.max_cacheable_statement_size
        self._is_caching = config.statement_cache_size > 0
        self._turns_jit_off = has_jit
        self._intro_query = introspection.INTRO_LOOKUP_TYPES if has_multiranges else introspection.INTRO_LOOKUP_TYPES_13
        #: Those that are kept.
        self.cache = _StatementCache(
            loop=loop,
            max_size=config.statement_cache_size,
            on_remove=functools.partial(_release, weakref.ref(self)),
            max_lifetime=config.max_cached_statement_lifetime,
            session=session,
        )
        #: Those that nobody can use any more, and that the server still has.
        self.to_close: set[Any] = set()

    async def get(
        self,
        query: str,
        timeout: Optional[float],
        *,
        named: Any = False,
        use_cache: bool = True,
        ignore_custom_codec: bool = False,
        record_class: Optional[type] = None,
        types: Optional[tuple[int, ...]] = None,
    ) -> Any:
        """The state of a statement, from the cache or from the server.

        `named` is the statement's name on the server, or whether it is to have one; a statement that is cached has one.
        `types` are the parameters' types that are declared, 0 (or nothing at the end) for those that the server infers;
        with None it infers all, and values have to fit its types.
        """
        if record_class is None:
            record_class = self._session.get_record_class()
        else:
            check_row_class(record_class)
        key = (query, record_class, ignore_custom_codec, types)
        if use_cache:
            statement = self.cache.get(key)
            if statement is not None:
                return statement
            use_cache = self._is_caching and (not self._limit or len(query) <= self._limit)
        name = named if isinstance(named, str) else ""
        if not isinstance(named, str) and (use_cache or named):
            name = self._session.get_connection()._get_unique_id("stmt")
        statement = await self._prepare(name, query, timeout, record_class, ignore_custom_codec, types)
        if use_cache:
            other = self.cache.get(key)
            if other is not None:
                # Another task has asked the same in the meantime.
                self.release(statement)
                statement = other
            else:
                self.cache.put(key, statement)
        if self.to_close:
            await self._close_released()
        return statement

    async def _prepare(
        self,
        name: str,
        query: str,
        timeout: Optional[float],
        record_class: type,
        ignore_custom_codec: bool,
        types: Optional[tuple[int, ...]],
    ) -> Any:
        session = self._session
        statement = await session.prepare(
            name, query, timeout, record_class=record_class, ignore_custom_codec=ignore_custom_codec, types=types
        )
        try:
            await self._learn_types(statement, timeout)
            if record_class is not session.get_record_class():
                check_columns(record_class, [column.name for column in statement._get_attributes()])
        except BaseException:
            self.release(statement)
            raise
        if not name:
            # Whatever is asked in the meantime may take the unnamed statement's place: it is parsed with each use.
            statement.mark_unprepared()
        return statement

    async def _learn_types(self, statement: Any, timeout: Optional[float]) -> None:
        """Ask for the types of a statement that are not known, and make its codecs."""
        tries = 0
        while missing := statement._init_types():
            # By the connection, which may be of a class that has it done otherwise.
            types = await self._session.get_connection()._introspect_types(missing, timeout)
            self._session.get_settings().register_data_types(types)
            tries += 1
            if tries > 5:
                raise exceptions.InternalClientError(
                    f"could not resolve query result and/or argument types in {tries} attempts"
                )
        statement._init_codecs()

    async def introspect(self, typeoids: collections.abc.Iterable[int], timeout: Optional[float]) -> Any:
        """What the server's catalogs say of types."""
        if not await self._has_jit_on(timeout):
            return await self.fetch_plain(self._intro_query, (list(typeoids),), timeout)
        # Compiling the query takes longer than running it.
        try:
            await self.fetch_plain("SELECT set_config('jit', 'off', false)", (), timeout)
            types = await self.fetch_plain(self._intro_query, (list(typeoids),), timeout)
            await self.fetch_plain("SELECT set_config('jit', 'on', false)", (), timeout)
        except BaseException:
            # Who has asked is gone, or out of time; the setting must not stay all the same.
            self._send_unwatched("SET jit = on")
            raise
        return types

    async def _has_jit_on(self, timeout: Optional[float]) -> bool:
        if not self._turns_jit_off:
            return False
        try:
            rows = await self.fetch_plain("SELECT current_setting('jit') AS cur", (), timeout)
        except exceptions.UndefinedObjectError:
            return False
        return bool(rows[0]["cur"] == "on")

    def _send_unwatched(self, command: str) -> None:
        """Send a command, before whatever is asked next, whose answer nobody waits for."""
        try:
            waiting = self._session.query(command, protocol.NO_TIMEOUT).__await__()
            future = waiting.send(None)
        except (StopIteration, exceptions.InterfaceError):
            return

        def take(_: Any) -> None:
            # In a transaction that has failed it fails too, and the rollback does its work.
            with contextlib.suppress(StopIteration, Exception):
                waiting.send(None)

        # The future is watched here, not by a task.
        future._asyncio_future_blocking = False
        future.add_done_callback(take)

    async def fetch_plain(self, query: str, args: tuple[Any, ...], timeout: Optional[float]) -> Any:
        """Rows of a query of the driver's own, whatever codecs the program has set."""
        statement = await self.get(query, timeout, ignore_custom_codec=True)
        return await self._session.bind_run(statement, args, "", 0, ROWS, timeout)

    def release(self, statement: Any) -> None:
        """Have a statement closed if nobody can use it any more."""
        if statement.refs or not statement.name or statement.closed:
            return
        # Another one of the same query may be there: tasks that ask it at the same time prepare it each.
        key = (statement.query, statement.record_class, statement.ignore_custom_codec, statement.types)
        if self.cache.get(key, promote=False) is not statement:
            statement.mark_closed()
            self.to_close.add(statement)

    async def _close_released(self) -> None:
        while self.to_close:
            statement = self.to_close.pop()
            try:
                # Or they would stay on the server: for this there is no timeout.
                await self._session.close_statement(statement, protocol.NO_TIMEOUT)
            except BaseException:
                # Closing one twice does no harm.
                self.to_close.add(statement)
                raise

    def forget(self) -> None:
        """Keep none of them."""
        self.cache.clear()

    def end(self) -> None:
        """Mark all as closed: the session has ended."""
        for statement in self.cache.iter_statements():
            statement.mark_closed()
        for statement in self.to_close:
            statement.mark_closed()
        self.cache.clear()
        self.to_close.clear()


def _release(statements: weakref.ref[Statements], statement: Any) -> None:
    found = statements()
    if found is not None:
        found.release(statement)


# The connection's methods that run a statement.


async def fetch_unprepared(
    self: Connection[Any],
    query: str,
    args: Any,
    limit: int,
    shape: int,
    column: Any,
    record_class: Any,
    timeout: Optional[float],
) -> Any:
    """A query whose statement the session does not find by itself."""
    statements, session = self._statements, self._protocol
    before, given = self._loop.time(), timeout
    statement = await statements.get(query, timeout, record_class=record_class)
    if timeout is not None:
        timeout -= self._loop.time() - before
    statement.attach()
    try:
        return await session.bind_run(statement, args, "", limit, shape, timeout, column)
    except asyncio.TimeoutError as error:
        raise _whole(error, given) from None
    except (exceptions.OutdatedSchemaCacheError, exceptions.InvalidCachedStatementError) as error:
        return await fetch_again(self, error, query, args, limit, shape, column, record_class, timeout)
    finally:
        statement.detach()
        statements.release(statement)


def _whole(error: asyncio.TimeoutError, given: Optional[float]) -> BaseException:
    """The error with the timeout that was given, in place of what the statement's preparation had left of it."""
    if given is None or not error.args:
        return error
    return asyncio.TimeoutError(f"no answer within the timeout of {round(given, 3 if given < 10 else 0):g} seconds")


async def fetch_again(
    self: Connection[Any],
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
    drop_statements(self)
    if self._protocol.is_in_transaction():
        raise error
    statement = await self._statements.get(query, timeout, record_class=record_class)
    return await self._protocol.bind_run(statement, args, "", limit, shape, timeout, column)


async def run_many(
    self: Connection[Any],
    query: str,
    args: Any,
    timeout: Optional[float],
    return_rows: bool = False,
    record_class: Optional[type] = None,
) -> Any:
    """A statement with many argument lists, as asyncpg's `_executemany`."""

    def run(statement: Any, timeout: Optional[float]) -> Any:
        return self._protocol.bind_execute_many(
            state=statement, args=args, portal_name="", timeout=timeout, return_rows=return_rows
        )

    timeout = self._protocol._get_timeout(timeout)
    if isinstance(args, collections.abc.AsyncIterable):
        # They are one unit, which another task's query must not wait for while the next list is awaited.
        args = [arguments async for arguments in args]
    query, args = named.bind_many(query, args)
    with self._callbacks.logged(query, args, timeout):
        rows, _ = await self._do_execute(query, run, timeout, record_class=record_class)
    return rows


async def run_once(
    self: Connection[Any],
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
    with self._callbacks.logged(query, args, timeout):
        answer, _ = await self._do_execute(
            query, run, timeout, record_class=record_class, ignore_custom_codec=ignore_custom_codec
        )
    return answer


async def run_statement(
    self: Connection[Any],
    query: str,
    executor: Callable[[Any, Optional[float]], Awaitable[Any]],
    timeout: Optional[float],
    retry: bool = True,
    *,
    ignore_custom_codec: bool = False,
    record_class: Optional[type] = None,
) -> tuple[Any, Any]:
    """Run a query's statement, and again if it was prepared before a change; what it gives, and the statement."""
    statements = self._statements
    given, deadline = timeout, None if timeout is None else self._loop.time() + timeout
    while True:
        statement = await statements.get(
            query, timeout, record_class=record_class, ignore_custom_codec=ignore_custom_codec
        )
        if deadline is not None:
            timeout = deadline - self._loop.time()
        statement.attach()
        try:
            return await executor(statement, timeout), statement
        except asyncio.TimeoutError as error:
            raise _whole(error, given) from None
        except exceptions.OutdatedSchemaCacheError:
            await self.reload_schema_state()
            raise
        except exceptions.InvalidCachedStatementError:
            drop_statements(self)
            if not retry or self._protocol.is_in_transaction():
                raise
            retry = False
        finally:
            statement.detach()
            statements.release(statement)


def drop_statements(connection: Connection[Any]) -> None:
    """Forget the statements of a connection, and of all connections of its pool."""
    holder = None if connection._pool_holder is None else connection._pool_holder()
    if holder is not None:
        holder._pool._drop_statement_cache()
    else:
        connection._statements.forget()


async def reload_schema_state(self: Connection[Any]) -> None:
    """Forget the cached types of the database, because they have been changed.

    The driver notices most changes itself, and raises :exc:`OutdatedSchemaCacheError`; this method avoids that error.
    """
    holder = None if self._pool_holder is None else self._pool_holder()
    if holder is not None:
        holder._pool._drop_type_cache()
    else:
        self._protocol.get_settings().clear_type_cache()
    drop_statements(self)
