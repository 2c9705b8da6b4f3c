"""A client keeps its server connection as long as the reason for that lasts, and operators see why."""

# The pooler first, then its clients: nested on purpose.
# ruff: noqa: SIM117

import asyncio

import asyncpg
import psycopg
import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, code, parse, query

LOCK = "SELECT pg_advisory_lock(4801)"
UNLOCK = "SELECT pg_advisory_unlock(4801)"
TEMP = "CREATE TEMP TABLE kept (a int)"
PREPARE = "PREPARE said AS SELECT 1"

# What a client says in turn, and whether it still has its connection after that.
LIVES = {
    "lock and unlock": [(LOCK, True), (UNLOCK, False)],
    "locked twice": [(LOCK, True), (LOCK, True), (UNLOCK, True), (UNLOCK, False)],
    "shared": [("SELECT pg_advisory_lock_shared(4802)", True), ("SELECT pg_advisory_unlock_shared(4802)", False)],
    "unlock all": [(LOCK, True), ("SELECT pg_advisory_unlock_all()", False)],
    "a lock that was tried and got": [("SELECT pg_try_advisory_lock(4801)", True), (UNLOCK, False)],
    "a lock of another": [("SELECT pg_try_advisory_lock(4800)", False)],
    "a lock for a transaction": [("SELECT pg_advisory_xact_lock(4801)", False)],
    "unlocked by a function": [(LOCK, True), ("SELECT gives_back(4801)", False)],
    "unlocked by a DO": [(LOCK, True), ("DO $$ BEGIN PERFORM pg_advisory_unlock(4801); END $$", False)],
    "DROP": [(TEMP, True), ("INSERT INTO kept VALUES (1)", True), ("DROP TABLE kept", False)],
    "DROP of one of two": [(TEMP, True), ("CREATE TEMP VIEW seen AS SELECT 1", True), ("DROP TABLE kept", True)],
    "DISCARD TEMP": [(TEMP, True), ("DISCARD TEMP", False)],
    "rolled back": [("BEGIN", True), (TEMP, True), ("ROLLBACK", False)],
    "failed": [("BEGIN", True), (TEMP, True), ("SELECT 1/0", True), ("COMMIT", False)],
    "rolled back to": [
        ("BEGIN", True),
        ("SAVEPOINT s", True),
        (TEMP, True),
        ("ROLLBACK TO s", True),
        ("COMMIT", False),
    ],
    "failed as a whole": [(f"{TEMP}; SELECT 1/0", False)],
    "a type": [("CREATE TYPE pg_temp.mood AS ENUM ('ok')", True), ("DROP TYPE pg_temp.mood", False)],
    "a function": [
        ("CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", True),
        ("DROP FUNCTION pg_temp.f()", False),
    ],
    "SELECT INTO": [("SELECT 1 AS a INTO TEMP kept", True), ("DROP TABLE kept", False)],
    "DEALLOCATE": [(PREPARE, True), ("EXECUTE said", True), ("DEALLOCATE said", False)],
    "DEALLOCATE ALL": [(PREPARE, True), ("PREPARE more AS SELECT 2", True), ("DEALLOCATE ALL", False)],
    "DEALLOCATE of one of two": [(PREPARE, True), ("PREPARE more AS SELECT 2", True), ("DEALLOCATE said", True)],
    "all kinds": [
        (LOCK, True),
        (TEMP, True),
        (PREPARE, True),
        (UNLOCK, True),
        ("DROP TABLE kept", True),
        ("DEALLOCATE said", False),
    ],
    "a cursor": [
        ("DECLARE c CURSOR WITH HOLD FOR SELECT pg_advisory_xact_lock(4803)", True),
        ("CLOSE c", False),
    ],
    "DISCARD ALL": [(LOCK, True), (TEMP, True), ("SET seed = 0.5", True), ("DISCARD ALL", False)],
    "what the server does not know of": [("SET seed = 0.5", True), (LOCK, True), (UNLOCK, True)],
}


@pytest.fixture(scope="module")
def ground(server):
    """A pooler whose one pool is large enough for whoever is pinned, on a server where somebody holds a lock."""
    server.psql(
        """CREATE OR REPLACE FUNCTION gives_back(bigint) RETURNS bool LANGUAGE plpgsql AS
        $$ BEGIN RETURN pg_advisory_unlock($1); END $$"""
    )
    with Pooler(server, default_pool_size=3) as pooler:
        with Raw(pooler.port) as holder:
            pooler.wait_for_catalog()
            holder.sql("SELECT pg_advisory_lock(4800)")
            yield pooler


def keeps(pooler, client_id):
    """Whether a client has a server connection, when it has nothing under way."""
    return any(row["link"] for row in pooler.show("CLIENTS") if row["id"] == client_id)


def own_id(pooler):
    """The id of the client that came last."""
    return max((row["id"] for row in pooler.show("CLIENTS") if row["database"] == "postgres"), key=int)


def ways(said):
    """The protocols by which statements can be sent: several in one by the simple one alone."""
    return ["simple"] if any(";" in sql and "$$" not in sql for sql, _ in said) else ["simple", "extended"]


@pytest.mark.parametrize(("life", "way"), [(life, way) for life, said in LIVES.items() for way in ways(said)])
def test_a_pin_ends_with_its_reason(ground, life, way):
    said = LIVES[life]
    with Raw(ground.port) as client:
        me = own_id(ground)
        for sql, pinned in said:
            if way == "extended":
                client.send(parse("", sql) + bind("") + EXECUTE + SYNC)
                client.until(b"Z")
            else:
                client.send(query(sql))
                client.until(b"Z")
            # A question of the pooler's own may be under way.
            if pinned:
                assert keeps(ground, me), sql
            else:
                wait_until(lambda: not keeps(ground, me), 5)


def test_many_clients_that_lock_and_unlock_share_few_connections(server):
    with Pooler(server, default_pool_size=2, query_wait_timeout=5) as pooler:
        clients = [Raw(pooler.port) for _ in range(12)]
        for number, client in enumerate(clients):
            client.sql(f"SELECT pg_advisory_lock({9000 + number})")
            assert client.value(f"SELECT pg_advisory_unlock({9000 + number})") == "t"
            client.value("SELECT pg_try_advisory_lock(4800)"), client.sql("SELECT pg_advisory_unlock_all()")
            client.sql("CREATE TEMP TABLE t (a int)")
            client.sql("DROP TABLE t")
        for client in clients:
            client.socket.close()


def test_the_next_statement_does_not_overtake_the_question(ground):
    with Raw(ground.port) as client:
        for round_ in range(20):
            client.send(
                query(LOCK) + query(UNLOCK) + query(f"SELECT {round_}") + query(TEMP) + query("DROP TABLE kept")
            )
            answers = [body for _ in range(5) for kind, body in client.until(b"Z") if kind == b"C"]
            assert answers[2] == b"SELECT 1\0" and len(answers) == 5, answers


def test_why_and_since_when_is_shown_and_logged(server):
    with Pooler(server, default_pool_size=2, query_wait_timeout=1) as pooler:
        with Raw(pooler.port) as one, Raw(pooler.port) as two, Raw(pooler.port) as third:
            one.sql(LOCK)
            one.sql(TEMP)
            two.sql(PREPARE)
            for view in ("CLIENTS", "SERVERS"):
                shown = {row["pinned"]: row["pinned_since"] for row in pooler.show(view, "howdah") if row["pinned"]}
                assert shown.keys() == {"advisory lock, temporary object", "prepared statement"}
                assert all(since.startswith("20") and since.endswith(" UTC") for since in shown.values())
                assert "pinned" not in pooler.show(view)[0], "PgBouncer's columns are PgBouncer's"
            third.send(query("SELECT 1"))
            refused = next(body for kind, body in third.until(b"Z") if kind == b"E")
            assert code(refused) == "53300"
            pinned = "2 pinned to their clients: advisory lock 1, prepared statement 1, temporary object 1"
            assert pinned.encode() in refused, refused
            wait_until(lambda: pooler.log.read_text().count("pinned to its server connection for ") == 2)
            assert " s: advisory lock, temporary object" in pooler.log.read_text()


def test_a_question_that_cannot_be_answered_leaves_the_pin(server):
    with Pooler(server, default_pool_size=2) as pooler, Raw(pooler.port) as client:
        me = own_id(pooler)
        server.psql("REVOKE SELECT ON pg_locks FROM PUBLIC; DROP ROLE IF EXISTS nosy; CREATE ROLE nosy")
        try:
            client.sql("SET ROLE nosy")
            client.sql(LOCK)
            assert client.value(UNLOCK) == "t"
            assert keeps(pooler, me)
        finally:
            server.psql("GRANT SELECT ON pg_locks TO PUBLIC")
        client.sql(UNLOCK)
        wait_until(lambda: not keeps(pooler, me))
        assert client.value("SELECT current_user") == "nosy"


# Settings by set_config


def test_set_config_with_constants_is_a_set(server):
    with Pooler(server, default_pool_size=1) as pooler:
        with Raw(pooler.port) as one, Raw(pooler.port) as two:
            one.sql("SELECT pg_catalog.set_config('search_path', '', false)")
            one.sql("SELECT set_config('app.user', 'one', false), set_config('work_mem', '7MB', false)")
            two.sql("SELECT set_config('app.user', 'two', false)")
            for client, name in ((one, "one"), (two, "two"), (one, "one")):
                assert client.value("SELECT current_setting('app.user')") == name
            assert one.value("SHOW search_path") == '""' and one.value("SHOW work_mem") == "7MB"
            assert two.value("SHOW search_path") != '""' and two.value("SHOW work_mem") == "4MB"
            one.sql("BEGIN; SELECT set_config('app.user', 'three', false); ROLLBACK")
            one.sql("BEGIN; SELECT set_config('app.user', 'four', true); COMMIT")
            two.value("SELECT 1")
            assert one.value("SELECT current_setting('app.user')") == "one"
            one.sql("SELECT set_config('work_mem', NULL, false)")
            two.value("SELECT 1")
            assert one.value("SHOW work_mem") == "4MB"


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
@pytest.mark.parametrize(
    ("text", "arguments", "kept"),
    [
        ("SELECT set_config('app.user', $1, false)", ["it's"], "it's"),
        ("SELECT set_config($1, $2, false)", ["app.user", "b"], "b"),
        ("SELECT set_config($1::text, $2::varchar, $3::bool)", ["app.user", "c", False], "c"),
        ("SELECT set_config($1::text, $2::text, $3::bool)", ["app.user", "d", True], None),
        ("SELECT set_config('app.user', $1, true)", ["e"], None),
        ("SELECT upper(set_config('app.user', $1, false))", ["f"], "f"),
        ("SELECT set_config(n, $1, false) FROM (VALUES ('app.user')) AS v (n)", ["g"], "g"),
    ],
)
def test_set_config_with_parameters_is_kept(server, driver, text, arguments, kept):
    seen = "SELECT nullif(current_setting('app.user', true), '')"

    async def by_asyncpg(port):
        place = {"host": "127.0.0.1", "port": port, "user": "postgres", "database": "postgres"}
        one, two = await asyncpg.connect(**place), await asyncpg.connect(**place)
        await one.fetchval(text, *arguments)
        await two.fetchval("SELECT 1")
        got = await one.fetchval(seen), await two.fetchval(seen)
        await one.close()
        await two.close()
        return got

    def by_psycopg(port):
        place = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        with psycopg.connect(place, autocommit=True) as one, psycopg.connect(place, autocommit=True) as two:
            psycopg.RawCursor(one).execute(text, arguments)
            two.execute("SELECT 1")
            return one.execute(seen).fetchone()[0], two.execute(seen).fetchone()[0]

    with Pooler(server, default_pool_size=2) as pooler:
        got = asyncio.run(by_asyncpg(pooler.port)) if driver == "asyncpg" else by_psycopg(pooler.port)
        assert got == (kept, None)


def test_a_client_that_sets_what_it_may_not_goes_on(server):
    with Pooler(server, default_pool_size=2) as pooler:
        with psycopg.connect(
            f"host=127.0.0.1 port={pooler.port} user=postgres dbname=postgres", autocommit=True
        ) as one:
            for name in ("max_connections", "no such thing"):
                with pytest.raises(psycopg.Error):
                    one.execute("SELECT set_config(%s, %s, false)", [name, "1"])
            assert one.execute("SELECT 1").fetchone() == (1,)


# Names that are words of SQL


@pytest.mark.parametrize("name", ["app.user", "app.current_user", "my.order", "tenant.table", "app.end", "App.Default"])
def test_a_parameter_may_be_called_by_a_reserved_word(server, name):
    with Pooler(server, default_pool_size=1) as pooler:
        with Raw(pooler.port, options=f"-c {name}=5") as one, Raw(pooler.port, **{name: "6"}) as two:
            for client, value in ((one, "5"), (two, "6"), (one, "5")):
                assert client.value(f"SELECT current_setting('{name}')") == value
            part = ".".join(f'"{word}"' for word in name.split("."))
            one.sql(f"SET {part} = '7'")
            two.value("SELECT 1")
            assert one.value(f"SELECT current_setting('{name}')") == "7"
            one.sql(f"RESET {part}")
            two.value("SELECT 1")
            assert one.value(f"SELECT current_setting('{name}')") == "5"


@pytest.mark.parametrize("options", ["-c =1", "-c order=1", "-c app.=1", "-c .app=1", '-c a."=1', "-c nothing=1"])
def test_a_wrong_name_is_refused_as_postgresql_refuses_it(server, options):
    with Pooler(server, default_pool_size=1) as pooler, Raw(pooler.port) as first:
        first.value("SELECT 1")
        for host, port in ((server.socket_folder, server.port), ("127.0.0.1", pooler.port)):
            with pytest.raises(psycopg.OperationalError, match="configuration parameter|startup parameter"):
                psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", options=options)
