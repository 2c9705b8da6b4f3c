"""Rounds of load on sides that run side by side, and what is told of them."""

import contextlib

import numpy

from bench.flights import DATABASE
from bench.microservice.ground import sample
from bench.microservice.processes import cpu_seconds
from bench.report import Spread, ratios
from demo.flights import FEATURES
from devkit import Problem, say

HOWDAH = "howdah-pooler"


def check_answers(side):
    """Raises unless a side gives the database's predictions for a sample of keys."""
    ground = side.ground
    keys = sample(ground)
    told = ground.server.psql(
        f"SELECT pgml.predict('flights', {', '.join(FEATURES)}) FROM keyed WHERE id = ANY (ARRAY{keys}) ORDER BY id",
        DATABASE,
    )
    wanted = numpy.array(told.split(), dtype=numpy.float32)
    given = numpy.array([side.ask(key) for key in keys], dtype=numpy.float32)
    # What adds the trees up in another order differs in the last digits.
    same = numpy.allclose(given, wanted, rtol=1e-6, atol=1e-5) if side.is_rounded else (given == wanted).all()
    if not same:
        raise Problem(f"{side.name} does not predict what the database does: {given.tolist()}, not {wanted.tolist()}")


def take(sides, clients, rounds, seconds, around=contextlib.nullcontext):
    """The loads and the CPU costs of each side, by name, of so many rounds after one that warms up. `around` is a
    context that each load that counts is in.
    """
    loads = {side.name: [] for side in sides}
    costs = {side.name: [] for side in sides}
    for turn in range(rounds + 1):
        for side in sides:
            if turn == 0:
                side.load(clients, seconds)
                continue
            before = cpu_seconds(side.roots)
            with around(side.name):
                taken = side.load(clients, seconds)
            loads[side.name].append(taken)
            costs[side.name].append((cpu_seconds(side.roots) - before) / max(taken.count, 1) * 1e6)
        if turn:
            rates = (f"{name} {taken[-1].rate:,.0f}" for name, taken in loads.items())
            say.note(f"{clients} client(s), round {turn} of {rounds}: {', '.join(rates)}")
    return loads, costs


def tell(report, case, loads, costs, targets):
    """Adds the figures of one number of clients; `targets` gives, for the name of a side, how many times its throughput
    howdah-pooler's should be, or None.
    """
    for name, taken in loads.items():
        report.add(f"{case}: {name}", Spread.of([one.rate for one in taken]), unit="predictions/s")
        report.add(f"{case}: {name}, p50", Spread.of([one.p50 for one in taken]), unit="ms")
        report.add(f"{case}: {name}, p99", Spread.of([one.p99 for one in taken]), unit="ms")
        report.add(f"{case}: {name}, CPU", Spread.of(costs[name]), unit="us a prediction")
    ours = [one.rate for one in loads[HOWDAH]]
    for name, taken in loads.items():
        if name != HOWDAH:
            theirs = [one.rate for one in taken]
            report.add(f"{case}: {HOWDAH} / {name}", ratios(ours, theirs), target=targets.get(name))


def compare(report, sides, clients_of, rounds, seconds, targets, where="", around=contextlib.nullcontext):
    """Loads all sides in turn with each number of clients, and tells it in figures and plots; `targets` by clients."""
    through, p99, cost = ({side.name: [] for side in sides} for _ in range(3))
    for clients in clients_of:
        loads, costs = take(sides, clients, rounds, seconds, around)
        tell(report, f"{where}{clients} clients", loads, costs, targets.get(clients, {}))
        for name, taken in loads.items():
            through[name].append((clients, Spread.of([one.rate for one in taken]).median))
            p99[name].append((clients, Spread.of([one.p99 for one in taken]).median))
            cost[name].append((clients, Spread.of(costs[name]).median))
    prefix, suffix = (where.strip(": ").replace(" ", "-") + "-", ", over a network") if where else ("", "")
    report.plot(
        f"{prefix}throughput",
        f"Predictions a second{suffix}",
        "clients",
        "predictions a second",
        through,
        log_x=True,
        log_y=True,
    )
    report.plot(
        f"{prefix}latency",
        f"99 of 100 are answered within{suffix}",
        "clients",
        "milliseconds",
        p99,
        log_x=True,
        log_y=True,
    )
    report.plot(
        f"{prefix}cpu",
        f"CPU of a prediction, all that serves it{suffix}",
        "clients",
        "microseconds",
        {name: [(str(clients), value) for clients, value in points] for name, points in cost.items()},
        kind="bar",
        log_y=True,
    )
