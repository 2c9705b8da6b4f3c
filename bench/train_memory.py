"""Training from five million rows, against pandas and ADBC with XGBoost's Python package.

All read the same table and train the same number of trees with the same number of threads. Compared are the wall
time from the first row read to the model made, and the peak of resident memory of the process that trains: VmHWM, as
the kernel keeps it. For the server's backend that counts the pages of shared_buffers that it has touched, too, though
they are the server's; what it is without them is reported beside, and the greatest size of temporary files. What
Python's side spends on starting the interpreter and importing packages is left out of its time.

Beside them is the published form: pandas.read_csv of a CSV file as it comes, and XGBRegressor. Its file lies ready in
the page cache, and what making it took does not count.

`--rows` says how many rows; of that many the published table had 28 million.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bench.flights import DATABASE, server_with_flights
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, say
from devkit.client import connection
from devkit.places import ROOT

TREES = 25
THREADS = 2
# The ways, as plots call them.
WAYS = {
    "pgml": "pgml.train",
    "pandas": "COPY, pandas, XGBoost",
    "adbc": "ADBC, Arrow, XGBoost",
    "csv": "read_csv, XGBoost",
}
TRAIN = (
    "SELECT * FROM pgml.train('flights', task => 'regression', relation_name => 'flights', "
    "y_column_name => 'depdelayminutes', algorithm => 'xgboost', "
    f"""hyperparams => '{{"n_estimators": {TREES}, "nthread": {THREADS}}}', test_size => 0, """
    "automatic_deploy => false)"
)


def measure(quick, rows=None):
    """The report: time and peak memory of all ways."""
    rounds = 2 if quick else 3
    rows = rows or (1_000_000 if quick else 5_000_000)
    # Few shared buffers, as a server of this size would have by default: the table is read through the page cache.
    with (
        server_with_flights(rows, {"shared_buffers": "128MB"}) as server,
        tempfile.TemporaryDirectory(prefix="howdah-bench-") as folder,
    ):
        table = Path(folder) / "flights.csv"
        with say.timed("writing the flights as CSV"), open(table, "w") as file:
            subprocess.run(copy_out(server), stdout=file, check=True)
        report = Report("train-memory", quick, server)
        report.content["rows"] = rows
        details = {"pgml": [], "pandas": [], "adbc": [], "csv": []}
        sides = {
            "pgml": lambda: kept(details, "pgml", train_in_server(server)),
            "pandas": lambda: kept(details, "pandas", train_in_python(server, "pandas", copy_out(server))),
            "adbc": lambda: kept(details, "adbc", train_in_python(server, "adbc")),
            "csv": lambda: kept(details, "csv", train_in_python(server, "csv", str(table))),
        }
        interleave(sides, rounds)
    # The first of each is of the round that warms up.
    details = {name: found[1:] for name, found in details.items()}
    for name, found in details.items():
        report.add(f"{name}: time", Spread.of([one["seconds"] for one in found]), unit="s")
        report.add(f"{name}: peak memory", Spread.of([one["peak_mb"] for one in found]), unit="MB")
    ours = details["pgml"]
    report.add("pgml: of it, not shared buffers", Spread.of([one["own_mb"] for one in ours]), unit="MB")
    report.add("pgml: temporary files", Spread.of([one["temporary_mb"] for one in ours]), unit="MB")
    for what, unit, target in (("peak_mb", "peak memory", 0.4), ("seconds", "time", 0.9)):
        against_better = [
            mine[what] / min(pandas[what], adbc[what])
            for mine, pandas, adbc in zip(ours, details["pandas"], details["adbc"], strict=True)
        ]
        case, headline = f"{unit}, pgml / the better", f"{unit} of training ÷ the better of pandas and ADBC"
        ratio = Spread.of(against_better)
        report.add(case, ratio, target=target, at_most=True, contest=True, headline=headline)
    for what, unit, target in (("peak_mb", "peak memory", 0.35), ("seconds", "time", 0.9)):
        against_published = ratios([mine[what] for mine in ours], [csv[what] for csv in details["csv"]])
        case, headline = f"{unit}, pgml / the published form", f"{unit} of training ÷ pandas.read_csv and XGBoost"
        report.add(case, against_published, target=target, at_most=True, contest=True, headline=headline)
    for what, title, label in (("peak_mb", "Peak memory of training", "MB"), ("seconds", "Time of training", "s")):
        points = [(WAYS[name], Spread.of([one[what] for one in found])) for name, found in details.items()]
        of_rows = f"{title} from {rows / 1e6:g} million rows"
        report.plot(what.partition("_")[0], of_rows, "", label, {"": points}, kind="stack")
    return report


def kept(details, name, found):
    """Keeps all that a side measured; its seconds are what is shown as it goes."""
    details[name].append(found)
    return found["seconds"]


def train_in_server(server):
    """Trains with `pgml.train` in a connection of its own, watching its backend."""
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        watch = Watch(cursor.fetchone()[0], server.data)
        with watch:
            start = time.perf_counter()
            cursor.execute(TRAIN)
            cursor.fetchall()
            seconds = time.perf_counter() - start
    return {"seconds": seconds, **watch.found()}


class Watch:
    """Looks at a backend's memory and at the server's temporary files while something runs."""

    def __init__(self, pid, data):
        self._status = Path(f"/proc/{pid}/status")
        self._data = data
        self._own = 0
        self._temporary = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._done.set()
        self._thread.join()
        self._peak = self._kilobytes("VmHWM")

    def _look(self):
        while not self._done.wait(0.02):
            self._own = max(self._own, self._kilobytes("RssAnon") + self._kilobytes("RssFile"))
            self._temporary = max(self._temporary, sum(map(size, self._data.glob("base/pgsql_tmp/**/*"))))

    def _kilobytes(self, name):
        for line in self._status.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise Problem(f"{self._status} does not tell {name}")

    def found(self):
        """What was seen, in megabytes."""
        return {"peak_mb": self._peak / 1024, "own_mb": self._own / 1024, "temporary_mb": self._temporary / 1e6}


def size(path):
    """The size of a file that may be gone by now."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def copy_out(server):
    """The command that writes the flights as CSV."""
    return server.psql_command(DATABASE, "-c", "COPY flights TO STDOUT (FORMAT csv, HEADER)")


def train_in_python(server, way, source=None):
    """Trains in a fresh Python, reading the table by `way` from `source`."""
    command = [sys.executable, "-m", "bench.train_in_python", way, server.url(DATABASE), str(TREES), str(THREADS)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"}
    command.append(json.dumps(source))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"training by {way} failed:\n{done.stderr}")
    return json.loads(done.stdout)
