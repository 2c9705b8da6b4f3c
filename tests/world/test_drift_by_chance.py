"""pgml.drift on few rows: what differs by chance is not called large."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency

LARGE = "psi > 0.25 AND p_value < 0.001"


@pytest.fixture
def trained(database):
    database.sql("""
        SELECT setseed(0.5);
        CREATE TABLE known AS SELECT i AS id, random() AS even, sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS normal,
            floor(random() * 5)::int AS few, ('{a,b,c,d}'::text[])[1 + floor(random() * 4)] AS letter,
            CASE WHEN random() < 0.8 THEN random() END AS holes, random() AS y FROM generate_series(1, 600) i;
        SELECT pgml.train('chance', 'regression', '(SELECT even, normal, few, letter, holes, y FROM known)', 'y', 'xgboost',
            '{"n_estimators": 2}');
    """)
    return database


@pytest.mark.parametrize("rows", [30, 60, 300])
def test_samples_of_the_training_rows_have_no_large_drift(trained, rows):
    found = trained.sql(f"""
        SELECT count(*), sum(({LARGE})::int), min(d.rows), max(d.rows)
        FROM generate_series(1, 40) g, LATERAL pgml.drift('chance',
            format('(SELECT * FROM known ORDER BY md5(id::text || %s) LIMIT {rows})', g)) d""")
    columns, large, least, most = map(int, found.split("|"))
    assert columns == 200 and large <= 1 and (least, most) == (rows, rows)


def test_few_rows_that_have_moved_are_seen(trained):
    found = trained.sql(f"""
        SELECT string_agg(feature, ' ' ORDER BY feature) FROM pgml.drift('chance',
            '(SELECT even + 0.5 AS even, normal, few, ''d'' AS letter, NULL::float8 AS holes FROM known LIMIT 30)')
        WHERE {LARGE}""")
    assert found == "even holes letter"


def test_the_p_value_is_that_of_a_chi_squared_test(trained):
    counts = trained.sql(
        "SELECT string_agg(n::text, ' ' ORDER BY few) FROM (SELECT few, count(*) n FROM known GROUP BY few) c"
    )
    some = "(SELECT * FROM known WHERE id <= 100)"
    now = trained.sql(
        f"SELECT string_agg(n::text, ' ' ORDER BY few) FROM (SELECT few, count(*) n FROM {some} s GROUP BY few) c"
    )
    table = np.array([list(map(int, counts.split())), list(map(int, now.split()))])
    p_value = float(trained.sql(
        f"SELECT p_value FROM pgml.drift('chance', '(SELECT even, normal, few, letter, holes FROM {some} s)') "
        "WHERE feature = 'few'"
    ))  # fmt: skip
    # The shares of numbers are those of 256 quantiles.
    assert p_value == pytest.approx(chi2_contingency(table, correction=False).pvalue, abs=0.02)
    counts = trained.sql(
        "SELECT string_agg(n::text, ' ' ORDER BY letter) FROM (SELECT letter, count(*) n FROM known GROUP BY 1) c"
    )
    now = trained.sql(
        f"SELECT string_agg(n::text, ' ' ORDER BY letter) FROM (SELECT letter, count(*) n FROM {some} s GROUP BY 1) c"
    )
    table = np.array([list(map(int, counts.split())), list(map(int, now.split()))])
    p_value = float(trained.sql(f"SELECT p_value FROM pgml.drift('chance', '{some}') WHERE feature = 'letter'"))
    assert p_value == pytest.approx(chi2_contingency(table, correction=False).pvalue, rel=1e-5)
