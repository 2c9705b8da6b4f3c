"""How long scikit-learn takes for what src/families/speed.rs measures, on the same rows."""

import time
import warnings

import linear
import numpy
from sklearn import neighbors, svm

ROWS, WIDTH = 20_000, 20


def units(count):
    """The first numbers of src/random.rs with seed 0."""
    state = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    state ^= state >> numpy.uint64(31)
    return (state >> numpy.uint64(11)).astype(float) / 2.0**53


def measure(data, task, name, model, train, labels, test):
    """Prints how long a model takes to train and to predict."""
    begun = time.perf_counter()
    model.fit(train, labels)
    fitted = time.perf_counter()
    model.predict(test)
    print(f"{data} {task} {name}: fit {fitted - begun:.3f} s, predict {time.perf_counter() - fitted:.3f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    numbers = 2 * units(ROWS * WIDTH + ROWS) - 1
    features = (numbers[: ROWS * WIDTH] * 3**0.5).reshape(ROWS, WIDTH).astype(numpy.float32).astype(float)
    noise = 0.5 * numbers[ROWS * WIDTH :]
    labels = numpy.sin(2 * features[:, 0]) + features[:, 1] * features[:, 2] + noise
    tests = numpy.arange(ROWS) % 4 == 3
    regressors = (("knn", neighbors.KNeighborsRegressor()), ("svm", svm.SVR()), ("nu_svm", svm.NuSVR()))
    classifiers = (("knn", neighbors.KNeighborsClassifier()), ("svm", svm.SVC()), ("nu_svm", svm.NuSVC()))
    for name, model in regressors:
        measure("20000x20", "regression", name, model, features[~tests], labels[~tests], features[tests])
    for name, model in classifiers:
        measure("20000x20", "classification", name, model, features[~tests], labels[~tests] > 0, features[tests])
    train, labels, test, _ = linear.split("digits", False)
    for name, model in classifiers:
        measure("digits", "classification", name, model, train, labels, test)
