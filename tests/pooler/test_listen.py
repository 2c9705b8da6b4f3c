"""LISTEN where connections are shared: it keeps no server connection, and nothing is missed."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import signal
import socket
import threading
import time

import pytest

from devkit import postgres
from devkit.server import Server
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


def by_unit(client, sql):
    """A statement by the extended protocol."""
    return ask(client, parse("", sql), bind(""), EXECUTE, SYNC)[0].removeprefix("1 2 ")


def by_steps(client, sql):
    """A statement as drivers prepare it, with a Flush, under a name."""
    assert client.kinds(parse("s", sql), describe("s"), FLUSH, until=b"n") == "1tn"
    client.send(bind("s"), EXECUTE, SYNC)
    answer = raw.show(client.until(b"Z")).removeprefix("2 ")
    assert ask(client, raw.close("s"), SYNC)[0] == "3 Z:I"
    return answer


@pytest.mark.parametrize("run", [by_query, by_unit, by_steps])
@pytest.mark.parametrize("pipelining", [1, 0])
def test_who_listens_keeps_no_connection_and_hears_when_it_is_idle(server, run, pipelining):
    with Pooler(server, default_pool_size=1, pipelining=pipelining) as pooler, direct(server) as other:
        with Raw(pooler.port) as a, Raw(pooler.port) as b, Raw(pooler.port) as c:
            assert run(a, "LISTEN news") == "C:LISTEN Z:I"
            assert run(b, "listen News") == "C:LISTEN Z:I"
            assert b.sql("BEGIN") == "C:BEGIN Z:T"
            assert b.sql("COMMIT") == "C:COMMIT Z:I"
            for turn in range(3):
                other.sql(f"NOTIFY news, '{turn}'")
                assert hear(a) == hear(b) == [("news", str(turn))]
            # The connection is rid of it.
            assert c.value("SELECT count(*) FROM pg_listening_channels()") == "0"
            assert not c.waiting(0) and other.value(HUBS) == "1"
            # What a client itself says it hears once.
            for _ in range(3):
                _, early = ask(a, query("NOTIFY news, 'mine'"))
                assert early + hear(a, 1 - len(early)) == [("news", "mine")]
                assert hear(b) == [("news", "mine")]
            assert a.sql("LISTEN marker") == "C:LISTEN Z:I"
            other.sql("NOTIFY marker")
            assert hear(a) == [("marker", "")]


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


def test_it_counts_from_the_commit_and_not_after_a_rollback(one, server):
    with Raw(one.port) as a, direct(server) as other:
        for end, heard in (("COMMIT", True), ("ROLLBACK", False)):
            channel = f"of_{end.lower()}"
            assert a.sql("BEGIN") == "C:BEGIN Z:T"
            assert a.sql(f"LISTEN {channel}") == "C:LISTEN Z:T"
            other.sql(f"NOTIFY {channel}, 'early'")
            assert ask(a, query("SELECT 1")) == ("T D:1 C:SELECT 1 Z:T", [])
            answer, got = ask(a, query(end))
            assert answer == f"C:{end} Z:I" and (heard or not got)
            other.sql(f"NOTIFY {channel}, 'late'")
            if heard:
                while ("of_commit", "late") not in got:
                    got += hear(a)
            # A marker comes behind all that is before it.
            a.sql("LISTEN marker")
            other.sql("NOTIFY marker")
            assert hear(a) == [("marker", "")]
            a.sql("UNLISTEN marker")
        # A failed transaction, and a savepoint.
        a.sql("BEGIN")
        a.sql("LISTEN lost")
        assert a.sql("SELECT 1/0") == "E:22012 Z:E"
        a.sql("COMMIT")
        for sql in ("BEGIN", "LISTEN kept", "SAVEPOINT s", "LISTEN undone", "ROLLBACK TO s", "LISTEN marker", "COMMIT"):
            a.sql(sql)
        other.sql("NOTIFY lost; NOTIFY undone; NOTIFY of_rollback; NOTIFY kept; NOTIFY marker")
        assert hear(a, 2) == [("kept", ""), ("marker", "")]


def test_nothing_comes_within_a_transaction(one, server):
    with Raw(one.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        a.sql("BEGIN")
        other.sql("NOTIFY c, '1'")
        other.sql("NOTIFY c, '2'")
        for _ in range(5):
            assert ask(a, query("SELECT 1")) == ("T D:1 C:SELECT 1 Z:T", [])
        assert not a.waiting(0.2)
        answer, got = ask(a, query("COMMIT"))
        assert (answer, got) == ("C:COMMIT Z:I", [("c", "1"), ("c", "2")])


@pytest.mark.parametrize("end", ["UNLISTEN c", "UNLISTEN *", "DISCARD ALL", "BEGIN; UNLISTEN c; COMMIT"])
def test_it_ends(one, server, end):
    with Raw(one.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        if end.startswith("BEGIN"):
            # Not before the commit.
            a.sql("BEGIN")
            a.sql("UNLISTEN c")
            other.sql("NOTIFY c, 'still'")
            a.sql("SELECT 1")
            wait_until(lambda: other.value(HUBS) == "1")
            a.sql("ROLLBACK")
            other.sql("NOTIFY c, 'and still'")
            got = []
            while ("c", "and still") not in got:
                got += hear(a)
        for sql in end.split("; "):
            a.sql(sql)
        a.sql("LISTEN marker")
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


def test_an_order_is_answered_to_whoever_listens_before_it_commits(one, server):
    """The use of LISTEN in a transaction: who sees what it has written may answer at once."""
    rounds = 100
    server.psql("DROP TABLE IF EXISTS orders; CREATE TABLE orders (id int)")
    over = threading.Event()

    def answer():
        with direct(server) as worker:
            done = 0
            while done < rounds and not over.is_set():
                if worker.value("SELECT count(*) FROM orders") != str(done):
                    worker.sql(f"NOTIFY done_{done}, 'here'")
                    done += 1

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        with Raw(one.port) as client:
            for number in range(rounds):
                got = []
                for sql in ("BEGIN", f"LISTEN done_{number}", f"INSERT INTO orders VALUES ({number})", "COMMIT"):
                    got += ask(client, query(sql))[1]
                assert got + hear(client, 1 - len(got)) == [(f"done_{number}", "here")]
                client.sql(f"UNLISTEN done_{number}")
    finally:
        over.set()
        thread.join(10)
        server.psql("DROP TABLE orders")


def test_nothing_is_missed_behind_units_that_are_on_their_way(one, server):
    """The answers to its own statements may be read after what the other connection hears."""
    with Raw(one.port) as client, Raw(one.port) as keeper, direct(server) as other:
        server.psql("DROP TABLE IF EXISTS orders; CREATE TABLE orders (id int)")
        # So the connection of all has the channel already, and nothing waits for it.
        keeper.sql("LISTEN done")
        for number in range(20):
            texts = ("SELECT 1", "BEGIN", "LISTEN done", f"INSERT INTO orders VALUES ({number})", "COMMIT")
            client.send(*map(query, texts))
            server_has = str(number + 1)
            wait_until(lambda: other.value("SELECT count(*) FROM orders") == server_has)  # noqa: B023
            other.sql(f"NOTIFY done, '{number}'")
            heard = told([message for _ in texts for message in client.until(b"Z")])
            assert heard + hear(client, 1 - len(heard)) == [("done", str(number))]
            assert hear(keeper) == [("done", str(number))]
            client.sql("UNLISTEN *")
        server.psql("DROP TABLE orders")


def test_all_come_in_order_beside_reads(one, server):
    total = 500
    with Raw(one.port) as a, Raw(one.port) as noise, direct(server) as other:
        a.sql("LISTEN c")

        def say():
            for number in range(total):
                other.sql(f"NOTIFY c, '{number}'")

        thread = threading.Thread(target=say)
        thread.start()
        got = []
        while len(got) < total:
            answer, more = ask(a, query("SELECT 1"))
            assert answer == "T D:1 C:SELECT 1 Z:I"
            got += more
            noise.value("SELECT 2")
            while a.waiting(0.001):
                got += hear(a)
        thread.join(10)
        assert got == [("c", str(number)) for number in range(total)]


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


@pytest.mark.parametrize("text", ["BEGIN; LISTEN c; COMMIT", "LISTEN c; SELECT 1", "SELECT 1; LISTEN c; LISTEN d"])
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


def test_limits_are_never_full_of_connections_that_only_listen(server):
    names = ["one_listens", "two_listens", "three_listens"]
    for name in names:
        server.psql(f"DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN")
    with Pooler(server, {"*": "max_db_connections=3"}, query_wait_timeout="5") as pooler, direct(server) as other:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Raw(pooler.port, user=name)) for name in names]
            for client in clients[:2]:
                assert client.sql("LISTEN c") == "C:LISTEN Z:I"
            assert other.value(HUBS) == "2"
            assert [client.value("SELECT 1") for client in clients] == ["1"] * 3
            other.sql("NOTIFY c, 'x'")
            assert [hear(client) for client in clients[:2]] == [[("c", "x")]] * 2
            # It pins the only connection that is left.
            assert clients[2].sql("LISTEN c") == "C:LISTEN Z:I" and other.value(HUBS) == "2"
            other.sql("NOTIFY c, 'y'")
            assert [hear(client) for client in clients] == [[("c", "y")]] * 3
    for name in names:
        server.psql(f"DROP ROLE {name}")


def test_several_in_a_text_are_done_so_too(one, server):
    with Raw(one.port) as a, Raw(one.port) as b, direct(server) as other:
        assert a.sql("LISTEN c; LISTEN d") == "C:LISTEN C:LISTEN Z:I"
        assert a.sql("LISTEN undone; SELECT 1/0") == "C:LISTEN E:22012 Z:I"
        assert b.value("SELECT 1") == "1" and other.value(HUBS) == "1"
        other.sql("NOTIFY d, '1'; NOTIFY undone; NOTIFY c, '2'")
        assert hear(a, 2) == [("d", "1"), ("c", "2")]
        # What else is in a text that listens is not looked at one by one, so it pins.
        assert a.sql("BEGIN; LISTEN e; COMMIT") == "C:BEGIN C:LISTEN C:COMMIT Z:I"
        other.sql("NOTIFY e, '1'; NOTIFY c, '2'")
        assert hear(a, 2) == [("e", "1"), ("c", "2")]


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


def test_statement_pooling_shares_too(server):
    with Pooler(server, default_pool_size=1, pool_mode="statement") as pooler:
        with Raw(pooler.port) as a, Raw(pooler.port) as b, direct(server) as other:
            assert a.sql("LISTEN c") == b.sql("LISTEN c") == "C:LISTEN Z:I"
            other.sql("NOTIFY c, 'x'")
            assert hear(a) == hear(b) == [("c", "x")] and other.value(HUBS) == "1"


def test_who_has_left_its_encoding_is_told_so(one, server):
    with Raw(one.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        assert "Z:I" in a.sql("SET client_encoding TO latin1")
        other.sql("NOTIFY c, 'plain'")
        assert hear(a) == [("c", "plain")]
        other.sql("NOTIFY c, 'é'")
        kind, body = a.next()
        assert (kind, raw.code(body)) == (b"E", "22P05") and "client_encoding" in raw.field(body, "M") and a.is_closed()


def test_savepoints_from_before_it_undo_it(one, server):
    with Raw(one.port) as a, direct(server) as other:
        for sql in ("BEGIN", "SAVEPOINT s", "LISTEN undone", "ROLLBACK TO s", "LISTEN marker", "COMMIT"):
            a.sql(sql)
        for sql in ("BEGIN", "SAVEPOINT s", "UNLISTEN marker", "ROLLBACK TO s", "COMMIT"):
            a.sql(sql)
        other.sql("NOTIFY undone; NOTIFY marker")
        assert hear(a) == [("marker", "")]


def test_what_a_client_says_itself_it_hears_when_that_is_committed(one, server):
    with Raw(one.port) as a:
        a.sql("LISTEN c")
        a.sql("BEGIN")
        a.sql("NOTIFY c, 'undone'")
        assert a.sql("ROLLBACK") == "C:ROLLBACK Z:I"
        got = []
        for sql in ("BEGIN", "NOTIFY c, '1'", "NOTIFY c, '1'", "NOTIFY c, '2'", "COMMIT"):
            got += ask(a, query(sql))[1]
        assert got + hear(a, 2 - len(got)) == [("c", "1"), ("c", "2")] and not a.waiting(0.1)


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


def test_the_name_of_a_host_is_looked_up_first(server):
    """And again when it has not been used for a while."""
    text = f"""[databases]
* = host=localhost port={server.port} user=named password=secret
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = @PORT@
auth_type = any
pool_mode = transaction
dns_max_ttl = 0.2
"""
    server.psql("DROP ROLE IF EXISTS named; CREATE ROLE named LOGIN PASSWORD 'secret'")
    with Pooler(server, text=text) as pooler, Raw(pooler.port) as a, direct(server) as other:
        time.sleep(0.3)
        assert a.sql("LISTEN c") == "C:LISTEN Z:I" and other.value(HUBS) == "1"
        other.sql("NOTIFY c, 'x'")
        assert hear(a) == [("c", "x")]
    wait_until(lambda: server.psql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'named'") == "0")
    server.psql("DROP ROLE named")


def come_back(pooler):
    """Closed clients have come back to listen: none keeps a connection, and all hear."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(pooler.port, "app")) for _ in range(4)]
        for client in clients:
            assert client.sql("LISTEN c") == "C:LISTEN Z:I"
        with Raw(pooler.port, "app") as other:
            assert other.sql("NOTIFY c, 'again'") == "C:NOTIFY Z:I"
        assert [hear(client) for client in clients] == [[("c", "again")]] * len(clients)


@pytest.mark.parametrize("loss", ["RECONNECT", "a backend is ended"])
def test_who_was_closed_comes_back_at_once_and_keeps_no_connection(server, loss):
    settings = {"default_pool_size": 2, "query_wait_timeout": "5", "server_idle_timeout": "60"}
    with Pooler(server, {"app": "dbname=postgres"}, **settings) as pooler:
        with Raw(pooler.port, "app") as a, Raw(pooler.port, "pgbouncer") as admin:
            assert a.sql("LISTEN c") == "C:LISTEN Z:I"
            if loss == "RECONNECT":
                assert admin.sql("RECONNECT") == "C:RECONNECT Z:I"
            else:
                server.psql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'howdah listen'"
                )
            assert raw.code(a.until(b"E")[-1][1]) == "57P01"
        come_back(pooler)


def test_who_listens_while_the_server_is_started_again_keeps_no_connection(major):
    settings = {"default_pool_size": 2, "query_wait_timeout": "20"}
    with Server(postgres.tree(major)) as server, Pooler(server, {"app": "dbname=postgres"}, **settings) as pooler:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Raw(pooler.port, "app")) for _ in range(4)]
            assert [client.sql("SELECT 1") for client in clients] == ["T D:1 C:SELECT 1 Z:I"] * len(clients)
            server.stop()
            for client in clients:
                client.send(query("LISTEN c"))
            assert not clients[0].waiting(0.3)
            server.start(port=server.port)
            for client in clients:
                client.socket.settimeout(20)
                assert raw.show(client.until(b"Z")) == "C:LISTEN Z:I"
            with Raw(pooler.port, "app") as other:
                assert other.sql("NOTIFY c, 'x'") == "C:NOTIFY Z:I"
            assert [hear(client) for client in clients] == [[("c", "x")]] * len(clients)


def test_a_reload_that_moves_the_database_is_told(server):
    with Pooler(server) as pooler, Raw(pooler.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        pooler.databases = {"*": "connect_query='SELECT 1'"}
        pooler.reload()
        kind, body = a.next()
        assert (kind, raw.code(body)) == (b"E", "57P01") and a.is_closed()
        wait_until(lambda: other.value(HUBS) == "0")


def test_who_is_pinned_by_something_else_hears_too(one, server):
    with Raw(one.port) as a, direct(server) as other:
        a.sql("LISTEN c")
        a.sql("CREATE TEMP TABLE mine (x int)")
        for number in range(3):
            other.sql(f"NOTIFY c, '{number}'")
            assert hear(a) == [("c", str(number))]
            # On its own connection it listens now too, and hears each once.
            a.sql("LISTEN c")
        a.sql("LISTEN marker")
        other.sql("NOTIFY c, 'last'; NOTIFY marker")
        assert hear(a, 2) == [("c", "last"), ("marker", "")]


def test_who_does_not_read_is_closed(one, server):
    with Raw(one.port) as slow, Raw(one.port) as quick, direct(server) as other:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sql("LISTEN c")
        quick.sql("LISTEN c")
        payload = "x" * 7500
        many = ";".join(f"NOTIFY c, '{payload}{number}'" for number in range(200))
        for _ in range(15):
            other.sql(many)
            assert len(hear(quick, 200)) == 200
        wait_until(lambda: "notifications were dropped" in one.log.read_text())


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
