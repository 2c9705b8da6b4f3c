"""Columns of other types than numbers and text: dates, timestamps, times, intervals, enums, vectors."""

import pytest

from devkit import Problem
from tests.conftest import fresh

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}


@pytest.fixture(scope="module")
def moments(server):
    """A database with a table of every such type, and a model of it."""
    with fresh(server, "moments", DATABASE_SETTINGS) as database:
        database.sql("""
            SET TimeZone = 'Asia/Tokyo';
            CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
            CREATE DOMAIN day_of_sale AS date;
            CREATE TABLE sales AS
                SELECT t::day_of_sale AS day, t AS at, t::timestamptz AS at_zone, t::time AS clock,
                       make_interval(months => i % 30, days => i % 7, secs => i) AS took,
                       (ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood AS mood,
                       extract(dow FROM t)::int * 10 + extract(hour FROM t)::int + (i % 3) AS sold
                FROM (SELECT i, timestamp '1998-05-01' + i * interval '7 hours 13 minutes' AS t
                      FROM generate_series(1, 3000) AS i) AS times;
            SELECT * FROM pgml.train('sales', 'regression', 'sales', 'sold', 'xgboost', '{"n_estimators": 60}');
        """)
        yield database


def refused(database, statement, message):
    with pytest.raises(Problem, match=message):
        database.sql(statement)


def test_parts_of_a_moment_are_those_that_extract_gives(moments):
    """A model that adds its features up says what they were: those of days and times over all the years there are."""
    for of in ["year", "month", "day", "isodow", "doy", "hour", "minute", "epoch"]:
        moments.sql(f"""
            CREATE TABLE learn_{of} AS
                SELECT t, extract({of} FROM t)::real AS y FROM (
                    SELECT timestamp '1990-01-01' + i * i * interval '3 hours 7 minutes' AS t
                    FROM generate_series(1, 400) AS i) AS times;
            SELECT * FROM pgml.train('part {of}', 'regression', 'learn_{of}', 'y', 'linear');
        """)
        wrong = moments.sql(f"""
            SELECT count(*) FROM (
                SELECT t FROM generate_series(timestamp '1995-03-01', '2006-01-01', '37 days 5 hours') AS t
                UNION ALL SELECT t FROM generate_series(timestamp '1890-01-01', '1891-01-01', '11 hours') AS t
            ) AS times
            WHERE abs(pgml.predict('part {of}', t) - extract({of} FROM t)) > abs(extract({of} FROM t)) * 1e-3 + 0.02
        """)
        assert wrong == "0", of


def test_a_model_learns_from_days_of_the_week_and_hours(moments):
    assert (
        float(
            moments.sql(
                "SELECT metrics->>'r2' FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id "
                "WHERE p.name = 'sales'"
            )
        )
        > 0.97
    )
    error = moments.sql("SELECT avg(abs(pgml.predict('sales', s) - sold)) < 1.5 FROM sales s")
    assert error == "t"


def test_all_ways_of_a_call_agree_in_every_time_zone(moments):
    answers = {
        moments.sql(f"""
            SET TimeZone = '{zone}';
            SELECT sum(pgml.predict('sales', s)), sum(pgml.predict('sales', day, at, at_zone, clock, took, mood))
            FROM (SELECT day, at, timestamptz '2001-07-01 12:00+00' AS at_zone, clock, took, mood FROM sales LIMIT 50) s
        """)
        for zone in ["UTC", "Asia/Tokyo", "America/New_York"]
    }
    assert len(answers) == 1
    one, other = answers.pop().splitlines()[-1].split("|")
    assert one == other


def test_features_are_named_by_their_parts(moments):
    names = moments.sql(
        "SELECT feature FROM sales s, pgml.explain('sales', s) WHERE s.at = (SELECT min(at) FROM sales)"
    )
    assert names.split()[:6] == ["day.year", "day.month", "day.day", "day.isodow", "day.doy", "day.epoch"]
    assert {"at.hour", "at_zone.epoch", "clock", "took", "mood"} <= set(names.split())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("pgml.predict('sales', 1, at, at_zone, clock, took, mood)", 'column "day" .* was a date'),
        ("pgml.predict('sales', at, at, at_zone, clock, took, mood)", 'column "day" .* was a date'),
        ("pgml.predict('sales', day, day, at_zone, clock, took, mood)", 'column "at" .* was a timestamp'),
        ("pgml.predict('sales', day, at, at_zone, clock, took)", "takes 6 columns, and the call gives 5"),
    ],
)
def test_other_types_are_refused_by_name(moments, call, text):
    refused(moments, f"SELECT {call} FROM sales LIMIT 1", text)


def test_infinite_moments_are_refused_in_training_and_null_is_missing(moments):
    moments.sql(
        "CREATE TABLE endless AS SELECT CASE i WHEN 3 THEN date 'infinity' ELSE date '2000-01-01' + i END AS d, i AS y"
        " FROM generate_series(1, 40) AS i"
    )
    refused(moments, "SELECT pgml.train('endless', 'regression', 'endless', 'y', 'xgboost')", '"d" is infinite')
    assert (
        moments.sql(
            "SELECT pgml.predict('sales', NULL::date, at, at_zone, clock, took, mood) IS NOT NULL FROM sales LIMIT 1"
        )
        == "t"
    )


def test_vectors_of_pgvector_are_arrays(moments):
    if moments.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == "0":
        pytest.skip("this PostgreSQL has no pgvector")
    moments.sql("""
        CREATE EXTENSION IF NOT EXISTS vector;
        CREATE TABLE embedded AS SELECT ARRAY[i % 7, i % 5, i % 3]::vector AS v, (i % 7 + 2 * (i % 5))::real AS y
            FROM generate_series(1, 200) AS i;
        SELECT * FROM pgml.train('embedded', 'regression', 'embedded', 'y', 'linear');
    """)
    assert (
        moments.sql("""
        SELECT count(*) FROM embedded e WHERE pgml.predict('embedded', e) = pgml.predict('embedded', v)
            AND pgml.predict('embedded', v) = pgml.predict('embedded', v::real[]) AND abs(pgml.predict('embedded', v) - y) < 1e-3
    """)
        == "200"
    )
    refused(moments, "SELECT pgml.predict('embedded', '[1,2]'::vector)", "takes 3 features")


def test_classes_that_a_real_cannot_tell_apart_are_warned_of(moments):
    with moments.connect() as connection:
        connection.cursor().execute("""
            SELECT pgml.train('large', 'classification', '(SELECT i::real AS a, 10000000000 + i % 2 AS y FROM generate_series(1, 40) i)',
                              'y', 'xgboost')""")
        said = " ".join(notice[b"M"].decode() for notice in connection.notices)
    assert "has the classes 10000000000 and 10000000001, which pgml.predict gives as the same real" in said


def test_a_label_of_measurements_is_warned_of_in_a_classification(moments):
    """A price, say. Half stars are classes, and so are numbers without a fraction."""

    def warnings(label):
        with moments.connect() as connection:
            connection.cursor().execute(f"""
                SELECT pgml.train('measured', 'classification',
                                  '(SELECT i::real AS a, {label} AS y FROM generate_series(1, 100) i)', 'y', 'linear')""")
            return [notice[b"M"].decode() for notice in connection.notices if notice[b"S"] == b"WARNING"]

    said = " ".join(warnings("(i % 25) / 4.0"))
    assert 'label "y" has 25 classes, some with a fraction, such as 0.25' in said
    assert "task => 'regression' predicts such a number" in said
    assert not any("fraction" in warning for warning in warnings("(i % 10) / 2.0") + warnings("i % 25"))


def test_categories_are_those_of_the_training_rows(moments):
    """One that only test rows have answers as one that nobody has ever seen."""
    moments.sql("""
        CREATE TABLE kinds AS SELECT i % 5 = 0 AS held_out, CASE WHEN i % 5 = 0 THEN 'late' ELSE 'kind ' || i % 3 END AS kind,
            (i % 3)::real AS y FROM generate_series(1, 200) AS i
    """)
    for algorithm in ["xgboost", "linear", "lightgbm"]:
        moments.sql(f"""SELECT * FROM pgml.train('kinds {algorithm}', 'regression', 'kinds', 'y', '{algorithm}',
                        preprocess => '{{"held_out": {{"role": "test"}}}}')""")
        same = f"SELECT pgml.predict('kinds {algorithm}', 'late'::text) = pgml.predict('kinds {algorithm}', 'never seen'::text)"
        assert moments.sql(same) == "t", algorithm


def test_a_column_of_many_values_is_hashed(moments):
    """Each way of a call finds the same bucket, one that was never seen too, and a model learns from the buckets."""
    moments.sql("""
        CREATE TABLE shops AS SELECT 'shop ' || md5((i % 300)::text) AS shop, (i % 300 < 150)::int * 10 + i % 3 AS y
            FROM generate_series(1, 6000) AS i
    """)
    for algorithm in ["xgboost", "lightgbm", "ridge"]:
        moments.sql(f"""SELECT * FROM pgml.train('shops {algorithm}', 'regression', 'shops', 'y', '{algorithm}',
                        preprocess => '{{"shop": {{"encode": {{"hash": 4096}}}}}}')""")
        r2, same, other = moments.sql(f"""
            SELECT (SELECT (metrics->>'r2')::float FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id
                    WHERE p.name = 'shops {algorithm}'),
                bool_and(pgml.predict('shops {algorithm}', s) = pgml.predict('shops {algorithm}', shop)),
                pgml.predict('shops {algorithm}', 'never seen'::text) IS NOT NULL FROM shops s""").split("|")
        assert float(r2) > 0.9 and (same, other) == ("t", "t"), algorithm
    refused(
        moments,
        """SELECT pgml.train('shops ridge', preprocess => '{"shop": {"encode": {"hash": 1}}}')""",
        "takes a number of buckets from 2 to 65536",
    )
    refused(
        moments,
        """SET pgml.strict = on; SELECT pgml.train('n', 'regression', '(SELECT i::text AS key, i AS y FROM generate_series(1, 70000) i)', 'y',
                        'xgboost')""",
        r'preprocess => .*"key": ."encode": ."hash": 1024',
    )
