"""Trainings that go on from a model: as XGBoost's own `xgb_model`, to the bit, and only where it fits."""

import numpy
import pg8000.dbapi
import pytest
import xgboost

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off", "pgml.strict": "on"}

RANDOM = numpy.random.default_rng(9)
FEATURES = RANDOM.normal(size=(240, 3)).astype(numpy.float32)
TARGET = (FEATURES @ numpy.array([1.0, -1.0, 2.0])).astype(numpy.float32)
OLD, NEW = slice(0, 120), slice(120, 240)
PARAMS = {"max_depth": 3, "nthread": 1, "tree_method": "hist", "objective": "reg:squarederror"}


@pytest.fixture
def ask(database):
    """A function that asks a statement with parameters, and gives its rows."""
    with database.connect() as connection:

        def ask(statement, *parameters):
            cursor = connection.cursor()
            cursor.execute(statement, parameters)
            return list(cursor.fetchall()) if cursor.description else []

        for name, part in (("old", OLD), ("new", NEW)):
            ask(f"CREATE TABLE {name} (a real, b real, c real, y real, k int)")
            for row, y in zip(FEATURES[part], TARGET[part], strict=True):
                ask(
                    f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s)",
                    *map(float, row),
                    float(y),
                    int(y > 0) + int(y > 2),
                )
        yield ask


def matrix(part, label=TARGET):
    names = ["a", "b", "c"]
    return xgboost.QuantileDMatrix(FEATURES[part], label[part], feature_names=names, nthread=1)


def rows(ask, project):
    cells = ["{" + ",".join(map(repr, map(float, row))) + "}" for row in FEATURES]
    found = ask(
        "SELECT pgml.predict(%s, u.r::real[]) FROM unnest(%s::text[]) WITH ORDINALITY u(r, i) ORDER BY i",
        project,
        cells,
    )
    return numpy.array([value for (value,) in found], dtype=numpy.float32)


def go_on(project, base, relation="(SELECT a, b, c, y FROM new)", label="y", task="regression", more=""):
    return f"""SELECT pgml.train('{project}', '{task}', '{relation}', '{label}', 'xgboost', test_size => 0,
        hyperparams => '{{"n_estimators": 4, "max_depth": 3, "nthread": 1, "xgb_model": {base} {more}}}')"""


def test_training_goes_on_as_xgboost_does(ask):
    first = xgboost.train(PARAMS, matrix(OLD), 5)
    ask("SELECT pgml.import_model('p', %s::bytea)", bytes(first.save_raw("ubj")))
    ask(go_on("p", '"deployed"'))
    ask("SELECT pgml.deploy('p', 'most_recent')")
    second = xgboost.train(PARAMS, matrix(NEW), 4, xgb_model=bytearray(first.save_raw("ubj")))
    assert second.num_boosted_rounds() == 9
    expected = second.inplace_predict(FEATURES, validate_features=False)
    assert rows(ask, "p").tobytes() == expected.tobytes()
    # What was trained here goes on, too, by its id, in a project of its own.
    newest = ask("SELECT max(id) FROM pgml.models")[0][0]
    ask(go_on("q", newest, "(SELECT a, b, c, y FROM old)"))
    third = xgboost.train(PARAMS, matrix(OLD), 4, xgb_model=bytearray(second.save_raw("ubj")))
    assert rows(ask, "q").tobytes() == third.inplace_predict(FEATURES, validate_features=False).tobytes()
    assert ask("SELECT hyperparams->>'xgb_model' FROM pgml.models ORDER BY id DESC LIMIT 1") == [[str(newest)]]


def test_all_rounds_count_after_early_stopping(ask):
    ask("""SELECT pgml.train('p', 'regression', '(SELECT a, b, c, y FROM old)', 'y', 'xgboost',
        hyperparams => '{"n_estimators": 60, "early_stopping_rounds": 3, "nthread": 1, "max_depth": 3}')""")
    before = rows(ask, "p")
    ask(go_on("p", '"deployed"'))
    ask("SELECT pgml.deploy('p', 'most_recent')")
    assert not numpy.array_equal(rows(ask, "p"), before)
    data = ask("SELECT pgml.export_model('p')")[0][0]
    assert xgboost.Booster(model_file=bytearray(data)).attr("best_iteration") is None


def test_columns_are_prepared_as_they_were_for_the_model(ask):
    preprocess = '{"a": {"scale": "standard"}, "b": {"scale": "min_max", "impute": "max"}}'
    ask(f"""SELECT pgml.train('p', 'regression', '(SELECT a, b, c, y FROM old)', 'y', 'xgboost', test_size => 0,
        preprocess => '{preprocess}', hyperparams => '{{"n_estimators": 5, "max_depth": 3, "nthread": 1}}')""")
    ask(go_on("p", '"deployed"').replace("test_size => 0", f"test_size => 0, preprocess => '{preprocess}'"))
    ask("SELECT pgml.deploy('p', 'most_recent')")
    known = FEATURES[OLD].astype(float)
    scaled = FEATURES.astype(float)
    scaled[:, 0] = (scaled[:, 0] - known[:, 0].mean()) / known[:, 0].std()
    scaled[:, 1] = (scaled[:, 1] - known[:, 1].min()) / numpy.ptp(known[:, 1])
    scaled = scaled.astype(numpy.float32)
    first = xgboost.train(PARAMS, xgboost.QuantileDMatrix(scaled[OLD], TARGET[OLD], nthread=1), 5)
    new = xgboost.QuantileDMatrix(scaled[NEW], TARGET[NEW], nthread=1)
    second = xgboost.train(PARAMS, new, 4, xgb_model=first)
    assert second.num_boosted_rounds() == 9
    assert numpy.allclose(rows(ask, "p"), second.inplace_predict(scaled), atol=1e-5)
    # Of NULL, which no row has, the encoding by the target has no mean.
    encoded = "(SELECT a, (b > 0)::text AS b, c, y FROM old)"
    target = 'test_size => 0, preprocess => \'{"b": {"encode": "target"}}\''
    ask(go_on("q", "null", encoded).replace("test_size => 0", target))
    ask(go_on("q", '"deployed"', encoded).replace("test_size => 0", target))


def test_what_does_not_fit_is_an_error(ask):
    first = xgboost.train(PARAMS, matrix(OLD), 2)
    base = ask("SELECT * FROM pgml.import_model('p', %s::bytea)", bytes(first.save_raw("ubj")))[0][4]
    classes = ask("SELECT k FROM old GROUP BY k HAVING count(*) > 2")
    assert len(classes) == 3
    ask(
        "SELECT pgml.train('k', 'classification', '(SELECT a, b, c, k FROM old)', 'k', 'xgboost', '{\"n_estimators\": 2}')"
    )
    three = ask("SELECT max(id) FROM pgml.models")[0][0]
    ask("SELECT pgml.train('r', 'regression', '(SELECT a, b, c, y FROM old)', 'y', 'ridge')")
    ridge = ask("SELECT max(id) FROM pgml.models")[0][0]
    for statement, state, message in [
        (go_on("p", base, "(SELECT a, b, y FROM new)"), "22023", "the model has 3 columns, but the rows have 2"),
        (
            go_on("p", base, "(SELECT a, c, b, y FROM new)"),
            "22023",
            'the rows have column "c" (features: 1) in place of the model\'s column "b" (features: 1)',
        ),
        (go_on("p", base, "(SELECT a, b, c::text AS c, y FROM new)"), "22023", 'column "c" has other categories'),
        (
            go_on("p", base).replace("test_size => 0", 'preprocess => \'{"a": {"scale": "standard"}}\''),
            "22023",
            "the model's preprocess differs from the preprocess of this training",
        ),
        (go_on("p", base, more=', "objective": "reg:absoluteerror"'), "22023", 'objective is "reg:squarederror"'),
        (go_on("p", base, more=', "booster": "dart"'), "22023", 'booster is "gbtree"'),
        (go_on("p", base, more=', "early_stopping_rounds": 2'), "22023", "does not stop early"),
        (go_on("k", three, "(SELECT a, b, c, k FROM new WHERE k < 2)", "k", "classification"), "22023", ""),
        (
            go_on("k", three, "(SELECT a, b, c, k + 1 AS k FROM new)", "k", "classification"),
            "22023",
            "the model's classes are 0, 1, 2",
        ),
        (go_on("p", ridge), "22023", "is not a model of XGBoost"),
        (go_on("p", 123456), "42704", "123456"),
        (go_on("p", -1), "22023", "xgb_model"),
        (go_on("p", '"latest"'), "22023", "xgb_model"),
        (go_on("z", '"deployed"'), "42704", 'project "z" has no deployed model'),
        (go_on("p", base).replace("'xgboost'", "'ridge'"), "22023", ""),
        (go_on("p", base).replace("'xgboost'", "'xgboost_random_forest'"), "22023", "random forest"),
        (
            go_on("p", base).replace("test_size => 0", "search => 'grid', search_params => '{\"eta\": [0.1, 0.2]}'"),
            "22023",
            "search",
        ),
    ]:
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            ask(statement)
        fields = raised.value.args[0]
        assert fields["C"] == state and message in fields["M"], (statement, fields)


def test_a_model_of_another_project_needs_export(ask):
    first = xgboost.train(PARAMS, matrix(OLD), 2)
    base = ask("SELECT * FROM pgml.import_model('p', %s::bytea)", bytes(first.save_raw("ubj")))[0][4]
    ask("DROP ROLE IF EXISTS continuation_stranger")
    ask("CREATE ROLE continuation_stranger")
    ask("GRANT SELECT ON new TO continuation_stranger")
    ask("GRANT INSERT ON pgml.projects TO continuation_stranger")
    try:
        ask("SET ROLE continuation_stranger")
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            ask(go_on("mine", base))
        assert raised.value.args[0]["C"] == "42501"
        ask("RESET ROLE")
        ask("SELECT pgml.grant('p', 'continuation_stranger', 'export')")
        ask("SET ROLE continuation_stranger")
        ask(go_on("mine", base))
    finally:
        ask("RESET ROLE")
        ask("SELECT pgml.delete_project(name) FROM pgml.projects")
        ask("DROP OWNED BY continuation_stranger")
        ask("DROP ROLE continuation_stranger")
