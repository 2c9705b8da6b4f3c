"""A database on a primary and two streaming replicas, through everything that befalls servers.

What must hold in each of these tests, and is counted in `flawless`: of the writes that clients were told are done none
is lost, and none is done twice; no client loses its connection unless it was in a transaction on the server that died;
no write reaches a server in recovery, by that server's own log.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from devkit import Problem, postgres
from devkit.server import Server
from tests.pooler import network
from tests.pooler.load import LEDGER, WHO, Load
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, code, message, parse, query, values
from tests.pooler.trio import Trio, three

# What a client may be told of a write that was under way when its server died, or found none.
HONEST = {"08006", "57P01", "57P02", "57P03", "08001", "53300"}
FAST = "healthcheck_interval = 0.2\nban_time = 1"
# A standby whose primary has crashed tries again at once, so that tests need not wait.
LOGGING = {"log_statement": "all", "wal_retrieve_retry_interval": "100ms"}


@pytest.fixture(scope="module")
def shared(major):
    """Three servers for tests that leave them as they were."""
    with three(major, LOGGING) as trio:
        trio.primary.psql(f"""{LEDGER};
            CREATE FUNCTION slow(float) RETURNS int STABLE LANGUAGE sql AS 'SELECT 1 FROM pg_sleep($1)';
            CREATE FUNCTION write(int) RETURNS int LANGUAGE sql AS 'INSERT INTO ledger VALUES (-1, $1) RETURNING n';
            CREATE FUNCTION lie(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN write($1); END';""")
        trio.catch_up()
        yield trio


@pytest.fixture
def calm(shared):
    """The same, with all of them up and the ledger empty."""
    for server in shared.servers:
        wait_until(server.answers)
    shared.primary.psql("TRUNCATE ledger")
    shared.catch_up()
    shared.begin()
    return shared


@pytest.fixture
def doomed(major):
    """Three servers of one's own, with an empty ledger."""
    with three(major, LOGGING) as trio:
        trio.primary.psql(LEDGER)
        trio.catch_up()
        yield trio


@contextlib.contextmanager
def pooled(trio, pooler="", app=FAST, **options):
    """A pooler in transaction mode that has found all servers, and what statements are."""
    settings = f'pool_mode = "transaction"\ndefault_pool_size = 8\nserver_login_retry = 0.2\n{pooler}'
    with Pooler(trio.primary, name="howdah.toml", text=trio.toml(settings, app, **options)) as running:
        listed = len(options.get("servers") or trio.servers)
        wait_until(lambda: sorted(standing(running)) == ["primary", *["replica"] * (listed - 1)])
        wait_until(lambda: reads_go_to(running, 8) & ports(*trio.replicas))
        trio.begin()
        yield running


def victim(pooler):
    """A client whose server connections can be told from others."""
    return Raw(pooler.port, "app", application_name="victim")


def standing(pooler):
    """What each server is taken for."""
    return [row["role"] for row in pooler.show("REPLICAS")]


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


# Backends that die

COPY_ROW = message(b"d", b"1\t1\n")
# Some three seconds, in which rows come all the time.
ROWS = "SELECT g, repeat('x', 1000), slow(0.001) FROM generate_series(1, 2500) g"
WRITE = "INSERT INTO ledger SELECT 1, 1 FROM pg_sleep(3)"
INSERT = "INSERT INTO ledger VALUES (1, 1)"
# What a client sends before its backend is killed: statements with an answer, then the beginning of a unit, up to what
# must have come back by then; what it sends when it has been told; and what becomes of it. `again`: its read is asked
# again and nobody notices. `told`: an error, and it stays connected. `closed`: an error, and the end.
STATES = {
    "idle": ([WHO], b"", b"", b"", "idle"),
    "read under way": ([], query("SELECT slow(1)"), b"", b"", "again"),
    "read with rows sent": ([], query(ROWS), b"D", b"", "told"),
    "prepared write under way": ([], parse("s", WRITE) + bind("s") + EXECUTE + SYNC, b"", b"", "told"),
    "copy in": ([], query("COPY ledger FROM STDIN") + COPY_ROW, b"G", COPY_ROW + message(b"c"), "told"),
    "in a transaction": (["BEGIN", INSERT], b"", b"", b"", "closed"),
    "in a transaction, statement under way": (["BEGIN", INSERT], query("SELECT slow(3)"), b"", b"", "closed"),
}


def backend(trio):
    """The server and the process id of the backend that works, or worked last, for the victim."""
    found = []

    def is_there():
        for server in trio.servers:
            pids = server.psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'victim'").split()
            found.extend((server, int(pid)) for pid in pids)
        return bool(found)

    wait_until(is_there)
    return found[0]


def told(messages):
    """The SQLSTATEs of the errors among messages."""
    return [code(body) for kind, body in messages if kind == b"E"]


@pytest.mark.parametrize("state", STATES)
def test_a_backend_is_killed(calm, state):
    before, sent, expected, later, outcome = STATES[state]
    with pooled(calm) as pooler, contextlib.ExitStack() as stack:
        bystanders = [stack.enter_context(Raw(pooler.port, "app")) for _ in range(4)]
        for client in bystanders:
            assert client.kinds(parse("mine", WHO), bind("mine"), EXECUTE, SYNC) == "12DCZ"
            assert client.kinds(query("INSERT INTO ledger VALUES (0, 0)")) == "CZ"
        client = stack.enter_context(victim(pooler))
        for sql in before:
            client.send(query(sql))
            client.until(b"Z")
        client.send(sent)
        if expected:
            client.until(expected)
        server, pid = backend(calm)
        if sent and not expected:
            running = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND wait_event = 'PgSleep'"
            wait_until(lambda: server.psql(running) == "1")
        os.kill(pid, signal.SIGKILL)

        if outcome == "again":
            answer = client.until(b"Z")
            assert told(answer) == [] and values(answer) == ["1"]
        elif outcome == "told":
            answer = client.until(b"E")
            assert set(told(answer)) <= HONEST and answer[-1][1][:7] == b"SERROR\0", answer
            client.until(b"Z")
            # A client that was copying learns of it late: what it has sent meanwhile is not answered.
            client.send(later)
        elif outcome == "closed":
            answer = client.until(b"E")
            assert set(told(answer)) <= HONEST and answer[-1][1][:7] == b"SFATAL\0", answer
            assert client.next() is None
        if outcome != "closed":
            assert client.kinds(query(WHO)) == "TDCZ"
        for client in bystanders:
            assert client.kinds(bind("mine"), EXECUTE, SYNC) == "2DCZ", "no client notices that has nothing there"
            # A write may find no primary while that recovers, but nobody is dropped for it.
            while "C" not in client.kinds(query("INSERT INTO ledger VALUES (0, 0)")):
                time.sleep(0.1)
        wait_until(lambda: sorted(standing(pooler)) == ["primary", "replica", "replica"])
        # The bystanders may have been faster than the server, which restarts all its processes.
        wait_until(lambda: not Path(f"/proc/{pid}").exists() and calm.primary.answers())
        assert calm.primary.psql("SELECT count(*) FROM ledger WHERE client = 1") == "0", "it had not been committed"
        for replica in calm.replicas:
            assert calm.writes_on_standby(replica) == []


# Servers that die


def test_each_server_is_stopped_killed_and_started_again_under_load(doomed):
    with pooled(doomed) as pooler, Load(pooler) as load:
        for server in doomed.servers:
            for end in (doomed.stop, doomed.kill):
                time.sleep(0.5)
                end(server)
                wait_until(lambda server=server: place(pooler, server)["role"] == "down")
                gone = time.monotonic()
                time.sleep(0.5)
                assert server.port not in load.served(gone), "it is dead"
                assert load.served(gone), "others serve reads meanwhile"
                back = time.monotonic()
                doomed.start(server)
                if server is doomed.primary:
                    wait_until(lambda back=back: load.first_ack_after(back))
                else:
                    wait_until(lambda back=back, server=server: load.served(back)[server.port])
        load.stop()
        flawless(doomed, load, doomed.primary)
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


def follow(standby, primary, host=None):
    """Makes a standby follow another server."""
    standby.psql(
        f"ALTER SYSTEM SET primary_conninfo = 'host={host or primary.socket_folder} port={primary.port} user=postgres';"
        "ALTER SYSTEM SET primary_slot_name = ''"
    )
    standby.psql("SELECT pg_reload_conf()")


def place(pooler, server):
    """The row of one server."""
    return next(row for row in pooler.show("REPLICAS") if row["port"] == str(server.port))


@pytest.mark.parametrize("old", ["killed", "alive"])
def test_a_replica_is_promoted_under_load(synchronous, old):
    primary, (one, two) = synchronous.primary, synchronous.replicas
    with pooled(synchronous) as pooler, Load(pooler) as load:
        time.sleep(1)
        if old == "killed":
            synchronous.kill(primary)
            one, two = furthest_first(synchronous.replicas)
        else:
            # What the old primary writes from now on, and nobody is told is done, must not reach it.
            follow(two, one)
            # A standby that has more than the server it follows cannot follow it through a promotion.
            sender = "SELECT sender_port FROM pg_stat_wal_receiver WHERE status = 'streaming'"
            wait_until(lambda: two.psql(sender) == str(one.port))
        one.psql("SELECT pg_promote(false)")
        wait_until(lambda: one.psql("SELECT pg_is_in_recovery()") == "f")
        promoted = time.monotonic()
        wait_until(lambda: place(pooler, one)["role"] == "primary")
        assert time.monotonic() - promoted < 2
        wait_until(lambda: load.first_ack_after(promoted))
        assert load.first_ack_after(promoted) - promoted < 2, "writes follow within two seconds"
        if old == "killed":
            follow(two, one)
        else:
            assert place(pooler, primary)["role"] == "stale primary"
            # Whoever waits there for replicas that have gone is told when it ends.
            synchronous.kill(primary)
        time.sleep(0.5)
        synchronous.start(primary)
        wait_until(lambda: place(pooler, primary)["role"] == "stale primary")
        wait_until(lambda: place(pooler, two)["reads"] == "1")
        back = time.monotonic()
        wait_until(lambda: load.served(back)[two.port])
        time.sleep(0.5)
        load.stop()
        flawless(synchronous, load, one)
        assert not load.codes("read")
        assert primary.port not in load.served(back)
        one.wait_for_replay(two)
        assert load.lost(two) == set()
        begun = [life for life, _ in synchronous.lives(primary)][-1]
        assert "INSERT" not in begun and WHO not in begun, "the old primary is neither written to nor read"


# The network


@pytest.fixture
def apart(major):
    """Three servers, each in a network namespace of its own: 1, 2 and 3."""
    if reason := network.why_not():
        pytest.skip(reason)
    with network.Network(3) as net, contextlib.ExitStack() as stack:
        settings = {**LOGGING, "listen_addresses": "*", "wal_receiver_timeout": "3s", "wal_sender_timeout": "3s"}
        primary = Server(postgres.tree(major), settings)
        stack.callback(primary.close)
        primary.create()
        with open(primary.data / "pg_hba.conf", "a") as access:
            for database in ("all", "replication"):
                access.write(f"host {database} all {net.subnet} trust\n")
        with net.inside(1):
            primary.start()
        replicas = []
        for number in (2, 3):
            with net.inside(number):
                replicas.append(stack.enter_context(primary.replica()))
            # Through the network, not through the socket.
            follow(replicas[-1], primary, net.address(1))
        hosts = {server: net.address(number) for number, server in enumerate([primary, *replicas], 1)}
        trio = Trio(primary, replicas, hosts)
        trio.primary.psql(LEDGER)
        trio.catch_up()
        yield trio, net


def test_a_replica_is_cut_off_and_comes_back(apart):
    trio, net = apart
    one, two = trio.replicas
    with pooled(trio, app=f"{FAST}\nhealthcheck_timeout = 0.5") as pooler, Load(pooler) as load:
        time.sleep(0.7)
        net.unplug(2)
        cut = time.monotonic()
        wait_until(lambda: place(pooler, one)["role"] == "down")
        assert time.monotonic() - cut < 3
        time.sleep(1)
        down = time.monotonic()
        time.sleep(1)
        assert load.served(down)[two.port] > 50 and one.port not in load.served(down)
        net.plug(2)
        back = time.monotonic()
        wait_until(lambda: load.served(back)[one.port])
        load.stop()
        flawless(trio, load, trio.primary)
        assert not load.codes() and not load.codes("read") and not load.dropped_in_transaction
        assert load.slowest_read() < 4, "reads that hung there were asked again"


def test_a_primary_is_cut_off_while_another_takes_its_place_and_comes_back(apart):
    trio, net = apart
    old = trio.primary
    # A write is acknowledged when both replicas have it, so that either may be promoted.
    old.psql("ALTER SYSTEM SET synchronous_standby_names = '2 (*)'")
    old.psql("SELECT pg_reload_conf()")
    with pooled(trio, app=f"{FAST}\nhealthcheck_timeout = 0.5") as pooler, Load(pooler) as load:
        time.sleep(0.7)
        net.unplug(1)
        cut = time.monotonic()
        wait_until(lambda: place(pooler, old)["role"] == "down")
        one, two = furthest_first(trio.replicas)
        one.psql("SELECT pg_promote(false)")
        follow(two, one, trio.host(one))
        wait_until(lambda: load.first_ack_after(cut))
        net.plug(1)
        wait_until(lambda: place(pooler, old)["role"] == "stale primary")
        back = time.monotonic()
        time.sleep(1)
        load.stop()
        flawless(trio, load, one)
        assert not load.codes("read")
        assert old.port not in load.served(back) and load.first_ack_after(back)
        assert load.served(cut)[two.port]


# A replica behind


# Pools and reloads


def test_servers_are_added_and_removed_under_load(calm):
    one, two = calm.replicas
    settings = 'pool_mode = "transaction"\ndefault_pool_size = 8'
    with pooled(calm) as pooler, Load(pooler) as load:
        for listed in ([calm.primary, one], [two, calm.primary], [calm.primary], [calm.primary, two, one]):
            pooler.text = calm.toml(settings, FAST, servers=listed)
            pooler.reload()
            wait_until(lambda listed=listed: sorted(standing(pooler)) == ["primary", *["replica"] * (len(listed) - 1)])
            # What was under way there has ended by then.
            time.sleep(0.3)
            since = time.monotonic()
            expected = ports(*[server for server in listed if server is not calm.primary]) or ports(calm.primary)
            wait_until(lambda since=since, expected=expected: set(load.served(since)) >= expected)
            assert set(load.served(since)) == expected
        load.stop()
        flawless(calm, load, calm.primary)
        assert not load.codes() and not load.codes("read") and not load.dropped_in_transaction
