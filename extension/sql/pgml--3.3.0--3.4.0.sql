-- From pgml 3.3.0 to 3.4.0.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

--
-- Learning curves: a row for each part and metric of a model, beside the model's bytes, so that predictions do not load it
--

CREATE TABLE pgml.learning_curves (
    model_id pg_catalog.int8 NOT NULL,
    part pg_catalog.text NOT NULL,
    metric pg_catalog.text NOT NULL,
    rounds pg_catalog.int4[] NOT NULL,
    "values" pg_catalog.float8[] NOT NULL,
    PRIMARY KEY (model_id, metric, part)
);
COMMENT ON TABLE pgml.learning_curves
    IS 'metrics of models after the rounds of their trainings, on the training rows (part train) and on the held-out ones (test); pgml.learning_curve gives them as rows';
SELECT pg_catalog.pg_extension_config_dump('pgml.learning_curves', '');
GRANT SELECT ON pgml.learning_curves TO PUBLIC;
ALTER TABLE pgml.learning_curves ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON pgml.learning_curves FOR SELECT USING (pgml.model_allows(model_id, 'see'));

CREATE FUNCTION pgml.learning_curve(model_id pg_catalog.int8)
    RETURNS TABLE (round pg_catalog.int4, part pg_catalog.text, metric pg_catalog.text, value pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_learning_curve' LANGUAGE C STABLE PARALLEL RESTRICTED COST 1000 ROWS 400;
COMMENT ON FUNCTION pgml.learning_curve(pg_catalog.int8)
    IS 'how good the model was after each round of its training (a tree, a pass over the rows), on the training rows (part train) and on the held-out ones (test): at most 200 points a part and metric, evenly spread, the first and the last round among them. For xgboost the metrics of eval_metric, on up to 10,000 of the training rows and 20,000 of the held-out ones; for the other algorithms rmse, or logloss and error (mlogloss and merror of more than two classes), on up to 2,000 rows of each part. The curve is that of the fit on the training rows, not of a refit on all rows. No rows for algorithms without rounds, for imported models, and for models of older versions. Needs the privilege see on the project';

--
-- What a model is about
--

ALTER TABLE pgml.models
    ADD COLUMN description pg_catalog.text,
    ADD COLUMN tags pg_catalog.text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN pgml.models.description IS 'what people say of the model, by pgml.describe; NULL if nothing';
COMMENT ON COLUMN pgml.models.tags IS 'words to find the model by, by pgml.describe';

CREATE FUNCTION pgml.describe(
    model_id pg_catalog.int8,
    description pg_catalog.text DEFAULT NULL,
    tags pg_catalog.text[] DEFAULT NULL
) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_describe' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.describe(pg_catalog.int8, pg_catalog.text, pg_catalog.text[])
    IS 'give a model a description (at most 10,000 characters) and tags (at most 32, of at most 64 characters each), for people: pgml.trained_models, pgml.deployed_models and pgml.card show them. NULL keeps what is there; an empty text, or an empty array, takes it away. Needs the privilege deploy on the project. Errors: 22023 for a tag that is empty or given twice, 54000 for what is too long';

CREATE FUNCTION pgml.card(model_id pg_catalog.int8) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_card' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 10000;
COMMENT ON FUNCTION pgml.card(pg_catalog.int8)
    IS 'the model card as Markdown: what the model is for, how it was trained, its metrics, hyperparameters, columns, the ten most important features, and what is not known of it. Needs the privilege see on the project; the relation that it was trained on is shown to roles with export, the importance to roles with explain';

CREATE OR REPLACE VIEW pgml.trained_models WITH (security_barrier) AS
SELECT
    m.id,
    p.name,
    p.task,
    m.algorithm,
    m.runtime,
    m.created_at,
    s.test_sampling,
    s.test_size,
    d.model_id IS NOT NULL AS deployed,
    m.description,
    m.tags
FROM pgml.projects p
INNER JOIN pgml.models m ON p.id OPERATOR(pg_catalog.=) m.project_id
LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
LEFT JOIN (
    SELECT DISTINCT ON (project_id) project_id, model_id
    FROM pgml.deployments
    ORDER BY project_id, id DESC
) d ON d.model_id OPERATOR(pg_catalog.=) m.id
WHERE pgml.project_allows(p.id, 'see')
ORDER BY m.created_at DESC
OFFSET 0;

CREATE OR REPLACE VIEW pgml.deployed_models WITH (security_barrier) AS
SELECT m.id, p.name, p.task, m.algorithm, m.runtime, d.created_at AS deployed_at, m.description, m.tags
FROM (
    SELECT DISTINCT ON (project_id) project_id, model_id, created_at
    FROM pgml.deployments
    ORDER BY project_id, id DESC
) d
INNER JOIN pgml.models m ON m.id OPERATOR(pg_catalog.=) d.model_id
INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) d.project_id
WHERE pgml.project_allows(p.id, 'see')
ORDER BY p.name
OFFSET 0;

--
-- Watching: what is compared with a project's deployed model, and what came of it
--

CREATE TABLE pgml.watches (
    project_id pg_catalog.int8 PRIMARY KEY,
    relation_name pg_catalog.text NOT NULL,
    time_column pg_catalog.text,
    period interval,
    thresholds pg_catalog.jsonb NOT NULL,
    owner pg_catalog.regrole NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
COMMENT ON TABLE pgml.watches
    IS 'what pgml.check compares with the deployed model of a project, by pgml.watch: a relation, or a query in parentheses, given by owner; the rows of the last period by their time_column, or all rows; and the thresholds in force';

CREATE TABLE pgml.watch_checks (
    id pg_catalog.int8 PRIMARY KEY,
    project_id pg_catalog.int8 NOT NULL,
    model_id pg_catalog.int8 NOT NULL,
    checked_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    results pg_catalog.jsonb NOT NULL
);
CREATE SEQUENCE pgml.watch_checks_id_seq OWNED BY pgml.watch_checks.id;
ALTER TABLE pgml.watch_checks
    ALTER COLUMN id SET DEFAULT pg_catalog.nextval('pgml.watch_checks_id_seq'::pg_catalog.regclass);
CREATE INDEX watch_checks_project_id_idx ON pgml.watch_checks (project_id, id);
COMMENT ON TABLE pgml.watch_checks
    IS 'what pgml.check found, the latest 1,000 checks of a project; the view pgml.checks shows it';

SELECT pg_catalog.pg_extension_config_dump('pgml.watches', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.watch_checks', '');
SELECT pg_catalog.pg_extension_config_dump('pgml.watch_checks_id_seq', '');
GRANT SELECT ON pgml.watches, pgml.watch_checks TO PUBLIC;
ALTER TABLE pgml.watches ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgml.watch_checks ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON pgml.watches FOR SELECT USING (pgml.project_allows(project_id, 'see'));
CREATE POLICY read ON pgml.watch_checks FOR SELECT USING (pgml.project_allows(project_id, 'see'));

CREATE VIEW pgml.checks WITH (security_barrier) AS
SELECT c.id, p.name AS project, c.model_id, c.checked_at, r.what, r.name, r.value, r.threshold, r.crossed, r.detail
FROM pgml.watch_checks c
INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) c.project_id
CROSS JOIN LATERAL pg_catalog.jsonb_to_recordset(c.results) AS r (what pg_catalog.text, name pg_catalog.text,
    value pg_catalog.float8, threshold pg_catalog.float8, crossed pg_catalog.bool, detail pg_catalog.text)
WHERE pgml.project_allows(c.project_id, 'see')
ORDER BY c.id DESC
OFFSET 0;
COMMENT ON VIEW pgml.checks
    IS 'what pgml.check found, newest first: the latest 1,000 checks of each project, a row for each result, with the columns of pgml.check';
GRANT SELECT ON pgml.checks TO PUBLIC;

CREATE FUNCTION pgml.watch(
    project_name pg_catalog.text,
    relation_name pg_catalog.text,
    time_column pg_catalog.text DEFAULT NULL,
    period interval DEFAULT '1 day',
    thresholds pg_catalog.jsonb DEFAULT '{}'
) RETURNS pg_catalog.jsonb
    AS 'MODULE_PATHNAME', 'pgml_watch' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.watch(pg_catalog.text, pg_catalog.text, pg_catalog.text, interval, pg_catalog.jsonb)
    IS 'say what pgml.check compares with the deployed model of the project, in place of what was said before: the rows of a relation, or of a query in parentheses; with time_column (a date or timestamp) those of the last period, without it all of them. Gives the thresholds in force. thresholds: drift (psi above it, 0.25) with p_value (and below it, 0.001); missing (share of missing values of a column, above that of the training by more than it, 0.1); unseen (share of rows with a category that training has not seen, 0.05); decline (the project''s metric, where rows have labels, worse than on the held-out rows of the training by more than this part of it, 0.1); metrics (bounds by name, {"f1": 0.8}); min_rows (1) and max_rows (null); enough_rows (missing, unseen, decline and metrics cross nothing with fewer rows, 30). null switches one off. Needs the privilege deploy on the project. Errors: 42704 for a project without a deployed model, 42703 for a column that is not there, 22023 for thresholds that there are not';

CREATE FUNCTION pgml.unwatch(project_name pg_catalog.text) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_unwatch' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.unwatch(pg_catalog.text)
    IS 'end what pgml.watch began, and forget what was found; false if the project was not watched. Needs the privilege deploy on the project';

CREATE FUNCTION pgml.check(project_name pg_catalog.text)
    RETURNS TABLE (what pg_catalog.text, name pg_catalog.text, value pg_catalog.float8, threshold pg_catalog.float8,
        crossed pg_catalog.bool, detail pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_check' LANGUAGE C VOLATILE PARALLEL UNSAFE COST 1000000 ROWS 50;
COMMENT ON FUNCTION pgml.check(pg_catalog.text)
    IS 'compare the rows that pgml.watch named with the deployed model of the project and its training, keep what was found (pgml.checks), and NOTIFY channel pgml_watch of each threshold that is crossed and was not at the check before. A row for each result: what is rows, metric, drift, missing or unseen; name is the metric or the column; crossed says whether value is beyond threshold and, where it could be chance, is not. The rows are read with the rights of the caller. Needs the privilege deploy on the project. Errors: 42704 for a project that is not watched, 42501 for a query, a view or a foreign table that another role named';

DO LANGUAGE plpgsql $$
DECLARE
    maker pg_catalog.regrole;
BEGIN
    -- For its dumps, with --enable-row-security.
    SELECT e.extowner INTO maker FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pgml';
    EXECUTE pg_catalog.format('GRANT SELECT ON SEQUENCE pgml.watch_checks_id_seq TO %s', maker);
END
$$;

-- What ANALYZE finds would be shown to roles that the row level security hides the rows from.
DO LANGUAGE plpgsql $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT a.attrelid::pg_catalog.regclass AS relation, a.attname AS name
        FROM pg_catalog.pg_attribute a
        WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
        AND a.attrelid OPERATOR(pg_catalog.=) ANY (ARRAY['pgml.learning_curves', 'pgml.watches',
            'pgml.watch_checks', 'pgml.models']::pg_catalog.regclass[]::pg_catalog.oid[])
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', kept.relation, kept.name);
    END LOOP;
END
$$;
