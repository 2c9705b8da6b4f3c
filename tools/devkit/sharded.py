"""A sharded database on one machine: a hub, shards, their replicas, and a pooler that sends statements to them.

    with ShardedFleet(shards=3) as fleet:
        fleet.psql("SELECT * FROM orders WHERE customer_id = 1")          # through the pooler, on one shard

Applications use the pooler, which speaks to the shards, and to the hub, which sees them all.
"""

import json
import time
from pathlib import Path

from devkit import Problem
from devkit.fleet import USER, Fleet, found
from devkit.postgres import NEWEST, tree
from devkit.server import Server
from devkit.shards import install_into

SHARDED = {
    "wal_level": "logical",
    "max_prepared_transactions": "20",
    "max_replication_slots": "20",
    "max_logical_replication_workers": "12",
    "max_worker_processes": "24",
    # What lets the hub push joins and groups down to the shards.
    "enable_partitionwise_join": "on",
    "enable_partitionwise_aggregate": "on",
}
TABLES = """
CREATE TABLE countries (country text PRIMARY KEY, name text NOT NULL);
CREATE TABLE customers (customer_id bigint PRIMARY KEY, name text NOT NULL, country text NOT NULL);
CREATE TABLE orders (customer_id bigint, order_id bigserial, placed timestamptz NOT NULL DEFAULT now(),
    total numeric(10, 2) NOT NULL, PRIMARY KEY (customer_id, order_id));
INSERT INTO countries VALUES ('de', 'Germany'), ('fr', 'France'), ('in', 'India'), ('th', 'Thailand');
INSERT INTO customers SELECT i, 'customer ' || i, ('{de,fr,in,th}'::text[])[1 + i % 4] FROM generate_series(1, 10000) i;
INSERT INTO orders (customer_id, placed, total)
    SELECT 1 + i % 10000, now() - i * interval '10 min', 1 + i * 7919 % 10000 / 100.0 FROM generate_series(1, 50000) i;
SELECT FROM howdah_shards.distribute_table('customers', 'customer_id');
SELECT FROM howdah_shards.distribute_table('orders', 'customer_id', colocate_with => 'customers');
CALL howdah_shards.reference_table('countries');
CALL howdah_shards.run_on_shards('ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES customers', hub => false);
"""


class ShardedFleet(Fleet):
    """A sharded database. Its `primary` is the hub; `shards` are the primaries of the shards by their names."""

    database = "shop"
    has_proxy = False

    def __init__(self, shards=3, replicas=0, poolers=1, home=None):
        super().__init__(replicas, poolers, home)
        self.settings |= SHARDED
        self.count_of_shards = shards
        self.shards = {}

    def start_servers(self):
        """The hub and the shards with the tables, then the replicas."""
        chosen = tree(NEWEST)
        install_into(chosen)
        for name in ("hub", *(f"s{number}" for number in range(1, self.count_of_shards + 1))):
            server = Server(chosen, {**self.settings, **self.fsync}, self.home_of(name))
            server.name = name
            if name == "hub":
                self.primary = server
            else:
                self.shards[name] = server
            server.create()
            server.start(detached=self.stays)
            self.save()
        self.fill()
        for name, server in [("hub", self.primary), *self.shards.items()]:
            for number in range(1, self.count + 1):
                self.replicas.append(self.new_replica(f"{name}-replica-{number}", server))
        self.save()

    def fill(self):
        """Makes the database, its user and its tables, and distributes them."""
        password = self.primary.password
        for server in [self.primary, *self.shards.values()]:
            server.psql(f"CREATE DATABASE {self.database}")
            server.psql(f"CREATE ROLE {USER} LOGIN PASSWORD '{password}'; GRANT pg_monitor TO {USER}")
        place = f"host=127.0.0.1 port={{}} dbname={self.database} user=postgres password={{}}".format
        lines = [
            "SET client_min_messages = warning; CREATE SCHEMA contrib",
            "CREATE EXTENSION dblink SCHEMA contrib; CREATE EXTENSION postgres_fdw SCHEMA contrib",
            "CREATE EXTENSION howdah_shards",
            f"SELECT howdah_shards.set_hub('{place(self.primary.port, password)}')",
        ]
        for name, server in self.shards.items():
            lines += [
                f"SELECT FROM howdah_shards.add_shard('{name}', '{place(server.port, server.password)}')",
                f"CREATE USER MAPPING FOR {USER} SERVER {name} OPTIONS (user '{USER}', password '{password}')",
            ]
        rights = (
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON customers, orders, countries TO {USER}; "
            f"GRANT USAGE ON SEQUENCE orders_order_id_seq TO {USER}"
        )
        lines += [TABLES, f"CALL howdah_shards.run_on_shards('{rights}')", "ANALYZE customers, orders"]
        self.primary.psql(";\n".join(lines), self.database)

    def entries(self):
        """The databases of the pooler."""
        shards = json.dumps(list(self.shards))
        yield self.database, [self.primary, *self.replicas_of("hub")], f"shards = {shards}"
        for name, server in self.shards.items():
            yield name, [server, *self.replicas_of(name)], f'dbname = "{self.database}"'

    def replicas_of(self, name):
        """The replicas of the hub or of a shard."""
        return [replica for replica in self.replicas if replica.name.startswith(f"{name}-replica-")]

    def wait(self, seconds=60):
        """Waits until the poolers know where a customer's rows are, and answer there."""
        deadline = time.monotonic() + seconds
        ask = "SHOW ROUTE FOR 'SELECT FROM customers WHERE customer_id = 1'"
        count = "SELECT count(*) FROM orders WHERE customer_id = 1"
        while True:
            try:
                routes = [self.psql(ask, pooler.port).split("|")[0] for pooler in self.poolers]
                if all(route in self.shards for route in routes) and self.psql(count) == "5":
                    return
                problem = f"the poolers send a customer to {routes}"
            except Problem as met:
                problem = met
            if time.monotonic() > deadline:
                raise Problem(f"the database did not answer in {seconds} s: {problem} (its logs are in {self.home})")
            time.sleep(0.1)

    # What is where

    @property
    def servers(self):
        """The hub, the shards, and the replicas."""
        return [server for server in [self.primary, *self.shards.values(), *self.replicas] if server is not None]

    @property
    def databases(self):
        """The entries of the pooler."""
        return [self.database, *self.shards]

    def name_of(self, server):
        """What a server is called."""
        return server.name

    def beside(self, server):
        """The servers with the same data."""
        name = server.name.partition("-")[0]
        return [self.primary if name == "hub" else self.shards[name], *self.replicas_of(name)]

    @property
    def port(self):
        """The port of the first pooler."""
        return self.poolers[0].port

    def hints(self):
        """How to connect, for people."""
        return [
            f"connect through the pooler with {self.url}",
            f"and to the hub itself, as its superuser, with {self.primary.url(self.database)}",
            "customers and orders are sharded by customer_id, countries is a reference table; try there",
            "    SHOW ROUTE FOR 'SELECT * FROM orders WHERE customer_id = 7';",
            *super().hints()[1:],
        ]

    def state(self):
        """What `load` makes it from again."""
        return super().state() | {"shards": {name: server.port for name, server in self.shards.items()}}

    @classmethod
    def load(cls, home):
        """The one that another process has left at `home`; None if there is none."""
        try:
            state = json.loads((Path(home) / "state.json").read_text())
        except (OSError, ValueError):
            return None
        if "shards" not in state:
            return None
        fleet = cls(len(state["shards"]), 0, len(state["poolers"]), home)
        fleet.take_up(state, "hub")
        for name, port in state["shards"].items():
            fleet.shards[name] = found(fleet.home_of(name), port)
            fleet.shards[name].name = name
        fleet.primary.name = "hub"
        return fleet
