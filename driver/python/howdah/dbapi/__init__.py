"""PEP 249 on the driver's core: a synchronous interface, without threads and without an event loop that runs.

Examples
--------
>>> import howdah.dbapi
>>> connection = howdah.dbapi.connect("postgres://localhost/app")
>>> cursor = connection.cursor()
>>> cursor.execute("select id, carrier from flights where day = %s", (3,))
>>> cursor.fetchall()
[(1, 'LH')]
>>> connection.commit()
"""

from __future__ import annotations

from ._two_phase import Xid
from .columns import ColumnCursor
from .connection import Connection, connect
from .cursor import Cursor
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from .info import ConnectionInfo, TransactionStatus
from .pool import Pool
from .rows import Column, class_row, dict_row
from .server_cursor import ServerCursor
from .streaming import StreamCursor
from .types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Json,
    Jsonb,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
# Threads may share connections.
threadsafety = 2
paramstyle = "pyformat"

__all__ = (
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Column",
    "ColumnCursor",
    "Connection",
    "ConnectionInfo",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Json",
    "Jsonb",
    "NotSupportedError",
    "OperationalError",
    "Pool",
    "ProgrammingError",
    "ServerCursor",
    "StreamCursor",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TransactionStatus",
    "Warning",
    "Xid",
    "apilevel",
    "class_row",
    "connect",
    "dict_row",
    "paramstyle",
    "threadsafety",
)
