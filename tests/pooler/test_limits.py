"""Limits that several pools share: `max_db_connections` and `max_user_connections`."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import concurrent.futures
import contextlib
import itertools
import socket
import threading
import time

import pytest

from tests.pooler import raw
from tests.pooler.process import PASSWORD, Pooler, ask, wait_until
from tests.pooler.raw import Raw, direct, query

USERS = [f"limited_{number}" for number in range(5)]


@pytest.fixture(scope="session")
def with_many_users(server):
    """The server with five users."""
    server.psql("".join(f"CREATE ROLE {user} LOGIN;" for user in USERS))
    return server


def of_users(server, **settings):
    """A pooler that lets these users in."""
    return Pooler(server, {"postgres": "", "other": "dbname=postgres"}, **settings)


def in_threads(count, work):
    """Does the work so often at once; raises what one of them has raised."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT pg_advisory_xact_lock_shared(1)"])
def test_five_users_share_four_connections(with_many_users, statement):
    with of_users(with_many_users, max_db_connections=4) as pooler:
        started = time.monotonic()

        def work(number):
            with pooler.connect(user=USERS[number // 2]) as client:
                for _ in range(20):
                    ask(client, statement)

        in_threads(10, work)
        assert time.monotonic() - started < 20
        assert len(pooler.show("SERVERS")) <= 4
        assert "a client of another pool waits for a connection (max_db_connections)" in pooler.log.read_text()


def most_on_the_server(server, stop):
    """The most connections of the users that the server had at once, until `stop` is set; those that it was told to end
    and has not ended at the next look do not count.
    """
    most = before = 0
    while not stop.is_set():
        count = int(server.psql("SELECT count(*) FROM pg_stat_activity WHERE usename ~ '^limited_'"))
        most, before = max(most, min(before, count)), count
    return most


@pytest.mark.parametrize("setting", ["max_db_connections", "max_user_connections"])
def test_the_connection_that_reads_the_catalog_counts_too_and_makes_way(with_many_users, setting):
    with of_users(with_many_users, **{setting: 3, "default_pool_size": 10}) as pooler, contextlib.ExitStack() as stack:
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as aside:
            most = aside.submit(most_on_the_server, with_many_users, stop)
            try:
                # More clients than connections, who never pause: it is read all the same.
                over = time.monotonic() + 20

                def read():
                    return "the catalog was read" in pooler.log.read_text()

                def work(_number):
                    with pooler.connect(user=USERS[0]) as client:
                        while time.monotonic() < over and not read():
                            for _ in range(20):
                                ask(client, "SELECT count(*) FROM pg_class")

                in_threads(8, work)
                assert read()
                # And it keeps nobody from the last of the places.
                for _ in range(3):
                    client = stack.enter_context(pooler.connect(user=USERS[0]))
                    started = time.monotonic()
                    ask(client, "BEGIN")
                    ask(client, "SELECT 1")
                    assert time.monotonic() - started < 2
                time.sleep(0.5)
            finally:
                stop.set()
            assert most.result() == 3


def test_an_idle_connection_goes_for_one_who_waits_but_not_to_fill_a_pool_up(with_many_users):
    with of_users(with_many_users, max_db_connections=1) as pooler:
        with pooler.connect(user=USERS[0]) as first, pooler.connect(user=USERS[1]) as second:
            for _ in range(3):
                started = time.monotonic()
                ask(first, "SELECT 1")
                ask(second, "SELECT 1")
                assert time.monotonic() - started < 10
                (row,) = pooler.show("SERVERS")
                assert row["user"] == USERS[1]
            # A pool that would like to be fuller takes nothing from others.
            pooler.reload(min_pool_size=1)
            pid = pooler.show("SERVERS")[0]["remote_pid"]
            time.sleep(0.5)
            assert [row["remote_pid"] for row in pooler.show("SERVERS")] == [pid]


def test_what_is_in_use_is_not_taken(with_many_users):
    with of_users(with_many_users, max_db_connections=1, query_wait_timeout="0.6") as pooler:
        with pooler.connect(user=USERS[0]) as holder, Raw(pooler.port, user=USERS[1], login=False) as newcomer:
            ask(holder, "BEGIN")
            newcomer.send(raw.startup("postgres", USERS[1]))
            told = []
            while (message := newcomer.next()) is not None:
                told.append(message)
            assert b"query_wait_timeout" in told[-1][1]
            assert ask(holder, "SELECT 1") == [(1,)]
            ask(holder, "COMMIT")


def test_a_user_who_never_pauses_starves_nobody(with_many_users):
    with of_users(with_many_users, max_db_connections=1) as pooler:
        done = threading.Event()

        def work(number):
            if number == 0:
                try:
                    with pooler.connect(user=USERS[0]) as other:
                        for _ in range(2):
                            ask(other, "SELECT txid_current() > 0")
                finally:
                    done.set()
                return
            with pooler.connect(user=USERS[1]) as busy:
                while not done.is_set():
                    ask(busy, "SELECT txid_current() > 0")

        # One of them always waits, so that the connection is never idle.
        started = time.monotonic()
        in_threads(4, work)
        assert time.monotonic() - started < 20


def test_the_limit_of_a_user_holds_over_databases_of_several_workers(with_many_users):
    with of_users(with_many_users, max_user_connections=1, workers=2) as pooler:
        with pooler.connect("postgres", USERS[0]) as one, pooler.connect("other", USERS[0]) as two:
            for _ in range(3):
                assert ask(one, "SELECT 1") == [(1,)]
                assert ask(two, "SELECT 2") == [(2,)]
                assert len(pooler.show("SERVERS")) <= 1
        assert "(max_user_connections)" in pooler.log.read_text()


TRANSACTION = "BEGIN; SELECT 1; COMMIT"
DONE = "C:BEGIN T D:1 C:SELECT 1 C:COMMIT Z:I"

# A server process outlives its connection by a moment, so those that do nothing do not count.
IN_USE = (
    f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{USERS[0]}' "
    "AND (state = 'active' AND query LIKE '%pg_sleep%' OR application_name = 'howdah listen')"
)


def in_use(eye):
    """How many connections are in use: of two looks the lesser, since a look is not at one moment of all."""
    return min(int(eye.value(IN_USE)) for _ in range(2))


@contextlib.contextmanager
def busy(pooler, count, database, user, seconds=0.01):
    """Clients who never pause between their transactions, which take so many seconds; gives a list of their ends."""
    done, ends = threading.Event(), []

    def work():
        with Raw(pooler.port, database, user=user) as client:
            while not done.is_set():
                assert client.sql(f"BEGIN; SELECT pg_sleep({seconds}); COMMIT").endswith("C:COMMIT Z:I")
                ends.append(time.monotonic())

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.5)
        yield ends
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("holds", ["CREATE TEMP TABLE held()", "BEGIN"])
@pytest.mark.parametrize("setting", ["max_db_connections", "max_user_connections"])
def test_a_connection_that_is_held_keeps_no_other_pool_waiting(with_many_users, holds, setting):
    # Pools of two users in a database, or of one user in two databases.
    own, other = ("postgres", USERS[0]), ("postgres", USERS[1])
    if setting == "max_user_connections":
        other = ("other", USERS[0])
    with of_users(with_many_users, workers=1, query_wait_timeout=10, **{setting: 3}) as pooler:
        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(Raw(pooler.port, own[0], user=own[1]))
            holder.sql(holds)
            stack.enter_context(busy(pooler, 6, *own))
            late = stack.enter_context(Raw(pooler.port, other[0], user=other[1]))
            for _ in range(2):
                started = time.monotonic()
                assert late.sql(TRANSACTION) == DONE
                assert time.monotonic() - started < 5
            # What is marked to be closed, and kept, is no reason to wait either.
            pooler.psql("RECONNECT", "pgbouncer")
            time.sleep(0.3)
            started = time.monotonic()
            assert late.sql(TRANSACTION) == DONE
            assert time.monotonic() - started < 5
            assert len(pooler.show("SERVERS")) <= 3
            holder.sql("SELECT 1")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pool_is_served_though_both_its_limits_are_reached(with_many_users, workers):
    limits = {"max_db_connections": 1, "max_user_connections": 1}
    with of_users(with_many_users, workers=workers, query_wait_timeout=10, **limits) as pooler:
        with contextlib.ExitStack() as stack:
            stack.enter_context(busy(pooler, 3, "postgres", USERS[1]))
            stack.enter_context(busy(pooler, 3, "other", USERS[0]))
            late = stack.enter_context(Raw(pooler.port, "postgres", user=USERS[0]))
            for _ in range(3):
                started = time.monotonic()
                assert late.sql(TRANSACTION) == DONE
                assert time.monotonic() - started < 5
                users = [row["user"] for row in pooler.show("SERVERS")]
                assert len(users) == len(set(users)) <= 2


def test_a_pool_keeps_no_place_for_long_for_a_limit_that_never_leaves_room(with_many_users):
    limits = {"max_db_connections": 1, "max_user_connections": 1}
    with of_users(with_many_users, workers=1, query_wait_timeout=10, **limits) as pooler:
        with contextlib.ExitStack() as stack:
            late = stack.enter_context(Raw(pooler.port, "postgres", user=USERS[0]))
            holder = stack.enter_context(Raw(pooler.port, "other", user=USERS[0]))
            holder.sql("BEGIN")
            other = stack.enter_context(Raw(pooler.port, "postgres", user=USERS[1]))
            late.send(query(TRANSACTION))
            until = time.monotonic() + 5
            worst = 0
            while (started := time.monotonic()) < until:
                assert other.sql(TRANSACTION) == DONE
                worst = max(worst, time.monotonic() - started)
            assert worst < 1.5
            holder.sql("COMMIT")
            assert raw.show(late.until(b"Z")) == DONE


def test_clients_that_cannot_be_served_leave_most_of_a_limit_to_others(with_many_users):
    """Each waits for a place under two limits, of which its user's is held by a transaction, gives up and tries again."""
    databases = {"postgres": ""} | {f"other{number}": "dbname=postgres" for number in range(4)}
    limits = {"max_db_connections": 1, "max_user_connections": 1, "query_wait_timeout": 1.6}
    with Pooler(with_many_users, databases, workers=1, **limits) as pooler, contextlib.ExitStack() as stack:
        late = [stack.enter_context(Raw(pooler.port, "postgres", user=user)) for user in USERS[:4]]
        for number, user in enumerate(USERS[:4]):
            stack.enter_context(Raw(pooler.port, f"other{number}", user=user)).sql("BEGIN")
        ends = stack.enter_context(busy(pooler, 2, "postgres", USERS[4]))
        for client in late:
            client.send(*[query(TRANSACTION)] * 5)
        begun = time.monotonic()
        for client in late:
            for _ in range(5):
                assert raw.show(client.until(b"Z")) == "E:53300 Z:I"
        took = time.monotonic() - begun
        gaps = [
            later - earlier for earlier, later in itertools.pairwise([begun, *(end for end in ends if end > begun)])
        ]
        # A third of the time by the rule; the rest is for a busy machine.
        assert sum(gap for gap in gaps if gap > 0.2) < 0.6 * took


@pytest.mark.parametrize("seconds", [1.7, 2.2])
def test_a_pool_of_long_statements_gives_up_the_connection_that_becomes_free(with_many_users, seconds):
    with of_users(with_many_users, workers=1, query_wait_timeout=20, max_db_connections=1) as pooler:
        late = Raw(pooler.port, user=USERS[0])
        with late, busy(pooler, 3, "postgres", USERS[1], seconds):
            started = time.monotonic()
            assert late.sql(TRANSACTION) == DONE
            assert time.monotonic() - started < 4 * seconds


def test_a_pool_whose_last_login_has_failed_is_served_again(with_many_users):
    limits = {"max_db_connections": 1, "query_wait_timeout": 10, "server_login_retry": 0.5}
    with of_users(with_many_users, workers=1, **limits) as pooler, direct(with_many_users) as eye:
        with Raw(pooler.port, user=USERS[0]) as late:
            late.sql("SELECT 1")
            eye.sql(f"ALTER ROLE {USERS[0]} NOLOGIN")
            try:
                pooler.psql("RECONNECT", "pgbouncer")
                wait_until(lambda: not pooler.show("SERVERS"))
                assert late.sql("SELECT 1") == "E:28000 Z:I"
            finally:
                eye.sql(f"ALTER ROLE {USERS[0]} LOGIN")
            time.sleep(1)
            with busy(pooler, 3, "postgres", USERS[1]):
                assert late.sql(TRANSACTION) == DONE


def test_a_pool_whose_connection_is_held_gets_another(with_many_users):
    with of_users(with_many_users, workers=1, query_wait_timeout=10, max_db_connections=2) as pooler:
        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(Raw(pooler.port, user=USERS[0]))
            holder.sql("BEGIN")
            stack.enter_context(busy(pooler, 3, "postgres", USERS[1]))
            late = stack.enter_context(Raw(pooler.port, user=USERS[0]))
            for _ in range(3):
                started = time.monotonic()
                assert late.sql(TRANSACTION) == DONE
                assert time.monotonic() - started < 5


def test_a_server_that_checks_its_connections_ends_the_statements_of_clients_that_have_left(with_many_users):
    entry = "connect_query='SET client_connection_check_interval = 100'"
    left = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(78)' AND state = 'active'"
    with Pooler(with_many_users, {"postgres": entry}, default_pool_size=1) as pooler, direct(with_many_users) as eye:
        for _ in range(3):
            with Raw(pooler.port, user=USERS[0]) as client:
                client.send(query("SELECT pg_sleep(78)"))
                wait_until(lambda: int(eye.value(left)) > 0)
        wait_until(lambda: eye.value(left) == "0")


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


def test_workers_that_open_at_once_keep_within_the_limit_of_a_user(with_many_users):
    names = [f"twin_{number}" for number in range(4)]
    databases = dict.fromkeys(names, "dbname=postgres")
    with (
        Pooler(with_many_users, databases, workers=4, max_user_connections=2) as pooler,
        direct(with_many_users) as eye,
    ):
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Raw(pooler.port, name, user=USERS[0])) for name in names for _ in range(2)]
            most = 0
            for _ in range(20):
                pooler.psql("RECONNECT", "pgbouncer")
                wait_until(lambda: pooler.show("SERVERS") == [])
                with pooler.frozen():
                    for client in clients:
                        client.send(query("SELECT pg_sleep(0.03)"))
                until = time.monotonic() + 0.15
                while time.monotonic() < until:
                    most = max(most, in_use(eye))
                for client in clients:
                    client.until(b"Z")
            assert most == 2


def test_a_busy_connection_of_another_worker_goes_for_a_client_that_starves(with_many_users):
    with of_users(with_many_users, workers=2, query_wait_timeout=10, max_user_connections=1) as pooler:
        with contextlib.ExitStack() as stack:
            stack.enter_context(busy(pooler, 3, "postgres", USERS[0]))
            late = stack.enter_context(Raw(pooler.port, "other", user=USERS[0]))
            for _ in range(2):
                assert late.sql(TRANSACTION) == DONE


@pytest.mark.parametrize("listen", [True, False])
def test_a_limit_of_a_reload_holds_for_all_workers(with_many_users, listen):
    settings = {"workers": 4, "database_workers": 4, "default_pool_size": 8}
    with of_users(with_many_users, **settings) as pooler, direct(with_many_users) as eye:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Raw(pooler.port, user=USERS[0])) for _ in range(16)]
            for client in clients if listen else clients[:2]:
                assert client.sql("LISTEN c" if listen else "CREATE TEMP TABLE held()").endswith("Z:I")
            pooler.reload(max_db_connections=3)
            # Clients are closed whose connection for LISTEN leaves no room for one that serves clients.
            wait_until(lambda: int(eye.value(f"{IN_USE} AND application_name = 'howdah listen'")) <= 2)
            time.sleep(0.3)
            left = [client for client in clients if not client.waiting(0)]
            assert len(left) in ((8,) if listen else (16,))
            for client in left:
                client.send(query("BEGIN; SELECT pg_sleep(0.1); COMMIT"))
            most, until = 0, time.monotonic() + 1
            while time.monotonic() < until:
                most = max(most, in_use(eye))
            assert most <= 3
            for client in left:
                assert raw.show(client.until(b"Z")) == DONE.replace("D:1", "D:")


def test_clients_of_a_given_user_share_that_users_pool(with_users):
    databases = {"given": f"dbname=postgres user=scram_user password='{PASSWORD}'", "postgres": ""}
    host = f"host=127.0.0.1 port={with_users.port}"
    with Pooler(with_users, databases, default_pool_size=3) as pooler:
        text = pooler.path.read_text().replace(f"host={with_users.socket_folder} port={with_users.port}", host)
        pooler.path.write_text(
            text.replace("[pgbouncer]", "[users]\nscram_user = pool_size=2\nsomebody = pool_size=1\n[pgbouncer]")
        )
        pooler.psql("RELOAD", "pgbouncer")
        with contextlib.ExitStack() as stack:
            names = ("somebody", "someone", "anybody")
            clients = [stack.enter_context(pooler.connect("given", name)) for name in names]
            for client in clients:
                assert ask(client, "SELECT current_user") == [("scram_user",)]
            # Two of them have the two connections that scram_user may have: the third waits.
            for client in clients[:2]:
                ask(client, "BEGIN")
                ask(client, "SELECT 1")
            waiting = stack.enter_context(Raw(pooler.port, "given", user="nobody"))
            waiting.send(query("SELECT 1"))
            wait_until(lambda: pools(pooler)["scram_user"]["cl_waiting"] == "1")
            assert {row["user"] for row in pooler.show("SERVERS") if row["database"] == "given"} == {"scram_user"}
            assert pools(pooler).keys() == {"scram_user"} and pools(pooler)["scram_user"]["sv_active"] == "2"
            ask(clients[0], "COMMIT")
            assert raw.values(waiting.until(b"Z")) == ["1"]
            ask(clients[1], "COMMIT")
            # Clients that were let in to be scram_user are not kept when that is over.
            pooler.path.write_text(pooler.path.read_text().replace(" user=scram_user", ""))
            pooler.psql("RELOAD", "pgbouncer")
            kind, body = waiting.next()
            assert kind == b"E" and b'the entry of database "given" no longer names user "scram_user"' in body


@pytest.mark.parametrize("before", [" user=limited_2", ""])
def test_clients_go_to_the_pool_of_the_user_that_a_reload_gives(with_many_users, before):
    databases = {"given": f"dbname=postgres{before}"}
    with Pooler(with_many_users, databases, default_pool_size=2, max_user_connections=3) as pooler:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Raw(pooler.port, "given", user=USERS[0])) for _ in range(4)]
            clients[0].sql("BEGIN")
            clients[1].ask(raw.parse("kept", "SELECT current_user"), raw.SYNC)
            pooler.databases = {"given": "dbname=postgres user=limited_3"}
            pooler.reload()
            # A transaction ends where it began.
            assert clients[0].value("SELECT current_user") == (USERS[2] if before else USERS[0])
            assert clients[0].sql("COMMIT") == "C:COMMIT Z:I"
            wait_until(lambda: not pooler.show("SERVERS"))
            for client in clients:
                assert client.value("SELECT current_user") == USERS[3]
            assert clients[1].ask(raw.bind("kept"), raw.EXECUTE, raw.SYNC).startswith(f"2 D:{USERS[3]}")
            new = stack.enter_context(Raw(pooler.port, "given", user=USERS[0]))
            for client in [*clients, new]:
                client.send(query("BEGIN; SELECT pg_sleep(0.1); COMMIT"))
            (row,) = [row for row in pooler.show("POOLS") if row["database"] == "given" and row["cl_active"] != "0"]
            assert row["user"] == USERS[3]
            for client in [*clients, new]:
                client.until(b"Z")
            assert {row["user"] for row in pooler.show("SERVERS")} == {USERS[3]}
            assert len(pooler.show("SERVERS")) <= 2


def test_the_pool_of_a_former_user_ends(with_many_users):
    filled = "dbname=postgres min_pool_size=2 user="
    with Pooler(with_many_users, {"given": filled + USERS[2]}, max_db_connections=3) as pooler:
        wait_until(lambda: len(pooler.show("SERVERS")) == 2)
        with Raw(pooler.port, "given", user=USERS[0]) as client:
            assert client.sql("BEGIN") == "C:BEGIN Z:T"
            pooler.databases = {"given": filled + USERS[3]}
            pooler.reload()
            wait_until(lambda: pools(pooler).keys() == {USERS[2], USERS[3]})
            wait_until(lambda: len(pooler.show("SERVERS")) == 3)
            assert client.sql("COMMIT") == "C:COMMIT Z:I"
            assert client.value("SELECT current_user") == USERS[3]
            wait_until(lambda: pools(pooler).keys() == {USERS[3]})
            wait_until(lambda: [row["user"] for row in pooler.show("SERVERS")] == [USERS[3]] * 2)


@pytest.mark.parametrize("boss_first", [False, True])
def test_only_the_user_stays_in_the_pool_that_an_entry_gave(with_many_users, boss_first):
    """Clients of other names are let go when the entry names no user; the user's own are not."""
    other, boss = USERS[0], USERS[2]
    with Pooler(with_many_users, {"given": "dbname=postgres"}) as pooler, contextlib.ExitStack() as stack:
        if boss_first:
            early = stack.enter_context(Raw(pooler.port, "given", user=boss))
            assert early.value("SELECT current_user") == boss
        pooler.databases = {"given": f"dbname=postgres user={boss}"}
        pooler.reload()
        one, busy = (stack.enter_context(Raw(pooler.port, "given", user=other)) for _ in range(2))
        assert one.value("SELECT current_user") == boss
        assert busy.sql("BEGIN") == "C:BEGIN Z:T"
        pooler.databases = {"given": "dbname=postgres"}
        pooler.reload()
        assert b"no longer names user" in one.until(b"E")[-1][1]
        late = stack.enter_context(Raw(pooler.port, "given", user=boss))
        time.sleep(2.5)  # more than a round of upkeep, in which nothing happens
        assert late.value("SELECT current_user") == boss
        assert busy.sql("COMMIT") == "C:COMMIT Z:I"
        assert b"no longer names user" in busy.until(b"E")[-1][1]
        if boss_first:
            assert early.value("SELECT current_user") == boss
        assert stack.enter_context(Raw(pooler.port, "given", user=other)).value("SELECT current_user") == other


def test_a_client_that_waits_goes_to_the_pool_of_the_user_that_a_reload_gives(with_many_users):
    former, present = USERS[2], USERS[3]
    settings = {"default_pool_size": 5, "max_user_connections": 1}
    with Pooler(with_many_users, {"given": f"dbname=postgres user={former}"}, **settings) as pooler:
        with contextlib.ExitStack() as stack:
            first, second = (stack.enter_context(Raw(pooler.port, "given", user=USERS[0])) for _ in range(2))
            first.sql("BEGIN")
            second.send(query("BEGIN"), query("SELECT current_user"))
            wait_until(lambda: pools(pooler)[former]["cl_waiting"] == "1")
            pooler.databases = {"given": f"dbname=postgres user={present}"}
            pooler.reload()
            second.until(b"Z")
            assert raw.values(second.until(b"Z")) == [present]
            assert first.value("SELECT current_user") == former, "its transaction is not over"
            third = stack.enter_context(Raw(pooler.port, "given", user=USERS[0]))
            third.send(query("SELECT current_user"))
            wait_until(lambda: pools(pooler)[present]["cl_waiting"] == "1")
            users = [row["user"] for row in pooler.show("SERVERS") if row["database"] == "given"]
            assert sorted(users) == [former, present]
            second.sql("COMMIT")
            assert raw.values(third.until(b"Z")) == [present]


def test_a_client_that_changes_pool_at_a_reload_waits_no_longer_than_it_may(with_many_users):
    settings = {"max_db_connections": 1, "query_wait_timeout": 4}
    with Pooler(with_many_users, {"given": f"dbname=postgres user={USERS[2]}"}, **settings) as pooler:
        with Raw(pooler.port, "given", user=USERS[0]) as first, Raw(pooler.port, "given", user=USERS[0]) as second:
            first.sql("BEGIN")
            begin = time.monotonic()
            second.send(query("SELECT 1"))
            time.sleep(2)
            pooler.databases = {"given": f"dbname=postgres user={USERS[3]}"}
            pooler.reload()
            wait_until(lambda: pools(pooler)[USERS[3]]["cl_waiting"] == "1")
            assert raw.show(second.until(b"E")) == "E:53300"
            assert time.monotonic() - begin < 5.5


@pytest.mark.parametrize("more", [(), (raw.parse("", "SELECT 3"),)], ids=["lost", "kept"])
def test_what_stands_behind_the_sync_of_an_implicit_block_is_the_new_users(with_many_users, more):
    """A Query behind an Execute without a Sync: PostgreSQL 18 opens a block, which the Sync ends."""
    who = query("SELECT current_user FOR UPDATE")
    with Pooler(with_many_users, {"given": f"dbname=postgres user={USERS[2]}"}) as pooler:
        with Raw(pooler.port, "given", user=USERS[0]) as client:
            client.send(raw.parse("", "SELECT 1"), raw.bind(""), raw.EXECUTE, query("SELECT 2"))
            client.until(b"Z")
            pooler.databases = {"given": f"dbname=postgres user={USERS[3]}"}
            pooler.reload()
            time.sleep(1.5)
            client.send(*more, raw.SYNC, who, who, who)
            assert USERS[2] not in client.ask(units=4)


@pytest.mark.parametrize("changes", [False, True])
def test_the_last_unit_of_a_client_that_leaves_is_run_behind_a_reload(with_many_users, changes):
    with_many_users.psql("DROP TABLE IF EXISTS kept; CREATE TABLE kept (number int); GRANT ALL ON kept TO public")
    users = [USERS[2], USERS[3] if changes else USERS[2]]
    # On the one worker the other client has made sure that there is a connection: who hangs up does not wait for one.
    with Pooler(with_many_users, {"given": f"dbname=postgres user={users[0]}"}, workers=1) as pooler:
        with Raw(pooler.port, "given") as client, Raw(pooler.port, "given") as other:
            client.sql("SELECT 1")
            pooler.databases = {"given": f"dbname=postgres user={users[1]}"}
            pooler.reload()
            wait_until(lambda: other.value("SELECT current_user FOR UPDATE") == users[1])
            with pooler.frozen():
                client.send(query("INSERT INTO kept VALUES (1)"), raw.message(b"X"))
                client.socket.close()
            with direct(with_many_users) as eye:
                wait_until(lambda: eye.value("SELECT count(*) FROM kept") == "1")


@pytest.mark.parametrize("after", [" user=limited_3", ""])
@pytest.mark.parametrize("statement", ["SELECT current_user", "SELECT current_user FOR UPDATE", "BEGIN"])
def test_a_client_that_is_never_at_rest_leaves_the_pool_of_a_former_user(with_many_users, statement, after):
    """It sends the next statement before the last is answered, or begins the next transaction at once."""
    with Pooler(with_many_users, {"given": f"dbname=postgres user={USERS[2]}"}) as pooler:
        with Raw(pooler.port, "given", user=USERS[0]) as client:
            told = set()

            def talk():
                with contextlib.suppress(OSError, AssertionError):
                    client.send(*[query(statement)] * 3)
                    for _ in range(100_000):
                        client.send(query("SELECT current_user"), query("COMMIT"), query(statement))
                        for _ in range(3):
                            told.add(raw.show(client.until(b"Z")))

            thread = threading.Thread(target=talk)
            thread.start()
            try:
                wait_until(lambda: any(USERS[2] in said for said in list(told)))
                pooler.databases = {"given": f"dbname=postgres{after}"}
                pooler.reload()
                if after:
                    wait_until(lambda: any(USERS[3] in said for said in list(told)))
                else:
                    thread.join(5)
                    assert not thread.is_alive()
            finally:
                client.socket.shutdown(socket.SHUT_RDWR)
                thread.join()


def test_a_client_that_reads_slowly_leaves_the_pool_of_a_former_user(with_many_users):
    statement = query("SELECT current_user, repeat('x', 100000)")
    with Pooler(with_many_users, {"given": f"dbname=postgres user={USERS[2]}"}, workers=1) as pooler:
        with Raw(pooler.port, "given", user=USERS[0]) as client:
            client.send(*[statement] * 150)
            time.sleep(1)
            pooler.databases = {"given": f"dbname=postgres user={USERS[3]}"}
            pooler.reload()
            time.sleep(1.5)
            client.send(*[statement] * 20)
            users = []
            for _ in range(170):
                time.sleep(0.002)
                users += [body[6 : 6 + len(USERS[2])].decode() for kind, body in client.until(b"Z") if kind == b"D"]
            assert (len(users), set(users[150:])) == (170, {USERS[3]})


def test_waits_for_one_limit_keep_no_place_under_another(with_many_users):
    names = "abcd"
    databases = dict.fromkeys(names, "dbname=postgres max_db_connections=1") | {"e": "dbname=postgres"}
    limits = {"max_user_connections": 4, "query_wait_timeout": 8, "server_idle_timeout": 0.5}
    with Pooler(with_many_users, databases, workers=1, **limits) as pooler, contextlib.ExitStack() as stack:
        late = [stack.enter_context(Raw(pooler.port, name, user=USERS[0])) for name in ("e", *names)]
        for name in names:
            assert stack.enter_context(Raw(pooler.port, name, user=USERS[1])).sql("BEGIN") == "C:BEGIN Z:T"
        wait_until(lambda: all(row["user"] == USERS[1] for row in pooler.show("SERVERS")))
        for client in late[1:]:
            client.send(query("SELECT 1"))
        time.sleep(2.5)
        started = time.monotonic()
        assert late[0].sql(TRANSACTION) == DONE
        assert time.monotonic() - started < 2


def pools(pooler):
    """The pools of the database `given`, by user."""
    return {row["user"]: row for row in pooler.show("POOLS") if row["database"] == "given"}
