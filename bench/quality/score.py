"""How good predictions are, and how those of two sides compare.

The headline of a regression is r2, with the mean of the training rows in place of the test rows'. The headline of a
classification is the area under the ROC curve, of many classes the mean of each against the rest; beside it stands the
skill of the probabilities, which is r2's like: 1 - log loss / log loss of who knows only how often each class is.

A ratio of two numbers near 0 says little: an r2 of 0.04 for 0.05 would be a fifth lost. So below a half, the difference
is taken as a share of a half: `ratio`. An area is at least a half, so its ratio is what it seems.
"""

import numpy
from sklearn.metrics import roc_auc_score

LEAST = 1e-5
HALF = 0.5
HEADLINE = {"regression": "skill", "classification": "auc"}


def judged(task, labels, predicted, classes=None):
    """The mean loss, and of a classification the area under the ROC curve; there `predicted` has a column of
    probabilities for each of `classes`.
    """
    if task == "regression":
        return {"loss": float(numpy.mean((numpy.asarray(labels, float) - numpy.asarray(predicted, float)) ** 2))}
    predicted = numpy.clip(numpy.asarray(predicted, float), LEAST, 1)
    predicted /= predicted.sum(axis=1, keepdims=True)
    place = {name: number for number, name in enumerate(classes)}
    # A class that the training had not costs the same, whoever predicts.
    given = [row[place[label]] if label in place else LEAST for row, label in zip(predicted, labels, strict=True)]
    return {"loss": float(-numpy.mean(numpy.log(given))), "auc": area(numpy.asarray(labels), predicted, place)}


def area(labels, predicted, place):
    """The area under the ROC curve, or the mean of those of each class that some of the rows have, and some not."""
    here = [name for name in place if 0 < numpy.sum(labels == name) < len(labels)]
    return float(numpy.mean([roc_auc_score(labels == name, predicted[:, place[name]]) for name in here] or [HALF]))


def of_nothing(task, learnt, labels):
    """The same for who has seen only the labels `learnt`."""
    if task == "regression":
        return judged(task, labels, numpy.full(len(labels), numpy.mean(numpy.asarray(learnt, float))))
    classes, counts = numpy.unique(learnt, return_counts=True)
    return judged(task, labels, numpy.tile(counts / counts.sum(), (len(labels), 1)), classes.tolist())


def together(parts, nothing):
    """The skill, and the area, of predictions of several parts of a set; None where one has none."""
    if any(part is None for part in parts):
        return None
    loss, none = (numpy.mean([part["loss"] for part in side]) for side in (parts, nothing))
    areas = [part["auc"] for part in parts if "auc" in part]
    return {"skill": float(1 - loss / none)} | ({"auc": float(numpy.mean(areas))} if areas else {})


def ratio(ours, theirs):
    """A figure as a part of another, or of a half where that is greater; 0 for no model and for what is far worse than
    knowing nothing.
    """
    return 0.0 if ours is None else max(0.0, 1 + (ours - theirs) / max(theirs, HALF))
