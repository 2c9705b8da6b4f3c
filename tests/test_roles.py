"""Columns that weigh rows, and columns that say which rows are tested on."""

import json

import pytest

from devkit import Problem
from tests.conftest import fresh

# The libraries are compared with what they make of the training rows.
DATABASE_SETTINGS = {"pgml.refit": "off"}


@pytest.fixture(scope="module")
def visits(server):
    """A database with visits of clients, in the order of time, half of them of no weight and wrong."""
    with fresh(server, "visits", DATABASE_SETTINGS) as database:
        database.sql("""
            CREATE TABLE visits AS
                SELECT i AS id, 'client ' || i % 37 AS client, date '2020-01-01' + i AS day, i % 4 = 0 AS held_out,
                       (i % 2)::numeric AS counts, (i * 7919 % 101)::real AS a, (i * 104729 % 89)::real AS b,
                       CASE WHEN i % 2 = 1 THEN 3 * (i * 7919 % 101) - (i * 104729 % 89) ELSE -1000 END AS spent
                FROM generate_series(1, 800) AS i;
        """)
        yield database


def train(database, project, roles, algorithm="linear", more=""):
    preprocess = json.dumps({name: {"role": role} for name, role in roles.items()})
    return database.sql(
        f"SELECT * FROM pgml.train('{project}', 'regression', 'visits', 'spent', '{algorithm}', "
        f"preprocess => '{preprocess}'{more})"
    )


ALL = {"id": "ignore", "client": "ignore", "day": "ignore", "held_out": "ignore", "counts": "ignore"}


@pytest.mark.parametrize("algorithm", ["linear", "ridge", "xgboost", "lightgbm", "random_forest"])
def test_rows_of_no_weight_do_not_count(visits, algorithm):
    train(visits, f"weighed {algorithm}", ALL | {"counts": "weight"}, algorithm, ", test_sampling => 'last'")
    off = "SELECT avg(abs(pgml.predict('{}', a, b) - spent)) FROM visits WHERE id % 2 = 1"
    assert float(visits.sql(off.format(f"weighed {algorithm}"))) < 20
    train(visits, f"not weighed {algorithm}", ALL, algorithm, ", test_sampling => 'last'")
    assert float(visits.sql(off.format(f"not weighed {algorithm}"))) > 100


def test_the_whole_row_may_still_have_the_columns(visits):
    train(visits, "whole", ALL | {"counts": "weight"})
    same = "SELECT bool_and(pgml.predict('whole', v) = pgml.predict('whole', a, b)) FROM visits v"
    assert visits.sql(same) == "t"


def test_later_trainings_keep_the_roles(visits):
    train(visits, "later", ALL | {"counts": "weight"})
    visits.sql("SELECT * FROM pgml.train('later', algorithm => 'ridge')")
    assert (
        visits.sql(
            "SELECT bool_and(num_features = 2) FROM pgml.models JOIN pgml.projects p ON p.id = project_id "
            "WHERE p.name = 'later'"
        )
        == "t"
    )


def metrics_of(database, project):
    metrics = database.sql(
        f"SELECT metrics FROM pgml.models m JOIN pgml.projects p ON p.id = m.project_id "
        f"WHERE p.name = '{project}' ORDER BY m.id DESC LIMIT 1"
    )
    return json.loads(metrics)


def said(database, statement):
    """What a statement says in INFO messages."""
    with database.connect() as connection:
        connection.cursor().execute(statement)
        return "\n".join(notice[b"M"].decode() for notice in connection.notices)


@pytest.mark.parametrize(
    ("roles", "rows"),
    [
        ({"held_out": "test"}, (600, 200)),
        ({"day": "time"}, (600, 200)),
        ({"id": "time"}, (600, 200)),
        ({"client": "group"}, None),
    ],
)
def test_a_column_splits_the_rows(visits, roles, rows):
    preprocess = json.dumps({name: {"role": role} for name, role in (ALL | roles).items()})
    heard = said(
        visits,
        f"SELECT * FROM pgml.train('split', 'regression', 'visits', 'spent', 'linear', preprocess => '{preprocess}')",
    )
    train_rows, test_rows = (
        int(heard.split(f"num_{side}_rows: ")[1].split(" ")[0].rstrip(",")) for side in ("train", "test")
    )
    assert (train_rows, test_rows) == rows if rows else abs(test_rows - 200) < 40


def test_what_is_tested_on_is_what_the_column_says(visits):
    """Rows that are tested on have labels that nothing could have learnt: the score tells whether they were."""
    visits.sql("""
        CREATE TABLE future AS SELECT i AS at, i % 10 AS g, i % 5 = 0 AS t, (i % 13)::real AS a,
            extract(epoch FROM timestamp '2026-01-01' + i * interval '1 second') AS second,
            CASE WHEN i > 300 THEN 99999 ELSE i % 13 END AS last, CASE WHEN i % 5 = 0 THEN 99999 ELSE i % 13 END AS marked
        FROM generate_series(1, 400) AS i
        ORDER BY md5(i::text);
    """)
    for column, role, label in [("at", "time", "last"), ("second", "time", "last"), ("t", "test", "marked")]:
        visits.sql(f"""SELECT * FROM pgml.train('f {column}', 'regression', '(SELECT a, {column}, {label} AS y FROM future)', 'y',
            'linear', preprocess => '{{"{column}": {{"role": "{role}"}}}}')""")
        assert float(visits.sql(f"SELECT max(abs(pgml.predict('f {column}', a) - a)) FROM future")) < 1e-3
        assert metrics_of(visits, f"f {column}")["mean_absolute_error"] > 90000


def test_a_search_respects_groups_and_time(visits):
    for role, column in [("group", "client"), ("time", "day"), ("test", "held_out")]:
        preprocess = json.dumps({name: {"role": r} for name, r in (ALL | {column: role}).items()})
        visits.sql(
            f"SELECT * FROM pgml.train('s {role}', 'regression', 'visits', 'spent', 'ridge', search => 'grid', "
            f"search_params => '{{\"alpha\": [0.1, 1]}}', search_args => '{{\"cv\": 3}}', preprocess => '{preprocess}')"
        )
        assert len(metrics_of(visits, f"s {role}")["search_results"]["params"]) == 2


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"day": "time", "client": "group"}, 'columns "day" and "client" both say which rows are tested on'),
        ({"a": "weight", "counts": "weight"}, 'columns "a" and "counts" both weigh rows'),
        ({"client": "weight"}, 'column "client" is of type text, which cannot weigh rows'),
        ({"client": "test"}, 'column "client" is of type text, which cannot say which rows are tested on'),
        ({"client": "time"}, 'column "client" is of type text, which cannot order rows by time'),
        ({"nothing": "group"}, 'preprocess gives a role to column "nothing", which does not exist or is the label'),
        ({"spent": "weight"}, 'preprocess gives a role to column "spent", which does not exist or is the label'),
        ({"day": "tme"}, 'cannot have "role": "tme" .did you mean "time"'),
    ],
)
def test_what_cannot_be_is_refused(visits, roles, message):
    with pytest.raises(Problem, match=message):
        train(visits, "refused", ALL | roles)


def test_weights_that_are_none_are_refused(visits):
    for value, message in [
        ("NULL::real", "contains NULL or NaN"),
        ("-1", "contains -1"),
        ("''NaN''::real", "contains NaN"),
        ("''Infinity''::real", "contains inf"),
        ("0", "the weights of all rows are 0"),
    ]:
        with pytest.raises(Problem, match=message):
            visits.sql(
                f"SELECT pgml.train('none', 'regression', '(SELECT a, spent, {value} AS w FROM visits)', 'spent', 'linear', "
                """preprocess => '{"w": {"role": "weight"}}')"""
            )
    with pytest.raises(Problem, match='"knn" takes no weights'):
        train(visits, "none", ALL | {"counts": "weight"}, "knn")
    with pytest.raises(Problem, match="cannot have encode, impute, indicator or scale beside this"):
        visits.sql(
            "SELECT pgml.train('none', 'regression', 'visits', 'spent', preprocess => "
            """'{"a": {"role": "weight", "scale": "standard"}}')"""
        )
    with pytest.raises(Problem, match="all rows are of one group"):
        visits.sql(
            "SELECT pgml.train('none', 'regression', '(SELECT a, spent, 1 AS g FROM visits)', 'spent', "
            """preprocess => '{"g": {"role": "group"}}')"""
        )


def test_a_snapshot_is_a_table_to_train_on(visits):
    relation, label = visits.sql(
        "SELECT * FROM pgml.snapshot('(SELECT a, b, spent, day FROM visits)', 'spent', 0.5, 'last')"
    ).split("|")
    assert label == "spent" and relation.startswith("pgml.snapshot_")
    assert visits.sql(f"SELECT count(*) FROM {relation}") == "800"
    visits.sql(f"SELECT * FROM pgml.train('of a snapshot', 'regression', '{relation}', 'spent', 'linear')")
    names = visits.sql(
        "SELECT jsonb_path_query_array(columns, '$[*].name'), analysis FROM pgml.snapshots "
        "WHERE relation_name = '(SELECT a, b, spent, day FROM visits)'"
    )
    assert names == '["a", "b", "spent", "day"]|{"samples": 800}'
    assert visits.sql("SELECT relation IS NOT NULL AND y_column_name IS NULL FROM pgml.snapshot('visits')") == "t"
    for call, message in [
        ("'nowhere'", 'relation "nowhere" does not exist'),
        ("'visits', 'nothing'", 'column "nothing", the label, does not exist'),
        ("'visits', 'spent', 1.5", "test size cannot be 1.5"),
        ("NULL", "relation_name"),
        ("'(DELETE FROM visits RETURNING *)'", "only reads|INSERT|DELETE"),
    ]:
        with pytest.raises(Problem, match=message):
            visits.sql(f"SELECT * FROM pgml.snapshot({call})")


def test_a_snapshot_is_made_with_the_rights_of_the_caller(visits):
    visits.sql("CREATE ROLE looker; GRANT CREATE ON SCHEMA pgml TO looker")
    try:
        with pytest.raises(Problem, match="permission denied for table visits"):
            visits.sql("SET ROLE looker; SELECT * FROM pgml.snapshot('visits', 'spent')")
        visits.sql("REVOKE CREATE ON SCHEMA pgml FROM looker; GRANT SELECT ON visits TO looker")
        with pytest.raises(Problem, match="permission denied for schema pgml"):
            visits.sql("SET ROLE looker; SELECT * FROM pgml.snapshot('visits', 'spent')")
    finally:
        visits.sql("DROP OWNED BY looker; DROP ROLE looker")


def test_a_model_that_predicts_infinities_is_warned_of(visits):
    with visits.connect() as connection:
        connection.cursor().execute(
            "SELECT pgml.train('infinite', 'regression', '(SELECT i * 1e30::real AS a, i AS y FROM generate_series(1, 60) i)', 'y', "
            "'stochastic_gradient_descent')"
        )
        said = " ".join(notice[b"M"].decode() for notice in connection.notices)
    assert "the model predicts values that are not finite for some of the held-out rows" in said
