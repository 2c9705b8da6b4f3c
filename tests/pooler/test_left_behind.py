"""What a statement leaves in its session, said or unsaid, and however it ends: it stays its client's, or is undone."""

import struct

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, message, parse, query
from tests.pooler.script import encoded

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
    "extended": "x SELECT hide('{}') | S",
    "named": "P h: SELECT hide('{}') | B h | E | S",
    "a procedure": "Q CALL hide_it('{}')",
    "a DO": "Q DO $$ BEGIN PERFORM hide('{}'); END $$",
    "a trigger": "Q INSERT INTO hiding VALUES ('{}')",
    # As `fetchval` of drivers does.
    "a portal that is not read to its end": "P: SELECT hide('{}') | B | E 1 | S",
    "a function that fails": "Q SELECT fails_behind('{}')",
    "a failing function of a block": "Q BEGIN | Q SELECT fails_behind('{}') | Q ROLLBACK",
}
# Units of a client, which leaves where it has what it may keep, in the words of script.py.
UNITS = {
    **{f"a function: {what}": f"Q SELECT hide('{what}')" for what in WHATS},
    **{f"{how}: {what}": text.format(what) for how, text in HOW.items() for what in ("lock", "statement", "role")},
    "a portal that is closed early": "Q BEGIN | P: SELECT hide('table') | B -> C_1 | E C_1 1 | S | Cp C_1 | S | Q COMMIT",
    "a statement that fails": f"Q {TAKES}",
    "a statement that fails, named": f"P s: {TAKES} | B s | E | S",
    "a statement that fails, in a block": f"Q BEGIN | x {TAKES} | S | Q ROLLBACK",
    "after others of its Query": f"Q SELECT 1; {TAKES}",
    "before others of its Query": f"Q SELECT pg_try_advisory_lock({LOCK}); SELECT 1 / 0",
    "in a unit with what fails": f"x SELECT pg_try_advisory_lock({LOCK}) | x SELECT 1 / 0 | S",
    # Portals of which PostgreSQL has another than the client's last Bind has asked for.
    "a portal of a refused Bind": f"Q BEGIN | P a: {SETS} | P b: SELECT 1 | B a -> p | S | Q SAVEPOINT s"
    " | B b -> p | S | Q ROLLBACK TO s | E p | S | Q COMMIT",
    "a portal whose name is cut": f"Q BEGIN | P a: {SETS} | P b: SELECT 1 | B b -> {CUT}2 | Cp {CUT}1 | S"
    f" | B a -> {CUT}1 | E {CUT}2 | S | Q COMMIT",
    "a portal that is fetched from": f"Q BEGIN | P a: {SETS} | B a -> p | S | Q FETCH ALL FROM p | Q COMMIT",
    "the check of a domain": "P q: SELECT $1::checking | B q (5) | S",
    "a long text": f"Q CREATE TEMP TABLE kept AS SELECT 'of A'::text AS x {LONG}",
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
    parts = [encoded(text) for text in UNITS[unit].split(" | ")]
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
        assert b.ask(*map(encoded, (f"P: {takes}", "B", "E 1", "S"))) == "1 2 D:f s Z:I"
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
