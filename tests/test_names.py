"""What a project's name means: the snapshot's newest deployment, in every connection, on replicas too.

Two models answer for one project: `up` predicts about x and `down` about -x, so one prediction tells which one answered.
"""

import contextlib
import threading

import pg8000.dbapi
import pytest

from devkit import Problem
from devkit.client import connection

# One file a model.
DATABASE_SETTINGS = {"pgml.refit": "off"}

EACH_VERSION = True

HYPERPARAMS = '{"n_estimators": 20, "nthread": 1}'
ASK = "SELECT pgml.predict('line', ARRAY[8]::real[])"


def make_models(sql):
    """The table, and the two models, of which `up` is deployed. Gives their ids."""
    sql("CREATE TABLE line AS SELECT x::real, x::real AS y FROM generate_series(1, 10) x, generate_series(1, 20)")
    train = (
        "SELECT pgml.train('line', 'regression', '{}', 'y', 'xgboost', '{}', automatic_deploy => false, "
        "test_sampling => 'random')"
    )
    sql(train.format("line", HYPERPARAMS))
    sql(train.format("(SELECT x, -y AS y FROM line)", HYPERPARAMS))
    up, down = (int(line) for line in sql("SELECT id FROM pgml.models ORDER BY id").split())
    sql(f"SELECT pgml.deploy({up})")
    return up, down


def ask(cursor, question=ASK):
    """`up` or `down`: the model that answers."""
    cursor.execute(question)
    return "up" if cursor.fetchone()[0] > 0 else "down"


def execute(cursor, *statements):
    for statement in statements:
        cursor.execute(statement)


@pytest.fixture
def models(database):
    return make_models(database.sql)


def test_an_open_connection_sees_a_deployment_when_it_commits(database, models):
    up, down = models
    with database.connect() as reader, database.connect() as deployer:
        seen, other = reader.cursor(), deployer.cursor()
        # A generic plan without tables takes no lock: nothing but predict itself looks for invalidations.
        execute(seen, "SET plan_cache_mode = force_generic_plan", f"PREPARE ask AS {ASK}")
        assert ask(seen, "EXECUTE ask") == "up"
        execute(other, "BEGIN", f"SELECT pgml.deploy({down})")
        assert ask(other) == "down"
        assert ask(seen, "EXECUTE ask") == "up"
        execute(other, "COMMIT")
        assert ask(seen, "EXECUTE ask") == "down"
        execute(other, f"SELECT pgml.deploy({up})")
        assert ask(seen, "EXECUTE ask") == "up"
        assert ask(other) == "up"


def test_a_deployment_that_rolls_back_was_never_seen(database, models):
    _, down = models
    with database.connect() as reader, database.connect() as deployer:
        seen, other = reader.cursor(), deployer.cursor()
        assert ask(seen) == "up"
        execute(other, "BEGIN", f"SELECT pgml.deploy({down})")
        assert ask(other) == "down"
        assert ask(seen) == "up"
        execute(other, "ROLLBACK")
        assert ask(other) == "up"
        assert ask(seen) == "up"
        execute(other, "BEGIN", "SAVEPOINT before", f"SELECT pgml.deploy({down})")
        assert ask(other) == "down"
        execute(other, "ROLLBACK TO before")
        assert ask(other) == "up"
        execute(other, "COMMIT")
        assert ask(other) == "up"


def test_an_old_snapshot_keeps_its_model_and_does_not_teach_it_to_others(database, models):
    up, down = models
    with database.connect() as reader, database.connect() as deployer:
        seen, other = reader.cursor(), deployer.cursor()
        execute(seen, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert ask(seen) == "up"
        execute(other, f"SELECT pgml.deploy({down})")
        assert ask(seen) == "up"
        assert ask(other) == "down"
        assert ask(seen) == "up"
        execute(seen, "COMMIT")
        assert ask(seen) == "down"
        # The snapshot is taken by the first query, the name is first used by a later one.
        execute(seen, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM line")
        execute(other, f"SELECT pgml.deploy({up})")
        assert ask(seen) == "down"
        execute(seen, "COMMIT")
        assert ask(seen) == "up"


def test_a_cursor_answers_as_of_its_declaration(database, models):
    _, down = models
    with database.connect() as reader:
        cursor = reader.cursor()
        execute(cursor, "BEGIN", f"DECLARE old CURSOR FOR {ASK} FROM line", f"SELECT pgml.deploy({down})")
        assert ask(cursor) == "down"
        assert ask(cursor, "FETCH old") == "up"
        assert ask(cursor) == "down"
        assert ask(cursor, "FETCH old") == "up"
        execute(cursor, "ROLLBACK")
        # The deployment comes from another connection, and a younger query of this one learns the new meaning first.
        execute(cursor, "BEGIN", f"DECLARE old CURSOR FOR {ASK} FROM line")
        database.sql(f"SELECT pgml.deploy({down})")
        assert ask(cursor) == "down"
        assert ask(cursor, "FETCH old") == "up"
        execute(cursor, "COMMIT")


def test_statements_of_a_function_see_the_deployments_between_them(database, models):
    _, down = models
    answer = database.sql(f"""
        CREATE FUNCTION before_and_after() RETURNS text LANGUAGE plpgsql AS $$
        DECLARE
            answers text := '';
        BEGIN
            FOR turn IN 1..2 LOOP
                answers := answers || sign(pgml.predict('line', ARRAY[8]::real[]));
                PERFORM pgml.deploy({down});
                answers := answers || sign(pgml.predict('line', ARRAY[8]::real[]));
            END LOOP;
            RETURN answers;
        END $$;
        SELECT before_and_after();
    """)
    assert answer == "1-1-1-1"


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM pgml.deployments WHERE model_id = {down}",
        "UPDATE pgml.deployments SET model_id = {up}",
        "UPDATE pgml.deployments SET project_id = project_id, model_id = {up} WHERE model_id = {down}",
        "INSERT INTO pgml.deployments (project_id, model_id, strategy) "
        "SELECT project_id, {up}, 'specific' FROM pgml.deployments LIMIT 1",
        "DELETE FROM pgml.models WHERE id = {down}",
        "UPDATE pgml.files SET data = (SELECT data FROM pgml.files WHERE model_id = {up} AND path <> 'remembered_rows') WHERE model_id = {down}",
    ],
)
def test_changes_made_by_hand_are_seen(database, models, change):
    up, down = models
    with database.connect() as reader, database.connect() as hand:
        seen, other = reader.cursor(), hand.cursor()
        execute(other, f"SELECT pgml.deploy({down})")
        assert ask(seen) == "down"
        execute(other, change.format(up=up, down=down))
        assert ask(seen) == "up"
        assert ask(other) == "up"


def test_a_truncated_registry_is_seen(database, models):
    with database.connect() as reader:
        cursor = reader.cursor()
        assert ask(cursor) == "up"
        database.sql("TRUNCATE pgml.deployments")
        with pytest.raises(pg8000.dbapi.DatabaseError, match="no deployed model"):
            ask(cursor)
        database.sql("TRUNCATE pgml.projects CASCADE")
        with pytest.raises(pg8000.dbapi.DatabaseError, match='project \\\\?"line\\\\?" does not exist'):
            ask(cursor)


def test_the_extension_can_be_dropped_and_created_again_under_an_open_connection(database, models):
    with database.connect() as reader:
        cursor = reader.cursor()
        assert ask(cursor) == "up"
        database.sql("DROP EXTENSION pgml")
        database.sql("DROP TABLE line")
        database.sql("CREATE EXTENSION pgml")
        _, down = make_models(database.sql)
        assert ask(cursor) == "up"
        database.sql(f"SELECT pgml.deploy({down})")
        assert ask(cursor) == "down"


def test_equal_ids_in_two_databases_are_two_models(server, database, models):
    _, down = models
    twin = f"{database.name}_twin"
    server.psql(f"CREATE DATABASE {twin}")
    try:
        server.psql("CREATE EXTENSION pgml", twin)
        twins = make_models(lambda text: server.psql(text, twin))
        assert twins == models
        server.psql(f"SELECT pgml.deploy({down})", twin)
        with connection(server, twin) as there, database.connect() as here:
            assert ask(there.cursor()) == "down"
            assert ask(here.cursor()) == "up"
    finally:
        server.psql(f"DROP DATABASE {twin} WITH (FORCE)")


def test_leader_and_workers_of_a_parallel_query_use_one_model(database, models):
    """While deployments alternate, each sum is that of one model, never a mixture."""
    up, down = models
    database.sql("CREATE TABLE many AS SELECT (x % 10 + 1)::real AS x FROM generate_series(1, 20000) x; ANALYZE many")
    question = "SELECT sum(pgml.predict('line', ARRAY[x])::float8), count(*) FROM many"
    expected = set()
    for model in models:
        database.sql(f"SELECT pgml.deploy({model})")
        expected.add(float(database.sql(question).split("|")[0]))
    stop = threading.Event()

    def deploy():
        with database.connect() as deployer:
            cursor = deployer.cursor()
            while not stop.is_set():
                for model in (up, down):
                    cursor.execute(f"SELECT pgml.deploy({model})")

    thread = threading.Thread(target=deploy)
    with database.connect() as reader:
        cursor = reader.cursor()
        settings = ("parallel_setup_cost = 0", "parallel_tuple_cost = 0", "min_parallel_table_scan_size = 0")
        execute(cursor, *(f"SET {setting}" for setting in settings), "SET max_parallel_workers_per_gather = 2")
        cursor.execute(f"EXPLAIN (COSTS OFF) {question}")
        assert any("Workers Planned: 2" in line for (line,) in cursor.fetchall())
        thread.start()
        try:
            seen = set()
            for _ in range(150):
                cursor.execute(question)
                total, rows = cursor.fetchone()
                assert rows == 20000
                assert any(abs(total - value) < 1e-6 * abs(value) for value in expected), (total, expected)
                seen.add(total > 0)
        finally:
            stop.set()
            thread.join()
    assert seen == {True, False}, "the deployments never alternated: the test showed nothing"


def test_a_replica_answers_as_the_primary_in_connections_already_open(cluster):
    up, down = make_models(lambda text: cluster.primary.psql(text, "app"))
    cluster.catch_up()
    with contextlib.ExitStack() as stack:
        seen = stack.enter_context(connection(cluster.replica, "app")).cursor()
        deployer = stack.enter_context(connection(cluster.primary, "app")).cursor()
        execute(seen, "SET plan_cache_mode = force_generic_plan", f"PREPARE ask AS {ASK}")
        assert ask(seen, "EXECUTE ask") == "up"
        execute(deployer, "BEGIN", f"SELECT pgml.deploy({down})")
        cluster.catch_up()
        assert ask(seen, "EXECUTE ask") == "up"
        execute(deployer, "ROLLBACK")
        cluster.catch_up()
        assert ask(seen, "EXECUTE ask") == "up"
        for model, answer in ((down, "down"), (up, "up"), (down, "down")):
            execute(deployer, f"SELECT pgml.deploy({model})")
            cluster.catch_up()
            assert ask(seen, "EXECUTE ask") == answer
        same_bits = "SELECT array_agg(pgml.predict('line', ARRAY[x]) ORDER BY x)::text FROM line"
        assert cluster.replica.psql(same_bits, "app") == cluster.primary.psql(same_bits, "app")
        with pytest.raises(Problem, match=r"cannot execute pgml.train\(\) in a read-only transaction"):
            cluster.replica.psql("SELECT pgml.train('line', algorithm => 'xgboost')", "app")
        cluster.replica.promote()
        assert ask(seen, "EXECUTE ask") == "down"
