"""A server connection is brought in line with a client before anything of the client's reaches it.

What is held here is held by the server itself: `default_tablespace` is checked against `pg_tablespace`, so who has locked
that table holds an alignment that sets it for as long as it likes. What strikes an alignment is said in the server's
place.
"""

import contextlib

import pytest

from tests.pooler.interpose import Interposer, end, error
from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, direct, parse, query
from tests.pooler.test_protocol import cancel

INSERT = "INSERT INTO aligned VALUES ('x')"
# A unit, and what comes behind it once it was refused.
FORMS = {
    "query": ([query(INSERT)], []),
    "extended": ([parse("", INSERT), bind(""), EXECUTE, SYNC], []),
    "named": ([parse("n", INSERT), bind("n"), EXECUTE, SYNC], []),
    "flushed": ([parse("", INSERT), bind(""), EXECUTE, FLUSH], [SYNC]),
}
DONE = {
    "query": "C:INSERT 0 1 Z:I",
    "extended": "1 2 C:INSERT 0 1 Z:I",
    "named": "1 2 C:INSERT 0 1 Z:I",
    "flushed": "1 2 C:INSERT 0 1 Z:I",
}
WAITERS = 4


@pytest.fixture(params=["pipelining", "without"])
def pipelining(request):
    """Whether reads of several clients share a connection."""
    return request.param == "pipelining"


@pytest.fixture
def ground(server):
    """The tables of these tests, and a connection to look at them with."""
    with direct(server) as looker:
        looker.sql("DROP TABLE IF EXISTS aligned; CREATE TABLE aligned (who text)")
        yield looker


def written(looker):
    """What was written."""
    return looker.value("SELECT coalesce(string_agg(who, ' ' ORDER BY who), '') FROM aligned")


@contextlib.contextmanager
def locked(server):
    """While this lasts, nobody can set `default_tablespace`."""
    with direct(server) as locker:
        locker.sql("BEGIN")
        locker.sql("LOCK TABLE pg_tablespace IN ACCESS EXCLUSIVE MODE")
        yield locker


def waits_for_lock(looker):
    """Whether an alignment waits for the lock."""
    sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pg_tablespace'::regclass"
    return looker.value(sql) != "0"


def differing(pooler, stack, **options):
    """A client whose session differs from that of the pool's only connection, which is free, and the other client."""
    x, other = (stack.enter_context(Raw(pooler.port, **options)) for _ in range(2))
    assert x.sql("SET default_tablespace = 'pg_default'") == "C:SET Z:I"
    use(other)
    return x, other


def use(client):
    """Has a client use a connection that is lent to it."""
    assert client.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"


def queue(pooler, stack, count=WAITERS):
    """So many clients that wait for a connection, and what each must be answered."""
    clients = [stack.enter_context(Raw(pooler.port)) for _ in range(count)]
    for number, client in enumerate(clients):
        client.socket.settimeout(20)
        client.send(query(f"SELECT pg_advisory_xact_lock_shared({number + 1}), 'of {number}'"))
    wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == str(count))
    return [(client, f"T D:|of {number} C:SELECT 1 Z:I") for number, client in enumerate(clients)]


def check_queue(waiting):
    """Each has been answered what it asked for, and goes on."""
    for client, wanted in waiting:
        assert client.ask() == wanted
    for number, (client, _) in enumerate(waiting):
        assert client.sql(f"SELECT 'again {number}'") == f"T D:again {number} C:SELECT 1 Z:I"


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_client_reaches_a_server_before_the_alignment_is_answered(server, ground, pipelining, form):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        x, other = differing(pooler, stack)
        link = net.links[-1]
        before = link.asks("default_tablespace")
        link.hold()
        unit, rest = FORMS[form]
        x.send(*unit)
        net.wait(lambda: link.asks("default_tablespace") > before)
        # The pooler has done all that it does with what the client sent.
        pooler.show("POOLS")
        assert link.asks("INSERT") == 0
        assert written(ground) == ""
        link.release()
        assert x.ask(*rest) == DONE[form]
        assert written(ground) == "x"
        use(other)


def test_sessions_that_need_no_alignment_go_before_one_that_does_and_not_for_long(server, ground, pipelining):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        holder, x, *alike = (stack.enter_context(Raw(pooler.port)) for _ in range(26))
        assert x.sql("SET default_tablespace = 'pg_default'") == "C:SET Z:I"
        assert holder.sql("BEGIN") == "C:BEGIN Z:T"
        for number, client in enumerate([x, *alike]):
            client.send(query(f"INSERT INTO aligned VALUES ('{'x' if client is x else number}')"))
            wait_until(lambda number=number: pooler.show("POOLS")[0]["cl_waiting"] == str(number + 1))
        assert holder.sql("COMMIT") == "C:COMMIT Z:I"
        for client in (x, *alike):
            assert client.ask() == "C:INSERT 0 1 Z:I"
        order = ground.value("SELECT string_agg(who, ' ' ORDER BY ctid) FROM aligned").split()
        assert order == [str(number) for number in range(1, 17)] + ["x"] + [str(number) for number in range(17, 25)]


@pytest.mark.parametrize(("settings", "most"), [("", 0), ("SET default_tablespace = 'pg_default'", 16)])
def test_reads_that_share_a_connection_go_before_a_write_not_for_long(server, ground, settings, most):
    reading = query("SELECT count(*) FROM aligned")
    with contextlib.ExitStack() as stack:
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
def test_a_cancel_during_an_alignment_answers_its_client_and_strikes_nothing(server, ground, pipelining, form):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        x, other = differing(pooler, stack)
        with locked(server):
            unit, rest = FORMS[form]
            x.send(*unit)
            wait_until(lambda: waits_for_lock(ground))
            cancel(pooler.port, x.greeting)
            assert x.ask(*rest) == "E:57014 Z:I"
            assert net.errands == []
        assert x.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"
        assert written(ground) == ""
        assert x.ask(*unit, *rest) == DONE[form]
        assert written(ground) == "x"
        use(other)


STARTED = {"default_tablespace": "pg_default"}


def to_be_aligned_within(server, stack):
    """A pooler that pools sessions, and a client whose session has a temporary table and must be aligned next."""
    pooler = stack.enter_context(Pooler(server, pool_mode="session"))
    x = stack.enter_context(Raw(pooler.port, **STARTED))
    assert x.sql("CREATE TEMP TABLE own (a int)") == "C:CREATE TABLE Z:I"
    assert x.sql("RESET default_tablespace") == "C:RESET Z:I"
    return pooler, x


def test_a_cancel_during_an_alignment_keeps_the_session_of_a_client_that_has_one(server, ground):
    """In session pooling what was reset is brought in line within the session, which has a temporary table."""
    with contextlib.ExitStack() as stack:
        pooler, x = to_be_aligned_within(server, stack)
        with locked(server):
            x.send(query("INSERT INTO own VALUES (1)"))
            wait_until(lambda: waits_for_lock(ground))
            cancel(pooler.port, x.greeting)
            wait_until(lambda: x.waiting(0))
        assert x.ask() == "E:57014 Z:I"
        assert x.sql("SELECT count(*) FROM own") == "T D:0 C:SELECT 1 Z:I"


def test_a_session_that_is_lost_in_an_alignment_is_told_so(server, ground):
    with contextlib.ExitStack() as stack:
        _, x = to_be_aligned_within(server, stack)
        with locked(server):
            x.send(query("SELECT 1"))
            wait_until(lambda: waits_for_lock(ground))
            ground.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
            assert x.until(b"E")[-1][0] == b"E"
            assert x.is_closed()


def test_a_cancel_that_strikes_what_is_set_again_is_told_as_its_clients(server, ground):
    """Within a transaction what was reset is set again at the end of the unit, which ends with that."""
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server))
        x = stack.enter_context(Raw(pooler.port, **STARTED))
        assert x.sql("BEGIN") == "C:BEGIN Z:T"
        with locked(server):
            x.send(query("RESET default_tablespace"))
            wait_until(lambda: waits_for_lock(ground))
            cancel(pooler.port, x.greeting)
            assert x.ask() == "C:RESET E:57014 Z:E"
        assert x.sql("ROLLBACK") == "C:ROLLBACK Z:I"
        assert x.sql("SHOW default_tablespace") == "T D:pg_default C:SHOW Z:I"


def test_a_read_that_is_cancelled_during_an_alignment_is_answered_at_once(server, ground):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1))
        x, _ = differing(pooler, stack)
        known_as_a_read(x, "SELECT 1 AS a")
        # Another's session again.
        use(_)
        with locked(server):
            x.send(query("SELECT 1 AS a"))
            wait_until(lambda: waits_for_lock(ground))
            cancel(pooler.port, x.greeting)
            assert x.ask() == "E:57014 Z:I"
        assert x.sql("SELECT 2 AS a") == "T D:2 C:SELECT 1 Z:I"


def known_as_a_read(client, sql):
    """Runs a statement until it goes down a lane that others may share: the catalog has been read, and it is no new one."""
    for _ in range(3):
        client.kinds(query(sql))


@pytest.mark.parametrize("sslmode", ["disable", "prefer"])
@pytest.mark.parametrize("delay", [0, 0.05], ids=["at once", "joined"])
def test_a_cancel_during_an_alignment_takes_nothing_from_those_who_wait(server, ground, pipelining, delay, sslmode):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        settings = {"default_pool_size": 1, "pipelining": pipelining, "server_tls_sslmode": sslmode}
        pooler = stack.enter_context(Pooler(net, **settings))
        x, _ = differing(pooler, stack)
        with locked(server):
            x.send(query(INSERT))
            wait_until(lambda: waits_for_lock(ground))
            waiting = queue(pooler, stack)
            # From now on the answers come as over a slow network: joined.
            net.delay = delay
            cancel(pooler.port, x.greeting)
            assert x.ask() == "E:57014 Z:I"
        check_queue(waiting)
        assert written(ground) == ""
        assert x.sql("SELECT 1") == "T D:1 C:SELECT 1 Z:I"
        with Raw(pooler.port) as late:
            assert late.sql("SELECT 'late'") == "T D:late C:SELECT 1 Z:I"


STRIKES = {
    "statement_timeout": error("57014", "canceling statement due to statement timeout"),
    "lock_timeout": error("55P03", "canceling statement due to lock timeout"),
    "cancel": error("57014", "canceling statement due to user request"),
    "terminated": error("57P01", "terminating connection due to administrator command", "FATAL"),
    "transaction_timeout": error("25P04", "terminating connection due to transaction timeout", "FATAL"),
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
@pytest.mark.parametrize("form", ["query", "extended", "flushed"])
def test_an_alignment_that_is_struck_loses_nothing(server, ground, pipelining, form, how):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        x, other = differing(pooler, stack)
        net.instead = strike = Strike("default_tablespace", how)
        unit, rest = FORMS[form]
        assert x.ask(*unit, *rest) == DONE[form]
        assert strike.done
        assert written(ground) == "x"
        use(other)
        assert x.value("SHOW default_tablespace") == "pg_default"
        assert other.value("SHOW default_tablespace") == ""


@pytest.mark.parametrize("how", ["statement_timeout", "terminated", "reset"])
def test_a_read_whose_alignment_is_struck_is_answered(server, ground, how):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1))
        x, other = differing(pooler, stack)
        known_as_a_read(x, "SELECT current_setting('default_tablespace')")
        use(other)
        net.instead = strike = Strike("default_tablespace", how)
        # It names the parameter itself, so the alignment is the first that does.
        assert x.sql("SELECT current_setting('default_tablespace')") == "T D:pg_default C:SELECT 1 Z:I"
        assert strike.done


@pytest.mark.parametrize("how", STRIKES)
def test_an_alignment_that_is_struck_takes_nothing_from_those_who_wait(server, ground, pipelining, how):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        x, other = differing(pooler, stack)
        other.sql("BEGIN")
        x.send(query(INSERT))
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
        waiting = queue_behind(pooler, stack)
        net.instead = strike = Strike("default_tablespace", how)
        net.delay = 0.02
        assert other.sql("COMMIT") == "C:COMMIT Z:I"
        assert x.ask() == "C:INSERT 0 1 Z:I"
        check_queue(waiting)
        assert strike.done
        assert written(ground) == "x"


def queue_behind(pooler, stack):
    """As `queue`, behind one who waits already."""
    clients = [stack.enter_context(Raw(pooler.port)) for _ in range(WAITERS)]
    for number, client in enumerate(clients):
        client.send(query(f"SELECT pg_advisory_xact_lock_shared({number + 1}), 'of {number}'"))
        wait_until(lambda number=number: int(pooler.show("POOLS")[0]["cl_waiting"]) == number + 2)
    return [(client, f"T D:|of {number} C:SELECT 1 Z:I") for number, client in enumerate(clients)]


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
@pytest.mark.parametrize("whose", ["of the role", "of another client"])
def test_no_timeout_ends_an_alignment(server, ground, pipelining, limit, whose):
    ground.sql("DROP ROLE IF EXISTS hasty; CREATE ROLE hasty LOGIN; GRANT ALL ON aligned TO hasty")
    if whose == "of the role":
        ground.sql(f"ALTER ROLE hasty SET {limit} = '200ms'")
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        x, other = differing(pooler, stack, user="hasty")
        if whose == "of another client":
            assert other.sql(f"SET {limit} = '200ms'") == "C:SET Z:I"
        struck = server.log.read_text().count("canceling statement due to")
        with locked(server):
            x.send(query(INSERT))
            wait_until(lambda: waits_for_lock(ground))
            # Long enough for the timeout; where it strikes, the lock goes before it can strike again.
            with contextlib.suppress(AssertionError):
                wait_until(lambda: server.log.read_text().count("canceling statement due to") > struck, 0.5)
        assert x.ask() == "C:INSERT 0 1 Z:I"
        assert written(ground) == "x"
    ground.sql("DROP OWNED BY hasty; DROP ROLE hasty")


# What makes an alignment fail that is the client's own fault.


@pytest.fixture
def tenants(server):
    """Two tenants with a table each, which is called the same."""
    with direct(server) as looker:
        for name in ("tenant_a", "tenant_b"):
            looker.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}; CREATE TABLE {name}.t (who text)")
        for role in ("app_admin", "app_reader"):
            looker.sql(f"DROP ROLE IF EXISTS {role}")
            looker.sql(
                f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA tenant_a TO {role}; GRANT ALL ON tenant_a.t TO {role}"
            )
        yield looker
        looker.sql("DROP SCHEMA tenant_a CASCADE; DROP SCHEMA tenant_b CASCADE")
        for role in ("app_admin", "app_reader"):
            looker.sql(f"DROP ROLE IF EXISTS {role}")


def in_tenant(looker, name):
    """What stands in a tenant's table."""
    return looker.value(f"SELECT coalesce(string_agg(who, ' '), '') FROM {name}.t")


WRITES = {
    "query": [query("INSERT INTO t VALUES ('B')")],
    "extended": [parse("", "INSERT INTO t VALUES ('B')"), bind(""), EXECUTE, SYNC],
    "flushed": [parse("", "INSERT INTO t VALUES ('B')"), bind(""), EXECUTE, FLUSH],
    "read": [query("SELECT count(*) FROM t")],
}


def refused(client, *parts):
    """Sends bytes, and checks that the client is refused for its own fault and has its connection ended."""
    client.send(*parts)
    kind, body = client.next()
    assert kind == b"E" and b"VFATAL" in body and b"C22023" in body, (kind, body)
    assert client.is_closed()


@pytest.mark.parametrize("form", WRITES)
def test_a_client_whose_parameters_are_wrong_does_nothing_in_anothers_session(server, tenants, pipelining, form):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        a = stack.enter_context(Raw(pooler.port))
        assert a.sql("SET search_path = tenant_a") == "C:SET Z:I"
        for _ in range(3):
            assert a.sql("SELECT count(*) FROM t") == "T D:0 C:SELECT 1 Z:I"
        with Raw(pooler.port, login=False) as b:
            # PostgreSQL refuses such parameters at the login; a pooler may notice them later.
            b.send(startup(options="-c search_path=tenant_b -c work_mem=garbage"))
            messages = [b.next()]
            while messages[-1][0] not in (b"Z", b"E"):
                messages.append(b.next())
            if messages[-1][0] == b"Z":
                refused(b, *WRITES[form])
            else:
                assert b"VFATAL" in messages[-1][1] and b"C22023" in messages[-1][1]
        with Raw(pooler.port) as c:
            assert c.value("SHOW search_path") == '"$user", public'
        assert a.value("SHOW search_path") == "tenant_a"
        # Nobody has asked a server for it, let alone had it done.
        assert sum(link.asks("INSERT") for link in net.links) == 0
        assert in_tenant(tenants, "tenant_a") == in_tenant(tenants, "tenant_b") == ""


def startup(**parameters):
    """A startup packet."""
    given = {"user": "postgres", "database": "postgres", **parameters}
    body = b"\0\3\0\0" + b"".join(part.encode() + b"\0" for pair in given.items() for part in pair) + b"\0"
    return (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize("form", WRITES)
def test_a_client_whose_role_is_gone_does_nothing_as_another(server, tenants, pipelining, form):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        a, b, c = (stack.enter_context(Raw(pooler.port)) for _ in range(3))
        for client in (b, a):
            assert client.sql("SET search_path = tenant_a") == "C:SET Z:I"
        assert b.sql("SET ROLE app_reader") == "C:SET Z:I"
        for _ in range(3):
            assert b.sql("SELECT count(*) FROM t") == "T D:0 C:SELECT 1 Z:I"
        assert a.sql("SET ROLE app_admin") == "C:SET Z:I"
        tenants.sql("DROP OWNED BY app_reader")
        assert tenants.sql("DROP ROLE app_reader") == "C:DROP ROLE Z:I"
        assert a.value("SELECT current_user") == "app_admin"
        refused(b, *WRITES[form])
        assert c.value("SELECT current_user || ' ' || current_setting('search_path')") == 'postgres "$user", public'
        assert a.value("SELECT current_user || ' ' || current_setting('search_path')") == "app_admin tenant_a"
        assert sum(link.asks("INSERT") for link in net.links) == 0
        assert in_tenant(tenants, "tenant_a") == ""


def test_a_client_that_is_refused_keeps_nobody_from_the_pool(server, tenants, pipelining):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(server))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1, pipelining=pipelining))
        a, b = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        assert b.sql("SET ROLE app_reader") == "C:SET Z:I"
        assert a.sql("SET ROLE app_admin") == "C:SET Z:I"
        tenants.sql("DROP OWNED BY app_reader")
        assert tenants.sql("DROP ROLE app_reader") == "C:DROP ROLE Z:I"
        a.sql("BEGIN")
        b.send(query("SELECT 1"))
        wait_until(lambda: pooler.show("POOLS")[0]["cl_waiting"] == "1")
        waiting = queue_behind(pooler, stack)
        net.delay = 0.02
        assert a.sql("COMMIT") == "C:COMMIT Z:I"
        refused(b)
        check_queue(waiting)
        assert a.value("SELECT current_user") == "app_admin"
