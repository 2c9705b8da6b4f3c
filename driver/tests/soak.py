"""Long runs of the driver, each of which has to end well: what `make test` does for seconds, for minutes.

    PYTHONPATH=tools:.:driver/python build/venv/bin/python -m driver.tests.soak [--pg 18] [--seconds 60] [NAME ...]

The runs (all of them by default):

leaks    a million queries of every kind: references, memory, statements and connections stay as many as they were
kills    a thousand tasks over a pool of ten, while backends are killed at random
hostile  a server whose messages lie, one at a time: an exception, never a crash, a hang or much memory
chaos    every operation over a network that splits, delays, cuts and garbles

What is drawn at random comes from `--seed`, which is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import io
import random
import resource
import struct
import sys
import time

import howdah
import pyarrow
import uvloop

from devkit import postgres
from devkit.server import Server, end_on_signals
from driver.tests.chaos import ChaosProxy

# What an operation may end with when the other side lies or goes. MemoryError: a length that asks for too much.
ERRORS = (
    howdah.PostgresError,
    howdah.InterfaceError,
    howdah.InternalClientError,
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    TypeError,
    LookupError,
    MemoryError,
)


def memory():
    """The resident memory of this process, in megabytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


async def every_operation(connection):
    """Every operation of a connection, with what it answers."""
    answers = [
        await connection.fetchval("select 'one'"),
        await connection.fetch("select n, n::text, n::float8 from generate_series(1, 50) n where n > $1", 40),
        await connection.fetchrow("select :a::int as a, now() - now() as b", a=3, record_class=howdah.AttributeRecord),
        await connection.fetch("select array[1, null], row(1, 'a'), int4range(1, 5), '{}'::jsonb, 1.5::numeric, null"),
        await connection.execute("drop table if exists soaked; create temp table soaked (n int, t text)"),
    ]
    await connection.executemany("insert into soaked values ($1, $2)", [(n, str(n)) for n in range(100)])
    answers.append(await connection.fetchmany("select $1::int + 1", [(n,) for n in range(10)]))
    async with connection.transaction(isolation="repeatable_read"):
        answers.append([row[0] async for row in connection.cursor("select n from soaked order by n", prefetch=7)])
        cursor = await connection.cursor("select n from soaked order by n")
        answers += [await cursor.fetch(5), await cursor.forward(3), await cursor.fetchrow()]
        with contextlib.suppress(howdah.UndefinedColumnError):
            async with connection.transaction():
                await connection.fetch("select nothing")
        async with connection.transaction():
            await connection.execute("delete from soaked where n < 50")
    statement = await connection.prepare("select count(*) from soaked where t <> $1")
    answers += [await statement.fetchval("no"), statement.get_parameters(), statement.get_attributes()]
    answers.append(await connection.copy_records_to_table("soaked", records=[(n, None) for n in range(200)]))
    answers.append(await connection.copy_to_table("soaked", source=io.BytesIO(b"1\tx\n2\t\\N\n")))
    out = io.BytesIO()
    answers.append(await connection.copy_from_query("select n from soaked order by n", output=out))
    answers.append(out.getvalue())
    columns = await connection.fetch_columns("select n, t from soaked order by n, t", dictionary=["t"])
    answers.append(pyarrow.table(columns).num_rows)
    answers.append(await connection.copy_columns_to_table("soaked", source=columns))
    with contextlib.suppress(howdah.DivisionByZeroError):
        await connection.fetchval("select 1 / 0")
    answers.append(await asyncio.gather(*(connection.fetchval("select $1::int", n) for n in range(20))))
    async with connection.pipeline() as pipeline:
        first, second = pipeline.fetchval("select 1"), pipeline.execute("select 2")
    answers += [first.result(), second.result()]
    async with connection.notifications("soaking") as feed:
        await connection.execute("notify soaking, 'x'")
        answers.append((await feed.__anext__()).payload)
    answers.append(await connection.run_transaction(lambda it: it.fetchval("select count(*) from soaked")))
    await connection.execute("set work_mem = '5MB'")
    await connection.reset()
    answers.append(await connection.fetchval("show search_path"))
    await connection.execute("drop table soaked")
    return answers


async def leaks(spec, seconds, rng):
    """A million queries (fewer if the time is up: it says how many), and nothing more than there was."""
    connection = await howdah.connect(**spec)
    watcher = await howdah.connect(**spec)
    argument = "-".join(["an argument", "of its own"])

    async def work(rounds):
        for number in range(rounds):
            await asyncio.gather(
                *(
                    connection.fetch("select $1::int a, $2::text b, array[1, 2] c, now() d, null e", n, argument)
                    for n in range(90)
                )
            )
            for n in range(7):
                # A text of its own each: statements come and go in the cache.
                await connection.fetchval(f"select {number * 7 + n} + $1::int", n)
            with contextlib.suppress(howdah.DivisionByZeroError):
                await connection.fetchval("select $1::int / 0", 1)
            given_up = asyncio.ensure_future(connection.fetch("select pg_sleep(10)"))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            # As with asyncpg, who times out while he waits for another query's cancellation ends the connection.
            await connection.fetchval("select 1")
            with contextlib.suppress(asyncio.TimeoutError):
                await connection.fetchval("select pg_sleep(10)", timeout=0.0001)
            await connection.fetchval("select 2")
            if number % 100 == 0:
                await every_operation(connection)
                async with howdah.create_pool(**spec, min_size=2, max_size=2) as pool:
                    await asyncio.gather(*(pool.fetchval("select $1::text", argument) for _ in range(10)))

    async def counted():
        gc.collect()
        statements = await connection.fetchval("select count(*) from pg_prepared_statements")
        backends = await watcher.fetchval(
            "select count(*) from pg_stat_activity where backend_type = 'client backend' and state is not null"
        )
        return {
            "megabytes": memory(),
            "objects": len(gc.get_objects()),
            "blocks": sys.getallocatedblocks(),
            "references": sys.getrefcount(argument),
            "statements": statements,
            "backends": backends,
        }

    await work(300)
    before = await counted()
    ends = time.monotonic() + seconds
    rounds = 0
    while rounds < 10_000 and time.monotonic() < ends:
        await work(100)
        rounds += 100
    after = await counted()
    print(f"leaks: {rounds * 100} queries; before {before}, after {after}")
    assert after["megabytes"] - before["megabytes"] < 8
    assert after["objects"] - before["objects"] < 300
    assert after["blocks"] - before["blocks"] < 3000
    assert after["references"] == before["references"]
    assert after["statements"] <= 101
    assert after["backends"] <= before["backends"]
    await connection.close()
    await watcher.close()


async def kills(spec, seconds, rng):
    """A thousand tasks over a pool of ten; each answer is right or an error that says why there is none."""
    ends = time.monotonic() + seconds
    counts = {"right": 0, "failed": 0, "cancelled": 0, "killed": 0}
    async with howdah.create_pool(**spec, min_size=10, max_size=10, max_lifetime=2, health_check_interval=0.5) as pool:
        killer = await howdah.connect(**spec)

        async def one(number):
            if number % 4 == 0:
                async with pool.acquire() as connection, connection.transaction():
                    return await connection.fetchval("select $1::int", number)
            if number % 4 == 1:
                return await asyncio.wait_for(pool.fetchval("select $1::int from pg_sleep(0.001)", number), 5)
            return await pool.fetchval("select $1::int", number)

        async def work(number):
            while time.monotonic() < ends:
                task = asyncio.ensure_future(one(number))
                if rng.random() < 0.02:
                    await asyncio.sleep(rng.random() * 0.05)
                    task.cancel()
                try:
                    assert await task == number
                    counts["right"] += 1
                except asyncio.CancelledError:
                    counts["cancelled"] += 1
                except (howdah.PostgresError, howdah.InterfaceError, OSError, asyncio.TimeoutError):
                    counts["failed"] += 1

        async def kill():
            while time.monotonic() < ends:
                pids = await killer.fetch(
                    "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
                )
                if pids:
                    await killer.execute("select pg_terminate_backend($1)", rng.choice(pids)[0])
                    counts["killed"] += 1
                await asyncio.sleep(0.02)

        await asyncio.wait_for(asyncio.gather(kill(), *(work(number) for number in range(1000))), seconds + 60)
        await killer.close()
        again = await asyncio.wait_for(asyncio.gather(*(pool.fetchval("select $1::int", n) for n in range(100))), 30)
        numbers = pool.get_statistics()
        print(f"kills: {counts}, {numbers}")
        assert again == list(range(100))
        assert counts["right"] > 10 * counts["failed"]
        assert (numbers.in_use, numbers.waiting, pool._queue.qsize()) == (0, 0, 10)


LIES = ("length", "body", "number", "cut", "longer", "drop", "twice", "tag", "insert", "noise")


class HostileProxy(ChaosProxy):
    """A server of which one message in `period`, about, is not what it should be."""

    def __init__(self, host, port, rng, period):
        super().__init__(host, port)
        self.rng = rng
        self.period = period
        self.rest = b""
        self.lies = []

    def _spoil(self, data):
        data, self.rest = self.rest + data, b""
        out = bytearray()
        place = 0
        while len(data) - place >= 5:
            end = place + 1 + struct.unpack_from("!I", data, place + 1)[0]
            if end > len(data):
                break
            message = data[place:end]
            if self.rng.random() * self.period < 1:
                message = self._lie(message)
            out += message
            place = end
        self.rest = data[place:]
        return bytes(out)

    def _lie(self, message):
        rng, tag, body = self.rng, message[:1], message[5:]
        kind = rng.choice(LIES)
        self.lies.append((kind, message[:60]))
        if kind == "length":
            length = rng.choice([0, 1, 3, 4, 5, len(body), len(body) + 5, 2**16, 2**30, 2**31 - 1, 2**31, 2**32 - 1])
            return tag + struct.pack("!I", length) + body
        if kind in ("body", "number") and body:
            garbage = rng.randbytes(rng.choice([1, 2, 4]))
            if kind == "number":
                number = rng.choice([0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1])
                garbage = struct.pack("!I", number)[-rng.choice([2, 4]) :]
            start = rng.randrange(len(body))
            body = (body[:start] + garbage + body[start + len(garbage) :])[: len(body)]
        elif kind == "cut":
            body = body[: rng.randrange(len(body) + 1)]
        elif kind == "longer":
            body += rng.randbytes(rng.choice([1, 4, 100]))
        elif kind == "drop":
            return b""
        elif kind == "twice":
            return message * 2
        elif kind == "tag":
            tag = rng.choice(b"RSKZEN123CDTtnsIAGHWdcvpx\x00").to_bytes(1, "big")
        elif kind == "insert":
            extra = rng.randbytes(rng.randrange(30))
            return (
                rng.choice([b"D", b"T", b"Z", b"G", b"H", b"A", b"S"])
                + struct.pack("!I", len(extra) + 4)
                + extra
                + message
            )
        elif kind == "noise":
            return rng.randbytes(rng.randrange(1, 40))
        return tag + struct.pack("!I", len(body) + 4) + body


async def hostile(spec, seconds, rng):
    """Lies in any message: an exception or an answer, in bounded time and memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (virtual_memory() + 2**31, hard))
    ends = time.monotonic() + seconds
    before = memory()
    sessions, refused, answered, stalled = 0, 0, 0, 0
    try:
        while time.monotonic() < ends:
            sessions += 1
            async with HostileProxy(spec["host"], spec["port"], rng, rng.choice([30, 150, 600])) as proxy:
                try:
                    connection = await howdah.connect(**{**spec, "port": proxy.port, "ssl": False}, timeout=1)
                except (*ERRORS, asyncio.TimeoutError):
                    refused += 1
                    continue
                task = asyncio.ensure_future(every_operation(connection))
                done, _ = await asyncio.wait([task], timeout=0.5)
                stalled += not done
                connection.terminate()
                done, _ = await asyncio.wait([task], timeout=10)
                assert done, f"hung, the connection being closed, after {proxy.lies}"
                error = task.exception()
                assert error is None or isinstance(error, (*ERRORS, AssertionError)), (error, proxy.lies)
                answered += error is None
                assert memory() - before < 300, proxy.lies
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    gc.collect()
    print(
        f"hostile: {sessions} sessions; {refused} refused at login, {stalled} given up waiting, {answered} unharmed; "
        f"{before:.0f} MB before, {memory():.0f} MB after"
    )


def virtual_memory():
    """The address space of this process, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


async def chaos(spec, seconds, rng):
    """Networks at their worst: whatever happens, every operation ends."""

    async def through(limit=60, **rules):
        async with ChaosProxy(spec["host"], spec["port"], **rules) as proxy:
            connection = await howdah.connect(**{**spec, "port": proxy.port, "ssl": False}, timeout=limit)
            task = asyncio.ensure_future(every_operation(connection))
            done, _ = await asyncio.wait([task], timeout=limit)
            connection.terminate()
            await asyncio.wait([task], timeout=5)
            assert task.done(), f"hung, the connection being closed, under {rules}"
            error = task.exception()
            if error is not None and done:
                raise error
            return task.result() if done else None, proxy.passed

    ends = time.monotonic() + seconds
    expected, length = await through()
    counts = {"split": 0, "delay": 0, "cut": 0, "garble": 0}
    cut = 0
    while time.monotonic() < ends:
        split = rng.choice([1, 2, 3, 5, 7, 64, 1000])
        found, _ = await through(split=split)
        assert repr(found) == repr(expected), f"split {split}: {found} {expected}"
        counts["split"] += 1
        found, _ = await through(delay=rng.random() * 0.003)
        assert repr(found) == repr(expected)
        counts["delay"] += 1
        for _ in range(50):
            # Each byte in turn; a step that shares no factor with the length comes to all of them.
            cut = (cut + 9973) % length
            with contextlib.suppress(*ERRORS):
                await through(limit=5, cut_after=cut + 1)
            counts["cut"] += 1
            with contextlib.suppress(*ERRORS, AssertionError, asyncio.TimeoutError):
                await through(limit=1, garble=(rng.randrange(length), rng.randbytes(rng.choice([1, 2, 5, 30]))))
            counts["garble"] += 1
            if time.monotonic() > ends:
                break
    print(f"chaos: {counts}, of {length} bytes")


RUNS = {run.__name__: run for run in (leaks, kills, hostile, chaos)}


def main():
    """Runs what is asked for; each run on asyncio's loop or uvloop, in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *RUNS], help=", ".join(RUNS))
    parser.add_argument("--pg", type=int, default=18, help="the PostgreSQL to run on (18)")
    parser.add_argument("--seconds", type=float, default=60, help="how long each run takes, at most (60)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="what random choices come from")
    options = parser.parse_args()
    end_on_signals()
    print(f"seed {options.seed}")
    with Server(postgres.tree(options.pg), settings={"max_connections": "100"}) as server:
        spec = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "password": server.password}
        spec["database"] = "postgres"
        for number, name in enumerate(options.names or RUNS):
            loop = [asyncio.new_event_loop, uvloop.new_event_loop][(number + options.seed) % 2]
            rng = random.Random(options.seed)
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(RUNS[name](spec, options.seconds, rng))


if __name__ == "__main__":
    main()
