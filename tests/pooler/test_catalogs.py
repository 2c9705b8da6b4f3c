"""What is known of a database's functions, operators and views: who decides it, when it is read, and what is done while
it may be wrong.
"""

import contextlib
import struct
import time

import pytest

from devkit.server import Server
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, describe, direct, message, parse, query
from tests.pooler.test_metrics import Measured, value

READERS = "FROM pg_stat_activity WHERE application_name = 'howdah catalog'"
STEADY = "CREATE OR REPLACE FUNCTION note(a text) RETURNS text STABLE LANGUAGE sql AS $$ SELECT a $$"
WRITING = """CREATE OR REPLACE FUNCTION note(a text) RETURNS text VOLATILE LANGUAGE sql
    AS $$ INSERT INTO noted VALUES (a) RETURNING x $$"""


@pytest.fixture
def noted(server):
    """The name of a database with a function that only reads, for now; made for a role `app` that owns it."""
    server.psql("DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    server.psql("ALTER ROLE app CONNECTION LIMIT -1; ALTER ROLE app RESET ALL")
    server.psql("CREATE DATABASE noted OWNER app")
    server.psql(f"SET ROLE app; CREATE TABLE noted (x text); {STEADY}", "noted")
    yield "noted"
    server.psql("DROP DATABASE noted WITH (FORCE)")


class Counting(Measured):
    """A pooler that tells how often statements shared a connection, and why they did not."""

    def pipelined(self, database):
        """Statements that shared a connection."""
        return value(self.samples()["howdah_pooler_pipelined_statements"], database=database)

    def unpipelined(self, database, reason):
        """Those that did not, for a reason."""
        return value(self.samples()["howdah_pooler_unpipelined_statements"], database=database, reason=reason)

    def wait_for_sharing(self, client, database, sql="SELECT note('w')", seconds=20):
        """Asks until a statement shares a connection, as one does whose catalog is known and that is a read by it."""
        deadline = time.monotonic() + seconds
        before = self.pipelined(database)
        while self.pipelined(database) == before:
            assert time.monotonic() < deadline, f"{sql} shares no connection: {self.log.read_text()}"
            client.kinds(query(sql))
            time.sleep(0.02)


def test_who_puts_operators_in_his_search_path_decides_nothing(server, noted):
    server.psql(WRITING, noted)
    server.psql("DROP ROLE IF EXISTS mallory")
    server.psql("CREATE ROLE mallory LOGIN")
    server.psql(
        """CREATE SCHEMA mallory AUTHORIZATION mallory; ALTER ROLE mallory SET search_path = mallory, pg_catalog;
        CREATE FUNCTION mallory.eq("char", "char") RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR mallory.= (leftarg = "char", rightarg = "char", function = mallory.eq);
        CREATE FUNCTION mallory.eq(oid, oid) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT false';
        CREATE OPERATOR mallory.= (leftarg = oid, rightarg = oid, function = mallory.eq);
        CREATE FUNCTION mallory.max(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 0';
        CREATE VIEW mallory.pg_proc AS SELECT 1 AS a; CREATE DOMAIN mallory.text AS pg_catalog.text;
        GRANT USAGE ON SCHEMA mallory TO PUBLIC""",
        noted,
    )
    try:
        # The only pool that there is, whose account the catalog is read by, and it is used all the time.
        with Counting(server, default_pool_size=1) as pooler, Raw(pooler.port, noted, user="mallory") as mallory:
            mallory.kinds(query("SET search_path = mallory, pg_catalog"))
            wait_until(lambda: server.psql(f"SELECT count(*) {READERS}") == "1")
            pooler.wait_for_sharing(mallory, noted, "SELECT 'a'")
            for _ in range(5):
                mallory.kinds(query("SELECT note('x')"))
            assert pooler.unpipelined(noted, "volatile") >= 5
            assert server.psql(f"SELECT DISTINCT usename {READERS}") == "mallory"
    finally:
        server.psql("DROP OWNED BY mallory CASCADE", noted)
        server.psql("DROP ROLE mallory")


def test_what_was_defined_straight_at_the_server_is_noticed(server, noted):
    with Counting(server, default_pool_size=1) as pooler, Raw(pooler.port, noted) as client:
        pooler.wait_for_sharing(client, noted)
        # One that writes would be found out by the server: what is shared runs in read-only transactions.
        server.psql("ALTER FUNCTION note(text) VOLATILE", noted)
        defined = time.monotonic()
        before = pooler.unpipelined(noted, "volatile")
        while pooler.unpipelined(noted, "volatile") == before:
            # The bound that the guide states, and some time for a busy machine.
            assert time.monotonic() < defined + 5 + 5
            client.kinds(query("SELECT note('direct')"))
            time.sleep(0.05)
        assert server.psql(f"SELECT count(*) {READERS}") == "1", "one connection for it, however long it is used"


def test_a_paused_database_can_be_dropped(server):
    """The connection that reads the catalog leaves after those of the pools, within the time that PostgreSQL waits."""
    server.psql("CREATE DATABASE doomed")
    server.psql(STEADY, "doomed")
    reads = f"SELECT count(*) {READERS} AND datname = 'doomed'"
    with Counting(server) as pooler, Raw(pooler.port, "doomed") as client:
        pooler.wait_for_sharing(client, "doomed")
        assert server.psql(reads) == "1"
        pooler.psql("PAUSE doomed", "pgbouncer")
        server.psql("DROP DATABASE doomed")
        server.psql("CREATE DATABASE doomed")
        server.psql(STEADY, "doomed")
        pooler.psql("RESUME doomed", "pgbouncer")
        pooler.wait_for_sharing(client, "doomed")
        wait_until(lambda: server.psql(reads) == "1")
    server.psql("DROP DATABASE doomed WITH (FORCE)")


def test_the_readers_make_way_for_clients_of_a_full_server(server):
    """Many small databases on a server with few connections, as those of tenants are."""
    names = [f"tenant{number}" for number in range(8)]
    with Server(
        server.tree, {"max_connections": 12, "superuser_reserved_connections": 0, "max_wal_senders": 0}
    ) as full:
        for name in names:
            full.psql(f"CREATE DATABASE {name}")
        with Pooler(full, {"*": f"password={full.password}"}) as pooler:
            for _ in range(2):
                with contextlib.ExitStack() as stack:
                    for name in names:
                        client = stack.enter_context(pooler.connect(name))
                        cursor = client.cursor()
                        cursor.execute("BEGIN")
                        cursor.execute("SELECT current_database()")
                        assert cursor.fetchone() == [name]
                        time.sleep(0.2)
                pooler.psql("RECONNECT", "pgbouncer")


# What a client's session is decides nothing for others, and what it leaves reaches nobody


GROUND = """
DROP TABLE IF EXISTS public.goods; CREATE TABLE public.goods (id int, label text); INSERT INTO public.goods VALUES (1, 'one');
CREATE OR REPLACE FUNCTION set_by_default(a int, b text DEFAULT set_config('my.trace', 'of A', false)) RETURNS int
    STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN a; END $$;
DROP TABLE IF EXISTS defaulted, checked;
CREATE TABLE defaulted (a int, b text DEFAULT set_config('my.trace', 'of A', false));
CREATE TABLE checked (a int CHECK (set_config('my.trace', 'of A', false) IS NOT NULL));
"""
TRACE = "SELECT coalesce(current_setting('my.trace', true), '')"


@pytest.fixture(scope="module")
def ground(server):
    """The tables and functions."""
    with direct(server) as looker:
        assert "E:" not in looker.sql(GROUND)
    return server


@contextlib.contextmanager
def two(server, **settings):
    """Two clients of a pool of one connection, whose database is known."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, **settings))
        a, b = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        pooler.wait_for_catalog()
        yield a, b


def bind_one(statement, value):
    """A Bind with one parameter as text."""
    body = b"\0" + statement.encode() + b"\0" + struct.pack("!hhi", 0, 1, len(value)) + value + b"\0\0"
    return message(b"B", body)


def test_temporary_tables_decide_nothing_for_the_statements_of_others(ground):
    # Without DISCARD ALL the statements outlast the client that has prepared them.
    with two(ground, server_reset_query="") as (a, b), direct(ground) as truth:
        for client in (b, truth):
            client.sql("SELECT label FROM goods WHERE id = 1")
        assert a.sql("CREATE TEMP TABLE goods (id text, label int)") == "C:CREATE TABLE Z:I"
        asked = [parse("s", "SELECT label FROM goods WHERE id = $1"), describe("s"), SYNC]
        assert a.ask(*asked) == "1 t T Z:I"
        a.send(message(b"X"))
        assert b.ask(*asked) == "1 t T Z:I"
        for sql in ("BEGIN", None, "COMMIT", None):
            if sql:
                assert "E:" not in b.sql(sql)
            else:
                assert b.ask(bind_one("s", b"1"), EXECUTE, SYNC).startswith("2 D:one C:SELECT 1 Z:")


def test_what_a_default_or_a_check_sets_is_not_for_others(ground):
    with two(ground) as (a, b):
        for _ in range(4):
            assert b.value(TRACE) == ""
        for asks in ("SELECT set_by_default(1)", "INSERT INTO defaulted VALUES (1)", "INSERT INTO checked VALUES (1)"):
            for _ in range(4):
                assert a.sql(asks).endswith("Z:I")
                for _ in range(2):
                    assert b.value(TRACE) == ""
