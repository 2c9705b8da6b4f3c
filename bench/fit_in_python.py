"""One training, search or scoring in Python, in a process of its own so that its peak of memory is its own: see
`families` and `search`.
"""

import importlib
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pandas
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler


def estimator(asked):
    """The estimator of `asked["class"]`, a dotted name, with its parameters."""
    module, _, name = asked["class"].rpartition(".")
    return getattr(importlib.import_module(module), name)(**asked["parameters"])


def fetch(copy):
    """The rows that psql writes as CSV, as float32, which takes the least time and room."""
    with subprocess.Popen(copy, stdout=subprocess.PIPE) as psql:
        return pandas.read_csv(psql.stdout, dtype=numpy.float32)


def train(asked, model):
    """From the first row read to the model and its score on the rows held out."""
    start = time.perf_counter()
    features = fetch(asked["copy"])
    if asked["label"] is None:
        learnt, held_out = train_test_split(features.to_numpy(), test_size=0.25, random_state=0)
        model.fit(learnt)
        if asked["task"] == "clustering":
            clusters = model.predict(held_out)
            silhouette_score(StandardScaler().fit_transform(held_out), clusters)
            for measure in (davies_bouldin_score, calinski_harabasz_score):
                measure(held_out, clusters)
        if asked["task"] == "anomaly":
            model.decision_function(held_out)
        return time.perf_counter() - start, model
    labels = features.pop(asked["label"]).to_numpy()
    if asked["task"] == "classification":
        labels = labels.astype(int)
    parts = train_test_split(features.to_numpy(), labels, test_size=0.25, random_state=0)
    if "grid" in asked:
        model = GridSearchCV(model, asked["grid"], cv=asked["folds"])
    model.fit(parts[0], parts[2])
    model.score(parts[1], parts[3])
    return time.perf_counter() - start, model


def score(asked, model):
    """Fetches the rows, predicts, and writes keys and predictions back by COPY."""
    start = time.perf_counter()
    features = fetch(asked["copy"])
    if asked["label"] is not None:
        features.pop(asked["label"])
    predictions = model.predict(features.to_numpy())
    rows = pandas.DataFrame({"id": numpy.arange(len(predictions)), "prediction": predictions})
    text = io.StringIO()
    rows.to_csv(text, header=False, index=False)
    subprocess.run(asked["write"], input=text.getvalue(), text=True, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    """Does what the JSON in the one argument asks for, and prints what it took as JSON."""
    asked = json.loads(sys.argv[1])
    model = estimator(asked)
    seconds, model = train(asked, model)
    found = {"seconds": seconds}
    status = Path("/proc/self/status").read_text()
    found["peak_mb"] = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
    if "write" in asked:
        found["scoring"] = score(asked, model)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
