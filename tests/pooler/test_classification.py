"""The classifier of the pooler by the catalogs of real servers."""

import subprocess
import time

import pytest

from devkit import Problem, cargo

EACH_VERSION = True

PROGRAM = cargo.target_folder() / "debug" / "examples" / "judge"
COLUMN, RECORD = "\x1f", "\x1e"
SCHEMA = """
CREATE TABLE accounts (id int PRIMARY KEY, owner text, name text);
CREATE UNLOGGED TABLE fast (id int);
CREATE TABLE parent (id int) PARTITION BY LIST (id);
CREATE UNLOGGED TABLE child PARTITION OF parent FOR VALUES IN (1);
CREATE SEQUENCE s;
CREATE FUNCTION careless(x int) RETURNS int LANGUAGE sql AS 'SELECT x';
CREATE FUNCTION careful(x int) RETURNS int LANGUAGE sql STABLE AS 'SELECT x';
CREATE FUNCTION careful(x text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE FUNCTION torn(x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT x';
CREATE FUNCTION torn(x text) RETURNS text LANGUAGE sql VOLATILE AS 'SELECT x';
CREATE FUNCTION adder(x int, y int) RETURNS int LANGUAGE sql AS 'SELECT x + y';
CREATE AGGREGATE total(int) (sfunc = adder, stype = int);
CREATE OPERATOR <+> (leftarg = int, rightarg = int, function = adder);
CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN counted AS int CHECK (VALUE > careless(0));
CREATE DOMAIN drawn AS int CHECK (VALUE > nextval('s'));
CREATE FUNCTION takes(x counted) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE TABLE counts (x counted);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE pair_of_counts AS (a counted, b text);
CREATE VIEW good AS SELECT id, upper(owner) AS owner FROM accounts WHERE id BETWEEN 1 AND 5;
CREATE VIEW better AS SELECT g.id, count(*) FROM good g JOIN accounts USING (id) GROUP BY g.id ORDER BY 1;
CREATE VIEW bad AS SELECT id, nextval('s') AS n FROM accounts;
CREATE VIEW worse AS SELECT n FROM bad;
CREATE VIEW activity AS SELECT pid FROM pg_stat_activity;
CREATE MATERIALIZED VIEW stored AS SELECT random() AS r;
CREATE TABLE guarded (id int, owner text);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON guarded USING (owner = current_user);
CREATE TABLE trapped (id int);
ALTER TABLE trapped ENABLE ROW LEVEL SECURITY;
CREATE POLICY trap ON trapped USING (careless(id) > 0);
CREATE FOREIGN DATA WRAPPER nothing;
CREATE SERVER files FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE far (x text) SERVER files;
CREATE SCHEMA other;
CREATE TABLE other.accounts (id int);
CREATE TABLE "Odd ""name" (id int);
"""
FAST = "Read ro -"
CASES = [
    ("SELECT * FROM accounts WHERE id = 1", FAST),
    ("SELECT a.name, a.* FROM public.accounts a JOIN other.accounts b USING (id) ORDER BY 1", FAST),
    ('SELECT * FROM "Odd ""name"', FAST),
    ("SELECT * FROM fast", "Write rw unlogged_table fast"),
    ("SELECT * FROM parent", "Write rw unlogged_table parent"),
    ("SELECT last_value FROM s", "Write rw server_state s"),
    ("SELECT nextval('s')", "Write rw volatile_function nextval"),
    ("SELECT careful(1), careful('x')", FAST),
    ("SELECT careless(1)", "Write rw volatile_function careless"),
    ("SELECT torn(1)", "Write rw volatile_function torn"),
    ("SELECT a.careless FROM accounts a", "Write rw attribute_function careless"),
    ("SELECT total(id) FROM accounts", "Write rw volatile_function total"),
    ("SELECT sum(id), array_agg(owner ORDER BY id) FROM accounts", FAST),
    ("SELECT 1 <+> 2", "Write rw volatile_function <+>"),
    ("SELECT 50::percent, '{1,2}'::int[], 'x'::varchar(10), now()::date", FAST),
    ("SELECT 50::counted", "Write rw volatile_function counted"),
    ("SELECT 50::drawn", "Write rw volatile_function nextval"),
    ("SELECT takes(1)", "Write rw volatile_function takes"),
    ("SELECT * FROM counts", "Write rw view counts"),
    ("SELECT ROW(1, 'x')::pair", FAST),
    ("SELECT ROW(1, 'x')::pair_of_counts", "Write rw volatile_function pair_of_counts"),
    ("SELECT * FROM good", FAST),
    ("SELECT * FROM better", FAST),
    ("SELECT * FROM bad", "Write rw volatile_function nextval"),
    ("SELECT * FROM worse", "Write rw volatile_function nextval"),
    ("SELECT * FROM activity", "Write rw server_state pg_stat_activity"),
    ("SELECT * FROM stored", FAST),
    ("SELECT * FROM guarded", FAST),
    ("SELECT * FROM trapped", "Write rw volatile_function careless"),
    ("SELECT * FROM far", "Write rw foreign_table far"),
    ("SELECT * FROM pg_stat_activity", "Write rw server_state pg_stat_activity"),
    ("SELECT count(*) FROM information_schema.columns", FAST),
    ("SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = 'accounts'::regclass", FAST),
    ("SELECT random()", "Read ro volatile_function random"),
    ("SELECT pg_is_in_recovery()", "Write rw server_state pg_is_in_recovery"),
    ("SELECT pg_advisory_lock(1)", "Write rw session_state"),
    ("SELECT * FROM created_since", "Write rw unknown_relation created_since"),
    ("EXPLAIN ANALYZE SELECT * FROM good", "Explain ro utility"),
    ("SELECT extract(year FROM now()), now() AT TIME ZONE 'UTC', overlay('abc' PLACING 'x' FROM 1)", FAST),
    ("SELECT x FROM generate_series(1, 3) AS x WHERE x IN (1, 2) AND x::text LIKE '1%' OR x = ANY ('{1}')", FAST),
    ("SELECT '{}'::jsonb @> '{}', to_tsvector('a') @@ to_tsquery('a'), int4range(1, 2) && int4range(2, 3)", FAST),
]


def judge(catalog, statements):
    """A line for each statement: kind, access, why it is not pipelined."""
    if not PROGRAM.exists():
        raise Problem(f"{PROGRAM} is not built: `make test ARGS=tests/pooler/test_classification.py`")
    text = RECORD.join(statements)
    done = subprocess.run([PROGRAM, catalog], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stdout.splitlines()]


def query():
    """The text of `Catalog::QUERY`."""
    return subprocess.run([PROGRAM, "--query"], capture_output=True, text=True, check=True).stdout


def read_catalog(server, name, folder):
    """A file of what `Catalog::QUERY` answers in a database, and how many seconds that took."""
    command = server.psql_command(name, "-XqAt", "-v", "ON_ERROR_STOP=1", "-F", COLUMN, "-R", RECORD)
    begun = time.monotonic()
    done = subprocess.run(command, input=query(), capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    assert done.returncode == 0, done.stderr
    path = folder / "catalog"
    path.write_text(done.stdout)
    return path, took


@pytest.fixture(scope="module")
def known(server, tmp_path_factory):
    """A database with `SCHEMA` in it: its server, its name and its catalog."""
    name = "classified"
    server.psql(f"CREATE DATABASE {name}")
    server.psql(SCHEMA, name)
    path, took = read_catalog(server, name, tmp_path_factory.mktemp("catalog"))
    assert took < 5, f"reading the catalog took {took:.1f} s"
    yield server, name, path
    server.psql(f"DROP DATABASE {name} WITH (FORCE)")


def test_statements_by_a_real_catalog(known):
    *_, catalog = known
    found = judge(catalog, [sql for sql, _ in CASES])
    wrong = [f"{sql}: {got}, not {wanted}" for (sql, wanted), got in zip(CASES, found, strict=True) if got != wanted]
    assert not wrong, "\n".join(wrong)


def test_reads_run_where_nothing_may_be_written(known):
    """What is judged to be a read is run in a read-only transaction; any error of writing would show."""
    server, name, catalog = known
    found = judge(catalog, [sql for sql, _ in CASES])
    reads = [sql for (sql, _), verdict in zip(CASES, found, strict=True) if " ro " in verdict]
    assert len(reads) > 15
    for sql in reads:
        server.psql(f"BEGIN READ ONLY; {sql}; COMMIT", name)


def test_every_function_is_judged_by_its_worst_overload(known):
    server, name, catalog = known
    rows = server.psql(
        """SELECT format('%I.%I', nspname, proname), bool_or(provolatile = 'v') FROM pg_proc p
        JOIN pg_namespace n ON n.oid = pronamespace WHERE prokind <> 'p' GROUP BY nspname, proname""",
        name,
    )
    functions = [row.rsplit("|", 1) for row in rows.splitlines()]
    assert len(functions) > 2000
    found = judge(catalog, [f"SELECT {function}()" for function, _ in functions])
    fast_though_volatile = []
    slow_though_not = []
    for (function, volatile), verdict in zip(functions, found, strict=True):
        assert "unknown" not in verdict and "unparsable" not in verdict, (function, verdict)
        if volatile == "t" and verdict == FAST:
            fast_though_volatile.append(function)
        if volatile == "f" and verdict != FAST and "server_state" not in verdict:
            slow_though_not.append(function.removeprefix("pg_catalog."))
    assert not fast_though_volatile
    # Those that run text, read relations or types by name, take an id, tell parameters, or are known for what they do.
    assert set(slow_though_not) <= {
        "cursor_to_xml", "cursor_to_xmlschema", "database_to_xml", "database_to_xml_and_xmlschema",
        "pg_current_xact_id", "pg_input_error_info", "pg_input_is_valid", "public.takes",
        "public.total", "query_to_xml", "query_to_xml_and_xmlschema", "query_to_xmlschema", "schema_to_xml",
        "schema_to_xml_and_xmlschema", "table_to_xml", "table_to_xml_and_xmlschema", "ts_rewrite", "ts_stat",
        "txid_current",
    }  # fmt: skip


def test_every_relation_and_type_of_a_fresh_database_is_known(known):
    server, name, catalog = known
    relations = server.psql(
        """SELECT format('SELECT * FROM %I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n
        ON n.oid = relnamespace WHERE relkind IN ('r', 'v') AND nspname IN ('pg_catalog', 'information_schema')""",
        name,
    ).splitlines()
    assert len(relations) > 150
    for sql, verdict in zip(relations, judge(catalog, relations), strict=True):
        # Views that are not of tables show the state of a server.
        assert verdict == FAST or verdict.startswith(("Read ro system_view", "Write rw server_state")), (sql, verdict)
    types = server.psql(
        """SELECT format('SELECT NULL::%s', format_type(t.oid, NULL)) FROM pg_type t WHERE typtype IN ('b', 'e', 'r', 'm')
        AND typelem = 0 AND typnamespace = 'pg_catalog'::regnamespace""",
        name,
    ).splitlines()
    assert len(types) > 60
    for sql, verdict in zip(types, judge(catalog, types), strict=True):
        assert verdict == FAST, (sql, verdict)


def test_training_writes_and_predicting_reads(database, tmp_path):
    path, _ = read_catalog(database.server, database.name, tmp_path)
    found = judge(
        path,
        [
            "SELECT pgml.predict('project', ARRAY[1.0, 2.0]::float4[])",
            "SELECT * FROM pgml.train('project', 'regression', 'x', 'y')",
            "SELECT * FROM pgml.load_dataset('iris')",
        ],
    )
    assert found == [FAST, "Write rw volatile_function pgml.train", "Write rw volatile_function pgml.load_dataset"]


def test_an_extension_that_leaves_volatility_out_spoils_nothing(server, tmp_path):
    """An index access method's support functions in C are often declared without a volatility (pgvector's are)."""
    lax = """CREATE FUNCTION lax(internal) RETURNS void LANGUAGE internal AS 'btint4sortsupport';
        CREATE OPERATOR CLASS lax_ops FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,
        OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int), FUNCTION 2 lax(internal)"""
    # One that is called with values decides.
    mine = """CREATE FUNCTION compare(int, int) RETURNS int LANGUAGE sql AS 'SELECT $1 - $2';
        CREATE OPERATOR CLASS mine FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,
        OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 compare(int, int)"""
    server.psql("CREATE DATABASE spoilt")
    try:
        for definition, verdict in ((lax, FAST), (mine, "Write rw volatile_function of an operator class")):
            server.psql(definition, "spoilt")
            path, _ = read_catalog(server, "spoilt", tmp_path)
            assert judge(path, ["SELECT 1 ORDER BY 1"]) == [verdict]
    finally:
        server.psql("DROP DATABASE spoilt WITH (FORCE)")
