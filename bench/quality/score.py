"""How good a prediction is, and how two of them compare.

The score of both tasks is a skill: 1 - loss / loss of who knows nothing but the labels of the training rows, so 1 is
perfect and 0 is of no use. The loss of a regression is the squared error, and the skill is r2, with the mean of the
training rows in place of the test rows'; the loss of a classification is the log loss, since a probability is what is
asked for, and the skill is McFadden's.

A ratio of skills says little where both are near 0: 0.04 for 0.05 would be a fifth lost. So below a skill of a half,
the difference is taken as a share of a half: `ratio`.
"""

import math

import numpy

LEAST = 1e-5
HALF = 0.5


def losses(task, labels, predicted, classes=None):
    """The loss of each row; of a classification `predicted` has a column of probabilities for each of `classes`."""
    if task == "regression":
        return (numpy.asarray(labels, float) - numpy.asarray(predicted, float)) ** 2
    predicted = numpy.clip(numpy.asarray(predicted, float), LEAST, 1)
    predicted /= predicted.sum(axis=1, keepdims=True)
    place = {name: number for number, name in enumerate(classes)}
    given = [row[place[label]] if label in place else LEAST for row, label in zip(predicted, labels, strict=True)]
    return -numpy.log(given)


def of_nothing(task, learnt, labels):
    """The loss of each row for who has seen only the labels `learnt`."""
    if task == "regression":
        return losses(task, labels, numpy.full(len(labels), numpy.mean(numpy.asarray(learnt, float))))
    classes, counts = numpy.unique(learnt, return_counts=True)
    return losses(task, labels, numpy.tile(counts / counts.sum(), (len(labels), 1)), classes.tolist())


def skill(ours, nothing):
    """1 - loss / loss of who knows nothing."""
    return 1 - float(numpy.mean(ours) / numpy.mean(nothing))


def ratio(ours, theirs):
    """A skill as a part of another's, or of a half where that is greater; no model is a 0, and so is what is worse
    than nothing by far.
    """
    if ours is None or math.isnan(ours):
        return 0.0
    return max(0.0, 1 + (ours - theirs) / max(theirs, HALF))
