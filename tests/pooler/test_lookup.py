"""The look-up of a password by `auth_query` runs in no client's session."""

import contextlib
import socket
import subprocess
import time

import pytest

from devkit.server import free_port
from tests.pooler.process import PASSWORD, PROGRAM, Pooler, ask, wait_until

LOOKED_UP = "SELECT usename, passwd FROM pg_shadow WHERE usename = $1"
# By what a client that shares the pool with the look-up could reach it.
REACHES = {
    "a role": ["SET ROLE weak"],
    "a session's authorization": ["SET SESSION AUTHORIZATION weak"],
    "a search_path": [
        "CREATE SCHEMA IF NOT EXISTS fake",
        "CREATE OR REPLACE VIEW fake.pg_shadow AS SELECT 'scram_user'::name AS usename, 'md5ff'::text AS passwd",
        "SET search_path = fake, pg_catalog",
    ],
    "a timeout": ["SET statement_timeout = 1"],
    "a read-only session": ["SET default_transaction_read_only = on"],
    "set_config": ["SELECT set_config('search_path', 'fake, pg_catalog', false)"],
}


@pytest.fixture
def ground(with_users):
    """The server, with a role that may look at nothing."""
    with contextlib.suppress(Exception):
        with_users.psql("CREATE ROLE weak")
    with_users.psql(f"SET password_encryption = 'scram-sha-256'; ALTER ROLE postgres PASSWORD '{with_users.password}'")
    yield with_users
    with_users.psql("DROP SCHEMA IF EXISTS fake CASCADE")


@pytest.mark.parametrize("reach", REACHES)
def test_a_client_cannot_reach_the_look_up_of_passwords(ground, reach):
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "auth_query": LOOKED_UP, "default_pool_size": 1}
    users = {"postgres": ground.password}
    with Pooler(ground, users=users, **settings) as pooler, pooler.connect(password=ground.password) as client:
        for turn in range(2):
            for sql in REACHES[reach]:
                ask(client, sql)
            with pooler.connect(user="scram_user", password=PASSWORD) as other:
                assert ask(other, "SELECT current_user") == [("scram_user",)], f"turn {turn}"
        ask(client, "SET statement_timeout = 0")
        assert ask(client, "SELECT 1") == [(1,)]


def test_a_stranger_is_not_told_what_the_server_said_when_it_was_lost(ground):
    query = "SELECT $1::text, pg_terminate_backend(pg_backend_pid())::text"
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "auth_query": query}
    with Pooler(ground, users={"postgres": ground.password}, **settings) as pooler:
        done = pooler.psql("SELECT 1", user="scram_user", password="guessed", check=False)
        assert "the password cannot be looked up at present" in done.stderr
        assert "administrator command" not in done.stderr
        wait_until(lambda: "terminating connection due to administrator command" in pooler.log.read_text())


CANNOT = "the password cannot be looked up at present: the pooler's log has the reason"
IN_A_CLUSTER = """[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "scram-sha-256"
auth_user = "scram_user"
auth_dbname = "app"
admin_users = "postgres"
{more}
[databases.app]
dbname = "postgres"
servers = [{{ host = "127.0.0.1", port = {port} }}]
[users.postgres]
password = "{password}"
"""
WRONG = '[users.scram_user]\npassword = "wrong"\n'
MONITORED = 'monitor_user = "postgres"'


@pytest.mark.parametrize(
    ("user", "more", "reason"),
    [
        (WRONG, "", 'password authentication failed for user "scram_user"'),
        ("", MONITORED, "password"),
        (WRONG, MONITORED, "Connection refused"),
    ],
    ids=["wrong", "none, monitored", "down, monitored"],
)
def test_a_look_up_that_reaches_no_server_of_a_cluster_ends_with_the_reason_in_the_log(ground, user, more, reason):
    port = free_port() if reason == "Connection refused" else ground.port
    text = IN_A_CLUSTER.format(port=port, more=more, password=ground.password) + user
    with Pooler(ground, name="howdah.toml", text=text) as pooler:
        for _ in range(2):
            begun = time.monotonic()
            done = pooler.psql("SELECT 1", "app", user="md5_user", password=PASSWORD, check=False, connect_timeout=20)
            assert CANNOT in done.stderr
            assert time.monotonic() - begun < 5
        told = [line for line in pooler.log.read_text().splitlines() if "auth_query: " in line]
        assert len(told) == 2 and all(reason in line for line in told), told


def test_the_log_says_what_a_look_up_waited_for_when_the_time_for_a_login_is_up(ground):
    slow = "SELECT usename, passwd FROM pg_shadow, pg_sleep(20) WHERE usename = $1"
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "auth_query": slow, "client_login_timeout": 1}
    with Pooler(ground, users={"postgres": ground.password}, **settings) as pooler:
        done = pooler.psql("SELECT 1", user="scram_user", password=PASSWORD, check=False)
        assert "FATAL:  client_login_timeout" in done.stderr and "auth_query" not in done.stderr
        assert "auth_query: client_login_timeout: the query is still running" in pooler.log.read_text()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        databases = {"app": f"host=127.0.0.1 port={mute.getsockname()[1]}"}
        with Pooler(ground, databases, users={"postgres": "x"}, **settings) as pooler:
            done = pooler.psql("SELECT 1", "app", user="scram_user", password=PASSWORD, check=False)
            assert "FATAL:  client_login_timeout" in done.stderr and "no server connection" not in done.stderr
            log = pooler.log.read_text()
            assert 'auth_query: client_login_timeout: database "app": no server connection could be made' in log


def test_a_database_for_look_ups_that_is_not_configured_is_told(ground):
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "auth_dbname": "nodb"}
    with Pooler(ground, {"app": "dbname=postgres"}, users={"postgres": ground.password}, **settings) as pooler:
        remark = "auth_dbname = nodb: there is no such database in the configuration"
        assert remark in pooler.log.read_text()
        done = subprocess.run([PROGRAM, "check", pooler.path], capture_output=True, text=True, check=True)
        assert remark in done.stdout
        done = pooler.psql("SELECT 1", "app", user="scram_user", password=PASSWORD, check=False)
        assert CANNOT in done.stderr
        assert 'auth_dbname: there is no database "nodb"' in pooler.log.read_text()
        assert pooler.psql("SELECT 1", "app", password=ground.password) == "1", "whose password is known"


def test_nothing_that_a_look_up_does_to_its_session_stays(ground):
    ground.psql(
        """CREATE OR REPLACE FUNCTION public.look(u text) RETURNS SETOF record LANGUAGE plpgsql AS $$ BEGIN
        PERFORM set_config('search_path', 'fake', false), pg_advisory_lock(5);
        RETURN QUERY SELECT usename::text, passwd FROM pg_catalog.pg_shadow WHERE usename = u; END $$"""
    )
    settings = {"auth_type": "scram-sha-256", "auth_user": "postgres", "default_pool_size": 1}
    settings["auth_query"] = "SELECT * FROM public.look($1) AS (usename text, passwd text)"
    seen = "SELECT current_setting('search_path'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
    with Pooler(ground, users={"postgres": ground.password}, **settings) as pooler:
        assert pooler.psql("SELECT 1", user="scram_user", password=PASSWORD) == "1"
        assert pooler.psql(seen, password=ground.password) == '"$user", public|0'
    ground.psql("DROP FUNCTION public.look(text)")
