"""Reads that replicas serve see what their session has committed."""

import contextlib
import threading
import urllib.request

import pytest

from devkit.server import free_port
from tests.pooler.process import wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, message, parse, query
from tests.pooler.test_splitting import PORT, ask, is_replica, split, splits
from tests.pooler.trio import paused

LAST = "SELECT coalesce(max(a), 0) FROM kept"


@pytest.fixture(scope="module")
def servers(steady_trio):
    """A primary and two replicas, with a table of numbers and a function that writes one."""
    steady_trio.primary.psql("""
        CREATE TABLE kept (a int);
        CREATE FUNCTION keep(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO kept VALUES (n) RETURNING a';
    """)
    steady_trio.catch_up()
    yield steady_trio
    steady_trio.primary.psql("DROP FUNCTION keep; DROP TABLE kept")
    steady_trio.catch_up()


@pytest.fixture
def numbers(servers):
    """The servers with an empty table, replayed."""
    servers.primary.psql("TRUNCATE kept")
    servers.catch_up()
    return servers


@contextlib.contextmanager
def delayed(replica, delay):
    """A replica that replays each commit so much later."""

    def replay_after(text):
        replica.psql(f"ALTER SYSTEM SET recovery_min_apply_delay = '{text}'")
        replica.psql("SELECT pg_reload_conf()")
        wait_until(lambda: replica.psql("SHOW recovery_min_apply_delay") == text)

    replay_after(delay)
    try:
        yield
    finally:
        replay_after("0")


def write(client, number):
    """Writes a number and waits until that is acknowledged."""
    assert client.sql(f"INSERT INTO kept VALUES ({number})") == "C:INSERT 0 1 Z:I"


def unnamed(sql):
    """A statement of the extended protocol, without its Sync."""
    return parse("", sql) + bind("") + EXECUTE


WRITES = {
    "insert": lambda n: [(query(f"INSERT INTO kept VALUES ({n})"), 1)],
    "extended": lambda n: [(unnamed(f"INSERT INTO kept VALUES ({n})") + SYNC, 1)],
    "function": lambda n: [(query(f"SELECT keep({n})"), 1)],
    "with": lambda n: [(query(f"WITH w AS (INSERT INTO kept VALUES ({n}) RETURNING a) SELECT a FROM w"), 1)],
    "copy": lambda n: [
        (query("COPY kept FROM STDIN") + message(b"d", f"{n}\n".encode()) + message(b"c", b""), 1),
    ],
    "transaction": lambda n: [
        (query("BEGIN"), 1),
        (query("SELECT 1"), 1),
        (query(f"INSERT INTO kept VALUES ({n})"), 1),
        (query("COMMIT"), 1),
    ],
    "block": lambda n: [(query(f"BEGIN; INSERT INTO kept VALUES ({n}); COMMIT"), 1)],
    "several": lambda n: [(query(f"SELECT 1; INSERT INTO kept VALUES ({n})"), 1)],
    "do": lambda n: [(query(f"DO $$ BEGIN PERFORM keep({n}); END $$"), 1)],
    "long": lambda n: [(query(f"INSERT INTO kept VALUES ({n} /* {'x' * 100_000} */)"), 1)],
    # The read is behind the write before that is answered.
    "pipelined": lambda n: [(query("SELECT 1") + query(f"INSERT INTO kept VALUES ({n})"), 2)],
}


def test_a_session_sees_its_own_commit(numbers):
    with split(numbers) as pooler, Raw(pooler.port, "app") as client, Raw(pooler.port, "app") as other:
        splits(pooler)
        with paused(*numbers.replicas):
            for number, (how, write) in enumerate(WRITES.items(), 1):
                for sent, units in write(number):
                    client.send(sent)
                    for _ in range(units):
                        assert not [body for kind, body in client.until(b"Z") if kind == b"E"], how
                assert ask(client, LAST) == str(number), how
            # Whoever has written nothing reads where reads go.
            assert ask(other, LAST) == "0"
            assert is_replica(ask(other, PORT), pooler)
        # Replicas serve the session again as soon as they have its commits.
        wait_until(lambda: is_replica(ask(client, PORT), pooler))
        assert ask(client, LAST) == str(len(WRITES))


def test_a_session_and_a_statement_choose(numbers):
    with split(numbers) as pooler, Raw(pooler.port, "app") as client, Raw(pooler.port, "app") as other:
        splits(pooler)
        assert ask(client, "SHOW READ YOUR WRITES") == "session"
        with paused(*numbers.replicas):
            write(client, 1)
            assert ask(client, f"/* howdah: stale */ {LAST}") == "0"
            assert ask(client, f"/* howdah: replica */ {LAST}") == "0"
            assert ask(client, LAST) == "1"
            assert ask(other, LAST) == "0"
            assert ask(other, f"/* howdah: fresh */ {LAST}") == "1"
            for value, seen in [("database", "1"), ("off", "0"), ("default", "0")]:
                assert other.sql(f"SET READ YOUR WRITES TO {value}") == "C:SET READ YOUR WRITES Z:I"
                assert ask(other, LAST) == seen
            assert client.sql("SET READ YOUR WRITES TO off") == "C:SET READ YOUR WRITES Z:I"
            assert ask(client, "SHOW READ YOUR WRITES") == "off"
            assert ask(client, LAST) == "0"
            # Its commits are no secret to others that ask for them.
            write(client, 2)
            assert ask(other, f"/* howdah: fresh */ {LAST}") == "2"


def test_metrics_count_reads_on_the_primary(numbers):
    port = free_port()
    with split(numbers, f"metrics_port = {port}") as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)

        def counted():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                lines = page.read().decode().splitlines()
            return sum(float(line.split()[-1]) for line in lines if "reads_on_primary_total{" in line)

        assert counted() == 0
        with paused(*numbers.replicas):
            write(client, 1)
            for _ in range(3):
                assert ask(client, LAST) == "1"
            wait_until(lambda: counted() == 3)


def test_where_the_primary_is_not_read_it_still_serves_these(numbers):
    with split(numbers, app='primary_reads = "off"') as pooler, Raw(pooler.port, "app") as client:
        splits(pooler)
        with paused(*numbers.replicas):
            write(client, 1)
            assert ask(client, LAST) == "1"


def pairs(port, start, count, stale, ports):
    """Writes numbers of its own and reads each back, from the ports of servers."""
    with Raw(port, "app") as client:
        for number in range(start, start + count):
            write(client, number)
            found = ask(client, f"SELECT count(*), current_setting('here.port') FROM kept WHERE a = {number}")
            # A read whose server dies when it has begun to answer may fail.
            ports.append(found[1] if isinstance(found, list) else found)
            if isinstance(found, list) and found[0] != "1":
                stale.append((number, found))


def test_nobody_reads_back_less_than_was_written(numbers):
    """Eight sessions, while one replica is late, the other is restarted, and connections are made anew."""
    slow, other = numbers.replicas
    numbers.primary.psql("CREATE INDEX IF NOT EXISTS kept_a ON kept (a)")
    with split(numbers, "server_lifetime = 1") as pooler, delayed(slow, "30ms"):
        splits(pooler)
        stale, ports = [], []
        crowd = [
            threading.Thread(target=pairs, args=(pooler.port, 1_000_000 * who, 250, stale, ports))
            for who in range(1, 9)
        ]
        for each in crowd:
            each.start()
        wait_until(lambda: len(ports) > 300)
        numbers.kill(other)
        numbers.start(other)
        for each in crowd:
            each.join()
        assert len(ports) == 2000
        assert not stale, stale[:10]
        replicas = {str(replica.port) for replica in numbers.replicas}
        assert sum(port not in {*replicas, str(numbers.primary.port)} for port in ports) < 10
        assert replicas & set(ports), "replicas have a share"
