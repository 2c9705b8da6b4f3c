"""The exceptions that stand for more than one error code, or for none.

An error of the server becomes a :class:`PostgresError`, a notice or warning a :class:`PostgresLogMessage`, of the class
that belongs to its SQLSTATE. An error that the client itself finds is an :class:`InterfaceError` (a mistake of the
caller) or an :class:`InternalClientError` (a fault of the client).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Optional

__all__ = (
    "ClientConfigurationError",
    "FatalPostgresError",
    "InterfaceError",
    "InterfaceWarning",
    "InternalClientError",
    "OutdatedSchemaCacheError",
    "PostgresError",
    "PostgresLogMessage",
    "ProtocolError",
    "TargetServerAttributeNotMatched",
    "UnknownPostgresError",
    "UnsupportedClientFeatureError",
    "UnsupportedServerFeatureError",
)

# The fields of ErrorResponse and NoticeResponse, by their letter in the protocol.
FIELDS = {
    "S": "severity",
    "V": "severity_en",
    "C": "sqlstate",
    "M": "message",
    "D": "detail",
    "H": "hint",
    "P": "position",
    "p": "internal_position",
    "q": "internal_query",
    "W": "context",
    "s": "schema_name",
    "t": "table_name",
    "c": "column_name",
    "d": "data_type_name",
    "n": "constraint_name",
    "F": "server_source_filename",
    "L": "server_source_line",
    "R": "server_source_function",
}

STALE_PLAN = "cached statement plan is invalid due to a database schema or configuration change"

POOLER_HINT = """
NOTE: a pooler that changes the server connection between transactions
must keep prepared statements itself (howdah-pooler does, and pgbouncer
from 1.21 with max_prepared_statements set).  Behind one that does not:

* use the connection pool of the driver in place of it; or

* set statement_cache_size to 0 when creating the connection.
"""

FORMAT_HINT = "Parameters are `$1`, `$2` or `:name` here; `%s` and `%(name)s` are those of howdah.dbapi."

# What programs that come from elsewhere write, by what the server stops at: the query before it, it and what follows.
_NAMED = re.compile(r":[^\W\d]\w*")
_FORMAT = re.compile(r"%(?:s\b|\(\w+\)s)")
_NUMBERED = re.compile(r"\$\d+")
_ANY_HINT = "Compare with the values of a list by `= any(...)` in place of `in ...`."
# How the message ends when one value is compared with an array, in any language.
_WITH_ARRAY = re.compile(r"[^\]] = \S+\[\]\Z")
_AFTER_IN = re.compile(r"\bin\s*\Z", re.IGNORECASE)


def _syntax_hint(query: str, position: str) -> Optional[str]:
    """What to do about a mistake in a query that the driver knows, where the server has none to say."""
    place = int(position) - 1
    if _NAMED.match(query, place):
        return (
            "The values of `:name` parameters are keyword arguments, fetch('select :id', id=1), other than `query`, "
            "`timeout`, `record_class` and `column`. In howdah.dbapi parameters are `%(name)s`."
        )
    if _FORMAT.match(query, place):
        return FORMAT_HINT
    if _NUMBERED.match(query, place) and _AFTER_IN.search(query, 0, place):
        return _ANY_HINT
    return None


# Errors by which a pooler without prepared statements shows itself.
_POOLER_SIGNS = frozenset({"42P05", "26000"})


class PostgresMessageMeta(type):
    """Keeps the classes by their SQLSTATE."""

    _message_map: ClassVar[dict[str, PostgresMessageMeta]] = {}
    _field_map: ClassVar[dict[str, str]] = FIELDS

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> PostgresMessageMeta:
        """Make a message class, and enter it under its `sqlstate` if it names one."""
        cls = super().__new__(mcs, name, bases, namespace)
        sqlstate = namespace.get("sqlstate")
        if sqlstate is not None:
            known = mcs._message_map.setdefault(sqlstate, cls)
            if known is not cls:
                raise TypeError(f"{name} has the SQLSTATE {sqlstate}, which belongs to {known.__name__}")
        return cls

    @classmethod
    def get_message_class_for_sqlstate(mcs, code: Optional[str]) -> Any:
        """The class of the SQLSTATE `code`; `UnknownPostgresError` if it has none."""
        return mcs._message_map.get(code or "", UnknownPostgresError)


class PostgresMessage(metaclass=PostgresMessageMeta):
    """A message of the server: an error or a notice, with the fields that the server filled.

    Attributes
    ----------
    severity, severity_en : str or None
        ``ERROR``, ``FATAL``, ``WARNING`` ...: in the server's language, and untranslated.
    sqlstate : str or None
        The five letters of the code.
    message, detail, hint : str or None
        The text, its details, and what to do about it.
    position, internal_position : str or None
        Where in the query the error is, in characters from 1.
    context, internal_query : str or None
        The stack of what was being executed, and the text of a command that the server made itself.
    schema_name, table_name, column_name, data_type_name, constraint_name : str or None
        The object that the error is about.
    server_source_filename, server_source_line, server_source_function : str or None
        Where the server raised it.
    """

    severity: Optional[str] = None
    severity_en: Optional[str] = None
    sqlstate: Optional[str] = None
    message: Optional[str] = None
    detail: Optional[str] = None
    hint: Optional[str] = None
    position: Optional[str] = None
    internal_position: Optional[str] = None
    internal_query: Optional[str] = None
    context: Optional[str] = None
    schema_name: Optional[str] = None
    table_name: Optional[str] = None
    column_name: Optional[str] = None
    data_type_name: Optional[str] = None
    constraint_name: Optional[str] = None
    server_source_filename: Optional[str] = None
    server_source_line: Optional[str] = None
    server_source_function: Optional[str] = None

    @classmethod
    def _read(cls, fields: Mapping[str, str], query: Optional[str]) -> tuple[Any, str, dict[str, Any]]:
        """The class, the text and the attributes of the message whose fields, by letter, are `fields`."""
        attributes: dict[str, Any] = {"query": query}
        for letter, value in fields.items():
            name = FIELDS.get(letter)
            if name is not None:
                attributes[name] = value
        sqlstate = attributes.get("sqlstate")
        found = PostgresMessageMeta.get_message_class_for_sqlstate(sqlstate)
        text = attributes.get("message") or ""
        # A cached plan whose result would have other columns now, told by the function that raises it, as the text of
        # the message is translated; or one of whose types is no more, whose text is never translated.
        if (sqlstate == "0A000" and attributes.get("server_source_function") == "RevalidateCachedQuery") or (
            sqlstate == "XX000" and text.startswith("cache lookup failed for type ")
        ):
            from . import InvalidCachedStatementError

            return InvalidCachedStatementError, STALE_PLAN, attributes
        if sqlstate in _POOLER_SIGNS:
            attributes["hint"] = (attributes.get("hint") or "") + POOLER_HINT
        if sqlstate == "42601" and query and "position" in attributes and "hint" not in attributes:
            hint = _syntax_hint(query, attributes["position"])
            if hint is not None:
                attributes["hint"] = hint
        if sqlstate == "42883" and _WITH_ARRAY.search(text):
            attributes["hint"] = _ANY_HINT
        return found, text, attributes

    def as_dict(self) -> dict[str, str]:
        """The fields that the server filled, by name."""
        values = ((name, getattr(self, name)) for name in FIELDS.values())
        return {name: value for name, value in values if value is not None}


def _with_details(message: Any) -> str:
    text: str = message.args[0] if message.args else ""
    if message.detail:
        text += f"\nDETAIL:  {message.detail}"
    if message.hint:
        text += f"\nHINT:  {message.hint}"
    return text


class PostgresError(PostgresMessage, Exception):
    """The base of all errors that the server reports."""

    def __str__(self) -> str:
        return _with_details(self)

    @classmethod
    def new(cls, fields: Mapping[str, str], query: Optional[str] = None) -> PostgresError:
        """The exception of an ErrorResponse.

        Parameters
        ----------
        fields : mapping of str to str
            The fields of the message, by their letter in the protocol.
        query : str, optional
            The query that failed.

        Returns
        -------
        PostgresError
            An instance of the class of the error's SQLSTATE.
        """
        found, text, attributes = cls._read(fields, query)
        error: PostgresError = found(text)
        error.__dict__.update(attributes)
        return error


class FatalPostgresError(PostgresError):
    """An error that ends the session."""


class UnknownPostgresError(FatalPostgresError):
    """An error with a SQLSTATE that is not in PostgreSQL's list."""


class InterfaceMessage:
    """The base of the client's errors and warnings: a detail and a hint."""

    args: tuple[Any, ...]

    def __init__(self, *, detail: Optional[str] = None, hint: Optional[str] = None) -> None:
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        return _with_details(self)


class InterfaceError(InterfaceMessage, Exception):
    """The driver was used in a way that cannot work."""

    def __init__(self, msg: str, *, detail: Optional[str] = None, hint: Optional[str] = None) -> None:
        InterfaceMessage.__init__(self, detail=detail, hint=hint)
        Exception.__init__(self, msg)

    def with_msg(self, msg: str) -> InterfaceError:
        """The same error, with the traceback it has, under another message."""
        return type(self)(msg, detail=self.detail, hint=self.hint).with_traceback(self.__traceback__)


class ClientConfigurationError(InterfaceError, ValueError):
    """The arguments of the connection contradict each other, or one has no meaning."""


class DataError(InterfaceError, ValueError):
    """A value cannot become the argument that the query wants."""


class UnsupportedClientFeatureError(InterfaceError):
    """The server wants something that the driver cannot do."""


class UnsupportedServerFeatureError(InterfaceError):
    """The driver was asked for something that this server cannot do."""


class InterfaceWarning(InterfaceMessage, UserWarning):
    """The driver was used in a way that works, but is probably a mistake."""

    def __init__(self, msg: str, *, detail: Optional[str] = None, hint: Optional[str] = None) -> None:
        InterfaceMessage.__init__(self, detail=detail, hint=hint)
        UserWarning.__init__(self, msg)


class InternalClientError(Exception):
    """Something went wrong inside the driver."""


class ProtocolError(InternalClientError):
    """The server sent what the protocol does not allow."""


class TargetServerAttributeNotMatched(InternalClientError):
    """None of the hosts is what `target_session_attrs` asks for."""


class OutdatedSchemaCacheError(InternalClientError):
    """A type has changed since its description was read, so that a value of it could not be read."""

    def __init__(
        self,
        msg: str,
        *,
        schema: Optional[str] = None,
        data_type: Optional[str] = None,
        position: Optional[int] = None,
    ) -> None:
        super().__init__(msg)
        self.schema_name = schema
        self.data_type_name = data_type
        self.position = position


class PostgresLogMessage(PostgresMessage):
    """A notice of the server: a message that is not an error. Its attributes cannot be changed."""

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.message}"

    def __setattr__(self, name: str, val: object) -> None:
        """Refuse: a message is what the server sent."""
        raise TypeError(f"instances of {type(self).__name__} are immutable")

    @classmethod
    def new(cls, fields: Mapping[str, str], query: Optional[str] = None) -> PostgresLogMessage:
        """The message of a NoticeResponse.

        Parameters
        ----------
        fields : mapping of str to str
            The fields of the message, by their letter in the protocol.
        query : str, optional
            The query during which it came.

        Returns
        -------
        PostgresLogMessage
            A :class:`PostgresWarning` (or the class of its SQLSTATE) if it is a warning.
        """
        found, text, attributes = cls._read(fields, query)
        if found is UnknownPostgresError:
            found = PostgresLogMessage
            severity = attributes.get("severity_en") or attributes.get("severity") or ""
            if severity.upper() == "WARNING":
                from . import PostgresWarning

                found = PostgresWarning
        message: PostgresLogMessage = found(text) if issubclass(found, BaseException) else found()
        message.__dict__.update(attributes)
        return message
