"""`howdah.distributed.train` of a sharded table: the workers read the shards."""

import warnings

import numpy
import pytest
from howdah import dbapi, distributed

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dask.distributed import Client, LocalCluster

ROWS = 6000
SALES = f"""
    CREATE TABLE plain AS SELECT i % 211 AS customer_id, i AS id, date '2024-01-01' + i * 13 % 700 AS placed, i % 9 AS visits,
        (ARRAY['Bonn', 'Ulm', 'Kassel'])[1 + i * 31 % 3] AS city, CASE WHEN i % 11 > 0 THEN i * 7919 % 200 / 8.0 END AS amount,
        (i * 7919 % 200 / 3.0 + i % 9 + i * 31 % 3 * 20)::float8 AS total, i % 4 = 0 AS returned
    FROM generate_series(1, {ROWS}) i;
    CREATE TABLE sales (LIKE plain, PRIMARY KEY (customer_id, id));
    INSERT INTO sales SELECT * FROM plain;
    SELECT FROM howdah_shards.distribute_table('sales', 'customer_id', 8);
    ANALYZE plain;
"""
PREPROCESS = {"city": {"encode": "target"}, "amount": {"impute": "median", "indicator": True}, "id": {"role": "ignore"}}
PARAMS = {"n_estimators": 15, "max_depth": 4, "nthread": 1}


@pytest.fixture(scope="module")
def client():
    """A cluster of three processes."""
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def sold(bare_fleet):
    """A fleet with a sharded table, and a table of the hub with the same rows."""
    bare_fleet.add_shards()
    bare_fleet.sql(f"CREATE EXTENSION pgml; SELECT howdah_shards.set_lease('0.05 s'); {SALES}")
    return bare_fleet


@pytest.fixture
def train(client, sold, monkeypatch):
    """`howdah.distributed.train` on the hub, which keeps what was read in `train.rows` and `train.reader`."""
    whole = distributed._read_all

    def read(reader, parts, recipe):
        trained.reader = reader
        rows, labels, weights = whole(reader, parts, recipe)
        trained.rows = numpy.column_stack([rows.compute(), labels.compute()])
        return rows, labels, weights

    def trained(*arguments, **options):
        return distributed.train(
            client, *arguments, dsn=sold.conninfo(sold.hub), hyperparams=PARAMS, preprocess=PREPROCESS, **options
        )

    monkeypatch.setattr(distributed, "_read_all", read)
    return trained


def in_order(rows):
    """Rows in an order of their own."""
    return rows[numpy.lexsort(numpy.nan_to_num(rows, nan=-1).T)]


def test_the_shards_are_read_as_one_table_is(train, sold):
    train("p", "plain", "total")
    of_one = in_order(train.rows)
    assert len(of_one) == ROWS and len(train.reader.sources) == 1
    made = train("q", "sales", "total", where="sales.visits >= 0")
    ports = {str(server.port) for server in sold.shards.values()}
    assert len(train.reader.sources) == 3
    assert {port for port in ports for source in train.reader.sources if f"port='{port}'" in source.dsn} == ports
    assert numpy.array_equal(in_order(train.rows), of_one, equal_nan=True)
    assert made["deployed"] is True
    with dbapi.connect(sold.conninfo(sold.hub)) as connection:
        both = connection.execute("SELECT pgml.predict('p', s), pgml.predict('q', s) FROM plain s").fetchall()
        for project in ("p", "q"):
            query = f"SELECT pgml.evaluate('{project}', 'plain')->>'r2'"
            assert float(connection.execute(query).fetchone()[0]) > 0.95
    one, other = numpy.array(both, "float64").T
    # Rows are met in another order, so sums of gradients differ in their last digits.
    assert numpy.abs(one - other).max() < 0.02 * (one.max() - one.min())
    train("r", "sales", "returned", task="classification", features=["visits", "city", "placed"])


def test_a_map_that_changes_is_read_again(train, sold, monkeypatch):
    whole, calls = distributed._of_shards, []

    def found(*arguments):
        calls.append(1)
        if len(calls) == 1:
            # The slot is gone before its shard is asked.
            sold.sql("CALL howdah_shards.move_slot('sales', 0, 's2')")
        answer = whole(*arguments)
        if len(calls) == 2:
            # The map is another when all have been asked.
            sold.sql("UPDATE howdah_shards.map SET version = version + 1")
        return answer

    monkeypatch.setattr(distributed, "_of_shards", found)
    train("p", "sales", "total")
    assert len(calls) == 3 and len(train.rows) == ROWS


SELLER = r"""
    CALL howdah_shards.run_on_shards($$
        CREATE ROLE seller LOGIN PASSWORD 'it''s \ a'; GRANT SELECT ON sales TO seller
    $$);
    GRANT INSERT ON pgml.projects TO seller;
    CREATE USER MAPPING FOR seller SERVER s1 OPTIONS (user 'seller', password 'it''s \ a');
    CREATE USER MAPPING FOR seller SERVER s2 OPTIONS (user 'seller', password 'it''s \ a');
    CREATE USER MAPPING FOR seller SERVER s3 OPTIONS (user 'seller', password 'it''s \ a');
"""


def test_workers_log_in_as_the_hub_does(client, sold):
    login = {"host": "127.0.0.1", "port": sold.hub.port, "database": sold.database, "user": "seller"}
    login["password"] = r"it's \ a"
    sold.sql(SELLER)
    try:
        # It does not see its own user mappings at first.
        for grant in ("SELECT 1", "GRANT USAGE ON FOREIGN SERVER s1, s2, s3 TO seller"):
            sold.sql(grant)
            made = distributed.train(client, "mine", "sales", "total", features=["visits"], hyperparams=PARAMS, **login)
            assert made["model_id"] > 0
    finally:
        for name in sold.shards:
            sold.sql(f"DROP USER MAPPING IF EXISTS FOR seller SERVER {name}")
        for server in [sold.hub, *sold.shards.values()]:
            server.psql("DROP OWNED BY seller CASCADE; DROP ROLE seller", sold.database)


def test_addresses_of_shards_can_be_named(train, sold):
    named = {name: sold.conninfo(server) for name, server in sold.shards.items()}
    train("p", "sales", "total", shards=named)
    assert [source.dsn for source in train.reader.sources] == list(named.values())
    with pytest.raises(ValueError, match="no slot is on a shard 's9'"):
        train("p", "sales", "total", shards={"s9": "host=nowhere"})
    with pytest.raises(ValueError, match="plain is not a sharded table of this server"):
        train("p", "plain", "total", shards=named)
