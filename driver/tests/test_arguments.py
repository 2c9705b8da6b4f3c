"""What queries, copies and connections take, and what they say of what they were not given."""

import asyncio
import dataclasses
import enum
import gc
import socket
import typing
import warnings

import howdah
import pydantic
import pytest


class Mood(enum.Enum):
    """A plain enumeration, whose members are neither text nor numbers."""

    GLAD = "glad"
    SAD = "sad"


class Size(enum.Enum):
    """One of numbers."""

    SMALL = 1
    ODD = object()


async def test_a_forgotten_await_warns(spec):
    connection = await howdah.connect(**spec)
    pool = await howdah.create_pool(**spec, min_size=1, max_size=1)
    try:
        async with pool.acquire() as lent:
            for asked in (connection.execute, connection.fetch, connection.fetchrow, connection.fetchval, lent.fetch):
                with pytest.warns(RuntimeWarning, match="the query 'select 1 as forgotten' was never awaited"):
                    asked("select 1 as forgotten")
        with pytest.warns(RuntimeWarning, match="never awaited"):
            pool.fetch("select 1")
            gc.collect()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert await connection.fetchval("select 2") == 2
            closed = connection.fetch("select 3")
            closed.close()
            del closed
    finally:
        await pool.close()
        await connection.close()


def words_of(spec, **more):
    return " ".join(f"{name}={value}" for name, value in (spec | more).items())


async def test_libpqs_own_words_are_not_for_the_server(spec):
    more = {"keepalives": 1, "keepalives_idle": 30, "gssencmode": "disable", "channel_binding": "prefer"}
    connection = await howdah.connect(words_of(spec, **more, fallback_application_name="app", connect_timeout=10))
    assert await connection.fetchval("show application_name") == "app"
    await connection.close()
    for wrong, message in (
        ({"channel_binding": "always"}, "channel_binding is expected"),
        ({"connect_timeout": "soon"}, "connect_timeout is expected"),
        ({"gssencmode": "require"}, "gssencmode=require is not supported"),
    ):
        with pytest.raises(howdah.ClientConfigurationError, match=message):
            await howdah.connect(words_of(spec, **wrong))


async def test_channel_binding_that_is_required_is_not_left_out(spec):
    with pytest.raises(howdah.InterfaceError, match="channel binding is required"):
        await howdah.connect(words_of(spec, sslmode="disable", channel_binding="require"))


async def test_a_host_that_does_not_answer_is_given_up_for_the_next(spec):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        hosts = {"host": "127.0.0.1,127.0.0.1", "port": f"{port},{spec['port']}", "connect_timeout": 1}
        connection = await howdah.connect(words_of(spec, **hosts))
        assert connection._addr == ("127.0.0.1", spec["port"])
        await connection.close()
        with pytest.raises(asyncio.TimeoutError, match="no answer from .*connect_timeout=1"):
            await howdah.connect(words_of(spec, port=port, connect_timeout=1))


async def test_the_words_of_libpq(spec):
    words = "host={host} port={port} user={user} password='{password}' dbname={database}".format(**spec)
    connection = await howdah.connect(words + " application_name = 'it''s'".replace("''", "\\'"))
    assert await connection.fetchval("select current_setting('application_name')") == "it's"
    await connection.close()
    connection = await howdah.connect(words.replace("dbname=", "dbname = ") + "  ")
    await connection.close()
    with pytest.raises(howdah.InvalidCatalogNameError, match="no such"):
        await howdah.connect(words.replace("dbname=postgres", r"dbname=no\ such"))
    secret = "sesame"
    for wrong in (f"host=a password={secret} {secret}", f"host=a password='{secret}", "host=a b", "host=a =b"):
        with pytest.raises(howdah.ClientConfigurationError, match="name=value is expected at character") as caught:
            await howdah.connect(wrong)
        assert secret not in str(caught.value)


async def test_bytes_are_copied(spec):
    connection = await howdah.connect(**spec)
    await connection.execute("create temporary table copied (a int, b text)")
    for data in (b"1\tone\n", bytearray(b"2\ttwo\n"), memoryview(b"3\tthree\n")):
        assert await connection.copy_to_table("copied", source=data) == "COPY 1"
    assert await connection.fetchval("select array_agg(b order by a) from copied") == ["one", "two", "three"]
    await connection.close()


async def test_members_of_enumerations_stand_for_their_values(spec):
    connection = await howdah.connect(**spec)
    await connection.execute("create type pg_temp.mood as enum ('glad', 'sad')")
    assert await connection.fetchval("select $1::pg_temp.mood", Mood.SAD) == "sad"
    assert await connection.fetchval("select $1::text", Mood.GLAD) == "glad"
    assert await connection.fetchval("select $1::int", Size.SMALL) == 1
    assert await connection.fetchval("select :mood::text", mood=Mood.GLAD) == "glad"
    for query, member in (("select $1::int", Mood.GLAD), ("select $1::int", Size.ODD)):
        with pytest.raises(howdah.DataError, match=r"\$1: <(Mood|Size)"):
            await connection.fetchval(query, member)
    await connection.executemany("select $1::text, $2::int", [(Mood.GLAD, Size.SMALL)] * 3)
    await connection.close()


async def test_argument_lists_from_an_asynchronous_generator(spec):
    connection = await howdah.connect(**spec)
    await connection.execute("create temporary table numbers (n int)")

    async def lists(count):
        for number in range(count):
            yield (number,)

    async def mappings():
        yield {"n": -1}

    await connection.executemany("insert into numbers values ($1)", lists(1000))
    await connection.executemany("insert into numbers values (:n)", mappings())
    await connection.executemany("insert into numbers values ($1)", lists(0))
    assert await connection.fetchrow("select count(*), min(n), max(n) from numbers") == (1001, -1, 999)
    rows = await connection.fetchmany("insert into numbers values ($1) returning n", lists(3))
    assert [row["n"] for row in rows] == [0, 1, 2]

    async def broken():
        yield (5,)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await connection.executemany("insert into numbers values ($1)", broken())
    assert await connection.fetchval("select count(*) from numbers") == 1004
    await connection.close()


@dataclasses.dataclass
class Flight:
    """A row, with a field that has a default."""

    id: int
    origin: str
    delay: float = 0.0


class Pair(typing.NamedTuple):
    """A row of two."""

    id: int
    origin: str


class Checked(pydantic.BaseModel):
    """A row whose values are checked."""

    id: int
    origin: str


async def test_rows_may_be_what_the_program_wants(spec):
    connection = await howdah.connect(**spec)
    query = "select 1 as id, 'ZRH' as origin"
    assert await connection.fetch(query, record_class=dict) == [{"id": 1, "origin": "ZRH"}]
    assert await connection.fetch(query, record_class=Flight) == [Flight(1, "ZRH")]
    assert await connection.fetchrow(query, record_class=Pair) == Pair(1, "ZRH")
    assert type(await connection.fetchrow(query, record_class=Pair)) is Pair
    assert await connection.fetchrow(query, record_class=Checked) == Checked(id=1, origin="ZRH")
    statement = await connection.prepare(query, record_class=Flight)
    assert await statement.fetch() == [Flight(1, "ZRH")]
    assert await statement.fetchval(column="origin") == "ZRH"
    async with connection.transaction():
        assert [row async for row in connection.cursor(query, record_class=Flight)] == [Flight(1, "ZRH")]
    with pytest.raises(pydantic.ValidationError):
        await connection.fetch("select 'x' as id, 'ZRH' as origin", record_class=Checked)
    for wrong, message in (
        ("select 1 as id", "no column for the field 'origin' of Flight"),
        ("select 1 as id, 'x' as origin, 2 as other", "Flight has no field for the column 'other'"),
        ("select 1 as id, 2 as id, 'x' as origin", "2 columns named 'id'"),
    ):
        with pytest.raises(howdah.InterfaceError, match=message):
            await connection.fetch(wrong, record_class=Flight)
    with pytest.raises(howdah.InterfaceError, match="2 columns named 'id'"):
        await connection.fetch("select 1 as id, 2 as id, 'x' as origin", record_class=Checked)
    for refused in (int, object, "dict", Flight(1, "ZRH")):
        with pytest.raises(howdah.InterfaceError, match="record_class is expected"):
            await connection.fetch(query, record_class=refused)
    with pytest.raises(howdah.InterfaceError, match="record_class is expected"):
        await howdah.connect(**spec, record_class=tuple)
    assert await connection.fetchrow(query) == (1, "ZRH")
    await connection.close()


@dataclasses.dataclass
class Curious:
    """A row that asks for more while it is made."""

    id: int

    def __post_init__(self):
        if self.id == 2:
            raise KeyError(self.id)
        gc.collect()
        self.asked = Curious.connection.fetchval("select 10")


async def test_a_class_of_rows_may_do_as_it_likes(spec):
    Curious.connection = connection = await howdah.connect(**spec)
    rows = await connection.fetch("select id from generate_series(3, 5) id", record_class=Curious)
    assert [row.id for row in rows] == [3, 4, 5]
    assert [await row.asked for row in rows] == [10, 10, 10]
    with pytest.raises(KeyError):
        await connection.fetch("select id from generate_series(2, 1000) id", record_class=Curious)
    assert await connection.fetchval("select 1") == 1
    Curious.connection = None
    await connection.close()


async def test_a_pool_gives_rows_of_a_class(spec):
    async with howdah.create_pool(**spec, min_size=1, max_size=1) as pool:
        query = "select 1 as id, 'ZRH' as origin"
        assert await pool.fetch(query, record_class=Flight) == [Flight(1, "ZRH")]
        assert await pool.fetchrow(query, record_class=Pair) == Pair(1, "ZRH")
        many = await pool.fetchmany("select $1::int as id, 'x' as origin", [(1,), (2,)], record_class=dict)
        assert many == [{"id": 1, "origin": "x"}, {"id": 2, "origin": "x"}]


async def test_rows_may_be_tuples(spec):
    connection = await howdah.connect(**spec)
    rows = await connection.fetch("select n, null, 'a' from generate_series(1, 3) n", record_class=tuple)
    assert rows == [(1, None, "a"), (2, None, "a"), (3, None, "a")]
    assert {type(row) for row in rows} == {tuple}
    assert await connection.fetch("select from generate_series(1, 2)", record_class=tuple) == [(), ()]
    (nested,) = await connection.fetchrow("select array[1, 2]", record_class=tuple)
    assert nested == [1, 2]
    assert type((await connection.fetch("select 1 as n"))[0]) is howdah.Record
    await connection.close()
