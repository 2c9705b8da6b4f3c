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

# What a client says in turn; behind "!" it has no connection any more, behind others it has. "extended: " says each in the
# extended protocol.
LIVES = f"""
{LOCK} | {LOCK} | {UNLOCK} | {UNLOCK} !
extended: {LOCK} | {UNLOCK} !
SELECT pg_advisory_lock_shared(4802) | SELECT pg_advisory_unlock_shared(4802) !
{LOCK} | SELECT pg_advisory_unlock_all() !
extended: SELECT pg_try_advisory_lock(4801) | {UNLOCK} !
SELECT pg_try_advisory_lock(4800) !
SELECT pg_advisory_xact_lock(4801) !
{LOCK} | SELECT gives_back(4801) !
{LOCK} | DO $$ BEGIN PERFORM pg_advisory_unlock(4801); END $$ !
extended: {TEMP} | INSERT INTO kept VALUES (1) | DROP TABLE kept !
{TEMP} | CREATE TEMP VIEW seen AS SELECT 1 | DROP TABLE kept
{TEMP} | DISCARD TEMP !
BEGIN | {TEMP} | ROLLBACK !
extended: BEGIN | {TEMP} | SELECT 1/0 | COMMIT !
BEGIN | SAVEPOINT s | {TEMP} | ROLLBACK TO s | COMMIT !
{TEMP}; SELECT 1/0 !
CREATE TYPE pg_temp.mood AS ENUM ('ok') | DROP TYPE pg_temp.mood !
CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1' | DROP FUNCTION pg_temp.f() !
SELECT 1 AS a INTO TEMP kept | DROP TABLE kept !
extended: {PREPARE} | EXECUTE said | DEALLOCATE said !
{PREPARE} | PREPARE more AS SELECT 2 | DEALLOCATE said | DEALLOCATE ALL !
{LOCK} | {TEMP} | {PREPARE} | {UNLOCK} | DROP TABLE kept | DEALLOCATE said !
DECLARE c CURSOR WITH HOLD FOR SELECT pg_advisory_xact_lock(4803) | CLOSE c !
extended: {LOCK} | {TEMP} | SET seed = 0.5 | DISCARD ALL !
SET seed = 0.5 | {LOCK} | {UNLOCK}
"""


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


@pytest.mark.parametrize("life", LIVES.strip().splitlines())
def test_a_pin_ends_with_its_reason(ground, life):
    with Raw(ground.port) as client:
        me = own_id(ground)
        for text in life.removeprefix("extended: ").split(" | "):
            sql = text.removesuffix(" !")
            if life.startswith("extended: "):
                client.ask(parse("", sql), bind(""), EXECUTE, SYNC)
            else:
                client.sql(sql)
            # A question of the pooler's own may be under way.
            if sql == text:
                assert keeps(ground, me), sql
            else:
                wait_until(lambda: not keeps(ground, me))


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


@pytest.mark.parametrize(
    ("text", "arguments", "kept"),
    [
        ("SELECT set_config('app.user', $1, false)", ["it's"], "it's"),
        ("SELECT set_config($1::text, $2::varchar, $3::bool)", ["app.user", "c", False], "c"),
        ("SELECT set_config($1::text, $2::text, $3::bool)", ["app.user", "d", True], None),
        ("SELECT upper(set_config('app.user', $1, false))", ["f"], "f"),
        ("SELECT set_config(n, $1, false) FROM (VALUES ('app.user')) AS v (n)", ["g"], "g"),
    ],
)
def test_set_config_with_parameters_is_kept(server, text, arguments, kept):
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

    with Pooler(server, default_pool_size=2) as pooler:
        place = f"host=127.0.0.1 port={pooler.port} user=postgres dbname=postgres"
        with psycopg.connect(place, autocommit=True) as one, psycopg.connect(place, autocommit=True) as two:
            psycopg.RawCursor(one).execute(text, arguments)
            two.execute("SELECT 1")
            assert (one.execute(seen).fetchone()[0], two.execute(seen).fetchone()[0]) == (kept, None)
            # What may not be set is refused, and its client goes on.
            for name in ("max_connections", "no such thing"):
                with pytest.raises(psycopg.Error):
                    one.execute("SELECT set_config(%s, %s, false)", [name, "1"])
            assert one.execute(seen).fetchone()[0] == kept
        assert asyncio.run(by_asyncpg(pooler.port)) == (kept, None)


# Names that are words of SQL


def test_a_parameter_may_be_called_by_a_reserved_word(ground):
    for name in ("app.user", "app.current_user", "my.order", "tenant.table", "App.Default"):
        with Raw(ground.port, options=f"-c {name}=5") as one, Raw(ground.port, **{name: "6"}) as two:
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
def test_a_wrong_name_is_refused_as_postgresql_refuses_it(server, ground, options):
    for host, port in ((server.socket_folder, server.port), ("127.0.0.1", ground.port)):
        with pytest.raises(psycopg.OperationalError, match="configuration parameter|startup parameter"):
            psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", options=options)
