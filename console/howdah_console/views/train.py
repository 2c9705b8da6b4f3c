"""Train: choose a table, see its columns, name the label, and follow the training."""

import collections
import json
import math
import re
import statistics

from howdah_console import drawings
from howdah_console.app import Missing
from howdah_console.ask import Answer, Fault
from howdah_console.ask import name as identifier
from howdah_console.figures import MOMENTS, NUMBERS, compact, moment_of, parsed
from howdah_console.row_numbers import are_row_numbers

SAMPLE = 5000
FEWEST_NUMBERED = 20
# The forms of so many trainings are kept while the visitor is logged in.
MOST_FORMS = 50
MOST_TABLES = 300
MOST_COLUMNS = 200
TASKS = ("classification", "regression", "clustering", "decomposition", "anomaly")
NO_LABELS = ("date", "timestamp", "timestamptz", "time", "interval", "uuid", "json", "jsonb", "bytea")
SEARCHES = ("grid", "random")
# What most people change of each algorithm; the rest is below a fold.
USUAL = (
    "n_estimators",
    "learning_rate",
    "max_depth",
    "num_leaves",
    "early_stopping_rounds",
    "subsample",
    "colsample_bytree",
    "reg_lambda",
    "min_child_weight",
    "class_weight",
    "alpha",
    "l1_ratio",
    "C",
    "kernel",
    "n_neighbors",
    "weights",
    "n_clusters",
    "n_components",
    "max_features",
    "min_samples_leaf",
    "eps",
    "min_samples",
    "random_state",
    "seed",
)


async def tables(page):
    """The tables and views that the visitor may read."""
    wanted = page.request.query_params.get("find", "")[:200]
    answer = await page.ask(
        f"""
        SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, c.reltuples::bigint AS rows,
               c.oid::regclass::text AS relation, pg_get_userbyid(c.relowner) AS owner,
               CASE WHEN c.relkind IN ('r', 'm') AND NOT EXISTS (
                   SELECT FROM pg_locks AS l WHERE l.relation = c.oid AND l.mode = 'AccessExclusiveLock' AND l.granted
                   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
               ) THEN pg_total_relation_size(c.oid) END AS bytes
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
          AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
          AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
          AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                          AND d.deptype = 'e')
          AND strpos(lower(c.relname), lower($1)) > 0
        ORDER BY n.nspname <> 'public', n.nspname, c.relname
        LIMIT {MOST_TABLES + 1}
        """,
        wanted,
    )
    return page.show(
        "tables.html",
        here="train",
        answer=answer,
        tables=answer.rows[:MOST_TABLES],
        more=len(answer.rows) > MOST_TABLES,
        most=MOST_TABLES,
        wanted=wanted,
    )


async def columns_of(page, relation, read=False):
    """The columns of a relation, by its name as SQL writes it: (answer, sample's answer, columns, rows, stranger).

    Views, foreign tables and policies run what their owner wrote: such a relation of a `stranger` is read when asked.
    """
    answer = await page.ask(
        """
        SELECT a.attname AS name, t.typname AS type, format_type(a.atttypid, a.atttypmod) AS written,
               c.relkind::text AS kind, c.oid::regclass::text AS relation,
               CASE WHEN (c.relkind IN ('v', 'f') OR c.relrowsecurity) AND r.rolname <> current_user AND NOT r.rolsuper
                    THEN r.rolname END AS stranger,
               (CASE WHEN c.reltuples < 0 AND c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) / 100
                     ELSE c.reltuples END)::float8 AS rows
        FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid JOIN pg_class AS c ON c.oid = a.attrelid
             JOIN pg_roles AS r ON r.oid = c.relowner
        WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY a.attnum
        """,
        relation,
    )
    if answer.fault or not answer.rows:
        raise Missing
    first = answer.rows[0]
    shown = answer.rows[:MOST_COLUMNS]
    wanted = ", ".join(
        identifier(row["name"]) + ("::float8" if row["type"] in NUMBERS else "::text") + f" AS c{place}"
        for place, row in enumerate(shown)
    )
    # Rows that stand together are alike, and the first ones are the oldest: of a table, a sample of many blocks.
    part = ""
    if first["kind"] in ("r", "m"):
        share = 100 * 20 * SAMPLE / max(first["rows"], 1)
        part = (f" TABLESAMPLE SYSTEM ({share:.4g})" if share < 100 else "") + " ORDER BY random()"
    cut = ", ".join(
        f"c{place}" if row["type"] in NUMBERS else f"left(c{place}, 60) AS c{place}" for place, row in enumerate(shown)
    )
    text = f"SELECT {cut} FROM (SELECT {wanted} FROM {first['relation']}{part} LIMIT {SAMPLE}) AS s"
    stranger = None if read else first["stranger"]
    sample = Answer(text) if stranger else await page.ask(text)
    # A sample that is not full has all rows.
    is_whole = not stranger and not sample.fault and "TABLESAMPLE" not in part and len(sample.rows) < SAMPLE
    rows = len(sample.rows) if is_whole else first["rows"]
    columns = []
    for place, row in enumerate(shown):
        values = [one[place] for one in sample.rows]
        columns.append(describe(row, values, rows))
    return answer, sample, columns, rows, stranger


def describe(row, values, rows):
    """A column as the page shows it, by the values of a sample of so many rows."""
    known = [value for value in values if value is not None]
    distinct = collections.Counter(known)
    column = {
        "name": row["name"],
        "type": row["written"],
        "missing": (len(values) - len(known)) / len(values) if values else None,
        "distinct": len(distinct),
        "numeric": row["type"] in NUMBERS,
        "can_be_label": row["type"] not in NO_LABELS and not row["type"].startswith("_"),
        "top": [],
    }
    if column["numeric"]:
        column["counts"] = drawings.bins_of(known)
        finite = [float(value) for value in known if math.isfinite(value)]
        if finite:
            low, middle, high = map(compact, (min(finite), statistics.median(finite), max(finite)))
            column["top"] = [f"{low} to {high}, median {middle}"]
    elif row["type"] in MOMENTS:
        times = {value: place for value in distinct if (place := moment_of(value)) is not None}
        column["counts"] = drawings.bins_of([times[value] for value in distinct.elements() if value in times])
        if times:
            column["top"] = [f"{min(times, key=times.get)} to {max(times, key=times.get)}"]
    else:
        common = distinct.most_common(drawings.BINS)
        column["counts"] = [number for _, number in common]
        column["top"] = [value for value, _ in common[:3]]
    # Of few rows, numbers that are all different say little.
    whole = row["type"] in ("int4", "int8") and len(known) == len(values) > FEWEST_NUMBERED
    column["counts_rows"] = whole and are_row_numbers(known, rows)
    # What the column would be as a label.
    if not distinct:
        column["task"] = ""
    elif column["numeric"]:
        whole = all(float(value).is_integer() for value in list(distinct)[:100])
        column["task"] = "classification" if len(distinct) <= 20 and whole else "regression"
    else:
        column["task"] = "classification" if len(distinct) <= max(20, len(known) // 20) else ""
    return column


async def read(page):
    """The same page of a relation that is read as asked, whoever wrote it."""
    return await table(page, read=True, asked=page.form.get("relation", ""))


async def table(page, fault=None, given=None, read=False, asked=""):
    """A table's columns, and the form of a training."""
    note = None
    if given is None and page.request.method == "GET":
        given, note = await former(page)
    given = given or {}
    relation = given.get("relation") or asked or page.request.query_params.get("relation", "")
    answer, sample, columns, rows, stranger = await columns_of(page, relation, read)
    relation = answer.rows[0]["relation"]
    task = given.get("task") or "classification"
    algorithms, known = await algorithms_of(page)
    return page.show(
        "table.html",
        200 if fault is None else 400,
        here="train",
        relation=relation,
        answer=answer,
        sample=sample,
        stranger=stranger,
        columns=columns,
        rows=rows,
        tasks=TASKS,
        task=task,
        algorithms=algorithms,
        algorithm=given.get("algorithm") or "xgboost",
        known=known,
        given=given,
        note=note,
        fault=fault,
        project=given.get("project")
        or page.request.query_params.get("project")
        or relation.rpartition(".")[2].strip('"'),
        parameters=await parameters_of(page, given.get("algorithm") or "xgboost", task),
    )


async def former(page):
    """The form of the training that the address names, by the job or by the model, and what the form does not have."""
    asked = page.request.query_params
    job, model = asked.get("job", ""), asked.get("model", "")
    if job in page.session.forms:
        return page.session.forms[job], None
    if not re.fullmatch(r"[0-9]{1,18}", model):
        return None, None
    answer = await page.ask(
        """
        SELECT p.name AS project, p.task::text, m.algorithm, m.hyperparams, m.search, m.search_params, m.search_args,
               s.relation_name, s.y_column_name, s.test_size, s.analysis->'preprocess' AS preprocess
        FROM pgml.models AS m JOIN pgml.projects AS p ON p.id = m.project_id
             JOIN pgml.snapshots AS s ON s.id = m.snapshot_id
        WHERE m.id = $1::bigint
        """,
        int(model),
    )
    if not answer.rows:
        raise Missing
    row = answer.first
    parameters, preprocess = parsed(row["hyperparams"]) or {}, parsed(row["preprocess"]) or {}
    tried = (parsed(row["search_params"]) or {}) if row["search"] else {}
    arguments = (parsed(row["search_args"]) or {}) if row["search"] else {}
    typed = {name: as_typed(value) for name, value in parameters.items() if name not in tried}
    typed |= {name: ", ".join(map(as_typed, values)) for name, values in tried.items() if isinstance(values, list)}
    left_out = [name for name, spec in preprocess.items() if spec == {"role": "ignore"}]
    others = {name: spec for name, spec in preprocess.items() if name not in left_out}
    given = {
        "relation": row["relation_name"],
        "project": row["project"],
        "task": row["task"],
        "label": next(iter(row["y_column_name"] or []), ""),
        "algorithm": row["algorithm"],
        "search": row["search"] if row["search"] in SEARCHES else "",
        "test_size": f"{row['test_size']:g}",
        "deploy": "on",
    }
    given |= {name: as_typed(arguments[name]) for name in ("cv", "n_iter") if name in arguments}
    given |= {f"out_{name}": "on" for name in left_out} | {f"hp_{name}": text for name, text in typed.items()}
    return given, f"That training also had preprocess, which this form has not: {compact(others)}." if others else None


def as_typed(value):
    """A hyperparameter as one types it."""
    return value if isinstance(value, str) else json.dumps(value)


async def algorithms_of(page):
    """The algorithms of each task, and the answer that has them."""
    answer = await page.ask(
        """
        SELECT task, array_agg(DISTINCT algorithm ORDER BY algorithm) AS algorithms
        FROM pgml.hyperparameters() GROUP BY task
        """
    )
    return {row["task"]: list(row["algorithms"]) for row in answer.rows}, answer


async def parameters_of(page, algorithm, task):
    """The hyperparameters of an algorithm for a task, the usual ones first."""
    answer = await page.ask(
        """
        SELECT name, "default", allowed, description FROM pgml.hyperparameters()
        WHERE algorithm = $1 AND task = $2
        """,
        algorithm,
        task,
    )
    useful = [row for row in answer.rows if not row["description"].startswith("No effect")]
    useful = [row for row in useful if "no effect" not in (row["allowed"] or "")]
    usual = sorted((row for row in useful if row["name"] in USUAL), key=lambda row: USUAL.index(row["name"]))[:8]
    names = {row["name"] for row in usual}
    return {"answer": answer, "usual": usual, "others": [row for row in useful if row["name"] not in names]}


async def hyperparameters(page):
    """The part of the form with an algorithm's hyperparameters."""
    chosen = page.request.query_params
    task, algorithm = chosen.get("task", ""), chosen.get("algorithm", "")
    algorithms, _ = await algorithms_of(page)
    offered = algorithms.get(task, [])
    if algorithm not in offered:
        algorithm = next((name for name in ("xgboost", "kmeans", "pca") if name in offered), "")
    return page.show(
        "hyperparameters.html",
        algorithms=algorithms,
        task=task,
        algorithm=algorithm,
        parameters=await parameters_of(page, algorithm, task),
        given={},
    )


def read_value(text):
    """A hyperparameter as it was typed: JSON, or a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def values_to_try(text):
    """The values of a hyperparameter for a search, separated by commas; None for a single one, such as `[10, 5]`."""
    if isinstance(read_value(text), list) or "," not in text:
        return None
    return [read_value(one.strip()) for one in text.split(",") if one.strip()]


def search_of(given, typed):
    """The search that the form asks for, of what was typed for the hyperparameters: (kind, values, arguments)."""
    kind = given.get("search", "")
    if kind not in SEARCHES:
        return None, {}, {}
    tried = {name: values for name, text in typed.items() if (values := values_to_try(text))}
    names = ["cv"] if kind == "grid" else ["cv", "n_iter"]
    return kind, tried, {name: read_value(given[name]) for name in names if given.get(name, "").strip()}


async def start(page):
    """Queues the training of the form."""
    page.need_actions()
    given = page.form
    relation, task, label = given.get("relation", ""), given.get("task", ""), given.get("label", "")
    project, algorithm = given.get("project", "").strip(), given.get("algorithm", "")
    if not project:
        return await table(page, Fault("Name the project that the model is for."), given)
    if task in ("classification", "regression") and not label:
        return await table(page, Fault("Choose the label: the column that is to be predicted."), given)
    others = await page.ask("SELECT task::text FROM pgml.projects WHERE name = $1", project)
    if others.first and others.first["task"] != task:
        fault = Fault(f"The project {project} is for {others.first['task']}, not for {task}.", "Name another project.")
        return await table(page, fault, given)
    typed = {
        name.removeprefix("hp_"): value.strip()
        for name, value in given.items()
        if name.startswith("hp_") and value.strip()
    }
    search, tried, arguments = search_of(given, typed)
    if search and not tried:
        fault = Fault(
            "Give the search something to try.", "Several values, separated by commas, for at least one hyperparameter."
        )
        return await table(page, fault, given)
    parameters = {name: read_value(text) for name, text in typed.items() if name not in tried}
    share = given.get("test_size", "").strip()
    if share and not re.fullmatch(r"\d*\.?\d+", share):
        return await table(
            page, Fault(f"The share of rows to hold out is a number such as 0.25, not {share!r}."), given
        )
    left_out = [name.removeprefix("out_") for name in given if name.startswith("out_")]
    supervised = task in ("classification", "regression")
    if supervised:
        left_out = [name for name in left_out if name != label]
    elif label:
        # Without a label, the column that was chosen for one is not to be learnt from either.
        left_out.append(label)
    preprocess = {name: {"role": "ignore"} for name in left_out}
    options, values = [], [project, task, relation]
    if supervised:
        options.append(f"y_column_name => ${len(values) + 1}")
        values.append(label)
    values.append(algorithm)
    options.append(f"algorithm => ${len(values)}::text::pgml.algorithm")
    for option, value, kind in (
        ("hyperparams", json.dumps(parameters) if parameters else None, "jsonb"),
        ("preprocess", json.dumps(preprocess) if preprocess else None, "jsonb"),
        ("test_size", float(share) if share else None, "real"),
        ("search", search, "text::pgml.search"),
        ("search_params", json.dumps(tried) if search else None, "jsonb"),
        ("search_args", json.dumps(arguments) if search else None, "jsonb"),
    ):
        if value is not None:
            values.append(value)
            options.append(f"{option} => ${len(values)}::{kind}")
    if "deploy" not in given:
        options.append("automatic_deploy => false")
    answer = await page.ask.act(
        f"SELECT pgml.train_async($1, $2, $3, {', '.join(options)}) AS id",
        *values,
    )
    if answer.fault:
        return await table(page, answer.fault, given)
    forms = page.session.forms
    forms[str(answer.first["id"])] = given
    while len(forms) > MOST_FORMS:
        forms.pop(next(iter(forms)))
    return page.go(f"/jobs/{answer.first['id']}")


JOBS = """
    SELECT j.id, j.role, j.project, j.algorithm, j.status, j.created_at, j.started_at, j.ended_at, j.model_id,
           j.deployed, j.sqlstate, j.message, j.detail, j.hint, a.phase, a.rounds_done, a.rounds_total, a.rows,
           a.seconds_left, m.metrics->>'decision' AS decision,
           m.metrics->'warnings' AS warnings,
           extract(epoch FROM coalesce(j.ended_at, clock_timestamp()) - j.started_at)::float8 AS seconds
    FROM pgml.jobs AS j LEFT JOIN pgml.activity AS a ON a.id = j.id
    LEFT JOIN pgml.models AS m ON m.id = j.model_id
"""


async def jobs(page):
    """Trainings that run, wait, or have ended."""
    answer = await page.ask(f"{JOBS} ORDER BY j.id DESC LIMIT 50")
    if answer.lacks_extension:
        return page.show("no_extension.html", here="jobs", title="Trainings", answer=answer)
    direct = await page.ask(
        """
        SELECT id, role, project, algorithm, phase, rounds_done, rounds_total, rows, started_at, seconds_left,
               extract(epoch FROM clock_timestamp() - started_at)::float8 AS seconds
        FROM pgml.activity WHERE id NOT IN (SELECT id FROM pgml.jobs)
        """
    )
    live = bool(direct.rows) or any(row["status"] not in ENDED for row in answer.rows)
    template = "jobs_part.html" if page.is_part else "jobs.html"
    return page.show(template, here="jobs", answer=answer, direct=direct, live=live, ended=ENDED)


ENDED = ("done", "failed", "cancelled")


async def job(page, fault=None):
    """One training: how far it is, and what came of it."""
    answer = await page.ask(f"{JOBS} WHERE j.id = $1::bigint", page.number("job"))
    if not answer.rows:
        raise Missing
    template = "job_part.html" if page.is_part else "job.html"
    again = "/train"
    if str(answer.first["id"]) in page.session.forms:
        again = f"/train/table?job={answer.first['id']}"
    elif answer.first["model_id"] is not None:
        again = f"/train/table?model={answer.first['model_id']}"
    return page.show(
        template,
        here="jobs",
        job=answer.first,
        answer=answer,
        live=answer.first["status"] not in ENDED,
        warnings=parsed(answer.first["warnings"]) or [],
        again=again,
        fault=fault,
    )


async def cancel(page):
    """Cancels a training."""
    page.need_actions()
    answer = await page.ask.act("SELECT pgml.cancel($1::bigint)", page.number("job"))
    page.is_part = False
    if answer.fault:
        return await job(page, answer.fault)
    return page.go(f"/jobs/{page.number('job')}")
