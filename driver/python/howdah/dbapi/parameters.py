"""Placeholders: `%s` and `%(name)s`, as `$1`, `$2` and so on; `$1` is left as it is."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from .. import named
from .errors import InterfaceError, ProgrammingError
from .literals import literal

_PLACEHOLDER = re.compile(r"% (?: (?P<percent>%) | (?P<plain>s) | \( (?P<name>[^)]*) \) s )?", re.VERBOSE)
# What the extended protocol takes a statement for, and COPY needs more than that.
_COPY = re.compile(r"\s*copy\b.*\b(?P<way>from|to)\s+(?:stdin|stdout)\b", re.IGNORECASE | re.DOTALL)
_IS_COPY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*copy\b", re.IGNORECASE | re.DOTALL)
# Text in which words are not the command's own.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/", re.DOTALL)
_INNERMOST = re.compile(r"\([^()]*\)")


def command(given: Any) -> str:
    """Give a command as a text; bytes, such as those of `mogrify`, are UTF-8.

    Raises
    ------
    TypeError
        It is neither.
    """
    if isinstance(given, str):
        return given
    if isinstance(given, bytes):
        return given.decode()
    raise TypeError(f"the command is expected to be a str or bytes, not {type(given).__name__}")


def bind(query: str, values: Any) -> tuple[str, tuple[Any, ...]]:
    """Give the query as the server takes it, and its arguments.

    Parameters
    ----------
    query : str
        SQL. Without values it is left as it is: a percent sign stands for itself.
    values : sequence, mapping or None
        The values of `%s` or `$1` placeholders, or of `%(name)s` ones.

    Raises
    ------
    ProgrammingError
        The placeholders are not those that the values are for, or a name has no value.
    """
    if values is None:
        return query, ()
    if isinstance(values, Mapping):
        text, names = _translate(query, True)
        return text, _named(names or (), values)
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise ProgrammingError(
            f"values are expected to be a sequence or a mapping, not {type(values).__name__}: "
            "a single value is written (value,)"
        )
    if not values:
        # An empty sequence is as good as none: SQLAlchemy's and Django's way.
        return (_translate(query, False)[0] if "%" in query else query), ()
    return _translate(query, False)[0], tuple(values)


def bind_many(query: str, rows: Iterable[Any]) -> tuple[str, Optional[Iterator[tuple[Any, ...]]]]:
    """Give the query as the server takes it, and its argument lists one by one; None when there are none."""
    rest = iter(rows)
    first = next(rest, None)
    if first is None:
        return query, None
    by_name = isinstance(first, Mapping)
    text, names = _translate(query, by_name)

    def lists() -> Iterator[tuple[Any, ...]]:
        for number, row in enumerate(itertools.chain((first,), rest)):
            if isinstance(row, Mapping) != by_name:
                raise ProgrammingError("the argument lists are expected to be all sequences or all mappings")
            yield _named(names or (), row) if by_name else _by_position(number, row)

    return text, lists()


def _by_position(number: int, row: Any) -> tuple[Any, ...]:
    if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        raise ProgrammingError(
            f"invalid input in executemany() argument sequence element #{number}: expected a sequence or a mapping, "
            f"got {type(row).__name__}; a single value is written (value,)"
        )
    return tuple(row)


def count(query: str) -> int:
    """How many parameters a query has, by the highest of its numbers."""
    return max((int(found["number"]) for found in named.parts(query) if found["number"] is not None), default=0)


def refuse_copy(query: str) -> None:
    """Refuse COPY with the client, which needs methods of its own."""
    if _copy_with_client(query):
        raise InterfaceError("execute() cannot run COPY with the client: use cursor.copy_in() or cursor.copy_out()")


def copies_out(query: str) -> Optional[bool]:
    """Whether it is COPY to the client, and not from it; None where it is neither."""
    found = _copy_with_client(query)
    return None if found is None else found["way"].lower() == "to"


def _copy_with_client(query: str) -> Optional[re.Match[str]]:
    # Every statement comes by here, and few are COPY.
    if not _IS_COPY.match(query):
        return None
    text = _QUOTED.sub(" ", query)
    # A query in parentheses may read a relation of that name.
    while (outer := _INNERMOST.sub(" ", text)) != text:
        text = outer
    return _COPY.match(text)


def written(query: str, values: Any) -> str:
    """Give the query with the values in their places, as literals."""
    text, args = bind(query, values)
    if values is None:
        return text
    pieces: list[str] = []
    copied = 0
    for found in named.parts(text):
        if found["number"] is not None:
            place = int(found["number"])
            if place > len(args):
                raise ProgrammingError(f"there is no value for ${place}: {len(args)} given")
            pieces += (text[copied : found.start()], literal(args[place - 1]))
            copied = found.end()
    pieces.append(text[copied:])
    return "".join(pieces)


@functools.lru_cache(maxsize=256)
def is_script(query: str) -> bool:
    """Whether the text holds several commands, which only go as a whole and without values."""
    ends = [found.end() for found in named.parts(query) if found[0] == ";"]
    return any(_has_words(query[end:]) for end in ends)


def _has_words(text: str) -> bool:
    """Whether there is anything but space, comments and semicolons."""
    return bool(re.sub(r"--[^\n]*|/\*.*?\*/|[\s;]", "", text, flags=re.DOTALL))


def _named(names: tuple[str, ...], values: Mapping[str, Any]) -> tuple[Any, ...]:
    try:
        return tuple([values[name] for name in names])
    except KeyError as error:
        raise ProgrammingError(f"there is no value for the placeholder %({error.args[0]})s of the query") from None


@functools.lru_cache(maxsize=1024)
def _translate(query: str, by_name: bool) -> tuple[str, Optional[tuple[str, ...]]]:
    """The query with numbers, and the names in the order of their numbers."""
    if not by_name and any(found["number"] is not None for found in named.parts(query)):
        return query, None
    numbers: dict[str, int] = {}
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        if found["percent"]:
            return "%"
        if found["name"] is not None and by_name:
            return f"${numbers.setdefault(found['name'], len(numbers) + 1)}"
        if found["plain"] and not by_name:
            count += 1
            return f"${count}"
        if found["plain"] or found["name"] is not None:
            raise ProgrammingError(
                f"the placeholder {found[0]} takes "
                + ("values by position: give a sequence" if found["plain"] else "values by name: give a mapping")
            )
        raise ProgrammingError("in a query with values, write %% for a percent sign; placeholders are %s or %(name)s")

    text = _PLACEHOLDER.sub(number, query)
    return text, tuple(numbers) if by_name else None
