"""Every algorithm of every task, as SQL asks for it: trained, scored, deployed, predicting in each way of a call."""

import json

import pytest

from devkit import Problem
from tests.conftest import Database

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}

REGRESSION = [
    "linear",
    "ridge",
    "lasso",
    "elastic_net",
    "least_angle",
    "lasso_least_angle",
    "orthogonal_matching_pursuit",
    "bayesian_ridge",
    "automatic_relevance_determination",
    "stochastic_gradient_descent",
    "passive_aggressive",
    "ransac",
    "theil_sen",
    "huber",
    "quantile",
    "kernel_ridge",
    "gaussian_process",
    "svm",
    "nu_svm",
    "linear_svm",
    "knn",
    "random_forest",
    "extra_trees",
    "ada_boost",
    "bagging",
    "gradient_boosting_trees",
    "hist_gradient_boosting",
    "xgboost",
    "xgboost_random_forest",
    "lightgbm",
    "catboost",
]
CLASSIFICATION = [
    "linear",
    "ridge",
    "svm",
    "nu_svm",
    "linear_svm",
    "knn",
    "gaussian_process",
    "passive_aggressive",
    "perceptron",
    "stochastic_gradient_descent",
    "random_forest",
    "extra_trees",
    "ada_boost",
    "bagging",
    "gradient_boosting_trees",
    "hist_gradient_boosting",
    "xgboost",
    "xgboost_random_forest",
    "lightgbm",
    "catboost",
    "naive_bayes",
]
CLUSTERING = [
    "kmeans",
    "mini_batch_kmeans",
    "affinity_propagation",
    "birch",
    "dbscan",
    "feature_agglomeration",
    "mean_shift",
    "optics",
    "spectral",
    "spectral_bi",
    "spectral_co",
    "gaussian_mixture",
]
DECOMPOSITION = ["pca", "truncated_svd"]
ANOMALY = ["isolation_forest", "local_outlier_factor", "one_class_svm", "robust_covariance", "ecod", "hbos"]
FEW = {
    "kmeans": '{"n_clusters": 3}',
    "mini_batch_kmeans": '{"n_clusters": 3}',
    "birch": '{"n_clusters": 3}',
    "spectral": '{"n_clusters": 3}',
    "gaussian_mixture": '{"n_components": 3}',
    "catboost": '{"iterations": 50}',
    "one_class_svm": '{"nu": 0.1}',
}
# What an algorithm scores at least on test rows: far below what it reaches, far above what a broken one does. Some come to
# little with their defaults, in scikit-learn too.
LEAST_R2 = {
    "elastic_net": -0.1,
    "svm": 0.1,
    "nu_svm": 0.1,
    "kernel_ridge": -5,
    "gaussian_process": -6,
    "quantile": -1,
    "ransac": -1,
    "linear_svm": -1,
}
LEAST_F1 = {"perceptron": 0.5, "passive_aggressive": 0.6, "ridge": 0.6, "ada_boost": 0.5}
NO_PROBABILITIES = {
    "ridge",
    "svm",
    "nu_svm",
    "linear_svm",
    "passive_aggressive",
    "perceptron",
    "stochastic_gradient_descent",
}
NO_SILHOUETTE = set()
# Those that learn by steps go astray on such numbers.
STEPS = {"stochastic_gradient_descent", "passive_aggressive"}
EXERCISES = '{"chins": {"scale": "standard"}, "situps": {"scale": "standard"}, "jumps": {"scale": "standard"}}'
# Without a scale some come to nothing on raw features, in scikit-learn too.
SCALED = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
PREPROCESS = "{" + ", ".join(f'"{name}": {{"scale": "standard"}}' for name in SCALED) + "}"


FORECAST = ["ets", "arima", "theta", "mstl", "seasonal_naive"]
REFUSED = {"transformers"}
CHOICE = {"auto"}


@pytest.fixture(scope="module")
def loaded(server):
    """A database with data sets in it."""
    name = "algorithms"
    server.psql(f"CREATE DATABASE {name}")
    try:
        database = Database(server, name)
        database.sql("CREATE EXTENSION pgml")
        for source in ("iris", "diabetes", "linnerud"):
            database.sql(f"SELECT pgml.load_dataset('{source}')")
        database.sql(
            "CREATE VIEW measures AS SELECT sepal_length, sepal_width, petal_length, petal_width FROM pgml.iris"
        )
        yield database
    finally:
        server.psql(f"DROP DATABASE {name} WITH (FORCE)")


def test_all_algorithms_are_offered(loaded):
    rows = loaded.sql("SELECT DISTINCT algorithm || ' ' || task FROM pgml.hyperparameters()").splitlines()
    offered = {tuple(row.split()) for row in rows}
    tasks = {
        "regression": REGRESSION,
        "classification": CLASSIFICATION,
        "clustering": CLUSTERING,
        "decomposition": DECOMPOSITION,
        "anomaly": ANOMALY,
        "forecast": FORECAST,
    }
    assert offered == {(algorithm, task) for task, algorithms in tasks.items() for algorithm in algorithms}
    labels = set(loaded.sql("SELECT unnest(enum_range(NULL::pgml.algorithm))").splitlines())
    assert labels == {algorithm for algorithm, _ in offered} | REFUSED | CHOICE


def skip_unless_offered(database, algorithm, task):
    known = f"SELECT count(*) FROM pgml.hyperparameters() WHERE algorithm = '{algorithm}' AND task = '{task}'"
    if database.sql(known) == "0":
        pytest.skip(f"{algorithm} is not offered for {task}")


def train(database, project, task, relation, label, algorithm):
    skip_unless_offered(database, algorithm, task)
    given = f"hyperparams => '{FEW[algorithm]}'" if algorithm in FEW else "hyperparams => '{}'"
    label = f"'{label}'" if label else "NULL"
    preprocess = PREPROCESS if relation == "pgml.iris" else "{}"
    database.sql(
        f"SELECT pgml.train('{project}', '{task}', '{relation}', {label}, '{algorithm}', {given}, "
        f"test_sampling => 'random', preprocess => '{preprocess}')"
    )
    model, metrics = database.sql(
        f"SELECT m.id, m.metrics FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id "
        f"WHERE p.name = '{project}' ORDER BY m.id DESC LIMIT 1"
    ).split("|", 1)
    return int(model), json.loads(metrics)


@pytest.mark.parametrize("algorithm", REGRESSION)
def test_regression(loaded, algorithm):
    model, metrics = train(loaded, f"r {algorithm}", "regression", "pgml.diabetes", "target", algorithm)
    assert metrics["r2"] > LEAST_R2.get(algorithm, 0.2)
    features = "age, sex, bmi, bp, s1, s2, s3, s4, s5, s6"
    same = loaded.sql(
        f"SELECT count(*) FROM pgml.diabetes d WHERE pgml.predict({model}, d) = pgml.predict({model}, ARRAY[{features}]) "
        f"AND pgml.predict({model}, d) = pgml.predict('r {algorithm}', {features})"
    )
    assert same == "442"
    batch = loaded.sql(
        f"SELECT bool_and(a = b) FROM (SELECT unnest(pgml.predict_batch({model}, array_agg(ARRAY[{features}]::real[] "
        f"ORDER BY d))) AS a, unnest(array_agg(pgml.predict({model}, d) ORDER BY d)) AS b FROM pgml.diabetes d) x"
    )
    assert batch == "t"


@pytest.mark.parametrize("algorithm", CLASSIFICATION)
def test_classification(loaded, algorithm):
    model, metrics = train(loaded, f"c {algorithm}", "classification", "pgml.iris", "target", algorithm)
    assert metrics["f1"] > LEAST_F1.get(algorithm, 0.85)
    right = "pgml.predict_label({0}, i) = target::text AND pgml.predict({0}, i) = target".format(model)
    assert int(loaded.sql(f"SELECT count(*) FROM pgml.iris i WHERE {right}")) > 110
    if algorithm in NO_PROBABILITIES:
        with pytest.raises(Problem, match="no probabilities"):
            loaded.sql(f"SELECT pgml.predict_proba({model}, i) FROM pgml.iris i LIMIT 1")
        return
    sums = f"SELECT (SELECT sum(p) FROM unnest(pgml.predict_proba({model}, i)) p) AS sum FROM pgml.iris i"
    assert loaded.sql(f"SELECT bool_and(abs(sum - 1) < 1e-4) FROM ({sums}) x") == "t"


@pytest.mark.parametrize("algorithm", CLUSTERING)
def test_clustering(loaded, algorithm):
    model, metrics = train(loaded, f"g {algorithm}", "clustering", "measures", None, algorithm)
    clusters = int(loaded.sql(f"SELECT count(DISTINCT pgml.predict({model}, m)) FROM measures m"))
    assert clusters >= 1
    if clusters > 1 and algorithm not in NO_SILHOUETTE:
        assert -1 <= metrics["silhouette"] <= 1


@pytest.mark.parametrize("algorithm", ANOMALY)
def test_anomaly(loaded, algorithm):
    model, metrics = train(loaded, f"o {algorithm}", "anomaly", "measures", None, algorithm)
    assert 0 <= metrics["outlier_share"] <= 0.7 and "mean_score" in metrics
    score = f"pgml.predict('o {algorithm}', {{0}})"
    assert float(loaded.sql(f"SELECT {score.format('30.0, 0.5, 40.0, 9.0')}")) > 0
    assert float(loaded.sql(f"SELECT pgml.predict({model}, 5.0, 3.4, 1.46, 0.25)")) < 0
    features = "sepal_length, sepal_width, petal_length, petal_width"
    batch = loaded.sql(
        f"SELECT bool_and(a = b) FROM (SELECT unnest(pgml.predict_batch({model}, array_agg(ARRAY[{features}]::real[] "
        f"ORDER BY m))) AS a, unnest(array_agg(pgml.predict({model}, m) ORDER BY m)) AS b FROM measures m) x"
    )
    assert batch == "t"
    # The newest is deployed: nothing says which of two is right.
    again, _ = train(loaded, f"o {algorithm}", "anomaly", "measures", None, algorithm)
    deployed = (
        f"SELECT id FROM pgml.models WHERE project_id = (SELECT id FROM pgml.projects WHERE name = 'o {algorithm}')"
    )
    assert loaded.sql(
        f"SELECT model_id FROM pgml.deployments WHERE model_id IN ({deployed}) ORDER BY id DESC LIMIT 1"
    ) == str(again)
    share = loaded.sql(f"SELECT pgml.evaluate('o {algorithm}', 'measures', rows => 'all')->>'outlier_share'")
    assert share == loaded.sql(f"SELECT avg((pgml.predict('o {algorithm}', m) > 0)::int)::float8 FROM measures m")
    if algorithm in ("isolation_forest", "ecod", "hbos"):
        assert loaded.sql(f"SELECT pgml.explain({model}, 5.1, 3.5, 1.4, 0.2)")


def test_what_has_no_label_is_not_searched_for(loaded):
    with pytest.raises(Problem, match="a search needs a label"):
        loaded.sql(
            "SELECT pgml.train('s', 'anomaly', 'measures', search => 'grid', search_params => '{\"nu\": [0.1, 0.2]}')"
        )


@pytest.mark.parametrize("algorithm", DECOMPOSITION)
def test_decomposition(loaded, algorithm):
    skip_unless_offered(loaded, algorithm, "decomposition")
    project = f"v {algorithm}"
    hyperparams = '{"n_components": 2}'
    loaded.sql(
        f"SELECT pgml.train('{project}', 'decomposition', 'measures', algorithm => '{algorithm}', hyperparams => '{hyperparams}')"
    )
    sizes = f"SELECT DISTINCT cardinality(pgml.decompose('{project}', m)) FROM measures m"
    assert loaded.sql(sizes) == "2"
    explained = "SELECT metrics->>'cumulative_explained_variance' FROM pgml.models ORDER BY id DESC LIMIT 1"
    assert float(loaded.sql(explained)) > 0.9


@pytest.mark.parametrize("algorithm", REGRESSION)
def test_joint_regression(loaded, algorithm):
    skip_unless_offered(loaded, algorithm, "regression")
    given = FEW.get(algorithm, "{}")
    preprocess = EXERCISES if algorithm in STEPS else "{}"
    loaded.sql(
        f"SELECT pgml.train_joint('j {algorithm}', 'regression', 'pgml.linnerud', ARRAY['weight', 'waist', 'pulse'], "
        f"'{algorithm}', '{given}', preprocess => '{preprocess}')"
    )
    joint = f"pgml.predict_joint('j {algorithm}', ARRAY[chins, situps, jumps])"
    assert loaded.sql(f"SELECT DISTINCT cardinality({joint}) FROM pgml.linnerud") == "3"
    # Each value is near its own label: weights are some 180, waists 35, pulses 56.
    far = f"abs(({joint})[1] - 178) > 120 OR abs(({joint})[2] - 35) > 40 OR abs(({joint})[3] - 56) > 60"
    assert int(loaded.sql(f"SELECT count(*) FROM pgml.linnerud WHERE {far}")) <= 4
    with pytest.raises(Problem, match="predict_joint"):
        loaded.sql(f"SELECT pgml.predict('j {algorithm}', ARRAY[chins, situps, jumps]) FROM pgml.linnerud")


def test_a_joint_model_of_xgboost_is_its_own(loaded):
    """Several labels in one training give what one training for each would."""
    hyperparams = '{"n_estimators": 5, "base_score": 100}'
    split = "test_size => 5, test_sampling => 'last'"
    loaded.sql(
        "SELECT pgml.train_joint('together', 'regression', 'pgml.linnerud', ARRAY['weight', 'pulse'], 'xgboost', "
        f"'{hyperparams}', {split})"
    )
    for label in ("weight", "pulse"):
        columns = f"(SELECT chins, situps, jumps, waist, {label} FROM pgml.linnerud)"
        loaded.sql(
            f"SELECT pgml.train('only {label}', 'regression', '{columns}', '{label}', 'xgboost', '{hyperparams}', {split})"
        )
    wrong = loaded.sql(
        "SELECT count(*) FROM pgml.linnerud WHERE pgml.predict_joint('together', ARRAY[chins, situps, jumps, waist]) <> "
        "ARRAY[pgml.predict('only weight', chins, situps, jumps, waist), pgml.predict('only pulse', chins, situps, jumps, waist)]"
    )
    assert wrong == "0"


def test_the_natural_call_is_not_ambiguous(loaded):
    loaded.sql("SELECT pgml.train('iris', 'classification', 'pgml.iris', 'target')")
    model = loaded.sql("SELECT max(id) FROM pgml.models")
    for name in ("'iris'", "'iris'::text", model, f"{model}::bigint"):
        for features in (
            "ARRAY[5.1, 3.5, 1.4, 0.2]",
            "ARRAY[5, 3, 1, 0]",
            "ARRAY[5, 3, 1, 0]::smallint[]",
            "ARRAY[5, 3, 1, 0]::bigint[]",
            "ARRAY[5.1, 3.5, 1.4, 0.2]::float8[]",
            "ARRAY[5.1, 3.5, 1.4, 0.2]::real[]",
            "'{5.1, 3.5, 1.4, 0.2}'",
            "ROW(5.1, 3.5, 1.4, 0.2)",
            "5.1, 3.5, 1.4, 0.2",
            "features => ARRAY[5.1, 3.5, 1.4, 0.2]",
        ):
            for function in ("predict", "predict_proba", "predict_label", "explain"):
                assert loaded.sql(f"SELECT pgml.{function}({name}, {features})"), (function, name, features)
    for function in ("predict", "predict_proba", "predict_label"):
        loaded.sql(f"PREPARE a AS SELECT pgml.{function}($1, $2); EXECUTE a('iris', '{{5.1, 3.5, 1.4, 0.2}}')")
    with pytest.raises(Problem, match="malformed array literal"):
        loaded.sql("SELECT pgml.predict('iris', 'red')")


def test_a_search_takes_the_best_of_its_folds(loaded):
    given = """search_params => '{"alpha": [0.001, 0.1, 1000]}', search_args => '{"cv": 4}'"""
    loaded.sql(
        f"SELECT pgml.train('found', 'regression', 'pgml.diabetes', 'target', 'ridge', search => 'grid', {given})"
    )
    search, hyperparams, metrics = loaded.sql(
        "SELECT search, hyperparams, metrics FROM pgml.models ORDER BY id DESC LIMIT 1"
    ).split("|", 2)
    results = json.loads(metrics)["search_results"]
    assert search == "grid" and results["n_splits"] == 4
    means = results["mean_test_score"]
    assert results["best_index"] == means.index(max(means)) and means[2] < 0.1 < max(means)
    assert json.loads(hyperparams) == results["params"][results["best_index"]]
    folds = [results[f"split{fold}_test_score"][0] for fold in range(4)]
    assert sum(folds) / 4 == pytest.approx(means[0])
    # The best is trained again on all training rows, and scored on the others.
    best = json.loads(hyperparams)["alpha"]
    loaded.sql(f"SELECT pgml.train('found', 'regression', 'pgml.diabetes', 'target', 'ridge', '{{\"alpha\": {best}}}')")
    again = json.loads(loaded.sql("SELECT metrics FROM pgml.models ORDER BY id DESC LIMIT 1"))
    assert again["r2"] == json.loads(metrics)["r2"]


def test_a_random_search_draws_from_ranges_and_repeats(loaded):
    given = """search_params => '{"alpha": {"low": 0.001, "high": 10, "log": true}}', search_args => '{"n_iter": 4, "cv": 2}'"""
    found = []
    for _ in range(2):
        loaded.sql(
            f"SELECT pgml.train('drawn', 'regression', 'pgml.diabetes', 'target', 'ridge', search => 'random', {given})"
        )
        found.append(loaded.sql("SELECT metrics->'search_results'->'params' FROM pgml.models ORDER BY id DESC LIMIT 1"))
    assert found[0] == found[1] and len(json.loads(found[0])) == 4


@pytest.mark.parametrize(
    "given, message",
    [
        ("""search_params => '{"alpha": [1]}'""", "need search"),
        ("""search => 'grid'""", "search_params is empty"),
        ("""search => 'grid', search_params => '{"alpha": {"low": 1, "high": 2}}'""", "random"),
        ("""search => 'grid', search_params => '{"alpha": [-1]}'""", '"alpha" cannot be -1'),
        ("""search => 'grid', search_params => '{"alpha": [1]}', search_args => '{"cv": 1}'""", '"cv" cannot be 1'),
        ("""search => 'grid', search_params => '{"alpha": [1]}', search_args => '{"folds": 3}'""", "folds"),
        ("""hyperparams => '{"alpa": 1}'""", 'did you mean "alpha"'),
        ("""preprocess => '{"bmj": {"scale": "standard"}}'""", '"bmj"'),
        ("""preprocess => '{"bmi": {"scale": "standart"}}'""", 'did you mean "standard"'),
    ],
)
def test_what_cannot_be_is_named(loaded, given, message):
    with pytest.raises(Problem, match=message):
        loaded.sql(f"SELECT pgml.train('refused', 'regression', 'pgml.diabetes', 'target', 'ridge', {given})")


def test_a_task_and_its_algorithms(loaded):
    with pytest.raises(Problem, match='algorithm "dbscan" is for clustering, not for regression'):
        loaded.sql("SELECT pgml.train('refused', 'regression', 'pgml.diabetes', 'target', 'dbscan')")
    with pytest.raises(Problem, match="takes no y_column_name"):
        loaded.sql("SELECT pgml.train('refused', 'clustering', 'pgml.diabetes', 'target')")
    with pytest.raises(Problem, match="needs a y_column_name"):
        loaded.sql("SELECT pgml.train('refused', 'regression', 'pgml.diabetes')")
    # PostgresML's default algorithm, where there is nothing linear to do.
    loaded.sql("SELECT pgml.train('grouped', 'clustering', 'measures', hyperparams => '{\"n_clusters\": 3}')")
    assert loaded.sql("SELECT count(DISTINCT pgml.predict('grouped', m)) FROM measures m") == "3"
    assert loaded.sql("SELECT algorithm FROM pgml.trained_models WHERE name = 'grouped'") == "kmeans"
    assert loaded.sql("SELECT algorithm FROM pgml.deploy('grouped', 'most_recent', 'kmeans')") == "kmeans"


@pytest.fixture(scope="module")
def gaps(loaded):
    """A table with text, missing values and scales that differ."""
    loaded.sql(
        "CREATE TABLE gaps AS SELECT (x * 1000)::real AS big, (ARRAY['u', 'v', 'w'])[1 + x % 3] AS kind, "
        "CASE WHEN x % 7 = 0 THEN NULL ELSE (x % 10) END::real AS gap, (x * 2 + (x % 3) * 10)::real AS y "
        "FROM generate_series(1, 300) x"
    )
    return loaded


def test_preprocessing_is_the_same_in_every_form_of_a_prediction(gaps):
    preprocess = """{"gap": {"impute": "median", "scale": "robust"}, "big": {"scale": "min_max"}, "kind": {"encode": "target"}}"""
    for algorithm in ("linear", "xgboost"):
        gaps.sql(
            f"SELECT pgml.train('gaps {algorithm}', 'regression', 'gaps', 'y', '{algorithm}', preprocess => '{preprocess}')"
        )
        project = f"'gaps {algorithm}'"
        assert float(gaps.sql("SELECT metrics->>'r2' FROM pgml.models ORDER BY id DESC LIMIT 1")) > 0.95
        same = f"pgml.predict({project}, g) = pgml.predict({project}, big, kind, gap)"
        code = "CASE kind WHEN 'u' THEN 0 WHEN 'v' THEN 1 ELSE 2 END"
        same += f" AND pgml.predict({project}, g) = pgml.predict({project}, ARRAY[big, {code}, gap])"
        assert gaps.sql(f"SELECT count(*) FROM gaps g WHERE {same}") == "300"
        parts = f"SELECT pgml.predict({project}, g) AS p, (SELECT sum(contribution) FROM pgml.explain({project}, g)) AS s FROM gaps g"
        assert gaps.sql(f"SELECT bool_and(abs(p - s) < 0.05) FROM ({parts}) x") == "t"
        # The rows as SQL gives them, not as the model sees them.
        assert gaps.sql(
            f"SELECT string_agg(feature, ' ') FROM gaps g, pgml.explain({project}, g) WHERE big = 1000"
        ) == ("big kind gap bias")


def test_a_missing_value_is_an_error_where_none_may_be(gaps):
    with pytest.raises(Problem, match='column "gap" is NULL'):
        gaps.sql("SET pgml.strict = on; SELECT pgml.train('no gaps', 'regression', 'gaps', 'y', 'ridge')")
    without = "(SELECT big, kind, y FROM gaps)"
    gaps.sql(f"SET pgml.strict = on; SELECT pgml.train('no gaps', 'regression', '{without}', 'y', 'ridge')")
    with pytest.raises(Problem, match='column "big" is NULL'):
        gaps.sql("SELECT pgml.predict('no gaps', NULL, 'u')")
    # A category that training did not meet is none of those that it met.
    assert gaps.sql("SELECT pgml.predict('no gaps', 5000, 'z') IS NOT NULL") == "t"


def test_what_was_done_to_columns_is_done_again(gaps):
    gaps.sql(
        "SELECT pgml.train('again', 'regression', 'gaps', 'y', 'ridge', preprocess => '{\"gap\": {\"impute\": \"zero\"}}')"
    )
    gaps.sql("SELECT pgml.train('again', algorithm => 'lasso')")
    assert gaps.sql("SELECT count(*) FROM pgml.trained_models WHERE name = 'again'") == "2"


def test_a_search_by_successive_halving(loaded):
    """Nine combinations on a third of the rows, the best three on all; what is given up is not tried again."""
    loaded.sql("""
        SELECT pgml.train('halved', 'regression', 'pgml.diabetes', 'target', 'xgboost', search => 'grid',
            search_params => '{"max_depth": [1, 2, 3], "n_estimators": [5, 20, 60]}',
            search_args => '{"factor": 3, "cv": 2}')""")
    hyperparams, results = loaded.sql(
        "SELECT hyperparams, metrics->'search_results' FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id "
        "WHERE p.name = 'halved'"
    ).split("|")
    results = json.loads(results)
    assert results["iter"] == [0] * 9 + [1] * 3
    few, all_rows = results["n_resources"][0], results["n_resources"][-1]
    assert few == 100 and 150 < all_rows < 180
    scores = results["mean_test_score"]
    best_of_first = sorted(range(9), key=lambda index: -scores[index])[:3]
    assert [results["params"][index] for index in best_of_first] == results["params"][9:]
    assert results["best_index"] >= 9 and scores[results["best_index"]] == max(scores[9:])
    assert json.loads(hyperparams) == results["params"][results["best_index"]]
    with pytest.raises(Problem, match='search_args "factor" cannot be 1'):
        loaded.sql(
            "SELECT pgml.train('halved', search => 'grid', search_params => '{\"max_depth\": [1]}', "
            "search_args => '{\"factor\": 1}', algorithm => 'xgboost')"
        )


def test_what_a_search_scores_is_what_a_training_on_the_same_rows_scores(loaded):
    """Rows that are read once for all combinations give each what reading them alone gives it."""

    def scores(depths):
        loaded.sql(f"""
            SELECT pgml.train('alone', 'regression', 'pgml.diabetes', 'target', 'xgboost', '{{"n_estimators": 9}}',
                search => 'grid', search_params => '{{"max_depth": {depths}, "max_bin": [16, 64]}}')""")
        return json.loads(loaded.sql("SELECT metrics->'search_results' FROM pgml.models ORDER BY id DESC LIMIT 1"))

    together = scores([1, 2, 4])
    for depth in [1, 2, 4]:
        alone = scores([depth])
        for params, score in zip(alone["params"], alone["mean_test_score"], strict=True):
            assert together["mean_test_score"][together["params"].index(params)] == score


def test_a_model_that_takes_no_missing_values_does_not_keep_others_from_being_trained(database):
    database.sql(
        "CREATE TABLE t AS SELECT i::real AS a, (i % 7)::real AS b, 2.0 * i AS y FROM generate_series(1, 200) i"
    )
    train = "SELECT deployed FROM pgml.train('p', 'regression', 't', 'y', '{}')"
    assert database.sql("SET pgml.strict = on; " + train.format("linear")) == "t"
    database.sql("UPDATE t SET b = NULL WHERE a::int % 5 = 0")
    # The deployed model is the better one, of rows that it can predict; and those it can no longer.
    assert database.sql(train.format("xgboost")) == "t"
    assert database.sql("SELECT count(pgml.predict('p', t)) FROM t") == "200"
    assert database.sql(train.format("lightgbm")) in "tf"


def test_postgresml_called_a_clustering_a_cluster(database):
    database.sql("SELECT pgml.load_dataset('iris')")
    features = "(SELECT sepal_length, petal_length FROM pgml.iris)"
    assert database.sql(f"SELECT task FROM pgml.train('c', 'cluster', '{features}')") == "clustering"


def test_many_features_are_prepared_in_a_time_that_grows_with_them(database):
    """And not with their square: 300,000 would take minutes, deaf to a timeout."""
    database.sql(
        "CREATE TABLE wide AS SELECT array_agg(random()::real) AS v, i::real AS y"
        " FROM generate_series(1, 8) i, generate_series(1, 300000) GROUP BY i"
    )
    database.sql(
        "SET statement_timeout = '60s'; SELECT pgml.train('w', 'regression', 'wide', 'y', 'ridge',"
        ' preprocess => \'{"v": {"scale": "standard"}}\')'
    )


@pytest.mark.parametrize("algorithm", ["linear", "knn", "random_forest"])
def test_every_algorithm_takes_the_seed_of_the_split(loaded, algorithm):
    def metrics(hyperparams):
        trained = f"FROM pgml.train('seeded_{algorithm}', 'regression', 'pgml.diabetes', 'target', '{algorithm}',"
        loaded.sql(f"SELECT * {trained} hyperparams => '{hyperparams}')")
        return loaded.sql("SELECT metrics->'r2' FROM pgml.models ORDER BY id DESC LIMIT 1")

    one, other = metrics('{"random_state": 1}'), metrics('{"seed": 2}')
    assert one != other
    assert (metrics('{"seed": 1}'), metrics('{"random_state": 2}')) == (one, other)
    with pytest.raises(Problem, match='"seed" cannot be "x"'):
        metrics('{"seed": "x"}')
