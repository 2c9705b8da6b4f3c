"""The types that values have by themselves, for parameters whose type, as the server infers it, they do not fit.

The server infers a parameter's type from the query: in `qty * %s` it is that of `qty`. A value that fits is sent as
that type. One that does not (`driver/src/codec/fit.rs` has the table) is declared to be of its own type, by psycopg's
rules, and the server computes with it or casts it: `qty * 0.5` is done in `float8`, and a number is stored as text.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import re
import uuid
from collections.abc import Sequence
from typing import Any, Optional

from ..types import Range

_BOOL, _BYTEA, _INT8, _INT2, _INT4 = 16, 17, 20, 21, 23
_FLOAT4, _FLOAT8, _NUMERIC = 700, 701, 1700
_INET, _CIDR, _UUID = 869, 650, 2950
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
}
_RANGES = {_INT4: 3904, _INT8: 3926, _NUMERIC: 3906, _TIMESTAMP: 3908, _TIMESTAMPTZ: 3910, _DATE: 3912}
# Numbers that a list may mix: those on the right hold those on the left.
_NUMBERS = (_INT2, _INT4, _INT8, _NUMERIC)

_OF_CLASS: dict[type, int] = {
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
_TIMES = (datetime.date, datetime.time, datetime.timedelta)
# What most values are, none of them a time.
_PLAIN = frozenset((int, str, float, bool, type(None), decimal.Decimal, uuid.UUID))
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


# What an array's literal has in quotes.
_QUOTED = re.compile(r'[\s{}",\\]|^$|^null$', re.IGNORECASE)


def declare(values: Sequence[Any]) -> Optional[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """The types of values, 0 for what the server infers, and the values for them; None where that changes nothing."""
    if not values:
        return None
    types, own = zip(*map(_declared, values))
    return (types, own) if any(types) or any(one is not other for one, other in zip(values, own)) else None


def of_times(values: Sequence[Any]) -> tuple[int, ...]:
    """The types of values of which those of dates and times are declared at once, the others inferred.

    What the server infers for `now() - %s` is a moment, and nothing for `date_trunc('day', %s)`.
    """
    if _PLAIN.issuperset(map(type, values)):
        return ()
    types = tuple([_scalar(value) if isinstance(value, _TIMES) else _UNKNOWN for value in values])
    return types if any(types) else ()


def _declared(value: Any) -> tuple[int, Any]:
    """A value's type, and what is sent for it."""
    if value is None:
        return _UNKNOWN, None
    if isinstance(value, enum.Enum):
        return _declared(value.value)
    if isinstance(value, (list, set, frozenset)):
        return _list(list(value))
    if isinstance(value, Range):
        return _range(value)
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in _OF_NUMPY:
        return _OF_NUMPY[kind.__name__], value.item()
    return _scalar(value), value


def _scalar(value: Any) -> int:
    for kind in type(value).__mro__:
        if kind in _OF_CLASS:
            return _OF_CLASS[kind]
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, datetime.datetime):
        return _TIMESTAMP if value.utcoffset() is None else _TIMESTAMPTZ
    if isinstance(value, datetime.date):
        return _DATE
    if isinstance(value, datetime.time):
        return _TIME if value.tzinfo is None else _TIMETZ
    return _UNKNOWN


def _integer(value: int) -> int:
    if -(1 << 15) <= value < 1 << 15:
        return _INT2
    if -(1 << 31) <= value < 1 << 31:
        return _INT4
    return _INT8 if -(1 << 63) <= value < 1 << 63 else _NUMERIC


def _list(value: list[Any]) -> tuple[int, Any]:
    found = {element for element, _ in _elements(value)}
    if not found or (found == {_UNKNOWN} and all(isinstance(element, str) for _, element in _elements(value))):
        # Of what type it is the server infers, as of a text.
        return _UNKNOWN, _literal(value)
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
    if not found:
        return _UNKNOWN, "empty" if value.isempty else "(,)"
    if found <= set(_NUMBERS):
        found = {max(_INT4, *found, key=_NUMBERS.index)}
    return (_RANGES.get(found.pop(), _UNKNOWN) if len(found) == 1 else _UNKNOWN), value
