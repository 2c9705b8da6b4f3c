"""SHOW SHAPES, the counts of statements by their text without literals, and SHOW EVENTS."""

import signal
import urllib.request

import pytest

from devkit.server import free_port
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query

SECRET = "geheim"


def shapes(pooler):
    """The rows of SHOW SHAPES by their text."""
    return {row["query"]: row for row in pooler.show("SHAPES", "howdah")}


def events(pooler):
    """What has happened, the last first."""
    return [(row["kind"], row["database"]) for row in pooler.show("EVENTS", "howdah")]


@pytest.fixture
def counting(server):
    """A pooler that knows the catalog, and a client of it."""
    with Pooler(server, default_pool_size=2) as pooler:
        pooler.psql("SELECT 1")
        pooler.wait_for_catalog()
        with Raw(pooler.port) as client:
            yield pooler, client


def run(client, *units):
    """Sends each unit when the one before has been answered."""
    for unit in units:
        client.send(unit)
        client.until(b"Z")


def test_statements_are_counted_by_their_text_without_literals(counting):
    pooler, client = counting
    run(client, *(query(f"SELECT {number}, '{SECRET}' -- {SECRET}") for number in range(5)))
    run(client, query(f"SELECT generate_series(1, 7), $a${SECRET}$a$"), query(f"SELECT 1/0, E'{SECRET}'"))
    run(client, query("BEGIN"), query(f"CREATE TEMP TABLE x AS SELECT '{SECRET}' AS a"), query("ROLLBACK"))
    run(client, query(f"SET app.key = '{SECRET}'"), query(f"SET app.key TO {SECRET}"))
    run(
        client,
        query(f"SELECT set_config('app.key', '{SECRET}', false)"),
        query(f"DO $$ BEGIN PERFORM '{SECRET}'; END $$"),
    )
    run(client, query(f"{SECRET}"), query(f"SELECT U&'{SECRET}'"))
    found = shapes(pooler)
    assert not [text for text in found if SECRET in text], "no literal is shown"
    five = found["select $1, $2"]
    assert (five["calls"], five["rows"], five["errors"], five["replica"]) == ("5", "5", "0", "0")
    assert (five["pipelined"], five["primary"], five["not_pipelined"]) == ("3", "5", ""), "the first two run alone"
    assert int(five["total_time"]) >= int(five["max_time"]) >= int(five["mean_time"]) > 0
    assert len(five["fingerprint"]) == 16 and five["database"] == five["user"] == "postgres"
    assert found["select generate_series($1), $2"]["rows"] == "7"
    failed = found["select $1 / $2, $3"]
    assert (failed["calls"], failed["errors"], failed["sqlstates"]) == ("1", "1", "22012 1")
    assert found["create temp table x as select $1 as a"]["not_pipelined"] in ("session", "utility", "transaction")
    assert (found["set app.key = $1"]["calls"], found["set app.key to $1"]["calls"]) == ("1", "1")
    assert found["do $1"]["calls"] == found["begin"]["calls"] == found["rollback"]["calls"] == "1"
    # What is not SQL may be anything.
    assert (found[""]["calls"], found[""]["errors"], found[""]["fingerprint"]) == ("2", "1", "0" * 16)


def test_each_statement_of_a_batch_has_its_own_counts(counting):
    pooler, client = counting
    texts = {"one": "SELECT 1 AS a", "two": "SELECT pg_sleep(0.02) AS b", "three": "SELECT 1 / 0 AS c"}
    client.send(*(parse(name, text) for name, text in texts.items()), SYNC)
    client.until(b"Z")
    run(client, query("BEGIN"))
    client.send(*(bind(name) + EXECUTE for name in ("one", "one", "two", "one", "three", "one")), SYNC)
    client.until(b"Z")
    run(client, query("ROLLBACK"))
    found = shapes(pooler)
    one, two, three = (found[f"select {text}"] for text in ("$1 as a", "pg_sleep($1) as b", "$1 / $2 as c"))
    assert (one["calls"], one["rows"], one["errors"]) == ("3", "3", "0"), "the last was skipped"
    assert (two["calls"], two["rows"], two["errors"]) == ("1", "1", "0")
    assert (three["calls"], three["rows"], three["sqlstates"]) == ("1", "0", "22012 1")
    # Their answers come together, when the server sends them.
    assert sum(int(row["total_time"]) for row in (one, two, three)) >= 20_000


def test_users_and_databases_are_apart_and_the_metrics_have_twenty(server):
    port = free_port()
    with Pooler(server, metrics_port=port) as pooler:
        for number in range(30):
            pooler.psql(f"SELECT {number} AS a{number}")
        pooler.psql("SELECT 1 AS a1", "template1")
        rows = [row for row in pooler.show("SHAPES", "howdah") if row["query"] == "select $1 as a1"]
        assert {row["database"] for row in rows} == {"postgres", "template1"}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            lines = [line for line in page.read().decode().splitlines() if "shape_calls_total{" in line]
        assert len(lines) == 20 and all('query="select $1 as a' in line for line in lines)


def test_what_happens_is_kept(server):
    with Pooler(server, {"postgres": ""}) as pooler:
        pooler.psql("SELECT 1")
        pooler.psql("PAUSE postgres", "howdah")
        pooler.psql("RESUME postgres", "howdah")
        pooler.psql("RECONNECT postgres", "howdah")
        assert events(pooler) == [("reconnect", "postgres"), ("resume", "postgres"), ("pause", "postgres")]
        assert pooler.psql("RESUME postgres", "howdah", check=False).returncode != 0
        assert len(events(pooler)) == 3, "what was refused has not happened"
        pooler.reload()
        pooler.path.write_text("[databases]\n")
        assert pooler.psql("RELOAD", "howdah", check=False).returncode != 0
        assert events(pooler)[:2] == [("refused reload", ""), ("reload", "")]
        text = pooler.show("EVENTS", "howdah")[0]["text"]
        assert "the old one stays in force" in text
        pooler.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: events(pooler)[0] == ("pause", ""))
        pooler.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: events(pooler)[0] == ("resume", ""))
        assert pooler.show("EVENTS", "howdah")[2]["time"].endswith(" UTC")
