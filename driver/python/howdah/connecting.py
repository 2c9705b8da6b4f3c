"""The way to a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Optional, overload

from . import compat, connect_params, connect_utils, exceptions, protocol
from ._typing import ConnectionT, ConnectOptions, RecordT
from .connection import Connection
from .records import check_record_class

if TYPE_CHECKING:
    from typing_extensions import Unpack


@overload
async def connect(
    dsn: Optional[str] = None,
    *,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    record_class: type[RecordT] = ...,
    **options: Unpack[ConnectOptions],
) -> Connection[RecordT]: ...


@overload
async def connect(
    dsn: Optional[str] = None,
    *,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    connection_class: type[ConnectionT],
    record_class: type[protocol.Record] = ...,
    **options: Unpack[ConnectOptions],
) -> ConnectionT: ...


async def connect(
    dsn: Optional[str] = None,
    *,
    host: Any = None,
    port: Any = None,
    user: Optional[str] = None,
    password: Any = None,
    passfile: Any = None,
    service: Optional[str] = None,
    servicefile: Any = None,
    database: Optional[str] = None,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    timeout: Optional[float] = 60,
    statement_cache_size: int = 100,
    max_cached_statement_lifetime: float = 300,
    max_cacheable_statement_size: int = 1024 * 15,
    command_timeout: Optional[float] = None,
    ssl: Any = None,
    direct_tls: Optional[bool] = None,
    connection_class: Any = Connection,
    record_class: Any = protocol.Record,
    server_settings: Optional[dict[str, str]] = None,
    target_session_attrs: Any = None,
    krbsrvname: Optional[str] = None,
    gsslib: Optional[str] = None,
    truncate: bool = False,
) -> Any:
    """Connect to a server.

    Values that are not given come from the environment (PGHOST and the like), the service file and the password file,
    as with libpq.

    Parameters
    ----------
    dsn : str, optional
        A URI: `postgres://user:password@host1:port1,host2:port2/database?option=value`, with libpq's options
        (`sslmode`, `connect_timeout`, `channel_binding`, ...); unknown options are settings of the server. Or libpq's
        keyword form: `host=... port=... dbname=... user=...`.
    host : str or list of str, optional
        Host names, addresses or directories of Unix sockets, tried one after the other.
    port : int or list of int, optional
        One port for all hosts or one for each.
    user, database : str, optional
        The user who logs in, and the database.
    password : str or callable, optional
        The password, or a function or coroutine function that gives it.
    passfile, service, servicefile : str or path, optional
        The password file, the name of a service, and the service file.
    loop : asyncio.AbstractEventLoop, optional
        The loop; the running one by default.
    timeout : float, default 60
        Seconds for connecting.
    statement_cache_size : int, default 100
        How many statements to keep prepared; 0 for none.
    max_cached_statement_lifetime : float, default 300
        Seconds for which a statement is kept; 0 for ever.
    max_cacheable_statement_size : int, default 15360
        Queries longer than this are not kept; 0 for any.
    command_timeout : float, optional
        Seconds for each operation that has no `timeout` of its own.
    ssl : bool, str or ssl.SSLContext, optional
        One of libpq's modes (`prefer` by default over TCP), or a context; True is `verify-full` with the system's
        certificates.
    direct_tls : bool, optional
        Whether to begin with TLS at once, without asking the server; a context of your own then has to offer the
        protocol `postgresql` (:meth:`ssl.SSLContext.set_alpn_protocols`).
    connection_class : type
        The class of the connection, derived from :class:`Connection`.
    record_class : type
        The class of rows, derived from :class:`Record`.
    server_settings : dict, optional
        Settings of the session.
    target_session_attrs : {"any", "primary", "standby", "prefer-standby", "read-write", "read-only"}, optional
        The kind of server that is accepted.
    krbsrvname, gsslib : str, optional
        The service name and the library for GSSAPI.
    truncate : bool, default False
        Whether a value of which a parameter's type holds only a part is cut off, as asyncpg does (2.7 for an `int`
        is 2). If not, it is an error.

    Returns
    -------
    Connection
        The connection.

    Raises
    ------
    OSError
        No host can be reached.
    PostgresError
        The server refuses.
    ClientConfigurationError
        The parameters contradict each other or cannot be read.
    asyncio.TimeoutError
        It takes too long.

    Examples
    --------
    >>> connection = await howdah.connect("postgres://app@localhost/app", command_timeout=10)
    """
    if not issubclass(connection_class, Connection):
        raise exceptions.InterfaceError(
            "connection_class is expected to be a subclass of asyncpg.Connection, here howdah.Connection, "
            f"got {connection_class!r}"
        )
    if record_class is not protocol.Record:
        check_record_class(record_class)
    connect_params.check_connecting_timeout(timeout)
    if loop is None:
        loop = asyncio.get_event_loop()
    try:
        async with compat.timeout(timeout):
            return await connect_utils._connect(
                loop=loop,
                connection_class=connection_class,
                record_class=record_class,
                dsn=dsn,
                host=host,
                port=port,
                user=user,
                password=password,
                passfile=passfile,
                service=service,
                servicefile=servicefile,
                ssl=ssl,
                direct_tls=direct_tls,
                database=database,
                server_settings=server_settings,
                command_timeout=command_timeout,
                statement_cache_size=statement_cache_size,
                max_cached_statement_lifetime=max_cached_statement_lifetime,
                max_cacheable_statement_size=max_cacheable_statement_size,
                target_session_attrs=target_session_attrs,
                krbsrvname=krbsrvname,
                gsslib=gsslib,
                truncate=truncate,
            )
    except asyncio.TimeoutError as error:
        if error.args or timeout is None:
            raise
        raise asyncio.TimeoutError(f"no connection within the timeout of {timeout:g} seconds") from error
