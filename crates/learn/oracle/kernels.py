"""As linear.py, for what predicts by distances or kernels: nearest neighbours, support vectors, Gaussian processes.

python crates/learn/oracle/kernels.py > crates/learn/oracle/kernels.json
"""

import json
import sys
import warnings

import linear
from linear import classify, regress
from sklearn import gaussian_process, kernel_ridge, neighbors, svm
from sklearn.gaussian_process import kernels

linear.ROWS = 30


def nearest_neighbours():
    """Cases of algorithm knn."""
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
    """Cases of algorithms svm and nu_svm."""
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


def ridges():
    """Cases of algorithm kernel_ridge."""
    options = [
        {},
        {"kernel": "rbf", "alpha": 0.5},
        {"kernel": "poly", "degree": 2, "alpha": 10.0},
        {"kernel": "laplacian", "gamma": 0.05, "alpha": 0.1},
        {"kernel": "cosine"},
        {"kernel": "sigmoid", "gamma": 0.001, "coef0": 0.0},
    ]
    for hyperparams in options:
        yield regress("kernel_ridge", kernel_ridge.KernelRidge, hyperparams=hyperparams)
    yield regress("kernel_ridge", kernel_ridge.KernelRidge, "digits", {"kernel": "rbf", "gamma": 0.001}, scaled=False)


def gaussian_processes():
    """Cases of algorithm gaussian_process."""
    regressor, classifier = gaussian_process.GaussianProcessRegressor, gaussian_process.GaussianProcessClassifier
    yield regress("gaussian_process", regressor, hyperparams={"optimizer": None})
    yield regress("gaussian_process", regressor, hyperparams={"alpha": 0.5, "normalize_y": True}, probe=2e-3)
    named = {
        "rbf": kernels.RBF(3.0),
        "matern": kernels.Matern(3.0, nu=1.5),
        "rational_quadratic": kernels.RationalQuadratic(3.0),
    }
    for name, kernel in named.items():
        hyperparams = {"kernel": name, "length_scale": 3.0, "alpha": 0.5, "normalize_y": True}
        for optimizer in ("fmin_l_bfgs_b", None):
            if name == "rational_quadratic" and optimizer:
                continue  # Its likelihood is so flat that each search ends elsewhere.
            given = {"kernel": kernel, "alpha": 0.5, "normalize_y": True, "optimizer": optimizer}
            model = lambda given=given, **_: regressor(**given)  # noqa: E731
            found = regress("gaussian_process", model, hyperparams={**hyperparams, "optimizer": optimizer}, probe=2e-3)
            yield found
    for data in ("iris", "wine", "breast_cancer"):
        yield classify("gaussian_process", classifier, data, probe=2e-3)
    yield classify("gaussian_process", classifier, "iris", scaled=False, probe=2e-3)
    model = lambda **_: classifier(kernels.RBF(2.0))  # noqa: E731
    yield classify("gaussian_process", model, "wine", {"kernel": "rbf", "length_scale": 2.0}, probe=5e-3)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = [case for family in (nearest_neighbours, support_vectors, ridges, gaussian_processes) for case in family()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")
