"""The clients of the cells: pgbench through HAProxy, and what each part of the fleet spent meanwhile."""

import dataclasses
import math
import os
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

from demo.flights import FEATURES
from devkit import Problem
from devkit.fleet import cpu_of_server, cpu_seconds

# How long so many clients take to connect, as far as has been seen: pgbench counts it as time of its own, and those who
# are in first wait for the others.
CONNECT_SECONDS = {}
ATTEMPTS = 4


@dataclasses.dataclass(frozen=True)
class Taken:
    """What one run came to: transactions, transactions and rows a second, latencies in milliseconds, CPU a transaction
    in microseconds by what spent it, and the part of the machine's CPU that the fleet and its clients used.
    """

    count: int
    rate: float
    rows: float
    p50: float
    p99: float
    cpu: dict
    busy: float


def statement(batch, neighbours=False):
    """The prediction of so many flights, by keys at random or, as neighbours, from a key at random on."""
    keys = ", ".join(f":k{number}" for number in range(batch))
    where = "id = :k0" if batch == 1 else f"id IN ({keys})"
    if neighbours and batch > 1:
        where = f"id >= :k0 ORDER BY id LIMIT {batch}"
    return f"SELECT id, pgml.predict('flights', ARRAY[{', '.join(FEATURES)}]) FROM keyed WHERE {where}"


def run(fleet, clients, batch, seconds, mode="prepared", port=None, sql=None):
    """Lets pgbench ask for `seconds` with so many clients, keys at random, through HAProxy unless through a port."""
    for _ in range(ATTEMPTS):
        connecting = CONNECT_SECONDS.get(clients, clients / 1000)
        taken, connected = attempt(fleet, clients, batch, seconds + connecting, mode, port, sql)
        CONNECT_SECONDS[clients] = max(connected * 1.2, clients / 1000)
        if taken is not None and connected < connecting + seconds / 2:
            return taken
    raise Problem(f"{clients} clients need {connected:.0f} s to connect, and more each time")


def attempt(fleet, clients, batch, duration, mode, port, sql):
    """One run of pgbench: what it came to, if anything, and how long the clients took to connect."""
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
        script = Path(folder) / "script.sql"
        keys = "".join(f"\\set k{number} random(1, {fleet.rows})\n" for number in range(batch))
        script.write_text(f"{keys}{sql or statement(batch)};\n")
        command = [fleet.primary.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(port or fleet.port)]
        command += ["-U", fleet.user, "-n", "-M", mode, "-c", str(clients), "-j", str(min(clients, 2))]
        command += ["-T", str(math.ceil(duration)), "-f", script, "--log", f"--log-prefix={folder}/log", fleet.database]
        before = costs(fleet)
        began = time.monotonic()
        mine = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, env=fleet.environment, check=False)
        lasted = time.monotonic() - began
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = {name: used - before[name] for name, used in costs(fleet).items()}
        spent["clients"] = ended.ru_utime + ended.ru_stime - mine.ru_utime - mine.ru_stime
        counted = re.search(r"actually processed: (\d+)", done.stdout)
        connected = re.search(r"initial connection time = ([\d.]+) ms", done.stdout)
        rate = re.search(r"tps = ([\d.]+)", done.stdout)
        if counted and int(counted.group(1)) == 0:
            return None, max(duration, float(connected.group(1)) / 1000 if connected else 0)
        if done.returncode != 0 or not counted or not connected or not rate:
            raise Problem(f"pgbench with {clients} clients: {(done.stderr or done.stdout).strip()[-300:]}")
        logs = (line for path in Path(folder).glob("log*") for line in path.read_text().splitlines())
        latencies = sorted(int(line.split()[2]) / 1000 for line in logs)
    count, rate = int(counted.group(1)), float(rate.group(1))
    cpu = {name: used / count * 1e6 for name, used in spent.items()}
    busy = sum(spent.values()) / lasted / os.cpu_count()
    taken = Taken(count, rate, rate * batch, at(latencies, 0.5), at(latencies, 0.99), cpu, busy)
    return taken, float(connected.group(1)) / 1000


def costs(fleet):
    """CPU seconds used so far by the servers, the poolers and HAProxy."""
    return {
        "servers": sum(cpu_of_server(server) for server in fleet.servers),
        "poolers": sum(cpu_seconds(pooler.pid) for pooler in fleet.poolers),
        "haproxy": cpu_seconds(fleet.proxy.pid),
    }


def at(ordered, share):
    """The quantile of ordered values."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
