"""The pool's methods that run something on one of its connections, each the connection's of the same name.

Those that run a query take a connection that is ready without :meth:`Pool.acquire`, which takes longer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import _core
from ._typing import ArgumentLists

if TYPE_CHECKING:
    from .connection import Connection
    from .pool import Pool

_T = TypeVar("_T")


async def execute(self: Pool[Any], query: str, *args: Any, timeout: Optional[float] = None, **named: Any) -> str:
    """Run a command, or several without arguments, on one of the connections.

    See :meth:`Connection.execute`.

    Parameters
    ----------
    query : str
        SQL.
    *args
        Values for `$1`, `$2` and so on.
    timeout : float, optional
        Seconds for the command; waiting for a connection does not count.
    **named
        Values for `:name`, in place of `args`.

    Returns
    -------
    str
        The status of the last command, such as `INSERT 0 1`.
    """
    holder = self._borrow()
    if holder is None:
        async with self.acquire() as proxy:
            return await proxy.execute(query, *args, timeout=timeout, **named)
    con: Connection[Any] = holder._con  # type: ignore[assignment]
    try:
        return await con.execute(query, *args, timeout=timeout, **named)
    finally:
        rest = self._bring_back(holder, con)
        if rest is not None:
            await rest


async def executemany(self: Pool[Any], command: str, args: ArgumentLists, *, timeout: Optional[float] = None) -> None:
    """Run a command for each list of arguments, on one of the connections.

    See :meth:`Connection.executemany`.

    Parameters
    ----------
    command : str
        SQL.
    args : iterable of sequences
        The lists of arguments.
    timeout : float, optional
        Seconds for all of them.
    """
    async with self.acquire() as con:
        return await con.executemany(command, args, timeout=timeout)


async def fetchval(
    self: Pool[Any], query: str, *args: Any, column: Union[int, str] = 0, timeout: Optional[float] = None, **named: Any
) -> Any:
    """Run a query on one of the connections, and return a value of its first row.

    See :meth:`Connection.fetchval`.

    Parameters
    ----------
    query : str
        SQL.
    *args
        Values for `$1`, `$2` and so on.
    column : int or str, default 0
        Which value.
    timeout : float, optional
        Seconds for the query; waiting for a connection does not count.
    **named
        Values for `:name`, in place of `args`.

    Returns
    -------
    object
        The value, None without a row.
    """
    holder = self._borrow()
    if holder is None:
        async with self.acquire() as proxy:
            return await proxy.fetchval(query, *args, column=column, timeout=timeout, **named)
    con: Connection[Any] = holder._con  # type: ignore[assignment]
    try:
        return await con.fetchval(query, *args, column=column, timeout=timeout, **named)
    finally:
        rest = self._bring_back(holder, con)
        if rest is not None:
            await rest


async def fetch(  # noqa: D103
    self: Pool[Any],
    query: str,
    *args: Any,
    timeout: Optional[float] = None,
    record_class: Optional[type[Any]] = None,
    **values: Any,
) -> list[Any]:
    holder = self._borrow()
    if holder is None:
        async with self.acquire() as proxy:
            return await proxy.fetch(query, *args, timeout=timeout, record_class=record_class, **values)
    con: Connection[Any] = holder._con  # type: ignore[assignment]
    try:
        return await con.fetch(query, *args, timeout=timeout, record_class=record_class, **values)
    finally:
        rest = self._bring_back(holder, con)
        if rest is not None:
            await rest


async def fetchrow(  # noqa: D103
    self: Pool[Any],
    query: str,
    *args: Any,
    timeout: Optional[float] = None,
    record_class: Optional[type[Any]] = None,
    **values: Any,
) -> Any:
    holder = self._borrow()
    if holder is None:
        async with self.acquire() as proxy:
            return await proxy.fetchrow(query, *args, timeout=timeout, record_class=record_class, **values)
    con: Connection[Any] = holder._con  # type: ignore[assignment]
    try:
        return await con.fetchrow(query, *args, timeout=timeout, record_class=record_class, **values)
    finally:
        rest = self._bring_back(holder, con)
        if rest is not None:
            await rest


async def fetchmany(  # noqa: D103
    self: Pool[Any],
    query: str,
    args: ArgumentLists,
    *,
    timeout: Optional[float] = None,
    record_class: Optional[type[Any]] = None,
) -> list[Any]:
    async with self.acquire() as con:
        return await con.fetchmany(query, args, timeout=timeout, record_class=record_class)


async def copy_from_table(
    self: Pool[Any],
    table_name: str,
    *,
    output: Any,
    columns: Optional[Sequence[str]] = None,
    schema_name: Optional[str] = None,
    timeout: Optional[float] = None,
    format: Optional[str] = None,
    oids: Optional[bool] = None,
    delimiter: Optional[str] = None,
    null: Optional[str] = None,
    header: Optional[bool] = None,
    quote: Optional[str] = None,
    escape: Optional[str] = None,
    force_quote: Any = None,
    encoding: Optional[str] = None,
) -> str:
    """Copy a table to a file, or to whatever takes its bytes. See :meth:`Connection.copy_from_table`."""
    async with self.acquire() as con:
        return await con.copy_from_table(
            table_name,
            output=output,
            columns=columns,
            schema_name=schema_name,
            timeout=timeout,
            format=format,
            oids=oids,
            delimiter=delimiter,
            null=null,
            header=header,
            quote=quote,
            escape=escape,
            force_quote=force_quote,
            encoding=encoding,
        )


async def copy_from_query(
    self: Pool[Any],
    query: str,
    *args: Any,
    output: Any,
    timeout: Optional[float] = None,
    format: Optional[str] = None,
    oids: Optional[bool] = None,
    delimiter: Optional[str] = None,
    null: Optional[str] = None,
    header: Optional[bool] = None,
    quote: Optional[str] = None,
    escape: Optional[str] = None,
    force_quote: Any = None,
    encoding: Optional[str] = None,
) -> str:
    """Copy a query's rows to a file, or to whatever takes its bytes. See :meth:`Connection.copy_from_query`."""
    async with self.acquire() as con:
        return await con.copy_from_query(
            query,
            *args,
            output=output,
            timeout=timeout,
            format=format,
            oids=oids,
            delimiter=delimiter,
            null=null,
            header=header,
            quote=quote,
            escape=escape,
            force_quote=force_quote,
            encoding=encoding,
        )


async def copy_to_table(
    self: Pool[Any],
    table_name: str,
    *,
    source: Any,
    columns: Optional[Sequence[str]] = None,
    schema_name: Optional[str] = None,
    timeout: Optional[float] = None,
    format: Optional[str] = None,
    oids: Optional[bool] = None,
    freeze: Optional[bool] = None,
    delimiter: Optional[str] = None,
    null: Optional[str] = None,
    header: Optional[bool] = None,
    quote: Optional[str] = None,
    escape: Optional[str] = None,
    force_quote: Any = None,
    force_not_null: Any = None,
    force_null: Any = None,
    encoding: Optional[str] = None,
    where: Optional[str] = None,
) -> str:
    """Copy a file, or bytes that come from elsewhere, into a table. See :meth:`Connection.copy_to_table`."""
    async with self.acquire() as con:
        return await con.copy_to_table(
            table_name,
            source=source,
            columns=columns,
            schema_name=schema_name,
            timeout=timeout,
            format=format,
            oids=oids,
            freeze=freeze,
            delimiter=delimiter,
            null=null,
            header=header,
            quote=quote,
            escape=escape,
            force_quote=force_quote,
            force_not_null=force_not_null,
            force_null=force_null,
            encoding=encoding,
            where=where,
        )


async def copy_records_to_table(
    self: Pool[Any],
    table_name: str,
    *,
    records: Any,
    columns: Optional[Sequence[str]] = None,
    schema_name: Optional[str] = None,
    timeout: Optional[float] = None,
    where: Optional[str] = None,
) -> str:
    """Copy rows, each a tuple, into a table. See :meth:`Connection.copy_records_to_table`."""
    async with self.acquire() as con:
        return await con.copy_records_to_table(
            table_name,
            records=records,
            columns=columns,
            schema_name=schema_name,
            timeout=timeout,
            where=where,
        )


def add_query_logger(self: Pool[Any], callback: Callable[..., Any], *, at_once: bool = False) -> None:
    """Call a function after each query on any connection of the pool, later connections included.

    Parameters
    ----------
    callback, at_once
        As in :meth:`Connection.add_query_logger`.

    Examples
    --------
    >>> pool.add_query_logger(lambda record: print(record.query, record.elapsed))
    """
    self._query_loggers[callback] = at_once
    for connection in self._open_connections():
        connection.add_query_logger(callback, at_once=at_once)


def remove_query_logger(self: Pool[Any], callback: Callable[..., Any]) -> None:
    """Undo :meth:`add_query_logger`."""
    self._query_loggers.pop(callback, None)
    for connection in self._open_connections():
        connection.remove_query_logger(callback)


async def fetch_columns(self: Pool[Any], query: str, *args: Any, **options: Any) -> _core.Columns:
    """Run a query on one of the connections, and give its result as columns.

    Parameters
    ----------
    query : str
        SQL.
    *args, **options
        As in :meth:`Connection.fetch_columns`.

    Returns
    -------
    Columns
        The result.
    """
    async with self.acquire() as connection:
        return await connection.fetch_columns(query, *args, **options)


async def copy_columns_to_table(self: Pool[Any], table_name: str, **options: Any) -> str:
    """Copy columns to a table, on one of the connections.

    Parameters
    ----------
    table_name : str
        The table.
    **options
        As in :meth:`Connection.copy_columns_to_table`: `source`, and where it goes.

    Returns
    -------
    str
        The status, such as `COPY 3`.
    """
    async with self.acquire() as connection:
        return await connection.copy_columns_to_table(table_name, **options)


async def predict(self: Pool[Any], project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
    """Predict for each row of a matrix or a table, on one of the connections.

    Parameters
    ----------
    project_name, features, timeout
        As in :meth:`Connection.predict`.

    Returns
    -------
    numpy.ndarray or array.array of float32
        The predictions, in order; NumPy's where NumPy is installed.

    Examples
    --------
    >>> await pool.predict("flights", matrix)
    array([12.5, 3.25], dtype=float32)
    """
    async with self.acquire() as connection:
        return await connection.predict(project_name, features, timeout=timeout)


async def predict_proba(self: Pool[Any], project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
    """Predict the probabilities of each class for each row of a matrix or a table, on one of the connections.

    Parameters
    ----------
    project_name, features, timeout
        As in :meth:`Connection.predict`.

    Returns
    -------
    numpy.ndarray of float32, or list of array.array
        A row for each row of `features`, a column for each class.
    """
    async with self.acquire() as connection:
        return await connection.predict_proba(project_name, features, timeout=timeout)


async def explain(self: Pool[Any], project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
    """Say what each feature contributes to the prediction of each row of a matrix or a table, on a connection.

    Parameters
    ----------
    project_name, features, timeout
        As in :meth:`Connection.explain`.

    Returns
    -------
    numpy.ndarray or memoryview of float32
        As :meth:`Connection.explain` gives it.
    """
    async with self.acquire() as connection:
        return await connection.explain(project_name, features, timeout=timeout)


async def run_transaction(self: Pool[Any], fn: Callable[[Any], Awaitable[_T]], **options: Any) -> _T:
    """Run a coroutine function in a transaction of one of the connections, by :meth:`Connection.run_transaction`.

    Parameters
    ----------
    fn : coroutine function
        Called with the connection.
    **options
        As in :meth:`Connection.run_transaction`.

    Returns
    -------
    object
        What `fn` returns.

    Raises
    ------
    SerializationError, DeadlockDetectedError
        The last attempt failed too.
    """
    async with self.acquire() as connection:
        return await connection.run_transaction(fn, **options)
