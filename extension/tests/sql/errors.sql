-- What bad input gets: an ERROR that names what is wrong, nothing half-written, and a connection that goes on.
CREATE EXTENSION pgml;
-- What a training would leave out or impute by itself is an error here.
SET pgml.strict = on;
\pset format unaligned
\pset footer off
-- What there is in the registry, tables of snapshots included.
CREATE VIEW registry AS
SELECT concat_ws(', ',
    (SELECT count(*) FROM pgml.projects), (SELECT count(*) FROM pgml.snapshots), (SELECT count(*) FROM pgml.models),
    (SELECT count(*) FROM pgml.files), (SELECT count(*) FROM pgml.deployments),
    (SELECT count(*) FROM pg_class WHERE relnamespace = 'pgml'::regnamespace AND relname LIKE 'snapshot\_%')) AS rows;
CREATE FUNCTION attempt(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    state := '00000';
EXCEPTION WHEN query_canceled OR OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;
-- Training of that relation or query, with more arguments at the end.
CREATE FUNCTION training(relation text, task text DEFAULT 'regression', hyperparams text DEFAULT '{"n_estimators": 2}',
    more text DEFAULT '', OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE sql AS $$
    SELECT attempt.* FROM attempt(format('SELECT pgml.train(%L, %L, %L, %L, %L, %L %s)',
        'new', task, relation, 'y', 'xgboost', hyperparams, more))
$$;
CREATE TABLE good AS SELECT i % 10 AS x, i % 3 AS z, (i % 10)::float8 * 2 AS y FROM generate_series(1, 100) i;
SELECT pgml.train('good', 'regression', 'good', 'y', 'xgboost', '{"n_estimators": 30}', materialize_snapshot => true);
SELECT * FROM registry;
\pset expanded on

-- Projects and models that are not there.
SELECT * FROM attempt($$SELECT pgml.predict('god', ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT pgml.predict('completely different', ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT pgml.predict(4711, ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT pgml.predict(-1, ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT pgml.predict('', ARRAY[1, 2])$$);
-- A wrong number of features.
SELECT * FROM attempt($$SELECT pgml.predict('good', ARRAY[1])$$);
SELECT * FROM attempt($$SELECT pgml.predict(1, ARRAY[1, 2, 3, 4])$$);
-- A NULL array is no error.
SELECT pgml.predict('good', NULL::real[]) IS NULL AS is_null;
-- Infinities: training names the column, predictions take them.
SELECT * FROM training('(SELECT x, z + CASE WHEN x = 3 THEN ''Infinity''::float8 ELSE 0 END AS z, y FROM good)');
SELECT * FROM training('(SELECT ''-Infinity''::real AS "the x", 1e300::float8 AS z, y FROM good LIMIT 7)');
SELECT * FROM training('(SELECT x, 1e39::numeric AS z, y FROM good)');
SELECT * FROM training('(SELECT x, CASE WHEN x = 1 THEN ''Infinity'' ELSE y END AS y FROM good)');
SELECT * FROM training('(SELECT ARRAY[x, CASE WHEN x = 1 THEN ''Infinity'' ELSE z::real END] AS pair, y FROM good)');
SELECT pgml.predict('good', ARRAY['Infinity', '-Infinity']::real[]) IS NOT NULL AS answered;
-- NULL and NaN labels are counted.
SELECT * FROM training('(SELECT x, CASE WHEN x <> 3 THEN y END AS y FROM good)');
SELECT * FROM training('(SELECT x, CASE WHEN x = 3 THEN NULL WHEN x = 4 THEN ''NaN'' ELSE y END AS y FROM good)');
SELECT * FROM training('(SELECT x, CASE WHEN x = 4 THEN ''NaN'' ELSE y END AS y FROM good)', 'classification');
SELECT * FROM training('(SELECT x, CASE WHEN x = 4 THEN ''a'' END AS y FROM good)', 'classification');
SELECT * FROM training('(SELECT x, NULL::int AS y FROM good)');
-- Too few rows.
SELECT * FROM training('(SELECT * FROM good WHERE false)');
SELECT * FROM training('(SELECT * FROM good LIMIT 1)');
SELECT * FROM training('(SELECT x, true AS y FROM good LIMIT 1)', 'classification');
SELECT * FROM training('good', more => ', test_size => 100');
SELECT * FROM training('good', more => ', test_size => 1000');
SELECT * FROM training('good', more => ', test_size => -0.5');
SELECT * FROM training('good', more => ', test_size => ''NaN''');
SELECT * FROM training('good', more => ', test_size => NULL');
-- One class; too many classes.
SELECT * FROM training('(SELECT x, ''same'' AS y FROM good)', 'classification');
SELECT * FROM training('(SELECT x, 7 AS y FROM good)', 'classification');
SELECT * FROM training('(SELECT i AS x, i AS y FROM generate_series(1, 2000) i)', 'classification');
SELECT * FROM registry;

-- Columns that cannot be features, labels that cannot be labels.
SELECT * FROM training('(SELECT ''::1''::inet AS day, x, ''{}''::json AS doc, y FROM good)');
SELECT * FROM training('(SELECT x, ARRAY[''a''] AS tags, y FROM good)');
SELECT * FROM training('(SELECT good AS whole, y FROM good)');
SELECT * FROM training('(SELECT x, now() AS y FROM good)');
SELECT * FROM training('(SELECT x, ''text'' AS y FROM good)');
SELECT * FROM training('(SELECT x, ARRAY[1] AS y FROM good)', 'classification');
SELECT * FROM training('(SELECT x, z FROM good)');
SELECT * FROM training('(SELECT x, z AS "Y" FROM good)');
SELECT * FROM training('(SELECT y FROM good)');
SELECT * FROM training('(SELECT x, z AS x, y FROM good)');
SELECT * FROM training('(SELECT ARRAY[x] || CASE WHEN x = 3 THEN ARRAY[1, 2] END AS list, y FROM good)');
SELECT * FROM training('(SELECT ''{}''::int[] AS list, y FROM good)');
SELECT * FROM training('(SELECT NULL::int[] AS list, y FROM good)');
SELECT * FROM training('(SELECT i::text AS key, i AS y FROM generate_series(1, 70000) i)');

-- Relations that are not there, and what is no relation and no query.
SELECT * FROM training('nowhere');
SELECT * FROM training('nowhere.good');
SELECT * FROM training('a.b.c.d');
SELECT * FROM training('');
SELECT * FROM training('"good');
SELECT * FROM training('SELECT * FROM good');
SELECT * FROM training('good; DROP TABLE good');
SELECT * FROM training('(SELECT * FROM good) AS g');
SELECT * FROM training('(SELECT * FROM good); DROP TABLE good; (SELECT 1)');
SELECT * FROM training('(DELETE FROM good RETURNING *)');
SELECT * FROM training('(WITH gone AS (DELETE FROM good RETURNING *) SELECT * FROM gone)');
SELECT * FROM training('(SELECT * FROM good); DROP TABLE good; (SELECT 1)', more => ', materialize_snapshot => true');
SELECT * FROM training('(WITH gone AS (DELETE FROM good RETURNING *) SELECT * FROM gone)',
    more => ', materialize_snapshot => true');
SELECT * FROM training('(SELECT * FROM good FOR UPDATE)');
SELECT * FROM training('()');
SELECT * FROM training('(SELECT)');
SELECT * FROM training('(SELECT * FROM good WHERE x > $1)');
SELECT * FROM training('(VALUES (1, 2), (3, 4))');
SELECT * FROM training('(SELECT nothing FROM good)');
SELECT * FROM training('(SELECT x, 1 / (x - 3) AS z, y FROM good)');
SELECT * FROM training('pgml.projects_id_seq');
SELECT * FROM training('pgml.projects_name_idx');
SELECT count(*) FROM good;
SELECT * FROM registry;

-- Hyperparameters: names and values are checked before any row is read, which here would fail.
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"n_estimatros": 2}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"max_depth": "deep"}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"max_depth": -1}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"eta": 0.1, "learning_rate": 0.2}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"objective": "reg:squarederor"}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"objective": "multi:softmax"}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"subsample": 1.5}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"eval_metric": "rsme"}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"monotone_constraints": {"w": 1}}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"monotone_constraints": [1, 1]}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"missing": 0}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"device": "cuda"}');
-- What asks for much is refused before it is tried out.
SET statement_timeout = '5s';
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', 'classification', '{"num_class": 100000, "n_estimators": 2}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', 'classification', '{"num_class": 1000, "tree_method": "approx"}');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"max_bin": 2000000000, "tree_method": "approx"}');
SELECT * FROM training('(SELECT x::text || repeat(''long'', 10000) AS y, x FROM good)', 'classification');
RESET statement_timeout;
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '[]');
SELECT * FROM training('(SELECT 1 / 0 AS x, 1 AS y)', hyperparams => '{"n_estimators": null}');
SELECT * FROM training('good', hyperparams => '{"early_stopping_rounds": 2}', more => ', test_size => 0');
SELECT * FROM training('(SELECT x, z AS y FROM good)', 'classification', '{"objective": "binary:logistic"}');
SELECT * FROM training('(SELECT x, z AS y FROM good)', 'classification', '{"num_class": 4}');
SELECT * FROM training('(SELECT x, -y AS y FROM good)', hyperparams => '{"objective": "reg:gamma"}');
SELECT * FROM training('good', hyperparams => '{"objective": "reg:logistic"}');

-- Arguments.
SELECT * FROM training('good', 'regresion');
SELECT * FROM training('good', 'clustering');
SELECT * FROM training('good', 'text_generation');
SELECT * FROM training('good', NULL);
SELECT * FROM attempt($$SELECT pgml.train('new', 'regression', 'good', 'y', 'kmeans')$$);
SELECT * FROM attempt($$SELECT pgml.train('new', 'regression', 'good', 'y', 'transformers')$$);
SELECT * FROM attempt($$SELECT pgml.train('new', 'regression', 'good', 'y', 'xgbost')$$);
SELECT * FROM attempt($$SELECT pgml.train('new', 'regression', 'good', 'y', NULL)$$);
SELECT * FROM attempt($$SELECT pgml.train('new', 'regression', 'good', NULL, 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('new', 'regression', NULL, 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train(NULL, 'regression', 'good', 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('', 'regression', 'good', 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('good', 'classification', 'good', 'y', 'xgboost')$$);
SELECT * FROM training('good', more => $$, search => 'grid'$$);
SELECT * FROM training('good', more => $$, search_params => '{"max_depth": [1, 2]}'$$);
SELECT * FROM training('good', more => $$, search_args => '{"n_iter": 2}'$$);
SELECT * FROM training('good', more => $$, preprocess => '{"x": {"scale": "standart"}}'$$);
SELECT * FROM training('good', more => $$, runtime => 'openai'$$);
SELECT * FROM training('good', more => $$, test_sampling => 'first'$$);
SELECT * FROM training('good', more => $$, test_sampling => NULL$$);

-- Without the training library predictions go on.
SET pgml.xgboost_library = '/nowhere/libxgboost.so';
SELECT * FROM training('good');
SELECT * FROM attempt('SELECT pgml.xgboost_version()');
SET pgml.xgboost_library = '';
SELECT state, message, hint FROM training('good');
SELECT round(pgml.predict('good', ARRAY[4, 1])::numeric, 0) AS answer;
RESET pgml.xgboost_library;

-- A training that takes too long.
SET statement_timeout = '3s';
SELECT * FROM training('good', hyperparams => '{"n_estimators": 100000000}', more => ', materialize_snapshot => true');
SET statement_timeout = '300ms';
SELECT * FROM training('(SELECT i AS x, i AS y FROM generate_series(1, 100000000) i)');
RESET statement_timeout;
SELECT * FROM registry;

-- As a statement of its own, an ERROR ends the transaction and nothing else.
BEGIN;
SELECT pgml.train('new', 'regression', '(SELECT x, NULL::int AS y FROM good)', 'y', 'xgboost');
SELECT 1;
ROLLBACK;
SELECT * FROM registry;
-- A failure after other writes of the transaction leaves them to a savepoint.
BEGIN;
SELECT pgml.train('kept', 'regression', 'good', 'y', 'xgboost', '{"n_estimators": 1}');
SAVEPOINT before;
SELECT pgml.train('kept', hyperparams => '{"n_estimators": 0}', algorithm => 'xgboost');
ROLLBACK TO before;
COMMIT;
SELECT * FROM registry;
SELECT pgml.predict('kept', ARRAY[1, 2]) IS NOT NULL AS answered;

-- What is odd, and no error: constant columns, a constant target, columns that are NULL everywhere.
SELECT * FROM training('(SELECT 1 AS x, ''a''::text AS c, NULL::real AS n, NULL::text AS t, 5.5::float8 AS y FROM good)');
SELECT round(pgml.predict('new', 1, 'a', NULL::real, NULL::text)::numeric, 3) AS constant;
