"""The connection's methods of COPY: whole tables and results in and out."""

from __future__ import annotations

import collections.abc
import io
import os
from typing import TYPE_CHECKING, Any, Optional

from . import exceptions, utils

if TYPE_CHECKING:
    from .connection import Connection

_CHUNK = 512 * 1024


class _FileReader:
    """A file, read in the loop's executor."""

    def __init__(self, loop: Any, file: Any) -> None:
        self._loop = loop
        self._file = file

    def __aiter__(self) -> _FileReader:
        return self

    async def __anext__(self) -> bytes:
        data: bytes = await self._loop.run_in_executor(None, self._file.read, _CHUNK)
        if not data:
            raise StopAsyncIteration
        return data


def _options(**options: Any) -> str:
    """The options of COPY as SQL."""
    written = []
    if isinstance(options.get("force_quote"), bool) and options.pop("force_quote"):
        written.append("FORCE_QUOTE *")
    for name, value in options.items():
        if value is None:
            continue
        if name in ("force_not_null", "force_null", "force_quote"):
            text = "(" + ", ".join(utils._quote_ident(column) for column in value) + ")"
        elif name in ("oids", "freeze", "header"):
            text = str(value)
        else:
            text = utils._quote_literal(value)
        written.append(f"{name.upper()} {text}")
    return f"({', '.join(written)})" if written else ""


def _table(table_name: str, schema_name: Optional[str], columns: Any) -> str:
    name = utils._quote_ident(table_name)
    if schema_name:
        name = f"{utils._quote_ident(schema_name)}.{name}"
    if columns:
        name += " (" + ", ".join(utils._quote_ident(column) for column in columns) + ")"
    return name


async def copy_from_table(
    self: Connection[Any],
    table_name: str,
    *,
    output: Any,
    columns: Any = None,
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
    """Copy a table to a file or a function.

    Parameters
    ----------
    table_name : str
        The table.
    output : path, file or coroutine function
        The target of the data; a coroutine function is called with each piece of the data, as bytes.
    columns : list of str, optional
        The columns to copy; all by default.
    schema_name : str, optional
        The table's schema.
    timeout : float, optional
        Seconds for the whole operation.
    format, oids, delimiter, null, header, quote, escape, force_quote, encoding
        As in SQL's COPY.

    Returns
    -------
    str
        The status, as `COPY 100`.

    Examples
    --------
    >>> await connection.copy_from_table("flights", output="flights.csv", format="csv", header=True)
    """
    options = _options(
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
    statement = f"COPY {_table(table_name, schema_name, columns)} TO STDOUT {options}"
    return await copy_out(self, statement, output, timeout)


async def copy_from_query(
    self: Connection[Any],
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
    """Copy a query's result to a file or a function.

    Parameters
    ----------
    query : str
        The query.
    *args
        Its arguments.
    output, timeout, format, oids, delimiter, null, header, quote, escape, force_quote, encoding
        As in :meth:`copy_from_table`.

    Returns
    -------
    str
        The status, as `COPY 100`.

    Examples
    --------
    >>> await connection.copy_from_query("select * from flights where day = $1", 3, output="day3.csv", format="csv")
    """
    options = _options(
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
    if args:
        query = await utils._mogrify(self, query, args)
    return await copy_out(self, f"COPY ({query}) TO STDOUT {options}", output, timeout)


async def copy_to_table(
    self: Connection[Any],
    table_name: str,
    *,
    source: Any,
    columns: Any = None,
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
    """Copy a file, an asynchronous iterable or bytes to a table.

    Parameters
    ----------
    table_name : str
        The table.
    source : path, file, asynchronous iterable of bytes, or bytes
        Where the data comes from.
    columns : list of str, optional
        The columns that the data has; all by default.
    schema_name : str, optional
        The table's schema.
    timeout : float, optional
        Seconds for the whole operation.
    format, oids, freeze, delimiter, null, header, quote, escape, force_quote, force_not_null, force_null, encoding
        As in SQL's COPY.
    where : str, optional
        The condition of rows to keep, as SQL.

    Returns
    -------
    str
        The status, as `COPY 100`.

    Examples
    --------
    >>> await connection.copy_to_table("flights", source="flights.csv", format="csv", header=True)
    """
    options = _options(
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
    )
    where = _where(self, where)
    statement = f"COPY {_table(table_name, schema_name, columns)} FROM STDIN {options} {where}"
    return await copy_in(self, statement, source, timeout)


async def copy_records_to_table(
    self: Connection[Any],
    table_name: str,
    *,
    records: Any,
    columns: Any = None,
    schema_name: Optional[str] = None,
    timeout: Optional[float] = None,
    where: Optional[str] = None,
) -> str:
    """Copy rows to a table, in binary.

    Parameters
    ----------
    table_name : str
        The table.
    records : iterable or asynchronous iterable of sequences
        The rows.
    columns : list of str, optional
        The columns that the rows have; all by default.
    schema_name : str, optional
        The table's schema.
    timeout : float, optional
        Seconds for the whole operation.
    where : str, optional
        The condition of rows to keep, as SQL.

    Returns
    -------
    str
        The status, as `COPY 100`.

    Examples
    --------
    >>> await connection.copy_records_to_table("flights", records=[(1, "LH"), (2, "AF")], columns=["id", "carrier"])
    """
    where = _where(self, where)
    # The columns' types come from a query that gives them; asked each time, as the table may be another one since.
    names = ", ".join(utils._quote_ident(column) for column in columns) if columns else "*"
    query = f"SELECT {names} FROM {_table(table_name, schema_name, None)} LIMIT 1"
    probe = await self._prepare(query, name="")
    statement = f"COPY {_table(table_name, schema_name, columns)} FROM STDIN (FORMAT binary) {where}"
    with self._callbacks.logged(statement, (), timeout):
        return str(await self._protocol.copy_in(statement, None, None, records, probe._state, timeout))


def _where(connection: Connection[Any], where: Optional[str]) -> str:
    if where and not connection._server_caps.sql_copy_from_where:
        raise exceptions.UnsupportedServerFeatureError("the `where` parameter requires PostgreSQL 12 or later")
    return f"WHERE {where}" if where else ""


async def copy_out(connection: Connection[Any], statement: str, output: Any, timeout: Optional[float]) -> str:
    """Run a COPY ... TO STDOUT, with what it gives going to a path, a file or a coroutine function."""
    run = connection._loop.run_in_executor
    path = _path(output)
    if path is None and not hasattr(output, "write"):
        if not callable(output):
            raise TypeError(
                "output is expected to be a file-like object, a path-like object or a coroutine function, "
                f"not {type(output).__name__}"
            )
        with connection._callbacks.logged(statement, (), timeout):
            return str(await connection._protocol.copy_out(statement, output, timeout))
    file = output if path is None else await run(None, open, path, "wb")

    if type(file) is io.BytesIO:
        # Memory takes it at once, without a thread of the executor's.
        async def write(data: bytes) -> None:
            file.write(data)
    else:

        async def write(data: bytes) -> None:
            await run(None, file.write, data)

    try:
        with connection._callbacks.logged(statement, (), timeout):
            return str(await connection._protocol.copy_out(statement, write, timeout))
    finally:
        if path is not None:
            await run(None, file.close)


async def copy_in(connection: Connection[Any], statement: str, source: Any, timeout: Optional[float]) -> str:
    """Run a COPY ... FROM STDIN, with what comes from a path, a file, an asynchronous iterable or bytes."""
    run = connection._loop.run_in_executor
    # Bytes are what is to be copied, though they could be a path.
    path = None if isinstance(source, bytes) else _path(source)
    file = data = None
    reader: Any = None
    if path is not None:
        file = await run(None, open, path, "rb")
        reader = _FileReader(connection._loop, file)
    elif hasattr(source, "read"):
        reader = _FileReader(connection._loop, source)
    elif isinstance(source, collections.abc.AsyncIterable):
        reader = source
    else:
        data = source
    try:
        with connection._callbacks.logged(statement, (), timeout):
            return str(await connection._protocol.copy_in(statement, reader, data, None, None, timeout))
    finally:
        if file is not None:
            await run(None, file.close)


def _path(what: Any) -> Any:
    try:
        return os.fspath(what)
    except TypeError:
        return None
