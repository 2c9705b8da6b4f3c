-- Whose project it is, and what others may do with it: each function, table and view as each kind of role.
CREATE EXTENSION pgml;
\pset format unaligned
\pset footer off
CREATE ROLE pgml_test_owner;
CREATE ROLE pgml_test_member IN ROLE pgml_test_owner;
CREATE ROLE pgml_test_stranger;
SELECT string_agg(format('CREATE ROLE pgml_test_%s', privilege), '; ') AS roles
FROM unnest('{see, predict, explain, train, deploy, export}'::text[]) privilege \gset
:roles;
CREATE TABLE data AS SELECT i % 10 AS x, 'ssn-' || i % 3 AS ssn, i % 10 < 5 AS y FROM generate_series(1, 100) i;
CREATE TABLE open_data AS SELECT x, y FROM data;
GRANT SELECT ON data TO pgml_test_owner;
GRANT SELECT ON open_data TO PUBLIC;
-- To make projects is to insert into them.
GRANT INSERT ON pgml.projects TO pgml_test_owner;
SET ROLE pgml_test_owner;
SELECT * FROM pgml.train('churn', 'classification', '(SELECT x, ssn, y FROM data)', 'y', 'xgboost', '{"n_estimators": 2}');
SELECT * FROM pgml.train('churn', algorithm => 'xgboost', hyperparams => '{"n_estimators": 3}', automatic_deploy => false);
SELECT name, owner FROM pgml.projects;
-- What others have of a new project; then nothing.
SELECT project, grantee, privilege, grantor FROM pgml.grants;
SELECT pgml.revoke('churn', 'public', 'all');
SELECT pgml.grant('churn', 'pgml_test_' || privilege, privilege)
FROM unnest('{see, predict, explain, train, deploy, export}'::text[]) privilege;
SELECT project, grantee, privilege, grantor FROM pgml.grants;
RESET ROLE;

-- A training of the owner's in the background, as if it had ended.
INSERT INTO pgml.training_jobs (id, project_name, algorithm, request, settings, role, session_role, login_role, definer, status)
VALUES (100, 'churn', 'xgboost', '{}', '{}', 'pgml_test_owner', 'pgml_test_owner', 'pgml_test_owner', false, 'done');

-- Runs a statement as a role and undoes what it did: yes, or the SQLSTATE, or how many rows it was about.
CREATE FUNCTION outcome(role name, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    rows bigint;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE statement;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RAISE SQLSTATE 'UNDO0' USING MESSAGE = CASE WHEN statement LIKE 'SELECT pgml.%' THEN 'yes' ELSE rows::text END;
EXCEPTION
    WHEN SQLSTATE 'UNDO0' THEN RETURN SQLERRM;
    WHEN OTHERS THEN RETURN SQLSTATE;
END $$;
CREATE TABLE statements (id int GENERATED ALWAYS AS IDENTITY, statement text);
INSERT INTO statements (statement) VALUES
    ($$SELECT pgml.predict('churn', 1, 'ssn-1')$$),
    ($$SELECT pgml.predict('churn', d) FROM (SELECT 1 AS x, 'ssn-1' AS ssn) d$$),
    ($$SELECT pgml.predict('churn', ARRAY[1, 1])$$),
    ($$SELECT pgml.predict(1, 1, 'ssn-1')$$),
    ($$SELECT pgml.predict_proba('churn', 1, 'ssn-1')$$),
    ($$SELECT pgml.predict_proba(2, 1, 'ssn-1')$$),
    ($$SELECT pgml.predict_label('churn', 1, 'ssn-1')$$),
    ($$SELECT pgml.predict_label(2, ARRAY[1, 1]::real[])$$),
    ($$SELECT pgml.predict_batch('churn', ARRAY[1, 1]::real[])$$),
    ($$SELECT pgml.predict_batch(2, ARRAY[1, 1]::real[])$$),
    ($$SELECT pgml.predict_agg('churn', 1, 'ssn-1')$$),
    ($$SELECT pgml.predict_agg(2, 1, 'ssn-1')$$),
    ($$SELECT pgml.explain('churn', 1, 'ssn-1')$$),
    ($$SELECT pgml.explain(2, ARRAY[1, 1])$$),
    ($$SELECT pgml.explain_batch('churn', ARRAY[1, 1]::real[])$$),
    ($$SELECT pgml.explain_batch(2, ARRAY[1, 1]::real[])$$),
    ($$SELECT pgml.evaluate('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.evaluate(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.held_out('churn', (1, 'ssn-1', true))$$),
    ($$SELECT pgml.held_out(2, (1, 'ssn-1', true))$$),
    ($$SELECT pgml.confusion_matrix('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.confusion_matrix(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.roc_curve('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.roc_curve(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.precision_recall_curve('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.precision_recall_curve(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.calibration_curve('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.calibration_curve(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.residual_quantiles('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.compare('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.feature_importance('churn')$$),
    ($$SELECT pgml.feature_importance(2)$$),
    ($$SELECT pgml.permutation_importance('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.permutation_importance(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.predict_interval('churn', ARRAY[1, 1])$$),
    ($$SELECT pgml.predict_interval(2, ARRAY[1, 1])$$),
    ($$SELECT pgml.sklearn_f1_score(ARRAY[1], ARRAY[1])$$),
    ($$SELECT pgml.sklearn_r2_score(ARRAY[1], ARRAY[1])$$),
    ($$SELECT pgml.sklearn_regression_metrics(ARRAY[1], ARRAY[1])$$),
    ($$SELECT pgml.sklearn_classification_metrics(ARRAY[1], ARRAY[1], 2)$$),
    ($$SELECT pgml.drift('churn', '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.drift(2, '(SELECT 1 AS x, ''ssn-1'' AS ssn, true AS y)')$$),
    ($$SELECT pgml.deploy(1)$$),
    ($$SELECT pgml.deploy('churn', 'most_recent')$$),
    ($$SELECT pgml.deploy('churn', 'canary', model_id => 2, share => 0.5)$$),
    ($$SELECT pgml.model_for('churn', 'key')$$),
    ($$SELECT pgml.model_for('churn', 1)$$),
    ($$SELECT pgml.shadow_of('churn')$$),
    ($$SELECT pgml.predict_shadow('churn', ARRAY[1, 1])$$),
    ($$SELECT pgml.train_async('churn', algorithm => 'xgboost', automatic_deploy => false)$$),
    ($$SELECT pgml.train_async('churn', algorithm => 'xgboost')$$),
    ($$SELECT pgml.train_async('new', 'regression', 'open_data', 'y', 'xgboost')$$),
    ($$SELECT pgml.wait(100)$$),
    ($$SELECT pgml.cancel(100)$$),
    ($$SELECT pgml.wait(101)$$),
    ($$SELECT pgml.cancel(101)$$),
    ($$SELECT pgml.job_status(100, 'running')$$),
    ($$SELECT FROM pgml.running_trainings()$$),
    ($$SELECT FROM pgml.model_usage()$$),
    ($$SELECT pgml.reset_stat_models(1)$$),
    ($$SELECT pgml.reset_stat_models()$$),
    ($$SELECT pgml.grant('churn', 'public', 'export')$$),
    ($$SELECT pgml.revoke('churn', 'pgml_test_see', 'see')$$),
    ($$SELECT pgml.set_owner('churn', 'pgml_test_owner')$$),
    ($$SELECT pgml.set_owner('churn', 'pgml_test_stranger')$$),
    ($$SELECT pgml.load_dataset('iris')$$),
    ($$SELECT pgml.version()$$),
    ($$SELECT pgml.xgboost_version()$$),
    ($$SELECT pgml.has_privilege('churn', 'see')$$),
    ($$SELECT FROM pgml.projects WHERE pgml.project_allows(id, 'see')$$),
    ($$SELECT FROM generate_series(1, 3) id WHERE pgml.model_allows(id, 'see')$$),
    ($$SELECT FROM generate_series(1, 3) id WHERE pgml.snapshot_allows(id, 'export')$$),
    ($$SELECT FROM pgml.projects$$),
    ($$SELECT FROM pgml.models$$),
    ($$SELECT FROM pgml.deployments$$),
    ($$SELECT FROM pgml.trials$$),
    ($$SELECT FROM pgml.snapshots$$),
    ($$SELECT FROM pgml.files$$),
    ($$SELECT FROM pgml.privileges$$),
    ($$SELECT FROM pgml.learning_curves$$),
    ($$SELECT FROM pgml.watches$$),
    ($$SELECT FROM pgml.watch_checks$$),
    ($$SELECT FROM pgml.checks$$),
    ($$SELECT pgml.describe(2, 'mine')$$),
    ($$SELECT pgml.card(2)$$),
    ($$SELECT pgml.watch('churn', 'data')$$),
    ($$SELECT pgml.check('churn')$$),
    ($$SELECT pgml.unwatch('churn')$$),
    ($$SELECT FROM pgml.learning_curve(2)$$),
    ($$SELECT FROM pgml.training_jobs$$),
    ($$SELECT FROM pgml.jobs$$),
    ($$SELECT FROM pgml.activity$$),
    ($$SELECT FROM pgml.stat_models$$),
    ($$DELETE FROM pgml.jobs$$),
    ($$UPDATE pgml.training_jobs SET role = 10$$),
    ($$SELECT nextval('pgml.training_jobs_id_seq')$$),
    ($$SELECT FROM pgml.overview$$),
    ($$SELECT FROM pgml.overview WHERE relation_name IS NOT NULL$$),
    ($$SELECT FROM pgml.trained_models$$),
    ($$SELECT FROM pgml.deployed_models$$),
    ($$SELECT FROM pgml.grants$$),
    ($$SELECT FROM pg_stats WHERE schemaname = 'pgml'$$),
    ($$SET LOCAL row_security = off; SELECT FROM pgml.files$$),
    ($$SELECT pgml.rename_project('churn', 'mine')$$),
    ($$SELECT pgml.delete_project('churn')$$),
    ($$SELECT pgml.delete_model(2)$$),
    ($$UPDATE pgml.projects SET name = 'mine'$$),
    ($$LOCK TABLE pgml.projects IN SHARE MODE$$),
    ($$LOCK TABLE pgml.models IN SHARE MODE$$),
    ($$SELECT FROM pgml.projects FOR SHARE$$),
    ($$UPDATE pgml.projects SET owner = current_user::text::regrole$$),
    ($$UPDATE pgml.models SET metrics = NULL$$),
    ($$UPDATE pgml.files SET data = ''$$),
    ($$DELETE FROM pgml.projects$$),
    ($$DELETE FROM pgml.models$$),
    ($$DELETE FROM pgml.deployments$$),
    ($$DELETE FROM pgml.trials$$),
    ($$DELETE FROM pgml.learning_curves$$),
    ($$DELETE FROM pgml.watch_checks$$),
    ($$UPDATE pgml.watches SET owner = 10$$),
    ($$DELETE FROM pgml.snapshots$$),
    ($$DELETE FROM pgml.files$$),
    ($$TRUNCATE pgml.projects CASCADE$$),
    ($$INSERT INTO pgml.projects (name, task) VALUES ('mine', 'regression')$$),
    ($$INSERT INTO pgml.models SELECT * FROM pgml.models$$),
    ($$INSERT INTO pgml.files (model_id, path, part, data) VALUES (1, 'model.ubj', 1, '')$$),
    ($$INSERT INTO pgml.deployments (project_id, model_id, strategy) VALUES (1, 1, 'specific')$$),
    ($$INSERT INTO pgml.privileges (project_id, grantee, privilege, grantor) VALUES (1, 0::oid, 'export', 0::oid)$$),
    ($$SELECT nextval('pgml.models_id_seq')$$),
    ($$CREATE TRIGGER t BEFORE INSERT ON pgml.models EXECUTE FUNCTION pgml.set_updated_at()$$);
ANALYZE pgml.projects, pgml.models, pgml.snapshots, pgml.files;
SELECT s.statement, o.*
FROM statements s, LATERAL (
    SELECT outcome('pgml_test_owner', s.statement) AS owner, outcome('pgml_test_member', s.statement) AS member,
        outcome('pgml_test_see', s.statement) AS see, outcome('pgml_test_predict', s.statement) AS predict,
        outcome('pgml_test_explain', s.statement) AS explain, outcome('pgml_test_train', s.statement) AS train,
        outcome('pgml_test_deploy', s.statement) AS deploy, outcome('pgml_test_export', s.statement) AS export,
        outcome('pgml_test_stranger', s.statement) AS stranger
) o
ORDER BY s.id;
-- No function is left out: what is not called above is part of one that is, or trains.
SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pgml'::regnamespace
AND NOT EXISTS (SELECT FROM statements WHERE statement LIKE '%pgml.' || replace(proname, '_', '\_') || '(%') ORDER BY 1;
-- Nor is a relation.
SELECT relname FROM pg_class WHERE relnamespace = 'pgml'::regnamespace AND relkind IN ('r', 'v', 'm', 'f', 'p')
AND NOT EXISTS (SELECT FROM statements WHERE statement LIKE 'SELECT FROM pgml.' || replace(relname, '_', '\_') || '%');

-- Trainings, by who may train, and deploy; on data of one's own, and with one's own rights.
CREATE FUNCTION training(role name, more text) RETURNS text LANGUAGE sql AS $$
    SELECT outcome(role, 'SELECT pgml.train(''churn'', algorithm => ''xgboost'', hyperparams => ''{"n_estimators": 1}'','
        || more || ')')
$$;
SELECT role, training(role, $$relation_name => 'open_data', y_column_name => 'y', automatic_deploy => false$$) AS training,
    training(role, $$relation_name => 'open_data', y_column_name => 'y'$$) AS with_deployment
FROM unnest('{pgml_test_train, pgml_test_deploy, pgml_test_export, pgml_test_stranger}'::name[]) role;
SELECT training('pgml_test_train', $$relation_name => 'data', y_column_name => 'y', automatic_deploy => false$$);
SELECT pgml.grant('churn', 'pgml_test_train', 'deploy');
SELECT training('pgml_test_train', $$relation_name => 'open_data', y_column_name => 'y'$$);

\pset expanded on
CREATE FUNCTION attempt(statement text, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    state := '00000';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
        hint = PG_EXCEPTION_HINT;
END $$;
-- What a project is hidden from is told what it would be told if there were none, hints included.
SET ROLE pgml_test_owner;
SELECT pgml.train('visible', 'regression', '(SELECT x, x AS y FROM open_data)', 'y', 'xgboost', '{"n_estimators": 1}');
SET ROLE pgml_test_stranger;
SELECT * FROM attempt($$SELECT pgml.predict('churn', 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.predict('nowhere', 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.predict('chrun', 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.predict('visibel', 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.predict(1, 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.predict(99, 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.deploy(1)$$);
SELECT * FROM attempt($$SELECT pgml.deploy('churn', 'best_score')$$);
SELECT * FROM attempt($$SELECT pgml.grant('churn', 'public', 'see')$$);
SELECT * FROM attempt($$SELECT pgml.set_owner('churn', 'pgml_test_stranger')$$);
SELECT * FROM attempt($$SELECT pgml.train('churn', 'regression', 'open_data', 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('nowhere', 'regression', 'open_data', 'y', 'xgboost')$$);
SELECT pgml.has_privilege('churn', 'predict') AS hidden, pgml.has_privilege('nowhere', 'predict') AS missing,
    pgml.has_privilege('visible', 'predict') AS visible;
-- Who knows it is told what is missing.
SET ROLE pgml_test_see;
SELECT * FROM attempt($$SELECT pgml.predict('churn', 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.explain(1, 1, 'a')$$);
SELECT * FROM attempt($$SELECT pgml.train('churn', algorithm => 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.grant('churn', 'pgml_test_see', 'all')$$);
SET ROLE pgml_test_train;
SELECT * FROM attempt($$SELECT pgml.deploy(1)$$);
-- Arguments.
SET ROLE pgml_test_owner;
SELECT * FROM attempt($$SELECT pgml.grant('churn', 'pgml_test_nobody', 'see')$$);
SELECT * FROM attempt($$SELECT pgml.grant('churn', 'public', 'select')$$);
SELECT * FROM attempt($$SELECT pgml.grant(NULL, 'public', 'see')$$);
SELECT * FROM attempt($$SELECT pgml.grant('churn', NULL, 'see')$$);
SELECT * FROM attempt($$SELECT pgml.revoke('churn', 'public', NULL)$$);
SELECT state FROM attempt($$SELECT pgml.set_owner('churn', 'pgml_test_stranger')$$);
SELECT * FROM attempt($$SELECT pgml.set_owner('churn', 'pgml_test_nobody')$$);
SELECT * FROM attempt($$SELECT pgml.has_privilege('churn', 'all')$$);
SET ROLE pgml_test_stranger;
SELECT * FROM attempt($$SELECT pgml.train('churn', 'regression', 'open_data', 'y', 'xgboost')$$);
\pset expanded off
RESET ROLE;

-- What another role has named as the data is not run with the rights of this one.
CREATE SCHEMA theirs AUTHORIZATION pgml_test_owner;
SET ROLE pgml_test_owner;
CREATE TABLE theirs.data AS SELECT * FROM open_data;
SELECT pgml.train('theirs', 'classification', 'theirs.data', 'y', 'xgboost', '{"n_estimators": 1}');
RESET ROLE;
-- A plain table does nothing to who reads it.
SELECT pgml.train('theirs', algorithm => 'xgboost', hyperparams => '{"n_estimators": 1}');
SET ROLE pgml_test_owner;
DROP TABLE theirs.data;
CREATE FUNCTION theirs.run() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'this ran as %', current_user;
END $$;
CREATE VIEW theirs.data AS SELECT x, y, theirs.run() AS z FROM public.open_data;
SELECT pgml.train('query', 'classification', '(SELECT x, y FROM open_data)', 'y', 'xgboost', '{"n_estimators": 1}');
RESET ROLE;
\pset expanded on
-- As if the last training had been the owner's, of what stands there now.
UPDATE pgml.snapshots SET owner = 'pgml_test_owner' WHERE relation_name = 'theirs.data';
SELECT * FROM attempt($$SELECT pgml.train('theirs', algorithm => 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('query', algorithm => 'xgboost')$$);
UPDATE pgml.snapshots SET owner = NULL;
SELECT * FROM attempt($$SELECT pgml.train('query', algorithm => 'xgboost')$$);
-- Row level security of a table is such code too.
UPDATE pgml.snapshots SET owner = 'pgml_test_owner', relation_name = 'theirs.guarded' WHERE relation_name = 'theirs.data';
CREATE TABLE theirs.guarded AS SELECT * FROM open_data;
ALTER TABLE theirs.guarded ENABLE ROW LEVEL SECURITY;
SELECT * FROM attempt($$SELECT pgml.train('theirs', algorithm => 'xgboost')$$);
\pset expanded off

-- A project goes to another role, with all that the owner could do; its members come with it.
SET ROLE pgml_test_stranger;
SELECT pgml.has_privilege('visible', 'export');
RESET ROLE;
SELECT pgml.set_owner('visible', 'pgml_test_stranger');
SET ROLE pgml_test_stranger;
SELECT pgml.has_privilege('visible', 'export'), count(*) FROM pgml.files;
SELECT * FROM pgml.deploy('visible', 'most_recent');
SELECT pgml.rename_project('visible', 'renamed');
SET ROLE pgml_test_owner;
SELECT pgml.has_privilege('renamed', 'export'), pgml.has_privilege('renamed', 'predict');
RESET ROLE;
-- A role without INHERIT is no owner until it acts as one.
CREATE ROLE pgml_test_noinherit NOINHERIT IN ROLE pgml_test_stranger;
SET ROLE pgml_test_noinherit;
SELECT pgml.has_privilege('renamed', 'export');
RESET ROLE;

-- With the last model of some data goes what is known of the data.
SET ROLE pgml_test_owner;
SELECT count(*) FROM pgml.snapshots;
SELECT pgml.delete_model(m.id) FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id WHERE p.name = 'query';
SELECT count(*) FROM pgml.snapshots;
SELECT pgml.delete_project(name) FROM pgml.projects WHERE owner = current_user::regrole;
RESET ROLE;
SELECT name FROM pgml.projects;
SELECT relation_name FROM pgml.snapshots;
SELECT project, grantee, privilege FROM pgml.grants;

-- A deployment names a model of its own project.
SET ROLE pgml_test_owner;
SELECT pgml.train('a', 'classification', 'open_data', 'y', 'xgboost', '{"n_estimators": 1}');
RESET ROLE;
SELECT o.* FROM (SELECT max(id) AS id FROM pgml.models) m,
    LATERAL attempt(format($$SELECT pgml.deploy('renamed', 'canary', model_id => %s, share => 0.5)$$, m.id)) o;

-- Names and roles as they come.
CREATE ROLE "pgml_test 'Odd' ""Role""";
SET ROLE pgml_test_owner;
SELECT * FROM attempt($$SELECT pgml.rename_project('a', 'renamed')$$);
SELECT * FROM attempt($$SELECT pgml.rename_project('a', '')$$);
SELECT pgml.rename_project('a', 'o''clock "10"');
SELECT pgml.grant('o''clock "10"', 'pgml_test ''Odd'' "Role"', 'see');
SELECT project, grantee, privilege FROM pgml.grants WHERE grantee <> 'public';
SET SESSION AUTHORIZATION "pgml_test 'Odd' ""Role""";
SELECT * FROM attempt($$SELECT pgml.deploy('o''clock "10"', 'best_score')$$);
SELECT hint AS statement FROM attempt($$SELECT pgml.deploy('o''clock "10"', 'best_score')$$) \gset
RESET SESSION AUTHORIZATION;
SELECT substring(:'statement' FROM 'SELECT .*') AS statement \gset
:statement
SET ROLE "pgml_test 'Odd' ""Role""";
SELECT * FROM pgml.deploy('o''clock "10"', 'best_score');
RESET ROLE;

-- A role that is no more owns nothing, and its grants count for nobody.
REASSIGN OWNED BY pgml_test_owner, pgml_test_stranger TO CURRENT_USER;
DROP OWNED BY pgml_test_owner, pgml_test_stranger, "pgml_test 'Odd' ""Role""";
DROP ROLE pgml_test_owner, pgml_test_member, pgml_test_stranger, pgml_test_noinherit, "pgml_test 'Odd' ""Role""";
SELECT project, grantee, privilege, grantor FROM pgml.grants ORDER BY 1, 2, 3;
CREATE ROLE pgml_test_owner;
SET ROLE pgml_test_owner;
SELECT name, pgml.has_privilege(name, 'export') FROM pgml.projects ORDER BY 1;
RESET ROLE;
DROP ROLE pgml_test_owner, pgml_test_see, pgml_test_predict, pgml_test_explain, pgml_test_train, pgml_test_deploy,
    pgml_test_export;
