"""Programs on a primary and its replicas with read/write splitting: what drivers ask of a server, and get here; and that
they read what they have written.
"""

import asyncio
import contextlib
import re
import threading
import urllib.request

import asyncpg
import psycopg
import psycopg.sql
import pytest

from devkit.server import SUPERUSER, free_port
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, code, message, parse, query, values
from tests.pooler.trio import paused

PORT = "SELECT current_setting('here.port')::int"
INSERT = "INSERT INTO kept (a) VALUES (1)"
ON_REPLICA = "/* howdah: replica */ "


@pytest.fixture(scope="module")
def servers(steady_trio):
    """The servers with a table, a function that writes to it, and a role whose transactions are serializable."""
    steady_trio.primary.psql("""
        CREATE TABLE kept (a int);
        CREATE FUNCTION keep(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO kept VALUES (n) RETURNING a';
        CREATE ROLE careful LOGIN SUPERUSER; ALTER ROLE careful SET default_transaction_isolation = serializable""")
    steady_trio.catch_up()
    yield steady_trio
    steady_trio.primary.psql("DROP FUNCTION keep; DROP TABLE kept; DROP ROLE careful")
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


def test_serializable_transactions_on_shards_are_on_primaries(servers):
    """A BEGIN is kept back until the shard is known; then a standby would refuse it."""
    shards = '[databases.sharded]\nshards = ["app"]\nsharding_function = "pg_bigint_hash"\n'
    on_replica = [[], [], "t", []]
    text = servers.toml('pool_mode = "transaction"', "healthcheck_interval = 0.2\n" + shards)
    with Pooler(servers.primary, name="howdah.toml", text=text) as pooler, Raw(pooler.port, "sharded") as client:
        read = f"SELECT current_setting('here.port')::int <> {servers.primary.port}"

        def found(*begin):
            return [ask(client, sql) for sql in (*begin, read, "COMMIT")]

        assert ask(client, "SET SHARD TO 0") == []
        wait_until(lambda: found("BEGIN READ ONLY", "SET LOCAL a.b = c") == on_replica)
        for _ in range(8):
            assert found("BEGIN READ ONLY", "SET LOCAL a.b = c") == on_replica
            assert found("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY") == [[], "f", []]
            assert found("BEGIN READ ONLY", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE") == [[], [], "f", []]


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


# Reads that replicas serve see what their session has committed


LAST = "SELECT coalesce(max(a), 0) FROM kept"


@pytest.fixture
def numbers(servers):
    """The servers with an empty table, replayed."""
    servers.primary.psql("TRUNCATE kept")
    servers.catch_up()
    return servers


def write(client, number):
    """Writes a number and waits until that is acknowledged."""
    assert client.sql(f"INSERT INTO kept VALUES ({number})") == "C:INSERT 0 1 Z:I"


WRITE = "INSERT INTO kept VALUES ({})"
# Units that write a number, each of which is answered once.
WRITES = [
    lambda n: [query(WRITE.format(n))],
    lambda n: [parse("", WRITE.format(n)) + bind("") + EXECUTE + SYNC],
    lambda n: [query(f"SELECT keep({n})")],
    lambda n: [query(f"WITH w AS ({WRITE.format(n)} RETURNING a) SELECT a FROM w")],
    lambda n: [query("COPY kept FROM STDIN") + message(b"d", f"{n}\n".encode()) + message(b"c")],
    lambda n: [query("BEGIN"), query("SELECT 1"), query(WRITE.format(n)), query("COMMIT")],
    lambda n: [query(f"BEGIN; {WRITE.format(n)}; COMMIT")],
    lambda n: [query(f"SELECT 1; {WRITE.format(n)}")],
    lambda n: [query(f"DO $$ BEGIN PERFORM keep({n}); END $$")],
]


def test_a_session_sees_its_own_commit(numbers, pooler, client):
    with paused(*numbers.replicas), Raw(pooler.port, "app") as other:
        for number, unit in enumerate(WRITES, 1):
            for sent in unit(number):
                assert "E:" not in client.ask(sent)
            assert ask(client, LAST) == str(number)
        # The read is behind the write before that is answered.
        assert client.ask(query(WRITE.format(90)), query(LAST), units=2) == "C:INSERT 0 1 Z:I T D:90 C:SELECT 1 Z:I"
        # Whoever has written nothing reads where reads go.
        assert ask(other, LAST) == "0"
        assert is_replica(ask(other, PORT), pooler)
    # Replicas serve the session again as soon as they have its commits.
    wait_until(lambda: is_replica(ask(client, PORT), pooler))
    assert ask(client, LAST) == "90"


def test_a_session_and_a_statement_choose(numbers):
    with split(numbers) as pooler, Raw(pooler.port, "app") as client, Raw(pooler.port, "app") as other:
        splits(pooler)
        assert ask(client, "SHOW READ YOUR WRITES") == "session"
        with paused(*numbers.replicas):
            write(client, 1)
            assert ask(client, f"/* howdah: stale */ {LAST}") == "0"
            assert ask(client, f"/* howdah: replica */ {LAST}") == "0"
            assert ask(client, LAST) == "1"
            assert ask(other, LAST) == "0"
            assert ask(other, f"/* howdah: fresh */ {LAST}") == "1"
            for value, seen in [("database", "1"), ("off", "0"), ("default", "0")]:
                assert other.sql(f"SET READ YOUR WRITES TO {value}") == "C:SET READ YOUR WRITES Z:I"
                assert ask(other, LAST) == seen
            assert client.sql("SET READ YOUR WRITES TO off") == "C:SET READ YOUR WRITES Z:I"
            assert ask(client, "SHOW READ YOUR WRITES") == "off"
            assert ask(client, LAST) == "0"
            # Its commits are no secret to others that ask for them.
            write(client, 2)
            assert ask(other, f"/* howdah: fresh */ {LAST}") == "2"


def test_metrics_count_reads_on_the_primary(numbers):
    port = free_port()
    with split(numbers, f"metrics_port = {port}") as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)

        def counted():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                lines = page.read().decode().splitlines()
            return sum(float(line.split()[-1]) for line in lines if "reads_on_primary_total{" in line)

        assert counted() == 0
        with paused(*numbers.replicas):
            write(client, 1)
            for _ in range(3):
                assert ask(client, LAST) == "1"
            wait_until(lambda: counted() == 3)


def test_the_replica_that_has_replayed_serves(numbers):
    slow, fast = numbers.replicas
    with split(numbers, "read_your_writes_wait = 5") as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        with paused(slow):
            for number in range(1, 10):
                write(client, number)
                assert ask(client, LAST) == str(number)
                # It has waited for that one, though the primary could have answered at once.
                assert ask(client, PORT) == str(fast.port)


def test_where_the_primary_is_not_read_it_still_serves_these(numbers):
    with split(numbers, app='primary_reads = "off"') as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        with paused(*numbers.replicas):
            write(client, 1)
            assert ask(client, LAST) == "1"


@contextlib.contextmanager
def delayed(replica, delay):
    """A replica that replays each commit so much later."""

    def replay_after(text):
        replica.psql(f"ALTER SYSTEM SET recovery_min_apply_delay = '{text}'")
        replica.psql("SELECT pg_reload_conf()")
        wait_until(lambda: replica.psql("SHOW recovery_min_apply_delay") == text)

    replay_after(delay)
    try:
        yield
    finally:
        replay_after("0")


def pairs(port, start, count, stale, ports):
    """Writes numbers of its own and reads each back, from the ports of servers."""
    with Raw(port, "app") as client:
        for number in range(start, start + count):
            write(client, number)
            found = ask(client, f"SELECT count(*), current_setting('here.port') FROM kept WHERE a = {number}")
            # A read whose server dies when it has begun to answer may fail.
            ports.append(found[1] if isinstance(found, list) else found)
            if isinstance(found, list) and found[0] != "1":
                stale.append((number, found))


def test_nobody_reads_back_less_than_was_written(numbers):
    """Eight sessions, while one replica is late, the other is restarted, and connections are made anew."""
    slow, other = numbers.replicas
    numbers.primary.psql("CREATE INDEX IF NOT EXISTS kept_a ON kept (a)")
    with split(numbers, "server_lifetime = 1") as pooler, delayed(slow, "30ms"):
        splits(pooler)
        stale, ports = [], []
        crowd = [
            threading.Thread(target=pairs, args=(pooler.port, 1_000_000 * who, 250, stale, ports))
            for who in range(1, 9)
        ]
        for each in crowd:
            each.start()
        wait_until(lambda: len(ports) > 300)
        numbers.kill(other)
        numbers.start(other)
        for each in crowd:
            each.join()
        assert len(ports) == 2000
        assert not stale, stale[:10]
        replicas = {str(replica.port) for replica in numbers.replicas}
        assert sum(port not in {*replicas, str(numbers.primary.port)} for port in ports) < 10
        assert replicas & set(ports), "replicas have a share"
