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
SEEDS = 10


def data_set(name):
    """Features and labels of a built-in data set, as float32 has them."""
    with (DATASETS / f"{name}.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    labels = [{"true": 1.0, "t": 1.0, "false": 0.0, "f": 0.0}.get(row[-1]) for row in rows]
    labels = [float(row[-1]) if label is None else label for row, label in zip(rows, labels, strict=True)]
    if name == "digits":
        features = [[int(pixel, 17) for pixel in row[0] if pixel != " "] for row in rows]
    else:
        features = [[float(value) for value in row[:-1]] for row in rows]
    return numpy.array(features, dtype=numpy.float32).astype(float), numpy.array(labels)


def split(name, scaled):
    """Rows to train on with their labels, and rows to predict with theirs."""
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
    """What a model predicts: numbers, or what speaks for the last class."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(test)[:, -1]
    if hasattr(model, "decision_function"):
        scores = model.decision_function(test)
        return scores if scores.ndim == 1 else scores[:, -1]
    return model.predict(test)


def case(task, family, model, data, hyperparams=None, *, scaled=True, exact=None, margin=0.0, probe=1e-4):
    """`exact` is what scikit-learn is given beyond `hyperparams` to come closer to the solution. With a `margin` the
    score is the mean over some seeds.
    """
    hyperparams = hyperparams or {}
    train, train_labels, test, test_labels = split(data, scaled)
    if margin:
        scores = [
            model(**hyperparams, random_state=seed).fit(train, train_labels).score(test, test_labels)
            for seed in range(SEEDS)
        ]
        spread = numpy.std(scores)
        print(f"{family} {data} {hyperparams}: {numpy.mean(scores):.4f}, deviation {spread:.4f}", file=sys.stderr)
    fitted = model(**{**hyperparams, **(exact or {})}).fit(train, train_labels)
    return {
        "task": task,
        "family": family,
        "data": data,
        "scaled": scaled,
        "hyperparams": hyperparams,
        "score": round(float(numpy.mean(scores) if margin else fitted.score(test, test_labels)), 6),
        "margin": margin or 1e-4,
        "probe": [] if margin else [float(f"{value:.7g}") for value in values(fitted, test)[:ROWS]],
        "probe_margin": probe,
    }


def regress(family, model, data="diabetes", hyperparams=None, **options):
    """A regression, by default of diabetes."""
    return case("regression", family, model, data, hyperparams, **options)


def classify(family, model, data, hyperparams=None, **options):
    """A classification."""
    return case("classification", family, model, data, hyperparams, **options)


EXACT = {"tol": 1e-10, "max_iter": 100_000}


def least_squares():
    """Least squares, and costs on the coefficients."""
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
    """Logistic regression and ridge classification."""
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


def stochastic():
    """One row after the other."""
    sgd = linear_model.SGDRegressor
    for hyperparams in (
        {},
        {"loss": "huber", "epsilon": 1.0, "learning_rate": "adaptive", "eta0": 0.05},
        {"loss": "epsilon_insensitive", "penalty": "l1", "alpha": 0.01, "eta0": 0.5},
        {"loss": "squared_epsilon_insensitive", "average": True, "learning_rate": "constant"},
        {"penalty": "elasticnet", "early_stopping": True},
    ):
        yield regress("stochastic_gradient_descent", sgd, hyperparams=hyperparams, margin=0.05)
    for hyperparams in ({}, {"loss": "squared_epsilon_insensitive", "C": 0.001, "average": True}):
        model = linear_model.PassiveAggressiveRegressor
        yield regress("passive_aggressive", model, hyperparams=hyperparams, margin=0.2 if not hyperparams else 0.05)
    for data in ("wine", "breast_cancer", "digits"):
        # Those of the many classes take the longest, so they are few.
        losses = ("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron", "squared_error")
        for loss in losses[2:3] if data == "digits" else losses:
            hyperparams = {"loss": loss, "alpha": 0.001}
            if loss == "squared_error":
                hyperparams.update({"learning_rate": "invscaling", "eta0": 0.001, "class_weight": "balanced"})
            yield classify("stochastic_gradient_descent", linear_model.SGDClassifier, data, hyperparams, margin=0.04)
        if data == "digits":
            continue
        hyperparams = {"penalty": "l1", "loss": "log_loss", "average": True}
        yield classify("stochastic_gradient_descent", linear_model.SGDClassifier, data, hyperparams, margin=0.04)
        yield classify("perceptron", linear_model.Perceptron, data, margin=0.04)
        yield classify("perceptron", linear_model.Perceptron, data, {"penalty": "l2", "alpha": 1e-3}, margin=0.04)
        for loss in ("hinge", "squared_hinge"):
            hyperparams = {"loss": loss, "C": 0.1}
            yield classify(
                "passive_aggressive", linear_model.PassiveAggressiveClassifier, data, hyperparams, margin=0.04
            )


def machines():
    """Support vector machines and Huber's loss."""
    exact = {"tol": 1e-7, "max_iter": 1_000_000}
    for hyperparams in ({}, {"loss": "hinge", "C": 0.1}, {"penalty": "l1", "C": 0.5}, {"class_weight": "balanced"}):
        for data in ("wine", "breast_cancer"):
            # Of several classes LinearSVC weighs the one that is told from the rest, and not the rest.
            if data == "wine" and "class_weight" in hyperparams:
                continue
            yield classify("linear_svm", svm.LinearSVC, data, hyperparams, exact=exact, probe=1e-3)
    hyperparams = {"intercept_scaling": 10.0, "fit_intercept": False}
    yield classify("linear_svm", svm.LinearSVC, "iris", hyperparams, exact=exact)
    for hyperparams in ({}, {"epsilon": 5.0}, {"loss": "squared_epsilon_insensitive", "epsilon": 1.0, "C": 0.01}):
        # Stopped by its default tolerance, the method is some thousandths from the exact optimum.
        yield regress("linear_svm", svm.LinearSVR, hyperparams=hyperparams, exact=exact, margin=0.005, probe=0.05)
    for hyperparams in ({}, {"epsilon": 1.5, "alpha": 10.0}, {"fit_intercept": False}):
        yield regress(
            "huber", linear_model.HuberRegressor, hyperparams=hyperparams, exact={"tol": 1e-9, "max_iter": 10_000}
        )


def bayesian():
    """Costs that are learnt."""
    for hyperparams in ({}, {"fit_intercept": False}, {"tol": 1e-6, "alpha_1": 1.0, "lambda_2": 10.0}):
        for scaled in (True, False):
            yield regress("bayesian_ridge", linear_model.BayesianRidge, hyperparams=hyperparams, scaled=scaled)
            hard = {"threshold_lambda": 1.0, **hyperparams} if scaled else hyperparams
            yield regress(
                "automatic_relevance_determination", linear_model.ARDRegression, hyperparams=hard, scaled=scaled
            )
    yield regress("bayesian_ridge", linear_model.BayesianRidge, "digits")
    yield regress("automatic_relevance_determination", linear_model.ARDRegression, "wine")


def chosen():
    """Features chosen one by one."""
    for hyperparams in ({"n_nonzero_coefs": 4}, {"fit_intercept": False, "n_nonzero_coefs": 7}):
        yield regress("least_angle", linear_model.Lars, hyperparams=hyperparams)
    # At the end of the whole way is least squares, as Efron et al. have it; scikit-learn leaves it where a coefficient
    # changes its sign.
    yield regress("least_angle", linear_model.LinearRegression)
    for hyperparams in ({}, {"alpha": 0.01}, {"alpha": 0.0}):
        yield regress("lasso_least_angle", linear_model.LassoLars, hyperparams=hyperparams)
    # The lasso's own solution, which scikit-learn's way misses where a feature leaves it.
    hyperparams = {"alpha": 0.1, "positive": True}
    yield regress("lasso_least_angle", linear_model.Lasso, hyperparams=hyperparams, exact=EXACT)
    yield regress("lasso_least_angle", linear_model.LassoLars, "digits", {"alpha": 0.01})
    yield regress("lasso_least_angle", linear_model.LassoLars, "breast_cancer", {"alpha": 0.001})
    for hyperparams in ({}, {"n_nonzero_coefs": 5}, {"tol": 1e6}, {"n_nonzero_coefs": 10, "fit_intercept": False}):
        yield regress("orthogonal_matching_pursuit", linear_model.OrthogonalMatchingPursuit, hyperparams=hyperparams)
    yield regress("orthogonal_matching_pursuit", linear_model.OrthogonalMatchingPursuit, "digits")


def robust():
    """Outliers, medians and quantiles."""
    hyperparams = {"residual_threshold": 80.0, "min_samples": 0.5}
    yield regress("ransac", linear_model.RANSACRegressor, hyperparams=hyperparams, margin=0.06)
    for hyperparams in ({}, {"n_subsamples": 50, "max_subpopulation": 2000}):
        yield regress("theil_sen", linear_model.TheilSenRegressor, hyperparams=hyperparams, margin=0.05)
    for quantile in (0.1, 0.5, 0.9):
        for alpha in (0.0, 0.05):
            hyperparams = {"quantile": quantile, "alpha": alpha}
            yield regress("quantile", linear_model.QuantileRegressor, hyperparams=hyperparams)
    hyperparams = {"quantile": 0.3, "alpha": 0.001, "fit_intercept": False}
    yield regress("quantile", linear_model.QuantileRegressor, hyperparams=hyperparams)


def naive():
    """Naive Bayes."""
    for data in ("iris", "wine", "breast_cancer", "digits"):
        yield classify("naive_bayes", naive_bayes.GaussianNB, data, scaled=False)
    hyperparams = {"priors": [0.2, 0.3, 0.5], "var_smoothing": 0.1}
    yield classify("naive_bayes", naive_bayes.GaussianNB, "wine", hyperparams)


FAMILIES = [least_squares, logistic, stochastic, machines, bayesian, chosen, robust, naive]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = [case for family in FAMILIES for case in family()]
    lines = ",\n".join(json.dumps(case) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")
