"""A model for each group of rows: trained beside each other, chosen by the row, with one model for all other groups."""

import json

import numpy
import pytest

from devkit import Problem

# What makes the rows of groups that differ: y = base + slope * x, with a little noise.
SALES = """
    CREATE TABLE sales AS SELECT store, x, weekday, round((10 * ascii(store) + (ascii(store) - 66) * x + weekday
        + sin(i * 12.9898) * 0.5)::numeric, 3)::double precision AS units
    FROM (SELECT i, chr(65 + i % 5) AS store, (i * 7919 % 1000) / 50.0 AS x, i % 7 AS weekday
          FROM generate_series(1, 1500) i) rows;
    INSERT INTO sales SELECT 'small', x, weekday, units FROM sales WHERE store = 'A' LIMIT 7;
    INSERT INTO sales SELECT NULL, x, weekday, units FROM sales WHERE store = 'B' LIMIT 40;
"""


@pytest.fixture
def sales(database):
    database.sql(SALES)
    return database


def train(database, project, **arguments):
    given = {"task": "regression", "relation_name": "sales", "y_column_name": "units", "group_by": "store"} | arguments
    listed = ", ".join(f"{name} => {value if name in PLAIN else literal(value)}" for name, value in given.items())
    return database.sql(f"SELECT * FROM pgml.train('{project}', {listed})")


PLAIN = {"refit", "test_size", "automatic_deploy"}


def literal(value):
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return "'" + text.replace("'", "''") + "'"


def rows(database, statement):
    return [line.split("|") for line in database.sql(statement).splitlines()]


def test_each_group_is_predicted_by_scikit_learns_model_of_its_rows(sales):
    from sklearn.linear_model import LinearRegression

    assert train(sales, "s", refit="true") == "s|regression|linear|t"
    known = rows(sales, "SELECT store, x, weekday, units, pgml.predict('s', s) FROM sales s WHERE length(store) = 1")
    stores = numpy.array([row[0] for row in known])
    numbers = numpy.array([row[1:] for row in known], dtype=float)
    for store in "ABCDE":
        own = numbers[stores == store]
        expected = LinearRegression().fit(own[:, :2], own[:, 2]).predict(own[:, :2])
        assert numpy.abs(expected - own[:, 3]).max() < 1e-3


def test_groups_says_who_answers_and_how_well(sales):
    train(sales, "s")
    found = rows(
        sales,
        "SELECT groups->>'store', rows, fallback, held_out, metric, score > 0.9, fallback_score < score - 0.01, reason "
        "FROM pgml.groups('s') ORDER BY groups->>'store' NULLS LAST",
    )
    assert [(row[0], row[2]) for row in found] == [(store, "f") for store in "ABCDE"] + [("small", "t"), ("", "t")]
    assert all(row[4] == "r2" and row[5] == row[6] == "t" and row[7] == "" for row in found[:5])
    assert found[5][1] == "7" and found[5][7] == "fewer than 30 rows"
    assert found[6][7] == "no group of the training rows"
    assert 1500 < sum(int(row[1]) for row in found) <= 1547
    metrics = json.loads(sales.sql("SELECT metrics FROM pgml.models"))
    assert sum(int(row[3]) for row in found) == metrics["rows"]
    assert metrics["groups"]["number"] == 6 and metrics["groups"]["with_own_model"] == 5
    assert metrics["groups"]["fallback"]["r2"] < 0.9 < metrics["r2"]
    assert sales.sql("SELECT count(*) FROM pgml.groups((SELECT max(id) FROM pgml.models))") == "7"


def test_rows_of_other_groups_are_predicted_by_the_model_of_all_rows(sales):
    from sklearn.linear_model import LinearRegression

    train(sales, "s", test_size=0)
    known = numpy.array(rows(sales, "SELECT x, weekday, units FROM sales"), dtype=float)
    expected = LinearRegression().fit(known[:, :2], known[:, 2]).predict([[3, 4]])[0]
    for store in ("'Z'", "'small'", "NULL", "'a'", "''", "'A '"):
        found = sales.sql(
            f"SELECT pgml.predict('s', r) FROM (SELECT {store}::text AS store, 3.0::float8 AS x, 4 AS weekday) r"
        )
        assert float(found) == pytest.approx(expected, abs=1e-3), store


def test_every_form_of_a_call_finds_the_group(sales):
    train(sales, "s")
    row = "SELECT 'C'::text AS store, 2.0::float8 AS x, 3 AS weekday"
    expected = float(sales.sql(f"SELECT pgml.predict('s', r) FROM ({row}) r"))
    assert expected == pytest.approx(10 * 67 + 2 + 3, abs=1)
    calls = [
        "pgml.predict('s', 'C'::text, 2.0, 3)",
        "pgml.predict('s', 'C', 2, 3)",
        "pgml.predict('s', ROW('C'::text, 2.0, 3))",
        'pgml.predict(\'s\', jsonb_populate_record(NULL::sales, \'{"store": "C", "x": 2, "weekday": 3}\'))',
        # Of a text an array has its number in the order of the texts, from 0: what other columns of text have, too.
        "pgml.predict('s', ARRAY[2, 2, 3])",
        "pgml.predict_batch('s', ARRAY[ARRAY[2, 2, 3]])",
    ]
    for call in calls:
        assert float(sales.sql(f"SELECT {call}")) == pytest.approx(expected, rel=1e-5), call
    # An array with a number that is no group's, and a missing one.
    for group in ("99", "'NaN'", "NULL"):
        other = float(sales.sql(f"SELECT pgml.predict('s', ARRAY[{group}, 2, 3]::real[])"))
        assert other == pytest.approx(float(sales.sql("SELECT pgml.predict('s', 'Z', 2, 3)")), rel=1e-5)
    each = sales.sql("SELECT array_agg(pgml.predict('s', s) ORDER BY ctid) FROM sales s")
    assert sales.sql("SELECT pgml.predict_agg('s', store, x, weekday ORDER BY ctid) FROM sales") == each
    sales.sql("PREPARE p(text) AS SELECT pgml.predict('s', $1, 2, 3); EXECUTE p('A'); EXECUTE p('B'); EXECUTE p('Z')")
    parallel = sales.sql("""
        SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
        SET min_parallel_table_scan_size = 0; SET debug_parallel_query = on;
        SELECT round(sum(pgml.predict('s', s))::numeric, 1) FROM sales s""").splitlines()[-1]
    assert parallel == sales.sql("SELECT round(sum(pgml.predict('s', s))::numeric, 1) FROM sales s")


@pytest.mark.parametrize(
    ("kind", "expression", "name"),
    [
        ("int", "i % 3", "1"),
        ("smallint", "(i % 3)::smallint", "1"),
        ("bigint", "(i % 3) + 5000000000", "5000000001"),
        ("boolean", "i % 2 = 1", "true"),
        ("date", "date '2024-01-01' + i % 3", '"2024-01-02"'),
        ("varchar(5)", "(ARRAY['a','A','b'])[1 + i % 3]", '"A"'),
        ("text", "(ARRAY['nord','süd, \"west\"',''])[1 + i % 3]", '"süd, \\"west\\""'),
    ],
)
def test_groups_of_every_type_of_column(database, kind, expression, name):
    database.sql(f"""
        CREATE TABLE t AS SELECT ({expression})::{kind} AS g, i % 10 AS x, (1 + i % 2 + i % 3) * (i % 10)::float8 AS y
        FROM generate_series(1, 600) i;
        SET DateStyle = 'German';
        SELECT pgml.train('t', 'regression', 't', 'y', group_by => 'g', refit => true)""")
    assert f'{{"g": {name}}}' in database.sql("SELECT groups FROM pgml.groups('t')").splitlines()
    assert database.sql("SELECT count(*) FILTER (WHERE fallback) FROM pgml.groups('t')") == "0"
    wrong = """SELECT count(*) FROM t JOIN (SELECT g, regr_slope(y, x) AS slope, regr_intercept(y, x) AS base FROM t GROUP BY g) own
        USING (g) WHERE abs(pgml.predict('t', t) - (base + slope * x)) > 1e-3"""
    assert database.sql(wrong) == "0"
    literal = database.sql("SELECT quote_literal(g) FROM t WHERE x = 5 LIMIT 1")
    one = database.sql(
        f"SELECT pgml.predict('t', {literal}, 5) - pgml.predict('t', t) FROM t WHERE g = {literal} AND x = 5 LIMIT 1"
    )
    assert abs(float(one)) < 1e-5
    assert (
        database.sql("SELECT pgml.predict('t', t) IS NOT NULL FROM (SELECT NULL::int AS x, NULL::text AS n) t LIMIT 0")
        == ""
    )


def test_several_columns_tell_a_group(database):
    database.sql("""
        CREATE TABLE t AS SELECT i % 3 AS a, x, chr(65 + i % 2) AS b, i % 3 * x + i % 2 AS y
        FROM generate_series(1, 900) i, LATERAL (SELECT (i % 17)::float8 AS x) xs WHERE i % 6 <> 4;
        SELECT pgml.train('t', 'regression', 't', 'y', group_by => 'a, b', test_size => 0)""")
    assert database.sql("SELECT groups FROM pgml.groups('t')").splitlines()[0] == '{"a": 0, "b": "A"}'
    assert database.sql("SELECT count(*), count(*) FILTER (WHERE fallback) FROM pgml.groups('t')") == "5|0"
    assert database.sql("SELECT max(abs(pgml.predict('t', t) - y)) < 1e-3 FROM t") == "t"
    assert database.sql("SELECT pgml.predict('t', 1, 2, 'A') = pgml.predict('t', 7, 2, 'A')") == "t"


@pytest.mark.parametrize(
    ("algorithm", "hyperparams"),
    [("linear", {}), ("naive_bayes", {}), ("random_forest", {"n_estimators": 5}), ("ridge", {}), ("knn", {})],
)
def test_classes_of_a_group_are_those_of_its_rows(database, algorithm, hyperparams):
    database.sql("""
        CREATE TABLE t AS SELECT (ARRAY['two', 'three', 'one'])[1 + i % 3] AS g, (i * 37 % 100) / 10.0 AS x, i % 7 AS z,
            CASE i % 3 WHEN 0 THEN (ARRAY['a', 'c'])[1 + (i * 37 % 100 > 50)::int]
                WHEN 1 THEN (ARRAY['a', 'b', 'c'])[1 + (i * 37 % 100) / 34] ELSE 'b' END AS y
        FROM generate_series(1, 900) i""")
    given = json.dumps(hyperparams)
    database.sql(f"SELECT pgml.train('t', 'classification', 't', 'y', '{algorithm}', '{given}', group_by => 'g')")
    known = dict(
        line.split("|", 1) for line in database.sql("SELECT groups->>'g', reason FROM pgml.groups('t')").splitlines()
    )
    assert known == {"two": "", "three": "", "one": "all its rows are of one class"}
    assert float(database.sql("SELECT avg((pgml.predict_label('t', t) = y)::int) FROM t WHERE g <> 'one'")) > 0.8
    if algorithm == "ridge":
        assert database.sql("SELECT count(*) FROM t WHERE g = 'two' AND pgml.predict_label('t', t) = 'b'") == "0"
        return
    assert (
        database.sql("""SELECT bool_and(cardinality(p) = 3 AND abs(p[1] + p[2] + p[3] - 1) < 1e-4),
            max(p[2]) FILTER (WHERE g = 'two') FROM (SELECT g, pgml.predict_proba('t', t) AS p FROM t) t""")
        == "t|0"
    )


def test_a_project_trains_again_with_its_groups(sales):
    train(sales, "s")
    sales.sql(
        "INSERT INTO sales SELECT 'new', x, weekday, -units FROM sales WHERE store = 'A'; DELETE FROM sales WHERE store = 'B'"
    )
    before = sales.sql("SELECT pgml.predict('s', 'new', 1, 1)")
    sales.sql("SELECT pgml.train('s', algorithm => 'ridge')")
    assert "ridge" in sales.sql("SELECT algorithm FROM pgml.models ORDER BY id DESC LIMIT 1")
    found = sales.sql("SELECT groups->>'store' FROM pgml.groups((SELECT max(id) FROM pgml.models))").splitlines()
    assert "new" in found and "B" not in found
    assert sales.sql("SELECT pgml.predict((SELECT max(id) FROM pgml.models), 'new', 1, 1)") != before
    # Without, and with others.
    sales.sql("SELECT pgml.train('s', group_by => '')")
    with pytest.raises(Problem, match="model .* has no groups"):
        sales.sql("SELECT pgml.groups((SELECT max(id) FROM pgml.models))")
    sales.sql("SELECT pgml.train('s', group_by => 'weekday')")
    found = sales.sql("SELECT groups FROM pgml.groups((SELECT max(id) FROM pgml.models))").splitlines()
    assert found[0] == '{"weekday": 0}'
    assert sales.sql("SELECT count(*) FROM pgml.models") == "4"


def test_what_is_known_of_other_models_is_known_of_these(sales):
    train(sales, "s", hyperparams={"min_group_rows": 10})
    sales.sql("SELECT * FROM pgml.drift('s', 'sales')")
    sales.sql("SELECT pgml.watch('s', 'sales'); SELECT * FROM pgml.check('s')")
    assert "r2" in sales.sql("SELECT pgml.evaluate('s', 'sales')")
    assert "store" in sales.sql("SELECT pgml.card((SELECT max(id) FROM pgml.models))")
    assert sales.sql("SELECT count(*) FROM pgml.predict_interval('s', (SELECT s FROM sales s LIMIT 1))") == "1"
    explained = dict(
        line.split("|")[::2]
        for line in sales.sql("SELECT * FROM pgml.explain('s', 'C', 5, 3)").replace("||", "|").splitlines()
    )
    assert explained
    assert "store" in sales.sql("SELECT * FROM pgml.permutation_importance('s', 'sales')")
    for refused in (
        "SELECT pgml.export_sql('s')",
        "SELECT pgml.coefficients('s')",
        "SELECT pgml.export(id, 'onnx') FROM pgml.models",
    ):
        with pytest.raises(Problem):
            sales.sql(refused)


def test_trees_are_explained_by_the_model_of_the_group(sales):
    train(sales, "s", algorithm="random_forest", hyperparams={"n_estimators": 5, "max_depth": 4})
    assert (
        sales.sql("""SELECT max(abs(p - e)) < 1e-2 FROM (SELECT pgml.predict('s', s) AS p,
        (SELECT sum(contribution) FROM pgml.explain('s', s)) AS e FROM sales s LIMIT 50) x""")
        == "t"
    )
    assert sales.sql("SELECT feature FROM pgml.feature_importance('s') LIMIT 1") == "x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_by": "shop"}, 'column "shop", of group_by, does not exist'),
        ({"group_by": "units"}, "is the label"),
        ({"task": "clustering", "y_column_name": None}, "group_by is not for task clustering"),
        ({"hyperparams": {"min_group_rows": 0}}, '"min_group_rows" cannot be 0'),
        ({"group_by": "", "hyperparams": {"min_group_rows": 3}}, '"min_group_rows" needs group_by'),
        ({"preprocess": {"store": {"encode": "target"}}}, 'group_by and preprocess both name column "store"'),
        ({"group_by": "store,x"}, 'column "x" is of type numeric, which group_by does not take'),
        ({"relation_name": "(SELECT store, units FROM sales)"}, "no column to learn from but those of group_by"),
        ({"algorithm": "auto"}, '"auto" does not choose for each group'),
    ],
)
def test_what_cannot_be_is_refused_by_name(sales, arguments, message):
    given = {name: value for name, value in arguments.items() if value is not None}
    if "task" in given:
        with pytest.raises(Problem, match=message):
            sales.sql("SELECT pgml.train('s', 'clustering', '(SELECT store, x FROM sales)', group_by => 'store')")
        return
    with pytest.raises(Problem, match=message):
        train(sales, "s", **given)


def test_ten_thousand_groups_train_and_survive_a_dump(database):
    database.sql("""
        CREATE TABLE t AS SELECT i / 30 AS g, (i % 30)::real AS x, (i % 30) * (i / 30 % 7) + 1.0 AS y
        FROM generate_series(0, 299999) i;
        SELECT pgml.train('t', 'regression', 't', 'y', group_by => 'g', hyperparams => '{"min_group_rows": 5}')""")
    assert database.sql("SELECT count(*), count(*) FILTER (WHERE fallback) FROM pgml.groups('t')") == "10000|0"
    assert database.sql("SELECT max(abs(pgml.predict('t', t) - y)) < 0.01 FROM t") == "t"


def test_cancel_ends_a_training_of_groups(sales):
    with pytest.raises(Problem, match="statement timeout"):
        sales.sql("""SET statement_timeout = '300ms'; SELECT pgml.train('s', 'regression', 'sales', 'units', 'random_forest',
            '{"n_estimators": 20000}', group_by => 'store')""")
    assert sales.sql("SELECT count(*) FROM pgml.models") == "0"


def test_train_async_has_groups(sales):
    sales.sql("SELECT pgml.train_async('s', 'regression', 'sales', 'units', group_by => 'store')")
    assert sales.sql("SELECT pgml.wait(id, '1 min') FROM pgml.jobs") == "done"
    assert sales.sql("SELECT count(*) FROM pgml.groups('s')") != "0"


def test_groups_of_xgboost_are_its_own_librarys(sales):
    import xgboost

    given = {"n_estimators": 20, "max_depth": 3}
    train(sales, "s", algorithm="xgboost", hyperparams=given, refit="true")
    known = rows(sales, "SELECT store, x, weekday, units, pgml.predict('s', s) FROM sales s WHERE length(store) = 1")
    stores, numbers = numpy.array([row[0] for row in known]), numpy.array([row[1:] for row in known], dtype="float32")
    for store in "ABCDE":
        own = numbers[stores == store]
        expected = xgboost.XGBRegressor(**given, n_jobs=1).fit(own[:, :2], own[:, 2]).predict(own[:, :2])
        assert numpy.array_equal(expected, own[:, 3]), store
    # Another connection maps the compiled copy; a batch and single rows are the same bits.
    each = sales.sql("SELECT pgml.predict('s', s) FROM sales s WHERE store = 'C' ORDER BY ctid").splitlines()
    agg = sales.sql(
        "SELECT unnest(pgml.predict_agg('s', store, x, weekday ORDER BY ctid)) FROM sales WHERE store = 'C'"
    )
    assert agg.splitlines() == each
    assert float(sales.sql("SELECT sum(contribution) FROM pgml.explain('s', 'C', 5, 3)")) == pytest.approx(
        float(sales.sql("SELECT pgml.predict('s', 'C', 5, 3)")), rel=1e-4
    )
    assert sales.sql("SELECT feature FROM pgml.feature_importance('s') LIMIT 1") == "x"


def test_classes_of_groups_of_xgboost(sales):
    sales.sql("""
        CREATE TABLE t AS SELECT store, x, weekday, CASE WHEN x > 15 THEN 'high' WHEN x > 5 AND store <> 'B' THEN 'middle' ELSE 'low' END
        AS level FROM sales WHERE length(store) = 1;
        SELECT pgml.train('t', 'classification', 't', 'level', 'xgboost', '{"n_estimators": 10}', group_by => 'store')""")
    assert sales.sql("SELECT bool_and(pgml.predict_label('t', t) = level) FROM t") == "t"
    assert sales.sql("SELECT DISTINCT (pgml.predict_proba('t', t))[3] FROM t WHERE store = 'B'") == "0"
    assert sales.sql("SELECT count(*) FROM pgml.explain('t', 'B', 5, 3)") == "12"
    assert sales.sql("SELECT max(abs(contribution)) FROM pgml.explain('t', 'B', 5, 3) WHERE class = 'middle'") == "0"


@pytest.mark.parametrize(
    ("hyperparams", "message"),
    [
        ({"early_stopping_rounds": 3}, "group_by takes no early_stopping_rounds"),
        ({"xgb_model": "deployed"}, "group_by takes no xgb_model"),
        ({"objective": "survival:cox"}, "group_by takes no objective .survival:cox."),
    ],
)
def test_what_xgboost_cannot_do_for_groups_is_refused(sales, hyperparams, message):
    with pytest.raises(Problem, match=message):
        train(sales, "s", algorithm="xgboost", hyperparams=hyperparams)


def test_a_search_finds_hyperparameters_for_all_groups(sales):
    sales.sql("""SELECT pgml.train('s', 'regression', 'sales', 'units', 'ridge', search => 'grid',
        search_params => '{"alpha": [0.001, 1000], "min_group_rows": [20, 1000]}', group_by => 'store')""")
    assert json.loads(sales.sql("SELECT hyperparams FROM pgml.models")) == {"alpha": 0.001, "min_group_rows": 20}


def test_an_exported_model_is_the_same_elsewhere(sales):
    train(sales, "s", algorithm="random_forest", hyperparams={"n_estimators": 3})
    sales.sql("SELECT pgml.import_model('again', pgml.export_model((SELECT max(id) FROM pgml.models)))")
    assert sales.sql("SELECT count(*) FROM sales s WHERE pgml.predict('s', s) <> pgml.predict('again', s)") == "0"


def test_a_group_that_is_written_as_a_literal_is_read_by_the_type_of_its_column(database):
    database.sql("""
        CREATE TABLE many AS SELECT random() AS a, date '2020-01-01' + i % 2 AS d, i % 2 = 0 AS b, i % 2 AS n,
            i % 2 * 100 + random() AS y FROM generate_series(1, 400) i;
        SELECT pgml.train('dates', 'regression', '(SELECT a, d, y FROM many)', 'y', group_by => 'd'),
            pgml.train('truths', 'regression', '(SELECT a, b, y FROM many)', 'y', group_by => 'b'),
            pgml.train('numbers', 'regression', '(SELECT a, n, y FROM many)', 'y', group_by => 'n')""")
    for project, literals, kind in [
        ("dates", ["2020-01-02", "2020-1-2", "2020-01-02T00:00:00.000Z"], "date"),
        ("truths", ["false", "f", "no", "FALSE"], "boolean"),
        ("numbers", ["1", " 1", "01", "+1"], "bigint"),
    ]:
        for literal in literals:
            assert float(database.sql(f"SELECT pgml.predict('{project}', 0.5, '{literal}')")) > 90, literal
        with pytest.raises(Problem, match=f"invalid input syntax for type {kind}"):
            database.sql(f"SELECT pgml.predict('{project}', 0.5, 'bogus')")
        with pytest.raises(Problem, match="in training and is text here"):
            column = {"dates": "d", "truths": "b", "numbers": "n"}[project]
            database.sql(f"SELECT pgml.predict('{project}', r) FROM (SELECT 0.5 AS a, 'bogus'::text AS {column}) r")


def test_a_column_that_is_named_twice_is_refused(database):
    database.sql("CREATE TABLE t AS SELECT i AS a, 'x' AS g, i AS y FROM generate_series(1, 50) i")
    with pytest.raises(Problem, match='group_by names column "g" twice'):
        database.sql("SELECT pgml.train('t', 'regression', 't', 'y', group_by => 'g, g')")
