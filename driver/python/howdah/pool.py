"""Connections that are opened once and lent many times."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import connection, exceptions, pool_maintenance, pool_queries, pool_statistics
from ._typing import ConnectOptions, RecordT
from .fetching import Fetching, name_methods
from .pool_acquire import PoolAcquireContext as PoolAcquireContext
from .pool_checks import check_classes, check_limits, check_sizes
from .pool_holder import PoolConnectionHolder as PoolConnectionHolder
from .pool_holder import _HolderQueue
from .pool_proxy import PoolConnectionProxy as PoolConnectionProxy
from .pool_proxy import PoolConnectionProxyMeta as PoolConnectionProxyMeta
from .pool_statistics import Counts
from .pool_statistics import PoolStatistics as PoolStatistics

if TYPE_CHECKING:
    from typing_extensions import Unpack


logger = logging.getLogger(__name__)


class Pool(Fetching[RecordT]):
    """A pool of connections, made by :func:`create_pool`.

    A connection is lent by :meth:`acquire` and comes back, as good as new, by :meth:`release` or at the end of the
    block. The methods that run one operation (:meth:`fetch`, :meth:`execute` and so on) lend themselves one for it.

    Places are given out first come, first served. A connection that comes back is reset only if something in its
    session may have changed; the server's answer to that is not waited for, what comes next is sent behind it.

    Examples
    --------
    >>> async with howdah.create_pool("postgres://localhost/app") as pool:
    ...     await pool.fetchval("select count(*) from flights")
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_closing",
        "_connect",
        "_connect_args",
        "_connect_kwargs",
        "_connection_class",
        "_counts",
        "_direct",
        "_generation",
        "_health_check_interval",
        "_health_check_timeout",
        "_holders",
        "_idle_limit",
        "_init",
        "_initialized",
        "_initializing",
        "_initsize",
        "_loop",
        "_maintenance_task",
        "_max_inactive_connection_lifetime",
        "_max_lifetime",
        "_max_lifetime_jitter",
        "_max_queries",
        "_maxsize",
        "_minsize",
        "_query_loggers",
        "_queue",
        "_record_class",
        "_reset",
        "_resets_itself",
        "_setup",
        "_tasks",
        "_watches_age",
    )

    def __init__(
        self,
        *connect_args: Any,
        init_size: Optional[int] = None,
        min_size: int,
        max_size: int,
        max_queries: int,
        max_inactive_connection_lifetime: float,
        connect: Optional[Callable[..., Awaitable[connection.Connection[Any]]]] = None,
        setup: Optional[Callable[[Any], Awaitable[None]]] = None,
        init: Optional[Callable[[Any], Awaitable[None]]] = None,
        reset: Optional[Callable[[Any], Awaitable[None]]] = None,
        loop: Optional[asyncio.AbstractEventLoop],
        connection_class: type[connection.Connection[Any]],
        record_class: type[RecordT],
        max_lifetime: float = 0.0,
        max_lifetime_jitter: float = 0.1,
        health_check_interval: float = 0.0,
        health_check_timeout: float = 5.0,
        **connect_kwargs: Any,
    ) -> None:
        if len(connect_args) > 1:
            warnings.warn(
                "Passing multiple positional arguments to Pool is deprecated; it takes a DSN and keyword arguments",
                DeprecationWarning,
                stacklevel=2,
            )
        if init_size is None:
            init_size = min_size
        check_sizes(init_size, min_size, max_size)
        check_limits(
            max_queries,
            max_lifetime_jitter,
            health_check_timeout,
            max_inactive_connection_lifetime=max_inactive_connection_lifetime,
            max_lifetime=max_lifetime,
            health_check_interval=health_check_interval,
        )
        check_classes(connection_class, record_class)
        self._loop = asyncio.get_event_loop() if loop is None else loop
        self._initsize = init_size
        self._minsize = min_size
        self._maxsize = max_size
        self._begin_unopened()
        self._connect: Callable[..., Awaitable[Any]] = connection.connect if connect is None else connect
        self._connect_args: Sequence[Any] = connect_args
        self._connect_kwargs: Mapping[str, Any] = connect_kwargs
        self._connection_class = connection_class
        self._record_class = record_class
        self._setup = setup
        self._init = init
        self._reset = reset
        self._max_queries = max_queries
        self._max_inactive_connection_lifetime = max_inactive_connection_lifetime
        self._max_lifetime = max_lifetime
        self._max_lifetime_jitter = max_lifetime_jitter
        self._health_check_interval = health_check_interval
        self._health_check_timeout = health_check_timeout
        # How long an idle connection may be left alone.
        self._idle_limit = min(
            (limit for limit in (max_inactive_connection_lifetime, max_lifetime) if limit), default=0.0
        )
        self._watches_age = bool(max_lifetime or health_check_interval)
        # Whoever overrides how connections are lent or reset wants to be called.
        kind = type(self)
        self._direct = setup is None and kind.acquire is Pool.acquire and kind.release is Pool.release
        self._resets_itself = (
            connection_class.reset is connection.Connection.reset
            and connection_class._reset is connection.Connection._reset
        )

    def _begin_unopened(self) -> None:
        """Set what changes in a pool's life to how it begins."""
        self._holders: list[PoolConnectionHolder] = []
        # Made when the pool begins, as are the holders.
        self._queue: Any = None
        self._initialized = False
        self._initializing = False
        self._closing = False
        self._closed = False
        self._generation = 0
        self._maintenance_task: Optional[asyncio.Task[None]] = None
        # Connections that are being closed in the background.
        self._tasks: set[asyncio.Task[None]] = set()
        self._counts = Counts()
        self._query_loggers: dict[Callable[..., Any], bool] = {}

    async def _async__init__(self) -> Pool[RecordT]:
        if self._initialized:
            return self
        if self._initializing:
            raise exceptions.InterfaceError("pool is being initialized in another task")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")
        self._initializing = True
        try:
            await self._initialize()
            return self
        except (Exception, asyncio.CancelledError):
            # Those that did connect must not be left behind.
            self._closed = True
            for holder in self._holders:
                holder.terminate()
            raise
        finally:
            self._initializing = False
            self._initialized = True
            self._schedule_min_size_maintenance()

    async def _initialize(self) -> None:
        self._queue = _HolderQueue(self._loop)
        for _ in range(self._maxsize):
            holder = PoolConnectionHolder(self)
            self._holders.append(holder)
            self._queue.put_nowait(holder)
        # The last ones are taken first, so these are the ones to connect: one alone, so that a wrong password is tried
        # once, and then the others together.
        first = self._holders[self._maxsize - self._initsize :][::-1]
        if first:
            await first[0].connect()
        if first[1:]:
            await asyncio.gather(*(holder.connect() for holder in first[1:]))

    def _schedule_min_size_maintenance(self) -> None:
        if (
            self._minsize
            and self._initialized
            and not self._initializing
            and not self.is_closing()
            and self._maintenance_task is None
            and self.get_size() < self._minsize
        ):
            self._maintenance_task = self._loop.create_task(pool_maintenance.keep_min_size(self))

    def is_closing(self) -> bool:
        """Whether the pool is closing or closed.

        Returns
        -------
        bool
            True from the first moment of :meth:`close` or :meth:`terminate` on.
        """
        return self._closed or self._closing

    def get_size(self) -> int:
        """How many connections are open.

        Returns
        -------
        int
            Connections, lent or free.
        """
        return sum(holder.is_connected() for holder in self._holders)

    def get_init_size(self) -> int:
        """How many connections the pool begins with.

        Returns
        -------
        int
            Connections.
        """
        return self._initsize

    def get_min_size(self) -> int:
        """How many connections the pool keeps open.

        Returns
        -------
        int
            Connections.
        """
        return self._minsize

    def get_max_size(self) -> int:
        """How many connections the pool opens at most.

        Returns
        -------
        int
            Connections.
        """
        return self._maxsize

    def get_idle_size(self) -> int:
        """How many connections are open and free.

        Returns
        -------
        int
            Connections.
        """
        return sum(holder.is_connected() and holder.is_idle() for holder in self._holders)

    get_statistics = pool_statistics.get_statistics
    _sizes = pool_statistics.sizes

    # What runs on one of the connections.

    if not TYPE_CHECKING:
        # Their types are those of the declarations.
        fetch = pool_queries.fetch
        fetchmany = pool_queries.fetchmany
        fetchrow = pool_queries.fetchrow
    add_query_logger = pool_queries.add_query_logger
    copy_columns_to_table = pool_queries.copy_columns_to_table
    copy_from_query = pool_queries.copy_from_query
    copy_from_table = pool_queries.copy_from_table
    copy_records_to_table = pool_queries.copy_records_to_table
    copy_to_table = pool_queries.copy_to_table
    execute = pool_queries.execute
    executemany = pool_queries.executemany
    explain = pool_queries.explain
    fetch_columns = pool_queries.fetch_columns
    fetchval = pool_queries.fetchval
    predict = pool_queries.predict
    predict_proba = pool_queries.predict_proba
    remove_query_logger = pool_queries.remove_query_logger
    run_transaction = pool_queries.run_transaction

    def set_connect_args(self, dsn: Optional[str] = None, **connect_kwargs: Unpack[ConnectOptions]) -> None:
        """Change how the pool connects from now on; connections that are open stay as they are.

        Parameters
        ----------
        dsn : str, optional
            The server to connect to, as a URI.
        **connect_kwargs
            Arguments for :func:`connect`.
        """
        self._connect_args = [dsn]
        self._connect_kwargs = connect_kwargs

    async def _get_new_connection(self) -> connection.Connection[RecordT]:
        con = await self._connect(
            *self._connect_args,
            loop=self._loop,
            connection_class=self._connection_class,
            record_class=self._record_class,
            **self._connect_kwargs,
        )
        wanted = self._connection_class
        if not isinstance(con, wanted):
            raise exceptions.InterfaceError(
                "expected pool connect callback to return an instance of "
                f"'{_full_name(wanted)}', got '{_full_name(type(con))}'"
            )
        for callback, at_once in self._query_loggers.items():
            con.add_query_logger(callback, at_once=at_once)
        if self._init is not None:
            try:
                await self._init(con)
            except (Exception, asyncio.CancelledError):
                try:
                    await con.close()
                finally:
                    raise
        return con

    def _close_later(self, con: connection.Connection[RecordT], timeout: Optional[float]) -> None:
        """Close a connection that is no longer in its place, in the background."""

        async def close() -> None:
            try:
                await con.close(timeout=timeout)
            except (exceptions.InterfaceError, exceptions.PostgresError, OSError, asyncio.TimeoutError):
                con.terminate()

        self._counts.connections_closed += 1
        task = self._loop.create_task(close())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _borrow(self) -> Optional[PoolConnectionHolder]:
        """A place whose connection is free and ready, for one operation; None if that needs waiting."""
        if not self._direct or not self._initialized or self._closed or self._closing:
            return None
        holder: Optional[PoolConnectionHolder] = self._queue.take()
        if holder is None:
            return None
        if not holder.is_ready():
            self._queue.put_nowait(holder)
            return None
        self._counts.acquired += 1
        holder._in_use = True
        return holder

    def _bring_back(
        self, holder: PoolConnectionHolder, con: connection.Connection[RecordT]
    ) -> Optional[Awaitable[None]]:
        """Give back what :meth:`_borrow` lent; what is returned has to be awaited."""
        if holder._con is not con:
            # It was closed meanwhile, and the place is free again.
            return None
        con._pool_release_ctr += 1
        if holder.release_now():
            return None
        return asyncio.shield(holder.release(None, con))

    def acquire(self, *, timeout: Optional[float] = None) -> PoolAcquireContext[RecordT]:
        """Borrow a connection.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait for one, and then also the limit for giving it back; None waits without end.

        Returns
        -------
        PoolAcquireContext
            For `async with`, at whose end the connection goes back, or `await`, after which :meth:`release` gives it
            back.

        Raises
        ------
        InterfaceError
            The pool is not yet open, or closing.
        asyncio.TimeoutError
            None became free in time.

        Examples
        --------
        >>> async with pool.acquire() as connection:
        ...     async with connection.transaction():
        ...         await connection.execute("insert into visits default values")
        """
        return PoolAcquireContext(self, timeout)

    async def release(self, connection: Any, *, timeout: Optional[float] = None) -> None:
        """Return a connection to the pool.

        A transaction that is still open is rolled back, cursors are closed, and if anything in the session may have
        changed (settings, advisory locks, `LISTEN`) it is reset.

        Parameters
        ----------
        connection : Connection
            The connection that :meth:`acquire` gave. If it was returned already, nothing happens.
        timeout : float, optional
            Seconds; by default what was said to :meth:`acquire`.

        Raises
        ------
        InterfaceError
            It is not from this pool.
        """
        if type(connection) is not PoolConnectionProxy or connection._holder._pool is not self:
            raise exceptions.InterfaceError(
                f"Pool.release() received invalid connection: {connection!r} is not a member of this pool"
            )
        con = connection._con
        if con is None:
            return
        self._check_init()
        con._on_release()
        holder = connection._holder
        if holder.release_now():
            return
        # Who gives it back may be cancelled; the connection has to come back all the same.
        return await asyncio.shield(holder.release(holder._timeout if timeout is None else timeout, con))

    close = pool_maintenance.close

    def terminate(self) -> None:
        """Drop all connections at once, lent ones too."""
        if self._closed:
            return
        self._check_init()
        self._closed = True
        if self._maintenance_task is not None:
            self._maintenance_task.cancel()
        for holder in self._holders:
            holder.terminate()

    async def expire_connections(self) -> None:
        """Replace every connection that is open now, when it is next acquired or released."""
        self._generation += 1

    def _check_init(self) -> None:
        if not self._initialized:
            if self._initializing:
                raise exceptions.InterfaceError(
                    "pool is being initialized, but not yet ready: "
                    "likely there is a race between creating a pool and using it"
                )
            raise exceptions.InterfaceError("pool is not initialized")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")

    def _open_connections(self) -> Iterator[connection.Connection[Any]]:
        return (holder._con for holder in self._holders if holder._con is not None)

    def _drop_statement_cache(self) -> None:
        for con in self._open_connections():
            con._statements.forget()

    def _drop_type_cache(self) -> None:
        for con in self._open_connections():
            con._protocol.get_settings().clear_type_cache()

    def __await__(self) -> Generator[Any, None, Pool[RecordT]]:
        return self._async__init__().__await__()

    async def __aenter__(self) -> Pool[RecordT]:
        await self._async__init__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _full_name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


name_methods(Pool)

# It needs the class, and has this module's name with asyncpg.
from .pool_creating import create_pool as create_pool  # noqa: E402
