"""The way to a pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Optional

from . import connection, protocol
from ._typing import PoolOptions, RecordT
from .pool import Pool

if TYPE_CHECKING:
    from typing_extensions import Unpack


def create_pool(
    dsn: Optional[str] = None,
    *,
    init_size: Optional[int] = None,
    min_size: int = 10,
    max_size: int = 10,
    max_queries: int = 50000,
    max_inactive_connection_lifetime: float = 300.0,
    connect: Optional[Callable[..., Awaitable[connection.Connection[Any]]]] = None,
    setup: Optional[Callable[[Any], Awaitable[None]]] = None,
    init: Optional[Callable[[Any], Awaitable[None]]] = None,
    reset: Optional[Callable[[Any], Awaitable[None]]] = None,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    connection_class: type[connection.Connection[Any]] = connection.Connection,
    record_class: type[RecordT] = protocol.Record,  # type: ignore[assignment]
    **connect_kwargs: Unpack[PoolOptions],
) -> Pool[RecordT]:
    """Make a pool of connections.

    The pool connects when it is awaited, or entered by `async with`.

    Parameters
    ----------
    dsn : str, optional
        The server to connect to, as a URI.
    init_size : int, optional
        Connections to begin with, from `min_size` to `max_size`; by default `min_size`.
    min_size : int, default 10
        Connections that are kept open when idle, and opened again in the background when lost. With 0 the pool may run
        empty.
    max_size : int, default 10
        Connections at most.
    max_queries : int, default 50000
        Queries after which a connection is replaced.
    max_inactive_connection_lifetime : float, default 300.0
        Seconds after which an idle connection beyond `min_size` is closed; 0 for never.
    connect : coroutine function, optional
        Called in place of :func:`connect`, with the same arguments.
    setup : coroutine function, optional
        Called with the connection whenever one is acquired.
    init : coroutine function, optional
        Called with each new connection.
    reset : coroutine function, optional
        Called with each connection that is returned, in place of the pool's own reset.
    loop : asyncio.AbstractEventLoop, optional
        The loop, by default the current one.
    connection_class : type, optional
        The class of connections, a subclass of :class:`Connection`.
    record_class : type, optional
        The class of rows, a subclass of :class:`Record`.
    max_lifetime : float, default 0.0
        Seconds after which a connection is replaced when it is free, however busy it was; 0 for never.
    max_lifetime_jitter : float, default 0.1
        The part of `max_lifetime`, from 0 to 1, by which connections may be replaced earlier, each by chance, so that
        they are not replaced all at once.
    health_check_interval : float, default 0.0
        Before the pool lends a connection that was idle for longer than this many seconds, it sends an empty query, and
        replaces the connection if it does not answer; 0 for never.
    health_check_timeout : float, default 5.0
        Seconds within which a connection has to answer that query.
    **connect_kwargs
        Arguments for :func:`connect`.

    Returns
    -------
    Pool
        The pool, not yet connected.

    Raises
    ------
    ValueError
        A size or a time makes no sense.
    TypeError
        `connection_class` or `record_class` is not a subclass of `Connection` or `Record`.

    Examples
    --------
    >>> async with howdah.create_pool(user="postgres", command_timeout=60, max_lifetime=3600) as pool:
    ...     async with pool.acquire() as connection:
    ...         await connection.fetchval("select 2 ^ 10")
    """
    return Pool(
        dsn,
        init_size=init_size,
        min_size=min_size,
        max_size=max_size,
        max_queries=max_queries,
        max_inactive_connection_lifetime=max_inactive_connection_lifetime,
        connect=connect,
        setup=setup,
        init=init,
        reset=reset,
        loop=loop,
        connection_class=connection_class,
        record_class=record_class,
        **connect_kwargs,
    )
