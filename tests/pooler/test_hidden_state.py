"""What a function leaves in a session without any statement saying so is not for the next client."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, code, direct, parse, query

# What is executed is put together, so that no text shows it.
GROUND = """
DROP TABLE IF EXISTS public.acct; CREATE TABLE public.acct AS SELECT 'real'::text AS v;
CREATE OR REPLACE FUNCTION hide(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF what = 'table' THEN EXECUTE 'CREATE TEM' || 'P TABLE acct AS SELECT ''private of A''::text AS v';
    ELSIF what = 'view' THEN EXECUTE 'CREATE TEM' || 'P VIEW acct AS SELECT ''private of A''::text AS v';
    ELSIF what = 'sequence' THEN EXECUTE 'CREATE TEM' || 'P SEQUENCE secret';
    ELSIF what = 'channel' THEN EXECUTE 'LIS' || 'TEN whispers';
    ELSIF what = 'cursor' THEN EXECUTE 'DECLARE secret CURSOR WITH HO' || 'LD FOR SELECT 1';
    ELSIF what = 'statement' THEN EXECUTE 'PREPA' || 'RE secret AS SELECT 1';
    ELSIF what = 'lock' THEN EXECUTE 'SELECT pg_adv' || 'isory_lock(99)';
    ELSIF what = 'parameter' THEN EXECUTE 'SE' || 'T my.secret = ''of A''';
    END IF;
    RETURN what;
END $$;
CREATE OR REPLACE PROCEDURE hide_all(what text) LANGUAGE plpgsql AS $$ BEGIN PERFORM hide(what); COMMIT; END $$;
CREATE OR REPLACE FUNCTION hides() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM hide(NEW.what); RETURN NEW; END $$;
DROP TABLE IF EXISTS hiding; CREATE TABLE hiding (what text);
CREATE TRIGGER hides BEFORE INSERT ON hiding FOR EACH ROW EXECUTE FUNCTION hides();
"""
# What can be left, and by which statement another sees it.
LEFT = {
    "table": "SELECT v FROM acct",
    "view": "SELECT v FROM acct",
    "sequence": "SELECT to_regclass('secret')::text",
    "channel": "SELECT count(*) FROM pg_listening_channels()",
    "cursor": "SELECT count(*) FROM pg_cursors WHERE name = 'secret'",
    "statement": "SELECT count(*) FROM pg_prepared_statements WHERE name = 'secret'",
    "lock": "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 99",
    "parameter": "SELECT coalesce(current_setting('my.secret', true), '')",
}
NOTHING = {"table": "real", "view": "real", "sequence": None, "parameter": ""}
HOW = {
    "a function": lambda what: [query(f"SELECT hide('{what}')")],
    "extended": lambda what: [parse("", f"SELECT hide('{what}')"), bind(""), EXECUTE, SYNC],
    "named": lambda what: [parse("h", f"SELECT hide('{what}')"), bind("h"), EXECUTE, SYNC],
    "a procedure": lambda what: [query(f"CALL hide_all('{what}')")],
    "a DO": lambda what: [query(f"DO $$ BEGIN PERFORM hide('{what}'); END $$")],
    "a trigger": lambda what: [query(f"INSERT INTO hiding VALUES ('{what}')")],
}


@pytest.fixture(scope="module")
def ground(server):
    """The functions, and a table whose name they take."""
    with direct(server) as looker:
        assert "E:" not in looker.sql(GROUND)
    return server


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("what", LEFT)
def test_what_a_function_leaves_is_not_for_the_next_client(ground, what, how, pipelining):
    nothing = NOTHING.get(what, "0")
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1, pipelining=pipelining))
        a, b = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        pooler.wait_for_catalog()
        for _ in range(4):
            assert b.value(LEFT[what]) == nothing
        for _ in range(2):
            found = a.ask(*HOW[how](what))
            # Where a connection that others share refuses it, it has left nothing either.
            assert found.endswith("Z:I")
            for _ in range(2):
                assert b.value(LEFT[what]) == nothing
                b.sql("BEGIN")
                assert b.value(LEFT[what]) == nothing
                b.sql("COMMIT")


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
def test_a_notification_reaches_nobody_who_did_not_listen(ground, pipelining):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1, pipelining=pipelining))
        a, b = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        truth = stack.enter_context(direct(ground))
        for _ in range(4):
            assert b.sql("SELECT v FROM acct") == "T D:real C:SELECT 1 Z:I"
        assert a.sql("SELECT hide('channel')") == "T D:channel C:SELECT 1 Z:I"
        for turn in range(4):
            assert truth.sql(f"NOTIFY whispers, 'for A alone {turn}'") == "C:NOTIFY Z:I"
            for sql in ("SELECT v FROM acct", "SELECT v FROM acct", "BEGIN", "COMMIT"):
                b.send(query(sql))
                assert b"A" not in {kind for kind, _ in b.until(b"Z")}


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
def test_what_is_created_by_a_startup_path_is_not_for_the_next_client(ground, pipelining):
    """A `search_path` that begins with the schema for temporary objects, asked for at startup."""
    path = {"options": "-c search_path=pg_temp,public"}
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=2, pipelining=pipelining))
        a, b = (stack.enter_context(Raw(pooler.port, **path)) for _ in range(2))
        pooler.wait_for_catalog()
        assert a.sql("CREATE TABLE mine AS SELECT 'of A'::text AS v").endswith("C:SELECT 1 Z:I")
        for _ in range(4):
            assert b.value("SELECT to_regclass('mine')::text") is None
            assert a.value("SELECT v FROM mine") == "of A"
        a.socket.close()
        for _ in range(4):
            assert b.value("SELECT to_regclass('mine')::text") is None


def test_a_library_that_was_loaded_ends_with_its_client(ground):
    loaded = "SELECT count(*) FROM pg_settings WHERE name = 'plpgsql.variable_conflict'"
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1))
        with Raw(pooler.port) as a:
            assert a.value(loaded) == "0"
            assert a.sql("LOAD 'plpgsql'") == "C:LOAD Z:I"
            assert a.value(loaded) == "1"
        b = stack.enter_context(Raw(pooler.port))
        assert b.value(loaded) == "0"


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
def test_statements_outlive_a_discard_all_that_was_cancelled(ground, pipelining):
    """It drops them before it empties temporary tables, where it may still be cancelled, and no error brings them back."""
    waits = "SELECT pid FROM pg_stat_activity WHERE query = 'DISCARD ALL' AND wait_event_type = 'Lock'"
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1, pipelining=pipelining))
        a, b = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        other = stack.enter_context(direct(ground))
        run = (bind("kept"), EXECUTE, SYNC)
        for client in (b, a):
            assert client.ask(parse("kept", "SELECT v FROM public.acct"), *run) == "1 2 D:real C:SELECT 1 Z:I"
        assert a.sql("CREATE TEMP TABLE scratch ()") == "C:CREATE TABLE Z:I"
        place = a.value("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()")
        other.sql("BEGIN")
        assert other.sql(f"LOCK TABLE {place}.scratch IN ACCESS SHARE MODE") == "C:LOCK TABLE Z:T"
        a.send(query("DISCARD ALL"))
        with direct(ground) as looker:
            wait_until(lambda: looker.ask(query(waits)).startswith("T D:"))
            assert looker.value(f"SELECT pg_cancel_backend(({waits}))") == "t"
        assert [code(body) for kind, body in a.until(b"Z") if kind == b"E"] == ["57014"]
        other.sql("COMMIT")
        assert a.ask(*run) == "2 D:real C:SELECT 1 Z:I"
        assert a.sql("DISCARD ALL") == "C:DISCARD ALL Z:I"
        assert b.ask(*run) == "2 D:real C:SELECT 1 Z:I"
        assert a.ask(*run) == "E:26000 Z:I"
