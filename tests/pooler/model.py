"""Clients that do all that may meet in a pipeline, each beside a model of what it must be answered.

A client sends units, several at a time, in all forms that the protocol has for them. Everything that a unit answers
carries the client's number and the unit's: rows, errors and notices. What the client has SET, has prepared and has
open is kept in its model, and read back by its statements. What does not fit is noted in `Crowd.wrong`.
"""

import asyncio
import random
import struct
from collections import Counter, deque

from devkit.server import SUPERUSER
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, code, describe, message, parse, query, values

SCHEMA = """
CREATE TABLE ledger (client int, n int, tag text);
CREATE TABLE facts (id int PRIMARY KEY, v text);
INSERT INTO facts SELECT i, 'fact ' || i FROM generate_series(1, 100) i;
CREATE TABLE shifting (a int, b text);
INSERT INTO shifting VALUES (1, 'b');
CREATE FUNCTION note(tag text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN RAISE NOTICE 'one %', tag; RAISE NOTICE 'two %', tag; RETURN tag; END $$;
CREATE FUNCTION boom(tag text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'boom %', tag; END $$;
CREATE FUNCTION nap(tag text, seconds float) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(seconds); RETURN tag; END $$;
"""
# What a statement must find as its own client has left it.
WATCHED = ["work_mem", "application_name", "TimeZone", "my.tag", "transaction_isolation"]
SHOWN = ", ".join(f"coalesce(current_setting('{name}', true), '')" for name in WATCHED)
CHOICES = {"work_mem": ["1MB", "2MB"], "TimeZone": ["UTC", "Asia/Tokyo"]}
# A unit that is not answered in this time, in seconds, is taken for lost.
PATIENCE = 30
# With these a server, or the pooler in its place, says that the connection to it has ended.
LOST = {"08006", "08003", "08000", "57P01", "57P02", "57P03"}
CANCELED = "57014"
DYING = "terminating connection because of crash of another server process"
IN_FAILED_TRANSACTION = "25P02"
BIG = 100_000
# How many statements a client has prepared at most.
NAMES = 8
ANYTHING = object()


class Wrong(Exception):
    """An answer that the model does not allow."""


def bind_with(statement, *params):
    """A Bind with parameters as text."""
    body = b"\0" + statement.encode() + b"\0\0\0" + struct.pack("!h", len(params))
    for value in params:
        body += struct.pack("!i", len(value.encode())) + value.encode()
    return message(b"B", body + b"\0\0")


DESCRIBE_PORTAL = message(b"D", b"P\0")


class Statement:
    """A statement with its parameters, and what it answers: rows, and an error's SQLSTATE and part of its text."""

    def __init__(self, kind, sql, *params, rows=None, error=None, text="", notices=(), columns=True, **more):
        self.kind = kind
        self.sql = sql
        self.params = params
        # A function of the client that is called when the answer is there; its model stands then as it did on the
        # server.
        self.rows = rows if rows is not None else lambda client: []
        self.error = error
        self.text = text
        self.notices = list(notices)
        self.columns = columns
        # Part of it may have been passed on when a server dies.
        self.big = more.get("big", False)
        # It is a read, and not in a transaction: it must be answered whatever happens to servers.
        self.read = more.get("read", True)
        # What becomes of the model when it has been done.
        self.done = more.get("done")
        # The number of the row that it writes.
        self.row = more.get("row")
        self.command = more.get("command")

    def plain(self):
        """It as text without parameters."""
        sql = self.sql
        for place, value in enumerate(self.params, 1):
            sql = sql.replace(f"${place}", f"'{value}'")
        return sql


class Unit:
    """Messages up to a ReadyForQuery, and the types of those that answer them, rows left out."""

    def __init__(self, statement, parts, kinds, needs=None, prepares=None, flush=False, runs=True):
        self.statement = statement
        self.parts = parts
        self.kinds = kinds
        self.needs = needs
        self.prepares = prepares
        # Its connection is lent, since it asks for an answer before its end.
        self.flush = flush
        # It executes the statement.
        self.runs = runs
        # A cancel request of its own client may have hit it.
        self.cancelled = False

    @property
    def kind(self):
        """What it is, for messages."""
        return f"{self.statement.kind} {self.kinds}"


class Link(asyncio.Protocol):
    """The bytes of one connection, cut into answers."""

    def __init__(self):
        self.transport = None
        self.held = bytearray()
        self.current = []
        self.answers = deque()
        self.waiter = None
        self.closed = False

    def connection_made(self, transport):
        """It is open."""
        self.transport = transport

    def data_received(self, data):
        """Bytes have come."""
        self.held += data
        at, held = 0, self.held
        while len(held) - at >= 5:
            length = int.from_bytes(held[at + 1 : at + 5], "big")
            if len(held) - at <= length:
                break
            kind = bytes(held[at : at + 1])
            self.current.append((kind, bytes(held[at + 5 : at + 1 + length])))
            at += 1 + length
            if kind == b"Z":
                self.answers.append(self.current)
                self.current = []
        del held[:at]
        self._wake()

    def connection_lost(self, _error):
        """It has ended."""
        self.closed = True
        self._wake()

    def _wake(self):
        if self.waiter is not None and not self.waiter.done() and (self.answers or self.closed):
            self.waiter.set_result(None)

    async def answer(self):
        """The next answer; None when the connection has ended."""
        if not self.answers and not self.closed:
            self.waiter = asyncio.get_running_loop().create_future()
            await asyncio.wait_for(self.waiter, PATIENCE)
        return self.answers.popleft() if self.answers else None


class Crowd:
    """All clients, what they count and what was wrong."""

    def __init__(self, port, seed, defaults, pipelining=True, database="postgres"):
        self.port = port
        self.defaults = defaults
        self.pipelining = pipelining
        self.seed = seed
        self.database = database
        self.wrong = []
        self.units = 0
        self.kinds = Counter()
        self.told = Counter()
        # Reads on shared connections that were told of a server's death, which is allowed only where it strikes twice.
        self.unanswered = 0
        # Batches with reads on a connection that was lent to their client and died: all that was sent down it is told.
        self.lent_and_lost = set()
        self.cancelled = 0
        # Reads that met a plan that had grown stale: before the catalog has been read no read can be asked again.
        self.stale = 0
        # Named statements that were there when they should not have been, or the other way round.
        self.misnamed = 0
        # What was told of servers that were lost or not to be had.
        self.losses = Counter()
        self.dropped = Counter()
        # What became of each row, by client and number: whether it was told to be there, or not, or nothing (None).
        self.rows = {}
        # Rows that come together or not at all.
        self.together = []
        self.stopping = False
        # Asked when a client hangs.
        self.show = lambda _: None

    async def look(self, client):
        """Prints what the pooler shows while a client hangs."""
        name = client.link.transport.get_extra_info("sockname")
        print("hangs:", client.number, name)
        if self.show:
            show, self.show = self.show, None
            await asyncio.to_thread(show, name)

    async def run(self, count, seconds, *others):
        """Lets so many clients live for so long, beside other tasks, which are cancelled in the end."""
        tasks = [asyncio.create_task(Client(self, number).live()) for number in range(count)]
        beside = [asyncio.create_task(other) for other in others]
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline and len(self.wrong) < 20:
            await asyncio.sleep(0.2)
            for task in beside:
                if task.done():
                    task.result()
        self.stopping = True
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        _, hanging = await asyncio.wait(tasks, timeout=PATIENCE + 10)
        if hanging:
            self.wrong.append(f"{len(hanging)} clients hang")
        for task in hanging:
            task.cancel()
        for task in tasks:
            if task not in hanging:
                task.result()

    def account(self, server):
        """Holds what the clients were told about their rows against the rows that there are."""
        text = server.psql("SELECT client, n, count(*), min(tag) FROM ledger GROUP BY 1, 2", self.database)
        found = {}
        for line in text.splitlines():
            client, n, count, tag = line.split("|")
            found[int(client), int(n)] = int(count)
            if tag != f"{client}-{n}":
                self.wrong.append(f"row {client}-{n} holds {tag}")
        for row in found.keys() - self.rows.keys():
            self.wrong.append(f"nobody wrote {row}")
        for row, told in self.rows.items():
            count = found.get(row, 0)
            allowed = {True: [1], False: [0], None: [0, 1]}[told]
            if count not in allowed:
                self.wrong.append(f"row {row}: {count} times, its client was told {told}")
        for rows in self.together:
            if len({found.get(row, 0) for row in rows}) > 1:
                self.wrong.append(f"rows {rows} are of one transaction, and only some are there")


class Client:
    """One client: its connection, its model and its dice."""

    def __init__(self, crowd, number):
        self.crowd = crowd
        self.number = number
        self.dice = random.Random(f"{crowd.seed}/{number}")
        self.n = 0
        self.link = None
        self.key = None
        # A few cancel; the others must never see a cancel.
        self.cancels = number % 6 == 0
        # A few have a session of their own; the others must see the defaults.
        self.sets = number % 4 == 1
        # The names that its statements have, as soon as it has sent them, and those that have been answered.
        self.planned = {}
        self.prepared = set()
        self.settings = dict(crowd.defaults)
        self.status = self.at = b"I"
        # What it has set until its transaction ends.
        self.local = {}
        self.saved = None
        self.pending = []
        self.batches = 0
        self.commits = False
        self.open_end = False
        # What it has done to its session of late, for messages.
        self.trail = deque(maxlen=8)

    # Its life

    async def live(self):
        """Sends batches until the crowd stops."""
        while not self.crowd.stopping:
            if not await self._connect():
                await asyncio.sleep(0.05)
                continue
            try:
                while not self.crowd.stopping and not self.link.closed:
                    await self._batch()
                    if self.dice.random() < 0.002:
                        self.link.transport.close()
                        break
                    await asyncio.sleep(self.dice.choice([0, 0, 0, 0.002, 0.02]))
            except TimeoutError:
                self.crowd.wrong.append(f"client {self.number}: no end to a cancel request in {PATIENCE} s")
            except Wrong as wrong:
                self.crowd.wrong.append(f"client {self.number}: {wrong}")
            finally:
                self.link.transport.close()
                self._ended()

    async def _connect(self):
        loop = asyncio.get_running_loop()
        try:
            _, self.link = await loop.create_connection(Link, "127.0.0.1", self.crowd.port)
        except OSError:
            return False
        given = {"user": SUPERUSER, "database": self.crowd.database}
        body = struct.pack("!HH", 3, 0) + b"".join(p.encode() + b"\0" for pair in given.items() for p in pair) + b"\0"
        self.link.transport.write(struct.pack("!i", len(body) + 4) + body)
        greeting = await self.link.answer()
        if greeting is None:
            self.crowd.dropped["at login"] += 1
            return False
        self.key = next(body for kind, body in greeting if kind == b"K")
        self.planned, self.prepared = {}, set()
        self.settings = dict(self.crowd.defaults)
        self.local = {}
        return True

    def _ended(self):
        """Its connection is no more: a transaction that was open has not been done, unless it was being committed."""
        if self.pending:
            self._resolve(None if self.commits else False)
        self.status, self.saved, self.commits = b"I", None, False

    def _resolve(self, told):
        for row in self.pending:
            self.crowd.rows[row] = told
        self.crowd.together.append(self.pending)
        self.pending = []

    async def _batch(self):
        units = []
        for _ in range(self.dice.choice([1, 1, 1, 2, 3, 6])):
            units += self._some()
            if self.open_end:
                break
        self.open_end = False
        lent = not self.crowd.pipelining
        for unit in units:
            # What comes behind a unit that is lent a connection may go down the same.
            lent |= unit.flush or not unit.statement.read
            unit.flush = lent
            if unit.statement.row:
                self.crowd.rows[unit.statement.row] = None
        self.commits = any(unit.statement.kind == "commit" for unit in units)
        self.batches += 1
        cancel = None
        if self.cancels and self.dice.random() < 0.3:
            for unit in units:
                unit.cancelled = True
            cancel = asyncio.create_task(self._cancel(self.dice.choice([0, 0.001, 0.01, 0.05])))
        try:
            await self._send(b"".join(unit.parts for unit in units))
            leaves = self.dice.random() < 0.002
            for unit in units:
                if leaves and self.dice.random() < 0.5:
                    self.link.transport.abort()
                    return
                try:
                    messages = await self.link.answer()
                except TimeoutError:
                    await self.crowd.look(self)
                    seen = [(kind, body[:60]) for kind, body in self.link.current]
                    raise Wrong(f"no answer to {unit.kind} {unit.parts[:60]} in {self.status}, {seen}") from None
                if messages is None:
                    return self._dropped(unit)
                try:
                    self._check(unit, messages)
                except Wrong as wrong:
                    seen = [(kind, body[:100]) for kind, body in messages[:12] if kind != b"T"]
                    raise Wrong(f"{wrong}; {unit.kind} {unit.parts[:60]} was answered {seen}") from None
                except Exception as error:
                    raise Wrong(f"{error!r} at {unit.kind}: {messages[:12]}") from error
        finally:
            if cancel is not None:
                await cancel
        if self.status != b"I":
            self.link.transport.write(query("ROLLBACK"))
            if await self.link.answer() is None:
                self.crowd.dropped["in a transaction"] += 1
            elif self.pending:
                self._resolve(False)
            self.settings = self.saved if self.saved is not None else self.settings
            self.status, self.saved, self.local = b"I", None, {}

    def _dropped(self, unit):
        """The pooler has closed the connection: it may where a transaction was open, or within a row."""
        told = [code(body) for kind, body in self.link.current if kind == b"E"]
        if self.status != b"I" or (unit.statement.kind == "begin"):
            self.crowd.dropped["in a transaction"] += 1
        elif unit.statement.big:
            self.crowd.dropped["within a big row"] += 1
        else:
            raise Wrong(f"dropped at {unit.kind} {unit.parts[:200]}, told {told}: {self.link.current[-1:]}")

    async def _send(self, data):
        transport = self.link.transport
        if self.dice.random() < 0.05:
            # Slow to read.
            transport.pause_reading()
            asyncio.get_running_loop().call_later(
                0.2, lambda: None if transport.is_closing() else transport.resume_reading()
            )
        if self.dice.random() < 0.1:
            for _ in range(3):
                at = self.dice.randrange(len(data) + 1)
                transport.write(data[:at])
                data = data[at:]
                await asyncio.sleep(0.001)
        transport.write(data)

    async def _cancel(self, after):
        await asyncio.sleep(after)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.crowd.port)
            writer.write(struct.pack("!ii", 12 + len(self.key) - 4, 80877102) + self.key)
            await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
        except OSError:
            pass

    # What it asks

    def _tag(self):
        self.n += 1
        return f"{self.number}-{self.n}"

    def _some(self):
        """One or more units that belong together."""
        roll = self.dice.random()
        if roll < 0.80:
            return self._formed(self._read())
        if roll < 0.85:
            return self._formed(self._write()) + self._formed(self._look())
        if roll < 0.88:
            return self._transaction()
        if roll < 0.94 and self.sets:
            return self._formed(self._set()) + self._formed(self._state())
        return self._formed(self._state())

    def _state(self):
        tag = self._tag()
        return Statement("state", f"SELECT $1::text, {SHOWN}", tag, rows=lambda client: [[tag, *client.seen()]])

    def seen(self):
        """What its statements must see of its session."""
        isolation = "repeatable read" if self.at == b"T" else "read committed"
        return [self.local.get(name, self.settings[name]) for name in WATCHED[:-1]] + [isolation]

    def _read(self):
        tag = self._tag()
        kind = self.dice.choice(
            ["fact"] * 8 + ["row"] * 6 + ["series"] * 2 + ["cast", "zero", "late", "boom", "note", "note", "nowhere"]
            + ["shifting"] * 2 + (["big", "long"] if self.dice.random() < 0.3 else [])
            + (["nap"] if self.dice.random() < 0.5 else []) + (["sleep", "copy"] if self.dice.random() < 0.2 else [])
        )  # fmt: skip
        if kind == "fact":
            number = str(self.dice.randint(1, 100))
            sql = "SELECT $1::text, v FROM facts WHERE id = $2::int"
            return Statement(kind, sql, tag, number, rows=lambda _: [[tag, f"fact {number}"]])
        if kind == "row":
            return Statement(kind, "SELECT $1::text", tag, rows=lambda _: [[tag]])
        if kind == "series":
            sql = "SELECT $1::text || ' ' || g FROM generate_series(1, 50) g"
            return Statement(kind, sql, tag, rows=lambda _: [[f"{tag} {g}"] for g in range(1, 51)])
        if kind == "cast":
            return Statement(kind, "SELECT $1::text::int", tag, error="22P02", text=f'"{tag}"')
        if kind == "zero":
            return Statement(kind, "SELECT $1::text, 1 / (length($1::text) - length($1::text))", tag, error="22012")
        if kind == "late":
            sql = "SELECT $1::text || ' ' || g, 12 / (5 - g) FROM generate_series(1, 9) g"
            rows = [[f"{tag} {g}", str(12 // (5 - g))] for g in range(1, 5)]
            return Statement(kind, sql, tag, rows=lambda _: rows, error="22012")
        if kind == "boom":
            return Statement(kind, "SELECT boom($1::text)", tag, error="P0001", text=f"boom {tag}\0")
        if kind == "note":
            notices = [f"one {tag}", f"two {tag}"]
            return Statement(kind, "SELECT note($1::text)", tag, rows=lambda _: [[tag]], notices=notices)
        if kind == "nowhere":
            # The same text for all clients, so that they share what cannot be prepared.
            return Statement(kind, "SELECT $1::text, nowhere FROM facts", tag, error="42703")
        if kind == "shifting":
            # Another changes what its rows are.
            sql = "SELECT $1::text, * FROM shifting"
            return Statement(kind, sql, tag, rows=lambda _: [[tag, "1", "b", ANYTHING]])
        if kind == "big":
            sql = f"SELECT $1::text || repeat('x', {BIG})"
            return Statement(kind, sql, tag, rows=lambda _: [[tag + "x" * BIG]], big=True)
        if kind == "long":
            sql = "SELECT $1::text || repeat('y', 1000) FROM generate_series(1, 200)"
            return Statement(kind, sql, tag, rows=lambda _: [[tag + "y" * 1000]] * 200, big=True)
        if kind == "nap":
            seconds = str(self.dice.choice([0.001, 0.005, 0.02, 0.1, 0.4]))
            return Statement(kind, "SELECT nap($1::text, $2::float)", tag, seconds, rows=lambda _: [[tag]])
        if kind == "sleep":
            return Statement(kind, "SELECT $1::text FROM pg_sleep(0.03)", tag, rows=lambda _: [[tag]])
        return Statement("copy", f"COPY (SELECT '{tag}') TO STDOUT", rows=lambda _: [[tag]], columns=False, read=False)

    def _write(self):
        tag = self._tag()
        sql = "INSERT INTO ledger VALUES ($1::int, $2::int, $3::text)"
        row = (self.number, self.n)
        if self.dice.random() < 0.05:
            # Fails after it has written.
            sql += " RETURNING 1 / (client - client)"
            return Statement("bad write", sql, *map(str, row), tag, error="22012", read=False, row=row)
        params = (*map(str, row), tag)
        return Statement("write", sql, *params, columns=False, read=False, row=row, command="INSERT 0 1")

    def _look(self):
        """Whether the row before is there, which its client knows when it is answered."""
        row, tag = (self.number, self.n), self._tag()
        sql = "SELECT $1::text, count(*) FROM ledger WHERE client = $2::int AND n = $3::int"
        return Statement("look", sql, tag, *map(str, row), rows=lambda client: client.looked(tag, row))

    def looked(self, tag, row):
        """What a look at a row may find: one of these."""
        told = True if row in self.pending else self.crowd.rows[row]
        counts = {True: "1", False: "0"}
        return [[tag, counts[told]]] if told is not None else [[tag, {"0", "1"}]]

    def _set(self):
        name = self.dice.choice(WATCHED[:-1])
        value = self.dice.choice(CHOICES.get(name) or [f"of {self.number}", self._tag()])
        roll = self.dice.random()
        if roll < 0.2:
            change = {name: self.crowd.defaults[name]}
            sql, command = f"RESET {name}", "RESET"
        elif roll < 0.3:
            # Lasts until the transaction ends.
            sql = f"SELECT set_config('{name}', '{value}', true)"
            done = lambda client: client.local.update({name: value})  # noqa: E731
            return Statement("set_config", sql, rows=lambda _: [[value]], read=False, done=done)
        else:
            change = {name: value}
            sql, command = f"SET {name} = '{value}'", "SET"

        def done(client):
            client.settings.update(change)
            client.local.pop(name, None)

        return Statement("set", sql, columns=False, read=False, command=command, done=done)

    def _transaction(self):
        sql = "BEGIN ISOLATION LEVEL REPEATABLE READ"
        units = self._formed(Statement("begin", sql, columns=False, read=False, command="BEGIN"))
        for _ in range(self.dice.randint(1, 3)):
            units += self._formed(self._write())
            units += self._formed(self.dice.choice([self._look, self._read, self._state])())
            if self.sets and self.dice.random() < 0.3:
                units += self._formed(self._set())
        roll = self.dice.random()
        if roll < 0.1:
            # Ends with the batch, by a ROLLBACK.
            self.open_end = True
            return units
        word = "COMMIT" if roll < 0.8 else "ROLLBACK"
        return units + self._formed(Statement(word.lower(), word, columns=False, read=False))

    def _formed(self, statement):
        """A statement as one or two units, in some form."""
        form = self.dice.choice(
            ["simple", "simple", "unnamed", "described", "named", "named", "named", "split", "flush"]
        )
        if statement.kind == "copy" or (form == "split" and self.cancels):
            # A Parse that is cancelled may leave the statement before it, and what follows meets that.
            form = "simple"
        row = "T" if statement.columns else "n"
        sql, params = statement.sql, statement.params
        if form == "simple":
            kinds = {"copy": "HcCZ"}.get(statement.kind, "TCZ" if statement.columns else "CZ")
            return [Unit(statement, query(statement.plain()), kinds)]
        if form == "unnamed":
            return [Unit(statement, parse("", sql) + bind_with("", *params) + EXECUTE + SYNC, "12CZ", prepares="")]
        if form == "described":
            parts = parse("", sql) + bind_with("", *params) + DESCRIBE_PORTAL + EXECUTE + SYNC
            return [Unit(statement, parts, f"12{row}CZ", prepares="")]
        if form == "flush":
            parts = parse("", sql) + FLUSH + bind_with("", *params) + EXECUTE + SYNC
            return [Unit(statement, parts, "12CZ", prepares="", flush=True)]
        if form == "split":
            return [
                Unit(statement, parse("", sql) + SYNC, "1Z", prepares="", runs=False),
                Unit(statement, bind_with("", *params) + EXECUTE + SYNC, "2CZ", needs=""),
            ]
        # Clients number their names alike, for statements that differ.
        name = self.planned.get(sql)
        if name is None and len(self.planned) < NAMES:
            name = self.planned[sql] = next(
                n for n in map("s{}".format, range(NAMES)) if n not in self.planned.values()
            )
            if self.dice.random() < 0.5:
                return [
                    Unit(statement, parse(name, sql) + bind_with(name, *params) + EXECUTE + SYNC, "12CZ", prepares=name)
                ]
            return [
                Unit(statement, parse(name, sql) + describe(name) + SYNC, f"1t{row}Z", prepares=name, runs=False),
                Unit(statement, bind_with(name, *params) + EXECUTE + SYNC, "2CZ", needs=name),
            ]
        name = name or ""
        first, needs = (b"", name) if name else (parse("", sql), None)
        prepares = None if name else ""
        if self.dice.random() < 0.5:
            parts = first + bind_with(name, *params) + DESCRIBE_PORTAL + EXECUTE + SYNC
            return [Unit(statement, parts, f"{'' if name else '1'}2{row}CZ", needs, prepares)]
        if self.dice.random() < 0.1:
            # Twice in one unit.
            twice = bind_with(name, *params) + EXECUTE
            if (
                statement.columns
                and not statement.row
                and not statement.error
                and not statement.notices
                and not statement.done
            ):
                return [Unit(statement, first + twice + twice + SYNC, f"{'' if name else '1'}2C2CZ", needs, prepares)]
        parts = first + bind_with(name, *params) + EXECUTE + SYNC
        return [Unit(statement, parts, f"{'' if name else '1'}2CZ", needs, prepares)]

    # What it is answered

    def _check(self, unit, messages):
        """Holds an answer against the model, and brings that up to date."""
        crowd, statement, before = self.crowd, unit.statement, self.status
        crowd.units += 1
        crowd.kinds[statement.kind] += 1
        kinds = b"".join(kind for kind, _ in messages if kind not in b"DdNS").decode()
        errors = [body for kind, body in messages if kind == b"E"]
        self.status = messages[-1][1]
        if unit.prepares is not None:
            if "1" in kinds:
                self.prepared.add(unit.prepares)
            else:
                self.prepared.discard(unit.prepares)
                if unit.prepares:
                    self.planned.pop(statement.sql, None)
        if unit.parts[:1] == b"Q":
            self.prepared.discard("")
        command = [body.rstrip(b"\0").decode() for kind, body in messages if kind == b"C"]
        told = code(errors[0]) if errors else None
        crowd.told[told] += 1
        if len(errors) > 1:
            raise Wrong("two errors")
        if errors:
            if not unit.kinds.startswith(kinds.split("E")[0]) or not kinds.endswith("EZ"):
                raise Wrong(f"not the messages {unit.kinds} up to an error")
        elif kinds != unit.kinds:
            raise Wrong(f"not the messages {unit.kinds}")
        self._check_notices(statement, messages, errors, before)
        if errors:
            self._check_error(unit, before, told, errors[0])
        elif unit.runs:
            if statement.error:
                raise Wrong(f"no error {statement.error}")
            if before == b"E" and statement.kind not in ("commit", "rollback"):
                raise Wrong("done in a transaction that has failed")
            if unit.needs and unit.needs not in self.prepared:
                self.crowd.misnamed += 1
            if statement.command and command != [statement.command] * unit.kinds.count("C"):
                raise Wrong(f"not {statement.command}")
        self._check_rows(unit, messages, errors, before)
        self._follow(unit, before, told, command)

    def _check_notices(self, statement, messages, errors, before):
        told = {code(body) for body in errors}
        notices = [
            field[1:].decode()
            for kind, body in messages
            if kind == b"N"
            for field in body.split(b"\0")
            if field[:1] == b"M"
        ]
        # A server that goes down says so on every connection, after an error of the unit's own too.
        notices = [notice for notice in notices if notice != DYING]
        if told & LOST and not notices:
            return
        if before == b"I" and statement.kind in ("commit", "rollback"):
            # Its BEGIN has failed.
            return
        if not errors and notices != statement.notices and "C" in [kind.decode() for kind, _ in messages]:
            raise Wrong(f"not the notices {statement.notices}")
        if notices and notices != statement.notices[: len(notices)]:
            raise Wrong(f"notices of another: {notices}")

    def _check_error(self, unit, before, told, body):
        statement, text = unit.statement, body.decode(errors="replace")
        if told == CANCELED:
            if not unit.cancelled:
                raise Wrong("cancelled, but not by its client")
            self.crowd.cancelled += 1
        elif told in LOST:
            begun = "server connection lost" in text
            self.crowd.losses[text.split("\0M")[-1].split("\0")[0].split(":")[0]] += 1
            if begun and statement.read and before == b"I" and not unit.flush and not statement.big:
                if "the outcome of the statement is unknown" in text:
                    self.crowd.lent_and_lost.add((self.number, self.batches))
                else:
                    self.crowd.unanswered += 1
        elif before == b"E":
            lacks = bool(unit.needs) and unit.needs not in self.prepared
            if told != ("26000" if lacks else IN_FAILED_TRANSACTION) and unit.needs != "":
                raise Wrong("not the error of a transaction that has failed")
        elif told == "26000":
            if unit.needs is None:
                raise Wrong("nothing that was prepared is needed")
            if unit.needs in self.prepared:
                self.crowd.misnamed += 1
        elif told == "0A000" and statement.kind == "shifting":
            if before == b"I" and not unit.flush:
                self.crowd.stale += 1
        elif told != statement.error or statement.text not in text:
            raise Wrong(f"another error: {text!r}")

    def _check_rows(self, unit, messages, errors, before):
        statement = unit.statement
        rows = [
            [body.decode().rstrip("\n")] if kind == b"d" else values([(kind, body)])
            for kind, body in messages
            if kind in b"Dd"
        ]
        if not unit.runs:
            expected = []
        elif statement.kind == "set_config" and not errors:
            expected = rows
        else:
            self.at = before
            expected = statement.rows(self) if statement.command is None else []
            expected = expected * (2 if unit.kinds.count("C") == 2 and unit.kinds.count("2") == 2 else 1)
        if errors and rows != expected:
            expected = expected[: len(rows)]
        if len(rows) != len(expected) or not all(fits(row, want) for row, want in zip(rows, expected, strict=True)):
            raise Wrong(f"not its rows: {str(rows)[:300]}, but {str(expected)[:300]}; its session: {list(self.trail)}")

    def _follow(self, unit, before, told, command):
        """What the unit has done to the session and to the rows."""
        statement = unit.statement
        if statement.row and unit.runs:
            if told is None and self.status == b"T":
                self.pending.append(statement.row)
                self.crowd.rows[statement.row] = False
            else:
                self.crowd.rows[statement.row] = True if told is None else None if told in LOST else False
        if unit.runs and statement.kind in ("set", "set_config", "begin", "commit", "rollback"):
            self.trail.append((statement.plain(), unit.kinds, told, self.status))
        if told is None and unit.runs and statement.done:
            statement.done(self)
        if self.status == b"I":
            self.local = {}
        if before == b"I" and self.status != b"I":
            self.saved = dict(self.settings)
        if before != b"I" and self.status == b"I":
            committed = command == ["COMMIT"]
            if not committed and self.saved is not None:
                self.settings = self.saved
            self.saved = None
            self._resolve(True if committed else None if statement.kind == "commit" and told in LOST else False)


def fits(row, want):
    """Whether a row is as the model wants it: a set stands for any of its members."""
    if want and want[-1] == ANYTHING:
        return row[: len(want) - 1] == want[:-1]
    return len(row) == len(want) and all(
        v in w if isinstance(w, set) else v == w for v, w in zip(row, want, strict=True)
    )
