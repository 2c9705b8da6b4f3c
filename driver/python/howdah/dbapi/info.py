"""What is known of a connection, by psycopg's names."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .connection import Connection


class TransactionStatus(enum.IntEnum):
    """The state of a session's transaction, with libpq's numbers."""

    IDLE = 0
    ACTIVE = 1
    INTRANS = 2
    INERROR = 3
    UNKNOWN = 4


class ConnectionInfo:
    """What is known of a connection without asking the server: :attr:`Connection.info`.

    Examples
    --------
    >>> connection.info.dbname
    'app'
    >>> connection.info.parameter_status("TimeZone")
    'UTC'
    """

    vendor = "PostgreSQL"

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    @property
    def dbname(self) -> str:
        """The database."""
        return str(self._connection._inner._params.database)

    @property
    def user(self) -> str:
        """The user who logged in."""
        return str(self._connection._inner._params.user)

    @property
    def password(self) -> str:
        """The password; empty where none was given, or a function gives it."""
        password = self._connection._inner._params.password
        return password if isinstance(password, str) else ""

    @property
    def host(self) -> str:
        """The host, or the folder of the Unix socket."""
        address = self._connection._inner._addr
        if isinstance(address, str):
            return address.rpartition("/")[0]
        return str(getattr(address[0], "name", address[0]))

    @property
    def port(self) -> int:
        """The port."""
        address = self._connection._inner._addr
        return int(address.rpartition(".")[2] if isinstance(address, str) else address[1])

    @property
    def options(self) -> str:
        """The command-line options that were sent to the server."""
        return str((self._connection._inner._params.server_settings or {}).get("options", ""))

    @property
    def dsn(self) -> str:
        """The connection as libpq's words, without its password."""
        words = {"user": self.user, "dbname": self.dbname, "host": self.host, "port": str(self.port)}
        return " ".join(f"{name}={_word(value)}" for name, value in words.items())

    @property
    def server_version(self) -> int:
        """The server's version as a number: 180001 for 18.1."""
        version = self._connection._inner.get_server_version()
        last = version.minor * 100 + version.micro if version.major < 10 else version.micro
        return int(version.major * 10000 + last)

    @property
    def backend_pid(self) -> int:
        """The process id of the backend."""
        return int(self._connection._inner.get_server_pid())

    @property
    def encoding(self) -> str:
        """Python's name of the client's encoding."""
        from ..protocol import python_encoding

        return python_encoding(self.parameter_status("client_encoding") or "UTF8")

    @property
    def timezone(self) -> Any:
        """The session's time zone, a :class:`zoneinfo.ZoneInfo`; UTC where Python does not know it."""
        import datetime
        import zoneinfo

        try:
            return zoneinfo.ZoneInfo(self.parameter_status("TimeZone") or "UTC")
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            return datetime.timezone.utc

    @property
    def transaction_status(self) -> TransactionStatus:
        """The state of the session's transaction."""
        connection = self._connection
        if connection.closed:
            return TransactionStatus.UNKNOWN
        session = connection._session
        if session.is_busy():
            return TransactionStatus.ACTIVE
        if not session.is_in_transaction():
            return TransactionStatus.IDLE
        return TransactionStatus.INERROR if session.is_in_failed_transaction() else TransactionStatus.INTRANS

    def parameter_status(self, param_name: str) -> Optional[str]:
        """Return a setting that the server reports, such as `TimeZone`; None for others."""
        found = self._connection._inner.get_settings().as_dict()
        return found.get(param_name)

    def get_parameters(self) -> dict[str, str]:
        """Return the connection's parameters by libpq's names, without its password."""
        return {"user": self.user, "dbname": self.dbname, "host": self.host, "port": str(self.port)}


def _word(value: str) -> str:
    if value and not set(value) & set(" '\\"):
        return value
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
