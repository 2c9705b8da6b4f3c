"""Parameters by name: `:name` in a query, as `$1`, `$2` and so on."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Optional

from . import exceptions
from .exceptions._base import FORMAT_HINT

# What is skipped whole, and what a parameter looks like. A cast (`::`) is skipped, as is `:=`.
_PART = re.compile(
    r"""
    --[^\n]*                                            # a comment to the end of the line
    | /\*                                               # a comment, which may hold others
    | (?<![\w$]) [eE] ' (?: [^'\\] | '' | \\. )* '      # a string with escapes
    | ' (?: [^'] | '' )* '                              # a string
    | " (?: [^"] | "" )* "                              # an identifier
    | (?<![\w$]) \$ (?: [^\W\d] \w* )? \$               # the beginning of a string in dollars
    | :: | :=
    | [\[\];]
    | : (?P<name> [^\W\d] \w* )
    | (?<![\w$]) \$ (?P<number> \d+ )
    """,
    re.VERBOSE | re.DOTALL,
)
# What stands right before the colon of `json_object('key':value)`, and of no parameter.
_GLUED = re.compile(r"""[\w'")\]]""")
_COMMENT = re.compile(r"/\*|\*/")


def bind(query: str, named: Mapping[str, Any], args: tuple[Any, ...] = ()) -> tuple[str, tuple[Any, ...]]:
    """Put numbers in place of the names in a query, and the values in their order.

    Strings, comments, quoted identifiers and casts are left alone, and so is the bound of an array's slice, as in
    `days[1:n]`, unless there is a value of that name.

    Parameters
    ----------
    query : str
        SQL with `:name` in place of values. A name may be used more than once.
    named : mapping of str to object
        The values.
    args : tuple
        The values that were given by position: there may be none.

    Returns
    -------
    tuple of str and tuple
        The query as the server takes it, and the arguments.

    Raises
    ------
    InterfaceError
        A name has no value, or a value is not used, or there are values by position too.

    Examples
    --------
    >>> bind("select * from flights where id = :id", {"id": 1})
    ('select * from flights where id = $1', (1,))
    """
    _check_no_positions(args)
    text, names = _translate(query, frozenset(named))
    return text, tuple(named[name] for name in names)


def bind_many(query: str, rows: Iterable[Any]) -> tuple[str, Iterable[Any]]:
    """Put numbers in place of the names in a query that is given many argument lists, if those are mappings.

    Parameters
    ----------
    query : str
        SQL with `:name` in place of values.
    rows : iterable of mappings
        The values; all have the names of the first. Other argument lists are left as they are, and so is the query
        then.

    Returns
    -------
    tuple of str and iterable
        The query as the server takes it, and the argument lists.

    Raises
    ------
    InterfaceError
        As for :func:`bind`; for what comes after the first while it is taken.

    Examples
    --------
    >>> query, rows = bind_many("insert into flights values (:id)", [{"id": 1}, {"id": 2}])
    >>> query, list(rows)
    ('insert into flights values ($1)', [(1,), (2,)])
    """
    first, rows = _first(rows)
    if not isinstance(first, Mapping):
        return query, rows
    text, names = _translate(query, frozenset(first))
    return text, _lists(rows, names)


def find(query: str) -> tuple[str, tuple[str, ...]]:
    """Put numbers in place of the names in a query that is given its values later.

    Parameters
    ----------
    query : str
        SQL with `:name` in place of values; not in the bounds of an array's slice, and not right behind a word, a
        string or a bracket, as in `json_object('key':value)`.

    Returns
    -------
    tuple of str and tuple of str
        The query as the server takes it, and the names in the order of their numbers.

    Examples
    --------
    >>> find("select * from flights where id = :id")
    ('select * from flights where id = $1', ('id',))
    """
    return _translate(query, None) if ":" in query else (query, ())


def arguments(names: tuple[str, ...], named: Mapping[str, Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put values in the order of the names that :func:`find` has found.

    Parameters
    ----------
    names : tuple of str
        The names.
    named : mapping of str to object
        The values.
    args : tuple
        The values that were given by position, in place of `named`.

    Returns
    -------
    tuple
        The arguments.

    Raises
    ------
    InterfaceError
        As for :func:`bind`.
    """
    if not named:
        return args
    _check_no_positions(args)
    for name in names:
        if name not in named:
            raise _no_value(name)
    _check_all_used(named, names)
    return tuple(named[name] for name in names)


def argument_lists(names: tuple[str, ...], rows: Iterable[Any]) -> Iterable[Any]:
    """Put the values of many argument lists in the order of the names, if those are mappings.

    Parameters
    ----------
    names : tuple of str
        What :func:`find` has found.
    rows : iterable of sequences or of mappings
        The values.

    Returns
    -------
    iterable
        The argument lists.
    """
    if not names:
        return rows
    first, rows = _first(rows)
    return _lists(rows, names) if isinstance(first, Mapping) else rows


def _first(rows: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The first element, None if there is none, and all of them."""
    if isinstance(rows, (list, tuple)):
        return (rows[0] if rows else None), rows
    rest = iter(rows)
    taken = list(itertools.islice(rest, 1))
    return (taken[0] if taken else None), itertools.chain(taken, rest)


def _lists(rows: Iterable[Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or len(row) != len(names) or any(name not in row for name in names):
            listed = ", ".join(f":{name}" for name in names)
            raise exceptions.InterfaceError(
                f"element #{number} of the argument lists does not have the values {listed}"
            )
        yield tuple(row[name] for name in names)


@functools.lru_cache(maxsize=1024)
def _translate(query: str, given: Optional[frozenset[str]]) -> tuple[str, tuple[str, ...]]:
    """The query with numbers, and the names; `given` are those that have a value, None if that is not known yet."""
    numbers: dict[str, int] = {}
    pieces: list[str] = []
    copied = depth = 0
    by_position = False
    for found in parts(query):
        part, name = found[0], found["name"]
        if found["number"] is not None:
            by_position = True
        elif part == "[":
            depth += 1
        elif part == "]":
            depth -= 1
        elif name is not None:
            if given is None or name not in given:
                if depth > 0 or (given is None and _GLUED.match(query, found.start() - 1)):
                    continue
                if given is not None:
                    raise _no_value(name)
            pieces += (query[copied : found.start()], f"${numbers.setdefault(name, len(numbers) + 1)}")
            copied = found.end()
    if by_position and numbers:
        raise exceptions.InterfaceError("a query takes values by position or by name, not both")
    if given is not None:
        _check_all_used(given, numbers, query)
    pieces.append(query[copied:])
    return "".join(pieces), tuple(numbers)


def parts(query: str) -> Iterator[re.Match[str]]:
    """What of a query may mean something to the driver: not what is inside of strings, identifiers and comments."""
    position = 0
    while (found := _PART.search(query, position)) is not None:
        part, position = found[0], found.end()
        if part == "/*":
            position = _end_of_comment(query, position)
        elif part[0] == "$" and found["number"] is None:
            end = query.find(part, position)
            position = len(query) if end < 0 else end + len(part)
        else:
            yield found


def _check_no_positions(args: tuple[Any, ...]) -> None:
    if args:
        raise exceptions.InterfaceError("a query takes values by position or by name, not both")


def _check_all_used(given: Iterable[str], names: Container[str], query: str = "") -> None:
    unused = sorted(name for name in given if name not in names)
    if unused:
        raise exceptions.InterfaceError(
            "the query has no parameters " + ", ".join(f":{name}" for name in unused),
            hint=FORMAT_HINT if any(f"%({name})s" in query for name in unused) else None,
        )


def _no_value(name: str) -> exceptions.InterfaceError:
    return exceptions.InterfaceError(f"there is no value for the parameter :{name} of the query")


def _end_of_comment(query: str, position: int) -> int:
    depth = 1
    while depth:
        found = _COMMENT.search(query, position)
        if found is None:
            return len(query)
        depth += 1 if found[0] == "/*" else -1
        position = found.end()
    return position
