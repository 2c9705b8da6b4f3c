"""A database on a primary and two streaming replicas, through everything that befalls servers.

What must hold in each test under load, and is counted in `flawless`: of the writes that clients were told are done none
is lost, and none is done twice; no client loses its connection unless it was in a transaction on the server that died;
no write reaches a server in recovery, by that server's own log.
"""

import contextlib
import re
import time

import pytest

from devkit import Problem, postgres
from devkit.server import Server
from tests.pooler.load import LEDGER, WHO, Load
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query, values
from tests.pooler.trio import LOGGING, Trio, silent, three

# What a client may be told of a write that was under way when its server died, or found none.
HONEST = {"08006", "57P01", "57P02", "57P03", "08001", "53300"}
FAST = "healthcheck_interval = 0.2\nban_time = 1"


@pytest.fixture(scope="module")
def shared(steady_trio):
    """The servers with a ledger, and a function that writes and says that it does not."""
    steady_trio.primary.psql(f"""{LEDGER};
        CREATE FUNCTION write(int) RETURNS int LANGUAGE sql AS 'INSERT INTO ledger VALUES (-1, $1) RETURNING n';
        CREATE FUNCTION lie(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN write($1); END';""")
    yield steady_trio
    steady_trio.primary.psql("DROP FUNCTION lie, write; DROP TABLE ledger")
    steady_trio.catch_up()


@pytest.fixture
def calm(shared):
    """The same, with all of them up and the ledger empty."""
    for server in shared.servers:
        wait_until(server.answers)
    shared.primary.psql("TRUNCATE ledger")
    shared.catch_up()
    return shared


@contextlib.contextmanager
def pooled(trio, pooler="", app=FAST, **options):
    """A pooler in transaction mode that has found all servers, and what statements are."""
    settings = f'pool_mode = "transaction"\ndefault_pool_size = 8\nserver_login_retry = 0.2\n{pooler}'
    with Pooler(trio.primary, name="howdah.toml", text=trio.toml(settings, app, **options)) as running:
        listed = len(options.get("servers") or trio.servers)
        wait_until(lambda: sorted(roles(running)) == ["primary", *["replica"] * (listed - 1)])
        wait_until(lambda: reads_go_to(running, 8) & ports(*trio.replicas))
        trio.begin()
        yield running


def roles(pooler):
    """What each server is taken for, in the order of the configuration."""
    return [row["role"] for row in pooler.show("REPLICAS")]


def place(pooler, server):
    """The row of one server."""
    return next(row for row in pooler.show("REPLICAS") if row["port"] == str(server.port))


def reads_go_to(pooler, count=24):
    """The ports of the servers that answer so many reads."""
    with Raw(pooler.port, "app") as client:
        found = []
        for _ in range(count):
            client.send(query(WHO))
            found += values(client.until(b"Z"))
        return {int(port) for port in found}


def ports(*servers):
    """The servers' ports."""
    return {server.port for server in servers}


def flawless(trio, load, primary):
    """What must hold of every load, whatever has happened to the servers."""
    assert load.broken == []
    assert load.acked, "nothing was written at all"
    assert load.reads, "nothing was read at all"
    assert load.lost(primary) == set(), "acknowledged writes are lost"
    assert load.doubled(primary) == set(), "writes are done twice"
    assert load.dropped == [], "clients outside transactions were dropped"
    assert load.refused == [], "clients were not let in"
    assert set(load.codes()) - HONEST - {"25P02"} == set(), load.codes()
    for server in trio.servers:
        assert trio.writes_on_standby(server) == [], "writes reached a standby"


def test_the_account_notices_what_must_not_be(calm):
    with pooled(calm) as pooler, Load(pooler, readers=2) as load:
        wait_until(lambda: len(load.acked) > 50 and load.reads)
        load.stop()
    flawless(calm, load, calm.primary)
    _, client, n = load.acked[0]
    calm.primary.psql(f"DELETE FROM ledger WHERE client = {client} AND n = {n}")
    assert load.lost(calm.primary) == {(client, n)}
    _, client, n = load.acked[1]
    calm.primary.psql(f"INSERT INTO ledger VALUES ({client}, {n})")
    assert load.doubled(calm.primary) == {(client, n)}
    with pytest.raises(Problem, match="read-only transaction"):
        calm.replicas[0].psql("INSERT INTO ledger VALUES (1, 1)")
    statement, refusal = calm.writes_on_standby(calm.replicas[0])
    assert statement.startswith("INSERT") and "cannot execute INSERT" in refusal


# Where statements go


def test_reads_go_to_replicas_and_writes_to_the_primary(calm):
    with pooled(calm) as pooler, Load(pooler) as load:
        time.sleep(1.5)
        load.stop()
        flawless(calm, load, calm.primary)
        assert not load.codes() and not load.codes("read") and not load.dropped_in_transaction
        assert set(load.served()) == ports(*calm.replicas), "reads are spread over the replicas, and on them only"
        assert min(load.served().values()) > 0.3 * sum(load.served().values())
        assert not [statement for statement in calm.statements(calm.primary) if statement == WHO]


@pytest.mark.parametrize("primary_reads", ["on", "off", "fallback"])
def test_the_primary_is_read_as_configured(calm, primary_reads):
    replicas = ports(*calm.replicas)
    with pooled(calm, pooler="query_wait_timeout = 1", app=f'{FAST}\nprimary_reads = "{primary_reads}"') as pooler:
        assert reads_go_to(pooler, 60) == (replicas | ports(calm.primary) if primary_reads == "on" else replicas)
        for replica in calm.replicas:
            pooler.psql(f"BAN {replica.socket_folder}:{replica.port} 60", "pgcat")
        if primary_reads == "off":
            with Raw(pooler.port, "app") as client:
                client.send(query(WHO))
                assert [kind for kind, _ in client.until(b"Z")] == [b"E", b"Z"], "told so, and not closed"
                assert client.kinds(query("INSERT INTO ledger VALUES (1, 1)")) == "CZ"
        else:
            assert reads_go_to(pooler) == ports(calm.primary)
        for replica in calm.replicas:
            pooler.psql(f"UNBAN {replica.socket_folder}:{replica.port}", "pgcat")
        assert reads_go_to(pooler, 60) >= replicas


def test_a_write_that_looks_like_a_read_is_done_on_the_primary_once(calm):
    with pooled(calm) as pooler, Raw(pooler.port, "app") as client:
        for n in range(20):
            client.send(query(f"SELECT lie({n})"))
            assert values(client.until(b"Z")) == [str(n)]
        client.send(parse("", "SELECT lie(20)"), bind(""), EXECUTE, SYNC)
        assert values(client.until(b"Z")) == ["20"]
        counted = calm.primary.psql("SELECT count(*), count(DISTINCT n) FROM ledger WHERE client = -1")
        assert counted == "21|21"
        refused = [len(calm.writes_on_standby(replica)) for replica in calm.replicas]
        assert sum(refused) > 0, "none met a replica: nothing was tried"


# Servers that die


def test_each_server_is_stopped_killed_and_started_again_under_load(calm):
    with pooled(calm) as pooler, Load(pooler) as load:
        for server in calm.servers:
            for end in (calm.stop, calm.kill):
                time.sleep(0.5)
                end(server)
                wait_until(lambda server=server: place(pooler, server)["role"] == "down")
                gone = time.monotonic()
                time.sleep(0.5)
                assert server.port not in load.served(gone), "it is dead"
                assert load.served(gone), "others serve reads meanwhile"
                back = time.monotonic()
                calm.start(server)
                if server is calm.primary:
                    wait_until(lambda back=back: load.first_ack_after(back))
                else:
                    wait_until(lambda back=back, server=server: load.served(back)[server.port])
        load.stop()
        flawless(calm, load, calm.primary)
        assert not load.codes("read"), "each read was asked again elsewhere"


# Promotion


@pytest.fixture
def synchronous(major):
    """Three servers; a write is acknowledged when both replicas have it, so that either may be promoted."""
    settings = {**LOGGING, "synchronous_standby_names": "2 (*)"}
    with three(major, settings, {"synchronous_standby_names": ""}) as trio:
        trio.primary.psql(LEDGER)
        trio.catch_up()
        yield trio


def furthest_first(replicas):
    """Replicas by how much they have received: the first may be promoted, and the others can follow it."""
    return sorted(
        replicas, key=lambda replica: int(replica.psql("SELECT pg_last_wal_receive_lsn() - '0/0'")), reverse=True
    )


SENDER = "SELECT sender_port FROM pg_stat_wal_receiver WHERE status = 'streaming'"


def follow(standby, primary):
    """Makes a standby follow another server."""
    standby.psql(
        f"ALTER SYSTEM SET primary_conninfo = 'host={primary.socket_folder} port={primary.port} user=postgres';"
        "ALTER SYSTEM SET primary_slot_name = ''"
    )
    standby.psql("SELECT pg_reload_conf()")


@pytest.mark.parametrize("old", ["killed", "alive", "cut off"])
def test_a_replica_is_promoted_under_load(synchronous, old):
    primary, (one, two) = synchronous.primary, synchronous.replicas
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(pooled(synchronous, app=f"{FAST}\nhealthcheck_timeout = 0.5"))
        load = stack.enter_context(Load(pooler))
        away = stack.enter_context(contextlib.ExitStack())
        wait_until(lambda: len(load.acked) > 50)
        if old == "alive":
            # What the old primary writes from now on, and nobody is told is done, must not reach it.
            follow(two, one)
            # A standby that has more than the server it follows cannot follow it through a promotion.
            wait_until(lambda: two.psql(SENDER) == str(one.port))
        else:
            if old == "killed":
                synchronous.kill(primary)
            else:
                away.enter_context(silent(primary))
                wait_until(lambda: place(pooler, primary)["role"] == "down")
            one, two = furthest_first(synchronous.replicas)
        one.psql("SELECT pg_promote(false)")
        wait_until(lambda: one.psql("SELECT pg_is_in_recovery()") == "f")
        promoted = time.monotonic()
        wait_until(lambda: place(pooler, one)["role"] == "primary")
        assert time.monotonic() - promoted < 2
        wait_until(lambda: load.first_ack_after(promoted))
        if old == "alive":
            assert place(pooler, primary)["role"] == "stale primary"
            # Whoever waits there for replicas that have gone is told when it ends.
            synchronous.kill(primary)
        else:
            follow(two, one)
            # Nor may the old primary, once it goes on, send it more than the new one has.
            wait_until(lambda: two.psql(SENDER) == str(one.port))
        away.close()
        if old != "cut off":
            synchronous.start(primary)
        wait_until(lambda: place(pooler, primary)["role"] == "stale primary")
        wait_until(lambda: place(pooler, two)["reads"] == "1")
        back = time.monotonic()
        wait_until(lambda: load.served(back)[two.port] > 50)
        load.stop()
        flawless(synchronous, load, one)
        assert not load.codes("read")
        assert primary.port not in load.served(back)
        one.wait_for_replay(two)
        assert load.lost(two) == set()
        if old != "cut off":
            begun = [life for life, _ in synchronous.lives(primary)][-1]
            assert "INSERT" not in begun and WHO not in begun, "the old primary is neither written to nor read"


def test_a_replica_that_says_nothing_is_left_and_comes_back(calm):
    one, two = calm.replicas
    with pooled(calm, app=f"{FAST}\nhealthcheck_timeout = 0.5") as pooler, Load(pooler) as load:
        wait_until(lambda: load.served()[one.port] > 20)
        with silent(one):
            wait_until(lambda: place(pooler, one)["role"] == "down")
            assert place(pooler, one)["error"] == "no answer in time"
            down = time.monotonic()
            wait_until(lambda: load.served(down)[two.port] > 50)
            assert one.port not in load.served(down)
        back = time.monotonic()
        wait_until(lambda: load.served(back)[one.port])
        load.stop()
        flawless(calm, load, calm.primary)
        assert not load.codes() and not load.codes("read") and not load.dropped_in_transaction


# Pools and reloads


def test_servers_are_added_and_removed_under_load(calm):
    one, two = calm.replicas
    settings = 'pool_mode = "transaction"\ndefault_pool_size = 8'
    with pooled(calm) as pooler, Load(pooler) as load:
        for listed in ([calm.primary, one], [two, calm.primary], [calm.primary], [calm.primary, two, one]):
            pooler.text = calm.toml(settings, FAST, servers=listed)
            pooler.reload()
            wait_until(lambda listed=listed: sorted(roles(pooler)) == ["primary", *["replica"] * (len(listed) - 1)])
            # What was under way there has ended by then.
            time.sleep(0.3)
            since = time.monotonic()
            expected = ports(*[server for server in listed if server is not calm.primary]) or ports(calm.primary)
            wait_until(lambda since=since, expected=expected: set(load.served(since)) >= expected)
            assert set(load.served(since)) == expected
        load.stop()
        flawless(calm, load, calm.primary)
        assert not load.codes() and not load.codes("read") and not load.dropped_in_transaction


# What the monitor finds out about servers, and what the console tells of it


@contextlib.contextmanager
def watched(trio, **options):
    """A pooler in front of the three, which it knows."""
    with Pooler(trio.primary, name="howdah.toml", text=trio.toml(**options)) as pooler:
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
        yield pooler


def seconds_until(true, limit=10):
    """How long it takes until `true()` is."""
    started = time.monotonic()
    wait_until(true, limit)
    return time.monotonic() - started


def test_roles_are_found_and_shown(steady_trio):
    with watched(steady_trio, roles=("auto", "primary", "auto")) as pooler:
        # The second is configured as the primary, but says that it is none.
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
        rows = pooler.show("REPLICAS")
        assert [(row["reads"], row["writes"]) for row in rows] == [("0", "1"), ("1", "0"), ("1", "0")]
        assert [row["configured"] for row in rows] == ["auto", "primary", "auto"]
        assert {row["timeline"] for row in rows} == {"1"}
        system = steady_trio.primary.psql("SELECT system_identifier FROM pg_control_system()")
        assert {row["system_identifier"] for row in rows} == {system}
        assert all(int(row["answered_ms_ago"]) < 2000 and row["error"] == "" for row in rows)
        assert [row["database"] for row in rows] == ["app"] * 3


def test_a_promotion_is_noticed_within_two_seconds_and_the_old_primary_is_left_alone(trio):
    one, two = trio.replicas
    with watched(trio) as pooler:
        port = trio.primary.port
        trio.primary.stop("immediate")
        wait_until(lambda: roles(pooler)[0] == "down")
        one.psql("SELECT pg_promote(false)")
        wait_until(lambda: one.psql("SELECT pg_is_in_recovery()") == "f")
        assert seconds_until(lambda: roles(pooler)[1] == "primary") < 2
        assert place(pooler, one)["timeline"] == "2", "known before the checkpoint that ends the recovery"
        trio.primary.start(port=port)
        wait_until(lambda: roles(pooler)[0] == "stale primary")
        assert (place(pooler, trio.primary)["reads"], place(pooler, trio.primary)["writes"]) == ("0", "0")
        one.stop("immediate")
        wait_until(lambda: roles(pooler)[1] == "down")
        time.sleep(1)
        assert [row["writes"] for row in pooler.show("REPLICAS")] == ["0", "0", "0"], "nobody takes its place"
        # An administrator may vouch for it.
        pooler.psql(f"UNBAN {trio.primary.socket_folder}:{port}", "pgbouncer")
        assert roles(pooler)[0] == "primary"
        assert two.psql("SELECT pg_is_in_recovery()") == "t"


def test_of_two_independent_servers_the_configured_primary_gets_all_writes(major):
    with Server(postgres.tree(major)) as primary, Server(postgres.tree(major)) as other:
        for server in (primary, other):
            server.psql("CREATE TABLE written (a int)")
        for listed, roles in (([primary, other], ("primary", "auto")), ([other, primary], ("auto", "primary"))):
            text = Trio(primary, [other]).toml("query_wait_timeout = 1", servers=listed, roles=roles)
            with Pooler(primary, name="howdah.toml", text=text) as pooler:
                for _ in range(3):
                    pooler.psql("INSERT INTO written VALUES (1)", "app")
        assert [server.psql("SELECT count(*) FROM written") for server in (primary, other)] == ["6", "0"]
        # It is not written to instead either.
        with Pooler(primary, name="howdah.toml", text=text) as pooler:
            pooler.psql("INSERT INTO written VALUES (1)", "app")
            primary.stop("immediate")
            refused = pooler.psql("INSERT INTO written VALUES (1)", "app", check=False)
            assert "there is no primary now" in refused.stderr
        assert other.psql("SELECT count(*) FROM written") == "0"


def test_a_replica_that_lags_leaves_and_comes_back(steady_trio):
    one = steady_trio.replicas[0]
    for limit in ("max_replica_lag_bytes = 100000", "max_replica_lag = 1"):
        with watched(steady_trio, app=limit) as pooler:
            one.psql("SELECT pg_wal_replay_pause()")
            steady_trio.primary.psql("CREATE TABLE t AS SELECT generate_series(1, 20000) AS a")
            wait_until(lambda: roles(pooler) == ["primary", "lagging", "replica"])
            row = place(pooler, one)
            assert row["reads"] == "0" and int(row["lag_bytes"]) > 100000 and row["banned"] == "0"
            one.psql("SELECT pg_wal_replay_resume()")
            wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
            assert int(place(pooler, one)["lag_bytes"]) < 100000
            steady_trio.primary.psql("DROP TABLE t")


def test_a_replica_that_dies_is_banned_and_returns(steady_trio):
    one = steady_trio.replicas[0]
    with watched(steady_trio, app="ban_time = 3") as pooler:
        port = one.port
        one.stop("immediate")
        # Its connection ends, so it is asked again at once and not at the next interval.
        assert seconds_until(lambda: roles(pooler)[1] == "down") < 1
        ban = pooler.show("BANS")[0]
        assert ban["reason"].startswith("FailedHealthCheck") and ban["ban_duration_seconds"] == "3"
        assert place(pooler, one)["error"] != ""
        started = time.monotonic()
        one.start(port=port)
        wait_until(lambda: roles(pooler)[1] == "replica")
        if time.monotonic() - started < 1.5:
            assert place(pooler, one)["reads"] == "0", "it lives, but its ban stands"
        wait_until(lambda: place(pooler, one)["reads"] == "1")
        assert pooler.show("BANS") == []


def test_ban_and_unban(steady_trio):
    one = steady_trio.replicas[0]
    with watched(steady_trio) as pooler:
        host = f"{one.socket_folder}:{one.port}"
        told = pooler.psql(f"BAN {host} 60", "pgcat", flags=["-F", " "])
        assert told == f"app * replica {one.socket_folder}"
        row = pooler.show("BANS", "pgcat")[0]
        assert (row["db"], row["reason"], row["ban_duration_seconds"]) == ("app", "AdminBan", "60")
        assert 55 <= int(row["ban_remaining_seconds"]) <= 60
        assert (place(pooler, one)["reads"], place(pooler, one)["banned"]) == ("0", "1")
        assert pooler.psql(f"UNBAN {host}", "pgcat", flags=["-F", " "]) == f"app * replica {one.socket_folder}"
        assert pooler.show("BANS") == [] and place(pooler, one)["reads"] == "1"
        assert pooler.psql(f"UNBAN {host}", "pgcat") == ""
        pooler.psql(f"BAN {host} 1", "pgcat")
        wait_until(lambda: place(pooler, one)["reads"] == "1")


def test_servers_are_asked_as_whoever_may(steady_trio):
    """Without superuser rights, by SCRAM over TCP; and as the first client's user, who waits for the answer."""
    primary = steady_trio.primary
    primary.psql("CREATE ROLE asker LOGIN PASSWORD 'secret'")
    steady_trio.catch_up()
    text = re.sub(r'host = "[^"]*"', 'host = "localhost"', steady_trio.toml()) + '[users.asker]\npassword = "WRONG"\n'
    text = text.replace('monitor_user = "postgres"', 'monitor_user = "asker"')
    with Pooler(primary, name="howdah.toml", text=text) as pooler:
        wait_until(lambda: roles(pooler) == ["unasked"] * 3)
        assert "password authentication failed" in pooler.show("REPLICAS")[0]["error"]
        pooler.text = text.replace("WRONG", "secret")
        pooler.reload()
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
    text = text.replace('monitor_user = "asker"', "").replace("WRONG", "secret")
    with Pooler(primary, name="howdah.toml", text=text) as pooler:
        wait_until(lambda: "set monitor_user" in pooler.show("REPLICAS")[0]["error"])
        assert pooler.psql("SELECT 1", "app", user="asker") == "1"
        wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
    primary.psql("DROP ROLE asker")
