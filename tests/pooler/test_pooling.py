"""Lending, waiting, giving back; and what must not leak from one client to another."""

import contextlib
import threading
import time

import pytest

from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, Raw, bind, direct, parse, query


def await_queue(pooler, length):
    """Waits until so many clients wait for a connection."""
    wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == str(length))


def test_many_clients_share_few_servers(pooler):
    done = pooler.pgbench("-n", "-c", "20", "-t", "20", "-f", "/dev/stdin", input="SELECT pg_sleep(0.001)")
    assert "number of failed transactions: 0" in done.stdout
    assert len(pooler.show("SERVERS")) <= 2


def test_waiting_clients_are_served_in_order(server):
    with Pooler(server, default_pool_size=1) as pooler, pooler.connect() as holder:
        ask(holder, "DROP SEQUENCE IF EXISTS place; CREATE SEQUENCE place")
        ask(holder, "BEGIN")
        order, threads = {}, []

        def wait_in_line(number):
            with pooler.connect() as client:
                order[number] = ask(client, "SELECT nextval('place')")[0][0]

        for number in range(6):
            threads.append(threading.Thread(target=wait_in_line, args=(number,)))
            threads[-1].start()
            await_queue(pooler, number + 1)
        ask(holder, "COMMIT")
        for thread in threads:
            thread.join()
        assert order == {number: number + 1 for number in range(6)}


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_who_leaves_the_queue_is_not_served(server, how):
    server.psql("DROP TABLE IF EXISTS queued; CREATE TABLE queued (x int)")
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as holder:
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        place = holder.value("SELECT pg_backend_pid()")
        waiting = [Raw(pooler.port) for _ in range(10)]
        for client in waiting:
            client.send(query("INSERT INTO queued VALUES (1)"))
        await_queue(pooler, 10)
        for client in waiting:
            client.reset() if how == "reset" else client.socket.close()
        await_queue(pooler, 0)
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"
        # No connection was made ready for one of them and closed again.
        assert holder.value("SELECT pg_backend_pid()") == place
        assert holder.value("SELECT count(*) FROM queued") == "0"


def test_the_reserve_is_for_those_who_waited(server):
    sizes = {"default_pool_size": 1, "reserve_pool_size": 1, "reserve_pool_timeout": "0.3"}
    with Pooler(server, **sizes) as pooler, pooler.connect() as holder, pooler.connect() as waiter:
        ask(holder, "BEGIN")
        started = time.monotonic()
        assert ask(waiter, "SELECT 1") == [(1,)]
        assert time.monotonic() - started > 0.25


def test_what_cannot_be_carried_pins_its_server(server):
    with Pooler(server, default_pool_size=3) as pooler, pooler.connect() as one, pooler.connect() as two:
        ask(one, "CREATE TEMP TABLE mine (a int)")
        ask(one, "INSERT INTO mine VALUES (5)")
        ask(two, "SELECT pg_advisory_lock(77)")
        with pooler.connect() as third:
            assert ask(third, "SELECT to_regclass('mine')") == [(None,)]
            assert ask(third, "SELECT pg_try_advisory_xact_lock(77)") == [(False,)]
            assert ask(one, "SELECT a FROM mine") == [(5,)]
            two.close()
            wait_until(lambda: ask(third, "SELECT pg_try_advisory_xact_lock(77)") == [(True,)])


def test_session_mode_keeps_the_server_and_cleans_it_afterwards(server):
    with Pooler(server, default_pool_size=1, pool_mode="session") as pooler:
        with pooler.connect() as one:
            ask(one, "PREPARE p AS SELECT 42")
            ask(one, "LISTEN channel")
            ask(one, "NOTIFY channel, 'hello'")
            assert ask(one, "EXECUTE p") == [(42,)]
            assert [(name, payload) for _, name, payload in one.notifications] == [("channel", "hello")]
        with pooler.connect() as two:
            assert ask(two, "SELECT count(*) FROM pg_prepared_statements") == [(0,)]


# Server connections that must be brought in line with a client first. That nothing of a client's goes out before, and what
# strikes meanwhile, is the simulation's subject.


@pytest.fixture(scope="module")
def owner(server):
    """A connection straight to the server; two tenants have tables of one name, of which some roles may use one."""
    with direct(server) as owner:
        owner.sql("DROP TABLE IF EXISTS aligned; CREATE TABLE aligned (who text)")
        for name in ("tenant_a", "tenant_b"):
            owner.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}; CREATE TABLE {name}.t (who text)")
        yield owner
        owner.sql("DROP SCHEMA tenant_a CASCADE; DROP SCHEMA tenant_b CASCADE")
        owner.sql("DROP ROLE IF EXISTS app_admin, app_reader")


@pytest.fixture(params=[True, False], ids=["pipelining", "without"])
def one(request, server, owner):
    """One server connection."""
    owner.sql("TRUNCATE aligned")
    with Pooler(server, default_pool_size=1, pipelining=request.param) as running:
        yield running


def test_sessions_that_need_no_alignment_go_before_one_that_does_and_not_for_long(owner, one):
    with contextlib.ExitStack() as stack:
        holder, x, *alike = (stack.enter_context(Raw(one.port)) for _ in range(26))
        assert x.sql("SET default_tablespace = 'pg_default'") == "C:SET Z:I"
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        for number, client in enumerate([x, *alike]):
            client.send(query(f"INSERT INTO aligned VALUES ('{'x' if client is x else number}')"))
            await_queue(one, number + 1)
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"
        for client in (x, *alike):
            assert client.ask() == "C:INSERT 0 1 Z:I"
        order = owner.value("SELECT string_agg(who, ' ' ORDER BY ctid) FROM aligned").split()
        assert order == [str(number) for number in range(1, 17)] + ["x"] + [str(number) for number in range(17, 25)]
        assert x.value("SHOW default_tablespace") == "pg_default" and holder.value("SHOW default_tablespace") == ""


@pytest.mark.parametrize(("settings", "most"), [("", 0), ("SET default_tablespace = 'pg_default'", 16)])
def test_reads_that_share_a_connection_go_before_a_write_not_for_long(owner, one, settings, most):
    reading = query("SELECT count(*) FROM aligned")
    with contextlib.ExitStack() as stack:
        holder, x, *readers = (stack.enter_context(Raw(one.port)) for _ in range(42))
        assert holder.ask(reading) == "T D:0 C:SELECT 1 Z:I"
        one.wait_for_catalog()
        for _ in range(4):
            assert holder.ask(reading) == "T D:0 C:SELECT 1 Z:I"
        x.sql(settings)
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        for number, client in enumerate([x, *readers], 1):
            client.send(query("INSERT INTO aligned VALUES ('x')") if client is x else reading)
            await_queue(one, number)
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"
        before = sum(reader.ask() == "T D:0 C:SELECT 1 Z:I" for reader in readers)
        assert x.ask() == "C:INSERT 0 1 Z:I"
        assert before <= most


WRITES = {"query": [query("INSERT INTO t VALUES ('B')")], "read": [query("SELECT count(*) FROM t")]}
WRITES["flushed"] = [parse("", "INSERT INTO t VALUES ('B')"), bind(""), EXECUTE, FLUSH]


@pytest.mark.parametrize("form", WRITES)
def test_a_client_whose_role_is_gone_does_nothing_as_another(owner, one, form):
    for role in ("app_admin", "app_reader"):
        owner.sql(f"DROP OWNED BY {role}")
        owner.sql(f"DROP ROLE IF EXISTS {role}")
        owner.sql(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA tenant_a TO {role}; GRANT ALL ON tenant_a.t TO {role}")
    with contextlib.ExitStack() as stack:
        a, b, c, *others = (stack.enter_context(Raw(one.port)) for _ in range(6))
        for client in (b, a):
            assert client.sql("SET search_path = tenant_a") == "C:SET Z:I"
        assert b.sql("SET ROLE app_reader") == "C:SET Z:I"
        for _ in range(3):
            assert b.sql("SELECT count(*) FROM t") == "T D:0 C:SELECT 1 Z:I"
        assert a.sql("SET ROLE app_admin") == "C:SET Z:I"
        owner.sql("DROP OWNED BY app_reader")
        assert owner.sql("DROP ROLE app_reader") == "C:DROP ROLE Z:I"
        # Those who wait for the connection meanwhile get it.
        a.sql("BEGIN")
        b.send(*WRITES[form])
        for number, client in enumerate(others, 2):
            await_queue(one, number - 1)
            client.send(query(f"SELECT 'of {number}' FOR UPDATE"))
        await_queue(one, len(others) + 1)
        assert a.sql("COMMIT") == "C:COMMIT Z:I"
        kind, body = b.next()
        assert kind == b"E" and b"VFATAL" in body and b"C22023" in body, (kind, body)
        assert b.is_closed()
        for number, client in enumerate(others, 2):
            assert client.ask() == f"T D:of {number} C:SELECT 1 Z:I"
        who = "SELECT current_user || ' ' || current_setting('search_path')"
        assert c.value(who) == 'postgres "$user", public'
        assert a.value(who) == "app_admin tenant_a"
        assert owner.value("SELECT count(*) FROM tenant_a.t") == owner.value("SELECT count(*) FROM tenant_b.t") == "0"
