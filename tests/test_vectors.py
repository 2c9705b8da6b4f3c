"""The vector functions, against the same sums in Python."""

import math
import random

import pytest

from devkit import Problem

TYPES = ("real", "double precision")


@pytest.mark.parametrize("kind", TYPES)
def test_each_function_gives_what_its_name_says(database, kind):
    dice = random.Random(7)
    for length in (1, 2, 7, 8, 9, 100):
        one = [dice.choice([0.0, dice.uniform(-10, 10)]) for _ in range(length)]
        other = [dice.uniform(0.5, 10) for _ in range(length)]
        a, b = (f"ARRAY{values}::{kind}[]" for values in (one, other))
        products = sum(x * y for x, y in zip(one, other, strict=True))
        lengths = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(x * x for x in other))
        for call, expected in (
            (f"norm_l0({a})", sum(x != 0 for x in one)),
            (f"norm_l1({a})", sum(map(abs, one))),
            (f"norm_l2({a})", math.sqrt(sum(x * x for x in one))),
            (f"norm_max({a})", max(map(abs, one))),
            (f"distance_l1({a}, {b})", sum(abs(x - y) for x, y in zip(one, other, strict=True))),
            (f"distance_l2({a}, {b})", math.dist(one, other)),
            (f"dot_product({a}, {b})", products),
            (f"cosine_similarity({a}, {b})", products / lengths if lengths else math.nan),
        ):
            got = float(database.sql(f"SELECT pgml.{call}"))
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-5, nan_ok=True), call
        norm = math.sqrt(sum(x * x for x in other))
        for call, expected in (
            (f"add({a}, {b})", [x + y for x, y in zip(one, other, strict=True)]),
            (f"subtract({a}, {b})", [x - y for x, y in zip(one, other, strict=True)]),
            (f"multiply({a}, {b})", [x * y for x, y in zip(one, other, strict=True)]),
            (f"divide({a}, {b})", [x / y for x, y in zip(one, other, strict=True)]),
            (f"add({a}, 3)", [x + 3 for x in one]),
            (f"subtract({a}, 3)", [x - 3 for x in one]),
            (f"multiply({a}, 3)", [x * 3 for x in one]),
            (f"divide({a}, 3)", [x / 3 for x in one]),
            (f"normalize_l1({b})", [x / sum(other) for x in other]),
            (f"normalize_l2({b})", [x / norm for x in other]),
            (f"normalize_max({b})", [x / max(other) for x in other]),
        ):
            got = [float(value) for value in database.sql(f"SELECT unnest(pgml.{call})").splitlines()]
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-5), call


@pytest.mark.parametrize("kind", TYPES)
def test_aggregates(database, kind):
    rows = f"(VALUES (ARRAY[1, -5]::{kind}[]), (ARRAY[-3, 2]::{kind}[]), (NULL), (ARRAY[2, 4]::{kind}[])) v (x)"
    for name, expected in (
        ("sum", "{0,1}"),
        ("min", "{-3,-5}"),
        ("max", "{2,4}"),
        ("min_abs", "{1,2}"),
        ("max_abs", "{3,5}"),
    ):
        assert database.sql(f"SELECT pgml.{name}(x) FROM {rows}") == expected
    assert database.sql(f"SELECT pgml.max_abs(x) FROM (VALUES (ARRAY[-1, 2]::{kind}[])) v (x)") == "{1,2}"
    assert database.sql(f"SELECT pgml.sum(x) IS NULL FROM {rows} WHERE false") == "t"


@pytest.mark.parametrize("kind", ["smallint", "integer", "bigint", "numeric"])
def test_arrays_of_other_numbers_count_as_double_precision(database, kind):
    """Calls were ambiguous: such an array becomes one of real as well as one of double precision."""
    rows = f"(VALUES (ARRAY[1, -5]::{kind}[]), (NULL), (ARRAY[-3, 2]::{kind}[]), (ARRAY[2, 4]::{kind}[])) v (x)"
    for name, expected in (
        ("sum", "{0,1}"),
        ("min", "{-3,-5}"),
        ("max", "{2,4}"),
        ("min_abs", "{1,2}"),
        ("max_abs", "{3,5}"),
    ):
        assert (
            database.sql(f"SELECT pgml.{name}(x), pg_typeof(pgml.{name}(x)) FROM {rows}")
            == f"{expected}|double precision[]"
        )
        assert database.sql(f"SELECT pgml.{name}(x) IS NULL FROM {rows} WHERE x IS NULL") == "t"
        with pytest.raises(Problem, match="the vectors have 2 and 1 element"):
            database.sql(f"SELECT pgml.{name}(x) FROM (VALUES (ARRAY[1, 2]::{kind}[]), (ARRAY[1]::{kind}[])) v (x)")
        with pytest.raises(Problem, match="has an element that is NULL"):
            database.sql(f"SELECT pgml.{name}(x) FROM (VALUES (ARRAY[1, NULL]::{kind}[])) v (x)")
    assert database.sql(f"SELECT pgml.max_abs(x) FROM (VALUES (ARRAY[-1, 2]::{kind}[])) v (x)") == "{1,2}"
    assert database.sql(f"SELECT pgml.sum(x) FROM (VALUES (ARRAY[[1, 2], [3, 4]]::{kind}[])) v (x)") == "{1,2,3,4}"
    one, other = f"ARRAY[3, 4]::{kind}[]", f"ARRAY[0, 8]::{kind}[]"
    assert (
        database.sql(f"SELECT pgml.norm_l2({one}), pgml.distance_l2({one}, {other}), pgml.add({one}, 1)") == "5|5|{4,5}"
    )
    assert database.sql(f"SELECT pgml.dot_product({one}, {other}), pgml.add({one}, {other})") == "32|{3,12}"


def test_workers_sum_whole_numbers_as_one_does(database):
    database.sql(
        "CREATE TABLE whole AS SELECT ARRAY[i, -i, 1]::smallint[] AS x FROM generate_series(1, 20000) i; ANALYZE"
    )
    force = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
    query = "SELECT pgml.sum(x), pgml.max_abs(x) FROM whole"
    assert "Partial Aggregate" in database.sql(f"{force} EXPLAIN {query}")
    assert database.sql(f"{force} {query}") == "{200010000,-200010000,20000}|{20000,20000,1}"


def test_the_steps_of_aggregates_take_numbers_alone(database):
    with pytest.raises(Problem, match="argument 2 is not of numbers"):
        database.sql("SELECT pgml.sum_step(NULL, ARRAY['a'])")


def test_literals_are_not_ambiguous(database):
    assert database.sql("SELECT pgml.add(ARRAY[1.0, 2.0, 3.0], 3)") == "{4,5,6}"
    assert database.sql("SELECT pgml.add(ARRAY[1.0, 2.0, 3.0], ARRAY[4.0, 5.0, 6.0])") == "{5,7,9}"
    assert database.sql("SELECT pgml.norm_l2(ARRAY[3.0, 4.0])") == "5"
    assert database.sql("SELECT pgml.normalize_max(ARRAY[1.0, 2.0])") == "{0.5,1}"
    assert database.sql("SELECT pgml.cosine_similarity(ARRAY[1.0, 2.0, 3.0], ARRAY[1.0, 2.0, 3.0])") == "1"


def test_what_cannot_be_is_an_error(database):
    with pytest.raises(Problem, match="the vectors have 2 and 1 element"):
        database.sql("SELECT pgml.add(ARRAY[1, 2]::real[], ARRAY[1]::real[])")
    with pytest.raises(Problem, match="argument 1 has an element that is NULL"):
        database.sql("SELECT pgml.norm_l1(ARRAY[1, NULL]::real[])")
    assert database.sql("SELECT pgml.norm_l1(NULL::real[]) IS NULL") == "t"
    assert database.sql("SELECT pgml.add('{}'::real[], 1), pgml.norm_l2('{}'::real[])") == "{}|0"
    assert database.sql("SELECT pgml.normalize_l2(ARRAY[0, 0]::real[])") == "{0,0}"
    assert database.sql("SELECT pgml.sum(x) FROM (SELECT ARRAY[[1, 2], [3, 4]]::real[] AS x) y") == "{{1,2},{3,4}}"


@pytest.mark.parametrize("kind", ["int", "bigint"])
def test_whole_numbers_are_numbers_too(database, kind):
    one, other = f"ARRAY[3, -4]::{kind}[]", f"ARRAY[1, 2]::{kind}[]"
    for call, expected in (
        (f"add({one}, {other})", "{4,-2}"),
        (f"add({one}, 3)", "{6,-1}"),
        (f"add({one}, 0.5)", "{3.5,-3.5}"),
        (f"subtract({one}, {other})", "{2,-6}"),
        (f"multiply({one}, ARRAY[0.5, 2])", "{1.5,-8}"),
        (f"multiply(ARRAY[0.5, 2]::real[], {one})", "{1.5,-8}"),
        (f"divide({one}, {other})", "{3,-2}"),
        (f"divide({one}, 2)", "{1.5,-2}"),
        (f"norm_l0({one})", "2"),
        (f"norm_l1({one})", "7"),
        (f"norm_l2({one})", "5"),
        (f"norm_max({one})", "4"),
        (f"normalize_max({one})", "{0.75,-1}"),
        (f"distance_l1({one}, {other})", "8"),
        (f"distance_l2({one}, {one})", "0"),
        (f"dot_product({one}, {other})", "-5"),
        (f"cosine_similarity({one}, {one})", "1"),
        (f"add({one}, '{{1, 1}}')", "{4,-3}"),
    ):
        assert database.sql(f"SELECT pgml.{call}") == expected, call
    assert (
        database.sql("SELECT pgml.add(ARRAY[1, 2], ARRAY[3, 4]), pgml.add(ARRAY[1, 2], ARRAY[3, 4]::bigint[])")
        == "{4,6}|{4,6}"
    )
