"""What the benches share: interleaved rounds, medians with their spread, ratios against targets, and a JSON file.

A ratio is taken round by round, from measurements that lie seconds apart, and the median of those ratios is what is
compared with the target: so a machine that is slower for a while, as shared ones are, slows both sides alike.
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


def interleave(sides, rounds):
    """Measures each of `sides` (name to callable) once a round; a first round warms up and does not count."""
    taken = {name: [] for name in sides}
    for number in range(rounds + 1):
        values = {name: side() for name, side in sides.items()}
        if number == 0:
            continue
        for name, value in values.items():
            taken[name].append(value)
        say.note(f"round {number} of {rounds}: " + ", ".join(f"{name} {value:,.4g}" for name, value in values.items()))
    return taken


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median of several measurements, and the least and the greatest."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values):
        """The spread of `values`."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self):
        return f"{self.median:,.4g} ({self.least:,.4g} to {self.greatest:,.4g})"


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
            "plots": [],
        }
        if server is not None:
            self.content["postgresql"] = server.psql("SELECT version()")
            self.content["pgml"] = server.psql(
                "SELECT installed_version FROM pg_available_extensions WHERE name = 'pgml'"
            )

    def add(self, case, value, target=None, at_most=False, unit="", rounds=None):
        """One figure: a Spread, and the bound that its median should keep: at least `target`, or at most."""
        row = {"case": case, **dataclasses.asdict(value), "unit": unit}
        line = f"{case}: {value} {unit}".rstrip()
        if target is not None:
            met = value.median <= target if at_most else value.median >= target
            row |= {"target": target, "bound": "at most" if at_most else "at least", "met": met}
            line += f"; target {'<=' if at_most else '>='} {target}: {'met' if met else 'MISSED'}"
        if rounds is not None:
            row["rounds"] = rounds
        self.content["cases"].append(row)
        say.note(line)

    def plot(self, name, title, x_label, y_label, series, kind="line", log_x=False, log_y=False):
        """A picture that `bench.draw` makes of figures of this report: `series` gives the points (x, y) of each line,
        or of each colour of bars, where x is a word.
        """
        self.content["plots"].append(
            {
                "name": name,
                "title": title,
                "x_label": x_label,
                "y_label": y_label,
                "series": {label: [list(point) for point in points] for label, points in series.items()},
                "kind": kind,
                "log_x": log_x,
                "log_y": log_y,
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


def machine():
    """The machine, as far as it bears on speed."""
    processor = platform.processor()
    features = []
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
        if line.startswith("flags"):
            features = [flag for flag in ("avx2", "avx512f") if flag in line.split()]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": processor,
        "features": features,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def commit():
    """The commit measured, marked where the tree is not clean."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
