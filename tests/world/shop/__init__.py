"""A shop on a sharded database behind the pooler, and on one plain database: programs of several clients use both alike."""

import contextlib

from devkit.server import SUPERUSER
from tests.pooler.process import Pooler
from tests.shards import fleet as fleets

TABLES = """
CREATE TABLE countries (code text PRIMARY KEY, name text NOT NULL);
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text NOT NULL, email text NOT NULL, country text,
    balance numeric(12, 2) NOT NULL DEFAULT 0, notes jsonb, joined timestamptz NOT NULL DEFAULT now(), UNIQUE (customer_id, email));
CREATE TABLE orders (customer_id bigint, order_id int, total numeric(10, 2) NOT NULL DEFAULT 0, status text NOT NULL DEFAULT 'new',
    placed timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (customer_id, order_id));
CREATE TABLE lines (customer_id bigint, order_id int, line int, product text NOT NULL, price numeric(10, 2) NOT NULL,
    PRIMARY KEY (customer_id, order_id, line));
CREATE TABLE visits (visit uuid PRIMARY KEY, page text NOT NULL, tags text[] NOT NULL DEFAULT '{}');
INSERT INTO countries VALUES ('de', 'Germany'), ('in', 'India'), ('th', 'Thailand');
"""
DISTRIBUTE = """
SELECT FROM howdah_shards.distribute_table('customers', 'customer_id', 8);
SELECT FROM howdah_shards.distribute_table('orders', 'customer_id', colocate_with => 'customers');
SELECT FROM howdah_shards.distribute_table('lines', 'customer_id', colocate_with => 'customers');
SELECT FROM howdah_shards.distribute_table('visits', 'visit', 8);
CALL howdah_shards.reference_table('countries');
CALL howdah_shards.run_on_shards('ALTER TABLE lines ADD FOREIGN KEY (customer_id, order_id) REFERENCES orders', hub => false);
"""


@contextlib.contextmanager
def shop(hub, shards):
    """URLs of the shop's two databases, by the way to them: one server, and the pooler before a hub and its shards."""
    with fleets.fleet(hub, shards, "shop") as fleet:
        hub.psql("CREATE DATABASE plain")
        try:
            fleet.add_shards()
            fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(hub)}')")
            fleet.sql(TABLES + DISTRIBUTE)
            hub.psql(TABLES + "ALTER TABLE lines ADD FOREIGN KEY (customer_id, order_id) REFERENCES orders", "plain")
            line = "host=127.0.0.1 port={} dbname={} user=postgres password={}".format
            entries = {"shop": line(hub.port, fleet.database, hub.password) + f" shards='{','.join(shards)}'"}
            entries |= {name: line(server.port, fleet.database, server.password) for name, server in shards.items()}
            with Pooler(hub, databases=entries) as pooler:
                yield {"plain": hub.url("plain"), "pooled": f"postgres://{SUPERUSER}:x@127.0.0.1:{pooler.port}/shop"}
        finally:
            hub.psql("DROP DATABASE plain WITH (FORCE)")
