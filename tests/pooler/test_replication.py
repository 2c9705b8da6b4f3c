"""Replication connections: each has a server connection of its own, and everything is passed on."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import signal
import subprocess

import pytest

from devkit import postgres
from devkit.server import SUPERUSER, Server, environment
from tests.pooler import raw
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import Raw, query, refusal

WALSENDERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'"
TEMPORARY = "CREATE_REPLICATION_SLOT {} TEMPORARY PHYSICAL"


@pytest.fixture(scope="module")
def source(major):
    """A server whose changes can be decoded, with a role that may replicate and one that may not."""
    with Server(postgres.tree(major), {"wal_level": "logical", "max_wal_senders": "20"}) as server:
        server.psql(
            f"""SET password_encryption = 'scram-sha-256';
            CREATE ROLE copier LOGIN REPLICATION PASSWORD '{PASSWORD}'; CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}';
            CREATE TABLE t (a int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t"""
        )
        yield server


@pytest.fixture
def pooler(source):
    """A pooler in front of it."""
    with Pooler(source, default_pool_size=2) as running:
        yield running
    # Nothing is left behind.
    wait_until(lambda: source.psql(WALSENDERS) == "0")


def run(pooler, program, *arguments, database="", timeout=60):
    """The bytes that a program of PostgreSQL prints, run through the pooler."""
    place = ["-h", "127.0.0.1", "-p", str(pooler.port), "-U", SUPERUSER, *(["-d", database] if database else [])]
    command = [pooler.server.tree.program(program), *place, *arguments]
    done = subprocess.run(
        command, capture_output=True, env=environment(), timeout=timeout, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def physical(pooler, **options):
    """A connection of physical replication."""
    return Raw(pooler.port, "replication", replication="true", **options)


def logical(pooler, **options):
    """A connection of logical replication."""
    return Raw(pooler.port, "postgres", replication="database", **options)


def stream(client, source, slot=""):
    """Has a client stream the changes of the whole server from here on."""
    at = source.psql("SELECT pg_current_wal_lsn()")
    client.send(query(f"START_REPLICATION {slot} PHYSICAL {at}"))
    assert client.next()[0] == b"W"


# PostgreSQL's own programs


def test_a_base_backup_comes_whole(source, pooler):
    source.psql("INSERT INTO t SELECT generate_series(1, 5000)")
    with contextlib.closing(Server(source.tree)) as copy:
        copy._own_home()
        place = ["-h", "127.0.0.1", "-p", str(pooler.port), "-U", SUPERUSER]
        copy.run_as_server("pg_basebackup", *place, "-D", str(copy.data), "-X", "stream", "-c", "fast", "--no-sync")
        copy.start()
        assert copy.psql("SELECT count(*) FROM t") == "5000"
    source.psql("TRUNCATE t")
    assert pooler.psql("SELECT 1") == "1"


def test_changes_are_decoded(source, pooler):
    run(pooler, "pg_recvlogical", "--slot", "mine", "--create-slot", "-P", "pgoutput", database="postgres")
    try:
        source.psql("INSERT INTO t VALUES (4711)")
        end = source.psql("SELECT pg_current_wal_lsn()")
        start = ["--slot", "mine", "--start", "-f", "-", "--no-loop", "--endpos", end]
        options = ["-o", "proto_version=1", "-o", "publication_names=p"]
        assert b"4711" in run(pooler, "pg_recvlogical", *start, *options, database="postgres")
    finally:
        run(pooler, "pg_recvlogical", "--slot", "mine", "--drop-slot", database="postgres")
        source.psql("TRUNCATE t")


def test_a_standby_follows_through_the_pooler(source, pooler):
    place = f"host=127.0.0.1 port={pooler.port} user={SUPERUSER} application_name=through"
    with source.replica({"primary_conninfo": place}) as standby:
        source.psql("INSERT INTO t VALUES (1)")
        source.wait_for_replay(standby)
        assert source.psql("SELECT application_name FROM pg_stat_replication") == "through"
        [row] = [row for row in pooler.show("CLIENTS") if row["replication"] == "physical"]
        assert (row["database"], row["application_name"]) == ("replication", "through")
        slot = source.psql("SELECT slot_name FROM pg_replication_slots")
    wait_until(lambda: source.psql(WALSENDERS) == "0")
    source.psql(f"SELECT pg_drop_replication_slot('{slot}'); TRUNCATE t")


# What is passed on, and to whom


def test_the_user_and_the_parameters_are_the_clients(source):
    users = {"copier": PASSWORD, "reader": PASSWORD, SUPERUSER: ""}
    with Pooler(source, users=users, auth_type="trust") as pooler:
        options = "-c work_mem=3MB -c search_path=x"
        with logical(pooler, user="copier", application_name="me", options=options) as client:
            assert client.value("SELECT current_user") == "copier"
            assert client.value("SHOW work_mem") == "3MB" and client.value("SHOW search_path") == "x"
            told = raw.parameters(client.greeting)
            assert told["application_name"] == "me" and told["server_version"] and told["is_superuser"] == "off"
            [row] = [row for row in pooler.show("CLIENTS") if row["user"] == "copier"]
            assert (row["replication"], row["state"], row["application_name"]) == ("logical", "active", "me")
            assert [row["replication"] for row in pooler.show("SERVERS")] == ["logical"]
            # Errors of a command are the server's, and the connection goes on.
            assert client.sql("NONSENSE").startswith("E:42601")
            assert client.sql("IDENTIFY_SYSTEM").endswith("C:IDENTIFY_SYSTEM Z:I")
        # The server's own words, and its code.
        code, text = refusal(pooler.port, "postgres", "reader", replication="database")
        assert code == "42501" and "replication" in text
        # Nobody else is the worse for it.
        assert pooler.psql("SELECT 1", user="reader") == "1"


def test_what_is_no_replication_connection_is_refused_or_is_none(source):
    with Pooler(source, {"app": "dbname=postgres"}) as pooler:
        wrong = 'invalid value for parameter "replication": "2": expected database or a Boolean'
        assert refusal(pooler.port, "app", replication="2") == ("22023", wrong)
        assert refusal(pooler.port, "replication", replication="true")[0] == "3D000"
        assert refusal(pooler.port, "pgbouncer", replication="database")[0] == "0A000"
        with Raw(pooler.port, "app", replication="off") as client:
            assert client.value("SELECT 1") == "1"
        # The entry of the database is kept to.
        with Raw(pooler.port, "app", replication="database") as client:
            assert client.value("SELECT current_database()") == "postgres"


# Its life


def test_each_side_ends_with_the_other(source, pooler):
    with physical(pooler) as client:
        stream(client, source)
        assert source.psql(WALSENDERS) == "1"
        client.reset()
    wait_until(lambda: source.psql(WALSENDERS) == "0")
    with physical(pooler) as client:
        client.sql("IDENTIFY_SYSTEM")
        source.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'")
        kind, body = client.next()
        assert (kind, raw.code(body)) == (b"E", "57P01") and client.is_closed()
    wait_until(lambda: not pooler.show("SERVERS"))
    [pool] = [row for row in pooler.show("POOLS") if row["database"] == "replication"]
    assert (pool["cl_active"], pool["sv_active"]) == ("0", "0")


def test_a_command_is_cancelled(source, pooler):
    with logical(pooler) as client:
        client.send(query("SELECT pg_sleep(60)"))
        wait_until(lambda: source.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1")
        client.cancel(pooler.port)
        assert raw.show(client.until(b"Z")) == "T E:57014 Z:I"


def test_limits_hold_and_the_pool_is_not_used_up(source):
    databases = {"app": "dbname=postgres max_db_connections=2", "*": ""}
    with Pooler(source, databases, default_pool_size=1, max_client_conn=3) as pooler:
        with Raw(pooler.port, "app") as plain, Raw(pooler.port, "app", replication="database") as first:
            # It has no place of the pool, which has one only.
            assert plain.sql("BEGIN") == "C:BEGIN Z:T"
            with Raw(pooler.port, login=False) as second:
                second.send(raw.startup("app", replication="database"))
                wait_until(lambda: any(row["cl_waiting"] == "1" for row in pooler.show("POOLS")))
                # There is no place for one more client either.
                assert refusal(pooler.port, "app", replication="database")[0] == "53300"
                assert "Z" not in "".join(kind.decode() for kind, _ in second.until(b"R"))
                first.socket.close()
                second.until(b"Z")
                assert second.value("SELECT 1") == "1"
            assert plain.sql("COMMIT") == "C:COMMIT Z:I"


def test_a_drain_ends_a_stream_and_waits_for_a_command(source):
    with Pooler(source) as pooler:
        with physical(pooler) as streaming, logical(pooler) as busy, logical(pooler) as idle:
            stream(streaming, source)
            idle.sql("IDENTIFY_SYSTEM")
            busy.send(query("SELECT pg_sleep(0.5), 'done'"))
            wait_until(lambda: source.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1")
            pooler.process.send_signal(signal.SIGINT)
            for client in (streaming, idle):
                *_, (_, body) = client.until(b"E")
                assert raw.code(body) == "57P01" and client.is_closed()
            assert raw.values(busy.until(b"Z"))[-1] == "done"
            assert busy.next()[0] == b"E" and busy.is_closed()
        assert pooler.process.wait(10) == 0


def test_it_leads_to_the_primary(steady_trio):
    with Pooler(steady_trio.primary, name="howdah.toml", text=steady_trio.toml()) as pooler:
        for _ in range(4):
            with Raw(pooler.port, "app", replication="database") as client:
                assert client.value("SELECT pg_is_in_recovery()") == "f"
        with pooler.connect("app") as plain:
            assert ask(plain, "SELECT 1") == [(1,)]
