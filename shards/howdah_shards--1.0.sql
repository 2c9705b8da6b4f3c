\echo Use "CREATE EXTENSION howdah_shards CASCADE" to load this file. \quit

-- Sharded tables on PostgreSQL's own engine.
--
-- A shard is a database of another server. It has a sharded table as an ordinary table PARTITION BY HASH, of which it
-- holds some partitions, the slots. The hub, where this extension is, has the same table with the same partitions as
-- foreign tables of postgres_fdw. So the map (which slot is where) is the hub's catalog: foreign servers of the type
-- `howdah_shard`, and the partitions of the tables in howdah_shards.tables. The views read it there.
--
-- Whatever changes the map happens in one transaction of the hub, and its commit decides: what was prepared on the
-- shards before it does not count without it. A repeat finds what an earlier attempt left, by the marks in the schema
-- howdah_shard of each shard, and removes it.
--
-- The statements for a shard are sent in one message, so they are one transaction there, which begins with an advisory
-- lock. The statements of a backend that died may still run: the repeat waits for their end.
--
-- Functions whose names begin with an underscore are not for users.

DO $$
BEGIN
    IF current_setting('server_version_num')::int < 140000 THEN
        RAISE EXCEPTION 'howdah_shards needs PostgreSQL 14 or newer, and this is %', current_setting('server_version')
            USING ERRCODE = 'feature_not_supported', HINT = 'Upgrade the server.';
    END IF;
END
$$;

-- What the catalog does not say.

CREATE TABLE howdah_shards.tables (
    relation regclass PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('sharded', 'reference', 'models')),
    -- Tables with the same number have their slots in the same places.
    colocation int
);
COMMENT ON TABLE howdah_shards.tables IS 'The sharded tables, the reference tables and those of models. Written by the functions of this schema only.';

-- At most one row, and none before the first shard: a row of the script would be in the way of a restore.
CREATE TABLE howdah_shards.map (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL DEFAULT 0,
    digest text,
    lease interval NOT NULL DEFAULT '5 seconds' CHECK (lease > '0'),
    -- How shards reach the hub.
    hub text,
    shards_made int NOT NULL DEFAULT 0,
    colocations_made int NOT NULL DEFAULT 0
);
COMMENT ON TABLE howdah_shards.map IS 'The version of the map, its lease, and counters whose values are not given twice.';

CREATE TABLE howdah_shards.jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    what jsonb NOT NULL,
    -- Who does it: see howdah_shards._owner.
    owner text NOT NULL,
    decided boolean NOT NULL DEFAULT false,
    started timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE howdah_shards.jobs IS 'What takes several transactions and has not ended: decided is what is to be completed, the rest to be undone.';

SELECT pg_catalog.pg_extension_config_dump('howdah_shards.tables', '');
SELECT pg_catalog.pg_extension_config_dump('howdah_shards.map', '');

-- The map, read from the catalog.

CREATE VIEW howdah_shards._shards AS
SELECT s.oid, s.srvname::text AS shard, s.srvversion::int AS number, s.srvoptions AS options
FROM pg_catalog.pg_foreign_server s
JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
WHERE s.srvtype = 'howdah_shard' AND w.fdwname = 'postgres_fdw';

CREATE VIEW howdah_shards._slots AS
SELECT t.relation, t.colocation, c.oid::regclass AS slot_relation, c.relname::text AS slot_name,
    (b.bound)[1]::int AS modulus, (b.bound)[2]::int AS slot, s.shard
FROM howdah_shards.tables t
JOIN pg_catalog.pg_inherits i ON i.inhparent = t.relation
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = c.oid
JOIN howdah_shards._shards s ON s.oid = f.ftserver
-- As it is stored: pg_get_expr would know nothing of a partition that was dropped after the query's snapshot.
CROSS JOIN LATERAL (SELECT pg_catalog.regexp_match(c.relpartbound::text, ':modulus (\d+) :remainder (\d+)') AS bound) b
WHERE t.kind = 'sharded';

CREATE VIEW howdah_shards.routes AS
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, t.kind, a.attname::text AS key_name,
    pg_catalog.format_type(k.base, NULL) AS key_type,
    (SELECT pg_catalog.count(*)::int FROM pg_catalog.pg_attribute o
     WHERE o.attrelid = a.attrelid AND o.attnum BETWEEN 1 AND a.attnum AND NOT o.attisdropped) AS key_position,
    s.modulus, s.slot, s.shard
FROM howdah_shards.tables t
JOIN pg_catalog.pg_class c ON c.oid = t.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_partitioned_table p ON p.partrelid = c.oid
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
JOIN howdah_shards._slots s ON s.relation = t.relation
CROSS JOIN LATERAL (
    -- A domain may be over a domain.
    WITH RECURSIVE d AS (
        SELECT y.oid, y.typtype, y.typbasetype FROM pg_catalog.pg_type y WHERE y.oid = a.atttypid
        UNION ALL
        SELECT y.oid, y.typtype, y.typbasetype FROM d JOIN pg_catalog.pg_type y ON y.oid = d.typbasetype AND d.typtype = 'd'
    )
    SELECT d.oid AS base FROM d WHERE d.typtype <> 'd'
) k
WHERE t.kind = 'sharded'
UNION ALL
SELECT n.nspname::text, c.relname::text, t.kind, NULL, NULL, NULL, NULL, NULL, NULL
FROM howdah_shards.tables t
JOIN pg_catalog.pg_class c ON c.oid = t.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.kind <> 'sharded';
COMMENT ON VIEW howdah_shards.routes IS
'What a router has to know: a row for each slot of a sharded table, and one for each reference table, and for each of the
tables of models (kind models), whose columns after kind are null. key_type is the key''s type, that of a domain its base type; key_position counts the columns that are not
dropped, from 1. A row belongs to the slot for which satisfies_hash_partition is true. A reference table is on each shard that has a slot, and so are the models. Valid for howdah_shards.map_version() in the same query.';

CREATE FUNCTION howdah_shards.map_version() RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT coalesce((SELECT m.version FROM howdah_shards.map m), 0) $$;
COMMENT ON FUNCTION howdah_shards.map_version() IS
'The version of the map: it rises with each commit that changes the view routes. 0: nothing was ever sharded.';

CREATE FUNCTION howdah_shards.lease() RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT coalesce((SELECT m.lease FROM howdah_shards.map m), interval '5 seconds') $$;
COMMENT ON FUNCTION howdah_shards.lease() IS
'How long a router may use a map after it has last asked for its version. A slot that was moved is removed from its old
place after that time. 5 seconds unless howdah_shards.set_lease says another.';

CREATE FUNCTION howdah_shards.set_lease(lease interval) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF set_lease.lease IS NULL OR set_lease.lease <= interval '0' THEN
        RAISE EXCEPTION 'lease must be longer than nothing, and is %', coalesce(set_lease.lease::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A few seconds do: SELECT howdah_shards.set_lease(''5 seconds'').';
    END IF;
    INSERT INTO howdah_shards.map AS m (lease) VALUES (set_lease.lease)
        ON CONFLICT (one) DO UPDATE SET lease = excluded.lease;
END
$$;
COMMENT ON FUNCTION howdah_shards.set_lease(interval) IS
'Changes howdah_shards.lease(). Routers hear of it when they next read the map. Error 22023: not longer than nothing.';

-- Called after each change, and by DDL: gives the map a new version if it is another. Versions are at least the time in
-- milliseconds, so that a hub that was restored from a backup does not give a version twice.
CREATE FUNCTION howdah_shards._note_change() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    now_digest text;
BEGIN
    DELETE FROM howdah_shards.tables t WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.relation);
    SELECT md5(string_agg(r::text, E'\n' ORDER BY r::text)) INTO now_digest FROM howdah_shards.routes r;
    IF now_digest IS NOT DISTINCT FROM (SELECT m.digest FROM howdah_shards.map m) THEN
        RETURN;
    END IF;
    INSERT INTO howdah_shards.map AS m (version, digest)
        VALUES (floor(extract(epoch FROM clock_timestamp()) * 1000), now_digest)
        ON CONFLICT (one) DO UPDATE SET version = greatest(m.version + 1, excluded.version), digest = excluded.digest;
END
$$;

CREATE FUNCTION howdah_shards._on_ddl() RETURNS event_trigger
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM howdah_shards._note_change();
END
$$;

-- How the shards are asked.

CREATE FUNCTION howdah_shards._conninfo(shard text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT string_agg(format('%s=''%s''', o.option_name,
        replace(replace(o.option_value, '\', '\\'), '''', '\''')), ' ')
    FROM (
        SELECT x.* FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) x WHERE s.srvname = shard
        UNION ALL
        SELECT x.* FROM (
            SELECT m.umoptions FROM pg_user_mappings m
            WHERE m.srvname = shard AND m.usename IN (current_user, 'public')
            ORDER BY m.usename = current_user DESC LIMIT 1
        ) m, pg_options_to_table(m.umoptions) x
    ) o
    -- The rest of what is set there is postgres_fdw's own.
    WHERE o.option_name NOT IN ('use_remote_estimate', 'fdw_startup_cost', 'fdw_tuple_cost', 'extensions', 'updatable',
        'truncatable', 'fetch_size', 'batch_size', 'async_capable', 'analyze_sampling', 'keep_connections',
        'parallel_commit', 'parallel_abort', 'password_required', 'use_scram_passthrough')
$$;

-- dblink may be in any schema, and may be moved.
CREATE FUNCTION howdah_shards._dblink(name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('%I.%I', n.nspname, name) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'dblink'
$$;

-- With the settings of our connections: names in definitions are written in full when nothing but pg_catalog is in the path.
CREATE FUNCTION howdah_shards._options(conninfo text) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT 'connect_timeout=10 ' || conninfo || ' application_name=howdah_shards'
        ' options=''-csearch_path=pg_catalog -cclient_min_messages=warning -clock_timeout=300ms'''
$$;

-- The rows of a query on a shard, as JSON.
CREATE FUNCTION howdah_shards._ask(shard text, query text, conninfo text DEFAULT NULL) RETURNS SETOF jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    said text;
BEGIN
    RETURN QUERY EXECUTE format('SELECT r::jsonb FROM %s($1, $2) AS t(r text)', howdah_shards._dblink('dblink'))
        USING howdah_shards._options(coalesce(conninfo, howdah_shards._conninfo(shard))),
            format('SELECT pg_catalog.to_jsonb(q)::text FROM (%s) q', query);
EXCEPTION WHEN sqlclient_unable_to_establish_sqlconnection THEN
    GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION 'shard "%" does not answer', shard USING ERRCODE = 'sqlclient_unable_to_establish_sqlconnection',
        DETAIL = said, HINT = 'Check its address and the user mapping on the hub, and repeat the call.';
END
$$;

-- Runs statements on a shard, as one transaction unless they say otherwise themselves. The hub's statements lock a slot and then
-- its table (a check of the hash partition opens it), those of clients of the shard the table and then the slot: a change of both
-- is in the way of one or the other. So it waits for locks less than deadlock_timeout, and tries again for some seconds.
CREATE FUNCTION howdah_shards._exec(shard text, statements text, locked boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    said text;
BEGIN
    FOR attempt IN 1..30 LOOP
        BEGIN
            EXECUTE format('SELECT %s($1, $2)', howdah_shards._dblink('dblink_exec'))
                USING howdah_shards._options(howdah_shards._conninfo(shard)),
                    CASE WHEN locked THEN E'DO $_$ BEGIN PERFORM pg_advisory_xact_lock(7237130); END $_$;\n' ELSE '' END || statements;
            RETURN;
        EXCEPTION
            WHEN lock_not_available OR deadlock_detected THEN
                IF attempt = 30 THEN
                    RAISE;
                END IF;
                PERFORM pg_sleep(0.05 + random() * 0.1);
            WHEN sqlclient_unable_to_establish_sqlconnection THEN
                GET STACKED DIAGNOSTICS said = PG_EXCEPTION_DETAIL;
                RAISE EXCEPTION 'shard "%" does not answer', shard USING ERRCODE = 'sqlclient_unable_to_establish_sqlconnection',
                    DETAIL = said, HINT = 'Check its address and the user mapping on the hub, and repeat the call.';
        END;
    END LOOP;
END
$$;

-- Locks tables of the hub against everybody, as patiently.
CREATE FUNCTION howdah_shards._lock(tables text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '300ms'
AS $$
BEGIN
    FOR attempt IN 1..30 LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', tables);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF attempt = 30 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.05 + random() * 0.1);
        END;
    END LOOP;
END
$$;

-- Steps: what a call does, as statements, of the hub (server is null) or of a shard.

CREATE TYPE howdah_shards.step AS (server text, statement text);

-- Runs the steps in their order; those of one shard that follow each other are one transaction there.
CREATE FUNCTION howdah_shards._run(steps howdah_shards.step[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
BEGIN
    FOR s IN
        SELECT g.server, string_agg(g.statement, E';\n' ORDER BY g.ord) AS statements
        FROM (
            SELECT u.*, count(*) FILTER (WHERE u.starts) OVER (ORDER BY u.ord) AS part
            FROM (
                SELECT x.*, x.server IS NULL OR x.server IS DISTINCT FROM lag(x.server) OVER (ORDER BY x.ord) AS starts
                FROM unnest(steps) WITH ORDINALITY AS x(server, statement, ord)
            ) u
        ) g
        GROUP BY g.part, g.server ORDER BY g.part
    LOOP
        IF s.server IS NULL THEN
            EXECUTE s.statements;
        ELSE
            PERFORM howdah_shards._exec(s.server, s.statements);
        END IF;
    END LOOP;
END
$$;

-- The statement that this session runs, as jobs know it.
CREATE FUNCTION howdah_shards._owner() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$ SELECT format('%s/%s', a.pid, extract(epoch FROM a.query_start)) FROM pg_stat_get_activity(pg_backend_pid()) a $$;

-- Whether the statement of a job still runs, in another session.
CREATE FUNCTION howdah_shards._runs_elsewhere(owner text) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$
    SELECT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid() AND a.state = 'active'
        AND format('%s/%s', a.pid, extract(epoch FROM a.query_start)) = owner)
$$;

-- What every call that changes something begins with: one at a time, and none after one that was not finished.
CREATE FUNCTION howdah_shards._begin() RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    j howdah_shards.jobs;
BEGIN
    LOCK TABLE howdah_shards.tables IN SHARE ROW EXCLUSIVE MODE;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    FOR j IN SELECT * FROM howdah_shards.jobs LOOP
        IF howdah_shards._runs_elsewhere(j.owner) THEN
            RAISE EXCEPTION '% runs in another session', j.what->>'call' USING ERRCODE = 'object_in_use',
                HINT = 'Repeat the call when it has ended.';
        ELSIF j.owner <> howdah_shards._owner() THEN
            RAISE EXCEPTION '% was not finished', j.what->>'call' USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'CALL howdah_shards.recover() undoes it, or completes it if it was decided.';
        END IF;
    END LOOP;
END
$$;

-- What a table is made of, as statements that make it elsewhere.

-- A query that runs on any server: the parts of a table of that server. The statements name objects in full if only
-- pg_catalog is in the path.
CREATE FUNCTION howdah_shards._parts_query(schema_name text, table_name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $f$ SELECT replace(replace($q$
    WITH t AS (
        SELECT c.*, format('%I.%I', n.nspname, c.relname) AS name
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = @schema AND c.relname = @table
    ), a AS (
        SELECT a.*, t.name, t.relacl, t.relowner, pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS expression
        FROM t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    ), grants AS (
        SELECT a.attnum::int AS ord, a.name, format('%s (%I)', x.privilege_type, a.attname) AS privilege, x.*
        FROM a, pg_catalog.aclexplode(a.attacl) x
        UNION ALL
        SELECT 0, t.name, x.privilege_type, x.* FROM t, pg_catalog.aclexplode(t.relacl) x WHERE x.grantee <> t.relowner
    )
    SELECT 'column' AS part, a.attnum::int AS ord, a.attname::text AS name, pg_catalog.concat_ws(' ',
        format('%I %s', a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)),
        (SELECT format('COLLATE %I.%I', n.nspname, l.collname)
         FROM pg_catalog.pg_collation l JOIN pg_catalog.pg_namespace n ON n.oid = l.collnamespace
         JOIN pg_catalog.pg_type y ON y.oid = a.atttypid WHERE l.oid = a.attcollation AND y.typcollation <> l.oid),
        CASE WHEN a.attgenerated <> '' THEN format('GENERATED ALWAYS AS (%s) %s', a.expression,
            CASE a.attgenerated WHEN 's' THEN 'STORED' ELSE 'VIRTUAL' END) END,
        CASE WHEN a.attnotnull THEN 'NOT NULL' END) AS statement
    FROM a
    UNION ALL
    SELECT 'generated', a.attnum, a.attname, NULL FROM a WHERE a.attgenerated <> ''
    UNION ALL
    -- The sequences of serial and identity columns; the statement is what the sequence counts, as JSON.
    SELECT 'sequence', a.attnum, a.attname, pg_catalog.json_build_object(
        'schema', n.nspname, 'name', s.relname, 'type', pg_catalog.format_type(q.seqtypid, NULL),
        'identity', a.attidentity, 'increment', q.seqincrement, 'cycle', q.seqcycle, 'start', q.seqstart)::text
    FROM a
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = a.attrelid
        AND d.refobjsubid = a.attnum AND d.classid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')
    JOIN pg_catalog.pg_sequence q ON q.seqrelid = d.objid
    JOIN pg_catalog.pg_class s ON s.oid = d.objid
    JOIN pg_catalog.pg_namespace n ON n.oid = s.relnamespace
    UNION ALL
    SELECT 'default', a.attnum, a.attname, format('ALTER TABLE %s ALTER %I SET DEFAULT %s', a.name, a.attname, a.expression)
    FROM a WHERE a.expression IS NOT NULL AND a.attgenerated = ''
    UNION ALL
    SELECT CASE k.contype WHEN 'c' THEN 'check' WHEN 'f' THEN 'foreign key' ELSE 'constraint' END,
        CASE k.contype WHEN 'p' THEN 0 ELSE k.oid::bigint END, k.conname,
        format('ALTER TABLE %s ADD CONSTRAINT %I %s', t.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid))
    FROM t JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid
    WHERE k.contype IN ('c', 'f', 'p', 'u', 'x') AND k.conparentid = 0
    UNION ALL
    SELECT 'index', i.indexrelid::bigint, c.relname,
        pg_catalog.replace(pg_catalog.pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ')
    FROM t JOIN pg_catalog.pg_index i ON i.indrelid = t.oid JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    WHERE i.indislive AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint k
        WHERE k.conindid = i.indexrelid AND k.conrelid = t.oid AND k.contype IN ('p', 'u', 'x'))
    UNION ALL
    SELECT 'statistics', s.oid::bigint, s.stxname, pg_catalog.pg_get_statisticsobjdef(s.oid)
    FROM t JOIN pg_catalog.pg_statistic_ext s ON s.stxrelid = t.oid
    UNION ALL
    SELECT 'trigger', g.oid::bigint, g.tgname, pg_catalog.concat_ws('; ', pg_catalog.pg_get_triggerdef(g.oid),
        CASE g.tgenabled WHEN 'D' THEN format('ALTER TABLE %s DISABLE TRIGGER %I', t.name, g.tgname)
            WHEN 'A' THEN format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.name, g.tgname)
            WHEN 'R' THEN format('ALTER TABLE %s ENABLE REPLICA TRIGGER %I', t.name, g.tgname) END)
    FROM t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal AND g.tgparentid = 0
    UNION ALL
    SELECT 'comment', 0, '', format('COMMENT ON TABLE %s IS %L', t.name, pg_catalog.obj_description(t.oid, 'pg_class'))
    FROM t WHERE pg_catalog.obj_description(t.oid, 'pg_class') IS NOT NULL
    UNION ALL
    SELECT 'comment', a.attnum, a.attname, format('COMMENT ON COLUMN %s.%I IS %L', a.name, a.attname,
        pg_catalog.col_description(a.attrelid, a.attnum))
    FROM a WHERE pg_catalog.col_description(a.attrelid, a.attnum) IS NOT NULL
    UNION ALL
    -- Rights have the name of the role, without which the statement is left out; PUBLIC is always there.
    SELECT 'right', -1, pg_catalog.pg_get_userbyid(t.relowner), format('ALTER TABLE %s OWNER TO %I', t.name,
        pg_catalog.pg_get_userbyid(t.relowner)) FROM t
    UNION ALL
    SELECT 'right', g.ord, CASE WHEN g.grantee <> 0 THEN pg_catalog.pg_get_userbyid(g.grantee) END,
        format('GRANT %s ON TABLE %s TO %s%s', g.privilege, g.name,
            CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END,
            CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' END)
    FROM grants g
$q$, '@schema', quote_literal(schema_name)), '@table', quote_literal(table_name)) $f$;

CREATE TYPE howdah_shards.part AS (part text, ord bigint, name text, statement text);

-- The parts of a table of the hub (server is null) or of a shard, in the order in which they can be made.
CREATE FUNCTION howdah_shards._parts(server text, schema_name text, table_name text) RETURNS SETOF howdah_shards.part
LANGUAGE plpgsql SET search_path = pg_catalog
AS $$
BEGIN
    IF server IS NULL THEN
        RETURN QUERY EXECUTE format('SELECT part, ord::bigint, name::text, statement FROM (%s) q ORDER BY part, ord',
            howdah_shards._parts_query(schema_name, table_name));
    ELSE
        RETURN QUERY SELECT p.* FROM howdah_shards._ask(server, howdah_shards._parts_query(schema_name, table_name)) r,
            jsonb_populate_record(NULL::howdah_shards.part, r) p ORDER BY p.part, p.ord;
    END IF;
END
$$;

-- How far apart the ids of a sequence are, so that the hub (number 0) and each shard (its number) have their own.
CREATE FUNCTION howdah_shards._stride(type text) RETURNS int
LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE type WHEN 'bigint' THEN 1024 WHEN 'integer' THEN 64 END $$;

-- A statement that runs if there is such a role.
CREATE FUNCTION howdah_shards._if_role(role text, statement text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$
    SELECT CASE WHEN role IS NULL THEN statement ELSE
        format('DO %L', format('BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = %L) THEN EXECUTE %L; END IF; END',
            role, statement)) END
$$;

-- The statements that make a sharded table without slots, or a plain one if key is null. `number` is the shard's, 0 the
-- hub's; `base` is where the ids of each column with a sequence begin, by the column's name.
CREATE FUNCTION howdah_shards._table_statements(parts howdah_shards.part[], name text, key text, number int, base jsonb)
RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog
AS $$
DECLARE
    p howdah_shards.part;
    q jsonb;
    step int;
    numbers text;
BEGIN
    RETURN NEXT format('CREATE TABLE %s (%s)%s', name,
        (SELECT string_agg(x.statement, ', ' ORDER BY x.ord) FROM unnest(parts) x WHERE x.part = 'column'),
        CASE WHEN key IS NOT NULL THEN format(' PARTITION BY HASH (%I)', key) END);
    FOR p IN SELECT * FROM unnest(parts) x WHERE x.part = 'sequence' ORDER BY x.ord LOOP
        q := p.statement::jsonb;
        step := CASE WHEN key IS NULL THEN 1 ELSE howdah_shards._stride(q->>'type') END;
        numbers := format('INCREMENT BY %s START WITH %s', step, (base->>p.name)::bigint + number);
        IF q->>'identity' <> '' THEN
            RETURN NEXT format('ALTER TABLE %s ALTER %I ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %I.%I %s)', name, p.name,
                -- The hub sends its ids to the partitions of the shards, which from 17 on would refuse them.
                CASE WHEN q->>'identity' = 'a' AND number = 0 THEN 'ALWAYS' ELSE 'BY DEFAULT' END,
                q->>'schema', q->>'name', numbers);
        ELSIF number > 0 THEN
            RETURN NEXT format('CREATE SEQUENCE %I.%I AS %s %s OWNED BY %s.%I', q->>'schema', q->>'name', q->>'type',
                numbers, name, p.name);
        ELSE
            RETURN NEXT format('ALTER SEQUENCE %I.%I INCREMENT BY %s RESTART WITH %s OWNED BY %s.%I', q->>'schema', q->>'name',
                step, base->>p.name, name, p.name);
        END IF;
    END LOOP;
    RETURN QUERY SELECT x.statement FROM unnest(parts) x WHERE x.part IN ('default', 'check') ORDER BY x.part DESC, x.ord;
    RETURN QUERY SELECT x.statement FROM unnest(parts) x WHERE x.part = 'comment' ORDER BY x.ord;
    RETURN QUERY SELECT howdah_shards._if_role(x.name, x.statement) FROM unnest(parts) x WHERE x.part = 'right' ORDER BY x.ord;
END
$$;

-- What only the shards' tables have: the second part of their statements, after the slots.
CREATE FUNCTION howdah_shards._shard_statements(parts howdah_shards.part[],
    kinds text[] DEFAULT ARRAY['constraint', 'index', 'statistics', 'foreign key', 'trigger']) RETURNS SETOF text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$
    SELECT x.statement FROM unnest(parts) x, array_position(kinds, x.part) AS place
    WHERE place IS NOT NULL ORDER BY place, x.ord
$$;

-- The name of a slot's table, the same on the hub and on its shard.
CREATE FUNCTION howdah_shards._slot_name(table_name text, slot int) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$
    SELECT CASE WHEN octet_length(table_name) <= 57 THEN table_name
        -- 40 characters may be more than 57 bytes.
        ELSE left(table_name, 12) || '_' || left(md5(table_name), 8) END || '_s' || slot
$$;

-- Shards.

-- This hub, and this transaction of it: what says later whether what it made on a shard counts.
CREATE FUNCTION howdah_shards._transaction() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$
    SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), d.oid, pg_current_xact_id())
    FROM pg_database d WHERE d.datname = current_database()
$$;

-- The settings of a libpq connection string.
CREATE FUNCTION howdah_shards._settings(conninfo text) RETURNS TABLE (name text, value text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog
AS $f$
BEGIN
    IF conninfo IS NULL OR conninfo !~ '^\s*(\w+\s*=\s*(''([^''\\]|\\.)*''|[^\s'']\S*)(\s+|$))+$' THEN
        RAISE EXCEPTION 'conninfo is not a connection string of settings and values'
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Write it so: host=db1.example port=5432 dbname=app user=howdah password=''secret''. URLs are not taken.';
    END IF;
    RETURN QUERY SELECT lower(m[1]), regexp_replace(regexp_replace(m[2], '^''(.*)''$', '\1'), '\\(.)', '\1', 'g')
        FROM regexp_matches(conninfo, '(\w+)\s*=\s*(''(?:[^''\\]|\\.)*''|[^\s'']\S*)', 'g') m;
END
$f$;

-- What is compared between the hub and its shards, asked of either.
CREATE FUNCTION howdah_shards._facts_query() RETURNS text
LANGUAGE sql IMMUTABLE
AS $f$ SELECT $q$
    SELECT current_setting('server_version_num')::int AS version, pg_catalog.pg_encoding_to_char(d.encoding) AS encoding,
        pg_catalog.concat_ws('/', coalesce(j->>'datlocprovider', 'c'), d.datcollate, d.datctype,
            coalesce(j->>'datlocale', j->>'daticulocale')) AS collation,
        j->>'datcollversion' AS collation_version,
        pg_catalog.has_database_privilege(d.oid, 'CREATE') AS may_create, current_user AS "user",
        current_setting('max_prepared_transactions')::int AS prepared, current_setting('wal_level') AS wal_level,
        pg_catalog.pg_is_in_recovery() AS standby,
        (SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/' || d.oid AS identity
    FROM pg_catalog.pg_database d, pg_catalog.to_jsonb(d) j WHERE d.datname = current_database()
$q$ $f$;

CREATE FUNCTION howdah_shards.add_shard(name text, conninfo text, dry_run boolean DEFAULT false)
RETURNS TABLE (server text, statement text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    shard alias FOR name;
    here jsonb;
    there jsonb;
    other record;
    settings text;
    login text;
    number int;
    steps howdah_shards.step[] := '{}';
    reached text := conninfo;
BEGIN
    PERFORM howdah_shards._begin();
    IF coalesce(shard, '') IN ('', 'hub') OR octet_length(shard) > 63 THEN
        RAISE EXCEPTION '"%" cannot be the name of a shard', coalesce(shard, '') USING ERRCODE = 'invalid_name',
            HINT = 'A name has 1 to 63 bytes, and is not hub.';
    END IF;
    SELECT string_agg(format('%I %L', s.name, s.value), ', ') FILTER (WHERE s.name NOT IN ('user', 'password', 'sslpassword')),
        string_agg(format('%I %L', s.name, s.value), ', ') FILTER (WHERE s.name IN ('user', 'password', 'sslpassword'))
    INTO settings, login FROM howdah_shards._settings(conninfo) s;
    IF NOT EXISTS (SELECT FROM howdah_shards._settings(conninfo) s WHERE s.name = 'dbname') THEN
        RAISE EXCEPTION 'conninfo of shard "%" names no database', shard USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Add dbname=...';
    END IF;
    IF NOT EXISTS (SELECT FROM howdah_shards._settings(conninfo) s WHERE s.name = 'user') THEN
        -- libpq's default would be the account that the hub's server runs as.
        login := concat_ws(', ', format('"user" %L', current_user), login);
        reached := format('%s user=''%s''', conninfo, replace(replace(current_user, '\', '\\'), '''', '\'''));
    END IF;
    there := howdah_shards._ask(shard, howdah_shards._facts_query(), reached);
    EXECUTE format('SELECT to_jsonb(q) FROM (%s) q', howdah_shards._facts_query()) INTO here;
    IF (there->>'version')::int < 140000 THEN
        RAISE EXCEPTION 'shard "%" is PostgreSQL %', shard, (there->>'version')::int / 10000
            USING ERRCODE = 'feature_not_supported', HINT = 'Shards are PostgreSQL 14 or newer.';
    ELSIF (there->>'standby')::boolean THEN
        RAISE EXCEPTION 'shard "%" is a standby', shard USING ERRCODE = 'read_only_sql_transaction',
            HINT = 'Name the primary.';
    ELSIF there->>'encoding' <> here->>'encoding' OR there->>'collation' <> here->>'collation' THEN
        RAISE EXCEPTION 'shard "%" has the encoding % and the collation %, and the hub has % and %', shard,
            there->>'encoding', there->>'collation', here->>'encoding', here->>'collation'
            USING ERRCODE = 'collation_mismatch',
            DETAIL = 'The hub merges what shards sort and compare, so both have to do it alike.',
            HINT = 'Make the shard''s database with the encoding, the locale and the locale provider of the hub''s.';
    ELSIF NOT (there->>'may_create')::boolean THEN
        RAISE EXCEPTION 'user "%" may not create schemas on shard "%"', there->>'user', shard
            USING ERRCODE = 'insufficient_privilege',
            HINT = format('There: GRANT CREATE ON DATABASE ... TO %I', there->>'user');
    ELSIF there->>'identity' = here->>'identity' THEN
        RAISE EXCEPTION 'shard "%" is the hub''s own database', shard USING ERRCODE = 'invalid_parameter_value',
            HINT = 'A shard is another database, on a server of its own if it is to help.';
    END IF;
    FOR other IN SELECT s.shard FROM howdah_shards._shards s WHERE s.shard <> add_shard.name LOOP
        IF (SELECT a->>'identity' FROM howdah_shards._ask(other.shard, howdah_shards._facts_query()) a) = there->>'identity' THEN
            RAISE EXCEPTION 'shard "%" is the same database as shard "%"', shard, other.shard
                USING ERRCODE = 'duplicate_object', HINT = 'Each shard is a database of its own.';
        END IF;
    END LOOP;
    IF there->>'collation_version' <> here->>'collation_version' THEN
        RAISE WARNING 'shard "%" has version % of the collation, and the hub has %', shard,
            there->>'collation_version', here->>'collation_version'
            USING HINT = 'Have the same operating system on all servers, or the order of texts may differ.';
    END IF;
    IF (there->>'prepared')::int = 0 THEN
        RAISE NOTICE 'shard "%" has max_prepared_transactions = 0, so run_on_shards commits one server after another', shard;
    END IF;
    IF there->>'wal_level' <> 'logical' THEN
        RAISE NOTICE 'shard "%" has wal_level = %, so no slot can be moved from it', shard, there->>'wal_level';
    END IF;

    IF EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = shard) THEN
        IF NOT EXISTS (SELECT FROM howdah_shards._shards s WHERE s.shard = add_shard.name) THEN
            RAISE EXCEPTION 'there is a foreign server "%" that is no shard', shard USING ERRCODE = 'duplicate_object',
                HINT = 'Give the shard another name.';
        ELSIF (SELECT a->>'identity' FROM howdah_shards._ask(shard, howdah_shards._facts_query()) a) <> there->>'identity' THEN
            RAISE EXCEPTION 'shard "%" is another database', shard USING ERRCODE = 'duplicate_object',
                HINT = format('Give the shard another name, or change the address of this one by ALTER SERVER %I.', shard);
        END IF;
        SELECT s.number INTO number FROM howdah_shards._shards s WHERE s.shard = add_shard.name;
    ELSE
        SELECT coalesce((SELECT m.shards_made FROM howdah_shards.map m), 0) + 1 INTO number;
        steps := steps || ARRAY[
            (NULL, 'INSERT INTO howdah_shards.map AS m (shards_made) VALUES (1)'
                ' ON CONFLICT (one) DO UPDATE SET shards_made = m.shards_made + 1')::howdah_shards.step,
            (NULL, format('CREATE SERVER %I TYPE ''howdah_shard'' VERSION %L FOREIGN DATA WRAPPER postgres_fdw OPTIONS (%s)',
                shard, number, concat_ws(', ', settings, 'batch_size ''1000''', 'fetch_size ''1000''',
                    'async_capable ''true''')))::howdah_shards.step,
            (NULL, format('CREATE USER MAPPING FOR CURRENT_USER SERVER %I OPTIONS (%s)', shard, login))::howdah_shards.step];
    END IF;
    steps := steps || (shard, howdah_shards._home())::howdah_shards.step;
    -- DDL for all shards finds the sharded tables on each of them.
    steps := steps || coalesce((SELECT array_agg((shard, n.statement)::howdah_shards.step ORDER BY n.phase, t.relation, n.ord)
        FROM howdah_shards.tables t
        CROSS JOIN LATERAL howdah_shards._new_home(t.relation, t.kind, shard, number) WITH ORDINALITY n(phase, statement, ord)), '{}');
    IF NOT dry_run THEN
        PERFORM howdah_shards._run(steps);
    END IF;
    -- A password is none of what is shown.
    RETURN QUERY SELECT coalesce(x.server, 'hub'), regexp_replace(x.statement, '((ssl)?password) ''(''''|[^''])*''', '\1 ''...''', 'g')
        FROM unnest(steps) x;
END
$$;
COMMENT ON FUNCTION howdah_shards.add_shard(text, text, boolean) IS
'Makes a database a shard: a foreign server of this name with a user mapping for the calling role. conninfo is libpq''s
(settings and values, no URL), as the hub''s server reaches it. With dry_run the statements are returned and not run; they are
returned otherwise too. A repeat completes what is missing. Other roles need user mappings of their own. Errors: 08001 does not
answer; 0A000 older than 14; 25006 a standby; 42P21 another encoding or collation than the hub''s; 42501 no right to create
schemas there; 42710 the name or the database is taken; 22023 conninfo is not understood, or is the hub itself; 42602 the name.';

-- The schema of ours on a shard: the tables that were made there for the hub, by which transaction of the hub; the runs of DDL
-- that were done; the trigger of a slot that moves away; and what has slots follow the rights of their tables, since the hub
-- reads and writes the slots themselves.
CREATE FUNCTION howdah_shards._home() RETURNS text
LANGUAGE sql IMMUTABLE
AS $f$ SELECT $q$CREATE SCHEMA IF NOT EXISTS howdah_shard;
GRANT USAGE ON SCHEMA howdah_shard TO PUBLIC;
CREATE TABLE IF NOT EXISTS howdah_shard.made (relation regclass PRIMARY KEY, transaction text NOT NULL);
COMMENT ON TABLE howdah_shard.made IS 'Tables that the hub of howdah_shards has made here, and its transaction that did';
CREATE TABLE IF NOT EXISTS howdah_shard.runs (id text PRIMARY KEY);
COMMENT ON TABLE howdah_shard.runs IS 'Runs of DDL of the hub''s run_on_shards that were done here';
CREATE OR REPLACE FUNCTION howdah_shard.moved() RETURNS trigger LANGUAGE plpgsql AS $b$
BEGIN
    RAISE EXCEPTION 'table % is moving to another server', TG_TABLE_NAME USING ERRCODE = 'serialization_failure',
        CONSTRAINT = 'howdah_shards_moved', HINT = 'Repeat the transaction: by then the map says where.';
END
$b$;
CREATE OR REPLACE FUNCTION howdah_shard.copied() RETURNS trigger LANGUAGE plpgsql AS $b$
BEGIN
    IF TG_TABLE_SCHEMA = 'pgml' THEN
        RAISE EXCEPTION 'the models of this database are the hub''s' USING ERRCODE = 'read_only_sql_transaction',
            HINT = 'Train, deploy and grant on the hub, from where the shards get the models.';
    END IF;
    RAISE EXCEPTION 'table % is a copy of the hub''s', TG_TABLE_NAME USING ERRCODE = 'read_only_sql_transaction',
        HINT = 'Write to it on the hub, from where the shards get it.';
END
$b$;
CREATE OR REPLACE FUNCTION howdah_shard.follow() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $b$
DECLARE
    r record;
    g record;
BEGIN
    DELETE FROM howdah_shard.made m WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = m.relation);
    FOR r IN
        SELECT c.oid AS slot, p.oid AS parent, c.oid::regclass AS name, c.relowner <> p.relowner AS other_owner,
            p.relowner, pg_get_userbyid(p.relowner) AS owner
        FROM howdah_shard.made m JOIN pg_class p ON p.oid = m.relation JOIN pg_inherits i ON i.inhparent = p.oid
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE c.relowner <> p.relowner OR c.relacl IS DISTINCT FROM p.relacl OR EXISTS (
            SELECT FROM pg_attribute a JOIN pg_attribute b ON b.attrelid = p.oid AND b.attname = a.attname
            WHERE a.attrelid = c.oid AND a.attacl IS DISTINCT FROM b.attacl)
    LOOP
        IF r.other_owner THEN
            EXECUTE format('ALTER TABLE %s OWNER TO %I', r.name, r.owner);
        END IF;
        FOR g IN
            SELECT 1 AS step, 'REVOKE ALL' AS what, 'FROM' AS word, x.grantee, false AS is_grantable
            FROM pg_class c, aclexplode(c.relacl) x WHERE c.oid = r.slot AND x.grantee <> r.relowner
            UNION
            SELECT 1, format('REVOKE ALL (%I)', a.attname), 'FROM', x.grantee, false
            FROM pg_attribute a, aclexplode(a.attacl) x WHERE a.attrelid = r.slot
            UNION
            SELECT 2, 'GRANT ' || x.privilege_type, 'TO', x.grantee, x.is_grantable
            FROM pg_class c, aclexplode(c.relacl) x WHERE c.oid = r.parent AND x.grantee <> r.relowner
            UNION
            SELECT 2, format('GRANT %s (%I)', x.privilege_type, a.attname), 'TO', x.grantee, x.is_grantable
            FROM pg_attribute a, aclexplode(a.attacl) x WHERE a.attrelid = r.parent
            ORDER BY 1
        LOOP
            EXECUTE format('%s ON %s %s %s %s', g.what, r.name, g.word,
                CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
                CASE WHEN g.is_grantable THEN 'WITH GRANT OPTION' END);
        END LOOP;
    END LOOP;
END
$b$;
REVOKE ALL ON FUNCTION howdah_shard.follow() FROM PUBLIC$q$ $f$;

-- The statement that has slots follow their tables' rights.
CREATE FUNCTION howdah_shards._follow() RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT 'DO ''BEGIN PERFORM howdah_shard.follow(); END''' $$;

-- The statement by which a shard notes that a table was made for the hub by this transaction.
CREATE FUNCTION howdah_shards._note_made(name text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$ SELECT format('INSERT INTO howdah_shard.made VALUES (%L, %L)', name, howdah_shards._transaction()) $$;

CREATE VIEW howdah_shards.shards AS
SELECT s.shard, s.number,
    (SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.options) o WHERE o.option_name = 'host') AS host,
    (SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.options) o WHERE o.option_name = 'port') AS port,
    (SELECT o.option_value FROM pg_catalog.pg_options_to_table(s.options) o WHERE o.option_name = 'dbname') AS dbname,
    (SELECT pg_catalog.count(*) FROM howdah_shards._slots l WHERE l.shard = s.shard) AS slots
FROM howdah_shards._shards s;
COMMENT ON VIEW howdah_shards.shards IS
'The shards: name, number (the remainder of the ids that its sequences give), address, and how many slots they have.';

-- What the slots of a shard take; nothing if it does not answer.
CREATE FUNCTION howdah_shards._sizes(shard text) RETURNS TABLE (schema_name text, slot_name text, rows bigint, bytes bigint)
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN QUERY SELECT a->>'nspname', a->>'relname', (a->>'rows')::bigint, (a->>'bytes')::bigint
        FROM howdah_shards._ask(shard, 'SELECT n.nspname, c.relname, pg_catalog.pg_total_relation_size(c.oid) AS bytes,
            CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint ELSE s.n_live_tup END AS rows
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
            WHERE c.relispartition AND c.relkind = ''r''') a;
EXCEPTION WHEN sqlclient_unable_to_establish_sqlconnection THEN
    RAISE WARNING 'shard "%" does not answer', shard;
END
$$;

CREATE VIEW howdah_shards.placements AS
SELECT s.relation AS "table", s.slot, s.shard, z.rows, z.bytes
FROM howdah_shards._slots s
JOIN pg_catalog.pg_class c ON c.oid = s.slot_relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN (SELECT h.shard, y.* FROM howdah_shards._shards h CROSS JOIN LATERAL howdah_shards._sizes(h.shard) y) z
    ON z.shard = s.shard AND z.schema_name = n.nspname AND z.slot_name = s.slot_name;
COMMENT ON VIEW howdah_shards.placements IS
'The slots of the sharded tables, their shards, and how many rows (an estimate of the shard''s) and bytes (with indexes) they
have; these are null while a shard does not answer. It asks all shards.';

-- The statements that make an existing table on a new shard, none if it is there: first the tables, then what refers to others.
CREATE FUNCTION howdah_shards._new_home(relation regclass, kind text, shard text, number int) RETURNS TABLE (phase int, statement text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    r record;
    parts howdah_shards.part[];
    base jsonb;
BEGIN
    SELECT n.nspname, c.relname, format('%I.%I', n.nspname, c.relname) AS name, a.attname INTO r
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0] WHERE c.oid = relation;
    IF EXISTS (SELECT FROM howdah_shards._shards s WHERE s.shard = _new_home.shard)
        AND EXISTS (SELECT FROM howdah_shards._ask(shard, format('SELECT 1 AS one WHERE to_regclass(%L) IS NOT NULL', r.name))) THEN
        RETURN;
    END IF;
    IF kind <> 'sharded' THEN
        -- The tables of models are those of an extension.
        RETURN QUERY SELECT 0, x FROM howdah_shards._copy_statements(relation) x WHERE kind = 'reference';
        RETURN;
    END IF;
    SELECT array_agg(p ORDER BY p.part, p.ord) INTO parts
    FROM howdah_shards._parts((SELECT min(s.shard) FROM howdah_shards._slots s WHERE s.relation = _new_home.relation),
        r.nspname, r.relname) p;
    -- Any multiple of the stride will do to begin at, since no other server has the remainder.
    SELECT coalesce(jsonb_object_agg(x.name, (x.statement::jsonb->>'start')::bigint / howdah_shards._stride(x.statement::jsonb->>'type')
        * howdah_shards._stride(x.statement::jsonb->>'type')), '{}') INTO base
    FROM unnest(parts) x WHERE x.part = 'sequence';
    RETURN QUERY SELECT 1, format('CREATE SCHEMA IF NOT EXISTS %I', r.nspname);
    RETURN QUERY SELECT 1, x FROM howdah_shards._table_statements(parts, r.name, r.attname, number, base) x;
    RETURN QUERY SELECT 1, x FROM howdah_shards._shard_statements(parts, ARRAY['constraint', 'index', 'statistics']) x;
    RETURN QUERY SELECT 1, howdah_shards._note_made(r.name);
    RETURN QUERY SELECT 2, x FROM howdah_shards._shard_statements(parts, ARRAY['foreign key', 'trigger']) x;
END
$$;

-- The statements that make the copy of a reference table on a shard, without its rows.
CREATE FUNCTION howdah_shards._copy_statements(relation regclass) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
    parts howdah_shards.part[];
BEGIN
    SELECT n.nspname, c.relname, format('%I.%I', n.nspname, c.relname) AS name INTO t
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    SELECT array_agg(p ORDER BY p.part, p.ord) INTO parts FROM howdah_shards._parts(NULL, t.nspname, t.relname) p;
    RETURN NEXT format('CREATE SCHEMA IF NOT EXISTS %I', t.nspname);
    RETURN NEXT format('CREATE TABLE %s (%s)', t.name,
        (SELECT string_agg(x.statement, ', ' ORDER BY x.ord) FROM unnest(parts) x WHERE x.part = 'column'));
    RETURN QUERY SELECT howdah_shards._shard_statements(parts, ARRAY['constraint', 'index', 'statistics', 'comment']);
    RETURN QUERY SELECT howdah_shards._if_role(x.name, x.statement) FROM unnest(parts) x WHERE x.part = 'right' ORDER BY x.ord;
    RETURN NEXT format('CREATE TRIGGER howdah_shards_copied BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
        'FOR EACH STATEMENT EXECUTE FUNCTION howdah_shard.copied()', t.name);
    RETURN NEXT format('INSERT INTO howdah_shard.made VALUES (%L, ''copy'')', t.name);
END
$$;

-- Sharded tables.

-- The name of a table in full.
CREATE FUNCTION howdah_shards._name(relation oid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;

-- Raises unless the name is free on a shard; gives the statement that removes what a failed call has left there, or null.
CREATE FUNCTION howdah_shards._free_name(shard text, name text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog
AS $$
DECLARE
    made text;
    hub text := regexp_replace(howdah_shards._transaction(), '/\d+$', '');
    found jsonb;
BEGIN
    SELECT a INTO found FROM howdah_shards._ask(shard, format(
        'SELECT (SELECT m.transaction FROM howdah_shard.made m WHERE m.relation = to_regclass(%L)) AS made, to_regclass(%1$L) IS NOT NULL AS taken',
        name)) a;
    IF NOT (found->>'taken')::boolean THEN
        RETURN NULL;
    END IF;
    made := found->>'made';
    IF made IS NULL OR regexp_replace(made, '/\d+$', '') <> hub
        OR pg_xact_status(substring(made FROM '\d+$')::xid8) IS DISTINCT FROM 'aborted' THEN
        RAISE EXCEPTION 'there is a table % on shard "%"', name, shard USING ERRCODE = 'duplicate_table',
            HINT = 'Its rows are none of this table''s: save what is of use, and drop it there.';
    END IF;
    RETURN format('DROP TABLE %s', name);
END
$$;

-- Raises the reason for which a table cannot be sharded by a key.
CREATE FUNCTION howdah_shards._check_table(relation regclass, key name, with_table regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog
AS $$
#variable_conflict use_variable
DECLARE
    t record;
    k record;
    o record;
    other_key record;
BEGIN
    SELECT c.*, pg_get_userbyid(c.relowner) AS owner INTO t FROM pg_class c WHERE c.oid = relation;
    IF NOT pg_has_role(t.relowner, 'USAGE') THEN
        RAISE EXCEPTION 'table % is not yours', relation USING ERRCODE = 'insufficient_privilege',
            HINT = format('Call the function as %I, or as a superuser.', t.owner);
    ELSIF t.relkind <> 'r' OR t.relpersistence <> 'p' OR t.reloftype <> 0 THEN
        RAISE EXCEPTION '% is not an ordinary table', relation USING ERRCODE = 'wrong_object_type',
            HINT = 'Sharded can be: a table that is neither partitioned, foreign, temporary, unlogged nor typed.';
    ELSIF EXISTS (SELECT FROM pg_inherits i WHERE relation IN (i.inhrelid, i.inhparent)) THEN
        RAISE EXCEPTION 'table % is part of an inheritance or a partition', relation USING ERRCODE = 'wrong_object_type',
            HINT = 'Detach it: ALTER TABLE ... NO INHERIT ..., or DETACH PARTITION.';
    ELSIF t.relrowsecurity OR EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = relation) THEN
        RAISE EXCEPTION 'table % has row security', relation USING ERRCODE = 'feature_not_supported',
            HINT = 'The roles of a query through the hub are those of its user mappings, so policies are not carried over.';
    ELSIF EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = relation) THEN
        RAISE EXCEPTION 'table % has rules', relation USING ERRCODE = 'feature_not_supported',
            HINT = 'Drop the rules; triggers for each row are carried over.';
    END IF;

    SELECT a.attnum, a.attgenerated, a.attcollation, y.oid AS type INTO k
    FROM pg_attribute a, LATERAL (
        WITH RECURSIVE d AS (
            SELECT y.oid, y.typtype, y.typbasetype FROM pg_type y WHERE y.oid = a.atttypid
            UNION ALL
            SELECT y.oid, y.typtype, y.typbasetype FROM d JOIN pg_type y ON y.oid = d.typbasetype AND d.typtype = 'd'
        ) SELECT d.oid FROM d WHERE d.typtype <> 'd') y
    WHERE a.attrelid = relation AND a.attname = key AND a.attnum > 0 AND NOT a.attisdropped;
    IF k IS NULL THEN
        RAISE EXCEPTION 'table % has no column "%"', relation, key USING ERRCODE = 'undefined_column',
            HINT = 'The key is one column of the table.';
    ELSIF k.attgenerated <> '' THEN
        RAISE EXCEPTION 'column "%" of table % is generated', key, relation USING ERRCODE = 'feature_not_supported',
            HINT = 'Choose a stored column as the key.';
    ELSIF k.type NOT IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'uuid'::regtype, 'text'::regtype,
            'varchar'::regtype, 'date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype) THEN
        RAISE EXCEPTION 'column "%" of table % has the type %', key, relation, k.type::regtype
            USING ERRCODE = 'datatype_mismatch', HINT = 'A key is smallint, integer, bigint, uuid, text, character varying, '
                'date, timestamp or timestamp with time zone, or a domain over one of them.';
    ELSIF EXISTS (SELECT FROM pg_collation l WHERE l.oid = k.attcollation AND NOT l.collisdeterministic) THEN
        RAISE EXCEPTION 'column "%" of table % has a collation that is not deterministic', key, relation
            USING ERRCODE = 'feature_not_supported', HINT = 'Texts that are equal need not have the same bytes: choose another collation.';
    END IF;

    FOR o IN SELECT i.*, c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = relation LOOP
        IF o.indisunique AND NOT k.attnum = ANY ((o.indkey::int2[])[0:o.indnkeyatts - 1]) THEN
            RAISE EXCEPTION 'unique index "%" of table % does not contain the key "%"', o.relname, relation, key
                USING ERRCODE = 'feature_not_supported', DETAIL = 'No shard can know what values the others have.',
                HINT = 'Have the key in it, or drop it.';
        ELSIF o.indisexclusion THEN
            RAISE EXCEPTION 'table % has the exclusion constraint "%"', relation, o.relname
                USING ERRCODE = 'feature_not_supported', HINT = 'Drop it.';
        ELSIF NOT o.indisvalid THEN
            RAISE EXCEPTION 'index "%" of table % is not valid', o.relname, relation
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'REINDEX it, or drop it.';
        END IF;
    END LOOP;

    IF with_table IS NOT NULL THEN
        SELECT p.partattrs[0] AS attnum, r.key_type INTO other_key
        FROM howdah_shards.routes r
        JOIN pg_partitioned_table p ON p.partrelid = with_table
        JOIN pg_class c ON c.oid = with_table AND c.relname = r.table_name AND c.relnamespace = r.schema_name::regnamespace
        WHERE r.kind = 'sharded' LIMIT 1;
        IF other_key IS NULL THEN
            RAISE EXCEPTION '% is not a sharded table', with_table USING ERRCODE = 'wrong_object_type',
                HINT = 'colocate_with names one that is: SELECT DISTINCT table_name FROM howdah_shards.routes.';
        ELSIF other_key.key_type <> format_type(k.type, NULL) THEN
            RAISE EXCEPTION 'key "%" of table % has the type %, and that of % has %', key, relation, k.type::regtype,
                with_table, other_key.key_type USING ERRCODE = 'datatype_mismatch',
                HINT = 'Equal values of different types are in different slots: change the type of one of them.';
        END IF;
    END IF;

    FOR o IN SELECT f.*, pg_get_constraintdef(f.oid) AS definition, r.kind FROM pg_constraint f
        LEFT JOIN howdah_shards.tables r ON r.relation = f.confrelid
        WHERE f.contype = 'f' AND relation IN (f.conrelid, f.confrelid) LOOP
        IF o.conrelid = relation AND o.kind = 'reference' THEN
            CONTINUE;
        ELSIF o.conrelid <> o.confrelid THEN
            RAISE EXCEPTION 'foreign key "%" is between % and %, which would not be on the same servers', o.conname,
                o.conrelid::regclass, o.confrelid::regclass USING ERRCODE = 'feature_not_supported',
                HINT = format('If both are to be sharded by the columns that refer to each other: ALTER TABLE %s DROP CONSTRAINT %I, '
                    'distribute both, and have the shards make it again: CALL howdah_shards.run_on_shards(%L, hub => false). '
                    'A small table that all refer to becomes one by CALL howdah_shards.reference_table.',
                    o.conrelid::regclass, o.conname, format('ALTER TABLE %s ADD CONSTRAINT %I %s', o.conrelid::regclass,
                        o.conname, o.definition));
        ELSIF array_position(o.conkey, k.attnum) IS NULL OR array_position(o.conkey, k.attnum)
                IS DISTINCT FROM array_position(o.confkey, k.attnum) THEN
            RAISE EXCEPTION 'foreign key "%" of table % to itself does not have the key "%" on both sides', o.conname,
                relation, key USING ERRCODE = 'feature_not_supported', HINT = 'Have the key in it, or drop it.';
        END IF;
    END LOOP;

    FOR o IN SELECT g.* FROM pg_trigger g WHERE g.tgrelid = relation AND NOT g.tgisinternal LOOP
        IF o.tgtype & 1 = 0 OR o.tgnewtable IS NOT NULL OR o.tgoldtable IS NOT NULL THEN
            RAISE EXCEPTION 'trigger "%" of table % is one for each statement, or has transition tables', o.tgname, relation
                USING ERRCODE = 'feature_not_supported',
                HINT = 'A statement through the hub is several on the shards: have a trigger for each row, or drop it.';
        END IF;
    END LOOP;
    FOR o IN SELECT a.attname, q.*, format_type(q.seqtypid, NULL) AS type FROM pg_depend d
        JOIN pg_sequence q ON q.seqrelid = d.objid
        JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = relation AND d.classid = 'pg_class'::regclass
            AND d.deptype IN ('a', 'i') LOOP
        IF howdah_shards._stride(o.type) IS NULL OR o.seqincrement <> 1 OR o.seqcycle THEN
            RAISE EXCEPTION 'the sequence of column "%" of table % cannot be divided between shards', o.attname, relation
                USING ERRCODE = 'feature_not_supported', DETAIL = 'It is a smallint, has an increment, or begins again.',
                HINT = 'Have a bigint or integer that counts by one, or a uuid.';
        END IF;
    END LOOP;
    FOR o IN SELECT a.attname, s.relname FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND p.refclassid = 'pg_class'::regclass
        JOIN pg_class s ON s.oid = p.refobjid AND s.relkind = 'S'
        WHERE d.adrelid = relation AND NOT EXISTS (SELECT FROM pg_depend w WHERE w.classid = 'pg_class'::regclass
            AND w.objid = s.oid AND w.refclassid = 'pg_class'::regclass AND w.refobjid = relation AND w.deptype = 'a') LOOP
        RAISE EXCEPTION 'the default of column "%" of table % uses sequence "%", which is not its own', o.attname, relation, o.relname
            USING ERRCODE = 'feature_not_supported',
            HINT = format('If no other table uses it: ALTER SEQUENCE %I OWNED BY %s.%I.', o.relname, relation, o.attname);
    END LOOP;
    FOR o IN SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0) AS what, d.classid FROM pg_depend d
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = relation
            AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass, 'pg_publication_rel'::regclass) LOOP
        RAISE EXCEPTION 'something depends on table %: %', relation, o.what USING ERRCODE = 'dependent_objects_still_exist',
            HINT = 'The hub''s table is replaced by a partitioned one: drop what depends on it, and make it again afterwards.';
    END LOOP;
END
$$;

-- Raises if a shard lacks a type or a function that the table's definition names, or has another enumeration.
CREATE FUNCTION howdah_shards._check_shard(relation regclass, shard text, with_triggers boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog
AS $$
DECLARE
    o record;
    there jsonb;
    in_use bigint;
BEGIN
    FOR o IN
        SELECT DISTINCT format_type(y.oid, NULL) AS type, (SELECT jsonb_agg(e.enumlabel ORDER BY e.enumsortorder)
            FROM pg_enum e WHERE e.enumtypid = y.oid) AS labels
        FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
        WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND y.oid >= 16384
    LOOP
        there := howdah_shards._ask(shard, format('SELECT to_regtype(%L) AS type, (SELECT jsonb_agg(e.enumlabel
            ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = to_regtype(%1$L)) AS labels', o.type));
        IF there->>'type' IS NULL THEN
            RAISE EXCEPTION 'type % is not on shard "%"', o.type, shard USING ERRCODE = 'undefined_object',
                HINT = 'Make it there: CALL howdah_shards.run_on_shards(''CREATE TYPE ...'', hub => false).';
        ELSIF nullif(there->'labels', 'null') IS DISTINCT FROM o.labels THEN
            RAISE EXCEPTION 'type % has other values on shard "%"', o.type, shard USING ERRCODE = 'datatype_mismatch',
                HINT = 'Have the same values in the same order: ALTER TYPE ... ADD VALUE.';
        END IF;
    END LOOP;
    IF NOT with_triggers THEN
        RETURN;
    END IF;
    FOR o IN
        SELECT DISTINCT g.tgfoid::regprocedure::text AS name FROM pg_trigger g WHERE g.tgrelid = relation AND NOT g.tgisinternal
    LOOP
        IF NOT EXISTS (SELECT FROM howdah_shards._ask(shard, format('SELECT 1 AS one WHERE to_regprocedure(%L) IS NOT NULL', o.name))) THEN
            RAISE EXCEPTION 'function % of a trigger is not on shard "%"', o.name, shard USING ERRCODE = 'undefined_function',
                HINT = 'Make it there: CALL howdah_shards.run_on_shards(pg_get_functiondef(...), hub => false).';
        END IF;
    END LOOP;
    IF EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = relation AND NOT g.tgisinternal) THEN
        BEGIN
            PERFORM howdah_shards._exec(shard, 'SET session_replication_role = replica');
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE EXCEPTION 'the triggers of table % would fire on shard "%" for its rows of today', relation, shard
                USING ERRCODE = 'insufficient_privilege',
                HINT = 'Let its user there SET session_replication_role, or drop the triggers and make them again afterwards.';
        END;
        -- A connection that this transaction has used keeps the settings that it has.
        SELECT n.nspname INTO o FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgres_fdw';
        EXECUTE format('SELECT %I.postgres_fdw_disconnect($1)', o.nspname) USING shard;
        EXECUTE format('SELECT count(*) FROM %I.postgres_fdw_get_connections() c WHERE c.server_name = $1', o.nspname) INTO in_use USING shard;
        IF in_use > 0 THEN
            RAISE EXCEPTION 'this transaction has used shard "%" before', shard USING ERRCODE = 'active_sql_transaction',
                HINT = 'Distribute a table with triggers in a transaction of its own.';
        END IF;
    END IF;
END
$$;

CREATE FUNCTION howdah_shards.distribute_table(relation regclass, key name, slots int DEFAULT NULL,
    colocate_with regclass DEFAULT NULL, dry_run boolean DEFAULT false)
RETURNS TABLE (server text, statement text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    rel alias FOR relation;
    modulus int;
    colocation int;
    was record;
    t record;
    s record;
    q record;
    parts howdah_shards.part[];
    placed text[];
    columns text;
    base jsonb := '{}';
    top bigint;
    steps howdah_shards.step[] := '{}';
    first_name text;
    old_name text;
    triggered boolean;
BEGIN
    PERFORM howdah_shards._begin();
    IF rel IS NULL OR key IS NULL THEN
        RAISE EXCEPTION 'relation and key must not be null' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'SELECT howdah_shards.distribute_table(''orders'', ''customer_id'').';
    END IF;
    SELECT c.relname::text, n.nspname::text, format('%I.%I', n.nspname, c.relname) AS name, c.reloptions INTO t
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = rel;
    IF t IS NULL THEN
        RAISE EXCEPTION 'there is no table %', rel USING ERRCODE = 'undefined_table', HINT = 'It was dropped a moment ago.';
    END IF;
    SELECT x.kind, x.colocation, r.key_name, r.modulus INTO was FROM howdah_shards.tables x
    LEFT JOIN howdah_shards.routes r ON r.schema_name = t.nspname AND r.table_name = t.relname WHERE x.relation = rel LIMIT 1;
    IF was.kind <> 'sharded' OR was.key_name <> key OR was.modulus <> slots
        OR was.colocation <> (SELECT x.colocation FROM howdah_shards.tables x WHERE x.relation = colocate_with) THEN
        RAISE EXCEPTION 'table % is already %', rel, coalesce(format('sharded by "%s" in %s slots', was.key_name, was.modulus), 'a reference table')
            USING ERRCODE = 'duplicate_object', HINT = 'CALL howdah_shards.undistribute_table first.';
    ELSIF was.kind IS NOT NULL THEN
        RETURN;
    END IF;
    IF NOT dry_run THEN
        PERFORM howdah_shards._lock(t.name);
    END IF;
    PERFORM howdah_shards._check_table(rel, key, colocate_with);
    IF colocate_with IS NULL THEN
        modulus := coalesce(slots, 32);
        colocation := 1 + coalesce((SELECT m.colocations_made FROM howdah_shards.map m), 0);
        steps := steps || (NULL, 'UPDATE howdah_shards.map SET colocations_made = colocations_made + 1')::howdah_shards.step;
    ELSE
        SELECT max(l.modulus), max(l.colocation) INTO modulus, colocation FROM howdah_shards._slots l WHERE l.relation = colocate_with;
        IF slots <> modulus THEN
            RAISE EXCEPTION 'slots must be % as those of %, and is %', modulus, colocate_with, slots
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave slots out.';
        END IF;
    END IF;
    IF modulus NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION 'slots must be 1 to 1024, and is %', modulus USING ERRCODE = 'invalid_parameter_value',
            HINT = 'It cannot be changed later: take as many as there could ever be shards, or some times that.';
    END IF;
    -- placed[slot + 1] is the slot's shard.
    IF colocate_with IS NULL THEN
        SELECT array_agg(h.shards[1 + slot % cardinality(h.shards)] ORDER BY slot) INTO placed
        FROM (SELECT array_agg(x.shard ORDER BY x.number) AS shards FROM howdah_shards._shards x) h, generate_series(0, modulus - 1) slot
        WHERE cardinality(h.shards) > 0;
    ELSE
        SELECT array_agg(l.shard ORDER BY l.slot) INTO placed FROM howdah_shards._slots l WHERE l.relation = colocate_with;
    END IF;
    IF placed IS NULL THEN
        RAISE EXCEPTION 'there is no shard' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'SELECT howdah_shards.add_shard(''s1'', ''host=... dbname=... user=... password=...'') first.';
    END IF;

    SELECT array_agg(p ORDER BY p.part, p.ord) INTO parts FROM howdah_shards._parts(NULL, t.nspname, t.relname) p;
    FOR q IN SELECT x.name, x.statement::jsonb AS j FROM unnest(parts) x WHERE x.part = 'sequence' LOOP
        EXECUTE format('SELECT greatest(0, max(%I), (SELECT last_value FROM %I.%I)) FROM %s', q.name, q.j->>'schema', q.j->>'name', t.name)
            INTO top;
        base := base || jsonb_build_object(q.name, (top / howdah_shards._stride(q.j->>'type') + 1) * howdah_shards._stride(q.j->>'type'));
    END LOOP;
    triggered := EXISTS (SELECT FROM unnest(parts) x WHERE x.part = 'trigger');

    FOR s IN SELECT x.* FROM howdah_shards._shards x ORDER BY x.number LOOP
        PERFORM howdah_shards._check_shard(rel, s.shard);
        PERFORM howdah_shards._check_references(s.shard);
        SELECT steps || array_agg((s.shard, y.statement)::howdah_shards.step ORDER BY y.phase, y.ord) INTO steps FROM (
            SELECT 1 AS phase, 1::bigint AS ord, howdah_shards._free_name(s.shard, t.name) AS statement
            UNION ALL
            SELECT 2, 1, format('CREATE SCHEMA IF NOT EXISTS %I', t.nspname)
            UNION ALL
            SELECT 3, x.ord, x.x FROM howdah_shards._table_statements(parts, t.name, key, s.number, base) WITH ORDINALITY x(x, ord)
            UNION ALL
            SELECT 4, slot, format('CREATE TABLE %I.%I PARTITION OF %s FOR VALUES WITH (MODULUS %s, REMAINDER %s)%s', t.nspname,
                howdah_shards._slot_name(t.relname, slot), t.name, modulus, slot, ' WITH (' || array_to_string(t.reloptions, ', ') || ')')
            FROM generate_series(0, modulus - 1) slot WHERE placed[slot + 1] = s.shard
            UNION ALL
            SELECT 5, x.ord, x.x FROM howdah_shards._shard_statements(parts) WITH ORDINALITY x(x, ord)
            UNION ALL
            SELECT 6, 1, howdah_shards._note_made(t.name)
            UNION ALL
            SELECT 7, 1, howdah_shards._follow()
        ) y WHERE y.statement IS NOT NULL;
    END LOOP;

    old_name := format('%I.%I', t.nspname, 'howdah_shards_old_' || rel::oid);
    SELECT string_agg(format('%I', x.name), ', ' ORDER BY x.ord) INTO columns FROM unnest(parts) x
    WHERE x.part = 'column' AND NOT EXISTS (SELECT FROM unnest(parts) g WHERE g.part = 'generated' AND g.name = x.name);
    SELECT steps || array_agg((NULL, y.statement)::howdah_shards.step ORDER BY y.phase, y.ord) INTO steps FROM (
        SELECT 1 AS phase, 0::bigint AS ord, format('ALTER TABLE %s RENAME TO %I', t.name, 'howdah_shards_old_' || rel::oid) AS statement
        UNION ALL
        SELECT 2, x.ord, CASE WHEN x.statement::jsonb->>'identity' <> '' THEN format('ALTER TABLE %s ALTER %I DROP IDENTITY', old_name, x.name)
            ELSE format('ALTER SEQUENCE %I.%I OWNED BY NONE', x.statement::jsonb->>'schema', x.statement::jsonb->>'name') END
        FROM unnest(parts) x WHERE x.part = 'sequence'
        UNION ALL
        SELECT 3, x.ord, x.x FROM howdah_shards._table_statements(parts, t.name, key, 0, base) WITH ORDINALITY x(x, ord)
        UNION ALL
        SELECT 4, slot, howdah_shards._foreign_slot(t.nspname, t.relname, howdah_shards._slot_name(t.relname, slot), modulus, slot, placed[slot + 1])
        FROM generate_series(0, modulus - 1) slot
        UNION ALL
        -- Triggers of the shards are for rows that come, not for those that are there.
        SELECT 5, x.number, howdah_shards._without_triggers(x.shard, true) FROM howdah_shards._shards x WHERE triggered
        UNION ALL
        SELECT 6, 0, format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM %s', t.name, columns, old_name)
        UNION ALL
        SELECT 7, x.number, howdah_shards._without_triggers(x.shard, false) FROM howdah_shards._shards x WHERE triggered
        UNION ALL
        SELECT 8, 0, format('DROP TABLE %s', old_name)
        UNION ALL
        SELECT 8, 1, format('INSERT INTO howdah_shards.tables VALUES (%L, ''sharded'', %s)', t.name, colocation)
    ) y;
    IF NOT dry_run THEN
        PERFORM howdah_shards._run(steps);
        PERFORM howdah_shards._note_change();
    END IF;
    RETURN QUERY SELECT coalesce(x.server, 'hub'), x.statement FROM unnest(steps) x;
END
$$;
COMMENT ON FUNCTION howdah_shards.distribute_table(regclass, name, int, regclass, boolean) IS
'Divides a table between the shards by a hash of its column key, into slots (32 unless said, fixed from then on) that are dealt
to the shards in turn, or lie where those of the sharded table colocate_with do. On the hub the table is replaced by a partitioned
one whose partitions are foreign tables; its rows are moved. The shards get columns, defaults, identities, constraints, indexes,
triggers for each row, statistics, comments, and the rights of the roles that they have. One transaction: the table is locked
until it ends, and if it fails the hub has its table as it was; a repeat removes what it left on the shards. Call it in a
transaction of its own. Ids: of a sequence the hub and each shard have every 1024th value (bigint) or 64th (integer);
uuidv7() of PostgreSQL 18 needs no sequence, and is the better id. With dry_run the statements are returned and not run.
A table that is sharded so already is left alone.
Errors: 42P01, 42703, 42809, 42804 no such table, column, kind of table, type of key; 0A000 a unique index without the key, a
foreign key to a table that is not on the same shards, an exclusion constraint, row security, rules, triggers for each statement, sequences that
cannot be divided; 2BP01 views and functions that depend on the table; 42704, 42883 a type, a function that a shard lacks; 42P07
a shard has a table of that name; 42710 sharded otherwise; 22023 slots; 55000 no shard; 08001 a shard does not answer.';

CREATE FUNCTION howdah_shards._foreign_slot(schema_name text, table_name text, slot_name text, modulus int, slot int, shard text)
RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$
    SELECT format('CREATE FOREIGN TABLE %I.%I PARTITION OF %I.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s) SERVER %I '
        'OPTIONS (schema_name %L, table_name %L)', schema_name, slot_name, schema_name, table_name, modulus, slot, shard,
        schema_name, slot_name)
$$;

-- The statement that has the hub's connections to a shard fire no triggers there, from their next login on, and the one that ends it.
CREATE FUNCTION howdah_shards._without_triggers(shard text, begins boolean) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT CASE WHEN begins THEN
        format('ALTER SERVER %I OPTIONS (%s options %L)', shard, CASE WHEN o.was IS NULL THEN 'ADD' ELSE 'SET' END,
            concat_ws(' ', o.was, '-csession_replication_role=replica'))
        WHEN o.was IS NULL THEN format('ALTER SERVER %I OPTIONS (DROP options)', shard)
        ELSE format('ALTER SERVER %I OPTIONS (SET options %L)', shard, o.was) END
    FROM (SELECT (SELECT x.option_value FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) x
        WHERE s.srvname = shard AND x.option_name = 'options') AS was) o
$$;

-- What takes several transactions: procedures. Each first notes what it is about to do in howdah_shards.jobs.

CREATE FUNCTION howdah_shards._new_job(kind text, what jsonb) RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$ INSERT INTO howdah_shards.jobs (kind, what, owner) VALUES (kind, what, howdah_shards._owner()) RETURNING id $$;

-- The name of a job's objects on other servers.
CREATE FUNCTION howdah_shards._job_name(job bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT format('howdah_shards_%s_%s_%s', (SELECT system_identifier FROM pg_control_system()), d.oid, job)
    FROM pg_database d WHERE d.datname = current_database()
$$;

-- Runs a statement about a job; gives the error, if there was one.
CREATE FUNCTION howdah_shards._attempt(statement text, j howdah_shards.jobs, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql
AS $$
DECLARE
    ignored record;
BEGIN
    FOR ignored IN EXECUTE statement USING j LOOP END LOOP;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    hint := coalesce(nullif(hint, ''), 'Nothing was changed: mend that and repeat the call.');
END
$$;

CREATE PROCEDURE howdah_shards.recover()
LANGUAGE plpgsql
AS $$
DECLARE
    j howdah_shards.jobs;
    pause interval;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    LOOP
        LOCK TABLE howdah_shards.tables IN SHARE ROW EXCLUSIVE MODE;
        SELECT * INTO j FROM howdah_shards.jobs ORDER BY id LIMIT 1;
        EXIT WHEN j IS NULL;
        IF howdah_shards._runs_elsewhere(j.owner) THEN
            RAISE EXCEPTION '% runs in another session', j.what->>'call' USING ERRCODE = 'object_in_use',
                HINT = 'Repeat the call when it has ended.';
        END IF;
        UPDATE howdah_shards.jobs SET owner = howdah_shards._owner() WHERE id = j.id;
        pause := CASE WHEN j.decided AND j.kind IN ('move', 'undistribute') THEN howdah_shards.lease() END;
        COMMIT;
        IF pause IS NOT NULL THEN
            -- Routers may still read by the old map.
            PERFORM pg_catalog.pg_sleep(extract(epoch FROM pause));
        END IF;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        PERFORM howdah_shards._settle(j.id);
        COMMIT;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    END LOOP;
    COMMIT;
END
$$;
COMMENT ON PROCEDURE howdah_shards.recover() IS
'Ends what a call has left in howdah_shards.jobs when its session or a server died: completes what was decided, undoes the rest.
The other procedures do so first, too. Errors: 55006 the call still runs; 08001 a shard does not answer: repeat it later.';

-- Completes a job that is decided, undoes one that is not, and forgets it.
CREATE FUNCTION howdah_shards._settle(job bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    j howdah_shards.jobs;
BEGIN
    SELECT * INTO STRICT j FROM howdah_shards.jobs WHERE id = job;
    CASE j.kind
        WHEN 'run' THEN PERFORM howdah_shards._settle_run(j);
        WHEN 'ordered run' THEN PERFORM howdah_shards._ordered_run(j);
        WHEN 'move' THEN PERFORM howdah_shards._settle_move(j);
        WHEN 'undistribute' THEN PERFORM howdah_shards._settle_undistribute(j);
        WHEN 'reference' THEN NULL; -- What it has made is taken up by the repeat.
        WHEN 'unreference' THEN PERFORM howdah_shards._settle_unreference(j);
    END CASE;
    DELETE FROM howdah_shards.jobs WHERE id = job;
END
$$;

CREATE FUNCTION howdah_shards.forget_job(job bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM howdah_shards.jobs WHERE id = job AND kind = 'ordered run';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is none that can be forgotten', job USING ERRCODE = 'undefined_object',
            HINT = 'Only a run of DDL without two-phase commit can: SELECT * FROM howdah_shards.jobs. CALL howdah_shards.recover() ends the others.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah_shards.forget_job(bigint) IS
'Gives up a run of DDL that can be completed on no shard, without two-phase commit: the shards that did it keep it.
Error 42704: there is no such run.';

-- DDL.

CREATE PROCEDURE howdah_shards.run_on_shards(ddl text, hub boolean DEFAULT true, two_phase boolean DEFAULT NULL,
    dry_run boolean DEFAULT false, INOUT report text[] DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    path text := pg_catalog.current_setting('search_path');
    shards text[];
    without text[];
    job bigint;
    j howdah_shards.jobs;
    said record;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF ddl IS NULL OR ddl !~ '\S' THEN
        RAISE EXCEPTION 'ddl is empty' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'CALL howdah_shards.run_on_shards(''ALTER TABLE orders ADD COLUMN note text'').';
    END IF;
    IF NOT dry_run THEN
        CALL howdah_shards.recover();
        PERFORM howdah_shards._begin();
    END IF;
    SELECT array_agg(s.shard ORDER BY s.number), array_agg(s.shard ORDER BY s.number) FILTER (WHERE (f->>'prepared')::int = 0)
    INTO shards, without
    FROM howdah_shards._shards s, howdah_shards._ask(s.shard, howdah_shards._facts_query()) f;
    IF shards IS NULL THEN
        RAISE EXCEPTION 'there is no shard' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'SELECT howdah_shards.add_shard(...) first.';
    ELSIF two_phase AND without IS NOT NULL THEN
        RAISE EXCEPTION 'shard "%" has max_prepared_transactions = 0', without[1] USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Raise it there and restart the server, or leave two_phase out.';
    END IF;
    two_phase := coalesce(two_phase, without IS NULL);
    IF dry_run THEN
        report := CASE WHEN hub THEN ARRAY['hub: ' || ddl] ELSE '{}' END || ARRAY(SELECT s || ': ' || ddl FROM unnest(shards) s);
        RETURN;
    END IF;
    job := howdah_shards._new_job(CASE WHEN two_phase THEN 'run' ELSE 'ordered run' END, jsonb_build_object(
        'call', 'run_on_shards', 'ddl', ddl, 'path', path, 'hub', hub, 'shards', shards));
    COMMIT;
    PERFORM howdah_shards._begin();
    SELECT * INTO j FROM howdah_shards.jobs WHERE id = job;
    IF NOT two_phase THEN
        PERFORM howdah_shards._ordered_run(j);
        DELETE FROM howdah_shards.jobs WHERE id = job;
        COMMIT;
    ELSE
        said := howdah_shards._prepare_run(j);
        COMMIT;
        PERFORM howdah_shards._begin();
        PERFORM howdah_shards._settle(job);
        COMMIT;
        IF said.message IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = said.state, MESSAGE = said.message, DETAIL = said.detail, HINT = said.hint;
        END IF;
    END IF;
    report := CASE WHEN hub THEN ARRAY['hub: done'] ELSE '{}' END || ARRAY(SELECT s || ': done' FROM unnest(shards) s);
END
$$;
COMMENT ON PROCEDURE howdah_shards.run_on_shards(text, boolean, boolean, boolean, text[]) IS
'Runs statements on all shards, and on the hub too unless hub is false: where it has nothing to change, or cannot, as for indexes and
foreign keys of sharded tables, whose partitions are foreign there. Names are looked up by the caller''s search_path on all
servers. With two-phase commit, which is used if all shards have max_prepared_transactions above 0, all do it or none. With
two_phase => false, or without, each shard commits by itself, the hub last: if one fails the error says which did it, and
howdah_shards.recover() goes on with the others. Slots get the rights of their tables. Each ALTER, CREATE or DROP that
PostgreSQL allows in a transaction can be run. With dry_run, report has what would run where. Errors: those of the statements,
with the server that raised them; 22004 ddl is empty; 55000 no shard, or no two-phase commit; 08001 a shard does not answer.';

-- What a shard runs, and the hub.
CREATE FUNCTION howdah_shards._ddl_of(j howdah_shards.jobs) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT format(E'SET LOCAL search_path = %s;\n%s\n;SET LOCAL search_path = pg_catalog;\n%s',
        coalesce(nullif(j.what->>'path', ''), ''''''), j.what->>'ddl', howdah_shards._follow())
$$;

CREATE FUNCTION howdah_shards._run_on_hub(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF (j.what->>'hub')::boolean THEN
        PERFORM pg_catalog.set_config('search_path', j.what->>'path', true);
        EXECUTE j.what->>'ddl';
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        PERFORM howdah_shards._note_change();
    END IF;
END
$$;

-- Runs the DDL on the hub and prepares it on the shards; the hub's commit decides. Gives the error, if there was one.
CREATE FUNCTION howdah_shards._prepare_run(j howdah_shards.jobs, OUT state text, OUT message text, OUT detail text, OUT hint text)
LANGUAGE plpgsql
AS $$
DECLARE
    place text := 'hub';
BEGIN
    PERFORM howdah_shards._run_on_hub(j);
    FOR place IN SELECT pg_catalog.jsonb_array_elements_text(j.what->'shards') LOOP
        PERFORM howdah_shards._exec(place, pg_catalog.format(E'BEGIN;\n%s;\nPREPARE TRANSACTION %L', howdah_shards._ddl_of(j),
            howdah_shards._job_name(j.id)));
    END LOOP;
    UPDATE howdah_shards.jobs SET decided = true WHERE id = j.id;
EXCEPTION WHEN OTHERS OR query_canceled THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    message := pg_catalog.format('%s (on %s)', message, place);
    IF hint = '' THEN
        hint := CASE WHEN place = 'hub' THEN 'Nothing was changed. If the statement is not for the hub: hub => false.'
            ELSE 'Nothing was changed on any server.' END;
    END IF;
END
$$;

-- Commits or rolls back what is prepared on the shards.
CREATE FUNCTION howdah_shards._settle_run(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shard text;
    gid text := howdah_shards._job_name(j.id);
BEGIN
    FOR shard IN SELECT jsonb_array_elements_text(j.what->'shards') LOOP
        -- The statements of a hub that died may still run there, and be prepared only then.
        PERFORM howdah_shards._exec(shard, format('DO %L', format('BEGIN FOR i IN 1..600 LOOP EXIT WHEN EXISTS (SELECT FROM '
            'pg_catalog.pg_prepared_xacts WHERE gid = %L) OR pg_catalog.pg_try_advisory_xact_lock(7237130); '
            'PERFORM pg_catalog.pg_sleep(0.05); END LOOP; END', gid)), false);
        IF EXISTS (SELECT FROM howdah_shards._ask(shard, format('SELECT 1 AS one FROM pg_catalog.pg_prepared_xacts WHERE gid = %L', gid))) THEN
            PERFORM howdah_shards._exec(shard, format('%s PREPARED %L', CASE WHEN j.decided THEN 'COMMIT' ELSE 'ROLLBACK' END, gid), false);
        END IF;
    END LOOP;
END
$$;

-- Runs the DDL on one server after another, where it was not run before.
CREATE FUNCTION howdah_shards._ordered_run(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    place text := 'hub';
    done text[] := '{}';
    run text := pg_catalog.quote_literal(howdah_shards._job_name(j.id));
    state text;
    message text;
    hint text;
BEGIN
    PERFORM howdah_shards._run_on_hub(j);
    FOR place IN SELECT pg_catalog.jsonb_array_elements_text(j.what->'shards') LOOP
        -- Whoever holds the lock may be about to do it.
        PERFORM howdah_shards._exec(place, '');
        IF NOT EXISTS (SELECT FROM howdah_shards._ask(place, 'SELECT 1 AS one FROM howdah_shard.runs WHERE id = ' || run)) THEN
            PERFORM howdah_shards._exec(place, pg_catalog.concat(howdah_shards._ddl_of(j), E';\nDELETE FROM howdah_shard.runs;\n'
                'INSERT INTO howdah_shard.runs VALUES (', run, ')'));
        END IF;
        done := done || place;
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    IF done = '{}' THEN
        -- No shard did it, and the hub rolls it back.
        hint := coalesce(nullif(hint, ''), 'Nothing was changed on any server.') || pg_catalog.format(
            ' SELECT howdah_shards.forget_job(%s) before another call.', j.id);
    ELSE
        hint := pg_catalog.format('Mend that and CALL howdah_shards.recover(), which goes on with the others; or give it up: '
            'SELECT howdah_shards.forget_job(%s).', j.id);
    END IF;
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = pg_catalog.format('%s (on %s)', message, place), HINT = hint,
        DETAIL = pg_catalog.format('Done on: %s.', coalesce(nullif(pg_catalog.array_to_string(done, ', '), ''), 'no server'));
END
$$;

-- Moving.

-- The statements that refuse writes to a table on a shard from then on, and those that allow them again.
CREATE FUNCTION howdah_shards._fence(name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$
    SELECT howdah_shards._unfence(name) || format('; CREATE TRIGGER howdah_shards_moved BEFORE INSERT OR UPDATE OR DELETE ON %s '
        'FOR EACH ROW EXECUTE FUNCTION howdah_shard.moved(); CREATE TRIGGER howdah_shards_moved_too BEFORE TRUNCATE ON %1$s '
        'FOR EACH STATEMENT EXECUTE FUNCTION howdah_shard.moved()', name)
$$;

CREATE FUNCTION howdah_shards._unfence(name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$
    SELECT format('DROP TRIGGER IF EXISTS howdah_shards_moved ON %s; DROP TRIGGER IF EXISTS howdah_shards_moved_too ON %1$s', name)
$$;

-- The tables whose slots are together, those first that foreign keys of others refer to.
CREATE FUNCTION howdah_shards._together(number int, shard text) RETURNS TABLE (relation regclass, schema_name text, table_name text, ord bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    WITH RECURSIVE t AS (
        SELECT x.relation, n.nspname::text AS s, c.relname::text AS r FROM howdah_shards.tables x
        JOIN pg_class c ON c.oid = x.relation JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE x.colocation = number AND x.kind = 'sharded'
    ), k AS (
        SELECT a->>'referring' AS referring, a->>'referred' AS referred FROM howdah_shards._ask(shard,
            'SELECT DISTINCT conrelid::regclass AS referring, confrelid::regclass AS referred FROM pg_catalog.pg_constraint
             WHERE contype = ''f'' AND conrelid <> confrelid AND conparentid = 0') a
    ), d AS (
        SELECT t.*, 0 AS depth FROM t
        UNION
        SELECT t.*, d.depth + 1 FROM d JOIN k ON k.referred = format('%I.%I', d.s, d.r)
        JOIN t ON format('%I.%I', t.s, t.r) = k.referring WHERE d.depth < 50
    )
    SELECT d.relation, d.s, d.r, row_number() OVER (ORDER BY max(d.depth), d.relation) FROM d GROUP BY 1, 2, 3
$$;

CREATE PROCEDURE howdah_shards.move_slot(relation regclass, slot int, to_shard text, dry_run boolean DEFAULT false,
    INOUT report text[] DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    l record;
    job bigint;
    j howdah_shards.jobs;
    said record;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF NOT dry_run THEN
        CALL howdah_shards.recover();
        PERFORM howdah_shards._begin();
    END IF;
    SELECT s.* INTO l FROM howdah_shards._slots s WHERE s.relation = move_slot.relation AND s.slot = move_slot.slot;
    IF l IS NULL THEN
        RAISE EXCEPTION 'there is no slot % of a sharded table %', move_slot.slot, move_slot.relation
            USING ERRCODE = 'undefined_object', HINT = 'SELECT * FROM howdah_shards.placements.';
    ELSIF NOT EXISTS (SELECT FROM howdah_shards._shards s WHERE s.shard = to_shard) THEN
        RAISE EXCEPTION 'there is no shard "%"', to_shard USING ERRCODE = 'undefined_object',
            HINT = 'SELECT * FROM howdah_shards.shards.';
    ELSIF l.shard = to_shard THEN
        report := ARRAY[format('slot %s is on %s', move_slot.slot, to_shard)];
        RETURN;
    ELSIF (SELECT f->>'wal_level' FROM howdah_shards._ask(l.shard, howdah_shards._facts_query()) f) <> 'logical' THEN
        RAISE EXCEPTION 'shard "%" does not have wal_level = logical', l.shard USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Slots are moved by logical replication: set it there and restart the server.';
    END IF;
    PERFORM howdah_shards._check_references(to_shard);
    j.id := 0;
    j.what := jsonb_build_object('call', 'move_slot', 'slot', l.slot, 'modulus', l.modulus, 'source', l.shard, 'target', to_shard,
        'tables', (SELECT jsonb_agg(to_jsonb(g) || jsonb_build_object('parent', format('%I.%I', g.schema_name, g.table_name),
                'slot_name', s.slot_name, 'name', format('%I.%I', g.schema_name, s.slot_name)) ORDER BY g.ord)
            FROM howdah_shards._together(l.colocation, l.shard) g
            JOIN howdah_shards._slots s ON s.relation = g.relation AND s.slot = l.slot));
    IF dry_run THEN
        report := ARRAY(SELECT format('%s: %s', x.server, x.statement) FROM howdah_shards._move_copy(j) x)
            || ARRAY(SELECT format('%s: %s', l.shard, howdah_shards._fence(t->>'name')) FROM jsonb_array_elements(j.what->'tables') t)
            || ARRAY(SELECT format('%s: %s', to_shard, x) FROM howdah_shards._move_attach(j) x)
            || ARRAY(SELECT format('hub: %s', x) FROM howdah_shards._move_map(j) x)
            || ARRAY(SELECT format('%s: %s', l.shard, x) FROM howdah_shards._move_drop(j) x);
        RETURN;
    END IF;
    job := howdah_shards._new_job('move', j.what);
    COMMIT;

    -- A copy at the target, which follows.
    PERFORM howdah_shards._begin();
    SELECT * INTO j FROM howdah_shards.jobs WHERE id = job;
    said := howdah_shards._attempt('SELECT howdah_shards._exec(s.server, s.statement) FROM howdah_shards._move_copy($1) s', j);
    COMMIT;
    WHILE said.message IS NULL LOOP
        PERFORM howdah_shards._begin();
        EXIT WHEN NOT EXISTS (SELECT FROM howdah_shards._ask(to_shard, format('SELECT 1 AS one FROM pg_catalog.pg_subscription_rel r
            JOIN pg_catalog.pg_subscription s ON s.oid = r.srsubid WHERE s.subname = %L AND r.srsubstate <> ''r''',
            howdah_shards._job_name(job))));
        COMMIT;
        PERFORM pg_catalog.pg_sleep(0.1);
    END LOOP;

    IF said.message IS NULL THEN
        said := howdah_shards._attempt('SELECT howdah_shards._move_switch($1)', j);
        COMMIT;
    END IF;
    IF said.message IS NULL THEN
        -- The old place goes when no router reads by the old map.
        PERFORM pg_catalog.pg_sleep(extract(epoch FROM howdah_shards.lease()));
    END IF;
    PERFORM howdah_shards._begin();
    PERFORM howdah_shards._settle(job);
    COMMIT;
    IF said.message IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = said.state, MESSAGE = said.message, DETAIL = said.detail, HINT = said.hint;
    END IF;
    report := ARRAY[format('slot %s of %s: %s -> %s', j.what->>'slot', (SELECT string_agg(t->>'parent', ', ')
        FROM jsonb_array_elements(j.what->'tables') t), j.what->>'source', to_shard)];
END
$$;
COMMENT ON PROCEDURE howdah_shards.move_slot(regclass, int, text, boolean, text[]) IS
'Moves a slot of a sharded table, and the same slot of the tables that are colocated with it, to another shard. 1. The target gets
a copy by logical replication, while the slot is read and written as before. 2. The switch, which takes a moment: the hub''s
table is locked, writes to the old place end and are refused from then on (40001, constraint howdah_shards_moved: repeat the
transaction), the target catches up, and the map gets a new version. 3. After howdah_shards.lease() the old place is dropped;
until then a router with the old map may read it as it was at the switch. If a server or the session dies, the next call of any
procedure here (or howdah_shards.recover()) undoes what was before the switch, completes what was after it; writes to the
slot are refused until then if it died within the switch. The shards'' user has to be one that may make subscriptions, with
REPLICATION, and the target has to reach the source by the address that the hub has for it. With dry_run, report has the
statements. Errors: 42704 no such slot or shard; 55000 wal_level, or a reference table is missing at the target; 55P03 the hub''s
table or the slot is in use for long; 55006 another call runs; 08001 a shard does not answer.';

-- 1: a table like the others' slots, unattached, a publication of the slot, and a subscription to it.
CREATE FUNCTION howdah_shards._move_copy(j howdah_shards.jobs) RETURNS SETOF howdah_shards.step
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t jsonb;
    name text := howdah_shards._job_name(j.id);
    options text;
BEGIN
    FOR t IN SELECT jsonb_array_elements(j.what->'tables') LOOP
        SELECT a->>'o' INTO options FROM howdah_shards._ask(j.what->>'source',
            format('SELECT array_to_string(reloptions, '', '') AS o FROM pg_catalog.pg_class WHERE oid = %L::regclass', t->>'name')) a;
        RETURN NEXT (j.what->>'target', format('CREATE TABLE %s (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES '
            'INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION)%s', t->>'name', t->>'parent', ' WITH (' || options || ')'));
        -- Without a primary key, rows are known by all of their columns.
        IF NOT EXISTS (SELECT FROM howdah_shards._ask(j.what->>'source', format(
            'SELECT 1 AS one FROM pg_catalog.pg_index WHERE indrelid = %L::regclass AND indisprimary', t->>'name'))) THEN
            RETURN NEXT (j.what->>'source', format('ALTER TABLE %s REPLICA IDENTITY FULL', t->>'name'));
            RETURN NEXT (j.what->>'target', format('ALTER TABLE %s REPLICA IDENTITY FULL', t->>'name'));
        END IF;
    END LOOP;
    RETURN NEXT (j.what->>'source', format('CREATE PUBLICATION %I FOR TABLE %s', name,
        (SELECT string_agg('ONLY ' || (x->>'name'), ', ') FROM jsonb_array_elements(j.what->'tables') x)));
    RETURN NEXT (j.what->>'source', format('DO %L', format(
        'BEGIN PERFORM pg_catalog.pg_create_logical_replication_slot(%L, ''pgoutput''); END', name)));
    RETURN NEXT (j.what->>'target', format('CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION %1$I WITH (create_slot = false, slot_name = %1$L)',
        name, CASE WHEN j.id = 0 THEN '...' ELSE howdah_shards._conninfo(j.what->>'source') END));
END
$$;

-- 2: what ends the subscription and attaches the copy.
CREATE FUNCTION howdah_shards._move_attach(j howdah_shards.jobs) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT howdah_shards._end_subscription(j.id)
    UNION ALL
    SELECT format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES WITH (MODULUS %s, REMAINDER %s)', t->>'parent', t->>'name',
        j.what->>'modulus', j.what->>'slot')
    FROM jsonb_array_elements(j.what->'tables') t
    UNION ALL
    SELECT howdah_shards._follow()
$$;

CREATE FUNCTION howdah_shards._end_subscription(job bigint) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT howdah_shards._drop_subscription(howdah_shards._job_name(job))
$$;

-- The statements that end a subscription, and leave the slot of its publisher.
CREATE FUNCTION howdah_shards._drop_subscription(name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $$ SELECT format('ALTER SUBSCRIPTION %I DISABLE; ALTER SUBSCRIPTION %1$I SET (slot_name = NONE); DROP SUBSCRIPTION %1$I', name) $$;

-- The hub's part of it.
CREATE FUNCTION howdah_shards._move_map(j howdah_shards.jobs) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT x FROM jsonb_array_elements(j.what->'tables') t, unnest(ARRAY[format('DROP FOREIGN TABLE %s', t->>'name'),
        howdah_shards._foreign_slot(t->>'schema_name', t->>'table_name', t->>'slot_name', (j.what->>'modulus')::int,
            (j.what->>'slot')::int, j.what->>'target')]) x
$$;

CREATE FUNCTION howdah_shards._move_switch(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source text := j.what->>'source';
    target text := j.what->>'target';
    name text := howdah_shards._job_name(j.id);
    written text;
    statement text;
BEGIN
    PERFORM howdah_shards._lock((SELECT string_agg(t->>'parent', ', ') FROM jsonb_array_elements(j.what->'tables') t));
    PERFORM howdah_shards._exec(source, (SELECT string_agg(howdah_shards._fence(t->>'name'), '; ')
        FROM jsonb_array_elements(j.what->'tables') t));
    SELECT a->>'lsn' INTO written FROM howdah_shards._ask(source, 'SELECT pg_catalog.pg_current_wal_lsn() AS lsn') a;
    FOR attempt IN 1..1500 LOOP
        EXIT WHEN (SELECT (a->>'there')::boolean FROM howdah_shards._ask(source, format('SELECT confirmed_flush_lsn >= %L::pg_lsn AS there
            FROM pg_catalog.pg_replication_slots WHERE slot_name = %L', written, name)) a);
        IF attempt = 1500 THEN
            RAISE EXCEPTION 'shard "%" does not catch up with shard "%"', target, source
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Its log says why. Repeat the call.';
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    PERFORM howdah_shards._exec(target, (SELECT string_agg(x, E';\n' ORDER BY ord) FROM howdah_shards._move_attach(j) WITH ORDINALITY x(x, ord)));
    FOR statement IN SELECT howdah_shards._move_map(j) LOOP
        EXECUTE statement;
    END LOOP;
    UPDATE howdah_shards.jobs SET decided = true WHERE id = j.id;
    PERFORM howdah_shards._note_change();
END
$$;

-- 3: what drops the old place.
CREATE FUNCTION howdah_shards._move_drop(j howdah_shards.jobs) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT howdah_shards._drop_slot_table(t->>'parent', t->>'name')
    FROM jsonb_array_elements(j.what->'tables') WITH ORDINALITY x(t, ord) ORDER BY ord DESC
$$;

-- The statement that drops a slot's table if it is there, attached or not.
CREATE FUNCTION howdah_shards._drop_slot_table(parent text, name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog
AS $f$
    SELECT format('DO %L', format($q$BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhrelid = pg_catalog.to_regclass(%2$L)) THEN
        ALTER TABLE %1$s DETACH PARTITION %2$s;
    END IF;
    DROP TABLE IF EXISTS %2$s;
END$q$, parent, name))
$f$;

CREATE FUNCTION howdah_shards._settle_move(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := howdah_shards._job_name(j.id);
BEGIN
    IF NOT j.decided THEN
        IF EXISTS (SELECT FROM howdah_shards._ask(j.what->>'target', format('SELECT 1 AS one FROM pg_catalog.pg_subscription
            WHERE subname = %L', name))) THEN
            PERFORM howdah_shards._exec(j.what->>'target', howdah_shards._end_subscription(j.id));
        END IF;
        PERFORM howdah_shards._exec(j.what->>'target', (SELECT string_agg(x, E';\n' ORDER BY ord)
            FROM howdah_shards._move_drop(j) WITH ORDINALITY x(x, ord)));
        PERFORM howdah_shards._exec(j.what->>'source', (SELECT string_agg(howdah_shards._unfence(t->>'name'), '; ')
            FROM jsonb_array_elements(j.what->'tables') t));
    ELSE
        PERFORM howdah_shards._exec(j.what->>'source', (SELECT string_agg(x, E';\n' ORDER BY ord)
            FROM howdah_shards._move_drop(j) WITH ORDINALITY x(x, ord)));
    END IF;
    PERFORM howdah_shards._exec(j.what->>'source', format('DROP PUBLICATION IF EXISTS %I', name));
    -- The sender of a subscription that was dropped may need a moment to go.
    PERFORM howdah_shards._exec(j.what->>'source', format('DO %L', format('BEGIN FOR i IN 1..200 LOOP EXIT WHEN NOT EXISTS (SELECT FROM '
        'pg_catalog.pg_replication_slots WHERE slot_name = %1$L AND active); PERFORM pg_catalog.pg_sleep(0.05); END LOOP; '
        'PERFORM pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = %1$L; END', name)));
END
$$;

CREATE FUNCTION howdah_shards.rebalance() RETURNS TABLE (relation regclass, slot int, from_shard text, to_shard text, statement text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    g record;
    placed jsonb;
    fullest record;
    emptiest record;
BEGIN
    FOR g IN SELECT min(t.relation::oid)::regclass AS relation FROM howdah_shards.tables t WHERE t.kind = 'sharded' GROUP BY t.colocation LOOP
        SELECT jsonb_object_agg(s.shard, s.slots) INTO placed FROM (
            SELECT h.shard, coalesce(jsonb_agg(l.slot ORDER BY l.slot) FILTER (WHERE l.slot IS NOT NULL), '[]') AS slots
            FROM howdah_shards._shards h LEFT JOIN howdah_shards._slots l ON l.shard = h.shard AND l.relation = g.relation
            GROUP BY h.shard) s;
        LOOP
            SELECT key, value INTO fullest FROM jsonb_each(placed) ORDER BY jsonb_array_length(value) DESC, key LIMIT 1;
            SELECT key, value INTO emptiest FROM jsonb_each(placed) ORDER BY jsonb_array_length(value), key LIMIT 1;
            EXIT WHEN jsonb_array_length(fullest.value) - jsonb_array_length(emptiest.value) < 2;
            RETURN QUERY SELECT g.relation, (fullest.value->>-1)::int, fullest.key, emptiest.key,
                format('CALL howdah_shards.move_slot(%L, %s, %L)', g.relation, fullest.value->>-1, emptiest.key);
            placed := placed || jsonb_build_object(fullest.key, fullest.value - (-1), emptiest.key, emptiest.value || (fullest.value->-1));
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah_shards.rebalance() IS
'The moves after which each shard has as many slots of each group of colocated tables as the others, or one more or less. It
moves nothing: run the statements, in psql by \gexec.';

-- Back.

CREATE PROCEDURE howdah_shards.undistribute_table(relation regclass, dry_run boolean DEFAULT false, INOUT report text[] DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    what jsonb;
    job bigint;
    j howdah_shards.jobs;
    said record;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF NOT dry_run THEN
        CALL howdah_shards.recover();
        PERFORM howdah_shards._begin();
    END IF;
    IF NOT EXISTS (SELECT FROM howdah_shards.tables t WHERE t.relation = undistribute_table.relation AND t.kind <> 'models') THEN
        RAISE EXCEPTION '% is neither a sharded table nor a reference table', relation USING ERRCODE = 'wrong_object_type',
            HINT = 'SELECT DISTINCT schema_name, table_name FROM howdah_shards.routes.';
    ELSIF EXISTS (SELECT FROM howdah_shards.tables t WHERE t.relation = undistribute_table.relation AND t.kind = 'reference') THEN
        what := jsonb_build_object('call', 'undistribute_table', 'name', howdah_shards._name(relation),
            'shards', (SELECT jsonb_agg(s.shard ORDER BY s.number) FROM howdah_shards._shards s));
        PERFORM howdah_shards._check_unreferenced(what);
        report := ARRAY(SELECT format('%s: DROP TABLE %s', s, what->>'name') FROM jsonb_array_elements_text(what->'shards') s);
        IF dry_run THEN
            RETURN;
        END IF;
        job := howdah_shards._new_job('unreference', what);
        UPDATE howdah_shards.jobs SET decided = true WHERE id = job;
        EXECUTE format('ALTER PUBLICATION %I DROP TABLE %s', howdah_shards._reference_name(), what->>'name');
        DELETE FROM howdah_shards.tables t WHERE t.relation = undistribute_table.relation;
        PERFORM howdah_shards._note_change();
        COMMIT;
        PERFORM pg_catalog.pg_sleep(extract(epoch FROM howdah_shards.lease()));
        PERFORM howdah_shards._begin();
        PERFORM howdah_shards._settle(job);
        COMMIT;
        RETURN;
    END IF;
    what := jsonb_build_object('call', 'undistribute_table', 'relation', relation::oid, 'name', howdah_shards._name(relation),
        'shards', (SELECT jsonb_agg(s.shard ORDER BY s.number) FROM howdah_shards._shards s),
        'slots', (SELECT jsonb_agg(jsonb_build_object('shard', s.shard, 'name', howdah_shards._name(s.slot_relation)) ORDER BY s.slot)
            FROM howdah_shards._slots s WHERE s.relation = undistribute_table.relation));
    IF dry_run THEN
        report := ARRAY(SELECT format('%s: %s', s->>'shard', howdah_shards._fence(s->>'name')) FROM jsonb_array_elements(what->'slots') s)
            || ARRAY(SELECT format('hub: %s', x) FROM howdah_shards._undistribute_statements(what) x)
            || ARRAY(SELECT format('%s: DROP TABLE %s', s, what->>'name') FROM jsonb_array_elements_text(what->'shards') s);
        RETURN;
    END IF;
    PERFORM howdah_shards._undistribute_statements(what);
    job := howdah_shards._new_job('undistribute', what);
    COMMIT;
    PERFORM howdah_shards._begin();
    SELECT * INTO j FROM howdah_shards.jobs WHERE id = job;
    said := howdah_shards._attempt('SELECT howdah_shards._undistribute($1)', j);
    COMMIT;
    IF said.message IS NULL THEN
        PERFORM pg_catalog.pg_sleep(extract(epoch FROM howdah_shards.lease()));
    END IF;
    PERFORM howdah_shards._begin();
    PERFORM howdah_shards._settle(job);
    COMMIT;
    IF said.message IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = said.state, MESSAGE = said.message, DETAIL = said.detail, HINT = said.hint;
    END IF;
    report := ARRAY[format('%s is a table of the hub', what->>'name')];
END
$$;
COMMENT ON PROCEDURE howdah_shards.undistribute_table(regclass, boolean, text[]) IS
'Makes a sharded table an ordinary one of the hub again, with its rows, indexes, constraints and triggers; or drops the copies of a
reference table. Writes to it wait at
the hub, and are refused on the shards (40001), until the rows are here; the shards'' tables are dropped after
howdah_shards.lease(). If the session or a server dies, the next procedure undoes or completes it. With dry_run, report has
the statements. Errors: 42809 neither sharded nor a reference table; 0A000 foreign keys between it and other sharded tables; 2BP01 views depend on it.';

-- What the hub does. Raises if other sharded tables are in the way.
CREATE FUNCTION howdah_shards._undistribute_statements(what jsonb) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := what->>'name';
    old_name text;
    shard text := what->'slots'->0->>'shard';
    parts howdah_shards.part[];
    base jsonb := '{}';
    k jsonb;
    q record;
    top bigint;
    t record;
    columns text;
BEGIN
    SELECT n.nspname, c.relname INTO t FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = (what->>'relation')::oid;
    FOR k IN SELECT howdah_shards._ask(shard, format('SELECT conname, conrelid::regclass AS a, confrelid::regclass AS b
        FROM pg_catalog.pg_constraint WHERE contype = ''f'' AND conparentid = 0 AND conrelid <> confrelid
        AND %L::regclass IN (conrelid, confrelid)', name)) LOOP
        IF EXISTS (SELECT FROM howdah_shards.tables x WHERE x.kind = 'sharded'
            AND howdah_shards._name(x.relation) = CASE WHEN k->>'a' = name THEN k->>'b' ELSE k->>'a' END) THEN
            RAISE EXCEPTION 'foreign key "%" is between % and %', k->>'conname', k->>'a', k->>'b' USING ERRCODE = 'feature_not_supported',
                HINT = format('CALL howdah_shards.run_on_shards(''ALTER TABLE %s DROP CONSTRAINT %I'', hub => false) first.', k->>'a', k->>'conname');
        END IF;
    END LOOP;
    SELECT array_agg(p ORDER BY p.part, p.ord) INTO parts FROM (
        SELECT (h).* FROM howdah_shards._parts(NULL, t.nspname, t.relname) h
        WHERE (h).part NOT IN ('constraint', 'index', 'statistics', 'foreign key', 'trigger')
        UNION ALL
        SELECT (h).* FROM howdah_shards._parts(shard, t.nspname, t.relname) h
        WHERE (h).part IN ('constraint', 'index', 'statistics', 'foreign key', 'trigger')) p;
    FOR q IN SELECT x.name, x.statement::jsonb AS j FROM unnest(parts) x WHERE x.part = 'sequence' LOOP
        EXECUTE format('SELECT greatest((SELECT max(%I) FROM %s), last_value) FROM %I.%I', q.name, name, q.j->>'schema', q.j->>'name') INTO top;
        SELECT greatest(top, max((a->>'last_value')::bigint)) INTO top FROM jsonb_array_elements_text(what->'shards') s,
            howdah_shards._ask(s, format('SELECT last_value FROM %I.%I', q.j->>'schema', q.j->>'name')) a;
        base := base || jsonb_build_object(q.name, top + 1);
    END LOOP;
    SELECT string_agg(format('%I', x.name), ', ' ORDER BY x.ord) INTO columns FROM unnest(parts) x
    WHERE x.part = 'column' AND NOT EXISTS (SELECT FROM unnest(parts) g WHERE g.part = 'generated' AND g.name = x.name);
    old_name := format('%I.%I', t.nspname, 'howdah_shards_old_' || (what->>'relation'));
    RETURN NEXT format('ALTER TABLE %s RENAME TO %I', name, 'howdah_shards_old_' || (what->>'relation'));
    RETURN QUERY SELECT CASE WHEN x.statement::jsonb->>'identity' <> '' THEN format('ALTER TABLE %s ALTER %I DROP IDENTITY', old_name, x.name)
        ELSE format('ALTER SEQUENCE %I.%I OWNED BY NONE', x.statement::jsonb->>'schema', x.statement::jsonb->>'name') END
        FROM unnest(parts) x WHERE x.part = 'sequence';
    RETURN QUERY SELECT howdah_shards._table_statements(parts, name, NULL, 0, base);
    RETURN NEXT format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %2$s FROM %s', name, columns, old_name);
    RETURN NEXT format('DROP TABLE %s', old_name);
    RETURN QUERY SELECT howdah_shards._shard_statements(parts);
END
$$;

-- The switch, which the hub's commit decides.
CREATE FUNCTION howdah_shards._undistribute(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
    statement text;
BEGIN
    PERFORM howdah_shards._lock(j.what->>'name');
    FOR s IN SELECT x->>'shard' AS shard, string_agg(howdah_shards._fence(x->>'name'), '; ') AS statements
        FROM jsonb_array_elements(j.what->'slots') x GROUP BY 1 LOOP
        PERFORM howdah_shards._exec(s.shard, s.statements);
    END LOOP;
    FOR statement IN SELECT howdah_shards._undistribute_statements(j.what) LOOP
        EXECUTE statement;
    END LOOP;
    UPDATE howdah_shards.jobs SET decided = true WHERE id = j.id;
    PERFORM howdah_shards._note_change();
END
$$;

CREATE FUNCTION howdah_shards._settle_undistribute(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record;
BEGIN
    IF j.decided THEN
        PERFORM howdah_shards._exec(x, format('DROP TABLE IF EXISTS %s; %s', j.what->>'name', howdah_shards._follow()))
        FROM jsonb_array_elements_text(j.what->'shards') x;
    ELSE
        FOR s IN SELECT x->>'shard' AS shard, string_agg(howdah_shards._unfence(x->>'name'), '; ') AS statements
            FROM jsonb_array_elements(j.what->'slots') x GROUP BY 1 LOOP
            PERFORM howdah_shards._exec(s.shard, s.statements);
        END LOOP;
    END IF;
END
$$;

-- Raises if foreign keys on the shards refer to a reference table.
CREATE FUNCTION howdah_shards._check_unreferenced(what jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    k jsonb;
BEGIN
    SELECT a INTO k FROM jsonb_array_elements_text(what->'shards') s, howdah_shards._ask(s, format('SELECT conname, conrelid::regclass AS a
        FROM pg_catalog.pg_constraint WHERE contype = ''f'' AND conparentid = 0 AND conrelid <> confrelid AND confrelid = to_regclass(%L)',
        what->>'name')) a LIMIT 1;
    IF k IS NOT NULL THEN
        RAISE EXCEPTION 'foreign key "%" of table % refers to %', k->>'conname', k->>'a', what->>'name'
            USING ERRCODE = 'dependent_objects_still_exist',
            HINT = format('CALL howdah_shards.run_on_shards(''ALTER TABLE %s DROP CONSTRAINT %I'', hub => false) first.', k->>'a', k->>'conname');
    END IF;
END
$$;

CREATE FUNCTION howdah_shards._settle_unreference(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shard text;
BEGIN
    FOR shard IN SELECT jsonb_array_elements_text(j.what->'shards') LOOP
        IF howdah_shards._copy_state(shard, j.what->>'name') IS NOT NULL THEN
            PERFORM howdah_shards._exec(shard, format('ALTER SUBSCRIPTION %I REFRESH PUBLICATION', howdah_shards._reference_name()), false);
        END IF;
        PERFORM howdah_shards._exec(shard, format('DROP TABLE IF EXISTS %s; %s', j.what->>'name', howdah_shards._follow()));
    END LOOP;
END
$$;

-- Drops a replication slot of the hub, if it is there, when its sender has gone.
CREATE FUNCTION howdah_shards._drop_replication_slot(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    FOR i IN 1..200 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.slot_name = name AND s.active);
        PERFORM pg_sleep(0.05);
    END LOOP;
    PERFORM pg_drop_replication_slot(s.slot_name) FROM pg_replication_slots s WHERE s.slot_name = name;
END
$$;

CREATE FUNCTION howdah_shards.drop_shard(name text, dry_run boolean DEFAULT false) RETURNS TABLE (server text, statement text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $f$
#variable_conflict use_column
DECLARE
    shard alias FOR name;
    held bigint;
    publication text;
    steps howdah_shards.step[] := '{}';
BEGIN
    PERFORM howdah_shards._begin();
    IF NOT EXISTS (SELECT FROM howdah_shards._shards s WHERE s.shard = drop_shard.name) THEN
        RAISE EXCEPTION 'there is no shard "%"', shard USING ERRCODE = 'undefined_object', HINT = 'SELECT * FROM howdah_shards.shards.';
    END IF;
    SELECT count(*) INTO held FROM howdah_shards._slots s WHERE s.shard = drop_shard.name;
    IF held > 0 THEN
        RAISE EXCEPTION 'shard "%" has slots: %', shard, held USING ERRCODE = 'object_in_use',
            HINT = 'Move them: SELECT format(''CALL howdah_shards.move_slot(%L, %s, %L)'', "table", slot, ''...'') FROM howdah_shards.placements.';
    END IF;
    -- The copies of reference tables and of models, and the hub's slots for them.
    FOREACH publication IN ARRAY ARRAY[howdah_shards._reference_name(), howdah_shards._models_name()] LOOP
        IF EXISTS (SELECT FROM howdah_shards._ask(shard, format('SELECT 1 AS one FROM pg_catalog.pg_subscription WHERE subname = %L',
            publication))) THEN
            steps := steps || (shard, howdah_shards._drop_subscription(publication))::howdah_shards.step;
        END IF;
        steps := steps || (NULL, format('SELECT howdah_shards._drop_replication_slot(%L)', publication || '_'
            || (SELECT s.number FROM howdah_shards._shards s WHERE s.shard = drop_shard.name)))::howdah_shards.step;
    END LOOP;
    steps := steps || ARRAY[(shard, $q$DO 'DECLARE r record; BEGIN
        FOR r IN SELECT m.relation, m.transaction = ''models'' AS is_registry FROM howdah_shard.made m JOIN pg_catalog.pg_class c ON c.oid = m.relation LOOP
            IF r.is_registry THEN
                EXECUTE pg_catalog.format(''DROP TRIGGER IF EXISTS howdah_shards_copied ON %1$s; TRUNCATE %1$s'', r.relation);
            ELSE
                EXECUTE pg_catalog.format(''DROP TABLE %s CASCADE'', r.relation);
            END IF;
        END LOOP;
        DROP SCHEMA howdah_shard CASCADE; END'$q$)::howdah_shards.step,
        (NULL, format('DROP SERVER %I CASCADE', shard))::howdah_shards.step];
    IF NOT dry_run THEN
        PERFORM howdah_shards._run(steps);
        PERFORM howdah_shards._note_change();
    END IF;
    RETURN QUERY SELECT coalesce(x.server, 'hub'), x.statement FROM unnest(steps) x;
END
$f$;
COMMENT ON FUNCTION howdah_shards.drop_shard(text, boolean) IS
'Ends a shard that has no slots: drops its empty tables there, the hub''s models, and the foreign server with its user mappings. With dry_run the
statements are returned and not run. Errors: 42704 no such shard; 55006 it has slots; 08001 it does not answer (then DROP SERVER
does the rest, since nothing of the hub''s is there).';

-- Reference tables: the hub publishes them, and each shard has a copy.

CREATE FUNCTION howdah_shards.set_hub(conninfo text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM howdah_shards._settings(conninfo) s WHERE s.name = 'dbname') THEN
        RAISE EXCEPTION 'conninfo of the hub names no database' USING ERRCODE = 'invalid_parameter_value', HINT = 'Add dbname=...';
    END IF;
    INSERT INTO howdah_shards.map AS m (hub) VALUES (conninfo) ON CONFLICT (one) DO UPDATE SET hub = excluded.hub;
END
$$;
COMMENT ON FUNCTION howdah_shards.set_hub(text) IS
'Says how the shards reach the hub, for reference tables and models: settings and values of libpq, with a user that has REPLICATION and
may read those tables. Subscriptions that exist keep theirs (ALTER SUBSCRIPTION ... CONNECTION). Error 22023: conninfo is not understood.';

-- The state of the copy of a reference table, or of one of models, on a shard: r is ready, null is none.
CREATE FUNCTION howdah_shards._copy_state(shard text, name text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog
AS $$
    SELECT a->>'state' FROM howdah_shards._ask(shard, format('SELECT r.srsubstate AS state FROM pg_catalog.pg_subscription_rel r
        JOIN pg_catalog.pg_subscription s ON s.oid = r.srsubid WHERE s.subname IN (%L, %L) AND r.srrelid = to_regclass(%L)',
        howdah_shards._reference_name(), howdah_shards._models_name(), name)) a
$$;

-- The name of the publication on the hub and of the subscriptions on the shards.
CREATE FUNCTION howdah_shards._reference_name() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$ SELECT format('howdah_shards_%s_%s', (SELECT system_identifier FROM pg_control_system()), d.oid) FROM pg_database d WHERE d.datname = current_database() $$;

-- The same for models, so that what stops the one does not stop the other.
CREATE FUNCTION howdah_shards._models_name() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$ SELECT howdah_shards._reference_name() || '_models' $$;

-- Raises if a shard lacks the copy of a reference table, or the models.
CREATE FUNCTION howdah_shards._check_references(shard text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t howdah_shards.tables;
BEGIN
    FOR t IN SELECT * FROM howdah_shards.tables x WHERE x.kind <> 'sharded' LOOP
        CONTINUE WHEN howdah_shards._copy_state(shard, howdah_shards._name(t.relation)) = 'r';
        IF t.kind = 'models' THEN
            RAISE EXCEPTION 'shard "%" does not have the hub''s models', shard
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'CALL howdah_shards.publish_models().';
        ELSE
            RAISE EXCEPTION 'shard "%" has no copy of reference table %', shard, t.relation
                USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = format('CALL howdah_shards.reference_table(%L) makes those that are missing.', t.relation);
        END IF;
    END LOOP;
END
$$;

-- Raises if the hub cannot publish to its shards.
CREATE FUNCTION howdah_shards._check_publisher() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('wal_level') <> 'logical' THEN
        RAISE EXCEPTION 'the hub does not have wal_level = logical' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Reference tables and models are copied by logical replication: set it and restart the server.';
    ELSIF (SELECT m.hub FROM howdah_shards.map m) IS NULL THEN
        RAISE EXCEPTION 'the shards do not know how to reach the hub' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'SELECT howdah_shards.set_hub(''host=... dbname=... user=... password=...'').';
    ELSIF NOT EXISTS (SELECT FROM howdah_shards._shards) THEN
        RAISE EXCEPTION 'there is no shard' USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'SELECT howdah_shards.add_shard(...) first.';
    END IF;
END
$$;

-- The hub's steps until these tables are in a publication.
CREATE FUNCTION howdah_shards._publish(publication text, relations regclass[]) RETURNS howdah_shards.step[]
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT coalesce(array_agg((NULL, x.statement)::howdah_shards.step ORDER BY x.ord), '{}') FROM (
        SELECT 0 AS ord, format('CREATE PUBLICATION %I', publication) AS statement
        WHERE NOT EXISTS (SELECT FROM pg_publication p WHERE p.pubname = publication)
        UNION ALL
        SELECT r.ord, format('ALTER PUBLICATION %I ADD TABLE %s', publication, howdah_shards._name(r.relation))
        FROM unnest(relations) WITH ORDINALITY r(relation, ord)
        WHERE NOT EXISTS (SELECT FROM pg_publication_rel l JOIN pg_publication p ON p.oid = l.prpubid
            WHERE p.pubname = publication AND l.prrelid = r.relation)
    ) x
$$;

CREATE FUNCTION howdah_shards._subscribe_report(publication text) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT array_agg(format('%s: CREATE SUBSCRIPTION %I ..., or ALTER SUBSCRIPTION ... REFRESH PUBLICATION', x.shard, publication)
        ORDER BY x.number) FROM howdah_shards._shards x
$$;

-- Has all shards subscribe to a publication with these tables, and waits until they have them.
CREATE PROCEDURE howdah_shards._subscribe(publication text, names text[])
LANGUAGE plpgsql
AS $$
DECLARE
    s record;
    slot text;
BEGIN
    FOR s IN SELECT x.* FROM howdah_shards._shards x ORDER BY x.number LOOP
        PERFORM howdah_shards._begin();
        slot := publication || '_' || s.number;
        IF NOT EXISTS (SELECT FROM howdah_shards._ask(s.shard, format('SELECT 1 AS one FROM pg_catalog.pg_subscription WHERE subname = %L', publication))) THEN
            PERFORM pg_drop_replication_slot(r.slot_name) FROM pg_replication_slots r WHERE r.slot_name = slot;
            COMMIT;
            PERFORM howdah_shards._begin();
            PERFORM howdah_shards._exec(s.shard, format('CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION %1$I WITH (slot_name = %3$L)',
                publication, (SELECT m.hub FROM howdah_shards.map m), slot), false);
        ELSIF EXISTS (SELECT FROM unnest(names) n WHERE howdah_shards._copy_state(s.shard, n) IS NULL) THEN
            PERFORM howdah_shards._exec(s.shard, format('ALTER SUBSCRIPTION %I REFRESH PUBLICATION', publication), false);
        END IF;
        COMMIT;
    END LOOP;
    LOOP
        PERFORM howdah_shards._begin();
        EXIT WHEN NOT EXISTS (SELECT FROM howdah_shards._shards x, unnest(names) n
            WHERE howdah_shards._copy_state(x.shard, n) IS DISTINCT FROM 'r');
        COMMIT;
        PERFORM pg_catalog.pg_sleep(0.1);
    END LOOP;
END
$$;

CREATE PROCEDURE howdah_shards.reference_table(relation regclass, dry_run boolean DEFAULT false, INOUT report text[] DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    t record;
    k record;
    s record;
    job bigint;
    made text;
    publication text;
    steps howdah_shards.step[] := '{}';
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF NOT dry_run THEN
        CALL howdah_shards.recover();
        PERFORM howdah_shards._begin();
    END IF;
    SELECT c.relkind, c.relpersistence, n.nspname::text, c.relname::text, howdah_shards._name(c.oid) AS name INTO t
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    publication := howdah_shards._reference_name();
    IF t IS NULL OR t.relkind <> 'r' OR t.relpersistence <> 'p' THEN
        RAISE EXCEPTION '% is not an ordinary table', relation USING ERRCODE = 'wrong_object_type',
            HINT = 'A reference table is an ordinary table of the hub; a sharded one becomes that by undistribute_table.';
    ELSIF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisprimary) THEN
        RAISE EXCEPTION 'table % has no primary key', relation USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Its changes are replicated by it: ALTER TABLE ... ADD PRIMARY KEY.';
    END IF;
    PERFORM howdah_shards._check_publisher();
    FOR k IN SELECT f.conname, f.confrelid FROM pg_constraint f WHERE f.contype = 'f' AND f.conrelid = relation
        AND f.confrelid <> relation AND NOT EXISTS (SELECT FROM howdah_shards.tables x WHERE x.relation = f.confrelid) LOOP
        RAISE EXCEPTION 'foreign key "%" refers to %, which is no reference table', k.conname, k.confrelid::regclass
            USING ERRCODE = 'feature_not_supported', HINT = 'Make that one a reference table first.';
    END LOOP;
    FOR s IN SELECT x.* FROM howdah_shards._shards x ORDER BY x.number LOOP
        PERFORM howdah_shards._check_shard(relation, s.shard, false);
        CONTINUE WHEN howdah_shards._copy_state(s.shard, t.name) IS NOT NULL;
        -- What add_shard or an earlier call has made is as it should be.
        SELECT a->>'made' INTO made FROM howdah_shards._ask(s.shard, format('SELECT (SELECT m.transaction FROM howdah_shard.made m
            WHERE m.relation = to_regclass(%L)) AS made, to_regclass(%1$L) AS taken', t.name)) a WHERE a->>'taken' IS NOT NULL;
        IF FOUND AND made IS DISTINCT FROM 'copy' THEN
            RAISE EXCEPTION 'there is a table % on shard "%"', t.name, s.shard USING ERRCODE = 'duplicate_table',
                HINT = 'Save what is of use, and drop it there.';
        END IF;
        IF NOT FOUND THEN
            steps := steps || (SELECT array_agg((s.shard, x)::howdah_shards.step ORDER BY ord)
                FROM howdah_shards._copy_statements(relation) WITH ORDINALITY x(x, ord));
        END IF;
    END LOOP;
    steps := steps || howdah_shards._publish(publication, ARRAY[relation]);
    IF dry_run THEN
        report := ARRAY(SELECT format('%s: %s', coalesce(x.server, 'hub'), x.statement) FROM unnest(steps) x)
            || howdah_shards._subscribe_report(publication);
        RETURN;
    END IF;
    job := howdah_shards._new_job('reference', jsonb_build_object('call', 'reference_table'));
    PERFORM howdah_shards._run(steps);
    COMMIT;

    CALL howdah_shards._subscribe(publication, ARRAY[t.name]);
    INSERT INTO howdah_shards.tables VALUES (relation, 'reference') ON CONFLICT DO NOTHING;
    PERFORM howdah_shards._note_change();
    DELETE FROM howdah_shards.jobs WHERE id = job;
    COMMIT;
    report := ARRAY[format('%s is on each shard', t.name)];
END
$$;
COMMENT ON PROCEDURE howdah_shards.reference_table(regclass, boolean, text[]) IS
'Gives each shard a copy of a table of the hub, which follows it by logical replication: for small tables that sharded ones are
joined with, and refer to. It is written on the hub; the shards refuse writes to their copies (25006), and have its changes a
moment later. Foreign keys of sharded tables to it are checked on the shards when rows of theirs are written; whoever deletes a
row of the hub''s table has to see for himself that none refers to it. Repeat it after add_shard. howdah_shards.set_hub first.
With dry_run, report has the statements. Errors: 42809 not an ordinary table; 55000 no primary key, wal_level of the hub, no
set_hub, no shard; 0A000 a foreign key to another table; 42P07 a shard has such a table; 08001 a shard does not answer.';

-- Models: the hub publishes the tables of pgml from which predictions are made.

-- Those that pgml of this version has.
CREATE FUNCTION howdah_shards._registry() RETURNS regclass[]
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT array_agg(to_regclass('pgml.' || name) ORDER BY ord) FILTER (WHERE to_regclass('pgml.' || name) IS NOT NULL)
    FROM unnest(ARRAY['projects', 'models', 'files', 'deployments', 'trials', 'privileges']) WITH ORDINALITY t(name, ord)
$$;

-- Raises if the hub's models cannot be published.
CREATE FUNCTION howdah_shards._check_models() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    login text;
    gone oid;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'pgml') THEN
        RAISE EXCEPTION 'the hub does not have the extension pgml' USING ERRCODE = 'undefined_object',
            HINT = 'CALL howdah_shards.run_on_shards(''CREATE EXTENSION pgml'', two_phase => false) makes it here and on the shards.';
    END IF;
    PERFORM howdah_shards._check_publisher();
    -- Who is subject to the row security of the registry would copy some of the models only.
    SELECT s.value INTO login FROM howdah_shards._settings((SELECT m.hub FROM howdah_shards.map m)) s WHERE s.name = 'user';
    IF EXISTS (SELECT FROM pg_roles r, pg_class c WHERE r.rolname = login AND c.oid = ANY (howdah_shards._registry())
        AND NOT (r.rolsuper OR r.rolbypassrls AND has_table_privilege(r.oid, c.oid, 'SELECT') OR pg_has_role(r.oid, c.relowner, 'USAGE'))) THEN
        RAISE EXCEPTION 'user "%" of set_hub may not read all models', login USING ERRCODE = 'insufficient_privilege',
            HINT = format('ALTER ROLE %I BYPASSRLS, and GRANT SELECT ON ALL TABLES IN SCHEMA pgml TO %1$I.', login);
    END IF;
    -- Their numbers may be those of other roles on a shard.
    EXECUTE 'SELECT x.role FROM (SELECT owner::oid AS role FROM pgml.projects UNION SELECT unnest(ARRAY[grantee, grantor])::oid FROM pgml.privileges) x
        WHERE x.role <> 0 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = x.role) LIMIT 1' INTO gone;
    IF gone IS NOT NULL THEN
        RAISE EXCEPTION 'models belong, or are granted, to role %, which is no more', gone USING ERRCODE = 'undefined_object',
            HINT = format('SELECT pgml.set_owner(name, current_user) FROM pgml.projects WHERE owner = %s; '
                'DELETE FROM pgml.privileges WHERE %1$s IN (grantee, grantor).', gone);
    END IF;
END
$$;

-- Raises if a shard cannot have the hub's models.
CREATE FUNCTION howdah_shards._check_models_on(shard text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    here text := (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pgml');
    f jsonb;
    roles jsonb;
BEGIN
    f := howdah_shards._ask(shard, 'SELECT (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = ''pgml'') AS version,
        (SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = current_user AND NOT rolsuper) AS login');
    IF f->>'version' IS NULL THEN
        RAISE EXCEPTION 'shard "%" does not have the extension pgml', shard USING ERRCODE = 'undefined_object',
            HINT = 'CALL howdah_shards.run_on_shards(''CREATE EXTENSION IF NOT EXISTS pgml'', hub => false, two_phase => false).';
    ELSIF f->>'version' <> here THEN
        RAISE EXCEPTION 'shard "%" has version % of pgml, and the hub has %', shard, f->>'version', here
            USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Install the same files everywhere, and CALL howdah_shards.run_on_shards('
                '''SET LOCAL session_replication_role = replica; ALTER EXTENSION pgml UPDATE'', two_phase => false).';
    ELSIF f->>'login' IS NOT NULL THEN
        RAISE EXCEPTION 'user "%" of shard "%" is no superuser', f->>'login', shard USING ERRCODE = 'insufficient_privilege',
            HINT = 'The tables of models belong to the extension: have a superuser in the user mapping of who publishes.';
    END IF;
    EXECUTE 'SELECT jsonb_agg(DISTINCT r.rolname) FROM pg_roles r WHERE r.oid IN (SELECT owner FROM pgml.projects
        UNION SELECT unnest(ARRAY[grantee, grantor]) FROM pgml.privileges)' INTO roles;
    f := (SELECT a FROM howdah_shards._ask(shard, format('SELECT r FROM pg_catalog.jsonb_array_elements_text(%L) r
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r)', coalesce(roles, '[]'))) a LIMIT 1);
    IF f IS NOT NULL THEN
        RAISE EXCEPTION 'role "%" is not on shard "%"', f->>'r', shard USING ERRCODE = 'undefined_object',
            DETAIL = 'Projects belong, and are granted, to roles by their names.',
            HINT = format('CALL howdah_shards.run_on_shards(''CREATE ROLE %I'', hub => false).', f->>'r');
    END IF;
    -- What was copied from a hub is marked.
    IF EXISTS (SELECT FROM howdah_shards._ask(shard, 'SELECT 1 AS one WHERE EXISTS (SELECT FROM pgml.projects)
        AND NOT EXISTS (SELECT FROM howdah_shard.made m WHERE m.relation = ''pgml.projects''::regclass AND m.transaction = ''models'')')) THEN
        RAISE EXCEPTION 'shard "%" has models of its own', shard USING ERRCODE = 'object_not_in_prerequisite_state',
            HINT = 'Export those that are of use (pgml.export_model), and there: SELECT pgml.delete_project(name) FROM pgml.projects.';
    END IF;
END
$$;

-- The statements that ready the tables of models of a shard for the hub's: the refusal of other writes, and, where no
-- subscription follows the hub (that of a database that was restored is disabled), an empty start.
CREATE FUNCTION howdah_shards._ready_registry(shard text) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    names text[] := ARRAY(SELECT howdah_shards._name(r) FROM unnest(howdah_shards._registry()) r);
    enabled boolean;
BEGIN
    -- That of a hub whose extension was dropped, and made again, follows tables that are no more.
    SELECT (a->>'subenabled')::boolean AND EXISTS (SELECT FROM howdah_shards.tables x WHERE x.kind = 'models') INTO enabled
    FROM howdah_shards._ask(shard, format('SELECT subenabled FROM pg_catalog.pg_subscription WHERE subname = %L',
        howdah_shards._models_name())) a;
    IF NOT enabled THEN
        RETURN NEXT howdah_shards._drop_subscription(howdah_shards._models_name());
    END IF;
    IF enabled IS NOT TRUE THEN
        RETURN QUERY SELECT format('DROP TRIGGER IF EXISTS howdah_shards_copied ON %s', n) FROM unnest(names) n;
        RETURN NEXT format('TRUNCATE %s', array_to_string(names, ', '));
    END IF;
    RETURN QUERY SELECT format('INSERT INTO howdah_shard.made VALUES (%L, ''models'') ON CONFLICT DO NOTHING', n) FROM unnest(names) n;
    IF enabled THEN
        -- Where it is there nothing is locked: a copy that holds the table may wait on the hub for the end of this transaction.
        names := ARRAY(SELECT a->>'n' FROM howdah_shards._ask(shard, format('SELECT n FROM unnest(%L::text[]) n WHERE NOT EXISTS
            (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = to_regclass(n) AND t.tgname = ''howdah_shards_copied'')', names)) a);
    END IF;
    RETURN QUERY SELECT format('CREATE OR REPLACE TRIGGER howdah_shards_copied BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
        'FOR EACH STATEMENT EXECUTE FUNCTION howdah_shard.copied()', n) FROM unnest(names) n;
END
$$;

CREATE PROCEDURE howdah_shards.publish_models(dry_run boolean DEFAULT false, INOUT report text[] DEFAULT NULL)
LANGUAGE plpgsql
AS $$
DECLARE
    shard text;
    job bigint;
    publication text;
    names text[];
    steps howdah_shards.step[];
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF NOT dry_run THEN
        CALL howdah_shards.recover();
        PERFORM howdah_shards._begin();
    END IF;
    PERFORM howdah_shards._check_models();
    publication := howdah_shards._models_name();
    steps := howdah_shards._publish(publication, howdah_shards._registry());
    FOR shard IN SELECT s.shard FROM howdah_shards._shards s ORDER BY s.number LOOP
        PERFORM howdah_shards._check_models_on(shard);
        steps := steps || ARRAY(SELECT (shard, x)::howdah_shards.step FROM howdah_shards._ready_registry(shard) x);
    END LOOP;
    IF dry_run THEN
        report := ARRAY(SELECT format('%s: %s', coalesce(x.server, 'hub'), x.statement) FROM unnest(steps) x)
            || howdah_shards._subscribe_report(publication);
        RETURN;
    END IF;
    job := howdah_shards._new_job('reference', jsonb_build_object('call', 'publish_models'));
    PERFORM howdah_shards._run(steps);
    COMMIT;
    names := ARRAY(SELECT howdah_shards._name(r) FROM unnest(howdah_shards._registry()) r);
    CALL howdah_shards._subscribe(publication, names);
    INSERT INTO howdah_shards.tables SELECT r, 'models' FROM unnest(howdah_shards._registry()) r ON CONFLICT DO NOTHING;
    PERFORM howdah_shards._note_change();
    DELETE FROM howdah_shards.jobs WHERE id = job;
    COMMIT;
    report := ARRAY['the models are on each shard'];
END
$$;
COMMENT ON PROCEDURE howdah_shards.publish_models(boolean, text[]) IS
'Gives each shard the hub''s models, which follow it by logical replication: whatever pgml predicts from, which is projects, models with
their files, deployments, trials and privileges. They are trained and deployed on the hub; the shards refuse to (25006), have each
change a moment after its commit, also in open connections, and predict the same to the last bit. Repeat it after add_shard, after
ALTER EXTENSION pgml UPDATE, and after a shard was restored from a dump, which then gets the models anew. howdah_shards.set_hub first. With
dry_run, report has the statements. Errors: 42704 the hub or a shard does not have pgml, a shard lacks a role that models belong or are
granted to, or a role is no more; 55000 another version of pgml, a shard has models of its own, wal_level of the hub, no set_hub, no shard;
42501 the user of set_hub may not read all models, or that of a shard is no superuser; 08001 a shard does not answer.';

-- Rights: whoever routes may read the map; what changes something is for whom the owner grants it to.

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'howdah_shards'::regnamespace
        AND p.proname NOT IN ('map_version', 'lease', '_on_ddl', '_note_change') LOOP
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', f);
    END LOOP;
END
$$;
GRANT USAGE ON SCHEMA howdah_shards TO PUBLIC;
GRANT SELECT (version, lease) ON howdah_shards.map TO PUBLIC;
GRANT SELECT ON howdah_shards.tables, howdah_shards.routes, howdah_shards.shards, howdah_shards._shards,
    howdah_shards._slots TO PUBLIC;

CREATE EVENT TRIGGER howdah_shards_on_drop ON sql_drop EXECUTE FUNCTION howdah_shards._on_ddl();
CREATE EVENT TRIGGER howdah_shards_on_ddl ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER FOREIGN TABLE', 'ALTER SCHEMA', 'ALTER SERVER', 'CREATE FOREIGN TABLE')
    EXECUTE FUNCTION howdah_shards._on_ddl();
