-- From pgml 3.0.0 to 3.1.0. CREATE EXTENSION runs this too, after pgml--3.0.0.sql, so that a database that was upgraded
-- and one that is new have the same objects.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it. It may run with
-- the rights of a superuser on tables that a lesser role had all privileges on, so it begins by making sure that no code
-- of that role's is in its way.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

DO LANGUAGE plpgsql $$
DECLARE
    alien record;
BEGIN
    -- With the TRIGGER privilege, which 3.0.0 gave to the extension's owner, a role can have its own code run by whoever
    -- trains.
    FOR alien IN
        SELECT pg_catalog.quote_ident(t.tgname) AS name, c.relname AS relation
        FROM pg_catalog.pg_trigger t
        INNER JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid
        WHERE NOT t.tgisinternal
        AND t.tgrelid OPERATOR(pg_catalog.=) ANY (ARRAY['pgml.projects', 'pgml.snapshots', 'pgml.models',
            'pgml.deployments', 'pgml.files']::pg_catalog.regclass[]::pg_catalog.oid[])
        AND t.tgfoid OPERATOR(pg_catalog.<>) ALL (ARRAY['pgml.invalidate()',
            'pgml.set_updated_at()']::pg_catalog.regprocedure[]::pg_catalog.oid[])
    LOOP
        RAISE EXCEPTION 'trigger % on pgml.% is not of the extension', alien.name, alien.relation
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Drop it before the update: the tables of the registry have no triggers but the extension''s.';
    END LOOP;

    IF EXISTS (
        SELECT FROM pgml.deployments d
        INNER JOIN pgml.models m ON m.id OPERATOR(pg_catalog.=) d.model_id
        WHERE m.project_id OPERATOR(pg_catalog.<>) d.project_id
    ) THEN
        RAISE EXCEPTION 'a deployment names a model of another project'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Delete such deployments before the update: SELECT d.* FROM pgml.deployments d '
                    'JOIN pgml.models m ON m.id = d.model_id WHERE m.project_id <> d.project_id';
    END IF;
END $$;

--
-- Projects belong to roles. Those that there are belong to the owner of the extension.
--

DO LANGUAGE plpgsql $$
BEGIN
    -- A default that is one value for all rows: no row is written, so no trigger fires.
    EXECUTE pg_catalog.format(
        'ALTER TABLE pgml.projects ADD COLUMN owner pg_catalog.regrole NOT NULL DEFAULT %L::pg_catalog.oid',
        (SELECT e.extowner FROM pg_catalog.pg_extension e
            WHERE e.extname OPERATOR(pg_catalog.=) 'pgml'));
END $$;
ALTER TABLE pgml.projects ALTER COLUMN owner
    SET DEFAULT pg_catalog.to_regrole(pg_catalog.quote_ident(CURRENT_USER::pg_catalog.text));

-- The role that gave relation_name; NULL for what 3.0.0 recorded.
ALTER TABLE pgml.snapshots ADD COLUMN owner pg_catalog.regrole;

-- 0, which prints as -, is PUBLIC.
CREATE TABLE pgml.privileges (
    project_id pg_catalog.int8 NOT NULL REFERENCES pgml.projects (id) ON DELETE CASCADE,
    grantee pg_catalog.regrole NOT NULL,
    privilege pg_catalog.text NOT NULL CHECK (privilege OPERATOR(pg_catalog.=)
        ANY (ARRAY['see', 'predict', 'explain', 'train', 'deploy', 'export'])),
    grantor pg_catalog.regrole NOT NULL,
    created_at timestamp without time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    PRIMARY KEY (project_id, grantee, privilege)
);
COMMENT ON TABLE pgml.privileges IS 'what roles other than its owner may do with a project; the view pgml.grants shows it';

-- Grants to roles that are no more are not restored elsewhere, where their numbers may be others'.
SELECT pg_catalog.pg_extension_config_dump('pgml.privileges',
    'WHERE grantee::pg_catalog.oid OPERATOR(pg_catalog.=) 0 '
    'OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid OPERATOR(pg_catalog.=) grantee)');

CREATE TRIGGER invalidate AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pgml.privileges
    FOR EACH STATEMENT EXECUTE FUNCTION pgml.invalidate();

-- Roles keep what they could do with the projects that there are; values of the data they have to be granted.
INSERT INTO pgml.privileges (project_id, grantee, privilege, grantor)
SELECT DISTINCT p.id, g.grantee::pg_catalog.regrole, g.privilege, p.owner
FROM pgml.projects p
CROSS JOIN (
    SELECT 0::pg_catalog.oid AS grantee, pg_catalog.unnest(ARRAY['predict', 'explain']) AS privilege
    UNION ALL
    SELECT a.grantee, m.privilege
    FROM (VALUES
        ('pgml.models'::pg_catalog.regclass, 'INSERT', 'train'),
        ('pgml.models'::pg_catalog.regclass, 'INSERT', 'see'),
        ('pgml.deployments'::pg_catalog.regclass, 'INSERT', 'deploy')
    ) AS m (relation, acl, privilege)
    INNER JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) m.relation
    CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
    WHERE a.privilege_type OPERATOR(pg_catalog.=) m.acl AND a.grantee OPERATOR(pg_catalog.<>) c.relowner
) g
WHERE g.grantee OPERATOR(pg_catalog.<>) p.owner;

--
-- What belongs together
--

ALTER TABLE pgml.models ADD CONSTRAINT models_project_id_id_key UNIQUE (project_id, id);
DROP INDEX pgml.models_project_id_idx;
ALTER TABLE pgml.deployments DROP CONSTRAINT deployments_model_id_fkey;
ALTER TABLE pgml.deployments ADD CONSTRAINT deployments_project_id_model_id_fkey
    FOREIGN KEY (project_id, model_id) REFERENCES pgml.models (project_id, id) ON DELETE CASCADE;

-- What a model was trained on goes with the last model that was.
CREATE FUNCTION pgml.forget_snapshot() RETURNS trigger
    AS 'MODULE_PATHNAME', 'pgml_forget_snapshot' LANGUAGE C;
CREATE TRIGGER forget_snapshot AFTER DELETE ON pgml.models
    FOR EACH ROW EXECUTE FUNCTION pgml.forget_snapshot();

-- Nor is a compiled copy kept of bytes that are no more.
CREATE FUNCTION pgml.forget_compiled() RETURNS trigger
    AS 'MODULE_PATHNAME', 'pgml_forget_compiled' LANGUAGE C;
CREATE TRIGGER forget_compiled AFTER DELETE OR UPDATE ON pgml.files
    FOR EACH ROW EXECUTE FUNCTION pgml.forget_compiled();

--
-- Grants
--

CREATE FUNCTION pgml.grant(
    project_name pg_catalog.text,
    role pg_catalog.text,
    privilege pg_catalog.text
) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_grant' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.grant(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'let a role, or public, do this with the project: see, predict, explain, train, deploy, export, or all';

CREATE FUNCTION pgml.revoke(
    project_name pg_catalog.text,
    role pg_catalog.text,
    privilege pg_catalog.text
) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_revoke' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.revoke(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'take back what pgml.grant gave';

CREATE FUNCTION pgml.set_owner(project_name pg_catalog.text, role pg_catalog.text) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_set_owner' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.set_owner(pg_catalog.text, pg_catalog.text)
    IS 'give the project to another role, which the current one must be able to act as';

CREATE FUNCTION pgml.rename_project(project_name pg_catalog.text, new_name pg_catalog.text) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_rename_project' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.rename_project(pg_catalog.text, pg_catalog.text)
    IS 'give a project of the current role another name';

CREATE FUNCTION pgml.delete_project(project_name pg_catalog.text) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_delete_project' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.delete_project(pg_catalog.text)
    IS 'delete a project of the current role, with its models, its deployments and its grants';

CREATE FUNCTION pgml.delete_model(model_id pg_catalog.int8) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_delete_model' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.delete_model(pg_catalog.int8)
    IS 'delete a model of a project of the current role, with its deployments: the model of the deployment before is then the deployed one';

CREATE FUNCTION pgml.has_privilege(project_name pg_catalog.text, privilege pg_catalog.text) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_has_privilege' LANGUAGE C STABLE PARALLEL SAFE COST 100;
COMMENT ON FUNCTION pgml.has_privilege(pg_catalog.text, pg_catalog.text)
    IS 'whether the current role may do this with the project, as its owner, by a grant, or by one to public';

-- What the policies below ask.
CREATE FUNCTION pgml.project_allows(project_id pg_catalog.int8, privilege pg_catalog.text) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_project_allows' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
CREATE FUNCTION pgml.model_allows(model_id pg_catalog.int8, privilege pg_catalog.text) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_model_allows' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;
CREATE FUNCTION pgml.snapshot_allows(snapshot_id pg_catalog.int8, privilege pg_catalog.text) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_snapshot_allows' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 100;

--
-- Permissions: the extension's functions write to the registry, nobody else does, and what of it a role may read is
-- decided row by row. The right to make projects is INSERT on pgml.projects; the owner of the extension may grant it.
--

DO LANGUAGE plpgsql $$
DECLARE
    held record;
    makers pg_catalog.regrole[] := '{}';
    maker pg_catalog.regrole;
    initial pg_catalog.aclitem[];
BEGIN
    FOR held IN
        SELECT c.oid::pg_catalog.regclass AS relation,
            CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
            a.grantee::pg_catalog.regrole AS role,
            CASE WHEN a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
                ELSE a.grantee::pg_catalog.regrole::pg_catalog.text END AS grantee,
            c.relname OPERATOR(pg_catalog.=) 'projects' AND a.privilege_type OPERATOR(pg_catalog.=) 'INSERT' AS makes
        FROM pg_catalog.pg_class c
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
        WHERE c.oid OPERATOR(pg_catalog.=) ANY (ARRAY['pgml.projects', 'pgml.snapshots', 'pgml.models',
            'pgml.deployments', 'pgml.files', 'pgml.projects_id_seq', 'pgml.snapshots_id_seq', 'pgml.models_id_seq',
            'pgml.deployments_id_seq', 'pgml.files_id_seq']::pg_catalog.regclass[]::pg_catalog.oid[])
        AND a.grantee OPERATOR(pg_catalog.<>) c.relowner
    LOOP
        IF held.makes THEN
            makers := makers OPERATOR(pg_catalog.||) held.role;
        END IF;
        EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s CASCADE', held.kind, held.relation, held.grantee);
    END LOOP;
    -- No more than that: who may delete from a table may lock it, too, and so stop all predictions.
    GRANT SELECT ON pgml.projects, pgml.models, pgml.deployments, pgml.snapshots, pgml.files, pgml.privileges TO PUBLIC;
    SELECT e.extowner INTO maker FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pgml';
    EXECUTE pg_catalog.format('GRANT INSERT ON pgml.projects TO %s WITH GRANT OPTION', maker);
    -- For its dumps, with --enable-row-security.
    EXECUTE pg_catalog.format('GRANT SELECT ON SEQUENCE pgml.projects_id_seq, pgml.snapshots_id_seq, pgml.models_id_seq,
        pgml.deployments_id_seq, pgml.files_id_seq TO %s', maker);
    -- Those who could make projects still can. What a script of an extension grants is taken for the extension's own,
    -- and left out of dumps; this is not.
    SELECT i.initprivs INTO initial FROM pg_catalog.pg_init_privs i
    WHERE i.objoid OPERATOR(pg_catalog.=) 'pgml.projects'::pg_catalog.regclass::pg_catalog.oid
    AND i.classoid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
    AND i.objsubid OPERATOR(pg_catalog.=) 0;
    FOREACH maker IN ARRAY makers LOOP
        EXECUTE pg_catalog.format('GRANT INSERT ON pgml.projects TO %s',
            CASE WHEN maker::pg_catalog.oid OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'PUBLIC'
                ELSE maker::pg_catalog.text END);
    END LOOP;
    UPDATE pg_catalog.pg_init_privs i SET initprivs = initial
    WHERE i.objoid OPERATOR(pg_catalog.=) 'pgml.projects'::pg_catalog.regclass::pg_catalog.oid
    AND i.classoid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
    AND i.objsubid OPERATOR(pg_catalog.=) 0;
END $$;

-- A trigger of somebody's own table is no business of theirs.
REVOKE EXECUTE ON FUNCTION pgml.invalidate(), pgml.set_updated_at(), pgml.forget_snapshot(), pgml.forget_compiled()
    FROM PUBLIC;

ALTER TABLE pgml.projects ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgml.models ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgml.deployments ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgml.snapshots ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgml.files ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgml.privileges ENABLE ROW LEVEL SECURITY;

CREATE POLICY read ON pgml.projects FOR SELECT USING (pgml.project_allows(id, 'any'));
CREATE POLICY read ON pgml.models FOR SELECT USING (pgml.project_allows(project_id, 'see'));
CREATE POLICY read ON pgml.deployments FOR SELECT USING (pgml.project_allows(project_id, 'see'));
CREATE POLICY read ON pgml.snapshots FOR SELECT USING (pgml.snapshot_allows(id, 'export'));
CREATE POLICY read ON pgml.files FOR SELECT USING (pgml.model_allows(model_id, 'export'));
CREATE POLICY read ON pgml.privileges FOR SELECT USING (pgml.project_allows(project_id, 'see'));

--
-- Views. They read with the rights of their owner, so they say for themselves who sees what.
--

CREATE OR REPLACE VIEW pgml.overview WITH (security_barrier) AS
SELECT
    p.name,
    d.created_at AS deployed_at,
    p.task,
    m.algorithm,
    m.runtime,
    s.relation_name,
    s.y_column_name,
    s.test_sampling,
    s.test_size
FROM pgml.projects p
INNER JOIN pgml.models m ON p.id OPERATOR(pg_catalog.=) m.project_id
INNER JOIN pgml.deployments d ON d.project_id OPERATOR(pg_catalog.=) p.id AND d.model_id OPERATOR(pg_catalog.=) m.id
LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id AND pgml.project_allows(p.id, 'export')
WHERE pgml.project_allows(p.id, 'see')
ORDER BY d.created_at DESC;
COMMENT ON VIEW pgml.overview IS 'every deployment with its project, newest first; the columns of its data are visible to roles with the privilege export';

CREATE OR REPLACE VIEW pgml.trained_models WITH (security_barrier) AS
SELECT
    m.id,
    p.name,
    p.task,
    m.algorithm,
    m.runtime,
    m.created_at,
    s.test_sampling,
    s.test_size,
    d.model_id IS NOT NULL AS deployed
FROM pgml.projects p
INNER JOIN pgml.models m ON p.id OPERATOR(pg_catalog.=) m.project_id
LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
LEFT JOIN (
    SELECT DISTINCT ON (project_id) project_id, model_id
    FROM pgml.deployments
    ORDER BY project_id, id DESC
) d ON d.model_id OPERATOR(pg_catalog.=) m.id
WHERE pgml.project_allows(p.id, 'see')
ORDER BY m.created_at DESC;

CREATE OR REPLACE VIEW pgml.deployed_models WITH (security_barrier) AS
SELECT m.id, p.name, p.task, m.algorithm, m.runtime, d.created_at AS deployed_at
FROM (
    SELECT DISTINCT ON (project_id) project_id, model_id, created_at
    FROM pgml.deployments
    ORDER BY project_id, id DESC
) d
INNER JOIN pgml.models m ON m.id OPERATOR(pg_catalog.=) d.model_id
INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) d.project_id
WHERE pgml.project_allows(p.id, 'see')
ORDER BY p.name;

CREATE VIEW pgml.grants WITH (security_barrier) AS
SELECT
    p.name AS project,
    CASE WHEN g.grantee::pg_catalog.oid OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN 'public'
        ELSE r.rolname::pg_catalog.text END AS grantee,
    g.privilege,
    by.rolname::pg_catalog.text AS grantor,
    g.created_at
FROM pgml.privileges g
INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) g.project_id
LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) g.grantee
LEFT JOIN pg_catalog.pg_roles by ON by.oid OPERATOR(pg_catalog.=) g.grantor
WHERE CASE
    WHEN r.oid IS NULL AND g.grantee::pg_catalog.oid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid THEN false -- the role is no more
    WHEN pgml.project_allows(g.project_id, 'see') THEN true
    WHEN r.oid IS NULL THEN pgml.project_allows(g.project_id, 'any')
    ELSE pg_catalog.pg_has_role(r.oid, 'USAGE')
END
ORDER BY p.name, 2, 3;
COMMENT ON VIEW pgml.grants IS 'what roles other than its owner may do with a project, by pgml.grant';
GRANT SELECT ON pgml.grants TO PUBLIC;

--
-- Trainings in the background. What is in the queue is of this server, so it is in no dump.
--

CREATE TABLE pgml.training_jobs (
    id pg_catalog.int8 PRIMARY KEY,
    project_name pg_catalog.text NOT NULL,
    algorithm pg_catalog.text NOT NULL,
    request pg_catalog.jsonb NOT NULL,
    settings pg_catalog.jsonb NOT NULL,
    role pg_catalog.regrole NOT NULL,
    session_role pg_catalog.regrole NOT NULL,
    login_role pg_catalog.regrole NOT NULL,
    definer pg_catalog.bool NOT NULL,
    status pg_catalog.text NOT NULL DEFAULT 'queued' CHECK (status OPERATOR(pg_catalog.=)
        ANY (ARRAY['queued', 'running', 'done', 'failed', 'cancelled'])),
    -- Where it runs.
    pid pg_catalog.int4,
    backend_start timestamp with time zone,
    model_id pg_catalog.int8,
    deployed pg_catalog.bool,
    sqlstate pg_catalog.text,
    message pg_catalog.text,
    detail pg_catalog.text,
    hint pg_catalog.text,
    created_at timestamp with time zone NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    started_at timestamp with time zone,
    ended_at timestamp with time zone
);
CREATE SEQUENCE pgml.training_jobs_id_seq OWNED BY pgml.training_jobs.id;
CREATE INDEX training_jobs_queued_idx ON pgml.training_jobs (id) WHERE status OPERATOR(pg_catalog.=) 'queued';
CREATE INDEX training_jobs_running_idx ON pgml.training_jobs (id) WHERE status OPERATOR(pg_catalog.=) 'running';
COMMENT ON TABLE pgml.training_jobs IS 'trainings by pgml.train_async; the view pgml.jobs shows them';

CREATE FUNCTION pgml.train_async(
    project_name pg_catalog.text,
    task pg_catalog.text DEFAULT NULL,
    relation_name pg_catalog.text DEFAULT NULL,
    y_column_name pg_catalog.text DEFAULT NULL,
    algorithm pgml.algorithm DEFAULT 'linear',
    hyperparams pg_catalog.jsonb DEFAULT '{}',
    search pgml.search DEFAULT NULL,
    search_params pg_catalog.jsonb DEFAULT '{}',
    search_args pg_catalog.jsonb DEFAULT '{}',
    test_size pg_catalog.float4 DEFAULT 0.25,
    test_sampling pgml.sampling DEFAULT 'stratified',
    runtime pgml.runtime DEFAULT NULL,
    automatic_deploy pg_catalog.bool DEFAULT true,
    materialize_snapshot pg_catalog.bool DEFAULT false,
    preprocess pg_catalog.jsonb DEFAULT '{}'
) RETURNS pg_catalog.int8
    AS 'MODULE_PATHNAME', 'pgml_train_async' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.train_async(pg_catalog.text, pg_catalog.text, pg_catalog.text, pg_catalog.text, pgml.algorithm,
    pg_catalog.jsonb, pgml.search, pg_catalog.jsonb, pg_catalog.jsonb, pg_catalog.float4, pgml.sampling, pgml.runtime,
    pg_catalog.bool, pg_catalog.bool, pg_catalog.jsonb)
    IS 'as pgml.train, in a background worker once the transaction has committed; gives the id of the training at once';

CREATE FUNCTION pgml.wait(id pg_catalog.int8, timeout pg_catalog.interval DEFAULT NULL) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_wait' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.wait(pg_catalog.int8, pg_catalog.interval)
    IS 'wait until a training of pgml.train_async has ended, or the time is over; gives its status: queued, running, done, failed or cancelled';

CREATE FUNCTION pgml.cancel(id pg_catalog.int8) RETURNS pg_catalog.bool
    AS 'MODULE_PATHNAME', 'pgml_cancel' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION pgml.cancel(pg_catalog.int8)
    IS 'cancel a training that waits or runs; false if it has ended';

-- What the view below asks.
CREATE FUNCTION pgml.job_status(id pg_catalog.int8, status pg_catalog.text) RETURNS pg_catalog.text
    AS 'MODULE_PATHNAME', 'pgml_job_status' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

CREATE VIEW pgml.jobs WITH (security_barrier) AS
SELECT
    j.id,
    r.rolname::pg_catalog.text AS role,
    j.project_name AS project,
    j.algorithm,
    pgml.job_status(j.id, j.status) AS status,
    j.created_at,
    j.started_at,
    j.ended_at,
    j.model_id,
    j.deployed,
    j.sqlstate,
    j.message,
    j.detail,
    j.hint
FROM pgml.training_jobs j
LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) j.role
WHERE pg_catalog.pg_has_role(j.role, 'USAGE')
ORDER BY j.id;
COMMENT ON VIEW pgml.jobs IS 'trainings by pgml.train_async, with their outcome; visible to the role that called it and to roles that may act as that role';
GRANT SELECT ON pgml.jobs TO PUBLIC;

--
-- What is going on
--

CREATE FUNCTION pgml.running_trainings() RETURNS TABLE (
    id pg_catalog.int8, pid pg_catalog.int4, role pg_catalog.oid, project pg_catalog.text, algorithm pg_catalog.text,
    phase pg_catalog.text, rounds_done pg_catalog.int8, rounds_total pg_catalog.int8, "rows" pg_catalog.int8,
    started_at timestamp with time zone, seconds_left pg_catalog.float8)
    AS 'MODULE_PATHNAME', 'pgml_running_trainings' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;

CREATE VIEW pgml.activity AS
SELECT
    t.id,
    t.pid,
    r.rolname::pg_catalog.text AS role,
    t.project,
    t.algorithm,
    t.phase,
    t.rounds_done,
    t.rounds_total,
    t."rows",
    t.started_at,
    t.seconds_left
FROM pgml.running_trainings() t
LEFT JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) t.role
ORDER BY t.id;
COMMENT ON VIEW pgml.activity IS 'trainings that run in this database; visible to the role that trains, to roles that may act as it, and to roles that may see the project. pgml.cancel takes their ids';
GRANT SELECT ON pgml.activity TO PUBLIC;

CREATE FUNCTION pgml.model_usage() RETURNS TABLE (
    model_id pg_catalog.int8, calls pg_catalog.int8, "rows" pg_catalog.int8, total_ms pg_catalog.float8,
    cache_hits pg_catalog.int8, cache_misses pg_catalog.int8, last_used timestamp with time zone)
    AS 'MODULE_PATHNAME', 'pgml_model_usage' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 100;

CREATE FUNCTION pgml.reset_stat_models(model_id pg_catalog.int8 DEFAULT NULL) RETURNS pg_catalog.void
    AS 'MODULE_PATHNAME', 'pgml_reset_stat_models' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pgml.reset_stat_models(pg_catalog.int8)
    IS 'set the statistics of a model to zero, or those of all models whose projects belong to the current role';

CREATE VIEW pgml.stat_models WITH (security_barrier) AS
SELECT
    m.id AS model_id,
    p.name AS project,
    m.algorithm,
    coalesce(u.calls, 0) AS calls,
    coalesce(u."rows", 0) AS "rows",
    coalesce(u.total_ms, 0) AS total_ms,
    coalesce(u.cache_hits, 0) AS cache_hits,
    coalesce(u.cache_misses, 0) AS cache_misses,
    u.last_used
FROM pgml.models m
INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) m.project_id
LEFT JOIN pgml.model_usage() u ON u.model_id OPERATOR(pg_catalog.=) m.id
WHERE pgml.project_allows(p.id, 'see')
ORDER BY m.id;
COMMENT ON VIEW pgml.stat_models IS 'use of the models since the server started, visible to roles that may see their projects: calls, rows and time of predictions, and how often a connection found the model compiled (cache_hits) or compiled it (cache_misses)';
GRANT SELECT ON pgml.stat_models TO PUBLIC;
