"""`-R`: a new process takes the listening sockets of the running one over."""

import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.pooler import raw
from tests.pooler.process import PROGRAM, Pooler, is_refused, wait_until
from tests.pooler.raw import Raw, direct, query


def unix(pooler):
    """The path of the Unix socket."""
    return str(pooler.folder / f".s.PGSQL.{pooler.port}")


@contextlib.contextmanager
def successor(pooler, *flags, up=True):
    """The old process, while a new one with the same configuration has its place; it is ended with the pooler."""
    old = pooler.process
    before = pooler.log.read_text().count("is up")
    with open(pooler.log, "a") as log:
        pooler.process = subprocess.Popen([PROGRAM, *(flags or ["-R"]), pooler.path], stderr=log, stdout=log)
    if up:
        wait_until(lambda: pooler.log.read_text().count("is up") > before)
        released = "took over the listening sockets"
        wait_until(lambda: old.returncode is not None or released in pooler.log.read_text())
    try:
        yield old
    finally:
        if old.poll() is None:
            old.kill()
            old.wait(10)


@contextlib.contextmanager
def crowd(places, stays):
    """Clients that ask without a pause, on connections that they keep or on new ones, as `stays` says; what it gives waits
    until each of them has been served five times more.
    """
    over, served = threading.Event(), [0] * len(places)

    def live(number):
        while not over.is_set():
            with Raw(places[number]) as client:
                client.sql(f"SET lock_timeout = {1001 + number}")
                while not over.is_set():
                    assert client.value("SHOW lock_timeout") == f"{1001 + number}ms"
                    assert client.sql("BEGIN; SELECT 1; COMMIT") == "C:BEGIN T D:1 C:SELECT 1 C:COMMIT Z:I"
                    served[number] += 1
                    if not stays:
                        break

    def goes_on():
        least = [count + 5 for count in served]
        wait_until(lambda: any(each.done() for each in living) or all(map(int.__ge__, served, least)))
        assert not [each.result() for each in living if each.done()]

    with ThreadPoolExecutor(len(places)) as beside:
        living = [beside.submit(live, number) for number in range(len(places))]
        try:
            yield goes_on
        finally:
            over.set()
    for each in living:
        each.result()


@pytest.mark.parametrize("stays", [False, True])
def test_nobody_is_refused_and_no_statement_is_lost(server, stays):
    with Pooler(server, max_client_conn=200, default_pool_size=4) as pooler:
        pidfile = pooler.folder / "pid"
        pooler.stop()
        pooler.configure(pidfile=pidfile)
        with successor(pooler) as stopped:
            assert stopped.returncode == 0 and "so this one starts as without -R" in pooler.log.read_text()
        with crowd([pooler.port] * 6 + [unix(pooler)] * 2, stays) as goes_on:
            goes_on()
            for _ in range(2):
                with successor(pooler) as old:
                    assert old.wait(20) == 0
                    goes_on()
        assert pooler.log.read_text().count("took over the listening sockets") == 2
        # The files of the socket and of the process are the last one's, and go with it.
        assert os.path.exists(unix(pooler)) and pidfile.read_text().strip() == str(pooler.process.pid)
        pooler.stop()
        assert not os.path.exists(unix(pooler)) and not pidfile.exists() and is_refused(pooler.port)


def process_of(client):
    """The server process that a statement of a client runs in."""
    return client.value("SELECT pg_backend_pid()")


def test_clients_go_to_the_new_one_with_all_that_their_sessions_are(server):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=4, workers=2, database_workers=2))
        places = [pooler.port, unix(pooler)] * 40
        started = {"extra_float_digits": "2", "application_name": "at first"}
        clients = [stack.enter_context(Raw(place, **started)) for place in places]
        for number, client in enumerate(clients):
            assert client.sql(f"SET TimeZone = 'Etc/GMT-{number % 12}'") == "C:SET Z:I"
            assert client.sql(f"SET lock_timeout = {1001 + number}") == "C:SET Z:I"
            assert client.ask(raw.parse("mine", f"SELECT {number}"), raw.SYNC) == "1 Z:I"
        before = {process_of(client) for client in clients}
        with successor(pooler) as old:
            assert old.wait(10) == 0, "it has no clients any more"
            for number, client in enumerate(clients):
                assert client.value("SHOW TimeZone") == f"Etc/GMT-{number % 12}"
                assert client.value("SHOW lock_timeout") == f"{1001 + number}ms"
                assert client.value("SHOW application_name") == "at first"
                assert client.ask(raw.bind("mine"), raw.EXECUTE, raw.SYNC) == f"2 D:{number} C:SELECT 1 Z:I"
            assert not before & {process_of(client) for client in clients}
            assert clients[2].sql("RESET ALL") == "C:RESET Z:I"
            assert clients[2].value("SHOW extra_float_digits") == "2", "what it asked for at startup"
            assert clients[2].value("SHOW lock_timeout") == "0"
            shown = [row for row in pooler.show("CLIENTS") if row["database"] == "postgres"]
            assert len(shown) == len(clients)


def test_a_client_goes_when_what_it_does_has_ended(server):
    with Pooler(server, default_pool_size=4) as pooler, direct(server) as other, contextlib.ExitStack() as stack:
        other.sql("SELECT pg_advisory_lock(79)")
        within, waits, pinned, listens, busy = (stack.enter_context(Raw(pooler.port)) for _ in range(5))
        within.sql("BEGIN")
        before = process_of(within)
        waits.send(query("SELECT pg_advisory_xact_lock(79)"))
        pinned.sql("CREATE TEMP TABLE kept (a int)")
        listens.sql("LISTEN heirs")
        with successor(pooler) as old:
            assert process_of(within) == before
            assert within.sql("COMMIT") == "C:COMMIT Z:I"
            other.sql("SELECT pg_advisory_unlock(79)")
            assert raw.show(waits.until(b"Z")) == "T D: C:SELECT 1 Z:I"
            for _ in range(300):
                assert busy.value("SELECT 1") == "1"
            assert pinned.sql("INSERT INTO kept VALUES (1)") == "C:INSERT 0 1 Z:I" and old.poll() is None
            with Raw(pooler.port) as speaks:
                speaks.sql("NOTIFY heirs, 'said'")
            assert listens.next()[0] == b"A"
            assert pinned.sql("DISCARD ALL") == "C:DISCARD ALL Z:I"
            assert listens.sql("UNLISTEN *") == "C:UNLISTEN Z:I"
            listens.socket.close()
            assert old.wait(10) == 0
            for client in (within, waits, busy, pinned):
                assert process_of(client) != before


def test_a_cancel_request_finds_its_client_wherever_it_is(server):
    with Pooler(server) as pooler, direct(server) as other, Raw(pooler.port) as gone, Raw(pooler.port) as left:
        other.sql("SELECT pg_advisory_lock(78)")
        left.send(query("SELECT pg_advisory_xact_lock(78)"))
        waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: other.value(waits) == "1")
        # Twice: the request goes through both that came after.
        with successor(pooler), successor(pooler):
            gone.send(query("SELECT pg_advisory_xact_lock(78)"))
            wait_until(lambda: other.value(waits) == "2")
            for client in (left, gone):
                client.cancel(pooler.port)
                assert raw.show(client.until(b"Z")).endswith("E:57014 Z:I")


def test_what_cannot_be_taken_over_leaves_the_old_one_as_it_was(server):
    with Pooler(server) as pooler:
        process, refused = pooler.process, []

        def attempt():
            done = subprocess.run([PROGRAM, "-R", pooler.path], capture_output=True, text=True, timeout=20, check=False)
            refused.append(done.stderr.splitlines()[-1])
            return done.returncode

        pooler.psql("PAUSE", "pgbouncer")
        assert attempt() == 1 and "paused or suspended" in refused[-1]
        pooler.psql("RESUME", "pgbouncer")
        # A file that is half written.
        whole = pooler.path.read_text()
        pooler.path.write_text(whole[whole.index("[pgbouncer]") :])
        assert attempt() == 1 and "it would close all clients" in refused[-1]
        # A configuration of which nothing comes.
        pooler.configure(listen_addr="203.0.113.7")
        assert attempt() == 1 and "203.0.113.7" in refused[-1]
        pooler.configure(unix_socket_dir="", listen_addr="127.0.0.1")
        assert attempt() == 1 and "unix_socket_dir" in refused[-1]
        with Raw(pooler.port) as client:
            assert client.value("SELECT 1") == "1" and process.poll() is None
        assert os.path.exists(unix(pooler))


def test_only_the_own_account_is_given_sockets(pooler):
    # By TCP, and an administrator by the Unix socket who is not the account that the pooler is.
    for place in (pooler.port, unix(pooler)):
        with Raw(place, "pgbouncer") as admin:
            for command in ("TAKEOVER", "TAKEOVER DONE", "TAKEOVER CLIENTS", "TAKEOVER NOW"):
                assert admin.sql(command) == "E:08P01 Z:I"


@pytest.mark.skipif(os.geteuid() != 0, reason="another account listens, which root alone can start")
def test_sockets_of_another_account_are_not_taken(pooler):
    path = unix(pooler)
    pooler.stop()
    listens = "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); "
    listens += "s.listen(); print(flush=True); s.accept()[0].recv(100)"
    os.chmod(pooler.folder, 0o777)
    with subprocess.Popen([sys.executable, "-c", listens, path], stdout=subprocess.PIPE) as stranger:
        try:
            stranger.stdout.readline()
            done = subprocess.run([PROGRAM, "-R", pooler.path], capture_output=True, text=True, check=False, timeout=20)
            assert done.returncode != 0 and "runs as the user 65534" in done.stderr, done.stderr
        finally:
            stranger.kill()
