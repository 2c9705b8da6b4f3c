"""Reads after one's own writes, through the pooler: how many are stale, who serves them, and what seeing to it costs.

`pgbench` writes a row through the pooler and reads it back by its key, each a statement of its own, over and over, with
16 clients; a read that does not find its row is counted on the primary. One pooler has `read_your_writes = "session"`,
its default, the other `"off"`; both have the same primary and two replicas, measured in turn. The replicas replay at
once, or one of them 200 ms late, or both. Beside the pairs four clients only read, as most do.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, postgres
from devkit.places import as_server_user
from devkit.pooler import build_pooler, program
from devkit.server import SUPERUSER, Server, environment, free_port

# A write and a read of what it wrote: the read is shown to no replica that lacks it.
PAIRS = """\\set n :n + 1
\\set key :client_id * 100000000 + :start + :n
INSERT INTO pairs VALUES (:key);
SELECT (count(*) = 0)::int AS missing FROM pairs WHERE k = :key \\gset
\\if :missing
INSERT INTO stale VALUES (:key);
\\endif
"""
READS = "\\set key random(1, 1000)\nSELECT count(*) FROM others WHERE k = :key;\n"
CLIENTS, READERS = 16, 4
KINDS = {"session": 'read_your_writes = "session"', "off": 'read_your_writes = "off"'}
DELAYS = {"replicas at once": (0, 0), "one replica 200 ms late": (0, 200), "both 200 ms late": (200, 200)}


class Pooler:
    """A pooler before a primary and its replicas."""

    def __init__(self, primary, replicas, setting, folder):
        self.primary, self.port = primary, free_port()
        places = ", ".join(f'{{ host = "{each.socket_folder}", port = {each.port} }}' for each in (primary, *replicas))
        config = Path(folder) / f"{self.port}.toml"
        config.write_text(
            f"""[pooler]
listen_port = {self.port}
unix_socket_dir = ""
auth_type = "any"
monitor_user = "{SUPERUSER}"
default_pool_size = 10
max_client_conn = 200
workers = 1
log_connections = false
log_disconnections = false
[databases.postgres]
user = "{SUPERUSER}"
servers = [{places}]
{setting}
"""
        )
        config.chmod(0o644)
        self.log = (Path(folder) / f"{self.port}.log").open("w")
        command = [Path(folder) / "howdah-pooler", config]
        self.process = subprocess.Popen(command, stderr=self.log, cwd="/", **as_server_user())

    def cpu(self):
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pgbench(self, script, clients, seconds, start):
        """Starts pgbench with a script."""
        path = Path(self.log.name).with_suffix(f".{clients}.sql")
        path.write_text(script)
        command = [self.primary.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER]
        command += ["-n", "-f", str(path), "-c", str(clients), "-j", "1", "-T", str(seconds)]
        command += ["-D", "n=0", "-D", f"start={start}", "postgres"]
        environ = environment() | {"PGPASSWORD": self.primary.password}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)

    def stop(self):
        """Ends it."""
        self.process.terminate()
        self.process.wait()
        self.log.close()


def measure(quick):
    """The report: stale reads, shares of the replicas and costs, for each delay."""
    build_pooler()
    seconds, rounds = (3, 1) if quick else (20, 3)
    settings = {"shared_buffers": "128MB", "max_connections": "100"}
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(Server(postgres.tree(postgres.NEWEST), settings))
        replicas = [stack.enter_context(primary.replica()) for _ in range(2)]
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp"))
        # A place that any account may run it from.
        Path(folder).chmod(0o755)
        shutil.copy(program(), Path(folder) / "howdah-pooler")
        primary.psql("""
            CREATE TABLE pairs (k bigint PRIMARY KEY); CREATE TABLE stale (k bigint);
            CREATE TABLE others AS SELECT generate_series(1, 1000) AS k; CREATE INDEX ON others (k);
            ANALYZE others;
        """)
        poolers = {name: Pooler(primary, replicas, setting, folder) for name, setting in KINDS.items()}
        for each in poolers.values():
            stack.callback(each.stop)
        report = Report("reads", quick)
        report.content["postgresql"] = primary.psql("SELECT version()")
        time.sleep(3)
        rows = []
        for case, delays in DELAYS.items():
            for replica, delay in zip(replicas, delays, strict=True):
                replica.psql(f"ALTER SYSTEM SET recovery_min_apply_delay = '{delay}ms'")
                replica.psql("SELECT pg_reload_conf()")
            rows += one_case(report, case, poolers, (primary, replicas), seconds, rounds)
        columns = ["", "stale of pairs", "pairs a second", "CPU of the pooler a pair", "read-backs by replicas"]
        report.table("Reads after one's own writes", columns, rows)
        plot(report)
    return report


def plot(report):
    """The share of the read-backs that replicas serve, with the setting and without."""
    shares = {}
    for case in report.cases:
        delays, _, name = case["case"].partition(": read-backs that replicas serve, ")
        if name:
            spread = Spread(*(case[key] for key in ("median", "least", "greatest")))
            shares.setdefault(f"read_your_writes = {name}", []).append((delays, spread))
    report.plot("shares", "Reads after one's own writes that replicas serve", "", "share", shares, kind="bar")


def one_case(report, case, poolers, servers, seconds, rounds):
    """Measures both settings in turn; the rows of the table."""
    found = {name: [] for name in poolers}
    sides = {name: lambda name=name: keep(found[name], pairs(poolers[name], *servers, seconds)) for name in poolers}
    interleave(sides, rounds)
    kept = {name: ones[1:] for name, ones in found.items()}
    total = sum(one["pairs"] for one in kept["session"])
    stale = {name: sum(one["stale"] for one in ones) for name, ones in kept.items()}
    report.add(f"{case}: stale of {total:,} pairs", Spread.of([stale["session"]]), target=0, at_most=True)
    report.add(f"{case}: stale with it off", Spread.of([stale["off"]]))
    costs = ratios([one["cost"] for one in kept["session"]], [one["cost"] for one in kept["off"]])
    report.add(f"{case}: CPU of the pooler a pair, session / off", costs)
    speed = ratios([one["rate"] for one in kept["session"]], [one["rate"] for one in kept["off"]])
    report.add(f"{case}: pairs a second, session / off", speed)
    rows = []
    for name, ones in kept.items():
        share = Spread.of([one["share"] for one in ones])
        report.add(f"{case}: read-backs that replicas serve, {name}", share)
        spreads = [Spread.of([one[what] for one in ones]) for what in ("rate", "cost")]
        rows.append([f"{case}, `{name}`", stale[name], *spreads, share])
    return rows


def keep(found, one):
    """Keeps all that was measured; the rate is what is shown as it goes."""
    found.append(one)
    return one["rate"]


def pairs(pooler, primary, replicas, seconds):
    """What a run has counted."""
    primary.psql("TRUNCATE stale")
    start = int(primary.psql("SELECT coalesce(max(k % 100000000), 0) FROM pairs"))
    before, scans = pooler.cpu(), [reads_of(replica) for replica in replicas]
    running = [pooler.pgbench(PAIRS, CLIENTS, seconds, start), pooler.pgbench(READS, READERS, seconds, 0)]
    counts = []
    for each in running:
        out, error = each.communicate(timeout=seconds * 10 + 60)
        counted = re.search(r"actually processed: (\d+)", out)
        if each.returncode != 0 or not counted:
            raise Problem(f"pgbench: {(error or out).strip()[-300:]}")
        counts.append(int(counted.group(1)))
    cost = (pooler.cpu() - before) / max(sum(counts), 1) * 1e6
    by_replicas = sum(reads_of(replica) for replica in replicas) - sum(scans)
    stale = int(primary.psql("SELECT count(*) FROM stale"))
    return {
        "pairs": counts[0],
        "stale": stale,
        "rate": counts[0] / seconds,
        "cost": cost,
        "share": by_replicas / counts[0],
        "reads": counts[1],
    }


def reads_of(server):
    """How many reads of pairs a server has answered; its sessions end, since they report them then at the latest."""
    server.psql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    return int(server.psql("SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_tables WHERE relname = 'pairs'"))
