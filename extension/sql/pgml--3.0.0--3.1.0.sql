-- From pgml 3.0.0 to 3.1.0. CREATE EXTENSION runs this too, after pgml--3.0.0.sql, so that a database that was upgraded
-- and one that is new have the same objects.
--
-- Everything is schema-qualified: the script must mean the same whatever the search_path of who runs it.

\echo Use "ALTER EXTENSION pgml UPDATE" to load this file. \quit

--
-- Permissions: what a table holds is for those who may read the table. Snapshots have statistics and the values of text
-- columns, and the bytes of models have such values too.
--

REVOKE SELECT ON pgml.snapshots, pgml.files FROM PUBLIC;

-- A view reads with the rights of its owner, so it says for itself who sees what.
CREATE OR REPLACE VIEW pgml.overview AS
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
LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
    AND pg_catalog.has_table_privilege('pgml.snapshots'::pg_catalog.regclass, 'SELECT')
ORDER BY d.created_at DESC;
