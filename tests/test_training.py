"""Trainings that are stopped, that fail, and that are done again; and their models beside XGBoost's own predictions."""

import contextlib
import random
import socket
import threading
import time
from pathlib import Path

import numpy
import pg8000.dbapi
import pytest
import xgboost

from devkit import postgres
from devkit.server import Server

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off", "pgml.strict": "on"}

REGISTRY = "SELECT " + " + ".join(
    f"(SELECT count(*) FROM pgml.{table})" for table in ("projects", "snapshots", "models", "files", "deployments")
)
TABLES = "SELECT count(*) FROM pg_class WHERE relnamespace = 'pgml'::regnamespace AND relname LIKE 'snapshot\\_%'"
FOREVER = '{"n_estimators": 100000000, "nthread": 1}'


def temporary_files(server):
    """Temporary files that backends have open, or have left behind."""
    return [path for path in (server.data / "base" / "pgsql_tmp").glob("*") if path.is_file()]


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


def make_numbers(sql, rows):
    """A table of ten features, wide enough that reading, sorting into bins and each round take a while."""
    columns = ", ".join(f"hashint4(i * 10 + {k})::real AS f{k}" for k in range(10))
    sql(f"CREATE TABLE numbers AS SELECT {columns}, (i % 1000)::real AS y FROM generate_series(1, {rows}) i")


class Background:
    """A statement that runs in a thread, in a connection of its own that is kept."""

    def __init__(self, connection, statement):
        self.connection = connection
        cursor = connection.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        self.pid = cursor.fetchone()[0]
        self.error = None
        self.ended = None
        self._thread = threading.Thread(target=self._run, args=(cursor, statement))
        self._thread.start()

    def _run(self, cursor, statement):
        try:
            cursor.execute(statement)
        except Exception as error:
            self.error = error
        self.ended = time.monotonic()

    def wait(self, seconds):
        """Waits for the statement's end, which is to come within so many seconds."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"the statement still runs after {seconds} s"


def train(relation, hyperparams, more=""):
    return f"SELECT pgml.train('long', 'regression', '{relation}', 'y', 'xgboost', '{hyperparams}' {more})"


# What is going on when the signal comes: rows are read, the library reads them, or it grows trees.
MOMENTS = {
    "reading": (train("(SELECT i AS x, i AS y FROM generate_series(1, 1000000000) i)", FOREVER), 0.3),
    "a_query_that_sleeps": (
        train("(SELECT i AS x, i AS y, pg_sleep(9)::text FROM generate_series(1, 9) i)", FOREVER),
        0,
    ),
    "soon_after_the_rows": (train("numbers", FOREVER), 0.0),
    "boosting": (train("numbers", FOREVER), 1.5),
    "boosting_a_kept_snapshot": (train("numbers", FOREVER, ", materialize_snapshot => true"), 1.0),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_stopped_training_ends_soon_and_leaves_nothing(database, moment, function):
    statement, delay = MOMENTS[moment]
    logged = len(database.server.log.read_bytes())
    make_numbers(database.sql, 200_000)
    with database.connect() as connection:
        training = Background(connection, statement)
        if moment == "a_query_that_sleeps":
            activity = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {training.pid}"
            wait_for(lambda: database.sql(activity) == "PgSleep", "the query sleeps")
        else:
            wait_for(lambda: temporary_files(database.server) or training.ended, "a temporary file appears")
        time.sleep(delay)
        assert training.ended is None, training.error
        begun = time.monotonic()
        database.sql(f"SELECT {function}({training.pid})")
        training.wait(30)
        assert training.ended - begun < 2
        if function == "pg_cancel_backend":
            assert isinstance(training.error, pg8000.dbapi.DatabaseError)
            assert training.error.args[0]["C"] == "57014"
            cursor = connection.cursor()
            cursor.execute("SELECT pg_backend_pid()")
            assert cursor.fetchone()[0] == training.pid
        else:
            wait_for(lambda: not Path(f"/proc/{training.pid}").exists(), "the backend ends")
        assert database.sql(REGISTRY) == "0"
        assert database.sql(TABLES) == "0"
        wait_for(lambda: not temporary_files(database.server), "temporary files go", 2)
    # The postmaster restarts all backends when one dies of what it should not: this one would be new.
    assert b"was terminated by signal" not in database.server.log.read_bytes()[logged:]


def test_a_look_for_the_client_ends_no_training(database):
    """client_connection_check_interval raises a flag that is no reason to stop."""
    make_numbers(database.sql, 50_000)
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SET client_connection_check_interval = '20ms'")
        cursor.execute(train("numbers", '{"n_estimators": 30, "nthread": 1}'))
    assert database.sql("SELECT count(*) FROM pgml.models") == "1"


def test_a_training_ends_when_its_client_has_gone(database):
    make_numbers(database.sql, 200_000)
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SET client_connection_check_interval = '100ms'")
        training = Background(connection, train("numbers", FOREVER))
        wait_for(lambda: temporary_files(database.server), "a temporary file appears")
        time.sleep(1)
        connection._usock.shutdown(socket.SHUT_RDWR)
        wait_for(lambda: not Path(f"/proc/{training.pid}").exists(), "the backend ends", 3)
        training.wait(10)
    assert database.sql(REGISTRY) == "0"
    wait_for(lambda: not temporary_files(database.server), "temporary files go", 2)


FAILURES = {
    "a NULL label in the last row": ("(SELECT * FROM numbers UNION ALL SELECT 1,1,1,1,1,1,1,1,1,1, NULL)", "22004"),
    "an infinity in the last row": (
        "(SELECT * FROM numbers UNION ALL SELECT 1,1,1,1,1,1,1,1,1, ''Infinity'', 1)",
        "22003",
    ),
    "an ERROR in the last row": (
        "(SELECT *, 1 / (n - 20000) AS z FROM (SELECT *, row_number() OVER () AS n FROM numbers) r)",
        "22012",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_training_leaves_no_temporary_file(database, failure):
    relation, state = FAILURES[failure]
    make_numbers(database.sql, 20_000)
    with database.connect() as connection:
        cursor = connection.cursor()
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            cursor.execute(train(relation, '{"n_estimators": 1}'))
        assert raised.value.args[0]["C"] == state
        assert temporary_files(database.server) == []
        # In a transaction that goes on after a savepoint, too: the file must not live until its end.
        cursor.execute("BEGIN")
        cursor.execute("SAVEPOINT before")
        with pytest.raises(pg8000.dbapi.DatabaseError):
            cursor.execute(train(relation, '{"n_estimators": 1}'))
        cursor.execute("ROLLBACK TO before")
        assert temporary_files(database.server) == []
        cursor.execute(train("numbers", '{"n_estimators": 1}'))
        assert temporary_files(database.server) == []
        cursor.execute("ROLLBACK")
    assert database.sql(REGISTRY) == "0"


def test_a_training_honours_temp_file_limit(database):
    make_numbers(database.sql, 100_000)
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SET temp_file_limit = '1MB'")
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            cursor.execute(train("numbers", '{"n_estimators": 1}'))
        assert raised.value.args[0]["C"] == "53400"
    assert temporary_files(database.server) == []


def anonymous_memory(pid):
    """Bytes of a process's own memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon:"))) * 1024


def test_failed_trainings_do_not_add_up_in_memory(database):
    make_numbers(database.sql, 40_000)
    failing = [train(relation, '{"n_estimators": 1}') for relation, _ in list(FAILURES.values())[:2]]
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]

        def fail(times):
            for _ in range(times):
                for statement in failing:
                    with pytest.raises(pg8000.dbapi.DatabaseError):
                        cursor.execute(statement)
                # Somewhere between the first row and the hundredth tree.
                cursor.execute(f"SET statement_timeout = {random.randint(20, 700)}")
                with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
                    cursor.execute(train("numbers", FOREVER))
                assert raised.value.args[0]["C"] == "57014"
                cursor.execute("RESET statement_timeout")

        fail(4)
        before = anonymous_memory(pid)
        fail(10)
        # Thirty trainings of a matrix, a spool's buffers or a booster each would be far more than this.
        assert anonymous_memory(pid) - before < 8 << 20


DIGEST = "SELECT encode(sha256(data), 'hex') FROM pgml.files WHERE path <> 'remembered_rows' ORDER BY id DESC LIMIT 1"
DRAWN = '{"n_estimators": 5, "subsample": 0.6, "colsample_bytree": 0.7, "seed": 11, "nthread": 2}'


def test_the_same_data_and_seed_give_the_same_bytes(database):
    sql = database.sql
    # Above a quarter of shared_buffers, so that scans of it join each other.
    sql("CREATE TABLE numbers (f0 real, f1 real, y real) WITH (fillfactor = 15)")
    sql("INSERT INTO numbers SELECT hashint4(i), hashint4(-i), i % 100 FROM generate_series(1, 150000) i")
    sql("ANALYZE numbers")
    with database.connect() as scanning, database.connect() as connection:
        cursor, scan = connection.cursor(), scanning.cursor()

        def digest(*settings):
            for setting in settings:
                cursor.execute(f"SET {setting}")
            cursor.execute(train("numbers", DRAWN))
            cursor.execute("RESET ALL")
            cursor.execute(DIGEST)
            return cursor.fetchone()[0]

        first = digest()
        assert digest() == first
        cursor.execute(train("numbers", DRAWN.replace("11", "12")))
        cursor.execute(DIGEST)
        assert cursor.fetchone()[0] != first

        scan.execute("BEGIN")
        scan.execute("DECLARE half CURSOR FOR SELECT * FROM numbers")
        scan.execute("MOVE 70000 FROM half")
        cursor.execute("SELECT ctid::text FROM numbers LIMIT 1")
        assert cursor.fetchone()[0] != "(0,1)", "scans of the table do not join each other, so this tests nothing"
        assert digest("synchronize_seqscans = on") == first
        scan.execute("ROLLBACK")

        parallel = ["max_parallel_workers_per_gather = 4", "parallel_setup_cost = 0", "parallel_tuple_cost = 0"]
        assert digest(*parallel, "min_parallel_table_scan_size = 0") == first


SOURCE = """
CREATE TABLE wide AS SELECT
    i AS id,
    CASE WHEN i % 7 = 0 THEN NULL WHEN i % 50 = 1 THEN 'Infinity' WHEN i % 50 = 2 THEN '-Infinity'
        ELSE hashint4(i)::float8 / 1e6 END::float4 AS a,
    CASE WHEN i % 11 = 0 THEN NULL WHEN i % 50 = 3 THEN 1e300 ELSE sin(i) * 1e3 END::float8 AS b,
    (hashint4(i * 3) % 100)::int AS c,
    CASE WHEN i % 5 <> 0 THEN (ARRAY['red', 'green', 'blue', 'Grün', '', 'z'])[1 + i % 6] END AS d,
    hashint4(i * 5)::numeric / 1e9 AS e,
    i % 2 = 0 AS f
FROM generate_series(1, 3000) i
"""
# Infinities are for predictions only.
FINITE = "FROM wide WHERE coalesce(abs(a), 0) < 1e30 AND coalesce(abs(b), 0) < 1e30"
TARGETS = {
    "positive": "abs(c)",
    "regression": "coalesce(a, 7) + c * coalesce(length(d), 3) + coalesce(b, 0)",
    "binary": "(c > 10) <> (coalesce(d, '''') = ''red'')",
    "classes": "(abs(c) + length(coalesce(d, ''abc''))) % 5",
}
MODELS = {
    "regression": ("regression", "regression", '{"n_estimators": 40}'),
    "deep": ("regression", "regression", '{"n_estimators": 20, "max_depth": 14, "min_child_weight": 0}'),
    "forest": ("regression", "regression", '{"num_parallel_tree": 20}'),
    "dart": ("regression", "regression", '{"n_estimators": 20, "booster": "dart", "rate_drop": 0.4}'),
    "early": ("regression", "regression", '{"n_estimators": 500, "early_stopping_rounds": 2}'),
    "poisson": ("regression", "positive", '{"n_estimators": 20, "objective": "count:poisson"}'),
    "binary": ("classification", "binary", '{"n_estimators": 40}'),
    "classes": ("classification", "classes", '{"n_estimators": 10}'),
    "vector_leaves": ("classification", "classes", '{"n_estimators": 10, "multi_strategy": "multi_output_tree"}'),
}
FEATURES = ["a", "b", "c", "d", "e", "f"]
# The library has no vector leaves with categorical columns.
NUMBERS = ["a", "b", "c", "e", "f"]


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_xgboosts_own_bit_for_bit(database, name):
    task, target, hyperparams = MODELS[name]
    algorithm = "xgboost_random_forest" if name == "forest" else "xgboost"
    database.sql(SOURCE)
    features = NUMBERS if name == "vector_leaves" else FEATURES
    columns = ", ".join(features)
    with database.connect() as connection:
        cursor = connection.cursor()
        relation = f"(SELECT {columns}, {TARGETS[target]} AS y {FINITE})"
        cursor.execute(f"SELECT pgml.train('p', '{task}', '{relation}', 'y', '{algorithm}', '{hyperparams}')")
        cursor.execute("SELECT string_agg(data, '' ORDER BY part) FROM pgml.files WHERE path <> 'remembered_rows'")
        booster = xgboost.Booster(model_file=bytearray(cursor.fetchone()[0]))
        cursor.execute(f"SELECT {columns} FROM wide ORDER BY id")
        rows = cursor.fetchall()
        # Text categories are numbered in the order of their bytes.
        cursor.execute(f'SELECT DISTINCT d COLLATE "C" {FINITE} AND d IS NOT NULL ORDER BY 1')
        codes = {category: code for code, (category,) in enumerate(cursor.fetchall())}

        def number(value):
            return numpy.nan if value is None else codes[value] if isinstance(value, str) else float(value)

        with numpy.errstate(over="ignore"):
            matrix = numpy.array([[number(value) for value in row] for row in rows]).astype(numpy.float32)
        assert numpy.isnan(matrix).any() and numpy.isposinf(matrix).any() and numpy.isneginf(matrix).any()
        raw = booster.inplace_predict(matrix)
        if task == "regression":
            wanted = raw
        elif raw.ndim == 1:
            wanted = (raw > 0.5).astype(numpy.float32)
        else:
            wanted = raw.argmax(axis=1).astype(numpy.float32)
        assert len(numpy.unique(wanted)) > 1

        def ask(query):
            cursor.execute(query)
            return cursor.fetchall()

        def same(answers, values, how):
            bits = numpy.array(answers, dtype=numpy.float32).view(numpy.uint32)
            assert numpy.array_equal(bits, numpy.ascontiguousarray(values).view(numpy.uint32)), how

        whole = [row for (row,) in ask("SELECT pgml.predict('p', w) FROM wide w ORDER BY id")]
        same(whole, wanted, "by row")
        scalars = ask(f"SELECT pgml.predict('p', {columns}) FROM wide ORDER BY id")
        same([row for (row,) in scalars], wanted, "by scalars")
        [(gathered,)] = ask("SELECT pgml.predict_agg('p', w ORDER BY id) FROM wide w")
        same(gathered, wanted, "predict_agg")
        in_sql = {
            # A cast to real refuses what is too large for it.
            "b": "CASE WHEN b < 1e38 THEN b WHEN b IS NOT NULL THEN 'Infinity' END",
            "d": f'array_position(ARRAY{list(codes)}, d COLLATE "C") - 1',
            "f": "f::int",
        }
        array = "ARRAY[" + ", ".join(in_sql.get(feature, feature) for feature in features) + "]"
        single = ask(f"SELECT pgml.predict('p', {array}::float8[]) FROM wide ORDER BY id")
        same([row for (row,) in single], wanted, "by array")
        batch = ask(f"SELECT pgml.predict_batch('p', (SELECT array_agg({array}::real[] ORDER BY id) FROM wide))")
        same([row for (row,) in batch], wanted, "predict_batch")
        if task == "classification":
            probabilities = [row for (row,) in ask("SELECT pgml.predict_proba('p', w) FROM wide w ORDER BY id")]
            both = raw if raw.ndim == 2 else numpy.stack([numpy.float32(1) - raw, raw], axis=1)
            same(probabilities, both, "predict_proba")


def test_concurrent_trainings_of_one_project_each_leave_a_model(database):
    make_numbers(database.sql, 2_000)
    with contextlib.ExitStack() as stack:
        statement = train("numbers", '{"n_estimators": 3}')
        trainings = [Background(stack.enter_context(database.connect()), statement) for _ in range(4)]
        for training in trainings:
            training.wait(60)
            assert training.error is None
    assert database.sql("SELECT count(*) FROM pgml.projects") == "1"
    assert (
        database.sql("SELECT count(*), count(DISTINCT digest) FROM pgml.files WHERE path <> 'remembered_rows'") == "4|1"
    )
    assert database.sql("SELECT count(*) >= 1 FROM pgml.deployments") == "t"


def test_rows_that_a_project_kept_go_with_it_unless_they_are_in_use(database):
    make_numbers(database.sql, 100)
    keep = "SELECT pgml.train('{}', 'regression', 'numbers', 'y', 'linear', materialize_snapshot => true)"
    database.sql(keep.format("first"))
    database.sql("SELECT pgml.train('first', algorithm => 'ridge', automatic_deploy => false)")
    models = database.sql("SELECT id FROM pgml.models ORDER BY id").split()
    assert database.sql("SELECT count(DISTINCT snapshot_id) FROM pgml.models") == "1"
    database.sql(f"SELECT pgml.delete_model({models[0]})")
    assert database.sql(TABLES) == "1"
    database.sql("SELECT pgml.delete_project('first')")
    assert database.sql(TABLES) == "0"
    database.sql(keep.format("second"))
    table = database.sql("SELECT 'pgml.snapshot_' || max(id) FROM pgml.snapshots")
    with database.connect() as reader:
        reader.autocommit = False
        reader.cursor().execute(f"SELECT count(*) FROM {table}")
        database.sql("SELECT pgml.delete_project('second')")
    assert database.sql(TABLES) == "1" and database.sql("SELECT count(*) FROM pgml.snapshots") == "0"
    # What the caller made by name is the caller's.
    database.sql("SELECT pgml.snapshot('numbers', 'y')")
    named = database.sql("SELECT 'pgml.snapshot_' || max(id) FROM pgml.snapshots")
    database.sql(f"SELECT pgml.train('third', 'regression', '{named}', 'y', 'linear')")
    database.sql("SELECT pgml.delete_project('third')")
    assert database.sql(f"SELECT count(*) FROM {named}") == "100"


@pytest.mark.parametrize(("said", "expected"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_threads_sleep_while_they_wait_unless_the_server_is_told_otherwise(major, monkeypatch, said, expected):
    # OpenMP tells the server's log what it goes by, when it is loaded.
    monkeypatch.setenv("OMP_DISPLAY_ENV", "true")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if said:
        monkeypatch.setenv("OMP_WAIT_POLICY", said)
    with Server(postgres.tree(major)) as server:
        server.psql("CREATE EXTENSION pgml")
        server.psql(
            "CREATE TABLE numbers AS SELECT i AS a, i % 7 AS y FROM generate_series(1, 1000) i;"
            "SELECT * FROM pgml.train('waiting', 'regression', 'numbers', 'y', 'xgboost', hyperparams => '{\"nthread\": 2}')"
        )
        assert f"OMP_WAIT_POLICY = '{expected}'" in server.log_tail(1000)
