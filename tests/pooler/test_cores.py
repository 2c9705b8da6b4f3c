"""One database served by several workers: what they have in common, and the share of each."""

import contextlib
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, parse, query, refusal, show

# The catalog is read by a connection that is no pool's.
BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cored' AND application_name <> 'howdah catalog'"


@pytest.fixture(scope="module")
def cored(server):
    """The server with a role of these tests."""
    server.psql("CREATE ROLE cored LOGIN")
    yield server
    server.psql("DROP ROLE cored")


@contextlib.contextmanager
def on_workers(server, workers, size, clients, **settings):
    """A pooler whose database `d` is served by so many workers with so many server connections, and clients of it."""
    settings = {"workers": workers, "database_workers": workers, "default_pool_size": size, **settings}
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, {"d": "dbname=postgres"}, **settings))
        yield pooler, [stack.enter_context(Raw(pooler.port, "d", user="cored")) for _ in range(clients)]


def at_once(server, crowd, work, seconds=2.0):
    """Has each client do its work again and again: how often the slowest has, and the most server connections meanwhile."""
    end = time.monotonic() + seconds

    def run(client):
        done = 0
        while time.monotonic() < end:
            work(client)
            done += 1
        return done

    with ThreadPoolExecutor(len(crowd)) as beside, direct(server) as looker:
        done, most = [beside.submit(run, client) for client in crowd], 0
        while not all(each.done() for each in done):
            most = max(most, int(looker.value(BACKENDS)))
        return min(each.result() for each in done), most


def transaction(client):
    answer = client.ask(query("BEGIN"), query("SELECT 1"), query("COMMIT"), units=3)
    assert answer == "C:BEGIN Z:T T D:1 C:SELECT 1 Z:T C:COMMIT Z:I"


def mixed(client):
    transaction(client)
    assert client.value("SELECT 1") == "1"
    assert client.ask(parse("", "SELECT 2"), bind(""), EXECUTE, SYNC) == "1 2 D:2 C:SELECT 1 Z:I"


@pytest.mark.parametrize(
    ("workers", "size", "clients", "settings"),
    [
        (4, 8, 40, {}),
        (8, 2, 10, {}),
        (4, 3, 12, {"max_db_connections": 3, "default_pool_size": 8}),
        (3, 7, 7, {"pool_mode": "session"}),
    ],
    ids=["size", "more workers than connections", "shared limit", "session"],
)
def test_all_workers_together_keep_within_the_size_of_a_pool_and_serve_everybody(
    cored, workers, size, clients, settings
):
    with on_workers(cored, workers, size, clients, **settings) as (pooler, crowd):
        least, most = at_once(cored, crowd, mixed)
        assert least > 0 and most <= size
        [row] = [row for row in pooler.show("POOLS") if row["database"] == "d"]
        assert sum(int(row[state]) for state in ("sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login")) <= size
        if not settings:
            assert ("d", str(size)) in {(row["name"], row["pool_size"]) for row in pooler.show("DATABASES")}


def test_workers_are_changed_by_a_reload_when_a_database_has_no_clients(cored):
    with on_workers(cored, 4, 8, 12) as (pooler, crowd):
        pooler.reload(database_workers=1)
        least, most = at_once(cored, crowd, transaction, 1)
        assert least > 0 and most == 8, "each worker has its share as before"
        for client in crowd:
            client.socket.close()
        wait_until(lambda: len(pooler.show("CLIENTS")) == 1)
        pooler.reload(default_pool_size=4)
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(Raw(pooler.port, "d", user="cored")) for _ in range(12)]
            least, most = at_once(cored, crowd, transaction, 1)
        assert least > 0 and most <= 8


def test_statements_have_the_same_names_on_all_workers(cored):
    with on_workers(cored, 2, 4, 8) as (pooler, crowd):
        for client in crowd:
            assert client.ask(parse("s", "SELECT 7"), SYNC) == "1 Z:I"

        def work(client):
            answer = client.ask(query("BEGIN"), bind("s"), EXECUTE, SYNC, query("COMMIT"), units=3)
            assert answer == "C:BEGIN Z:T 2 D:7 C:SELECT 1 Z:T C:COMMIT Z:I"

        assert at_once(cored, crowd, work, 1)[0] > 0
        [row] = [row for row in pooler.show("PREPARED") if row["database"] == "d"]
        assert int(row["server_parse_count"]) <= 4, "once for each connection"
        assert int(row["statements"]) == 1, "whichever worker has the client"
        names = {client.value("SELECT string_agg(name, ' ') FROM pg_prepared_statements") for client in crowd}
        assert len(names) == 1 and re.fullmatch("howdah_[0-9a-f]{32}", names.pop())


def test_a_pause_waits_for_all_workers(cored):
    with on_workers(cored, 4, 8, 41) as (pooler, [holder, *crowd]):
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        with Raw(pooler.port, "pgbouncer") as console:
            console.send(query("PAUSE d"))
            wait_until(lambda: any(row["paused"] == "1" for row in pooler.show("DATABASES")))
            for client in crowd:
                client.send(query("SELECT 1"))
            assert not console.waiting(0.1)
            assert holder.sql("COMMIT") == "C:COMMIT Z:I"
            assert console.until(b"Z")[0] == (b"C", b"PAUSE\0")
            assert not any(client.waiting(0) for client in crowd)
            assert console.sql("RESUME d") == "C:RESUME Z:I"
        for client in crowd:
            assert show(client.until(b"Z")) == "T D:1 C:SELECT 1 Z:I"


def test_clients_of_all_workers_can_be_cancelled_and_killed(cored):
    with on_workers(cored, 4, 8, 16) as (pooler, crowd):
        for client in crowd:
            client.send(query("SELECT pg_sleep(60)"))
        wait_until(lambda: int(pooler.show("POOLS")[0]["cl_active"]) == 8)
        for client in crowd:
            client.cancel(pooler.port)
        for client in crowd:
            assert "E:57014" in show(client.until(b"Z"))
            assert client.value("SELECT 1") == "1"
        pooler.psql("KILL d", "pgbouncer")
        for client in crowd:
            assert client.until(b"E") and client.is_closed()


def test_the_limit_of_a_databases_clients_holds_over_all_workers(cored):
    with on_workers(cored, 4, 8, 10, max_db_client_connections=10) as (pooler, crowd):
        assert refusal(pooler.port, "d", "cored")[0] == "53300"
        crowd[3].socket.close()
        wait_until(lambda: len(pooler.show("CLIENTS")) == 10)
        with Raw(pooler.port, "d", user="cored") as client:
            assert client.value("SELECT 1") == "1"
