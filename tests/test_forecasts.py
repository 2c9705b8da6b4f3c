"""Forecasts in SQL: series from rows as they come, models, intervals, groups, clocks, privileges, and what is refused."""

import json

import pytest

from devkit import Problem

# Airline passengers, in thousands a month, 1949 to 1960 (Box and Jenkins, 1976).
AIRLINES = """112 118 132 129 121 135 148 148 136 119 104 118 115 126 141 135 125 149 170 170 158 133 114 140 145 150 178 163
172 178 199 199 184 162 146 166 171 180 193 181 183 218 230 242 209 191 172 194 196 196 236 235 229 243 264 272 237 211 180
201 204 188 235 227 234 264 302 293 259 229 203 229 242 233 267 269 270 315 364 347 312 274 237 278 284 277 317 313 318 374
413 405 355 306 271 306 315 301 356 348 355 422 465 467 404 347 305 336 340 318 362 348 363 435 491 505 404 359 310 337 360
342 406 396 420 472 548 559 463 407 362 405 417 391 419 461 472 535 622 606 508 461 390 432"""
PASSENGERS = AIRLINES.split()

ALGORITHMS = ["ets", "arima", "theta", "mstl", "seasonal_naive"]


@pytest.fixture
def flights(database):
    """A table of months, and one of four stores' days with a gap, repeats and a short series."""
    rows = ", ".join(
        f"('{1949 + index // 12}-{1 + index % 12:02}-01', {count})" for index, count in enumerate(PASSENGERS)
    )
    database.sql(f"""
        CREATE TABLE flights (month date PRIMARY KEY, passengers int); INSERT INTO flights VALUES {rows};
        CREATE TABLE sales AS SELECT store, timestamp '2024-01-01' + day * interval '1 day' AS at,
            (100 * store + 20 * sin(day * pi() * 2 / 7) + day * 0.1)::numeric(10, 2) AS amount
            FROM generate_series(1, 3) store, generate_series(0, 119) day WHERE NOT (store = 2 AND day IN (50, 51));
        INSERT INTO sales VALUES (9, '2024-04-29', 7), (9, '2024-04-30', 8);
    """)
    return database


def metrics(database, project):
    return json.loads(
        database.sql(
            "SELECT metrics FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id "
            f"WHERE p.name = '{project}' ORDER BY m.id DESC LIMIT 1"
        )
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_forecasts_a_year_that_it_has_not_seen(flights, algorithm):
    trained = flights.sql(
        f"SELECT * FROM pgml.train('p', 'forecast', '(SELECT * FROM flights WHERE month < ''1960-01-01'')', 'passengers', "
        f"'{algorithm}', time_column => 'month')"
    )
    assert trained == f"p|forecast|{algorithm}|t"
    found = flights.sql("""
        SELECT count(*), avg(abs(f.mean - t.passengers) / t.passengers) < 0.13, bool_and(f.lower < f.mean AND f.mean < f.upper),
            avg((t.passengers BETWEEN f.lower AND f.upper)::int) > 0.5
        FROM pgml.forecast('p') f JOIN flights t ON t.month = f.time""")
    assert found == "12|t|t|t"
    known = metrics(flights, "p")
    assert known["rows"] == 12 and 0 < known["mase"] < 2 and 0 < known["smape"] < 20 and 0 <= known["coverage"] <= 1
    assert known["crps"] > 0 and known["series"] == 1


def test_a_model_for_each_group_and_rows_that_are_not_regular(flights):
    with flights.connect() as connection:
        connection.cursor().execute(
            "SELECT pgml.train('s', 'forecast', 'sales', 'amount', time_column => 'at', group_by => 'store', horizon => 14)"
        )
        said = " ".join(notice[b"M"].decode() for notice in connection.notices)
    assert "2 steps without a value filled on the line between their neighbours, in 1 series" in said
    assert "frequency: 1 day" in said and "seasons: [7]" in said
    assert flights.sql("SELECT count(*), count(DISTINCT series) FROM pgml.forecast('s')") == "56|4"
    one = flights.sql("""SELECT series, "time", mean FROM pgml.forecast('s', 3, '{"store": 2}')""").splitlines()
    assert [row.split("|")[:2] for row in one] == [['{"store": 2}', f"2024-04-{day} 00:00:00+00"] for day in (30,)] + [
        ['{"store": 2}', f"2024-05-0{day} 00:00:00+00"] for day in (1, 2)
    ]
    errors = flights.sql("""
        SELECT max(abs(f.mean - (100 * (series->>'store')::int + 20 * sin((120 + n) * pi() * 2 / 7) + (120 + n) * 0.1)))
        FROM (SELECT *, row_number() OVER (PARTITION BY series ORDER BY "time") - 1 AS n FROM pgml.forecast('s')) f
        WHERE series <> '{"store": 9}'""")
    assert float(errors) < 3


def test_the_project_goes_on_with_what_has_come_since(flights):
    flights.sql(
        "SELECT pgml.train('p', 'forecast', 'flights', 'passengers', time_column => 'month', horizon => 6); "
        "INSERT INTO flights VALUES ('1961-01-01', 450)"
    )
    assert flights.sql("SELECT min(time)::date, count(*) FROM pgml.forecast('p')") == "1961-01-01|6"
    assert flights.sql("SELECT deployed FROM pgml.train('p')") == "t"
    assert flights.sql("SELECT min(time)::date, count(*) FROM pgml.forecast('p')") == "1961-02-01|6"
    flights.sql("SELECT pgml.train('q', 'forecast', 'flights', 'passengers', 'theta', time_column => 'month')")
    assert flights.sql("SELECT algorithm, deployed FROM pgml.train('q')") == "theta|t"
    worse = flights.sql("SELECT deployed FROM pgml.train('p', algorithm => 'seasonal_naive')")
    assert worse == "f" and "worse than" in metrics(flights, "p")["decision"]
    assert "best_score" in flights.sql("SELECT * FROM pgml.deploy('p', 'best_score')")
    width = "SELECT sum(upper - lower) FROM pgml.forecast('p', 3, coverage => {})"
    assert float(flights.sql(width.format(0.5))) < 0.5 * float(flights.sql(width.format(0.9)))
    older = flights.sql("SELECT min(id) FROM pgml.models")
    assert flights.sql(f"SELECT min(time)::date FROM pgml.forecast({older}::bigint)") == "1961-01-01"


def test_series_that_were_told_apart_too_late_replace_their_mean(flights):
    with flights.connect() as connection:
        connection.cursor().execute(
            "SELECT pgml.train('s', 'forecast', 'sales', 'amount', 'theta', time_column => 'at')"
        )
        said = " ".join(notice[b"M"].decode() for notice in connection.notices)
    assert "group_by names the columns that tell series apart" in said
    assert (
        flights.sql("SELECT deployed FROM pgml.train('s', algorithm => 'seasonal_naive', group_by => 'store')") == "t"
    )
    assert flights.sql("SELECT count(DISTINCT series) FROM pgml.forecast('s', 1)") == "4"


def test_a_backtest_forecasts_at_several_times_of_the_past(flights):
    flights.sql("SELECT pgml.train('p', 'forecast', 'flights', 'passengers', 'theta', time_column => 'month')")
    rows = [row.split("|") for row in flights.sql("SELECT * FROM pgml.backtest('p', 4)").splitlines()]
    assert [row[1][:10] for row in rows] == [f"19{year}-12-01" for year in (56, 57, 58, 59)]
    assert all(row[0] == "" and row[2] == "12" and 0 < float(row[3]) < 3 and float(row[6]) > 0 for row in rows)
    # The last one is what the training has measured.
    known = metrics(flights, "p")
    assert [float(value) for value in rows[-1][3:]] == [known[name] for name in ("mase", "smape", "coverage", "crps")]
    flights.sql(
        "SELECT pgml.train('s', 'forecast', 'sales', 'amount', 'theta', time_column => 'at', group_by => 'store', "
        "horizon => 7)"
    )
    # The series of two days is too short.
    assert flights.sql("SELECT count(*), count(DISTINCT series), min(steps) FROM pgml.backtest('s', 2, 5)") == "6|3|5"
    with pytest.raises(Problem, match="no series is long enough"):
        flights.sql("SELECT * FROM pgml.backtest('s', 2, 1000)")
    with pytest.raises(Problem, match="are not watched"):
        flights.sql("SELECT pgml.watch('s', 'sales')")


def test_clocks_go_forward_and_back_once_a_year(database):
    database.sql(
        """
        ALTER DATABASE CURRENT_DATABASE_PLACEHOLDER SET TimeZone TO 'UTC'""".replace(
            "CURRENT_DATABASE_PLACEHOLDER", '"' + database.sql("SELECT current_database()") + '"'
        )
    )
    database.sql("""
        SET TimeZone TO 'Europe/Berlin';
        CREATE TABLE hours AS SELECT t, 10 + sin(extract(hour FROM t AT TIME ZONE 'UTC') * pi() / 12) AS load
            FROM generate_series('2024-03-20'::timestamptz, '2024-03-30 23:00', '1 hour') t;
        CREATE TABLE days AS SELECT t::timestamptz AS t, 10 + extract(dow FROM t) AS load
            FROM generate_series('2024-02-01'::timestamp, '2024-03-30', '1 day') t;
        SELECT pgml.train('hours', 'forecast', 'hours', 'load', 'seasonal_naive', time_column => 't', horizon => 6);
        SELECT pgml.train('days', 'forecast', 'days', 'load', 'seasonal_naive', time_column => 't', horizon => 3)""")
    hours = database.sql("SET TimeZone TO 'Europe/Berlin'; SELECT time FROM pgml.forecast('hours')").splitlines()
    assert [hour[11:] for hour in hours if hour != "SET"] == [
        "00:00:00+01",
        "01:00:00+01",
        "03:00:00+02",
        "04:00:00+02",
        "05:00:00+02",
        "06:00:00+02",
    ]
    days = database.sql("SET TimeZone TO 'Europe/Berlin'; SELECT time FROM pgml.forecast('days')").splitlines()
    assert [day for day in days if day != "SET"] == [
        "2024-03-31 00:00:00+01",
        "2024-04-01 00:00:00+02",
        "2024-04-02 00:00:00+02",
    ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("'flights', 'passengers'", "needs a time_column"),
        ("'flights', 'passengers', time_column => 'moth'", 'time_column "moth" is not a column'),
        ("'flights', 'passengers', time_column => 'passengers'", "is of type int4"),
        ("'flights', 'month', time_column => 'month'", "a forecast is of numbers"),
        ("'flights', 'passengers', 'xgboost', time_column => 'month'", 'algorithm "xgboost" is not for task forecast'),
        ("'flights', 'passengers', time_column => 'month', horizon => 0", "horizon must be from 1"),
        (
            "'flights', 'passengers', time_column => 'month', frequency => '1 month 1 day'",
            "frequency must be some months",
        ),
        (
            "'flights', 'passengers', hyperparams => '{\"seson\": 4}', time_column => 'month'",
            'no hyperparameter "seson"',
        ),
        (
            "'(SELECT * FROM flights WHERE false)', 'passengers', time_column => 'month'",
            "no row with a time and a value",
        ),
        ("'sales', 'amount', time_column => 'at', group_by => 'shop'", 'group_by "shop" is not a column'),
        ("'sales', 'amount', time_column => 'at', group_by => 'at'", "is named twice"),
        (
            "'sales', 'amount', search => 'grid', search_params => '{\"season\": [7]}', time_column => 'at'",
            "takes no search",
        ),
        ("'flights', 'passengers', time_column => 'month', frequency => '1 microsecond'", "steps from its first time"),
    ],
)
def test_what_cannot_be_is_refused_in_words(flights, call, error):
    with pytest.raises(Problem, match=error.replace('"', ".")):
        flights.sql(f"SELECT pgml.train('r', 'forecast', {call})")


def test_calls_for_rows_and_for_series_are_told_apart(flights):
    flights.sql(
        "SELECT pgml.train('s', 'forecast', 'sales', 'amount', 'theta', time_column => 'at', group_by => 'store')"
    )
    with pytest.raises(Problem, match="forecasts series, and predicts no rows"):
        flights.sql("SELECT pgml.predict('s', 1.0)")
    flights.sql("SELECT pgml.train('r', 'regression', '(SELECT store, amount FROM sales)', 'amount', 'ridge')")
    with pytest.raises(Problem, match="is not one of task forecast"):
        flights.sql("SELECT * FROM pgml.forecast('r')")
    with pytest.raises(Problem, match="by which the series are not divided"):
        flights.sql("""SELECT * FROM pgml.forecast('s', groups => '{"shop": 1}')""")
    with pytest.raises(Problem, match="has no series of"):
        flights.sql("""SELECT * FROM pgml.forecast('s', groups => '{"store": 77}')""")
    with pytest.raises(Problem, match="are for task forecast"):
        flights.sql("SELECT pgml.train('x', 'regression', 'sales', 'amount', time_column => 'at')")


def test_who_may_predict_may_forecast(flights):
    flights.sql(
        "SELECT pgml.train('p', 'forecast', 'flights', 'passengers', 'theta', time_column => 'month'); "
        "CREATE ROLE guest"
    )
    try:
        assert flights.sql("SET ROLE guest; SELECT count(*) FROM pgml.forecast('p')").splitlines()[-1] == "12"
        flights.sql("SELECT pgml.revoke('p', 'public', 'predict')")
        with pytest.raises(Problem, match="does not exist"):
            flights.sql("SET ROLE guest; SELECT count(*) FROM pgml.forecast('p')")
    finally:
        flights.sql("DROP ROLE guest")


def test_many_series_train_on_two_threads_as_on_one_and_can_be_cancelled(flights):
    flights.sql("""CREATE TABLE many AS SELECT s, date '2020-01-01' + d AS day, s + sin(d * s) + d * 0.01 AS y
        FROM generate_series(1, 60) s, generate_series(0, 99) d""")
    train = "SELECT pgml.train('{}', 'forecast', 'many', 'y', 'theta', time_column => 'day', group_by => 's')"
    flights.sql("SET pgml.omp_num_threads = 1; " + train.format("one"))
    flights.sql("SET pgml.omp_num_threads = 2; " + train.format("two"))
    assert (
        flights.sql(
            "SELECT count(*) FROM (SELECT * FROM pgml.forecast('one', 5) EXCEPT SELECT * FROM pgml.forecast('two', 5)) x"
        )
        == "0"
    )
    with pytest.raises(Problem, match="statement timeout"):
        flights.sql("SET statement_timeout = 300; " + train.format("three").replace("theta", "arima"))
    assert flights.sql("SELECT count(*) FROM pgml.projects WHERE name = 'three'") == "0"


def test_a_training_in_the_background_forecasts_too(flights):
    job = flights.sql(
        "SELECT pgml.train_async('b', 'forecast', 'sales', 'amount', time_column => 'at', group_by => 'store', "
        "horizon => 5, frequency => '1 week')"
    )
    assert flights.sql(f"SELECT pgml.wait({job}, '60 s')") == "done", flights.sql(
        f"SELECT error FROM pgml.jobs WHERE id = {job}"
    )
    assert flights.sql("""SELECT count(*) FROM pgml.forecast('b', groups => '{"store": 1}')""") == "5"
