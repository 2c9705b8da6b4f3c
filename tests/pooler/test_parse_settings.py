"""A prepared statement is shared only by sessions that read its text alike, and is called by its client's own name."""

import contextlib
import struct

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import (
    EXECUTE,
    SYNC,
    Raw,
    bind,
    close,
    code,
    describe,
    direct,
    field,
    message,
    parse,
    query,
    show,
)

GROUND = """
DROP SCHEMA IF EXISTS one, two, closed CASCADE; CREATE SCHEMA one; CREATE SCHEMA two; CREATE SCHEMA closed;
CREATE TABLE one.t AS SELECT 'one'::text AS w; CREATE TABLE two.t AS SELECT 2 AS w, 'two'::text AS v;
CREATE FUNCTION one.f() RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'one'::text $$;
CREATE FUNCTION two.f() RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT 2 $$;
CREATE TABLE closed.t AS SELECT 'closed'::text AS w; GRANT SELECT ON closed.t TO PUBLIC;
"""
# Two values of a parameter, and a text that means something else under each.
READINGS = {
    "TimeZone": ("UTC", "Asia/Tokyo", "SELECT extract(epoch FROM '2024-01-01 00:00'::timestamptz)::bigint"),
    "timezone_abbreviations": (
        "Default",
        "Australia",
        "SELECT extract(epoch FROM '2024-01-01 0:00 EST'::timestamptz)::int",
    ),
    "DateStyle": ("ISO, MDY", "ISO, DMY", "SELECT to_char('02/03/2024'::date, 'YYYYMMDD')"),
    "IntervalStyle": ("postgres", "sql_standard", "SELECT extract(epoch FROM '-1 2:03'::interval)::int"),
    "client_encoding": ("UTF8", "LATIN1", "SELECT octet_length('é')"),
    "standard_conforming_strings": ("on", "off", r"SELECT length('a\\b')"),
    "backslash_quote": ("on", "off", r"SELECT E'a\'b'"),
    "transform_null_equals": ("off", "on", "SELECT count(*) FROM (VALUES (NULL::int), (1)) AS v (a) WHERE a = NULL"),
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
    with direct(server) as looker:
        if looker.value("SELECT count(*) FROM pg_roles WHERE rolname = 'outsider'") == "0":
            looker.sql("CREATE ROLE outsider")
        assert "E:" not in looker.sql(GROUND)
    return server


@pytest.fixture(params=["pipelining", "without"])
def pooler(ground, request):
    """One server connection."""
    with Pooler(ground, default_pool_size=1, pipelining=request.param == "pipelining") as running:
        yield running


def parameter_of(reading):
    """The parameter's own name."""
    return reading.split()[0]


def sessions(connect, reading, how):
    """Two clients that differ in a parameter, set as said."""
    name = parameter_of(reading)
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
        wanted = [truth.ask(bind("s"), EXECUTE, SYNC) for truth in truths]
        described = [truth.ask(describe("s"), SYNC) for truth in truths]
        prepared = [client.ask(parse("s", sql), SYNC) for client in clients]
        for client, told in zip(clients, prepared, strict=True):
            # Where one of them may not have it at all.
            assert told in ("1 Z:I", "E:42501 Z:I", "E:22P06 Z:I", "E:2200M Z:I", "E:0A000 Z:I")
            assert ("E:" in told) == ("E:26000" in wanted[clients.index(client)])
        for turn in range(3):
            for place in (0, 1) if turn % 2 else (1, 0):
                assert clients[place].ask(bind("s"), EXECUTE, SYNC) == wanted[place], f"turn {turn}, session {place}"
                assert clients[place].ask(describe("s"), SYNC) == described[place]
        # Those who come later as well.
        for place, client in enumerate(sessions(pooled, reading, how)):
            got = client.ask(parse("t", sql), bind("t"), EXECUTE, SYNC)
            assert got == truths[place].ask(parse("t", sql), bind("t"), EXECUTE, SYNC)
        if "E:" not in "".join(wanted):
            assert wanted[0] != wanted[1], "the parameter makes a difference"


def test_what_is_parsed_anew_is_not_shared_with_those_who_read_otherwise(pooler):
    sql = "SELECT to_char('02/03/2024'::date, 'YYYYMMDD')"
    with Raw(pooler.port) as changes, Raw(pooler.port) as stays:
        assert changes.value("SELECT 1") == "1"
        if pooler.settings["pipelining"]:
            pooler.wait_for_catalog()
        assert changes.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:20240203 C:SELECT 1 Z:I"
        assert changes.sql("SET DateStyle = 'ISO, DMY'") == "C:SET Z:I"
        # No server has it now: the next that gets it parses it for a session that reads days first.
        pooler.psql("RECONNECT", "pgbouncer")
        assert changes.ask(bind("s"), EXECUTE, SYNC) == "2 D:20240302 C:SELECT 1 Z:I"
        assert stays.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:20240203 C:SELECT 1 Z:I"


# The types that a statement's parameters are found to have stay.
TYPED = "SELECT w FROM t WHERE w = $1"


def bind_text(statement, value):
    """A Bind of one parameter as text."""
    body = b"\0" + statement.encode() + b"\0\0\0\0\1" + len(value).to_bytes(4, "big") + value.encode() + b"\0\0"
    return message(b"B", body)


def test_parameters_have_the_types_of_their_own_session(pooler):
    with Raw(pooler.port, search_path="one") as one, Raw(pooler.port, search_path="two") as two:
        for client in (one, two):
            assert client.ask(parse("s", TYPED), SYNC) == "1 Z:I"
        for _ in range(2):
            assert one.ask(bind_text("s", "one"), EXECUTE, SYNC) == "2 D:one C:SELECT 1 Z:I"
            assert two.ask(bind_text("s", "2"), EXECUTE, SYNC) == "2 D:2 C:SELECT 1 Z:I"


@pytest.mark.parametrize("reading", ["TimeZone", "DateStyle", "IntervalStyle", "standard_conforming_strings"])
def test_what_is_prepared_under_a_set_local_is_not_for_others(ground, pooler, reading):
    usual, other, sql = READINGS[reading]
    with Raw(pooler.port) as a, Raw(pooler.port) as b, direct(ground) as truth:
        assert a.ask(query("BEGIN"), query(f"SET LOCAL {reading} = '{other}'"), units=2) == "C:BEGIN Z:T C:SET Z:T"
        assert a.ask(parse("s", sql), bind("s"), EXECUTE, SYNC).endswith("Z:T")
        assert a.sql("COMMIT") == "C:COMMIT Z:I"
        for client in (b, truth):
            assert client.sql(f"SET {reading} = '{usual}'") == "C:SET Z:I"
        assert b.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == truth.ask(parse("s", sql), bind("s"), EXECUTE, SYNC)


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
def test_what_is_prepared_under_a_set_in_a_transaction_is_not_for_others(ground, pooler, ending):
    _, other, sql = READINGS["TimeZone"]
    with Raw(pooler.port, TimeZone="UTC") as a, Raw(pooler.port, TimeZone="UTC") as b:
        a.ask(query("BEGIN"), query(f"SET TimeZone = '{other}'"), units=2)
        assert a.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1704034800 C:SELECT 1 Z:T"
        a.sql(ending)
        assert b.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1704067200 C:SELECT 1 Z:I"
        if ending == "COMMIT":
            with Raw(pooler.port, TimeZone=other) as c:
                assert c.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1704034800 C:SELECT 1 Z:I"


def test_what_is_prepared_and_set_in_one_unit_is_not_for_others(pooler):
    sql = READINGS["TimeZone"][2]
    with Raw(pooler.port, TimeZone="UTC") as a, Raw(pooler.port, TimeZone="UTC") as b:
        setting = [parse("", "SET TimeZone = 'Asia/Tokyo'"), bind(""), EXECUTE]
        # The SET is undone by the error, what was prepared behind it is not.
        a.ask(*setting, parse("s", sql), parse("", "SELECT 1/0"), bind(""), EXECUTE, SYNC)
        assert b.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1704067200 C:SELECT 1 Z:I"


def test_a_statement_that_is_prepared_anew_on_another_connection_is_not_for_others(ground):
    # Prepared under one setting, used under another, on a connection that does not know it.
    sql = READINGS["TimeZone"][2]
    with (
        Pooler(ground, default_pool_size=2, pipelining=False) as pooler,
        Raw(pooler.port, TimeZone="UTC") as a,
        Raw(pooler.port, TimeZone="UTC") as b,
        Raw(pooler.port, TimeZone="UTC") as holder,
    ):
        assert a.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1704067200 C:SELECT 1 Z:I"
        assert a.sql("SET TimeZone = 'Asia/Tokyo'") == "C:SET Z:I"
        # The connection that it was prepared on is used by another now, so that this takes the second.
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        assert a.ask(bind("s"), EXECUTE, SYNC).endswith("C:SELECT 1 Z:I")
        assert b.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1704067200 C:SELECT 1 Z:I"
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"
        for _ in range(2):
            assert b.ask(bind("s"), EXECUTE, SYNC) == "2 D:1704067200 C:SELECT 1 Z:I"


# Tables that change

CHANGES = {
    "a query": [query("ALTER TABLE public.changed ALTER x TYPE bigint")],
    "extended": [parse("", "ALTER TABLE public.changed ALTER x TYPE bigint"), bind(""), EXECUTE, SYNC],
    "in a transaction": [query("BEGIN"), query("ALTER TABLE public.changed ALTER x TYPE bigint"), query("COMMIT")],
    "among others": [query("SELECT 1; ALTER TABLE public.changed ALTER x TYPE bigint; SELECT 2")],
    "made anew": [query("DROP TABLE public.changed"), query("CREATE TABLE public.changed (x bigint)")],
}


def parameter_types(client, name):
    """The types of a statement's parameters."""
    client.send(describe(name), SYNC)
    body = next(body for kind, body in client.until(b"Z") if kind == b"t")
    return struct.unpack(f"!{(len(body) - 2) // 4}I", body[2:])


@pytest.mark.parametrize("how", CHANGES)
def test_who_comes_after_a_change_of_a_table_has_its_new_types(ground, pooler, how):
    ground.psql("DROP TABLE IF EXISTS public.changed; CREATE TABLE public.changed (x int)")
    sql = "INSERT INTO public.changed VALUES ($1)"
    with Raw(pooler.port) as old, Raw(pooler.port) as changer:
        pooler.wait_for_catalog()
        assert old.ask(parse("s", sql), SYNC) == "1 Z:I"
        assert parameter_types(old, "s") == (23,)
        told = changer.ask(*CHANGES[how], units=sum(part[:1] in (b"Q", b"S") for part in CHANGES[how]))
        assert "E:" not in told
        with Raw(pooler.port) as new:
            assert new.ask(parse("s", sql), SYNC) == "1 Z:I"
            assert parameter_types(new, "s") == (20,)
            assert new.ask(bind_text("s", "5000000000"), EXECUTE, SYNC) == "2 C:INSERT 0 1 Z:I"


# Names


def complaint(client, *parts):
    """The SQLSTATE and the text of the one error that a unit is answered with."""
    client.send(*parts)
    found = client.until(b"Z")
    errors = [body for kind, body in found if kind == b"E"]
    assert len(errors) == 1, show(found)
    return code(errors[0]), field(errors[0], "M")


COMPLAINTS = {
    "a name that is taken": [parse("mine", "SELECT 1"), parse("mine", "SELECT 2"), SYNC],
    "a name that is taken by the same": [parse("mine", "SELECT 1"), parse("mine", "SELECT 1"), SYNC],
    "a Bind of nothing": [bind("nobody's"), SYNC],
    "a Describe of nothing": [describe("nobody's"), SYNC],
    "an unnamed Bind of nothing": [query("SELECT 1"), bind(""), SYNC],
    "a closed one": [parse("mine", "SELECT 1"), close("mine"), bind("mine"), SYNC],
    "too many parameters": [parse("mine", "SELECT 1"), bind_text("mine", "x"), SYNC],
    "too many parameters without a name": [parse("", "SELECT 1"), bind_text("", "x"), SYNC],
    "a write with too many parameters": [parse("mine", "DELETE FROM one.t WHERE false"), bind_text("mine", "x"), SYNC],
}


@pytest.mark.parametrize("before", ["", "behind one that is prepared"])
@pytest.mark.parametrize("name", COMPLAINTS)
def test_complaints_about_statements_name_them_as_their_client_does(ground, pooler, name, before):
    with Raw(pooler.port) as client, direct(ground) as truth:
        told = []
        for each in (truth, client):
            if before:
                assert each.ask(parse("other", "SELECT 7"), bind("other"), EXECUTE, SYNC) == "1 2 D:7 C:SELECT 1 Z:I"
            parts = COMPLAINTS[name]
            if parts[0][:1] == b"Q":
                each.ask(parts[0])
                parts = parts[1:]
            told.append(complaint(each, *parts))
        assert told[1] == told[0]


def test_a_name_that_is_taken_is_named_in_a_later_unit(ground, pooler):
    with Raw(pooler.port) as client, direct(ground) as truth:
        for each in (truth, client):
            assert each.ask(parse("mine", "SELECT 1"), SYNC) == "1 Z:I"
        wanted = complaint(truth, parse("mine", "SELECT 2"), SYNC)
        assert wanted == ("42P05", 'prepared statement "mine" already exists')
        for _ in range(2):
            assert complaint(client, parse("mine", "SELECT 2"), SYNC) == wanted
        assert client.ask(bind("mine"), EXECUTE, SYNC) == "2 D:1 C:SELECT 1 Z:I"


FORGOTTEN = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"


@pytest.mark.parametrize("sql", ["SELECT 1", "DELETE FROM one.t WHERE false"])
def test_a_statement_that_the_server_has_lost_is_named_as_its_client_does(pooler, sql):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        assert client.ask(parse("mine", sql), bind("mine"), EXECUTE, SYNC).startswith("1 2 ")
        assert other.sql(FORGOTTEN) == "C:DO Z:I"
        client.send(bind("mine"), EXECUTE, SYNC)
        found = client.until(b"Z")
        errors = [(code(body), field(body, "M")) for kind, body in found if kind == b"E"]
        assert errors in ([], [("26000", 'prepared statement "mine" does not exist')])
        assert client.ask(bind("mine"), EXECUTE, SYNC).startswith("2 ")


def names(pooler):
    """The names that the server knows statements by."""
    with Raw(pooler.port) as client:
        client.ask(parse("mine", "SELECT 'named'"), bind("mine"), EXECUTE, SYNC)
        return client.value("SELECT string_agg(name, ' ') FROM pg_prepared_statements WHERE statement ~ 'named'")


def test_the_names_on_the_server_cannot_be_guessed(ground):
    # Whoever could would give them to statements of his own, in advance.
    found = []
    for _ in range(2):
        with Pooler(ground, default_pool_size=1) as pooler:
            found.append(names(pooler))
    assert found[0] != found[1]


def test_a_name_that_was_made_up_in_advance_is_of_no_use(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        guesses = " ".join(
            f"""BEGIN EXECUTE 'PREPA' || 'RE "HOWDAH_{number}_{generation}" AS SELECT 1'; EXCEPTION WHEN OTHERS THEN END;"""
            for number in range(1, 8)
            for generation in range(2)
        )
        assert other.sql(f"DO $do$ BEGIN {guesses} END $do$") == "C:DO Z:I"
        for number in range(6):
            sql = f"SELECT 'good {number}'"
            assert client.ask(parse(f"s{number}", sql), bind(f"s{number}"), EXECUTE, SYNC) == (
                f"1 2 D:good {number} C:SELECT 1 Z:I"
            )


def test_a_text_under_a_name_that_the_server_has_forgotten_is_not_for_others(pooler):
    with Raw(pooler.port) as a, Raw(pooler.port) as b:
        pooler.wait_for_catalog()
        text = "SELECT 'of both', random() >= 0"
        for client in (a, b):
            assert client.ask(parse("s", text), bind("s"), EXECUTE, SYNC) == "1 2 D:of both|t C:SELECT 1 Z:I"
        a.sql("BEGIN")
        a.sql("DO $$ BEGIN EXECUTE 'DEALLO' || 'CATE ALL'; END $$")
        # The server has no such name any more, so it takes another text under it.
        a.send(parse("s", "SELECT 'of A', true"), SYNC)
        while (got := a.next()) is not None and got[0] != b"Z":
            pass
        if got is not None:
            a.sql("COMMIT")
        for _ in range(2):
            assert b.ask(bind("s"), EXECUTE, SYNC) == "2 D:of both|t C:SELECT 1 Z:I"


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("first", ["the one that sets", "the other"])
def test_set_config_in_a_transaction_changes_no_others_reading(server, pipelining, first):
    sql = "SELECT count(*) FROM (VALUES (NULL::int), (1)) AS v (a) WHERE a = NULL"
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        one, two = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        one.sql("SELECT 1")
        pooler.wait_for_catalog()

        def sets():
            one.sql("BEGIN")
            one.sql("SELECT set_config('transform_null_equals', 'on', true)")
            assert one.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:1 C:SELECT 1 Z:T"
            one.sql("COMMIT")

        def reads():
            assert two.ask(parse("s", sql), bind("s"), EXECUTE, SYNC) == "1 2 D:0 C:SELECT 1 Z:I"

        for step in (sets, reads) if first == "the one that sets" else (reads, sets):
            step()


@pytest.mark.parametrize("pipelining", [True, False])
def test_a_text_that_the_server_has_read_anew_is_its_clients_alone(server, pipelining):
    # PostgreSQL reads a prepared text again once the search_path has changed: by the DateStyle of that moment.
    sql = "SELECT to_char('02/03/2024'::date, 'YYYYMMDD')"
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        truth, one, two, three = (
            stack.enter_context(client) for client in (direct(server), *(Raw(pooler.port) for _ in range(3)))
        )
        one.sql("SELECT 1")
        pooler.wait_for_catalog()
        run = bind("s"), EXECUTE, SYNC
        for client in (truth, one, two):
            assert client.ask(parse("s", sql), *run) == "1 2 D:20240203 C:SELECT 1 Z:I"
        # The first client's statement means what it would without a pooler.
        for _ in range(2):
            for setting in ("SET search_path TO other", "SET DateStyle TO 'ISO, DMY'", "RESET search_path"):
                truth.sql(setting)
                one.sql(setting)
                for _ in range(2):
                    assert one.ask(*run) == truth.ask(*run)
            assert one.ask(*run) == "2 D:20240302 C:SELECT 1 Z:I"
            for client in (two, two):
                assert client.ask(*run) == "2 D:20240203 C:SELECT 1 Z:I"
        assert three.ask(parse("s", sql), *run) == "1 2 D:20240203 C:SELECT 1 Z:I"
        one.sql("RESET ALL")
        assert two.ask(*run) == "2 D:20240203 C:SELECT 1 Z:I"
