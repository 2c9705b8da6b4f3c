"""The floors of the driver's cases: a client in C that sends what was made beforehand and reads only headers.

`bench/floor.c` is compiled when it is needed. What it sends is made here, for each case, of the very statements that
the drivers are asked; results are asked for in binary.
"""

import datetime
import struct
import subprocess

from bench.driver_cases import (
    BIG,
    COPIED_IN,
    COPY_IN,
    COPY_OUT,
    QUERIES,
    WRITTEN,
    connections,
    expected,
    rows,
    tasks,
)
from bench.programs import compiled
from devkit import Problem
from devkit.places import BUILD

USER = "floor"
EPOCH = datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone.utc)


class Floor:
    """The floors, measured on one server."""

    def __init__(self, server, database):
        self.server, self.database = server, database
        self.folder = BUILD / "floor"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.program = compiled("floor", self.folder)
        # A user of its own without a password, on this private server only: what is measured is not the login.
        server.psql(f"CREATE USER {USER} SUPERUSER")
        access = server.data / "pg_hba.conf"
        access.write_text(f"host all {USER} 127.0.0.1/32 trust\n" + access.read_text())
        server.psql("SELECT pg_reload_conf()")

    def measure(self, case, seconds):
        """Rows a second and CPU microseconds a row of the floor of a case."""
        setup, request = made(case)
        files = []
        for name, segments in (("setup", setup), ("request", request)):
            path = self.folder / name
            path.write_bytes(b"".join(struct.pack("!I", len(segment)) + segment for segment in segments))
            files.append(str(path))
        count = 10 if case == "pool.fetchval" else connections(case)
        depth = tasks(case) // count
        command = [str(self.program), str(self.server.port), USER, self.database, str(count), str(depth), str(seconds)]
        done = subprocess.run([*command, *files], capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            raise Problem(f"the floor of {case}: {done.stderr.strip()[-300:]}")
        rate, cpu, _ = map(float, done.stdout.split())
        each = self.rows(case)
        return {"rate": rate * each, "cpu": cpu / each}

    def rows(self, case):
        """How many rows the case is."""
        if case in QUERIES and expected(case) is None:
            return int(self.server.psql(f"SELECT count(*) FROM ({QUERIES[case]}) q", self.database))
        return expected(case) or 1


def made(case):
    """What is sent once, and what again and again: segments with a ReadyForQuery each."""
    sync = message(b"S", b"")
    run = bind() + message(b"E", b"\0" + bytes(4))
    if case in QUERIES or case == "columns":
        return [parse(QUERIES.get(case, BIG)) + sync], [run + sync]
    if case == "transaction + fetchval":
        begin = message(b"P", b"\0BEGIN\0" + bytes(2)) + bind(b"") + message(b"E", b"\0" + bytes(4))
        return [parse("select 1") + sync], [begin + run + sync, message(b"Q", b"COMMIT\0")]
    if case == "executemany":
        many = b"".join(bind(values=encoded(row)) + message(b"E", b"\0" + bytes(4)) for row in rows(WRITTEN))
        return [parse("insert into bench_write values ($1, $2, $3, $4, $5)") + sync], [many + sync]
    if case == "copy out":
        return [], [message(b"Q", COPY_OUT.encode() + b"\0")]
    if case == "copy in":
        copied = b"PGCOPY\n\xff\r\n\0" + bytes(8)
        copied += b"".join(counted(encoded(row)) for row in rows(COPIED_IN)) + b"\xff\xff"
        pieces = [copied[start : start + 65536] for start in range(0, len(copied), 65536)]
        query = message(b"Q", f"{COPY_IN} (format binary)".encode() + b"\0")
        return [], [query + b"".join(message(b"d", piece) for piece in pieces) + message(b"c", b"")]
    return [parse("select 1") + sync], [run + sync]


def message(tag, body):
    """One message."""
    return tag + struct.pack("!I", len(body) + 4) + body


def parse(query):
    """Parse of the statement that is bound later."""
    return message(b"P", b"floor\0" + query.encode() + b"\0" + bytes(2))


def bind(name=b"floor", values=()):
    """Bind of it: all in binary."""
    return message(b"B", b"\0" + name + b"\0" + b"\0\1\0\1" + counted(values) + b"\0\1\0\1")


def counted(values):
    """Values with their number and their lengths."""
    parts = [struct.pack("!H", len(values))]
    for value in values:
        parts += [struct.pack("!I", len(value)), value]
    return b"".join(parts)


def encoded(row):
    """A row of `bench_write` in PostgreSQL's binary form."""
    whole, large, real, text, moment = row
    since = moment - EPOCH
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return [
        struct.pack("!i", whole),
        struct.pack("!q", large),
        struct.pack("!d", real),
        text.encode(),
        struct.pack("!q", micros),
    ]
