-- How many rows there are and what the numbers of the transactions that wrote them add up to: a row that is changed, or put
-- in another's place, has a younger transaction. What sessions create for themselves is not counted. Labels of enums and
-- members of roles are, though the catalog has none: a statement that was analysed before may answer by those of then.
WITH schema AS (
    SELECT oid, xmin FROM pg_catalog.pg_namespace WHERE nspname OPERATOR(pg_catalog.!~) '^pg_(toast_)?temp_'
),
relation AS (
    SELECT c.oid, c.xmin, c.relkind FROM pg_catalog.pg_class c
    WHERE c.relpersistence OPERATOR(pg_catalog.<>) 't'
    AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,v,m,p,f,S,c}'::pg_catalog."char"[])
),
written (place, by) AS (
    SELECT 'schema', xmin FROM schema
    UNION ALL SELECT 'relation', xmin FROM relation
    UNION ALL SELECT 'column', a.xmin FROM relation r
        JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) r.oid
    UNION ALL SELECT 'default', a.xmin FROM relation r
        JOIN pg_catalog.pg_attrdef a ON a.adrelid OPERATOR(pg_catalog.=) r.oid
    UNION ALL SELECT 'parent', i.xmin FROM relation r
        JOIN pg_catalog.pg_inherits i ON i.inhrelid OPERATOR(pg_catalog.=) r.oid
    UNION ALL SELECT 'view', w.xmin FROM relation r
        JOIN pg_catalog.pg_rewrite w ON w.ev_class OPERATOR(pg_catalog.=) r.oid
    UNION ALL SELECT 'trigger', t.xmin FROM relation r
        JOIN pg_catalog.pg_trigger t ON t.tgrelid OPERATOR(pg_catalog.=) r.oid
    UNION ALL SELECT 'policy', xmin FROM pg_catalog.pg_policy
    UNION ALL SELECT 'constraint', c.xmin FROM pg_catalog.pg_constraint c
        JOIN schema s ON s.oid OPERATOR(pg_catalog.=) c.connamespace
    UNION ALL SELECT 'type', t.xmin FROM pg_catalog.pg_type t
        JOIN schema s ON s.oid OPERATOR(pg_catalog.=) t.typnamespace
    UNION ALL SELECT 'range', xmin FROM pg_catalog.pg_range
    UNION ALL SELECT 'enum', xmin FROM pg_catalog.pg_enum
    UNION ALL SELECT 'membership', xmin FROM pg_catalog.pg_auth_members
    UNION ALL SELECT 'function', xmin FROM pg_catalog.pg_proc
    UNION ALL SELECT 'aggregate', xmin FROM pg_catalog.pg_aggregate
    UNION ALL SELECT 'language', xmin FROM pg_catalog.pg_language
    UNION ALL SELECT 'operator', xmin FROM pg_catalog.pg_operator
    UNION ALL SELECT 'member', xmin FROM pg_catalog.pg_amop
    UNION ALL SELECT 'support', xmin FROM pg_catalog.pg_amproc
    UNION ALL SELECT 'cast', xmin FROM pg_catalog.pg_cast
)
SELECT pg_catalog.concat_ws(' ', pg_catalog.current_setting('server_version_num'),
    (SELECT pg_catalog.string_agg(part, ' ') FROM (
        SELECT pg_catalog.concat(place, '=', pg_catalog.sum(many), '/',
            pg_catalog.sum(many OPERATOR(pg_catalog.*) by::pg_catalog.text::pg_catalog.int8)) AS part
        -- Most rows were written by few transactions.
        FROM (SELECT place, by, pg_catalog.count(*) AS many FROM written GROUP BY place, by) AS transactions
        GROUP BY place ORDER BY place) AS parts))
