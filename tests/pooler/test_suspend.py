"""SUSPEND on the console: what was read is passed on, nothing more is read until RESUME."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import signal
import struct
from pathlib import Path

from tests.pooler import raw
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, query


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
