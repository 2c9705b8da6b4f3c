"""The clients of the cells: pgbench through HAProxy, and what each part of the fleet spent meanwhile."""

import dataclasses
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

# How long so many clients may take to connect before the time that is measured; pgbench counts it as its own.
CONNECT_SECONDS = {100: 0.5, 1000: 1.5, 2000: 3}


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
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
        script = Path(folder) / "script.sql"
        keys = "".join(f"\\set k{number} random(1, {fleet.rows})\n" for number in range(batch))
        script.write_text(f"{keys}{sql or statement(batch)};\n")
        command = [fleet.primary.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(port or fleet.port)]
        command += ["-U", fleet.user, "-n", "-M", mode, "-c", str(clients), "-j", str(min(clients, 2))]
        # Those who connect first wait for the others.
        duration = seconds + max(time for many, time in CONNECT_SECONDS.items() if many <= max(clients, 100))
        command += ["-T", str(round(duration)), "-f", script, "--log", f"--log-prefix={folder}/log", fleet.database]
        before = costs(fleet)
        began = time.monotonic()
        mine = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, capture_output=True, text=True, env=fleet.environment, check=False, timeout=duration + 60
        )
        lasted = time.monotonic() - began
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = {name: used - before[name] for name, used in costs(fleet).items()}
        spent["clients"] = ended.ru_utime + ended.ru_stime - mine.ru_utime - mine.ru_stime
        counted = re.search(r"actually processed: (\d+)", done.stdout)
        rate = re.search(r"tps = ([\d.]+)", done.stdout)
        if done.returncode != 0 or not counted or not rate:
            raise Problem(f"pgbench with {clients} clients: {(done.stderr or done.stdout).strip()[-300:]}")
        logs = (line for path in Path(folder).glob("log*") for line in path.read_text().splitlines())
        latencies = sorted(int(line.split()[2]) / 1000 for line in logs)
    count = int(counted.group(1))
    rate = float(rate.group(1))
    return Taken(
        count,
        rate,
        rate * batch,
        at(latencies, 0.5),
        at(latencies, 0.99),
        {name: seconds / count * 1e6 for name, seconds in spent.items()},
        sum(spent.values()) / lasted / os.cpu_count(),
    )


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
