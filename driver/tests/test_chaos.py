"""Networks that split, delay, cut and garble: every operation ends, rightly or with an error that says so."""

import asyncio
import io
import random

import howdah

from driver.tests import chaos

# What an operation over a broken network may end with. ValueError: a value that cannot be right.
ERRORS = (howdah.PostgresError, howdah.InterfaceError, howdah.InternalClientError, OSError, ValueError, EOFError)
SECONDS = 20


async def all_operations(connection):
    """Every kind of operation, with what it answers."""
    answers = [
        await connection.fetchval("select 'one'"),
        await connection.fetch("select n, n::text, n::float8 from generate_series(1, 50) n where n > $1", 40),
        await connection.execute("create temp table chaos (n int, t text)"),
    ]
    await connection.executemany("insert into chaos values ($1, $2)", [(n, str(n)) for n in range(100)])
    async with connection.transaction():
        answers.append([row[0] async for row in connection.cursor("select n from chaos order by n", prefetch=7)])
        async with connection.transaction():
            await connection.execute("delete from chaos where n < 50")
    statement = await connection.prepare("select count(*) from chaos where t <> $1")
    answers.append(await statement.fetchval("no"))
    answers.append(await connection.copy_records_to_table("chaos", records=[(n, None) for n in range(200)]))
    out = io.BytesIO()
    answers.append(await connection.copy_from_query("select n from chaos order by n", output=out))
    answers.append(out.getvalue())
    try:
        await connection.fetchval("select 1 / 0")
    except howdah.DivisionByZeroError as error:
        answers.append(error.sqlstate)
    answers.append(await asyncio.gather(*(connection.fetchval("select $1::int", n) for n in range(20))))
    await connection.execute("drop table chaos")
    return answers


async def through(proxy, spec):
    """All operations through the proxy, in bounded time."""
    connection = await howdah.connect(**{**spec, "port": proxy.port, "ssl": False}, timeout=SECONDS)
    try:
        return await asyncio.wait_for(all_operations(connection), SECONDS)
    finally:
        connection.terminate()


async def test_bytes_one_by_one_are_read_rightly(spec):
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        expected = await through(proxy, spec)
    async with chaos.ChaosProxy(spec["host"], spec["port"], split=1) as proxy:
        assert await through(proxy, spec) == expected


async def test_any_split_is_read_rightly(spec):
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        expected = await through(proxy, spec)
    for size in (2, 3, 5, 7, 11, 64, 1000):
        async with chaos.ChaosProxy(spec["host"], spec["port"], split=size) as proxy:
            assert await through(proxy, spec) == expected


async def test_late_bytes_are_waited_for(spec):
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        expected = await through(proxy, spec)
    async with chaos.ChaosProxy(spec["host"], spec["port"], delay=0.005) as proxy:
        assert await through(proxy, spec) == expected


async def test_a_cut_anywhere_is_an_error_and_never_a_hang(spec):
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        await through(proxy, spec)
        length = proxy.passed
    assert length > 3000
    chosen = random.Random(7).sample(range(length), 60)
    for cut_after in [*range(1, 40, 3), *sorted(chosen)]:
        async with chaos.ChaosProxy(spec["host"], spec["port"], cut_after=cut_after) as proxy:
            try:
                await through(proxy, spec)
            except asyncio.TimeoutError:
                raise AssertionError(f"hung after a cut at byte {cut_after}") from None
            except ERRORS:
                continue
            # The last bytes only acknowledge: all operations may have been answered before.
            assert cut_after > length - 200, cut_after


async def test_garbage_anywhere_is_never_a_crash_nor_a_hang(spec):
    rng = random.Random(8)
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        await through(proxy, spec)
        length = proxy.passed
    answered = 0
    for _ in range(40):
        garble = (rng.randrange(length), rng.randbytes(rng.choice([1, 2, 5, 30])))
        async with chaos.ChaosProxy(spec["host"], spec["port"], garble=garble) as proxy:
            try:
                connection = await howdah.connect(**{**spec, "port": proxy.port, "ssl": False}, timeout=1)
            except (*ERRORS, asyncio.TimeoutError):
                continue
            task = asyncio.ensure_future(all_operations(connection))
            done, _ = await asyncio.wait([task], timeout=1)
            # Garbage in a length can ask for more bytes than will ever come: then it is right to wait.
            answered += bool(done)
            connection.terminate()
            done, _ = await asyncio.wait([task], timeout=5)
            assert done, f"hung, the connection being closed, after {garble}"
            assert task.exception() is None or isinstance(task.exception(), ERRORS), garble
    assert answered > 5


async def test_a_stalled_server_is_given_up_in_time(spec):
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        connection = await howdah.connect(**{**spec, "port": proxy.port, "ssl": False})
        proxy.stalled = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await connection.fetchval("select 1", timeout=0.2)
            raise AssertionError("answered by nobody")
        except asyncio.TimeoutError:
            pass
        assert loop.time() - began < 5
        connection.terminate()


async def test_a_lost_connection_says_so_to_all_who_wait(spec):
    async with chaos.ChaosProxy(spec["host"], spec["port"]) as proxy:
        connection = await howdah.connect(**{**spec, "port": proxy.port, "ssl": False})
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        waiting = [asyncio.ensure_future(connection.fetchval("select pg_sleep(60)")) for _ in range(5)]
        await asyncio.sleep(0.2)
        proxy.cut()
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, (howdah.ConnectionDoesNotExistError, OSError)), result
        await asyncio.wait_for(ended.wait(), 5)
        assert connection.is_closed()
