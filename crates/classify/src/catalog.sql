WITH RECURSIVE
volatile_cast AS (
    SELECT c.castsource, c.casttarget FROM pg_catalog.pg_cast c
    JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc WHERE p.provolatile = 'v'
),
unsafe_type AS (
    SELECT t.oid FROM pg_catalog.pg_type t
    WHERE t.typtype <> 'p' AND EXISTS (
        SELECT FROM pg_catalog.pg_proc p
        WHERE p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout)
        AND p.provolatile = 'v')
    UNION SELECT castsource FROM volatile_cast
    UNION SELECT casttarget FROM volatile_cast
    -- Domains whose checks call a volatile function of a user's.
    UNION SELECT c.contypid FROM pg_catalog.pg_constraint c
    JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass AND d.objid = c.oid
        AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass
    JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
    WHERE c.contypid <> 0 AND p.provolatile = 'v'
),
-- What is made of a type: arrays, domains, ranges and rows.
made_of AS (
    SELECT typelem AS part, oid AS whole FROM pg_catalog.pg_type WHERE typelem <> 0
    UNION ALL SELECT typbasetype, oid FROM pg_catalog.pg_type WHERE typbasetype <> 0
    UNION ALL SELECT rngsubtype, rngtypid FROM pg_catalog.pg_range
    UNION ALL SELECT a.atttypid, t.oid FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_type t ON t.typrelid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped
),
spread_type AS (
    SELECT oid FROM unsafe_type
    UNION
    SELECT m.whole FROM spread_type s JOIN made_of m ON m.part = s.oid
),
-- As an array: the planner takes a recursive table for a large one.
spread AS (SELECT COALESCE(pg_catalog.array_agg(oid), '{}') AS oids FROM spread_type),
-- Reading a parent reads its children.
foreign_rel AS (
    SELECT oid FROM pg_catalog.pg_class WHERE relkind = 'f'
    UNION
    SELECT i.inhparent FROM foreign_rel f JOIN pg_catalog.pg_inherits i ON i.inhrelid = f.oid
),
unlogged_rel AS (
    SELECT oid FROM pg_catalog.pg_class WHERE relpersistence = 'u'
    UNION
    SELECT i.inhparent FROM unlogged_rel u JOIN pg_catalog.pg_inherits i ON i.inhrelid = u.oid
),
-- Functions that take `internal` are in C and called by an aggregate or an access method alone; extensions often leave
-- their volatility out.
volatile_aggregate AS (
    SELECT a.aggfnoid::pg_catalog.oid AS oid FROM pg_catalog.pg_aggregate a
    CROSS JOIN LATERAL (VALUES (a.aggtransfn), (a.aggfinalfn), (a.aggmtransfn), (a.aggminvtransfn), (a.aggmfinalfn),
        (a.aggcombinefn), (a.aggserialfn), (a.aggdeserialfn)) AS f (part)
    JOIN pg_catalog.pg_proc q ON q.oid = f.part
    WHERE q.provolatile = 'v' AND 'pg_catalog.internal'::pg_catalog.regtype <> ALL (q.proargtypes)
),
proc AS (
    SELECT p.oid, p.pronamespace, p.proname,
        CASE WHEN p.provolatile = 'v' OR p.oid IN (SELECT oid FROM volatile_aggregate)
        -- What goes in and out passes through the types' own functions.
        OR p.prorettype = ANY ((SELECT oids FROM spread)::pg_catalog.oid[])
        OR COALESCE(p.proallargtypes, p.proargtypes::pg_catalog.oid[])
            && (SELECT oids FROM spread) THEN 2
        WHEN p.provolatile = 's' THEN 1 ELSE 0 END AS volatility,
        p.prokind <> 'p' AND p.pronargs >= 1 AND p.pronargs - p.pronargdefaults <= 1 AS attribute
    FROM pg_catalog.pg_proc p
)
SELECT 'version' AS kind, '' AS schema, pg_catalog.current_setting('server_version_num') AS name, '' AS flag,
    '' AS definition
UNION ALL
SELECT 'poison', '', '', '', ''
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_amproc a JOIN pg_catalog.pg_proc p ON p.oid = a.amproc
    WHERE p.provolatile = 'v' AND 'pg_catalog.internal'::pg_catalog.regtype <> ALL (p.proargtypes))
OR EXISTS (
    SELECT FROM pg_catalog.pg_amop a JOIN pg_catalog.pg_operator o ON o.oid = a.amopopr
    JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode WHERE p.provolatile = 'v')
UNION ALL
SELECT 'function', n.nspname::text, p.proname::text,
    pg_catalog.substr('isv', pg_catalog.max(p.volatility) + 1, 1)
    || CASE WHEN pg_catalog.bool_or(p.attribute) THEN '1' ELSE '' END, ''
FROM proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
GROUP BY 2, 3
UNION ALL
SELECT 'operator', '', o.oprname::text,
    pg_catalog.substr('isv', pg_catalog.max(p.volatility) + 1, 1), ''
FROM pg_catalog.pg_operator o JOIN proc p ON p.oid = o.oprcode
GROUP BY 3
UNION ALL
SELECT 'type', n.nspname::text, t.typname::text,
    CASE WHEN t.oid = ANY ((SELECT oids FROM spread)::pg_catalog.oid[]) THEN 'unsafe' ELSE 'plain' END,
    CASE WHEN t.typtype = 'd' THEN
        'SELECT NULL::' || pg_catalog.format_type(t.typbasetype, NULL) || COALESCE((
            SELECT pg_catalog.string_agg(', ' || pg_catalog.pg_get_expr(c.conbin, 0), '')
            FROM pg_catalog.pg_constraint c WHERE c.contypid = t.oid AND c.conbin IS NOT NULL), '')
    ELSE '' END
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_class r ON r.oid = t.typrelid
WHERE t.typtype IN ('b', 'd', 'e', 'm', 'r') AND t.typelem = 0
    OR t.typtype = 'b' AND t.typlen > 0 AND t.typelem <> 0 OR t.typtype = 'c' AND r.relkind = 'c'
UNION ALL
SELECT 'relation', n.nspname::text, c.relname::text,
    CASE WHEN c.relkind = 'v' AND n.nspname = 'pg_catalog' THEN 'system'
        WHEN c.reltype = ANY ((SELECT oids FROM spread)::pg_catalog.oid[]) THEN 'unsafe'
        WHEN c.oid IN (SELECT oid FROM foreign_rel) THEN 'foreign'
        WHEN c.oid IN (SELECT oid FROM unlogged_rel) THEN 'unlogged'
        ELSE 'plain' END,
    CASE WHEN c.relkind = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
        THEN COALESCE(pg_catalog.pg_get_viewdef(c.oid), 'gone')
        WHEN c.relrowsecurity THEN COALESCE((
            SELECT 'SELECT ' || pg_catalog.string_agg(pg_catalog.pg_get_expr(p.polqual, p.polrelid), ', ')
            FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid AND p.polqual IS NOT NULL), '')
        ELSE '' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f', 'S') AND c.relpersistence <> 't' AND n.nspname <> 'pg_toast'
