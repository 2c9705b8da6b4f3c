"""Trainings in the background: when they run, as whom, what ends them, and what is told of it."""

import json
import os
import signal
import time

import pg8000.dbapi
import pytest

from devkit import Problem, postgres
from devkit.server import Server
from tests.conftest import Database
from tests.test_names import execute

EACH_VERSION = True

ALICE, BOB, GROUP = "pgml_test_alice", "pgml_test_bob", "pgml_test_group"
# A training that ends when somebody lets it: it waits for an advisory lock while it reads.
GATE = (
    "(SELECT i AS x, i AS y, coalesce(pg_advisory_xact_lock_shared(77)::text, '') AS z FROM generate_series(1, 40) i)"
)
FOREVER = '{"n_estimators": 100000000, "nthread": 1}'


def ask(relation="line", project="line", hyperparams='{"n_estimators": 2}', more=""):
    quoted = relation.replace("'", "''")
    return f"SELECT pgml.train_async('{project}', 'regression', '{quoted}', 'y', 'xgboost', '{hyperparams}'{more})"


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def roles(server):
    server.psql(f"DROP ROLE IF EXISTS {ALICE}, {BOB}, {GROUP}")


@pytest.fixture(autouse=True)
def people(server):
    roles(server)
    server.psql(f"CREATE ROLE {ALICE} LOGIN; CREATE ROLE {BOB} LOGIN; CREATE ROLE {GROUP}")
    yield
    roles(server)


@pytest.fixture
def lines(database, people):
    """A database with a table that everybody reads, where everybody may make projects."""
    database.sql("""
        CREATE TABLE line AS SELECT i % 10 AS x, (i % 10) * 2.5::real AS y FROM generate_series(1, 100) i;
        GRANT SELECT ON line TO PUBLIC;
        GRANT INSERT ON pgml.projects TO PUBLIC;
    """)
    yield database
    database.sql("SELECT pgml.cancel(id) FROM pgml.training_jobs WHERE status IN ('queued', 'running')")
    wait_for(lambda: workers(database) == "0", "the workers end")
    database.sql("DROP OWNED BY pgml_test_alice, pgml_test_bob, pgml_test_group CASCADE")


def workers(database):
    return database.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type LIKE 'pgml%'"
    )


@pytest.fixture
def gate(lines):
    """Holds the trainings that read from GATE until it is closed."""
    with lines.connect() as own:
        cursor = own.cursor()
        cursor.execute("SELECT pg_advisory_lock(77)")

        def open_gate():
            cursor.execute("SELECT pg_advisory_unlock_all()")

        yield open_gate


def comes_back(server):
    """Waits until the server has noticed that a process was killed, and answers again."""
    wait_for(lambda: "reinitializing" in server.log.read_text(errors="replace"), "the server starts anew")
    wait_for(server.answers, "the server is back")


def status(database, number):
    return database.sql(f"SELECT status FROM pgml.jobs WHERE id = {number}")


def runs(database, number):
    wait_for(lambda: status(database, number) == "running", f"training {number} runs")


def ended(database, number, as_whom="postgres"):
    return database.sql(f"SET ROLE {as_whom}; SELECT pgml.wait({number}, '20 s')")


def error_of(cursor, statement):
    with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        cursor.execute(statement)
        cursor.fetchall()
    return raised.value.args[0]["C"], raised.value.args[0]["M"]


def test_a_training_goes_on_without_its_client_and_says_when_it_has_ended(lines):
    with lines.connect() as listener:
        heard = listener.cursor()
        heard.execute("LISTEN pgml_training")
        with lines.connect() as own:
            cursor = own.cursor()
            cursor.execute(ask())
            number = cursor.fetchone()[0]
        assert ended(lines, number) == "done"
        row = "SELECT role, project, algorithm, status, deployed, message, started_at < ended_at FROM pgml.jobs"
        assert lines.sql(row) == "postgres|line|xgboost|done|t||t"
        assert lines.sql("SELECT model_id = (SELECT id FROM pgml.models) FROM pgml.jobs") == "t"
        assert lines.sql("SELECT pgml.predict('line', 3) IS NOT NULL") == "t"
        heard.execute("SELECT 1")
        told = [json.loads(payload) for _, _, payload in listener.notifications]
        assert told == [{"id": number, "status": "done"}]


def test_it_begins_with_the_commit_and_not_without_it(lines):
    with lines.connect() as own:
        cursor = own.cursor()
        execute(cursor, "BEGIN", ask(project="rolled back"), "ROLLBACK")
        execute(cursor, "BEGIN", "SAVEPOINT a", ask(project="rolled back"), "ROLLBACK TO a")
        cursor.execute(ask())
        number = cursor.fetchone()[0]
        assert lines.sql("SELECT count(*) FROM pgml.training_jobs") == "0"
        assert error_of(cursor, f"SELECT pgml.wait({number})") == (
            "55000",
            f"training {number} begins when this transaction commits",
        )
        execute(cursor, "ROLLBACK", "BEGIN")
        cursor.execute(ask())
        number = cursor.fetchone()[0]
        time.sleep(0.5)
        assert lines.sql("SELECT count(*) FROM pgml.models") == "0" and workers(lines) == "0"
        cursor.execute("COMMIT")
        assert ended(lines, number) == "done"
    assert lines.sql("SELECT string_agg(name, ' ') FROM pgml.projects") == "line"


def test_a_prepared_transaction_cannot_ask_for_one(major, lines):
    with lines.connect() as own:
        cursor = own.cursor()
        execute(cursor, "BEGIN", ask())
        state, message = error_of(cursor, "PREPARE TRANSACTION 'p'")
        assert (state, message) == ("0A000", "cannot PREPARE a transaction that has called pgml.train_async")


def test_bad_arguments_are_refused_at_once_and_what_fails_later_has_its_error_in_the_row(lines):
    with pytest.raises(Problem, match='algorithm "transformers" is not supported'):
        lines.sql("SELECT pgml.train_async('line', 'regression', 'line', 'y', 'transformers')")
    number = lines.sql(ask(relation="no such table"))
    assert ended(lines, number) == "failed"
    assert lines.sql("SELECT sqlstate, message FROM pgml.jobs") == '42P01|relation "no such table" does not exist'
    number = lines.sql(ask(relation="(SELECT 1/(x - x) AS x, y FROM line)"))
    assert ended(lines, number) == "failed"
    assert lines.sql(f"SELECT sqlstate, message FROM pgml.jobs WHERE id = {number}") == "22012|division by zero"
    assert lines.sql("SELECT count(*) FROM pgml.models") == "0"


def test_they_queue_in_order_and_can_be_cancelled_waiting_and_running(lines, gate):
    numbers = [lines.sql(ask(GATE, f"p{i}")) for i in range(4)]
    runs(lines, numbers[0])
    time.sleep(0.5)
    assert [status(lines, number) for number in numbers] == ["running", "queued", "queued", "queued"]
    assert lines.sql(f"SELECT pgml.cancel({numbers[1]})") == "t"
    assert lines.sql(f"SELECT pgml.cancel({numbers[1]})") == "f"
    assert ended(lines, numbers[1]) == "cancelled"
    assert lines.sql(f"SELECT pgml.wait({numbers[2]}, '10 ms')") == "queued"
    assert lines.sql(f"SELECT pgml.cancel({numbers[0]})") == "t"
    assert ended(lines, numbers[0]) == "cancelled"
    said = "SELECT sqlstate, message FROM pgml.jobs WHERE id = " + numbers[0]
    assert lines.sql(said) == "57014|canceling statement due to user request"
    runs(lines, numbers[2])
    gate()
    assert [ended(lines, number) for number in numbers[2:]] == ["done", "done"]
    order = "SELECT string_agg(id::text, ' ' ORDER BY started_at) FROM pgml.jobs WHERE status = 'done'"
    assert lines.sql(order) == f"{numbers[2]} {numbers[3]}"
    assert lines.sql("SELECT string_agg(name, ' ' ORDER BY name) FROM pgml.projects") == "p2 p3"


def test_a_training_that_grows_trees_is_cancelled(lines):
    number = lines.sql(ask(hyperparams=FOREVER))
    runs(lines, number)
    time.sleep(0.5)
    assert lines.sql(f"SELECT pgml.cancel({number})") == "t"
    assert ended(lines, number) == "cancelled"


def test_it_has_the_callers_rights_settings_and_nothing_more(lines):
    """A view with row level security, a setting that its policy asks for, a search_path, and code that tries for more."""
    lines.sql(f"""
        CREATE SCHEMA data;
        CREATE TABLE data.tenants AS SELECT t AS tenant, i AS x, t * 10 + i % 2 AS y
            FROM generate_series(1, 2) t, generate_series(1, 40) i;
        ALTER TABLE data.tenants ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON data.tenants USING (tenant = current_setting('app.tenant')::int);
        CREATE TABLE data.secret AS SELECT i AS x, i AS y FROM generate_series(1, 40) i;
        CREATE TABLE data.tried (what text, state text, who text, session text);
        GRANT USAGE ON SCHEMA data TO {ALICE};
        GRANT SELECT ON data.tenants TO {ALICE};
        GRANT INSERT ON data.tried TO {ALICE};
        CREATE FUNCTION data.tries(i int) RETURNS int LANGUAGE plpgsql AS $$
        DECLARE
            wish text;
        BEGIN
            IF i = 1 THEN
                INSERT INTO data.tried VALUES ('timeout', current_setting('statement_timeout'), current_user, session_user);
                FOREACH wish IN ARRAY ARRAY['RESET ROLE', 'SET ROLE postgres', 'RESET SESSION AUTHORIZATION',
                    'SET SESSION AUTHORIZATION postgres', 'SELECT count(*) FROM data.secret'] LOOP
                    BEGIN
                        EXECUTE wish;
                        INSERT INTO data.tried VALUES (wish, 'done', current_user, session_user);
                    EXCEPTION WHEN OTHERS THEN
                        INSERT INTO data.tried VALUES (wish, SQLSTATE, current_user, session_user);
                    END;
                END LOOP;
            END IF;
            RETURN i;
        END $$;
    """)
    with lines.connect() as own:
        cursor = own.cursor()
        execute(
            cursor,
            f"SET SESSION AUTHORIZATION {ALICE}",
            "SET search_path = data, public",
            "SET app.tenant = '2'",
            "SET statement_timeout = '50ms'",
            "SET default_transaction_read_only = off",
        )
        cursor.execute(ask("tenants"))
        first = cursor.fetchone()[0]
        cursor.execute(ask("secret", "secret"))
        second = cursor.fetchone()[0]
        cursor.execute(ask("(SELECT x, y, data.tries(x) AS z FROM data.tenants)", "tries"))
        third = cursor.fetchone()[0]
    assert [ended(lines, number, ALICE) for number in (first, second, third)] == ["done", "failed", "done"]
    assert lines.sql("SELECT relation_name FROM pgml.snapshots ORDER BY id LIMIT 1") == "data.tenants"
    # Of the other tenant's rows it has seen none.
    assert lines.sql("SELECT pgml.predict('line', 2, 1) BETWEEN 20 AND 21") == "t"
    assert lines.sql(f"SELECT sqlstate FROM pgml.jobs WHERE id = {second}") == "42501"
    assert lines.sql("SELECT string_agg(state, ' ') FROM data.tried") == "0 42501 42501 42501 42501 42501"
    assert lines.sql("SELECT DISTINCT who, session FROM data.tried") == f"{ALICE}|{ALICE}"
    assert lines.sql("SELECT DISTINCT owner FROM pgml.projects") == ALICE


def test_what_alter_role_says_of_transactions_is_not_the_queues(lines, gate):
    """The worker of the queue logs in as whoever comes first, and looks after everybody's jobs."""
    said = ["default_transaction_read_only = on", "default_transaction_isolation = serializable", "lock_timeout = 1"]
    for setting in said:
        lines.sql(f"ALTER ROLE {ALICE} SET {setting}")
    with lines.connect(user=ALICE) as own:
        cursor = own.cursor()
        cursor.execute("SHOW default_transaction_read_only")
        assert cursor.fetchone()[0] == "on"
        execute(
            cursor, "SET default_transaction_read_only = off", "SET default_transaction_isolation = 'read committed'"
        )
        cursor.execute(ask(GATE))
        first = cursor.fetchone()[0]
    runs(lines, first)
    second = lines.sql(f"SET ROLE {BOB}; " + ask(project="second"))
    # The worker of the queue has this to write down.
    lines.sql(f"SELECT pg_terminate_backend(pid) FROM pgml.training_jobs WHERE id = {first}")
    written = f"SELECT string_agg(status, ' ' ORDER BY id) FROM pgml.training_jobs WHERE id IN ({first}, {second})"
    wait_for(lambda: lines.sql(written) == "failed done", "the queue goes on")
    third = lines.sql(ask(project="third"))
    assert ended(lines, third) == "done"


def search(lines, params, algorithm="xgboost", args='{"cv": 2}', hyperparams="{}"):
    """Asks for a search, and gives its number."""
    return lines.sql(
        f"SELECT pgml.train_async('line', 'regression', 'line', 'y', '{algorithm}', '{hyperparams}', search => 'grid', "
        f"search_params => '{params}', search_args => '{args}')"
    )


def until_it_has_a_best(lines, number):
    asked = f"SELECT phase FROM pgml.activity WHERE id = {number}"
    wait_for(lambda: lines.sql(asked) == "searching, with a best so far", "the search has a score")


@pytest.mark.parametrize("algorithm, endless", [
    ("xgboost", 100000000),
    ("random_forest", 100000),
])  # fmt: skip
def test_a_search_that_is_cancelled_keeps_the_best_so_far(lines, algorithm, endless):
    number = search(lines, f'{{"n_estimators": [1, 2, {endless}]}}', algorithm)
    until_it_has_a_best(lines, number)
    assert lines.sql(f"SELECT pgml.cancel({number})") == "t"
    assert ended(lines, number) == "done"
    deployed, message = lines.sql(f"SELECT deployed, message FROM pgml.jobs WHERE id = {number}").split("|")
    assert deployed == "t" and message.startswith("the search was cut short after ") and "of 6 trainings" in message
    found, results = lines.sql("SELECT hyperparams->>'n_estimators', metrics->'search_results' FROM pgml.models").split(
        "|", 1
    )
    results = json.loads(results)
    scores = results["mean_test_score"]
    assert found in ("1", "2") and results["cut_short"] and len(scores) <= 2
    # It is the best of those, and was trained on all training rows, as after any search.
    assert results["params"][results["best_index"]] == {"n_estimators": int(found)}
    assert scores[results["best_index"]] == max(scores)
    assert lines.sql("SELECT pgml.predict('line', 3) IS NOT NULL") == "t"


def test_a_search_without_a_score_is_cancelled(lines):
    number = search(lines, '{"n_estimators": [100000000, 1]}', hyperparams='{"nthread": 1}')
    wait_for(lambda: lines.sql(f"SELECT phase FROM pgml.activity WHERE id = {number}") == "training", "it trains")
    assert lines.sql(f"SELECT pgml.cancel({number})") == "t"
    assert ended(lines, number) == "cancelled"
    assert lines.sql("SELECT count(*) FROM pgml.models") == "0"


def test_a_cancel_of_the_servers_own_ends_a_search_for_good(lines):
    number = search(lines, '{"n_estimators": [1, 100000000]}')
    until_it_has_a_best(lines, number)
    assert lines.sql(f"SELECT pg_cancel_backend(pid) FROM pgml.activity WHERE id = {number}") == "t"
    assert ended(lines, number) == "cancelled"
    assert lines.sql("SELECT count(*) FROM pgml.models") == "0"


def test_halving_that_is_cancelled_keeps_the_best_of_the_last_step(lines):
    lines.sql("CREATE TABLE longer AS SELECT i % 10 AS x, (i % 10) * 2.5::real AS y FROM generate_series(1, 2000) i")
    number = lines.sql("""
        SELECT pgml.train_async('line', 'regression', 'longer', 'y', 'xgboost', search => 'grid',
            search_params => '{"n_estimators": [1, 2, 3, 100000]}', search_args => '{"cv": 2, "factor": 2}')
    """)
    until_it_has_a_best(lines, number)
    assert lines.sql(f"SELECT pgml.cancel({number})") == "t"
    assert ended(lines, number) == "done"
    assert "cut short" in lines.sql(f"SELECT message FROM pgml.jobs WHERE id = {number}")


def test_nobody_else_sees_it_waits_for_it_or_cancels_it(lines, gate):
    lines.sql(f"GRANT {GROUP} TO {BOB}")
    number = lines.sql(f"SET SESSION AUTHORIZATION {ALICE}; " + ask(GATE))
    runs(lines, number)
    hidden = f"training {number} does not exist"
    with lines.connect() as own:
        cursor = own.cursor()
        cursor.execute(f"SET SESSION AUTHORIZATION {BOB}")
        cursor.execute("SELECT count(*) FROM pgml.jobs")
        assert cursor.fetchone()[0] == 0
        for call in ("cancel", "wait"):
            assert error_of(cursor, f"SELECT pgml.{call}({number})") == ("42704", hidden)
        assert error_of(cursor, "SELECT * FROM pgml.training_jobs")[0] == "42501"
        # Who may signal others' backends may cancel; who becomes a member sees it too.
        execute(cursor, "RESET SESSION AUTHORIZATION", f"GRANT {ALICE} TO {GROUP}", f"SET SESSION AUTHORIZATION {BOB}")
        cursor.execute("SELECT status FROM pgml.jobs")
        assert cursor.fetchone()[0] == "running"
        cursor.execute(f"SELECT pgml.cancel({number})")
        assert cursor.fetchone()[0] is True
    assert ended(lines, number) == "cancelled"
    number = lines.sql(ask(GATE))
    runs(lines, number)
    for role in (ALICE, BOB):
        with pytest.raises(Problem, match="does not exist"):
            lines.sql(f"SET ROLE {role}; SELECT pgml.cancel({number})")


def test_a_function_with_its_owners_rights_asks_with_those(lines):
    lines.sql(f"""
        CREATE TABLE own AS SELECT * FROM line;
        GRANT SELECT ON own TO {ALICE};
        CREATE FUNCTION retrain() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = public
            AS $$ {ask("own", "owned")} $$;
        ALTER FUNCTION retrain() OWNER TO {ALICE};
    """)
    number = lines.sql(f"SET SESSION AUTHORIZATION {BOB}; SELECT public.retrain()")
    assert ended(lines, number, ALICE) == "done"
    assert lines.sql("SELECT name, owner FROM pgml.projects") == f"owned|{ALICE}"
    with pytest.raises(Problem, match="does not exist"):
        lines.sql(f"SET ROLE {BOB}; SELECT pgml.wait({number})")


def test_a_role_that_lost_its_rights_meanwhile_does_not_train(lines, gate):
    lines.sql(f"GRANT {GROUP} TO {ALICE}; CREATE TABLE own AS SELECT * FROM line; GRANT SELECT ON own TO {BOB}")
    first = lines.sql(ask(GATE, "first"))
    runs(lines, first)
    second = lines.sql(f"SET SESSION AUTHORIZATION {ALICE}; SET ROLE {GROUP}; " + ask(project="second"))
    third = lines.sql(f"SET SESSION AUTHORIZATION {BOB}; " + ask("own", "third"))
    fourth = lines.sql(f"SET SESSION AUTHORIZATION {BOB}; " + ask(project="fourth"))
    lines.sql(f"REVOKE {GROUP} FROM {ALICE}; REVOKE SELECT ON own FROM {BOB}")
    gate()
    assert ended(lines, first) == "done"
    assert [ended(lines, number) for number in (second, third, fourth)] == ["failed", "failed", "done"]
    said = "SELECT sqlstate, message FROM pgml.jobs WHERE id = "
    assert lines.sql(said + second) == f'42501|role "{ALICE}" may not act as role "{GROUP}" any more'
    assert lines.sql(said + third) == "42501|permission denied for table own"


def test_a_role_that_is_dropped_or_may_not_connect_meanwhile_does_not_train(lines, gate):
    server = lines.server
    server.psql("CREATE ROLE pgml_test_gone LOGIN; CREATE ROLE pgml_test_barred LOGIN", lines.name)
    try:
        first = lines.sql(ask(GATE, "first"))
        runs(lines, first)
        second = lines.sql("SET SESSION AUTHORIZATION pgml_test_gone; " + ask(project="second"))
        third = server.run(
            "psql", "--no-psqlrc", "-qAt", "-U", "pgml_test_barred", "-c", ask(project="third"), lines.name
        ).stdout.strip()
        server.psql("DROP ROLE pgml_test_gone; ALTER ROLE pgml_test_barred NOLOGIN", lines.name)
        gate()
        assert [ended(lines, number) for number in (first, second, third)] == ["done", "failed", "failed"]
        said = "SELECT sqlstate, message, role IS NULL FROM pgml.jobs WHERE id = "
        assert "does not exist any more|t" in lines.sql(said + second)
        assert lines.sql(said + third) == "58000|the background worker of the training could not start|f"
    finally:
        server.psql("DROP ROLE IF EXISTS pgml_test_gone, pgml_test_barred", lines.name)


def test_a_terminated_worker_is_told_of(lines, gate):
    first, second = lines.sql(ask(GATE, "first")), lines.sql(ask(GATE, "second"))
    runs(lines, first)
    pid = f"SELECT pid FROM pgml.training_jobs WHERE id = {first}"
    lines.sql(f"SELECT pg_terminate_backend(({pid}))")
    assert ended(lines, first) == "failed"
    said = "SELECT sqlstate, message FROM pgml.jobs WHERE id = " + first
    assert lines.sql(said) == "57P01|the background worker ended before the training was complete"
    # The queue goes on; and without the worker that looks after it, as soon as somebody asks.
    runs(lines, second)
    third = lines.sql(ask(GATE, "third"))
    # One that had only been asked for when this was said would begin behind it.
    ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgml queue'"
    wait_for(lambda: lines.sql(ends) is not None and workers(lines) == "1", "the queue's worker ends")
    gate()
    assert [ended(lines, number) for number in (second, third)] == ["done", "done"]


def test_where_no_worker_is_free_it_waits(major):
    with Server(postgres.tree(major), {"max_worker_processes": "2"}) as server:
        server.psql("CREATE DATABASE app")
        app = Database(server, "app")
        app.sql("CREATE EXTENSION pgml; CREATE TABLE line AS SELECT i AS x, i AS y FROM generate_series(1, 40) i")
        number = app.sql(ask())
        assert app.sql(f"SELECT pgml.wait({number}, '1 s')") == "queued"
        wait_for(lambda: "waits for a free background worker" in server.log.read_text(), "it is in the log")
        app.sql(f"SELECT pgml.cancel({number})")
        # Of the two the launcher of logical replication is one, and the worker of the queue the other.
        wait_for(lambda: workers(app) == "0", "the queue's worker ends")


def test_after_a_crash_the_rest_of_the_queue_goes_on_when_somebody_asks(major):
    with Server(postgres.tree(major), {"restart_after_crash": "on"}) as server:
        server.psql("CREATE DATABASE app")
        app = Database(server, "app")
        app.sql("CREATE EXTENSION pgml; CREATE TABLE line AS SELECT i AS x, i AS y FROM generate_series(1, 40) i")
        first, second = app.sql(ask(hyperparams=FOREVER)), app.sql(ask())
        runs(app, first)
        os.kill(int(app.sql("SELECT pid FROM pgml.training_jobs WHERE status = 'running'")), signal.SIGKILL)
        comes_back(server)
        assert app.sql(f"SELECT status FROM pgml.jobs WHERE id = {first}") == "failed"
        assert ended(app, second) == "done"
        assert app.sql(f"SELECT status, sqlstate FROM pgml.jobs WHERE id = {first}") == "failed|57P01"
        # And one that was stopped in good order.
        third = app.sql(ask(hyperparams=FOREVER))
        runs(app, third)
        server.restart()
        assert app.sql(f"SELECT status FROM pgml.jobs WHERE id = {third}") == "failed"


@pytest.mark.parametrize("use", ["SELECT pgml.predict('used', 1)", "SELECT pgml.deploy('used', 'most_recent')"])
def test_after_a_restart_the_queue_goes_on_when_the_extension_is_used(major, use):
    with Server(postgres.tree(major)) as server:
        server.psql("CREATE DATABASE app")
        app = Database(server, "app")
        app.sql("CREATE EXTENSION pgml; CREATE TABLE line AS SELECT i AS x, i AS y FROM generate_series(1, 40) i")
        app.sql(ask(project="used").replace("train_async", "train"))
        first, second = app.sql(ask(hyperparams=FOREVER)), app.sql(ask())
        runs(app, first)
        server.restart()
        written = "SELECT string_agg(status, ' ' ORDER BY id) FROM pgml.training_jobs"
        time.sleep(0.5)
        assert app.sql(written) == "running queued"
        app.sql(use)
        wait_for(lambda: app.sql(written) == "failed done", f"training {second} is done")


def test_a_role_may_have_so_many_waiting(lines, gate):
    lines.sql("LOAD 'pgml'; ALTER SYSTEM SET pgml.queued_trainings = 3; SELECT pg_reload_conf()")
    try:
        held = lines.sql(f"SET ROLE {BOB}; " + ask(GATE, project="held"))
        runs(lines, held)
        with lines.connect() as own:
            cursor = own.cursor()
            execute(cursor, f"SET ROLE {ALICE}", "BEGIN", ask(project="a"), ask(project="b"))
            # What the transaction has asked for counts, and one statement asks for several.
            many = ask(project="c") + " FROM generate_series(1, 2)"
            code, message = error_of(cursor, many)
            assert (code, message) == (
                "53400",
                f'role "{ALICE}" has 3 trainings waiting, and pgml.queued_trainings allows no more',
            )
            execute(cursor, "ROLLBACK", *[ask(project=name) for name in "abc"])
            assert error_of(cursor, ask(project="d"))[0] == "53400"
            # Others have their own.
            lines.sql(f"SET ROLE {BOB}; " + ask(project="e"))
            execute(cursor, "SELECT pgml.cancel(min(id)) FROM pgml.jobs WHERE status = 'queued'", ask(project="d"))
            execute(cursor, "RESET ROLE", *[ask(project=name) for name in "fghij"])
        gate()
    finally:
        lines.sql("LOAD 'pgml'; ALTER SYSTEM RESET pgml.queued_trainings; SELECT pg_reload_conf()")


def test_the_extension_and_the_database_can_be_dropped(lines):
    lines.sql(ask(hyperparams=FOREVER))
    wait_for(lambda: lines.sql("SELECT string_agg(status, '') FROM pgml.jobs") == "running", "it runs")
    with lines.connect() as own:
        cursor = own.cursor()
        # As of any training: whoever drops waits for it, so it is cancelled before.
        cursor.execute("SET lock_timeout = '200ms'")
        assert error_of(cursor, "DROP EXTENSION pgml")[0] == "55P03"
        cursor.execute("SELECT pgml.cancel(id) FROM pgml.training_jobs")
        cursor.execute("SET lock_timeout = '10s'")
        cursor.execute("DROP EXTENSION pgml")
        wait_for(lambda: workers(lines) == "0", "the workers end")
        cursor.execute("CREATE EXTENSION pgml")
    lines.sql(ask(hyperparams=FOREVER))
    wait_for(lambda: lines.sql("SELECT string_agg(status, '') FROM pgml.jobs") == "running", "it runs")
    lines.server.psql(f"DROP DATABASE {lines.name} WITH (FORCE)")
    lines.server.psql(f"CREATE DATABASE {lines.name}")
    lines.sql("CREATE EXTENSION pgml")


def test_a_limit_of_two_lets_two_run_and_none_holds_the_queue(major):
    with Server(postgres.tree(major)) as server:
        server.psql("CREATE DATABASE app")
        app = Database(server, "app")
        app.sql("CREATE EXTENSION pgml; CREATE TABLE line AS SELECT i AS x, i AS y FROM generate_series(1, 40) i")
        # Defined by the library, which no worker has loaded yet.
        app.sql("LOAD 'pgml'; ALTER SYSTEM SET pgml.background_trainings = 2; SELECT pg_reload_conf()")
        numbers = [app.sql(ask(hyperparams=FOREVER, project=f"p{i}")) for i in range(3)]
        statuses = "SELECT string_agg(status, ' ' ORDER BY id) FROM pgml.jobs"
        wait_for(lambda: app.sql(statuses) == "running running queued", "two run")
        app.sql("LOAD 'pgml'; ALTER SYSTEM SET pgml.background_trainings = 0; SELECT pg_reload_conf()")
        app.sql(f"SELECT pgml.cancel({numbers[0]})")
        wait_for(lambda: app.sql(statuses) == "cancelled running queued", "one is cancelled")
        time.sleep(0.5)
        assert app.sql(statuses) == "cancelled running queued"
        # What has ended is forgotten after some days.
        app.sql(f"SELECT pgml.cancel({numbers[1]}), pgml.cancel({numbers[2]})")
        assert [ended(app, number) for number in numbers[1:]] == ["cancelled", "cancelled"]
        wait_for(lambda: workers(app) == "0", "the workers end")
        app.sql("UPDATE pgml.training_jobs SET ended_at = ended_at - interval '31 days' WHERE id = " + numbers[0])
        app.sql("LOAD 'pgml'; ALTER SYSTEM RESET pgml.background_trainings; SELECT pg_reload_conf()")
        assert ended(app, app.sql(ask())) == "done"
        wait_for(lambda: app.sql(statuses) == "cancelled cancelled done", "the old one is forgotten")
