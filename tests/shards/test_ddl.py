"""`run_on_shards`: all servers or none, and what can be done without two-phase commit."""

import pytest

from devkit import Problem
from tests.shards import fleet as fleets


@pytest.fixture
def table(fleet):
    """A sharded table `t` with a row of each key from 1 to 50, and a role `worker`."""
    fleet.sql(
        "CREATE TABLE t (key int, a int, PRIMARY KEY (key)); INSERT INTO t SELECT i, i FROM generate_series(1, 50) i"
    )
    fleet.sql("SELECT FROM howdah_shards.distribute_table('t', 'key', 4)")
    return fleet


def everywhere(fleet, query):
    """What the hub and the shards answer, one after another."""
    return [fleet.sql(query), *(fleet.on(shard, query) for shard in fleet.shards)]


@pytest.mark.parametrize("two_phase", ["true", "false"])
def test_ddl_changes_hub_and_shards(table, two_phase):
    columns = "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped"
    table.sql(
        f"CALL howdah_shards.run_on_shards('ALTER TABLE t ADD COLUMN b text DEFAULT ''x''; ALTER TABLE t DROP COLUMN a -- gone', two_phase => {two_phase})"
    )
    assert everywhere(table, columns) == ["key b"] * 4
    assert table.sql("SELECT count(*), min(b) FROM t") == "50|x"
    table.sql(f"CALL howdah_shards.run_on_shards('CREATE INDEX by_b ON t (b)', hub => false, two_phase => {two_phase})")
    assert everywhere(table, "SELECT count(*) FROM pg_class WHERE relname = 'by_b'") == ["0", "1", "1", "1"]
    assert table.sql("SELECT count(*) FROM howdah_shards.jobs") == "0"


def test_what_fails_on_one_server_changes_none(table):
    table.on("s3", "CREATE TABLE taken ()")
    for call, named in (
        ("'CREATE TABLE taken (a int)'", r'relation "taken" already exists \(on s3\)'),
        ("'CREATE INDEX ON t (a); CREATE UNIQUE INDEX only_shards ON t (key, a)'", r"\(on hub\)[^$]*hub => false"),
        ("'SELECT 1 / 0'", r"division by zero \(on hub\)"),
    ):
        with pytest.raises(Problem, match=named):
            table.sql(f"CALL howdah_shards.run_on_shards({call})")
    assert everywhere(table, "SELECT to_regclass('taken') IS NULL") == ["t", "t", "t", "f"]
    assert everywhere(table, "SELECT count(*) FROM pg_prepared_xacts") == ["0"] * 4
    assert table.sql("SELECT count(*) FROM howdah_shards.jobs") == "0"


def test_without_two_phases_the_error_says_where_it_was_done(table):
    table.on("s2", "CREATE TABLE taken ()")
    create = "CALL howdah_shards.run_on_shards('CREATE TABLE taken (a int)', two_phase => false)"
    with pytest.raises(
        Problem, match=r'relation "taken" already exists \(on s2\)\nDETAIL:  Done on: s1.\nHINT:  Mend that'
    ):
        table.sql(create)
    # Nothing else until it is decided.
    with pytest.raises(Problem, match="already exists"):
        table.sql("CALL howdah_shards.run_on_shards('SELECT 1')")
    with pytest.raises(Problem, match="run_on_shards was not finished"):
        table.sql("SELECT howdah_shards.drop_shard('s1')")
    table.on("s2", "DROP TABLE taken")
    table.sql("CALL howdah_shards.recover()")
    assert (
        everywhere(table, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'taken'::regclass AND attname = 'a'")
        == ["1"] * 4
    )
    table.on("s1", "CREATE TABLE other ()")
    with pytest.raises(Problem, match="Nothing was changed on any server. SELECT howdah_shards.forget_job"):
        table.sql("CALL howdah_shards.run_on_shards('CREATE TABLE other (a int)', two_phase => false)")
    table.sql("SELECT howdah_shards.forget_job(id) FROM howdah_shards.jobs")
    assert everywhere(table, "SELECT to_regclass('other') IS NULL") == ["t", "f", "t", "t"]


def test_rights_reach_the_slots(table):
    servers = [table.hub, *table.shards.values()]
    try:
        table.sql(
            "CALL howdah_shards.run_on_shards('CREATE ROLE worker LOGIN PASSWORD ''pw''; GRANT USAGE ON SCHEMA public TO worker; GRANT SELECT, INSERT ON t TO worker')"
        )
        for shard in table.shards:
            table.sql(f"CREATE USER MAPPING FOR worker SERVER {shard} OPTIONS (user 'worker', password 'pw')")
        assert table.sql("SET ROLE worker; SELECT count(*) FROM t; INSERT INTO t VALUES (1000)") == "50"
        with pytest.raises(Problem, match="permission denied"):
            table.sql("SET ROLE worker; DELETE FROM t")
        table.sql(
            "CALL howdah_shards.run_on_shards('REVOKE INSERT ON t FROM worker; GRANT UPDATE (a) ON t TO worker', hub => false)"
        )
        right = "SELECT bool_or(has_table_privilege('worker', inhrelid, 'INSERT')), bool_and(has_column_privilege('worker', inhrelid, 'a', 'UPDATE')) FROM pg_inherits WHERE inhparent = 't'::regclass"
        assert [table.on(shard, right) for shard in table.shards] == ["f|t"] * 3
        with pytest.raises(Problem, match="permission denied for function"):
            table.sql("SET ROLE worker; SELECT howdah_shards.add_shard('x', 'dbname=x')")
        assert (
            table.sql(
                "SET ROLE worker; SELECT count(*), min(howdah_shards.map_version()) > 0, min(howdah_shards.lease()) FROM howdah_shards.routes"
            )
            == "4|t|00:00:05"
        )
        with pytest.raises(Problem, match="permission denied"):
            table.sql("SET ROLE worker; SELECT hub FROM howdah_shards.map")
    finally:
        table.sql(
            "DROP USER MAPPING IF EXISTS FOR worker SERVER s1; DROP USER MAPPING IF EXISTS FOR worker SERVER s2; DROP USER MAPPING IF EXISTS FOR worker SERVER s3"
        )
        for server in servers:
            server.psql("DROP OWNED BY worker", table.database)
            server.psql("DROP ROLE worker")


def test_a_table_is_dropped_everywhere_by_one_call(table):
    table.sql("CALL howdah_shards.run_on_shards('DROP TABLE t')")
    assert everywhere(table, "SELECT to_regclass('t') IS NULL") == ["t"] * 4
    assert table.sql("SELECT count(*) FROM howdah_shards.routes") == "0"


def test_bad_calls_are_refused(table, bare_fleet):
    for call in ("''", "NULL"):
        with pytest.raises(Problem, match="ddl is empty"):
            table.sql(f"CALL howdah_shards.run_on_shards({call})")
    with pytest.raises(Problem, match="there is no shard"):
        bare_fleet.sql("CALL howdah_shards.run_on_shards('SELECT 1')")
    with pytest.raises(Problem, match="job 7 is none that can be forgotten"):
        table.sql("SELECT howdah_shards.forget_job(7)")
    shown = table.sql("CALL howdah_shards.run_on_shards('DROP TABLE t', dry_run => true)")
    assert shown.count("DROP TABLE t") == 4 and table.sql("SELECT count(*) FROM t") == "50"


def test_shards_without_prepared_transactions_are_done_in_order(major):
    with fleets.servers(major, 2, {"max_prepared_transactions": "0"}) as made, fleets.fleet(*made, "plain") as fleet:
        fleet.add_shards()
        with pytest.raises(Problem, match='shard "s1" has max_prepared_transactions = 0'):
            fleet.sql("CALL howdah_shards.run_on_shards('CREATE TABLE t ()', two_phase => true)")
        fleet.sql("CALL howdah_shards.run_on_shards('CREATE TABLE t ()')")
        assert [fleet.on(shard, "SELECT to_regclass('t')") for shard in fleet.shards] == ["t", "t"]


def test_what_the_hub_does_to_the_rows_of_shards_says_that_it_is_theirs(table):
    with pytest.raises(Problem, match=r"on s\d\)[^$]*hub's own part locks rows of the shards[^$]*hub => false"):
        table.sql("CALL howdah_shards.run_on_shards('TRUNCATE t')")
    table.sql("CALL howdah_shards.run_on_shards('TRUNCATE t', hub => false)")
    assert table.sql("SELECT count(*) FROM t") == "0"


@pytest.mark.parametrize("kind", ["bigserial", "int GENERATED ALWAYS AS IDENTITY"])
def test_a_column_that_each_server_would_count_for_itself_is_refused(table, kind):
    with pytest.raises(Problem, match=r"would have the same values on all servers \(on hub\)[^$]*gen_random_uuid"):
        table.sql(f"CALL howdah_shards.run_on_shards('ALTER TABLE t ADD COLUMN number {kind}')")
    table.sql("CALL howdah_shards.run_on_shards('ALTER TABLE t ADD COLUMN token uuid DEFAULT gen_random_uuid()')")
    assert table.sql("SELECT count(DISTINCT token) FROM t") == "50"


def test_a_hub_of_an_older_version_is_updated(bare_fleet):
    fleet = bare_fleet
    fleet.sql("DROP EXTENSION howdah_shards; CREATE EXTENSION howdah_shards VERSION '1.0'")
    fleet.add_shards()
    fleet.sql("CREATE TABLE t (key int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 50)")
    fleet.sql("SELECT FROM howdah_shards.distribute_table('t', 'key', 4)")
    fleet.sql("ALTER EXTENSION howdah_shards UPDATE; SELECT howdah_shards.set_lease('0.1 s')")
    fleet.sql("CALL howdah_shards.move_slot('t', 0, 's2')")
    assert fleet.sql("SELECT count(*) FROM t") == "50"
    assert fleet.sql("SELECT shard, closing FROM howdah_shards.routes WHERE slot = 0") == "s2|f"
    granted = "SELECT count(*) FROM pg_proc p, aclexplode(p.proacl) a WHERE a.grantee = 0 AND p.pronamespace = 'howdah_shards'::regnamespace"
    bare = "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE proacl IS NULL AND pronamespace = 'howdah_shards'::regnamespace"
    assert fleet.sql(granted) == "0"
    assert fleet.sql(bare) == "_note_change _on_ddl lease map_version"
