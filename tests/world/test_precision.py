"""Numbers past 2^24 and moments by the minute: what float32 alone would not tell apart."""

import pytest

from devkit import Problem

TRAIN = "SELECT * FROM pgml.train('{0}', '{1}', '{2}', 'y', '{3}', hyperparams => '{4}', test_sampling => 'last')"


def train(database, name, task, table, algorithm, hyperparams="{}"):
    return database.sql(TRAIN.format(name, task, table, algorithm, hyperparams))


def number(database, statement):
    return float(database.sql(statement))


def warnings_of(database, statement):
    with database.connect() as connection:
        connection.cursor().execute(statement)
        return [notice[b"M"].decode() for notice in connection.notices if notice[b"S"] == b"WARNING"]


@pytest.fixture
def epochs(database):
    database.sql("""
        CREATE TABLE ep AS SELECT 1700000000 + i AS epoch, 100 + 0.5 * i AS y FROM generate_series(1, 1000) i;
        CREATE TABLE ep8 AS SELECT epoch::bigint AS epoch, y FROM ep;
        CREATE TABLE epn AS SELECT epoch::numeric AS epoch, y FROM ep;
        CREATE TABLE epf AS SELECT epoch::float8 AS epoch, y FROM ep;
        CREATE TABLE epa AS SELECT ARRAY[epoch, 7] AS epoch, y FROM ep;
        CREATE TABLE ept AS SELECT to_timestamp(epoch) AS epoch, y FROM ep;
    """)
    return database


@pytest.mark.parametrize("table", ["ep", "ep8", "epn", "epf", "epa", "ept"])
@pytest.mark.parametrize(
    ("algorithm", "hyperparams"),
    [("linear", "{}"), ("knn", '{"n_neighbors": 1}'), ("xgboost", '{"n_estimators": 40}'), ("ridge", "{}")],
)
def test_each_second_has_its_own_prediction(epochs, table, algorithm, hyperparams):
    train(epochs, "p", "regression", table, algorithm, hyperparams)
    worst = number(epochs, f"SELECT max(abs(pgml.predict('p', epoch) - y)) FROM {table} WHERE y < 475")
    assert worst < 2.5
    different = number(epochs, f"SELECT count(DISTINCT pgml.predict('p', epoch)) FROM {table}")
    assert different > 100


def test_every_way_of_a_prediction_takes_the_same_off(epochs):
    train(epochs, "p", "regression", "epf", "xgboost", '{"n_estimators": 20}')
    epochs.sql("CREATE TABLE one AS SELECT epoch, y, row_number() OVER (ORDER BY epoch) AS n FROM epf")
    ways = """
        pgml.predict('p', epoch), pgml.predict('p', ARRAY[epoch]), pgml.predict('p', one), pgml.predict('p', ROW(epoch)),
        pgml.predict('p', format('{%s}', epoch)),
        (SELECT (pgml.predict_agg('p', e))[1] FROM (SELECT epoch AS e) AS x),
        (SELECT prediction FROM pgml.predict_interval('p', ARRAY[epoch], 0.9))
    """
    same = f"SELECT count(*) FROM one WHERE (SELECT count(DISTINCT w) FROM unnest(ARRAY[{ways}]) AS w) = 1"
    assert number(epochs, same) == 1000
    assert number(epochs, "SELECT count(DISTINCT pgml.predict('p', epoch)) FROM one") > 100
    written = epochs.sql("SELECT pgml.export_sql('p')")
    assert number(epochs, f"SELECT max(abs({written} - pgml.predict('p', epoch))) FROM one") < 1e-4
    # These take arrays of real, whose digits are gone, and say so.
    for call in ["predict_batch('p', ARRAY[epoch]::real[])", "explain_batch('p', ARRAY[epoch]::real[])"]:
        assert '"epoch"' in warnings_of(epochs, f"SELECT pgml.{call} FROM one LIMIT 1")[0]
    # Users see their own numbers.
    assert epochs.sql("SELECT value FROM pgml.explain('p', 1700000123) LIMIT 1") == "1700000123"
    low, high = (
        int(float(v))
        for v in epochs.sql("""
        SELECT c->'statistics'->>'min', c->'statistics'->>'max' FROM pgml.snapshots, jsonb_array_elements(columns) AS c
        WHERE c->>'name' = 'epoch'
    """).split("|")
    )
    assert (low, high) == (1700000001, 1700001000)
    drift = epochs.sql("SELECT psi < 0.1 FROM pgml.drift('p', 'epf')")
    assert drift == "t"


def test_models_of_other_origins_are_compared_on_the_same_rows(epochs):
    """The deployed model's origin lies before that of the rows that the next one is trained on."""
    train(epochs, "p", "regression", "epf", "linear")
    epochs.sql("CREATE TABLE later AS SELECT epoch + 500 AS epoch, y + 250 AS y FROM epf")
    before = epochs.sql("SELECT pgml.predict('p', 1700001400)")
    train(epochs, "p", "regression", "later", "random_forest", '{"max_depth": 1, "n_estimators": 2}')
    # The line predicts these rows as exactly as its own, and stays.
    assert epochs.sql("SELECT algorithm FROM pgml.deployed_models") == "linear"
    assert epochs.sql("SELECT pgml.predict('p', 1700001400)") == before == "800"


def test_a_training_goes_on_with_the_origins_of_its_model(epochs):
    train(epochs, "p", "regression", "epf", "xgboost", '{"n_estimators": 20}')
    epochs.sql("CREATE TABLE later AS SELECT epoch, y FROM epf WHERE epoch > 1700000100")
    train(epochs, "p", "regression", "later", "xgboost", '{"n_estimators": 20, "xgb_model": "deployed"}')
    last = "(SELECT max(id) FROM pgml.models)"
    # To XGBoost the least values of its new rows lie before all it knew.
    later = "later WHERE epoch > 1700000110 AND y < 475"
    assert number(epochs, f"SELECT max(abs(pgml.predict({last}, epoch) - y)) FROM {later}") < 5


def test_a_minute_matters(database):
    database.sql("""
        CREATE TABLE mi AS SELECT '2024-01-01'::timestamp + i * interval '1 minute' AS ts,
            (i % 60)::int AS y FROM generate_series(1, 3000) i
    """)
    train(database, "mi", "regression", "mi", "xgboost")
    assert (
        database.sql("""
        SELECT pgml.predict('mi', '2024-01-02 10:00'::timestamp) = pgml.predict('mi', '2024-01-02 10:01'::timestamp)
    """)
        == "f"
    )


def test_missing_values_stay_missing_and_zero_is_zero(database):
    database.sql("""
        CREATE TABLE z AS SELECT CASE WHEN i % 10 > 0 THEN 1700000000 + i END AS epoch, i % 2 AS b, i::real AS y
        FROM generate_series(1, 1000) i
    """)
    database.sql("""
        SELECT * FROM pgml.train('z', 'regression', 'z', 'y', 'random_forest',
            preprocess => '{"epoch": {"impute": "zero"}}', test_size => 0)
    """)
    assert database.sql("SELECT pgml.predict('z', NULL::int, 1) = pgml.predict('z', 0, 1)") == "t"
    train(database, "x", "regression", "z", "xgboost", '{"n_estimators": 20}')
    assert number(database, "SELECT max(abs(pgml.predict('x', epoch, b) - y)) FROM z WHERE y < 750 AND epoch > 0") < 10


def test_what_float32_holds_has_no_origin(database):
    """XGBoost's own file stays what XGBoost would have made: the same trees as of the same numbers less nothing."""
    database.sql("""
        CREATE TABLE money AS SELECT (i * 1234.56)::float8 AS amount, i AS id, i::bigint * 128 * 200000 AS exact,
            CASE WHEN i % 2 = 0 THEN i::float8 * 20000.01 END AS mixed, sqrt(i)::real AS y
        FROM generate_series(1, 1000) i
    """)
    train(database, "m", "regression", "money", "xgboost", '{"n_estimators": 3}')
    file = database.sql("SELECT convert_from(pgml.export_model('m', 'json'), 'UTF8')")
    assert "amount" in file
    assert "origins" not in file


def test_a_warning_names_whole_numbers_that_are_the_same_to_the_model(database):
    database.sql("""
        CREATE TABLE wide AS SELECT i::bigint * 9999999 AS account, 1700000000 + i AS epoch, i::float8 * 9999999 AS amount,
            i AS y FROM generate_series(1, 1000) i
    """)
    (warning,) = warnings_of(database, "SELECT pgml.train('w', 'regression', 'wide', 'y', 'linear')")
    assert '"account" (1024)' in warning
    assert "epoch" not in warning
    assert "amount" not in warning
    cast = "(SELECT account::text, epoch, amount, y FROM wide)"
    assert not warnings_of(database, f"SELECT pgml.train('v', 'regression', '{cast}', 'y', 'xgboost')")


@pytest.mark.parametrize(
    ("label", "outcome"),
    [
        ("1700000000 + i % 60", "refused"),
        ("123456789.01 + (i % 100) * 0.01", "refused"),
        ("1700000000 + i", "rounded to multiples of 128"),
        ("123456789.01 + i * 0.1", "rounded to multiples of 8"),
        ("i * 0.1", "fine"),
        ("i * 1234.56", "fine"),
        ("0.1", "fine"),
        ("16777216 + 2 * (i % 2)", "fine"),
    ],
)
def test_labels_that_real_does_not_tell_apart_are_not_called_learnt(database, label, outcome):
    database.sql(f"CREATE TABLE labels AS SELECT i AS x, ({label})::numeric AS y FROM generate_series(1, 1000) i")
    call = "SELECT pgml.train('l', 'regression', 'labels', 'y', 'linear')"
    if outcome == "refused":
        with pytest.raises(Problem, match=r'label "y" is from .* the same number as real'):
            database.sql(call)
    else:
        told = [text for text in warnings_of(database, call) if "as real" in text]
        assert not told if outcome == "fine" else outcome in told[0]


def test_codes_that_real_does_not_tell_apart_are_no_categories_of_arrays(database):
    database.sql("""
        CREATE TABLE coded AS SELECT 20000001 + i % 2 AS code, i * 7919 % 13 AS z,
            CASE WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END AS y FROM generate_series(1, 500) i
    """)
    database.sql("""SELECT pgml.train('c', 'classification', 'coded', 'y', 'xgboost', '{"n_estimators": 5}',
        preprocess => '{"code": {"encode": "native"}}')""")
    for given in ("code, z", "coded"):
        wrong = f"SELECT count(*) FROM coded WHERE pgml.predict_label('c', {given}) <> y"
        assert database.sql(wrong) == "0"
    for call in (
        "pgml.predict_label('c', ARRAY[code, z])",
        "pgml.predict_label('c', ARRAY[code, z]::float8[])",
        "pgml.predict('c', format('{%s, %s}', code, z))",
        "pgml.predict_batch('c', ARRAY[code, z]::real[])",
    ):
        with pytest.raises(Problem, match=r'(?s)may be another category of column "code".*an argument for each column'):
            database.sql(f"SELECT {call} FROM coded LIMIT 1")
