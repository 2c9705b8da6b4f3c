"""A model for each of 10,000 groups, beside one model for all rows, and beside a loop of scikit-learn's in Python.

A statement predicts every row of a table: `SELECT sum(pgml.predict(project, t)) FROM t`, in turns by a project with
`group_by` and by one of the same algorithm without the column. Trainings are of the same rows: `pgml.train` with
`group_by`, and in Python a loop over the groups of a data frame in memory. Both have one thread.
"""

import time

from bench.flights import SETTINGS
from bench.report import Report, interleave, ratios
from devkit import say
from devkit.client import connection
from devkit.extension import build_into
from devkit.postgres import NEWEST, tree
from devkit.server import Server
from devkit.setup import python_for

DATABASE = "groups"
GROUPS, QUICK_GROUPS = 10_000, 1_000
ROWS_OF_GROUP = 100
ROUNDS, QUICK_ROUNDS = 7, 2
ALGORITHMS = {
    "linear": "{}",
    "hist_gradient_boosting": '{"max_iter": 10, "max_depth": 3}',
    "xgboost": '{"n_estimators": 10, "max_depth": 3}',
}


def measure(quick):
    """The report: predictions by many models and by one, and the time of the trainings."""
    python_for("quality")
    groups = QUICK_GROUPS if quick else GROUPS
    chosen = tree(NEWEST)
    build_into(chosen)
    with Server(chosen, SETTINGS) as server:
        server.psql(f"CREATE DATABASE {DATABASE}")
        server.psql("CREATE EXTENSION pgml", DATABASE)
        report = Report("groups", quick, server)
        with connection(server, DATABASE) as client:
            cursor = client.cursor()
            cursor.execute("SET client_min_messages = warning")
            make(cursor, groups)
            for algorithm, hyperparams in ALGORITHMS.items():
                predictions(report, cursor, (algorithm, hyperparams, groups), QUICK_ROUNDS if quick else ROUNDS)
            training(report, cursor, groups)
    return report


def make(cursor, groups):
    """The rows, in no order of their groups."""
    cursor.execute(
        f"""CREATE TABLE rows AS SELECT (i * 7919 % {groups})::int AS store, random()::real AS price,
        (i % 7)::real AS day, random()::real AS stock, (random() + (i * 7919 % {groups}) % 13 * (i % 7))::real AS units
        FROM generate_series(1::bigint, {groups * ROWS_OF_GROUP}) i"""
    )
    cursor.execute("ANALYZE rows")


def seconds(cursor, statement):
    """How long a statement takes."""
    begun = time.perf_counter()
    cursor.execute(statement)
    cursor.fetchall()
    return time.perf_counter() - begun


def predictions(report, cursor, case, rounds):
    """The time of predictions of all rows."""
    algorithm, hyperparams, groups = case
    train = "SELECT pgml.train('{}_{}', 'regression', '{}', 'units', '{}', '{}', refit => false{})"
    without = "(SELECT price, day, stock, units FROM rows)"
    took = seconds(cursor, train.format(algorithm, "groups", "rows", algorithm, hyperparams, ", group_by => 'store'"))
    cursor.execute(train.format(algorithm, "all", without, algorithm, hyperparams, ""))
    cursor.fetchall()
    taken = interleave(
        {
            side: lambda side=side: seconds(cursor, f"SELECT sum(pgml.predict('{algorithm}_{side}', r)) FROM rows r")
            for side in ("groups", "all")
        },
        rounds,
    )
    report.add(
        f"{algorithm}: predictions by {groups:,} models ÷ by one", ratios(taken["groups"], taken["all"]), target=1.1,
        at_most=True, contest=True, headline=f"time of a prediction by {algorithm}: {groups:,} groups ÷ one model",
    )  # fmt: skip
    say.note(f"{algorithm}: {took:.1f} s for {groups:,} models of {ROWS_OF_GROUP} rows")


def training(report, cursor, groups):
    """The time of trainings beside a loop in Python."""
    import pandas
    from sklearn.linear_model import LinearRegression

    cursor.execute("SELECT store, price, day, stock, units FROM rows")
    frame = pandas.DataFrame(cursor.fetchall(), columns=["store", "price", "day", "stock", "units"])
    frame = frame.astype(dict.fromkeys(("price", "day", "stock", "units"), "float32"))

    def loop():
        begun = time.perf_counter()
        for _, rows in frame.groupby("store"):
            LinearRegression().fit(rows[["price", "day", "stock"]].to_numpy(), rows["units"].to_numpy())
        return time.perf_counter() - begun

    options = "test_size => 0, group_by => 'store', automatic_deploy => false"
    statement = f"SELECT pgml.train('t', 'regression', 'rows', 'units', {options})"
    taken = interleave({"pgml": lambda: seconds(cursor, statement), "loop": loop}, 2)
    report.add(
        f"linear: training of {groups:,} models from the table ÷ scikit-learn's loop in memory",
        ratios(taken["pgml"], taken["loop"]), target=1.0, at_most=True, contest=True,
    )  # fmt: skip
