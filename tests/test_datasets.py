"""The built-in data sets are scikit-learn's."""

import numpy
import pytest
from sklearn import datasets

from devkit import Problem


def expected(name):
    """The columns of `pgml.<name>`, by name."""
    loaded = getattr(datasets, f"load_{name}")()
    if name == "digits":
        return {"image": loaded.images, "target": loaded.target}
    # "sepal length (cm)" is sepal_length here, as in PostgresML.
    names = [column.lower().replace(" (cm)", "") for column in loaded.feature_names]
    if name == "iris":
        names = [column.replace(" ", "_") for column in names]
    columns = {column: loaded.data[:, i] for i, column in enumerate(names)}
    if name == "linnerud":
        columns |= {column.lower(): loaded.target[:, i] for i, column in enumerate(loaded.target_names)}
    elif name == "breast_cancer":
        assert list(loaded.target_names) == ["malignant", "benign"]
        columns["malignant"] = loaded.target == 0
    else:
        columns["target"] = loaded.target
    return columns


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine"])
def test_a_data_set_is_that_of_scikit_learn(database, name):
    columns = expected(name)
    with database.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT rows FROM pgml.load_dataset('{name}')")
        assert cursor.fetchone()[0] == len(next(iter(columns.values())))
        cursor.execute(f"SELECT * FROM pgml.{name}")
        assert [column[0] for column in cursor.description] == list(columns)
        rows = cursor.fetchall()
    for index, (column, values) in enumerate(columns.items()):
        loaded = numpy.array([row[index] for row in rows], dtype=numpy.float32)
        assert numpy.array_equal(loaded, values.astype(numpy.float32)), column


def test_each_of_two_roles_may_load_the_same_data_set(database):
    database.sql(
        "CREATE ROLE first_loader; CREATE ROLE second_loader; GRANT CREATE ON SCHEMA pgml TO first_loader, second_loader"
    )
    try:
        loaded = [
            database.sql(f"SET ROLE {role}; SELECT * FROM pgml.load_dataset('wine')")
            for role in ("first_loader", "second_loader", "first_loader")
        ]
        assert loaded == ["pgml.wine|178"] * 3
        assert database.sql("SELECT tableowner FROM pg_tables WHERE tablename = 'wine'") == "first_loader"
        with database.connect() as connection:
            cursor = connection.cursor()
            cursor.execute("SET ROLE second_loader; SELECT * FROM pgml.load_dataset('wine')")
            said = [notice[b"M"].decode() for notice in connection.notices]
        assert said == ['table pgml.wine belongs to role "first_loader", and stays as it is']
        database.sql("REVOKE SELECT ON pgml.wine FROM PUBLIC")
        with pytest.raises(Problem, match="permission denied for table wine"):
            database.sql("SET ROLE second_loader; SELECT * FROM pgml.load_dataset('wine')")
    finally:
        database.sql("DROP OWNED BY first_loader, second_loader; DROP ROLE first_loader, second_loader")


def test_what_was_made_of_a_data_set_outlives_its_next_loading(database):
    database.sql("SELECT pgml.load_dataset('digits'); CREATE VIEW images AS SELECT image FROM pgml.digits")
    before = database.sql("SELECT oid FROM pg_class WHERE relname = 'digits'")
    assert database.sql("SELECT rows FROM pgml.load_dataset('digits', \"limit\" => 10)") == "10"
    assert database.sql("SELECT count(*), array_ndims((SELECT image FROM images LIMIT 1)) FROM images") == "10|2"
    assert database.sql("SELECT oid FROM pg_class WHERE relname = 'digits'") == before
    # A table that has become another one is made anew, unless something depends on it.
    database.sql("ALTER TABLE pgml.digits ADD COLUMN note text")
    with pytest.raises(Problem, match="other objects depend on it"):
        database.sql("SELECT pgml.load_dataset('digits')")
    database.sql("DROP VIEW images")
    assert database.sql("SELECT rows FROM pgml.load_dataset('digits')") == "1797"


def test_nobody_runs_the_code_of_who_was_there_first(database):
    """A view that has the name of a data set, and a trigger on a table that has: neither for a superuser nor for others."""
    database.sql("""
        CREATE ROLE first_loader; CREATE ROLE second_loader; GRANT CREATE ON SCHEMA pgml TO first_loader;
        GRANT CREATE ON SCHEMA public TO first_loader;
        CREATE TABLE seen (who text); GRANT ALL ON seen TO PUBLIC;
        SET ROLE first_loader;
        CREATE FUNCTION spy() RETURNS text LANGUAGE sql AS 'INSERT INTO public.seen VALUES (current_user) RETURNING who';
        CREATE VIEW pgml.wine AS SELECT public.spy();
        GRANT SELECT ON pgml.wine TO PUBLIC;
        SELECT pgml.load_dataset('iris');
        CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.spy(); RETURN NULL; END';
        CREATE TRIGGER trap AFTER TRUNCATE OR INSERT ON pgml.iris FOR EACH STATEMENT EXECUTE FUNCTION public.trap()
    """)
    try:
        for role in ("second_loader", "postgres"):
            assert (
                database.sql(f"SET ROLE {role}; SELECT * FROM pgml.load_dataset('iris')").splitlines()[-1]
                == "pgml.iris|150"
            )
            with pytest.raises(Problem, match='pgml.wine of role "first_loader" is not a plain table'):
                database.sql(f"SET ROLE {role}; SELECT pgml.load_dataset('wine')")
        assert database.sql("SELECT * FROM seen") == ""
    finally:
        database.sql("DROP OWNED BY first_loader, second_loader CASCADE; DROP ROLE first_loader, second_loader")
