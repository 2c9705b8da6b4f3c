"""A PostgresML 2.x schema, restored under another name, whose models come over."""

import json
import struct

import numpy
import pg8000.dbapi
import pytest

from devkit.places import ROOT

BINARY = ROOT / "crates" / "forest" / "tests" / "models" / "binary"
ROWS = json.loads((BINARY / "predictions.txt").read_text())

# As sql/schema.sql of PostgresML 2.10 declares them, but for what the guide leaves out: enums come as text.
SCHEMA = """
CREATE SCHEMA {0};
CREATE TABLE {0}.projects (id bigserial PRIMARY KEY, name text NOT NULL, task text NOT NULL);
CREATE TABLE {0}.snapshots (id bigserial PRIMARY KEY, relation_name text NOT NULL, y_column_name text[], columns jsonb);
CREATE TABLE {0}.models (id bigserial PRIMARY KEY, project_id bigint NOT NULL, snapshot_id bigint, num_features int NOT NULL,
    algorithm text NOT NULL, runtime text, hyperparams jsonb NOT NULL, status text NOT NULL, metrics jsonb);
CREATE TABLE {0}.files (id bigserial PRIMARY KEY, model_id bigint NOT NULL, path text NOT NULL, part int NOT NULL,
    data bytea NOT NULL);
CREATE TABLE {0}.deployments (id bigserial PRIMARY KEY, project_id bigint NOT NULL, model_id bigint NOT NULL)
"""


def column(name, position, **more):
    """A column of a snapshot, as PostgresML describes it."""
    return {
        "name": name,
        "pg_type": "float4",
        "nullable": True,
        "label": False,
        "position": position,
        "size": 1,
        "array": False,
        "preprocessor": {"encode": "native", "impute": "error", "scale": "preserve"},
        "statistics": {"min": 0, "categories": None},
        **more,
    }


# Not in the order of their positions.
COLUMNS = [column(name, position) for position, name in enumerate("abcd", 1)][::-1]
SPECIES = {
    "__NULL__": {"value": 0.0, "members": 0},
    "oak": {"value": 1.0, "members": 9},
    "elm": {"value": 2.0, "members": 9},
}


class Old:
    """The schema, and what is put into it."""

    def __init__(self, connection, schema):
        self.connection = connection
        self.schema = schema
        for statement in SCHEMA.format(schema).split(";"):
            self.ask(statement)

    def ask(self, statement, *parameters):
        """Asks a statement, and gives its rows."""
        cursor = self.connection.cursor()
        cursor.execute(statement, parameters)
        return list(cursor.fetchall()) if cursor.description else []

    def error(self, statement):
        """Asks a statement that fails, and gives its SQLSTATE."""
        with pytest.raises(pg8000.dbapi.DatabaseError) as raised:
            self.ask(statement)
        return raised.value.args[0]["C"]

    def insert(self, table, **values):
        """Adds a row; gives its id."""
        names = ", ".join(values)
        places = ", ".join("%s" for _ in values)
        return self.ask(
            f"INSERT INTO {self.schema}.{table} ({names}) VALUES ({places}) RETURNING id", *values.values()
        )[0][0]

    def model(
        self, project, algorithm, data, columns=None, path="estimator.rmp", status="successful", runtime="rust", width=4
    ):
        """Adds a model with its snapshot and its file; gives its id."""
        snapshot = self.insert(
            "snapshots", relation_name="t", y_column_name=["y"], columns=json.dumps(columns) if columns else None
        )
        model = self.insert(
            "models",
            project_id=project,
            snapshot_id=snapshot,
            num_features=width,
            algorithm=algorithm,
            runtime=runtime,
            hyperparams='{"n_estimators": 5}',
            status=status,
            metrics='{"r2": 0.5}',
        )
        if data is not None:
            self.insert("files", model_id=model, path=path, part=0, data=data)
        return model

    def deploy(self, project, model):
        """Adds a deployment."""
        self.insert("deployments", project_id=project, model_id=model)


@pytest.fixture
def old(database):
    with database.connect() as connection:
        yield Old(connection, "postgresml")


def array(row):
    return "{" + ",".join("NULL" if value is None else repr(value) for value in row) + "}"


def predictions(old, project, function="predict"):
    return numpy.array(
        [old.ask(f"SELECT pgml.{function}(%s, %s::real[])", project, array(row))[0][0] for row in ROWS["rows"]],
        dtype=numpy.float32,
    )


def binary(name):
    return (BINARY / f"{name}.bin").read_bytes()


def test_models_come_over_and_predict_the_same(old):
    label = column("y", 5, label=True)
    flights = old.insert("projects", name="flights", task="regression")
    first = old.model(flights, "xgboost", binary("poisson"), [*COLUMNS, label])
    second = old.model(flights, "xgboost", binary("regression"), [*COLUMNS, label])
    old.deploy(flights, second)
    old.deploy(flights, first)
    old.deploy(flights, second)
    trees = old.insert("projects", name="trees", task="classification")
    named = column("species", 5, label=True, statistics={"categories": SPECIES})
    third = old.model(trees, "xgboost", binary("classes"), [*COLUMNS, named])
    old.deploy(trees, third)
    answer = old.ask("SELECT * FROM pgml.import_postgresml()")
    assert [[row[0], row[1], row[3], row[4], row[5]] for row in answer] == [
        ["flights", first, "xgboost", "imported", None],
        ["flights", second, "xgboost", "deployed", None],
        ["trees", third, "xgboost", "deployed", None],
    ]
    assert predictions(old, "flights").tobytes() == numpy.float32(ROWS["regression"]).tobytes()
    one = old.ask("SELECT pgml.predict(%s::bigint, %s::real[])", answer[0][2], array(ROWS["rows"][0]))[0][0]
    assert numpy.float32(one) == numpy.float32(ROWS["poisson"][0])
    assert predictions(old, "trees", "predict_proba").tobytes() == numpy.float32(ROWS["classes"]).tobytes()
    best = [["__NULL__", "oak", "elm"][int(numpy.argmax(row))] for row in ROWS["classes"]]
    cells = [array(row) for row in ROWS["rows"]]
    labels = old.ask(
        "SELECT pgml.predict_label('trees', u.r::real[]) FROM unnest(%s::text[]) WITH ORDINALITY u(r, i) ORDER BY i",
        cells,
    )
    assert [label for (label,) in labels] == best
    # By name, in whatever order a row has them.
    row = ROWS["rows"][0]
    named = old.ask(
        "SELECT pgml.predict('flights', r) FROM (SELECT %s::real AS d, %s::real AS c, %s::real AS b, %s::real AS a) r",
        *row[::-1],
    )[0][0]
    assert numpy.float32(named) == numpy.float32(ROWS["regression"][0])
    assert old.ask("SELECT hyperparams->>'n_estimators', metrics->>'r2' FROM pgml.models LIMIT 1") == [["5", "0.5"]]
    # Once more, nothing comes twice.
    assert {row[4] for row in old.ask("SELECT * FROM pgml.import_postgresml('postgresml')")} == {"there"}
    assert old.ask("SELECT count(*) FROM pgml.models") == [[3]]


def test_lightgbm_and_arrays_come_over(old):
    text = (
        b"tree\nversion=v3\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=3\nobjective=regression\n"
        b"feature_names=Column_0 Column_1 Column_2 Column_3\nfeature_infos=none none none none\ntree_sizes=1\n\nTree=0\n"
        b"num_leaves=2\nnum_cat=0\nsplit_feature=3\nthreshold=0.5\ndecision_type=2\nleft_child=-1\nright_child=-2\n"
        b"leaf_value=1 2\nis_linear=0\nshrinkage=1\n\n\nend of trees\n"
    )
    project = old.insert("projects", name="image", task="regression")
    columns = [column("pixels", 1, size=3, array=True), column("shade", 2), column("y", 3, label=True)]
    old.deploy(project, old.model(project, "lightgbm", struct.pack(">QQ", 4, 1) + text, columns))
    assert old.ask("SELECT outcome FROM pgml.import_postgresml()") == [["deployed"]]
    for shade, expected in ((0.25, 1.0), (0.75, 2.0)):
        asked = "SELECT pgml.predict('image', r) FROM (SELECT %s::real AS shade, '{1,2,3}'::real[] AS pixels) r"
        assert old.ask(asked, shade) == [[expected]]


def test_what_cannot_come_is_told(old):
    project = old.insert("projects", name="p", task="regression")
    scaled = [*COLUMNS[1:], column("a", 1, preprocessor={"encode": "native", "impute": "mean", "scale": "standard"})]
    coded = [*COLUMNS[1:], column("a", 1, statistics={"categories": SPECIES})]
    for reason, model in [
        ("pickle", ("ridge", b"\x80\x04\x95abc.")),
        ("form in which PostgresML's rust stored linear", ("linear", b"\x91\x92\xca")),
        ('column "a" is prepared by', ("xgboost", binary("regression"), scaled)),
        ('column "a" is of categories', ("xgboost", binary("regression"), coded)),
        ("features has 3 names", ("xgboost", binary("regression"), COLUMNS[1:])),
        ("cannot be read", ("xgboost", binary("regression")[:500])),
        ("cannot be read", ("lightgbm", b"\0" * 16 + b"tree\nnonsense")),
        ("is missing or too large", ("xgboost", None)),
        ("the model in the file is for classification", ("xgboost", binary("binary"))),
    ]:
        model = old.model(project, *model)
        rows = {row[1]: row for row in old.ask("SELECT * FROM pgml.import_postgresml()")}
        assert rows[model][2] is None and rows[model][4] == "left" and reason in rows[model][5], rows[model]
    failed = old.model(project, "xgboost", binary("regression"), status="failed")
    wide = old.model(project, "xgboost", binary("regression"), width=7)
    language = old.insert("projects", name="chat", task="text_generation")
    speaker = old.model(language, "transformers", b"x")
    rows = {row[1]: row[5] for row in old.ask("SELECT * FROM pgml.import_postgresml()")}
    assert (
        'training of the model has the status "failed"' in rows[failed]
        and "its row in the table models says 7" in rows[wide]
    )
    assert "text_generation" in rows[speaker]
    assert old.ask("SELECT count(*) FROM pgml.projects") == [[0]]


def test_a_schema_that_is_none_is_an_error(old):
    assert old.error("SELECT * FROM pgml.import_postgresml('nothing')") == "3F000"
    assert old.error("SELECT * FROM pgml.import_postgresml('pgml')") == "22023"
    assert old.error("SELECT * FROM pgml.import_postgresml('public')") == "42P01"
    assert old.error("SELECT * FROM pgml.import_postgresml(NULL)") == "22004"
    assert old.ask("SELECT * FROM pgml.import_postgresml()") == []
    strange = Old(old.connection, '"a""b c"')
    project = strange.insert("projects", name="p", task="regression")
    strange.model(project, "xgboost", binary("regression"))
    assert old.ask("SELECT outcome FROM pgml.import_postgresml('a\"b c')") == [["imported"]]


def test_a_stranger_brings_only_what_it_may(old):
    project = old.insert("projects", name="p", task="regression")
    old.model(project, "xgboost", binary("regression"))
    old.ask("DROP ROLE IF EXISTS postgresml_stranger")
    old.ask("CREATE ROLE postgresml_stranger")
    try:
        old.ask("SET ROLE postgresml_stranger")
        assert old.error("SELECT * FROM pgml.import_postgresml()") == "42501"
        old.ask("RESET ROLE")
        old.ask("GRANT USAGE ON SCHEMA postgresml TO postgresml_stranger")
        old.ask("GRANT SELECT ON ALL TABLES IN SCHEMA postgresml TO postgresml_stranger")
        old.ask("SET ROLE postgresml_stranger")
        assert "may not train" in old.ask("SELECT reason FROM pgml.import_postgresml()")[0][0]
        old.ask("RESET ROLE")
        old.ask("GRANT INSERT ON pgml.projects TO postgresml_stranger")
        old.ask("SET ROLE postgresml_stranger")
        assert old.ask("SELECT outcome FROM pgml.import_postgresml()") == [["imported"]]
        old.ask("RESET ROLE")
        assert old.ask("SELECT owner::text FROM pgml.projects") == [["postgresml_stranger"]]
    finally:
        old.ask("RESET ROLE")
        old.ask("SELECT pgml.delete_project(name) FROM pgml.projects")
        old.ask("DROP OWNED BY postgresml_stranger")
        old.ask("DROP ROLE postgresml_stranger")
