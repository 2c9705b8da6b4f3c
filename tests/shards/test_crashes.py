"""Calls that die at each of their steps, and servers that are killed: nothing is lost or doubled, and a repeat completes.

Each step of a call on a shard goes through `howdah_shards._exec`: here it counts, and at a step that the test names it
ends its own session, or kills a server as `kill -9` does.
"""

import contextlib

import pytest

from devkit import Problem
from tests.shards import fleet as fleets

# `stop`: the step at which it happens; `after`: whether its statements have run by then; `how`: a shell command, or the
# session itself if empty. Sequences count whatever is rolled back.
TRAP = """
CREATE TABLE trap (stop int, after boolean, how text);
CREATE SEQUENCE steps;
ALTER FUNCTION howdah_shards._exec RENAME TO _exec_really;
CREATE FUNCTION howdah_shards._exec(shard text, statements text, locked boolean DEFAULT true, attempts int DEFAULT 30) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    SELECT * INTO t FROM public.trap;
    IF pg_catalog.nextval('public.steps') = t.stop THEN
        IF t.after THEN
            PERFORM howdah_shards._exec_really(shard, statements, locked, attempts);
        END IF;
        IF t.how = '' THEN
            PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());
        ELSE
            EXECUTE pg_catalog.format('COPY (SELECT 1) TO PROGRAM %L', t.how);
            PERFORM pg_catalog.pg_sleep(0.2);
        END IF;
        IF t.after THEN
            RETURN;
        END IF;
    END IF;
    PERFORM howdah_shards._exec_really(shard, statements, locked, attempts);
END
$$;
"""
ROWS = "INSERT INTO {} SELECT i, i * 3 FROM generate_series(1, 60) i"
SUM = "SELECT count(*), sum(id), min(key), max(key) FROM {}"
WHOLE = "60|5490|1|60"


@pytest.fixture(scope="module")
def own_servers(major):
    """A hub and two shards that may be killed."""
    with fleets.servers(major, 2) as made:
        yield made


@pytest.fixture
def trapped(own_servers):
    """A fleet in which a call can be stopped at a step."""
    with fleets.fleet(*own_servers, "crashes") as made:
        made.add_shards()
        made.sql("SELECT howdah_shards.set_lease('0.05 s')")
        made.sql(TRAP)
        yield made


def stop_at(fleet, step, after, how=""):
    """Sets the trap."""
    fleet.sql(
        f"DELETE FROM trap; INSERT INTO trap VALUES ({step}, {after}, $how${how}$how$); SELECT setval('steps', 1, false)"
    )


def is_stopped(fleet, call):
    """Whether a call ended at the step that was set; without the trap from then on."""
    try:
        fleet.sql(call)
        return False
    except Problem as problem:
        assert "terminating connection" in str(problem) or "closed the connection" in str(problem), problem
        return True
    finally:
        fleet.sql("DELETE FROM trap")


def each_step(fleet, moments=("false", "true")):
    """The steps of a call, before and after each, until a call reaches its end (`is_stopped` is false)."""
    for step in range(1, 40):
        for after in moments:
            stop_at(fleet, step, after)
            yield step


def nothing_is_left(fleet):
    """No job, no prepared transaction, nothing of a replication, no refusal of writes, on any server."""
    assert fleet.sql("SELECT count(*) FROM howdah_shards.jobs") == "0"
    left = """SELECT (SELECT count(*) FROM pg_prepared_xacts) + (SELECT count(*) FROM pg_subscription)
        + (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_replication_slots)
        + (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'howdah_shards_moved%')
        + (SELECT count(*) FROM pg_class c WHERE c.relkind = 'r' AND c.relname ~ '_s\\d+$' AND NOT c.relispartition)"""
    for shard in fleet.shards:
        assert fleet.on(shard, left) == "0"


def held(fleet, table):
    """How many rows of a table all shards hold."""
    return sum(int(fleet.on(shard, f"SELECT count(*) FROM {table}")) for shard in fleet.shards)


def test_distribute_table_can_die_anywhere(trapped):
    for step in each_step(trapped):
        table = f"t{step}"
        trapped.sql(
            f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (key int, id bigint, PRIMARY KEY (key)); {ROWS.format(table)}"
        )
        call = f"SELECT FROM howdah_shards.distribute_table('{table}', 'key', 3)"
        stopped = is_stopped(trapped, call)
        assert trapped.sql(SUM.format(table)) == WHOLE
        trapped.sql(call)
        assert trapped.sql(SUM.format(table)) == WHOLE and held(trapped, table) == 60
        nothing_is_left(trapped)
        if not stopped:
            break
        trapped.sql(f"CALL howdah_shards.run_on_shards('DROP TABLE {table}')")
    assert not stopped and step == 3


@pytest.mark.parametrize("two_phase", ["true", "false"])
def test_run_on_shards_can_die_anywhere(trapped, two_phase):
    trapped.sql(
        f"CREATE TABLE t (key int, id bigint); {ROWS.format('t')}; SELECT FROM howdah_shards.distribute_table('t', 'key', 3)"
    )
    columns = "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 2 AND NOT attisdropped"
    for number, _step in enumerate(each_step(trapped)):
        call = f"CALL howdah_shards.run_on_shards('ALTER TABLE t ADD COLUMN c{number} int', two_phase => {two_phase})"
        stopped = is_stopped(trapped, call)
        trapped.sql("CALL howdah_shards.recover()")
        nothing_is_left(trapped)
        found = {trapped.sql(columns), *(trapped.on(shard, columns) for shard in trapped.shards)}
        assert len(found) == 1, found
        if not stopped:
            break
        if f"c{number}" not in found.pop():
            trapped.sql(call)
    assert not stopped and number > 4


def test_move_slot_can_die_anywhere(trapped):
    trapped.sql(
        f"CREATE TABLE t (key int, id bigint); {ROWS.format('t')}; SELECT FROM howdah_shards.distribute_table('t', 'key', 3)"
    )
    where = "SELECT shard FROM howdah_shards.routes WHERE slot = 0"
    for _step in each_step(trapped, ["true"]):
        target = "s2" if trapped.sql(where) == "s1" else "s1"
        call = f"CALL howdah_shards.move_slot('t', 0, '{target}')"
        stopped = is_stopped(trapped, call)
        assert trapped.sql(SUM.format("t")) == WHOLE
        trapped.sql(call)
        assert trapped.sql(where) == target and trapped.sql(SUM.format("t")) == WHOLE and held(trapped, "t") == 60
        nothing_is_left(trapped)
        trapped.sql("UPDATE t SET id = id")
        if not stopped:
            break
    assert not stopped and _step > 7


def test_undistribute_table_can_die_anywhere(trapped):
    for number, _step in enumerate(each_step(trapped)):
        trapped.sql(
            f"DROP TABLE IF EXISTS t; CREATE TABLE t (key int, id bigint); {ROWS.format('t')}; DELETE FROM trap"
        )
        step, after = number // 2 + 1, "true" if number % 2 else "false"
        trapped.sql("SELECT FROM howdah_shards.distribute_table('t', 'key', 3)")
        stop_at(trapped, step, after)
        stopped = is_stopped(trapped, "CALL howdah_shards.undistribute_table('t')")
        assert trapped.sql(SUM.format("t")) == WHOLE
        trapped.sql("CALL howdah_shards.recover()")
        nothing_is_left(trapped)
        if trapped.sql("SELECT count(*) FROM howdah_shards.tables") == "1":
            trapped.sql("UPDATE t SET id = id")
            trapped.sql("CALL howdah_shards.undistribute_table('t')")
        assert trapped.sql(SUM.format("t")) == WHOLE
        assert [trapped.on(shard, "SELECT to_regclass('t') IS NULL") for shard in trapped.shards] == ["t", "t"]
        if not stopped:
            break
    assert not stopped and number > 4


def test_publish_models_can_die_anywhere(trapped):
    fleet = trapped
    fleet.sql("CALL howdah_shards.run_on_shards('CREATE EXTENSION pgml', two_phase => false)")
    fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(fleet.hub)}')")
    fleet.sql(f"CREATE TABLE t (key int, id bigint); {ROWS.format('t')}")
    fleet.sql("SELECT pgml.train('p', 'regression', 't', 'id', 'linear')")
    for _step in each_step(fleet):
        stopped = is_stopped(fleet, "CALL howdah_shards.publish_models()")
        if not stopped:
            break
        fleet.sql("CALL howdah_shards.publish_models()")
        assert {fleet.on(shard, "SELECT count(*) FROM pgml.deployed_models") for shard in fleet.shards} == {"1"}
        for shard in fleet.shards:
            fleet.sql(f"SELECT howdah_shards.drop_shard('{shard}')")
        fleet.add_shards()
    assert not stopped and _step > 3


@pytest.mark.parametrize("victim", ["hub", "s1", "s2"])
def test_servers_can_be_killed_within_a_move(trapped, victim):
    fleet = trapped
    fleet.sql(
        f"CREATE TABLE t (key int, id bigint, PRIMARY KEY (key)); {ROWS.format('t')}; SELECT FROM howdah_shards.distribute_table('t', 'key', 3)"
    )
    server = fleet.hub if victim == "hub" else fleet.shards[victim]
    # The table of the copy, the copy, the refusal of writes, the attachment, the end of the old place.
    for step in (1, 5, 6, 7, 9):
        target = "s2" if fleet.sql("SELECT shard FROM howdah_shards.routes WHERE slot = 0") == "s1" else "s1"
        stop_at(fleet, step, "true", f"kill -9 {server.pid}")
        # Where nothing more is asked of the victim, the call succeeds.
        with contextlib.suppress(Problem):
            fleet.sql(f"CALL howdah_shards.move_slot('t', 0, '{target}')")
        fleets.begin_again(server)
        fleet.sql("DELETE FROM trap")
        fleet.sql(f"CALL howdah_shards.move_slot('t', 0, '{target}')")
        assert fleet.sql(SUM.format("t")) == WHOLE and held(fleet, "t") == 60
        nothing_is_left(fleet)


@pytest.mark.parametrize("victim", ["hub", "s1"])
def test_servers_can_be_killed_within_ddl(trapped, victim):
    fleet = trapped
    server = fleet.hub if victim == "hub" else fleet.shards[victim]
    # What s1 prepares, what s2 prepares, the commit of s1 and its end.
    for step in (1, 2, 3, 4):
        stop_at(fleet, step, "true", f"kill -9 {server.pid}")
        with contextlib.suppress(Problem):
            fleet.sql(f"CALL howdah_shards.run_on_shards('CREATE TABLE made{step} ()')")
        fleets.begin_again(server)
        fleet.sql("DELETE FROM trap; CALL howdah_shards.recover()")
        nothing_is_left(fleet)
        there = f"SELECT to_regclass('made{step}') IS NOT NULL"
        assert len({fleet.sql(there), *(fleet.on(shard, there) for shard in fleet.shards)}) == 1
