"""Cursors: of rows, of columns, and of rows that come piece by piece."""

from __future__ import annotations

import codecs
import importlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Optional, TypeVar

from .. import _core, utils
from .._typing import Arguments, CursorRowT
from ..copying import copy_in, copy_out
from . import parameters as placeholders
from ._loop import Loop
from .errors import InterfaceError, NotSupportedError, ProgrammingError

if TYPE_CHECKING:
    from typing_extensions import Self

    from .connection import Connection

_T = TypeVar("_T")

# A row's values in the order of the columns, to what the program wants of a row.
RowMaker = Callable[[tuple[Any, ...]], _T]
# The names of the columns, to a maker of rows.
RowFactory = Callable[[list[str]], RowMaker[_T]]

# How many rows a streaming cursor fetches at a time.
_PIECE = 1000


class Column(NamedTuple):
    """What `description` has of a column, as PEP 249 wants it; the type's code is PostgreSQL's number of it."""

    name: str
    type_code: int
    display_size: None = None
    internal_size: None = None
    precision: None = None
    scale: None = None
    null_ok: None = None


class BaseCursor:
    """What cursors have in common: the statement, and what the server has said of it."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection: Connection[Any] = connection
        self._closed = False
        self._description: Optional[list[Column]] = None
        self._rowcount = -1
        # What the server said of the last command, read when somebody asks.
        self._tag: Optional[bytes] = None
        #: How many rows :meth:`fetchmany` gives when it is not told.
        self.arraysize = 1

    @property
    def connection(self) -> Connection[Any]:
        """The connection."""
        return self._connection

    @property
    def description(self) -> Optional[list[Column]]:
        """For each column its name, PostgreSQL's number of its type, and five times None; None without a result."""
        return self._description

    @property
    def rowcount(self) -> int:
        """How many rows the last command gave or changed; -1 where the server does not say."""
        if self._tag is None:
            return self._rowcount
        count = self._tag.rpartition(b" ")[2]
        return int(count) if count.isdigit() else -1

    @property
    def statusmessage(self) -> Optional[str]:
        """What the server said of the last command, as `INSERT 0 1`."""
        return None if self._tag is None else self._tag.decode()

    @property
    def lastrowid(self) -> None:
        """Always None: `RETURNING` gives what a row has become."""
        return

    def close(self) -> None:
        """Close the cursor: nothing can be done with it any more."""
        self._closed = True
        self._description = None

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing, as PEP 249 allows."""
        self._check()

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """Do nothing, as PEP 249 allows."""
        self._check()

    def nextset(self) -> None:
        """Return None: a command has one result."""
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._connection._check()

    def _told(self, status: str) -> int:
        """Take what the server said of a command; the number of its rows."""
        self._tag = status.encode()
        return self.rowcount

    def _forget(self) -> None:
        """Let go of the last command, before another one that may fail."""
        self._description = None
        self._rowcount = -1
        self._tag = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()


class Cursor(BaseCursor, Generic[CursorRowT]):
    """A cursor whose rows are all fetched when a query is executed.

    Examples
    --------
    >>> cursor = connection.cursor()
    >>> cursor.execute("select id, carrier from flights where day = %s", (3,)).fetchall()
    [(1, 'LH'), (2, 'AF')]
    """

    def __init__(self, connection: Connection[Any], row_factory: Optional[RowFactory[CursorRowT]] = None) -> None:
        super().__init__(connection)
        self._rows: Sequence[tuple[Any, ...]] = ()
        self._at = 0
        self._factory = row_factory
        self._make: Optional[RowMaker[CursorRowT]] = None

    @property
    def rownumber(self) -> Optional[int]:
        """The number of the next row, from 0; None without a result."""
        return None if self._description is None else self._at

    def execute(self, operation: str, parameters: Optional[Arguments] = None) -> Self:
        """Run a command.

        Parameters
        ----------
        operation : str
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

    def executemany(self, operation: str, seq_of_parameters: Iterable[Arguments]) -> Self:
        """Run a command once for each of many argument lists, which travel as one unit.

        Parameters
        ----------
        operation : str
            The command.
        seq_of_parameters : iterable of sequences or of mappings
            The argument lists, taken piece by piece while they are sent.

        Returns
        -------
        Cursor
            This one; its `rowcount` is that of all together.
        """
        self._check()
        self._forget()
        text, rows = placeholders.bind_many(operation, seq_of_parameters)
        if rows is None:
            self._rowcount = 0
            return self
        with self._connection._lock:
            self._rowcount = self._connection._many(text, rows)
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
        rows = self._result()
        if self._at >= len(rows):
            return None
        row = rows[self._at]
        self._at += 1
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
        """Refuse: the rows are Python objects already. `connection.cursor(columns=True)` makes a cursor that can."""
        raise NotSupportedError("columns are for a cursor made by connection.cursor(columns=True)")

    def copy_in(self, operation: str, source: Any) -> int:
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
        return self._told(self._connection._copy(copy_in, operation, _as_source(source, self._connection._loop)))

    def copy_out(self, operation: str, target: Any) -> int:
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
        return self._told(self._connection._copy(copy_out, operation, _as_target(target, self._connection._loop)))

    def copy_expert(self, sql: str, file: Any, size: int = 8192) -> int:
        """Run COPY from a file or to one, by psycopg2's name for :meth:`copy_in` and :meth:`copy_out`.

        Parameters
        ----------
        sql : str
            `COPY ... FROM STDIN` or `COPY ... TO STDOUT`.
        file : file
            Where the data comes from or goes to; of bytes or of text, which is UTF-8 then.
        size : int
            Of no meaning here.

        Returns
        -------
        int
            How many rows were copied.
        """
        if placeholders.copies_out(sql):
            text = isinstance(file, io.TextIOBase)
            decoder = codecs.getincrementaldecoder("utf-8")()
            return self.copy_out(sql, (lambda data: file.write(decoder.decode(data))) if text else file)
        if isinstance(file, io.TextIOBase):
            return self.copy_in(sql, (piece.encode() for piece in iter(lambda: file.read(1 << 16), "")))
        return self.copy_in(sql, file)

    def mogrify(self, operation: str, parameters: Optional[Arguments] = None) -> bytes:
        """Return a command with its values written into it, to be looked at or put together.

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
        return placeholders.written(operation, parameters).encode()

    def close(self) -> None:
        """Close the cursor: nothing can be done with it any more."""
        super().close()
        self._rows = ()

    def __iter__(self) -> Iterator[CursorRowT]:
        while self._at < len(self._result()):
            yield self.fetchone()  # type: ignore[misc]

    def _take(self, end: int) -> list[Any]:
        rows = self._result()
        taken = rows[self._at : end]
        self._at = min(max(end, self._at), len(rows))
        return list(taken) if self._make is None else list(map(self._make, taken))

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
        super()._forget()
        self._rows = ()


class ColumnCursor(BaseCursor):
    """A cursor whose results are columns: the values never become Python objects.

    Examples
    --------
    >>> cursor = connection.cursor(columns=True)
    >>> cursor.execute("select id, delay from flights").fetch_arrow_table().num_rows
    2
    """

    def __init__(self, connection: Connection[Any]) -> None:
        super().__init__(connection)
        self._columns: Any = None

    def execute(self, operation: str, parameters: Optional[Arguments] = None) -> ColumnCursor:
        """Run a query, as :meth:`Cursor.execute`."""
        self._check()
        self._forget()
        text, args = placeholders.bind(operation, parameters)
        with self._connection._lock:
            self._columns, self._description = self._connection._query_columns(text, args)
        self._rowcount = len(self._columns)
        return self

    def fetch_columns(self) -> _core.Columns:
        """Return the result as :class:`howdah.Columns`, which Arrow's libraries and NumPy take without copying."""
        self._check()
        if self._columns is None:
            raise ProgrammingError("there is no result: no query was executed, or it was fetched already")
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


class StreamCursor(Cursor[CursorRowT]):
    """A cursor whose rows come piece by piece while they are fetched, within a transaction.

    Examples
    --------
    >>> with connection.cursor(stream=True) as cursor:
    ...     for row in cursor.execute("select * from flights"):
    ...         print(row)
    """

    def __init__(self, connection: Connection[Any], row_factory: Optional[RowFactory[CursorRowT]] = None) -> None:
        super().__init__(connection, row_factory)
        #: How many rows travel at a time when they are iterated over or fetched one by one.
        self.itersize = _PIECE
        self._portal: Any = None

    def execute(self, operation: str, parameters: Optional[Arguments] = None) -> Self:
        """Begin a query, as :meth:`Cursor.execute`; its rows stay on the server."""
        self._check()
        self._end()
        self._forget()
        text, args = placeholders.bind(operation, parameters)
        with self._connection._lock:
            self._portal, description = self._connection._open(text, args)
        self._described(description)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Arguments]) -> Self:
        """Refuse: rows of many commands are not streamed."""
        raise NotSupportedError("executemany() is for a cursor that does not stream")

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
        """Refuse: what has been fetched is gone."""
        raise NotSupportedError("scroll() is for a cursor that does not stream")

    def close(self) -> None:
        """Close the cursor, on the server too."""
        if not self._closed:
            self._end()
        super().close()

    def __iter__(self) -> Iterator[CursorRowT]:
        while (row := self.fetchone()) is not None:
            yield row

    def _fill(self, count: int) -> None:
        """Fetch so many rows more, all with 0; none when there are no more."""
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


async def _pieces(source: Iterable[bytes], loop: Loop) -> Any:
    rest = iter(source)
    while (piece := loop.call(next, rest, None)) is not None:
        yield piece


def _as_source(source: Any, loop: Loop) -> Any:
    """The source in a form that the driver takes."""
    plain = isinstance(source, (bytes, bytearray, memoryview, str)) or hasattr(source, "__fspath__")
    if plain or hasattr(source, "read") or not hasattr(source, "__iter__"):
        return source
    return _pieces(source, loop)


def _as_target(target: Any, loop: Loop) -> Any:
    if not callable(target) or hasattr(target, "write"):
        return target

    async def sink(data: bytes) -> None:
        loop.call(target, data)

    return sink


def dict_row(names: list[str]) -> RowMaker[dict[str, Any]]:
    """Make rows dicts, for `row_factory`."""
    return lambda row: dict(zip(names, row))


def class_row(kind: Callable[..., _T]) -> RowFactory[_T]:
    """Make rows instances of a class, a dataclass for instance, whose arguments have the columns' names."""
    return lambda names: lambda row: kind(**dict(zip(names, row)))
