"""Values as literals of SQL, for commands that are looked at or put together; those that run send values apart."""

from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import math
import uuid
from typing import Any

from .errors import ProgrammingError


def literal(value: Any) -> str:
    """A value as PostgreSQL writes it, with its type where that is not plain.

    Raises
    ------
    ProgrammingError
        It is of a class that has no literal here, or a text with a null character.
    """
    if value is None:
        return "NULL"
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, decimal.Decimal)):
        return _number(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"decode('{bytes(value).hex()}', 'hex')"
    if isinstance(value, uuid.UUID):
        return f"'{value}'::uuid"
    if isinstance(value, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        return f"'{value}'::cidr"
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return f"'{value}'::inet"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))})"
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(literal, value))}]" if value else "'{}'"
    return _moment(value)


def quoted(text: str) -> str:
    """A text in quotes, whatever `standard_conforming_strings` is."""
    if "\0" in text:
        raise ProgrammingError("a text with a null character has no literal")
    inner = text.replace("'", "''")
    return "E'" + inner.replace("\\", "\\\\") + "'" if "\\" in inner else f"'{inner}'"


def _number(value: Any) -> str:
    if math.isfinite(value):
        # Two minus signs in a row would begin a comment.
        return f" {value}" if value < 0 else str(value)
    kind = "numeric" if isinstance(value, decimal.Decimal) else "float8"
    name = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return f"'{name}'::{kind}"


def _moment(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return f"'{value.isoformat(' ')}'::timestamp{'' if value.tzinfo is None else 'tz'}"
    if isinstance(value, datetime.date):
        return f"'{value.isoformat()}'::date"
    if isinstance(value, datetime.time):
        return f"'{value.isoformat()}'::time{'' if value.tzinfo is None else 'tz'}"
    if isinstance(value, datetime.timedelta):
        return f"'{value.days} days {value.seconds}.{value.microseconds:06} seconds'::interval"
    hint = ": pass json.dumps(value)" if isinstance(value, dict) else ""
    raise ProgrammingError(f"a value of the class {type(value).__name__} has no literal{hint}")
