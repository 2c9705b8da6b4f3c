"""Models that XGBoost has trained on a data frame with categories: since 3.1 their files name them."""

import numpy as np
import pandas
import pytest
import xgboost

CALL = "pgml.predict('{}', num, color, size::text)"


@pytest.fixture
def frame():
    random = np.random.default_rng(0)
    return pandas.DataFrame({
        "num": random.normal(size=400).astype("float32"),
        "color": pandas.Categorical(random.choice(["red", "green", "grey", "blue"], 400)),
        "size": pandas.Categorical(random.choice([1, 5, 16777217], 400)),
    })  # fmt: skip


def target(frame):
    return (frame["color"] == "red").to_numpy() * 2 + frame["num"] + (frame["size"] == 5)


def load(database, frame, values):
    """The rows and what XGBoost says of them."""
    rows = zip(frame["num"], frame["color"], frame["size"], values, strict=True)
    lines = ",".join(f"({num!r}::real,'{color}',{size},{value!r}::real)" for num, color, size, value in
                     ((float(num), color, int(size), float(value)) for num, color, size, value in rows))  # fmt: skip
    database.sql("DROP TABLE IF EXISTS said; CREATE TABLE said (num real, color text, size int, value real);"
                 f"INSERT INTO said VALUES {lines}")  # fmt: skip


@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_text_columns_predict(database, frame, form, booster, tmp_path):
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=4, enable_categorical=True, booster=booster)
    model.fit(frame, target(frame))
    path = tmp_path / f"model.{form}"
    model.save_model(path)
    load(database, frame, model.predict(frame))
    with database.connect() as opened:
        opened.cursor().execute("SELECT pgml.import_model('frame', %s)", [path.read_bytes()])
    assert database.sql(f"SELECT count(*) FROM said WHERE {CALL.format('frame')} IS DISTINCT FROM value") == "0"
    by_row = "SELECT count(*) FROM (SELECT num, color, size::text, value FROM said) r WHERE pgml.predict('frame', r) <> value"
    assert database.sql(by_row) == "0"
    # The same file comes out again.
    with database.connect() as opened:
        cursor = opened.cursor()
        cursor.execute("SELECT pgml.export_model('frame')")
        again = xgboost.Booster()
        again.load_model(bytearray(cursor.fetchone()[0]))
    # A category that the model does not know is a missing value.
    unknown = database.sql("SELECT pgml.predict('frame', 0.5::real, 'violet', '5')")
    assert unknown == database.sql("SELECT pgml.predict('frame', 0.5::real, NULL::text, '5')")


def test_a_column_of_numbers_must_be_cast(database, frame, tmp_path):
    model = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(frame, target(frame))
    model.save_model(tmp_path / "model.ubj")
    with database.connect() as opened:
        opened.cursor().execute("SELECT pgml.import_model('frame', %s)", [(tmp_path / "model.ubj").read_bytes()])
    with pytest.raises(Exception, match='column "size" .* was text in training and is integer here'):
        database.sql("SELECT pgml.predict('frame', 0.5::real, 'red'::text, 5)")


def test_names_beyond_ascii_stay_codes(database, frame, tmp_path):
    """XGBoost 3.2 counts letters where it should count bytes: what it stores of the names is not to be trusted."""
    frame["color"] = frame["color"].cat.rename_categories({"grey": "grün"})
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=4, enable_categorical=True).fit(frame, target(frame))
    model.save_model(tmp_path / "model.ubj")
    frame["color"] = frame["color"].cat.codes
    load(database, frame, model.predict(frame.assign(color=pandas.Categorical.from_codes(
        frame["color"], ["blue", "green", "grün", "red"]))))  # fmt: skip
    with database.connect() as opened:
        opened.cursor().execute("SELECT pgml.import_model('frame', %s)", [(tmp_path / "model.ubj").read_bytes()])
    wrong = "SELECT count(*) FROM said WHERE pgml.predict('frame', num, color::int, size::text) IS DISTINCT FROM value"
    assert database.sql(wrong) == "0"
    with pytest.raises(Exception, match='column "color" .* was a number in training'):
        database.sql("SELECT pgml.predict('frame', 0.5::real, 'grün'::text, '5')")
