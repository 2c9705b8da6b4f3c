"""The types that values are declared to be of, by psycopg's rules, in one table.

A statement is parsed with the types of its values: `qty * 0.5` is done in `float8`, `abs(2)` in `int2`, and a number is
stored as text. Of what has no type here the server infers it from the query: of a `str`, as of a literal in quotes, and
of values that only some column's type knows, such as composites. `driver/src/codec/fit.rs` has what does not fit that.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import json
import re
import uuid
from typing import Any, Optional

from .._core import own_types
from ..types import Range
from .types import Json, Jsonb

_BOOL, _BYTEA, _INT8, _INT2, _INT4 = 16, 17, 20, 21, 23
_FLOAT4, _FLOAT8, _NUMERIC = 700, 701, 1700
_INET, _CIDR, _UUID = 869, 650, 2950
_JSON, _JSONB = 114, 3802
_DATE, _TIME, _TIMETZ, _TIMESTAMP, _TIMESTAMPTZ, _INTERVAL = 1082, 1083, 1266, 1114, 1184, 1186
# What the server is to infer, as from a literal in quotes.
_UNKNOWN = 0

_ARRAYS = {
    _BOOL: 1000,
    _BYTEA: 1001,
    _INT2: 1005,
    _INT4: 1007,
    _INT8: 1016,
    _FLOAT4: 1021,
    _FLOAT8: 1022,
    _NUMERIC: 1231,
    _INET: 1041,
    _CIDR: 651,
    _UUID: 2951,
    _DATE: 1182,
    _TIME: 1183,
    _TIMETZ: 1270,
    _TIMESTAMP: 1115,
    _TIMESTAMPTZ: 1185,
    _INTERVAL: 1187,
    _JSON: 199,
    _JSONB: 3807,
}
_RANGES = {_NUMERIC: 3906, _TIMESTAMP: 3908, _TIMESTAMPTZ: 3910, _DATE: 3912}
# Numbers that a list may mix: those on the right hold those on the left.
_NUMBERS = (_INT2, _INT4, _INT8, _NUMERIC)

_OF_CLASS: dict[type, int] = {
    type(None): _UNKNOWN,
    bool: _BOOL,
    float: _FLOAT8,
    decimal.Decimal: _NUMERIC,
    str: _UNKNOWN,
    bytes: _BYTEA,
    bytearray: _BYTEA,
    memoryview: _BYTEA,
    datetime.timedelta: _INTERVAL,
    uuid.UUID: _UUID,
    ipaddress.IPv4Address: _INET,
    ipaddress.IPv6Address: _INET,
    ipaddress.IPv4Interface: _INET,
    ipaddress.IPv6Interface: _INET,
    ipaddress.IPv4Network: _CIDR,
    ipaddress.IPv6Network: _CIDR,
}
# NumPy's, which need not be there.
_OF_NUMPY = {
    "bool": _BOOL,
    "bool_": _BOOL,
    "int8": _INT2,
    "uint8": _INT2,
    "int16": _INT2,
    "uint16": _INT4,
    "int32": _INT4,
    "uint32": _INT8,
    "int64": _INT8,
    "uint64": _NUMERIC,
    "float16": _FLOAT4,
    "float32": _FLOAT4,
}


class Literal(str):
    """A text that the server reads, whatever codec its type has."""

    __slots__ = ()


class Listed(str):
    """A list of texts as an array's literal; the list itself is for codecs that the program has set."""

    __slots__ = ("values",)
    values: list[Any]

    def __new__(cls, values: list[Any]) -> Listed:
        """The literal of a list."""
        made = super().__new__(cls, _literal(values))
        made.values = values
        return made


# What an array's literal has in quotes.
_QUOTED = re.compile(r'[\s{}",\\]|^$|^null$', re.IGNORECASE)


def declare(values: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The types of values, 0 for what the server infers or none if it infers all, and what is sent for the values."""
    plain = own_types(values)
    if plain is not None:
        return plain, values
    types = []
    own: Optional[list[Any]] = None
    for place, value in enumerate(values):
        kind = type(value)
        found, sent = (_OF_CLASS[kind], value) if kind in _OF_CLASS else _declared(value)
        types.append(found)
        if sent is not value:
            own = list(values) if own is None else own
            own[place] = sent
    return tuple(types) if any(types) else (), values if own is None else tuple(own)


def _declared(value: Any) -> tuple[int, Any]:
    """A value's type, and what is sent for it."""
    if isinstance(value, Json):
        return (_JSONB if isinstance(value, Jsonb) else _JSON), Literal(json.dumps(value.obj))
    if isinstance(value, enum.Enum):
        return _declared(value.value)
    if isinstance(value, (list, set, frozenset)):
        return _list(list(value))
    if isinstance(value, Range):
        return _range(value)
    if isinstance(value, str) and not isinstance(value, Literal):
        # NumPy's own has a buffer of another encoding.
        return _UNKNOWN, str.__str__(value)
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in _OF_NUMPY:
        return _OF_NUMPY[kind.__name__], value.item()
    return _scalar(value), value


def _scalar(value: Any) -> int:
    for kind in type(value).__mro__:
        if kind in _OF_CLASS:
            return _OF_CLASS[kind]
    if isinstance(value, int):
        # Those of the commonest classes are the core's, `driver/src/session/own.rs`.
        return int(own_types((int(value),))[0])
    if isinstance(value, datetime.datetime):
        return _TIMESTAMP if value.utcoffset() is None else _TIMESTAMPTZ
    if isinstance(value, datetime.date):
        return _DATE
    if isinstance(value, datetime.time):
        return _TIME if value.tzinfo is None else _TIMETZ
    return _UNKNOWN


def _list(value: list[Any]) -> tuple[int, Any]:
    if any(isinstance(element, Range) for element in value):
        # It may be a range of many pieces.
        return _UNKNOWN, value
    found = {element for element, _ in _elements(value)}
    if not found or (found == {_UNKNOWN} and all(isinstance(element, str) for _, element in _elements(value))):
        # Of what type it is the server infers, as of a text.
        return _UNKNOWN, Listed(value)
    if found in ({_JSON}, {_JSONB}):
        return _ARRAYS[found.pop()], Literal(_literal(value))
    if len(found) > 1 and found <= set(_NUMBERS):
        found = {max(found, key=_NUMBERS.index)}
    elif len(found) > 1 and found <= {*_NUMBERS, _FLOAT8}:
        found = {_FLOAT8}
    return (_ARRAYS.get(found.pop(), _UNKNOWN) if len(found) == 1 else _UNKNOWN), _plain(value)


def _elements(value: list[Any]) -> Any:
    for element in value:
        if isinstance(element, list):
            yield from _elements(element)
        elif element is not None:
            yield _declared(element)


def _literal(value: list[Any]) -> str:
    return "{" + ",".join(map(_element_literal, value)) + "}"


def _element_literal(element: Any) -> str:
    if isinstance(element, list):
        return _literal(element)
    if element is None:
        return "NULL"
    text = str(_declared(element)[1]).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if _QUOTED.search(text) else text


def _plain(value: list[Any]) -> list[Any]:
    return [_plain(element) if isinstance(element, list) else _declared(element)[1] for element in value]


def _range(value: Range[Any]) -> tuple[int, Any]:
    found = {_declared(bound)[0] for bound in (value.lower, value.upper) if bound is not None}
    if found <= set(_NUMBERS[:3]):
        # The server casts no range of integers to one of other integers.
        return _UNKNOWN, _range_literal(value)
    return (_RANGES.get(found.pop(), _UNKNOWN) if len(found) == 1 else _UNKNOWN), value


def _range_literal(value: Range[Any]) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if bound is None else str(int(bound)) for bound in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"
