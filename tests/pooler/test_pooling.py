"""Lending, waiting, giving back; and what must not leak from one client to another."""

import threading
import time

import pytest

from tests.pooler.process import Pooler, ask, wait_until
from tests.pooler.raw import Raw, query


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
            wait_until(lambda number=number: int(pooler.show("POOLS")[0]["cl_waiting"]) == number + 1)
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
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "10")
        for client in waiting:
            client.reset() if how == "reset" else client.socket.close()
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "0")
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
