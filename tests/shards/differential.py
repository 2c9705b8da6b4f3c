"""Random statements through the pooler before a hub and three shards, and on one plain database: the same answers, or a refusal.

    python -m tests.shards.differential --rounds 2000 --seed 1 [--pg 15]

A round is a few statements as people and ORMs write them, in one transaction or each by itself. Each is sent to the pooler
first; what is refused there (0A000) is left out on the plain database. Rows count as multisets unless ORDER BY fixes their
order, and the tags of commands and the SQLSTATEs of errors count as well. From time to time all tables are compared. A
difference is printed with the round, which `--only ROUND` repeats together with the rounds since the last comparison.
"""

import argparse
import collections
import contextlib
import datetime
import faulthandler
import os
import random
import struct
import sys
import threading
import time
import uuid

from psycopg import pq

from tests.pooler.process import Pooler
from tests.shards import fleet as fleets

# Rounds between comparisons of all tables, after which the tables are as at first.
STRETCH = 100
# A statement that takes this many seconds hangs.
PATIENCE = 60
EPOCH = datetime.datetime(2000, 1, 1)


class Kind:
    """A type of keys: its name, OID and values as text, how a value is encoded, and other types that write it."""

    def __init__(self, name, oid, values, encode, casts, number=False):
        self.name, self.oid, self.values, self.encode, self.casts, self.number = (
            name,
            oid,
            values,
            encode,
            casts,
            number,
        )

    def __repr__(self):
        return self.name.split("(")[0]


def packed(form):
    """Encodes an integer."""
    return lambda text: struct.pack(form, int(text))


def encoded_date(text):
    """Encodes a date."""
    return struct.pack("!i", (datetime.date.fromisoformat(text) - EPOCH.date()).days)


def encoded_timestamp(text):
    """Encodes a timestamp."""
    return struct.pack("!q", (datetime.datetime.fromisoformat(text) - EPOCH) // datetime.timedelta(microseconds=1))


IDS = [str(uuid.UUID(int=(i * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128)) for i in range(8)]
DATES = ["1999-12-31", "2000-01-01", "2000-02-29", "2024-02-29", "2024-03-01", "1970-01-01", "0099-05-06", "2026-11-29"]
TIMES = ["1999-12-31 23:59:59.999999", "2000-01-01 00:00:00", "2024-02-29 12:00:00.5", "2024-03-01 00:00:01",
         "1970-01-01 00:00:00", "2026-11-29 19:00:00", "2026-11-30 00:00:00"]  # fmt: skip
# The OID of arrays of each type of keys.
ARRAYS = {21: 1005, 23: 1007, 20: 1016, 25: 1009, 1043: 1015, 2950: 2951, 1082: 1182, 1114: 1115}
INTEGERS = ["int2", "int4", "int8", "smallint", "integer", "bigint"]
KINDS = [
    Kind("smallint", 21, ["-7", "-1", "0", "1", "2", "3", "32767", "-32768"], packed("!h"), INTEGERS, True),
    Kind("int", 23, ["-7", "-1", "0", "1", "2", "3", "100000", "-2147483648"], packed("!i"), INTEGERS, True),
    Kind("bigint", 20, ["-7", "-1", "0", "1", "2", "3", "100000", "9223372036854775807", "-9007199254740993"],
         packed("!q"), INTEGERS, True),
    Kind("text", 25, ["abc", "ABC", "abc ", "", "naïve ☃", "it's", "a\\b", "1"], str.encode, ["text", "varchar"]),
    Kind("varchar(8)", 1043, ["abc", "ABC", "", "naïve ☃", "it's", "a\\b", "12345678"], str.encode, ["text", "varchar"]),
    Kind("uuid", 2950, IDS, lambda text: uuid.UUID(text).bytes, ["uuid"]),
    Kind("date", 1082, DATES, encoded_date, ["date"]),
    Kind("timestamp", 1114, TIMES, encoded_timestamp, ["timestamp", "timestamp without time zone"]),
]  # fmt: skip


def quoted(text):
    """A literal."""
    return "'" + text.replace("'", "''") + "'"


def schema(kind):
    """Two tables with keys of this type: one, and its lines."""
    return f"""
    CREATE TABLE p_{kind} (k {kind.name}, id int, n int, s text, PRIMARY KEY (k, id));
    CREATE TABLE c_{kind} (id int, k {kind.name}, line int, n int DEFAULT 5, PRIMARY KEY (k, id, line));
    """


OTHER = """
CREATE TABLE notes (id int PRIMARY KEY, text text);
CREATE TABLE kinds (id int PRIMARY KEY, k char(8), label text);
INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 5) i;
INSERT INTO kinds VALUES (1, 'abc', 'one'), (2, '1', 'two'), (3, 'ABC', 'three');
"""
VIEWS = """
CREATE VIEW v_int AS SELECT * FROM p_int;
CREATE VIEW v_sums AS SELECT k, sum(n) AS n FROM p_text GROUP BY k;
"""


def rows(kind):
    """The rows of its tables at first."""
    parts = []
    for number, key in enumerate(kind.values):
        ids = range(1, 3 + number % 3)
        at = quoted(key)
        parts.append(
            f"INSERT INTO p_{kind} VALUES " + ", ".join(f"({at}, {i}, {i * 10 + number}, 's{i}')" for i in ids) + ";"
        )
        parts.append(
            f"INSERT INTO c_{kind} VALUES " + ", ".join(f"({i}, {at}, {j}, {i + j})" for i in ids for j in (1, 2)) + ";"
        )
    return "\n".join(parts)


class Statement:
    """A statement in the making, with its parameters."""

    def __init__(self, rng, kind):
        self.rng, self.kind = rng, kind
        self.simple = rng.random() < 0.35
        self.values, self.types, self.formats = [], [], []
        self.ordered = False
        self.key = rng.choice(kind.values)
        self.shared = None

    def parameter(self, text, oid, encode):
        """A parameter of this value."""
        binary = encode is not None and oid and self.rng.random() < 0.5
        self.values.append(encode(text) if binary else text.encode())
        self.types.append(oid)
        self.formats.append(pq.Format.BINARY if binary else pq.Format.TEXT)
        return f"${len(self.values)}"

    def value(self, text=None, tame=False):
        """An expression of a value of the key, mostly of one that all of the statement has."""
        rng, kind = self.rng, self.kind
        if text is None:
            text = self.key if rng.random() < 0.85 else rng.choice(kind.values)
        if not tame and rng.random() < 0.02:
            return rng.choice(["NULL", f"NULL::{kind.name}"])
        if not self.simple and rng.random() < 0.7:
            if self.shared and text == self.key and rng.random() < 0.4:
                return self.shared
            oid = rng.choice([0, kind.oid, kind.oid])
            encode = kind.encode
            if kind.number and oid and rng.random() < 0.3:
                oid, encode = 20, packed("!q")
            made = self.parameter(text, oid, encode)
            if rng.random() < 0.3:
                made = f"{made}::{rng.choice(kind.casts)}" if rng.random() < 0.7 else f"CAST({made} AS {kind.casts[0]})"
            if text == self.key:
                self.shared = made
            return made
        if kind.number:
            forms = [text, text, text, quoted(text), f"({text})", f"({text})::{kind.name}", f"CAST({text} AS bigint)"]
            forms += [] if tame else [f"{text}.0", f"{text} + 0", quoted(f" {text} "), f"({text})::numeric"]
            return rng.choice(forms)
        forms = [quoted(text)] * 3 + [
            f"{quoted(text)}::{rng.choice(kind.casts)}",
            f"CAST({quoted(text)} AS {kind.casts[0]})",
        ]
        if not tame:
            if kind.oid in (25, 1043):
                # With varchar postgres_fdw leaves out that the comparison is one of char.
                forms += [f"{quoted(text)}::char(8)"] if kind.oid == 25 else []
                forms += [
                    "E" + quoted(text.replace("\\", "\\\\")),
                    f"{quoted(text + '  ')}",
                    f"lower({quoted(text)})",
                    f'{quoted(text)} COLLATE "C"',
                ]
            elif kind.oid == 2950:
                forms += [quoted(text.upper()), quoted(text.replace("-", "")), quoted("{" + text + "}")]
            elif kind.oid == 1082:
                day = datetime.date.fromisoformat(text)
                forms += [
                    f"date {quoted(text)}",
                    f"{quoted(text)}::timestamp",
                    quoted(day.strftime("%d %b ") + text[:4]),
                ]
            else:
                forms += [
                    f"timestamp {quoted(text)}",
                    quoted(text[:10]),
                    f"{quoted(text[:10])}::date",
                    quoted(text.replace(" ", "T")),
                ]
        return rng.choice(forms)

    def array(self):
        """An array of values of the key, mostly of one."""
        rng, kind = self.rng, self.kind
        texts = [
            self.key if rng.random() < 0.8 else rng.choice(kind.values) for _ in range(rng.choice([0, 1, 1, 2, 3]))
        ]
        nothing = rng.random() < 0.05
        quotes = ['"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts] + ["NULL"] * nothing
        literal = "{" + rng.choice([",", ", "]).join(quotes) + "}"
        cast = f"::{rng.choice(kind.casts)}[]" if rng.random() < 0.5 else ""
        if self.simple or rng.random() < 0.2:
            return quoted(literal) + cast
        oid = rng.choice([0, ARRAYS[kind.oid]])

        def encode(_):
            elements = [kind.encode(text) for text in texts]
            body = (
                b"".join(struct.pack("!i", len(element)) + element for element in elements)
                + b"\xff\xff\xff\xff" * nothing
            )
            count = len(texts) + nothing
            return struct.pack("!iii", bool(count), nothing, kind.oid) + (
                struct.pack("!ii", count, 1) + body if count else b""
            )

        return self.parameter(literal, oid, encode) + (cast if not oid else "")

    def number(self, low, high):
        """A small number, as a literal or a parameter."""
        value = self.rng.randint(low, high)
        if self.simple or self.rng.random() < 0.5:
            return str(value)
        return self.parameter(str(value), 23, packed("!i"))

    def key_is(self, alias):
        """A condition that may restrict a table to one key."""
        rng, column = self.rng, f"{alias}.k" if alias else "k"
        value = self.value
        draw = rng.random()
        if draw < 0.6:
            return rng.choice([f"{column} = {value()}", f"{value()} = {column}", f"({column} = {value()})"])
        identity = f"{alias}.id" if alias else "id"
        return rng.choice([
            lambda: f"{column} IN ({value()}, {value()})",
            lambda: f"{column} IN ({value()})",
            lambda: f"{column} = ANY (ARRAY[{value()}, {value()}])",
            lambda: f"{column} = ANY ({self.array()})",
            lambda: f"{column} = ANY ({self.array()})",
            lambda: f"{column} = ANY ({self.array()}) AND {identity} < 3",
            lambda: f"{column} <> ANY ({self.array()})",
            lambda: f"{column} = ALL ({self.array()})",
            lambda: f"{column} = {value()} AND {column} = {value()}",
            lambda: f"({column} = {value()} OR {column} = {value()})",
            lambda: f"({column} = {value()} OR {identity} = 1)",
            lambda: f"({column} = {value()} AND {identity} = 1 OR {column} = {value()} AND {identity} = 2)",
            lambda: f"NOT {column} = {value()}",
            lambda: f"NOT ({column} <> {value()})",
            lambda: f"{column} NOT IN ({value()}, {value()})",
            lambda: f"{column} <> {value()}",
            lambda: f"{column} <> ALL (ARRAY[{value()}])",
            lambda: f"({column} = {value()}) IS NOT FALSE",
            lambda: f"({column} = {value()}) IS NULL",
            lambda: f"{column} IS NOT DISTINCT FROM {value()}",
            lambda: f"{column} IS NULL",
            lambda: f"{column} >= {value()}",
            lambda: f"{column} BETWEEN {value()} AND {value()}",
            lambda: f"({column}, {identity}) = ({value()}, 1)",
            lambda: f"({column}, {identity}) IN (({value()}, 1), ({value()}, 2))",
            lambda: f"({column}, {identity}) < ({value()}, 2)",
            lambda: f"CASE WHEN {identity} > 0 THEN {column} = {value()} ELSE true END",
            lambda: f"coalesce({column}, {value()}) = {value()}",
            lambda: "true",
        ])()  # fmt: skip

    def extra(self, alias):
        """A condition on other columns, or none."""
        rng, at = self.rng, f"{alias}." if alias else ""
        if rng.random() < 0.6:
            return ""
        return " AND " + rng.choice(
            [
                f"{at}id < {self.number(1, 4)}",
                f"{at}n % 2 = 0",
                f"{at}id IN (1, 2)",
                f"NOT {at}id = 2",
                f"({at}n > 3 OR {at}id = 1)",
            ]
        )

    def where(self, *aliases):
        """A WHERE for some of these tables."""
        rng = self.rng
        chosen = aliases if rng.random() < 0.5 else [alias for alias in aliases if rng.random() < 0.7]
        parts = [self.key_is(alias) + self.extra(alias) for alias in chosen]
        rng.shuffle(parts)
        return " WHERE " + " AND ".join(parts) if parts else ""

    def order(self, text):
        """An ORDER BY that fixes the order, perhaps with a LIMIT; or none."""
        if self.rng.random() < 0.5:
            return ""
        self.ordered = True
        return f" ORDER BY {text}" + (f" LIMIT {self.number(1, 4)}" if self.rng.random() < 0.5 else "")

    def parent(self):
        """The table, or sometimes another one."""
        if self.kind.name == "int" and self.rng.random() < 0.1:
            return self.rng.choice(["public.p_int", "v_int"])
        return f"p_{self.kind}" if self.rng.random() < 0.9 else f"public.p_{self.kind}"

    def child(self):
        """The table of lines."""
        return f"c_{self.kind}"

    def lookup(self):
        """Rows of one table."""
        alias = self.rng.choice(["", "a"])
        columns = self.rng.choice(["*", "k, id", "id, n, s", "DISTINCT k, n % 2", "id AS x, k AS id"])
        order = self.order("k, 2" if "DISTINCT" in columns else "1, 2" if "AS" in columns else "k, id")
        return f"SELECT {columns} FROM {self.parent()} {alias}{self.where(alias)}{order}"

    def aggregate(self):
        """Groups."""
        alias = self.rng.choice(["", "a"])
        form = self.rng.choice([
            "SELECT count(*), sum(n), min(s), max(id) FROM {t}{w}",
            "SELECT k, count(*) FROM {t}{w} GROUP BY k HAVING count(*) > 1",
            "SELECT id % 2, count(DISTINCT k), string_agg(s, ',' ORDER BY k, id) FROM {t}{w} GROUP BY 1",
            "SELECT k, id, count(*) FROM {t}{w} GROUP BY GROUPING SETS ((k), (id), ())",
            "SELECT avg(n)::numeric(10, 3), count(*) FILTER (WHERE n > 12) FROM {t}{w}",
            "SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY n, id), sum(n) OVER (ORDER BY k, id) FROM {t}{w}",
            "SELECT DISTINCT ON (k) k, id, n FROM {t}{w} ORDER BY k, id DESC",
            "SELECT EXISTS (SELECT 1 FROM {t}{w})",
            "SELECT array_agg(id ORDER BY id, k) FROM {t}{w}",
        ])  # fmt: skip
        return form.format(t=f"{self.parent()} {alias}", w=self.where(alias))

    def join(self):
        """Two or three tables, joined in all ways."""
        rng = self.rng
        kind = rng.choice(["JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        left, right = self.parent(), rng.choice([self.child(), self.child(), self.parent()])
        using = rng.choice(["USING (k, id)", "USING (k)", "USING (id)"])
        on = rng.choice(
            [
                "a.k = b.k",
                "b.k = a.k AND a.id = b.id",
                "a.id = b.id",
                "b.id = a.id AND b.k = a.k",
                "a.k = b.k AND a.n = b.n",
                "true",
            ]
        )
        if kind == "FULL JOIN":
            on = rng.choice(["a.k = b.k", "b.k = a.k AND a.id = b.id"])
        elif rng.random() < 0.4:
            on += " AND " + self.key_is(rng.choice("ab"))
        if rng.random() < 0.4:
            where = self.where("") if "k" in using else self.where("a", "b")
            return f"SELECT a.id, b.id, a.n, b.n, a.k, b.k FROM {left} a {kind} {right} b {using}{where}"
        text = f"{left} a {kind} {right} b ON {on}"
        if rng.random() < 0.3:
            third = rng.choice([self.parent(), self.child(), "notes", "kinds"])
            more = (
                rng.choice(["c.id = a.id", "c.id = b.id"])
                if third in ("notes", "kinds")
                else rng.choice(["c.k = a.k", "b.k = c.k", "c.k = a.k AND c.id = b.id"])
            )
            other = rng.choice(["JOIN", "LEFT JOIN"])
            if rng.random() < 0.5:
                text = f"{text} {other} {third} c ON {more}"
            else:
                text = f"{third} c LEFT JOIN ({text}) ON {more}"
        return f"SELECT a.k, a.id, a.n, b.k, b.id, b.n FROM {text}{self.where('a', 'b')}"

    def comma(self):
        """A join in WHERE."""
        more = self.rng.choice([" AND a.k = b.k", " AND b.k = a.k AND a.id = b.id", " AND a.id = b.id", ""])
        where = self.where("a", "b") or " WHERE true"
        tables = f"{self.parent()} a, {self.rng.choice([self.child(), self.parent()])} b"
        return f"SELECT a.k, a.id, b.id, b.n FROM {tables}{where}{more}"

    def mixed(self):
        """Keys of several types, other tables and merged columns."""
        rng = self.rng
        if self.kind.number:
            other = rng.choice([kind for kind in KINDS if kind.number])
            join = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
            text = (
                rng.choice(["USING (k)", "USING (k, id)"]) if rng.random() < 0.5 else f"ON a.k = b.k{self.extra('a')}"
            )
            return f"SELECT a.k, b.k, a.id, b.n FROM {self.parent()} a {join} p_{other} b {text}{self.where('a')}"
        join = rng.choice(["JOIN", "LEFT JOIN"])
        if self.kind.oid in (25, 1043):
            return f"SELECT k, kinds.id, a.id, label FROM kinds {join} {self.parent()} a USING (k){self.where('')}"
        return f"SELECT a.k, a.id, label FROM {self.parent()} a {join} kinds ON kinds.id = a.id{self.where('a')}"

    def subquery(self):
        """Subqueries of all kinds."""
        p, c = self.parent(), self.child()
        form = self.rng.choice([
            "SELECT a.k, a.id FROM {p} a WHERE {a} AND EXISTS (SELECT 1 FROM {c} b WHERE b.k = a.k AND b.id = a.id AND b.n > 3)",
            "SELECT a.k, a.id FROM {p} a WHERE {a} AND NOT EXISTS (SELECT FROM {c} b WHERE b.k = a.k AND b.n = a.n)",
            "SELECT a.k, a.id FROM {p} a WHERE {a} AND a.id IN (SELECT b.id FROM {c} b WHERE {b})",
            "SELECT a.k, a.id FROM {p} a WHERE {a} AND a.id NOT IN (SELECT b.id FROM {c} b WHERE b.k = a.k AND b.line = 9)",
            "SELECT a.id, (SELECT count(*) FROM {c} b WHERE b.k = a.k AND b.id = a.id) FROM {p} a WHERE {a}",
            "SELECT a.id, (SELECT sum(n) FROM {c} b WHERE {b}) FROM {p} a WHERE {a}",
            "SELECT * FROM (SELECT k, id, n FROM {p} a WHERE {a}) x WHERE x.n > 10",
            "SELECT x.k, x.m FROM (SELECT a.k, max(n) AS m FROM {p} a GROUP BY a.k) x WHERE {x}",
            "SELECT a.id, x.n FROM {p} a, LATERAL (SELECT b.n FROM {c} b WHERE b.k = a.k AND b.id = a.id ORDER BY b.line DESC LIMIT 1) x WHERE {a}",
            "SELECT a.id, x.n FROM {p} a LEFT JOIN LATERAL (SELECT sum(b.n) AS n FROM {c} b WHERE b.k = a.k) x ON true WHERE {a}",
            "SELECT a.id FROM {p} a WHERE {a} AND a.n = (SELECT max(n) FROM {p} b WHERE b.k = a.k)",
            "SELECT a.id, a.k FROM {p} a WHERE a.k = (SELECT b.k FROM {c} b WHERE {b} ORDER BY 1 LIMIT 1)",
            "SELECT a.id FROM {p} a WHERE a.k IN (SELECT k FROM {c} b WHERE {b})",
            "SELECT i.k, (SELECT sum(x.n) FROM (SELECT {v} AS k) i, LATERAL (SELECT l.n FROM {c} l WHERE l.k = i.k) x) FROM {p} i WHERE {i}",
            "SELECT a.k FROM {p} a WHERE {a} AND (SELECT count(*) FROM {c} b WHERE b.k = a.k OR b.id = 1) > 2",
            "SELECT (SELECT string_agg(s, ',' ORDER BY s) FROM {p} a WHERE {a}), (SELECT count(*) FROM {c} b WHERE {b})",
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM {p} a LEFT JOIN {c} b ON b.k = a.k AND {b} WHERE {a} AND b.k IS NULL)",
        ])  # fmt: skip
        return form.format(p=p, c=c, **self.conditions(form), v=self.cast() if "{v}" in form else "")

    def cast(self):
        """A value with a type of its own."""
        return f"CAST({self.value(tame=True)} AS {self.kind.name})"

    def conditions(self, form):
        """Conditions for the tables that a form names, so that each parameter is in the text."""
        return {alias: self.key_is(alias) if f"{{{alias}}}" in form else "" for alias in "abxi"}

    def cte(self):
        """Common table expressions, set operations and recursion."""
        p, c = self.parent(), self.child()
        form = self.rng.choice([
            "WITH x AS (SELECT * FROM {p} a WHERE {a}) SELECT k, id FROM x WHERE n > 5",
            "WITH x AS (SELECT a.k, a.id FROM {p} a WHERE {a}), y AS (SELECT b.n, b.id FROM {c} b WHERE {b}) SELECT * FROM x JOIN y USING (id)",
            "WITH x AS (SELECT a.k, a.id FROM {p} a WHERE {a}) SELECT b.n, k FROM x JOIN {c} b USING (k)",
            "WITH x AS (SELECT a.k, a.id FROM {p} a WHERE {a}) SELECT b.n, b.k FROM x JOIN {c} b ON b.k = x.k WHERE {b}",
            "WITH x(i, j) AS (SELECT a.id, a.k FROM {p} a WHERE {a}) SELECT x.i, b.k, b.line FROM x LEFT JOIN {c} b ON b.k = x.j AND b.id = x.i",
            "WITH x AS (SELECT a.k, b.line FROM {p} a LEFT JOIN {c} b ON b.k = a.k AND {b} WHERE {a}) SELECT x.line, i.n FROM x JOIN {p} i ON i.k = x.k",
            "WITH x AS (SELECT b.k, a.id FROM {p} a LEFT JOIN {c} b ON b.id = a.id AND {b} WHERE {a}) SELECT x.id, i.n FROM x LEFT JOIN {p} i ON i.k = x.k",
            "WITH x AS (SELECT * FROM {p} a JOIN {c} b USING (k, id) WHERE {a}) SELECT x.k, i.n FROM x JOIN {p} i ON i.k = x.k",
            "SELECT b.k, b.id, x.k FROM {c} b LEFT JOIN (SELECT a.k FROM {p} a WHERE {a}) x ON x.k = b.k",
            "SELECT x.k, x.m, b.line FROM (SELECT a.k, max(n) AS m FROM {p} a WHERE {a} GROUP BY a.k) x LEFT JOIN {c} b USING (k)",
            "SELECT x.k, (SELECT count(*) FROM {c} i WHERE i.k = x.k) FROM (SELECT DISTINCT a.k FROM {p} a WHERE {a}) x",
            "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 3) SELECT i, a.n FROM x JOIN {p} a ON a.id = i WHERE {a}",
            "WITH {p} AS (SELECT 1 AS k, 2 AS id) SELECT * FROM {p} a",
            "WITH {c} AS (SELECT * FROM {c} b WHERE {b}) SELECT k, id, line FROM {c} b",
            "SELECT k, id FROM {p} a WHERE {a} UNION SELECT k, line FROM {c} b WHERE {b}",
            "SELECT k, id FROM {p} a WHERE {a} UNION ALL SELECT k, id FROM {p} b WHERE {b}",
            "SELECT k, id FROM {p} a WHERE {a} EXCEPT SELECT k, id FROM {c} b WHERE {b} AND b.line = 2",
            "SELECT k, id FROM {p} a WHERE {a} INTERSECT ALL SELECT k, line FROM {c} b WHERE {b}",
            "(SELECT k, id FROM {p} a WHERE {a} ORDER BY k, id LIMIT 1) UNION ALL (SELECT k, id FROM {c} b WHERE {b} ORDER BY k DESC, id DESC LIMIT 1)",
            "SELECT * FROM (VALUES (1, 'x'), (2, 'y')) v(i, j) JOIN {p} a ON a.id = v.i WHERE {a}",
            "SELECT a.k, g FROM {p} a, generate_series(1, a.id) g WHERE {a}",
            "SELECT a.id, u FROM {p} a CROSS JOIN LATERAL unnest(ARRAY[a.n, a.id]) u WHERE {a}",
        ])  # fmt: skip
        if "{p} AS" in form and not p.startswith("p_"):
            p = f"p_{self.kind}"
        return form.format(p=p, c=c, **self.conditions(form))

    def elsewhere(self):
        """Tables that are not sharded, or views."""
        form = self.rng.choice([
            "SELECT * FROM notes WHERE id = 3", "SELECT 1", "SELECT count(*) FROM v_sums", "SELECT n FROM v_sums WHERE k = 'abc'",
            "SELECT a.id, text FROM {p} a JOIN notes ON notes.id = a.id WHERE {a}", "SELECT id, n FROM v_int WHERE k = 1",
            "SELECT a.id FROM {p} a WHERE {a} AND a.id IN (SELECT id FROM notes)", "SELECT * FROM kinds", "UPDATE notes SET text = text WHERE id = 1 RETURNING id",
            "SELECT 1 / (a.id - a.id) FROM {p} a WHERE {a}", "SELECT nothing FROM {p} a WHERE {a}", "SELECT * FROM missing", "SELECT k FROM {p} a, {c} b WHERE k = {v}",
            "SELECT {v} = {v}", "SELEC", "", "TABLE p_int", "VALUES (1), (2)",
        ])  # fmt: skip
        return form.format(
            p=self.parent(), c=self.child(), v=self.cast() if "{v}" in form else "", **self.conditions(form)
        )

    def table(self):
        """The table, as what rows are written to."""
        return f"p_{self.kind}"

    def row(self):
        """A new row."""
        return f"({self.value()}, {self.number(1, 9)}, {self.number(1, 99)}, 'new')"

    def insert(self):
        """An INSERT of one or more rows."""
        rng, table = self.rng, self.table()
        conflict = rng.choice([
            "", "", " ON CONFLICT DO NOTHING", " ON CONFLICT (k, id) DO UPDATE SET n = excluded.n + 1",
            f" ON CONFLICT (id, k) DO UPDATE SET s = 'met' WHERE {table}.n < 50", " ON CONFLICT (k, id) DO UPDATE SET k = excluded.k",
        ])  # fmt: skip
        ending = rng.choice(["", " RETURNING k, id, n", " RETURNING *"])
        draw = rng.random()
        if draw < 0.1:
            return f"INSERT INTO c_{self.kind} (line, id, k) VALUES ({self.number(1, 9)}, {self.number(1, 9)}, {self.value()}) ON CONFLICT DO NOTHING{ending}"
        if draw < 0.2:
            form = rng.choice([
                "INSERT INTO {t} (id, k, n) SELECT a.id + 20, a.k, a.n FROM {t} a WHERE {a}", "INSERT INTO {t} (id) VALUES (1)", "INSERT INTO {t} DEFAULT VALUES",
                "INSERT INTO {t} SELECT {v}, 31, 1", "INSERT INTO {t} (k, id) SELECT * FROM unnest({r}::{n}[]) WITH ORDINALITY ON CONFLICT DO NOTHING",
                "INSERT INTO {t} (id, k) SELECT u.i + 60, u.k FROM unnest({r}::{n}[]) WITH ORDINALITY AS u (k, i)", "INSERT INTO {t} (k, id) SELECT a.k, a.id + 70 FROM {t} a JOIN {c} b USING (k, id) WHERE {a} ON CONFLICT DO NOTHING",
                "INSERT INTO {t} SELECT * FROM {t} a WHERE {a} ON CONFLICT (k, id) DO UPDATE SET n = excluded.n + 1", "INSERT INTO {t} (k, id) SELECT b.k, 80 FROM {t} a LEFT JOIN {c} b ON b.k = a.k AND b.id = 1 WHERE {a} ON CONFLICT DO NOTHING",
                "INSERT INTO {t} (n, k, id) SELECT count(*), k, 90 FROM {c} b WHERE {b} GROUP BY k", "INSERT INTO {t} SELECT {v}, 31, 1 UNION ALL SELECT {v}, 32, 1", "WITH x AS (INSERT INTO {t} VALUES ({v}, 40, 1) RETURNING k, id) SELECT * FROM x",
                "WITH x AS (INSERT INTO {t} VALUES ({v}, 41, 1) RETURNING k, id) INSERT INTO {c} (k, id, line) SELECT k, id, 1 FROM x",
                "WITH x AS (SELECT * FROM {c} b WHERE {b}) INSERT INTO {t} (k, id) SELECT k, max(id) + 100 FROM x GROUP BY k ON CONFLICT DO NOTHING",
                "INSERT INTO {t} (k, id, n) SELECT x.k, x.id + 110, x.m FROM (SELECT b.k, b.id, max(n) AS m FROM {c} b WHERE {b} GROUP BY b.k, b.id) x ON CONFLICT DO NOTHING",
                "WITH x AS (SELECT 45 AS id) INSERT INTO {t} VALUES ({v}, (SELECT id FROM x), 1)",
                "WITH {t} AS (SELECT 1) INSERT INTO {t} VALUES ({v}, 46, 1)", "INSERT INTO {t} VALUES ({v}, 47, random()::int * 0)",
                "INSERT INTO {t} VALUES ({v}, 48, 0, CASE WHEN now() IS NULL THEN 'never' ELSE 'now' END)",
                "INSERT INTO {t} AS it VALUES ({v}, 1, 0) ON CONFLICT (k, id) DO UPDATE SET n = it.n + 1",
            ])  # fmt: skip
            return form.format(
                t=table, c=self.child(), v=self.value() if "{v}" in form else "", n=self.kind.name,
                r=self.array().partition("::")[0] if "{r}" in form else "", **self.conditions(form),
            )  # fmt: skip
        columns = rng.choice(["", " (k, id, n, s)"])
        made = ", ".join(self.row() for _ in range(rng.choice([1, 1, 1, 2, 3])))
        return f"INSERT INTO {table}{columns} VALUES {made}{conflict}{ending}"

    def update(self):
        """An UPDATE."""
        form = self.rng.choice([
            "UPDATE {t} SET n = n + 1 WHERE {t}.id = 1 AND {x}", "UPDATE {t} a SET n = n + 1, s = upper(s) WHERE {a} RETURNING a.k, id, n", "UPDATE {t} AS a SET n = {n} WHERE {a} AND id = 2",
            "UPDATE {t} a SET n = b.n FROM {c} b WHERE b.k = a.k AND b.id = a.id AND b.line = 1 AND {a} RETURNING a.k, a.id, b.n",
            "UPDATE {t} a SET n = b.n FROM {c} b WHERE b.id = a.id AND b.line = 1 AND b.k = a.k AND {b}",
            "UPDATE {t} a SET n = (SELECT count(*) FROM {c} b WHERE b.k = a.k) WHERE {a}", "UPDATE {t} a SET k = {v} WHERE {a}",
            "UPDATE {t} a SET (n, s) = (SELECT 7, 'seven') WHERE {a}", "UPDATE {t} SET n = n",             "WITH x AS (UPDATE {t} a SET n = n + 1 WHERE {a} RETURNING k, id) SELECT count(*) FROM x",
            "WITH x AS (SELECT id FROM {c} b WHERE {b}) UPDATE {t} a SET n = n + 2 WHERE a.id IN (SELECT id FROM x) AND {a}",
            "WITH x AS (SELECT b.k, b.id FROM {c} b WHERE {b}) UPDATE {t} a SET n = n + 3 FROM x WHERE a.k = x.k AND a.id = x.id RETURNING a.k, a.id, a.n",
            "WITH x AS (DELETE FROM {c} b WHERE {b} AND b.line = 2 AND b.id = 3 RETURNING *) UPDATE {t} a SET n = 0 FROM x WHERE x.k = a.k AND x.id = a.id",
            "UPDATE {t} a SET n = v.n FROM (VALUES (1, 71), (2, 72)) v(id, n) WHERE v.id = a.id AND {a} RETURNING a.id, a.n",
            "UPDATE v_int SET n = n WHERE k = 1", "UPDATE {t} a SET n = n WHERE {a} AND id = (SELECT max(id) FROM {t} b WHERE b.k = a.k)",
            "WITH {t} AS (SELECT 1) UPDATE {t} SET n = 3 WHERE id = 1",
        ])  # fmt: skip
        parts = self.conditions(form)
        parts["x"] = self.key_is(self.table()) if "{x}" in form else ""
        return form.format(
            t=self.table(),
            c=self.child(),
            n=self.number(1, 9) if "{n}" in form else "",
            v=self.value() if "{v}" in form else "",
            **parts,
        )

    def delete(self):
        """A DELETE, of few rows."""
        form = self.rng.choice([
            "DELETE FROM {t} a WHERE {a} AND id > 5", "DELETE FROM {t} a WHERE {a} AND a.id = {n} RETURNING k, id, s",
            "DELETE FROM {c} b USING {t} a WHERE a.k = b.k AND a.id = b.id AND b.line = 2 AND {a} AND a.id = 2 RETURNING b.*",
            "DELETE FROM {c} b USING {t} a WHERE a.id = b.id AND b.line = 2 AND {a} AND {b}", "WITH x AS (DELETE FROM {t} a WHERE {a} AND id > 4 RETURNING *) SELECT k, id FROM x",
            "DELETE FROM {t} a WHERE {a} AND NOT EXISTS (SELECT FROM {c} b WHERE b.k = a.k AND b.id = a.id)", "DELETE FROM {t} WHERE id = 77",
            "WITH {t} AS (SELECT 1) DELETE FROM {t} WHERE id = 3",
        ])  # fmt: skip
        return form.format(
            t=self.table(), c=self.child(), n=self.number(1, 9) if "{n}" in form else "", **self.conditions(form)
        )

    def lock(self):
        """Rows with locks, and other forms of statements."""
        form = self.rng.choice([
            "SELECT k, id, n FROM {t} a WHERE {a} FOR UPDATE", "SELECT a.k, a.id FROM {t} a JOIN {c} b ON b.k = a.k AND b.id = a.id WHERE {a} FOR UPDATE OF a",
            "SELECT k, id FROM {t} a WHERE {a} ORDER BY k, id FOR UPDATE SKIP LOCKED", "SELECT k, id FROM {t} a WHERE {a} FOR SHARE NOWAIT",
            "SELECT * FROM {t} x(kk, i, m, t) WHERE x.kk = {v}", "SELECT (a).id FROM {t} a WHERE {a}", "SELECT a FROM {t} a WHERE {a}", "SELECT count(a.*) FROM {t} a WHERE {a}",
            "SELECT a.id FROM ({t} a JOIN {c} b USING (k, id)) WHERE {a}", "SELECT k FROM ({t} a JOIN {c} b USING (k, id)) AS j WHERE k = {v}", "SELECT k FROM {t} a NATURAL JOIN {c} b WHERE {a}",
            "SELECT id FROM {t} AS a WHERE {a} AND s LIKE 's%' AND s ~ '^s'", "SELECT k, id FROM {t} a WHERE ({a}) IS TRUE", "SELECT {t}.id FROM {t} WHERE {t}.k = {v}",
            "SELECT public.{t}.id FROM public.{t} WHERE public.{t}.k = {v}", "SELECT id FROM {t} WHERE k = {v} AND s = current_setting('nothing.at_all', true)",
        ])  # fmt: skip
        return form.format(
            t=self.table(), c=self.child(), v=self.value() if "{v}" in form else "", **self.conditions(form)
        )


READS = [Statement.lookup, Statement.lookup, Statement.aggregate, Statement.join, Statement.join, Statement.comma, Statement.mixed,
         Statement.subquery, Statement.subquery, Statement.cte, Statement.elsewhere, Statement.lock]  # fmt: skip
WRITES = [Statement.insert, Statement.insert, Statement.update, Statement.delete]


class Side:
    """A connection of libpq, and what it answers."""

    def __init__(self, conninfo):
        self.connection = pq.PGconn.connect(conninfo.encode())
        if self.connection.status != pq.ConnStatus.OK:
            raise RuntimeError(self.connection.get_error_message())
        self.known = {}

    def plain(self, sql):
        """Runs a Query."""
        return self.answer(self.connection.exec_(sql.encode()))

    def run(self, sql, statement, prepared, result):
        """Runs a statement."""
        if statement.simple:
            return self.plain(sql)
        arguments = (statement.values, statement.formats, result)
        if not prepared:
            return self.answer(
                self.connection.exec_params(sql.encode(), statement.values, statement.types, statement.formats, result)
            )
        key = (sql, tuple(statement.types))
        name = self.known.get(key)
        if name is None:
            name = f"s{len(self.known)}".encode()
            made = self.connection.prepare(name, sql.encode(), statement.types)
            if made.status != pq.ExecStatus.COMMAND_OK:
                return self.answer(made)
            self.known[key] = name
        return self.answer(self.connection.exec_prepared(name, *arguments))

    def answer(self, result):
        """Rows, tag and SQLSTATE of a result, with the message of an error."""
        if result is None:
            return ("nothing", self.connection.get_error_message()), [], ""
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        if state:
            text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
            return ("error", state.decode()), [], text
        rows = [tuple(result.get_value(i, j) for j in range(result.nfields)) for i in range(result.ntuples)]
        names = tuple(result.fname(j) for j in range(result.nfields))
        return ("done", result.command_status or b"", names), rows, ""

    @property
    def is_idle(self):
        """Whether it is outside of a transaction."""
        return self.connection.transaction_status == pq.TransactionStatus.IDLE


class Difference(Exception):
    """Two answers that differ."""


class Comparison:
    """The pooler and the plain database, and what was found."""

    def __init__(self, made, fleet, out=print):
        self.made, self.fleet, self.out = made, fleet, out
        place = "host=127.0.0.1 port={} dbname={} user=postgres password={} client_encoding=utf8"
        self.pooled = Side(place.format(made.port, "app", "x"))
        self.plain = Side(place.format(fleet.hub.port, "plain", fleet.hub.password))
        self.direct = [Side(place.format(s.port, fleet.database, s.password)) for s in fleet.shards.values()]
        self.hub = Side(place.format(fleet.hub.port, fleet.database, fleet.hub.password))
        self.counts = collections.Counter()
        self.reasons = collections.Counter()
        self.current = ("", 0.0)
        self.is_over = False
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Ends the program when a statement hangs."""
        while not self.is_over:
            time.sleep(1)
            sql, since = self.current
            if since and time.monotonic() - since > PATIENCE:
                self.out(f"HANGS: {sql}", flush=True)
                faulthandler.dump_traceback(sys.stderr)
                os._exit(3)

    def statement(self, rng, kind):
        """A random statement: its text, and itself."""
        made = Statement(rng, kind)
        form = rng.choice(READS if rng.random() < 0.6 else WRITES)
        return form(made), made, form.__name__

    def one(self, rng, sql, statement, form):
        """Runs a statement on both, and compares; whether the pooler refused it."""
        prepared, result = rng.random() < 0.5, rng.choice([pq.Format.TEXT, pq.Format.BINARY])
        self.current = (sql, time.monotonic())
        head, rows, text = self.pooled.run(sql, statement, prepared, result)
        self.counts["statements"] += 1
        if head == ("error", "0A000"):
            self.counts["refused"] += 1
            self.reasons[text.partition(":")[2].strip()[:60] or text[:60], form] += 1
            if not text:
                raise Difference(f"a refusal without a reason: {sql}")
            return True
        self.counts[head[0]] += 1
        other, others, said = self.plain.run(sql, statement, prepared, result)
        self.current = (sql, 0.0)
        if not statement.ordered:
            rows, others = sorted(rows, key=repr), sorted(others, key=repr)
        # In a failed transaction that no server has, the pooler does not look for errors of syntax first.
        if head == ("error", "25P02") and (not sql or other == ("error", "42601")):
            return False
        if (head, rows) != (other, others):
            values = list(zip(statement.values, statement.types, strict=True))
            raise Difference(
                f"{sql}\n  {values}\n  the pooler: {head} {rows[:8]} {text}\n  one server: {other} {others[:8]} {said}"
            )
        return False

    def round(self, seed, number):
        """A round: some statements, perhaps of one transaction."""
        rng = random.Random(f"{seed} {number}")
        kind = rng.choice(KINDS)
        if rng.random() < 0.6:
            for _ in range(3):
                self.one(rng, *self.statement(rng, kind))
            return
        self.transaction(rng, kind)

    def transaction(self, rng, kind):
        """A transaction, with savepoints now and then."""
        begin = rng.choice(["BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL REPEATABLE READ"])
        key = rng.choice(kind.values)
        self.both(begin)
        saved = False
        for _ in range(rng.randint(1, 5)):
            if rng.random() < 0.25:
                if saved and rng.random() < 0.7:
                    saved = self.both(rng.choice(["ROLLBACK TO s", "ROLLBACK TO SAVEPOINT s", "RELEASE s"])) and False
                else:
                    saved = self.both("SAVEPOINT s")
            made = Statement(rng, kind)
            made.key = key
            form = rng.choice(READS if rng.random() < 0.5 else WRITES)
            if self.one(rng, form(made), made, form.__name__):
                # Both go back to before the refusal.
                if saved:
                    self.both("ROLLBACK TO s", tell=False)
                else:
                    self.both("ROLLBACK", tell=False)
                    return
        self.both(rng.choice(["COMMIT", "COMMIT", "ROLLBACK", "END"]))

    def both(self, sql, tell=True):
        """Runs a statement of transactions on both; whether it succeeded."""
        self.current = (sql, time.monotonic())
        pooled, plain = self.pooled.plain(sql), self.plain.plain(sql)
        self.current = (sql, 0.0)
        if pooled[0] != plain[0]:
            raise Difference(f"{sql}: the pooler: {pooled}, one server: {plain}")
        return pooled[0][0] == "done"

    def contents(self):
        """Compares all tables, and sets them back."""
        for kind in KINDS:
            for table in (f"p_{kind}", f"c_{kind}"):
                sql = f"SELECT * FROM {table}"
                (_, ours, _), (_, theirs, _) = self.hub.plain(sql), self.plain.plain(sql)
                if sorted(ours, key=repr) != sorted(theirs, key=repr):
                    raise Difference(f"{table} has other rows: {sorted(set(ours) ^ set(theirs), key=repr)[:8]}")
        self.reset()

    def reset(self):
        """Sets all tables back."""
        for side in (self.pooled, self.plain):
            if not side.is_idle:
                side.plain("ROLLBACK")
        tables = ", ".join(f"p_{kind}, c_{kind}" for kind in KINDS)
        for side in (*self.direct, self.plain):
            side.plain(f"TRUNCATE {tables}")
        for kind in KINDS:
            for side in (self.hub, self.plain):
                head, _, text = side.plain(rows(kind))
                assert head[0] == "done", text
        for side in (self.hub, self.plain):
            side.plain("DELETE FROM notes; INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 5) i")

    def run(self, seed, first, last):
        """Runs rounds; the number of differences."""
        found = 0
        self.reset()
        for number in range(first, last):
            try:
                self.round(seed, number)
                if (number + 1) % STRETCH == 0:
                    self.contents()
            except Difference as difference:
                found += 1
                self.out(f"round {number}: {difference}", flush=True)
                self.current = ("", 0.0)
                self.reset()
        self.is_over = True
        return found

    def shares(self):
        """Where statements went, by the pooler's own count."""
        stats = {row["database"]: int(row["total_query_count"]) for row in self.made.show("STATS")}
        here = {name: stats.get(name, 0) for name in ("app", *self.fleet.shards)}
        return {"hub": here.pop("app"), "shards": sum(here.values()), **here, **self.counts}


@contextlib.contextmanager
def comparison(hub, shards, out=print):
    """A fleet with tables of all types of keys, a plain database with the same, and the pooler."""
    with fleets.fleet(hub, shards, "shards_different") as fleet:
        fleet.add_shards()
        hub.psql("CREATE DATABASE plain")
        try:
            text = "\n".join(schema(kind) for kind in KINDS) + OTHER
            fleet.sql(text)
            hub.psql(text, "plain")
            for kind in KINDS:
                fleet.sql(
                    f"SELECT FROM howdah_shards.distribute_table('p_{kind}', 'k', 6); SELECT FROM howdah_shards.distribute_table('c_{kind}', 'k', 6, colocate_with => 'p_{kind}')"
                )
            fleet.sql(VIEWS)
            hub.psql(VIEWS, "plain")
            fleet.sql(f"SELECT howdah_shards.set_hub('{fleet.conninfo(hub)}')")
            fleet.sql("CALL howdah_shards.reference_table('kinds')")
            line = "host=127.0.0.1 port={} dbname={} user=postgres password={}".format
            entries = {"app": line(hub.port, fleet.database, hub.password) + f" shards='{','.join(shards)}'"}
            entries |= {name: line(server.port, fleet.database, server.password) for name, server in shards.items()}
            with Pooler(hub, databases=entries) as made:
                yield Comparison(made, fleet, out)
        finally:
            hub.psql("DROP DATABASE plain WITH (FORCE)")


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the round to repeat")
    parser.add_argument("--pg", type=int, default=15)
    options = parser.parse_args()
    first, last = 0, options.rounds
    if options.only is not None:
        first, last = options.only // STRETCH * STRETCH, options.only + 1
    with fleets.servers(options.pg) as (hub, shards), comparison(hub, shards) as compared:
        found = compared.run(options.seed, first, last)
        print(compared.shares())
        for (reason, form), count in compared.reasons.most_common(60):
            print(f"{count:6} {form}: {reason}")
    print(f"{found} differences")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
