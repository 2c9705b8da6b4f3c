"""Predictions of a million rows in one statement, against XGBoost's C API predicting the same rows from RAM.

XGBoost gets the very model that the server predicts with, a float32 matrix ready in memory and one thread; the server
reads the rows from its table. That both give the same bits is checked before anything is timed.
"""

import io
import time

import numpy
import xgboost

from bench.flights import ARRAY, DATABASE, SCALARS, server_with_flights, train
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, say
from devkit.client import connection
from devkit.flights import FEATURES

ROWS = 1_000_000
# Trees, to the least ratio for scalars and for the aggregate.
TARGETS = {25: (1.0, 1.35), 100: (1.5, 2.5)}
# What is timed, as the plot calls it.
SHOWN = {
    "xgboost": "XGBoost's C API, from RAM",
    "column": "sum of a column",
    "array": "pgml.predict, array",
    "scalars": "pgml.predict, scalars",
    "predict_agg": "pgml.predict_agg",
    "scalars, two workers": "pgml.predict, two workers",
}


def measure(quick):
    """The report: rows a second of each way, for 25 and for 100 trees."""
    rounds = 3 if quick else 9
    with server_with_flights(ROWS) as server:
        report = Report("predict-scan", quick, server)
        report.content["xgboost"] = xgboost.__version__
        matrix = features(server)
        bars = {}
        with connection(server, DATABASE) as client:
            for trees, (target, target_agg) in TARGETS.items():
                project = f"flights_{trees}"
                train(server, project, trees)
                booster = stored_model(server, project)
                check_bits(client, project, booster, matrix)
                say.note(f"{trees} trees, rows a second")
                taken = interleave(sides(client, project, booster, matrix), rounds)
                for name, values in taken.items():
                    report.add(f"{name}, {trees} trees", Spread.of(values), unit="rows/s")
                for name, bound in (("scalars", target), ("array", None), ("predict_agg", target_agg)):
                    of_xgboost = ratios(taken[name], taken["xgboost"])
                    headline = (
                        f"rows a second scored in SQL ÷ XGBoost's C API on rows in RAM, one thread, {trees} trees"
                    )
                    report.add(
                        f"{name} / xgboost, {trees} trees",
                        of_xgboost,
                        target=bound,
                        contest=True,
                        headline=headline if name == "scalars" else None,
                    )
                bars[f"{trees} trees"] = [(SHOWN[name], Spread.of(values)) for name, values in taken.items()]
                two = ratios(taken["scalars, two workers"], taken["scalars"])
                report.add(f"two parallel workers / one process, {trees} trees", two)
        title = f"{ROWS:,} rows scored in one statement, and by XGBoost from RAM"
        report.plot("rates", title, "", "rows a second", bars, kind="panels")
    return report


def sides(client, project, booster, matrix):
    """What is timed: name to a callable that gives rows a second."""
    one = "SET max_parallel_workers_per_gather = 0"
    two = "SET max_parallel_workers_per_gather = 2"
    scalars = f"SELECT sum(pgml.predict('{project}', {SCALARS})) FROM flights"
    check_parallel(client, two, scalars)

    def xgboost_side():
        start = time.perf_counter()
        booster.inplace_predict(matrix)
        return ROWS / (time.perf_counter() - start)

    def server_side(setting, statement):
        ask(client, setting)
        start = time.perf_counter()
        ask(client, statement)
        return ROWS / (time.perf_counter() - start)

    return {
        "xgboost": xgboost_side,
        "column": lambda: server_side(one, "SELECT sum(distance) FROM flights"),
        "array": lambda: server_side(one, f"SELECT sum(pgml.predict('{project}', {ARRAY})) FROM flights"),
        "scalars": lambda: server_side(one, scalars),
        "predict_agg": lambda: server_side(
            one, f"SELECT cardinality(pgml.predict_agg('{project}', {SCALARS})) FROM flights"
        ),
        "scalars, two workers": lambda: server_side(two, scalars),
    }


def ask(client, statement):
    """The rows that a statement answers with, if it does."""
    cursor = client.cursor()
    cursor.execute(statement)
    return cursor.fetchall() if cursor.description else None


def check_parallel(client, setting, statement):
    """Raises unless the planner chooses two parallel workers by itself."""
    ask(client, setting)
    plan = "\n".join(row[0] for row in ask(client, f"EXPLAIN {statement}"))
    if "Workers Planned: 2" not in plan:
        raise Problem(f"the planner does not choose two parallel workers:\n{plan}")


def features(server):
    """The features of all flights in the table's order, as float32."""
    with say.timed("copying the rows into RAM for XGBoost"):
        text = server.psql(f"COPY (SELECT {SCALARS} FROM flights) TO STDOUT (FORMAT csv)", DATABASE)
        rows = numpy.loadtxt(io.StringIO(text), delimiter=",", dtype=numpy.float32)
    if rows.shape != (ROWS, len(FEATURES)):
        raise Problem(f"the table has {rows.shape} rows and features, not {(ROWS, len(FEATURES))}")
    return rows


def stored_bytes(server, project):
    """The deployed model, as the server stores it."""
    stored = server.psql(
        "SELECT encode(string_agg(data, ''::bytea ORDER BY part), 'hex') FROM pgml.files JOIN pgml.models "
        "ON models.id = model_id JOIN pgml.projects ON projects.id = project_id "
        f"WHERE name = '{project}' AND path = 'model.ubj' GROUP BY model_id ORDER BY model_id DESC LIMIT 1",
        DATABASE,
    )
    return bytearray.fromhex(stored)


def stored_model(server, project):
    """The deployed model in XGBoost, with one thread."""
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(stored_bytes(server, project))
    booster.set_param({"nthread": 1})
    return booster


def check_bits(client, project, booster, matrix):
    """Raises unless the server predicts the same float32 values as XGBoost does, for every row."""
    ask(client, "SET max_parallel_workers_per_gather = 0")
    answer = ask(client, f"SELECT pgml.predict_agg('{project}', {SCALARS}) FROM flights")[0][0]
    ours = numpy.array(answer, dtype=numpy.float32)
    theirs = booster.inplace_predict(matrix)
    different = int((ours.view(numpy.uint32) != theirs.view(numpy.uint32)).sum())
    if different:
        raise Problem(f"{different} of {ROWS} predictions differ from XGBoost's")
