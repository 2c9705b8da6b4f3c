"""SUSPEND on the console: what was read is passed on, nothing more is read until RESUME."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import signal
import struct
import time
from pathlib import Path

from tests.pooler import raw
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, direct, query
from tests.pooler.test_cancels import Request, interrupted

SLEEPS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@contextlib.contextmanager
def console(pooler):
    """A connection to the console that stays."""
    with Raw(pooler.port, "pgbouncer") as admin:
        yield admin


def states(admin):
    """What SHOW STATE says is so."""
    admin.send(query("SHOW STATE"))
    shown = raw.values(admin.until(b"Z"))
    return [name for name, value in zip(shown[::2], shown[1::2], strict=True) if value == "yes"]


def unread(pooler, client):
    """Bytes of a client that lie in the pooler's socket."""
    here, there = client.socket.getsockname()[1], pooler.port
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.split(":")[1], 16) for address in fields[1:3]]
        if ports == [there, here]:
            return int(fields[4].split(":")[1], 16)
    raise AssertionError("there is no such socket")


def test_what_comes_meanwhile_stays_in_its_socket(pooler):
    with Raw(pooler.port) as client, console(pooler) as admin:
        assert client.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"
        assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
        assert states(admin) == ["suspended"]
        asked = query("SELECT 2")
        client.send(asked)
        wait_until(lambda: unread(pooler, client) == len(asked))
        # It connects, since the system takes it in, and is not spoken to.
        with Raw(pooler.port, login=False) as newcomer:
            newcomer.send(raw.startup("postgres"))
            for _ in range(3):
                admin.sql("SHOW CLIENTS")
            assert unread(pooler, client) == len(asked) and not client.waiting(0) and not newcomer.waiting(0)
            assert admin.sql("RESUME") == "C:RESUME Z:I"
            assert raw.show(client.until(b"Z")) == "T D:2 C:SELECT 1 Z:I"
            newcomer.until(b"Z")
            assert newcomer.value("SELECT 3") == "3"
        assert states(admin) == ["active"]


def test_an_answer_of_the_server_stays_in_its_socket(server, pooler):
    with Raw(pooler.port) as client, direct(server) as other, console(pooler) as admin:
        other.sql("SELECT pg_advisory_lock(77)")
        client.send(query("SELECT pg_advisory_xact_lock(77), pg_backend_pid()"))
        wait_until(lambda: other.value(SLEEPS) == "1")
        # It waits for no statement.
        assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
        admin.send(query("SHOW CLIENTS"))
        assert "suspended" in raw.values(admin.until(b"Z"))
        other.sql("SELECT pg_advisory_unlock(77)")
        wait_until(lambda: other.value(SLEEPS) == "0")
        busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%xact_lock(77)%' AND state <> 'idle'"
        wait_until(lambda: other.value(f"{busy} AND pid <> pg_backend_pid()") == "0")
        for _ in range(3):
            admin.sql("SHOW SERVERS")
        assert not client.waiting(0)
        admin.sql("RESUME")
        assert raw.show(client.until(b"Z")).endswith("C:SELECT 1 Z:I")


def test_the_other_commands_go_on_and_say_what_does_not_fit(pooler):
    with Raw(pooler.port) as client, console(pooler) as admin, console(pooler) as other:
        client.sql("SELECT 1")

        def order(command, error=None):
            other.send(query(command))
            told = dict(other.until(b"Z"))
            said = raw.field(told[b"E"], "M") if b"E" in told else None
            assert said == error, command

        admin.sql("SUSPEND")
        order("SUSPEND", "already suspended")
        order("PAUSE", "already suspended")
        order("KILL", "already suspended")
        order("RESUME postgres", "database postgres is not paused")
        order("SET query_timeout = 5")
        order("RELOAD")
        order("DISABLE postgres")
        order("ENABLE postgres")
        order("RECONNECT")
        assert states(other) == ["suspended"]
        order("RESUME")
        order("RESUME", "the pooler is not paused/suspended")
        order("PAUSE postgres")
        order("SUSPEND", "cannot suspend while databases are paused")
        order("RESUME postgres")
        order("SUSPEND postgres", "invalid command 'SUSPEND postgres', use SHOW HELP;")
        assert client.value("SELECT 4") == "4"


def test_only_admins_may_suspend(server):
    users = {"viewer": "", "postgres": ""}
    with Pooler(server, users=users, auth_type="trust", stats_users="viewer") as pooler:
        with Raw(pooler.port, "pgbouncer", user="viewer") as viewer:
            assert viewer.sql("SUSPEND") == "E:08P01 Z:I"
            assert states(viewer) == ["active"]


def test_it_ends_when_the_last_of_the_console_leaves(pooler):
    with Raw(pooler.port) as client:
        with console(pooler) as admin, console(pooler) as other:
            admin.sql("SUSPEND")
            admin.socket.close()
            client.send(query("SELECT 1"))
            assert states(other) == ["suspended"]
            other.sql("SHOW CLIENTS")
            assert not client.waiting(0)
        assert raw.show(client.until(b"Z")) == "T D:1 C:SELECT 1 Z:I"
    assert "the last client of the console has left" in pooler.log.read_text()


def test_a_signal_resumes(pooler):
    with Raw(pooler.port) as client, console(pooler) as admin:
        admin.sql("SUSPEND")
        client.send(query("SELECT 1"))
        pooler.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: "cannot be paused" in pooler.log.read_text())
        pooler.process.send_signal(signal.SIGUSR2)
        client.until(b"Z")
        assert states(admin) == ["active"]


def test_a_cancel_request_that_would_be_sent_again_is_not_waited_for(pooler):
    with contextlib.ExitStack() as stack:
        client, admin = stack.enter_context(Raw(pooler.port)), stack.enter_context(console(pooler))
        pid = int(client.value("SELECT pg_backend_pid()"))
        wait_until(lambda: all(shown["state"] == "idle" for shown in pooler.show("SERVERS")))
        os.kill(pid, signal.SIGSTOP)
        try:
            client.send(query("DO 'BEGIN PERFORM pg_sleep(10); END'"))
            # One of them comes to another worker than its client's.
            requests = [stack.enter_context(Request(pooler.port, client)) for _ in range(8)]
            wait_until(lambda: interrupted(pid))
            started = time.monotonic()
            assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
            # Not the suspend_timeout of ten seconds.
            assert time.monotonic() - started < 5
        finally:
            os.kill(pid, signal.SIGCONT)
        assert admin.sql("RESUME") == "C:RESUME Z:I"
        # One that had not been read stays in its socket until then.
        assert all(request.is_closed() for request in requests)


def test_who_is_not_at_rest_in_time_is_closed(server):
    with Pooler(server, default_pool_size=1, suspend_timeout="0.5") as pooler:
        with Raw(pooler.port) as holder, Raw(pooler.port) as waiter, Raw(pooler.port) as half, console(pooler) as admin:
            holder.sql("BEGIN")
            waiter.send(query("SELECT 1"))
            # The length of a message that does not come.
            half.send(b"Q" + struct.pack("!i", 1000))
            wait_until(lambda: any(row["state"] == "waiting" for row in pooler.show("CLIENTS")))
            assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
            for late in (waiter, half):
                kind, body = late.next()
                assert (kind, raw.code(body)) == (b"E", "57P01") and "suspend_timeout" in raw.field(body, "M")
                assert late.is_closed()
            admin.sql("RESUME")
            assert holder.sql("COMMIT") == "C:COMMIT Z:I"


def test_a_client_that_does_not_read_is_waited_for(server):
    with Pooler(server, suspend_timeout="0") as pooler:
        with Raw(pooler.port) as slow, console(pooler) as admin, console(pooler) as other:
            slow.send(query("SELECT repeat('x', 1000000) FROM generate_series(1, 30)"))
            wait_until(lambda: any(row["send_avail"] != "0" for row in pooler.show("SOCKETS")))
            admin.send(query("SUSPEND"))
            for _ in range(3):
                other.sql("SHOW CLIENTS")
            assert states(other) == ["suspended"] and not admin.waiting(0)
            slow.reset()
            assert raw.show(admin.until(b"Z")) == "C:SUSPEND Z:I"


def test_all_workers_are_suspended_and_time_limits_rest(server):
    with Pooler(server, {"one": "dbname=postgres", "two": "dbname=postgres"}, workers=2) as pooler:
        with Raw(pooler.port, "one") as one, Raw(pooler.port, "two") as two, console(pooler) as admin:
            admin.sql("SET idle_transaction_timeout = 0.3")
            assert one.sql("BEGIN") == two.sql("BEGIN") == "C:BEGIN Z:T"
            admin.sql("SUSPEND")
            admin.sql("SET idle_transaction_timeout = 0.01")
            for client in (one, two):
                client.send(query("COMMIT"))
            for _ in range(20):
                admin.sql("SHOW CLIENTS")
            assert not one.waiting(0.2) and not two.waiting(0)
            admin.sql("SET idle_transaction_timeout = 0")
            admin.sql("RESUME")
            for client in (one, two):
                assert raw.show(client.until(b"Z")) == "C:COMMIT Z:I"


def test_an_end_that_waits_lets_everybody_go_on(pooler):
    with Raw(pooler.port) as client, console(pooler) as admin:
        client.sql("BEGIN")
        admin.sql("SUSPEND")
        client.send(query("SELECT 1"))
        admin.sql("SHUTDOWN WAIT_FOR_CLIENTS")
        assert raw.show(client.until(b"Z")) == "T D:1 C:SELECT 1 Z:T"
        client.sql("COMMIT")
        client.socket.close()
        assert pooler.process.wait(10) == 0


def test_pipelined_reads_in_flight_are_answered_after_it(server):
    with Pooler(server, default_pool_size=2, pipeline_stall="0.05") as pooler:
        with contextlib.ExitStack() as stack, console(pooler) as admin:
            clients = [stack.enter_context(Raw(pooler.port)) for _ in range(6)]
            pooler.wait_for_catalog()
            for _ in range(3):
                for number, client in enumerate(clients):
                    assert client.value(f"SELECT {number} + 0") == str(number)
            for _ in range(20):
                for number, client in enumerate(clients):
                    client.send(query(f"SELECT {number} + 1"))
                assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
                assert admin.sql("RESUME") == "C:RESUME Z:I"
                for number, client in enumerate(clients):
                    assert raw.values(client.until(b"Z")) == [str(number + 1)]
