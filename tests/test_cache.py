"""The compiled copies of models: shared, made again when missing or damaged, never in the way."""

import contextlib
import os
import threading

from devkit.client import connection
from test_names import ASK, ask, make_models


def cache_files(server):
    """The compiled models in the data directory."""
    folder = server.data / "pgml_cache"
    return sorted(path for path in folder.iterdir() if path.name != "lock") if folder.exists() else []


def clear(server):
    for path in cache_files(server):
        path.unlink()


def test_a_hundred_connections_map_one_file(server, database):
    make_models(database.sql)
    clear(server)
    barrier, answers = threading.Barrier(50), []

    def predict():
        with database.connect() as own:
            barrier.wait()
            answers.append(ask(own.cursor()))

    threads = [threading.Thread(target=predict) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["up"] * 50
    (compiled,) = cache_files(server)
    with contextlib.ExitStack() as stack:
        pids = []
        for _ in range(3):
            cursor = stack.enter_context(database.connect()).cursor()
            assert ask(cursor) == "up"
            cursor.execute("SELECT pg_backend_pid()")
            pids.append(cursor.fetchone()[0])
        for pid in pids:
            with open(f"/proc/{pid}/maps") as maps:
                mapped = [line for line in maps if compiled.name in line]
            assert [line.split()[1] for line in mapped] == ["r--s"]


def test_damaged_and_missing_copies_are_made_again(server, database):
    make_models(database.sql)
    clear(server)
    before = database.sql(ASK)
    (compiled,) = cache_files(server)
    good = compiled.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for damage in (bytes(flipped), good[:-1], good[:100], b"", os.urandom(len(good))):
        # As a disk would damage it: the file that running connections map is left alone.
        compiled.unlink()
        compiled.write_bytes(damage)
        os.chown(compiled, server.data.stat().st_uid, server.data.stat().st_gid)
        assert database.sql(ASK) == before
        assert compiled.read_bytes() == good
    compiled.unlink()
    assert database.sql(ASK) == before
    assert compiled.read_bytes() == good


def test_a_cache_that_cannot_be_written_costs_only_memory(server, database):
    make_models(database.sql)
    before = database.sql(ASK)
    folder = server.data / "pgml_cache"
    aside = folder.with_name("pgml_cache.aside")
    folder.rename(aside)
    try:
        folder.write_bytes(b"a file where the folder should be")
        assert database.sql(ASK) == before
    finally:
        folder.unlink()
        aside.rename(folder)


def test_a_running_connection_keeps_its_copy_when_the_file_goes(server, database):
    make_models(database.sql)
    with connection(server, database.name) as own:
        cursor = own.cursor()
        assert ask(cursor) == "up"
        clear(server)
        assert ask(cursor) == "up"


def test_a_dump_restored_elsewhere_predicts_the_same_bits(server, database):
    up, down = make_models(database.sql)
    question = "SELECT array_agg(pgml.predict('line', ARRAY[x]) ORDER BY x)::text FROM line"
    before = database.sql(question)
    copy = f"{database.name}_copy"
    dump = server.run("pg_dump", "--format=plain", database.name).stdout
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.psql(dump, copy)
        clear(server)
        assert server.psql(question, copy) == before
        # Sequences came along: the next model gets an id of its own.
        server.psql(f"SELECT pgml.deploy({down})", copy)
        assert server.psql("SELECT max(id) FROM pgml.deployments", copy) == "2"
        assert (up, down) == (1, 2)
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


def test_any_role_may_predict(server, database):
    make_models(database.sql)
    role = f"{database.name}_stranger"
    database.sql(f"CREATE ROLE {role} LOGIN")
    try:
        assert float(database.sql(f"REVOKE ALL ON ALL TABLES IN SCHEMA pgml FROM {role}; SET ROLE {role}; {ASK}")) > 0
    finally:
        database.sql(f"DROP ROLE {role}")
