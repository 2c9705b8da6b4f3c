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
    IS 'how good the model was after each round of its training (a tree, a pass over the rows), on the training rows (part train) and on the held-out ones (test): at most 200 points a part and metric, evenly spread, the first and the last round among them. For xgboost the metrics of eval_metric, on the training rows and on up to 20,000 of the held-out ones; for the other algorithms rmse, or logloss and error (mlogloss and merror of more than two classes), on up to 4,000 rows of each part. The curve is that of the fit on the training rows, not of a refit on all rows. No rows for algorithms without rounds, for imported models, and for models of older versions. Needs the privilege see on the project';

-- What ANALYZE finds would be shown to roles that the row level security hides the rows from.
DO LANGUAGE plpgsql $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT a.attrelid::pg_catalog.regclass AS relation, a.attname AS name
        FROM pg_catalog.pg_attribute a
        WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
        AND a.attrelid OPERATOR(pg_catalog.=) ANY (ARRAY['pgml.learning_curves']::pg_catalog.regclass[]::pg_catalog.oid[])
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', kept.relation, kept.name);
    END LOOP;
END
$$;
