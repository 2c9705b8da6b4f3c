-- Who may do what: every role predicts; training and deploying need grants; data is read with the caller's own rights.
-- people.sql has the whole of what a project's owner may grant.
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
CREATE TABLE open_data AS SELECT i % 10 AS x, i % 10 AS y FROM generate_series(1, 100) i;
CREATE TABLE secret AS SELECT * FROM open_data;
GRANT SELECT ON open_data TO PUBLIC;
SELECT pgml.train('open', 'regression', 'open_data', 'y', 'xgboost', '{"n_estimators": 20}');
CREATE ROLE pgml_test_reader;
CREATE ROLE "pgml_test Trainer";

-- An ordinary role predicts, and sees which projects it may predict with.
SET ROLE pgml_test_reader;
SELECT round(pgml.predict('open', ARRAY[4])::numeric, 0) AS answer, round(pgml.predict(1, 4)::numeric, 0) AS by_id;
SELECT array_length(pgml.predict_agg('open', x), 1) AS answers FROM open_data;
SELECT name FROM pgml.projects;
SELECT name, deployed FROM pgml.trained_models;
SELECT name FROM pgml.deployed_models;
SELECT name FROM pgml.overview;
-- It neither trains nor deploys nor changes anything.
\pset expanded on
SELECT * FROM attempt($$SELECT pgml.train('mine', 'regression', 'open_data', 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.deploy(1)$$);
SELECT * FROM attempt($$SELECT pgml.deploy('open', 'best_score')$$);
SELECT * FROM attempt($$DELETE FROM pgml.deployments$$);
SELECT * FROM attempt($$UPDATE pgml.files SET data = ''$$);
SELECT * FROM attempt($$SELECT pgml.load_dataset('iris')$$);
SELECT * FROM attempt($$SET pgml.xgboost_library = '/tmp/evil.so'$$);
\pset expanded off
RESET ROLE;

-- What is in a table that it may not read, it does not see in the registry either: whole rows of all tables and views,
-- as text, are searched for a value of the table.
CREATE TABLE patients AS SELECT 'ssn-' || 100000 + i % 100 AS ssn, i % 7 AS visits FROM generate_series(1, 300) i;
SELECT pgml.train('patients', 'regression', '(SELECT ssn, visits FROM patients WHERE ssn <> ''ssn-100099'')', 'visits',
    'xgboost', '{"n_estimators": 2}');
CREATE FUNCTION relations_that_tell(wanted text) RETURNS TABLE (relation regclass, told text) LANGUAGE plpgsql AS $$
BEGIN
    FOR relation IN
        SELECT oid FROM pg_class WHERE relnamespace = 'pgml'::regnamespace AND relkind IN ('r', 'v') ORDER BY relname
    LOOP
        BEGIN
            EXECUTE format('SELECT count(*) FROM %s r WHERE r::text LIKE $1 OR r::text LIKE $2', relation) INTO told
                USING '%' || wanted || '%', '%' || encode(wanted::bytea, 'hex') || '%';
        EXCEPTION WHEN insufficient_privilege THEN
            told := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM relations_that_tell('ssn-');
SET ROLE pgml_test_reader;
SELECT * FROM relations_that_tell('ssn-');
SELECT name, relation_name, y_column_name FROM pgml.overview ORDER BY name;
RESET ROLE;

-- With the grants that the hints tell of it trains, on data that it may read.
GRANT INSERT ON pgml.projects TO "pgml_test Trainer";
SELECT pgml.grant('open', 'pgml_test Trainer', 'train'), pgml.grant('open', 'pgml_test Trainer', 'deploy');
SET ROLE "pgml_test Trainer";
SELECT * FROM pgml.train('mine', 'regression', 'open_data', 'y', 'xgboost', '{"n_estimators": 2}');
SELECT * FROM pgml.train('open', algorithm => 'xgboost', hyperparams => '{"n_estimators": 2}');
SELECT * FROM pgml.deploy('mine', 'best_score');
\pset expanded on
SELECT * FROM attempt($$SELECT pgml.train('mine', 'regression', 'secret', 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('mine', 'regression', '(SELECT * FROM secret)', 'y', 'xgboost')$$);
SELECT * FROM attempt($$SELECT pgml.train('mine', algorithm => 'xgboost', relation_name => 'open_data',
    materialize_snapshot => true)$$);
\pset expanded off
RESET ROLE;

-- Without the right to deploy, training works when it does not deploy.
SELECT pgml.revoke('open', 'pgml_test Trainer', 'deploy');
SET ROLE "pgml_test Trainer";
SELECT state, message, detail, hint FROM attempt($$SELECT pgml.train('open', algorithm => 'xgboost')$$);
SELECT * FROM pgml.train('open', algorithm => 'xgboost', hyperparams => '{"n_estimators": 2}', automatic_deploy => false);
RESET ROLE;

-- A training function of the owner trains for those who may call it.
CREATE FUNCTION train_open() RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT deployed FROM pgml.train('open', algorithm => 'xgboost', hyperparams => '{"n_estimators": 2}')
$$;
SET ROLE pgml_test_reader;
SELECT train_open();
RESET ROLE;

-- Row security applies to what a role learns from.
CREATE TABLE tenants (tenant text, x int, y int);
INSERT INTO tenants SELECT CASE WHEN i % 4 = 0 THEN 'pgml_test Trainer' ELSE 'other' END, i % 10, i
FROM generate_series(1, 200) i;
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tenants USING (tenant = current_user);
GRANT SELECT ON tenants TO "pgml_test Trainer";
SET ROLE "pgml_test Trainer";
SELECT * FROM pgml.train('own', 'regression', '(SELECT x, y FROM tenants)', 'y', 'xgboost', '{"n_estimators": 2}',
    automatic_deploy => false);
RESET ROLE;
SELECT analysis FROM pgml.snapshots ORDER BY id DESC LIMIT 1;

DROP OWNED BY pgml_test_reader, "pgml_test Trainer";
DROP ROLE pgml_test_reader, "pgml_test Trainer";

-- An ordinary owner of a database may install it (it is trusted), train, deploy, and grant the same to others.
CREATE ROLE pgml_test_owner;
SELECT current_database() AS database \gset
ALTER DATABASE :"database" OWNER TO pgml_test_owner;
DROP EXTENSION pgml CASCADE;
DROP SCHEMA pgml;
SET ROLE pgml_test_owner;
CREATE EXTENSION pgml;
SELECT * FROM pgml.train('owned', 'regression', '(SELECT i % 7 AS x, i % 7 AS y FROM generate_series(1, 100) i)', 'y',
    'xgboost', '{"n_estimators": 2}', materialize_snapshot => true);
SELECT * FROM pgml.deploy('owned', 'most_recent');
SELECT * FROM pgml.load_dataset('iris');
SELECT round(pgml.predict('owned', 4)::numeric, 0) IS NOT NULL AS answers;
GRANT INSERT ON pgml.projects TO PUBLIC;
SELECT pgml.delete_project('owned');
RESET ROLE;
ALTER DATABASE :"database" OWNER TO CURRENT_USER;
DROP EXTENSION pgml CASCADE;
DROP OWNED BY pgml_test_owner CASCADE;
DROP ROLE pgml_test_owner;
