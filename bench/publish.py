"""Makes docs/benchmarks.md, and a page of all tables beside each result, of the newest whole result of each bench.

The first is to be read in two minutes: what is lost, the figures that were promised, then a few lines a bench. The page
beside a result (bench/results/DATE/BENCH.md) has its targets, plots and tables, with every other figure folded away,
and at the end settings and machine.
"""

import json

from bench.report import RESULTS, rounded
from devkit import Problem, say
from devkit.places import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"
# What the published measurements were, for those who know them.
PUBLISHED = {
    "microservice": "8 times the predictions of Flask, Gunicorn and Redis on one machine and 40 times over a network, "
    "in a seventh of the memory",
    "train-memory": "5 GB for training in the database, 12 GB by pandas and XGBoost",
    "fleet": "1,021,692.7 predictions a second by five replicas of 36 vCPU each behind 35 poolers, 2000 clients, "
    "100 trees; 20 rows in a query gained 1.2 times",
}
# Where it stands how a bench measures, and then the settings of each side.
SETTINGS = {
    "predict-point": ["bench/predict_point.py", "bench/flights.py"],
    "predict-memory": ["bench/predict_memory.py", "bench/booster_processes.py", "bench/flights.py"],
    "families": ["bench/families.py", "bench/fit_in_python.py", "bench/flights.py"],
    "quality": [
        "bench/quality/__init__.py",
        "bench/quality/sets.py",
        "bench/quality/script.py",
        "bench/quality/score.py",
    ],
    "texts": ["bench/texts.py"],
    "choice": ["bench/choice.py", "bench/choice_in_python.py", "bench/quality/sets.py", "bench/quality/script.py"],
    "forecasts": ["bench/forecasts.py", "bench/forecast_in_python.py"],
    "groups": ["bench/groups.py"],
    "search": ["bench/search.py", "bench/fit_in_python.py", "bench/flights.py"],
    "many-models": ["bench/many_models.py", "bench/booster_processes.py", "bench/flights.py"],
    "predict-scan": ["bench/predict_scan.py", "bench/flights.py"],
    "reads": ["bench/reads.py"],
    "pooler": ["bench/pooler.py", "bench/relay.c", "bench/orm.sql"],
    "shards": ["bench/shards.py", "bench/pooler.py"],
    "cores": ["bench/cores.py", "bench/instant.py", "bench/instant.c", "bench/floor.c"],
    "loops": ["bench/loops.py", "bench/loops/src/main.rs", "bench/relay.c", "bench/instant.c", "bench/floor.c"],
    "fleet": ["bench/fleet/__init__.py", "tools/devkit/fleet.py", "bench/fleet/load.py", "bench/fleet/patroni.py"],
    "tuning": ["bench/tuning.py", "tools/devkit/fleet.py"],
    "driver": ["bench/driver.py", "bench/driver_sides.py", "bench/driver_cases.py", "bench/driver_predictions.py"],
    "toolbench": [
        "bench/toolbench/__init__.py",
        "bench/driver_sides.py",
        "bench/toolbench/client.py",
        "bench/toolbench/go/main.go",
        "bench/toolbench/node/client.js",
    ],
    "microservice": [
        "bench/microservice/__init__.py",
        "bench/microservice/flask_service.py",
        "bench/microservice/gunicorn.conf.py",
        "bench/microservice/fastapi_service.py",
        "bench/microservice/sides.py",
        "bench/microservice/comparison.py",
        "bench/microservice/pgbouncer.ini",
        "bench/microservice/howdah.toml",
        "bench/microservice/load.py",
    ],
    "train-memory": ["bench/train_memory.py", "bench/train_in_python.py"],
    "distributed": ["bench/distributed.py"],
}
# Of each bench, so many figures stand in the summary.
HEADLINES = 3
# Of a result, what has its own place on the page; the rest says how it was taken.
TOLD = {"bench", "quick", "taken", "commit", "machine", "cases", "tables", "plots", "left_out", "found"}


def publish(benches):
    """Writes the pages; `benches` gives what each bench is, in the order of the page."""
    newest = {}
    for path in sorted(RESULTS.glob("*/*.json")):
        content = json.loads(path.read_text())
        # A quick run shows that a bench works, and no more.
        if not content["quick"]:
            newest[path.stem] = (path, content)
    found = {name: newest[name] for name in benches if name in newest}
    if not found:
        raise Problem("there is no result to publish: `bench/run all` makes them")
    for name, (path, content) in found.items():
        path.with_suffix(".md").write_text(details(name, benches[name], path, content) + "\n")
        draw_missing(name, path, content)
    PAGE.write_text(page(found, benches))
    say.note(f"written to {PAGE.relative_to(ROOT)}")


def draw_missing(name, path, content):
    """Draws the plots of a result that was moved here without them."""
    for plot in content["plots"]:
        file = ROOT / picture(name, plot, path)
        if not file.exists():
            from bench.draw import draw

            draw(plot, file)


def page(found, benches):
    """The text of docs/benchmarks.md."""
    parts = [
        "# Benchmarks",
        "Each figure is the median of its rounds; the least and the greatest round follow in brackets. A ratio (÷ or /)"
        " is computed within each round, in which the two sides run one after the other. In the tables of all figures,"
        " to which each bench has a link, **behind** marks a ratio that favours the other side in every round. The"
        " machines are small and shared: ratios say more than absolute figures. `bench/run publish` makes this page"
        " from the files in bench/results/.",
        losses(found),
        summary(found),
        "## Bench by bench",
    ]
    parts += [section(name, benches[name], path, content) for name, (path, content) in found.items()]
    return "\n\n".join([*parts, *gaps(found, benches)]) + "\n"


def losses(found):
    """Where another is better in every round; a row for each situation, with all that is lost in it.

    Where the best of some is the best of all, the comparison with either is the same, and stands there once.
    """
    lost = {}
    for name, (_, content) in found.items():
        for case in filter(is_lost, content["cases"]):
            situation, _, what = case["case"].rpartition(": ")
            numbers = case["median"], case["least"], case["greatest"]
            of_situation = lost.setdefault((f"[{name}](#{name})", situation), {})
            of_situation.setdefault(numbers, f"{what}: {figure(case)}")
    rows = [[bench, situation, "<br>".join(figures.values())] for (bench, situation), figures in lost.items()]
    lines = ["## Where Howdah loses", ""]
    if not rows:
        return "\n".join([*lines, "In no comparison is another better in every round."])
    lines += ["In these comparisons the other side is better in every round:", ""]
    return "\n".join([*lines, *table(["bench", "situation", "comparison"], rows)])


def is_lost(case):
    """Whether all of the spread of a ratio to another's figure is on the wrong side of 1."""
    return bool(case.get("lost")) and (case["greatest"] < 1 if case["median"] < 1 else case["least"] > 1)


def gaps(found, benches):
    """What has not been measured."""
    lines = [f"- [{name}](#{name}): {what}: {why}" for name, what, why in left_out(found)]
    lines += [f"- `bench/run {name}` has no stored result" for name in benches if name not in found]
    return ["\n".join(["## What was not measured", "", *lines])] if lines else []


def left_out(found):
    """Bench, what it left out, and why."""
    return [(name, what, why) for name, (_, content) in found.items() for what, why in content["left_out"].items()]


def summary(found):
    """The figures that people ask for."""
    headlines = []
    for name, (_, content) in found.items():
        named = [case for case in content["cases"] if "headline" in case][:HEADLINES]
        headlines += [[case["headline"], figure(case), target(case), f"[{name}](#{name})"] for case in named]
    columns = ["measure", "figure", "target", "bench"]
    return "\n".join(["## In short", "", *table(columns, headlines)]) if headlines else ""


def section(name, meaning, path, content):
    """A few lines of one bench: what it compares, its targets, its first plot, its command."""
    bounded = [case for case in content["cases"] if "met" in case]
    met = f"{sum(case['met'] for case in bounded)} of {len(bounded)} targets met; " if bounded else ""
    whole = path.with_suffix(".md").relative_to(ROOT)
    said = f"Published for PostgresML: {PUBLISHED[name]}. " if name in PUBLISHED else ""
    words = (
        f"{meaning[0].upper()}{meaning[1:]}. {said}Measured on {content['taken'][:10]} by `bench/run {name}`"
        f"{state(content)}; {met}[all figures, plots and settings](../{whole})."
    )
    # The page is short: a plot is in the paragraph, on a line of its own, and the paragraph right below its title.
    plots = [f"![{plot['title']}](../{picture(name, plot, path)})" for plot in content["plots"][:1]]
    return "\n".join([f"### {name}", "<br>\n".join([words, *plots])])


def state(content):
    """What of the run speaks against its figures: code that is in no commit, and other work on the machine."""
    told = ["from a tree with changes that are not committed"] if content["commit"].endswith("-dirty") else []
    load = content["machine"]["load_before"]
    if load > content["machine"]["cores"] / 2:
        told.append(f"beside other work (load {load:.1f} on {content['machine']['cores']} cores)")
    return f" ({'; '.join(told)})" if told else ""


def picture(name, plot, path):
    """The file of a plot."""
    return path.with_name(f"{name}-{plot['name']}.svg").relative_to(ROOT)


def details(name, meaning, path, content):
    """All of one bench."""
    lines = [f"# {name}", "", f"{meaning[0].upper()}{meaning[1:]}. Measured by `bench/run {name}`.", ""]
    # What was promised or is lost; all else is folded away.
    shown = [case for case in content["cases"] if "met" in case or case.get("lost")]
    if shown:
        rows = [[one["case"], figure(one), target(one)] for one in shown]
        lines += [*table(["measure", "figure", "target"], rows), ""]
    for plot in content["plots"]:
        lines += [f"![{plot['title']}]({picture(name, plot, path).name})", ""]
    if content["plots"]:
        lines += ["Whiskers go from the least to the greatest round.", ""]
    for one in content["tables"]:
        rows = [[number(cell) for cell in row] for row in one["rows"]]
        lines += [f"**{one['title']}**", "", *table(one["columns"], rows), ""]
    rest = [case for case in content["cases"] if case not in shown]
    if rest:
        folded = table(["measure", "figure"], [[one["case"], figure(one)] for one in rest])
        lines += ["<details>", f"<summary>{len(rest)} more figures</summary>", "", *folded, "", "</details>", ""]
    return "\n".join([*lines, *circumstances(name, path, content)])


def circumstances(name, path, content):
    """When, on what and how a bench was run."""
    where = content["machine"]
    settings = ", ".join(f"[{file}](../../../{file})" for file in SETTINGS.get(name, []))
    lines = [
        f"- machine: {where['processor']}{', virtual' if where['virtual'] else ''}, {where['cores']} cores, "
        f"{where['memory_gb']} GB, {', '.join(where['features']) or 'no AVX2'}, {where['system']}, "
        f"Linux {where['kernel']}, load {where['load_before']:.1f} before",
        f"- run: {content['taken'].replace('T', ' ')[:16]} UTC, commit {content['commit']}; "
        f"[all figures and rounds as JSON]({path.name})",
    ]
    if settings:
        lines.append(f"- how it is measured, and the settings of each side: {settings}")
    return lines + [f"- {key.replace('_', ' ')}: {words(value)}" for key, value in content.items() if key not in TOLD]


def words(value):
    """What a result says of how it was taken, in words."""
    if isinstance(value, dict):
        return "; ".join(f"{key} {words(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(words, value))
    return number(value)


def table(columns, rows):
    """The lines of a table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]


def number(value):
    """A number with its thousands apart, four digits where it has a fraction; else what it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else rounded(value)


def figure(case):
    """The median and the spread."""
    # A ratio has no unit; what it is of stands beside it.
    unit = f" {case['unit']}" if case["unit"] not in ("", "times") else ""
    if case["least"] == case["greatest"]:
        return f"**{rounded(case['median'])}**{unit}"
    return f"**{rounded(case['median'])}**{unit} ({rounded(case['least'])} to {rounded(case['greatest'])})"


def bound(case):
    """The target."""
    if "target" not in case:
        return ""
    return f"{'<=' if case['bound'] == 'at most' else '>='} {case['target']}"


def target(case):
    """The target, and whether it was met."""
    verdict = "" if "target" not in case else f"{bound(case)}: {'met' if case['met'] else '**missed**'}"
    return ", ".join([verdict] * bool(verdict) + ["**behind**"] * is_lost(case))
