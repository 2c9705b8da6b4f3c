"""The event loop, chosen by measurement: one relay on mio, on tokio's current-thread runtime and on io_uring.

`bench/loops/` is the relay in Rust, the same code for what is done with the bytes; `bench/relay.c` does the same by
plain epoll. Each sends clients' requests over two connections to the instant server (`bench/instant.py`), which answers
at once. Clients come by TCP, the server is reached by its Unix socket. CPU is the relay's own, user and system time, by
the scheduler's count. The relays have one core, the generator and the server the others: else it is chance, above all
with one client, on which cores the three find themselves.

Three things are varied: how many clients there are, what they say (one Query, or Parse, Bind, Describe, Execute, Sync),
and how many requests each has under way.
"""

import contextlib
import os
import shutil
import subprocess

from bench.instant import Load, behind
from bench.pooler import wait_for
from bench.programs import compiled, cpu_of, running
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem
from devkit.places import ROOT
from devkit.pooler import program
from devkit.say import timed
from devkit.server import SUPERUSER, free_port
from devkit.setup import check_toolchain

LOOPS = ("mio", "tokio", "uring")
# Mode, clients, requests under way of each.
CASES = [("simple", clients, 1) for clients in (1, 10, 100, 1000)]
CASES += [("extended", 100, 1), ("simple", 10, 16)]


def measure(quick):
    """The report."""
    build()
    rounds, seconds = (1, 1) if quick else (9, 1)
    with contextlib.ExitStack() as stack:
        core = stack.enter_context(away_from_one_core())
        folder, instant = stack.enter_context(behind())
        load, report = Load(folder), Report("loops", quick, instant.server)
        place = f"{folder}/.s.PGSQL.{instant.port}"
        path = shutil.copy(program().with_name("loops"), folder)
        relay = compiled("relay", folder)
        sides = {}
        for name in (*LOOPS, "C"):
            port = free_port()
            before = [path, name, str(port)] if name in LOOPS else [relay, str(port), folder]
            command = [*before, place, SUPERUSER, "postgres"]
            try:
                process = stack.enter_context(running(command, f"{folder}/{name}.log"))
                wait_for(instant.server, port)
            except Problem as problem:
                # A container may forbid io_uring.
                report.leave_out(name, str(problem))
                continue
            os.sched_setaffinity(process.pid, core)
            sides[name] = (port, process.pid)
        found = {case: one_case(report, load, sides, case, rounds, seconds) for case in CASES}
        draw(report, found)
    return report


@contextlib.contextmanager
def away_from_one_core():
    """Keeps this process and those that it starts from one core, and gives that; one core alone is for all."""
    cores = os.sched_getaffinity(0)
    core = {min(cores)}
    os.sched_setaffinity(0, cores - core or cores)
    try:
        yield core
    finally:
        os.sched_setaffinity(0, cores)


def build():
    """Compiles the relays."""
    check_toolchain()
    with timed("building the relays"):
        command = ["cargo", "build", "--release", "--package=loops", "--locked"]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            raise Problem("the relays did not build (cargo's message is above)")


def one_case(report, load, sides, case, rounds, seconds):
    """Measures all sides in turn; gives the CPU a query and queries a second of each."""
    mode, clients, depth = case
    costs = {name: [] for name in sides}

    def run(name):
        port, pid = sides[name]
        before = cpu_of(pid)
        rate, _, _ = load.run(port, mode, clients, seconds, depth)
        costs[name].append((cpu_of(pid) - before) / (rate * seconds) * 1e6)
        return rate

    rates = interleave({name: lambda name=name: run(name) for name in sides}, rounds)
    costs = {name: values[1:] for name, values in costs.items()}
    called = f"{mode}, {clients} clients" + (f", {depth} requests each" if depth > 1 else "")
    for name in sides:
        report.add(f"{called}: {name}: CPU a query", Spread.of(costs[name]), unit="us")
        report.add(f"{called}: {name}", Spread.of(rates[name]), unit="queries/s")
        if name != "mio":
            report.add(f"{called}: CPU, {name} / mio", ratios(costs[name], costs["mio"]))
            report.add(f"{called}: queries a second, {name} / mio", ratios(rates[name], rates["mio"]))
    return {name: (Spread.of(costs[name]), Spread.of(rates[name])) for name in sides}


def draw(report, found):
    """The table, and the plot by the number of clients."""
    names = list(next(iter(found.values())))
    rows = [
        [f"{mode}, {clients} clients" + (f" x {depth}" if depth > 1 else ""), *cells]
        for (mode, clients, depth), by_name in found.items()
        for cells in [[by_name[name][0] for name in names]]
    ]
    report.table("CPU a query, microseconds", ["", *names], rows)
    series = {
        name: [(clients, by[name][0]) for (mode, clients, depth), by in found.items() if (mode, depth) == ("simple", 1)]
        for name in names
    }
    report.plot("cpu", "A relay on each loop", "clients", "CPU a query, microseconds", series, log_x=True)
