"""Columns for people who look at them: in pandas, and in a notebook."""

from __future__ import annotations

import html
import importlib
from typing import Any

from . import _core

# How many rows a notebook shows, and how much of a value.
_ROWS = 10
_LETTERS = 100


def to_pandas(columns: _core.Columns) -> Any:
    """A DataFrame of columns: pandas 3 takes their memory by itself, earlier ones by pyarrow.

    Raises
    ------
    ImportError
        pandas is not installed, or is older and pyarrow is not.
    """
    pandas = importlib.import_module("pandas")
    from_arrow = getattr(pandas.DataFrame, "from_arrow", None)
    if from_arrow is not None:
        return from_arrow(columns)
    return importlib.import_module("pyarrow").table(columns).to_pandas()


def to_html(columns: _core.Columns) -> str:
    """The first rows as a table of HTML."""
    shown = [columns[place] for place in range(columns.num_columns)]
    rows = columns.num_rows
    head = "".join(f"<th>{_cell(name)}</th>" for name in columns.names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(column[row])}</td>" for column in shown) + "</tr>"
        for row in range(min(rows, _ROWS))
    )
    count = f"{rows} row{'' if rows == 1 else 's'}" + (f", the first {_ROWS} shown" if rows > _ROWS else "")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{count}</p>"


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    return html.escape(text if len(text) <= _LETTERS else text[:_LETTERS] + "...")
