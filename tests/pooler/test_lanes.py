"""Connections that several clients' reads share: nobody waits for another for long, nothing is done twice, and each client
is answered in order.
"""

import contextlib
import struct

import pytest

from tests.pooler.interpose import Interposer
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, message, parse, query, show
from tests.pooler.test_cancels import LOCK, blocked, locked

GROUND = """
CREATE OR REPLACE FUNCTION held(k int, what text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock_shared(k); RETURN what; END $$;
DROP TABLE IF EXISTS done; CREATE TABLE done (what text);
DROP FUNCTION IF EXISTS redefined(text);
CREATE FUNCTION redefined(what text) RETURNS text STABLE LANGUAGE sql AS $$ SELECT what $$;
"""
BLOCKED = query(f"SELECT held({LOCK}, 'x') AS held")
# It answers twenty megabytes, more than lies in the buffers on the way.
LONG = "SELECT repeat('x', 1000) AS long FROM generate_series(1, {})"


@pytest.fixture
def ground(server):
    """A connection straight to the server, which has what these tests use."""
    with direct(server) as looker:
        looker.sql(GROUND)
        yield looker


@contextlib.contextmanager
def pooled(server, **settings):
    """A proxy that can hold answers, a pooler with one shared connection and a second for those who need it."""
    settings = {"default_pool_size": 2, "pipeline_connections": 1, **settings}
    with Interposer(server) as net, Pooler(net, **settings) as pooler:
        yield net, pooler


def clients(pooler, stack, count):
    """So many clients, whose statements are known as quick reads."""
    found = [stack.enter_context(Raw(pooler.port)) for _ in range(count)]
    pooler.wait_for_catalog()
    for _ in range(4):
        for client in found:
            assert client.sql("SELECT held(1, 'x') AS held") == "T D:x C:SELECT 1 Z:I"
            assert client.sql("SELECT 'y' AS other") == "T D:y C:SELECT 1 Z:I"
            client.kinds(query(LONG.format(10)))
    return found


def reads(stack, others):
    """Has the others ask something each; what they must be answered."""
    for number, other in enumerate(others):
        other.send(query(f"SELECT 'of {number}' AS other"))
    return [(other, f"T D:of {number} C:SELECT 1 Z:I") for number, other in enumerate(others)]


def test_nobody_waits_behind_a_slow_reader(server, ground):
    with contextlib.ExitStack() as stack:
        net, pooler = stack.enter_context(pooled(server, pipeline_stall=3))
        x, *others = clients(pooler, stack, 4)
        link = net.asking("AS held")
        link.hold()
        before = link.asks("AS other")
        x.send(query(LONG.format(20_000)))
        net.wait(lambda: link.asks("20000"))
        behind = reads(stack, others)
        # They stand behind it on one connection before it has answered anything.
        net.wait(lambda: link.asks("AS other") == before + len(others))
        link.release()
        # It does not read.
        for other, wanted in behind:
            assert other.ask() == wanted
        assert len(x.until(b"Z")) == 20_003
        assert x.sql("SELECT 'again' AS other") == "T D:again C:SELECT 1 Z:I"


def test_a_notification_amid_the_work_of_others_is_for_nobody(server, ground):
    payload = "x" * 20_000
    with contextlib.ExitStack() as stack:
        net, pooler = stack.enter_context(pooled(server, pipeline_stall=20))
        x, y = clients(pooler, stack, 2)
        link = net.asking("AS other")
        link.hold()
        before = link.asks("AS other")
        reads(stack, [x, y])
        net.wait(lambda: link.asks("AS other") == before + 2 and len(link.kept) == 8)
        kept = [message(*each) for each in link.kept]
        notification = message(b"A", struct.pack("!i", 7) + b"channel\0" + payload.encode() + b"\0")
        notice = message(b"N", b"SNOTICE\0VNOTICE\0C00000\0M" + payload.encode() + b"\0\0")
        with net.changed:
            link._kept = b""
        link.release(*(part for each in kept for part in (notification, notice, each)))
        for number, client in enumerate((x, y)):
            told = client.until(b"Z")
            assert b"A" not in [kind for kind, _ in told]
            assert show(told) == f"T D:of {number} C:SELECT 1 Z:I"
            assert (b"N", notice[5:]) in told


@pytest.mark.parametrize("form", ["query", "named"])
def test_what_was_redefined_behind_the_poolers_back_is_done_once(server, ground, form):
    with contextlib.ExitStack() as stack:
        net, pooler = stack.enter_context(pooled(server, pipeline_stall=0.2))
        x, y, other = clients(pooler, stack, 3)
        sql = "SELECT redefined('once') AS told"
        name = "s" if form == "named" else ""
        unit = [query(sql)] if form == "query" else [parse(name, sql), bind(name), EXECUTE, SYNC]
        for _ in range(4):
            y.kinds(query("SELECT redefined('before') AS told"))
        before = sum(link.asks("redefined('once')") for link in net.links)
        ground.sql(
            "CREATE OR REPLACE FUNCTION redefined(what text) RETURNS text VOLATILE LANGUAGE sql AS "
            "$$ INSERT INTO done VALUES (what) RETURNING what $$"
        )
        with locked(server):
            x.send(BLOCKED)
            wait_until(lambda: blocked(ground) == 1)
            y.send(*unit)
            net.wait(lambda: sum(link.asks("redefined('once')") for link in net.links) > before)
            # It is done elsewhere when it has stood behind the other for long.
            assert y.ask().endswith("D:once C:SELECT 1 Z:I")
        assert x.ask() == "T D:x C:SELECT 1 Z:I"
        # The connection that it was sent down first has done with it too.
        for client in (other, x, y):
            assert client.sql("SELECT 'z' AS other") == "T D:z C:SELECT 1 Z:I"
        net.wait(lambda: all(link.is_quiet for link in net.links))
        assert ground.value("SELECT count(*) FROM done WHERE what = 'once'") == "1"


@pytest.mark.parametrize(
    "changes", [{"pipelining": "false"}, {"pool_mode": "session"}], ids=["pipelining", "pool_mode"]
)
@pytest.mark.parametrize("second", ["read", "transaction"])
def test_answers_keep_their_order_through_a_reload(server, ground, changes, second):
    with contextlib.ExitStack() as stack:
        net, pooler = stack.enter_context(pooled(server, pipeline_stall=30))
        x, _ = clients(pooler, stack, 2)
        link = net.asking("AS other")
        link.hold()
        x.send(query("SELECT 'first' AS other"))
        net.wait(lambda: any(kind == b"Z" for kind, _ in link.kept))
        pooler.reload(**changes)
        sql = {"read": "SELECT 'second' AS other", "transaction": "BEGIN"}[second]
        x.send(query(sql))
        # Everything that the pooler does with it before its turn, it has done when this has been answered.
        pooler.show("POOLS")
        x.waiting(0.3)
        link.release()
        assert x.ask() == "T D:first C:SELECT 1 Z:I"
        wanted = {"read": "T D:second C:SELECT 1 Z:I", "transaction": "C:BEGIN Z:T"}
        assert x.ask() == wanted[second]
        if second == "transaction":
            assert x.sql("COMMIT") == "C:COMMIT Z:I"
        assert x.sql("SELECT 'z' AS other") == "T D:z C:SELECT 1 Z:I"


def test_a_read_that_writes_is_done_once(server, ground):
    # It says that it only reads, and calls what writes. One of these texts has nothing by which it is remembered.
    assert "E:" not in ground.sql(
        """CREATE OR REPLACE FUNCTION writes(what text) RETURNS text VOLATILE LANGUAGE sql AS
        $$ INSERT INTO done VALUES (what) RETURNING what $$;
        CREATE OR REPLACE FUNCTION notes(what text) RETURNS text STABLE LANGUAGE sql AS $$ SELECT writes(what) $$"""
    )
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as client:
        client.sql("SELECT 1")
        pooler.wait_for_catalog()
        for number, text in enumerate(("'a'", "U&'a'") * 2, 1):
            assert client.sql(f"SELECT notes({text})") == "T D:a C:SELECT 1 Z:I"
            assert ground.value("SELECT count(*) FROM done") == str(number)
