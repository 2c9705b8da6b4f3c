-- The registry and the functions as applications of PostgresML 2.10 know them: names, types, defaults, kinds.
CREATE EXTENSION pgml;
\pset format unaligned
\pset footer off

SELECT extversion, extrelocatable, nspname FROM pg_extension e INNER JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE extname = 'pgml';
SELECT superuser, trusted, relocatable, schema, requires FROM pg_available_extension_versions WHERE name = 'pgml';
SELECT pgml.version() ~ '^\d+\.\d+\.\d+$' AS version, pgml.xgboost_version();
SELECT name, setting, context, vartype, min_val, max_val FROM pg_settings WHERE name LIKE 'pgml.%' ORDER BY name;

-- Enums, with their labels in order.
SELECT typname, string_agg(enumlabel, ' ' ORDER BY enumsortorder) AS labels
FROM pg_type t INNER JOIN pg_enum e ON e.enumtypid = t.oid
WHERE typnamespace = 'pgml'::regnamespace GROUP BY typname ORDER BY typname;

-- Tables and views.
SELECT table_name, column_name, CASE WHEN data_type = 'ARRAY' THEN udt_name::text WHEN data_type = 'USER-DEFINED'
    THEN udt_schema || '.' || udt_name ELSE data_type END AS type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'pgml' ORDER BY table_name, ordinal_position;
SELECT conrelid::regclass AS "table", pg_get_constraintdef(oid) AS "constraint"
FROM pg_constraint WHERE connamespace = 'pgml'::regnamespace AND contype IN ('p', 'f', 'u')
ORDER BY conrelid::regclass::text, contype, 2;
SELECT indexdef FROM pg_indexes WHERE schemaname = 'pgml' ORDER BY indexname;
SELECT event_object_table, trigger_name, action_timing, event_manipulation, action_orientation
FROM information_schema.triggers WHERE trigger_schema = 'pgml' ORDER BY 1, 2, 4;
SELECT string_agg(dumped::regclass::text, ' ' ORDER BY dumped::regclass::text) AS dumped
FROM pg_extension, unnest(extconfig) dumped WHERE extname = 'pgml';

-- Functions: arguments with their names and defaults, results, and what the planner may do with them.
SELECT proname AS name, pg_get_function_arguments(oid) AS arguments FROM pg_proc
WHERE pronamespace = 'pgml'::regnamespace ORDER BY proname, pg_get_function_arguments(oid);
SELECT proname AS name, pg_get_function_identity_arguments(oid) AS arguments, pg_get_function_result(oid) AS result,
    CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
    proisstrict AS strict,
    CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel
FROM pg_proc WHERE pronamespace = 'pgml'::regnamespace AND prokind = 'f'
ORDER BY proname, pg_get_function_identity_arguments(oid);
SELECT count(*) AS without_comment FROM pg_proc p WHERE pronamespace = 'pgml'::regnamespace
AND obj_description(oid, 'pg_proc') IS NULL AND proname NOT LIKE 'predict_agg\__%' AND proname NOT LIKE 'features\_%' AND prorettype <> 'trigger'::regtype;
SELECT count(*) > 0 AS have_a_cost FROM pg_proc WHERE pronamespace = 'pgml'::regnamespace AND proname LIKE 'predict%'
AND procost > 1;

-- Calls as the original's documentation writes them.
CREATE TABLE sample AS SELECT i % 10 AS x, i % 10 AS y FROM generate_series(1, 100) i;
SELECT * FROM pgml.train(project_name => 'Sample', task => 'regression', relation_name => 'public.sample',
    y_column_name => 'y', algorithm => 'xgboost', hyperparams => '{"n_estimators": 25}', search => NULL,
    search_params => '{}', search_args => '{}', test_size => 0.25, test_sampling => 'random', runtime => 'rust',
    automatic_deploy => true, materialize_snapshot => false, preprocess => '{}');
SELECT name, round(pgml.predict(name, ARRAY[4])::numeric, 0) AS answer FROM pgml.projects;
SELECT pgml.predict('Sample', 4) = pgml.predict('Sample', ROW(4)) AS same;

-- updated_at follows each change.
SELECT created_at <= updated_at AS ordered, updated_at <= clock_timestamp()::timestamp AS past FROM pgml.projects;
SELECT updated_at AS before FROM pgml.projects \gset
UPDATE pgml.projects SET name = 'Renamed';
SELECT updated_at > :'before' AS later, created_at < updated_at AS kept FROM pgml.projects;
SELECT pgml.predict('Renamed', ARRAY[4]) IS NOT NULL AS answers;

-- All of it goes with the extension.
DROP EXTENSION pgml;
SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('pgml');
CREATE EXTENSION pgml;
SELECT count(*) FROM pgml.projects;
DROP TABLE sample;
