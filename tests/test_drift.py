"""pgml.drift: how far rows have moved from those that a model was trained on, against numpy and SciPy's definitions."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from tests.test_evaluate import OWNER, STRANGER, fetch, loaded, state  # noqa: F401

ROWS = """
    SELECT i, (i * 7919 % 1000)::real / 1000 AS even, (i % 2)::int AS half, (i % 10 = 0) AS rare,
        ('{{red,green,blue}}'::text[])[i % 3 + 1] AS colour, CASE WHEN i % 4 > 0 THEN i % 100 END AS holes,
        date '2026-01-01' + i % 365 AS day, ARRAY[i % 5, i % 7] AS pair, i % 13 AS y
    FROM generate_series(1, {count}) i
"""


@pytest.fixture(scope="module")
def trained(loaded):  # noqa: F811
    """A model of columns of every kind; the first, a key, moves with every new row."""
    loaded.sql(f"""
        CREATE TABLE before AS {ROWS.format(count=5000)};
        CREATE TABLE private AS SELECT * FROM before;
        GRANT SELECT ON before TO {OWNER}, {STRANGER};
        GRANT SELECT ON private TO {OWNER};
        SET ROLE {OWNER};
        SELECT pgml.train('moving', 'regression', 'before', 'y', 'xgboost', '{{"n_estimators": 2}}');
    """)
    return loaded


def drift(database, relation, named="'moving'"):
    found = fetch(
        database, f"SELECT feature, psi, ks FROM pgml.drift({named}, '{relation.replace(chr(39), 2 * chr(39))}')"
    )
    return {feature: (psi, ks) for feature, psi, ks in found}


def test_the_rows_of_the_training_have_not_moved(trained):
    found = drift(trained, "before")
    assert set(found) == {"i", "even", "half", "rare", "colour", "holes", "day", "pair"}
    assert all(psi < 0.005 for psi, _ in found.values())
    # Of the elements of arrays, more than are kept, a sample is.
    assert found["colour"][1] is None and found["pair"][1] < 0.02
    assert all(ks < 0.005 for name, (_, ks) in found.items() if name not in ("colour", "pair"))
    model = trained.sql("SELECT id FROM pgml.deployed_models WHERE name = 'moving'")
    assert drift(trained, "before", model) == found


def test_columns_that_move_come_first(trained):
    moved = drift(trained, "(SELECT i, even + 0.3 AS even, half, rare, colour, holes, day, pair FROM before)")
    assert next(iter(moved)) == "even" and moved["even"][0] > 0.25 and moved["even"][1] == pytest.approx(0.3, abs=0.01)
    assert all(psi < 0.005 for name, (psi, _) in moved.items() if name != "even")


@pytest.mark.parametrize("column, changed", [
    ("half", "1"), ("rare", "i % 10 < 5"), ("day", "day + 100"), ("pair", "ARRAY[1, 2]"),
    ("holes", "CASE WHEN i % 4 < 2 THEN i % 100 END"), ("colour", "CASE WHEN i % 3 = 1 THEN 'violet' ELSE colour END"),
])  # fmt: skip
def test_each_kind_of_column_is_seen_to_move(trained, column, changed):
    columns = ["i", "even", "half", "rare", "colour", "holes", "day", "pair"]
    query = ", ".join(f"{changed} AS {column}" if name == column else name for name in columns)
    found = drift(trained, f"(SELECT {query} FROM before)")
    assert next(iter(found)) == column and found[column][0] > 0.25
    assert all(psi < 0.005 for name, (psi, _) in found.items() if name != column)


def test_the_statistics_are_those_of_their_definitions(loaded):  # noqa: F811
    """Of few rows all values are kept, so that both are exact."""
    loaded.sql(
        "SELECT pgml.train('small', 'regression', '(SELECT bmi, target FROM pgml.diabetes LIMIT 200)', 'target')"
    )
    before = np.array([row[0] for row in fetch(loaded, "SELECT bmi FROM pgml.diabetes LIMIT 200")], dtype=np.float32)
    now = np.array([row[0] for row in fetch(loaded, "SELECT bmi FROM pgml.diabetes OFFSET 200")], dtype=np.float32)
    psi, ks = drift(loaded, "(SELECT * FROM pgml.diabetes OFFSET 200)", "'small'")["bmi"]
    assert ks == pytest.approx(ks_2samp(before, now).statistic, abs=1e-9)
    # Tenths of the values of before: a part has its upper end.
    ends = [value for value in sorted(set(before)) if int(np.mean(before <= value) * 10 + 1e-9)
            > int(np.mean(before < value) * 10 + 1e-9)][:-1]  # fmt: skip
    share = lambda values: np.bincount(np.searchsorted(ends, values), minlength=len(ends) + 1) / len(values)  # noqa: E731
    old, new = np.maximum(share(before), 1e-4), np.maximum(share(now), 1e-4)
    assert psi == pytest.approx(np.sum((new - old) * np.log(new / old)), abs=1e-6)


def test_hashed_columns_are_compared_by_their_buckets(loaded):  # noqa: F811
    loaded.sql("""
        CREATE TABLE many AS SELECT 'user ' || i % 500 AS who, i % 3 AS y FROM generate_series(1, 5000) i;
        SELECT pgml.train('many', 'regression', 'many', 'y', 'xgboost', '{"n_estimators": 2}',
            preprocess => '{"who": {"encode": {"hash": 64}}}');
    """)
    assert drift(loaded, "many", "'many'")["who"][0] < 0.005
    assert drift(loaded, "(SELECT 'user 1' AS who FROM many)", "'many'")["who"][0] > 1


def test_what_is_kept_is_for_who_may_export(trained):
    """The quantiles of a column are values of the data; drift itself is for who may see."""
    kept = "SELECT columns->0->'statistics'->'quantiles' FROM pgml.snapshots ORDER BY id DESC LIMIT 1"
    ask = "SELECT pgml.drift('moving', 'before')"
    assert trained.sql(f"SET ROLE {OWNER}; {kept}") != ""
    assert state(trained, OWNER, ask) == "00000"
    assert state(trained, STRANGER, ask) == "42501"
    trained.sql(f"SELECT pgml.grant('moving', '{STRANGER}', 'see')")
    try:
        assert state(trained, STRANGER, ask) == "00000"
        assert trained.sql(f"SET ROLE {STRANGER}; SELECT count(*) FROM pgml.snapshots") == "0"
        assert state(trained, STRANGER, "SELECT pgml.drift('moving', 'private')") == "42501"
    finally:
        trained.sql(f"SELECT pgml.revoke('moving', '{STRANGER}', 'see')")


@pytest.mark.parametrize(
    "call, sqlstate",
    [
        ("drift('nothing', 'before')", "42704"),
        ("drift(987654, 'before')", "42704"),
        ("drift(NULL::text, 'before')", "22004"),
        ("drift('moving', NULL)", "22004"),
        ("drift('moving', 'nothing')", "42P01"),
        ("drift('moving', 'pgml.iris')", "42703"),
        ("drift('moving', '(SELECT i, even, half, rare, 1 AS colour, holes, day, pair FROM before)')", "42804"),
    ],
)
def test_what_cannot_be_meant_is_refused(trained, call, sqlstate):
    assert state(trained, OWNER, f"SELECT pgml.{call}") == sqlstate


def test_a_model_that_kept_nothing_says_so(trained):
    trained.sql("SELECT pgml.train('old', 'regression', '(SELECT bmi, target FROM pgml.diabetes)', 'target')")
    trained.sql("""
        UPDATE pgml.snapshots SET columns = '[{"name": "bmi", "label": false, "statistics": {"missing": 0}}]'
        WHERE id = (SELECT max(id) FROM pgml.snapshots)
    """)
    assert state(trained, "postgres", "SELECT pgml.drift('old', 'pgml.diabetes')") == "55000"
