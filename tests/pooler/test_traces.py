"""What a client's session is, or leaves, where no statement says so plainly, decides nothing for others and reaches nobody."""

import contextlib
import struct

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, SYNC, Raw, describe, direct, message, parse

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
