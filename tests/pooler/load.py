"""Clients that write and read without a pause, and keep account of every answer.

Each writer inserts pairs of its own number and a growing one into `ledger`, and notes a pair as acknowledged only when
the server has said so and is ready for more. Readers ask which server answers them. All of them go on after an error;
a client whose connection ends notes whether it was in a transaction then, and connects again.
"""

import threading
import time
from collections import Counter

from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, code, message, parse, query, values

LEDGER = "CREATE TABLE ledger (client int, n int)"
# Stable, so a read: it names the server that answers by its port.
WHO = "SELECT current_setting('here.port')"
# Longer than any outage of the tests: a client that waits this long hangs.
PATIENCE = 30
PAUSE = 0.004


class Load:
    """Clients in threads, from `with` to the end of its block."""

    def __init__(self, pooler, readers=4, database="app"):
        self.pooler = pooler
        self.database = database
        kinds = [Client.write, Client.write_extended, Client.write_transaction] * 2
        kinds += [Client.read, Client.read_prepared] * (readers // 2)
        self.threads = [
            threading.Thread(target=Client(self, number, kind).live, daemon=True) for number, kind in enumerate(kinds)
        ]
        self.stopping = threading.Event()
        # Lists are appended to from all threads; each append is whole.
        self.acked, self.reads = [], []
        self.errors = {"write": [], "read": []}
        self.dropped, self.dropped_in_transaction, self.refused, self.broken = [], [], [], []

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self):
        """Ends all clients after the statements that they have under way."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE + 5)
        if stuck := sum(thread.is_alive() for thread in self.threads):
            self.broken.append(f"{stuck} clients hang")

    def served(self, since=0.0):
        """How many reads each server has answered, by its port."""
        return Counter(port for when, port in list(self.reads) if when >= since)

    def first_ack_after(self, moment):
        """When the first write was acknowledged after a moment; `None` before that."""
        return min((when for when, *_ in list(self.acked) if when > moment), default=None)

    def codes(self, what="write"):
        """The SQLSTATEs that writers, or readers, were told."""
        return Counter(code(body) for body in self.errors[what])

    def lost(self, server):
        """Acknowledged pairs that the server does not have."""
        return {(client, n) for _, client, n in self.acked} - self._ledger(server).keys()

    def doubled(self, server):
        """Pairs that the server has more than once."""
        return {pair for pair, count in self._ledger(server).items() if count > 1}

    def _ledger(self, server):
        rows = server.psql("SELECT client, n, count(*) FROM ledger GROUP BY 1, 2").splitlines()
        return {(int(client), int(n)): int(count) for client, n, count in (row.split("|") for row in rows)}


class Client:
    """One client of a load, which does the same again and again."""

    def __init__(self, load, number, kind):
        self.load, self.number, self.kind = load, number, kind
        # Numbers go on when it has connected again.
        self.n = 0
        self.raw = self.last = None
        self.is_open = self.in_transaction = self.prepared = False

    def live(self):
        """Works, and connects again where its connection has ended, until the load stops."""
        load = self.load
        while not load.stopping.is_set():
            try:
                self.raw = Raw(load.pooler.port, load.database)
            except (AssertionError, OSError) as refusal:
                load.refused.append((time.monotonic(), self.number, repr(refusal)))
                time.sleep(0.1)
                continue
            self.raw.socket.settimeout(PATIENCE)
            self.is_open, self.in_transaction, self.prepared = True, False, False
            try:
                while not load.stopping.is_set() and self.is_open:
                    self.kind(self)
                    time.sleep(PAUSE)
                if self.is_open:
                    # As libpq leaves.
                    self.raw.send(message(b"X"))
            except TimeoutError:
                load.broken.append(f"client {self.number}: no answer in {PATIENCE} s to {self.last}")
            except Exception as error:
                load.broken.append(f"client {self.number}: {error!r} at {self.last}")
                return
            finally:
                self.raw.socket.close()

    def ask(self, what, *parts):
        """Sends a unit and gives all of its answer; nothing if there was an error, or the connection has ended."""
        self.last, messages = parts, []
        try:
            self.raw.send(*parts)
            while not messages or messages[-1][0] != b"Z":
                got = self.raw.next()
                if got is None:
                    raise ConnectionResetError
                messages.append(got)
        except (BrokenPipeError, ConnectionResetError):
            self.is_open = False
            told = [body for kind, body in messages if kind == b"E"]
            drops = self.load.dropped_in_transaction if self.in_transaction else self.load.dropped
            drops.append((time.monotonic(), self.number, parts, told))
            return None
        self.in_transaction = messages[-1][1] != b"I"
        errors = [body for kind, body in messages if kind == b"E"]
        self.load.errors[what] += errors
        return None if errors else messages

    def _insert(self, send):
        self.n += 1
        done = send(f"INSERT INTO ledger VALUES ({self.number}, {self.n})")
        return self.n if done and (b"C", b"INSERT 0 1\0") in done else None

    def _acknowledged(self, *numbers):
        self.load.acked += [(time.monotonic(), self.number, n) for n in numbers if n is not None]

    def write(self):
        """Inserts a pair by a Query."""
        self._acknowledged(self._insert(lambda sql: self.ask("write", query(sql))))

    def write_extended(self):
        """Inserts a pair by the extended protocol."""
        self._acknowledged(self._insert(lambda sql: self.ask("write", parse("", sql), bind(""), EXECUTE, SYNC)))

    def write_transaction(self):
        """Inserts two pairs in a transaction, which is open most of the time."""
        done, numbers = self.ask("write", query("BEGIN")), []
        while done and len(numbers) < 2:
            time.sleep(PAUSE)
            numbers.append(self._insert(lambda sql: self.ask("write", query(sql))))
            done = numbers[-1]
        if done and (ended := self.ask("write", query("COMMIT"))) and (b"C", b"COMMIT\0") in ended:
            self._acknowledged(*numbers)
        elif self.is_open and self.in_transaction:
            self.ask("write", query("ROLLBACK"))

    def read(self, *parts):
        """Asks which server answers."""
        if answer := self.ask("read", *(parts or [query(WHO)])):
            (port,) = values(answer)
            self.load.reads.append((time.monotonic(), int(port)))

    def read_prepared(self):
        """The same by a prepared statement."""
        self.prepared = self.prepared or self.ask("read", parse("who", WHO), SYNC) is not None
        if self.prepared:
            self.read(bind("who"), EXECUTE, SYNC)
