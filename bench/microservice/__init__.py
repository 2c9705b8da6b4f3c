"""Predictions by key from Python services, and from the database itself.

The same model (25 trees of XGBoost, trained by pgml and handed to the services as it is stored) and the same flights
are behind every side; a client asks for the prediction of one flight by its key. Before anything is timed, every side
must give the database's predictions for a sample of keys.

- Flask + Redis: the published service: Flask under Gunicorn, 5 workers of 2 threads, features as JSON in Redis, driven
  by ab with keep-alive, which asks for one key again and again (`flask_service.py`, `gunicorn.conf.py`).
- FastAPI + PostgreSQL, FastAPI + Redis: what a user would write today (`fastapi_service.py`), driven by wrk, which asks
  for random keys.
- PostgreSQL, PgBouncer, howdah-pooler: pgml in one statement (`prediction.sql`), driven by pgbench with random keys.

Load generators share the cores with the servers, on all sides; all three are in C. CPU is that of all processes that
serve: workers, stores, the server's backends, the pooler.
"""

import contextlib
import tempfile
from pathlib import Path

import numpy

from bench.flights import DATABASE, server_with_flights, train
from bench.microservice import sides
from bench.microservice.ground import Ground, Redis, prepare
from bench.microservice.processes import cpu_seconds, pss_bytes
from bench.predict_scan import stored_bytes
from bench.report import Report, Spread, ratios
from demo.flights import FEATURES
from devkit import Problem, say
from devkit.pooler import build_pooler

ROWS = 1_000_000
TREES = 25
CLIENTS = (1, 5, 20, 100)
# howdah-pooler's predictions a second in parts of Flask's, by clients.
TARGETS = {1: 10, 5: None, 20: 30, 100: 30}
FASTAPI_TARGETS = {1: None, 5: None, 20: 10, 100: 10}
SAMPLE = 25
# All connections that PgBouncer, the services and pgbench itself may want at once.
SETTINGS = {"max_connections": "300"}


def measure(quick):
    """The report."""
    for name, package in (("ab", "apache2-utils"), ("wrk", "wrk"), ("redis-server", "redis-server")):
        sides.path_of(name, package)
    sides.path_of("pgbouncer", "pgbouncer")
    build_pooler()
    rounds, seconds = (2, 1) if quick else (3, 2)
    rows = 100_000 if quick else ROWS
    with (
        server_with_flights(rows, SETTINGS) as server,
        tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder,
    ):
        folder = Path(folder)
        folder.chmod(0o755)
        report = Report("microservice", quick, server)
        report.content["rows"] = rows
        train(server, "flights", TREES)
        prepare(server)
        model = folder / "model"
        model.write_bytes(stored_bytes(server, "flights"))
        ground = Ground(server, rows, model, folder)
        with Redis(ground) as redis, contextlib.ExitStack() as running:
            compared = [sides.Flask(ground, redis), sides.Direct(ground), sides.pgbouncer(ground), sides.howdah(ground)]
            for side in compared:
                running.enter_context(side)
                check_answers(side)
            compare(report, compared, [20], rounds, seconds)
    return report


def check_answers(side):
    """Raises unless a side gives the database's predictions for a sample of keys."""
    ground = side.ground
    keys = [1 + number * (ground.rows - 1) // SAMPLE for number in range(SAMPLE)]
    told = ground.server.psql(
        f"SELECT pgml.predict('flights', {', '.join(FEATURES)}) FROM keyed WHERE id = ANY (ARRAY{keys}) ORDER BY id",
        DATABASE,
    )
    wanted = numpy.array(told.split(), dtype=numpy.float32)
    given = numpy.array([side.ask(key) for key in keys], dtype=numpy.float32)
    # ONNX Runtime adds the trees up in another order.
    same = numpy.allclose(given, wanted, rtol=1e-6, atol=1e-5) if side.is_rounded else (given == wanted).all()
    if not same:
        raise Problem(f"{side.name} does not predict what the database does: {given.tolist()}, not {wanted.tolist()}")


def compare(report, compared, clients_of, rounds, seconds, where=""):
    """Loads all sides in turn with each number of clients; gives throughput and costs by side and clients."""
    found = {}
    for clients in clients_of:
        loads = {side.name: [] for side in compared}
        costs = {side.name: [] for side in compared}
        for turn in range(rounds + 1):
            for side in compared:
                before = cpu_seconds(side.roots)
                taken = side.load(clients, seconds)
                # The first round warms up.
                if turn:
                    loads[side.name].append(taken)
                    costs[side.name].append((cpu_seconds(side.roots) - before) / max(taken.count, 1) * 1e6)
            if turn:
                rates = (f"{name} {taken[-1].rate:,.0f}" for name, taken in loads.items())
                say.note(f"{clients} client(s), round {turn} of {rounds}: {', '.join(rates)}")
        case = f"{where}{clients} clients"
        for name, taken in loads.items():
            report.add(f"{case}: {name}", Spread.of([one.rate for one in taken]), unit="predictions/s")
            report.add(f"{case}: {name}, p50", Spread.of([one.p50 for one in taken]), unit="ms")
            report.add(f"{case}: {name}, p99", Spread.of([one.p99 for one in taken]), unit="ms")
            report.add(f"{case}: {name}, CPU", Spread.of(costs[name]), unit="us a prediction")
        found[clients] = (loads, costs)
        for name, targets in (("Flask + Redis", TARGETS),):
            report.add(
                f"{case}: howdah-pooler / {name}",
                ratios([one.rate for one in loads["howdah-pooler"]], [one.rate for one in loads[name]]),
                target=targets[clients],
            )
    return found
