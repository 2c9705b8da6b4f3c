"""OpenTelemetry: a span and a measurement for each query, and the sizes of pools, by the conventions for databases.

Nothing is replaced: the instrumentation is a query logger of the connection or the pool. It needs the package
`opentelemetry-api`; where spans and measurements go is the business of the program's SDK.

Examples
--------
>>> pool = await howdah.create_pool("postgres://localhost/app")
>>> howdah.opentelemetry.instrument(pool)
"""

from __future__ import annotations

import functools
import re
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Optional, Union

try:
    from opentelemetry import metrics, trace
except ImportError as error:
    raise ImportError("howdah.opentelemetry needs the package opentelemetry-api") from error

from . import connection, dbapi, pool
from ._version import __version__
from .listeners import LoggedQuery

__all__ = ("instrument",)

_SCHEMA = "https://opentelemetry.io/schemas/1.33.0"
# The boundaries that the conventions ask for, in seconds.
_BOUNDARIES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)

# The parts of a query: what may hold values, comments, what may be a name.
_PART = re.compile(
    r"""
      (?P<value> [eE]'(?:[^'\\]|\\.|'')*(?:'|\Z) | (?:[uU]&|[bBxXnN])?'(?:[^']|'')*(?:'|\Z)
               | (?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|\Z) | (?<![\w$.])\.?\d[\w.]* )
    | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<name> (?:"(?:[^"]|"")*"|[^\W\d][\w$]*)(?:\s*\.\s*(?:"(?:[^"]|"")*"|[^\W\d][\w$]*))* )
    | \$\d+ | [()]
    """,
    re.VERBOSE | re.DOTALL,
)
# The words that a table's name follows.
_BEFORE_TABLES = frozenset(("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "COPY", "CALL"))
_BETWEEN = frozenset(("ONLY", "IF", "NOT", "EXISTS", "LATERAL", "SELECT"))

Instrumented = Union[connection.Connection[Any], pool.Pool[Any], dbapi.Connection[Any], dbapi.Pool[Any]]


def instrument(
    target: Instrumented,
    *,
    tracer_provider: Optional[trace.TracerProvider] = None,
    meter_provider: Optional[metrics.MeterProvider] = None,
    query_text: bool = True,
    pool_name: Optional[str] = None,
) -> None:
    """Have a span and a measurement made for each query of a connection or of a pool's connections.

    A span is called by the query's command and tables (`SELECT flights`), is a child of the span that is current where
    the query is asked, and has `db.system.name`, `db.namespace`, `db.query.text`, `db.query.summary`, `server.address`
    and `server.port`; after an error also `error.type` and `db.response.status_code`, the SQLSTATE. The histogram
    `db.client.operation.duration` has the same attributes without the text. For a pool there are
    `db.client.connection.count`, `.max`, `.idle.min` and `.pending_requests` too.

    Parameters
    ----------
    target : Connection, Pool, dbapi.Connection or dbapi.Pool
        The connection or pool to instrument. A connection that a pool lends stays instrumented until it is closed.
    tracer_provider, meter_provider : optional
        OpenTelemetry's; the global ones by default.
    query_text : bool, default True
        Whether spans have the query's text. In a query without parameters, strings and numbers become `?`; values of
        parameters are never recorded.
    pool_name : str, optional
        The name of the pool in its metrics; address and database by default.

    Raises
    ------
    TypeError
        `target` is none of these.

    Examples
    --------
    >>> async with howdah.create_pool("postgres://localhost/app") as pool:
    ...     howdah.opentelemetry.instrument(pool)
    ...     await pool.fetch("select * from flights")
    """
    tracer = trace.get_tracer("howdah", __version__, tracer_provider, schema_url=_SCHEMA)
    meter = metrics.get_meter("howdah", __version__, meter_provider, schema_url=_SCHEMA)
    watcher = _Watcher(tracer, meter, query_text)
    if isinstance(target, (connection.Connection, pool.Pool)):
        target.add_query_logger(watcher, at_once=True)
    elif isinstance(target, (dbapi.Connection, dbapi.Pool)):
        target.add_query_logger(watcher)
    else:
        raise TypeError(f"a connection or a pool is expected, got {target!r}")
    if isinstance(target, (pool.Pool, dbapi.Pool)):
        _PoolGauges(target, watcher, pool_name).register(meter)


class _Watcher:
    """Makes a span and a measurement of what a query logger is told."""

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter, query_text: bool) -> None:
        self._tracer = tracer
        self._query_text = query_text
        self._duration = meter.create_histogram(
            "db.client.operation.duration",
            unit="s",
            description="Duration of database client operations.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        #: The attributes of the server that was asked last; a pool has one.
        self.server: Optional[dict[str, Any]] = None

    def __call__(self, record: LoggedQuery) -> None:
        end = time.time_ns()
        text, summary = _described(record.query, bool(record.args))
        self.server = server = _server(record.conn_addr, record.conn_params.database)
        attributes = {**server, "db.query.summary": summary}
        failure = record.exception
        if failure is not None:
            sqlstate = getattr(failure, "sqlstate", None)
            attributes["error.type"] = sqlstate or type(failure).__qualname__
            if sqlstate:
                attributes["db.response.status_code"] = sqlstate
        self._duration.record(record.elapsed, attributes)
        if self._query_text:
            attributes["db.query.text"] = text
        span = self._tracer.start_span(
            summary,
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            start_time=end - int(record.elapsed * 1e9),
        )
        if failure is not None:
            span.set_status(trace.Status(trace.StatusCode.ERROR, str(failure)))
        span.end(end)


class _PoolGauges:
    """The sizes of a pool, read when they are asked for; a pool that is closed has none."""

    def __init__(self, watched: Union[pool.Pool[Any], dbapi.Pool[Any]], watcher: _Watcher, name: Optional[str]) -> None:
        self._pool = weakref.ref(watched)
        self._watcher = watcher
        self._name = name

    def register(self, meter: metrics.Meter) -> None:
        """Make the instruments."""
        prefix = "db.client.connection"
        make = meter.create_observable_up_down_counter
        make(f"{prefix}.count", [self._count], "{connection}", "Connections that are open, by their state.")
        make(f"{prefix}.max", [self._one("max_size")], "{connection}", "How many connections there may be.")
        make(f"{prefix}.idle.min", [self._one("min_size")], "{connection}", "How many connections are kept open.")
        make(f"{prefix}.pending_requests", [self._one("waiting")], "{request}", "Who waits for a connection.")

    def _numbers(self) -> tuple[dict[str, int], dict[str, str]]:
        watched = self._pool()
        if watched is None or watched._closed:
            return {}, {}
        name = self._name
        if name is None:
            server = self._watcher.server
            if server is None:
                # Nothing was asked yet, so there is no name.
                return {}, {}
            port = f":{server['server.port']}" if "server.port" in server else ""
            name = f"{server['server.address']}{port}/{server['db.namespace']}"
        return watched._sizes(), {"db.client.connection.pool.name": name}

    def _count(self, options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        sizes, attributes = self._numbers()
        for state in ("idle", "used"):
            if state in sizes:
                yield metrics.Observation(sizes[state], {**attributes, "db.client.connection.state": state})

    def _one(self, what: str) -> Any:
        def observe(options: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            sizes, attributes = self._numbers()
            return [metrics.Observation(sizes[what], attributes)] if what in sizes else []

        return observe


@functools.lru_cache(maxsize=1024)
def _server(address: Any, database: str) -> dict[str, Any]:
    found = {"db.system.name": "postgresql", "db.namespace": database}
    if isinstance(address, str):
        return {**found, "server.address": address}
    return {**found, "server.address": address[0], "server.port": address[1]}


@functools.lru_cache(maxsize=1024)
def _described(query: str, parameterized: bool) -> tuple[str, str]:
    """What may be told of a query's text, and its summary: the command, and the tables it names."""
    reader = _Reader()
    sanitized = _PART.sub(reader.read, query).strip()
    summary = " ".join([reader.command, *reader.tables])[:255] or "postgresql"
    return (query if parameterized else sanitized), summary


class _Reader:
    """Reads a query part by part."""

    def __init__(self) -> None:
        self.command = ""
        self.tables: list[str] = []
        self._before = ""
        # Of each parenthesis that is open, whether there was a SELECT in it: else a FROM is a function's own.
        self._selects = [False]

    def read(self, part: re.Match[str]) -> str:
        """Take a part, and give what may be told of it."""
        name = part["name"]
        if part["comment"] is not None:
            return " "
        if name is not None:
            self._take(name, part.string[part.end() : part.end() + 1] == "(")
        elif part[0] == "(":
            self._selects.append(False)
        elif part[0] == ")" and len(self._selects) > 1:
            self._selects.pop()
        else:
            self._before = ""
        return part[0] if part["value"] is None else "?"

    def _take(self, name: str, called: bool) -> None:
        word, before = name.upper(), self._before
        self._before = word
        if not self.command:
            self.command = word
        elif before in _BEFORE_TABLES and word not in _BETWEEN:
            if not (called and before in ("FROM", "JOIN")) and name not in self.tables:
                self.tables.append(name)
            self._before = ""
        if word in ("SELECT", "DELETE"):
            self._selects[-1] = True
        elif (word == "FROM" and (not self._selects[-1] or before == "DISTINCT")) or (
            word == "UPDATE" and before in ("FOR", "DO", "KEY", "ON")
        ):
            self._before = ""
        elif word in _BETWEEN and before in _BEFORE_TABLES:
            self._before = before
