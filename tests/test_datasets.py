"""The built-in data sets are scikit-learn's."""

import numpy
import pytest
from sklearn import datasets


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
