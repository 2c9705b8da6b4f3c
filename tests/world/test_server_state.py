"""What differs between servers by nature is asked of the primary, and XA finds its prepared transactions."""

import contextlib
import shutil
import subprocess

import pytest

from devkit import maven
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, direct, query, show, values
from tests.pooler.trio import three

PGJDBC = "org.postgresql:postgresql:42.7.4"
PGJDBC_DIGEST = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"

# What a program asks, and gets another answer to from each server.
STATEMENTS = [
    "SELECT gid FROM pg_prepared_xacts",
    "SELECT last_value FROM numbers",
    "SELECT last_value FROM pg_sequences WHERE sequencename = 'numbers'",
    "SELECT slot_name FROM pg_replication_slots ORDER BY 1",
    "SELECT count(*) FROM pg_stat_replication",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711",
    "SELECT count(*) FROM blocked",
    "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'written'",
    "SELECT pg_stat_get_tuples_inserted('written'::regclass)",
    "SELECT current_setting('in_hot_standby')",
    "SELECT setting FROM pg_settings WHERE name = 'in_hot_standby'",
    "SELECT current_setting('port')",
    "SHOW port",
    "SHOW in_hot_standby",
    "SHOW data_directory",
    "SELECT pg_relation_size('quick') > 0",
    "SELECT count(*) FROM quick",
    "SELECT cached()",
    "SELECT pg_is_in_recovery()",
    "SELECT pg_last_wal_replay_lsn()",
    "SELECT pg_postmaster_start_time()",
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'on the primary'",
    "SELECT (pg_control_checkpoint()).timeline_id, pg_current_wal_lsn() > '0/0'",
    "SELECT count(*) FROM pg_stat_wal_receiver",
]

SET_UP = """CREATE SEQUENCE numbers; CREATE UNLOGGED TABLE quick AS SELECT 1 AS a; CREATE TABLE written (a int);
CREATE FUNCTION cached() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM quick';
CREATE TYPE colour AS ENUM ('red');
CREATE FUNCTION as_colour(text) RETURNS colour LANGUAGE plpgsql AS 'BEGIN RETURN ''red''; END';
CREATE CAST (text AS colour) WITH FUNCTION as_colour(text);
CREATE VIEW blocked AS SELECT * FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711;
SELECT pg_create_physical_replication_slot('kept'); SELECT nextval('numbers') FROM generate_series(1, 3);"""


@pytest.fixture(scope="module")
def split(major):
    """A primary whose answers are its own, and a pooler before it and two replicas that knows what is a read."""
    with contextlib.ExitStack() as stack:
        trio = stack.enter_context(three(major, settings={"max_prepared_transactions": 5}))
        trio.primary.psql(SET_UP)
        trio.primary.psql("INSERT INTO written VALUES (1)")
        trio.primary.psql("BEGIN; INSERT INTO written VALUES (2); PREPARE TRANSACTION 'in doubt'")
        trio.catch_up()
        text = trio.toml('pool_mode = "transaction"\ndefault_pool_size = 4', "healthcheck_interval = 0.2")
        pooler = stack.enter_context(Pooler(trio.primary, name="howdah.toml", text=text))
        wait_until(lambda: [row["role"] for row in pooler.show("REPLICAS")] == ["primary", "replica", "replica"])
        with Raw(pooler.port, "app") as client:
            wait_until(lambda: client.value("SELECT current_setting('here.port')") != str(trio.primary.port))
        holder = stack.enter_context(direct(trio.primary, application_name="on the primary"))
        holder.sql("SELECT pg_advisory_lock(4711)")
        yield trio, pooler


@pytest.mark.parametrize("sql", STATEMENTS)
def test_the_primary_answers_for_itself(split, sql):
    trio, pooler = split
    with Raw(pooler.port, "app") as client, direct(trio.primary) as other:
        for _ in range(4):
            answers = []
            for asked in (client, other):
                asked.send(query(sql))
                answers.append(show(asked.until(b"Z")))
            assert answers[0] == answers[1]


def test_other_reads_go_to_replicas(split):
    trio, pooler = split
    with Raw(pooler.port, "app") as client:
        for sql in [
            "SELECT current_setting('here.port')",
            "SELECT current_setting('here.port'), count(*) FROM pg_tables",
            "SELECT current_setting('here.port'), lower(a::text) FROM written",
            "SELECT current_setting('here.port'), current_setting('TimeZone'), current_setting('app.tenant', true)",
        ]:
            client.send(query(sql))
            assert values(client.until(b"Z"))[0] != str(trio.primary.port), sql


XA = """
import javax.sql.*; import javax.transaction.xa.*; import org.postgresql.xa.*; import java.sql.*;
public class Recover {
    static class Id implements Xid {
        final byte number; Id(int number) { this.number = (byte) number; }
        public int getFormatId() { return 7; }
        public byte[] getGlobalTransactionId() { return new byte[] {number}; }
        public byte[] getBranchQualifier() { return new byte[] {1}; }
    }
    public static void main(String[] a) throws Exception {
        PGXADataSource source = new PGXADataSource();
        source.setUrl(a[0]); source.setUser("postgres");
        XAConnection connection = source.getXAConnection();
        XAResource resource = connection.getXAResource();
        Connection sql = connection.getConnection();
        for (int number = 1; number <= 3; number++) {
            Id id = new Id(number);
            resource.start(id, XAResource.TMNOFLAGS);
            sql.createStatement().execute("INSERT INTO written VALUES (" + (100 + number) + ")");
            resource.end(id, XAResource.TMSUCCESS);
            resource.prepare(id);
        }
        Xid[] found = source.getXAConnection().getXAResource().recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
        System.out.println("found " + found.length);
        for (Xid id : found) resource.commit(id, false);
        found = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
        ResultSet rows = sql.createStatement().executeQuery("SELECT count(*) FROM written WHERE a > 100");
        rows.next();
        System.out.println("left " + found.length + ", rows " + rows.getInt(1));
    }
}
"""


@pytest.mark.skipif(not (shutil.which("java") and shutil.which("javac") and maven.is_here()), reason="Java is not here")
def test_xa_recovers(split, tmp_path):
    _, pooler = split
    (tmp_path / "pgjdbc.jar").write_bytes(maven.fetch(PGJDBC, PGJDBC_DIGEST))
    (tmp_path / "Recover.java").write_text(XA)
    subprocess.run(["javac", "-cp", "pgjdbc.jar", "Recover.java"], cwd=tmp_path, check=True, timeout=120)
    # Other transactions of the same server are none of XA's.
    url = f"jdbc:postgresql://127.0.0.1:{pooler.port}/app"
    done = subprocess.run(
        ["java", "-cp", "pgjdbc.jar:.", "Recover", url], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["found 3", "left 0, rows 3"], done.stdout + done.stderr
