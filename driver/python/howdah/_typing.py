"""What checkers of types follow through the package: the classes of rows and connections, and the options by name."""

from __future__ import annotations

import os
import ssl as ssl_module
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict, Union

from ._core import Record

if TYPE_CHECKING:
    # Checkers know it without its being installed; it knows defaults, which `typing` does not before 3.13.
    from typing_extensions import TypeVar

    from .connect_params import SessionAttribute
    from .connection import Connection
    from .tls import SSLMode

    #: A connection's or a pool's class of records.
    RecordT = TypeVar("RecordT", bound=Record, default=Record)
    #: What the rows of a statement are.
    RowT = TypeVar("RowT", default=Record)
    #: What the rows of a synchronous cursor are.
    CursorRowT = TypeVar("CursorRowT", default=tuple[Any, ...])
    #: A program's own class of connections.
    ConnectionT = TypeVar("ConnectionT", bound=Connection[Any])
else:
    from typing import TypeVar

    RecordT = TypeVar("RecordT", bound=Record)
    RowT = TypeVar("RowT")
    CursorRowT = TypeVar("CursorRowT")
    ConnectionT = TypeVar("ConnectionT")

IsolationLevel = Literal["read_uncommitted", "read_committed", "repeatable_read", "serializable"]

SSLModeName = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
SessionAttributeName = Literal["any", "primary", "standby", "prefer-standby", "read-write", "read-only"]

# The values of one execution, by position or by name, and of many.
Arguments = Union[Sequence[Any], Mapping[str, Any], Record]
ArgumentLists = Union[Iterable[Arguments], AsyncIterable[Arguments]]

_Path = Union[str, "os.PathLike[str]"]


class SessionOptions(TypedDict, total=False):
    """The options of :func:`howdah.connect` that :func:`howdah.dbapi.connect` passes on to it."""

    host: Union[str, Sequence[str], None]
    port: Union[int, str, Sequence[int], Sequence[str], None]
    user: Optional[str]
    password: Union[str, Callable[[], Union[str, Awaitable[str]]], None]
    passfile: Optional[_Path]
    service: Optional[str]
    servicefile: Optional[_Path]
    database: Optional[str]
    statement_cache_size: int
    max_cached_statement_lifetime: float
    max_cacheable_statement_size: int
    command_timeout: Optional[float]
    ssl: Union[SSLModeName, SSLMode, bool, ssl_module.SSLContext, None]
    direct_tls: Optional[bool]
    server_settings: Optional[dict[str, str]]
    target_session_attrs: Union[SessionAttributeName, SessionAttribute, None]
    krbsrvname: Optional[str]
    gsslib: Optional[Literal["gssapi", "sspi"]]
    truncate: bool


class ConnectOptions(SessionOptions, total=False):
    """The options of :func:`howdah.connect` that a pool passes on to it."""

    timeout: Optional[float]


class PoolOptions(ConnectOptions, total=False):
    """The options of :func:`howdah.create_pool` that asyncpg's pools do not have, and those of the connections."""

    max_lifetime: float
    max_lifetime_jitter: float
    health_check_interval: float
    health_check_timeout: float
