"""Look-ups, lists, predictions and memory in a database with 10, 100, 1000 and 10,000 projects.

Each has a model of its own, and one of them as many deployments. The models are copies of one that differ in an
attribute, so that each has bytes, a digest and a compiled file of its own. `most / fewest` says how a figure grows with
their number, of the least values measured, and is bounded for what does not go through all models. Above 128 models,
which a connection keeps mapped, one that is used in turn with others is looked up and mapped anew: the step in
`prediction with another model each time`.
"""

import contextlib
import time

import xgboost
from pg8000.dbapi import DatabaseError

from bench.booster_processes import memory
from bench.flights import ARRAY, DATABASE, server_with_flights, train
from bench.predict_scan import stored_bytes
from bench.report import Report, Spread
from devkit import Problem, say
from devkit.client import connection

MARK = "0000000000"
# What does not go through all models, and may not take longer where there are more.
FLAT = (
    "first prediction of a connection",
    "first prediction of a connection, a project of as many deployments",
    "prediction by name",
    "prediction by id",
    "deployment",
)
GROWS_AT_MOST = 1.5
MEMORY = "memory that a connection keeps, having predicted with all"
MEMORY_AT_MOST = 16
FILL = """
    INSERT INTO pgml.projects (id, name, task) SELECT g, 'project ' || g, 'regression' FROM generate_series({0}, {1}) g;
    INSERT INTO pgml.models (id, project_id, snapshot_id, num_features, algorithm, hyperparams, search_params,
            search_args, status, metrics)
        SELECT p.id, p.id, m.snapshot_id, m.num_features, m.algorithm, m.hyperparams, m.search_params, m.search_args,
            m.status, m.metrics
        FROM pgml.projects p, pgml.models m WHERE m.id = 1 AND p.id >= {0};
    INSERT INTO pgml.files (model_id, path, part, data)
        SELECT p.id, 'model.ubj', 0, convert_to(replace(j.text, '{2}', lpad(p.id::text, 10, '0')), 'UTF8')
        FROM pgml.projects p, model_text j WHERE p.id >= {0};
    INSERT INTO pgml.deployments (project_id, model_id, strategy)
        SELECT p.id, p.id, 'new_score' FROM pgml.projects p WHERE p.id >= {0};
    INSERT INTO pgml.deployments (project_id, model_id, strategy)
        SELECT 1, 1, 'specific' FROM generate_series({0}, {1});
"""


def measure(quick):
    """The report: milliseconds and megabytes of each, at each number of models."""
    numbers = (10, 100, 1000) if quick else (10, 100, 1000, 10_000)
    with server_with_flights(10_000, {"pgml.cache_size": "8GB"}) as server:
        report = Report("many-models", quick, server)
        train(server, "flights", 10)
        keep_as_text(server)
        found, made = {}, 1
        for number in numbers:
            with say.timed(f"{number} models"):
                add(server, made + 1, number)
            made = number
            for name, values in measured(server, number).items():
                found.setdefault(name, {})[number] = Spread.of(values)
    for name, points in found.items():
        tell(report, name, points)
    times = {name: list(points.items()) for name, points in found.items() if name != MEMORY}
    report.plot("times", "What many models cost", "models", "ms", times, log_x=True, log_y=True)
    kept = {"": list(found[MEMORY].items())}
    report.plot("memory", "Memory of a connection that has predicted with all", "models", "MB of PSS", kept, log_x=True)
    return report


def tell(report, name, points):
    """The figures of one thing, and how they grow."""
    unit = "MB" if name == MEMORY else "ms"
    for number, spread in points.items():
        bound = {"target": MEMORY_AT_MOST, "at_most": True} if name == MEMORY else {}
        report.add(f"{name}, {number} models", spread, unit=unit, **bound)
    if name == MEMORY:
        return
    fewest, *_, most = (spread.least for spread in points.values())
    bound = {"target": GROWS_AT_MOST, "at_most": True} if name in FLAT else {}
    report.add(f"{name}: most / fewest", Spread.of([most / fewest]), **bound)


def keep_as_text(server):
    """The model as JSON, which copies are made of in SQL."""
    booster = xgboost.Booster()
    booster.load_model(stored_bytes(server, "flights"))
    booster.set_attr(copy=MARK)
    text = booster.save_raw("json").decode().replace("'", "''")
    server.psql(f"CREATE TABLE model_text AS SELECT '{text}'::text AS text", DATABASE)


def add(server, first, last):
    """Projects with a model each, as training would leave them."""
    server.psql(FILL.format(first, last, MARK), DATABASE)
    for table in ("projects", "models", "deployments"):
        server.psql(f"SELECT setval('pgml.{table}_id_seq', (SELECT max(id) FROM pgml.{table}))", DATABASE)
    server.psql("VACUUM ANALYZE", DATABASE)


def measured(server, number):
    """Milliseconds of each, several times over, and megabytes."""
    row = server.psql(f"SELECT {ARRAY}::real[] FROM flights LIMIT 1", DATABASE)

    def predict(model):
        return f"SELECT pgml.predict({model}, '{row}'::real[])"

    every = f"SELECT count(pgml.predict(name, '{row}'::real[])) FROM pgml.projects"
    one, other = f"'project {number}'", f"'project {number // 2}'"
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cold = times(cursor, [every])
        found = {
            "prediction by name": times(cursor, [predict(one)] * 50),
            "prediction by id": times(cursor, [predict(number // 2)] * 50),
            "deployment": times(cursor, [f"SELECT pgml.deploy({other}, 'most_recent')"] * 20),
            "an unknown name": times(cursor, [predict("'projekt 7'")] * 20, fails=True),
            "prediction with each model, a model": [taken / number for taken in times(cursor, [every] * 3)],
            "prediction with each model, compiled first, a model": [taken / number for taken in cold],
            "list of trained models": times(cursor, ["SELECT count(*) FROM pgml.trained_models"] * 5),
            "list of deployed models": times(cursor, ["SELECT count(*) FROM pgml.deployed_models"] * 5),
            "list of statistics": times(cursor, ["SELECT count(*) FROM pgml.stat_models"] * 5),
        }
        in_turn = [predict(f"'project {2 + i * 7919 % (number - 1)}'") for i in range(200)]
        found["prediction with another model each time"] = times(cursor, in_turn)
    found["first prediction of a connection"] = first(server, predict(one))
    found["first prediction of a connection, a project of as many deployments"] = first(server, predict("'flights'"))
    (server.data / "pgml_cache" / "tidied").unlink()
    found["first prediction of a connection, with a search of the cache for models to remove"] = first(
        server, predict(one), 1
    )
    found[MEMORY] = [kept(server, predict("'flights'"), every)]
    return found


def first(server, statement, rounds=30):
    """In a new connection each time."""
    taken = []
    for _ in range(rounds):
        with connection(server, DATABASE) as client:
            taken += times(client.cursor(), [statement])
    return taken


def kept(server, one, every):
    """Megabytes that a connection has more after predicting with all models than after predicting with one."""
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SELECT pg_backend_pid(), count(*) FROM pgml.projects GROUP BY 1")
        pid = cursor.fetchone()[0]
        times(cursor, [one])
        before = memory(pid)["mb"]
        times(cursor, [every, one])
        return memory(pid)["mb"] - before


@contextlib.contextmanager
def failing():
    """What is within fails as a statement does."""
    try:
        yield
    except DatabaseError:
        return
    raise Problem("a statement did not fail that should have")


def times(cursor, statements, fails=False):
    """Milliseconds of each statement."""
    taken = []
    for statement in statements:
        begun = time.perf_counter()
        with failing() if fails else contextlib.nullcontext():
            cursor.execute(statement)
            cursor.fetchall()
        taken.append((time.perf_counter() - begun) * 1e3)
    return taken
