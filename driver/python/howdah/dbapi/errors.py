"""PEP 249's exceptions, and which of them stands for which error of the driver.

The driver's own exception, whose class is PostgreSQL's name for the condition, is the `__cause__`.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, NoReturn, Optional

from .. import exceptions
from ..exceptions._base import FIELDS, PostgresMessage

_FIELDS = frozenset(FIELDS.values())


class Warning(Exception):
    """PEP 249's class of warnings; never raised."""


class Diagnostics:
    """The fields of a server's message, by psycopg's names: `diag.constraint_name`, `diag.message_primary` and so on.

    Fields that the message does not have are None.
    """

    # Their names here, where those are others.
    _NAMES: ClassVar[dict[str, str]] = {
        "message_primary": "message",
        "message_detail": "detail",
        "message_hint": "hint",
        "severity_nonlocalized": "severity_en",
        "statement_position": "position",
        "datatype_name": "data_type_name",
        "source_file": "server_source_filename",
        "source_line": "server_source_line",
        "source_function": "server_source_function",
    }

    def __init__(self, error: Error) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Optional[str]:
        field = self._NAMES.get(name, name)
        if field not in _FIELDS or (field == name and name in self._NAMES.values()):
            raise AttributeError(f"a server's message has no field {name!r}")
        found: Optional[str] = getattr(self._error, field)
        return found

    def __dir__(self) -> list[str]:
        others = set(self._NAMES.values())
        return sorted({*self._NAMES, *(name for name in _FIELDS if name not in others)})


class Error(Exception):
    """The base of all errors.

    `sqlstate` is the server's code, None where the error is not the server's; the other fields of the server's message
    (`detail`, `hint`, `constraint_name`, `table_name`, ...) are attributes too.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _FIELDS:
            return getattr(self.__cause__, name, None)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> Any:
        # The cause has the server's fields, and goes along to another process.
        return _raised, (type(self), self.args, self.__cause__)

    @property
    def diag(self) -> Diagnostics:
        """The fields of the server's message, by psycopg's names."""
        return Diagnostics(self)

    @property
    def pgerror(self) -> Optional[str]:
        """The server's message with its details, by psycopg2's name; None where the error is not the server's."""
        return None if self.sqlstate is None else f"{self.severity}:  {self}"

    @property
    def pgcode(self) -> Optional[str]:
        """The SQLSTATE, by psycopg2's name."""
        code: Optional[str] = self.sqlstate
        return code


def _raised(kind: type[Error], args: tuple[Any, ...], cause: Optional[BaseException]) -> Error:
    error = kind(*args)
    error.__cause__ = cause
    return error


class InterfaceError(Error):
    """The interface was used in a way that cannot work."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value is out of its range, or is not one of its type."""


class OperationalError(DatabaseError):
    """The database cannot do it now: a lost connection, a cancelled query, a deadlock, no memory."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """The transaction's state does not allow it, or something that must not happen did."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or there is no such table, or the values are not as many as the placeholders."""


class NotSupportedError(DatabaseError):
    """The server or the driver cannot do it."""


# The first two characters of a SQLSTATE, as psycopg has it; what is not here is a DatabaseError.
_BY_CLASS = {
    "08": OperationalError,
    "0A": NotSupportedError,
    "10": ProgrammingError,
    "20": ProgrammingError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "24": InternalError,
    "25": InternalError,
    "26": ProgrammingError,
    "27": OperationalError,
    "28": OperationalError,
    "2B": InternalError,
    "2D": InternalError,
    "2F": OperationalError,
    "34": ProgrammingError,
    "38": OperationalError,
    "39": OperationalError,
    "3B": OperationalError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "44": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "F0": OperationalError,
    "HV": OperationalError,
    "P0": ProgrammingError,
    "XX": InternalError,
}

_BY_KIND = (
    (exceptions.DataError, DataError),
    (exceptions.UnsupportedClientFeatureError, NotSupportedError),
    (exceptions.UnsupportedServerFeatureError, NotSupportedError),
    (exceptions.InterfaceError, InterfaceError),
    (exceptions.TargetServerAttributeNotMatched, OperationalError),
    (exceptions.InternalClientError, InternalError),
)


def class_of(kind: type[BaseException], sqlstate: Optional[str] = None) -> Optional[type[Error]]:
    """PEP 249's class for one of the driver's; None for what it does not know."""
    # An error may have the SQLSTATE of a warning, whose class is another.
    if issubclass(kind, PostgresMessage) and issubclass(kind, Exception):
        state = sqlstate or getattr(kind, "sqlstate", None) or ""
        return _BY_CLASS.get(state[:2], DatabaseError)
    if issubclass(kind, (asyncio.TimeoutError, OSError)):
        return OperationalError
    return next((ours for theirs, ours in _BY_KIND if issubclass(kind, theirs)), None)


def raise_translated(error: BaseException) -> NoReturn:
    """Raise PEP 249's exception for one of the driver's, caused by it; any other as it is.

    An `OSError` is the program's own, a `TimeoutError` that its signal handler raises for instance: what the driver
    meets of them on the network is a lost connection. Its own timeouts say which they are.
    """
    if isinstance(error, (asyncio.TimeoutError, OSError)) and not str(error).startswith("no answer within the timeout"):
        raise error
    if isinstance(error, exceptions.ConnectionDoesNotExistError):
        cause: Any = error.__cause__
        if isinstance(cause, exceptions.PostgresError):
            # Why the server has closed the connection.
            raise _kind_of(cause)(str(error)) from cause
    found = _kind_of(error)
    if found is None:
        raise error
    raise found(str(error)) from error


def raise_not_connected(error: BaseException) -> NoReturn:
    """Raise the error about a connection that could not be made, whatever the reason, as psycopg does."""
    if _kind_of(error) is None and not isinstance(error, OverflowError):
        raise error
    raise OperationalError(str(error) or "no connection within the timeout") from error


def _kind_of(error: BaseException) -> Any:
    return class_of(type(error), getattr(error, "sqlstate", None))
