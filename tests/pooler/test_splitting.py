"""Programs on a primary and its replicas with read/write splitting: what drivers ask of a server, and get here."""

import asyncio
import contextlib
import re

import asyncpg
import psycopg
import psycopg.sql
import pytest

from devkit.server import SUPERUSER, free_port
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, code, parse, query, values
from tests.pooler.trio import paused

PORT = "SELECT current_setting('here.port')::int"
INSERT = "INSERT INTO kept (a) VALUES (1)"
ON_REPLICA = "/* howdah: replica */ "


@pytest.fixture(scope="module")
def servers(steady_trio):
    """The servers with a table, and a role whose transactions are serializable."""
    steady_trio.primary.psql("CREATE TABLE kept (a int); CREATE ROLE careful LOGIN SUPERUSER")
    steady_trio.primary.psql("ALTER ROLE careful SET default_transaction_isolation = serializable")
    steady_trio.catch_up()
    yield steady_trio
    steady_trio.primary.psql("DROP TABLE kept; DROP ROLE careful")
    steady_trio.catch_up()


@contextlib.contextmanager
def split(trio, pooler="", app="", **options):
    """A pooler in transaction mode that has found its servers and knows what is a read."""
    settings = f'pool_mode = "transaction"\ndefault_pool_size = 4\nserver_login_retry = 0.2\n{pooler}'
    app = f"healthcheck_interval = 0.2\n{app}"
    with Pooler(trio.primary, name="howdah.toml", text=trio.toml(settings, app, **options)) as running:
        wait_until(lambda: [row["role"] for row in running.show("REPLICAS")] == ["primary", "replica", "replica"])
        yield running


def splits(pooler):
    """Waits until reads are told apart: the catalog has been read."""
    with Raw(pooler.port, "app") as client:
        wait_until(lambda: is_replica(ask(client, PORT), pooler))


@pytest.fixture(scope="module")
def pooler(servers):
    """One for tests that need no settings of their own."""
    with split(servers) as running:
        splits(running)
        yield running


@pytest.fixture
def client(pooler):
    """A client of it."""
    with Raw(pooler.port, "app") as connected:
        yield connected


def ask(client, sql):
    """The values that a statement answers, one of them as it is; an SQLSTATE if it fails."""
    client.send(query(sql))
    answer = client.until(b"Z")
    failed = [code(body) for kind, body in answer if kind == b"E"]
    found = failed or values(answer)
    return found[0] if len(found) == 1 else found


def is_replica(port, pooler):
    """Whether this is the port of a replica."""
    rows = pooler.show("REPLICAS")
    return next(row for row in rows if row["port"] == str(port))["role"] == "replica"


def place(pooler, user=SUPERUSER, **parameters):
    """Where libpq finds a pooler."""
    given = {"host": "127.0.0.1", "port": pooler.port, "dbname": "app", "user": user, **parameters}
    return psycopg.conninfo.make_conninfo(**given)


@pytest.mark.parametrize("app", ["", 'read_write_splitting = false\ndefault_role = "any"'])
def test_clients_that_want_the_primary_are_let_in_whoever_answered_first(servers, app):
    with split(servers, app=app) as pooler:
        with Raw(pooler.port, "app") as client:
            assert is_replica(ask(client, ON_REPLICA + PORT), pooler)
        for wanted in ("read-write", "primary", "prefer-standby", "any"):
            with psycopg.connect(place(pooler, target_session_attrs=wanted), autocommit=True) as connection:
                assert connection.info.parameter_status("in_hot_standby") == "off"
                assert connection.info.parameter_status("default_transaction_read_only") == "off"
                connection.execute("INSERT INTO kept VALUES (0)")
        for refused in ("read-only", "standby"):
            with pytest.raises(psycopg.OperationalError, match="session is not read-only|not in hot standby mode"):
                psycopg.connect(place(pooler, target_session_attrs=refused))


def test_a_session_that_may_write_is_told_so_when_it_asks(client):
    for name in ("transaction_read_only", "in_hot_standby"):
        assert {ask(client, f"SHOW {name}") for _ in range(8)} == {"off"}
    assert {ask(client, "SELECT pg_is_in_recovery()") for _ in range(8)} == {"f"}
    assert ask(client, "SET default_transaction_read_only = on") == []
    assert ask(client, "SHOW transaction_read_only") == "on"


def test_a_session_of_replicas_alone_is_told_the_truth(servers):
    app = 'read_write_splitting = false\ndefault_role = "replica"'
    with split(servers, app=app) as pooler:
        with psycopg.connect(place(pooler, target_session_attrs="standby"), autocommit=True) as connection:
            assert is_replica(connection.execute(PORT).fetchone()[0], pooler)
            assert connection.info.parameter_status("in_hot_standby") == "on"
            # A connection to the primary changes nothing.
            connection.execute("/* howdah: primary */ " + INSERT)
        with psycopg.connect(place(pooler, target_session_attrs="read-only")) as connection:
            assert connection.info.parameter_status("in_hot_standby") == "on"
        with pytest.raises(psycopg.OperationalError, match="hot standby"):
            psycopg.connect(place(pooler, target_session_attrs="primary"))


def test_without_a_primary_clients_are_let_in_and_their_writes_hear_why(servers):
    text = servers.toml("query_wait_timeout = 1", servers=servers.replicas, roles=("auto", "auto"))
    with (
        Pooler(servers.primary, name="howdah.toml", text=text) as pooler,
        psycopg.connect(place(pooler, target_session_attrs="primary"), autocommit=True) as connection,
    ):
        with pytest.raises(psycopg.errors.TooManyConnections, match="there is no primary now"):
            connection.execute(INSERT)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_what_pins_a_session_is_done_on_the_primary(pooler):
    for pinning in (
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "PREPARE p AS SELECT 1",
        "SELECT pg_advisory_lock(1)",
        "LISTEN c",
        "SET search_path = pg_temp, public",
    ):
        for _ in range(4):
            with Raw(pooler.port, "app") as client:
                ask(client, pinning)
                assert ask(client, "INSERT INTO public.kept VALUES (2)") == [], pinning


def test_serializable_transactions_that_only_read_are_done(pooler, client):
    """By what they say, by what the session has set, and by a default of the role."""
    read = "SELECT count(*) >= 0 FROM kept"
    for begin in (
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
    ):
        for _ in range(4):
            assert [ask(client, sql) for sql in (begin, read, "COMMIT")] == [[], "t", []]
    assert ask(client, "SET default_transaction_isolation = 'serializable'") == []
    with Raw(pooler.port, "app", user="careful") as careful:
        for each in (client, careful):
            # The first read that a replica refuses is asked again, and tells of the default.
            for _ in range(20):
                assert ask(each, read) == "t"
            for _ in range(4):
                each.send(parse("", read), bind(""), EXECUTE, SYNC)
                assert values(each.until(b"Z")) == ["t"]
                found = [ask(each, sql) for sql in ("BEGIN READ ONLY", "SHOW transaction_isolation", read, "COMMIT")]
                assert found == [[], "serializable", "t", []]


def test_asyncpg_prepares_writes_and_meets_wrong_types(pooler):
    async def lives(pool):
        async with pool.acquire() as connection:
            for sql in ("INSERT INTO kept VALUES ($1)", "SELECT a FROM kept WHERE a = $1"):
                statement = await connection.prepare(sql)
                with pytest.raises(asyncpg.DataError):
                    await statement.fetch("not a number")
            with pytest.raises(asyncpg.UndefinedTableError):
                await connection.prepare("SELECT * FROM missing")
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("INSERT INTO kept VALUES ($1)", 7)
        async with pool.acquire() as connection:
            await connection.copy_records_to_table("kept", records=[(8,)] * 3)
            await connection.prepare("SELECT count(*) FROM kept")
            async with connection.transaction():
                await connection.execute("DELETE FROM kept WHERE a = 8")

    async def all_of_it():
        given = {"host": "127.0.0.1", "port": pooler.port, "user": SUPERUSER, "database": "app", "ssl": False}
        async with asyncpg.create_pool(min_size=2, max_size=4, **given) as pool:
            for _ in range(5):
                await asyncio.gather(*(lives(pool) for _ in range(4)))

    asyncio.run(asyncio.wait_for(all_of_it(), 60))


def test_who_asks_for_the_primary_reads_what_it_has_written(servers):
    """Where reads need not see what their session has written, and each way around that."""
    read = "SELECT count(*) FROM kept WHERE a = {}"
    with split(servers, app='read_your_writes = "off"') as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        with paused(*servers.replicas):
            assert ask(client, "INSERT INTO kept VALUES (101)") == []
            assert ask(client, read.format(101)) == "0", "stale"
            assert ask(client, "/* howdah: primary */ " + read.format(101)) == "1"
            assert ask(client, "SET SERVER ROLE TO 'primary'") == []
            assert ask(client, read.format(101)) == "1"
            assert ask(client, "SET SERVER ROLE TO 'default'") == []
            assert ask(client, read.format(101)) == "0"
            assert ask(client, "BEGIN") == ask(client, "INSERT INTO kept VALUES (102)") == []
            assert ask(client, read.format(102)) == "1"
            assert ask(client, "COMMIT") == []
            assert ask(client, "SET PRIMARY READS TO on") == []
            assert {ask(client, read.format(101)) for _ in range(40)} == {"0", "1"}, "no remedy"
    app = 'read_write_splitting = false\ndefault_role = "primary"'
    with split(servers, app=app) as pooler, paused(*servers.replicas), Raw(pooler.port, "app") as client:
        assert ask(client, "INSERT INTO kept VALUES (103)") == []
        assert {ask(client, read.format(103)) for _ in range(10)} == {"1"}


def test_a_write_in_one_packet_behind_what_a_replica_does_is_done(client):
    for before in ("SET work_mem = '5MB'", "SELECT 1", "COMMIT"):
        for _ in range(5):
            if before == "COMMIT":
                assert client.sql("BEGIN READ ONLY") == "C:BEGIN Z:T"
            client.send(query(before), query(INSERT), query("SELECT 3"))
            client.until(b"Z")
            assert client.ask(units=2) == "C:INSERT 0 1 Z:I T D:3 C:SELECT 1 Z:I"


def test_a_client_hears_at_once_why_no_server_can_be_reached(servers):
    nowhere = free_port()
    listed = f'{{ host = "127.0.0.1", port = {nowhere} }}, {{ host = "localhost", port = {nowhere} }}'
    text = re.sub(r"servers = .*", f"servers = [{listed}]", servers.toml())
    with Pooler(servers.primary, name="howdah.toml", text=text) as pooler:
        with pytest.raises(psycopg.errors.OperationalError) as told:
            psycopg.connect(place(pooler, connect_timeout=10))
        for host in ("127.0.0.1", "localhost"):
            assert f"{host}:{nowhere}: Connection refused" in str(told.value)
        assert all("Connection refused" in row["error"] for row in pooler.show("REPLICAS"))


def test_a_client_hears_at_once_that_nobody_can_ask_the_servers(servers):
    text = servers.toml().replace('monitor_user = "postgres"', 'monitor_user = "nobody"')
    with Pooler(servers.primary, name="howdah.toml", text=text) as pooler:
        with pytest.raises(psycopg.OperationalError) as told:
            psycopg.connect(place(pooler, connect_timeout=10))
        assert 'role "nobody" does not exist' in str(told.value)
        assert all('role "nobody" does not exist' in row["error"] for row in pooler.show("REPLICAS"))
