"""Rows whose values are attributes too."""

from __future__ import annotations

from typing import Any

from . import exceptions
from .protocol import Record


class AttributeRecord(Record):
    """A :class:`Record` whose values can be read as attributes; given as `record_class`.

    Columns that are called as methods of records are (`keys`, `values`, `items`, `get`) are read by `row["keys"]`.

    Examples
    --------
    >>> row = await connection.fetchrow("select 1 as id", record_class=howdah.AttributeRecord)
    >>> row.id
    1
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the row has no column {name!r}") from None


def check_record_class(record_class: Any) -> None:
    """Refuse what is not a class of rows.

    Raises
    ------
    InterfaceError
        It is neither `tuple` nor derived from :class:`Record`, or makes its instances in a way of its own.
    """
    record = Record
    if record_class is record or record_class is tuple:
        return
    if not (isinstance(record_class, type) and issubclass(record_class, record)):
        raise exceptions.InterfaceError(
            f"record_class is expected to be a subclass of asyncpg.Record, got {record_class!r}"
        )
    if record_class.__new__ is not record.__new__ or record_class.__init__ is not record.__init__:
        raise exceptions.InterfaceError("record_class must not redefine __new__ or __init__")
