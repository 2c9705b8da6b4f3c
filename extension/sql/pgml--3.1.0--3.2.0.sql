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

COMMENT ON FUNCTION pgml.load_dataset(pg_catalog.text, pg_catalog.text, pg_catalog.int8, pg_catalog.jsonb)
    IS 'make the table pgml.<source>, which every role may read, from a built-in data set: breast_cancer, diabetes, digits, iris, linnerud, wine; a table of another role stays as it is';

-- Nothing here is trained by Python, and what is inserted by hand does not say so.
ALTER TABLE pgml.models ALTER COLUMN runtime SET DEFAULT 'rust';

CREATE FUNCTION pgml.snapshot(
    relation_name pg_catalog.text,
    y_column_name pg_catalog.text DEFAULT NULL,
    test_size pg_catalog.float4 DEFAULT 0.25,
    test_sampling pgml.sampling DEFAULT 'stratified',
    preprocess pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (relation pg_catalog.text, y_column_name pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_snapshot' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.snapshot(pg_catalog.text, pg_catalog.text, pg_catalog.float4, pgml.sampling, pg_catalog.jsonb)
    IS 'copy the rows of a table, view or query into a new table pgml.snapshot_N of the caller''s, to train on by its name, and record its columns with their statistics in pgml.snapshots; needs CREATE on schema pgml, as materialize_snapshot does';

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

--
-- Vectors: arrays of real or of double precision. Arrays of numeric, as literals make them, count as double precision.
--

CREATE FUNCTION pgml.add(vector pg_catalog.float4[], addend pg_catalog.float4) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_add_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.add(pg_catalog.float4[], pg_catalog.float4) IS 'each element and the number added';

CREATE FUNCTION pgml.add(vector pg_catalog.float4[], addend pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_add' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.add(pg_catalog.float4[], pg_catalog.float4[]) IS 'elements added pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.add(vector pg_catalog.float8[], addend pg_catalog.float8) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_add_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.add(pg_catalog.float8[], pg_catalog.float8) IS 'each element and the number added';

CREATE FUNCTION pgml.add(vector pg_catalog.float8[], addend pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_add' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.add(pg_catalog.float8[], pg_catalog.float8[]) IS 'elements added pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.add(vector pg_catalog.numeric[], addend pg_catalog.numeric) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.add(pg_catalog.numeric[], pg_catalog.numeric) IS 'each element and the number added';

CREATE FUNCTION pgml.add(vector pg_catalog.numeric[], addend pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.add(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'elements added pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.subtract(vector pg_catalog.float4[], subtrahend pg_catalog.float4) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_subtract_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.subtract(pg_catalog.float4[], pg_catalog.float4) IS 'the number subtracted from each element';

CREATE FUNCTION pgml.subtract(vector pg_catalog.float4[], subtrahend pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_subtract' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.subtract(pg_catalog.float4[], pg_catalog.float4[]) IS 'elements subtracted pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.subtract(vector pg_catalog.float8[], subtrahend pg_catalog.float8) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_subtract_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.subtract(pg_catalog.float8[], pg_catalog.float8) IS 'the number subtracted from each element';

CREATE FUNCTION pgml.subtract(vector pg_catalog.float8[], subtrahend pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_subtract' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.subtract(pg_catalog.float8[], pg_catalog.float8[]) IS 'elements subtracted pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.subtract(vector pg_catalog.numeric[], subtrahend pg_catalog.numeric) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.numeric[], pg_catalog.numeric) IS 'the number subtracted from each element';

CREATE FUNCTION pgml.subtract(vector pg_catalog.numeric[], subtrahend pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'elements subtracted pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.multiply(vector pg_catalog.float4[], multiplicand pg_catalog.float4) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_multiply_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.multiply(pg_catalog.float4[], pg_catalog.float4) IS 'each element multiplied by the number';

CREATE FUNCTION pgml.multiply(vector pg_catalog.float4[], multiplicand pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_multiply' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.multiply(pg_catalog.float4[], pg_catalog.float4[]) IS 'elements multiplied pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.multiply(vector pg_catalog.float8[], multiplicand pg_catalog.float8) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_multiply_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.multiply(pg_catalog.float8[], pg_catalog.float8) IS 'each element multiplied by the number';

CREATE FUNCTION pgml.multiply(vector pg_catalog.float8[], multiplicand pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_multiply' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.multiply(pg_catalog.float8[], pg_catalog.float8[]) IS 'elements multiplied pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.multiply(vector pg_catalog.numeric[], multiplicand pg_catalog.numeric) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.numeric[], pg_catalog.numeric) IS 'each element multiplied by the number';

CREATE FUNCTION pgml.multiply(vector pg_catalog.numeric[], multiplicand pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'elements multiplied pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.divide(vector pg_catalog.float4[], divisor pg_catalog.float4) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_divide_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.divide(pg_catalog.float4[], pg_catalog.float4) IS 'each element divided by the number';

CREATE FUNCTION pgml.divide(vector pg_catalog.float4[], divisor pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_divide' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.divide(pg_catalog.float4[], pg_catalog.float4[]) IS 'elements divided pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.divide(vector pg_catalog.float8[], divisor pg_catalog.float8) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_divide_scalar' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.divide(pg_catalog.float8[], pg_catalog.float8) IS 'each element divided by the number';

CREATE FUNCTION pgml.divide(vector pg_catalog.float8[], divisor pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_divide' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.divide(pg_catalog.float8[], pg_catalog.float8[]) IS 'elements divided pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.divide(vector pg_catalog.numeric[], divisor pg_catalog.numeric) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.divide(pg_catalog.numeric[], pg_catalog.numeric) IS 'each element divided by the number';

CREATE FUNCTION pgml.divide(vector pg_catalog.numeric[], divisor pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.divide(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'elements divided pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.norm_l0(vector pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_l0' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_l0(pg_catalog.float4[]) IS 'how many elements are not zero';

CREATE FUNCTION pgml.norm_l0(vector pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_l0' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_l0(pg_catalog.float8[]) IS 'how many elements are not zero';

CREATE FUNCTION pgml.norm_l0(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l0(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l0(pg_catalog.numeric[]) IS 'how many elements are not zero';

CREATE FUNCTION pgml.norm_l1(vector pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_l1(pg_catalog.float4[]) IS 'the sum of the absolute values';

CREATE FUNCTION pgml.norm_l1(vector pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_l1(pg_catalog.float8[]) IS 'the sum of the absolute values';

CREATE FUNCTION pgml.norm_l1(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l1(pg_catalog.numeric[]) IS 'the sum of the absolute values';

CREATE FUNCTION pgml.norm_l2(vector pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_l2(pg_catalog.float4[]) IS 'the length of the vector: the root of the sum of squares';

CREATE FUNCTION pgml.norm_l2(vector pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_l2(pg_catalog.float8[]) IS 'the length of the vector: the root of the sum of squares';

CREATE FUNCTION pgml.norm_l2(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l2(pg_catalog.numeric[]) IS 'the length of the vector: the root of the sum of squares';

CREATE FUNCTION pgml.norm_max(vector pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_max' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_max(pg_catalog.float4[]) IS 'the largest absolute value';

CREATE FUNCTION pgml.norm_max(vector pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_norm_max' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.norm_max(pg_catalog.float8[]) IS 'the largest absolute value';

CREATE FUNCTION pgml.norm_max(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_max(pg_catalog.numeric[]) IS 'the largest absolute value';

CREATE FUNCTION pgml.normalize_l1(vector pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_normalize_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.normalize_l1(pg_catalog.float4[]) IS 'each element divided by norm_l1; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l1(vector pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_normalize_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.normalize_l1(pg_catalog.float8[]) IS 'each element divided by norm_l1; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l1(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l1(pg_catalog.numeric[]) IS 'each element divided by norm_l1; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l2(vector pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_normalize_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.normalize_l2(pg_catalog.float4[]) IS 'each element divided by norm_l2; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l2(vector pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_normalize_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.normalize_l2(pg_catalog.float8[]) IS 'each element divided by norm_l2; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l2(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l2(pg_catalog.numeric[]) IS 'each element divided by norm_l2; zeros stay zeros';

CREATE FUNCTION pgml.normalize_max(vector pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_normalize_max' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.normalize_max(pg_catalog.float4[]) IS 'each element divided by norm_max; zeros stay zeros';

CREATE FUNCTION pgml.normalize_max(vector pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_normalize_max' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.normalize_max(pg_catalog.float8[]) IS 'each element divided by norm_max; zeros stay zeros';

CREATE FUNCTION pgml.normalize_max(vector pg_catalog.numeric[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_max(pg_catalog.numeric[]) IS 'each element divided by norm_max; zeros stay zeros';

CREATE FUNCTION pgml.distance_l1(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_distance_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.distance_l1(pg_catalog.float4[], pg_catalog.float4[]) IS 'the sum of the absolute differences';

CREATE FUNCTION pgml.distance_l1(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_distance_l1' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.distance_l1(pg_catalog.float8[], pg_catalog.float8[]) IS 'the sum of the absolute differences';

CREATE FUNCTION pgml.distance_l1(vector pg_catalog.numeric[], other pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l1(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l1(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'the sum of the absolute differences';

CREATE FUNCTION pgml.distance_l2(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_distance_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.distance_l2(pg_catalog.float4[], pg_catalog.float4[]) IS 'the distance of two points: the root of the sum of squared differences';

CREATE FUNCTION pgml.distance_l2(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_distance_l2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.distance_l2(pg_catalog.float8[], pg_catalog.float8[]) IS 'the distance of two points: the root of the sum of squared differences';

CREATE FUNCTION pgml.distance_l2(vector pg_catalog.numeric[], other pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l2(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l2(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'the distance of two points: the root of the sum of squared differences';

CREATE FUNCTION pgml.dot_product(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_dot_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.dot_product(pg_catalog.float4[], pg_catalog.float4[]) IS 'the sum of the products of elements, pair by pair';

CREATE FUNCTION pgml.dot_product(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_dot_product' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.dot_product(pg_catalog.float8[], pg_catalog.float8[]) IS 'the sum of the products of elements, pair by pair';

CREATE FUNCTION pgml.dot_product(vector pg_catalog.numeric[], other pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.dot_product(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.dot_product(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'the sum of the products of elements, pair by pair';

CREATE FUNCTION pgml.cosine_similarity(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_vector_cosine_similarity' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.cosine_similarity(pg_catalog.float4[], pg_catalog.float4[]) IS 'the cosine of the angle between two vectors, from -1 to 1; NaN where one is zero';

CREATE FUNCTION pgml.cosine_similarity(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8
    AS 'MODULE_PATHNAME', 'pgml_vector_cosine_similarity' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.cosine_similarity(pg_catalog.float8[], pg_catalog.float8[]) IS 'the cosine of the angle between two vectors, from -1 to 1; NaN where one is zero';

CREATE FUNCTION pgml.cosine_similarity(vector pg_catalog.numeric[], other pg_catalog.numeric[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.cosine_similarity(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.cosine_similarity(pg_catalog.numeric[], pg_catalog.numeric[]) IS 'the cosine of the angle between two vectors, from -1 to 1; NaN where one is zero';

-- What the aggregates are made of.

CREATE FUNCTION pgml.vector_min(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_min' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_min(pg_catalog.float4[], pg_catalog.float4[]) IS 'the step of the aggregate pgml.min';

CREATE FUNCTION pgml.vector_min(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_min' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_min(pg_catalog.float8[], pg_catalog.float8[]) IS 'the step of the aggregate pgml.min';

CREATE FUNCTION pgml.vector_max(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_max' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_max(pg_catalog.float4[], pg_catalog.float4[]) IS 'the step of the aggregate pgml.max';

CREATE FUNCTION pgml.vector_max(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_max' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_max(pg_catalog.float8[], pg_catalog.float8[]) IS 'the step of the aggregate pgml.max';

CREATE FUNCTION pgml.vector_min_abs(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_min_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_min_abs(pg_catalog.float4[], pg_catalog.float4[]) IS 'the step of the aggregate pgml.min_abs';

CREATE FUNCTION pgml.vector_min_abs(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_min_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_min_abs(pg_catalog.float8[], pg_catalog.float8[]) IS 'the step of the aggregate pgml.min_abs';

CREATE FUNCTION pgml.vector_max_abs(vector pg_catalog.float4[], other pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_max_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_max_abs(pg_catalog.float4[], pg_catalog.float4[]) IS 'the step of the aggregate pgml.max_abs';

CREATE FUNCTION pgml.vector_max_abs(vector pg_catalog.float8[], other pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_max_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_max_abs(pg_catalog.float8[], pg_catalog.float8[]) IS 'the step of the aggregate pgml.max_abs';

CREATE FUNCTION pgml.vector_abs(vector pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_vector_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_abs(pg_catalog.float4[]) IS 'the last step of the aggregates pgml.min_abs and pgml.max_abs: of one vector, too, they are absolute values';

CREATE FUNCTION pgml.vector_abs(vector pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_abs(pg_catalog.float8[]) IS 'the last step of the aggregates pgml.min_abs and pgml.max_abs: of one vector, too, they are absolute values';

CREATE AGGREGATE pgml.sum(pg_catalog.float4[]) (
    SFUNC = pgml.add,
    STYPE = pg_catalog.float4[],
    COMBINEFUNC = pgml.add,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.sum(pg_catalog.float4[]) IS 'sum of vectors, element by element';

CREATE AGGREGATE pgml.sum(pg_catalog.float8[]) (
    SFUNC = pgml.add,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.add,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.sum(pg_catalog.float8[]) IS 'sum of vectors, element by element';

CREATE AGGREGATE pgml.min(pg_catalog.float4[]) (
    SFUNC = pgml.vector_min,
    STYPE = pg_catalog.float4[],
    COMBINEFUNC = pgml.vector_min,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.min(pg_catalog.float4[]) IS 'the least value of each element';

CREATE AGGREGATE pgml.min(pg_catalog.float8[]) (
    SFUNC = pgml.vector_min,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.min(pg_catalog.float8[]) IS 'the least value of each element';

CREATE AGGREGATE pgml.max(pg_catalog.float4[]) (
    SFUNC = pgml.vector_max,
    STYPE = pg_catalog.float4[],
    COMBINEFUNC = pgml.vector_max,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.max(pg_catalog.float4[]) IS 'the greatest value of each element';

CREATE AGGREGATE pgml.max(pg_catalog.float8[]) (
    SFUNC = pgml.vector_max,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.max(pg_catalog.float8[]) IS 'the greatest value of each element';

CREATE AGGREGATE pgml.min_abs(pg_catalog.float4[]) (
    SFUNC = pgml.vector_min_abs,
    STYPE = pg_catalog.float4[],
    COMBINEFUNC = pgml.vector_min_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.min_abs(pg_catalog.float4[]) IS 'the least absolute value of each element';

CREATE AGGREGATE pgml.min_abs(pg_catalog.float8[]) (
    SFUNC = pgml.vector_min_abs,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.min_abs(pg_catalog.float8[]) IS 'the least absolute value of each element';

CREATE AGGREGATE pgml.max_abs(pg_catalog.float4[]) (
    SFUNC = pgml.vector_max_abs,
    STYPE = pg_catalog.float4[],
    COMBINEFUNC = pgml.vector_max_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.max_abs(pg_catalog.float4[]) IS 'the greatest absolute value of each element';

CREATE AGGREGATE pgml.max_abs(pg_catalog.float8[]) (
    SFUNC = pgml.vector_max_abs,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.max_abs(pg_catalog.float8[]) IS 'the greatest absolute value of each element';
