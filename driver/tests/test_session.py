"""One connection: queries at the same time, transactions' leases, cancellation, COPY, columns."""

import asyncio
import contextvars
import datetime
import io

import howdah
import numpy
import pyarrow
import pytest

EACH_VERSION = True


@pytest.fixture
def connect(spec):
    """Opens a connection to the shared server."""
    return lambda **more: howdah.connect(**{**spec, **more})


async def test_queries_at_the_same_time_are_answered_each(connect):
    connection = await connect()
    found = await asyncio.gather(*(connection.fetchval("select $1::int", i) for i in range(500)))
    assert found == list(range(500))
    await connection.close()


async def test_each_query_fails_alone(connect):
    connection = await connect()
    queries = [connection.fetchval(f"select 10 / {i % 3}") for i in range(9)]
    found = await asyncio.gather(*queries, return_exceptions=True)
    for i, result in enumerate(found):
        if i % 3:
            assert result == 10 // (i % 3)
        else:
            assert isinstance(result, howdah.DivisionByZeroError)
    await connection.close()


async def test_a_cancelled_query_leaves_its_neighbours_alone(connect):
    connection = await connect()
    await asyncio.gather(*(connection.fetchval("select 1") for _ in range(2)))
    slow = asyncio.ensure_future(connection.fetchval("select pg_sleep(20)"))
    others = [asyncio.ensure_future(connection.fetchval("select $1::int", i)) for i in range(20)]
    await asyncio.sleep(0.1)
    slow.cancel()
    started = asyncio.get_running_loop().time()
    assert await asyncio.gather(*others) == list(range(20))
    assert asyncio.get_running_loop().time() - started < 10
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await connection.fetchval("select 1") == 1
    await connection.close()


async def test_a_query_given_up_before_its_turn_is_not_waited_for(connect):
    connection = await connect()
    first = asyncio.ensure_future(connection.fetchval("select 1 from pg_sleep(0.3)"))
    await asyncio.sleep(0.05)
    with pytest.raises(asyncio.TimeoutError):
        await connection.fetchval("select pg_sleep(20)", timeout=0.05)
    assert await first == 1
    assert await asyncio.wait_for(connection.fetchval("select 2"), 60) == 2
    await connection.close()


async def test_a_block_has_the_connection_to_itself(connect):
    connection = await connect()
    await connection.execute("create temp table seen (a int)")
    order = []

    async def outside():
        order.append(("outside", await connection.fetchval("select count(*) from seen")))

    async with connection.transaction():
        await connection.execute("insert into seen values (1)")
        # In a context that has nothing of the block's.
        waiting = contextvars.Context().run(asyncio.ensure_future, outside())
        await asyncio.sleep(0.05)
        # Tasks made inside belong to the block.
        inside = await asyncio.gather(*(connection.fetchval("select count(*) from seen") for _ in range(3)))
        order.append(("inside", inside))
        await connection.execute("insert into seen values (2)")
    await waiting
    assert order == [("inside", [1, 1, 1]), ("outside", 2)]
    await connection.close()


async def test_savepoints_of_tasks_within_a_block_do_not_overlap(connect):
    connection = await connect()
    await connection.execute("create temp table kept (a int)")

    async def nested(number):
        async with connection.transaction():
            await connection.execute("insert into kept values ($1)", number)
            await asyncio.sleep(0.001)
            async with connection.transaction():
                await asyncio.gather(*(connection.execute("insert into kept values ($1)", number) for _ in range(2)))
            if number % 2:
                raise ValueError(number)

    async def plain(number):
        await connection.execute("insert into kept values ($1)", number)

    async with connection.transaction():
        tasks = [nested(number) for number in range(6)] + [plain(number) for number in range(100, 104)]
        ends = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    assert [type(end) for end in ends] == [type(None), ValueError] * 3 + [type(None)] * 4
    kept = await connection.fetch("select a from kept order by a")
    # What was rolled back took nothing of another task with it.
    assert [row[0] for row in kept] == [0, 0, 0, 2, 2, 2, 4, 4, 4, 100, 101, 102, 103]
    await connection.close()


async def test_begin_travels_with_the_first_query(connect):
    connection = await connect()
    await connection.fetchval("select 1")
    before = connection._protocol.queries_count
    async with connection.transaction():
        assert connection.is_in_transaction()
        await connection.fetchval("select 1")
    assert connection._protocol.queries_count - before == 2
    async with connection.transaction():
        pass
    assert connection._protocol.queries_count - before == 2
    with pytest.raises(howdah.PostgresSyntaxError):
        async with connection.transaction():
            await connection.fetch("selekt")
    assert not connection.is_in_transaction()
    await connection.close()


async def test_a_pipeline_gives_futures(connect):
    connection = await connect()
    async with connection.pipeline() as pipeline:
        first = pipeline.fetchval("select 1")
        rows = pipeline.fetch("select generate_series(1, 3) as i")
    assert first.result() == 1
    assert [row["i"] for row in rows.result()] == [1, 2, 3]
    with pytest.raises(howdah.DivisionByZeroError):
        async with connection.pipeline() as pipeline:
            pipeline.fetchval("select 1 / 0")
            good = pipeline.fetchval("select 2")
    assert good.result() == 2
    await connection.close()


async def test_rows_have_attributes_on_request(connect):
    connection = await connect()
    row = await connection.fetchrow("select 1 as id", record_class=howdah.AttributeRecord)
    assert row.id == row["id"] == 1
    with pytest.raises(AttributeError):
        _ = row.other
    await connection.close()


async def test_json_is_decoded_on_request(connect):
    connection = await connect()
    await connection.decode_json()
    assert await connection.fetchval("select $1::jsonb", {"a": [1, None]}) == {"a": [1, None]}
    await connection.close()


async def test_a_failed_copy_leaves_the_connection_usable(connect):
    connection = await connect()
    await connection.execute("create temp table copied (a int)")

    async def broken():
        yield b"1\n"
        raise ValueError("no more")

    with pytest.raises(ValueError):
        await connection.copy_to_table("copied", source=broken())
    assert await connection.fetchval("select count(*) from copied") == 0
    with pytest.raises(howdah.BadCopyFileFormatError):
        await connection.copy_to_table("copied", source=io.BytesIO(b"1\t2\n"))
    assert await connection.copy_to_table("copied", source=io.BytesIO(b"1\n2\n")) == "COPY 2"
    await connection.close()


async def test_columns_come_and_go(connect):
    connection = await connect()
    columns = await connection.fetch_columns(
        "select i, i / 2.0::float8 as half, case when i % 3 = 0 then null else 'k' || i % 5 end as text,"
        " date '2020-01-01' + i as day, timestamptz '2020-01-01 00:00+00' + interval '1 s' * i as moment"
        " from generate_series(1, 1000) i",
        dictionary=["text"],
    )
    table = pyarrow.table(columns)
    table.validate(full=True)
    assert table.num_rows == 1000
    assert table["text"].null_count == 333
    assert numpy.asarray(columns["half"])[:3].tolist() == [0.5, 1.0, 1.5]
    assert table["day"][0].as_py() == datetime.date(2020, 1, 2)
    await connection.execute("create temp table target (i bigint, half real, text text, day date, moment timestamptz)")
    assert await connection.copy_columns_to_table("target", source=table) == "COPY 1000"
    assert await connection.copy_columns_to_table("target", source=columns) == "COPY 1000"
    again = pyarrow.table(await connection.fetch_columns("select * from target limit 1000"))
    assert again["moment"].to_pylist() == table["moment"].to_pylist()
    assert again["text"].to_pylist() == table["text"].to_pylist()
    with pytest.raises(OverflowError):
        await connection.execute("create temp table small (i smallint)")
        await connection.copy_columns_to_table("small", source=pyarrow.table({"i": [1 << 20]}))
    assert await connection.fetchval("select count(*) from small") == 0
    await connection.close()


async def test_many_arguments_leave_others_their_turns(connect):
    connection = await connect()
    await connection.execute("create temp table many (a text, b int)")
    turns, given = 0, []

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def arguments():
        for number in range(512):
            given.append(turns)
            yield "a" * 32768, number

    counting = asyncio.create_task(count_turns())
    await connection.executemany("insert into many values ($1, $2)", arguments())
    counting.cancel()
    # 16 MiB, and no more than half a MiB of them in one turn of the loop.
    assert max(map(given.count, set(given))) <= 16
    assert await connection.fetchval("select count(*) from many") == 512
    await connection.close()


async def test_many_arguments_end_with_the_first_error(connect):
    connection = await connect()
    await connection.execute("create temp table many (a text, b int unique)")
    given = 0

    def arguments():
        nonlocal given
        for number in range(4096):
            given += 1
            yield "a" * 32768, min(number, 2)

    with pytest.raises(howdah.UniqueViolationError):
        await connection.executemany("insert into many values ($1, $2)", arguments())
    assert given < 4096
    assert await connection.fetchval("select count(*) from many") == 0
    await connection.close()


async def test_a_plan_is_the_same_with_json_decoded(connect):
    connection = await connect()
    statement = await connection.prepare("select $1::int")
    plan = await statement.explain(1)
    await connection.decode_json()
    statement = await connection.prepare("select $1::int")
    assert await statement.explain(1) == plan
    assert (await statement.explain(1, analyze=True))[0]["Plan"]["Actual Loops"] == 1
    await connection.close()


async def test_composites_of_nothing_and_arrays_of_anything_are_read(connect):
    connection = await connect()
    await connection.execute("create type pg_temp.nothing as ()")
    assert tuple(await connection.fetchval("select row()::pg_temp.nothing")) == ()
    assert await connection.fetchval("select array[row()::pg_temp.nothing, null]") == [(), None]
    # What a column holds most, whatever its type is: such a value has no binary form.
    await connection.execute("create temp table alike as select 7 as n from generate_series(1, 100); analyze alike")
    row = await connection.fetchrow("select * from pg_stats where tablename = 'alike'")
    assert row["most_common_vals"] == "{7}" and row["most_common_freqs"] == [1.0]
    await connection.close()


@pytest.mark.parametrize("what", ["data", "records"])
async def test_a_copy_that_loses_its_connection_says_why(connect, what):
    connection, other = await connect(), await connect()
    await other.execute("drop table if exists lost; create table lost (a int)")

    async def pieces():
        for number in range(200):
            if number == 10:
                await other.execute(f"select pg_terminate_backend({connection.get_server_pid()})")
            yield (1,) if what == "records" else b"1\n"
            await asyncio.sleep(0.01)

    copies = {
        "data": lambda: connection.copy_to_table("lost", source=pieces()),
        "records": lambda: connection.copy_records_to_table("lost", records=pieces()),
    }
    # What programs try again after, with the server's words.
    with pytest.raises(howdah.PostgresConnectionError, match="terminating connection"):
        await copies[what]()
    assert connection.is_closed()
    assert await other.fetchval("select count(*) from lost") == 0
    await other.close()


@pytest.mark.parametrize("refused", ["selec", "insert into begun values (1); selec", "select 1 / 0"])
async def test_a_text_that_is_refused_fails_the_transaction_that_it_begins(connect, refused):
    connection, other = await connect(), await connect()
    await other.execute("drop table if exists begun; create table begun (a int)")
    for beside in (False, True):
        with pytest.raises(KeyError):
            async with connection.transaction():
                asked = [connection.execute(refused)]
                if beside:
                    # It was asked before the first one was answered.
                    asked.append(connection.execute("insert into begun values (2)"))
                for outcome in await asyncio.gather(*asked, return_exceptions=True):
                    assert isinstance(outcome, howdah.PostgresError)
                assert connection.is_in_transaction()
                with pytest.raises(howdah.InFailedSQLTransactionError):
                    await connection.execute("insert into begun values (3)")
                raise KeyError
        assert not connection.is_in_transaction()
    with pytest.raises(KeyError):
        async with connection.transaction():
            with pytest.raises(howdah.PostgresError):
                await connection.copy_from_query(refused, output=io.BytesIO())
            with pytest.raises(howdah.InFailedSQLTransactionError):
                await connection.fetch("insert into begun values ($1)", 4)
            raise KeyError
    async with connection.transaction():
        await connection.execute("insert into begun values (5)")
    assert await other.fetch("select a from begun") == [(5,)]
    await connection.close()
    await other.close()


@pytest.mark.parametrize("query", ["'infinity'::timestamptz", "'-infinity'::date", "array['-infinity'::timestamp]"])
async def test_infinite_moments_are_no_year_of_arrow(connect, query):
    connection = await connect()
    columns = await connection.fetch_columns(f"select {query} as v, 1 as one")
    with pytest.raises(OverflowError, match='column "(v|item)" has an infinite'):
        pyarrow.table(columns)
    assert pyarrow.chunked_array(columns["one"]).to_pylist() == [1]
    finite = await connection.fetch_columns("select null::timestamptz as v union all select '2024-01-01Z'")
    assert pyarrow.table(finite)["v"].null_count == 1
    await connection.close()


async def test_values_stay_texts_when_asked(connect):
    connection = await connect()
    connection.keep_texts()
    values = (
        "0.1::real, interval '1 mon', date 'infinity', array['a', null], null::int, '0044-03-15 BC'::date, row(1, 'a')"
    )
    assert tuple(await connection.fetchrow(f"select {values}")) == (
        "0.1", "1 mon", "infinity", "{a,NULL}", None, "0044-03-15 BC", "(1,a)",
    )  # fmt: skip
    assert await connection.fetchval("select $1::int + 1", 41) == "42"
    async with connection.transaction():
        assert [row[0] async for row in connection.cursor("select generate_series(1, 3)")] == ["1", "2", "3"]
    await connection.execute("create temp table kept (a int, b text)")
    assert await connection.fetchval("select (1, 'x')::kept") == "(1,x)"
    await connection.close()


async def test_a_cursor_of_an_altered_table_fails_once(connect):
    connection, other = await connect(), await connect()
    await other.execute("drop table if exists read_in_pieces; create table read_in_pieces as select 1 as id")
    query = "select * from read_in_pieces where id = $1"

    async def iterate():
        async with connection.transaction():
            return [tuple(row) async for row in connection.cursor(query, 1)]

    async def fetch():
        async with connection.transaction():
            return [tuple(row) for row in await (await connection.cursor(query, 1)).fetch(5)]

    expected = (1,)
    for number, read in enumerate((iterate, fetch)):
        assert await read() == [expected]
        await other.execute(f"alter table read_in_pieces add column more_{number} int default 5")
        expected += (5,)
        with pytest.raises(howdah.InvalidCachedStatementError):
            await read()
        assert await read() == [expected]
    await other.execute("drop table read_in_pieces")
    await connection.close()
    await other.close()
