"""Transactions and savepoints as blocks."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Optional

from . import _core, connresource, exceptions
from ._typing import IsolationLevel


class TransactionState(enum.Enum):
    """How far a block has come."""

    NEW = 0
    STARTED = 1
    COMMITTED = 2
    ROLLEDBACK = 3
    FAILED = 4


# The names of the isolation levels as arguments, and what SQL calls them.
ISOLATION_LEVELS = {
    "read_committed": "read committed",
    "read_uncommitted": "read uncommitted",
    "repeatable_read": "repeatable read",
    "serializable": "serializable",
}
ISOLATION_LEVELS_BY_VALUE = {value: name for name, value in ISOLATION_LEVELS.items()}

_OVER = {
    TransactionState.COMMITTED: "the transaction is already committed",
    TransactionState.ROLLEDBACK: "the transaction is already rolled back",
    TransactionState.FAILED: "the transaction is in error state",
}


class Transaction(connresource.ConnectionResource):
    """A transaction, or a savepoint if the connection is in one already.

    Made by :meth:`Connection.transaction`; used as a block (``async with``), or by :meth:`start`, :meth:`commit` and
    :meth:`rollback`.

    A block has the connection to itself. Tasks that are made inside the block (by ``asyncio.gather``, for example)
    belong to it; queries of other tasks wait until it ends. The same holds for a block within a block: tasks that are
    made inside the inner block belong to it, and the other tasks of the outer block wait. A transaction that is started
    by :meth:`start` excludes no task.

    The command that begins the transaction travels with the first command in it, so an error of the server about the
    beginning is raised by that first command.

    Examples
    --------
    >>> async with connection.transaction(isolation="serializable"):
    ...     await connection.execute("insert into visits default values")
    """

    __slots__ = (
        "_context",
        "_deferrable",
        "_id",
        "_isolation",
        "_lease",
        "_managed",
        "_nested",
        "_readonly",
        "_session",
        "_state",
    )

    def __init__(self, connection: Any, isolation: Optional[IsolationLevel], readonly: bool, deferrable: bool) -> None:
        super().__init__(connection)
        if isolation and isolation not in ISOLATION_LEVELS:
            raise ValueError(f"isolation is expected to be either of {set(ISOLATION_LEVELS)}, got {isolation!r}")
        self._isolation = isolation
        self._readonly = readonly
        self._deferrable = deferrable
        self._state = TransactionState.NEW
        self._nested = False
        self._id: Optional[str] = None
        self._managed = False
        # The right of the block to its connection, the session that gave it, and how to forget it in this context.
        self._lease: Optional[object] = None
        self._session: Any = None
        self._context: Any = None

    async def __aenter__(self) -> None:
        if self._managed:
            raise exceptions.InterfaceError("cannot enter context: already in an `async with` block")
        self._managed = True
        self._check_conn_validity("start")
        self._check_not_started()
        connection = self._connection
        session = self._session = connection._protocol
        # Mostly nobody else has it, and then there is nothing to wait for.
        lease = session.lease_now()
        if lease is None:
            lease = await session.lease()
        self._lease = lease
        leases = _core.leases
        self._context = leases.set((lease, leases.get()))
        try:
            if connection._top_xact is not None:
                await self._start_nested(connection)
            elif (waiting := self._start_outermost(connection)) is not None:
                await waiting
        except BaseException:
            self._give_lease_back()
            raise

    def _give_lease_back(self) -> None:
        lease = self._lease
        if lease is None:
            return
        self._lease = None
        # The block may end in another context than it began in, as that of a fixture does.
        try:  # noqa: SIM105 (every transaction passes here)
            _core.leases.reset(self._context)
        except ValueError:
            pass
        self._session.unlease(lease)
        self._session = self._context = None

    async def __aexit__(
        self,
        extype: Optional[type[BaseException]],
        ex: Optional[BaseException],
        tb: Optional[TracebackType],
    ) -> None:
        try:
            try:
                self._check_conn_validity("__aexit__")
            except exceptions.InterfaceError:
                # A generator that is thrown away may be closed after the connection went back to its pool, which has
                # rolled the transaction back then.
                if extype is GeneratorExit:
                    return
                raise
            await (self._commit() if extype is None else self._rollback())
        finally:
            self._managed = False
            self._give_lease_back()

    @connresource.guarded
    async def start(self) -> None:
        """Begin the transaction, or set the savepoint.

        Raises
        ------
        InterfaceError
            The block was started before, or the transaction that it would be nested in was begun by hand or has
            another isolation level.
        """
        self._check_not_started()
        connection = self._connection
        if connection._top_xact is not None:
            await self._start_nested(connection)
        elif (waiting := self._start_outermost(connection)) is not None:
            await waiting

    def _start_outermost(self, connection: Any) -> Optional[Awaitable[None]]:
        session = connection._protocol
        if session.is_in_transaction():
            raise exceptions.InterfaceError("cannot use Connection.transaction() in a manually started transaction")
        connection._top_xact = self
        begin = self._begin()
        if connection._watched:
            return self._run(connection.execute(begin), TransactionState.STARTED)
        try:
            session.begin(begin)
        except BaseException:
            self._state = TransactionState.FAILED
            raise
        self._state = TransactionState.STARTED
        if connection._query_loggers:
            # It takes no time of its own: it travels with the first statement.
            connection._callbacks.tell_query(begin, (), None, 0.0, None)
        return None

    async def _start_nested(self, connection: Any) -> None:
        await self._check_isolation(connection)
        self._nested = True
        self._id = connection._get_unique_id("savepoint")
        await self._run(connection.execute(f"SAVEPOINT {self._id};"), TransactionState.STARTED)

    def _begin(self) -> str:
        query = "BEGIN"
        if self._isolation:
            query += f" ISOLATION LEVEL {ISOLATION_LEVELS[self._isolation].upper()}"
        if self._readonly:
            query += " READ ONLY"
        if self._deferrable:
            query += " DEFERRABLE"
        return query + ";"

    async def _check_isolation(self, connection: Any) -> None:
        """A savepoint has no isolation level of its own: if it is given one, that has to be the transaction's."""
        if not self._isolation:
            return
        outer = connection._top_xact._isolation
        if outer is None:
            outer = ISOLATION_LEVELS_BY_VALUE[await connection.fetchval("SHOW transaction_isolation;")]
        if self._isolation != outer:
            raise exceptions.InterfaceError(
                f"nested transaction has a different isolation level: current {self._isolation!r} != outer {outer!r}"
            )

    async def _run(self, command: Awaitable[Any], after: TransactionState) -> None:
        try:
            await command
        except BaseException:
            self._state = TransactionState.FAILED
            raise
        self._state = after

    def _check_not_started(self) -> None:
        if self._state is TransactionState.NEW:
            return
        self._check_not_over("start")
        raise exceptions.InterfaceError("cannot start; the transaction is already started")

    def _check_not_over(self, opname: str) -> None:
        if self._state is TransactionState.STARTED:
            return
        reason = _OVER.get(self._state)
        if reason is not None:
            raise exceptions.InterfaceError(f"cannot {opname}; {reason}")

    def _leave(self, opname: str) -> None:
        """Give the connection's place for a transaction free."""
        if self._state is TransactionState.NEW:
            raise exceptions.InterfaceError(f"cannot {opname}; the transaction is not yet started")
        self._check_not_over(opname)
        if self._connection._top_xact is self:
            self._connection._top_xact = None

    def _commit(self) -> Awaitable[None]:
        self._leave("commit")
        return self._run(self._end(f"RELEASE SAVEPOINT {self._id};", "COMMIT;"), TransactionState.COMMITTED)

    def _rollback(self) -> Awaitable[None]:
        self._leave("rollback")
        return self._run(self._end(f"ROLLBACK TO {self._id};", "ROLLBACK;"), TransactionState.ROLLEDBACK)

    def _end(self, of_savepoint: str, of_transaction: str) -> Awaitable[Any]:
        connection = self._connection
        if self._nested:
            return connection.execute(of_savepoint)  # type: ignore[no-any-return]
        if connection._watched:
            return connection.execute(of_transaction)  # type: ignore[no-any-return]
        if connection._query_loggers:
            return _finish_logged(connection, of_transaction)
        return connection._protocol.finish(of_transaction)  # type: ignore[no-any-return]

    @connresource.guarded
    async def commit(self) -> None:
        """Commit the transaction, or release the savepoint, which keeps the changes since it was set.

        Raises
        ------
        InterfaceError
            The block is not started or is over, or it is an ``async with`` block, which ends by itself.
        """
        if self._managed:
            raise exceptions.InterfaceError("cannot manually commit from within an `async with` block")
        await self._commit()

    @connresource.guarded
    async def rollback(self) -> None:
        """Roll back all changes since the transaction or the savepoint was started.

        Raises
        ------
        InterfaceError
            The block is not started or is over, or it is an ``async with`` block, which ends by itself.
        """
        if self._managed:
            raise exceptions.InterfaceError("cannot manually rollback from within an `async with` block")
        await self._rollback()

    def __repr__(self) -> str:
        about = [f"state:{self._state.name.lower()}"]
        if self._isolation is not None:
            about.append(self._isolation)
        if self._readonly:
            about.append("readonly")
        if self._deferrable:
            about.append("deferrable")
        kind = type(self)
        module = kind.__module__.partition(".")[0] if kind.__module__.startswith("howdah.") else kind.__module__
        return f"<{module}.{kind.__name__} {' '.join(about)} {id(self):#x}>"


async def _finish_logged(connection: Any, command: str) -> Any:
    with connection._callbacks.timed(command, (), None):
        return await connection._protocol.finish(command)
