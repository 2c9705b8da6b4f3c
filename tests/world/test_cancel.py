"""A training that is cancelled leaves nothing running and nothing taken."""

import time
from pathlib import Path

import pytest
from pg8000.dbapi import DatabaseError

NEWEST_ONLY = True


def status(process):
    """Resident megabytes, seconds of computation, threads."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    pages = dict(line.split(":", 1) for line in lines)
    ticks = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(pages["VmRSS"].split()[0]) // 1024, (int(ticks[11]) + int(ticks[12])) / 100, int(pages["Threads"])


@pytest.mark.parametrize(
    ("table", "algorithm"),
    [("wide", "linear"), ("wide", "ridge"), ("wide", "lasso"), ("named", "linear"), ("named", "ridge")],
)
def test_nothing_goes_on_after_a_cancelled_training(database, table, algorithm):
    numbers = ", ".join(f"sin(i * {k} + i % {k})::real AS x{k}" for k in range(3, 403))
    rows = {
        "wide": f"SELECT i % 97 + random() AS y, {numbers} FROM generate_series(1, 30000) AS i",
        "named": "SELECT i % 97 + random() AS y, 'k' || i % 4000 AS k, 'm' || i % 3001 AS m FROM generate_series(1, 60000) AS i",
    }
    database.sql(f"CREATE TABLE {table} AS {rows[table]}")
    with database.connect() as client:
        cursor = client.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        process = cursor.fetchone()[0]
        before, *_ = status(process)
        # Cancelled when the algebra is under way, or done before that.
        cursor.execute("SET statement_timeout = '2500ms'")
        try:
            cursor.execute(f"SELECT pgml.train('p', 'regression', '{table}', 'y', '{algorithm}')")
            ended = "trained"
        except DatabaseError as error:
            ended = str(error)
        assert ended == "trained" or "57014" in ended
        # What cannot be ended ends soon; a hang is what is looked for.
        deadline = time.monotonic() + 30
        while status(process)[2] > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        after, used, threads = status(process)
        assert threads == 1
        assert after - before < 120
        time.sleep(0.5)
        assert status(process)[1] - used < 0.2
