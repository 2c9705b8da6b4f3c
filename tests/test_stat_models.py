"""How models were used: what is counted, for whom it is shown, and what it outlives."""

import concurrent.futures

import pytest

from devkit import Problem, postgres
from devkit.server import Server
from tests.conftest import Database
from tests.test_background import ALICE, BOB, people
from tests.test_names import execute, make_models

# A fixture of another file is used by its name.
__all__ = ["people"]
ASK = "SELECT pgml.predict('line', ARRAY[8]::real[])"


def counted(database, model, columns="calls, rows"):
    return database.sql(f"SELECT {columns} FROM pgml.stat_models WHERE model_id = {model}")


@pytest.fixture
def models(database):
    return make_models(database.sql)


def test_every_way_to_predict_is_counted_by_its_model(database, models):
    up, down = models
    assert counted(database, up, "project, algorithm, calls, rows, total_ms, cache_hits, last_used") == (
        "line|xgboost|0|0|0|0|"
    )
    database.sql(ASK)
    assert counted(database, up) == "1|1" and counted(database, down) == "0|0"
    database.sql(f"SELECT pgml.predict({down}, ARRAY[x]::real[]) FROM generate_series(1, 1000) x")
    assert counted(database, down) == "1000|1000"
    assert counted(database, down, "total_ms > 0, last_used <= now()") == "t|t"
    database.sql("SELECT * FROM pgml.predict_batch('line', ARRAY[[1], [2], [3]]::real[])")
    assert counted(database, up) == "2|4"
    database.sql("SELECT pgml.predict_agg('line', x) FROM generate_series(1, 100) x GROUP BY x % 2")
    assert counted(database, up) == "4|104"
    # A transaction's own are counted when it ends, and before that are seen by itself.
    with database.connect() as own:
        cursor = own.cursor()
        execute(cursor, "BEGIN", ASK)
        assert counted(database, up) == "4|104"
        cursor.execute(f"SELECT calls FROM pgml.stat_models WHERE model_id = {up}")
        assert cursor.fetchone()[0] == 5
        execute(cursor, ASK, "ROLLBACK")
        assert counted(database, up) == "6|106"
        # What fails is no prediction.
        with pytest.raises(Exception, match="takes 1 feature,"):
            cursor.execute("SELECT pgml.predict('line', ARRAY[1, 2]::real[])")
        assert counted(database, up) == "6|106"


def test_the_first_connection_compiles_and_the_others_find_it(database, models):
    up, _ = models
    for _ in range(4):
        database.sql(f"{ASK}; {ASK}")
    assert counted(database, up, "cache_misses, cache_hits, calls") == "1|3|8"


def test_connections_and_parallel_workers_count_together(database, models):
    up, _ = models
    database.sql("CREATE TABLE many AS SELECT (i % 10)::real AS x FROM generate_series(1, 200000) i; ANALYZE many")

    def predict(_):
        with database.connect() as own:
            cursor = own.cursor()
            for _ in range(50):
                cursor.execute(ASK)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(predict, range(8)))
    assert counted(database, up) == "400|400"
    parallel = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
    query = "SELECT sum(pgml.predict('line', x)) FROM many"
    assert "Workers Planned" in database.sql(f"{parallel} EXPLAIN {query}")
    database.sql(f"{parallel} {query}")
    assert counted(database, up) == "200400|200400"


def test_only_who_may_see_the_project_sees_it_and_only_its_owner_resets_it(database, models):
    up, down = models
    database.sql(ASK)
    seen = "SELECT count(*) FROM pgml.stat_models; SELECT count(*) FROM pgml.model_usage()"
    assert database.sql(f"SET ROLE {ALICE}; {seen}") == "0\n0"
    database.sql(f"SET ROLE {ALICE}; {ASK}")
    # One may predict, and is hidden the statistics; without a grant, the project too.
    with pytest.raises(Problem, match='must be owner of project "line"'):
        database.sql(f"SET ROLE {ALICE}; SELECT pgml.reset_stat_models({up})")
    database.sql(f"SELECT pgml.grant('line', '{ALICE}', 'see'), pgml.revoke('line', 'public', 'predict')")
    assert database.sql(f"SET ROLE {ALICE}; {seen}") == "2\n1"
    with pytest.raises(Problem, match=f"model {up} does not exist"):
        database.sql(f"SET ROLE {BOB}; SELECT pgml.reset_stat_models({up})")
    database.sql(f"SET ROLE {BOB}; SELECT pgml.reset_stat_models()")
    assert counted(database, up) == "2|2"
    database.sql(f"SELECT pgml.predict({down}, ARRAY[1]::real[]); SELECT pgml.reset_stat_models({up})")
    assert counted(database, up, "calls, last_used") == "0|" and counted(database, down) == "1|1"
    database.sql(f"SELECT pgml.set_owner('line', '{BOB}'); SET ROLE {BOB}; SELECT pgml.reset_stat_models()")
    assert counted(database, down) == "0|0"
    database.sql("SELECT pgml.set_owner('line', 'postgres')")


def test_two_databases_with_the_same_ids_and_one_made_again_are_kept_apart(major):
    with Server(postgres.tree(major), {"restart_after_crash": "on"}) as server:
        databases = [Database(server, name) for name in ("one", "two")]
        for database in databases:
            server.psql(f"CREATE DATABASE {database.name}")
            database.sql("CREATE EXTENSION pgml")
            assert make_models(database.sql) == (1, 2)
        one, two = databases
        with one.connect() as own:
            cursor = own.cursor()
            for _ in range(3):
                cursor.execute(ASK)
            assert (counted(one, 1), counted(two, 1)) == ("3|3", "0|0")
            # The extension anew, with the same ids, in a connection that knew the old one.
            one.sql("DROP EXTENSION pgml CASCADE; DROP TABLE line; CREATE EXTENSION pgml")
            make_models(one.sql)
            assert counted(one, 1) == "0|0"
            cursor.execute(ASK)
            assert counted(one, 1) == "1|1"
        # Databases that are gone leave their room to others.
        for _ in range(3):
            server.psql("CREATE DATABASE three")
            three = Database(server, "three")
            three.sql("CREATE EXTENSION pgml")
            make_models(three.sql)
            three.sql(ASK)
            assert counted(three, 1) == "1|1"
            server.psql("DROP DATABASE three")
        segments = "SELECT count(*), sum(size) FROM pg_shmem_allocations WHERE name = 'pgml'"
        assert server.psql(segments) == "1|4096"
        server.stop("immediate")
        server.start()
        # Statistics begin with the server.
        assert counted(one, 1, "calls, last_used") == "0|"
        one.sql(ASK)
        assert counted(one, 1) == "1|1"


def test_a_standby_counts_its_own(cluster):
    primary, replica = Database(cluster.primary, "app"), Database(cluster.replica, "app")
    up, _ = make_models(primary.sql)
    primary.sql(ASK)
    cluster.catch_up()
    for _ in range(2):
        replica.sql(ASK)
    assert (counted(primary, up), counted(replica, up)) == ("1|1", "2|2")
    # And shows what it knows of trainings and the queue of the primary.
    assert replica.sql("SELECT count(*) FROM pgml.activity; SELECT count(*) FROM pgml.jobs") == "0\n0"
    with pytest.raises(Problem, match=r"cannot execute pgml.train_async\(\) in a read-only transaction"):
        replica.sql("SELECT pgml.train_async('line', algorithm => 'xgboost')")


def test_without_shared_memory_predictions_go_on_uncounted(major):
    with Server(postgres.tree(major), {"dynamic_shared_memory_type": "mmap"}) as server:
        server.psql("CREATE DATABASE app")
        app = Database(server, "app")
        app.sql("CREATE EXTENSION pgml")
        up, _ = make_models(app.sql)
        # One was made for the training. No other can be made any more; those of the server can be opened.
        server.restart()
        folder = server.data / "pg_dynshmem"
        folder.chmod(0o500)
        try:
            assert app.sql(ASK) != ""
            assert counted(app, up) == "0|0"
        finally:
            folder.chmod(0o700)
        app.sql(ASK)
        assert counted(app, up) == "1|1"


def test_ten_thousand_models_are_counted(database, models):
    up, _ = models
    database.sql(f"""
        ALTER TABLE pgml.models DISABLE TRIGGER USER; ALTER TABLE pgml.files DISABLE TRIGGER USER;
        INSERT INTO pgml.models SELECT 1000 + i, project_id, snapshot_id, num_features, algorithm, runtime, hyperparams,
            status, metrics, search, search_params, search_args FROM pgml.models, generate_series(1, 10000) i WHERE id = {up};
        INSERT INTO pgml.files (model_id, path, part, data)
            SELECT 1000 + i, path, part, data FROM pgml.files, generate_series(1, 10000) i WHERE model_id = {up};
        ALTER TABLE pgml.models ENABLE TRIGGER USER; ALTER TABLE pgml.files ENABLE TRIGGER USER;
    """)
    database.sql("SELECT pgml.predict(1000 + i, ARRAY[8]::real[]) FROM generate_series(1, 10000) i")
    database.sql("SELECT pgml.predict(1000 + i, ARRAY[8]::real[]) FROM generate_series(1, 10000) i")
    summary = "SELECT count(*), min(calls), max(calls), sum(rows) FROM pgml.stat_models WHERE model_id > 1000"
    assert database.sql(summary) == "10000|2|2|20000"
