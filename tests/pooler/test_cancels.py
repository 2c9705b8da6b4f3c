"""A cancel request strikes its own client's statement, or nothing."""

import contextlib
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from devkit.server import SUPERUSER
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, parse, query

# A read that lasts for as long as another holds its lock, and a write that does.
GROUND = """
CREATE OR REPLACE FUNCTION held(k int, what text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(k); RETURN what; END $$;
DROP TABLE IF EXISTS struck; CREATE TABLE struck (who text);
"""
LOCK = 4711
READ = f"SELECT held({LOCK}, 'x') AS held"
WRITE = f"INSERT INTO struck SELECT held({LOCK}, 'x')"
SLOW = "SELECT pg_sleep(0.3), 'next'"
FORMS = {"read": [query(READ)], "extended write": [parse("", WRITE), bind(""), EXECUTE, SYNC]}
ALL_FORMS = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(params=["pipelining", "without"])
def pipelining(request):
    """Whether reads of several clients share a connection."""
    return request.param == "pipelining"


@pytest.fixture
def ground(server):
    """A connection straight to the server, which has what these tests use."""
    with direct(server) as looker:
        looker.sql(GROUND)
        yield looker


@contextlib.contextmanager
def locked(server):
    """While this lasts, statements of the forms go on."""
    with direct(server) as locker:
        assert locker.sql(f"SELECT pg_advisory_lock({LOCK})") == "T D: C:SELECT 1 Z:I"
        yield locker


def blocked(looker):
    """How many statements wait for the lock."""
    return int(
        looker.value(f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = {LOCK}")
    )


def cancelled(answer):
    """Whether a unit was answered by 57014; what comes before the rows may have been sent."""
    return re.fullmatch(r"((1|2|T) )*E:57014 Z:[IE]", answer) is not None


def known_as_reads(*clients):
    """Runs reads until they go down lanes: the catalog has been read, and they are no new ones."""
    for _ in range(4):
        for client in clients:
            assert client.sql("SELECT held(1, 'x') AS held") == "T D:x C:SELECT 1 Z:I"
            assert client.sql("SELECT 'y' AS other") == "T D:y C:SELECT 1 Z:I"


def test_a_cancelled_read_is_answered_at_once_and_strikes_nobody_behind_it(server, ground):
    # What stands behind a stalled read is asked again elsewhere after this time.
    settings = {"default_pool_size": 2, "pipeline_connections": 1, "pipeline_stall": 0.3}
    with Pooler(server, **settings) as pooler, contextlib.ExitStack() as stack:
        x, *others = (stack.enter_context(Raw(pooler.port)) for _ in range(5))
        pooler.wait_for_catalog()
        known_as_reads(x, *others)
        with locked(server):
            x.send(query(READ))
            wait_until(lambda: blocked(ground) == 1)
            for number, other in enumerate(others):
                other.send(query(f"SELECT 'of {number}' AS other"))
            stack.enter_context(x.ask_to_cancel(pooler.port))
            assert cancelled(x.ask())
            for number, other in enumerate(others):
                assert other.ask() == f"T D:of {number} C:SELECT 1 Z:I"
            # The server is told when nobody else's statement is on that connection.
            wait_until(lambda: blocked(ground) == 0)
        for client in (x, *others):
            assert client.sql("SELECT 'z' AS other") == "T D:z C:SELECT 1 Z:I"


def test_a_server_is_told_when_the_last_client_has_cancelled_too(server, ground):
    """Until then the request would strike a statement of those behind it."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipeline_stall=20))
        x, y = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        pooler.wait_for_catalog()
        known_as_reads(x, y)
        with locked(server):
            x.send(query(READ))
            wait_until(lambda: blocked(ground) == 1)
            y.send(query("SELECT 'of y' AS other"))
            wait_until(lambda: [row["cl_active"] for row in pooler.show("POOLS") if row["user"] == SUPERUSER] == ["2"])
            stack.enter_context(x.ask_to_cancel(pooler.port))
            assert cancelled(x.ask())
            time.sleep(0.3)
            assert blocked(ground) == 1
            stack.enter_context(y.ask_to_cancel(pooler.port))
            assert cancelled(y.ask())
            wait_until(lambda: blocked(ground) == 0)
        for client in (x, y):
            assert client.sql("SELECT 'z' AS other") == "T D:z C:SELECT 1 Z:I"


def test_a_cancelled_read_whose_rows_have_come_is_ended_by_its_server(server, ground):
    long = "SELECT held({}, repeat('x', 1000)) AS held FROM generate_series(1, {}) UNION ALL SELECT held({}, 'x')"
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=2, pipeline_connections=1, pipeline_stall=20))
        x, y = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        pooler.wait_for_catalog()
        known_as_reads(x, y)
        for _ in range(4):
            assert x.ask(query(long.format(1, 1, 1))).endswith("C:SELECT 2 Z:I")
        with locked(server):
            x.send(query(long.format(1, 200, LOCK)))
            wait_until(lambda: blocked(ground) == 1)
            assert x.next()[0] == b"T"
            y.send(query("SELECT 'of y' AS other"))
            stack.enter_context(x.ask_to_cancel(pooler.port))
            assert x.ask().endswith("x E:57014 Z:I")
            assert y.ask() == "T D:of y C:SELECT 1 Z:I"
            wait_until(lambda: blocked(ground) == 0)


def test_a_cancel_request_that_a_server_does_not_take_is_given_up(server, ground):
    with Pooler(server, cancel_wait_timeout="0.5") as pooler, Raw(pooler.port) as x:
        with locked(server):
            x.send(query(WRITE))
            wait_until(lambda: blocked(ground) == 1)
            os.kill(server.pid, signal.SIGSTOP)
            try:
                x.cancel(pooler.port)
            finally:
                os.kill(server.pid, signal.SIGCONT)
        found = x.ask()
        assert cancelled(found) or found == "C:INSERT 0 1 Z:I"


@ALL_FORMS
def test_a_cancel_spares_what_its_client_has_sent_behind(server, ground, pipelining, form):
    # Each unit is struck by one request at most, as with a server: those behind it begin when the server has the request.
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        x = stack.enter_context(Raw(pooler.port))
        with locked(server):
            x.send(*FORMS[form], *[query(SLOW)] * 3)
            wait_until(lambda: blocked(ground) == 1)
            request = stack.enter_context(x.ask_to_cancel(pooler.port))
            answers = [x.ask() for _ in range(4)]
        assert cancelled(answers[0])
        assert answers[1:] == ["T D:|next C:SELECT 1 Z:I"] * 3
        assert request.is_closed()


@ALL_FORMS
def test_a_cancel_that_a_server_gets_before_the_statement_is_sent_again(server, ground, pipelining, form):
    # PostgreSQL ignores a cancel request that comes while its process waits for a statement.
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        x = stack.enter_context(Raw(pooler.port))
        stack.enter_context(locked(server))
        # A request counts as early for half a second, which a busy machine may need for all of this.
        while (took := early_request(pooler, x, form, interrupts=form != "read" or not pipelining)) >= 0.4:
            with x.ask_to_cancel(pooler.port) as request:
                assert request.is_closed()
            x.ask()
            x.sql("ROLLBACK")
        assert cancelled(x.ask()), took
        wait_until(lambda: blocked(ground) == 0)


def early_request(pooler, x, form, interrupts):
    """Cancels a statement that its process, which is stopped, has not read; how long that took."""
    # No alignment comes first: reads follow a read, and the others a transaction.
    frame = ["SELECT 1", "SELECT 1"] if form == "read" else ["BEGIN", "COMMIT"]
    x.sql(frame[0])
    pid = int(x.value("SELECT pg_backend_pid()"))
    x.sql(frame[1])
    # What was run may be undone on the connection before it is free.
    wait_until(lambda: [found["state"] for found in pooler.show("SERVERS")] == ["idle"])
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        x.send(*FORMS[form])
        with x.ask_to_cancel(pooler.port) as request:
            if interrupts:
                wait_until(lambda: interrupted(pid))
            took = time.monotonic() - began
            os.kill(pid, signal.SIGCONT)
            assert request.is_closed()
    finally:
        os.kill(pid, signal.SIGCONT)
    return took


def interrupted(pid):
    """Whether a process that is stopped has got a cancel request: SIGINT is pending."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(re.search(r"ShdPnd:\s*(\w+)", status).group(1), 16) & 1 << signal.SIGINT - 1)


def test_a_client_that_cancels_and_goes_on_is_not_struck_by_its_own_request(server, pipelining):
    # The request ends when the server has it, so whoever waits for that end may ask the next.
    with Pooler(server, default_pool_size=2, pipelining=pipelining) as pooler, Raw(pooler.port) as x:
        failures = []
        for turn in range(50):
            x.send(query(f"SELECT pg_sleep(0.0005), {turn}"))
            with x.ask_to_cancel(pooler.port) as request:
                first = threading.Thread(target=request.is_closed)
                first.start()
                found = x.ask()
                assert found == f"T D:|{turn} C:SELECT 1 Z:I" or found.endswith("E:57014 Z:I")
                first.join()
            found = x.sql(f"SELECT 'next {turn}'")
            if found != f"T D:next {turn} C:SELECT 1 Z:I":
                failures.append((turn, found))
        assert not failures
