"""Codecs that a program sets: functions around text, bytes and tuples, and types that look like built-in ones."""

import decimal
import json

import pytest

from .sides import Sides, difference


class Both:
    """Does the same to both connections and undoes it."""

    def __init__(self, sides: Sides):
        self.sides = sides
        self.set = []

    def codec(self, name, schema="pg_catalog", **options):
        """Sets a codec; both must take or refuse it alike."""
        self.set.append((name, schema))
        return self.ask("set_type_codec", name, schema=schema, **options)

    def alias(self, name, schema="public", **options):
        """Sets a built-in codec; both must take or refuse it alike."""
        self.set.append((name, schema))
        return self.ask("set_builtin_type_codec", name, schema=schema, **options)

    def ask(self, method, *args, **options):
        """Calls the same method of both; both must take or refuse it alike."""
        ours = self.sides.outcome(self.sides.ours, method, *args, **options)
        theirs = self.sides.outcome(self.sides.theirs, method, *args, **options)
        assert difference(ours, theirs) is None, f"{method} {args}: howdah: {ours}, asyncpg: {theirs}"
        return ours

    def undo(self):
        """Resets all codecs set."""
        for name, schema in self.set:
            for connection in (self.sides.ours, self.sides.theirs):
                self.sides.outcome(connection, "reset_type_codec", name, schema=schema)


@pytest.fixture
def both(sides):
    """Sets codecs on both connections for the length of a test."""
    made = Both(sides)
    yield made
    made.undo()


def refuse(_value):
    raise LookupError("no")


def test_a_text_codec_is_used_in_rows_arrays_and_parameters(both):
    both.codec("json", encoder=json.dumps, decoder=json.loads)
    both.codec("jsonb", encoder=json.dumps, decoder=json.loads)
    for name in ("json", "jsonb"):
        both.sides.same(f"SELECT $1::{name}", {"a": [1, None]})
        both.sides.same(f"SELECT '[1, {{}}]'::{name}")
        both.sides.same(f"SELECT $1::{name}[]", [{"a": 1}, "x,y", None])
        both.sides.same(f"SELECT '{{\"{{}}\", null}}'::{name}[]")
        both.sides.same(f"SELECT $1::{name}", object())


def test_a_binary_codec_exchanges_bytes(both):
    both.codec("int4", encoder=lambda n: (n * 2).to_bytes(4, "big"), decoder=bytes.hex, format="binary")
    for value in (1, 5, "x", -1, None):
        both.sides.same("SELECT $1::int4", value)
        both.sides.same("SELECT $1::int4[]", [value, 7])
    both.sides.same("SELECT int4range(1, 5)")
    both.sides.same("SELECT row(1, 2)")


@pytest.mark.parametrize(
    ("name", "literals"),
    [
        ("date", ["2020-01-01", "infinity", "-infinity", "4000-01-01 BC"]),
        ("time", ["01:02:03.4", "24:00"]),
        ("timetz", ["01:02:03.4+05:30"]),
        ("timestamp", ["2020-01-01 01:02", "infinity"]),
        ("timestamptz", ["2020-01-01 01:02+03", "-infinity"]),
        ("interval", ["1 year 2 mons -3 days 4 us"]),
    ],
)
def test_tuple_codecs_exchange_numbers(both, name, literals):
    both.codec(name, encoder=lambda value: value, decoder=lambda value: ("read", value), format="tuple")
    for literal in literals:
        outcome = both.sides.same(f"SELECT '{literal}'::{name}")
        both.sides.same(f"SELECT $1::{name}", outcome.value[1])
        both.sides.same(f"SELECT $1::{name}[]", [list(outcome.value[1])])
    for wrong in ((), (1, 2, 3, 4), ("x",) * len(outcome.value[1]), 5, (2**70,) * len(outcome.value[1])):
        both.sides.same(f"SELECT $1::{name}", wrong)


def test_tuple_codecs_of_composites_exchange_their_attributes(both):
    both.sides.execute(
        "DROP TYPE IF EXISTS outer_pair, number_pair; CREATE TYPE number_pair AS (a int, b text);"
        "CREATE TYPE outer_pair AS (x number_pair, y int)"
    )
    both.codec(
        "number_pair",
        "public",
        encoder=lambda value: value.split("/"),
        decoder=lambda value: (value["a"], value[1]),
        format="tuple",
    )
    for value in ("1", None, 5):
        both.sides.same("SELECT $1::number_pair", value)
    both.sides.same("SELECT row(1, 'x')::number_pair")
    both.sides.same("SELECT array[row(1, 'x')::number_pair]")
    both.sides.same("SELECT row(row(1, 'x')::number_pair, 2)::outer_pair")


def test_codecs_are_refused_alike(both):
    both.sides.execute(
        "DROP TYPE IF EXISTS plain_pair; CREATE TYPE plain_pair AS (a int);"
        "DROP DOMAIN IF EXISTS plain_domain; CREATE DOMAIN plain_domain AS int"
    )
    functions = {"encoder": str, "decoder": str}
    for name, schema, options in (
        ("nothing", "public", {}),
        ("int4", "pg_catalog", {"format": "tuple"}),
        ("int4", "pg_catalog", {"format": "bad"}),
        ("_int4", "pg_catalog", {}),
        ("int4range", "pg_catalog", {}),
        ("plain_pair", "public", {}),
        ("plain_pair", "public", {"format": "binary"}),
        ("plain_domain", "public", {}),
    ):
        both.codec(name, schema, **functions, **options)


def test_what_functions_raise_is_told_alike(both):
    both.codec("int8", encoder=refuse, decoder=refuse, format="binary")
    both.sides.same("SELECT 1::int8")
    both.sides.same("SELECT $1::int8", 1)
    both.sides.same("SELECT $1::int8[]", [1])
    both.codec("int8", encoder=lambda value: value, decoder=lambda value: value, format="text")
    both.sides.same("SELECT $1::int8", 1)
    both.sides.same("SELECT $1::int8", "17")
    both.codec("int8", encoder=lambda value: value, decoder=lambda value: value, format="binary")
    both.sides.same("SELECT $1::int8", "x")
    both.sides.same("SELECT $1::int8", b"x")


def test_text_codecs_of_bounds_and_attributes_are_refused_alike(both):
    both.sides.execute("DROP TYPE IF EXISTS dated; CREATE TYPE dated AS (a date, b int)")
    both.codec("date", encoder=str, decoder=str)
    both.sides.same("SELECT daterange('2020-01-01', '2020-02-01')")
    both.sides.same("SELECT datemultirange(daterange('2020-01-01', '2020-02-01'))")
    both.sides.same("SELECT row('2020-01-01', 1)::dated")
    both.sides.same("SELECT array['2020-01-01'::date]")


def test_resetting_a_codec_resets_what_was_made_of_it(both):
    both.codec("numeric", encoder=str, decoder=float)
    assert both.sides.same("SELECT array[1.5]").value == [1.5]
    both.undo()
    assert both.sides.same("SELECT array[1.5]").value == [decimal.Decimal("1.5")]


def test_types_are_aliased_alike(both):
    both.sides.execute("DROP DOMAIN IF EXISTS like_int CASCADE; CREATE DOMAIN like_int AS int")
    both.sides.execute("DROP TYPE IF EXISTS look CASCADE; CREATE TYPE look AS ENUM ('1', '2')")
    both.alias("look", codec_name="int")
    both.alias("look", codec_name="varchar")
    both.sides.same("SELECT '1'::look")
    for codec_name, form in (("nothing", None), ("int", "text"), ("text", "bad"), ("uuid", "text")):
        both.alias("look", codec_name=codec_name, format=form)
    both.sides.same("SELECT '2'::look")
    both.sides.same("SELECT array['2'::look]")


def test_a_custom_codec_of_an_enum_is_used(both):
    both.sides.execute("DROP TYPE IF EXISTS shade CASCADE; CREATE TYPE shade AS ENUM ('dark', 'light')")
    both.sides.same("SELECT 'dark'::shade")
    both.codec("shade", "public", encoder=str.lower, decoder=str.upper)
    both.sides.same("SELECT $1::shade", "LIGHT")
    both.sides.same("SELECT $1::shade[]", ["LIGHT", None])
    both.sides.same("SELECT $1::shade", 5)


def test_a_changed_composite_is_told_apart_alike(sides):
    sides.execute(
        "DROP TABLE IF EXISTS changing; CREATE TABLE changing (a int, b text); INSERT INTO changing VALUES (1, 'x')"
    )
    sides.same("SELECT changing FROM changing")
    sides.execute("ALTER TABLE changing ADD COLUMN c date")
    sides.same("SELECT changing AS again FROM changing")
    for connection in (sides.ours, sides.theirs):
        sides.run(connection.reload_schema_state())
    sides.same("SELECT changing AS third FROM changing")
