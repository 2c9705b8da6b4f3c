"""What a connection keeps of the memory that a training or a compilation took: next to nothing."""

import re
from pathlib import Path

import pytest

from tests.test_cache import clear

# Noise, so that trees become as large as they may.
NOISE = """
    CREATE TABLE noise AS SELECT hashint4(i) AS a, hashint4(-i) AS b, hashint4(i * 7) AS y
    FROM generate_series(1, 5000) i
"""
TRAIN = (
    """SELECT pgml.train('noise', 'regression', 'noise', 'y', 'xgboost', '{"n_estimators": 200, "max_depth": 14}')"""
)
PREDICT = "SELECT pgml.predict('noise', 1, 2)"
# The tables of a training library that stays loaded, and the server's caches of its catalogs.
KEPT_BY_TRAINING = 4 << 20
KEPT_BY_COMPILING = 1 << 20


def anonymous(cursor):
    """Bytes of the connection's process that are its own and no file's."""
    cursor.execute("SELECT pg_backend_pid()")
    lines = Path(f"/proc/{cursor.fetchone()[0]}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def code_of(library, cursor):
    """Bytes of a library's file that the connection has mapped and in memory, but for what it has written to."""
    cursor.execute("SELECT pg_backend_pid()")
    lines = Path(f"/proc/{cursor.fetchone()[0]}/smaps").read_text().splitlines()
    resident, inside = 0, False
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = line.endswith(library)
        elif inside and line.startswith("Rss:"):
            resident += int(line.split()[1]) * 1024
        elif inside and line.startswith("Anonymous:"):
            resident -= int(line.split()[1]) * 1024
    return resident


def grown(database, *statements):
    """What the last of these statements leaves in a new connection, and what those before it do not explain."""
    with database.connect() as own:
        cursor = own.cursor()
        *before, last = statements
        for statement in before:
            cursor.execute(statement)
        had = anonymous(cursor)
        cursor.execute(last)
        return anonymous(cursor) - had


@pytest.fixture
def noise(database):
    database.sql(NOISE)
    return database


def test_training_gives_back_what_it_took(noise):
    assert grown(noise, TRAIN) < KEPT_BY_TRAINING
    stored = int(noise.sql("SELECT sum(length(data)) FROM pgml.files"))
    assert stored > KEPT_BY_TRAINING, "the model is large enough to tell"
    # With a model to compare with.
    assert grown(noise, TRAIN) < KEPT_BY_TRAINING


def test_a_training_lets_go_of_the_librarys_code(noise):
    """What it ran of that is some megabytes, which no other connection shares."""
    with noise.connect() as own:
        cursor = own.cursor()
        cursor.execute(TRAIN)
        first = code_of("/libxgboost.so", cursor)
        cursor.execute(TRAIN)
        assert code_of("/libxgboost.so", cursor) <= first < 1 << 20


def test_compiling_gives_back_what_it_took(server, noise):
    noise.sql(TRAIN)
    clear(server)
    # The extension's own library is loaded by then: what that writes to as it is placed is not of the compilation.
    assert grown(noise, "SELECT pgml.version()", "SELECT count(*) FROM pgml.models", PREDICT) < KEPT_BY_COMPILING


def test_reading_a_damaged_model_gives_back_what_it_took(noise):
    noise.sql(TRAIN)
    noise.sql("UPDATE pgml.files SET data = substr(data, 1, length(data) - 1) || '\\x00'")
    failing = f"DO $$ BEGIN PERFORM ({PREDICT}); EXCEPTION WHEN data_corrupted THEN END $$"
    assert grown(noise, "DO $$ BEGIN END $$", failing) < 2 * KEPT_BY_COMPILING
