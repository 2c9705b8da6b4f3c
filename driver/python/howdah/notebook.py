"""How results and trainings look in notebooks: tables and bars in HTML."""

from __future__ import annotations

import html
import reprlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Optional

from .protocol import Record

# What a table shows at most: rows, columns, and characters of a value.
ROWS, COLUMNS, CHARACTERS = 50, 30, 200

_short = reprlib.Repr()
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = _short.maxarray = 20
_short.maxstring = _short.maxother = CHARACTERS


def shell() -> Optional[Any]:
    """The notebook's shell that this program runs in, if it does."""
    ipython = sys.modules.get("IPython")
    found = None if ipython is None else ipython.get_ipython()
    return found if getattr(found, "kernel", None) is not None else None


def install() -> None:
    """Have the notebook, if this is one, show lists of records, and a record, as tables."""
    found = shell()
    if found is not None:
        formatter = found.display_formatter.formatters["text/html"]
        formatter.for_type(list, records_html)
        formatter.for_type(Record, lambda record: records_html([record]))


def records_html(rows: Sequence[Any]) -> Optional[str]:
    """A table of records; None where they are something else, so that the notebook shows them its own way."""
    shown = rows[:ROWS]
    if not shown or not all(isinstance(row, Record) for row in shown):
        return None
    names = list(shown[0].keys())
    return table(names, (row if len(row) == len(names) else () for row in shown), len(rows))


def columns_html(columns: Any) -> str:
    """A table of a result as columns."""
    shown = [columns[place] for place in range(min(columns.num_columns, COLUMNS))]
    rows = ([column[row] for column in shown] for row in range(min(columns.num_rows, ROWS)))
    return table(columns.column_names, rows, columns.num_rows)


def table(names: Sequence[str], rows: Iterable[Sequence[Any]], total: int) -> str:
    """A table of the first rows of `total`, as many as are to be shown."""
    head = "".join(f"<th>{html.escape(_bounded(str(name)))}</th>" for name in names[:COLUMNS])
    body = "".join(f"<tr>{''.join(map(_cell, row[:COLUMNS]))}</tr>" for row in rows)
    counts = [f"{total:,} row{'' if total == 1 else 's'}"]
    if total > ROWS:
        counts.append(f"the first {ROWS} are shown")
    if len(names) > COLUMNS:
        counts.append(f"{COLUMNS} of {len(names)} columns are shown")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{', '.join(counts)}</p>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    if isinstance(value, (list, tuple, dict, set, frozenset, bytes, bytearray)):
        text = _short.repr(value)
    else:
        text = value if isinstance(value, str) else str(value)
    return f"<td>{html.escape(_bounded(text))}</td>"


def _bounded(text: str) -> str:
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 1] + "…"


class Bar:
    """A bar and a line below the cell that runs."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str, done: int, whole: int) -> None:
        """Show that `done` of `whole` are done, and a line of text."""
        display = sys.modules["IPython"].display
        share = f' value="{done}" max="{whole}"' if whole else ""
        shown = display.HTML(f'<progress{share} style="width: 20em"></progress> {html.escape(line)}')
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)
