"""Rows whose values are attributes too."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

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
        It is not derived from :class:`Record`, or makes its instances in a way of its own.
    """
    record = Record
    if record_class is record:
        return
    if not (isinstance(record_class, type) and issubclass(record_class, record)):
        raise exceptions.InterfaceError(
            f"record_class is expected to be a subclass of asyncpg.Record, here howdah.Record, got {record_class!r}"
        )
    if record_class.__new__ is not record.__new__ or record_class.__init__ is not record.__init__:
        raise exceptions.InterfaceError("record_class must not redefine __new__ or __init__")


def check_row_class(kind: Any) -> None:
    """Refuse what rows of one query cannot be made of.

    Raises
    ------
    InterfaceError
        It is neither a class of records, nor `tuple`, `dict`, a dataclass, a named tuple or a model of pydantic.
    """
    if kind is tuple or kind is dict or _takes_names(kind):
        return
    if not (isinstance(kind, type) and issubclass(kind, Record)):
        raise exceptions.InterfaceError(
            "record_class is expected to be a subclass of asyncpg.Record, here howdah.Record, or tuple, dict, "
            f"a dataclass, a named tuple or a model of pydantic, got {kind!r}"
        )
    check_record_class(kind)


def check_columns(kind: Any, columns: Sequence[str]) -> None:
    """Refuse columns that are not the fields of the class that rows are to be made of.

    Raises
    ------
    InterfaceError
        There is no field for a column, no column for a field without a default, or two columns have one name.
    """
    if not _takes_names(kind):
        return
    for column in columns:
        if columns.count(column) > 1:
            raise exceptions.InterfaceError(
                f"{kind.__name__} takes one value for each field, "
                f"but the query has {columns.count(column)} columns named {column!r}"
            )
    fields = _fields(kind)
    if fields is None:
        return
    for column in columns:
        if column not in fields:
            raise exceptions.InterfaceError(f"{kind.__name__} has no field for the column {column!r} of the query")
    for field, needed in fields.items():
        if needed and field not in columns:
            raise exceptions.InterfaceError(f"the query has no column for the field {field!r} of {kind.__name__}")


def _takes_names(kind: Any) -> bool:
    """Whether it is a class that is called with the values by their columns' names."""
    return isinstance(kind, type) and (_fields(kind) is not None or hasattr(kind, "model_fields"))


def _fields(kind: type) -> Optional[dict[str, bool]]:
    """The fields of a dataclass or a named tuple, and whether each needs a value; None for other classes."""
    if dataclasses.is_dataclass(kind):
        return {
            field.name: field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            for field in dataclasses.fields(kind)
            if field.init
        }
    if issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_field_defaults"):
        return {name: name not in kind._field_defaults for name in kind._fields}
    return None
