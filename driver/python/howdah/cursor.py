"""Results read piece by piece."""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Generator
from typing import Any, Generic, Optional

from . import connresource, exceptions, statements
from ._typing import RowT


class CursorFactory(connresource.ConnectionResource, Generic[RowT]):
    """A query whose rows are to be read piece by piece, made by :meth:`Connection.cursor`.

    Examples
    --------
    >>> async for row in connection.cursor("select * from flights"):
    ...     print(row)
    >>> cursor = await connection.cursor("select * from flights")
    >>> await cursor.fetch(10)
    """

    __slots__ = ("_args", "_prefetch", "_query", "_record_class", "_state", "_timeout")

    def __init__(
        self,
        connection: Any,
        query: str,
        state: Any,
        args: tuple[Any, ...],
        prefetch: Optional[int],
        timeout: Optional[float],
        record_class: Optional[type[RowT]],
    ) -> None:
        super().__init__(connection)
        self._args = args
        self._prefetch = prefetch
        self._query = query
        self._timeout = timeout
        self._state = state
        self._record_class = record_class
        if state is not None:
            state.attach()

    @connresource.guarded
    def __aiter__(self) -> CursorIterator[RowT]:
        prefetch = 50 if self._prefetch is None else self._prefetch
        return CursorIterator(
            self._connection, self._query, self._state, self._args, self._record_class, prefetch, self._timeout
        )

    @connresource.guarded
    def __await__(self) -> Generator[Any, None, Cursor[RowT]]:
        if self._prefetch is not None:
            raise exceptions.InterfaceError("prefetch argument can only be specified for iterable cursor")
        cursor: Cursor[RowT] = Cursor(self._connection, self._query, self._state, self._args, self._record_class)
        return cursor._init(self._timeout).__await__()

    def __del__(self) -> None:
        _let_go(self)


class BaseCursor(connresource.ConnectionResource, Generic[RowT]):
    """A portal on the server, or what will be one."""

    __slots__ = ("_args", "_exhausted", "_portal_name", "_query", "_record_class", "_state")

    def __init__(
        self, connection: Any, query: str, state: Any, args: tuple[Any, ...], record_class: Optional[type[RowT]]
    ) -> None:
        super().__init__(connection)
        self._args = args
        self._state = state
        if state is not None:
            state.attach()
        self._portal_name: Optional[str] = None
        self._exhausted = False
        self._query = query
        self._record_class = record_class

    async def _prepare(self, timeout: Optional[float]) -> None:
        if self._state is None:
            self._state = await self._connection._statements.get(
                self._query, timeout, named=True, record_class=self._record_class
            )
            self._state.attach()

    def _check_ready(self) -> None:
        if self._state is None:
            raise exceptions.InterfaceError("cursor: no associated prepared statement")
        if self._state.closed:
            raise exceptions.InterfaceError("cursor: the prepared statement is closed")
        if not self._connection.is_in_transaction():
            raise exceptions.NoActiveSQLTransactionError("cursor cannot be created outside of a transaction")

    def _open(self) -> str:
        self._check_ready()
        if self._portal_name:
            raise exceptions.InterfaceError("cursor already has an open portal")
        self._portal_name = self._connection._get_unique_id("portal")
        return str(self._portal_name)

    def _portal(self) -> str:
        self._check_ready()
        if not self._portal_name:
            raise exceptions.InterfaceError("cursor does not have an open portal")
        return self._portal_name

    async def _bind_exec(self, n: int, timeout: Optional[float]) -> Any:
        portal = self._open()
        with self._connection._callbacks.logged(self._state.query, self._args, timeout):
            asked = self._connection._protocol.bind_execute(self._state, self._args, portal, n, True, timeout)
            rows, _, self._exhausted = await self._answer(asked)
        return rows

    async def _bind(self, timeout: Optional[float]) -> Any:
        portal = self._open()
        with self._connection._callbacks.logged(self._state.query, self._args, timeout):
            return await self._answer(self._connection._protocol.bind(self._state, self._args, portal, timeout))

    async def _exec(self, n: int, timeout: Optional[float]) -> Any:
        portal = self._portal()
        with self._connection._callbacks.logged(self._state.query, self._args, timeout):
            asked = self._connection._protocol.execute(self._state, portal, n, True, timeout)
            rows, _, self._exhausted = await self._answer(asked)
        return rows

    async def _answer(self, asked: Awaitable[Any]) -> Any:
        """The answer; a statement that was prepared before a change is forgotten, for the next transaction."""
        try:
            return await asked
        except exceptions.OutdatedSchemaCacheError:
            await self._connection.reload_schema_state()
            raise
        except exceptions.InvalidCachedStatementError:
            statements.drop_statements(self._connection)
            raise

    async def _close_portal(self, timeout: Optional[float]) -> None:
        portal = self._portal()
        await self._connection._protocol.close_portal(portal, timeout)
        self._portal_name = None

    def __repr__(self) -> str:
        kind = type(self)
        module = kind.__module__.partition(".")[0] if kind.__module__.startswith("howdah.") else kind.__module__
        query = self._query if self._state is None else self._state.query
        exhausted = "exhausted " if self._exhausted else ""
        return f'<{module}.{kind.__name__} "{query!s:.30}" {exhausted}{id(self):#x}>'

    def __del__(self) -> None:
        _let_go(self)


class CursorIterator(BaseCursor[RowT]):
    """The rows of a query, fetched `prefetch` at a time."""

    __slots__ = ("_buffer", "_prefetch", "_timeout")

    def __init__(
        self,
        connection: Any,
        query: str,
        state: Any,
        args: tuple[Any, ...],
        record_class: Optional[type[RowT]],
        prefetch: int,
        timeout: Optional[float],
    ) -> None:
        super().__init__(connection, query, state, args, record_class)
        if prefetch <= 0:
            raise exceptions.InterfaceError("prefetch argument must be greater than zero")
        self._buffer: collections.deque[RowT] = collections.deque()
        self._prefetch = prefetch
        self._timeout = timeout

    @connresource.guarded
    def __aiter__(self) -> CursorIterator[RowT]:
        return self

    @connresource.guarded
    async def __anext__(self) -> RowT:
        await self._prepare(self._timeout)
        if not self._portal_name and not self._exhausted:
            self._buffer.extend(await self._bind_exec(self._prefetch, self._timeout))
        if not self._buffer and not self._exhausted:
            self._buffer.extend(await self._exec(self._prefetch, self._timeout))
        if self._portal_name and self._exhausted:
            await self._close_portal(self._timeout)
        if self._buffer:
            return self._buffer.popleft()
        raise StopAsyncIteration


class Cursor(BaseCursor[RowT]):
    """An open portal.

    Examples
    --------
    >>> async with connection.transaction():
    ...     cursor = await connection.cursor("select * from flights")
    ...     await cursor.forward(10)
    ...     await cursor.fetch(5)
    """

    __slots__ = ()

    async def _init(self, timeout: Optional[float]) -> Cursor[RowT]:
        await self._prepare(timeout)
        self._check_ready()
        await self._bind(timeout)
        return self

    @connresource.guarded
    async def fetch(self, n: int, *, timeout: Optional[float] = None) -> list[RowT]:
        """Return the next rows.

        Parameters
        ----------
        n : int
            How many, at most.
        timeout : float, optional
            Seconds.

        Returns
        -------
        list of Record
            The rows; fewer than `n` at the end.
        """
        self._check_ready()
        if n <= 0:
            raise exceptions.InterfaceError("n must be greater than zero")
        if self._exhausted:
            return []
        rows: list[RowT] = await self._exec(n, timeout)
        if len(rows) < n:
            self._exhausted = True
        return rows

    @connresource.guarded
    async def fetchrow(self, *, timeout: Optional[float] = None) -> Optional[RowT]:
        """Return the next row.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Returns
        -------
        Record or None
            The row; None at the end.
        """
        self._check_ready()
        if self._exhausted:
            return None
        rows: list[RowT] = await self._exec(1, timeout)
        if not rows:
            self._exhausted = True
            return None
        return rows[0]

    @connresource.guarded
    async def forward(self, n: int, *, timeout: Optional[float] = None) -> int:
        """Skip rows.

        Parameters
        ----------
        n : int
            How many.
        timeout : float, optional
            Seconds.

        Returns
        -------
        int
            The number of rows that were skipped.
        """
        self._check_ready()
        if n <= 0:
            raise exceptions.InterfaceError("n must be greater than zero")
        status = await self._connection._protocol.query(f"MOVE FORWARD {n:d} {self._portal_name}", timeout)
        advanced = int(status.split()[1])
        if advanced < n:
            self._exhausted = True
        return advanced


def _let_go(holder: Any) -> None:
    if holder._state is not None:
        holder._state.detach()
        holder._connection._statements.release(holder._state)
