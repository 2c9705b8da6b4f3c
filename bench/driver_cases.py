"""What the drivers are asked: the statements of each case, and the rows that are written."""

import datetime

SETUP = """
create table bench_bytea as
    select convert_to(repeat('x', 1024), 'utf8') as b from generate_series(1, 100);
create table bench_arrays as
    select (select array_agg(j) from generate_series(1, 100) j) as a from generate_series(1, 100);
create table bench_wide as
    select now() + interval '1 second' * i as a1, now() - interval '1 day' * i as a2, (i * 1.25)::numeric(12, 2) as b1,
        i::numeric / 7 as b2, gen_random_uuid() as c1, gen_random_uuid() as c2, current_date + i as d,
        jsonb_build_object('a', i) as e, 'text ' || i as f, 'another' as g
    from generate_series(1, 500) i;
create table bench_big as
    select i as a, i::bigint * 3 as b, i / 7.0::float8 as c, 'text ' || i as d, now() + interval '1 second' * i as e
    from generate_series(1, 100000) i;
create unlogged table bench_write (a int, b bigint, c double precision, d text, e timestamptz);
"""

# The four queries of the benchmark of 2016, and rows of ten columns of the types that are dear to decode.
QUERIES = {
    "pg_type": "select typname, typnamespace, typowner, typlen, typbyval, typcategory, typispreferred, typisdefined,"
    " typdelim, typrelid, typelem, typarray from pg_type where typtypmod = -1 and typisdefined = true",
    "integers": "select i from generate_series(1, 1000) i",
    "bytea": "select b from bench_bytea",
    "arrays": "select a from bench_arrays",
    "wide": "select * from bench_wide",
}
FOUR = ("pg_type", "integers", "bytea", "arrays")
BIG = "select * from bench_big"
BIG_ROWS = 100_000
COPIED_OUT = 20_000
COPY_OUT = f"copy (select * from bench_big limit {COPIED_OUT}) to stdout (format binary)"
WRITTEN = 1000
COPIED_IN = 10_000
COPY_IN = "copy bench_write from stdin"
TYPES = ["int4", "int8", "float8", "text", "timestamptz"]


def connections(case):
    """How many connections of its own a driver asks the case on; those of a pool not counted."""
    if case in QUERIES or case == "select 1, 10 connections":
        return 10
    return 1


def tasks(case):
    """How many ask at the same time."""
    if case == "100 fetchval at once":
        return 100
    return 10 if case == "pool.fetchval" else connections(case)


def rows(count):
    """So many rows for `bench_write`."""
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
    return [(i, i * 3, i / 7, f"text {i}", now) for i in range(count)]


def expected(case):
    """How many rows the case is, where that does not depend on the server."""
    known = {"executemany": WRITTEN, "copy in": COPIED_IN, "copy out": COPIED_OUT, "columns": BIG_ROWS}
    known |= {"integers": 1000, "bytea": 100, "arrays": 100, "wide": 500}
    return known.get(case)
