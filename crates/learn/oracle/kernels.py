"""As linear.py, for what predicts by distances or kernels: nearest neighbours, support vectors, Gaussian processes.

    python crates/learn/oracle/kernels.py > crates/learn/oracle/kernels.json
"""

import json
import sys
import warnings

import linear
from linear import classify, regress
from sklearn import neighbors, svm

linear.ROWS = 30


def nearest_neighbours():
    # Cases in which rows are as near as others are left out: which of them count is each library's own choice.
    options = [
        {},
        {"n_neighbors": 3, "weights": "distance"},
        {"metric": "manhattan", "n_neighbors": 7},
        {"p": 3, "weights": "distance"},
        {"metric": "chebyshev"},
        {"metric": "cosine", "weights": "distance"},
        {"n_neighbors": 1},
    ]
    for scaled in (False, True):
        for hyperparams in options:
            if hyperparams.get("metric") != "chebyshev":
                yield regress("knn", neighbors.KNeighborsRegressor, hyperparams=hyperparams, scaled=scaled)
            for data in ("wine", "breast_cancer"):
                yield classify("knn", neighbors.KNeighborsClassifier, data, hyperparams, scaled=scaled)
    for hyperparams in ({}, {"metric": "cosine", "n_neighbors": 20}):
        yield classify("knn", neighbors.KNeighborsClassifier, "digits", hyperparams, scaled=False)


def support_vectors():
    kernels = [{}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0}, {"kernel": "sigmoid", "gamma": 0.01}]
    for kernel in kernels:
        hyperparams = {**kernel, "tol": 1e-6}
        for data in ("iris", "wine", "breast_cancer"):
            yield classify("svm", svm.SVC, data, hyperparams, probe=1e-3)
        yield classify("nu_svm", svm.NuSVC, "breast_cancer", {**hyperparams, "nu": 0.3}, probe=1e-3)
        yield regress("svm", svm.SVR, hyperparams={**hyperparams, "C": 10.0}, probe=1e-3)
        yield regress("nu_svm", svm.NuSVR, hyperparams={**hyperparams, "C": 10.0}, probe=1e-3)
    for hyperparams in (
        {"class_weight": "balanced", "tol": 1e-6},
        {"gamma": "auto", "C": 5.0, "tol": 1e-6, "break_ties": True},
    ):
        yield classify("svm", svm.SVC, "wine", hyperparams, probe=1e-3)
    yield classify("nu_svm", svm.NuSVC, "wine", {"nu": 0.1, "tol": 1e-6}, probe=1e-3)
    yield regress("svm", svm.SVR, hyperparams={"C": 100.0, "epsilon": 5.0, "tol": 1e-5}, probe=1e-3)
    yield regress("nu_svm", svm.NuSVR, hyperparams={"C": 100.0, "nu": 0.2, "tol": 1e-5}, probe=1e-3)
    # As exact as by default.
    yield classify("svm", svm.SVC, "digits", scaled=False, probe=5e-3)
    yield classify("svm", svm.SVC, "breast_cancer", scaled=False, probe=5e-3)
    yield regress("svm", svm.SVR, scaled=False, probe=5e-3)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = [case for family in (nearest_neighbours, support_vectors) for case in family()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")
