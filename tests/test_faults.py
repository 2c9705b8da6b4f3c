"""Faults, each put in at a named step: what was committed stays, what was not leaves nothing, and the server goes on.

A step is a place where a training, a deployment or the writing of the cache is made to wait: in a function that its query
calls, in a trigger on a table that it writes to, or for a lock on a file. `--times N` does all of it N times over.
"""

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import pg8000.dbapi
import pytest

from devkit import Problem, postgres
from devkit.client import connection
from devkit.places import as_server_user, give_to_server_user, server_user
from devkit.server import Server, environment
from tests import test_upgrade
from tests.conftest import Database
from tests.test_cache import cache_files, clear, make_due
from tests.test_limits import started
from tests.test_names import ASK, ask, make_models
from tests.test_training import FOREVER, REGISTRY, Background, temporary_files, wait_for

GATE = """
    CREATE FUNCTION public.pass() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_catalog.pg_advisory_lock(1);
        PERFORM pg_catalog.pg_advisory_unlock(1);
        RETURN true;
    END $$;
    CREATE FUNCTION public.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM public.pass();
        RETURN NULL;
    END $$;
"""
QUIET = '{"n_estimators": 20, "nthread": 1}'


def train(waits_at="false", hyperparams=QUIET):
    """A first training of the project `fresh`, whose query waits where the condition says."""
    rows = f"(SELECT g AS x, g AS y FROM generate_series(1, 200) g WHERE NOT ({waits_at}) OR public.pass())"
    return f"SELECT pgml.train('fresh', 'regression', '{rows}', 'y', 'xgboost', '{hyperparams}')"


def trigger(table, when="AFTER INSERT", deferred=False):
    if deferred:
        made = f"CREATE CONSTRAINT TRIGGER gate {when} ON pgml.{table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
    else:
        made = f"CREATE TRIGGER gate {when} ON pgml.{table} FOR EACH ROW"
    return f"{made} EXECUTE FUNCTION public.gate()"


# A step of a training: the statement that makes it wait there, and the training.
TRAINING = {
    "the first row is read": ("", train("g = 1")),
    "the last row is read": ("", train("g = 200")),
    "trees grow": ("", train(hyperparams=FOREVER)),
    "the project is made": (trigger("projects"), train()),
    "the snapshot is recorded": (trigger("snapshots"), train()),
    "the model is recorded": (trigger("models"), train()),
    "its bytes are stored": (trigger("files"), train()),
    "it is deployed": (trigger("deployments"), train()),
    "it commits": (trigger("deployments", deferred=True), train()),
}
DEPLOYING = {
    "the deployment is recorded": (trigger("deployments"), "SELECT pgml.deploy(2)"),
    "the deployment commits": (trigger("deployments", deferred=True), "SELECT pgml.deploy(2)"),
}
STEPS = {**TRAINING, **DEPLOYING}
# So many rows that most of them are in the temporary file while the last one is waited for.
ROWS = 200_000
SPOOLING = (
    "SELECT pgml.train('fresh', 'regression', '(SELECT hashint4(i) AS x, hashint4(-i) AS y FROM many "
    f"WHERE i < {ROWS} OR public.pass())', 'y', 'xgboost', '{QUIET}')"
)


@pytest.fixture(scope="module")
def own(major):
    """A server that may be killed, with the database `app`: two models, `up` (1) deployed, and `down` (2)."""
    with Server(postgres.tree(major), {"max_prepared_transactions": "4", "pgml.refit": "off"}) as server:
        server.psql("CREATE DATABASE app")
        database = Database(server, "app")
        database.sql("CREATE EXTENSION pgml;" + GATE)
        assert make_models(database.sql) == (1, 2)
        yield database


class Waiting:
    """A statement that waits at a step, in a connection of its own."""

    def __init__(self, database, step, statement=None):
        self.database = database
        self.gate, self.statement = ("", statement) if statement else STEPS[step]
        self.grows = step == "trees grow"
        self._open = contextlib.ExitStack()

    def __enter__(self):
        open_gates(self.database)
        self.database.sql(self.gate)
        self._holder = self._open.enter_context(self.database.connect()).cursor()
        self._holder.execute("SELECT pg_advisory_lock(1)")
        client = self._open.enter_context(self.database.connect())
        self.running = Background(client, self.statement)
        self.pid = self.running.pid
        waits = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = {self.pid}"

        def is_there():
            assert self.running.ended is None, self.running.error
            if self.grows:
                return any(b"Training Model" in notice[b"M"] for notice in list(client.notices))
            return self.database.sql(waits) == "1"

        wait_for(is_there, "the step is reached")
        return self

    def go_on(self):
        """Lets the statement run to its end."""
        self._holder.execute("SELECT pg_advisory_unlock(1)")
        self.running.wait(60)

    def __exit__(self, *exception):
        self._open.close()


def recovered(server, before):
    """Waits until a server that lost a backend has begun anew since `before` and takes connections again.

    The client of the backend may know of its end before the postmaster does.
    """

    def answers():
        with contextlib.suppress(Problem):
            return started(server) != before

    wait_for(answers, "the server is back")


def kill_postmaster(server):
    """Kills the server as a failure of the machine would, and starts it again."""
    os.kill(server.pid, signal.SIGKILL)
    for attempt in range(200):
        server.stop()
        try:
            server.start()
            return
        except Problem as problem:
            # Its backends notice within moments.
            if attempt == 199 or "is still in use" not in str(problem):
                raise
            time.sleep(0.05)


def open_gates(database):
    """Nothing waits any more."""
    for table in ("projects", "snapshots", "models", "files", "deployments"):
        database.sql(f"SET client_min_messages = error; DROP TRIGGER IF EXISTS gate ON pgml.{table}")


def check(database, registry):
    """Nothing is left of what was stopped, what was there answers, and the next attempt succeeds."""
    sql = database.sql
    open_gates(database)
    assert sql(REGISTRY) == registry
    assert float(sql(ASK)) > 0
    wait_for(lambda: not temporary_files(database.server), "temporary files go", 10)
    sql(train())
    assert abs(float(sql("SELECT pgml.predict('fresh', 150)")) - 150) < 20
    sql("DELETE FROM pgml.projects WHERE name = 'fresh'")
    sql("SELECT pgml.deploy(2)")
    assert float(sql(ASK)) < 0
    sql("SELECT pgml.deploy(1)")
    sql("DELETE FROM pgml.snapshots s WHERE NOT EXISTS (SELECT FROM pgml.models m WHERE m.snapshot_id = s.id)")


@pytest.mark.parametrize("step", STEPS)
def test_a_backend_that_is_killed_leaves_nothing_half_done(own, step, time_of_many):
    registry, before = own.sql(REGISTRY), started(own.server)
    with Waiting(own, step) as waiting:
        os.kill(waiting.pid, signal.SIGKILL)
        waiting.running.wait(30)
    assert waiting.running.error is not None
    recovered(own.server, before)
    check(own, registry)


@pytest.mark.parametrize("step", ["trees grow", "its bytes are stored", "it commits", "the deployment commits"])
def test_a_server_that_is_killed_leaves_nothing_half_done(own, step, time_of_many):
    registry = own.sql(REGISTRY)
    with Waiting(own, step):
        kill_postmaster(own.server)
    check(own, registry)


@pytest.mark.parametrize("how, state", [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57P01")])
@pytest.mark.parametrize("step", STEPS)
def test_a_statement_that_is_stopped_leaves_nothing_half_done(own, step, how, state, time_of_many):
    registry = own.sql(REGISTRY)
    with Waiting(own, step) as waiting:
        own.sql(f"SELECT {how}({waiting.pid})")
        waiting.running.wait(30)
    error = waiting.running.error
    # Of a connection that ends pg8000 may tell no more than that.
    assert (isinstance(error, pg8000.dbapi.InterfaceError) and state == "57P01") or error.args[0]["C"] == state
    check(own, registry)


@pytest.mark.parametrize("setting, state", [("statement_timeout", "57014"), ("lock_timeout", "55P03")])
# At the commit PostgreSQL's statement_timeout is over.
@pytest.mark.parametrize("step", ["the last row is read", "its bytes are stored"])
def test_a_timeout_leaves_nothing_half_done(own, step, setting, state, time_of_many):
    registry = own.sql(REGISTRY)
    gate, statement = STEPS[step]
    own.sql(gate)
    with own.connect() as holding, own.connect() as training:
        holding.cursor().execute("SELECT pg_advisory_lock(1)")
        cursor = training.cursor()
        cursor.execute(f"SET {setting} = '1s'")
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            cursor.execute(statement)
    assert raised.value.args[0]["C"] == state
    check(own, registry)


def test_a_session_that_idles_in_its_transaction_loses_its_training(own, time_of_many):
    registry = own.sql(REGISTRY)
    with own.connect() as client:
        cursor = client.cursor()
        cursor.execute("SET idle_in_transaction_session_timeout = '100ms'")
        cursor.execute("BEGIN")
        cursor.execute(train())
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the backend ends")
    check(own, registry)


class Held:
    """A lock on a file of the cache, as a backend takes it."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self._file = open(self.path, "a")
        os.chmod(self.path, 0o600)
        give_to_server_user(self.path)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *exception):
        self._file.close()


@pytest.mark.parametrize("step", ["another builds it", "it is about to be written"])
@pytest.mark.parametrize("how", ["kill the backend", "kill the server", "cancel", "terminate"])
def test_a_stop_while_the_cache_is_written_costs_nothing_but_another_compilation(own, step, how, time_of_many):
    clear(own.server)
    before, life = own.sql(ASK), started(own.server)
    (compiled,) = cache_files(own.server)
    good = compiled.read_bytes()
    clear(own.server)
    folder = own.server.data / "pgml_cache"
    lock = compiled.with_suffix(".build") if step == "another builds it" else folder / "lock"
    with Held(lock), own.connect() as client:
        predicting = Background(client, ASK)
        waits = f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {predicting.pid}"
        wait_for(lambda: own.sql(waits) == "Extension", "the backend waits for the lock")
        if how == "kill the server":
            kill_postmaster(own.server)
        elif how == "kill the backend":
            os.kill(predicting.pid, signal.SIGKILL)
        else:
            own.sql(f"SELECT pg_{how}_backend({predicting.pid})")
        predicting.wait(30)
        assert predicting.error is not None
    if how.startswith("kill"):
        recovered(own.server, life)
    assert own.sql(ASK) == before
    assert compiled.read_bytes() == good


def test_a_backend_that_is_killed_while_it_writes_an_image_leaves_a_file_that_nobody_takes_for_one(own, time_of_many):
    clear(own.server)
    before, life = own.sql(ASK), started(own.server)
    (compiled,) = cache_files(own.server)
    good = compiled.read_bytes()
    clear(own.server)
    with own.connect() as client:
        predicting = Background(client, ASK)
        while predicting.ended is None and not list(compiled.parent.glob("tmp.*")):
            pass
        os.kill(predicting.pid, signal.SIGKILL)
        predicting.wait(30)
    recovered(own.server, life)
    assert own.sql(ASK) == before
    assert compiled.read_bytes() == good
    for left in compiled.parent.glob("tmp.*"):
        os.utime(left, (0, 0))
    make_due(own.server)
    own.sql(ASK)
    assert not list(compiled.parent.glob("tmp.*"))
    folder = own.server.data / "pgml_cache"
    counted = int.from_bytes((folder / "lock").read_bytes()[:8], "little")
    assert counted == sum(path.stat().st_size for path in cache_files(own.server))


def test_random_changes_of_stored_bytes_are_errors_or_predictions(own, time_of_many):
    """The digest is that of the changed bytes, as if they had been stored so."""
    seed = random.randrange(2**32)
    generator = random.Random(seed)
    length = int(own.sql("SELECT length(data) FROM pgml.files WHERE model_id = 2 AND path = 'model.ubj'"))
    with own.connect() as client:
        cursor = client.cursor()
        for _ in range(60):
            place, byte = generator.randrange(length), generator.randrange(256)
            cursor.execute("BEGIN")
            cursor.execute(
                f"UPDATE pgml.files SET data = set_byte(data, {place}, {byte}) WHERE model_id = 2 AND path = 'model.ubj'"
            )
            for question in ("pgml.predict(2, ARRAY[8]::real[])", "count(*) FROM pgml.explain(2, ARRAY[8]::real[])"):
                cursor.execute("SAVEPOINT s")
                try:
                    cursor.execute(f"SELECT {question}")
                except pg8000.dbapi.DatabaseError as error:
                    assert error.args[0]["C"] in ("XX001", "0A000"), (seed, place, byte, error)
                    cursor.execute("ROLLBACK TO s")
            cursor.execute("ROLLBACK")
        assert ask(cursor) == "up"


def flip(path):
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path):
    length = path.stat().st_size
    with path.open("r+b") as file:
        file.write(random.randbytes(length))


@pytest.mark.parametrize("damage", [flip, cut_off, overwrite])
def test_rows_of_a_training_that_are_damaged_on_disk_train_no_model(own, damage, time_of_many):
    registry = own.sql(REGISTRY)
    own.sql(f"DROP TABLE IF EXISTS many; CREATE TABLE many AS SELECT i FROM generate_series(1, {ROWS}) i")
    with Waiting(own, "the last row is read", SPOOLING) as waiting:
        (spool,) = temporary_files(own.server)
        assert spool.stat().st_size > ROWS
        damage(spool)
        waiting.go_on()
        assert waiting.running.error.args[0]["C"] == "58030"
        assert waiting.running.error.args[0]["M"] == "a temporary file of a training cannot be read back"
        # The connection is as before.
        assert ask(waiting.running.connection.cursor()) == "up"
    check(own, registry)


def test_an_update_of_the_extension_is_not_noticed_by_those_who_predict(own, time_of_many):
    own.server.psql("DROP DATABASE IF EXISTS old WITH (FORCE); CREATE DATABASE old")
    old = Database(own.server, "old")
    old.sql("CREATE EXTENSION pgml VERSION '3.0.0'; " + test_upgrade.TABLES + test_upgrade.DATA)
    expected = {question: old.sql(question) for question in test_upgrade.PREDICTIONS}
    found, failures, over = [], [], threading.Event()

    def ask_all(client):
        cursor = client.cursor()
        for question, answer in expected.items():
            cursor.execute(question)
            assert cursor.fetchone()[0] == answer, question
            found.append(over.is_set())

    def in_one_connection():
        with old.connect() as client:
            while not over.is_set():
                ask_all(client)

    def in_new_connections():
        while not over.is_set():
            with old.connect() as client:
                ask_all(client)

    def in_long_transactions():
        with old.connect() as client:
            while not over.is_set():
                client.cursor().execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                for _ in range(5):
                    ask_all(client)
                client.cursor().execute("COMMIT")

    def kept(work):
        try:
            work()
        except Exception as error:
            failures.append(error)

    def asked(more):
        target = len(found) + more
        wait_for(lambda: failures or len(found) >= target, "predictions go on")

    load = [in_one_connection, in_new_connections, in_long_transactions]
    threads = [threading.Thread(target=kept, args=(work,)) for work in load]
    for thread in threads:
        thread.start()
    try:
        asked(30)
        for end in ("ROLLBACK", "COMMIT"):
            old.sql(f"BEGIN; SET LOCAL lock_timeout = '30s'; {test_upgrade.UPDATE}; {end}")
            asked(30)
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    assert failures == []
    assert old.sql("SELECT extversion FROM pg_extension WHERE extname = 'pgml'") != "3.0.0"
    old.sql(f"{test_upgrade.TRAIN}; DROP EXTENSION pgml CASCADE")
    own.server.psql("DROP DATABASE old WITH (FORCE)")


def test_trainings_and_deployments_of_one_project_at_once_leave_one_that_answers(own, time_of_many):
    failures = []

    def repeat(statements):
        try:
            with own.connect() as client:
                for statement in statements:
                    client.cursor().execute(statement)
        except Exception as error:
            failures.append(error)

    again = f"SELECT pgml.train('line', NULL, 'line', 'y', 'xgboost', '{QUIET}')"
    deploy = [f"SELECT pgml.deploy({1 + i % 2})" for i in range(20)]
    threads = [threading.Thread(target=repeat, args=(work,)) for work in ([again] * 3, [again] * 3, deploy)]
    for thread in threads:
        thread.start()
    with own.connect() as client:
        answers = set()
        while any(thread.is_alive() for thread in threads):
            answers.add(ask(client.cursor()))
    assert failures == []
    assert answers <= {"up", "down"}
    wrong = "SELECT count(*) FROM pgml.deployments d JOIN pgml.models m ON m.id = d.model_id"
    assert own.sql(f"{wrong} WHERE m.project_id <> d.project_id") == "0"
    latest = own.sql("SELECT model_id FROM pgml.deployments ORDER BY id DESC LIMIT 1")
    assert own.sql(ASK) == own.sql(f"SELECT pgml.predict({latest}, ARRAY[8]::real[])")
    own.sql("DELETE FROM pgml.models WHERE id > 2; SELECT pgml.deploy(1)")


def test_a_deployment_goes_with_its_savepoint(own):
    with own.connect() as client, own.connect() as other:
        cursor = client.cursor()
        for statement in ("BEGIN", "SAVEPOINT s", "SELECT pgml.deploy(2)"):
            cursor.execute(statement)
        assert (ask(cursor), ask(other.cursor())) == ("down", "up")
        cursor.execute("ROLLBACK TO s")
        assert (ask(cursor), ask(other.cursor())) == ("up", "up")
        for statement in ("SAVEPOINT s", "SELECT pgml.deploy(2)", "RELEASE s"):
            cursor.execute(statement)
        assert (ask(cursor), ask(other.cursor())) == ("down", "up")
        cursor.execute("COMMIT")
        assert (ask(cursor), ask(other.cursor())) == ("down", "down")
        cursor.execute("SELECT pgml.deploy(1)")


def test_a_prepared_deployment_counts_when_it_commits_even_after_a_crash(own, time_of_many):
    for end, answer in (("ROLLBACK", "up"), ("COMMIT", "down")):
        with own.connect() as client:
            for statement in ("BEGIN", "SELECT pgml.deploy(2)", "PREPARE TRANSACTION 'deploying'"):
                client.cursor().execute(statement)
            assert ask(client.cursor()) == "up"
        kill_postmaster(own.server)
        with own.connect() as client:
            assert ask(client.cursor()) == "up"
            own.sql(f"{end} PREPARED 'deploying'")
            assert ask(client.cursor()) == answer
    own.sql("SELECT pgml.deploy(1)")


LONG = "SELECT count(pgml.predict('line', ARRAY[g::real])) FROM generate_series(1, 100000000) g"


@pytest.mark.parametrize("drop", ["DROP EXTENSION pgml CASCADE", "DROP DATABASE {} WITH (FORCE)"])
def test_what_is_dropped_under_a_running_query_ends_no_other(own, drop, time_of_many):
    own.server.psql("CREATE DATABASE doomed")
    doomed = Database(own.server, "doomed")
    doomed.sql("CREATE EXTENSION pgml")
    make_models(doomed.sql)
    before = own.server.psql("SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
    with contextlib.suppress(pg8000.dbapi.InterfaceError), doomed.connect() as client:
        querying = Background(client, LONG)
        running = f"SELECT state FROM pg_stat_activity WHERE pid = {querying.pid}"
        wait_for(lambda: own.sql(running) == "active", "the query runs")
        # An extension's DROP waits for the readers of its tables, a database's does not.
        dropping = threading.Thread(target=lambda: own.sql(drop.format("doomed")) if "DATABASE" in drop else
                                    doomed.sql(drop))  # fmt: skip
        dropping.start()
        dropping.join(2)
        own.sql(f"SELECT pg_cancel_backend({querying.pid})")
        querying.wait(30)
        dropping.join(30)
        assert not dropping.is_alive()
    assert own.server.psql("SELECT backend_start FROM pg_stat_activity WHERE backend_type = 'checkpointer'") == before
    if "EXTENSION" in drop:
        doomed.sql("CREATE EXTENSION pgml; DROP TABLE line")
        make_models(doomed.sql)
        assert float(doomed.sql(ASK)) > 0
        own.server.psql("DROP DATABASE doomed WITH (FORCE)")
    assert float(own.sql(ASK)) > 0


def test_a_standby_keeps_the_model_of_a_running_query_and_goes_on_as_a_primary(cluster):
    primary, replica = cluster.primary, cluster.replica
    up, down = make_models(lambda text: primary.psql(text, "app"))
    cluster.catch_up()
    with connection(replica, "app") as client, connection(replica, "app") as other:
        cursor = client.cursor()
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("DECLARE c CURSOR FOR SELECT pgml.predict('line', ARRAY[8]::real[]) FROM generate_series(1, 4)")
        cursor.execute("FETCH 2 FROM c")
        seen = cursor.fetchall()
        primary.psql(f"SELECT pgml.deploy({down})", "app")
        cluster.catch_up()
        cursor.execute("FETCH 1 FROM c")
        seen += cursor.fetchall()
        assert ask(other.cursor()) == "down"
        replica.promote()
        cursor.execute("FETCH 1 FROM c")
        seen += cursor.fetchall()
        cursor.execute("COMMIT")
        assert len(seen) == 4 and {row[0] > 0 for row in seen} == {True}
        assert (ask(cursor), ask(other.cursor())) == ("down", "down")
        cursor.execute(f"SELECT pgml.deploy({up})")
        assert (ask(cursor), ask(other.cursor())) == ("up", "up")
        cursor.execute(f"SELECT pgml.train('line', NULL, 'line', 'y', 'xgboost', '{QUIET}')")
    assert int(replica.psql("SELECT max(id) FROM pgml.models", "app")) > 2


STORED = """
    CREATE TABLE a_stored (x real, y real GENERATED ALWAYS AS (pgml.predict(1, ARRAY[x])) STORED);
    INSERT INTO a_stored SELECT g FROM generate_series(1, 10) g;
    CREATE INDEX a_by_model ON a_stored (pgml.predict(2, ARRAY[x]));
"""
BITS = "SELECT string_agg(pgml.predict('line', ARRAY[x])::text || ' ' || y::text, ',' ORDER BY x) FROM a_stored"


def restore_in_order(server, copy, path):
    """The models before what is computed by them, as docs/guide/models.md says."""
    for options in (
        ["--section=pre-data"],
        ["--section=data", "--schema=pgml"],
        ["--section=data", "--exclude-schema=pgml", "--jobs=2"],
        ["--section=post-data", "--jobs=2"],
    ):
        server.run("pg_restore", "--exit-on-error", *options, f"--dbname={copy}", str(path))


@pytest.mark.parametrize("form", ["plain", "custom", "directory"])
def test_a_dump_with_generated_columns_and_indexes_by_model_is_restored(server, database, form, tmp_path):
    make_models(database.sql)
    database.sql(STORED)
    before = database.sql(BITS)
    copy, path = f"{database.name}_copy", tmp_path / "dump"
    if form == "directory":
        # Data of this schema would be restored before that of the schema pgml.
        database.sql("CREATE SCHEMA a; ALTER TABLE a_stored SET SCHEMA a")
    server.run("pg_dump", f"--format={form}", f"--file={path}", database.name)
    server.psql(f"CREATE DATABASE {copy}")
    try:
        if form == "plain":
            server.psql(path.read_text(), copy)
        elif form == "custom":
            server.run("pg_restore", "--exit-on-error", f"--dbname={copy}", str(path))
        else:
            restore_in_order(server, copy, path)
        server.psql(f"ALTER DATABASE {copy} SET search_path = public, a")
        assert server.psql(BITS, copy) == before
        assert server.psql("SET enable_seqscan = off; SELECT count(*) FROM a_stored WHERE pgml.predict(2, ARRAY[x]) < 0",
                           copy) == "10"  # fmt: skip
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted by root alone")
@pytest.mark.parametrize("what", ["the cache", "the registry", "the spool"])
def test_a_full_disk_costs_a_statement_at_most(major, what):
    with Server(postgres.tree(major)) as server:
        server.psql("CREATE DATABASE app")
        database = Database(server, "app")
        database.sql("CREATE EXTENSION pgml")
        make_models(database.sql)
        before = database.sql(ASK)
        small = server.data / "pgml_cache" if what == "the cache" else server.home / "small"
        small.mkdir(exist_ok=True)
        user = server_user()
        size = "64k" if what == "the cache" else "512k"
        options = f"size={size},mode=700,uid={user.pw_uid},gid={user.pw_gid}"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(small)], check=False)
        if mounted.returncode != 0:
            pytest.skip("this root may not mount a file system")
        try:
            of_full_disk(database, what, small, before)
        finally:
            server.stop("immediate")
            subprocess.run(["umount", str(small)], check=True)


LARGE = "(SELECT hashint4(g) AS x, hashint4(-g) AS y FROM generate_series(1, {}) g)"


def of_full_disk(database, what, small, before):
    sql = database.sql
    large = f"SELECT pgml.train('large', 'regression', '{LARGE.format(4000)}', 'y', 'xgboost', "
    large += """'{"n_estimators": 150, "max_depth": 12}')"""
    if what == "the cache":
        sql(large)
        predict = "SELECT pgml.predict('large', 1)"
        answer = sql(predict)
        assert "could not write compiled model" in database.server.log.read_text()
        assert list(small.glob("*/tmp.*")) == []
        assert sql(ASK) == before
        assert sql(predict) == answer
        return
    sql(f"CREATE TABLESPACE small LOCATION '{small}'")
    if what == "the registry":
        sql("ALTER TABLE pgml.files ALTER data SET STORAGE EXTERNAL; ALTER TABLE pgml.files SET TABLESPACE small")
    else:
        large = "SET temp_tablespaces = small; " + large.replace(LARGE.format(4000), LARGE.format(500000))
    registry = sql(REGISTRY)
    with pytest.raises(Problem, match="No space left on device"):
        sql(large)
    assert sql(REGISTRY) == registry
    assert list(small.glob("*/pgsql_tmp/*")) == []
    assert sql(ASK) == before
    if what == "the registry":
        sql("ALTER TABLE pgml.files SET TABLESPACE pg_default")
    sql(f"SELECT pgml.train('line', NULL, 'line', 'y', 'xgboost', '{QUIET}')")


# Releases of November 2026 mark each column with an option that servers of earlier releases refuse to restore. PostgreSQL asks
# for the latest minor release of the new version before pg_upgrade; the servers that tests run on need not be of one date.
LATER_RELEASE = 'unrecognized parameter "pg_attver"'


def test_models_predict_the_same_bits_after_pg_upgrade(older, major):
    """From each older PostgreSQL that is tested to the newest one, unless the older one is of a later release."""
    old_tree, new_tree = postgres.tree(older), postgres.tree(major)
    with Server(old_tree) as old, contextlib.closing(Server(new_tree)) as new:
        old.psql("CREATE DATABASE app")
        old.psql("CREATE EXTENSION pgml", "app")
        _, down = make_models(lambda text: old.psql(text, "app"))
        old.psql(STORED, "app")
        before = old.psql(BITS, "app")
        checksums = old.psql("SHOW data_checksums")
        old.stop()
        initialise(new, checksums)
        command = [str(new_tree.program("pg_upgrade")), f"--old-bindir={old_tree.bin}", f"--new-bindir={new_tree.bin}"]
        command += [f"--old-datadir={old.data}", f"--new-datadir={new.data}", "--username=postgres"]
        command += [f"--socketdir={old.socket_folder}"]
        done = subprocess.run(
            command, cwd=new.home, capture_output=True, text=True, check=False, env=environment(), **as_server_user()
        )
        logs = "".join(path.read_text() for path in new.data.glob("pg_upgrade_output.d/*/log/pg_upgrade_dump_*.log"))
        if LATER_RELEASE in logs:
            pytest.skip(
                f"the PostgreSQL {older} here is of a later release than the PostgreSQL {major} that is to read it"
            )
        assert done.returncode == 0, done.stdout + done.stderr + logs
        new.start()
        assert new.psql(BITS, "app") == before
        assert [path.name for path in cache_files(new)] != []
        new.psql(f"SELECT pgml.deploy({down})", "app")
        assert float(new.psql(ASK, "app")) < 0
        new.psql(f"SELECT pgml.train('line', NULL, 'line', 'y', 'xgboost', '{QUIET}')", "app")
        assert int(new.psql("SELECT max(id) FROM pgml.models", "app")) > down


def initialise(server, checksums):
    """Makes the data folder with or without checksums, of which the default has changed."""
    server.create()
    has = server.run_as_server("pg_controldata", str(server.data))
    wanted = "enable" if checksums == "on" else "disable"
    if ("checksum version:           0" in has) == (wanted == "enable"):
        server.run_as_server("pg_checksums", f"--{wanted}", "--no-sync", f"--pgdata={server.data}")
