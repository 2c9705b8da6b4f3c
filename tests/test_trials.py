"""Models on trial beside the deployed one: canaries by a share of keys, and shadows."""

import hashlib

import pytest

from devkit import Problem

# Two models of one project, which say 1 and 2 of everything; the first is deployed.
MADE = """
    CREATE TABLE ones AS SELECT i AS x, 1 AS y FROM generate_series(1, 20) i;
    CREATE TABLE twos AS SELECT i AS x, 2 AS y FROM generate_series(1, 20) i;
    SELECT pgml.train('p', 'regression', 'ones', 'y', 'linear');
    SELECT pgml.train('p', 'regression', 'twos', 'y', 'linear', automatic_deploy => false);
"""
CANARY = "SELECT * FROM pgml.deploy('p', 'canary', model_id => 2, share => {})"
ANSWER = "round(pgml.predict(pgml.model_for('p', {}), ARRAY[1])::numeric, 3)::float8"
SHADOW = "SELECT * FROM pgml.deploy('p', 'shadow', model_id => 2)"


@pytest.fixture
def two(database):
    database.sql(MADE)
    return database


def belongs(share, key, model=2):
    """Whether a key is the canary's, as docs/reference/sql.md says."""
    digest = hashlib.sha256(f"{model}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def keys_of_canary(database, count=2000):
    """Of the keys k1, k2, ... those for which model 2 answers."""
    found = database.sql(
        f"SELECT string_agg('k' || i, ' ') FROM generate_series(1, {count}) i WHERE pgml.model_for('p', 'k' || i) = 2"
    )
    return set(found.split())


@pytest.mark.parametrize("share", [0.1, 0.5, 1e-9, 1])
def test_the_canary_has_the_keys_of_its_share(two, share):
    assert two.sql(CANARY.format(share)) == "p|canary|linear"
    wanted = {f"k{i}" for i in range(1, 2001) if belongs(share, f"k{i}")}
    assert keys_of_canary(two) == wanted
    assert share == 1e-9 or abs(len(wanted) / 2000 - share) < 0.03


def test_a_key_keeps_its_model(two):
    two.sql(CANARY.format(0.2))
    few = keys_of_canary(two)
    assert keys_of_canary(two) == few
    two.sql(CANARY.format(0.4))
    more = keys_of_canary(two)
    assert few < more
    # A key that is a number is that of its digits.
    assert (
        two.sql("SELECT bool_and(pgml.model_for('p', i) = pgml.model_for('p', i::text)) FROM generate_series(-9, 99) i")
        == "t"
    )


def test_by_name_the_deployed_model_answers(two):
    two.sql(CANARY.format(1))
    assert two.sql(f"SELECT {ANSWER.format(1)}, round(pgml.predict('p', ARRAY[1])::numeric, 3)::float8") == "2|1"
    assert two.sql("SELECT id FROM pgml.deployed_models") == "1"
    assert two.sql("SELECT project_id, model_id, strategy, share FROM pgml.trials") == "1|2|canary|1"


def test_without_a_canary_the_deployed_model_answers_for_all_keys(two):
    assert two.sql("SELECT pgml.model_for('p', 'a'), pgml.model_for('p', 7), pgml.shadow_of('p') IS NULL") == "1|1|t"
    two.sql(SHADOW)
    assert two.sql("SELECT pgml.model_for('p', 'a'), pgml.shadow_of('p')") == "1|2"
    assert two.sql("SELECT pgml.model_for('p', NULL::text) IS NULL, pgml.model_for(NULL, 1) IS NULL") == "t|t"


@pytest.mark.parametrize(
    "ending, deployed",
    [
        ("SELECT strategy FROM pgml.deploy('p', 'rollback')", 1),
        ("SELECT strategy FROM pgml.deploy(2)", 2),
        ("SELECT strategy FROM pgml.deploy('p', 'most_recent')", 2),
        ("SELECT pgml.delete_model(2)", 1),
    ],
)
@pytest.mark.parametrize("beginning", [CANARY.format(1), SHADOW])
def test_a_trial_ends(two, beginning, ending, deployed):
    two.sql(beginning)
    two.sql(ending)
    assert two.sql("SELECT count(*) FROM pgml.trials") == "0"
    assert two.sql("SELECT pgml.model_for('p', 'a'), pgml.shadow_of('p') IS NULL") == f"{deployed}|t"


def test_another_deployment_leaves_the_trial(two):
    two.sql("SELECT pgml.train('p', 'regression', 'ones', 'y', 'ridge', automatic_deploy => false)")
    two.sql(CANARY.format(1))
    two.sql("SELECT pgml.deploy(3)")
    assert two.sql("SELECT pgml.model_for('p', 'a'), (SELECT id FROM pgml.deployed_models)") == "2|3"
    # Only then does a rollback go back to the deployment before.
    two.sql("SELECT pgml.deploy('p', 'rollback')")
    assert two.sql("SELECT pgml.model_for('p', 'a')") == "3"
    two.sql("SELECT pgml.deploy('p', 'rollback')")
    assert two.sql("SELECT pgml.model_for('p', 'a')") == "1"


def test_what_is_rolled_back_never_was(two):
    with two.connect() as own:
        own.autocommit = False
        cursor = own.cursor()
        cursor.execute("SELECT pgml.model_for('p', 'a')")
        cursor.execute(CANARY.format(1))
        cursor.execute("SELECT pgml.model_for('p', 'a')")
        assert cursor.fetchone()[0] == 2
        assert two.sql("SELECT pgml.model_for('p', 'a')") == "1"
        own.rollback()
        cursor.execute("SELECT pgml.model_for('p', 'a')")
        assert cursor.fetchone()[0] == 1


def test_other_connections_see_it_with_its_commit(two):
    with two.connect() as other:
        cursor = other.cursor()
        cursor.execute("PREPARE ask AS SELECT pgml.model_for('p', 'a'), pgml.shadow_of('p')")
        for change, seen in [(None, (1, None)), (CANARY.format(1), (2, None)), (SHADOW, (1, 2))]:
            if change:
                two.sql(change)
            cursor.execute("EXECUTE ask")
            assert tuple(cursor.fetchone()) == seen


def test_a_replica_divides_keys_as_the_primary(cluster):
    cluster.primary.psql(MADE + CANARY.format(0.5), "app")
    cluster.catch_up()
    asked = "SELECT string_agg(pgml.model_for('p', i)::text, '') FROM generate_series(1, 200) i"
    assert cluster.replica.psql(asked, "app") == cluster.primary.psql(asked, "app")
    cluster.primary.psql(SHADOW, "app")
    cluster.catch_up()
    asked = "SELECT round(prediction::numeric, 3)::float8, round(shadow::numeric, 3)::float8, error FROM pgml.predict_shadow('p', ARRAY[1])"
    assert cluster.replica.psql(asked, "app") == cluster.primary.psql(asked, "app") == "1|2|"


def test_a_shadow_is_predicted_beside(two):
    ask = "SELECT round(prediction::numeric, 3)::float8, round(shadow::numeric, 3)::float8, error FROM {}"
    assert two.sql(ask.format("pgml.predict_shadow('p', ARRAY[1.5])")) == "1||"
    two.sql(SHADOW)
    for features in ("ARRAY[1.5]", "'{1.5}'", "x", "x.x"):
        of = f"(SELECT 3 AS x) x, pgml.predict_shadow('p', {features})"
        assert two.sql(ask.format(of)) == "1|2|", features
    counted = "SELECT count(*), sum(shadow - prediction)::int FROM ones o, pgml.predict_shadow('p', o)"
    assert two.sql(counted) == "20|20"


def test_a_shadow_that_cannot_predict_is_no_trouble(two):
    two.sql("CREATE TABLE wide AS SELECT x, y, x * 2 AS z FROM twos")
    two.sql("SELECT pgml.train('p', 'regression', 'wide', 'y', 'linear', automatic_deploy => false)")
    two.sql("SELECT pgml.deploy('p', 'shadow', model_id => 3)")
    found = two.sql("SELECT prediction IS NOT NULL, shadow IS NULL, error FROM pgml.predict_shadow('p', ARRAY[1])")
    assert found.startswith("t|t|") and "3" in found
    # The row has what the shadow needs, which the deployed model does not look at.
    assert two.sql("SELECT count(shadow), count(error) FROM wide w, pgml.predict_shadow('p', w)") == "20|0"


@pytest.mark.parametrize(
    "call, state",
    [
        ("deploy('p', 'canary')", "22023"),
        ("deploy('p', 'canary', model_id => 2)", "22023"),
        ("deploy('p', 'canary', model_id => 2, share => 0)", "22023"),
        ("deploy('p', 'canary', model_id => 2, share => 1.5)", "22023"),
        ("deploy('p', 'canary', model_id => 2, share => 'NaN')", "22023"),
        ("deploy('p', 'canary', 'linear', 2, 0.5)", "22023"),
        ("deploy('p', 'shadow')", "22023"),
        ("deploy('p', 'shadow', model_id => 2, share => 0.5)", "22023"),
        ("deploy('p', 'best_score', model_id => 2)", "22023"),
        ("deploy('p', 'rollback', share => 0.5)", "22023"),
        ("deploy('p', 'canary', model_id => 99, share => 0.5)", "42704"),
        ("deploy('p', 'canary', model_id => 3, share => 0.5)", "42704"),
        ("deploy('p', 'shadow', model_id => 1)", "55000"),
        ("deploy('none', 'shadow', model_id => 4)", "55000"),
        ("model_for('nothing', 'a')", "42704"),
        ("model_for('none', 'a')", "42704"),
        ("shadow_of('nothing')", "42704"),
        ("predict_shadow('nothing', ARRAY[1])", "42704"),
        ("predict_shadow('p', ARRAY[1, 2])", "22023"),
    ],
)
def test_what_cannot_be_meant_is_refused(two, call, state):
    two.sql("SELECT pgml.train('other', 'regression', 'ones', 'y', 'linear')")
    two.sql("SELECT pgml.train('none', 'regression', 'ones', 'y', 'linear', automatic_deploy => false)")
    assert (
        two.sql(f"""
        CREATE FUNCTION state() RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM pgml.{call}; RETURN '00000';
        EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END$$; SELECT state()
    """)
        == state
    )
    assert two.sql("SELECT count(*) FROM pgml.trials") == "0"


def test_strategies_of_before_are_called_as_before(two):
    for call, found in [
        ("deploy('p', 'most_recent')", "p|most_recent|linear"),
        ("deploy('p', 'rollback', 'linear')", "p|rollback|linear"),
        ("deploy(project_name => 'p', strategy => 'best_score', algorithm => 'linear')", "p|best_score|linear"),
        ("deploy(2)", "p|specific|linear"),
    ]:
        assert two.sql(f"SELECT * FROM pgml.{call}") == found
    with pytest.raises(Problem, match="is only for deployments by pgml.train"):
        two.sql("SELECT pgml.deploy('p', 'new_score')")


def test_a_dump_keeps_it(two, server):
    two.sql(CANARY.format(0.25))
    copy = f"{two.name}_copy"
    dump = server.run("pg_dump", "--format=plain", two.name).stdout
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.psql(dump, copy)
        asked = "SELECT string_agg(pgml.model_for('p', i)::text, '') FROM generate_series(1, 99) i"
        assert server.psql(asked, copy) == two.sql(asked)
        assert server.psql("SELECT model_id, strategy, share FROM pgml.trials", copy) == "2|canary|0.25"
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")
