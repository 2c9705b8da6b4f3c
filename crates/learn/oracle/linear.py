"""Computes what scikit-learn predicts on the built-in data sets, for src/families/oracle.rs.

    python crates/learn/oracle/linear.py > crates/learn/oracle/linear.json

Each case trains on three of four rows and predicts the others. `score` is the coefficient of determination or the
accuracy, `probe` the predictions of the first rows (of a classifier: the last class's probability, or score where it
has none). What is random has a margin for its score, and no probe.
"""

import csv
import json
import pathlib
import sys
import warnings

import numpy
from sklearn import linear_model, naive_bayes, svm

DATASETS = pathlib.Path(__file__).parents[3] / "extension" / "datasets"
ROWS = 6


def data_set(name):
    with (DATASETS / f"{name}.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    labels = [{"true": 1.0, "t": 1.0, "false": 0.0, "f": 0.0}.get(row[-1]) for row in rows]
    labels = [float(row[-1]) if label is None else label for row, label in zip(rows, labels)]
    if name == "digits":
        features = [[int(pixel, 17) for pixel in row[0] if pixel != " "] for row in rows]
    else:
        features = [[float(value) for value in row[:-1]] for row in rows]
    return numpy.array(features, dtype=numpy.float32).astype(float), numpy.array(labels)


def split(name, scaled):
    features, labels = data_set(name)
    tests = numpy.arange(len(labels)) % 4 == 3
    train, test = features[~tests], features[tests]
    if scaled:
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        deviation[deviation == 0] = 1
        train, test = ((part - mean) / deviation for part in (train, test))
        train, test = (part.astype(numpy.float32).astype(float) for part in (train, test))
    return train, labels[~tests], test, labels[tests]


def values(model, test):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(test)[:, -1]
    if hasattr(model, "decision_function"):
        scores = model.decision_function(test)
        return scores if scores.ndim == 1 else scores[:, -1]
    return model.predict(test)


def case(task, family, model, data, hyperparams=None, *, scaled=True, exact=None, margin=0.0, probe=1e-4):
    """`exact` is what scikit-learn is given beyond `hyperparams` to come closer to the solution."""
    hyperparams = hyperparams or {}
    train, train_labels, test, test_labels = split(data, scaled)
    fitted = model(**{**hyperparams, **(exact or {})}).fit(train, train_labels)
    return {
        "task": task,
        "family": family,
        "data": data,
        "scaled": scaled,
        "hyperparams": hyperparams,
        "score": round(float(fitted.score(test, test_labels)), 6),
        "margin": margin or 1e-4,
        "probe": [] if margin else [float(f"{value:.7g}") for value in values(fitted, test)[:ROWS]],
        "probe_margin": probe,
    }


def regress(family, model, data="diabetes", hyperparams=None, **options):
    return case("regression", family, model, data, hyperparams, **options)


def classify(family, model, data, hyperparams=None, **options):
    return case("classification", family, model, data, hyperparams, **options)


EXACT = {"tol": 1e-10, "max_iter": 100_000}


def least_squares():
    yield regress("linear", linear_model.LinearRegression)
    yield regress("linear", linear_model.LinearRegression, "wine", {"fit_intercept": False}, scaled=False)
    for alpha in (0.0, 0.1, 100.0):
        yield regress("ridge", linear_model.Ridge, hyperparams={"alpha": alpha}, scaled=False)
    yield regress("ridge", linear_model.Ridge, "digits", {"fit_intercept": False})
    yield regress("ridge", linear_model.Ridge, hyperparams={"positive": True}, exact=EXACT)
    for hyperparams in ({}, {"alpha": 0.01}, {"alpha": 0.1, "positive": True}, {"alpha": 5.0, "fit_intercept": False}):
        yield regress("lasso", linear_model.Lasso, hyperparams=hyperparams)
        yield regress("elastic_net", linear_model.ElasticNet, hyperparams=hyperparams)
    yield regress("elastic_net", linear_model.ElasticNet, "digits", {"alpha": 0.01, "l1_ratio": 0.9}, probe=1e-3)
    yield regress("lasso", linear_model.Lasso, hyperparams={"alpha": 0.1}, scaled=False)


def logistic():
    exact = {"tol": 1e-9, "max_iter": 100_000}
    saga = {**exact, "solver": "saga"}
    for data in ("iris", "wine", "breast_cancer", "digits"):
        yield classify("linear", linear_model.LogisticRegression, data, exact=exact)
        yield classify("ridge", linear_model.RidgeClassifier, data)
    yield classify("linear", linear_model.LogisticRegression, "iris", scaled=False, exact=exact)
    yield classify("linear", linear_model.LogisticRegression, "iris", {"fit_intercept": False}, exact=exact)
    for hyperparams in ({"class_weight": "balanced", "C": 0.1}, {"C": 50.0}):
        yield classify("linear", linear_model.LogisticRegression, "breast_cancer", hyperparams, exact=exact)
    yield classify("ridge", linear_model.RidgeClassifier, "wine", {"class_weight": "balanced", "alpha": 20.0})
    for data in ("wine", "breast_cancer"):
        for ratio in (1.0, 0.4):
            hyperparams = {"l1_ratio": ratio, "C": 0.2}
            yield classify("linear", linear_model.LogisticRegression, data, hyperparams, exact=saga)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = [case for family in (least_squares, logistic) for case in family()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")
