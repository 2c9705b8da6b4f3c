-- The SQL interface of pgml 3.0.0, written by hand. Names, arguments, their order and their defaults are those of
-- PostgresML 2.10, so that an application of it moves over unchanged.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "CREATE EXTENSION pgml" to load this file. \quit

--
-- Types
--

CREATE TYPE pgml.task AS ENUM (
    'regression', 'classification', 'decomposition', 'clustering', 'question_answering', 'summarization',
    'translation', 'text_classification', 'text_generation', 'text2text', 'embedding', 'text_pair_classification',
    'conversation');

CREATE TYPE pgml.algorithm AS ENUM (
    'linear', 'xgboost', 'xgboost_random_forest', 'svm', 'lasso', 'elastic_net', 'ridge', 'kmeans', 'dbscan', 'knn',
    'random_forest', 'least_angle', 'lasso_least_angle', 'orthogonal_matching_pursuit', 'bayesian_ridge',
    'automatic_relevance_determination', 'stochastic_gradient_descent', 'perceptron', 'passive_aggressive', 'ransac',
    'theil_sen', 'huber', 'quantile', 'kernel_ridge', 'gaussian_process', 'nu_svm', 'ada_boost', 'bagging',
    'extra_trees', 'gradient_boosting_trees', 'hist_gradient_boosting', 'linear_svm', 'lightgbm', 'transformers',
    'affinity_propagation', 'birch', 'feature_agglomeration', 'mini_batch_kmeans', 'mean_shift', 'optics', 'spectral',
    'spectral_bi', 'spectral_co', 'catboost', 'pca');

CREATE TYPE pgml.runtime AS ENUM ('python', 'rust', 'openai');

CREATE TYPE pgml.sampling AS ENUM ('random', 'last', 'stratified');

CREATE TYPE pgml.search AS ENUM ('grid', 'random');

CREATE TYPE pgml.strategy AS ENUM ('new_score', 'best_score', 'most_recent', 'rollback', 'specific');

CREATE TYPE pgml.status AS ENUM ('in_progress', 'successful', 'failed');

--
-- Tables
--

CREATE TABLE pgml.projects (
    id pg_catalog.int8 PRIMARY KEY,
    name pg_catalog.text NOT NULL,
    task pgml.task NOT NULL,
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE SEQUENCE pgml.projects_id_seq OWNED BY pgml.projects.id;
ALTER TABLE pgml.projects ALTER COLUMN id SET DEFAULT pg_catalog.nextval('pgml.projects_id_seq'::pg_catalog.regclass);
CREATE UNIQUE INDEX projects_name_idx ON pgml.projects (name);
COMMENT ON TABLE pgml.projects IS 'a named task, for which models are trained, and one of them deployed';

CREATE TABLE pgml.snapshots (
    id pg_catalog.int8 PRIMARY KEY,
    relation_name pg_catalog.text NOT NULL,
    y_column_name pg_catalog.text[],
    test_size pg_catalog.float4 NOT NULL,
    test_sampling pgml.sampling NOT NULL,
    status pg_catalog.text NOT NULL,
    columns pg_catalog.jsonb,
    analysis pg_catalog.jsonb,
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    materialized pg_catalog.bool DEFAULT false
);
CREATE SEQUENCE pgml.snapshots_id_seq OWNED BY pgml.snapshots.id;
ALTER TABLE pgml.snapshots ALTER COLUMN id SET DEFAULT pg_catalog.nextval('pgml.snapshots_id_seq'::pg_catalog.regclass);
COMMENT ON TABLE pgml.snapshots IS 'the data that models were trained on: the relation, the split, and statistics of the columns';

CREATE TABLE pgml.models (
    id pg_catalog.int8 PRIMARY KEY,
    project_id pg_catalog.int8 NOT NULL REFERENCES pgml.projects (id) ON DELETE CASCADE,
    snapshot_id pg_catalog.int8 REFERENCES pgml.snapshots (id) ON DELETE SET NULL,
    num_features pg_catalog.int4 NOT NULL,
    algorithm pg_catalog.text NOT NULL,
    runtime pgml.runtime DEFAULT 'python',
    hyperparams pg_catalog.jsonb NOT NULL,
    status pg_catalog.text NOT NULL,
    metrics pg_catalog.jsonb,
    search pg_catalog.text,
    search_params pg_catalog.jsonb NOT NULL,
    search_args pg_catalog.jsonb NOT NULL,
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE SEQUENCE pgml.models_id_seq OWNED BY pgml.models.id;
ALTER TABLE pgml.models ALTER COLUMN id SET DEFAULT pg_catalog.nextval('pgml.models_id_seq'::pg_catalog.regclass);
CREATE INDEX models_project_id_idx ON pgml.models (project_id);
CREATE INDEX models_snapshot_id_idx ON pgml.models (snapshot_id);
COMMENT ON TABLE pgml.models IS 'trained models with their hyperparameters and metrics; their bytes are in pgml.files';

CREATE TABLE pgml.deployments (
    id pg_catalog.int8 PRIMARY KEY,
    project_id pg_catalog.int8 NOT NULL REFERENCES pgml.projects (id) ON DELETE CASCADE,
    model_id pg_catalog.int8 NOT NULL REFERENCES pgml.models (id) ON DELETE CASCADE,
    strategy pgml.strategy NOT NULL,
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE SEQUENCE pgml.deployments_id_seq OWNED BY pgml.deployments.id;
ALTER TABLE pgml.deployments
    ALTER COLUMN id SET DEFAULT pg_catalog.nextval('pgml.deployments_id_seq'::pg_catalog.regclass);
-- The latest deployment of a project is the one with the largest id.
CREATE INDEX deployments_project_id_idx ON pgml.deployments (project_id, id);
CREATE INDEX deployments_model_id_idx ON pgml.deployments (model_id);
COMMENT ON TABLE pgml.deployments IS 'the model that answers for a project from created_at on; the latest row of a project counts';

CREATE TABLE pgml.files (
    id pg_catalog.int8 PRIMARY KEY,
    model_id pg_catalog.int8 NOT NULL REFERENCES pgml.models (id) ON DELETE CASCADE,
    path pg_catalog.text NOT NULL,
    part pg_catalog.int4 NOT NULL,
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    data pg_catalog.bytea NOT NULL,
    -- Connections find the compiled copy of a model by this, without reading its bytes.
    digest pg_catalog.bytea GENERATED ALWAYS AS (pg_catalog.sha256(data)) STORED
);
CREATE SEQUENCE pgml.files_id_seq OWNED BY pgml.files.id;
ALTER TABLE pgml.files ALTER COLUMN id SET DEFAULT pg_catalog.nextval('pgml.files_id_seq'::pg_catalog.regclass);
CREATE UNIQUE INDEX files_model_id_path_part_idx ON pgml.files (model_id, path, part);
-- Models compress badly, and are read whole.
ALTER TABLE pgml.files ALTER COLUMN data SET STORAGE EXTERNAL;
COMMENT ON TABLE pgml.files IS 'the bytes of models, as their training library saves them, in parts';

SELECT pg_catalog.pg_extension_config_dump('pgml.projects', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.projects_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.snapshots', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.snapshots_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.models', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.models_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.deployments', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.deployments_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.files', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.files_id_seq', '');

--
-- Triggers
--

CREATE FUNCTION pgml.set_updated_at() RETURNS trigger
    AS 'MODULE_PATHNAME', 'pgml_set_updated_at' LANGUAGE C;

CREATE TRIGGER set_updated_at BEFORE UPDATE ON pgml.projects FOR EACH ROW EXECUTE FUNCTION pgml.set_updated_at();
CREATE TRIGGER set_updated_at BEFORE UPDATE ON pgml.snapshots FOR EACH ROW EXECUTE FUNCTION pgml.set_updated_at();
CREATE TRIGGER set_updated_at BEFORE UPDATE ON pgml.models FOR EACH ROW EXECUTE FUNCTION pgml.set_updated_at();
CREATE TRIGGER set_updated_at BEFORE UPDATE ON pgml.files FOR EACH ROW EXECUTE FUNCTION pgml.set_updated_at();

-- Every connection, on replicas too, remembers which model a project's name means until one of these tables changes.
CREATE FUNCTION pgml.invalidate() RETURNS trigger
    AS 'MODULE_PATHNAME', 'pgml_invalidate' LANGUAGE C;

CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgml.projects
    FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgml.models
    FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgml.files
    FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate();
CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgml.deployments
    FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate();

--
-- Views
--

CREATE VIEW pgml.overview AS
SELECT
    p.name,
    d.created_at AS deployed_at,
    p.task,
    m.algorithm,
    m.runtime,
    s.relation_name,
    s.y_column_name,
    s.test_sampling,
    s.test_size
FROM pgml.projects p
INNER JOIN pgml.models m ON p.id OPERATOR(pg_catalog.=) m.project_id
INNER JOIN pgml.deployments d ON d.project_id OPERATOR(pg_catalog.=) p.id AND d.model_id OPERATOR(pg_catalog.=) m.id
LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
ORDER BY d.created_at DESC;
COMMENT ON VIEW pgml.overview IS 'every deployment with its project and data, newest first';

CREATE VIEW pgml.trained_models AS
SELECT
    m.id,
    p.name,
    p.task,
    m.algorithm,
    m.runtime,
    m.created_at,
    s.test_sampling,
    s.test_size,
    d.model_id IS NOT NULL AS deployed
FROM pgml.projects p
INNER JOIN pgml.models m ON p.id OPERATOR(pg_catalog.=) m.project_id
LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
LEFT JOIN (
    SELECT DISTINCT ON (project_id) project_id, model_id
    FROM pgml.deployments
    ORDER BY project_id, id DESC
) d ON d.model_id OPERATOR(pg_catalog.=) m.id
ORDER BY m.created_at DESC;
COMMENT ON VIEW pgml.trained_models IS 'every model with its project, newest first, and whether it is deployed now';

CREATE VIEW pgml.deployed_models AS
SELECT m.id, p.name, p.task, m.algorithm, m.runtime, d.created_at AS deployed_at
FROM (
    SELECT DISTINCT ON (project_id) project_id, model_id, created_at
    FROM pgml.deployments
    ORDER BY project_id, id DESC
) d
INNER JOIN pgml.models m ON m.id OPERATOR(pg_catalog.=) d.model_id
INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) d.project_id
ORDER BY p.name;
COMMENT ON VIEW pgml.deployed_models IS 'the model that answers for each project now';

--
-- Training
--

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
    preprocess pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool)
    AS 'MODULE_PATHNAME', 'pgml_train' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb)
    IS 'train a model from a table, a view or a query in parentheses, and deploy it if it is the best of its project';

CREATE FUNCTION pgml.deploy(
    model_id pg_catalog.int8
) RETURNS TABLE (project pg_catalog.text, strategy pg_catalog.text, algorithm pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_deploy_model' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.deploy(pg_catalog.int8) IS 'deploy this model for its project';

CREATE FUNCTION pgml.deploy(
    project_name pg_catalog.text,
    strategy pgml.strategy,
    algorithm pgml.algorithm DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, strategy pg_catalog.text, algorithm pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_deploy_project' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.deploy(pg_catalog.text, pgml.strategy, pgml.algorithm)
    IS 'deploy a model of the project, of one algorithm if given: best_score, most_recent, or rollback to the model before';

CREATE FUNCTION pgml.load_dataset(
    source pg_catalog.text,
    subset pg_catalog.text DEFAULT NULL,
    "limit" pg_catalog.int8 DEFAULT NULL,
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (table_name pg_catalog.text, rows pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_load_dataset' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.load_dataset(pg_catalog.text, pg_catalog.text, pg_catalog.int8, pg_catalog.jsonb)
    IS 'make the table pgml.<source> from a built-in data set: breast_cancer, diabetes, digits, iris, linnerud, wine';

CREATE FUNCTION pgml.version() RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_version' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION pgml.version() IS 'version of the extension library';

CREATE FUNCTION pgml.xgboost_version() RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_xgboost_version' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.xgboost_version() IS 'version of the training library that pgml.xgboost_library names';

--
-- Prediction. By project the answer depends on what is deployed (STABLE); a model never changes (IMMUTABLE).
-- COST 100 is what a prediction of a hundred trees takes, arguments included, on the scale on which the scan of a row
-- takes what it does (bench/run predict-scan): 0.6 us a row beside 0.06 us.
--

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.float4[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.float8[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.float8[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.int2[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.int2[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.int4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.int4[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.int8[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.int8[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.bool[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.bool[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, features pg_catalog.numeric[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.numeric[])
    IS 'prediction of the deployed model of the project for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, "row" pg_catalog.anyelement) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog.anyelement)
    IS 'prediction of the deployed model of the project for a row, whose columns are found by name, or for the one feature of a model that has one';

CREATE FUNCTION pgml.predict(project_name pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any") RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'prediction of the deployed model of the project for features given one by one, in the order of the columns in training; NULL is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.float4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.float4[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.float8[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.float8[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.int2[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.int2[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.int4[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.int4[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.int8[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.int8[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.bool[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.bool[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, features pg_catalog.numeric[]) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.numeric[])
    IS 'prediction of the model for an array of features, in the order of the columns in training; a NULL element is a missing value';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, "row" pg_catalog.anyelement) RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog.anyelement)
    IS 'prediction of the model for a row, whose columns are found by name, or for the one feature of a model that has one';

CREATE FUNCTION pgml.predict(model_id pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any") RETURNS pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict(pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'prediction of the model for features given one by one, in the order of the columns in training; NULL is a missing value';

CREATE FUNCTION pgml.predict_proba(project_name pg_catalog.text, features pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.text, pg_catalog.float4[])
    IS 'probability of each class, in the order of the classes, by the deployed model of the project, for an array of features';

CREATE FUNCTION pgml.predict_proba(project_name pg_catalog.text, "row" pg_catalog.anyelement) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.text, pg_catalog.anyelement)
    IS 'probability of each class, in the order of the classes, by the deployed model of the project, for a row, whose columns are found by name';

CREATE FUNCTION pgml.predict_proba(project_name pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any") RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'probability of each class, in the order of the classes, by the deployed model of the project, for features given one by one';

CREATE FUNCTION pgml.predict_proba(model_id pg_catalog.int8, features pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.int8, pg_catalog.float4[])
    IS 'probability of each class, in the order of the classes, by the model, for an array of features';

CREATE FUNCTION pgml.predict_proba(model_id pg_catalog.int8, "row" pg_catalog.anyelement) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.int8, pg_catalog.anyelement)
    IS 'probability of each class, in the order of the classes, by the model, for a row, whose columns are found by name';

CREATE FUNCTION pgml.predict_proba(model_id pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any") RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_proba' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_proba(pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'probability of each class, in the order of the classes, by the model, for features given one by one';

CREATE FUNCTION pgml.predict_label(project_name pg_catalog.text, features pg_catalog.float4[]) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.text, pg_catalog.float4[])
    IS 'predicted class as text, by the deployed model of the project, for an array of features';

CREATE FUNCTION pgml.predict_label(project_name pg_catalog.text, "row" pg_catalog.anyelement) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.text, pg_catalog.anyelement)
    IS 'predicted class as text, by the deployed model of the project, for a row, whose columns are found by name';

CREATE FUNCTION pgml.predict_label(project_name pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any") RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'predicted class as text, by the deployed model of the project, for features given one by one';

CREATE FUNCTION pgml.predict_label(model_id pg_catalog.int8, features pg_catalog.float4[]) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.int8, pg_catalog.float4[])
    IS 'predicted class as text, by the model, for an array of features';

CREATE FUNCTION pgml.predict_label(model_id pg_catalog.int8, "row" pg_catalog.anyelement) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.int8, pg_catalog.anyelement)
    IS 'predicted class as text, by the model, for a row, whose columns are found by name';

CREATE FUNCTION pgml.predict_label(model_id pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any") RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_predict_label' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.predict_label(pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'predicted class as text, by the model, for features given one by one';

CREATE FUNCTION pgml.predict_batch(project_name pg_catalog.text, features pg_catalog.float4[]) RETURNS SETOF pg_catalog.float4
    AS 'MODULE_PATHNAME', 'pgml_predict_batch_rows' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1000 ROWS 100;
COMMENT ON FUNCTION pgml.predict_batch(pg_catalog.text, pg_catalog.float4[])
    IS 'predictions, in order, for many rows: a two-dimensional array with one row of features each, or all rows one after another';

CREATE FUNCTION pgml.predict_batch(model_id pg_catalog.int8, features pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_batch_array' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION pgml.predict_batch(pg_catalog.int8, pg_catalog.float4[])
    IS 'predictions, in order, for many rows: a two-dimensional array with one row of features each, or all rows one after another';

CREATE FUNCTION pgml.predict_agg_row(internal, project_name pg_catalog.text, VARIADIC pg_catalog."any") RETURNS internal
    AS 'MODULE_PATHNAME', 'pgml_predict_agg_row' LANGUAGE C STABLE PARALLEL SAFE;

CREATE FUNCTION pgml.predict_agg_final(internal) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_predict_agg_final' LANGUAGE C STABLE PARALLEL SAFE;

CREATE AGGREGATE pgml.predict_agg(project_name pg_catalog.text, VARIADIC pg_catalog."any") (
    SFUNC = pgml.predict_agg_row, STYPE = internal, SSPACE = 8192, FINALFUNC = pgml.predict_agg_final,
    PARALLEL = SAFE);
COMMENT ON AGGREGATE pgml.predict_agg(pg_catalog.text, VARIADIC pg_catalog."any")
    IS 'predictions of the deployed model of the project for the rows of the group, in input order; much faster than predicting row by row';

CREATE FUNCTION pgml.predict_agg_row(internal, model_id pg_catalog.int8, VARIADIC pg_catalog."any") RETURNS internal
    AS 'MODULE_PATHNAME', 'pgml_predict_agg_row' LANGUAGE C STABLE PARALLEL SAFE;

CREATE AGGREGATE pgml.predict_agg(model_id pg_catalog.int8, VARIADIC pg_catalog."any") (
    SFUNC = pgml.predict_agg_row, STYPE = internal, SSPACE = 8192, FINALFUNC = pgml.predict_agg_final,
    PARALLEL = SAFE);
COMMENT ON AGGREGATE pgml.predict_agg(pg_catalog.int8, VARIADIC pg_catalog."any")
    IS 'predictions of the model for the rows of the group, in input order; much faster than predicting row by row';

--
-- Explanations. COST 10000: a hundred trees of depth 6 take more than a hundred times what a prediction takes.
--

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.float4[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.float4[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.float8[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.float8[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.int2[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.int2[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.int4[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.int4[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.int8[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.int8[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.bool[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.bool[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, features pg_catalog.numeric[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.numeric[])
    IS 'what each feature contributes to the prediction of the deployed model of the project, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, "row" pg_catalog.anyelement)
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog.anyelement)
    IS 'what each feature contributes to the prediction of the deployed model of the project, for a row, whose columns are found by name: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(project_name pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any")
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C STABLE PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.text, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'what each feature contributes to the prediction of the deployed model of the project, for features given one by one: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.float4[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.float4[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.float8[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.float8[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.int2[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.int2[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.int4[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.int4[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.int8[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.int8[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.bool[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.bool[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, features pg_catalog.numeric[])
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.numeric[])
    IS 'what each feature contributes to the prediction of the model, for an array of features: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, "row" pg_catalog.anyelement)
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog.anyelement)
    IS 'what each feature contributes to the prediction of the model, for a row, whose columns are found by name: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain(model_id pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any")
    RETURNS TABLE (feature pg_catalog.text, value pg_catalog.text, contribution pg_catalog.float4, class pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_explain' LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10000 ROWS 20;
COMMENT ON FUNCTION pgml.explain(pg_catalog.int8, pg_catalog."any", VARIADIC pg_catalog."any")
    IS 'what each feature contributes to the prediction of the model, for features given one by one: exact SHAP values, which add up, with the bias in the last row, to the margin';

CREATE FUNCTION pgml.explain_batch(project_name pg_catalog.text, features pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_explain_batch' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION pgml.explain_batch(pg_catalog.text, pg_catalog.float4[])
    IS 'contributions of each feature, and the bias, to the predictions of the deployed model of the project for many rows: an array of two dimensions, rows and contributions, or of three for a model of several classes, rows, classes and contributions';

CREATE FUNCTION pgml.explain_batch(model_id pg_catalog.int8, features pg_catalog.float4[]) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_explain_batch' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100000;
COMMENT ON FUNCTION pgml.explain_batch(pg_catalog.int8, pg_catalog.float4[])
    IS 'contributions of each feature, and the bias, to the predictions of the model for many rows: an array of two dimensions, rows and contributions, or of three for a model of several classes, rows, classes and contributions';

--
-- Permissions: every role may see the registry, and so predict. Who may write to it may train and deploy;
-- relations are always read with the rights of who calls. The owner of a trusted installation is not the owner of the
-- tables, but may do, and grant, the same.
--

GRANT USAGE ON SCHEMA pgml TO PUBLIC;
GRANT SELECT ON pgml.projects, pgml.snapshots, pgml.models, pgml.deployments, pgml.files TO PUBLIC;
GRANT SELECT ON pgml.overview, pgml.trained_models, pgml.deployed_models TO PUBLIC;
GRANT ALL ON pgml.projects, pgml.snapshots, pgml.models, pgml.deployments, pgml.files
    TO @extowner@ WITH GRANT OPTION;
GRANT ALL ON SEQUENCE pgml.projects_id_seq, pgml.snapshots_id_seq, pgml.models_id_seq, pgml.deployments_id_seq,
    pgml.files_id_seq TO @extowner@ WITH GRANT OPTION;
