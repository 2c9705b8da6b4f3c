"""Slots move there and back under clients of two poolers: no client sees an error, and no row is lost or doubled."""

import asyncio
import itertools
import sys
import threading
import time

import asyncpg
import psycopg
import pytest

from tests.pooler.process import wait_until
from tests.shards import fleet as fleets

TENANTS, SLOTS = 12, 6
TABLES = f"""
CREATE TABLE counts (tenant bigint PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE marks (tenant bigint, id bigint, PRIMARY KEY (tenant, id));
INSERT INTO counts SELECT i, 0 FROM generate_series(1, {TENANTS}) i;
SELECT FROM howdah_shards.distribute_table('counts', 'tenant', {SLOTS});
SELECT FROM howdah_shards.distribute_table('marks', 'tenant', colocate_with => 'counts');
"""
COUNT = "UPDATE counts SET n = n + 1 WHERE tenant = {} RETURNING n"
MARK = "INSERT INTO marks VALUES ({}, {})"


class Clients:
    """Clients of several kinds, and what they have done."""

    def __init__(self, ports):
        self.ports = ports
        self.ids, self.over = itertools.count(1), threading.Event()
        self.counted, self.marked, self.waits, self.failures = [], [], {}, []

    def note(self, kind, since):
        """Notes how long a client of this kind and number has waited."""
        self.waits.setdefault(kind, []).append(time.monotonic() - since)

    def place(self, number):
        """The connection string of a client of this number."""
        return f"host=127.0.0.1 port={self.ports[number % len(self.ports)]} dbname=app user=postgres"

    def run(self, kind, number):
        """The work of a client in a thread."""
        try:
            prepare = {"simple": None, "extended": 0}.get(kind, 5)
            with psycopg.connect(self.place(number), autocommit=True) as connection:
                connection.prepare_threshold = prepare
                cursor = psycopg.ClientCursor(connection) if kind == "simple" else connection.cursor()
                for turn in itertools.count(number):
                    if self.over.is_set():
                        return
                    tenant, began = turn % TENANTS + 1, time.monotonic()
                    getattr(self, kind)(connection, cursor, tenant)
                    self.note((kind, number), began)
        except Exception as failure:
            self.failures.append((kind, repr(failure)))

    def simple(self, _connection, cursor, tenant):
        """A single statement, of the simple protocol in a `ClientCursor`."""
        assert cursor.execute(COUNT.format("%s"), (tenant,)).fetchall(), tenant
        self.counted.append(tenant)

    extended = simple

    def transaction(self, connection, cursor, tenant):
        """A short transaction with a savepoint."""
        mark = next(self.ids)
        with connection.transaction():
            cursor.execute(MARK.format("%s", "%s"), (tenant, mark))
            with connection.transaction():
                self.simple(connection, cursor, tenant)
            found = cursor.execute("SELECT count(*) FROM marks WHERE tenant = %s AND id = %s", (tenant, mark))
            assert found.fetchone() == (1,), (tenant, mark)
        self.marked.append(mark)

    def pipelined(self, connection, cursor, tenant):
        """Units of one client on their way together, each of its own."""
        marks = [next(self.ids) for _ in range(4)]
        with connection.pipeline() as pipeline:
            for place, mark in enumerate(marks):
                cursor.execute(MARK.format("%s", "%s"), ((tenant + place) % TENANTS + 1, mark))
                pipeline.sync()
        self.marked += marks

    async def asyncio(self, number):
        """The work of a client of asyncpg."""
        try:
            connection = await asyncpg.connect(
                host="127.0.0.1", port=self.ports[number % len(self.ports)], database="app", user="postgres"
            )
            for turn in itertools.count(number):
                if self.over.is_set():
                    break
                tenant, began = turn % TENANTS + 1, time.monotonic()
                assert await connection.fetch(COUNT.format("$1"), tenant), tenant
                self.counted.append(tenant)
                self.note(("asyncpg", number), began)
            await connection.close()
        except Exception as failure:
            self.failures.append(("asyncpg", repr(failure)))

    def threads(self):
        """A thread for each client."""
        kinds = ("simple", "extended", "pipelined", "transaction")
        for kind, number in itertools.product(kinds, range(2)):
            yield threading.Thread(target=self.run, args=(kind, number), daemon=True)
        for number in range(2):
            yield threading.Thread(target=lambda number=number: asyncio.run(self.asyncio(number)), daemon=True)


@pytest.mark.parametrize("pool_size", [20, 2])
def test_clients_see_no_error_while_slots_move(fleet, pool_size):
    fleet.sql(TABLES + "SELECT howdah_shards.set_lease('1 second')")
    with (
        fleets.pooler(fleet, default_pool_size=pool_size) as one,
        fleets.pooler(fleet, default_pool_size=pool_size) as other,
    ):
        clients = Clients([one.port, other.port])
        threads = list(clients.threads())
        for thread in threads:
            thread.start()
        wait_until(lambda: clients.failures or len(clients.waits) == len(threads))
        clients.waits.clear()
        for slot, shard in ((0, "s2"), (1, "s3"), (0, "s1"), (1, "s2")):
            fleet.sql(f"CALL howdah_shards.move_slot('counts', {slot}, '{shard}')")
        clients.over.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive(), "a client hangs"
    for (kind, number), waits in sorted(clients.waits.items()):
        print(f"{kind} {number}: {len(waits)} times, the longest wait {max(waits):.3f} s", file=sys.stderr)
    assert not clients.failures, clients.failures
    assert sorted(map(int, fleet.sql("SELECT id FROM marks").split())) == sorted(clients.marked)
    assert int(fleet.sql("SELECT sum(n) FROM counts")) == len(clients.counted)
    of = dict(line.split("|") for line in fleet.sql("SELECT tenant, n FROM counts").splitlines())
    assert of == {str(tenant): str(clients.counted.count(tenant)) for tenant in range(1, TENANTS + 1)}
