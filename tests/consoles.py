"""What the tests of the console share: a database with models, visitors, tabs of a browser."""

import contextlib
import html
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path

import httpx
import pytest
import uvicorn

from devkit.server import free_port
from howdah_console.app import Settings, make_app
from tests import transformers
from tests.conftest import fresh
from tests.pooler.process import Pooler

PASSWORD = "four words as one"

PENGUINS = b"""species;Body mass (g);flipper;2007;sex;seen on;seen on
Adelie;3750;181.5;007;NA;2007-11-11;2007-11-11 10:30
Gentoo;4500;NA;012;female;2007-11-12;2007-11-12 11:00:01+02
"Chin;strap";3800;190;011;male;2007-11-13;2007-11-13 09:00Z
"""

CUSTOMERS = """
SET SESSION AUTHORIZATION ana;
SELECT setseed(0.5);
CREATE TABLE customers (id bigint PRIMARY KEY, age integer, city text, "spend in CHF" numeric, joined date, churned boolean);
INSERT INTO customers SELECT g, 18 + (g * 7919) % 60, (ARRAY['Basel', 'Bern', 'Genf', 'Zug'])[1 + (g * 31) % 4],
       CASE WHEN g % 9 > 0 THEN round((random() * 100)::numeric, 2) END, date '2024-01-01' + (g % 700),
       g * 7919 % 60 + random() * 30 > 45
FROM generate_series(1, 4000) AS g;
ANALYZE customers;
"""
SETUP = """
SET SESSION AUTHORIZATION ana;
SELECT pgml.load_dataset('breast_cancer'), pgml.load_dataset('diabetes'), pgml.load_dataset('iris');
SELECT pgml.train('tumours', 'classification', 'pgml.breast_cancer', 'malignant', 'linear');
SELECT pgml.train('tumours', algorithm => 'xgboost', hyperparams => '{"n_estimators": 20}');
SELECT pgml.train('progress', 'regression', 'pgml.diabetes', 'target', 'xgboost', '{"n_estimators": 20}');
SELECT pgml.train('progress', algorithm => 'ridge');
SELECT pgml.train('named', 'classification', 'pgml.iris', 'target', 'extra_trees',
                  '{"criterion": "entropy", "n_estimators": 5}');
SELECT pgml.train('flowers', 'classification', 'pgml.iris', 'target', 'xgboost');
SELECT pgml.train('groups', 'clustering', '(SELECT bmi, bp, s5 FROM pgml.diabetes)', algorithm => 'kmeans',
                  hyperparams => '{"n_clusters": 3}');
SELECT pgml.train('odd', 'anomaly', '(SELECT bmi, bp, s5 FROM pgml.diabetes)', algorithm => 'isolation_forest');
SELECT pgml.load_dataset('air_passengers');
SELECT pgml.train('flights', 'forecast', 'pgml.air_passengers', 'passengers', time_column => 'month');
SELECT pgml.train('petals', 'regression', 'pgml.iris', 'petal_width', group_by => 'target');
SELECT pgml.train('choice', 'regression', 'pgml.diabetes', 'target', 'auto', '{"algorithms": ["ridge"]}', time_budget => '1 s');
SELECT pgml.train('parts', 'decomposition', '(SELECT bmi, bp, s5 FROM pgml.diabetes)', algorithm => 'pca',
                  hyperparams => '{"n_components": 2}');
SELECT pgml.train('churn', 'classification', 'customers', 'churned', 'xgboost', '{"n_estimators": 30, "max_depth": 3}',
                  search => 'grid', search_params => '{"learning_rate": [0.05, 0.1, 0.3]}', search_args => '{"cv": 2}');
CREATE TABLE arrivals AS SELECT * FROM customers WHERE id % 4 = 0;
SELECT pgml.watch('churn', 'arrivals');
SELECT count(*) FROM pgml.check('churn');
UPDATE arrivals SET age = age + 9;
SELECT count(*) FROM pgml.check('churn');
UPDATE arrivals SET city = 'Chur' WHERE id % 8 = 0;
SELECT count(*) FROM pgml.check('churn');
SELECT pgml.grant('tumours', 'ben', 'see');
"""

VIEWS = {
    "login": "/login",
    "models": "/",
    "project": "/projects/{tumours}",
    "model": "/models/{tumours.xgboost}",
    "search": "/models/{churn.xgboost}",
    "regression": "/models/{progress.ridge}",
    "named": "/models/{named.extra_trees}",
    "clustering": "/models/{groups.kmeans}",
    "decomposition": "/models/{parts.pca}",
    "anomaly": "/models/{odd.isolation_forest}",
    "forecast": "/models/{flights.ets}",
    "forecasts": "/projects/{flights}",
    "groups": "/models/{petals.linear}",
    "grouped": "/models/{petals.linear}/try",
    "choice": "/models/{choice.ridge}",
    "transformer": "/models/{texts.transformers}",
    "texts": "/projects/{texts}",
    "outlier": "/models/{odd.isolation_forest}/try",
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


@contextlib.contextmanager
def one_world(server, setup):
    """A world over a database that this SQL has filled."""
    with fresh(server, "console") as database:
        users = "".join(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}';" for name in ("ana", "ben", "eve"))
        server.psql(users)
        try:
            rights = "GRANT CREATE ON SCHEMA public, pgml TO ana; GRANT INSERT ON pgml.projects TO ana;"
            database.sql(rights)
            database.sql(setup)
            with tempfile.TemporaryDirectory(dir="/tmp") as folder:
                Path(folder).chmod(0o755)
                path = transformers.write(Path(folder) / "tiny")
                database.sql(f"""GRANT pg_read_server_files TO ana; SET SESSION AUTHORIZATION ana;
                    SELECT pgml.load_transformer('texts', '{path}')""")
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


@pytest.fixture(scope="module")
def world(server):
    with one_world(server, CUSTOMERS + SETUP) as made:
        yield made


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


CHROMIUM = shutil.which("chromium")

SCREENS = {"desktop": ({"width": 1200, "height": 760}, "light"), "phone": ({"width": 390, "height": 780}, "dark")}


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no Chromium here: `apt-get install chromium`")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


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
