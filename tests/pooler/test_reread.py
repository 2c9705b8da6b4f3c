"""What PostgreSQL reads anew under one client's settings is no other client's: the copy of a statement that clients share."""

import contextlib
import struct
import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, direct, message, parse, query, show

NULLS = "SELECT count(*) FROM (VALUES (NULL::int), (1)) AS v (a) WHERE a = NULL"
DATE = "SELECT to_char('02/03/2024'::date, 'YYYYMMDD')"
RUN = (bind("s"), EXECUTE, SYNC)


def call(oid, *arguments):
    """A FunctionCall whose arguments are texts."""
    values = b"".join(struct.pack("!i", len(value)) + value.encode() for value in arguments)
    return message(b"F", struct.pack("!ihh", oid, 0, len(arguments)) + values + struct.pack("!h", 0))


@contextlib.contextmanager
def three(server, pipelining, **settings):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining, **settings))
        clients = [stack.enter_context(Raw(pooler.port)) for _ in range(3)]
        clients[0].sql("SELECT 1")
        pooler.wait_for_catalog()
        yield pooler, *clients


pytestmark = pytest.mark.parametrize("pipelining", [True, False])


@pytest.mark.parametrize(
    "how",
    [
        "SET LOCAL transform_null_equals = on",
        "SET transform_null_equals = on",
        "SELECT set_config('transform_null_equals', 'on', true)",
    ],
)
def test_unreported_setting_in_an_open_transaction(server, pipelining, how):
    with three(server, pipelining) as (_pooler, one, two, late):
        for client in (one, two):
            assert client.ask(parse("s", NULLS), *RUN) == "1 2 D:0 C:SELECT 1 Z:I"
        one.sql("BEGIN")
        one.sql(how)
        one.sql("DISCARD PLANS")
        assert one.ask(*RUN).endswith("Z:T")
        one.sql("ROLLBACK")
        assert two.ask(*RUN) == "2 D:0 C:SELECT 1 Z:I"
        assert late.ask(parse("t", NULLS), bind("t"), EXECUTE, SYNC) == "1 2 D:0 C:SELECT 1 Z:I"


def test_the_plan_is_given_up_by_an_analyze_of_anybody(server, pipelining):
    with direct(server) as owner:
        owner.sql("DROP TABLE IF EXISTS public.nulls; CREATE TABLE public.nulls AS SELECT NULL::int AS a")
        sql = "SELECT count(*) FROM public.nulls WHERE a = NULL"
        with three(server, pipelining) as (_pooler, one, two, _late):
            for client in (one, two):
                assert client.ask(parse("s", sql), *RUN) == "1 2 D:0 C:SELECT 1 Z:I"
            one.sql("BEGIN")
            one.sql("SET LOCAL transform_null_equals = on")
            owner.sql("ANALYZE public.nulls")
            assert one.ask(*RUN).endswith("Z:T")
            one.sql("COMMIT")
            for _ in range(3):
                assert two.ask(*RUN) == "2 D:0 C:SELECT 1 Z:I"


def test_a_reported_setting_of_a_unit_that_goes_on(server, pipelining):
    with three(server, pipelining) as (_pooler, one, two, _late):
        for client in (one, two):
            assert client.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        one.sql("BEGIN")
        one.send(
            parse("", "SET LOCAL DateStyle = 'ISO, DMY'"),
            bind(""),
            EXECUTE,
            parse("", "DISCARD PLANS"),
            bind(""),
            EXECUTE,
            FLUSH,
        )
        one.until(b"C")
        one.until(b"C")
        assert one.ask(*RUN).endswith("Z:T")
        one.sql("ROLLBACK")
        assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"


@pytest.fixture
def dated(server):
    """A text over a table, whose plans an ANALYZE gives up."""
    with direct(server) as owner:
        owner.sql("DROP TABLE IF EXISTS public.one_row; CREATE TABLE public.one_row AS SELECT 1 AS a")
        yield owner, "SELECT to_char('02/03/2024'::date, 'YYYYMMDD') FROM public.one_row"


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK TO a"])
def test_the_setting_goes_with_the_end_of_a_transaction_in_flight(server, pipelining, end, dated):
    # The session has days first; the transaction has months first, as the statement was prepared.
    owner, sql = dated
    with three(server, pipelining) as (_pooler, one, two, _late):
        for client in (one, two):
            assert client.ask(parse("s", sql), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        one.sql("SET DateStyle = 'ISO, DMY'")
        one.sql("BEGIN")
        one.sql("SAVEPOINT a")
        one.sql("SET LOCAL DateStyle = 'ISO, MDY'")
        owner.sql("ANALYZE public.one_row")
        one.ask(query(end), *RUN, units=2)
        one.sql("ROLLBACK")
        assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"


def test_the_setting_lies_more_than_sixteen_requests_back(server, pipelining, dated):
    owner, sql = dated
    with three(server, pipelining) as (pooler, one, two, _late):
        for client in (one, two):
            assert client.ask(parse("s", sql), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        owner.sql("ANALYZE public.one_row")
        with pooler.frozen():
            one.send(
                query("BEGIN"), query("SET LOCAL DateStyle = 'ISO, DMY'"), *(query("SELECT 1") for _ in range(20)), *RUN
            )
        for _ in range(23):
            one.until(b"Z")
        one.sql("ROLLBACK")
        assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"


def test_a_kept_text_without_a_name(server, pipelining):
    # Without pipelining none is kept, and nothing changes either.
    with three(server, pipelining, prepare_threshold=5) as (_pooler, one, two, late):
        unit = parse("", DATE), bind(""), EXECUTE, SYNC
        for _ in range(12):
            for client in (one, two):
                assert client.ask(*unit) == "1 2 D:20240203 C:SELECT 1 Z:I"
        steps = {"b": "BEGIN", "l": "SET LOCAL DateStyle = 'ISO, DMY'", "d": "DISCARD PLANS", "c": "COMMIT"}
        for name, sql in steps.items():
            one.ask(parse(name, sql), SYNC)
        assert one.ask(parse("", DATE), SYNC) == "1 Z:I"
        for name in ("b", "l", "d", "", "c"):
            assert "E:" not in one.ask(bind(name), EXECUTE, SYNC)
        for client in (two, late):
            assert client.ask(*unit) == "1 2 D:20240203 C:SELECT 1 Z:I"


def test_a_statement_that_stands_for_the_clients_own(server, pipelining):
    """Two's statement is read as of its later settings; one has prepared the same under these, and reads it otherwise."""
    with three(server, pipelining) as (pooler, one, two, _late):
        two.sql("SET DateStyle = 'German'")
        assert two.ask(parse("s", DATE), *RUN).startswith("1 2 ")
        two.sql("SET DateStyle = 'ISO, MDY'")
        pooler.psql("RECONNECT", "pgbouncer")
        # The server's copy is now one of the reading ISO, MDY.
        assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"
        assert one.ask(parse("s", DATE), *RUN) == "1 2 D:20240203 C:SELECT 1 Z:I"
        one.sql("SET DateStyle = 'ISO, DMY'")
        one.sql("DISCARD PLANS")
        one.ask(*RUN)
        for _ in range(2):
            assert two.ask(*RUN) == "2 D:20240203 C:SELECT 1 Z:I"


SETTING = "set_config('transform_null_equals', 'on', true)"
UNSEEN = {
    "among other statements": "SELECT 1; SET LOCAL transform_null_equals = on; SELECT 2",
    "behind the BEGIN": "COMMIT; BEGIN; SET LOCAL transform_null_equals = on",
    "by a function": "SELECT public.setter()",
    "by a procedure": "CALL public.procedural_setter()",
    "by a DO": "DO $$ BEGIN SET LOCAL transform_null_equals = on; END $$",
    "by the view of settings": "UPDATE pg_settings SET setting = 'on' WHERE name = 'transform_null_equals'",
    "by a definition": f"CREATE TEMP TABLE setting ON COMMIT DROP AS SELECT {SETTING}",
    "by a cursor": f"DECLARE c CURSOR FOR SELECT {SETTING}; FETCH c",
    "in a long text": f"SELECT '{'x' * 70_000}'; SET LOCAL transform_null_equals = on",
}


def setters(server):
    """Makes what sets a parameter out of sight of a text; gives the OID of set_config."""
    body = f"LANGUAGE plpgsql AS $$ BEGIN PERFORM {SETTING}; END $$"
    with direct(server) as owner:
        owner.sql(f"CREATE OR REPLACE FUNCTION public.setter() RETURNS void {body}")
        owner.sql(f"CREATE OR REPLACE PROCEDURE public.procedural_setter() {body}")
        return int(owner.value("SELECT 'set_config'::regproc::oid::int"))


@pytest.mark.parametrize("prepared", ["before", "meanwhile"])
@pytest.mark.parametrize("how", [*UNSEEN, "by a FunctionCall"])
def test_a_setting_that_the_text_does_not_show(server, pipelining, how, prepared):
    oid = setters(server)
    with three(server, pipelining) as (_pooler, one, two, late):
        if prepared == "before":
            for client in (one, two):
                assert client.ask(parse("s", NULLS), *RUN) == "1 2 D:0 C:SELECT 1 Z:I"
        one.sql("BEGIN")
        assert "E:" not in (
            one.sql(UNSEEN[how]) if how in UNSEEN else one.ask(call(oid, "transform_null_equals", "on", "t"))
        )
        assert one.value("SHOW transform_null_equals") == "on"
        one.sql("DISCARD PLANS")
        define = () if prepared == "before" else (parse("s", NULLS),)
        assert one.ask(*define, *RUN).endswith("D:1 C:SELECT 1 Z:T")
        one.sql("ROLLBACK")
        if prepared == "meanwhile":
            two.ask(parse("s", NULLS), SYNC)
        assert two.ask(*RUN) == "2 D:0 C:SELECT 1 Z:I"
        assert late.ask(parse("t", NULLS), bind("t"), EXECUTE, SYNC) == "1 2 D:0 C:SELECT 1 Z:I"


def test_a_text_without_a_literal_depends_on_settings_too(server, pipelining):
    sql = "SELECT 1.23456789::float8::text"
    with three(server, pipelining) as (_pooler, one, two, _late):
        for client in (one, two):
            assert client.ask(parse("s", sql), SYNC) == "1 Z:I"
        one.sql("BEGIN")
        one.sql("SET LOCAL extra_float_digits = -12")
        assert one.ask(*RUN) == "2 D:1.23 C:SELECT 1 Z:T"
        one.sql("ROLLBACK")
        assert two.ask(*RUN) == "2 D:1.23456789 C:SELECT 1 Z:I"


def test_settings_of_users_own_cost_no_statement_its_copy(server, pipelining):
    prepared = "SELECT string_agg(name || prepare_time, ' ' ORDER BY name) FROM pg_prepared_statements"
    with three(server, pipelining) as (_pooler, one, two, _late):
        for client in (one, two):
            client.ask(parse("s", NULLS), *RUN)
        before = one.value(prepared)
        for tenant in ("SET LOCAL app.tenant = '1'", "SELECT set_config('app.tenant', '1', true)"):
            for client in (one, two):
                client.sql("BEGIN")
                client.sql(tenant)
                assert client.ask(*RUN) == "2 D:0 C:SELECT 1 Z:T"
                client.sql("COMMIT")
        assert one.value(prepared) == before


def test_a_query_behind_a_query_that_sets_is_read_as_the_server_reads_it(server, pipelining):
    with three(server, pipelining) as (pooler, one, two, _late):
        who = two.value("SELECT current_user")
        with pooler.frozen():
            one.send(
                query("BEGIN; SET LOCAL standard_conforming_strings = off"),
                query("SELECT 'a\\'', set_config($$role$$, $$pg_monitor$$, false) --'"),
                query("COMMIT"),
            )
            time.sleep(0.1)
        for _ in range(3):
            one.until(b"Z")
        # A text with this word that is not read pins its connection.
        one.socket.close()
        assert two.value("SELECT current_user") == who


def test_a_unit_behind_one_that_skips_the_new_copy_does_not_get_the_old_one(server, pipelining):
    with direct(server) as owner:
        owner.sql("DROP TABLE IF EXISTS public.one_row; CREATE TABLE public.one_row AS SELECT 1 AS a")
        dated, fails = f"{DATE} FROM public.one_row", parse("", "SELECT 1/0") + bind("") + EXECUTE
        with three(server, pipelining) as (pooler, one, two, late):
            for client in (one, two, late):
                client.ask(fails, SYNC)
                client.ask(parse("s", dated), *RUN)
            one.sql("SET DateStyle = 'ISO, DMY'")
            owner.sql("ANALYZE public.one_row")
            for _ in range(2):
                assert one.ask(*RUN) == "2 D:20240302 C:SELECT 1 Z:I"
            with pooler.frozen():
                two.send(fails, *RUN)
                time.sleep(0.05)
                late.send(*RUN)
                time.sleep(0.05)
            two.until(b"Z")
            assert show(late.until(b"Z")) == "2 D:20240203 C:SELECT 1 Z:I"


@pytest.mark.parametrize("moment", ["'n'\n'ow'", "E'n\\157w'", "U&'n\\006fw'", "U&'n!006fw' UESCAPE '!'"])
def test_a_moment_that_is_spelled_out_is_each_clients_own(server, pipelining, moment):
    sql = f"SELECT extract(epoch FROM now() - {moment}::timestamptz) < 1"
    with three(server, pipelining) as (_pooler, one, two, _late):
        assert one.ask(parse("s", sql), *RUN) == "1 2 D:t C:SELECT 1 Z:I"
        time.sleep(1.2)
        assert two.ask(parse("s", sql), *RUN) == "1 2 D:t C:SELECT 1 Z:I"
