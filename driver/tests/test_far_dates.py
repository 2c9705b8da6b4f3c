"""Dates that Python's classes do not hold, by what the program has said becomes of them; hints about them and others."""

import datetime
import random

import howdah
import howdah.dbapi
import pytest
from howdah import far_dates

UTC = datetime.timezone.utc
FAR = [
    ("'infinity'::date", "infinity"),
    ("'-infinity'::date", "-infinity"),
    ("'0044-03-15 BC'::date", "0044-03-15 BC"),
    ("'4713-11-24 BC'::date", "4713-11-24 BC"),
    ("'5874897-12-31'::date", "5874897-12-31"),
    ("'infinity'::timestamp", "infinity"),
    ("'0001-12-31 23:59:59.999999 BC'::timestamp", "0001-12-31 23:59:59.999999 BC"),
    ("'10000-01-01 00:00:00'::timestamp", "10000-01-01 00:00:00"),
    ("'-infinity'::timestamptz", "-infinity"),
    ("'0044-03-15 10:30:00.5 BC+00'::timestamptz", "0044-03-15 10:30:00.5+00 BC"),
    ("'294276-12-31 23:59:59+00'::timestamptz", "294276-12-31 23:59:59+00"),
]
NEAR = [
    ("date", datetime.date(1, 1, 1)),
    ("date", datetime.date(9999, 12, 31)),
    ("date", datetime.date(2024, 2, 29)),
    ("timestamp", datetime.datetime(1, 1, 1)),
    ("timestamp", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", datetime.datetime(2024, 2, 29, 12, 30, 1, 5, UTC)),
    ("timestamptz", datetime.datetime(1, 1, 1, tzinfo=UTC)),
]


async def test_far_dates_as_text_come_and_go(spec):
    connection = await howdah.connect(**spec, server_settings={"timezone": "UTC"})
    await connection.decode_far_dates()
    for value, text in FAR:
        typename = value.rpartition("::")[2]
        assert await connection.fetchval(f"select {value}") == text
        # As the server writes it, but for where it puts the zone.
        assert await connection.fetchval(f"select $1::{typename} = {value}", text), text
        assert await connection.fetchval(f"select array[{value}]") == [text]
    for typename, value in NEAR:
        found = await connection.fetchval(f"select $1::{typename}", value)
        assert (found, type(found)) == (value, type(value))
        assert await connection.fetchval(f"select $1::{typename}::text = $2", value, _text(value))
    assert await connection.fetchval("select $1::timestamp", datetime.date(2024, 1, 1)) == datetime.datetime(2024, 1, 1)
    elsewhere = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert await connection.fetchval("select $1::timestamptz", elsewhere) == elsewhere
    for wrong, message in (("tomorrow", "as PostgreSQL writes it"), (5, "got 'int'")):
        with pytest.raises(howdah.DataError, match=message):
            await connection.fetchval("select $1::date", wrong)
    await connection.close()


def _text(value):
    if not isinstance(value, datetime.datetime):
        return value.isoformat()
    text = value.replace(tzinfo=None).isoformat(" ").rstrip("0") if value.microsecond else value.isoformat(" ")[:19]
    return text + ("+00" if value.tzinfo else "")


async def test_other_choices(spec):
    connection = await howdah.connect(**spec)
    await connection.decode_far_dates("none")
    assert [await connection.fetchval(f"select {value}") for value, _ in FAR] == [None] * len(FAR)
    await connection.decode_far_dates("clamp")
    assert await connection.fetchval("select '0044-03-15 BC'::date") == datetime.date.min
    last = datetime.datetime.max.replace(tzinfo=UTC)
    assert await connection.fetchval("select 'infinity'::timestamptz") == last
    assert await connection.fetchval("select $1::timestamptz = 'infinity'", last)
    assert await connection.fetchval("select $1::date = '-infinity'", datetime.date.min)
    await connection.decode_far_dates(lambda text: ("far", text))
    assert await connection.fetchval("select '0044-03-15 BC'::date") == ("far", "0044-03-15 BC")
    with pytest.raises(ValueError, match="'text', 'clamp', 'none'"):
        await connection.decode_far_dates("null")
    for typename in ("date", "timestamp", "timestamptz"):
        await connection.reset_type_codec(typename, schema="pg_catalog")
    assert await connection.fetchval("select 'infinity'::date") == datetime.date.max
    await connection.close()


async def test_texts_are_the_servers(spec):
    connection = await howdah.connect(**spec, server_settings={"timezone": "UTC"})
    chance = random.Random(4)
    days = [chance.randrange(-2_451_507, 2_000_000_000) for _ in range(300)] + list(range(-730_490, -730_100))
    query = "select d, ('2000-01-01'::date + d)::text as t from unnest($1::int[]) d"
    for row in await connection.fetch(query, days):
        assert far_dates._date_text(row["d"]) == row["t"]
        assert far_dates._read(row["t"]) == (row["d"], 0)
    await connection.close()


async def test_without_a_choice_the_error_says_what_to_choose(spec):
    connection = await howdah.connect(**spec)
    for value, kind in (
        ("'0044-03-15 BC'::date", ValueError),
        ("'10000-01-01'::date", ValueError),
        ("'10000-01-01'::timestamp", OverflowError),
        ("'0044-03-15 BC'::timestamptz", OverflowError),
    ):
        with pytest.raises(kind, match=r"before the year 1 or after 9999.*decode_far_dates"):
            await connection.fetchval(f"select {value}")
    await connection.close()


async def test_rows_that_execute_does_not_return_are_not_decoded(spec):
    connection = await howdah.connect(**spec)
    assert await connection.execute("select date '0044-03-15 BC' where $1", True) == "SELECT 1"
    assert await connection.execute("select 1 where $1", False) == "SELECT 0"
    await connection.close()


async def test_a_list_for_one_parameter_is_told_of_any(spec):
    connection = await howdah.connect(**spec)
    for query, value in (
        ("select 1 where 1 in (:ids)", [1, 2]),
        ("select 1 where 1 = :ids", (1, 2)),
        ("select 1 where 'a' in (:ids)", ("a", "b")),
        ("select 1 where 1.5 in (:ids)", {1, 2}),
    ):
        with pytest.raises(howdah.DataError) as caught:
            await connection.fetch(query, ids=value)
        assert "`= any(...)`" in caught.value.hint
    # A list is what is expected, and one of its values is wrong.
    with pytest.raises(howdah.DataError) as caught:
        await connection.fetch("select 1 where 1 = any(:ids)", ids=["a"])
    assert caught.value.hint is None
    with pytest.raises(howdah.PostgresSyntaxError, match=r"= any\(") as syntax:
        await connection.fetch("select 1 where 1 in $1", [1, 2])
    assert "= any(" in syntax.value.hint
    await connection.close()


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (lambda connection: connection.fetch("select :id", {"id": 1}), "keyword arguments"),
        (lambda connection: connection.fetch("select :timeout", timeout=1), "other than `query`, `timeout`"),
        (lambda connection: connection.fetch("select %s", 1), "`%s` and `%(name)s` are those of howdah.dbapi"),
        (lambda connection: connection.fetch("select %(id)s", 1), "`$1`, `$2` or `:name`"),
        (lambda connection: connection.fetch("select from from"), None),
    ],
)
async def test_parameters_of_other_kinds_are_told_of(spec, ask, hint):
    connection = await howdah.connect(**spec)
    with pytest.raises(howdah.PostgresSyntaxError) as caught:
        await ask(connection)
    assert caught.value.hint is None if hint is None else hint in caught.value.hint
    await connection.close()


def test_the_synchronous_interface_has_the_hints(spec):
    with howdah.dbapi.connect(**spec) as connection:
        for query, value in (("select 1 where 1 in %s", (1, 2)), ("select 1 where 1 in (%s)", [1, 2])):
            with pytest.raises(howdah.dbapi.Error, match=r"HINT: .*`= any\(\.\.\.\)`") as caught:
                connection.execute(query, (value,))
            assert "= any(" in caught.value.__cause__.hint
            connection.rollback()
        connection.wait(connection.asynchronous.decode_far_dates())
        assert connection.execute("select '0044-03-15 BC'::date").fetchone() == ("0044-03-15 BC",)
