"""What SET and RESET mean through a pooler that has one server connection for all: what they mean to PostgreSQL.

Each scenario is run by a client straight on the server and by one through the pooler. Every answer must be the same, and
so must be what the client then finds its session to be. Strangers, each with a session of its own, use the same server
connection between any two steps, and find theirs as they left it.
"""

import contextlib
import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, direct, parse, query, show, values

# What every client looks at, and must find as it would without others.
WATCHED = [
    "my.tag",
    "search_path",
    "role",
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "client_encoding",
    "standard_conforming_strings",
    "application_name",
    "work_mem",
    "statement_timeout",
    "lock_timeout",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "default_transaction_deferrable",
    "transaction_isolation",
    "xmloption",
    "default_tablespace",
    "bytea_output",
]
SHOWN = ", ".join(f"coalesce(current_setting('{name}', true), '')" for name in WATCHED)
LOOK = f"SELECT current_user, session_user, {SHOWN}"
# As a client asks that has no reason to suspect anything.
READ = "SELECT w FROM t"


def x(*statements):
    """A unit of the extended protocol with these statements."""
    return [part for sql in statements for part in (parse("", sql), bind(""), EXECUTE)] + [SYNC]


class Scenario:
    """Steps, each a text or the messages of a unit, of a client with these startup parameters. What is `lost` is undone for
    its client too, as the guide says, and only strangers are asked.
    """

    def __init__(self, *steps, lost=False, **startup):
        self.steps = [[query(step)] if isinstance(step, str) else step for step in steps]
        self.lost = lost
        self.startup = startup


FAILING = "INSERT INTO public.deferred VALUES (1), (1)"
TAG = "SET my.tag = 'of A'"
OTHER = "SET my.tag = 'other of A'"
# More than are remembered, as drivers make one before each statement.
MANY_OF_ONE_NAME = [query("SAVEPOINT s")] * 1100
# Like a stranger.
LIKE = {"TimeZone": "Asia/Tokyo"}
UNDONE = {
    # A RESET or SET that an error in its unit undoes.
    "a RESET, then an error, in a unit": Scenario(TAG, x("RESET my.tag", "SELECT 1/0")),
    "a SET, then an error, in a unit": Scenario(TAG, x(OTHER, "SELECT 1/0")),
    "a first SET, then an error, in a unit": Scenario(x(TAG, "SELECT 1/0")),
    "a RESET, then no SQL, in a unit": Scenario(TAG, x("RESET my.tag", "SELEC")),
    "a RESET, then a Bind of nothing": Scenario(TAG, [*x("RESET my.tag")[:-1], bind("nothing"), EXECUTE, SYNC]),
    "a read, a RESET, an error, in a unit": Scenario(TAG, x("SELECT 1", "RESET my.tag", "SELECT 1/0")),
    "a RESET and a read in a unit": Scenario(TAG, x("RESET my.tag", "SELECT 1")),
    "a SET and a read in a unit": Scenario(x(TAG, "SELECT 1")),
    "two SETs in a unit": Scenario(x(TAG, OTHER)),
    "two SETs and an error in a unit": Scenario(TAG, x("SET my.tag = 'b'", "SET work_mem = '3MB'", "SELECT 1/0")),
    "SET TO DEFAULT and an error": Scenario(TAG, x("SET my.tag TO DEFAULT", "SELECT 1/0")),
    "RESET ALL and an error": Scenario(TAG, x("RESET ALL", "SELECT 1/0")),
    "SET SESSION and an error": Scenario(TAG, x("SET SESSION my.tag TO 'x'", "SELECT 1/0")),
    "RESET ROLE and an error": Scenario("SET ROLE r_bob", x("RESET ROLE", "SELECT 1/0")),
    "SET ROLE and an error": Scenario("SET ROLE r_bob", x("SET ROLE r_carol", "SELECT 1/0")),
    "RESET SESSION AUTHORIZATION and an error": Scenario(
        "SET SESSION AUTHORIZATION r_bob", x("RESET SESSION AUTHORIZATION", "SELECT 1/0")
    ),
    "a reported RESET and an error": Scenario("SET TimeZone = 'Asia/Tokyo'", x("RESET TimeZone", "SELECT 1/0")),
    "a reported SET and an error": Scenario("SET TimeZone = 'Asia/Tokyo'", x("SET TimeZone = 'UTC'", "SELECT 1/0")),
    "RESET statement_timeout and an error": Scenario(
        "SET statement_timeout = '7s'", x("RESET statement_timeout", "SELECT 1/0")
    ),
    "RESET search_path and an error": Scenario("SET search_path = sa", x("RESET search_path", "SELECT 1/0"), READ),
    "a read-only session, reset, and an error": Scenario(
        "SET default_transaction_read_only = on", x("RESET default_transaction_read_only", "SELECT 1/0")
    ),
    "a reported RESET, committed within its unit": Scenario(
        "SET TimeZone = 'Asia/Tokyo'", x("BEGIN", "RESET TimeZone", "COMMIT"), TimeZone="America/Lima"
    ),
    "a reported RESET, and a SET behind it": Scenario(
        x("RESET TimeZone", "SET TimeZone = 'Asia/Tokyo'"), TimeZone="America/Lima"
    ),
    "a reported SET, and a RESET behind it": Scenario(
        x("SET TimeZone = 'Asia/Tokyo'", "RESET TimeZone"), TimeZone="America/Lima"
    ),
    "a reported RESET, kept by a chain": Scenario(
        "SET TimeZone = 'Asia/Tokyo'",
        x("BEGIN", "RESET TimeZone", "COMMIT AND CHAIN"),
        "ROLLBACK",
        TimeZone="America/Lima",
    ),
    # DISCARD ALL is committed at once, whatever becomes of its unit.
    "DISCARD ALL and an error in a unit": Scenario("SET ROLE r_bob", x("DISCARD ALL", "SELECT 1/0"), **LIKE),
    "DISCARD ALL and a Bind of nothing": Scenario(
        "SET ROLE r_bob", [*x("DISCARD ALL")[:-1], bind("nothing"), EXECUTE, SYNC], **LIKE
    ),
    "DISCARD ALL, then a SET and an error in a unit": Scenario(
        "SET ROLE r_bob", x("DISCARD ALL", TAG, "SELECT 1/0"), **LIKE
    ),
    # The same in one Query.
    "a RESET; an error": Scenario(TAG, "RESET my.tag; SELECT 1/0"),
    "a SET; an error": Scenario(TAG, "SET my.tag = 'x'; SELECT 1/0"),
    "a RESET; a read": Scenario(TAG, "RESET my.tag; SELECT 1", lost=True),
    "a SET; a read": Scenario(TAG, "SET my.tag = 'x'; SELECT 1", lost=True),
    "a transaction in a Query, rolled back": Scenario(TAG, "BEGIN; RESET my.tag; ROLLBACK"),
    "a transaction in a Query": Scenario(TAG, "BEGIN; RESET my.tag; COMMIT", lost=True),
    # At the end of a transaction.
    "a COMMIT that fails": Scenario("SET search_path = sa", "BEGIN", "SET search_path = sb", FAILING, "COMMIT", READ),
    "a RESET before a COMMIT that fails": Scenario(TAG, "BEGIN", "RESET my.tag", FAILING, "COMMIT"),
    "a COMMIT that fails, extended": Scenario(TAG, x("BEGIN"), x(OTHER), x(FAILING), x("COMMIT")),
    "a whole transaction that fails in a unit": Scenario(TAG, x("BEGIN", OTHER, FAILING, "COMMIT")),
    "a Sync that fails": Scenario(TAG, x("RESET my.tag", FAILING)),
    "a Sync that fails, a role": Scenario("SET ROLE r_bob", x("RESET ROLE", FAILING)),
    "COMMIT after an error": Scenario(TAG, "BEGIN", "RESET my.tag", "SELECT 1/0", "COMMIT"),
    "ROLLBACK": Scenario(TAG, "BEGIN", "RESET my.tag", "ROLLBACK"),
    "ROLLBACK after an error": Scenario(TAG, "BEGIN", OTHER, "SELECT 1/0", "ROLLBACK"),
    "ROLLBACK; a read": Scenario(TAG, "BEGIN", "RESET my.tag", "ROLLBACK; SELECT 1"),
    "ABORT": Scenario(TAG, "BEGIN", OTHER, "ABORT"),
    "END": Scenario(TAG, "BEGIN", OTHER, "END"),
    "COMMIT": Scenario("BEGIN", TAG, "SET work_mem = '5MB'", "COMMIT"),
    "RESET, COMMIT": Scenario(TAG, "BEGIN", "RESET my.tag", "COMMIT"),
    "extended, one Sync, committed": Scenario(TAG, x("BEGIN", "RESET my.tag", "COMMIT")),
    "extended, one Sync, rolled back": Scenario(TAG, x("BEGIN", "RESET my.tag", "ROLLBACK")),
    "committed, then an error in the same unit": Scenario(x("BEGIN", TAG, "COMMIT", OTHER, "SELECT 1/0")),
    "rolled back, then set in the same unit": Scenario(x("BEGIN", TAG, "ROLLBACK", OTHER)),
    "extended, rolled back after an error": Scenario(TAG, x("BEGIN", "RESET my.tag", "SELECT 1/0"), x("ROLLBACK")),
    "a reported SET, rolled back": Scenario("BEGIN", "SET DateStyle = 'German'", "ROLLBACK"),
    "a reported SET, committed": Scenario("BEGIN", "SET DateStyle = 'German'", "COMMIT"),
    "a reported SET whose COMMIT fails": Scenario("BEGIN", "SET TimeZone = 'Asia/Tokyo'", FAILING, "COMMIT"),
    "SET LOCAL": Scenario(TAG, "BEGIN", "SET LOCAL my.tag = 'local'", "COMMIT"),
    "SET LOCAL, then SET": Scenario("BEGIN", "SET LOCAL my.tag = 'local'", TAG, "COMMIT"),
    "SET, then SET LOCAL": Scenario("BEGIN", TAG, "SET LOCAL my.tag = 'local'", "COMMIT"),
    "SET LOCAL ROLE": Scenario("BEGIN", "SET LOCAL ROLE r_bob", "COMMIT"),
    "SET TRANSACTION": Scenario("BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT 1", "COMMIT"),
    # Chains.
    "COMMIT AND CHAIN, ROLLBACK": Scenario("BEGIN", TAG, "COMMIT AND CHAIN", OTHER, "ROLLBACK"),
    "COMMIT AND CHAIN, COMMIT": Scenario("BEGIN", TAG, "COMMIT AND CHAIN", "SET work_mem = '5MB'", "COMMIT"),
    "ROLLBACK AND CHAIN, COMMIT": Scenario("BEGIN", TAG, "ROLLBACK AND CHAIN", "SET work_mem = '5MB'", "COMMIT"),
    "COMMIT AND CHAIN that fails": Scenario("BEGIN", TAG, FAILING, "COMMIT AND CHAIN", "SELECT 1"),
    "COMMIT AND CHAIN, an error, COMMIT": Scenario("BEGIN", TAG, "COMMIT AND CHAIN", OTHER, "SELECT 1/0", "COMMIT"),
    "chains in a unit": Scenario(x("BEGIN", TAG, "COMMIT AND CHAIN", OTHER, "ROLLBACK")),
    # Savepoints.
    "before and behind a savepoint that is rolled back to": Scenario(
        "BEGIN", TAG, "SAVEPOINT s", OTHER, "ROLLBACK TO s", "COMMIT"
    ),
    "behind a savepoint that is rolled back to": Scenario(
        TAG, "BEGIN", "SAVEPOINT s", "RESET my.tag", "ROLLBACK TO s", "COMMIT"
    ),
    "an error behind a savepoint": Scenario(
        TAG, "BEGIN", "SAVEPOINT s", "RESET my.tag", "SELECT 1/0", "ROLLBACK TO s", "COMMIT"
    ),
    "after a savepoint was rolled back to": Scenario(
        "BEGIN", "SAVEPOINT s", TAG, "ROLLBACK TO s", "SET work_mem = '5MB'", "COMMIT"
    ),
    "a savepoint that is released": Scenario("BEGIN", "SAVEPOINT s", TAG, "RELEASE s", "COMMIT"),
    "a savepoint released in one rolled back to": Scenario(
        "BEGIN", "SAVEPOINT s", TAG, "SAVEPOINT t", OTHER, "RELEASE t", "ROLLBACK TO s", "COMMIT"
    ),
    "two savepoints, the outer rolled back to": Scenario(
        "BEGIN", TAG, "SAVEPOINT s", OTHER, "SAVEPOINT t", "RESET my.tag", "ROLLBACK TO s", "COMMIT"
    ),
    "two savepoints, the inner rolled back to": Scenario(
        "BEGIN", TAG, "SAVEPOINT s", OTHER, "SAVEPOINT t", "RESET my.tag", "ROLLBACK TO t", "COMMIT"
    ),
    "savepoints of the same name": Scenario(
        "BEGIN",
        TAG,
        "SAVEPOINT s",
        OTHER,
        "SAVEPOINT s",
        "RESET my.tag",
        "ROLLBACK TO s",
        "RELEASE s",
        "ROLLBACK TO s",
        "COMMIT",
    ),
    "a savepoint rolled back to, then all": Scenario(TAG, "BEGIN", "SAVEPOINT s", OTHER, "ROLLBACK TO s", "ROLLBACK"),
    "a savepoint in a unit": Scenario(x("BEGIN", TAG, "SAVEPOINT s", OTHER, "ROLLBACK TO s", "COMMIT")),
    "a reported SET behind a savepoint": Scenario(
        "BEGIN", "SAVEPOINT s", "SET TimeZone = 'Asia/Tokyo'", "ROLLBACK TO s", "COMMIT"
    ),
    "a savepoint among several statements": Scenario(
        "BEGIN", "SAVEPOINT s", "SET ROLE r_bob", "SAVEPOINT s; SELECT 1", "ROLLBACK TO s", "COMMIT"
    ),
    "a savepoint released among several statements": Scenario(
        "BEGIN", "SAVEPOINT s", "SET ROLE r_bob", "SAVEPOINT s", "RELEASE s; SELECT 1", "ROLLBACK TO s", "COMMIT"
    ),
    "a savepoint rolled back to among several statements": Scenario(
        "BEGIN", "SET ROLE r_bob", "SAVEPOINT s", TAG, "ROLLBACK TO s; SELECT 1", "COMMIT"
    ),
    "behind many savepoints of one name": Scenario("BEGIN", MANY_OF_ONE_NAME, "SET ROLE r_bob", "COMMIT"),
    "before and behind many savepoints of one name": Scenario(
        "BEGIN", "SET ROLE r_carol", MANY_OF_ONE_NAME, "RESET ROLE", "COMMIT"
    ),
    "quoted savepoints": Scenario("BEGIN", 'SAVEPOINT "S"', TAG, "SAVEPOINT s", OTHER, 'ROLLBACK TO "S"', "COMMIT"),
}

START = {"options": "-c my.tag=begun -c work_mem=3MB -c statement_timeout=9s", "search_path": "sa"}
MEANT = {
    # RESET leads to what the client has asked for at its start.
    "RESET to the start": Scenario(
        TAG, "RESET my.tag", "SET search_path = sb", READ, "RESET search_path", READ, **START
    ),
    "SET TO DEFAULT to the start": Scenario("SET work_mem = '5MB'", "SET work_mem TO DEFAULT", **START),
    "RESET ALL to the start": Scenario("SET search_path = sb", TAG, "RESET ALL", READ, **START),
    "DISCARD ALL to the start": Scenario("SET search_path = sb", "SET ROLE r_bob", "DISCARD ALL", READ, **START),
    "DISCARD ALL of nothing": Scenario("DISCARD ALL", READ, **START),
    "RESET of nothing": Scenario("RESET search_path", READ, **START),
    "RESET of what is reported": Scenario(
        "SET TimeZone = 'UTC'",
        "RESET TimeZone",
        "SET DateStyle = 'German'",
        "RESET DateStyle",
        "SET TIME ZONE 5",
        "RESET TIME ZONE",
        TimeZone="Asia/Tokyo",
        DateStyle="SQL, DMY",
    ),
    "DISCARD ALL of what is reported": Scenario(
        "SET TimeZone = 'UTC'", "SET application_name = 'b'", "DISCARD ALL", TimeZone="Asia/Tokyo", application_name="a"
    ),
    "RESET ALL of what is reported": Scenario(
        "SET TimeZone = 'UTC'",
        "SET client_encoding = 'LATIN1'",
        "RESET ALL",
        TimeZone="Asia/Tokyo",
        application_name="a",
    ),
    "SET LOCAL over the start": Scenario("BEGIN", "SET LOCAL search_path = sb", READ, "COMMIT", READ, **START),
    # Within a transaction a startup value is set behind a RESET, which must not end what lasts for the transaction.
    "RESET, then SET LOCAL, in a unit": Scenario(
        "BEGIN", x("RESET search_path", "SET LOCAL search_path = sb"), READ, "COMMIT", READ, **START
    ),
    "RESET ALL, then SET LOCAL, in a unit": Scenario(
        "BEGIN",
        x("RESET ALL", "SET LOCAL search_path = sb", "SET LOCAL my.tag = 'local'"),
        READ,
        LOOK,
        "COMMIT",
        **START,
    ),
    "BEGIN, RESET and SET LOCAL in a text": Scenario(
        "BEGIN; RESET search_path; SET LOCAL search_path = sb", READ, "COMMIT", READ, **START
    ),
    "RESET, SET LOCAL, RESET": Scenario(
        "BEGIN",
        x("RESET search_path", "SET LOCAL search_path = sb", "RESET search_path"),
        READ,
        "COMMIT",
        READ,
        **START,
    ),
    "SET LOCAL, then RESET, in a unit": Scenario(
        "BEGIN", x("SET LOCAL search_path = sb", "RESET search_path"), READ, "COMMIT", READ, **START
    ),
    "RESET, SET LOCAL TO DEFAULT": Scenario(
        "BEGIN", x("RESET search_path", "SET LOCAL search_path TO DEFAULT"), READ, "COMMIT", READ, **START
    ),
    "RESET, then SET LOCAL, of what is reported": Scenario(
        "BEGIN", x("RESET TimeZone", "SET LOCAL TimeZone = 'UTC'"), LOOK, "COMMIT", TimeZone="Asia/Tokyo"
    ),
    "RESET and SET LOCAL, undone by a savepoint": Scenario(
        "BEGIN",
        "SAVEPOINT s",
        x("RESET search_path", "SET LOCAL search_path = sb"),
        "ROLLBACK TO s",
        READ,
        "COMMIT",
        READ,
        **START,
    ),
    "RESET to the start, rolled back": Scenario(TAG, "BEGIN", "RESET my.tag", "ROLLBACK", **START),
    "DISCARD ALL among the extended": Scenario("SET search_path = sb", x("DISCARD ALL"), READ, **START),
    # In the order in which PostgreSQL would have them.
    "search_path, then SCHEMA": Scenario("SET search_path = sa", "SET SCHEMA 'sb'", READ),
    "SCHEMA, then search_path": Scenario("SET SCHEMA 'sb'", "SET search_path = sa", READ),
    "SCHEMA, then RESET search_path": Scenario("SET SCHEMA 'sb'", "RESET search_path", READ, **START),
    "SESSION AUTHORIZATION, then ROLE": Scenario("SET SESSION AUTHORIZATION r_bob", "SET ROLE r_carol"),
    "ROLE, then SESSION AUTHORIZATION": Scenario("SET ROLE r_carol", "SET SESSION AUTHORIZATION r_bob"),
    "RESET SESSION AUTHORIZATION after ROLE": Scenario(
        "SET SESSION AUTHORIZATION r_bob", "SET ROLE r_carol", "RESET SESSION AUTHORIZATION"
    ),
    "SESSION AUTHORIZATION DEFAULT after ROLE": Scenario(
        "SET SESSION AUTHORIZATION r_bob", "SET ROLE r_carol", "SET SESSION AUTHORIZATION DEFAULT"
    ),
    "RESET SESSION AUTHORIZATION with a ROLE of the start": Scenario("SET ROLE r_carol", "RESET SESSION AUTHORIZATION"),
    "ROLE NONE": Scenario("SET ROLE r_carol", "SET ROLE NONE"),
    "RESET ALL keeps the role": Scenario("SET ROLE r_carol", "SET my.tag = 'x'", "RESET ALL"),
    "RESET ALL keeps the session's authorization": Scenario("SET SESSION AUTHORIZATION r_bob", "RESET ALL"),
    "role as a parameter": Scenario("SET role = 'r_carol'", "SET role TO DEFAULT"),
    "session_authorization as a parameter": Scenario(
        "SET session_authorization = 'r_bob'", "RESET session_authorization"
    ),
    "a role of the startup packet": Scenario("SET ROLE r_bob", "RESET ROLE", options="-c role=r_carol"),
    "a setting that only the role may make": Scenario(
        "SET ROLE r_bob", "SET my.tag = 'as bob'", "SET search_path = sa", "SHOW search_path"
    ),
    "a setting that the role may not make": Scenario(
        # The superuser's own, made before it became another.
        "SET session_replication_role = 'replica'",
        "SET ROLE r_bob",
        "SHOW session_replication_role",
    ),
    "XML OPTION": Scenario("SET xmloption = 'document'", "SET XML OPTION CONTENT", "SHOW xmloption"),
    "XML OPTION, then xmloption": Scenario("SET XML OPTION DOCUMENT", "SET xmloption = 'content'"),
    "XML OPTION, reset": Scenario("SET XML OPTION DOCUMENT", "RESET xmloption"),
    "NAMES, then client_encoding": Scenario("SET NAMES 'LATIN1'", "SET client_encoding = 'UTF8'"),
    "client_encoding, then NAMES": Scenario("SET client_encoding = 'UTF8'", "SET NAMES 'LATIN1'", "SET NAMES DEFAULT"),
    "TIME ZONE in its forms": Scenario(
        "SET TIME ZONE 'Asia/Tokyo'",
        "SET TIME ZONE INTERVAL '-3:30' HOUR TO MINUTE",
        "SET TIME ZONE -7",
        "SET TIME ZONE LOCAL",
        "SET TIME ZONE DEFAULT",
    ),
    "SESSION CHARACTERISTICS": Scenario(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    ),
    "SESSION CHARACTERISTICS, then its parameter": Scenario(
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET default_transaction_isolation = 'repeatable read'",
    ),
    "SESSION CHARACTERISTICS, reset": Scenario(
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "RESET default_transaction_read_only"
    ),
    "a parameter outside a transaction that lasts for one": Scenario(
        "SET transaction_read_only = on", "SET TRANSACTION READ ONLY", "SET transaction_isolation = 'serializable'"
    ),
    # However it is written.
    "a comment behind": Scenario("SET search_path = sa /* app=shop */", READ),
    "a comment of a line behind": Scenario("SET search_path = sa -- app=shop", READ),
    "comments before and between": Scenario("/* a */ SET -- b\n search_path /* c */ = sa;", READ),
    "nested comments": Scenario("/* a /* b */ */ SET search_path = sa", READ),
    "a semicolon in the value": Scenario("SET my.tag = 'a;b'"),
    "a comment in the value": Scenario("SET my.tag = 'a -- b /* c */'"),
    "quotes in the value": Scenario("SET my.tag = 'it''s'", r"SET my.tag = E'\\x\'y'", "SET my.tag = $q$a;'b$q$"),
    "quoted names": Scenario('SET "my"."tag" = 1', 'SET "search_path" = sa', "SET \"TimeZone\" = 'Asia/Tokyo'", READ),
    "names in any case": Scenario("sEt SEARCH_PATH tO sa", "SET My.Tag = 'x'", "rEsEt My.TAG", READ),
    "a list": Scenario('SET search_path = sa, "$user", "Sb", public', READ),
    "a list of one quoted list": Scenario("SET search_path = 'sa, public'"),
    "numbers and units": Scenario("SET work_mem = 5000", "SET work_mem = '6MB'", "SET statement_timeout = 7.5"),
    "no value": Scenario("SET search_path = ''", "SET search_path TO DEFAULT", READ),
    "on and off": Scenario("SET standard_conforming_strings = off", "SET standard_conforming_strings = on"),
    "backslashes without standard_conforming_strings": Scenario(
        "SET standard_conforming_strings = off", r"SET my.tag = 'a\\b\'c'"
    ),
    "a trailing semicolon and blanks": Scenario("SET search_path = sa ;  \n", READ),
    "extended": Scenario(x("SET search_path = sa /* app=shop */"), READ, x("RESET search_path"), READ),
    "characters beyond ASCII": Scenario("SET my.tag = 'é, 日本'", "SELECT current_setting('my.tag')"),
    "a SET that fails": Scenario(TAG, "SET work_mem = 'rubbish'", "SET nothing_like_it = 1", "RESET nothing_like_it"),
    "a parameter that cannot be changed": Scenario("SET max_connections = 1", "RESET max_connections"),
    # What the text does not tell.
    "set_config": Scenario("SELECT set_config('my.tag', 'x', false)", lost=True),
    "set_config of a reported parameter": Scenario("SELECT set_config('TimeZone', 'Asia/Tokyo', false)", lost=True),
    "set_config to the end of the transaction": Scenario("SELECT set_config('my.tag', 'x', true)", "SELECT 1"),
    "a SET in a DO": Scenario("DO $$ BEGIN SET my.tag = 'x'; SET ROLE r_bob; END $$", lost=True),
    "a SET in a function": Scenario("SELECT tags('x')", READ, lost=True),
    "a SET in a procedure": Scenario("CALL tag_all('x')", lost=True),
    "UPDATE pg_settings": Scenario(
        "UPDATE pg_settings SET setting = 'x' WHERE name = 'my.tag'",
        TAG,
        "UPDATE pg_settings SET setting = 'x' WHERE name = 'my.tag'",
        lost=True,
    ),
    "several SETs": Scenario("SET search_path = sa; SET SCHEMA 'sb'", READ, lost=True),
}
SCENARIOS = UNDONE | MEANT

GROUND = """
DROP SCHEMA IF EXISTS sa, sb, "Sb" CASCADE; CREATE SCHEMA sa; CREATE SCHEMA sb; CREATE SCHEMA "Sb";
CREATE TABLE sa.t AS SELECT 'sa' AS w; CREATE TABLE sb.t AS SELECT 'sb' AS w; DROP TABLE IF EXISTS public.t;
CREATE TABLE public.t AS SELECT 'public' AS w;
GRANT USAGE ON SCHEMA sa, sb TO PUBLIC; GRANT SELECT ON sa.t, sb.t TO PUBLIC;
DROP TABLE IF EXISTS deferred; CREATE TABLE deferred (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE OR REPLACE FUNCTION tags(x text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.tag', x, false); SET search_path = sb; RETURN x; END $$;
CREATE OR REPLACE FUNCTION says_stable(x text) RETURNS text STABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.tag', x, false); RETURN x; END $$;
CREATE OR REPLACE PROCEDURE tag_all(x text) LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.tag', x, false); COMMIT; SET ROLE r_bob; END $$;
"""
ROLES = "SELECT count(*) FROM pg_roles WHERE rolname IN ('r_bob', 'r_carol')"


@pytest.fixture(scope="module")
def ground(server):
    """Two schemas with a table each, two roles, and what sets parameters without saying so."""
    with direct(server) as looker:
        if looker.value(ROLES) == "0":
            looker.sql("CREATE ROLE r_bob; CREATE ROLE r_carol; GRANT r_carol TO r_bob")
        assert "E:" not in looker.sql(GROUND)
    return server


class Stranger:
    """A client with a session of its own, which it must always find as it is."""

    def __init__(self, port, *sets, **startup):
        self.client = Raw(port, **startup)
        for sql in sets:
            assert self.client.sql(sql) == "C:SET Z:I"
        self.session = session(self.client)
        self.read = self.client.sql(READ)

    def look(self, when):
        """It is what it was."""
        assert session(self.client) == self.session, f"a stranger's session {when}"
        assert self.client.sql(READ) == self.read, f"what a stranger reads {when}"


def strangers(port):
    """One with nothing of its own, and some with what others may be thought to have."""
    return [
        Stranger(port),
        Stranger(port, "SET my.tag = 'of A'", "SET search_path = sa"),
        Stranger(port, "SET my.tag = 'other of A'", "SET search_path = sb"),
        Stranger(port, "SET ROLE r_bob", TimeZone="Asia/Tokyo"),
    ]


def session(client):
    """What a client finds its session to be."""
    client.send(query(LOOK))
    return dict(zip(["current_user", "session_user", *WATCHED], values(client.until(b"Z")), strict=True))


def units(step):
    """How many units a step is."""
    return sum(part[:1] in (b"Q", b"S") for part in step)


@pytest.mark.parametrize("way", ["pipelining, alone", "pipelining, strangers between", "without, strangers between"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_session_is_what_it_would_be_without_a_pooler(ground, name, way):
    scenario = SCENARIOS[name]
    pipelining = way.startswith("pipelining")
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1, pipelining=pipelining))
        others = strangers(pooler.port)
        stack.callback(lambda: [other.client.socket.close() for other in others])
        truth = stack.enter_context(direct(ground, **scenario.startup))
        client = stack.enter_context(Raw(pooler.port, **scenario.startup))
        for number, step in enumerate([[query(LOOK)], *scenario.steps]):
            wanted, got = (each.ask(*step, units=units(step)) for each in (truth, client))
            assert got == wanted or scenario.lost, f"step {number}"
            if not wanted.endswith("Z:I"):
                continue
            if way.endswith("strangers between"):
                for place in range(len(others)):
                    others[(place + number) % len(others)].look(f"after step {number}")
            if not scenario.lost:
                for _ in range(2):
                    assert session(client) == session(truth), f"after step {number}"
        for other in others:
            other.look("in the end")
        with Raw(pooler.port) as late, direct(ground) as plain:
            assert session(late) == session(plain)


# What a statement timeout strikes that has run out behind the last answer of a unit: each what the unit does, and what
# ends the transaction that it leaves.
LATE = {
    "a SET": ([TAG], None),
    "a RESET": (["RESET my.tag"], None),
    "BEGIN": (["BEGIN"], "ROLLBACK"),
    "BEGIN and a SET": (["BEGIN", OTHER], "COMMIT"),
    "a transaction": (["BEGIN", OTHER, "COMMIT"], None),
}


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
@pytest.mark.parametrize("name", LATE)
def test_a_timeout_behind_the_last_answer_of_a_unit_undoes_what_it_would_without_a_pooler(ground, name, pipelining):
    statements, end = LATE[name]
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1, pipelining=pipelining))
        clients = [stack.enter_context(direct(ground)), stack.enter_context(Raw(pooler.port))]
        other = stack.enter_context(Raw(pooler.port))
        before = session(other)
        told = []
        for client in clients:
            heard = [client.sql("SET my.tag = 'before'"), client.sql("SET statement_timeout = '300ms'")]
            # The timer runs from the last Parse on, and is looked at when the server reads on.
            client.send(*x(*statements)[:-1], parse("n", "SELECT 7"), FLUSH)
            heard += [show([client.next()]) for _ in range(3 * len(statements) + 1)]
            time.sleep(0.4)
            heard.append(client.ask(SYNC))
            heard.append(client.sql(end) if end else None)
            # What was answered before it and is of no transaction stays.
            heard.append(client.ask(bind("n"), EXECUTE, SYNC))
            told.append((heard, session(client), session(client)))
        direct_told, pooled_told = told
        assert pooled_told == direct_told
        assert any(answer and answer.startswith("E:57014") for answer in direct_told[0])
        assert session(other) == before


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
@pytest.mark.parametrize("check", ["<empty>", "SELECT 1"])
def test_a_check_of_a_connection_changes_nobodys_session(ground, pipelining, check):
    sets = {
        "search_path": "pg_catalog",
        "statement_timeout": "7s",
        "default_transaction_read_only": "on",
        "default_transaction_isolation": "serializable",
        "my.tag": "of A",
        "TimeZone": "Asia/Tokyo",
    }
    # Every connection that is free is checked before its use.
    settings = {"server_check_delay": 0, "server_check_query": check, "default_pool_size": 1, "pipelining": pipelining}
    with Pooler(ground, **settings) as pooler, direct(ground) as truth, Raw(pooler.port) as client:
        for name, value in sets.items():
            assert client.sql(f"SET {name} = '{value}'") == truth.sql(f"SET {name} = '{value}'") == "C:SET Z:I"
            with Raw(pooler.port) as other, direct(ground) as plain:
                assert session(other) == session(plain)
                assert other.sql(READ) == "T D:public C:SELECT 1 Z:I"
            assert session(client) == session(truth)
        assert client.sql("SET ROLE r_bob") == truth.sql("SET ROLE r_bob") == "C:SET Z:I"
        with Raw(pooler.port) as other, direct(ground) as plain:
            assert session(other) == session(plain)
        assert session(client) == session(truth)


def test_a_connection_that_was_idle_beyond_the_check_delay_is_nobodys(ground):
    settings = {"server_check_delay": 1, "default_pool_size": 1}
    with Pooler(ground, **settings) as pooler, Raw(pooler.port) as client:
        assert client.sql("SET search_path = sa") == "C:SET Z:I"
        assert client.sql(READ) == "T D:sa C:SELECT 1 Z:I"
        time.sleep(1.2)
        with Raw(pooler.port) as other:
            assert other.sql(READ) == "T D:public C:SELECT 1 Z:I"
        assert client.sql(READ) == "T D:sa C:SELECT 1 Z:I"
