"""The driver beside asyncpg, psycopg 3, psycopg2 and ADBC: rows a second and the client's CPU a row.

Each driver measures each case in a process of its own, in turn, several rounds. A ratio is to the best of the others in
that case and round. The drivers that are not installed are left out, and the report says which were there.
"""

import importlib.util
import json
import os
import statistics
import subprocess
import sys

from bench.report import Report, Spread
from devkit import Problem, postgres, say
from devkit.driver import PACKAGE, build_driver
from devkit.places import ROOT
from devkit.server import Server

# The case, how much less CPU than the best of the others it should cost, how much faster it should be.
CASES = [
    ("pg_type", 1.4, None),
    ("integers", 1.5, None),
    ("bytea", 1.2, None),
    ("arrays", 1.8, None),
    ("wide", 2.0, None),
    ("select 1, 10 connections", None, 1.3),
    ("select 1, 1 connection", None, 1.0),
    ("100 fetchval at once", None, 5.0),
    ("pool.fetchval", None, 3.0),
    ("transaction + fetchval", None, 1.4),
    ("executemany", None, 1.2),
    ("copy in", None, 1.2),
    ("copy out", None, 1.2),
    ("columns", 1.5, None),
]
FOUR = ("pg_type", "integers", "bytea", "arrays")
MODULES = {
    "howdah": "howdah",
    "asyncpg": "asyncpg",
    "psycopg": "psycopg",
    "psycopg2": "psycopg2",
    "adbc": "adbc_driver_postgresql",
}
LOOPS = ("uvloop", "asyncio")


def measure(quick):
    """The report."""
    build_driver(sys.executable)
    rounds, seconds = (1, 0.4) if quick else (5, 2.0)
    there = [name for name, module in MODULES.items() if name == "howdah" or importlib.util.find_spec(module)]
    if "asyncpg" not in there:
        raise Problem("there is no asyncpg to compare with: `pip install -r tools/requirements/driver.txt`")
    with Server(postgres.tree(postgres.NEWEST), {"max_connections": "100", "fsync": "off"}) as server:
        report = Report("driver", quick)
        report.content["drivers"] = there
        url = server.url()
        client("howdah", "asyncio", "setup", 0, url)
        ratios = {}
        for loop in LOOPS:
            for case, cheaper, faster in CASES:
                compare(report, there, loop, case, (cheaper, faster), (rounds, seconds, url), ratios)
            rounds_of_four = zip(*(ratios[loop, case] for case in FOUR), strict=True)
            four = [statistics.geometric_mean(each) for each in rounds_of_four]
            report.add(f"{loop}: rows a second, mean of the four", Spread.of(four), target=1.3, unit="times")
    return report


def compare(report, there, loop, case, targets, how, ratios):
    """One case: each driver in turn."""
    rounds, seconds, url = how
    taken = {name: [] for name in there}
    for _ in range(rounds):
        for name in there:
            found = client(name, loop, case, seconds, url)
            if found is not None:
                taken[name].append(found)
    taken = {name: found for name, found in taken.items() if found}
    for name, found in taken.items():
        report.add(f"{loop}, {case}: {name}", Spread.of([each["rate"] for each in found]), unit="/s")
        report.add(f"{loop}, {case}: CPU of {name}", Spread.of([each["cpu"] for each in found]), unit="us each")
    others = [found for name, found in taken.items() if name != "howdah"]
    if not others:
        return
    ours = taken["howdah"]
    matched = list(zip(ours, *others, strict=True))
    cost = [min(each["cpu"] for each in others_now) / mine["cpu"] for mine, *others_now in matched]
    rate = [mine["rate"] / max(each["rate"] for each in others_now) for mine, *others_now in matched]
    ratios[loop, case] = rate
    cheaper, faster = targets
    report.add(f"{loop}, {case}: CPU, best of the others / howdah", Spread.of(cost), target=cheaper)
    report.add(f"{loop}, {case}: howdah / best of the others", Spread.of(rate), target=faster)


def client(name, loop, case, seconds, url):
    """What one process measures."""
    environment = os.environ | {"PYTHONPATH": f"{PACKAGE}:{ROOT}", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "bench.driver_client", name, loop, case, str(seconds), url]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False, timeout=120)
    if done.returncode != 0:
        say.note(f"{name} failed at {case}: {done.stderr.strip()[-400:]}")
        return None
    return json.loads(done.stdout) if case != "setup" else None
