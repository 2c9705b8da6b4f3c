-- Which model answers for a project: pgml.deploy in both its forms, with every strategy.
CREATE EXTENSION pgml;
\pset format unaligned
\pset footer off
CREATE FUNCTION attempt(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    state := '00000';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;

-- Models 1 and 3 are good, 2 is bad, 4 is a random forest; 5 is of another project, for classes.
CREATE TABLE line AS SELECT x::real, x::real AS y, x > 50 AS big FROM generate_series(1, 100) x;
SELECT * FROM pgml.train('line', 'regression', '(SELECT x, y FROM line)', 'y', 'xgboost', '{"n_estimators": 30}',
    automatic_deploy => false);
SELECT * FROM pgml.train('line', algorithm => 'xgboost', hyperparams => '{"n_estimators": 1}', automatic_deploy => false);
SELECT * FROM pgml.train('line', algorithm => 'xgboost', hyperparams => '{"n_estimators": 60}', automatic_deploy => false);
SELECT * FROM pgml.train('line', algorithm => 'xgboost_random_forest', hyperparams => '{"n_estimators": 10}',
    automatic_deploy => false);
SELECT * FROM pgml.train('classes', 'classification', '(SELECT x, big FROM line)', 'big', 'xgboost',
    '{"n_estimators": 2}', automatic_deploy => false);

-- Trained, and not deployed: nothing answers yet.
SELECT * FROM attempt($$SELECT pgml.predict('line', ARRAY[1]::real[])$$);
SELECT * FROM attempt($$SELECT pgml.deploy('line', 'rollback')$$);

-- By id; by strategy; with an algorithm.
SELECT * FROM pgml.deploy(2);
SELECT * FROM pgml.deploy('line', 'best_score');
SELECT * FROM pgml.deploy('line', 'most_recent');
SELECT * FROM pgml.deploy('line', 'most_recent', 'xgboost');
SELECT * FROM pgml.deploy(project_name => 'line', strategy => 'best_score', algorithm => 'xgboost_random_forest');
SELECT * FROM pgml.deploy('classes', 'best_score');
SELECT model_id, strategy FROM pgml.deployments ORDER BY id;

-- Rollback goes to the model before, and again: back.
SELECT * FROM pgml.deploy('line', 'rollback');
SELECT model_id, strategy FROM pgml.deployments ORDER BY id DESC LIMIT 1;
SELECT * FROM pgml.deploy('line', 'rollback');
SELECT model_id, strategy FROM pgml.deployments ORDER BY id DESC LIMIT 1;
SELECT * FROM pgml.deploy('line', 'rollback', 'xgboost');
SELECT model_id, strategy FROM pgml.deployments ORDER BY id DESC LIMIT 1;

-- Scores are compared as numbers, not as text; ties go to the newer model; no score comes last.
BEGIN;
UPDATE pgml.models SET metrics = '{"r2": 9e-05}' WHERE id = 1;
UPDATE pgml.models SET metrics = '{"r2": 0.5}' WHERE id IN (2, 3);
UPDATE pgml.models SET metrics = NULL WHERE id = 4;
SELECT * FROM pgml.deploy('line', 'best_score');
SELECT model_id FROM pgml.deployments ORDER BY id DESC LIMIT 1;
UPDATE pgml.models SET metrics = '{"r2": -0.5}' WHERE id = 1;
UPDATE pgml.models SET metrics = '{"r2": -0.1}' WHERE id = 2;
UPDATE pgml.models SET metrics = '{}' WHERE id = 3;
SELECT * FROM pgml.deploy('line', 'best_score');
SELECT model_id FROM pgml.deployments ORDER BY id DESC LIMIT 1;
ROLLBACK;

-- A deployment is seen at once in its own transaction, and never was when that rolls back.
SELECT * FROM pgml.deploy(3);
SELECT round(pgml.predict('line', ARRAY[100]::real[])::numeric, 1) > 80 AS good;
BEGIN;
SELECT * FROM pgml.deploy(2);
SELECT round(pgml.predict('line', ARRAY[100]::real[])::numeric, 1) > 80 AS good;
ROLLBACK;
SELECT round(pgml.predict('line', ARRAY[100]::real[])::numeric, 1) > 80 AS good;
BEGIN;
SAVEPOINT before;
SELECT * FROM pgml.deploy(2);
SELECT round(pgml.predict('line', ARRAY[100]::real[])::numeric, 1) > 80 AS good;
ROLLBACK TO before;
SELECT round(pgml.predict('line', ARRAY[100]::real[])::numeric, 1) > 80 AS good;
COMMIT;

-- The views agree.
SELECT id, name, task, algorithm, runtime FROM pgml.deployed_models;
SELECT id, name, deployed FROM pgml.trained_models ORDER BY id;
SELECT name, algorithm, relation_name, y_column_name, test_sampling, test_size FROM pgml.overview LIMIT 1;
SELECT count(*) = (SELECT count(*) FROM pgml.deployments) AS all_of_them FROM pgml.overview;

-- What is refused.
\pset expanded on
SELECT * FROM attempt('SELECT pgml.deploy(99)');
SELECT * FROM attempt('SELECT pgml.deploy(NULL::bigint)');
SELECT * FROM attempt($$SELECT pgml.deploy('lime', 'best_score')$$);
SELECT * FROM attempt($$SELECT pgml.deploy(NULL, 'best_score')$$);
SELECT * FROM attempt($$SELECT pgml.deploy('line', NULL)$$);
SELECT * FROM attempt($$SELECT pgml.deploy('line', 'best_score', 'svm')$$);
SELECT * FROM attempt($$SELECT pgml.deploy('classes', 'rollback')$$);
SELECT * FROM attempt($$SELECT pgml.deploy('line', 'new_score')$$);
SELECT * FROM attempt($$SELECT pgml.deploy('line', 'specific')$$);
SELECT * FROM attempt($$SELECT pgml.deploy('line', 'newest')$$);
UPDATE pgml.models SET status = 'failed' WHERE id = 1;
SELECT * FROM attempt('SELECT pgml.deploy(1)');
SELECT count(*) FROM pgml.deployments;

-- A project goes with all that belongs to it.
DELETE FROM pgml.projects WHERE name = 'line';
SELECT (SELECT count(*) FROM pgml.models) AS models, (SELECT count(*) FROM pgml.files) AS files,
    (SELECT count(*) FROM pgml.deployments) AS deployments;
SELECT * FROM attempt($$SELECT pgml.predict('line', ARRAY[1]::real[])$$);
