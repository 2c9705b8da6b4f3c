"""pgml.coefficients: coefficients, centres and components as rows, as scikit-learn has them."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LinearRegression

WHOLE = "test_size => 0, automatic_deploy => false"


@pytest.fixture
def data(database):
    database.sql("""
        SELECT pgml.load_dataset('iris'); SELECT pgml.load_dataset('diabetes');
        CREATE TABLE homes AS SELECT i AS size, ('{east,west,north}'::text[])[1 + i % 3] AS place, i % 7 AS rooms,
            3.5 * i + 100 * (i % 3) - 2 * (i % 7) + 10 AS price, i % 2 = 0 AS garden FROM generate_series(1, 90) i;
    """)
    return database


def rows(database, model, columns="class, component, feature, coefficient, unscaled"):
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT {columns} FROM pgml.coefficients({model})")
        return cursor.fetchall()


def test_a_regression_has_those_of_scikit_learn(data):
    data.sql(f"SELECT pgml.train('d', 'regression', 'pgml.diabetes', 'target', 'linear', {WHOLE})")
    found = rows(data, 1)
    names = ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    assert [row[2] for row in found] == [*names, "(intercept)"]
    features, target = load_diabetes(return_X_y=True)
    fitted = LinearRegression().fit(features.astype(np.float32), target)
    assert [row[3] for row in found] == pytest.approx([*fitted.coef_, fitted.intercept_], rel=1e-5)
    assert all((row[3] == row[4] and row[:2] == [None, None]) or row[:2] == (None, None) for row in found)


def test_categories_and_scales(data):
    data.sql(
        f"SELECT pgml.train('h', 'regression', '(SELECT size, place, rooms, price FROM homes)', 'price', 'linear', {WHOLE}, "
        """preprocess => '{"size": {"scale": "standard"}, "rooms": {"scale": "min_max"}}')"""
    )
    found = {feature: (own, unscaled) for _, _, feature, own, unscaled in rows(data, 1)}
    assert list(found) == ["size", "place=east", "place=north", "place=west", "rooms", "(intercept)"]
    deviation = np.arange(1, 91).std()
    assert found["size"][0] == pytest.approx(3.5 * deviation, rel=1e-4)
    assert found["size"][1] == pytest.approx(3.5, rel=1e-4)
    assert found["rooms"][0] == pytest.approx(-12, rel=1e-3)
    assert found["rooms"][1] == pytest.approx(-2, rel=1e-3)
    assert found["place=north"][0] - found["place=west"][0] == pytest.approx(100, rel=1e-3)
    # In the columns' own units they give what the model predicts.
    by_hand = 3.5 * 0 + sum(found[name][1] * value for name, value in (("size", 40), ("place=west", 1), ("rooms", 3)))
    predicted = float(data.sql("SELECT pgml.predict(1, 40, 'west'::text, 3)"))
    assert by_hand + found["(intercept)"][1] == pytest.approx(predicted, rel=1e-5)


def test_classes_have_rows_each(data):
    data.sql(f"SELECT pgml.train('i', 'classification', 'pgml.iris', 'target', 'linear', {WHOLE})")
    data.sql(
        f"SELECT pgml.train('g', 'classification', '(SELECT size, rooms, garden FROM homes)', 'garden', 'linear', {WHOLE})"
    )
    three = rows(data, 1)
    assert [row[0] for row in three] == [name for name in "012" for _ in range(5)]
    two = rows(data, 2)
    assert [(row[0], row[2]) for row in two] == [("true", "size"), ("true", "rooms"), ("true", "(intercept)")]


def test_several_labels_have_rows_each(data):
    data.sql(
        "SELECT pgml.train_joint('j', 'regression', '(SELECT size, rooms, price, price * 2 AS twice FROM homes)', "
        f"'{{price,twice}}', 'linear', {WHOLE})"
    )
    assert [(row[0], row[2]) for row in rows(data, 1)] == [
        (label, feature) for label in ("price", "twice") for feature in ("size", "rooms", "(intercept)")
    ]


def test_clusters_have_centres(data):
    data.sql(
        "SELECT pgml.train('k', 'clustering', '(SELECT sepal_length, petal_length FROM pgml.iris)', algorithm => 'kmeans', "
        f'hyperparams => \'{{"n_clusters": 3}}\', preprocess => \'{{"petal_length": {{"scale": "standard"}}}}\', {WHOLE})'
    )
    features = load_iris().data[:, [0, 2]]
    centres = {}
    for _, cluster, feature, _, unscaled in rows(data, 1):
        centres.setdefault(cluster, {})[feature] = unscaled
    assert sorted(centres) == [0, 1, 2]
    for cluster, centre in centres.items():
        own = data.sql(
            "SELECT avg(sepal_length) || ' ' || avg(petal_length) FROM pgml.iris "
            f"WHERE pgml.predict(1, sepal_length, petal_length) = {cluster}"
        )
        assert [centre["sepal_length"], centre["petal_length"]] == pytest.approx(
            list(map(float, own.split())), rel=1e-3
        )
    assert len(features) == 150


def test_a_decomposition_has_components(data):
    data.sql(
        "SELECT pgml.train('c', 'decomposition', '(SELECT sepal_length, sepal_width, petal_length, petal_width FROM pgml.iris)', "
        f"algorithm => 'pca', hyperparams => '{{\"n_components\": 2}}', {WHOLE})"
    )
    found = rows(data, 1)
    row = [5.1, 3.5, 1.4, 0.2]
    for component in (1, 2):
        numbers = [coefficient for _, own, _, coefficient, _ in found if own == component]
        by_hand = sum(a * b for a, b in zip(numbers, row, strict=False)) + numbers[-1]
        said = data.sql(f"SELECT (pgml.decompose(1, ARRAY[5.1, 3.5, 1.4, 0.2]))[{component}]")
        assert by_hand == pytest.approx(float(said), abs=1e-4)


def test_what_has_none_says_so(data):
    data.sql(
        f"SELECT pgml.train('x', 'regression', 'pgml.diabetes', 'target', 'xgboost', '{{\"n_estimators\": 2}}', {WHOLE})"
    )
    with pytest.raises(Exception, match="not made of coefficients"):
        data.sql("SELECT pgml.coefficients(1)")
    data.sql("CREATE ROLE coefficient_reader; SELECT pgml.grant('x', 'coefficient_reader', 'explain')")
    try:
        with pytest.raises(Exception, match="permission denied"):
            data.sql("SET ROLE coefficient_reader; SELECT pgml.coefficients(1)")
    finally:
        data.sql("DROP OWNED BY coefficient_reader; SELECT pgml.delete_project('x'); DROP ROLE coefficient_reader")
