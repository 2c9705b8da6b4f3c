"""`move_slot`, `rebalance` and `undistribute_table`: rows stay, while others write."""

import contextlib
import threading

import pytest

from devkit import Problem
from devkit.client import connection
from tests.pooler.process import wait_until

EACH_VERSION = True

TABLES = """
CREATE TABLE orders (tenant int, id bigserial, note text, twice int GENERATED ALWAYS AS (tenant * 2) STORED, PRIMARY KEY (tenant, id));
CREATE INDEX by_note ON orders (note);
CREATE TABLE lines (tenant int, "order" bigint, amount numeric(10, 2));
INSERT INTO orders (tenant, note) SELECT i % 40, 'n' || i FROM generate_series(1, 2000) i;
INSERT INTO lines SELECT tenant, id, id FROM orders, generate_series(1, 2);
SELECT FROM howdah_shards.distribute_table('orders', 'tenant', 6);
SELECT FROM howdah_shards.distribute_table('lines', 'tenant', colocate_with => 'orders');
CALL howdah_shards.run_on_shards('ALTER TABLE lines ADD FOREIGN KEY (tenant, "order") REFERENCES orders ON DELETE CASCADE', hub => false);
"""
PHYSICAL = "(SELECT * FROM pg_replication_slots WHERE slot_type = 'physical') s"
SUMS = "SELECT count(*), sum(hashtext(o::text)) FROM orders o; SELECT count(*), sum(hashtext(l::text)) FROM lines l"


@pytest.fixture
def tables(fleet):
    """Two colocated tables, one of which refers to the other."""
    fleet.sql("SELECT howdah_shards.set_lease('0.1 s')")
    fleet.sql(TABLES)
    return fleet


def placed(fleet):
    """The slots of each shard, of both tables."""
    return fleet.sql(
        "SELECT table_name, shard, string_agg(slot::text, ' ' ORDER BY slot) FROM howdah_shards.routes GROUP BY 1, 2 ORDER BY 1, 2"
    )


def test_a_moved_slot_is_on_the_standbys_of_its_shard(tables):
    rows = int(tables.sql("SELECT count(*) FROM orders_s0"))
    with (
        tables.shards["s3"].replica({"recovery_min_apply_delay": "1500ms"}) as replica,
        contextlib.ExitStack() as stack,
    ):
        mover = threading.Thread(target=tables.sql, args=("CALL howdah_shards.move_slot('lines', 0, 's3')",))
        mover.start()
        stack.callback(mover.join)
        where = "SELECT shard FROM howdah_shards.routes WHERE table_name = 'orders' AND slot = 0"
        while tables.sql(where) != "s3":
            assert mover.is_alive()
        slot = "satisfies_hash_partition('orders'::regclass, 6, 0, tenant)"
        assert int(replica.psql(f"SELECT count(*) FROM orders WHERE {slot}", tables.database)) == rows > 0
    wait_until(lambda: tables.on("s3", f"SELECT count(*) FROM {PHYSICAL} WHERE active") == "0")
    tables.on("s3", f"SELECT pg_drop_replication_slot(slot_name) FROM {PHYSICAL}")


def test_a_slot_moves_with_those_of_colocated_tables(tables):
    sums, version = tables.sql(SUMS), int(tables.sql("SELECT howdah_shards.map_version()"))
    shown = tables.sql("CALL howdah_shards.move_slot('lines', 0, 's3', dry_run => true)")
    assert "CREATE PUBLICATION" in shown and "ATTACH PARTITION" in shown and tables.shards["s1"].password not in shown
    tables.sql("CALL howdah_shards.move_slot('lines', 0, 's3')")
    assert placed(tables).splitlines() == [
        f"{table}|{shard}" for table in ("lines", "orders") for shard in ("s1|3", "s2|1 4", "s3|0 2 5")
    ]
    assert tables.sql(SUMS) == sums and int(tables.sql("SELECT howdah_shards.map_version()")) > version
    assert tables.on("s1", "SELECT to_regclass('orders_s0') IS NULL AND to_regclass('lines_s0') IS NULL") == "t"
    # The shard's own tables are whole: keys, indexes, foreign keys, rows of that slot alone.
    assert (
        tables.on("s3", "SELECT bool_and(satisfies_hash_partition('orders'::regclass, 6, 0, tenant)) FROM orders_s0")
        == "t"
    )
    assert (
        tables.on(
            "s3", "SELECT count(*) FROM pg_inherits WHERE inhparent IN ('orders_pkey'::regclass, 'by_note'::regclass)"
        )
        == "6"
    )
    with pytest.raises(Problem, match="violates foreign key constraint"):
        tables.sql("INSERT INTO lines SELECT tenant, -1, 0 FROM orders_s0 LIMIT 1")
    tables.sql("DELETE FROM orders WHERE tenant = (SELECT min(tenant) FROM orders_s0)")
    assert tables.sql("SELECT count(*) FROM lines WHERE tenant = (SELECT min(tenant) FROM orders_s0)") == tables.sql(
        "SELECT 2 * count(*) FROM orders WHERE tenant = (SELECT min(tenant) FROM orders_s0)"
    )
    for server in tables.shards.values():
        assert (
            server.psql(
                "SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_subscription)",
                tables.database,
            )
            == "0"
        )
    # A repeat does nothing, and the way back is open.
    assert "is on s3" in tables.sql("CALL howdah_shards.move_slot('lines', 0, 's3')")
    tables.sql("CALL howdah_shards.move_slot('orders', 0, 's1')")
    assert placed(tables).splitlines()[0] == "lines|s1|0 3"


def test_rebalance_plans_moves_that_even_shards_out(bare_fleet):
    fleet = bare_fleet
    fleet.add_shards("s1")
    fleet.sql("SELECT howdah_shards.set_lease('0.1 s')")
    fleet.sql(TABLES)
    sums = fleet.sql(SUMS)
    assert fleet.sql("SELECT * FROM howdah_shards.rebalance()") == ""
    fleet.add_shards("s2", "s3")
    moves = fleet.sql("SELECT statement FROM howdah_shards.rebalance()").splitlines()
    assert len(moves) == 4
    for move in moves:
        fleet.sql(move)
    assert fleet.sql("SELECT * FROM howdah_shards.rebalance()") == "" and fleet.sql(SUMS) == sums
    assert fleet.sql("SELECT slots FROM howdah_shards.shards ORDER BY shard") == "4\n4\n4"
    with pytest.raises(Problem, match='shard "s1" has slots: 4'):
        fleet.sql("SELECT howdah_shards.drop_shard('s1')")


# The shard of a tenant's row, by the hub's oracle.
WHERE = """SELECT shard FROM howdah_shards.routes r JOIN pg_class c ON c.relname = 'orders'
    WHERE table_name = 'orders' AND satisfies_hash_partition(c.oid, 6, slot, %s::int)"""


class Writer(threading.Thread):
    """A client that inserts rows by one way until it is told to stop, and keeps those that were acknowledged."""

    def __init__(self, fleet, number, direct):
        super().__init__()
        self.fleet, self.number, self.direct = fleet, number, direct
        self.kept, self.refused, self.failed = [], 0, None
        self.over = threading.Event()

    def run(self):
        """Inserts, and keeps the error that ended it, if one did."""
        try:
            self._run()
        except Exception as error:
            self.failed = error

    def _run(self):
        with contextlib.ExitStack() as stack:
            servers = {"hub": self.fleet.hub, **self.fleet.shards}
            ways = {
                name: stack.enter_context(connection(server, self.fleet.database)) for name, server in servers.items()
            }
            hub = ways["hub"].cursor()
            number = 0
            while not self.over.is_set():
                number += 1
                tenant, row = number % 40, 10_000_000 * self.number + number
                way = "hub"
                if self.direct:
                    hub.execute(WHERE % tenant)
                    way = hub.fetchone()[0]
                while True:
                    try:
                        ways[way].cursor().execute(
                            f"INSERT INTO orders (tenant, id, note) VALUES ({tenant}, {row}, 'w')"
                        )
                        break
                    except Exception as error:
                        said = error.args[0]
                        # Refused by the old place, or sent there by a map that was read before.
                        assert said.get("n") == "howdah_shards_moved" or (said["C"] == "23514" and self.direct), said
                        self.refused += 1
                        if self.direct:
                            hub.execute(WHERE % tenant)
                            way = hub.fetchone()[0]
                self.kept.append(row)


def test_writers_lose_nothing_while_slots_move(tables):
    writers = [Writer(tables, 1, direct=False), Writer(tables, 2, direct=True)]
    for writer in writers:
        writer.start()
    try:
        for slot, shard in ((0, "s2"), (1, "s3"), (0, "s1")):
            tables.sql(f"CALL howdah_shards.move_slot('orders', {slot}, '{shard}')")
        tables.sql(
            "CALL howdah_shards.run_on_shards('ALTER TABLE lines DROP CONSTRAINT lines_tenant_order_fkey', hub => false)"
        )
    finally:
        for writer in writers:
            writer.over.set()
            writer.join(60)
    assert [writer.failed for writer in writers] == [None, None]
    kept = sorted(row for writer in writers for row in writer.kept)
    assert list(map(int, tables.sql("SELECT id FROM orders WHERE note = 'w' ORDER BY 1").split())) == kept
    assert all(writer.kept for writer in writers)


def test_a_table_comes_back_whole(tables):
    with pytest.raises(
        Problem, match='foreign key "lines_tenant_order_fkey" is between public.lines and public.orders'
    ):
        tables.sql("CALL howdah_shards.undistribute_table('orders')")
    tables.sql(
        "CALL howdah_shards.run_on_shards('ALTER TABLE lines DROP CONSTRAINT lines_tenant_order_fkey', hub => false)"
    )
    sums = tables.sql(SUMS)
    assert "RENAME" in tables.sql("CALL howdah_shards.undistribute_table('orders', dry_run => true)")
    tables.sql("CALL howdah_shards.undistribute_table('orders'); CALL howdah_shards.undistribute_table('lines')")
    assert tables.sql(SUMS) == sums
    assert tables.sql("SELECT relkind FROM pg_class WHERE relname IN ('orders', 'lines')") == "r\nr"
    assert (
        tables.sql(
            "SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'orders'::regclass"
        )
        == "by_note orders_pkey"
    )
    assert tables.sql("INSERT INTO orders (tenant) VALUES (1), (1) RETURNING id > 2000") == "t\nt"
    for shard in tables.shards:
        assert tables.on(shard, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == "0"
    # And goes again.
    tables.sql("SELECT FROM howdah_shards.distribute_table('orders', 'tenant', 6)")
    assert tables.sql("SELECT count(*) FROM orders") == "2002"


@pytest.mark.parametrize(
    "call,named",
    [
        ("move_slot('orders', 6, 's1')", "there is no slot 6 of a sharded table public.orders"),
        ("move_slot('orders', 0, 's9')", 'there is no shard "s9"'),
        ("move_slot('pg_class', 0, 's1')", "there is no slot 0"),
        ("undistribute_table('pg_class')", "pg_class is neither a sharded table nor a reference table"),
    ],
)
def test_bad_calls_are_refused(tables, call, named):
    with pytest.raises(Problem, match=named):
        tables.sql(f"CALL howdah_shards.{call}")
