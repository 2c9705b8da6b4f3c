"""One database served by several workers: what they have in common, what they hand to each other, who moves."""

import contextlib
import re
import threading
import time
import urllib.request

import pytest

from devkit.server import free_port
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query, show, startup

ONE = {"d": "dbname=postgres"}


def on_workers(server, workers, size, **settings):
    """A pooler whose database `d` is served by so many workers, with so many server connections."""
    settings = {"workers": workers, "database_workers": workers, "default_pool_size": size, **settings}
    return Pooler(server, ONE, max_client_conn=300, **settings)


def count(pooler, name):
    """The sum of a counter over all pools."""
    with urllib.request.urlopen(f"http://127.0.0.1:{pooler.settings['metrics_port']}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"howdah_pooler_{name}{{"))


def with_metrics(server, workers, size, **settings):
    return on_workers(server, workers, size, metrics_port=free_port(), metrics_addr="127.0.0.1", **settings)


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
        with Raw(f"{self.server.socket_folder}/.s.PGSQL.{self.server.port}") as looker:
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
    done = [0] * len(clients)
    failures = []
    end = time.monotonic() + seconds

    def run(number):
        try:
            while time.monotonic() < end:
                work(clients[number])
                done[number] += 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return done


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
        pooler = stack.enter_context(with_metrics(cored, 4, 8, pool_mode=mode))
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


def test_every_series_of_metrics_stands_once_on_the_page(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 4, 8))
        at_once(clients(pooler, 12, stack), transaction, 0.3)
        address = f"http://127.0.0.1:{pooler.settings['metrics_port']}/metrics"
        with urllib.request.urlopen(address, timeout=10) as page:
            series = [line.rsplit(" ", 1)[0] for line in page.read().decode().splitlines() if line[0] != "#"]
        assert len(series) == len(set(series))
        [line] = [line for line in series if line.startswith("howdah_pooler_pool_size{")]
        assert 'database="d"' in line
        assert count(pooler, "pool_size") == 8


def test_counters_do_not_go_back_when_a_worker_has_a_pool_no_longer(cored):
    settings = {"workers": 2, "database_workers": 2, "default_pool_size": 4, "server_idle_timeout": "1"}
    with contextlib.ExitStack() as stack:
        # A database that the configuration does not name: its pools end some seconds after nobody needs them.
        pooler = Pooler(cored, {"*": ""}, metrics_port=free_port(), metrics_addr="127.0.0.1", **settings)
        stack.enter_context(pooler)
        crowd = [stack.enter_context(Raw(pooler.port, user="cored")) for _ in range(8)]
        at_once(crowd, transaction, 0.5)
        before = count(pooler, "queries_total")
        workers_of(pooler, 1)
        for client in crowd:
            read(client)
        assert count(pooler, "clients_moved_total") == 4
        end = time.monotonic() + 14
        while time.monotonic() < end:
            if count(pooler, "queries_total") < before + 8:
                # On their way from one worker to the other, they are on no page for a moment.
                time.sleep(0.1)
                assert count(pooler, "queries_total") >= before + 8
            time.sleep(0.2)
        assert count(pooler, "clients_moved_total") == 4


@pytest.mark.parametrize("size", [1, 2, 5])
def test_nobody_starves_where_there_are_more_workers_than_connections(cored, size):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 8, size))
        crowd = clients(pooler, 10, stack)
        kinds = [transaction, read, prepared]
        work = {client: kinds[number % 3] for number, client in enumerate(crowd)}
        with Backends(cored) as backends:
            done = at_once(crowd, lambda client: work[client](client), 3)
        assert backends.most <= size
        assert min(done) > 50, done


def test_idle_connections_go_to_the_worker_whose_clients_wait(cored):
    """Connections that one worker has opened serve the clients of another, and are not opened again."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 2, 4))
        crowd = clients(pooler, 8, stack)
        # Clients come to the workers in turn, so four connections become those of one of them.
        for client in crowd[::2]:
            client.send(query("BEGIN; SELECT pg_backend_pid()"))
        first = {process(client) for client in crowd[::2]}
        assert len(first) == 4
        for client in crowd[::2]:
            assert client.sql("COMMIT") == "C:COMMIT Z:I"
        for client in crowd[1::2]:
            client.send(query("BEGIN; SELECT pg_backend_pid()"))
        second = {process(client) for client in crowd[1::2]}
        assert second == first
        assert count(pooler, "connections_handed_over_total") == 4


def with_idle_connections(cored, stack, **settings):
    """A pooler of two workers, one of which has all four connections, idle; clients of this worker and of the other."""
    pooler = stack.enter_context(with_metrics(cored, 2, 4, **settings))
    crowd = clients(pooler, 8, stack)
    for client in crowd[::2]:
        client.send(query("BEGIN; SELECT pg_backend_pid()"))
    for client in crowd[::2]:
        process(client)
    for client in crowd[::2]:
        assert client.sql("COMMIT") == "C:COMMIT Z:I"
    return pooler, crowd[::2], crowd[1::2]


def test_who_waits_for_one_connection_is_handed_one(cored):
    with contextlib.ExitStack() as stack:
        pooler, _, others = with_idle_connections(cored, stack)
        before = count(pooler, "connections_handed_over_total")
        transaction(others[0])
        time.sleep(0.3)
        assert count(pooler, "connections_handed_over_total") == before + 1


def test_a_connection_that_was_idle_for_long_is_checked_when_it_is_handed_over(cored):
    cored.psql("CREATE TABLE asked_while_idle (n int)")
    check = "INSERT INTO asked_while_idle VALUES (1)"
    with contextlib.ExitStack() as stack:
        _, _, others = with_idle_connections(cored, stack, server_check_query=check, server_check_delay="1")
        time.sleep(1.2)
        before = int(cored.psql("SELECT count(*) FROM asked_while_idle"))
        transaction(others[0])
        assert int(cored.psql("SELECT count(*) FROM asked_while_idle")) > before


def process(client):
    """The row that a client is sent next."""
    [found] = [body for kind, body in client.until(b"Z") if kind == b"D"]
    return found


@pytest.mark.parametrize("kept", [50, 3])
def test_a_connection_takes_nothing_of_its_clients_along(cored, kept):
    """Settings are brought in line as ever, and statements that others have prepared on it are not taken for one's own."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 2, 2, max_prepared_statements=kept))
        # A pool of two has one worker.
        pooler.reload(default_pool_size=4)
        crowd = clients(pooler, 8, stack)
        for number, client in enumerate(crowd):
            assert client.sql(f"SET work_mem = '{100 + number}kB'") == "C:SET Z:I"
            answer = client.ask(parse("s", f"SELECT {number}, current_setting('work_mem')"), SYNC)
            assert answer == "1 Z:I"

        def work(client):
            number = crowd.index(client)
            client.send(query("BEGIN"), bind("s"), EXECUTE, SYNC, query("COMMIT"))
            rows = [body for _ in range(3) for kind, body in client.until(b"Z") if kind == b"D"]
            assert rows == [row(f"{number}", f"{100 + number}kB")]

        assert min(at_once(crowd, work, 3)) > 0
        assert count(pooler, "connections_handed_over_total") > 0
        for client in crowd:
            assert int(client.value("SELECT count(*) FROM pg_prepared_statements")) <= kept


def test_a_connection_keeps_what_is_prepared_on_it_when_it_is_handed_over(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 2, 4))
        crowd = clients(pooler, 8, stack)
        for client in crowd:
            assert client.ask(parse("s", "SELECT 7"), SYNC) == "1 Z:I"

        def work(client):
            answer = client.ask(query("BEGIN"), bind("s"), EXECUTE, SYNC, query("COMMIT"), units=3)
            assert answer == "C:BEGIN Z:T 2 D:7 C:SELECT 1 Z:T C:COMMIT Z:I"

        assert min(at_once(crowd, work, 3)) > 0
        assert count(pooler, "connections_handed_over_total") > 0
        [row] = [row for row in pooler.show("PREPARED") if row["database"] == "d"]
        assert int(row["server_parse_count"]) <= 4, "once for each connection"
        assert int(row["statements"]) == 1, "whichever worker has the client"
        names = {client.value("SELECT string_agg(name, ' ') FROM pg_prepared_statements") for client in crowd}
        assert len(names) == 1 and re.fullmatch("howdah_[0-9a-f]{32}", names.pop())


def row(*values):
    """The body of a DataRow."""
    body = len(values).to_bytes(2, "big")
    return body + b"".join(len(value).to_bytes(4, "big") + value.encode() for value in values)


def workers_of(pooler, number):
    """Lets the database have so many workers, and waits until clients have been told where to go."""
    log = f"is served by {number} workers now"
    before = pooler.log.read_text().count(log)
    pooler.psql(f"SET database_workers = {number}", "pgbouncer")
    wait_until(lambda: pooler.log.read_text().count(log) > before)
    time.sleep(1.2)


def test_clients_move_with_all_that_their_sessions_are(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 4, 8, database_workers=1))
        crowd = clients(pooler, 24, stack, application_name="at first", extra_float_digits="2")
        for number, client in enumerate(crowd):
            assert client.sql(f"SET TimeZone = 'Etc/GMT-{number % 12}'") == "C:SET Z:I"
            assert client.sql(f"SET lock_timeout = {1001 + number}") == "C:SET Z:I"
            assert client.ask(parse("mine", f"SELECT {number} + $1::int"), SYNC) == "1 Z:I"

        def check(client):
            number = crowd.index(client)
            sql = (
                "SELECT current_setting('TimeZone'), current_setting('lock_timeout'), "
                "current_setting('application_name'), current_setting('extra_float_digits')"
            )
            client.send(query(sql))
            [values] = [body for kind, body in client.until(b"Z") if kind == b"D"]
            assert values == row(f"Etc/GMT-{number % 12}", f"{1001 + number}ms", "at first", "2")
            argument = b"\0mine\0" + b"\0\0" + b"\0\1" + b"\0\0\0\1" + b"5" + b"\0\0"
            client.send(b"B" + (len(argument) + 4).to_bytes(4, "big") + argument, EXECUTE, SYNC)
            assert [body for kind, body in client.until(b"Z") if kind == b"D"] == [row(str(number + 5))]

        for client in crowd:
            check(client)
        assert count(pooler, "clients_moved_total") == 0
        for workers in (4, 1, 2):
            before = count(pooler, "clients_moved_total")
            workers_of(pooler, workers)
            at_once(crowd, check, 1)
            assert count(pooler, "clients_moved_total") > before
        assert len(pooler.show("CLIENTS")) == 25


def test_clients_that_say_nothing_do_not_keep_others_where_they_are(cored):
    """Not only those are chosen to move that never do, whichever of them came first."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 2, 8, database_workers=1))
        crowd = clients(pooler, 40, stack)
        workers_of(pooler, 2)
        at_once(crowd[20:], transaction, 3)
        assert 8 <= count(pooler, "clients_moved_total") <= 12, "half of those at work"
        at_once(crowd[:20], transaction, 0.5)
        assert 18 <= count(pooler, "clients_moved_total") <= 22, "half of the others too, once they speak"


def test_clients_that_have_moved_share_what_they_have_prepared(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 2, 4, database_workers=1, max_prepared_statements=500))
        crowd = clients(pooler, 24, stack)
        for client in crowd:
            assert client.ask(parse("s", "SELECT 7"), SYNC) == "1 Z:I"
        workers_of(pooler, 2)

        def use(client):
            assert client.ask(bind("s"), EXECUTE, SYNC) == "2 D:7 C:SELECT 1 Z:I"

        at_once(crowd, use, 1)
        assert count(pooler, "clients_moved_total") >= 10
        for client in crowd:
            assert int(client.value("SELECT count(*) FROM pg_prepared_statements")) <= 1


def test_clients_that_move_while_a_pause_waits_are_not_killed(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 4, 8, database_workers=1))
        crowd = clients(pooler, 100, stack)
        [holder] = clients(pooler, 1, stack)
        for workers in (4, 1, 4, 1, 4):
            assert holder.sql("BEGIN") == "C:BEGIN Z:T"
            workers_of(pooler, workers)
            with Raw(pooler.port, "pgbouncer") as console:
                # The workers are asked again and again how much is still under way.
                console.send(query("PAUSE d"))
                for client in crowd:
                    client.send(query("SELECT 1"))
                    time.sleep(0.003)
                assert holder.sql("COMMIT") == "C:COMMIT Z:I"
                assert console.until(b"Z")[0] == (b"C", b"PAUSE\0")
                assert console.sql("RESUME d") == "C:RESUME Z:I"
            for client in crowd:
                assert show(client.until(b"Z")) == "T D:1 C:SELECT 1 Z:I"
        assert count(pooler, "clients_moved_total") > 100


def test_a_client_that_has_moved_can_be_cancelled_and_killed(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 4, 8, database_workers=1))
        crowd = clients(pooler, 16, stack)
        workers_of(pooler, 4)
        for client in crowd:
            read(client)
        wait_until(lambda: count(pooler, "clients_moved_total") >= 10)
        for client in crowd:
            client.send(query("SELECT pg_sleep(60)"))
        wait_until(lambda: int(pooler.show("POOLS")[0]["cl_active"]) == 8)
        for client in crowd:
            with contextlib.closing(cancel(pooler, client)):
                pass
        for client in crowd:
            answer = client.until(b"Z")
            assert any(kind == b"E" and b"57014" in body for kind, body in answer), answer
            read(client)
        pooler.psql("KILL d", "pgbouncer")
        for client in crowd:
            assert client.next()[0] == b"E"
            assert client.next() is None


def cancel(pooler, client):
    """A connection that has brought a cancel request for a client."""
    asker = Raw(pooler.port, login=False)
    key = next(body for kind, body in client.greeting if kind == b"K")
    asker.send((len(key) + 8).to_bytes(4, "big") + (80877102).to_bytes(4, "big") + key)
    assert asker.next() is None
    return asker.socket


def test_who_is_pinned_or_listens_stays_until_it_can_go(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 2, 8, database_workers=1))
        crowd = clients(pooler, 16, stack)
        for number, client in enumerate(crowd):
            assert (
                client.sql(f"CREATE TEMP TABLE own AS SELECT {number} AS n") == "C:SELECT 1 Z:I" if number < 4 else True
            )
            assert client.sql("LISTEN cores") == "C:LISTEN Z:I" if 4 <= number < 8 else True
            assert client.sql("BEGIN") == "C:BEGIN Z:T" if 8 <= number < 10 else True
        workers_of(pooler, 2)
        for number, client in enumerate(crowd):
            if number < 4:
                assert client.sql("SELECT n FROM own") == f"T D:{number} C:SELECT 1 Z:I"
            elif 8 <= number < 10:
                assert client.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:T"
                assert client.sql("COMMIT") == "C:COMMIT Z:I"
            else:
                read(client)
        assert crowd[15].sql("NOTIFY cores, 'said'") == "C:NOTIFY Z:I"
        for client in crowd[4:8]:
            assert client.next()[0] == b"A"
        assert 1 <= count(pooler, "clients_moved_total") <= 8


def test_writers_of_one_worker_wait_for_no_readers_of_another(cored):
    """Reads that follow each other without end keep no more than their worker's share of the connections."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 2, 4, pipeline_stall="0.2"))
        crowd = clients(pooler, 12, stack)
        read(crowd[0])
        pooler.wait_for_catalog()
        work = {client: read if number % 2 else transaction for number, client in enumerate(crowd)}
        # Those of odd numbers are on the other worker; they have all connections when the others come.
        at_once(crowd[1::2], read, 0.5)
        done = at_once(crowd, lambda client: work[client](client), 3)
        assert min(done) > 20, done


def test_the_limit_of_a_databases_clients_holds_over_all_workers(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8, max_db_client_connections=10))
        crowd = clients(pooler, 10, stack)
        with Raw(pooler.port, login=False) as more:
            more.send(startup("d", "cored"))
            _, body = more.until(b"E")[-1]
            assert b"53300" in body
        crowd[3].socket.close()
        wait_until(lambda: len(pooler.show("CLIENTS")) == 10)
        clients(pooler, 1, stack)


def test_whom_the_server_refuses_shares_what_other_workers_have(cored):
    cored.psql("CREATE ROLE few LOGIN CONNECTION LIMIT 2")
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(on_workers(cored, 4, 8, server_login_retry="0.1"))
        first = [stack.enter_context(Raw(pooler.port, "d", user="few")) for _ in range(2)]
        at_once(first, transaction, 0.3)
        more = [stack.enter_context(Raw(pooler.port, "d", user="few")) for _ in range(10)]
        assert min(at_once([*first, *more], transaction, 3)) > 20


def test_a_database_of_shared_limits_has_one_worker(cored):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(with_metrics(cored, 4, 8, max_db_connections=3))
        with Backends(cored) as backends:
            assert min(at_once(clients(pooler, 12, stack), transaction, 1)) > 0
        assert backends.most <= 3
        assert count(pooler, "connections_handed_over_total") == 0
