"""The queries whose types depend on the class of rows, declared once for connections and pools.

Checkers of types look at the declarations, with their docstrings; what is called are the methods that a connection and
a pool have in their place. `docs/design/driver.md` has the reasons.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any, Generic, Optional, overload

from ._typing import ArgumentLists, RecordT, RowT


class Fetching(Generic[RecordT]):
    """What gives rows: a connection, or a pool, which lends itself one."""

    __slots__ = ()

    @overload
    def fetch(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: None = None, **values: Any
    ) -> Coroutine[Any, Any, list[RecordT]]: ...

    @overload
    def fetch(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: type[RowT], **values: Any
    ) -> Coroutine[Any, Any, list[RowT]]: ...

    def fetch(
        self,
        query: str,
        *args: Any,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run a query, and give its rows.

        Parameters
        ----------
        query : str
            The query.
        *args
            The values of `$1`, `$2` and so on.
        timeout : float, optional
            Seconds; the connection's `command_timeout` by default. A pool's wait for a connection does not count.
        record_class : type, optional
            The class of the rows: one derived from :class:`Record`, or `tuple`, `dict`, a dataclass, a named tuple or a
            model of pydantic, which is called with the values by their columns' names; the connection's own class by
            default.
        **values
            The values of `:name` parameters, in place of `args`.

        Returns
        -------
        list of Record
            The rows.

        Examples
        --------
        >>> await connection.fetch("select id, carrier from flights where day = $1", 3)
        [<Record id=1 carrier='LH'>]
        """
        raise NotImplementedError

    @overload
    def fetchrow(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: None = None, **values: Any
    ) -> Coroutine[Any, Any, Optional[RecordT]]: ...

    @overload
    def fetchrow(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: type[RowT], **values: Any
    ) -> Coroutine[Any, Any, Optional[RowT]]: ...

    def fetchrow(
        self,
        query: str,
        *args: Any,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a query, and give its first row.

        Parameters
        ----------
        query, args, timeout, record_class, values
            As in :meth:`fetch`.

        Returns
        -------
        Record or None
            The row; None if there is none.

        Examples
        --------
        >>> await connection.fetchrow("select id, carrier from flights where id = $1", 1)
        <Record id=1 carrier='LH'>
        """
        raise NotImplementedError

    @overload
    def fetchmany(
        self, query: str, args: ArgumentLists, *, timeout: Optional[float] = None, record_class: None = None
    ) -> Coroutine[Any, Any, list[RecordT]]: ...

    @overload
    def fetchmany(
        self, query: str, args: ArgumentLists, *, timeout: Optional[float] = None, record_class: type[RowT]
    ) -> Coroutine[Any, Any, list[RowT]]: ...

    def fetchmany(
        self,
        query: str,
        args: ArgumentLists,
        *,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
    ) -> Coroutine[Any, Any, list[Any]]:
        """Run a query once for each of many argument lists, and give the rows of all.

        Parameters
        ----------
        query : str
            The query.
        args : iterable of sequences or of mappings
            The argument lists, or the values of `:name` parameters.
        timeout : float, optional
            Seconds for the whole operation.
        record_class : type, optional
            As in :meth:`fetch`.

        Returns
        -------
        list of Record
            The rows.

        Examples
        --------
        >>> await connection.fetchmany("insert into flights values ($1) returning id", [(1,), (2,)])
        [<Record id=1>, <Record id=2>]
        """
        raise NotImplementedError


def name_methods(kind: type[Fetching[Any]]) -> None:
    """Name a class's methods for messages, tracebacks and `help`, wherever the functions stand."""
    for name, method in vars(kind).items():
        if inspect.isfunction(method):
            method.__qualname__ = f"{kind.__name__}.{name}"
            method.__doc__ = method.__doc__ or getattr(Fetching, name, method).__doc__
