"""Dumps and restores of a database with models, in every form and in parallel."""

import pytest

TABLES = ("projects", "snapshots", "models", "files", "deployments", "privileges", "trials")

MADE = """
    CREATE ROLE dump_reader;
    CREATE TABLE t AS SELECT i AS a, i % 7 AS b, 2 * i + i % 7 AS y FROM generate_series(1, 300) i;
    CREATE TABLE bulk AS SELECT i, md5(i::text) FROM generate_series(1, 100000) i;
    CREATE TABLE more AS TABLE bulk;
    SELECT pgml.train('p' || i, 'regression', 't', 'y', 'xgboost', '{"n_estimators": 200}') FROM generate_series(1, 5) i;
    SELECT pgml.train('p1', algorithm => 'linear', automatic_deploy => false);
    SELECT pgml.deploy('p1', 'canary', model_id => 6, share => 0.5);
    SELECT pgml.grant('p2', 'dump_reader', 'see');
"""


def content(sql):
    """All rows of the registry, and what the models say."""
    rows = {
        table: sql(f"SELECT md5(string_agg(r::text, ';' ORDER BY r::text)) FROM pgml.{table} r") for table in TABLES
    }
    says = sql("SELECT string_agg(pgml.predict(m.id, ARRAY[a, b])::text, ',' ORDER BY m.id, a) FROM pgml.models m, t")
    return rows, says


@pytest.fixture
def made(database):
    database.sql(MADE)
    try:
        yield database
    finally:
        database.sql("SELECT pgml.delete_project('p2'); DROP ROLE dump_reader")


@pytest.mark.parametrize("form", ["plain", "custom", "directory"])
@pytest.mark.parametrize("jobs", [1, 4])
def test_a_restore_has_all_models(server, made, form, jobs, tmp_path):
    if form == "plain" and jobs > 1:
        return
    copy, path = f"{made.name}_copy", tmp_path / "dump"
    server.run("pg_dump", f"--format={form}", f"--file={path}", made.name)
    server.psql(f"CREATE DATABASE {copy}")
    try:
        if form == "plain":
            server.psql(path.read_text(), copy)
        else:
            server.run("pg_restore", "--exit-on-error", f"--jobs={jobs}", f"--dbname={copy}", str(path))
        assert content(lambda text: server.psql(text, copy)) == content(made.sql)
        # What comes after it has ids of its own, and what belongs together is deleted together.
        server.psql("SELECT pgml.train('p1', algorithm => 'ridge')", copy)
        server.psql("SELECT pgml.delete_project(name) FROM pgml.projects", copy)
        assert {server.psql(f"SELECT count(*) FROM pgml.{table}", copy) for table in TABLES} == {"0"}
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


def counts(database):
    return [int(database.sql(f"SELECT count(*) FROM pgml.{table}")) for table in TABLES]


def test_what_belongs_to_a_row_is_deleted_with_it(made):
    before = dict(zip(TABLES, counts(made), strict=True))
    made.sql("SELECT pgml.delete_model(6)")
    after = dict(zip(TABLES, counts(made), strict=True))
    assert before["models"] - after["models"] == 1
    assert before["trials"] - after["trials"] == 1
    assert after["files"] < before["files"]
    # By hand, as the owner of the tables may.
    made.sql("DELETE FROM pgml.projects WHERE name = 'p3'; DELETE FROM pgml.models WHERE id = 4")
    assert made.sql("SELECT count(*) FROM pgml.deployments WHERE model_id IN (3, 4)") == "0"
    assert made.sql("SELECT count(*) FROM pgml.files WHERE model_id IN (3, 4)") == "0"
    assert made.sql("SELECT count(*) FROM pgml.models WHERE id IN (3, 4)") == "0"
    assert made.sql("SELECT count(*) FROM pgml.privileges WHERE project_id = 3") == "0"
    made.sql("DELETE FROM pgml.snapshots WHERE id = (SELECT snapshot_id FROM pgml.models WHERE id = 5)")
    assert made.sql("SELECT snapshot_id IS NULL FROM pgml.models WHERE id = 5") == "t"
    assert made.sql("SELECT count(*) FROM pgml.models WHERE snapshot_id NOT IN (SELECT id FROM pgml.snapshots)") == "0"


def test_what_is_deleted_meanwhile_is_not_deployed(made):
    """As a foreign key would have it."""
    with made.connect() as one, made.connect() as other:
        one, other = one.cursor(), other.cursor()
        one.execute("BEGIN; SELECT pgml.delete_model(6)")
        other.execute("SET lock_timeout = 200")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute("SELECT pgml.deploy(6)")
        one.execute("COMMIT")
        with pytest.raises(Exception, match="model 6 does not exist"):
            other.execute("SELECT pgml.deploy(6)")


def test_an_older_snapshot_does_not_leave_a_deployment_behind(made):
    with made.connect() as one, made.connect() as other:
        one, other = one.cursor(), other.cursor()
        one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        one.execute("SELECT count(*) FROM pgml.models")
        other.execute("SELECT pgml.deploy(6)")
        with pytest.raises(Exception, match="could not serialize"):
            one.execute("DELETE FROM pgml.models WHERE id = 6")
        one.execute("ROLLBACK")
        other.execute("SELECT pgml.predict('p1', ARRAY[1, 1])")
