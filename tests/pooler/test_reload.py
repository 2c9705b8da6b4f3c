"""Reading the configuration again, by a signal and by watching its files; the log."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import contextlib
import fcntl
import itertools
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.pooler import raw
from tests.pooler.process import PROGRAM, Pooler, ask, is_refused, wait_until
from tests.pooler.raw import Raw


def setting(pooler, name):
    """A setting as the console shows it."""
    return next(row["value"] for row in pooler.show("CONFIG") if row["key"] == name)


def test_a_changed_file_is_read_again_by_itself(server):
    with Pooler(server, autoreload="0.2") as pooler, Raw(pooler.port) as client:
        client.sql("BEGIN")
        pooler.configure(default_pool_size=3)
        wait_until(lambda: setting(pooler, "default_pool_size") == "3")
        # Replaced as a whole, as editors and configuration managers do.
        new = pooler.folder / "new"
        new.write_text(pooler.path.read_text().replace("default_pool_size = 3", "default_pool_size = 4"))
        os.replace(new, pooler.path)
        wait_until(lambda: setting(pooler, "default_pool_size") == "4")
        assert client.sql("COMMIT") == "C:COMMIT Z:I"


def test_a_pool_that_becomes_smaller_closes_its_connections_as_they_become_free(server):
    with Pooler(server, default_pool_size=4) as pooler, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(pooler.port)) for _ in range(4)]
        for client in clients:
            assert client.sql("BEGIN") == "C:BEGIN Z:T"
        assert clients[0].sql("COMMIT") == "C:COMMIT Z:I"
        pooler.reload(default_pool_size=1)
        # The last one stays.
        for client, left in zip(clients, (3, 2, 1, 1), strict=True):
            if client is not clients[0]:
                assert client.sql("COMMIT") == "C:COMMIT Z:I"
            wait_until(lambda left=left: len(pooler.show("SERVERS")) == left)


def test_the_users_file_and_included_files_are_watched_too(server):
    with Pooler(server, users={"postgres": "one"}, auth_type="plain", autoreload="0.2") as pooler:
        assert pooler.psql("SELECT 1", password="one") == "1"
        pooler.users = {"postgres": "two"}
        (pooler.folder / "users.txt").write_text('"postgres" "two"\n')
        wait_until(lambda: pooler.psql("SELECT 1", password="two", check=False).returncode == 0)
        more = pooler.folder / "more.ini"
        more.write_text("query_wait_timeout = 7\n")
        pooler.path.write_text(pooler.path.read_text() + f"%include {more}\n")
        wait_until(lambda: pooler.log.read_text().count("was read again") == 2)
        more.write_text("query_wait_timeout = 71\n")
        wait_until(lambda: pooler.log.read_text().count("was read again") == 3)


def test_a_file_that_is_broken_empty_or_half_written_is_not_taken_and_complained_of_once(server):
    databases = {"postgres": "", "second": "dbname=postgres"}
    with (
        Pooler(server, databases, users={"postgres": ""}, auth_type="trust", autoreload="0.2") as pooler,
        Raw(pooler.port, "second") as client,
    ):
        client.sql("BEGIN")
        whole = pooler.path.read_text()
        half = "".join(line for line in whole.splitlines(True) if not line.startswith("second"))
        (pooler.folder / "nobody.txt").touch()
        wrong = {
            whole.replace("pool_mode = transaction", "pool_mode = no"): "expected session, transaction or statement",
            "": "it has no databases any more",
            half: "not in it any more: second (1 client); RELOAD or SIGHUP removes them",
            whole.replace("dbname=postgres", "dbnam=postgres"): "there is no setting dbnam; did you mean dbname?",
            whole.replace("users.txt", "nobody.txt"): "no user could log in any more",
        }
        for number, (text, words) in enumerate(wrong.items(), 1):
            pooler.path.write_text(text)
            wait_until(lambda number=number: pooler.log.read_text().count("the old one stays") == number)
            last = next(line for line in reversed(pooler.log.read_text().splitlines()) if "the old one stays" in line)
            assert words in last
            assert pooler.psql("SELECT 1", "second") == "1"
            pooler.path.write_text(whole)
            wait_until(lambda: "was read again" in pooler.log.read_text().rpartition("the old one stays")[2])
        # By an order, too.
        pooler.reload(autoreload=0)
        pooler.path.write_text(half.replace("autoreload = 0.2", "autoreload = 0"))
        told = pooler.psql("RELOAD", "pgbouncer", check=False)
        assert told.returncode != 0 and "once more removes them" in told.stderr
        assert client.sql("COMMIT") == "C:COMMIT Z:I"


def test_what_cannot_be_changed_while_running_stays_and_is_named(server):
    with Pooler(server, workers=1) as pooler:
        pooler.reload(workers=2, listen_backlog=5)
        log = pooler.log.read_text()
        assert "workers cannot be changed while the pooler runs" in log
        assert setting(pooler, "workers") == "1"
        assert setting(pooler, "listen_backlog") == "128"


def test_a_log_in_json_has_its_fields(server):
    with Pooler(server, log_format="json") as pooler:
        pooler.psql("SELECT 1")
        pooler.psql("SELECT 1", "postgres", user="nobody at all", check=False)
        lines = [json.loads(line) for line in pooler.log.read_text().splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    login = next(line for line in lines if line["message"] == "login")
    assert login["database"] == "postgres" and login["client"].startswith("127.0.0.1:")
    made = next(line for line in lines if line["message"] == "new connection to server")
    assert made["server"] == f"{server.socket_folder}:{server.port}"
    assert any(line["level"] == "warning" and line["user"] == "nobody at all" for line in lines if "user" in line)


def test_the_log_says_whence_a_connection_comes_and_why_and_at_what_age_it_is_closed(server):
    databases = {"by_tcp": f"host=127.0.0.1 dbname=postgres password={server.password}", "other": "dbname=postgres"}
    with Pooler(server, databases, query_wait_timeout="0.2", server_fast_close=1, pool_mode="session") as pooler:
        with pooler.connect("by_tcp") as client:
            port = ask(client, "SELECT inet_client_port()")[0][0]
            assert f"new connection to server (from 127.0.0.1:{port})" in pooler.log.read_text()
            time.sleep(1.1)
            pooler.psql("RECONNECT by_tcp", "pgbouncer")
            wait_until(lambda: "closing because: database configuration changed" in pooler.log.read_text())
        assert pooler.psql("SELECT 1", "nothing", check=False).returncode != 0
        pooler.psql("SELECT 1", "other")
        closed = re.findall(r"\] LOG (\S+): closing because: (.*) \(age=(\d+)s\)$", pooler.log.read_text(), re.M)
    by_tcp = [(why, age) for name, why, age in closed if name.startswith("by_tcp/") and "@" in name]
    assert [(why.split(":")[0], int(age) >= 1) for why, age in by_tcp] == [("database configuration changed", True)]
    assert any(name.startswith("nothing/") and why == "no such database: nothing" for name, why, _ in closed)


def test_a_log_file_is_opened_again_by_reload(server, tmp_path):
    log = tmp_path / "log"
    # The standard error says nothing then, so readiness is seen elsewhere.
    made = Pooler(server, logfile=log)
    made.log = log
    log.touch()
    with made as pooler:
        os.rename(log, tmp_path / "log.1")
        pooler.log = tmp_path / "log.1"
        pooler.process.send_signal(signal.SIGHUP)
        wait_until(log.exists)
        pooler.log = log
        pooler.psql("SELECT 1")
        wait_until(lambda: "login" in log.read_text())


@pytest.mark.parametrize("level", ["ERROR", "debug"])
def test_the_levels_of_pgcat_choose_what_is_logged(server, level):
    made = Pooler(server)
    made.configure()
    with open(made.log, "a") as log:
        made.process = subprocess.Popen([PROGRAM, made.path, "--log-level", level], stderr=log, stdout=log)
    try:
        wait_until(lambda: not is_refused(made.port))
        assert made.psql("SELECT 1") == "1"
        assert made.psql("SELECT 1", "nothing", check=False).returncode != 0
        wait_until(lambda: " WARNING " in made.log.read_text())
        assert (" LOG " in made.log.read_text()) == (level == "debug")
    finally:
        made.__exit__()


def test_a_log_that_nobody_reads_stops_nobody(server):
    made, (here, there), said = Pooler(server), os.pipe(), []
    made.configure()
    # It holds one page from here on.
    fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(here, False)
    made.process = subprocess.Popen([PROGRAM, made.path], stderr=there)
    os.close(there)

    def read():
        with contextlib.suppress(BlockingIOError):
            while more := os.read(here, 65536):
                said.append(more.decode())
        return "".join(said)

    try:
        wait_until(lambda: "is up" in read())
        for number in range(100):
            with Raw(made.port) as client:
                assert client.value(f"SELECT {number}") == str(number)
        assert "were lost" not in read()
        wait_until(lambda: made.psql("SELECT 1") == "1" and "were lost" in read())
        # Two lines for each who came and went, of which the pipe has held some.
        assert int(re.search(r"(\d+) lines of the log were lost", read())[1]) > 100
    finally:
        made.__exit__()
        os.close(here)


def test_pools_are_added_and_removed_while_in_use(server):
    with Pooler(server, {"postgres": "", "gone": "dbname=postgres"}) as pooler:
        with Raw(pooler.port, "gone") as leaving, Raw(pooler.port, "gone") as idle:
            leaving.sql("BEGIN")
            pooler.databases = {"postgres": "", "new": "dbname=postgres"}
            pooler.configure()
            # What clients use is only taken away from them by a file that is no longer being written.
            pooler.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "the old one stays" in pooler.log.read_text())
            assert "databases that clients use are not in it any more: gone (2 clients)" in pooler.log.read_text()
            wait_until(lambda: pooler.psql("RELOAD", "pgbouncer", check=False).returncode == 0)
            # Who is in a transaction finishes it, then hears what has become of the database.
            assert idle.until(b"E") and idle.is_closed()
            assert leaving.value("SELECT 2") == "2"
            leaving.sql("COMMIT")
            assert leaving.until(b"E") and leaving.is_closed()
            assert pooler.psql("SELECT 4", "new") == "4"
            wait_until(lambda: all(row["database"] != "gone" for row in pooler.show("POOLS")))


def test_pools_shrink_and_grow_while_in_use(server):
    with Pooler(server, {"postgres": "pool_size=3"}) as pooler, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(pooler.port)) for _ in range(3)]
        for client in clients:
            assert client.sql("BEGIN") == "C:BEGIN Z:T"
        pooler.databases = {"postgres": "pool_size=1"}
        pooler.reload()
        for client in clients:
            assert client.sql("COMMIT") == "C:COMMIT Z:I"
        # One connection is left, and all three clients live on it.
        wait_until(lambda: len(pooler.show("SERVERS")) == 1)
        one, two, _ = clients
        assert one.sql("BEGIN") == "C:BEGIN Z:T"
        two.send(raw.query("SELECT 5"))
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
        pooler.databases = {"postgres": "pool_size=2"}
        pooler.reload()
        assert raw.values(two.until(b"Z")) == ["5"]


def test_reloads_under_load_lose_no_statement(server):
    server.run("pgbench", "-i", "-q", "postgres")
    with Pooler(server, default_pool_size=4) as pooler, ThreadPoolExecutor(1) as beside:
        load = beside.submit(pooler.pgbench, "-n", "-c", "16", "-j", "2", "-T", "3", "-M", "extended")
        for size in itertools.cycle((1, 8, 2, 6, 3, 5)):
            if load.done():
                break
            pooler.reload(default_pool_size=size, server_lifetime=size)
        assert "number of failed transactions: 0 " in load.result().stdout
