"""Writes cases.json: scores of outliers by scikit-learn and PyOD, on the built-in data sets.

Run it by hand when a family or a case is added (scikit-learn 1.9, PyOD 3.6 or later):

    python generate.py > cases.json

The models learn from the rows of an even number. A score is how far it is above the threshold: minus scikit-learn's
`decision_function`, and PyOD's less its `threshold_`. `margin` is the relative error that is left to chance or rounding.
"""

import csv
import json
import pathlib
import sys

import numpy as np
import pyod
import sklearn
from pyod.models.ecod import ECOD
from pyod.models.hbos import HBOS
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

DATASETS = pathlib.Path(__file__).parents[4] / "extension" / "datasets"


def load(name, standardised):
    with open(DATASETS / f"{name}.csv") as file:
        rows = list(csv.reader(file))[1:]
    features = np.array([row[:-1] for row in rows], np.float32)
    if standardised:
        wide = features.astype(np.float64)
        features = ((wide - wide.mean(axis=0)) / np.where(wide.std(axis=0) > 0, wide.std(axis=0), 1)).astype(np.float32)
    return features.astype(np.float64)


def forests(train, **hyperparams):
    """The mean of some large forests, so that little is left to chance."""
    made = [IsolationForest(random_state=seed, **hyperparams).fit(train) for seed in range(5)]
    return lambda rows: np.mean([-forest.decision_function(rows) for forest in made], axis=0)


def of_pyod(algorithm):
    def made(train, **hyperparams):
        model = algorithm(**hyperparams).fit(train)
        # ECOD makes others of the rows that it is asked about: those of the training are as they were.
        one = algorithm is ECOD
        return lambda rows: (
            (model.decision_scores_ if one and rows is train else model.decision_function(rows)) - model.threshold_
        )

    return made


def of_sklearn(algorithm, **more):
    def made(train, **hyperparams):
        model = algorithm(**more, **hyperparams).fit(train)
        return lambda rows: -model.decision_function(rows)

    return made


def ellipses(train, **hyperparams):
    """The best of some seeds, which find covariances of other determinants."""
    made = [EllipticEnvelope(random_state=seed, **hyperparams).fit(train) for seed in range(12)]
    best = min(made, key=lambda model: np.linalg.slogdet(model.raw_covariance_)[1])
    return lambda rows: -best.decision_function(rows)


ALGORITHMS = {
    "isolation_forest": forests,
    "local_outlier_factor": of_sklearn(LocalOutlierFactor, novelty=True),
    "one_class_svm": of_sklearn(OneClassSVM),
    "robust_covariance": ellipses,
    "ecod": of_pyod(ECOD),
    "hbos": of_pyod(HBOS),
}


def case(algorithm, data, standardised, margin, /, **hyperparams):
    rows = load(data, standardised)
    train, test = rows[::2], rows[1::2]
    score = ALGORITHMS[algorithm](train, **hyperparams)
    # Of new rows PyOD's ECOD makes other ones of the training rows with them.
    test = [] if algorithm == "ecod" else score(test)
    return {
        "algorithm": algorithm,
        "data": data,
        "standardised": standardised,
        "hyperparams": hyperparams,
        "margin": margin,
        "train": [float(f"{value:.9g}") for value in score(train)],
        "test": [float(f"{value:.9g}") for value in test],
    }


cases = [
    case("isolation_forest", "wine", False, 0.02, n_estimators=1000),
    case("isolation_forest", "breast_cancer", False, 0.02, n_estimators=1000, max_samples=64, contamination=0.1),
    case("isolation_forest", "iris", True, 0.02, n_estimators=1000, max_features=0.5, max_samples=0.8),
    case("isolation_forest", "iris", True, 0.02, n_estimators=1000, bootstrap=True),
    case("local_outlier_factor", "wine", True, 1e-5),
    case("local_outlier_factor", "breast_cancer", False, 1e-5, n_neighbors=10, contamination=0.05),
    case("local_outlier_factor", "breast_cancer", True, 1e-5, metric="manhattan"),
    case("local_outlier_factor", "diabetes", True, 1e-5, p=3, n_neighbors=35),
    case("one_class_svm", "wine", True, 2e-3, tol=1e-6),
    case("one_class_svm", "breast_cancer", True, 2e-3, nu=0.1, tol=1e-6),
    case("one_class_svm", "iris", True, 2e-3, nu=0.2, kernel="poly", degree=2, coef0=1.0, tol=1e-6),
    case("robust_covariance", "iris", False, 1e-4, support_fraction=0.9, contamination=0.05),
    case("ecod", "wine", False, 1e-5),
    case("ecod", "breast_cancer", False, 1e-5, contamination=0.02),
    case("hbos", "wine", False, 1e-5),
    case("hbos", "breast_cancer", True, 1e-5, n_bins=25, alpha=0.3, tol=0.1),
    case("hbos", "iris", False, 1e-5, contamination=0.03),
]
print(f'{{"scikit-learn": "{sklearn.__version__}", "pyod": "{pyod.__version__}",\n"cases": [')
print(",\n".join(map(json.dumps, cases)))
print("]}")
for found in cases:
    print(found["algorithm"], found["data"], len(found["train"]), len(found["test"]), file=sys.stderr)
