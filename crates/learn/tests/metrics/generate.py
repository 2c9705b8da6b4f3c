"""Writes cases.json: predictions, and what scikit-learn says of them.

Run it by hand when a metric or a case is added (scikit-learn 1.6 or later):

    python generate.py > cases.json

The cases are fixed by a seed, so that a second run gives the same file.
"""

import json
import math
import sys
import warnings

import numpy as np
import sklearn
from sklearn import metrics as sk

rng = np.random.default_rng(20260101)


def plain(value):
    value = float(value)
    return value if math.isfinite(value) else None


def regression(name, truth, predicted):
    truth, predicted = np.asarray(truth, float), np.asarray(predicted, float)
    expected = {
        "r2": plain(sk.r2_score(truth, predicted)),
        "mean_absolute_error": plain(sk.mean_absolute_error(truth, predicted)),
        "mean_squared_error": plain(sk.mean_squared_error(truth, predicted)),
        "root_mean_squared_error": plain(sk.root_mean_squared_error(truth, predicted)),
    }
    return {"name": name, "truth": truth.tolist(), "predicted": predicted.tolist(), "expected": expected}


def classification(name, classes, truth, probabilities):
    """`probabilities` has a column for each class, in float32, as models give them."""
    truth = np.asarray(truth)
    probabilities = np.asarray(probabilities, np.float32)
    predicted = (probabilities[:, 1] > 0.5).astype(int) if classes == 2 else probabilities.argmax(axis=1)
    average = {"average": "binary" if classes == 2 else "macro", "zero_division": 0}
    labels = list(range(classes))
    present = [c for c in labels if 0 < (truth == c).sum() < len(truth)]
    if not present:
        roc_auc = None
    elif classes == 2:
        roc_auc = sk.roc_auc_score(truth, probabilities[:, 1])
    else:
        # One against the rest by hand, so that classes without rows can be left out; where there are none, it is
        # what multi_class="ovr" gives, which is asserted.
        roc_auc = np.mean([sk.roc_auc_score(truth == c, probabilities[:, c]) for c in present])
        if len(present) == classes:
            whole = probabilities.astype(float)
            whole /= whole.sum(axis=1, keepdims=True)
            ties_kept = all(len(np.unique(whole[:, c])) == len(np.unique(probabilities[:, c])) for c in labels)
            direct = sk.roc_auc_score(truth, whole, multi_class="ovr", average="macro", labels=labels)
            assert not ties_kept or math.isclose(roc_auc, direct, rel_tol=1e-5), (name, roc_auc, direct)
    rows_of = [c for c in labels if (truth == c).any()]
    if classes == 2:
        precisions = [sk.average_precision_score(truth, probabilities[:, 1])] if 1 in rows_of else []
    else:
        precisions = [sk.average_precision_score(truth == c, probabilities[:, c]) for c in rows_of]
    exact = probabilities.astype(float)
    distances = (exact - np.eye(classes)[truth]) ** 2
    expected = {
        "f1": plain(sk.f1_score(truth, predicted, **average)),
        "precision": plain(sk.precision_score(truth, predicted, **average)),
        "recall": plain(sk.recall_score(truth, predicted, **average)),
        "accuracy": plain(sk.accuracy_score(truth, predicted)),
        "balanced_accuracy": plain(sk.balanced_accuracy_score(truth, predicted)),
        "mcc": plain(sk.matthews_corrcoef(truth, predicted)),
        "roc_auc": None if roc_auc is None else plain(roc_auc),
        "average_precision": plain(np.mean(precisions)) if precisions else None,
        "log_loss": plain(sk.log_loss(truth, probabilities, labels=labels)),
        # By hand: scikit-learn refuses rows that do not add up to one exactly.
        "brier": plain(np.mean(distances[:, 1] if classes == 2 else distances.sum(axis=1))),
    }
    return {
        "name": name,
        "classes": classes,
        "truth": truth.tolist(),
        "probabilities": [[float(p) for p in row] for row in probabilities],
        "expected": expected,
    }


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def two(positive):
    positive = np.asarray(positive, np.float32)
    return np.column_stack([np.float32(1) - positive, positive])


def regressions():
    truth = rng.normal(size=80)
    yield regression("noise around the truth", truth, truth + rng.normal(scale=0.3, size=80))
    yield regression("worse than the mean", truth, -truth)
    yield regression("perfect", truth, truth)
    yield regression("far from zero", truth + 1e6, truth + 1e6 + rng.normal(scale=0.1, size=80))
    yield regression("far from one another", 10.0 ** rng.uniform(-6, 9, 50), 10.0 ** rng.uniform(-6, 9, 50))
    yield regression("a constant truth, missed", np.full(10, 3.0), np.full(10, 2.5))
    yield regression("a constant truth, hit", np.full(10, 3.0), np.full(10, 3.0))
    yield regression("two rows", [1.0, 2.0], [1.5, 1.0])
    yield regression("one row", [1.0], [1.5])


def classifications():
    truth = rng.integers(0, 2, 80)
    score = np.clip(rng.normal(0.35 + 0.3 * truth, 0.2), 0.001, 0.999)
    yield classification("two classes", 2, truth, two(score))
    yield classification("two classes, many ties", 2, truth, two(np.round(score, 1)))
    yield classification("two classes, certain and sometimes wrong", 2, truth, two(np.where(score > 0.5, 1.0, 0.0)))
    yield classification("two classes, perfect", 2, truth, two(truth * 0.8 + 0.1))
    yield classification("two classes, positive never predicted", 2, truth, two(score * 0.4))
    yield classification("two classes, a rare one", 2, (np.arange(60) % 20 == 0).astype(int), two(rng.uniform(size=60)))
    yield classification("two classes, only negatives are there", 2, np.zeros(20, int), two(rng.uniform(size=20)))
    yield classification("two classes, only positives are there", 2, np.ones(20, int), two(rng.uniform(size=20)))
    yield classification("two classes, one half exactly", 2, [0, 1, 1, 0], two([0.5, 0.5, 0.75, 0.25]))

    truth = rng.integers(0, 4, 100)
    scores = rng.normal(size=(100, 4))
    scores[np.arange(100), truth] += 1.0
    yield classification("four classes", 4, truth, softmax(scores))
    # Powers of two, so that each row's sum is exactly one and rows tie.
    rounded = np.array([[0.5, 0.25, 0.125, 0.125]])[:, [0, 1, 2, 3]]
    tied = np.array([rng.permutation(rounded[0]) for _ in range(100)])
    yield classification("four classes, many ties", 4, truth, tied)
    scores[:, 2] -= 100.0
    yield classification("four classes, one never predicted", 4, truth, softmax(scores))
    yield classification("four classes, one never there", 4, np.where(truth == 3, 0, truth), softmax(scores))
    gone = softmax(scores)
    gone[:, 3] = 0.0
    yield classification(
        "four classes, one neither there nor predicted",
        4,
        np.where(truth == 3, 0, truth),
        gone / gone.sum(axis=1, keepdims=True),
    )
    yield classification("three classes, all rows of one", 3, np.full(30, 1), softmax(rng.normal(size=(30, 3))))
    certain = np.eye(3)[np.arange(30) % 3]
    yield classification("three classes, perfect and certain", 3, np.arange(30) % 3, certain)
    yield classification("three classes, always wrong and certain", 3, (np.arange(30) + 1) % 3, certain)
    yield classification("three classes, one row", 3, [2], softmax(rng.normal(size=(1, 3))))


def main():
    warnings.simplefilter("ignore")
    table = {
        "scikit-learn": sklearn.__version__,
        "regression": list(regressions()),
        "classification": list(classifications()),
    }
    lines = ["{"]
    lines.append(f' "scikit-learn": {json.dumps(table["scikit-learn"])},')
    for key in ("regression", "classification"):
        lines.append(f' "{key}": [')
        lines.append(",\n".join("  " + json.dumps(case) for case in table[key]))
        lines.append(" ]," if key == "regression" else " ]")
    lines.append("}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
