"""Parameters that servers report: told as the server spells them, in any encoding, and tracked only where it reports them."""

import contextlib
import struct
import time

import pytest

from tests.pooler.interpose import Interposer
from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, SYNC, Raw, direct, message, parameters, parse, query, show

EACH_VERSION = True

GROUND = """
DROP SCHEMA IF EXISTS evil CASCADE; CREATE SCHEMA evil;
DROP TABLE IF EXISTS public.price; CREATE TABLE public.price AS SELECT 100 AS v; CREATE TABLE evil.price AS SELECT 1 AS v;
"""


@pytest.fixture(scope="module")
def ground(server):
    """Two tables of the same name, and a role whose name is not ASCII."""
    with direct(server) as looker:
        assert "E:" not in looker.sql(GROUND)
        if looker.value("SELECT count(*) FROM pg_roles WHERE rolname = 'é'") == "0":
            assert looker.sql('CREATE ROLE "é"; CREATE SCHEMA "é"') == "C:CREATE ROLE C:CREATE SCHEMA Z:I"
    return server


@pytest.fixture(scope="module", params=[True, False], ids=["pipelining", "without"])
def pooler(ground, request):
    """One server connection."""
    settings = {"default_pool_size": 1, "pipelining": request.param, "track_extra_parameters": "IntervalStyle"}
    with Pooler(ground, **settings) as running:
        yield running


def test_ignored_options_set_the_parameters_that_pgbouncer_tracks(ground):
    settings = {"ignore_startup_parameters": "options"}
    given = "-c timezone=Europe/Lisbon -c work_mem=7MB -c search_path=evil"
    with Pooler(ground, **settings) as pooler, Raw(pooler.port, options=given) as client:
        assert client.value("SHOW timezone") == "Europe/Lisbon"
        assert client.value("SHOW work_mem") == "4MB"
        assert client.value("SHOW search_path") == '"$user", public'
    tracked = settings | {"track_extra_parameters": "search_path"}
    with Pooler(ground, **tracked) as pooler, Raw(pooler.port, options=given) as client:
        assert client.value("SHOW search_path") == "evil"


@pytest.mark.parametrize("extra", ["IntervalStyle, search_path", "no_such_parameter, search_path, work_mem"])
def test_a_tracked_parameter_that_the_server_does_not_report_leaks_to_nobody(ground, extra):
    # `search_path` is reported from PostgreSQL 18 on, `work_mem` never.
    seen = "SELECT v, current_setting('work_mem') FROM price"
    with Pooler(ground, default_pool_size=1, track_extra_parameters=extra) as pooler, Raw(pooler.port) as b:
        for _ in range(4):
            assert b.sql(seen) == "T D:100|4MB C:SELECT 1 Z:I"
        with Raw(pooler.port, search_path="evil", options="-c work_mem=7MB") as a, Raw(pooler.port) as c:
            assert c.sql("SET search_path = evil") == "C:SET Z:I"
            assert c.sql("SET work_mem = '9MB'") == "C:SET Z:I"
            for _ in range(2):
                assert a.sql(seen) == "T D:1|7MB C:SELECT 1 Z:I"
                assert b.sql(seen) == "T D:100|4MB C:SELECT 1 Z:I"
                assert c.sql(seen) == "T D:1|9MB C:SELECT 1 Z:I"
            for sql in ("BEGIN", "SET search_path = public", "ROLLBACK"):
                assert "E:" not in c.sql(sql)
            assert b.sql(seen) == "T D:100|4MB C:SELECT 1 Z:I"
            assert c.sql(seen) == "T D:1|9MB C:SELECT 1 Z:I"


SPELLINGS = {
    "DateStyle": ["ISO", "iso, mdy", "SQL", "German", "postgres,dmy"],
    "client_encoding": ["utf-8", "utf8", "UNICODE", "latin1", "iso8859-1", "SQL_ASCII"],
    "TimeZone": ["utc", "asia/tokyo", "UTC", "5", "+03"],
    "standard_conforming_strings": ["true", "ON", "0", "yes"],
    "IntervalStyle": ["Postgres", "ISO_8601"],
}
ALL_SPELLINGS = [(name, value) for name, values in SPELLINGS.items() for value in values]


@pytest.mark.parametrize(("name", "value"), ALL_SPELLINGS)
def test_a_client_is_told_what_the_server_calls_a_parameter(ground, pooler, name, value):
    with direct(ground, **{name: value}) as truth:
        wanted = parameters(truth.greeting)[name]
        shown = truth.value(f"SHOW {name}")
    with Raw(pooler.port) as other, Raw(pooler.port, **{name: value}) as client:
        usual = other.value(f"SHOW {name}")
        told = parameters(client.greeting)
        for _ in range(3):
            client.send(query(f"SHOW {name}"))
            found = client.until(b"Z")
            # It may be told behind the greeting, but no later than this.
            told |= parameters(found)
            assert told[name] == wanted
            assert show(found) == f"T D:{shown} C:SHOW Z:I"
            assert other.value(f"SHOW {name}") == usual
        # Who comes later is greeted so at once.
        with Raw(pooler.port, **{name: value}) as late:
            late.send(query("SELECT 1"))
            assert (parameters(late.greeting) | parameters(late.until(b"Z")))[name] == wanted


@pytest.mark.parametrize(
    ("name", "value", "other"), [("DateStyle", "ISO", "iso, mdy"), ("client_encoding", "utf-8", "UTF8")]
)
def test_sessions_that_differ_in_spelling_alone_are_alike(ground, name, value, other):
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(Interposer(ground))
        pooler = stack.enter_context(Pooler(net, default_pool_size=1))
        clients = [stack.enter_context(Raw(pooler.port, **given)) for given in ({}, {name: value}, {name: other})]

        def turns():
            for client in clients:
                assert client.sql("SELECT 1 AS a") == "T D:1 C:SELECT 1 Z:I"
                assert client.ask(query("BEGIN"), query("COMMIT"), units=2) == "C:BEGIN Z:T C:COMMIT Z:I"

        turns()
        # What was judged before the catalog came is reset once more when it has.
        pooler.wait_for_catalog()
        for _ in range(4):
            turns()
        # The pooler opens connections of its own too, late on a busy machine, and names parameters at their beginning.
        links = list(net.links)
        before = sum(link.asks(name) + link.asks("RESET ALL") for link in links)
        for _ in range(5):
            turns()
        assert sum(link.asks(name) + link.asks("RESET ALL") for link in links) == before


def latin1(sql):
    """A Query in LATIN1."""
    return message(b"Q", sql.encode("latin1") + b"\0")


IN_LATIN1 = ['SET SESSION AUTHORIZATION "é"', 'SET search_path = "é"', "SET application_name = 'é'", 'SET ROLE "é"']
WHO = """SELECT session_user::text, current_user::text, current_setting('search_path'), current_setting('application_name')"""


def told(client, *parts):
    """What bytes are answered with, rows as they are."""
    client.send(*parts)
    return [(kind, body) for kind, body in client.until(b"Z") if kind not in (b"S", b"N")]


@pytest.mark.parametrize("sql", IN_LATIN1)
def test_a_reported_value_may_be_in_the_clients_own_encoding(ground, pooler, sql):
    with contextlib.ExitStack() as stack:
        truth = stack.enter_context(direct(ground, client_encoding="LATIN1"))
        other = stack.enter_context(Raw(pooler.port))
        before = told(other, query(WHO))
        with Raw(pooler.port, client_encoding="LATIN1") as client:
            # What cannot be said on another connection is kept on this one.
            for text in ("BEGIN", sql, WHO, "COMMIT", WHO):
                assert told(client, latin1(text)) == told(truth, latin1(text))
            assert client.value("SHOW client_encoding") == "LATIN1"
        # Nobody else is anybody else.
        assert told(other, query(WHO)) == before


@pytest.mark.parametrize("last", ["options", "search_path"])
def test_a_parameter_of_its_own_overrides_options_wherever_it_stands(server, pooler, last):
    given = {"search_path": "s2", "work_mem": "222kB", "options": "-c search_path=s1 -c work_mem=111kB -c my.tag=x"}
    given[last] = given.pop(last)
    with Raw(pooler.port, **given) as client, direct(server, **given) as own:
        for name in ("search_path", "work_mem", "my.tag"):
            assert client.value(f"SHOW {name}") == own.value(f"SHOW {name}")
        assert client.value("SHOW search_path") == "s2"


PATH = ", ".join(f"schema_number_{number}" for number in range(20))
# What the pooler sends to set a path again that a client has reset in a transaction: never within a message of the
# client's, whose bytes would become messages.
RESTORE = query("SET search_path=" + ", ".join(f"'{name}'" for name in PATH.split(", ")) + ";")


def spilled(head, size):
    """A message of a client, of which the last part, as long as what the pooler sends, is a Query of its own."""
    spill = "COMMIT; SET ROLE other_role; PREPARE mine AS SELECT 'of A'"
    spill = query(spill + " " * (len(RESTORE) - len(query(spill))))
    rest = b"v" * (size - 100_000 - len(RESTORE)) + struct.pack("!h", 0) + spill
    return head + b"v" * 100_000 + rest, rest


@pytest.mark.parametrize("what", ["a Bind", "lines of no COPY"])
def test_bytes_of_a_value_do_not_become_messages(server, what):
    with direct(server) as owner:
        if owner.value("SELECT count(*) FROM pg_roles WHERE rolname = 'other_role'") == "0":
            owner.sql("CREATE ROLE other_role")
    none = message(b"B", b"\0s\0" + struct.pack("!hhih", 0, 1, -1, 0))
    # Two users of the pooler, of one user on the server.
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, {"postgres": "user=postgres"}, default_pool_size=1))
        two = stack.enter_context(Raw(pooler.port, user="alice"))
        with Raw(pooler.port, user="mallory", search_path=PATH) as one:
            one.sql("SELECT 1")
            pooler.wait_for_catalog()
            one.ask(parse("s", "SELECT length($1::bytea)"), none, EXECUTE, SYNC)
            one.sql("BEGIN")
            one.ask(none, EXECUTE, SYNC)
            if what == "a Bind":
                body, rest = spilled(b"\0s\0" + struct.pack("!hhhi", 1, 1, 1, 200_000), 200_000)
                one.send(parse("other", "SELECT 1"), query("RESET search_path"), message(b"B", body)[: -len(rest)])
            else:
                body, rest = spilled(b"", 200_000)
                one.send(query("RESET search_path"), message(b"d", body)[: -len(rest)])
            time.sleep(0.3)
            one.send(rest, SYNC)
            # What becomes of the one is its own affair.
            while (found := one.next()) is not None and found[0] != b"Z":
                pass
        assert two.value("SELECT current_user") == "postgres"
        assert two.sql("EXECUTE mine").startswith("E:26000")
