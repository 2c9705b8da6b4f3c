"""`pg_dump` of the hub and of the shards, restored."""

import subprocess

from devkit.server import environment

EACH_VERSION = True


def restored(server, database, target):
    """Restores a dump of a database into a new one, without an error."""
    server.psql(f"CREATE DATABASE {target}")
    dump = server.run("pg_dump", database).stdout
    done = subprocess.run(
        server.psql_command(target, "-q", "-v", "ON_ERROR_STOP=1"),
        input=dump,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_hub_and_shards_can_be_restored(bare_fleet):
    fleet = bare_fleet
    fleet.add_shards()
    fleet.sql("SELECT howdah_shards.set_lease('0.1 s')")
    fleet.sql(
        "CREATE TABLE t (key int, id bigserial, a text, PRIMARY KEY (key, id)); INSERT INTO t (key, a) SELECT i, 'x' || i FROM generate_series(1, 200) i"
    )
    fleet.sql("CREATE TABLE u (key int, id bigint GENERATED ALWAYS AS IDENTITY)")
    fleet.sql(
        "SELECT FROM howdah_shards.distribute_table('t', 'key', 4); SELECT FROM howdah_shards.distribute_table('u', 'key', colocate_with => 't')"
    )
    what = """SELECT * FROM howdah_shards.routes ORDER BY table_name, slot; SELECT howdah_shards.map_version(), howdah_shards.lease();
        SELECT count(*), sum(hashtext(t::text)) FROM t; SELECT * FROM howdah_shards.tables ORDER BY 1; SELECT shard, number, slots FROM howdah_shards.shards ORDER BY 1"""
    rows = "SELECT count(*), sum(hashtext(t::text)) FROM t"
    before, of_shards = fleet.sql(what), {name: fleet.on(name, rows) for name in fleet.shards}
    again = f"{fleet.database}_again"
    servers = [fleet.hub, *fleet.shards.values()]
    try:
        for server in servers:
            restored(server, fleet.database, again)
        for name, server in fleet.shards.items():
            assert server.psql(rows, again) == of_shards[name]
            # The hub's copy goes to the shards' copies, as after a disaster.
            fleet.hub.psql(f"ALTER SERVER {name} OPTIONS (SET dbname '{again}')", again)
        assert fleet.hub.psql(what, again) == before
        # It works on: rows, ids, DDL and moves.
        assert fleet.hub.psql("INSERT INTO u (key) VALUES (1), (2) RETURNING id % 1024", again) == "0\n0"
        fleet.hub.psql("CALL howdah_shards.run_on_shards('ALTER TABLE t ADD COLUMN b int')", again)
        fleet.hub.psql("CALL howdah_shards.move_slot('t', 0, 's2')", again)
        assert fleet.hub.psql("SELECT count(*), count(b) FROM t", again) == "200|0"
        assert fleet.sql(what) == before
    finally:
        for server in servers:
            server.psql(f"DROP DATABASE IF EXISTS {again} WITH (FORCE)")
