"""pgml.learning_curve: the metrics of a training round by round, against those of models of so many rounds."""

from itertools import pairwise

import pytest

from tests.test_evaluate import OWNER, STRANGER, fetch, loaded, state  # noqa: F401

CURVE = "SELECT metric, part, array_agg(round ORDER BY round), array_agg(value ORDER BY round) FROM pgml.learning_curve({}) GROUP BY 1, 2"
NEWEST = "SELECT max(id) FROM pgml.models"


def train(database, project, task, relation, label, algorithm, hyperparams="{}", more=""):
    database.sql(
        f"SELECT pgml.train('{project}', '{task}', '{relation}', '{label}', '{algorithm}', '{hyperparams}'{more})"
    )
    return int(database.sql(NEWEST))


def curve(database, model):
    return {(metric, part): (rounds, values) for metric, part, rounds, values in fetch(database, CURVE.format(model))}


@pytest.mark.parametrize(
    "algorithm, rounds",
    [("xgboost", "n_estimators"), ("lightgbm", "n_estimators"), ("catboost", "iterations"),
     ("hist_gradient_boosting", "max_iter"), ("gradient_boosting_trees", "n_estimators"), ("ada_boost", "n_estimators"),
     ("random_forest", "n_estimators"), ("bagging", "n_estimators")],
)  # fmt: skip
@pytest.mark.parametrize(
    "task, relation, label, metric",
    [("regression", "pgml.diabetes", "target", "rmse"), ("classification", "pgml.breast_cancer", "malignant", "logloss"),
     ("classification", "flowers", "kind", "mlogloss")],
    ids=["numbers", "two classes", "three classes"],
)  # fmt: skip
def test_the_last_point_is_the_models_own(loaded, algorithm, rounds, task, relation, label, metric):  # noqa: F811
    project = f"{algorithm} {metric}"
    model = train(loaded, project, task, relation, label, algorithm, f'{{"{rounds}": 30}}')
    found = curve(loaded, model)
    assert {(metric, "train"), (metric, "test")} <= found.keys()
    stored = {"rmse": "|/(metrics->>'mean_squared_error')::float8"}.get(metric, "(metrics->>'log_loss')::float8")
    expected = float(loaded.sql(f"SELECT {stored} FROM pgml.models WHERE id = {model}"))
    rounds, values = found[metric, "test"]
    assert rounds == list(range(1, len(rounds) + 1)) and 2 <= len(rounds) <= 30
    # XGBoost's are of float32.
    assert values[-1] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    rounds, values = found[metric, "train"]
    assert rounds == found[metric, "test"][0]
    if (metric.replace("logloss", "error"), "train") in found:
        values = found[metric.replace("logloss", "error"), "train"][1]
    assert values[-1] <= values[0]


def test_a_long_training_keeps_a_bounded_curve_with_both_ends(loaded):  # noqa: F811
    for algorithm in ("xgboost", "lightgbm"):
        model = train(loaded, "long", "regression", "pgml.diabetes", "target", algorithm, '{"n_estimators": 1500}')
        for rounds, _ in curve(loaded, model).values():
            assert 100 <= len(rounds) <= 201 and rounds[0] == 1 and rounds[-1] == 1500
            assert {later - former for former, later in pairwise(rounds[1:-1])} == {8}


def test_the_curve_goes_on_after_the_best_round(loaded):  # noqa: F811
    hyperparams = '{"n_estimators": 500, "early_stopping_rounds": 5, "eval_metric": ["mae", "rmse"]}'
    model = train(loaded, "early", "regression", "pgml.diabetes", "target", "xgboost", hyperparams)
    found = curve(loaded, model)
    assert found.keys() == {("mae", "train"), ("mae", "test"), ("rmse", "train"), ("rmse", "test")}
    rounds, values = found["rmse", "test"]
    assert values.index(min(values)) == len(rounds) - 6 and rounds == found["mae", "train"][0]


def test_what_has_no_rounds_has_no_curve(loaded):  # noqa: F811
    for algorithm, hyperparams in [
        ("linear", "{}"),
        ("xgboost_random_forest", "{}"),
        ("xgboost", '{"n_estimators": 1}'),
        ("knn", "{}"),
    ]:
        model = train(loaded, "flat", "regression", "pgml.diabetes", "target", algorithm, hyperparams)
        assert curve(loaded, model) == {}, algorithm


def test_without_held_out_rows_there_is_one_part(loaded):  # noqa: F811
    for algorithm in ("xgboost", "lightgbm"):
        model = train(loaded, "all", "regression", "pgml.diabetes", "target", algorithm, more=", test_size => 0")
        assert curve(loaded, model).keys() == {("rmse", "train")}


def test_a_search_and_a_refit_leave_one_curve(loaded):  # noqa: F811
    more = """, search => 'grid', search_params => '{"max_depth": [2, 3]}', refit => true"""
    model = train(loaded, "searched", "regression", "pgml.diabetes", "target", "xgboost", '{"n_estimators": 7}', more)
    assert curve(loaded, model)["rmse", "train"][0] == list(range(1, 8))


def test_it_is_for_who_may_see_and_goes_with_the_model(loaded):  # noqa: F811
    loaded.sql(
        f"""SET ROLE {OWNER}; SELECT pgml.train('mine', 'regression', 'pgml.diabetes', 'target', 'xgboost', '{{"n_estimators": 3}}')"""
    )
    model = int(loaded.sql(NEWEST))
    ask = f"SELECT * FROM pgml.learning_curve({model})"
    kept = f"SELECT count(*) FROM pgml.learning_curves WHERE model_id = {model}"
    assert loaded.sql(f"SET ROLE {OWNER}; {kept}") == "2"
    assert state(loaded, STRANGER, ask) == "42501"
    assert loaded.sql(f"SET ROLE {STRANGER}; {kept}") == "0"
    loaded.sql(f"SET ROLE {OWNER}; SELECT pgml.grant('mine', '{STRANGER}', 'see')")
    assert state(loaded, STRANGER, ask) == "00000"
    assert loaded.sql(f"SET ROLE {STRANGER}; {kept}") == "2"
    assert state(loaded, STRANGER, f"DELETE FROM pgml.learning_curves WHERE model_id = {model}") == "42501"
    loaded.sql(f"SET ROLE {OWNER}; SELECT pgml.delete_project('mine')")
    assert loaded.sql(kept) == "0"
    assert state(loaded, OWNER, ask) == "42704"
    assert state(loaded, OWNER, "SELECT * FROM pgml.learning_curve(NULL)") == "22004"


def test_a_dump_keeps_it(loaded, server):  # noqa: F811
    model = train(
        loaded, "dumped", "regression", "pgml.diabetes", "target", "hist_gradient_boosting", '{"max_iter": 5}'
    )
    copy = f"{loaded.name}_curves"
    dump = server.run("pg_dump", "--format=plain", loaded.name).stdout
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.psql(dump, copy)
        asked = f"SELECT sum(value), count(*) FROM pgml.learning_curve({model})"
        assert server.psql(asked, copy) == loaded.sql(asked)
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")
