"""Clients that send without end, or very much before they wait: they take no memory without a limit, no time of others
out of proportion, and lose no answer.
"""

import contextlib
import os
import re
import threading
import time

import pytest

from tests.pooler import raw
from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, close, message, parse, query

SLOW = (parse("", "SELECT pg_sleep(2)"), bind(""), EXECUTE)
FAILS = (parse("", "SELECT 1/0"), bind(""), EXECUTE)
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


def test_closes_without_end_behind_an_error_are_skipped(pooler, client):
    client.ask(parse("s", "SELECT 1"), SYNC)
    before = resident(pooler)
    client.send(*FAILS, FLUSH)
    client.until(b"E")
    closes = close("s") + parse("t", "SELECT 1") + close("x") * 100_000
    for _ in range(10):
        client.send(closes)
    client.send(query("SELECT 2"), message(b"c"))
    grown = resident(pooler) - before
    assert grown < 40, f"{grown:.0f} MB"
    assert client.kinds(SYNC) == "Z"
    assert client.kinds(ONE, SYNC) == "2DCZ", "the Close that was skipped has closed nothing"
    assert client.kinds(bind("t"), SYNC) == "EZ", "the Parse that was skipped has prepared nothing"


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


def test_an_error_behind_which_many_thousand_messages_have_come_ends_at_their_sync(pooler, client):
    client.ask(parse("s", "SELECT 1"), SYNC)
    fails = parse("", "SELECT 1/(pg_sleep(1)::text = 'x')::int") + bind("") + EXECUTE
    thread = send_meanwhile(client, fails, ONE * 40_000, close("s") * 40_000, SYNC, ONE, SYNC)
    got = client.until(b"Z")
    thread.join()
    assert b"".join(kind for kind, _ in got) == b"12EZ"
    assert "".join(kind.decode() for kind, _ in client.until(b"Z")) == "2DCZ"


def test_a_copy_behind_many_thousand_messages_gets_its_data(pooler, client):
    client.sql("CREATE TABLE IF NOT EXISTS flooded (a int); TRUNCATE flooded")
    client.ask(parse("s", "SELECT 1"), SYNC)
    copy = parse("", "COPY flooded FROM STDIN") + bind("") + EXECUTE
    data = message(b"d", b"1\n") * 20_000 + message(b"c")
    thread = send_meanwhile(client, *SLOW, ONE * 20_000, copy, data, ONE * 20_000, SYNC)
    assert count(client, b"C", b"SELECT 1\0", 40_001) == 40_001
    client.until(b"Z")
    thread.join()
    assert client.value("SELECT count(*) FROM flooded") == "20000"


def test_messages_without_end_within_a_copy_end_the_copy_and_are_answered(pooler, client):
    client.sql("CREATE TABLE IF NOT EXISTS flooded (a int)")
    client.send(query("COPY flooded FROM STDIN"))
    client.until(b"G")
    thread = send_meanwhile(client, close("x") * 40_000, SYNC)
    got = client.until(b"E")
    assert raw.code(got[-1][1]) == "57014"
    assert count(client, b"3", b"", 40_000) == 40_000
    thread.join()
    with Raw(pooler.port) as other:
        assert other.kinds(query("SELECT 1")) == "TDCZ"


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


def test_syncs_without_end_within_a_copy_are_refused(pooler, client):
    with raw.direct(pooler.server) as owner:
        owner.sql("DROP TABLE IF EXISTS public.flooded; CREATE TABLE public.flooded (a int)")
    client.send(query("COPY public.flooded FROM STDIN"))
    client.until(b"G")
    before = resident(pooler)
    with contextlib.suppress(ConnectionError):
        client.send(SYNC * 500_000)
    with contextlib.suppress(ConnectionError):
        client.until(b"E")
    assert resident(pooler) - before < 20
