"""What a pool does on one of its connections that asyncpg's does not have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Optional, TypeVar

from . import _core

_T = TypeVar("_T")


class PoolAdditions:
    """Methods of a pool, each the connection's of the same name on a connection that is lent for it."""

    __slots__ = ()

    # The pool's own.
    acquire: Callable[..., Any]
    _open_connections: Callable[[], Iterator[Any]]
    _query_loggers: dict[Callable[..., Any], bool]

    def add_query_logger(self, callback: Callable[..., Any], *, at_once: bool = False) -> None:
        """Call a function after each query on any of the connections, those that are yet to be opened too.

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

    def remove_query_logger(self, callback: Callable[..., Any]) -> None:
        """Undo :meth:`add_query_logger`."""
        self._query_loggers.pop(callback, None)
        for connection in self._open_connections():
            connection.remove_query_logger(callback)

    async def fetch_columns(self, query: str, *args: Any, **options: Any) -> _core.Columns:
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
            return await connection.fetch_columns(query, *args, **options)  # type: ignore[no-any-return]

    async def copy_columns_to_table(self, table_name: str, **options: Any) -> str:
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
            return await connection.copy_columns_to_table(table_name, **options)  # type: ignore[no-any-return]

    async def predict(self, project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
        """Predict for each row of a matrix, on one of the connections.

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

    async def predict_proba(self, project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
        """Predict the probabilities of each class for each row of a matrix, on one of the connections.

        Parameters
        ----------
        project_name, features, timeout
            As in :meth:`Connection.predict`.

        Returns
        -------
        numpy.ndarray of float32, or list of array.array
            A row for each row, a column for each class.
        """
        async with self.acquire() as connection:
            return await connection.predict_proba(project_name, features, timeout=timeout)

    async def explain(self, project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
        """Say what each feature contributes to the prediction of each row of a matrix, on one of the connections.

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

    async def run_transaction(self, fn: Callable[[Any], Awaitable[_T]], **options: Any) -> _T:
        """Run a coroutine function in a transaction of one of the connections, again when it fails for another's sake.

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
            return await connection.run_transaction(fn, **options)  # type: ignore[no-any-return]
