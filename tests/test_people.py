"""Who may do what, while it changes: in open connections, prepared statements, parallel workers, and on replicas.

extension/tests/sql/people.sql has what each kind of role may do at all.
"""

import contextlib
import json

import pg8000.dbapi
import pytest

from devkit.client import connection
from tests.test_names import ask, execute, make_models

ALICE, BOB, GROUP = "pgml_test_alice", "pgml_test_bob", "pgml_test_group"


@pytest.fixture(autouse=True)
def roles(server):
    """Set up before the database, so that they are dropped after it."""
    make_roles(server)
    yield
    drop_roles(server)


def make_roles(server):
    drop_roles(server)
    server.psql(f"CREATE ROLE {ALICE}; CREATE ROLE {BOB}; CREATE ROLE {GROUP}")


def drop_roles(server):
    server.psql(f"DROP ROLE IF EXISTS {ALICE}, {BOB}, {GROUP}")


@pytest.fixture
def models(database):
    """Two models of a project of Alice's, which nobody else may use."""
    ids = make_models(database.sql)
    database.sql(f"SELECT pgml.set_owner('line', '{ALICE}'), pgml.revoke('line', 'public', 'all')")
    return ids


def state(cursor, statement):
    """The SQLSTATE that a statement ends with."""
    try:
        cursor.execute(statement)
        cursor.fetchall()
    except pg8000.dbapi.DatabaseError as error:
        return error.args[0]["C"]
    return "00000"


PREPARED = "EXECUTE ask"
PREPARE = ("SET plan_cache_mode = force_generic_plan", "PREPARE ask AS SELECT pgml.predict('line', ARRAY[8]::real[])")


def test_a_role_that_changes_within_a_connection_is_seen_at_once(database, models):
    """The same prepared statement, whose call site keeps what its name meant to the role before."""
    with database.connect() as own:
        cursor = own.cursor()
        execute(cursor, *PREPARE)
        for _ in range(3):
            for role, expected in ((ALICE, "00000"), (BOB, "42704")):
                execute(cursor, f"SET ROLE {role}")
                assert state(cursor, PREPARED) == expected
                execute(cursor, "RESET ROLE")
                assert ask(cursor, PREPARED) == "up"


def test_a_definers_function_predicts_as_its_owner_row_by_row(database, models):
    database.sql(f"""
        CREATE FUNCTION lent(x real) RETURNS real LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
        AS $$ SELECT pgml.predict('line', ARRAY[x]) $$;
        ALTER FUNCTION lent OWNER TO {ALICE};
        CREATE FUNCTION direct(x real) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN
            RETURN pgml.predict('line', ARRAY[x]);
        EXCEPTION WHEN undefined_object THEN RETURN 'refused';
        END $$;
    """)
    answers = "SELECT string_agg(sign(lent(x::real)) || direct(x::real), ' ') FROM generate_series(7, 9) x"
    assert database.sql(f"SET ROLE {BOB}; {answers}") == "1refused 1refused 1refused"


QUESTIONS = {
    "predict": ("predict", "SELECT pgml.predict('line', ARRAY[$1])"),
    # By id, of a constant, it would be worked out when it is prepared, as any immutable function is.
    "predict by id": ("predict", "SELECT pgml.predict({id}, ARRAY[$1])"),
    "predict_batch": ("predict", "SELECT pgml.predict_batch('line', ARRAY[$1])"),
    "explain": ("explain", "SELECT pgml.explain('line', ARRAY[$1])"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_grants_and_revocations_reach_open_connections(database, models, name):
    privilege, question = QUESTIONS[name]
    asked = "EXECUTE ask(8)"
    with database.connect() as reader, database.connect() as owner:
        seen, other = reader.cursor(), owner.cursor()
        execute(seen, f"SET ROLE {BOB}", "SET plan_cache_mode = force_generic_plan")
        execute(seen, f"PREPARE ask(real) AS {question.format(id=models[0])}")
        execute(other, f"SET ROLE {ALICE}")
        for _ in range(2):
            assert state(seen, asked) == "42704"
            execute(other, "BEGIN", f"SELECT pgml.grant('line', '{BOB}', '{privilege}')")
            assert state(seen, asked) == "42704"
            execute(other, "COMMIT")
            assert state(seen, asked) == "00000"
            execute(other, f"SELECT pgml.grant('line', '{BOB}', 'see')")
            execute(other, "BEGIN", f"SELECT pgml.revoke('line', '{BOB}', '{privilege}')", "ROLLBACK")
            assert state(seen, asked) == "00000"
            execute(other, f"SELECT pgml.revoke('line', '{BOB}', '{privilege}')")
            assert state(seen, asked) == "42501"
            execute(other, f"SELECT pgml.revoke('line', '{BOB}', 'all')")


def test_changes_of_roles_reach_open_connections(database, models):
    database.sql(f"SELECT pgml.grant('line', '{GROUP}', 'predict')")
    with database.connect() as reader:
        seen = reader.cursor()
        execute(seen, *PREPARE, f"SET ROLE {BOB}")
        for change, expected in (
            (f"GRANT {GROUP} TO {BOB}", "00000"),
            (f"REVOKE {GROUP} FROM {BOB}", "42704"),
            (f"GRANT {ALICE} TO {BOB}", "00000"),
            (f"REVOKE {ALICE} FROM {BOB}", "42704"),
            (f"ALTER ROLE {BOB} SUPERUSER", "00000"),
            (f"ALTER ROLE {BOB} NOSUPERUSER", "42704"),
            (f"SELECT pgml.set_owner('line', '{BOB}')", "00000"),
            (f"ALTER ROLE {BOB} RENAME TO {BOB}_renamed", "00000"),
            (f"ALTER ROLE {BOB}_renamed RENAME TO {BOB}", "00000"),
            (f"SELECT pgml.set_owner('line', '{ALICE}')", "42704"),
        ):
            database.sql(change)
            assert state(seen, PREPARED) == expected, change


def test_a_query_keeps_the_grants_that_its_snapshot_sees(database, models):
    with database.connect() as reader:
        seen = reader.cursor()
        database.sql(f"SELECT pgml.grant('line', '{BOB}', 'predict')")
        execute(seen, f"SET ROLE {BOB}", "BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert ask(seen) == "up"
        database.sql(f"SELECT pgml.revoke('line', '{BOB}', 'predict')")
        assert ask(seen) == "up"
        execute(seen, "COMMIT")
        assert state(seen, "SELECT pgml.predict('line', ARRAY[8]::real[])") == "42704"


def test_what_changes_the_registry_goes_by_the_latest_grants(database, models):
    """An old snapshot does not keep the right to deploy."""
    database.sql(f"SELECT pgml.grant('line', '{BOB}', 'deploy')")
    with database.connect() as deployer:
        cursor = deployer.cursor()
        execute(
            cursor, f"SET ROLE {BOB}", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pgml.projects"
        )
        database.sql(f"SELECT pgml.revoke('line', '{BOB}', 'deploy')")
        assert state(cursor, f"SELECT pgml.deploy({models[0]})") == "42704"
        execute(cursor, "ROLLBACK")


def test_parallel_workers_ask_as_their_leader(database, models):
    database.sql("CREATE TABLE many AS SELECT (x % 10 + 1)::real AS x FROM generate_series(1, 20000) x; ANALYZE many")
    database.sql(f"GRANT SELECT ON many TO {ALICE}, {BOB}")
    question = "SELECT count(pgml.predict('line', ARRAY[x])) FROM many"
    with database.connect() as own:
        cursor = own.cursor()
        settings = ("parallel_setup_cost = 0", "parallel_tuple_cost = 0", "min_parallel_table_scan_size = 0")
        execute(cursor, *(f"SET {setting}" for setting in settings), "SET max_parallel_workers_per_gather = 2")
        execute(cursor, "SET parallel_leader_participation = off")
        cursor.execute(f"EXPLAIN (COSTS OFF) {question}")
        assert any("Workers Planned: 2" in line for (line,) in cursor.fetchall())
        execute(cursor, f"SET ROLE {ALICE}", question)
        assert cursor.fetchone()[0] == 20000
        execute(cursor, "RESET ROLE", f"SET ROLE {BOB}")
        assert state(cursor, question) == "42704"
        # Reads of the registry ask in workers too.
        execute(cursor, "SET min_parallel_index_scan_size = 0")
        for role, projects in ((ALICE, 1), (BOB, 0)):
            execute(cursor, "RESET ROLE", f"SET ROLE {role}", "SELECT count(*) FROM pgml.projects")
            assert cursor.fetchone()[0] == projects


def test_replicas_know_who_may_do_what(cluster):
    primary = cluster.primary
    make_roles(primary)
    make_models(lambda text: primary.psql(text, "app"))
    primary.psql(f"SELECT pgml.set_owner('line', '{ALICE}'), pgml.revoke('line', 'public', 'all')", "app")
    cluster.catch_up()
    with contextlib.ExitStack() as stack:
        seen = stack.enter_context(connection(cluster.replica, "app")).cursor()
        execute(seen, *PREPARE, f"SET ROLE {BOB}")
        assert state(seen, PREPARED) == "42704"
        for change, expected in (
            (f"SELECT pgml.grant('line', '{BOB}', 'predict')", "00000"),
            (f"SELECT pgml.revoke('line', '{BOB}', 'predict')", "42704"),
            (f"GRANT {ALICE} TO {BOB}", "00000"),
            (f"REVOKE {ALICE} FROM {BOB}", "42704"),
        ):
            primary.psql(change, "app")
            cluster.catch_up()
            assert state(seen, PREPARED) == expected, change
        execute(seen, "SELECT count(*) FROM pgml.projects")
        assert seen.fetchone()[0] == 0
        execute(seen, "RESET ROLE")
        for statement in (
            f"SELECT pgml.grant('line', '{BOB}', 'see')",
            f"SELECT pgml.set_owner('line', '{BOB}')",
            "SELECT pgml.deploy('line', 'most_recent')",
            "SELECT pgml.load_dataset('iris')",
        ):
            assert state(seen, statement) == "25006", statement


def test_two_roles_that_make_one_project_at_once(database):
    """The one that comes second learns it before it has written anything."""
    database.sql("CREATE TABLE t AS SELECT i AS x, i AS y FROM generate_series(1, 50) i; GRANT SELECT ON t TO PUBLIC")
    database.sql(f"GRANT INSERT ON pgml.projects TO {ALICE}, {BOB}")
    train = "SELECT pgml.train('both', 'regression', 't', 'y', 'xgboost', '{\"n_estimators\": 1}')"
    with database.connect() as first, database.connect() as second:
        alice, bob = first.cursor(), second.cursor()
        execute(alice, f"SET ROLE {ALICE}", "BEGIN", train)
        execute(bob, f"SET ROLE {BOB}", "SET lock_timeout = '100ms'")
        assert state(bob, train) == "55P03"
        execute(alice, "COMMIT")
        assert state(bob, train) == "42501"
    assert database.sql("SELECT count(*), min(owner::text) FROM pgml.projects, pgml.models") == f"1|{ALICE}"


# Columns that every role may ask for, whose operators PostgreSQL trusts with rows that a policy hides; those of an index apart.
TRUSTED = f"""
    SELECT c.oid::regclass::text, quote_ident(a.attname), a.atttypid::regtype::text
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'pgml'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0
    AND has_table_privilege('{BOB}', c.oid, 'SELECT') AND a.atttypid IN ('text'::regtype, 'bytea'::regtype)
    AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND a.attnum = ANY (i.indkey))
    ORDER BY 1, 2
"""
# The first and the last of all values.
ENDS = {"text": ("''", "'~~~~'"), "bytea": (r"'\x'", r"'\xffffffff'")}


def run_of(cursor, relation, column, end):
    """The plan of a condition, with what each part of it read and gave, and without the condition."""
    asked = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) SELECT FROM {relation} WHERE {column} >= {end}"
    cursor.execute(asked)
    cursor.execute(asked)  # the first fills caches
    (explained,) = cursor.fetchone()[0]
    return json.dumps(explained["Plan"]).replace(json.dumps(end)[1:-1], "?")


def test_plans_tell_nothing_of_values_that_are_hidden(database, models):
    database.sql("""
        SELECT pgml.train('queried', 'regression', '(SELECT x, y FROM line WHERE x < 9)', 'y', 'xgboost', '{"n_estimators": 2}');
        SELECT pgml.revoke('queried', 'public', 'all');
        INSERT INTO pgml.projects (name, task) SELECT 'filler ' || g, 'regression' FROM generate_series(1, 100) g;
        ANALYZE pgml.projects, pgml.models, pgml.deployments, pgml.snapshots, pgml.files, pgml.privileges, pgml.trials,
            pgml.learning_curves, pgml.watches, pgml.watch_checks
    """)
    assert database.sql("SELECT tablename, attname FROM pg_stats WHERE schemaname = 'pgml'") == ""
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(TRUSTED)
        columns = cursor.fetchall()
        assert ["pgml.snapshots", "relation_name", "text"] in [list(column) for column in columns]
        assert ["pgml.files", "data", "bytea"] in [list(column) for column in columns]
        cursor.execute(f"SET SESSION AUTHORIZATION {BOB}")
        told = {
            f"{relation}.{column}"
            for relation, column, kind in columns
            if len({run_of(cursor, relation, column, end) for end in ENDS[kind]}) > 1
        }
        cursor.execute("RESET SESSION AUTHORIZATION")
    assert told == set()
