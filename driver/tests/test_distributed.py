"""XGBoost trained by the workers of a Dask cluster, each of which reads its share of a table."""

import json
import warnings

import howdah
import numpy
import pytest
import xgboost
from howdah import dbapi, distributed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dask.distributed import Client, LocalCluster

ROWS = 20_000
TABLE = f"""
    CREATE TABLE homes AS
    SELECT i AS id, random()::real AS area, CASE WHEN i % 9 > 0 THEN random() END AS age, i % 3 = 0 AS garden
    FROM generate_series(1, {ROWS}) i;
    ALTER TABLE homes ADD price float8, ADD "Kind" text;
    UPDATE homes SET price = 3 * area + coalesce(age * age, 2) + garden::integer,
        "Kind" = CASE WHEN area > 0.6 THEN 'manor' WHEN area > 0.3 THEN 'it''s a house' ELSE 'hut' END;
    INSERT INTO homes (id, area, garden) VALUES (0, 1, true);
    ANALYZE homes;
    CREATE VIEW lived_in AS SELECT * FROM homes WHERE age > 0.1;
    CREATE TABLE parted (id integer, area real, price float8) PARTITION BY RANGE (id);
    CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (3000);
    CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (3000) TO ({ROWS + 1});
    INSERT INTO parted SELECT id, area, price FROM homes WHERE price IS NOT NULL
"""
FEATURES = ["area", "age", "garden"]
PARAMS = {"n_estimators": 40, "max_depth": 4, "nthread": 1}


@pytest.fixture(scope="module")
def client():
    """A cluster of two processes."""
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def where(server):
    """How to connect to a database with the extension and the tables."""
    server.psql("drop database if exists distributed")
    server.psql("create database distributed")
    server.psql("create extension pgml", "distributed")
    server.psql(TABLE, "distributed")
    return {"host": "127.0.0.1", "port": server.port, "user": "postgres", "password": server.password}


@pytest.fixture
def train(client, where):
    """`howdah.distributed.train` with the cluster and the server."""

    def trained(*arguments, **options):
        return distributed.train(client, *arguments, database="distributed", **where, **options)

    return trained


@pytest.fixture
def connection(where):
    with dbapi.connect(database="distributed", autocommit=True, **where) as connection:
        yield connection


def test_two_workers_are_as_good_as_one_process(train, connection):
    some = "id % 4 > 0"
    made = train("price", "homes", "price", features=FEATURES, hyperparams=PARAMS, where=some)
    assert (made["project"], made["algorithm"], made["deployed"]) == ("price", "xgboost", True)
    query = "SELECT area, age, garden::integer, price FROM homes WHERE price IS NOT NULL AND id % 4 {} ORDER BY id"

    def rows(condition):
        columns = connection.fetch_columns(query.format(condition))
        return numpy.column_stack([numpy.asarray(columns[name], dtype="float32") for name in columns.names])

    here, held_out = rows("> 0"), rows("= 0")
    alone = xgboost.train(
        {"max_depth": 4, "nthread": 1}, xgboost.QuantileDMatrix(here[:, :3], here[:, 3], nthread=1), 40
    )
    missed = held_out[:, 3] - alone.inplace_predict(held_out[:, :3])
    score = 1 - (missed**2).sum() / ((held_out[:, 3] - held_out[:, 3].mean()) ** 2).sum()
    (answer,) = connection.execute(
        "SELECT pgml.evaluate('price', '(SELECT * FROM homes WHERE price IS NOT NULL AND id % 4 = 0)', "
        "y_column_name => 'price')"
    ).fetchone()
    told = json.loads(answer)
    assert told["rows"] == len(held_out)
    assert score > 0.98
    assert abs(told["r2"] - score) < 0.005


def test_classes_keep_their_names(train, connection):
    made = train("kind", "homes", "Kind", task="classification", features=FEATURES, hyperparams=PARAMS, chunks=5)
    assert made["task"] == "classification"
    ((right,),) = connection.execute(
        """SELECT avg((pgml.predict_label('kind', area, age, garden::integer) = "Kind")::integer) FROM homes
           WHERE price IS NOT NULL"""
    )
    assert right > 0.99


@pytest.mark.parametrize(
    ("relation", "options"),
    [("parted", {}), ("lived_in", {"split_by": "id"}), ("homes", {"split_by": "age", "chunks": 3})],
    ids=["partitioned", "view", "column"],
)
@pytest.mark.parametrize("count", [1, 7])
def test_each_row_is_in_one_chunk(connection, relation, options, count):
    table = distributed._table(connection, relation, "price", ["area"])
    parts = distributed._parts(table, relation, options.get("split_by"), count)
    counts = [connection.execute(f"SELECT count(*) FROM {relation} WHERE {part}").fetchone()[0] for part in parts]
    assert sum(counts) == connection.execute(f"SELECT count(*) FROM {relation}").fetchone()[0]
    assert count == 1 or sum(count > 0 for count in counts) > 1


def test_relations_of_each_kind_train(train, connection):
    connection.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS seen AS SELECT area, price FROM homes")
    for relation, split_by in [("parted", None), ("lived_in", "id"), ("seen", None)]:
        made = train("each", relation, "price", features=["area"], split_by=split_by, deploy=False)
        assert made["deployed"] is False, relation


def test_a_change_while_workers_read_is_not_seen(train, connection, monkeypatch):
    whole = distributed._read_all

    def read(*arguments):
        connection.execute("UPDATE parted SET price = 'NaN'")
        return whole(*arguments)

    monkeypatch.setattr(distributed, "_read_all", read)
    try:
        # XGBoost refuses a label that is no number.
        train("snapshot", "parted", "price", features=["area"])
    finally:
        connection.execute("UPDATE parted p SET price = h.price FROM homes h WHERE h.id = p.id")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("homes", "price"), {"task": "ranking"}, "unknown task 'ranking': regression or classification"),
        (("homes", "cost"), {}, "homes has no column 'cost': it has 'id', 'area'"),
        (
            ("homes", "price"),
            {},
            r"columns 'Kind' \(text\) of homes cannot be features, because features are numbers or booleans",
        ),
        (("homes", "price"), {"features": ["price"]}, "'price' is the label"),
        (("homes", "price"), {"features": ["area"], "where": "id < 0"}, "homes has no row to train from"),
        (("homes", "Kind"), {"features": ["area"], "task": "classification", "where": "area > 0.7"}, "has 1"),
        (("lived_in", "price"), {"features": ["area"]}, "name a column by `split_by`"),
    ],
    ids=["task", "column", "text", "target", "rows", "class", "view"],
)
def test_what_cannot_be_trained_is_told(train, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        train("p", *arguments, **options)


@pytest.mark.parametrize(
    ("hyperparams", "message"),
    [
        ({"n_estimator": 3}, "does not know the hyperparameter 'n_estimator'; did you mean 'n_estimators'"),
        ({"max_dept": 1, "nothing": 2}, "'max_dept', 'nothing'; did you mean 'max_depth'"),
        ({"max_depth": "six"}, "XGBoost refuses the hyperparameters: .*max_depth"),
        ({"objective": "reg:nothing"}, "XGBoost refuses the hyperparameters"),
        ({"n_estimators": 0}, "n_estimators is expected to be a number of rounds, 1 or more, got 0"),
        ({"n_estimators": 2.5}, "got 2.5"),
    ],
    ids=str,
)
def test_hyperparameters_that_xgboost_does_not_know_are_refused(train, hyperparams, message):
    with pytest.raises(ValueError, match=message):
        train("p", "homes", "price", features=["area"], hyperparams=hyperparams)


def test_what_a_worker_is_told_by_its_server_is_told(train):
    with pytest.raises(howdah.dbapi.ProgrammingError, match="does not exist"):
        train("p", "homes", "price", features=["area"], where="missing > 0")
    with pytest.raises(howdah.dbapi.DataError, match="division by zero"):
        train("p", "homes", "price", features=["area"], where="CASE WHEN id = 7 THEN 1 / (id - 7) ELSE 1 END > 0")
