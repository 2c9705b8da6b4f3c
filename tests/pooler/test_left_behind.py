"""What a statement leaves in its session is taken note of however the statement ends: it stays its client's, or is undone."""

import contextlib
import struct

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, execute, message, parse, query

LOCK = 4712
# What functions do is put together, so that no text shows it.
GROUND = f"""
DROP TABLE IF EXISTS jobs; CREATE TABLE jobs AS SELECT {LOCK} AS id, n FROM generate_series(1, 0, -1) n;
DROP TABLE IF EXISTS public.t; CREATE TABLE public.t (x text);
DROP SCHEMA IF EXISTS "schéma" CASCADE; CREATE SCHEMA "schéma"; CREATE TABLE "schéma".t (x text);
CREATE OR REPLACE FUNCTION keep() RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'CREATE TEM' || 'P TABLE IF NOT EXISTS kept AS SELECT ''of A''::text AS x'; RETURN NEXT 1; RETURN NEXT 2;
END $$;
CREATE OR REPLACE FUNCTION take_and_fail() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'SELECT pg_adv' || 'isory_lock({LOCK})'; RETURN 1 / 0; END $$;
CREATE OR REPLACE FUNCTION prepare_and_fail() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'PREPA' || 'RE p AS SELECT ''text of A'''; RETURN 1 / 0; END $$;
CREATE OR REPLACE FUNCTION forget() RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'DEALLO' || 'CATE ALL'; RETURN 1; END $$;
"""
LOCKS = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {LOCK}"
TRY = f"SELECT pg_try_advisory_lock({LOCK})"
KEPT = "SELECT to_regclass('pg_temp.kept')::text"


@pytest.fixture(scope="module")
def ground(server):
    """The tables and functions, and two roles."""
    with direct(server) as looker:
        for role in ("nosy", "restricted"):
            if looker.value(f"SELECT count(*) FROM pg_roles WHERE rolname = '{role}'") == "0":
                looker.sql(f"CREATE ROLE {role}")
        assert "E:" not in looker.sql(GROUND)
    return server


class Clients:
    """Two clients of a pool with so many connections, in which statements are known for what they are."""

    def __init__(self, server, stack, size=1, **settings):
        self.pooler = stack.enter_context(Pooler(server, default_pool_size=size, **settings))
        self.a, self.b = (stack.enter_context(Raw(self.pooler.port)) for _ in range(2))
        self.pooler.wait_for_catalog()
        for _ in range(4):
            for client in (self.a, self.b):
                assert client.value("SELECT current_user") == "postgres"

    def leave(self):
        """The first client ends its session."""
        self.a.send(message(b"X"))
        assert self.a.is_closed()


@pytest.fixture
def stack():
    with contextlib.ExitStack() as opened:
        yield opened


@pytest.fixture(params=["pipelining", "without"])
def pipelining(request):
    """Whether reads of several clients share a connection."""
    return request.param == "pipelining"


# Portals that are not run to their end


def first_row(sql, portal=""):
    """A unit that asks for the first row only, as `fetchval` of drivers does."""
    return [parse("", sql), bind("", portal), execute(1, portal), SYNC]


def test_a_lock_that_a_suspended_portal_took_is_its_clients(ground, stack, pipelining):
    both = Clients(ground, stack, 2, pipelining=pipelining)
    assert both.a.ask(*first_row(TRY)) == "1 2 D:t s Z:I"
    assert both.b.ask(*first_row(TRY)) == "1 2 D:f s Z:I"
    assert both.a.value(f"SELECT pg_advisory_unlock({LOCK})") == "t"


def test_a_setting_that_a_suspended_portal_made_is_not_for_the_next_client(ground, stack, pipelining):
    both = Clients(ground, stack, pipelining=pipelining)
    assert both.a.ask(*first_row("SELECT set_config('role', 'nosy', false)")) == "1 2 D:nosy s Z:I"
    assert both.b.value("SELECT current_user") == "postgres"


def test_a_table_that_a_suspended_portal_made_is_not_for_the_next_client(ground, stack, pipelining):
    both = Clients(ground, stack, pipelining=pipelining)
    assert both.a.ask(*first_row("SELECT keep()")) == "1 2 D:1 s Z:I"
    assert both.b.value(KEPT) is None


def test_what_a_portal_made_that_was_closed_early_is_not_for_the_next_client(ground, stack, pipelining):
    both = Clients(ground, stack, pipelining=pipelining)
    assert both.a.sql("BEGIN") == "C:BEGIN Z:T"
    assert both.a.ask(*first_row("SELECT keep()", "C_1")) == "1 2 D:1 s Z:T"
    assert both.a.ask(message(b"C", b"PC_1\0"), SYNC) == "3 Z:T"
    assert both.a.sql("COMMIT") == "C:COMMIT Z:I"
    assert both.b.value(KEPT) is None


# Statements that fail

TAKES = "SELECT id, 1 / n FROM jobs WHERE pg_try_advisory_lock(id) ORDER BY n DESC"
FAILING = {
    "a query": [query(TAKES)],
    "extended": [parse("", TAKES), bind(""), EXECUTE, SYNC],
    "named": [parse("s", TAKES), bind("s"), EXECUTE, SYNC],
    "after others of its Query": [query(f"SELECT 1; {TAKES}")],
    "before others of its Query": [query(f"{TRY}; SELECT 1 / 0")],
    "in a unit with another": [parse("", TRY), bind(""), EXECUTE, parse("", "SELECT 1 / 0"), bind(""), EXECUTE, SYNC],
    "a function": [query("SELECT take_and_fail()")],
    "a DO": [query("DO $$ BEGIN PERFORM take_and_fail(); END $$")],
}


@pytest.mark.parametrize("how", FAILING)
@pytest.mark.parametrize("block", [False, True], ids=["", "in a transaction"])
def test_a_lock_of_a_statement_that_fails_is_not_for_the_next_client(ground, stack, how, block):
    both = Clients(ground, stack)
    if block:
        assert both.a.sql("BEGIN") == "C:BEGIN Z:T"
    assert "E:22012" in both.a.ask(*FAILING[how])
    if block:
        assert both.a.sql("ROLLBACK") == "C:ROLLBACK Z:I"
    both.leave()
    assert both.b.value(LOCKS) == "0"


def test_a_statement_that_a_failing_function_prepared_is_not_for_the_next_client(ground, stack, pipelining):
    both = Clients(ground, stack, pipelining=pipelining)
    assert both.a.sql("SELECT prepare_and_fail()") == "T E:22012 Z:I"
    assert both.b.sql("EXECUTE p") == "E:26000 Z:I"


# Function calls


def call(server, signature, *arguments):
    """A FunctionCall with these arguments as text."""
    number = int(server.psql(f"SELECT '{signature}'::regprocedure::oid"))
    body = struct.pack("!Ihhh", number, 1, 0, len(arguments))
    body += b"".join(struct.pack("!i", len(argument)) + argument for argument in arguments)
    return message(b"F", body + b"\0\0")


def test_what_a_function_call_does_is_not_for_the_next_client(ground, stack, pipelining):
    both = Clients(ground, stack, pipelining=pipelining)
    lock = call(ground, "pg_advisory_lock(bigint)", str(LOCK).encode())
    role = call(ground, "set_config(text,text,boolean)", b"role", b"nosy", b"f")
    assert both.a.ask(lock, role, units=2) == "V Z:I V Z:I"
    both.leave()
    assert both.b.value("SELECT current_user") == "postgres"
    assert both.b.value(LOCKS) == "0"


# Prepared statements


@pytest.mark.parametrize("sql", ["INSERT INTO t VALUES ('x')", "SELECT 'read'"])
@pytest.mark.parametrize("forgets", ["SELECT forget()", "DO $$ BEGIN PERFORM forget(); END $$", "SELECT forget() / 0"])
def test_a_function_that_forgets_statements_takes_none_from_others(ground, stack, sql, forgets):
    both = Clients(ground, stack)
    assert both.b.ask(parse("s", sql), SYNC) == "1 Z:I"
    done = both.b.ask(bind("s"), EXECUTE, SYNC)
    assert "E:" not in done
    both.a.sql(forgets)
    for _ in range(2):
        assert both.b.ask(bind("s"), EXECUTE, SYNC) == done


# What the server is told between clients


@pytest.mark.parametrize("reset", ["DEALLOCATE ALL; RESET ALL", "deallocate all", "DISCARD ALL", "SELECT 1"])
def test_a_reset_query_takes_no_prepared_statement_from_others(ground, stack, reset):
    both = Clients(ground, stack, server_reset_query=reset)
    assert both.b.ask(parse("s", "INSERT INTO t VALUES ('x')"), SYNC) == "1 Z:I"
    assert both.b.ask(bind("s"), EXECUTE, SYNC) == "2 C:INSERT 0 1 Z:I"
    assert both.a.sql("CREATE TEMP TABLE kept (x int)") == "C:CREATE TABLE Z:I"
    both.leave()
    for _ in range(2):
        assert both.b.ask(bind("s"), EXECUTE, SYNC) == "2 C:INSERT 0 1 Z:I"


@pytest.mark.parametrize("reset", ["", "SELECT 1", "RESET ALL"])
def test_what_has_pinned_a_client_is_undone_whatever_the_reset_query(ground, stack, reset):
    both = Clients(ground, stack, server_reset_query=reset)
    assert both.a.sql(f"SELECT pg_advisory_lock({LOCK})") == "T D: C:SELECT 1 Z:I"
    assert both.a.sql("LISTEN secrets") == "C:LISTEN Z:I"
    assert both.a.sql("PREPARE p AS SELECT 'text of A'") == "C:PREPARE Z:I"
    assert both.a.sql("DECLARE c CURSOR WITH HOLD FOR SELECT 'rows of A'") == "C:DECLARE CURSOR Z:I"
    assert both.a.sql("CREATE TEMP TABLE kept (x int)") == "C:CREATE TABLE Z:I"
    both.leave()
    assert both.b.value(LOCKS) == "0"
    assert both.b.sql("EXECUTE p") == "E:26000 Z:I"
    assert both.b.sql("FETCH c") == "E:34000 Z:I"
    assert both.b.value("SELECT count(*) FROM pg_listening_channels()") == "0"
    assert both.b.value(KEPT) is None


def test_a_connect_query_that_fails_is_told_and_not_tried_at_once_again(server):
    settings = {"server_login_retry": 5, "query_wait_timeout": 10}
    with Pooler(server, {"postgres": "connect_query='SELECT nosuch()'"}, **settings) as pooler:
        told = pooler.psql("SELECT 1", check=False).stderr
        assert "connect_query failed: function nosuch() does not exist" in told
        log = pooler.log.read_text()
        assert log.count("closing because: connect_query failed") == 1 and "WARNING" in log


@pytest.mark.parametrize(
    "sql",
    ["SET work_mem = '8MB'", "SELECT set_config('role', 'nosy', false)", "RESET ROLE", "RESET ALL", "DISCARD ALL"],
)
def test_what_a_connect_query_has_set_holds_for_every_client(ground, stack, sql):
    wanted = "T D:restricted|7777ms C:SELECT 1 Z:I"
    look = "SELECT current_user, current_setting('statement_timeout')"
    databases = {"postgres": "connect_query='SET ROLE restricted; SET statement_timeout = 7777'"}
    pooler = stack.enter_context(Pooler(ground, databases, default_pool_size=1))
    a, b = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
    pooler.wait_for_catalog()
    assert a.sql(look) == wanted
    b.sql(sql)
    b.sql("SELECT 1")
    for _ in range(2):
        assert a.sql(look) == wanted


# Texts that are not looked at as a whole, or not understood

# Longer than what is looked at.
LONG = f"/* {'x' * 200_000} */"


def test_what_a_long_query_leaves_is_its_clients(ground, stack, pipelining):
    both = Clients(ground, stack, 2, pipelining=pipelining)
    assert both.a.sql(f"{TRY} {LONG}") == "T D:t C:SELECT 1 Z:I"
    assert both.b.sql(TRY) == "T D:f C:SELECT 1 Z:I"
    assert both.a.sql(f"CREATE TEMP TABLE kept AS SELECT 'of A'::text AS x {LONG}") == "C:SELECT 1 Z:I"
    assert both.a.sql(f"SET my.tag = 'of A' {LONG}") == "C:SET Z:I"
    assert both.a.sql(f"DECLARE c CURSOR WITH HOLD FOR SELECT 'row' {LONG}") == "C:DECLARE CURSOR Z:I"
    assert both.b.value("SELECT coalesce(current_setting('my.tag', true), '')") == ""
    assert both.b.value(KEPT) is None
    assert both.a.sql("SELECT x, current_setting('my.tag') FROM kept") == "T D:of A|of A C:SELECT 1 Z:I"
    assert both.a.sql("FETCH c") == "T D:row C:FETCH 1 Z:I"
    both.leave()
    # Another connection than B's is cleaned meanwhile.
    wait_until(lambda: both.b.sql(TRY) == "T D:t C:SELECT 1 Z:I")


def test_a_long_read_pins_nobody(ground, stack):
    both = Clients(ground, stack)
    for client in (both.a, both.b, both.a):
        assert client.sql(f"SELECT 'long' {LONG}") == "T D:long C:SELECT 1 Z:I"


UNREAD = {
    # Not in UTF-8, nor in ASCII.
    "another encoding": (
        'SET search_path = "schéma"'.encode("latin-1"),
        "SELECT to_regclass('t') = to_regclass('public.t')",
    ),
    "a long value": (f"SET my.token = '{'x' * 20_000}'".encode(), "SELECT length(current_setting('my.token'))"),
    "a hexadecimal number": (b"SET work_mem = 0x10000", "SHOW work_mem"),
    "a number in groups": (b"SET work_mem = 70_000", "SHOW work_mem"),
}


@pytest.mark.parametrize("what", UNREAD)
def test_a_set_that_cannot_be_read_holds_for_its_client_alone(ground, stack, what):
    sql, look = UNREAD[what]
    pooler = stack.enter_context(Pooler(ground, default_pool_size=2))
    a = stack.enter_context(Raw(pooler.port, client_encoding="LATIN1"))
    b = stack.enter_context(Raw(pooler.port, client_encoding="LATIN1"))
    truth, plain = (stack.enter_context(direct(ground, client_encoding="LATIN1")) for _ in range(2))
    pooler.wait_for_catalog()
    # On PostgreSQL 15 there are no such numbers.
    assert a.ask(message(b"Q", sql + b"\0")) == truth.ask(message(b"Q", sql + b"\0"))
    for _ in range(2):
        assert a.sql(look) == truth.sql(look)
        assert b.sql(look) == plain.sql(look)


@pytest.mark.parametrize("before, after", [("SET ROLE nosy", "RESET ROLE"), ("SELECT 1", "SET ROLE nosy")])
def test_a_set_behind_more_savepoints_than_are_remembered_holds_for_its_client_alone(ground, stack, before, after):
    both = Clients(ground, stack, 2)
    both.a.sql("BEGIN")
    both.a.sql(before)
    both.a.ask(*(query(f"SAVEPOINT s{number}") for number in range(1100)), units=1100)
    assert both.a.sql(after) in ("C:RESET Z:T", "C:SET Z:T")
    assert both.a.sql("COMMIT") == "C:COMMIT Z:I"
    for _ in range(2):
        assert both.a.value("SELECT current_user") == ("postgres" if after == "RESET ROLE" else "nosy")
        assert both.b.value("SELECT current_user") == "postgres"


CUT = "x" * 63
SETS = "SELECT set_config('statement_timeout', '77s', false)"
LOCKS_ONE = f"SELECT pg_advisory_lock({LOCK})"
MAKES = "CREATE TEMP TABLE leaked (a int)"
# Portals of which PostgreSQL has another than the client's last Bind has asked for.
MISTAKEN = {
    "refused": lambda sql: [
        (parse("a", sql), parse("b", "SELECT 1"), bind("a", "p"), SYNC),
        (query("SAVEPOINT s"),),
        (bind("b", "p"), SYNC),
        (query("ROLLBACK TO s"),),
        (execute(portal="p"), SYNC),
    ],
    "cut": lambda sql: [
        (parse("a", sql), parse("b", "SELECT 1"), bind("b", f"{CUT}2"), message(b"C", f"P{CUT}1\0".encode()), SYNC),
        (bind("a", f"{CUT}1"), execute(portal=f"{CUT}2"), SYNC),
    ],
    "fetched": lambda sql: [(parse("a", sql), bind("a", "p"), SYNC), (query("FETCH ALL FROM p"),)],
}


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("sql", [SETS, LOCKS_ONE, MAKES], ids=["set", "lock", "table"])
@pytest.mark.parametrize("way", MISTAKEN)
def test_a_portal_that_is_another_leaves_nothing(ground, way, sql, pipelining):
    if way == "fetched" and sql == MAKES:
        return
    with contextlib.ExitStack() as stack:
        clients = Clients(ground, stack, pipelining=pipelining)
        clients.a.sql("BEGIN")
        for unit in MISTAKEN[way](sql):
            clients.a.ask(*unit)
        assert "E:" not in clients.a.sql("COMMIT")
        clients.leave()
        assert clients.b.value("SELECT to_regclass('pg_temp.leaked') IS NULL") == "t"
        assert clients.b.value("SHOW statement_timeout") == "0"
        assert clients.b.value(LOCKS) == "0"


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("value", ["5", "50"], ids=["fits", "fails"])
def test_what_the_check_of_a_domain_does_at_a_bind_is_undone(ground, value, pipelining):
    with direct(ground) as owner:
        owner.sql("DROP DOMAIN IF EXISTS checking; DROP FUNCTION IF EXISTS checks(int)")
        owner.sql(
            f"""CREATE FUNCTION checks(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_lock({LOCK}), set_config('statement_timeout', '77s', false); RETURN $1 < 10; END $$"""
        )
        owner.sql("CREATE DOMAIN checking AS int CHECK (checks(VALUE))")
    body = b"\0q\0" + struct.pack("!hhi", 0, 1, len(value)) + value.encode() + struct.pack("!h", 0)
    with contextlib.ExitStack() as stack:
        clients = Clients(ground, stack, pipelining=pipelining)
        clients.a.ask(parse("q", "SELECT $1::checking"), message(b"B", body), SYNC)
        assert clients.b.value("SHOW statement_timeout") == "0"
        assert clients.b.value(LOCKS) == "0"


@pytest.fixture
def acting(server):
    """The number of a domain whose check leaves a lock, a limit and a role behind."""
    with direct(server) as owner:
        owner.sql("DROP DOMAIN IF EXISTS acting; DROP FUNCTION IF EXISTS acts(int)")
        if owner.value("SELECT count(*) FROM pg_roles WHERE rolname = 'other_role'") == "0":
            owner.sql("CREATE ROLE other_role")
        owner.sql(
            """CREATE FUNCTION acts(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_advisory_lock(4799), set_config('statement_timeout', '77s', false),
            set_config('role', 'other_role', false); RETURN true; END $$"""
        )
        owner.sql("CREATE DOMAIN acting AS int CHECK (acts(VALUE))")
        yield int(owner.value("SELECT 'acting'::regtype::oid"))
        owner.sql("DROP DOMAIN acting; DROP FUNCTION acts(int)")


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("name", ["", "q"])
def test_the_type_of_a_parameter_leaves_nothing_behind(server, acting, pipelining, name):
    """The type is told by its number in the Parse, and its check runs at the Bind."""
    typed = message(b"P", name.encode() + b"\0SELECT $1\0" + struct.pack("!hI", 1, acting))
    bound = message(b"B", b"\0" + name.encode() + b"\0" + struct.pack("!hhi", 0, 1, 1) + b"5" + struct.pack("!h", 0))
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        one, two = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        one.sql("SELECT 1")
        pooler.wait_for_catalog()
        for _ in range(4):
            two.sql("SELECT current_user")
        assert one.ask(typed, bound, EXECUTE, SYNC) == "1 2 D:5 C:SELECT 1 Z:I"
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4799"
        assert [two.value(sql) for sql in ("SELECT current_user", "SHOW statement_timeout", locks)] == [
            "postgres",
            "0",
            "0",
        ]
