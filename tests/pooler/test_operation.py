"""What an operator does: pauses, shutdowns, servers that die, the subcommands of the program."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
import time

import pg8000.dbapi
import pytest

from devkit import postgres
from devkit.places import ROOT, give_to_server_user
from devkit.server import SUPERUSER, Server
from tests.pooler import raw
from tests.pooler.process import PROGRAM, Pooler, ask, is_refused, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query, refusal
from tests.pooler.test_config import with_pgcat_toml


def test_only_admins_may_change_things(server):
    with Pooler(
        server, users={"viewer": "", "postgres": "", "eve": ""}, auth_type="trust", stats_users="viewer"
    ) as pooler:
        assert "admin access needed" in pooler.psql("PAUSE", "pgbouncer", user="viewer", check=False).stderr
        assert pooler.psql("SHOW VERSION", "pgbouncer", user="viewer").startswith("howdah-pooler")
        told = pooler.psql("SHOW VERSION", "pgbouncer", user="eve", check=False).stderr
        assert 'not allowed: user "eve" is in neither admin_users nor stats_users' in told


def test_reconnect_forgets_what_the_servers_reported(pooler):
    pooler.psql("SELECT 1")
    pooler.server.psql(f"ALTER ROLE {SUPERUSER} SET timezone = 'Asia/Tokyo'")
    try:
        pooler.psql("RECONNECT", "pgbouncer")
        for _ in range(3):
            assert pooler.psql("SHOW timezone") == "Asia/Tokyo"
    finally:
        pooler.server.psql(f"ALTER ROLE {SUPERUSER} RESET timezone")
        pooler.psql("RECONNECT", "pgbouncer")


@pytest.mark.parametrize(
    ("number", "settings"),
    [(signal.SIGTERM, {"sigterm": "wait_for_servers"}), (signal.SIGINT, {}), (signal.SIGINT, {"pool_mode": "session"})],
)
def test_a_signal_ends_it_when_what_is_under_way_is_done(server, number, settings):
    with Pooler(server, default_pool_size=2, **settings) as pooler, Raw(pooler.port) as busy, Raw(pooler.port) as idle:
        busy.sql("BEGIN")
        pooler.process.send_signal(number)
        # Who has no server connection has no session to finish.
        assert raw.code(idle.until(b"E")[-1][1]) == "57P01"
        wait_until(lambda: is_refused(pooler.port))
        assert busy.value("SELECT 2") == "2" and pooler.process.poll() is None
        busy.sql("COMMIT")
        if "pool_mode" in settings:
            assert busy.value("SELECT 3") == "3" and pooler.process.poll() is None
            busy.socket.close()
        assert pooler.process.wait(10) == 0


def test_orders_are_in_the_log_with_the_client_that_gave_them(pooler):
    pooler.psql("RECONNECT postgres", "pgbouncer")
    pooler.psql("SHOW POOLS", "pgbouncer")
    log = pooler.log.read_text()
    assert re.search(r'pgbouncer/\w+.*console: "RECONNECT postgres"', log), log
    assert 'console: "SHOW' not in log


def test_sigterm_waits_for_clients_and_an_administrator_can_look(server):
    # As PgBouncer does, by a pgbouncer.ini that does not say otherwise.
    with Pooler(server, workers=2) as pooler, Raw(pooler.port) as client, Raw(pooler.port, "pgbouncer") as looking:
        unix = pooler.folder / f".s.PGSQL.{pooler.port}"
        pooler.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(pooler.port))
        shown = pooler.psql("SHOW CLIENTS", "pgbouncer", host=pooler.folder).splitlines()
        assert len([row for row in shown if "|pgbouncer|" not in row]) == 1
        assert "the pooler is shutting down" in raw.refusal(str(unix))[1]
        assert client.value("SELECT 2") == "2" and pooler.process.poll() is None
        client.socket.close()
        # Whoever looks on is not waited for, and is told.
        assert pooler.process.wait(10) == 0
        assert raw.code(looking.until(b"E")[-1][1]) == "57P01" and looking.is_closed()
        assert not unix.exists()


def test_a_signal_may_end_it_at_once_and_a_second_one_does(server):
    with Pooler(server, sigterm="at_once") as pooler, Raw(pooler.port) as client:
        client.sql("BEGIN")
        pooler.process.send_signal(signal.SIGTERM)
        assert pooler.process.wait(10) == 0
    with Pooler(server) as pooler, Raw(pooler.port) as client:
        client.sql("BEGIN")
        pooler.process.send_signal(signal.SIGINT)
        # Two that are not yet taken count as one.
        wait_until(lambda: is_refused(pooler.port))
        assert pooler.process.poll() is None
        pooler.process.send_signal(signal.SIGINT)
        assert pooler.process.wait(10) == 0


def test_clients_outlive_the_backends_that_they_are_not_in_a_transaction_on(server):
    with Pooler(server, default_pool_size=2) as pooler, contextlib.ExitStack() as stack:
        idle, busy, inside = (stack.enter_context(Raw(pooler.port, application_name="outlives")) for _ in range(3))
        idle.sql("SELECT 1")
        busy.send(query("CREATE TABLE late AS SELECT pg_sleep(60)::text"))
        inside.sql("BEGIN")
        assert inside.value("SHOW application_name") == "outlives"
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'outlives'")
        told = next(body for kind, body in busy.until(b"Z") if kind == b"E")
        assert raw.code(told) == "57P01" and b"outcome of the statement is unknown" in told
        _, told = inside.until(b"E")[-1]
        assert b"FATAL" in told and b"in a transaction" in told and inside.is_closed()
        for client in (busy, idle):
            assert client.value("SELECT 2") == "2"


def test_each_line_of_commands_in_the_guides_is_one_command_of_the_program():
    """Commands that have run together into a paragraph are none."""
    known = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    for name, least in (("pooler-operation", 6), ("pooler", 4)):
        guide = (ROOT / "docs" / "guide" / f"{name}.md").read_text()
        block = next(block for block in re.findall(r"(?:^    .+\n)+", guide, re.MULTILINE) if "howdah-pooler " in block)
        commands = [shlex.split(line, comments=True) for line in block.splitlines()]
        commands = [words for words in commands if not words[0].endswith("make")]
        assert len(commands) >= least, block
        for program, *words in commands:
            assert program.rpartition("/")[2] == "howdah-pooler" and len(words) in (1, 2), block
            if not words[0].endswith((".toml", ".ini")):
                assert re.search(rf"^  {re.escape(words[0])}\b", known, re.MULTILINE), block


def test_init_looks_at_the_folder_first_and_says_that_no_server_was_asked(tmp_path):
    def init(path, text):
        return subprocess.run([PROGRAM, "init", path], input=text, capture_output=True, text=True, check=False)

    done = init(tmp_path / "none" / "x.toml", "")
    assert done.returncode == 1 and f"there is no folder {tmp_path / 'none'}" in done.stderr and not done.stdout
    path = tmp_path / "x.toml"
    done = init(path, "postgres://bob@127.0.0.1/app\napp\nbob:x\n")
    assert done.returncode == 0 and "The file is valid; the servers were not asked." in done.stdout, done.stderr
    assert 'host = "127.0.0.1"\nport = 5432\n' in path.read_text()


def test_a_misspelt_subcommand_is_named(tmp_path):
    for words in (["chekc", "howdah.toml"], ["chekc"]):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 2 and "there is no subcommand chekc" in done.stderr, done.stderr
        assert "did you mean check?" in done.stderr


def test_check_names_a_missing_variable_and_the_command_of_the_guide_sets_it(tmp_path):
    path, variables = tmp_path / "howdah.toml", tmp_path / "howdah-pooler"
    path.write_text('[databases.app]\nhost = "x"\n[users.bob]\npassword = "${POOLER_PASSWORD}"\n')
    variables.write_text("POOLER_PASSWORD='a $b'\n")
    done = subprocess.run([PROGRAM, "check", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "the environment has no variable POOLER_PASSWORD" in done.stderr
    guide = (ROOT / "docs" / "guide" / "production.md").read_text()
    command = next(line for line in guide.splitlines() if "howdah-pooler check" in line and line.startswith("sudo "))
    told = re.search(r"sudo sh -c '.*'", done.stderr)[0]
    assert command == told.replace("FILE", "/etc/howdah/howdah.toml")
    _, *words = shlex.split(command)
    words[-1] = words[-1].replace("/etc/default/howdah-pooler", str(variables))
    words[-1] = words[-1].replace("howdah-pooler check /etc/howdah/howdah.toml", f"{PROGRAM} check {path}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{path} is valid" in done.stdout, done.stderr


# A server that is restarted under its clients: who waits, who hears of it, and for how long


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
