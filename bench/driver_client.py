"""One driver in a process of its own, told case after case by lines of JSON: what `bench.driver` measures with.

python -m bench.driver_client DRIVER LOOP URL

`{"open": CASE}` does the case once, and answers whether the driver has it; `{"run": SECONDS}` answers
with the rows a second and the microseconds of CPU a row of this process (all its threads, user and kernel);
`{"touch": TIMES}` with the microseconds that it takes to take every value of a result, a row; `{"close": true}` ends
the case. Connections stay open from case to case.
"""

import asyncio
import gc
import importlib
import json
import sys
import threading
import time

from bench.driver_cases import QUERIES, connections, expected, tasks
from bench.driver_sides import SIDES


def told():
    """The next command, or None at the end."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def tell(answer):
    """Answers."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def rows_of(case, result):
    """How many rows the case is, by a result of it; raises when the result is not what it must be."""
    wanted = expected(case)
    found = len(result) if case in QUERIES else result if wanted else 1
    if not found or found != (wanted or found) or (wanted is None and case not in QUERIES and result != 1):
        raise ValueError(f"{case} gave {found} rows and not {wanted}: {result!r:.100}")
    return found


def measured(counted, start):
    """Rows a second and CPU a row."""
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    return {"rate": counted / wall, "cpu": cpu / counted * 1e6}


def clocks():
    """Now, and the CPU so far."""
    gc.collect()
    return time.perf_counter(), time.process_time()


def touched(result):
    """CPU microseconds a row to take every value of the rows, and to take each as text."""
    start = time.process_time()
    for row in result:
        for _value in row:
            pass
    taken = time.process_time()
    for row in result:
        for value in row:
            str(value)
    shown = time.process_time()
    return [(taken - start) / len(result) * 1e6, (shown - taken) / len(result) * 1e6]


class Asynchronous:
    """A driver for asyncio."""

    def __init__(self, side):
        self.side = side
        self.case = self.operation = self.rows = None
        self.open = []

    async def opened(self, case):
        """Connects for a case; whether the driver has it."""
        self.case = case
        self.operation = await self.side.operation(case)
        if self.operation is None:
            return False
        # They stay open from case to case.
        while len(self.open) < connections(case):
            self.open.append(await self.side.connect())
        self.rows = rows_of(case, await self.operation(self.open[0]))
        return True

    async def run(self, seconds):
        """Measures for so long."""
        counted = 0
        operation, loop = self.operation, asyncio.get_running_loop()
        many, used = tasks(self.case), connections(self.case)
        start = clocks()
        end = loop.time() + seconds

        async def work(connection):
            nonlocal counted
            mine = 0
            while loop.time() < end:
                await operation(connection)
                mine += 1
            counted += mine

        await asyncio.gather(*(work(self.open[i % used]) for i in range(many)))
        return measured(counted * self.rows, start)

    async def touch(self, times):
        """Touches so many results."""
        return [touched(await self.operation(self.open[0])) for _ in range(times)]

    async def close(self):
        """Ends the case."""
        await self.side.finish()

    async def disconnect(self):
        """Disconnects."""
        for connection in self.open:
            await connection.close()

    async def serve(self):
        """Does what it is told."""
        while command := told():
            if "open" in command:
                tell(await self.opened(command["open"]))
            elif "run" in command:
                tell(await self.run(command["run"]))
            elif "touch" in command:
                tell(await self.touch(command["touch"]))
            else:
                await self.close()
                tell(True)
        await self.disconnect()


class Blocking:
    """A driver that blocks: a thread for each task."""

    def __init__(self, side):
        self.side = side
        self.case = self.operation = self.rows = None
        self.open = []

    def opened(self, case):
        """Connects for a case; whether the driver has it."""
        self.case = case
        self.operation = self.side.operation(case)
        if self.operation is None:
            return False
        while len(self.open) < connections(case):
            self.open.append(self.side.connect())
        self.rows = rows_of(case, self.operation(self.open[0]))
        return True

    def run(self, seconds):
        """Measures for so long."""
        many, used = tasks(self.case), connections(self.case)
        counts = [0] * many
        operation = self.operation
        start = clocks()
        end = time.perf_counter() + seconds

        def work(i):
            connection = self.open[i % used]
            mine = 0
            while time.perf_counter() < end:
                operation(connection)
                mine += 1
            counts[i] = mine

        workers = [threading.Thread(target=work, args=(i,)) for i in range(many)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return measured(sum(counts) * self.rows, start)

    def touch(self, times):
        """Touches so many results."""
        return [touched(self.operation(self.open[0])) for _ in range(times)]

    def close(self):
        """Ends the case."""
        self.side.finish()

    def disconnect(self):
        """Disconnects."""
        for connection in self.open:
            connection.close()

    def serve(self):
        """Does what it is told."""
        while command := told():
            if "open" in command:
                tell(self.opened(command["open"]))
            elif "run" in command:
                tell(self.run(command["run"]))
            elif "touch" in command:
                tell(self.touch(command["touch"]))
            else:
                self.close()
                tell(True)
        self.disconnect()


def main():
    """Serves the driver that the command line names."""
    name, loop, url = sys.argv[1:]
    module, side = SIDES[name]
    side = side(importlib.import_module(module), url)
    if side.blocking:
        Blocking(side).serve()
    elif loop == "uvloop":
        import uvloop

        uvloop.run(Asynchronous(side).serve())
    else:
        asyncio.run(Asynchronous(side).serve())


if __name__ == "__main__":
    main()
