WITH RECURSIVE named AS (
    SELECT c.oid FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE a.attname = '$column' AND a.attnum > 0 AND NOT a.attisdropped
    AND c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't'
    AND n.nspname NOT IN ('pg_catalog', 'information_schema')$named
),
sharded AS (
    SELECT oid FROM named
    UNION
    SELECT i.inhrelid FROM sharded s JOIN pg_inherits i ON i.inhparent = s.oid
),
reading AS (
    SELECT oid FROM sharded
    UNION
    SELECT by.oid FROM reading r CROSS JOIN LATERAL (
        SELECT w.ev_class AS oid FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = r.oid
        UNION ALL SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = r.oid
    ) AS by
)
SELECT n.nspname, c.relname,
    CASE WHEN a.attrelid IS NULL THEN ''
        WHEN l.collisdeterministic IS FALSE THEN 'text that is compared in other ways'
        ELSE format_type(a.atttypid, NULL) END,
    CASE WHEN a.attrelid IS NULL THEN '' ELSE (
        SELECT count(*)::text FROM pg_attribute b
        WHERE b.attrelid = a.attrelid AND b.attnum BETWEEN 1 AND a.attnum AND NOT b.attisdropped) END
FROM reading r
JOIN pg_class c ON c.oid = r.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = '$column' AND a.attnum > 0 AND NOT a.attisdropped
    AND c.oid IN (SELECT oid FROM sharded)
LEFT JOIN pg_collation l ON l.oid = a.attcollation
ORDER BY 1, 2
