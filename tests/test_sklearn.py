"""PostgresML's functions that give scikit-learn's metrics of two arrays, against scikit-learn itself."""

import json
import random
import warnings

import pg8000.dbapi
import pytest
from sklearn import metrics as sk


def drawn(seed, classes, count=200):
    """Labels, and predictions that are often right but have their favourites, so that precision is not recall."""
    roll = random.Random(seed)
    truths = [roll.choice(classes) for _ in range(count)]
    predictions = [truth if roll.random() < 0.6 else max(classes[0], roll.choice(classes)) for truth in truths]
    return truths, [p if roll.random() < 0.8 else classes[-1] for p in predictions]


def array(values):
    return f"ARRAY[{', '.join(map(repr, values))}]::real[]"


def ask(database, function, *arguments):
    return database.sql(f"SELECT pgml.{function}({', '.join(map(str, arguments))})")


@pytest.mark.parametrize("classes", [[0, 1], [1, 2], [-1, 1], [0, 1, 2], [3, 7, 1, 0, 12], [1], [0]], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_metrics_of_classes_are_those_of_scikit_learn(database, classes, seed):
    truths, predictions = drawn(seed, classes)
    average = "binary" if len(classes) <= 2 else "macro"
    given = {"average": average, "zero_division": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {
            "f1": sk.f1_score(truths, predictions, **given),
            "f1_micro": sk.f1_score(truths, predictions, average="micro"),
            "precision": sk.precision_score(truths, predictions, **given),
            "recall": sk.recall_score(truths, predictions, **given),
            "accuracy": sk.accuracy_score(truths, predictions),
            "mcc": sk.matthews_corrcoef(truths, predictions),
        }
        if len(classes) == 2:
            wanted["roc_auc"] = sk.roc_auc_score(truths, predictions)
            assert wanted["precision"] != wanted["recall"]
    arrays = array(truths), array(predictions)
    found = json.loads(ask(database, "sklearn_classification_metrics", *arrays, max(len(classes), 2)))
    assert found == {name: pytest.approx(value) for name, value in wanted.items()}
    assert float(ask(database, "sklearn_f1_score", *arrays)) == pytest.approx(wanted["f1"], rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_metrics_of_numbers_are_those_of_scikit_learn(database, seed):
    roll = random.Random(seed)
    truths = [round(roll.uniform(-10, 1000), 3) for _ in range(100)]
    predictions = [round(truth + roll.gauss(0, 100), 3) for truth in truths]
    arrays = array(truths), array(predictions)
    found = json.loads(ask(database, "sklearn_regression_metrics", *arrays))
    assert found == {
        "r2": pytest.approx(sk.r2_score(truths, predictions), rel=1e-5),
        "mse": pytest.approx(sk.mean_squared_error(truths, predictions), rel=1e-5),
        "mae": pytest.approx(sk.mean_absolute_error(truths, predictions), rel=1e-5),
    }
    assert float(ask(database, "sklearn_r2_score", *arrays)) == pytest.approx(found["r2"], rel=1e-6)


def test_calls_as_they_are_written(database):
    """Of whole numbers, of numeric literals and of aggregates."""
    assert ask(database, "sklearn_f1_score", "ARRAY[1, 0, 1, 1]", "ARRAY[1, 0, 0, 1]") == "0.8"
    assert ask(database, "sklearn_r2_score", "ARRAY[1.0, 2.0, 3.0]", "ARRAY[1.0, 2.0, 3.0]") == "1"
    rows = "(VALUES (1::real, 1::real), (2, 2.5)) t(y, p)"
    assert (
        database.sql(f"SELECT pgml.sklearn_regression_metrics(array_agg(y), array_agg(p))->>'mae' FROM {rows}")
        == "0.25"
    )
    assert (
        ask(database, "sklearn_f1_score", "NULL", "ARRAY[1]")
        == ask(database, "sklearn_r2_score", "'{1}'", "'{1}'")
        == ""
    )


@pytest.mark.parametrize(
    "call, sqlstate",
    [
        ("sklearn_f1_score(ARRAY[1, 0], ARRAY[1])", "22023"),
        ("sklearn_r2_score('{}', '{}')", "22023"),
        ("sklearn_r2_score(ARRAY[1, NULL], ARRAY[1, 2])", "22004"),
        ("sklearn_regression_metrics(ARRAY['NaN'::real, 1], ARRAY[1, 2])", "22004"),
        ("sklearn_f1_score(ARRAY[1, 0], ARRAY[0.7, 0.2])", "22023"),
        ("sklearn_classification_metrics(ARRAY[1, 0, 2], ARRAY[1, 0, 2], 2)", "22023"),
        ("sklearn_f1_score((SELECT array_agg(i) FROM generate_series(1, 2000) i), (SELECT array_agg(1) FROM generate_series(1, 2000)))", "54000"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(database, call, sqlstate):
    with database.connect() as own, pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        own.cursor().execute(f"SELECT pgml.{call}")
    assert raised.value.args[0]["C"] == sqlstate
