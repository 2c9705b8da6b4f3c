"""What PostgreSQL reads anew under one client's settings is no other client's: the copy of a statement that clients share."""

import contextlib

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, direct, parse, query

NULLS = "SELECT count(*) FROM (VALUES (NULL::int), (1)) AS v (a) WHERE a = NULL"
DATE = "SELECT to_char('02/03/2024'::date, 'YYYYMMDD')"
RUN = (bind("s"), EXECUTE, SYNC)


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
