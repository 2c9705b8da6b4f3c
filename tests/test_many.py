"""Many models, and many deployments of one: what a look-up reads, and what a connection keeps."""

import re
from pathlib import Path

from tests.test_memory import anonymous
from tests.test_names import ASK, make_models

MARK = "copy0000"
# A model of noise, so that its trees are as large as they may be; a column's name tells its copies apart.
TRAIN = f"""
    CREATE TABLE noise AS SELECT hashint4(i) AS a, hashint4(-i) AS b, 0 AS {MARK}, hashint4(i * 7) AS y
        FROM generate_series(1, 3000) i;
    SELECT pgml.train('noise', 'regression', 'noise', 'y', 'xgboost', '{{"n_estimators": %d, "max_depth": 10}}')
"""
COPY = f"""
    INSERT INTO pgml.models SELECT (m).* FROM (
        SELECT jsonb_populate_record(m, jsonb_build_object('id', g)) AS m
        FROM pgml.models m, generate_series(2, {{0}}) g WHERE m.id = 1) AS copies;
    INSERT INTO pgml.files (model_id, path, part, data)
        SELECT g, path, part, decode(replace(encode(data, 'hex'), encode('{MARK}', 'hex'),
                encode(convert_to('copy' || lpad(g::text, 4, '0'), 'UTF8'), 'hex')), 'hex')
        FROM pgml.files, generate_series(2, {{0}}) g WHERE model_id = 1;
"""
EACH = "SELECT count(DISTINCT pgml.predict(g, ARRAY[1, 2, 0]::real[])) FROM generate_series(1::bigint, {}) g"


def test_a_look_up_reads_one_deployment_of_many(database):
    up, down = make_models(database.sql)
    deploy = "INSERT INTO pgml.deployments (project_id, model_id, strategy) SELECT 1, {}, 'specific'"
    database.sql(f"{deploy.format(down)} FROM generate_series(1, 2000); {deploy.format(up)}")
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute("BEGIN")
        cursor.execute(ASK)
        assert cursor.fetchone()[0] > 0
        cursor.execute("SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'pgml.deployments'::regclass")
        # Of the query's snapshot, and of the latest one where that is another.
        assert 1 <= cursor.fetchone()[0] <= 2


def test_a_connection_keeps_a_bounded_number_of_models_mapped(database):
    database.sql(TRAIN % 2 + ";" + COPY.format(300))
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(EACH.format(300))
        assert cursor.fetchone()[0] == 1
        cursor.execute("SELECT pg_backend_pid()")
        maps = Path(f"/proc/{cursor.fetchone()[0]}/maps").read_text()
        mapped = set(re.findall(r"/pgml_cache/\S+", maps))
        assert 100 <= len(mapped) <= 130


def test_private_copies_of_models_are_bounded_by_their_size(server, database):
    database.sql(TRAIN % 800 + ";" + COPY.format(32))
    server.psql("LOAD 'pgml'; ALTER SYSTEM SET pgml.cache_size = 0; SELECT pg_reload_conf()")
    try:
        with database.connect() as own:
            cursor = own.cursor()
            cursor.execute(EACH.format(1))
            one = anonymous(cursor)
            cursor.execute(EACH.format(32))
            grown = anonymous(cursor) - one
    finally:
        server.psql("LOAD 'pgml'; ALTER SYSTEM RESET pgml.cache_size; SELECT pg_reload_conf()")
    # All of them would be some 60 MB.
    assert 20 << 20 < grown < 44 << 20
