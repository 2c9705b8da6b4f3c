"""One driver measured on one case, in a process of its own: prints rows a second and CPU a row as JSON.

python -m bench.driver_client DRIVER LOOP CASE SECONDS URL
"""

import asyncio
import io
import json
import sys
import threading
import time

SETUP = """
create table if not exists bench_bytea as
    select convert_to(repeat('x', 1024), 'utf8') as b from generate_series(1, 100);
create table if not exists bench_arrays as
    select (select array_agg(j) from generate_series(1, 100) j) as a from generate_series(1, 100);
create table if not exists bench_wide as
    select now() + interval '1 second' * i as a1, now() - interval '1 day' * i as a2, (i * 1.25)::numeric(12, 2) as b1,
        i::numeric / 7 as b2, gen_random_uuid() as c1, gen_random_uuid() as c2, current_date + i as d,
        jsonb_build_object('a', i) as e, 'text ' || i as f, 'another' as g
    from generate_series(1, 500) i;
create table if not exists bench_big as
    select i as a, i::bigint * 3 as b, i / 7.0::float8 as c, 'text ' || i as d, now() + interval '1 second' * i as e
    from generate_series(1, 100000) i;
create table if not exists bench_write (a int, b bigint, c double precision, d text, e timestamptz);
"""

# The four queries of the benchmark of 2016, and more.
QUERIES = {
    "pg_type": "select typname, typnamespace, typowner, typlen, typbyval, typcategory, typispreferred, typisdefined,"
    " typdelim, typrelid, typelem, typarray from pg_type where typtypmod = -1 and typisdefined = true",
    "integers": "select i from generate_series(1, 1000) i",
    "bytea": "select b from bench_bytea",
    "arrays": "select a from bench_arrays",
    "wide": "select * from bench_wide",
}
BIG = "select * from bench_big"
TEN = {*QUERIES, "select 1, 10 connections"}
WRITTEN = 1000


class Asyncpg:
    """asyncpg, and howdah by asyncpg's interface."""

    def __init__(self, module, url):
        self.module, self.url = module, url
        self.pool = None

    async def connect(self):
        """One connection."""
        return await self.module.connect(self.url)

    async def operation(self, case):
        """A coroutine function of a connection, which gives how many rows it was."""
        ours = self.module.__name__ == "howdah"
        if case in QUERIES:

            async def run(connection):
                return len(await connection.fetch(QUERIES[case]))
        elif case == "pool.fetchval" or (case == "100 fetchval at once" and not ours):
            self.pool = await self.module.create_pool(self.url, min_size=10, max_size=10)

            async def run(connection):
                await self.pool.fetchval("select 1")
                return 1
        elif case == "transaction + fetchval":

            async def run(connection):
                async with connection.transaction():
                    await connection.fetchval("select 1")
                return 1
        elif case == "executemany":
            rows = written()

            async def run(connection):
                await connection.executemany("insert into bench_write values ($1, $2, $3, $4, $5)", rows)
                return WRITTEN
        elif case == "copy in":
            rows = written() * 10

            async def run(connection):
                await connection.copy_records_to_table("bench_write", records=rows)
                return len(rows)
        elif case == "copy out":

            async def run(connection):
                query = "select * from bench_big limit 20000"
                await connection.copy_from_query(query, output=io.BytesIO(), format="binary")
                return 20000
        elif case == "columns":

            async def run(connection):
                return (await connection.fetch_columns(BIG)).num_rows
        else:

            async def run(connection):
                await connection.fetchval("select 1")
                return 1

        return run

    async def finish(self):
        """Lets go of what the operation needed."""
        if self.pool is not None:
            await self.pool.close()


class Psycopg:
    """psycopg 3 with its C part, asynchronous."""

    def __init__(self, module, url):
        self.module, self.url = module, url

    async def connect(self):
        """One connection, which prepares what it is asked at once."""
        connection = await self.module.AsyncConnection.connect(self.url, autocommit=True)
        connection.prepare_threshold = 0
        return connection

    async def operation(self, case):
        """As for asyncpg; None for what it has no counterpart of."""
        if case in QUERIES or case.startswith("select 1,"):

            async def run(connection):
                cursor = connection.cursor(binary=True)
                await cursor.execute(QUERIES.get(case, "select 1"))
                return len(await cursor.fetchall())

            return run
        if case == "executemany":
            rows = written()

            async def run(connection):
                await connection.cursor().executemany("insert into bench_write values (%s, %s, %s, %s, %s)", rows)
                return WRITTEN

            return run
        return None

    async def finish(self):
        """Nothing."""


def written():
    """Rows to be written."""
    import datetime

    now = datetime.datetime.now(datetime.timezone.utc)
    return [(i, i * 3, i / 7, f"text {i}", now) for i in range(WRITTEN)]


async def measure(driver, case, seconds):
    """Rows a second, and CPU microseconds a row."""
    at_once = case == "100 fetchval at once"
    operation = await driver.operation(case)
    if operation is None:
        return None
    connections = [await driver.connect() for _ in range(10 if case in TEN else 1)]
    await connections[0].execute("truncate bench_write")
    result = None
    for phase in (min(0.3, seconds), seconds):
        count = 0
        end = time.perf_counter() + phase

        async def work(connection, end=end):
            nonlocal count
            while time.perf_counter() < end:
                # Added after the wait, for others count in the meantime.
                rows = await operation(connection)
                count += rows

        start, cpu = time.perf_counter(), time.process_time()
        tasks = 100 if at_once else 10 if case == "pool.fetchval" else len(connections)
        await asyncio.gather(*(work(connections[i % len(connections)]) for i in range(tasks)))
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        result = {"rate": count / wall, "cpu": cpu / count * 1e6}
    await driver.finish()
    for connection in connections:
        await connection.close()
    return result


def measure_blocking(name, url, case, seconds):
    """The same for a driver that blocks: a thread for each connection."""
    threads = 10 if case in TEN else 1
    if name == "psycopg2":
        import psycopg2

        query = QUERIES.get(case, "select 1" if case.startswith("select 1,") else None)
        if query is None:
            return None

        def opened():
            connection = psycopg2.connect(url)
            connection.autocommit = True
            return connection

        def operation(connection):
            cursor = connection.cursor()
            cursor.execute(query)
            return len(cursor.fetchall())
    else:
        import adbc_driver_postgresql.dbapi

        query = QUERIES.get(case) if case != "columns" else BIG
        if query is None:
            return None

        def opened():
            return adbc_driver_postgresql.dbapi.connect(url)

        def operation(connection):
            with connection.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetch_arrow_table().num_rows

    connections = [opened() for _ in range(threads)]
    result = None
    for phase in (min(0.3, seconds), seconds):
        counts = [0] * threads
        end = time.perf_counter() + phase

        def work(i, end=end, counts=counts):
            while time.perf_counter() < end:
                counts[i] += operation(connections[i])

        start, cpu = time.perf_counter(), time.process_time()
        workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        result = {"rate": sum(counts) / wall, "cpu": cpu / sum(counts) * 1e6}
    for connection in connections:
        connection.close()
    return result


def main():
    """Runs what the command line says."""
    name, loop, case, seconds, url = sys.argv[1:]
    if name in ("psycopg2", "adbc"):
        print(json.dumps(measure_blocking(name, url, case, float(seconds))))
        return
    module = __import__(name)
    driver = (Psycopg if name == "psycopg" else Asyncpg)(module, url)
    if case == "columns" and name != "howdah":
        print(json.dumps(None))
    elif case == "setup":

        async def setup():
            connection = await driver.connect()
            await connection.execute(SETUP)
            await connection.close()

        asyncio.run(setup())
    elif loop == "uvloop":
        import uvloop

        print(json.dumps(uvloop.run(measure(driver, case, float(seconds)))))
    else:
        print(json.dumps(asyncio.run(measure(driver, case, float(seconds)))))


if __name__ == "__main__":
    main()
