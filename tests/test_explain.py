"""Explanations on live servers: they can be cancelled, and replicas give them too."""

import time

import pytest

from devkit import Problem

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


def test_a_replica_explains_as_the_primary(cluster):
    cluster.primary.psql(TRAIN.format(trees=20), "app")
    cluster.catch_up()
    asked = f"SELECT md5(pgml.explain_batch('points', {BATCH.format(times=1)})::text)"
    assert cluster.replica.psql(asked, "app") == cluster.primary.psql(asked, "app")
    named = "SELECT string_agg(e::text, ' ') FROM pgml.explain('points', 0.1, 0.2, 0.3) e"
    assert cluster.replica.psql(named, "app") == cluster.primary.psql(named, "app")
