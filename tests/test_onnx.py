"""Models in the ONNX format predict as onnxruntime does, which is asked about the same rows."""

import json

import numpy
import onnxruntime
import pg8000.dbapi
import pytest
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeClassifier

RANDOM = numpy.random.default_rng(11)
TRAIN = RANDOM.normal(size=(200, 4)).astype(numpy.float32)
TARGET = TRAIN @ numpy.array([1.0, -2.0, 0.5, 0.0])
TWO = (TARGET > 0).astype(int)
WORDS = numpy.array(["low", "mid", "high"])[numpy.digitize(TARGET, [-1, 1])]
# Other rows than those of the training, some far away, and for those who know what to do with them some with gaps.
ROWS = numpy.concatenate([RANDOM.normal(size=(150, 4)), 10 * RANDOM.normal(size=(50, 4))]).astype(numpy.float32)


def with_gaps(features):
    gaps = features.copy()
    gaps[RANDOM.random(gaps.shape) < 0.15] = numpy.nan
    return gaps


@pytest.fixture
def ask(database):
    """A function that asks a statement with parameters, and gives its rows."""
    with database.connect() as connection:

        def ask(statement, *parameters):
            cursor = connection.cursor()
            cursor.execute(statement, parameters)
            return list(cursor.fetchall()) if cursor.description else []

        yield ask


def error(ask, statement, *parameters):
    with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
        ask(statement, *parameters)
    return raised.value.args[0]["C"], raised.value.args[0]["M"]


def array(row):
    """A row as an SQL array."""
    return "{" + ",".join("NULL" if numpy.isnan(value) else repr(float(value)) for value in row) + "}"


def values(ask, project, kind, rows):
    answers = ask(
        f"SELECT pgml.{kind}(%s, r::real[]) FROM unnest(%s::text[]) WITH ORDINALITY u(r, i) ORDER BY i",
        project,
        [array(row) for row in rows],
    )
    return [answer[0] for answer in answers]


def oracle(model, inputs):
    """What onnxruntime makes of the inputs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def import_model(ask, project, data, more=""):
    return ask(f"SELECT * FROM pgml.import_model(%s, %s::bytea {more})", project, data)[0]


def close(found, expected):
    """As onnxruntime's float32 sums have it: to 1e-5 of the number, or of 1."""
    found, expected = numpy.asarray(found, dtype=float), numpy.asarray(expected, dtype=float).reshape(len(found), -1)
    found = found.reshape(len(found), -1)
    return (numpy.abs(found - expected) <= 1e-5 * numpy.maximum(1, numpy.abs(expected))).all()


REGRESSIONS = {
    "linear": LinearRegression(),
    "scaled": make_pipeline(StandardScaler(), Ridge()),
    "min-max": make_pipeline(MinMaxScaler(), LinearSVR()),
    "robust": make_pipeline(RobustScaler(), LinearRegression()),
    "components": make_pipeline(PCA(2), LinearRegression()),
    "selected": make_pipeline(SelectKBest(k=2), LinearRegression()),
    "polynomial": make_pipeline(PolynomialFeatures(2), LinearRegression()),
    "norm": make_pipeline(Normalizer(), LinearRegression()),
    "binary": make_pipeline(Binarizer(), LinearRegression()),
    "power": make_pipeline(PowerTransformer(), LinearRegression()),
    "poisson": PoissonRegressor(),
    "kernels": SVR(),
    "forest": RandomForestRegressor(8, random_state=1),
    "extra": ExtraTreesRegressor(8, random_state=1),
    "boosting": GradientBoostingRegressor(n_estimators=8, random_state=1),
    "network": MLPRegressor(hidden_layer_sizes=(9, 5), activation="tanh", max_iter=50, random_state=1),
}


@pytest.mark.filterwarnings("ignore")
def test_regressions_predict_as_onnxruntime(ask):
    for kind, model in REGRESSIONS.items():
        model.fit(TRAIN, numpy.abs(TARGET) if kind == "poisson" else TARGET)
        data = to_onnx(model, TRAIN[:1]).SerializeToString()
        _, task, algorithm, deployed, stored = import_model(ask, kind, data)
        assert (task, algorithm, deployed) == ("regression", "onnx", True), kind
        rows = ROWS[:150] if kind == "poisson" else ROWS
        assert close(values(ask, kind, "predict", rows), oracle(data, {"X": rows})[0]), kind
        assert bytes(ask("SELECT pgml.export_model(%s::bigint)", stored)[0][0]) == data
        assert bytes(ask("SELECT pgml.export_model(%s::text, 'onnx')", kind)[0][0]) == data


CLASSIFIERS = {
    "logistic": (LogisticRegression(), TWO),
    "scaled": (make_pipeline(StandardScaler(), LogisticRegression()), WORDS),
    "rest": (OneVsRestClassifier(LogisticRegression()), WORDS),
    "network": (MLPClassifier(hidden_layer_sizes=(9, 5), max_iter=50, random_state=1), TWO),
    "networks": (MLPClassifier(hidden_layer_sizes=(9,), activation="logistic", max_iter=50, random_state=1), WORDS),
    "tree": (DecisionTreeClassifier(max_depth=4, random_state=1), WORDS),
    "forest": (RandomForestClassifier(8, random_state=1), TWO),
    "forests": (RandomForestClassifier(8, random_state=1), WORDS),
    "boosting": (GradientBoostingClassifier(n_estimators=8, random_state=1), TWO),
    "boostings": (GradientBoostingClassifier(n_estimators=8, random_state=1), WORDS),
    "descent": (SGDClassifier(loss="log_loss", random_state=1), TWO),
    "bayes": (GaussianNB(), TWO),
    "calibrated": (CalibratedClassifierCV(LinearSVC(random_state=1), cv=2), TWO),
    "boolean": (LogisticRegression(), TWO == 1),
    "numbers": (LogisticRegression(), TWO * 5 - 7),
    "ada": (AdaBoostClassifier(n_estimators=3, random_state=1), TWO),
    "scores": (LinearSVC(random_state=1), WORDS),
    "machine": (SVC(), TWO),
    "machines": (SVC(kernel="poly"), WORDS),
    "pairs": (SVC(decision_function_shape="ovo"), WORDS),
    "four": (SVC(), TWO + 2 * (TRAIN[:, 3] > 0)),
    "ridge": (RidgeClassifier(), WORDS),
}

# Those that have no probabilities.
SCORES = ("scores", "ridge", "machine", "machines", "pairs", "four")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipmap", [True, False])
def test_classifiers_predict_as_onnxruntime(ask, zipmap):
    for kind, (model, label) in CLASSIFIERS.items():
        model.fit(TRAIN, label)
        last = model[-1] if hasattr(model, "steps") else model
        options = None if zipmap or kind in SCORES else {id(last): {"zipmap": False}}
        data = to_onnx(model, TRAIN[:1], options=options).SerializeToString()
        assert import_model(ask, kind, data)[1:4] == ["classification", "onnx", True]
        labels, scores = oracle(data, {"X": ROWS})
        if isinstance(scores, list):
            scores = [list(row.values()) for row in scores]
        expected = [str(name).lower() if kind == "boolean" else str(name) for name in labels]
        assert values(ask, kind, "predict_label", ROWS) == expected, kind
        if kind in SCORES:
            assert error(ask, "SELECT pgml.predict_proba(%s::text, '{1,2,3,4}'::real[])", kind)[0] == "0A000"
        else:
            assert close(values(ask, kind, "predict_proba", ROWS), scores), kind
        if kind == "numbers":
            assert values(ask, kind, "predict", ROWS) == [float(name) for name in labels]


@pytest.mark.filterwarnings("ignore")
def test_the_class_of_a_machine_with_probabilities_is_the_most_probable(ask):
    """Votes decide in scikit-learn, which at times are of another class than its probabilities."""
    data = to_onnx(SVC(probability=True, random_state=1).fit(TRAIN, WORDS), TRAIN[:1]).SerializeToString()
    import_model(ask, "shares", data)
    scores = numpy.array([list(row.values()) for row in oracle(data, {"X": ROWS})[1]])
    assert close(values(ask, "shares", "predict_proba", ROWS), scores)
    assert values(ask, "shares", "predict_label", ROWS) == [["high", "low", "mid"][at] for at in scores.argmax(axis=1)]


@pytest.mark.filterwarnings("ignore")
def test_an_imputer_takes_what_is_missing(ask):
    gaps = with_gaps(TRAIN)
    model = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(gaps, WORDS)
    data = to_onnx(model, TRAIN[:1]).SerializeToString()
    import_model(ask, "imputed", data)
    rows = with_gaps(ROWS)
    labels, scores = oracle(data, {"X": rows})
    assert values(ask, "imputed", "predict_label", rows) == list(labels)
    assert close(values(ask, "imputed", "predict_proba", rows), [list(row.values()) for row in scores])
    # Without one, a gap is refused by the column's name.
    import_model(ask, "plain", to_onnx(LinearRegression().fit(TRAIN, TARGET), TRAIN[:1]).SerializeToString())
    state, message = error(ask, "SELECT pgml.predict('plain', '{1,NULL,3,4}'::real[])")
    assert state == "22004" and '"f1"' in message
    # Trees go a way of their own where something is missing.
    forest = RandomForestRegressor(5, random_state=1).fit(gaps, TARGET)
    data = to_onnx(forest, TRAIN[:1]).SerializeToString()
    import_model(ask, "forest", data)
    assert close(values(ask, "forest", "predict", rows), oracle(data, {"X": rows})[0])


def test_what_is_not_known_is_named(ask):
    """All of it at once, and nothing is stored."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], domain="example"),
        helper.make_node("CumSum", ["a", "one"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
        # Nobody asks for this one.
        helper.make_node("Loop", ["x"], ["unused"]),
    ]
    one = numpy_helper.from_array(numpy.array(1), "one")
    data = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [one])).SerializeToString()
    state, message = error(ask, "SELECT * FROM pgml.import_model('p', %s::bytea)", data)
    assert state == "0A000"
    assert "each of the operators example.Mystery, CumSum is not supported" in message
    assert ask("SELECT count(*) FROM pgml.projects") == [[0]]


def test_a_graph_is_neither_explained_nor_made_sql(ask):
    """Though it is of trees: the errors say where such a model must come from instead."""
    forest = RandomForestRegressor(5, random_state=1).fit(TRAIN, TARGET)
    import_model(ask, "forest", to_onnx(forest, TRAIN[:1]).SerializeToString())
    for call, what, instead in (
        ("SELECT * FROM pgml.explain('forest', '{1,2,3,4}'::real[])", "explained", "pgml.permutation_importance"),
        (
            "SELECT pgml.export_sql('forest')",
            "a graph of ONNX, and cannot be written as SQL",
            "the file of its own library",
        ),
    ):
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            ask(call)
        said = raised.value.args[0]
        assert said["C"] == "0A000" and what in said["M"] and instead in said["H"]


COLORS = numpy.array(["red", "green", "blue"])[RANDOM.integers(0, 3, 200)]
SIZES = numpy.array(["small", "large"])[RANDOM.integers(0, 2, 200)]
MIXED = numpy.column_stack([TRAIN[:, :2].astype(object), COLORS, SIZES])
COLUMNS = [
    ("width", FloatTensorType([None, 1])),
    ("height", FloatTensorType([None, 1])),
    ("color", StringTensorType([None, 1])),
    ("size", StringTensorType([None, 1])),
]


def mixed_oracle(data, rows):
    types = [numpy.float32, numpy.float32, object, object]
    inputs = {name: rows[:, [at]].astype(types[at]) for at, (name, _) in enumerate(COLUMNS)}
    return oracle(data, inputs)


def mixed_rows(ask, project, kind, rows):
    """What the server predicts for rows of named columns of numbers and texts, in another order than the model's."""
    return [
        ask(
            f"SELECT pgml.{kind}('{project}', r) FROM (SELECT %s::text AS size, %s::text AS color,"
            " %s::real AS height, 7 AS nothing, %s::real AS width) r",
            *[None if value is None or value != value else value for value in row[::-1]],
        )[0][0]
        for row in rows.tolist()
    ]


@pytest.mark.filterwarnings("ignore")
def test_columns_of_texts_are_categories(ask):
    prepare = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
            ("color", OneHotEncoder(handle_unknown="ignore"), [2]),
            ("size", OneHotEncoder(), [3]),
        ]
    )
    label = TRAIN[:, 0] + 2 * (COLORS == "red") - (SIZES == "small")
    words = numpy.array(["no", "yes"])[(label > 0.5).astype(int)]
    regression = make_pipeline(prepare, LinearRegression()).fit(MIXED, label)
    forest = make_pipeline(prepare, RandomForestClassifier(5, random_state=1)).fit(MIXED, words)
    rows = MIXED[:40].copy()
    rows[::7, 0] = numpy.nan
    rows[3, 2] = "violet"
    data = to_onnx(regression, initial_types=COLUMNS).SerializeToString()
    import_model(ask, "mixed", data)
    assert close(mixed_rows(ask, "mixed", "predict", rows), mixed_oracle(data, rows)[0])
    data = to_onnx(forest, initial_types=COLUMNS).SerializeToString()
    import_model(ask, "words", data, ", features => ARRAY['width', 'height', 'color', 'size']")
    labels, scores = mixed_oracle(data, rows)
    assert mixed_rows(ask, "words", "predict_label", rows) == list(labels)
    assert close(mixed_rows(ask, "words", "predict_proba", rows), [list(row.values()) for row in scores])
    # What an encoder was not to meet is refused, as onnxruntime and scikit-learn refuse it.
    row = rows[:1].copy()
    for strange in ("huge", None):
        row[0, 3] = strange
        with pytest.raises(pg8000.dbapi.DatabaseError, match='column \\\\?"size'):
            mixed_rows(ask, "mixed", "predict", row)
    state, message = error(
        ask, "SELECT pgml.import_model('p', %s::bytea, features => ARRAY['height', 'width', 'color', 'size'])", data
    )
    assert state == "22023" and 'feature 1 of the model is "width"' in message


@pytest.mark.filterwarnings("ignore")
def test_ordinal_codes_are_those_of_training(ask):
    prepare = ColumnTransformer([("words", OrdinalEncoder(), [2, 3])], remainder="passthrough")
    model = make_pipeline(prepare, GradientBoostingRegressor(n_estimators=5, random_state=1))
    model.fit(MIXED, TRAIN[:, 0] + 2 * (COLORS == "red"))
    data = to_onnx(model, initial_types=COLUMNS).SerializeToString()
    import_model(ask, "codes", data)
    assert close(mixed_rows(ask, "codes", "predict", MIXED[:30]), mixed_oracle(data, MIXED[:30])[0])


def network(nodes, inputs, outputs, version=17, **constants):
    """A graph made by hand, as exporters of networks make them; inputs and outputs by name with their width."""

    def info(names):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *dims]) for name, dims in names.items()]

    tensors = [numpy_helper.from_array(numpy.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "network", info(inputs), info(outputs), tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)
    return model.SerializeToString()


def weights(*shape):
    return RANDOM.normal(size=shape).astype(numpy.float32)


def layers(last, outputs):
    """Two dense layers, as PyTorch's exporter writes them, with what comes last."""
    node = helper.make_node
    return network(
        [
            node("Gemm", ["x", "w0", "b0"], ["a0"], transB=1),
            node("Relu", ["a0"], ["h0"]),
            node("Gemm", ["h0", "w1", "b1"], ["a1"], transB=1, alpha=0.5, beta=2.0),
            *last("a1"),
        ],
        {"x": [4]},
        {"y": [outputs]},
        w0=weights(8, 4),
        b0=weights(8),
        w1=weights(outputs, 8),
        b1=weights(outputs),
    )


def test_networks_predict_as_onnxruntime(ask):
    node = helper.make_node
    soft = layers(lambda name: [node("Softmax", [name], ["y"], axis=-1)], 3)
    assert import_model(ask, "soft", soft, ", classes => ARRAY['a', 'b', 'c']")[1] == "classification"
    expected = oracle(soft, {"x": ROWS})[0]
    assert close(values(ask, "soft", "predict_proba", ROWS), expected)
    assert values(ask, "soft", "predict_label", ROWS) == ["abc"[place] for place in expected.argmax(axis=1)]
    # Of scores nobody but their owner knows that they are of classes.
    scores = layers(lambda name: [node("Identity", [name], ["y"])], 3)
    expected = oracle(scores, {"x": ROWS})[0]
    assert import_model(ask, "several", scores)[1] == "regression"
    assert import_model(ask, "scores", scores, ", task => 'classification'")[1] == "classification"
    assert values(ask, "scores", "predict", ROWS) == list(expected.argmax(axis=1))
    joint = ask("SELECT pgml.predict_joint('several', '{1,2,3,4}'::real[])")[0][0]
    assert close([joint], oracle(scores, {"x": numpy.array([[1, 2, 3, 4]], numpy.float32)})[0])
    one = layers(lambda name: [node("Sigmoid", [name], ["y"])], 1)
    expected = oracle(one, {"x": ROWS})[0][:, 0]
    assert import_model(ask, "share", one)[1] == "regression"
    assert close(values(ask, "share", "predict", ROWS), expected)
    assert import_model(ask, "two", one, ", task => 'classification'")[1] == "classification"
    assert close(values(ask, "two", "predict_proba", ROWS), numpy.column_stack([1 - expected, expected]))


UNARY = [
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Neg",
    "Abs",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Erf",
    "Sin",
    "Cos",
    "Softplus",
    "Softsign",
    "LeakyRelu",
    "Elu",
    "HardSigmoid",
    "LogSoftmax",
    "Identity",
]
BINARY = ["Add", "Sub", "Mul", "Div", "Min", "Max"]


def test_each_operator_does_what_onnxruntime_does(ask):
    """One graph with an output an operator: whatever moves, folds and makes numbers."""
    node = helper.make_node
    nodes = [node(name, ["x"], [f"u{name}"]) for name in UNARY]
    nodes += [node(name, ["x", "other"], [f"b{name}"]) for name in BINARY]
    nodes += [
        node("Pow", ["x", "two"], ["m_pow"]),
        node("Clip", ["x", "low", "two"], ["m_clip"]),
        node("Reshape", ["x", "square"], ["cube"]),
        node("Transpose", ["cube"], ["turned"], perm=[0, 2, 1]),
        node("Flatten", ["turned"], ["m_turned"]),
        node("ReduceSum", ["cube", "last"], ["m_sum"], keepdims=0),
        node("ReduceMax", ["turned"], ["m_most"], axes=[1], keepdims=0),
        node("Softmax", ["cube"], ["soft"], axis=1),
        node("Flatten", ["soft"], ["m_soft"]),
        node("Slice", ["x", "first", "fourth", "one", "two_whole"], ["m_slice"]),
        node("Gather", ["x", "places"], ["m_gather"], axis=1),
        node("Split", ["x", "parts"], ["m_left", "m_right"], axis=1),
        node("Concat", ["m_right", "m_left", "m_right"], ["m_joined"], axis=1),
        node("Greater", ["x", "other"], ["greater"]),
        node("Where", ["greater", "x", "low"], ["m_where"]),
        node("MatMul", ["turned", "matrix"], ["product"]),
        node("Flatten", ["product"], ["m_product"]),
        node("BatchNormalization", ["x", "other", "x_b", "x_m", "x_v"], ["m_batch"]),
        node("Unsqueeze", ["x", "last_whole"], ["deep"]),
        node("Squeeze", ["deep", "last_whole"], ["m_flat"]),
    ]
    outputs = {f"u{name}": 4 for name in UNARY} | {f"b{name}": 4 for name in BINARY}
    outputs |= {"m_pow": 4, "m_clip": 4, "m_turned": 4, "m_sum": 2, "m_most": 2, "m_soft": 4, "m_slice": 2}
    outputs |= {"m_gather": 3, "m_left": 1, "m_right": 3, "m_joined": 7, "m_where": 4, "m_product": 6, "m_batch": 4}
    outputs |= {"m_flat": 4}
    whole = {"square": [-1, 2, 2], "last": [2], "first": [0], "fourth": [4], "one": [1], "two_whole": [2]}
    whole |= {"places": [3, 0, -2], "parts": [1, 3], "last_whole": [2]}
    data = network(
        nodes,
        {"x": [4]},
        {name: [size] for name, size in outputs.items()},
        other=numpy.array([0.5, -2, 3, 1], numpy.float32),
        low=numpy.float32(-0.5),
        two=numpy.float32(2),
        matrix=weights(2, 3),
        x_b=weights(4),
        x_m=weights(4),
        x_v=numpy.abs(weights(4)),
        **{name: numpy.array(list_, numpy.int64) for name, list_ in whole.items()},
    )
    rows = ROWS[:60]
    import_model(ask, "all", data)
    found = numpy.array(values(ask, "all", "predict_joint", rows))
    at = 0
    for name, expected in zip(outputs, oracle(data, {"x": rows}), strict=True):
        assert close(found[:, at : at + outputs[name]], expected), name
        at += outputs[name]
    assert at == found.shape[1]


def test_a_sample_must_agree(ask):
    model = LogisticRegression().fit(TRAIN, WORDS)
    data = to_onnx(model, TRAIN[:1]).SerializeToString()
    statement = "SELECT * FROM pgml.import_model('p', %s::bytea, sample => %s::jsonb, expected => %s::jsonb)"
    sample = json.dumps([float(x) for x in TRAIN[0]])
    shares = [float(x) for x in model.predict_proba(TRAIN[:1])[0]]
    assert error(ask, statement, data, sample, json.dumps(shares[::-1]))[0] == "22000"
    assert ask("SELECT count(*) FROM pgml.models") == [[0]]
    ask(statement, data, sample, json.dumps(shares))
    ask(statement, data, sample, json.dumps(str(model.predict(TRAIN[:1])[0])))


def test_files_that_ask_for_too_much_are_refused(ask):
    node = helper.make_node
    doubled = [node("Concat", [f"c{at}", f"c{at}"], [f"c{at + 1}"], axis=1) for at in range(34)]
    hollow = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 1 << 34])
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"])],
        "hollow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])],
        [hollow],
    )
    wide = network([node("Identity", ["x"], ["y"])], {"x": [1 << 40]}, {"y": [1]})
    whole = to_onnx(LogisticRegression().fit(TRAIN, WORDS), TRAIN[:1]).SerializeToString()
    for data, state, message in [
        (network(doubled, {"c0": [4]}, {"c34": [1]}), "0A000", "far larger than the file"),
        (helper.make_model(graph).SerializeToString(), "22P03", "0 elements"),
        (wide, "0A000", "features"),
        (network([node("Concat", ["x"] * 7000, ["y"], axis=1)], {"x": [10]}, {"y": [70000]}), "0A000", "65536 numbers"),
        (
            network([node("Gather", ["x", "i"], ["y"], axis=1)], {"x": [4]}, {"y": [1]}, i=[9]),
            "22P03",
            "element 9 of 4",
        ),
        (network([node("Relu", ["z"], ["y"])], {"x": [4]}, {"y": [4]}), "22P03", '"z"'),
        (network([node("ReduceSum", ["x"], ["y"])], {"x": [4]}, {"y": [4]}), "0A000", "across rows"),
        (whole[: len(whole) // 2], "22P03", "ends behind its message"),
    ]:
        assert error(ask, "SELECT pgml.import_model('p', %s::bytea, 'onnx')", data)[0] == state
        assert message in error(ask, "SELECT pgml.import_model('p', %s::bytea)", data)[1]
    assert ask("SELECT count(*) FROM pgml.projects") == [[0]]


def test_parallel_workers_predict_the_same(ask):
    forest = RandomForestRegressor(5, random_state=1).fit(TRAIN, TARGET)
    import_model(ask, "forest", to_onnx(forest, TRAIN[:1]).SerializeToString())
    ask(
        "CREATE TABLE rows AS SELECT ARRAY[i % 7 - 3, i % 5 - 2, 0.1 * (i % 11), 1]::real[] r FROM generate_series(1, 20000) i"
    )
    ask("ANALYZE rows")
    query = "SELECT sum(pgml.predict('forest', r)::float8) FROM rows"
    alone = ask(query)
    for name, value in [("parallel_setup_cost", 0), ("parallel_tuple_cost", 0), ("min_parallel_table_scan_size", 0)]:
        ask(f"SET {name} = {value}")
    assert "Gather" in str(ask(f"EXPLAIN {query}"))
    assert numpy.isclose(ask(query)[0][0], alone[0][0], rtol=1e-12)
