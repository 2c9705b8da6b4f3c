"""A subscriber of logical replication: its open sessions follow what happens on the publisher."""

import time

import pytest

from devkit import postgres
from devkit.client import connection
from devkit.server import SUPERUSER, Server

PUBLICATION = """
    CREATE PUBLICATION models FOR TABLE pgml.projects, pgml.snapshots, pgml.models, pgml.files, pgml.deployments,
        pgml.privileges, pgml.trials, pgml.learning_curves
"""


@pytest.fixture(scope="module")
def publisher(major):
    with Server(postgres.tree(major), {"wal_level": "logical"}) as running:
        running.psql("CREATE ROLE reader; CREATE ROLE helper")
        yield running


class Pair:
    """Two databases of one server, of which one subscribes to the other."""

    def __init__(self, server):
        self.server = server

    def publish(self, sql):
        """What the publisher answers; the subscriber has it then."""
        answer = self.server.psql(sql, "published")
        end = self.server.psql("SELECT pg_current_wal_insert_lsn()")
        deadline = time.monotonic() + 60
        reached = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = 'models'"
        while self.server.psql(reached) != "t":
            assert time.monotonic() < deadline, self.server.log_tail()
            self.server.psql("SELECT pg_logical_emit_message(true, 'test', 'on')", "published")
            time.sleep(0.05)
        return answer


@pytest.fixture(params=["TABLES", "SCHEMA"])
def pair(publisher, request):
    for name in ("published", "subscribed"):
        publisher.psql(f"CREATE DATABASE {name}")
        publisher.psql("CREATE EXTENSION pgml", name)
    publisher.psql(
        "CREATE TABLE t AS SELECT i AS a, 2 * i AS y FROM generate_series(1, 200) i;"
        "SELECT pgml.train('p', 'regression', 't', 'y', 'linear')",
        "published",
    )
    publisher.psql(PUBLICATION if request.param == "TABLES" else "CREATE PUBLICATION models FOR TABLES IN SCHEMA pgml",
                   "published")  # fmt: skip
    publisher.psql("SELECT pg_create_logical_replication_slot('models', 'pgoutput')", "published")
    publisher.psql(
        f"CREATE SUBSCRIPTION models CONNECTION 'host={publisher.socket_folder} port={publisher.port} user={SUPERUSER} "
        "dbname=published' PUBLICATION models WITH (create_slot = false)",
        "subscribed",
    )
    deadline = time.monotonic() + 60
    while publisher.psql("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel", "subscribed") != "t":
        assert time.monotonic() < deadline, publisher.log_tail()
        time.sleep(0.05)
    try:
        yield Pair(publisher)
    finally:
        publisher.psql("ALTER SUBSCRIPTION models DISABLE", "subscribed")
        publisher.psql("DROP SUBSCRIPTION models", "subscribed")
        for name in ("published", "subscribed"):
            publisher.psql(f"DROP DATABASE {name} WITH (FORCE)")


def ask(cursor, sql="SELECT pgml.predict('p', ARRAY[10])"):
    cursor.execute(sql)
    return cursor.fetchone()[0]


@pytest.fixture
def session(pair):
    """A session of the subscriber that has predicted before."""
    with connection(pair.server, "subscribed") as opened:
        cursor = opened.cursor()
        assert ask(cursor) == pytest.approx(20)
        yield cursor


def test_deployments_and_deletions_reach_open_sessions(pair, session):
    pair.publish(
        "SELECT pgml.train('p', algorithm => 'xgboost', hyperparams => '{\"n_estimators\": 1}', automatic_deploy => false);"
        "SELECT pgml.deploy('p', 'most_recent')"
    )
    assert ask(session, "SELECT algorithm FROM pgml.deployed_models") == "xgboost"
    tree = ask(session)
    assert tree != pytest.approx(20)
    assert str(tree) == pair.server.psql("SELECT pgml.predict('p', ARRAY[10])", "published")
    pair.publish("SELECT pgml.deploy('p', 'rollback')")
    assert ask(session) == pytest.approx(20)
    pair.publish("SELECT pgml.rename_project('p', 'q')")
    with pytest.raises(Exception, match='project "p" does not exist'):
        ask(session)
    assert ask(session, "SELECT pgml.predict('q', ARRAY[10])") == pytest.approx(20)
    pair.publish("SELECT pgml.delete_project('q')")
    with pytest.raises(Exception, match='project "q" does not exist'):
        ask(session, "SELECT pgml.predict('q', ARRAY[10])")
    for table in ("projects", "models", "files", "deployments", "privileges", "snapshots"):
        assert ask(session, f"SELECT count(*) FROM pgml.{table}") == 0


def test_grants_and_revokes_reach_open_sessions(pair, session):
    explain = "SELECT count(*) FROM pgml.explain('p', ARRAY[10])"
    session.execute("SET ROLE reader")
    assert ask(session) == pytest.approx(20)
    with pytest.raises(Exception, match="permission denied"):
        ask(session, explain)
    pair.publish("SELECT pgml.grant('p', 'reader', 'explain')")
    assert ask(session, explain) == 2
    pair.publish("SELECT pgml.revoke('p', 'reader', 'explain')")
    with pytest.raises(Exception, match="permission denied"):
        ask(session, explain)
    pair.publish("SELECT pgml.revoke('p', 'public', 'predict')")
    with pytest.raises(Exception, match="does not exist"):
        ask(session)
    pair.publish("SELECT pgml.set_owner('p', 'reader')")
    assert ask(session) == pytest.approx(20)


def test_trials_reach_open_sessions(pair, session):
    answers = "SELECT pgml.model_for('p', 'key')"
    assert ask(session, answers) == 1
    pair.publish("SELECT pgml.train('p', algorithm => 'ridge', automatic_deploy => false);"
                 "SELECT pgml.deploy('p', 'canary', model_id => 2, share => 1)")  # fmt: skip
    assert ask(session, answers) == 2
    pair.publish("SELECT pgml.deploy('p', 'shadow', model_id => 2)")
    assert (ask(session, answers), ask(session, "SELECT pgml.shadow_of('p')")) == (1, 2)
    pair.publish("SELECT pgml.deploy('p', 'rollback')")
    assert ask(session, "SELECT pgml.shadow_of('p')") is None
    pair.publish("SELECT pgml.deploy('p', 'canary', model_id => 2, share => 1); SELECT pgml.delete_model(2)")
    assert ask(session, answers) == 1


def test_truncation_reaches_open_sessions(pair, session):
    pair.publish("TRUNCATE pgml.deployments")
    with pytest.raises(Exception, match="no deployed model"):
        ask(session)


def test_a_job_of_the_publisher_is_not_run_by_the_subscriber(pair, session):
    pair.publish(
        "SET client_min_messages = warning; SELECT pgml.train_async('p', algorithm => 'ridge', automatic_deploy => false)"
    )
    assert pair.publish("SELECT pgml.wait(max(id)) FROM pgml.jobs") == "done"
    assert ask(session, "SELECT count(*) FROM pgml.training_jobs") == 0
    assert ask(session, "SELECT count(*) FROM pgml.models") == 2
