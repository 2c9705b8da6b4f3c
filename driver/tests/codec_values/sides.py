"""What one question to a server gives by two clients, and whether that is the same."""

import dataclasses
import math
import uuid

import asyncpg
import howdah


@dataclasses.dataclass
class Outcome:
    """A value, or the exception in its place."""

    value: object = None
    error: Exception = None

    def __str__(self):
        return f"{type(self.error).__name__}: {self.error}" if self.error else repr(self.value)


class Sides:
    """Two connections that are asked the same."""

    def __init__(self, loop, ours, theirs):
        self.loop = loop
        self.ours = ours
        self.theirs = theirs

    def close(self):
        """Ends both."""
        self.run(self.ours.close())
        self.run(self.theirs.close())

    def run(self, awaitable):
        """What an awaitable gives."""
        return self.loop.run_until_complete(awaitable)

    def execute(self, sql):
        """Runs statements once."""
        self.run(self.theirs.execute(sql))

    def outcome(self, connection, method, *args, **options):
        """What a method of a connection gives or raises."""
        try:
            return Outcome(self.run(getattr(connection, method)(*args, **options)))
        except Exception as error:
            return Outcome(error=error)

    def same(self, sql, *args, **theirs):
        """Asks both for one value, which must be of the same type and equal, or an exception of the same class.

        `theirs` may hold `args` for asyncpg where a value is of a class of the package.
        """
        ours = self.outcome(self.ours, "fetchval", sql, *args)
        other = self.outcome(self.theirs, "fetchval", sql, *theirs.get("args", args))
        problem = difference(ours, other)
        assert problem is None, f"{sql} {args!r}: {problem}; howdah: {ours}, asyncpg: {other}"
        return ours


def difference(ours, theirs):
    """What tells two outcomes apart, or None."""
    if (ours.error is None) != (theirs.error is None):
        return "one failed"
    if ours.error is not None:
        names = [type(outcome.error).__name__ for outcome in (ours, theirs)]
        return None if names[0] == names[1] else "another exception"
    return unlike(ours.value, theirs.value)


def unlike(ours, theirs):
    """What tells two values apart, or None."""
    if isinstance(theirs, uuid.UUID):
        # asyncpg has a class of its own, derived from Python's; here it is Python's.
        return None if type(ours) is uuid.UUID and ours == theirs else "another uuid"
    if type(ours).__name__ != type(theirs).__name__:
        return f"types {type(ours)} and {type(theirs)}"
    if isinstance(theirs, float):
        both_nan = math.isnan(ours) and math.isnan(theirs)
        equal = both_nan or (ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs))
        return None if equal else "another float"
    if isinstance(theirs, asyncpg.Range):
        parts = ("lower", "upper", "lower_inc", "upper_inc", "isempty")
        problems = [unlike(getattr(ours, part), getattr(theirs, part)) for part in parts]
        return next((f"range: {problem}" for problem in problems if problem), None)
    if isinstance(theirs, asyncpg.Record):
        if list(ours.keys()) != list(theirs.keys()):
            return "other columns"
        return unlike(list(ours.values()), list(theirs.values()))
    if isinstance(theirs, asyncpg.BitString):
        return None if ours.as_string() == theirs.as_string() else "other bits"
    if isinstance(theirs, (asyncpg.Path, asyncpg.Polygon)):
        closed = getattr(ours, "is_closed", None) == getattr(theirs, "is_closed", None)
        return unlike(tuple(ours.points), tuple(theirs.points)) if closed else "open and closed"
    if isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            return f"lengths {len(ours)} and {len(theirs)}"
        problems = (unlike(one, other) for one, other in zip(ours, theirs))
        return next((f"element: {problem}" for problem in problems if problem), None)
    if isinstance(theirs, dict):
        return unlike(list(ours.items()), list(theirs.items()))
    # repr tells decimals of other exponents and datetimes of other zones apart, which `==` does not.
    equal = ours == theirs or ours != ours
    return None if equal and repr(ours) == repr(theirs) else "another value"


def translated(value):
    """A value with the package's own classes replaced by asyncpg's."""
    if isinstance(value, howdah.types.Range):
        if value.isempty:
            return asyncpg.Range(empty=True)
        bounds = (translated(value.lower), translated(value.upper))
        return asyncpg.Range(*bounds, lower_inc=value.lower_inc, upper_inc=value.upper_inc)
    if isinstance(value, howdah.types.BitString):
        return asyncpg.BitString(value.as_string())
    if isinstance(value, howdah.types.Path):
        return asyncpg.Path(*(tuple(point) for point in value.points), is_closed=value.is_closed)
    if isinstance(value, howdah.types.Polygon):
        return asyncpg.Polygon(*(tuple(point) for point in value.points))
    if isinstance(value, dict):
        return {key: translated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [translated(item) for item in value]
    if type(value) is tuple:
        return tuple(translated(item) for item in value)
    return value
