"""Cancellation and timeouts at every await, of every kind of operation: the connection is usable after, or closed."""

import asyncio
import contextlib
import io

import howdah
import pytest


async def in_transaction(connection):
    async with connection.transaction():
        await connection.fetchval("select 1")
        async with connection.transaction():
            await connection.fetchval("select 2")


async def with_cursor(connection):
    async with connection.transaction():
        async for _ in connection.cursor("select * from generate_series(1, 200)", prefetch=20):
            pass


async def with_statement(connection):
    statement = await connection.prepare("select $1::int + 1")
    assert await statement.fetchval(1) == 2


async def copying_out(connection):
    await connection.copy_from_query("select * from generate_series(1, 5000)", output=io.BytesIO())


async def copying_much_out(connection):
    await connection.copy_from_query("select repeat('x', 1000) from generate_series(1, 3000)", output=io.BytesIO())


async def copying_in(connection):
    await connection.copy_records_to_table("cancelled", records=[(n,) for n in range(2000)])


async def many(connection):
    await connection.executemany("insert into cancelled values ($1)", [(n,) for n in range(500)])


async def together(connection):
    await asyncio.gather(*(connection.fetchval("select $1::int", n) for n in range(10)))


async def unknown_type(connection):
    await connection.reload_schema_state()
    await connection.fetchval("select 'glad'::cancelled_mood")


OPERATIONS = [
    in_transaction,
    with_cursor,
    with_statement,
    copying_out,
    copying_much_out,
    copying_in,
    many,
    together,
    unknown_type,
]


async def connect(spec):
    connection = await howdah.connect(**spec, command_timeout=20)
    await connection.execute("create temp table cancelled (n int)")
    await connection.execute("create type pg_temp.cancelled_mood as enum ('glad')")
    return connection


async def check_usable(connection):
    """Whatever was given up, the next query has its own answer."""
    assert await connection.fetchval("select 'mine' || $1::text", "e") == "minee"
    assert not connection.is_in_transaction()


class Turns:
    """Drives a coroutine, and cancels it at its n-th wait; or, if `late`, when that is over but it does not know yet."""

    def __init__(self, coroutine, at, late):
        self.coroutine = coroutine
        self.left = at
        self.late = late
        self.cancelled = False

    def __await__(self):
        value, error = None, None
        while True:
            try:
                waited_for = self.coroutine.throw(error) if error is not None else self.coroutine.send(value)
            except StopIteration as end:
                return end.value
            value, error = None, None
            if self.left == 0:
                self.left = -1
                self.cancelled = True
                if self.late:
                    yield waited_for
                elif waited_for is not None:
                    waited_for._asyncio_future_blocking = False
                    waited_for.cancel()
                error = asyncio.CancelledError()
                continue
            self.left -= 1
            try:
                value = yield waited_for
            except BaseException as thrown:
                error = thrown


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "answered"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
async def test_cancelled_at_each_wait(spec, operation, late):
    connection = await connect(spec)
    closed = 0
    for at in range(60):
        turns = Turns(operation(connection), at, late)

        async def run(turns=turns):
            await turns

        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.ensure_future(run()), 60)
        if connection.is_closed():
            closed += 1
            connection = await connect(spec)
        await asyncio.wait_for(check_usable(connection), 60)
        if not turns.cancelled:
            break
    assert closed == 0
    await connection.close()


# Cancelled from under its task, asyncio's own gather complains.
test_cancelled_at_each_wait.expected_complaint = "_GatheringFuture exception was never retrieved"


async def test_a_block_that_is_given_up_when_its_turn_came_holds_nobody_up(spec):
    connection = await howdah.connect(**spec)

    async def block(until):
        async with connection.transaction():
            await connection.fetchval("select 1")
            await until.wait()

    async def given_up():
        await Turns(block(asyncio.Event()), 0, late=True)

    first_ends = asyncio.Event()
    first = asyncio.ensure_future(block(first_ends))
    await asyncio.sleep(0.05)
    second = asyncio.ensure_future(given_up())
    await asyncio.sleep(0)
    third = asyncio.ensure_future(connection.fetchval("select 3"))
    await asyncio.sleep(0)
    first_ends.set()
    await first
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await asyncio.wait_for(third, 5) == 3
    await connection.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
async def test_cancelled_after_any_time(spec, operation):
    connection = await connect(spec)
    for step in range(40):
        task = asyncio.ensure_future(operation(connection))
        await asyncio.sleep(step * 0.0004)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not connection.is_closed()
        await asyncio.wait_for(check_usable(connection), 60)
    await connection.close()


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "answered"])
async def test_the_settings_are_the_programs_after_each_cancellation(spec, late):
    """Types are asked for with `jit` off."""
    for at in range(30):
        connection = await connect(spec)
        await connection.execute("set jit = on")
        turns = Turns(unknown_type(connection), at, late)

        async def run(turns=turns):
            await turns

        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.ensure_future(run()), 60)
        assert await connection.fetchval("show jit") == "on"
        await connection.close()
        if not turns.cancelled:
            break
    assert at > 3


async def test_timed_out_after_any_time(spec):
    connection = await howdah.connect(**spec)
    timed_out = 0
    for step in range(1, 60):
        try:
            await connection.fetchval("select pg_sleep(0.02)", timeout=step * 0.001)
        except asyncio.TimeoutError:
            timed_out += 1
        assert await connection.fetchval("select $1::int", step) == step
    assert 5 < timed_out < 59
    await connection.close()


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "answered"])
async def test_statements_of_cancelled_queries_are_closed(spec, late):
    connection = await connect(spec)
    for number in range(120):
        # Each a text of its own, cancelled while it is prepared, or while its types are asked for.
        operation = connection.fetchval(f"select {number}, 'glad'::cancelled_mood")
        with contextlib.suppress(asyncio.CancelledError):
            await Turns(as_coroutine(operation), number % 4, late)
        if number % 10 == 0:
            await connection.reload_schema_state()
    await connection.fetchval("select 'the next one that is prepared closes those of before'")
    kept = await connection.fetchval("select count(*) from pg_prepared_statements")
    assert kept <= len(list(connection._stmt_cache.iter_statements())) + 1
    await connection.close()


async def as_coroutine(awaitable):
    return await awaitable


async def test_one_cancelled_among_many_leaves_the_others(spec):
    connection = await howdah.connect(**spec)
    tasks = [asyncio.ensure_future(connection.fetchval("select $1::int", n)) for n in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::7]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for n, result in enumerate(results):
        if n % 7:
            assert result == n or isinstance(result, howdah.QueryCanceledError), (n, result)
        else:
            assert isinstance(result, asyncio.CancelledError)
    await check_usable(connection)
    await connection.close()
