"""What a model's features matter: by its splits, as XGBoost counts them, and by permutation."""

import pytest
import xgboost

from tests.test_evaluate import OWNER, STRANGER, fetch, loaded, state  # noqa: F401

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}


def booster(database, model):
    """The stored model, opened by XGBoost itself."""
    parts = fetch(
        database, f"SELECT data FROM pgml.files WHERE model_id = {model} AND path <> 'remembered_rows' ORDER BY part"
    )
    opened = xgboost.Booster()
    opened.load_model(bytearray(b"".join(part for (part,) in parts)))
    return opened


def importance(database, named):
    return list(fetch(database, f"SELECT * FROM pgml.feature_importance({named})"))


def agree(found, scores):
    """Whether what was found is what XGBoost says, in which features that no split is by are left out."""
    for name, gain, weight, cover in found:
        for ours, theirs in ((gain, "gain"), (weight, "weight"), (cover, "cover")):
            assert ours == pytest.approx(scores[theirs].get(name, 0.0), rel=1e-5), (name, theirs)
    assert sum(1 for row in found if row[2]) == len(scores["weight"])
    assert [row[1] for row in found] == sorted((row[1] for row in found), reverse=True)


@pytest.mark.parametrize(
    "given",
    [
        '{"n_estimators": 20, "max_depth": 3}',
        '{"n_estimators": 5, "booster": "dart"}',
        '{"n_estimators": 40, "learning_rate": 1, "early_stopping_rounds": 2}',
    ],
)
@pytest.mark.parametrize("task, relation, label", [
    ("regression", "pgml.diabetes", "target"),
    ("classification", "pgml.iris", "target"),
    ("classification", "(SELECT sepal_length, width, kind FROM flowers)", "kind"),
])  # fmt: skip
def test_splits_are_those_of_xgboost(loaded, task, relation, label, given):  # noqa: F811
    project = f"{task} {relation} {given}"
    loaded.sql(f"SELECT pgml.train('{project}', '{task}', '{relation}', '{label}', 'xgboost', '{given}')")
    model = loaded.sql("SELECT max(id) FROM pgml.models")
    own = booster(loaded, model)
    best = own.attr("best_iteration")
    # What is counted are the trees that the model predicts with.
    own = own[: int(best) + 1] if best else own
    scores = {kind: own.get_score(importance_type=kind) for kind in ("gain", "weight", "cover")}
    found = importance(loaded, model)
    agree(found, scores)
    assert found == importance(loaded, f"'{project}'")


def test_what_was_made_of_a_column_counts_for_it(loaded):  # noqa: F811
    loaded.sql("""
        SELECT pgml.train('made', 'classification', '(SELECT sepal_length, width, kind FROM flowers)', 'kind', 'xgboost',
            '{"n_estimators": 5}', preprocess => '{"width": {"encode": "one_hot"}}')
    """)
    model = loaded.sql("SELECT max(id) FROM pgml.models")
    scores = booster(loaded, model).get_score(importance_type="weight")
    found = {row[0]: row[2] for row in importance(loaded, model)}
    assert set(found) == {"sepal_length", "width"}
    assert found["sepal_length"] == scores["sepal_length"] and sum(found.values()) == sum(scores.values())


@pytest.mark.parametrize("algorithm", ["random_forest", "gradient_boosting_trees", "lightgbm", "catboost"])
def test_trees_of_other_kinds_know_their_splits(loaded, algorithm):  # noqa: F811
    loaded.sql("SELECT pgml.train('of trees', 'regression', 'pgml.diabetes', 'target', '{}')".format(algorithm))
    model = loaded.sql("SELECT max(id) FROM pgml.models")
    found = importance(loaded, model)
    assert len(found) == 10 and sum(row[2] for row in found) > 50
    assert all(0 < row[3] <= 442 for row in found if row[2])
    # The noise by which catboost chooses splits leaves no gain to tell of.
    by = 2 if algorithm == "catboost" else 1
    assert all((row[1] is None) == (algorithm == "catboost") for row in found)
    assert [row[by] for row in found] == sorted((row[by] for row in found), reverse=True)


def test_a_model_without_trees_has_none(loaded):  # noqa: F811
    found = importance(loaded, "'exercises'")
    assert found == [[name, None, None, None] for name in ("chins", "situps", "jumps")]


def test_permutations_cost_what_the_feature_explains(loaded):  # noqa: F811
    """Of y = 3a + b with equal variances, r2 falls by twice the share of the variance that a feature explains."""
    loaded.sql("""
        CREATE TABLE sums AS SELECT a, b, c, 3 * a + b AS y
        FROM (SELECT i % 10 AS a, i / 10 % 10 AS b, i / 100 % 10 AS c FROM generate_series(0, 1999) i) x
    """)
    loaded.sql("SELECT pgml.train('sums', 'regression', 'sums', 'y', 'linear')")
    ask = "SELECT * FROM pgml.permutation_importance('sums', 'sums', 10, rows => 'all')"
    found = fetch(loaded, ask)
    assert [row[0] for row in found] == ["a", "b", "c"]
    assert [row[1] for row in found] == [pytest.approx(wanted, abs=0.05) for wanted in (1.8, 0.2, 0)]
    assert all(0 <= row[2] < 0.1 for row in found)
    assert found == fetch(loaded, ask)
    assert found != fetch(loaded, ask.replace("10,", "10, seed => 7,"))


def test_permutations_of_a_classification(loaded):  # noqa: F811
    found = fetch(loaded, "SELECT * FROM pgml.permutation_importance('flowers', 'flowers')")
    names = [row[0] for row in found]
    assert sorted(names) == ["petal_length", "sepal_length", "sepal_width", "width"]
    assert names[0] in ("petal_length", "width") and found[0][1] > 0.2


def test_who_may_know(loaded):  # noqa: F811
    splits = "SELECT pgml.feature_importance('cancer')"
    permuted = "SELECT pgml.permutation_importance('cancer', 'pgml.breast_cancer', 1)"
    assert state(loaded, OWNER, splits) == "00000"
    assert state(loaded, OWNER, permuted) == "00000"
    # What every role may with a new project is predict.
    assert state(loaded, STRANGER, splits) == "42501"
    assert state(loaded, STRANGER, permuted) == "00000"
    assert state(loaded, STRANGER, permuted.replace("pgml.breast_cancer", "secret")) == "42501"
    loaded.sql(f"SELECT pgml.grant('cancer', '{STRANGER}', 'explain')")
    try:
        assert state(loaded, STRANGER, splits) == "00000"
    finally:
        loaded.sql(f"SELECT pgml.revoke('cancer', '{STRANGER}', 'explain')")


@pytest.mark.parametrize(
    "call, sqlstate",
    [
        ("feature_importance('nothing')", "42704"),
        ("feature_importance(987654)", "42704"),
        ("feature_importance(NULL::text)", "22004"),
        ("permutation_importance('groups', 'pgml.iris')", "0A000"),
        ("permutation_importance('diabetes', 'nothing')", "42P01"),
        ("permutation_importance('diabetes', 'pgml.diabetes', 0)", "22023"),
        ("permutation_importance('diabetes', 'pgml.diabetes', NULL)", "22004"),
        ("permutation_importance('diabetes', 'pgml.diabetes', 1, NULL)", "22004"),
        ("permutation_importance('diabetes', 'pgml.iris')", "42703"),
    ],
)
def test_what_cannot_be_meant_is_refused(loaded, call, sqlstate):  # noqa: F811
    assert state(loaded, OWNER, f"SELECT pgml.{call}") == sqlstate
