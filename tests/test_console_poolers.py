"""The console's poolers: a picture of a primary, replicas and thousands of clients, statements by shape, events."""

import contextlib
import os
import re
import resource
import socket
import time

import pytest

from devkit.places import BUILD, ROOT
from tests.consoles import PASSWORD, SCREENS, Visitor, browser, running, text_of
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, query, startup
from tests.pooler.trio import three

__all__ = ["browser"]
CROWD = 5000


class Stage:
    """A primary with two replicas, a pooler in front, a console that may act and one that may not."""

    def __init__(self, trio, pooler, reading, acting):
        self.trio = trio
        self.pooler = pooler
        self.reading = reading
        self.acting = acting

    def path(self, text):
        """A path as it is: no page of a pooler has ids of models."""
        return text


@pytest.fixture(scope="module")
def stage(major, server, tmp_path_factory):
    users = ("ana", "ben", "eve")
    server.psql("".join(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}';" for name in users))
    settings = 'admin_users = ["ana"]\nstats_users = ["ben"]\nmax_client_conn = 6000\ndefault_pool_size = 4'
    try:
        with three(major) as trio:
            trio.primary.psql("CREATE TABLE orders (id int PRIMARY KEY, card text)")
            trio.catch_up()
            # The console logs in to the pooler as its visitor; the crowd need not.
            hba = tmp_path_factory.mktemp("pooler") / "hba.conf"
            hba.write_text("host howdah all 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
            text = trio.toml(f'{settings}\nauth_hba_file = "{hba}"').replace('"any"', '"hba"')
            text += "".join(f'[users.{name}]\npassword = "{PASSWORD}"\n' for name in ("ana", "ben"))
            text += '[users.postgres]\npassword = ""\n'
            with Pooler(trio.primary, name="howdah.toml", text=text) as pooler:
                wait_until(lambda: roles(pooler) == ["primary", "replica", "replica"])
                dsn = f"postgresql://127.0.0.1:{server.port}/postgres"
                given = {"pooler_dsns": (f"postgresql://127.0.0.1:{pooler.port}/howdah",)}
                with running(dsn, **given) as (reading, _), running(dsn, actions=True, **given) as (acting, _):
                    yield Stage(trio, pooler, reading, acting)
    finally:
        server.psql(f"DROP ROLE {', '.join(users)}")


def roles(pooler):
    """What each server is taken for."""
    rows = pooler.psql("SHOW REPLICAS", "howdah", user="ana", password=PASSWORD, flags=["-F", "|"])
    return [row.split("|")[3] for row in rows.splitlines()]


@pytest.fixture
def visit(stage):
    with contextlib.ExitStack() as stack:

        def come(user, acting=True):
            visitor = Visitor(stage, stage.acting if acting else stage.reading)
            stack.enter_context(visitor.http)
            assert visitor.login(user).status_code == 303
            return visitor

        yield come


@pytest.fixture(scope="module")
def shop(stage):
    """An application whose statements have literals, one that is pinned, one that fails."""
    with contextlib.ExitStack() as stack:

        def client(name):
            return stack.enter_context(Raw(stage.pooler.port, "app", application_name=name))

        shop, report, broken = client("shop"), client("nightly <report>"), client("broken")
        stage.pooler.wait_for_catalog()
        for number in range(20):
            run(shop, f"SELECT card FROM orders WHERE id = {number} /* 4111-1111 */")
            run(shop, f"INSERT INTO orders VALUES ({number}, '4111-1111-{number}')")
            run(broken, "INSERT INTO orders VALUES (1, '4111-1111')")
        run(report, "CREATE TEMP TABLE mine (a int)")
        yield shop


def run(client, sql):
    """What a statement is answered with."""
    client.send(query(sql))
    return client.until(b"Z")


def test_the_picture_shows_who_talks_to_whom(visit, shop):
    page = visit("ben", acting=False).part("/poolers/0")
    (wide, tall) = re.findall(r'<svg class="system (\w+)".*?</svg>', page.text, re.DOTALL)
    assert (wide, tall) == ("across", "down")
    label = re.search(r'role="img" aria-label="([^"]*)"', page.text)[1]
    for part in (
        "shop, 1 client",
        "nightly &lt;report&gt;, 1 client, 1 active, 1 pinned",
        "Pooler, 3 clients",
        "primary · app",
    ):
        assert part in label, label
    assert label.count("replica · app") == 2 and label.count("behind by 0.0 s") == 2
    said = text_of(page)
    assert "reads and writes" in said and "1 by temporary object" in said
    assert "Pause" not in said and "nightly <report>" in said


def test_statements_are_shown_by_shape_without_literals(visit, shop):
    page = visit("ben").part("/poolers/0/shapes")
    said = text_of(page)
    assert "4111" not in page.text, "a literal, or a comment"
    assert "select card from orders where id = $1" in said and "23505 20" in said
    assert re.search(r"insert into orders values \(\$1, \$2\) app postgres [^%]* 40 40? ?/ 0", said) or "40 / 0" in said
    calls = visit("ben").part("/poolers/0/shapes?sort=calls")
    first = re.search(r"<tbody><tr><th[^>]*><code>([^<]*)", calls.text)[1]
    assert first.startswith("insert into orders"), "40 of them"
    assert 'aria-sort="descending"><button type="button" class="sort" id="sort-0-calls"' in calls.text
    assert "no such page" in visit("ben").part("/poolers/0/shapes?sort=query").text
    assert visit("ben").get("/poolers/0/shapes").status_code == 404
    # The table of an application's statements: most went to replicas.
    primary, on_replica = re.search(r"select card from orders.*?(\d+) / (\d+)", said, re.DOTALL).groups()
    assert int(primary) + int(on_replica) == 20


def test_clients_are_listed_by_application_and_closed_by_admins_alone(visit, stage, shop):
    htmx = {"HX-Request": "true"}
    with Raw(stage.pooler.port, "app", application_name="doomed"):
        group = {"application_name": "doomed", "database": "app", "user": "postgres"}
        address = "/poolers/0/clients?application_name=doomed&database=app&user=postgres"
        page = visit("ana").part(address)
        assert "1 client of doomed" in text_of(page)
        (client,) = re.findall(r'name="client" value="(\d+)"', page.text)
        assert "Close" not in text_of(visit("ana", acting=False).part(address))
        refused = visit("ana", acting=False).post("/poolers/0/clients", {"client": client}, **htmx)
        assert "read-only" in text_of(refused)
        refused = visit("ben").post("/poolers/0/clients", {"client": client, **group}, **htmx)
        assert 'class="fault"' in refused.text and "1 client of doomed" in text_of(refused)
        assert "no such page" in visit("ana").post("/poolers/0/clients", {"client": "1; PAUSE"}, **htmx).text
        closed = visit("ana").post("/poolers/0/clients", {"client": client, **group}, **htmx)
        assert f"KILL_CLIENT {client}: done." in text_of(closed) and "They have left." in text_of(closed)
        again = visit("ana").post("/poolers/0/clients", {"client": client}, **htmx)
        assert 'class="fault"' in again.text


def test_five_thousand_clients_do_not_slow_the_page(visit, stage, shop):
    least = CROWD + 500
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, min(least, most)), most))
    visitor = visit("ana")
    with contextlib.ExitStack() as stack:
        crowd = []
        for number in range(CROWD):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", stage.pooler.port)))
            client.sendall(startup("app", application_name=f"worker {number % 300}"))
            crowd.append(client)
        for client in crowd:
            told = b""
            while not told.endswith(b"Z\0\0\0\5I"):
                told += client.recv(4096)
        for path in ("/poolers/0", "/poolers/0/clients", "/poolers/0/shapes"):
            began = time.monotonic()
            page = visitor.part(path)
            assert time.monotonic() - began < 3, path
            assert len(page.content) < 300_000 and 'class="fault"' not in page.text, path
        page = visitor.part("/poolers/0")
        label = re.search(r'role="img" aria-label="([^"]*)"', page.text)[1]
        assert f"Pooler, {CROWD + 3:,} clients" in label and "other applications" in label
        assert "The first 200 groups" in text_of(page)
        assert "The first 50" in text_of(visitor.part("/poolers/0/clients"))


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_in_a_browser(browser, stage, shop, screen):
    """The picture moves by itself, statements are sorted by a click, axe finds nothing, nothing is refused."""
    from axe_playwright_python.sync_playwright import Axe

    size, scheme = SCREENS[screen]
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(30_000)
    complaints = []
    page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(stage.acting)
    page.fill("[name=user]", "ana")
    page.fill("[name=password]", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(stage.acting + "/")
    page.goto(stage.acting + "/poolers")
    shown = "svg.across" if screen == "desktop" else "svg.down"
    page.wait_for_selector(shown)
    page.wait_for_selector("#events-0 table")
    page.click("#sort-0-errors")
    page.wait_for_selector("th[aria-sort] #sort-0-errors")
    page.click("button[aria-label='Show the clients of shop']")
    page.wait_for_selector("#clients-0 table")
    if screen == "desktop":
        with Raw(stage.pooler.port, "app", application_name="newcomer"):
            page.wait_for_selector(f"{shown} >> text=newcomer")
            if os.environ.get("HOWDAH_PICTURES"):
                page.evaluate("scrollTo(0, 0)")
                page.screenshot(path=ROOT / "docs" / "guide" / "console" / "pooler.png")
    shots = BUILD / "console"
    shots.mkdir(exist_ok=True)
    page.screenshot(path=shots / f"pooler-{screen}.png", full_page=True)
    faults = [f"{found['id']}: {found['nodes'][0]['target']}" for found in Axe().run(page).response["violations"]]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        faults.append("wider than the screen")
    context.close()
    assert not faults + complaints, "\n".join(faults + complaints)


def test_a_failover_is_seen(visit, stage, shop):
    """The last test: it leaves another primary."""
    visitor = visit("ana")
    trio = stage.trio
    one, _ = trio.replicas
    trio.primary.stop("immediate")

    def label():
        return re.search(r'role="img" aria-label="([^"]*)"', visitor.part("/poolers/0").text)[1]

    wait_until(lambda: "does not answer" in label())
    one.psql("SELECT pg_promote(false)")
    wait_until(lambda: re.search(rf":{one.port}, primary · app", label()))
    page = visitor.part("/poolers/0/events")
    kinds = re.findall(r'<span class="tag \w*">([\w ]+)</span>', page.text)
    assert "failover" in kinds and "lost" in kinds, kinds
    assert f"server {one.socket_folder}:{one.port} is now primary, was replica" in text_of(page)
    page = visitor.part("/poolers/0")
    # Four connections to each of three servers; of one that is gone, neither lag nor time are known.
    assert re.search(r"app postgres \d+ of 12 ", text_of(page)), text_of(page)
    gone = page.text.partition('aria-label="Servers"')[2].partition("does not answer")[0].rpartition("<tr>")[2]
    assert " ms<" not in gone and re.search("data-name=.Behind", gone)
