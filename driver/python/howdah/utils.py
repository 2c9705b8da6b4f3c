"""Quoting, and queries with their arguments written into them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def _numpy() -> Any:
    """NumPy, None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _quote_ident(ident: str) -> str:
    escaped = ident.replace('"', '""')
    return f'"{escaped}"'


def _quote_literal(string: str) -> str:
    escaped = string.replace("'", "''")
    return f"'{escaped}'"


async def _mogrify(conn: Any, query: str, args: Sequence[Any]) -> str:
    """The text of `query` with its arguments in place of their numbers, quoted by the server itself.

    COPY takes no arguments, so its query has to hold them.
    """
    statement = await conn.prepare(query)
    casts = []
    for number, kind in enumerate(statement.get_parameters(), start=1):
        name = f"_{kind.name[:-2]}" if kind.name.endswith("[]") else kind.name
        casts.append(f"quote_literal(${number}::{_quote_ident(kind.schema)}.{_quote_ident(name)}::text)")
    del statement
    quoted = await conn.fetchrow(f"SELECT {', '.join(casts)}", *args)

    def value(found: re.Match[str]) -> str:
        text = quoted[int(found[1]) - 1]
        return "NULL" if text is None else str(text)

    return re.sub(r"\$(\d+)\b", value, query)
