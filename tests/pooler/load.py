"""Clients that write and read without a pause, and keep account of every answer.

Each writer inserts pairs of its own number and a growing one into `ledger`, and notes a pair as acknowledged only when
the server has said so and is ready for more. Readers ask which server answers them. All of them go on after an error;
a client whose connection ends notes whether it was in a transaction then, and connects again.
"""

import itertools
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

    def __init__(self, pooler, simple=2, extended=2, transactions=2, readers=4, database="app"):
        self.pooler = pooler
        self.database = database
        self.kinds = [
            *[self._simple] * simple,
            *[self._extended] * extended,
            *[self._transaction] * transactions,
            *[self._reader if i % 2 else self._prepared_reader for i in range(readers)],
        ]
        self.stopping = threading.Event()
        self.threads = []
        # Lists are appended to from all threads; each append is whole.
        self.acked = []
        self.write_errors = []
        self.read_errors = []
        self.reads = []
        self.dropped = []
        self.dropped_in_transaction = []
        self.refused = []
        self.broken = []

    def __enter__(self):
        for number, kind in enumerate(self.kinds):
            thread = threading.Thread(target=self._live, args=(number, kind), daemon=True)
            self.threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self):
        """Ends all clients after the statements that they have under way."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE + 5)
        stuck = [thread for thread in self.threads if thread.is_alive()]
        if stuck:
            self.broken.append(f"{len(stuck)} clients hang")

    # What was seen

    def served(self, since=0.0):
        """How many reads each server has answered, by its port."""
        return Counter(port for when, port, _ in list(self.reads) if when >= since)

    def slowest_read(self):
        """The longest that a read took, in seconds."""
        return max(took for _, _, took in self.reads)

    def longest_pause_of_writes(self):
        """The longest time in which no write was acknowledged, in seconds."""
        moments = sorted(when for when, *_ in self.acked)
        return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0)

    def first_ack_after(self, moment):
        """When the first write was acknowledged after a moment; `None` before that."""
        return min((when for when, *_ in list(self.acked) if when > moment), default=None)

    def codes(self):
        """The SQLSTATEs that writers were told."""
        return Counter(code for _, code, _ in self.write_errors)

    def lost(self, server):
        """Acknowledged pairs that the server does not have."""
        return {(client, n) for _, client, n in self.acked} - self._ledger(server).keys()

    def doubled(self, server):
        """Pairs that the server has more than once."""
        return {pair for pair, count in self._ledger(server).items() if count > 1}

    def _ledger(self, server):
        rows = server.psql("SELECT client, n, count(*) FROM ledger GROUP BY 1, 2").splitlines()
        return {(int(client), int(n)): int(count) for client, n, count in (row.split("|") for row in rows)}

    # Clients

    def _live(self, number, kind):
        # Numbers go on when a client has connected again.
        counter = [0]
        while not self.stopping.is_set():
            client = Client(self, number, counter)
            try:
                if not client.connect():
                    time.sleep(0.1)
                    continue
                while not self.stopping.is_set() and client.is_open:
                    kind(client)
                    time.sleep(PAUSE)
            except TimeoutError:
                self.broken.append(f"client {number}: no answer in {PATIENCE} s to {client.last}")
            except Exception as error:
                self.broken.append(f"client {number}: {error!r} at {client.last}")
                return
            finally:
                client.close()

    def _simple(self, client):
        n = client.next_number()
        answer = client.ask("write", query(f"INSERT INTO ledger VALUES ({client.number}, {n})"))
        if answer.is_good(b"C", "INSERT 0 1"):
            self.acked.append((time.monotonic(), client.number, n))

    def _extended(self, client):
        n = client.next_number()
        sql = f"INSERT INTO ledger VALUES ({client.number}, {n})"
        answer = client.ask("write", parse("", sql), bind(""), EXECUTE, SYNC)
        if answer.is_good(b"C", "INSERT 0 1"):
            self.acked.append((time.monotonic(), client.number, n))

    def _transaction(self, client):
        pair = [client.next_number(), client.next_number()]
        if not client.ask("write", query("BEGIN")).is_good(b"C", "BEGIN"):
            client.roll_back()
            return
        for n in pair:
            # So that transactions are open most of the time.
            time.sleep(PAUSE)
            if not client.ask("write", query(f"INSERT INTO ledger VALUES ({client.number}, {n})")).is_good(b"C"):
                client.roll_back()
                return
        if client.ask("write", query("COMMIT")).is_good(b"C", "COMMIT"):
            self.acked += [(time.monotonic(), client.number, n) for n in pair]
        else:
            client.roll_back()

    def _reader(self, client):
        self._read(client, query(WHO))

    def _prepared_reader(self, client):
        if not client.prepared:
            if not client.ask("read", parse("who", WHO), SYNC).is_good(b"1"):
                return
            client.prepared = True
        self._read(client, bind("who"), EXECUTE, SYNC)

    def _read(self, client, *parts):
        began = time.monotonic()
        answer = client.ask("read", *parts)
        if answer.is_good(b"C"):
            port = values(answer.messages)
            if len(port) != 1:
                self.broken.append(f"client {client.number}: {answer.messages} is no answer to a read")
                return
            self.reads.append((time.monotonic(), int(port[0]), time.monotonic() - began))


class Answer:
    """What came back up to ReadyForQuery; nothing when the connection ended."""

    def __init__(self, messages):
        self.messages = messages

    def is_good(self, kind, text=None):
        """Whether there is no error in it, and such a message with such a text."""
        kinds = [got for got, _ in self.messages]
        found = [body for got, body in self.messages if got == kind]
        return b"E" not in kinds and bool(found) and (text is None or found[0] == text.encode() + b"\0")


class Client:
    """One client of a load."""

    def __init__(self, load, number, counter):
        self.load = load
        self.number = number
        self.counter = counter
        self.raw = None
        self.is_open = False
        self.in_transaction = False
        self.prepared = False
        self.last = None

    def next_number(self):
        """A number that this client has not written yet."""
        self.counter[0] += 1
        return self.counter[0]

    def connect(self):
        """Logs in. Whether it was let in."""
        try:
            self.raw = Raw(self.load.pooler.port, self.load.database)
        except (AssertionError, OSError) as refusal:
            self.load.refused.append((time.monotonic(), self.number, repr(refusal)))
            return False
        self.raw.socket.settimeout(PATIENCE)
        self.is_open = True
        return True

    def close(self):
        """Leaves, as libpq does."""
        if self.raw is not None:
            if self.is_open:
                self.raw.send(message(b"X"))
            self.raw.socket.close()

    def ask(self, what, *parts):
        """Sends a unit and takes all of its answer, up to ReadyForQuery."""
        self.last = parts
        messages = []
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
            return Answer([])
        for body in (body for kind, body in messages if kind == b"E"):
            errors = self.load.write_errors if what == "write" else self.load.read_errors
            errors.append((time.monotonic(), code(body), body))
        self.in_transaction = messages[-1][1] != b"I"
        return Answer(messages)

    def roll_back(self):
        """Leaves a transaction that cannot go on."""
        if self.is_open and self.in_transaction:
            self.ask("write", query("ROLLBACK"))
