\echo Use "ALTER EXTENSION howdah_shards UPDATE" to load this file. \quit

-- From howdah_shards 1.0 to 1.1. What Howdah 3.6.0 had as 1.0 has a part of this already, so it can be run on that too.

ALTER TABLE howdah_shards.jobs
    -- Of a move: whether routers hold what needs the slot.
    ADD COLUMN IF NOT EXISTS closing boolean NOT NULL DEFAULT false;

CREATE OR REPLACE VIEW howdah_shards.routes AS
SELECT n.nspname::text AS schema_name, c.relname::text AS table_name, t.kind, a.attname::text AS key_name,
    pg_catalog.format_type(k.base, NULL) AS key_type,
    (SELECT pg_catalog.count(*)::int FROM pg_catalog.pg_attribute o
     WHERE o.attrelid = a.attrelid AND o.attnum BETWEEN 1 AND a.attnum AND NOT o.attisdropped) AS key_position,
    s.modulus, s.slot, s.shard,
    EXISTS (SELECT FROM howdah_shards.jobs j WHERE j.closing AND NOT j.decided AND (j.what->>'slot')::int = s.slot
        AND (j.what->>'colocation')::int = t.colocation) AS closing
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
SELECT n.nspname::text, c.relname::text, t.kind, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM howdah_shards.tables t
JOIN pg_catalog.pg_class c ON c.oid = t.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.kind <> 'sharded';

COMMENT ON VIEW howdah_shards.routes IS
'What a router has to know: a row for each slot of a sharded table, and one for each reference table, and for each of the
tables of models (kind models), whose columns after kind are null. key_type is the key''s type, that of a domain its base type; key_position counts the columns that are not
dropped, from 1. A row belongs to the slot for which satisfies_hash_partition is true. A reference table is on each shard that has a slot, and so are the models. closing: the slot
is about to move, so a router begins nothing with it until the next version, or for some seconds. Valid for howdah_shards.map_version() in the same query.';

DROP FUNCTION IF EXISTS howdah_shards._exec(text, text, boolean);
-- Runs statements on a shard, as one transaction unless they say otherwise themselves. The hub's statements lock a slot and then
-- its table (a check of the hash partition opens it), those of clients of the shard the table and then the slot: a change of both
-- is in the way of one or the other. So it waits for locks less than deadlock_timeout, and tries again, some seconds by default.
CREATE OR REPLACE FUNCTION howdah_shards._exec(shard text, statements text, locked boolean DEFAULT true, attempts int DEFAULT 30) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    said text;
BEGIN
    FOR attempt IN 1..attempts LOOP
        BEGIN
            EXECUTE format('SELECT %s($1, $2)', howdah_shards._dblink('dblink_exec'))
                USING howdah_shards._options(howdah_shards._conninfo(shard)),
                    CASE WHEN locked THEN E'DO $_$ BEGIN PERFORM pg_advisory_xact_lock(7237130); END $_$;\n' ELSE '' END || statements;
            RETURN;
        EXCEPTION
            WHEN lock_not_available OR deadlock_detected THEN
                IF attempt = attempts THEN
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

DROP FUNCTION IF EXISTS howdah_shards._lock(text);
-- Locks tables of the hub against everybody, as patiently.
CREATE OR REPLACE FUNCTION howdah_shards._lock(tables text, attempts int DEFAULT 30) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '300ms'
AS $$
BEGIN
    FOR attempt IN 1..attempts LOOP
        BEGIN
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', tables);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            IF attempt = attempts THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(0.05 + random() * 0.1);
        END;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION howdah_shards.add_shard(name text, conninfo text, dry_run boolean DEFAULT false)
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
        BEGIN
            PERFORM howdah_shards._run(steps);
        EXCEPTION WHEN undefined_object OR undefined_function THEN
            GET STACKED DIAGNOSTICS reached = MESSAGE_TEXT;
            RAISE EXCEPTION '% (on shard "%")', reached, shard USING ERRCODE = SQLSTATE,
                HINT = 'Types and functions of the sharded tables have to be there first: pg_dump --section=pre-data '
                    '--exclude-table=* --exclude-schema=howdah_shard of another shard has them.';
        END;
    END IF;
    -- A password is none of what is shown.
    RETURN QUERY SELECT coalesce(x.server, 'hub'), regexp_replace(x.statement, '((ssl)?password) ''(''''|[^''])*''', '\1 ''...''', 'g')
        FROM unnest(steps) x;
END
$$;

CREATE OR REPLACE FUNCTION howdah_shards.distribute_table(relation regclass, key name, slots int DEFAULT NULL,
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
    slots_of text;
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
    -- A table that had this name, and has another by now, has kept its slots' names.
    slots_of := t.relname || CASE WHEN EXISTS (SELECT FROM generate_series(0, modulus - 1) slot WHERE
        to_regclass(format('%I.%I', t.nspname, howdah_shards._slot_name(t.relname, slot))) IS NOT NULL) THEN '_' || rel::oid ELSE '' END;
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
                howdah_shards._slot_name(slots_of, slot), t.name, modulus, slot, ' WITH (' || array_to_string(t.reloptions, ', ') || ')')
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
        SELECT 4, slot, howdah_shards._foreign_slot(t.nspname, t.relname, howdah_shards._slot_name(slots_of, slot), modulus, slot, placed[slot + 1])
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

-- Completes a job that is decided, undoes one that is not, and forgets it.
CREATE OR REPLACE FUNCTION howdah_shards._settle(job bigint) RETURNS void
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
    PERFORM howdah_shards._note_change();
END
$$;

-- The sequences of the columns of sharded tables.
CREATE OR REPLACE FUNCTION howdah_shards._sequences() RETURNS regclass[]
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT coalesce(array_agg(q.seqrelid::regclass), '{}') FROM howdah_shards.tables t
    JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = t.relation AND d.classid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i')
    JOIN pg_sequence q ON q.seqrelid = d.objid
    WHERE t.kind = 'sharded'
$$;

CREATE OR REPLACE FUNCTION howdah_shards._run_on_hub(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    known regclass[];
    fresh regclass;
BEGIN
    IF (j.what->>'hub')::boolean THEN
        known := howdah_shards._sequences();
        PERFORM pg_catalog.set_config('search_path', j.what->>'path', true);
        EXECUTE j.what->>'ddl';
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        SELECT x INTO fresh FROM pg_catalog.unnest(howdah_shards._sequences()) x WHERE x <> ALL (known) LIMIT 1;
        IF fresh IS NOT NULL THEN
            RAISE EXCEPTION 'sequence % would have the same values on all servers', fresh USING ERRCODE = 'feature_not_supported',
                HINT = 'Sequences are divided by distribute_table only: add a uuid, such as uuid DEFAULT gen_random_uuid().';
        END IF;
        PERFORM howdah_shards._note_change();
    END IF;
END
$$;

-- Runs the DDL on the hub and prepares it on the shards; the hub's commit decides. Gives the error, if there was one.
CREATE OR REPLACE FUNCTION howdah_shards._prepare_run(j howdah_shards.jobs, OUT state text, OUT message text, OUT detail text, OUT hint text)
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
            WHEN state = '55P03' AND (j.what->>'hub')::boolean THEN 'Nothing was changed on any server. If the hub''s own part locks '
                'rows of the shards, as TRUNCATE and UPDATE do: hub => false.'
            ELSE 'Nothing was changed on any server.' END;
    END IF;
END
$$;

CREATE OR REPLACE PROCEDURE howdah_shards.move_slot(relation regclass, slot int, to_shard text, dry_run boolean DEFAULT false,
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
    j.what := jsonb_build_object('call', 'move_slot', 'slot', l.slot, 'modulus', l.modulus, 'colocation', l.colocation,
        'source', l.shard, 'target', to_shard,
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
        -- A source that has gone ends the call: the target alone would wait for it.
        PERFORM FROM howdah_shards._ask(l.shard, 'SELECT 1 AS one');
        COMMIT;
        PERFORM pg_catalog.pg_sleep(0.1);
    END LOOP;

    IF said.message IS NULL THEN
        -- So that little is left to be done while clients wait.
        said := howdah_shards._attempt('SELECT howdah_shards._catch_up($1)', j);
        COMMIT;
    END IF;
    IF said.message IS NULL THEN
        -- What is in the way of the switch has the clients let in again, for a while.
        FOR attempt IN 1..8 LOOP
            PERFORM howdah_shards._begin();
            PERFORM howdah_shards._set_closing(job, true);
            COMMIT;
            PERFORM howdah_shards._begin();
            PERFORM howdah_shards._await_routers();
            said := howdah_shards._attempt('SELECT howdah_shards._move_switch($1)', j);
            COMMIT;
            EXIT WHEN said.message IS NULL;
            PERFORM howdah_shards._begin();
            PERFORM howdah_shards._set_closing(job, false);
            COMMIT;
            EXIT WHEN said.state <> '55P03';
            PERFORM pg_catalog.pg_sleep(0.5 + pg_catalog.random());
        END LOOP;
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
a copy by logical replication, while the slot is read and written as before. 2. The switch, which takes a moment: routers
hold what needs the slot, the transactions of the source end, for half a second at most, the hub''s table is locked, writes to the old
place are refused from then on (40001, constraint howdah_shards_moved: repeat the transaction), the target catches up, and the map
gets a new version. If a lock is not to be had, the slot is opened again, and the switch is tried eight times. 3. After howdah_shards.lease() the old place is dropped;
until then a router with the old map may read it as it was at the switch. If a server or the session dies, the next call of any
procedure here (or howdah_shards.recover()) undoes what was before the switch, completes what was after it; writes to the
slot are refused until then if it died within the switch. The shards'' user has to be one that may make subscriptions, with
REPLICATION, and the target has to reach the source by the address that the hub has for it. With dry_run, report has the
statements. Errors: 42704 no such slot or shard; 55000 wal_level, or a reference table is missing at the target; 55P03 the hub''s
table or the slot is in use for long; 55006 another call runs; 08001 a shard does not answer.';

-- 1: a table like the others' slots, unattached, a publication of the slot, and a subscription to it.
CREATE OR REPLACE FUNCTION howdah_shards._move_copy(j howdah_shards.jobs) RETURNS SETOF howdah_shards.step
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
        -- By these the switch need not read the rows. Those that come by replication are not checked for their foreign keys.
        RETURN NEXT (j.what->>'target', format('ALTER TABLE %s ADD CONSTRAINT howdah_shards_slot CHECK '
            '(satisfies_hash_partition(%L::regclass, %s, %s, %I))', t->>'name', t->>'parent', j.what->>'modulus', j.what->>'slot',
            (SELECT a.attname FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
             WHERE p.partrelid = (t->>'parent')::regclass)));
        RETURN QUERY SELECT j.what->>'target', format('ALTER TABLE %s ADD CONSTRAINT %I %s', t->>'name', a->>'n', a->>'d')
            FROM howdah_shards._ask(j.what->>'target', format('SELECT conname AS n, pg_catalog.pg_get_constraintdef(oid) AS d
                FROM pg_catalog.pg_constraint WHERE conrelid = %L::regclass AND contype = ''f'' AND conparentid = 0', t->>'parent')) a;
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
CREATE OR REPLACE FUNCTION howdah_shards._move_attach(j howdah_shards.jobs) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog
AS $$
    SELECT howdah_shards._end_subscription(j.id)
    UNION ALL
    SELECT format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES WITH (MODULUS %s, REMAINDER %s)', t->>'parent', t->>'name',
        j.what->>'modulus', j.what->>'slot') || format('; ALTER TABLE %s DROP CONSTRAINT howdah_shards_slot', t->>'name')
    FROM jsonb_array_elements(j.what->'tables') t
    UNION ALL
    SELECT howdah_shards._follow()
$$;

-- Has routers hold what needs the slot of a move, or go on with it. They hear of it at once.
CREATE OR REPLACE FUNCTION howdah_shards._set_closing(job bigint, closing boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah_shards.jobs j SET closing = _set_closing.closing WHERE j.id = job;
    PERFORM howdah_shards._note_change();
    NOTIFY howdah_shards;
END
$$;

-- Waits until the routers that are connected go by the map, for half a second at most: one that does not hear of it meets
-- the refusal of writes, as one that has lost its connection. They say in their application_name which map they go by.
CREATE OR REPLACE FUNCTION howdah_shards._await_routers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    FOR attempt IN 1..50 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datname = current_database()
            AND a.application_name ~ '^howdah catalog, map \d+$'
            AND a.application_name <> format('howdah catalog, map %s', howdah_shards.map_version()));
        PERFORM pg_sleep(0.01);
        PERFORM pg_stat_clear_snapshot();
    END LOOP;
END
$$;

-- Waits for the transactions that run on a shard and may yet write a slot of it, for half a second at most: those that last
-- longer meet the refusal of writes.
CREATE OR REPLACE FUNCTION howdah_shards._await_transactions(shard text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    running text;
BEGIN
    SELECT a->>'running' INTO running FROM howdah_shards._ask(shard, 'SELECT pg_catalog.array_agg(l.virtualtransaction)::text
        AS running FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = ''virtualxid''
        AND a.datname = pg_catalog.current_database() AND a.usesysid IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid()
        AND a.pid NOT IN (SELECT s.active_pid FROM pg_catalog.pg_replication_slots s WHERE s.active_pid IS NOT NULL)') a;
    FOR attempt IN 1..15 LOOP
        EXIT WHEN running IS NULL OR NOT EXISTS (SELECT FROM howdah_shards._ask(shard, format('SELECT 1 AS one
            FROM pg_catalog.pg_locks l WHERE l.locktype = ''virtualxid'' AND l.virtualtransaction = ANY (%L)', running)));
        PERFORM pg_sleep(0.02);
    END LOOP;
END
$$;

-- Waits until the target has what was written at the source.
CREATE OR REPLACE FUNCTION howdah_shards._catch_up(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source text := j.what->>'source';
    target text := j.what->>'target';
    name text := howdah_shards._job_name(j.id);
    written text;
BEGIN
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
END
$$;

-- Waits until the standbys that follow a shard have replayed what is written there, for two seconds at most: reads of a slot
-- go to them as soon as the map says that it is there. A standby tells what it has replayed with the next record that it gets.
CREATE OR REPLACE FUNCTION howdah_shards._await_standbys(shard text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    written text;
BEGIN
    SELECT a->>'lsn' INTO written FROM howdah_shards._ask(shard, 'SELECT pg_catalog.pg_current_wal_lsn() AS lsn') a;
    FOR attempt IN 1..100 LOOP
        EXIT WHEN NOT EXISTS (SELECT FROM howdah_shards._ask(shard, format('SELECT 1 AS one FROM pg_catalog.pg_stat_replication r
            WHERE r.state = ''streaming'' AND r.replay_lsn < %L AND r.pid NOT IN (SELECT s.active_pid
                FROM pg_catalog.pg_replication_slots s WHERE s.slot_type = ''logical'' AND s.active_pid IS NOT NULL)', written)));
        PERFORM howdah_shards._exec(shard, 'DO ''BEGIN PERFORM pg_catalog.pg_logical_emit_message(true, '''''''', ''''''''); END''',
            locked => false);
        PERFORM pg_sleep(0.02);
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION howdah_shards._move_switch(j howdah_shards.jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source text := j.what->>'source';
    statement text;
BEGIN
    PERFORM howdah_shards._await_transactions(source);
    PERFORM howdah_shards._lock((SELECT string_agg(t->>'parent', ', ') FROM jsonb_array_elements(j.what->'tables') t), 2);
    PERFORM howdah_shards._exec(source, (SELECT string_agg(howdah_shards._fence(t->>'name'), '; ')
        FROM jsonb_array_elements(j.what->'tables') t), attempts => 2);
    BEGIN
        PERFORM howdah_shards._catch_up(j);
        PERFORM howdah_shards._exec(j.what->>'target', (SELECT string_agg(x, E';\n' ORDER BY ord)
            FROM howdah_shards._move_attach(j) WITH ORDINALITY x(x, ord)), attempts => 3);
    EXCEPTION WHEN lock_not_available THEN
        PERFORM howdah_shards._exec(source, (SELECT string_agg(howdah_shards._unfence(t->>'name'), '; ')
            FROM jsonb_array_elements(j.what->'tables') t));
        RAISE;
    END;
    PERFORM howdah_shards._await_standbys(j.what->>'target');
    FOR statement IN SELECT howdah_shards._move_map(j) LOOP
        EXECUTE statement;
    END LOOP;
    UPDATE howdah_shards.jobs SET decided = true WHERE id = j.id;
    PERFORM howdah_shards._note_change();
    NOTIFY howdah_shards;
END
$$;

-- Rights, as those of the other functions.

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'howdah_shards'::regnamespace
        AND p.proname IN ('_await_routers', '_await_standbys', '_await_transactions', '_catch_up', '_exec', '_lock', '_sequences', '_set_closing') LOOP
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', f);
    END LOOP;
END
$$;
