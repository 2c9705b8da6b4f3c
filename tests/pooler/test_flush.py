"""Units that are ended by Flush before their Sync: whoever only prepares holds no server connection, nor a replica."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, describe, message, parse, query, show

WRONG = parse("s", "SELECT nonsense")
GROUND = "DROP TABLE IF EXISTS flushed; CREATE TABLE flushed (a int)"
# Those after which nothing but prepared statements is open, and the type that their answer ends with.
PREPARED = {
    "a statement": ([parse("s", "SELECT 1"), describe("s"), FLUSH], b"T"),
    "a write": ([parse("s", "INSERT INTO flushed VALUES (1) RETURNING a"), describe("s"), FLUSH], b"T"),
    "a wrong one": ([WRONG, describe("s"), FLUSH], b"E"),
}


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def pooler(server, request):
    """One server connection."""
    server.psql(GROUND)
    with Pooler(server, default_pool_size=1, pipelining=request.param) as running:
        yield running


def talk(client, parts, last):
    """Sends bytes and gives what comes up to a message of a type."""
    client.send(*parts)
    return show(client.until(last))


def ran(sql):
    """A statement in the extended protocol, without a Sync."""
    return parse("", sql), bind(""), EXECUTE


@pytest.mark.parametrize("kind", PREPARED)
def test_clients_that_only_prepare_hold_no_connection(pooler, kind):
    with contextlib.ExitStack() as stack:
        # Each of them stays in the middle of its unit.
        preparing = [stack.enter_context(Raw(pooler.port)) for _ in range(5)]
        for client in preparing:
            talk(client, *PREPARED[kind])
        other = stack.enter_context(Raw(pooler.port))
        assert other.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"
        for client in preparing:
            assert client.ask(bind("s"), EXECUTE, SYNC) in ("2 D:1 C:INSERT 0 1 Z:I", "2 D:1 C:SELECT 1 Z:I", "Z:I")
            assert client.sql("SELECT 'x'") == "T D:x C:SELECT 1 Z:I"


def test_a_client_with_a_portal_keeps_its_connection_until_its_sync(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        assert talk(client, [parse("s", "SELECT 1"), bind("s"), FLUSH], b"2") == "1 2"
        other.send(query("SELECT 'other'"))
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
        assert client.ask(EXECUTE, SYNC) == "D:1 C:SELECT 1 Z:I"
        assert other.ask() == "T D:other C:SELECT 1 Z:I"


def test_a_client_that_is_silent_behind_a_flush_is_closed(pooler):
    pooler.reload(idle_transaction_timeout=1)
    with Raw(pooler.port) as one, Raw(pooler.port) as two:
        assert talk(one, [*ran("SELECT 1"), FLUSH], b"C") == "1 2 D:1 C:SELECT 1"
        assert two.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I"
        assert show([one.next()]) == "E:25P03"
    pooler.reload(idle_transaction_timeout=0)


def test_a_copy_that_fails_within_a_message_gives_its_connection_back(server, pooler):
    copy, bad, done = query("COPY flushed FROM STDIN"), message(b"d", b"no number\n"), message(b"c")
    long = message(b"d", b"no number\n" * 20_000)
    with Raw(pooler.port) as x, Raw(pooler.port) as y:
        assert talk(x, [copy], b"G") == "G"
        x.send(bad, long[:100_000])
        # The server has given up before the message is whole.
        x.until(b"Z")
        y.send(query("SELECT 'y'"))
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
        x.send(long[100_000:])
        assert y.ask() == "T D:y C:SELECT 1 Z:I"
        # What belongs to the COPY still, nobody answers.
        x.send(done)
        assert x.sql("SELECT 'x'") == "T D:x C:SELECT 1 Z:I"


# On a primary and a replica

# A read that tells which server has answered it.
WHERE = "SELECT current_setting('here.port')"
WRITE = "INSERT INTO flushed VALUES (1)"


@pytest.fixture(scope="module")
def split(steady_trio):
    """A pooler that reads from replicas and writes to their primary."""
    steady_trio.primary.psql(GROUND)
    steady_trio.catch_up()
    text = steady_trio.toml('pool_mode = "transaction"\ndefault_pool_size = 2', "healthcheck_interval = 0.2")
    with Pooler(steady_trio.primary, name="howdah.toml", text=text) as running:
        with Raw(running.port, "app") as reader:
            wait_until(lambda: reader.value(WHERE) != str(steady_trio.primary.port))
        yield running
    steady_trio.primary.psql("DROP TABLE flushed")
    steady_trio.catch_up()


@pytest.mark.parametrize("prepared", ["right", "wrong"])
@pytest.mark.parametrize("then", ["a query", "in the unit", "a transaction", "a copy", "from the next borrower"])
def test_who_prepares_a_read_and_flushes_may_write_next(split, prepared, then):
    split.server.psql("TRUNCATE flushed")
    write = [parse("w", WRITE), bind("w"), EXECUTE, SYNC]
    with Raw(split.port, "app") as client:
        if prepared == "right":
            assert talk(client, [parse("s", WHERE), describe("s"), FLUSH], b"T") == "1 t T"
        else:
            assert talk(client, [WRONG, describe("s"), FLUSH], b"E") == "E:42703"
            assert client.ask(SYNC) == "Z:I"
        if then == "in the unit":
            assert client.ask(*write) == "1 2 C:INSERT 0 1 Z:I"
        elif then == "a query":
            assert client.sql(WRITE) == "C:INSERT 0 1 Z:I"
        elif then == "from the next borrower":
            # As a pool of the driver's own does between two of its users.
            assert client.ask(SYNC) == "Z:I"
            assert client.sql("RESET ALL") == "C:RESET Z:I"
            assert client.ask(*write) == "1 2 C:INSERT 0 1 Z:I"
        elif then == "a transaction":
            answers = client.ask(query("BEGIN"), *write, query("COMMIT"), units=3)
            assert answers == "C:BEGIN Z:T 1 2 C:INSERT 0 1 Z:T C:COMMIT Z:I"
        else:
            copy = [*ran("COPY flushed FROM STDIN"), message(b"d", b"1\n"), message(b"c"), SYNC]
            assert client.ask(*copy) == "1 2 G C:COPY 1 Z:I"
        assert split.server.psql("SELECT count(*) FROM flushed") == "1"
        if prepared == "right":
            assert client.ask(bind("s"), EXECUTE, SYNC).startswith("2 D:")
        assert client.sql(WRITE) == "C:INSERT 0 1 Z:I"
