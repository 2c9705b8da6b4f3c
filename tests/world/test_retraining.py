"""A table that lives, and models that are trained on it again: rows keep their sides, decisions are not made from memory, and the
deployed models get better on rows that nobody has seen.
"""

import contextlib
import json
import re
import threading
import time

import numpy
import pytest
import xgboost

from devkit import Problem
from tests.conftest import fresh

# The world moves slowly, from x to z.
DAYS = """
    SELECT setseed(0.3);
    CREATE FUNCTION day(n int, s double precision) RETURNS TABLE (a real, b real, c real, d real, bad boolean)
    LANGUAGE sql VOLATILE AS $$
        SELECT x, y, z, w, (1 - s) * x + s * z + y * z + sin(6 * w) + (e1 + e2 + e3) * 0.9 > 2.4
        FROM (SELECT random()::real x, random()::real y, random()::real z, random()::real w, random() e1, random() e2,
                     random() e3 FROM generate_series(1, n)) q $$;
    CREATE TABLE events AS SELECT row_number() OVER () AS id, 0 AS seen, * FROM day(1500, 0);
"""
RELATION = "(SELECT a, b, c, d, bad FROM events)"


@pytest.fixture(scope="module")
def world(server):
    """A database with two thousand loans, and a model of them."""
    with fresh(server, "retraining") as database:
        database.sql("""
            CREATE TABLE loans AS SELECT i, (hashint4(i) & 2147483647) % 1000 AS a,
                (hashint4(i + 77777777) & 2147483647) % 1000 AS b, 'city ' || i % 40 AS city,
                ((hashint4(i) & 2147483647) % 1000 + (hashint4(i + 99999999) & 2147483647) % 1500) > 2000 AS bad
            FROM generate_series(1, 4000) i;
            SELECT pgml.train('loans', 'classification', '(SELECT a, b, city, bad FROM loans)', 'bad', 'xgboost',
                '{"n_estimators": 20}', materialize_snapshot => true);
        """)
        yield database


def said(database, statement):
    """What a statement answers, and what was said meanwhile."""
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(statement)
        rows = cursor.fetchall()
        return rows, [notice[b"M"].decode() for notice in connection.notices]


def test_a_model_that_is_trained_every_day_gets_better(server):
    with fresh(server, "days") as database:
        database.sql(DAYS)
        train = "SELECT deployed FROM pgml.train('ev', algorithm => 'random_forest', hyperparams => '{\"n_estimators\": 50}')"
        database.sql(
            f"SELECT pgml.train('ev', 'classification', '{RELATION}', 'bad', 'random_forest', '{{\"n_estimators\": 50}}')"
        )
        deployed = []
        for day in range(1, 16):
            database.sql(f"""
                SELECT setseed({day} / 16.0);
                INSERT INTO events SELECT 100000 * {day} + row_number() OVER (), 0, * FROM day(500, {day} / 15.0);
                UPDATE events SET seen = seen + 1 WHERE random() < 0.2;
            """)
            deployed.append(database.sql(train) == "t")
        database.sql("SELECT setseed(0.1); CREATE TABLE tomorrow AS SELECT * FROM day(20000, 1)")
        scores = database.sql("""
            SELECT json_object_agg(model_id, json_build_array(deployed, metrics->>'f1', metrics->>'log_loss'))
            FROM pgml.compare('ev', 'tomorrow')
        """)
        scores = json.loads(scores)
        last = next(score for score in scores.values() if score[0])
        first = scores[min(scores, key=int)]
        assert sum(deployed) >= 8, deployed
        assert float(last[1]) > float(first[1]) + 0.02, scores
        assert float(last[2]) < float(first[2]), scores


def test_another_order_of_the_same_rows_is_the_same_split(world):
    """The deployed model was scored on its own training rows, and won by what it remembered."""
    split = "SELECT pgml.train('order', {task}'{relation}', 'bad', 'random_forest', '{{\"n_estimators\": 30}}')"
    task = "'classification', "
    relation = "(SELECT a, b, bad FROM loans{})"
    world.sql(split.format(task=task, relation=relation.format("")))
    _, notices = said(world, split.format(task=task, relation=relation.format(" ORDER BY a")))
    (decision,) = [notice for notice in notices if notice.startswith("Comparing")]
    metrics = json.loads(
        world.sql("""
        SELECT json_agg(metrics->'f1' ORDER BY id) FROM pgml.models m WHERE EXISTS (
            SELECT FROM pgml.projects p WHERE p.id = m.project_id AND p.name = 'order')
    """)
    )
    assert f"f1 {metrics[1]:.4g}, and {metrics[0]:.4g} of deployed model" in decision, decision
    assert "rows that neither was trained on" in decision
    kept = world.sql(
        "SELECT metrics->>'decision' FROM pgml.trained_models JOIN pgml.models USING (id) WHERE name = 'order' ORDER BY id"
    )
    assert kept.splitlines() == [
        "the project had no deployed model",
        decision.removeprefix("Comparing the new model: "),
    ]
    world.sql("SELECT pgml.train('order', automatic_deploy => false)")
    assert world.sql("SELECT metrics ? 'decision' FROM pgml.models ORDER BY id DESC LIMIT 1") == "f"


def test_rows_keep_their_sides(world):
    world.sql("CREATE TABLE before AS SELECT i, pgml.held_out('loans', l) AS side FROM loans l")
    rows, tests = world.sql("SELECT count(*), count(*) FILTER (WHERE side) FROM before").split("|")
    held_out = world.sql("SELECT pgml.evaluate('loans', '(SELECT a, b, city, bad FROM loans)')->>'rows'")
    assert int(held_out) == int(tests) and 850 < int(tests) < 1150 and rows == "4000"
    world.sql("""
        CREATE TABLE moved AS SELECT *, 0 AS touched FROM loans;
        UPDATE moved SET touched = 1 WHERE i % 3 = 0;
        INSERT INTO moved SELECT i + 10000, a + 1, b, city, bad, 2 FROM loans;
        SELECT pgml.train('loans', relation_name => '(SELECT a, b, city, bad FROM moved)', algorithm => 'xgboost',
            hyperparams => '{"n_estimators": 5}');
    """)
    others = world.sql("""
        SELECT count(*) FROM moved m JOIN before USING (i), LATERAL (SELECT max(id) AS id FROM pgml.models) last
        WHERE pgml.held_out(last.id, m) <> side
    """)
    assert others == "0"


def test_twins_are_on_one_side(world):
    world.sql("""
        CREATE TABLE twins AS SELECT a, b, bad FROM loans UNION ALL SELECT a, b, bad FROM loans;
        SELECT pgml.train('twins', 'classification', 'twins', 'bad', 'xgboost', '{"n_estimators": 5}');
    """)
    both = world.sql("""
        SELECT count(*) FROM (SELECT FROM twins t GROUP BY a, b, bad HAVING count(DISTINCT pgml.held_out('twins', t)) > 1) q
    """)
    assert both == "0"


def test_a_key_names_the_row(world):
    world.sql("""
        SELECT pgml.train('keyed', 'classification', '(SELECT i, a, b, bad FROM loans)', 'bad', 'xgboost',
            '{"n_estimators": 5}', preprocess => '{"i": {"role": "key"}}');
    """)
    changed = world.sql("""
        SELECT count(*) FROM loans l, LATERAL (SELECT l.i, -1 AS a) other
        WHERE pgml.held_out('keyed', l) <> pgml.held_out('keyed', other)
    """)
    assert changed == "0"
    columns = world.sql("SELECT columns FROM pgml.snapshots ORDER BY id DESC LIMIT 1")
    assert [column["name"] for column in json.loads(columns)] == ["a", "b", "bad"]


def test_coarse_data_are_drawn_row_by_row(world):
    """Four different rows: to hold out one of them would be to ask what nobody could have learnt."""
    world.sql("""
        CREATE TABLE xor AS SELECT i % 2 = 0 AS a, i / 2 % 2 = 0 AS b, (i % 2 = 0) <> (i / 2 % 2 = 0) AS c
        FROM generate_series(1, 400) i;
        SELECT pgml.train('xor', 'classification', 'xor', 'c', 'random_forest', '{"n_estimators": 10}');
    """)
    assert world.sql("SELECT metrics->>'f1' FROM pgml.models ORDER BY id DESC LIMIT 1") == "1.0"
    assert world.sql("SELECT pgml.evaluate('xor', 'xor')->>'rows_used'") == "held_out"


def test_a_renamed_column_is_no_reason_to_keep_a_model(world):
    world.sql("""
        CREATE TABLE renamed AS SELECT i % 97 AS a, i % 13 AS b, (i % 97) * 2 + (i % 13) AS y FROM generate_series(1, 1000) i;
        SELECT pgml.train('renamed', 'regression', 'renamed', 'y');
        ALTER TABLE renamed RENAME COLUMN b TO bb;
    """)
    assert world.sql("SELECT deployed FROM pgml.train('renamed', algorithm => 'ridge')") == "t"
    assert world.sql("SELECT count(pgml.predict('renamed', r)) FROM renamed r") == "1000"


@pytest.mark.parametrize("relation", ["(SELECT a, b, city, bad FROM loans)", "pgml.snapshot_%s"])
def test_the_relation_of_the_training_is_evaluated_where_it_was_held_out(world, relation):
    world.sql("""
        SELECT pgml.train('honest', 'classification', '(SELECT a, b, city, bad FROM loans)', 'bad', 'xgboost',
            '{"n_estimators": 20}', materialize_snapshot => true);
    """)
    snapshot = world.sql("SELECT max(id) FROM pgml.snapshots")
    relation = relation.replace("%s", snapshot)
    stored = json.loads(world.sql("SELECT metrics FROM pgml.models ORDER BY id DESC LIMIT 1"))
    found = json.loads(world.sql(f"SELECT pgml.evaluate('honest', '{relation}')"))
    assert found["rows_used"] == "held_out"
    for metric in ("f1", "precision", "recall", "roc_auc", "log_loss"):
        assert found[metric] == pytest.approx(stored[metric], abs=1e-9), metric
    everything = json.loads(world.sql(f"SELECT pgml.evaluate('honest', '{relation}', rows => 'all')"))
    trained = json.loads(world.sql(f"SELECT pgml.evaluate('honest', '{relation}', rows => 'trained')"))
    assert everything["rows"] == 4000 == found["rows"] + trained["rows"]
    assert trained["f1"] > found["f1"]
    rows, notices = said(world, f"SELECT sum(count) FROM pgml.confusion_matrix('honest', '{relation}')")
    assert rows[0][0] == found["rows"]
    assert f"the {found['rows']} of 4000 rows that the training held out are used" in notices
    assert world.sql("SELECT pgml.evaluate('honest', 'loans')->>'rows_used'") == "all"


def test_a_metric_is_named_and_remembered(world):
    world.sql("""
        CREATE FUNCTION cost_step(total float8, label float8, prediction float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS
            'SELECT total - CASE WHEN label = 1 AND prediction < 0.1 THEN 10 WHEN label = 0 AND prediction >= 0.1 THEN 1 ELSE 0 END';
        CREATE AGGREGATE saved(float8, float8) (SFUNC = cost_step, STYPE = float8, INITCOND = '0');
        SELECT pgml.train('metric', 'classification', '(SELECT a, b, bad FROM loans)', 'bad', 'xgboost', '{"n_estimators": 5}',
            metric => 'log_loss');
    """)
    _, notices = said(
        world, "SELECT pgml.train('metric', algorithm => 'xgboost', hyperparams => '{\"n_estimators\": 40}')"
    )
    assert any(notice.startswith("Comparing the new model: log_loss") for notice in notices), notices
    best = world.sql("""
        SELECT pgml.deploy('metric', 'best_score');
        SELECT metrics->>'log_loss' = (SELECT min(metrics->>'log_loss') FROM pgml.trained_models t JOIN pgml.models m USING (id)
            WHERE t.name = 'metric')
        FROM pgml.trained_models t JOIN pgml.models m USING (id) WHERE t.name = 'metric' AND t.deployed
    """)
    assert best.endswith("t")
    _, notices = said(world, "SELECT pgml.train('metric', algorithm => 'xgboost', metric => 'saved')")
    own = float(world.sql("SELECT metrics->>'public.saved' FROM pgml.models ORDER BY id DESC LIMIT 1"))
    assert own < 0 and any(f"Comparing the new model: public.saved {own:.4g}" in notice for notice in notices), notices
    with pytest.raises(Exception, match='a classification has no metric "r2"'):
        world.sql("SELECT pgml.train('metric', algorithm => 'xgboost', metric => 'r2')")


def test_rows_of_an_unknown_rule_are_not_told(world):
    world.sql(
        "SELECT pgml.train('last', 'classification', '(SELECT a, b, bad FROM loans)', 'bad', test_sampling => 'last')"
    )
    with pytest.raises(Exception, match="the held-out rows cannot be told from others"):
        world.sql("SELECT pgml.held_out('last', l) FROM loans l LIMIT 1")
    _, notices = said(world, "SELECT count(*) FROM pgml.roc_curve('last', '(SELECT a, b, bad FROM loans)')")
    assert "all 4000 rows are used, and the model was trained on some of them" in notices


def test_columns_that_are_left_out_move_no_row(database):
    """The first training finds out which columns say nothing, and the second one knows it: the held-out rows are the same."""
    database.sql("""
        CREATE TABLE t AS SELECT i AS n, 'name ' || i AS name, NULL::float8 AS nothing, NULL::text AS nowhere,
            'kind ' || i % 5 AS kind, (i * 7919) % 101 AS x, (i * 7919) % 101 + (i * 31) % 17 AS y
        FROM generate_series(1, 2000) AS i;
        CREATE UNIQUE INDEX ON t (n);
    """)
    held_out = "SELECT metrics->>'rows' FROM pgml.models ORDER BY id DESC LIMIT 1"
    first = "SELECT * FROM pgml.train('p', 'regression', 't', 'y', 'linear')"
    database.sql(first)
    rows = database.sql(held_out)
    database.sql("SELECT * FROM pgml.train('p', algorithm => 'linear')")
    assert database.sql(held_out) == rows
    # One that is left out and dropped is not missed.
    database.sql("ALTER TABLE t DROP COLUMN name, DROP COLUMN nothing")
    database.sql("SELECT * FROM pgml.train('p', algorithm => 'linear')")
    assert database.sql(held_out) == rows
    # Nor does a row need it to be told apart.
    asked = "SELECT count(*) FROM t WHERE pgml.held_out('p', t)"
    assert database.sql(asked) == rows


def test_what_a_column_says_is_asked_anew_each_time(database):
    """A column that said nothing last week is learnt from as soon as it says something."""
    database.sql("""
        CREATE TABLE t AS SELECT i AS n, NULL::text AS note, i % 7 AS x, i % 2 = 0 AS y FROM generate_series(1, 400) AS i;
    """)
    database.sql("SELECT * FROM pgml.train('p', 'classification', 't', 'y', 'linear')")
    database.sql("UPDATE t SET note = CASE WHEN y THEN 'bad' ELSE 'good' END")
    database.sql("SELECT * FROM pgml.train('p', algorithm => 'linear')")
    assert float(database.sql("SELECT metrics->>'f1' FROM pgml.models ORDER BY id DESC LIMIT 1")) == 1.0
    # What somebody has asked for is remembered.
    database.sql("""SELECT * FROM pgml.train('p', 'classification', 't', 'y', 'linear',
                                             preprocess => '{"note": {"role": "ignore"}}')""")
    database.sql("SELECT * FROM pgml.train('p', algorithm => 'linear')")
    assert float(database.sql("SELECT metrics->>'f1' FROM pgml.models ORDER BY id DESC LIMIT 1")) < 1.0
    database.sql("ALTER TABLE t DROP COLUMN note")
    database.sql("SELECT * FROM pgml.train('p', algorithm => 'linear')")


def decision(database, project):
    """What the last training of a project decided."""
    return database.sql(f"""
        SELECT metrics->>'decision' FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id
        WHERE p.name = '{project}' ORDER BY m.id DESC LIMIT 1
    """)


CLASSES = """
    SELECT setseed(.1);
    CREATE TABLE parcels AS SELECT a, b,
        CASE WHEN a + e * .2 > .7 THEN 'C' WHEN b + e * .2 > .6 THEN 'B' ELSE 'A' END AS k
    FROM (SELECT random() a, random() b, random() e FROM generate_series(1, 2000)) q;
"""


def test_rows_without_a_class_do_not_replace_the_model_that_knows_it(database):
    """One night the load of a class failed, and the old model was blamed for predicting it."""
    database.sql(CLASSES)
    again = "SELECT * FROM pgml.train('p', algorithm => 'xgboost', hyperparams => '{\"n_estimators\": 10}')"
    database.sql("SELECT pgml.train('p', 'classification', 'parcels', 'k', 'xgboost', '{\"n_estimators\": 10}')")
    database.sql("CREATE TABLE kept AS SELECT * FROM parcels WHERE k = 'C'; DELETE FROM parcels WHERE k = 'C'")
    rows, notices = said(database, again)
    assert not rows[0][3]
    told = decision(database, "p")
    assert re.fullmatch(
        r'the rows have no class "C" \(about \d+ were to be expected\), which deployed model 1 knows: model 1 stays deployed\. .*',
        told,
    ), told
    assert any(decision(database, "p") in notice for notice in notices)
    assert database.sql("SELECT pgml.predict_label('p', 0.99, 0.5)") == "C"
    # By hand it is deployed, and from then on the class is not missed; another, rare one may be missing by chance.
    database.sql("SELECT pgml.deploy(2); INSERT INTO parcels SELECT 2, 2, 'rare' FROM generate_series(1, 3)")
    assert said(database, again)[0][0][3], decision(database, "p")
    database.sql("DELETE FROM parcels WHERE k = 'rare'")
    said(database, again)
    assert "of deployed model 3, on the" in decision(database, "p")


@pytest.mark.parametrize("metric", ["roc_auc", "log_loss", "brier", "average_precision", "f1"])
def test_a_model_that_does_not_know_the_classes_of_the_rows_loses(database, metric):
    """It kept its place by its own score on older, easier rows, where a metric is of probabilities of the same classes."""
    database.sql(CLASSES)
    again = "SELECT * FROM pgml.train('p', algorithm => 'xgboost', hyperparams => '{\"n_estimators\": 9}')"
    database.sql(f"""
        SELECT pgml.train('p', 'classification', 'parcels', 'k', 'xgboost', '{{"n_estimators": 10}}', metric => '{metric}')
    """)
    database.sql("UPDATE parcels SET k = 'D' WHERE a + b * 17 > floor(a + b * 17) + .7")
    assert said(database, again)[0][0][3], decision(database, "p")
    told = decision(database, "p")
    assert (
        'of deployed model 1, which does not know class "D"' in told
        and "on which that one may have been trained" in told
    )
    database.sql("UPDATE parcels SET k = lower(k)")
    assert said(database, again)[0][0][3], decision(database, "p")
    assert decision(database, "p").startswith("Deployed model 2 knows none of the classes")


def test_a_score_of_few_rows_replaces_no_score_of_many(database):
    """Of forty nights of twelve rows each, some have two held-out rows that are predicted well."""
    database.sql("""
        SELECT setseed(.1);
        CREATE TABLE nights AS SELECT i, a, b, a + b + (random() - .5) AS y
        FROM (SELECT i, random() a, random() b FROM generate_series(1, 4000) i) q;
        SELECT pgml.train('n', 'regression', '(SELECT a, b, y FROM nights)', 'y', 'linear');
    """)
    deployed = database.sql("""
        SELECT bool_or(deployed) FROM generate_series(0, 19) n, pgml.train('n', 'regression',
            format('(SELECT a, b, y FROM nights WHERE i BETWEEN %s AND %s)', n * 12 + 1, n * 12 + 12), 'y', 'linear')
    """)
    assert deployed == "f"
    told = decision(database, "n")
    rows = database.sql("SELECT metrics->>'rows' FROM pgml.models ORDER BY id")
    first, last = rows.splitlines()[0], rows.splitlines()[-1]
    assert f" on the {last} rows that were held out" in told and f"of deployed model 1 on the {first} that" in told
    assert "a score of fewer than 20 rows says too little, and model 1 stays deployed" in told


def test_a_label_that_is_the_same_in_all_rows_deploys_nothing(database):
    """Whoever predicts it always has an r2 of 1."""
    database.sql("""
        CREATE TABLE t AS SELECT i % 97 AS a, i % 13 AS b, (i % 97) * 2 + (i % 13) AS y FROM generate_series(1, 1000) i;
        SELECT pgml.train('c', 'regression', 't', 'y', 'xgboost');
        UPDATE t SET y = 0;
    """)
    rows, notices = said(database, "SELECT * FROM pgml.train('c', algorithm => 'xgboost')")
    assert not rows[0][3]
    assert 'label "y" is 0 in all 1000 rows: there is nothing to learn' in notices
    assert decision(database, "c").endswith("model 1 stays deployed")


@contextlib.contextmanager
def while_it_waits(database, training):
    """A transaction, in which the first statement takes a lock that a training of another session then waits for; gives its
    cursor, what starts the training and waits for that, and the errors of the training, once the transaction is committed.
    """
    errors = []

    def run():
        try:
            with database.connect() as connection:
                connection.cursor().execute(training)
        except Exception as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)

    def start():
        thread.start()
        deadline = time.monotonic() + 60
        while database.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0":
            assert time.monotonic() < deadline and thread.is_alive(), errors
            time.sleep(0.01)

    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("BEGIN")
        yield cursor, start, errors
        cursor.execute("COMMIT")
        thread.join(timeout=60)


LINE = """
    CREATE TABLE t AS SELECT i % 97 AS a, i % 13 AS b, (i % 97) * 2 + (i % 13) AS y FROM generate_series(1, 1000) i;
    SELECT pgml.train('c', 'regression', 't', 'y', 'linear');
"""


def test_what_is_deployed_meanwhile_is_compared_on_the_rows_that_both_held_out(database):
    """Two trainings of a project at once know the same held-out rows."""
    database.sql(LINE)
    with while_it_waits(database, "SELECT pgml.train('c', algorithm => 'lasso')") as (cursor, start, _):
        cursor.execute("SELECT pgml.train('c', algorithm => 'ridge')")
        start()
    told = decision(database, "c")
    assert "of deployed model 2, on the" in told and "rows that neither was trained on" in told, told


@pytest.mark.parametrize("away", ["pgml.delete_project('c')", "pgml.rename_project('c', 'd')"])
def test_a_project_that_goes_during_a_training_does_not_come_back(database, away):
    database.sql(LINE)
    with while_it_waits(database, "SELECT pgml.train('c', algorithm => 'ridge')") as (cursor, start, errors):
        cursor.execute("LOCK TABLE t")
        start()
        database.sql(f"SELECT {away}")
    assert len(errors) == 1 and 'project "c" was deleted or renamed' in errors[0], errors
    assert database.sql("SELECT count(*) FROM pgml.projects WHERE name = 'c'") == "0"


@pytest.mark.parametrize(
    "use, what",
    [
        ("ALTER TABLE u ADD g real GENERATED ALWAYS AS (pgml.predict(1, a, b)) STORED", "column g of table public.u"),
        ("CREATE INDEX i ON u (pgml.predict(1, ARRAY[a, b]))", "index public.i"),
        ("CREATE INDEX i ON u (a) WHERE pgml.predict(1::bigint, a, b) > 3", "index public.i"),
        ("ALTER TABLE u ADD CONSTRAINT fits CHECK (pgml.predict(1, a, b) < 1000)", "constraint fits of table public.u"),
    ],
)
def test_a_model_that_a_table_needs_is_not_deleted(database, use, what):
    """The table took no INSERT any more, and a dump of it could not be restored."""
    database.sql(LINE)
    database.sql("SELECT pgml.train('c', algorithm => 'ridge'); SELECT pgml.train('c', algorithm => 'lasso')")
    database.sql(f"CREATE TABLE u (a real, b real); {use}")
    for call in ("pgml.delete_model(1)", "pgml.delete_project('c')"):
        with pytest.raises(Exception, match=f"because other objects depend on it: {what}"):
            database.sql(f"SELECT {call}")
    # That of another id is not in the way.
    database.sql("SELECT pgml.delete_model(2); INSERT INTO u (a, b) VALUES (1, 2)")
    database.sql("DROP TABLE u; SELECT pgml.delete_model(1)")


def test_best_score_is_of_one_class(database):
    """f1 of the ordinary class is high for whoever never predicts the other one."""
    database.sql("""
        SELECT setseed(.3);
        CREATE TABLE cards AS SELECT a, b, CASE WHEN a * b + e * .3 > .7 THEN 'fraud' ELSE 'ok' END AS k
        FROM (SELECT random() a, random() b, random() e FROM generate_series(1, 2000)) q;
        SELECT pgml.train('f', 'classification', '(SELECT b, k FROM cards)', 'k', 'xgboost', '{"n_estimators": 1}',
            positive_class => 'ok');
        SELECT pgml.train('f', 'classification', 'cards', 'k', 'xgboost', '{"n_estimators": 20}', positive_class => 'fraud');
    """)
    scores = database.sql("SELECT round((metrics->>'f1')::numeric, 2) FROM pgml.models ORDER BY id").splitlines()
    assert float(scores[0]) > float(scores[1]) > 0.4, scores
    database.sql("SELECT pgml.deploy('f', 'best_score')")
    assert database.sql("SELECT id FROM pgml.deployed_models WHERE name = 'f'") == "2"


ROWS = """
    SELECT setseed(.2);
    CREATE TABLE hv AS SELECT i AS id, random() a, CASE WHEN random() < .7 THEN random() END n,
        (random() * 10)::numeric(6, 3) b, 0.0::float8 y FROM generate_series(1, 1000) i;
    UPDATE hv SET y = a + random();
"""


def test_the_same_row_in_another_type_is_on_the_same_side(database):
    """A model sees float32, in which these are the same; they were rows that nobody had been trained on."""
    database.sql(ROWS)
    database.sql("SELECT pgml.train('hv', 'regression', '(SELECT a, n, b, y FROM hv)', 'y', 'linear')")
    for row in (
        "h.a, coalesce(h.n, 'NaN') n, h.b, h.y",
        "h.a::numeric a, h.n, h.b, h.y",
        "h.a::real a, h.n, h.b::real b, h.y",
    ):
        others = database.sql(f"""
            SELECT count(*) FROM hv h, LATERAL (SELECT {row}) r WHERE pgml.held_out('hv', h) <> pgml.held_out('hv', r)
        """)
        assert others == "0", row


@pytest.mark.parametrize(
    "roles, column, other",
    [
        ('{"id": {"role": "key"}}', "id", "text"),
        ('{"id": {"role": "group"}}', "id", "text"),
        ('{"id": {"role": "ignore"}}', "k", "text"),
    ],
)
def test_rows_that_are_told_by_a_column_of_another_type_are_not_told(database, roles, column, other):
    """By the hash of a text other rows are held out than by that of the number: it was trained on these."""
    database.sql(ROWS)
    database.sql("ALTER TABLE hv ADD k int; UPDATE hv SET k = (a > .5)::int; ALTER TABLE hv DROP b, DROP n, DROP y")
    train = f"SELECT * FROM pgml.train('t', 'classification', 'hv', 'k', 'linear', preprocess => '{roles}')"
    database.sql(train)
    held_out = "SELECT count(*) FROM hv WHERE pgml.held_out('t', hv)"
    before = database.sql(held_out)
    database.sql(f"ALTER TABLE hv ALTER {column} TYPE bigint")
    assert database.sql(held_out) == before
    database.sql(f"ALTER TABLE hv ALTER {column} TYPE {other}")
    refused = f'column "{column}" is of type {other}, and was of another type in training'
    for call in (held_out, "SELECT pgml.evaluate('t', 'hv', rows => 'held_out')"):
        with pytest.raises(Exception, match=refused):
            database.sql(call)
    database.sql(train)
    assert "fewer than 20 rows are known that neither was trained on" in decision(database, "t")


def test_a_class_of_three_rows_has_one_that_is_held_out(database):
    database.sql("""
        CREATE TABLE rare AS SELECT i, i % 7 AS a, CASE WHEN i % 500 = 0 THEN 'rare' ELSE 'often' END AS k
        FROM generate_series(1, 1500) i;
    """)
    for project in range(8):
        database.sql(f"SELECT pgml.train('r{project}', 'classification', 'rare', 'k', 'linear')")
    held_out = database.sql("SELECT min((metrics->'classes'->'rare'->>'rows')::int) FROM pgml.models")
    assert int(held_out) >= 1


def test_rows_without_a_key_are_refused(database):
    """All of them were on one side."""
    database.sql(ROWS)
    database.sql("UPDATE hv SET id = NULL WHERE id % 2 = 0")
    with pytest.raises(Exception, match='column "id" names rows, but contains NULL'):
        database.sql("""SELECT pgml.train('k', 'regression', 'hv', 'y', 'linear',
                                          preprocess => '{"id": {"role": "key"}, "n": {"role": "ignore"}}')""")


@pytest.fixture
def alike(database):
    """Two columns decide about the label, and two that are labels too."""
    database.sql("""
        CREATE TABLE alike AS SELECT sin(i * 0.37) * 3 AS a, cos(i * 1.7) * 2 AS b, i * 7919 % 101 / 10.0 AS noise,
            sin(i * 0.37) * 3 + cos(i * 1.7) * 2 > 0.3 AS y, sin(i * 0.37) * 3 AS y2, cos(i * 1.7) * 2 AS y3
        FROM generate_series(1, 2000) i
    """)
    return database


@pytest.mark.parametrize(
    "preprocess, without",
    [
        ('{"a": {"role": "ignore"}, "b": {"role": "ignore"}}', '"a", "b"'),
        ('{"noise": {"role": "time"}}', '"noise"'),
        ('{"a": {"role": "key"}}', '"a"'),
        ('{"k": {"role": "group"}}', '"k"'),
        ('{"k": {"role": "weight"}, "a": {"role": "ignore"}}', '"a", "k"'),
        ('{"k": {"role": "ignore"}, "noise": {"role": "time"}}', '"noise", "k"'),
        ('{"t": {"role": "test"}}', '"t"'),
        # Every column is learnt from, but two are read otherwise than by the deployed model.
        ('{"k": {"encode": "one_hot"}, "c": {"encode": {"hash": 2}}}', ""),
    ],
)
def test_a_column_with_another_use_is_still_read_by_the_deployed_model(alike, preprocess, without):
    """It was replaced unseen by whatever came, since "it cannot read these rows"."""
    call = "SELECT deployed FROM pgml.train('left', 'classification', 'many', 'y', '{}', '{}', preprocess => '{}')"
    alike.sql("""
        CREATE TABLE many AS SELECT a, b, noise, (a * 3)::int + 9 AS k, 'c' || (b * 2)::int AS c, noise < 3 AS t, y FROM alike;
    """)
    assert alike.sql(call.format("xgboost", "{}", "{}")) == "t"
    assert alike.sql(call.format("xgboost", '{"n_estimators": 1, "max_depth": 1, "eta": 0.1}', preprocess)) == "f"
    told = decision(alike, "left")
    assert re.search(r"of deployed model 1, on the \d+ rows that neither was trained on", told), told
    assert (f"trained without {without}, and" in told) == bool(without), told


def test_a_deployed_model_that_lacks_a_column_is_replaced_and_it_is_said_which(alike):
    alike.sql("SELECT pgml.train('lacks', 'classification', '(SELECT a, b, y FROM alike)', 'y', 'linear')")
    alike.sql("ALTER TABLE alike RENAME b TO c")
    alike.sql("SELECT pgml.train('lacks', 'classification', '(SELECT a, c, y FROM alike)', 'y', 'linear')")
    assert 'cannot read these rows: the row has no column "b", which model 1' in decision(alike, "lacks")


def test_a_model_of_another_label_replaces_nothing_by_itself(alike):
    call = "SELECT deployed FROM pgml.train('other', 'regression', 'alike', '{}', 'linear')"
    assert [alike.sql(call.format(label)) for label in ("y2", "y3")] == ["t", "f"]
    assert "predicts y2, and the new model y3" in alike.sql(
        "SELECT metrics->>'decision' FROM pgml.models ORDER BY id DESC LIMIT 1"
    )


def test_a_model_without_held_out_rows_is_not_compared_on_those_of_others(alike):
    call = (
        "SELECT pgml.train('all', 'classification', '(SELECT b, noise, y FROM alike)', 'y', 'xgboost', test_size => {})"
    )
    for share in ("0", "0.25"):
        alike.sql(call.format(share))
    compare = "pgml.compare('all', '(SELECT b, noise, y FROM alike)')"
    assert alike.sql(f"SELECT error FROM {compare} WHERE metrics IS NULL") == (
        "it was trained without held-out rows, on these rows too"
    )
    assert alike.sql(f"SELECT count(*) FROM {compare} WHERE metrics IS NOT NULL") == "1"


@pytest.fixture
def frauds(database):
    """4,000 payments, about 95 of them fraud, which amount and hour tell; and a model that finds it."""
    database.sql("""
        SELECT setseed(0.3);
        CREATE TABLE pay AS SELECT i, a, h, CASE WHEN a > 0.96 AND h < 0.6 THEN 'fraud' ELSE 'ok' END AS kind
        FROM (SELECT i, random()::real a, random()::real h FROM generate_series(1, 4000) i) q;
        SELECT pgml.train('pay', 'classification', '(SELECT a, h, kind FROM pay)', 'kind', 'random_forest', '{"n_estimators": 20}');
        CREATE TABLE kept AS SELECT *, row_number() OVER (ORDER BY i) AS n, pgml.held_out('pay', pay) AS side FROM pay
        WHERE kind = 'fraud';
    """)
    return database


@pytest.mark.parametrize(
    "kept, which",
    [
        ("n IN (3, 4)", "the rows have 2 of"),
        ("n IN (11, 12)", "the rows have 2 of"),
        ("n < 1", "the rows have no"),
        # Six frauds, and none among the rows that judge.
        ("n IN (SELECT n FROM kept WHERE NOT side LIMIT 6)", r"the \d+ rows that neither was trained on have no"),
        ("n IN (SELECT n FROM kept ORDER BY NOT side LIMIT 4)", "the rows have 4 of"),
    ],
)
def test_rows_with_hardly_any_of_a_class_deploy_nothing(frauds, kept, which):
    """Frauds are known weeks later: a model that finds none replaced the one that finds all, on rows with one fraud or none."""
    frauds.sql(f"DELETE FROM pay WHERE kind = 'fraud' AND i NOT IN (SELECT i FROM kept WHERE {kept})")
    train = (
        "SELECT deployed FROM pgml.train('pay', algorithm => 'random_forest', hyperparams => '{\"n_estimators\": 20}')"
    )
    try:
        assert frauds.sql(train) == "f"
    except Problem as problem:
        # Nothing to tell apart is left.
        assert 'label "kind" is "ok" in all rows' in str(problem)
        return
    told = decision(frauds, "pay")
    assert re.match(which + r' (of )?class "fraud" \(about \d+ were to be expected\)', told), told


def test_a_class_that_is_a_little_rarer_is_no_reason_to_stay(frauds):
    frauds.sql("DELETE FROM pay WHERE kind = 'fraud' AND i IN (SELECT i FROM kept WHERE n % 3 = 0)")
    assert (
        frauds.sql("SELECT deployed FROM pgml.train('pay', algorithm => 'xgboost', automatic_deploy => false)") == "f"
    )
    frauds.sql("SELECT pgml.train('pay', algorithm => 'random_forest', hyperparams => '{\"n_estimators\": 20}')")
    assert "on the" in decision(frauds, "pay") and "that neither was trained on (difference" in decision(frauds, "pay")


def test_decompositions_are_compared_in_standardised_columns(database):
    """Of raw columns the one of the largest numbers was nearly all: no scaling could ever be deployed again."""
    database.sql("""
        CREATE TABLE wine AS SELECT 1000 * sin(i) AS big, cos(i * 3.1) AS x, cos(i * 3.1) + sin(i * 7.7) * .2 AS y,
            sin(i * 1.3) AS z FROM generate_series(1, 1000) i;
    """)
    scaled = """, preprocess => '{"*": {"scale": "standard"}}'"""
    deployed = []
    for components, more in ((1, ""), (1, scaled), (3, scaled), (1, "")):
        call = f"pgml.train('d', 'decomposition', 'wine', algorithm => 'pca', hyperparams => '{{\"n_components\": {components}}}'{more})"
        deployed.append(database.sql(f"SELECT deployed FROM {call}"))
    assert deployed == ["t", "t", "t", "f"], decision(database, "d")
    shares = database.sql(
        "SELECT metrics->>'standardised_explained_variance' FROM pgml.models ORDER BY id"
    ).splitlines()
    assert float(shares[0]) < 0.3 < float(shares[1]) < 0.6 < 0.95 < float(shares[2])
    assert float(database.sql("SELECT metrics->>'cumulative_explained_variance' FROM pgml.models WHERE id = 1")) > 0.99


def test_a_later_training_takes_the_split_that_it_names(database):
    database.sql("""
        CREATE TABLE s AS SELECT sin(i) AS a, cos(i * 3) AS b, sin(i) + cos(i * 7) AS y, cos(i) AS z FROM generate_series(1, 1000) i;
        SELECT pgml.train('s', 'regression', 's', 'y', 'linear');
        SELECT pgml.train('s', algorithm => 'linear', test_size => 0.5);
        SELECT pgml.train('s', algorithm => 'linear');
        SELECT pgml.train('s', algorithm => 'linear', test_sampling => 'last', test_size => 100);
        SELECT pgml.train('s', algorithm => 'linear', test_size => 0);
        SELECT pgml.train('copied', 'regression', 's', 'y', 'linear', materialize_snapshot => true);
        SELECT pgml.train('copied', algorithm => 'linear', test_sampling => 'last', test_size => 100);
        SELECT pgml.train('copied', algorithm => 'linear');
    """)
    rows = [
        int(rows)
        for rows in database.sql("SELECT coalesce(metrics->>'rows', '0') FROM pgml.models ORDER BY id").splitlines()
    ]
    assert 180 < rows[0] < 320 and 430 < rows[1] < 570 and rows[2] == rows[1], rows
    assert rows[3:5] == [100, 0] and rows[6:] == [100, 100] and 180 < rows[5] < 320, rows
    kept = database.sql("SELECT test_size, test_sampling FROM pgml.trained_models ORDER BY id").splitlines()
    assert kept[3] == "100|last" and kept[6] == "100|last" and kept[5] == "0.25|stratified", kept


def test_the_best_model_is_one_of_the_label(database):
    database.sql("""
        CREATE TABLE t AS SELECT sin(i) AS u, cos(i * 3) AS v, sin(i) + cos(i * 7) * .5 AS y, sin(i) AS z FROM generate_series(1, 500) i;
        SELECT pgml.train('p', 'regression', '(SELECT u, v, y FROM t)', 'y');
        SELECT pgml.train('p', 'regression', '(SELECT u, v, z FROM t)', 'z');
    """)
    _, notices = said(database, "SELECT pgml.deploy('p', 'best_score')")
    assert "models of another label are not compared: model 2 predicts z, and deployed model 1 y" in notices, notices
    assert database.sql("SELECT id FROM pgml.deployed_models") == "1"
    with pytest.raises(Problem, match=r"(?s)model 2 predicts z, and deployed model 1 y.*pgml\.deploy\(2\)"):
        database.sql("SELECT pgml.deploy('p', 'most_recent')")
    # Once it is deployed by its id, it is the other way round; a rollback goes back to what was deployed before.
    database.sql("SELECT pgml.deploy(2); SELECT pgml.deploy('p', 'most_recent'); SELECT pgml.deploy('p', 'best_score')")
    assert database.sql("SELECT id FROM pgml.deployed_models") == "2"
    database.sql("SELECT pgml.deploy('p', 'rollback')")
    assert database.sql("SELECT id FROM pgml.deployed_models") == "1"


def test_what_is_within_the_noise_is_not_called_worse(database):
    database.sql("""
        SELECT setseed(.4);
        CREATE TABLE t AS SELECT a, b, a + b + (random() - .5) * 3 AS y FROM (SELECT random() a, random() b FROM generate_series(1, 2000)) q;
        SELECT pgml.train('p', 'regression', 't', 'y', 'linear');
        SELECT pgml.train('p', 'regression', 't', 'y', 'ridge', '{"alpha": 30}');
    """)
    told = decision(database, "p")
    assert "within the noise): the new model is not better, and model 1 stays deployed" in told, told
    for number in re.findall(r"\d+\.\d+", told):
        assert len(number.replace(".", "").lstrip("0")) <= 4, told


HOMES = """
    SELECT setseed(.7);
    CREATE TABLE homes AS SELECT u, v, w, u + v * w * 3 + e1 + e2 + e3 - 1.5 AS y FROM (SELECT random() * 4 - 2 u, random() * 4 - 2 v,
        random() * 4 - 2 w, random() e1, random() e2, random() e3 FROM generate_series(1, 1100)) q;
    CREATE TABLE t AS SELECT * FROM homes LIMIT 900;
"""


def test_one_more_row_is_no_reason_for_worse_hyperparameters(database):
    database.sql(HOMES)
    good = '{"n_estimators": 200, "max_depth": 3, "learning_rate": 0.1}'
    train = "SELECT deployed FROM pgml.train('h', 'regression', 't', 'y', 'xgboost', '{}')"
    database.sql(train.format(good))
    database.sql("INSERT INTO t SELECT * FROM homes OFFSET 900 LIMIT 1")
    for other in ('{"max_depth": 7}', '{"max_depth": 10, "learning_rate": 0.4}'):
        assert database.sql(train.format(other)) == "f", decision(database, "h")
    # The same on more rows has only not to be worse.
    database.sql("INSERT INTO t SELECT * FROM homes OFFSET 901")
    assert database.sql(train.format(good)) == "t", decision(database, "h")


def test_a_constant_does_not_replace_what_ranks_though_neither_finds_any(database):
    """1.5 % of fraud, which no model calls at a probability of 0.5: f1 is 0 of both."""
    database.sql("""
        SELECT setseed(.8);
        CREATE TABLE r AS SELECT a, b, CASE WHEN random() < a * a * a * a * .09 THEN 'fraud' ELSE 'ok' END AS y
        FROM (SELECT random() a, random() b FROM generate_series(1, 6000)) q;
        SELECT pgml.train('r', 'classification', 'r', 'y', 'xgboost', '{"n_estimators": 30, "max_depth": 2, "gamma": 0}');
        INSERT INTO r VALUES (.5, .5, 'ok');
    """)
    again = "SELECT deployed FROM pgml.train('r', algorithm => 'xgboost', hyperparams => '{\"n_estimators\": 1, \"gamma\": 10000}')"
    assert database.sql(again) == "f"
    assert re.search(r"; roc_auc 0\.5000, and 0\.\d+ \(.*: the new model is worse", decision(database, "r"))


def test_a_query_with_fewer_columns_replaces_nothing_unseen(alike):
    call = "SELECT deployed FROM pgml.train('q', 'classification', '(SELECT {} FROM alike)', 'y', 'xgboost')"
    assert alike.sql(call.format("a, b, noise, y")) == "t"
    assert alike.sql(call.format("noise, y")) == "f"
    told = decision(alike, "q")
    assert 'trained without "a", "b", on the' in told and "model 1 takes columns that the query leaves out" in told, (
        told
    )
    # What the table has no more is no part of such a query.
    alike.sql("ALTER TABLE alike DROP a")
    assert alike.sql(call.format("b, noise, y")) == "t", decision(alike, "q")


def test_a_label_without_a_name_is_no_other_label(database):
    """A booster of Python does not say what its label is called, and no training ever replaced it."""
    x, y = numpy.arange(300, dtype=float).reshape(-1, 1) % 17, numpy.arange(300) % 17 > 8
    booster = xgboost.XGBClassifier(n_estimators=1, max_depth=1, learning_rate=0.01).fit(x, y).get_booster()
    stored = bytes(booster.save_raw("ubj")).hex()
    database.sql(f"""
        CREATE TABLE n AS SELECT i % 17 AS a, i % 17 > 8 AS y FROM generate_series(1, 400) i;
        SELECT pgml.import_model('py', '\\x{stored}'::bytea, features => '{{a}}', classes => '{{false,true}}');
    """)
    assert database.sql("SELECT deployed FROM pgml.train('py', 'classification', 'n', 'y', 'xgboost')") == "t"
    assert "on which that one may have been trained" in decision(database, "py")


def test_customers_who_change_each_day_in_a_world_that_gets_harder(database):
    """By its content each row is another one each day: its key says whether it was trained on."""
    database.sql("""
        SELECT setseed(.2);
        CREATE FUNCTION new_customers(n int, w double precision) RETURNS TABLE (tenure int, a real, b real, c real, churned boolean)
        LANGUAGE sql VOLATILE AS $$
            SELECT (random() * 900)::int, x, y, z, (1 - w) * x + w * z + .3 * y + (e1 + e2 - 1) * (.3 + 6 * w) > .65
            FROM (SELECT random()::real x, random()::real y, random()::real z, random() e1, random() e2 FROM generate_series(1, n)) q $$;
        CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenure int, a real, b real, c real, churned boolean);
        INSERT INTO customers (tenure, a, b, c, churned) SELECT * FROM new_customers(2000, 0);
        SELECT pgml.train('churn', 'classification', 'customers', 'churned', 'random_forest', '{"n_estimators": 30}');
    """)
    for day in range(1, 4):
        database.sql(f"""
            SELECT setseed({day} / 10.0);
            UPDATE customers SET tenure = tenure + 1;
            INSERT INTO customers (tenure, a, b, c, churned) SELECT * FROM new_customers(400, {day} / 30.0);
            SELECT pgml.train('churn', algorithm => 'random_forest', hyperparams => '{{"n_estimators": 30}}');
        """)
        told = decision(database, "churn")
        assert "rows that neither was trained on" in told, told
    assert database.sql("SELECT id FROM pgml.deployed_models") == "4", told


def test_rows_that_a_model_refuses_judge_the_others(database):
    """A strict model of a table without missing values takes none: one of them replaced it, by whatever it was."""
    database.sql("""
        SET pgml.strict = on;
        CREATE TABLE t AS SELECT (i * 7919) % 101 AS a, (i * 31) % 17 AS b, (i * 7919) % 101 + (i * 31) % 17 AS y
        FROM generate_series(1, 1000) i;
        SELECT pgml.train('p', 'regression', 't', 'y', 'linear');
        UPDATE t SET a = NULL WHERE ctid = '(0,1)';
    """)
    worse = "SELECT deployed FROM pgml.train('p', algorithm => 'lasso', hyperparams => '{\"alpha\": 1000}')"
    assert database.sql(worse) == "f"
    assert "rows that neither was trained on" in decision(database, "p")
    database.sql("UPDATE t SET a = NULL WHERE b = 3")
    assert database.sql(worse) == "t", decision(database, "p")
    assert "cannot predict all rows" in decision(database, "p")


def test_rows_of_one_label_tell_no_r2(database):
    database.sql("""
        CREATE TABLE t AS SELECT i % 7 AS x, CASE WHEN i % 4 = 0 THEN 0 ELSE i % 7 END AS y, i % 4 = 0 AS test
        FROM generate_series(1, 400) i;
        SELECT pgml.train('p', 'regression', 't', 'y', 'linear', preprocess => '{"test": {"role": "test"}}');
    """)
    assert (
        database.sql("SELECT deployed FROM pgml.train('p', algorithm => 'lasso', hyperparams => '{\"alpha\": 1000}')")
        == "f"
    )
    assert "which are of one label" in decision(database, "p")


def test_a_sum_of_other_rows_is_not_compared(database):
    """More rows cost more."""
    database.sql("""
        CREATE FUNCTION cost(total float8, label float8, prediction float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS
            'SELECT total - abs(label - prediction)';
        CREATE AGGREGATE saved(float8, float8) (SFUNC = cost, STYPE = float8, INITCOND = '0');
        SELECT setseed(0.4);
        CREATE TABLE t AS SELECT random() AS a, random() AS b, random() AS c, false AS y FROM generate_series(1, 4000);
        UPDATE t SET y = a + b + (c - 0.5) > 1;
        CREATE TABLE few AS SELECT * FROM t LIMIT 400;
        SELECT pgml.train('p', 'classification', '(SELECT a, y FROM few)', 'y', 'xgboost', test_sampling => 'last', metric => 'saved');
    """)
    call = "SELECT deployed FROM pgml.train('p', 'classification', '(SELECT a, b, y FROM t)', 'y', 'xgboost', test_sampling => 'last')"
    assert database.sql(call) == "t", decision(database, "p")
    assert decision(database, "p").startswith("f1 ")


def test_clusterings_of_other_columns_are_not_compared(database):
    database.sql("""
        SELECT setseed(0.4);
        CREATE TABLE t AS SELECT random() + i % 3 * 10 AS a, random() + i % 3 * 10 AS b FROM generate_series(1, 600) i;
        SELECT pgml.train('p', 'clustering', 't', algorithm => 'kmeans', hyperparams => '{"n_clusters": 3}');
        ALTER TABLE t ADD c float8; UPDATE t SET c = random();
    """)
    again = """SELECT deployed FROM pgml.train('p', algorithm => 'kmeans', hyperparams => '{"n_clusters": 3}')"""
    assert database.sql(again) == "t"
    assert "is of other columns" in decision(database, "p")
