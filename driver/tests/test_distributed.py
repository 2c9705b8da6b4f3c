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
    CREATE TABLE documents AS SELECT id, price, to_jsonb(id) AS doc FROM homes;
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
    pages = distributed._table(connection, relation).pages
    parts = distributed._parts(pages, relation, options.get("split_by"), count)
    counts = [connection.execute(f"SELECT count(*) FROM {relation} WHERE {part}").fetchone()[0] for part in parts]
    assert sum(counts) == connection.execute(f"SELECT count(*) FROM {relation}").fetchone()[0]
    assert count == 1 or sum(count > 0 for count in counts) > 1


def test_relations_of_each_kind_train(train, connection):
    connection.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS seen AS SELECT area, price FROM homes")
    for relation, split_by in [("parted", None), ("lived_in", "id"), ("seen", None)]:
        made = train("each", relation, "price", features=["area"], split_by=split_by, deploy=False)
        assert made["deployed"] is False, relation


def test_rows_that_come_in_another_order_each_time_train(train, connection):
    connection.execute("CREATE OR REPLACE VIEW shuffled AS SELECT * FROM homes ORDER BY random()")
    made = train("shuffled", "shuffled", "price", features=FEATURES, split_by="id", hyperparams=PARAMS)
    assert made["algorithm"] == "xgboost"


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
        (("documents", "price"), {"features": ["doc"]}, r"columns 'doc' \(jsonb\) of documents cannot be features"),
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


VISITS = """
    CREATE TYPE mood AS ENUM ('sad', 'fine', 'glad');
    CREATE TABLE visits AS
    SELECT i AS id, date '2024-01-01' + i * 7 % 900 AS day, timestamptz '2025-03-01 11:30+01' + i * interval '37 min' AS seen,
        interval '1 day' * (i % 5) AS stay, time '08:00' + i * interval '1 min' AS at, 1700000000 + i * 31 AS epoch,
        (1e9 + i % 1000 * 0.5)::float8 AS wide, (i * 1.25)::numeric AS paid, i % 3 = 0 AS again, i % 6 AS code,
        (ARRAY['sad', 'fine', 'glad'])[1 + i % 3]::mood AS mood, 'x''' || chr(233 + i % 4) || '\\"' AS city,
        CASE WHEN i % 7 > 0 THEN 'k' || i % 30 END AS kind, 'name ' || i AS name, CASE WHEN i <= 1275 THEN 'p' || i % 255 ELSE 'q' || i END AS place,
        CASE WHEN i % 5 > 0 THEN (i * 7919 % 100)::real / 8 END AS age, i % 4 + 0.5 AS heavy, NULL::text AS nothing,
        to_jsonb(i) AS doc, ('c' || i % 5)::char(4) AS short, ('n' || i % 5)::name AS named, i::money AS price, (i % 3 + i * 7919 % 100 / 10.0)::float8 AS cost, (ARRAY['no', 'yes', 'who'])[1 + i % 3] AS back
    FROM generate_series(1, 1500) i;
    ALTER TABLE visits ADD PRIMARY KEY (id);
    ANALYZE visits
"""
PREPARED = {
    "nothing asked": {},
    "each its own": {
        "city": {"encode": "target"},
        "kind": {"encode": "target", "impute": "mode", "indicator": True},
        "place": {"encode": {"hash": 16}},
        "mood": {"encode": {"ordinal": ["sad", "none", "fine"]}},
        "code": {"encode": "one_hot"},
        "again": {"encode": "native"},
        "age": {"impute": "median", "scale": "robust", "indicator": True},
        "paid": {"scale": "standard"},
        "epoch": {"scale": "min_max"},
        "wide": {"scale": "max_abs"},
        "heavy": {"role": "weight"},
        "name": {"role": "ignore"},
    },
    "filled": {
        "*": {"impute": "mean", "scale": "standard", "encode": "one_hot"},
        "kind": {"impute": {"constant": "none"}, "encode": "native"},
        "age": {"impute": "mode", "scale": "preserve"},
        "mood": {"encode": {"ordinal": ["glad", "fine"]}, "impute": "median"},
        "paid": {"impute": {"constant": 3}, "scale": "preserve"},
        "day": {"impute": "zero", "scale": "min_max"},
        "wide": {"impute": "zero"},
        "place": {"role": "ignore"},
    },
}


@pytest.fixture(scope="module")
def visits(where):
    """The table of visits; each key of a column is NULL somewhere."""
    with dbapi.connect(database="distributed", autocommit=True, **where) as connection:
        connection.execute("DROP TABLE IF EXISTS visits; DROP TYPE IF EXISTS mood")
        for statement in VISITS.split(";"):
            connection.execute(statement)


def described(connection, project):
    """What the deployed model of a project says of its columns, its label and their preparation."""
    ((data,),) = connection.execute("SELECT pgml.export_model(%s)", (project,)).fetchall()
    booster = xgboost.Booster()
    booster.load_model(bytearray(data))
    said = json.loads(booster.attr("pgml"))
    return said["columns"], said.get("labels") or [said["label"]], said.get("preprocess")


def numbers_of(value):
    """Numbers in any depth as approximations, since sums of many depend on their order."""
    if isinstance(value, dict):
        return {key: numbers_of(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers_of(item) for item in value]
    return pytest.approx(value, rel=1e-6) if isinstance(value, float) else value


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("preprocess", PREPARED.values(), ids=PREPARED)
def test_columns_become_what_a_training_on_the_server_makes_of_them(
    train, connection, visits, monkeypatch, preprocess, task
):
    label, other = ("cost", "back") if task == "regression" else ("back", "cost")
    asked = preprocess | {other: {"role": "ignore"}}
    read = {}

    def kept(reader, parts, recipe):
        read["recipe"] = recipe
        return whole(reader, parts, recipe)

    whole = distributed._read_all
    monkeypatch.setattr(distributed, "_read_all", kept)
    connection.execute("SELECT pgml.delete_project(name) FROM pgml.projects WHERE name IN ('there', 'here')")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        train("there", "visits", label, task=task, preprocess=asked, hyperparams={"n_estimators": 10, "nthread": 1})
    told = " ".join(str(warning.message) for warning in heard)
    for part in ('"id" (a key)', '"doc" (type jsonb)', '"price" (type money)', '"nothing" (NULL in all rows)'):
        assert part in told
    assert ('"name" (text, 1500 different ones in 1500 rows)' in told) == ("name" not in asked)
    connection.execute("SET client_min_messages = error")
    connection.execute(
        "SELECT pgml.train('here', %s, 'visits', %s, 'xgboost', hyperparams => '{\"n_estimators\": 10}', preprocess => %s)",
        (task, label, json.dumps(asked)),
    )
    for made, expected in zip(described(connection, "there"), described(connection, "here")):
        assert len(made or []) == len(expected or [])
        for one, other in zip(made or [], expected or []):
            assert one == numbers_of(other)

    # The server predicts what XGBoost does from the matrix that the workers made.
    recipe = read["recipe"]
    matrix = distributed._made(
        connection.fetch_columns(f"SELECT {recipe.columns} FROM visits ORDER BY id"), recipe.steps
    )
    kinds = [kind for step in recipe.steps for kind in step.kinds]
    ((data,),) = connection.execute("SELECT pgml.export_model('there')").fetchall()
    booster = xgboost.Booster()
    booster.load_model(bytearray(data))
    expected = booster.predict(xgboost.DMatrix(matrix, **distributed._typed(kinds)))
    function = "predict" if task == "regression" else "predict_proba"
    query = f"SELECT pgml.{function}('there', v) FROM visits v ORDER BY id"
    predicted = numpy.array([value for (value,) in connection.execute(query)], "float32")
    assert numpy.abs(predicted - expected).max() <= 1e-6 * max(1, numpy.abs(expected).max())
    assert numpy.unique(expected).size > 1


@pytest.mark.parametrize("label", ["code", "again", "digits", "level", "scaled", "signed"])
def test_classes_are_those_of_a_training_on_the_server(train, connection, visits, label):
    connection.execute("SELECT pgml.delete_project(name) FROM pgml.projects WHERE name IN ('there', 'here')")
    connection.execute("SET client_min_messages = error")
    connection.execute(
        "CREATE OR REPLACE VIEW levels AS SELECT id, age, code, again, (code % 3 * 5)::text AS digits, code % 2 + 0.5 AS level, "
        "(ARRAY[1.00, 1.0, 2])[1 + (id - 1) % 3] AS scaled, (ARRAY[0, '-0', 1]::float8[])[1 + (id - 1) % 3] AS signed FROM visits"
    )
    columns = {"features": ["age"], "split_by": "id", "hyperparams": {"n_estimators": 1, "nthread": 1}}
    train("there", "levels", label, task="classification", **columns)
    connection.execute(
        f"SELECT pgml.train('here', 'classification', '(SELECT age, {label} FROM levels)', %s, 'xgboost')", (label,)
    )
    there, here = (described(connection, project)[1] for project in ("there", "here"))
    assert there == here


@pytest.mark.parametrize(
    ("preprocess", "message"),
    [
        ({"lost": {"impute": "mean"}}, "homes has no column 'lost'"),
        ({"price": {"impute": "mean"}}, "'price' is the label"),
        ({"area": {"inpute": "mean"}}, '"area" has "inpute", and takes role, encode'),
        ({"area": {"impute": "avg"}}, 'cannot have "impute": "avg"; possible are error, mean'),
        ({"area": {"encode": "native"}}, 'cannot have "encode": only text'),
        ({"area": {"impute": {"constant": "x"}}}, "it is a column of numbers"),
        ({"Kind": {"encode": {"hash": 1}}}, 'cannot have "encode"'),
        ({"id": {"role": "key"}}, "rows are held out by `where` here"),
        ({"id": {"role": "ignore", "impute": "mean"}}, "the column is not learnt from"),
        ({"Kind": {"role": "weight"}}, "'Kind' cannot be the weight"),
        ({"*": {"role": "ignore"}}, "it stands for all columns"),
        ({"area": "mean"}, "must be a mapping"),
    ],
    ids=str,
)
def test_preprocess_that_cannot_be_is_refused(train, preprocess, message):
    with pytest.raises(ValueError, match=message):
        train("p", "homes", "price", preprocess=preprocess)
