"""Projects and their models: what is deployed, how good it is, and why."""

import re
from urllib.parse import urlencode

from starlette.responses import Response

from howdah_console import drawings
from howdah_console.app import Missing
from howdah_console.ask import Fault, quoted
from howdah_console.figures import (
    METRICS,
    MOMENTS,
    PRIMARY,
    SECONDARY,
    STRATEGIES,
    TIMES,
    as_moment,
    class_order,
    compact,
    metric_name,
    parsed,
)

MOST = 100
MOST_COMPONENTS = 12
# So many models of a project are measured without a click.
MOST_UNASKED = 20
MOST_GROUPS = 50
# The tasks whose models predict rows.
OF_ROWS = ("classification", "regression", "clustering", "decomposition", "anomaly")
# Curves of one picture.
MOST_CURVES = 8
# The metrics without what may be large.
METRICS_ONLY = "m.metrics - 'search_results' - 'classes' - 'groups' AS metrics"


def primary_of(project):
    """The metric by which a project's models are compared."""
    return project["metric"] or PRIMARY.get(project["task"], "f1")


async def overview(page):
    """All projects, with the model that answers for each."""
    wanted = page.request.query_params.get("find", "")[:200]
    answer = await page.ask(
        f"""
        SELECT p.id, p.name, p.task::text, p.metric, p.owner::text, d.model_id, d.created_at AS deployed_at,
               m.algorithm, {METRICS_ONLY}, n.models, pgml.has_privilege(p.name, 'see') AS seen
        FROM pgml.projects AS p
        LEFT JOIN LATERAL (SELECT model_id, created_at FROM pgml.deployments
                           WHERE project_id = p.id ORDER BY id DESC LIMIT 1) AS d ON true
        LEFT JOIN pgml.models AS m ON m.id = d.model_id
        LEFT JOIN LATERAL (SELECT count(*) AS models FROM pgml.models WHERE project_id = p.id) AS n ON true
        WHERE strpos(lower(p.name), lower($1)) > 0
        ORDER BY coalesce(d.created_at, p.created_at) DESC
        LIMIT {MOST + 1}
        """,
        wanted,
    )
    if answer.lacks_extension:
        return page.show("no_extension.html", here="models", title="Models", answer=answer)
    projects = []
    for row in answer.rows[:MOST]:
        one = dict(row)
        one["metrics"] = parsed(row["metrics"]) or {}
        one["primary"] = primary_of(row)
        one["value"] = one["metrics"].get(one["primary"])
        projects.append(one)
    running = await page.ask("SELECT count(*) AS trainings FROM pgml.activity")
    return page.show(
        "overview.html",
        here="models",
        answer=answer,
        projects=projects,
        more=len(answer.rows) > MOST,
        most=MOST,
        wanted=wanted,
        trainings=running.first["trainings"] if running.first else 0,
    )


async def stranger_of(page, snapshot, metric=None):
    """Whose code a reading of a snapshot's relation would run with the visitor's rights, or None.

    A query or a view is what another role wrote, and so are policies and an aggregate as metric: a page asks before it
    runs them. A table's rows, and what the visitor trained on, it reads by itself.
    """
    answer = await page.ask(
        """
        SELECT s.owner::text, s.owner::oid = (SELECT oid FROM pg_roles WHERE rolname = current_user) AS own,
               CASE WHEN ltrim(s.relation_name) LIKE '(%' THEN false ELSE coalesce(
                   (SELECT c.relkind IN ('r', 'p', 'm') AND NOT c.relrowsecurity FROM pg_class AS c
                    WHERE c.oid = to_regclass(s.relation_name)), false) END AS plain
        FROM pgml.snapshots AS s WHERE s.id = $1::bigint
        """,
        snapshot,
    )
    row = answer.first
    if row is None or row["own"] or (row["plain"] and (metric is None or metric in METRICS)):
        return None
    return row["owner"]


async def find_project(page):
    """The project that the address names, as (row, answer)."""
    answer = await page.ask(
        "SELECT id, name, task::text, owner::text, metric, created_at, pgml.has_privilege(name, 'see') AS seen "
        "FROM pgml.projects WHERE id = $1::bigint",
        page.number("project"),
    )
    if not answer.rows:
        raise Missing
    return answer.first


class Listing:
    """The order of a project's models and which of them are listed, by the address."""

    def __init__(self, page, project, metrics):
        asked = page.request.query_params
        self.path = f"/projects/{project['id']}"
        self.algorithm = asked.get("algorithm", "")[:100]
        self.filter = f"AND m.algorithm = {quoted(self.algorithm)}" if self.algorithm else ""
        # What each column is sorted by, and whether its greatest comes first at the first click.
        columns = {"made": ("m.id", True), "algorithm": ("m.algorithm", False)}
        columns |= {"rows": (in_metrics("rows"), True), "fit_time": (in_metrics("fit_time"), False)}
        columns |= {name: (in_metrics(name), METRICS.get(name, ("", True))[1]) for name in metrics}
        self.first = {name: falls for name, (_, falls) in columns.items()}
        self.column = asked.get("sort") if asked.get("sort") in columns else "made"
        self.falls = {"up": False, "down": True}.get(asked.get("way"), self.first[self.column])
        self.order = f"{columns[self.column][0]} {'DESC' if self.falls else 'ASC'} NULLS LAST, m.id DESC"

    def address(self, algorithm, column, falls):
        """The page with another order, or with others of the models."""
        given = {"algorithm": algorithm, "sort": column, "way": "down" if falls else "up"}
        return f"{self.path}?{urlencode({name: value for name, value in given.items() if value})}#models"

    def by(self, column):
        """The page sorted by a column; the other way round if it is already."""
        return self.address(self.algorithm, column, not self.falls if column == self.column else self.first[column])

    def only(self, algorithm):
        """The page with the models of one algorithm."""
        return self.address(algorithm, self.column, self.falls)


def in_metrics(name):
    """A number in a model's metrics, as SQL."""
    path = quoted(name)
    return f"CASE jsonb_typeof(m.metrics->{path}) WHEN 'number' THEN (m.metrics->>{path})::float8 END"


async def project(page, fault=None):
    """A project's models side by side, what was deployed when, and why."""
    found = await find_project(page)
    done, page.session.done = page.session.done, None
    primary = primary_of(found)
    others = [name for name in SECONDARY.get(found["task"], ()) if name != primary]
    listing = Listing(page, found, [primary, *others])
    deployments = await page.ask(
        """
        SELECT d.id, d.model_id, m.algorithm, d.strategy::text, d.created_at, m.metrics->>'decision' AS decision
        FROM pgml.deployments AS d LEFT JOIN pgml.models AS m ON m.id = d.model_id
        WHERE d.project_id = $1::bigint
        ORDER BY d.id DESC LIMIT 20
        """,
        found["id"],
    )
    deployed = deployments.first["model_id"] if deployments.first else None
    models = await page.ask(
        f"""
        SELECT m.id, m.snapshot_id, m.algorithm, m.hyperparams, m.search, m.created_at, m.status, m.tags,
               s.y_column_name AS labels, {METRICS_ONLY}
        FROM pgml.models AS m LEFT JOIN pgml.snapshots AS s ON s.id = m.snapshot_id
        WHERE m.project_id = $1::bigint
          AND (m.id = $2::bigint OR m.id IN (SELECT m.id FROM pgml.models AS m WHERE project_id = $1::bigint
                                             {listing.filter} ORDER BY {listing.order} LIMIT {MOST}))
        ORDER BY {listing.order}
        """,
        found["id"],
        # Where a filter leaves it out it is not added.
        None if listing.filter else deployed,
    )
    algorithms = await page.ask(
        "SELECT algorithm, count(*) AS models FROM pgml.models WHERE project_id = $1::bigint GROUP BY 1 ORDER BY 1",
        found["id"],
    )
    declined = await page.ask(
        """
        SELECT m.id AS model_id, m.algorithm, m.created_at, m.metrics->>'decision' AS decision FROM pgml.models AS m
        WHERE m.project_id = $1::bigint AND m.metrics->>'decision' IS NOT NULL
          AND m.id NOT IN (SELECT model_id FROM pgml.deployments WHERE project_id = $1::bigint)
        ORDER BY m.id DESC LIMIT 20
        """,
        found["id"],
    )
    latest = await page.ask(
        """
        SELECT s.id, s.relation_name, (s.analysis->>'samples')::bigint AS samples
        FROM pgml.models AS m LEFT JOIN pgml.snapshots AS s ON s.id = m.snapshot_id
        WHERE m.project_id = $1::bigint ORDER BY m.id DESC LIMIT 1
        """,
        found["id"],
    )
    trials = await page.ask(
        "SELECT model_id, strategy::text, share, created_at FROM pgml.trials WHERE project_id = $1::bigint", found["id"]
    )
    rows = []
    for row in models.rows:
        one = dict(row)
        one["metrics"] = parsed(row["metrics"]) or {}
        one["hyperparams"] = parsed(row["hyperparams"]) or {}
        rows.append(one)
    # Of other labels a metric says something else.
    several = len({tuple(one["labels"]) for one in rows if one["labels"]}) > 1
    judged = next((one["labels"] for one in rows if one["id"] == deployed), rows[0]["labels"] if rows else None)
    values = [
        one["metrics"][primary] for one in rows if one["labels"] == judged and one["metrics"].get(primary) is not None
    ]
    better = max if METRICS.get(primary, ("", True))[1] else min
    newest = latest.first
    samples = (newest["samples"] or 0) if newest else 0
    stranger = await stranger_of(page, newest["id"], found["metric"]) if newest else None
    count = sum(row["models"] for row in algorithms.rows)
    # Newest first: a deployment, or a training that deployed nothing.
    history = [dict(row) for row in deployments.rows]
    history += [{**dict(row), "id": None, "strategy": "new_score"} for row in declined.rows]
    history.sort(key=lambda one: (one["created_at"], one["model_id"]), reverse=True)
    return page.show(
        "project.html",
        here="models",
        project=found,
        models=models,
        rows=rows,
        deployments=deployments,
        deployed=deployed,
        listing=listing,
        several=several,
        judged=judged,
        algorithms=algorithms.rows,
        count=count,
        history=history,
        most=MOST,
        trials=trials,
        on_trial=[row["model_id"] for row in trials.rows],
        primary=primary,
        others=others,
        best=better(values) if len(set(values)) > 1 else None,
        strategies=STRATEGIES,
        relation=newest["relation_name"] if newest else None,
        samples=samples,
        stranger=stranger,
        unasked=samples <= page.settings.rows_unasked and stranger is None and count <= MOST_UNASKED,
        done=done,
        fault=fault,
    )


async def compare(page):
    """The part of a project's page that measures all its models on the same rows now."""
    page.need_part()
    found = await find_project(page)
    snapshot = await page.ask(
        """
        SELECT s.relation_name FROM pgml.models AS m JOIN pgml.snapshots AS s ON s.id = m.snapshot_id
        WHERE m.project_id = $1::bigint ORDER BY m.id DESC LIMIT 1
        """,
        found["id"],
    )
    if not snapshot.rows:
        raise Missing
    await page.ask.allow(page.settings.sql_seconds)
    answer = await page.ask(
        """
        SELECT c.model_id, c.algorithm, c.deployed, c.metrics, c.error, s.y_column_name AS labels
        FROM pgml.compare($1, $2) WITH ORDINALITY AS c JOIN pgml.models AS m ON m.id = c.model_id
             LEFT JOIN pgml.snapshots AS s ON s.id = m.snapshot_id
        ORDER BY c.ordinality
        """,
        found["name"],
        snapshot.first["relation_name"],
    )
    primary = primary_of(found)
    rows = [{**dict(row), "metrics": parsed(row["metrics"]) or {}} for row in answer.rows]
    others = [name for name in SECONDARY.get(found["task"], ()) if name != primary]
    measured = [row["metrics"].get("rows") for row in rows if row["error"] is None]
    return page.show(
        "compare.html",
        answer=answer,
        rows=rows,
        primary=primary,
        others=others,
        project=quoted(found["name"]),
        none_common=bool(measured) and not any(measured),
        few=max((one or 0 for one in measured), default=0) if measured else None,
        several=len({tuple(row["labels"]) for row in rows if row["labels"]}) > 1,
    )


async def deploy(page):
    """Deploys the model that the form names."""
    page.need_actions()
    await find_project(page)
    model = page.form.get("model", "")
    if not model.isdigit():
        raise Missing
    answer = await page.ask.act("SELECT * FROM pgml.deploy($1::bigint)", int(model))
    return await done_or_fault(page, f"Model {model} is deployed.", answer.fault)


async def done_or_fault(page, done, fault):
    """The project's page: loading it again does not do again what was done."""
    if fault:
        return await project(page, fault=fault)
    page.session.done = done
    return page.go(f"/projects/{page.number('project')}")


async def rollback(page):
    """Deploys the model before, or ends a trial."""
    page.need_actions()
    found = await find_project(page)
    trials = await page.ask("SELECT model_id FROM pgml.trials WHERE project_id = $1::bigint", found["id"])
    answer = await page.ask.act("SELECT * FROM pgml.deploy($1, 'rollback')", found["name"])
    done = "The trial has ended." if trials.rows else "Rolled back to the model before."
    return await done_or_fault(page, done, answer.fault)


async def describe(page):
    """Keeps the description and the tags of the form."""
    page.need_actions()
    found, _, _, _ = await find_model(page)
    given = {name: page.form.get(name, "").replace("\r\n", "\n").strip() for name in ("description", "tags")}
    stored = {"description": (found["description"] or "").strip(), "tags": ", ".join(found["tags"] or [])}
    # What somebody else has changed since the form was shown stays, or is named before it is lost.
    lost = None
    for name, text in stored.items():
        shown = page.form.get(f"shown_{name}", text).replace("\r\n", "\n").strip()
        if given[name] == shown:
            given[name] = text
        elif text not in (shown, given[name]):
            lost = Fault(f"The {name} changed meanwhile, to: {text or 'nothing'}", "Save again to replace it.")
    if lost:
        return await model(page, fault=lost, given=given)
    tags = list(dict.fromkeys(tag for one in given["tags"].split(",") if (tag := one.strip())))
    answer = await page.ask.act(
        "SELECT pgml.describe($1::bigint, $2::text, $3::text[])", found["id"], given["description"], tags
    )
    if answer.fault:
        return await model(page, fault=answer.fault, given=given)
    return page.go(f"/models/{found['id']}")


async def card(page):
    """The model's card, as a file of Markdown."""
    answer = await page.ask("SELECT pgml.card($1::bigint) AS card", page.number("model"))
    if answer.fault:
        return page.show("fault.html", 400, fault=answer.fault)
    name = f"model-{page.number('model')}.md"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(answer.first["card"] or "", media_type="text/markdown; charset=utf-8", headers=headers)


async def trial(page):
    """Puts a model on trial beside the deployed one: as a canary for a share of the keys, or as a shadow."""
    page.need_actions()
    found, _, _, _ = await find_model(page)
    if page.form.get("strategy") == "canary":
        share = page.form.get("share", "").strip()
        if not re.fullmatch(r"\d{1,3}(\.\d+)?", share):
            return await model(page, fault=Fault(f"The share of the keys is a number of per cent, not {share!r}."))
        answer = await page.ask.act(
            "SELECT * FROM pgml.deploy($1, 'canary', model_id => $2::bigint, share => $3::float8)",
            found["project"],
            found["id"],
            float(share) / 100,
        )
    else:
        answer = await page.ask.act(
            "SELECT * FROM pgml.deploy($1, 'shadow', model_id => $2::bigint)", found["project"], found["id"]
        )
    if answer.fault:
        return await model(page, fault=answer.fault)
    page.session.done = f"Model {found['id']} is on trial."
    return page.go(f"/projects/{found['project_id']}")


async def delete(page):
    """Deletes a model."""
    page.need_actions()
    found, _, _, _ = await find_model(page)
    answer = await page.ask.act("SELECT pgml.delete_model($1::bigint)", found["id"])
    if answer.fault:
        return await model(page, fault=answer.fault)
    page.session.done = f"Model {found['id']} is deleted."
    return page.go(f"/projects/{found['project_id']}")


async def find_model(page):
    """The model that the address names, with its project and what the visitor may see of its data."""
    answer = await page.ask(
        """
        SELECT m.id, m.project_id, m.snapshot_id, m.num_features, m.algorithm, m.hyperparams, m.status, m.metrics,
               m.search, m.search_params, m.created_at, m.description, m.tags,
               p.name AS project, p.task::text, p.metric, p.owner::text,
               m.id = (SELECT model_id FROM pgml.deployments WHERE project_id = p.id
                       ORDER BY id DESC LIMIT 1) AS deployed,
               EXISTS (SELECT FROM pgml.deployments AS d JOIN pgml.models AS o ON o.id = d.model_id
                       WHERE d.project_id = p.id AND d.model_id <> m.id) AS has_earlier
        FROM pgml.models AS m JOIN pgml.projects AS p ON p.id = m.project_id
        WHERE m.id = $1::bigint
        """,
        page.number("model"),
    )
    if not answer.rows:
        raise Missing
    snapshot = await page.ask(
        """
        SELECT id, relation_name, y_column_name, test_size, test_sampling::text, materialized, owner::text, created_at,
               columns, analysis
        FROM pgml.snapshots WHERE id = $1::bigint
        """,
        answer.first["snapshot_id"],
    )
    found = dict(answer.first)
    for name in ("hyperparams", "metrics", "search_params"):
        found[name] = parsed(found[name]) or {}
    data = None
    if snapshot.rows:
        data = dict(snapshot.first)
        data["columns"] = parsed(data["columns"]) or []
        data["analysis"] = parsed(data["analysis"]) or {}
        data["samples"] = data["analysis"].get("samples")
    return found, data, answer, snapshot


def search_rows(results):
    """The combinations of a search, or the candidates of an automatic choice, the best first."""
    if not isinstance(results, dict) or not isinstance(results.get("params"), list):
        return []
    scores = results.get("mean_test_score") or []
    names = {
        "score": "mean_test_score",
        "deviation": "std_test_score",
        "fit": "mean_fit_time",
        "rank": "rank_test_score",
    }
    params = results["params"]
    if any("algorithm" in one for one in params):
        params = [
            {"algorithm": one.pop("algorithm", None), "hyperparameters": compact(one) or "defaults"}
            for one in map(dict, params)
        ]
    columns = [params, *(results.get(name) or [None] * len(scores) for name in names.values())]
    rows = [dict(zip(("params", *names), row, strict=False)) for row in zip(*columns, strict=False)]
    # Candidates of an automatic choice that were given up early are behind those with lower scores on all folds.
    return sorted(rows, key=lambda row: (row["rank"] is None or row["score"] is None, row["rank"]))[:50]


def describe_column(column):
    """A column of a snapshot as the page shows it."""
    statistics = column.get("statistics") or {}
    statistics = statistics[0] if isinstance(statistics, list) and statistics else statistics or {}
    categories = statistics.get("categories") or {}
    shown = {
        "name": column["name"],
        "type": column.get("pg_type"),
        "label": column.get("label"),
        "size": column.get("size"),
    }
    shown |= {name: statistics.get(name) for name in ("min", "max", "mean", "std_dev", "missing", "distinct")}
    if (categories and column.get("pg_type") in ("text", "bool", "varchar", "bpchar")) or (
        categories and shown["mean"] is None
    ):
        by_size = sorted(categories.items(), key=lambda pair: -pair[1]["members"])
        shown["counts"] = [pair[1]["members"] for pair in by_size[: drawings.BINS]]
        shown["top"] = [(name, pair["members"]) for name, pair in by_size[:3]]
        shown["mean"] = shown["min"] = shown["max"] = shown["std_dev"] = None
        shown["distinct"] = shown["distinct"] or len(categories)
    else:
        shown["counts"] = drawings.bins_of(statistics.get("quantiles") or [])
        shown["top"] = []
        if shown["type"] in MOMENTS:
            for name in ("min", "mean", "max"):
                shown[name] = as_moment(shown[name], shown["type"])
            shown["std_dev"] = None if shown["std_dev"] is None else f"{shown['std_dev'] / 86400:,.0f} days"
            return shown
        # A mean that is zero but for rounding.
        if shown["mean"] is not None and abs(shown["mean"]) < 1e-6 * (shown["std_dev"] or 0):
            shown["mean"] = 0
    return shown


async def model(page, fault=None, given=None):
    """One model: its metrics, what it learnt from, and what it was made with."""
    found, data, answer, snapshot = await find_model(page)
    predicts_rows = found["task"] in OF_ROWS
    importance = coefficients = steps = groups = None
    if predicts_rows:
        importance = await page.ask(
            "SELECT feature, gain, weight, cover FROM pgml.feature_importance($1::bigint) LIMIT 30", found["id"]
        )
    elif found["task"] == "forecast":
        steps = await page.ask(
            "SELECT series::text, time, mean, lower, upper FROM pgml.forecast($1::bigint) LIMIT 100", found["id"]
        )
    if found["metrics"].get("groups"):
        groups = await page.ask(
            f"""
            SELECT groups::text, rows, fallback, reason, held_out, metric, score, fallback_score
            FROM pgml.groups($1::bigint) ORDER BY rows DESC, groups::text LIMIT {MOST_GROUPS}
            """,
            found["id"],
        )
    rows = importance.rows if importance else []
    by = "gain" if rows and rows[0]["gain"] is not None else "weight"
    features = [row for row in rows if row[by] is not None]
    if predicts_rows and not groups and not features and not importance.fault:
        # Of centres and components the first ones whole, of a linear model the largest.
        order = "ORDER BY feature = '(intercept)', abs(coefficient) DESC LIMIT 100"
        if found["task"] in ("clustering", "decomposition"):
            order = f"WHERE component <= {MOST_COMPONENTS} LIMIT {MOST_COMPONENTS * 1000}"
        coefficients = await page.ask(
            f"SELECT class, component, feature, coefficient FROM pgml.coefficients($1::bigint) {order}", found["id"]
        )
    learning = await page.ask(
        "SELECT round, part, metric, value FROM pgml.learning_curve($1::bigint) ORDER BY metric, part, round",
        found["id"],
    )
    usage = await page.ask(
        """
        SELECT calls, rows, total_ms, cache_hits, cache_misses, last_used FROM pgml.stat_models
        WHERE model_id = $1::bigint
        """,
        found["id"],
    )
    known = await page.ask(
        """
        SELECT name, "default", allowed, description FROM pgml.hyperparameters()
        WHERE algorithm = $1 AND task = $2
        """,
        found["algorithm"],
        found["task"],
    )
    trials = await page.ask(
        "SELECT strategy::text, share, created_at FROM pgml.trials WHERE model_id = $1::bigint", found["id"]
    )
    described = {row["name"]: row for row in known.rows}
    metrics = found["metrics"]
    primary = primary_of(found)
    names = [primary, *(name for name in METRICS if name != primary)]
    samples = (data or {}).get("samples") or 0
    stranger = await stranger_of(page, found["snapshot_id"])
    return page.show(
        "model.html",
        200 if fault is None else 400,
        here="models",
        fault=fault,
        given=given or {"description": found["description"] or "", "tags": ", ".join(found["tags"] or [])},
        model=found,
        data=data,
        answer=answer,
        snapshot=snapshot,
        metrics=[(name, metrics[name]) for name in names if isinstance(metrics.get(name), (int, float))],
        classes=dict(sorted((metrics.get("classes") or {}).items(), key=lambda pair: class_order(pair[0]))),
        times=[(label, metrics[name]) for name, label in TIMES.items() if metrics.get(name) is not None],
        search=search_rows(metrics.get("search_results")),
        learning=learning,
        learning_charts=learning_charts(learning.rows),
        predicts_rows=predicts_rows,
        steps=steps,
        steps_chart=steps_chart(steps.rows if steps else []),
        groups=groups,
        importance=importance,
        by=by,
        features=features,
        top=max((abs(row[by]) for row in features), default=1) or 1,
        coefficients=coefficients,
        grid=grid_of(coefficients),
        steepest=max(
            (
                abs(row["coefficient"])
                for row in (coefficients.rows if coefficients else [])
                if row["feature"] != "(intercept)"
            ),
            default=1,
        )
        or 1,
        usage=usage,
        described=described,
        trial=trials.first,
        columns=[describe_column(column) for column in (data or {}).get("columns", [])],
        samples=samples,
        held_out=metrics["rows"] / samples if samples and metrics.get("rows") is not None else None,
        stranger=stranger,
        unasked=samples <= page.settings.rows_unasked and stranger is None,
        has_curves=data is not None and found["task"] in ("classification", "regression"),
    )


def learning_charts(rows):
    """The curves of each metric by round, those of the training rows and of the held-out ones in one picture."""
    metrics = {}
    for row in rows:
        label = {"train": "training rows", "test": "held-out rows"}.get(row["part"], row["part"])
        metrics.setdefault(row["metric"], {}).setdefault(label, []).append((row["round"], row["value"]))
    return {metric: drawings.chart(series, "round", metric_name(metric)) for metric, series in metrics.items()}


def steps_chart(rows):
    """The forecast of the first series, with its intervals."""
    first = [row for row in rows if row["series"] == rows[0]["series"]]
    lines = {
        name: [(step, row[name]) for step, row in enumerate(first, 1)] for name in ("mean", "lower", "upper") if first
    }
    return drawings.chart(lines, "step", "value") if first else None


def grid_of(coefficients):
    """The centres of clusters, or components, as (their numbers, rows of (feature, values)); None for other models."""
    rows = coefficients.rows if coefficients else []
    if not rows or any(row["component"] is None for row in rows):
        return None
    places = sorted({row["component"] for row in rows})[:MOST_COMPONENTS]
    values = {(row["feature"], row["component"]): row["coefficient"] for row in rows}
    features = [feature for feature in dict.fromkeys(row["feature"] for row in rows) if feature != "(intercept)"]
    return places, [(feature, [values.get((feature, place)) for place in places]) for feature in features]


async def curves(page):
    """The part of a model's page that predicts the rows that the training held out."""
    page.need_part()
    found, data, _, _ = await find_model(page)
    if data is None:
        raise Missing
    await page.ask.allow(page.settings.sql_seconds)
    one = (found["id"], data["relation_name"])
    if found["task"] == "regression":
        quantiles = await page.ask(
            """
            SELECT label, quantile, residual FROM pgml.residual_quantiles($1::bigint, $2,
                ARRAY[0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1])
            """,
            *one,
        )
        series = {}
        for row in quantiles.rows:
            series.setdefault(row["label"], []).append((row["quantile"], row["residual"]))
        picture = drawings.chart(series, "quantile of the held-out rows", "label − prediction", zero=True)
        middle = {row["quantile"]: row["residual"] for row in quantiles.rows} if len(series) == 1 else {}
        return page.show(
            "residuals.html", quantiles=quantiles, picture=picture, middle=middle, notices=quantiles.notices
        )
    matrix = await page.ask("SELECT actual, predicted, count FROM pgml.confusion_matrix($1::bigint, $2)", *one)
    if matrix.fault:
        return page.show("curves.html", matrix=matrix, fault=matrix.fault)
    roc = await page.ask("SELECT class, fpr, tpr FROM pgml.roc_curve($1::bigint, $2)", *one)
    recall = await page.ask('SELECT class, recall, "precision" FROM pgml.precision_recall_curve($1::bigint, $2)', *one)
    calibration = await page.ask(
        "SELECT class, rows, predicted, actual FROM pgml.calibration_curve($1::bigint, $2) WHERE rows > 0", *one
    )
    positive = found["metrics"].get("positive_class")
    sizes = {}
    for row in matrix.rows:
        sizes[row["actual"]] = sizes.get(row["actual"], 0) + row["count"]
    # So many colours there are.
    drawn = sorted(sizes, key=sizes.get, reverse=True)[:MOST_CURVES]
    return page.show(
        "curves.html",
        fault=None,
        matrix=matrix,
        table=confusion(matrix.rows),
        positive=positive,
        roc=roc,
        classes=len(sizes) if len(sizes) > MOST_CURVES else None,
        drawn=len(drawn),
        roc_chart=unit_chart(roc.rows, drawn, "fpr", "tpr", "false positive rate", "true positive rate", diagonal=True),
        recall=recall,
        recall_chart=unit_chart(recall.rows, drawn, "recall", "precision", "recall", "precision"),
        calibration=calibration,
        calibration_chart=unit_chart(
            calibration.rows,
            drawn,
            "predicted",
            "actual",
            "predicted probability",
            "actual share",
            diagonal=True,
            points=True,
        ),
        notices=matrix.notices,
    )


def unit_chart(rows, classes, x, y, x_name, y_name, **more):
    """Curves of some classes, both axes from 0 to 1."""
    series = {}
    for row in rows:
        if row["class"] in classes and row[x] is not None and row[y] is not None:
            series.setdefault(row["class"], []).append((row[x], row[y]))
    # Curves come by falling or rising thresholds: drawn from the left, with the points of one x in their order.
    series = {
        label: drawings.ascending(drawings.thin(points if points[0][0] <= points[-1][0] else points[::-1]))
        for label, points in series.items()
    }
    return drawings.chart(series, x_name, y_name, unit=True, **more) if series else None


def confusion(rows):
    """The matrix as rows of (actual, cells), a cell's heat its share of the actual class from 0 to 10."""
    names = list(dict.fromkeys(row["predicted"] for row in rows))
    actual = {}
    for row in rows:
        actual.setdefault(row["actual"], {})[row["predicted"]] = row["count"]
    lines = []
    for label, counts in actual.items():
        total = sum(counts.values()) or 1
        cells = [
            {
                "count": counts.get(name, 0),
                "share": counts.get(name, 0) / total,
                "heat": round(10 * counts.get(name, 0) / total),
                "right": name == label,
            }
            for name in names
        ]
        lines.append((label, cells, sum(counts.values())))
    return {"names": names, "lines": lines} if len(names) <= 30 else None
