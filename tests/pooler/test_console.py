"""The console: what it shows, by which columns, and each command over both protocols and under each of its names."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import os
import re
import signal
import struct
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pg8000.dbapi
import pytest

from devkit.server import SUPERUSER, free_port
from tests.pooler import columns, raw
from tests.pooler.interpose import unread
from tests.pooler.process import Pooler, ask, is_refused, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query

# Under each of its names, over either protocol.
CONSOLES = [("howdah", "simple"), ("pgcat", "simple"), ("pgbouncer", "extended")]
PROTOCOLS = ["simple", "extended"]


def run(client, protocol, command):
    """All messages that a command is answered with."""
    if protocol == "simple":
        client.send(query(command))
    else:
        client.send(parse("", command), bind(""), raw.message(b"D", b"P\0"), EXECUTE, SYNC)
    return client.until(b"Z")


def named(messages):
    """The names of the columns in a RowDescription."""
    body = next((body for kind, body in messages if kind == b"T"), None)
    if body is None:
        return None
    found, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        end = body.index(b"\0", at)
        found.append(body[at:end].decode())
        at = end + 19
    return found


def outcome(messages):
    """The command tag, or the message of the error."""
    for kind, body in messages:
        if kind == b"C":
            return body[:-1].decode()
        if kind == b"E":
            return next(field[1:].decode() for field in body.split(b"\0") if field[:1] == b"M")
    raise AssertionError(messages)


def test_each_show_command_has_the_columns_of_the_table_and_the_help_names_it(pooler):
    pooler.psql("SELECT 1")
    with Raw(pooler.port, "pgbouncer") as client:
        told = run(client, "simple", "SHOW HELP")
        known = set(re.findall(r"\b[A-Z_]{3,}\b", told[0][1].decode()))
        for what, expected in (columns.PGBOUNCER | columns.OWN).items():
            for protocol in PROTOCOLS:
                got = run(client, protocol, f"SHOW {what}")
                assert named(got) == expected, (what, protocol)
                assert outcome(got) == "SHOW"
                rows = [body for kind, body in got if kind == b"D"]
                assert all(struct.unpack("!h", row[:2])[0] == len(expected) for row in rows), what
            assert what in known or what.islower(), f"SHOW HELP does not tell of {what}"
    with Raw(pooler.port, "howdah") as client:
        for protocol in PROTOCOLS:
            got = run(client, protocol, "SHOW POOLS")
            assert named(got) == [*columns.PGBOUNCER["POOLS"], "error"]
            rows = [body for kind, body in got if kind == b"D"]
            assert rows and all(struct.unpack("!h", row[:2])[0] == len(named(got)) for row in rows)


def test_the_table_holds_all_that_the_installed_pgbouncer_tells(real_pgbouncer):
    with Raw(real_pgbouncer, "pgbouncer") as client:
        compared = 0
        for what, expected in columns.PGBOUNCER.items():
            got = named(run(client, "simple", f"SHOW {what}"))
            if got is None:
                assert what in columns.YOUNG, f"{what} is not a command of it"
                continue
            got = [columns.OLD_NAMES.get((what, name), name) for name in got]
            assert got == [name for name in expected if name in got], what
            compared += 1
        assert compared >= 20


@pytest.mark.parametrize(("console", "protocol"), CONSOLES)
def test_whatever_is_wrong_with_a_command_has_pgbouncers_sqlstate(server, console, protocol):
    wrong = ["NONSENSE", "SHOW NONSENSE", "PAUSE nothing", "RESUME", "KILL_CLIENT 1000", "SET nothing = 1"]
    wrong += ["SET listen_port = 1", "SET server_lifetime = x"]
    with Pooler(server, {"postgres": ""}) as pooler, Raw(pooler.port, console) as admin:
        assert all("E:08P01" in raw.show(run(admin, protocol, command)) for command in wrong)
        pooler.path.write_text("[pgbouncer]\nserver_lifetime = x\n")
        assert "E:F0000" in raw.show(run(admin, protocol, "RELOAD"))


def test_what_has_no_effect_may_be_set_as_pgbouncers_own_settings_may(pooler):
    with Raw(pooler.port, "pgbouncer") as admin:
        (kind, notice), (tag, _), _ = run(admin, "simple", "SET verbose = 2")
        assert (kind, tag) == (b"N", b"C")
        assert b"verbose is a setting of PgBouncer that has no effect here" in notice


@pytest.mark.parametrize(("console", "protocol"), CONSOLES)
def test_each_command_does_what_it_says(server, console, protocol):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, {"postgres": "", "other": "dbname=postgres"}, default_pool_size=2))
        admin, waiter = (stack.enter_context(Raw(pooler.port, console)) for _ in range(2))
        client, other = (stack.enter_context(Raw(pooler.port, name)) for name in ("postgres", "other"))

        def order(command, expected=None):
            told = outcome(run(admin, protocol, command))
            assert told == (expected or command.split()[0]), (command, told)

        def state(name):
            return {row["name"]: row for row in pooler.show("DATABASES")}[name]

        def pids(database):
            return {row["remote_pid"] for row in pooler.show("SERVERS") if row["database"] == database}

        for connection in (client, other):
            assert connection.value("SELECT 1") == "1"
        # One database, then all.
        order("PAUSE postgres")
        assert (state("postgres")["paused"], state("other")["paused"]) == ("1", "0")
        assert not pids("postgres") and pids("other") and other.value("SELECT 2") == "2"
        client.send(query("SELECT 3"))
        wait_until(lambda: any(row["cl_waiting"] == "1" for row in pooler.show("POOLS")))
        assert not client.waiting(0)
        order("RESUME postgres")
        assert raw.values(client.until(b"Z")) == ["3"]
        order("RESUME postgres", "database postgres is not paused")
        order("PAUSE")
        order("PAUSE", "already paused")
        order("KILL", "already paused")
        assert pooler.show("STATE")[1] == {"key": "paused", "value": "yes"} and not pooler.show("SERVERS")
        order("RESUME")
        order("RESUME", "the pooler is not paused/suspended")
        # PgCat's form: one user's pool.
        order(f"PAUSE postgres,{SUPERUSER}")
        assert other.value("SELECT 4") == "4"
        order(f"RESUME postgres,{SUPERUSER}")
        # PAUSE waits for transactions, RECONNECT leaves them their server, and WAIT_CLOSE waits for that.
        assert client.sql("BEGIN") == "C:BEGIN Z:T"
        waiter.send(query("PAUSE postgres"))
        wait_until(lambda: state("postgres")["paused"] == "1")
        order("RESUME postgres")
        assert outcome(waiter.until(b"Z")) == "PAUSE was ended by RESUME before it was complete"
        before = pids("postgres")
        order("RECONNECT postgres")
        assert pids("postgres") == before
        waiter.send(query("WAIT_CLOSE postgres"))
        assert not waiter.waiting(0.3)
        assert client.sql("COMMIT") == "C:COMMIT Z:I"
        assert outcome(waiter.until(b"Z")) == "WAIT_CLOSE"
        assert client.value("SELECT 5") == "5" and not pids("postgres") & before
        # DISABLE refuses who comes, and leaves who is there.
        order("DISABLE postgres")
        assert state("postgres")["disabled"] == "1"
        assert "is disabled" in raw.refusal(pooler.port)[1]
        assert client.value("SELECT 6") == "6"
        order("ENABLE postgres")
        assert pooler.psql("SELECT 7") == "7"
        # RELOAD takes the file, and says what is wrong with it; SET changes a setting until the next RELOAD.
        pooler.configure(default_pool_size=5)
        order("RELOAD")
        assert state("postgres")["pool_size"] == "5"
        good = pooler.path.read_text()
        pooler.path.write_text(good + "pool_mode = nonsense\n")
        assert "expected session, transaction or statement" in outcome(run(admin, protocol, "RELOAD"))
        pooler.path.write_text(good)
        order("SET default_pool_size = 3")
        assert state("postgres")["pool_size"] == "3"
        order("SET query_wait_timeout TO '7'")
        order("SET nothing = 1", "SET failed: there is no setting nothing")
        whole = "expected a whole number from 0 to 2147483647"
        order("SET default_pool_size = x", f"SET failed: default_pool_size = x: {whole}")
        order("SET listen_port = 1", "SET failed: listen_port cannot be changed while running")
        order("SET client_encoding = 'UTF8'")
        order("RELOAD")
        assert state("postgres")["pool_size"] == "5"
        # KILL drops clients and servers, and leaves the database paused.
        killed = next(row["id"] for row in pooler.show("CLIENTS") if row["database"] == "other")
        order(f"KILL_CLIENT {killed}")
        order("KILL postgres")
        for connection in (other, client):
            assert connection.until(b"E") and connection.is_closed()
        assert not pids("postgres") and state("postgres")["paused"] == "1"
        order("RESUME postgres")
        assert pooler.psql("SELECT 9") == "9"
        for command in ("PAUSE", "KILL", "RECONNECT", "WAIT_CLOSE", "DISABLE", "ENABLE"):
            order(f"{command} nowhere", "no such database: nowhere")
        order("SHUTDOWN nonsense", "SHUTDOWN takes WAIT_FOR_CLIENTS or WAIT_FOR_SERVERS")
        order("NONSENSE", "invalid command 'NONSENSE', use SHOW HELP;")


def test_an_id_is_of_one_client_for_ever_and_killing_nobody_is_an_error(pooler):
    def ids():
        return [int(row["id"]) for row in pooler.show("CLIENTS") if row["database"] == "postgres"]

    with Raw(pooler.port, "pgbouncer") as admin:
        with Raw(pooler.port):
            (gone,) = ids()
        wait_until(lambda: not ids())
        with Raw(pooler.port) as client:
            assert client.sql("BEGIN") == "C:BEGIN Z:T"
            (there,) = ids()
            (server,) = pooler.show("SERVERS")
            assert there > gone and int(server["id"]) not in {gone, there}
            told = outcome(run(admin, "simple", f"KILL_CLIENT {gone}"))
            assert told == f"client not found: no client has the id {gone} (SHOW CLIENTS shows them)"
            # A client that is in a transaction is linked with its server connection by both ids.
            linked = next(row for row in pooler.show("CLIENTS") if row["database"] == "postgres")
            assert (linked["link"], server["link"]) == (f"S{int(server['id']):x}", f"C{there:x}")
            assert outcome(run(admin, "simple", f"KILL_CLIENT {there}")) == "KILL_CLIENT"
            assert client.until(b"E") and client.is_closed()


@pytest.mark.parametrize(("console", "protocol"), CONSOLES)
def test_shutdown_at_once_and_when_servers_or_clients_are_done(server, console, protocol):
    with Pooler(server) as pooler, Raw(pooler.port) as client, Raw(pooler.port, console) as admin:
        client.sql("BEGIN")
        admin.send(*([query("SHUTDOWN")] if protocol == "simple" else [parse("", "SHUTDOWN"), bind(""), EXECUTE, SYNC]))
        assert pooler.process.wait(5) == 0
    with Pooler(server) as pooler, Raw(pooler.port) as busy, Raw(pooler.port) as idle:
        with Raw(pooler.port, console) as admin:
            busy.sql("BEGIN")
            assert outcome(run(admin, protocol, "SHUTDOWN WAIT_FOR_SERVERS")) == "SHUTDOWN"
            assert idle.until(b"E") and idle.is_closed()
            assert busy.value("SELECT 2") == "2" and pooler.process.poll() is None
            busy.sql("COMMIT")
            assert pooler.process.wait(5) == 0
    with Pooler(server, workers=2) as pooler, Raw(pooler.port) as client:
        with Raw(pooler.port, console) as admin:
            assert outcome(run(admin, protocol, "SHUTDOWN WAIT_FOR_CLIENTS")) == "SHUTDOWN"
            wait_until(lambda: is_refused(pooler.port))
            # Clients stay as long as they like, nobody else comes, and the console answers.
            assert client.value("SELECT 3") == "3"
            assert outcome(run(admin, protocol, "SHOW CLIENTS")) == "SHOW"
            assert outcome(run(admin, protocol, "RESUME")) == "the pooler is shutting down"
        assert pooler.process.poll() is None
        client.socket.close()
        assert pooler.process.wait(5) == 0


def test_orders_under_load_lose_no_statement(server):
    server.run("pgbench", "-i", "-q", "postgres")
    with Pooler(server, default_pool_size=4) as pooler, ThreadPoolExecutor(1) as beside:
        load = beside.submit(pooler.pgbench, "-n", "-c", "16", "-j", "2", "-T", "3", "-M", "prepared", "-S")
        with Raw(pooler.port, "howdah") as admin:
            while not load.done():
                for order in (
                    "PAUSE",
                    "RESUME",
                    "RECONNECT",
                    "WAIT_CLOSE",
                    "PAUSE postgres",
                    "RESUME postgres",
                    "RELOAD",
                ):
                    assert outcome(run(admin, "simple", order)) == order.split()[0]
                for what in ("POOLS", "CLIENTS", "SERVERS", "STATS", "SOCKETS", "PREPARED"):
                    assert outcome(run(admin, "extended", f"SHOW {what}")) == "SHOW"
        assert "number of failed transactions: 0 " in load.result().stdout


def test_names_in_quotes_and_drivers_own_questions(server):
    with Pooler(server, {'"a b"': "dbname=postgres"}) as pooler:
        assert pooler.psql("SELECT 1", "a b") == "1"
        pooler.psql('PAUSE "a b"', "pgbouncer")
        assert pooler.show("DATABASES")[0]["paused"] == "1"
        pooler.psql('RESUME "a b";', "pgbouncer")
        assert pooler.psql("SHOW client_encoding", "pgbouncer") == "UTF8"
        assert "SET ignored" in pooler.psql("SET TimeZone TO 'UTC'", "pgbouncer", check=False).stderr
        with pg8000.dbapi.connect(user=SUPERUSER, database="pgbouncer", host="127.0.0.1", port=pooler.port) as admin:
            admin.autocommit = True
            assert ask(admin, "SHOW VERSION")[0][0].startswith("howdah-pooler")


def test_results_come_in_the_formats_that_are_asked_for(pooler):
    pooler.psql("SELECT 1")
    with Raw(pooler.port, "howdah") as client:
        for formats, expected in (([1], [1, 1]), ([0, 1], [0, 1]), ([0], [0, 0]), ([], [0, 0])):
            body = b"\0\0" + struct.pack("!hhh", 0, 0, len(formats)) + struct.pack(f"!{len(formats)}h", *formats)
            client.send(parse("", "SHOW LISTS"), raw.message(b"B", body), raw.message(b"D", b"P\0"), EXECUTE, SYNC)
            got = client.until(b"Z")
            told = next(body for kind, body in got if kind == b"T")
            first = told.index(b"\0", 2) + 19
            assert [struct.unpack("!h", told[at - 2 : at])[0] for at in (first, len(told))] == expected
            pools = next(body for kind, body in got if kind == b"D" and b"pools" in body)
            assert pools.endswith(struct.pack("!iq", 8, 1) if expected[1] else struct.pack("!ic", 1, b"1"))
        # A Bind that promises more than it holds.
        client.send(parse("", "SHOW LISTS"), raw.message(b"B", b"\0\0" + struct.pack("!hh", 0, 9)), SYNC)
        assert b"E" in {kind for kind, _ in client.until(b"E")} and client.next() is None


def test_sockets_are_shown_by_their_descriptors_and_states(pooler):
    with pooler.connect() as busy:
        ask(busy, "BEGIN")
        ask(busy, "SELECT 1")
        sockets = {(row["type"], row["database"]): row for row in pooler.show("SOCKETS")}
        assert sockets["C", "postgres"]["state"] == "cl_active" and sockets["S", "postgres"]["state"] == "sv_active"
        fds = {(row["task"], row["database"]): row for row in pooler.show("FDS")}
        client, server = fds["client", "postgres"], fds["server", "postgres"]
        assert (client["link"], server["link"]) == (server["fd"], client["fd"])
        assert "socket" in os.readlink(f"/proc/{pooler.process.pid}/fd/{client['fd']}")
        assert all(row["password"] == "" for row in fds.values())
        ask(busy, "COMMIT")
    assert pooler.show("SERVERS")[0]["state"] == "idle"


def test_names_that_were_looked_up_are_shown(server):
    lines = f"here = host=localhost port={server.port} dbname=postgres\nnowhere = host=no.such.name.invalid\n"
    with Pooler(server, {"postgres": ""}) as pooler:
        pooler.path.write_text(pooler.path.read_text().replace("[pgbouncer]", f"{lines}[pgbouncer]"))
        pooler.psql("RELOAD", "pgbouncer")
        pooler.psql("SELECT 1", "here", check=False)
        told = pooler.psql("SELECT 1", "nowhere", check=False).stderr
        assert 'cannot look up "no.such.name.invalid"' in told
        hosts = {row["hostname"]: row for row in pooler.show("DNS_HOSTS")}
        assert "127.0.0.1" in hosts["localhost"]["addrs"] and 0 < int(hosts["localhost"]["ttl"]) <= 15
        assert hosts["no.such.name.invalid"]["addrs"] == ""
        assert next(row["items"] for row in pooler.show("LISTS") if row["list"] == "dns_names") == "2"


def test_under_pgcats_name_the_console_shows_pgcats_columns(server):
    with Pooler(server, default_pool_size=1) as pooler, pooler.connect() as busy, pooler.connect() as idle:
        ask(idle, "SELECT 1")
        ask(busy, "BEGIN")
        ask(busy, "SELECT pg_sleep(0.25)::text")
        (row,) = [row for row in pooler.show("POOLS", "pgcat") if row["database"] == "postgres"]
        assert list(row) == columns.PGCAT["POOLS"]
        assert (row["cl_idle"], row["cl_active"], row["cl_waiting"], row["sv_active"]) == ("1", "1", "0", "1")
        ask(busy, "COMMIT")
        rows = [row for row in pooler.show("CLIENTS", "pgcat") if row["database"] == "postgres"]
        assert all(list(row) == columns.PGCAT["CLIENTS"] for row in rows)
        counts = sorted((row["transaction_count"], row["query_count"], row["error_count"]) for row in rows)
        assert counts == [("1", "1", "0"), ("1", "3", "0")]
        (row,) = [row for row in pooler.show("STATS", "pgcat") if row["database"] == "postgres"]
        assert list(row) == columns.PGCAT["STATS"]
        assert row["instance"] == "postgres_shard_0_primary" and row["total_query_count"] == "4"
        assert 250 <= int(row["total_query_time"]) < 10_000, "in milliseconds"
        with Raw(pooler.port, "pgcat") as client:
            for protocol in PROTOCOLS:
                assert named(run(client, protocol, "SHOW POOLS")) == columns.PGCAT["POOLS"]
                assert named(run(client, protocol, "SHOW SERVERS")) == columns.PGBOUNCER["SERVERS"]


# SUSPEND: what was read is passed on, and nothing more is read until RESUME.


def states(admin):
    """What SHOW STATE says is so."""
    shown = raw.values(run(admin, "simple", "SHOW STATE"))
    return [name for name, value in zip(shown[::2], shown[1::2], strict=True) if value == "yes"]


def test_what_comes_while_it_is_suspended_stays_in_its_socket(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port, "pgbouncer") as admin:
        assert client.value("SELECT 1") == "1"
        assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
        assert states(admin) == ["suspended"]
        asked = query("SELECT 2")
        client.send(asked)
        wait_until(lambda: unread(client.socket) == len(asked))
        # It connects, since the system takes it in, and is not spoken to.
        with Raw(pooler.port, login=False) as newcomer:
            newcomer.send(raw.startup("postgres"))
            for _ in range(3):
                admin.sql("SHOW CLIENTS")
            assert unread(client.socket) == len(asked) and not client.waiting(0) and not newcomer.waiting(0)
            assert admin.sql("RESUME") == "C:RESUME Z:I"
            assert raw.values(client.until(b"Z")) == ["2"]
            newcomer.until(b"Z")
        assert states(admin) == ["active"]


def test_while_it_is_suspended_other_commands_go_on_and_say_what_does_not_fit(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port, "pgbouncer") as admin:
        orders = {
            "SUSPEND": ["SUSPEND", "already suspended"],
            "PAUSE": ["already suspended"],
            "KILL": ["already suspended"],
            "RESUME postgres": ["database postgres is not paused"],
            "SET query_timeout = 5": ["SET"],
            "RELOAD": ["RELOAD"],
            "RECONNECT": ["RECONNECT"],
            "RESUME": ["RESUME", "the pooler is not paused/suspended"],
            "SUSPEND postgres": ["invalid command 'SUSPEND postgres', use SHOW HELP;"],
        }
        for order, told in orders.items():
            assert [outcome(run(admin, "simple", order)) for _ in told] == told
        assert admin.sql("PAUSE postgres") == "C:PAUSE Z:I"
        assert outcome(run(admin, "simple", "SUSPEND")) == "cannot suspend while databases are paused"
        admin.sql("RESUME postgres")
        assert client.value("SELECT 4") == "4"


def test_a_suspension_ends_by_a_signal_and_when_the_last_of_the_console_leaves(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port, "pgbouncer") as admin, Raw(pooler.port, "pgbouncer") as other:
        admin.sql("SUSPEND")
        client.send(query("SELECT 1"))
        pooler.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: "cannot be paused" in pooler.log.read_text())
        pooler.process.send_signal(signal.SIGUSR2)
        client.until(b"Z")
        admin.sql("SUSPEND")
        admin.socket.close()
        client.send(query("SELECT 2"))
        assert states(other) == ["suspended"] and not client.waiting(0)
        other.socket.close()
        assert raw.values(client.until(b"Z")) == ["2"]
    assert "the last client of the console has left" in pooler.log.read_text()


def test_who_is_not_at_rest_in_time_is_closed_by_a_suspension(server):
    with Pooler(server, default_pool_size=1, suspend_timeout="0.5") as pooler, contextlib.ExitStack() as stack:
        holder, waiter, half = (stack.enter_context(Raw(pooler.port)) for _ in range(3))
        admin = stack.enter_context(Raw(pooler.port, "pgbouncer"))
        holder.sql("BEGIN")
        waiter.send(query("SELECT 1"))
        # The length of a message that does not come.
        half.send(b"Q" + struct.pack("!i", 1000))
        wait_until(lambda: any(row["state"] == "waiting" for row in pooler.show("CLIENTS")))
        assert admin.sql("SUSPEND") == "C:SUSPEND Z:I"
        for late in (waiter, half):
            _, body = late.until(b"E")[-1]
            assert raw.code(body) == "57P01" and "suspend_timeout" in raw.field(body, "M") and late.is_closed()
        admin.sql("RESUME")
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"


# SHOW SHAPES, the counts of statements by their text without literals, and SHOW EVENTS


SECRET = "geheim"


def shapes(pooler):
    """The rows of SHOW SHAPES by their text."""
    return {row["query"]: row for row in pooler.show("SHAPES", "howdah")}


def events(pooler):
    """What has happened, the last first."""
    return [(row["kind"], row["database"]) for row in pooler.show("EVENTS", "howdah")]


@pytest.fixture
def counting(server):
    """A pooler that knows the catalog, and a client of it."""
    with Pooler(server, default_pool_size=2) as pooler:
        pooler.psql("SELECT 1")
        pooler.wait_for_catalog()
        with Raw(pooler.port) as client:
            yield pooler, client


def in_turn(client, *units):
    """Sends each unit when the one before has been answered."""
    for unit in units:
        client.send(unit)
        client.until(b"Z")


def test_statements_are_counted_by_their_text_without_literals(counting):
    pooler, client = counting
    in_turn(client, *(query(f"SELECT {number}, '{SECRET}' -- {SECRET}") for number in range(5)))
    in_turn(client, query(f"SELECT generate_series(1, 7), $a${SECRET}$a$"), query(f"SELECT 1/0, E'{SECRET}'"))
    in_turn(client, query("BEGIN"), query(f"CREATE TEMP TABLE x AS SELECT '{SECRET}' AS a"), query("ROLLBACK"))
    in_turn(client, query(f"SET app.key = '{SECRET}'"), query(f"SET app.key TO {SECRET}"))
    in_turn(
        client,
        query(f"SELECT set_config('app.key', '{SECRET}', false)"),
        query(f"DO $$ BEGIN PERFORM '{SECRET}'; END $$"),
    )
    in_turn(client, query(f"{SECRET}"), query(f"SELECT U&'{SECRET}'"))
    found = shapes(pooler)
    assert not [text for text in found if SECRET in text], "no literal is shown"
    five = found["select $1, $2"]
    assert (five["calls"], five["rows"], five["errors"], five["replica"]) == ("5", "5", "0", "0")
    assert (five["pipelined"], five["primary"], five["not_pipelined"]) == ("3", "5", ""), "the first two run alone"
    assert int(five["total_time"]) >= int(five["max_time"]) >= int(five["mean_time"]) > 0
    assert len(five["fingerprint"]) == 16 and five["database"] == five["user"] == "postgres"
    assert found["select generate_series($1), $2"]["rows"] == "7"
    failed = found["select $1 / $2, $3"]
    assert (failed["calls"], failed["errors"], failed["sqlstates"]) == ("1", "1", "22012 1")
    assert found["create temp table x as select $1 as a"]["not_pipelined"] in ("session", "utility", "transaction")
    assert (found["set app.key = $1"]["calls"], found["set app.key to $1"]["calls"]) == ("1", "1")
    assert found["do $1"]["calls"] == found["begin"]["calls"] == found["rollback"]["calls"] == "1"
    # What is not SQL may be anything.
    assert (found[""]["calls"], found[""]["errors"], found[""]["fingerprint"]) == ("2", "1", "0" * 16)


def test_each_statement_of_a_batch_has_its_own_counts(counting):
    pooler, client = counting
    texts = {"one": "SELECT 1 AS a", "two": "SELECT pg_sleep(0.02) AS b", "three": "SELECT 1 / 0 AS c"}
    client.send(*(parse(name, text) for name, text in texts.items()), SYNC)
    client.until(b"Z")
    in_turn(client, query("BEGIN"))
    client.send(*(bind(name) + EXECUTE for name in ("one", "one", "two", "one", "three", "one")), SYNC)
    client.until(b"Z")
    in_turn(client, query("ROLLBACK"))
    found = shapes(pooler)
    one, two, three = (found[f"select {text}"] for text in ("$1 as a", "pg_sleep($1) as b", "$1 / $2 as c"))
    assert (one["calls"], one["rows"], one["errors"]) == ("3", "3", "0"), "the last was skipped"
    assert (two["calls"], two["rows"], two["errors"]) == ("1", "1", "0")
    assert (three["calls"], three["rows"], three["sqlstates"]) == ("1", "0", "22012 1")
    # Their answers come together, when the server sends them.
    assert sum(int(row["total_time"]) for row in (one, two, three)) >= 20_000


def test_users_and_databases_are_apart_and_the_metrics_have_twenty(server):
    port = free_port()
    with Pooler(server, metrics_port=port) as pooler:
        for number in range(30):
            pooler.psql(f"SELECT {number} AS a{number}")
        pooler.psql("SELECT 1 AS a1", "template1")
        rows = [row for row in pooler.show("SHAPES", "howdah") if row["query"] == "select $1 as a1"]
        assert {row["database"] for row in rows} == {"postgres", "template1"}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            lines = [line for line in page.read().decode().splitlines() if "shape_calls_total{" in line]
        assert len(lines) == 20 and all('query="select $1 as a' in line for line in lines)


def test_what_happens_is_kept(server):
    with Pooler(server, {"postgres": ""}) as pooler:
        pooler.psql("SELECT 1")
        pooler.psql("PAUSE postgres", "howdah")
        pooler.psql("RESUME postgres", "howdah")
        pooler.psql("RECONNECT postgres", "howdah")
        assert events(pooler) == [("reconnect", "postgres"), ("resume", "postgres"), ("pause", "postgres")]
        assert pooler.psql("RESUME postgres", "howdah", check=False).returncode != 0
        assert len(events(pooler)) == 3, "what was refused has not happened"
        pooler.reload()
        pooler.path.write_text("[databases]\n")
        assert pooler.psql("RELOAD", "howdah", check=False).returncode != 0
        assert events(pooler)[:2] == [("refused reload", ""), ("reload", "")]
        text = pooler.show("EVENTS", "howdah")[0]["text"]
        assert "the old one stays in force" in text
        pooler.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: events(pooler)[0] == ("pause", ""))
        pooler.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: events(pooler)[0] == ("resume", ""))
        assert pooler.show("EVENTS", "howdah")[2]["time"].endswith(" UTC")
