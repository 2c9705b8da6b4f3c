"""Cancel requests that reach the server late: they hit nobody but their own client's statement."""

import contextlib
import socket
import struct
import threading
import time

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, query
from tests.pooler.test_protocol import cancel

CANCEL = struct.pack("!i", 80877102)


class SlowCancels:
    """A port that leads to a server, and keeps cancel requests until they are let go, or dropped."""

    def __init__(self, port):
        self.target = port
        self.kept = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception):
        # A thread that waits in accept is woken by this, not by the closing.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for near, _ in self.kept:
            near.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._begin, args=(near,), daemon=True).start()

    def _begin(self, near):
        first = near.recv(65536)
        if first[4:8] == CANCEL:
            self.kept.append((near, first))
        else:
            self._pass_on(near, first)

    def _pass_on(self, near, first):
        with near, socket.create_connection(("127.0.0.1", self.target)) as far:
            far.sendall(first)
            there = threading.Thread(target=pump, args=(near, far), daemon=True)
            there.start()
            pump(far, near)
            there.join()

    def let_go(self, place):
        """Passes a cancel request on; it has arrived when this returns."""
        self._pass_on(*self.kept[place])

    def drop(self, place):
        """Ends a cancel request's connection in the server's place."""
        self.kept[place][0].close()


def pump(source, sink):
    """Passes bytes on until there are no more."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def terminate(server, sql):
    """Ends the process that runs this statement."""
    server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
        f"AND state = 'active' AND query = '{sql}'"
    )


def behind(server, slow, **settings):
    """A pooler whose server is behind the slow port."""
    made = Pooler(server, default_pool_size=1, **settings)
    lines = "\n".join(f"{key} = {value}" for key, value in made.settings.items())
    place = f"host=127.0.0.1 port={slow.port} user=postgres password={server.password}"
    made.text = f"[databases]\npostgres = {place}\n[pgbouncer]\n{lines}\n"
    return made


def test_one_for_a_server_that_died_does_not_speed_up_another(server):
    # The first client's server dies while its cancel request is under way; the next server takes its place in the
    # pooler's books, and has a cancel request of its own under way.
    with SlowCancels(server.port) as slow, behind(server, slow) as pooler, Raw(pooler.port) as other:
        with Raw(pooler.port) as first:
            first.kinds(query("BEGIN"))
            first.send(query("SELECT pg_sleep(30), 1"))
            wait_until(
                lambda: server.psql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep.30'") == "1"
            )
            cancel(pooler.port, first.greeting, wait=False)
            wait_until(lambda: len(slow.kept) == 1)
            terminate(server, "SELECT pg_sleep(30), 1")
            while first.next() is not None:
                pass
        with Raw(pooler.port) as second:
            second.kinds(query("BEGIN"))
            second.send(query("SELECT pg_sleep(1)") + query("COMMIT"))
            cancel(pooler.port, second.greeting, wait=False)
            wait_until(lambda: len(slow.kept) == 2)
            assert [kind for kind, _ in second.until(b"Z")].count(b"E") == 0
            second.until(b"Z")
            other.send(query("SELECT pg_sleep(1)"))
            wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
            slow.drop(0)
            with contextlib.suppress(AssertionError):
                wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "0", 1)
            slow.let_go(1)
            assert "".join(kind.decode() for kind, _ in other.until(b"Z")) == "TDCZ"


def long(rows):
    """A read of so many rows of a kilobyte."""
    return query(f"SELECT repeat('x', 1000) FROM generate_series(1, {rows})")


def slow(rows):
    """A read that takes some milliseconds for a hundred thousand."""
    return query(f"SELECT count(*) FROM generate_series(1, {rows})")


def test_one_for_a_read_spares_long_answers_behind_it(server):
    # What is too long to be kept is passed on as it comes, and could not be asked again.
    with SlowCancels(server.port) as net, behind(server, net) as pooler, contextlib.ExitStack() as stack:
        first, other = stack.enter_context(Raw(pooler.port)), stack.enter_context(Raw(pooler.port))
        for _ in range(4):
            first.kinds(slow(10))
            other.kinds(long(10))
        for _ in range(50):
            first.send(slow(150_000))
            other.send(long(10_000))
            cancel(pooler.port, first.greeting, wait=False)
            first.until(b"Z")
            with contextlib.suppress(AssertionError):
                # It may have come too late for the pooler to send one.
                wait_until(lambda: net.kept, 0.2)
                break
            other.until(b"Z")
        assert net.kept
        # The long answer has begun where it was not asked for anew, and its client is not reading yet.
        time.sleep(0.2)
        net.let_go(0)
        assert {kind for kind, _ in other.until(b"Z")} == {b"T", b"D", b"C", b"Z"}
