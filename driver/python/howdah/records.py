"""Rows whose values are attributes too."""

from __future__ import annotations

from typing import Any

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
