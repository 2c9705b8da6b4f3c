"""A search for hyperparameters, against scikit-learn's GridSearchCV with XGBoost, end to end from the same database.

Both read the same table, hold out a quarter of the rows, try the same six combinations on three folds of the others,
train the best again on all of those, and score it on the rows held out. Both have one thread. Compared are the wall
time from the first row read, and the peak of resident memory (VmHWM) of the process that trains.
"""

import json
import time

from bench.families import ask_python
from bench.flights import DATABASE, server_with_flights
from bench.report import Report, Spread, interleave, ratios
from bench.train_memory import Watch
from devkit.client import connection

GRID = {"max_depth": [3, 6], "learning_rate": [0.05, 0.1, 0.3]}
FOLDS = 3
TREES = 30
LABEL = "depdelayminutes"


def measure(quick):
    """The report: time and peak memory of both."""
    rows, rounds = (50_000, 1) if quick else (1_000_000, 3)
    with server_with_flights(rows, {"shared_buffers": "128MB"}) as server:
        report = Report("search", quick, server)
        report.content["rows"] = rows
        found = {"pgml": [], "python": []}
        sides = {
            "pgml": lambda: kept(found["pgml"], in_server(server)),
            "python": lambda: kept(found["python"], in_python(server)),
        }
        interleave(sides, rounds)
    ours, theirs = found["pgml"][1:], found["python"][1:]
    spreads = {}
    for name, ones in (("pgml", ours), ("GridSearchCV", theirs)):
        for what, case, unit in (("seconds", "time", "s"), ("peak_mb", "peak memory", "MB")):
            spread = Spread.of([one[what] for one in ones])
            report.add(f"{name}: {case}", spread, unit=unit)
            spreads.setdefault(f"{case}, {unit}", []).append((name, spread))
    plot(report, spreads)
    for what, case, target in (("seconds", "time", 0.7), ("peak_mb", "peak memory", 0.4)):
        ratio = ratios([one[what] for one in ours], [one[what] for one in theirs])
        headline = f"{case} of a search ÷ GridSearchCV"
        report.add(f"{case}, pgml / GridSearchCV", ratio, target=target, at_most=True, contest=True, headline=headline)
    return report


def plot(report, spreads):
    """A panel for the time and one for the memory, with a bar for each side."""
    report.plot("sides", "A search over six combinations on three folds", "", "", spreads, kind="panels")


def kept(found, one):
    """Keeps all that a side measured; its seconds are what is shown as it goes."""
    found.append(one)
    return one["seconds"]


def in_server(server):
    """Searches with `pgml.train` in a connection of its own, watching its backend."""
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SET client_min_messages = warning")
        cursor.execute("SELECT pg_backend_pid()")
        watch = Watch(cursor.fetchone()[0], server.data)
        with watch:
            start = time.perf_counter()
            cursor.execute(
                f"SELECT * FROM pgml.train('search', 'regression', 'flights', '{LABEL}', 'xgboost', "
                f"""'{{"n_estimators": {TREES}, "nthread": 1}}', search => 'grid', """
                f"""search_params => '{json.dumps(GRID)}', """
                f"""search_args => '{{"cv": {FOLDS}}}', test_sampling => 'random', automatic_deploy => false)"""
            )
            cursor.fetchall()
            seconds = time.perf_counter() - start
    return {"seconds": seconds, **watch.found()}


def in_python(server):
    """The same in a fresh Python."""
    copy = server.psql_command(DATABASE, "-c", "COPY flights TO STDOUT (FORMAT csv, HEADER)")
    parameters = {"n_estimators": TREES, "n_jobs": 1}
    asked = {"class": "xgboost.XGBRegressor", "task": "regression", "label": LABEL, "parameters": parameters}
    return ask_python({**asked, "copy": copy, "grid": GRID, "folds": FOLDS})
