"""Watch: how much each model is used, and what the checks of watched projects found over time."""

import json
import time

from howdah_console import drawings
from howdah_console.ask import Fault
from howdah_console.figures import metric_name, parsed
from howdah_console.views.models import find_project

MOST = 100
CHECKS = 200
# Lines of a picture: as many as there are colours.
LINES = 8
PICTURES = {
    "metric": "Metric of the rows that have labels",
    "drift": "Drift of the features (PSI)",
    "missing": "Share of missing values",
    "unseen": "Share of rows with a category that training has not seen",
    "rows": "Rows",
}


async def usage_of(page):
    """The use of the models since the server started, and since the page asked last: what the templates take."""
    usage = await page.ask(
        f"""
        SELECT s.model_id, s.project, s.algorithm, s.calls, s.rows, s.total_ms, s.cache_hits, s.cache_misses,
               s.last_used, p.id AS project_id
        FROM pgml.stat_models AS s JOIN pgml.projects AS p ON p.name = s.project
        WHERE s.calls > 0 ORDER BY s.last_used DESC NULLS LAST LIMIT {MOST + 1}
        """
    )
    now, (then, before) = time.monotonic(), page.session.usage
    rows = [dict(row) for row in usage.rows[:MOST]]
    for row in rows:
        earlier = before.get(row["model_id"])
        # A reset, or another server, counts from zero again.
        fresh = earlier is not None and now - then > 1 and earlier <= row["calls"]
        row["rate"] = (row["calls"] - earlier) / (now - then) if fresh else None
    page.session.usage = (now, {row["model_id"]: row["calls"] for row in rows})
    return {"usage": usage, "rows": rows, "more": len(usage.rows) > MOST, "most": MOST}


async def show(page):
    """The watched projects with their last check, and the use of all models."""
    if page.is_part:
        return page.show("watch_usage.html", **await usage_of(page))
    watches = await page.ask(
        f"""
        SELECT w.project_id, p.name, w.relation_name, w.time_column, w.period::text, c.checked_at, c.results
        FROM pgml.watches AS w JOIN pgml.projects AS p ON p.id = w.project_id
        LEFT JOIN LATERAL (SELECT checked_at, results FROM pgml.watch_checks
                           WHERE project_id = w.project_id ORDER BY id DESC LIMIT 1) AS c ON true
        ORDER BY p.name LIMIT {MOST}
        """
    )
    if watches.lacks_extension:
        return page.show("no_extension.html", here="watch", title="Watch", answer=watches)
    watched = []
    for row in watches.rows:
        crossed = [one for one in parsed(row["results"]) or [] if one["crossed"]]
        watched.append({**dict(row), "crossed": crossed})
    watched.sort(key=lambda one: not one["crossed"])
    return page.show("watch.html", here="watch", watches=watches, watched=watched, **await usage_of(page))


async def project(page, fault=None):
    """What is watched of a project, and what its checks found over time."""
    found = await find_project(page)
    watch = await page.ask(
        """
        SELECT relation_name, time_column, period::text, thresholds, owner::text, created_at FROM pgml.watches
        WHERE project_id = $1::bigint
        """,
        found["id"],
    )
    checks = await page.ask(
        f"""
        SELECT id, model_id, checked_at, results FROM pgml.watch_checks
        WHERE project_id = $1::bigint ORDER BY id DESC LIMIT {CHECKS}
        """,
        found["id"],
    )
    results = [(row["checked_at"].timestamp(), parsed(row["results"]) or []) for row in reversed(checks.rows)]
    latest = sorted(results[-1][1], key=lambda one: (not one["crossed"], -(one["value"] or 0))) if results else []
    snapshot = await page.ask(
        """
        SELECT s.relation_name FROM pgml.models AS m JOIN pgml.snapshots AS s ON s.id = m.snapshot_id
        WHERE m.project_id = $1::bigint ORDER BY m.id DESC LIMIT 1
        """,
        found["id"],
    )
    return page.show(
        "watch_project.html",
        200 if fault is None else 400,
        here="watch",
        project=found,
        watch=watch,
        thresholds_text=json.dumps(parsed(watch.first["thresholds"])) if watch.first else "",
        checks=checks,
        latest=latest,
        last=checks.first,
        pictures=pictures(results),
        relation=snapshot.first["relation_name"] if snapshot.first else "",
        given=page.form,
        fault=fault,
    )


def pictures(results):
    """A chart of each kind of result over time, with the values that were greatest at the last check."""
    charts = {}
    for what, title in PICTURES.items():
        series = {}
        for moment, found in results:
            for one in found:
                if one["what"] == what and one["value"] is not None:
                    series.setdefault(one["name"] or what, []).append((moment, one["value"]))
        if what in ("missing", "unseen"):
            # Most columns never lack a value.
            series = {name: points for name, points in series.items() if any(value for _, value in points)}
        chosen = sorted(series, key=lambda name: -series[name][-1][1])[:LINES]
        if chosen and len(results) > 1:
            lines = {metric_name(name): drawings.thin(series[name]) for name in chosen}
            charts[title] = drawings.chart(lines, "", "", time=True, points=len(results) < 60)
    return charts


async def start(page):
    """Watches a project by the form."""
    page.need_actions()
    found = await find_project(page)
    given = {name: page.form.get(name, "").strip() for name in ("relation", "time_column", "period", "thresholds")}
    if not given["relation"]:
        return await project(page, Fault("Name the relation whose rows are compared."))
    answer = await page.ask.act(
        "SELECT pgml.watch($1, $2, $3::text, coalesce($4::text, '1 day')::interval, coalesce($5::text, '{}')::jsonb)",
        found["name"],
        *(given[name] or None for name in ("relation", "time_column", "period", "thresholds")),
    )
    return await project(page, answer.fault) if answer.fault else page.go(f"/watch/{found['id']}")


async def check(page):
    """Checks a project now."""
    page.need_actions()
    found = await find_project(page)
    await page.ask.allow(page.settings.sql_seconds)
    answer = await page.ask.act("SELECT * FROM pgml.check($1)", found["name"])
    return await project(page, answer.fault) if answer.fault else page.go(f"/watch/{found['id']}")


async def stop(page):
    """Stops watching a project, and forgets its checks."""
    page.need_actions()
    found = await find_project(page)
    answer = await page.ask.act("SELECT pgml.unwatch($1)", found["name"])
    return await project(page, answer.fault) if answer.fault else page.go("/watch")
