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
    async with howdah.create_pool(**{**spec, "database": project}, min_size=1, max_size=2) as pool:
        assert numpy.array_equal(await pool.predict("delays", matrix), wanted)
        parts = await pool.explain("delays", matrix)
        assert numpy.array_equal(parts, await connection.explain("delays", matrix))
    with pytest.raises(howdah.PostgresError):
        await connection.predict("nothing", matrix)
    with pytest.raises(howdah.PostgresError):
        await connection.predict("delays", matrix[:, :2])
    assert await connection.fetchval("select 1") == 1
    await connection.close()


async def test_what_is_no_matrix_is_said(spec, project):
    connection = await howdah.connect(**spec)
    for features in ([[1.0, 2.0]], [], None):
        with pytest.raises(
            TypeError, match=rf"expected a matrix, such as numpy\.array\(.*, got {type(features).__name__}"
        ):
            await connection.predict(project, features)
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
    for row, probabilities in zip(matrix, found):
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


async def test_explanations_are_those_of_sql_and_add_up(spec, project):
    connection = await howdah.connect(**{**spec, "database": project})
    for name, label, task in [("delays", "delay", "regression"), ("lates", "late", "classification")]:
        await connection.train(
            name,
            task=task,
            relation_name=name,
            y_column_name=label,
            algorithm="xgboost",
            hyperparams={"n_estimators": 10},
            progress=False,
        )
    matrix = numpy.random.default_rng(9).random((40, 3), dtype=numpy.float32)
    matrix[3, 1] = numpy.nan
    for name in ("delays", "lates"):
        found = await connection.explain(name, matrix)
        assert found.dtype == numpy.float32
        assert found.shape == (40, 4)
        for row, contributions in zip(matrix, found, strict=True):
            wanted = await connection.fetch("select * from pgml.explain($1, $2::real[])", name, row.tolist())
            assert contributions.tolist() == [one["contribution"] for one in wanted]
            assert [one["feature"] for one in wanted] == ["a", "b", "c", "bias"]
    predicted = await connection.predict("delays", matrix)
    assert numpy.allclose((await connection.explain("delays", matrix)).sum(axis=1), predicted, atol=1e-5)
    odds = numpy.log(1 / (await connection.predict_proba("lates", matrix))[:, 0] - 1)
    assert numpy.allclose((await connection.explain("lates", matrix)).sum(axis=1), odds, atol=1e-4)
    assert (await connection.explain("delays", matrix[:0])).shape == (0, 4)
    with pytest.raises(howdah.UndefinedObjectError, match="delay"):
        await connection.explain("delay", matrix)
    with pytest.raises(howdah.PostgresError):
        await connection.explain("delays", matrix[:, :2])
    await connection.close()


@pytest.mark.parametrize("with_numpy", [True, False])
async def test_explanations_of_classes_have_a_dimension_more(spec, project, monkeypatch, with_numpy):
    connection = await howdah.connect(**{**spec, "database": project})
    await connection.execute("create view kinds as select a, b, c, floor(a * 3)::int as kind from flights")
    await connection.train(
        "kinds",
        task="classification",
        relation_name="kinds",
        y_column_name="kind",
        algorithm="xgboost",
        hyperparams={"n_estimators": 10},
        progress=False,
    )
    matrix = numpy.random.default_rng(10).random((7, 3), dtype=numpy.float32)
    # Two rows at a time.
    monkeypatch.setattr(howdah.columnar, "_EXPLAINED_CELLS", 8)
    if not with_numpy:
        monkeypatch.setattr(howdah.columnar, "_numpy", lambda: None)
    found = await connection.explain("kinds", memoryview(matrix))
    assert isinstance(found, numpy.ndarray if with_numpy else memoryview)
    assert found.shape == (7, 3, 4)
    found = numpy.asarray(found)
    wanted = await connection.fetchval("select pgml.explain_batch('kinds', $1::real[])", matrix.tolist())
    assert found.tolist() == wanted
    margins = found.sum(axis=2)
    probabilities = numpy.exp(margins) / numpy.exp(margins).sum(axis=1, keepdims=True)
    assert numpy.allclose(probabilities, await probabilities_by_sql(connection, matrix), atol=1e-5)
    await connection.close()


async def probabilities_by_sql(connection, matrix):
    """The probabilities of each class, asked row by row."""
    ask = "select pgml.predict_proba('kinds', $1::real[])"
    return numpy.array([await connection.fetchval(ask, row.tolist()) for row in matrix])
