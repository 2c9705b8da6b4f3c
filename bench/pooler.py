"""The pooler beside PgBouncer: `pgbench -S` and TPC-B through each, by TCP, with the same servers behind both.

A pool size is chosen for each side from a few by a first sweep at 100 clients. CPU is the pooler process's own, from
/proc, over the transactions that pgbench counted. Debian's PgBouncer is wanted on PATH or in /usr/sbin; without it the
bench says so and measures nothing.
"""

import os
import re
import shutil
import subprocess
import tempfile
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


class Side:
    """One pooler, started with a pool size."""

    def __init__(self, name, command, server, size):
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

    def cpu(self):
        """CPU seconds used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def measure(self, mode, clients, script, seconds, costs=None):
        """Transactions a second; the CPU a transaction, in microseconds, is appended to `costs`."""
        before = self.cpu()
        command = [self.server.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER, "-n"]
        command += [*script, "-M", mode, "-c", str(clients), "-j", str(min(clients, 2)), "-T", str(seconds), "postgres"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
        counted = re.search(r"actually processed: (\d+)", done.stdout)
        if done.returncode != 0 or not counted:
            raise Problem(f"pgbench through {self.name}: {done.stderr.strip()[-300:]}")
        if costs is not None:
            costs.append((self.cpu() - before) / max(int(counted.group(1)), 1) * 1e6)
        return float(re.search(r"tps = ([\d.]+)", done.stdout).group(1))


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
