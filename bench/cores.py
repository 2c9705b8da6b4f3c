"""One database served by several workers of the pooler; the server behind answers at once, so that they are the limit.

The generator and the instant server (`bench/instant.py`) share the machine's cores with the pooler: a machine with two
has no room for two busy workers beside them, and statements a second alone would show the machine. So three figures
are given for each number of workers:

- statements a second and CPU a statement, as the machine allows;
- what the workers could carry if each had a core of its own: statements ÷ CPU seconds of the busiest worker, by the
  scheduler's own count of each thread (more statements a core of the same CPU, if they are spread evenly);
- statements a second when each worker's thread is held to the same small share of a core by a control group, so that
  the machine has room for all of them and a worker more is capacity more. A worker that has used its share of a period
  stands still for the rest of it, wherever it is: what others wait for meanwhile is in the figure.

In all three every worker serves the database (`database_workers`). The CPU of four and of eight workers by default is
measured beside. Then ten clients with pools of one, two and five connections on eight workers, by default and with all
of them on the database: what the slowest got of the mean.
"""

import contextlib
import shutil
import time

from bench.instant import Load, behind
from bench.pooler import Side
from bench.programs import cpu_by_thread
from bench.report import Report, Spread, interleave, ratios
from devkit.pooler import build_pooler, program
from devkit.shares import Shares, why_not

WORKERS = (1, 2, 4, 8)
MODES = ("simple", "prepared")
CLIENTS, SIZE = 100, 16
# Of a core, for each worker: eight of them leave one core and more to the server and the generator.
SHARE = 0.08
FEW, POOLS = 10, (1, 2, 5)


def measure(quick):
    """The report."""
    build_pooler()
    rounds, seconds = (1, 1) if quick else (3, 1)
    with behind() as (folder, instant), contextlib.ExitStack() as stack:
        path = shutil.copy(program(), folder)
        load, report = Load(folder), Report("cores", quick, instant.server)

        def start(workers, size, of_database):
            settings = f"workers = {workers}\ndatabase_workers = {of_database}"
            side = stack.enter_context(Side("howdah", [path], instant, size, settings))
            return Workers(side, load)

        report.content["clients"] = CLIENTS
        report.content["pool_size"] = SIZE
        sides = {str(count): start(count, SIZE, count) for count in WORKERS}
        # Ready before it is measured: it has read the catalog.
        for side in sides.values():
            side.run("simple", CLIENTS, 1)
        time.sleep(2)
        rows = []
        capacity = {}
        for mode in MODES:
            taken = spread_out(report, mode, sides, rounds, seconds)
            capacity[mode] = [(name, Spread.of([one.capacity for one in ones])) for name, ones in taken.items()]
            rows += [row(mode, name, ones) for name, ones in taken.items()]
        columns = ["", "statements/s", "CPU a statement (us)", "capacity, statements/s"]
        report.table(f"{CLIENTS} clients", columns, rows)
        title = "What workers could carry with a core each"
        report.plot("capacity", title, "workers", "statements a second", capacity, kind="bar")
        by_default(report, {"1": sides["1"]} | {str(count): start(count, SIZE, 0) for count in (4, 8)}, rounds, seconds)
        in_shares(report, sides, rounds, seconds)
        for size in POOLS:
            few = {"1": start(1, size, 0), "8": start(8, size, 0), "all 8": start(8, size, 8)}
            few_clients(report, few, size, rounds, seconds)
    return report


class One:
    """What one run found."""

    def __init__(self, rate, least, spent, seconds):
        workers = [cpu for (_, name), cpu in spent.items() if name.startswith("worker")]
        count = rate * seconds
        self.rate, self.least = rate, least
        self.cost = sum(spent.values()) / count * 1e6
        self.capacity = count / max(workers)


class Workers:
    """A pooler, and what loads it."""

    def __init__(self, side, load):
        self.side, self.load = side, load

    def threads(self):
        """CPU seconds by thread."""
        return cpu_by_thread(self.side.process.pid)

    def run(self, mode, clients, seconds):
        """Measures once."""
        before = self.threads()
        rate, _, least = self.load.run(self.side.port, mode, clients, seconds)
        spent = {key: cpu - before.get(key, 0) for key, cpu in self.threads().items()}
        return One(rate, least, spent, seconds)


def in_turn(sides, rounds, run):
    """All that was found of each side, round by round; the rate is what is shown as it goes."""
    found = {name: [] for name in sides}

    def one(name):
        found[name].append(run(sides[name]))
        return found[name][-1].rate

    interleave({name: lambda name=name: one(name) for name in sides}, rounds)
    return {name: ones[1:] for name, ones in found.items()}


def spread_out(report, mode, sides, rounds, seconds):
    """As many workers as there are, without limits."""
    taken = in_turn(sides, rounds, lambda side: side.run(mode, CLIENTS, seconds))
    for name in sides:
        if name == "1":
            continue
        case = f"{mode}, {name} workers / 1"
        pairs = {what: over(taken, name, what) for what in ("rate", "cost", "capacity")}
        report.add(f"{case}: statements a second, on this machine's cores", pairs["rate"])
        report.add(
            f"{case}: capacity (statements ÷ CPU of the busiest worker)",
            pairs["capacity"],
            target=1.8 if name == "2" else None,
        )
        report.add(f"{case}: CPU a statement", pairs["cost"], target=1.1 if name != "2" else None, at_most=True)
    return taken


def by_default(report, sides, rounds, seconds):
    """As many workers, of which as many serve the database as its pool has connections for."""
    for side in sides.values():
        side.run("simple", CLIENTS, seconds)
    for mode in MODES:
        taken = in_turn(sides, rounds, lambda side, mode=mode: side.run(mode, CLIENTS, seconds))
        for name in ("4", "8"):
            case = f"{mode}, {name} workers by default / 1"
            report.add(f"{case}: CPU a statement", over(taken, name, "cost"), target=1.1, at_most=True)
            report.add(f"{case}: statements a second, on this machine's cores", over(taken, name, "rate"))


def over(taken, name, what):
    """The ratios of a figure to that of one worker."""
    return ratios(*([getattr(one, what) for one in taken[of]] for of in (name, "1")))


def row(mode, name, ones):
    """A row of the table."""
    spreads = [Spread.of([getattr(one, what) for one in ones]) for what in ("rate", "cost", "capacity")]
    return [f"{mode}, workers = {name}", *spreads]


def in_shares(report, sides, rounds, seconds):
    """Each worker held to a share of a core."""
    what = f"statements a second with {SHARE:g} of a core for each worker"
    why = why_not()
    if why is None and Shares("howdah-cores").version == 2:
        why = "threads can be held to shares one by one only by control groups of version 1"
    if why is not None:
        report.leave_out(what, why)
        return
    with Shares("howdah-cores") as shares:
        for name, side in sides.items():
            for thread, called in side.threads():
                if called.startswith("worker"):
                    share = shares.add(f"{name}-{thread}", SHARE)
                    (share.folder / "tasks").write_text(str(thread))
        try:
            for mode in MODES:
                taken = in_turn(sides, rounds, lambda side, mode=mode: side.run(mode, CLIENTS, seconds))
                for name in sides:
                    case = f"{mode}, workers = {name}: {what}"
                    report.add(case, Spread.of([one.rate for one in taken[name]]), unit="statements/s")
                    if name != "1":
                        pairs = over(taken, name, "rate")
                        target, shown = (1.8, mode == "simple") if name == "2" else (None, False)
                        headline = (
                            "statements a second by 2 workers ÷ 1, one database, each with the same share of a core"
                        )
                        report.add(
                            f"{mode}, {name} workers / 1: {what}",
                            pairs,
                            target=target,
                            headline=headline if shown else None,
                        )
        finally:
            for side in sides.values():
                for thread, _ in side.threads():
                    (shares.root / "tasks").write_text(str(thread))


def few_clients(report, sides, size, rounds, seconds):
    """Fewer clients than would keep the workers busy, with few connections: nobody may starve."""
    taken = in_turn(sides, rounds, lambda side: side.run("simple", FEW, seconds))
    for name, called in {"8": "8 workers", "all 8": "8 workers on the database"}.items():
        case = f"{FEW} clients, a pool of {size}, {called}"
        least = Spread.of([one.least for one in taken[name]])
        report.add(f"{case}: the slowest client's part of the mean", least, target=0.5)
        report.add(f"{case} / 1: statements a second", over(taken, name, "rate"))
        report.add(f"{case} / 1: CPU a statement", over(taken, name, "cost"))
