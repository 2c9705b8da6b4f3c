"""What FLAML chooses for a data set of `bench.quality.sets`: `python -m bench.choice_in_python SET SECONDS THREADS`.

It runs in a virtual environment of its own. The last line of the output is JSON: how its model is judged on the test
rows, what it chose, and the seconds that it took.
"""

import json
import sys
import time
import warnings

import pandas
from flaml import AutoML

from bench.quality import score, sets
from bench.quality.script import labels_of, prepared


def main(name, budget, threads):
    """Learns from all but the test rows, and is judged on them."""
    (one,) = (one for one in sets.SETS if one.name == name)
    rows = sets.load(one)
    learnt, test = sets.parts(one, rows)[0]
    learnt = learnt[rows[one.label].iloc[learnt].notna()]
    features = prepared(one, rows)
    texts = [name for name, column in features.items() if not pandas.api.types.is_numeric_dtype(column)]
    features[texts] = features[texts].astype("category")
    labels, unseen = labels_of(one, rows.iloc[learnt]), labels_of(one, rows.iloc[test])
    start = time.perf_counter()
    model = AutoML()
    model.fit(
        features.iloc[learnt].reset_index(drop=True), pandas.Series(labels), task=one.task, time_budget=int(budget),
        n_jobs=int(threads), seed=1, verbose=0,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    fresh = features.iloc[test].reset_index(drop=True)
    if one.task == "regression":
        judged = score.judged(one.task, unseen, model.predict(fresh))
    else:
        classes = [str(label) for label in model.classes_]
        judged = score.judged(one.task, list(unseen), model.predict_proba(fresh), classes)
    print(json.dumps({"judged": judged, "chose": model.best_estimator, "seconds": seconds}))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main(*sys.argv[1:])
