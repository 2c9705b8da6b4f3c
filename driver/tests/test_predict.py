"""Matrices sent to models and their predictions back; the extension has to be in the server, as `make test` has it."""

import datetime

import duckdb
import howdah
import numpy
import pandas
import polars
import pyarrow
import pytest
import xgboost


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
        monkeypatch.setattr(howdah.utils, "_numpy", lambda: None)
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


@pytest.fixture
def trained(server, project):
    """The database with models of the features c, a and b, of which b is a text."""
    server.psql(
        "create view named as select c, a, case when b > 0.5 then 'high' else 'low' end b, delay from flights;"
        "create view kinds as select c, a, case when b > 0.5 then 'high' else 'low' end b,"
        " case when a < 0.3 then 'x' when c < 0.5 then 'y' else 'z' end kind from flights",
        project,
    )
    for name, task, label in (("named", "regression", "delay"), ("kinds", "classification", "kind")):
        server.psql(
            f"select pgml.train('{name}', task => '{task}', relation_name => '{name}', y_column_name => '{label}',"
            """ algorithm => 'xgboost', hyperparams => '{"n_estimators": 10}')""",
            project,
        )
    return project


ROWS = {
    "a": [0.1, 0.9, None, 0.5],
    "b": ["high", "low", "high", None],
    "other": [1, 2, 3, 4],
    "c": [0.2, 0.3, 0.4, 0.8],
}


async def tables(connection):
    """The same rows as tables of each kind."""
    columns = await connection.fetch_columns(
        "select * from unnest($1::real[], $2::text[], $3::int[], $4::real[]) rows(a, b, other, c)", *ROWS.values()
    )
    return [pandas.DataFrame(ROWS), polars.DataFrame(ROWS), pyarrow.table(ROWS), columns]


async def test_the_columns_of_tables_are_found_by_name(spec, trained):
    connection = await howdah.connect(**{**spec, "database": trained})
    rows = list(zip(*ROWS.values()))
    sql = "select pgml.{}('{}', r) from unnest($1::real[], $2::text[], $3::real[]) r(a, b, c)"
    wanted = [await connection.fetchval(sql.format("predict", "named"), [a], [b], [c]) for a, b, _, c in rows]
    shares = [await connection.fetchval(sql.format("predict_proba", "kinds"), [a], [b], [c]) for a, b, _, c in rows]
    assert len(set(wanted)) > 1
    codes = {"high": 0, "low": 1, None: numpy.nan}
    matrix = numpy.array([[c, numpy.nan if a is None else a, codes[b]] for a, b, _, c in rows], dtype="float32")
    for table in await tables(connection):
        asked = connection._protocol.queries_count
        assert (await connection.predict("named", table)).tolist() == wanted
        assert connection._protocol.queries_count == asked + 1
        assert (await connection.predict_proba("kinds", table)).tolist() == shares
        for project in ("named", "kinds"):
            explained = await connection.explain(project, table)
            assert numpy.array_equal(explained, await connection.explain(project, matrix))
    empty = pandas.DataFrame(ROWS)[:0]
    assert (await connection.predict("named", empty)).shape == (0,)
    assert (await connection.predict_proba("kinds", empty)).shape == (0, 0)
    assert (await connection.explain("named", empty)).shape == (0, 5)
    await connection.close()


async def test_tables_are_cut_where_they_are_long(spec, trained, monkeypatch):
    connection = await howdah.connect(**{**spec, "database": trained})
    frame = pandas.DataFrame(ROWS)
    whole = [await connection.predict("named", frame), await connection.explain("kinds", frame)]
    monkeypatch.setattr("howdah.columnar._NAMED_CELLS", 300)
    assert numpy.array_equal(await connection.predict("named", frame), whole[0])
    assert numpy.array_equal(await connection.explain("kinds", frame), whole[1])
    await connection.close()


async def test_tables_without_the_features_are_refused(spec, trained):
    connection = await howdah.connect(**{**spec, "database": trained})
    for table in await tables(connection):
        if isinstance(table, pandas.DataFrame):
            wrong = table.rename(columns={"c": "see"})
        elif isinstance(table, pyarrow.Table):
            wrong = table.rename_columns(["a", "b", "other", "see"])
        elif isinstance(table, polars.DataFrame):
            wrong = table.rename({"c": "see"})
        else:
            wrong = await connection.fetch_columns("select 1::real a, 'low' b, 2 other, 2::real see")
        message = (
            r'has no column "c", which project "named" was trained with. Its columns are: a, b, other, see. '
            r"The model takes, in this order: c, a, b. Rename the columns, or pass a matrix"
        )
        for method in (connection.predict, connection.explain):
            with pytest.raises(ValueError, match=message):
                await method("named", wrong)
    # The names of an anonymous row are names too.
    with pytest.raises(ValueError, match="Its columns are: f1, f2, f3"):
        await connection.predict("named", polars.DataFrame({"f1": [1.0], "f2": [2.0], "f3": ["low"]}))
    with pytest.raises(TypeError, match="the column 'a' .* has values of the class list"):
        await connection.predict("named", pandas.DataFrame({"a": [[1]]}))
    with pytest.raises(TypeError, match="expected to be of pandas, polars or pyarrow, .* class DuckDBPyRelation"):
        await connection.predict("named", duckdb.sql("select 1 as a"))
    with pytest.raises(ValueError, match="two columns 'a'"):
        await connection.predict("named", pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="the column 1 .* has no name"):
        await connection.predict("named", pandas.DataFrame([[1, 2]], columns=["a", 1]))
    with pytest.raises(TypeError, match="expected a project's name, a str, not int 1"):
        await connection.predict(1, pandas.DataFrame(ROWS))
    await connection.close()


async def test_tables_need_no_numpy(spec, trained, monkeypatch):
    connection = await howdah.connect(**{**spec, "database": trained})
    frame = pandas.DataFrame(ROWS)
    wanted = (await connection.predict("named", frame)).tolist()
    monkeypatch.setattr("howdah.utils._numpy", lambda: None)
    assert (await connection.predict("named", frame)).tolist() == wanted
    await connection.close()


async def test_tables_may_have_dates(server, spec, project):
    server.psql(
        "create view dated as select date '2024-01-01' + (a * 700)::int d, b, a * 5 y from flights;"
        "select pgml.train('dated', task => 'regression', relation_name => 'dated', y_column_name => 'y',"
        """ algorithm => 'xgboost', hyperparams => '{"n_estimators": 10}')""",
        project,
    )
    connection = await howdah.connect(**{**spec, "database": project})
    days = [datetime.date(2024, 2, 1), None, datetime.date(2025, 5, 5)]
    sql = "select pgml.predict('dated', r) from unnest($1::date[], '{0.5}'::real[]) r(d, b)"
    wanted = [await connection.fetchval(sql, [day]) for day in days]
    for table in (pandas.DataFrame, polars.DataFrame, pyarrow.table):
        assert (await connection.predict("dated", table({"d": days, "b": [0.5] * 3}))).tolist() == wanted
    await connection.close()


async def test_categories_of_pandas_are_those_that_xgboost_was_trained_with(server, spec, project):
    """Of numbers and of texts, in another order and with others than in training."""
    random = numpy.random.default_rng(1)
    zips, sizes, colours = (numpy.array(names) for names in ([10, 20, 30, 47], [1, 2], ["red", "green"]))
    places = random.integers(0, 4, 2000)
    frame = pandas.DataFrame({
        "zip": pandas.Categorical(zips[places]),
        "size": pandas.Categorical(sizes[places // 2]),
        "colour": pandas.Categorical(colours[random.integers(0, 2, 2000)]),
        "x": random.random(2000).astype("float32"),
    })  # fmt: skip
    label = numpy.array([3.0, -5, 9, 1])[places] + (frame["colour"] == "red")
    model = xgboost.XGBRegressor(n_estimators=20, enable_categorical=True).fit(frame, label)
    connection = await howdah.connect(**{**spec, "database": project})
    await connection.import_model("categories", model, features=list(frame))
    few = pandas.DataFrame({
        "zip": pandas.Categorical([47, 10, None], categories=[47, 10]),
        "size": pandas.Categorical([2, 1, 2]),
        "colour": pandas.Categorical(["green", "green", "red"]),
        "x": [0.5, 0.25, 0.75],
    })  # fmt: skip
    for asked in (frame[:50], few):
        wanted = model.predict(asked)
        assert numpy.allclose(await connection.predict("categories", asked), wanted, atol=1e-6)
    await connection.close()


async def test_pandas_without_names_is_a_matrix(spec, trained):
    connection = await howdah.connect(**{**spec, "database": trained})
    matrix = numpy.array([[0.2, 0.1, 0], [0.3, 0.9, 1]])
    wanted = await connection.predict("named", matrix)
    assert numpy.array_equal(await connection.predict("named", pandas.DataFrame(matrix)), wanted)
    await connection.close()


async def test_a_role_that_may_only_predict_gets_predictions(server, spec, project):
    server.psql(
        """select pgml.train('delays', task => 'regression', relation_name => 'delays', y_column_name => 'delay',
            algorithm => 'xgboost', hyperparams => '{"n_estimators": 10}');
        select pgml.train('lates', task => 'classification', relation_name => 'lates', y_column_name => 'late',
            algorithm => 'xgboost', hyperparams => '{"n_estimators": 10}');
        do $$ begin create role only_predicts; exception when duplicate_object then null; end $$""",
        project,
    )
    connection = await howdah.connect(**{**spec, "database": project})
    matrix = numpy.random.default_rng(8).random((50, 3), dtype=numpy.float32)
    wanted = [await connection.predict("delays", matrix), await connection.predict_proba("lates", matrix)]
    await connection.execute("set role only_predicts")
    assert numpy.array_equal(await connection.predict("delays", matrix), wanted[0])
    assert numpy.array_equal(await connection.predict_proba("lates", matrix), wanted[1])
    assert (await connection.predict("delays", matrix[:0])).shape == (0,)
    await connection.close()


async def test_who_sends_numbers_that_real_rounds_is_warned(spec, project, server):
    server.psql(
        "create table epochs as select 1700000000000 + i * 1000 as at, i as y from generate_series(1, 500) i", project
    )
    connection = await howdah.connect(**{**spec, "database": project})
    await connection.train(
        "epochs", task="regression", relation_name="epochs", y_column_name="y", algorithm="linear", progress=False
    )
    rows = [1700000100000.0, 1700000101000.0]
    with pytest.warns(RuntimeWarning, match='an array of real has fewer digits than .* knows of "at"'):
        await connection.predict("epochs", numpy.array(rows).reshape(2, 1))
    exact = await connection.predict("epochs", pandas.DataFrame({"at": rows}))
    assert exact == pytest.approx([100, 101], abs=0.5)
    await connection.close()
