"""Models of people who write one statement, beside a competent script, on real data: losses first.

Each set of `sets` is loaded as it is, without the test rows. `SELECT * FROM pgml.train(project, task, table, label)` is
called as a newcomer calls it, with the default algorithm, with xgboost and with lightgbm: each in a project of its own,
and all three, one after the other, in a fourth project, whose deployed model is the one that people get. The script
(`script`) learns from the same rows. Both sides are judged on the test rows, which neither has seen (`score`).

Like for like, each algorithm stands beside its library in Python with that library's own defaults: where the script is
better because it chose better, that is told by the deployed one of the three; where pgml loses what its library can do,
it is told here. The script's figures are kept in build/quality/ until its code, the set or a library changes.
"""

import contextlib
import csv
import hashlib
import importlib.metadata
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import pandas
import pg8000.exceptions

from bench.flights import SETTINGS
from bench.quality import score, sets
from bench.report import Report, Spread
from devkit import Problem, say
from devkit.client import connection
from devkit.extension import build_into
from devkit.places import BUILD, ROOT
from devkit.postgres import NEWEST, tree
from devkit.server import Server
from devkit.setup import python_for

DATABASE = "quality"
# The default, and two that are named: what stands between the label and the closing bracket.
FORMS = {"default": "", "xgboost": ", 'xgboost'", "lightgbm": ", 'lightgbm'"}
ALL = "deployed of the three"
LIBRARIES = {"default": ("linear_model", "plain"), "xgboost": ("xgboost", "xgboost"), "lightgbm": ("lightgbm",) * 2}
KEPT = BUILD / "quality"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
SECONDS = 300
# More than any of these sets can need; a training that would take more fails alone, not with the machine.
MEMORY = 8 << 30
TARGETS = {"like for like": 0.99, "script": 0.98, "median": 1.0}


def measure(quick, only=None):
    """The report: the skill of each form on each set, over the script's and over the library's."""
    python_for("quality")
    chosen = sets.chosen(only, quick)
    compared = {}
    with server_of_sets() as server:
        report = Report("quality", quick or only is not None, server)
        for one in chosen:
            with say.timed(one.name):
                compared[one.name] = compare(server, one)
            say.note(", ".join(f"{name} {value:.3f}" for name, value in ratios(compared[one.name]).items()))
    told(report, compared)
    return report


@contextlib.contextmanager
def server_of_sets():
    """A server whose backends may take so much memory and no more."""
    chosen = tree(NEWEST)
    build_into(chosen)
    server = Server(chosen, {**SETTINGS, "statement_timeout": f"{SECONDS}s"})
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    # The postmaster takes the limit over from here, and its backends from it.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, most))
    try:
        server.create()
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
    with server:
        server.psql(f"CREATE DATABASE {DATABASE}")
        server.psql("CREATE EXTENSION pgml", DATABASE)
        yield server


def compare(server, one):
    """All that is known of one set: figures by name, errors and notices by form."""
    rows = sets.load(one)
    parts = sets.parts(one, rows)
    judged = {name: [] for name in (*FORMS, ALL)}
    told_by = {"errors": {}, "notices": {}, "seconds": {}, "deployed": [], "metrics": []}
    for number, (learnt, test) in enumerate(parts):
        put(server, one, one.name, rows.iloc[learnt])
        put(server, one, "fresh", rows.iloc[test])
        labels = labels_of(one, rows.iloc[test])
        for form, words in FORMS.items():
            seconds = train(server, one, f"{one.name} {form} {number}", words, form, told_by)
            told_by["seconds"][form] = told_by["seconds"].get(form, 0) + seconds
            judged[form].append(judge(server, one, f"{one.name} {form} {number}", rows.iloc[learnt], labels))
            train(server, one, f"{one.name} {number}", words, form, told_by)
        told_by["deployed"].append(deployed(server, f"{one.name} {number}"))
        told_by["metrics"].append(metrics(server, f"{one.name} {number}"))
        judged[ALL].append(judge(server, one, f"{one.name} {number}", rows.iloc[learnt], labels))
        server.psql(f'DROP TABLE "{one.name}", fresh', DATABASE)
    script = of_script(one, parts)
    nothing = [part["nothing"] for part in script]
    chosen = [choice(one, part["validated"]) for part in script]
    beside = {name: [part["test"][name] for part in script] for name in script[0]["test"]}
    beside["script"] = [part["test"][name] for part, name in zip(script, chosen, strict=True)]
    figures = {f"pgml {name}": score.together(of_parts, nothing) for name, of_parts in judged.items()}
    figures |= {name: score.together(of_parts, nothing) for name, of_parts in beside.items()}
    return {"set": one, "rows": len(rows), "figures": figures, "judged": judged, "chosen": chosen, **told_by}


def choice(one, validated):
    """The candidate that is best in cross-validation, by the headline of the task."""
    if one.task == "regression":
        return min(validated, key=lambda name: validated[name]["loss"])
    return max(validated, key=lambda name: validated[name]["auc"])


def put(server, one, table, rows):
    """Rows in a table, with the types that a person would choose; `fresh` has a number of each row beside."""
    columns = [f'"{name}" {type_of(column)}' for name, column in rows.items()]
    if table == "fresh":
        rows = rows.assign(fresh_row=range(len(rows)))
        columns.append("fresh_row int")
    elif one.key is not None:
        columns.append(f'PRIMARY KEY ("{one.key}")')
    server.psql(f'CREATE TABLE "{table}" ({", ".join(columns)})', DATABASE)
    command = server.psql_command(DATABASE, "-q", "-c", f"COPY \"{table}\" FROM STDIN (FORMAT csv, NULL '')")
    done = subprocess.run(command, input=as_csv(rows), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"{one.name} could not be loaded: {done.stderr}")
    server.psql(f'ANALYZE "{table}"', DATABASE)


def type_of(column):
    """The SQL type of a column: whole numbers with NULLs among them have come as fractions, and are left so."""
    if pandas.api.types.is_bool_dtype(column):
        return "boolean"
    if pandas.api.types.is_integer_dtype(column):
        return "integer" if column.abs().max() < 2**31 else "bigint"
    if pandas.api.types.is_float_dtype(column):
        return "double precision"
    if pandas.api.types.is_datetime64_any_dtype(column):
        return "date" if (column.dropna().dt.normalize() == column.dropna()).all() else "timestamp"
    return "text"


def as_csv(rows):
    """The rows as CSV, in which nothing between two commas is a NULL, and an empty text has quotes."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_MINIMAL)
    # csv writes None as nothing and an empty text likewise, unless the row has but one cell: no set has empty texts.
    for row in rows.astype(object).where(rows.notna(), None).itertuples(index=False, name=None):
        writer.writerow(row)
    return text.getvalue()


def labels_of(one, rows):
    """Labels as numbers, or as texts."""
    return rows[one.label].to_numpy(float) if one.task == "regression" else rows[one.label].astype(str).tolist()


def train(server, one, project, words, form, told_by):
    """The statement of a newcomer, and the seconds that it took; errors and notices are kept."""
    asked = f"SELECT * FROM pgml.train('{project}', '{one.task}', '{one.name}', '{one.label}'{words})"
    start = time.perf_counter()
    try:
        with connection(server, DATABASE) as client:
            client.cursor().execute(asked)
            notices = [notice[b"M"].decode() for notice in client.notices if notice[b"V"] != b"INFO"]
            told_by["notices"].setdefault(form, notices)
    except (pg8000.exceptions.Error, OSError) as error:
        told = error.args[0]
        told_by["errors"].setdefault(form, told.get("M") if isinstance(told, dict) else str(error))
        wait_for(server)
    return time.perf_counter() - start


def wait_for(server):
    """Until the server answers: a backend that was killed has taken all others with it."""
    for _ in range(600):
        if server.answers():
            return
        time.sleep(0.1)
    raise Problem("the server did not come back after a training")


def deployed(server, project):
    """The algorithm of the deployed model."""
    return server.psql(f"SELECT algorithm FROM pgml.deployed_models WHERE name = '{project}'", DATABASE) or None


def metrics(server, project):
    """What pgml itself says of each model: what it chose the deployed one by."""
    asked = "SELECT coalesce(json_object_agg(algorithm, metrics), '{}') FROM pgml.models m JOIN pgml.projects p"
    return json.loads(server.psql(f"{asked} ON p.id = m.project_id WHERE p.name = '{project}'", DATABASE))


def judge(server, one, project, learnt, labels):
    """How good the deployed model is on the fresh rows; None without a model."""
    if deployed(server, project) is None:
        return None
    function = "predict" if one.task == "regression" else "predict_proba"
    asked = f"SELECT pgml.{function}('{project}', f) FROM fresh f ORDER BY fresh_row"
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute(asked)
        predicted = [row[0] for row in cursor.fetchall()]
    if any(value is None for value in predicted):
        raise Problem(f"{one.name}: {project} has no prediction for some rows")
    return score.judged(one.task, labels, predicted, classes(one, learnt))


def classes(one, learnt):
    """The classes in pgml's order: numbers by size, texts by bytes."""
    return [] if one.task == "regression" else [str(label) for label in sorted(learnt[one.label].dropna().unique())]


def of_script(one, parts):
    """What `script` found, now or in an earlier run of the same code on the same rows."""
    versions = [importlib.metadata.version(name) for name in ("xgboost-cpu", "lightgbm", "scikit-learn", "pandas")]
    sources = [(ROOT / "bench" / "quality" / name).read_text() for name in ("script.py", "score.py")]
    shown = [repr(one), versions, sources, [int(test.sum()) for _, test in parts]]
    file = KEPT / f"{one.name}-{hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]}.json"
    if not file.exists():
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}"}
        command = [sys.executable, "-m", "bench.quality.script", one.name]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Problem(f"the script failed on {one.name}:\n{done.stderr}")
        KEPT.mkdir(parents=True, exist_ok=True)
        file.write_text(done.stdout)
    return json.loads(file.read_text())


def ratios(found, what=None):
    """The ratios of one set, of the headline or of another figure: each form to the script, and to its library."""
    what = what or score.HEADLINE[found["set"].task]
    of = {name: None if figures is None else figures[what] for name, figures in found["figures"].items()}
    against = {f"{name} ÷ script": score.ratio(of[f"pgml {name}"], of["script"]) for name in (ALL, *FORMS)}
    alike = {
        f"{form} ÷ {library}": score.ratio(of[f"pgml {form}"], of[name]) for form, (library, name) in LIBRARIES.items()
    }
    return against | alike


def told(report, compared):
    """The figures of the report: of all sets together, then of each, the worst first."""
    kept = ("rows", "figures", "chosen", "deployed", "errors", "notices", "seconds")
    report.content["found"] = {name: {what: found[what] for what in kept} for name, found in compared.items()}
    of_sets = {name: ratios(found) for name, found in compared.items()}
    modelless = [name for name, found in compared.items() if found["errors"]]
    case = f"sets without a model at the first call, of {len(compared)}"
    headline = "data sets for which a first call gives no model"
    report.add(case, Spread.of([len(modelless)]), target=0, at_most=True, headline=headline)
    for what in next(iter(of_sets.values())):
        values = [of_set[what] for of_set in of_sets.values()]
        target = TARGETS["median"] if what.startswith(ALL) else None
        headline = f"on fresh rows, {what}: median of {len(values)} data sets" if target else None
        report.add(f"{what}: median", Spread.of([statistics.median(values)]), target, contest=True, headline=headline)
    worst_first = sorted(of_sets, key=lambda name: of_sets[name][f"{ALL} ÷ script"])
    for what in next(iter(of_sets.values())):
        for name in worst_first:
            target = TARGETS["script" if what.startswith(ALL) else "like for like"]
            aimed = what.startswith(ALL) or not what.endswith("script")
            value = Spread.of([round(of_sets[name][what], 4)])
            report.add(f"{what}: {name}", value, target if aimed else None, contest=aimed)
    bars = {f"{ALL} ÷ script": [(name, of_sets[name][f"{ALL} ÷ script"]) for name in worst_first]}
    report.plot("ratios", "Deployed after three statements ÷ the script", "", "times", bars, kind="panels", even=True)
    columns = ["set", "rows", "measure", "script", "its figure", "deployed", *next(iter(of_sets.values()))]
    lines = [line(compared[name], of_sets[name]) for name in worst_first]
    report.table("r2 or area under the ROC curve on fresh rows: ratios", columns, lines)
    columns = ["set", "script", ALL, *FORMS, *(library for library, _ in LIBRARIES.values())]
    lines = [skills(compared[name]) for name in worst_first if compared[name]["set"].task == "classification"]
    report.table("Skill of the probabilities: 1 - log loss ÷ log loss of the shares of the classes", columns, lines)
    columns = ["ratio", "no model", ">= 0.98", "0.90 to 0.98", "< 0.90", "median"]
    report.table("How many sets", columns, counted(compared, of_sets))


def line(found, of_set):
    """A row of the table of ratios."""
    what = score.HEADLINE[found["set"].task]
    three = [algorithm or "none" for algorithm in found["deployed"]]
    words = ["r2" if what == "skill" else "ROC AUC", most_frequent(found["chosen"])]
    values = [round(value, 3) for value in of_set.values()]
    figure = round(found["figures"]["script"][what], 3)
    return [found["set"].name, found["rows"], *words, figure, most_frequent(three), *values]


def skills(found):
    """A row of the table of skills."""
    sides = ("script", *(f"pgml {name}" for name in (ALL, *FORMS)), *(name for _, name in LIBRARIES.values()))
    figures = [found["figures"][side] for side in sides]
    return [found["set"].name, *("none" if figure is None else round(figure["skill"], 3) for figure in figures)]


def most_frequent(names):
    """The name that stands there most often."""
    return max(set(names), key=names.count)


def counted(compared, of_sets):
    """A row for each ratio: sets without a model, and those in each range."""
    rows = []
    for what in next(iter(of_sets.values())):
        values = [of_set[what] for of_set in of_sets.values()]
        form = f"pgml {what.split(' ÷ ')[0]}"
        none = sum(found["figures"][form] is None for found in compared.values())
        good, bad = sum(value >= 0.98 for value in values), sum(value < 0.9 for value in values)
        rows.append([what, none, good, len(values) - good - bad, bad - none, round(statistics.median(values), 3)])
    return rows
