"""What hides in a literal from whoever takes a text apart in another way than the server does is taken note of all the same."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, message, query, show, startup
from tests.pooler.script import encoded

LOCK = 4713
LOCKS = f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {LOCK}"
DOES = f"set_config($$role$$, $$nosy$$, false), pg_advisory_lock_shared({LOCK})"
# One literal where backslashes are characters like others, and two where they escape; and the other way round.
ESCAPED = rf"SELECT '\'', {DOES} --'"
PLAIN = rf"SELECT '\', {DOES} --'"
OFF = "SET standard_conforming_strings = off"
GROUND = """
DROP TABLE IF EXISTS deferred; CREATE TABLE deferred (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE OR REPLACE FUNCTION turn_off() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RETURN set_config('standard_conforming_' || 'strings', 'off', false); END $$;
"""
# What is checked at the end of a transaction, and fails then.
FAILING = "INSERT INTO deferred VALUES (1), (1)"
# Letters whose second byte is a backslash.
LETTERS = {"SJIS": b"\x95\x5c", "BIG5": b"\xa5\x5c", "GBK": b"\x95\x5c", "GB18030": b"\x95\x5c"}


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


# How backslashes are read, when that is under way. In the words of script.py; "ESCAPED" and "PLAIN" stand for the hidden
# statement, as a Query and as a prepared one.
UNDER_WAY = f"""
Q {OFF} | ESCAPED
x {OFF} | ESCAPED
Q {OFF}; SELECT 1 | ESCAPED
Q BEGIN | Q {OFF} | Q COMMIT | ESCAPED
Q SELECT set_config('standard_conforming_strings', 'off', false) | ESCAPED
Q SELECT turn_off() | ESCAPED
Q DO $$ BEGIN {OFF}; END $$ | ESCAPED
Q {OFF} || Q RESET standard_conforming_strings | PLAIN
Q {OFF} || Q DISCARD ALL | PLAIN
Q BEGIN || Q {OFF} || x ROLLBACK | S | PLAIN
Q BEGIN || Q SAVEPOINT s || Q {OFF} || Q ROLLBACK TO s | PLAIN
Q BEGIN || Q SET LOCAL standard_conforming_strings = off || Q COMMIT | PLAIN
Q BEGIN || Q {OFF} || Q {FAILING} || Q COMMIT | PLAIN
x {OFF} | x {FAILING} | S | PLAIN
x {OFF} | x SELECT 1/0 | S | PLAIN
x {OFF} | H || x SELECT 1/0 | S | PLAIN
x {OFF} | H || x {FAILING} | S | PLAIN
x {OFF} | H || x ROLLBACK | S | PLAIN
"""
# Prepared at one time, run at another.
PREPARED = [
    f"Q {OFF} || P s: {ESCAPED} | S || Q SET standard_conforming_strings = on || B s | E | S",
    f"P s: {PLAIN} | S || Q {OFF} || B s | E | S",
]
ROWS = [
    line.replace("ESCAPED", form.format(ESCAPED)).replace("PLAIN", form.format(PLAIN))
    for line in UNDER_WAY.strip().splitlines()
    for form in ("Q {}", "P s: {} | B s | E | S")
]


@pytest.mark.parametrize("row", [*ROWS, *PREPARED])
def test_a_text_behind_what_changes_its_reading_hides_nothing(ground, pooler, row):
    with Raw(pooler.port) as client, unharmed(pooler), direct(ground) as truth:
        for step in row.split(" || "):
            told = []
            for each in (client, truth):
                parts = [encoded(text) for text in step.split(" | ")]
                each.send(*parts)
                ends = [b"C"] if step.endswith("| H") else [b"Z"] * sum(part[:1] in (b"Q", b"S") for part in parts)
                told.append(show([answer for end in ends for answer in each.until(end)]))
            assert told[0] == told[1]
        assert "|nosy|" in told[0], "the hidden statement has run"
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
