"""The protocol: what is shared, large values, COPY, cancels, hostile bytes. Orders of messages: test_messages.py."""

import struct
import threading
import time

import pytest

from tests.pooler import raw
from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, close, describe, parse, query

EACH_VERSION = True


@pytest.fixture(scope="module")
def one_server(server):
    with Pooler(server, default_pool_size=1) as running:
        yield running


def test_a_statement_prepared_once_is_shared(server):
    with Pooler(server, default_pool_size=1) as pooler:
        for _ in range(3):
            with Raw(pooler.port) as client:
                assert client.kinds(parse("x", "SELECT 5"), describe("x"), bind("x"), EXECUTE, SYNC) == "1tT2DCZ"
                assert client.ask(close("x"), SYNC, bind("x"), SYNC, units=2) == "3 Z:I E:26000 Z:I"
        counts = pooler.show("PREPARED")[0]
    assert (counts["client_parse_count"], counts["server_parse_count"], counts["statements"]) == ("3", "1", "1")


def test_copy_both_ways(one_server):
    lines = "".join(f"{number}\trow {number}\n" for number in range(50_000))
    one_server.psql("DROP TABLE IF EXISTS copied; CREATE TABLE copied (a int, b text)")
    done = one_server.psql(f"COPY copied FROM STDIN;\n{lines}\\.\nSELECT count(*) FROM copied;")
    assert done == "50000"
    assert one_server.psql("COPY copied TO STDOUT") == lines.rstrip("\n")


def test_large_rows_and_parameters(one_server):
    assert one_server.psql("SELECT length(repeat('x', 30000000))") == "30000000"
    assert len(one_server.psql("SELECT repeat('x', 30000000)")) == 30_000_000
    with one_server.connect() as client:
        cursor = client.cursor()
        cursor.execute("SELECT length(%s::text)", ("y" * 5_000_000,))
        assert cursor.fetchall() == ([5_000_000],) or cursor.rowcount == 1


def test_the_same_statements_give_the_same_bytes_direct_and_pooled(server, one_server):
    script = """
    SELECT 1 AS a, NULL AS b, 'ü' AS c; SELECT; VALUES (1, 2.5), (3, -1);
    CREATE TABLE bytes (a serial PRIMARY KEY, b text DEFAULT 'x'); INSERT INTO bytes (b) SELECT g::text FROM generate_series(1, 5) g;
    BEGIN; UPDATE bytes SET b = b || '!' WHERE a > 2; SAVEPOINT s; DELETE FROM bytes; ROLLBACK TO s; COMMIT;
    SELECT * FROM bytes ORDER BY a; EXPLAIN (COSTS OFF) SELECT * FROM bytes; SHOW work_mem;
    DO $$ BEGIN RAISE NOTICE 'hello'; END $$; SELECT 1/0; SELECT nonsense; DROP TABLE bytes;
    """
    command = ["-a", "-e", "-f", "-"]
    pooled = one_server.psql(script, check=False, flags=[*command, "-v", "ON_ERROR_STOP=0"])
    arguments = ["--no-psqlrc", "-qAt", *command, "-v", "ON_ERROR_STOP=0", "-d", "postgres"]
    direct = server.run("psql", *arguments, check=False, input=script)
    assert pooled.stdout == direct.stdout and len(direct.stdout) > 500
    assert pooled.stderr == direct.stderr and "division by zero" in direct.stderr


# A cancel request that reaches the server before the statement has no effect, there as here.
SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(20)'"


def test_cancels_reach_the_statement_and_only_that(one_server, server):
    with Raw(one_server.port) as client:
        client.send(query("SELECT pg_sleep(20)"))
        wait_until(lambda: server.psql(SLEEPING) == "1")
        client.cancel(one_server.port)
        assert client.ask().endswith("E:57014 Z:I")
        for _ in range(30):
            client.cancel(one_server.port)
            assert client.kinds(query("SELECT 1")) == "TDCZ"


def test_a_waiting_statement_is_cancelled(one_server):
    with Raw(one_server.port) as holder, Raw(one_server.port) as waiter:
        holder.sql("BEGIN")
        waiter.send(query("SELECT 1"))
        wait_until(lambda: one_server.show("POOLS")[0]["cl_waiting"] == "1")
        waiter.cancel(one_server.port)
        assert waiter.ask() == "E:57014 Z:I"
        holder.sql("COMMIT")
        assert waiter.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"


def test_protocol_3_2_and_what_is_newer(one_server, server):
    with Raw(one_server.port, minor=2) as client:
        kinds = b"".join(kind for kind, _ in client.greeting)
        assert b"v" not in kinds
        assert len(next(body for kind, body in client.greeting if kind == b"K")) == 36
        client.send(query("SELECT pg_sleep(20)"))
        wait_until(lambda: server.psql(SLEEPING) == "1")
        client.cancel(one_server.port)
        assert client.ask().endswith("E:57014 Z:I")
    with Raw(one_server.port, minor=9) as client:
        version = next(body for kind, body in client.greeting if kind == b"v")
        assert struct.unpack("!ii", version) == (0x0003_0002, 0)


HOSTILE = {
    "length -1": b"Q\xff\xff\xff\xff",
    "length 0": b"Q\0\0\0\0",
    "length 3": b"S\0\0\0\3",
    "length huge": b"Q\x7f\xff\xff\xff",
    "unknown type": raw.message(b"?", b"x"),
    "a server's message": raw.message(b"Z", b"I"),
    "broken Parse": raw.message(b"P", b"no zero"),
    "broken Bind": raw.message(b"B", b"no zero"),
    "endless name": b"B\0\1\0\0" + b"x" * 20_000,
    "endless Close": raw.message(b"C", b"S" + b"x" * 10_000 + b"\0"),
    "Flush with a body": raw.message(b"H", b"body"),
    "Sync with a body": raw.message(b"S", b"body"),
    "Sync with a body behind a read": parse("", "SELECT 1") + bind("") + EXECUTE + raw.message(b"S", b"x" * 12_000),
    "endless Execute": parse("", "SELECT 1") + bind("") + raw.message(b"E", b"\0" * 12_000) + SYNC,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_close_that_connection_only(one_server, name):
    with Raw(one_server.port) as good, Raw(one_server.port) as bad:
        bad.send(HOSTILE[name])
        *_, (kind, body) = iter(bad.next, None)
        assert kind == b"E" and raw.code(body) == "08P01", (kind, body)
        assert good.kinds(query("SELECT 1")) == "TDCZ"


@pytest.mark.parametrize(
    "packet", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x08\0\0\0\0", b"\0\0\0\x09\0\3\0\0x", b"GET / HTTP/1.1\r\n"]
)
def test_hostile_startup_packets(one_server, packet):
    with Raw(one_server.port, login=False) as bad:
        bad.send(packet)
        assert bad.next()[0] == b"E" and bad.next() is None
    assert one_server.psql("SELECT 1") == "1"


def test_half_open_and_vanishing_clients_leave_nothing(server):
    with Pooler(server, default_pool_size=2, client_login_timeout="0.3") as pooler:
        half = [Raw(pooler.port, login=False) for _ in range(50)]
        for number, client in enumerate(half):
            client.send(b"\0\0\0\x50\0\3\0\0user\0"[: number % 12])
        for sql in ("BEGIN", "SELECT pg_sleep(20)", "COPY (SELECT generate_series(1, 10000000)) TO STDOUT"):
            client = Raw(pooler.port)
            client.send(query(sql))
            time.sleep(0.1)
            client.socket.close()
        assert pooler.psql("SELECT 1") == "1"
        wait_until(lambda: [row["state"] for row in pooler.show("SOCKETS") if row["type"] == "C"] == ["cl_active"])
        for client in half:
            client.socket.close()


def test_a_slow_reader_holds_nobody_and_little_memory(server):
    with Pooler(server, default_pool_size=2) as pooler, Raw(pooler.port) as slow:
        slow.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 200000)"))
        time.sleep(0.5)
        threads = [threading.Thread(target=lambda: pooler.psql("SELECT 1")) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        held = int(next(row["used"] for row in pooler.show("MEM") if row["name"] == "bytes_in_flight"))
        assert held < 2_000_000, "the rest waits in the server"
        assert len(slow.until(b"Z")) == 200_003


def test_notices_come_with_their_statement(one_server):
    with one_server.connect() as client:
        ask(client, "DO $$ BEGIN RAISE NOTICE 'for you'; END $$")
        assert [notice[b"M"] for notice in client.notices] == [b"for you"]
