"""Hostile calls of every function in the schema pgml, as the owner of projects and as a stranger.

The functions come from pg_proc, so that one that is added is called too. Each takes each hostile value of an argument's
type in each position (`walk`), then calls with several of them at once are made up (`random_calls`), all in an order that
a seed gives. Whatever is called, under a statement_timeout of one second: a result comes, or an ERROR that says what was
wrong with the call (no SQLSTATE of class XX, internal errors, or 58, errors of the system); the connection and the server
stay; no lock, open file, temporary file or memory is kept; and nothing of a project is told to who may not see it.

By hand, for as long as is wanted:

    PYTHONPATH=tools:. build/venv/bin/python -m tests.hostile --seconds 900
"""

import argparse
import contextlib
import dataclasses
import itertools
import os
import random
import re
import sys
import time
from pathlib import Path

import pg8000.dbapi

from devkit import Problem, postgres
from devkit.client import connection
from devkit.places import ROOT
from devkit.server import Server, end_on_signals

OWNER, STRANGER, OTHER = "pgml_hostile_owner", "pgml_hostile_stranger", "pgml_hostile_other"
# What a call may take beyond its timeout: the machine may be loaded, and the library grows the trees of a round undisturbed.
SLACK = 9
# Values and a name that only a superuser may see.
SECRET_VALUE, SECRET_PROJECT = "zq-value", "zq-project"

LINE = """pgml.train('line', 'regression', 'hostile.line', 'y', 'xgboost', '{"n_estimators": 3}')"""
SOILS = """pgml.train('soils', 'classification', 'hostile.soils', 'yield', 'xgboost', '{"n_estimators": 3}')"""


def again(number, training):
    """Makes the model that was made first again, by its number, where a call has deleted or renamed it."""
    missing = f"WHERE NOT EXISTS (SELECT FROM pgml.models WHERE id = {number})"
    return f"SELECT setval('pgml.models_id_seq', {number} - 1) {missing}; SELECT {training} {missing};"


SETUP = f"""
    CREATE SCHEMA hostile AUTHORIZATION {OWNER};
    CREATE SCHEMA "Quo""ted" AUTHORIZATION {OWNER};
    GRANT INSERT ON pgml.projects TO {OWNER};
    GRANT CREATE ON SCHEMA pgml TO {OWNER};
    GRANT {OTHER} TO {OWNER};
    CREATE TABLE hidden AS SELECT '{SECRET_VALUE}-' || i % 5 AS word, i AS y FROM generate_series(1, 60) i;
    SELECT pgml.train('{SECRET_PROJECT}', 'regression', 'hidden', 'y', 'xgboost', '{{"n_estimators": 2}}');
    SELECT pgml.revoke('{SECRET_PROJECT}', 'public', 'all');
    SET SESSION AUTHORIZATION {OWNER};
    CREATE TABLE hostile.line AS SELECT x::real, x::real AS y FROM generate_series(1, 10) x, generate_series(1, 10);
    CREATE TABLE hostile.soils AS SELECT (ARRAY['clay', 'sand', 'silt'])[1 + i % 3] AS soil, ARRAY[i, i % 7] AS rain,
        i % 2 = 0 AS wet, (ARRAY['poor', 'rich'])[1 + i % 2] AS yield FROM generate_series(1, 100) i;
    CREATE TABLE hostile.empty (x real, y real);
    CREATE TABLE "Quo""ted"."ta""ble" AS SELECT x AS "x""x", y AS "y'" FROM hostile.line;
    CREATE DOMAIN hostile.small AS integer CHECK (VALUE < 10);
    CREATE TYPE hostile.pair AS (a integer, b text);
    CREATE TYPE hostile.mood AS ENUM ('sad', 'glad');
    SELECT {LINE};
    SELECT {SOILS};
"""
# Back to what the calls began with. What trains in the background may have been asked for data without end. Models of theirs go, and with them their data and their compiled copies.
RESET = f"""
    SELECT count(pgml.cancel(id)) FROM pgml.jobs WHERE status IN ('queued', 'running');
    SELECT count(pgml.wait(id, '10 s')) FROM pgml.jobs WHERE status IN ('queued', 'running');
    DELETE FROM pgml.training_jobs;
    DELETE FROM pgml.projects WHERE name NOT IN ('line', 'soils', '{SECRET_PROJECT}');
    DELETE FROM pgml.models WHERE id > 3;
    {again(2, LINE)}
    {again(3, SOILS)}
    SELECT setval('pgml.models_id_seq', 3);
    SELECT pgml.set_owner('line', '{OWNER}'), pgml.set_owner('soils', '{OWNER}');
    SELECT pgml.revoke(project, grantee, 'all') FROM pgml.grants WHERE grantee <> 'public';
"""

QUOTED = [
    "line",
    "soils",
    SECRET_PROJECT,
    "",
    " ",
    "Line",
    "lin",
    "it's",
    'dou"ble',
    "back\\slash",
    "new\nline",
    "tab\t",
    "\x01\x7f",
    "%s%n%d",
    "$1",
    ";--",
    "naïve 模型 🐘",
    "\u202e\ufeff",
    "e\u0301" * 30,
    "n" * 63,
    "n" * 64,
    "🐘" * 16,
    "hostile.line",
    "line; DROP TABLE hostile.line",
    "NULL",
    "NaN",
    "-1",
    "public",
    OTHER,
    STRANGER,
    "postgres",
    "all",
    "see",
    "predict",
    "iris",
    "regression",
    "classification",
    "clustering",
    "x",
    "y",
    "best_score",
]


def quote(text):
    """The text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def typed(name, *values):
    """Expressions of a type."""
    return [f"{value}::{name}" for value in values]


TEXTS = [quote(text) + "::text" for text in QUOTED] + [
    "repeat('n', 1000000)",
    "repeat('🐘', 250000)",
    "repeat('''', 10000)",
    "repeat('((', 5000)",
    "chr(1114111)",
]
QUERIES = [
    quote(text) + "::text"
    for text in (
        "hostile.line",
        "hostile.empty",
        "hidden",
        '"Quo""ted"."ta""ble"',
        "hostile.pair",
        "pg_catalog.pg_authid",
        "pg_catalog.pg_class",
        "pgml.files",
        "information_schema.tables",
        "(SELECT)",
        "()",
        "(",
        "(SELECT 1 AS y)",
        "(SELECT 1 AS x, 1 AS y WHERE false)",
        "(SELECT 1 AS x, 1 AS x, 1 AS y)",
        "(SELECT 1/0 AS x, 1 AS y)",
        "(SELECT pg_sleep(60) IS NULL AS x, 1 AS y)",
        "(SELECT i AS x, 1 AS y FROM generate_series(1, 2000000000) i)",
        "(SELECT repeat('x', 1000000) || i AS x, i AS y FROM generate_series(1, 500) i)",
        "(SELECT md5(i::text) AS x, i AS y FROM generate_series(1, 30000) i)",
        "(SELECT md5(i::text) AS y, i AS x FROM generate_series(1, 30000) i)",
        "(SELECT 'NaN'::float8 AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT i AS x, 'NaN'::float8 AS y FROM generate_series(1, 9) i)",
        "(SELECT i AS x, 'inf'::float8 AS y FROM generate_series(1, 9) i)",
        "(SELECT '-inf'::float8 AS x, 1e308::float8 * i / 10 AS y FROM generate_series(1, 9) i)",
        "(SELECT 1e40::float8 AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT 10::numeric ^ 400 AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT 'NaN'::numeric AS x, 10::numeric ^ 400 AS y FROM generate_series(1, 9) i)",
        "(SELECT ARRAY[]::int[] AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT ARRAY[i, i] AS x, i AS y FROM generate_series(1, 9) i UNION ALL SELECT ARRAY[1], 2)",
        "(SELECT '[3:4]={1,2}'::int[] AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT ARRAY[[1, 2], [3, NULL]] AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT array_fill(1::real, ARRAY[100000]) AS x, i AS y FROM generate_series(1, 3) i)",
        "(SELECT array_fill(1::real, ARRAY[1048577]) AS x, i AS y FROM generate_series(1, 3) i)",
        "(SELECT NULL::int AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT i AS x, NULL::int AS y FROM generate_series(1, 9) i)",
        "(SELECT i AS x, ARRAY[i] AS y FROM generate_series(1, 9) i)",
        "(SELECT ROW(1, 2) AS x, 1 AS y)",
        "(SELECT now() AS x, 1 AS y)",
        "(SELECT '{}'::jsonb AS x, 1 AS y)",
        "(SELECT i::hostile.small AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT 'sad'::hostile.mood AS x, i AS y FROM generate_series(1, 9) i)",
        "(SELECT i AS x, CASE WHEN i < 5 THEN 'sad' ELSE 'glad' END::hostile.mood AS y FROM generate_series(1, 9) i)",
        "(DELETE FROM hostile.line RETURNING *)",
        "(WITH d AS (DELETE FROM hostile.line RETURNING *) SELECT * FROM d)",
        "(SELECT * FROM hostile.line); DROP TABLE hostile.line; --",
        "(SELECT * FROM hostile.line FOR UPDATE)",
        "(SELECT pgml.train('line', algorithm => 'xgboost') IS NULL AS x, 1 AS y)",
        "(SELECT pgml.predict('line', ARRAY[x]) AS x, y FROM hostile.line)",
        "(SELECT pgml.deploy('line', 'rollback') IS NULL AS x, y FROM hostile.line)",
        "(WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT x, x AS y FROM r)",
        "(VALUES (1, 2), (3, 4))",
        "(TABLE hostile.line)",
        "(SELECT $1 AS x, 1 AS y)",
        "(SELECT " + ", ".join(f"{i} AS c{i}" for i in range(1600)) + ", 1 AS y)",
        "(SELECT 1 AS " + '"' + "n" * 64 + '", 1 AS y)',
        "(" * 4000,
    )
]
NUMBERS = {
    "smallint": ["0", "1", "(-32768)", "32767"],
    "integer": ["0", "1", "(-1)", "(-2147483648)", "2147483647"],
    "bigint": ["0", "1", "2", "3", "(-1)", "16777217", "(-9223372036854775808)", "9223372036854775807"],
    "real": ["0", "'-0'", "0.25", "1", "'NaN'", "'Infinity'", "'-Infinity'", "3.4028235e38", "1e-45", "(-1)"],
    "double precision": ["0", "'NaN'", "'Infinity'", "'-Infinity'", "1.7976931348623157e308", "4.9e-324", "1e40"],
    "numeric": ["0", "'NaN'", "(10::numeric ^ 400)", "(-(10::numeric ^ 5000))", "1e-400", "0." + "3" * 200],
    "boolean": ["true", "false"],
    "interval": ["'0'", "'-1 day'", "'1 microsecond'", "'178000000 years'", "'-178000000 years'"],
}
JSON = [
    quote(text)
    for text in (
        "{}",
        "null",
        "[]",
        "1",
        "true",
        '"x"',
        '{"n_estimators": 2}',
        '{"": 1}',
        '{"a\\"b": {"c": [1, null]}}',
        '{"n_estimators": 2147483647, "max_depth": 1}',
        '{"n_estimators": 1e400}',
        '{"n_estimators": -0.0}',
        '{"n_estimators": "2"}',
        '{"nthread": 2147483647, "n_estimators": 2}',
        '{"max_depth": 0, "max_leaves": 0, "n_estimators": 3}',
        '{"max_bin": 2147483647, "n_estimators": 1}',
        '{"num_class": 100000}',
        '{"seed": 9223372036854775807, "n_estimators": 1}',
        '{"monotone_constraints": "(1)", "n_estimators": 1}',
        '{"interaction_constraints": "[[0, 1000000000]]"}',
        '{"objective": "multi:softprob"}',
        '{"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]}',
        '{"eval_metric": ["rmse", "rmse", "x@1"]}',
        '{"num_parallel_tree": 100000000}',
    )
] + ["(repeat('[', 3000) || repeat(']', 3000))", "('{\"a\": \"' || repeat('x', 1000000) || '\"}')"]
# The values that hyperparameters are given, whatever they should be.
WRONG = [
    "null", "true", '""', "0", "1", "-1", "0.5", "1e308", "-1e308", "1e400", "9223372036854775808", '"NaN"', '"inf"',
    '"x"', "[]", "{}", "[[]]", '["x"]', "[0, 1]", '{"x": 1}', '{"x": "y"}', '"(1, -1)"', '"[[0, 1], [2]]"', "[1e-46]",
    '"' + "n" * 5000 + '"', '"it\'s \\u0000"', '"a,b,,"', "[" * 40 + "]" * 40,
]  # fmt: skip
# Whatever "any" and anyelement may be.
ANYTHING = [
    "1",
    "'x'",
    "NULL::integer",
    "NULL::text",
    "1::bigint",
    "1e400",
    "'NaN'::real",
    "'clay'::text",
    "'clay'::varchar",
    "'clay'::bpchar",
    "'c'::\"char\"",
    "true",
    "ROW()",
    "ROW(1, 2)",
    "ROW(NULL)",
    "NULL::record",
    "NULL::hostile.line",
    "(1, 1)::hostile.line",
    "(SELECT l FROM hostile.line l LIMIT 1)",
    "('clay', '{1,2}', true, 'rich')::hostile.soils",
    "('clay', '[5:6]={1,2}', true, NULL)::hostile.soils",
    "('clay', '{{1},{2}}', NULL, 'rich')::hostile.soils",
    "('clay', '{1}', NULL, 'rich')::hostile.soils",
    "(1, 'x')::hostile.pair",
    "5::hostile.small",
    "'sad'::hostile.mood",
    "ARRAY['clay', 'sand']",
    "ARRAY[ROW(1, 2)]",
    "ARRAY[true, NULL]",
    "ARRAY['sad']::hostile.mood[]",
    "'{1,2}'::int2vector",
    "'1 2'::oidvector",
    "'{}'::jsonb",
    "'[1,10)'::int4range",
    "now()",
    "'1 day'::interval",
    "'\\x00'::bytea",
    "'(1,2)'::point",
    "'0/0'::pg_lsn",
    "1::regclass",
    "'x'::name",
    "'127.0.0.1'::inet",
    "'<a/>'::xml",
    "repeat('x', 1000000)",
    "array_fill(1::real, ARRAY[1000000])",
]


def arrays(element):
    """Arrays of a type of numbers: of no, one and many dimensions, with other bounds, NULLs, and what is largest."""
    values = list(NUMBERS.get(element, ["NULL"]))
    shapes = ["'{}'", "'{NULL}'", "'{{}}'", "'[0:0]={1}'", "'[-2147483648:-2147483647]={1,0}'", "'[5:6]={1,0}'"]
    shapes += ["'{{1,0},{0,1}}'", "'{{{{{{1}}}}}}'", "'[2:2][-1:0]={{1,NULL}}'", "'{1}'", "'{1,0,1,1}'"]
    shapes += [f"ARRAY[{value}::{element}]" for value in values]
    shapes += [f"array_fill(1::{element}, ARRAY[{size}])" for size in ("4", "100000", "1000, 100", "2, 2, 2, 2, 2, 2")]
    return typed(f"{element}[]", *shapes)


@dataclasses.dataclass(frozen=True)
class Function:
    """A row of pg_proc: how it is called."""

    name: str
    types: tuple
    names: tuple
    variadic: bool

    def values(self, position, enums):
        """Hostile values for an argument: what is of its type, and what is not."""
        kind, name = self.types[position], self.names[position]
        found = [f"NULL::{kind}", "''", "'{}'", "'-1'", "'x'", "1", "true"]
        if kind in ('"any"', "anyelement"):
            return ["NULL", *ANYTHING] + [value for element in NUMBERS for value in arrays(element)[:12]]
        if kind == "text":
            return found + TEXTS + (QUERIES if name == "relation_name" else [])
        if kind in NUMBERS:
            return found + typed(kind, *NUMBERS[kind])
        if kind.endswith("[]"):
            return found + arrays(kind[:-2])
        if kind in ("json", "jsonb"):
            return found + typed(kind, *JSON)
        return found + [quote(label) for label in enums.get(kind, [])]

    def usual(self, position, roll):
        """A value that is nothing special."""
        kind, name = self.types[position], self.names[position]
        usual = USUAL_OF.get(self.name, {}).get(name) or USUAL.get(name)
        if usual:
            return roll.choice(usual)
        if kind in ('"any"', "anyelement"):
            return roll.choice(["1", "2.5", "'clay'::text", "(1, 1)::hostile.line"])
        if kind.endswith("[]"):
            return f"'{{1}}'::{kind}"
        usual = {"text": "'line'::text", "jsonb": "'{}'::jsonb", "interval": "'10 ms'::interval"}
        return usual.get(kind, f"'1'::{kind}" if kind in NUMBERS else "NULL")

    def call(self, values):
        """The call in SQL."""
        return f"pgml.{self.name}({', '.join(values)})"


USUAL = {
    "project_name": ["'line'::text", "'soils'::text"],
    "relation_name": ["'hostile.line'::text"],
    "y_column_name": ["'y'::text"],
    "task": ["'regression'::text"],
    "algorithm": ["'xgboost'"],
    "hyperparams": ["'{\"n_estimators\": 2}'::jsonb"],
    "search": ["NULL"],
    "test_size": ["0.25::real"],
    "test_sampling": ["'random'", "'stratified'"],
    "materialize_snapshot": ["false"],
    "runtime": ["NULL"],
    "preprocess": ["'{}'::jsonb"],
    "source": ["'wine'::text"],
    "subset": ["NULL"],
    "role": [f"'{OTHER}'::text"],
    "privilege": ["'predict'::text", "'all'::text"],
    "strategy": ["'most_recent'", "'rollback'"],
    "model_id": ["1::bigint", "2::bigint", "3::bigint"],
}
# Of one function, where the names of its arguments mean something else.
USUAL_OF = {name: {"project_name": ["'line'::text", "'mine'::text"]} for name in ("train", "train_async")}


def functions(sql):
    """All functions of the schema, and the labels of its enums."""
    rows = sql("""
        SELECT proname, coalesce((SELECT string_agg(format_type(type, NULL), '|' ORDER BY place)
                FROM unnest(proargtypes) WITH ORDINALITY t (type, place)), ''),
            coalesce(array_to_string(proargnames[:pronargs], '|', ''), ''), provariadic <> 0
        FROM pg_proc WHERE pronamespace = 'pgml'::regnamespace ORDER BY oid::regprocedure::text COLLATE "C"
    """)
    found = []
    for name, types, names, variadic in rows:
        types = tuple(types.split("|")) if types else ()
        names = tuple((names.split("|") if names else []) + [""] * len(types))[: len(types)]
        found.append(Function(name, types, names, variadic))
    enums = sql("""
        SELECT format_type(t.oid, NULL), string_agg(e.enumlabel, '|' ORDER BY e.enumsortorder)
        FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid GROUP BY t.oid ORDER BY 1
    """)
    return found, {name: labels.split("|") for name, labels in enums}


def hyperparameters():
    """All that are documented."""
    page = (ROOT / "docs" / "reference" / "xgboost-hyperparameters.md").read_text()
    return sorted(set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)))


def walk(found, enums, roll, share=1):
    """Every function, with NULL and a share of all hostile values in each position, and usual ones in the others."""
    for function in found:
        if not function.types:
            yield function.call([])
        for position in range(len(function.types)):
            for number, value in enumerate(function.values(position, enums)):
                if number and roll.random() >= share:
                    continue
                values = [function.usual(at, roll) for at in range(len(function.types))]
                values[position] = value
                yield function.call(values)
        if function.variadic:
            for value in (
                "NULL::int[]",
                "'{}'::int[]",
                "'{1,NULL}'::real[]",
                "'{{1,2}}'::int[]",
                "'{clay}'::text[]",
                "1",
            ):
                values = [function.usual(at, roll) for at in range(len(function.types) - 1)]
                yield function.call([*values, f"VARIADIC {value}"])
            yield function.call([function.usual(0, roll)] + ["1"] * 99)
    for name in hyperparameters():
        for value in roll.sample(WRONG, round(len(WRONG) * share)):
            yield train(
                f'{{"n_estimators": 2, "{name}": {value}}}' if name != "n_estimators" else f'{{"{name}": {value}}}'
            )


def train(hyperparams, project="line", task="regression", data="hostile.line", label="y"):
    """A training with such hyperparameters."""
    return f"pgml.train('{project}', '{task}', '{data}', '{label}', 'xgboost', {quote(hyperparams)})"


def random_training(names, roll):
    """A training of hostile hyperparameters or of hostile data."""
    label = roll.choice([("line", "regression"), ("mine", "regression"), ("soils", "classification")])
    if roll.random() < 0.5:
        query = roll.choice(QUERIES).removesuffix("::text")
        return f"pgml.train('{label[0]}', '{label[1]}', {query}, '{roll.choice('xy')}', 'xgboost', '{{\"n_estimators\": 3}}')"
    given = {name: roll.choice(WRONG) for name in roll.sample(names, roll.randint(1, 4))}
    text = "{" + ", ".join(f'"{name}": {value}' for name, value in given.items()) + "}"
    return train(text, *label, *(("hostile.soils", "yield") if label[0] == "soils" else ()))


def random_calls(found, enums, roll):
    """Calls of several hostile values, without end."""
    names = hyperparameters()
    while True:
        if roll.random() < 0.2:
            yield random_training(names, roll)
            continue
        function = roll.choice(found)
        values = []
        for position in range(len(function.types)):
            hostile = roll.random() < 0.4
            values.append(roll.choice(function.values(position, enums)) if hostile else function.usual(position, roll))
        if function.variadic:
            values += [roll.choice(ANYTHING) for _ in range(roll.choice([0, 0, 1, 3, 8]))]
        yield function.call(values)


def statements(calls, roll):
    """The calls as statements: once, or for rows that differ, or where a plan is kept for the next time."""
    for call in calls:
        shape = roll.random()
        if shape < 0.7:
            yield f"SELECT left((q.*)::text, 5000) FROM (SELECT {call} AS a) q"
        elif shape < 0.9:
            yield f"SELECT left((q.*)::text, 5000) FROM (SELECT {call} AS a FROM generate_series(1, 3)) q"
        else:
            yield f"SELECT count(*) FROM hostile.line WHERE {call} IS NOT NULL"


class Fault(Exception):
    """What must not be."""


class Caller:
    """A connection of a role, and what is watched of its backend."""

    def __init__(self, connection, role, seconds):
        self.role = role
        self.cursor = connection.cursor()
        self.cursor.execute("SELECT pg_backend_pid()")
        self.pid = self.cursor.fetchone()[0]
        self.cursor.execute(f"SET SESSION AUTHORIZATION {role}")
        self.cursor.execute(f"SET statement_timeout = '{seconds}s'")
        self.cursor.execute("SET client_min_messages = error")
        self.seconds = seconds
        self.states = {}
        self.slowest = (0, "")

    def call(self, statement, undone):
        """Makes a call; `undone` in a transaction that is rolled back."""
        began = time.monotonic()
        try:
            if undone:
                self.cursor.execute("BEGIN")
            self.cursor.execute(statement)
            answer, state = repr(self.cursor.fetchall()), "00000"
        except pg8000.dbapi.DatabaseError as error:
            if not isinstance(error.args[0], dict):
                raise Fault(f"the connection: {error}") from error
            answer, state = repr(error.args[0]), error.args[0]["C"]
        except (pg8000.dbapi.InterfaceError, OSError) as error:
            raise Fault(f"the connection broke, or nothing came in time: {error!r}") from error
        took = time.monotonic() - began
        if undone:
            self.cursor.execute("ROLLBACK")
        self.states[state] = self.states.get(state, 0) + 1
        self.slowest = max(self.slowest, (took, statement[:300]))
        if took > self.seconds + SLACK:
            raise Fault(f"it took {took:.1f} s")
        if state[:2] in ("XX", "58") or state in ("38000", "P0000"):
            raise Fault(f"an ERROR that is not the caller's: {answer[:1000]}")
        if SECRET_VALUE in answer or (SECRET_PROJECT in answer and SECRET_PROJECT not in statement):
            raise Fault(f"{self.role} was told {answer[:1000]}")

    def memory(self):
        """Bytes of its own that the backend has written to."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Private_Dirty: *(\d+) kB", text, re.MULTILINE)[1]) * 1024

    def files(self):
        """How many files it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Arena:
    """A database with projects, an owner and a stranger who call, and what all of it must leave alone."""

    def __init__(self, server, name, stack, seconds=1):
        self.server = server
        self.name = name
        self.watch = stack.enter_context(connection(server, name)).cursor()
        patience = seconds + SLACK + 20
        self.callers = [
            Caller(stack.enter_context(connection(server, name, timeout=patience)), role, seconds)
            for role in (OWNER, STRANGER)
        ]
        self.started = self.sql("SELECT pg_postmaster_start_time()::text, backend_start::text FROM pg_stat_activity "
                                "WHERE backend_type = 'checkpointer'")  # fmt: skip
        self.found, self.enums = functions(self.sql)
        self.calls = 0

    def sql(self, text):
        """What a superuser is answered."""
        self.watch.execute(text)
        return self.watch.fetchall()

    def run(self, calls, roll, checked_every=25):
        """Makes the calls as both roles; a Fault names the statement."""
        for number, statement in enumerate(statements(calls, roll)):
            undone = roll.random() < 0.7
            for caller in self.callers:
                self.calls += 1
                try:
                    caller.call(statement, undone)
                    if number % checked_every == 0:
                        self.check()
                except Fault as fault:
                    raise Fault(
                        f"as {caller.role}, {'rolled back' if undone else 'committed'}: {statement[:3000]}\n{fault}"
                    ) from fault

    def check(self):
        """The server has not begun anew, and who is idle holds no lock and no temporary file."""
        pids = [caller.pid for caller in self.callers]
        held = self.sql(
            f"SELECT pid, locktype, mode, relation::regclass::text FROM pg_locks WHERE pid = ANY (ARRAY{pids})"
        )
        if held:
            raise Fault(f"locks are held: {held}")
        now = self.sql("SELECT pg_postmaster_start_time()::text, backend_start::text FROM pg_stat_activity "
                       "WHERE backend_type = 'checkpointer'")  # fmt: skip
        if now != self.started:
            raise Fault("the server began anew")
        left = [
            path
            for path in (self.server.data / "base" / "pgsql_tmp").glob("*")
            if path.name.split(".")[0][9:] in map(str, pids)
        ]
        if left:
            raise Fault(f"temporary files are left: {left}")

    def reset(self):
        """What calls have made goes."""
        for statement in RESET.split(";"):
            if statement.strip():
                self.watch.execute(statement)


@contextlib.contextmanager
def arena(server, name="hostile_calls"):
    """A database for hostile calls, gone afterwards."""
    roles = f"{OWNER}, {STRANGER}, {OTHER}"
    server.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.psql(f"DROP ROLE IF EXISTS {roles}")
    server.psql("".join(f"CREATE ROLE {role};" for role in (OWNER, STRANGER, OTHER)))
    server.psql(f"CREATE DATABASE {name}")
    try:
        server.psql("CREATE EXTENSION pgml", name)
        server.psql(SETUP, name)
        with contextlib.ExitStack() as stack:
            yield Arena(server, name, stack)
    finally:
        # Not where a backend is deaf: that has been told.
        with contextlib.suppress(Problem):
            server.psql(f"DROP DATABASE {name} WITH (FORCE)")
            server.psql(f"DROP ROLE {roles}")


def long_run(place, seed, seconds):
    """Walks once, then makes calls up, a round of them with a seed of its own at a time."""
    end = time.monotonic() + seconds
    said = time.monotonic()
    for number in itertools.count():
        roll = random.Random(f"{seed}:{number}")
        calls = walk(place.found, place.enums, roll) if number == 0 else random_calls(place.found, place.enums, roll)
        for batch in itertools.count():
            taken = list(itertools.islice(calls, 100))
            if not taken or (number and batch == 10):
                break
            place.run(taken, roll)
            place.reset()
            if time.monotonic() > end:
                return
            if time.monotonic() > said + 30:
                said = time.monotonic()
                memory = ", ".join(f"{caller.memory() >> 20} MB and {caller.files()} files" for caller in place.callers)
                print(f"round {number}: {place.calls} calls, the backends have {memory}", flush=True)


def main():
    """`python -m tests.hostile`"""
    parser = argparse.ArgumentParser(prog="tests.hostile", description=__doc__.splitlines()[0])
    parser.add_argument("--pg", type=int, default=postgres.NEWEST)
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    end_on_signals()
    with Server(postgres.tree(chosen.pg)) as server, arena(server) as place:
        try:
            long_run(place, chosen.seed, chosen.seconds)
        except Fault as fault:
            print(f"seed {chosen.seed}, after {place.calls} calls: {fault}\n{server.log_tail()}")
            return 1
        for caller in place.callers:
            states = ", ".join(f"{state} {count}" for state, count in sorted(caller.states.items()))
            print(f"{caller.role}: {states}; slowest {caller.slowest[0]:.2f} s: {caller.slowest[1]}")
        print(f"{place.calls} calls of {len(place.found)} functions: nothing that must not be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
