"""What is told of trainings while they run, to whom, and what ends them."""

import os
import signal
import time

import pytest

from devkit import Problem, postgres
from devkit.server import Server
from tests.conftest import Database
from tests.test_background import (
    ALICE,
    BOB,
    FOREVER,
    GATE,
    ask,
    comes_back,
    ended,
    error_of,
    gate,
    lines,
    people,
    runs,
    wait_for,
)
from tests.test_names import execute
from tests.test_training import Background

# Fixtures of another file are used by their names.
__all__ = ["gate", "lines", "people"]
SLOW = "(SELECT i AS x, i AS y, pg_sleep(0.001)::text AS z FROM generate_series(1, 1000000) i)"
ACTIVITY = "SELECT role, project, algorithm, phase, rounds_done, rounds_total, rows FROM pgml.activity"


def train(relation, project, hyperparams, more=""):
    quoted = relation.replace("'", "''")
    return f"SELECT pgml.train('{project}', 'regression', '{quoted}', 'y', 'xgboost', '{hyperparams}'{more})"


def seen_by(database, role):
    return database.sql(f"SET ROLE {role}; SELECT count(*) FROM pgml.activity")


def test_a_training_tells_what_it_is_at(lines):
    with lines.connect() as own:
        training = Background(own, train(SLOW, "slow", FOREVER))
        wait_for(lambda: lines.sql("SELECT rows > 0 FROM pgml.activity") == "t", "rows are read")
        assert lines.sql(ACTIVITY).startswith("postgres|slow|xgboost|reading rows|0||")
        assert lines.sql("SELECT pid, started_at <= now(), seconds_left FROM pgml.activity") == f"{training.pid}|t|"
        number = lines.sql("SELECT id FROM pgml.activity")
        assert lines.sql(f"SELECT pgml.cancel({number})") == "t"
        training.wait(10)
        assert training.error.args[0]["C"] == "57014"
        assert lines.sql("SELECT count(*) FROM pgml.activity") == "0"
        with pytest.raises(Problem, match=f"training {number} does not exist"):
            lines.sql(f"SELECT pgml.cancel({number})")
        # The connection goes on, and what it runs next is no training.
        training = Background(own, train("line", "trees", FOREVER.replace("}", ', "max_depth": 1}')))
        wait_for(lambda: lines.sql("SELECT rounds_done > 100 FROM pgml.activity") == "t", "trees are grown")
        assert lines.sql(ACTIVITY).startswith("postgres|trees|xgboost|training|")
        assert lines.sql("SELECT rounds_total, rows, seconds_left > 100 FROM pgml.activity") == "100000000|100|t"
        assert lines.sql("SELECT pgml.cancel(id) FROM pgml.activity") == "t"
        training.wait(10)
    # The server's own views of progress have nothing of it, and it has nothing of theirs.
    assert lines.sql("SELECT count(*) FROM pg_stat_progress_create_index") == "0"


def test_one_in_the_background_has_the_id_of_its_job(lines, gate):
    number = lines.sql(ask(GATE, "held"))
    runs(lines, number)
    wait_for(lambda: lines.sql("SELECT count(*) FROM pgml.activity") == "1", "it is shown")
    shown = "SELECT a.id = j.id, a.pid = t.pid, a.project FROM pgml.activity a, pgml.jobs j, pgml.training_jobs t"
    assert lines.sql(shown) == "t|t|held"
    assert lines.sql(f"SELECT pgml.cancel({number})") == "t"
    assert ended(lines, number) == "cancelled"
    assert lines.sql("SELECT count(*) FROM pgml.activity") == "0"


def test_only_who_may_see_the_project_sees_it_trained(lines):
    lines.sql(train("line", "known", '{"n_estimators": 1}'))
    lines.sql("SELECT pgml.grant('known', 'public', 'predict')")
    for project in ("known", "new"):
        with lines.connect() as own:
            training = Background(own, train("line", project, FOREVER))
            wait_for(lambda: seen_by(lines, "postgres") == "1", "it is shown")
            number = lines.sql("SELECT id FROM pgml.activity")
            assert seen_by(lines, ALICE) == "0"
            if project == "known":
                lines.sql(f"SELECT pgml.grant('known', '{ALICE}', 'see')")
                assert seen_by(lines, ALICE) == "1" and seen_by(lines, BOB) == "0"
            # To see is not to cancel.
            with pytest.raises(Problem, match=f"training {number} does not exist"):
                lines.sql(f"SET ROLE {ALICE}; SELECT pgml.cancel({number})")
            with pytest.raises(Problem, match=f"training {number} does not exist"):
                # Not even by those who may signal others: a superuser's.
                lines.sql(f"GRANT pg_signal_backend TO {BOB}; SET ROLE {BOB}; SELECT pgml.cancel({number})")
            lines.sql(f"REVOKE pg_signal_backend FROM {BOB}")
            assert training.ended is None
            lines.sql(f"SELECT pgml.cancel({number})")
            training.wait(10)
    with lines.connect() as own:
        own.cursor().execute(f"SET SESSION AUTHORIZATION {BOB}")
        training = Background(own, train("line", "bobs", FOREVER))
        wait_for(lambda: seen_by(lines, BOB) == "1", "it is shown")
        assert lines.sql(f"SET ROLE {BOB}; SELECT role, project FROM pgml.activity") == f"{BOB}|bobs"
        assert seen_by(lines, ALICE) == "0"
        lines.sql(f"SET ROLE {BOB}; SELECT pgml.cancel(id) FROM pgml.activity")
        training.wait(10)


def test_it_is_shown_again_after_other_commands_that_report_progress(lines):
    """A function in the query makes an index, and catches an error: both clear what the process had reported."""
    lines.sql("""
        CREATE FUNCTION busy(i int) RETURNS int LANGUAGE plpgsql AS $$
        BEGIN
            IF i = 300 THEN
                CREATE TEMP TABLE scratch AS SELECT 1 AS a;
                CREATE INDEX ON scratch (a);
            ELSIF i = 600 THEN
                BEGIN
                    PERFORM 1 / (i - 600);
                EXCEPTION WHEN division_by_zero THEN
                    NULL;
                END;
            END IF;
            PERFORM pg_sleep(CASE WHEN i > 600 THEN 0.001 ELSE 0 END);
            RETURN i;
        END $$;
    """)
    with lines.connect() as own:
        training = Background(
            own, train("(SELECT busy(i) AS x, i AS y FROM generate_series(1, 100000) i)", "b", FOREVER)
        )
        wait_for(lambda: lines.sql("SELECT rows > 700 FROM pgml.activity") == "t" or training.ended, "it is shown")
        assert training.ended is None, training.error
        lines.sql("SELECT pgml.cancel(id) FROM pgml.activity")
        training.wait(10)


def test_one_within_another_is_shown_and_then_the_outer_one_again(lines):
    lines.sql("""
        CREATE FUNCTION trains(i int) RETURNS int LANGUAGE plpgsql AS $$
        BEGIN
            IF i = 1 THEN
                PERFORM pgml.train('inner', 'regression', 'line', 'y', 'xgboost', '{"n_estimators": 1}');
            END IF;
            PERFORM pg_sleep(0.001);
            RETURN i;
        END $$;
    """)
    with lines.connect() as own:
        query = "(SELECT trains(i) AS x, i AS y FROM generate_series(1, 100000) i)"
        training = Background(own, train(query, "outer", FOREVER))
        wait_for(lambda: lines.sql("SELECT rows > 300 FROM pgml.activity") == "t" or training.ended, "it reads")
        assert lines.sql("SELECT project FROM pgml.activity") == "outer"
        lines.sql("SELECT pgml.cancel(id) FROM pgml.activity")
        training.wait(10)
        assert training.error.args[0]["C"] == "57014"


def test_other_databases_and_dead_processes_are_not_shown(major):
    with Server(postgres.tree(major), {"restart_after_crash": "on"}) as server:
        for name in ("app", "other"):
            server.psql(f"CREATE DATABASE {name}")
            server.psql(
                "CREATE EXTENSION pgml; CREATE TABLE line AS SELECT i AS x, i AS y FROM generate_series(1, 40) i", name
            )
        app, other = Database(server, "app"), Database(server, "other")
        with app.connect() as own:
            training = Background(own, train("line", "p", FOREVER))
            wait_for(lambda: app.sql("SELECT count(*) FROM pgml.activity") == "1", "it is shown")
            assert other.sql("SELECT count(*) FROM pgml.activity") == "0"
            with pytest.raises(Problem, match="does not exist"):
                other.sql("SELECT pgml.cancel(1)")
            os.kill(training.pid, signal.SIGKILL)
            training.wait(30)
        comes_back(server)
        assert app.sql("SELECT count(*) FROM pgml.activity") == "0"


def test_a_failed_training_is_not_shown_any_more(lines):
    with lines.connect() as own:
        cursor = own.cursor()
        execute(cursor, "BEGIN", "SAVEPOINT a")
        failing = "(SELECT 1/(x - x) AS x, y FROM line)"
        assert error_of(cursor, train(failing, "p", FOREVER)) == ("22012", "division by zero")
        execute(cursor, "ROLLBACK TO a")
        cursor.execute("SELECT count(*) FROM pgml.activity")
        assert cursor.fetchone()[0] == 0
        cursor.execute(train("line", "p", '{"n_estimators": 1}'))
        time.sleep(0.1)
        assert lines.sql("SELECT count(*) FROM pgml.activity") == "0"
        cursor.execute("COMMIT")
