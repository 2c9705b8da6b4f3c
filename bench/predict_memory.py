"""What a connection that predicts adds to memory, against an XGBoost booster in each process; a model of 1000 trees.

Memory is PSS, as the kernel keeps it in /proc/PID/smaps_rollup: a page that n processes map counts one nth for each.
Shared memory is left out, which is the server's own. A connection's figure is what it has once it and all the others
have predicted, less what it had before the first of them did. Two connections among them have done more: one compiled
the model, the other trained it.

A booster in each process is how PostgresML predicts: every backend reads the model's bytes and keeps a booster of the
training library. Here plain processes do so, forked by one, with the same library, the same model and the same row.

Beside it is how long a first prediction takes in a new connection, and a second, and how much longer a first read of a
table by its key takes there than a second.
"""

import contextlib
import ctypes
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.booster_processes import memory
from bench.flights import ARRAY, DATABASE, server_with_flights, train
from bench.predict_scan import stored_bytes
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, say
from devkit.client import connection
from devkit.places import ROOT

ROWS = 200_000
TREES = 1000
PREDICT = "SELECT pgml.predict('flights', '{}'::real[])"
READ = "SELECT id FROM keyed WHERE id = {}"


def measure(quick):
    """The report: PSS and times of both ways."""
    rounds, connections = (1, 20) if quick else (5, 100)
    with server_with_flights(ROWS, {"max_connections": "150"}) as server:
        report = Report("predict-memory", quick, server)
        report.content |= {"connections": connections, "trees": TREES}
        train(server, "flights", TREES)
        server.psql(
            "CREATE TABLE keyed AS SELECT generate_series(1, 1000) AS id; CREATE UNIQUE INDEX ON keyed (id)", DATABASE
        )
        row = json.loads(server.psql(f"SELECT to_json({ARRAY}::real[]) FROM flights LIMIT 1", DATABASE))
        found = {"pgml": [], "booster": []}
        sides = {
            "pgml": lambda: kept(found["pgml"], of_connections(server, connections, row)),
            "booster": lambda: kept(found["booster"], of_boosters(server, connections, row)),
        }
        say.note(f"{connections} processes, MB of PSS that one adds")
        interleave(sides, rounds)
        # The first of each is of the round that warms up.
        ours, boosters = found["pgml"][1:], found["booster"][1:]
        report.content["model_mb"] = len(stored_bytes(server, "flights")) / 1e6
        report.content["image_mb"] = sum(file.stat().st_size for file in images(server)) / 1e6
    tell_memory(report, ours, boosters)
    tell_times(report, ours, boosters)
    return report


def kept(details, found):
    """Keeps all that a side measured; the memory of one process is what is shown as it goes."""
    details.append(found)
    return found["mb"]


def tell_memory(report, ours, boosters):
    """Figures and plot of memory."""

    def spread(found, what):
        return Spread.of([one[what] for one in found])

    headline = (
        f"memory that a connection adds by predicting, {TREES} trees, {report.content['connections']} connections"
    )
    bound = {"unit": "MB", "target": 1.0, "at_most": True}
    report.add("added by a connection", spread(ours, "mb"), **bound, headline=headline)
    report.add("added by the connection that compiled the model", spread(ours, "compiled_mb"), **bound)
    report.add("of it, no file's", spread(ours, "compiled_anonymous_mb"), unit="MB")
    report.add("added by the connection that trained it", spread(ours, "trained_mb"), **bound)
    report.add("of it, no file's (not the training library)", spread(ours, "trained_anonymous_mb"), unit="MB")
    report.add("added by a process with a booster", spread(boosters, "mb"), unit="MB")
    against = ratios([one["mb"] for one in ours], [one["mb"] for one in boosters])
    headline = "memory that predicting adds to a process ÷ that of a booster in each process"
    report.add("memory, pgml / booster", against, at_most=True, contest=True, headline=headline)
    bars = [("pgml.predict", spread(ours, "mb")), ("a booster in each process", spread(boosters, "mb"))]
    report.plot(
        "pss", f"Memory that predicting adds to a process, {TREES} trees", "", "MB of PSS", {"": bars}, kind="stack"
    )


def tell_times(report, ours, boosters):
    """Figures of times."""
    for name, found in (("pgml", ours), ("booster", boosters)):
        for which in ("first", "second"):
            report.add(f"{name}: {which} prediction", Spread.of([one[which] for one in found]), unit="ms")
    longer = Spread.of([one["longer"] for one in ours])
    headline = "how much longer a connection's first prediction takes than its second"
    report.add("pgml: first less second", longer, unit="ms", target=1.0, at_most=True, headline=headline)
    reads = Spread.of([one["read"] for one in ours])
    report.add("a read of a table by its key: first less second", reads, unit="ms")
    against = ratios([one["first"] for one in ours], [one["first"] for one in boosters])
    report.add("first prediction, pgml / booster", against, at_most=True, contest=True)


def of_connections(server, count, row):
    """Memory of `count` connections that predict, and times in as many others."""
    ask = PREDICT.format("{" + ",".join(map(str, row)) + "}")
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connection(server, DATABASE)).cursor() for _ in range(count)]
        pids = [execute(cursor, "SELECT pg_backend_pid()")[0][0] for cursor in opened]
        before = {pid: memory(pid) for pid in pids}
        trainer, compiler = pids[:2]
        execute(
            opened[0],
            "SELECT pgml.train('trained', 'regression', 'flights', 'depdelayminutes', 'xgboost', "
            f"""'{{"n_estimators": {TREES}}}')""",
        )
        for image in images(server):
            image.unlink()
        for cursor in [*opened[1:], opened[0]]:
            execute(cursor, ask)
        after = {pid: memory(pid) for pid in pids}
    grown = {pid: after[pid]["mb"] - before[pid]["mb"] for pid in pids}
    times = [first_and_second(server, ask) for _ in range(count)]
    reads = [first_and_second(server, READ.format(i)) for i in range(1, count + 1)]
    return {
        "mb": statistics.median(grown[pid] for pid in pids[2:]),
        "compiled_mb": grown[compiler],
        "compiled_anonymous_mb": after[compiler]["anonymous_mb"] - before[compiler]["anonymous_mb"],
        "trained_mb": grown[trainer],
        "trained_anonymous_mb": after[trainer]["anonymous_mb"] - before[trainer]["anonymous_mb"],
        "first": statistics.median(first for first, _ in times),
        "second": statistics.median(second for _, second in times),
        "longer": statistics.median(first - second for first, second in times),
        "read": statistics.median(first - second for first, second in reads),
    }


def first_and_second(server, statement):
    """Milliseconds of a statement in a new connection that has run another one, and of the same once more."""
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        execute(cursor, "SELECT 1")
        taken = []
        for _ in range(2):
            start = time.perf_counter()
            execute(cursor, statement)
            taken.append((time.perf_counter() - start) * 1e3)
    return taken


def of_boosters(server, count, row):
    """The same of processes with a booster each."""
    model = server.home / "model.ubj"
    model.write_bytes(stored_bytes(server, "flights"))
    folder = subprocess.run(
        [server.tree.program("pg_config"), "--pkglibdir"], capture_output=True, text=True, check=True
    )
    library = next(Path(folder.stdout.strip()).glob("pgml/**/libxgboost.so"))
    command = [sys.executable, "-m", "bench.booster_processes", str(library), str(model), str(count), json.dumps(row)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise Problem(f"the processes with boosters failed:\n{done.stderr}")
    found = json.loads(done.stdout)
    value = ctypes.c_float(float(server.psql(PREDICT.format("{" + ",".join(map(str, row)) + "}"), DATABASE))).value
    if any(one["prediction"] != value for one in found):
        raise Problem("the boosters predict something else than the server")
    return {
        "mb": statistics.median(one["mb"] for one in found),
        "first": statistics.median(one["first"] for one in found),
        "second": statistics.median(one["second"] for one in found),
    }


def images(server):
    """The compiled models in the server's cache."""
    return list((server.data / "pgml_cache").glob("*/*.v*"))


def execute(cursor, statement):
    """The rows that a statement answers with."""
    cursor.execute(statement)
    return cursor.fetchall()
