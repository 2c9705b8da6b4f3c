"""Matrices sent to models and their predictions back; the extension has to be in the server, as `make test` has it."""

import howdah
import numpy
import pytest


@pytest.fixture
def project(server):
    """A database with a regression and a classification that are trained and deployed."""
    name = "predictions"
    server.psql(f"drop database if exists {name}")
    server.psql(f"create database {name}")
    server.psql("create extension pgml", name)
    server.psql(
        "create table flights as select random()::real a, random()::real b, random()::real c"
        " from generate_series(1, 500)",
        name,
    )
    server.psql("alter table flights add column delay real, add column late text", name)
    server.psql("update flights set delay = a * 2 + b - c, late = case when a > 0.5 then 'yes' else 'no' end", name)
    server.psql("create view delays as select a, b, c, delay from flights", name)
    server.psql("create view lates as select a, b, c, late from flights", name)
    return name


async def test_predictions_are_those_of_sql(spec, project):
    connection = await howdah.connect(**{**spec, "database": project})
    reports = []
    trained = await connection.train(
        "delays",
        task="regression",
        relation_name="delays",
        y_column_name="delay",
        algorithm="xgboost",
        hyperparams={"n_estimators": 10},
        progress=reports.append,
    )
    assert trained["deployed"]
    assert reports
    matrix = numpy.random.default_rng(7).random((300, 3), dtype=numpy.float32)
    wanted = await connection.fetch("select * from pgml.predict_batch('delays', $1::real[])", matrix.tolist())
    wanted = numpy.array([row[0] for row in wanted], dtype=numpy.float32)
    for given in (matrix, matrix.astype("f8"), numpy.asfortranarray(matrix), memoryview(matrix)):
        found = await connection.predict("delays", given)
        assert found.dtype == numpy.float32
        assert numpy.array_equal(found, wanted)
    assert numpy.array_equal(await connection.predict("delays", matrix[::3]), wanted[::3])
    assert (await connection.predict("delays", matrix[:0])).shape == (0,)
    for wrong in (matrix[0], matrix.reshape(3, 10, 30)):
        with pytest.raises(ValueError, match="two dimensions"):
            await connection.predict("delays", wrong)
    with pytest.raises(howdah.PostgresError):
        await connection.predict("nothing", matrix)
    with pytest.raises(howdah.PostgresError):
        await connection.predict("delays", matrix[:, :2])
    assert await connection.fetchval("select 1") == 1
    await connection.close()


async def test_probabilities_are_those_of_sql(spec, project):
    connection = await howdah.connect(**{**spec, "database": project})
    await connection.train(
        "lates",
        task="classification",
        relation_name="lates",
        y_column_name="late",
        algorithm="xgboost",
        hyperparams={"n_estimators": 10},
        progress=False,
    )
    matrix = numpy.random.default_rng(8).random((50, 3), dtype=numpy.float32)
    asked = connection._protocol.queries_count
    found = await connection.predict_proba("lates", matrix)
    assert connection._protocol.queries_count == asked + 1
    assert found.shape == (50, 2)
    assert found.dtype == numpy.float32
    for row, probabilities in zip(matrix, found, strict=True):
        wanted = await connection.fetchval("select pgml.predict_proba('lates', $1::real[])", row.tolist())
        assert probabilities.tolist() == wanted
    assert len({tuple(row) for row in found.tolist()}) > 1
    assert (await connection.predict_proba("lates", matrix[:0])).shape == (0, 0)
    assert numpy.array_equal(await connection.predict_proba("lates", matrix[::-1].astype("f8")), found[::-1])
    with pytest.raises(howdah.PostgresError):
        await connection.predict_proba("nothing", matrix)
    with pytest.raises(howdah.PostgresError):
        await connection.predict_proba("lates", matrix[:, :2])
    await connection.close()
