"""The driver beside asyncpg, psycopg 3, psycopg2 and ADBC: rows a second and the client's CPU a row.

Every driver has a process of its own for each loop (the blocking ones one, with a thread for each connection), which
stays for the whole run. Case after case all of them connect and warm up, and are then measured in turn, round after
round, each round beginning with another of them; a ratio is to the best of the others in that case and round. CPU is
the client process's own, user and kernel, by `time.process_time`. Results are what each driver gives as Python's final
objects; howdah decodes all of them when they arrive, and what touching them costs besides is told apart. How each
driver is used is said in `bench/driver_sides.py`, the floors are those of `bench/floor.c`, measured in the same rounds.
"""

import json
import os
import statistics
import subprocess
import sys

from bench.driver_cases import FOUR, QUERIES, SETUP
from bench.driver_predictions import predictions
from bench.driver_sides import BESIDE_ASYNCIO, BLOCKING, SIDES, SYNC
from bench.flights import DATABASE, server_with_flights
from bench.floor import Floor
from bench.report import Report, Spread, ratios
from devkit import Problem
from devkit.driver import PACKAGE, build_driver
from devkit.places import ROOT

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
    ("executemany", 1.2, 1.2),
    ("copy in", 1.2, 1.2),
    ("copy out", 1.2, 1.2),
    ("columns", 1.5, None),
]
# The same of the synchronous interface.
SYNC_TARGETS = dict.fromkeys(FOUR, (1.5, None)) | {
    "select 1, 1 connection": (None, 1.3),
    "select 1, 10 connections": (None, 1.3),
    "columns": (1.0, None),
}
LOOPS = ("uvloop", "asyncio")
FLIGHTS = 100_000
FLOOR = "floor in C"


class Client:
    """The process of one driver."""

    def __init__(self, name, loop, url):
        self.name, self.loop = name, loop
        self.label = name if name in BLOCKING else f"{name} on {loop}"
        environment = os.environ | {"PYTHONPATH": f"{PACKAGE}:{ROOT}", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "bench.driver_client", name, loop, url]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )

    def ask(self, **command):
        """What the process answers to a command."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Problem(f"{self.label} failed at {command} (its traceback is above)")
        return json.loads(line)

    def end(self):
        """Ends the process."""
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def measure(quick, cases=None):
    """The report; of some cases only when they are named."""
    build_driver(sys.executable)
    rounds, seconds = (2, 0.25) if quick else (5, 0.7)
    with server_with_flights(FLIGHTS, {"max_connections": "200"}) as server:
        report = Report("driver", quick, server)
        server.psql(SETUP, DATABASE)
        server.psql("VACUUM ANALYZE", DATABASE)
        floor = Floor(server, DATABASE)
        clients = []
        try:
            for name in SIDES:
                for loop in LOOPS[:1] if name in BLOCKING else LOOPS:
                    clients.append(Client(name, loop, server.url(DATABASE)))
            rates = {}
            cheapness = {}
            for case, cheaper, faster in CASES:
                if cases is None or case in cases:
                    found = compare(server, clients, floor, case, rounds, seconds)
                    conclude(report, case, found, (cheaper, faster), rates, cheapness)
                    if case in QUERIES:
                        touch(report, clients, case, quick)
        finally:
            for client in clients:
                client.end()
        if cases is None:
            for loop in LOOPS:
                rounds_of_four = zip(*(rates[loop, case] for case in FOUR), strict=True)
                four = [statistics.geometric_mean(each) for each in rounds_of_four]
                case = f"{loop}: rows a second, mean of the four"
                headline = f"rows a second by the driver ÷ the best of Python's other drivers, on {loop}, four queries"
                report.add(case, Spread.of(four), target=1.3, unit="times", contest=True, headline=headline)
            draw(report, rates, cheapness)
        if cases is None or "predictions" in cases:
            predictions(report, server, quick)
    return report


def compare(server, clients, floor, case, rounds, seconds):
    """One case: each driver in turn, and the floor; label to what was measured, round by round."""
    there = [client for client in clients if client.ask(open=case)]
    try:
        taken = {client.label: [] for client in there} | {FLOOR: []}
        sides = {client.label: lambda now, client=client: client.ask(run=now) for client in there}
        sides[FLOOR] = lambda now: floor.measure(case, now)
        labels = list(sides)
        for number in range(rounds + 1):
            if case in ("executemany", "copy in"):
                server.psql("TRUNCATE bench_write; CHECKPOINT", DATABASE)
            for label in labels[number % len(labels) :] + labels[: number % len(labels)]:
                found = sides[label](seconds if number else seconds / 3)
                if number:
                    taken[label].append(found)
    finally:
        for client in clients:
            client.ask(close=True)
    return taken


def conclude(report, case, taken, targets, rates, cheapness):
    """Reports what was measured in a case, and the ratios."""
    for label, found in taken.items():
        report.add(f"{case}: {label}", Spread.of([each["rate"] for each in found]), unit="/s")
        report.add(f"{case}: CPU of {label}", Spread.of([each["cpu"] for each in found]), unit="us each")
    cheaper, faster = targets
    for loop in LOOPS:
        ours = taken[f"howdah on {loop}"]
        peers = {label: found for label, found in taken.items() if label.endswith(f" on {loop}")}
        del peers[f"howdah on {loop}"]
        blocking = {label: taken[label] for label in BESIDE_ASYNCIO if label in taken}
        others = peers | blocking
        cost = [min(one["cpu"] for one in each) / mine["cpu"] for mine, *each in against(ours, others)]
        rate = [mine["rate"] / max(one["rate"] for one in each) for mine, *each in against(ours, others)]
        rates[loop, case], cheapness[loop, case] = rate, cost
        named = f"{loop}, {case}"
        report.add(f"{named}: CPU, best of the others / howdah", Spread.of(cost), target=cheaper, contest=True)
        report.add(f"{named}: howdah / best of the others", Spread.of(rate), target=faster, contest=True)
        if faster is not None and blocking and peers:
            rate = [mine["rate"] / max(one["rate"] for one in each) for mine, *each in against(ours, peers)]
            report.add(
                f"{named}: howdah / best of the others for asyncio", Spread.of(rate), target=faster, contest=True
            )
        over = ratios([one["cpu"] for one in ours], [one["cpu"] for one in taken[FLOOR]])
        report.add(f"{named}: CPU of howdah / {FLOOR}", over)
        under = ratios([one["rate"] for one in ours], [one["rate"] for one in taken[FLOOR]])
        report.add(f"{named}: howdah / {FLOOR}", under)
    conclude_blocking(report, case, taken)


def conclude_blocking(report, case, taken):
    """The ratios of the synchronous interface, to the best of the other drivers that block."""
    others = {label: taken[label] for label in BLOCKING if label in taken and label != SYNC}
    if SYNC not in taken or not others:
        return
    rounds = list(against(taken[SYNC], others))
    cost = [min(one["cpu"] for one in each) / mine["cpu"] for mine, *each in rounds]
    rate = [mine["rate"] / max(one["rate"] for one in each) for mine, *each in rounds]
    cheaper, faster = SYNC_TARGETS.get(case, (None, None))
    report.add(
        f"blocking, {case}: CPU, best of the others / howdah.dbapi", Spread.of(cost), target=cheaper, contest=True
    )
    report.add(f"blocking, {case}: howdah.dbapi / best of the others", Spread.of(rate), target=faster, contest=True)


def against(ours, others):
    """Ours and each of the others, round by round."""
    return zip(ours, *others.values(), strict=True)


def touch(report, clients, case, quick):
    """What it costs to touch the values of results, which is not part of the rest."""
    for client in clients:
        if client.loop == LOOPS[0] and client.ask(open=case):
            taken, shown = zip(*client.ask(touch=5 if quick else 25), strict=True)
            client.ask(close=True)
            report.add(f"{case}: CPU to take every value, {client.name}", Spread.of(taken), unit="us a row")
            report.add(f"{case}: CPU to make each a text, {client.name}", Spread.of(shown), unit="us a row")


def draw(report, rates, cheapness):
    """The ratios as bars."""
    for name, title, of in (
        ("cpu", "CPU of the best of the other drivers ÷ howdah's", cheapness),
        ("rate", "howdah's rows a second ÷ those of the best of the other drivers", rates),
    ):
        series = {loop: [(case, Spread.of(of[loop, case])) for case, *_ in CASES] for loop in LOOPS}
        report.plot(name, title, "", "times", series, kind="bar", even=True)
