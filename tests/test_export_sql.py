"""Models of trees as plain SQL: the expression gives what the model predicts."""

import json
import struct

import numpy
import pg8000.dbapi
import pytest

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

RANDOM = numpy.random.default_rng(2)


@pytest.fixture
def ask(database):
    """A function that asks a statement, and gives its rows."""
    with database.connect() as connection:

        def ask(statement):
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

        ask(
            """CREATE TABLE t AS SELECT CASE WHEN i % 7 <> 0 THEN sin(i)::real END AS "a b", CASE WHEN i % 11 = 0 THEN 'NaN'
            WHEN i % 13 <> 0 THEN cos(i * 3) END::float8 AS b, (i * 37 % 100)::int AS n, i % 3 = 0 AS yes,
            CASE WHEN i % 17 <> 0 THEN (ARRAY['it''s', 'b\\c', 'd', 'e'])[i % 4 + 1] END AS c,
            ARRAY[i % 5, i % 2]::real[] AS v FROM generate_series(1, 400) i"""
        )
        yield ask


LABELS = {
    "number": """coalesce("a b", 0) * 3 + n / 50.0 + CASE c WHEN 'd' THEN 2 WHEN 'e' THEN -1 ELSE 0 END""",
    "two": """CASE WHEN coalesce("a b", 0) + v[2] > 0.5 THEN 'up' ELSE 'down' END""",
    "three": "n % 3",
}
MODELS = [
    ("xgboost", "number", '{"n_estimators": 8, "max_depth": 4, "nthread": 1}'),
    ("xgboost", "number", '{"n_estimators": 8, "booster": "dart", "rate_drop": 0.5, "nthread": 1}'),
    ("xgboost", "number", '{"n_estimators": 4, "objective": "reg:logistic", "nthread": 1}'),
    ("xgboost", "two", '{"n_estimators": 8, "nthread": 1}'),
    ("xgboost", "three", '{"n_estimators": 5, "nthread": 1}'),
    ("xgboost_random_forest", "number", '{"n_estimators": 5, "max_depth": 4, "nthread": 1}'),
    (
        "lightgbm",
        "number",
        '{"n_estimators": 8, "num_leaves": 7, "min_data_per_group": 1, "cat_smooth": 1, "num_threads": 1}',
    ),
    ("lightgbm", "two", '{"n_estimators": 8, "num_leaves": 7, "sigmoid": 2, "num_threads": 1}'),
    ("lightgbm", "three", '{"n_estimators": 4, "num_leaves": 5, "num_threads": 1}'),
]


@pytest.mark.parametrize("label", LABELS)
def test_the_expression_is_the_prediction(ask, label):
    task = "regression" if label == "number" else "classification"
    models = [model for model in MODELS if model[1] == label]
    for number, (algorithm, _, hyperparams) in enumerate(models):
        value = LABELS[label]
        if "reg:logistic" in hyperparams:
            value = f"1 / (1 + exp(-({value})))"
        ask(
            f"""SELECT pgml.train('p{number}', '{task}', $$(SELECT *, ({value}) AS y FROM t)$$, 'y', '{algorithm}',
            '{hyperparams}')"""
        )
        sql = ask(f"SELECT pgml.export_sql('p{number}')")[0][0]
        function = "predict" if label == "number" else "predict_proba"
        # The rows, and some with what training never saw.
        rows = """(SELECT * FROM t UNION ALL SELECT NULL, 'Infinity', NULL, NULL, 'other', '{9,NULL}'
            UNION ALL SELECT 'NaN', '-Infinity', -7, true, NULL, '{0,1}')"""
        found = ask(f"SELECT {sql}, pgml.{function}('p{number}', r) FROM {rows} r")
        assert len(found) == 402
        for own, model in found:
            assert numpy.allclose(own, model, rtol=0, atol=2e-7 * max(1, numpy.abs(model).max())), (
                algorithm,
                own,
                model,
            )
        if label == "number" and "logistic" not in hyperparams and algorithm != "lightgbm":
            assert all(own == model for own, model in found), algorithm


def error(ask, statement):
    with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        ask(statement)
    return raised.value.args[0]["C"], raised.value.args[0]["M"]


def test_what_is_no_small_tree_is_an_error(ask):
    ask("SELECT pgml.load_dataset('diabetes')")
    for algorithm, more, state, message in [
        ("ridge", "", "0A000", "not a model of trees"),
        ("xgboost", ', hyperparams => \'{"n_estimators": 1000, "nthread": 1}\'', "54000", "at most 10000 can be"),
        ("xgboost", ', hyperparams => \'{"booster": "gblinear", "nthread": 1}\'', "0A000", "gblinear"),
        (
            "xgboost",
            ', preprocess => \'{"bmi": {"scale": "standard"}}\', hyperparams => \'{"nthread": 1}\'',
            "0A000",
            "preprocess",
        ),
    ]:
        ask(f"SELECT pgml.train('d', 'regression', 'pgml.diabetes', 'target', '{algorithm}' {more})")
        newest = ask("SELECT max(id) FROM pgml.models")[0][0]
        found, said = error(ask, f"SELECT pgml.export_sql({newest})")
        assert (found, message in said) == (state, True), said
    assert error(ask, "SELECT pgml.export_sql(77777)")[0] == "42704"
    assert error(ask, "SELECT pgml.export_sql('nothing')")[0] == "42704"
    assert error(ask, "SELECT pgml.export_sql(NULL::text)")[0] == "22004"
    ask("DROP ROLE IF EXISTS sql_stranger")
    ask("CREATE ROLE sql_stranger")
    ask("SET ROLE sql_stranger")
    assert error(ask, "SELECT pgml.export_sql('d')")[0] == "42501"
    ask("RESET ROLE")
    ask("DROP ROLE sql_stranger")


def safetensors(arrays, about):
    """A file of these arrays, each of a type and bytes, as the library of that name writes it."""
    header, data = {"__metadata__": about}, b""
    for name, (kind, values) in arrays.items():
        header[name] = {"dtype": kind, "shape": [len(values)], "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def test_nodes_that_share_their_children_are_not_written_once_for_each_way_there(ask):
    """Sixty levels of one node each are 2^60 ways; a model like that can be imported."""
    ask("""SELECT pgml.train('shared', 'regression', '(SELECT n, n AS y FROM t)', 'y', 'random_forest',
        '{"n_estimators": 1, "max_depth": 2}')""")
    stored = bytes(ask("SELECT pgml.export_model('shared')")[0][0])
    size = struct.unpack("<Q", stored[:8])[0]
    header = json.loads(stored[8 : 8 + size])
    kinds = {"F64": numpy.float64, "F32": numpy.float32, "U32": numpy.uint32}
    arrays = {}
    for name, array in header.items():
        if name != "__metadata__":
            begin, end = array["data_offsets"]
            arrays[name] = (
                array["dtype"],
                numpy.frombuffer(stored[8 + size + begin : 8 + size + end], kinds[array["dtype"]]),
            )
    levels = 60
    thresholds = numpy.arange(levels, dtype=numpy.float32).view(numpy.uint32)
    splits = [[0, thresholds[level], level + 1, level + 1] for level in range(levels)]
    nodes = numpy.array([*splits, [0xFFFFFFFF, 0, 0, 0]], numpy.uint32).ravel()
    arrays["nodes"] = ("U32", nodes)
    arrays["roots"] = ("U32", numpy.array([0, levels + 1], numpy.uint32))
    for name in ("covers", "gains"):
        arrays[name] = ("F32", numpy.ones(levels + 1, numpy.float32))
    order = sorted(arrays, key=lambda name: arrays[name][0] != "F64")
    data = safetensors({name: arrays[name] for name in order}, header["__metadata__"]).hex()
    ask(rf"SELECT pgml.import_model('ways', '\x{data}')")
    ask("SET statement_timeout = '20s'")
    with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        ask("SELECT pgml.export_sql('ways')")
    assert raised.value.args[0]["C"] == "54000", raised.value
