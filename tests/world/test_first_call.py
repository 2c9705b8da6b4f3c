"""The first call works: what a training cannot use as it is, it imputes or leaves out, and tells of all columns at once."""

import io
import json

import numpy
import pytest
from sklearn import datasets

from devkit import Problem

RANDOM = numpy.random.default_rng(34)


def fill(database, name, frame, key=True):
    """A table of a data frame, with a key before its columns."""
    types = {"f": "float8", "i": "bigint", "b": "boolean"}
    columns = ", ".join(f'"{column}" {types.get(kind.kind, "text")}' for column, kind in frame.dtypes.items())
    first = "id integer PRIMARY KEY, " if key else ""
    database.sql(f"CREATE TABLE {name} ({first}{columns})")
    with database.connect() as connection:
        rows = io.StringIO(frame.to_csv(index=key, header=False))
        connection.cursor().execute(f"COPY {name} FROM STDIN WITH (FORMAT csv)", stream=rows)


def punched(frame, columns, share=0.1):
    """The same with holes in these columns."""
    frame = frame.copy()
    for column in columns:
        frame.loc[RANDOM.random(len(frame)) < share, column] = None
    return frame


def said(database, statement):
    """The notices of a statement."""
    with database.connect() as connection:
        connection.cursor().execute(f"SET client_min_messages = notice; {statement}")
        return [notice for notice in connection.notices if notice[b"S"] == b"NOTICE"]


@pytest.fixture
def diabetes(database):
    """A table with a key, names, a document, a column without a value, and holes in four columns."""
    frame = datasets.load_diabetes(as_frame=True).frame
    frame = punched(frame, ["bmi", "bp", "s1"])
    frame["sex"] = numpy.where(frame["sex"] > 0, "m", "w")
    frame = punched(frame, ["sex"])
    frame.insert(0, "name", [f"patient {number % 400}" for number in range(len(frame))])
    fill(database, "patients", frame)
    database.sql("ALTER TABLE patients ADD document jsonb DEFAULT '{}', ADD gone real")
    return database


def test_one_notice_names_all_columns(diabetes):
    (notice,) = said(diabetes, "SELECT pgml.train('p', 'regression', 'patients', 'target')")
    message, hint = notice[b"M"].decode(), notice[b"H"].decode()
    for told in [
        '"id" (a key)',
        '"document" (type jsonb)',
        '"name" (text, 400 different ones in 442 rows)',
        '"gone" (NULL in all rows)',
        'imputed: "bmi" (median), "bp" (median), "s1" (median)',
    ]:
        assert told in message
    assert '{"id":{"role":"feature"},"bmi":{"impute":"mean"}}' in hint and "pgml.strict" in hint
    assert '"age"' not in message and '"sex"' not in message
    # What is missing in a row is imputed in its prediction, too.
    assert diabetes.sql("SELECT count(*) FROM patients p WHERE pgml.predict('p', p) IS NULL") == "0"
    assert float(diabetes.sql("SELECT metrics ->> 'r2' FROM pgml.models")) > 0.25


@pytest.mark.parametrize("algorithm", ["linear", "xgboost", "random_forest", "svm", "knn", "lightgbm"])
def test_every_algorithm_has_a_model_at_the_first_call(diabetes, algorithm):
    diabetes.sql(f"SELECT pgml.train('p', 'regression', 'patients', 'target', '{algorithm}')")
    columns = diabetes.sql("SELECT pgml.predict('p', p) IS NOT NULL FROM patients p WHERE id = 1")
    assert columns == "t"


def test_what_preprocess_says_of_a_column_goes_before(diabetes):
    (notice,) = said(
        diabetes,
        """SELECT pgml.train('p', 'regression', 'patients', 'target', 'linear', preprocess => '{
            "id": {"role": "feature"}, "name": {"encode": "target"}, "bmi": {"impute": "mean"}}')""",
    )
    message = notice[b"M"].decode()
    assert '"id"' not in message and '"name"' not in message and '"bmi"' not in message and '"bp"' in message
    taken = diabetes.sql(
        "SELECT pgml.predict('p', p) <> pgml.predict('p', q) FROM patients p, LATERAL (SELECT 100000 AS id, "
        + "name, age, sex, bmi, bp, s1, s2, s3, s4, s5, s6) q WHERE p.id = 1"
    )
    assert taken == "t"
    # A training without a relation does the same again; one with a relation begins anew.
    (again,) = said(diabetes, "SELECT pgml.train('p', algorithm => 'ridge')")
    assert again[b"M"].endswith(b'missing values imputed: "bp" (median), "s1" (median)')


def test_strict_names_all_columns_in_one_error(diabetes):
    diabetes.sql("ALTER DATABASE {0} SET pgml.strict = on".format(diabetes.name))
    with pytest.raises(Problem, match=r'"document" of type jsonb|"document" is of type jsonb'):
        diabetes.sql("SELECT pgml.train('p', 'regression', 'patients', 'target')")
    few = "(SELECT age, bmi, bp, s1, target FROM patients)"
    with pytest.raises(Problem) as error:
        diabetes.sql(f"SELECT pgml.train('p', 'regression', '{few}', 'target')")
    assert 'columns "bmi", "bp", "s1" are NULL or NaN in training rows' in str(error.value)
    mends = '{"bmi":{"impute":"mean"},"bp":{"impute":"mean"},"s1":{"impute":"mean"}}'
    assert mends in str(error.value)
    diabetes.sql(f"SELECT pgml.train('p', 'regression', '{few}', 'target', preprocess => '{mends}')")


def test_a_key_is_told_by_the_table_that_alone_is_read(database):
    database.sql("""
        CREATE TABLE homes (number integer UNIQUE, rooms integer, price integer);
        INSERT INTO homes SELECT i, i % 7, i % 7 * 10 + i % 2 FROM generate_series(1, 300) AS i;
        CREATE TABLE visits AS SELECT i % 300 + 1 AS number FROM generate_series(1, 900) AS i;
    """)
    (notice,) = said(
        database,
        "SELECT pgml.train('a', 'regression', '(SELECT number, rooms, price FROM homes WHERE rooms > 1)', 'price')",
    )
    assert notice[b"M"] == b'columns left out: "number" (a key)'
    # A row of homes comes three times here: its number may say something.
    joined = "(SELECT homes.number, rooms, price FROM homes JOIN visits USING (number))"
    assert said(database, f"SELECT pgml.train('b', 'regression', '{joined}', 'price')") == []
    # Who has nothing but a key wants to learn from it.
    (kept,) = said(database, "SELECT pgml.train('c', 'regression', '(SELECT number, price FROM homes)', 'price')")
    assert kept[b"M"].decode().endswith('of new rows: "number" (a key)')


def test_a_star_constants_and_indicators(database):
    frame = punched(datasets.load_wine(as_frame=True).frame, ["alcohol", "ash"], 0.3)
    fill(database, "wines", frame.astype({"target": int}), key=False)
    database.sql("""
        SELECT pgml.train('w', 'classification', 'wines', 'target', 'linear', preprocess => '{
            "*": {"impute": "median", "scale": "standard"}, "ash": {"impute": {"constant": 0}, "indicator": true}}')
    """)
    assert float(database.sql("SELECT metrics ->> 'accuracy' FROM pgml.models")) > 0.9
    explained = database.sql("""
        SELECT count(*) FROM wines, pgml.explain('w', wines) WHERE ash IS NULL AND feature = 'ash' AND contribution <> 0
    """)
    assert int(explained) > 0
    with pytest.raises(Problem, match=r"takes role, encode, impute, indicator and scale"):
        database.sql(
            "SELECT pgml.train('x', 'classification', 'wines', 'target', preprocess => '{\"*\": {\"fill\": 1}}')"
        )


def test_many_categories_do_no_harm(database):
    """The most frequent of many categories are learnt; a text that is another in most rows is none."""
    database.sql("""
        CREATE TABLE t AS SELECT 'k' || CASE WHEN i % 2 = 0 THEN i % 20 ELSE hashint4(i) & 1023 END AS key,
            i % 10 AS n, 'x' || i % 1500 AS rare, (CASE WHEN i % 2 = 0 THEN i % 20 ELSE 5 END + i % 10)::float8 AS y
        FROM generate_series(1, 4000) AS i
    """)
    for algorithm in ["xgboost", "lightgbm", "hist_gradient_boosting", "catboost", "linear"]:
        notices = said(database, f"SELECT pgml.train('{algorithm}', 'regression', 't', 'y', '{algorithm}')")
        grouped = b"".join(notice[b"M"] for notice in notices)
        assert (b'"key" (all but the 255 most frequent of' in grouped) == (algorithm != "linear")
        assert float(database.sql("SELECT metrics ->> 'r2' FROM pgml.models ORDER BY id DESC LIMIT 1")) > 0.5


def test_a_number_can_be_a_category(database):
    database.sql("""
        CREATE TABLE t AS SELECT i, i % 40 AS code, i % 2 = 0 AS even, i % 3 AS n,
            ((hashint4(i % 40) & 7) + i % 3 + (i % 2) * 5)::float8 AS y FROM generate_series(1, 2000) AS i;
        CREATE VIEW as_text AS SELECT i, code::text, even::text, n, y FROM t;
    """)
    encode = '{"i": {"role": "ignore"}, "code": {"encode": "E"}, "even": {"encode": "E"}}'
    for encoding, algorithm in [("native", "xgboost"), ("one_hot", "linear"), ("target", "lightgbm")]:
        asked = encode.replace("E", encoding)
        for relation in ("t", "as_text"):
            database.sql(f"""
                SELECT pgml.train('{relation}_{encoding}', 'regression', '{relation}', 'y', '{algorithm}',
                                  preprocess => '{asked}', test_size => 0)
            """)
        number, text = f"t_{encoding}", f"as_text_{encoding}"
        differences = database.sql(f"""
            SELECT count(*) FROM t, LATERAL (SELECT pgml.predict('{text}', code::text, even::text, n) AS expected) AS e
            WHERE pgml.predict('{number}', code, even, n) <> expected
                OR pgml.predict('{number}', t) <> expected
                OR pgml.predict('{number}', code::bigint, even, n::smallint) <> expected
                OR pgml.predict('{number}', ARRAY[code, even::int, n]) <> expected
        """)
        assert differences == "0"
        assert (
            database.sql(
                f"SELECT pgml.predict('{number}', 999, true, 1) = pgml.predict('{number}', NULL::int, true, 1)"
            )
            == "t"
        )
        assert database.sql(f"SELECT count(*) FROM pgml.drift('{number}', 't')") == "3"


@pytest.mark.parametrize("algorithm", ["linear", "svm", "knn", "kmeans"])
def test_a_value_may_be_missing_tomorrow(database, algorithm):
    """In a column that has no missing values today: a prediction needs no complete row."""
    database.sql("""
        CREATE TABLE sales AS SELECT i % 7 AS a, i % 5 + 1e9 AS b, i % 2 = 0 AS c, i % 7 + i % 5 AS y
        FROM generate_series(1, 400) AS i;
    """)
    task = "'clustering', '(SELECT a, b, c FROM sales)'" if algorithm == "kmeans" else "'regression', 'sales', 'y'"
    database.sql(f"SELECT pgml.train('p', {task}, algorithm => '{algorithm}')")
    asked = "SELECT pgml.predict('p', s) FROM (SELECT {} AS a, {}::float8 AS b, {} AS c) AS s"
    whole = float(database.sql(asked.format("3::int", "1e9 + 2", "true")))
    without = [
        database.sql(asked.format(*values))
        for values in [("NULL::int", "1e9 + 2", "true"), ("3", "NULL", "true"), ("3", "1e9 + 2", "NULL::boolean")]
    ]
    assert all(without)
    if algorithm == "linear":
        # The mean of each: 3 of 0 to 6, and 2 of 0 to 4.
        assert [round(float(value), 1) for value in without[:2]] == [round(whole, 1)] * 2


def test_a_later_row_may_lack_a_date(database):
    """Numbers had the mean of the training, and dates were an error."""
    database.sql("""
        CREATE TABLE visits AS SELECT i % 7 AS n, date '2024-01-01' + i AS day, timestamp '2024-01-01' + i * interval '1 hour' AS at,
            i % 7 + i / 100.0 AS y FROM generate_series(1, 400) i;
        SELECT pgml.train('visits', 'regression', 'visits', 'y', 'linear');
    """)
    whole, without = json.loads(
        database.sql("""
            SELECT json_build_array(pgml.predict('visits', (n, day, at)), pgml.predict('visits', (n, NULL::date, NULL::timestamp)))
            FROM visits WHERE y = (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY y) FROM visits WHERE n = 3)
        """)
    )
    assert abs(whole - without) < 1.5
