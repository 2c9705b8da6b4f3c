"""Cursors of the server's own: they can be scrolled, and may outlive their transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional, Union

from .. import utils
from .._typing import Arguments, CursorRowT
from . import parameters as placeholders
from .cursor import Cursor
from .errors import NotSupportedError, ProgrammingError
from .rows import RowFactory

if TYPE_CHECKING:
    from typing_extensions import Self

    from .connection import Connection


class ServerCursor(Cursor[CursorRowT]):
    """A cursor that is declared on the server, by `connection.cursor(name, scrollable=..., withhold=...)`.

    SQL's `FETCH`, `MOVE` and `UPDATE ... WHERE CURRENT OF` know it by its name.

    Examples
    --------
    >>> with connection.cursor("flights", scrollable=True) as cursor:
    ...     cursor.execute("select id from flights order by id")
    ...     cursor.scroll(100)
    ...     cursor.fetchone()
    (101,)
    """

    __slots__ = ("_open", "itersize", "name", "scrollable", "withhold")

    def __init__(
        self,
        connection: Connection[Any],
        name: str,
        scrollable: Optional[bool],
        withhold: bool,
        row_factory: Optional[RowFactory[CursorRowT]] = None,
    ) -> None:
        super().__init__(connection, row_factory)
        self._open = False
        #: Its name on the server.
        self.name = name
        #: Whether rows can be fetched backwards; None leaves it to the query.
        self.scrollable = scrollable
        #: Whether it outlives its transaction.
        self.withhold = withhold
        #: How many rows travel at a time when they are iterated over.
        self.itersize = 100

    def execute(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> Self:
        """Declare the cursor for a query, as :meth:`Cursor.execute`; its rows stay on the server."""
        self._check()
        self._end()
        self._forget()
        text, args = placeholders.bind(placeholders.command(operation), parameters)
        scroll = {None: "", True: "SCROLL ", False: "NO SCROLL "}[self.scrollable]
        hold = "WITH HOLD " if self.withhold else ""
        connection = self._connection
        with connection._lock:
            if connection._autocommit and not self.withhold and not connection._session.is_in_transaction():
                raise ProgrammingError("a named cursor without withhold=True needs a transaction")
            connection._query(f"DECLARE {self._quoted()} {scroll}CURSOR {hold}FOR {text}", args)
            self._open = True
            _, description = connection._uncached(f"FETCH FORWARD 0 FROM {self._quoted()}")
        self._described(description)
        return self

    def executemany(
        self, operation: Union[str, bytes], seq_of_parameters: Iterable[Arguments], *, returning: bool = False
    ) -> Self:
        """Raise an error: a cursor of the server's is for one query."""
        raise NotSupportedError("executemany() does not work on a cursor with a name")

    def fetchone(self) -> Optional[CursorRowT]:
        """Return the next row, None when there are no more."""
        rows = self._fetch("1")
        return rows[0] if rows else None

    def fetchmany(self, size: Optional[int] = None) -> list[CursorRowT]:
        """Return the next `size` rows (`arraysize` by default), fewer when there are no more."""
        return self._fetch(str(int(self.arraysize if size is None else size)))

    def fetchall(self) -> list[CursorRowT]:
        """Return the rows that are left."""
        return self._fetch("ALL")

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Move to another row: `value` rows on, or to row `value` with mode "absolute"; beyond the ends too."""
        self._result()
        if mode not in ("relative", "absolute"):
            raise ProgrammingError(f"mode is expected to be 'relative' or 'absolute', got {mode!r}")
        # FETCH ABSOLUTE counts rows from 1, and the next row is the one after.
        self._connection._simple(f"MOVE {mode.upper()} {int(value)} FROM {self._quoted()}")
        self._at = max(0, value if mode == "absolute" else self._at + value)

    def close(self) -> None:
        """Close the cursor, on the server too."""
        if not self._closed:
            self._end()
        super().close()

    def __iter__(self) -> Iterator[CursorRowT]:
        while rows := self._fetch(str(self.itersize)):
            yield from rows

    def _fetch(self, count: str) -> list[Any]:
        self._result()
        connection = self._connection
        with connection._lock:
            (rows, _, _), _ = connection._uncached(f"FETCH FORWARD {count} FROM {self._quoted()}")
        self._at += len(rows)
        make = self._make
        return list(rows) if make is None else [make(row) for row in rows]

    def _quoted(self) -> str:
        return utils._quote_ident(self.name)

    def _end(self) -> None:
        connection = self._connection
        if not self._open or connection.closed:
            return
        self._open = False
        session = connection._session
        # The end of its transaction has closed one without hold, and a failed one lets nothing be done.
        stands = self.withhold or session.is_in_transaction()
        if stands and not session.is_in_failed_transaction():
            connection._simple(f"CLOSE {self._quoted()}")
