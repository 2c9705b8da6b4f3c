"""SQLAlchemy's dialects.

`postgresql+howdah` is synchronous, over :mod:`howdah.dbapi`; `postgresql+howdah_async` is over asyncpg's interface.
Both are what SQLAlchemy has for asyncpg (placeholders `$1`, values cast to the types of their columns), on this driver.
Where the package is installed SQLAlchemy finds them by their entry points; importing this module registers them too.
"""

from __future__ import annotations

import datetime
import inspect
import json
import types
import urllib.parse
from typing import Any, Optional

import sqlalchemy
from sqlalchemy import util
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi, AsyncpgDate, PGDialect_asyncpg
from sqlalchemy.dialects.postgresql.base import PGExecutionContext

import howdah
from howdah import dbapi
from howdah.dbapi.errors import class_of

_ISOLATION = {
    "READ UNCOMMITTED": "read_uncommitted",
    "READ COMMITTED": "read_committed",
    "REPEATABLE READ": "repeatable_read",
    "SERIALIZABLE": "serializable",
}
# What SQLAlchemy's dialect takes from the options for itself.
_DIALECTS_OWN = frozenset(
    ("async_fallback", "async_creator_fn", "prepared_statement_cache_size", "prepared_statement_name_func")
)
# The options of a URL that are not text.
_NUMBERS = {"statement_cache_size": int, "timeout": float, "command_timeout": float}


# What a URL may say of the driver; the rest is libpq's, or a setting of the server.
_OPTIONS = frozenset(inspect.signature(howdah.connect).parameters)


def _with_libpq_options(options: dict[str, Any]) -> dict[str, Any]:
    """Give what is not the driver's own (`sslmode`, `application_name`, ...) to it in the form of a URI."""
    others = {name: options.pop(name) for name in list(options) if name not in _OPTIONS | _DIALECTS_OWN}
    if others:
        options["dsn"] = f"postgresql://?{urllib.parse.urlencode(others, quote_via=urllib.parse.quote)}"
    return options


class _ExecutionContext(PGExecutionContext):
    """A statement's execution."""

    def create_server_side_cursor(self) -> Any:
        """Make a cursor whose rows come piece by piece."""
        return self._dbapi_connection.cursor(stream=True)


class _Module(types.ModuleType):
    """:mod:`howdah.dbapi`, with what the types of asyncpg's dialect look for."""

    asyncpg = howdah
    # With these a percent sign is never doubled.
    paramstyle = "numeric_dollar"

    def __getattr__(self, name: str) -> Any:
        return getattr(dbapi, name)


class HowdahDialect(PGDialect_asyncpg):
    """`postgresql+howdah`: synchronous, on :mod:`howdah.dbapi`.

    Examples
    --------
    >>> engine = sqlalchemy.create_engine("postgresql+howdah://app@localhost/app")
    """

    driver = "howdah"
    is_async = False
    supports_statement_cache = True
    supports_sane_multi_rowcount = True
    execution_ctx_cls = _ExecutionContext  # type: ignore[assignment]

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the module that PEP 249 asks for."""
        return _Module("howdah.dbapi")

    @classmethod
    def get_async_dialect_cls(cls, url: Any) -> Any:
        """Return the dialect for `create_async_engine`."""
        return HowdahAsyncDialect

    def retrieve_dbapi_version(self, dbapi: Any) -> Any:
        """Return the driver's version."""
        return util.parse_version_string(howdah.__version__)

    def create_connect_args(self, url: Any) -> Any:
        """Turn a URL into the arguments of :func:`howdah.dbapi.connect`."""
        arguments, options = super().create_connect_args(url)  # type: ignore[no-untyped-call]
        if "prepared_statement_cache_size" in options:
            options["statement_cache_size"] = options.pop("prepared_statement_cache_size")
        for name, kind in _NUMBERS.items():
            util.coerce_kw_type(options, name, kind)
        return arguments, _with_libpq_options(options)

    def on_connect(self) -> Any:
        """Return what is done with a new connection."""
        # SQLAlchemy writes JSON itself, and expects it read.
        decoders = dict.fromkeys(("json", "jsonb"), self._json_deserializer or json.loads)
        if self._native_inet_types is False:
            decoders |= {"inet": str, "cidr": str}

        def connect(connection: Any) -> None:
            for name, decoder in decoders.items():
                connection.wait(
                    connection.asynchronous.set_type_codec(
                        name, encoder=str, decoder=decoder, schema="pg_catalog", format="text"
                    )
                )

        return connect

    def do_commit_twophase(self, connection: Any, xid: Any, is_prepared: bool = True, recover: bool = False) -> None:
        """Commit a transaction that was begun as one of two phases."""
        if is_prepared:
            self._end_prepared(connection, "COMMIT", xid, recover)
        else:
            self.do_commit(connection.connection)  # type: ignore[no-untyped-call]

    def do_rollback_twophase(self, connection: Any, xid: Any, is_prepared: bool = True, recover: bool = False) -> None:
        """Roll back a transaction that was begun as one of two phases."""
        if is_prepared:
            self._end_prepared(connection, "ROLLBACK", xid, recover)
        else:
            self.do_rollback(connection.connection)  # type: ignore[no-untyped-call]

    def _end_prepared(self, connection: Any, verb: str, xid: Any, recover: bool) -> None:
        """End a prepared transaction, for which PostgreSQL wants no other to be open."""
        raw = connection.connection.dbapi_connection
        if recover:
            raw.rollback()
        before, raw.autocommit = raw.autocommit, True
        try:
            command = sqlalchemy.text(f"{verb} PREPARED :xid")
            connection.execute(command.bindparams(sqlalchemy.bindparam("xid", xid, literal_execute=True)))
        finally:
            raw.autocommit = before

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Optional[Any] = None) -> None:
        """Execute a statement."""
        # Without values a percent sign stands for itself; in SQL that did not come by way of SQLAlchemy's compiler it
        # is doubled, as psycopg wants it.
        if not parameters and context is not None and context.compiled is None:
            statement = statement.replace("%%", "%")
        cursor.execute(statement, parameters or None)

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Ask the server whether it is there."""
        dbapi_connection.ping()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Tell whether an error means that the connection is gone."""
        if connection is not None:
            return bool(connection.closed)
        return isinstance(e, dbapi.Error) and (getattr(e, "sqlstate", None) or "")[:2] == "08"

    def get_isolation_level_values(self, dbapi_connection: Any) -> Any:
        """Return the names of the isolation levels."""
        return ["AUTOCOMMIT", *_ISOLATION]

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """Set the isolation level of a connection."""
        dbapi_connection.rollback()
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        dbapi_connection.isolation_level = _ISOLATION.get(level)

    def get_driver_connection(self, connection: Any) -> Any:
        """Return the driver's connection."""
        return connection


class _AsyncModule(AsyncAdapt_asyncpg_dbapi):
    """What SQLAlchemy makes a module of PEP 249 of asyncpg's interface with."""

    @util.memoized_property
    def _asyncpg_error_translate(self) -> dict[type, type]:
        """PEP 249's class for each of the driver's, by those that :mod:`howdah.dbapi` has; the more special first."""
        ours = [kind for kind in vars(howdah.exceptions).values() if isinstance(kind, type)]
        found = {}
        for kind in ours:
            if issubclass(kind, Exception):
                name = kind.__name__ if hasattr(self, kind.__name__) else getattr(class_of(kind), "__name__", None)
                if name is not None:
                    found[kind] = getattr(self, name)
        return found


class _Date(AsyncpgDate):
    """A date, which SQLAlchemy's type takes from a `datetime` too."""

    def bind_processor(self, dialect: Any) -> Any:
        """Return what makes a value the driver's."""
        return lambda value: value.date() if isinstance(value, datetime.datetime) else value


class _Connection(howdah.Connection[Any]):
    """A connection to which `:name` is no parameter: SQLAlchemy has put numbers in place of those that are."""

    async def prepare(self, query: str, **options: Any) -> Any:
        return await self._prepare(query, by_name=False, **options)


class HowdahAsyncDialect(PGDialect_asyncpg):
    """`postgresql+howdah_async`: for `create_async_engine`.

    Examples
    --------
    >>> engine = sqlalchemy.ext.asyncio.create_async_engine("postgresql+howdah_async://app@localhost/app")
    """

    driver = "howdah_async"
    supports_statement_cache = True
    colspecs = util.update_copy(PGDialect_asyncpg.colspecs, {sqlalchemy.Date: _Date})

    def create_connect_args(self, url: Any) -> Any:
        """Turn a URL into the arguments of :func:`howdah.connect`."""
        arguments, options = super().create_connect_args(url)  # type: ignore[no-untyped-call]
        options.setdefault("connection_class", _Connection)
        return arguments, _with_libpq_options(options)

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return what stands for a module of PEP 249."""
        return _AsyncModule(howdah)  # type: ignore[no-untyped-call]


registry.register("postgresql.howdah", __name__, "HowdahDialect")
registry.register("postgresql.howdah_async", __name__, "HowdahAsyncDialect")

__all__ = ("HowdahAsyncDialect", "HowdahDialect")
