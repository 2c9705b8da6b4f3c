"""ALTER EXTENSION pgml UPDATE, from what each released version left behind (tests/upgrade)."""

import contextlib
import os

import pytest

from devkit import Problem
from devkit.places import ROOT
from tests.conftest import Database

EACH_VERSION = True

TABLES = """
    CREATE TABLE line AS SELECT i % 10 AS x, (i % 10) * 2.5::real AS y FROM generate_series(1, 100) i;
    CREATE TABLE soils AS SELECT (ARRAY['clay', 'sand', 'silt'])[1 + i % 3] AS soil, i % 7 AS rain,
        (ARRAY['poor', 'rich'])[1 + (i % 3 + i % 7) % 2] AS yield FROM generate_series(1, 100) i;
"""
DATA = (ROOT / "tests" / "upgrade" / "3.0.0.sql").read_text()

# What 3.0.0 predicted by these models, to the bit.
PREDICTIONS = {
    "SELECT string_agg(pgml.predict('line', x)::float8::text, ' ' ORDER BY x) FROM generate_series(0, 9) x": (
        "5.281181812286377 5.281181812286377 7.276077747344971 9.026823043823242 10.668551445007324 12.171358108520508 "
        "13.685431480407715 15.326156616210938 17.277610778808594 17.963905334472656"
    ),
    "SELECT string_agg(pgml.predict(2, x)::float8::text, ' ' ORDER BY x) FROM generate_series(0, 9) x": (
        "6.84886360168457 6.84886360168457 8.015530586242676 9.766276359558105 10.906510353088379 12.051852226257324 "
        "13.207406997680664 14.36296272277832 16.314416885375977 16.314416885375977"
    ),
    "SELECT string_agg(pgml.predict_proba('soils', soil, rain)::text, ' ' ORDER BY soil, rain) "
    "FROM (VALUES ('clay'::text, 0), ('clay', 1), ('sand', 0), ('silt', 1)) v (soil, rain)": (
        "{0.7189126,0.28108743} {0.26270342,0.7372966} {0.53709257,0.4629074} {0.26270342,0.7372966}"
    ),
}
UPDATE = "ALTER EXTENSION pgml UPDATE"
TRAIN = """SELECT pgml.train('line', algorithm => 'xgboost', hyperparams => '{"n_estimators": 4}')"""
ROLES = ("pgml_test_trainer", "pgml_test_reader", "pgml_test_owner")


@pytest.fixture
def roles(server):
    """Roles of the tests."""
    server.psql("".join(f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role};" for role in ROLES))
    yield
    server.psql("".join(f"DROP ROLE IF EXISTS {role};" for role in ROLES))


@pytest.fixture
def empty(server, request, roles):
    """A database without the extension."""
    name = f"u_{abs(hash(request.node.nodeid)) % 10**12}"
    server.psql(f"CREATE DATABASE {name}")
    yield Database(server, name)
    server.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def old(empty):
    """A database as 3.0.0 left it, with the library of today."""
    empty.sql("CREATE EXTENSION pgml VERSION '3.0.0'")
    empty.sql(TABLES)
    empty.sql(DATA)
    empty.sql("""
        GRANT INSERT ON pgml.projects, pgml.snapshots, pgml.models, pgml.files, pgml.deployments TO pgml_test_trainer;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA pgml TO pgml_test_trainer;
        GRANT SELECT ON line TO pgml_test_trainer;
    """)
    return empty


def evil_operators():
    """Operators that match exactly where the system's own would match by a conversion, or are looked for later."""
    pairs = [
        ("oid", "oid"),
        ("oid", "integer"),
        ("oid", "bigint"),
        ("name", "name"),
        ("name", "text"),
        ("text", "text"),
    ]
    pairs += [
        ('"char"', '"char"'),
        ('"char"', "text"),
        ("bigint", "bigint"),
        ("bigint", "integer"),
        ("integer", "integer"),
    ]
    pairs += [("regrole", "regrole"), ("regrole", "oid"), ("regclass", "regclass"), ("regclass", "oid")]
    for number, (left, right) in enumerate(pairs):
        yield f"""
            CREATE FUNCTION pgml.evil_{number}(a {left}, b {right}) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO public.seen VALUES (current_user);
                RETURN a::text = b::text;
            END $$;
            CREATE OPERATOR pgml.= (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = pgml.evil_{number});
            CREATE OPERATOR pgml.<> (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = pgml.evil_{number});
        """


def check_predictions(database, role=None):
    before = f"SET ROLE {role};" if role else ""
    for question, answer in PREDICTIONS.items():
        assert database.sql(before + question) == answer


def test_predictions_go_on_before_and_after(old):
    check_predictions(old)
    check_predictions(old, "pgml_test_reader")
    with old.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SET ROLE pgml_test_reader")
        for moment in ("before", "after"):
            if moment == "after":
                old.sql(UPDATE)
            for question, answer in PREDICTIONS.items():
                cursor.execute(question)
                assert cursor.fetchone()[0] == answer, moment
    check_predictions(old, "pgml_test_reader")


@pytest.mark.parametrize(
    "statement",
    [TRAIN, "SELECT pgml.deploy(2)", "SELECT pgml.deploy('line', 'most_recent')"],
    ids=["train", "by id", "by name"],
)
def test_what_writes_waits_for_the_update(old, statement):
    with pytest.raises(Problem, match="Run ALTER EXTENSION pgml UPDATE"):
        old.sql(statement)
    old.sql(UPDATE)
    assert old.sql(statement)


def test_projects_belong_to_the_owner_of_the_extension_and_roles_keep_what_they_could_do(old):
    old.sql(UPDATE)
    assert old.sql("SELECT extversion FROM pg_extension WHERE extname = 'pgml'") == "3.6.0"
    assert old.sql("SELECT string_agg(name || ' ' || owner, ', ' ORDER BY name) FROM pgml.projects") == (
        "line postgres, soils postgres"
    )
    grants = "SELECT grantee, string_agg(privilege, ' ' ORDER BY privilege) FROM pgml.grants WHERE project = 'line' GROUP BY 1"
    assert old.sql(grants + " ORDER BY 1") == "pgml_test_trainer|deploy see train\npublic|explain predict"
    # The trainer trains, and may make projects, but reads no more of the registry than it was granted.
    assert old.sql(f"SET ROLE pgml_test_trainer; {TRAIN}") == "(line,regression,xgboost,t)"
    mine = "SELECT pgml.train('mine', 'regression', 'line', 'y', 'xgboost', '{\"n_estimators\": 1}')"
    assert old.sql(f"SET ROLE pgml_test_trainer; {mine}") == "(mine,regression,xgboost,t)"
    assert old.sql("SET ROLE pgml_test_trainer; SELECT count(DISTINCT model_id) FROM pgml.files") == "1"
    assert old.sql("SET ROLE pgml_test_reader; SELECT count(*) FROM pgml.models") == "0"
    # Tables of the registry are written to by its functions alone.
    with pytest.raises(Problem, match="permission denied for table models"):
        old.sql("SET ROLE pgml_test_trainer; INSERT INTO pgml.models SELECT * FROM pgml.models")
    with pytest.raises(Problem, match="permission denied for sequence"):
        old.sql("SET ROLE pgml_test_trainer; SELECT nextval('pgml.models_id_seq')")
    # A query that 3.0.0 recorded may be anybody's.
    with pytest.raises(Problem, match="given by an unknown role"):
        old.sql("SELECT pgml.train('soils', algorithm => 'xgboost')")


def test_compiled_models_of_old_versions_are_made_again(server, old):
    """Beside those of today, and under their names, as a copied data folder or a disk may have it."""
    old.sql(UPDATE)
    check_predictions(old)
    folder = server.data / "pgml_cache" / old.sql("SELECT oid FROM pg_database WHERE datname = current_database()")
    today = {path: path.read_bytes() for path in sorted(folder.glob("*.v*"))}
    assert len(today) == len(PREDICTIONS)
    images = ROOT / "crates" / "forest" / "tests" / "images"
    versions = sorted(int(path.name) for path in images.iterdir())
    for version in versions[:-1]:
        image = (images / str(version) / "regression.image").read_bytes()
        for path in today:
            path.unlink()
            for name in (path, path.with_suffix(f".v{version}")):
                name.write_bytes(image)
                os.chown(name, folder.stat().st_uid, folder.stat().st_gid)
        check_predictions(old)
        assert {path: path.read_bytes() for path in today} == today
    assert today.keys() == {path for path in today if path.suffix == f".v{versions[-1]}"}


def test_an_updated_database_trains_in_the_background_and_counts(old):
    """In a connection that has loaded the library before the update, too."""
    with old.connect() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT pgml.predict('line', 1)")
        old.sql(UPDATE)
        cursor.execute("SELECT pgml.predict('line', 1)")
        assert old.sql("SELECT calls > 0 FROM pgml.stat_models WHERE last_used IS NOT NULL") == "t"
        cursor.execute(TRAIN.replace("pgml.train", "pgml.train_async"))
        number = cursor.fetchone()[0]
        assert old.sql(f"SELECT pgml.wait({number}, '60 s')") == "done"
    assert old.sql("SELECT count(*) FROM pgml.activity") == "0"


def test_tables_of_the_version_before_do_for_trainings_and_deletions(empty):
    """With the library of today: what they have no room for is left out until the update."""
    empty.sql("CREATE EXTENSION pgml VERSION '3.3.0'")
    empty.sql(TABLES)
    train = """SELECT pgml.train('{0}', 'regression', 'line', 'y', 'xgboost', '{{"n_estimators": 3}}')"""
    curve = "SELECT count(*) FROM pgml.learning_curve((SELECT max(id) FROM pgml.models))"
    empty.sql(train.format("before"))
    empty.sql(f"{train.format('gone')}; SELECT pgml.delete_project('gone')")
    empty.sql(UPDATE)
    assert empty.sql(curve) == "0"
    empty.sql(train.format("after"))
    assert empty.sql(curve) == "6"


def test_what_was_dumped_from_an_old_version_can_be_restored_into_the_new(empty):
    empty.sql("CREATE EXTENSION pgml")
    empty.sql(DATA)
    check_predictions(empty)
    # What it was granted is not known, so it is its new owner's alone.
    with pytest.raises(Problem, match='project "line" does not exist'):
        check_predictions(empty, "pgml_test_reader")
    empty.sql("SELECT pgml.grant(name, 'public', 'predict') FROM pgml.projects")
    check_predictions(empty, "pgml_test_reader")


def test_an_ordinary_owner_updates_and_no_code_of_its_own_runs_with_more_rights(server, empty):
    """The script of a trusted extension runs as a superuser, on tables that 3.0.0 gave its owner all privileges on."""
    name = empty.name
    server.psql(f"ALTER DATABASE {name} OWNER TO pgml_test_owner")
    try:
        as_owner = "SET ROLE pgml_test_owner;"
        empty.sql(f"{as_owner} CREATE EXTENSION pgml VERSION '3.0.0'")
        empty.sql(DATA)
        empty.sql(f"""{as_owner}
            CREATE TABLE seen (name text);
            CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO public.seen VALUES (current_user);
                RETURN NULL;
            END $$;
            CREATE TRIGGER evil AFTER INSERT OR UPDATE OR DELETE ON pgml.projects EXECUTE FUNCTION evil();
            GRANT INSERT ON pgml.models TO pgml_test_trainer;
        """)
        with pytest.raises(Problem, match="trigger evil on pgml.projects is not of the extension"):
            empty.sql(as_owner + UPDATE)
        assert empty.sql("SELECT count(*) FROM seen") == "0"
        empty.sql("DROP TRIGGER evil ON pgml.projects")
        # Objects and operators of its schema, and of its search_path, that the script might take for the system's.
        empty.sql(f"""{as_owner}
            {"".join(evil_operators())}
            CREATE FUNCTION pgml.quote_ident(text) RETURNS text LANGUAGE sql AS $$ SELECT $1 $$;
            SET search_path = pgml, public;
            {UPDATE};
        """)
        assert empty.sql("SELECT count(*) FROM seen") == "0"
        assert empty.sql("SELECT DISTINCT owner FROM pgml.projects") == "pgml_test_owner"
        check_predictions(empty, "pgml_test_owner")
        # A dump is of what it may read; row level security is never passed over in silence.
        dump = ("pg_dump", "--data-only", "--table=pgml.*", "--role=pgml_test_owner", name)
        refused = server.run(*dump, check=False)
        assert "query would be affected by row-level security policy" in refused.stderr
        assert "\n1\tline\tregression\t" in server.run(*dump, "--enable-row-security").stdout
        empty.sql("SELECT pgml.set_owner('line', 'pgml_test_trainer')")
        partly = server.run(*dump, "--enable-row-security").stdout
        assert "\n3\tsoils\t" in partly and partly.count("model.ubj") == 1
        empty.sql("SELECT pgml.set_owner('line', 'pgml_test_owner')")
        # It may let others make projects; triggers it makes no more.
        empty.sql(f"{as_owner} GRANT INSERT ON pgml.projects TO pgml_test_trainer")
        with pytest.raises(Problem, match="permission denied for table projects"):
            empty.sql(f"{as_owner} CREATE TRIGGER evil AFTER INSERT ON pgml.projects EXECUTE FUNCTION evil()")
        assert empty.sql(f"{as_owner} SELECT count(*) > 0 FROM pgml.grants WHERE grantee = 'pgml_test_trainer'") == "t"
    finally:
        server.psql(f"ALTER DATABASE {name} OWNER TO postgres")
        with contextlib.suppress(Problem):
            empty.sql("DROP EXTENSION pgml CASCADE; DROP OWNED BY pgml_test_owner CASCADE")


def test_a_table_in_place_of_one_that_only_the_library_knows_is_not_the_registrys(server, empty):
    """Whose triggers would run with the rights of the registry's owner, a superuser."""
    name = empty.name
    server.psql(f"ALTER DATABASE {name} OWNER TO pgml_test_owner")
    try:
        as_owner = "SET ROLE pgml_test_owner;"
        empty.sql(f"""{as_owner}
            CREATE EXTENSION pgml VERSION '3.1.0';
            CREATE TABLE line AS SELECT i AS x, i AS y FROM generate_series(1, 20) i;
            SELECT pgml.train('line', 'regression', 'line', 'y', 'ridge');
            CREATE TABLE seen (name text);
            CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO public.seen VALUES (current_user);
                RETURN NULL;
            END $$;
            CREATE TABLE pgml.trials (
                project_id int8 CONSTRAINT trials_pkey PRIMARY KEY, model_id int8, strategy pgml.strategy, share float8
            );
            INSERT INTO pgml.trials VALUES (1, 1);
            CREATE TRIGGER evil BEFORE INSERT OR UPDATE OR DELETE ON pgml.trials FOR EACH ROW EXECUTE FUNCTION evil();
            SELECT pgml.deploy(1);
        """)
        assert empty.sql("SELECT count(*) FROM seen") == "0"
        with pytest.raises(Problem, match='relation "trials" already exists'):
            empty.sql(as_owner + UPDATE)
        empty.sql(f"{as_owner} DROP TABLE pgml.trials; {UPDATE}; SELECT pgml.deploy(1)")
    finally:
        server.psql(f"ALTER DATABASE {name} OWNER TO postgres")
        with contextlib.suppress(Problem):
            empty.sql("DROP EXTENSION pgml CASCADE; DROP OWNED BY pgml_test_owner CASCADE")


def test_no_code_runs_that_somebody_put_where_the_extension_goes(empty):
    empty.sql(f"""
        CREATE SCHEMA pgml AUTHORIZATION pgml_test_owner;
        GRANT CREATE ON SCHEMA public TO pgml_test_owner;
        SET ROLE pgml_test_owner;
        CREATE TABLE seen (name text);
        GRANT INSERT ON seen TO PUBLIC;
        {"".join(evil_operators())}
        CREATE FUNCTION pgml.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql AS 'SELECT $1[1]';
        RESET ROLE;
        CREATE EXTENSION pgml;
    """)
    empty.sql(TABLES)
    assert empty.sql("SELECT pgml.train('line', 'regression', 'line', 'y', 'xgboost', '{\"n_estimators\": 1}')")
    assert (
        empty.sql("SELECT count(*) FROM pgml.overview o, pgml.grants, pgml.trained_models, pgml.deployed_models") == "1"
    )
    assert empty.sql("SELECT count(*) FROM seen") == "0"


def test_a_deployment_of_another_projects_model_is_in_the_way(old):
    old.sql("INSERT INTO pgml.deployments (project_id, model_id, strategy) VALUES (3, 1, 'specific')")
    with pytest.raises(Problem, match="a deployment names a model of another project"):
        old.sql(UPDATE)
    old.sql("DELETE FROM pgml.deployments WHERE project_id = 3 AND model_id = 1")
    old.sql(UPDATE)
    check_predictions(old)


def test_a_dump_keeps_owners_and_grants(server, old):
    old.sql(UPDATE)
    old.sql("""
        SELECT pgml.set_owner('line', 'pgml_test_owner');
        SELECT pgml.revoke('line', 'public', 'all'), pgml.grant('line', 'pgml_test_reader', 'export');
        CREATE ROLE pgml_test_gone;
        SELECT pgml.grant('line', 'pgml_test_gone', 'export');
        DROP ROLE pgml_test_gone;
    """)
    state = """
        SELECT string_agg(name || owner, ' ' ORDER BY name) FROM pgml.projects;
        SELECT string_agg(concat_ws(' ', project, grantee, privilege, grantor), ', ' ORDER BY project, grantee, privilege)
        FROM pgml.grants;
        SELECT grantee, privilege_type FROM information_schema.role_table_grants WHERE table_schema = 'pgml'
        AND grantee <> 'postgres' ORDER BY table_name, 1, 2;
    """
    before = old.sql(state)
    assert "pgml_test_owner" in before and "gone" not in before
    copy = f"{old.name}_copy"
    dump = server.run("pg_dump", "--format=plain", old.name).stdout
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.psql(dump, copy)
        assert server.psql(state, copy) == before
        assert server.psql("SELECT count(*) FROM pgml.privileges WHERE grantee::oid <> 0", copy) == "7"
        check_predictions(Database(server, copy), "pgml_test_owner")
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


def test_what_depends_on_an_overload_keeps_it(old):
    old.sql("""
        CREATE VIEW scored AS SELECT l.x, pgml.predict('line', l) AS y FROM line l;
        CREATE TABLE kept (x real, y real GENERATED ALWAYS AS (pgml.predict(2, ARRAY[x])) STORED);
        INSERT INTO kept VALUES (5);
    """)
    before = old.sql("SELECT string_agg(y::text, ' ' ORDER BY x) FROM scored; SELECT y FROM kept")
    old.sql(UPDATE)
    assert old.sql("SELECT string_agg(y::text, ' ' ORDER BY x) FROM scored; SELECT y FROM kept") == before
    old.sql("INSERT INTO kept VALUES (5)")
    assert old.sql("SELECT count(DISTINCT y) FROM kept") == "1"
    # Every other call finds its function.
    for call in ("ARRAY[5.0]", "5", "ROW(5)", "'{5}'", "'5'"):
        assert float(old.sql(f"SELECT pgml.predict('line', {call})")) > 0, call
    assert old.sql("SELECT count(*) FROM pgml.explain('line', ARRAY[5]::float8[])") == "2"
