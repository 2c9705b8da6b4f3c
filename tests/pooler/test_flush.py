"""Units that are ended by Flush before their Sync: answered as PostgreSQL answers, without a server connection held by who
only prepares, and without a replica held by who then writes.
"""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import struct
import time

import pytest

from devkit import postgres
from devkit.server import Server
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, close, describe, direct, message, parse, query, show

S, Q = parse("s", "SELECT 1"), query("SELECT 'q'")
WRONG = parse("s", "SELECT nonsense")
PORTAL = message(b"D", b"P\0")
# Each step is sent when the one before has been answered: its messages, and the type that its answer ends with.
DIALOGUES = {
    "prepared": [([S, describe("s"), FLUSH], b"T"), ([SYNC], b"Z")],
    "prepared and used": [([S, describe("s"), FLUSH], b"T"), ([bind("s"), EXECUTE, SYNC], b"Z")],
    "prepared, used, used again": [
        ([S, describe("s"), FLUSH], b"T"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
    ],
    "prepared without a name": [
        ([parse("", "SELECT 1"), describe(""), FLUSH], b"T"),
        ([bind(""), EXECUTE, SYNC], b"Z"),
    ],
    "prepared twice": [
        ([S, describe("s"), FLUSH], b"T"),
        ([parse("t", "SELECT 2"), describe("t"), FLUSH], b"T"),
        ([bind("t"), EXECUTE, bind("s"), EXECUTE, SYNC], b"Z"),
    ],
    "a name that is taken": [
        ([S, describe("s"), FLUSH], b"T"),
        ([S, FLUSH], b"E"),
        ([SYNC], b"Z"),
        ([bind("s"), SYNC], b"Z"),
    ],
    "closed": [([S, FLUSH], b"1"), ([close("s"), FLUSH], b"3"), ([bind("s"), SYNC], b"Z")],
    "wrong": [([WRONG, describe("s"), FLUSH], b"E"), ([SYNC], b"Z"), ([S, bind("s"), EXECUTE, SYNC], b"Z")],
    "wrong, and more in the unit": [([WRONG, FLUSH], b"E"), ([S, bind("s"), EXECUTE, SYNC], b"Z"), ([Q], b"Z")],
    "wrong behind what is right": [
        ([S, FLUSH], b"1"),
        ([bind("nobody's"), FLUSH], b"E"),
        ([SYNC], b"Z"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
    ],
    "a Query behind": [([S, describe("s"), FLUSH], b"T"), ([Q], b"Z"), ([bind("s"), EXECUTE, SYNC], b"Z")],
    "a Query without a name behind": [
        ([parse("", "SELECT 1"), FLUSH], b"1"),
        ([Q], b"Z"),
        ([bind(""), EXECUTE, SYNC], b"Z"),
    ],
    "bound": [([S, bind("s"), FLUSH], b"2"), ([PORTAL, FLUSH], b"T"), ([EXECUTE, FLUSH], b"C"), ([SYNC], b"Z")],
    "executed": [([S, bind("s"), EXECUTE, FLUSH], b"C"), ([bind("s"), EXECUTE, FLUSH], b"C"), ([SYNC], b"Z")],
    "a write, executed": [
        ([parse("", "INSERT INTO flushed VALUES (1)"), bind(""), EXECUTE, FLUSH], b"C"),
        ([parse("", "SELECT count(*) FROM flushed"), bind(""), EXECUTE, FLUSH], b"C"),
        ([SYNC], b"Z"),
    ],
    "a write, then an error": [
        ([parse("", "INSERT INTO flushed VALUES (1)"), bind(""), EXECUTE, FLUSH], b"C"),
        ([parse("", "SELECT 1/0"), bind(""), EXECUTE, FLUSH], b"E"),
        ([SYNC], b"Z"),
        ([query("SELECT count(*) FROM flushed")], b"Z"),
    ],
    "in a transaction": [
        ([query("BEGIN")], b"Z"),
        ([S, describe("s"), FLUSH], b"T"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
        ([query("COMMIT")], b"Z"),
    ],
    "prepared, then a transaction": [
        ([S, describe("s"), FLUSH], b"T"),
        ([parse("", "BEGIN"), bind(""), EXECUTE, SYNC], b"Z"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
        ([query("ROLLBACK")], b"Z"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
    ],
    "a Flush alone": [([FLUSH, Q], b"Z"), ([FLUSH, SYNC], b"Z")],
    "Flushes": [
        ([S, FLUSH, FLUSH, describe("s"), FLUSH], b"T"),
        ([FLUSH, bind("s"), FLUSH, EXECUTE, FLUSH, SYNC], b"Z"),
    ],
    "a Describe alone": [
        ([S, SYNC], b"Z"),
        ([describe("s"), FLUSH], b"T"),
        ([describe("s"), FLUSH], b"T"),
        ([SYNC], b"Z"),
    ],
    "no columns": [
        ([parse("s", "DELETE FROM flushed"), describe("s"), FLUSH], b"n"),
        ([bind("s"), EXECUTE, SYNC], b"Z"),
    ],
}
# Those after which nothing but prepared statements is open.
IDLE = {
    "a statement": [S, describe("s"), FLUSH],
    "without a name": [parse("", "SELECT 1"), describe(""), FLUSH],
    "a write": [parse("s", "INSERT INTO flushed VALUES (1) RETURNING a"), describe("s"), FLUSH],
    "two": [S, describe("s"), parse("t", "SELECT 2"), describe("t"), FLUSH],
}
GROUND = "DROP TABLE IF EXISTS flushed; CREATE TABLE flushed (a int)"


@pytest.fixture(params=["pipelining", "without"])
def pooler(server, request):
    """One server connection."""
    with direct(server) as looker:
        looker.sql(GROUND)
    with Pooler(server, default_pool_size=1, pipelining=request.param == "pipelining") as running:
        yield running


@pytest.mark.parametrize("name", DIALOGUES)
def test_a_dialogue_with_flushes_is_answered_as_postgresql_does(server, pooler, name):
    with direct(server) as truth:
        wanted = [talk(truth, *step) for step in DIALOGUES[name]]
        truth.sql("TRUNCATE flushed")
    with Raw(pooler.port) as other, Raw(pooler.port) as client:
        for _ in range(2):
            for step, told in zip(DIALOGUES[name], wanted, strict=True):
                assert talk(client, *step) == told
            client.ask(close("s"), close("t"), SYNC)
            client.sql("TRUNCATE flushed")
        assert other.sql("SELECT 'other'") == "T D:other C:SELECT 1 Z:I"


def talk(client, parts, last):
    """Sends bytes and gives what comes up to a message of a type."""
    client.send(*parts)
    return show(client.until(last))


@pytest.mark.parametrize("kind", IDLE)
def test_clients_that_only_prepare_hold_no_connection(pooler, kind):
    with contextlib.ExitStack() as stack:
        # Each of them stays in the middle of its unit.
        preparing = [stack.enter_context(Raw(pooler.port)) for _ in range(5)]
        for client in preparing:
            assert "E" not in client.kinds(*IDLE[kind], until=b"T").rstrip("T")
        while kind == "two" and any(client.waiting(0.1) for client in preparing):
            for client in preparing:
                client.until(b"T")
        other = stack.enter_context(Raw(pooler.port))
        assert other.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"
        assert other.sql("SELECT 'other'") == "T D:other C:SELECT 1 Z:I"
        name = "" if kind == "without a name" else "s"
        for client in preparing:
            assert client.ask(bind(name), EXECUTE, SYNC) == (
                "2 D:1 C:INSERT 0 1 Z:I" if kind == "a write" else "2 D:1 C:SELECT 1 Z:I"
            )
            assert client.sql("SELECT 'x'") == "T D:x C:SELECT 1 Z:I"


def test_clients_whose_preparing_failed_hold_no_connection(pooler):
    with contextlib.ExitStack() as stack:
        preparing = [stack.enter_context(Raw(pooler.port)) for _ in range(5)]
        for client in preparing:
            assert talk(client, [WRONG, describe("s"), FLUSH], b"E") == "E:42703"
        other = stack.enter_context(Raw(pooler.port))
        assert other.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"
        for client in preparing:
            # Up to its Sync, what it sends is passed over.
            assert client.ask(S, bind("s"), EXECUTE, SYNC) == "Z:I"
            assert client.ask(S, bind("s"), EXECUTE, SYNC) == "1 2 D:1 C:SELECT 1 Z:I"


def test_a_client_with_a_portal_keeps_its_connection_until_its_sync(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        assert talk(client, [S, bind("s"), FLUSH], b"2") == "1 2"
        other.send(query("SELECT 'other'"))
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
        assert client.ask(EXECUTE, SYNC) == "D:1 C:SELECT 1 Z:I"
        assert other.ask() == "T D:other C:SELECT 1 Z:I"


# On a primary and a replica


@pytest.fixture(scope="module")
def pair(major):
    """A primary and a replica."""
    with Server(postgres.tree(major)) as primary, primary.replica() as replica:
        primary.psql(GROUND)
        primary.wait_for_replay(replica)
        yield primary, replica


# A read that tells which server has answered it.
WHERE = "SELECT current_setting('here.port')"


@pytest.fixture
def split(pair):
    """A pooler that reads from the replica and writes to the primary."""
    places = ", ".join(f'{{ host = "{server.socket_folder}", port = {server.port} }}' for server in pair)
    text = f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
monitor_user = "postgres"
pool_mode = "transaction"
default_pool_size = 2
[databases.app]
dbname = "postgres"
servers = [{places}]
healthcheck_interval = 0.2
"""
    with Pooler(pair[0], name="howdah.toml", text=text) as running:
        wait_until(lambda: sorted(row["role"] for row in running.show("REPLICAS")) == ["primary", "replica"])
        with Raw(running.port, "app") as reader:
            wait_until(lambda: reader.value(WHERE) == str(pair[1].port))
        yield running


WRITE = "INSERT INTO flushed VALUES (1)"


@pytest.mark.parametrize("prepared", ["right", "wrong"])
@pytest.mark.parametrize("then", ["a query", "in the unit", "a transaction", "a copy", "from the next borrower"])
def test_who_prepares_a_read_and_flushes_may_write_next(pair, split, prepared, then):
    pair[0].psql("TRUNCATE flushed")
    with Raw(split.port, "app") as client:
        if prepared == "right":
            assert talk(client, [parse("s", WHERE), describe("s"), FLUSH], b"T") == "1 t T"
        else:
            assert talk(client, [parse("s", "SELECT nonsense"), describe("s"), FLUSH], b"E") == "E:42703"
            assert client.ask(SYNC) == "Z:I"
        write = [parse("w", WRITE), bind("w"), EXECUTE, SYNC]
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
            assert client.ask(query("BEGIN"), *write, query("COMMIT"), units=3) == (
                "C:BEGIN Z:T 1 2 C:INSERT 0 1 Z:T C:COMMIT Z:I"
            )
        else:
            copy = [parse("", "COPY flushed FROM STDIN"), bind(""), EXECUTE, message(b"d", b"1\n"), message(b"c"), SYNC]
            assert client.ask(*copy) == "1 2 G C:COPY 1 Z:I"
        assert pair[0].psql("SELECT count(*) FROM flushed") == "1"
        if prepared == "right":
            assert client.ask(bind("s"), EXECUTE, SYNC).startswith("2 D:")
        for _ in range(3):
            assert client.sql(WRITE) == "C:INSERT 0 1 Z:I"


def test_what_is_thrown_away_behind_an_error_in_a_transaction_reaches_no_server(server):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server))
        for client in (stack.enter_context(direct(server)), stack.enter_context(Raw(pooler.port))):
            assert client.sql("BEGIN") == "C:BEGIN Z:T"
            client.send(WRONG, FLUSH)
            client.until(b"E")
            assert client.ask(S, bind("s"), EXECUTE, SYNC) == "Z:E"
            assert client.sql("ROLLBACK") == "C:ROLLBACK Z:I"
            assert client.ask(S, bind("s"), EXECUTE, SYNC) == "1 2 D:1 C:SELECT 1 Z:I"


def test_a_query_behind_a_failed_message_and_a_flush_is_skipped(server):
    with Pooler(server) as pooler, Raw(pooler.port) as client, direct(server) as straight:
        for one in (straight, client):
            one.send(parse("", "sel"), FLUSH)
            one.until(b"E")
            one.send(query("SELECT 'skipped'"), SYNC, query("SELECT 'next'"))
            assert (one.ask(), one.ask()) == ("Z:I", "T D:next C:SELECT 1 Z:I")


def ran(sql):
    """A statement in the extended protocol, without a Sync."""
    return parse("", sql), bind(""), EXECUTE


LO_CREAT = message(b"F", struct.pack("!IHHHIiH", 957, 1, 1, 1, 4, -1, 1))


# Longer than what the pooler reads of a Query before it passes the Query on.
LONG = f"SELECT CASE WHEN true THEN 2 END /* {'-' * 200_000} */"
BEHIND = {"query": query("SELECT 2"), "call": LO_CREAT, "long query": query(LONG)}


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_block_behind_one_that_has_ended_is_not_lost(server, end):
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as two:
        one.send(*ran("BEGIN"), *ran(end), *ran("SELECT 1"), query("SELECT 2"), SYNC)
        assert [one.ask().split()[-1], one.ask()] == ["Z:T", "Z:I"]
        assert two.sql("SELECT 9") == "T D:9 C:SELECT 1 Z:I"


@pytest.mark.parametrize("before", ["SELECT 8", "SELECT 1/0"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_unit_that_ends_its_clients_own_block_loses_nothing_behind_it(server, end, before):
    server.psql("DROP TABLE IF EXISTS kept; CREATE TABLE kept (number int)")
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as two:
        one.sql("BEGIN")
        one.sql(before)
        one.send(*ran(end), *ran("INSERT INTO kept VALUES (1)"), query("SELECT 2"), SYNC)
        assert [one.ask().split()[-1], one.ask()] == ["Z:T", "Z:I"]
        assert two.sql("SELECT count(*) FROM kept") == "T D:1 C:SELECT 1 Z:I"


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("pipelining", [True, False])
def test_a_parse_of_a_known_text_keeps_what_stands_before_it(server, pipelining, apart):
    """PostgreSQL commits a unit whose last message but the Sync is a Parse."""
    told = []
    known = [close("n"), parse("n", "SELECT 3")]
    with Pooler(server, default_pool_size=1, pipelining=pipelining) as pooler, direct(server) as eye:
        with direct(server) as straight, Raw(pooler.port) as pooled:
            for client in (straight, pooled):
                eye.sql("DROP TABLE IF EXISTS kept")
                eye.sql("CREATE TABLE kept (number int)")
                client.ask(*known, bind("n"), EXECUTE, SYNC)
                client.send(*ran("INSERT INTO kept VALUES (1)"), query("SELECT 2"))
                told.append(client.ask() if apart else "")
                for part in (*known, SYNC):
                    client.send(part)
                    time.sleep(0.02 if apart else 0)
                told.append(client.ask(units=1 if apart else 2))
                told.append(eye.value("SELECT count(*) FROM kept"))
                told.append(client.sql("SELECT 9"))
    assert told[:4] == told[4:]


@pytest.mark.parametrize("end", [query("SELECT 1/0"), b"".join((*ran("SELECT 1/0"), SYNC))], ids=["query", "execute"])
@pytest.mark.parametrize("pipelining", [True, False])
def test_a_parse_of_a_known_text_is_refused_in_a_block_that_has_just_failed(server, pipelining, end):
    told = []
    with Pooler(server, default_pool_size=1, pipelining=pipelining) as pooler, Raw(pooler.port) as other:
        pooler.wait_for_catalog()
        other.ask(parse("k", "SELECT 2"), bind("k"), EXECUTE, SYNC)
        with direct(server) as straight, Raw(pooler.port) as pooled:
            for client in (straight, pooled):
                client.sql("BEGIN")
                client.send(end, parse("n", "SELECT 2"), query("ROLLBACK"), SYNC, query("ROLLBACK"))
                told.append(client.ask(units=3))
                told.append(client.ask(parse("n", "SELECT 2"), bind("n"), EXECUTE, SYNC))
        assert told[:2] == told[2:]


@pytest.mark.parametrize("then", [describe("k"), parse("k", "ROLLBACK")], ids=["described", "taken"])
def test_a_parse_that_is_refused_in_a_block_takes_nothing_from_another_name(server, then):
    told = []
    text = "INSERT INTO kept VALUES (1)"
    server.psql("DROP TABLE IF EXISTS kept; CREATE TABLE kept (number int)")
    with Pooler(server, default_pool_size=1) as pooler, direct(server) as straight, Raw(pooler.port) as pooled:
        pooler.wait_for_catalog()
        for client in (straight, pooled):
            client.ask(parse("k", text), SYNC)
            client.sql("BEGIN")
            told.append(client.ask(query("SELECT 1/0"), parse("x", text), SYNC, units=2))
            told.append(client.ask(then, SYNC))
            told.append(client.sql("ROLLBACK"))
    assert told[:3] == told[3:]


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_what_stands_behind_an_execute_without_a_sync_is_committed(server, behind):
    """PostgreSQL 18 alone does not commit such a unit, and refuses the next command of the session (XX000)."""
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as two:
        for _ in range(3):
            one.send(parse("", "SET my.block = 'lost'"), bind(""), EXECUTE, behind, SYNC)
            assert one.until(b"Z")
            assert one.ask() == "Z:I"
            assert one.sql("SELECT current_setting('my.block', true)") == "T D:lost C:SELECT 1 Z:I"
            assert two.sql("BEGIN") == "C:BEGIN Z:T"
            assert two.sql("ROLLBACK") == "C:ROLLBACK Z:I"


BLOCKS = {
    "committed by a query": [[*ran("SELECT 1"), query("SELECT 2"), query("COMMIT"), SYNC]],
    "committed by one of several": [[*ran("SELECT 1"), query("SELECT 2"), query("SELECT 3; SELECT 4"), SYNC]],
    "begun": [[*ran("BEGIN"), query("SELECT 2"), SYNC], [query("SELECT 3")], [query("COMMIT")]],
    "begun and rolled back": [[*ran("BEGIN"), query("SELECT 2"), SYNC], [query("ROLLBACK")]],
    "begun and failed": [[*ran("BEGIN"), query("SELECT 2"), query("SELECT 1/0"), SYNC], [query("ROLLBACK")]],
    "begun again": [[*ran("SELECT 1"), query("SELECT 2"), *ran("SELECT 3"), SYNC]],
    "prepared behind": [[*ran("SELECT 1"), query("SELECT 2"), parse("", "SELECT 3"), SYNC]],
    "begun by a long query": [
        [*ran("SELECT 1"), query(f"{LONG}; BEGIN"), SYNC],
        [query("SELECT 3")],
        [query("COMMIT")],
    ],
    "begun by the next": [[*ran("SELECT 1"), query("SELECT 2"), query("START TRANSACTION"), SYNC], [query("COMMIT")]],
    "chained": [[*ran("BEGIN"), query("SELECT 2"), query("COMMIT AND CHAIN"), SYNC], [query("COMMIT")]],
}


@pytest.mark.parametrize("units", BLOCKS.values(), ids=BLOCKS)
def test_a_block_with_a_query_behind_an_execute_ends_as_postgresql_ends_it(server, units):
    told = []
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as pooled, direct(server) as straight:
        for client in (straight, pooled):
            for unit in units:
                client.send(*unit)
                told.append(client.ask(units=sum(part == SYNC or part[:1] == b"Q" for part in unit)))
            told.append(client.sql("SELECT 'next'"))
        assert told[: len(told) // 2] == told[len(told) // 2 :]


def test_a_reset_behind_which_a_query_ends_the_unit_leads_back_to_the_clients_own_value(server):
    """In a block that COMMIT AND CHAIN has opened: its tag does not tell that from the end of a block."""
    own = {"TimeZone": "Asia/Tokyo"}
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port, **own) as pooled:
        with direct(server, **own) as straight:
            told = []
            for client in (straight, pooled):
                told.append(client.sql("BEGIN; COMMIT AND CHAIN"))
                told.append(client.ask(*ran("SET TimeZone = 'Asia/Kolkata'"), query("SHOW TimeZone")))
                told.append(client.ask(*ran("RESET TimeZone"), query("SELECT 1")))
                told.append(client.sql("SHOW TimeZone"))
                told.append(client.sql("COMMIT"))
    assert told[:5] == told[5:]


WITHIN = {
    "a setting": [*ran("SELECT 1"), query("SET my.block = 'left'")],
    "a role": [*ran("SELECT 1"), query("SET ROLE pg_monitor")],
    "a row": [*ran("INSERT INTO kept VALUES (1)"), query("SELECT 1"), *ran("INSERT INTO kept VALUES (2)")],
    "a row, then an error": [*ran("INSERT INTO kept VALUES (1)"), query("SELECT 1/0")],
    "a lock": [*ran("SELECT pg_advisory_xact_lock(5)"), query("SELECT pg_advisory_lock(77)")],
    "a block": [*ran("BEGIN"), query("INSERT INTO kept VALUES (1)")],
}


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("unit", WITHIN.values(), ids=WITHIN)
def test_a_client_that_leaves_before_its_sync_leaves_what_postgresql_keeps(server, unit, answered):
    """A Query behind an Execute, and no Sync: what of it is committed is the server's matter, the session is nobody's."""

    def rows_left(connect):
        with direct(server) as client:
            client.sql("DROP TABLE IF EXISTS kept")
            client.sql("CREATE TABLE kept (number int)")
        with connect() as client:
            client.send(*unit)
            if answered:
                client.until(b"Z")
        with direct(server) as client:
            ended = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE '%in transaction%' OR state = 'active'"
            wait_until(lambda: client.sql(ended) == "T D:1 C:SELECT 1 Z:I")
            return client.sql("SELECT count(*) FROM kept")

    with Pooler(server, default_pool_size=1) as pooler:
        assert rows_left(lambda: Raw(pooler.port)) == rows_left(lambda: direct(server))
        with Raw(pooler.port) as after:
            said = after.sql("SELECT coalesce(current_setting('my.block', true), ''), current_user")
            assert said == "T D:|postgres C:SELECT 1 Z:I"
            assert after.sql("BEGIN") == "C:BEGIN Z:T"
            assert after.sql("ROLLBACK") == "C:ROLLBACK Z:I"
            locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            assert after.sql(locks) == "T D:0 C:SELECT 1 Z:I"


CLOSE_PORTAL = message(b"C", b"P\0")


@pytest.mark.parametrize("pipelining", [True, False])
def test_a_flush_behind_a_closed_portal_commits_nothing_of_its_unit(server, pipelining):
    def told(connect):
        with direct(server) as eye:
            eye.sql("DROP TABLE IF EXISTS half")
            eye.sql("CREATE TABLE half (number int)")
            with connect() as client:
                for messages, last in [
                    ([parse("", "INSERT INTO half VALUES (1)"), bind(""), EXECUTE, FLUSH], b"C"),
                    ([CLOSE_PORTAL, FLUSH], b"3"),
                    ([parse("s", "SELECT 1"), describe("s"), FLUSH], b"T"),
                ]:
                    client.send(*messages)
                    yield show(client.until(last))
                yield "seen before the Sync: " + eye.value("SELECT count(*) FROM half")
                client.send(*ran("SELECT 1/0"), SYNC)
                yield show(client.until(b"Z"))
                yield "left of the unit: " + eye.value("SELECT count(*) FROM half")

    with Pooler(server, default_pool_size=1, pipelining=pipelining) as pooler:
        assert list(told(lambda: Raw(pooler.port))) == list(told(lambda: direct(server)))


ENDED_BY_A_QUERY = {
    "closed": [close("s"), query("SELECT 2")],
    "closed, and written": [close("s"), query("SELECT 2 FOR UPDATE")],
    "closed, and a block": [close("s"), query("BEGIN; SELECT 2; COMMIT")],
    "prepared": [parse("t", "SELECT 1"), query("SELECT 2 FOR UPDATE")],
    "prepared, and an error": [parse("t", "SELECT 1"), describe("t"), query("SELECT 1/0")],
    "run, and an error": [*ran("SELECT 1"), query("SELECT 1/0")],
    "run, flushed, and a COMMIT": [*ran("SELECT 1"), FLUSH, query("COMMIT")],
    "a call": [close("s"), message(b"F", struct.pack("!IHHiH", 1317, 0, 1, 1, 0) + b"")],
}


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("unit", ENDED_BY_A_QUERY.values(), ids=ENDED_BY_A_QUERY)
def test_a_unit_that_a_query_ends_without_a_sync_is_over(server, unit, pipelining):
    """As pgjdbc sends it with preferQueryMode=extendedForPrepared: the connection is free, and its death is no matter."""
    settings = {"default_pool_size": 1, "pipelining": pipelining, "query_wait_timeout": 3}
    with Pooler(server, **settings) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as two, direct(server) as eye:
        for client in (one, eye):
            client.ask(S, SYNC)
        assert one.ask(*unit) == eye.ask(*unit)
        assert two.sql("SELECT 3 FOR UPDATE") == "T D:3 C:SELECT 1 Z:I"
        eye.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND application_name NOT LIKE 'howdah%'"
        )
        wait_until(lambda: not pooler.show("SERVERS"))
        assert one.sql("SELECT 4") == "T D:4 C:SELECT 1 Z:I"
        assert one.ask(SYNC) == "Z:I", "a Sync behind the unit is one of its own"


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("more", [0, 1])
def test_a_server_that_dies_in_a_query_behind_a_flush_ends_the_unit(server, more, pipelining):
    with Pooler(server, pipelining=pipelining) as pooler, Raw(pooler.port) as client, direct(server) as eye:
        client.send(*ran("SELECT 1"), FLUSH)
        client.until(b"C")
        client.send(query("SELECT pg_sleep(76)"), *[query("SELECT 2")] * more)
        running = "FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(76)' AND state = 'active'"
        wait_until(lambda: eye.value(f"SELECT count(*) {running}") == "1")
        eye.sql(f"SELECT pg_terminate_backend(pid) {running}")
        assert client.ask() == "T E:57P01 Z:I"
        assert [client.ask() for _ in range(more)] == ["T D:2 C:SELECT 1 Z:I"] * more, "it had not been sent"
        assert client.sql("SELECT 3") == "T D:3 C:SELECT 1 Z:I"


@pytest.mark.parametrize("first", [parse("", "SELECT 1"), close("nowhere")])
def test_a_query_ends_its_unit_within_a_block_too(server, first):
    told = []
    with Pooler(server) as pooler, Raw(pooler.port) as pooled, direct(server) as straight:
        for client in (straight, pooled):
            said = [client.ask(parse("s", "SELECT 7"), SYNC), client.ask(first, query("BEGIN"))]
            said += map(client.sql, ("DEALLOCATE s", "SET DateStyle = 'SQL, MDY'", "COMMIT", "SHOW DateStyle"))
            told.append([*said, client.ask(parse("s", "SELECT 8"), SYNC)])
    assert told[0] == told[1]


def test_a_client_that_is_silent_behind_a_flush_is_closed(server):
    settings = {"default_pool_size": 1, "idle_transaction_timeout": 1}
    with Pooler(server, **settings) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as two:
        one.send(*ran("SELECT 1"), FLUSH)
        one.until(b"C")
        assert two.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I"
        assert show([one.next()]) == "E:25P03"
