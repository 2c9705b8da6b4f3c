"""What hides in a literal from whoever takes a text apart in another way than the server does is taken note of all the same."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, message, parse, query, show, startup

LOCK = 4713
LOCKS = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {LOCK}"
DOES = f"set_config($$role$$, $$nosy$$, false), pg_advisory_lock_shared({LOCK})"
# One literal where backslashes are characters like others, and two where they escape; and the other way round.
ESCAPED = rf"SELECT '\'', {DOES} --'"
PLAIN = rf"SELECT '\', {DOES} --'"
OFF = "SET standard_conforming_strings = off"
ON = "SET standard_conforming_strings = on"
GROUND = """
DROP TABLE IF EXISTS deferred; CREATE TABLE deferred (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE OR REPLACE FUNCTION turn_off() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RETURN set_config('standard_conforming_' || 'strings', 'off', false); END $$;
"""
# What is checked at the end of a transaction, and fails then.
FAILING = "INSERT INTO deferred VALUES (1), (1)"
# Letters whose second byte is a backslash.
LETTERS = {
    "SJIS": b"\x95\x5c",
    "BIG5": b"\xa5\x5c",
    "GBK": b"\x95\x5c",
    "GB18030": b"\x95\x5c",
}


def x(*statements):
    """What runs these statements in the extended protocol, up to a Sync."""
    return [part for sql in statements for part in (parse("", sql), bind(""), EXECUTE)]


@pytest.fixture(scope="module")
def ground(server):
    """A role to be left, and what sets how texts are read."""
    with direct(server) as looker:
        if looker.value("SELECT count(*) FROM pg_roles WHERE rolname = 'nosy'") == "0":
            looker.sql("CREATE ROLE nosy")
        assert "E:" not in looker.sql(GROUND)
    return server


@pytest.fixture(scope="module", params=["pipelining", "without"])
def pooler(ground, request):
    """One server connection, and statements known for what they are."""
    with Pooler(ground, default_pool_size=1, pipelining=request.param == "pipelining") as running:
        with Raw(running.port) as client:
            running.wait_for_catalog()
            for _ in range(4):
                assert client.sql(LOCKS) == "T D:0 C:SELECT 1 Z:I"
        yield running


@contextlib.contextmanager
def unharmed(pooler):
    """Another client, that finds its role and its locks as they were afterwards."""
    with Raw(pooler.port) as other:
        try:
            yield
            for _ in range(2):
                assert other.value("SELECT current_user") == "postgres"
            # The connection of a client that has left is cleaned after its client has heard of the end.
            wait_until(lambda: other.value(LOCKS) == "0")
        except AssertionError:
            # The tests share the connection.
            pooler.psql("RECONNECT", "pgbouncer")
            raise


def texts(sql):
    """A text as a Query, and as a named statement; it need not be in UTF-8."""
    return {
        "query": [message(b"Q", sql + b"\0")],
        "named": [message(b"P", b"s\0" + sql + b"\0\0\0"), bind("s"), EXECUTE, SYNC],
    }


def ran(answer):
    """Whether a client was told that the hidden statement has run."""
    return "|nosy|" in answer


# Letters that hold a backslash


def kinds(client, *parts):
    """The types of the messages of an answer, which may not be in UTF-8."""
    return client.kinds(*parts).replace("S", "")


@pytest.mark.parametrize("form", ["query", "named"])
@pytest.mark.parametrize("encoding", LETTERS)
def test_a_letter_that_ends_in_a_backslash_hides_nothing(pooler, encoding, form):
    hidden = b"SELECT E'" + LETTERS[encoding] + b"', " + DOES.encode() + b" --'"
    with Raw(pooler.port, client_encoding=encoding) as client, unharmed(pooler):
        assert "D" in kinds(client, *texts(hidden)[form])
        client.send(message(b"X"))
        assert client.is_closed()


def test_an_encoding_that_is_being_set_hides_nothing(pooler):
    hidden = b"SELECT E'" + LETTERS["SJIS"] + b"', " + DOES.encode() + b" --'"
    with Raw(pooler.port) as client, unharmed(pooler):
        assert kinds(client, query("SET client_encoding = 'SJIS'"), *texts(hidden)["query"]) == "CZ"
        assert "D" in kinds(client)
        client.send(message(b"X"))
        assert client.is_closed()


# How backslashes are read, when that is under way

# Steps that are answered, what is sent with the hidden statement ahead of it, and the hidden statement.
UNDER_WAY = {
    "SET": ([], [query(OFF)], ESCAPED),
    "SET, in the same unit": ([], x(OFF), ESCAPED),
    "SET among others": ([], [query(f"{OFF}; SELECT 1")], ESCAPED),
    "a transaction": ([], [query("BEGIN"), query(OFF), query("COMMIT")], ESCAPED),
    "set_config": ([], [query("SELECT set_config('standard_conforming_strings', 'off', false)")], ESCAPED),
    "a function": ([], [query("SELECT turn_off()")], ESCAPED),
    "a DO": ([], [query(f"DO $$ BEGIN {OFF}; END $$")], ESCAPED),
    "RESET": ([OFF], [query("RESET standard_conforming_strings")], PLAIN),
    "DISCARD ALL": ([OFF], [query("DISCARD ALL")], PLAIN),
    "ROLLBACK": (["BEGIN", OFF], [*x("ROLLBACK"), SYNC], PLAIN),
    "ROLLBACK TO": (["BEGIN", "SAVEPOINT s", OFF], [query("ROLLBACK TO s")], PLAIN),
    "COMMIT of a SET LOCAL": (["BEGIN", "SET LOCAL standard_conforming_strings = off"], [query("COMMIT")], PLAIN),
    "a COMMIT that fails": (["BEGIN", OFF, FAILING], [query("COMMIT")], PLAIN),
    "a Sync that fails": ([], [*x(OFF, FAILING), SYNC], PLAIN),
    "an error in a unit": ([], [*x(OFF, "SELECT 1/0"), SYNC], PLAIN),
}


def units(parts):
    """How many units these messages are."""
    return sum(part[:1] in (b"Q", b"S") for part in parts)


@pytest.mark.parametrize("form", ["query", "named"])
@pytest.mark.parametrize("what", UNDER_WAY)
def test_a_text_behind_what_changes_its_reading_hides_nothing(ground, pooler, what, form):
    steps, ahead, hidden = UNDER_WAY[what]
    behind = texts(hidden.encode())[form]
    with Raw(pooler.port) as client, unharmed(pooler), direct(ground) as truth:
        for step in steps:
            assert client.sql(step) == truth.sql(step)
        told = client.ask(*ahead, *behind, units=units(ahead + behind))
        assert told == truth.ask(*ahead, *behind, units=units(ahead + behind))
        assert ran(told)
        for each in (client, truth):
            each.send(message(b"X"))
            assert each.is_closed()


@pytest.mark.parametrize("ends", ["SELECT 1/0", FAILING, "ROLLBACK"])
def test_a_text_behind_a_unit_that_undoes_its_set_hides_nothing(ground, pooler, ends):
    """The SET was answered before."""
    behind = [*x(ends), SYNC, *texts(PLAIN.encode())["query"]]
    with Raw(pooler.port) as client, unharmed(pooler), direct(ground) as truth:
        for each in (client, truth):
            each.send(*x(OFF), message(b"H"))
            assert show(each.until(b"C")) == "1 2 C:SET"
        told = client.ask(*behind, units=2)
        assert told == truth.ask(*behind, units=2)
        assert ran(told)
        for each in (client, truth):
            each.send(message(b"X"))
            assert each.is_closed()


# Prepared at one time, run at another


@pytest.mark.parametrize("before, after, hidden", [(OFF, ON, ESCAPED), (ON, OFF, PLAIN)], ids=["off, on", "on, off"])
def test_a_prepared_statement_is_what_it_was_when_it_was_prepared(ground, pooler, before, after, hidden):
    with Raw(pooler.port) as client, unharmed(pooler), direct(ground) as truth:
        for each in (client, truth):
            assert each.sql(before) == "C:SET Z:I"
            assert each.ask(parse("s", hidden), SYNC) == "1 Z:I"
            assert each.sql(after) == "C:SET Z:I"
        told = client.ask(bind("s"), EXECUTE, SYNC)
        assert told == truth.ask(bind("s"), EXECUTE, SYNC)
        assert ran(told)
        for each in (client, truth):
            each.send(message(b"X"))
            assert each.is_closed()


# The pooler's own texts

# A letter whose last byte in UTF-8 is the first of a letter in SJIS.
INJECTED = f"ぃ\\'; SELECT pg_advisory_lock({LOCK}); --"


def opened(port, encoding, value):
    """A client with a parameter of its own in its startup packet."""
    client = Raw(port, login=False)
    client.send(startup("postgres", client_encoding=encoding, **{"my.tag": value}))
    client.greeting = client.until(b"Z")
    return client


@pytest.mark.parametrize("encoding", LETTERS)
def test_a_value_of_a_client_is_a_value_in_every_encoding(ground, pooler, encoding):
    with unharmed(pooler):
        # A quote may be escaped by a backslash in every literal.
        with Raw(pooler.port, client_encoding=encoding, backslash_quote="on") as first:
            assert first.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"
        look = query("SELECT convert_to(current_setting('my.tag'), 'UTF8')")
        with opened(pooler.port, encoding, INJECTED) as client:
            assert client.ask(look) == f"T D:\\x{INJECTED.encode().hex()} C:SELECT 1 Z:I"
