"""Rounds of load on sides that run side by side, and what is told of them."""

import contextlib

import numpy

from bench.flights import DATABASE
from bench.microservice.ground import sample
from bench.microservice.processes import cpu_seconds
from bench.report import Spread, ratios, turned
from devkit import Problem, say
from devkit.flights import FEATURES

HOWDAH = "howdah-pooler"
# The same where the services are, so that what it answers with crosses the network twice, as theirs.
AWAY = "howdah-pooler, a hop away"
# The same with a setting that is off by default: it waits awake for a single client.
AWAKE = "howdah-pooler with busy_poll"


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
        for side in turned(sides, turn):
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
    place, _, clients = case.rpartition(": ")
    words = f"{clients}, over a network" if place else clients
    ours = loads[HOWDAH]
    for name, taken in loads.items():
        if name == HOWDAH:
            continue
        if name == AWAY:
            tell_away(report, case, loads)
            continue
        target, contest = targets.get(name), name != AWAKE
        report.add(
            f"{case}: {HOWDAH} / {name}",
            ratios([one.rate for one in ours], [one.rate for one in taken]),
            target=target,
            contest=contest,
            headline=f"predictions a second ÷ {name}, {words}" if target else None,
        )
        tails = ratios([one.p99 for one in ours], [one.p99 for one in taken])
        report.add(f"{case}: p99, {HOWDAH} / {name}", tails, at_most=True, contest=contest)
        spent = ratios(costs[HOWDAH], costs[name])
        report.add(f"{case}: CPU of a prediction, {HOWDAH} / {name}", spent, at_most=True, contest=contest)


def tell_away(report, case, loads):
    """The pooler where the services are, in parts of each of those."""
    ours = [one.rate for one in loads[AWAY]]
    for name, taken in loads.items():
        if " + " in name:
            report.add(f"{case}: {AWAY} / {name}", ratios(ours, [one.rate for one in taken]), contest=True)


def tabulate(report, title, found):
    """A table of all sides by clients: throughput, latency and CPU; `found` by clients what `take` gives."""
    rows = [
        [
            name,
            clients,
            Spread.of([one.rate for one in taken]),
            Spread.of([one.p50 for one in taken]),
            Spread.of([one.p99 for one in taken]),
            Spread.of(costs[name]),
        ]
        for clients, (loads, costs) in found.items()
        for name, taken in loads.items()
    ]
    report.table(title, ["side", "clients", "predictions/s", "p50, ms", "p99, ms", "CPU of one, us"], rows)


def compare(report, sides, clients_of, rounds, seconds, targets, where="", around=contextlib.nullcontext):
    """Loads all sides in turn with each number of clients, and tells it in figures and plots; `targets` by clients."""
    through, p50, p99 = ({side.name: [] for side in sides} for _ in range(3))
    cost = {}
    found = {}
    for clients in clients_of:
        named = f"{clients} client{'s' if clients > 1 else ''}"
        loads, costs = found[clients] = take(sides, clients, rounds, seconds, around)
        tell(report, f"{where}{named}", loads, costs, targets.get(clients, {}))
        for name, taken in loads.items():
            through[name].append((clients, Spread.of([one.rate for one in taken])))
            p50[name].append((clients, Spread.of([one.p50 for one in taken])))
            p99[name].append((clients, Spread.of([one.p99 for one in taken])))
            cost.setdefault(named, []).append((name, Spread.of(costs[name])))
    tabulate(report, "Over a network" if where else "On one machine", found)
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
        f"99 of 100 predictions are answered within{suffix}",
        "clients",
        "p99 in milliseconds",
        p99,
        log_x=True,
        log_y=True,
    )
    report.plot(
        f"{prefix}median",
        f"Half of the predictions are answered within{suffix}",
        "clients",
        "p50 in milliseconds",
        p50,
        log_x=True,
        log_y=True,
    )
    report.plot(
        f"{prefix}cpu",
        f"CPU of a prediction, all that serves it{suffix}",
        "",
        "microseconds",
        cost,
        kind="panels",
    )
