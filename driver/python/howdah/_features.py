"""What columns are to a model that is trained outside of the server: the features that `pgml.train` makes of them.

A column makes one or more *raw* features, read by SQL: a number less its origin, the code of a category, the parts of a
date. A *step* makes of each what the model sees: encoded, imputed, scaled. Both stand in the description that is stored
with the model, by which the server makes the same of a row that it predicts. The words and rules of `preprocess` are
those of docs/guide/models.md; the arithmetic is that of `learn::preprocess` in crates/learn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

# A number is a float32 as it is up to here, and whole numbers beyond may not be.
_LARGE = 2.0**24
# Of more categories the most frequent are told apart, and those with so many rows.
_MANY_CATEGORIES, _MANY_ROWS = 255, 500
# A text with so many distinct values may be one of names.
_MANY_TEXTS = 50
_MOST_CATEGORIES = 65_536
_MOST_ONE_HOT = 10_000
_MOST_BUCKETS = 65_536

_DATE = ("year", "month", "day", "isodow", "doy", "epoch")
_TIMESTAMP = ("year", "month", "day", "isodow", "doy", "hour", "minute", "epoch")
_MOMENTS = {"date": _DATE, "timestamp without time zone": _TIMESTAMP, "timestamp with time zone": _TIMESTAMP}
_SECONDS = ("time without time zone", "interval")
_WHOLE = ("smallint", "integer", "bigint")
# Of these a value is no other number than its float32.
_NARROW = ("real", "smallint", "boolean", "time without time zone")

_ROLES = ("feature", "ignore", "weight", "test", "time", "group", "key")
_IMPUTES = ("error", "mean", "median", "mode", "min", "max", "zero")
_SCALES = ("preserve", "standard", "min_max", "max_abs", "robust")
_KEYS = ("role", "encode", "impute", "indicator", "scale")
# An imputation that is learnt from values.
_LEARNT = ("mean", "median", "mode", "min", "max")


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text, whatever `standard_conforming_strings` is."""
    return (
        ("E'" + text.replace("\\", "\\\\").replace("'", "''") + "'")
        if "\\" in text
        else f"'{text.replace(chr(39), chr(39) * 2)}'"
    )


def bucket(text: str, buckets: int) -> int:
    """Hash a text by FNV-1a, as models know it for ever."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value % buckets


class Group(NamedTuple):
    """A category in the rows: how many there are, and the sum of their labels. Of NULL the name is None."""

    name: Optional[str]
    rows: int
    labels: float


class Feature(NamedTuple):
    """A raw feature: of which column, the SQL of its value (a text if it is hashed), and what is taken off a number."""

    column: Column
    sql: str
    origin: float


class Column:
    """A column that features are made from."""

    def __init__(self, name: str, type_name: str, category: str, spec: Mapping[str, Any]) -> None:
        self.name = name
        self.type_name = type_name
        self.spec = spec
        encoded = spec.get("encode") is not None
        self.is_category = category in ("S", "E") or (encoded and (type_name in _WHOLE or category == "B"))
        if encoded and not self.is_category:
            raise _refused(name, 'cannot have "encode": only text, enums, whole numbers and booleans are encoded')
        self.parts = _MOMENTS.get(type_name, ())
        self.is_boolean = category == "B"
        # Of a hashed column the names of its buckets, else those in the rows in the order of their bytes.
        self.categories: Optional[list[str]] = None
        self.empty: list[int] = []
        self.origins: list[float] = []

    @property
    def buckets(self) -> int:
        """The number of buckets, 0 of a column that is not hashed."""
        encode = self.spec.get("encode")
        return int(encode["hash"]) if isinstance(encode, dict) and "hash" in encode else 0

    @property
    def is_wide(self) -> bool:
        """Whether its numbers may be more than float32 tells apart."""
        return not self.is_category and self.type_name not in _NARROW

    def values(self) -> list[str]:
        """The SQL of its numbers as they are, or of its text."""
        name = quoted(self.name)
        if self.is_category:
            return [f"{name}::text"]
        if self.parts:
            moment = f"({name} AT TIME ZONE 'UTC')" if self.type_name == "timestamp with time zone" else name
            return [f"extract({part} FROM {moment})::float8" for part in self.parts]
        if self.type_name in _SECONDS:
            return [f"extract(epoch FROM {name})::float8"]
        return [f"{name}::integer::float8" if self.is_boolean else f"{name}::float8"]

    def features(self) -> list[Feature]:
        """The raw features, when categories and origins are known."""
        (value, *_) = values = self.values()
        if self.buckets:
            return [Feature(self, value, 0.0)]
        if self.is_category:
            codes = json.dumps({name: code for code, name in enumerate(self.categories or [])})
            return [Feature(self, f"coalesce(({literal(codes)}::jsonb ->> {value})::real, 'NaN')", 0.0)]
        origins = self.origins or [0.0] * len(values)
        if not self.is_wide or (self.type_name in _WHOLE and not origins[0]):
            # Rounded once, not twice.
            name = quoted(self.name)
            values = [f"{value}::real" if self.is_boolean or self.type_name in _SECONDS else f"{name}::real"]
        return [Feature(self, f"coalesce({sql}, 'NaN')", origin) for sql, origin in zip(values, origins)]

    def knows(self, text: Optional[str]) -> bool:
        """Whether a text is one of its categories."""
        if self.buckets:
            return text is not None and bucket(text, self.buckets) not in self.empty
        return text in (self.categories or ())

    def described(self) -> dict[str, Any]:
        """What the description of the model says of it."""
        said: dict[str, Any] = {
            "name": self.name,
            "type": self.type_name,
            "size": len(self.parts) or 1,
            "categories": self.categories,
        }
        if self.buckets:
            said["hashed"] = True
        if self.empty:
            said["empty"] = self.empty
        if self.origins:
            said["origins"] = self.origins
        return said

    def know_numbers(self, extents: Sequence[tuple[float, float, bool]]) -> None:
        """Take the least and the greatest of each of its numbers, and whether a float32 loses digits of one."""
        origins = []
        for least, greatest, loses in extents:
            span, size = greatest - least, max(abs(least), abs(greatest))
            helps = span <= _LARGE or span <= size / 2
            origins.append(float(least // 1) if loses and helps else 0.0)
        self.origins = origins if any(origins) else []

    def know_categories(self, groups: Sequence[Group]) -> None:
        """Take the categories of the rows."""
        encode, impute = self.spec.get("encode"), self.spec.get("impute")
        named = [group for group in groups if group.name is not None]
        if isinstance(encode, dict):
            names = list(encode["ordinal"])
        else:
            most = len(named)
            if encode is None:
                most = max(_MANY_CATEGORIES, sum(group.rows >= _MANY_ROWS for group in named))
            named.sort(key=lambda group: (-group.rows, group.name.encode() if group.name else b""))
            names = [group.name for group in named[:most] if group.name is not None]
        if isinstance(impute, dict):
            names.append(_text_of(impute["constant"]))
        self.categories = sorted(set(names), key=str.encode)
        if encode == "one_hot" and len(self.categories) > _MOST_ONE_HOT:
            raise _refused(self.name, f'cannot have "encode": "one_hot": it has {len(self.categories)} distinct values')

    def says_nothing(self, rows: int, known: int, groups: Optional[Sequence[Group]]) -> Optional[str]:
        """Tell why nothing can be learnt from it, if so; `preprocess` does not name it."""
        if known == 0:
            return "NULL in all rows"
        distinct = sum(group.name is not None for group in groups or ())
        if (distinct >= _MANY_TEXTS and 2 * distinct > known) or distinct >= _MOST_CATEGORIES:
            return f"text, {distinct} different ones in {known} rows"
        return None


class Step:
    """What is done to a raw feature."""

    def __init__(self, feature: Feature, groups: Optional[Sequence[Group]]) -> None:
        column = feature.column
        spec, encode = column.spec, column.spec.get("encode")
        self.origin = feature.origin
        self.spec = spec
        self.column = column
        self.indicator = bool(spec.get("indicator"))
        self.one_hot = len(column.categories or []) if encode == "one_hot" else 0
        self.encodes = encode == "one_hot"
        self.table: Optional[list[float]] = None
        self.null = math.nan
        self.instead: Optional[int] = None
        self.fill: Optional[float] = None
        self.offset, self.divisor = 0.0, 1.0
        if column.is_category and not column.buckets:
            self._encode(encode, {group.name: group for group in groups or ()})

    @property
    def is_native(self) -> bool:
        """Whether the model sees the code of a category."""
        return self.column.is_category and self.table is None and not self.encodes

    @property
    def width(self) -> int:
        """How many features it makes."""
        return (self.one_hot if self.encodes else 1) + self.indicator

    @property
    def needs_values(self) -> bool:
        """Whether it learns from the values of the rows."""
        impute = self.spec.get("impute")
        learns = impute in _LEARNT and not (impute == "mode" and self.column.is_category)
        return not self.encodes and (self.spec.get("scale", "preserve") != "preserve" or learns)

    def _encode(self, encode: Any, groups: dict[Optional[str], Group]) -> None:
        impute, names = self.spec.get("impute"), self.column.categories or []
        rows = [groups.get(name, Group(name, 0, 0.0)) for name in names]
        null = groups.get(None, Group(None, 0, 0.0))
        # What is not told apart is missing, too.
        others = [group for name, group in groups.items() if name is not None and name not in set(names)]
        null = Group(None, null.rows + sum(g.rows for g in others), null.labels + sum(g.labels for g in others))
        if impute == "mode" and any(group.rows for group in rows):
            self.instead = max(range(len(rows)), key=lambda code: (rows[code].rows, -code))
        elif isinstance(impute, dict):
            self.instead = names.index(_text_of(impute["constant"]))
        if self.instead is not None:
            own = rows[self.instead]
            rows[self.instead] = Group(own.name, own.rows + null.rows, own.labels + null.labels)
            null = Group(None, 0, 0.0)
        if encode == "target":
            everything = [*rows, null]
            mean = sum(group.labels for group in everything) / max(sum(group.rows for group in everything), 1)
            means = [group.labels / group.rows if group.rows else mean for group in everything]
            self.table, self.null = means[:-1], means[-1]
        elif isinstance(encode, dict):
            places = {name: place for place, name in enumerate(encode["ordinal"], 1)}
            self.table = [float(places.get(name, math.nan)) for name in names]
            self.null = 0.0 if impute in (None, "error") else math.nan

    def _encoded(self, raw: Any) -> Any:
        """The one number that a raw value becomes before it is imputed and scaled."""
        import numpy

        if self.instead is not None:
            raw = numpy.where(numpy.isnan(raw), numpy.float32(self.instead), raw)
        if self.table is None:
            return raw
        table = numpy.array([*self.table, self.null], "float32")
        return table[numpy.where(numpy.isnan(raw), len(self.table), raw).astype("int64")]

    @property
    def kinds(self) -> list[str]:
        """What its features are to XGBoost: categories or quantities."""
        return ["c" if self.is_native else "q"] * (self.width - self.indicator) + ["q"] * self.indicator

    def see(self, values: Any, counts: Any) -> None:
        """Take the raw values that there are, NaN among them, and how often each is met."""
        column = self.column
        if column.buckets:
            rows = {None if value != value else int(value): int(count) for value, count in zip(values, counts)}
            column.categories = [f"hash {place}" for place in range(column.buckets)]
            column.empty = [place for place in range(column.buckets) if place not in rows]
            names = {place: None if place is None else column.categories[place] for place in rows}
            self._encode(None, {names[place]: Group(names[place], count, 0.0) for place, count in rows.items()})
        if self.needs_values:
            self._learn(values, counts)

    def _learn(self, values: Any, counts: Any) -> None:
        import numpy

        values = self._encoded(values.astype("float32")).astype("float64")
        known = ~numpy.isnan(values)
        missing = int(counts[~known].sum())
        order = numpy.argsort(values[known], kind="stable")
        seen = _Seen(values[known][order], counts[known][order])
        impute, scale = self.spec.get("impute"), self.spec.get("scale", "preserve")
        if not len(seen.values):
            raise _refused(self.column.name, "cannot be learnt: the column is NULL in all rows")
        self.settle()
        if impute in _LEARNT and not (impute == "mode" and self.column.is_category):
            self.fill = _single(seen.typical(impute))
        # What is filled in counts for the scale.
        if self.fill is not None and missing:
            seen = seen.with_more(self.fill, missing)
        least, greatest = seen.values[0], seen.values[-1]
        if scale == "standard":
            self.offset, self.divisor = seen.mean(), seen.deviation()
        elif scale == "min_max":
            self.offset, self.divisor = least, greatest - least
        elif scale == "max_abs":
            self.divisor = max(abs(least), abs(greatest))
        elif scale == "robust":
            self.offset, self.divisor = seen.quantile(0.5), seen.quantile(0.75) - seen.quantile(0.25)
        self.offset, self.divisor = float(self.offset), float(self.divisor)
        if not _single(self.divisor) > 0:
            self.divisor = 1.0

    def settle(self) -> None:
        """Take what needs no values: constants."""
        impute = self.spec.get("impute")
        if not self.column.is_category and isinstance(impute, dict):
            self.fill = _single(impute["constant"] - self.origin)
        elif impute == "zero" and not self.encodes:
            self.fill = _single(-self.origin)

    def apply(self, raw: Any, into: Any) -> None:
        """Write what it makes of a column of raw values into as many columns of a matrix."""
        import numpy

        if self.indicator:
            into[:, -1] = numpy.isnan(raw)
        if self.encodes:
            known = raw if self.instead is None else numpy.where(numpy.isnan(raw), self.instead, raw)
            into[:, : self.one_hot] = known[:, None] == numpy.arange(self.one_hot, dtype="float32")
            return
        value = self._encoded(raw)
        if self.fill is not None:
            value = numpy.where(numpy.isnan(value), numpy.float32(self.fill), value)
        if self.offset or self.divisor != 1:
            limits = numpy.finfo("float32")
            scaled = (value.astype("float64") - self.offset) / self.divisor
            value = numpy.where(numpy.isfinite(scaled), scaled.clip(limits.min, limits.max), scaled)
        into[:, 0] = value

    def described(self) -> dict[str, Any]:
        """What the description of the model says of it."""

        def number(value: float) -> Optional[float]:
            return None if value != value else _single(value)

        said: dict[str, Any] = {}
        if self.encodes:
            said["one_hot"] = self.one_hot
        elif self.table is not None:
            said["values"], said["null"] = [number(value) for value in self.table], number(self.null)
        if self.instead is not None:
            said["instead"] = self.instead
        if self.fill is not None:
            said["fill"] = self.fill
        if self.indicator:
            said["indicator"] = True
        if self.offset or self.divisor != 1:
            said["offset"], said["divisor"] = self.offset, self.divisor
        return said


class _Seen(NamedTuple):
    """Values in their order, and how often each was met."""

    values: Any
    counts: Any

    def with_more(self, value: float, count: int) -> _Seen:
        import numpy

        place = int(numpy.searchsorted(self.values, value, "right"))
        return _Seen(numpy.insert(self.values, place, value), numpy.insert(self.counts, place, count))

    def mean(self) -> float:
        return float((self.values * self.counts).sum() / self.counts.sum())

    def deviation(self) -> float:
        return float((((self.values - self.mean()) ** 2 * self.counts).sum() / self.counts.sum()) ** 0.5)

    def quantile(self, share: float) -> float:
        import numpy

        ends = numpy.cumsum(self.counts)
        at = share * (int(ends[-1]) - 1)
        below, above = (self.values[numpy.searchsorted(ends, place, "right")] for place in (int(at), -int(-at // 1)))
        return float(below + (above - below) * (at - int(at)))

    def typical(self, how: str) -> float:
        if how == "mean":
            return self.mean()
        if how == "median":
            return self.quantile(0.5)
        place = {"mode": int(self.counts.argmax()), "min": 0, "max": -1}[how]
        return float(self.values[place])


def spec_of(preprocess: Mapping[str, Any], name: str, is_category: bool) -> dict[str, Any]:
    """Merge what is asked for a column by its name, and by `"*"` as far as that fits it."""
    own, everything = preprocess.get(name), preprocess.get("*")
    if everything is None or (own is not None and own.get("role", "feature") != "feature"):
        return dict(own or {})

    def fits(key: str, value: Any) -> bool:
        of_texts = isinstance(value, dict) and isinstance(value.get("constant"), str)
        if key in ("encode", "scale"):
            return is_category == (key == "encode")
        if key == "impute":
            return value == "mode" or of_texts if is_category else not of_texts
        return True

    return {key: value for key, value in everything.items() if fits(key, value)} | dict(own or {})


def check_preprocess(preprocess: Any) -> dict[str, dict[str, Any]]:
    """Refuse what `preprocess` does not take."""
    if not isinstance(preprocess, Mapping):
        raise ValueError(f"preprocess must be a mapping of columns to settings, not {preprocess!r}")
    for name, spec in preprocess.items():
        if not isinstance(spec, Mapping):
            raise _refused(name, f"must be a mapping, not {spec!r}")
        for key, value in spec.items():
            _check_setting(name, key, value)
        if name == "*" and "role" in spec:
            raise _refused(name, 'cannot have "role": it stands for all columns')
        if spec.get("role", "feature") != "feature" and len(spec) > 1:
            raise _refused(name, 'cannot have other settings beside this "role": the column is not learnt from')
    return {name: dict(spec) for name, spec in preprocess.items()}


def _check_setting(name: str, key: str, value: Any) -> None:
    if key not in _KEYS:
        raise _refused(name, f'has "{key}", and takes {", ".join(_KEYS)}')
    if key == "indicator":
        if not isinstance(value, bool):
            raise _refused(name, 'has "indicator", which takes true or false')
        return
    known: tuple[str, ...] = {
        "role": _ROLES, "impute": _IMPUTES, "scale": _SCALES, "encode": ("native", "one_hot", "target"),
    }[key]  # fmt: skip
    if isinstance(value, str) and value in known:
        if key == "role" and value in _ROLES[3:]:
            raise _refused(name, f'cannot have "role": "{value}": rows are held out by `where` here')
        return
    if isinstance(value, Mapping) and len(value) == 1:
        ((form, given),) = value.items()
        whole = isinstance(given, int) and not isinstance(given, bool)
        fits = {
            ("impute", "constant"): whole or isinstance(given, (float, str)),
            ("encode", "hash"): whole and 2 <= given <= _MOST_BUCKETS,
            ("encode", "ordinal"): isinstance(given, list) and given != [] and all(isinstance(x, str) for x in given),
        }
        if fits.get((key, form)):
            return
    more = {"impute": ', {"constant": ...}', "encode": ', {"ordinal": [...]}, {"hash": n}'}.get(key, "")
    raise _refused(
        name, f'cannot have "{key}": {json.dumps(value, default=repr)}; possible are {", ".join(known)}{more}'
    )


def check_spec(column: Column) -> None:
    """Refuse settings that do not fit the type of a column."""
    impute = column.spec.get("impute")
    constant = impute.get("constant") if isinstance(impute, dict) else None
    if isinstance(constant, str) and not column.is_category:
        raise _refused(column.name, 'cannot have "impute" with a text: it is a column of numbers')


def is_feature_type(type_name: str, category: str) -> bool:
    """Whether features are made of columns of a type."""
    if category == "N":
        return type_name not in ("money", "oid") and not type_name.startswith("reg")
    return category in ("B", "S", "E") or type_name in _MOMENTS or type_name in _SECONDS


def description(
    task: str,
    label: tuple[str, str, str],
    classes: Optional[list[str]],
    columns: Sequence[Column],
    steps: Sequence[Step],
) -> str:
    """Write the description of a model, in JSON, as `pgml.import_model` finds it in a booster's attribute `pgml`.

    The label has a name, a type and the type's category. A class that is a number is predicted as that, else as its
    place.
    """
    name, type_name, category = label
    values: Optional[list[float]] = None
    if classes is not None:
        values = [float(text) if category == "N" else float(place) for place, text in enumerate(classes)]
    pipeline = [step.described() for step in steps]
    return json.dumps({
        "version": 3 if any(column.origins for column in columns) else 2,
        "task": task,
        "columns": [column.described() for column in columns],
        "labels": [{"name": name, "type": type_name, "classes": classes, "values": values}],
        "preprocess": pipeline if any(pipeline) else None,
    })  # fmt: skip


def _single(value: float) -> float:
    import numpy

    return float(numpy.float32(value))


def _text_of(constant: Any) -> str:
    return constant if isinstance(constant, str) else json.dumps(constant)


def _refused(name: str, why: str) -> ValueError:
    return ValueError(f'preprocess of column "{name}" {why}')
