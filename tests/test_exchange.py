"""Models that come from other libraries and go back to them, and predict the same on both sides."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pg8000.dbapi
import pytest
import xgboost

from devkit.places import ROOT
from devkit.setup import LIGHTGBM

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

FILES = ROOT / "tests" / "exchange"
RANDOM = numpy.random.default_rng(5)
NAMES = ["width", "height", "petal length", "shade"]


def rows(count=200):
    """Features of float32 with gaps."""
    features = RANDOM.normal(size=(count, 4)).astype(numpy.float32)
    features[RANDOM.random(features.shape) < 0.1] = numpy.nan
    return features


FEATURES = rows()
TARGET = numpy.nan_to_num(FEATURES) @ numpy.array([1.0, -2.0, 0.5, 0.0])
TWO = (TARGET > 0).astype(int)
THREE = numpy.digitize(TARGET, [-1, 1])


@pytest.fixture
def ask(database):
    """A function that asks a statement with parameters, and gives its rows."""
    with database.connect() as connection:

        def ask(statement, *parameters):
            cursor = connection.cursor()
            cursor.execute(statement, parameters)
            return list(cursor.fetchall()) if cursor.description else []

        yield ask


def array(row):
    """A row as an SQL array."""
    return "{" + ",".join("NULL" if numpy.isnan(value) else repr(float(value)) for value in row) + "}"


def matrix(features, label=None, **more):
    # One thread: others spin where the processors are wanted.
    return xgboost.DMatrix(features, label, nthread=1, **more)


def booster(label, names=None, **params):
    data = matrix(FEATURES, label, feature_names=names)
    return xgboost.train({"max_depth": 4, "seed": 1, "nthread": 1, "verbosity": 0, **params}, data, num_boost_round=12)


XGBOOST = {
    "regression": ({}, TARGET),
    "poisson": ({"objective": "count:poisson"}, numpy.abs(TARGET)),
    "binary": ({"objective": "binary:logistic"}, TWO),
    "raw": ({"objective": "binary:logitraw"}, TWO),
    "hinge": ({"objective": "binary:hinge"}, TWO),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, THREE),
    "class": ({"objective": "multi:softmax", "num_class": 3}, THREE),
    "dart": ({"booster": "dart", "rate_drop": 0.5}, TARGET),
    "linear": ({"booster": "gblinear"}, TARGET),
}


def import_model(ask, project, data, more=""):
    return ask(f"SELECT * FROM pgml.import_model(%s, %s::bytea {more})", project, bytes(data))[0]


def values(ask, project, kind):
    """What the server predicts for all rows."""
    cells = [array(row) for row in FEATURES]
    answers = ask(
        f"SELECT pgml.{kind}(%s, r::real[]) FROM unnest(%s::text[]) WITH ORDINALITY u(r, i) ORDER BY i", project, cells
    )
    return numpy.array([answer[0] for answer in answers], dtype=numpy.float32)


@pytest.mark.parametrize("form", ["ubj", "json"])
def test_boosters_predict_bit_for_bit_and_come_back_the_same(ask, form):
    for kind in XGBOOST:
        check_booster(ask, kind, form)


def check_booster(ask, kind, form):
    params, label = XGBOOST[kind]
    own = booster(label, NAMES, **params)
    expected = own.predict(matrix(FEATURES, feature_names=NAMES))
    if kind == "dart":
        # XGBoost has two sums of it, which differ in the last bit: this is that of predictions in place.
        expected = own.inplace_predict(FEATURES, validate_features=False)
    project, task, algorithm, deployed, model = import_model(ask, kind, own.save_raw(form))
    assert (project, algorithm, deployed) == (kind, "xgboost", True)
    assert task == ("classification" if kind in ("binary", "raw", "hinge", "classes", "class") else "regression")
    if kind == "binary":
        predicted = values(ask, kind, "predict_proba")[:, 1]
    elif kind == "classes":
        predicted = values(ask, kind, "predict_proba")
    elif kind == "raw":
        predicted, expected = values(ask, kind, "predict"), (expected > 0).astype(numpy.float32)
    else:
        predicted = values(ask, kind, "predict")
    assert predicted.tobytes() == expected.astype(numpy.float32).tobytes()

    for exported in {None, form, "json"}:
        data = ask("SELECT pgml.export_model(%s::bigint, %s)", model, exported)[0][0]
        back = xgboost.Booster({"nthread": 1, "verbosity": 0}, model_file=bytearray(data))
        again = back.predict(matrix(FEATURES, feature_names=NAMES))
        assert again.tobytes() == own.predict(matrix(FEATURES, feature_names=NAMES)).tobytes()
        assert back.feature_names == NAMES
        # What was exported describes itself.
        assert import_model(ask, kind, data, ", deploy => false")[3] is False


def test_a_booster_without_names_gets_them(ask):
    own = booster(TARGET)
    import_model(ask, "p", own.save_raw("ubj"), ", features => ARRAY['a', 'b', 'c', 'd']")
    row = FEATURES[3]
    by_name = ask(
        "SELECT pgml.predict('p', r) FROM (SELECT %s::real AS d, %s::real AS c, %s::real AS b, %s::real AS a) r",
        *[None if numpy.isnan(value) else float(value) for value in row[::-1]],
    )
    assert numpy.float32(by_name[0][0]) == own.predict(matrix(row[None]))[0]
    import_model(ask, "q", own.save_raw("ubj"))
    assert ask("SELECT pgml.predict('q', r) FROM (SELECT 1 AS f0, 2 AS f1, 3 AS f2, 4 AS f3) r")


def test_classes_have_names(ask):
    own = booster(THREE, objective="multi:softprob", num_class=3)
    import_model(ask, "p", own.save_raw("ubj"), ", classes => ARRAY['low', 'mid', 'high']")
    chosen = own.predict(matrix(FEATURES)).argmax(axis=1)
    cells = [array(row) for row in FEATURES]
    labels = ask(
        "SELECT pgml.predict_label('p', r::real[]) FROM unnest(%s::text[]) WITH ORDINALITY u(r, i) ORDER BY i", cells
    )
    assert [label for (label,) in labels] == [["low", "mid", "high"][index] for index in chosen]


def error(ask, statement, *parameters):
    with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        ask(statement, *parameters)
    return raised.value.args[0]["C"], raised.value.args[0]["M"]


REGISTRY = "SELECT " + " + ".join(
    f"(SELECT count(*) FROM pgml.{table})" for table in ("projects", "models", "files", "deployments")
)


def test_a_sample_must_agree(ask):
    own = booster(TWO, NAMES, objective="binary:logistic")
    row = FEATURES[~numpy.isnan(FEATURES).any(axis=1)][0]
    answer = float(own.predict(matrix(row[None], feature_names=NAMES))[0])
    data = own.save_raw("ubj")
    sample = json.dumps([float(value) for value in row])
    named = json.dumps({name: float(value) for name, value in zip(NAMES[::-1], row[::-1], strict=True)})
    statement = "SELECT * FROM pgml.import_model('p', %s::bytea, sample => %s::jsonb, expected => %s::jsonb)"
    for wrong_sample, expected, state in [
        (sample, answer + 0.01, "22000"),
        (sample, [answer, 1 - answer], "22000"),
        (sample, str(1 - int(answer > 0.5)), "22000"),
        (sample, [answer], "22023"),
        (sample, {}, "22023"),
        ("[1, 2, 3]", answer, "22023"),
        ('{"width": 1}', answer, "42703"),
        (named.replace("width", "widht"), answer, "42703"),
        ('[1, 2, 3, "x"]', answer, "22023"),
        ("7", answer, "22023"),
        (sample, None, "22023"),
    ]:
        assert error(ask, statement, bytes(data), wrong_sample, json.dumps(expected))[0] == state, expected
    assert ask(REGISTRY)[0][0] == 0
    for right in (answer, [1 - answer, answer], str(int(answer > 0.5))):
        ask(statement, bytes(data), sample, json.dumps(right))
        ask(statement, bytes(data), named, json.dumps(right))


def test_names_and_numbers_must_agree(ask):
    own = bytes(booster(THREE, NAMES, objective="multi:softprob", num_class=3).save_raw("ubj"))
    for more, state, message in [
        (", features => ARRAY['a']", "22023", "features has 1 name, and the model has 4 features"),
        (
            ", features => ARRAY['width', 'shade', 'height', 'petal length']",
            "22023",
            'feature 2 of the model is "height"',
        ),
        (", features => ARRAY['width', 'width', 'x', 'y']", "42701", 'features has "width" twice'),
        (", features => ARRAY['width', NULL, 'x', 'y']", "22023", "features must not have NULL elements"),
        (", classes => ARRAY['a', 'b']", "22023", "classes has 2 names, and the model has 3 classes"),
        (", classes => ARRAY['a', 'b', 'a']", "22023", 'classes has "a" twice'),
        (", task => 'regression'", "22023", "the model is for classification"),
        (", task => 'nothing'", "22023", 'there is no task "nothing"'),
        (", format => 'pmml'", "22023", 'there is no format "pmml"'),
        (", format => 'onnx'", "22P03", "the model cannot be read"),
        (", format => 'lightgbm'", "22P03", "the model cannot be read"),
        (", format => 'catboost'", "22P03", "the model cannot be read"),
        (", format => 'safetensors'", "22P03", "the model cannot be read"),
    ]:
        found, said = error(ask, f"SELECT * FROM pgml.import_model('p', %s::bytea {more})", own)
        assert found == state and message in said, (more, said)
    assert error(ask, "SELECT * FROM pgml.import_model(NULL, %s::bytea)", own)[0] == "22004"
    assert error(ask, "SELECT * FROM pgml.import_model('', %s::bytea)", own)[0] == "22023"
    assert error(ask, "SELECT * FROM pgml.import_model('p', NULL)")[0] == "22004"
    ask("SELECT * FROM pgml.import_model('p', %s::bytea)", own)
    two = bytes(booster(TARGET).save_raw("ubj"))
    assert (
        "is for classification, and the model for regression"
        in error(ask, "SELECT * FROM pgml.import_model('p', %s::bytea)", two)[1]
    )


def test_hostile_bytes_are_an_error_and_leave_nothing(ask):
    models = [bytes(booster(TARGET, NAMES).save_raw(form)) for form in ("ubj", "json")]
    for data in [
        b"",
        b"x",
        b"{",
        b"{}",
        b"{L",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"tree\n",
        b"binf" + bytes(1000),
        b"\x08\0\0\0\0\0\0\0{}      ",
        *(model[: len(model) // 2] for model in models),
        models[0].replace(b"split_indices", b"split_indicez"),
        models[1].replace(b'"num_feature":"4"', b'"num_feature":"2"'),
    ]:
        assert error(ask, "SELECT * FROM pgml.import_model('p', %s::bytea)", data)[0] in ("22P03", "0A000"), data[:20]
    assert ask("SELECT count(*) FROM pgml.projects")[0][0] == 0
    assert error(ask, "SELECT * FROM pgml.import_model('p', repeat(' ', 300000000)::bytea)")[0] == "54000"


def test_statistics_that_nobody_can_read_are_refused_at_once(ask):
    """And not when the first prediction is to be explained."""
    model = json.loads(bytes(booster(TARGET, NAMES).save_raw("json")))
    for name in ("loss_changes", "sum_hessian"):
        for broken in (None, "a text"):
            damaged = json.loads(json.dumps(model))
            damaged["learner"]["gradient_booster"]["model"]["trees"][3][name][1] = broken
            data = json.dumps(damaged).encode()
            state, message = error(ask, "SELECT * FROM pgml.import_model('p', %s::bytea)", data)
            assert state == "22P03" and f"trees[3].{name}[1]" in message, (state, message)
    assert ask("SELECT count(*) FROM pgml.projects")[0][0] == 0


def test_a_description_of_another_model_is_refused(ask):
    ask("CREATE TABLE t (a real, b real, c real, d real, y real)")
    ask("INSERT INTO t SELECT i % 7, i % 5, i % 3, i % 2, i FROM generate_series(1, 100) i")
    ask("SET client_min_messages = warning")
    ask("SET pgml.strict = on")
    ask("SELECT pgml.train('own', 'regression', 't', 'y', 'linear')")
    own = bytes(ask("SELECT pgml.export_model('own')")[0][0])
    # The first column is an array of two, by the description alone.
    damaged = own.replace(rb"size\\\":1", rb"size\\\":2", 1)
    assert damaged != own
    state, message = error(ask, "SELECT pgml.import_model('p', %s::bytea)", damaged)
    assert (state, message) == ("22P03", "the model has 4 features, and its description 5"), (state, message)


def test_an_import_behind_a_deletion_says_that_the_project_is_gone(database, ask):
    """Instead of breaking a foreign key. An open transaction holds both up, so that they come in this order."""
    data = bytes(booster(TARGET).save_raw("ubj"))
    statement = "SELECT pgml.import_model('p', %s::bytea)"
    ask(statement, data)

    def wait_for(count):
        while database.sql("SELECT count(*) FROM pg_catalog.pg_locks WHERE NOT granted").strip() != str(count):
            time.sleep(0.01)

    with database.connect() as holding, database.connect() as deleting, ThreadPoolExecutor() as pool:
        holding.autocommit = False
        holding.cursor().execute(statement, (data,))
        deleted = pool.submit(deleting.cursor().execute, "SELECT pgml.delete_project('p')")
        wait_for(1)
        importing = pool.submit(error, ask, statement, data)
        wait_for(2)
        holding.commit()
        assert importing.result() == ("42704", 'project "p" was deleted by another session')
        deleted.result()
    ask(statement, data)


def test_who_may(database, ask):
    data = bytes(booster(TARGET).save_raw("ubj"))
    stored = ask("SELECT * FROM pgml.import_model('mine', %s::bytea)", data)[0][4]
    ask("DROP ROLE IF EXISTS exchange_stranger")
    ask("CREATE ROLE exchange_stranger")
    try:
        ask("SET ROLE exchange_stranger")
        assert error(ask, "SELECT * FROM pgml.import_model('mine', %s::bytea)", data)[0] == "42501"
        assert error(ask, "SELECT pgml.export_model(%s::bigint)", stored)[0] == "42501"
        assert error(ask, "SELECT pgml.export_model('mine')")[0] == "42501"
        ask("RESET ROLE")
        ask("SELECT pgml.grant('mine', 'exchange_stranger', 'train')")
        ask("SET ROLE exchange_stranger")
        # Something is deployed already, so that this deploys nothing.
        assert ask("SELECT * FROM pgml.import_model('mine', %s::bytea)", data)[0][3] is False
        assert error(ask, "SELECT * FROM pgml.import_model('mine', %s::bytea, deploy => true)", data)[0] == "42501"
        ask("RESET ROLE")
        ask("SELECT pgml.grant('mine', 'exchange_stranger', 'deploy')")
        ask("SELECT pgml.grant('mine', 'exchange_stranger', 'export')")
        ask("SET ROLE exchange_stranger")
        assert ask("SELECT * FROM pgml.import_model('mine', %s::bytea, deploy => true)", data)[0][3] is True
        assert ask("SELECT pgml.export_model(%s::bigint) = pgml.export_model('mine')", stored)[0][0]
        # A project of one's own.
        ask("RESET ROLE")
        ask("GRANT INSERT ON pgml.projects TO exchange_stranger")
        ask("SET ROLE exchange_stranger")
        ask("SELECT * FROM pgml.import_model('own', %s::bytea)", data)
        ask("RESET ROLE")
        assert ask("SELECT owner::text FROM pgml.projects WHERE name = 'own'")[0][0] == "exchange_stranger"
    finally:
        ask("RESET ROLE")
        ask("SELECT pgml.delete_project(name) FROM pgml.projects")
        ask("DROP OWNED BY exchange_stranger")
        ask("DROP ROLE exchange_stranger")


def test_export_says_what_it_cannot(ask):
    data = bytes(booster(TARGET).save_raw("json"))
    stored = ask("SELECT * FROM pgml.import_model('p', %s::bytea)", data)[0][4]
    for format, state in [("ubj", "0A000"), ("safetensors", "0A000"), ("nothing", "0A000")]:
        assert error(ask, "SELECT pgml.export_model(%s::bigint, %s)", stored, format)[0] == state
    assert error(ask, "SELECT pgml.export_model(12345)")[0] == "42704"
    assert error(ask, "SELECT pgml.export_model('nothing')")[0] == "42704"
    assert error(ask, "SELECT pgml.export_model(NULL::bigint)")[0] == "22004"


@pytest.fixture(scope="module")
def lightgbm():
    """LightGBM's Python package, as `make setup` unpacks it."""
    sys.path.insert(0, str(LIGHTGBM))
    try:
        import lightgbm

        yield lightgbm
    finally:
        sys.path.remove(str(LIGHTGBM))


LIGHTGBM_KINDS = {
    "regression": ({"objective": "regression"}, TARGET),
    "tweedie": ({"objective": "tweedie"}, numpy.abs(TARGET)),
    "binary": ({"objective": "binary"}, TWO),
    "multiclass": ({"objective": "multiclass", "num_class": 3}, THREE),
    "ova": ({"objective": "multiclassova", "num_class": 3}, THREE),
    "forest": ({"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, TARGET),
}


def gbm(lightgbm, label, names="auto", rounds=10, **params):
    settings = {"verbosity": -1, "num_threads": 1, "num_leaves": 7, "min_data_in_leaf": 5, **params}
    return lightgbm.train(settings, lightgbm.Dataset(FEATURES, label, feature_name=names), num_boost_round=rounds)


def test_lightgbms_models_predict_bit_for_bit_and_come_back_the_same(ask, lightgbm):
    for kind, (params, label) in LIGHTGBM_KINDS.items():
        own = gbm(lightgbm, label, names=["a", "b", "c", "d"], **params)
        text = own.model_to_string()
        expected = own.predict(FEATURES)
        _, task, algorithm, deployed, model = import_model(ask, kind, text.encode())
        assert (algorithm, deployed) == ("lightgbm", True)
        assert task == ("classification" if kind in ("binary", "multiclass", "ova") else "regression")
        if kind in ("binary", "multiclass"):
            predicted = values(ask, kind, "predict_proba")
            predicted = predicted[:, 1] if kind == "binary" else predicted
        elif kind == "ova":
            predicted, expected = values(ask, kind, "predict"), expected.argmax(axis=1)
        else:
            predicted = values(ask, kind, "predict")
        assert predicted.tobytes() == expected.astype(numpy.float32).tobytes(), kind
        assert bytes(ask("SELECT pgml.export_model(%s::bigint)", model)[0][0]).decode() == text
        assert bytes(ask("SELECT pgml.export_model(%s, 'lightgbm')", kind)[0][0]).decode() == text
        # All of it, description and all, comes from one database to another in our own form.
        whole = ask("SELECT pgml.export_model(%s::bigint, 'safetensors')", model)[0][0]
        again = import_model(ask, kind, whole, ", deploy => true")
        assert again[1:4] == [task, "lightgbm", True]
        assert bytes(ask("SELECT pgml.export_model(%s::bigint, 'safetensors')", again[4])[0][0]) == bytes(whole)
        assert error(ask, "SELECT pgml.export_model(%s::bigint, 'json')", model)[0] == "0A000"


def test_lightgbm_knows_pandas_categories(ask, lightgbm):
    """As the model's text has them: pandas is not needed to read it."""
    codes = RANDOM.integers(0, 3, 200).astype(numpy.float32)
    features = numpy.column_stack([FEATURES[:, 0], codes])
    label = numpy.nan_to_num(features[:, 0]) + 3 * (codes == 1)
    data = lightgbm.Dataset(features, label, feature_name=["size", "color"], categorical_feature=[1])
    params = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5, "cat_smooth": 1, "min_data_per_group": 1}
    own = lightgbm.train({**params, "objective": "regression"}, data, num_boost_round=5)
    text = own.model_to_string()
    assert "pandas_categorical:null" in text and "num_cat=1" in text
    text = text.replace("pandas_categorical:null", 'pandas_categorical:[["blue", "red", "green"]]')
    import_model(ask, "colors", text.encode())
    for row, code in [((0.5, "blue"), 0), ((0.5, "red"), 1), ((-1.0, "green"), 2), ((0.1, "other"), numpy.nan)]:
        answer = ask("SELECT pgml.predict('colors', r) FROM (SELECT %s::real AS size, %s::text AS color) r", *row)[0][0]
        expected = own.predict(numpy.array([[numpy.float32(row[0]), code]], dtype=numpy.float32))[0]
        assert numpy.float32(answer) == numpy.float32(expected), row
    # Numbers and booleans are texts as SQL prints them.
    for kinds, names in [
        ("[10, 47, -3]", "10 47 -3"),
        ("[1.0, 1.5, 2.25]", "1 1.5 2.25"),
        ("[false, true]", "false true"),
    ]:
        import_model(ask, "kinds", text.replace('["blue", "red", "green"]', kinds).encode(), ", deploy => true")
        for code, name in enumerate(names.split()):
            answer = ask("SELECT pgml.predict('kinds', r) FROM (SELECT 0.5::real AS size, %s::text AS color) r", name)
            expected = own.predict(numpy.array([[0.5, code]], dtype=numpy.float32))[0]
            assert numpy.float32(answer[0][0]) == numpy.float32(expected), name
    for broken in ('[["blue"], ["x"]]', "[[1, null, 3]]", '[["blue"', "[3]"):
        damaged = text.replace('[["blue", "red", "green"]]', broken)
        assert error(ask, "SELECT pgml.import_model('p', %s::bytea)", damaged.encode())[0] in ("22P03", "0A000")


def test_what_lightgbm_has_and_pgml_has_not_is_refused_by_name(ask, lightgbm):
    linear = gbm(lightgbm, TARGET, linear_tree=True)
    state, message = error(ask, "SELECT pgml.import_model('p', %s::bytea)", linear.model_to_string().encode())[:2]
    assert state == "0A000" and "linear_tree" in message
    import_model(ask, "ova", gbm(lightgbm, THREE, objective="multiclassova", num_class=3).model_to_string().encode())
    state, message = error(ask, "SELECT pgml.predict_proba('ova', ARRAY[1, 2, 3, 4])")[:2]
    assert state == "0A000" and "gives no probabilities" in message


def test_what_is_trained_here_goes_to_lightgbm(ask, lightgbm):
    ask("CREATE TABLE t (a real, b real, c real, d real, y real)")
    for row, y in zip(FEATURES, TARGET, strict=True):
        ask(
            "INSERT INTO t SELECT (%s::real[])[1], (%s::real[])[2], (%s::real[])[3], (%s::real[])[4], %s",
            *[array(row)] * 4,
            float(y),
        )
    ask("SELECT pgml.train('g', 'regression', 't', 'y', 'lightgbm', '{\"n_estimators\": 10, \"num_threads\": 1}')")
    text = bytes(ask("SELECT pgml.export_model('g')")[0][0]).decode()
    own = lightgbm.Booster(model_str=text)
    assert values(ask, "g", "predict").tobytes() == own.predict(FEATURES).astype(numpy.float32).tobytes()


@pytest.mark.parametrize("algorithm", ["ridge", "random_forest", "knn", "xgboost", "catboost"])
def test_what_is_trained_here_goes_to_another_database(ask, algorithm):
    ask("SELECT pgml.load_dataset('iris')")
    ask(f"SELECT pgml.train('iris', 'classification', 'pgml.iris', 'target', '{algorithm}')")
    ask("SELECT pgml.import_model('copy', pgml.export_model('iris'))")
    assert ask(
        "SELECT DISTINCT algorithm FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id ORDER BY 1"
    ) == [[algorithm]]
    assert ask("SELECT count(*) FROM pgml.iris i WHERE pgml.predict('iris', i) <> pgml.predict('copy', i)") == [[0]]
    assert ask(
        "SELECT f.data = g.data FROM pgml.files f, pgml.files g WHERE f.model_id < g.model_id AND f.path = g.path AND f.path <> 'remembered_rows'"
    ) == [[True]]


def test_catboosts_models_predict_as_catboost(ask):
    known = json.loads((FILES / "catboost.json").read_text())
    for kind, project, names in [
        ("regression", "r", ["label"]),
        ("two", "b", ["ham", "spam"]),
        ("three", "m", ["high", "low", "mid"]),
    ]:
        data = (FILES / f"catboost_{kind}.json").read_bytes()
        _, task, algorithm, _, model = import_model(ask, project, data)
        assert (task, algorithm) == ("regression" if kind == "regression" else "classification", "catboost")
        for row, expected in zip(known["rows"], known[kind], strict=True):
            cells = array([numpy.nan if value is None else value for value in row])
            if kind == "regression":
                answer = ask(f"SELECT pgml.predict('{project}', %s::real[])", cells)[0][0]
                assert numpy.float32(answer) == numpy.float32(expected)
                continue
            answer = ask(f"SELECT pgml.predict_proba('{project}', %s::real[])", cells)[0][0]
            assert numpy.abs(numpy.array(answer) - numpy.array(expected)).max() < 1e-7
            label = ask(f"SELECT pgml.predict_label('{project}', %s::real[])", cells)[0][0]
            assert label == names[int(numpy.argmax(expected))]
        assert bytes(ask("SELECT pgml.export_model(%s::bigint)", model)[0][0]) == data
    row = json.dumps(known["rows"][0])
    import_model(
        ask,
        "s",
        (FILES / "catboost_two.json").read_bytes(),
        f", sample => '{row}', expected => '{json.dumps(known['two'][0])}'",
    )


def explained(ask, project, rows):
    """The contributions to each output, of rows given as numbers: rows, outputs, features and the bias."""
    found = ask(f"SELECT pgml.explain_batch('{project}', %s::real[])", "{" + ",".join(map(array, rows)) + "}")[0][0]
    found = numpy.array(found, dtype=numpy.float64)
    return found.reshape(len(rows), -1, found.shape[-1])


def test_lightgbms_models_are_explained_as_lightgbm_does(ask, lightgbm):
    for kind, (params, label) in LIGHTGBM_KINDS.items():
        own = gbm(lightgbm, label, names=["a", "b", "c", "d"], **params)
        import_model(ask, kind, own.model_to_string().encode())
        expected = own.predict(FEATURES[:30], pred_contrib=True).reshape(30, -1, 5)
        # LightGBM adds up what a forest's trees contribute, and predicts their mean.
        trees = own.num_trees() if kind == "forest" else 1
        expected = expected / trees
        found = explained(ask, kind, FEATURES[:30])
        assert numpy.abs(found - expected).max() < 1e-6 * numpy.abs(expected).max(), kind
        raw = own.predict(FEATURES[:30], raw_score=True).reshape(30, -1) / trees
        assert numpy.abs(found.sum(axis=2) - raw).max() < 3e-6 * numpy.abs(raw).max(), kind
        found = {row[0]: row[1:] for row in ask(f"SELECT * FROM pgml.feature_importance('{kind}')")}
        totals = zip("abcd", own.feature_importance("gain"), own.feature_importance("split"), strict=True)
        for name, gain, splits in totals:
            assert found[name][1] == splits
            # LightGBM writes six digits of a gain.
            assert found[name][0] * splits == pytest.approx(gain, rel=1e-5), (kind, name)


def test_a_model_without_counts_is_not_explained(ask, lightgbm):
    text = gbm(lightgbm, TARGET).model_to_string()
    lines = [
        line for line in text.split("\n") if not line.startswith(("internal_count=", "leaf_count=", "split_gain="))
    ]
    import_model(ask, "bare", "\n".join(lines).encode())
    state, message = error(ask, "SELECT pgml.explain('bare', %s::real[])", array(FEATURES[0]))
    assert state == "0A000" and "cannot be explained" in message
    counts = ask("SELECT count(gain), sum(weight), count(cover) FROM pgml.feature_importance('bare')")[0]
    assert counts[0] == 0 and counts[1] > 10 and counts[2] == 0


def test_catboosts_models_are_explained_as_catboost_does(ask):
    known = json.loads((FILES / "catboost.json").read_text())
    rows = numpy.array([[numpy.nan if value is None else value for value in row] for row in known["rows"][:10]])
    for kind in ("regression", "two", "three"):
        import_model(ask, kind, (FILES / f"catboost_{kind}.json").read_bytes())
        expected = numpy.array(known[f"{kind}_contributions"]).reshape(10, -1, 4)
        assert numpy.abs(explained(ask, kind, rows) - expected).max() < 1e-6 * numpy.abs(expected).max(), kind


def test_what_is_damaged_of_other_libraries_is_an_error(ask, lightgbm):
    text = gbm(lightgbm, TARGET, rounds=2).model_to_string().encode()
    cat = (FILES / "catboost_two.json").read_bytes()
    ask("SELECT pgml.load_dataset('iris')")
    ask("SELECT pgml.train('iris', 'classification', 'pgml.iris', 'target', 'ridge')")
    own = bytes(ask("SELECT pgml.export_model('iris')")[0][0])
    damaged = [model[: len(model) * part // 9] for model in (text, cat, own) for part in range(1, 8)]
    damaged += [
        text.replace(b"left_child=", b"left_child=-9 "),
        text.replace(b"max_feature_idx=3", b"max_feature_idx=4000000000"),
        text.replace(b"num_tree_per_iteration=1", b"num_tree_per_iteration=3"),
        cat.replace(b'"float_feature_index":1', b'"float_feature_index":77'),
        cat.replace(b'"leaf_values":', b'"leaf_value":'),
        own.replace(b"pgml:", b"pgmx:"),
        own.replace(b"classification", b"clusterrrrrrrr"),
        own[:-8],
        own + b"1",
    ]
    for data in damaged:
        if data in (text, cat, own):
            pytest.fail("nothing is damaged")
        state, message = error(ask, "SELECT pgml.import_model('p', %s::bytea)", data)
        assert state in ("22P03", "0A000"), (data[:40], message)
    assert ask("SELECT count(*) FROM pgml.projects")[0][0] == 1
