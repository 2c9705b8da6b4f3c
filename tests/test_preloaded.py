"""A server that preloads the library, which nothing needs: everything works as without, and connections begin sooner."""

import os
import signal

from devkit import postgres
from devkit.server import Server
from tests.conftest import Database
from tests.test_background import ask, comes_back, ended
from tests.test_names import ASK, make_models


def test_predictions_trainings_and_settings_are_as_without(major):
    settings = {"shared_preload_libraries": "pgml", "pgml.background_trainings": "2", "restart_after_crash": "on"}
    with Server(postgres.tree(major), settings) as server:
        server.psql("CREATE DATABASE app")
        app = Database(server, "app")
        app.sql("CREATE EXTENSION pgml")
        up, _ = make_models(app.sql)
        answer = app.sql(ASK)
        with app.connect() as own:
            cursor = own.cursor()
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]
            with open(f"/proc/{pid}/maps") as maps:
                assert any("/pgml.so" in line for line in maps)
            cursor.execute("SHOW pgml.background_trainings")
            assert cursor.fetchone()[0] == "2"
            assert ended(app, app.sql(ask())) == "done"
            os.kill(pid, signal.SIGKILL)
            comes_back(server)
        app.sql(f"SELECT pgml.deploy({up})")
        assert app.sql(ASK) == answer
        calls = f"SELECT calls FROM pgml.stat_models WHERE model_id = {up}"
        assert app.sql(calls) == "1"
