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
    IS 'what each feature contributes to the prediction for an array of features as text: exact SHAP values';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.text)
    IS 'what each feature contributes to the prediction for an array of features as text: exact SHAP values';

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
-- Knowing what a model does. Each reads a relation, or a query in parentheses, with the rights of the caller; the
-- columns are found by the names that they had in training.
--

CREATE FUNCTION pgml.evaluate(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'metrics of the deployed model of the project on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Labels must not be NULL (22004)';

CREATE FUNCTION pgml.evaluate(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text[])
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.text, pg_catalog.text, pg_catalog.text[])
    IS 'metrics of the deployed model of the project on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Labels must not be NULL (22004)';

CREATE FUNCTION pgml.confusion_matrix(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (actual pg_catalog.text, predicted pg_catalog.text, count pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_confusion_matrix' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 100;
COMMENT ON FUNCTION pgml.confusion_matrix(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'number of rows for each pair of an actual class and a class predicted by the deployed model of the project, in the order of the classes; actual classes that the model does not know come last';

CREATE FUNCTION pgml.roc_curve(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, fpr pg_catalog.float8, tpr pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_roc_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.roc_curve(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'the ROC curve of the deployed model of the project, for the second of two classes, or for each of more classes against the rest: at each threshold, from an infinite one downwards, the share of the other rows (fpr) and of the rows of the class (tpr) whose probability, or score, is at least the threshold. Points on a line between two others are left out. NULL if there are no rows of that kind';

CREATE FUNCTION pgml.precision_recall_curve(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, "precision" pg_catalog.float8, recall pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_precision_recall_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.precision_recall_curve(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'precision and recall of the deployed model of the project at each threshold, where a row counts as predicted to be of the class if its probability, or score, is at least the threshold; for the second of two classes, or for each of more classes against the rest. The last threshold is infinite, with precision 1 and recall 0';

CREATE FUNCTION pgml.calibration_curve(project_name pg_catalog.text, relation_name pg_catalog.text, bins pg_catalog.int4 DEFAULT 10, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, bin pg_catalog.int4, rows pg_catalog.int8, predicted pg_catalog.float8, actual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_calibration_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION pgml.calibration_curve(pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.text)
    IS 'calibration of the probabilities of the deployed model of the project: for each bin of probabilities (bins, 1 to 10000) the mean predicted probability and the actual share of rows of the class; of two classes only the second; NULL for an empty bin';

CREATE FUNCTION pgml.residual_quantiles(project_name pg_catalog.text, relation_name pg_catalog.text, quantiles pg_catalog.float8[] DEFAULT '{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}', y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (label pg_catalog.text, quantile pg_catalog.float8, residual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_residual_quantiles' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 11;
COMMENT ON FUNCTION pgml.residual_quantiles(pg_catalog.text, pg_catalog.text, pg_catalog.float8[], pg_catalog.text)
    IS 'quantiles (0 to 1) of the residuals, label minus prediction, of the deployed model of the project, a regression, for each label';

CREATE FUNCTION pgml.evaluate(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.int8, pg_catalog.text, pg_catalog.text)
    IS 'metrics of the model on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Labels must not be NULL (22004)';

CREATE FUNCTION pgml.evaluate(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text[])
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.int8, pg_catalog.text, pg_catalog.text[])
    IS 'metrics of the model on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Labels must not be NULL (22004)';

CREATE FUNCTION pgml.confusion_matrix(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (actual pg_catalog.text, predicted pg_catalog.text, count pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_confusion_matrix' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 100;
COMMENT ON FUNCTION pgml.confusion_matrix(pg_catalog.int8, pg_catalog.text, pg_catalog.text)
    IS 'number of rows for each pair of an actual class and a class predicted by the model, in the order of the classes; actual classes that the model does not know come last';

CREATE FUNCTION pgml.roc_curve(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, fpr pg_catalog.float8, tpr pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_roc_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.roc_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.text)
    IS 'the ROC curve of the model, for the second of two classes, or for each of more classes against the rest: at each threshold, from an infinite one downwards, the share of the other rows (fpr) and of the rows of the class (tpr) whose probability, or score, is at least the threshold. Points on a line between two others are left out. NULL if there are no rows of that kind';

CREATE FUNCTION pgml.precision_recall_curve(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, "precision" pg_catalog.float8, recall pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_precision_recall_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.precision_recall_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.text)
    IS 'precision and recall of the model at each threshold, where a row counts as predicted to be of the class if its probability, or score, is at least the threshold; for the second of two classes, or for each of more classes against the rest. The last threshold is infinite, with precision 1 and recall 0';

CREATE FUNCTION pgml.calibration_curve(model_id pg_catalog.int8, relation_name pg_catalog.text, bins pg_catalog.int4 DEFAULT 10, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, bin pg_catalog.int4, rows pg_catalog.int8, predicted pg_catalog.float8, actual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_calibration_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION pgml.calibration_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.int4, pg_catalog.text)
    IS 'calibration of the probabilities of the model: for each bin of probabilities (bins, 1 to 10000) the mean predicted probability and the actual share of rows of the class; of two classes only the second; NULL for an empty bin';

CREATE FUNCTION pgml.residual_quantiles(model_id pg_catalog.int8, relation_name pg_catalog.text, quantiles pg_catalog.float8[] DEFAULT '{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}', y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (label pg_catalog.text, quantile pg_catalog.float8, residual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_residual_quantiles' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 11;
COMMENT ON FUNCTION pgml.residual_quantiles(pg_catalog.int8, pg_catalog.text, pg_catalog.float8[], pg_catalog.text)
    IS 'quantiles (0 to 1) of the residuals, label minus prediction, of the model, a regression, for each label';

CREATE FUNCTION pgml.compare(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (model_id pg_catalog.int8, algorithm pg_catalog.text, deployed pg_catalog.bool, metrics pg_catalog.jsonb, error pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_compare' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION pgml.compare(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'metrics of all models of the project, as by pgml.evaluate, on the same rows of a relation, or of a query in parentheses, which is read once; the best model first. For a model that cannot be measured, metrics is NULL and error gives the reason';

CREATE FUNCTION pgml.feature_importance(project_name pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, gain pg_catalog.float8, weight pg_catalog.float8, cover pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_feature_importance' LANGUAGE C STABLE PARALLEL SAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.feature_importance(pg_catalog.text)
    IS 'importance of each feature in the deployed model of the project, a model of trees, the most important first: the number of splits by the feature (weight), and the means over these splits of the gain (gain) and of the training rows, or second derivatives, that went through them (cover), as XGBoost''s get_score gives them. NULL for a number that the model does not have: catboost has no gain, an imported model has the numbers of its file, and models of other kinds have none';

CREATE FUNCTION pgml.permutation_importance(project_name pg_catalog.text, relation_name pg_catalog.text, repeats pg_catalog.int4 DEFAULT 5, seed pg_catalog.int8 DEFAULT 0, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (feature pg_catalog.text, importance pg_catalog.float8, std_dev pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_permutation_importance' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 20;
COMMENT ON FUNCTION pgml.permutation_importance(pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.int8, pg_catalog.text)
    IS 'decrease of r2 or f1 of the deployed model of the project on the rows of a relation when the values of one feature are shuffled, the most important feature first: mean and standard deviation over several shuffles (repeats, 1 to 1000), which seed determines. Of more than 128 MB of rows a sample is used';

CREATE FUNCTION pgml.feature_importance(model_id pg_catalog.int8)
    RETURNS TABLE (feature pg_catalog.text, gain pg_catalog.float8, weight pg_catalog.float8, cover pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_feature_importance' LANGUAGE C STABLE PARALLEL SAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.feature_importance(pg_catalog.int8)
    IS 'importance of each feature in the model, a model of trees, the most important first: the number of splits by the feature (weight), and the means over these splits of the gain (gain) and of the training rows, or second derivatives, that went through them (cover), as XGBoost''s get_score gives them. NULL for a number that the model does not have: catboost has no gain, an imported model has the numbers of its file, and models of other kinds have none';

CREATE FUNCTION pgml.permutation_importance(model_id pg_catalog.int8, relation_name pg_catalog.text, repeats pg_catalog.int4 DEFAULT 5, seed pg_catalog.int8 DEFAULT 0, y_column_name pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (feature pg_catalog.text, importance pg_catalog.float8, std_dev pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_permutation_importance' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 20;
COMMENT ON FUNCTION pgml.permutation_importance(pg_catalog.int8, pg_catalog.text, pg_catalog.int4, pg_catalog.int8, pg_catalog.text)
    IS 'decrease of r2 or f1 of the model on the rows of a relation when the values of one feature are shuffled, the most important feature first: mean and standard deviation over several shuffles (repeats, 1 to 1000), which seed determines. Of more than 128 MB of rows a sample is used';

ALTER TABLE pgml.models ADD COLUMN residuals pg_catalog.jsonb;
COMMENT ON COLUMN pgml.models.residuals
    IS 'of a regression of one label how far predictions were off on the rows held out: how many rows, and 250 of the sorted distances at most';

CREATE FUNCTION pgml.predict_interval(project_name pg_catalog.text, features pg_catalog.anyelement, coverage pg_catalog.float8 DEFAULT 0.9,
    OUT prediction pg_catalog.float4, OUT lower pg_catalog.float4, OUT upper pg_catalog.float4)
    AS 'MODULE_PATHNAME', 'pgml_predict_interval' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_interval(pg_catalog.text, pg_catalog.anyelement, pg_catalog.float8)
    IS 'prediction of the deployed model of the project, a regression of one label, for an array of features, or a row, whose columns are found by name, and an interval that contains the label for a share (coverage, between 0 and 1) of rows like those that the training held out. The method is split-conformal: the width comes from the errors on the held-out rows. The interval is infinite if too few rows were held out. Errors: 55000 if none were';

CREATE FUNCTION pgml.predict_interval(project_name pg_catalog.text, features pg_catalog.text, coverage pg_catalog.float8 DEFAULT 0.9,
    OUT prediction pg_catalog.float4, OUT lower pg_catalog.float4, OUT upper pg_catalog.float4)
    AS 'MODULE_PATHNAME', 'pgml_predict_interval' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_interval(pg_catalog.text, pg_catalog.text, pg_catalog.float8)
    IS 'prediction of the deployed model of the project, a regression of one label, for an array of features as text, and an interval that contains the label for a share (coverage, between 0 and 1) of rows like those that the training held out. The method is split-conformal: the width comes from the errors on the held-out rows. The interval is infinite if too few rows were held out. Errors: 55000 if none were';

CREATE FUNCTION pgml.predict_interval(model_id pg_catalog.int8, features pg_catalog.anyelement, coverage pg_catalog.float8 DEFAULT 0.9,
    OUT prediction pg_catalog.float4, OUT lower pg_catalog.float4, OUT upper pg_catalog.float4)
    AS 'MODULE_PATHNAME', 'pgml_predict_interval' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_interval(pg_catalog.int8, pg_catalog.anyelement, pg_catalog.float8)
    IS 'prediction of the model, a regression of one label, for an array of features, or a row, whose columns are found by name, and an interval that contains the label for a share (coverage, between 0 and 1) of rows like those that the training held out. The method is split-conformal: the width comes from the errors on the held-out rows. The interval is infinite if too few rows were held out. Errors: 55000 if none were';

CREATE FUNCTION pgml.predict_interval(model_id pg_catalog.int8, features pg_catalog.text, coverage pg_catalog.float8 DEFAULT 0.9,
    OUT prediction pg_catalog.float4, OUT lower pg_catalog.float4, OUT upper pg_catalog.float4)
    AS 'MODULE_PATHNAME', 'pgml_predict_interval' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_interval(pg_catalog.int8, pg_catalog.text, pg_catalog.float8)
    IS 'prediction of the model, a regression of one label, for an array of features as text, and an interval that contains the label for a share (coverage, between 0 and 1) of rows like those that the training held out. The method is split-conformal: the width comes from the errors on the held-out rows. The interval is infinite if too few rows were held out. Errors: 55000 if none were';

CREATE FUNCTION pgml.sklearn_f1_score(ground_truth pg_catalog.float4[], y_hat pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_sklearn_f1_score' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION pgml.sklearn_f1_score(pg_catalog.float4[], pg_catalog.float4[])
    IS 'F1 of predicted classes (y_hat), which are whole numbers, as in scikit-learn: of class 1 if there are two classes, else the mean over the classes (macro)';

CREATE FUNCTION pgml.sklearn_r2_score(ground_truth pg_catalog.float4[], y_hat pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_sklearn_r2_score' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION pgml.sklearn_r2_score(pg_catalog.float4[], pg_catalog.float4[])
    IS 'share of the variance of the labels that the predictions (y_hat) explain, as in scikit-learn; NULL of one label';

CREATE FUNCTION pgml.sklearn_regression_metrics(ground_truth pg_catalog.float4[], y_hat pg_catalog.float4[]) RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_sklearn_regression_metrics' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION pgml.sklearn_regression_metrics(pg_catalog.float4[], pg_catalog.float4[])
    IS 'r2, and the mean squared (mse) and absolute (mae) error of predictions (y_hat), as in scikit-learn';

CREATE FUNCTION pgml.sklearn_classification_metrics(ground_truth pg_catalog.float4[], y_hat pg_catalog.float4[], num_classes pg_catalog.int8) RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_sklearn_classification_metrics' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION pgml.sklearn_classification_metrics(pg_catalog.float4[], pg_catalog.float4[], pg_catalog.int8)
    IS 'f1, f1_micro, precision, recall, accuracy, mcc and, if num_classes is 2, roc_auc of predicted classes (y_hat), which are whole numbers, as in scikit-learn: of class 1 if there are two classes, else means over the classes (macro)';

CREATE FUNCTION pgml.drift(project_name pg_catalog.text, relation_name pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, psi pg_catalog.float8, ks pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_drift_project' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.drift(pg_catalog.text, pg_catalog.text)
    IS 'drift of the rows of a relation from the training rows of the deployed model of the project, for each column, the largest first: the population stability index (psi; below 0.1 is small, above 0.25 large) and the Kolmogorov-Smirnov statistic (ks, 0 to 1; NULL for text). A date or timestamp counts by its seconds, an array by all its elements. Errors: 55000 if the training stored nothing to compare with';

CREATE FUNCTION pgml.drift(model_id pg_catalog.int8, relation_name pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, psi pg_catalog.float8, ks pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_drift_model' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.drift(pg_catalog.int8, pg_catalog.text)
    IS 'drift of the rows of a relation from the training rows of the model, for each column, the largest first: the population stability index (psi; below 0.1 is small, above 0.25 large) and the Kolmogorov-Smirnov statistic (ks, 0 to 1; NULL for text). A date or timestamp counts by its seconds, an array by all its elements. Errors: 55000 if the training stored nothing to compare with';

--
-- Vectors: arrays of real or of double precision. Arrays of numeric and of whole numbers, as literals make them, count as
-- double precision.
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

--
-- The same of whole numbers, whose arrays become those of any other type alike, so that calls would be ambiguous
--

CREATE FUNCTION pgml.add(vector pg_catalog.int2[], addend pg_catalog.int2) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.add(pg_catalog.int2[], pg_catalog.int2) IS 'each element and the number added';

CREATE FUNCTION pgml.add(vector pg_catalog.int2[], addend pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.add(pg_catalog.int2[], pg_catalog.int2[]) IS 'elements added pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.subtract(vector pg_catalog.int2[], subtrahend pg_catalog.int2) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.int2[], pg_catalog.int2) IS 'the number subtracted from each element';

CREATE FUNCTION pgml.subtract(vector pg_catalog.int2[], subtrahend pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.int2[], pg_catalog.int2[]) IS 'elements subtracted pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.multiply(vector pg_catalog.int2[], multiplicand pg_catalog.int2) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.int2[], pg_catalog.int2) IS 'each element multiplied by the number';

CREATE FUNCTION pgml.multiply(vector pg_catalog.int2[], multiplicand pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.int2[], pg_catalog.int2[]) IS 'elements multiplied pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.divide(vector pg_catalog.int2[], divisor pg_catalog.int2) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.divide(pg_catalog.int2[], pg_catalog.int2) IS 'each element divided by the number';

CREATE FUNCTION pgml.divide(vector pg_catalog.int2[], divisor pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.divide(pg_catalog.int2[], pg_catalog.int2[]) IS 'elements divided pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.norm_l0(vector pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l0(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l0(pg_catalog.int2[]) IS 'how many elements are not zero';

CREATE FUNCTION pgml.norm_l1(vector pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l1(pg_catalog.int2[]) IS 'the sum of the absolute values';

CREATE FUNCTION pgml.norm_l2(vector pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l2(pg_catalog.int2[]) IS 'the length of the vector: the root of the sum of squares';

CREATE FUNCTION pgml.norm_max(vector pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_max(pg_catalog.int2[]) IS 'the largest absolute value';

CREATE FUNCTION pgml.normalize_l1(vector pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l1(pg_catalog.int2[]) IS 'each element divided by norm_l1; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l2(vector pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l2(pg_catalog.int2[]) IS 'each element divided by norm_l2; zeros stay zeros';

CREATE FUNCTION pgml.normalize_max(vector pg_catalog.int2[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_max(pg_catalog.int2[]) IS 'each element divided by norm_max; zeros stay zeros';

CREATE FUNCTION pgml.distance_l1(vector pg_catalog.int2[], other pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l1(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l1(pg_catalog.int2[], pg_catalog.int2[]) IS 'the sum of the absolute differences';

CREATE FUNCTION pgml.distance_l2(vector pg_catalog.int2[], other pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l2(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l2(pg_catalog.int2[], pg_catalog.int2[]) IS 'the distance of two points: the root of the sum of squared differences';

CREATE FUNCTION pgml.dot_product(vector pg_catalog.int2[], other pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.dot_product(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.dot_product(pg_catalog.int2[], pg_catalog.int2[]) IS 'the sum of the products of elements, pair by pair';

CREATE FUNCTION pgml.cosine_similarity(vector pg_catalog.int2[], other pg_catalog.int2[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.cosine_similarity(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.cosine_similarity(pg_catalog.int2[], pg_catalog.int2[]) IS 'the cosine of the angle between two vectors, from -1 to 1; NaN where one is zero';

CREATE FUNCTION pgml.add(vector pg_catalog.int4[], addend pg_catalog.int4) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.add(pg_catalog.int4[], pg_catalog.int4) IS 'each element and the number added';

CREATE FUNCTION pgml.add(vector pg_catalog.int4[], addend pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.add(pg_catalog.int4[], pg_catalog.int4[]) IS 'elements added pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.subtract(vector pg_catalog.int4[], subtrahend pg_catalog.int4) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.int4[], pg_catalog.int4) IS 'the number subtracted from each element';

CREATE FUNCTION pgml.subtract(vector pg_catalog.int4[], subtrahend pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.int4[], pg_catalog.int4[]) IS 'elements subtracted pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.multiply(vector pg_catalog.int4[], multiplicand pg_catalog.int4) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.int4[], pg_catalog.int4) IS 'each element multiplied by the number';

CREATE FUNCTION pgml.multiply(vector pg_catalog.int4[], multiplicand pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.int4[], pg_catalog.int4[]) IS 'elements multiplied pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.divide(vector pg_catalog.int4[], divisor pg_catalog.int4) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.divide(pg_catalog.int4[], pg_catalog.int4) IS 'each element divided by the number';

CREATE FUNCTION pgml.divide(vector pg_catalog.int4[], divisor pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.divide(pg_catalog.int4[], pg_catalog.int4[]) IS 'elements divided pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.norm_l0(vector pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l0(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l0(pg_catalog.int4[]) IS 'how many elements are not zero';

CREATE FUNCTION pgml.norm_l1(vector pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l1(pg_catalog.int4[]) IS 'the sum of the absolute values';

CREATE FUNCTION pgml.norm_l2(vector pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l2(pg_catalog.int4[]) IS 'the length of the vector: the root of the sum of squares';

CREATE FUNCTION pgml.norm_max(vector pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_max(pg_catalog.int4[]) IS 'the largest absolute value';

CREATE FUNCTION pgml.normalize_l1(vector pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l1(pg_catalog.int4[]) IS 'each element divided by norm_l1; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l2(vector pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l2(pg_catalog.int4[]) IS 'each element divided by norm_l2; zeros stay zeros';

CREATE FUNCTION pgml.normalize_max(vector pg_catalog.int4[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_max(pg_catalog.int4[]) IS 'each element divided by norm_max; zeros stay zeros';

CREATE FUNCTION pgml.distance_l1(vector pg_catalog.int4[], other pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l1(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l1(pg_catalog.int4[], pg_catalog.int4[]) IS 'the sum of the absolute differences';

CREATE FUNCTION pgml.distance_l2(vector pg_catalog.int4[], other pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l2(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l2(pg_catalog.int4[], pg_catalog.int4[]) IS 'the distance of two points: the root of the sum of squared differences';

CREATE FUNCTION pgml.dot_product(vector pg_catalog.int4[], other pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.dot_product(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.dot_product(pg_catalog.int4[], pg_catalog.int4[]) IS 'the sum of the products of elements, pair by pair';

CREATE FUNCTION pgml.cosine_similarity(vector pg_catalog.int4[], other pg_catalog.int4[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.cosine_similarity(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.cosine_similarity(pg_catalog.int4[], pg_catalog.int4[]) IS 'the cosine of the angle between two vectors, from -1 to 1; NaN where one is zero';

CREATE FUNCTION pgml.add(vector pg_catalog.int8[], addend pg_catalog.int8) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.add(pg_catalog.int8[], pg_catalog.int8) IS 'each element and the number added';

CREATE FUNCTION pgml.add(vector pg_catalog.int8[], addend pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.add(vector::pg_catalog.float8[], addend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.add(pg_catalog.int8[], pg_catalog.int8[]) IS 'elements added pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.subtract(vector pg_catalog.int8[], subtrahend pg_catalog.int8) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.int8[], pg_catalog.int8) IS 'the number subtracted from each element';

CREATE FUNCTION pgml.subtract(vector pg_catalog.int8[], subtrahend pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.subtract(vector::pg_catalog.float8[], subtrahend::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.subtract(pg_catalog.int8[], pg_catalog.int8[]) IS 'elements subtracted pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.multiply(vector pg_catalog.int8[], multiplicand pg_catalog.int8) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.int8[], pg_catalog.int8) IS 'each element multiplied by the number';

CREATE FUNCTION pgml.multiply(vector pg_catalog.int8[], multiplicand pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.multiply(vector::pg_catalog.float8[], multiplicand::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.multiply(pg_catalog.int8[], pg_catalog.int8[]) IS 'elements multiplied pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.divide(vector pg_catalog.int8[], divisor pg_catalog.int8) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8)';
COMMENT ON FUNCTION pgml.divide(pg_catalog.int8[], pg_catalog.int8) IS 'each element divided by the number';

CREATE FUNCTION pgml.divide(vector pg_catalog.int8[], divisor pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.divide(vector::pg_catalog.float8[], divisor::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.divide(pg_catalog.int8[], pg_catalog.int8[]) IS 'elements divided pair by pair; both vectors have the same number of elements';

CREATE FUNCTION pgml.norm_l0(vector pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l0(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l0(pg_catalog.int8[]) IS 'how many elements are not zero';

CREATE FUNCTION pgml.norm_l1(vector pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l1(pg_catalog.int8[]) IS 'the sum of the absolute values';

CREATE FUNCTION pgml.norm_l2(vector pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_l2(pg_catalog.int8[]) IS 'the length of the vector: the root of the sum of squares';

CREATE FUNCTION pgml.norm_max(vector pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.norm_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.norm_max(pg_catalog.int8[]) IS 'the largest absolute value';

CREATE FUNCTION pgml.normalize_l1(vector pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l1(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l1(pg_catalog.int8[]) IS 'each element divided by norm_l1; zeros stay zeros';

CREATE FUNCTION pgml.normalize_l2(vector pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_l2(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_l2(pg_catalog.int8[]) IS 'each element divided by norm_l2; zeros stay zeros';

CREATE FUNCTION pgml.normalize_max(vector pg_catalog.int8[]) RETURNS pg_catalog.float8[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.normalize_max(vector::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.normalize_max(pg_catalog.int8[]) IS 'each element divided by norm_max; zeros stay zeros';

CREATE FUNCTION pgml.distance_l1(vector pg_catalog.int8[], other pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l1(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l1(pg_catalog.int8[], pg_catalog.int8[]) IS 'the sum of the absolute differences';

CREATE FUNCTION pgml.distance_l2(vector pg_catalog.int8[], other pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.distance_l2(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.distance_l2(pg_catalog.int8[], pg_catalog.int8[]) IS 'the distance of two points: the root of the sum of squared differences';

CREATE FUNCTION pgml.dot_product(vector pg_catalog.int8[], other pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.dot_product(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.dot_product(pg_catalog.int8[], pg_catalog.int8[]) IS 'the sum of the products of elements, pair by pair';

CREATE FUNCTION pgml.cosine_similarity(vector pg_catalog.int8[], other pg_catalog.int8[]) RETURNS pg_catalog.float8
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT pgml.cosine_similarity(vector::pg_catalog.float8[], other::pg_catalog.float8[])';
COMMENT ON FUNCTION pgml.cosine_similarity(pg_catalog.int8[], pg_catalog.int8[]) IS 'the cosine of the angle between two vectors, from -1 to 1; NaN where one is zero';

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
COMMENT ON FUNCTION pgml.vector_abs(pg_catalog.float4[]) IS 'the last step of the aggregates pgml.min_abs and pgml.max_abs: it makes the result for a single vector absolute, too';

CREATE FUNCTION pgml.vector_abs(vector pg_catalog.float8[]) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_abs' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.vector_abs(pg_catalog.float8[]) IS 'the last step of the aggregates pgml.min_abs and pgml.max_abs: it makes the result for a single vector absolute, too';

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

-- Their steps where the vectors are of whole numbers or numeric: the state is of double precision.

CREATE FUNCTION pgml.sum_step(state pg_catalog.float8[], vector pg_catalog.anyarray) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_sum_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION pgml.min_step(state pg_catalog.float8[], vector pg_catalog.anyarray) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_min_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION pgml.max_step(state pg_catalog.float8[], vector pg_catalog.anyarray) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_max_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION pgml.min_abs_step(state pg_catalog.float8[], vector pg_catalog.anyarray) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_min_abs_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION pgml.max_abs_step(state pg_catalog.float8[], vector pg_catalog.anyarray) RETURNS pg_catalog.float8[]
    AS 'MODULE_PATHNAME', 'pgml_vector_max_abs_step' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE pgml.sum(pg_catalog.int2[]) (
    SFUNC = pgml.sum_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.add,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.sum(pg_catalog.int2[]) IS 'sum of vectors, element by element';

CREATE AGGREGATE pgml.sum(pg_catalog.int4[]) (
    SFUNC = pgml.sum_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.add,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.sum(pg_catalog.int4[]) IS 'sum of vectors, element by element';

CREATE AGGREGATE pgml.sum(pg_catalog.int8[]) (
    SFUNC = pgml.sum_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.add,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.sum(pg_catalog.int8[]) IS 'sum of vectors, element by element';

CREATE AGGREGATE pgml.sum(pg_catalog.numeric[]) (
    SFUNC = pgml.sum_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.add,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.sum(pg_catalog.numeric[]) IS 'sum of vectors, element by element';

CREATE AGGREGATE pgml.min(pg_catalog.int2[]) (
    SFUNC = pgml.min_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.min(pg_catalog.int2[]) IS 'the least value of each element';

CREATE AGGREGATE pgml.min(pg_catalog.int4[]) (
    SFUNC = pgml.min_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.min(pg_catalog.int4[]) IS 'the least value of each element';

CREATE AGGREGATE pgml.min(pg_catalog.int8[]) (
    SFUNC = pgml.min_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.min(pg_catalog.int8[]) IS 'the least value of each element';

CREATE AGGREGATE pgml.min(pg_catalog.numeric[]) (
    SFUNC = pgml.min_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.min(pg_catalog.numeric[]) IS 'the least value of each element';

CREATE AGGREGATE pgml.max(pg_catalog.int2[]) (
    SFUNC = pgml.max_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.max(pg_catalog.int2[]) IS 'the greatest value of each element';

CREATE AGGREGATE pgml.max(pg_catalog.int4[]) (
    SFUNC = pgml.max_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.max(pg_catalog.int4[]) IS 'the greatest value of each element';

CREATE AGGREGATE pgml.max(pg_catalog.int8[]) (
    SFUNC = pgml.max_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.max(pg_catalog.int8[]) IS 'the greatest value of each element';

CREATE AGGREGATE pgml.max(pg_catalog.numeric[]) (
    SFUNC = pgml.max_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE pgml.max(pg_catalog.numeric[]) IS 'the greatest value of each element';

CREATE AGGREGATE pgml.min_abs(pg_catalog.int2[]) (
    SFUNC = pgml.min_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.min_abs(pg_catalog.int2[]) IS 'the least absolute value of each element';

CREATE AGGREGATE pgml.min_abs(pg_catalog.int4[]) (
    SFUNC = pgml.min_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.min_abs(pg_catalog.int4[]) IS 'the least absolute value of each element';

CREATE AGGREGATE pgml.min_abs(pg_catalog.int8[]) (
    SFUNC = pgml.min_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.min_abs(pg_catalog.int8[]) IS 'the least absolute value of each element';

CREATE AGGREGATE pgml.min_abs(pg_catalog.numeric[]) (
    SFUNC = pgml.min_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_min_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.min_abs(pg_catalog.numeric[]) IS 'the least absolute value of each element';

CREATE AGGREGATE pgml.max_abs(pg_catalog.int2[]) (
    SFUNC = pgml.max_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.max_abs(pg_catalog.int2[]) IS 'the greatest absolute value of each element';

CREATE AGGREGATE pgml.max_abs(pg_catalog.int4[]) (
    SFUNC = pgml.max_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.max_abs(pg_catalog.int4[]) IS 'the greatest absolute value of each element';

CREATE AGGREGATE pgml.max_abs(pg_catalog.int8[]) (
    SFUNC = pgml.max_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.max_abs(pg_catalog.int8[]) IS 'the greatest absolute value of each element';

CREATE AGGREGATE pgml.max_abs(pg_catalog.numeric[]) (
    SFUNC = pgml.max_abs_step,
    STYPE = pg_catalog.float8[],
    COMBINEFUNC = pgml.vector_max_abs,
    PARALLEL = SAFE,
    FINALFUNC = pgml.vector_abs
);
COMMENT ON AGGREGATE pgml.max_abs(pg_catalog.numeric[]) IS 'the greatest absolute value of each element';

--
-- Models in and out
--

CREATE FUNCTION pgml.import_model(
    project_name pg_catalog.text,
    data pg_catalog.bytea,
    format pg_catalog.text DEFAULT NULL,
    task pg_catalog.text DEFAULT NULL,
    features pg_catalog.text[] DEFAULT NULL,
    classes pg_catalog.text[] DEFAULT NULL,
    sample pg_catalog.jsonb DEFAULT NULL,
    expected pg_catalog.jsonb DEFAULT NULL,
    deploy pg_catalog.bool DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool,
    model_id pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_import_model' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.import_model(pg_catalog.text, pg_catalog.bytea, pg_catalog.text, pg_catalog.text,
    pg_catalog.text[], pg_catalog.text[], pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.bool)
    IS 'store a model that was trained elsewhere as a model of the project, which is created if it does not exist. data is a file of 256 MB at most: XGBoost''s JSON or UBJSON, LightGBM''s text, CatBoost''s JSON (numbers only, symmetric trees), ONNX (scikit-learn''s pipelines, small networks), or the result of pgml.export_model. By default format (xgboost, lightgbm, catboost, onnx, safetensors) follows from the bytes, and task from the model''s objective; a network as ONNX is a classification if it ends in probabilities of several classes. features names the columns in the order of the model, by default as in the file, or f0, f1, ...; classes names the classes in the order of the model, by default as in the file, or 0, 1, .... sample is a row (a JSON array in the order of the model, or an object), and expected is the library''s prediction for it (a number, for two classes the probability of the second; an array; or the class as text): unless the model predicts the same to 0.00001, nothing is stored. The model is deployed if deploy is true, or if deploy is NULL and the project has no deployment. An existing project needs the privilege train, and deploy if the model is deployed. Errors: 22P03 for bytes that are no such file, 0A000 for a model that is not supported (of ONNX with the names of the operators), 22023 for names that do not agree, 22000 for another prediction than expected';

CREATE FUNCTION pgml.export_model(model_id pg_catalog.int8, format pg_catalog.text DEFAULT NULL) RETURNS pg_catalog.bytea
    AS 'MODULE_PATHNAME', 'pgml_export_model' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.export_model(pg_catalog.int8, pg_catalog.text)
    IS 'the model as a file: XGBoost''s UBJSON (or JSON, with format json), LightGBM''s text for lightgbm, CatBoost''s JSON or ONNX for a model that was imported from such a file, safetensors for all others. With format safetensors, the file of any model but XGBoost''s has all data that its predictions need, for pgml.import_model. For a library, the file has the features after preprocess, and classes as 0, 1, .... Needs the privilege export on the project. Errors: 0A000 for a format that the model does not have';

CREATE FUNCTION pgml.export_model(project_name pg_catalog.text, format pg_catalog.text DEFAULT NULL) RETURNS pg_catalog.bytea
    AS 'MODULE_PATHNAME', 'pgml_export_project' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.export_model(pg_catalog.text, pg_catalog.text)
    IS 'the deployed model of the project as a file, as by pgml.export_model(model_id, format)';

CREATE FUNCTION pgml.import_postgresml(
    schema_name pg_catalog.text DEFAULT 'postgresml'
) RETURNS TABLE (project pg_catalog.text, old_model_id pg_catalog.int8, model_id pg_catalog.int8,
    algorithm pg_catalog.text, outcome pg_catalog.text, reason pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_import_postgresml' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.import_postgresml(pg_catalog.text)
    IS 'import the XGBoost and LightGBM models of a PostgresML 2.x, whose tables (projects, snapshots, models, files, deployments) are in the schema, with hyperparameters and metrics, into projects of the same names, which are created if they do not exist. The model that was deployed in PostgresML is deployed if the project has no deployment. A row for each model has the outcome, and for a model that was left out the reason: deployed, imported, there (by an earlier call) or left. Needs SELECT on the tables, and on existing projects the privileges for pgml.import_model. Errors: 3F000 for a schema that does not exist, 42P01 for one without the tables';

CREATE FUNCTION pgml.export_sql(model_id pg_catalog.int8) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_export_sql_model' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.export_sql(pg_catalog.int8)
    IS 'the model as an expression of plain SQL over its columns (nested CASE), to predict without the extension: a real, or in a classification a real[] with the probability of each class. The value equals that of pgml.predict, or of pgml.predict_proba, except for the rounding of float32. Only for models of trees without preprocess, with at most 10,000 nodes and 64 levels. Needs the privilege export on the project. Errors: 54000 for a larger model, 0A000 for a model that has no such expression';

CREATE FUNCTION pgml.export_sql(project_name pg_catalog.text) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_export_sql_project' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.export_sql(pg_catalog.text)
    IS 'the deployed model of the project as an expression of plain SQL over its columns, as pgml.export_sql(model_id)';

--
-- A model on trial beside the deployed one: a canary, which answers for a share of keys, or a shadow, which answers nobody
--

ALTER TYPE pgml.strategy ADD VALUE IF NOT EXISTS 'canary';
ALTER TYPE pgml.strategy ADD VALUE IF NOT EXISTS 'shadow';

CREATE TABLE pgml.trials (
    project_id pg_catalog.int8 PRIMARY KEY REFERENCES pgml.projects (id) ON DELETE CASCADE,
    model_id pg_catalog.int8 NOT NULL,
    strategy pgml.strategy NOT NULL,
    share pg_catalog.float8 CHECK (share OPERATOR(pg_catalog.>) 0 AND share OPERATOR(pg_catalog.<=) 1),
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    FOREIGN KEY (project_id, model_id) REFERENCES pgml.models (project_id, id) ON DELETE CASCADE
);
CREATE INDEX trials_model_id_idx ON pgml.trials (project_id, model_id);
COMMENT ON TABLE pgml.trials IS 'the model on trial beside the deployed one, at most one for each project: a canary answers for a share (0 to 1) of the keys (pgml.model_for); a shadow has no share and only predicts for comparison (pgml.predict_shadow)';
SELECT pg_catalog.pg_extension_config_dump('pgml.trials', '');
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgml.trials
    FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate();
GRANT SELECT ON pgml.trials TO PUBLIC;
ALTER TABLE pgml.trials ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON pgml.trials FOR SELECT USING (pgml.project_allows(project_id, 'see'));

DROP FUNCTION pgml.deploy(pg_catalog.text, pgml.strategy, pgml.algorithm);
CREATE FUNCTION pgml.deploy(
    project_name pg_catalog.text,
    strategy pgml.strategy,
    algorithm pgml.algorithm DEFAULT NULL,
    model_id pg_catalog.int8 DEFAULT NULL,
    share pg_catalog.float8 DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, strategy pg_catalog.text, algorithm pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_deploy_project' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.deploy(pg_catalog.text, pgml.strategy, pgml.algorithm, pg_catalog.int8, pg_catalog.float8)
    IS 'deploy a model of the project, of the given algorithm if there is one: best_score, most_recent, or rollback to the model before. The strategies canary and shadow put the model model_id on trial beside the deployed one, in place of any other trial: a canary answers for a share (above 0, at most 1) of the keys (pgml.model_for), a shadow only predicts for comparison (pgml.predict_shadow). A trial ends when its model is deployed, or by rollback, which then leaves the deployed model as it is. Needs the privilege deploy on the project. Errors: 22023 for arguments that do not go together, 42704 for a model of another project, 55000 if no model is deployed, or if this model is deployed already';

CREATE FUNCTION pgml.model_for(project_name pg_catalog.text, key pg_catalog.text) RETURNS pg_catalog.int8
    AS 'MODULE_PATHNAME', 'pgml_model_for_text' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.model_for(pg_catalog.text, pg_catalog.text)
    IS 'the id of the model of the project that answers for a key, for pgml.predict and its relatives: the canary for its share of the keys, the deployed model for all others. A key belongs to the canary if the first eight bytes of sha256(canary''s model id, a colon, and the key, as bytes in the encoding of the database), as a number from 0 to 2^64, are below share times 2^64: so a key keeps its model, and a larger share contains the keys of a smaller one. Needs the privilege predict on the project';

CREATE FUNCTION pgml.model_for(project_name pg_catalog.text, key pg_catalog.int8) RETURNS pg_catalog.int8
    AS 'MODULE_PATHNAME', 'pgml_model_for_number' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.model_for(pg_catalog.text, pg_catalog.int8)
    IS 'the id of the model of the project that answers for a key that is a number: the same as for the number''s digits as text';

CREATE FUNCTION pgml.shadow_of(project_name pg_catalog.text) RETURNS pg_catalog.int8
    AS 'MODULE_PATHNAME', 'pgml_shadow_of' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.shadow_of(pg_catalog.text)
    IS 'the id of the model that is the shadow in the project; NULL where there is none. Needs predict on the project';

CREATE FUNCTION pgml.predict_shadow(project_name pg_catalog.text, features pg_catalog.anyelement,
    OUT prediction pg_catalog.float4, OUT shadow pg_catalog.float4, OUT error pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_predict_shadow' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 200;
COMMENT ON FUNCTION pgml.predict_shadow(pg_catalog.text, pg_catalog.anyelement)
    IS 'prediction of the deployed model of the project, and of its shadow for the same features (an array, or a row, whose columns are found by name), for the caller to store and compare later: the function itself stores nothing. shadow is NULL if the project has no shadow, and if the shadow cannot predict these features; in that case error gives the reason, and the call does not fail';

CREATE FUNCTION pgml.predict_shadow(project_name pg_catalog.text, features pg_catalog.text,
    OUT prediction pg_catalog.float4, OUT shadow pg_catalog.float4, OUT error pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_predict_shadow' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 200;
COMMENT ON FUNCTION pgml.predict_shadow(pg_catalog.text, pg_catalog.text)
    IS 'prediction of the deployed model of the project, and of its shadow, for an array of features as text';

COMMENT ON FUNCTION pgml.cancel(pg_catalog.int8)
    IS 'cancel a training that waits or runs; false if it has ended. A background search that has scored a combination already (its phase in pgml.activity is "searching, with a best so far") goes on with its best combination so far, which is trained and deployed as usual: the message in pgml.jobs says so. A second call cancels that training, too';

--
-- What a condition tells of rows that are hidden. PostgreSQL may check a condition whose operator is leakproof, as those of
-- text and bytea are, on rows that a policy hides or a view leaves out, if that is cheaper first: the rows stay hidden, but
-- EXPLAIN ANALYZE tells how many met it, and so one letter of a hidden value after the other.
--

-- So the policies are the cheapest of all conditions, and are checked first. What an index answers still comes before.
ALTER FUNCTION pgml.project_allows(pg_catalog.int8, pg_catalog.text) COST 0.0001;
ALTER FUNCTION pgml.model_allows(pg_catalog.int8, pg_catalog.text) COST 0.0001;
ALTER FUNCTION pgml.snapshot_allows(pg_catalog.int8, pg_catalog.text) COST 0.0001;

DO LANGUAGE plpgsql $$
DECLARE
    path pg_catalog.text := pg_catalog.current_setting('search_path');
    view pg_catalog.regclass;
    kept record;
BEGIN
    -- No condition goes below an OFFSET. Definitions are written, and read again, with all names but the system's qualified.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOREACH view IN ARRAY ARRAY['pgml.overview', 'pgml.trained_models', 'pgml.deployed_models', 'pgml.grants', 'pgml.jobs',
        'pgml.activity', 'pgml.stat_models']::pg_catalog.regclass[]
    LOOP
        EXECUTE pg_catalog.format('CREATE OR REPLACE VIEW %s WITH (security_barrier) AS %s OFFSET 0', view,
            pg_catalog.rtrim(pg_catalog.pg_get_viewdef(view), ';'));
    END LOOP;
    -- Nor are there statistics of values, by which EXPLAIN estimates.
    FOR kept IN
        SELECT a.attrelid::pg_catalog.regclass AS relation, a.attname AS name
        FROM pg_catalog.pg_attribute a
        WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
        AND a.attrelid OPERATOR(pg_catalog.=) ANY (ARRAY['pgml.projects', 'pgml.models', 'pgml.deployments', 'pgml.snapshots',
            'pgml.files', 'pgml.privileges', 'pgml.trials']::pg_catalog.regclass[]::pg_catalog.oid[])
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', kept.relation, kept.name);
        DELETE FROM pg_catalog.pg_statistic WHERE starelid OPERATOR(pg_catalog.=) kept.relation::pg_catalog.oid;
    END LOOP;
    PERFORM pg_catalog.set_config('search_path', path, true);
END
$$;
