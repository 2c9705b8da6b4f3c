"""A list that an application binds, as drivers send it: what works with PostgresML works here."""

import asyncio

import asyncpg
import numpy as np
import psycopg
import pytest

from devkit.server import SUPERUSER

FEATURES = [5.1, 3.5, 1.4, 0.2]


@pytest.fixture
def iris(database):
    database.sql("""
        SELECT pgml.load_dataset('iris'); SELECT pgml.load_dataset('linnerud');
        SELECT pgml.train('iris', 'classification', 'pgml.iris', 'target', 'xgboost', '{"n_estimators": 3}');
        SELECT pgml.train_joint('joint', 'regression', 'pgml.linnerud', '{weight,waist,pulse}', 'linear');
        CREATE TABLE colours AS SELECT ('{red,green}'::text[])[1 + i % 2] AS colour, i % 2 AS y, i % 5 AS n FROM generate_series(1, 60) i;
        SELECT pgml.train('colour', 'classification', '(SELECT colour, y FROM colours)', 'y', 'xgboost', '{"n_estimators": 3}');
        SELECT pgml.train('one', 'classification', '(SELECT n, y FROM colours)', 'y', 'xgboost', '{"n_estimators": 3}');
    """)
    return database


def proba(database, call):
    return [float(part) for part in database.sql(f"SELECT {call}").strip("{}").split(",")]


def connection(database):
    return {
        "host": database.server.socket_folder,
        "port": database.server.port,
        "user": SUPERUSER,
        "database": database.name,
    }


def test_asyncpg(iris):
    wanted = proba(iris, "pgml.predict_proba('iris', ARRAY[5.1, 3.5, 1.4, 0.2]::real[])")

    async def ask():
        opened = await asyncpg.connect(**connection(iris))
        try:
            assert await opened.fetchval("SELECT pgml.predict_proba('iris', $1)", FEATURES) == pytest.approx(wanted)
            assert await opened.fetchval("SELECT pgml.predict_proba($1, $2)", "iris", FEATURES) == pytest.approx(wanted)
            assert await opened.fetchval("SELECT pgml.predict_proba(1, $1)", FEATURES) == pytest.approx(wanted)
            missing = await opened.fetchval("SELECT pgml.predict_proba('iris', $1)", [5.1, None, 1.4, 0.2])
            assert len(missing) == 3
            joint = await opened.fetchval("SELECT pgml.predict_joint('joint', $1)", [5, 162, 60])
            assert len(joint) == 3
            batch = await opened.fetch("SELECT pgml.predict_batch('iris', $1)", [FEATURES, FEATURES])
            assert len(batch) == 2
            with pytest.raises(asyncpg.PostgresError, match="takes 4 features"):
                await opened.fetchval("SELECT pgml.predict_proba('iris', $1)", FEATURES[:2])
            assert await opened.fetchval("SELECT pgml.predict_proba('iris', $1)", None) is None
        finally:
            await opened.close()

    asyncio.run(ask())


def test_psycopg(iris):
    wanted = proba(iris, "pgml.predict_proba('iris', ARRAY[5.1, 3.5, 1.4, 0.2]::real[])")
    options = connection(iris)
    options["dbname"] = options.pop("database")
    with psycopg.connect(**options) as opened:
        for value in (FEATURES, "{5.1,3.5,1.4,0.2}"):
            got = opened.execute("SELECT pgml.predict_proba('iris', %s)", [value]).fetchone()[0]
            assert got == pytest.approx(wanted)
        assert len(opened.execute("SELECT pgml.predict_proba('colour', %s)", ["red"]).fetchone()[0]) == 2


def test_pg8000(iris):
    with iris.connect() as opened:
        cursor = opened.cursor()
        cursor.execute("SELECT pgml.predict_proba('iris', %s)", [FEATURES])
        assert len(cursor.fetchone()[0]) == 3
        cursor.execute("SELECT pgml.predict_proba('colour', %s)", ["red"])
        assert len(cursor.fetchone()[0]) == 2


def test_literals_are_read_as_before(iris):
    wanted = proba(iris, "pgml.predict_proba('iris', ARRAY[5.1, 3.5, 1.4, 0.2]::real[])")
    for literal in ("'{5.1, 3.5, 1.4, 0.2}'", "'{5.1, 3.5, 1.4, 0.2}'::text", "'{5.1, 3.5, 1.4, 0.2}'::varchar",
                    "'{5.1, 3.5, 1.4, 0.2}'::pgml.features"):  # fmt: skip
        assert proba(iris, f"pgml.predict_proba('iris', {literal})") == wanted
    red = proba(iris, "pgml.predict_proba('colour', ROW('red'::text))")
    for literal in ("'red'", "'red'::text", "'red'::varchar"):
        assert proba(iris, f"pgml.predict_proba('colour', {literal})") == red
    assert proba(iris, "pgml.predict_proba('one', '3')") == proba(iris, "pgml.predict_proba('one', 3)")
    assert iris.sql("SELECT pgml.predict_proba('iris', NULL) IS NULL") == "t"
    with pytest.raises(Exception, match="cannot subscript"):
        iris.sql("SELECT ('{1}'::pgml.features)[1]")
    assert np.isclose(sum(red), 1)
