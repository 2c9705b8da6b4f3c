"""Cursors whose results are columns."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import _core
from .._typing import Arguments
from . import parameters as placeholders
from ._base import BaseCursor
from .errors import ProgrammingError

if TYPE_CHECKING:
    from .connection import Connection


class ColumnCursor(BaseCursor):
    """A cursor whose results are columns: the values never become Python objects.

    Examples
    --------
    >>> cursor = connection.cursor(columns=True)
    >>> cursor.execute("select id, delay from flights").fetch_arrow_table().num_rows
    2
    """

    __slots__ = ("_columns",)

    def __init__(self, connection: Connection[Any]) -> None:
        super().__init__(connection)
        self._columns: Any = None

    def execute(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> ColumnCursor:
        """Run a query, as :meth:`Cursor.execute`."""
        self._check()
        self._forget()
        text, args = placeholders.bind(placeholders.command(operation), parameters)
        with self._connection._lock:
            self._columns, self._description = self._connection._query_columns(text, args)
        self._rowcount = len(self._columns)
        return self

    def fetch_columns(self) -> _core.Columns:
        """Return the result as :class:`howdah.Columns`, which Arrow's libraries and NumPy take without copying."""
        self._check()
        if self._columns is None:
            raise ProgrammingError("there is no result: no query was executed, or the result was fetched already")
        columns: _core.Columns = self._columns
        self._columns = None
        return columns

    def fetch_arrow_table(self) -> Any:
        """Return the result as a table of pyarrow, which has to be installed."""
        return importlib.import_module("pyarrow").table(self.fetch_columns())

    def close(self) -> None:
        """Close the cursor: nothing can be done with it any more."""
        super().close()
        self._columns = None

    def _forget(self) -> None:
        super()._forget()
        self._columns = None
