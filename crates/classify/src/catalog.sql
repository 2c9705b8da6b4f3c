-- Every operator, function, type and relation is named with its schema: whoever owns an object of a name that comes first
-- in some search_path decides nothing here (a test holds each of them to that).
WITH RECURSIVE
volatile_cast AS (
    SELECT
        c.castsource, c.casttarget, c.castcontext OPERATOR(pg_catalog.=) 'i' AS implicit,
        c.castsource OPERATOR(pg_catalog.<) 16384 AS is_from_builtin, c.casttarget OPERATOR(pg_catalog.<) 16384 AS is_to_builtin
    FROM pg_catalog.pg_cast c
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) c.castfunc
    WHERE p.provolatile OPERATOR(pg_catalog.=) 'v'
),
unsafe_type AS (
    SELECT t.oid FROM pg_catalog.pg_type t
    WHERE t.typtype OPERATOR(pg_catalog.<>) 'p' AND EXISTS (
        SELECT FROM pg_catalog.pg_proc p
        WHERE p.oid OPERATOR(pg_catalog.=) ANY (ARRAY[t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin,
            t.typmodout]::pg_catalog.oid[])
        AND p.provolatile OPERATOR(pg_catalog.=) 'v')
    -- A cast that must be written is met where the type is that is not of PostgreSQL itself: a text stays a text.
    UNION SELECT castsource FROM volatile_cast WHERE implicit OR NOT is_from_builtin
    UNION SELECT casttarget FROM volatile_cast WHERE implicit OR NOT is_to_builtin OR is_from_builtin
    -- Domains whose checks call a volatile function of a user's.
    UNION SELECT c.contypid FROM pg_catalog.pg_constraint c
    JOIN pg_catalog.pg_depend d
        ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid
        AND d.objid OPERATOR(pg_catalog.=) c.oid
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) d.refobjid
    WHERE c.contypid OPERATOR(pg_catalog.<>) 0 AND p.provolatile OPERATOR(pg_catalog.=) 'v'
),
-- What is made of a type: arrays, domains, ranges and rows.
made_of AS (
    SELECT typelem AS part, oid AS whole FROM pg_catalog.pg_type WHERE typelem OPERATOR(pg_catalog.<>) 0
    UNION ALL
    SELECT typbasetype, oid FROM pg_catalog.pg_type WHERE typbasetype OPERATOR(pg_catalog.<>) 0
    UNION ALL
    SELECT rngsubtype, rngtypid FROM pg_catalog.pg_range
    UNION ALL
    SELECT a.atttypid, t.oid FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_type t ON t.typrelid OPERATOR(pg_catalog.=) a.attrelid
    WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
),
spread_type AS (
    SELECT oid FROM unsafe_type
    UNION
    SELECT m.whole FROM spread_type s JOIN made_of m ON m.part OPERATOR(pg_catalog.=) s.oid
),
-- As an array: the planner takes a recursive table for a large one.
spread AS (SELECT COALESCE(pg_catalog.array_agg(oid), '{}') AS oids FROM spread_type),
-- Reading a parent reads its children.
foreign_rel AS (
    SELECT oid FROM pg_catalog.pg_class WHERE relkind OPERATOR(pg_catalog.=) 'f'
    UNION
    SELECT i.inhparent FROM foreign_rel f
    JOIN pg_catalog.pg_inherits i ON i.inhrelid OPERATOR(pg_catalog.=) f.oid
),
unlogged_rel AS (
    SELECT oid FROM pg_catalog.pg_class WHERE relpersistence OPERATOR(pg_catalog.=) 'u'
    UNION
    SELECT i.inhparent FROM unlogged_rel u
    JOIN pg_catalog.pg_inherits i ON i.inhrelid OPERATOR(pg_catalog.=) u.oid
),
-- Functions that take `internal` are in C and called by an aggregate or an access method alone; extensions often leave
-- their volatility out.
volatile_aggregate AS (
    SELECT a.aggfnoid::pg_catalog.oid AS oid FROM pg_catalog.pg_aggregate a
    CROSS JOIN LATERAL (VALUES (a.aggtransfn), (a.aggfinalfn), (a.aggmtransfn), (a.aggminvtransfn), (a.aggmfinalfn),
        (a.aggcombinefn), (a.aggserialfn), (a.aggdeserialfn)) AS f (part)
    JOIN pg_catalog.pg_proc q ON q.oid OPERATOR(pg_catalog.=) f.part::pg_catalog.oid
    WHERE q.provolatile OPERATOR(pg_catalog.=) 'v'
    AND 'pg_catalog.internal'::pg_catalog.regtype::pg_catalog.oid OPERATOR(pg_catalog.<>)
        ALL (q.proargtypes::pg_catalog.oid[])
),
-- Functions of PostgreSQL's own whose traces in a session are left by whoever calls them.
traces AS (
    SELECT ':funcid (' OPERATOR(pg_catalog.||) pg_catalog.string_agg(p.oid::pg_catalog.text, '|')
        OPERATOR(pg_catalog.||) ') ' AS calls FROM pg_catalog.pg_proc p
    WHERE p.pronamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid
    AND p.proname OPERATOR(pg_catalog.~)
        '^(set_config|setseed|pg_(try_)?advisory_(un)?lock(_shared|_all)?|pg_replication_origin_session_(re)?set(up)?)$'
),
-- Functions that an argument's default calls, and so whoever leaves the argument out.
volatile_default AS (
    SELECT p.oid FROM pg_catalog.pg_proc p
    CROSS JOIN LATERAL pg_catalog.regexp_matches(p.proargdefaults::pg_catalog.text,
        ':(?:funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') AS m (found)
    JOIN pg_catalog.pg_proc q ON q.oid OPERATOR(pg_catalog.=) m.found[1]::pg_catalog.oid
    WHERE p.proargdefaults IS NOT NULL AND q.provolatile OPERATOR(pg_catalog.=) 'v'
),
proc AS (
    SELECT p.oid, p.pronamespace, p.proname, p.prolang, p.prosrc, p.provolatile,
        CASE WHEN p.provolatile OPERATOR(pg_catalog.=) 'v'
        OR p.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM volatile_aggregate))
        OR p.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM volatile_default))
        -- What goes in and out passes through the types' own functions.
        OR p.prorettype OPERATOR(pg_catalog.=) ANY ((SELECT oids FROM spread)::pg_catalog.oid[])
        OR COALESCE(p.proallargtypes, p.proargtypes::pg_catalog.oid[])
            OPERATOR(pg_catalog.&&) (SELECT oids FROM spread) THEN 2
        WHEN p.provolatile OPERATOR(pg_catalog.=) 's' THEN 1 ELSE 0 END AS volatility,
        p.prokind OPERATOR(pg_catalog.<>) 'p' AND p.pronargs OPERATOR(pg_catalog.>=) 1
            AND (p.pronargs OPERATOR(pg_catalog.-) p.pronargdefaults) OPERATOR(pg_catalog.<=) 1 AS attribute
    FROM pg_catalog.pg_proc p
),
-- What runs when a relation is written to: functions of triggers, defaults, checks and policies; 0 is what a rule does, or
-- what leaves traces.
hook AS (
    SELECT t.tgrelid AS rel, t.tgfoid AS func FROM pg_catalog.pg_trigger t
    UNION ALL
    SELECT r.ev_class, 0::pg_catalog.oid FROM pg_catalog.pg_rewrite r WHERE r.rulename OPERATOR(pg_catalog.<>) '_RETURN'
    UNION ALL
    SELECT COALESCE(a.adrelid, c.conrelid, p.polrelid), d.refobjid FROM pg_catalog.pg_depend d
    LEFT JOIN pg_catalog.pg_attrdef a ON a.oid OPERATOR(pg_catalog.=) d.objid
        AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_constraint c ON c.oid OPERATOR(pg_catalog.=) d.objid
        AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_policy p ON p.oid OPERATOR(pg_catalog.=) d.objid
        AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_policy'::pg_catalog.regclass::pg_catalog.oid
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    UNION ALL
    -- On PostgreSQL's own functions nothing is noted to depend.
    SELECT e.rel, 0::pg_catalog.oid FROM (
        SELECT adrelid, adbin::pg_catalog.text FROM pg_catalog.pg_attrdef
        UNION ALL SELECT conrelid, conbin::pg_catalog.text FROM pg_catalog.pg_constraint WHERE conbin IS NOT NULL
        UNION ALL SELECT tgrelid, tgqual::pg_catalog.text FROM pg_catalog.pg_trigger WHERE tgqual IS NOT NULL
        UNION ALL SELECT polrelid, polqual::pg_catalog.text FROM pg_catalog.pg_policy WHERE polqual IS NOT NULL
        UNION ALL SELECT polrelid, polwithcheck::pg_catalog.text FROM pg_catalog.pg_policy
            WHERE polwithcheck IS NOT NULL
    ) AS e (rel, tree)
    WHERE e.tree OPERATOR(pg_catalog.~) (SELECT calls FROM traces)
),
-- Where writing to a relation leads: to what refers to it, to its children, to what a view is of.
leads AS (
    SELECT c.confrelid AS rel, c.conrelid AS target FROM pg_catalog.pg_constraint c
    WHERE c.contype OPERATOR(pg_catalog.=) 'f'
    AND (c.confdeltype OPERATOR(pg_catalog.=) ANY ('{c,n,d}'::pg_catalog."char"[])
        OR c.confupdtype OPERATOR(pg_catalog.=) ANY ('{c,n,d}'::pg_catalog."char"[]))
    UNION ALL
    SELECT inhparent, inhrelid FROM pg_catalog.pg_inherits
    UNION ALL
    SELECT r.ev_class, d.refobjid FROM pg_catalog.pg_rewrite r
    JOIN pg_catalog.pg_depend d
        ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid
        AND d.objid OPERATOR(pg_catalog.=) r.oid
        AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
    WHERE r.rulename OPERATOR(pg_catalog.=) '_RETURN'
),
fires AS (
    SELECT h.rel, h.func FROM hook h LEFT JOIN proc p ON p.oid OPERATOR(pg_catalog.=) h.func
    WHERE h.rel OPERATOR(pg_catalog.<>) 0 AND (p.oid IS NULL OR p.volatility OPERATOR(pg_catalog.=) 2
        AND p.pronamespace OPERATOR(pg_catalog.<>) 'pg_catalog'::pg_catalog.regnamespace::pg_catalog.oid)
    UNION
    SELECT l.rel, f.func FROM fires f JOIN leads l ON l.target OPERATOR(pg_catalog.=) f.rel
)
SELECT 'version' AS kind, '' AS schema, pg_catalog.current_setting('server_version_num') AS name, '' AS flag,
    '' AS definition
UNION ALL
SELECT 'poison', '', '', '', ''
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_amproc a
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) a.amproc::pg_catalog.oid
    WHERE p.provolatile OPERATOR(pg_catalog.=) 'v'
    AND 'pg_catalog.internal'::pg_catalog.regtype::pg_catalog.oid OPERATOR(pg_catalog.<>)
        ALL (p.proargtypes::pg_catalog.oid[]))
OR EXISTS (
    SELECT FROM pg_catalog.pg_amop a JOIN pg_catalog.pg_operator o ON o.oid OPERATOR(pg_catalog.=) a.amopopr
    JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) o.oprcode::pg_catalog.oid
    WHERE p.provolatile OPERATOR(pg_catalog.=) 'v')
UNION ALL
-- The flag: volatility, whether one can be called as an attribute, and of the volatile ones of users whether there is one
-- in C or one without a text that can be read; the texts of the others.
SELECT 'function', n.nspname::pg_catalog.text, p.proname::pg_catalog.text,
    pg_catalog.substr('isv', pg_catalog.max(p.volatility) OPERATOR(pg_catalog.+) 1, 1)
    OPERATOR(pg_catalog.||) CASE WHEN pg_catalog.bool_or(p.attribute) THEN '1' ELSE '' END
    OPERATOR(pg_catalog.||) CASE WHEN pg_catalog.bool_or(how.form OPERATOR(pg_catalog.=) 'c') THEN 'c' ELSE '' END
    OPERATOR(pg_catalog.||) CASE WHEN pg_catalog.bool_or(how.form OPERATOR(pg_catalog.=) 'x') THEN 'x' ELSE '' END,
    COALESCE(pg_catalog.string_agg(CASE WHEN how.form OPERATOR(pg_catalog.=) 'r' THEN p.prosrc END,
        pg_catalog.chr(10)), '')
FROM proc p JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang
CROSS JOIN LATERAL (SELECT CASE
    WHEN p.volatility OPERATOR(pg_catalog.<>) 2 OR n.nspname OPERATOR(pg_catalog.=) 'pg_catalog' THEN ''
    WHEN p.provolatile OPERATOR(pg_catalog.<>) 'v' THEN 'x'
    WHEN l.lanname OPERATOR(pg_catalog.=) 'c' THEN 'c'
    WHEN l.lanname OPERATOR(pg_catalog.=) ANY ('{sql,plpgsql}'::pg_catalog.name[])
        AND pg_catalog.length(p.prosrc) OPERATOR(pg_catalog.>) 0
        AND pg_catalog.length(p.prosrc) OPERATOR(pg_catalog.<) 65536 THEN 'r'
    ELSE 'x' END AS form) AS how
GROUP BY 2, 3
UNION ALL
SELECT 'operator', '', o.oprname::pg_catalog.text,
    pg_catalog.substr('isv', pg_catalog.max(p.volatility) OPERATOR(pg_catalog.+) 1, 1), ''
FROM pg_catalog.pg_operator o JOIN proc p ON p.oid OPERATOR(pg_catalog.=) o.oprcode::pg_catalog.oid
GROUP BY 3
UNION ALL
SELECT 'type', n.nspname::pg_catalog.text, t.typname::pg_catalog.text,
    CASE WHEN t.oid OPERATOR(pg_catalog.=) ANY ((SELECT oids FROM spread)::pg_catalog.oid[])
        THEN 'unsafe' ELSE 'plain' END,
    CASE WHEN t.typtype OPERATOR(pg_catalog.=) 'd' THEN
        'SELECT NULL::' OPERATOR(pg_catalog.||) pg_catalog.format_type(t.typbasetype, NULL)
        OPERATOR(pg_catalog.||) COALESCE((
            SELECT pg_catalog.string_agg(', ' OPERATOR(pg_catalog.||) pg_catalog.pg_get_expr(c.conbin, 0), '')
            FROM pg_catalog.pg_constraint c
            WHERE c.contypid OPERATOR(pg_catalog.=) t.oid AND c.conbin IS NOT NULL), '')
    ELSE '' END
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
LEFT JOIN pg_catalog.pg_class r ON r.oid OPERATOR(pg_catalog.=) t.typrelid
WHERE t.typtype OPERATOR(pg_catalog.=) ANY ('{b,d,e,m,r}'::pg_catalog."char"[]) AND t.typelem OPERATOR(pg_catalog.=) 0
    OR t.typtype OPERATOR(pg_catalog.=) 'b' AND t.typlen OPERATOR(pg_catalog.>) 0
        AND t.typelem OPERATOR(pg_catalog.<>) 0
    OR t.typtype OPERATOR(pg_catalog.=) 'c' AND r.relkind OPERATOR(pg_catalog.=) 'c'
UNION ALL
SELECT 'relation', n.nspname::pg_catalog.text, c.relname::pg_catalog.text,
    CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'v' AND n.nspname OPERATOR(pg_catalog.=) 'pg_catalog' THEN 'system'
        WHEN c.relkind OPERATOR(pg_catalog.=) 'S' THEN 'sequence'
        WHEN c.reltype OPERATOR(pg_catalog.=) ANY ((SELECT oids FROM spread)::pg_catalog.oid[]) THEN 'unsafe'
        WHEN c.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM foreign_rel)) THEN 'foreign'
        WHEN c.oid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT oid FROM unlogged_rel)) THEN 'unlogged'
        ELSE 'plain' END,
    CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'v'
            AND n.nspname OPERATOR(pg_catalog.<>) ALL ('{pg_catalog,information_schema}'::pg_catalog.name[])
        THEN COALESCE(pg_catalog.pg_get_viewdef(c.oid), 'gone')
        WHEN c.relrowsecurity THEN COALESCE((
            SELECT 'SELECT ' OPERATOR(pg_catalog.||)
                pg_catalog.string_agg(pg_catalog.pg_get_expr(p.polqual, p.polrelid), ', ')
            FROM pg_catalog.pg_policy p
            WHERE p.polrelid OPERATOR(pg_catalog.=) c.oid AND p.polqual IS NOT NULL), '')
        ELSE '' END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,v,m,p,f,S}'::pg_catalog."char"[])
AND c.relpersistence OPERATOR(pg_catalog.<>) 't' AND n.nspname OPERATOR(pg_catalog.<>) 'pg_toast'
UNION ALL
SELECT 'fires', n.nspname::pg_catalog.text, c.relname::pg_catalog.text, COALESCE(pn.nspname::pg_catalog.text, ''),
    COALESCE(p.proname::pg_catalog.text, '')
FROM fires f JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) f.rel
JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
LEFT JOIN proc p ON p.oid OPERATOR(pg_catalog.=) f.func
LEFT JOIN pg_catalog.pg_namespace pn ON pn.oid OPERATOR(pg_catalog.=) p.pronamespace
WHERE c.relpersistence OPERATOR(pg_catalog.<>) 't'
