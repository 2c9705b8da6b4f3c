"""The connection's methods that run a query."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core, compat, exceptions, named, statements
from ._typing import ArgumentLists
from .records import check_row_class

if TYPE_CHECKING:
    from .connection import Connection

# In which form the session gives a query's answer.
ROWS, ROW, VALUE, STATUS, EXTRA = range(5)


@compat.markcoroutinefunction
def execute(
    self: Connection[Any], query: str, *args: Any, timeout: Optional[float] = None, **values: Any
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
        return ask(self, query, args, timeout, None, 0, STATUS, None)  # type: ignore[no-any-return]
    session = self._protocol
    if session is None or self._query_loggers:
        return _execute_checked(self, query, timeout)
    return session.query(query, timeout)  # type: ignore[no-any-return]


async def _execute_checked(connection: Connection[Any], query: str, timeout: Any) -> Any:
    session = connection._protocol
    if session is None:
        raise exceptions.InterfaceError("connection is closed")
    with connection._callbacks.timed(query, (), timeout):
        return await session.query(query, timeout)


@compat.markcoroutinefunction
def fetchval(
    self: Connection[Any],
    query: str,
    *args: Any,
    column: Union[int, str] = 0,
    timeout: Optional[float] = None,
    **values: Any,
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
        return ask(self, query, args, timeout, None, 1, VALUE, column)  # type: ignore[no-any-return]
    return self._protocol.fetch(query, args, timeout, None, 1, 2, column)  # type: ignore[no-any-return]


@compat.markcoroutinefunction
def fetch(  # noqa: D103
    self: Connection[Any],
    query: str,
    *args: Any,
    timeout: Optional[float] = None,
    record_class: Optional[type[Any]] = None,
    **values: Any,
) -> Coroutine[Any, Any, list[Any]]:
    if values:
        query, args = named.bind(query, values, args)
    if record_class is not None or self._query_loggers or self._watched or self._protocol is None:
        return ask(self, query, args, timeout, record_class, 0, ROWS, None)  # type: ignore[no-any-return]
    return self._protocol.fetch(query, args, timeout, None, 0, 0)  # type: ignore[no-any-return]


@compat.markcoroutinefunction
def fetchrow(  # noqa: D103
    self: Connection[Any],
    query: str,
    *args: Any,
    timeout: Optional[float] = None,
    record_class: Optional[type[Any]] = None,
    **values: Any,
) -> Coroutine[Any, Any, Any]:
    if values:
        query, args = named.bind(query, values, args)
    return ask(self, query, args, timeout, record_class, 1, ROW, None)  # type: ignore[no-any-return]


async def fetchmany(  # noqa: D103
    self: Connection[Any],
    query: str,
    args: ArgumentLists,
    *,
    timeout: Optional[float] = None,
    record_class: Optional[type[Any]] = None,
) -> list[Any]:
    self._check_open()
    rows: list[Any] = await self._executemany(query, args, timeout, return_rows=True, record_class=record_class)
    return rows


async def executemany(
    self: Connection[Any], command: str, args: ArgumentLists, *, timeout: Optional[float] = None
) -> None:
    """Run a command once for each of many argument lists, all or none.

    Parameters
    ----------
    command : str
        The command.
    args : iterable or asynchronous iterable of sequences or of mappings
        The argument lists, taken piece by piece while they are sent (of an asynchronous iterable all at first); or
        the values of `:name` parameters.
    timeout : float, optional
        Seconds for the whole operation.

    Examples
    --------
    >>> await connection.executemany("insert into flights values ($1, $2)", [(1, "LH"), (2, "AF")])
    """
    self._check_open()
    await self._executemany(command, args, timeout)


def is_watched(kind: type[Connection[Any]], session: Any) -> bool:
    """Whether somebody has put methods of their own in the place of those that asyncpg's queries pass.

    Those who watch queries, as a derived class or by replacing methods, do so in these places.
    """
    own = (
        (kind, "execute", execute),
        (kind, "_execute", statements.run_once),
        (kind, "_do_execute", statements.run_statement),
        (type(session), "bind_execute", _core.Session.bind_execute),
        (type(session), "query", _core.Session.query),
    )
    return any(getattr(holder, name, None) is not method for holder, name, method in own)


def ask(
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
        return _ask_checked(connection, query, args, timeout, record_class, limit, shape, column)
    return session.fetch(query, args, timeout, None, limit, shape, column)


async def _ask_checked(
    connection: Connection[Any],
    query: str,
    args: tuple[Any, ...],
    timeout: Any,
    record_class: Any,
    limit: int,
    shape: int,
    column: Any,
) -> Any:
    # A coroutine, so that what is wrong is raised where the query is awaited, as for all other errors.
    session = connection._protocol
    if session is None:
        raise exceptions.InterfaceError("connection is closed")
    if record_class is not None:
        check_row_class(record_class)
    if not connection._query_loggers:
        return await session.fetch(query, args, timeout, record_class, limit, shape, column)
    with connection._callbacks.timed(query, args, session._get_timeout(timeout)):
        return await session.fetch(query, args, timeout, record_class, limit, shape, column)


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
    if shape == STATUS:
        _, status, _ = await connection._execute(query, args, limit, timeout, return_status=True)
        return status.decode()
    rows = await connection._execute(query, args, limit, timeout, record_class=record_class)
    if shape == ROWS:
        return rows
    if not rows:
        return None
    return rows[0] if shape == ROW else rows[0][column]
