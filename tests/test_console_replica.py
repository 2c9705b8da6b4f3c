"""The console through a pooler with a primary and a replica: what was just done is shown, and a primary that is down is
said.
"""

import contextlib
import json
import re
import time

import pytest

from devkit import postgres
from devkit.server import Server
from tests.consoles import PASSWORD, Visitor, running, text_of
from tests.pooler.process import Pooler, wait_until

APART = "500ms"


class Pair:
    """A primary, a replica that is late, and a console before their pooler."""

    def __init__(self, primary, replica, pooler, acting):
        self.primary = primary
        self.replica = replica
        self.pooler = pooler
        self.acting = acting

    def wait_for_reads(self):
        """Waits until the pooler sends reads to the replica, as it does once that has all definitions."""

        def is_late():
            self.primary.psql("INSERT INTO marks VALUES (1)", "app")
            count = "SELECT count(*) FROM marks"
            return self.pooler.psql(count, "app", "ana", PASSWORD) != self.primary.psql(count, "app")

        wait_until(is_late)
        # What sessions have done so far no longer keeps their reads from it.
        self.primary.wait_for_replay(self.replica)

    def path(self, text):
        """A path as it is."""
        return text


@pytest.fixture(scope="module")
def pair(major):
    with Server(postgres.tree(major)) as primary:
        primary.psql(f"CREATE ROLE ana LOGIN PASSWORD '{PASSWORD}'; CREATE DATABASE app")
        primary.psql(
            """
            CREATE EXTENSION pgml;
            GRANT CREATE ON SCHEMA public TO ana;
            GRANT INSERT ON pgml.projects TO ana;
            CREATE TABLE marks (one int);
            GRANT SELECT ON marks TO ana;
            SELECT FROM pgml.load_dataset('iris');
            GRANT SELECT ON pgml.iris TO ana;
            SET SESSION AUTHORIZATION ana;
            SELECT pgml.train('q', 'classification', 'pgml.iris', 'target', 'ridge');
            SELECT pgml.train('q', algorithm => 'xgboost', hyperparams => '{"n_estimators": 5}');
            """,
            "app",
        )
        with primary.replica() as replica:
            replica.psql(f"ALTER SYSTEM SET recovery_min_apply_delay = '{APART}'")
            replica.psql("SELECT pg_reload_conf()")
            primary.wait_for_replay(replica)
            servers = ", ".join(
                f'{{ host = "{one.socket_folder}", port = {one.port}, role = "auto" }}' for one in (primary, replica)
            )
            text = f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "scram-sha-256"
monitor_user = "postgres"
primary_reads = "off"
[databases.app]
servers = [{servers}]
[users.ana]
password = "{PASSWORD}"
"""
            with Pooler(primary, name="howdah.toml", text=text) as pooler:
                dsn = f"postgresql://127.0.0.1:{pooler.port}/app"
                pooler.psql("SELECT 1", "app", "ana", PASSWORD)
                pooler.wait_for_catalog()
                wait_until(lambda: "is now replica" in pooler.log.read_text())
                with running(dsn, actions=True, page_seconds=2) as (acting, _):
                    yield Pair(primary, replica, pooler, acting)


@pytest.fixture
def ana(pair):
    visitor = Visitor(pair, pair.acting)
    with contextlib.closing(visitor.http):
        assert visitor.login("ana").status_code == 303
        yield visitor


def test_what_was_just_made_is_found(ana, pair):
    rows = "".join(f"{row % 7},{row % 2}\n" for row in range(200))
    plan = {"delimiter": ",", "encoding": "UTF8", "missing": "", "header": True, "schema": "public", "table": "fresh"}
    plan |= {"numbers": "plain", "dates": "iso", "columns": [["a", "bigint"], ["b", "bigint"]]}
    headers = {"X-CSRF-Token": ana.token, "HX-Request": "true", "X-Plan": json.dumps(plan)}
    made = ana.http.post("/train/upload", content=f"a,b\n{rows}", headers=headers)
    page = ana.get(made.headers["hx-redirect"])
    assert page.status_code == 200, text_of(page)
    form = {"relation": "fresh", "project": "p", "task": "classification", "label": "b", "algorithm": "linear"}
    job = ana.post("/train", form | {"deploy": "on"}).headers["location"]
    deadline = time.monotonic() + 60
    while "hx-trigger" in (page := ana.part(job)).text:
        assert time.monotonic() < deadline and page.status_code == 200
        time.sleep(0.1)
    model = re.search(r"/models/\d+", page.text)[0]
    assert ana.get(model).status_code == 200


def test_what_was_just_done_is_shown(ana, pair):
    pair.wait_for_reads()
    project, first = pair.primary.psql(
        "SELECT project_id, min(id) FROM pgml.models WHERE project_id = 1 GROUP BY 1", "app"
    ).split("|")
    # By a connection of its own.
    ana.post("/sql/run", {"text": f"SELECT * FROM pgml.deploy({first}::bigint)"})
    assert f"#{first} deployed" in text_of(ana.get(f"/projects/{project}"))


def test_what_somebody_else_just_made_is_found(ana, pair):
    pair.wait_for_reads()
    pair.primary.psql("SET SESSION AUTHORIZATION ana; SELECT pgml.train('q', algorithm => 'naive_bayes')", "app")
    latest = pair.primary.psql("SELECT max(id) FROM pgml.models", "app")
    assert ana.get(f"/models/{latest}").status_code == 200


def test_a_primary_that_is_down_is_said_soon(ana, pair):
    pair.primary.stop("immediate")
    for path in ("/", "/jobs", "/train"):
        began = time.monotonic()
        page = ana.get(path)
        assert page.status_code == 503 and "down (behind a pooler: the primary)" in text_of(page)
        assert time.monotonic() - began < 4.5, path
    began = time.monotonic()
    assert "did not answer in time" in text_of(ana.post("/sql/run", {"text": "SELECT 1"}))
    assert time.monotonic() - began < 6
