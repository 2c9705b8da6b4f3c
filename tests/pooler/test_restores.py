"""Parameters that a client has reset in a transaction are set again by a Query of the pooler's own: never within a message of
the client's, whose bytes would become messages.
"""

import contextlib
import struct
import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, SYNC, Raw, direct, message, parse, query, show

PATH = ", ".join(f"schema_number_{number}" for number in range(20))
# What the pooler sends to set the path again.
RESTORE = query("SET search_path=" + ", ".join(f"'{name}'" for name in PATH.split(", ")) + ";")


def test_a_bind_of_which_half_has_come_stays_whole(server):
    told = []
    half = message(b"B", b"\0s\0" + struct.pack("!hhi", 0, 1, 200_000) + b"v" * 200_000 + struct.pack("!h", 0))
    with Pooler(server, default_pool_size=1) as pooler:
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
