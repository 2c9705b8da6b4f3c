"""Nothing is kept that should not be: memory, objects, connections."""

import asyncio
import contextlib
import gc
import resource
import sys
import weakref

import howdah

QUERIES = 40_000


def memory():
    """The resident memory of this process, in kilobytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


async def test_memory_does_not_grow_with_queries(spec):
    connection = await howdah.connect(**spec)

    async def work(count):
        for _ in range(count // 100):
            await asyncio.gather(
                *(
                    connection.fetch("select $1::int as a, $2::text as b, array[1, 2] as c, now() as d", n, "x" * 50)
                    for n in range(100)
                )
            )

    await work(QUERIES // 10)
    gc.collect()
    objects, grown = len(gc.get_objects()), []
    # What leaks grows each time; the allocator takes a few megabytes now and then.
    while not grown or grown[-1] >= 3000:
        before = memory()
        await work(QUERIES)
        gc.collect()
        grown.append(memory() - before)
        assert len(grown) < 4, grown
    assert len(gc.get_objects()) - objects < 200
    await connection.close()


async def test_references_are_given_back(spec):
    connection = await howdah.connect(**spec)
    argument = "-".join(["an argument", "of its own"])

    async def work(rounds):
        for _ in range(rounds):
            (row,) = await connection.fetch("select $1::text, null, null", argument)
            del row
            with contextlib.suppress(howdah.DivisionByZeroError):
                await connection.fetchval("select $1::int / 0", 1)
        gc.collect()
        return sys.getrefcount(argument), sys.getrefcount(None), sys.getrefcount(howdah.Record)

    # The first rounds make what is kept for good: two prepared statements, each with the class of its rows.
    before = await work(100)
    after = await work(2000)
    assert after[0] == before[0]
    assert abs(after[1] - before[1]) < 300
    assert after[2] == before[2]
    await connection.close()


async def test_no_statement_is_left_behind(spec):
    connection = await howdah.connect(**spec, statement_cache_size=10)
    for number in range(20):
        # Asked at the same time, each prepares it; one is kept.
        await asyncio.gather(*(connection.fetchval(f"select {number} + $1::int", n) for n in range(20)))
        statement = await connection.prepare(f"select {number} + $1::int")
        assert await statement.fetchval(1) == number + 1
        del statement
    await connection.fetchval("select 'the next one that is prepared closes those of before'")
    # Those of the cache, this query's among them.
    assert await connection.fetchval("select count(*) from pg_prepared_statements") <= 11
    await connection.close()


async def test_a_closed_connection_is_collected(spec):
    connection = await howdah.connect(**spec)
    await connection.fetch("select 1")
    async with connection.transaction():
        await connection.fetch("select 2")
    session, watched = weakref.ref(connection._protocol), weakref.ref(connection)
    await connection.close()
    del connection
    await asyncio.sleep(0)
    gc.collect()
    assert watched() is None
    assert session() is None


async def test_no_backend_is_left_behind(spec):
    watcher = await howdah.connect(**spec)
    question = "select count(*) from pg_stat_activity where application_name = 'leaks'"
    settings = {"application_name": "leaks"}
    for _ in range(5):
        async with howdah.create_pool(**spec, min_size=5, max_size=5, server_settings=settings) as pool:
            tasks = [asyncio.ensure_future(pool.fetchval("select pg_sleep(0.01)")) for _ in range(50)]
            await asyncio.sleep(0.02)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert await watcher.fetchval(question) <= 5
    for _ in range(100):
        if await watcher.fetchval(question) == 0:
            break
        await asyncio.sleep(0.05)
    assert await watcher.fetchval(question) == 0
    await watcher.close()
