"""What ordinary tables meet, and what is said of it: rows without labels, scores of different rows, a label that is gone."""

import json
import re

import pytest

from devkit import Problem


def told(database, statement, *kinds):
    """The first value that a statement gives, and what is said meanwhile, of these severities."""
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(statement)
        said = [
            notice[b"M"].decode() for notice in connection.notices if notice[b"S"].decode() in (kinds or ("NOTICE",))
        ]
        return cursor.fetchall()[0][0], said


@pytest.fixture
def visits(database):
    """A table with a key, times, and labels that a fifth of the rows still lacks."""
    database.sql("""
        CREATE TABLE visits AS SELECT i AS id, now() - i * interval '1 hour' AS at, sin(i) AS a, cos(i * 3) AS b,
            CASE WHEN i % 5 > 0 THEN 3 * sin(i) + cos(i * 3) END AS y,
            CASE WHEN i % 5 > 0 THEN CASE WHEN sin(i) + cos(i * 3) > 1 THEN 'bad' ELSE 'good' END END AS c
        FROM generate_series(1, 1000) i;
        ALTER TABLE visits ADD PRIMARY KEY (id);
        SELECT pgml.train('amount', 'regression', '(SELECT a, b, y FROM visits)', 'y', 'xgboost', '{"n_estimators": 10}');
        SELECT pgml.train('kind', 'classification', '(SELECT a, b, c FROM visits)', 'c', 'xgboost', '{"n_estimators": 10}');
    """)
    return database


@pytest.mark.parametrize(
    "call",
    [
        "SELECT pgml.evaluate('amount', {rows}, rows => 'all')->>'rows'",
        "SELECT metrics->>'rows' FROM pgml.compare('amount', {rows}, rows => 'all')",
        "SELECT pgml.evaluate('kind', {rows}, rows => 'all')->>'rows'",
        "SELECT sum(count)::text FROM pgml.confusion_matrix('kind', {rows}, rows => 'all')",
        "SELECT sum(rows)::text FROM pgml.calibration_curve('kind', {rows}, rows_used => 'all')",
        "SELECT '800' FROM pgml.roc_curve('kind', {rows}, rows => 'all')",
        "SELECT '800' FROM pgml.permutation_importance('amount', {rows}, 1, rows => 'all')",
        "SELECT '800' FROM pgml.residual_quantiles('amount', {rows}, rows => 'all')",
    ],
)
def test_rows_without_a_label_are_left_out_and_counted(visits, call):
    counted, said = told(visits, call.format(rows="'visits'"))
    assert counted == "800" and "rows left out: 200, whose label is NULL or NaN" in said, said

    def error(rows, before=""):
        """What is said of a relation that cannot be measured; pgml.compare says it in a column."""
        statement = before + call.replace("metrics->>'rows'", "error").format(rows=rows)
        if "compare" in call:
            return visits.sql(statement)
        with pytest.raises(Problem) as problem:
            visits.sql(statement)
        return str(problem.value)

    assert "is NULL or NaN in all 200 rows" in error("'(SELECT * FROM visits WHERE y IS NULL)'")
    assert "is NULL in 200 of 1000 rows" in error("'visits'", "SET pgml.strict = on; ")


def test_the_rows_that_are_held_out_are_counted_among_those_with_labels(visits):
    rows, said = told(visits, "SELECT sum(count) FROM pgml.confusion_matrix('kind', '(SELECT a, b, c FROM visits)')")
    assert "rows left out: 200, whose label is NULL or NaN" in said
    assert f"the {rows} of 800 rows that the training held out are used" in said
    # A relation without a labelled row among those that were held out is no error.
    trained = "(SELECT a, b, c FROM visits v WHERE c IS NULL OR NOT pgml.held_out('kind', v))"
    assert told(visits, f"SELECT pgml.evaluate('kind', $${trained}$$, rows => 'held_out')->>'rows'")[0] == "0"


def test_time_that_moves_on_is_no_drift(visits):
    visits.sql("""
        SELECT pgml.train('timed', 'regression', '(SELECT at, a, y FROM visits)', 'y', 'xgboost', '{"n_estimators": 5}');
        INSERT INTO visits SELECT 2000 + i, now() - i * interval '1 second', sin(i) + 3, 0, i FROM generate_series(1, 500) i;
        SELECT pgml.watch('timed', 'visits', 'at', '12 minutes');
    """)
    found = visits.sql("""
        SELECT name, value > 1, threshold IS NULL, crossed, detail ~ 'time moves on by itself'
        FROM pgml.check('timed') WHERE what = 'drift' ORDER BY name
    """)
    assert found.splitlines() == ["a|t|f|t|f", "at|t|t|f|t"]
    visits.sql("SELECT pgml.watch('timed', '(SELECT * FROM visits WHERE id > 2000)')")
    assert visits.sql("SELECT crossed FROM pgml.check('timed') WHERE what = 'drift' AND name = 'at'") == "t"


def test_the_best_model_is_named_with_its_score(visits):
    best = "SELECT pgml.deploy('amount', 'best_score')"
    _, said = told(visits, best)
    assert re.fullmatch(r"model 1 \(xgboost\) is deployed: r2 0\.\d{4} on \d+ held-out rows", said[0]), said
    visits.sql("SELECT pgml.train('amount', algorithm => 'linear')")
    _, said = told(visits, best)
    assert re.fullmatch(
        r"model 3 \(linear\) is deployed: r2 1\.000 on \d+ held-out rows, the best of 2 scores", said[0]
    ), said
    visits.sql("INSERT INTO visits SELECT i, now(), 5, 5, 5, 'bad' FROM generate_series(3000, 3100) i")
    visits.sql("SELECT pgml.train('amount', algorithm => 'lasso')")
    _, said = told(visits, best)
    assert said[0].endswith("the best of 3 scores, of which 1 score may be of other rows") or said[0].endswith(
        "the best of 3 scores, of which 2 scores may be of other rows"
    ), said
    visits.sql("SELECT pgml.train('all', 'regression', '(SELECT a, b, y FROM visits)', 'y', test_size => 0)")
    _, said = told(visits, "SELECT pgml.deploy('all', 'best_score')")
    assert re.fullmatch(r"model \d+ \(linear\), the newest one, is deployed: no model has a score by r2", said[0]), said


def test_a_check_tells_held_out_rows_of_coarse_tables_by_their_key_as_an_evaluation_does(database):
    database.sql("""
        CREATE TABLE coarse AS SELECT i AS id, now() - i * interval '1 minute' AS at, i % 2 = 0 AS a, i / 2 % 2 = 0 AS b,
            (i % 2 = 0) <> (i / 2 % 2 = 0) AS c FROM generate_series(1, 400) i;
        ALTER TABLE coarse ADD PRIMARY KEY (id);
        SELECT pgml.train('coarse', 'classification', 'coarse', 'c', 'xgboost', '{"n_estimators": 5}',
            preprocess => '{"at": {"role": "ignore"}}');
        SELECT pgml.watch('coarse', 'coarse', 'at', '3 hours');
    """)
    recent = "(SELECT * FROM coarse WHERE at > now() - interval ''3 hours'')"
    held_out = int(database.sql(f"SELECT pgml.evaluate('coarse', '{recent}', rows => 'held_out')->>'rows'"))
    detail = database.sql("SELECT detail FROM pgml.check('coarse') WHERE what = 'metric'")
    assert 0 < held_out < 100
    assert detail.startswith(f"{held_out} of 179 rows with labels, those that the model was not trained on"), detail
    database.sql("""
        SELECT pgml.train('keyless', 'classification', '(SELECT at, a, b, c FROM coarse)', 'c', 'xgboost',
            '{"n_estimators": 5}', preprocess => '{"at": {"role": "ignore"}}');
        SELECT pgml.watch('keyless', '(SELECT at, a, b, c FROM coarse)', 'at', '3 hours');
    """)
    detail = database.sql("SELECT detail FROM pgml.check('keyless') WHERE what = 'metric'")
    assert detail.startswith("179 rows with labels, on some of which the model may have been trained"), detail


def test_the_only_column_is_kept_with_a_word(database):
    database.sql("""
        CREATE TABLE names AS SELECT 'name ' || i AS name, i % 7 AS y FROM generate_series(1, 300) i;
        CREATE TABLE keyed AS SELECT i AS id, i % 7 AS y FROM generate_series(1, 300) i;
        ALTER TABLE keyed ADD PRIMARY KEY (id);
    """)
    kept = "kept, since there is no other column, though it hardly says anything of new rows: "
    _, said = told(
        database, "SELECT pgml.train('names', 'regression', 'names', 'y', 'xgboost', '{\"n_estimators\": 2}')"
    )
    assert any(f'{kept}"name" (text, 300 different ones in 300 rows)' in text for text in said), said
    _, said = told(
        database, "SELECT pgml.train('keyed', 'regression', 'keyed', 'y', 'xgboost', '{\"n_estimators\": 2}')"
    )
    assert any(f'{kept}"id" (a key)' in text for text in said), said
    database.sql("ALTER TABLE names ADD a integer; UPDATE names SET a = y")
    _, said = told(database, "SELECT pgml.train('both', 'regression', 'names', 'y')")
    assert not any("kept" in text for text in said), said


@pytest.mark.parametrize(
    "metric, positive, expected",
    [
        ("aucpr", None, True),
        ("map", None, True),
        ("aucpr", "good", False),
        ("auc", None, False),
        ("logloss", None, False),
    ],
)
def test_a_metric_of_the_other_class_is_told_of(visits, metric, positive, expected):
    more = f", positive_class => '{positive}'" if positive else ""
    _, said = told(
        visits,
        f"""SELECT pgml.train('m', 'classification', '(SELECT a, b, c FROM visits)', 'c', 'xgboost',
            '{{"n_estimators": 3, "eval_metric": ["{metric}"]}}'{more})""",
        "WARNING",
    )
    of_other = [text for text in said if text.startswith(f"eval_metric {metric}")]
    assert len(of_other) == expected, said
    for text in of_other:
        assert 'is of class "good"' in text and 'positive class "bad"' in text and "positive_class => 'good'" in text


def test_a_label_that_is_gone_is_explained(visits):
    with pytest.raises(Problem) as problem:
        visits.sql("SELECT pgml.train('amount', relation_name => '(SELECT a, b, y AS target FROM visits)')")
    assert 'column "y", the label of the project\'s last training, does not exist' in str(problem.value)
    assert "y_column_name => '...' names another. The columns are a, b, target." in str(problem.value)
    visits.sql("""
        CREATE TABLE renamed AS SELECT a, b, y FROM visits;
        SELECT pgml.train('renamed', 'regression', 'renamed', 'y');
        ALTER TABLE renamed RENAME y TO z;
    """)
    with pytest.raises(Problem, match=r"(?s)label of the project's last training.*The columns are a, b, z\."):
        visits.sql("SELECT pgml.train('renamed')")
    visits.sql("SELECT pgml.train('renamed', relation_name => 'renamed', y_column_name => 'z')")


@pytest.mark.parametrize(
    "query", ["(SELECT a, b, y FROM visits;)", "(SELECT a, b, y FROM visits ; ) ;\n", "(SELECT a, b, y FROM visits);"]
)
def test_a_query_may_end_with_a_semicolon(visits, query):
    visits.sql(f"SELECT pgml.train('s', 'regression', '{query}', 'y')")
    assert visits.sql(f"SELECT pgml.evaluate('s', '{query}')->>'rows_used'") == "held_out"
    assert visits.sql("SELECT pgml.evaluate('s', '(SELECT a, b, y FROM visits)')->>'rows_used'") == "held_out"
    with pytest.raises(Problem, match="syntax error"):
        visits.sql("SELECT pgml.train('s', 'regression', '(SELECT a, b, y FROM visits; SELECT 1;)', 'y')")


def test_clusters_that_are_none_are_told_of(database):
    database.sql("""
        CREATE TABLE points AS SELECT sin(i * i) AS a, cos(i * 7) AS b, sin(i * 3) AS c, i % 2 * 1000 AS wide
        FROM generate_series(1, 400) i;
        CREATE TABLE clear AS SELECT i % 3 * 100 + sin(i) AS a, cos(i) AS b FROM generate_series(1, 300) i;
    """)
    _, said = told(
        database,
        "SELECT pgml.train('clear', 'clustering', 'clear', algorithm => 'kmeans', hyperparams => '{\"n_clusters\": 3}')",
        "WARNING",
    )
    assert said == []
    # Centres far from all rows but one make clusters of which most rows would rather be in another.
    _, said = told(
        database,
        """SELECT pgml.train('none', 'clustering', 'points', algorithm => 'dbscan',
            hyperparams => '{"eps": 0.25, "min_samples": 2}')""",
        "WARNING",
    )
    silhouette = json.loads(database.sql("SELECT metrics FROM pgml.models ORDER BY id DESC LIMIT 1"))["silhouette"]
    assert silhouette < 0
    assert any("nearer to another cluster than to their own in the mean (silhouette -0." in text for text in said), said
    assert "rows are nearer to another cluster" in database.sql(
        "SELECT pgml.card(id) FROM pgml.deployed_models WHERE name = 'none'"
    )


def test_one_is_singular(visits):
    _, said = told(visits, "SELECT pgml.evaluate('kind', '(SELECT * FROM visits LIMIT 1)')")
    assert "the only row is used; if the model was trained on some of them, rows => 'held_out' leaves these out" in said
    visits.sql("SELECT pgml.train('one', 'regression', '(SELECT a, y FROM visits)', 'y')")
    for call, message in (
        ("pgml.predict('one', ARRAY[1, 2]::real[])", "takes 1 feature, and the call gives 2"),
        (
            "pgml.train('two', 'regression', '(SELECT a, y FROM visits WHERE y > 0 LIMIT 1)', 'y')",
            "of 1, 1 would be trained on",
        ),
        ("pgml.train('two', 'regression', 'visits', 'y', test_size => 2000)", "there are 800 rows"),
    ):
        with pytest.raises(Problem, match=message):
            visits.sql(f"SELECT {call}")
