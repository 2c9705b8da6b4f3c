"""Texts that are prepared without a name over and over are kept by servers, and nobody can tell but by the time."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, close, describe, direct, field, parse, query
from tests.pooler.test_parse_settings import GROUND, READINGS, bind_text, sessions

TIMES = 5
TEXT = "SELECT w, $1::text AS given FROM one.t"
KEPT = "SELECT count(*) FROM pg_prepared_statements WHERE statement = '{}'"


@pytest.fixture(scope="module")
def ground(server):
    """Two schemas in which the same names mean different things."""
    with direct(server) as looker:
        if looker.value("SELECT count(*) FROM pg_roles WHERE rolname = 'outsider'") == "0":
            looker.sql("CREATE ROLE outsider")
        assert "E:" not in looker.sql(GROUND)
    return server


@pytest.fixture
def pooler(ground):
    """One server connection, on which clients share what may be shared."""
    with Pooler(ground, default_pool_size=1, prepare_threshold=TIMES) as running:
        with Raw(running.port) as client:
            client.sql("SELECT 1")
        running.wait_for_catalog()
        yield running


def unit(text, value):
    """What a driver sends for each execution."""
    return parse("", text), bind_text("", value), EXECUTE, SYNC


def kept(client, text):
    """Whether the server keeps a text."""
    return client.value(KEPT.format(text.replace("'", "''"))) == "1"


def warm(client, text, value="x"):
    """Runs a text until the server keeps it: the first of its shape run alone, and are counted like others."""
    for _ in range(TIMES + 4):
        client.ask(*unit(text, value))
    assert kept(client, text)


def test_a_text_is_kept_when_it_has_come_often(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        for turn in range(3 * TIMES):
            who = (client, other)[turn % 2]
            assert who.ask(*unit(TEXT, f"v{turn}")) == f"1 2 D:one|v{turn} C:SELECT 1 Z:I"
            assert kept(other, TEXT) == (turn + 1 >= TIMES)
        # By two names at once, and beside one of no name.
        assert client.ask(parse("n", TEXT), bind_text("n", "y"), EXECUTE, SYNC) == "1 2 D:one|y C:SELECT 1 Z:I"
        assert kept(client, TEXT)


@pytest.mark.parametrize("settings", [{"prepare_threshold": 0}, {"pipelining": False}], ids=str)
def test_nothing_is_kept_where_that_is_not_wanted(ground, settings):
    with Pooler(ground, default_pool_size=1, **settings) as pooler, Raw(pooler.port) as client:
        for turn in range(4 * TIMES):
            assert client.ask(*unit(TEXT, f"v{turn}")) == f"1 2 D:one|v{turn} C:SELECT 1 Z:I"
        assert not kept(client, TEXT)


# What a client may do with a statement that has no name; each is one unit.
SEQUENCES = {
    "described": [[parse("", TEXT), describe(""), SYNC], [bind_text("", "b"), EXECUTE, SYNC]],
    "bound again": [
        [bind_text("", "a"), EXECUTE, SYNC],
        [bind_text("", "b"), EXECUTE, bind_text("", "c"), EXECUTE, SYNC],
    ],
    "ended by a query": [[query("SELECT 1")], [bind_text("", "a"), EXECUTE, SYNC], [describe(""), SYNC]],
    "closed": [[close(""), SYNC], [bind_text("", "a"), EXECUTE, SYNC]],
    "no parameter": [
        [*unit(TEXT, "a")],
        [parse("", TEXT), bind(""), EXECUTE, SYNC],
        [bind_text("", "b"), EXECUTE, SYNC],
    ],
    "another text": [[parse("", "SELECT 1"), bind(""), EXECUTE, SYNC], [bind(""), EXECUTE, SYNC]],
    "two texts": [
        [parse("", TEXT), bind_text("", "a"), EXECUTE, parse("", "SELECT 2"), bind(""), EXECUTE, SYNC],
        [bind(""), EXECUTE, SYNC],
    ],
    "a text that fails": [[parse("", "SELECT nothing"), SYNC], [bind_text("", "a"), EXECUTE, SYNC]],
    "skipped": [
        [parse("", "SELECT nothing"), parse("", TEXT), bind_text("", "a"), EXECUTE, SYNC],
        [bind_text("", "a"), EXECUTE, SYNC],
    ],
    "an error at the end": [[parse("", "SELECT 1 / $1::int"), bind_text("", "0"), EXECUTE, SYNC]] * (2 * TIMES),
    "in a transaction": [
        [query("BEGIN")],
        [*unit(TEXT, "a")],
        [bind_text("", "b"), EXECUTE, SYNC],
        [query("COMMIT")],
        [bind_text("", "b"), EXECUTE, SYNC],
    ],
}


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_answers_are_the_servers_own(ground, pooler, sequence):
    with Raw(pooler.port) as client, direct(ground) as truth:
        warm(client, TEXT)
        for turn in range(3):
            truth.ask(*unit(TEXT, "x"))
            client.ask(*unit(TEXT, "x"))
            for place, parts in enumerate(SEQUENCES[sequence]):
                assert client.ask(*parts) == truth.ask(*parts), f"turn {turn}, unit {place}"


def test_an_error_names_no_statement_of_the_poolers(ground, pooler):
    with Raw(pooler.port) as client, direct(ground) as truth:
        warm(client, TEXT)
        found = []
        for who in (client, truth):
            who.send(parse("", TEXT), bind(""), EXECUTE, SYNC)
            found.append([field(body, "M") for kind, body in who.until(b"Z") if kind == b"E"])
        assert found[0] == found[1] and len(found[0]) == 1


@pytest.mark.parametrize("how", ["at the start", "by SET"])
@pytest.mark.parametrize("reading", READINGS)
def test_sessions_that_read_a_text_differently_do_not_share_it(ground, pooler, reading, how):
    sql = READINGS[reading][2]
    with contextlib.ExitStack() as stack:
        clients = sessions(lambda **with_: stack.enter_context(Raw(pooler.port, **with_)), reading, how)
        truths = sessions(lambda **with_: stack.enter_context(direct(ground, **with_)), reading, how)
        for turn in range(2 * TIMES):
            for client, truth in zip(clients, truths, strict=True):
                parts = [parse("", sql), describe(""), bind(""), EXECUTE, SYNC]
                assert client.ask(*parts) == truth.ask(*parts), f"turn {turn}"


def test_definitions_are_seen_at_once(ground, pooler):
    sql, ask = "SELECT * FROM changing", (parse("", "SELECT * FROM changing"), bind(""), EXECUTE, SYNC)
    with Raw(pooler.port) as client, Raw(pooler.port) as other, direct(ground) as owner:
        owner.sql("DROP TABLE IF EXISTS changing; CREATE TABLE changing AS SELECT 1 AS a")
        # Known to be plain only with a new catalog.
        for definer in (owner, other):
            client.sql("SELECT * FROM changing")
            wait_until(lambda: client.ask(*ask) and kept(client, sql))
            definer.sql("ALTER TABLE changing ADD b int DEFAULT 2")
            assert client.ask(*ask) == "1 2 D:1|2 C:SELECT 1 Z:I"
            definer.sql("ALTER TABLE changing DROP b")
            assert client.ask(*ask) == "1 2 D:1 C:SELECT 1 Z:I"
            definer.sql("DROP TABLE changing")
            assert client.ask(*ask).endswith("E:42P01 Z:I")
            definer.sql("CREATE TABLE changing AS SELECT 1 AS a")
            assert client.ask(*ask) == "1 2 D:1 C:SELECT 1 Z:I"


def test_few_texts_are_kept_where_few_may_be(ground):
    with Pooler(ground, default_pool_size=1, max_prepared_statements=2) as pooler, Raw(pooler.port) as client:
        client.sql("SELECT 1")
        pooler.wait_for_catalog()
        texts = [f"SELECT {number} AS n, $1::text AS given" for number in range(4)]
        for turn in range(3 * TIMES):
            for number, text in enumerate(texts):
                assert client.ask(*unit(text, f"v{turn}")) == f"1 2 D:{number}|v{turn} C:SELECT 1 Z:I"
        assert int(client.value("SELECT count(*) FROM pg_prepared_statements")) <= 2
