"""The compiled copies of models: shared, made again when missing or damaged, never in the way."""

import contextlib
import os
import threading

import pytest

from devkit import Problem, postgres
from devkit.client import connection
from devkit.server import Server
from tests.conftest import Database
from tests.test_names import ASK, ask, make_models

# One file a model.
DATABASE_SETTINGS = {"pgml.refit": "off"}


def cache_files(server, database=None):
    """The compiled models in the data directory, of one database or of all."""
    folder = "*" if database is None else database.sql("SELECT oid FROM pg_database WHERE datname = current_database()")
    return sorted((server.data / "pgml_cache").glob(f"{folder}/*.v*"))


def make_due(server):
    """Has the next backend that maps a model look for what can go."""
    stamp = server.data / "pgml_cache" / "tidied"
    if stamp.exists():
        os.utime(stamp, (0, 0))


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


def damages(good):
    """What may stand where an image should: name to bytes."""
    flipped, other_version = bytearray(good), bytearray(good)
    flipped[len(good) // 2] ^= 1
    other_version[24] += 1
    words = (good[i : i + 8] for i in range(0, len(good), 8))
    return {
        "a flipped bit": bytes(flipped),
        "another version": bytes(other_version),
        "another byte order": b"".join(word[::-1] for word in words),
        "truncated by a byte": good[:-1],
        "truncated to its header": good[:100],
        "empty": b"",
        "noise": os.urandom(len(good)),
    }


def test_damaged_and_missing_copies_are_made_again(server, database):
    make_models(database.sql)
    clear(server)
    before = database.sql(ASK)
    (compiled,) = cache_files(server)
    good = compiled.read_bytes()
    for name, damage in damages(good).items():
        # As a disk would damage it: the file that running connections map is left alone.
        compiled.unlink()
        compiled.write_bytes(damage)
        os.chown(compiled, server.data.stat().st_uid, server.data.stat().st_gid)
        assert database.sql(ASK) == before, name
        assert compiled.read_bytes() == good, name
    compiled.unlink()
    assert database.sql(ASK) == before
    assert compiled.read_bytes() == good


def started(server):
    """Nanoseconds from 1970 to the server's start, which it knows to the microsecond."""
    return int(server.psql("SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint")) * 1000


def test_an_image_is_checked_by_the_first_who_maps_it_after_the_servers_start(server, database):
    """And by the first after whatever happened to the file, which its time tells."""
    make_models(database.sql)
    clear(server)
    before = database.sql(ASK)
    (compiled,) = cache_files(server)
    start = started(server)
    assert compiled.stat().st_mtime_ns == start
    for change in (lambda: os.utime(compiled, (0, 0)), lambda: os.utime(compiled)):
        change()
        assert compiled.stat().st_mtime_ns != start
        assert database.sql(ASK) == before
        assert compiled.stat().st_mtime_ns == start
    # What has the time of the start was checked, whole as it was then: nothing but its header is looked at.
    good = bytearray(compiled.read_bytes())
    good[8] ^= 1
    compiled.unlink()
    compiled.write_bytes(good)
    os.chown(compiled, server.data.stat().st_uid, server.data.stat().st_gid)
    os.utime(compiled, ns=(start, start))
    assert database.sql(ASK) == before
    assert compiled.read_bytes() == good
    os.utime(compiled)
    assert database.sql(ASK) == before
    assert compiled.read_bytes() != good


def test_a_base_backup_brings_images_that_are_checked_anew(major):
    with Server(postgres.tree(major)) as primary:
        primary.psql("CREATE DATABASE app")
        primary.psql("CREATE EXTENSION pgml", "app")
        up, down = make_models(lambda text: primary.psql(text, "app"))
        questions = [f"SELECT pgml.predict({model}, ARRAY[8]::real[])" for model in (up, down)]
        before = [primary.psql(question, "app") for question in questions]
        good = {path.name: path.read_bytes() for path in cache_files(primary)}
        damaged = cache_files(primary)[0]
        with open(damaged, "r+b") as file:
            file.seek(len(good[damaged.name]) - 1)
            file.write(bytes([good[damaged.name][-1] ^ 1]))
        with primary.replica() as copy:
            assert [path.name for path in cache_files(copy)] == sorted(good)
            assert [copy.psql(question, "app") for question in questions] == before
            assert {path.name: path.read_bytes() for path in cache_files(copy)} == good
            assert {path.stat().st_mtime_ns for path in cache_files(copy)} == {started(copy)}


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


HEAVY = """
    SELECT pgml.train('heavy {seed}', 'regression', '(SELECT *, {seed} AS constant FROM numbers)', 'y', 'xgboost',
        '{{"n_estimators": 60, "max_depth": 8, "seed": {seed}}}')
"""
PREDICT = "SELECT pgml.predict('heavy {seed}', 1, 2, {seed})"


@pytest.fixture
def small(server):
    """A cache of two megabytes."""
    server.psql("LOAD 'pgml'; ALTER SYSTEM SET pgml.cache_size = '2MB'; SELECT pg_reload_conf()")
    yield 2 << 20
    server.psql("LOAD 'pgml'; ALTER SYSTEM RESET pgml.cache_size; SELECT pg_reload_conf()")


def test_what_was_not_used_for_longest_goes_when_the_cache_is_full(server, small, database):
    clear(server)
    database.sql(
        "CREATE TABLE numbers AS SELECT hashint4(i) AS a, hashint4(-i) AS b, i AS y FROM generate_series(1, 3000) i"
    )
    for seed in range(8):
        database.sql(HEAVY.format(seed=seed))
    with database.connect() as own:
        cursor = own.cursor()
        answers = []
        for seed in range(8):
            cursor.execute(PREDICT.format(seed=seed))
            answers.append(cursor.fetchone()[0])
            # As if a day had passed: which file was used later is what counts.
            for path in cache_files(server):
                os.utime(path, (path.stat().st_atime - 86400,) * 2)
            if seed:
                # In use again and again, the first one stays.
                database.sql(PREDICT.format(seed=0))
            kept = sum(path.stat().st_size for path in cache_files(server))
            assert 0 < kept <= small, (seed, kept)
        assert len(cache_files(server)) < 8
        first = database.sql(
            "SELECT encode(digest, 'hex') FROM pgml.files WHERE path <> 'remembered_rows' ORDER BY model_id LIMIT 1"
        )
        last = database.sql(
            "SELECT encode(digest, 'hex') FROM pgml.files WHERE path <> 'remembered_rows' ORDER BY model_id DESC LIMIT 1"
        )
        names = {path.name.split(".")[0] for path in cache_files(server)}
        assert first in names and last in names
        # What went is made again, and is the same; open connections have never noticed.
        for seed in range(8):
            assert float(database.sql(PREDICT.format(seed=seed))) == answers[seed]
            cursor.execute(PREDICT.format(seed=seed))
            assert cursor.fetchone()[0] == answers[seed]


def test_a_model_that_is_larger_than_the_cache_is_used_from_memory(server, database):
    make_models(database.sql)
    clear(server)
    server.psql("LOAD 'pgml'; ALTER SYSTEM SET pgml.cache_size = 0; SELECT pg_reload_conf()")
    try:
        assert float(database.sql(ASK)) > 0
        assert cache_files(server) == []
    finally:
        server.psql("LOAD 'pgml'; ALTER SYSTEM RESET pgml.cache_size; SELECT pg_reload_conf()")


def test_only_the_configuration_says_how_large_the_cache_is(database):
    with pytest.raises(Problem, match="cannot be changed now"):
        database.sql("LOAD 'pgml'; SET pgml.cache_size = 0")


@pytest.mark.parametrize(
    "change",
    ["DELETE FROM pgml.models WHERE id = {}", "DELETE FROM pgml.projects", "UPDATE pgml.files SET data = data || ''"],
)
def test_a_models_copy_goes_with_its_bytes(server, database, change):
    up, down = make_models(database.sql)
    for model in (up, down):
        database.sql(f"SELECT pgml.predict({model}, ARRAY[8]::real[])")
    assert len(cache_files(server, database)) == 2
    database.sql(change.format(up))
    if "data ||" in change:
        database.sql("UPDATE pgml.files SET data = data || '\\x00'")
    assert len(cache_files(server, database)) == (1 if "id =" in change else 0)


def test_a_deletion_that_rolls_back_costs_nothing_but_a_compilation(server, database):
    make_models(database.sql)
    before = database.sql(ASK)
    database.sql("BEGIN; DELETE FROM pgml.projects; ROLLBACK")
    assert database.sql(ASK) == before
    assert len(cache_files(server, database)) == 1


def test_what_is_no_more_is_found_by_looking(server, database):
    """Models that no trigger told of, other databases, and the extension in them."""
    make_models(database.sql)
    other = f"{database.name}_other"
    server.psql(f"CREATE DATABASE {other}")
    server.psql("CREATE EXTENSION pgml", other)
    make_models(lambda text: server.psql(text, other))
    elsewhere = Database(server, other)
    make_due(server)
    for place in (database, elsewhere):
        place.sql(ASK)
        make_due(server)
    assert len(cache_files(server, elsewhere)) == 1
    (kept,) = cache_files(server, database)
    stray = kept.with_name("0" * 64 + ".v1")
    old_layout = kept.parent.parent / f"{'1' * 64}.v4"
    abandoned = kept.with_name("tmp.1.1")
    for path in (stray, old_layout, abandoned):
        path.write_bytes(b"as somebody left it")
        os.utime(path, (0, 0))
    folder = cache_files(server, elsewhere)[0].parent
    try:
        # It is not looked for again and again.
        database.sql(ASK)
        assert not stray.exists() and not old_layout.exists() and not abandoned.exists()
        stray.write_bytes(b"")
        database.sql(ASK)
        assert stray.exists()
        assert folder.exists()
        server.psql("DROP EXTENSION pgml", other)
        server.psql("CHECKPOINT")
        make_due(server)
        database.sql(ASK)
        assert not folder.exists() and not stray.exists()
        server.psql("CREATE EXTENSION pgml; DROP TABLE line", other)
        make_models(elsewhere.sql)
        elsewhere.sql(ASK)
        assert folder.exists()
    finally:
        server.psql(f"DROP DATABASE {other} WITH (FORCE)")
    make_due(server)
    database.sql(ASK)
    assert not folder.exists()
    assert cache_files(server, database) == [kept]


def test_a_replica_tidies_its_own_cache(cluster):
    primary, replica = cluster.primary, cluster.replica
    up, down = make_models(lambda text: primary.psql(text, "app"))
    cluster.catch_up()
    for model in (up, down):
        replica.psql(f"SELECT pgml.predict({model}, ARRAY[8]::real[])", "app")
    assert len(cache_files(replica)) == 2
    primary.psql(f"DELETE FROM pgml.models WHERE id = {down}", "app")
    cluster.catch_up()
    make_due(replica)
    replica.psql(ASK, "app")
    assert len(cache_files(replica)) == 1
