"""What cursors have in common."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from .errors import InterfaceError
from .rows import Column

if TYPE_CHECKING:
    from typing_extensions import Self

    from .connection import Connection


class BaseCursor:
    """What cursors have in common: the statement, and what the server has said of it."""

    # An attribute that is not known would do nothing, and is refused.
    __slots__ = ("__weakref__", "_closed", "_connection", "_description", "_rowcount", "_tag", "arraysize")

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
        """The server's status of the last command, such as `INSERT 0 1`."""
        return None if self._tag is None else self._tag.decode()

    @property
    def lastrowid(self) -> None:
        """Always None: use `RETURNING` to get values of inserted rows."""
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

    def nextset(self) -> Optional[bool]:
        """Return None: a command has one result."""
        self._check()
        return None

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        if self._connection._session.is_closed():
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
