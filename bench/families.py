"""Each family against its library in Python, on the same rows of the same database.

Training is from the first row read to the model and its score on a quarter of the rows held out: in SQL
`pgml.train`, in Python psql's COPY into pandas, `train_test_split`, `fit` and `score`. The interpreter's start and
its imports are left out. Scoring is of all rows, into a table of keys and predictions: in SQL INSERT ... SELECT
pgml.predict, in Python COPY, `predict` and COPY back. Both sides have the same hyperparameters, and one thread. The
same INSERT with a constant in place of the prediction is the least that scoring in SQL can cost.
"""

import json
import os
import subprocess
import sys
import time

from bench.flights import DATABASE, FEATURES, server_with_flights
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem
from devkit.client import connection
from devkit.places import ROOT

LINEAR, TREES = "sklearn.linear_model.", "sklearn.ensemble."
# Algorithm, task, the library's class, its parameters (the same under the same names in SQL), and a share of the
# rows: what grows with their square has few.
FAMILIES = [
    ("linear", "regression", LINEAR + "LinearRegression", {}, 1),
    ("ridge", "regression", LINEAR + "Ridge", {"alpha": 1.0}, 1),
    ("lasso", "regression", LINEAR + "Lasso", {"alpha": 0.1}, 1),
    ("elastic_net", "regression", LINEAR + "ElasticNet", {"alpha": 0.1}, 1),
    ("huber", "regression", LINEAR + "HuberRegressor", {"max_iter": 200}, 0.2),
    ("stochastic_gradient_descent", "regression", LINEAR + "SGDRegressor", {"eta0": 1e-9, "max_iter": 5}, 0.5),
    ("linear", "classification", LINEAR + "LogisticRegression", {}, 0.2),
    ("ridge", "classification", LINEAR + "RidgeClassifier", {}, 1),
    ("naive_bayes", "classification", "sklearn.naive_bayes.GaussianNB", {}, 1),
    ("linear_svm", "classification", "sklearn.svm.LinearSVC", {"max_iter": 50}, 0.2),
    ("svm", "classification", "sklearn.svm.SVC", {}, 0.02),
    ("knn", "regression", "sklearn.neighbors.KNeighborsRegressor", {}, 0.1),
    ("random_forest", "regression", TREES + "RandomForestRegressor", {"n_estimators": 20, "max_depth": 12}, 0.2),
    ("random_forest", "classification", TREES + "RandomForestClassifier", {"n_estimators": 20, "max_depth": 12}, 0.2),
    ("extra_trees", "regression", TREES + "ExtraTreesRegressor", {"n_estimators": 20, "max_depth": 12}, 0.2),
    ("gradient_boosting_trees", "regression", TREES + "GradientBoostingRegressor", {"n_estimators": 20}, 0.2),
    ("hist_gradient_boosting", "regression", TREES + "HistGradientBoostingRegressor", {"max_iter": 50}, 1),
    ("xgboost", "regression", "xgboost.XGBRegressor", {"n_estimators": 50, "nthread": 1}, 1),
    ("kmeans", "clustering", "sklearn.cluster.KMeans", {"n_clusters": 8, "n_init": 1}, 0.1),
    ("gaussian_mixture", "clustering", "sklearn.mixture.GaussianMixture", {"n_components": 4, "reg_covar": 1.0}, 0.05),
    ("isolation_forest", "anomaly", TREES + "IsolationForest", {}, 0.2),
    ("local_outlier_factor", "anomaly", "sklearn.neighbors.LocalOutlierFactor", {"novelty": True}, 0.05),
    ("one_class_svm", "anomaly", "sklearn.svm.OneClassSVM", {"nu": 0.1}, 0.02),
    ("robust_covariance", "anomaly", "sklearn.covariance.EllipticEnvelope", {}, 0.1),
    ("pca", "decomposition", "sklearn.decomposition.PCA", {"n_components": 4}, 1),
]
NUMBERS = {"regression": "depdelayminutes", "classification": "(depdelayminutes > 15)::int"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def measure(quick):
    """The report: the time of training and of scoring of each family, over the library's."""
    rows, rounds = (40_000, 1) if quick else (400_000, 3)
    with server_with_flights(rows) as server:
        server.psql("CREATE TABLE written (id int, prediction real)", DATABASE)
        report = Report("families", quick, server)
        report.content["rows"] = rows
        lines, plotted = [], {"time of training ÷ Python": [], "rows scored a second ÷ Python": []}
        for number, (algorithm, task, name, parameters, share) in enumerate(FAMILIES):
            limit = int(rows * share)
            label = "y" if task in NUMBERS else None
            table = f"family_{number}"
            columns = ", ".join(FEATURES) + (f", {NUMBERS[task]} AS y" if label else "")
            server.psql(f"CREATE TABLE {table} AS SELECT {columns} FROM flights LIMIT {limit}", DATABASE)
            found = {"pgml": [], "python": []}
            given = (algorithm, task, table, label, parameters)
            sides = {
                "pgml": lambda given=given, found=found: kept(found["pgml"], in_server(server, *given)),
                "python": lambda given=given, found=found, name=name: kept(
                    found["python"], in_python(server, name, *given[1:])
                ),
            }
            interleave(sides, rounds)
            ours, theirs = found["pgml"][1:], found["python"][1:]
            what = f"{algorithm}, {task}"
            training = ratios([one["seconds"] for one in ours], [one["seconds"] for one in theirs])
            report.add(
                f"{what}: training ÷ {name}", training, target=1.0, at_most=True, contest=True,
                headline=f"time of training, {what} ÷ {name}",
            )  # fmt: skip
            plotted["time of training ÷ Python"].append((what, training))
            cells = [f"{what} ({limit:,} rows)", Spread.of([one["seconds"] for one in ours]), training]
            if task != "decomposition":
                scoring = ratios([one["scoring"] for one in theirs], [one["scoring"] for one in ours])
                report.add(
                    f"{what}: rows scored a second ÷ {name}", scoring, target=10, contest=True,
                    headline=f"rows scored and written a second, {what} ÷ {name}",
                )  # fmt: skip
                plotted["rows scored a second ÷ Python"].append((what, scoring))
                inserted = ratios([one["inserting"] for one in ours], [one["scoring"] for one in ours])
                cells += [scoring, inserted]
            else:
                cells += ["", ""]
            lines.append(cells)
            server.psql(f"DROP TABLE {table}", DATABASE)
        columns = ["family", "training, s", "training ÷ Python", "rows scored a second ÷ Python"]
        columns.append("an INSERT of constants ÷ scoring")
        report.table("Families against their libraries in Python", columns, lines)
        plot(report, plotted)
    return report


def plot(report, ratios_of_families):
    """A panel for training and one for scoring, with a bar for each family."""
    title = "Each family against its library in Python"
    report.plot("ratios", title, "", "times", ratios_of_families, kind="panels", even=True)


def kept(found, one):
    """Keeps all that a side measured; its seconds are what is shown as it goes."""
    found.append(one)
    return one["seconds"]


def in_server(server, algorithm, task, table, label, parameters):
    """Trains, and scores all rows into a table."""
    labelled = f"'{label}'" if label else "NULL"
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SET client_min_messages = warning")
        start = time.perf_counter()
        cursor.execute(
            f"SELECT * FROM pgml.train('{table}', '{task}', '{table}', {labelled}, '{algorithm}', "
            f"'{json.dumps(parameters)}', test_sampling => 'random')"
        )
        cursor.fetchall()
        found = {"seconds": time.perf_counter() - start}
        if task != "decomposition":
            for name, value in (("inserting", "0::real"), ("scoring", f"pgml.predict('{table}', f)")):
                cursor.execute("TRUNCATE written")
                start = time.perf_counter()
                cursor.execute(f"INSERT INTO written SELECT row_number() OVER () - 1, {value} FROM {table} f")
                found[name] = time.perf_counter() - start
    return found


def in_python(server, name, task, table, label, parameters):
    """The same in a fresh Python."""
    parameters = {("n_jobs" if name == "nthread" else name): value for name, value in parameters.items()}
    asked = {"class": name, "task": task, "label": label, "parameters": parameters}
    asked["copy"] = server.psql_command(DATABASE, "-c", f"COPY {table} TO STDOUT (FORMAT csv, HEADER)")
    if task != "decomposition":
        truncate = ("-c", "TRUNCATE written", "-c", "COPY written FROM STDIN (FORMAT csv)")
        asked["write"] = server.psql_command(DATABASE, *truncate)
    return ask_python(asked)


def ask_python(asked):
    """What a fresh Python says that it took."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"}
    command = [sys.executable, "-m", "bench.fit_in_python", json.dumps(asked)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{asked['class']} failed in Python:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
