"""What queries, copies and connections take, and what they say of what they were not given."""

import enum
import gc
import warnings

import howdah
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
