"""One of Python's drivers in a process of its own, told what to do by lines of JSON.

python -m bench.toolbench.client DRIVER URL CONNECTIONS

`{"open": {"name": NAME, "query": SQL}}` connects, if that has not been done, and answers with the number of rows of the
query; `{"run": SECONDS}` has every connection ask it again and again, and answers with the queries and rows a second,
the microseconds of CPU a row of this process, and the mean, median and 99th percentile of the latency in ms.

Drivers for asyncio run on uvloop, the blocking one with a thread for each connection.
"""

import asyncio
import gc
import importlib
import sys
import threading
import time

from bench.driver_cases import QUERIES
from bench.driver_client import tell, told
from bench.driver_sides import SIDES


class Aiopg:
    """aiopg: psycopg2's asynchronous mode behind asyncio."""

    blocking = False

    def __init__(self, module, url):
        self.module, self.url = module, url

    async def connect(self):
        """One connection."""
        return await self.module.connect(self.url)

    async def operation(self, case):
        """The case as a coroutine function."""
        query = QUERIES[case]

        async def fetch(connection):
            async with connection.cursor() as cursor:
                await cursor.execute(query)
                return await cursor.fetchall()

        return fetch


def summary(latencies, rows, wall, cpu):
    """What was measured; latencies in seconds."""
    latencies.sort()

    def at(part):
        return latencies[min(len(latencies) - 1, int(part * len(latencies)))] * 1000

    return {
        "queries": len(latencies) / wall,
        "rows": rows * len(latencies) / wall,
        "cpu": cpu / (rows * len(latencies)) * 1e6,
        "mean": sum(latencies) / len(latencies) * 1000,
        "p50": at(0.5),
        "p99": at(0.99),
    }


async def serve(side, count):
    """Does what it is told, with a driver for asyncio."""
    connections = []
    operation = rows = None
    while command := told():
        if "open" in command:
            while len(connections) < count:
                connections.append(await side.connect())
            operation = await side.operation(command["open"]["name"])
            rows = len(await operation(connections[0]))
            tell({"rows": rows})
            continue
        latencies = []
        gc.collect()
        start, cpu = time.perf_counter(), time.process_time()
        end = start + command["run"]

        async def work(connection, operation=operation, latencies=latencies, end=end):
            before = time.perf_counter()
            while before < end:
                await operation(connection)
                now = time.perf_counter()
                latencies.append(now - before)
                before = now

        await asyncio.gather(*map(work, connections))
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        tell(summary(latencies, rows, wall, cpu))
    for connection in connections:
        await connection.close()


def serve_blocking(side, count):
    """Does what it is told, with a driver that blocks."""
    connections = []
    operation = rows = None
    while command := told():
        if "open" in command:
            while len(connections) < count:
                connections.append(side.connect())
            operation = side.operation(command["open"]["name"])
            rows = len(operation(connections[0]))
            tell({"rows": rows})
            continue
        latencies = []
        gc.collect()
        start, cpu = time.perf_counter(), time.process_time()
        end = start + command["run"]

        def work(connection, operation=operation, latencies=latencies, end=end):
            before = time.perf_counter()
            while before < end:
                operation(connection)
                now = time.perf_counter()
                latencies.append(now - before)
                before = now

        threads = [threading.Thread(target=work, args=(connection,)) for connection in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        tell(summary(latencies, rows, wall, cpu))
    for connection in connections:
        connection.close()


def main():
    """Serves the driver that the command line names."""
    name, url, count = sys.argv[1:]
    module, kind = {**SIDES, "aiopg": ("aiopg", Aiopg)}[name]
    side = kind(importlib.import_module(module), url)
    if side.blocking:
        serve_blocking(side, int(count))
    else:
        import uvloop

        uvloop.run(serve(side, int(count)))


if __name__ == "__main__":
    main()
