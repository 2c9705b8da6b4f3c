"""Random messages of several clients, sent to PostgreSQL and through the pooler: both must answer the same.

    python -m tests.pooler.compare --rounds 2000 --seed 1 [--pg 18] [--pool 1] [--no-pipelining] [--threshold 0]

In each round every client has a sequence of messages, drawn by the seed: Queries, whole and broken units of the extended
protocol, several units that fail, COPYs with refused lines and Syncs anywhere. A client of PostgreSQL gets each sequence
at once, by itself. The pooler's clients share its few connections, and their messages come mixed, in pieces or all before
the pooler has read any. A difference is printed with the round, which `--only ROUND` repeats. Tables are a client's own,
so that what a client is told depends on that client alone.
"""

import argparse
import contextlib
import random
import select
import struct
import sys
import time
from dataclasses import dataclass, field
from itertools import zip_longest

from devkit import postgres
from devkit.server import Server
from tests.pooler import raw
from tests.pooler.process import Pooler
from tests.pooler.raw import FLUSH, SYNC, Raw, bind, describe, execute, message, parse, query

CLIENTS = 3
SECONDS = 6
SETUP = """
CREATE SCHEMA a; CREATE SCHEMA b;
CREATE TABLE a.v AS SELECT 'in a'::text AS x; CREATE TABLE b.v AS SELECT 'in b'::text AS x, 2 AS y;
CREATE TABLE public.v AS SELECT 'in public'::text AS x;
CREATE FUNCTION public.setv(text) RETURNS text LANGUAGE sql VOLATILE AS 'SELECT set_config(''my.a'', $1, true)';
""" + "".join(
    f"""CREATE TABLE public.t{client} (a int UNIQUE);
    CREATE TABLE public.d{client} (a int CONSTRAINT d{client}_a UNIQUE DEFERRABLE INITIALLY DEFERRED);"""
    for client in range(CLIENTS)
)
TABLES = ", ".join(f"public.{kind}{client}" for kind in "td" for client in range(CLIENTS))

COPIES = [
    "COPY public.t{c} FROM STDIN", "COPY public.t{c} FROM STDIN", "COPY public.d{c} FROM STDIN", "COPY nowhere FROM STDIN",
    "COPY public.t{c} TO STDOUT",
]  # fmt: skip
# The statements of units, by kind, with how often one of the kind is drawn.
KINDS = {
    "copies": (4, COPIES),
    "transactions": (4, [
        "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "COMMIT AND CHAIN",
    ]),
    "settings": (3, [
        "SET my.a = 'c{c}{n}'", "SET LOCAL my.a = 'l{c}'", "RESET my.a", "SET DateStyle = 'SQL, MDY'",
        "SET LOCAL DateStyle = 'ISO, YMD'", "RESET DateStyle", "SET search_path = a, public",
        "SET LOCAL search_path = b, public", "RESET search_path", "SET standard_conforming_strings = off",
        "RESET standard_conforming_strings", "SET TimeZone = 'Asia/Tokyo'", "RESET TimeZone", "SELECT public.setv('f{c}')",
    ]),
    "names": (1, ["DEALLOCATE ALL", "DISCARD ALL"]),
    "roles": (1, ["SET ROLE pg_monitor", "SET LOCAL ROLE pg_monitor", "RESET ROLE", "SELECT current_user"]),
    "reads": (6, [
        "SELECT 'c{c}{n}'", "SELECT coalesce(current_setting('my.a', true), '')", "SELECT '02/03/2024'::date::text",
        "SELECT x FROM v", "SELECT count(*) FROM public.t{c}", "SELECT 1/0", "", "SELEC", "SELECT generate_series(1, 3)",
        "SHOW search_path",
    ]),
    "writes": (3, [
        "INSERT INTO public.t{c} VALUES ({n})", "INSERT INTO public.d{c} VALUES (1)", "DELETE FROM public.t{c}",
        "DELETE FROM public.d{c}", "DECLARE k CURSOR FOR SELECT generate_series(1, 5)", "FETCH 2 FROM k", "CLOSE k",
    ]),
}  # fmt: skip
SEVERAL = [
    "SELECT 1; COPY public.t{c} FROM STDIN; SELECT 2",
    "COPY public.t{c} FROM STDIN; COPY public.d{c} FROM STDIN",
    "COPY public.t{c} FROM STDIN; COMMIT; SELECT 3",
    "SET my.a = 'm{c}'; SELECT 4",
    "SELECT 1; SELECT 1/0; SELECT 2",
    "BEGIN; SET LOCAL my.a = 'k'; COMMIT",
]
LINES = [b"%d\n", b"%d\n", b"bad\n", b"7\n8\n", b"9", b"\n", b"", b"\\.\n"]
NOWHERE = ("D portal nowhere", message(b"D", b"Pnowhere\0"))
# length(text) of a null.
CALL = ("F length", message(b"F", struct.pack("!IHHiH", 1317, 0, 1, -1, 0)))
S, H, END = ("S", SYNC), ("H", FLUSH), ("c", message(b"c"))
# What a client of the pooler must know as one of PostgreSQL does.
REPORTED = ("DateStyle", "TimeZone", "standard_conforming_strings", "client_encoding")


class Speaker:
    """What one client says in one round: pairs of a message's name and its bytes."""

    def __init__(self, dice, client):
        self.dice = dice
        self.client = client
        self.mark = f"mark {client} {dice.randrange(10**9)}"

    def said(self):
        """Some parts, and then what ends whatever they have left open, and a row that shows the end."""
        parts = [part for _ in range(self.dice.choice([1, 2, 3, 5, 8, 12])) for part in self._part()]
        ends = [("f", message(b"f", b"end\0")), S, self._query("ROLLBACK"), self._query(f"SELECT '{self.mark}'")]
        return parts + ends

    def _part(self):
        makers = {
            self._one_query: 8, self._unit: 6, self._piece: 10, self._failing: 8, self._copy: 5, self._portal: 2,
            self._block: 3, self._again: 5,
        }  # fmt: skip
        return self.dice.choices(list(makers), list(makers.values()))[0]()

    def _text(self, several=True):
        weights = {kind: weight for kind, (weight, _) in KINDS.items()}
        if several and self.dice.random() < 0.1:
            return self._filled(self.dice.choice(SEVERAL))
        kind = self.dice.choices(list(weights), list(weights.values()))[0]
        return self._filled(self.dice.choice(KINDS[kind][1]))

    def _filled(self, text):
        return text.replace("{c}", str(self.client)).replace("{n}", str(self.dice.randrange(50)))

    def _query(self, text):
        return (f"Q {text}", query(text))

    def _name(self):
        return self.dice.choice(["", "", "s1", "s2"])

    def _parse(self, name):
        text = self._text(several=False)
        return (f"P {name!r} {text}", parse(name, text))

    def _bind(self, name, portal=""):
        return (f"B {name!r} -> {portal!r}", bind(name, portal))

    def _execute(self, portal=""):
        rows = self.dice.choice([0, 0, 1])
        return (f"E {portal!r} {rows}", execute(rows, portal))

    def _line(self):
        line = self.dice.choice(LINES).replace(b"%d", b"%d" % self.dice.randrange(100))
        return (f"d {line!r}", message(b"d", line))

    def _one_query(self):
        return [self._query(self._text())]

    def _unit(self):
        """Parse to Execute, and mostly a Sync."""
        name = self._name()
        described = [(f"D {name!r}", describe(name))] if self.dice.random() < 0.2 else []
        end = [S] if self.dice.random() < 0.7 else []
        return [self._parse(name), *described, self._bind(name), self._execute(), *end]

    def _again(self):
        return [self._bind(self._name()), self._execute(), S]

    def _piece(self):
        """One message that may stand anywhere."""
        name = self._name()
        named = [self._parse(name), self._bind(name), (f"D {name!r}", describe(name)), (f"C {name!r}", raw.close(name))]
        return [
            self.dice.choice([*named, S, S, H, END, self._line(), self._execute(), NOWHERE, CALL, self._of_portal()])
        ]

    def _of_portal(self):
        """A message about a portal that there may be."""
        portal = self.dice.choice(["", "p"])
        name = portal.encode() + b"\0"
        closed = (f"C portal {portal!r}", message(b"C", b"P" + name))
        described = (f"D portal {portal!r}", message(b"D", b"P" + name))
        return self.dice.choice([closed, described, self._execute(portal)])

    def _failing(self):
        """Units whose first message fails, so that the server skips the rest, and then the statement that is left."""
        parts = self.dice.choice([[], [self._read(), S], [self._read(), S]])
        for _ in range(self.dice.choice([1, 1, 2, 3])):
            skipped = self.dice.choice(
                [[self._read()], [self._read()], [("C ''", raw.close(""))], self._one_query(), self._unit()]
            )
            fails = self.dice.choice([[NOWHERE], [NOWHERE], [("P '' SELEC", parse("", "SELEC"))], [self._bind("s3")]])
            parts += [*fails, *skipped, S]
        return [*parts, self._bind(""), self._execute(), S]

    def _read(self):
        text = self._filled(self.dice.choice(["SELECT 'c{c}{n}'", "SELECT '{n}'::int", "SELECT {n} / 0"]))
        return (f"P '' {text}", parse("", text))

    def _portal(self):
        """Units that bind portals of one name, and what is done with these there and behind a Sync."""
        parts = [self._query("BEGIN")] if self.dice.random() < 0.3 else []
        for _ in range(self.dice.choice([1, 2])):
            parts += [self._parse(""), self._bind("", "p"), self._execute("p")]
            for _ in range(self.dice.choice([0, 0, 1, 3])):
                parts.append(self.dice.choice([H, S, self._of_portal(), self._of_portal()]))
            parts.append(S)
        return parts

    def _block(self):
        """A block that may fail, with Parses of a text that the server has, and that may end behind an Execute."""
        known = [(f"P {name!r} SELECT 'known'", parse(name, "SELECT 'known'")) for name in ("s1", "s2")]
        closed = [(f"C {name!r}", raw.close(name)) for name in ("s1", "s2")]
        pieces = [
            [S],
            [S],
            [self._query(self.dice.choice(["SELECT 1/0", "ROLLBACK", "COMMIT", "BEGIN", "SELECT 2"]))],
            [closed[0], known[0]],
            [closed[1], known[1], self._bind("s2"), self._execute()],
            [known[0]],
            self._run(self.dice.choice(["SELECT 1/0", "ROLLBACK", "COMMIT", "BEGIN", "SELECT 3", "COMMIT AND CHAIN"])),
            self._run(self._filled("INSERT INTO public.t{c} VALUES ({n})")),
        ]
        parts = [self._query("BEGIN")] if self.dice.random() < 0.7 else []
        for _ in range(self.dice.choice([2, 4, 8])):
            parts += self.dice.choice(pieces)
        return [*parts, S]

    def _run(self, text):
        return [(f"P '' {text}", parse("", text)), self._bind(""), self._execute()]

    def _copy(self):
        """A COPY with lines, some of which are refused."""
        copy = self._filled(self.dice.choice(COPIES))
        extended = self.dice.random() < 0.5
        begins = (
            [(f"P '' {copy}", parse("", copy)), self._bind(""), ("E ''", execute())]
            if extended
            else [self._query(copy)]
        )
        parts = begins + ([S] if self.dice.random() < 0.25 else [])
        parts += [self._line() for _ in range(self.dice.choice([0, 1, 1, 2, 3]))]
        parts += self.dice.choices([[END], [("f", message(b"f", b"no\0"))], []], [6, 1, 1])[0]
        return parts + ([S] if self.dice.random() < (0.8 if extended else 0.3) else [])


def has_sync_between_lines(parts):
    """Whether a Sync stands behind a line of a COPY and before the rest of it: such a Sync is counted otherwise (guide)."""
    has_line = has_sync = False
    for name, _ in parts:
        if name[0] in "dcf":
            if has_sync:
                return True
            has_line = name[0] == "d"
        elif name == "S":
            has_sync = has_line
        elif name[0] in "QE":
            has_line = has_sync = False
    return False


@dataclass
class Peer:
    """A client's connection to either, and the answers since the round began."""

    place: object
    database: str
    got: list = field(default_factory=list)

    def __post_init__(self):
        self.connect()

    def connect(self):
        """Opens a connection, in place of the one before."""
        self.raw = Raw(self.place, database=self.database)
        self.reported = dict(raw.parameters(self.raw.greeting))

    def send(self, data):
        """Sends bytes, unless the other side has closed."""
        with contextlib.suppress(OSError):
            self.raw.send(data)

    def has_ended(self, mark):
        """Reads what has come: whether the row of the mark has, or the end of the connection."""
        while True:
            while (found := self._next()) is not None:
                kind, body = found
                if kind == b"S":
                    name, value = body.split(b"\0")[:2]
                    self.reported[name.decode()] = value.decode()
                    continue
                self.got.append(raw.show([(kind, body)]))
                if kind == b"Z" and f"D:{mark}" in self.got[-3:]:
                    return True
            if not select.select([self.raw.socket], [], [], 0)[0]:
                return False
            try:
                more = self.raw.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                self.got.append("closed")
                return True
            self.raw.held += more

    def _next(self):
        held = self.raw.held
        length = struct.unpack("!i", held[1:5])[0] if len(held) >= 5 else 1 << 30
        if len(held) <= length:
            return None
        self.raw.held = held[1 + length :]
        return held[:1], held[5 : 1 + length]


def wait_for_all(peers, speakers):
    """Reads until all have got their marks; who has not in time has "HANG" at the end."""
    rest, end = dict(peers), time.monotonic() + SECONDS
    while rest and time.monotonic() < end:
        select.select([peer.raw.socket for peer in rest.values()], [], [], 0.2)
        rest = {client: peer for client, peer in rest.items() if not peer.has_ended(speakers[client].mark)}
    for peer in rest.values():
        peer.got.append("HANG")


def deliver(dice, pooler, peers, said):
    """Sends the messages of all clients, mixed."""
    how = dice.choice(["at once", "in pieces", "slowly", "before the pooler reads"])
    pieces = []
    for client, parts in said.items():
        datas = [data for _, data in parts]
        if how in ("at once", "before the pooler reads"):
            datas = [b"".join(datas)]
        pieces += [
            (place, client, data) for place, data in zip(sorted(dice.random() for _ in datas), datas, strict=True)
        ]
    with pooler.frozen() if how == "before the pooler reads" else contextlib.nullcontext():
        for _, client, data in sorted(pieces, key=lambda piece: piece[0]):
            if dice.random() < {"slowly": 0.5, "in pieces": 0.1}.get(how, 0):
                time.sleep(0.002)
            peers[client].send(data)
    return how


def difference(direct, pooled, parts):
    """How the answers differ beyond what the guide says; None if they do not."""
    if pooled.got[-1:] == ["HANG"]:
        return "the pooler's client waits"
    if direct.got[-1:] == ["closed"] or "closed" in pooled.got or has_sync_between_lines(parts):
        # PostgreSQL closes at a message that is no part of a COPY; the pooler ends the COPY.
        return None
    for at, (one, other) in enumerate(zip_longest(direct.got, pooled.got)):
        if one != other:
            # A Parse of the pooler's own is refused in a transaction that has failed.
            if one is not None and other == "E:25P02":
                return None
            return f"behind {direct.got[:at][-5:]}\n    PostgreSQL {direct.got[at : at + 10]}\n    pooler     {pooled.got[at : at + 10]}"
    told = [{name: peer.reported.get(name) for name in REPORTED} for peer in (direct, pooled)]
    return None if told[0] == told[1] else f"PostgreSQL reported {told[0]}, the pooler {told[1]}"


class Comparison:
    """The clients of both, round by round."""

    def __init__(self, server, pooler, seed):
        self.server, self.pooler, self.seed = server, pooler, seed
        place = f"{server.socket_folder}/.s.PGSQL.{server.port}"
        self.direct = {client: Peer(place, "d") for client in range(CLIENTS)}
        self.pooled = {client: Peer(pooler.port, "p") for client in range(CLIENTS)}
        self.pooled[0].raw.sql("SELECT 1")
        pooler.wait_for_catalog()

    def round(self, number):
        """One round; gives the number of differences."""
        dice = random.Random(f"{self.seed}/{number}")
        speakers = {client: Speaker(dice, client) for client in range(CLIENTS)}
        said = {client: speaker.said() for client, speaker in speakers.items()}
        for peer in (*self.direct.values(), *self.pooled.values()):
            peer.got = []
        for client, parts in said.items():
            self.direct[client].send(b"".join(data for _, data in parts))
        wait_for_all(self.direct, speakers)
        how = deliver(dice, self.pooler, self.pooled, said)
        wait_for_all(self.pooled, speakers)
        everything = [answer for peers in (self.direct, self.pooled) for peer in peers.values() for answer in peer.got]
        if any("XX000" in answer for answer in everything):
            # PostgreSQL 18 breaks a session by a Query within a unit; what else is told in the round depends on that.
            self.begin_anew()
            return 0
        found = {client: difference(self.direct[client], self.pooled[client], said[client]) for client in said}
        differences = {client: what for client, what in found.items() if what}
        for client, what in differences.items():
            print(f"round {number}, client {client}, sent {how}: {what}")
            print("    sent:", " | ".join(name for name, _ in said[client]), flush=True)
        # What the guide allows to differ may leave the sessions different.
        if any(self.direct[client].got != self.pooled[client].got for client in said) or number % 100 == 99:
            self.begin_anew()
        return len(differences)

    def close(self):
        """Ends all connections."""
        for peer in (*self.direct.values(), *self.pooled.values()):
            peer.raw.socket.close()

    def begin_anew(self):
        """Fresh connections and empty tables."""
        self.close()
        for database in "dp":
            self.server.psql(f"SET lock_timeout = '10s'; TRUNCATE {TABLES}", database)
        for peer in (*self.direct.values(), *self.pooled.values()):
            peer.connect()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this round alone")
    parser.add_argument("--pg", type=int, default=postgres.NEWEST, help="the major version of PostgreSQL")
    parser.add_argument("--pool", type=int, default=1, help="the pooler's server connections")
    parser.add_argument("--no-pipelining", action="store_true")
    options = parser.parse_args()
    settings = {"default_pool_size": options.pool, "pipelining": not options.no_pipelining}
    rounds = range(options.rounds) if options.only is None else [options.only]
    with Server(postgres.tree(options.pg)) as server:
        for database in "dp":
            server.psql(f"CREATE DATABASE {database}")
            server.psql(SETUP, database)
        with Pooler(server, **settings) as pooler:
            comparison = Comparison(server, pooler, options.seed)
            differences = sum(comparison.round(number) for number in rounds)
    print(f"{len(rounds)} rounds of {CLIENTS} clients, {differences} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
