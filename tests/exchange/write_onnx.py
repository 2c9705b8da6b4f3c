"""Writes the ONNX models that fuzzing and the tests of `crates/learn` begin from: `python tests/exchange/write_onnx.py`.

They are small, and together they have most operators that are known; how they predict is tests/test_onnx.py's.
"""

import sys
from pathlib import Path

import numpy
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

SEEDS = Path(__file__).parent.parent.parent / "fuzz" / "seeds" / "model_onnx"
random = numpy.random.default_rng(3)
FEATURES = random.normal(size=(60, 3)).astype(numpy.float32)
TARGET = FEATURES @ numpy.array([1.0, -2.0, 0.5])
WORDS = numpy.array(["low", "mid", "high"])[numpy.digitize(TARGET, [-1, 1])]


def network():
    """As a network comes from where networks are trained: without a word on classes."""
    weights = [random.normal(size=shape).astype(numpy.float32) for shape in [(5, 3), (5,), (5, 2), (2,)]]
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], transB=1),
        helper.make_node("LeakyRelu", ["h"], ["r"], alpha=0.1),
        helper.make_node("Clip", ["r", "", "six"], ["c"]),
        helper.make_node("MatMul", ["c", "w1"], ["m"]),
        helper.make_node("Add", ["m", "b1"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1),
    ]
    tensors = [*zip(["w0", "b0", "w1", "b1"], weights, strict=True), ("six", numpy.float32(6))]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 2])],
        [numpy_helper.from_array(numpy.asarray(array), name) for name, array in tensors],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def columns():
    """Columns of numbers and texts, each an input."""
    colors = numpy.array(["red", "green", "blue"])[random.integers(0, 3, 60)]
    table = numpy.column_stack([FEATURES[:, 0].astype(object), colors])
    prepare = ColumnTransformer(
        [("number", make_pipeline(SimpleImputer(), StandardScaler()), [0]), ("text", OneHotEncoder(), [1])]
    )
    model = make_pipeline(prepare, LogisticRegression()).fit(table, WORDS)
    return to_onnx(model, initial_types=[("size", FloatTensorType([None, 1])), ("color", StringTensorType([None, 1]))])


def main():
    SEEDS.mkdir(parents=True, exist_ok=True)
    models = {
        "forest": RandomForestRegressor(2, max_depth=3, random_state=1).fit(FEATURES, TARGET),
        "boosting": GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=1).fit(FEATURES, WORDS),
        "layers": MLPClassifier(hidden_layer_sizes=(4,), max_iter=5, random_state=1).fit(FEATURES, TARGET > 0),
        "bayes": GaussianNB().fit(FEATURES, TARGET > 0),
        "regression_svm": SVR(max_iter=20).fit(FEATURES[:12], TARGET[:12]),
        "classes_svm": SVC().fit(FEATURES[:30], WORDS[:30]),
    }
    written = {name: to_onnx(model, FEATURES[:1]) for name, model in models.items()}
    written |= {"network": network(), "columns": columns()}
    for name, model in written.items():
        (SEEDS / f"{name}.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    sys.exit(main())
