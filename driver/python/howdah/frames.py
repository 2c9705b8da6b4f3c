"""Tables whose columns have names, on their way to a model: the server finds each feature by its name."""

from __future__ import annotations

import array
import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any, Optional

from . import _core, exceptions, utils

# The type of an array on the server for what a column holds, the more special class first; the rest are numbers.
_TYPES: tuple[tuple[type, str], ...] = (
    (str, "text"),
    (datetime.datetime, "timestamp"),
    (datetime.date, "date"),
    (datetime.time, "time"),
    (datetime.timedelta, "interval"),
)
# Up to here all whole numbers are `real`.
_LARGEST_WHOLE = 1 << 24
_NUMBERS = (bool, int, float, decimal.Decimal)
# No feature is called so: a number of the row beside the columns, by which the answers are in order. With it, names
# such as f1 and f2 are no longer those of an anonymous row, whose values the server takes by their order.
_NUMBER = "howdah number of the row"


class Frame:
    """A table's columns as arrays for the server."""

    def __init__(
        self, names: list[str], rows: int, columns: list[tuple[str, Any]], categories: Optional[dict[int, Any]] = None
    ) -> None:
        self.names = names
        self.rows = rows
        self._columns = columns
        # By their places, the columns whose values are numbers and of pandas' categories.
        self._categories = categories or {}

    @property
    def source(self) -> str:
        """The rows as SQL, called `features`; the arrays are the parameters from $2 on."""
        arrays = ", ".join(f"${place}::{kind}[]" for place, (kind, _) in enumerate(self._columns, 2))
        names = ", ".join(utils._quote_ident(name) for name in [*self.names, _NUMBER])
        return f"unnest({arrays}) WITH ORDINALITY AS features({names})"

    def part(self, start: int, end: int) -> list[Any]:
        """The arrays of some of the rows."""
        return [_piece(values, start, end) for _, values in self._columns]

    def with_named_categories(self) -> Optional[Frame]:
        """The table with categories of numbers as texts, as a model has their names; None without any."""
        if not self._categories:
            return None
        columns = list(self._columns)
        for place, column in self._categories.items():
            columns[place] = "text", [None if value is None else _digits(value) for value in _listed(column)]
        return Frame(self.names, self.rows, columns)

    def refused(self, error: exceptions.PostgresError) -> ValueError:
        """What is to be raised where the server misses a column."""
        hint = f" {error.hint}" if error.hint else ""
        said = str(error.args[0]).partition("\n")[0].replace("the row has", "the table of features has", 1)
        return ValueError(
            f"{said}. Its columns are: {', '.join(self.names)}.{hint} Rename the columns, or pass a matrix, "
            "whose columns are taken in the model's order"
        )


def query(function: str, frame: Frame) -> str:
    """The query that calls a function of pgml for each row, and gives its numbers as one array, in order."""
    order = utils._quote_ident(_NUMBER)
    return (
        f"SELECT coalesce(array_agg({function}($1::text, features) ORDER BY features.{order}), '{{}}') "
        f"FROM {frame.source}"
    )


def explanation(frame: Frame) -> str:
    """The query of the explanations: how many classes each has (0 for one margin), and then the contributions."""
    order = f"features.{utils._quote_ident(_NUMBER)}, part.ordinality"
    return (
        f"SELECT count(DISTINCT part.class)::real || array_agg(part.contribution ORDER BY {order}) "
        f"FROM {frame.source}, pgml.explain($1::text, features) WITH ORDINALITY AS part"
    )


def explained(frame: Frame, model: str) -> str:
    """The query of the explanation of one row; `model` is the type that says which model it is of."""
    return f"SELECT part.* FROM {frame.source}, pgml.explain($1::{model}, features) AS part"


def of_row(row: Mapping[str, Any]) -> Frame:
    """One row as a table."""
    columns: list[tuple[str, Any]] = []
    for value in row.values():
        kind = next((sql for each, sql in _TYPES if isinstance(value, each)), "float8")
        if kind == "timestamp" and value.tzinfo is not None:
            kind = "timestamptz"
        if kind == "float8" and isinstance(value, (bool, decimal.Decimal)):
            value = float(value)
        columns.append((kind, [value]))
    return Frame(list(row), 1, columns)


def named(features: Any) -> Optional[Frame]:
    """The columns of a table of pandas, polars or pyarrow, or of `fetch_columns`; None if it is something else.

    Raises
    ------
    ValueError
        Two columns have the same name, or only some have one.
    TypeError
        A column has values that cannot be features.
    """
    names = getattr(features, "column_names", None)
    if names is None and hasattr(features, "shape"):
        names = getattr(features, "columns", None)
    if names is None or not any(isinstance(name, str) for name in names):
        return None
    names = list(names)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"the column {name!r} of the table of features has no name: expected a str")
        if names.count(name) > 1:
            raise ValueError(f"the table of features has two columns {name!r}")
    rows = features.num_rows if hasattr(features, "num_rows") else len(features)
    columns = [_column(name, features[name]) for name in names]
    categories = {
        place: features[name]
        for place, name in enumerate(names)
        if columns[place][0] in ("real", "float8") and hasattr(getattr(features[name], "dtype", None), "categories")
    }
    return Frame(names, rows, columns, categories)


def unnamed(features: Any) -> Any:
    """The matrix of a pandas DataFrame whose columns have numbers in place of names; anything else as it is."""
    return features.to_numpy() if hasattr(features, "to_numpy") else features


def _column(name: str, column: Any) -> tuple[str, Any]:
    """The server's type for a column's values, and the values."""
    if not hasattr(column, "to_pylist") and not hasattr(column, "to_list"):
        raise TypeError(
            "a table of features is expected to be of pandas, polars or pyarrow, or a result of fetch_columns(): "
            f"its columns are of the class {type(column).__name__}"
        )
    numpy = utils._numpy()
    if numpy is not None:
        values = numpy.asarray(column)
        if values.dtype.kind in "fiub":
            with numpy.errstate(over="ignore"):
                reals = numpy.ascontiguousarray(values, dtype=numpy.float32)
            # Epochs and codes mean something else when they are rounded; of others nobody misses the digits.
            rounded = (numpy.abs(values) > _LARGEST_WHOLE) & numpy.isfinite(reals) & (reals != values)
            return ("float8", values.astype(numpy.float64).tolist()) if rounded.any() else ("real", reals)
    listed = _listed(column)
    kinds = {type(value) for value in listed if value is not None}
    for kind, sql in _TYPES:
        if kinds and all(issubclass(each, kind) for each in kinds):
            aware = sql == "timestamp" and any(value is not None and value.tzinfo is not None for value in listed)
            return ("timestamptz" if aware else sql), listed
    if not kinds and _is_text(column):
        return "text", listed
    wrong = [each.__name__ for each in kinds if not issubclass(each, _NUMBERS)]
    if wrong:
        raise TypeError(
            f"the column {name!r} of the table of features has values of the class {min(wrong)}: "
            "expected all numbers, all texts, or all dates or times"
        )
    numbers = [float("nan") if value is None else float(value) for value in listed]
    if any(abs(number) > _LARGEST_WHOLE and math.isfinite(number) for number in numbers):
        return "float8", numbers
    return "real", array.array("f", numbers)


def _listed(column: Any) -> list[Any]:
    """The values as Python's objects, None for those that are missing."""
    if hasattr(column, "notna"):
        column = column.astype(object).where(column.notna(), None)
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())


def _digits(number: Any) -> str:
    return str(number).lower() if isinstance(number, bool) else str(number).removesuffix(".0")


def _is_text(column: Any) -> bool:
    """Whether a column without a value would have texts."""
    return "str" in str(getattr(column, "dtype", getattr(column, "type", ""))).lower()


def _piece(values: Any, start: int, end: int) -> Any:
    part = values[start:end]
    if isinstance(part, list) or not len(part):
        return list(part)
    # An array of two dimensions with one row: unnest() takes its elements one after another.
    flat = memoryview(part).cast("B").cast("f", (1, len(part)))
    return _core.pack_matrix(flat, 0, 1)
