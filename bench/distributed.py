"""Training on a Dask cluster by `howdah.distributed`: two workers, against one that has all the rows.

Both train the same number of trees from the same table. Compared are the peak of a worker's memory (VmHWM of the
process, as the kernel keeps it; of two workers the larger) and the wall time of the call, on a cluster that is up. On
one machine two workers have no more cores than one: the time tells what distributing costs, not what it brings.
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
SIDES = {"one worker": 1, "two workers": 2}


def measure(quick):
    """The report: memory of a worker and time, with one worker and with two."""
    rounds = 2 if quick else 3
    rows = 1_000_000 if quick else 5_000_000
    build_driver(sys.executable)
    with server_with_flights(rows) as server:
        report = Report("distributed", quick, server)
        report.content["rows"] = rows
        details = {name: [] for name in SIDES}
        interleave({name: side(server, details[name], count) for name, count in SIDES.items()}, rounds)
    # The first of each is of the round that warms up.
    details = {name: found[1:] for name, found in details.items()}
    for name, found in details.items():
        report.add(f"{name}: time", Spread.of([one["seconds"] for one in found]), unit="s")
        report.add(f"{name}: peak memory of a worker", Spread.of([one["peak_mb"] for one in found]), unit="MB")
        report.add(f"{name}: a worker before", Spread.of([one["before_mb"] for one in found]), unit="MB")
    one, two = (details[name] for name in SIDES)
    for key, what, target in (("peak_mb", "peak memory of a worker", 0.6), ("seconds", "time", None)):
        ratio = ratios([found[key] for found in two], [found[key] for found in one])
        aims = {"target": target, "at_most": True, "headline": f"{what} ÷ one worker's"} if target else {}
        report.add(f"{what}, two workers / one", ratio, **aims)
    points = [(name, Spread.of([found["peak_mb"] for found in details[name]])) for name in SIDES]
    report.plot("peak", f"A worker's memory, {rows / 1e6:g} million rows", "", "MB", {"": points}, kind="stack")
    return report


def side(server, details, count):
    """What trains with so many workers, keeps all that it measured, and gives its seconds."""

    def train():
        command = [sys.executable, "-m", "bench.distributed", server.url(DATABASE), str(count)]
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "tools", PACKAGE)))
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Problem(f"training on {count} workers failed:\n{done.stderr}")
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

    url, count = sys.argv[1:]
    with (
        LocalCluster(n_workers=int(count), threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(warm)
        before = max(client.run(megabytes, "VmRSS").values())
        start = time.perf_counter()
        distributed.train(client, "flights", "flights", "depdelayminutes", dsn=url, hyperparams={"n_estimators": TREES})
        seconds = time.perf_counter() - start
        peak = max(client.run(megabytes, "VmHWM").values())
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "before_mb": before}))


if __name__ == "__main__":
    main()
