"""Every built-in type alone and in arrays, ranges and composites: as asyncpg reads and writes it, to the exception."""

import decimal
import itertools
import re

import pytest
from howdah import exceptions
from howdah.types import Range
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..examples import examples
from .samples import SAMPLES
from .sides import translated

NAMES = [sample.name for sample in SAMPLES]
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=NAMES)
unhurried = settings(
    max_examples=examples(15),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def plain(name):
    """A type's name that can be part of another name."""
    return re.sub(r"\W", "", name)


def ask(sides, sql, value):
    """Sends the same value by both."""
    return sides.same(sql, value, args=(translated(value),))


@each_sample
def test_a_value_comes_back_as_asyncpg_has_it(sides, sample):
    @unhurried
    @given(sample.values)
    def each(value):
        ask(sides, f"SELECT $1::{sample.name}", value)

    each()
    sides.same(f"SELECT $1::{sample.name}", None)


@each_sample
def test_a_value_is_written_as_asyncpg_writes_it(sides, sample):
    @unhurried
    @given(sample.values)
    def each(value):
        ask(sides, f"SELECT ($1::{sample.name})::text", value)

    each()


@each_sample
def test_literals_are_read_alike(sides, sample):
    for literal in sample.literals:
        sides.same(f"SELECT '{literal}'::{sample.name}")
        if sample.parts:
            sides.same(f"SELECT array['{literal}'::{sample.name}, NULL]")


@each_sample
def test_wrong_values_are_refused_alike(sides, sample):
    for value in sample.wrong:
        ask(sides, f"SELECT $1::{sample.name}", value)
        if sample.parts:
            ask(sides, f"SELECT $1::{sample.name}[]", [value])


@each_sample
def test_arrays_of_any_dimension_come_back(sides, sample):
    if not sample.parts:
        return
    shapes = st.sampled_from([(0,), (1,), (3,), (2, 2), (1, 2, 2), (1, 1, 1, 1, 2, 1)])

    @unhurried
    @given(st.data())
    def each(data):
        shape = data.draw(shapes)
        count = 1
        for size in shape:
            count *= size
        values = data.draw(st.lists(st.one_of(st.none(), sample.values), min_size=count, max_size=count))
        ask(sides, f"SELECT $1::{sample.name}[]", nested(iter(values), shape))

    each()


def nested(values, shape):
    """Lists within lists, of these sizes."""
    if len(shape) == 1:
        return list(itertools.islice(values, shape[0]))
    return [nested(values, shape[1:]) for _ in range(shape[0])]


@each_sample
def test_composites_come_back(sides, sample):
    if not sample.parts:
        return
    name = f"composite_{plain(sample.name)}"
    sides.execute(f"DROP TYPE IF EXISTS {name}; CREATE TYPE {name} AS (a {sample.name}, b {sample.name}[], c int)")

    @unhurried
    @given(sample.values, st.lists(sample.values, max_size=3), st.one_of(st.none(), st.integers(0, 9)))
    def each(one, many, number):
        ask(sides, f"SELECT $1::{name}", (one, many, number))
        ask(sides, f"SELECT $1::{name}[]", [(one, many, number), None])
        ask(sides, f"SELECT $1::{name}", {"a": one, "c": number})
        ask(sides, f"SELECT row($1::{sample.name}, $1::{sample.name})", one)

    each()
    for wrong in ((), (None,), (None, None, None, None), {"z": 1}, 5, "abc", {5: 1}):
        ask(sides, f"SELECT $1::{name}", wrong)


@each_sample
def test_ranges_and_multiranges_come_back(sides, sample):
    if not sample.rangeable:
        return
    name = f"range_{plain(sample.name)}"
    sides.execute(f"DROP TYPE IF EXISTS {name}; CREATE TYPE {name} AS RANGE (subtype = {sample.name})")
    multi = f"{name}_multirange" if "range" not in name else name.replace("range", "multirange", 1)

    @unhurried
    @given(sample.values, sample.values, st.booleans(), st.booleans(), st.integers(0, 9))
    def each(low, high, low_in, high_in, which):
        # A lower bound above the upper one is the server's to refuse.
        value = Range(low, high, lower_inc=low_in, upper_inc=high_in)
        value = {0: Range(empty=True), 1: Range(low, None), 2: Range(None, high), 3: (low, high), 4: [low], 5: ()}.get(
            which, value
        )
        ask(sides, f"SELECT $1::{name}", value)
        ask(sides, f"SELECT $1::{name}[]", [value, None])
        ask(sides, f"SELECT $1::{multi}", [value, Range(high, None)])

    each()
    for wrong in (5, "ab", (1, 2, 3), {"a": 1}, [object()]):
        ask(sides, f"SELECT $1::{name}", wrong)
        ask(sides, f"SELECT $1::{multi}", wrong)


@pytest.mark.parametrize("name", ["int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"])
def test_built_in_ranges_come_back(sides, name):
    of = {"int4range": "int4", "int8range": "int8", "numrange": "numeric", "tsrange": "timestamp"}
    of = {**of, "tstzrange": "timestamptz", "daterange": "date"}[name]
    values = next(sample.values for sample in SAMPLES if sample.name == of)

    @unhurried
    @given(values, values, st.booleans(), st.booleans())
    def each(low, high, low_in, high_in):
        value = Range(low, high, lower_inc=low_in, upper_inc=high_in)
        ask(sides, f"SELECT $1::{name}", value)
        ask(sides, f"SELECT $1::{name}[]", [value])
        ask(sides, f"SELECT $1::{name.replace('range', 'multirange')}", [value])
        ask(sides, f"SELECT $1::{name.replace('range', 'multirange')}[]", [[value]])

    each()


def test_void_unknown_and_pseudo_types_are_read_alike(sides):
    for sql in (
        "SELECT pg_sleep(0)",
        "SELECT 'x'",
        "SELECT NULL",
        "SELECT row(1, 'a', NULL, array['a'], row(2))",
        "SELECT array[row(1, 2), row(3, 4)]",
        "SELECT proargtypes FROM pg_proc WHERE proname = 'int4pl'",
        "SELECT indkey FROM pg_index LIMIT 1",
        "SELECT relacl FROM pg_class WHERE relname = 'pg_class'",
        "SELECT adbin FROM pg_attrdef LIMIT 1",
        "SELECT stxdmcv FROM pg_statistic_ext_data LIMIT 1",
        "SELECT typdefaultbin FROM pg_type WHERE typdefaultbin IS NOT NULL LIMIT 1",
        "SELECT '{a,b}'::name[]",
        "SELECT t FROM pg_type AS t LIMIT 1",
        "SELECT a FROM pg_am AS a ORDER BY oid LIMIT 1",
        "SELECT '1 2 3'::int2vector",
        "SELECT '[5:6]={1,2}'::int[]",
        "SELECT '{{{{{{1}}}}}}'::int[]",
        "SELECT '(1,2)'::macaddr[]",
        "SELECT '{(1\\,2)}'::aclitem[]",
    ):
        sides.same(sql)


def test_arrays_of_text_only_types_are_parsed(sides):
    for literal in ("{}", "{NULL}", '{"$1.00"}', "{1,2}", "{{1,2},{3,4}}", "[2:3]={1,2}"):
        sides.same(f"SELECT '{literal}'::money[]")
    for value in (["a b", 'q"q', "b\\s", "NULL", "{x}", "c,d"], [None, "x"], [["a"], ["b"]], []):
        sides.same("SELECT $1::refcursor[]", value)
    for value in (["", "x"], [[""], [""]]):
        assert sides.outcome(sides.ours, "fetchval", "SELECT $1::refcursor[]", value).value == value


def test_an_interval_beyond_pythons_is_an_error(sides):
    # asyncpg counts its days in 32 bits and gives another interval.
    outcome = sides.outcome(sides.ours, "fetchval", "SELECT '178000000 years'::interval")
    assert isinstance(outcome.error, OverflowError)


def test_arrays_are_refused_as_asyncpg_refuses_them(sides):
    class Unsized:
        def __iter__(self):
            return iter([1])

    class Lying:
        def __init__(self, length, items):
            self.length, self.items = length, items

        def __len__(self):
            return self.length

        def __iter__(self):
            return iter(self.items)

    for value in (
        1,
        "ab",
        b"ab",
        {1: 2},
        {1, 2},
        frozenset([1]),
        range(3),
        (1, 2),
        ((1, 2), (3, 4)),
        [(1, 2), [3, 4]],
        [1, [1]],
        [[1], 1],
        [[1], [1, 2]],
        [[[[[[[1]]]]]]],
        [[]],
        [[], []],
        [1, "t"],
        [["t"]],
        Unsized(),
        Lying(1, [1]),
        iter([1]),
        [None, [1]],
        [[1], None],
    ):
        sides.same("SELECT $1::int[]", value)


def test_domains_and_enums_come_back(sides):
    sides.execute(
        """DROP DOMAIN IF EXISTS positives, positive; DROP TYPE IF EXISTS colour;
        CREATE DOMAIN positive AS int CHECK (value > 0);
        CREATE DOMAIN positives AS positive[];
        CREATE TYPE colour AS ENUM ('red', 'dark "blue"', 'NULL')"""
    )
    for value in (1, -1, "x", None):
        sides.same("SELECT $1::positive", value)
    for value in ([1, 2], [-1], [], None, 5):
        sides.same("SELECT $1::positive[]", value)
        sides.same("SELECT $1::positives", value)
    for value in ("red", 'dark "blue"', "NULL", "green", 5, None):
        sides.same("SELECT $1::colour", value)
        sides.same("SELECT $1::colour[]", [value, "red"])
        sides.same("SELECT $1::colour[]", [[value], ["NULL"]])


def test_a_numeric_of_more_digits_than_postgresqls_is_refused(sides):
    """It is not stored as 0, as asyncpg does."""
    for digits in (131_072, 200_000):
        with pytest.raises(exceptions.DataError, match="exponent is too large"):
            sides.run(sides.ours.fetchval("SELECT $1::numeric", decimal.Decimal(f"-1E+{digits}")))
    assert sides.run(sides.ours.fetchval("SELECT $1::numeric > 0", decimal.Decimal("1E+131071")))
