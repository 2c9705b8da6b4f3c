"""Parameters that a client has reset in a transaction are set again by a Query of the pooler's own: never within a message of
the client's, whose bytes would become messages.
"""

import contextlib
import struct
import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, message, parse, query, show

PATH = ", ".join(f"schema_number_{number}" for number in range(20))
# What the pooler sends to set the path again.
RESTORE = query("SET search_path=" + ", ".join(f"'{name}'" for name in PATH.split(", ")) + ";")


@pytest.mark.parametrize("pipelining", [True, False])
def test_a_bind_of_which_half_has_come_stays_whole(server, pipelining):
    told = []
    half = message(b"B", b"\0s\0" + struct.pack("!hhi", 0, 1, 200_000) + b"v" * 200_000 + struct.pack("!h", 0))
    with Pooler(server, default_pool_size=1, pipelining=pipelining) as pooler:
        for connect in (direct, lambda _, **how: Raw(pooler.port, **how)):
            with connect(server, DateStyle="German") as client:
                client.sql("SELECT 1")
                client.sql("BEGIN")
                # A Query before the Sync of its unit, and half of a Bind.
                client.send(parse("s", "SELECT length($1::text)"), query("RESET DateStyle"), half[:100_000])
                first = show(client.until(b"Z"))
                time.sleep(0.3)
                client.send(half[100_000:], EXECUTE, SYNC)
                told.append((first, show(client.until(b"Z")), client.value("SHOW DateStyle")))
    assert told[0] == told[1] == ("1 C:RESET Z:T", "2 D:200000 C:SELECT 1 Z:T", "German, DMY")


def spilled(head, size):
    """A message of a client, of which the last part, as long as what the pooler sends, is a Query of its own."""
    spill = "COMMIT; SET ROLE other_role; PREPARE mine AS SELECT 'of A'"
    spill = query(spill + " " * (len(RESTORE) - len(query(spill))))
    rest = b"v" * (size - 100_000 - len(RESTORE)) + struct.pack("!h", 0) + spill
    return head + b"v" * 100_000 + rest, rest


@pytest.mark.parametrize("what", ["a Bind", "lines of no COPY"])
def test_bytes_of_a_value_do_not_become_messages(server, what):
    with direct(server) as owner:
        if owner.value("SELECT count(*) FROM pg_roles WHERE rolname = 'other_role'") == "0":
            owner.sql("CREATE ROLE other_role")
    none = message(b"B", b"\0s\0" + struct.pack("!hhih", 0, 1, -1, 0))
    # Two users of the pooler, of one user on the server.
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, {"postgres": "user=postgres"}, default_pool_size=1))
        two = stack.enter_context(Raw(pooler.port, user="alice"))
        with Raw(pooler.port, user="mallory", search_path=PATH) as one:
            one.sql("SELECT 1")
            pooler.wait_for_catalog()
            one.ask(parse("s", "SELECT length($1::bytea)"), none, EXECUTE, SYNC)
            one.sql("BEGIN")
            one.ask(none, EXECUTE, SYNC)
            if what == "a Bind":
                body, rest = spilled(b"\0s\0" + struct.pack("!hhhi", 1, 1, 1, 200_000), 200_000)
                one.send(parse("other", "SELECT 1"), query("RESET search_path"), message(b"B", body)[: -len(rest)])
            else:
                body, rest = spilled(b"", 200_000)
                one.send(query("RESET search_path"), message(b"d", body)[: -len(rest)])
            time.sleep(0.3)
            one.send(rest, SYNC)
            # What becomes of the one is its own affair.
            while (found := one.next()) is not None and found[0] != b"Z":
                pass
        assert two.value("SELECT current_user") == "postgres"
        assert two.sql("EXECUTE mine").startswith("E:26000")


@pytest.mark.parametrize("form", ["query", "extended"])
@pytest.mark.parametrize("name", ["DateStyle", "work_mem", "search_path"])
def test_a_default_for_a_transaction_is_the_value_of_the_startup(server, name, form):
    statements = ["BEGIN", f"SET LOCAL {name} TO DEFAULT", f"SHOW {name}", "SAVEPOINT a", f"SET LOCAL {name} TO DEFAULT",
                  "ROLLBACK TO a", f"SHOW {name}", "COMMIT", f"SHOW {name}", "BEGIN", f"RESET {name}",
                  f"SET LOCAL {name} TO DEFAULT", f"SHOW {name}", "ROLLBACK", f"SHOW {name}"]  # fmt: skip
    started = {"DateStyle": "German", "work_mem": "7MB", "search_path": "pg_catalog"}
    changed = {"DateStyle": "'ISO, YMD'", "work_mem": "'9MB'", "search_path": "public"}
    told = []
    with Pooler(server, default_pool_size=1) as pooler:
        for connect in (direct, lambda _, **how: Raw(pooler.port, **how)):
            with connect(server, **started) as client:
                client.sql("SELECT 1")
                for first in ([], [f"SET {name} = {changed[name]}"]):
                    for statement in first + statements:
                        unit = [query(statement)]
                        if form == "extended":
                            unit = [parse("", statement), bind(""), EXECUTE, SYNC]
                        told.append((statement, client.ask(*unit)))
    assert told[: len(told) // 2] == told[len(told) // 2 :]


IN_ONE_QUERY = {
    "set again": ("BEGIN; SET LOCAL search_path TO DEFAULT", "SET LOCAL search_path = s2", "SELECT * FROM place", "COMMIT"),
    "within": ("BEGIN; SET LOCAL search_path TO DEFAULT; SELECT 1", "SHOW search_path", "ROLLBACK", "SHOW search_path"),
    "another transaction": ("BEGIN; SET LOCAL search_path TO DEFAULT", "COMMIT", "BEGIN; SET LOCAL search_path = s2",
                            "SELECT * FROM place", "COMMIT"),
    "ends at once": ("BEGIN; SET LOCAL search_path TO DEFAULT", "COMMIT"),
}  # fmt: skip


@pytest.mark.parametrize("what", IN_ONE_QUERY)
def test_a_default_among_other_statements_comes_before_what_is_sent_behind_it(server, what):
    told = []
    with contextlib.ExitStack() as stack:
        owner = stack.enter_context(direct(server))
        for name in ("s1", "s2"):
            owner.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")
            owner.sql(f"CREATE TABLE {name}.place AS SELECT '{name}' AS a")
        pooler = stack.enter_context(Pooler(server, default_pool_size=1))
        straight = stack.enter_context(direct(server, search_path="s1"))
        pooled, other = stack.enter_context(Raw(pooler.port, search_path="s1")), stack.enter_context(Raw(pooler.port))
        for client in (straight, pooled):
            client.sql("SELECT 1")
            client.send(*map(query, IN_ONE_QUERY[what]))
            told.append([show(client.until(b"Z")) for _ in IN_ONE_QUERY[what]])
        assert other.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I", "the connection is free again"
    if what == "within":
        # What follows in the same Query runs with the server's own value; the next one does not.
        told = [answers[1:] for answers in told]
    assert told[0] == told[1]
