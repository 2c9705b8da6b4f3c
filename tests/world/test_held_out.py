"""Nobody learns noise: a label of coin tosses is guessed at chance on rows that were held out, whatever became of the table, the
model or the call, and where the rows may have been learnt by heart this is said.
"""

import json
import re

import pytest

from tests.conftest import fresh

TRAIN = "SELECT deployed FROM pgml.train('{project}', 'classification', '{relation}', 'y', '{algorithm}', '{{{more}}}'{args})"


@pytest.fixture(scope="module")
def noise(server):
    """A table of coin tosses with a key, and models of them that know their rows by heart."""
    with fresh(server, "noise") as database:
        database.sql("""
            SELECT setseed(0.5);
            CREATE TABLE n AS SELECT i AS id, random() AS a, random() AS b, random() < 0.5 AS y FROM generate_series(1, 1200) i;
            ALTER TABLE n ADD PRIMARY KEY (id);
            CREATE TABLE copies AS SELECT a, b, y FROM n, generate_series(1, 12);
        """)
        yield database


def train(database, project, relation, algorithm="xgboost", args="", **more):
    hyperparams = json.dumps({"n_estimators": 30, "max_depth": 8} | more)[1:-1].replace("'", "''")
    if algorithm == "random_forest":
        hyperparams = '"n_estimators": 20'
    return database.sql(
        TRAIN.format(project=project, relation=relation, algorithm=algorithm, more=hyperparams, args=args)
    )


def last(database, project):
    """The metrics of the newest model of a project."""
    return json.loads(
        database.sql(f"""
            SELECT metrics FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id WHERE p.name = '{project}'
            ORDER BY m.id DESC LIMIT 1
        """)
    )


def is_chance(accuracy):
    return abs(float(accuracy) - 0.5) < 0.13


def notices(database, statement):
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.fetchall()
        return " ".join(notice[b"M"].decode() for notice in connection.notices)


def test_copies_of_measured_rows_are_on_one_side(noise):
    train(noise, "copied", "copies")
    assert is_chance(last(noise, "copied")["accuracy"])
    assert last(noise, "copied")["rows"] > 2000


def test_copies_that_are_removed_do_not_judge(noise):
    """Whole numbers are codes, of which each of equal rows is drawn by its number; the one that is left may be any of them."""
    noise.sql("CREATE TABLE codes AS SELECT (a * 1e6)::int AS a, (b * 1e6)::int AS b, y FROM copies")
    train(noise, "codes", "codes")
    noise.sql("CREATE TABLE once AS SELECT DISTINCT * FROM codes; TRUNCATE codes; INSERT INTO codes SELECT * FROM once")
    train(noise, "codes", "codes", "random_forest")
    assert "fewer than 20 rows are known" in last(noise, "codes")["decision"]


def test_without_a_key_rows_that_are_still_as_they_were_judge(noise):
    """As pandas writes a table: it has no key, and which of its changed rows the model was trained on is not known."""
    noise.sql("CREATE TABLE bare AS SELECT a, b, y FROM n")
    train(noise, "bare", "bare")
    evaluate = "SELECT pgml.evaluate('bare', 'bare')->>'accuracy'"
    assert is_chance(noise.sql(evaluate)) and "trained on them" not in notices(noise, evaluate)
    noise.sql("CREATE TABLE sides AS SELECT a, b, pgml.held_out('bare', t) AS side FROM bare t")
    # Rows that are added say nothing against the others.
    noise.sql("SELECT setseed(0.6); INSERT INTO bare SELECT random(), random(), y FROM n WHERE id % 2 = 0")
    assert "trained on them" not in notices(noise, evaluate)
    noise.sql("UPDATE bare SET a = a + 0.0001 WHERE b < 0.4")
    for asked in (evaluate, evaluate.replace("'bare')", "'bare', rows => 'held_out')")):
        told = notices(noise, asked)
        assert re.search(r"as they were then: 4\d % of the rows that were held out are gone or have changed", told), (
            told
        )
        assert is_chance(noise.sql(asked))
    train(noise, "bare", "bare", "random_forest")
    rows = int(re.search(r"the (\d+) rows that neither was trained on", last(noise, "bare")["decision"])[1])
    left = int(noise.sql("SELECT count(*) FROM bare JOIN sides USING (a, b) WHERE side"))
    # Of other rows one in a hundred is taken for one of these.
    assert left <= rows < left + 20 and left > 100
    noise.sql("UPDATE bare SET a = a + 0.0001")
    train(noise, "bare", "bare", "random_forest")
    assert "fewer than 20 rows are known" in last(noise, "bare")["decision"]


KEPT = "CREATE TABLE {table}_sides AS SELECT {key}, pgml.held_out('{table}', t) AS side FROM {table} t"
LEARNT = "SELECT count(*), count(*) FILTER (WHERE NOT side) FROM {table} t JOIN {table}_sides USING ({key}) WHERE pgml.held_out('{table}', t)"


@pytest.mark.parametrize(
    ("table", "change", "least"),
    [
        ("all_move", "UPDATE all_move SET a = a + 0.001, b = b - 0.001", 40),
        ("some_move", "UPDATE some_move SET a = a + 0.001 WHERE id % 3 = 0", 150),
        ("label", "UPDATE label SET y = NOT y", 40),
        (
            "filled",
            "CREATE TABLE other AS SELECT * FROM filled; TRUNCATE filled; INSERT INTO filled SELECT 1201 - id, a, b, y FROM other",
            40,
        ),
        ("small", "ALTER TABLE small ALTER id TYPE bigint; UPDATE small SET b = b - 0.001", 40),
    ],
)
def test_a_row_that_was_trained_on_is_not_held_out_when_it_has_changed(noise, table, change, least):
    """By its content it is another row; the key says that it is not."""
    noise.sql(f"CREATE TABLE {table} (LIKE n INCLUDING ALL); INSERT INTO {table} SELECT * FROM n")
    train(noise, table, table)
    held_out = last(noise, table)["rows"]
    evaluate = f"SELECT pgml.evaluate('{table}', '{table}')->>'{{}}'"
    assert noise.sql(evaluate.format("rows")) == str(held_out)
    noise.sql(KEPT.format(table=table, key="id"))
    noise.sql(change)
    rows, learnt = noise.sql(LEARNT.format(table=table, key="id")).split("|")
    assert int(rows) > least and learnt == "0"
    assert noise.sql(evaluate.format("rows")) == rows and "trained on them" not in notices(noise, evaluate.format("f1"))
    train(noise, table, table, "random_forest")
    decision = last(noise, table)["decision"]
    assert (
        f"{rows} rows that neither was trained on" in decision or "on which that one may have been trained" in decision
    )


def of_deployed(database, project):
    """The score of the deployed model beside which the newest one was decided about."""
    decision = last(database, project)["decision"]
    return float(re.search(r"and ([\d.]+) of deployed model", decision)[1]), decision


FILLED = """
    CREATE TABLE load AS SELECT a + CASE WHEN b < 0.33 THEN 0.0001 ELSE 0 END AS a, b, y FROM {table};
    TRUNCATE {table} RESTART IDENTITY; INSERT INTO {table} (a, b, y) SELECT * FROM load ORDER BY a; DROP TABLE load
"""


@pytest.mark.parametrize(
    ("table", "key", "change", "why"),
    [
        ("renumbered", "serial", FILLED.replace("RESTART", "CONTINUE"), "have other keys"),
        ("restarted", "serial", FILLED, "have other keys"),
        ("uuids", "uuid DEFAULT gen_random_uuid()", FILLED, "have other keys"),
        (
            "renamed",
            "serial",
            "UPDATE {table} SET a = a + 0.0001 WHERE b < 0.33; ALTER TABLE {table} RENAME id TO no",
            "changed",
        ),
        (
            "retyped",
            "serial",
            "UPDATE {table} SET a = a + 0.0001 WHERE b < 0.33; ALTER TABLE {table} ALTER id TYPE text",
            "changed",
        ),
    ],
)
def test_keys_that_name_the_rows_no_more_are_not_believed(noise, table, key, change, why):
    """As a nightly load fills a table: a third of the rows has changed, and all have other keys."""
    noise.sql(f"CREATE TABLE {table} (id {key} PRIMARY KEY, a float8, b float8, y bool)")
    noise.sql(f"INSERT INTO {table} (a, b, y) SELECT a, b, y FROM n")
    train(noise, table, table)
    noise.sql(change.format(table=table))
    evaluate = f"SELECT pgml.evaluate('{table}', '{table}')->>'accuracy'"
    assert is_chance(noise.sql(evaluate))
    assert why in notices(noise, evaluate)
    train(noise, table, table, "random_forest")
    score, decision = of_deployed(noise, table)
    assert score < 0.65 and "rows that neither was trained on" in decision


@pytest.mark.parametrize("column", ["id int", "id numeric"])
def test_a_unique_column_that_does_not_name_each_row_is_no_key(noise, column):
    noise.sql(f"CREATE TABLE loose ({column} UNIQUE, a float8, b float8, y bool)")
    number = "NULL" if column == "id int" else "1e30 + id"
    noise.sql(f"INSERT INTO loose SELECT {number}, a, b, y FROM n")
    train(noise, "loose" + column[-3:], "loose")
    noise.sql("UPDATE loose SET a = a + 0.0001 WHERE b < 0.33")
    train(noise, "loose" + column[-3:], "loose", "random_forest")
    assert of_deployed(noise, "loose" + column[-3:])[0] < 0.65
    noise.sql("DROP TABLE loose")


def test_what_goes_on_in_another_project_holds_out_what_its_model_has_not_seen(noise):
    train(noise, "begun", "n")
    begun = noise.sql("SELECT max(id) FROM pgml.models")
    train(noise, "elsewhere", "n", xgb_model=int(begun))
    assert is_chance(last(noise, "elsewhere")["accuracy"])
    assert is_chance(noise.sql("SELECT pgml.evaluate('elsewhere', 'n')->>'accuracy'"))
    # Of a model that has seen what was held out nothing is known.
    train(noise, "seen", "n", args=", test_size => 0.6", xgb_model=int(begun))
    assert "trained on some of them" in notices(noise, "SELECT pgml.evaluate('seen', 'n')")
    assert train(noise, "seen", "n", args=", test_size => 0.25") == "t"


def test_a_key_may_have_several_columns_that_are_learnt_from(noise):
    noise.sql("""
        CREATE TABLE sales AS SELECT (id % 30)::text AS shop, date '2026-01-01' + id / 30 AS day, a, y FROM n;
        ALTER TABLE sales ADD UNIQUE (a), ADD PRIMARY KEY (shop, day);
    """)
    train(noise, "sales", "sales")
    noise.sql(KEPT.format(table="sales", key="shop, day"))
    noise.sql("UPDATE sales SET a = a + 0.001")
    rows, learnt = noise.sql(LEARNT.format(table="sales", key="shop, day")).split("|")
    assert int(rows) > 40 and learnt == "0"


def test_rows_that_were_last_are_known_by_their_keys(noise):
    noise.sql("CREATE TABLE log (LIKE n INCLUDING ALL); INSERT INTO log SELECT * FROM n")
    args = ", test_sampling => 'last'"
    train(noise, "log", "log", args=args)
    assert noise.sql("SELECT min(id), count(*) FROM log l WHERE pgml.held_out('log', l)") == "901|300"
    noise.sql("INSERT INTO log SELECT id + 1200, a, b, NOT y FROM n WHERE id % 4 = 0")
    train(noise, "log", "log", args=args)
    # Of new keys one in a hundred is taken for one that was trained on.
    assert "37" in last(noise, "log")["decision"].split(" rows that neither was trained on")[0][-3:]
    without = train(noise, "log", "(SELECT a, b, y FROM log)", args=args)
    assert "fewer than 20 rows are known" in last(noise, "log")["decision"], without


def test_a_row_that_was_trained_on_is_no_test_row_later(noise):
    noise.sql("CREATE TABLE marked AS SELECT *, id % 4 = 0 AS test FROM n; ALTER TABLE marked ADD PRIMARY KEY (id)")
    train(noise, "marked", "marked", args=""", preprocess => '{"test": {"role": "test"}}'""")
    count = "SELECT count(*) FROM marked m WHERE pgml.held_out('marked', m)"
    assert noise.sql(count) == "300"
    noise.sql("UPDATE marked SET test = NOT test")
    assert noise.sql(count) == "0"


@pytest.mark.parametrize(
    "args", [", test_size => 0.5", ", test_sampling => 'last'", ', preprocess => \'{"id": {"role": "key"}}\'']
)
def test_a_training_that_goes_on_knows_what_its_model_has_seen(noise, args):
    project = f"on{abs(hash(args)) % 1000}"
    train(noise, project, "n")
    train(noise, project, "n", xgb_model="deployed")
    assert is_chance(last(noise, project)["accuracy"])
    assert train(noise, project, "n", args=args, xgb_model="deployed") == "f"
    assert "whose training is continued" in last(noise, project)["decision"]


def test_a_model_from_a_file_is_not_compared_by_what_it_knows_by_heart(noise):
    train(noise, "written", "n")
    noise.sql("SELECT pgml.import_model('read', pgml.export_model('written'))")
    with pytest.raises(Exception, match="not known which rows"):
        noise.sql("SELECT pgml.evaluate('read', 'n', rows => 'held_out')")
    assert train(noise, "read", "n") == "t"
    assert "since it was imported" in last(noise, "read")["decision"]


def test_models_of_one_project_are_compared_on_rows_that_none_has_learnt(noise):
    train(noise, "several", "n", "random_forest")
    train(noise, "several", "(SELECT b, a, y FROM n)", "random_forest", ", automatic_deploy => false")
    train(
        noise,
        "several",
        "(SELECT a, b, y FROM n)",
        "random_forest",
        ", test_sampling => 'last', automatic_deploy => false",
    )
    told = json.loads(
        noise.sql("""
            SELECT json_agg(json_build_array(metrics->>'accuracy', metrics->>'rows', error) ORDER BY model_id)
            FROM pgml.compare('several', 'n')
        """)
    )
    assert told[2][2] == "it is not known on which of these rows it was trained"
    assert all(is_chance(accuracy) for accuracy, _, error in told if error is None)
    assert [error for *_, error in told][:2] == [None, None] and told[0][1] == told[1][1]
