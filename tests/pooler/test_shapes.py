"""Tables change while clients have statements prepared: nobody reads rows by the description of other rows."""

import contextlib
import struct

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, close, describe, direct, message, parse

READ = "SELECT * FROM shaped"
WRITE = "INSERT INTO shaped VALUES (7) RETURNING *"
CHANGED = "E:0A000 Z:I"
PORTAL = message(b"D", b"P\0")


@pytest.fixture
def owner(server, pooler):
    """A connection of its own to the server, on which the table changes, which no server connection knows yet."""
    with direct(server) as owner:
        pooler.psql("RECONNECT", "pgbouncer")
        owner.sql("DROP TABLE IF EXISTS shaped; CREATE TABLE shaped (a int); INSERT INTO shaped VALUES (1)")
        yield owner


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def pooler(request, server):
    with Pooler(server, default_pool_size=3, pipelining=request.param) as running:
        with Raw(running.port) as client:
            client.sql("SELECT 1")
        running.wait_for_catalog()
        yield running


def run(client, name="s"):
    return client.ask(bind(name), EXECUTE, SYNC)


def prepare(client, sql, name="s"):
    assert "E:" not in client.ask(parse(name, sql), describe(name), SYNC)


def everywhere(pooler, step):
    """Does a step on each of the pool's three server connections; gives what the last of it says on each."""
    found = []
    with contextlib.ExitStack() as stack:
        held = []
        for taken in range(3):
            found.append(step())
            if taken < 2:
                # So that the next client gets another connection.
                held.append(stack.enter_context(Raw(pooler.port)))
                assert held[-1].sql("BEGIN") == "C:BEGIN Z:T"
        for client in held:
            assert client.sql("ROLLBACK") == "C:ROLLBACK Z:I"
    return found


def test_all_who_were_told_of_other_rows_get_the_error_until_they_prepare_again(owner, pooler):
    with Raw(pooler.port) as one, Raw(pooler.port) as other, Raw(pooler.port) as late:
        for client in (one, other):
            prepare(client, READ)
            assert everywhere(pooler, lambda client=client: run(client)) == ["2 D:1 C:SELECT 1 Z:I"] * 3
        owner.sql("ALTER TABLE shaped ADD b int DEFAULT 2")
        # The server's copy is of before the change. Without pipelining the first who meets it is told so.
        if late.ask(parse("s", READ), describe("s"), SYNC) != "1 t T Z:I":
            assert late.ask(describe("s"), SYNC) == "t T Z:I"
        for _ in range(3):
            for client in (one, other):
                for answer in everywhere(pooler, lambda client=client: run(client)):
                    assert answer.removeprefix("2 ") == CHANGED
            assert run(late) == "2 D:1|2 C:SELECT 1 Z:I"
        assert one.ask(close("s"), SYNC) == "3 Z:I"
        prepare(one, READ)
        assert everywhere(pooler, lambda: run(one)) == ["2 D:1|2 C:SELECT 1 Z:I"] * 3
        # As it was: then the one that was told so is right again.
        owner.sql("ALTER TABLE shaped DROP b")
        run(other)
        assert everywhere(pooler, lambda: run(other)) == ["2 D:1 C:SELECT 1 Z:I"] * 3


@pytest.mark.parametrize("change", ["ADD z int", "DROP b"])
def test_who_asks_for_the_formats_of_other_columns_gets_the_error_too(owner, pooler, change):
    """As pgjdbc and asyncpg do, whose Bind has a format for each column: PostgreSQL would call that a protocol error."""
    owner.sql("ALTER TABLE shaped ADD b int DEFAULT 2, ADD c int DEFAULT 3")
    with Raw(pooler.port) as client:
        prepare(client, READ)
        three_formats = message(b"B", b"\0s\0" + b"\0\0" * 2 + b"\0\3" + b"\0\0" * 3)
        asked = lambda: client.ask(three_formats, EXECUTE, SYNC)  # noqa: E731
        assert everywhere(pooler, asked) == ["2 D:1|2|3 C:SELECT 1 Z:I"] * 3
        owner.sql(f"ALTER TABLE shaped {change}")
        for _ in range(3):
            assert everywhere(pooler, asked) == [CHANGED] * 3
        assert client.ask(close("s"), SYNC) == "3 Z:I"
        prepare(client, READ)
        assert "E:" not in run(client)


@pytest.mark.parametrize("change", ["ALTER TABLE shaped ALTER a TYPE bigint", "ALTER TABLE shaped RENAME a TO b"])
def test_a_write_is_not_done_that_its_client_would_misread(owner, pooler, change):
    with Raw(pooler.port) as client:
        prepare(client, WRITE)
        assert run(client) == "2 D:7 C:INSERT 0 1 Z:I"
        owner.sql(change)
        for _ in range(3):
            for answer in everywhere(pooler, lambda: run(client)):
                assert answer.removeprefix("2 ") == CHANGED
        assert owner.value("SELECT count(*) FROM shaped") == "2"


def test_a_transaction_fails_as_it_does_without_a_pooler(owner, pooler):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        for who in (client, other):
            prepare(who, READ)
            assert run(who) == "2 D:1 C:SELECT 1 Z:I"
        owner.sql("ALTER TABLE shaped ADD b int DEFAULT 2")
        run(other)
        assert client.sql("BEGIN") == "C:BEGIN Z:T"
        assert client.sql("INSERT INTO shaped VALUES (3)") == "C:INSERT 0 1 Z:T"
        assert run(client).removeprefix("2 ") == "E:0A000 Z:E"
        assert run(client) == "E:25P02 Z:E"
        assert client.sql("COMMIT") == "C:ROLLBACK Z:I"
        assert owner.value("SELECT count(*) FROM shaped") == "1"
        # What is sent behind it in its unit is skipped.
        assert client.ask(
            bind("s"), EXECUTE, parse("", "INSERT INTO shaped VALUES (4)"), bind(""), EXECUTE, SYNC
        ).endswith(CHANGED)
        assert owner.value("SELECT count(*) FROM shaped") == "1"


@pytest.mark.parametrize("text", ["INSERT INTO shaped VALUES ($1)", "SELECT count(*) FROM shaped WHERE a = $1"])
@pytest.mark.parametrize("name", ["s", ""])
@pytest.mark.parametrize("again", [False, True], ids=["", "described again"])
def test_parameters_keep_the_types_that_their_client_was_told(owner, pooler, again, name, text):
    def run_with(client, name, value):
        given = struct.pack("!hhhi", 1, 1, 1, len(value)) + value + struct.pack("!h", 0)
        # The values are written before the answer to the Describe comes.
        asked = [describe(name)] if again else []
        return client.ask(*asked, message(b"B", b"\0" + name.encode() + b"\0" + given), EXECUTE, SYNC)

    with Raw(pooler.port) as client, Raw(pooler.port) as late:
        prepare(client, text, name)
        assert "E:" not in run_with(client, name, struct.pack("!i", 1))
        owner.sql("ALTER TABLE shaped ALTER a TYPE bigint")
        for _ in range(3):
            answers = everywhere(pooler, lambda: run_with(client, name, struct.pack("!i", 2)))
            assert not any("E:" in answer for answer in answers), answers
        # Who prepares the text now means its types of now.
        for _ in range(2):
            prepare(late, text)
            answer = run_with(late, "s", struct.pack("!q", 1 << 40))
            assert late.ask(close("s"), SYNC) == "3 Z:I"
        assert "C:" in answer
        assert "E:" not in run_with(client, name, struct.pack("!i", 3))
    inserted = owner.value("SELECT string_agg(DISTINCT a::text, ' ' ORDER BY a::text) FROM shaped")
    assert inserted == ("1 1099511627776 2 3" if "INSERT" in text else "1")


def test_rows_that_are_described_again_are_read(owner, pooler):
    # What libpq's clients send: they read each result by its own description.
    unit = (bind("s"), PORTAL, EXECUTE, SYNC)
    with Raw(pooler.port) as client:
        assert client.ask(parse("s", READ), SYNC) == "1 Z:I"
        assert client.ask(*unit) == "2 T D:1 C:SELECT 1 Z:I"
        owner.sql("ALTER TABLE shaped ADD b int DEFAULT 2")
        answers = [answer for _ in range(2) for answer in everywhere(pooler, lambda: client.ask(*unit))]
        assert set(answers) <= {CHANGED, "2 T D:1|2 C:SELECT 1 Z:I"}
        assert answers[-3:] == ["2 T D:1|2 C:SELECT 1 Z:I"] * 3
        # By the statement's description too.
        owner.sql("ALTER TABLE shaped ADD c int DEFAULT 3")
        for _ in range(3):
            answer = client.ask(describe("s"), bind("s"), EXECUTE, SYNC)
        assert answer == "t T 2 D:1|2|3 C:SELECT 1 Z:I"


def test_a_table_that_is_made_again_alike_is_the_same(owner, pooler):
    with Raw(pooler.port) as client:
        prepare(client, READ)
        for value in (2, 3):
            owner.sql(f"DROP TABLE shaped; CREATE TABLE shaped (a int); INSERT INTO shaped VALUES ({value})")
            assert everywhere(pooler, lambda: run(client)) == [f"2 D:{value} C:SELECT 1 Z:I"] * 3


BIG = "SELECT repeat('x', 30000), g FROM generate_series(1, {}) g"


@pytest.mark.parametrize("rows", [1, 10])
def test_behind_a_long_answer(owner, pooler, rows):
    # An answer that is too long to be kept is passed on before the description of the next statement's copy comes.
    with Raw(pooler.port) as client, Raw(pooler.port) as neighbour:
        prepare(client, READ)
        prepare(client, BIG.format(rows), "big")
        unit = bind("big"), EXECUTE, bind("s"), EXECUTE, parse("t", "SELECT 1"), SYNC
        client.ask(bind("big"), EXECUTE, bind("s"), EXECUTE, SYNC)
        owner.sql("ALTER TABLE shaped ADD b int DEFAULT 2")
        for _ in range(3):
            for kinds in everywhere(pooler, lambda: client.kinds(*unit)):
                assert kinds in ("2" + "D" * rows + "CEZ", "2" + "D" * rows + "C2EZ")
            assert client.ask(bind("t"), SYNC) == "E:26000 Z:I"
            assert client.sql("SELECT 5 AS five") == "T D:5 C:SELECT 1 Z:I"
            assert neighbour.sql("SELECT 6 AS six") == "T D:6 C:SELECT 1 Z:I"
