"""An automatic choice of algorithm: held-out scores, the list of candidates, retraining, cancelling, and what is refused."""

import json
import time

import pytest

from devkit import Problem


@pytest.fixture
def sets(database):
    """A database with data sets."""
    database.sql("SELECT pgml.load_dataset('breast_cancer'), pgml.load_dataset('diabetes'), pgml.load_dataset('iris')")
    return database


def trained(database, arguments):
    return database.sql(f"SELECT task, algorithm, deployed FROM pgml.train({arguments})")


def metrics(database, project):
    return json.loads(
        database.sql(
            "SELECT metrics FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id "
            f"WHERE p.name = '{project}' ORDER BY m.id DESC LIMIT 1"
        )
    )


def test_a_good_model_is_chosen_among_several_algorithms(sets):
    told = trained(sets, "'c', 'classification', 'pgml.breast_cancer', 'malignant', 'auto', time_budget => '4 s'")
    task, algorithm, deployed = told.split("|")
    assert (task, deployed) == ("classification", "t")
    known = metrics(sets, "c")
    assert known["roc_auc"] > 0.97 and known["f1"] > 0.9 and known["rows"] > 100
    board = sets.sql("SELECT rank, algorithm, metric, score, folds FROM pgml.leaderboard('c')").splitlines()
    lines = [line.split("|") for line in board]
    # One that leads when the time is over has perhaps not come to all folds.
    assert lines[0][:3] == ["1", algorithm, "roc_auc"] and 1 <= int(lines[0][4]) <= 5
    del lines[0]
    whole = [float(line[3]) for line in lines if line[4] == "5"]
    assert whole == sorted(whole, reverse=True)
    assert len({line[1] for line in lines}) >= 4
    assert [int(line[0]) for line in lines] == sorted(int(line[0]) for line in lines)
    assert sets.sql("SELECT count(pgml.predict('c', b)) FROM pgml.breast_cancer b") == "569"


def test_several_classes_are_chosen_by_their_probabilities(sets):
    trained(sets, "'i', 'classification', 'pgml.iris', 'target', 'auto', time_budget => '2 s'")
    assert sets.sql("SELECT DISTINCT metric FROM pgml.leaderboard('i')") == "log_loss"
    assert float(sets.sql("SELECT max(score) FROM pgml.leaderboard('i')")) < 0
    assert metrics(sets, "i")["accuracy"] > 0.85


def test_what_was_chosen_can_be_learnt_again(sets):
    """Scale and hyperparameters are recorded: a training that names them finds the same model."""
    told = trained(
        sets,
        """'d', 'regression', 'pgml.diabetes', 'target', 'auto', time_budget => '1 s',
           hyperparams => '{"algorithms": ["ridge"]}'""",
    )
    assert told == "regression|ridge|t"
    assert sets.sql("SELECT DISTINCT algorithm FROM pgml.leaderboard('d')") == "ridge"
    hyperparams = sets.sql("SELECT hyperparams FROM pgml.models ORDER BY id DESC LIMIT 1")
    first = metrics(sets, "d")
    trained(sets, f"""'d', algorithm => 'ridge', hyperparams => '{hyperparams}'""")
    again = metrics(sets, "d")
    assert {name: again[name] for name in ("r2", "mean_absolute_error")} == pytest.approx(
        {name: first[name] for name in ("r2", "mean_absolute_error")}, rel=1e-6
    )
    assert sets.sql("SELECT analysis->'preprocess' FROM pgml.snapshots ORDER BY id DESC LIMIT 1") == (
        '{"*": {"scale": "standard"}}'
    )
    assert trained(sets, "'d', algorithm => 'auto', time_budget => '1 s'").startswith("regression|")


def test_the_metric_that_is_named_decides(sets):
    trained(
        sets,
        "'m', 'regression', 'pgml.diabetes', 'target', 'auto', time_budget => '1 s', metric => 'mean_absolute_error'",
    )
    assert sets.sql("SELECT DISTINCT metric FROM pgml.leaderboard('m')") == "mean_absolute_error"
    assert float(sets.sql("SELECT max(score) FROM pgml.leaderboard('m')")) < -30


def test_rows_of_many_kinds_are_learnt_from(database):
    database.sql("""
        CREATE TABLE visits AS SELECT n AS id, now() - n * interval '1 hour' AS at,
            CASE WHEN n % 11 = 0 THEN NULL ELSE (n * 7919 % 1000) / 10.0 END AS spent,
            'shop ' || n % 30 AS shop, n % 2 = 0 AS member, (n * 7919 % 1000 > 500 OR n % 30 < 4) AS again
            FROM generate_series(1, 2000) n""")
    told = trained(database, "'v', 'classification', 'visits', 'again', 'auto', time_budget => '3 s'")
    assert told.startswith("classification|")
    assert metrics(database, "v")["accuracy"] > 0.9
    assert database.sql("SELECT count(pgml.predict('v', v)) FROM visits v") == "2000"


def test_a_class_that_folds_lack_does_not_decide(database):
    """A fold without the one row of a class has no log loss by most algorithms; the others are compared on the rest."""
    database.sql("""
        SELECT setseed(0.3);
        CREATE TABLE rare AS SELECT random() + i % 2 * 0.7 AS a, random() AS b,
            CASE WHEN i = 5 THEN 'other' ELSE (i % 2)::text END AS class FROM generate_series(1, 600) i""")
    trained(database, "'r', 'classification', 'rare', 'class', 'auto', time_budget => '3 s'")
    scored = database.sql("SELECT count(DISTINCT algorithm) FROM pgml.leaderboard('r') WHERE score IS NOT NULL")
    assert int(scored) >= 4
    assert int(database.sql("SELECT max(folds) FROM pgml.leaderboard('r')")) == 5


def test_a_metric_without_a_value_is_told(database):
    database.sql("CREATE TABLE two AS SELECT i AS a, i = 7 AS y FROM generate_series(1, 60) i")
    told = database.sql(
        "SET client_min_messages = warning; SELECT algorithm FROM pgml.train('two', 'classification', 'two', 'y', 'auto', "
        "time_budget => '1 s', test_sampling => 'last', test_size => 20)"
    )
    assert told.splitlines()[-1] in ("xgboost", "linear", "lightgbm", "extra_trees", "random_forest", "catboost", "svm")


def test_a_cancel_in_the_background_keeps_the_best(sets):
    sets.sql("""SELECT pgml.train_async('b', 'classification', 'pgml.breast_cancer', 'malignant', 'auto',
        time_budget => '10 minutes')""")
    for _ in range(600):
        if sets.sql("SELECT phase FROM pgml.activity") == "searching, with a best so far":
            break
        time.sleep(0.1)
    sets.sql("SELECT pgml.cancel(max(id)) FROM pgml.jobs")
    assert sets.sql("SELECT pgml.wait(max(id), '1 min') FROM pgml.jobs") == "done"
    assert "cut short" in sets.sql("SELECT message FROM pgml.jobs")
    assert int(sets.sql("SELECT count(*) FROM pgml.leaderboard('b')")) > 0


def test_a_timeout_leaves_nothing(sets):
    with pytest.raises(Problem, match="statement timeout"):
        sets.sql("""SET statement_timeout = '1500ms';
            SELECT pgml.train('t', 'regression', 'pgml.diabetes', 'target', 'auto', time_budget => '5 minutes')""")
    assert sets.sql("SELECT count(*) FROM pgml.projects WHERE name = 't'") == "0"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("'e', 'regression', 'pgml.diabetes', 'target', 'ridge', time_budget => '1 s'", "time_budget is for algorithm"),
        ("'e', 'clustering', 'pgml.iris', algorithm => 'auto'", 'algorithm "auto" is not for clustering'),
        ("'e', 'regression', 'pgml.diabetes', 'target', 'auto', time_budget => '1 month'", "cannot be 1 mon"),
        ("'e', 'regression', 'pgml.diabetes', 'target', 'auto', time_budget => '-1 s'", "cannot be -00:00:01"),
        ("'e', 'regression', 'pgml.diabetes', 'target', 'auto', '{\"max_depth\": 3}'", 'no hyperparameter "max_depth"'),
        ("'e', 'regression', 'pgml.diabetes', 'target', 'auto', '{\"algorithms\": []}'", r"algorithms cannot be \[\]"),
        ("'e', 'regression', 'pgml.diabetes', 'target', 'auto', '{\"algorithms\": [\"knn\"]}'", 'does not choose "knn"'),
        ("'e', 'regression', 'pgml.diabetes', 'target', 'auto', search => 'grid', search_params => '{\"a\": [1]}'",
         "searches already"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(sets, arguments, error):
    with pytest.raises(Problem, match=error):
        trained(sets, arguments)


def test_the_list_of_candidates_is_of_the_projects_that_one_may_see(sets):
    trained(sets, "'c', 'regression', 'pgml.diabetes', 'target', 'auto', time_budget => '1 s'")
    sets.sql("CREATE ROLE nobody_here LOGIN; GRANT USAGE ON SCHEMA pgml TO nobody_here")
    try:
        assert sets.sql("SET ROLE nobody_here; SELECT count(*) FROM pgml.leaderboard('c')").splitlines()[-1] == "0"
    finally:
        sets.sql("DROP OWNED BY nobody_here; DROP ROLE nobody_here")
