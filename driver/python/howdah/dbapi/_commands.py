"""Commands on the thread that asks: how the driver's own connection is driven without an event loop that runs."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional, TypeVar

from .. import connection, exceptions
from ..listeners import LoggedQuery
from ..protocol import NO_TIMEOUT
from . import _declared, errors
from . import parameters as placeholders
from ._loop import Loop, resume
from .errors import ProgrammingError, raise_translated
from .rows import Column

_T = TypeVar("_T")

# After these, statements of the tables that were there may not hold any more.
_ALTERING = (b"CREATE", b"ALTER", b"DROP", b"ROLLBACK", b"DISCARD", b"DEALLOCATE")
# Classes of errors that a statement may meet since it was prepared before a table or a type has changed.
_OF_OLD_STATEMENTS = ("0A", "22", "26", "42", "XX")
# What the protocol can count.
_MOST_VALUES = 65535
_UNLOGGED = contextlib.nullcontext()
# How long who drops a connection waits for another thread to notice.
_PATIENCE = 5


def _declare(args: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The types of arguments, none where the server infers all, and what is sent for them."""
    if not args:
        return (), args
    if len(args) > _MOST_VALUES:
        raise ProgrammingError(f"a query takes at most {_MOST_VALUES} values, {len(args)} were given")
    return _declared.declare(args)


def _described(statement: Any) -> Optional[list[Column]]:
    columns = zip(statement._get_attributes(), statement._get_sizes())
    return [Column.of(column.name, column.type.oid, *sizes) for column, sizes in columns] or None


class Commands:
    """The commands that a connection runs for its cursors.

    One thread at a time has the session, by the lock. A transaction that is due begins with the first command.
    """

    def __init__(self, loop: Loop, inner: connection.Connection[Any]) -> None:
        self._loop = loop
        self._inner = inner
        self._session: Any = inner._protocol
        self._lock = threading.RLock()
        timeout = inner._config.command_timeout
        self._timeout = NO_TIMEOUT if timeout is None else timeout
        # Whether each command is a transaction of its own; if not, what begins the transaction.
        self._autocommit = False
        self._begin_sql = "BEGIN;"
        # Whether the transaction has altered what statements are prepared for, so that its end may alter it back.
        self._altered = False
        self._query_loggers: list[Callable[[LoggedQuery], object]] = []
        # What is known of the statements that were run, by their text and the types declared, if there are any: the
        # statement, how many values it takes, and its description.
        self._known: dict[Any, tuple[Any, int, Any]] = {}

    @property
    def closed(self) -> bool:
        """Whether the connection is closed, or lost."""
        return self._loop.is_closed() or self._inner.is_closed()

    def terminate(self) -> None:
        """Drop the connection at once; a command that another thread runs on it fails."""
        if self._loop.is_closed():
            return
        if not self._lock.acquire(blocking=False):
            # The socket ends, which the other thread notices, but is not closed under it.
            self._shut_down()
            if not self._lock.acquire(timeout=_PATIENCE):
                return
        try:
            self._drop()
        finally:
            self._lock.release()

    def _shut_down(self) -> None:
        transport = self._session.transport
        if transport is not None:
            with contextlib.suppress(OSError):
                transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        if self._loop.is_closed():
            return
        self._inner.terminate()
        self._known.clear()
        # What ends a transport is done in the loop's next turns.
        self._loop.turn()
        self._loop.turn()
        self._loop.close()

    def _check(self) -> None:
        if self._session.is_closed():
            try:
                # It knows why.
                self._session._check_open()
            except exceptions.InterfaceError as error:
                kind = errors.InterfaceError if self._loop.is_elsewhere() else errors.OperationalError
                raise kind(str(error)) from error

    def _begin(self) -> bool:
        """Have a transaction begin with the next request; whether it does."""
        if self._autocommit or self._session.is_in_transaction():
            return False
        self._session.begin(self._begin_sql)
        return True

    def _finish(self, command: str) -> Any:
        with self._lock:
            self._check()
            if not self._session.is_in_transaction():
                return None
            with self._logged(command, ()):
                status = self._run(self._session.finish(command))
            if self._altered:
                self._altered = False
                if status == "ROLLBACK":
                    self._forget_statements()
            return status

    def _script(self, commands: str) -> Any:
        """Run commands as text; the status of the last one."""
        self._begin()
        status = self._simple(commands)
        self._altered = True
        self._forget_statements()
        return status

    def _simple(self, commands: str) -> Any:
        with self._lock, self._logged(commands, ()):
            return self._run(self._session.query(commands, None))

    def _query(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Run a statement: its rows, its tag, whether these are all rows; and its description."""
        return self._prepared_anew(self._query_once, text, args)

    def _prepared_anew(
        self, ask: Callable[[str, tuple[Any, ...]], tuple[Any, Any]], text: str, args: tuple[Any, ...]
    ) -> tuple[Any, Any]:
        """Run a statement, and again if it was prepared before a table or a type has changed."""
        begins = not self._autocommit and self._begin()
        try:
            return ask(text, args)
        except (errors.NotSupportedError, errors.InternalError) as error:
            if not isinstance(error.__cause__, exceptions.InvalidCachedStatementError):
                raise
            self._forget_statements()
            if self._session.is_in_transaction():
                if not begins:
                    raise
                # Nothing else was done yet in it.
                self._finish("ROLLBACK")
        self._begin()
        return ask(text, args)

    def _query_logged(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """The same, for those who log commands."""
        with self._time_and_log(text, args):
            return self._query(text, args)

    def _query_once(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        types, given = _declare(args)
        known = self._known.get((text, types) if types else text)
        if known is None or known[0].closed:
            known = self._prepare(text, types)
        statement, wanted, description = known
        if len(args) != wanted:
            raise ProgrammingError(
                f"the query takes {wanted} value{'' if wanted == 1 else 's'}, "
                f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
            )
        # Nobody else has the connection meanwhile, so nobody closes the statement.
        operation = None
        try:
            done, answer, operation = self._session.ask(statement, given, self._timeout)
            if not done:
                answer = self._loop.complete(resume(operation, answer))
        except BaseException as error:
            if operation is not None:
                operation.close()
            self._settle()
            self._doubt_statements(error)
            raise_translated(error)
        if description is None and answer[1] is not None and answer[1].startswith(_ALTERING):
            self._altered = True
            self._forget_statements()
        return answer, description

    def _statement(self, text: str, types: tuple[int, ...] = ()) -> tuple[Any, int, Any]:
        """A prepared statement, how many values it takes, and the description of its result."""
        known = self._known.get((text, types) if types else text)
        return self._prepare(text, types) if known is None or known[0].closed else known

    def _prepare(self, text: str, types: tuple[int, ...]) -> tuple[Any, int, Any]:
        placeholders.refuse_copy(text)
        # A type would make a parameter of what the query does not have.
        types = types[: placeholders.count(text)] if types else ()
        statement = self._run(self._inner._statements.get(text, None, record_class=tuple, types=types))
        found = statement, len(statement._get_parameters()), _described(statement)
        if statement.name:
            if len(self._known) >= 2 * self._inner._config.statement_cache_size + 16:
                self._known = {key: value for key, value in self._known.items() if not value[0].closed}
            self._known[(text, types) if types else text] = found
        return found

    def _uncached(self, text: str) -> tuple[Any, Any]:
        """Run a statement whose result has other columns the next time, perhaps."""
        self._begin()
        asked = self._inner._statements.get(text, None, record_class=tuple, use_cache=False, types=())
        statement = self._run(asked)
        with self._logged(text, ()):
            return self._run(self._session.bind_execute(statement, (), "", 0, True, self._timeout)), _described(
                statement
            )

    def _forget_statements(self) -> None:
        self._known.clear()
        self._inner._statements.forget()

    def _doubt_statements(self, error: BaseException) -> None:
        """Have statements prepared anew after an error that one may owe to a migration since it was prepared."""
        if isinstance(error, exceptions.OutdatedSchemaCacheError):
            self._session.get_settings().clear_type_cache()
            self._forget_statements()
        elif isinstance(error, exceptions.PostgresError) and (error.sqlstate or "")[:2] in _OF_OLD_STATEMENTS:
            self._forget_statements()

    def _query_columns(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Run a query: its columns, and its description."""
        with self._logged(text, args):
            return self._prepared_anew(self._query_columns_once, text, args)

    def _query_columns_once(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        types, given = _declare(args)
        statement, _, description = self._statement(text, types)
        return self._run(self._session.columns(statement, given, [], self._timeout)), description

    def _many(self, text: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Run a command for many argument lists, of which there is one; how many rows it changed."""
        rest = iter(rows)
        first = next(rest)
        rows = itertools.chain((first,), rest)
        self._begin()
        statement = self._statement(text, _declare(first)[0])[0]
        with self._logged(text, rows):
            asked = self._session.bind_execute_many(statement, rows, "", self._timeout, False, _declared.declare)
            return int(self._run(asked) or 0)

    def _copy(self, copy: Callable[..., Any], command: str, end: Any) -> Any:
        with self._lock:
            self._begin()
            with self._logged(command, ()):
                return self._complete(copy(self._inner, command, end, None))

    def _parse(self, text: str) -> None:
        """Have the server look at a command that is not run."""
        with self._lock, self._logged(text, ()):
            self._begin()
            self._run(self._inner._statements.get(text, None, record_class=tuple, use_cache=False, types=()))

    def _open(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """Open a portal: the portal, and the description of its rows."""
        if self._autocommit and not self._session.is_in_transaction():
            raise ProgrammingError("a streaming cursor needs a transaction: use connection.transaction()")
        with self._logged(text, args):
            return self._prepared_anew(self._open_once, text, args)

    def _open_once(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Any]:
        types, given = _declare(args)
        statement, _, description = self._statement(text, types)
        statement.touch()
        name = self._inner._get_unique_id("portal")
        statement.attach()
        try:
            self._run(self._session.bind(statement, given, name, None))
        except BaseException:
            self._release(statement)
            raise
        return (statement, name), description

    def _advance(self, portal: tuple[Any, str], count: int) -> tuple[list[Any], bool]:
        """The next rows of a portal, and whether there are more."""
        statement, name = portal
        with self._logged(statement.query, ()):
            rows, _, over = self._run(self._session.execute(statement, name, count, True, None))
        if over:
            self._release(statement)
        return rows, not over

    def _close_portal(self, portal: tuple[Any, str]) -> None:
        statement, name = portal
        with self._lock:
            # At the end of a transaction the server has closed it.
            if not self.closed and self._session.is_in_transaction():
                self._run(self._session.close_portal(name, None))
            self._release(statement)

    def _release(self, statement: Any) -> None:
        statement.detach()
        self._inner._statements.release(statement)

    # How things are run.

    def _logged(self, query: str, args: Any) -> contextlib.AbstractContextManager[None]:
        """A block in which a command runs, for those who log commands, if there are any."""
        return self._time_and_log(query, args) if self._query_loggers else _UNLOGGED

    @contextlib.contextmanager
    def _time_and_log(self, query: str, args: Any) -> Iterator[None]:
        start = time.monotonic()
        failure: Optional[BaseException] = None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            inner = self._inner
            elapsed = time.monotonic() - start
            timeout = inner._config.command_timeout
            record = LoggedQuery(query, args, timeout, elapsed, failure, inner._addr, inner._params)
            for callback in tuple(self._query_loggers):
                callback(record)

    def _run(self, awaitable: Any) -> Any:
        """Run to the end what needs no task of asyncio's, mostly without the loop."""
        session = self._session
        try:
            done, value = session.block(awaitable)
            if not done:
                value = self._loop.complete(resume(awaitable, value))
        except BaseException as error:
            self._give_up(awaitable)
            self._doubt_statements(error)
            raise_translated(error)
        return value

    def _complete(self, awaitable: Any) -> Any:
        """Run to the end, on the loop."""
        try:
            return self._loop.complete(awaitable)
        except BaseException as error:
            self._settle()
            raise_translated(error)

    def _give_up(self, awaitable: Any) -> None:
        """End what was interrupted, on the server too."""
        awaitable.close()
        self._settle()

    def _settle(self) -> None:
        """Wait until what was given up has ended: then the connection can be used again."""
        session = self._session
        if self._loop.is_closed() or not session._is_cancelling():
            return
        try:
            self._loop.complete(session._wait_for_cancellation())
        except BaseException:
            # Interrupted again, or the network is gone: nobody knows what is under way.
            self.terminate()
            raise
