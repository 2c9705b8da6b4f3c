"""`class_weight`, of every classification whose algorithm takes weights: against scikit-learn's compute_class_weight as
weights of rows, to the bit, and against XGBoost's own library.
"""

import json

import numpy
import pytest
import xgboost
from sklearn.utils.class_weight import compute_class_weight

from devkit import Problem

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

TAKES = """
    SELECT DISTINCT algorithm FROM pgml.hyperparameters() WHERE task = 'classification' AND name = 'class_weight' ORDER BY 1
"""
# Kinds of unequal numbers, and features that do not tell them apart for certain.
MADE = """
    CREATE TABLE kinds AS
    SELECT (i * 37 % 101) / 10.0 AS a, (i * 53 % 89) / 10.0 AS b,
        CASE WHEN i % 11 = 0 THEN 'rare' WHEN i * 37 % 101 + i * 29 % 40 > 70 THEN 'usual' ELSE 'some' END AS kind
    FROM generate_series(1, 260) i;
"""
MAP = {"rare": 4.5, "some": 0.25}
TRAIN = """
    SELECT pgml.train('{project}', 'classification', '{relation}', 'kind', '{algorithm}', '{hyperparams}', test_size => 0,
        preprocess => '{preprocess}')
"""


@pytest.fixture
def kinds(database):
    database.sql(MADE)
    return database


def weigh(database, weights):
    """A table of the same rows with a column of weights."""
    cases = " ".join(f"WHEN '{kind}' THEN {weight!r}::float8" for kind, weight in weights.items())
    database.sql(
        f"DROP TABLE IF EXISTS weighed; CREATE TABLE weighed AS SELECT *, CASE kind {cases} END AS w FROM kinds"
    )


def balanced(database):
    labels = numpy.array(database.sql("SELECT string_agg(kind, ' ') FROM kinds").split())
    classes = numpy.unique(labels)
    return dict(
        zip(classes.tolist(), compute_class_weight("balanced", classes=classes, y=labels).tolist(), strict=True)
    )


def train(database, project, algorithm, hyperparams, relation="kinds", preprocess=None):
    given = {"project": project, "relation": relation, "algorithm": algorithm}
    database.sql(TRAIN.format(hyperparams=json.dumps(hyperparams), preprocess=json.dumps(preprocess or {}), **given))


def answers(database, project):
    """The probabilities of all rows, or the classes where there are none."""
    for call in ("predict_proba", "predict_label"):
        try:
            return database.sql(f"SELECT string_agg(pgml.{call}('{project}', k)::text, ' ' ORDER BY k) FROM kinds k")
        except Problem:
            continue
    raise AssertionError(f"{project} predicts nothing")


# Quick, and the same on any number of threads.
SMALL = {
    "xgboost": {"n_estimators": 5, "nthread": 1},
    "xgboost_random_forest": {"n_estimators": 5, "nthread": 1},
    "lightgbm": {"n_estimators": 5, "num_threads": 1},
    "catboost": {"iterations": 10},
    "hist_gradient_boosting": {"max_iter": 10},
    "nu_svm": {"nu": 0.1},
}


def test_every_algorithm_that_takes_weights_takes_weights_of_classes(kinds):
    found = kinds.sql(TAKES).split("\n")
    assert len(found) >= 17 and {"xgboost", "linear", "svm", "random_forest", "naive_bayes", "lightgbm"} <= set(found)
    for weights, given in ((balanced(kinds), "balanced"), ({**MAP, "usual": 1.0}, MAP)):
        weigh(kinds, weights)
        for algorithm in found:
            small = SMALL.get(algorithm, {})
            train(kinds, f"{algorithm} by class", algorithm, {**small, "class_weight": given})
            train(kinds, f"{algorithm} by row", algorithm, small, "weighed", {"w": {"role": "weight"}})
            assert answers(kinds, f"{algorithm} by class") == answers(kinds, f"{algorithm} by row"), (algorithm, given)
    # And it is not for nothing.
    train(kinds, "plain", "random_forest", {})
    assert answers(kinds, "plain") != answers(kinds, "random_forest by class")


def test_xgboost_predicts_as_with_weights_of_its_own(kinds):
    given = {"n_estimators": 10, "max_depth": 3, "nthread": 1, "class_weight": "balanced"}
    train(kinds, "own", "xgboost", given)
    rows = [row.split("|") for row in kinds.sql("SELECT a, b, kind FROM kinds").split("\n")]
    features = numpy.array([[float(a), float(b)] for a, b, _ in rows], dtype=numpy.float32)
    classes, labels = numpy.unique([kind for *_, kind in rows], return_inverse=True)
    by_class = balanced(kinds)
    weights = numpy.array([by_class[kind] for *_, kind in rows], dtype=numpy.float32)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "nthread": 1, "seed": 0}
    data = xgboost.DMatrix(features, labels, weight=weights)
    expected = xgboost.train(params, data, num_boost_round=10).inplace_predict(features)
    found = kinds.sql("SELECT array_agg(pgml.predict_proba('own', k))::text FROM kinds k")
    found = numpy.array(json.loads(found.replace("{", "[").replace("}", "]")), dtype=numpy.float32)
    assert list(classes) == ["rare", "some", "usual"]
    assert numpy.abs(found - expected).max() < 1e-5


def test_it_multiplies_weights_of_rows_and_counts_training_rows_only(kinds):
    """Rows of weight 2 count twice towards a class's sum; rows that are tested on do not count."""
    kinds.sql("CREATE TABLE marked AS SELECT *, kind = 'some' AND a > 5 AS test, 2.0 AS w FROM kinds")
    spec = {"w": {"role": "weight"}, "test": {"role": "test"}}
    kinds.sql(TRAIN.format(
        project="both", relation="marked", algorithm="linear", hyperparams='{"class_weight": "balanced"}',
        preprocess=json.dumps(spec)).replace("test_size => 0,", ""))  # fmt: skip
    kinds.sql("""
        CREATE TABLE rest AS SELECT a, b, kind, n / (3.0 * count(*) OVER (PARTITION BY kind)) * 2 AS w
        FROM (SELECT *, count(*) OVER () AS n FROM marked WHERE NOT test) m
    """)
    train(kinds, "rest", "linear", {}, "rest", {"w": {"role": "weight"}})
    assert answers(kinds, "both") == answers(kinds, "rest")


def test_a_search_may_choose_it(kinds):
    kinds.sql("""
        SELECT pgml.train('found', 'classification', 'kinds', 'kind', 'random_forest', '{"n_estimators": 5}',
            search => 'grid', search_params => '{"class_weight": [null, "balanced", {"rare": 9}]}', search_args => '{"cv": 2}',
            test_sampling => 'last')
    """)
    results = json.loads(kinds.sql("SELECT metrics->'search_results' FROM pgml.models"))
    # Each is scored as it is alone, whatever was tried before on the same rows.
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        given = json.dumps([params["class_weight"]])
        kinds.sql(f"""
            SELECT pgml.train('alone', 'classification', 'kinds', 'kind', 'random_forest', '{{"n_estimators": 5}}',
                search => 'grid', search_params => '{{"class_weight": {given}}}', search_args => '{{"cv": 2}}',
                test_sampling => 'last')
        """)
        alone = kinds.sql(
            "SELECT metrics->'search_results'->'mean_test_score'->0 FROM pgml.models ORDER BY id DESC LIMIT 1"
        )
        assert float(alone) == score, params
    assert len(set(results["mean_test_score"])) > 1


@pytest.mark.parametrize(
    "algorithm, given, part",
    [
        ("linear", '"even"', 'cannot be "even"'),
        ("linear", "[1, 2]", "cannot be [1,2]"),
        ("linear", '{"rare": -1}', 'the weight of class "rare" cannot be -1'),
        ("linear", '{"rare": "a"}', 'the weight of class "rare" cannot be "a"'),
        ("linear", '{"rare": 1e300}', 'the weight of class "rare" cannot be'),
        ("linear", '{"rarely": 2}', 'class "rarely", which no row has'),
        ("linear", '{"rare": 0, "some": 0, "usual": 0}', "gives every class the weight 0"),
        ("knn", '"balanced"', "takes no weights of rows, and so no class_weight"),
    ],
)
def test_what_cannot_be_meant_is_refused(kinds, algorithm, given, part):
    with pytest.raises(Problem) as refused:
        kinds.sql(TRAIN.format(
            project="p", relation="kinds", algorithm=algorithm, hyperparams=f'{{"class_weight": {given}}}', preprocess="{}"))  # fmt: skip
    assert part in str(refused.value)
    assert kinds.sql("SELECT count(*) FROM pgml.projects") == "0"


@pytest.mark.parametrize("algorithm", ["linear", "xgboost", "lightgbm"])
@pytest.mark.parametrize("typed", ["class_weigth", "classweight", "class_weights"])
def test_a_mistyped_name_is_told(kinds, algorithm, typed):
    with pytest.raises(Problem) as refused:
        kinds.sql(
            f"""SELECT pgml.train('p', 'classification', 'kinds', 'kind', '{algorithm}', '{{"{typed}": "balanced"}}')"""
        )
    assert f'unknown hyperparameter "{typed}" (did you mean "class_weight"' in str(refused.value)


@pytest.mark.parametrize("task, label, algorithm", [("classification", "kind", "knn"), ("regression", "a", "linear")])
def test_where_it_is_not_taken_it_is_not_offered(kinds, task, label, algorithm):
    with pytest.raises(Problem) as refused:
        kinds.sql(
            f"""SELECT pgml.train('p', '{task}', 'kinds', '{label}', '{algorithm}', '{{"class_weigth": "balanced"}}')"""
        )
    assert "class_weight" not in str(refused.value)


def test_a_regression_has_no_classes(kinds):
    with pytest.raises(Problem, match="class_weight"):
        kinds.sql("""SELECT pgml.train('p', 'regression', 'kinds', 'a', 'linear', '{"class_weight": "balanced"}')""")
    # As null it asks for nothing.
    train(kinds, "null", "knn", {"class_weight": None})
