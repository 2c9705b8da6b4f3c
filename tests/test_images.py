"""Features that are matrices themselves: the images of `digits` are 8 by 8."""

import pytest

from devkit import Problem


@pytest.fixture
def digits(database):
    database.sql("SELECT pgml.load_dataset('digits')")
    database.sql("""
        SELECT pgml.train('digits', 'classification', 'pgml.digits', 'target', 'xgboost', '{"n_estimators": 3}')
    """)
    return database


def test_images_are_predicted_together_as_one_by_one(digits):
    """`array_agg` of matrices is an array of three dimensions, and a row is the two inner ones."""
    for kind in ("smallint", "real"):
        together = f"""
            SELECT string_agg(prediction::text, ' ')
            FROM pgml.predict_batch('digits', (SELECT array_agg(image::{kind}[]) FROM pgml.digits)) AS prediction
        """
        one_by_one = "SELECT string_agg(pgml.predict('digits', image)::text, ' ') FROM pgml.digits"
        assert digits.sql(together) == digits.sql(one_by_one)


def test_rows_may_lie_in_groups(digits):
    """Two groups of three images of 64 numbers, or of 8 by 8."""
    flat = "array_fill(1::real, ARRAY[2, 3, 64])"
    square = "array_fill(1::real, ARRAY[2, 3, 8, 8])"
    for features in (flat, square, "array_fill(1::real, ARRAY[6, 64])", "array_fill(1::real, ARRAY[384])"):
        assert digits.sql(f"SELECT count(*) FROM pgml.predict_batch('digits', {features})") == "6"
    assert digits.sql(f"SELECT array_dims(pgml.explain_batch('digits', {square}))") == digits.sql(
        f"SELECT array_dims(pgml.explain_batch('digits', {flat}))"
    )


def test_images_of_another_size_are_refused(digits):
    for dimensions, held in (("2, 32", 32), ("2, 8, 4", 32), ("2, 3, 8, 4", 96)):
        with pytest.raises(Problem, match=f"takes 64 features, and the call gives {held}"):
            digits.sql(f"SELECT pgml.predict_batch('digits', array_fill(1::real, ARRAY[{dimensions}]))")
