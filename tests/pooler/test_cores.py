"""One database served by several workers: what they have in common, and the share of each."""

import concurrent.futures
import contextlib
import re
import threading
import time

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, parse, query, refusal, show

ONE = {"d": "dbname=postgres"}


def on_workers(server, workers, size, **settings):
    """A pooler whose database `d` is served by so many workers, with so many server connections."""
    settings = {"workers": workers, "database_workers": workers, "default_pool_size": size, **settings}
    return Pooler(server, ONE, max_client_conn=300, **settings)


class Backends:
    """How many connections of clients called `cored` the server has had at most while this lasted."""

    def __init__(self, server):
        self.server = server
        self.most = 0
        self.over = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.over.set()
        self.thread.join()

    def look(self):
        """Counts them again and again."""
        with direct(self.server) as looker:
            while not self.over.is_set():
                # The catalog is read by a connection that is no pool's.
                sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'cored' AND application_name <> 'howdah catalog'"
                self.most = max(self.most, int(looker.value(sql)))


@pytest.fixture(scope="session")
def cored(server):
    """The server with a role of these tests, and a table that it writes to."""
    server.psql("CREATE ROLE cored LOGIN SUPERUSER; CREATE TABLE cores (n int); INSERT INTO cores VALUES (0)")
    return server


def clients(pooler, number, stack, **parameters):
    """So many clients of the database."""
    return [stack.enter_context(Raw(pooler.port, "d", user="cored", **parameters)) for _ in range(number)]


def at_once(clients, work, seconds=2.0):
    """Has each client do its work again and again; how often each of them has."""
    end = time.monotonic() + seconds

    def run(client):
        done = 0
        while time.monotonic() < end:
            work(client)
            done += 1
        return done

    with concurrent.futures.ThreadPoolExecutor(len(clients)) as crowd:
        return list(crowd.map(run, clients))


def transaction(client):
    answer = client.ask(query("BEGIN"), query("SELECT 1"), query("COMMIT"), units=3)
    assert answer == "C:BEGIN Z:T T D:1 C:SELECT 1 Z:T C:COMMIT Z:I"


def read(client):
    assert client.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"


def prepared(client):
    answer = client.ask(parse("", "SELECT 2"), bind(""), EXECUTE, SYNC)
    assert answer == "1 2 D:2 C:SELECT 1 Z:I"


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_all_workers_together_keep_within_the_size_of_a_pool(cored, mode):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8, pool_mode=mode))
        if mode == "session":

            def work(client):
                with Raw(pooler.port, "d", user="cored") as client:
                    read(client)

            with Backends(cored) as backends:
                done = at_once([None] * 20, work)
        else:
            crowd = clients(pooler, 40, stack)
            with Backends(cored) as backends:
                done = at_once(crowd, transaction)
        assert min(done) > 0
        assert backends.most <= 8
        rows = [row for row in pooler.show("POOLS") if row["database"] == "d"]
        assert len(rows) == 1, "one pool, whichever workers have it"
        assert sum(int(rows[0][state]) for state in ("sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login")) <= 8
        [size] = {row["pool_size"] for row in pooler.show("DATABASES") if row["name"] == "d"}
        assert size == "8"


def test_workers_are_changed_by_a_reload_when_a_database_has_no_clients(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8))
        with contextlib.ExitStack() as first:
            crowd = clients(pooler, 12, first)
            pooler.reload(database_workers=1)
            with Backends(cored) as backends:
                assert min(at_once(crowd, transaction, 1)) > 0
            assert backends.most == 8, "each worker has its share as before"
        wait_until(lambda: len(pooler.show("CLIENTS")) == 1)
        pooler.reload(default_pool_size=4)
        with Backends(cored) as backends:
            assert min(at_once(clients(pooler, 12, stack), transaction, 1)) > 0
        assert backends.most <= 8


def test_nobody_starves_where_there_are_more_workers_than_connections(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 8, 2))
        crowd = clients(pooler, 10, stack)
        kinds = [transaction, read, prepared]
        work = {client: kinds[number % 3] for number, client in enumerate(crowd)}
        with Backends(cored) as backends:
            done = at_once(crowd, lambda client: work[client](client), 3)
        assert backends.most <= 2
        assert min(done) > 0, done


def test_statements_have_the_same_names_on_all_workers(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 2, 4))
        crowd = clients(pooler, 8, stack)
        for client in crowd:
            assert client.ask(parse("s", "SELECT 7"), SYNC) == "1 Z:I"

        def work(client):
            answer = client.ask(query("BEGIN"), bind("s"), EXECUTE, SYNC, query("COMMIT"), units=3)
            assert answer == "C:BEGIN Z:T 2 D:7 C:SELECT 1 Z:T C:COMMIT Z:I"

        assert min(at_once(crowd, work, 1)) > 0
        [row] = [row for row in pooler.show("PREPARED") if row["database"] == "d"]
        assert int(row["server_parse_count"]) <= 4, "once for each connection"
        assert int(row["statements"]) == 1, "whichever worker has the client"
        names = {client.value("SELECT string_agg(name, ' ') FROM pg_prepared_statements") for client in crowd}
        assert len(names) == 1 and re.fullmatch("howdah_[0-9a-f]{32}", names.pop())


def test_a_pause_waits_for_all_workers(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8))
        crowd = clients(pooler, 40, stack)
        [holder] = clients(pooler, 1, stack)
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        with Raw(pooler.port, "pgbouncer") as console:
            console.send(query("PAUSE d"))
            time.sleep(0.3)
            for client in crowd:
                client.send(query("SELECT 1"))
            assert holder.sql("COMMIT") == "C:COMMIT Z:I"
            assert console.until(b"Z")[0] == (b"C", b"PAUSE\0")
            assert console.sql("RESUME d") == "C:RESUME Z:I"
        for client in crowd:
            assert show(client.until(b"Z")) == "T D:1 C:SELECT 1 Z:I"


def test_clients_of_all_workers_can_be_cancelled_and_killed(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8))
        crowd = clients(pooler, 16, stack)
        for client in crowd:
            client.send(query("SELECT pg_sleep(60)"))
        wait_until(lambda: int(pooler.show("POOLS")[0]["cl_active"]) == 8)
        for client in crowd:
            client.cancel(pooler.port)
        for client in crowd:
            answer = client.until(b"Z")
            assert any(kind == b"E" and b"57014" in body for kind, body in answer), answer
            read(client)
        pooler.psql("KILL d", "pgbouncer")
        for client in crowd:
            assert client.next()[0] == b"E"
            assert client.next() is None


def test_the_limit_of_a_databases_clients_holds_over_all_workers(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8, max_db_client_connections=10))
        crowd = clients(pooler, 10, stack)
        assert refusal(pooler.port, "d", "cored")[0] == "53300"
        crowd[3].socket.close()
        wait_until(lambda: len(pooler.show("CLIENTS")) == 10)
        clients(pooler, 1, stack)


def test_a_database_of_shared_limits_has_one_worker(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8, max_db_connections=3))
        with Backends(cored) as backends:
            assert min(at_once(clients(pooler, 12, stack), transaction, 1)) > 0
        assert backends.most <= 3
