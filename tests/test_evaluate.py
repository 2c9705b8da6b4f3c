"""What a model does with rows of any table: metrics, curves, comparisons. scikit-learn is the oracle."""

import json

import numpy as np
import pg8000.dbapi
import pytest
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

from devkit import Problem
from tests.conftest import Database

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

OWNER, STRANGER = "pgml_test_evaluator", "pgml_test_evaluate_stranger"
FUNCTIONS = {
    "evaluate": ("cancer", "pgml.breast_cancer"),
    "confusion_matrix": ("cancer", "pgml.breast_cancer"),
    "roc_curve": ("cancer", "pgml.breast_cancer"),
    "precision_recall_curve": ("cancer", "pgml.breast_cancer"),
    "calibration_curve": ("cancer", "pgml.breast_cancer"),
    "residual_quantiles": ("diabetes", "pgml.diabetes"),
}


@pytest.fixture(scope="module")
def loaded(server):
    """A database with data sets and models of an owner who is no superuser."""
    name = "evaluations"
    server.psql(f"DROP ROLE IF EXISTS {OWNER}, {STRANGER}")
    server.psql(f"CREATE ROLE {OWNER}; CREATE ROLE {STRANGER}; CREATE DATABASE {name}")
    try:
        server.psql(f"ALTER DATABASE {name} SET pgml.refit = 'off'")
        database = Database(server, name)
        database.sql("CREATE EXTENSION pgml")
        for source in ("iris", "diabetes", "linnerud", "breast_cancer"):
            database.sql(f"SELECT pgml.load_dataset('{source}'); GRANT SELECT ON pgml.{source} TO {OWNER}, {STRANGER}")
        database.sql(f"""
            GRANT INSERT ON pgml.projects TO {OWNER};
            CREATE TABLE secret AS SELECT *, row_number() OVER () AS id FROM pgml.breast_cancer
                FULL JOIN pgml.diabetes ON false;
            GRANT SELECT ON secret TO {OWNER};
            CREATE TABLE flowers AS SELECT sepal_length, sepal_width, petal_length,
                CASE WHEN petal_width < 0.5 THEN 'thin' WHEN petal_width < 1.6 THEN 'fair' ELSE 'wide' END AS width,
                ('{{setosa,versicolor,virginica}}'::text[])[target + 1] AS kind, row_number() OVER () AS id
            FROM pgml.iris;
            GRANT SELECT ON flowers TO {OWNER}, {STRANGER};
            SET ROLE {OWNER};
            SELECT pgml.train('cancer', 'classification', 'pgml.breast_cancer', 'malignant', 'xgboost',
                '{{"n_estimators": 20, "max_depth": 2}}', test_sampling => 'last', test_size => 0.3);
            SELECT pgml.train('flowers', 'classification',
                '(SELECT sepal_length, sepal_width, petal_length, width, kind FROM flowers ORDER BY id * 7 % 151)', 'kind',
                'linear', test_sampling => 'last', test_size => 50,
                preprocess => '{{"width": {{"encode": "one_hot"}}, "petal_length": {{"scale": "standard"}}}}');
            SELECT pgml.train('diabetes', 'regression', 'pgml.diabetes', 'target', 'xgboost',
                '{{"n_estimators": 20}}', test_sampling => 'last', test_size => 100);
            SELECT pgml.train('diabetes', algorithm => 'ridge', automatic_deploy => false);
            SELECT pgml.train('groups', 'clustering', '(SELECT sepal_length, petal_length FROM pgml.iris)',
                algorithm => 'kmeans', hyperparams => '{{"n_clusters": 3}}', test_sampling => 'last');
            SELECT pgml.train('parts', 'decomposition', '(SELECT sepal_length, petal_length FROM pgml.iris)',
                algorithm => 'pca', hyperparams => '{{"n_components": 1}}', test_sampling => 'last');
            SELECT pgml.train_joint('exercises', 'regression', 'pgml.linnerud', ARRAY['weight', 'waist', 'pulse'], 'ridge',
                test_sampling => 'last');
        """)
        yield database
    finally:
        server.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.psql(f"DROP ROLE {OWNER}, {STRANGER}")


def fetch(database, query):
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(query)
        return cursor.fetchall()


def state(database, role, query):
    """The SQLSTATE that a query of a role ends with."""
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(f"SET ROLE {role}")
        try:
            cursor.execute(query)
        except pg8000.dbapi.DatabaseError as error:
            return error.args[0]["C"]
        return "00000"


def predictions(database, project, relation, label):
    """Labels, predicted probabilities and classes of the rows of a table."""
    rows = fetch(
        database,
        f"SELECT {label}::text, pgml.predict_proba('{project}', t), pgml.predict_label('{project}', t) FROM {relation} t",
    )
    labels, probabilities, predicted = zip(*rows, strict=True)
    return np.array(labels), np.array(probabilities), np.array(predicted)


@pytest.mark.parametrize(
    "project, test_rows",
    [
        ("cancer", "(SELECT * FROM pgml.breast_cancer OFFSET 398)"),
        ("flowers", "(SELECT * FROM (SELECT * FROM flowers ORDER BY id * 7 % 151) f OFFSET 100)"),
        ("diabetes", "(SELECT * FROM pgml.diabetes OFFSET 342)"),
        ("groups", "(SELECT * FROM pgml.iris OFFSET 112)"),
        ("parts", "(SELECT * FROM pgml.iris OFFSET 112)"),
        ("exercises", "(SELECT * FROM pgml.linnerud OFFSET 15)"),
    ],
)
def test_the_metrics_of_the_test_rows_are_those_of_the_training(loaded, project, test_rows):
    (evaluated,) = fetch(loaded, f"SELECT pgml.evaluate('{project}', '{test_rows}')")[0]
    (trained,) = fetch(
        loaded, f"SELECT metrics FROM pgml.models JOIN pgml.deployed_models d USING (id) WHERE d.name = '{project}'"
    )[0]
    rows = evaluated.pop("rows")
    assert rows == fetch(loaded, f"SELECT count(*) FROM {test_rows} t")[0][0]
    assert evaluated.pop("rows_used") == "all"
    assert evaluated and {name: trained[name] for name in evaluated} == evaluated


def test_metrics_of_any_rows_are_those_of_scikit_learn(loaded):
    rows = "pgml.breast_cancer"
    labels, probabilities, predicted = predictions(loaded, "cancer", rows, "malignant")
    found = json.loads(loaded.sql(f"SELECT pgml.evaluate('cancer', '{rows}')"))
    truth, positive = labels == "true", probabilities[:, 1]
    for name, wanted in {
        "rows": len(labels),
        "accuracy": sk.accuracy_score(labels, predicted),
        "f1": sk.f1_score(truth, predicted == "true"),
        "precision": sk.precision_score(truth, predicted == "true"),
        "recall": sk.recall_score(truth, predicted == "true"),
        "mcc": sk.matthews_corrcoef(labels, predicted),
        "roc_auc": sk.roc_auc_score(truth, positive),
        "log_loss": sk.log_loss(truth, positive),
    }.items():
        assert found[name] == pytest.approx(wanted, rel=1e-6), name


def test_precision_and_recall_of_several_classes_are_not_swapped(loaded):
    """More rows of one class than of the others make the two differ."""
    rows = "(SELECT * FROM flowers UNION ALL SELECT * FROM flowers WHERE kind = ''virginica'')"
    labels, _, predicted = predictions(loaded, "flowers", rows.replace("''", "'"), "kind")
    found = json.loads(loaded.sql(f"SELECT pgml.evaluate('flowers', '{rows}')"))
    precision = sk.precision_score(labels, predicted, average="macro")
    recall = sk.recall_score(labels, predicted, average="macro")
    assert precision != pytest.approx(recall, abs=1e-4)
    assert (found["precision"], found["recall"]) == (pytest.approx(precision), pytest.approx(recall))


def test_a_confusion_matrix_has_every_pair_of_classes(loaded):
    labels, _, predicted = predictions(loaded, "flowers", "flowers", "kind")
    classes = ["setosa", "versicolor", "virginica"]
    wanted = sk.confusion_matrix(labels, predicted, labels=classes)
    rows = fetch(loaded, "SELECT * FROM pgml.confusion_matrix('flowers', 'flowers')")
    pairs = [(a, b) for a in classes for b in classes]
    assert [tuple(row[:2]) for row in rows] == pairs
    assert [row[2] for row in rows] == wanted.ravel().tolist() and wanted.trace() < 150


def test_classes_that_the_model_does_not_know_count_as_wrong(loaded):
    rows = "(SELECT sepal_length, sepal_width, petal_length, width, CASE id WHEN 1 THEN 'tulip' ELSE kind END AS kind FROM flowers)"
    quoted = rows.replace("'", "''")
    found = fetch(loaded, f"SELECT * FROM pgml.confusion_matrix('flowers', '{quoted}')")
    assert len(found) == 12 and sum(row[2] for row in found) == 150
    assert [row[2] for row in found if row[0] == "tulip"] == [1, 0, 0]
    labels, _, predicted = predictions(loaded, "flowers", rows, "kind")
    metrics = json.loads(loaded.sql(f"SELECT pgml.evaluate('flowers', '{quoted}')"))
    assert metrics["accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    assert metrics["recall"] == pytest.approx(sk.recall_score(labels, predicted, average="macro", zero_division=0))


def test_labels_are_told_apart_as_numbers_however_they_are_written(loaded):
    rows = "(SELECT i.*, target + 0.0 AS kind FROM pgml.iris i)"
    loaded.sql(
        "SELECT pgml.train('numbers', 'classification', 'pgml.iris', 'target', 'xgboost', '{\"n_estimators\": 3}')"
    )
    with_numbers = loaded.sql(f"SELECT pgml.evaluate('numbers', '{rows}', 'kind')")
    assert with_numbers == loaded.sql("SELECT pgml.evaluate('numbers', 'pgml.iris', rows => 'all')")


@pytest.mark.parametrize(
    "project, relation, label", [("cancer", "pgml.breast_cancer", "malignant"), ("flowers", "flowers", "kind")]
)
def test_curves_are_those_of_scikit_learn(loaded, project, relation, label):
    labels, probabilities, _ = predictions(loaded, project, relation, label)
    classes = sorted(set(labels))
    shown = classes if len(classes) > 2 else classes[1:]
    for column, name in enumerate(classes):
        drawn = {
            function: fetch(loaded, f"SELECT * FROM pgml.{function}('{project}', '{relation}') WHERE class = '{name}'")
            for function in ("roc_curve", "precision_recall_curve", "calibration_curve")
        }
        if name not in shown:
            assert not any(drawn.values())
            continue
        truth, score = labels == name, probabilities[:, column]
        fpr, tpr, thresholds = sk.roc_curve(truth, score)
        ours = np.array([row[1:] for row in drawn["roc_curve"]], dtype=float)
        assert np.allclose(ours, np.column_stack([thresholds, fpr, tpr]), atol=1e-6)
        precision, recall, thresholds = sk.precision_recall_curve(truth, score)
        ours = np.array([row[1:] for row in drawn["precision_recall_curve"]], dtype=float)
        assert np.allclose(ours, np.column_stack([[*thresholds, np.inf], precision, recall]), atol=1e-6)
        actual, predicted = calibration_curve(truth, score, n_bins=10)
        bins = drawn["calibration_curve"]
        assert [row[1] for row in bins] == list(range(1, 11)) and sum(row[2] for row in bins) == len(labels)
        ours = np.array([row[3:] for row in bins if row[2]], dtype=float)
        assert np.allclose(ours, np.column_stack([predicted, actual]), atol=1e-6)
        assert all(row[3] is None and row[4] is None for row in bins if not row[2])


def test_residual_quantiles_are_those_of_numpy(loaded):
    rows = fetch(loaded, "SELECT target, pgml.predict('diabetes', d) FROM pgml.diabetes d")
    residuals = np.array([float(label) - predicted for label, predicted in rows], dtype=np.float32)
    levels = [0, 0.1, 0.5, 0.77, 1]
    found = fetch(
        loaded, f"SELECT * FROM pgml.residual_quantiles('diabetes', 'pgml.diabetes', ARRAY{levels}::float8[])"
    )
    assert [row[:2] for row in found] == [["target", level] for level in levels]
    assert np.allclose([row[2] for row in found], np.quantile(residuals, levels), rtol=1e-5)
    joint = fetch(
        loaded, "SELECT label, count(*) FROM pgml.residual_quantiles('exercises', 'pgml.linnerud') GROUP BY 1"
    )
    assert sorted(joint) == [["pulse", 11], ["waist", 11], ["weight", 11]]


def test_no_rows_have_no_metrics(loaded):
    nothing = "(SELECT * FROM pgml.breast_cancer WHERE false)"
    assert json.loads(loaded.sql(f"SELECT pgml.evaluate('cancer', '{nothing}')")) == {"rows": 0, "rows_used": "all"}
    assert loaded.sql(f"SELECT sum(count) FROM pgml.confusion_matrix('cancer', '{nothing}')") == "0"
    assert loaded.sql(f"SELECT count(*) FROM pgml.roc_curve('cancer', '{nothing}')") == "0"
    quantiles = "SELECT count(*), count(residual) FROM pgml.residual_quantiles('diabetes', '(SELECT * FROM pgml.diabetes LIMIT 0)')"
    assert loaded.sql(quantiles) == "11|0"


def test_all_models_of_a_project_are_compared_on_the_same_rows(loaded):
    compared = fetch(loaded, "SELECT * FROM pgml.compare('diabetes', 'pgml.diabetes')")
    assert sorted(row[1] for row in compared) == ["ridge", "xgboost"]
    assert [row[1] for row in compared if row[2]] == ["xgboost"]
    for model, _, _, metrics, error in compared:
        (alone,) = fetch(loaded, f"SELECT pgml.evaluate({model}, 'pgml.diabetes')")[0]
        assert metrics == alone and error is None
    assert compared[0][3]["r2"] > compared[1][3]["r2"]
    # A query that gives other rows each time gives all models the same ones.
    drawn = "(SELECT * FROM pgml.diabetes WHERE random() < 0.5)"
    rows = fetch(loaded, f"SELECT DISTINCT metrics->'rows' FROM pgml.compare('diabetes', '{drawn}')")
    assert len(rows) == 1


def test_a_model_that_cannot_be_compared_says_why(loaded):
    project = "changing"
    for columns in ("target, bmi", "target, bmi, age"):
        loaded.sql(
            f"""SET pgml.strict = on;
                SELECT pgml.train('{project}', 'regression', '(SELECT {columns} FROM pgml.diabetes)', 'target', 'ridge')"""
        )
    rows = "(SELECT target, bmi FROM pgml.diabetes)"
    compared = fetch(loaded, f"SELECT * FROM pgml.compare('{project}', '{rows}', rows => 'all')")
    assert compared[0][3]["rows"] == 442 and compared[0][4] is None
    assert compared[1][3] is None and 'no column "age"' in compared[1][4]
    missing = "(SELECT target, CASE WHEN age > 0 THEN bmi END AS bmi, age FROM pgml.diabetes)"
    compared = fetch(loaded, f"SELECT * FROM pgml.compare('{project}', '{missing}')")
    assert all(row[3] is None and 'column "bmi" is NULL' in row[4] for row in compared) and len(compared) == 2


def test_who_sees_the_models_may_compare_them(loaded):
    ask = "SELECT pgml.compare('diabetes', 'pgml.diabetes')"
    assert state(loaded, OWNER, ask) == "00000"
    assert state(loaded, STRANGER, ask) == "42501"
    loaded.sql(f"SELECT pgml.grant('diabetes', '{STRANGER}', 'see')")
    try:
        assert state(loaded, STRANGER, ask) == "00000"
        loaded.sql("SELECT pgml.revoke('diabetes', 'public', 'predict')")
        assert state(loaded, STRANGER, ask) == "42501"
    finally:
        loaded.sql(f"SELECT pgml.revoke('diabetes', '{STRANGER}', 'see'), pgml.grant('diabetes', 'public', 'predict')")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_who_may_predict_and_read_the_rows_may_know(loaded, function):
    project, relation = FUNCTIONS[function]
    model = loaded.sql(f"SELECT id FROM pgml.deployed_models WHERE name = '{project}'")
    for named in (f"'{project}'", model):
        ask = f"SELECT pgml.{function}({named}, '{relation}')"
        of_secrets = f"SELECT pgml.{function}({named}, 'secret')"
        assert state(loaded, OWNER, ask) == "00000"
        # Every role may predict with a new project.
        assert state(loaded, STRANGER, ask) == "00000"
        assert state(loaded, STRANGER, of_secrets) == "42501"
        loaded.sql(f"SELECT pgml.revoke('{project}', 'public', 'predict')")
        try:
            assert state(loaded, STRANGER, ask) == "42704"
            loaded.sql(f"SELECT pgml.grant('{project}', '{STRANGER}', 'see')")
            assert state(loaded, STRANGER, ask) == "42501"
            assert state(loaded, OWNER, ask) == "00000"
        finally:
            loaded.sql(
                f"SELECT pgml.revoke('{project}', '{STRANGER}', 'see'), pgml.grant('{project}', 'public', 'predict')"
            )


@pytest.mark.parametrize(
    "call, sqlstate",
    [
        ("evaluate('nothing', 'pgml.iris')", "42704"),
        ("evaluate(987654, 'pgml.iris')", "42704"),
        ("evaluate(NULL::text, 'pgml.iris')", "22004"),
        ("evaluate(NULL::bigint, 'pgml.iris')", "22004"),
        ("evaluate('flowers', NULL)", "22004"),
        ("evaluate('flowers', 'nothing')", "42P01"),
        ("evaluate('flowers', 'SELECT 1')", "42P01"),
        ("evaluate('flowers', '(SELECT 1')", "42601"),
        ("evaluate('flowers', '(SELECT 1); DROP TABLE flowers; (SELECT 1)')", "42601"),
        ("evaluate('flowers', '(DELETE FROM flowers RETURNING *)')", "42601"),
        ("evaluate('flowers', '(WITH d AS (DELETE FROM flowers RETURNING *) SELECT * FROM d)')", "0A000"),
        ("evaluate('flowers', 'pgml.iris')", "42703"),
        ("evaluate('flowers', '(SELECT *, 1 AS other FROM flowers)', 'nothing')", "42703"),
        ("evaluate('flowers', 'flowers', ARRAY['kind', 'width'])", "22023"),
        ("evaluate('exercises', 'pgml.linnerud', 'weight')", "22023"),
        ("evaluate('groups', 'pgml.iris', 'target')", "22023"),
        ("evaluate('flowers', '(SELECT *, NULL::text AS other FROM flowers)', 'other')", "22004"),
        ("evaluate('flowers', '(SELECT *, ''tulip'' AS other FROM flowers)', 'other')", "22023"),
        ("evaluate('flowers', '(SELECT *, now() AS other FROM flowers)', 'other')", "42804"),
        ("evaluate('diabetes', '(SELECT *, ''a'' AS other FROM pgml.diabetes)', 'other')", "42804"),
        (
            "evaluate('flowers', '(SELECT 1 AS sepal_length, ''a'' AS sepal_width, 1 AS petal_length, ''b'' AS width, ''c'' AS kind)')",
            "42804",
        ),
        ("compare('nothing', 'pgml.iris')", "42704"),
        ("compare(NULL, 'pgml.iris')", "22004"),
        ("compare('diabetes', 'nothing')", "42P01"),
        ("confusion_matrix('diabetes', 'pgml.diabetes')", "0A000"),
        ("roc_curve('diabetes', 'pgml.diabetes')", "0A000"),
        ("residual_quantiles('flowers', 'flowers')", "0A000"),
        ("residual_quantiles('diabetes', 'pgml.diabetes', '{1.5}')", "22023"),
        ("residual_quantiles('diabetes', 'pgml.diabetes', '{NaN}')", "22023"),
        ("residual_quantiles('diabetes', 'pgml.diabetes', '{NULL}')", "22023"),
        ("residual_quantiles('diabetes', 'pgml.diabetes', NULL)", "22004"),
        ("calibration_curve('cancer', 'pgml.breast_cancer', 0)", "22023"),
        ("calibration_curve('cancer', 'pgml.breast_cancer', NULL)", "22004"),
    ],
)
def test_what_cannot_be_meant_is_refused(loaded, call, sqlstate):
    assert state(loaded, OWNER, f"SELECT pgml.{call}") == sqlstate


def test_an_evaluation_is_cancelled(loaded):
    endless = "(SELECT b.* FROM pgml.breast_cancer b, generate_series(1, 1000000))"
    with pytest.raises(Problem, match="statement timeout"):
        loaded.sql(f"SET statement_timeout = 300; SELECT pgml.evaluate('cancer', '{endless}')")
    assert loaded.sql("SELECT pgml.evaluate('cancer', 'pgml.breast_cancer')->>'rows'") == "569"
