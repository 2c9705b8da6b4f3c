"""Models that go from Python to the server and come back; the extension has to be in the server, as `make test` has it."""

import sys
from pathlib import Path

import howdah
import numpy
import pandas
import pytest
import xgboost
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from devkit.setup import LIGHTGBM

RANDOM = numpy.random.default_rng(3)
MATRIX = RANDOM.normal(size=(120, 3)).astype(numpy.float32)
TARGET = MATRIX @ numpy.array([1.0, 2.0, -1.0])
LABELS = numpy.array(["late", "early", "on time"])[numpy.digitize(TARGET, [-1, 1])]
PARAMS = {"nthread": 1, "max_depth": 3}


@pytest.fixture
def carried(spec, server):
    """How to connect to a database with the extension."""
    server.psql("drop database if exists carried")
    server.psql("create database carried")
    server.psql("create extension pgml", "carried")
    return {**spec, "database": "carried"}


@pytest.fixture
def lightgbm():
    """LightGBM's Python package, as `make setup` unpacks it."""
    sys.path.insert(0, str(LIGHTGBM))
    try:
        import lightgbm

        yield lightgbm
    finally:
        sys.path.remove(str(LIGHTGBM))


async def test_a_booster_goes_and_comes_back(carried, tmp_path):
    connection = await howdah.connect(**carried)
    booster = xgboost.train(PARAMS, xgboost.DMatrix(MATRIX, TARGET, nthread=1), 8)
    expected = booster.inplace_predict(MATRIX)
    row = MATRIX[0].copy()
    row[1] = numpy.nan
    known = booster.inplace_predict(row[None])[0]
    made = await connection.import_model("p", booster, features=["a", "b", "c"], sample=row, expected=known)
    assert tuple(made)[:4] == ("p", "regression", "xgboost", True)
    assert numpy.array_equal(await connection.predict("p", MATRIX), expected)
    named = dict(zip("cba", row[::-1], strict=True))
    again = await connection.import_model("p", booster, features=list("abc"), sample=named, expected=known)
    assert again["deployed"] is False
    for model, format in [("p", None), (made["model_id"], None), ("p", "json")]:
        back = xgboost.Booster(
            {"nthread": 1}, model_file=bytearray(await connection.export_model(model, format=format))
        )
        assert numpy.array_equal(back.inplace_predict(MATRIX), expected)
    path = tmp_path / "model.json"
    booster.save_model(path)
    for given in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        await connection.import_model("q", given, deploy=True)
        assert numpy.array_equal(await connection.predict("q", MATRIX), expected)
    await connection.close()


async def test_an_onnx_model_goes_and_comes_back(carried, tmp_path):
    connection = await howdah.connect(**carried)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(MATRIX, LABELS)
    graph = to_onnx(model, MATRIX[:1])
    path = tmp_path / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    expected = model.predict_proba(MATRIX[:1])[0]
    for given in (path, graph, path.read_bytes()):
        made = await connection.import_model("p", given, sample=MATRIX[0], expected=expected, deploy=True)
        assert tuple(made)[:4] == ("p", "classification", "onnx", True)
        labels = await connection.fetchval(
            "SELECT array_agg(pgml.predict_label('p', r.row) ORDER BY r.at)"
            " FROM (SELECT (row_number() OVER ())::int AS at, ARRAY[a, b, c] AS row"
            " FROM unnest($1::real[], $2::real[], $3::real[]) u(a, b, c)) r",
            *MATRIX.T.tolist(),
        )
        assert labels == model.predict(MATRIX).tolist()
        assert await connection.export_model("p") == path.read_bytes()
    await connection.close()


async def test_classifiers_bring_their_classes(carried, lightgbm):
    connection = await howdah.connect(**carried)
    codes = numpy.unique(LABELS, return_inverse=True)[1]
    first = xgboost.XGBClassifier(n_estimators=5, n_jobs=1, max_depth=3).fit(MATRIX, codes)
    await connection.import_model("x", first)
    found = await connection.predict_proba("x", MATRIX)
    assert numpy.array_equal(found, first.predict_proba(MATRIX))
    assert numpy.array_equal(await connection.predict("x", MATRIX), first.predict(MATRIX))
    second = lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1, num_leaves=5).fit(MATRIX, LABELS)
    sample, answer = MATRIX[7], second.predict_proba(MATRIX[7:8])[0]
    await connection.import_model("l", second, sample=sample, expected=answer)
    await connection.import_model(
        "l", second.booster_, classes=second.classes_, sample=sample, expected=str(second.predict(sample[None])[0])
    )
    found = await connection.fetchval("select pgml.predict_label('l', $1::real[])", sample.tolist())
    assert found == second.predict(sample[None])[0]
    text = (await connection.export_model("l")).decode()
    assert numpy.array_equal(lightgbm.Booster(model_str=text).predict(MATRIX), second.booster_.predict(MATRIX))
    await connection.close()


async def test_categories_of_numbers_are_those_that_lightgbm_was_trained_with(carried, lightgbm):
    """Of integers, floats and booleans, in another order and with others than in training."""
    random = numpy.random.default_rng(1)
    places = random.integers(0, 4, 2000)
    kinds = {"zip": [10, 20, 30, 47], "size": [1.0, 1.5, 2.25, 3.0], "late": [False, True]}
    frame = pandas.DataFrame(
        {name: pandas.Categorical(numpy.array(kind)[places % len(kind)]) for name, kind in kinds.items()}
    )
    frame["x"] = random.random(2000)
    label = numpy.array([3.0, -5, 9, 1])[places] + frame["x"] + random.random(2000)
    own = lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1, min_data_per_group=1).fit(frame, label)
    connection = await howdah.connect(**carried)
    await connection.import_model("c", own)
    few = pandas.DataFrame({
        "zip": pandas.Categorical([47, 10, None], categories=[47, 10]),
        "size": pandas.Categorical([3.0, 1.5, 1.0]),
        "late": pandas.Categorical([True, True, False]),
        "x": [0.5, 0.25, 0.75],
    })  # fmt: skip
    for asked in (frame[:50], few):
        assert numpy.allclose(await connection.predict("c", asked), own.predict(asked), atol=1e-6)
    await connection.close()


async def test_a_model_of_several_labels_is_explained_and_predicted_in_sql(carried):
    connection = await howdah.connect(**carried)
    for strategy in ("one_output_per_tree", "multi_output_tree"):
        own = xgboost.XGBRegressor(n_estimators=2, n_jobs=1, multi_strategy=strategy)
        own.fit(MATRIX, numpy.column_stack([TARGET, -TARGET]))
        await connection.import_model(strategy, own)
        wanted = own.predict(MATRIX[:2])
        with pytest.raises(howdah.FeatureNotSupportedError, match="predicts 2 targets, not one"):
            await connection.predict(strategy, MATRIX[:2])
        assert numpy.allclose((await connection.explain(strategy, MATRIX[:2])).sum(axis=2), wanted, atol=1e-5)
        query = "select pgml.predict_joint($1, $2::real[])"
        assert await connection.fetchval(query, strategy, MATRIX[0].tolist()) == wanted[0].tolist()
    await connection.close()


async def test_what_is_wrong_is_an_error(carried):
    connection = await howdah.connect(**carried)
    booster = xgboost.train(PARAMS, xgboost.DMatrix(MATRIX, TARGET, nthread=1), 2)
    with pytest.raises(TypeError, match="expected a model of XGBoost"):
        await connection.import_model("p", {"not": "a model"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'feature'"):
        await connection.import_model("p", booster, feature=["a"])
    with pytest.raises(FileNotFoundError):
        await connection.import_model("p", Path("/nowhere/model.ubj"))
    with pytest.raises(howdah.DataError, match="predicts"):
        await connection.import_model("p", booster, sample=MATRIX[0], expected=99)
    with pytest.raises(howdah.PostgresError):
        await connection.import_model("p", b"nothing")
    with pytest.raises(howdah.PostgresError):
        await connection.export_model("p")
    with pytest.raises(howdah.PostgresError):
        await connection.export_model(17)
    assert await connection.fetchval("select count(*) from pgml.projects") == 0
    await connection.close()
