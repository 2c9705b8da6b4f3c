"""The rows of a cursor: their columns, and the factories that give rows the type that the program wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional, TypeVar

_T = TypeVar("_T")

# A row's values in the order of the columns, to what the program wants of a row.
RowMaker = Callable[[tuple[Any, ...]], _T]
# The names of the columns, to a maker of rows.
RowFactory = Callable[[list[str]], RowMaker[_T]]


class Column(NamedTuple):
    """What `description` has of a column, as PEP 249 wants it; the type's code is PostgreSQL's number of it.

    The sizes are in characters and in bytes, None where values differ; precision and scale are as declared.
    """

    name: str
    type_code: int
    display_size: Optional[int] = None
    internal_size: Optional[int] = None
    precision: Optional[int] = None
    scale: Optional[int] = None
    null_ok: None = None

    @classmethod
    def of(cls, name: str, type_code: int, size: int, modifier: int) -> Column:
        """A column by what the server says of it."""
        internal_size = size if size > 0 else None
        if modifier < 0:
            return cls(name, type_code, None, internal_size)
        if type_code in _TEXTS:
            return cls(name, type_code, modifier - 4, internal_size)
        if type_code in _BITS:
            return cls(name, type_code, modifier, internal_size)
        if type_code == _NUMERIC:
            # The scale is a number with a sign, of eleven bits.
            scale = ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400
            return cls(name, type_code, None, internal_size, modifier - 4 >> 16 & 0xFFFF, scale)
        precision = modifier & 0xFFFF
        timed = type_code in _TIMES and precision != 0xFFFF
        return cls(name, type_code, None, internal_size, precision if timed else None)


# The numbers of types that are declared with a length, and of those with the digits of a second.
_TEXTS = (1042, 1043)
_BITS = (1560, 1562)
_NUMERIC = 1700
_TIMES = (1083, 1114, 1184, 1186, 1266)


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
