"""LISTEN where connections are shared: it keeps no server connection, and nothing is missed.

In which order notifications come, beside all that their clients do, is the simulation's subject.
"""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import signal

import pytest

from tests.pooler import raw
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, describe, direct, parse, query

HUBS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'howdah listen'"


def told(messages):
    """The channels and payloads of notifications."""
    parts = [body[4:].split(b"\0") for kind, body in messages if kind == b"A"]
    return [(channel.decode(), payload.decode()) for channel, payload, _ in parts]


def ask(client, *sent):
    """What is answered, without notifications, and the notifications."""
    client.send(*sent)
    got = client.until(b"Z")
    return raw.show([message for message in got if message[0] != b"A"]), told(got)


def hear(client, count=1):
    """So many notifications, which come to a client that is idle."""
    got = [client.next() for _ in range(count)]
    assert all(kind == b"A" for kind, _ in got), raw.show(got)
    return told(got)


@pytest.fixture
def one(server):
    """A pooler with a single server connection for a pool, which a client that kept it would keep from others."""
    with Pooler(server, default_pool_size=1, query_wait_timeout="5") as running:
        yield running
    wait_until(lambda: server.psql(HUBS) == "0")


def by_query(client, sql):
    """A statement by the simple protocol."""
    return ask(client, query(sql))[0]


def by_steps(client, sql):
    """A statement as drivers prepare it, with a Flush, under a name."""
    assert client.kinds(parse("s", sql), describe("s"), FLUSH, until=b"n") == "1tn"
    client.send(bind("s"), EXECUTE, SYNC)
    answer = raw.show(client.until(b"Z")).removeprefix("2 ")
    assert ask(client, raw.close("s"), SYNC)[0] == "3 Z:I"
    return answer


@pytest.mark.parametrize("run", [by_query, by_steps])
@pytest.mark.parametrize("settings", [{}, {"pipelining": 0}, {"pool_mode": "statement"}], ids=str)
def test_who_listens_keeps_no_connection_and_hears_when_it_is_idle(server, run, settings):
    with Pooler(server, default_pool_size=1, **settings) as pooler, direct(server) as other:
        with Raw(pooler.port) as a, Raw(pooler.port) as b, Raw(pooler.port) as c:
            assert run(a, "LISTEN news") == "C:LISTEN Z:I"
            assert run(b, "listen News") == "C:LISTEN Z:I"
            assert b.sql("SELECT 1 FOR UPDATE") == "T D:1 C:SELECT 1 Z:I"
            for turn in range(3):
                other.sql(f"NOTIFY news, '{turn}'")
                assert hear(a) == hear(b) == [("news", str(turn))]
            # The connection is rid of it.
            assert c.value("SELECT count(*) FROM pg_listening_channels()") == "0"
            assert not c.waiting(0) and other.value(HUBS) == "1"
            # What a client itself says it hears once.
            _, early = ask(a, query("NOTIFY news, 'mine'"))
            assert early + hear(a, 1 - len(early)) == hear(b) == [("news", "mine")]


def test_many_listen_over_one_connection(one, server):
    with contextlib.ExitStack() as stack, direct(server) as other:
        clients = [stack.enter_context(Raw(one.port)) for _ in range(40)]
        for number, client in enumerate(clients):
            assert client.sql(f"LISTEN own_{number}") == client.sql("LISTEN common") == "C:LISTEN Z:I"
        assert other.value(HUBS) == "1"
        for number in range(40):
            other.sql(f"NOTIFY own_{number}, 'x'")
        other.sql("NOTIFY common, 'all'")
        for number, client in enumerate(clients):
            assert hear(client, 2) == [(f"own_{number}", "x"), ("common", "all")]
        [row] = [row for row in one.show("SERVERS") if row["application_name"] == "howdah listen"]
        assert row["state"] == "active"


def test_nothing_comes_within_a_transaction_and_what_it_undoes_is_not_heard(one, server):
    with Raw(one.port) as a, direct(server) as other:
        for sql in ("BEGIN", "LISTEN c", "SAVEPOINT s", "LISTEN undone", "ROLLBACK TO s", "COMMIT"):
            a.sql(sql)
        a.sql("BEGIN")
        other.sql("NOTIFY c, '1'; NOTIFY undone; NOTIFY c, '2'")
        for _ in range(5):
            assert ask(a, query("SELECT 1")) == ("T D:1 C:SELECT 1 Z:T", [])
        assert not a.waiting(0.2)
        answer, got = ask(a, query("COMMIT"))
        assert (answer, got) == ("C:COMMIT Z:I", [("c", "1"), ("c", "2")])


@pytest.mark.parametrize("end", ["UNLISTEN *", "DISCARD ALL", "BEGIN; UNLISTEN c; COMMIT"])
def test_it_ends(one, server, end):
    with Raw(one.port) as a, direct(server) as other:
        for sql in ("LISTEN c", *end.split("; "), "LISTEN marker"):
            a.sql(sql)
        other.sql("NOTIFY c; NOTIFY marker")
        assert hear(a) == [("marker", "")]
        # Nobody needs the connection for long.
        a.sql("UNLISTEN *")
        wait_until(lambda: other.value(HUBS) == "0")
        a.sql("LISTEN c")
        other.sql("NOTIFY c, 'again'")
        assert hear(a) == [("c", "again")]
        a.reset()
        wait_until(lambda: other.value(HUBS) == "0")


@pytest.mark.parametrize("name", ["y" * 70, '"Mixed ""Case"""', '"a b"', "x" * 63, '"ünï"', '"a;b--c"'])
def test_names_are_what_they_are_for_the_server(one, server, name):
    with Raw(one.port) as a, direct(server) as other:
        assert a.sql(f"LISTEN {name}") == "C:LISTEN Z:I"
        other.sql(f"NOTIFY {name}, 'x'")
        plain = name[1:-1].replace('""', '"') if name.startswith('"') else name[:63]
        assert hear(a) == [(plain, "x")] and other.value(HUBS) == "1"


def test_who_loses_what_it_listens_by_is_told(one, server):
    with Raw(one.port) as a, Raw(one.port) as busy, Raw(one.port) as c, direct(server) as other:
        a.sql("LISTEN c")
        c.sql("SELECT 1")
        busy.sql("LISTEN c")
        busy.sql("BEGIN")
        other.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'howdah listen'")
        kind, body = a.next()
        assert (kind, raw.code(body)) == (b"E", "57P01") and "notifications may have been missed" in raw.field(
            body, "M"
        )
        assert a.is_closed()
        # The transaction is its own to end.
        assert busy.sql("INSERT INTO pg_temp.x VALUES (1)").startswith("E:")
        busy.send(query("ROLLBACK"))
        assert raw.show(busy.until(b"Z")) == "C:ROLLBACK Z:I"
        assert busy.next()[0] == b"E" and busy.is_closed()
        assert c.sql("LISTEN c") == "C:LISTEN Z:I" and other.value(HUBS) == "1"
        other.sql("NOTIFY c, 'x'")
        assert hear(c) == [("c", "x")]


@pytest.mark.parametrize("text", ["BEGIN; LISTEN c; COMMIT", "SELECT 1; LISTEN c; LISTEN d"])
def test_a_listen_among_other_statements_keeps_no_connection(one, server, text):
    with Raw(one.port) as a, Raw(one.port) as b, direct(server) as other:
        assert a.sql(text).endswith(" Z:I")
        assert b.value("SELECT 1") == "1"
        other.sql("NOTIFY c, 'x'")
        assert hear(a) == [("c", "x")]


@pytest.mark.parametrize("first", ["SELECT 1", None])
def test_without_room_for_it_a_client_keeps_its_connection(server, first):
    with Pooler(server, {"*": "max_db_connections=1"}, query_wait_timeout="1") as pooler, direct(server) as other:
        with Raw(pooler.port) as a, Raw(pooler.port) as b:
            if first:
                a.sql(first)
            assert a.sql("LISTEN c") == "C:LISTEN Z:I"
            other.sql("NOTIFY c, 'x'")
            assert hear(a) == [("c", "x")]
            assert b.sql("SELECT 1") == "E:53300 Z:I"
            assert a.sql("DISCARD ALL") == "C:DISCARD ALL Z:I"
            assert b.value("SELECT 1") == "1"


@pytest.mark.parametrize(
    "settings, sql",
    [
        ({"shared_listen": 0}, "SELECT 1"),
        ({"pool_mode": "session"}, "SELECT 1"),
        ({}, "SET client_encoding TO latin1"),
        ({}, "CREATE TEMP TABLE mine (x int)"),
    ],
)
def test_where_it_is_not_shared_it_pins(server, settings, sql):
    with Pooler(server, default_pool_size=2, **settings) as pooler, Raw(pooler.port) as a, direct(server) as other:
        a.sql(sql)
        a.sql("LISTEN c")
        assert other.value(HUBS) == "0"
        other.sql("NOTIFY c, 'é'")
        kind, body = a.next()
        payload = body[4:].split(b"\0")[1]
        assert kind == b"A" and payload == "é".encode("latin1" if "latin1" in sql else "utf8")


def test_who_has_left_its_encoding_is_told_so(one, server):
    with Raw(one.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        assert "Z:I" in a.sql("SET client_encoding TO latin1")
        other.sql("NOTIFY c, 'plain'")
        assert hear(a) == [("c", "plain")]
        other.sql("NOTIFY c, 'é'")
        kind, body = a.next()
        assert (kind, raw.code(body)) == (b"E", "22P05") and "client_encoding" in raw.field(body, "M") and a.is_closed()


def test_who_listens_is_not_idle(server):
    with Pooler(server, client_idle_timeout="1") as pooler, direct(server) as other:
        with Raw(pooler.port) as a, Raw(pooler.port) as b:
            a.sql("LISTEN c")
            b.sql("SELECT 1")
            *_, (kind, body) = b.until(b"E")
            assert (kind, raw.code(body)) == (b"E", "57P05") and b.is_closed()
            other.sql("NOTIFY c, 'x'")
            assert hear(a) == [("c", "x")]
            a.sql("UNLISTEN c")
            assert a.next()[0] == b"E"


def test_a_dead_connection_is_found(server):
    limits = {"server_connect_timeout": "1", "server_check_delay": "0"}
    with Pooler(server, **limits) as pooler, Raw(pooler.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        pid = other.value(HUBS.replace("count(*)", "pid"))
        # While it is there it is asked, and answers.
        asked = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND query = ''"
        wait_until(lambda: other.value(asked) == "1")
        other.sql("NOTIFY c, 'x'")
        assert hear(a) == [("c", "x")]
        os.kill(int(pid), signal.SIGSTOP)
        try:
            kind, body = a.next()
            assert (kind, raw.code(body)) == (b"E", "57P01") and a.is_closed()
        finally:
            os.kill(int(pid), signal.SIGCONT)
        assert "has not answered within server_connect_timeout" in pooler.log.read_text()


def test_who_does_not_take_what_is_said_is_closed_and_holds_up_nobody(one, server):
    with Raw(one.port) as slow, Raw(one.port) as quick, direct(server) as other:
        slow.sql("LISTEN c")
        quick.sql("LISTEN c")
        slow.sql("BEGIN")
        payload = "x" * 7000
        many = ";".join(f"NOTIFY c, '{payload}{number}'" for number in range(100))
        for _ in range(8):
            other.sql(many)
            assert len(hear(quick, 100)) == 100
        # The transaction is its own to end.
        assert ask(slow, query("COMMIT")) == ("C:COMMIT Z:I", [])
        kind, body = slow.next()
        assert (kind, raw.code(body)) == (b"E", "53400") and slow.is_closed()


def test_a_suspended_pooler_tells_nothing(one, server):
    with Raw(one.port) as a, Raw(one.port, "pgbouncer") as admin, direct(server) as other:
        a.sql("LISTEN c")
        assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
        other.sql("NOTIFY c, 'x'")
        for _ in range(3):
            admin.sql("SHOW SERVERS")
        assert not a.waiting(0)
        admin.sql("RESUME")
        assert hear(a) == [("c", "x")]


def test_pause_leaves_it_and_reconnect_ends_it(one, server):
    with Raw(one.port) as a, Raw(one.port, "pgbouncer") as admin, direct(server) as other:
        a.sql("LISTEN c")
        assert admin.sql("PAUSE") == "C:PAUSE Z:I"
        other.sql("NOTIFY c, 'x'")
        assert hear(a) == [("c", "x")]
        a.send(query("LISTEN d"))
        assert admin.sql("RESUME") == "C:RESUME Z:I"
        assert raw.show(a.until(b"Z")) == "C:LISTEN Z:I"
        other.sql("NOTIFY d, 'x'")
        assert hear(a) == [("d", "x")] and other.value(HUBS) == "1"
        assert admin.sql("RECONNECT") == "C:RECONNECT Z:I"
        kind, body = a.next()
        assert (kind, raw.code(body)) == (b"E", "57P01") and a.is_closed()
        wait_until(lambda: other.value(HUBS) == "0")
        with Raw(one.port) as b:
            b.sql("LISTEN c")
            assert admin.sql("KILL postgres") == "C:KILL Z:I"
            wait_until(lambda: other.value(HUBS) == "0")


def test_it_leads_to_the_primary_and_ends_with_a_failover(trio):
    with Pooler(trio.primary, name="howdah.toml", text=trio.toml()) as pooler:
        with Raw(pooler.port, "app") as a, direct(trio.primary) as other:
            for _ in range(3):
                a.sql("SELECT 1")
            assert a.sql("LISTEN c") == "C:LISTEN Z:I"
            other.sql("NOTIFY c, 'x'")
            assert hear(a) == [("c", "x")]
            assert other.value(HUBS) == "1"
            trio.stop(trio.primary)
            assert a.next()[0] == b"E" and a.is_closed()
