"""Makes docs/benchmarks.md of the newest result of each bench under bench/results/."""

import json

from bench.report import RESULTS
from devkit import Problem, say
from devkit.places import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"


def publish(benches):
    """Writes the page; `benches` gives what each bench is, in the order of the page."""
    newest = {}
    for path in sorted(RESULTS.glob("*/*.json")):
        newest[path.stem] = (path, json.loads(path.read_text()))
    found = {name: newest[name] for name in benches if name in newest}
    if not found:
        raise Problem("there is no result to publish: `bench/run all` makes them")
    PAGE.write_text(page(found, benches))
    say.note(f"written to {PAGE.relative_to(ROOT)}")


def page(found, benches):
    """The text of the page."""
    parts = [
        "# Benchmarks",
        "Made by `bench/run publish` from the files in bench/results/; every figure below comes of the command named"
        " above it. Both sides of a ratio are measured in one run, in turn, several rounds after one that does not"
        " count; a figure is the median of its rounds, with the least and the greatest behind it. The machines are"
        " shared: ratios say more than absolute figures.",
        losses(found),
        targets(found),
    ]
    missing = [f"`bench/run {name}`" for name in benches if name not in found]
    if missing:
        parts.append(f"No result is kept of {', '.join(missing)}.")
    for name, (path, content) in found.items():
        parts.append(section(name, benches[name], path, content))
    return "\n\n".join(parts) + "\n"


def losses(found):
    """Where we lose, first."""
    missed = [
        (name, case) for name, (_, content) in found.items() for case in content["cases"] if case.get("met") is False
    ]
    if not missed:
        return "## Where we lose\n\nNo target was missed."
    rows = [f"| {name} | {case['case']} | {figure(case)} | {target(case)} |" for name, case in missed]
    return "\n".join(
        [
            "## Where we lose",
            "",
            "The targets that these runs missed.",
            "",
            "| bench | what | figure | target |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def targets(found):
    """How many targets each bench met."""
    rows = []
    for name, (_, content) in found.items():
        bound = [case for case in content["cases"] if "met" in case]
        met = sum(case["met"] for case in bound)
        rows.append(f"| [{name}](#{name}) | {met} of {len(bound)} | {content['taken'][:10]} |")
    return "\n".join(["## In short", "", "| bench | targets met | measured on |", "|---|---|---|", *rows])


def section(name, meaning, path, content):
    """All of one bench."""
    where = content["machine"]
    lines = [
        f"## {name}",
        "",
        f"{meaning[0].upper()}{meaning[1:]}.",
        "",
        f"`bench/run {name}{' --quick' if content['quick'] else ''}`, {content['taken'].replace('T', ' ')[:16]} UTC, "
        f"commit {content['commit']}; {where['processor']}, {where['cores']} cores, {where['memory_gb']} GB, "
        f"{', '.join(where['features']) or 'no AVX2'}, Linux {where['kernel']}, load {where['load_before']:.1f} before."
        + (" A quick run: fewer and shorter rounds." if content["quick"] else "")
        + f" [All figures as JSON](../{path.relative_to(ROOT)}).",
        "",
    ]
    for plot in content.get("plots", []):
        picture = path.with_name(f"{name}-{plot['name']}.svg").relative_to(ROOT)
        lines += [f"![{plot['title']}](../{picture})", ""]
    lines += ["| what | figure | target |", "|---|---|---|"]
    lines += [f"| {case['case']} | {figure(case)} | {target(case)} |" for case in content["cases"]]
    return "\n".join(lines)


def figure(case):
    """The median and the spread."""
    unit = f" {case['unit']}" if case["unit"] else ""
    if case["least"] == case["greatest"]:
        return f"{case['median']:,.4g}{unit}"
    return f"**{case['median']:,.4g}**{unit} ({case['least']:,.4g} to {case['greatest']:,.4g})"


def target(case):
    """The target, and whether it was met."""
    if "target" not in case:
        return ""
    sign = "<=" if case["bound"] == "at most" else ">="
    return f"{sign} {case['target']}: {'met' if case['met'] else '**missed**'}"
