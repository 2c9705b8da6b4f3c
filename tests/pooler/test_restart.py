"""A server that is restarted under its clients: who waits, who hears of it, and for how long."""

# The pooler first, then its clients: nested on purpose.

import contextlib
import os
import signal
import socket
import threading
import time

import pg8000.dbapi
import pytest

from devkit import postgres
from devkit.places import give_to_server_user
from devkit.server import Server
from tests.pooler import raw
from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query, startup

# Each format with its own defaults: what is tested is what they say of a server that is down.
FORMATS = {
    "pgbouncer.ini": """[databases]
app = host={host} port={port} dbname=postgres user=postgres password='{password}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = @PORT@
unix_socket_dir =
auth_type = any
pool_mode = transaction
admin_users = postgres
""",
    "howdah.toml": """[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
[databases.app]
host = "{host}"
port = {port}
dbname = "postgres"
user = "postgres"
password = "{password}"
""",
    "pgcat.toml": """[general]
host = "127.0.0.1"
port = @PORT@
admin_username = "postgres"
admin_password = "{password}"
[pools.app.users.0]
username = "postgres"
password = "{password}"
pool_size = 5
[pools.app.shards.0]
database = "postgres"
servers = [["{host}", {port}, "primary"]]
""",
}


@pytest.fixture
def own(major):
    """A server of one's own, free to stop."""
    with Server(postgres.tree(major)) as running:
        running.psql("CREATE TABLE t (a int)")
        yield running


def in_front_of(own, name, host=None, more=""):
    """A pooler in front of a server, configured in one of the formats."""
    text = FORMATS[name].format(host=host or own.socket_folder, port=own.port, password=own.password)
    head = {"pgbouncer.ini": "[pgbouncer]\n", "howdah.toml": "[pooler]\n", "pgcat.toml": "[general]\n"}[name]
    return Pooler(own, name=name, text=text.replace(head, head + more))


def refusals(pooler):
    """How often the pooler's log says that no connection to the server could be made."""
    return pooler.log.read_text().count("cannot connect to ")


def errors(messages):
    """The SQLSTATE and the message of each error."""
    found = []
    for kind, body in messages:
        if kind == b"E":
            fields = {field[:1]: field[1:].decode() for field in body.split(b"\0") if field}
            found.append((fields[b"C"], fields[b"M"]))
    return found


STATEMENTS = [
    [query("SELECT 1")],
    [query("INSERT INTO t VALUES (1)")],
    [query("BEGIN")],
    [parse("", "SELECT 2"), bind(""), EXECUTE, SYNC],
    [parse("named", "INSERT INTO t VALUES (2)"), bind("named"), EXECUTE, SYNC],
]


@pytest.mark.parametrize("place", ["socket", "tcp"])
@pytest.mark.parametrize("name", ["pgbouncer.ini", "howdah.toml"])
def test_clients_wait_through_a_restart_and_hear_nothing_of_it(own, name, place):
    host = None if place == "socket" else "127.0.0.1"
    with in_front_of(own, name, host) as pooler, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(pooler.port, "app")) for _ in STATEMENTS]
        for client in clients:
            assert errors(client_ask(client, query("SELECT 0"))) == []
        own.stop("fast")
        for client, statement in zip(clients, STATEMENTS, strict=True):
            client.send(*statement)
        # The server is away long enough to be found missing several times, and that is logged once by each worker.
        time.sleep(2)
        assert refusals(pooler) in (1, 2), pooler.log.read_text()
        waiting = next(row for row in pooler.show("POOLS") if row["database"] == "app")["cl_waiting"]
        assert waiting == str(len(clients))
        # Who comes now is told at once: there is nothing that could be lost by it.
        with Raw(pooler.port, "app", login=False) as newcomer:
            newcomer.send(raw.startup("app"))
            told = []
            while (message := newcomer.next()) is not None:
                told.append(message)
            ((code, text),) = errors(told)
            assert code == "08006" and "cannot connect" in text
        own.start(port=own.port)
        back = time.monotonic()
        for client in clients:
            assert errors(client.until(b"Z")) == []
        assert pooler.log.read_text().count("server connections can be made again") in (1, 2)
        # server_login_retry is 15 seconds in a pgbouncer.ini: whoever waits does not wait for that.
        assert time.monotonic() - back < 8
        assert errors(client_ask(clients[2], query("COMMIT"))) == []
        assert sorted(own.psql("SELECT a FROM t").split()) == ["1", "2"], "each statement was run once"
        with Raw(pooler.port, "app") as newcomer:
            assert errors(client_ask(newcomer, query("SELECT 1"))) == []


def client_ask(client, *parts):
    """Sends bytes, and gives the answer up to ReadyForQuery."""
    client.send(*parts)
    return client.until(b"Z")


def test_in_a_pgcat_toml_statements_fail_at_once_and_clients_stay(own):
    waits = "connect_timeout = 60000\n"
    with (
        in_front_of(own, "pgcat.toml", more=waits) as pooler,
        pooler.connect("app", password=own.password) as client,
    ):
        assert ask(client, "SELECT 1") == [(1,)]
        own.stop("fast")
        for _ in range(2):
            started = time.monotonic()
            with pytest.raises(pg8000.dbapi.DatabaseError, match="cannot connect to") as told:
                ask(client, "SELECT 1")
            assert told.value.args[0]["C"] == "08006"
            assert time.monotonic() - started < 10, "before connect_timeout"
        own.start(port=own.port)

        def answers():
            with contextlib.suppress(pg8000.dbapi.DatabaseError):
                return ask(client, "SELECT 3") == [(3,)]
            return False

        wait_until(answers)


def test_who_waits_too_long_for_a_server_that_is_down_hears_why_and_stays(own):
    with (
        in_front_of(own, "pgbouncer.ini", more="query_wait_timeout = 0.7\n") as pooler,
        Raw(pooler.port, "app") as client,
    ):
        assert errors(client_ask(client, query("SELECT 1"))) == []
        own.stop("fast")
        started = time.monotonic()
        ((code, text),) = errors(client_ask(client, query("SELECT 1")))
        assert time.monotonic() - started > 0.6
        assert code == "08006"
        assert text.startswith("query_wait_timeout: the server cannot be reached: cannot connect to ")
        own.start(port=own.port)
        wait_until(lambda: errors(client_ask(client, query("SELECT 1"))) == [])


def test_the_queue_can_be_turned_off(own):
    with in_front_of(own, "pgbouncer.ini", more="queue_while_down = 0\n") as pooler, Raw(pooler.port, "app") as client:
        assert errors(client_ask(client, query("SELECT 1"))) == []
        own.stop("fast")
        ((code, text),) = errors(client_ask(client, query("SELECT 1")))
        assert code == "08006" and text.startswith("cannot connect to the server: ")


def test_what_time_does_not_mend_is_told_at_once(own):
    own.psql("CREATE ROLE guest LOGIN")
    with in_front_of(own, "howdah.toml") as pooler:
        pooler.path.write_text(pooler.path.read_text().replace('user = "postgres"', 'user = "guest"'))
        pooler.psql("RELOAD", "pgbouncer")
        with Raw(pooler.port, "app") as client:
            assert errors(client_ask(client, query("SELECT 1"))) == []
            own.psql(
                "ALTER ROLE guest NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'"
            )
            wait_until(lambda: not [row for row in pooler.show("SERVERS") if row["database"] == "app"])
            ((code, text),) = errors(client_ask(client, query("SELECT 1")))
            assert code == "28000" and 'role "guest" is not permitted to log in' in text
            own.psql("ALTER ROLE guest LOGIN")
            wait_until(lambda: errors(client_ask(client, query("SELECT 1"))) == [])


def test_a_login_that_the_server_refuses_has_the_sqlstate_of_the_server(own):
    """Clients that look at the code, as Django's tests do before they make their database, find what they find directly."""
    own.psql(f"CREATE ROLE guest LOGIN PASSWORD '{own.password}'; CREATE DATABASE closed")
    own.psql("REVOKE CONNECT ON DATABASE closed FROM PUBLIC; CREATE DATABASE full_one CONNECTION LIMIT 0")
    entries = "".join(
        f"{name} = host={own.socket_folder} port={own.port} user={user} password='{own.password}'\n"
        for name, user in (("missing", "postgres"), ("closed", "guest"), ("full_one", "guest"))
    )
    with in_front_of(own, "pgbouncer.ini") as pooler:
        pooler.path.write_text(pooler.path.read_text().replace("[pgbouncer]\n", f"{entries}[pgbouncer]\n"))
        pooler.psql("RELOAD", "pgbouncer")
        for name, wanted in (("missing", "3D000"), ("closed", "42501"), ("full_one", "53300")):
            # The second is told what the first has met: no attempt is made for it.
            for words in ("cannot connect to the server: ", "server login has been failing, cached error: "):
                with Raw(pooler.port, name, login=False) as client:
                    client.send(startup(name))
                    ((code, text),) = errors(list(iter(client.next, None)))
                assert code == wanted and text.startswith(words), (name, code, text)


def test_a_server_that_is_starting_up_is_waited_for(own):
    with in_front_of(own, "pgbouncer.ini") as pooler, Raw(pooler.port, "app") as client:
        assert errors(client_ask(client, query("SELECT 1"))) == []
        own.stop("fast")
        # A standby that lets nobody in answers as a server does that replays its WAL after a crash.
        (own.data / "standby.signal").touch()
        give_to_server_user(own.data / "standby.signal")
        own.settings["hot_standby"] = "off"
        # The server has said that it is shutting down, too.
        said = len(pooler.log.read_text())
        starting = threading.Thread(target=own.start, args=(True, own.port))
        starting.start()
        client.send(query("SELECT 2"))
        wait_until(lambda: "the database system is" in pooler.log.read_text()[said:])
        assert starting.is_alive()
        own.run_as_server("pg_ctl", "promote", "-D", str(own.data))
        assert errors(client.until(b"Z")) == []
        starting.join()


def test_who_waits_for_a_server_that_is_down_hears_why(own):
    limits = "query_wait_notify = 0.2\nquery_wait_timeout = 1\n"

    def told(client):
        client.send(query("SELECT 1"))
        return [raw.field(body, "M") for kind, body in client.until(b"Z") if kind in (b"N", b"E")]

    with in_front_of(own, "pgbouncer.ini", more=limits) as pooler, Raw(pooler.port, "app") as client:
        assert errors(client_ask(client, query("SELECT 1"))) == []
        pooler.psql("RECONNECT", "pgbouncer")
        wait_until(lambda: not pooler.show("SERVERS"))
        postmaster = own.pid
        os.kill(postmaster, signal.SIGSTOP)
        try:
            notice, error = told(client)
        finally:
            os.kill(postmaster, signal.SIGCONT)
        why = "the server cannot be reached: the server has not answered the attempt to connect yet"
        assert notice == f"No server connection available in app backend, client being queued: {why}"
        assert error == f"query_wait_timeout: {why}"
        own.stop("fast")
        notice, error = told(client)
        assert "client being queued: the server cannot be reached: cannot connect to " in notice
        assert "query_wait_timeout: the server cannot be reached: cannot connect to " in error


def test_a_connect_that_fails_late_is_called_what_it_is(server):
    with contextlib.ExitStack() as stack:
        nobody = stack.enter_context(socket.socket())
        nobody.bind(("127.0.0.1", 0))
        nobody.listen(0)
        port = nobody.getsockname()[1]
        # Its backlog is full: who comes now hears nothing, and a second later, when it is gone, that it is.
        for _ in range(4):
            crowd = stack.enter_context(socket.socket())
            crowd.setblocking(False)
            crowd.connect_ex(("127.0.0.1", port))
        time.sleep(0.2)
        text = "[databases]\nd = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = @PORT@\n"
        with (
            Pooler(server, text=text.format(port) + "auth_type = any\n") as pooler,
            Raw(pooler.port, "d", login=False) as client,
        ):
            client.send(startup("d"))
            time.sleep(0.3)
            stack.close()
            told = client.until(b"E")[-1][1].decode()
            assert f"cannot connect to 127.0.0.1:{port}: Connection refused" in told
