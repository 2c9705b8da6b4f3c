"""Cursors of rows."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Optional, Union

from .. import notebook, utils
from .._typing import Arguments, CursorRowT
from ..copying import copy_in, copy_out
from . import parameters as placeholders
from ._base import BaseCursor
from ._copying import as_source, as_target
from .errors import NotSupportedError, ProgrammingError
from .rows import Column, RowFactory, RowMaker, check_factory

if TYPE_CHECKING:
    from typing_extensions import Self

    from .connection import Connection


class Cursor(BaseCursor, Generic[CursorRowT]):
    """A cursor whose rows are all fetched when a query is executed.

    Examples
    --------
    >>> cursor = connection.cursor()
    >>> cursor.execute("select id, carrier from flights where day = %s", (3,)).fetchall()
    [(1, 'LH'), (2, 'AF')]
    """

    __slots__ = ("_at", "_factory", "_make", "_next", "_rows")

    def __init__(self, connection: Connection[Any], row_factory: Optional[RowFactory[CursorRowT]] = None) -> None:
        super().__init__(connection)
        self._factory = row_factory
        self._make: Optional[RowMaker[CursorRowT]] = None
        self._rows: Sequence[tuple[Any, ...]] = ()
        self._at = 0
        # The results behind this one.
        self._next: Sequence[Any] = ()

    @property
    def row_factory(self) -> Optional[RowFactory[CursorRowT]]:
        """What makes rows, from the names of the columns; None for tuples."""
        return self._factory

    @row_factory.setter
    def row_factory(self, value: Optional[RowFactory[CursorRowT]]) -> None:
        check_factory(value)
        self._factory = value
        self._make = None
        if value is not None and self._description is not None:
            self._make = value([column[0] for column in self._description])

    @property
    def rownumber(self) -> Optional[int]:
        """The number of the next row, from 0; None without a result."""
        return None if self._description is None else self._at

    def execute(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> Self:
        """Run a command.

        Parameters
        ----------
        operation : str or bytes
            The command, with `%s`, `%(name)s` or `$1` in place of values. Several commands, separated by semicolons,
            go without values and give no rows.
        parameters : sequence or mapping, optional
            The values.

        Returns
        -------
        Cursor
            This one.
        """
        self._check()
        self._forget()
        if type(operation) is not str:
            operation = placeholders.command(operation)
        connection = self._connection
        args: tuple[Any, ...] = ()
        with connection._lock:
            if parameters is not None:
                operation, args = placeholders.bind(operation, parameters)
            elif ";" in operation and placeholders.is_script(operation):
                self._told(connection._script(operation))
                return self
            query = connection._query_logged if connection._query_loggers else connection._query
            (self._rows, self._tag, _), description = query(operation, args)
        self._described(description)
        return self

    def executemany(
        self, operation: Union[str, bytes], seq_of_parameters: Iterable[Arguments], *, returning: bool = False
    ) -> Self:
        """Run a command once for each of many argument lists, which travel as one unit.

        Parameters
        ----------
        operation : str
            The command.
        seq_of_parameters : iterable of sequences or of mappings
            The argument lists, taken piece by piece while they are sent.
        returning : bool, default False
            Whether the rows that each command gives are results of the cursor, to which :meth:`nextset` goes one after
            the other; the commands then travel one by one.

        Returns
        -------
        Cursor
            This one; its `rowcount` is that of all together.
        """
        self._check()
        self._forget()
        text, rows = placeholders.bind_many(placeholders.command(operation), seq_of_parameters)
        if rows is None:
            self._rowcount = 0
            return self
        if returning:
            return self._each(text, rows)
        with self._connection._lock:
            self._rowcount = self._connection._many(text, rows)
        return self

    def nextset(self) -> Optional[bool]:
        """Go to the next result of :meth:`executemany` with `returning=True`; None where there is none."""
        super().nextset()
        if not self._next:
            return None
        (self._rows, self._tag, _), description = self._next[0]
        self._next = self._next[1:]
        self._described(description)
        return True

    def _each(self, text: str, rows: Iterable[tuple[Any, ...]]) -> Self:
        """Run a command for each of many argument lists, and keep all results."""
        connection = self._connection
        query = connection._query_logged if connection._query_loggers else connection._query
        with connection._lock:
            one_by_one = connection._autocommit and not connection._session.is_in_transaction()
            with connection.transaction() if one_by_one else contextlib.nullcontext():
                self._next = [query(text, row) for row in rows]
        self.nextset()
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        """Call a function: what it gives is the cursor's result. Procedures are called by executing `CALL`.

        Parameters
        ----------
        procname : str
            The name of the function, with its schema if need be.
        parameters : sequence
            Its arguments.

        Returns
        -------
        sequence
            The arguments: functions of PostgreSQL have no output parameters apart from their result.
        """
        name = ".".join(utils._quote_ident(part) for part in procname.split("."))
        numbers = ", ".join(f"${number}" for number in range(1, len(parameters) + 1))
        self.execute(f"select * from {name}({numbers})", tuple(parameters) or None)
        return parameters

    def fetchone(self) -> Optional[CursorRowT]:
        """Return the next row, None when there are no more."""
        rows = self._rows
        at = self._at
        if at >= len(rows):
            self._result()
            return None
        row = rows[at]
        self._at = at + 1
        return row if self._make is None else self._make(row)  # type: ignore[return-value]

    def fetchmany(self, size: Optional[int] = None) -> list[CursorRowT]:
        """Return the next `size` rows (`arraysize` by default), fewer when there are no more."""
        return self._take(self._at + (self.arraysize if size is None else size))

    def fetchall(self) -> list[CursorRowT]:
        """Return the rows that are left."""
        return self._take(len(self._result()))

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Move to another row: `value` rows on, or to row `value` with mode "absolute"."""
        rows = self._result()
        if mode not in ("relative", "absolute"):
            raise ProgrammingError(f"mode is expected to be 'relative' or 'absolute', got {mode!r}")
        place = self._at + value if mode == "relative" else value
        if not 0 <= place < max(len(rows), 1):
            raise IndexError(f"there is no row {place}: the result has {len(rows)}")
        self._at = place

    def fetch_arrow_table(self) -> Any:
        """Raise an error: the rows are Python objects already. Use `connection.cursor(columns=True)`."""
        raise NotSupportedError("this method needs a cursor made by connection.cursor(columns=True)")

    def copy_in(self, operation: Union[str, bytes], source: Any) -> int:
        """Run `COPY ... FROM STDIN`.

        Parameters
        ----------
        operation : str
            The command.
        source : bytes, path, file, or iterable of bytes
            The data.

        Returns
        -------
        int
            How many rows were copied.
        """
        self._check()
        self._forget()
        operation = placeholders.command(operation)
        if self._copies_out(operation):
            raise ProgrammingError("copy_in() needs COPY ... FROM STDIN: use copy_out() for COPY ... TO STDOUT")
        return self._told(self._connection._copy(copy_in, operation, as_source(source, self._connection._loop)))

    def copy_out(self, operation: Union[str, bytes], target: Any) -> int:
        """Run `COPY ... TO STDOUT`.

        Parameters
        ----------
        operation : str
            The command.
        target : path, file, or callable
            Where the data goes: a callable is given it piece by piece.

        Returns
        -------
        int
            How many rows were copied.
        """
        self._check()
        self._forget()
        operation = placeholders.command(operation)
        if not self._copies_out(operation):
            raise ProgrammingError("copy_out() needs COPY ... TO STDOUT: use copy_in() for COPY ... FROM STDIN")
        return self._told(self._connection._copy(copy_out, operation, as_target(target, self._connection._loop)))

    def copy_expert(self, sql: Union[str, bytes], file: Any, size: int = 8192) -> int:
        """Run COPY from a file or to one, by psycopg2's name for :meth:`copy_in` and :meth:`copy_out`.

        Parameters
        ----------
        sql : str
            `COPY ... FROM STDIN` or `COPY ... TO STDOUT`.
        file : file
            Where the data comes from or goes to; of bytes or of text, which is UTF-8 then. A file that is written is
            of text if it has the attribute `encoding`, as those of the standard library have.
        size : int
            Ignored.

        Returns
        -------
        int
            How many rows were copied.
        """
        self._check()
        self._forget()
        sql = placeholders.command(sql)
        if self._copies_out(sql):
            text = hasattr(file, "encoding")
            decoder = codecs.getincrementaldecoder("utf-8")()
            return self.copy_out(sql, (lambda data: file.write(decoder.decode(data))) if text else file)
        return self.copy_in(sql, _pieces(file))

    def mogrify(self, operation: Union[str, bytes], parameters: Optional[Arguments] = None) -> bytes:
        """Return a command with its values written into it, to show it or to combine it with others.

        :meth:`execute` sends values apart from the command, so the server may see them as other types than here.

        Parameters
        ----------
        operation, parameters
            As for :meth:`execute`. A tuple is written as `(1, 2)`, a list as `ARRAY[1, 2]`.

        Returns
        -------
        bytes
            The command, as psycopg2 gives it; `.decode()` makes a text of it.

        Raises
        ------
        ProgrammingError
            A value has no literal.

        Examples
        --------
        >>> cursor.mogrify("insert into flights values (%s, %s)", (1, "it's"))
        b"insert into flights values (1, 'it''s')"
        """
        return placeholders.written(placeholders.command(operation), parameters).encode()

    def close(self) -> None:
        """Close the cursor: nothing can be done with it any more."""
        super().close()
        self._rows = ()

    def __iter__(self) -> Iterator[CursorRowT]:
        self._result()
        # What is fetched or executed meanwhile counts.
        while self._at < len(self._rows):
            row = self._rows[self._at]
            self._at += 1
            yield row if self._make is None else self._make(row)  # type: ignore[misc]

    def _repr_html_(self) -> Optional[str]:
        """The rows that are left as a table, for notebooks; they can be fetched all the same."""
        if self._description is None:
            return None
        rows = self._rows[self._at : self._at + notebook.ROWS]
        return notebook.table([column[0] for column in self._description], rows, len(self._rows) - self._at)

    def _copies_out(self, operation: str) -> bool:
        """Whether it is COPY to the client, and not from it."""
        out = placeholders.copies_out(operation)
        if out is None:
            # The server knows best what is wrong, and fails the transaction.
            self._connection._parse(operation)
            raise ProgrammingError(
                "the command is no COPY with the client: COPY ... FROM STDIN or COPY ... TO STDOUT is expected"
            )
        return out

    def _take(self, end: int) -> list[Any]:
        rows = self._result()
        taken = rows[self._at : end]
        self._at = min(max(end, self._at), len(rows))
        if self._make is not None:
            # A StopIteration of the factory's own is an error.
            make = self._make
            return [make(row) for row in taken]
        # A list's part is a list of its own.
        return taken if isinstance(taken, list) else list(taken)

    def _result(self) -> Sequence[tuple[Any, ...]]:
        if self._description is None:
            self._check()
            raise ProgrammingError("there is no result: no query that gives rows was executed")
        return self._rows

    def _described(self, description: Optional[list[Column]]) -> None:
        self._description = description
        self._at = 0
        if self._factory is not None and description is not None:
            self._make = self._factory([column[0] for column in description])

    def _forget(self) -> None:
        self._description = None
        self._rowcount = -1
        self._tag = None
        self._rows = ()
        self._next = ()


def _pieces(file: Any) -> Iterator[bytes]:
    """What a file holds, whether it gives bytes or text."""
    while piece := file.read(1 << 16):
        yield piece.encode() if isinstance(piece, str) else piece
