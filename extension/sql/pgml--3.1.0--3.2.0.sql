-- From pgml 3.1.0 to 3.2.0.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

--
-- Algorithms beyond those of PostgresML
--

ALTER TYPE pgml.algorithm ADD VALUE IF NOT EXISTS 'naive_bayes';
ALTER TYPE pgml.algorithm ADD VALUE IF NOT EXISTS 'gaussian_mixture';
ALTER TYPE pgml.algorithm ADD VALUE IF NOT EXISTS 'truncated_svd';

--
-- One feature argument of whatever type: an array of any numbers, a row, a text. The overloads for single types of arrays
-- made calls such as predict_proba('iris', ARRAY[5.1, 3.5, 1.4, 0.2]) ambiguous. Their argument's name, features, is that of
-- all now. One that something depends on, such as a view or a generated column, stays as it is.
--

DO $$
DECLARE
    overload pg_catalog.regprocedure;
    definition pg_catalog.text;
BEGIN
    FOR overload, definition IN
        SELECT p.oid, pg_catalog.replace(pg_catalog.pg_get_functiondef(p.oid), '"row" anyelement', 'features anyelement')
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgml'::pg_catalog.regnamespace
            AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['predict', 'predict_proba', 'predict_label', 'explain'])
            AND p.pronargs OPERATOR(pg_catalog.=) 2
    LOOP
        BEGIN
            EXECUTE pg_catalog.format('ALTER EXTENSION pgml DROP FUNCTION %s', overload);
            EXECUTE pg_catalog.format('DROP FUNCTION %s', overload);
            IF pg_catalog.strpos(definition, 'features anyelement') OPERATOR(pg_catalog.>) 0 THEN
                EXECUTE definition;
            END IF;
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL;
        END;
    END LOOP;
END
$$;

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.text) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.text)
    IS 'prediction by the deployed model of the project, for an array of features as text, such as {1, 2.5, NULL}, or for the one feature of a model that has one';
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.anyelement)
    IS 'prediction by the deployed model of the project, for an array of features in the order of the columns in training, for a row, whose columns are found by name, or for the one feature of a model that has one; NULL is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.text) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.text)
    IS 'prediction by the model, for an array of features as text, such as {1, 2.5, NULL}, or for the one feature of a model that has one';
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.anyelement)
    IS 'prediction by the model, for an array of features in the order of the columns in training, for a row, whose columns are found by name, or for the one feature of a model that has one; NULL is a missing value';

CREATE FUNCTION pgml.predict_proba(project_name pg_catalog.text, features pg_catalog.text) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.text, pg_catalog.text)
    IS 'probability of each class, in the order of the classes, by the deployed model of the project, for an array of features as text, such as {1, 2.5, NULL}, or for the one feature of a model that has one';
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.text, pg_catalog.anyelement)
    IS 'probability of each class, in the order of the classes, by the deployed model of the project, for an array of features in the order of the columns in training, for a row, whose columns are found by name, or for the one feature of a model that has one; NULL is a missing value';

CREATE FUNCTION pgml.predict_proba(model_id pg_catalog.int8, features pg_catalog.text) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.int8, pg_catalog.text)
    IS 'probability of each class, in the order of the classes, by the model, for an array of features as text, such as {1, 2.5, NULL}, or for the one feature of a model that has one';
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.int8, pg_catalog.anyelement)
    IS 'probability of each class, in the order of the classes, by the model, for an array of features in the order of the columns in training, for a row, whose columns are found by name, or for the one feature of a model that has one; NULL is a missing value';

CREATE FUNCTION pgml.predict_label(project_name pg_catalog.text, features pg_catalog.text) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.text, pg_catalog.text)
    IS 'predicted class as text, by the deployed model of the project, for an array of features as text, such as {1, 2.5, NULL}, or for the one feature of a model that has one';
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.text, pg_catalog.anyelement)
    IS 'predicted class as text, by the deployed model of the project, for an array of features in the order of the columns in training, for a row, whose columns are found by name, or for the one feature of a model that has one; NULL is a missing value';

CREATE FUNCTION pgml.predict_label(model_id pg_catalog.int8, features pg_catalog.text) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.int8, pg_catalog.text)
    IS 'predicted class as text, by the model, for an array of features as text, such as {1, 2.5, NULL}, or for the one feature of a model that has one';
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.int8, pg_catalog.anyelement)
    IS 'predicted class as text, by the model, for an array of features in the order of the columns in training, for a row, whose columns are found by name, or for the one feature of a model that has one; NULL is a missing value';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.text)
    IS 'why the prediction for an array of features as text is what it is: the contribution of each feature';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.text)
    IS 'why the prediction for an array of features as text is what it is: the contribution of each feature';

--
-- Several labels, components
--

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
    preprocess pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool)
    AS 'MODULE_PATHNAME', 'pgml_train' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train_joint(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text[], pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb)
    IS 'as pgml.train, a regression of several labels at once; pgml.predict_joint gives all of them';

CREATE FUNCTION pgml.predict_joint(project_name pg_catalog.text, features pg_catalog.anyelement) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_joint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_joint(pg_catalog.text, pg_catalog.anyelement)
    IS 'prediction of each label, in the order of y_column_name in training, by the deployed model of the project, for an array of features, or a row, whose columns are found by name';

CREATE FUNCTION pgml.predict_joint(project_name pg_catalog.text, features pg_catalog.text) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_joint' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_joint(pg_catalog.text, pg_catalog.text)
    IS 'prediction of each label, in the order of y_column_name in training, by the deployed model of the project, for an array of features as text';

CREATE FUNCTION pgml.predict_joint(model_id pg_catalog.int8, features pg_catalog.anyelement) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_joint' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_joint(pg_catalog.int8, pg_catalog.anyelement)
    IS 'prediction of each label, in the order of y_column_name in training, by the model, for an array of features, or a row, whose columns are found by name';

CREATE FUNCTION pgml.predict_joint(model_id pg_catalog.int8, features pg_catalog.text) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_joint' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_joint(pg_catalog.int8, pg_catalog.text)
    IS 'prediction of each label, in the order of y_column_name in training, by the model, for an array of features as text';

CREATE FUNCTION pgml.decompose(project_name pg_catalog.text, vector pg_catalog.anyelement) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_decompose' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.decompose(pg_catalog.text, pg_catalog.anyelement)
    IS 'components of the decomposition by the deployed model of the project, for an array of features, or a row, whose columns are found by name';

CREATE FUNCTION pgml.decompose(project_name pg_catalog.text, vector pg_catalog.text) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_decompose' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.decompose(pg_catalog.text, pg_catalog.text)
    IS 'components of the decomposition by the deployed model of the project, for an array of features as text';

CREATE FUNCTION pgml.decompose(model_id pg_catalog.int8, vector pg_catalog.anyelement) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_decompose' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.decompose(pg_catalog.int8, pg_catalog.anyelement)
    IS 'components of the decomposition by the model, for an array of features, or a row, whose columns are found by name';

CREATE FUNCTION pgml.decompose(model_id pg_catalog.int8, vector pg_catalog.text) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_decompose' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.decompose(pg_catalog.int8, pg_catalog.text)
    IS 'components of the decomposition by the model, for an array of features as text';

--
-- What there is
--

CREATE FUNCTION pgml.hyperparameters() RETURNS TABLE (
    algorithm pg_catalog.text,
    task pg_catalog.text,
    name pg_catalog.text,
    "default" pg_catalog.text,
    allowed pg_catalog.text,
    description pg_catalog.text
)
    AS 'MODULE_PATHNAME', 'pgml_hyperparameters' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 1000;
COMMENT ON FUNCTION pgml.hyperparameters()
    IS 'every algorithm with its tasks and hyperparameters: name, default as JSON, what is allowed, what it does';
