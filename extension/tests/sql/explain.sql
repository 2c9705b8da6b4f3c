-- pgml.explain and pgml.explain_batch: what each feature contributes, named, adding up to the margin.
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

CREATE TABLE points AS
SELECT nullif(i % 10, 7) AS x, i % 3 AS y, i % 7 AS noise, (i % 10) * 10 + i % 3 AS z FROM generate_series(1, 300) i;
CREATE TABLE mixed AS
SELECT (ARRAY['red', 'green', 'blue'])[1 + i % 3] AS colour, ARRAY[i % 2, i % 5]::int[] AS pair,
    (i % 2 = 0) AS even, (ARRAY['low', 'middle', 'high'])[1 + ((i % 3) + (i % 5)) / 3] AS level
FROM generate_series(1, 300) i;
SELECT pgml.train('two', 'regression', '(SELECT x, y, z FROM points)', 'z', 'xgboost', '{"n_estimators": 40}');
SELECT pgml.train('level', 'classification', '(SELECT colour, pair, even, level FROM mixed)', 'level', 'xgboost',
    '{"n_estimators": 20}');
SELECT pgml.train('high', 'classification', '(SELECT colour, pair, level = ''high'' AS high FROM mixed)', 'high',
    'xgboost', '{"n_estimators": 20}');
SELECT pgml.train('line', 'regression', '(SELECT x, y, z FROM points WHERE x IS NOT NULL)', 'z', 'xgboost',
    '{"booster": "gblinear", "n_estimators": 20}');
SELECT pgml.train('dart', 'regression', '(SELECT x, y, noise, z FROM points)', 'z', 'xgboost',
    '{"booster": "dart", "rate_drop": 0.3, "n_estimators": 20}');

-- A row a feature, in the order of the features, and the bias: the mean prediction. A missing value is NULL.
SELECT feature, value, contribution > 0 AS more, class FROM pgml.explain('two', ARRAY[9, 0]::real[]);
SELECT feature, value, contribution IS NULL AS nothing, class FROM pgml.explain('two', ARRAY[NULL, 2]::real[]);
SELECT abs(contribution - (SELECT avg(pgml.predict('two', x, y)) FROM points)) < 5 AS mean
FROM pgml.explain('two', ARRAY[9, 0]::real[]) WHERE feature = 'bias';
SELECT feature, round(contribution::numeric, 0) AS contribution FROM pgml.explain('line', ARRAY[9, 0]::real[])
WHERE feature <> 'bias' ORDER BY abs(contribution) DESC LIMIT 1;

-- They add up to the prediction of a regression.
SELECT project, count(*), max(abs(predicted - explained)) < 1e-3 AS same
FROM (
    SELECT project, pgml.predict(project, x, y) AS predicted,
        (SELECT sum(contribution) FROM pgml.explain(project, x, y)) AS explained
    FROM points, (VALUES ('two'), ('line')) projects (project) WHERE x IS NOT NULL
) sums GROUP BY project ORDER BY project;
SELECT max(abs(pgml.predict('dart', p) - (SELECT sum(contribution) FROM pgml.explain('dart', p)))) < 1e-3 AS same
FROM points p;

-- Of two classes: to the log-odds of the second, which is named.
SELECT feature, value, contribution > 0 AS high, class FROM pgml.explain('high', 'blue'::text, ARRAY[0, 4]) ORDER BY feature;
SELECT max(abs(odds - explained)) < 1e-3 AS same
FROM (
    SELECT ln(p[2] / p[1]) AS odds, (SELECT sum(contribution) FROM pgml.explain('high', m)) AS explained
    FROM mixed m, pgml.predict_proba('high', m) p
) sums;

-- Of more classes: class by class, to margins that make the probabilities. Elements of arrays have a number.
SELECT class, feature, value FROM pgml.explain('level', ROW('green', ARRAY[1, 3], false));
SELECT bool_and(abs(exp(margin) / total - probability) < 1e-5) AS same, count(DISTINCT class) AS classes
FROM (
    SELECT e.class, sum(e.contribution)::float8 AS margin, p.probability,
        sum(exp(sum(e.contribution)::float8)) OVER (PARTITION BY m.n) AS total
    FROM (SELECT *, row_number() OVER () AS n FROM mixed LIMIT 50) m,
        pgml.explain('level', ROW(m.colour, m.pair, m.even)) e,
        unnest(pgml.predict_proba('level', ROW(m.colour, m.pair, m.even)), ARRAY['high', 'low', 'middle'])
            p (probability, class)
    WHERE e.class = p.class GROUP BY m.n, e.class, p.probability
) margins;
-- A category that training did not meet has no name here, and NULL is missing.
SELECT feature, value FROM pgml.explain('high', 'mauve'::text, ARRAY[0, NULL]);
SELECT feature, value FROM pgml.explain('high', NULL::text, ARRAY['Infinity', 0.25]::real[]);

-- Every way to give features, by name and by id: one answer.
SELECT count(*), count(DISTINCT answer) FROM (VALUES
    ((SELECT array_agg(e) FROM pgml.explain('two', ARRAY[4, 2]::real[]) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain('two', ARRAY[4, 2]) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain('two', ARRAY[4.0, 2.0]) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain('two', 4, 2) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain('two', 4::numeric, 2.0::real) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain('two', ROW(4, 2)) e)::text),
    ((SELECT array_agg(e) FROM (SELECT 2 AS y, 4 AS x) r, pgml.explain('two', r) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain('two', VARIADIC ARRAY[4, 2]) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain(1, ARRAY[4, 2]::real[]) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain(1, 4, 2) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain(1, ROW(4, 2)) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain(project_name => 'two', features => ARRAY[4, 2]) e)::text),
    ((SELECT array_agg(e) FROM pgml.explain(model_id => 1, features => ARRAY[4, 2]) e)::text),
    ((SELECT array_agg(e) FROM (SELECT (pgml.explain('two', 4, 2)).*) e)::text)
) answers (answer);
SELECT count(*) AS nothing FROM pgml.explain('two', NULL::real[]);
SELECT count(*) AS nothing FROM pgml.explain(NULL::text, 4, 2);
SELECT count(*) AS nothing FROM pgml.explain('two', NULL::points);

-- Row by row over a table.
SELECT feature, count(*), count(value) AS "values", round(avg(abs(contribution))::numeric, 1) > 0 AS matters
FROM points p, pgml.explain('dart', p) GROUP BY feature ORDER BY feature;

-- Batches: an array of rows, of rows and classes; the same numbers.
SELECT array_dims(pgml.explain_batch('two', ARRAY[[1, 2], [3, 0], [NULL, 1]])) AS two,
    array_dims(pgml.explain_batch(1, ARRAY[1, 2, 3, 0])) AS flat,
    array_dims(pgml.explain_batch('level', ARRAY[[0, 1, 2, 0], [2, 1, 3, 1]])) AS classes,
    pgml.explain_batch('two', '{}') AS empty, pgml.explain_batch('two', NULL) IS NULL AS "null";
SELECT bool_and(batch[n:n][1:3] = ARRAY[one]) AS same, count(*)
FROM (
    SELECT n, (SELECT batch FROM pgml.explain_batch('two', (SELECT array_agg(ARRAY[x, y]) FROM points)) batch) AS batch,
        ARRAY(SELECT contribution FROM pgml.explain('two', x, y)) AS one
    FROM (SELECT x, y, row_number() OVER () AS n FROM points) numbered WHERE n % 30 = 0
) both_ways (n, batch, one);
SELECT (pgml.explain_batch('level', ARRAY[[0, 1, 2, 0], [2, 1, 3, 1]]))[2:2][2:2][1:5]
    = ARRAY[[ARRAY(SELECT contribution FROM pgml.explain('level', ARRAY[2, 1, 3, 1]) WHERE class = 'low')]] AS same;

-- In parallel, in generated columns, prepared, and under another model as soon as it is deployed.
CREATE TABLE explained (x real, y real, why real[] GENERATED ALWAYS AS (pgml.explain_batch(1, ARRAY[x, y])) STORED);
INSERT INTO explained VALUES (4, 2) RETURNING why = pgml.explain_batch('two', ARRAY[4, 2]) AS same;
CREATE TABLE many AS SELECT i % 10 AS x, i % 3 AS y FROM generate_series(1, 20000) i;
ANALYZE many;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END $$;
SELECT bool_or(line LIKE '%Parallel Seq Scan on many%') AS parallel
FROM plan('SELECT count(*) FROM many WHERE (pgml.explain_batch(''two'', ARRAY[x, y]))[1][1] > 0') line;
SELECT count(*) = (SELECT 2000 * count(*) FROM generate_series(0, 9) x WHERE
    (pgml.explain_batch('two', ARRAY[x, 0]))[1][1] > 0) AS same
FROM many WHERE (pgml.explain_batch('two', ARRAY[x, 0]))[1][1] > 0;
RESET max_parallel_workers_per_gather;
PREPARE why AS SELECT feature, value FROM pgml.explain('two', VARIADIC $1::real[]) WHERE feature <> 'bias' ORDER BY 1;
EXECUTE why ('{1, 2}');
SELECT pgml.train('two', 'regression', '(SELECT noise, z FROM points)', 'z', 'xgboost', '{"n_estimators": 2}',
    automatic_deploy => false);
SELECT pgml.deploy(6);
EXECUTE why ('{1}');
SELECT feature, value FROM pgml.explain(1, 1, 2);

-- Nobody needs a privilege on the tables.
CREATE ROLE explaining;
REVOKE ALL ON ALL TABLES IN SCHEMA pgml FROM PUBLIC;
SELECT pgml.grant('high', 'explaining', 'explain'), pgml.grant('level', 'public', 'explain');
SET ROLE explaining;
SELECT count(*) FROM pgml.explain(3, 'red'::text, ARRAY[0, 1]);
SELECT array_ndims(pgml.explain_batch('level', ARRAY[2, 1, 3, 1]));
RESET ROLE;
DROP ROLE explaining;

-- What is wrong with a call.
SELECT * FROM attempt($$SELECT * FROM pgml.explain('tow', ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT * FROM pgml.explain(4711, ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT * FROM pgml.explain('dart', ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT * FROM pgml.explain('level', 1, 2, 3)$$);
SELECT * FROM attempt($$SELECT pgml.explain_batch('dart', ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT pgml.explain_batch('dart', ARRAY[[1, 2], [3, 4], [5, 6]])$$);
SELECT * FROM attempt($$SELECT pgml.explain_batch('tow', ARRAY[1, 2])$$);
-- A model without the covers of its nodes predicts, and cannot be explained.
UPDATE pgml.files SET data = decode(replace(encode(data, 'hex'), encode('sum_hessian', 'hex'),
    encode('sum_nothing', 'hex')), 'hex') WHERE model_id = 1;
SELECT pgml.predict(1, 4, 2) IS NOT NULL AS answered;
SELECT * FROM attempt($$SELECT * FROM pgml.explain(1, 4, 2)$$);
SELECT * FROM attempt($$SELECT pgml.explain_batch(1, ARRAY[4, 2])$$);
