-- From pgml 3.5.0 to 3.6.0.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

-- What is dropped below and made anew with more arguments keeps the rights that were given and taken: see the end.
CREATE TEMPORARY TABLE pgml_rights_before AS
SELECT p.oid, p.proname, p.proargtypes::pg_catalog.oid[] AS types, p.proacl
FROM pg_catalog.pg_proc p
WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pgml'::pg_catalog.regnamespace AND p.proacl IS NOT NULL;

--
-- Forecasts
--

ALTER TYPE pgml.task ADD VALUE 'forecast';
ALTER TYPE pgml.algorithm ADD VALUE 'ets';
ALTER TYPE pgml.algorithm ADD VALUE 'arima';
ALTER TYPE pgml.algorithm ADD VALUE 'theta';
ALTER TYPE pgml.algorithm ADD VALUE 'mstl';
ALTER TYPE pgml.algorithm ADD VALUE 'seasonal_naive';
ALTER TYPE pgml.algorithm ADD VALUE 'auto';

DROP FUNCTION pgml.train(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool);
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
    refit pg_catalog.bool DEFAULT NULL,
    time_column pg_catalog.text DEFAULT NULL,
    group_by pg_catalog.text DEFAULT NULL,
    horizon pg_catalog.int4 DEFAULT NULL,
    frequency pg_catalog.interval DEFAULT NULL,
    time_budget pg_catalog.interval DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool)
    AS 'MODULE_PATHNAME', 'pgml_train' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.interval, pg_catalog.interval)
    IS 'train a model from a table, a view or a query in parentheses, and deploy it if it is the best of its project';

DROP FUNCTION pgml.train_async(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool);
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
    refit pg_catalog.bool DEFAULT NULL,
    time_column pg_catalog.text DEFAULT NULL,
    group_by pg_catalog.text DEFAULT NULL,
    horizon pg_catalog.int4 DEFAULT NULL,
    frequency pg_catalog.interval DEFAULT NULL,
    time_budget pg_catalog.interval DEFAULT NULL
) RETURNS pg_catalog.int8
    AS 'MODULE_PATHNAME', 'pgml_train_async' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train_async(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb, pg_catalog.text, pg_catalog.text,
    pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.int4, pg_catalog.interval, pg_catalog.interval)
    IS 'as pgml.train, in a background worker once the transaction has committed; gives the id of the training at once';

CREATE FUNCTION pgml.forecast(
    project_name pg_catalog.text,
    horizon pg_catalog.int4 DEFAULT NULL,
    groups pg_catalog.jsonb DEFAULT NULL,
    coverage pg_catalog.float8 DEFAULT 0.9
) RETURNS TABLE (series pg_catalog.jsonb, "time" pg_catalog.timestamptz, mean pg_catalog.float8,
    lower pg_catalog.float8, upper pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_forecast' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.forecast(pg_catalog.text, pg_catalog.int4, pg_catalog.jsonb, pg_catalog.float8)
    IS 'how the series of a project go on, by its deployed model: for each series so many steps of time, with the mean and an interval that holds this share of values';

CREATE FUNCTION pgml.forecast(
    model_id pg_catalog.int8,
    horizon pg_catalog.int4 DEFAULT NULL,
    groups pg_catalog.jsonb DEFAULT NULL,
    coverage pg_catalog.float8 DEFAULT 0.9
) RETURNS TABLE (series pg_catalog.jsonb, "time" pg_catalog.timestamptz, mean pg_catalog.float8,
    lower pg_catalog.float8, upper pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_forecast' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.forecast(pg_catalog.int8, pg_catalog.int4, pg_catalog.jsonb, pg_catalog.float8)
    IS 'as pgml.forecast of a project, by this model';

CREATE FUNCTION pgml.backtest(
    project_name pg_catalog.text,
    cutoffs pg_catalog.int4 DEFAULT 3,
    horizon pg_catalog.int4 DEFAULT NULL
) RETURNS TABLE (series pg_catalog.jsonb, cutoff pg_catalog.timestamptz, steps pg_catalog.int4, mase pg_catalog.float8,
    smape pg_catalog.float8, coverage pg_catalog.float8, crps pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_backtest' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.backtest(pg_catalog.text, pg_catalog.int4, pg_catalog.int4)
    IS 'how good the forecasts of a project would have been at several times of the past: each series is learnt up to a cutoff, as the deployed model was, and its next steps are forecast';

--
-- Automatic choice of an algorithm
--

CREATE FUNCTION pgml.leaderboard(project_name pg_catalog.text)
    RETURNS TABLE (rank pg_catalog.int4, algorithm pg_catalog.text, hyperparams pg_catalog.jsonb, metric pg_catalog.text,
        score pg_catalog.float8, deviation pg_catalog.float8, folds pg_catalog.int4, fit_time pg_catalog.float8)
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
        SELECT (found.results OPERATOR(pg_catalog.->) 'rank_test_score' OPERATOR(pg_catalog.->) n.i)::pg_catalog.int4,
            found.results OPERATOR(pg_catalog.->) 'params' OPERATOR(pg_catalog.->) n.i OPERATOR(pg_catalog.->>) 'algorithm',
            (found.results OPERATOR(pg_catalog.->) 'params' OPERATOR(pg_catalog.->) n.i) OPERATOR(pg_catalog.-) 'algorithm'::pg_catalog.text,
            found.results OPERATOR(pg_catalog.->>) 'metric',
            (found.results OPERATOR(pg_catalog.->) 'mean_test_score' OPERATOR(pg_catalog.->>) n.i)::pg_catalog.float8,
            (found.results OPERATOR(pg_catalog.->) 'std_test_score' OPERATOR(pg_catalog.->>) n.i)::pg_catalog.float8,
            (found.results OPERATOR(pg_catalog.->) 'folds' OPERATOR(pg_catalog.->) n.i)::pg_catalog.int4,
            (found.results OPERATOR(pg_catalog.->) 'mean_fit_time' OPERATOR(pg_catalog.->>) n.i)::pg_catalog.float8
        FROM (
            SELECT m.metrics OPERATOR(pg_catalog.->) 'search_results' AS results
            FROM pgml.models m INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) m.project_id
            WHERE p.name OPERATOR(pg_catalog.=) project_name
                AND m.metrics OPERATOR(pg_catalog.->) 'search_results' OPERATOR(pg_catalog.->) 'params'
                    OPERATOR(pg_catalog.->) 0 OPERATOR(pg_catalog.?) 'algorithm'
            ORDER BY m.id DESC LIMIT 1
        ) found, LATERAL pg_catalog.generate_series(0,
            pg_catalog.jsonb_array_length(found.results OPERATOR(pg_catalog.->) 'params') OPERATOR(pg_catalog.-) 1) AS n (i)
        ORDER BY 1, n.i
    $$;
COMMENT ON FUNCTION pgml.leaderboard(pg_catalog.text)
    IS 'the candidates of a project''s last automatic choice, the best first: the mean score over the folds that each has come to, and the seconds that a fit took';

--
-- A model for each group of rows
--

CREATE FUNCTION pgml.groups(project_name pg_catalog.text) RETURNS TABLE (groups pg_catalog.jsonb, rows pg_catalog.int8, fallback pg_catalog.bool, held_out pg_catalog.int8,
    metric pg_catalog.text, score pg_catalog.float8, fallback_score pg_catalog.float8, reason pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_groups' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.groups(pg_catalog.text)
    IS 'the groups of which a project''s deployed model has a model each: their training rows, whether the model for all other groups (the fallback) answers for them and why, and on the rows held out the metric of what answers and of the fallback';
CREATE FUNCTION pgml.groups(model_id pg_catalog.int8) RETURNS TABLE (groups pg_catalog.jsonb, rows pg_catalog.int8, fallback pg_catalog.bool, held_out pg_catalog.int8,
    metric pg_catalog.text, score pg_catalog.float8, fallback_score pg_catalog.float8, reason pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_groups' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.groups(pg_catalog.int8)
    IS 'as pgml.groups of a project, of this model';

--
-- Texts
--

CREATE FUNCTION pgml.load_transformer(
    project_name pg_catalog.text,
    path pg_catalog.text,
    deploy pg_catalog.bool DEFAULT NULL
) RETURNS TABLE (project pg_catalog.text, task pg_catalog.text, algorithm pg_catalog.text, deployed pg_catalog.bool,
    model_id pg_catalog.int8)
    AS 'MODULE_PATHNAME', 'pgml_load_transformer' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.load_transformer(pg_catalog.text, pg_catalog.text, pg_catalog.bool)
    IS 'store a text encoder of the BERT family (MiniLM, E5, BGE; XLM-RoBERTa too) as a model of the project, which is created if it does not exist, from a folder on the server as sentence-transformers or Transformers save it: model.safetensors (float32, float16 or bfloat16, of 2 GB at most), config.json and tokenizer.json, and where they are there modules.json, 1_Pooling/config.json, sentence_bert_config.json, config_sentence_transformers.json and tokenizer_config.json, which say how the vectors of the tokens become one, whether it is normalised, and how many tokens are read of a text. The project''s task is embedding, for pgml.embed, or of a cross-encoder (a classifier of one label) text_pair_classification, for pgml.rank. The model is deployed if deploy is true, or if deploy is NULL and the project has no deployment. Needs the privileges of pg_read_server_files; an existing project needs the privilege train, and deploy if the model is deployed. Errors: 58P01 where there is no such file, 22P03 for a file that is not what its name says, 0A000 for a model that is not supported';

CREATE FUNCTION pgml.embed(
    transformer pg_catalog.text,
    text pg_catalog.text,
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_embed' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 1000000;
COMMENT ON FUNCTION pgml.embed(pg_catalog.text, pg_catalog.text, pg_catalog.jsonb)
    IS 'the vector of a text by the transformer that is deployed for the project, as SentenceTransformer.encode gives it; what is longer than the model reads is cut. kwargs is a JSON object: prompt is put before the text, prompt_name names one of the model''s own, normalize_embeddings divides by the length whatever the model says, truncate_dim keeps the first dimensions; batch_size and device make no difference. Needs the privilege predict on the project. Errors: 0A000 for a project of another kind';

CREATE FUNCTION pgml.embed(
    transformer pg_catalog.text,
    inputs pg_catalog.text[],
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS SETOF pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_embed_many' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000000;
COMMENT ON FUNCTION pgml.embed(pg_catalog.text, pg_catalog.text[], pg_catalog.jsonb)
    IS 'a row with the vector of each text, in their order, each the same as alone: faster for many short texts';

CREATE FUNCTION pgml.embed(
    model_id pg_catalog.int8,
    text pg_catalog.text,
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_embed' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000000;
COMMENT ON FUNCTION pgml.embed(pg_catalog.int8, pg_catalog.text, pg_catalog.jsonb)
    IS 'as pgml.embed of a project, by this model: immutable, for generated columns and indexes';

CREATE FUNCTION pgml.embed(
    model_id pg_catalog.int8,
    inputs pg_catalog.text[],
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS SETOF pg_catalog.float4[]
    AS 'MODULE_PATHNAME', 'pgml_embed_many' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000000;
COMMENT ON FUNCTION pgml.embed(pg_catalog.int8, pg_catalog.text[], pg_catalog.jsonb)
    IS 'as pgml.embed of a project, by this model, for many texts';

CREATE FUNCTION pgml.rank(
    transformer pg_catalog.text,
    query pg_catalog.text,
    documents pg_catalog.text[],
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (corpus_id pg_catalog.int8, score pg_catalog.float8, text pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_rank' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10000000;
COMMENT ON FUNCTION pgml.rank(pg_catalog.text, pg_catalog.text, pg_catalog.text[], pg_catalog.jsonb)
    IS 'how well each text answers the query, the best first, by the cross-encoder that is deployed for the project, as CrossEncoder.rank gives it: corpus_id counts the documents from 0. kwargs is a JSON object: top_k keeps so many, return_documents has text filled; batch_size and device make no difference. Needs the privilege predict on the project. Errors: 0A000 for a project of another kind';

CREATE FUNCTION pgml.rank(
    model_id pg_catalog.int8,
    query pg_catalog.text,
    documents pg_catalog.text[],
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (corpus_id pg_catalog.int8, score pg_catalog.float8, text pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_rank' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000000;
COMMENT ON FUNCTION pgml.rank(pg_catalog.int8, pg_catalog.text, pg_catalog.text[], pg_catalog.jsonb)
    IS 'as pgml.rank of a project, by this model';

CREATE FUNCTION pgml.chunk(
    splitter pg_catalog.text,
    text pg_catalog.text,
    kwargs pg_catalog.jsonb DEFAULT '{}'
) RETURNS TABLE (chunk_index pg_catalog.int8, chunk pg_catalog.text)
    AS 'MODULE_PATHNAME', 'pgml_chunk' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000;
COMMENT ON FUNCTION pgml.chunk(pg_catalog.text, pg_catalog.text, pg_catalog.jsonb)
    IS 'a long text in chunks, numbered from 1, as LangChain''s text splitters of these names give them: recursive_character (at blank lines, else at lines, else at blanks, else anywhere) or character (at one separator, which is a blank line). kwargs is a JSON object: chunk_size (4000 characters) and chunk_overlap (200), separators or separator, keep_separator (true, false, start or end) and strip_whitespace. Errors: 22023 for another splitter';

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
