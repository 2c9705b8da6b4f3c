"""Clients that send without end, or very much before they wait: they take no memory without a limit, no time of others
out of proportion, and lose no answer.
"""

import os
import re
import threading
import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, close, message, parse, query

SLOW = (parse("", "SELECT pg_sleep(2)"), bind(""), EXECUTE)
ONE = bind("s") + EXECUTE


def resident(pooler):
    """The memory of a pooler, in MB."""
    with open(f"/proc/{pooler.process.pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024


def busy(pooler):
    """The time that a pooler has computed, in seconds."""
    with open(f"/proc/{pooler.process.pid}/stat") as file:
        times = file.read().rsplit(") ", 1)[1].split()[11:13]
    return sum(map(float, times)) / os.sysconf("SC_CLK_TCK")


def send_meanwhile(client, *parts):
    """Sends while the answers are read."""
    thread = threading.Thread(target=client.send, args=parts, daemon=True)
    thread.start()
    return thread


def count(client, kind, body, most):
    """Reads until there were so many messages of this type and body, which no other message may contain."""
    wanted, found = message(kind, body), 0
    while True:
        found += client.held.count(wanted)
        if (end := client.held.rfind(wanted)) >= 0:
            client.held = client.held[end + len(wanted) :]
        if found >= most:
            return found
        more = client.socket.recv(1 << 20)
        assert more, "the connection is closed"
        client.held += more


@pytest.fixture
def pooler(server):
    with Pooler(server, default_pool_size=2, workers=1) as running:
        with Raw(running.port) as client:
            client.sql("SELECT 1")
        running.wait_for_catalog()
        yield running


@pytest.fixture
def client(pooler):
    with Raw(pooler.port) as connected:
        connected.socket.settimeout(60)
        yield connected


def test_closes_without_end_behind_a_slow_statement_wait_for_it(pooler, client):
    closes = 1_000_000
    before = resident(pooler)
    client.send(*SLOW, FLUSH)
    time.sleep(0.5)
    thread = send_meanwhile(client, close("x") * closes)
    time.sleep(1)
    grown = resident(pooler) - before
    assert grown < 40, f"{grown:.0f} MB"
    assert count(client, b"3", b"", closes) == closes
    thread.join()
    assert client.kinds(SYNC) == "Z"
    assert client.kinds(query("SELECT 1")) == "TDCZ"


@pytest.mark.parametrize(
    "unit", [ONE, parse("t", "SELECT 1") + bind("t") + EXECUTE + close("t")], ids=["bound", "parsed"]
)
def test_a_batch_of_many_thousand_messages_before_one_sync_is_answered(pooler, client, unit):
    times = 40_000
    client.ask(parse("s", "SELECT 1"), SYNC)
    thread = send_meanwhile(client, *SLOW, unit * times, SYNC)
    assert count(client, b"C", b"SELECT 1\0", times + 1) == times + 1
    thread.join()
    assert client.until(b"Z")[-1][1] == b"I"
    assert client.kinds(query("SELECT 1")) == "TDCZ"


def test_units_that_are_not_waited_for_cost_the_pooler_the_same_each(pooler, client):
    units = 40_000
    client.sql("BEGIN")
    client.ask(parse("s", "SELECT 1"), SYNC)
    client.ask(ONE, SYNC)
    before = busy(pooler)
    thread = send_meanwhile(client, *SLOW, SYNC, (ONE + SYNC) * units)
    assert count(client, b"Z", b"T", units + 1) == units + 1
    thread.join()
    spent = busy(pooler) - before
    # Searches of the whole queue for each unit took 6 s.
    assert spent < 2, f"{spent:.2f} s"


@pytest.mark.parametrize("forgets", [False, True])
def test_long_texts_that_are_not_answered_wait_for_the_server(pooler, client, forgets):
    client.sql("SELECT 1")
    before, name, padding = resident(pooler), "s" if forgets else "", "x" * 1_000_000
    for number in range(200):
        client.send(parse(name, f"SELECT {number} /* {padding} */"), close(name) if forgets else b"")
    time.sleep(0.5)
    assert resident(pooler) - before < 60
    client.send(SYNC)
    client.until(b"Z")
