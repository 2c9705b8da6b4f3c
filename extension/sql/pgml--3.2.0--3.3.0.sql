-- From pgml 3.2.0 to 3.3.0.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

-- What is dropped below and made anew with more arguments keeps the rights that were given and taken: see the end.
CREATE TEMPORARY TABLE pgml_rights_before AS
SELECT p.oid, p.proname, p.proargtypes::pg_catalog.oid[] AS types, p.proacl
FROM pg_catalog.pg_proc p
WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgml'::pg_catalog.regnamespace AND p.proacl IS NOT NULL;

--
-- Training: by which metric models are compared, which class is the positive one, whether the model is fitted again
--

DROP FUNCTION pgml.train(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb);
CREATE FUNCTION pgml.train(
    project_name pg_catalog.text,
    task pg_catalog.text DEFAULT NULL,
    relation_name pg_catalog.text DEFAULT NULL,
    y_column_name pg_catalog.text DEFAULT NULL,
    algorithm pgml.algorithm DEFAULT 'linear',
    hyperparams pg_catalog.jsonb DEFAULT '{}',
    search pgml.search DEFAULT NULL,
    search_params pg_catalog.jsonb DEFAULT '{}',
    search_args pg_catalog.jsonb DEFAULT '{}',
    test_size pg_catalog.float4 DEFAULT 0.25,
    test_sampling pgml.sampling DEFAULT 'stratified',
    runtime pgml.runtime DEFAULT NULL,
    automatic_deploy pg_catalog.bool DEFAULT true,
    materialize_snapshot pg_catalog.bool DEFAULT false,
    preprocess pg_catalog.jsonb DEFAULT '{}',
    metric pg_catalog.text DEFAULT NULL,
    positive_class pg_catalog.text DEFAULT NULL,
    refit pg_catalog.bool DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool)
    AS 'MODULE_PATHNAME', 'pgml_train' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool)
    IS 'train a model from a table, a view or a query in parentheses, and deploy it if it is the best of its project';

DROP FUNCTION pgml.train_joint(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text[], pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb);
CREATE FUNCTION pgml.train_joint(
    project_name pg_catalog.text,
    task pg_catalog.text DEFAULT NULL,
    relation_name pg_catalog.text DEFAULT NULL,
    y_column_name pg_catalog.text[] DEFAULT NULL,
    algorithm pgml.algorithm DEFAULT 'linear',
    hyperparams pg_catalog.jsonb DEFAULT '{}',
    search pgml.search DEFAULT NULL,
    search_params pg_catalog.jsonb DEFAULT '{}',
    search_args pg_catalog.jsonb DEFAULT '{}',
    test_size pg_catalog.float4 DEFAULT 0.25,
    test_sampling pgml.sampling DEFAULT 'stratified',
    runtime pgml.runtime DEFAULT NULL,
    automatic_deploy pg_catalog.bool DEFAULT true,
    materialize_snapshot pg_catalog.bool DEFAULT false,
    preprocess pg_catalog.jsonb DEFAULT '{}',
    metric pg_catalog.text DEFAULT NULL,
    positive_class pg_catalog.text DEFAULT NULL,
    refit pg_catalog.bool DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool)
    AS 'MODULE_PATHNAME', 'pgml_train' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train_joint(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text[], pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool)
    IS 'as pgml.train, a regression of several labels at once; pgml.predict_joint gives all of them';

DROP FUNCTION pgml.train_async(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb);
CREATE FUNCTION pgml.train_async(
    project_name pg_catalog.text,
    task pg_catalog.text DEFAULT NULL,
    relation_name pg_catalog.text DEFAULT NULL,
    y_column_name pg_catalog.text DEFAULT NULL,
    algorithm pgml.algorithm DEFAULT 'linear',
    hyperparams pg_catalog.jsonb DEFAULT '{}',
    search pgml.search DEFAULT NULL,
    search_params pg_catalog.jsonb DEFAULT '{}',
    search_args pg_catalog.jsonb DEFAULT '{}',
    test_size pg_catalog.float4 DEFAULT 0.25,
    test_sampling pgml.sampling DEFAULT 'stratified',
    runtime pgml.runtime DEFAULT NULL,
    automatic_deploy pg_catalog.bool DEFAULT true,
    materialize_snapshot pg_catalog.bool DEFAULT false,
    preprocess pg_catalog.jsonb DEFAULT '{}',
    metric pg_catalog.text DEFAULT NULL,
    positive_class pg_catalog.text DEFAULT NULL,
    refit pg_catalog.bool DEFAULT NULL
) RETURNS pg_catalog.int8
    AS 'MODULE_PATHNAME', 'pgml_train_async' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train_async(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool)
    IS 'as pgml.train, in a background worker once the transaction has committed; gives the id of the training at once';

--
-- Logical replication: a subscriber applies rows, for which triggers of statements do not fire, and no others do that do
-- not always fire.
--

DO LANGUAGE plpgsql $$
DECLARE
    registry pg_catalog.regclass;
BEGIN
    FOREACH registry IN ARRAY ARRAY['pgml.projects', 'pgml.models', 'pgml.files', 'pgml.deployments', 'pgml.privileges',
        'pgml.trials']::pg_catalog.regclass[]
    LOOP
        EXECUTE pg_catalog.format('DROP TRIGGER invalidate ON %s', registry);
        EXECUTE pg_catalog.format('CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE ON %s '
            'FOR EACH ROW EXECUTE FUNCTION pgml.invalidate()', registry);
        EXECUTE pg_catalog.format('CREATE TRIGGER invalidate_all AFTER TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate()', registry);
        EXECUTE pg_catalog.format('ALTER TABLE %s ENABLE ALWAYS TRIGGER invalidate, ENABLE ALWAYS TRIGGER invalidate_all',
            registry);
    END LOOP;
END $$;

-- What waits to be trained on another server is trained there.
CREATE FUNCTION pgml.keep_out() RETURNS trigger
    AS 'MODULE_PATHNAME', 'pgml_keep_out' LANGUAGE C;
CREATE TRIGGER keep_out BEFORE INSERT ON pgml.training_jobs FOR EACH ROW EXECUTE FUNCTION pgml.keep_out();
ALTER TABLE pgml.training_jobs ENABLE REPLICA TRIGGER keep_out;

--
-- No foreign keys between the tables, which a restore with several jobs loads in any order. Only the extension's functions
-- write to them, and lock what they refer to; what belongs to a deleted row still goes with it.
--

CREATE FUNCTION pgml.forget_dependents() RETURNS trigger
    AS 'MODULE_PATHNAME', 'pgml_forget_dependents' LANGUAGE C;
CREATE TRIGGER forget_dependents AFTER DELETE ON pgml.projects
    FOR EACH ROW EXECUTE FUNCTION pgml.forget_dependents();
CREATE TRIGGER forget_dependents AFTER DELETE ON pgml.models
    FOR EACH ROW EXECUTE FUNCTION pgml.forget_dependents();
CREATE TRIGGER forget_dependents AFTER DELETE ON pgml.snapshots
    FOR EACH ROW EXECUTE FUNCTION pgml.forget_dependents();

ALTER TABLE pgml.models DROP CONSTRAINT models_project_id_fkey, DROP CONSTRAINT models_snapshot_id_fkey;
ALTER TABLE pgml.deployments
    DROP CONSTRAINT deployments_project_id_fkey, DROP CONSTRAINT deployments_project_id_model_id_fkey;
ALTER TABLE pgml.files DROP CONSTRAINT files_model_id_fkey;
ALTER TABLE pgml.privileges DROP CONSTRAINT privileges_project_id_fkey;
ALTER TABLE pgml.trials DROP CONSTRAINT trials_project_id_fkey, DROP CONSTRAINT trials_project_id_model_id_fkey;
DROP INDEX pgml.trials_model_id_idx;
CREATE INDEX trials_model_id_idx ON pgml.trials (model_id);

REVOKE EXECUTE ON FUNCTION pgml.keep_out(), pgml.forget_dependents() FROM PUBLIC;

--
-- Drift: how many rows there were, and how likely they are by chance
--

DROP FUNCTION pgml.drift(pg_catalog.text, pg_catalog.text);
DROP FUNCTION pgml.drift(pg_catalog.int8, pg_catalog.text);

CREATE FUNCTION pgml.drift(project_name pg_catalog.text, relation_name pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, psi pg_catalog.float8, ks pg_catalog.float8, rows pg_catalog.int8,
        p_value pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_drift_project' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.drift(pg_catalog.text, pg_catalog.text)
    IS 'drift of the rows of a relation from the training rows of the deployed model of the project, for each column, the largest first: the population stability index (psi; above 0.25 is large, if p_value is small too), the Kolmogorov-Smirnov statistic (ks, 0 to 1; NULL for text), the number of rows, and the probability that as many rows of the training''s distribution differ as much by chance (p_value; a chi-squared test of the shares that psi compares). A date or timestamp counts by its seconds, an array by all its elements. Errors: 55000 if the training stored nothing to compare with';

CREATE FUNCTION pgml.drift(model_id pg_catalog.int8, relation_name pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, psi pg_catalog.float8, ks pg_catalog.float8, rows pg_catalog.int8,
        p_value pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_drift_model' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.drift(pg_catalog.int8, pg_catalog.text)
    IS 'drift of the rows of a relation from the training rows of the model, for each column, the largest first: the population stability index (psi; above 0.25 is large, if p_value is small too), the Kolmogorov-Smirnov statistic (ks, 0 to 1; NULL for text), the number of rows, and the probability that as many rows of the training''s distribution differ as much by chance (p_value; a chi-squared test of the shares that psi compares). A date or timestamp counts by its seconds, an array by all its elements. Errors: 55000 if the training stored nothing to compare with';

--
-- Last: rights on the functions that were made anew
--

DO $$
DECLARE
    function pg_catalog.regprocedure;
    before RECORD;
    granted RECORD;
BEGIN
    FOR before IN
        SELECT * FROM pg_temp.pgml_rights_before b
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.=) b.oid)
    LOOP
        FOR function IN
            SELECT p.oid FROM pg_catalog.pg_proc p
            WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgml'::pg_catalog.regnamespace
                AND p.proname OPERATOR(pg_catalog.=) before.proname
                AND (p.proargtypes::pg_catalog.oid[])[0:pg_catalog.cardinality(before.types) - 1]
                    OPERATOR(pg_catalog.=) before.types
        LOOP
            EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
            FOR granted IN SELECT * FROM pg_catalog.aclexplode(before.proacl) LOOP
                EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO %s%s', function,
                    CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE granted.grantee::pg_catalog.regrole::pg_catalog.text END,
                    CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;
DROP TABLE pg_temp.pgml_rights_before;
