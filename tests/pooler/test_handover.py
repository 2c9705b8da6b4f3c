"""A server connection that ends: what it said reaches nobody else, and no error stands within what its client has got.

That each unit is answered by one error at most, and clients that leave at any moment, are the simulation's subjects.
"""

import contextlib
import signal
import struct

import pytest

from devkit import postgres
from tests.pooler import interpose
from tests.pooler.interpose import GREETING, Interposer, Scripted, answer, complete, error, parameter, ready
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, message, parameters, query

WAITERS = 4
TERMINATED = error("57P01", "terminating connection due to administrator command", "FATAL")


# What ends a connection in the eyes of the pooler.
BREAKERS = {"a login message": message(b"R", struct.pack("!i", 0)), "a length of nothing": b"D\0\0\0\0"}
# What a connection says that has been given up: a whole login, answers, another key, an end.
REST = b"".join(
    [
        *(GREETING, message(b"K", struct.pack("!ii", 4711, 4712)), ready(), parameter("TimeZone", "Mars/Phobos")),
        *(answer("stolen"), complete("SET"), ready(), answer("stolen"), TERMINATED),
    ]
)


def lent(number):
    """A statement that is lent a connection, and what it is answered."""
    sql = f"SELECT pg_advisory_xact_lock_shared({number + 1}), 'of {number}'"
    return query(sql), f"T D:|of {number} C:SELECT 1 Z:I"


def waiters(pooler, stack):
    """Clients that wait for a connection, and what they must be answered."""
    found = []
    for number in range(WAITERS):
        client = stack.enter_context(Raw(pooler.port))
        unit, wanted = lent(number)
        client.send(unit)
        wait_until(lambda number=number: waiting(pooler) == number + 1)
        found.append((client, wanted))
    return found


def waiting(pooler):
    """How many clients wait."""
    return int(pooler.show("POOLS")[0]["cl_waiting"])


def all_well(pooler, found):
    """Those who waited are answered what they asked for; a new client is greeted as ever."""
    for client, wanted in found:
        assert client.ask() == wanted
    with Raw(pooler.port) as late:
        assert "Mars/Phobos" not in parameters(late.greeting).values()
        assert late.value("SHOW TimeZone") != "Mars/Phobos"
        for number, (client, _) in enumerate(found):
            assert client.sql(f"SELECT 'again {number}'") == f"T D:again {number} C:SELECT 1 Z:I"


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("breaker", [*BREAKERS, "a farewell"])
def test_what_a_connection_says_that_is_given_up_reaches_nobody(server, pipelining, breaker):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        # A login that failed would be noticed for long.
        settings = {"default_pool_size": 1, "pipelining": pipelining, "server_login_retry": 30}
        pooler = stack.enter_context(Pooler(net, **settings))
        x = stack.enter_context(Raw(pooler.port))
        assert x.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"
        link = net.links[-1]
        link.hold()
        x.send(lent(100)[0])
        net.wait(lambda: any(kind == b"Z" for kind, _ in link.kept))
        found = waiters(pooler, stack)
        if breaker == "a farewell":
            # The connection is to be closed when it is free; its server ends it in the same moment.
            pooler.psql("RECONNECT", "pgbouncer")
            link.release(parameter("TimeZone", "Mars/Phobos"), TERMINATED)
            assert x.ask() == lent(100)[1]
        else:
            link.say(BREAKERS[breaker] + REST)
            assert x.ask() == "E:08006 Z:I"
        all_well(pooler, found)
        if breaker in BREAKERS:
            assert x.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"


@pytest.mark.parametrize("way", ["query_timeout", "KILL", "KILL_CLIENT", "SIGINT"])
def test_no_error_stands_within_a_row(major, way):
    """A client that has got the beginning of a row takes whatever follows for the rest of the row."""
    wide = interpose.columns("a") + interpose.row("v" * 200_000)
    settings = {"default_pool_size": 2, "query_timeout": 1 if way == "query_timeout" else 0, "shutdown_timeout": 1}
    with Scripted() as server, Pooler(server, **settings) as pooler, Raw(pooler.port) as client:
        # For its psql.
        server.tree = postgres.tree(major)
        client.send(query("SELECT 'wide'"))
        session = server.session(0)
        while not any(b"wide" in body for _, body in session.unit()):
            session.send(complete("SET"), ready())
        session.send(wide[:-1000])
        client.socket.settimeout(10)
        heard = b""
        while len(heard) < 150_000:
            heard += client.socket.recv(65536)
        if way == "KILL":
            pooler.psql("KILL", "pgbouncer")
        elif way == "KILL_CLIENT":
            (one,) = [shown for shown in pooler.show("CLIENTS") if shown["database"] != "pgbouncer"]
            pooler.psql(f"KILL_CLIENT {one['id']}", "pgbouncer")
        elif way == "SIGINT":
            pooler.process.send_signal(signal.SIGINT)
        with contextlib.suppress(ConnectionResetError):
            while more := client.socket.recv(65536):
                heard += more
        assert wide.startswith(heard)
