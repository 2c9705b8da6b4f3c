"""Reports about models: the same by both interfaces, and what `pgml` gives; their plots."""

import sys

import howdah
import howdah.dbapi
import matplotlib
import numpy
import pytest

matplotlib.use("svg")
from matplotlib import pyplot

CANCER = "pgml.breast_cancer"
ROW = "select * from pgml.iris order by sepal_length, sepal_width limit 1"


@pytest.fixture(scope="module")
def trained(server):
    """A database with models of two and of three classes."""
    server.psql("create database reports")
    server.psql("create extension pgml", "reports")
    with connect(server) as connection:
        connection.execute("select pgml.load_dataset('breast_cancer'), pgml.load_dataset('iris')")
        more = {"algorithm": "xgboost", "hyperparams": {"n_estimators": 10, "nthread": 1}}
        made = connection.train(
            "cancer", task="classification", relation_name=CANCER, y_column_name="malignant", progress=False, **more
        )
        assert tuple(made) == ("cancer", "classification", "xgboost", True)
        heard = []
        connection.train(
            "iris",
            task="classification",
            relation_name="pgml.iris",
            y_column_name="target",
            progress=heard.append,
            **more,
        )
        assert any("num_features: 4" in report.message for report in heard)
    yield server
    server.psql("drop database reports with (force)")


def connect(server, **options):
    return howdah.dbapi.connect(server.url("reports"), autocommit=True, **options)


# A report's method and arguments, the names of its columns, and what its plot has: lines, bars.
REPORTS = [
    ("roc_curve", ("cancer", CANCER), "class threshold fpr tpr", (2, 0)),
    ("roc_curve", ("iris", "pgml.iris"), "class threshold fpr tpr", (4, 0)),
    ("precision_recall_curve", ("cancer", CANCER), "class threshold precision recall", (1, 0)),
    ("calibration_curve", ("cancer", CANCER), "class bin rows predicted actual", (2, 0)),
    ("feature_importance", ("iris",), "feature gain weight cover", (0, 4)),
    ("permutation_importance", ("iris", "pgml.iris"), "feature importance std_dev", (None, 4)),
    ("drift", ("cancer", CANCER), "feature psi ks rows p_value unseen", (1, 20)),
    ("learning_curve", ("iris",), "round part metric value", (2, 0)),
    ("explain_row", ("cancer", [1.0] * 30), "feature value contribution class", (1, 20)),
]


@pytest.mark.parametrize(("name", "args", "columns", "drawn"), REPORTS)
def test_a_report_is_rows_a_table_and_a_plot(trained, name, args, columns, drawn):
    with connect(trained) as connection:
        report = getattr(connection, name)(*args)
        assert list(report[0].keys()) == columns.split()
        assert "<table>" in report._repr_html_()
        axes = report.plot()
        lines, bars = drawn
        assert lines is None or len(axes.lines) == lines
        assert len(axes.patches) == bars
        assert axes.get_title().endswith(f"of {args[0]}")
        figure, (left, _) = pyplot.subplots(1, 2)
        assert report.plot(left) is left and left.figure is figure
        pyplot.close("all")
        # By the model's id the same.
        (model,) = connection.execute("select id from pgml.deployed_models where name = %s", args[:1]).fetchone()
        assert getattr(connection, name)(model, *args[1:]) == report


def test_the_asyncio_interface_has_the_same(trained):
    with connect(trained) as connection:
        for name, args, _, _ in REPORTS:
            assert connection.wait(getattr(connection.asynchronous, name)(*args)) == getattr(connection, name)(*args)


def test_metrics(trained):
    with connect(trained) as connection:
        metrics = connection.evaluate("cancer", CANCER)
        assert metrics["roc_auc"] > 0.9 and metrics["rows_used"] == "held_out"
        assert connection.evaluate("cancer", CANCER, "malignant", rows="all")["rows"] == 569
        assert connection.evaluate("cancer", CANCER, ["malignant"], rows="all")["rows"] == 569
        with pytest.raises(howdah.dbapi.ProgrammingError, match='project "nobody" does not exist'):
            connection.evaluate("nobody", CANCER)
        with pytest.raises(howdah.dbapi.ProgrammingError, match='project "nobody" does not exist'):
            connection.learning_curve("nobody")
        with pytest.raises(TypeError, match="a project's name or a model's id, not float"):
            connection.evaluate(1.5, CANCER)


def test_an_explanation_by_names_is_that_of_predictions(trained):
    with connect(trained, row_factory=howdah.dbapi.dict_row) as connection:
        row = connection.execute(ROW).fetchone()
        report = connection.explain_row("iris", row)
        matrix = connection.explain("iris", connection.fetch_columns(ROW))
        assert [part["contribution"] for part in report] == pytest.approx(matrix.ravel().tolist())
        assert report == connection.explain_row("iris", dict(reversed(row.items())))
        assert report.plot(of="1").get_xlabel().endswith("class 1")
        with pytest.raises(ValueError, match="no class 'none': it has '0', '1', '2'"):
            report.plot(of="none")
        pyplot.close("all")
        with pytest.raises(howdah.dbapi.ProgrammingError):
            connection.explain_row("iris", {"sepal_length": 1})


def test_models_go_and_come_back(trained):
    with connect(trained) as connection:
        data = connection.export_model("iris")
        made = connection.import_model("again", data, classes=["0", "1", "2"])
        assert made["deployed"]
        columns = connection.fetch_columns("select * from pgml.iris")
        found = connection.predict("again", columns)
        assert numpy.array_equal(found, connection.predict("iris", columns))
        assert connection.predict_proba("iris", columns).shape == (150, 3)


def test_a_training_is_part_of_the_transaction(trained):
    with howdah.dbapi.connect(trained.url("reports")) as connection:
        connection.train(
            "gone", task="regression", relation_name="pgml.iris", y_column_name="sepal_length", progress=False
        )
        assert connection.in_transaction
        connection.rollback()
        with pytest.raises(howdah.dbapi.ProgrammingError, match='project "gone" does not exist'):
            connection.predict("gone", numpy.zeros((1, 4)))
        connection.rollback()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="plots need matplotlib: `pip install matplotlib`"):
        howdah.Report("roc_curve", "p", []).plot()
    assert howdah.Report("drift", "p", [])._repr_html_() == "<p>no rows of drift</p>"
