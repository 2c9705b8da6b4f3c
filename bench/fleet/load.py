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

from devkit import Problem
from devkit.fleet import cpu_of_server, cpu_seconds
from devkit.flights import FEATURES

# How long it takes until every one of so many clients has connected, prepared its statement and had its first answer,
# as far as has been seen, by clients and replicas. What is measured begins then: to connect costs as much as many
# queries.
WARM_SECONDS = {}
ATTEMPTS = 3


@dataclasses.dataclass(frozen=True)
class Taken:
    """What one run came to: transactions, transactions and rows a second, latencies in milliseconds, CPU a transaction
    in microseconds by what spent it, and the part of the machine's CPU that the fleet and its clients used.
    """

    total: int
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
    key = (clients, port, len(fleet.replicas if fleet.used is None else fleet.used))
    for number in range(ATTEMPTS):
        duration = seconds + WARM_SECONDS.get(key, clients / 1000)
        taken, warm = attempt(fleet, clients, batch, duration, seconds, mode, port, sql, number == ATTEMPTS - 1)
        WARM_SECONDS[key] = warm * 1.2
        if taken is not None:
            return taken
    raise Problem(f"{clients} clients had hardly an answer in {duration:.0f} s")


def attempt(fleet, clients, batch, duration, seconds, mode, port, sql, last):
    """One run of pgbench: what it came to since each client had an answer, unless that was hardly a time; and how long
    that took.
    """
    duration = math.ceil(duration)
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
        script = Path(folder) / "script.sql"
        keys = "".join(f"\\set k{number} random(1, {fleet.rows})\n" for number in range(batch))
        script.write_text(f"{keys}{sql or statement(batch)};\n")
        command = [fleet.primary.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(port or fleet.port)]
        command += ["-U", fleet.user, "-n", "-M", mode, "-c", str(clients), "-j", str(min(clients, 2))]
        command += ["-T", str(duration), "-f", script, "--log", f"--log-prefix={folder}/log", fleet.database]
        began = time.time()
        mine = resource.getrusage(resource.RUSAGE_CHILDREN)
        # pgbench prepares for one client after the other, and waits each time: with servers that stand still in between
        # that takes longer than all the rest. So they are held when it has been done.
        share = fleet.share if fleet.shares is not None else None
        if share is not None:
            fleet.set_share(None)
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": fleet.environment}
        with subprocess.Popen([str(word) for word in command], **options) as done:
            time.sleep(max(duration - seconds, 0))
            held, before, used = time.time(), costs(fleet), cpu_seconds(done.pid)
            if share is not None:
                fleet.set_share(share)
            printed, complaint = done.communicate()
        lasted = time.time() - held
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = {name: total - before[name] for name, total in costs(fleet).items()}
        spent["clients"] = ended.ru_utime + ended.ru_stime - mine.ru_utime - mine.ru_stime - used
        counted = re.search(r"actually processed: (\d+)", printed)
        if done.returncode != 0 or not counted:
            raise Problem(f"pgbench with {clients} clients: {(complaint or printed).strip()[-300:]}")
        lines = [line.split() for path in Path(folder).glob("log*") for line in path.read_text().splitlines()]
    # Client, moment of the answer and milliseconds until it came; without what was under way at the end.
    answers = sorted((int(line[4]) + int(line[5]) / 1e6, line[0], int(line[2]) / 1000) for line in lines)
    first = {}
    for moment, client, _ in answers:
        first.setdefault(client, moment)
    end = min(began + duration, answers[-1][0])
    # The next run begins to measure by the clients' first answers, not by the moment at which this one did: else each
    # would be longer than the one before.
    ready = max(first.values())
    warm = max(held, ready)
    if last:
        # Somebody waits for long; the second half is what it is.
        warm = min(warm, began + duration / 2)
    elif len(first) < clients:
        return None, duration * 1.3
    latencies = sorted(latency for moment, _, latency in answers if warm < moment <= end)
    if end - warm < 1 or not latencies:
        return None, max(warm - began, 1)
    count, rate = sum(moment > held for moment, *_ in answers), len(latencies) / (end - warm)
    cpu = {name: used / count * 1e6 for name, used in spent.items()}
    busy = sum(spent.values()) / lasted / os.cpu_count()
    taken = Taken(int(counted.group(1)), rate, rate * batch, at(latencies, 0.5), at(latencies, 0.99), cpu, busy)
    return taken, min(ready, warm) - began


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
