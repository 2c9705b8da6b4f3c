"""Prepared statements that a program holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Generic, Optional, Union

from . import connresource, cursor, exceptions, named, protocol, statements
from ._typing import Arguments, RowT
from .types import Attribute, Type


class PreparedStatement(connresource.ConnectionResource, Generic[RowT]):
    """A prepared statement, made by :meth:`Connection.prepare`.

    Examples
    --------
    >>> statement = await connection.prepare("select id from flights where carrier = $1")
    >>> await statement.fetch("LH")
    [<Record id=1>]
    """

    __slots__ = ("_last_status", "_names", "_query", "_state")

    def __init__(self, connection: Any, query: str, state: Any, names: tuple[str, ...] = ()) -> None:
        super().__init__(connection)
        self._state = state
        self._query = query
        # Of its parameters, if they have names, in the order of their numbers.
        self._names = names
        state.attach()
        self._last_status: Optional[bytes] = None

    @connresource.guarded
    def get_name(self) -> str:
        """Return the statement's name on the server."""
        return str(self._state.name)

    @connresource.guarded
    def get_query(self) -> str:
        """Return the statement's text."""
        return self._query

    @connresource.guarded
    def get_statusmsg(self) -> Optional[str]:
        """Return the status of its last execution, as `SELECT 1`; None before any."""
        return None if self._last_status is None else self._last_status.decode()

    @connresource.guarded
    def get_parameters(self) -> tuple[Type, ...]:
        """Return the types of its parameters, a tuple of :class:`~howdah.types.Type`."""
        return tuple(self._state._get_parameters())

    @connresource.guarded
    def get_attributes(self) -> tuple[Attribute, ...]:
        """Return the names and types of its columns, a tuple of :class:`~howdah.types.Attribute`."""
        return tuple(self._state._get_attributes())

    @connresource.guarded
    def cursor(
        self, *args: Any, prefetch: Optional[int] = None, timeout: Optional[float] = None, **values: Any
    ) -> cursor.CursorFactory[RowT]:
        """Read its rows piece by piece, within a transaction.

        Parameters
        ----------
        *args, **values
            The arguments, by position or by name.
        prefetch, timeout
            As in :meth:`Connection.cursor`.

        Returns
        -------
        CursorFactory
            For `async for`; or to be awaited, for a :class:`Cursor`.
        """
        args = self._arguments(args, values)
        return cursor.CursorFactory(
            self._connection, self._query, self._state, args, prefetch, timeout, self._state.record_class
        )

    @connresource.guarded
    async def explain(self, *args: Any, analyze: bool = False, **values: Any) -> Any:
        """Return the server's plan for it.

        Parameters
        ----------
        *args, **values
            The arguments, by position or by name.
        analyze : bool, default False
            Whether to run the statement and give the times too; its changes are rolled back.

        Returns
        -------
        list
            The output of EXPLAIN, decoded from JSON.
        """
        args = self._arguments(args, values)
        options = "FORMAT JSON, VERBOSE, ANALYZE" if analyze else "FORMAT JSON, VERBOSE"
        query = f"EXPLAIN ({options}) {self._state.query}"
        if not analyze:
            return await self._fetch_plan(query, args)
        block = self._connection.transaction()
        await block.start()
        try:
            return await self._fetch_plan(query, args)
        finally:
            await block.rollback()

    async def _fetch_plan(self, query: str, args: tuple[Any, ...]) -> Any:
        plan = await self._connection.fetchval(query, *args)
        # A codec of the program's may have decoded it already.
        return json.loads(plan) if isinstance(plan, str) else plan

    @connresource.guarded
    async def fetch(self, *args: Any, timeout: Optional[float] = None, **values: Any) -> list[RowT]:
        """Run it, and give its rows.

        Parameters
        ----------
        *args, **values
            The arguments, by position or by name.
        timeout : float, optional
            Seconds.

        Returns
        -------
        list of Record
            The rows.
        """
        rows: list[RowT] = await self.__bind_execute(self._arguments(args, values), 0, timeout)
        return rows

    @connresource.guarded
    async def fetchval(
        self, *args: Any, column: Union[int, str] = 0, timeout: Optional[float] = None, **values: Any
    ) -> Any:
        """Run it, and give one value of its first row.

        Parameters
        ----------
        *args, **values
            The arguments, by position or by name.
        column : int or str, default 0
            Which value.
        timeout : float, optional
            Seconds.

        Returns
        -------
        object
            The value; None if it is NULL or there is no row.
        """
        args = self._arguments(args, values)
        if not issubclass(self._state.record_class, protocol.Record):
            # Rows of other classes are not read by the columns' names.
            self._last_status = None
            return await self._guard(
                self._connection._protocol.bind_run(self._state, args, "", 1, statements.VALUE, timeout, column),
                args,
                timeout,
            )
        rows = await self.__bind_execute(args, 1, timeout)
        return rows[0][column] if rows else None

    @connresource.guarded
    async def fetchrow(self, *args: Any, timeout: Optional[float] = None, **values: Any) -> Optional[RowT]:
        """Run it, and give its first row.

        Parameters
        ----------
        *args, **values
            The arguments, by position or by name.
        timeout : float, optional
            Seconds.

        Returns
        -------
        Record or None
            The row; None if there is none.
        """
        rows: list[RowT] = await self.__bind_execute(self._arguments(args, values), 1, timeout)
        return rows[0] if rows else None

    @connresource.guarded
    async def fetchmany(self, args: Iterable[Arguments], *, timeout: Optional[float] = None) -> list[RowT]:
        """Run it for each of many argument lists, and give the rows of all.

        Parameters
        ----------
        args : iterable of sequences or of mappings
            The argument lists.
        timeout : float, optional
            Seconds for the whole operation.

        Returns
        -------
        list of Record
            The rows.
        """
        rows = named.argument_lists(self._names, args)
        found: list[RowT] = await self._guard(
            self._connection._protocol.bind_execute_many(self._state, rows, "", timeout, True), args, timeout
        )
        return found

    @connresource.guarded
    async def executemany(self, args: Iterable[Arguments], *, timeout: Optional[float] = None) -> None:
        """Run it for each of many argument lists, all or none.

        Parameters
        ----------
        args : iterable of sequences or of mappings
            The argument lists, taken piece by piece while they are sent.
        timeout : float, optional
            Seconds for the whole operation.

        Examples
        --------
        >>> statement = await connection.prepare("insert into flights values ($1, $2)")
        >>> await statement.executemany([(1, "LH"), (2, "AF")])
        """
        rows = named.argument_lists(self._names, args)
        await self._guard(
            self._connection._protocol.bind_execute_many(self._state, rows, "", timeout, False), args, timeout
        )

    def _arguments(self, args: tuple[Any, ...], values: dict[str, Any]) -> tuple[Any, ...]:
        return named.arguments(self._names, values, args) if values else args

    async def __bind_execute(self, args: tuple[Any, ...], limit: int, timeout: Optional[float]) -> Any:
        rows, self._last_status, _ = await self._guard(
            self._connection._protocol.bind_execute(self._state, args, "", limit, True, timeout), args, timeout
        )
        return rows

    async def _guard(self, operation: Any, args: Any, timeout: Optional[float]) -> Any:
        connection = self._connection
        try:
            if not connection._query_loggers:
                return await operation
            with connection._callbacks.timed(self._state.query, args, timeout):
                return await operation
        except exceptions.OutdatedSchemaCacheError:
            await self._connection.reload_schema_state()
            self._state.mark_closed()
            raise

    def _check_open(self, meth_name: str) -> None:
        if self._state.closed:
            raise exceptions.InterfaceError(f"cannot call PreparedStmt.{meth_name}(): the prepared statement is closed")

    def _check_conn_validity(self, meth_name: str) -> None:
        self._check_open(meth_name)
        super()._check_conn_validity(meth_name)

    def __del__(self) -> None:
        self._state.detach()
        self._connection._statements.release(self._state)
