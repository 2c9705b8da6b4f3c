"""A server that is restarted under its clients: who waits, who hears of it, and for how long."""

# The pooler first, then its clients: nested on purpose.

import contextlib
import os
import signal
import threading
import time

import pg8000.dbapi
import pytest

from devkit import postgres
from devkit.places import give_to_server_user
from devkit.server import Server
from tests.pooler import raw
from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query, refusal
from tests.pooler.test_config import with_pgcat_toml


@pytest.fixture(scope="module")
def machine(major):
    """A server of these tests alone, free to stop."""
    with Server(postgres.tree(major)) as running:
        yield running


@pytest.fixture
def own(machine):
    """The same, running and with an empty table."""
    if not machine.answers():
        machine.start(port=machine.port)
    machine.psql("DROP TABLE IF EXISTS t; CREATE TABLE t (a int); DROP ROLE IF EXISTS guest")
    return machine


def in_front_of(own, host=None, **settings):
    """A pooler in front of a server, with the defaults of a pgbouncer.ini."""
    entry = f"host={host or own.socket_folder} dbname=postgres user=postgres password='{own.password}'"
    return Pooler(own, {"app": entry}, **{"server_login_retry": 15, **settings})


def of_howdah_toml(own, user="postgres"):
    """The same with those of a howdah.toml, over TCP."""
    text = f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
[databases.app]
host = "127.0.0.1"
port = {own.port}
dbname = "postgres"
user = "{user}"
password = "{own.password}"
"""
    return Pooler(own, name="howdah.toml", text=text)


def refusals(pooler):
    """How often the pooler's log says that no connection to the server could be made."""
    return pooler.log.read_text().count("cannot connect to ")


def told(messages):
    """The SQLSTATE and the message of the one error; `None` without."""
    found = [(raw.code(body), raw.field(body, "M")) for kind, body in messages if kind == b"E"]
    assert len(found) <= 1
    return found[0] if found else None


def asked(client, sql="SELECT 1"):
    """What a client is told of a statement: its error, or nothing."""
    client.send(query(sql))
    return told(client.until(b"Z"))


STATEMENTS = [
    [query("SELECT 1")],
    [query("INSERT INTO t VALUES (1)")],
    [query("BEGIN")],
    [parse("", "SELECT 2"), bind(""), EXECUTE, SYNC],
    [parse("named", "INSERT INTO t VALUES (2)"), bind("named"), EXECUTE, SYNC],
]


@pytest.mark.parametrize("made", [in_front_of, of_howdah_toml])
def test_clients_wait_through_a_restart_and_hear_nothing_of_it(own, made):
    with made(own) as pooler, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(pooler.port, "app")) for _ in STATEMENTS]
        for client in clients:
            assert not asked(client)
        own.stop("fast")
        for client, statement in zip(clients, STATEMENTS, strict=True):
            client.send(*statement)
        # The server is away long enough to be found missing several times, and that is logged once by each worker.
        time.sleep(2)
        assert refusals(pooler) in (1, 2), pooler.log.read_text()
        waiting = next(row for row in pooler.show("POOLS") if row["database"] == "app")["cl_waiting"]
        assert waiting == str(len(clients))
        # Who comes now is told at once: there is nothing that could be lost by it.
        code, text = refusal(pooler.port, "app")
        assert code == "08006" and "cannot connect" in text
        own.start(port=own.port)
        back = time.monotonic()
        for client in clients:
            assert not told(client.until(b"Z"))
        assert pooler.log.read_text().count("server connections can be made again") in (1, 2)
        # server_login_retry is 15 seconds in a pgbouncer.ini: whoever waits does not wait for that.
        assert time.monotonic() - back < 8
        assert not asked(clients[2], "COMMIT")
        assert sorted(own.psql("SELECT a FROM t").split()) == ["1", "2"], "each statement was run once"
        with Raw(pooler.port, "app") as newcomer:
            assert not asked(newcomer)


def test_in_a_pgcat_toml_statements_fail_at_once_and_clients_stay(own):
    with with_pgcat_toml(own) as pooler, pooler.connect("app", password=own.password) as client:
        assert ask(client, "SELECT 1") == [(1,)]
        own.stop("fast")
        for _ in range(2):
            with pytest.raises(pg8000.dbapi.DatabaseError) as failed:
                ask(client, "SELECT 1")
            # The second while the server is shutting down.
            assert failed.value.args[0]["C"] in ("08006", "57P03")
        own.start(port=own.port)
        wait_until(lambda: answers(client))


def answers(client):
    """Whether a statement of a client's is served."""
    with contextlib.suppress(pg8000.dbapi.DatabaseError):
        return ask(client, "SELECT 3") == [(3,)]
    return False


def test_the_queue_can_be_turned_off(own):
    with in_front_of(own, queue_while_down=0) as pooler, Raw(pooler.port, "app") as client:
        assert not asked(client)
        own.stop("fast")
        code, text = asked(client)
        assert code == "08006" and text.startswith("cannot connect to the server: ")


def test_what_time_does_not_mend_is_told_at_once(own):
    own.psql(f"CREATE ROLE guest LOGIN PASSWORD '{own.password}'")
    with of_howdah_toml(own, "guest") as pooler, Raw(pooler.port, "app") as client:
        assert not asked(client)
        own.psql("ALTER ROLE guest NOLOGIN")
        own.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guest'")
        wait_until(lambda: not [row for row in pooler.show("SERVERS") if row["database"] == "app"])
        code, text = asked(client)
        assert code == "28000" and 'role "guest" is not permitted to log in' in text
        own.psql("ALTER ROLE guest LOGIN")
        wait_until(lambda: not asked(client))


def test_a_login_that_the_server_refuses_has_the_sqlstate_of_the_server(own):
    """Clients that look at the code, as Django's tests do before they make their database, find what they find directly."""
    own.psql(f"CREATE ROLE guest LOGIN PASSWORD '{own.password}'; CREATE DATABASE closed")
    own.psql("REVOKE CONNECT ON DATABASE closed FROM PUBLIC; CREATE DATABASE full_one CONNECTION LIMIT 0")
    entry = f"host={own.socket_folder} password='{own.password}' user="
    databases = {"missing": f"{entry}postgres", "closed": f"{entry}guest", "full_one": f"{entry}guest"}
    with Pooler(own, databases, server_login_retry=15) as pooler:
        for name, wanted in (("missing", "3D000"), ("closed", "42501"), ("full_one", "53300")):
            # The second is told what the first has met: no attempt is made for it.
            for words in ("cannot connect to the server: ", "server login has been failing, cached error: "):
                code, text = refusal(pooler.port, name)
                assert code == wanted and text.startswith(words), (name, code, text)


def test_a_server_that_is_starting_up_is_waited_for(own):
    with in_front_of(own) as pooler, Raw(pooler.port, "app") as client:
        assert not asked(client)
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
        assert not told(client.until(b"Z"))
        starting.join()


def test_who_waits_for_a_server_that_is_down_hears_why(own):
    limits = {"query_wait_notify": 0.2, "query_wait_timeout": 1}

    def heard(client):
        client.send(query("SELECT 1"))
        return [raw.field(body, "M") for kind, body in client.until(b"Z") if kind in (b"N", b"E")]

    with in_front_of(own, **limits) as pooler, Raw(pooler.port, "app") as client:
        assert not asked(client)
        pooler.psql("RECONNECT", "pgbouncer")
        wait_until(lambda: not pooler.show("SERVERS"))
        postmaster = own.pid
        os.kill(postmaster, signal.SIGSTOP)
        try:
            notice, error = heard(client)
        finally:
            os.kill(postmaster, signal.SIGCONT)
        why = "the server cannot be reached: the server has not answered the attempt to connect yet"
        assert notice == f"No server connection available in app backend, client being queued: {why}"
        assert error == f"query_wait_timeout: {why}"
        own.stop("fast")
        notice, error = heard(client)
        assert "client being queued: the server cannot be reached: cannot connect to " in notice
        assert "query_wait_timeout: the server cannot be reached: cannot connect to " in error
