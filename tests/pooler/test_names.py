"""The names of prepared statements, where units fail that give them and servers die that know them."""

import contextlib
import struct
import time

import pytest

from tests.pooler import raw
from tests.pooler.interpose import Scripted, end, error, ready
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, close, describe, direct, execute, message, parse, query
from tests.pooler.test_parse_settings import bind_text

RUNNING = "FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%lasts%' AND pid <> pg_backend_pid()"


@pytest.fixture(params=["pipelining", "without"])
def pooler(server, request):
    """One server connection, which keeps a single statement."""
    settings = {"default_pool_size": 1, "max_prepared_statements": 1, "pipelining": request.param == "pipelining"}
    with Pooler(server, **settings) as running:
        yield running


def answers(client, count):
    """The types of the messages that so many units are answered with, and the SQLSTATEs among them."""
    found = [client.until(b"Z") for _ in range(count)]
    kinds = ["".join(kind.decode() for kind, _ in messages) for messages in found]
    return kinds, [raw.code(body) for messages in found for kind, body in messages if kind == b"E"]


def test_a_unit_that_fails_takes_no_parse_of_the_poolers_with_it(pooler):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        for _ in range(3):
            # It makes room for another, so that the next Bind needs a Parse of the pooler's own.
            assert client.kinds(parse("t", "SELECT 2"), SYNC, close("t"), SYNC) == "1Z"
            client.until(b"Z")
            client.send(bind("missing"), bind("s"), EXECUTE, SYNC, bind("s"), EXECUTE, SYNC, bind("s"), EXECUTE, SYNC)
            assert answers(client, 3) == (["EZ", "2DCZ", "2DCZ"], ["26000"])


def test_a_name_given_behind_an_error_does_not_exist(pooler):
    with Raw(pooler.port) as client:
        # The server knows the statement, so that its Parse is answered without it.
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        client.send(
            bind("missing"), parse("u", "SELECT 1"), SYNC, bind("u"), EXECUTE, SYNC, parse("u", "SELECT 1"), SYNC
        )
        assert answers(client, 3) == (["EZ", "EZ", "1Z"], ["26000", "26000"])
        client.send(
            bind("missing"), parse("v", "SELECT 7"), SYNC, bind("v"), EXECUTE, SYNC, parse("v", "SELECT 7"), SYNC
        )
        assert answers(client, 3) == (["EZ", "EZ", "1Z"], ["26000", "26000"])


def test_a_name_given_behind_an_error_and_bound_does_not_exist(pooler):
    with Raw(pooler.port) as client:
        # The server is told "u" again for the Bind, by how the text is read behind an Execute of which nothing is known.
        client.send(bind("missing"), EXECUTE, parse("u", "SELECT 1"), parse("v", "SELECT 2"), bind("u"), EXECUTE, SYNC)
        client.send(bind("u"), EXECUTE, SYNC, bind("v"), EXECUTE, SYNC)
        assert answers(client, 3) == (["EZ", "EZ", "EZ"], ["26000"] * 3)


def test_a_close_behind_an_error_has_not_been(pooler):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        client.send(bind("missing"), close("s"), SYNC, bind("s"), EXECUTE, SYNC, close("s"), SYNC, bind("s"), SYNC)
        assert answers(client, 4) == (["EZ", "2DCZ", "3Z", "EZ"], ["26000", "26000"])


def test_names_given_and_forgotten_behind_an_error_are_what_they_were(pooler):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        client.send(bind("missing"), parse("t", "SELECT 2"), close("t"), SYNC, bind("t"), EXECUTE, SYNC)
        assert answers(client, 2) == (["EZ", "EZ"], ["26000", "26000"])
        client.send(bind("missing"), close("s"), parse("s", "SELECT 2"), close("s"), SYNC)
        assert client.kinds() == "EZ"
        client.send(bind("s"), EXECUTE, SYNC)
        assert raw.values(client.until(b"Z")) == ["1"]


def test_a_discard_comes_before_what_is_sent_behind_it(pooler):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        client.send(query("DISCARD ALL"), parse("s", "SELECT 2"), SYNC, bind("s"), EXECUTE, SYNC)
        assert answers(client, 3) == (["CZ", "1Z", "2DCZ"], [])


@pytest.mark.parametrize("forgets", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_a_name_given_behind_what_forgets_all_in_its_unit_stays(pooler, forgets):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        forget = [parse("", forgets), bind(""), EXECUTE]
        client.send(*forget, parse("s", "SELECT 2"), bind("s"), EXECUTE, SYNC, bind("s"), EXECUTE, SYNC)
        assert answers(client, 2) == (["12C12DCZ", "2DCZ"], [])
        # The server has forgotten what it knew by the same name for others.
        client.send(*forget, parse("t", "SELECT 1"), describe("t"), SYNC, bind("t"), EXECUTE, SYNC, bind("s"), SYNC)
        assert answers(client, 3) == (["12C1tTZ", "2DCZ", "EZ"], ["26000"])
        # Nothing is forgotten behind an error, nor is anything waited for.
        client.send(bind("missing"), *forget, parse("u", "SELECT 3"), SYNC, bind("t"), EXECUTE, SYNC, bind("u"), SYNC)
        assert answers(client, 3) == (["EZ", "2DCZ", "EZ"], ["26000", "26000"])


@pytest.mark.parametrize("behind", [1, 2], ids=["one by one", "at once"])
def test_a_statement_in_a_failed_transaction_is_refused_for_that(pooler, behind):
    with Raw(pooler.port) as client:
        assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
        # The server forgets it for another.
        assert client.kinds(parse("t", "SELECT 2"), SYNC) == "1Z"
        client.send(query("BEGIN"), query("SELECT 1/0"))
        assert answers(client, 2) == (["CZ", "EZ"], ["22012"])
        for _ in range(2):
            client.send(*[bind("s"), EXECUTE, SYNC, bind("none"), EXECUTE, SYNC] * behind)
            assert answers(client, 2 * behind) == (["EZ"] * 2 * behind, ["25P02", "26000"] * behind)
        client.send(query("ROLLBACK"), bind("s"), EXECUTE, SYNC)
        assert answers(client, 2) == (["CZ", "2DCZ"], [])


# Units of a client that has "s" in a transaction that has failed. Others have prepared the text of "k".
IN_VAIN = {
    "P": [parse("", "SELECT 1"), SYNC],
    "B": [bind(""), EXECUTE, SYNC],
    "D": [describe(""), SYNC],
    "PB": [parse("", "SELECT 1"), bind(""), EXECUTE, SYNC],
    "Q": [query("SELECT 1")],
    "Pk": [parse("k", "SELECT 'known'"), SYNC],
    "PkB": [parse("k", "SELECT 'known'"), bind("k"), EXECUTE, SYNC],
    "Bk": [bind("k"), EXECUTE, SYNC],
    "Dk": [describe("k"), SYNC],
    "Bs": [bind("s"), EXECUTE, SYNC],
    "Ds": [describe("s"), SYNC],
    "Cs": [close("s"), SYNC],
    "Ps": [parse("s", "SELECT 2"), SYNC],
    "Pr": [parse("r", "ROLLBACK"), SYNC],
    "Br": [bind("r"), EXECUTE, SYNC],
    "R": [parse("", "ROLLBACK"), bind(""), EXECUTE, SYNC],
}
VAIN = [
    "B P B D",
    "PB D B",
    "Q B D",
    "Pk Bk Dk",
    "PkB Bk Pk",
    "Bs Ds Cs Bs Ds",
    "Ps Bs",
    "Pr Br Bk Bs",
    "Pk R Bk Bs",
    "P R B",
]


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
def test_a_failed_transaction_refuses_statements_as_the_server_would(server, pipelining, size, at_once):
    settings = {"default_pool_size": 1, "max_prepared_statements": size, "pipelining": pipelining}
    with Pooler(server, **settings) as running, Raw(running.port) as other:
        for units in VAIN:
            sent = [IN_VAIN[unit] for unit in units.split()]
            found = []
            for client in (raw.direct(server), Raw(running.port)):
                with client:
                    assert client.kinds(parse("s", "SELECT 1"), SYNC) == "1Z"
                    assert other.ask(parse("z", "SELECT 'known'"), SYNC, close("z"), SYNC, units=2) == "1 Z:I 3 Z:I"
                    client.ask(query("BEGIN"), parse("", "SELECT 1/0"), bind(""), EXECUTE, SYNC, units=2)
                    if at_once:
                        answers = client.ask(*(part for unit in sent for part in unit), units=len(sent))
                    else:
                        answers = " ".join(client.ask(*unit) for unit in sent)
                    found.append(answers)
            assert found[0] == found[1], units


def end_what_runs(pooler, client):
    """Ends the server processes of what runs until the client has heard of it: how many."""
    deaths = 0
    while not client.waiting(0.05):
        deaths += int(pooler.server.psql(f"SELECT count(pg_terminate_backend(pid, 5000)) {RUNNING}"))
    return deaths


def test_a_name_lost_with_its_server_does_not_exist(pooler):
    with Raw(pooler.port) as client:
        pooler.wait_for_catalog()
        client.send(parse("n", "SELECT 1 AS lasts FROM pg_sleep(20)"), bind("n"), EXECUTE, SYNC)
        deaths = end_what_runs(pooler, client)
        kinds, codes = answers(client, 1)
        assert kinds[0].lstrip("12") == "EZ" and codes == ["57P01"]
        # What its client was told of, it has.
        told = kinds[0].startswith("1")
        assert client.kinds(parse("n", "SELECT 1"), SYNC) == ("EZ" if told else "1Z")
    # A statement that is known to be a read is asked again once.
    assert deaths == (2 if pooler.settings["pipelining"] else 1)


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


def test_a_close_lost_with_its_server_has_not_been(pooler):
    with Raw(pooler.port) as client:
        pooler.wait_for_catalog()
        assert client.kinds(parse("n", "SELECT 1 AS lasts FROM pg_sleep(20)"), SYNC) == "1Z"
        # The second unit is not sent before the first is answered where units of others may lie between.
        own_unit = [] if pooler.settings["pipelining"] else [SYNC]
        client.send(bind("n"), EXECUTE, *own_unit, close("n"), SYNC)
        end_what_runs(pooler, client)
        kinds, codes = answers(client, 1 + len(own_unit))
        assert [kind.lstrip("2") for kind in kinds] == ["EZ"] * len(kinds) and set(codes) == {"57P01"}
        assert client.kinds(describe("n"), SYNC) == "tTZ"
        assert client.kinds(close("n"), SYNC, describe("n"), SYNC) == "3Z"
        assert client.kinds() == "EZ"


FAR = "CREATE TABLE k9.hid AS SELECT 'far' AS v"
NEAR = "CREATE TABLE k8.hid AS SELECT 'near' AS v"
FUNCTION = "CREATE FUNCTION {}.hid() RETURNS TABLE (v text) LANGUAGE sql STABLE AS $$ SELECT '{}' $$"
FUNCTIONS = (FUNCTION.format("k9", "far"), FUNCTION.format("k8", "near"))


@pytest.mark.parametrize(
    ("through", "far", "near"),
    [
        pytest.param("pooler", FAR, NEAR, id="table"),
        pytest.param("pooler", FAR, f"DO $do$ BEGIN {NEAR}; END $do$", id="do"),
        pytest.param("pooler", FAR, "SELECT 'near' AS v INTO k8.hid", id="into"),
        pytest.param("pooler", FAR, f"SELECT pg_advisory_xact_lock(7); {NEAR}", id="lock"),
        pytest.param("pooler", *FUNCTIONS, id="function"),
        pytest.param("server", FAR, NEAR, id="table straight at the server"),
        pytest.param("server", *FUNCTIONS, id="function straight at the server"),
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


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_the_statement_without_a_name_stays_when_the_one_behind_an_error_is_skipped(server, mode):
    first = parse("", "SELECT 1"), bind(""), EXECUTE, SYNC
    skipped = bind("missing"), parse("", "SELECT 2"), parse("", "SELECT 3"), SYNC
    kept = bind("missing"), close(""), SYNC
    asked = bind("missing"), query("SELECT 4"), parse("", "SELECT 5"), SYNC
    closed = close(""), SYNC
    failed = parse("", "SELEC"), SYNC
    again = bind(""), EXECUTE, SYNC
    with Pooler(server, default_pool_size=1, pool_mode=mode) as pooler:
        with Raw(pooler.port) as client:
            client.sql("SELECT 1")
        if mode == "transaction":
            pooler.wait_for_catalog()
        with Raw(pooler.port) as client, direct(server) as beside:
            for unit in (first, skipped, again, kept, again, asked, again, closed, again, first, failed, again):
                assert client.ask(*unit) == beside.ask(*unit)
            assert beside.ask(*again) == "E:26000 Z:I", "one that fails has ended the one before it"


@pytest.mark.parametrize("mode", ["session", "transaction", "kept"])
def test_what_is_skipped_brings_no_statement_back_that_a_later_unit_has_replaced(server, mode):
    first = parse("", "SELECT 1"), bind(""), EXECUTE, SYNC
    again = bind(""), EXECUTE, SYNC
    skipped = [parse("", "SELECT 2")], [query("SELECT 4")], [close("")], [parse("", "SELECT 3")]
    behind = [parse("", "SELECT 3"), SYNC], [query("SELECT 6")]
    settings = {"pool_mode": "session"} if mode == "session" else {"prepare_threshold": int(mode == "kept")}
    with Pooler(server, default_pool_size=1, **settings) as pooler:
        with Raw(pooler.port) as client:
            client.sql("SELECT 1")
        if mode != "session":
            pooler.wait_for_catalog()
        with Raw(pooler.port) as client, direct(server) as beside:
            for number in (1, 2, 3) * 4:
                client.ask(parse("", f"SELECT {number}"), bind(""), EXECUTE, SYNC)
            for void in skipped:
                for unit in behind:
                    for parts, units in ((first, 1), ((bind("missing"), *void, SYNC, *unit), 2), (again, 1)):
                        assert client.ask(*parts, units=units) == beside.ask(*parts, units=units), (void, unit)


@pytest.mark.parametrize("unknown", [bind("missing"), describe("missing")], ids=["bind", "describe"])
def test_a_query_that_is_skipped_behind_an_error_holds_nobody_up(pooler, unknown):
    unit = unknown, query("SELECT 1"), bind("missing"), EXECUTE, close(""), parse("t", "SELECT 2"), close("s"), SYNC
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        for _ in range(2):
            assert client.ask(*unit) == "E:26000 Z:I"
            assert other.sql("SELECT 'other'") == "T D:other C:SELECT 1 Z:I"


def test_a_name_given_behind_a_query_that_forgets_all_stays(pooler):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        client.send(parse("s", "SELECT 1"), query("DEALLOCATE ALL"), parse("t", "SELECT 2"), SYNC)
        assert client.kinds() == "1CZ"
        assert client.kinds() == "1Z"
        client.send(bind("t"), EXECUTE, SYNC, bind("s"), SYNC)
        assert answers(client, 2) == (["2DCZ", "EZ"], ["26000"])
        assert other.sql("SELECT 'other'") == "T D:other C:SELECT 1 Z:I"


def test_an_error_shows_the_name_of_a_statement_that_its_unit_closes(server):
    unit = parse("mine", "SELECT $1::int"), bind("mine"), close("mine"), SYNC
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as client, direct(server) as beside:
        for raw_client in (client, beside):
            raw_client.send(*unit)
        told = [raw_client.until(b"Z") for raw_client in (client, beside)]
        assert any(b'prepared statement "mine" requires 1' in body for _, body in told[0])
        assert told[0] == told[1]


def test_a_moment_in_a_text_is_that_of_whoever_prepares_it(server):
    unit = parse("s", "SELECT 'now'::timestamptz"), bind("s"), EXECUTE, SYNC
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as first, Raw(pooler.port) as second:
        earlier = first.ask(*unit)
        assert second.ask(*unit) != earlier
        assert first.ask(bind("s"), EXECUTE, SYNC).removeprefix("2 ") == earlier.removeprefix("1 2 ")


def test_what_is_prepared_behind_a_unit_that_fails_is_prepared_once(server):
    fails = "SELECT 1 / length($1::text)"
    with Pooler(server, default_pool_size=1, max_prepared_statements=1) as pooler, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Raw(pooler.port)) for _ in range(3)]
        pooler.wait_for_catalog()
        # What is known to be quick goes down one connection with others.
        for text, value in [(fails, "x"), ("SELECT length($1::text)", "x"), ("SELECT 1 + length($1::text)", "x")] * 8:
            clients[0].ask(parse("", text), bind_text("", value), EXECUTE, SYNC)
        with pooler.frozen():
            one, two = "SELECT length($1::text)", "SELECT 1 + length($1::text)"
            clients[0].send(parse("", fails), bind_text("", ""), EXECUTE, parse("s", one), SYNC)
            # Each makes room for the other.
            for client, text in zip(clients[1:], (two, one), strict=True):
                client.send(parse("s", text), bind_text("s", "x"), EXECUTE, SYNC)
        found = [raw.show(client.until(b"Z")) for client in clients]
        assert found == ["1 E:22012 Z:I", "1 2 D:2 C:SELECT 1 Z:I", "1 2 D:1 C:SELECT 1 Z:I"]
        # In a transaction, nobody asks again what the server refuses.
        assert clients[0].ask(query("BEGIN"), parse("s", one), SYNC, query("COMMIT"), units=3) == (
            "C:BEGIN Z:T 1 Z:T C:COMMIT Z:I"
        )


def test_what_stands_behind_an_execute_that_fails_names_and_closes_nothing(server):
    """The Close of b is skipped, and so was its Parse: there is no b."""
    units = [
        bind("zz"),
        parse("b", "SELECT 'phantom'"),
        bind("b", "p"),
        SYNC,
        raw.execute(portal="p"),
        close("b"),
        SYNC,
    ]
    with Pooler(server) as pooler, Raw(pooler.port) as client, direct(server) as straight:
        for one in (straight, client):
            one.send(*units, bind("b"), EXECUTE, SYNC)
            assert answers(one, 3) == (["EZ", "EZ", "EZ"], ["26000", "34000", "26000"])


@pytest.mark.parametrize("sql", ["DEALLOCATE s", "deallocate prepare s", '/* tidy */ DEALLOCATE "s";'])
def test_deallocate_frees_what_the_protocol_has_prepared(server, pooler, sql):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        for who in (client, other):
            assert who.ask(parse("s", "SELECT 1"), SYNC) == "1 Z:I"
        assert client.sql(sql) == "C:DEALLOCATE Z:I"
        assert client.ask(bind("s"), EXECUTE, SYNC) == "E:26000 Z:I"
        assert client.ask(parse("s", "SELECT 2"), bind("s"), EXECUTE, SYNC) == "1 2 D:2 C:SELECT 1 Z:I"
        assert other.ask(bind("s"), EXECUTE, SYNC) == "2 D:1 C:SELECT 1 Z:I"
        # Within a transaction too, and behind units that are not answered.
        assert client.sql("BEGIN") == "C:BEGIN Z:T"
        parts = [bind("s"), EXECUTE, SYNC, query(sql), bind("s"), EXECUTE, SYNC]
        assert client.ask(*parts, units=3) == "2 D:2 C:SELECT 1 Z:T C:DEALLOCATE Z:T E:26000 Z:E"
        assert client.sql(sql) == "E:25P02 Z:E"
        assert client.sql("ROLLBACK") == "C:ROLLBACK Z:I"
        assert other.ask(bind("s"), EXECUTE, SYNC, query(sql), units=2) == "2 D:1 C:SELECT 1 Z:I C:DEALLOCATE Z:I"


def test_deallocate_of_other_names_is_the_servers_to_answer(server, pooler):
    with Raw(pooler.port) as client, direct(server) as truth:
        for sql in (
            "DEALLOCATE missing",
            "PREPARE p AS SELECT 3",
            "DEALLOCATE p",
            "DEALLOCATE p",
            "SELECT 1; DEALLOCATE s",
            "SELECT 'deallocate s'",
        ):
            for who in (client, truth):
                who.ask(parse("s", "SELECT 1"), SYNC)
            answers = [who.sql(sql) for who in (client, truth)]
            if sql.endswith("DEALLOCATE s"):
                # Among other statements the name is looked for on the server.
                answers[0] = answers[0].replace("E:26000", "C:DEALLOCATE")
            assert answers[0] == answers[1]


def test_deallocate_within_a_copy_ends_the_copy(server, pooler):
    with direct(server) as truth, Raw(pooler.port) as client:
        truth.sql("DROP TABLE IF EXISTS taken; CREATE TABLE taken (a int)")
        client.ask(parse("s", "SELECT 1"), SYNC)
        client.send(query("COPY taken FROM STDIN"))
        client.until(b"G")
        assert client.ask(query("DEALLOCATE s"), units=2) == "E:57014 Z:I C:DEALLOCATE Z:I"


def test_a_bind_that_is_skipped_changes_no_reading(server, pooler):
    text = "SELECT to_char('02/03/2024'::date, 'YYYY-MM-DD')"
    with Raw(pooler.port) as client, Raw(pooler.port, DateStyle="ISO, DMY") as other:
        assert client.ask(parse("s", text), SYNC) == "1 Z:I"
        # Another takes its place on the server connection, which keeps one.
        assert client.ask(parse("t", "SELECT 1"), SYNC) == "1 Z:I"
        client.sql("SET DateStyle = 'ISO, DMY'")
        assert client.ask(bind("missing"), bind("s"), EXECUTE, SYNC) == "E:26000 Z:I"
        client.sql("SET DateStyle = 'ISO, MDY'")
        assert other.ask(parse("s", text), bind("s"), EXECUTE, SYNC) == "1 2 D:2024-03-02 C:SELECT 1 Z:I"
        assert client.ask(bind("s"), EXECUTE, SYNC) == "2 D:2024-02-03 C:SELECT 1 Z:I"
        # A server that lacks a statement has to read it anew: as the session reads now.
        client.sql("SET DateStyle = 'ISO, DMY'")
        assert client.ask(bind("t"), EXECUTE, SYNC) == "2 D:1 C:SELECT 1 Z:I"
        for _ in range(2):
            assert client.ask(bind("s"), EXECUTE, SYNC) == "2 D:2024-03-02 C:SELECT 1 Z:I"


def test_a_name_that_is_taken_is_not_read_otherwise_for_others(server, pooler):
    text = "SELECT to_char('02/03/2024'::date, 'YYYY-MM-DD')"
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        assert client.ask(parse("s", text), SYNC) == "1 Z:I"
        assert client.ask(parse("t", "SELECT 1"), SYNC) == "1 Z:I"
        client.sql("SET DateStyle = 'ISO, DMY'")
        assert client.ask(parse("s", text), SYNC) == "E:42P05 Z:I"
        assert other.ask(parse("s", text), bind("s"), EXECUTE, SYNC) == "1 2 D:2024-02-03 C:SELECT 1 Z:I"


def test_a_close_frees_a_statement_of_sqls_prepare(server):
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as client, direct(server) as truth:
        for one in (client, truth):
            assert one.sql("PREPARE s AS SELECT 1") == "C:PREPARE Z:I"
            assert one.ask(close("s"), SYNC) == "3 Z:I"
            assert one.sql("EXECUTE s") == "E:26000 Z:I"
            assert one.sql("PREPARE s AS SELECT 2") == "C:PREPARE Z:I"
            assert one.sql("EXECUTE s") == "T D:2 C:SELECT 1 Z:I"


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("sql", ["DEALLOCATE ALL; SELECT 1", "DEALLOCATE ALL"])
def test_names_behind_deallocate_all_are_free(server, pipelining, sql, block):
    running = Pooler(server, default_pool_size=1, pipelining=pipelining)
    with running as pooler, Raw(pooler.port) as client, direct(server) as truth:
        client.sql("SELECT 1")
        pooler.wait_for_catalog()
        told = []
        for who in (truth, client):
            who.ask(parse("s", "SELECT 'old'"), bind("s"), EXECUTE, SYNC)
            if block:
                who.sql("BEGIN")
            told.append(who.ask(query(sql), parse("s", "SELECT 'new'"), bind("s"), EXECUTE, SYNC, units=2))
        assert told[1] == told[0]


def test_deallocate_behind_a_close_that_was_skipped_finds_its_statement(server):
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as client, direct(server) as truth:
        client.sql("SELECT 1")
        pooler.wait_for_catalog()
        told = []
        for who in (truth, client):
            who.ask(parse("s", "SELECT 1"), SYNC)
            told.append(who.ask(bind("none"), close("s"), SYNC, query("DEALLOCATE s"), units=2))
        assert told[1] == told[0]


@contextlib.contextmanager
def beside_postgresql(server, pipelining):
    """A pooler, a client of the server and one of the pooler; the table `unnamed` has a row that a skipped DELETE leaves."""
    with contextlib.ExitStack() as stack:
        straight = stack.enter_context(direct(server))
        straight.sql("DROP TABLE IF EXISTS public.unnamed; CREATE TABLE public.unnamed AS SELECT 1 AS a")
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        pooled = stack.enter_context(Raw(pooler.port))
        pooled.sql("SELECT 1")
        pooler.wait_for_catalog()
        yield pooler, straight, pooled


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_a_statement_without_a_name_that_was_skipped_is_not_run(server, pipelining, waits):
    told = []
    fails = (parse("", "SELECT * FROM nowhere"), bind(""), EXECUTE)
    skipped = (parse("", "DELETE FROM public.unnamed"), bind(""), EXECUTE)
    with beside_postgresql(server, pipelining) as (_pooler, *both):
        for client in both:
            client.send(*fails, *skipped, *([raw.FLUSH] if waits else []))
            if waits:
                client.until(b"E")
            told.append(client.ask(SYNC, bind(""), EXECUTE, SYNC, units=2))
            told.append(client.value("SELECT count(*) FROM public.unnamed"))
    assert told[:2] == told[2:]
    assert told[1] == "1"


FIRST = (parse("", "SELECT 'first'"), SYNC)
FAILS = message(b"D", b"Pnowhere\0")
DELETES = (FAILS, parse("", "DELETE FROM public.unnamed RETURNING 'deleted'"), SYNC)
AGAIN = (bind(""), EXECUTE, SYNC)
LO_CREAT = message(b"F", struct.pack("!IHHHIiH", 957, 1, 1, 1, 4, -1, 1))
SKIPPED = {
    "a Parse": [*FIRST, *DELETES, FAILS, parse("", "SELECT 'third'"), SYNC, *AGAIN],
    "a Close": [*FIRST, *DELETES, FAILS, close(""), SYNC, *AGAIN],
    "a Query": [*FIRST, *DELETES, FAILS, query("SELECT 5"), SYNC, *AGAIN],
    "two Parses": [*FIRST, *DELETES, *2 * (FAILS, parse("", "SELECT 'more'"), SYNC), *AGAIN],
    "all Parses": [*DELETES, FAILS, parse("", "SELECT 'third'"), SYNC, *AGAIN],
    "a Parse behind one that fails": [*FIRST, parse("", "SELECT a"), SYNC, FAILS, parse("", "SELECT 3"), SYNC, *AGAIN],
    "a Parse behind a Close": [*FIRST, FAILS, close(""), SYNC, FAILS, parse("", "SELECT 'third'"), SYNC, *AGAIN],
    "a Parse of a read": [*FIRST, FAILS, parse("", "SELECT 'second'"), SYNC, *AGAIN, *AGAIN],
    "a Parse of a read behind none": [query("SELECT 5"), FAILS, parse("", "SELECT 'second'"), SYNC, *AGAIN],
    "a Parse behind an Execute that fails": [
        *(*FIRST, parse("", "SELECT 1/0"), bind(""), EXECUTE, parse("", "SELECT 'second'"), SYNC),
        *AGAIN,
    ],
    "a FunctionCall": [*FIRST, FAILS, LO_CREAT, parse("", "SELECT 'second'"), SYNC, *AGAIN],
    "a Query behind one that runs": [*FIRST, query("SELECT 5"), FAILS, query("SELECT 6"), SYNC, *AGAIN],
}


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("what", SKIPPED)
def test_what_several_units_skip_leaves_the_statement_without_a_name(server, what, pipelining):
    told = []
    with beside_postgresql(server, pipelining) as (pooler, *both):
        for client in both:
            with pooler.frozen():
                client.send(*SKIPPED[what], query("SELECT 'end'"))
            own = what in ("a Query behind one that runs", "a Parse of a read behind none")
            told.append(client.ask(units=1 + SKIPPED[what].count(SYNC) + own))
    assert told[0] == told[1] and "end" in told[0]


def test_a_parse_without_a_name_that_its_servers_death_has_failed_leaves_none(pooler):
    with Raw(pooler.port) as client:
        pooler.wait_for_catalog()
        client.send(
            parse("", "SELECT 1 AS lasts FROM pg_sleep(20)"), bind(""), EXECUTE, SYNC, parse("", "SELECT 2"), SYNC
        )
        end_what_runs(pooler, client)
        kinds, codes = answers(client, 2)
        assert codes[0] == "57P01"
        client.send(bind(""), EXECUTE, SYNC)
        # On a shared connection the Parse is sent again; its statement is then that of the client.
        expected = (["2DCZ"], []) if kinds[1] == "1Z" else (["EZ"], ["26000"])
        assert answers(client, 1) == expected


@pytest.mark.parametrize("queries", [1, 2])
def test_a_death_ends_a_unit_once_though_queries_stand_in_it(pooler, queries):
    """Behind the error the server would have skipped the queries."""
    with Raw(pooler.port) as client:
        pooler.wait_for_catalog()
        lasting = parse("", "SELECT 1 AS lasts FROM pg_sleep(20)"), bind(""), EXECUTE
        client.send(*lasting, *[query("SELECT 'skipped'")] * queries, SYNC)
        end_what_runs(pooler, client)
        assert client.ask() == "1 2 E:57P01 Z:I"
        assert client.sql("SELECT 'next'") == "T D:next C:SELECT 1 Z:I"


FIRST = parse("", "SELECT 'first'"), bind(""), EXECUTE, SYNC
AGAIN = bind(""), EXECUTE, SYNC
WRONG_PORTAL = message(b"D", b"Pnowhere\0")


@pytest.mark.parametrize("units", [1, 2])
def test_a_unit_that_is_cancelled_behind_a_neighbours_read_prepares_nothing(server, units):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipeline_stall=30))
        one, two = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        owner = stack.enter_context(direct(server))
        owner.sql("DROP TABLE IF EXISTS held; CREATE TABLE held (a int)")
        one.sql("SELECT 1")
        pooler.wait_for_catalog()
        phantom = parse("", "SELECT 'phantom'")
        for _ in range(3):
            assert two.sql("SELECT count(*) FROM held") == "T D:0 C:SELECT 1 Z:I"
            assert one.ask(phantom, *AGAIN) == "1 2 D:phantom C:SELECT 1 Z:I"
        assert one.ask(*FIRST) == "1 2 D:first C:SELECT 1 Z:I"
        owner.sql("BEGIN")
        owner.sql("LOCK TABLE held")
        two.send(query("SELECT count(*) FROM held"))
        wait_until(lambda: pooler.show("POOLS") and server.psql(BLOCKED) == "1")
        one.send(*[WRONG_PORTAL, phantom, SYNC] * units)
        time.sleep(0.2)
        one.cancel(pooler.port)
        assert one.ask() == "E:57014 Z:I"
        owner.sql("COMMIT")
        assert two.ask() == "T D:0 C:SELECT 1 Z:I"
        if units == 2:
            assert one.ask() == "E:34000 Z:I"
        assert one.ask(*AGAIN) == "2 D:first C:SELECT 1 Z:I"


BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%held%'"


@pytest.mark.parametrize("wrong", [parse("n", "SELEC"), WRONG_PORTAL], ids=["parse", "describe"])
@pytest.mark.parametrize(
    "skipped", [parse("", "SELECT 'skipped'"), query("SELECT 1"), close("")], ids=["parse", "query", "close"]
)
def test_what_is_skipped_behind_a_failed_flush_leaves_the_statement_without_a_name(pooler, wrong, skipped):
    with Raw(pooler.port) as client:
        assert client.ask(*FIRST) == "1 2 D:first C:SELECT 1 Z:I"
        client.send(wrong, FLUSH)
        client.until(b"E")
        assert client.ask(skipped, SYNC) == "Z:I"
        assert client.ask(*AGAIN) == "2 D:first C:SELECT 1 Z:I"


def test_a_portal_of_a_name_that_an_earlier_unit_has_used_is_known(server):
    """Bound while the earlier unit is under way; what it sets is followed, so the connection goes to another client."""
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as one, Raw(pooler.port) as two:
        pooler.wait_for_catalog()
        local = parse("", "SET LOCAL my.portal = 'x'"), bind("", "p"), execute(portal="p"), SYNC
        with pooler.frozen():
            one.send(bind("nowhere", "p"), SYNC, *local, *local, query("SELECT 'end'"))
        assert one.ask(units=4) == "E:26000 Z:I 1 2 C:SET Z:I 1 2 C:SET Z:I T D:end C:SELECT 1 Z:I"
        assert two.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"


def test_portals_of_taken_names_are_refused_as_by_postgresql(server):
    told = []
    units = (
        [query("BEGIN"), parse("a", "SELECT 1"), parse("b", "SELECT 2"), bind("a", "p"), SYNC],
        [bind("b", "q"), execute(portal="q"), bind("b", "p"), execute(portal="p"), SYNC],
        [query("ROLLBACK"), query("BEGIN"), query("SAVEPOINT s"), bind("a", "p"), SYNC, query("ROLLBACK TO s")],
        [bind("b", "p"), execute(portal="p"), SYNC, query("COMMIT")],
    )
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as pooled, direct(server) as straight:
        for client in (straight, pooled):
            for unit in units:
                client.send(*unit)
                told.append(client.ask(units=sum(part[:1] in (b"Q", b"S") for part in unit)))
            client.send(*(part for unit in units for part in unit))
            told.append(client.ask(units=sum(part[:1] in (b"Q", b"S") for unit in units for part in unit)))
    assert told[: len(told) // 2] == told[len(told) // 2 :]
