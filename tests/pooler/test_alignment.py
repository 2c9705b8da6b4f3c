"""A server connection is brought in line with a client before anything of the client's reaches it.

What is held here is held by the server itself: `default_tablespace` is checked against `pg_tablespace`, so who has locked
that table holds an alignment that sets it for as long as it likes. What strikes an alignment is said in the server's
place. What cancel requests do meanwhile, in all kinds of pools, is the simulation's subject.
"""

import contextlib

import pytest

from tests.pooler.interpose import Interposer, end, error
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, direct, parse, query

INSERT = "INSERT INTO aligned VALUES ('x')"
# A unit, what comes behind it once it was refused, and what it is answered.
FORMS = {
    "query": ([query(INSERT)], [], "C:INSERT 0 1 Z:I"),
    "flushed": ([parse("", INSERT), bind(""), EXECUTE, FLUSH], [SYNC], "1 2 C:INSERT 0 1 Z:I"),
}
WAITERS = 4


@pytest.fixture(scope="module")
def owner(server):
    """A connection straight to the server; two tenants have tables of one name, of which some roles may use one."""
    with direct(server) as owner:
        owner.sql("DROP TABLE IF EXISTS aligned; CREATE TABLE aligned (who text)")
        for name in ("tenant_a", "tenant_b"):
            owner.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}; CREATE TABLE {name}.t (who text)")
        yield owner
        owner.sql("DROP SCHEMA tenant_a CASCADE; DROP SCHEMA tenant_b CASCADE")
        owner.sql("DROP ROLE IF EXISTS app_admin, app_reader")


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def place(request, server):
    """A proxy, and a pooler behind it with one server connection."""
    with Interposer(server) as net, Pooler(net, default_pool_size=1, pipelining=request.param) as pooler:
        yield net, pooler


@pytest.fixture
def stack(owner, place):
    """What a test opens; the table is empty, and the proxy passes everything on."""
    owner.sql("TRUNCATE aligned")
    net, _ = place
    net.instead, net.delay = None, 0
    with contextlib.ExitStack() as opened:
        yield opened


def written(owner):
    """What was written."""
    return owner.value("SELECT coalesce(string_agg(who, ' ' ORDER BY who), '') FROM aligned")


@contextlib.contextmanager
def locked(server):
    """While this lasts, nobody can set `default_tablespace`."""
    with direct(server) as locker:
        locker.sql("BEGIN")
        locker.sql("LOCK TABLE pg_tablespace IN ACCESS EXCLUSIVE MODE")
        yield locker


def waits_for_lock(owner):
    """Whether an alignment waits for the lock."""
    sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pg_tablespace'::regclass"
    return owner.value(sql) != "0"


def differing(pooler, stack, **options):
    """A client whose session differs from that of the pool's only connection, which is free, and the other client."""
    x, other = (stack.enter_context(Raw(pooler.port, **options)) for _ in range(2))
    assert x.sql("SET default_tablespace = 'pg_default'") == "C:SET Z:I"
    use(other)
    return x, other


def use(client):
    """Has a client use a connection that is lent to it."""
    assert client.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"


def queue(pooler, stack, already=0):
    """Clients that wait for a connection behind so many others, and what each must be answered."""
    clients = [stack.enter_context(Raw(pooler.port)) for _ in range(WAITERS)]
    for number, client in enumerate(clients):
        client.send(query(f"SELECT pg_advisory_xact_lock_shared({number + 1}), 'of {number}'"))
        waiting = already + number + 1
        wait_until(lambda waiting=waiting: int(pooler.show("POOLS")[0]["cl_waiting"]) == waiting)
    return [(client, f"T D:|of {number} C:SELECT 1 Z:I") for number, client in enumerate(clients)]


def check_queue(waiting):
    """Each has been answered what it asked for, and goes on."""
    for client, wanted in waiting:
        assert client.ask() == wanted
    for number, (client, _) in enumerate(waiting):
        assert client.sql(f"SELECT 'again {number}'") == f"T D:again {number} C:SELECT 1 Z:I"


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_client_reaches_a_server_before_the_alignment_is_answered(owner, place, stack, form):
    net, pooler = place
    x, other = differing(pooler, stack)
    link = next(link for link in net.links if not link.closed and link.asks("COMMIT"))
    before, inserts = link.asks("default_tablespace"), link.asks("INSERT")
    link.hold()
    unit, rest, done = FORMS[form]
    x.send(*unit)
    net.wait(lambda: link.asks("default_tablespace") > before)
    # The pooler has done all that it does with what the client sent.
    pooler.show("POOLS")
    assert link.asks("INSERT") == inserts and written(owner) == ""
    link.release()
    assert x.ask(*rest) == done
    assert written(owner) == "x"
    use(other)


def test_sessions_that_need_no_alignment_go_before_one_that_does_and_not_for_long(owner, place, stack):
    _, pooler = place
    holder, x, *alike = (stack.enter_context(Raw(pooler.port)) for _ in range(26))
    assert x.sql("SET default_tablespace = 'pg_default'") == "C:SET Z:I"
    assert holder.sql("BEGIN") == "C:BEGIN Z:T"
    for number, client in enumerate([x, *alike]):
        client.send(query(f"INSERT INTO aligned VALUES ('{'x' if client is x else number}')"))
        wait_until(lambda number=number: pooler.show("POOLS")[0]["cl_waiting"] == str(number + 1))
    assert holder.sql("COMMIT") == "C:COMMIT Z:I"
    for client in (x, *alike):
        assert client.ask() == "C:INSERT 0 1 Z:I"
    order = owner.value("SELECT string_agg(who, ' ' ORDER BY ctid) FROM aligned").split()
    assert order == [str(number) for number in range(1, 17)] + ["x"] + [str(number) for number in range(17, 25)]


@pytest.mark.parametrize(("settings", "most"), [("", 0), ("SET default_tablespace = 'pg_default'", 16)])
def test_reads_that_share_a_connection_go_before_a_write_not_for_long(server, owner, stack, settings, most):
    reading = query("SELECT count(*) FROM aligned")
    pooler = stack.enter_context(Pooler(server, default_pool_size=1))
    holder, x, *readers = (stack.enter_context(Raw(pooler.port)) for _ in range(42))
    assert holder.ask(reading) == "T D:0 C:SELECT 1 Z:I"
    pooler.wait_for_catalog()
    for _ in range(4):
        assert holder.ask(reading) == "T D:0 C:SELECT 1 Z:I"
    x.sql(settings)
    assert holder.sql("BEGIN") == "C:BEGIN Z:T"
    for number, client in enumerate([x, *readers], 1):
        client.send(query(INSERT) if client is x else reading)
        wait_until(lambda number=number: pooler.show("POOLS")[0]["cl_waiting"] == str(number))
    assert holder.sql("COMMIT") == "C:COMMIT Z:I"
    before = sum(reader.ask() == "T D:0 C:SELECT 1 Z:I" for reader in readers)
    assert x.ask() == "C:INSERT 0 1 Z:I"
    assert before <= most


@pytest.mark.parametrize("form", FORMS)
def test_a_cancel_during_an_alignment_answers_its_client_and_strikes_nobody(server, owner, place, stack, form):
    net, pooler = place
    x, _ = differing(pooler, stack)
    unit, rest, done = FORMS[form]
    with locked(server):
        x.send(*unit)
        wait_until(lambda: waits_for_lock(owner))
        waiting = queue(pooler, stack)
        # From now on the answers come as over a slow network: joined.
        net.delay = 0.05
        x.cancel(pooler.port)
        assert x.ask(*rest) == "E:57014 Z:I"
        assert net.errands == []
    check_queue(waiting)
    assert written(owner) == ""
    assert x.ask(*unit, *rest) == done
    assert written(owner) == "x"


STRIKES = {
    "statement_timeout": error("57014", "canceling statement due to statement timeout"),
    "terminated": error("57P01", "terminating connection due to administrator command", "FATAL"),
    "reset": None,
}


class Strike:
    """Strikes the first message that holds a text."""

    def __init__(self, marker, how):
        self.marker = marker
        self.how = how
        self.done = False

    def __call__(self, link, kind, body):
        """What is said instead of passing the message on."""
        if self.done or self.marker.encode() not in body:
            return None
        self.done = True
        if self.how == "reset":
            link.cut()
        elif b"FATAL" in STRIKES[self.how]:
            link.say(STRIKES[self.how])
            end(link.near, link.far)
        else:
            return STRIKES[self.how]
        return b""


@pytest.mark.parametrize("how", STRIKES)
def test_an_alignment_that_is_struck_loses_nothing(owner, place, stack, how):
    net, pooler = place
    x, other = differing(pooler, stack)
    assert other.sql("BEGIN") == "C:BEGIN Z:T"
    x.send(query(INSERT))
    wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
    waiting = queue(pooler, stack, already=1)
    net.instead = strike = Strike("default_tablespace", how)
    net.delay = 0.02
    assert other.sql("COMMIT") == "C:COMMIT Z:I"
    assert x.ask() == "C:INSERT 0 1 Z:I"
    check_queue(waiting)
    assert strike.done
    assert written(owner) == "x"
    assert x.value("SHOW default_tablespace") == "pg_default"
    assert other.value("SHOW default_tablespace") == ""


# What makes an alignment fail that is the client's own fault.

WRITES = {"query": [query("INSERT INTO t VALUES ('B')")], "read": [query("SELECT count(*) FROM t")]}
WRITES["flushed"] = [parse("", "INSERT INTO t VALUES ('B')"), bind(""), EXECUTE, FLUSH]


def refused(client, *parts):
    """Sends bytes, and checks that the client is refused for its own fault and has its connection ended."""
    client.send(*parts)
    kind, body = client.next()
    assert kind == b"E" and b"VFATAL" in body and b"C22023" in body, (kind, body)
    assert client.is_closed()


def in_tenants(owner):
    """How much stands in the tenants' tables."""
    return owner.value("SELECT (SELECT count(*) FROM tenant_a.t) + (SELECT count(*) FROM tenant_b.t)")


@pytest.mark.parametrize("form", WRITES)
def test_a_client_whose_role_is_gone_does_nothing_as_another(owner, place, stack, form):
    _, pooler = place
    for role in ("app_admin", "app_reader"):
        owner.sql(f"DROP OWNED BY {role}")
        owner.sql(f"DROP ROLE IF EXISTS {role}")
        owner.sql(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA tenant_a TO {role}; GRANT ALL ON tenant_a.t TO {role}")
    a, b, c = (stack.enter_context(Raw(pooler.port)) for _ in range(3))
    for client in (b, a):
        assert client.sql("SET search_path = tenant_a") == "C:SET Z:I"
    assert b.sql("SET ROLE app_reader") == "C:SET Z:I"
    for _ in range(3):
        assert b.sql("SELECT count(*) FROM t") == "T D:0 C:SELECT 1 Z:I"
    assert a.sql("SET ROLE app_admin") == "C:SET Z:I"
    owner.sql("DROP OWNED BY app_reader")
    assert owner.sql("DROP ROLE app_reader") == "C:DROP ROLE Z:I"
    # Those who wait for the connection meanwhile get it.
    a.sql("BEGIN")
    b.send(*WRITES[form])
    wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
    waiting = queue(pooler, stack, already=1)
    assert a.sql("COMMIT") == "C:COMMIT Z:I"
    refused(b)
    check_queue(waiting)
    who = "SELECT current_user || ' ' || current_setting('search_path')"
    assert c.value(who) == 'postgres "$user", public'
    assert a.value(who) == "app_admin tenant_a"
    assert in_tenants(owner) == "0"
