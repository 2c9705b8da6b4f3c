"""COPY FROM STDIN whose data come with it, before the server has asked for them: answered as PostgreSQL answers."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import (
    EXECUTE,
    FLUSH,
    SYNC,
    Raw,
    bind,
    close,
    describe,
    direct,
    message,
    parse,
    query,
)

COPY = "COPY copied FROM STDIN"
EXTENDED = [parse("", COPY), bind(""), EXECUTE]
DONE = message(b"c")
FAIL = message(b"f", b"enough\0")
BIG = b"".join(b"%d\n" % number for number in range(30_000))


def data(text):
    """A CopyData."""
    return message(b"d", text)


ONE = data(b"1\n")
BAD = data(b"no number\n")
SELECT = [parse("", "SELECT 7"), bind(""), EXECUTE]
INSERT = [parse("", "INSERT INTO copied VALUES (99)"), bind(""), EXECUTE]
# Everything is sent at once; how many units PostgreSQL answers it with.
STREAMS = {
    "extended": ([*EXTENDED, ONE, DONE, SYNC], 1),
    "extended, nothing": ([*EXTENDED, DONE, SYNC], 1),
    "extended, a Sync in between": ([*EXTENDED, SYNC, ONE, DONE, SYNC], 1),
    "extended, Syncs and Flushes in between": ([*EXTENDED, SYNC, ONE, FLUSH, SYNC, ONE, SYNC, DONE, SYNC], 1),
    "extended, given up": ([*EXTENDED, ONE, FAIL, SYNC], 1),
    "extended, given up, a Sync in between": ([*EXTENDED, SYNC, ONE, FAIL, SYNC], 1),
    "extended, bad data": ([*EXTENDED, BAD, ONE, DONE, SYNC], 1),
    "extended, bad data, a Sync in between": ([*EXTENDED, SYNC, BAD, ONE, DONE, SYNC], 1),
    "extended, much": ([*EXTENDED, data(BIG), DONE, SYNC], 1),
    "extended, much in many": (
        [*EXTENDED, *[data(BIG[at : at + 999]) for at in range(0, len(BIG), 999)], DONE, SYNC],
        1,
    ),
    "extended, no such table": ([parse("", "COPY nothing FROM STDIN"), bind(""), EXECUTE, ONE, DONE, SYNC], 1),
    "extended, two in one unit": ([*EXTENDED, ONE, DONE, *EXTENDED, ONE, ONE, DONE, SYNC], 1),
    "extended, two in two units": ([*EXTENDED, ONE, DONE, SYNC, *EXTENDED, ONE, ONE, DONE, SYNC], 2),
    "extended, a read behind": ([*EXTENDED, ONE, DONE, *SELECT, SYNC], 1),
    "extended, a read before": ([*SELECT, *EXTENDED, ONE, DONE, SYNC], 1),
    "extended, a write before, bad data": ([*INSERT, *EXTENDED, BAD, DONE, SYNC], 1),
    "extended, units behind": ([*EXTENDED, ONE, DONE, SYNC, *SELECT, SYNC, query("SELECT 8")], 3),
    "extended, units behind bad data": ([*EXTENDED, BAD, DONE, SYNC, *SELECT, SYNC, query("SELECT 8")], 3),
    "extended, units before": ([query("SELECT 8"), *SELECT, SYNC, *EXTENDED, ONE, DONE, SYNC], 3),
    "extended, named": (
        [parse("copy", COPY), bind("copy"), EXECUTE, ONE, DONE, bind("copy"), EXECUTE, DONE, close("copy"), SYNC],
        1,
    ),
    "extended, in a transaction": (
        [query("BEGIN"), *EXTENDED, ONE, DONE, SYNC, query("SELECT count(*) FROM copied"), query("COMMIT")],
        4,
    ),
    "extended, bad data in a transaction": ([query("BEGIN"), *EXTENDED, BAD, DONE, SYNC, query("ROLLBACK")], 3),
    "query": ([query(COPY), ONE, DONE], 1),
    "query, nothing": ([query(COPY), DONE], 1),
    "query, given up": ([query(COPY), ONE, FAIL], 1),
    "query, bad data": ([query(COPY), BAD, ONE, DONE], 1),
    "query, bad data, then more": ([query(COPY), BAD, ONE, DONE, query("SELECT 8")], 2),
    "query, two in one": ([query(f"{COPY}; {COPY}; SELECT 8"), ONE, DONE, ONE, ONE, DONE], 1),
    "query, two": ([query(COPY), ONE, DONE, query(COPY), ONE, ONE, DONE], 2),
    "query, Syncs in between": ([query(COPY), SYNC, ONE, SYNC, DONE, query("SELECT 8")], 2),
    "query, much": ([query(COPY), data(BIG), DONE, query("SELECT 8")], 2),
    "to the client": ([parse("", "COPY (SELECT 5) TO STDOUT"), bind(""), EXECUTE, *EXTENDED, ONE, DONE, SYNC], 1),
    "query, a Sync in between, then another unit": ([query(COPY), SYNC, ONE, DONE, *SELECT, SYNC, *SELECT, SYNC], 3),
    "extended, a unit of other messages behind": (
        [*EXTENDED, ONE, DONE, SYNC, close("s"), bind("s"), EXECUTE, describe("s"), SYNC],
        2,
    ),
    "extended, a Sync in between, then more of the unit": (
        [parse("s", "SELECT 8"), *EXTENDED, SYNC, ONE, DONE, close("s"), SYNC],
        1,
    ),
    "data that nobody asked for": ([ONE, DONE, query("SELECT 8")], 1),
    "data behind a read": ([*SELECT, ONE, DONE, SYNC], 1),
}


@pytest.fixture
def looker(server):
    """A connection straight to the server, which has the table."""
    with direct(server) as opened:
        opened.sql("DROP TABLE IF EXISTS copied; CREATE TABLE copied (a int)")
        yield opened


def content(looker):
    """What has come into the table; it is empty afterwards."""
    found = looker.value("SELECT count(*) || ' ' || coalesce(sum(a), 0) FROM copied")
    looker.sql("TRUNCATE copied")
    return found


@pytest.mark.parametrize("mode", ["transaction", "pipelining", "session"])
@pytest.mark.parametrize("name", STREAMS)
def test_data_that_are_sent_at_once_are_answered_as_postgresql_does(server, looker, name, mode):
    parts, units = STREAMS[name]
    with direct(server) as truth:
        wanted = truth.ask(*parts, units=units)
        assert truth.sql("SELECT 'behind'") == "T D:behind C:SELECT 1 Z:I"
        there = content(looker)
    settings = {"pool_mode": "session" if mode == "session" else "transaction", "pipelining": mode == "pipelining"}
    with (
        # In session pooling each client keeps its connection.
        Pooler(server, default_pool_size=2 if mode == "session" else 1, **settings) as pooler,
        Raw(pooler.port) as client,
        Raw(pooler.port) as other,
    ):
        for _ in range(2):
            assert client.ask(*parts, units=units) == wanted
            assert content(looker) == there
            assert client.sql("SELECT 'behind'") == "T D:behind C:SELECT 1 Z:I"
            # Its connection is as good as before.
            assert other.sql("SELECT 'other'") == "T D:other C:SELECT 1 Z:I"


@pytest.mark.parametrize("name", ["extended", "extended, a Sync in between", "extended, bad data", "query, bad data"])
def test_data_in_single_bytes(server, looker, name):
    parts, units = STREAMS[name]
    with direct(server) as truth:
        wanted = truth.ask(*parts, units=units)
        there = content(looker)
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as client:
        for byte in b"".join(parts):
            client.send(bytes([byte]))
        assert client.ask(units=units) == wanted
        assert content(looker) == there
        assert client.sql("SELECT 'behind'") == "T D:behind C:SELECT 1 Z:I"


@pytest.mark.parametrize("reset", ["RESET TimeZone", "RESET ALL", "SET search_path TO DEFAULT"])
@pytest.mark.parametrize(
    "copy", [[query(COPY), ONE, DONE], [query(COPY), ONE, SYNC, FLUSH, DONE], [*EXTENDED, ONE, DONE, SYNC]]
)
def test_a_copy_behind_a_reset_in_its_transaction(server, looker, reset, copy):
    asked = {"TimeZone": "Asia/Tokyo", "options": "-c search_path=public"}
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port, **asked) as client, direct(server) as truth:
        for told in (client, truth):
            assert told.sql("BEGIN") == "C:BEGIN Z:T"
            assert told.sql(reset) == f"C:{reset.split()[0]} Z:T"
        for part in copy:
            client.send(part)
        assert client.ask() == truth.ask(*copy)
        assert client.sql("SELECT 'behind'") == "T D:behind C:SELECT 1 Z:T"
        assert client.sql("COMMIT") == "C:COMMIT Z:I"


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("within", [query("SELECT 8"), bind("missing")], ids=["query", "bind"])
def test_another_message_within_a_copy_ends_it(server, looker, mode, within):
    with (
        Pooler(server, default_pool_size=1, pool_mode=mode) as pooler,
        Raw(pooler.port) as client,
    ):
        assert client.ask(*EXTENDED, within, SYNC) == "1 2 G E:57014 Z:I"
        assert client.sql("SELECT 'behind'") == "T D:behind C:SELECT 1 Z:I"


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
@pytest.mark.parametrize("form", ["query", "extended"])
def test_a_copy_that_fails_within_a_message_gives_its_connection_back(server, looker, pipelining, form):
    long = data(b"no number\n" * 20_000)
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        x, y = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        x.send(*([query(COPY)] if form == "query" else [*EXTENDED, FLUSH]))
        while x.next()[0] != b"G":
            pass
        x.send(BAD, long[:100_000])
        # The server has given up before the message is whole.
        while x.next()[0] != (b"Z" if form == "query" else b"E"):
            pass
        y.send(query("SELECT 'y'"))
        if form == "extended":
            x.send(long[100_000:], DONE, SYNC)
            assert x.ask() == "Z:I"
        else:
            wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
            x.send(long[100_000:])
        assert y.ask() == "T D:y C:SELECT 1 Z:I"
        if form == "query":
            # What belongs to the COPY still, nobody answers.
            x.send(DONE)
        assert x.sql("SELECT 'x'") == "T D:x C:SELECT 1 Z:I"
        assert y.sql("SELECT 'y'") == "T D:y C:SELECT 1 Z:I"
