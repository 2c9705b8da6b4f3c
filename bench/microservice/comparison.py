"""The comparison: what is measured, in which order, and against which targets."""

import contextlib
import itertools
import tempfile
from pathlib import Path

from bench import bouncer
from bench.flights import server_with_flights, train
from bench.microservice import memory, remote, sides
from bench.microservice.formats import FORMATS
from bench.microservice.ground import Ground, Redis, prepare, sample
from bench.microservice.rounds import check_answers, compare, take
from bench.predict_scan import stored_bytes
from bench.report import Report, Spread, ratios
from devkit import Problem, say
from devkit.pooler import build_pooler
from devkit.programs import require, versions

ROWS = 1_000_000
TREES = 25
CLIENTS = (1, 5, 20, 100)
QUICK_CLIENTS = (1, 20, 100)
# howdah-pooler's predictions a second in parts of another side's, by clients.
TARGETS = {
    1: {"Flask + Redis": 10},
    20: {"Flask + Redis": 30, "FastAPI + PostgreSQL": 10, "FastAPI + Redis": 10},
    100: {"Flask + Redis": 30, "FastAPI + PostgreSQL": 10, "FastAPI + Redis": 10},
}
MEMORY_TARGET = 0.2
SETTINGS = {
    # All connections that the services, the poolers and pgbench itself want at once.
    "max_connections": "300",
    # The kernel's page cache holds the table; here it would lie in memory a second time.
    "shared_buffers": "16MB",
}
PROGRAMS = ("ab", "wrk", "redis-server", "pgbouncer")
WORKERS = (1, 2, 4)
ENGINES = ("onnx", "xgboost")
# What a quick run takes without trying: what was the fastest on two cores.
QUICK_CHOICE = ("onnx", 2)


def measure(quick):
    """The report."""
    require(PROGRAMS)
    build_pooler()
    rounds, seconds = (1 if quick else 3), 2
    rows = 100_000 if quick else ROWS
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(server_with_flights(rows, SETTINGS))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp")))
        folder.chmod(0o755)
        report = Report("microservice", quick, server)
        report.content |= {
            "rows": rows,
            "trees": TREES,
            "settings_of_the_server": SETTINGS,
            "versions": versions(PROGRAMS) | {"pgbouncer": bouncer.version()[0]},
            "pgbouncer_is_asked_by": f"-M {bouncer.mode('prepared')}",
        }
        train(server, "flights", TREES)
        prepare(server)
        ground = Ground(server, rows, stored_model(server, folder), folder)
        chosen = on_one_machine(report, ground, rounds, seconds)
        try:
            remote.measure(report, ground, chosen, QUICK_CLIENTS if quick else CLIENTS, rounds, seconds, TARGETS)
        except Problem as problem:
            # What was measured before stands without it.
            report.leave_out("everything over a network", str(problem))
    return report


def on_one_machine(report, ground, rounds, seconds):
    """Adds all figures that need no network; gives engine and number of workers of the services of FastAPI."""
    quick = report.content["quick"]
    with Redis(ground) as redis, contextlib.ExitStack() as running:
        stores = {"FastAPI + PostgreSQL": ground.server, "FastAPI + Redis": redis}
        chosen = {name: QUICK_CHOICE if quick else best(report, name, ground, store) for name, store in stores.items()}
        services, ways = sides.services(ground, redis, chosen), sides.ways(ground)
        remembered = {}
        # Each by itself and started anew: sides that run together share pages.
        alone = [*services, *ways, *([] if quick else [sides.Flask(ground, redis, preload=True)])]
        for _, side in itertools.product(range(rounds), alone):
            with side:
                # A service listens before its workers can answer: nothing is measured until an answer has come.
                check_answers(side)
                remembered.setdefault(side.name, []).append(memory.measure(side))
        memory.tell(report, remembered, MEMORY_TARGET)
        for side in services:
            running.enter_context(side)
        serialisers(report, services[0], redis, rounds, seconds)
        for side in ways:
            running.enter_context(side)
        compare(report, [*services, *ways], QUICK_CLIENTS if quick else CLIENTS, rounds, seconds, TARGETS)
    return chosen


def stored_model(server, folder):
    """The path of the model as pgml stores it, and beside it as ONNX."""
    import onnxmltools
    import xgboost
    from skl2onnx.common.data_types import FloatTensorType

    path = folder / "model.ubj"
    path.write_bytes(stored_bytes(server, "flights"))
    booster = xgboost.Booster()
    booster.load_model(path)
    # The converter knows features by f and a number.
    booster.feature_names = None
    kinds = [("features", FloatTensorType([None, booster.num_features()]))]
    converted = onnxmltools.convert_xgboost(booster, initial_types=kinds, target_opset=15)
    path.with_suffix(".onnx").write_bytes(converted.SerializeToString())
    return path


def best(report, name, ground, store):
    """The engine, and with it the number of workers, that give the most predictions a second at 20 clients."""
    found = {}

    def rate(engine, workers):
        if (engine, workers) not in found:
            with sides.FastAPI(ground, store, engine, workers) as side:
                check_answers(side)
                side.load(20, 1)
                found[engine, workers] = side.load(20, 1).rate
        return found[engine, workers]

    engine = max(ENGINES, key=lambda engine: rate(engine, 1))
    chosen = engine, max(WORKERS, key=lambda workers: rate(engine, workers))
    text = ", ".join(f"{engine} with {workers}: {rate:,.0f}" for (engine, workers), rate in found.items())
    say.note(f"{name}, 20 clients, by engine and workers: {text}")
    report.content.setdefault("tried", {})[name] = text
    return chosen


def serialisers(report, flask, redis, rounds, seconds):
    """Whether another serialiser helps the published service."""
    compared = [sides.InForm(flask, form) for form in FORMATS]
    for side in compared:
        if side.form != "json":
            redis.add(side.form, flask.ground.features(sample(flask.ground)))
        check_answers(side)
    loads, _ = take(compared, 20, rounds, seconds)
    rates = {form: [one.rate for one in taken] for form, taken in loads.items()}
    for form, values in rates.items():
        report.add(f"serialisers, 20 clients: Flask + Redis with {form}", Spread.of(values), unit="predictions/s")
        if form != "json":
            report.add(f"serialisers, 20 clients: {form} / json", ratios(values, rates["json"]))
    points = [(form, Spread.of(values)) for form, values in rates.items()]
    title = "Flask + Redis by serialiser, 20 clients"
    report.plot("serialisers", title, "", "predictions a second", {"": points}, kind="stack")
