"""Predictions asked of the server by howdah, against what a program with asyncpg does for the same.

Rows of a table scored into another: one statement with `pgml.predict`, against fetching the features with asyncpg,
predicting with XGBoost in place (all cores, the very model of the server, kept loaded) and copying the predictions
back; the same insert with a column in place of the prediction says how quick it could be at best. A matrix of NumPy's:
`Connection.predict`, against asyncpg with the columns as arrays, unnested on the server; its answer as an array of
NumPy's too. Both sides on uvloop, in one process, on one connection each, in turn.
"""

import itertools
import sys
import time

from bench.flights import DATABASE, train
from bench.report import Spread, ratios
from devkit import Problem
from devkit.driver import PACKAGE
from devkit.flights import FEATURES

PROJECT = "flights"
TREES = 100
ROWS = 100_000
SETUP = """
create table scoring as select row_number() over () as id, flights.* from flights;
create table scored (id bigint, delay real);
vacuum analyze scoring;
"""


def predictions(report, server, quick):
    """Adds the two figures to the report."""
    if str(PACKAGE) not in sys.path:
        sys.path.insert(0, str(PACKAGE))
    import uvloop

    train(server, PROJECT, TREES)
    server.psql(SETUP, DATABASE)
    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(measure(report, server, 3 if quick else 9, loop))
    finally:
        loop.close()


async def measure(report, server, rounds, loop):
    """Measures both, when both sides are seen to give the same."""
    import asyncpg
    import howdah

    from bench.predict_scan import stored_model

    ours = await howdah.connect(server.url(DATABASE))
    theirs = await asyncpg.connect(server.url(DATABASE))
    booster = stored_model(server, PROJECT)
    booster.set_param({"nthread": 0})
    matrix = await features(theirs)
    await tables(report, rounds, ours, theirs, booster)
    await matrices(report, rounds, ours, theirs, matrix)
    await ours.close()
    await theirs.close()


async def features(connection):
    """The features of all rows, as float32."""
    import numpy

    rows = await connection.fetch(f"select {', '.join(FEATURES)} from scoring order by id")
    return numpy.array([tuple(row) for row in rows], dtype=numpy.float32)


async def turns(sides, rounds):
    """Rows a second of each side, round by round after one that does not count."""
    taken = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            await side()
            if number:
                taken[name].append(ROWS / (time.perf_counter() - start))
    return taken


async def tables(report, rounds, ours, theirs, booster):
    """A table scored into another."""
    import numpy

    names = ", ".join(FEATURES)
    taken = {"howdah": [], "asyncpg and XGBoost": []}

    async def in_the_server():
        await ours.execute(f"insert into scored select id, pgml.predict('{PROJECT}', {names}) from scoring")

    async def in_the_client():
        rows = await theirs.fetch(f"select {names}, id from scoring")
        # The quickest of the ways tried from records to a matrix.
        width = len(FEATURES) + 1
        flat = numpy.fromiter(itertools.chain.from_iterable(rows), dtype=numpy.float64, count=len(rows) * width)
        table = flat.reshape(len(rows), width)
        predicted = booster.inplace_predict(table[:, :-1].astype(numpy.float32))
        records = zip(table[:, -1].astype(numpy.int64).tolist(), predicted.tolist(), strict=True)
        await theirs.copy_records_to_table("scored", records=records)

    answers = []
    for side in (in_the_server, in_the_client):
        await theirs.execute("truncate scored")
        await side()
        rows = await theirs.fetch("select delay from scored order by id")
        answers.append(numpy.array([row[0] for row in rows], dtype=numpy.float32))
    compare(*answers)

    async def without_a_model():
        await ours.execute("insert into scored select id, depdelayminutes from scoring")

    sides = {"howdah": in_the_server, "asyncpg and XGBoost": in_the_client, "the insert alone": without_a_model}
    taken["the insert alone"] = []
    for number in range(rounds + 1):
        for name, side in sides.items():
            await theirs.execute("truncate scored")
            start = time.perf_counter()
            await side()
            if number:
                taken[name].append(ROWS / (time.perf_counter() - start))
    for name, values in taken.items():
        report.add(f"a table scored into another, {TREES} trees: {name}", Spread.of(values), unit="rows/s")
    found = ratios(taken["howdah"], taken["asyncpg and XGBoost"])
    report.add(
        f"a table scored into another, {TREES} trees: howdah / asyncpg and XGBoost", found, target=10, contest=True
    )
    # No prediction can be quicker than none: what the server needs to read the table and insert a column of it.
    bound = ratios(taken["the insert alone"], taken["asyncpg and XGBoost"])
    report.add("a table scored into another: the insert alone / asyncpg and XGBoost, so the most there can be", bound)


async def matrices(report, rounds, ours, theirs, matrix):
    """A matrix predicted."""
    import numpy

    arrays = ", ".join(f"${number}::real[]" for number in range(1, len(FEATURES) + 1))
    names = ", ".join(FEATURES)
    query = f"select pgml.predict('{PROJECT}', {names}) from unnest({arrays}) as t ({names})"

    async def by_howdah():
        return await ours.predict(PROJECT, matrix)

    async def by_asyncpg():
        rows = await theirs.fetch(query, *matrix.T.tolist())
        return numpy.fromiter((row[0] for row in rows), dtype=numpy.float32, count=len(rows))

    async def by_one_array():
        found = await theirs.fetchval(f"select pgml.predict_batch('{PROJECT}', $1::real[])", matrix.ravel().tolist())
        return numpy.array(found, dtype=numpy.float32)

    sides = {"howdah": by_howdah, "asyncpg and unnest": by_asyncpg, "asyncpg and predict_batch": by_one_array}
    answers = [await side() for side in sides.values()]
    compare(answers[0], answers[1])
    taken = await turns(sides, rounds)
    for name, values in taken.items():
        report.add(f"a matrix of 100k x 11 predicted, {TREES} trees: {name}", Spread.of(values), unit="rows/s")
    found = ratios(taken["howdah"], taken["asyncpg and unnest"])
    report.add(
        f"a matrix of 100k x 11 predicted, {TREES} trees: howdah / asyncpg and unnest", found, target=5, contest=True
    )
    found = ratios(taken["howdah"], taken["asyncpg and predict_batch"])
    report.add(
        f"a matrix of 100k x 11 predicted, {TREES} trees: howdah / asyncpg and predict_batch", found, contest=True
    )


def compare(ours, theirs):
    """Raises unless both predict the same for every row."""
    if len(ours) != ROWS or not (ours == theirs).all():
        raise Problem(f"{int((ours != theirs).sum())} of {ROWS} predictions differ between the sides")
