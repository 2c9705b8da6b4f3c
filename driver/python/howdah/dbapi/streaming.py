"""Cursors whose rows come piece by piece."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional, Union

from .._typing import Arguments, CursorRowT
from . import parameters as placeholders
from .cursor import Cursor
from .errors import NotSupportedError
from .rows import RowFactory

if TYPE_CHECKING:
    from typing_extensions import Self

    from .connection import Connection

# How many rows a streaming cursor fetches at a time.
_PIECE = 1000


class StreamCursor(Cursor[CursorRowT]):
    """A cursor whose rows come piece by piece while they are fetched, within a transaction.

    Examples
    --------
    >>> with connection.cursor(stream=True) as cursor:
    ...     for row in cursor.execute("select * from flights"):
    ...         print(row)
    """

    __slots__ = ("_portal", "itersize")

    def __init__(self, connection: Connection[Any], row_factory: Optional[RowFactory[CursorRowT]] = None) -> None:
        super().__init__(connection, row_factory)
        self._portal: Any = None
        #: How many rows travel at a time when they are iterated over or fetched one by one.
        self.itersize = _PIECE

    def __del__(self) -> None:
        # The portal ends with its transaction; without this its statement would stay on the server.
        if self._portal is not None:
            self._connection._release(self._portal[0])

    def execute(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> Self:
        """Begin a query, as :meth:`Cursor.execute`; its rows stay on the server."""
        self._check()
        self._end()
        self._forget()
        text, args = placeholders.bind(placeholders.command(operation), parameters)
        with self._connection._lock:
            self._portal, description = self._connection._open(text, args)
        self._described(description)
        return self

    def executemany(
        self, operation: Union[str, bytes], seq_of_parameters: Iterable[Arguments], *, returning: bool = False
    ) -> Self:
        """Raise an error: rows of many commands are not streamed."""
        raise NotSupportedError("executemany() does not work on a cursor with stream=True")

    def fetchone(self) -> Optional[CursorRowT]:
        """Return the next row, None when there are no more."""
        if self._at >= len(self._result()):
            self._fill(self.itersize)
        return super().fetchone()

    def fetchmany(self, size: Optional[int] = None) -> list[CursorRowT]:
        """Return the next `size` rows (`arraysize` by default), fewer when there are no more."""
        size = self.arraysize if size is None else size
        missing = size - (len(self._result()) - self._at)
        if missing > 0:
            self._fill(missing)
        return super().fetchmany(size)

    def fetchall(self) -> list[CursorRowT]:
        """Return the rows that are left."""
        self._result()
        self._fill(0)
        return super().fetchall()

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Raise an error: rows that have been fetched are not kept."""
        raise NotSupportedError("scroll() does not work on a cursor with stream=True")

    def close(self) -> None:
        """Close the cursor, on the server too."""
        if not self._closed:
            self._end()
        super().close()

    def __iter__(self) -> Iterator[CursorRowT]:
        while (row := self.fetchone()) is not None:
            yield row

    def _repr_html_(self) -> None:
        """Nothing: nobody knows yet which rows there are."""

    def _fill(self, count: int) -> None:
        """Fetch `count` more rows, or all with 0; none when there are no more."""
        if self._portal is None:
            return
        self._check()
        with self._connection._lock:
            rows, more = self._connection._advance(self._portal, count)
        if not more:
            self._portal = None
        self._rows = list(itertools.islice(self._rows, self._at, None)) + rows
        self._at = 0

    def _end(self) -> None:
        portal, self._portal = self._portal, None
        if portal is not None:
            self._connection._close_portal(portal)
