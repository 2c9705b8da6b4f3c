"""Training on a Dask cluster by `howdah.distributed`: two workers, against one that has all the rows.

Both train the same number of trees from the same table. Compared are the peak of a worker's memory (VmHWM of the
process, as the kernel keeps it; of two workers the larger) and the wall time of the call, on a cluster that is up. On
one machine two workers have no more cores than one: the time tells what distributing costs, not what it brings.

A worker's memory is Python with its packages, which two workers do not share, and its rows. So the ratio depends on the
number of rows. The target is for ten million: for fewer rows docs/guide/scale.md advises to train on one server. Half
of the rows are measured beside.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.flights import DATABASE, server_with_flights
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem
from devkit.driver import PACKAGE, build_driver
from devkit.places import ROOT

TREES = 25
WORKERS = {"one worker": 1, "two workers": 2}
# The condition for the rows that are trained from, by the divisor of their number.
SHARES = {1: None, 2: "flight_number_operating_airline::integer % 2 = 0"}


def measure(quick):
    """The report: memory of a worker and time, with one worker and with two, from all rows and from half of them."""
    rounds = 2 if quick else 3
    rows = 2_000_000 if quick else 10_000_000
    build_driver(sys.executable)
    sides = {(divisor, name): [] for divisor in SHARES for name in WORKERS}
    with server_with_flights(rows) as server:
        report = Report("distributed", quick, server)
        report.content["rows"] = rows
        named = {f"{key[1]}, {million(rows / key[0])}": key for key in sides}
        interleave({title: side(server, sides[key], *key) for title, key in named.items()}, rounds)
    # The first of each is of the round that warms up.
    sides = {key: found[1:] for key, found in sides.items()}
    for title, key in named.items():
        for field, what, unit in (
            ("seconds", "time", "s"),
            ("peak_mb", "peak memory of a worker", "MB"),
            ("before_mb", "a worker before", "MB"),
        ):
            report.add(f"{title}: {what}", Spread.of([one[field] for one in sides[key]]), unit=unit)
    for divisor in SHARES:
        one, two = (sides[divisor, name] for name in WORKERS)
        for field, what, target in (("peak_mb", "peak memory of a worker", 0.6), ("seconds", "time", None)):
            ratio = ratios([found[field] for found in two], [found[field] for found in one])
            aims = {"target": target, "at_most": True, "headline": f"{what}, of two ÷ of one"}
            aims = aims if target and divisor == 1 else {}
            report.add(f"{what}, two workers / one, {million(rows / divisor)}", ratio, **aims)
    points = [(title, Spread.of([found["peak_mb"] for found in sides[key]])) for title, key in named.items()]
    report.plot("peak", "A worker's memory", "", "MB", {"": points}, kind="stack")
    return report


def million(rows):
    """So many rows, in words."""
    return f"{rows / 1e6:g} million rows"


def side(server, details, divisor, name):
    """What trains with so many workers, keeps all that it measured, and gives its seconds."""

    def train():
        command = [sys.executable, "-m", "bench.distributed", server.url(DATABASE), str(WORKERS[name])]
        command += [SHARES[divisor]] if SHARES[divisor] else []
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "tools", PACKAGE)))
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Problem(f"training on {WORKERS[name]} workers failed:\n{done.stderr}")
        details.append(json.loads(done.stdout.splitlines()[-1]))
        return details[-1]["seconds"]

    return train


def megabytes(name):
    """A figure of the memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def warm():
    """Imports what a training imports, which does not count."""
    import dask.array
    import howdah.dbapi
    import xgboost.dask

    del dask, howdah, xgboost


def main():
    """Trains once on a cluster of its own, and prints what it took as JSON."""
    from dask.distributed import Client, LocalCluster
    from howdah import distributed

    url, count, *where = sys.argv[1:]
    with (
        LocalCluster(n_workers=int(count), threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm)
        before = max(client.run(megabytes, "VmRSS").values())
        start = time.perf_counter()
        distributed.train(
            client,
            "flights",
            "flights",
            "depdelayminutes",
            dsn=url,
            hyperparams={"n_estimators": TREES},
            where=where[0] if where else None,
        )
        seconds = time.perf_counter() - start
        peak = max(client.run(megabytes, "VmHWM").values())
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "before_mb": before}))


if __name__ == "__main__":
    main()
