"""Linear models of columns with many categories: what scikit-learn finds, in little memory."""

from pathlib import Path

import numpy
import pytest
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.preprocessing import OneHotEncoder

from devkit import Problem

NEWEST_ONLY = True


@pytest.fixture(scope="module")
def flights():
    """Numbers, and categories of which one tells the other: number, tail, maker, label, class."""
    random = numpy.random.default_rng(5)
    tails = random.integers(0, 300, 4000)
    numbers = random.normal(50, 9, 4000).astype("float32")
    labels = (numbers * 0.3 + (tails * 7 % 13) + random.normal(size=4000)).astype("float32")
    return numbers, tails, tails % 11, labels, (labels > 21).astype(int)


def load(database, flights):
    database.sql("CREATE TABLE flights (number real, tail text, maker text, y real, late int, place int)")
    with database.connect() as connection:
        rows = [
            f"({n!r}, 't{t}', 'm{m}', {y!r}, {c}, {i})"
            for i, (n, t, m, y, c) in enumerate(zip(*(column.tolist() for column in flights), strict=True))
        ]
        connection.cursor().execute(f"INSERT INTO flights VALUES {', '.join(rows)}")


@pytest.mark.parametrize(
    ("algorithm", "hyperparams", "task", "library"),
    [
        ("linear", "{}", "regression", LinearRegression()),
        ("ridge", '{"alpha": 2}', "regression", Ridge(alpha=2)),
        (
            "lasso",
            '{"alpha": 0.001, "tol": 1e-8, "max_iter": 100000}',
            "regression",
            Lasso(alpha=0.001, tol=1e-8, max_iter=100000),
        ),
        (
            "linear",
            '{"max_iter": 5000, "tol": 1e-8}',
            "classification",
            LogisticRegression(max_iter=5000, tol=1e-8, solver="newton-cholesky"),
        ),
    ],
)
def test_many_categories_give_the_librarys_model(database, flights, algorithm, hyperparams, task, library):
    load(database, flights)
    label = "y" if task == "regression" else "late"
    database.sql(f"""SELECT pgml.train('p', '{task}', '(SELECT number, tail, maker, {label} FROM flights)', '{label}',
        '{algorithm}', hyperparams => '{hyperparams}', test_size => 0)""")
    numbers, tails, makers, labels, classes = flights
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(numpy.c_[tails, makers])

    def features(number, tail, maker):
        return numpy.c_[number, encoder.transform(numpy.c_[tail, maker])].astype(float)

    library.fit(features(numbers, tails, makers), labels if task == "regression" else classes)
    # The last two have categories that training has not seen.
    asked = [(40.0, 3, 3), (55.5, 250, 8), (50.0, 999, 4), (50.0, 999, 99)]
    expected = library.predict(features(*zip(*asked, strict=True)))
    called = "pgml.predict('p', {}::real, 't{}'::text, 'm{}'::text)"
    if task == "classification":
        expected = library.predict_proba(features(*zip(*asked, strict=True)))[:, 1]
        called = "(pgml.predict_proba('p', {}::real, 't{}'::text, 'm{}'::text))[2]"
    own = [float(database.sql("SELECT " + called.format(*row))) for row in asked]
    assert own == pytest.approx(expected, abs=2e-3 if task == "classification" else 1e-3)
    if task == "regression":
        # Explanations are of the features, each of which the model has.
        total = "SELECT sum(contribution) FROM pgml.explain('p', 55.5::real, 't250'::text, 'm8'::text)"
        assert float(database.sql(total)) == pytest.approx(own[1], abs=1e-3)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_thousands_of_categories_take_little_memory(database, task):
    """A dense matrix of these rows has 1.2 GB as float32."""
    database.sql(
        "CREATE TABLE t AS SELECT i % 2 AS y, 'k' || i * 7 % 3001 AS k, i % 97 AS n FROM generate_series(1, 100000) AS i"
    )
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        process = cursor.fetchone()[0]
        hyperparams = '{"max_iter": 5}' if task == "classification" else "{}"
        cursor.execute(f"SELECT pgml.train('p', '{task}', 't', 'y', 'linear', hyperparams => '{hyperparams}')")
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    peak = int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
    assert peak < 500


def test_a_column_beside_an_indicator_is_named_when_it_is_missing(database):
    database.sql("""
        CREATE TABLE t AS SELECT i % 7 AS y, CASE WHEN i % 5 > 0 THEN i END AS a, 'k' || i % 30 AS k,
            CASE WHEN i % 11 > 0 THEN i END AS b FROM generate_series(1, 400) AS i;
        SET pgml.strict = on
    """)
    train = """SET pgml.strict = on; SELECT pgml.train('p', 'regression', 't', 'y', 'linear',
        preprocess => '{"a": {"impute": "mean", "indicator": true}%s}')"""
    with pytest.raises(Problem, match='column "b" is NULL'):
        database.sql(train % "")
    database.sql(train % ', "b": {"impute": "zero"}')
    assert database.sql("SELECT pgml.predict('p', NULL::int, 'k1'::text, 3) IS NOT NULL") == "t"
