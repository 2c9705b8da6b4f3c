"""Metrics of a classification are of the class that is looked for, and a model that finds nothing is called so."""

import json
import re

import numpy
import pytest
from sklearn import metrics as sk

from devkit import Problem

RARE = 60


@pytest.fixture
def payments(database):
    """2,000 payments, 60 of them fraud, which the amount tells but for a few; and a label of each type."""
    database.sql(f"""
        CREATE TABLE payments AS
            SELECT i, (CASE WHEN i % 2000 < {RARE} - 6 OR i % 400 = 399 THEN 900 ELSE 100 END + i % 37)::real AS amount,
                CASE WHEN i < {RARE} THEN 'fraud' ELSE 'ok' END AS kind
            FROM generate_series(0, 1999) i""")
    return database


def train(database, label, more="", project="p", task="classification", columns="amount"):
    """Whether it was deployed, and its metrics."""
    rows = f"(SELECT {columns}, {label} AS y FROM payments)"
    deployed = database.sql(f"SELECT deployed FROM pgml.train('{project}', '{task}', $${rows}$$, 'y' {more})")
    return deployed == "t", json.loads(database.sql("SELECT metrics FROM pgml.models ORDER BY id DESC LIMIT 1"))


XGBOOST = """, 'xgboost', '{"n_estimators": 20}'"""


@pytest.mark.parametrize(
    "label, more, positive",
    [
        ("kind", "", "fraud"),
        ("CASE kind WHEN 'ok' THEN 'a' ELSE 'z' END", "", "z"),
        ("kind", ", positive_class => 'ok'", "ok"),
        ("kind = 'ok'", "", "true"),
        ("kind = 'ok'", ", positive_class => 'false'", "false"),
        ("(kind = 'ok')::int + 4", "", "5"),
        ("(kind = 'ok')::int + 4", ", positive_class => '4'", "4"),
        ("kind || i % 2", "", None),
        ("kind || i % 2", ", positive_class => 'fraud1'", "fraud1"),
    ],
)
def test_the_metrics_are_of_the_class_looked_for(payments, label, more, positive):
    _, found = train(payments, label, XGBOOST + more)
    assert found.get("positive_class") == positive
    classes = found["classes"]
    assert sum(each["rows"] for each in classes.values()) == found["rows"]
    for metric in ("f1", "precision", "recall"):
        each = {name: one[metric] for name, one in classes.items()}
        expected = each[positive] if positive else numpy.mean(list(each.values()))
        assert found[metric] == pytest.approx(expected)
    assert found["balanced_accuracy"] == pytest.approx(numpy.mean([one["recall"] for one in classes.values()]))
    again = json.loads(payments.sql(f"SELECT pgml.evaluate('p', $$(SELECT amount, {label} AS y FROM payments)$$)"))
    assert again.get("positive_class") == positive
    assert again["classes"].keys() == classes.keys()


def test_they_are_scikit_learn_s(payments):
    train(payments, "kind", XGBOOST + ", refit => false")
    rows = payments.sql(
        "SELECT (kind = 'fraud')::int, (pgml.predict_proba('p', amount))[1], pgml.predict_label('p', amount) = 'fraud' "
        "FROM payments"
    )
    truth, score, predicted = zip(*(row.split("|") for row in rows.splitlines()), strict=True)
    truth, score = numpy.array(truth, int), numpy.array(score, float)
    predicted = numpy.array(predicted) == "t"
    found = json.loads(
        payments.sql("SELECT pgml.evaluate('p', '(SELECT amount, kind AS y FROM payments)', rows => 'all')")
    )
    for name, expected in {
        "f1": sk.f1_score(truth, predicted),
        "precision": sk.precision_score(truth, predicted),
        "recall": sk.recall_score(truth, predicted),
        "balanced_accuracy": sk.balanced_accuracy_score(truth, predicted),
        "mcc": sk.matthews_corrcoef(truth, predicted),
        "roc_auc": sk.roc_auc_score(truth, score),
        "average_precision": sk.average_precision_score(truth, score),
        "log_loss": sk.log_loss(truth, score),
        "brier": sk.brier_score_loss(truth, score),
    }.items():
        assert found[name] == pytest.approx(expected, rel=1e-5), name
    curve = payments.sql(
        "SELECT DISTINCT class, min(precision) OVER () FROM pgml.precision_recall_curve('p', "
        "'(SELECT amount, kind AS y FROM payments)', rows => 'all')"
    )
    precision, *_ = sk.precision_recall_curve(truth, score)
    name, lowest = curve.split("|")
    assert name == "fraud"
    assert float(lowest) == pytest.approx(min(precision))


def test_a_project_remembers_the_class(payments):
    train(payments, "kind", XGBOOST + ", positive_class => 'ok'")
    _, found = train(payments, "kind", XGBOOST)
    assert found["positive_class"] == "ok"
    # Of another label it is not a class.
    _, found = train(payments, "kind = 'ok'", XGBOOST)
    assert found["positive_class"] == "true"


@pytest.mark.parametrize(
    "label, task, more, what",
    [
        ("kind", "classification", "", 'positive_class "fruad" is not a class of label "y"'),
        ("amount * 2", "regression", "", 'task regression has no classes, and positive_class is "fruad"'),
    ],
)
def test_a_class_that_is_none_is_refused(payments, label, task, more, what):
    with pytest.raises(Problem, match=what):
        train(payments, label, more + ", positive_class => 'fruad'", task=task)


def test_a_model_that_finds_none_does_not_replace_one_that_does(payments):
    assert train(payments, "kind", XGBOOST)[0]
    deployed, found = train(payments, "kind", """, 'xgboost', '{"n_estimators": 1, "max_depth": 1, "eta": 0.01}'""")
    assert found["f1"] == 0
    assert not deployed


@pytest.mark.parametrize(
    "label, task, more, doubts",
    [
        (
            "kind",
            "classification",
            """, 'xgboost', '{"n_estimators": 1, "eta": 0.0001}'""",
            ["never predicts .fraud.", "that of chance"],
        ),
        ("(i * 7919) % 2 = 0", "classification", XGBOOST, ["shares of the classes"]),
        ("(i * 7919) % 1000", "regression", """, 'xgboost', '{"n_estimators": 50}'""", ["no better than the mean"]),
        ("kind", "classification", XGBOOST, []),
        ("amount * 2", "regression", XGBOOST, []),
    ],
)
def test_a_model_that_is_of_no_use_is_deployed_with_a_warning(payments, label, task, more, doubts):
    columns = "amount" if "7919" not in label else "sin(i * i) AS noise"
    with payments.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            f"SELECT pgml.train('p', '{task}', $$(SELECT {columns}, {label} AS y FROM payments)$$, 'y' {more})"
        )
        said = [notice[b"M"].decode() for notice in connection.notices if notice[b"S"] == b"WARNING"]
    of_use = [text for text in said if "is deployed, but on the" in text]
    assert len(of_use) == bool(doubts)
    for doubt in doubts:
        assert re.search(doubt, of_use[0]), of_use[0]


@pytest.mark.parametrize("algorithm", ["xgboost", "lightgbm"])
def test_a_weight_of_the_other_class_is_told_of(payments, algorithm):
    """The libraries weigh the second class: of fraud and ok that is ok, by which no fraud was found."""
    call = ", '" + algorithm + """', '{"n_estimators": 5, %s}'"""
    _, metrics = train(payments, "kind", call % '"scale_pos_weight": 20')
    (told,) = [warning for warning in metrics["warnings"] if "scale_pos_weight" in warning]
    assert told.startswith(
        'scale_pos_weight weighs class "ok", which is the second one, and not the positive class "fraud"'
    )
    assert """'{"class_weight":{"fraud":20}}'""" in told
    _, metrics = train(payments, "kind", call % '"class_weight": {"fraud": 20}')
    assert not [warning for warning in metrics.get("warnings", []) if "scale_pos_weight" in warning]
    _, metrics = train(payments, "kind = 'fraud'", call % '"scale_pos_weight": 20', "q")
    assert not [warning for warning in metrics.get("warnings", []) if "scale_pos_weight" in warning]


def test_hazards_are_not_measured_against_times(payments):
    _, found = train(
        payments, "1 + i % 30", """, 'xgboost', '{"objective": "survival:cox", "n_estimators": 3}'""", task="regression"
    )
    assert not {"r2", "mean_absolute_error"} & found.keys()
    assert found["rows"] > 0


def test_a_class_for_each_row_is_told_of(database):
    database.sql("CREATE TABLE rents AS SELECT i AS x, format('1.%s,60', i) AS rent FROM generate_series(1, 60) i")
    with database.connect() as connection:
        connection.cursor().execute("SELECT pgml.train('r', 'classification', 'rents', 'rent', 'linear')")
        said = [notice[b"M"].decode() for notice in connection.notices if notice[b"S"] == b"WARNING"]
    assert any('label "rent" has 60 classes in 60 rows' in text for text in said), said
