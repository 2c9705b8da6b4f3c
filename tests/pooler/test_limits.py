"""Limits that several pools share: `max_db_connections` and `max_user_connections`."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.pooler import raw
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import Raw, query

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


def test_five_users_share_four_connections(with_many_users):
    def work(number):
        with Raw(pooler.port, user=USERS[number // 2]) as client:
            for _ in range(20):
                assert client.value("SELECT pg_advisory_xact_lock_shared(1)") == ""

    with of_users(with_many_users, max_db_connections=4) as pooler, ThreadPoolExecutor(10) as crowd:
        assert len(list(crowd.map(work, range(10)))) == 10
        assert len(pooler.show("SERVERS")) <= 4
        assert "a client of another pool waits for a connection (max_db_connections)" in pooler.log.read_text()


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
