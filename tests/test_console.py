"""The console: who is let in, what surrounds its pages, and what it says of a server that is away."""

import html
import os
import re
import signal
import threading
import time
import zipfile
from pathlib import Path
from urllib.parse import quote

import pg8000.dbapi
import pytest

from devkit.console import console_wheel
from devkit.places import ROOT
from howdah_console.app import Settings
from tests.consoles import PASSWORD, VIEWS, Visitor, browser, running, text_of, visit, world

__all__ = ["browser", "visit", "world"]


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
                # Whichever part of the page meets it first says it.
                assert answer.status_code == 503
                assert "did not answer in time" in text_of(answer) or "The server is away" in text_of(answer)
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
