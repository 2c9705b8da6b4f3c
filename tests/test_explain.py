"""Explanations on live servers: they can be cancelled, and replicas give them too."""

import time

import pytest

from devkit import Problem

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

TRAIN = """
    CREATE TABLE points AS SELECT random() AS a, random() AS b, random() AS c FROM generate_series(1, 2000);
    ALTER TABLE points ADD COLUMN d real;
    UPDATE points SET d = a * b + sin(c * 9);
    SELECT pgml.train('points', 'regression', 'points', 'd', 'xgboost', '{{"n_estimators": {trees}, "max_depth": 8}}');
"""
BATCH = "(SELECT array_agg(ARRAY[a, b, c]::real[]) FROM points, generate_series(1, {times}))"


def test_a_long_explanation_ends_when_it_is_told_to(database):
    database.sql(TRAIN.format(trees=300))
    many = BATCH.format(times=200)
    start = time.monotonic()
    with pytest.raises(Problem, match="statement timeout"):
        database.sql(f"SET statement_timeout = '2s'; SELECT array_ndims(pgml.explain_batch('points', {many}))")
    assert time.monotonic() - start < 10
    # In the same session, after the error, explanations go on.
    with database.connect() as own:
        cursor = own.cursor()
        for attempt in range(2):
            cursor.execute(f"SET statement_timeout = '{2 if attempt == 0 else 0}s'")
            if attempt == 0:
                with pytest.raises(Exception, match="statement timeout"):
                    cursor.execute(f"SELECT array_ndims(pgml.explain_batch('points', {many}))")
            else:
                cursor.execute("SELECT count(*) FROM pgml.explain('points', 0.1, 0.2, 0.3)")
                assert cursor.fetchone()[0] == 4


def test_memory_of_row_by_row_explanations_does_not_grow(database):
    database.sql(TRAIN.format(trees=3))
    with database.connect() as own:
        cursor = own.cursor()

        def explain(times):
            cursor.execute(
                "SELECT count(*), (SELECT sum(total_bytes) FROM pg_backend_memory_contexts) "
                f"FROM points p, generate_series(1, {times}), pgml.explain('points', p) e"
            )
            return cursor.fetchone()

        explain(1)
        _, few = explain(1)
        count, many = explain(20)
        assert count == 4 * 2000 * 20
        assert many < few + 2_000_000


OWN_TREES = [
    "random_forest",
    "extra_trees",
    "bagging",
    "gradient_boosting_trees",
    "hist_gradient_boosting",
    "catboost",
    "lightgbm",
    "xgboost_random_forest",
]


@pytest.mark.parametrize("algorithm", OWN_TREES)
def test_contributions_of_all_trees_add_up(database, algorithm):
    """To the prediction, with text, NULL and what preprocess makes of columns among the features; in float32."""
    database.sql("""
        CREATE TABLE cars AS SELECT i % 7 AS seats, CASE WHEN i % 5 > 0 THEN i % 31 / 10.0 END AS age,
            (ARRAY['red', 'green', 'blue'])[1 + i % 3] AS color, (i % 7) * 2 + i % 31 + 4 * (i % 3) AS price
        FROM generate_series(1, 400) i
    """)
    given = '{"color": {"encode": "one_hot"}}' if algorithm == "bagging" else "{}"
    database.sql(f"SELECT pgml.train('cars', 'regression', 'cars', 'price', '{algorithm}', preprocess => '{given}')")
    for wanted in ("", " WHERE age IS NULL"):
        off = database.sql(f"""
            SELECT max(abs(p - s)) / max(abs(p)), count(*), bool_and(n = 4) FROM (
                SELECT pgml.predict('cars', c) AS p, (SELECT sum(contribution) FROM pgml.explain('cars', c)) AS s,
                    (SELECT count(*) FROM pgml.explain('cars', c)) AS n
                FROM (SELECT seats, age, color FROM cars{wanted} LIMIT 50) c) x
        """).split("|")
        assert float(off[0]) < 2e-6 and int(off[1]) == 50 and off[2] == "t", off


def test_classes_and_several_labels_of_own_trees_are_explained(database):
    database.sql(TRAIN.format(trees=3))
    database.sql("""
        ALTER TABLE points ADD COLUMN kind text;
        UPDATE points SET kind = CASE WHEN a > 0.6 THEN 'high' WHEN a > 0.3 THEN 'middle' ELSE 'low' END;
        SELECT pgml.train('kinds', 'classification', '(SELECT a, b, kind FROM points)', 'kind', 'random_forest',
            '{"n_estimators": 20, "max_depth": 5}');
        SELECT pgml.train_joint('both', 'regression', '(SELECT a, b, c, d FROM points)', ARRAY['c', 'd'],
            'gradient_boosting_trees', '{"n_estimators": 10}');
        SELECT pgml.train('median', 'regression', '(SELECT a, b, d FROM points)', 'd', 'ada_boost', '{"n_estimators": 5}');
    """)
    # A forest's contributions add up to the probability of each class.
    assert (
        database.sql("""
        SELECT count(*), bool_and(abs(s - p[array_position(ARRAY['high', 'low', 'middle'], class)]) < 1e-6) FROM (
            SELECT class, sum(contribution) AS s, pgml.predict_proba('kinds', 0.5, 0.25) AS p
            FROM pgml.explain('kinds', 0.5, 0.25) GROUP BY class) x
    """)
        == "3|t"
    )
    assert (
        database.sql("""
        SELECT string_agg(class || ' ' || (abs(s - p[i]) < 1e-6), ', ' ORDER BY class) FROM (
            SELECT class, sum(contribution) AS s, pgml.predict_joint('both', ARRAY[0.5, 0.25]) AS p,
                array_position(ARRAY['c', 'd'], class) AS i
            FROM pgml.explain('both', 0.5, 0.25) GROUP BY class) x
    """)
        == "c true, d true"
    )
    with pytest.raises(Problem, match="a median of trees, over which contributions do not add up"):
        database.sql("SELECT pgml.explain('median', 0.5, 0.25)")


def test_a_replica_explains_as_the_primary(cluster):
    cluster.primary.psql(TRAIN.format(trees=20), "app")
    cluster.catch_up()
    asked = f"SELECT md5(pgml.explain_batch('points', {BATCH.format(times=1)})::text)"
    assert cluster.replica.psql(asked, "app") == cluster.primary.psql(asked, "app")
    named = "SELECT string_agg(e::text, ' ') FROM pgml.explain('points', 0.1, 0.2, 0.3) e"
    assert cluster.replica.psql(named, "app") == cluster.primary.psql(named, "app")
