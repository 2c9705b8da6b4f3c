"""How long a processor works for scikit-learn with a hundred thousand rows (with one thread), beside
the ignored test `times` of src/families/linear_attack.rs. Left out is TheilSenRegressor, which takes minutes.
"""

import time
import warnings

import numpy
from sklearn import linear_model, naive_bayes, svm

ROWS, WIDTH = 100_000, 20
REGRESSION = {
    "linear": linear_model.LinearRegression,
    "ridge": linear_model.Ridge,
    "lasso": linear_model.Lasso,
    "elastic_net": linear_model.ElasticNet,
    "least_angle": linear_model.Lars,
    "lasso_least_angle": linear_model.LassoLars,
    "orthogonal_matching_pursuit": linear_model.OrthogonalMatchingPursuit,
    "bayesian_ridge": linear_model.BayesianRidge,
    "automatic_relevance_determination": linear_model.ARDRegression,
    "stochastic_gradient_descent": linear_model.SGDRegressor,
    "passive_aggressive": linear_model.PassiveAggressiveRegressor,
    "ransac": linear_model.RANSACRegressor,
    "huber": linear_model.HuberRegressor,
    "linear_svm": svm.LinearSVR,
}
CLASSIFICATION = {
    "linear": linear_model.LogisticRegression,
    "ridge": linear_model.RidgeClassifier,
    "linear_svm": svm.LinearSVC,
    "stochastic_gradient_descent": linear_model.SGDClassifier,
    "perceptron": linear_model.Perceptron,
    "passive_aggressive": linear_model.PassiveAggressiveClassifier,
    "naive_bayes": naive_bayes.GaussianNB,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    random = numpy.random.default_rng(1)
    features = random.normal(size=(ROWS, WIDTH)).astype(numpy.float32).astype(float)
    sums = features @ (1.0 / numpy.arange(1, WIDTH + 1))
    numbers, classes = sums + random.normal(size=ROWS), (sums + random.normal(size=ROWS) > 0).astype(int)
    for task, models, labels in (("regression", REGRESSION, numbers), ("classification", CLASSIFICATION, classes)):
        for name, model in models.items():
            start = time.process_time()
            model().fit(features, labels)
            print(f"{task} {name} {time.process_time() - start:.3f} s", flush=True)
