"""Models: trained and deployed on the hub over all rows, and the same on each shard."""

import signal
import subprocess

import psycopg
import psycopg.sql
import pytest

from devkit import Problem
from devkit.client import connection
from tests.shards import fleet as fleets
from tests.shards.fleet import begin_again, pooler
from tests.shards.test_dump import restored
from tests.shards.test_reference import until

EACH_VERSION = True

SALES = """
    CREATE TABLE sales (customer_id int, id int, amount float8, visits int, city text, placed date, rare text,
        returned boolean, total float8, PRIMARY KEY (customer_id, id));
    INSERT INTO sales SELECT i % 53, i, CASE WHEN i % 11 > 0 THEN i * 7919 % 1000 / 7.0 END, i % 9,
        (ARRAY['Bonn', 'Ulm', 'Kassel', 'Jena'])[1 + i * 31 % 4], date '2024-01-01' + i * 13 % 700, 'r' || i % 40,
        (i * 7919 % 1000 + i % 4 * 300) > 900, i * 7919 % 1000 / 3.0 + i % 9 + i * 31 % 4 * 20
    FROM generate_series(1, 900) i;
"""
FEATURES = "SELECT customer_id, amount, visits, city, placed, rare, {} FROM sales"
TRAININGS = {
    "xgboost": "'regression', '(%s)', 'total', 'xgboost', hyperparams => '{\"n_estimators\": 20}'" % FEATURES.format("total"),
    "lightgbm": "'classification', '(%s)', 'returned', 'lightgbm', hyperparams => '{\"num_threads\": 1}'" % FEATURES.format("returned"),
    "linear": "'regression', '(%s)', 'total', 'linear'" % FEATURES.format("total"),
    "random_forest": "'classification', '(%s)', 'returned', 'random_forest'" % FEATURES.format("returned"),
    "prepared": "'regression', 'sales', 'total', 'ridge', preprocess => '"
    '{"city": {"encode": "target"}, "rare": {"encode": {"hash": 8}}, "amount": {"impute": "median", "indicator": true, '
    '"scale": "robust"}, "returned": {"role": "ignore"}, "id": {"role": "ignore"}}\'',
}  # fmt: skip
NOTHING = "SELECT count(*) FROM pgml.projects"


@pytest.fixture(scope="module")
def own_servers(major):
    """A hub and two shards that may be killed."""
    with fleets.servers(major, 2) as made:
        yield made


@pytest.fixture
def published(own_servers):
    """A fleet whose hub publishes its models, with a table of sales."""
    with fleets.fleet(*own_servers, "models") as made:
        made.add_shards()
        made.sql(f"SELECT howdah_shards.set_hub('{made.conninfo(made.hub)}')")
        made.sql("CALL howdah_shards.run_on_shards('CREATE EXTENSION pgml', two_phase => false)")
        made.sql(f"{SALES} SELECT FROM howdah_shards.distribute_table('sales', 'customer_id', 4)")
        made.sql("CALL howdah_shards.publish_models()")
        yield made


def train(fleet, project, arguments=None):
    """Trains on the hub."""
    fleet.sql(f"SET client_min_messages = warning; SELECT pgml.train('{project}', {arguments or TRAININGS[project]})")


def answers(ask, project):
    """The bits of all predictions of a server, by the row's id."""
    sql = f"SELECT id, float4send(pgml.predict('{project}', s)) FROM sales s ORDER BY id"
    return dict(line.split("|") for line in ask(sql).splitlines())


def of_shards(fleet, project):
    """The same of all shards together."""
    found = {}
    for shard in fleet.shards:
        found |= answers(lambda sql, shard=shard: fleet.on(shard, sql), project)
    return found


def until_deployed(fleet, project):
    """Waits until each shard has what is deployed on the hub."""
    deployed = (
        f"SELECT max(d.id) FROM pgml.deployments d JOIN pgml.projects p ON p.id = project_id WHERE p.name = '{project}'"
    )
    there = fleet.sql(deployed)
    for shard in fleet.shards:
        until(lambda shard=shard: fleet.on(shard, deployed) == there)


def test_each_server_predicts_the_same_to_the_last_bit(published):
    fleet = published
    for project in TRAININGS:
        train(fleet, project)
        until_deployed(fleet, project)
        here = answers(fleet.sql, project)
        assert len(here) == 900 and len(set(here.values())) > 1
        assert of_shards(fleet, project) == here, project
    explained = "SELECT md5(string_agg(e::text, ' ' ORDER BY id, e.feature)) FROM sales s, pgml.explain('xgboost', s) e WHERE customer_id = 3"
    there = {fleet.on(shard, explained) for shard in fleet.shards} - {""}
    assert there == {fleet.sql(explained)}


def test_open_connections_follow_the_hub(published):
    fleet = published
    train(fleet, "p", TRAININGS["linear"])
    until_deployed(fleet, "p")
    with connection(fleet.shards["s1"], fleet.database) as session:
        cursor = session.cursor()

        def there():
            cursor.execute("SELECT id, float4send(pgml.predict('p', s)) FROM sales s")
            return {str(row[0]): f"\\x{bytes(row[1]).hex()}" for row in cursor.fetchall()}

        def same(all_of_hub):
            found = there()
            return len(found) > 100 and all(all_of_hub[row] == bits for row, bits in found.items())

        old = answers(fleet.sql, "p")
        assert same(old)
        train(fleet, "p", TRAININGS["xgboost"].replace("hyperparams", "automatic_deploy => false, hyperparams"))
        fleet.sql("SELECT pgml.deploy('p', 'most_recent')")
        new = answers(fleet.sql, "p")
        assert new != old
        until(lambda: same(new))
        fleet.sql("SELECT pgml.deploy('p', 'rollback')")
        until(lambda: same(old))
        fleet.sql(
            "SELECT pgml.delete_model(max(model_id)) FROM pgml.deployments d JOIN pgml.models m ON m.id = model_id WHERE algorithm = 'xgboost'"
        )
        until(lambda: fleet.on("s1", "SELECT count(*) FROM pgml.models") == "1")
        assert same(old)
        fleet.sql("SELECT pgml.delete_project('p')")
        until(lambda: fleet.on("s1", NOTHING) == "0")
        with pytest.raises(Exception, match='project "p" does not exist'):
            there()


def test_a_shard_that_was_killed_catches_up(published):
    fleet, victim = published, published.shards["s1"]
    train(fleet, "p", TRAININGS["linear"])
    until_deployed(fleet, "p")
    train(fleet, "p", TRAININGS["xgboost"].replace("hyperparams", "automatic_deploy => false, hyperparams"))
    subprocess.run(["kill", f"-{signal.SIGKILL}", str(victim.pid)], check=True)
    fleet.sql("SELECT pgml.deploy('p', 'most_recent')")
    begin_again(victim)
    until_deployed(fleet, "p")
    assert of_shards(fleet, "p") == answers(fleet.sql, "p")


def test_shards_come_and_go(published, own_servers):
    fleet = published
    train(fleet, "p", TRAININGS["linear"])
    assert fleet.sql("SELECT DISTINCT kind FROM howdah_shards.routes ORDER BY 1") == "models\nsharded"
    for statement in ("SELECT pgml.delete_project('p')", "SELECT pgml.deploy('p', 'rollback')", "TRUNCATE pgml.trials",
                      "SELECT pgml.train('q', 'regression', 'sales', 'total', 'linear')"):  # fmt: skip
        with pytest.raises(Problem, match="the models of this database are the hub's"):
            fleet.on("s2", statement)
    # A repeat changes nothing.
    version = fleet.sql("SELECT howdah_shards.map_version()")
    fleet.sql("CALL howdah_shards.publish_models()")
    assert fleet.sql("SELECT howdah_shards.map_version()") == version

    # The hub's models can begin anew.
    fleet.sql("DROP EXTENSION pgml; CREATE EXTENSION pgml")
    assert fleet.sql("SELECT DISTINCT kind FROM howdah_shards.routes") == "sharded"
    train(fleet, "new", TRAININGS["linear"])
    fleet.sql("CALL howdah_shards.publish_models()")
    assert {fleet.on(shard, "SELECT string_agg(name, ' ') FROM pgml.projects") for shard in fleet.shards} == {"new"}
    train(fleet, "p", TRAININGS["linear"])

    # One that leaves has none of the hub's models, and may come back.
    fleet.sql("SELECT howdah_shards.set_lease('0.1 s')")
    for slot in fleet.sql("SELECT slot FROM howdah_shards.placements WHERE shard = 's2'").split():
        fleet.sql(f"CALL howdah_shards.move_slot('sales', {slot}, 's1')")
    fleet.sql("SELECT count(*) FROM howdah_shards.drop_shard('s2')")
    assert fleet.on("s2", f"{NOTHING}; SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'howdah%'") == "0\n0"
    assert fleet.sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == "1"
    fleet.add_shards("s2")
    with pytest.raises(Problem, match='shard "s2" does not have the hub\'s models'):
        fleet.sql("CALL howdah_shards.move_slot('sales', 0, 's2')")
    fleet.sql("CALL howdah_shards.publish_models(); CALL howdah_shards.move_slot('sales', 0, 's2')")
    assert of_shards(fleet, "p") == answers(fleet.sql, "p")


def test_dumps_restore_hub_and_shards(published):
    fleet = published
    train(fleet, "p", TRAININGS["xgboost"])
    until_deployed(fleet, "p")
    before = answers(fleet.sql, "p")
    again = f"{fleet.database}_again"
    servers = [fleet.hub, *fleet.shards.values()]
    try:
        for server in servers:
            restored(server, fleet.database, again)
        for name in fleet.shards:
            fleet.hub.psql(f"ALTER SERVER {name} OPTIONS (SET dbname '{again}')", again)
        fleet.hub.psql(
            f"SELECT howdah_shards.set_hub('{fleet.conninfo(fleet.hub).replace(fleet.database, again)}')", again
        )
        fleet.hub.psql("CALL howdah_shards.publish_models()", again)
        copy = fleets.Fleet(fleet.hub, fleet.shards, again)
        assert answers(copy.sql, "p") == before and of_shards(copy, "p") == before
        # It follows its own hub, and the old ones theirs.
        copy.sql("SELECT pgml.delete_project('p')")
        until(lambda: {copy.on(shard, NOTHING) for shard in fleet.shards} == {"0"})
        assert of_shards(fleet, "p") == before
    finally:
        fleets.drop(servers, again)


def test_what_is_missing_is_told(own_servers):
    with fleets.fleet(*own_servers, "unready") as fleet:
        publish = "CALL howdah_shards.publish_models()"

        def told(*parts):
            with pytest.raises(Problem) as caught:
                fleet.sql(publish)
            for part in parts:
                assert part in str(caught.value)

        told("the hub does not have the extension pgml", "run_on_shards('CREATE EXTENSION pgml', two_phase => false)")
        fleet.sql("CREATE EXTENSION pgml")
        told("the shards do not know how to reach the hub")
        fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(fleet.hub)}')")
        told("there is no shard")
        fleet.add_shards()
        told('shard "s1" does not have the extension pgml')
        fleet.on("s1", "CREATE EXTENSION pgml VERSION '3.3.0'")
        told('shard "s1" has version 3.3.0 of pgml')
        fleet.on("s1", "ALTER EXTENSION pgml UPDATE")
        fleet.on("s2", "CREATE EXTENSION pgml; CREATE TABLE t AS SELECT i AS a, i AS y FROM generate_series(1, 50) i;"
                 "SELECT pgml.train('own', 'regression', 't', 'y', 'linear')")  # fmt: skip
        told('shard "s2" has models of its own', "pgml.delete_project")
        fleet.on("s2", "SELECT pgml.delete_project('own')")
        fleet.sql("CREATE ROLE models_owner; CREATE TABLE t AS SELECT i AS a, i AS y FROM generate_series(1, 50) i;"
                  "SELECT pgml.train('p', 'regression', 't', 'y', 'linear'); SELECT pgml.grant('p', 'models_owner', 'explain')")  # fmt: skip
        try:
            told('role "models_owner" is not on shard "s1"', "run_on_shards('CREATE ROLE models_owner', hub => false)")
        finally:
            fleet.sql("DROP ROLE models_owner")
        told("which is no more", "DELETE FROM pgml.privileges")
        fleet.sql("DELETE FROM pgml.privileges WHERE grantee <> 0")
        fleet.sql("CREATE ROLE models_reader LOGIN REPLICATION")
        try:
            fleet.sql(f"SELECT howdah_shards.set_hub('dbname={fleet.database} user=models_reader')")
            told('user "models_reader" of set_hub may not read all models', "BYPASSRLS")
        finally:
            fleet.sql("DROP ROLE models_reader")
        fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(fleet.hub)}')")
        dry = fleet.sql(publish.replace("()", "(dry_run => true)"))
        assert "CREATE PUBLICATION" in dry and "s2: CREATE SUBSCRIPTION" in dry
        assert (
            fleet.on(
                "s2",
                "SELECT count(*) FROM pg_subscription s JOIN pg_database d ON d.oid = subdbid WHERE datname = current_database()",
            )
            == "0"
        )
        fleet.sql(publish)
        assert fleet.on("s2", NOTHING) == "1"


def test_the_pooler_sends_predictions_to_the_shard_of_their_rows(published):
    fleet = published
    train(fleet, "p", TRAININGS["xgboost"])
    until_deployed(fleet, "p")
    of_customer = "SELECT id, pgml.predict('p', s) FROM sales s WHERE customer_id = 3 ORDER BY id"
    home = next(shard for shard in fleet.shards if fleet.on(shard, of_customer))
    with pooler(fleet) as made, psycopg.connect(f"host=127.0.0.1 port={made.port} dbname=app user=postgres") as client:
        client.autocommit = True

        def route(sql):
            return client.execute(f"SHOW ROUTE FOR {psycopg.sql.quote(sql)}").fetchone()[0]

        assert route(of_customer) == home
        rows = client.execute(of_customer.replace("3", "%s"), [3]).fetchall()
        assert "\n".join(f"{row}|{value}" for row, value in rows) == fleet.sql(of_customer)
        # Without a key it is the hub's, and a training is.
        for sql in ("SELECT avg(pgml.predict('p', s)) FROM sales s", "SELECT pgml.deploy('p', 'most_recent')"):
            assert route(sql) == "hub"
        with client.transaction():
            client.execute("UPDATE sales SET visits = 0 WHERE customer_id = 3")
            assert client.execute(
                "SELECT pgml.predict('p', ROW(3, 1.5, 0, 'Ulm', date '2024-05-01', 'r1')) IS NOT NULL"
            ).fetchone() == (True,)
