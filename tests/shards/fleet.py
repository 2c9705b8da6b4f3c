"""A hub and its shards: servers of one PostgreSQL, with the extension on the hub."""

import contextlib
import time

from devkit import Problem, postgres
from devkit.server import Server
from devkit.shards import install_into
from tests.pooler.process import Pooler

SETTINGS = {"wal_level": "logical", "max_prepared_transactions": "10", "max_logical_replication_workers": "12",
            "max_worker_processes": "24", "max_replication_slots": "20", "max_wal_senders": "20"}  # fmt: skip


class Fleet:
    """A hub, its shards by their names, and a database of the same name on all."""

    def __init__(self, hub, shards, database):
        self.hub = hub
        self.shards = shards
        self.database = database

    def conninfo(self, server):
        """How the hub reaches a server."""
        return f"host=127.0.0.1 port={server.port} dbname={self.database} user=postgres password={server.password}"

    def sql(self, text):
        """What the hub answers."""
        return self.hub.psql(text, self.database)

    def on(self, shard, text):
        """What a shard answers."""
        return self.shards[shard].psql(text, self.database)

    def add_shards(self, *names):
        """Makes shards of the servers of these names, all unless some are named."""
        for name in names or self.shards:
            self.sql(f"SELECT count(*) FROM howdah_shards.add_shard('{name}', '{self.conninfo(self.shards[name])}')")

    def wipe(self):
        """Drops all tables, everywhere, and gives the lease its default."""
        for shard in self.shards:
            self.on(shard, f"{EMPTY} TRUNCATE howdah_shard.made")
        self.sql(f"{EMPTY} SELECT howdah_shards.set_lease('5 seconds')")


EMPTY = "SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public;"


@contextlib.contextmanager
def servers(major, count=3, settings=None):
    """A hub and so many shards, without databases."""
    tree = postgres.tree(major)
    install_into(tree)
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(Server(tree, SETTINGS | (settings or {}))) for _ in range(count + 1)]
        yield made[0], {f"s{number}": server for number, server in enumerate(made[1:], 1)}


@contextlib.contextmanager
def fleet(hub, shards, database):
    """A database of this name on all of the servers, with the extension on the hub's."""
    everywhere = [hub, *shards.values()]
    for server in everywhere:
        server.psql(f"CREATE DATABASE {database}")
    try:
        made = Fleet(hub, shards, database)
        # Not in `public`, with which they would be dropped.
        made.sql(
            "CREATE SCHEMA contrib; CREATE EXTENSION dblink SCHEMA contrib; CREATE EXTENSION postgres_fdw SCHEMA contrib"
        )
        made.sql("CREATE EXTENSION howdah_shards")
        yield made
    finally:
        drop(everywhere, database)


def drop(servers, database):
    """Drops a database on all of these servers, with its subscriptions and their slots."""
    for server in servers:
        subscriptions = "SELECT format('ALTER SUBSCRIPTION %1$I DISABLE; ALTER SUBSCRIPTION %1$I SET (slot_name = NONE); DROP SUBSCRIPTION %1$I;', subname) FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE datname = current_database()"
        server.psql(f"{subscriptions} \\gexec", database)
    # By now no subscription connects to any of them again.
    for server in servers:
        slots = f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{database}'"
        server.psql(
            f"SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots WHERE database = '{database}' AND active; {slots}",
            database,
        )
    for server in servers:
        server.psql(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


def entries(fleet):
    """The databases of the pooler: that of the hub, and one for each shard."""
    line = "host=127.0.0.1 port={} dbname={} user=postgres password={}".format
    names = ",".join(fleet.shards)
    made = {"app": line(fleet.hub.port, fleet.database, fleet.hub.password) + f" shards='{names}'"}
    return made | {name: line(s.port, fleet.database, s.password) for name, s in fleet.shards.items()}


@contextlib.contextmanager
def pooler(fleet, **settings):
    """A pooler before a fleet."""
    with Pooler(fleet.hub, databases=entries(fleet), **settings) as made:
        yield made


def begin_again(server):
    """Starts a server that was killed, at its old port, when its last process has gone."""
    server._process.wait(30)
    for attempt in range(100):
        try:
            server.start(port=server.port)
            return
        except Problem:
            if attempt == 99:
                raise
            time.sleep(0.1)
