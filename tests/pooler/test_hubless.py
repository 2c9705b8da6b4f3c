"""Hubless shards, which clients choose, as with PgCat: its commands, comments, hashes, defaults and automatic key. Three
databases of one server are the shards; each has the partitions of its own rows alone, so that the server refuses a row that
is elsewhere.
"""

import asyncio
import contextlib
import hashlib
import subprocess

import asyncpg
import howdah
import psycopg
import pytest

from devkit.server import SUPERUSER, Server
from tests.pooler.process import PROGRAM, Pooler, is_refused, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, message, parse, query, values

SHARDS = range(3)
CONFIG = """
[general]
host = "127.0.0.1"
port = @PORT@
admin_username = "postgres"
admin_password = "{password}"
connect_timeout = 5000
ban_time = 5

[pools.sharded_db]
pool_mode = "transaction"
query_parser_enabled = true
query_parser_read_write_splitting = true
primary_reads_enabled = true
{pool}

[pools.sharded_db.users.0]
username = "postgres"
password = "{password}"
pool_size = 5
"""
SHARD = """
[pools.sharded_db.shards.{number}]
database = "hand{number}"
servers = [["127.0.0.1", {port}, "primary"]]
"""
AUTOMATIC = 'automatic_sharding_key = "data.id"'
HUBLESS = ""
WAREHOUSES = 'automatic_sharding_key = "*.w_id"'
COMMENTS = r"""
shard_id_regex = "/\\* the_shard_id: (\\d+) \\*/"
sharding_key_regex = "/\\* the_sharding_key: (\\d+) \\*/"
"""
SCHEMA = """
CREATE TABLE data (id bigint, value text, other bigint, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE data_here PARTITION OF data FOR VALUES WITH (MODULUS 3, REMAINDER {number});
CREATE TABLE notes (id int, text text);
INSERT INTO notes VALUES (1, 'note of {number}');
CREATE VIEW viewed AS SELECT id, value FROM data;
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name text, w_ytd numeric DEFAULT 0);
CREATE TABLE district (d_id int, w_id int, d_next int DEFAULT 1, PRIMARY KEY (w_id, d_id));
CREATE TABLE customer (c_id int, d_id int, w_id int, c_name text, c_balance numeric DEFAULT 0, PRIMARY KEY (w_id, d_id, c_id));
CREATE TABLE item (i_id int PRIMARY KEY, i_name text);
"""


@pytest.fixture(scope="module")
def shards(server):
    """A server with three databases that are shards."""
    for number in SHARDS:
        server.psql(f"CREATE DATABASE hand{number}")
        server.psql(SCHEMA.format(number=number), f"hand{number}")
    yield server
    for number in SHARDS:
        server.psql(f"DROP DATABASE hand{number} WITH (FORCE)")


def config(server, pool, ports=None):
    """A pgcat.toml with this in the section of its pool."""
    ports = ports or [server.port] * len(SHARDS)
    shards = [SHARD.format(number=number, port=port) for number, port in zip(SHARDS, ports, strict=True)]
    return CONFIG.format(password=server.password, pool=pool) + "".join(shards)


def toml(server, more):
    """A howdah.toml with this in the section of its database."""
    place = f'host = "127.0.0.1"\nport = {server.port}\nuser = "{SUPERUSER}"\npassword = "{server.password}"\n'
    text = '[pooler]\nlisten_port = @PORT@\nauth_type = "any"\n[databases.sharded_db]\nshards = ["a", "b", "c"]\n'
    text += f'sharding_function = "pg_bigint_hash"\n{more}\n'
    return text + "".join(f'[databases.{name}]\ndbname = "hand{number}"\n{place}' for number, name in enumerate("abc"))


@contextlib.contextmanager
def pooler(server, pool=AUTOMATIC, ports=None):
    """A pooler before the shards."""
    with Pooler(server, name="pgcat.toml", text=config(server, pool, ports)) as made:
        yield made


def connect(made):
    """A client of psycopg."""
    password = made.server.password
    return psycopg.connect(
        f"host=127.0.0.1 port={made.port} dbname=sharded_db user={SUPERUSER} password={password}",
        autocommit=True,
    )


@pytest.fixture(scope="module")
def routed(shards):
    """A pooler whose table `data` has an automatic key, with 18 rows."""
    with pooler(shards) as made:
        with connect(made) as client:
            for key in range(1, 19):
                client.execute(f"SET SHARDING KEY TO '{key}'")
                client.execute(f"INSERT INTO data (id, value) VALUES ({key}, 'value_{key}')")
        yield made


@pytest.fixture
def client(routed):
    """A client of that pooler, which has chosen no shard."""
    with connect(routed) as made:
        yield made


def here(client, comment=""):
    """The shard that answers."""
    return int(client.execute(f"{comment} SELECT current_database()").fetchone()[0].removeprefix("hand"))


def home(server, key, modulus=3):
    """The shard of a key, by PostgreSQL itself."""
    for number in range(modulus):
        sql = f"SELECT satisfies_hash_partition('data'::regclass, {modulus}, {number}, {key}::bigint)"
        if server.psql(sql, "hand0").endswith("t"):
            return number
    raise AssertionError(key)


def refused(client, sql, values=None):
    """Why a statement is refused."""
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        client.execute(sql, values)
    assert "SET SHARD" in caught.value.diag.message_hint
    return caught.value.diag.message_primary


def test_a_pgcat_toml_with_three_shards_starts(shards, tmp_path):
    path = tmp_path / "pgcat.toml"
    path.write_text(config(shards, AUTOMATIC + COMMENTS).replace("@PORT@", "1"))
    done = subprocess.run([PROGRAM, "check", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "no effect" not in done.stdout + done.stderr, done
    with pooler(shards, AUTOMATIC) as made, connect(made) as client:
        assert here(client) == 0
        rows = made.show("SHARDS", "pgcat", password=shards.password)
        assert [row["shard"] for row in rows] == [f"sharded_db_shard_{number}" for number in SHARDS]


# The cases of PgCat's own specification of sharding.


def test_parameters_of_the_extended_protocol_choose_the_shard(client):
    client.execute("SET SERVER ROLE TO 'auto'")
    for key in range(1, 19):
        assert client.execute("SELECT value FROM data WHERE id = %s", [key]).fetchall() == [(f"value_{key}",)]
        rows = client.execute("SELECT value FROM data WHERE id = %s AND id = %s", [key, key]).fetchall()
        assert rows == [(f"value_{key}",)]


def test_parameters_of_other_drivers_choose_the_shard(routed):
    async def talk(driver):
        place = {"host": "127.0.0.1", "port": routed.port, "database": "sharded_db", "user": SUPERUSER}
        client = await driver.connect(**place, password=routed.server.password)
        try:
            for key in range(1, 19):
                assert await client.fetchval("SELECT value FROM data WHERE id = $1", key) == f"value_{key}"
            statement = await client.prepare("SELECT value FROM data WHERE id = $1")
            async with client.transaction():
                assert await statement.fetchval(5) == "value_5"
            assert [await statement.fetchval(key) for key in (1, 2, 3)] == ["value_1", "value_2", "value_3"]
        finally:
            await client.close()

    asyncio.run(talk(asyncpg))
    asyncio.run(talk(howdah))


@pytest.mark.parametrize("threshold", [None, 0, 5])
def test_commands_may_be_prepared(client, threshold):
    client.prepare_threshold = threshold
    for turn in range(24):
        shard = turn % 3
        assert client.execute(f"SET SHARD TO '{shard}'").statusmessage == "SET SHARD"
        shown = client.execute("SHOW SHARD")
        assert shown.description[0].name == "shard" and shown.fetchall() == [(str(shard),)]
        assert here(client) == shard
        assert client.execute("SET SHARDING KEY TO '5'").statusmessage == "SET SHARDING KEY"
        assert here(client) == int(client.execute("SHOW SHARD").fetchone()[0])
    for _turn in range(8):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            client.execute("SET SHARD TO '7'")
        with client.transaction():
            client.execute("SET SHARD TO '1'")
            assert here(client) == 1
            assert client.execute("SHOW SHARD").fetchone() == ("1",)
            with pytest.raises(psycopg.errors.FeatureNotSupported), client.transaction():
                client.execute("SET SHARD TO '2'")
            assert client.execute("SHOW SHARD").fetchone() == ("1",)
    with client.pipeline():
        cursors = [client.execute(sql) for sql in ("SET SHARD TO '2'", "SHOW SHARD", "SELECT current_database()")]
    assert [cursor.fetchone() for cursor in cursors[1:]] == [("2",), ("hand2",)]


def test_other_drivers_may_prepare_commands(routed):
    async def talk(driver):
        place = {"host": "127.0.0.1", "port": routed.port, "database": "sharded_db", "user": SUPERUSER}
        client = await driver.connect(**place, password=routed.server.password)
        try:
            for shard in (1, 2, 1):
                assert await client.fetch(f"SET SHARD TO '{shard}'") == []
                assert await client.fetchval("SHOW SHARD") == str(shard)
                assert await client.fetchval("SELECT current_database()") == f"hand{shard}"
            statement = await client.prepare("SHOW SHARD")
            assert [await statement.fetchval() for _ in range(3)] == ["1"] * 3
            async with client.transaction():
                assert await statement.fetchval() == "1"
        finally:
            await client.close()

    asyncio.run(talk(asyncpg))
    asyncio.run(talk(howdah))


def test_a_default_shard_that_is_none_stops_start_and_reload(shards, tmp_path):
    path = tmp_path / "pgcat.toml"
    bad = config(shards, 'default_shard = "shard_99"')
    path.write_text(bad.replace("@PORT@", "1"))
    done = subprocess.run([PROGRAM, "check", path], capture_output=True, text=True, check=False)
    why = "database sharded_db: default_shard = shard_99: it has the shards shard_0 to shard_2"
    assert done.returncode != 0 and why in done.stdout + done.stderr
    with pooler(shards, HUBLESS) as made:
        made.text = bad
        made.configure()
        told = made.psql("RELOAD", "pgcat", password=shards.password, check=False)
        assert why in told.stderr
        with connect(made) as client:
            assert here(client) == 0


def test_comments_without_a_regex_are_none(shards):
    with pooler(shards, HUBLESS) as made, connect(made) as client:
        assert {here(client, "/* shard_id: 2 */") for _ in range(10)} == {0}


DEFAULTS = {None: {0}, "random": {0, 1, 2}, "random_healthy": {0, 1, 2}, "shard_2": {2}}


@pytest.mark.parametrize("default", DEFAULTS)
def test_comments_choose_and_defaults_serve_the_rest(shards, default):
    pool = COMMENTS + (f'default_shard = "{default}"' if default else "")
    with pooler(shards, pool) as made, connect(made) as client:
        assert {here(client) for _ in range(60)} == DEFAULTS[default]
        assert {here(client, "/* the_shard_id: 1 */") for _ in range(25)} == {1}
        key = next(key for key in range(1, 99) if home(shards, key) == 1)
        assert {here(client, f"/* the_sharding_key: {key} */") for _ in range(25)} == {1}
        assert {here(client, f"/* the_shard_id: 2 *//* the_sharding_key: {key} */") for _ in range(5)} == {2}
        # A comment is of its own statement.
        assert {here(client) for _ in range(60)} == DEFAULTS[default]
        # With parameters the text is in a Parse.
        sql = "/* the_shard_id: 1 */ SELECT current_database(), %s"
        assert client.execute(sql, [5], prepare=True).fetchone() == ("hand1", 5)
        with pytest.raises(
            psycopg.errors.InvalidParameterValue, match="there is no shard 7: the database has 3 shards"
        ):
            here(client, "/* the_shard_id: 7 */")
        far = " " * 990 + "/* the_shard_id: 1 */"
        assert here(client, far) in DEFAULTS[default]


def test_random_healthy_avoids_a_shard_that_is_down(shards):
    with Server(shards.tree) as other:
        other.psql("CREATE DATABASE hand1")
        ports = [shards.port, other.port, shards.port]
        text = config(shards, COMMENTS + 'default_shard = "random_healthy"', ports)
        # The other server has another password.
        entry = f'server_username = "{SUPERUSER}"\nserver_password = "{shards.password}"\npool_size'
        other.psql(f"ALTER ROLE {SUPERUSER} PASSWORD '{shards.password}'")
        with Pooler(shards, name="pgcat.toml", text=text.replace("pool_size", entry)) as made:
            with connect(made) as client:
                assert {here(client) for _ in range(60)} == {0, 1, 2}
            other.stop("immediate")
            wait_until(lambda: is_refused(other.port))
            seen, client = [], connect(made)

            def settled():
                nonlocal client
                try:
                    seen.append(here(client))
                except psycopg.Error:
                    seen.clear()
                    client.close()
                    client = connect(made)
                return len(seen) >= 60

            wait_until(settled)
            assert set(seen) == {0, 2}
            with client, pytest.raises(psycopg.Error):
                here(client, "/* the_shard_id: 1 */")
            other.start(port=other.port)

            def answers():
                with contextlib.suppress(psycopg.Error), connect(made) as client:
                    return here(client, "/* the_shard_id: 1 */") == 1

            wait_until(answers)


# What PgCat's scripts for psql do.


def test_commands_choose_the_shard_of_the_session(client, routed):
    server = routed.server
    shown = "SHOW SHARD"
    assert client.execute(shown).fetchall() == [("unset",)]
    assert client.execute(shown).description[0].name == "shard"
    for number in SHARDS:
        assert client.execute(f"SET SHARD TO '{number}'").statusmessage == "SET SHARD"
        assert (here(client), client.execute("  show shard ;").fetchone()) == (
            number,
            (str(number),),
        )
        assert client.execute("SELECT text FROM notes").fetchall() == [(f"note of {number}",)]
    for word in ("SET SHARDING KEY TO '{}'", "set sharding key to {};", "  SeT SHaRDInG KeY to '{}' ; "):
        for key in (1, 5, 18, 4611686018427387904):
            assert client.execute(word.format(key)).statusmessage == "SET SHARDING KEY"
            assert here(client) == home(server, key)
    assert {int(client.execute("SET SHARD TO ANY") and client.execute(shown).fetchone()[0]) for _ in range(60)} == {
        0,
        1,
        2,
    }
    for wrong, error in (
        ("SET SHARD TO '3'", psycopg.errors.InvalidParameterValue),
        ("SET SHARDING KEY TO '9223372036854775808'", psycopg.errors.InvalidParameterValue),
        ("SET SHARD TO 'x'", psycopg.Error),
    ):
        with pytest.raises(error):
            client.execute(wrong)
    # One text of several statements is no command.
    with pytest.raises(psycopg.Error):
        client.execute("SET SHARD TO '1'; SELECT 1")


def test_scripts_of_psql_write_and_read(routed):
    lines = []
    for number, key in enumerate(range(101, 113)):
        word = ("SET SHARDING KEY TO", "set sharding key to", "SeT SHaRDInG KeY to")[number % 3]
        lines += [
            "SET SERVER ROLE TO 'primary';",
            f"{word} '{key}';",
            f"INSERT INTO data (id, value) VALUES ({key}, 'x');",
        ]
        lines += ["set server role to 'any';", f"{word} '{key}';", f"SELECT id FROM data WHERE id = {key};"]
    lines += ["SeT SeRver Role TO 'PrImARY';", "select 1;"]
    said = routed.psql("\n".join(lines), "sharded_db", password=routed.server.password)
    assert said.split() == [str(key) for key in range(101, 113)] + ["1"]
    there = {key: home(routed.server, key) for key in range(101, 113)}
    for number in SHARDS:
        found = routed.server.psql("SELECT id FROM data WHERE id > 100 ORDER BY id", f"hand{number}").split()
        assert [int(key) for key in found] == [key for key in there if there[key] == number]
        routed.server.psql("DELETE FROM data WHERE id > 100", f"hand{number}")


# The hashes.


def test_keys_hash_as_partitions_do(client, routed):
    for key in [*range(50), 2**31 - 1, 2**31, 2**63 - 1]:
        client.execute(f"SET SHARDING KEY TO {key}")
        assert client.execute("SHOW SHARD").fetchone() == (str(home(routed.server, key)),), key


def test_keys_hash_by_sha1(shards):
    with pooler(shards, WAREHOUSES + '\nsharding_function = "sha1"') as made, connect(made) as client:
        for key in [*range(40), 2**63 - 1]:
            client.execute(f"SET SHARDING KEY TO {key}")
            number = int(hashlib.sha1(str(key).encode()).hexdigest()[-8:], 16) % 3
            assert client.execute("SHOW SHARD").fetchone() == (str(number),), key
        with connect(made) as client:
            for key in range(20):
                number = int(hashlib.sha1(str(key).encode()).hexdigest()[-8:], 16) % 3
                sql = "SELECT current_database(), count(*) FROM warehouse WHERE w_id = "
                assert client.execute(sql + str(key)).fetchone()[0] == f"hand{number}"
                assert client.execute(sql + "%s", [key]).fetchone()[0] == f"hand{number}"


# The automatic key.

TPCC = [
    "INSERT INTO warehouse (w_id, w_name) VALUES ({w}, 'w')",
    "INSERT INTO district (w_id, d_id) VALUES ({w}, 1), ({w}, 2)",
    "INSERT INTO customer (c_id, d_id, w_id, c_name) VALUES (7, 1, {w}, 'c')",
    "SELECT w_name FROM warehouse WHERE w_id = {w}",
    "SELECT d_next FROM district WHERE w_id = {w} AND d_id = 1 FOR UPDATE",
    "UPDATE district SET d_next = d_next + 1 WHERE d_id = 1 AND w_id = {w}",
    "UPDATE warehouse SET w_ytd = w_ytd + 5 WHERE w_id = {w} RETURNING w_name",
    "SELECT c.c_name, w.w_name FROM customer c JOIN warehouse w ON c.w_id = w.w_id WHERE w.w_id = {w} AND c.c_id = 7",
    "SELECT c_name FROM customer c, warehouse w, district d WHERE w.w_id = {w} AND c.w_id = w.w_id AND d.w_id = c.w_id"
    " AND d.d_id = 1 AND c_id = 7",
    "SELECT count(*) FROM customer o WHERE o.w_id = {w} AND o.d_id = 1",
    "SELECT i_name, w_name FROM item RIGHT JOIN warehouse ON w_id = {w} WHERE w_id = {w}",
    "DELETE FROM customer WHERE w_id = {w} AND d_id = 1 AND c_id = 7",
]


def test_statements_of_tpcc_go_by_their_warehouse(shards):
    with pooler(shards, WAREHOUSES) as made, connect(made) as client:
        for warehouse in range(1, 10):
            number = home(shards, warehouse)
            for sql in TPCC:
                shown = client.execute("SHOW ROUTE FOR $$" + sql.format(w=warehouse) + "$$").fetchone()
                assert shown[0] == f"sharded_db_shard_{number}", (sql, shown)
                assert client.execute(sql.format(w=warehouse)).rowcount > 0, sql
                with client.transaction(force_rollback=True):
                    client.execute("DELETE FROM warehouse WHERE w_id = %s", [warehouse])
                    client.execute("DELETE FROM district WHERE w_id = %s", [warehouse])
            with client.transaction():
                client.execute("SELECT FROM warehouse WHERE w_id = %s", [warehouse])
                assert here(client) == number, "what names no such table runs where the transaction is"
                with pytest.raises(psycopg.errors.FeatureNotSupported, match="a transaction is of one shard"):
                    other = next(key for key in range(99) if home(shards, key) != number)
                    client.execute("SELECT FROM warehouse WHERE w_id = %s", [other])
                raise psycopg.Rollback
        for number in SHARDS:
            found = shards.psql("SELECT w_id FROM warehouse ORDER BY 1", f"hand{number}").split()
            assert [int(key) for key in found] == [key for key in range(1, 10) if home(shards, key) == number]
            shards.psql("TRUNCATE warehouse, district, customer", f"hand{number}")


@pytest.mark.parametrize("choice", [None, "SET SHARD TO 2"])
def test_what_pgcat_answers_wrongly_is_refused(routed, choice):
    """The faults of PgCat, each of which gave rows of a wrong shard: also behind a statement of another shard."""
    with connect(routed) as client:
        elsewhere = next(key for key in range(1, 19) if home(routed.server, key) == 1)
        for sql, values in (
            ("SELECT * FROM data WHERE other = %s", [elsewhere]),
            ("SELECT * FROM data WHERE id = 1 OR id = 2", None),
            ("SELECT * FROM data WHERE value = 'x'", None),
            ("SELECT * FROM data", None),
            ("SELECT * FROM data WHERE id IN (1, 2, 3, 4, 5)", None),
            ("SELECT * FROM data WHERE id IN (SELECT id FROM notes)", None),
            ("SELECT * FROM data WHERE id::text = '5'", None),
            ("SELECT * FROM data WHERE id = %s", [None]),
            ("UPDATE data SET id = 7 WHERE id = 3", None),
            ("DELETE FROM data WHERE other = %s", [elsewhere]),
            ("INSERT INTO data SELECT id + 900, text FROM notes", None),
            ("INSERT INTO data (id) VALUES (1), (2), (3)", None),
            ("SELECT * FROM viewed WHERE id = 5", None),
            ("SELECT * FROM data_here", None),
            ("COPY data TO STDOUT", None),
            ("TRUNCATE data", None),
            ("CREATE INDEX ON data (value)", None),
            ("SELECT 1; SELECT * FROM data WHERE other = 1", None),
            ("SELECT * FROM notes, data", None),
        ):
            client.execute("SELECT value FROM data WHERE id = %s", [elsewhere])
            if choice is None:
                refused(client, sql, values)
                with client.transaction(force_rollback=True):
                    client.execute("SELECT value FROM data WHERE id = %s", [elsewhere])
                    refused(client, sql, values)
                continue
            # The word of the user.
            client.execute(choice)
            shown = client.execute("SHOW ROUTE FOR $$" + sql.replace("%s", "'x'") + "$$").fetchone()
            assert shown[0] == "sharded_db_shard_2", (sql, shown)
        # What is proved goes where its rows are, whatever was chosen.
        for sql in (
            "SELECT value FROM data WHERE 5 = id",
            "SELECT value FROM data WHERE id = '5'::bigint",
            "SELECT value FROM data WHERE id IN (5, 5)",
            "SELECT value FROM (SELECT * FROM data WHERE id = 5) AS s",
            "SELECT d.value FROM data AS d WHERE d.id = 5",
            "WITH five AS (SELECT * FROM data WHERE id = 5) SELECT value FROM five",
        ):
            assert client.execute(sql).fetchall() == [("value_5",)], sql


def test_a_null_in_text_is_no_key(shards):
    """PgCat reads past such a message."""
    text = toml(shards, AUTOMATIC)
    with Pooler(shards, name="howdah.toml", text=text) as made, Raw(made.port, "sharded_db") as raw:
        null = message(b"B", b"\0\0" + b"\0\0" + b"\0\1" + b"\xff" * 4 + b"\0\0")
        raw.send(parse("", "SELECT * FROM data WHERE id = $1"), null, EXECUTE, SYNC)
        answered = raw.until(b"Z")
        assert any(kind == b"E" and b"0A000" in body for kind, body in answered), answered


def test_a_session_that_has_chosen_stays_there_within_a_transaction(client, routed):
    client.execute("SET SHARD TO 1")
    with client.transaction():
        assert here(client) == 1
        assert client.execute("SHOW SHARD").fetchone() == ("1",)
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            client.execute("SET SHARD TO 2")
        raise psycopg.Rollback
    assert here(client) == 1
    client.execute("BEGIN")
    client.execute("SET SHARD TO 2")
    assert here(client) == 2
    client.execute("COMMIT")
    client.execute("CREATE TEMP TABLE kept (a int)")
    client.execute("INSERT INTO kept VALUES (1)")
    client.execute("SET SHARD TO 0")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        here(client)
    client.execute("SET SHARD TO 2")
    client.execute("DROP TABLE kept")
    client.execute("SET SHARD TO 0")
    assert here(client) == 0


def test_what_is_kept_of_a_transaction_that_no_shard_has_is_bounded(client):
    def begin(count):
        client.execute("SET SHARD TO 1")
        client.execute("BEGIN")
        for number in range(count):
            client.execute(f"SET LOCAL kept.v{number} = '{'x' * 2_000}'")

    begin(10)
    client.execute("SET SHARD TO 2")
    assert here(client) == 2
    client.execute("ROLLBACK")
    begin(40)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="it has begun on its shard"):
        client.execute("SET SHARD TO 2")
    client.execute("ROLLBACK")
    begin(40)
    lengths = "SELECT length(current_setting('kept.v0')), length(current_setting('kept.v39'))"
    assert client.execute(lengths).fetchone() == (2_000, 2_000)
    client.execute("ROLLBACK")


def test_settings_follow_a_client_from_shard_to_shard(client):
    client.execute("SET application_name = 'mine'")
    client.execute("SET statement_timeout = '77s'")
    for number in SHARDS:
        client.execute(f"SET SHARD TO {number}")
        assert client.execute("SHOW application_name").fetchone() == ("mine",)
        assert client.execute("SHOW statement_timeout").fetchone() == ("77s",)


def test_a_table_that_is_new_gets_its_key(shards):
    with pooler(shards, 'automatic_sharding_key = "*.tenant"') as made, connect(made) as client:
        for number in SHARDS:
            client.execute(f"SET SHARD TO {number}")
            client.execute("CREATE TABLE fresh (tenant int, a int)")
        with connect(made) as client:
            route = "SHOW ROUTE FOR 'SELECT * FROM fresh'"
            wait_until(lambda: client.execute(route).fetchone()[0] == "refused")
            key = next(key for key in range(99) if home(shards, key) == 2)
            client.execute("INSERT INTO fresh VALUES (%s, 1)", [key])
        assert shards.psql("SELECT tenant FROM fresh", "hand2") == str(key)
        for number in SHARDS:
            shards.psql("DROP TABLE fresh", f"hand{number}")


def test_howdah_toml_has_the_same_keys(shards):
    text = toml(shards, AUTOMATIC + '\ndefault_shard = "shard_1"')
    with Pooler(shards, name="howdah.toml", text=text) as made, connect(made) as client:
        assert here(client) == 1
        for key in range(9):
            sql = f"SELECT current_database(), count(*) FROM data WHERE id = {key}"
            assert client.execute(sql).fetchone()[0] == f"hand{home(shards, key)}"
        assert refused(client, "SELECT count(*) FROM data").startswith("the statement is not of one shard")


def test_nothing_waits_for_a_map_where_there_is_no_key(shards):
    """The first statement of a pooler that has just started is answered; and in the order in which it was sent."""
    with Pooler(shards, name="howdah.toml", text=toml(shards, "")) as made, Raw(made.port, "sharded_db") as raw:
        raw.send(*(query(f"SET SHARD TO {n % 3}") + query("SELECT current_database()") for n in range(30)))
        for number in range(30):
            assert (b"C", b"SET SHARD\0") in raw.until(b"Z")
            assert values(raw.until(b"Z")) == [f"hand{number % 3}"]
        assert "map of shards" not in made.log.read_text()
