-- pgml.predict and its like: every way to give features, by name and by id.
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

-- Two numbers, of which x is missing at times; one number; and one with text and an array.
CREATE TABLE points AS
SELECT i AS id, nullif(i % 10, 7) AS x, i % 3 AS y, (i % 10) * 10 + i % 3 AS z FROM generate_series(1, 300) i;
CREATE TABLE mixed AS
SELECT i AS id, (ARRAY['red', 'green', 'blue'])[1 + i % 3] AS colour, ARRAY[i % 2, i % 5]::int[] AS pair,
    (i % 2 = 0) AS even, (ARRAY['low', 'middle', 'high'])[1 + ((i % 3) + (i % 5)) / 3] AS level
FROM generate_series(1, 300) i;
SELECT pgml.train('two', 'regression', '(SELECT x, y, z FROM points)', 'z', 'xgboost', '{"n_estimators": 40}');
SELECT pgml.train('one', 'regression', '(SELECT y, z FROM points)', 'z', 'xgboost', '{"n_estimators": 2}');
SELECT pgml.train('level', 'classification', '(SELECT colour, pair, even, level FROM mixed)', 'level', 'xgboost',
    '{"n_estimators": 20}');
SELECT pgml.train('even', 'classification', '(SELECT id % 2 AS rest, even FROM mixed)', 'even', 'xgboost',
    '{"n_estimators": 20}');
SELECT pgml.train('tens', 'classification', '(SELECT x, (x * 10)::int AS tens FROM points WHERE x % 3 = 0)', 'tens',
    'xgboost', '{"n_estimators": 20}');

-- Arrays of every type, by name and by id: one answer.
SELECT pg_typeof(pgml.predict('two', ARRAY[4, 2]::real[]));
SELECT round(pgml.predict('two', ARRAY[4, 2]::real[])::numeric, 1) AS answer;
SELECT count(*), count(DISTINCT answer) FROM (VALUES
    (pgml.predict('two', ARRAY[4, 2]::real[])), (pgml.predict('two', ARRAY[4, 2]::float8[])),
    (pgml.predict('two', ARRAY[4, 2]::smallint[])), (pgml.predict('two', ARRAY[4, 2]::int[])),
    (pgml.predict('two', ARRAY[4, 2]::bigint[])), (pgml.predict('two', ARRAY[4, 2]::numeric[])),
    (pgml.predict('two', ARRAY[4.0, 2.0])), (pgml.predict('two', ARRAY[[4], [2]])),
    (pgml.predict(1, ARRAY[4, 2]::real[])), (pgml.predict(1, ARRAY[4, 2]::float8[])),
    (pgml.predict(1, ARRAY[4, 2]::smallint[])), (pgml.predict(1, ARRAY[4, 2]::int[])),
    (pgml.predict(1, ARRAY[4, 2]::bigint[])), (pgml.predict(1, ARRAY[4, 2]::numeric[])),
    (pgml.predict('two'::varchar, ARRAY[4, 2])), (pgml.predict(1::smallint, ARRAY[4, 2])),
    (pgml.predict(project_name => 'two', features => ARRAY[4, 2])),
    (pgml.predict(model_id => 1, features => ARRAY[4, 2]))
) answers (answer);
SELECT pgml.predict('two', ARRAY[true, false]) = pgml.predict('two', ARRAY[1, 0]) AS booleans,
    pgml.predict(1, ARRAY[true, false]) = pgml.predict(1, ARRAY[1, 0]) AS by_id;

-- NULL elements and NaN are missing values, infinities are values; a NULL argument gives NULL.
SELECT pgml.predict('two', ARRAY[NULL, 2]::real[]) = pgml.predict('two', ARRAY['NaN', 2]::float8[]) AS real,
    pgml.predict('two', ARRAY[NULL, 2]::int[]) = pgml.predict('two', ARRAY[NULL, 2]::numeric[]) AS others,
    pgml.predict('two', ARRAY[NULL, 2]::bool[]::int[]) IS NOT NULL AS answered;
SELECT pgml.predict('two', ARRAY['Infinity', 2]::real[]) = pgml.predict('two', ARRAY[1e30, 2]::real[]) AS plus,
    pgml.predict('two', ARRAY['-Infinity', 2]::real[]) = pgml.predict('two', ARRAY[-1e30, 2]::real[]) AS minus,
    pgml.predict('two', ARRAY['1e300', 2]::numeric[]) = pgml.predict('two', ARRAY[1e30, 2]::real[]) AS too_large;
SELECT pgml.predict('two', NULL::real[]) IS NULL AS features, pgml.predict(NULL::text, ARRAY[1, 2]) IS NULL AS project,
    pgml.predict(NULL::bigint, ARRAY[1, 2]) IS NULL AS model, pgml.predict('two', NULL::points) IS NULL AS "row",
    pgml.predict_label('level', NULL::mixed) IS NULL AS label, pgml.predict_proba('even', NULL::real[]) IS NULL AS proba;

-- Rows: columns are found by name, others and their order do not matter.
SELECT bool_and(pgml.predict('two', p) = pgml.predict('two', ARRAY[x, y])) AS same,
    bool_and(pgml.predict(1, p) = pgml.predict('two', ARRAY[x, y])) AS by_id FROM points p;
SELECT bool_and(pgml.predict('two', r) = pgml.predict('two', ARRAY[x, y])) AS same
FROM (SELECT y, 'text' AS extra, now() AS moment, x FROM points) r;
ALTER TABLE points DROP COLUMN id, ADD COLUMN later text;
SELECT bool_and(pgml.predict('two', p) = pgml.predict('two', ARRAY[x, y])) AS same FROM points p;
-- ROW() has no names: its values are taken in the model's order.
SELECT pgml.predict('two', ROW(4, 2)) = pgml.predict('two', ARRAY[4, 2]) AS same,
    pgml.predict('two', ROW(NULL::int, 2.0)) = pgml.predict('two', ARRAY[NULL, 2]) AS missing;
SELECT round(pgml.predict('two', ROW(NULL::int, NULL::int))::numeric, 0) IS NOT NULL AS all_missing;
-- Also where the model's columns have the names that PostgreSQL gives to the values of ROW(). Rows of a type have names.
CREATE TABLE named AS SELECT i AS f2, i * 10 AS f1, (i * 7) % 13 AS n, 100 * i + (i * 7) % 13 AS y FROM generate_series(1, 100) i;
SELECT pgml.train('swapped', 'regression', '(SELECT f2, f1, y FROM named)', 'y', 'linear');
SELECT pgml.train('shifted', 'regression', '(SELECT n, f1, f2, y FROM named)', 'y', 'linear');
SELECT bool_and(pgml.predict('swapped', (f2, f1)) = pgml.predict('swapped', f2, f1)) AS tuple,
    bool_and(pgml.predict('swapped', ROW(f2, f1)) = pgml.predict('swapped', f2, f1)) AS "row",
    bool_and(pgml.predict('swapped', named) = pgml.predict('swapped', f2, f1)) AS by_name,
    bool_and(pgml.predict('shifted', (n, f1, f2)) = pgml.predict('shifted', n, f1, f2)) AS shifted FROM named;
CREATE TYPE pair_by_name AS (f1 int, f2 int);
SELECT pgml.predict('swapped', ROW(20, 2)::pair_by_name) = pgml.predict('swapped', 2, 20) AS by_name;
SELECT * FROM attempt('SELECT pgml.predict(''swapped'', (1, 2, 3))');
SELECT * FROM attempt('SELECT pgml.predict(''shifted'', (1, 2))');
SELECT * FROM attempt('SELECT pgml.predict(''swapped'', r) FROM (SELECT 1 AS f1, 2 AS f2, 3 AS f1) r');

-- Scalars, of types of their own; a NULL among them is a missing value; VARIADIC takes an array.
SELECT bool_and(pgml.predict('two', x, y) = pgml.predict('two', ARRAY[x, y])) AS same,
    bool_and(pgml.predict(1, x::numeric, y::real) = pgml.predict('two', ARRAY[x, y])) AS types FROM points;
SELECT pgml.predict('two', NULL::int, 2) = pgml.predict('two', ARRAY[NULL, 2]) AS missing,
    pgml.predict('two', 4::bigint, '2') = pgml.predict('two', ARRAY[4, 2]) AS literal;
SELECT pgml.predict('two', VARIADIC ARRAY[4, 2]) = pgml.predict('two', ARRAY[4, 2]) AS by_array;
SELECT pgml.predict('two', 4, VARIADIC ARRAY[2]) = pgml.predict('two', ARRAY[4, 2]) AS rest_by_array;
SELECT pgml.predict('two', NULL, NULL) IS NOT NULL AS all_missing;
SELECT pgml.predict('one', 2) = pgml.predict('one', ARRAY[2]) AS one, pgml.predict('one', 2::smallint)
    = pgml.predict(2, 2.0) AS by_id, pgml.predict('one', NULL::int) IS NULL AS strict;

-- Domains are what they are made of.
CREATE DOMAIN small AS int CHECK (value < 100);
CREATE DOMAIN pair AS int[] CHECK (array_length(value, 1) = 2);
SELECT pgml.predict('two', 4::small, 2::small) = pgml.predict('two', ARRAY[4, 2]) AS scalars,
    pgml.predict('two', ARRAY[4, 2]::pair) = pgml.predict('two', ARRAY[4, 2]) AS domain_over_array,
    pgml.predict('one', 2::small) = pgml.predict('one', ARRAY[2]) AS one;
CREATE TYPE two AS (y small, x numeric);
CREATE DOMAIN positive_two AS two CHECK ((value).x > 0);
SELECT pgml.predict('two', ROW(2, 4)::two) = pgml.predict('two', ARRAY[4, 2]) AS composite,
    pgml.predict('two', ROW(2, 4)::positive_two) = pgml.predict('two', ARRAY[4, 2]) AS domain_over_composite;

-- Text categories and arrays: by row and by scalars. A category never seen is no error.
SELECT bool_and(pgml.predict_label('level', m) = level) AS by_row,
    bool_and(pgml.predict_label('level', colour, pair, even) = level) AS by_scalars FROM mixed m;
SELECT pgml.predict_label('level', 'red'::varchar, ARRAY[0, 0], true) AS varchar,
    pgml.predict_label('level', 'red'::char(8), ARRAY[0, 0], true) AS char,
    pgml.predict_label('level', 'red'::name, ARRAY[0, 0]::numeric[], true) AS name;
SELECT pgml.predict_label('level', 'mauve', ARRAY[0, 0], true) IN ('low', 'middle', 'high') AS unseen;

-- Classes: their value, their text, their probabilities.
SELECT DISTINCT level, pgml.predict('level', m) AS code, pgml.predict_label('level', m) AS label FROM mixed m ORDER BY 2;
SELECT DISTINCT even, pgml.predict('even', id % 2) AS code, pgml.predict_label('even', id % 2) AS label
FROM mixed ORDER BY 2;
SELECT x, pgml.predict('tens', x) AS code, pgml.predict_label('tens', x) AS label
FROM generate_series(0, 9, 3) x ORDER BY x;
SELECT pgml.predict_label('tens', ARRAY[3]::real[]) AS by_array, pgml.predict_label(5, ARRAY[3]::real[]) AS by_id,
    pgml.predict_label(5, r) AS by_row FROM (SELECT 3 AS x) r;
SELECT bool_and(abs(1 - (SELECT sum(p) FROM unnest(pgml.predict_proba('level', m)) p)) < 1e-6) AS sums_to_one,
    bool_and(array_length(pgml.predict_proba('level', m), 1) = 3) AS three,
    bool_and((pgml.predict_proba('level', m))[1 + pgml.predict('level', m)::int]
        = (SELECT max(p) FROM unnest(pgml.predict_proba('level', m)) p)) AS largest FROM mixed m;
SELECT array_length(pgml.predict_proba('even', ARRAY[1]::real[]), 1) AS two,
    (pgml.predict_proba('even', 0))[2] > 0.5 AS even, (pgml.predict_proba(4, 1))[2] > 0.5 AS odd;

-- Batches: two-dimensional, flat, by id; and empty ones.
SELECT count(*), round(sum(p)::numeric, 0) AS sum FROM pgml.predict_batch('two', ARRAY[[1, 2], [3, 0], [NULL, 1]]) p;
SELECT count(*), round(sum(p)::numeric, 0) AS sum FROM pgml.predict_batch('two', ARRAY[1, 2, 3, 0, NULL, 1]) p;
SELECT pg_typeof(pgml.predict_batch(1, ARRAY[[1, 2], [3, 0]])),
    pgml.predict_batch(1, ARRAY[[1, 2], [NULL, 0]])
        = ARRAY[pgml.predict('two', 1, 2), pgml.predict('two', ARRAY[NULL, 0])] AS same;
SELECT bool_and(batch = pgml.predict('two', ARRAY[x, y])) AS same, count(*)
FROM (SELECT x, y, row_number() OVER () AS n FROM points) p
INNER JOIN pgml.predict_batch('two', (SELECT array_agg(ARRAY[x, y]) FROM points)) WITH ORDINALITY b (batch, n)
    USING (n);
SELECT count(*) FROM pgml.predict_batch('two', '{}'::real[]);
SELECT pgml.predict_batch(1, '{}'::real[]), count(*) AS none FROM pgml.predict_batch('two', NULL::real[]);
SELECT array_agg(p) FROM pgml.predict_batch('even', ARRAY[0, 1, 0]) p;

-- The aggregate: in input order, by group, with every way to give features.
SELECT pgml.predict_agg('two', x, y ORDER BY x, y) = array_agg(pgml.predict('two', x, y) ORDER BY x, y) AS ordered,
    pgml.predict_agg(1, x, y ORDER BY x, y) = array_agg(pgml.predict(1, x, y) ORDER BY x, y) AS by_id FROM points;
SELECT y, array_length(pgml.predict_agg('two', x, y), 1) AS rows,
    pgml.predict_agg('two', x, y ORDER BY x) = array_agg(pgml.predict('two', x, y) ORDER BY x) AS same
FROM points GROUP BY y ORDER BY y;
SELECT pgml.predict_agg('two', ARRAY[x, y]) = array_agg(pgml.predict('two', x, y)) AS by_array,
    pgml.predict_agg('two', p) = array_agg(pgml.predict('two', x, y)) AS by_row,
    pgml.predict_agg('two', ROW(x, y)) = array_agg(pgml.predict('two', x, y)) AS by_anonymous_row FROM points p;
SELECT pgml.predict_agg('one', y ORDER BY y) FILTER (WHERE y > 0) = array_agg(pgml.predict('one', y) ORDER BY y)
    FILTER (WHERE y > 0) AS filtered, array_length(pgml.predict_agg('two', distinct_points), 1) AS distinct_rows
FROM (SELECT DISTINCT x, y FROM points) distinct_points;
SELECT pgml.predict_agg('two', x, y) IS NULL AS no_rows FROM points WHERE false;
SELECT pgml.predict_agg(project, 4, 2) = ARRAY[NULL, pgml.predict('two', 4, 2), NULL] AS null_project
FROM (VALUES (NULL), ('two'), (NULL)) projects (project);
SELECT pgml.predict_agg('two', features) = ARRAY[pgml.predict('two', 4, 2), NULL] AS null_array
FROM (VALUES (ARRAY[4, 2]), (NULL)) rows (features);
-- The project may change from row to row.
SELECT pgml.predict_agg(project, 2 ORDER BY n) = array_agg(pgml.predict(project, 2) ORDER BY n) AS changing
FROM (SELECT n, CASE WHEN n % 3 = 0 THEN 'even' ELSE 'one' END AS project FROM generate_series(1, 100) n) rows;
-- As a window function, the state is finished again and again.
SELECT bool_and(agg = list) AS same, count(*) FROM (
    SELECT pgml.predict_agg('two', x, y) OVER w AS agg, array_agg(pgml.predict('two', x, y)) OVER w AS list
    FROM (SELECT x, y, row_number() OVER () AS n FROM points) p
    WINDOW w AS (ORDER BY n)
) frames;
SELECT bool_and(agg = list) AS same FROM (
    SELECT pgml.predict_agg('two', x, y) OVER w AS agg, array_agg(pgml.predict('two', x, y)) OVER w AS list
    FROM (SELECT x, y, row_number() OVER () AS n FROM points LIMIT 50) p
    WINDOW w AS (ORDER BY n ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
) frames;
SELECT pgml.predict_agg('level', m ORDER BY m.id) = array_agg(pgml.predict('level', m) ORDER BY m.id) AS classes
FROM mixed m;

-- A model never changes: its predictions can be indexed and stored. A project's can not.
CREATE INDEX ON points (pgml.predict(1, ARRAY[x, y]));
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM points WHERE pgml.predict(1, ARRAY[x, y]) > 50;
SELECT count(*) FROM points WHERE pgml.predict(1, ARRAY[x, y]) > 50;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT count(*) FROM points WHERE pgml.predict('two', x, y) > 50;
CREATE TABLE stored (x int, y int, z real GENERATED ALWAYS AS (pgml.predict(1, ARRAY[x, y])) STORED);
INSERT INTO stored (x, y) SELECT x, y FROM points;
UPDATE stored SET y = 0;
SELECT bool_and(z = pgml.predict('two', x, y)) AS same FROM stored;
SELECT state, message FROM attempt($$CREATE INDEX ON points (pgml.predict('two', ARRAY[x, y]))$$);

-- Parallel workers give the same answers.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
CREATE TABLE many AS SELECT i % 10 AS x, i % 3 AS y FROM generate_series(1, 20000) i;
ANALYZE many;
EXPLAIN (COSTS OFF) SELECT sum(pgml.predict('two', x, y)) FROM many;
SELECT sum(pgml.predict('two', x, y)::numeric) AS sum FROM many \gset parallel_
SET max_parallel_workers_per_gather = 0;
SELECT sum(pgml.predict('two', x, y)::numeric) = :parallel_sum AS same FROM many;
RESET ALL;

-- Prepared, in a function, in a cursor; the same call with another project each time.
PREPARE ask (text, int, int) AS SELECT round(pgml.predict($1, $2, $3)::numeric, 0) AS answer;
EXECUTE ask('two', 4, 2);
EXECUTE ask('two', 9, 0);
CREATE FUNCTION ask(int, int) RETURNS numeric LANGUAGE plpgsql
    AS $$ BEGIN RETURN round(pgml.predict('two', $1, $2)::numeric, 0); END $$;
SELECT ask(4, 2), ask(9, 0);
BEGIN;
DECLARE answers CURSOR FOR SELECT pgml.predict('two', x, y) = pgml.predict('two', ARRAY[x, y]) FROM points;
FETCH 2 FROM answers;
COMMIT;

-- What a call gets wrong.
\pset expanded on
SELECT * FROM attempt($$SELECT pgml.predict('two', ARRAY[1, 2, 3])$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', 1, 2, 3)$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', ROW(1, 2, 3))$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', ARRAY[]::real[])$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', 1)$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', r) FROM (SELECT 1 AS x, 2 AS z) r$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', r) FROM (SELECT 1 AS x, 'much' AS y) r$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', r) FROM (SELECT 1 AS x, now() AS y) r$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', now(), 2)$$);
SELECT * FROM attempt($$SELECT pgml.predict('two', 1, 'much')$$);
SELECT * FROM attempt($$SELECT pgml.predict('level', 1, ARRAY[0, 0], true)$$);
SELECT * FROM attempt($$SELECT pgml.predict('level', 'red', ARRAY[0, 0, 0], true)$$);
SELECT * FROM attempt($$SELECT pgml.predict('level', ARRAY[1, 2])$$);
SELECT * FROM attempt($$SELECT * FROM pgml.predict_batch('two', ARRAY[[1, 2, 3], [1, 2, 3]])$$);
SELECT * FROM attempt($$SELECT * FROM pgml.predict_batch('two', ARRAY[1, 2, 3])$$);
SELECT * FROM attempt($$SELECT pgml.predict_agg('two', 1, 2, 3)$$);
SELECT * FROM attempt($$SELECT pgml.predict_agg('two', ARRAY[1])$$);
SELECT * FROM attempt($$SELECT pgml.predict_agg('two')$$);
SELECT * FROM attempt($$SELECT pgml.predict_proba('two', 1, 2)$$);
SELECT * FROM attempt($$SELECT pgml.predict_label('two', 1, 2)$$);
SELECT * FROM attempt($$SELECT pgml.predict('too', 1, 2)$$);
SELECT * FROM attempt($$SELECT pgml.predict(77, 1, 2)$$);
SELECT * FROM attempt($$SELECT pgml.predict_agg('too', 1, 2)$$);
SELECT * FROM attempt($$SELECT * FROM pgml.predict_batch('too', ARRAY[1, 2])$$);
