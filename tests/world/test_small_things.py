"""What ordinary work meets: literals, hints, names in exported files."""

import pytest

from devkit import Problem


@pytest.fixture
def rows(database):
    database.sql("""
        CREATE TABLE s AS SELECT i AS a, i % 2 = 0 AS flag, '2024-01-01'::timestamp + i * interval '1 hour' AS ts,
            '2024-01-01'::date + i AS day, '2024-01-01'::timestamptz + i * interval '1 hour' AS tz, ARRAY[i, i % 3] AS pair,
            i * 2.0 AS y FROM generate_series(1, 200) i;
    """)
    return database


def hint(database, statement):
    with pytest.raises(Problem) as problem:
        database.sql(statement)
    return str(problem.value)


def test_literals_are_read_by_the_type_of_the_column(rows):
    rows.sql("SELECT pgml.train('d', 'regression', 's', 'y', 'xgboost', '{\"n_estimators\": 20}')")
    typed = (
        "1, true, '2024-01-02 10:00'::timestamp, '2024-02-03'::date, '2024-01-02 10:00+01'::timestamptz, ARRAY[3, 1]"
    )
    literal = "'1', 'yes', '2024-01-02 10:00', '2024-02-03', '2024-01-02 10:00+01', '{3, 1}'"
    assert rows.sql(f"SELECT pgml.predict('d', {typed}) = pgml.predict('d', {literal})") == "t"
    mixed = "1, 'true', '2024-01-02 10:00'::timestamp, '2024-02-03', '2024-01-02 09:00Z', ARRAY[3, 1]"
    assert rows.sql(f"SELECT pgml.predict('d', {typed}) = pgml.predict('d', {mixed})") == "t"
    for wrong, said in (("'perhaps'", "type boolean"), ("'2024-13-45'", "out of range")):
        call = typed.replace("true", wrong) if "perhaps" in wrong else typed.replace("'2024-02-03'::date", wrong)
        assert said in hint(rows, f"SELECT pgml.predict('d', {call})")


def test_the_hint_for_labels_that_are_not_numbers_leaves_them_out(rows):
    nan = "(SELECT a, CASE WHEN a = 7 THEN ''NaN''::float8 ELSE y END AS y FROM s)"
    assert "WHERE ... <> 'NaN'" in hint(
        rows, f"SET pgml.strict = on; SELECT pgml.train('n', 'regression', '{nan}', 'y')"
    )
    rows.sql(f"SELECT pgml.train('n', 'regression', '(SELECT * FROM {nan} t WHERE y <> ''NaN'')', 'y')")
    null = "(SELECT a, nullif(y, 14) AS y FROM s)"
    assert "WHERE ... IS NOT NULL" in hint(
        rows, f"SET pgml.strict = on; SELECT pgml.train('n', 'regression', '{null}', 'y')"
    )


@pytest.mark.parametrize("algorithm", ["xgboost", "linear", "random_forest"])
def test_training_rows_of_one_class_are_refused(rows, algorithm):
    rows.sql("CREATE TABLE e2 AS SELECT g AS a, g AS y FROM generate_series(1, 2) g")
    said = hint(rows, f"SELECT pgml.train('b', 'classification', 'e2', 'y', '{algorithm}', test_size => 0.5)")
    assert "a classification needs two classes" in said or "too few rows" in said
    said = hint(
        rows,
        "SELECT pgml.train('b', 'classification', '(SELECT a, a > 150 AS y, a > 150 AS t FROM s)', 'y', "
        f'\'{algorithm}\', preprocess => \'{{"t": {{"role": "test"}}}}\')',
    )
    assert 'all training rows are of class "false"' in said


def test_a_label_in_quotes_is_told_to_be_without(rows):
    rows.sql('CREATE TABLE q AS SELECT i AS a, i % 2 AS "table" FROM generate_series(1, 50) i')
    said = hint(rows, "SELECT pgml.train('c', 'classification', 'q', '\"table\"')")
    assert "without quotes: 'table'" in said


def test_a_column_of_tests_that_is_never_true_is_named(rows):
    said = hint(
        rows,
        "SELECT pgml.train('e', 'regression', '(SELECT a, y, false AS t FROM s)', 'y', "
        'preprocess => \'{"t": {"role": "test"}}\')',
    )
    assert 'role "test" must be true in some rows' in said and "test_size => 0" not in said


def test_an_exported_lightgbm_file_has_the_names_of_the_features(rows):
    rows.sql("""
        CREATE TABLE g AS SELECT i AS "long name", i % 5 AS "a:b", ('{x,y,z}'::text[])[1 + i % 3] AS letter, i % 7 + i AS y
            FROM generate_series(1, 300) i;
        SELECT pgml.train('l', 'regression', 'g', 'y', 'lightgbm', '{"n_estimators": 5}');
    """)
    text = rows.sql("SELECT convert_from(pgml.export_model('l', 'lightgbm'), 'UTF8')")
    assert "\nfeature_names=long_name a_b letter\n" in text and "Column_" not in text
    rows.sql("SELECT pgml.import_model('again', pgml.export_model('l', 'lightgbm'))")
    same = "SELECT bool_and(pgml.predict('l', g) = pgml.predict('again', \"long name\", \"a:b\", {code})) FROM g"
    assert rows.sql(same.format(code="array_position('{x,y,z}'::text[], letter) - 1")) == "t"
