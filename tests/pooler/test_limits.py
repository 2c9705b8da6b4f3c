"""Limits that several pools share: `max_db_connections` and `max_user_connections`."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.pooler import raw
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, parse, query, refusal, show

USERS = [f"limited_{number}" for number in range(5)]


@pytest.fixture(scope="session")
def with_many_users(server):
    """The server with five users."""
    server.psql("".join(f"CREATE ROLE {user} LOGIN;" for user in USERS))
    return server


def of_users(server, **settings):
    """A pooler that lets these users in."""
    return Pooler(server, {"postgres": "", "other": "dbname=postgres"}, **settings)


@contextlib.contextmanager
def busy(pooler, *places):
    """Three clients of each of these databases and users, who never pause between their transactions."""
    over = threading.Event()

    def work(database, user):
        with Raw(pooler.port, database, user=user) as client:
            while not over.is_set():
                assert client.sql("BEGIN; SELECT pg_sleep(0.01); COMMIT").endswith("C:COMMIT Z:I")

    with ThreadPoolExecutor(3 * len(places)) as crowd:
        working = [crowd.submit(work, *place) for place in places for _ in range(3)]
        try:
            wait_until(lambda: {(row["database"], row["user"]) for row in pooler.show("SERVERS")} >= set(places))
            yield
        finally:
            over.set()
    for each in working:
        each.result()


@pytest.mark.parametrize(
    ("limits", "held", "places"),
    [
        ({"max_db_connections": 1}, False, [("postgres", USERS[1])]),
        ({"max_db_connections": 3}, True, [("postgres", USERS[1])]),
        ({"max_db_connections": 1, "max_user_connections": 1}, False, [("postgres", USERS[1]), ("other", USERS[0])]),
    ],
    ids=["never idle", "held", "two limits"],
)
def test_a_pool_whose_clients_never_pause_starves_nobody(with_many_users, limits, held, places):
    with of_users(with_many_users, query_wait_timeout=20, **limits) as pooler, contextlib.ExitStack() as stack:
        if held:
            # A connection that its client keeps is no reason to wait.
            stack.enter_context(Raw(pooler.port, user=USERS[1])).sql("CREATE TEMP TABLE held()")
        stack.enter_context(busy(pooler, *places))
        late = stack.enter_context(Raw(pooler.port, user=USERS[0]))
        for _ in range(3):
            assert late.sql("BEGIN; SELECT 1; COMMIT") == "C:BEGIN T D:1 C:SELECT 1 C:COMMIT Z:I"


def test_an_idle_connection_goes_for_one_who_waits_but_not_to_fill_a_pool_up(with_many_users):
    with of_users(with_many_users, max_db_connections=1) as pooler:
        with pooler.connect(user=USERS[0]) as first, pooler.connect(user=USERS[1]) as second:
            for _ in range(3):
                ask(first, "SELECT 1")
                ask(second, "SELECT 1")
                (row,) = pooler.show("SERVERS")
                assert row["user"] == USERS[1]
            # A pool that would like to be fuller takes nothing from others.
            pooler.reload(min_pool_size=1)
            pid = pooler.show("SERVERS")[0]["remote_pid"]
            time.sleep(0.5)
            assert [row["remote_pid"] for row in pooler.show("SERVERS")] == [pid]


def test_the_limit_of_a_user_holds_over_databases_of_several_workers(with_many_users):
    with of_users(with_many_users, max_user_connections=1, workers=2) as pooler:
        with pooler.connect("postgres", USERS[0]) as one, pooler.connect("other", USERS[0]) as two:
            for _ in range(3):
                assert ask(one, "SELECT 1") == [(1,)]
                assert ask(two, "SELECT 2") == [(2,)]
                assert len(pooler.show("SERVERS")) <= 1
        assert "(max_user_connections)" in pooler.log.read_text()


def test_who_waits_under_a_limit_hears_which(with_many_users):
    with of_users(with_many_users, max_db_connections=1, query_wait_timeout=0.5) as pooler:
        with Raw(pooler.port, user=USERS[0]) as late, Raw(pooler.port, user=USERS[1]) as holder:
            late.sql("SELECT 1")
            holder.sql("BEGIN")
            late.send(query("SELECT 1"))
            (body,) = [body for kind, body in late.until(b"Z") if kind == b"E"]
            assert raw.code(body) == "53300"
            assert "max_db_connections = 1 leaves the pool" in raw.field(body, "M")
            assert "full" not in raw.field(body, "M")


def pools(pooler):
    """The pools of the database `given`, by user."""
    return {row["user"]: row for row in pooler.show("POOLS") if row["database"] == "given"}


def test_clients_of_a_given_user_share_that_users_pool(with_users):
    databases = {"given": f"host=127.0.0.1 dbname=postgres password='{PASSWORD}' user=scram_user", "postgres": ""}
    with Pooler(with_users, databases, default_pool_size=3) as pooler, contextlib.ExitStack() as stack:
        users = "[users]\nscram_user = pool_size=2\n[pgbouncer]"
        pooler.path.write_text(pooler.path.read_text().replace("[pgbouncer]", users))
        pooler.psql("RELOAD", "pgbouncer")
        clients = [stack.enter_context(Raw(pooler.port, "given", user=f"of_{number}")) for number in range(3)]
        # Two of them have the two connections that scram_user may have: the third waits.
        for client in clients[:2]:
            assert client.value("SELECT current_user") == "scram_user"
            client.sql("BEGIN")
        clients[2].send(query("SELECT 1"))
        wait_until(lambda: pools(pooler)["scram_user"]["cl_waiting"] == "1")
        assert pools(pooler).keys() == {"scram_user"} and pools(pooler)["scram_user"]["sv_active"] == "2"
        clients[0].sql("COMMIT")
        assert raw.values(clients[2].until(b"Z")) == ["1"]
        # Clients that were let in to be scram_user are not kept when that is over.
        pooler.path.write_text(pooler.path.read_text().replace(" user=scram_user", ""))
        pooler.psql("RELOAD", "pgbouncer")
        _, body = clients[2].until(b"E")[-1]
        assert b'the entry of database "given" no longer names user "scram_user"' in body


def test_clients_go_to_the_pool_of_the_user_that_a_reload_gives(with_many_users):
    former, present = USERS[2], USERS[3]
    databases = {"given": f"dbname=postgres user={former}"}
    with Pooler(with_many_users, databases, default_pool_size=2, max_user_connections=3) as pooler:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Raw(pooler.port, "given", user=USERS[0])) for _ in range(4)]
            clients[0].sql("BEGIN")
            clients[1].ask(raw.parse("kept", "SELECT current_user"), raw.SYNC)
            pooler.databases = {"given": f"dbname=postgres user={present}"}
            pooler.reload()
            # A transaction ends where it began.
            assert clients[0].value("SELECT current_user") == former
            assert clients[0].sql("COMMIT") == "C:COMMIT Z:I"
            for client in clients:
                assert client.value("SELECT current_user") == present
            assert clients[1].ask(raw.bind("kept"), raw.EXECUTE, raw.SYNC).startswith(f"2 D:{present}")
            wait_until(lambda: {row["user"] for row in pooler.show("SERVERS")} == {present})
            assert len(pooler.show("SERVERS")) <= 2


# One database served by several workers: what they have in common, and the share of each


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
