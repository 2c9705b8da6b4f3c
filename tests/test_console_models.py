"""The console over real models: what its pages show and to whom, trainings, predictions, and how it all looks."""

import html
import os
import re
import time

import pytest

from devkit.places import BUILD, ROOT
from tests.conftest import fresh
from tests.consoles import PASSWORD, PENGUINS, SCREENS, VIEWS, Visitor, browser, running, tab, text_of, visit, world

__all__ = ["browser", "tab", "visit", "world"]


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


def test_a_projects_models_are_sorted_and_filtered(visit, world):
    visitor = visit("ana")

    def models(query=""):
        page = visitor.get("/projects/{tumours}" + query)
        assert page.status_code == 200
        listed = page.text.partition("</tbody>")[0]
        return [int(model) for model in re.findall(r'<th scope="row"><a href="/models/(\d+)"', listed)], page

    linear, xgboost = int(world.ids["tumours.linear"]), int(world.ids["tumours.xgboost"])
    assert models()[0] == [xgboost, linear]
    for name in ("f1", "log_loss", "fit_time"):
        for way, order in (("up", "ASC"), ("down", "DESC")):
            wanted = world.database.sql(
                f"SELECT id FROM pgml.trained_models JOIN pgml.models USING (id) WHERE name = 'tumours' "
                f"ORDER BY (metrics->>'{name}')::float8 {order}"
            )
            assert models(f"?sort={name}&way={way}")[0] == [int(model) for model in wanted.split()]
    found, page = models("?algorithm=linear&sort=algorithm")
    assert found == [linear]
    # The deployed model, the history and the comparison are the project's, whatever is listed.
    history = page.text.partition("What was deployed when, and why")[2]
    assert f"/models/{xgboost}" in history and "On the same rows" in page.text
    link = html.unescape(re.search(r'href="([^"]+)">Log loss', page.text)[1])
    assert link == world.path("/projects/{tumours}") + "?algorithm=linear&sort=log_loss&way=up#models"
    assert models("?algorithm='%3B--&sort=x&way=x")[0] == []


def test_a_database_without_the_extension_says_what_to_do(world, server):
    server.psql("CREATE DATABASE bare_console")
    try:
        with running(f"postgresql://127.0.0.1:{server.port}/bare_console") as (address, _):
            visitor = Visitor(world, address)
            with visitor.http:
                visitor.login("ana")
                assert "CREATE EXTENSION pgml" in visitor.get("/").text
                for path in ("/train", "/sql"):
                    assert visitor.get(path).status_code == 200
                for path in ("/jobs", "/watch"):
                    assert "CREATE EXTENSION pgml" in visitor.get(path).text
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


def test_models_without_a_common_row_are_not_compared(visit, world):
    world.database.sql(
        """
        SET SESSION AUTHORIZATION ana;
        SELECT pgml.train('apart', 'classification', 'pgml.iris', 'target', 'ridge', test_size => 0.1,
                          preprocess => jsonb_build_object(c, '{"role": "ignore"}'::jsonb))
        FROM unnest(ARRAY['sepal_length', 'sepal_width', 'petal_length', 'petal_width']) AS c;
        """
    )
    project = world.database.sql("SELECT id FROM pgml.projects WHERE name = 'apart'")
    said = text_of(visit("ana").part(f"/projects/{project}/compare"))
    # A model of another label is named, and not the best one.
    world.database.sql(
        """
        SET SESSION AUTHORIZATION ana; CREATE TABLE two AS SELECT g % 10 AS x, g % 10 > 4 AS y, g % 2 AS z
        FROM generate_series(1, 900) AS g;
        SELECT pgml.train('two', 'classification', 'two', 'z', 'xgboost', '{"n_estimators": 9}');
        SELECT pgml.train('two', 'classification', 'two', 'y', 'xgboost', '{"n_estimators": 9}');
        """
    )
    two = world.database.sql("SELECT id FROM pgml.projects WHERE name = 'two'")
    assert "→ z" in visit("ana").get(f"/projects/{two}").text
    assert "different labels" in text_of(visit("ana").part(f"/projects/{two}/compare"))
    assert "No row was held out by all" in said and "pgml.compare('apart', 'a_table')" in said


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
    acting = visit("ana", acting=True)
    assert "and no other was: predictions by the project then fail" in text_of(acting.get("/models/{flowers.xgboost}"))
    assert "the model of the deployment before" in text_of(acting.get("/models/{tumours.xgboost}"))
    assert "ROC AUC are means over the classes" in text_of(acting.get("/models/{flowers.xgboost}"))
    page = visit("ana").get("/models/{progress.ridge}")
    # The intercept is the last one, and without a bar.
    assert re.search(r'width="100.00%"', page.text.partition("Coefficients")[2])
    assert not re.search(r"<svg", page.text.partition("(intercept)")[2].partition("</tr>")[0])
    said = text_of(page)
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
    world.database.sql(
        "SET SESSION AUTHORIZATION ana; SELECT pgml.train('apart', 'classification', 'pgml.iris', 'target', 'perceptron')"
    )
    latest = world.database.sql("SELECT max(id) FROM pgml.models")
    page = visit("ana").part(f"/models/{latest}/curves")
    assert "This algorithm gives no probabilities." in page.text and 'class="fault"' not in page.text
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
    assert "2024-01-01 to 2025-11-30" in said
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


def test_what_a_training_warns_of_is_said(visit, world):
    world.database.sql(
        """
        CREATE TABLE noise AS SELECT i AS id, random() AS x, CASE WHEN i % 9 > 0 THEN random() END AS z, i % 20 = 0 AS y
        FROM generate_series(1, 600) i;
        ALTER TABLE noise ADD PRIMARY KEY (id); ANALYZE noise; GRANT SELECT ON noise TO ana;
        """
    )
    visitor = visit("ana", acting=True)
    form = {**FORM, "relation": "noise", "project": "noise", "label": "y", "algorithm": "ridge"}
    for deploy in ("on", None):
        fields = {name: value for name, value in {**form, "deploy": deploy}.items() if value}
        page = wait_for(visitor, visitor.post("/train", fields).headers["location"])
        model = re.search(r"/models/\d+", page.text)[0]
        for said in (text_of(page), text_of(visitor.get(model))):
            assert 'Columns left out: "id" (a key); missing values imputed: "z" (median).' in said, said
            assert re.search(r'On the \d+ rows held out it never predicts "true" \(\d+ of the \d+ rows\)', said), said
    assert "The training says" not in text_of(visitor.get("/models/{flowers.xgboost}"))


def fields_of(page):
    """What the form of a training is filled with."""
    found = dict(re.findall(r'<input (?:type="hidden" )?name="(\w+)" value="([^"]+)"', page.text))
    found |= {f"out_{name}": "on" for name in re.findall(r'name="out_([^"]+)"[^>]* checked', page.text)}
    chosen = re.findall(r'<select name="(\w+)".*?</select>', page.text, re.DOTALL)
    found |= dict(zip(chosen, re.findall(r"<option[^>]* selected>([^<]+)<", page.text), strict=False))
    found["label"] = re.search(r'name="label" value="(\w+)"[^>]* checked', page.text)[1]
    return {name: html.unescape(value) for name, value in found.items()}


def test_a_training_is_asked_for_again_as_it_was(visit):
    visitor = visit("ana", acting=True)
    asked = {**FORM, "project": "again", "test_size": "0.3", "out_joined": "on", "hp_n_estimators": "7"}
    asked |= {"search": "grid", "cv": "2", "hp_max_depth": "1, 2"}
    page = wait_for(visitor, visitor.post("/train", asked).headers["location"])
    # The form of a training that failed is kept as long as the visitor is logged in; a model knows its own.
    failed = wait_for(visitor, visitor.post("/train", {**asked, "hp_n_estimators": "two"}).headers["location"])
    model = visitor.get(f"/models/{re.search(r'/models/([0-9]+)', page.text)[1]}")
    for seen, rounds in ((page, "7"), (failed, "two"), (model, "7")):
        form = visitor.get(html.unescape(re.search(r'href="([^"]+)">Train again', seen.text)[1]))
        fields = fields_of(form)
        wanted = {**asked, "hp_n_estimators": rounds, "search": "every combination"}
        wanted.pop("deploy")
        assert {name: fields.get(name) for name in wanted} == wanted
        assert "out_age" not in fields
    assert "Train again" not in visit("ana").get(model.url.path).text


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
    answer = visitor.post("/train", {**FORM, "project": "progress"})
    assert answer.status_code == 400 and "The project progress is for regression" in text_of(answer)
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
    assert re.search(r'name="c_joined" value="\d{4}-\d\d-\d\d" type="date"', page.text)
    page = visit("ana").post("/models/{churn.xgboost}/try", {"c_joined": "infinity"})
    assert 'name="c_joined" value="infinity" placeholder' in page.text
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


# In a browser


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


def test_a_large_table_is_read_when_asked(world, server):
    with running(f"postgresql://127.0.0.1:{server.port}/console", rows_unasked=100) as (address, _):
        visitor = Visitor(world, address)
        with visitor.http:
            visitor.login("ana")
            for path in ("/models/{tumours.xgboost}", "/projects/{tumours}"):
                page = visitor.get(path)
                assert "The training had 569 rows" in text_of(page) and 'hx-trigger="load"' not in page.text


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
