"""Values of every built-in type: made at random, written as literals, and wrong."""

import dataclasses
import datetime
import decimal
import ipaddress
from typing import Any

from howdah.types import BitString, Box, Circle, Line, LineSegment, Path, Point, Polygon
from hypothesis import strategies as st


@dataclasses.dataclass(frozen=True)
class Sample:
    """One type: `values` that it takes, `literals` that the server reads, `wrong` values that must be refused alike.

    `rangeable` when a range type can be made of it, `parts` when it can be within an array and a composite.
    """

    name: str
    values: Any
    literals: tuple = ()
    wrong: tuple = ()
    rangeable: bool = True
    parts: bool = True


class Inted:
    """Something with `__int__` and `__index__`."""

    def __init__(self, number):
        self.number = number

    def __int__(self):
        return self.number

    def __index__(self):
        return self.number

    def __repr__(self):
        return f"Inted({self.number})"


class OnlyInt:
    """Something with `__int__` alone."""

    def __int__(self):
        return 7

    def __repr__(self):
        return "OnlyInt()"


class Broken:
    """Something that fails when it is asked for a number, a text or its length."""

    def __int__(self):
        raise RuntimeError("broken")

    __float__ = __len__ = __iter__ = __int__

    def __repr__(self):
        return "Broken()"


def integers(bits, signed=True):
    """Integers of so many bits, the limits often among them."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.one_of(st.sampled_from([low, high, 0, 1, low + 1, high - 1]), st.integers(low, high))


def beyond(bits, signed=True):
    """Numbers just outside of so many bits, and things that are no numbers."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    others = ("1", b"1", 1.5, decimal.Decimal(3), Inted(3), OnlyInt(), Broken(), True, [], object(), 2**200)
    return (low - 1, high + 1, *others)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
COORDINATES = st.floats(-1e6, 1e6, allow_nan=False)
POINTS = st.builds(Point, COORDINATES, COORDINATES)
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
DATES = st.one_of(st.dates(), st.sampled_from([datetime.date.min, datetime.date.max, datetime.date(2000, 1, 1)]))
MOMENTS = st.one_of(st.datetimes(), st.sampled_from([datetime.datetime.min, datetime.datetime.max]))
# A day from the ends, so that no zone leads out of Python's years.
AWARE = st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29), timezones=ZONES)
# PostgreSQL's intervals are days and microseconds of 64 bits; Python's days end before.
DELTAS = st.timedeltas(datetime.timedelta(days=-1_000_000), datetime.timedelta(days=1_000_000))
DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.decimals(min_value=-(10**30), max_value=10**30, places=6),
    st.builds(
        lambda sign, digits, exponent: decimal.Decimal((sign, digits, exponent)),
        st.integers(0, 1),
        st.lists(st.integers(0, 9), min_size=1, max_size=60).map(tuple),
        st.integers(-80, 80),
    ),
    st.sampled_from([decimal.Decimal(text) for text in ("0", "-0", "0.00", "NaN", "Infinity", "-Infinity", "1E+20")]),
)
IPV4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
IPV6 = st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)
INTERFACES = st.one_of(
    st.builds(
        lambda address, bits: ipaddress.ip_interface((int(address).to_bytes(4, "big"), bits)), IPV4, st.integers(0, 32)
    ),
    st.builds(
        lambda address, bits: ipaddress.ip_interface((int(address).to_bytes(16, "big"), bits)),
        IPV6,
        st.integers(0, 128),
    ),
)
BITS = st.text("01", max_size=40).map(BitString)
SNAPSHOTS = (
    st.lists(st.integers(10, 2**40), min_size=2, max_size=6, unique=True)
    .map(sorted)
    .map(lambda numbers: (numbers[0], numbers[-1] + 1, tuple(numbers[:-1])))
)
NO_TEXT = (1, b"bytes", None.__class__, [], 1.5, Broken(), "a\0b", "\ud800")
NO_NUMBER = ("x", b"1", [], object(), Broken(), 10**400)
NO_MOMENT = ("2020-01-01", 5, datetime.time(1), object(), datetime.timedelta(1))

# Types that travel as text have no empty values here: asyncpg crashes when it reads an array with one.
SAMPLES = [
    Sample("bool", st.booleans(), ("t", "f"), (1, 0, "t", "true", Inted(1), []), rangeable=False),
    Sample("int2", integers(16), wrong=beyond(16)),
    Sample("int4", integers(32), wrong=beyond(32)),
    Sample("int8", integers(64), wrong=beyond(64)),
    Sample("oid", integers(32, signed=False), wrong=beyond(32, signed=False)),
    Sample("xid", integers(32, signed=False), wrong=beyond(32, signed=False), rangeable=False),
    Sample("cid", integers(32, signed=False), wrong=beyond(32, signed=False), rangeable=False),
    Sample("xid8", integers(64, signed=False), wrong=beyond(64, signed=False)),
    Sample("pg_lsn", integers(64), wrong=beyond(64)),
    Sample("float4", st.floats(width=32), ("NaN", "-0", "1e-40"), (*NO_NUMBER, 1e39, -1e300)),
    Sample("float8", st.floats(), ("NaN", "-0", "infinity"), NO_NUMBER),
    Sample(
        "numeric",
        DECIMALS,
        ("0.000", "1e400", "-1.5e-400", "1000000", "NaN", "123456789.000100"),
        ("x", [], object(), b"1", Broken(), decimal.Decimal("1E-20000"), decimal.Decimal("1E+300000")),
    ),
    Sample("numeric(1000,500)", st.decimals(-(10**9), 10**9, places=20), ("0", "1.5"), rangeable=False, parts=False),
    Sample("text", TEXT, ("", "NULL", "ünï"), NO_TEXT),
    Sample("varchar", TEXT, wrong=NO_TEXT, rangeable=False),
    Sample("bpchar", TEXT, wrong=NO_TEXT),
    Sample("name", st.text("abcdefgh_ä", max_size=20), wrong=NO_TEXT, rangeable=False),
    Sample("xml", st.sampled_from(["<a/>", "<a b='1'>text</a>"]), wrong=NO_TEXT, rangeable=False),
    Sample("bytea", st.binary(max_size=60), ("\\x00ff",), ("text", 1, [], object())),
    Sample('"char"', st.integers(0, 127).map(lambda byte: bytes([byte])), ("a",), ("a", 1), rangeable=False),
    Sample("json", st.sampled_from(["{}", "[1, 2]", '"x"', "null", "1.50"]), wrong=({}, [], 1, "{"), rangeable=False),
    Sample("jsonb", st.sampled_from(["{}", '{"a": [1, 2]}', '"x"', "null", "1.50"]), ("[]",), ({}, [], 1, "{")),
    Sample("jsonpath", st.sampled_from(['$."a"', "strict $.x"]), wrong=(1, {}, "$$$"), rangeable=False),
    Sample(
        "uuid",
        st.uuids(),
        ("00000000-0000-0000-0000-000000000000",),
        ("x" * 36, "0" * 31, "0" * 33, "0" * 37, "é" * 32, "0" * 31 + "'", "0" * 31 + "\\", 5, b"0" * 16, object()),
    ),
    Sample(
        "date", DATES, ("infinity", "-infinity", "0001-01-01", "9999-12-31", "4000-01-01 BC", "12000-01-01"), NO_MOMENT
    ),
    Sample("time", st.times(), ("24:00", "00:00:00.000001"), ("x", 5, object(), datetime.date(2020, 1, 1))),
    Sample(
        "timetz",
        st.builds(lambda time, zone: time.replace(tzinfo=zone), st.times(), ZONES),
        ("12:00+05:30", "12:00:00.5-15:59", "00:00+00:00:30"),
        ("x", 5, object(), datetime.time(1, 2)),
    ),
    Sample(
        "timestamp",
        MOMENTS,
        ("infinity", "-infinity", "0001-01-01", "4000-01-01 BC", "294276-12-31 23:59:59.999999"),
        (*NO_MOMENT, datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)),
    ),
    Sample(
        "timestamptz",
        st.one_of(AWARE, MOMENTS.filter(lambda moment: 1900 < moment.year < 2030 or moment.year in (1, 9999))),
        ("infinity", "-infinity", "2020-02-29 12:00+03", "10000-01-01"),
        NO_MOMENT,
    ),
    Sample(
        "interval",
        DELTAS,
        ("1 year 2 mons", "-1 mons 5 days -00:00:01", "00:00:00.000001", "-1 microsecond"),
        ("1 day", 5, object(), datetime.timedelta.max, datetime.timedelta.min),
    ),
    Sample(
        "inet", st.one_of(IPV4, IPV6, INTERFACES), ("10.0.0.1/8", "::1"), ("x", -1, [], object(), "1.2.3.4/99", b"1")
    ),
    Sample("cidr", INTERFACES.map(lambda interface: interface.network), ("10.0.0.0/8",), ("x", "10.0.0.1/8", [], b"1")),
    Sample("macaddr", st.sampled_from(["08:00:2b:01:02:03", "00:00:00:00:00:00"]), wrong=(1, "x")),
    Sample("macaddr8", st.sampled_from(["08:00:2b:01:02:03:04:05"]), wrong=(1, "x")),
    Sample(
        "money", st.integers(-(10**6), 10**6).map(lambda number: f"{number}.25"), wrong=(1, decimal.Decimal(1), "x")
    ),
    Sample(
        "bit(5)",
        st.text("01", min_size=5, max_size=5).map(BitString),
        ("10101",),
        ("10101", 5, []),
        parts=False,
        rangeable=False,
    ),
    Sample("varbit", st.one_of(BITS, st.binary(max_size=5)), ("", "1"), ("10101", 5, [], object())),
    Sample("point", POINTS, ("(1,2)", "(NaN,-Infinity)"), (1, "xy", (1,), ("a", "b"), []), rangeable=False),
    Sample("box", st.builds(Box, POINTS, POINTS), ("(1,2),(3,4)",), (1, (1, 2), []), rangeable=False),
    Sample("lseg", st.builds(LineSegment, POINTS, POINTS), ("[(1,2),(3,4)]",), (1, (1, 2), []), rangeable=False),
    Sample(
        "line",
        st.builds(Line, st.integers(1, 5), COORDINATES, COORDINATES),
        ("{1,2,3}",),
        (1, (1, 2), (0, 0, 1)),
        rangeable=False,
    ),
    Sample(
        "path",
        st.builds(
            lambda points, closed: Path(*points, is_closed=closed),
            st.lists(POINTS, min_size=1, max_size=5),
            st.booleans(),
        ),
        ("[(1,2),(3,4)]", "((1,2),(3,4))"),
        (1, "x", [1], ["ab"]),
        rangeable=False,
    ),
    Sample(
        "polygon",
        st.lists(POINTS, min_size=1, max_size=5).map(lambda points: Polygon(*points)),
        ("((1,2),(3,4))",),
        (1, [1]),
        rangeable=False,
    ),
    Sample(
        "circle",
        st.builds(Circle, POINTS, st.floats(0, 1e6)),
        ("<(1,2),3>",),
        (1, (1, 2), ((1, 2), "x")),
        rangeable=False,
    ),
    Sample(
        "tid",
        st.tuples(integers(32, signed=False), integers(16, signed=False)),
        ("(1,2)",),
        (1, (1,), (-1, 1), (1, 2**16), (2**32, 1), ("a", 1), "ab"),
        rangeable=False,
    ),
    Sample(
        "txid_snapshot",
        SNAPSHOTS,
        ("10:20:11,12",),
        (1, (1, 2), (1, 2, 3), (1, 2, ("x",)), (-1, 2, ())),
        rangeable=False,
    ),
    Sample("pg_snapshot", SNAPSHOTS, ("10:20:",), (1, (1, 2), (5, 1, ())), rangeable=False),
    Sample("tsvector", st.sampled_from(["'a' 'b':1", "'x'"]), wrong=(1, [])),
    Sample("tsquery", st.sampled_from(["'a' & 'b'", "'x'"]), wrong=(1, "& &"), rangeable=False),
    Sample("regclass", st.sampled_from(["pg_class", "pg_type", "12345"]), wrong=(1, "nowhere"), rangeable=False),
    Sample("regtype", st.sampled_from(["integer", "text"]), wrong=(1, "nowhere"), rangeable=False),
    Sample("regproc", st.sampled_from(["now", "-"]), wrong=(1, "nowhere"), rangeable=False),
    Sample("regrole", st.sampled_from(["postgres"]), wrong=(1, "nobody_at_all"), rangeable=False),
    Sample("aclitem", st.sampled_from(["postgres=r/postgres", "=U/postgres"]), wrong=(1, "x"), rangeable=False),
    Sample("refcursor", TEXT.filter(bool), wrong=(1,), rangeable=False),
]
