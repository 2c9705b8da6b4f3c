"""Parameters of every Python type in every place of a query: what psycopg does with them, `howdah.dbapi` does too."""

import asyncio
import datetime as dt
import decimal
import enum
import ipaddress
import math
import uuid

import howdah
import howdah.dbapi
import numpy as np
import psycopg
import pytest

from devkit.server import SUPERUSER

D = decimal.Decimal
HOUR = dt.timezone(dt.timedelta(hours=1))
KEY = uuid.UUID("12345678-1234-5678-1234-567812345678")
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678)

TABLE = """
    create table {name} (i int, b bigint, s smallint, n numeric, p numeric(10, 2), f float8, r real, t text, v varchar(200),
        d date, ts timestamp, tz timestamptz, tm time, ttz timetz, iv interval, y bytea, o boolean, u uuid, a inet, j jsonb,
        ia int[], na numeric[], ta text[], fa float8[], g int4range);
    insert into {name} (i, b, s, n, p, f, r, t, d, ts, tz, u, ia) values (10, 1000, 7, 3, 9.99, 1.5, 1.5, 'a', '2026-01-02',
        '2026-01-02 03:04', '2026-01-02 03:04Z', '12345678-1234-5678-1234-567812345678', '{{1,2}}')"""
COLUMNS = "i b s n p f r t v d ts tz tm ttz iv y o u a j ia na ta fa g".split()  # noqa: SIM905


class Plain(str, enum.Enum):
    """A text."""

    RED = "red"


NUMBERS = [0, 1, 2, -3, 40_000, 3_000_000_000, 2**63, 2**53 + 1, 0.5, 1.1, 2.0, 2.7, 0.1 + 0.2, 1e20, -1.5]
NUMBERS += [D("1.1"), D("2"), D("4"), D("0.5"), D("1e3"), D("12345678901234567890.12"), math.nan]
NUMBERS += [np.float64(0.5), np.int64(3), np.int32(4), np.float32(0.5)]
QUERIES = [
    "select i * {p} from item",
    "select {p} * b from item",
    "select b / {p} from item",
    "select n * {p} from item",
    "select p / {p} from item",
    "select f * {p} from item",
    "select 10 * {p}",
    "select 10 / {p}",
    "select i from item where i = {p}",
    "select i from item where b < {p}",
    "select i from item where n > {p}",
    "select i from item where f <= {p}",
    "select {p}::numeric",
    "select {p}::int",
    "select {p}::float8",
    "select 1 limit {p}",
    "select i from item where i between {p} and 1000000",
    "select case when true then i else {p} end from item",
    "select coalesce(i, {p}) from item",
    "select greatest(i, {p}) from item",
]
VALUES = [
    *NUMBERS,
    None,
    True,
    False,
    "a",
    "5",
    "1.5",
    "2026-01-02",
    "2026-01-02 03:04:05+01",
    "1 day",
    "{1,2}",
    '{"k": 1}',
    "[1,5)",
    "10.0.0.1",
    str(KEY),
    "",
    Plain.RED,
    b"a\0",
    bytearray(b"b"),
    dt.date(2026, 1, 2),
    MOMENT,
    MOMENT.replace(tzinfo=HOUR),
    dt.datetime(2026, 1, 2),
    dt.time(3, 4, 5, 6),
    dt.time(3, 4, tzinfo=HOUR),
    dt.timedelta(days=1, seconds=2),
    KEY,
    ipaddress.ip_address("10.0.0.1"),
    ipaddress.ip_interface("10.0.0.1/24"),
    ipaddress.ip_network("10.0.0.0/24"),
    [1, 2],
    [40_000, None],
    [1.5, 2.0],
    [D("1.1")],
    ["a", "b,c", 'd"'],
    [None],
    [[1, 2], [3, 4]],
    [dt.date(2026, 1, 2)],
    [],
    {"k": 1},
]
ARRAYS = [[1, 2], [10], [2.9], [10.0], [D("10")], [D("1.1"), D("10")], ["10"], [], [None, 10], [3_000_000_000]]


@pytest.fixture(scope="module")
def where(server):
    """How the server is reached; its zone is neither the machine's nor UTC."""
    server.psql("create database driver_parameters")
    server.psql("alter database driver_parameters set timezone = 'Asia/Tokyo'")
    yield {"host": str(server.socket_folder), "port": server.port, "user": SUPERUSER}
    server.psql("drop database driver_parameters with (force)")


@pytest.fixture(scope="module")
def sides(where):
    with (
        psycopg.connect(**where, dbname="driver_parameters", autocommit=True) as theirs,
        howdah.dbapi.connect(**where, database="driver_parameters", autocommit=True) as ours,
    ):
        theirs.execute(TABLE.format(name="item"))
        yield theirs, ours


def outcome(connection, sql, args):
    """The rows, or what is wrong: the server's word for it, or that the driver knows no such value."""
    try:
        return [tuple(map(plain, row)) for row in connection.execute(sql, args).fetchall()]
    except (psycopg.Error, howdah.dbapi.Error, OverflowError, ValueError) as error:
        # 22000 is what the driver gives for a value that Python's classes do not hold.
        state = getattr(error, "sqlstate", None)
        return f"error {state if state not in (None, '22000') else 'of the driver'}"


def plain(value):
    """A value with its type, by the names that both drivers have; a range or an address as text."""
    if isinstance(value, psycopg.types.range.Range | howdah.Range):
        return "range", (value.lower, value.upper)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return "datetime", value.astimezone(dt.UTC)
    if isinstance(value, float | D) and value != value:
        return type(value).__name__, "nan"
    if isinstance(value, list):
        return "list", [plain(element) for element in value]
    if type(value).__module__ == "ipaddress":
        return "address", str(value)
    return type(value).__name__, value


def differences(sides, cases, whole=False):
    """Where the two differ: in rows, in which of them has an error, and, if that is asked, in its SQLSTATE."""
    found = []
    for sql, args in cases:
        theirs, ours = (outcome(side, sql, args) for side in sides)
        if theirs != ours and (whole or not (str(theirs).startswith("error") and str(ours).startswith("error"))):
            found.append(f"{sql} {args!r}: psycopg {theirs}, howdah {ours}")
    return found


def allowed(line):
    """What psycopg refuses, the driver may take by the type that the server infers."""
    return "psycopg error" in line


def test_numbers_in_arithmetic_and_comparisons(sides):
    cases = [(query.format(p="%s"), (value,)) for query in QUERIES for value in NUMBERS]
    assert [line for line in differences(sides, cases) if not allowed(line)] == []


def test_lists(sides):
    queries = [
        "select i from item where i = any(%s)",
        "select i from item where n = any(%s)",
        "select i from item where b <> all(%s)",
    ]
    assert [
        line for line in differences(sides, [(q, (a,)) for q in queries for a in ARRAYS]) if not allowed(line)
    ] == []


@pytest.mark.parametrize("column", COLUMNS)
def test_values_into_columns(sides, column):
    # As text where the two read a type as different classes.
    shown = {"j": "j::text", "r": "r::text"}.get(column, column)
    sql = f"insert into item ({column}) values (%s) returning {shown}"
    assert [line for line in differences(sides, [(sql, (value,)) for value in VALUES]) if not allowed(line)] == []


ROWS = [
    (1, 1, "a", 1.0, "2026-01-02"),
    (2.7, 2.5, D("1.10"), 2, MOMENT),
    (None, None, None, None, None),
    (3, D("1.5"), KEY, D("0.1"), dt.date(2026, 1, 2)),
    (4.4, 1, ["x", None], 1, MOMENT.replace(tzinfo=HOUR)),
    ("7", "8", "9", "10", "2026-01-03"),
]


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("cached", [100, 0])
def test_rows_of_mixed_types_by_executemany(where, autocommit, cached):
    options = {"database": "driver_parameters", "autocommit": autocommit, "statement_cache_size": cached}
    found = []
    for open_one in (
        lambda: psycopg.connect(**where, dbname="driver_parameters", autocommit=autocommit),
        lambda: howdah.dbapi.connect(**where, **options),
    ):
        with open_one() as connection:
            cursor = connection.cursor()
            cursor.execute("create temp table rows (i int, n numeric, t text, f float8, d date)")
            # In pieces of several kilobytes, and by a generator.
            cursor.executemany("insert into rows values (%s, %s, %s, %s, %s)", iter(ROWS * 500))
            assert cursor.rowcount == len(ROWS) * 500
            found.append(cursor.execute("select * from rows order by ctid").fetchall())
    assert found[0] == found[1]


def test_streams_and_columns_take_the_same_parameters(where):
    with howdah.dbapi.connect(**where, database="driver_parameters") as connection:
        with connection.cursor(stream=True) as cursor:
            assert cursor.execute("select 10 * %s", (0.5,)).fetchall() == [(5.0,)]
        columns = connection.cursor(columns=True).execute("select 10 * %s as v", (0.5,)).fetch_columns()
        assert columns.to_pydict() == {"v": [5.0]}
        # The one that was refused comes first the next time too.
        for value in (0.5, 2, D("0.5"), 0.5):
            assert connection.execute("select 10 * %s", (value,)).fetchone() == (10 * value,)


def test_texts_are_read_by_the_server_as_literals_are(where):
    """NumPy's texts have a buffer that is no UTF-8, and names are cut to 63 bytes."""
    asked = [
        ("select %s::bytea", (np.str_("np"),)),
        ("select %s::bit(3)::text", (np.str_("101"),)),
        ("select %s::text", (np.str_("é"),)),
        ("select %s::bytea[]", ([np.str_("np"), "a"],)),
        ("select count(*) from pg_class where relname = %s", ("x" * 64,)),
        ("select count(*) from pg_class where relname = any(%s)", (["x" * 64, "pg_class"],)),
        ("select %s::name", ("é" * 40,)),
    ]
    with (
        howdah.dbapi.connect(**where, database="driver_parameters") as ours,
        psycopg.connect(
            host=where["host"], port=where["port"], user=where["user"], dbname="driver_parameters"
        ) as theirs,
    ):
        for query, values in asked:
            assert ours.execute(query, values).fetchone() == theirs.execute(query, values).fetchone(), query


@pytest.mark.parametrize("many", [False, True])
def test_lists_of_texts_go_through_the_codec_of_their_elements(where, many):
    with howdah.dbapi.connect(**where, database="driver_parameters") as connection:
        connection.execute("create temp table documents (id serial, j jsonb[])")
        connection.wait(connection.asynchronous.decode_json())
        rows = [(["x", 'a"b'],), ([],), ([None],), ([{"a": 1}],), (["x", {"b": [1]}],), ([["x"], ["y"]],)]
        cursor = connection.cursor()
        insert = "insert into documents (j) values (%s)"
        if many:
            cursor.executemany(insert, rows)
        else:
            for row in rows:
                cursor.execute(insert, row)
        assert cursor.execute("select j from documents order by id").fetchall() == rows


CUT = [
    ("int", 2.7, "int4 would cut the float 2.7 off to 2"),
    ("bigint", D("1.1"), "int8 would cut the Decimal 1.1 off to 1"),
    ("int[]", [1, 2.9], "int4 would cut the float 2.9 off to 2"),
    ("int", np.float32(1.5), "int4 would cut the float32 1.5 off to 1"),
    ("int4range", howdah.Range(1.5, 3), "int4 would cut the float 1.5 off to 1"),
    ("date", MOMENT, "date would cut the datetime 2026-01-02 03:04:05.000678 off to 2026-01-02"),
    ("time", dt.time(1, tzinfo=HOUR), r"time would cut the time 01:00:00\+01:00 off to 01:00:00"),
    ("time", MOMENT, "time would cut the datetime"),
]
WHOLE = [
    ("int", 2.0, 2),
    ("int", D("3"), 3),
    ("int", np.int64(4), 4),
    ("numeric", 1.1, D("1.1")),
    ("numeric", 2.0, D("2")),
    ("numeric(10, 2)", 0.1 + 0.2, D("0.30")),
    ("numeric[]", [0.1, 1e20, -1.5], [D("0.1"), D("1e20"), D("-1.5")]),
    ("date", dt.datetime(2026, 1, 2), dt.date(2026, 1, 2)),
]


def test_the_asyncio_interface_cuts_nothing_off(where):
    async def ask():
        connection = await howdah.connect(**where, database="driver_parameters")
        try:
            for number, (name, value, message) in enumerate(CUT):
                with pytest.raises(howdah.DataError, match=rf"query argument \$1: .*{message}"):
                    await connection.fetchval(f"select $1::{name}", value)
                await connection.execute(f"create temp table cut{number} (v {name})")
                with pytest.raises(howdah.DataError, match=f'{message}.*column "v"'):
                    await connection.copy_records_to_table(f"cut{number}", records=[(value,)])
                with pytest.raises(howdah.DataError, match=rf"\$1 in element #1 .*{message}"):
                    await connection.executemany(f"insert into cut{number} values ($1)", [(None,), (value,)])
            for number, (name, value, whole) in enumerate(WHOLE, len(CUT)):
                assert await connection.fetchval(f"select $1::{name}", value) == whole
                await connection.execute(f"create temp table cut{number} (v {name})")
                await connection.copy_records_to_table(f"cut{number}", records=[(value,)])
                assert await connection.fetchval(f"select v from cut{number}") == whole
        finally:
            await connection.close()
        connection = await howdah.connect(**where, database="driver_parameters", truncate=True)
        try:
            assert await connection.fetchval("select $1::int", 2.7) == 2
            assert str(await connection.fetchval("select $1::numeric", 1.1)).startswith("1.10000000000000008")
            assert await connection.fetchval("select $1::date", MOMENT) == MOMENT.date()
        finally:
            await connection.close()

    asyncio.run(ask())


# Where the server has nothing, or too little, to infer a type from.
BARE = [
    "select {p}",
    "select {p} is null",
    "select pg_typeof({p})::text",
    "select concat({p}, '-')",
    "select concat_ws(',', {p}, {p})",
    "select jsonb_build_object('a', {p})::text",
    "select json_build_array({p})::text",
    "select to_jsonb({p})::text",
    "select row_to_json(row({p}))::text",
    "select format('%s', {p})",
    "select quote_literal({p})",
    "select num_nonnulls({p}, null)",
    "select unnest({p})",
    "select array_length({p}, 1)",
    "select cardinality({p})",
    "select array_to_string({p}, '+')",
    "select array_append(ia, {p}) from item where i = 10",
    "select array[{p}, {p}]",
    "select {p} || 'x'",
    "select 'x' || {p}",
    "select length({p})",
    "select abs({p})",
    "select -({p})",
    "select round({p})",
    "select {p} + 1",
    "select {p} + {p}",
    "select {p} = {p}",
    "select 1 where {p}",
    "select not {p}",
    "select case when {p} then 1 else 2 end",
    "select case when i = 10 then {p} else null end from item",
    "select coalesce({p}, null)",
    "select coalesce(null, {p})",
    "select nullif({p}, {p})",
    "select greatest({p}, {p})",
    "select date '2020-01-01' + {p}",
    "select date '2020-01-01' - {p}",
    "select timestamp '2020-01-01' + {p}",
    "select interval '1 day' * {p}",
    "select now() - {p} > now() - interval '100 years'",
    "select date_trunc('day', {p})",
    "select extract(year from {p})",
    "select to_char({p}, 'YYYY')",
    "select {p}::text",
    "select {p}::text::int",
    "select cast({p} as numeric)",
    "select {p} in (1, 2)",
    "select 1 in ({p}, {p})",
    "select {p} = any(array[1, 2])",
    "select {p} = any('{{1,2}}')",
    "select 1 = any({p})",
    "select {p} between 1 and 5",
    "select {p} like 'a%'",
    """select ('{{"a": [1, 2]}}'::jsonb -> {p})::text""",
    "select ('{{\"1\": 2}}'::jsonb ->> {p})",
    "select i from item where i = {p}",
    "select i from item where t = {p}",
    "select i from item where u = {p}",
    "select i from item where d = {p}",
    "select i from item where ts < {p}",
    "select i from item where tz < {p}",
    "select i from item where o = {p}",
    "select i from item where ia = {p}",
    "select i from item where ia @> {p}",
    "select greatest({p}, tz) from item where i = 10",
    "select i from item where i in (select {p})",
    "select * from (values ({p}), ({p})) v(x)",
    "select sum(x) from (values ({p})) v(x)",
    "select max({p})",
    "select array_agg({p})",
    "select string_agg({p}, ',')",
    "select generate_series(1, {p})",
    "select repeat('a', {p})",
    "select substr('abc', {p})",
    "select left('abc', {p})",
    "select lpad('a', {p}, 'b')",
    "select make_date({p}, 1, 1)",
    "select power({p}, 2)",
    "select mod({p}, 2)",
    "select {p} % 2",
    "select sqrt({p})",
    "select md5({p})",
    "select encode({p}, 'hex')",
    "select host({p})",
    "select lower({p})",
    "select i from item limit {p}",
    "select i from item order by {p}",
    "select i, count(*) from item group by i, {p}",
    "with w as (select {p} as a) select a from w",
    "select {p} union select {p}",
    "select {p} union all select null",
    "insert into item (t) select {p} returning t",
    "update item set n = {p} where false",
    "update item set i = i + {p} where false",
]
SIMPLE = [0, 1, 2, -3, 32767, 32768, -32768, 40_000, 2**31, 2**63, 0.5, 2.0, 1e20, math.inf, D("1.1"), D("2")]
# What would be as long as the number is large.
ENDLESS = ("generate_series", "repeat", "lpad")
# psycopg reads an infinite interval as no time at all.
DIFFERENT = ["interval '1 day' * %s (inf,)"]


def test_what_the_server_cannot_infer(sides):
    known = [value for value in VALUES[len(NUMBERS) :] if not isinstance(value, dict)]
    cases = []
    for query in BARE:
        sql = query.replace("%", "%%").replace("{p}", "%s").replace("{{", "{").replace("}}", "}")
        for value in [*SIMPLE, *known, [True, None], [[]], [2**40], [D("1"), None], [KEY], [b"a"]]:
            if not (isinstance(value, int) and value > 99_999 and any(name in query for name in ENDLESS)):
                cases.append((sql, (value,) * query.count("{p}")))
    assert len(cases) > 4000
    found = differences(sides, cases, whole=True)
    assert [line for line in found if not any(known in line for known in DIFFERENT)] == []


MIXED = [1, None, 40_000, 2.5, "7", D("1.5"), 2**40, True, None, -1, 2.0, "8", 2**70, "9"]


@pytest.mark.parametrize("cached", [100, 1, 0])
def test_a_statement_is_of_the_types_of_its_values(where, cached):
    """One text, and a statement for each kind of values: in single commands, and in many at once."""
    with (
        psycopg.connect(**where, dbname="driver_parameters") as theirs,
        howdah.dbapi.connect(**where, database="driver_parameters", statement_cache_size=cached) as ours,
    ):
        for side in (theirs, ours):
            side.execute("create temp table typed (k int, v text)")
            cursor = side.cursor()
            for again in range(3):
                for value in MIXED:
                    shown = side.execute(
                        "select pg_typeof(coalesce(%s, null))::text, %s::text", (value, value)
                    ).fetchone()
                    cursor.execute("insert into typed values (%s, %s)", (again, "/".join(map(str, shown))))
        rows = [side.execute("select * from typed order by ctid").fetchall() for side in (theirs, ours)]
        assert rows[0] == rows[1]
        # An integer among many has the type of a larger one before it; what is computed is the same.
        for side in (theirs, ours):
            sql = "insert into typed values (%s, (10 / %s)::text)"
            numbers = [value for value in MIXED if not isinstance(value, str | bool)]
            side.cursor().executemany(sql, list(enumerate(numbers)))
            sql = "insert into typed values (%s, 'x' || %s)"
            side.cursor().executemany(sql, [(number, value) for number, value in enumerate(MIXED)] * 300)
        rows = [side.execute("select * from typed order by ctid").fetchall() for side in (theirs, ours)]
        assert rows[0] == rows[1]


def test_values_that_only_their_column_knows_among_others(where):
    """Composites, whose type the server infers, beside integers of all sizes."""
    with howdah.dbapi.connect(**where, database="driver_parameters") as connection:
        connection.execute("create type pair as (a int, b text)")
        connection.execute("create temp table pairs (k bigint, p pair)")
        rows = [(2**power, (power, "x")) for power in range(60)] + [(0, None), (1, (1, "y"))]
        connection.cursor().executemany("insert into pairs values (%s, %s)", rows)
        assert connection.execute("select k, p from pairs order by ctid").fetchall() == rows
        connection.rollback()
