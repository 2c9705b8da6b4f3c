"""Programs on a primary and its replicas with read/write splitting: what drivers ask of a server, and get here."""

import asyncio
import contextlib

import asyncpg
import psycopg
import psycopg.sql
import pytest

from devkit.server import SUPERUSER, free_port
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, close, code, describe, message, parse, query, show, values
from tests.pooler.trio import three

PORT = "SELECT current_setting('here.port')::int"
INSERT = "INSERT INTO kept (a) VALUES (1)"
ON_REPLICA = "/* howdah: replica */ "


@pytest.fixture(scope="module")
def servers(major):
    """Three servers for tests that leave them as they were."""
    with three(major) as trio:
        trio.primary.psql("CREATE TABLE kept (a int); CREATE ROLE careful LOGIN SUPERUSER")
        trio.primary.psql("ALTER ROLE careful SET default_transaction_isolation = serializable")
        trio.catch_up()
        yield trio


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


def greeting(client):
    """The parameters that a client was greeted with."""
    told = [body.split(b"\0")[:2] for kind, body in client.greeting if kind == b"S"]
    return {name.decode(): value.decode() for name, value in told}


# Who looks for the primary


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


def test_a_session_that_may_write_is_told_so_when_it_asks(servers):
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for name, expected in [("transaction_read_only", "off"), ("in_hot_standby", "off")]:
            assert {ask(client, f"SHOW {name}") for _ in range(8)} == {expected}
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


@contextlib.contextmanager
def read_only(server):
    """A server whose configuration makes transactions read-only, which it reports."""
    try:
        server.psql("ALTER SYSTEM SET default_transaction_read_only = on")
        server.psql("SELECT pg_reload_conf()")
        yield
    finally:
        server.psql("ALTER SYSTEM RESET default_transaction_read_only")
        server.psql("SELECT pg_reload_conf()")


def test_how_a_replica_is_configured_is_told_to_nobody(servers):
    with contextlib.ExitStack() as stack:
        for replica in servers.replicas:
            stack.enter_context(read_only(replica))
        pooler = stack.enter_context(split(servers))
        client = stack.enter_context(Raw(pooler.port, "app"))
        wait_until(lambda: ask(client, ON_REPLICA + "SHOW default_transaction_read_only") == "on")
        told = greeting(stack.enter_context(Raw(pooler.port, "app")))
        assert (told["in_hot_standby"], told["default_transaction_read_only"]) == ("off", "off")


def test_what_a_replica_reports_of_itself_later_reaches_nobody(servers):
    one = servers.replicas[0]
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        while ask(client, ON_REPLICA + "BEGIN READ ONLY") == [] and ask(client, PORT) != str(one.port):
            ask(client, "ROLLBACK")
        with read_only(one):
            found = None
            while found != ["on"]:
                client.send(query("SHOW default_transaction_read_only"))
                told = client.until(b"Z")
                assert [body for kind, body in told if kind == b"S"] == []
                found = values(told)
            assert ask(client, "COMMIT") == []
            assert ask(client, INSERT) == []


# What keeps a session where it is


def test_a_cursor_with_hold_leaves_its_session_able_to_write(servers):
    with split(servers) as pooler:
        splits(pooler)
        for _ in range(5):
            with psycopg.connect(place(pooler), autocommit=True) as connection:
                with connection.cursor("held", withhold=True) as cursor:
                    cursor.execute("SELECT g FROM generate_series(1, 30) g")
                    assert cursor.fetchmany(2) == [(1,), (2,)]
                    connection.execute(INSERT)
                    assert cursor.fetchone() == (3,)
                connection.execute(INSERT)


def test_a_session_is_free_again_when_its_last_cursor_with_hold_is_closed(servers):
    """Made in a read-only transaction, which is on a replica, the cursor stays there, and its session with it."""
    declare = "DECLARE {} CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 9) g"
    with split(servers) as pooler:
        splits(pooler)
        for closing in (["CLOSE a", "CLOSE b"], ["CLOSE ALL"]):
            with Raw(pooler.port, "app") as client:
                assert ask(client, "BEGIN READ ONLY") == []
                assert is_replica(ask(client, PORT), pooler)
                assert ask(client, declare.format("a")) == ask(client, declare.format("b")) == []
                assert ask(client, "COMMIT") == []
                assert ask(client, "FETCH 2 FROM a") == ["1", "2"]
                for sql in closing:
                    assert ask(client, INSERT) == "25006", "it is where its cursors are"
                    assert ask(client, sql) == []
                assert ask(client, INSERT) == []


def test_a_connection_is_lent_again_when_its_clients_last_cursor_with_hold_is_closed(server):
    declare = "DECLARE a CURSOR WITH HOLD FOR SELECT 1"
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as other:
        # What a query calls may pin too, for all that is known before.
        pooler.wait_for_catalog()
        for begin, end in (([], ["CLOSE a"]), (["BEGIN"], ["ROLLBACK"]), (["BEGIN"], ["COMMIT", "CLOSE a"])):
            for sql in [*begin, declare]:
                assert ask(one, sql) == []
            other.send(query("SELECT 7"))
            for sql in end:
                assert ask(one, sql) == []
            assert values(other.until(b"Z")) == ["7"]
            assert ask(other, "SELECT count(*) FROM pg_cursors WHERE is_holdable") == "0"


@pytest.mark.parametrize("role", ["auto", "any"])
def test_what_pins_a_session_is_done_on_the_primary(servers, role):
    with split(servers) as pooler:
        splits(pooler)
        for pinning in (
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "PREPARE p AS SELECT 1",
            "SELECT pg_advisory_lock(1)",
            "LISTEN c",
            "SET search_path = pg_temp, public",
        ):
            for _ in range(4):
                with Raw(pooler.port, "app") as client:
                    ask(client, f"SET SERVER ROLE TO '{role}'")
                    ask(client, pinning)
                    assert ask(client, "INSERT INTO public.kept VALUES (2)") == [], pinning


# Serializable transactions


SERIALIZABLE = [
    "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
    "BEGIN TRANSACTION READ ONLY, ISOLATION LEVEL SERIALIZABLE",
]
AS_DEFAULT = [
    "SET default_transaction_isolation = 'serializable'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
]


@pytest.mark.parametrize("begin", SERIALIZABLE)
def test_serializable_transactions_that_only_read_are_done(servers, begin):
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for role in ("auto", "any"):
            ask(client, f"SET SERVER ROLE TO '{role}'")
            for _ in range(4):
                assert ask(client, begin) == []
                assert ask(client, "SHOW transaction_isolation") == "serializable"
                assert ask(client, "SELECT count(*) >= 0 FROM kept") == "t"
                assert ask(client, "COMMIT") == []


@pytest.mark.parametrize("default", AS_DEFAULT)
def test_transactions_that_are_serializable_by_what_a_session_has_set_are_done(servers, default):
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        assert ask(client, default) == []
        still_reads(client)
        ask(client, "SET default_transaction_isolation = 'repeatable read'")
        ask(client, "RESET default_transaction_isolation")


def test_transactions_that_are_serializable_by_what_a_client_came_with_are_done(servers):
    with split(servers, app='read_your_writes = "off"') as pooler:
        splits(pooler)
        with Raw(pooler.port, "app", options="-c default_transaction_isolation=serializable") as client:
            still_reads(client)
            for _ in range(4):
                assert ask(client, "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ") == []
                assert is_replica(ask(client, PORT), pooler)
                assert ask(client, "COMMIT") == []


def test_transactions_that_are_serializable_by_a_default_of_the_role_are_done(servers):
    with split(servers) as pooler:
        with Raw(pooler.port, "app", user="careful") as client:
            pooler.wait_for_catalog()
            # The first read that a replica refuses is asked again, and tells of the default.
            for _ in range(20):
                assert ask(client, "SELECT count(*) >= 0 FROM kept") == "t"
            still_reads(client)
        splits(pooler)


def still_reads(client):
    """Reads of a client whose transactions are serializable are answered, in transactions and outside."""
    for _ in range(4):
        assert ask(client, "SELECT count(*) >= 0 FROM kept") == "t"
        client.send(parse("", "SELECT count(*) >= 0 FROM kept"), bind(""), EXECUTE, SYNC)
        assert values(client.until(b"Z")) == ["t"]
        assert ask(client, "BEGIN READ ONLY") == []
        assert ask(client, "SHOW transaction_isolation") == "serializable"
        assert ask(client, "SELECT count(*) >= 0 FROM kept") == "t"
        assert ask(client, "COMMIT") == []


# Units whose end has not come


def test_a_unit_whose_end_has_not_come_may_write(servers):
    with split(servers) as pooler:
        splits(pooler)
        for _ in range(4):
            with Raw(pooler.port, "app") as client:
                assert client.kinds(parse("s", "SELECT 1"), describe("s"), FLUSH, until=b"T") == "1tT"
                assert client.kinds(parse("w", INSERT), bind("w"), EXECUTE, SYNC) == "12CZ"
                assert ask(client, INSERT) == []
            with Raw(pooler.port, "app") as client:
                assert client.kinds(parse("", "SELECT 1"), bind(""), EXECUTE, FLUSH, until=b"C") == "12DC"
                assert client.kinds(parse("", INSERT), bind(""), EXECUTE, SYNC) == "12CZ"
                assert ask(client, INSERT) == []


def test_a_write_at_the_end_of_a_long_unit_is_done(servers):
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for length in (20_000, 60_000, 200_000):
            read = parse("", f"SELECT '{'x' * length}'") + bind("") + EXECUTE
            for _ in range(4):
                assert client.kinds(read, parse("", INSERT), bind(""), EXECUTE, SYNC) == "12DC12CZ"


def test_a_long_read_and_one_behind_a_close_go_to_a_replica(servers):
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for sent in (
            query(f"{PORT} /* {'x' * 30_000} */"),
            parse("", f"{PORT} /* {'x' * 30_000} */") + bind("") + EXECUTE + SYNC,
            close("s") + parse("", PORT) + bind("") + EXECUTE + SYNC,
        ):
            for _ in range(4):
                client.send(sent)
                assert is_replica(values(client.until(b"Z"))[0], pooler)


def test_asyncpg_prepares_writes_and_meets_wrong_types(servers):
    async def lives(pool):
        async with pool.acquire() as connection:
            for sql in ("INSERT INTO kept VALUES ($1)", "SELECT a FROM kept WHERE a = $1"):
                statement = await connection.prepare(sql)
                with pytest.raises(asyncpg.DataError):
                    await statement.fetch("not a number")
            with pytest.raises(asyncpg.UndefinedTableError):
                await connection.prepare("SELECT * FROM missing")
        async with pool.acquire() as connection:
            await connection.prepare("SELECT a FROM kept WHERE a = $1")
            await connection.execute(INSERT)
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("INSERT INTO kept VALUES ($1)", 7)
        async with pool.acquire() as connection:
            await connection.copy_records_to_table("kept", records=[(8,)] * 3)
            await connection.prepare("SELECT count(*) FROM kept")
            async with connection.transaction():
                await connection.execute("DELETE FROM kept WHERE a = 8")

    async def all_of_it(port):
        given = {"host": "127.0.0.1", "port": port, "user": SUPERUSER, "database": "app", "ssl": False}
        async with asyncpg.create_pool(min_size=2, max_size=4, **given) as pool:
            for _ in range(5):
                await asyncio.gather(*(lives(pool) for _ in range(4)))

    with split(servers) as pooler:
        splits(pooler)
        asyncio.run(asyncio.wait_for(all_of_it(pooler.port), 60))


# Reads after one's own write


@contextlib.contextmanager
def behind(servers):
    """Replicas that replay nothing of what the primary writes meanwhile."""
    try:
        for replica in servers.replicas:
            replica.psql("SELECT pg_wal_replay_pause()")
            wait_until(lambda replica=replica: replica.psql("SELECT pg_get_wal_replay_pause_state()") == "paused")
        yield
    finally:
        for replica in servers.replicas:
            replica.psql("SELECT pg_wal_replay_resume()")
        servers.catch_up()


def test_who_asks_for_the_primary_reads_what_it_has_written(servers):
    """Where reads need not see what their session has written, and each way around that."""
    read = "SELECT count(*) FROM kept WHERE a = {}"
    with split(servers, app='read_your_writes = "off"') as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        with behind(servers):
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
    with split(servers, app=app) as pooler, behind(servers), Raw(pooler.port, "app") as client:
        assert ask(client, "INSERT INTO kept VALUES (103)") == []
        assert {ask(client, read.format(103)) for _ in range(10)} == {"1"}


BEHIND = {
    "a setting": (query("SET work_mem = '5MB'"), 1),
    "a reset": (query("DISCARD ALL"), 1),
    "a commit": (query("COMMIT"), 1),
    "a read": (query("SELECT 1"), 1),
    "reads": (parse("", "SELECT 1") + bind("") + EXECUTE + SYNC + query("SELECT 2"), 2),
}


@pytest.mark.parametrize("pipelining", ["true", "false"])
@pytest.mark.parametrize("first", BEHIND)
def test_a_write_in_one_packet_behind_what_a_replica_does_is_done(servers, first, pipelining):
    sent, units = BEHIND[first]
    with split(servers, f"pipelining = {pipelining}") as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for _ in range(5):
            client.send(sent + query(INSERT) + query("SELECT 3"))
            for _ in range(units):
                client.until(b"Z")
            assert client.ask(units=2) == "C:INSERT 0 1 Z:I T D:3 C:SELECT 1 Z:I"
            client.send(sent + query("BEGIN") + query(INSERT) + query("COMMIT"))
            for _ in range(units):
                client.until(b"Z")
            assert client.ask(units=3) == "C:BEGIN Z:T C:INSERT 0 1 Z:T C:COMMIT Z:I"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "COMMIT; SELECT 1"])
def test_a_write_in_one_packet_behind_the_end_of_a_transaction_on_a_replica_is_done(servers, end):
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for _ in range(5):
            assert client.sql("BEGIN READ ONLY") == "C:BEGIN Z:T"
            client.send(query("SELECT 1"), query(end), query(INSERT), query("SELECT 3"))
            for _ in range(2):
                client.until(b"Z")
            assert client.ask(units=2) == "C:INSERT 0 1 Z:I T D:3 C:SELECT 1 Z:I"


# Nobody there


def test_a_client_hears_at_once_why_no_server_can_be_reached(servers):
    nowhere = free_port()
    text = f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
monitor_user = "postgres"
[databases.app]
dbname = "postgres"
servers = [{{ host = "127.0.0.1", port = {nowhere} }}, {{ host = "localhost", port = {nowhere} }}]
"""
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


@pytest.mark.parametrize("limit", ["query_wait_timeout", "client_login_timeout"])
def test_a_client_that_waits_to_be_greeted_hears_why_in_time(servers, limit):
    text = servers.toml(f"{limit} = 1", servers=servers.replicas, roles=("auto", "auto"))
    with Pooler(servers.primary, name="howdah.toml", text=text) as pooler:
        for replica in servers.replicas:
            wait_until(lambda: [row["role"] for row in pooler.show("REPLICAS")] == ["replica", "replica"])
            pooler.psql(f"BAN {replica.socket_folder}:{replica.port}", "pgbouncer")
        with pytest.raises(psycopg.OperationalError) as told:
            psycopg.connect(place(pooler, connect_timeout=10))
        assert limit in str(told.value)
        assert f"{servers.replicas[0].port} banned" in str(told.value)


def test_a_client_of_a_paused_database_that_waits_to_be_greeted_hears_so_in_time(servers):
    with Pooler(servers.primary, query_wait_timeout=1) as pooler:
        pooler.psql("PAUSE", "pgbouncer")
        with pytest.raises(psycopg.OperationalError, match='query_wait_timeout: database "postgres" is paused'):
            psycopg.connect(place(pooler, dbname="postgres", connect_timeout=10))


def test_a_write_that_commits_itself_runs_once(servers):
    # The copy of the second statement is of before the change: the error is for the client, since the first has run.
    sql = "REINDEX INDEX CONCURRENTLY once_a_idx"
    servers.primary.psql("CREATE TABLE once (a int); CREATE INDEX ON once (a)")
    servers.primary.psql("ALTER SYSTEM SET log_statement = 'all'")
    servers.primary.psql("SELECT pg_reload_conf()")
    servers.catch_up()
    try:
        with split(servers) as pooler:
            splits(pooler)
            with Raw(pooler.port, "app") as client:
                client.ask(parse("w", "INSERT INTO once (a) VALUES (7) RETURNING *"), describe("w"), SYNC)
                for _ in range(6):
                    assert client.ask(bind("w"), EXECUTE, SYNC) == "2 D:7 C:INSERT 0 1 Z:I"
                assert client.ask(parse("u", sql), SYNC) == "1 Z:I"
                servers.primary.psql("ALTER TABLE once ADD b int")
                assert client.ask(bind("u"), EXECUTE, bind("w"), EXECUTE, SYNC) == "2 C:REINDEX E:0A000 Z:I"
        runs = [line for line in servers.primary.log.read_text().splitlines() if "execute" in line and sql in line]
        assert len(runs) == 1, runs
    finally:
        servers.primary.psql("DROP TABLE once")
        servers.primary.psql("ALTER SYSTEM RESET log_statement")
        servers.primary.psql("SELECT pg_reload_conf()")


def test_ends_of_no_copy_send_no_write_to_a_replica(servers):
    stray = message(b"c")
    with split(servers) as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        for _ in range(5):
            begin, end = query("BEGIN READ ONLY"), query("COMMIT")
            client.send(begin, stray, end, stray, query("INSERT INTO kept VALUES (1)"), stray)
            assert "E:" not in show([answer for _ in range(3) for answer in client.until(b"Z")])


def test_a_definition_parts_the_statements_before_it_from_those_after_it(servers):
    """A table that hides the one that a shared statement reads, made by a client with splitting: at once, on replicas too."""
    servers.primary.psql("CREATE SCHEMA tenant; CREATE TABLE hidden AS SELECT 'public' AS v")
    servers.catch_up()
    path, read = "SET search_path = tenant, public", "SELECT v FROM hidden"
    try:
        with split(servers) as pooler:
            splits(pooler)
            with contextlib.ExitStack() as stack:
                others = [stack.enter_context(Raw(pooler.port, "app")) for _ in range(3)]
                maker, late = (stack.enter_context(Raw(pooler.port, "app")) for _ in range(2))
                for client in (*others, maker, late):
                    client.sql(path)
                for client in others * 3:
                    client.ask(parse("s", read), SYNC)
                    assert "public" in client.ask(bind("s"), EXECUTE, close("s"), SYNC)
                maker.sql("CREATE TABLE tenant.hidden AS SELECT 'tenant' AS v")
                for client in (maker, late):
                    client.ask(parse("s", read), SYNC)
                    servers.catch_up()
                    for _ in range(3):
                        assert "tenant" in client.ask(bind("s"), EXECUTE, SYNC)
    finally:
        servers.primary.psql("DROP SCHEMA tenant CASCADE; DROP TABLE hidden")
        servers.catch_up()
