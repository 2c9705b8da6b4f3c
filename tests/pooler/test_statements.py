"""A prepared statement is shared only by sessions that read its text alike, and is called by its client's own name."""

import contextlib
import struct
import time

import pytest

from tests.pooler.interpose import Scripted, end, error, ready
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, close, code, describe, direct, field, message, parse, query
from tests.pooler.script import bind_text

NULLS = "SELECT count(*) FROM (VALUES (NULL::int), (1)) AS v (a) WHERE a = NULL"
DATE = "SELECT to_char('02/03/2024'::date, 'YYYYMMDD')"
RUN = (bind("s"), EXECUTE, SYNC)
SETTING = "set_config('transform_null_equals', 'on', true)"
GROUND = f"""
DROP SCHEMA IF EXISTS one, two, closed CASCADE; CREATE SCHEMA one; CREATE SCHEMA two; CREATE SCHEMA closed;
CREATE TABLE one.t AS SELECT 'one'::text AS w; CREATE TABLE two.t AS SELECT 2 AS w, 'two'::text AS v;
CREATE FUNCTION one.f() RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'one'::text $$;
CREATE FUNCTION two.f() RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT 2 $$;
CREATE TABLE closed.t AS SELECT 'closed'::text AS w; GRANT SELECT ON closed.t TO PUBLIC;
DROP TABLE IF EXISTS public.one_row; CREATE TABLE public.one_row AS SELECT NULL::int AS a;
CREATE OR REPLACE FUNCTION public.setter() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM {SETTING}; END $$;
CREATE OR REPLACE PROCEDURE public.procedural_setter() LANGUAGE plpgsql AS $$ BEGIN PERFORM {SETTING}; END $$;
"""
# Two values of a parameter, and a text that means something else under each.
READINGS = {
    "TimeZone": ("UTC", "Asia/Tokyo", "SELECT extract(epoch FROM '2024-01-01 00:00'::timestamptz)::bigint"),
    "timezone_abbreviations": (
        "Default",
        "Australia",
        "SELECT '2024-01-01 0:00 EST'::timestamptz = '2024-01-01 5:00 UTC'",
    ),
    "DateStyle": ("ISO, MDY", "ISO, DMY", DATE),
    "IntervalStyle": ("postgres", "sql_standard", "SELECT extract(epoch FROM '-1 2:03'::interval)::int"),
    "client_encoding": ("UTF8", "LATIN1", "SELECT octet_length('é')"),
    "standard_conforming_strings": ("on", "off", r"SELECT length('a\\b')"),
    "backslash_quote": ("on", "off", r"SELECT E'a\'b'"),
    "transform_null_equals": ("off", "on", NULLS),
    # The plan holds a text that was made of a number.
    "extra_float_digits": ("1", "0", "SELECT (0.1::float8 + 0.2::float8)::text"),
    "bytea_output": ("hex", "escape", r"SELECT (E'\\x41'::bytea)::text"),
    "array_nulls": ("on", "off", "SELECT ('{NULL}'::text[])[1] IS NULL"),
    "xmloption": ("content", "document", "SELECT '<a/><b/>'::xml::text"),
    "search_path": ("one", "two", "SELECT * FROM t"),
    "search_path of a function": ("one", "two", "SELECT f()"),
    "search_path of a literal": ("one", "two", "SELECT ('t'::regclass)::oid"),
    "role": ("none", "outsider", "SELECT w FROM closed.t"),
}


@pytest.fixture(scope="module")
def ground(server):
    """Two schemas in which the same names mean different things, and one that an outsider may not look into."""
    with direct(server) as owner:
        if owner.value("SELECT count(*) FROM pg_roles WHERE rolname = 'outsider'") == "0":
            owner.sql("CREATE ROLE outsider")
        assert "E:" not in owner.sql(GROUND)
    return server


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def pooler(ground, request):
    """One server connection."""
    with Pooler(ground, default_pool_size=1, pipelining=request.param) as running:
        with Raw(running.port) as client:
            client.sql("SELECT 1")
        running.wait_for_catalog()
        yield running


@pytest.fixture
def clients(pooler):
    """Three clients, who get a statement that no test before has prepared."""
    pooler.psql("RECONNECT", "pgbouncer")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Raw(pooler.port)) for _ in range(3)]


def sessions(connect, reading, how):
    """Two clients that differ in a parameter, set as said."""
    name = reading.split()[0]
    found = []
    for value in READINGS[reading][:2]:
        if how == "at the start":
            found.append(connect(**{name: value}) if name != "role" else connect(options=f"-c role={value}"))
        else:
            client = connect()
            assert client.sql(f"SET {name} = '{value}'") == "C:SET Z:I"
            found.append(client)
    return found


@pytest.mark.parametrize("how", ["at the start", "by SET"])
@pytest.mark.parametrize("reading", READINGS)
def test_sessions_that_read_a_text_differently_do_not_share_it(ground, pooler, reading, how):
    sql = READINGS[reading][2]
    with contextlib.ExitStack() as stack:

        def pooled(**parameters):
            return stack.enter_context(Raw(pooler.port, **parameters))

        def straight(**parameters):
            return stack.enter_context(direct(ground, **parameters))

        clients, truths = sessions(pooled, reading, how), sessions(straight, reading, how)
        for truth in truths:
            truth.ask(parse("s", sql), SYNC)
        wanted = [truth.ask(*RUN) for truth in truths]
        described = [truth.ask(describe("s"), SYNC) for truth in truths]
        for client, answer in zip(clients, wanted, strict=True):
            # Where one of them may not have it at all.
            told = client.ask(parse("s", sql), SYNC)
            assert told in ("1 Z:I", "E:42501 Z:I", "E:22P06 Z:I", "E:2200M Z:I", "E:0A000 Z:I")
            assert ("E:" in told) == ("E:26000" in answer)
        for turn in range(3):
            for place in (0, 1) if turn % 2 else (1, 0):
                assert clients[place].ask(*RUN) == wanted[place], f"turn {turn}, session {place}"
                assert clients[place].ask(describe("s"), SYNC) == described[place]
        # Those who come later as well.
        for place, client in enumerate(sessions(pooled, reading, how)):
            unit = parse("t", sql), bind("t"), EXECUTE, SYNC
            assert client.ask(*unit) == truths[place].ask(*unit)
        if "E:" not in "".join(wanted):
            assert wanted[0] != wanted[1], "the parameter makes a difference"


def test_parameters_have_the_types_of_their_own_session(pooler):
    with Raw(pooler.port, search_path="one") as one, Raw(pooler.port, search_path="two") as two:
        for client in (one, two):
            assert client.ask(parse("s", "SELECT w FROM t WHERE w = $1"), SYNC) == "1 Z:I"
        for _ in range(2):
            assert one.ask(bind_text("s", "one"), EXECUTE, SYNC) == "2 D:one C:SELECT 1 Z:I"
            assert two.ask(bind_text("s", "2"), EXECUTE, SYNC) == "2 D:2 C:SELECT 1 Z:I"


# What sets a parameter in a transaction, by a text that shows it or does not.
WAYS = {
    "SET LOCAL": "SET LOCAL transform_null_equals = on",
    "SET": "SET transform_null_equals = on",
    "set_config": f"SELECT {SETTING}",
    "among other statements": "SELECT 1; SET LOCAL transform_null_equals = on; SELECT 2",
    "behind the BEGIN": "COMMIT; BEGIN; SET LOCAL transform_null_equals = on",
    "a function": "SELECT public.setter()",
    "a procedure": "CALL public.procedural_setter()",
    "a DO": "DO $$ BEGIN SET LOCAL transform_null_equals = on; END $$",
    "the view of settings": "UPDATE pg_settings SET setting = 'on' WHERE name = 'transform_null_equals'",
    "a definition": f"CREATE TEMP TABLE setting ON COMMIT DROP AS SELECT {SETTING}",
    "a cursor": f"DECLARE c CURSOR FOR SELECT {SETTING}; FETCH c",
    "a long text": f"SELECT '{'x' * 70_000}'; SET LOCAL transform_null_equals = on",
}


@pytest.mark.parametrize("prepared", ["before", "meanwhile"])
@pytest.mark.parametrize("how", [*WAYS, "a FunctionCall"])
def test_what_is_set_in_a_transaction_changes_no_others_statement(ground, clients, how, prepared):
    one, two, late = clients
    if prepared == "before":
        for client in (one, two):
            assert client.ask(parse("s", NULLS), *RUN) == "1 2 D:0 C:SELECT 1 Z:I"
    one.sql("BEGIN")
    if how in WAYS:
        assert "E:" not in one.sql(WAYS[how])
    else:
        number = int(ground.psql("SELECT 'set_config'::regproc::oid::int"))
        values = b"".join(struct.pack("!i", len(text)) + text for text in (b"transform_null_equals", b"on", b"t"))
        assert one.ask(message(b"F", struct.pack("!ihh", number, 0, 3) + values + b"\0\0")) == "V Z:T"
    one.sql("DISCARD PLANS")
    define = () if prepared == "before" else (parse("s", NULLS),)
    assert one.ask(*define, *RUN).endswith("D:1 C:SELECT 1 Z:T")
    one.sql("ROLLBACK")
    if prepared == "meanwhile":
        two.ask(parse("s", NULLS), SYNC)
    assert two.ask(*RUN) == "2 D:0 C:SELECT 1 Z:I"
    assert late.ask(parse("t", NULLS), bind("t"), EXECUTE, SYNC) == "1 2 D:0 C:SELECT 1 Z:I"


def test_what_is_prepared_and_set_in_one_unit_is_not_for_others(clients):
    one, two, _ = clients
    # The SET is undone by the error, what was prepared behind it is not.
    setting, fails = ([parse("", sql), bind(""), EXECUTE] for sql in ("SET DateStyle = 'ISO, DMY'", "SELECT 1/0"))
    one.ask(*setting, parse("s", DATE), *fails, SYNC)
    assert two.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"


def test_a_statement_that_is_prepared_anew_on_another_connection_is_not_for_others(ground):
    # Prepared under one setting, used under another, on a connection that does not know it.
    with Pooler(ground, default_pool_size=2, pipelining=False) as pooler, contextlib.ExitStack() as stack:
        a, b, holder = (stack.enter_context(Raw(pooler.port)) for _ in range(3))
        assert a.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        assert a.sql("SET DateStyle = 'ISO, DMY'") == "C:SET Z:I"
        # The connection that it was prepared on is used by another now, so that this takes the second.
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        assert a.ask(*RUN).endswith("C:SELECT 1 Z:I")
        assert b.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"
        for _ in range(2):
            assert b.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"


# What PostgreSQL reads anew under one client's settings


def test_a_text_that_the_server_has_read_anew_is_its_clients_alone(ground, clients):
    # PostgreSQL reads a prepared text again once the search_path has changed: by the DateStyle of that moment.
    one, two, three = clients
    with direct(ground) as truth:
        for client in (truth, one, two):
            assert client.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        # The first client's statement means what it would without a pooler.
        for _ in range(2):
            for setting in ("SET search_path TO other", "SET DateStyle TO 'ISO, DMY'", "RESET search_path"):
                truth.sql(setting)
                one.sql(setting)
                for _ in range(2):
                    assert one.ask(*RUN) == truth.ask(*RUN)
            assert one.ask(*RUN) == "2 D:20240302 C:SELECT 1 Z:I"
            assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"
        assert three.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        one.sql("RESET ALL")
        assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"


def test_a_plan_that_an_analyze_of_anybody_gives_up_is_read_by_each_client_as_before(ground, clients):
    one, two, _ = clients
    for client in (one, two):
        assert client.ask(parse("s", "SELECT count(*) FROM one_row WHERE a = NULL"), *RUN) == "1 2 D:0 C:SELECT 1 Z:I"
    one.sql("BEGIN")
    one.sql("SET LOCAL transform_null_equals = on")
    ground.psql("ANALYZE one_row")
    # Behind the end of the transaction, whose setting goes with it.
    one.ask(query("COMMIT"), *RUN, units=2)
    for _ in range(2):
        assert two.ask(*RUN) == "2 D:0 C:SELECT 1 Z:I"


def test_settings_of_users_own_cost_no_statement_its_copy(clients):
    prepared = "SELECT string_agg(name || prepare_time, ' ' ORDER BY name) FROM pg_prepared_statements"
    for client in clients[:2]:
        client.ask(parse("s", NULLS), *RUN)
    before = clients[2].value(prepared)
    for tenant in ("SET LOCAL app.tenant = '1'", "SELECT set_config('app.tenant', '1', true)"):
        for client in clients[:2]:
            client.sql("BEGIN")
            client.sql(tenant)
            assert client.ask(*RUN) == "2 D:0 C:SELECT 1 Z:T"
            client.sql("COMMIT")
    assert clients[2].value(prepared) == before


@pytest.mark.parametrize("moment", ["'now'", "E'n\\157w'"])
def test_a_moment_in_a_text_is_each_clients_own(clients, moment):
    sql = f"SELECT extract(epoch FROM now() - {moment}::timestamptz) < 1"
    assert clients[0].ask(parse("s", sql), *RUN) == "1 2 D:t C:SELECT 1 Z:I"
    time.sleep(1.2)
    assert clients[1].ask(parse("s", sql), *RUN) == "1 2 D:t C:SELECT 1 Z:I"
    assert clients[0].ask(*RUN) == "2 D:f C:SELECT 1 Z:I"


CHANGES = {
    "a query": [query("ALTER TABLE public.changed ALTER x TYPE bigint")],
    "made anew": [query("DROP TABLE public.changed"), query("CREATE TABLE public.changed (x bigint)")],
    "among others": [query("SELECT 1; ALTER TABLE public.changed ALTER x TYPE bigint; SELECT 2")],
}


@pytest.mark.parametrize("how", CHANGES)
def test_who_comes_after_a_change_of_a_table_has_its_new_types(ground, clients, how):
    def types(client):
        client.send(describe("s"), SYNC)
        body = next(body for kind, body in client.until(b"Z") if kind == b"t")
        return struct.unpack(f"!{(len(body) - 2) // 4}I", body[2:])

    ground.psql("DROP TABLE IF EXISTS public.changed; CREATE TABLE public.changed (x int)")
    old, changer, new = clients
    assert old.ask(parse("s", "INSERT INTO public.changed VALUES ($1)"), SYNC) == "1 Z:I"
    assert types(old) == (23,)
    assert "E:" not in changer.ask(*CHANGES[how], units=len(CHANGES[how]))
    assert new.ask(parse("s", "INSERT INTO public.changed VALUES ($1)"), SYNC) == "1 Z:I"
    assert types(new) == (20,)
    assert new.ask(bind_text("s", "5000000000"), EXECUTE, SYNC) == "2 C:INSERT 0 1 Z:I"


# Names

COMPLAINTS = {
    "a name that is taken": [parse("mine", "SELECT 1"), parse("mine", "SELECT 2"), SYNC],
    "a Bind of nothing": [bind("nobody's"), SYNC],
    "a Describe of nothing": [describe("nobody's"), SYNC],
    "an unnamed Bind of nothing": [bind(""), SYNC],
    "a closed one": [parse("mine", "SELECT 1"), close("mine"), bind("mine"), SYNC],
    "too many parameters": [parse("mine", "SELECT 1"), bind_text("mine", "x"), SYNC],
    "too many parameters without a name": [parse("", "SELECT 1"), bind_text("", "x"), SYNC],
    "a write with too many parameters": [parse("mine", "DELETE FROM one.t WHERE false"), bind_text("mine", "x"), SYNC],
    "too few parameters of one that its unit closes": [parse("mine", "SELECT $1"), bind("mine"), close("mine"), SYNC],
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_complaints_about_statements_name_them_as_their_client_does(ground, pooler, what):
    told = []
    for connect in (lambda: direct(ground), lambda: Raw(pooler.port)):
        with connect() as client:
            client.sql("SELECT 1")
            client.send(*COMPLAINTS[what])
            told.append([(code(body), field(body, "M")) for kind, body in client.until(b"Z") if kind == b"E"])
    assert told[0] == told[1] and len(told[0]) == 1


@pytest.mark.parametrize("sql", ["SELECT 1", "DELETE FROM one.t WHERE false"])
def test_a_statement_that_the_server_has_lost_is_named_as_its_client_does(clients, sql):
    client, other, _ = clients
    assert client.ask(parse("mine", sql), bind("mine"), EXECUTE, SYNC).startswith("1 2 ")
    assert other.sql("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$") == "C:DO Z:I"
    client.send(bind("mine"), EXECUTE, SYNC)
    errors = [(code(body), field(body, "M")) for kind, body in client.until(b"Z") if kind == b"E"]
    assert errors in ([], [("26000", 'prepared statement "mine" does not exist')])
    assert client.ask(bind("mine"), EXECUTE, SYNC).startswith("2 ")


def test_the_names_on_the_server_cannot_be_guessed(ground):
    # Whoever could would give them to statements of his own, in advance.
    found = []
    for _ in range(2):
        with Pooler(ground, default_pool_size=1) as pooler, Raw(pooler.port) as client:
            client.ask(parse("mine", "SELECT 'named'"), bind("mine"), EXECUTE, SYNC)
            found.append(client.value("SELECT name FROM pg_prepared_statements WHERE statement ~ '''named'''"))
    assert found[0] != found[1]


def test_a_name_whose_parse_no_server_has_answered_does_not_exist():
    settings = {"default_pool_size": 1, "pipelining": False, "server_login_retry": 0.1}
    with Scripted() as server, Pooler(server, **settings) as pooler, Raw(pooler.port) as client:
        client.send(parse("n", "SELECT 1"), SYNC)
        first = server.session(0)
        assert [kind for kind, _ in first.unit()] == [b"P", b"S"]
        end(first.socket)
        assert client.ask() == "E:08006 Z:I"
        client.send(bind("n"), EXECUTE, SYNC)
        second = server.session(1)
        # It is the server's to say that there is none. What the Execute runs is not known, so its Sync waits.
        assert [second.next()[0] for _ in range(3)] == [b"B", b"E", b"H"]
        second.send(error("26000", "there is none"))
        assert [kind for kind, _ in second.unit()] == [b"S"]
        second.send(ready())
        assert client.ask() == "E:26000 Z:I"


FAR = "CREATE TABLE k9.hid AS SELECT 'far' AS v"
NEAR = "CREATE TABLE k8.hid AS SELECT 'near' AS v"
FUNCTION = "CREATE FUNCTION {}.hid() RETURNS TABLE (v text) LANGUAGE sql STABLE AS $$ SELECT '{}' $$"


@pytest.mark.parametrize(
    ("through", "far", "near"),
    [
        pytest.param("pooler", FAR, NEAR, id="table"),
        pytest.param("pooler", FAR, f"DO $do$ BEGIN {NEAR}; END $do$", id="do"),
        pytest.param("pooler", FAR, f"SELECT pg_advisory_xact_lock(7); {NEAR}", id="among others"),
        pytest.param(
            "server", FUNCTION.format("k9", "far"), FUNCTION.format("k8", "near"), id="straight at the server"
        ),
    ],
)
def test_what_hides_another_is_taken_by_those_who_prepare_afterwards(server, through, far, near):
    asked = "SELECT v FROM hid()" if "FUNCTION" in far else "SELECT v FROM hid"
    with direct(server) as own:
        own.sql("DROP SCHEMA IF EXISTS k8, k9 CASCADE")
        assert "E:" not in own.sql(f"CREATE SCHEMA k8; CREATE SCHEMA k9; {far}")
    with (
        Pooler(server, default_pool_size=1) as pooler,
        Raw(pooler.port, search_path="k8,k9") as before,
        Raw(pooler.port, search_path="k8,k9") as after,
    ):
        before.sql("SELECT 1")
        pooler.wait_for_catalog()
        unit = parse("s", asked), bind("s"), EXECUTE, SYNC
        assert before.ask(*unit) == "1 2 D:far C:SELECT 1 Z:I"
        with Raw(pooler.port) if through == "pooler" else direct(server) as definer:
            assert "E:" not in definer.sql(near)

        def is_taken():
            said = after.ask(*unit, close("s"), SYNC, units=2)
            assert "D:far" in said or "D:near" in said, said
            return "D:near" in said

        # The guide promises five seconds for what is done straight at the server.
        wait_until(is_taken, 8)
