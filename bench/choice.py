"""An automatic choice among algorithms, beside FLAML with the same time and cores, on the real data sets of `quality`.

`SELECT * FROM pgml.train(project, task, table, label, 'auto', time_budget => ...)` is called on the rows as they are;
FLAML's `AutoML().fit(..., time_budget=...)` gets the features that `quality`'s script prepares: without ids and names,
dates in parts. Each side has two threads and no other settings. Both are judged on test rows that neither has seen, by
the same lines of code.
"""

import json
import os
import statistics
import subprocess
import time

from bench.quality import DATABASE, judge, labels_of, put, score, server_of_sets, sets
from bench.report import Report, Spread
from devkit import Problem, say
from devkit.client import connection
from devkit.places import ROOT
from devkit.setup import python_apart, python_for

THREADS = 2
BUDGET, QUICK_BUDGET = 30, 5
LIBRARY = "FLAML"
# A score within a hundredth of FLAML's is as good.
EVEN = 0.99


def measure(quick, only=None):
    """The report: the score of the model that each side chose, on fresh rows."""
    python_for("quality")
    library = python_apart("choice")
    chosen = sets.chosen(only, quick)
    budget = QUICK_BUDGET if quick else BUDGET
    found = {}
    with server_of_sets() as server:
        report = Report("choice", quick or only is not None, server)
        for one in chosen:
            with say.timed(one.name):
                found[one.name] = compare(server, library, one, budget)
            say.note(", ".join(f"{name} {value}" for name, value in found[one.name].items()))
    told(report, found, budget)
    return report


def compare(server, library, one, budget):
    """The headline of each side on the first test rows of a set, what it chose, and its seconds."""
    rows = sets.load(one)
    learnt, test = sets.parts(one, rows)[0]
    put(server, one, one.name, rows.iloc[learnt])
    put(server, one, "fresh", rows.iloc[test])
    labels = labels_of(one, rows.iloc[test])
    start = time.perf_counter()
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SET client_min_messages = warning")
        cursor.execute(f"SET pgml.omp_num_threads = {THREADS}")
        cursor.execute(
            f"SELECT pgml.train('{one.name}', '{one.task}', '{one.name}', '{one.label}', 'auto', "
            f"time_budget => '{budget} s')"
        )
        seconds = time.perf_counter() - start
        cursor.execute(f"SELECT algorithm FROM pgml.deployed_models WHERE name = '{one.name}'")
        ((algorithm,),) = cursor.fetchall()
        cursor.execute("SELECT count(*) FROM pgml.leaderboard(%s)", (one.name,))
        ((tried,),) = cursor.fetchall()
    ours = judge(server, one, one.name, rows.iloc[learnt], labels)
    server.psql(f'DROP TABLE "{one.name}", fresh', DATABASE)
    theirs = of_library(library, one, budget)
    nothing = score.of_nothing(one.task, labels_of(one, rows.iloc[learnt].dropna(subset=[one.label])), labels)
    headline = score.HEADLINE[one.task]
    pgml, other = (score.together([side], [nothing])[headline] for side in (ours, theirs["judged"]))
    return {
        "rows": len(rows), "pgml": round(pgml, 4), LIBRARY: round(other, 4),
        "ratio": round(score.ratio(pgml, other), 4), "chose": algorithm, "tried": tried,
        "its choice": theirs["chose"], "seconds": round(seconds, 1), "its seconds": round(theirs["seconds"], 1),
    }  # fmt: skip


def of_library(python, one, budget):
    """What FLAML makes of the same rows, in a Python of its own."""
    paths = f"{ROOT}{os.pathsep}{ROOT / 'tools'}"
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": str(THREADS)}
    command = [str(python), "-m", "bench.choice_in_python", one.name, str(budget), str(THREADS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{LIBRARY} failed on {one.name}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def told(report, found, budget):
    """The figures of the report, losses first."""
    report.content["budget_seconds"] = budget
    report.content["found"] = found
    ratios = {name: one["ratio"] for name, one in found.items()}
    ranks = [1 if ratio > 1 else 2 if ratio < 1 else 1.5 for ratio in ratios.values()]
    report.add(
        f"mean rank beside {LIBRARY}, {len(found)} data sets", Spread.of([statistics.mean(ranks)]), target=1.5,
        at_most=True, contest=True, headline=f"mean rank of an automatic choice beside {LIBRARY}, of 1 and 2",
    )  # fmt: skip
    report.add(f"score ÷ {LIBRARY}: median", Spread.of([statistics.median(ratios.values())]), target=1, contest=True)
    worst_first = sorted(ratios, key=ratios.get)
    for name in worst_first:
        report.add(f"score ÷ {LIBRARY}: {name}", Spread.of([ratios[name]]), target=EVEN, contest=True)
    bars = {f"score ÷ {LIBRARY}": [(name, ratios[name]) for name in worst_first]}
    report.plot("ratios", f"Automatic choice ÷ {LIBRARY} on fresh rows", "", "times", bars, kind="panels", even=True)
    columns = ["set", *next(iter(found.values()))]
    report.table(
        "r2 or area under the ROC curve on fresh rows", columns, [[n, *found[n].values()] for n in worst_first]
    )
