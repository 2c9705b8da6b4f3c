"""Statement pooling: transaction pooling in which nobody keeps a server connection by a transaction block."""

import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, code, message, parse, query


@pytest.fixture(scope="module", params=[1, 0], ids=["pipelining", "without"])
def pooler(server, request):
    """A pooler in statement mode with one server connection."""
    server.psql("CREATE TABLE IF NOT EXISTS lone (a int); TRUNCATE lone")
    with Pooler(server, default_pool_size=1, pool_mode="statement", pipelining=request.param) as running:
        yield running


def test_statements_of_clients_take_turns(pooler):
    with Raw(pooler.port) as one, Raw(pooler.port, application_name="two") as two:
        for number in range(5):
            assert one.sql(f"SELECT {number}") == f"T D:{number} C:SELECT 1 Z:I"
            assert two.ask(parse(f"s{number}", "SELECT current_setting('application_name')"), SYNC) == "1 Z:I"
            assert one.sql(f"SET my.tag = '{number}'") == "C:SET Z:I"
            assert two.ask(bind(f"s{number}"), EXECUTE, SYNC) == "2 D:two C:SELECT 1 Z:I"
            assert one.value("SHOW my.tag") == str(number)
    assert pooler.show("POOLS")[0]["pool_mode"] == "statement"


@pytest.mark.parametrize("begun", ["BEGIN", "START TRANSACTION READ ONLY", "SELECT 1; BEGIN"])
def test_who_begins_a_transaction_block_is_closed_and_nothing_is_left_of_it(pooler, server, begun):
    server.psql("TRUNCATE lone")
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        assert other.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"
        client.send(query(begun) + query("INSERT INTO lone VALUES (1)") + query("COMMIT"))
        answer = client.until(b"E")
        assert code(answer[-1][1]) == "0A000" and b"FATAL" in answer[-1][1]
        assert b"transaction blocks not allowed in statement pooling mode" in answer[-1][1]
        assert not [body for kind, body in answer if kind == b"Z"]
        # Drivers take the error behind the end of a BEGIN for another result.
        assert not [body for kind, body in answer if kind == b"C" and body.startswith((b"BEGIN", b"START"))]
        assert client.next() is None
        assert other.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I"
    assert server.psql("SELECT count(*) FROM lone") == "0"


def test_a_query_may_have_a_block_of_its_own(pooler, server):
    server.psql("TRUNCATE lone")
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        for begin in (f"BEGIN /*{'-' * 200_000}*/", "BEGIN"):
            assert client.sql(f"{begin}; SELECT 1; COMMIT") == "C:BEGIN T D:1 C:SELECT 1 C:COMMIT Z:I"
        assert client.sql("BEGIN; INSERT INTO lone VALUES (1); COMMIT") == "C:BEGIN C:INSERT 0 1 C:COMMIT Z:I"
        insert = [parse("", "INSERT INTO lone VALUES (2)"), bind(""), EXECUTE]
        assert client.ask(*insert, *insert, SYNC) == "1 2 C:INSERT 0 1 1 2 C:INSERT 0 1 Z:I"
        for copy in ("COPY lone FROM STDIN", "BEGIN; COPY lone FROM STDIN; COMMIT"):
            assert client.ask(query(copy), message(b"d", b"7\n"), message(b"c")).endswith("Z:I")
        assert other.sql("SELECT sum(a) FROM lone") == "T D:19 C:SELECT 1 Z:I"


@pytest.mark.parametrize("skipped", [query("SELECT 1"), parse("", "SELECT 1") + bind("") + EXECUTE, FLUSH])
def test_what_is_skipped_behind_an_error_holds_nobody_up(pooler, skipped):
    with Raw(pooler.port) as client, Raw(pooler.port) as other:
        # The portal does not exist, and all up to the Sync is skipped.
        assert client.ask(EXECUTE, query("SELECT 2"), skipped, SYNC) == "E:34000 Z:I"
        assert client.sql("SELECT 3") == "T D:3 C:SELECT 1 Z:I"
        client.send(EXECUTE + query("SELECT 2") + skipped)
        client.reset()
        assert other.sql("SELECT 4") == "T D:4 C:SELECT 1 Z:I"


def test_a_user_and_a_database_have_limits_to_waiting_of_their_own(server):
    server.psql("DROP ROLE IF EXISTS hasty; CREATE ROLE hasty LOGIN; DROP ROLE IF EXISTS calm; CREATE ROLE calm LOGIN")
    place = f'host = "{server.socket_folder}"\nport = {server.port}\ndbname = "postgres"'
    text = f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
default_pool_size = 1
query_wait_timeout = 60
[databases.quick]
{place}
query_wait_timeout = 1
[databases.slow]
{place}
[users.hasty]
query_wait_timeout = 1
[users.calm]
query_wait_timeout = 60
"""
    with Pooler(server, name="howdah.toml", text=text) as pooler:
        for user, database, gives_up in [
            ("hasty", "slow", True),
            ("postgres", "quick", True),
            ("calm", "quick", False),
            ("postgres", "slow", False),
        ]:
            with Raw(pooler.port, database, user=user) as holder, Raw(pooler.port, database, user=user) as waiter:
                assert holder.sql("BEGIN") == "C:BEGIN Z:T"
                waiter.send(query("SELECT 1"))
                begun = time.monotonic()
                if gives_up:
                    assert b"query_wait_timeout" in waiter.until(b"E")[-1][1]
                    assert 0.9 < time.monotonic() - begun < 20
                else:
                    time.sleep(2)
                    assert holder.sql("COMMIT") == "C:COMMIT Z:I"
                    assert waiter.ask() == "T D:1 C:SELECT 1 Z:I"
