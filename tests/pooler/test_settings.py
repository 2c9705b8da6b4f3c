"""What SET and RESET mean through a pooler that has one server connection for all: what they mean to PostgreSQL.

Each row is run by a client straight on the server and by one through the pooler. Every answer must be the same, and so
must be what the client then finds its session to be. Others, each with a session of its own, use the same server
connection between any two steps, and find theirs as they left it. What compare.py and the simulation do at random (SET,
RESET, savepoints, chains, blocks that fail) has a row of each kind here.
"""

import contextlib

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, direct, parse, query, values

# What every client looks at, and must find as it would without others.
WATCHED = [
    "my.tag", "search_path", "role", "TimeZone", "DateStyle", "IntervalStyle", "client_encoding", "application_name",
    "standard_conforming_strings", "work_mem", "statement_timeout", "lock_timeout", "default_transaction_isolation",
    "default_transaction_read_only", "default_transaction_deferrable", "transaction_isolation", "xmloption", "bytea_output",
]  # fmt: skip
SHOWN = ", ".join(f"coalesce(current_setting('{name}', true), '')" for name in WATCHED)
LOOK = f"SELECT current_user, session_user, {SHOWN}"
# As a client asks that has no reason to suspect anything.
READ = "SELECT w FROM t"

# Steps have " || " between them: each is a Query, or behind "x: " statements of one unit of the extended protocol. `@ `
# gives startup parameters to the rows behind it; what is undone for its client too, as the guide says, begins with "lost: ".
FAILS = "INSERT INTO public.deferred VALUES (1), (1)"
TABLE = rf"""
# An error in its unit undoes it.
SET my.tag = 'a' || x: RESET my.tag | SELECT 1/0
SET my.tag = 'a' || x: SELECT 1 | RESET ALL | SELEC
SET ROLE r_bob || x: RESET ROLE | SELECT 1/0
SET SESSION AUTHORIZATION r_bob || x: RESET SESSION AUTHORIZATION | SELECT 1/0
SET TimeZone = 'Asia/Tokyo' || x: RESET TimeZone | SELECT 1/0
SET search_path = sa || x: RESET search_path | SELECT 1/0 || {READ}
SET ROLE r_bob || x: DISCARD ALL | SET my.tag = 'a' | SELECT 1/0
SET my.tag = 'a' || RESET my.tag; SELECT 1/0 || BEGIN; RESET my.tag; ROLLBACK
lost: SET my.tag = 'a' || RESET my.tag; SELECT 1

# The end of a transaction.
SET search_path = sa || BEGIN || SET search_path = sb || {FAILS} || COMMIT || {READ}
SET my.tag = 'a' || x: BEGIN | SET my.tag = 'b' | {FAILS} | COMMIT
SET ROLE r_bob || x: RESET ROLE | {FAILS}
SET my.tag = 'a' || BEGIN || RESET my.tag || ROLLBACK; SELECT 1
x: BEGIN | SET my.tag = 'a' | COMMIT | SET my.tag = 'b' | SELECT 1/0
BEGIN || SET LOCAL my.tag = 'local' || SET my.tag = 'a' || SET LOCAL my.tag = 'again' || SET LOCAL ROLE r_bob || COMMIT
BEGIN || SET my.tag = 'a' || COMMIT AND CHAIN || SET my.tag = 'b' || SELECT 1/0 || COMMIT
BEGIN || SET my.tag = 'a' || {FAILS} || COMMIT AND CHAIN || SELECT 1

# Savepoints.
BEGIN || SET my.tag = 'a' || SAVEPOINT s || RESET my.tag || SELECT 1/0 || ROLLBACK TO s || SET work_mem = '5MB' || COMMIT
BEGIN || SAVEPOINT s || SET my.tag = 'a' || SAVEPOINT s || RESET my.tag || ROLLBACK TO s || RELEASE s || ROLLBACK TO s || COMMIT
BEGIN || SAVEPOINT s || SET ROLE r_bob || SAVEPOINT s; SELECT 1 || ROLLBACK TO s || COMMIT
BEGIN || SET ROLE r_bob || SAVEPOINT s || SET my.tag = 'a' || ROLLBACK TO s; SELECT 1 || COMMIT
BEGIN || SAVEPOINT "S" || SET my.tag = 'a' || SAVEPOINT s || SET my.tag = 'b' || ROLLBACK TO "S" || COMMIT

# A role, and what is called otherwise.
SET search_path = sa || SET SCHEMA 'sb' || {READ} || SET search_path = sa || {READ}
SET SESSION AUTHORIZATION r_bob || SET ROLE r_carol || RESET SESSION AUTHORIZATION
SET ROLE r_carol || SET SESSION AUTHORIZATION r_bob || SET SESSION AUTHORIZATION DEFAULT
SET ROLE r_carol || SET my.tag = 'x' || RESET ALL || SET ROLE NONE
SET role = 'r_carol' || SET role TO DEFAULT || SET session_authorization = 'r_bob' || RESET session_authorization
SET session_replication_role = 'replica' || SET ROLE r_bob || SHOW session_replication_role || SET search_path = sa || SHOW search_path
SET xmloption = 'document' || SET XML OPTION CONTENT || SHOW xmloption || SET XML OPTION DOCUMENT || RESET xmloption
SET NAMES 'LATIN1' || SET client_encoding = 'UTF8' || SET NAMES 'LATIN1' || SET NAMES DEFAULT
SET TIME ZONE 'Asia/Tokyo' || SET TIME ZONE INTERVAL '-3:30' HOUR TO MINUTE || SET TIME ZONE -7 || SET TIME ZONE DEFAULT
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY || SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE
SET transaction_read_only = on || SET TRANSACTION READ ONLY

# However it is written.
SET search_path = sa /* app=shop */ || {READ} || /* a /* b */ */ SET /* c */ search_path = sb; || {READ} || RESET search_path -- d
SET my.tag = 'a;b -- c /* d */' || SET my.tag = 'it''s' || SET my.tag = E'\\x\'y' || SET my.tag = $q$a;'b$q$ || SET my.tag = 'é, 日本'
SET "my"."tag" = 1 || sEt SEARCH_PATH tO sa || {READ} || rEsEt My.TAG || SET "TimeZone" = 'Asia/Tokyo'
SET search_path = sa, "$user", "Sb", public || {READ} || SET search_path = 'sa, public' || SET search_path = ''
SET work_mem = 5000 || SET work_mem = '6MB' || SET statement_timeout = 7.5
SET standard_conforming_strings = off || SET my.tag = 'a\\b\'c' || SET standard_conforming_strings = on
SET my.tag = 'a' || SET work_mem = 'rubbish' || SET nothing_like_it = 1 || RESET nothing_like_it || SET max_connections = 1

# What the text does not tell.
SELECT set_config('my.tag', 'x', true) || SELECT 1
lost: SELECT set_config('TimeZone', 'Asia/Tokyo', false) || SELECT tags('x') || {READ}
lost: DO $$ BEGIN SET my.tag = 'x'; SET ROLE r_bob; END $$
lost: CALL tag_all('x')
lost: SET my.tag = 'a' || UPDATE pg_settings SET setting = 'x' WHERE name = 'my.tag'
lost: SET search_path = sa; SET SCHEMA 'sb' || {READ}

# RESET leads to what the client has asked for at its start.
@ options=-c my.tag=begun -c work_mem=3MB -c statement_timeout=9s; search_path=sa
SET my.tag = 'a' || RESET my.tag || SET search_path = sb || {READ} || RESET search_path || {READ}
SET work_mem = '5MB' || SET work_mem TO DEFAULT || BEGIN || RESET my.tag || ROLLBACK
SET search_path = sb || SET my.tag = 'a' || RESET ALL || {READ}
SET search_path = sb || SET ROLE r_bob || DISCARD ALL || {READ} || SET search_path = sb || x: DISCARD ALL || {READ}
BEGIN || SET LOCAL search_path = sb || {READ} || COMMIT || {READ} || SET SCHEMA 'sb' || RESET search_path || {READ}
# Within a transaction a startup value is set behind a RESET, which must not end what lasts for the transaction.
BEGIN || x: RESET search_path | SET LOCAL search_path = sb || {READ} || COMMIT || {READ}
BEGIN || x: RESET ALL | SET LOCAL search_path = sb | SET LOCAL my.tag = 'local' || {READ} || {LOOK} || COMMIT
BEGIN; RESET search_path; SET LOCAL search_path = sb || {READ} || COMMIT || {READ}
BEGIN || x: SET LOCAL search_path = sb | RESET search_path | SET LOCAL search_path TO DEFAULT || {READ} || COMMIT || {READ}
BEGIN || SAVEPOINT s || x: RESET search_path | SET LOCAL search_path = sb || ROLLBACK TO s || {READ} || COMMIT || {READ}
@ TimeZone=Asia/Tokyo; DateStyle=SQL, DMY; application_name=a
SET TimeZone = 'UTC' || RESET TimeZone || SET DateStyle = 'German' || RESET DateStyle || SET TIME ZONE 5 || RESET TIME ZONE
SET TimeZone = 'UTC' || SET application_name = 'b' || DISCARD ALL || SET client_encoding = 'LATIN1' || RESET ALL
SET TimeZone = 'UTC' || x: BEGIN | RESET TimeZone | COMMIT AND CHAIN || ROLLBACK || x: SET TimeZone = 'UTC' | RESET TimeZone
BEGIN || x: RESET TimeZone | SET LOCAL TimeZone = 'UTC' || {LOOK} || COMMIT
@ options=-c role=r_carol
SET ROLE r_bob || RESET ROLE
"""


def rows():
    """The rows of the table, with the startup parameters of each."""
    found, started = {}, {}
    for line in TABLE.splitlines():
        if line.startswith("@ "):
            started = dict(part.split("=", 1) for part in line[2:].split("; "))
        elif line and not line.startswith("#"):
            found[line] = started
    return found


# More than are remembered, as drivers make one before each statement.
MANY = "BEGIN || SET ROLE r_carol || many savepoints || RESET ROLE || COMMIT"
STARTS = rows() | {MANY: {}}

GROUND = """
DROP SCHEMA IF EXISTS sa, sb, "Sb" CASCADE; CREATE SCHEMA sa; CREATE SCHEMA sb; CREATE SCHEMA "Sb";
CREATE TABLE sa.t AS SELECT 'sa' AS w; CREATE TABLE sb.t AS SELECT 'sb' AS w; DROP TABLE IF EXISTS public.t;
CREATE TABLE public.t AS SELECT 'public' AS w;
GRANT USAGE ON SCHEMA sa, sb TO PUBLIC; GRANT SELECT ON sa.t, sb.t TO PUBLIC;
DROP TABLE IF EXISTS deferred; CREATE TABLE deferred (a int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE OR REPLACE FUNCTION tags(x text) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.tag', x, false); SET search_path = sb; RETURN x; END $$;
CREATE OR REPLACE PROCEDURE tag_all(x text) LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('my.tag', x, false); COMMIT; SET ROLE r_bob; END $$;
"""
ROLES = "SELECT count(*) FROM pg_roles WHERE rolname IN ('r_bob', 'r_carol')"


@pytest.fixture(scope="module")
def ground(server):
    """Two schemas with a table each, two roles, and what sets parameters without saying so."""
    with direct(server) as owner:
        if owner.value(ROLES) == "0":
            owner.sql("CREATE ROLE r_bob; CREATE ROLE r_carol; GRANT r_carol TO r_bob")
        assert "E:" not in owner.sql(GROUND)
    return server


def session(client):
    """What a client finds its session to be."""
    client.send(query(LOOK))
    return dict(zip(["current_user", "session_user", *WATCHED], values(client.until(b"Z")), strict=True))


@pytest.fixture(scope="module", params=["pipelining", "without", "alone"])
def place(ground, request):
    """A pooler, and clients with what others may be thought to have, who look at it between the steps unless one is alone."""
    others = [
        ([], {}),
        (["SET my.tag = 'a'", "SET search_path = sa"], {}),
        (["SET ROLE r_bob"], {"TimeZone": "Asia/Tokyo"}),
    ]
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(ground, default_pool_size=1, pipelining=request.param != "without"))
        found = []
        for sets, startup in others:
            client = stack.enter_context(Raw(pooler.port, **startup))
            for sql in sets:
                assert client.sql(sql) == "C:SET Z:I"
            found.append((client, session(client), client.sql(READ)))
        yield pooler, found, request.param != "alone"


def unit(step):
    """The messages of a step, and how many units they are."""
    if step == "many savepoints":
        return [query("SAVEPOINT s")] * 1100, 1100
    if step.startswith("x: "):
        return [part for sql in step[3:].split(" | ") for part in (parse("", sql), bind(""), EXECUTE)] + [SYNC], 1
    return [query(step)], 1


@pytest.mark.parametrize("row", STARTS)
def test_a_session_is_what_it_would_be_without_a_pooler(ground, place, row):
    pooler, others, between = place
    lost = row.startswith("lost: ")
    with direct(ground, **STARTS[row]) as truth, Raw(pooler.port, **STARTS[row]) as client:
        for number, step in enumerate([LOOK, *row.removeprefix("lost: ").split(" || ")]):
            parts, units = unit(step)
            wanted, got = (each.ask(*parts, units=units) for each in (truth, client))
            assert got == wanted or lost, step
            if wanted.endswith("Z:I"):
                if between:
                    for place in range(len(others)):
                        other, before, _ = others[(place + number) % len(others)]
                        assert session(other) == before, f"another's session after {step}"
                if not lost:
                    assert session(client) == session(truth), step
        for other, before, read in others:
            assert session(other) == before and other.sql(READ) == read
    with Raw(pooler.port) as late, direct(ground) as plain:
        assert session(late) == session(plain)


@pytest.mark.parametrize("check", ["<empty>", "SELECT 1"])
def test_a_check_of_a_connection_changes_nobodys_session(ground, check):
    sets = [
        "search_path = pg_catalog",
        "statement_timeout = '7s'",
        "default_transaction_read_only = on",
        "my.tag = 'a'",
    ]
    # Every connection that is free is checked before its use.
    settings = {"server_check_delay": 0, "server_check_query": check, "default_pool_size": 1}
    with Pooler(ground, **settings) as pooler, direct(ground) as truth, Raw(pooler.port) as client:
        for sql in [*(f"SET {each}" for each in sets), "SET ROLE r_bob"]:
            assert client.sql(sql) == truth.sql(sql) == "C:SET Z:I"
            with Raw(pooler.port) as other, direct(ground) as plain:
                assert session(other) == session(plain)
            assert session(client) == session(truth)
