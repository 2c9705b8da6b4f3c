"""PEP 249's constructors of values, and its objects by which the types of columns are told."""

from __future__ import annotations

import datetime
import time
from typing import Any

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """Return the local date of a time in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of day of a time in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Return the local date and time of a time in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


class TypeObject:
    """Equal to the type codes, which are PostgreSQL's numbers of types, that it stands for."""

    def __init__(self, name: str, *codes: int) -> None:
        self._name = name
        self._codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._codes == other._codes
        return other in self._codes

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._codes)

    def __repr__(self) -> str:
        return f"howdah.dbapi.{self._name}"


# char, bpchar, name, text, varchar, unknown; json, jsonb and xml come as text too.
STRING = TypeObject("STRING", 18, 19, 25, 114, 142, 705, 1042, 1043, 3802)
BINARY = TypeObject("BINARY", 17)
# int8, int2, int4, float4, float8, money, numeric.
NUMBER = TypeObject("NUMBER", 20, 21, 23, 700, 701, 790, 1700)
# date, time, timestamp, timestamptz, interval, timetz.
DATETIME = TypeObject("DATETIME", 1082, 1083, 1114, 1184, 1186, 1266)
# oid and tid.
ROWID = TypeObject("ROWID", 26, 27)


class Json:
    """An object for a parameter of the type `json`, as psycopg's class of this name.

    Parameters
    ----------
    obj : object
        What `json.dumps` takes.

    Examples
    --------
    >>> connection.execute("insert into events values (%s)", (Json([1, 2]),))
    """

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.obj!r})"


class Jsonb(Json):
    """The same for the type `jsonb`."""

    __slots__ = ()
