"""The console over real models: what each page shows and to whom, what it refuses, and how it looks in a browser."""

import contextlib
import csv
import html
import os
import re
import shutil
import signal
import threading
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pg8000.dbapi
import pytest
import uvicorn

from devkit.console import console_wheel
from devkit.places import BUILD, ROOT
from devkit.server import free_port
from howdah_console.app import Settings, make_app
from tests.conftest import fresh
from tests.pooler.process import Pooler

PASSWORD = "four words as one"
PENGUINS = b"""species;Body mass (g);flipper;2007;sex;seen on;seen on
Adelie;3750;181.5;007;NA;2007-11-11;2007-11-11 10:30
Gentoo;4500;NA;012;female;2007-11-12;2007-11-12 11:00:01+02
"Chin;strap";3800;190;011;male;2007-11-13;2007-11-13 09:00Z
"""
SETUP = """
SET SESSION AUTHORIZATION ana;
SELECT pgml.load_dataset('breast_cancer'), pgml.load_dataset('diabetes'), pgml.load_dataset('iris');
SELECT pgml.train('tumours', 'classification', 'pgml.breast_cancer', 'malignant', 'linear');
SELECT pgml.train('tumours', algorithm => 'xgboost', hyperparams => '{"n_estimators": 20}');
SELECT pgml.train('progress', 'regression', 'pgml.diabetes', 'target', 'xgboost', '{"n_estimators": 20}');
SELECT pgml.train('progress', algorithm => 'ridge');
SELECT pgml.train('flowers', 'classification', 'pgml.iris', 'target', 'xgboost');
SELECT pgml.train('groups', 'clustering', '(SELECT bmi, bp, s5 FROM pgml.diabetes)', algorithm => 'kmeans',
                  hyperparams => '{"n_clusters": 3}');
SELECT pgml.train('parts', 'decomposition', '(SELECT bmi, bp, s5 FROM pgml.diabetes)', algorithm => 'pca',
                  hyperparams => '{"n_components": 2}');
SELECT setseed(0.5);
CREATE TABLE customers (id bigint PRIMARY KEY, age integer, city text, "spend in CHF" numeric, joined date, churned boolean);
INSERT INTO customers SELECT g, 18 + (g * 7919) % 60, (ARRAY['Basel', 'Bern', 'Genf', 'Zug'])[1 + (g * 31) % 4],
       CASE WHEN g % 9 > 0 THEN round((random() * 100)::numeric, 2) END, date '2024-01-01' + (g % 700),
       g * 7919 % 60 + random() * 30 > 45
FROM generate_series(1, 4000) AS g;
ANALYZE customers;
SELECT pgml.train('churn', 'classification', 'customers', 'churned', 'xgboost', '{"n_estimators": 30, "max_depth": 3}',
                  search => 'grid', search_params => '{"learning_rate": [0.05, 0.1, 0.3]}', search_args => '{"cv": 2}');
CREATE TABLE arrivals AS SELECT * FROM customers WHERE id % 4 = 0;
SELECT pgml.watch('churn', 'arrivals');
SELECT count(*) FROM pgml.check('churn');
UPDATE arrivals SET age = age + 9;
SELECT count(*) FROM pgml.check('churn');
UPDATE arrivals SET city = 'Chur' WHERE id % 8 = 0;
SELECT count(*) FROM pgml.check('churn');
"""
VIEWS = {
    "login": "/login",
    "models": "/",
    "project": "/projects/{tumours}",
    "model": "/models/{tumours.xgboost}",
    "search": "/models/{churn.xgboost}",
    "regression": "/models/{progress.ridge}",
    "clustering": "/models/{groups.kmeans}",
    "decomposition": "/models/{parts.pca}",
    "tables": "/train",
    "upload": "/train/upload",
    "table": "/train/table?relation=customers",
    "try": "/models/{churn.xgboost}/try",
    "trainings": "/jobs",
    "watch": "/watch",
    "watched": "/watch/{churn}",
    "sql": "/sql",
    "poolers": "/poolers",
}


@contextlib.contextmanager
def running(dsn, **settings):
    """The console as it runs for users, on a port of its own; gives its address and the application."""
    port = free_port()
    app = make_app(Settings(dsn=dsn, port=port, **settings))
    service = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", access_log=False))
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not service.started:
            assert time.monotonic() < deadline and thread.is_alive()
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}", app
    finally:
        service.should_exit = True
        thread.join()


class World:
    """A database with models, a user who owns them, one who may see a project, one who may nothing, and two consoles."""

    def __init__(self, database, reading, acting, pooler):
        self.database = database
        self.reading = reading
        self.acting = acting
        self.pooler = pooler
        rows = database.sql("SELECT name, algorithm, id FROM pgml.trained_models ORDER BY id").splitlines()
        self.ids = {".".join(row.split("|")[:2]): row.split("|")[2] for row in rows}
        rows = database.sql("SELECT name, id FROM pgml.projects").splitlines()
        self.ids |= dict(row.split("|") for row in rows)

    def path(self, text):
        """A path with ids in place of names."""
        return re.sub(r"{([\w.]+)}", lambda match: self.ids[match[1]], text)


@pytest.fixture(scope="module")
def world(server):
    with fresh(server, "console") as database:
        users = "".join(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}';" for name in ("ana", "ben", "eve"))
        server.psql(users)
        try:
            rights = "GRANT CREATE ON SCHEMA public, pgml TO ana; GRANT INSERT ON pgml.projects TO ana;"
            database.sql(rights)
            database.sql(SETUP)
            database.sql("SET SESSION AUTHORIZATION ana; SELECT pgml.grant('tumours', 'ben', 'see')")
            dsn = f"postgresql://ana@127.0.0.1:{server.port}/console"
            rights = {"admin_users": "ana", "stats_users": "ben", "auth_type": "scram-sha-256", "default_pool_size": 1}
            with Pooler(server, users={"ana": PASSWORD, "ben": PASSWORD}, **rights) as pooler:
                # The second is not there.
                poolers = tuple(f"postgresql://127.0.0.1:{port}/howdah" for port in (pooler.port, free_port()))
                acts = {"actions": True, "sql_seconds": 20, "pooler_dsns": poolers}
                with running(dsn) as (reading, _), running(dsn, **acts) as (acting, _):
                    yield World(database, reading, acting, pooler)
        finally:
            database.sql("DROP OWNED BY ana, ben, eve CASCADE")
            database.sql("DROP ROLE IF EXISTS ana, ben, eve")


class Visitor:
    """A browser without a screen: cookies, and the token of the forms."""

    def __init__(self, world, address):
        self.world = world
        self.address = address
        self.http = httpx.Client(base_url=address, timeout=60)
        self.token = None

    def get(self, path, **headers):
        """A page."""
        return self.http.get(self.world.path(path), headers=headers)

    def part(self, path):
        """What htmx fetches."""
        return self.get(path, **{"HX-Request": "true"})

    def post(self, path, fields=None, token=True, **headers):
        """What a form sends."""
        fields = {**({"csrf": self.token} if token else {}), **(fields or {})}
        return self.http.post(self.world.path(path), data=fields, headers=headers)

    def login(self, user, password=PASSWORD):
        """Logs in, as far as the console lets it."""
        page = self.get("/login")
        token = re.search(r'name="csrf" value="([^"]+)"', page.text)[1]
        answer = self.http.post("/login", data={"csrf": token, "user": user, "password": password})
        if answer.status_code == 303:
            self.token = re.search(r'name="csrf" value="([^"]+)"', self.get("/").text)[1]
        return answer


@pytest.fixture
def visit(world):
    """A logged-in visitor of a console: `visit("ben", acting=True)`; without a user, one who is not logged in."""
    visitors = []

    def come(user=None, acting=False):
        visitor = Visitor(world, world.acting if acting else world.reading)
        visitors.append(visitor)
        if user:
            assert visitor.login(user).status_code == 303
        return visitor

    yield come
    for visitor in visitors:
        visitor.http.close()


def text_of(page):
    """What a page says, without its tags."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text)))


# Logging in


def test_nothing_is_shown_without_a_login(visit, world):
    visitor = visit()
    for path in [*VIEWS.values(), "/jobs/1", "/models/1/curves"]:
        if path != "/login":
            answer = visitor.get(path)
            wanted = "/login" if path == "/" else "/login?next=" + quote(visitor.world.path(path))
            assert (answer.status_code, answer.headers["location"]) == (303, wanted), path
    assert visitor.part("/jobs").headers["hx-redirect"] == "/login"
    assert visitor.post("/sql/run", {"text": "SELECT 1"}, token=False).headers["location"] == "/login"


def test_a_login_leads_to_the_page_that_was_asked_for(visit, world):
    visitor = visit()
    for asked, wanted in [
        ("/train/table?relation=customers", "/train/table?relation=customers"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
        ("", "/"),
    ]:
        page = visitor.get(f"/login?next={quote(asked)}")
        fields = dict(re.findall(r'name="(csrf|next)" value="([^"]*)"', page.text))
        assert html.unescape(fields["next"]) == asked
        fields = {"csrf": fields["csrf"], "next": asked, "user": "ana", "password": PASSWORD}
        answer = visitor.http.post("/login", data=fields)
        assert (answer.status_code, answer.headers["location"]) == (303, wanted)
        visitor.http.cookies.clear()


def test_a_wrong_password_is_refused_and_not_repeated(visit):
    answer = visit().login("ana", "guess-<b>")
    assert answer.status_code == 403
    assert "refused the user “ana”" in text_of(answer)
    assert "guess" not in answer.text
    assert visit().login("", "").status_code == 400


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(visit):
    answer = visit().login("ana")
    cookie = next(one for one in answer.headers.get_list("set-cookie") if PASSWORD not in one and "_login" not in one)
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie.replace("Strict", "strict")
    assert "ana" not in cookie and PASSWORD not in cookie


def test_a_login_needs_the_token_of_its_form(visit):
    visitor = visit()
    visitor.get("/login")
    answer = visitor.post("/login", {"csrf": "x", "user": "ana", "password": PASSWORD}, token=False)
    assert answer.status_code == 403


def test_logging_out_ends_the_session(visit):
    visitor = visit("ana")
    cookies = dict(visitor.http.cookies)
    assert visitor.post("/logout").status_code == 303
    visitor.http.cookies.update(cookies)
    assert visitor.get("/").headers["location"] == "/login"


def test_a_session_without_clicks_ends(world, server):
    with running(f"postgresql://127.0.0.1:{server.port}/console", idle_seconds=0.5) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ana")
            assert visitor.get("/").status_code == 200
            deadline = time.monotonic() + 0.8
            while time.monotonic() < deadline:
                # A page that stays open asks so for how far a training is: that is no click.
                visitor.part("/jobs")
                time.sleep(0.05)
            assert visitor.get("/").headers["location"] == "/login"


def test_a_server_that_asks_for_no_password_lets_nobody_in(world, server):
    # Its socket trusts whoever comes, so anybody on the console's machine would be anybody in the database.
    dsn = f"postgresql:///console?host={server.socket_folder}&port={server.port}"
    with running(dsn) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            answer = visitor.login("ana")
            assert answer.status_code == 403
            assert "did not ask for a password" in text_of(answer)


def test_a_dsn_with_a_password_or_of_another_form_is_refused():
    with pytest.raises(ValueError, match="has a password"):
        Settings(dsn="postgresql://ana:secret@127.0.0.1/app")
    with pytest.raises(ValueError, match="expected to be a URI"):
        Settings(dsn="host=127.0.0.1 password=secret dbname=app")


# What surrounds the pages


def test_every_page_forbids_inline_code_and_has_none(visit):
    visitor = visit("ana")
    for path in [*VIEWS.values(), "/nothing"]:
        answer = visitor.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy, path
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:|https?://", answer.text), (
            path
        )


def test_the_assets_of_a_page_are_its_own_and_small(visit):
    visitor = visit("ana")
    page = visitor.get("/").text
    found = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    sizes = {one: len(visitor.get(one).content) for one in found}
    assert sum(size for one, size in sizes.items() if "uplot" not in one) < 200_000
    assert visitor.get("/static/../app.py").status_code == 404


def test_other_names_and_forms_of_other_sites_are_refused(visit):
    visitor = visit("ana")
    assert visitor.get("/", Host="evil.example").status_code == 421
    assert visitor.post("/sql/run", {"text": "SELECT 1"}, Origin="https://evil.example").status_code == 403
    assert visitor.post("/sql/run", {"text": "SELECT 1"}, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert visitor.post("/sql/run", {"text": "SELECT 1"}, token=False).status_code == 403
    assert visitor.post("/sql/run", {"csrf": "x", "text": "SELECT 1"}).status_code == 403
    assert visitor.post("/sql/run", {"text": "SELECT " + "1" * (1 << 20)}).status_code == 413


def test_a_read_only_console_changes_nothing(visit, world):
    visitor = visit("ana")
    for path, fields in [
        ("/projects/{tumours}/deploy", {"model": world.ids["tumours.linear"]}),
        ("/projects/{tumours}/rollback", {}),
        ("/train", {"relation": "customers", "project": "x", "task": "classification", "label": "churned"}),
        ("/jobs/1/cancel", {}),
    ]:
        answer = visitor.post(path, fields)
        assert answer.status_code == 403 and "read-only" in text_of(answer), path
    assert "Deploy</button>" not in visitor.get("/projects/{tumours}").text


def test_a_server_that_is_away_is_said_in_words(world, server):
    # A console of its own, whose connections are ended, and whose server then refuses new ones.
    with running(f"postgresql://127.0.0.1:{server.port}/console") as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ben")
            server.psql(
                "ALTER ROLE ben NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ben'"
            )
            try:
                answer = visitor.get("/")
                assert answer.status_code == 503
                assert "not permitted to log in" in text_of(answer) or "away" in text_of(answer)
            finally:
                server.psql("ALTER ROLE ben LOGIN")


# Models


def test_the_overview_has_each_project_with_its_deployed_model(visit, world):
    said = text_of(visit("ana").get("/"))
    for name in ("tumours", "progress", "flowers", "groups", "parts", "churn"):
        assert name in said
    assert f"xgboost #{world.ids['tumours.xgboost']}" in said
    assert "No project's name contains “zzz”" in text_of(visit("ana").get("/?find=zzz"))


def test_visitors_see_what_they_may_see(visit):
    said = text_of(visit("ben").get("/"))
    # Everybody may predict by a new project, and so see its name.
    assert re.search(r"flowers classification you may not see its models", said)
    assert "tumours classification xgboost" in said
    assert visit("ben").get("/models/{progress.ridge}").status_code == 404
    said = text_of(visit("ben").get("/models/{tumours.xgboost}"))
    assert "needs the privilege export" in said
    said = text_of(visit("eve").get("/"))
    assert said.count("you may not see its models") >= 6 and "F1" not in said


def test_thousands_of_models_and_projects_are_listed_in_part(world, server):
    with fresh(server, "many") as database:
        database.sql(
            """
            SELECT pgml.load_dataset('iris');
            SELECT pgml.train('flowers', 'classification', 'pgml.iris', 'target', 'xgboost', '{"n_estimators": 2}');
            UPDATE pgml.projects SET owner = 'ana'::regrole;
            INSERT INTO pgml.projects (name, task, owner)
                SELECT 'p' || g, task, owner FROM pgml.projects, generate_series(1, 2000) AS g;
            INSERT INTO pgml.models (project_id, snapshot_id, num_features, algorithm, runtime, hyperparams, status, metrics,
                                     search_params, search_args)
                SELECT CASE WHEN g % 2 = 0 THEN project_id ELSE project_id + g % 2000 END, snapshot_id, num_features,
                       algorithm, runtime, hyperparams, status, metrics, search_params, search_args
                FROM pgml.models, generate_series(1, 10000) AS g;
            INSERT INTO pgml.deployments (project_id, model_id, strategy)
                SELECT project_id, max(id), 'new_score' FROM pgml.models GROUP BY project_id;
            INSERT INTO pgml.deployments (project_id, model_id, strategy)
                SELECT project_id, min(id), 'rollback' FROM pgml.models GROUP BY project_id;
            """
        )
        flowers, first = database.sql(
            "SELECT p.id, min(m.id) FROM pgml.projects AS p JOIN pgml.models AS m "
            "ON m.project_id = p.id WHERE name = 'flowers' GROUP BY p.id"
        ).split("|")
        with running(f"postgresql://127.0.0.1:{server.port}/many") as (address, _):
            visitor = Visitor(world, address)
            with visitor.http:
                visitor.login("ana")
                page = visitor.get("/")
                assert "The latest 100 projects" in text_of(page) and len(page.text) < 200_000
                assert "p1999" in text_of(visitor.get("/?find=1999"))
                page = visitor.get(f"/projects/{flowers}")
                assert "The latest 100 models" in text_of(page) and len(page.text) < 200_000
                assert f"xgboost #{first} deployed" in text_of(page)


def test_a_database_without_the_extension_says_what_to_do(world, server):
    server.psql("CREATE DATABASE bare_console")
    try:
        with running(f"postgresql://127.0.0.1:{server.port}/bare_console") as (address, _):
            visitor = Visitor(world, address)
            with visitor.http:
                visitor.login("ana")
                assert "CREATE EXTENSION pgml" in visitor.get("/").text
                for path in ("/train", "/jobs", "/sql"):
                    assert visitor.get(path).status_code == 200
                server.psql("CREATE EXTENSION pgml", "bare_console")
                assert "No project yet" in text_of(visitor.get("/"))
    finally:
        server.psql("DROP DATABASE bare_console WITH (FORCE)")


def test_a_project_has_its_models_side_by_side_and_why_they_were_deployed(visit, world):
    visitor = visit("ana")
    said = text_of(visitor.get("/projects/{tumours}"))
    assert "xgboost" in said and "linear" in said and "The project had no deployed model." in said
    compared = text_of(visitor.part("/projects/{tumours}/compare"))
    value = world.database.sql(
        "SELECT round((metrics->>'f1')::numeric, 3) FROM pgml.compare('tumours', 'pgml.breast_cancer') WHERE deployed"
    )
    assert value in compared


def test_a_model_is_deployed_and_rolled_back_by_who_may(visit, world):
    deployed = "SELECT algorithm FROM pgml.deployed_models WHERE name = 'tumours'"
    refused = visit("ben", acting=True).post("/projects/{tumours}/deploy", {"model": world.ids["tumours.linear"]})
    assert "42501" in refused.text and world.database.sql(deployed) == "xgboost"
    visitor = visit("ana", acting=True)
    for action, fields, said, wanted in [
        ("deploy", {"model": world.ids["tumours.linear"]}, "is deployed.", "linear"),
        ("rollback", {}, "Rolled back", "xgboost"),
    ]:
        # A page that is loaded again does not do it again, and does not say it again.
        answer = visitor.post(f"/projects/{{tumours}}/{action}", fields)
        assert (answer.status_code, answer.headers["location"]) == (303, world.path("/projects/{tumours}"))
        assert world.database.sql(deployed) == wanted
        assert said in text_of(visitor.get(answer.headers["location"]))
        assert said not in text_of(visitor.get(answer.headers["location"]))
        page = visitor.get(f"/projects/{{tumours}}/{action}")
        assert page.status_code == 405 and "not of a page" in text_of(page)


def test_a_model_is_put_on_trial_and_deleted_by_who_may(visit, world):
    visitor = visit("ana", acting=True)
    world.database.sql(
        "SET SESSION AUTHORIZATION ana; SELECT pgml.train('tumours', algorithm => 'ridge', automatic_deploy => false)"
    )
    other = world.database.sql("SELECT max(id) FROM pgml.models")
    deny = visit("ben", acting=True)
    assert "42501" in deny.post(f"/models/{other}/trial", {"strategy": "shadow"}).text
    assert "42501" in deny.post(f"/models/{other}/delete").text
    assert "not 'half'" in text_of(visitor.post(f"/models/{other}/trial", {"strategy": "canary", "share": "half"}))
    page = visitor.post(f"/models/{other}/trial", {"strategy": "canary", "share": "12.5"})
    said = text_of(visitor.get(page.headers["location"]))
    assert "on trial as canary for 12.5 % of the keys" in said and f"#{other} on trial" in said
    said = text_of(visitor.get(f"/models/{other}"))
    assert "On trial as canary for 12.5 % of the keys" in said and "Put on trial" not in said
    page = visitor.post("/projects/{tumours}/rollback")
    assert "The trial has ended" in text_of(visitor.get(page.headers["location"]))
    page = visitor.post(f"/models/{other}/delete")
    assert page.headers["location"] == world.path("/projects/{tumours}")
    assert f"Model {other} is deleted." in text_of(visitor.get(page.headers["location"]))
    assert visitor.get(f"/models/{other}").status_code == 404
    assert visitor.get("/models/{tumours.xgboost}").status_code == 200


def test_a_models_page_has_its_metrics_columns_and_origin(visit):
    said = text_of(visit("ana").get("/models/{churn.xgboost}"))
    for part in (
        "ROC AUC",
        "spend in CHF",
        "max_depth",
        "public.customers",
        "Search for hyperparameters",
        "Genf",
        "4,000",
    ):
        assert part in said, part
    said = text_of(visit("ana").get("/models/{progress.ridge}"))
    assert "Coefficients" in said and "bmi" in said and "bmi real" in said
    assert visit("ana").get("/models/{churn.xgboost}").text.count("<polyline") == 3
    for path in ("/models/{groups.kmeans}", "/models/{parts.pca}", "/models/{flowers.xgboost}"):
        assert visit("ana").get(path).status_code == 200


def test_a_models_page_has_its_learning_curve_and_why_it_was_deployed(visit):
    visitor = visit("ana")
    page = visitor.get("/models/{churn.xgboost}")
    assert "Learning curve" in text_of(page) and "held-out rows" in page.text
    assert "Whether its training deployed it: The project had no deployed model." in text_of(page)
    assert "Learning curve" not in text_of(visitor.get("/models/{progress.ridge}"))
    assert "of deployed model" in text_of(visitor.get("/projects/{tumours}"))


def test_the_curves_are_of_the_held_out_rows(visit, world):
    page = visit("ana").part("/models/{tumours.xgboost}/curves")
    rows = world.database.sql(
        f"SELECT count FROM pgml.confusion_matrix({world.ids['tumours.xgboost']}, 'pgml.breast_cancer')"
    )
    assert re.findall(r"<strong>([\d,]+)</strong>", page.text) == rows.split()
    assert page.text.count("data-chart=") == 3 and "held out are used" in page.text
    page = visit("ana").part("/models/{flowers.xgboost}/curves")
    assert page.text.count("data-chart=") == 3
    page = visit("ana").part("/models/{progress.xgboost}/curves")
    assert "Six in ten residuals" in text_of(page)


def test_what_another_role_wrote_waits_for_a_click(visit, world):
    """A superuser, say, who looks at a model must not run the query that it was trained on."""
    world.database.sql(
        """
        SET SESSION AUTHORIZATION ana;
        CREATE FUNCTION trap() RETURNS double precision LANGUAGE plpgsql AS
            $$ BEGIN RAISE NOTICE 'caught %', current_user; RETURN random(); END $$;
        SELECT pgml.train('trap', 'regression', '(SELECT age, trap() AS y FROM customers)', 'y', 'linear');
        SELECT pgml.train('trap', algorithm => 'ridge');
        SELECT pgml.grant('trap', 'ben', 'all');
        GRANT SELECT ON customers TO ben;
        """
    )
    world.ids["trap"] = world.database.sql("SELECT id FROM pgml.projects WHERE name = 'trap'")
    model = world.database.sql("SELECT max(m.id) FROM pgml.trained_models m WHERE name = 'trap'")
    ben = visit("ben")
    for path in (f"/models/{model}", "/projects/{trap}"):
        page = ben.get(path)
        assert "ana wrote and which would run with your rights" in text_of(page).replace("  ", " ")
        assert 'hx-trigger="load"' not in page.text
    assert 'hx-trigger="load"' in visit("ana").get(f"/models/{model}").text
    # No link leads to what the click asks for.
    assert ben.get(f"/models/{model}/curves").status_code == 404
    assert ben.get("/projects/{trap}/compare").status_code == 404
    assert ben.part(f"/models/{model}/curves").status_code == 200


def test_the_sql_that_a_page_shows_can_be_run(visit, world):
    visitor = visit("ana")
    values = {"c_age": "40", "c_city": "O'Hara \\ <x>", "c_spend in CHF": "", "c_joined": "2024-05-01"}
    pages = [visitor.get(path) for path in VIEWS.values() if path not in ("/login", "/sql")]
    pages += [
        visitor.part("/projects/{tumours}/compare"),
        visitor.part("/models/{tumours.xgboost}/curves"),
        visitor.part("/models/{progress.ridge}/curves"),
        visitor.post("/models/{churn.xgboost}/try", values),
    ]
    ran = 0
    for page in pages:
        for text in re.findall(r'<details class="sql">.*?</details>', page.text, re.DOTALL):
            for statement in re.findall(r"<code>(.*?)</code>", text, re.DOTALL):
                world.database.sql("SET SESSION AUTHORIZATION ana; " + html.unescape(statement))
                ran += 1
    assert ran > 30


# Train


def test_a_tables_columns_are_described(visit):
    said = text_of(visit("ana").get("/train/table?relation=customers"))
    assert "From a sample of 4,000 rows of about 4,000" in said
    # Three of the four cities, which are equally frequent.
    assert "11.1 %" in said and ("Zug" in said or "Bern" in said)
    assert visit("ana").get("/train/table?relation=nothing").status_code == 404
    assert visit("ana").get("/train/table?relation=pg_class;drop").status_code in (400, 404)
    said = text_of(visit("ana").part("/train/hyperparameters?task=clustering&algorithm=xgboost"))
    assert "n_clusters" in said


def test_names_that_are_words_of_sql_are_quoted(visit, world):
    world.database.sql(
        """
        SET SESSION AUTHORIZATION ana;
        CREATE TABLE "order" ("user" bigint PRIMARY KEY, "table" bigint, "char" "char", "end" double precision);
        INSERT INTO "order" SELECT g, g % 7, 'a', g % 7 FROM generate_series(1, 200) AS g;
        SELECT pgml.train('words', 'regression', '"order"', 'end', 'linear');
        """
    )
    model = world.database.sql("SELECT max(id) FROM pgml.models")
    visitor = visit("ana")
    assert "From a sample of 200 rows" in text_of(visitor.get('/train/table?relation="order"'))
    page = visitor.post(f"/models/{model}/try", {"load": "1", "key": "17"})
    assert 'name="c_table" value="3"' in page.text and "Prediction" in text_of(page), text_of(page)


def wait_for(visitor, path):
    """The page of a training that has ended."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        page = visitor.part(path)
        if "hx-trigger" not in page.text:
            return page
        time.sleep(0.2)
    raise AssertionError("the training did not end")


FORM = {
    "relation": "customers",
    "project": "console's own",
    "task": "classification",
    "label": "churned",
    "algorithm": "xgboost",
    "test_size": "0.2",
    "deploy": "on",
}


def test_a_training_from_the_browser_ends_in_a_model(visit, world):
    visitor = visit("ana", acting=True)
    started = visitor.post("/train", {**FORM, "hp_n_estimators": "12", "hp_max_depth": "2", "out_joined": "on"})
    assert started.status_code == 303, text_of(started)
    page = wait_for(visitor, started.headers["location"])
    assert "is trained and deployed" in text_of(page)
    model = re.search(r"/models/(\d+)", page.text)[1]
    hyperparameters, features = world.database.sql(
        f"SELECT hyperparams, num_features FROM pgml.models WHERE id = {model}"
    ).split("|")
    assert '"n_estimators": 12' in hyperparameters and '"max_depth": 2' in hyperparameters
    assert features == "3", "the key and the column that was left out are no features"
    assert f"model #{model}" in text_of(visitor.get("/jobs"))
    held_out = world.database.sql(
        f"SELECT round((metrics->>'rows')::numeric / 40, 1) FROM pgml.models WHERE id = {model}"
    )
    assert f"({held_out} %; asked for: 20.0 %, stratified)" in text_of(visitor.get(f"/models/{model}"))


def test_a_training_that_deploys_nothing_says_why(visit, world):
    visitor = visit("ana", acting=True)
    said = []
    for more in ({}, {"hp_n_estimators": "1", "hp_max_depth": "1", "hp_learning_rate": "0.01"}, {"deploy": None}):
        fields = {key: value for key, value in {**FORM, "project": "stays", **more}.items() if value is not None}
        page = wait_for(visitor, visitor.post("/train", fields).headers["location"])
        said.append((re.search(r"/models/(\d+)", page.text)[1], text_of(page)))
    assert "is trained and deployed." in said[0][1]
    assert "It is not deployed:" in said[1][1] and f"model {said[0][0]} stays deployed" in said[1][1], said[1]
    assert "It is not deployed, as you asked." in said[2][1]
    project = world.database.sql("SELECT id FROM pgml.projects WHERE name = 'stays'")
    page = visitor.get(f"/projects/{project}")
    history = page.text.partition("What was deployed when, and why")[2]
    assert re.findall(r"/models/(\d+)", history) == [said[1][0], said[0][0]]
    train = html.unescape(re.search(r'href="(/train/table[^"]+)">Train another', page.text)[1])
    assert 'name="project" value="stays"' in visitor.get(train).text


def test_what_is_chosen_as_label_is_no_feature_without_one(visit, world):
    visitor = visit("ana", acting=True)
    form = {**FORM, "project": "kinds", "task": "clustering", "algorithm": "kmeans", "hp_n_clusters": "2"}
    page = wait_for(visitor, visitor.post("/train", {**form, "out_joined": "on"}).headers["location"])
    model = re.search(r"/models/(\d+)", page.text)[1]
    columns = world.database.sql(
        f"SELECT c->>'name' FROM pgml.models AS m JOIN pgml.snapshots AS s ON s.id = m.snapshot_id, "
        f"jsonb_array_elements(s.columns) AS c WHERE m.id = {model} ORDER BY 1"
    )
    assert columns.split() == ["age", "city", "spend", "in", "CHF"]


def test_a_training_that_cannot_be_says_why(visit):
    visitor = visit("ana", acting=True)
    answer = visitor.post("/train", {**FORM, "label": ""})
    assert answer.status_code == 400 and "Choose the label" in text_of(answer)
    answer = visitor.post("/train", {**FORM, "test_size": "a quarter"})
    assert "not 'a quarter'" in text_of(answer)
    started = visitor.post("/train", {**FORM, "algorithm": "xgboost", "hp_max_depth": "-1"})
    said = text_of(wait_for(visitor, started.headers["location"]) if started.status_code == 303 else started)
    assert "max_depth" in said and "22023" in said


def test_a_training_is_followed_and_cancelled(visit):
    visitor = visit("ana", acting=True)
    started = visitor.post("/train", {**FORM, "hp_n_estimators": "1000000"})
    path = started.headers["location"]
    deadline = time.monotonic() + 60
    while "of 1,000,000 rounds" not in (page := visitor.part(path)).text:
        assert time.monotonic() < deadline, text_of(page)
        time.sleep(0.1)
    assert "1 training" in text_of(visitor.get("/"))
    assert visit("eve", acting=True).post(f"{path}/cancel").status_code in (200, 404)
    assert visitor.post(f"{path}/cancel").status_code == 303
    assert "cancelled" in text_of(wait_for(visitor, path))


def test_a_search_is_asked_for_by_several_values(visit, world):
    visitor = visit("ana", acting=True)
    search = {**FORM, "search": "grid", "cv": "2", "hp_max_depth": "1, 3", "hp_n_estimators": "9"}
    page = wait_for(visitor, visitor.post("/train", search).headers["location"])
    model = re.search(r"/models/(\d+)", page.text)[1]
    row = world.database.sql(
        f"SELECT search, search_params, search_args, hyperparams FROM pgml.models WHERE id = {model}"
    )
    kind, tried, arguments, chosen = row.split("|")
    assert (kind, tried, arguments) == ("grid", '{"max_depth": [1, 3]}', '{"cv": 2}') and '"n_estimators": 9' in chosen
    answer = visitor.post("/train", {**search, "hp_max_depth": "[1, 3]"})
    assert answer.status_code == 400 and "something to try" in text_of(answer)
    started = visitor.post("/train", {**search, "cv": "many"})
    said = text_of(wait_for(visitor, started.headers["location"]) if started.status_code == 303 else started)
    assert 'search_args "cv" cannot be "many"' in said


# Try


def test_a_row_by_form_is_predicted_and_explained(visit, world):
    values = {"c_age": "70", "c_city": "Bern", "c_spend in CHF": "12.5", "c_joined": "2024-05-01"}
    page = visit("ana").post("/models/{churn.xgboost}/try", values)
    said = text_of(page)
    wanted = world.database.sql(
        f"SELECT pgml.predict_label({world.ids['churn.xgboost']}, r) FROM (SELECT 70 AS age, 'Bern' AS city, "
        "12.5 AS \"spend in CHF\", date '2024-05-01' AS joined) AS r"
    )
    assert f"Prediction {wanted} " in said
    assert "SHAP" in said and "age = 70" in said and "margin" in said
    page = visit("ana").post("/models/{churn.xgboost}/try", {**values, "c_age": "old"})
    assert "22P02" in page.text and "age: invalid input" in text_of(page)
    assert "log odds" in said


def test_what_contributions_add_up_to_is_said(visit, world):
    world.database.sql(
        "SET SESSION AUTHORIZATION ana; "
        "SELECT pgml.train('flowers', algorithm => 'random_forest', automatic_deploy => false)"
    )
    forest = world.database.sql("SELECT max(id) FROM pgml.models")
    visitor = visit("ana")
    for path, part in [
        (f"/models/{forest}/try", "the probability of the class"),
        ("/models/{flowers.xgboost}/try", "log of the probability, up to a constant"),
        ("/models/{progress.xgboost}/try", "moves the prediction"),
    ]:
        fields = dict(re.findall(r'name="(c_[^"]+)" value="([^"]*)"', visitor.get(path).text))
        assert part in text_of(visitor.post(path, fields))


def test_a_row_by_key_fills_the_form(visit, world):
    age = world.database.sql("SELECT age FROM customers WHERE id = 17")
    page = visit("ana").post("/models/{churn.xgboost}/try", {"load": "1", "key": "17"})
    assert f'name="c_age" value="{age}"' in page.text and "Prediction" in text_of(page)
    assert "No row of" in text_of(visit("ana").post("/models/{churn.xgboost}/try", {"load": "1", "key": "0"}))
    assert "22P02" in visit("ana").post("/models/{churn.xgboost}/try", {"load": "1", "key": "x"}).text
    assert "Give the id" in text_of(visit("ana").post("/models/{churn.xgboost}/try", {"load": "1", "key": " "}))


def test_every_kind_of_model_can_be_tried(visit):
    visitor = visit("ana")
    for path, part in [
        ("/models/{progress.xgboost}/try", "Nine rows in ten"),
        ("/models/{progress.ridge}/try", "Nine rows in ten"),
        ("/models/{groups.kmeans}/try", "Cluster "),
        ("/models/{parts.pca}/try", "Components"),
        ("/models/{flowers.xgboost}/try", "Why"),
    ]:
        page = visitor.get(path)
        fields = dict(re.findall(r'name="(c_[^"]+)" value="([^"]*)"', page.text))
        answer = text_of(visitor.post(path, fields))
        assert part in answer, answer


# Watch


def test_the_use_of_models_is_counted(visit, world):
    used = world.ids["progress.ridge"]
    world.database.sql(f"SELECT pgml.predict({used}, r) FROM pgml.diabetes AS r")
    visitor = visit("ana")
    said = text_of(visitor.get("/watch"))
    before = int(re.search(rf"progress ridge #{used} \S+ ([\d,]+) ", said)[1].replace(",", ""))
    assert before >= 442
    world.database.sql(f"SELECT pgml.predict({used}, r) FROM pgml.diabetes AS r")
    time.sleep(1.1)
    said = text_of(visitor.part("/watch/usage"))
    rate, calls = re.search(rf"progress ridge #{used} (\S+) ([\d,]+) ", said).groups()
    assert int(calls.replace(",", "")) == before + 442 and 1 < float(rate) < 442
    assert "No model that you may see has predicted" in text_of(visit("eve").get("/watch"))


def test_a_project_is_watched_and_checked(visit, world):
    visitor = visit("ana", acting=True)
    said = text_of(visitor.get("/watch"))
    assert re.search(r"churn \d crossed .*drift age", said)
    said = text_of(visitor.get("/watch/{churn}"))
    assert re.search(r"unseen city 0.500 0.05\d* crossed", said) and "The last 3 checks" in said
    assert "is not watched" in text_of(visit("ana").get("/watch/{progress}"))
    path = world.path("/watch/{progress}")
    form = {"relation": "pgml.diabetes", "time_column": "", "period": "7 days", "thresholds": '{"drift": 0.5}'}
    assert "22P02" in visitor.post(path, {**form, "thresholds": "much"}).text
    assert "42P01" in visitor.post(path, {**form, "relation": "nothing"}).text
    assert visitor.post(path, form).headers["location"] == path
    assert "No check yet" in text_of(visitor.get(path))
    assert visitor.post(f"{path}/check").headers["location"] == path
    assert "One check so far" in text_of(visitor.get(path))
    assert (
        world.database.sql("SELECT thresholds->>'drift' FROM pgml.watches WHERE relation_name = 'pgml.diabetes'")
        == "0.5"
    )
    assert "42501" in visit("eve", acting=True).post(path, form).text
    assert visitor.post(f"{path}/stop").headers["location"] == "/watch"
    assert world.database.sql("SELECT count(*) FROM pgml.watches") == "1"


def test_a_model_is_described_and_has_a_card(visit, world):
    visitor = visit("ana", acting=True)
    path = world.path("/models/{churn.xgboost}")
    form = {"description": "Who leaves <soon>?\r\nAsk Ben.", "tags": "sales, weekly ,"}
    assert visitor.post(f"{path}/describe", form).headers["location"] == path
    said = text_of(visitor.get(path))
    assert "Who leaves <soon>? Ask Ben." in said and "sales weekly" in said
    assert "sales" in text_of(visitor.get("/projects/{churn}"))
    card = visitor.get(f"{path}/card")
    assert card.headers["content-type"] == "text/markdown; charset=utf-8" and "Ask Ben." in card.text
    # What another page has changed meanwhile is kept, or named.
    older = {"shown_description": "", "shown_tags": "sales, weekly"}
    visitor.post(f"{path}/describe", {**older, "description": "", "tags": "twice, twice"})
    stored = f"SELECT description, tags FROM pgml.models WHERE id = {path.rpartition('/')[2]}"
    assert world.database.sql(stored) == "Who leaves <soon>?\nAsk Ben.|{twice}"
    page = visitor.post(f"{path}/describe", {**older, "description": "", "tags": "mine"})
    assert "tags changed meanwhile, to: twice" in text_of(page) and 'name="tags" value="mine"' in page.text
    page = visitor.post(f"{path}/describe", {**form, "tags": "x" * 1000})
    assert page.status_code == 400 and "x" * 1000 in page.text
    assert "42501" in visit("ben", acting=True).post("/models/{tumours.xgboost}/describe", form).text


def test_what_another_role_wrote_is_read_when_asked(visit, world):
    world.database.sql("""
        CREATE SCHEMA IF NOT EXISTS bens; GRANT ALL ON SCHEMA bens TO ben; GRANT USAGE ON SCHEMA bens TO ana;
        CREATE TABLE IF NOT EXISTS bens.met (who text); GRANT ALL ON bens.met TO ana, ben; SET ROLE ben;
        CREATE OR REPLACE FUNCTION bens.f() RETURNS int LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$;
        CREATE OR REPLACE VIEW bens.trap AS SELECT bens.f() AS x, 1 AS y; GRANT SELECT ON bens.trap TO ana;
    """)
    visitor = visit("ana")
    page = visitor.get("/train/table?relation=bens.trap")
    assert "which ben wrote" in text_of(page) and "ran as" not in page.text
    assert "ran as ana" in visitor.post("/train/table", {"relation": "bens.trap"}).text
    assert visitor.http.post("/train/table", data={"relation": "bens.trap"}).status_code == 403


def test_arrays_and_types_of_other_schemas_can_be_tried(visit, world):
    world.database.sql("""
        CREATE SCHEMA IF NOT EXISTS "My Types"; CREATE TYPE "My Types"."A Mood" AS ENUM ('sad', 'ok');
        GRANT USAGE ON SCHEMA "My Types" TO ana;
        CREATE TABLE moods AS SELECT ARRAY[i % 5, i % 3] AS pair, (ARRAY['sad', 'ok'])[i % 2 + 1]::"My Types"."A Mood" AS mood,
            i % 5 + i % 2 AS y FROM generate_series(1, 200) i;
        GRANT SELECT ON moods TO ana; SET ROLE ana;
        SELECT pgml.train('moods', 'regression', 'moods', 'y', 'xgboost', '{"n_estimators": 5}');
    """)
    model = world.database.sql("SELECT max(id) FROM pgml.models")
    visitor = visit("ana")
    answer = visitor.post(f"/models/{model}/try", {"c_pair": "{1,2}", "c_mood": "ok"})
    assert 'class="fault"' not in answer.text and "Prediction" in text_of(answer)


def test_a_column_that_numbers_the_rows_is_left_out_by_default(visit, world):
    world.database.sql("""
        CREATE TABLE numbered AS SELECT i AS "Unnamed: 0", i % 7 AS x, i * 7919 % 500 AS z, i > 250 AS y
        FROM generate_series(0, 499) i; ANALYZE numbered; GRANT SELECT ON numbered TO ana;
    """)
    page = visit("ana").get("/train/table?relation=numbered").text
    left_out = re.findall(r'name="out_([^"]+)"[^>]* checked', page)
    assert left_out == ["Unnamed: 0", "z"] and "numbers the rows" in page


# SQL


def test_sql_is_run_as_oneself(visit):
    visitor = visit("ana")
    said = text_of(visitor.post("/sql/run", {"text": "SELECT current_user AS me, 1.5 AS x, NULL::int AS y;"}))
    assert "ana" in said and "1.5" in said and "1 row" in said
    assert "42703" in visitor.post("/sql/run", {"text": "SELECT nothing"}).text
    assert "42601" in visitor.post("/sql/run", {"text": "SELECT 1; SELECT 2"}).text
    assert "42501" in visit("eve").post("/sql/run", {"text": "SELECT * FROM customers"}).text
    assert "Seq Scan" in visitor.post("/sql/run", {"text": "SELECT * FROM customers", "plan": "1"}).text
    assert "data-chart" in visitor.post("/sql/run", {"text": "SELECT g, g * g AS y FROM generate_series(1, 9) g"}).text
    said = text_of(visitor.post("/sql/run", {"text": "SELECT g, '<b>' FROM generate_series(1, 100000) g"}))
    assert "the first of more" in said and "<b>" in said


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM customers",
        "SET TRANSACTION READ WRITE",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM customers; END $$",
        "WITH x AS (DELETE FROM customers RETURNING *) SELECT * FROM x",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT pgml.deploy(1)",
    ],
)
def test_sql_of_a_read_only_console_cannot_write(visit, world, text):
    answer = visit("ana").post("/sql/run", {"text": text})
    assert 'class="fault"' in answer.text, text_of(answer)
    assert world.database.sql("SELECT count(*) FROM customers") == "4000"


def test_what_ends_a_transaction_does_not_open_the_next(visit, world):
    visitor = visit("ana")
    for text in (
        "COMMIT",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
    ):
        visitor.post("/sql/run", {"text": text})
        assert "25006" in visitor.post("/sql/run", {"text": "DELETE FROM customers"}).text
    assert world.database.sql("SELECT count(*) FROM customers") == "4000"


def test_sql_with_actions_writes_what_the_user_may(visit, world):
    visitor = visit("ana", acting=True)
    assert "CREATE TABLE" in visitor.post("/sql/run", {"text": "CREATE TABLE written (a int)"}).text
    assert "INSERT 0 2" in visitor.post("/sql/run", {"text": "INSERT INTO written VALUES (1), (2)"}).text
    said = text_of(visitor.post("/sql/run", {"text": "DELETE FROM written RETURNING a"}))
    assert "2 rows" in said and world.database.sql("SELECT count(*) FROM written") == "0"
    assert "22012" in visitor.post("/sql/run", {"text": "SELECT 1 / 0"}).text
    visitor.post("/sql/run", {"text": "INSERT INTO written VALUES (3)"})
    plan = visitor.post("/sql/run", {"text": "EXPLAIN ANALYZE DELETE FROM written", "plan": "1"}).text
    assert "Delete on written" in plan and world.database.sql("SELECT count(*) FROM written") == "1"


def test_long_statements_leave_the_pages_alone(world, visit):
    visitor = visit("ana", acting=True)
    slow = [
        threading.Thread(
            target=visitor.post, args=("/sql/run", {"text": "SELECT pg_sleep(60)", "run": f"slow {number}"})
        )
        for number in range(8)
    ]
    for thread in slow:
        thread.start()
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'"
    deadline = time.monotonic() + 30
    while world.database.sql(asleep) != "8":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert visitor.get("/").status_code == 200
    assert "8 statements of yours are running" in text_of(visitor.post("/sql/run", {"text": "SELECT 1"}))
    for number in range(8):
        visitor.post("/sql/cancel", {"run": f"slow {number}"})
    for thread in slow:
        thread.join()
    assert "1 row" in text_of(visitor.post("/sql/run", {"text": "SELECT 1"}))


def test_a_long_statement_ends_by_time_or_by_cancel(world, visit, server):
    with running(f"postgresql://127.0.0.1:{server.port}/console", sql_seconds=0.5) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ana")
            assert "57014" in visitor.post("/sql/run", {"text": "SELECT pg_sleep(60)"}).text
    visitor = visit("ana", acting=True)
    answers = []
    slow = threading.Thread(
        target=lambda: answers.append(visitor.post("/sql/run", {"text": "SELECT pg_sleep(60)", "run": "mine"}))
    )
    slow.start()
    deadline = time.monotonic() + 15
    while slow.is_alive():
        assert time.monotonic() < deadline
        visitor.post("/sql/cancel", {"run": "mine"})
        time.sleep(0.05)
    slow.join()
    assert "Cancelled" in answers[0].text


def test_a_result_can_be_saved_as_csv(visit):
    answer = visit("ana").post(
        "/sql/csv", {"text": 'SELECT g AS "a,b", \'x"\' AS c, NULL AS d FROM generate_series(1, 3000) g'}
    )
    lines = answer.text.splitlines()
    assert answer.headers["content-type"].startswith("text/csv")
    assert lines[:2] == ['"a,b",c,d', '1,"x""",'] and len(lines) == 3001
    assert visit("ana").post("/sql/csv", {"text": "SELECT nothing"}).status_code == 400


VALUES = {
    "'infinity'::timestamp": "infinity",
    "date '0044-03-15 BC'": "0044-03-15 BC",
    "interval '1 mon 1 day 01:02:03'": "1 mon 1 day 01:02:03",
    "0.1::real": "0.1",
    "int4range(1, 5)": "[1,5)",
    "b'101'": "101",
    "row(1, 'a b')": '(1,"a b")',
    "point(1, 2)": "(1,2)",
    "array['a', NULL, 'b,c']": '{a,NULL,"b,c"}',
    "NULL": "NULL",
    "true": "t",
}


def test_values_are_shown_and_saved_as_psql_writes_them(visit):
    visitor = visit("ana")
    for value, shown in VALUES.items():
        found = visitor.post("/sql/run", {"text": f"SELECT {value} AS v"}).text
        assert f">{html.escape(shown, quote=False)}</" in found.replace("&#34;", '"').replace("&#39;", "'"), value
        saved = visitor.post("/sql/csv", {"text": f"SELECT {value} AS v, '' AS empty"}).text
        assert next(csv.reader([saved.splitlines()[1]]))[0] == ("" if value == "NULL" else shown)
        assert saved.splitlines()[1].endswith(',""')


def test_an_error_shows_its_line(visit):
    visitor = visit("ana")
    found = html.unescape(visitor.post("/sql/run", {"text": "SELECT 1,\n  nothing\nFROM pgml.models"}).text)
    assert "LINE 2:   nothing\n          ^" in found
    assert "A cell has one statement" in visitor.post("/sql/run", {"text": "SELECT 1; SELECT 2"}).text


# Poolers


def test_a_pooler_is_shown_as_it_is(world, visit):
    visitor = visit("ana", acting=True)
    with pg8000.dbapi.connect("ana", "127.0.0.1", "console", world.pooler.port, PASSWORD) as busy:
        busy.cursor().execute("BEGIN")
        assert "Asking the pooler" in text_of(visitor.get("/poolers"))
        said = text_of(visitor.part("/poolers/0"))
        assert "howdah-pooler" in said and "console ana 1 of 1" in said and "transaction" in said
        assert "Clients by application" in said and "(no name) console ana 1" in said
        assert "1 client " in text_of(visitor.part("/poolers/0/clients"))
        assert "does not answer" in text_of(visitor.part("/poolers/1"))
        assert "no such page" in visitor.part("/poolers/2").text
        assert visitor.get("/poolers/0").status_code == 404


def test_a_pooler_is_paused_by_its_admins_alone(visit):
    htmx = {"HX-Request": "true"}
    asked = {"command": "pause", "database": "console"}
    assert "admin" in text_of(visit("ben", acting=True).post("/poolers/0", asked, **htmx))
    assert 'class="fault"' in visit("eve", acting=True).part("/poolers/0").text
    ana = visit("ana", acting=True)
    for verb in ("pause", "resume", "reconnect", "reload"):
        answer = ana.post("/poolers/0", {"command": verb, "database": "console"}, **htmx)
        assert "done." in text_of(answer), text_of(answer)
        assert ("paused" in answer.text) == (verb == "pause")
    assert "no such page" in ana.post("/poolers/0", {"command": "shutdown"}, **htmx).text
    assert ana.post("/poolers/0", {"command": "pause"}, token=False).status_code == 403


def test_without_poolers_the_page_says_how(visit):
    assert "--pooler" in visit("ana").get("/poolers").text


# In a browser

CHROMIUM = shutil.which("chromium")
SCREENS = {"desktop": ({"width": 1200, "height": 760}, "light"), "phone": ({"width": 390, "height": 780}, "dark")}
# What the guide shows.
IN_GUIDE = {
    "model-desktop",
    "table-desktop",
    "try-desktop",
    "watched-desktop",
    "upload-desktop",
    "trainings-desktop",
    "sql-desktop",
    "project-phone",
}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium here: `apt-get install chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def act(page, view):
    """What makes a view show something."""
    if view == "table":
        page.check("input[name=label][value=churned]")
    elif view == "try":
        page.fill("[name=key]", "19")
        page.click("button[name=load]")
        page.wait_for_selector(".figure")
    elif view == "sql":
        text = "SELECT age, avg(churned::int)::float8 AS churned FROM customers GROUP BY age ORDER BY age"
        page.fill(".cell textarea", text)
        page.keyboard.press("Control+Enter")
        page.click(".result summary >> text=Plot")
        page.wait_for_selector(".result .u-over")
    elif view == "upload":
        page.set_input_files("#file", {"name": "Penguins (2024).csv", "mimeType": "text/csv", "buffer": PENGUINS})
        page.wait_for_selector("#plan table")
    elif view in ("model", "search", "regression", "watched"):
        page.wait_for_selector(".u-over")
    elif view == "poolers":
        page.wait_for_selector("#pooler-0 table")
        page.wait_for_selector("#shapes-0 h3")
        page.wait_for_selector("#pooler-1 .fault")
    elif view == "project":
        page.wait_for_selector("#compare table")


@pytest.mark.parametrize("screen", SCREENS)
def test_every_view_in_a_browser(browser, world, screen):
    """Nothing is wider than the screen, axe finds nothing, and no script, style or request is refused."""
    from axe_playwright_python.sync_playwright import Axe

    size, scheme = SCREENS[screen]
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(30_000)
    complaints, faults = [], []
    page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    shots = BUILD / "console"
    shots.mkdir(exist_ok=True)
    # The pooler has something to show.
    world.pooler.psql("SELECT count(*) FROM customers", "console", user="ana", password=PASSWORD)
    for view, path in VIEWS.items():
        page.goto(world.acting + world.path(path))
        act(page, view)
        page.wait_for_timeout(200)
        page.screenshot(path=shots / f"{view}-{screen}.png", full_page=True)
        faults += [f"{view}: {one}" for one in complaints]
        complaints.clear()
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{view}: wider than the screen")
        for found in Axe().run(page).response["violations"]:
            faults.append(f"{view}: {found['id']}: {found['nodes'][0]['target']}")
        if os.environ.get("HOWDAH_PICTURES") and f"{view}-{screen}" in IN_GUIDE:
            folder = ROOT / "docs" / "guide" / "console"
            if view == "model":
                page.evaluate(
                    "document.querySelector('.figures').parentElement.previousElementSibling.scrollIntoView()"
                )
            page.screenshot(path=folder / f"{view}.png")
        if view == "login":
            page.fill("[name=user]", "ana")
            page.fill("[name=password]", PASSWORD)
            page.keyboard.press("Enter")
            page.wait_for_url(world.acting + "/")
    context.close()
    assert not faults, "\n".join(faults)


def test_a_newcomer_trains_in_the_browser_and_sees_the_curve(browser, world):
    """From the first page to a ROC curve, by clicks alone."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(world.acting)
    page.fill("[name=user]", "ana")
    page.fill("[name=password]", PASSWORD)
    page.click("text=Log in >> nth=-1")
    page.click("nav >> text=Train >> nth=0")
    page.click("text=customers")
    page.check("input[name=label][value=churned]")
    page.fill("[name=project]", "by clicks")
    page.fill("[name=hp_n_estimators]", "15")
    page.click("text=Train in the background")
    page.click("text=See how good it is")
    page.wait_for_selector("text=ROC curve")
    page.wait_for_selector(".u-over")
    page.close()


@pytest.fixture
def tab(browser, world):
    """A tab of the browser in which ana is logged in: `tab(path)`, with actions or without."""
    contexts = []

    def open_tab(path, acting=False):
        address = world.acting if acting else world.reading
        context = browser.new_context()
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.goto(address)
        page.fill("[name=user]", "ana")
        page.fill("[name=password]", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url(address + "/")
        page.goto(address + world.path(path))
        return page

    yield open_tab
    for context in contexts:
        context.close()


def test_a_file_of_statements_is_opened_as_cells_which_a_reload_keeps(tab):
    page = tab("/sql")
    file = "SELECT ';' AS a; -- one; of three\nSELECT $q$;$q$, E'\\';' ;\n/* ; */ SELECT 3 AS third;\n"
    page.set_input_files("#open", {"name": "some.sql", "mimeType": "text/plain", "buffer": file.encode()})
    assert page.locator("#cells textarea").count() == 3
    page.reload()
    assert page.locator("#cells textarea").nth(2).input_value() == "/* ; */ SELECT 3 AS third"
    page.locator("#cells textarea").nth(1).fill("SELECT 1 / 0")
    page.locator("#cells .cell").nth(1).get_by_text("Save as CSV").click()
    page.locator("#cells .cell").nth(1).locator(".fault").get_by_text("division by zero").wait_for()
    with page.expect_download() as saved:
        page.locator("#cells .cell").nth(2).get_by_text("Save as CSV").click()
    assert Path(saved.value.path()).read_text() == "third\n3\n"


def test_a_notebook_is_kept_in_the_browser_and_saved_as_a_file(tab, tmp_path):
    page = tab("/sql")
    page.on("dialog", lambda dialog: dialog.accept("my first" if dialog.type == "prompt" else ""))
    page.fill(".cell textarea", "SELECT 1 AS one")
    page.click("#add")
    page.fill(".cell textarea >> nth=1", "SELECT 'two' AS two;")
    page.click(".run >> nth=1")
    page.wait_for_selector(".result >> nth=1 >> text=two")
    page.click(".run >> nth=0")
    page.wait_for_selector(".result >> nth=0 >> text=one")
    page.click("[data-notebook=save]")
    with page.expect_download() as download:
        page.click("[data-notebook=download]")
    assert download.value.suggested_filename == "my first.sql"
    download.value.save_as(tmp_path / "saved.sql")
    assert (tmp_path / "saved.sql").read_text() == "SELECT 1 AS one;\n\n-- %%\nSELECT 'two' AS two;\n"
    page.click(".remove >> nth=0")
    page.reload()
    page.select_option("#notebook", "my first")
    page.wait_for_function("document.querySelector('.cell textarea').value.includes('two')")
    assert page.locator("#cells .cell").count() == 1
    page.click("[data-notebook=delete]")
    page.set_input_files("#open", tmp_path / "saved.sql")
    page.wait_for_selector("#cells .cell >> nth=1")
    assert page.locator("#notebook option").count() == 1


def test_a_slider_changes_the_prediction(tab):
    page = tab("/models/{churn.xgboost}/try")
    for keys, wanted, age in (("End", "true", "77"), ("Home", "false", "18")):
        page.focus("[data-slides=c_age]")
        page.keyboard.press(keys)
        page.wait_for_selector(f".figure:text-is('{wanted}')")
        assert page.input_value("[name=c_age]") == age


def test_a_changed_value_changes_the_prediction(tab):
    page = tab("/models/{churn.xgboost}/try")
    for age, wanted in (("76", "true"), ("19", "false")):
        page.fill("[name=c_age]", age)
        page.keyboard.press("Tab")
        page.wait_for_selector(f".figure:text-is('{wanted}')")


def test_the_assets_name_their_versions_and_licences():
    static = Path(ROOT / "console" / "howdah_console" / "static")
    for name in ("htmx", "uplot"):
        assert list(static.glob(f"{name}-*.min.js")) and (static / f"LICENSE-{name}").exists()


def test_a_server_that_hangs_does_not_hang_the_page(world, server):
    with running(f"postgresql://127.0.0.1:{server.port}/console", page_seconds=0.5) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ben")
            pids = [int(pid) for pid in server.psql("SELECT pid FROM pg_stat_activity WHERE usename = 'ben'").split()]
            assert pids
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                began = time.monotonic()
                answer = visitor.get("/")
                assert answer.status_code == 503 and "did not answer in time" in text_of(answer)
                assert time.monotonic() - began < 20
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            assert visitor.get("/").status_code == 200


def test_a_locked_table_is_said_in_words(world, server, visit):
    visitor = visit("ana")
    lock = threading.Thread(
        target=lambda: world.database.sql(
            "BEGIN; LOCK TABLE pgml.projects IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4)"
        )
    )
    lock.start()
    held = "SELECT count(*) FROM pg_locks WHERE relation = 'pgml.projects'::regclass AND mode = 'AccessExclusiveLock'"
    deadline = time.monotonic() + 30
    while world.database.sql(held) == "0":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    answer = visitor.get("/")
    assert "lock timeout" in text_of(answer)
    lock.join()


def test_the_wheel_has_all_that_the_console_needs(tmp_path):
    with zipfile.ZipFile(console_wheel(tmp_path)) as wheel:
        names = set(wheel.namelist())
        metadata = next(wheel.read(name).decode() for name in names if name.endswith("/METADATA"))
    package = ROOT / "console" / "howdah_console"
    for part in ("*.py", "views/*.py", "templates/*", "static/*"):
        assert {f"howdah_console/{path.relative_to(package)}" for path in package.glob(part)} <= names
    for depended in ("howdah==", "jinja2>=", "starlette>=", "uvicorn>="):
        assert f"Requires-Dist: {depended}" in metadata


def test_a_large_table_is_read_when_asked(world, server):
    with running(f"postgresql://127.0.0.1:{server.port}/console", rows_unasked=100) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ana")
            for path in ("/models/{tumours.xgboost}", "/projects/{tumours}"):
                page = visitor.get(path)
                assert "The training had 569 rows" in text_of(page) and 'hx-trigger="load"' not in page.text
