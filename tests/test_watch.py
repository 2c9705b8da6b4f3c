"""pgml.watch, pgml.check and pgml.unwatch; pgml.describe and pgml.card beside them."""

import json
import re

import pytest

from devkit import Problem
from tests.test_evaluate import OWNER, STRANGER, fetch, loaded, state  # noqa: F401

NEW = """
    SELECT now() - i * interval '1 minute' AS at, (i * 7919 % 1000)::real / 1000 + {shift} AS even,
        CASE WHEN i % {gaps} > 0 THEN i * 37 % 100 END AS holes, CASE WHEN i % 50 < {strange} THEN 'violet' ELSE
        ('{{red,green,blue}}'::text[])[i % 3 + 1] END AS colour, i % 13 + {off} AS y
    FROM generate_series(1, {count}) i
"""


def rows(shift=0, gaps=4, strange=0, off=0, count=1000):
    return NEW.format(shift=shift, gaps=gaps, strange=strange, off=off, count=count)


@pytest.fixture
def watched(loaded):  # noqa: F811
    """A project whose rows a test replaces."""
    loaded.sql(f"""
        DROP TABLE IF EXISTS new;
        CREATE TABLE new AS {rows()};
        GRANT SELECT ON new TO {OWNER}, {STRANGER};
        SET ROLE {OWNER};
        SELECT pgml.train('watched', 'regression', '(SELECT even, holes, colour, y FROM new)', 'y', 'xgboost',
            '{{"n_estimators": 5}}');
        SELECT pgml.watch('watched', 'new', 'at');
    """)
    yield loaded
    loaded.sql("SELECT pgml.delete_project('watched')")


def replace(database, **changed):
    database.sql(f"TRUNCATE new; INSERT INTO new {rows(**changed)}")


def check(database, role=OWNER):
    found = {}
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(f"SET ROLE {role}")
        cursor.execute("SELECT what, name, value, threshold, crossed FROM pgml.check('watched')")
        for what, name, value, threshold, crossed in cursor.fetchall():
            found[what, name] = (value, threshold, crossed)
    return found


def crossed(found):
    return {key for key, (_, _, is_crossed) in found.items() if is_crossed}


def test_rows_like_those_of_the_training_cross_nothing(watched):
    found = check(watched)
    assert found["rows", None] == (1000, 1, False)
    assert {("drift", "even"), ("drift", "holes"), ("drift", "colour"), ("missing", "holes"), ("unseen", "colour"), ("metric", "r2")} \
        <= found.keys()  # fmt: skip
    assert crossed(found) == set()
    assert found["missing", "holes"][:2] == (pytest.approx(0.25), pytest.approx(0.35))


def test_what_cannot_be_compared_is_told_beside_the_rest(watched):
    replace(watched, shift=0.5)
    watched.sql("ALTER TABLE new ALTER y TYPE float8; UPDATE new SET y = 'infinity' WHERE y = 12")
    found = check(watched)
    assert crossed(found) == {("drift", "even"), ("metric", None)}
    watched.sql("ALTER TABLE new DROP holes")
    assert crossed(check(watched)) == {("drift", "even"), ("metric", None), ("column", "holes")}
    watched.sql("ALTER TABLE new ADD holes text")
    assert crossed(check(watched)) == {("drift", "even"), ("metric", None), ("column", "holes")}


def test_nan_is_missing_as_null_is(watched):
    watched.sql("UPDATE new SET even = 'nan' WHERE y < 5")
    share = check(watched)["missing", "even"]
    watched.sql("UPDATE new SET even = NULL WHERE y < 5")
    assert check(watched)["missing", "even"] == share == (pytest.approx(0.38, abs=0.01), 0.1, True)


def test_rows_of_the_future_are_not_of_the_last_period(watched):
    watched.sql(f"""SET ROLE {OWNER}; SELECT pgml.watch('watched', 'new', 'at', '1 hour')""")
    before = check(watched)["rows", None]
    watched.sql("INSERT INTO new (at, y) VALUES (now() + '1 day', 1), ('infinity', 1)")
    assert before == check(watched)["rows", None] == (pytest.approx(60, abs=1), 1, False)


def test_a_bound_is_of_a_metric_that_there_is(watched):
    with pytest.raises(Problem, match=r"(?s)a regression has no metric \"rmse\".*root_mean_squared_error"):
        watched.sql("SELECT pgml.watch('watched', 'new', 'at', thresholds => '{\"metrics\": {\"rmse\": 1}}')")


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({"shift": 0.5}, {("drift", "even")}),
        ({"gaps": 2}, {("missing", "holes"), ("drift", "holes")}),
        ({"strange": 10}, {("unseen", "colour"), ("drift", "colour")}),
        ({"off": 20}, {("metric", "r2")}),
    ],
)
def test_each_kind_of_change_is_seen(watched, changed, expected):
    replace(watched, **changed)
    assert expected <= crossed(check(watched))
    if changed != {"strange": 10}:
        assert crossed(check(watched)) - {("metric", "r2")} == expected - {("metric", "r2")}


def test_few_rows_are_told_from_no_rows(watched):
    replace(watched, count=12)
    found = check(watched)
    assert crossed(found) == set() and found["rows", None][0] == 12
    replace(watched, count=0)
    assert crossed(check(watched)) == {("rows", None)}


def test_only_the_rows_of_the_period_are_looked_at(watched):
    watched.sql("UPDATE new SET even = even + 5, at = at - interval '2 days' WHERE holes < 50")
    assert check(watched)["rows", None][0] < 1000 and crossed(check(watched)) <= {
        ("drift", "holes"),
        ("missing", "holes"),
        ("metric", "r2"),
    }
    watched.sql(f"SET ROLE {OWNER}; SELECT pgml.watch('watched', 'new', 'at', period => '3 days')")
    assert check(watched)["rows", None][0] == 1000
    watched.sql(f"SET ROLE {OWNER}; SELECT pgml.watch('watched', '(SELECT * FROM new LIMIT 7)')")
    assert check(watched)["rows", None][0] == 7
    for column, kind in (("at::date", "date"), ("at::timestamp", "timestamp")):
        query = f"(SELECT even, holes, colour, {column} AS day FROM new)"
        watched.sql(f"SET ROLE {OWNER}; SELECT pgml.watch('watched', '{query}', 'day', '2 hours')")
        assert check(watched)["rows", None][0] < 1000, kind


def test_rows_without_labels_are_checked_for_the_rest(watched):
    watched.sql("UPDATE new SET y = NULL WHERE holes IS NULL")
    assert ("metric", "r2") in check(watched)
    watched.sql("UPDATE new SET y = NULL")
    assert ("metric", "r2") not in check(watched) and ("drift", "even") in check(watched)
    watched.sql("ALTER TABLE new DROP COLUMN y")
    assert ("metric", "r2") not in check(watched)


def test_thresholds_are_those_that_are_asked_for(watched):
    thresholds = '{"drift": null, "missing": 0.001, "metrics": {"mean_absolute_error": 0.01}, "max_rows": 10}'
    answer = watched.sql(f"SET ROLE {OWNER}; SELECT pgml.watch('watched', 'new', thresholds => '{thresholds}')")
    assert json.loads(answer)["unseen"] == 0.05
    replace(watched, shift=0.5)
    assert crossed(check(watched)) == {("rows", None), ("metric", "mean_absolute_error")}


def test_a_crossing_is_told_once(watched):
    with watched.connect() as listener:
        cursor = listener.cursor()
        cursor.execute("LISTEN pgml_watch")

        def told():
            cursor.execute("SELECT 1")
            notes = [json.loads(note[2]) for note in listener.notifications]
            listener.notifications.clear()
            return [(note["project"], note["what"], note["name"]) for note in notes]

        check(watched)
        assert told() == []
        replace(watched, shift=0.5)
        check(watched)
        assert ("watched", "drift", "even") in told()
        check(watched)
        assert told() == []
        replace(watched)
        check(watched)
        replace(watched, shift=0.5)
        check(watched)
        assert ("watched", "drift", "even") in told()


def test_what_was_found_is_kept_and_bounded(watched):
    check(watched)
    watched.sql("INSERT INTO pgml.watch_checks (project_id, model_id, results) SELECT project_id, model_id, '[]' FROM pgml.watch_checks, generate_series(1, 1500)")  # fmt: skip
    check(watched)
    assert watched.sql("SELECT count(*) FROM pgml.watch_checks") == "1000"
    kept = fetch(watched, "SELECT project, what, name, crossed FROM pgml.checks WHERE what = 'drift' AND name = 'even'")
    assert [tuple(row) for row in kept] == [("watched", "drift", "even", False)]
    assert watched.sql(f"SET ROLE {OWNER}; SELECT pgml.unwatch('watched'), pgml.unwatch('watched')") == "t|f"
    assert watched.sql("SELECT count(*) FROM pgml.watch_checks") == "0"
    assert state(watched, OWNER, "SELECT pgml.check('watched')") == "42704"


def test_who_may_see_sees_and_who_may_deploy_checks(watched):
    check(watched)
    ask = "SELECT count(*) FROM pgml.watches, pgml.checks"
    assert watched.sql(f"SET ROLE {STRANGER}; {ask}") == "0"
    assert state(watched, STRANGER, "SELECT pgml.check('watched')") == "42501"
    watched.sql(f"SET ROLE {OWNER}; SELECT pgml.grant('watched', '{STRANGER}', 'see')")
    assert int(watched.sql(f"SET ROLE {STRANGER}; {ask}")) > 0
    for call in ("check('watched')", "watch('watched', 'new')", "unwatch('watched')"):
        assert state(watched, STRANGER, f"SELECT pgml.{call}") == "42501"
    watched.sql(f"SET ROLE {OWNER}; SELECT pgml.grant('watched', '{STRANGER}', 'deploy')")
    assert crossed(check(watched, STRANGER)) == set()
    # A query of another role would run with the rights of who checks.
    watched.sql(f"SET ROLE {OWNER}; SELECT pgml.watch('watched', '(SELECT * FROM new)')")
    assert state(watched, STRANGER, "SELECT pgml.check('watched')") == "42501"
    assert state(watched, OWNER, "SELECT pgml.check('watched')") == "00000"


@pytest.mark.parametrize(
    "call, sqlstate",
    [
        ("watch('nothing', 'new')", "42704"),
        ("watch(NULL, 'new')", "22004"),
        ("watch('watched', NULL)", "22004"),
        ("watch('watched', 'nothing')", "42P01"),
        ("watch('watched', 'pgml.iris')", "42703"),
        ("watch('watched', 'new', 'nothing')", "42703"),
        ("watch('watched', 'new', 'even')", "42804"),
        ("watch('watched', 'new', 'at', '-1 day')", "22023"),
        ("""watch('watched', 'new', thresholds => '{"drifts": 1}')""", "22023"),
        ("""watch('watched', 'new', thresholds => '{"drift": "much"}')""", "22023"),
        ("""watch('watched', 'new', thresholds => '{"metrics": 1}')""", "22023"),
        ("""watch('watched', 'new', thresholds => '[]')""", "22023"),
        ("unwatch('nothing')", "42704"),
        ("check('nothing')", "42704"),
        ("check('flowers')", "42704"),
    ],
)
def test_what_cannot_be_meant_is_refused(watched, call, sqlstate):
    assert state(watched, OWNER, f"SELECT pgml.{call}") == sqlstate


def test_a_dump_keeps_watches_and_checks(watched, server):
    check(watched)
    copy = f"{watched.name}_watched"
    dump = server.run("pg_dump", "--format=plain", watched.name).stdout
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.psql(dump, copy)
        for asked in ("SELECT * FROM pgml.watches", "SELECT * FROM pgml.checks ORDER BY what, name"):
            assert server.psql(asked, copy) == watched.sql(asked) != ""
        assert server.psql("SELECT count(*) > 3 FROM pgml.check('watched')", copy) == "t"
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


def model_of(database, project):
    return int(database.sql(f"SELECT id FROM pgml.deployed_models WHERE name = '{project}'"))


def test_a_model_is_described(watched):
    model = model_of(watched, "watched")
    shown = f"SELECT description, tags FROM pgml.trained_models WHERE id = {model}"
    as_owner = f"SET ROLE {OWNER}; "
    assert watched.sql(shown) == "|{}"
    watched.sql(f"{as_owner} SELECT pgml.describe({model}, 'What a colour is worth.', ARRAY['colours', 'first'])")
    assert watched.sql(shown) == "What a colour is worth.|{colours,first}"
    watched.sql(f"{as_owner} SELECT pgml.describe({model}, tags => '{{}}')")
    assert watched.sql(shown) == "What a colour is worth.|{}"
    watched.sql(f"{as_owner} SELECT pgml.describe({model}, '')")
    assert watched.sql(shown) == "|{}"
    watched.sql(
        f"{as_owner} SELECT pgml.describe({model}, repeat('ß', 10000), array_agg(repeat('ß', 60) || i)) FROM generate_series(1, 32) i"
    )
    for call, sqlstate in [
        (f"describe({model}, repeat('ß', 10001))", "54000"),
        (f"describe({model}, tags => ARRAY[repeat('ß', 65)])", "54000"),
        (f"describe({model}, tags => (SELECT array_agg(i::text) FROM generate_series(1, 33) i))", "22023"),
        (f"describe({model}, tags => '{{a,NULL}}')", "22023"),
        (f"describe({model}, tags => '{{a,a}}')", "22023"),
        (f"describe({model}, tags => '{{\" \"}}')", "22023"),
        ("describe(987654, 'x')", "42704"),
        ("describe(NULL, 'x')", "22004"),
        ("card(NULL)", "22004"),
        ("card(987654)", "42704"),
    ]:
        assert state(watched, OWNER, f"SELECT pgml.{call}") == sqlstate, call
    assert state(watched, STRANGER, f"SELECT pgml.describe({model}, 'x')") == "42501"
    assert state(watched, STRANGER, f"SELECT pgml.card({model})") == "42501"


def test_a_card_says_what_is_known(watched):
    model = model_of(watched, "watched")
    watched.sql(f"SELECT pgml.describe({model}, 'What a colour is worth.', '{{colours}}')")
    card = watched.sql(f"SET ROLE {OWNER}; SELECT pgml.card({model})")
    for line in (f"# watched: model {model}", "What a colour is worth.", "- Tags: colours", "- Deployed: yes", "- Task: regression of y",
                 "- Hyperparameters: n\\_estimators = 5", "| even | float8 | feature |", "| y | int4 | label |"):  # fmt: skip
        assert line in card.splitlines()
    for part in (
        "## Training",
        "## Metrics",
        "| r2 | ",
        "## Importance",
        "## Limits",
        "has not seen is a missing value",
    ):
        assert part in card
    assert "FROM new" in card and f"role {OWNER}".replace("_", "\\_") in card
    watched.sql(f"SELECT pgml.grant('watched', '{STRANGER}', 'see')")
    less = watched.sql(f"SET ROLE {STRANGER}; SELECT pgml.card({model})")
    assert "FROM new" not in less and "shown to roles with the privilege export" in less


def test_there_is_a_card_of_every_model(loaded):  # noqa: F811
    cards = fetch(loaded, "SELECT pgml.card(id) FROM pgml.models")
    assert len(cards) > 5 and all(card.count("\n## ") >= 2 and len(card) < 10_000 for (card,) in cards)


def test_a_metric_is_of_rows_that_the_model_was_not_trained_on(database):
    """Of its training rows it knows the answers: coin tosses were answered with an f1 of 1, wherever the relation had another name."""
    database.sql("""
        SELECT setseed(.5);
        CREATE TABLE ev AS SELECT now() - random() * interval '9 days' AS at, a, b, k, a + b / 2 + random() / 2 > 1 AS y
        FROM (SELECT random() a, random() b, (random() * 100)::int k FROM generate_series(1, 4000)) q;
        UPDATE ev SET y = random() < .5 WHERE at > now() - interval '1 day';
        CREATE VIEW seen AS SELECT * FROM ev;
        SELECT pgml.train('q', 'classification', '(SELECT a, b, k, y FROM ev)', 'y', 'random_forest', '{"n_estimators": 20}');
    """)

    def metric(relation, period="'1 day'"):
        database.sql(f"SELECT pgml.watch('q', $${relation}$$, time_column => 'at', period => {period})")
        found = database.sql("SELECT value, crossed, detail FROM pgml.check('q') WHERE what = 'metric'")
        return found.split("|")

    for relation in ("ev", "seen", "(SELECT * FROM ev)"):
        value, crossed, detail = metric(relation)
        assert float(value) < 0.75 and crossed == "t", (relation, value, detail)
        assert " rows with labels, those that the model was not trained on; " in detail, detail
        used, of = (int(number) for number in detail.split(" rows")[0].split(" of "))
        assert of / 6 < used < of / 3
    # The training's own relation as a whole; and one whose rows nobody can tell from those of the training.
    database.sql("SELECT pgml.watch('q', '(SELECT a, b, k, y FROM ev)')")
    detail = database.sql("SELECT detail FROM pgml.check('q') WHERE what = 'metric'")
    assert re.fullmatch(r"\d+ of 4000 rows with labels, those that the model was not trained on; .*", detail), detail
    database.sql(
        "SELECT pgml.train('q', 'classification', '(SELECT a, b, k, y FROM ev)', 'y', 'random_forest', test_sampling => 'last')"
    )
    database.sql("SELECT pgml.deploy('q', 'most_recent')")
    value, crossed, detail = metric("ev")
    assert "rows with labels, on some of which the model may have been trained" in detail, detail
    # Of rows that are all of the training there is nothing to say.
    database.sql("SELECT pgml.deploy('q', 'rollback'); DELETE FROM ev WHERE pgml.held_out('q', ev)")
    value, crossed, detail = metric("ev")
    assert (value, crossed) == ("", "f") and detail.startswith("0 of "), detail


def test_a_check_takes_rows_that_have_changed_since_for_those_that_were_trained_on(database):
    """After an update of a feature in all rows the held-out side is of other rows, and the model was trained on most of them."""
    database.sql("""
        SELECT setseed(.5);
        CREATE TABLE kept AS SELECT i AS id, (random() * 900)::int AS days, random() AS a, random() < .5 AS y FROM generate_series(1, 2000) i;
        ALTER TABLE kept ADD PRIMARY KEY (id);
        SELECT pgml.train('k', 'classification', 'kept', 'y', 'random_forest', '{"n_estimators": 10}');
        SELECT pgml.watch('k', 'kept');
    """)
    found = "SELECT detail FROM pgml.check('k') WHERE what = 'metric'"
    rows = [int(database.sql(found).split(" of 2000 rows with labels, those that the model was not trained on")[0])]
    database.sql("UPDATE kept SET days = days + 1")
    rows.append(int(database.sql(found).split(" of 2000 rows with labels, those that the model was not trained on")[0]))
    # A quarter, and a quarter of that.
    assert 400 < rows[0] < 600 and 80 < rows[1] < 180, rows
