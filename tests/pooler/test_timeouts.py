"""Each time limit: it ends what it is about, with words that say which limit it was, and nothing else."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import socket
import time

import pytest

from tests.pooler import raw
from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import Raw, query


def farewell(client):
    """The SQLSTATE and the message of the error after which the pooler closes."""
    _, body = client.until(b"E")[-1]
    assert raw.field(body, "S") == "FATAL" and client.is_closed()
    return raw.code(body), raw.field(body, "M")


def test_a_server_that_does_not_answer_is_given_up_and_that_is_said(server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        databases = {"postgres": f"host=127.0.0.1 port={silent.getsockname()[1]}"}
        with Pooler(server, databases, server_connect_timeout="0.5") as pooler:
            told = pooler.psql("SELECT 1", check=False).stderr
            assert "cannot connect to the server: server_connect_timeout" in told and "full" not in told


def test_logins_must_come_to_an_end(server):
    with Pooler(server, client_login_timeout="0.3") as pooler, Raw(pooler.port, login=False) as client:
        client.send(b"\0\0\0\x50\0\3\0\0user\0")
        assert farewell(client) == ("08006", "client_login_timeout")


@pytest.mark.parametrize(
    ("limit", "code", "too_long", "short_enough"),
    [
        ("query_timeout", "57014", "SELECT pg_sleep(60)", "SELECT 1"),
        ("transaction_timeout", "25P04", "BEGIN; SELECT pg_sleep(60)", "SELECT 1"),
        ("idle_transaction_timeout", "25P03", "BEGIN", "BEGIN; SELECT pg_sleep(2); COMMIT"),
        ("client_idle_timeout", "57P05", "SELECT 1", "SELECT pg_sleep(2)"),
    ],
)
def test_a_client_past_a_limit_is_told_which_and_its_server_serves_others(server, limit, code, too_long, short_enough):
    with Pooler(server, default_pool_size=1, **{limit: "1"}) as pooler, Raw(pooler.port) as client:
        client.send(query(too_long))
        assert farewell(client) == (code, limit)
        with Raw(pooler.port) as other:
            assert "E:" not in other.sql(short_enough)
        running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%sleep(60)'"
        wait_until(lambda: server.psql(running) == "0")


def test_who_waits_too_long_hears_that_the_pool_is_full_and_stays(server):
    limits = {"query_wait_timeout": "0.7", "query_wait_notify": "0.2"}
    with Pooler(server, default_pool_size=1, **limits) as pooler:
        with pooler.connect() as holder, Raw(pooler.port) as waiter:
            ask(holder, "BEGIN")
            waiter.send(query("SELECT 1"))
            got = waiter.until(b"Z")
            assert b"".join(kind for kind, _ in got) == b"NEZ"
            queued = b"No server connection available in postgres backend, client being queued: the pool of database"
            assert queued in got[0][1]
            assert raw.code(got[1][1]) == "53300"
            assert b"is full: 1 server connections, all in use, 1 clients waiting" in got[1][1]
            ask(holder, "COMMIT")
            assert waiter.kinds(query("SELECT 2")) == "TDCZ", "the connection outlives the error"
        pooler.psql("PAUSE postgres", "pgbouncer")
        with Raw(pooler.port) as waiter:
            waiter.send(query("SELECT 1"))
            told = next(body for kind, body in waiter.until(b"Z") if kind == b"E")
            assert b'database "postgres" is paused' in told and b"full" not in told


def test_idle_servers_go_and_the_minimum_stays(server):
    with Pooler(server, default_pool_size=5, min_pool_size=1, server_idle_timeout="0.2") as pooler:
        with pooler.connect():
            pooler.pgbench("-n", "-c", "5", "-t", "5", "-f", "/dev/stdin", input="SELECT pg_sleep(0.01)")
            wait_until(lambda: len(pooler.show("SERVERS")) == 1)
            time.sleep(0.5)
            assert len(pooler.show("SERVERS")) == 1


def test_a_server_past_its_age_is_not_lent_again(server):
    with Pooler(server, default_pool_size=1, server_lifetime="0.5", server_lifetime_jitter=0) as pooler:
        with pooler.connect() as client:
            ask(client, "BEGIN")
            before = ask(client, "SELECT pg_backend_pid()")
            time.sleep(0.8)
            assert ask(client, "SELECT pg_backend_pid()") == before, "not in a transaction"
            ask(client, "COMMIT")
            assert ask(client, "SELECT pg_backend_pid()") != before


def test_what_was_idle_for_long_is_checked_before_it_is_used(server):
    with Pooler(server, default_pool_size=1, server_check_delay="0.2") as pooler, pooler.connect() as client:
        pid = ask(client, "SELECT pg_backend_pid()")
        wait_until(lambda: pooler.show("SERVERS")[0]["state"] == "used")
        assert next(row["sv_used"] for row in pooler.show("POOLS") if row["database"] == "postgres") == "1"
        assert ask(client, "SELECT pg_backend_pid()") == pid
        # A check that fails costs the connection, not the client.
        pooler.psql("SET server_check_query = 'SELECT 1/0'", "pgbouncer")
        time.sleep(0.3)
        assert ask(client, "SELECT pg_backend_pid()") != pid


def test_a_database_of_the_asterisk_is_forgotten_when_nobody_uses_it(server):
    with Pooler(server, {"*": "", "kept": "dbname=postgres"}, autodb_idle_timeout="0.5") as pooler:
        pooler.psql("SELECT 1", "kept")
        with pooler.connect() as client:
            ask(client, "SELECT 1")
            assert {"postgres", "kept"} <= {row["database"] for row in pooler.show("POOLS")}
        wait_until(lambda: "postgres" not in {row["database"] for row in pooler.show("POOLS")})
        assert "kept" in {row["database"] for row in pooler.show("POOLS")}
        assert pooler.psql("SELECT 2") == "2"


def test_a_pool_that_nobody_uses_is_forgotten(server):
    with Pooler(server, {"seldom": "dbname=postgres"}, pool_idle_timeout="0.5", server_idle_timeout="0.2") as pooler:
        pooler.psql("SELECT 1", "seldom")
        wait_until(lambda: "seldom" not in {row["database"] for row in pooler.show("POOLS")})


def test_a_pool_with_a_minimum_and_a_user_is_filled_before_the_first_client(server):
    databases = {"filled": "dbname=postgres user=postgres min_pool_size=2", "empty": "dbname=postgres min_pool_size=2"}
    with Pooler(server, databases) as pooler:
        wait_until(lambda: [row["database"] for row in pooler.show("SERVERS")] == ["filled", "filled"])
        pid = pooler.show("SERVERS")[0]["remote_pid"]
        server.psql(f"SELECT pg_terminate_backend({pid})")
        wait_until(lambda: len({row["remote_pid"] for row in pooler.show("SERVERS")} - {pid}) == 2)


def test_fast_close_ends_sessions_at_the_end_of_their_transaction(server):
    with Pooler(server, pool_mode="session", server_fast_close=1) as pooler, Raw(pooler.port) as client:
        client.sql("BEGIN")
        pooler.psql("RECONNECT", "pgbouncer")
        assert not client.waiting(1.3)
        assert client.value("SELECT 2") == "2"
        client.sql("COMMIT")
        client.until(b"E")
        assert client.is_closed() and not pooler.show("SERVERS")
