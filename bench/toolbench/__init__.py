"""The toolbench of 2016 with the drivers of today: Go's pgx and lib/pq, node's pg and pg-native, and Python's howdah,
asyncpg, psycopg 3, psycopg2 and aiopg, on one server.

The four queries of that benchmark on 8 connections, each asked again and again: queries and rows a second, and the
latency. Every driver has a process of its own that stays for the whole run; for each query all are measured in turn,
round after round, each round beginning with another, after one that does not count. The geometric mean over the four
queries is what was published then, as a score in parts of asyncpg's. How each driver is used is said at the head of
`go/main.go`, `node/client.js`, `client.py` and `bench/driver_sides.py`; the versions are pinned in `go/go.mod`,
`node/package-lock.json` and `tools/requirements/`.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys

from bench.driver_cases import FOUR, QUERIES, SETUP
from bench.report import Report, Spread, ratios, turned
from devkit import Problem, postgres, say
from devkit.driver import PACKAGE, build_driver
from devkit.places import BUILD, ROOT
from devkit.programs import installed, require
from devkit.server import Server

CONNECTIONS = 8
PYTHON = ("howdah", "asyncpg", "psycopg", "psycopg2", "aiopg")
GO = ("pgx", "lib/pq")
NODE = ("pg", "pg-native")
HERE = ROOT / "bench" / "toolbench"
THERE = BUILD / "toolbench"


class Client:
    """The process of one driver."""

    def __init__(self, name, command):
        self.name = name
        environment = os.environ | {"PYTHONPATH": f"{PACKAGE}:{ROOT}:{ROOT / 'tools'}", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def ask(self, **command):
        """What the process answers to a command."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Problem(f"{self.name} failed at {command} (what it said is above)")
        return json.loads(line)

    def end(self):
        """Ends the process."""
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def build_go():
    """The program of Go's drivers."""
    compiler = installed("go")
    program = THERE / "go-client"
    command = [compiler, "build", "-mod=readonly", "-o", str(program), "."]
    if subprocess.run(command, cwd=HERE / "go", check=False).returncode != 0:
        raise Problem("bench/toolbench/go did not build (Go's message is above)")
    return program


def fetch_node():
    """The script of node's drivers with its packages beside it, and whether pg-native could be built."""
    folder = THERE / "node"
    pins = (HERE / "node" / "package-lock.json").read_bytes()
    kept = folder / "package-lock.json"
    if not (folder / "node_modules" / "pg").exists() or not kept.exists() or kept.read_bytes() != pins:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "node", folder)
        with say.timed("fetching node's drivers"):
            if subprocess.run(["npm", "ci", "--silent"], cwd=folder, check=False).returncode != 0:
                shutil.rmtree(folder)
                raise Problem("npm could not fetch node's drivers (its message is above)")
    shutil.copy(HERE / "node" / "client.js", folder)
    probe = ["node", "-e", "process.exit(require('pg').native ? 0 : 1)"]
    native = subprocess.run(probe, cwd=folder, capture_output=True, check=False).returncode == 0
    return folder / "client.js", native


def commands(url):
    """The command of each driver, and why some are left out."""
    THERE.mkdir(parents=True, exist_ok=True)
    last = [url, str(CONNECTIONS)]
    found = {name: [sys.executable, "-m", "bench.toolbench.client", name, *last] for name in PYTHON}
    program = build_go()
    found |= {name: [str(program), name.rpartition("/")[2], *last] for name in GO}
    script, native = fetch_node()
    found |= {name: ["node", str(script), name, *last] for name in NODE}
    missing = {}
    if not native:
        del found["pg-native"]
        missing["pg-native"] = "it did not build here: it needs `apt-get install libpq-dev g++ make python3`"
    return found, missing


def measure(quick):
    """The report."""
    require(("go", "node", "npm"))
    build_driver(sys.executable)
    rounds, seconds = (2, 0.4) if quick else (5, 1.5)
    with Server(postgres.tree(postgres.NEWEST), {"max_connections": "200", "shared_buffers": "1GB"}) as server:
        report = Report("toolbench", quick)
        report.content["postgresql"] = server.psql("SELECT version()")
        report.content["versions"] = {
            name: subprocess.run([name, option], capture_output=True, text=True, check=True).stdout.strip()
            for name, option in (("go", "version"), ("node", "--version"))
        }
        server.psql(SETUP)
        server.psql("VACUUM ANALYZE")
        found, missing = commands(server.url() + "?sslmode=disable")
        for name, why in missing.items():
            report.leave_out(name, why)
        clients = []
        try:
            for name, command in found.items():
                clients.append(Client(name, command))
            taken = {case: compare(clients, case, rounds, seconds) for case in FOUR}
        finally:
            for client in clients:
                client.end()
        conclude(report, taken)
    return report


def compare(clients, case, rounds, seconds):
    """One query: each driver in turn; name to what was measured, round by round."""
    counts = {client.name: client.ask(open={"name": case, "query": QUERIES[case]})["rows"] for client in clients}
    if len(set(counts.values())) != 1:
        raise Problem(f"the drivers do not agree on the rows of {case}: {counts}")
    taken = {client.name: [] for client in clients}
    for number in range(rounds + 1):
        for client in turned(clients, number):
            found = client.ask(run=seconds if number else seconds / 2)
            if number:
                taken[client.name].append(found)
    return taken


FIGURES = (
    ("rows", "rows a second", "/s"),
    ("queries", "queries a second", "/s"),
    ("cpu", "CPU of the client a row", "us"),
    ("mean", "mean latency", "ms"),
    ("p50", "median latency", "ms"),
    ("p99", "99th percentile of the latency", "ms"),
)


def conclude(report, taken):
    """Reports the figures, the geometric means and the plots."""
    names = list(taken[FOUR[0]])
    contest(report, taken, names)
    for case, of in taken.items():
        for name in names:
            for key, label, unit in FIGURES:
                report.add(f"{case}, {label}: {name}", Spread.of([each[key] for each in of[name]]), unit=unit)
    means = {}
    for key, label, unit in FIGURES:
        for name in names:
            rounds = zip(*([each[key] for each in taken[case][name]] for case in FOUR), strict=True)
            means[key, name] = [statistics.geometric_mean(each) for each in rounds]
            report.add(f"geometric mean, {label}: {name}", Spread.of(means[key, name]), unit=unit)
    for name in names:
        score = [ours / theirs for ours, theirs in zip(means["rows", name], means["rows", "asyncpg"], strict=True)]
        report.add(f"score, geometric mean of rows a second / asyncpg's: {name}", Spread.of(score), unit="times")
    others = [means["rows", name] for name in names if name != "howdah"]
    best = [mine / max(each) for mine, *each in zip(means["rows", "howdah"], *others, strict=True)]
    case = "geometric mean of rows a second, howdah / best of the others"
    headline = "rows a second by the driver ÷ the best of eight others of Python, Go and node, geometric mean"
    report.add(case, Spread.of(best), unit="times", contest=True, headline=headline)
    columns = ["driver", *(f"{label}{'' if unit == '/s' else f', {unit}'}" for _, label, unit in FIGURES)]
    rows = [[name, *(Spread.of(means[key, name]) for key, *_ in FIGURES)] for name in names]
    report.table(f"Geometric means of the four queries, {CONNECTIONS} connections", columns, rows)
    for key, title in (("rows", "Rows a second"), ("p99", "99th percentile of the latency"), ("mean", "Mean latency")):
        unit = "rows a second" if key == "rows" else "ms"
        series = {"geometric mean": [(name, Spread.of(means[key, name])) for name in names]}
        for case in FOUR:
            series[case] = [(name, Spread.of([each[key] for each in taken[case][name]])) for name in names]
        report.plot(key, f"{title}, {CONNECTIONS} connections", "", unit, series, kind="panels")


def contest(report, taken, names):
    """Howdah beside the best of the others, query by query: rows a second, CPU and latency."""
    for case in FOUR:
        for key, label, _ in FIGURES:
            if key == "queries":
                continue
            rising = key == "rows"
            best = max if rising else min
            figures = [[each[key] for each in taken[case][name]] for name in names if name != "howdah"]
            others = [best(each) for each in zip(*figures, strict=True)]
            ratio = ratios([each[key] for each in taken[case]["howdah"]], others)
            report.add(f"{case}, {label}: howdah / best of the others", ratio, at_most=not rising, contest=True)
