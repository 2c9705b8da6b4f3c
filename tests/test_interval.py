"""pgml.predict_interval: intervals hold the share of fresh labels that they promise."""

import json
import math

import numpy as np
import pytest
import xgboost

from tests.test_evaluate import OWNER, STRANGER, fetch, loaded, state  # noqa: F401
from tests.test_importance import booster

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

# Rows of y = 3a - b + noise, whose noise has long tails; each seed draws others.
ROWS = """
    SELECT a::real, b::real, (3 * a - b + noise * abs(noise))::real AS y
    FROM (SELECT random() AS a, random() AS b, sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS noise FROM generate_series(1, {count})) x
"""


@pytest.fixture(scope="module")
def trained(loaded):  # noqa: F811
    """A project of its own of each algorithm, and fresh rows."""
    loaded.sql(f"""
        SELECT setseed(0.5);
        CREATE TABLE noisy AS {ROWS.format(count=4000)};
        CREATE TABLE fresh AS {ROWS.format(count=10000)};
        GRANT SELECT ON noisy, fresh TO {OWNER}, {STRANGER};
        SET ROLE {OWNER};
        SELECT pgml.train('noisy linear', 'regression', 'noisy', 'y', 'linear', test_sampling => 'last');
        SELECT pgml.train('noisy xgboost', 'regression', 'noisy', 'y', 'xgboost', '{{"n_estimators": 30}}');
        SELECT pgml.train('noisy random_forest', 'regression', 'noisy', 'y', 'random_forest',
            '{{"n_estimators": 10}}', test_size => 200);
    """)
    return loaded


@pytest.mark.parametrize("algorithm, test_rows", [("linear", 1000), ("xgboost", 1000), ("random_forest", 200)])
@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_intervals_hold_the_share_of_fresh_labels_that_they_promise(trained, algorithm, test_rows, coverage):
    """Given the held-out rows, coverage is of a Beta distribution: four of its deviations, and what rounding up adds."""
    held = trained.sql(f"""
        SELECT avg((y BETWEEN lower AND upper)::int)
        FROM fresh f, LATERAL pgml.predict_interval('noisy {algorithm}', f, {coverage})
    """)
    deviation = math.sqrt(coverage * (1 - coverage) / test_rows)
    rounded = 1 / min(250, test_rows)
    assert coverage - 4 * deviation <= float(held) <= coverage + rounded + 4 * deviation


def test_an_interval_lies_around_the_prediction(trained):
    ask = """
        SELECT count(*) FROM fresh f, LATERAL pgml.predict_interval({0}, {1}) i
        WHERE prediction = pgml.predict({0}, f) AND lower < prediction AND upper > prediction
            AND abs((upper - prediction) - (prediction - lower)) < 1e-4
    """
    model = trained.sql("SELECT id FROM pgml.deployed_models WHERE name = 'noisy xgboost'")
    for named in ("'noisy xgboost'", model):
        assert trained.sql(ask.format(named, "f")) == "10000"
        assert trained.sql(ask.format(named, "ARRAY[f.a, f.b]")) == "10000"
        assert trained.sql(ask.format(named, "format('{%s, %s}', f.a, f.b)")) == "10000"
    assert trained.sql("SELECT pgml.predict_interval('noisy xgboost', NULL::real[]) IS NULL") == "t"


def test_the_distances_are_those_of_the_held_out_rows(trained):
    """Of the last quarter: the reach is the distance of the right rank."""
    distances = fetch(trained, """
        SELECT abs(y - pgml.predict('noisy linear', n))::real FROM (SELECT * FROM noisy OFFSET 3000) n ORDER BY 1
    """)  # fmt: skip
    ((upper, prediction),) = fetch(
        trained, "SELECT upper, prediction FROM pgml.predict_interval('noisy linear', ARRAY[0.5, 0.5], 0.8)"
    )
    # The rank is at least 0.8 * 1001, rounded up to the next of 250 that are kept of the 1000.
    assert upper - prediction == pytest.approx(distances[804 - 1][0], abs=1e-5)


def test_several_quantiles_come_from_one_model(trained):
    """Each is below its share of fresh labels, and all are what the library predicts."""
    trained.sql("""
        SELECT pgml.train('quantiles', 'regression', 'noisy', 'y', 'xgboost', '{"objective": "reg:quantileerror",
            "quantile_alpha": [0.1, 0.5, 0.9], "n_estimators": 60, "max_depth": 3, "learning_rate": 0.2}')
    """)
    rows = fetch(trained, "SELECT a, b, y, pgml.predict_joint('quantiles', f) FROM fresh f")
    predicted = np.array([row[3] for row in rows])
    below = (np.array([[row[2]] for row in rows]) <= predicted).mean(axis=0)
    assert below == pytest.approx([0.1, 0.5, 0.9], abs=0.05)
    model = trained.sql("SELECT max(id) FROM pgml.models")
    names = booster(trained, model).feature_names
    library = booster(trained, model).predict(
        xgboost.DMatrix(np.array([row[:2] for row in rows], dtype=np.float32), feature_names=names)
    )
    assert (library == predicted.astype(np.float32)).all()
    # The median is what is measured, and no single value stands for three.
    evaluated = json.loads(trained.sql("SELECT pgml.evaluate('quantiles', 'fresh')"))
    error = np.abs(np.array([row[2] for row in rows]) - predicted[:, 1]).mean()
    assert evaluated["mean_absolute_error"] == pytest.approx(error, rel=1e-4)
    assert state(trained, OWNER, "SELECT pgml.predict('quantiles', ARRAY[1, 2])") == "0A000"
    wrong = "SELECT pgml.train('quantiles', hyperparams => '{\"objective\": \"reg:quantileerror\", \"quantile_alpha\": %s}', algorithm => 'xgboost')"
    for alpha in ("[0.5, 0.1]", "[]", "[0.5, 2]", "[0.5, 0.5]", "[null]"):
        assert state(trained, "postgres", wrong % alpha) == "22023", alpha


def test_too_few_rows_promise_nothing(loaded):  # noqa: F811
    loaded.sql("""
        SELECT pgml.train('few', 'regression', '(SELECT bmi, target FROM pgml.diabetes)', 'target', 'linear', test_size => 9)
    """)
    wide = "SELECT lower, upper FROM pgml.predict_interval('few', ARRAY[0.05], {})"
    assert fetch(loaded, wide.format(0.95))[0] == [-math.inf, math.inf]
    assert all(map(math.isfinite, fetch(loaded, wide.format(0.9))[0]))


def test_intervals_are_the_same_in_parallel_workers_and_by_prepared_statements(trained):
    trained.sql("ANALYZE fresh")
    ask = "SELECT sum(upper - lower) FROM fresh f, LATERAL pgml.predict_interval('noisy linear', f)"
    parallel = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; "
    assert float(trained.sql(parallel + ask)) == pytest.approx(float(trained.sql(ask)), rel=1e-6)


def test_who_may_predict_has_intervals(trained):
    ask = "SELECT pgml.predict_interval('noisy linear', ARRAY[0.5, 0.5])"
    assert state(trained, OWNER, ask) == state(trained, STRANGER, ask) == "00000"
    trained.sql("SELECT pgml.revoke('noisy linear', 'public', 'predict')")
    try:
        assert state(trained, STRANGER, ask) == "42704"
    finally:
        trained.sql("SELECT pgml.grant('noisy linear', 'public', 'predict')")


@pytest.mark.parametrize(
    "call, sqlstate",
    [
        ("predict_interval('nothing', ARRAY[1])", "42704"),
        ("predict_interval('noisy linear', ARRAY[1])", "22023"),
        ("predict_interval('noisy linear', ARRAY[1, 2], 0)", "22023"),
        ("predict_interval('noisy linear', ARRAY[1, 2], 1)", "22023"),
        ("predict_interval('noisy linear', ARRAY[1, 2], 'NaN')", "22023"),
        ("predict_interval('flowers', ARRAY[1, 2, 3, 0])", "0A000"),
        ("predict_interval('exercises', ARRAY[1, 2, 3])", "0A000"),
        ("predict_interval('untested', ARRAY[1])", "55000"),
    ],
)
def test_what_cannot_be_meant_is_refused(trained, call, sqlstate):
    trained.sql("""
        SELECT pgml.train('untested', 'regression', '(SELECT bmi, target FROM pgml.diabetes)', 'target', test_size => 0)
    """)
    assert state(trained, OWNER, f"SELECT pgml.{call}") == sqlstate
