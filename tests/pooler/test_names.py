"""The names of prepared statements where servers die that know them, and where what they name changes."""

import pytest

from tests.pooler import raw
from tests.pooler.interpose import Scripted, end, error, ready
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, close, describe, direct, parse

RUNNING = "FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%lasts%' AND pid <> pg_backend_pid()"
LASTS = "SELECT 1 AS lasts FROM pg_sleep(20)"


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def pooler(server, request):
    """One server connection, which keeps a single statement."""
    settings = {"default_pool_size": 1, "max_prepared_statements": 1, "pipelining": request.param}
    with Pooler(server, **settings) as running:
        with Raw(running.port) as client:
            client.sql("SELECT 1")
        running.wait_for_catalog()
        yield running


def answers(client, count):
    """The types of the messages that so many units are answered with, and the SQLSTATEs among them."""
    found = [client.until(b"Z") for _ in range(count)]
    kinds = ["".join(kind.decode() for kind, _ in messages) for messages in found]
    return kinds, [raw.code(body) for messages in found for kind, body in messages if kind == b"E"]


def end_what_runs(pooler, client):
    """Ends the server processes of what runs until the client has heard of it: how many."""
    deaths = 0
    while not client.waiting(0.05):
        deaths += int(pooler.server.psql(f"SELECT count(pg_terminate_backend(pid, 5000)) {RUNNING}"))
    return deaths


def test_a_name_lost_with_its_server_does_not_exist(pooler):
    with Raw(pooler.port) as client:
        client.send(parse("n", LASTS), bind("n"), EXECUTE, SYNC)
        deaths = end_what_runs(pooler, client)
        kinds, codes = answers(client, 1)
        assert kinds[0].lstrip("12") == "EZ" and codes == ["57P01"]
        # What its client was told of, it has.
        told = kinds[0].startswith("1")
        assert client.kinds(parse("n", "SELECT 1"), SYNC) == ("EZ" if told else "1Z")
    # A statement that is known to be a read is asked again once.
    assert deaths == (2 if pooler.settings["pipelining"] else 1)


def test_a_close_lost_with_its_server_has_not_been(pooler):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("n", LASTS), SYNC) == "1Z"
        # The second unit is not sent before the first is answered where units of others may lie between.
        own_unit = [] if pooler.settings["pipelining"] else [SYNC]
        client.send(bind("n"), EXECUTE, *own_unit, close("n"), SYNC)
        end_what_runs(pooler, client)
        kinds, codes = answers(client, 1 + len(own_unit))
        assert [kind.lstrip("2") for kind in kinds] == ["EZ"] * len(kinds) and set(codes) == {"57P01"}
        assert client.kinds(describe("n"), SYNC) == "tTZ"
        assert client.ask(close("n"), SYNC, describe("n"), SYNC, units=2) == "3 Z:I E:26000 Z:I"


def test_a_name_whose_parse_no_server_has_answered_does_not_exist():
    settings = {"default_pool_size": 1, "pipelining": False, "server_login_retry": 0.1}
    with Scripted() as server, Pooler(server, **settings) as pooler, Raw(pooler.port) as client:
        client.send(parse("n", "SELECT 1"), SYNC)
        first = server.session(0)
        assert [kind for kind, _ in first.unit()] == [b"P", b"S"]
        end(first.socket)
        assert answers(client, 1) == (["EZ"], ["08006"])
        client.send(bind("n"), EXECUTE, SYNC)
        second = server.session(1)
        # It is the server's to say that there is none. What the Execute runs is not known, so its Sync waits.
        assert [second.next()[0] for _ in range(3)] == [b"B", b"E", b"H"]
        second.send(error("26000", "there is none"))
        assert [kind for kind, _ in second.unit()] == [b"S"]
        second.send(ready())
        assert answers(client, 1) == (["EZ"], ["26000"])


FAR = "CREATE TABLE k9.hid AS SELECT 'far' AS v"
NEAR = "CREATE TABLE k8.hid AS SELECT 'near' AS v"
FUNCTION = "CREATE FUNCTION {}.hid() RETURNS TABLE (v text) LANGUAGE sql STABLE AS $$ SELECT '{}' $$"


@pytest.mark.parametrize(
    ("through", "far", "near"),
    [
        pytest.param("pooler", FAR, NEAR, id="table"),
        pytest.param("pooler", FAR, f"DO $do$ BEGIN {NEAR}; END $do$", id="do"),
        pytest.param("pooler", FAR, f"SELECT pg_advisory_xact_lock(7); {NEAR}", id="among others"),
        pytest.param(
            "server", FUNCTION.format("k9", "far"), FUNCTION.format("k8", "near"), id="straight at the server"
        ),
    ],
)
def test_what_hides_another_is_taken_by_those_who_prepare_afterwards(server, through, far, near):
    asked = "SELECT v FROM hid()" if "FUNCTION" in far else "SELECT v FROM hid"
    with direct(server) as own:
        own.sql("DROP SCHEMA IF EXISTS k8, k9 CASCADE")
        assert "E:" not in own.sql(f"CREATE SCHEMA k8; CREATE SCHEMA k9; {far}")
    with (
        Pooler(server, default_pool_size=1) as pooler,
        Raw(pooler.port, search_path="k8,k9") as before,
        Raw(pooler.port, search_path="k8,k9") as after,
    ):
        before.sql("SELECT 1")
        pooler.wait_for_catalog()
        unit = parse("s", asked), bind("s"), EXECUTE, SYNC
        assert before.ask(*unit) == "1 2 D:far C:SELECT 1 Z:I"
        with Raw(pooler.port) if through == "pooler" else direct(server) as definer:
            assert "E:" not in definer.sql(near)

        def is_taken():
            said = after.ask(*unit, close("s"), SYNC, units=2)
            assert "D:far" in said or "D:near" in said, said
            return "D:near" in said

        # The guide promises five seconds for what is done straight at the server.
        wait_until(is_taken, 8)
