-- What pgml.train takes: labels and features of every type, relations of every kind, and its arguments.
CREATE EXTENSION pgml;
\pset format unaligned
\pset footer off

-- A shop: the price follows from the columns, and so do the labels.
CREATE TABLE goods AS
SELECT
    i AS id,
    (i % 17)::real AS size,
    ((i * 7919) % 101)::int AS weight,
    CASE WHEN i % 5 = 0 THEN NULL ELSE ((i * 31) % 13)::numeric(6, 2) END AS age,
    (ARRAY['red', 'green', 'blue', 'grey'])[1 + i % 4] AS colour,
    i % 3 = 0 AS sale,
    ARRAY[i % 7, (i * 3) % 11]::smallint[] AS sides,
    ((i % 17) * 3 + ((i * 7919) % 101) * 0.5 + CASE WHEN i % 4 = 0 THEN 20 ELSE 0 END)::float8 AS price,
    (i % 17) / 6 AS grade,
    (ARRAY['small', 'middle', 'large'])[1 + (i % 17) / 6] AS label
FROM generate_series(1, 400) i;

-- Regression, as the lines that a user reads.
SELECT * FROM pgml.train('price', 'regression', '(SELECT size, weight, price FROM goods)', 'price', 'xgboost',
    '{"n_estimators": 20, "max_depth": 4}');
SELECT name, task FROM pgml.projects;
SELECT id, relation_name, y_column_name, test_size, test_sampling, status, analysis, materialized FROM pgml.snapshots;
SELECT c ->> 'name' AS name, c ->> 'pg_type' AS pg_type, c ->> 'label' AS label, c ->> 'size' AS size,
    c -> 'statistics' ->> 'min' AS min, c -> 'statistics' ->> 'max' AS max
FROM pgml.snapshots, jsonb_array_elements(columns) c;
SELECT id, project_id, snapshot_id, num_features, algorithm, runtime, hyperparams, status, search, search_params,
    search_args
FROM pgml.models;
SELECT key, round(value::numeric, 3) AS value
FROM pgml.models, jsonb_each_text(metrics) WHERE key NOT LIKE '%\_time' AND jsonb_typeof(metrics->key) = 'number' ORDER BY key;
SELECT key FROM pgml.models, jsonb_each_text(metrics) WHERE key LIKE '%\_time' AND value::numeric >= 0 ORDER BY key;
SELECT model_id, path, part, length(data) > 1000 AS has_bytes, digest = sha256(data) AS has_digest FROM pgml.files;
SELECT project_id, model_id, strategy FROM pgml.deployments;

-- Classification of integers, text and booleans; NULL features, text categories and arrays among the columns.
SELECT * FROM pgml.train('grade', 'classification', '(SELECT size, weight, age, colour, sale, sides, grade FROM goods)',
    'grade', 'xgboost', '{"n_estimators": 5}');
SELECT * FROM pgml.train('label', 'classification', '(SELECT size, age, colour, sides, label FROM goods)', 'label',
    'xgboost', '{"n_estimators": 5}');
SELECT * FROM pgml.train('sale', 'classification', '(SELECT id % 3 AS rest, size, sale FROM goods)', 'sale',
    'xgboost', '{"n_estimators": 5}');
SELECT name, num_features, metrics ? 'roc_auc' AS has_auc, round((metrics ->> 'f1')::numeric, 3) AS f1
FROM pgml.models m INNER JOIN pgml.projects p ON p.id = m.project_id ORDER BY m.id;
SELECT c ->> 'name' AS name, c ->> 'pg_type' AS pg_type, c ->> 'nullable' AS nullable, c ->> 'size' AS size,
    c ->> 'array' AS "array", c -> 'statistics' ->> 'missing' AS missing, c -> 'statistics' ->> 'distinct' AS distinct
FROM pgml.snapshots, jsonb_array_elements(columns) c WHERE id = 2;
SELECT c -> 'statistics' -> 'categories' AS categories
FROM pgml.snapshots, jsonb_array_elements(columns) c WHERE id = 3 AND c ->> 'name' IN ('colour', 'label');

-- Views, materialized views and partitioned tables.
CREATE VIEW view_of_goods AS SELECT size, weight, price FROM goods WHERE id % 2 = 0;
CREATE MATERIALIZED VIEW stored_goods AS SELECT size, weight, price FROM goods;
CREATE TABLE parts (id int NOT NULL, size real, price float8) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (1) TO (200);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (200) TO (1000);
INSERT INTO parts SELECT id, size, price FROM goods;
SELECT * FROM pgml.train('view', 'regression', 'view_of_goods', 'price', 'xgboost', '{"n_estimators": 2}');
SELECT * FROM pgml.train('stored', 'regression', 'stored_goods', 'price', 'xgboost', '{"n_estimators": 2}');
SELECT * FROM pgml.train('parts', 'regression', 'parts', 'price', 'xgboost', '{"n_estimators": 2}');
SELECT c ->> 'name' AS name, c ->> 'nullable' AS nullable
FROM pgml.snapshots, jsonb_array_elements(columns) c WHERE relation_name = 'public.parts';

-- Names: quotes, schemas and the search_path, as in a FROM clause.
CREATE SCHEMA "My Shop";
CREATE TABLE "My Shop"."Big ""Goods""" AS SELECT size AS "Size of it", price AS "Price; DROP TABLE goods" FROM goods;
SELECT * FROM pgml.train('quoted', 'regression', '"My Shop"."Big ""Goods"""', 'Price; DROP TABLE goods', 'xgboost',
    '{"n_estimators": 2}');
CREATE TABLE "My Shop".goods AS SELECT size, -price AS price FROM goods;
SET search_path TO "My Shop", public;
SELECT * FROM pgml.train('path', 'regression', 'GOODS', 'price', 'xgboost', '{"n_estimators": 2}');
RESET search_path;
SELECT relation_name FROM pgml.snapshots ORDER BY id DESC LIMIT 2;
CREATE TEMP TABLE goods_today AS SELECT size, price FROM goods;
SELECT * FROM pgml.train('temp', 'regression', 'goods_today', 'price', 'xgboost', '{"n_estimators": 2}');

-- Queries in parentheses may do all that a query may.
SELECT * FROM pgml.train('query', 'regression', $$
    (WITH dear AS (SELECT * FROM goods WHERE price > 20)
     SELECT avg(weight) AS weight, size, avg(price) AS price FROM dear GROUP BY size, id % 10
     UNION ALL SELECT 1, 2, 3 ORDER BY weight, size, price)
$$, 'price', 'xgboost', '{"n_estimators": 2}');

-- A name in the search_path that hides an operator or a function of the system changes nothing.
CREATE SCHEMA evil;
CREATE FUNCTION evil.never(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.never);
SET search_path TO evil, pg_catalog, public;
SELECT * FROM pgml.train('price', hyperparams => '{"n_estimators": 3}', algorithm => 'xgboost');
RESET search_path;

-- Later calls use the last relation, label and split again; a better model takes over, a worse one does not.
SELECT * FROM pgml.train('price', algorithm => 'xgboost', hyperparams => '{"n_estimators": 15, "max_depth": 3}');
SELECT * FROM pgml.train('price', algorithm => 'xgboost', hyperparams => '{"n_estimators": 100, "max_depth": 4}',
    automatic_deploy => false);
SELECT m.id, p.name, d.strategy FROM pgml.deployments d
INNER JOIN pgml.models m ON m.id = d.model_id INNER JOIN pgml.projects p ON p.id = d.project_id
WHERE p.name = 'price' ORDER BY d.id;

-- A snapshot that is kept answers later calls, whatever has become of the table.
SELECT * FROM pgml.train('kept', 'regression', '(SELECT size, weight, price FROM goods)', 'price', 'xgboost',
    '{"n_estimators": 2}', materialize_snapshot => true);
SELECT id AS kept, format('pgml.snapshot_%s', id) AS snapshot FROM pgml.snapshots WHERE materialized \gset
SELECT count(*), round(sum(price)::numeric, 2) FROM :snapshot;
BEGIN;
DELETE FROM goods;
SELECT * FROM pgml.train('kept', algorithm => 'xgboost', hyperparams => '{"n_estimators": 4}');
ROLLBACK;
SELECT count(*) FROM pgml.snapshots WHERE materialized;

-- Sizes and ways of the split.
SELECT * FROM pgml.train('split', 'regression', '(SELECT id, size, price FROM goods)', 'price', 'xgboost',
    '{"n_estimators": 1}', test_size => 0.1, test_sampling => 'random');
SELECT * FROM pgml.train('split', 'regression', '(SELECT id, size, price FROM goods)', 'price', 'xgboost',
    '{"n_estimators": 1}', test_size => 37, test_sampling => 'last');
SELECT * FROM pgml.train('split', 'regression', '(SELECT id, size, price FROM goods)', 'price', 'xgboost',
    '{"n_estimators": 1}', test_size => 0);
SELECT test_size, test_sampling FROM pgml.snapshots ORDER BY id DESC LIMIT 3;
-- Of each class a quarter is tested, of the rare one too.
SELECT * FROM pgml.train('rare', 'classification', '(SELECT size, id % 100 = 0 AS rare FROM goods)', 'rare', 'xgboost',
    '{"n_estimators": 1}');

-- Hyperparameters under their other names give the same model, byte for byte; the seed decides about the rows drawn.
SELECT pgml.train('alias', 'regression', 'stored_goods', 'price', 'xgboost',
    '{"n_estimators": 4, "eta": 0.2, "lambda": 2, "seed": 7, "subsample": 0.5}');
SELECT pgml.train('alias', 'regression', 'stored_goods', 'price', 'xgboost',
    '{"boost_rounds": 4, "learning_rate": 0.2, "reg_lambda": 2, "random_state": 7, "subsample": 0.5}');
SELECT pgml.train('alias', 'regression', 'stored_goods', 'price', 'xgboost',
    '{"boost_rounds": 4, "learning_rate": 0.2, "reg_lambda": 2, "random_state": 8, "subsample": 0.5}');
SELECT count(*), count(DISTINCT digest) FROM pgml.files f
INNER JOIN pgml.models m ON m.id = f.model_id INNER JOIN pgml.projects p ON p.id = m.project_id WHERE p.name = 'alias';
SELECT pgml.train('alias', algorithm => 'xgboost', hyperparams => '{"n_estimators": 2, "gpu_id": 0}');

-- A random forest is one round of many trees.
SELECT * FROM pgml.train('forest', 'regression', 'stored_goods', 'price', 'xgboost_random_forest',
    '{"n_estimators": 30, "max_depth": 5}');
SELECT * FROM pgml.train('boosters', 'regression', 'stored_goods', 'price', 'xgboost',
    '{"n_estimators": 5, "booster": "dart", "rate_drop": 0.3}');
SELECT * FROM pgml.train('boosters', 'regression', 'stored_goods', 'price', 'xgboost',
    '{"n_estimators": 5, "booster": "gblinear", "nthread": 1, "feature_selector": "cyclic", "updater": "coord_descent"}');

-- Early stopping keeps the best round: far fewer than asked for.
CREATE TABLE noise AS SELECT x % 10 AS x, sin(x * 12.9898) * 43758.5453 - floor(sin(x * 12.9898) * 43758.5453) AS y
FROM generate_series(1, 500) x;
SELECT * FROM pgml.train('noise', 'regression', 'noise', 'y', 'xgboost',
    '{"n_estimators": 1000, "early_stopping_rounds": 3}');
SELECT length(data) < 200000 AS stopped_early FROM pgml.files ORDER BY id DESC LIMIT 1;

-- Monotone constraints, by the name of the column: the prediction never falls where x rises.
CREATE TABLE waves AS SELECT x / 10.0 AS x, x % 2 AS other, x / 10.0 + 3 * sin(x / 5.0) AS y
FROM generate_series(0, 300) x;
SELECT * FROM pgml.train('waves', 'regression', 'waves', 'y', 'xgboost', '{"n_estimators": 30}');
SELECT * FROM pgml.train('rising', 'regression', 'waves', 'y', 'xgboost',
    '{"n_estimators": 30, "monotone_constraints": {"x": 1}}');
SELECT project, bool_and(rises) AS rises FROM (
    SELECT project, pgml.predict(project, ARRAY[x, 0]::float8[])
        >= lag(pgml.predict(project, ARRAY[x, 0]::float8[])) OVER (PARTITION BY project ORDER BY x) AS rises
    FROM waves, unnest(ARRAY['rising', 'waves']) project
) steps GROUP BY project ORDER BY project;

-- Runtimes of the original are taken; a prediction is of the right kind in each project.
SELECT * FROM pgml.train('rare', algorithm => 'xgboost', hyperparams => '{"n_estimators": 1}', runtime => 'python');
SELECT DISTINCT ON (name) name, task, algorithm, runtime, deployed FROM pgml.trained_models
WHERE deployed ORDER BY name;
