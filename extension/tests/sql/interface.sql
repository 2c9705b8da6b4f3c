-- The interface as applications see it: a change here is a change for them.
\pset format unaligned
CREATE EXTENSION pgml;

-- Functions and aggregates: arguments, defaults, results.
SELECT p.proname || '(' || pg_get_function_arguments(p.oid) || ')' AS function,
       pg_get_function_result(p.oid) AS result,
       CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility,
       CASE p.proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END AS parallel
FROM pg_proc p WHERE p.pronamespace = 'pgml'::regnamespace
ORDER BY p.proname COLLATE "C", pg_get_function_arguments(p.oid) COLLATE "C";

-- Tables and views.
SELECT c.relname AS relation, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS not_null
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'pgml'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0
ORDER BY c.relname COLLATE "C", a.attnum;

-- Enum types.
SELECT t.typname AS type, string_agg(e.enumlabel, ' ' ORDER BY e.enumsortorder) AS labels
FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
WHERE t.typnamespace = 'pgml'::regnamespace
GROUP BY t.typname ORDER BY t.typname COLLATE "C";

-- What pg_dump takes along: every table and its sequence.
SELECT oid::regclass AS dumped
FROM (SELECT unnest(extconfig) AS oid FROM pg_extension WHERE extname = 'pgml') AS config
ORDER BY oid::regclass::text COLLATE "C";

-- Dropping the extension leaves nothing.
SET client_min_messages = warning;
DROP EXTENSION pgml;
SELECT count(*) FROM pg_namespace WHERE nspname = 'pgml';
