"""Spans and measurements of queries, as OpenTelemetry's SDK gets them."""

import asyncio
import os
import subprocess
import sys

import howdah
import howdah.dbapi
import pytest
from howdah.opentelemetry import _described, instrument
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Collected:
    """An SDK that keeps what it is told."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self.reader])

    def watch(self, target, **options):
        """Instrument a target."""
        instrument(target, tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def spans(self):
        """The spans since it was last asked."""
        found = self.exporter.get_finished_spans()
        self.exporter.clear()
        return found

    def texts(self):
        """The texts of those."""
        return [span.attributes["db.query.text"] for span in self.spans()]

    def points(self, name):
        """The points of a metric, each its attributes and the point."""
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes), point)
            for resource in (data.resource_metrics if data is not None else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def collected():
    return Collected()


async def test_a_query_is_a_span_by_the_conventions_and_a_child_of_the_current_one(spec, collected):
    connection = await howdah.connect(**spec)
    await connection.execute("create temp table flights (id int, origin text)")
    collected.watch(connection)
    with collected.tracers.get_tracer("test").start_as_current_span("request") as request:
        await connection.fetch("select id from flights where origin = $1", "ZRH")
    span, parent = collected.spans()
    assert span.name == "SELECT flights"
    assert span.kind is trace.SpanKind.CLIENT
    assert span.parent.span_id == request.get_span_context().span_id
    assert parent.start_time <= span.start_time < span.end_time <= parent.end_time
    server = {
        "db.system.name": "postgresql",
        "db.namespace": "postgres",
        "server.address": "127.0.0.1",
        "server.port": spec["port"],
    }
    text = "select id from flights where origin = $1"
    assert dict(span.attributes) == {**server, "db.query.text": text, "db.query.summary": "SELECT flights"}
    ((attributes, point),) = collected.points("db.client.operation.duration")
    assert attributes == {**server, "db.query.summary": "SELECT flights"}
    assert point.count == 1
    assert abs(point.sum - (span.end_time - span.start_time) / 1e9) < 1e-6
    assert point.explicit_bounds == (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)
    await connection.close()


async def test_a_failure_has_its_sqlstate(spec, collected):
    connection = await howdah.connect(**spec)
    collected.watch(connection)
    with pytest.raises(howdah.DivisionByZeroError):
        await connection.fetchval("select 1 / 0")
    with pytest.raises(asyncio.TimeoutError):
        await connection.execute("select pg_sleep(10)", timeout=0.05)
    failed, late = collected.spans()
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.attributes["error.type"] == failed.attributes["db.response.status_code"] == "22012"
    assert failed.attributes["db.query.text"] == "select ? / ?"
    assert late.attributes["error.type"] == "TimeoutError"
    assert "db.response.status_code" not in late.attributes
    ((attributes, _), _) = collected.points("db.client.operation.duration")
    assert attributes["error.type"] == "22012"
    await connection.close()


async def test_everything_that_a_program_asks_is_told(spec, collected):
    connection = await howdah.connect(**spec)
    collected.watch(connection)
    await connection.execute("create temp table flights (id int)")
    await connection.executemany("insert into flights values ($1)", [(1,), (2,)])
    await connection.copy_records_to_table("flights", records=[(3,)])
    await connection.copy_to_table("flights", source=b"4\n")
    await connection.fetch_columns("select id from flights")
    statement = await connection.prepare("select id from flights where id = $1")
    await statement.fetchval(1)
    async with connection.transaction():
        assert len([row async for row in connection.cursor("table flights")]) == 4
    assert collected.texts() == [
        "create temp table flights (id int)",
        "insert into flights values ($1)",
        'COPY "flights" FROM STDIN (FORMAT binary)',
        'COPY "flights" FROM STDIN',
        "select id from flights",
        "select id from flights where id = $1",
        "BEGIN;",
        "table flights",
        "COMMIT;",
    ]
    await connection.close()


async def test_a_pool_tells_of_its_connections(spec, collected):
    async with howdah.create_pool(**spec, min_size=1, max_size=3) as pool:
        collected.watch(pool)
        assert collected.points("db.client.connection.count") == []
        await pool.fetchval("select 1")
        async with pool.acquire(), pool.acquire() as second:
            await second.execute("select 2")
            name = {"db.client.connection.pool.name": f"127.0.0.1:{spec['port']}/postgres"}
            counts = {
                attributes.pop("db.client.connection.state"): (attributes, point.value)
                for attributes, point in collected.points("db.client.connection.count")
            }
            assert counts == {"idle": (name, 0), "used": (name, 2)}
            for metric, value in (("max", 3), ("idle.min", 1), ("pending_requests", 0)):
                ((attributes, point),) = collected.points(f"db.client.connection.{metric}")
                assert (attributes, point.value) == (name, value)
        assert [span.attributes["db.query.text"] for span in collected.spans()] == ["select ?", "select ?"]
    assert collected.points("db.client.connection.max") == []


def test_the_synchronous_interface_tells_the_same(spec, collected):
    with howdah.dbapi.Pool(**spec, max_size=2) as pool:
        collected.watch(pool, pool_name="app")
        with pool.connection() as connection, collected.tracers.get_tracer("test").start_as_current_span("request"):
            connection.execute("create temp table flights (id int)")
            cursor = connection.cursor()
            cursor.executemany("insert into flights values (%s)", [(1,), (2,)])
            assert cursor.execute("select id from flights where id = %s", (1,)).fetchall() == [(1,)]
            assert len(connection.cursor(stream=True).execute("table flights").fetchall()) == 2
            cursor.copy_in("copy flights from stdin", b"3\n")
            with pytest.raises(howdah.dbapi.DataError):
                cursor.execute("select 1 / 0")
            connection.rollback()
            points = collected.points("db.client.connection.count")
        spans = collected.spans()
    assert sorted(point.value for _, point in points) == [0, 1]
    assert points[0][0]["db.client.connection.pool.name"] == "app"
    request = spans[-1]
    assert request.name == "request"
    assert all(span.parent.span_id == request.context.span_id for span in spans[:-1])
    assert [span.name for span in spans[:-1]] == [
        "CREATE flights",
        "INSERT flights",
        "SELECT flights",
        "TABLE flights",
        "TABLE flights",
        "COPY flights",
        "SELECT",
        "ROLLBACK",
    ]
    assert spans[-3].attributes["error.type"] == "22012"


async def test_texts_can_be_left_out_and_a_failing_sdk_fails_no_query(spec, collected):
    connection = await howdah.connect(**spec)
    collected.watch(connection, query_text=False)
    await connection.execute("select 'secret'")
    (span,) = collected.spans()
    assert "db.query.text" not in span.attributes
    connection.add_query_logger(lambda record: 1 / 0, at_once=True)
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    assert await connection.fetchval("select 1") == 1
    assert isinstance(complaints[0], ZeroDivisionError)
    with pytest.raises(TypeError, match="a connection or a pool"):
        instrument("postgres://localhost")
    await connection.close()


@pytest.mark.parametrize(
    ("query", "text", "summary"),
    [
        ("select * from a.b where n = 'it''s' -- c", "select * from a.b where n = ?", "SELECT a.b"),
        ("insert into f (a) values (1.5, e'\\'z')", "insert into f (a) values (?, ?)", "INSERT f"),
        ("select extract(epoch from at), a is distinct from b from t", None, "SELECT t"),
        ("select * from f(1) join (select 1 from x) y on true for update", None, "SELECT x"),
        ("create table if not exists t (id int)", None, "CREATE t"),
        ("insert into t values ($$a$$) on conflict do update set x = 2", None, "INSERT t"),
        ("select 'open", "select ?", "SELECT"),
        ("/* hint */ select $1", "select $1", "SELECT"),
        ("", "", "postgresql"),
    ],
)
def test_texts_have_no_values_and_summaries_have_tables(query, text, summary):
    found, short = _described(query, False)
    assert short == summary
    assert text is None or found == text
    assert _described(query, True) == (query, summary)


def test_without_the_package_it_says_what_it_needs():
    program = "import sys; sys.modules['opentelemetry'] = None; import howdah.opentelemetry"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "howdah.opentelemetry needs the package opentelemetry-api" in done.stderr
