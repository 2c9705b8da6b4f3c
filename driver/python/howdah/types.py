"""The Python side of PostgreSQL's types: descriptions of types, and values for which Python has no class."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Optional, Protocol, TypeVar

from .pgproto.types import (
    BitString,
    Box,
    Circle,
    Line,
    LineSegment,
    Path,
    Point,
    Polygon,
)

__all__ = (
    "Attribute",
    "BitString",
    "Box",
    "Circle",
    "Line",
    "LineSegment",
    "Path",
    "Point",
    "Polygon",
    "Range",
    "ServerVersion",
    "Type",
)


class Type(NamedTuple):
    """A data type of the database."""

    oid: int
    """The OID of the type."""
    name: str
    """Its name, ``int4`` for one; an array's is that of its elements with ``[]``."""
    kind: str
    """``scalar``, ``array``, ``composite``, ``range`` or ``multirange``."""
    schema: str
    """The schema that it is defined in."""


class Attribute(NamedTuple):
    """A column of a result."""

    name: str
    """The name of the column."""
    type: Type
    """The type of its values."""


class ServerVersion(NamedTuple):
    """The version of a server.

    Since PostgreSQL 10 the second number of a version is a bug fix release; it is `micro` here, and `minor` is 0, so
    that comparing ``version[:2]`` compares major versions.
    """

    major: int
    minor: int
    micro: int
    releaselevel: str
    serial: int


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...

    def __gt__(self, other: Any, /) -> bool: ...


_V = TypeVar("_V", bound=_Ordered)


class Range(Generic[_V]):
    """A value of a range type; it cannot be changed.

    Parameters
    ----------
    lower, upper : optional
        The bounds; None for a range without that bound.
    lower_inc, upper_inc : bool
        Whether the bound itself belongs to the range. A bound that is not there does not.
    empty : bool
        Whether the range has no element at all; then it has no bounds either.

    Examples
    --------
    >>> Range(1, 10)
    <Range [1, 10)>
    >>> Range(2, 5).issubset(Range(1, 10))
    True
    """

    __slots__ = ("_empty", "_lower", "_lower_inc", "_upper", "_upper_inc")

    _lower: Optional[_V]
    _upper: Optional[_V]
    _lower_inc: bool
    _upper_inc: bool
    _empty: bool

    def __init__(
        self,
        lower: Optional[_V] = None,
        upper: Optional[_V] = None,
        *,
        lower_inc: bool = True,
        upper_inc: bool = False,
        empty: bool = False,
    ) -> None:
        self._empty = empty
        self._lower = None if empty else lower
        self._upper = None if empty else upper
        self._lower_inc = self._lower is not None and lower_inc
        self._upper_inc = self._upper is not None and upper_inc

    @property
    def lower(self) -> Optional[_V]:
        """The lower bound, None if there is none."""
        return self._lower

    @property
    def lower_inc(self) -> bool:
        """Whether the lower bound belongs to the range."""
        return self._lower_inc

    @property
    def lower_inf(self) -> bool:
        """Whether the range has no lower bound."""
        return self._lower is None and not self._empty

    @property
    def upper(self) -> Optional[_V]:
        """The upper bound, None if there is none."""
        return self._upper

    @property
    def upper_inc(self) -> bool:
        """Whether the upper bound belongs to the range."""
        return self._upper_inc

    @property
    def upper_inf(self) -> bool:
        """Whether the range has no upper bound."""
        return self._upper is None and not self._empty

    @property
    def isempty(self) -> bool:
        """Whether the range has no element."""
        return self._empty

    def issubset(self, other: Range[_V]) -> bool:
        """Whether every element of this range is one of `other`.

        Parameters
        ----------
        other : Range
            Another range of the same type.

        Examples
        --------
        >>> Range(2, 3).issubset(Range(1, 5))
        True
        """
        if self._empty or other._empty:
            return self._empty
        return self._starts_within(other) and self._ends_within(other)

    def issuperset(self, other: Range[_V]) -> bool:
        """Whether every element of `other` is one of this range.

        Parameters
        ----------
        other : Range
            Another range of the same type.
        """
        return other.issubset(self)

    def _starts_within(self, other: Range[_V]) -> bool:
        if other._lower is None or self._lower is None:
            return other._lower is None
        if self._lower == other._lower:
            return other._lower_inc or not self._lower_inc
        return self._lower > other._lower

    def _ends_within(self, other: Range[_V]) -> bool:
        if other._upper is None or self._upper is None:
            return other._upper is None
        if self._upper == other._upper:
            return other._upper_inc or not self._upper_inc
        return self._upper < other._upper

    def _key(self) -> tuple[Any, ...]:
        return (self._lower, self._upper, self._lower_inc, self._upper_inc, self._empty)

    def __bool__(self) -> bool:
        return not self._empty

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Range):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self._empty:
            return "<Range empty>"
        opening = "[" if self._lower_inc else "("
        closing = "]" if self._upper_inc else ")"
        lower = "" if self._lower is None else repr(self._lower)
        upper = "" if self._upper is None else repr(self._upper)
        return f"<Range {opening}{lower}, {upper}{closing}>"

    __str__ = __repr__
