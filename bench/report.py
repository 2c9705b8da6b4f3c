"""What the benches share: interleaved rounds, medians with their spread, ratios against targets, and a JSON file.

A ratio is taken round by round, from measurements that lie seconds apart, and the median of those ratios is what is
compared with the target: so a machine that is slower for a while, as shared ones are, slows both sides alike. Each
round begins with another side, so that none always comes after the same one.
"""

import dataclasses
import datetime
import json
import os
import platform
import statistics
import subprocess
from pathlib import Path

from devkit import say
from devkit.places import ROOT

RESULTS = ROOT / "bench" / "results"
# Of more values than these only the spread is kept.
MANY = 50


def interleave(sides, rounds):
    """Measures each of `sides` (name to callable) once a round; a first round warms up and does not count."""
    taken = {name: [] for name in sides}
    for number in range(rounds + 1):
        values = {name: sides[name]() for name in turned(list(sides), number)}
        if number == 0:
            continue
        for name, value in values.items():
            taken[name].append(value)
        say.note(f"round {number} of {rounds}: " + ", ".join(f"{name} {rounded(values[name])}" for name in sides))
    return taken


def turned(sides, number):
    """The sides in the order of a round: each begins with the next one."""
    first = number % len(sides)
    return sides[first:] + sides[:first]


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median of several measurements, the least and the greatest, and each as it was taken."""

    median: float
    least: float
    greatest: float
    values: tuple = ()

    @classmethod
    def of(cls, values):
        """The spread of `values`."""
        return cls(statistics.median(values), min(values), max(values), tuple(values))

    def __str__(self):
        if self.least == self.greatest:
            return rounded(self.median)
        return f"{rounded(self.median)} ({rounded(self.least)} to {rounded(self.greatest)})"


def rounded(value):
    """A number as people write it: four digits, but all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratios(above, below):
    """The spread of the ratios of two series, round by round."""
    return Spread.of([a / b for a, b in zip(above, below, strict=True)])


class Report:
    """The result of one bench."""

    def __init__(self, name, quick, server=None):
        self.name = name
        self.content = {
            "bench": name,
            "quick": quick,
            "taken": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": commit(),
            "machine": machine(),
            "cases": [],
            "tables": [],
            "plots": [],
            "left_out": {},
        }
        if server is not None:
            self.content["postgresql"] = server.psql("SELECT version()")
            self.content["pgml"] = server.psql(
                "SELECT installed_version FROM pg_available_extensions WHERE name = 'pgml'"
            )

    @property
    def cases(self):
        """The figures so far."""
        return self.content["cases"]

    def add(self, case, value, target=None, at_most=False, unit="", contest=False, headline=None):
        """One figure: a Spread, and the bound that its median should keep: at least `target`, or at most.

        In a `contest` the figure is ours ÷ another's, target or not: below 1 (above, where `at_most`) we lose, and
        docs/benchmarks.md says so first if that is so in every round. A `headline` is what the figure is called in that
        page's summary.
        """
        row = {"case": case, **dataclasses.asdict(value), "unit": unit}
        line = f"{case}: {value} {unit}".rstrip()
        if len(value.values) > MANY:
            del row["values"]
        if target is not None:
            met = value.median <= target if at_most else value.median >= target
            row |= {"target": target, "bound": "at most" if at_most else "at least", "met": met}
            line += f"; target {'<=' if at_most else '>='} {target}: {'met' if met else 'MISSED'}"
        if contest:
            row["lost"] = value.median > 1 if at_most else value.median < 1
        if headline:
            row["headline"] = headline
        self.content["cases"].append(row)
        say.note(line)

    def leave_out(self, what, why):
        """Something that this run could not measure, so that nobody takes it for measured."""
        self.content["left_out"][what] = why
        say.note(f"not measured: {what}: {why}")

    def table(self, title, columns, rows):
        """A table of the page beside the result: the first cell names a row, others are numbers, Spreads or words."""
        shown = [[str(cell) if isinstance(cell, Spread) else cell for cell in row] for row in rows]
        self.content["tables"].append({"title": title, "columns": list(columns), "rows": shown})

    def plot(self, name, title, x_label, y_label, series, kind="line", log_x=False, log_y=False, marks=(), even=False):
        """A picture that `bench.draw` makes of figures of this report: `series` gives the points (x, y) of each line,
        or of each colour of bars, or of each panel, where x is a word. A y that is a Spread is drawn with its spread;
        `marks` are (x, words) of events along lines; `even` draws the line where two sides are even, at 1.
        """
        self.content["plots"].append(
            {
                "name": name,
                "title": title,
                "x_label": x_label,
                "y_label": y_label,
                "series": {label: [point(x, y) for x, y in points] for label, points in series.items()},
                "kind": kind,
                "log_x": log_x,
                "log_y": log_y,
                "marks": [list(mark) for mark in marks],
                "even": even,
            }
        )

    def finish(self, path):
        """Writes the JSON file, if one is asked for; `-` is `bench/results/DATE/BENCH.json`, plots beside it."""
        if path is None:
            return
        if path == "-":
            folder = RESULTS / str(datetime.date.today())
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self.name}.json"
            from bench.draw import draw

            for plot in self.content["plots"]:
                draw(plot, folder / f"{self.name}-{plot['name']}.svg")
        Path(path).write_text(json.dumps(self.content, indent=2) + "\n")
        say.note(f"written to {path}")


def point(x, y):
    """A point of a plot: x and the height, and where that has a spread, its least and greatest."""
    return [x, y.median, y.least, y.greatest] if isinstance(y, Spread) else [x, y]


def machine():
    """The machine, as far as it bears on speed."""
    processor = platform.processor()
    features, virtual = [], False
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
        if line.startswith("flags"):
            flags = line.split()
            features = [flag for flag in ("avx2", "avx512f") if flag in flags]
            virtual = "hypervisor" in flags
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": processor,
        "features": features,
        "virtual": virtual,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def commit():
    """The commit measured, marked where the tree is not clean."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
