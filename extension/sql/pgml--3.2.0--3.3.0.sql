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
        p_value pg_catalog.float8, unseen pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_drift_project' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.drift(pg_catalog.text, pg_catalog.text)
    IS 'drift of the rows of a relation from the training rows of the deployed model of the project, for each column, the largest first: the population stability index (psi; above 0.25 is large, if p_value is small too), the Kolmogorov-Smirnov statistic (ks, 0 to 1; NULL for text), the number of rows, and the probability that as many rows of the training''s distribution differ as much by chance (p_value; a chi-squared test of the shares that psi compares), and how many rows have a category that training has not seen, which is a missing value to the model (unseen; NULL for numbers). A date or timestamp counts by its seconds, an array by all its elements. Errors: 55000 if the training stored nothing to compare with';

CREATE FUNCTION pgml.drift(model_id pg_catalog.int8, relation_name pg_catalog.text)
    RETURNS TABLE (feature pg_catalog.text, psi pg_catalog.float8, ks pg_catalog.float8, rows pg_catalog.int8,
        p_value pg_catalog.float8, unseen pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_drift_model' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 20;
COMMENT ON FUNCTION pgml.drift(pg_catalog.int8, pg_catalog.text)
    IS 'drift of the rows of a relation from the training rows of the model, for each column, the largest first: the population stability index (psi; above 0.25 is large, if p_value is small too), the Kolmogorov-Smirnov statistic (ks, 0 to 1; NULL for text), the number of rows, and the probability that as many rows of the training''s distribution differ as much by chance (p_value; a chi-squared test of the shares that psi compares), and how many rows have a category that training has not seen, which is a missing value to the model (unseen; NULL for numbers). A date or timestamp counts by its seconds, an array by all its elements. Errors: 55000 if the training stored nothing to compare with';

--
-- Evaluation: which rows of a relation are looked at
--

DROP FUNCTION pgml.evaluate(pg_catalog.text, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.evaluate(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'metrics of the deployed model of the project on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Rows whose label is NULL or NaN are left out, and a notice counts them (22004 if all are, and with pgml.strict). rows: ''all'', ''held_out'', the rows that the training held out, or ''trained'', the others; by default those held out where the relation is that of the training, else all. "rows_used" says which';

DROP FUNCTION pgml.evaluate(pg_catalog.text, pg_catalog.text, pg_catalog.text[]);
CREATE FUNCTION pgml.evaluate(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text[], rows pg_catalog.text DEFAULT NULL)
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.text, pg_catalog.text, pg_catalog.text[], pg_catalog.text)
    IS 'metrics of the deployed model of the project on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Rows whose label is NULL or NaN are left out, and a notice counts them (22004 if all are, and with pgml.strict). rows: ''all'', ''held_out'', the rows that the training held out, or ''trained'', the others; by default those held out where the relation is that of the training, else all. "rows_used" says which';

DROP FUNCTION pgml.confusion_matrix(pg_catalog.text, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.confusion_matrix(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (actual pg_catalog.text, predicted pg_catalog.text, count pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_confusion_matrix' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 100;
COMMENT ON FUNCTION pgml.confusion_matrix(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'number of rows for each pair of an actual class and a class predicted by the deployed model of the project, in the order of the classes; actual classes that the model does not know come last. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.roc_curve(pg_catalog.text, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.roc_curve(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, fpr pg_catalog.float8, tpr pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_roc_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.roc_curve(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'the ROC curve of the deployed model of the project, for the positive one of two classes, or for each of more classes against the rest: at each threshold, from an infinite one downwards, the share of the other rows (fpr) and of the rows of the class (tpr) whose probability, or score, is at least the threshold. Points on a line between two others are left out. NULL if there are no rows of that kind. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.precision_recall_curve(pg_catalog.text, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.precision_recall_curve(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, "precision" pg_catalog.float8, recall pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_precision_recall_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.precision_recall_curve(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'precision and recall of the deployed model of the project at each threshold, where a row counts as predicted to be of the class if its probability, or score, is at least the threshold; for the positive one of two classes, or for each of more classes against the rest. The last threshold is infinite, with precision 1 and recall 0. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.calibration_curve(pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.text);
CREATE FUNCTION pgml.calibration_curve(project_name pg_catalog.text, relation_name pg_catalog.text, bins pg_catalog.int4 DEFAULT 10, y_column_name pg_catalog.text DEFAULT NULL, rows_used pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, bin pg_catalog.int4, rows pg_catalog.int8, predicted pg_catalog.float8, actual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_calibration_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION pgml.calibration_curve(pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.text, pg_catalog.text)
    IS 'calibration of the probabilities of the deployed model of the project: for each bin of probabilities (bins, 1 to 10000) the mean predicted probability and the actual share of rows of the class; of two classes only the positive one; NULL for an empty bin. rows_used: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.residual_quantiles(pg_catalog.text, pg_catalog.text, pg_catalog.float8[], pg_catalog.text);
CREATE FUNCTION pgml.residual_quantiles(project_name pg_catalog.text, relation_name pg_catalog.text, quantiles pg_catalog.float8[] DEFAULT '{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}', y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (label pg_catalog.text, quantile pg_catalog.float8, residual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_residual_quantiles' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 11;
COMMENT ON FUNCTION pgml.residual_quantiles(pg_catalog.text, pg_catalog.text, pg_catalog.float8[], pg_catalog.text, pg_catalog.text)
    IS 'quantiles (0 to 1) of the residuals, label minus prediction, of the deployed model of the project, a regression, for each label. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.evaluate(pg_catalog.int8, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.evaluate(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.int8, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'metrics of the model on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Rows whose label is NULL or NaN are left out, and a notice counts them (22004 if all are, and with pgml.strict). rows: ''all'', ''held_out'', the rows that the training held out, or ''trained'', the others; by default those held out where the relation is that of the training, else all. "rows_used" says which';

DROP FUNCTION pgml.evaluate(pg_catalog.int8, pg_catalog.text, pg_catalog.text[]);
CREATE FUNCTION pgml.evaluate(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text[], rows pg_catalog.text DEFAULT NULL)
    RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_evaluate' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000;
COMMENT ON FUNCTION pgml.evaluate(pg_catalog.int8, pg_catalog.text, pg_catalog.text[], pg_catalog.text)
    IS 'metrics of the model on the rows of a relation, or of a query in parentheses, by name and computed as in a training, and the number of rows ("rows"). Metrics that the rows do not define are left out. y_column_name is the label, or an array of labels, by default as in the training. Rows whose label is NULL or NaN are left out, and a notice counts them (22004 if all are, and with pgml.strict). rows: ''all'', ''held_out'', the rows that the training held out, or ''trained'', the others; by default those held out where the relation is that of the training, else all. "rows_used" says which';

DROP FUNCTION pgml.confusion_matrix(pg_catalog.int8, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.confusion_matrix(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (actual pg_catalog.text, predicted pg_catalog.text, count pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_confusion_matrix' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 100;
COMMENT ON FUNCTION pgml.confusion_matrix(pg_catalog.int8, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'number of rows for each pair of an actual class and a class predicted by the model, in the order of the classes; actual classes that the model does not know come last. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.roc_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.roc_curve(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, fpr pg_catalog.float8, tpr pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_roc_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.roc_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'the ROC curve of the model, for the positive one of two classes, or for each of more classes against the rest: at each threshold, from an infinite one downwards, the share of the other rows (fpr) and of the rows of the class (tpr) whose probability, or score, is at least the threshold. Points on a line between two others are left out. NULL if there are no rows of that kind. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.precision_recall_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.precision_recall_curve(model_id pg_catalog.int8, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, threshold pg_catalog.float4, "precision" pg_catalog.float8, recall pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_precision_recall_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 1000;
COMMENT ON FUNCTION pgml.precision_recall_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'precision and recall of the model at each threshold, where a row counts as predicted to be of the class if its probability, or score, is at least the threshold; for the positive one of two classes, or for each of more classes against the rest. The last threshold is infinite, with precision 1 and recall 0. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.calibration_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.int4, pg_catalog.text);
CREATE FUNCTION pgml.calibration_curve(model_id pg_catalog.int8, relation_name pg_catalog.text, bins pg_catalog.int4 DEFAULT 10, y_column_name pg_catalog.text DEFAULT NULL, rows_used pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (class pg_catalog.text, bin pg_catalog.int4, rows pg_catalog.int8, predicted pg_catalog.float8, actual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_calibration_curve' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION pgml.calibration_curve(pg_catalog.int8, pg_catalog.text, pg_catalog.int4, pg_catalog.text, pg_catalog.text)
    IS 'calibration of the probabilities of the model: for each bin of probabilities (bins, 1 to 10000) the mean predicted probability and the actual share of rows of the class; of two classes only the positive one; NULL for an empty bin. rows_used: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.residual_quantiles(pg_catalog.int8, pg_catalog.text, pg_catalog.float8[], pg_catalog.text);
CREATE FUNCTION pgml.residual_quantiles(model_id pg_catalog.int8, relation_name pg_catalog.text, quantiles pg_catalog.float8[] DEFAULT '{0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1}', y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (label pg_catalog.text, quantile pg_catalog.float8, residual pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_residual_quantiles' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 11;
COMMENT ON FUNCTION pgml.residual_quantiles(pg_catalog.int8, pg_catalog.text, pg_catalog.float8[], pg_catalog.text, pg_catalog.text)
    IS 'quantiles (0 to 1) of the residuals, label minus prediction, of the model, a regression, for each label. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.compare(pg_catalog.text, pg_catalog.text, pg_catalog.text);
CREATE FUNCTION pgml.compare(project_name pg_catalog.text, relation_name pg_catalog.text, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (model_id pg_catalog.int8, algorithm pg_catalog.text, deployed pg_catalog.bool, metrics pg_catalog.jsonb, error pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_compare' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 100000 ROWS 10;
COMMENT ON FUNCTION pgml.compare(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'metrics of all models of the project, as by pgml.evaluate, on the same rows of a relation, or of a query in parentheses, which is read once; the best model first. For a model that cannot be measured, metrics is NULL and error gives the reason. rows: ''all'', ''held_out'' (those that the trainings of all models held out) or ''trained''; by default those held out where the relation is that of the trainings, else all';

DROP FUNCTION pgml.permutation_importance(pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.int8, pg_catalog.text);
CREATE FUNCTION pgml.permutation_importance(project_name pg_catalog.text, relation_name pg_catalog.text, repeats pg_catalog.int4 DEFAULT 5, seed pg_catalog.int8 DEFAULT 0, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (feature pg_catalog.text, importance pg_catalog.float8, std_dev pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_permutation_importance' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 20;
COMMENT ON FUNCTION pgml.permutation_importance(pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.int8, pg_catalog.text, pg_catalog.text)
    IS 'decrease of r2 or f1 of the deployed model of the project on the rows of a relation when the values of one feature are shuffled, the most important feature first: mean and standard deviation over several shuffles (repeats, 1 to 1000), which seed determines. Of more than 128 MB of rows a sample is used. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

DROP FUNCTION pgml.permutation_importance(pg_catalog.int8, pg_catalog.text, pg_catalog.int4, pg_catalog.int8, pg_catalog.text);
CREATE FUNCTION pgml.permutation_importance(model_id pg_catalog.int8, relation_name pg_catalog.text, repeats pg_catalog.int4 DEFAULT 5, seed pg_catalog.int8 DEFAULT 0, y_column_name pg_catalog.text DEFAULT NULL, rows pg_catalog.text DEFAULT NULL)
    RETURNS TABLE (feature pg_catalog.text, importance pg_catalog.float8, std_dev pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_permutation_importance' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 20;
COMMENT ON FUNCTION pgml.permutation_importance(pg_catalog.int8, pg_catalog.text, pg_catalog.int4, pg_catalog.int8, pg_catalog.text, pg_catalog.text)
    IS 'decrease of r2 or f1 of the model on the rows of a relation when the values of one feature are shuffled, the most important feature first: mean and standard deviation over several shuffles (repeats, 1 to 1000), which seed determines. Of more than 128 MB of rows a sample is used. rows: ''all'', ''held_out'' (those that the training held out) or ''trained''; by default those held out where the relation is that of the training, else all';

CREATE FUNCTION pgml.held_out(project_name pg_catalog.text, row_data pg_catalog.record) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_held_out' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION pgml.held_out(pg_catalog.text, pg_catalog.record)
    IS 'whether the training of the deployed model of the project held this row out, or would have: the rule is stored with the model and asks for the columns of the row, or the key, by their names; the label counts, so that a row needs it. pgml.predict answers by the fit on all rows, unless the model was trained with refit => false: to judge a model by its held-out rows, use pgml.evaluate and the functions like it. Errors: 55000 if the rows were chosen by their place, or by an older version';

CREATE FUNCTION pgml.held_out(model_id pg_catalog.int8, row_data pg_catalog.record) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_held_out' LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION pgml.held_out(pg_catalog.int8, pg_catalog.record)
    IS 'whether the training of the model held this row out, or would have: the rule is stored with the model and asks for the columns of the row, or the key, by their names; the label counts, so that a row needs it. pgml.predict answers by the fit on all rows, unless the model was trained with refit => false: to judge a model by its held-out rows, use pgml.evaluate and the functions like it. Errors: 55000 if the rows were chosen by their place, or by an older version';

ALTER TABLE pgml.projects ADD COLUMN metric pg_catalog.text;
-- What ANALYZE finds would be shown to roles that the row level security hides the rows from.
ALTER TABLE pgml.projects ALTER COLUMN metric SET STATISTICS 0;
COMMENT ON COLUMN pgml.projects.metric
    IS 'the metric by which models are compared, where one was named: one of pgml''s, or an aggregate function; NULL for that of the task';

--
-- The numbers that a model has for its features
--

CREATE FUNCTION pgml.coefficients(project_name pg_catalog.text)
    RETURNS TABLE (class pg_catalog.text, component pg_catalog.int4, feature pg_catalog.text, coefficient pg_catalog.float8,
        unscaled pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_coefficients' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 100;
COMMENT ON FUNCTION pgml.coefficients(pg_catalog.text)
    IS 'the numbers of the deployed model of the project, one for each feature as the model sees it: the coefficients of a linear model (class is the class, or the label of a joint regression; the feature (intercept) is what is added), the centres of clusters (component is the cluster, as pgml.predict gives it), or the components of a decomposition (component is the place in the array of pgml.decompose). A feature that is 1 for one category is called column=category. coefficient is for the features after preprocess, unscaled for the units of the columns. Needs the privilege export. Errors: 0A000 for a model that is not made of such numbers';

CREATE FUNCTION pgml.coefficients(model_id pg_catalog.int8)
    RETURNS TABLE (class pg_catalog.text, component pg_catalog.int4, feature pg_catalog.text, coefficient pg_catalog.float8,
        unscaled pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_coefficients' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 100;
COMMENT ON FUNCTION pgml.coefficients(pg_catalog.int8)
    IS 'the numbers of the model, one for each feature as the model sees it: the coefficients of a linear model (class is the class, or the label of a joint regression; the feature (intercept) is what is added), the centres of clusters (component is the cluster, as pgml.predict gives it), or the components of a decomposition (component is the place in the array of pgml.decompose). A feature that is 1 for one category is called column=category. coefficient is for the features after preprocess, unscaled for the units of the columns. Needs the privilege export. Errors: 0A000 for a model that is not made of such numbers';

--
-- A list that a driver binds: a parameter, or a literal, without a type is an array of real here, or what a text may say.
--

CREATE TYPE pgml.features;
CREATE FUNCTION pgml.features_in(cstring) RETURNS pgml.features
    AS 'textin' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION pgml.features_out(pgml.features) RETURNS cstring
    AS 'textout' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION pgml.features_receive(internal, pg_catalog.oid, pg_catalog.int4) RETURNS pgml.features
    AS 'MODULE_PATHNAME', 'pgml_features_receive' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION pgml.features_subscript(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'pgml_features_subscript' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
-- Category S, so that what has no type is of this one rather than of any element. Drivers take it for an array by ELEMENT.
CREATE TYPE pgml.features (
    INPUT = pgml.features_in, OUTPUT = pgml.features_out, RECEIVE = pgml.features_receive,
    SUBSCRIPT = pgml.features_subscript, ELEMENT = pg_catalog.float4, INTERNALLENGTH = VARIABLE, STORAGE = extended,
    CATEGORY = 'S');
COMMENT ON TYPE pgml.features
    IS 'an array of features as a parameter without a type, such as a list in Python, or a literal, such as {1, 2.5, NULL}';

-- One that something depends on, such as a view, stays as it is.
DO LANGUAGE plpgsql $$
DECLARE
    overload pg_catalog.regprocedure;
    definition pg_catalog.text;
    rights pg_catalog.aclitem[];
    described pg_catalog.text;
    remade pg_catalog.text;
    granted RECORD;
BEGIN
    FOR overload, definition, rights, described IN
        SELECT p.oid, pg_catalog.replace(pg_catalog.pg_get_functiondef(p.oid), 'features text)', 'features pgml.features)'),
            p.proacl, pg_catalog.obj_description(p.oid, 'pg_proc')
        FROM pg_catalog.pg_proc p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgml'::pg_catalog.regnamespace
            AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['predict_proba', 'predict_joint'])
            AND p.pronargs OPERATOR(pg_catalog.=) 2
            AND p.proargtypes[1] OPERATOR(pg_catalog.=) 'pg_catalog.text'::pg_catalog.regtype
    LOOP
        remade := pg_catalog.replace(overload::pg_catalog.text, ',text)', ',pgml.features)');
        BEGIN
            EXECUTE pg_catalog.format('ALTER EXTENSION pgml DROP FUNCTION %s', overload);
            EXECUTE pg_catalog.format('DROP FUNCTION %s', overload);
            EXECUTE definition;
            EXECUTE pg_catalog.format('COMMENT ON FUNCTION %s IS %L', remade, described);
            IF rights IS NOT NULL THEN
                EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', remade);
                FOR granted IN SELECT * FROM pg_catalog.aclexplode(rights) LOOP
                    EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO %s%s', remade,
                        CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE granted.grantee::pg_catalog.regrole::pg_catalog.text END,
                        CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
                END LOOP;
            END IF;
        EXCEPTION WHEN dependent_objects_still_exist THEN
            NULL;
        END;
    END LOOP;
END
$$;

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
