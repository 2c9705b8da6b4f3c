"""What a caller may ask for costs a bounded amount of time and memory, ends on a cancel, and never ends the server.

Everything here is done by a role without any grant.
"""

import contextlib
import subprocess
from pathlib import Path

import pg8000.dbapi
import pytest

from devkit.client import connection
from devkit.places import as_server_user
from tests.test_names import make_models

STRANGER = "pgml_test_stranger"


@pytest.fixture
def stranger(database):
    """A cursor of a role without any grant, with a timeout that ends what takes longer than it should."""
    database.sql(f"DROP ROLE IF EXISTS {STRANGER}; CREATE ROLE {STRANGER}")
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(f"SET SESSION AUTHORIZATION {STRANGER}")
        cursor.execute("SET statement_timeout = '10s'")
        yield cursor
        with contextlib.suppress(pg8000.dbapi.DatabaseError):
            cursor.execute("RESET SESSION AUTHORIZATION")
    database.sql(f"DROP ROLE {STRANGER}")


def refused(cursor, statement):
    """The SQLSTATE and the message of a statement's error."""
    with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        cursor.execute(statement)
    fields = raised.value.args[0]
    return fields["C"], fields["M"]


def limit_memory(pid, size):
    """Lets a backend have so many bytes of address space, as a machine with strict overcommit would."""
    subprocess.run(["prlimit", "--pid", str(pid), f"--as={size}"], check=True, **as_server_user())


# What takes a project's name, a query, or JSON.
CALLS = {
    "predict": "pgml.predict({long}, ARRAY[1, 2])",
    "predict one by one": "pgml.predict({long}, 1, 2)",
    "predict_proba": "pgml.predict_proba({long}, ARRAY[1, 2]::real[])",
    "predict_label": "pgml.predict_label({long}, ARRAY[1, 2]::real[])",
    "predict_batch": "pgml.predict_batch({long}, ARRAY[1, 2]::real[])",
    "predict_agg": "pgml.predict_agg({long}, 1, 2)",
    "explain": "pgml.explain({long}, ARRAY[1, 2])",
    "explain_batch": "pgml.explain_batch({long}, ARRAY[1, 2]::real[])",
    "deploy": "pgml.deploy({long}, 'best_score')",
    "train": "pgml.train({long}, 'regression', 'line', 'y', 'xgboost')",
    "task": "pgml.train('line', {long}, 'line', 'y', 'xgboost')",
    "label": "pgml.train('line', 'regression', 'line', {long}, 'xgboost')",
    "relation": "pgml.train('line', 'regression', {long}, 'y', 'xgboost')",
    "hyperparams": "pgml.train('line', hyperparams => jsonb_build_object({long}, 1), algorithm => 'xgboost')",
    "data set": "pgml.load_dataset({long})",
    "kwargs": "pgml.load_dataset('iris', kwargs => jsonb_build_object({long}, 1))",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_long_name_is_refused_at_once(database, stranger, call):
    make_models(database.sql)
    state, message = refused(stranger, "SELECT " + CALLS[call].format(long="repeat('x', 8000000)"))
    assert state == "54000" and "has 80000" in message and len(message) < 200, message


def test_a_name_that_does_not_exist_costs_no_more_where_there_are_many_projects(database, stranger):
    database.sql("""
        INSERT INTO pgml.projects (name, task)
        SELECT 'customer churn model ' || g, 'regression' FROM generate_series(1, 20000) g
    """)
    for name in ("repeat('x', 2600)", "'customer chrun model'", "repeat('churn ', 20)"):
        state, message = refused(stranger, f"SELECT pgml.predict({name}, 1, 2)")
        assert state == "42704", message


def test_a_name_of_gigabytes_does_not_end_the_server_for_lack_of_memory(database, server):
    database.sql(f"DROP ROLE IF EXISTS {STRANGER}; CREATE ROLE {STRANGER}")
    make_models(database.sql)
    with connection(server, database.name) as own:
        cursor = own.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
        cursor.execute(f"SET SESSION AUTHORIZATION {STRANGER}")
        # The text itself, twice in SQL and once on its way, fits; many times its length does not.
        limit_memory(pid, 1 << 30)
        for call in CALLS.values():
            state, message = refused(cursor, "SELECT " + call.format(long="repeat('x', 20000000)"))
            assert state in ("54000", "53200"), message
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone()[0] == pid
        cursor.execute("RESET SESSION AUTHORIZATION")
    database.sql(f"DROP ROLE {STRANGER}")


def address_space(pid):
    """Bytes of address space that a backend has."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmSize:"))) * 1024


def started(server):
    """When the postmaster began to take connections: a crash of a backend has it begin anew."""
    return server.psql("SELECT pg_postmaster_start_time(), (SELECT backend_start FROM pg_stat_activity "
                       "WHERE backend_type = 'checkpointer')")  # fmt: skip


TRAINING = """SELECT pgml.train('large', 'regression', '(SELECT i AS a, hashint4(i) AS b, hashint4(-i) AS c, i % 1000 AS y
    FROM generate_series(1, 60000) i)', 'y', 'xgboost', '{{"n_estimators": 20, "max_depth": 12{}}}')"""
SHORT = {
    "training": TRAINING.format(""),
    "training on all values": TRAINING.format(', "tree_method": "approx"'),
    "compiling": "SELECT pgml.predict('large', 1, 2, 3)",
    "explaining": "SELECT count(*) FROM pgml.explain('large', 1, 2, 3)",
    "a batch": "SELECT count(*) FROM pgml.predict_batch('large', array_fill(1::real, ARRAY[6000000]))",
    "an aggregate": "SELECT array_length(pgml.predict_agg('large', i, i, i), 1) FROM generate_series(1, 6000000) i",
    "dense algebra": "SELECT pgml.train('dense', 'regression', '(SELECT array_agg(sin(i * j)) AS a, i AS y "
    "FROM generate_series(1, 500) i, generate_series(1, 400) j GROUP BY i)', 'y', 'linear')",
    "text": "SELECT pgml.train('text', 'regression', '(SELECT md5(i::text) || repeat(''-'', 300) AS a, i AS y "
    "FROM generate_series(1, 60000) i)', 'y', 'xgboost', '{\"n_estimators\": 1}')",
}


def outcome_with(server, database, megabytes, statement):
    """The SQLSTATE of a statement in a fresh connection that may take so much more memory, or "gone" with it."""
    for path in (server.data / "pgml_cache").glob("*/*.v*"):
        path.unlink()
    with connection(server, database.name) as own:
        cursor = own.cursor()
        # Loaded, with what the first call of each takes.
        cursor.execute("SELECT pg_backend_pid(), pgml.version(), pgml.xgboost_version()")
        pid = cursor.fetchone()[0]
        limit_memory(pid, address_space(pid) + int(megabytes * (1 << 20)))
        try:
            cursor.execute(statement)
            state = "00000"
        except pg8000.dbapi.DatabaseError as error:
            state = error.args[0]["C"]
            assert state == "53200", error
        except pg8000.dbapi.InterfaceError:
            return "gone"
        with contextlib.suppress(pg8000.dbapi.InterfaceError):
            cursor.execute("SELECT 1")
        return state


@pytest.mark.parametrize("what", SHORT)
def test_a_lack_of_memory_ends_a_statement_or_its_connection_and_nothing_else(database, server, what):
    database.sql(TRAINING.format(""))
    before = started(server)
    # From nothing to plenty: each step meets the lack at another place.
    sizes = (1, 3, 6, 10, 15, 20, 30, 40, 60, 80, 120, 160, 250, 400, 700, 1500)
    outcomes = [outcome_with(server, database, megabytes, SHORT[what]) for megabytes in sizes]
    assert started(server) == before, f"{outcomes}\n{server.log_tail()}"
    assert outcomes[-1] == "00000" and "53200" in outcomes, outcomes


@pytest.mark.parametrize("what", ["compiling", "explaining"])
def test_a_lack_of_the_last_kilobytes_ends_a_statement_or_its_connection_and_nothing_else(database, server, what):
    """Where an ERROR finds so little memory that its own copy, on its way through Rust, does not fit."""
    database.sql(TRAINING.format(""))
    before = started(server)
    outcomes = [outcome_with(server, database, step / 32, SHORT[what]) for step in range(1, 80)]
    assert started(server) == before, f"{outcomes}\n{server.log_tail()}"
    assert "53200" in outcomes, outcomes
