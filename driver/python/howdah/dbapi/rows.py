"""The rows of a cursor: their columns, and the factories that give rows the type that the program wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")

# A row's values in the order of the columns, to what the program wants of a row.
RowMaker = Callable[[tuple[Any, ...]], _T]
# The names of the columns, to a maker of rows.
RowFactory = Callable[[list[str]], RowMaker[_T]]


class Column(NamedTuple):
    """What `description` has of a column, as PEP 249 wants it; the type's code is PostgreSQL's number of it."""

    name: str
    type_code: int
    display_size: None = None
    internal_size: None = None
    precision: None = None
    scale: None = None
    null_ok: None = None


def check_factory(factory: Any) -> None:
    """Refuse what makes no rows.

    Raises
    ------
    TypeError
        It is no callable.
    """
    if factory is not None and not callable(factory):
        raise TypeError(
            "row_factory is expected to be a callable, such as howdah.dbapi.dict_row or class_row(kind), "
            f"got {factory!r}"
        )


def dict_row(names: list[str]) -> RowMaker[dict[str, Any]]:
    """Make rows dicts, for `row_factory`."""
    return lambda row: dict(zip(names, row))


def class_row(kind: Callable[..., _T]) -> RowFactory[_T]:
    """Make rows instances of a class, a dataclass for instance, whose arguments have the columns' names."""
    return lambda names: lambda row: kind(**dict(zip(names, row)))
