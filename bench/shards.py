"""Statements of one shard through the pooler: what the routing costs, and what more shards carry.

- The CPU of the pooler for a point read that it routes to a shard, ÷ that of the same read through an entry that leads
  to the shard itself, where nothing is routed.
- INSERTs and point reads per second through 1, 2 and 4 shards, each server held to the same small share of a core by a
  control group, so that the machine has room for all of them and a shard more is capacity more.
- A report over all rows on the hub, ÷ the time of the same on one plain server, none of them held to a share.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.pooler import SCRIPTS, Direct, wait_for
from bench.report import Report, Spread, interleave, ratios
from devkit import postgres
from devkit.fleet import server_pids
from devkit.places import as_server_user, give_to_server_user
from devkit.pooler import build_pooler, program
from devkit.server import SUPERUSER, Server, free_port
from devkit.shards import install_into
from devkit.shares import Shares, why_not

COUNTS = (1, 2, 4)
ROWS = 100_000
CLIENTS, SIZE = 16, 8
# Of a core, for each server of a shard: four of them leave more than one core of two to the pooler and to pgbench.
SHARE = 0.12
SETTINGS = {"max_prepared_transactions": "10", "wal_level": "logical", "max_connections": "200"}
READ, WRITE = "point read", "INSERT"
TEXTS = {
    READ: f"\\set k random(1, {ROWS})\nSELECT v FROM items WHERE k = :k;\n",
    WRITE: "\\set k random(1, 1000000000)\nINSERT INTO added (k, v) VALUES (:k, 'x');\n",
}
REPORT = "SELECT v % 10, count(*), avg(v) FROM items GROUP BY 1"


class Sharded:
    """A hub, four shards, and a pooler: databases of one, two and four shards, and entries of each shard alone."""

    def __init__(self, folder, stack):
        self.folder = folder
        tree = postgres.tree(postgres.NEWEST)
        install_into(tree)
        self.servers = [stack.enter_context(Server(tree, SETTINGS)) for _ in range(max(COUNTS) + 1)]
        self.hub, self.shards = self.servers[0], self.servers[1:]
        entries = [self.make(count) for count in COUNTS]
        self.port = free_port()
        ini = folder / "pgbouncer.ini"
        ini.write_text(
            "[databases]\n" + "".join(entries) + f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"unix_socket_dir = {folder}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {SIZE}\n"
            "log_connections = 0\nlog_disconnections = 0\n"
        )
        give_to_server_user(ini)
        with open(folder / "log", "w") as log:
            command = [shutil.copy(program(), folder), ini]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **as_server_user())
        stack.callback(self.process.kill)
        wait_for(self.hub, self.port)

    def make(self, count):
        """A database with tables on so many shards; its lines in the pooler's configuration."""
        database = f"of{count}"
        line = f"host=127.0.0.1 port={{}} dbname={database} user={SUPERUSER} password={{}}"
        for server in self.servers:
            server.psql(f"CREATE DATABASE {database}")
        names = [f"{database}_{number}" for number in range(1, count + 1)]
        statements = [
            f"SELECT FROM howdah_shards.add_shard('{name}', '{line.format(shard.port, shard.password)}');"
            for name, shard in zip(names, self.shards, strict=False)
        ]
        self.hub.psql(
            "CREATE EXTENSION howdah_shards CASCADE; CREATE TABLE items (k int PRIMARY KEY, v int);"
            "CREATE TABLE added (k int, v text);"
            f"INSERT INTO items SELECT i, i FROM generate_series(1, {ROWS}) i; {''.join(statements)}"
            "SELECT FROM howdah_shards.distribute_table('items', 'k');"
            "SELECT FROM howdah_shards.distribute_table('added', 'k');"
            "ANALYZE items;",
            database,
        )
        found = f"{database} = {line.format(self.hub.port, self.hub.password)} shards='{','.join(names)}'\n"
        for name, shard in zip(names, self.shards, strict=False):
            found += f"{name} = {line.format(shard.port, shard.password)}\n"
        return found

    def side(self, name, database):
        """A database of the pooler, for pgbench."""
        side = Through(self.hub)
        side.name, side.port, side.process, side.folder, side.database = (
            name,
            self.port,
            self.process,
            self.folder,
            database,
        )
        return side


class Through(Direct):
    """A database of the pooler."""

    def pgbench(self, mode, clients, script, seconds, *more, options=""):
        """As of the server itself, in this database."""
        return super().pgbench(mode, clients, script, seconds, *more, options=options, database=self.database)


def measure(quick):
    """The report."""
    build_pooler()
    rounds, seconds = (1, 1) if quick else (5, 3)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp")))
        folder.chmod(0o777)
        for name, text in TEXTS.items():
            (folder / f"{name}.sql").write_text(text)
            SCRIPTS[name] = ["-f", folder / f"{name}.sql"]
        sharded = Sharded(folder, stack)
        report = Report("shards", quick, sharded.hub)
        report.content |= {"rows": ROWS, "clients": CLIENTS, "pool_size": SIZE, "share": SHARE}
        # It has read the map, and the catalogs of the shards.
        for count in COUNTS:
            sharded.side("", f"of{count}").measure("simple", CLIENTS, READ, 2)
        cost(report, sharded, rounds, seconds)
        reports(report, sharded, rounds)
        scale(report, sharded, rounds, seconds)
    return report


def cost(report, sharded, rounds, seconds):
    """The CPU of a routed read, against that of one that is not."""
    sides = {"routed": sharded.side("routed", "of1"), "alone": sharded.side("alone", "of1_1")}
    for mode in ("simple", "extended", "prepared"):
        costs = {name: [] for name in sides}
        calls = {
            name: lambda side=side, mode=mode, mine=costs[name]: side.measure(mode, CLIENTS, READ, seconds, mine)
            for name, side in sides.items()
        }
        taken = interleave(calls, rounds)
        spent = ratios(costs["routed"][1:], costs["alone"][1:])
        report.add(f"{READ} -M {mode}: CPU of the pooler, routed / not routed", spent, 1.05, at_most=True)
        report.add(f"{READ} -M {mode}: per second, routed / not routed", ratios(taken["routed"], taken["alone"]))


def reports(report, sharded, rounds):
    """A report over all rows on the hub of four shards, against one server."""
    plain = sharded.hub
    plain.psql(f"CREATE TABLE items AS SELECT i AS k, i AS v FROM generate_series(1, {ROWS}) i; ANALYZE items")

    def timed(database):
        begun = time.monotonic()
        plain.psql(REPORT, database)
        return time.monotonic() - begun

    taken = interleave({"hub": lambda: timed("of4"), "plain": lambda: timed("postgres")}, rounds)
    report.add(
        "a report over all rows: time on the hub of 4 shards / on one server", ratios(taken["hub"], taken["plain"])
    )


def scale(report, sharded, rounds, seconds):
    """Statements per second through more shards, each held to a share of a core."""
    if why := why_not():
        return report.leave_out("1, 2 and 4 shards", why)
    with Shares("howdah-bench-shards") as shares:
        for number, server in enumerate(sharded.shards):
            shares.add(f"shard-{number}", SHARE).take(server_pids(server))
        rates = {}
        for script in TEXTS:
            sides = {str(count): sharded.side(str(count), f"of{count}") for count in COUNTS}
            calls = {
                name: lambda side=side, script=script: side.measure("prepared", CLIENTS, script, seconds)
                for name, side in sides.items()
            }
            taken = interleave(calls, rounds)
            rates[script] = [(name, Spread.of(values)) for name, values in taken.items()]
            report.add(f"{script}: per second, 4 shards / 1", ratios(taken["4"], taken["1"]), 3.6)
            report.add(f"{script}: per second, 2 shards / 1", ratios(taken["2"], taken["1"]))
        report.plot("scale", "Statements through more shards", "shards", "per second", rates, kind="bar")
        for server in sharded.shards:
            server.close()
    return None
