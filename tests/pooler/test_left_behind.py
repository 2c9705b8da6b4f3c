"""What a statement leaves in its session, said or unsaid, and however it ends: it stays its client's, or is undone."""

import struct

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, execute, message, parse, query

LOCK = 4712
# What functions do is put together, so that no text shows it.
GROUND = f"""
DROP TABLE IF EXISTS jobs; CREATE TABLE jobs AS SELECT {LOCK} AS id, n FROM generate_series(1, 0, -1) n;
DROP TABLE IF EXISTS public.acct; CREATE TABLE public.acct AS SELECT 'real'::text AS v;
DROP SCHEMA IF EXISTS "schéma" CASCADE; CREATE SCHEMA "schéma"; CREATE TABLE "schéma".acct AS SELECT 'other'::text AS v;
CREATE OR REPLACE FUNCTION hide(what text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    IF what = 'table' THEN EXECUTE 'CREATE TEM' || 'P TABLE IF NOT EXISTS acct AS SELECT ''of A''::text AS v';
    ELSIF what = 'sequence' THEN EXECUTE 'CREATE TEM' || 'P SEQUENCE IF NOT EXISTS kept';
    ELSIF what = 'channel' THEN EXECUTE 'LIS' || 'TEN whispers';
    ELSIF what = 'cursor' THEN EXECUTE 'DECLARE secret CURSOR WITH HO' || 'LD FOR SELECT 1';
    ELSIF what = 'statement' THEN EXECUTE 'PREPA' || 'RE secret AS SELECT 1';
    ELSIF what = 'lock' THEN EXECUTE 'SELECT pg_adv' || 'isory_lock({LOCK})';
    ELSIF what = 'role' THEN EXECUTE 'SE' || 'T ROLE nosy';
    ELSIF what = 'parameter' THEN EXECUTE 'SE' || 'T statement_timeout = 77000';
    END IF;
    RETURN NEXT what; RETURN NEXT what;
END $$;
CREATE OR REPLACE PROCEDURE hide_it(what text) LANGUAGE plpgsql AS $$ BEGIN PERFORM hide(what); COMMIT; END $$;
CREATE OR REPLACE FUNCTION hides() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM hide(NEW.what); RETURN NEW; END $$;
DROP TABLE IF EXISTS hiding; CREATE TABLE hiding (what text);
CREATE TRIGGER hides BEFORE INSERT ON hiding FOR EACH ROW EXECUTE FUNCTION hides();
CREATE OR REPLACE FUNCTION fails_behind(what text) RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN PERFORM hide(what); RETURN 1 / 0; END $$;
CREATE OR REPLACE FUNCTION forget() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'DEALLO' || 'CATE ALL'; RETURN 1; END $$;
DROP DOMAIN IF EXISTS checking; CREATE OR REPLACE FUNCTION checks(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_lock({LOCK}), set_config('statement_timeout', '77s', false); RETURN $1 < 10; END $$;
CREATE DOMAIN checking AS int CHECK (checks(VALUE));
"""
WHATS = ["table", "sequence", "channel", "cursor", "statement", "lock", "role", "parameter"]
LOOK = f"""SELECT current_user, current_setting('statement_timeout'), v, to_regclass('pg_temp.kept'),
(SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_cursors WHERE is_holdable),
(SELECT count(*) FROM pg_prepared_statements WHERE from_sql),
(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {LOCK}) FROM acct"""
CLEAN = "T D:postgres|0|real|NULL|0|0|0|0 C:SELECT 1 Z:I"
LONG = f"/* {'x' * 200_000} */"


def ran(*texts, name="", portal="", rows=0):
    """Statements in the extended protocol."""
    return [part for sql in texts for part in (parse(name, sql), bind(name, portal), execute(rows, portal))]


def call(server, signature, *arguments):
    """A FunctionCall with these arguments as text."""
    number = int(server.psql(f"SELECT '{signature}'::regprocedure::oid"))
    body = struct.pack("!Ihhh", number, 1, 0, len(arguments))
    body += b"".join(struct.pack("!i", len(argument)) + argument for argument in arguments)
    return message(b"F", body + b"\0\0")


TAKES = "SELECT id, 1 / n FROM jobs WHERE pg_try_advisory_lock(id) ORDER BY n DESC"
CUT = "x" * 63
SETS = "SELECT set_config('statement_timeout', '77s', false)"
HOW = {
    "extended": lambda what: [*ran(f"SELECT hide('{what}')"), SYNC],
    "named": lambda what: [*ran(f"SELECT hide('{what}')", name="h"), SYNC],
    "a procedure": lambda what: [query(f"CALL hide_it('{what}')")],
    "a DO": lambda what: [query(f"DO $$ BEGIN PERFORM hide('{what}'); END $$")],
    "a trigger": lambda what: [query(f"INSERT INTO hiding VALUES ('{what}')")],
    # As `fetchval` of drivers does.
    "a portal that is not read to its end": lambda what: [*ran(f"SELECT hide('{what}')", rows=1), SYNC],
    "a function that fails": lambda what: [query(f"SELECT fails_behind('{what}')")],
    "a failing function of a block": lambda what: [
        *(query("BEGIN"), query(f"SELECT fails_behind('{what}')"), query("ROLLBACK"))
    ],
}
# Units of a client, which leaves where it has what it may keep.
UNITS = {
    **{f"a function: {what}": [query(f"SELECT hide('{what}')")] for what in WHATS},
    **{f"{how}: {what}": make(what) for how, make in HOW.items() for what in ("lock", "statement", "role")},
    "a portal that is closed early": [
        *(query("BEGIN"), *ran("SELECT hide('table')", portal="C_1", rows=1), SYNC),
        *(message(b"C", b"PC_1\0"), SYNC, query("COMMIT")),
    ],
    "a statement that fails": [query(TAKES)],
    "a statement that fails, named": [*ran(TAKES, name="s"), SYNC],
    "a statement that fails, in a block": [query("BEGIN"), *ran(TAKES), SYNC, query("ROLLBACK")],
    "after others of its Query": [query(f"SELECT 1; {TAKES}")],
    "before others of its Query": [query(f"SELECT pg_try_advisory_lock({LOCK}); SELECT 1 / 0")],
    "in a unit with what fails": [*ran(f"SELECT pg_try_advisory_lock({LOCK})", "SELECT 1 / 0"), SYNC],
    # Portals of which PostgreSQL has another than the client's last Bind has asked for.
    "a portal of a refused Bind": [
        *(query("BEGIN"), parse("a", SETS), parse("b", "SELECT 1"), bind("a", "p"), SYNC, query("SAVEPOINT s")),
        *(bind("b", "p"), SYNC, query("ROLLBACK TO s"), execute(portal="p"), SYNC, query("COMMIT")),
    ],
    "a portal whose name is cut": [
        *(query("BEGIN"), parse("a", SETS), parse("b", "SELECT 1"), bind("b", f"{CUT}2")),
        *(message(b"C", f"P{CUT}1\0".encode()), SYNC, bind("a", f"{CUT}1"), execute(portal=f"{CUT}2"), SYNC),
        query("COMMIT"),
    ],
    "a portal that is fetched from": [
        *(query("BEGIN"), parse("a", SETS), bind("a", "p"), SYNC, query("FETCH ALL FROM p"), query("COMMIT"))
    ],
    "the check of a domain": [
        parse("q", "SELECT $1::checking"),
        message(b"B", b"\0q\0" + struct.pack("!hhi", 0, 1, 1) + b"5" + struct.pack("!h", 0)),
        SYNC,
    ],
    "a long text": [query(f"CREATE TEMP TABLE kept AS SELECT 'of A'::text AS x {LONG}")],
}


@pytest.fixture(scope="module")
def ground(server):
    """The tables and functions, and two roles."""
    with direct(server) as owner:
        for role in ("nosy", "restricted"):
            if owner.value(f"SELECT count(*) FROM pg_roles WHERE rolname = '{role}'") == "0":
                owner.sql(f"CREATE ROLE {role}")
        assert "E:" not in owner.sql(GROUND)
    return server


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def place(ground, request):
    """A pooler with one server connection, in which statements are known for what they are, and a client."""
    with Pooler(ground, default_pool_size=1, pipelining=request.param) as pooler, Raw(pooler.port) as other:
        other.sql("SELECT 1")
        pooler.wait_for_catalog()
        for _ in range(4):
            assert other.sql(LOOK) == CLEAN
        yield pooler, other


def leave(client):
    """A client ends its session."""
    client.send(message(b"X"))
    assert client.is_closed()


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_unit_leaves_is_not_for_the_next_client(place, unit):
    pooler, other = place
    parts = UNITS[unit]
    with Raw(pooler.port) as client:
        # Where a connection that others share refuses it, it has left nothing either.
        assert client.ask(*parts, units=sum(part[:1] in (b"Q", b"S") for part in parts)).endswith("Z:I")
        leave(client)
    # The connection of a client that has left is cleaned after its client has heard of the end.
    wait_until(lambda: other.sql(LOOK) == CLEAN)
    assert other.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"
    assert other.sql(LOOK) == CLEAN


@pytest.mark.parametrize("what", ["table", "sequence", "channel", "cursor", "statement", "role", "parameter"])
def test_what_a_function_leaves_is_undone_while_its_client_is_there(place, what):
    pooler, other = place
    with Raw(pooler.port) as client:
        for _ in range(2):
            assert client.sql(f"SELECT hide('{what}')").endswith("Z:I")
            assert other.sql(LOOK) == CLEAN


def test_what_a_function_call_does_is_not_for_the_next_client(ground, place):
    pooler, other = place
    lock = call(ground, "pg_advisory_lock(bigint)", str(LOCK).encode())
    role = call(ground, "set_config(text,text,boolean)", b"role", b"nosy", b"f")
    with Raw(pooler.port) as client:
        assert client.ask(lock, role, units=2) == "V Z:I V Z:I"
        leave(client)
    wait_until(lambda: other.sql(LOOK) == CLEAN)


@pytest.mark.parametrize("forgets", ["SELECT forget()", "DO $$ BEGIN PERFORM forget(); END $$", "SELECT forget() / 0"])
def test_a_function_that_forgets_statements_takes_none_from_others(place, forgets):
    pooler, _ = place
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        for name, sql in (("w", "INSERT INTO hiding VALUES ('x')"), ("r", "SELECT 'read'")):
            assert other.ask(parse(name, sql), SYNC) == "1 Z:I"
            done = other.ask(bind(name), EXECUTE, SYNC)
            assert "E:" not in done
            client.sql(forgets)
            for _ in range(2):
                assert other.ask(bind(name), EXECUTE, SYNC) == done


def test_what_a_client_is_known_to_have_is_its_own(ground):
    """By texts too that are too long to be looked at as a whole."""
    with Pooler(ground, default_pool_size=2) as pooler, Raw(pooler.port) as a, Raw(pooler.port) as b:
        a.sql("SELECT 1")
        pooler.wait_for_catalog()
        for client in (a, b, a):
            assert client.sql(f"SELECT 'long' {LONG}") == "T D:long C:SELECT 1 Z:I"
        takes = f"SELECT pg_try_advisory_lock({LOCK})"
        assert a.sql(f"{takes} {LONG}") == "T D:t C:SELECT 1 Z:I"
        assert b.ask(*ran(takes, rows=1), SYNC) == "1 2 D:f s Z:I"
        assert a.sql(f"SET my.tag = 'of A' {LONG}") == "C:SET Z:I"
        assert a.sql(f"DECLARE c CURSOR WITH HOLD FOR SELECT 'row' {LONG}") == "C:DECLARE CURSOR Z:I"
        assert b.value("SELECT coalesce(current_setting('my.tag', true), '')") == ""
        assert a.value("SELECT current_setting('my.tag')") == "of A"
        assert a.sql("FETCH c") == "T D:row C:FETCH 1 Z:I"
        leave(a)
        # Another connection than B's is cleaned meanwhile.
        wait_until(lambda: b.sql(takes) == "T D:t C:SELECT 1 Z:I")


def test_what_is_created_by_a_startup_path_is_not_for_the_next_client(ground):
    """A `search_path` that begins with the schema for temporary objects, asked for at startup."""
    path = {"options": "-c search_path=pg_temp,public"}
    with Pooler(ground, default_pool_size=2) as pooler, Raw(pooler.port, **path) as b:
        with Raw(pooler.port, **path) as a:
            assert a.sql("CREATE TABLE mine AS SELECT 'of A'::text AS v").endswith("C:SELECT 1 Z:I")
            for _ in range(3):
                assert b.value("SELECT to_regclass('mine')::text") is None
                assert a.value("SELECT v FROM mine") == "of A"
        for _ in range(3):
            assert b.value("SELECT to_regclass('mine')::text") is None


# What the server is told between clients


@pytest.mark.parametrize("reset", ["", "SELECT 1", "DEALLOCATE ALL; RESET ALL", "DISCARD ALL"])
def test_what_has_pinned_a_client_is_undone_whatever_the_reset_query(ground, reset):
    with Pooler(ground, default_pool_size=1, server_reset_query=reset) as pooler, Raw(pooler.port) as b:
        assert b.ask(parse("s", "INSERT INTO hiding VALUES ('x')"), bind("s"), EXECUTE, SYNC) == "1 2 C:INSERT 0 1 Z:I"
        with Raw(pooler.port) as a:
            for sql in (
                f"SELECT pg_advisory_lock({LOCK})",
                "LISTEN secrets",
                "PREPARE p AS SELECT 'text of A'",
                "DECLARE c CURSOR WITH HOLD FOR SELECT 'rows of A'",
                "CREATE TEMP TABLE kept (x int)",
            ):
                assert "E:" not in a.sql(sql)
            leave(a)
        wait_until(lambda: b.sql(LOOK) == CLEAN)
        assert b.ask(bind("s"), EXECUTE, SYNC) == "2 C:INSERT 0 1 Z:I", "no prepared statement of others is lost"


def test_a_connect_query_that_fails_is_told_and_not_tried_at_once_again(server):
    settings = {"server_login_retry": 5, "query_wait_timeout": 10}
    with Pooler(server, {"postgres": "connect_query='SELECT nosuch()'"}, **settings) as pooler:
        told = pooler.psql("SELECT 1", check=False).stderr
        assert "connect_query failed: function nosuch() does not exist" in told
        log = pooler.log.read_text()
        assert log.count("closing because: connect_query failed") == 1 and "WARNING" in log


def test_what_a_connect_query_has_set_holds_for_every_client(ground):
    wanted = "T D:restricted|7777ms C:SELECT 1 Z:I"
    look = "SELECT current_user, current_setting('statement_timeout')"
    databases = {"postgres": "connect_query='SET ROLE restricted; SET statement_timeout = 7777'"}
    with Pooler(ground, databases, default_pool_size=1) as pooler, Raw(pooler.port) as a:
        assert a.sql(look) == wanted
        pooler.wait_for_catalog()
        for sql in (
            "SET work_mem = '8MB'",
            "SELECT set_config('role', 'nosy', false)",
            "RESET ROLE",
            "RESET ALL",
            "DISCARD ALL",
        ):
            with Raw(pooler.port) as b:
                b.sql(sql)
                b.sql("SELECT 1")
                for _ in range(2):
                    assert a.sql(look) == wanted
