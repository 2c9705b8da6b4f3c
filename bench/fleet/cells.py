"""What a fleet does by its replicas, clients and rows in a query.

All replicas run all the while; the poolers are told of one, two or all of them by a reload, so that the rounds of a
ratio lie seconds apart. Each server has the same share of the CPU, chosen first: see `choose_share`.
"""

import os
import time
from pathlib import Path

from bench.fleet.load import run, statement
from bench.report import Spread, ratios
from devkit import say
from devkit.fleet import BUSY

REPLICAS = (1, 2, 5)
CLIENTS = (100, 1000, 2000)
BATCHES = (1, 5, 20)
# Those that the targets are about: replicas, clients, rows in a query; the last is whether the rows are neighbours.
WANTED = [
    (1, 100, 1, False),
    (1, 1000, 1, False),
    (1, 2000, 1, False),
    (5, 100, 1, False),
    (5, 1000, 1, False),
    (5, 2000, 1, False),
    (5, 1000, 20, False),
    (5, 1000, 20, True),
]
# Below this a server would hardly run in a period.
LEAST_SHARE = 0.05
FIRST_SHARE = 0.06
# How often a share that keeps the machine too busy is made smaller.
TRIES = 4
SECONDS = 2
# The published figures: 5 replicas and 100 trees, 1000 and 2000 clients; what 5 and 20 rows in a query gained.
PUBLISHED = {"rate at 1000": 950_160.7, "rate at 2000": 1_021_692.7, "gain of 5": 1.5, "gain of 20": 1.2}


def measure_cells(report, fleet, quick):
    """All cells once, those of the targets in several rounds."""
    share = choose_share(report, fleet)
    rounds = 1 if quick else 3
    taken = {cell: [] for cell in WANTED}
    if not quick:
        for replicas in REPLICAS:
            for clients in CLIENTS:
                for batch in BATCHES:
                    taken.setdefault((replicas, clients, batch, False), [])
    for number in range(rounds + 1):
        # Before the rounds, what is not measured in rounds.
        chosen = [cell for cell in taken if (cell in WANTED) == (number > 0)]
        using = None
        for cell in sorted(chosen):
            replicas, clients, batch, neighbours = cell
            if replicas != using:
                fleet.use(replicas)
                run(fleet, 100, 1, 1)
                using = replicas
            done = run(fleet, clients, batch, SECONDS, sql=statement(batch, neighbours))
            taken[cell].append(done)
            say.note(f"{name(cell)}: {done.rate:,.0f} queries/s, p50 {done.p50:,.1f} ms, p99 {done.p99:,.1f} ms")
    for cell, results in sorted(taken.items()):
        report.add(f"{name(cell)}: predictions", Spread.of([done.rows for done in results]), unit="rows/s")
        report.add(f"{name(cell)}: p50", Spread.of([done.p50 for done in results]), unit="ms")
        report.add(f"{name(cell)}: p99", Spread.of([done.p99 for done in results]), unit="ms")
    judge(report, taken, share)
    tabulate(report, taken)
    draw(report, taken)


def name(cell):
    """What a cell is called."""
    replicas, clients, batch, neighbours = cell
    rows = f"{batch} row{'s' if batch > 1 else ''}{' side by side' if neighbours else ''}"
    return f"{replicas} replica{'s' if replicas > 1 else ''}, {clients} clients, {rows}"


def judge(report, taken, share):
    """The ratios that have targets."""

    def of(cell, what):
        return [getattr(done, what) for done in taken[cell]]

    def best(*cells):
        return [max(values) for values in zip(*(of(cell, "rate") for cell in cells), strict=True)]

    few, one, press = (1, 100, 1, False), (1, 1000, 1, False), (1, 2000, 1, False)
    low, five, high = (5, 100, 1, False), (5, 1000, 1, False), (5, 2000, 1, False)
    if share is not None:
        # Each at its better number of clients: one server that a thousand press is slower than it could be.
        gain = ratios(best(low, five), best(few, one))
        case = "linearity: 5 replicas / 1, the better of 100 and 1000 clients"
        report.add(case, gain, target=4.75, headline="queries a second, 5 replicas ÷ 1")
        report.add("5 replicas / 1, 1000 clients", ratios(of(five, "rate"), of(one, "rate")))
        report.add("5 replicas / 1, 2000 clients", ratios(of(high, "rate"), of(press, "rate")), target=4.5)
        report.add(
            "the machine's CPU used by the fleet and its clients, 5 replicas",
            Spread.of(of(five, "busy")),
            target=BUSY,
            at_most=True,
        )
    most = ratios(of(high, "rate"), best(low, five, high))
    case = "queueing: 2000 clients / the best of 100, 1000 and 2000"
    headline = "queries a second with 2000 clients ÷ the most with 100, 1000 or 2000"
    report.add(case, most, target=0.95, headline=headline)
    growth = [b / a / 2 for a, b in zip(of(five, "p99"), of(high, "p99"), strict=True)]
    report.add("queueing: p99 at 2000 clients / twice that at 1000", Spread.of(growth), target=1.25, at_most=True)
    for neighbours in (False, True):
        gain = ratios(of((5, 1000, 20, neighbours), "rows"), of(five, "rows"))
        rows = "side by side" if neighbours else "at random"
        headline = f"predictions a second, 20 in a query ({rows}) ÷ 1"
        report.add(f"batching: rows a second at 20 in a query, {rows} / at 1", gain, target=6, headline=headline)


def tabulate(report, taken):
    """A table of all cells."""
    rows = [
        [
            replicas,
            clients,
            f"{batch} side by side" if neighbours else batch,
            Spread.of([done.rows for done in results]),
            Spread.of([done.p50 for done in results]),
            Spread.of([done.p99 for done in results]),
        ]
        for (replicas, clients, batch, neighbours), results in sorted(taken.items())
    ]
    columns = ["replicas", "clients", "rows in a query", "predictions/s", "p50, ms", "p99, ms"]
    report.table(
        "Predictions by replicas, clients and rows in a query (cells without a spread were run once)", columns, rows
    )


def draw(report, taken):
    """The pictures."""
    middle = {cell: Spread.of([done.rows for done in results]) for cell, results in taken.items()}
    tails = {cell: Spread.of([done.p99 for done in results]) for cell, results in taken.items()}

    def series(figures, replicas, batch):
        return [
            (clients, figures[(replicas, clients, batch, False)])
            for clients in CLIENTS
            if (replicas, clients, batch, False) in figures
        ]

    def of(replicas):
        return f"{replicas} replica{'s' if replicas > 1 else ''}"

    report.plot(
        "clients",
        "Predictions by clients and replicas, one a query",
        "clients",
        "predictions/s",
        {of(replicas): series(middle, replicas, 1) for replicas in REPLICAS if series(middle, replicas, 1)},
        log_x=True,
    )
    report.plot(
        "latency",
        "99 of 100 answers came in this time, one prediction a query",
        "clients",
        "p99 in ms",
        {of(replicas): series(tails, replicas, 1) for replicas in REPLICAS if series(tails, replicas, 1)},
        log_x=True,
        log_y=True,
    )
    batches = [batch for batch in BATCHES if (5, 1000, batch, False) in middle]
    first = middle[(5, 1000, 1, False)].median
    gains = [
        (str(batch), Spread.of([done.rows / first for done in taken[(5, 1000, batch, False)]])) for batch in batches
    ]
    report.plot(
        "batching",
        "Predictions a second by rows in a query, beside the published system",
        "rows in a query",
        "times those at one row",
        {
            "Howdah, 5 replicas, 1000 clients": gains,
            "published": [("1", 1), ("5", PUBLISHED["gain of 5"]), ("20", PUBLISHED["gain of 20"])],
        },
        kind="bar",
    )


def choose_share(report, fleet):
    """The largest share of each server with which the machine stays under 80 % busy, by what a query costs each part.

    Where others use the machine, their part counts. None where servers cannot be held.
    """
    if fleet.shares is None:
        return None
    fleet.use(len(fleet.replicas))
    run(fleet, 100, 1, 1)
    others = busy_cores(2)
    # With nobody held, and few enough clients that their connecting does not count.
    fleet.set_share(None)
    done = run(fleet, 200, 1, 3)
    of_servers = done.cpu["servers"] / sum(done.cpu.values())
    room = max(BUSY * os.cpu_count() - others, 0)
    share = max(round(0.95 * room * of_servers / len(fleet.replicas), 3), LEAST_SHARE)
    fleet.set_share(share)
    # Held, and asked by more clients, all parts need more for a query than they did: less then, until it is enough.
    for _ in range(TRIES):
        busy = max(run(fleet, clients, 1, SECONDS).busy for clients in CLIENTS) + others / os.cpu_count()
        if busy <= BUSY or share == LEAST_SHARE:
            break
        share = max(round(0.97 * share * BUSY / busy, 3), LEAST_SHARE)
        fleet.set_share(share)
    report.content["share"] = {
        "cores_of_a_server": share,
        "part_of_servers_in_cpu": round(of_servers, 3),
        "cores_used_by_others": round(others, 2),
    }
    say.note(
        f"each server is held to {share:g} cores: servers use {of_servers:.0%} of the CPU of a query, and others use "
        f"{others:.2f} of the machine's {os.cpu_count()} cores"
    )
    return share


def busy_cores(seconds):
    """How many cores the whole machine uses."""

    def look():
        fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]))
        return sum(fields[:3]) + sum(fields[5:7])

    before = look()
    time.sleep(seconds)
    return (look() - before) / os.sysconf("SC_CLK_TCK") / seconds
