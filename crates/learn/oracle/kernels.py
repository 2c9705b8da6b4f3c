"""As linear.py, for what predicts by distances or kernels: nearest neighbours, support vectors, Gaussian processes.

    python crates/learn/oracle/kernels.py > crates/learn/oracle/kernels.json
"""

import json
import sys
import warnings

import linear
from linear import classify, regress
from sklearn import neighbors

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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = [case for family in (nearest_neighbours,) for case in family()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")
