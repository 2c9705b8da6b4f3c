"""Bytes that no server should send: every one ends in a value or an exception, at once and in little memory."""

import gc
import resource
import struct
import sys
import threading
from pathlib import Path

import pytest
from howdah import _core, exceptions
from hypothesis import given, settings
from hypothesis import strategies as st

from ..examples import examples
from .samples import SAMPLES

INT4, TEXT, NUMERIC, JSONB, HSTORE, RECORD = 23, 25, 1700, 3802, 90_001, 2249
TYPES = [*sorted(_core.BUILTIN_TYPE_OID_MAP), 1007, 1231, 1185, 199, 1041, 775, 3904, 3905, 4451, 6150, 2287, 30]
COMPOSITE, ENUM, DOMAIN, COMPOSITES = 90_002, 90_004, 90_005, 90_003
# What a decoder may raise: a broken promise of the protocol, or Python's own refusal of a value out of its range.
REFUSALS = (
    exceptions.ProtocolError,
    exceptions.InternalClientError,
    exceptions.OutdatedSchemaCacheError,
    ValueError,
    OverflowError,
    TypeError,
    RecursionError,
)


def learnt(oid, name, kind, **parts):
    """A row of the introspection query."""
    row = {"oid": oid, "ns": "public", "name": name, "kind": kind, "basetype": None, "basetype_name": None}
    row |= {"elemtype": 0, "elemtype_name": None, "elemdelim": b",", "range_subtype": None, "range_subtype_name": None}
    return row | {"attrtypoids": None, "attrnames": None} | parts


@pytest.fixture(scope="module")
def codecs():
    """A registry with types of every kind."""
    made = _core.CodecMap()
    made.set_builtin_type_codec(HSTORE, "hstore", "public", "scalar", "pg_contrib.hstore", None)
    made.register_data_types(
        [
            learnt(COMPOSITE, "pair", b"c", attrtypoids=[INT4, TEXT, 1231], attrnames=["a", "b", "c"]),
            learnt(COMPOSITES, "_pair", b"b", elemtype=COMPOSITE, elemtype_name="pair"),
            learnt(ENUM, "colour", b"e"),
            learnt(DOMAIN, "positive", b"d", basetype=INT4, basetype_name="integer"),
        ]
    )
    return made


@pytest.fixture(autouse=True)
def little_memory():
    """At most 1 GB more than now: a count that is believed fails the test."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def read(codecs, oid, data):
    """Reads bytes as a type, whatever comes of it."""
    try:
        return codecs.decode(oid, data)
    except REFUSALS as refusal:
        return refusal


COUNTS = st.sampled_from(
    [0, 1, 2, 3, 6, 7, 8, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, INT4, TEXT, COMPOSITE]
)
WORDS = st.one_of(
    COUNTS.map(lambda number: struct.pack("!I", number)),
    st.sampled_from([0, 1, 4, 0xFFFF, 0x4000, 0xC000, 0x7FFF, 10_000]).map(lambda number: struct.pack("!H", number)),
    st.sampled_from([b"\0" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7, b"\xff" * 8]),
    st.sampled_from([b"{", b"}", b"{{", b'"', b"\\", b",", b"NULL", b"[1:2]=", b"[", b"\xc3", b"\xff"]),
    st.binary(max_size=12),
)


@pytest.mark.parametrize("oid", [*TYPES, HSTORE, COMPOSITE, COMPOSITES, ENUM, DOMAIN])
def test_any_bytes_are_read_or_refused(codecs, oid):
    if not codecs.knows(oid):
        pytest.fail(f"{oid} is not known")

    @settings(max_examples=examples(40), deadline=None, derandomize=True)
    @given(st.one_of(st.binary(max_size=64), st.lists(WORDS, max_size=14).map(b"".join)))
    def each(data):
        read(codecs, oid, data)

    each()


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if "(" not in sample.name], ids=lambda sample: sample.name
)
def test_a_value_with_one_wrong_byte_is_read_or_refused(codecs, sample):
    name = {'"char"': "char"}.get(sample.name, sample.name)
    oid = next(oid for oid, known in _core.BUILTIN_TYPE_OID_MAP.items() if known == name)

    @settings(max_examples=examples(15), deadline=None, derandomize=True)
    @given(sample.values, st.data())
    def each(value, data):
        good = codecs.encode(oid, value)
        read(codecs, oid, good)
        for size in range(len(good)):
            read(codecs, oid, good[:size])
        read(codecs, oid, good + b"\0")
        if good:
            place = data.draw(st.integers(0, len(good) - 1))
            read(codecs, oid, good[:place] + bytes([data.draw(st.integers(0, 255))]) + good[place + 1 :])

    each()


def test_counts_that_lie_are_refused_before_memory_is_taken(codecs):
    huge = struct.pack("!i", 2**31 - 1)
    for oid, data in (
        (1007, struct.pack("!iii", 1, 0, INT4) + huge + struct.pack("!i", 1)),
        (1007, struct.pack("!iii", 6, 0, INT4) + (huge + struct.pack("!i", 1)) * 6),
        (1007, struct.pack("!iii", 2, 0, INT4) + (struct.pack("!ii", 2**15, 1)) * 2),
        (1007, struct.pack("!iii", 7, 0, INT4)),
        (1007, struct.pack("!iii", -1, 0, INT4)),
        (1007, struct.pack("!iiiii", 1, 0, INT4, -5, 1)),
        (1007, struct.pack("!iiiiii", 1, 0, INT4, 1, 1, -2)),
        (1007, struct.pack("!iiiiiii", 1, 0, INT4, 1, 1, 8, 0)),
        (HSTORE, huge),
        (RECORD, huge),
        (604, huge),
        (602, b"\x01" + huge),
        (2970, huge + b"\0" * 16),
        (4451, huge),
        (COMPOSITE, struct.pack("!i", 4)),
        (COMPOSITE, struct.pack("!iIi", 3, INT4, 2**31 - 1)),
        (NUMERIC, struct.pack("!HhHH", 65_535, 0, 0, 0)),
        (JSONB, b"\x02{}"),
        (JSONB, b""),
    ):
        assert isinstance(read(codecs, oid, data), REFUSALS), (oid, data)


def test_array_dimensions_without_elements_take_no_memory(codecs):
    # One dimension of no elements makes the others mean nothing.
    data = struct.pack("!iii", 2, 0, INT4) + struct.pack("!iiii", 2**31 - 1, 1, 0, 1)
    assert codecs.decode(1007, data) == []


def records_within_records(depth):
    """A record of a record and so on, with a NULL at the bottom."""
    data = struct.pack("!iIi", 1, INT4, -1)
    heads = [struct.pack("!iIi", 1, RECORD, len(data) + 12 * level) for level in range(depth)]
    return b"".join(reversed(heads)) + data


def test_records_within_records_are_read_to_some_depth(codecs):
    value = codecs.decode(RECORD, records_within_records(200))
    for _ in range(200):
        (value,) = value
    assert value == (None,)


def test_records_within_records_end_before_the_stack_does(codecs):
    found = []

    def read_all():
        found.extend(read(codecs, RECORD, records_within_records(depth)) for depth in (300, 5000, 100_000))

    # As little as threads have on some systems.
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=read_all)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert [type(refusal) for refusal in found] == [RecursionError] * 3


def test_braces_within_braces_end_at_six(codecs):
    with pytest.raises(exceptions.ProtocolError, match="dimensions"):
        codecs.decode(791, b"{" * 100_000)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([INT4, TEXT, NUMERIC, 1184, 2950, 1007]), max_size=5),
    st.lists(WORDS, max_size=20).map(b"".join),
)
def test_any_row_is_read_or_refused(oids, body):
    codecs = _core.CodecMap()
    try:
        values = codecs.decode_row(oids, body)
    except REFUSALS:
        return
    assert len(values) == len(oids)


def test_a_decoder_that_fails_leaves_nothing_behind(codecs):
    value = struct.pack("!i", 5) + b"hello" + struct.pack("!i", 4)
    row = value + struct.pack("!i", 7)[:3]

    def blocks_after(count):
        for _ in range(count):
            with pytest.raises(exceptions.ProtocolError):
                codecs.decode_row([TEXT, INT4], row)
        # Each exception and its traceback are a circle, which waits for the collector.
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks_after(1000)
    assert blocks_after(20_000) - before < 2000
