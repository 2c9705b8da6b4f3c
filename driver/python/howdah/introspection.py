"""The queries about types that are not built in."""

from __future__ import annotations

from typing import Any

from ._core import INTRO_LOOKUP_TYPES as INTRO_LOOKUP_TYPES
from ._core import INTRO_LOOKUP_TYPES_13 as INTRO_LOOKUP_TYPES_13
from ._core import TYPE_BY_NAME as TYPE_BY_NAME
from ._core import Record, RecordDescriptor

_DESCRIPTOR = RecordDescriptor({"oid": 0, "elemtype": 1, "kind": 2}, ("oid", "elemtype", "kind"))

# The kinds of `pg_type.typtype` that have no parts: base types, domains and enums.
SCALAR_TYPE_KINDS = (b"b", b"d", b"e")


def TypeRecord(values: tuple[Any, ...]) -> Any:
    """What the server would say of a type."""
    return _DESCRIPTOR.make_record(Record, values)


def is_scalar_type(typeinfo: Any) -> bool:
    """Whether a type's values have no parts."""
    return typeinfo["kind"] in SCALAR_TYPE_KINDS and not typeinfo["elemtype"]


def is_domain_type(typeinfo: Any) -> bool:
    """Whether a type is a domain."""
    return bool(typeinfo["kind"] == b"d")


def is_composite_type(typeinfo: Any) -> bool:
    """Whether a type is a composite."""
    return bool(typeinfo["kind"] == b"c")
