"""The pooler beside PgBouncer: `pgbench -S` and TPC-B through each, by TCP, with the same servers behind both.

A pool size is chosen for each side from a few by a first sweep at 100 clients. CPU is the pooler process's own, from
/proc, over the transactions that pgbench counted. Debian's PgBouncer is wanted on PATH or in /usr/sbin; without it the
bench says so and measures nothing.
"""

import itertools
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, postgres, say
from devkit.places import as_server_user
from devkit.pooler import build_pooler, program
from devkit.server import SUPERUSER, Server, environment, free_port

CASES = [
    *((mode, clients, ["-S"]) for clients in (1, 10, 100, 1000) for mode in ("simple", "extended", "prepared")),
    ("simple", 10, []),
    ("simple", 100, []),
]
# What the transactions a second (at least) and the CPU a query (at most) should be, in parts of PgBouncer's.
TARGETS = {1: (None, 1.05), 10: (1.05, 0.95), 100: (1.8, 0.55), 1000: (1.4, 0.65)}
SIZES = (2, 5, 10, 20)


class Direct:
    """The server itself."""

    def __init__(self, server):
        self.name, self.server, self.port, self.process = "direct", server, server.port, None

    def cpu(self):
        """Nothing stands between."""
        return 0.0

    def pgbench(self, mode, clients, script, seconds, *more):
        """What pgbench counted: transactions, and transactions a second."""
        command = [self.server.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER, "-n"]
        command += [*script, "-M", mode, "-c", str(clients), "-j", str(min(clients, 2)), "-T", str(seconds), *more]
        environ = environment() | {"PGPASSWORD": self.server.password}
        done = subprocess.run([*command, "postgres"], capture_output=True, text=True, env=environ, check=False)
        counted = re.search(r"actually processed: (\d+)", done.stdout)
        rate = re.search(r"tps = ([\d.]+)", done.stdout)
        if done.returncode != 0 or not counted or not rate:
            raise Problem(f"pgbench through {self.name}: {(done.stderr or done.stdout).strip()[-300:]}")
        return int(counted.group(1)), float(rate.group(1))

    def measure(self, mode, clients, script, seconds, costs=None):
        """Transactions a second; the CPU a transaction, in microseconds, is appended to `costs`."""
        before = self.cpu()
        count, tps = self.pgbench(mode, clients, script, seconds)
        if costs is not None:
            costs.append((self.cpu() - before) / max(count, 1) * 1e6)
        return tps

    def latencies(self, mode, clients, script, seconds):
        """How long transactions took, in milliseconds, in order."""
        with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
            self.pgbench(mode, clients, script, seconds, "--log", f"--log-prefix={folder}/log")
            lines = (line for path in Path(folder).iterdir() for line in path.read_text().splitlines())
            return sorted(int(line.split()[2]) / 1000 for line in lines)

    def ask(self, sql):
        """Runs a statement and throws its rows away."""
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER, "-d", "postgres"]
        command = [self.server.tree.program("psql"), "--no-psqlrc", "-qAt", *place, "-c", sql]
        environ = environment() | {"PGPASSWORD": self.server.password}
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environ, check=False)
        if done.returncode != 0:
            raise Problem(f"psql through {self.name}: {done.stderr.decode().strip()[-300:]}")


class Side(Direct):
    """One pooler, started with a pool size and these other settings; as one of several servers where `cluster` says
    whether reads are told from writes.
    """

    def __init__(self, name, command, server, size, settings="", cluster=None):
        self.name, self.server, self.port = name, server, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="howdah-bench-", dir="/tmp"))
        self.folder.chmod(0o755)
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(
            f"""[databases]
            * = host={server.socket_folder} port={server.port} user={SUPERUSER}
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = any
            pool_mode = transaction
            default_pool_size = {size}
            max_client_conn = 5000
            log_connections = 0
            log_disconnections = 0
            {settings}
            """
        )
        if cluster is not None:
            ini = self.folder / "howdah.toml"
            ini.write_text(
                f"""[pooler]
                listen_addr = "127.0.0.1"
                listen_port = {self.port}
                unix_socket_dir = ""
                auth_type = "any"
                default_pool_size = {size}
                max_client_conn = 5000
                log_connections = false
                log_disconnections = false
                [databases."*"]
                user = "{SUPERUSER}"
                servers = [{{host = "{server.socket_folder}", port = {server.port}}}]
                primary_reads = "on"
                read_write_splitting = {str(cluster).lower()}
                """
            )
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen([*command, ini], stderr=log, stdout=log, cwd="/", **as_server_user())
        for _ in range(100):
            if server.run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise Problem(f"{name} did not start: {(self.folder / 'log').read_text()}")

    def stop(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory(self):
        """Bytes of memory that are its own (PSS)."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s+(\d+)", lines, re.MULTILINE).group(1)) * 1024

    def cpu(self):
        """CPU seconds used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(quick):
    """The report."""
    bouncer = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if bouncer is None:
        raise Problem("there is no pgbouncer to compare with: `apt-get install pgbouncer`")
    build_pooler()
    rounds, seconds = (2, 2) if quick else (5, 5)
    # A place that any account may run it from.
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        own = shutil.copy(program(), folder)
        with Server(postgres.tree(postgres.NEWEST), {"max_connections": "200"}) as server:
            server.run("pgbench", "-i", "-q", "-s", "10", "postgres")
            report = Report("pooler", quick)
            report.content["pgbouncer"] = subprocess.run(
                [bouncer, "--version"], capture_output=True, text=True, check=False
            ).stdout.split("\n")[0]
            commands = {"howdah": [own], "pgbouncer": [bouncer, "-q"]}
            sides = {}
            try:
                for name, command in commands.items():
                    size = best_size(name, command, server, 1 if quick else 3)
                    report.content[f"{name}_pool_size"] = size
                    sides[name] = Side(name, command, server, size)
                for mode, clients, script in CASES:
                    compare(report, sides, mode, clients, script, rounds, seconds)
                beyond(report, sides, own, server, rounds, seconds)
            finally:
                for side in sides.values():
                    side.stop()
    return report


def best_size(name, command, server, seconds):
    """The pool size with the most transactions a second at 100 clients."""
    found = {}
    for size in SIZES:
        side = Side(name, command, server, size)
        try:
            side.measure("simple", 100, ["-S"], 1)
            found[size] = side.measure("simple", 100, ["-S"], seconds)
        finally:
            side.stop()
    say.note(f"{name}, 100 clients, by pool size: " + ", ".join(f"{size}: {tps:,.0f}" for size, tps in found.items()))
    return max(found, key=found.get)


def compare(report, sides, mode, clients, script, rounds, seconds):
    """One case: both poolers in turn."""
    # PgBouncer before 1.21 has no prepared statements in transaction pooling: its extended protocol stands for them.
    modes = {"howdah": mode, "pgbouncer": "extended" if mode == "prepared" else mode}
    costs = {name: [] for name in sides}
    taken = interleave(
        {
            name: lambda side=side: side.measure(modes[side.name], clients, script, seconds, costs[side.name])
            for name, side in sides.items()
        },
        rounds,
    )
    case = f"{'-S' if script else 'TPC-B'} {mode}, {clients} clients"
    for name in sides:
        report.add(f"{case}: {name}", Spread.of(taken[name]), unit="transactions/s")
        report.add(f"{case}: CPU of {name}", Spread.of(costs[name][1:]), unit="us a transaction")
    faster, cheaper = TARGETS[clients] if script else (1.0, None)
    report.add(f"{case}: howdah / pgbouncer", ratios(taken["howdah"], taken["pgbouncer"]), target=faster)
    cost = ratios(costs["howdah"][1:], costs["pgbouncer"][1:])
    report.add(f"{case}: CPU, howdah / pgbouncer", cost, target=cheaper, at_most=True)


def beyond(report, sides, own, server, rounds, seconds):
    """What is not a transaction rate beside PgBouncer's."""
    howdah, bouncer, direct = sides["howdah"], sides["pgbouncer"], Direct(server)
    size = report.content["howdah_pool_size"]
    for mode in ("simple", "prepared"):
        run = {side: lambda side=side: side.measure(mode, 100, ["-S"], seconds) for side in (howdah, direct)}  # noqa: B023
        taken = interleave({side.name: call for side, call in run.items()}, rounds)
        report.add(f"-S {mode}, 100 clients: howdah / direct", ratios(taken["howdah"], taken["direct"]), target=2.5)

    plain = Side("howdah", [own], server, size, "pipelining = 0")
    try:
        for clients in (1, 100):
            costs = {"howdah": [], "pgbouncer": []}
            taken = interleave(
                {
                    side.name: lambda side=side: side.measure("simple", clients, ["-S"], seconds, costs[side.name])  # noqa: B023
                    for side in (plain, bouncer)
                },
                rounds,
            )
            case = f"pipelining off, -S simple, {clients} clients"
            slower = ratios(taken["pgbouncer"], taken["howdah"])
            report.add(f"{case}: time a transaction, howdah / pgbouncer", slower, target=1.05, at_most=True)
            cost = ratios(costs["howdah"][1:], costs["pgbouncer"][1:])
            report.add(f"{case}: CPU, howdah / pgbouncer", cost, target=1.05, at_most=True)
    finally:
        plain.stop()

    split, whole = (Side("howdah", [own], server, size, cluster=cluster) for cluster in (True, False))
    try:
        costs = {"on": [], "off": []}
        for _ in range(rounds + 1):
            split.measure("simple", 100, ["-S"], seconds, costs["on"])
            whole.measure("simple", 100, ["-S"], seconds, costs["off"])
        cost = ratios(costs["on"][1:], costs["off"][1:])
        report.add("read/write splitting on / off, 100 clients: CPU a query", cost, target=1.1, at_most=True)
    finally:
        split.stop()
        whole.stop()

    tails = []
    for _ in range(rounds):
        found = howdah.latencies("simple", 1000, ["-S"], seconds)
        tails.append(at(found, 0.99) / at(found, 0.5))
    report.add("-S simple, 1000 clients: p99 / p50", Spread.of(tails), target=3, at_most=True)
    ratio = [
        with_sleepers(howdah, seconds) / at(howdah.latencies("simple", 100, ["-S"], seconds), 0.99)
        for _ in range(rounds)
    ]
    report.add(
        "100 clients: p99 among pg_sleep(1) of new shapes / p99 without", Spread.of(ratio), target=2, at_most=True
    )

    large = "SELECT repeat('x', 1000) FROM generate_series(1, 100000)"
    taken = interleave({side.name: lambda side=side: timed(side, large) for side in (howdah, direct)}, rounds)
    report.add("a result of 100 MB: throughput, howdah / direct", ratios(taken["direct"], taken["howdah"]), target=0.8)
    report.add("memory of an idle client", Spread.of([idle_bytes(howdah)]), unit="bytes", target=2048, at_most=True)


def at(ordered, share):
    """The quantile of ordered values."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def with_sleepers(side, seconds):
    """The p99 of short statements of 100 clients while four others send ones of a second, each of a new shape."""
    ending = threading.Event()

    def sleep(number):
        for turn in itertools.count():
            if ending.is_set():
                return
            side.ask(f"SELECT pg_sleep(1) AS shape_{number}_{turn}_{time.monotonic_ns()}")

    sleepers = [threading.Thread(target=sleep, args=(number,)) for number in range(4)]
    for sleeper in sleepers:
        sleeper.start()
    try:
        return at(side.latencies("simple", 100, ["-S"], max(seconds, 3)), 0.99)
    finally:
        ending.set()
        for sleeper in sleepers:
            sleeper.join()


def timed(side, sql):
    """Seconds that a statement takes."""
    began = time.monotonic()
    side.ask(sql)
    return time.monotonic() - began


def idle_bytes(side, count=4000):
    """Memory that an idle client costs, by the difference that these make."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1000), hard))
    startup = b"\0\x03\0\0user\0" + SUPERUSER.encode() + b"\0database\0postgres\0\0"
    startup = (len(startup) + 4).to_bytes(4, "big") + startup
    clients = []
    try:
        before = side.memory()
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", side.port))
            client.sendall(startup)
            told = b""
            while b"Z\0\0\0\x05I" not in told:
                come = client.recv(4096)
                if not come:
                    raise Problem("the pooler let an idle client not in")
                told += come
            clients.append(client)
        return (side.memory() - before) / count
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
