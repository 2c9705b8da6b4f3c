"""Results as columns: the same values as `fetch` gives, in Arrow's memory, freed when the last reader goes."""

import datetime
import decimal
import gc
import math
import struct
import sys

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pytest
from howdah import _core, exceptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..examples import examples
from .samples import SAMPLES

EVERY = {
    "bool": "n % 2 = 0",
    "int2": "(n - 3)::int2",
    "int4": "n",
    "int8": "n * 10000000000",
    "oid": "n::oid",
    "float4": "(n / 4.0)::float4",
    "float8": "n / 3.0::float8",
    "text": "repeat('é', n)",
    "varchar": "'x'::varchar",
    "bytea": "decode(repeat('ff', n), 'hex')",
    "json": "json_build_object('n', n)",
    "jsonb": "jsonb_build_object('n', n)",
    "uuid": "('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid",
    "date": "date '1969-12-30' + n",
    "time": "time '01:02:03.000004' + n * interval '1 hour'",
    "timestamp": "timestamp '1969-12-31 23:00:00.000001' + n * interval '1 hour'",
    "timestamptz": "timestamptz '1969-12-31 23:00:00.000001+00' + n * interval '1 hour'",
    "interval": "n * interval '1 day 00:00:00.000001'",
    "decimal": "(n / 8.0)::numeric(20, 6)",
    "list": "array[n, NULL, n + 1]",
    "texts": "array_fill('a'::text, array[n])",
    "times": "array[timestamptz '2020-01-01 00:00+00']",
}


def wire(codecs, rows, oids):
    """The bodies of rows of these values."""
    for row in rows:
        body = b""
        for value, oid in zip(row, oids):
            data = None if value is None else codecs.encode(oid, value)
            body += struct.pack("!i", -1) if data is None else struct.pack("!i", len(data)) + data
        yield body


def query(nulls):
    """A query for a column of each type, a third of the rows NULL if asked."""
    parts = [f"CASE WHEN {nulls} AND n % 3 = 1 THEN NULL ELSE {part} END AS {name}" for name, part in EVERY.items()]
    # A cast around it all, since CASE forgets what its numeric was declared with.
    parts = [
        part.replace("CASE", "(CASE").replace("END", "END)::numeric(20, 6)") if "numeric" in part else part
        for part in parts
    ]
    return f"SELECT {', '.join(parts)} FROM generate_series(0, 40) AS n ORDER BY n"


@pytest.mark.parametrize("nulls", [False, True])
def test_columns_hold_what_fetch_gives(sides, nulls):
    rows = sides.run(sides.ours.fetch(query(nulls)))
    columns = sides.run(sides.ours.fetch_columns(query(nulls), dictionary=["varchar"]))
    assert columns.num_rows == len(columns) == len(rows)
    assert columns.names == tuple(EVERY)
    for name in EVERY:
        assert columns[name].to_pylist() == [row[name] for row in rows], name
        assert columns[name].null_count == sum(row[name] is None for row in rows)


@pytest.mark.parametrize("nulls", [False, True])
def test_arrow_reads_the_same(sides, nulls):
    rows = sides.run(sides.ours.fetch(query(nulls)))
    columns = sides.run(sides.ours.fetch_columns(query(nulls), dictionary=["varchar", "text"]))
    table = pyarrow.table(columns)
    table.validate(full=True)
    assert pyarrow.types.is_dictionary(table.schema.field("varchar").type)
    for name in EVERY:
        assert table.column(name).to_pylist() == [row[name] for row in rows], name
    batch = pyarrow.record_batch(columns)
    batch.validate(full=True)
    assert batch.num_rows == len(rows)
    assert pyarrow.array(columns["int4"]).to_pylist() == [row["int4"] for row in rows]


def test_polars_reads_the_same(sides):
    columns = sides.run(sides.ours.fetch_columns(query(True), dictionary=["varchar"]))
    rows = sides.run(sides.ours.fetch(query(True)))
    frame = polars.DataFrame(columns)
    for name in EVERY.keys() - {"uuid"}:
        assert frame[name].to_list() == [row[name] for row in rows], name


@pytest.mark.parametrize("nulls", [False, True])
def test_what_comes_as_columns_goes_back(sides, nulls):
    rows = sides.run(sides.ours.fetch(query(nulls)))
    columns = sides.run(sides.ours.fetch_columns(query(nulls), dictionary=["varchar"]))
    sides.run(sides.ours.execute(f"DROP TABLE IF EXISTS went; CREATE TEMP TABLE went AS {query(nulls)} LIMIT 0"))
    # The table's is numeric without a precision, that of the columns has one.
    for source in (columns, pyarrow.table(columns), pyarrow.table(columns).slice(0)):
        assert sides.run(sides.ours.copy_columns_to_table("went", source=source)) == f"COPY {len(rows)}"
        back = sides.run(sides.ours.fetch("SELECT * FROM went ORDER BY date NULLS FIRST, int8, text"))
        assert sorted(map(repr, back)) == sorted(map(repr, rows))
        sides.run(sides.ours.execute("TRUNCATE went"))


def test_arrows_own_kinds_are_taken(sides):
    sides.run(
        sides.ours.execute(
            "DROP TABLE IF EXISTS kinds;"
            "CREATE TEMP TABLE kinds (n numeric, m numeric, t time, i interval, v text, w bytea, l text[], o oid)"
        )
    )
    long = "more than twelve bytes"
    table = pyarrow.table(
        {
            "n": pyarrow.array([decimal.Decimal("-12345.678900"), None], pyarrow.decimal128(38, 6)),
            "m": pyarrow.array([2**63 - 1, -1], pyarrow.int64()),
            "t": pyarrow.array([datetime.time(1, 2, 3), None], pyarrow.time32("ms")),
            "i": pyarrow.array([(1, 2, 3000), None], pyarrow.month_day_nano_interval()),
            "v": pyarrow.array([long, "short"], pyarrow.string_view()),
            "w": pyarrow.array([b"x" * 100, None], pyarrow.binary_view()),
            "l": pyarrow.array([["a", None, long], []], pyarrow.large_list(pyarrow.string_view())),
            "o": pyarrow.array([2**32 - 1, 0], pyarrow.uint32()),
        }
    )
    for source in (table, pyarrow.concat_tables([table, table]).slice(2)):
        sides.run(sides.ours.copy_columns_to_table("kinds", source=source))
        first, second = sides.run(
            sides.ours.fetch("SELECT n::text, m, t, i::text, v, w, l, o FROM kinds ORDER BY m DESC")
        )
        assert tuple(first) == (
            "-12345.678900", 2**63 - 1, datetime.time(1, 2, 3), "1 mon 2 days 00:00:00.000003", long, b"x" * 100,
            ["a", None, long], 2**32 - 1,
        )  # fmt: skip
        assert tuple(second) == (None, -1, None, None, "short", None, [], 0)
        sides.run(sides.ours.execute("TRUNCATE kinds"))
    for wrong in ({"o": pyarrow.array([-1])}, {"t": pyarrow.array([-1]).cast(pyarrow.time64("us"))}):
        with pytest.raises(OverflowError):
            sides.run(sides.ours.copy_columns_to_table("kinds", source=pyarrow.table(wrong)))


FRAMES = """
    SELECT n AS id, n / 2.0::float8 AS half, CASE WHEN n % 3 <> 0 THEN 'k' || n % 5 END AS kind, n % 2 = 0 AS even,
        timestamp '2020-01-01' + n * interval '1 hour' AS moment, date '2020-01-01' + n AS day,
        (n * 1.5)::numeric(10, 2) AS price
    FROM generate_series(1, 100) n"""


@pytest.mark.parametrize("dictionary", [(), ("kind",)], ids=["plain", "dictionary"])
def test_frames_are_made_of_columns_and_go_back(sides, dictionary):
    rows = [tuple(row) for row in sides.run(sides.ours.fetch(FRAMES))]
    columns = sides.run(sides.ours.fetch_columns(FRAMES, dictionary=dictionary))
    table = pyarrow.table(columns)
    polar = polars.DataFrame(columns)
    # Before its version 3, pandas takes Arrow's tables only from pyarrow.
    panda = getattr(pandas.DataFrame, "from_arrow", pyarrow.Table.to_pandas)(table)
    duck = duckdb.sql("SELECT * FROM columns")
    assert [tuple(row) for row in polar.rows()] == rows
    assert duck.fetchall() == rows
    assert panda["half"].sum() == sum(row[1] for row in rows)
    assert panda["kind"].isna().sum() == sum(row[2] is None for row in rows)
    assert panda["moment"].tolist() == [row[4] for row in rows]
    duck = duckdb.sql("SELECT * FROM columns")
    sides.run(sides.ours.execute(f"DROP TABLE IF EXISTS framed; CREATE TEMP TABLE framed AS {FRAMES} LIMIT 0"))
    for source in (columns, table, table.to_batches()[0], polar, panda, duck):
        assert sides.run(sides.ours.copy_columns_to_table("framed", source=source)) == "COPY 100", type(source)
        back = sides.run(sides.ours.fetch("SELECT * FROM framed ORDER BY id"))
        assert [tuple(row) for row in back] == rows, type(source)
        sides.run(sides.ours.execute("TRUNCATE framed"))


def test_numpy_sees_numbers_in_place(sides):
    columns = sides.run(sides.ours.fetch_columns(query(True)))
    floats = numpy.asarray(columns["float8"])
    assert floats.dtype == numpy.float64
    assert not floats.flags.writeable
    assert floats.__array_interface__["data"][0] == columns["float8"].__array_interface__["data"][0]
    assert [math.isnan(value) for value in floats[:3]] == [False, True, False]
    assert numpy.isnat(numpy.asarray(columns["timestamp"])[1])
    assert numpy.asarray(columns["int4"]).tolist()[:2] == [0, None]
    whole = sides.run(sides.ours.fetch_columns(query(False)))
    for name, dtype in (("int2", "i2"), ("int4", "i4"), ("int8", "i8"), ("oid", "u4"), ("float4", "f4"), ("bool", "?")):
        assert numpy.asarray(whole[name]).dtype == numpy.dtype(dtype)
    assert numpy.asarray(whole["bool"]).tolist() == whole["bool"].to_pylist()
    kept = numpy.asarray(whole["int8"])
    del whole
    gc.collect()
    assert kept[40] == 40 * 10_000_000_000


def test_infinities_are_the_ends_of_time_for_python_and_refused_by_arrow(sides):
    columns = sides.run(
        sides.ours.fetch_columns("SELECT x::timestamp AS t, x::date AS d FROM unnest('{infinity,-infinity}'::text[]) x")
    )
    with pytest.raises(OverflowError, match="infinite date or timestamp"):
        pyarrow.table(columns)
    rows = sides.run(
        sides.ours.fetch("SELECT x::timestamp AS t, x::date AS d FROM unnest('{infinity,-infinity}'::text[]) x")
    )
    assert columns["t"].to_pylist() == [row["t"] for row in rows]
    assert columns["d"].to_pylist() == [row["d"] for row in rows]


def test_types_without_a_form_are_text(sides):
    sides.execute("DROP TYPE IF EXISTS spot CASCADE; CREATE TYPE spot AS (x int, y text)")
    sql = "SELECT 1.50 AS n, int4range(1, 3) AS r, inet '10.0.0.1/8' AS i, point '(1,2)' AS p, pg_lsn '0/10' AS l, array['1.5'::money] AS m"
    columns = sides.run(sides.ours.fetch_columns(sql))
    assert columns.to_pydict() == {
        "n": ["1.50"],
        "r": ["[1,3)"],
        "i": ["10.0.0.1/8"],
        "p": ["(1,2)"],
        "l": ["0/10"],
        "m": ["{$1.50}"],
    }
    table = pyarrow.table(sides.run(sides.ours.fetch_columns("SELECT row(1, 'a')::spot AS s UNION ALL SELECT NULL")))
    assert table.column("s").to_pylist() == [{"x": 1, "y": "a"}, None]


def test_codecs_of_the_program_are_left_aside(sides):
    sides.run(sides.ours.set_type_codec("int4", schema="pg_catalog", encoder=str, decoder=str, format="text"))
    try:
        columns = sides.run(sides.ours.fetch_columns("SELECT 1 AS a, array[1] AS b"))
        assert columns.to_pydict() == {"a": [1], "b": [[1]]}
    finally:
        sides.run(sides.ours.reset_type_codec("int4", schema="pg_catalog"))


def test_what_has_no_place_in_a_column_is_refused(sides):
    for sql, error in (
        ("SELECT 'NaN'::numeric(10, 2)", ValueError),
        ("SELECT array[array[1]]", exceptions.UnsupportedClientFeatureError),
        ("SELECT interval '178000000 years'", OverflowError),
    ):
        with pytest.raises(error):
            sides.run(sides.ours.fetch_columns(sql))
        assert sides.run(sides.ours.fetchval("SELECT 1")) == 1


def test_an_empty_result_has_its_types(sides):
    columns = sides.run(sides.ours.fetch_columns("SELECT 1 AS a, 'x' AS b WHERE false"))
    table = pyarrow.table(columns)
    assert table.num_rows == 0
    assert [str(field.type) for field in table.schema] == ["int32", "string"]
    assert columns["a"].to_pylist() == []
    with pytest.raises(KeyError):
        columns["c"]
    with pytest.raises(IndexError):
        columns["a"][0]


@settings(max_examples=examples(100), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_values_come_out_as_they_went_in(data):
    codecs = _core.CodecMap()
    known = {name: oid for oid, name in _core.BUILTIN_TYPE_OID_MAP.items()}
    names = [name for name in EVERY if name in known and name not in {"json", "jsonb", "timestamptz", "interval"}]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4))
    values = {sample.name: sample.values for sample in SAMPLES}
    rows = data.draw(st.lists(st.tuples(*[st.one_of(st.none(), values[name]) for name in chosen]), max_size=12))
    oids = [known[name] for name in chosen]
    bodies = list(wire(codecs, rows, oids))
    fields = [(f"c{place}", oid, -1, data.draw(st.booleans())) for place, oid in enumerate(oids)]
    columns = codecs.columns(fields, bodies)
    ends = {codecs.encode(known["date"], end) for end in (datetime.date.min, datetime.date.max)}
    ends |= {codecs.encode(known["timestamp"], end) for end in (datetime.datetime.min, datetime.datetime.max)}
    moments = [pair for row in rows for pair in zip(oids, row) if isinstance(pair[1], datetime.date)]
    if any(codecs.encode(*moment) in ends for moment in moments):
        with pytest.raises(OverflowError):
            pyarrow.table(columns)
    else:
        pyarrow.table(columns).validate(full=True)
    for place, oid in enumerate(oids):
        expected = [None if row[place] is None else codecs.decode(oid, codecs.encode(oid, row[place])) for row in rows]
        for found in (columns[place].to_pylist(), [columns[place][row] for row in range(len(rows))]):
            assert repr(found) == repr(expected)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([16, 20, 23, 25, 17, 701, 1007, 1082, 1184, 1186, 1700, 2950, 3802]), max_size=4),
    st.binary(max_size=60),
    st.booleans(),
)
def test_hostile_rows_are_refused(oids, body, dictionary):
    codecs = _core.CodecMap()
    try:
        columns = codecs.columns([("c", oid, (10 << 16 | 2) + 4, dictionary) for oid in oids], [body])
    except (exceptions.ProtocolError, exceptions.UnsupportedClientFeatureError, ValueError, OverflowError):
        return
    assert columns.num_rows == 1


def test_text_that_is_not_utf8_is_refused():
    codecs = _core.CodecMap()
    fields = [("c", 25, -1, False)]
    for bodies in ([struct.pack("!i", 1) + b"\xff"], [struct.pack("!i", 1) + b"\xc3", struct.pack("!i", 1) + b"\xa9"]):
        with pytest.raises(exceptions.ProtocolError, match="UTF-8"):
            codecs.columns(fields, bodies)


def test_memory_is_given_back():
    codecs = _core.CodecMap()
    bodies = list(wire(codecs, [(number, "x" * 100, [number]) for number in range(20_000)], (23, 25, 1007)))
    fields = [("a", 23, -1, False), ("b", 25, -1, True), ("c", 1007, -1, False)]

    def once():
        columns = codecs.columns(fields, bodies)
        table = pyarrow.table(columns)
        kept = columns["a"].__arrow_c_array__(), columns.__arrow_c_stream__(), numpy.asarray(columns["a"])
        del columns, table, kept

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    for _ in range(5):
        once()
    gc.collect()
    before = resident(), sys.getallocatedblocks()
    for _ in range(50):
        once()
    gc.collect()
    assert resident() - before[0] < 10_000_000
    assert sys.getallocatedblocks() - before[1] < 2000
