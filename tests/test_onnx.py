"""Models in the ONNX format predict as onnxruntime does, which is asked about the same rows."""

import numpy
import onnxruntime
import pg8000.dbapi
import pytest
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.calibration import CalibratedClassifierCV
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
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC, LinearSVR
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
    "ridge": (RidgeClassifier(), WORDS),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zipmap", [True, False])
def test_classifiers_predict_as_onnxruntime(ask, zipmap):
    for kind, (model, label) in CLASSIFIERS.items():
        model.fit(TRAIN, label)
        last = model[-1] if hasattr(model, "steps") else model
        options = None if zipmap or kind in ("scores", "ridge") else {id(last): {"zipmap": False}}
        data = to_onnx(model, TRAIN[:1], options=options).SerializeToString()
        assert import_model(ask, kind, data)[1:4] == ["classification", "onnx", True]
        labels, scores = oracle(data, {"X": ROWS})
        if isinstance(scores, list):
            scores = [list(row.values()) for row in scores]
        expected = [str(name).lower() if kind == "boolean" else str(name) for name in labels]
        assert values(ask, kind, "predict_label", ROWS) == expected, kind
        if kind in ("scores", "ridge"):
            assert error(ask, "SELECT pgml.predict_proba(%s::text, '{1,2,3,4}'::real[])", kind)[0] == "0A000"
        else:
            assert close(values(ask, kind, "predict_proba", ROWS), scores), kind
        if kind == "numbers":
            assert values(ask, kind, "predict", ROWS) == [float(name) for name in labels]


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
