"""Bit strings and geometry: plain immutable values."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, SupportsFloat, SupportsIndex, Union, overload

if TYPE_CHECKING:
    import sys

    if sys.version_info >= (3, 11):
        from typing import Self
    else:
        from typing_extensions import Self

__all__ = ("BitString", "Box", "Circle", "Line", "LineSegment", "Path", "Point", "Polygon")

_Order = Literal["big", "little"]
_Number = Union[SupportsFloat, SupportsIndex, str, bytes, bytearray]


class BitString:
    """A value of the types `bit` and `varbit`; it cannot be changed.

    Parameters
    ----------
    bitstring : str or sequence of int, optional
        The bits, ``'0'`` and ``'1'``, the first one first; spaces are left out. Empty by default.

    Raises
    ------
    ValueError
        A character is neither 0 nor 1.

    Examples
    --------
    >>> BitString("1010 01").as_string()
    '1010 01'
    """

    __slots__ = ("_bitlength", "_bytes")

    _bytes: builtins.bytes
    _bitlength: int

    def __init__(self, bitstring: Optional[Union[str, builtins.bytes, Sequence[Any]]] = None) -> None:
        value = 0
        length = 0
        for position, bit in enumerate(bitstring or ()):
            if bit == " ":
                continue
            digit = int(bit)
            if digit not in (0, 1):
                raise ValueError(f"invalid bit value at position {position}")
            value = value << 1 | digit
            length += 1
        self._bytes = (value << -length % 8).to_bytes((length + 7) // 8, "big")
        self._bitlength = length

    @classmethod
    def frombytes(cls, bytes_: Optional[builtins.bytes] = None, bitlength: Optional[int] = None) -> Self:
        """The bit string whose bits are those of `bytes_`, the most significant bit of each byte first.

        Parameters
        ----------
        bytes_ : bytes, optional
            The bits; zeros if left out.
        bitlength : int, optional
            The number of bits that count; all by default.

        Raises
        ------
        ValueError
            `bytes_` does not have the length that `bitlength` bits need.
        """
        if bytes_ is None:
            bitlength = bitlength or 0
            bytes_ = bytes(bitlength // 8 + 1) if bitlength else b""
        else:
            room = len(bytes_) * 8
            if bitlength is None:
                bitlength = room
            if not room - 8 <= bitlength <= room or (bitlength == 0) != (room == 0):
                raise ValueError("invalid bit length specified")
        result = cls()
        result._bytes = bytes_
        result._bitlength = bitlength
        return result

    @property
    def bytes(self) -> builtins.bytes:
        """The bits, eight in a byte, the first one the most significant; the last byte is filled with zeros."""
        return self._bytes

    def as_string(self) -> str:
        """The bits as digits, in groups of four."""
        digits = "".join(str(self[i]) for i in range(self._bitlength))
        return " ".join(digits[i : i + 4] for i in range(0, len(digits), 4))

    def to_int(self, bitorder: _Order = "big", *, signed: bool = False) -> int:
        """The number that the bits stand for.

        Parameters
        ----------
        bitorder : {'big', 'little'}
            Whether the first bit is the most significant one, as in PostgreSQL's own casts, or the least.
        signed : bool
            Whether the number is in two's complement.

        Returns
        -------
        int
            The number; how many bits there were is lost.

        Raises
        ------
        ValueError
            `bitorder` is neither.
        """
        length = self._bitlength
        value = int.from_bytes(self._bytes[: (length + 7) // 8], "big") >> (-length % 8)
        value = _ordered(value, length, bitorder)
        if signed and length and value >> (length - 1):
            value -= 1 << length
        return value

    @classmethod
    def from_int(cls, x: int, length: int, bitorder: _Order = "big", *, signed: bool = False) -> Self:
        """The bit string of a number.

        Parameters
        ----------
        x : int
            The number.
        length : int
            How many bits it gets.
        bitorder : {'big', 'little'}
            Whether the most significant bit comes first, as in PostgreSQL's own casts, or last.
        signed : bool
            Whether a negative number is allowed; it is written in two's complement.

        Raises
        ------
        OverflowError
            `x` needs more bits, or it is negative and `signed` is false.
        ValueError
            `length` is negative, or `bitorder` is neither.
        """
        if length < 0:
            raise ValueError("length argument must be non-negative")
        if length < x.bit_length():
            raise OverflowError("int too big to convert")
        if x < 0:
            if not signed:
                raise OverflowError("can't convert negative int to unsigned")
            x &= (1 << length) - 1
        x = _ordered(x, length, bitorder)
        result = cls()
        result._bytes = (x << -length % 8).to_bytes((length + 7) // 8, "big")
        result._bitlength = length
        return result

    def __repr__(self) -> str:
        return f"<BitString {self.as_string()}>"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BitString):
            return NotImplemented
        return self._bitlength == other._bitlength and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash((self._bytes, self._bitlength))

    # Bits are iterated over by their positions: with an `__iter__`, a bit string within a list would look like a list.
    def __getitem__(self, i: int) -> int:
        if isinstance(i, slice):
            raise NotImplementedError("BitString does not support slices")
        if i >= self._bitlength:
            raise IndexError("index out of range")
        return self._bytes[i // 8] >> (7 - i % 8) & 1

    def __len__(self) -> int:
        return self._bitlength


def _ordered(value: int, length: int, bitorder: str) -> int:
    if bitorder == "big":
        return value
    if bitorder == "little":
        return int(format(value, f"0{length}b")[::-1], 2) if length else 0
    raise ValueError("bitorder must be either 'big' or 'little'")


def _shown(value: tuple[Any, ...]) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__name__}({tuple.__repr__(value)})"


class Point(tuple[float, float]):
    """A value of the type `point`: (x, y)."""

    __slots__ = ()

    def __new__(cls, x: _Number, y: _Number) -> Self:
        """Make a point of two numbers."""
        return super().__new__(cls, (float(x), float(y)))

    __repr__ = _shown

    @property
    def x(self) -> float:
        """The abscissa."""
        return self[0]

    @property
    def y(self) -> float:
        """The ordinate."""
        return self[1]


class Box(tuple[Point, Point]):
    """A value of the type `box`: its upper right corner and its lower left one."""

    __slots__ = ()

    def __new__(cls, high: Sequence[float], low: Sequence[float]) -> Self:
        """Make a box of two corners."""
        return super().__new__(cls, (Point(*high), Point(*low)))

    __repr__ = _shown

    @property
    def high(self) -> Point:
        """The upper right corner."""
        return self[0]

    @property
    def low(self) -> Point:
        """The lower left corner."""
        return self[1]


class Line(tuple[float, float, float]):
    """A value of the type `line`: A, B and C of Ax + By + C = 0."""

    __slots__ = ()

    def __new__(cls, A: float, B: float, C: float) -> Self:
        """Make a line of its three coefficients."""
        return super().__new__(cls, (A, B, C))

    @property
    def A(self) -> float:
        """The coefficient of x."""
        return self[0]

    @property
    def B(self) -> float:
        """The coefficient of y."""
        return self[1]

    @property
    def C(self) -> float:
        """The constant."""
        return self[2]


class LineSegment(tuple[Point, Point]):
    """A value of the type `lseg`: its two ends."""

    __slots__ = ()

    def __new__(cls, p1: Sequence[float], p2: Sequence[float]) -> Self:
        """Make a segment of its ends."""
        return super().__new__(cls, (Point(*p1), Point(*p2)))

    __repr__ = _shown

    @property
    def p1(self) -> Point:
        """One end."""
        return self[0]

    @property
    def p2(self) -> Point:
        """The other end."""
        return self[1]


class Path:
    """A value of the type `path`: points, and whether the last one is joined to the first."""

    __slots__ = ("_is_closed", "points")

    points: tuple[Point, ...]

    def __init__(self, *points: Sequence[float], is_closed: bool = False) -> None:
        self.points = tuple(Point(*point) for point in points)
        self._is_closed = is_closed

    @property
    def is_closed(self) -> bool:
        """Whether the last point is joined to the first."""
        return self._is_closed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return self.points == other.points and self._is_closed == other._is_closed

    def __hash__(self) -> int:
        return hash((self.points, self._is_closed))

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, i: int) -> Point: ...

    @overload
    def __getitem__(self, i: slice) -> tuple[Point, ...]: ...

    def __getitem__(self, i: Union[int, slice]) -> Union[Point, tuple[Point, ...]]:
        return self.points[i]

    def __contains__(self, point: object) -> bool:
        return point in self.points


class Polygon(Path):
    """A value of the type `polygon`: a path that is closed."""

    __slots__ = ()

    def __init__(self, *points: Sequence[float]) -> None:
        super().__init__(*points, is_closed=True)


class Circle(tuple[Point, float]):
    """A value of the type `circle`: its centre and its radius."""

    __slots__ = ()

    def __new__(cls, center: Point, radius: float) -> Self:
        """Make a circle of its centre and its radius."""
        return super().__new__(cls, (center, radius))

    @property
    def center(self) -> Point:
        """The centre."""
        return self[0]

    @property
    def radius(self) -> float:
        """The radius."""
        return self[1]
