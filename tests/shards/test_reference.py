"""Reference tables: a copy on each shard that follows the hub's."""

import time

import pytest

from devkit import Problem


def until(holds):
    """Waits until something holds."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in 30 s"
        time.sleep(0.02)


def test_copies_follow_the_hub(bare_fleet):
    fleet = bare_fleet
    fleet.add_shards("s1", "s2")
    fleet.sql("SELECT howdah_shards.set_lease('0.1 s')")
    fleet.sql(
        "CREATE TABLE countries (id serial PRIMARY KEY, name text UNIQUE); INSERT INTO countries (name) VALUES ('Peru'), ('Chad')"
    )
    with pytest.raises(Problem, match="the shards do not know how to reach the hub"):
        fleet.sql("CALL howdah_shards.reference_table('countries')")
    fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(fleet.hub)}')")
    fleet.sql("CALL howdah_shards.reference_table('countries')")
    assert fleet.sql("SELECT * FROM howdah_shards.routes") == "public|countries|reference|||||||"
    assert fleet.on("s2", "SELECT * FROM countries ORDER BY id") == "1|Peru\n2|Chad"
    # A second one, by the same subscriptions, and sharded tables that refer to the first.
    fleet.sql("CREATE TABLE kinds (id int PRIMARY KEY); CALL howdah_shards.reference_table('kinds')")
    fleet.sql("CREATE TABLE orders (key int, id int, country int REFERENCES countries, PRIMARY KEY (key, id))")
    fleet.sql(
        "INSERT INTO orders SELECT i, i, 1 + i % 2 FROM generate_series(1, 50) i; SELECT FROM howdah_shards.distribute_table('orders', 'key', 4)"
    )
    with pytest.raises(Problem, match='violates foreign key constraint "orders_country_fkey"'):
        fleet.sql("INSERT INTO orders VALUES (1, 1000, 77)")
    fleet.sql(
        "INSERT INTO countries (name) VALUES ('Oman'); UPDATE countries SET name = 'Mali' WHERE id = 2; TRUNCATE kinds"
    )
    for shard in ("s1", "s2"):
        until(lambda shard=shard: fleet.on(shard, "SELECT name FROM countries ORDER BY id") == "Peru\nMali\nOman")
    with pytest.raises(Problem, match="table countries is a copy of the hub's"):
        fleet.on("s1", "DELETE FROM countries")
    with pytest.raises(Problem, match="table countries is a copy of the hub's"):
        fleet.on("s1", "TRUNCATE countries CASCADE")

    # A new shard gets slots when it has the copies.
    fleet.add_shards("s3")
    with pytest.raises(Problem, match='shard "s3" has no copy of reference table public.countries'):
        fleet.sql("CALL howdah_shards.move_slot('orders', 0, 's3')")
    fleet.sql("CALL howdah_shards.reference_table('countries'); CALL howdah_shards.reference_table('kinds')")
    fleet.sql("CALL howdah_shards.move_slot('orders', 0, 's3')")
    assert (
        fleet.on("s3", "SELECT count(*) > 0, min(name) IS NOT NULL FROM orders JOIN countries c ON c.id = country")
        == "t|t"
    )

    with pytest.raises(
        Problem, match='foreign key "orders_country_fkey" of table public.orders refers to public.countries'
    ):
        fleet.sql("CALL howdah_shards.undistribute_table('countries')")
    fleet.sql("CALL howdah_shards.undistribute_table('kinds')")
    assert fleet.on("s1", "SELECT to_regclass('kinds') IS NULL") == "t"
    fleet.sql("CALL howdah_shards.undistribute_table('orders'); CALL howdah_shards.undistribute_table('countries')")
    assert fleet.sql("SELECT count(*), sum(country) FROM orders") == "50|75"
    for shard in fleet.shards:
        fleet.sql(f"SELECT howdah_shards.drop_shard('{shard}')")
        assert (
            fleet.on(
                shard,
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace; SELECT count(*) FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())",
            )
            == "0\n0"
        )
    assert fleet.sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == "0"


@pytest.mark.parametrize(
    "setup,named",
    [
        ("CREATE TABLE t (a int)", "has no primary key"),
        ("CREATE VIEW t AS SELECT 1", "is not an ordinary table"),
        (
            "CREATE TABLE u (a int PRIMARY KEY); CREATE TABLE t (a int PRIMARY KEY REFERENCES u)",
            '"t_a_fkey" refers to public.u',
        ),
    ],
)
def test_what_cannot_be_a_reference_table_is_refused(fleet, setup, named):
    fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(fleet.hub)}')")
    fleet.sql(setup)
    with pytest.raises(Problem, match=named):
        fleet.sql("CALL howdah_shards.reference_table('t')")
