"""The pooler before a hub and its shards: each statement as one server answers it, where it belongs, or refused."""

import asyncio
import contextlib
import time

import asyncpg
import howdah
import psycopg
import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import EXECUTE, SYNC, Raw, bind, parse, query
from tests.pooler.test_metrics import Measured
from tests.shards import fleet as fleets
from tests.shards.fleet import entries, pooler

SCHEMA = """
CREATE TABLE items (tenant bigint, id int, name text, PRIMARY KEY (tenant, id));
CREATE TABLE lines (tenant bigint, item int, line int, price numeric DEFAULT 1, PRIMARY KEY (tenant, item, line));
CREATE TABLE notes (id int PRIMARY KEY, text text);
INSERT INTO items SELECT i % 20, i, 'name ' || i FROM generate_series(1, 200) i;
INSERT INTO lines SELECT tenant, id, n FROM items, generate_series(1, 3) n;
INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 5) i;
"""
DISTRIBUTE = """
SELECT FROM howdah_shards.distribute_table('items', 'tenant', 8);
SELECT FROM howdah_shards.distribute_table('lines', 'tenant', 8, colocate_with => 'items');
"""


@pytest.fixture(scope="module")
def routed(shard_servers):
    """A pooler, and the fleet behind it with tables."""
    with fleets.fleet(*shard_servers, "shards_routed") as fleet:
        fleet.add_shards()
        fleet.sql(SCHEMA + DISTRIBUTE + "CREATE VIEW viewed AS SELECT * FROM items")
        with pooler(fleet) as made:
            yield made, fleet


@pytest.fixture
def client(routed):
    """A client of the pooler."""
    made, _ = routed
    with psycopg.connect(f"host=127.0.0.1 port={made.port} dbname=app user=postgres", autocommit=True) as made:
        yield made


def home(fleet, tenant):
    """The shard of a tenant."""
    found = [name for name in fleet.shards if fleet.on(name, f"SELECT 1 FROM items WHERE tenant = {tenant}")]
    assert len(found) == 1
    return found[0]


def port(client, tenant):
    """The port of the server that answers."""
    return client.execute("SELECT current_setting('port'), count(*) FROM items WHERE tenant = %s", [tenant]).fetchone()[
        0
    ]


def test_statements_go_where_their_rows_are(routed, client):
    _, fleet = routed
    for tenant in range(20):
        there = home(fleet, tenant)
        sql = f"SELECT inet_server_port(), count(*) FROM items WHERE tenant = {tenant}"
        assert client.execute(sql).fetchone()[1] == 10
        rows = client.execute(
            "SELECT id FROM items JOIN lines l ON l.tenant = items.tenant AND l.item = id WHERE items.tenant = %s",
            [tenant],
        )
        assert len(rows.fetchall()) == 30, there
    assert client.execute("SELECT count(*) FROM items").fetchone() == (200,)
    assert client.execute("SELECT count(*) FROM items JOIN notes USING (id)").fetchone() == (5,)
    assert client.execute("SELECT 1").fetchone() == (1,)


def refused(client, sql, *values):
    """The error of a statement that is refused: its message, and its hint."""
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        client.execute(sql, values)
    return caught.value.diag.message_primary, caught.value.diag.message_hint


def test_writes_are_of_one_shard_or_refused(routed, client):
    _, fleet = routed
    client.execute(
        "INSERT INTO items VALUES (77, 1, 'new') ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name"
    )
    client.execute(
        "INSERT INTO items VALUES (%s, 1, %s) ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name",
        [77, "newer"],
    )
    assert client.execute("UPDATE items SET name = upper(name) WHERE tenant = 77 RETURNING name").fetchall() == [
        ("NEWER",)
    ]
    assert fleet.on(home(fleet, 77), "SELECT name FROM items WHERE tenant = 77") == "NEWER"
    with pytest.raises(psycopg.errors.UniqueViolation):
        client.execute("INSERT INTO items VALUES (77, 1, 'again')")
    client.execute("DELETE FROM items WHERE tenant = 77")
    assert client.execute("SELECT count(*) FROM items").fetchone() == (200,)
    why, hint = refused(client, "UPDATE items SET name = 'x'")
    assert (
        why == 'the statement is not of one shard: no condition restricts table "items" to a value of its key "tenant"'
    )
    assert hint == "add a condition that gives the key a value"
    refused(client, "INSERT INTO items SELECT tenant, id + 1000, 'x' FROM items")
    refused(client, "DELETE FROM items WHERE tenant IN (1, 2, 3, 4, 5)")
    refused(client, "TRUNCATE items")
    refused(client, "UPDATE items SET tenant = 2 WHERE tenant = %s", 1)
    assert client.execute("SELECT count(*) FROM items").fetchone() == (200,)


def other(fleet, tenant):
    """A tenant on another shard."""
    return next(found for found in range(20) if home(fleet, found) != home(fleet, tenant))


def test_a_transaction_is_of_the_shard_of_its_first_statement(routed, client):
    _, fleet = routed
    client.autocommit = False
    far = other(fleet, 3)
    client.execute("UPDATE items SET name = 'changed' WHERE tenant = 3")
    assert client.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    client.execute("SELECT 1")
    assert client.execute("SELECT count(*) FROM lines WHERE tenant = 3").fetchone() == (30,)
    why, _ = refused(client, "UPDATE items SET name = 'changed' WHERE tenant = %s", far)
    assert (
        why
        == f'a transaction is of one shard: the transaction is on "{home(fleet, 3)}", and the statement belongs to shard "{home(fleet, far)}"'
    )
    assert client.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    client.rollback()
    assert fleet.sql("SELECT count(*) FROM items WHERE name = 'changed'") == "0"
    client.execute("SELECT count(*) FROM items WHERE tenant = 3")
    refused(client, "SELECT count(*) FROM items")
    client.rollback()
    client.execute("SELECT count(*) FROM items WHERE tenant = 3")
    refused(client, "SELECT * FROM notes")
    client.rollback()
    client.execute("SELECT * FROM notes FOR UPDATE")
    assert client.execute("SELECT count(*) FROM items WHERE tenant = 3").fetchone() == (10,), "the hub sees all shards"
    refused(client, "UPDATE items SET name = 'changed' WHERE tenant = 3")
    client.rollback()
    client.commit()
    with client.transaction():
        client.execute("INSERT INTO items VALUES (3, 999, 'kept')")
        with contextlib.suppress(ZeroDivisionError), client.transaction():
            client.execute("DELETE FROM items WHERE tenant = 3")
            raise ZeroDivisionError
    assert client.execute("DELETE FROM items WHERE tenant = 3 AND id = 999 RETURNING name").fetchall() == [("kept",)]
    assert client.execute("SELECT count(*) FROM items WHERE tenant = 3").fetchone() == (10,)


def test_a_transaction_keeps_its_modes_and_settings(routed, client):
    client.execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")
    assert client.execute("SELECT count(*) FROM items WHERE tenant = 3").fetchone() == (10,)
    assert client.execute("SHOW transaction_isolation").fetchone() == ("serializable",)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        client.execute("DELETE FROM items WHERE tenant = 3")
    client.execute("ROLLBACK")
    client.execute("SET work_mem = '7MB'")
    for tenant in range(20):
        client.execute("BEGIN")
        assert client.execute("SELECT count(*) FROM items WHERE tenant = %s", [tenant]).fetchone() == (10,)
        assert client.execute("SHOW work_mem").fetchone() == ("7MB",)
        client.execute("COMMIT")
    assert client.execute("SELECT current_setting('work_mem')").fetchone() == ("7MB",)
    for begin in ("BEGIN", "START TRANSACTION", "/* with a note */ start transaction READ ONLY"):
        tag = "BEGIN" if begin == "BEGIN" else "START TRANSACTION"
        assert client.execute(begin).statusmessage == tag
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        client.execute("COMMIT")
    assert client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("threshold", [None, 0])
def test_what_comes_before_the_first_rows_does_not_decide_where_a_transaction_is(routed, client, threshold):
    """Savepoints, modes and settings of the transaction, and reads of what only the hub has."""
    _, fleet = routed
    client.prepare_threshold = threshold
    insert = "INSERT INTO items VALUES (3, %s, 'kept')"
    for number, first in enumerate(
        [
            ["SAVEPOINT a"],
            ["SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", "RELEASE a"],
            ["SET LOCAL statement_timeout = '5s'", "SET LOCAL my.tenant = 'it''s'"],
            ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"],
            ["SELECT text FROM notes WHERE id = 3", "SELECT 1"],
            ["SAVEPOINT a", "SELECT nothing FROM notes", "ROLLBACK TO a"],
            ["SAVEPOINT a", "UPDATE items SET name = 'x'", "ROLLBACK TO a"],
        ],
        1000,
    ):
        client.execute("BEGIN")
        for sql in first:
            with contextlib.suppress(psycopg.errors.UndefinedColumn, psycopg.errors.FeatureNotSupported):
                client.execute(sql)
        client.execute(insert, [number])
        for setting in first:
            if setting.startswith("SET LOCAL my"):
                assert client.execute("SHOW my.tenant").fetchone() == ("it's",)
                assert client.execute("SHOW statement_timeout").fetchone() == ("5s",)
            if setting.startswith("SET TRANSACTION"):
                assert client.execute("SHOW transaction_isolation").fetchone() == ("repeatable read",)
        if first[-1] == "SAVEPOINT a":
            client.execute("ROLLBACK TO a")
            client.execute(insert, [number])
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        client.execute("ROLLBACK")
        assert fleet.sql("SELECT count(*) FROM items WHERE name = 'kept'") == "0", first
        client.execute("BEGIN")
        for sql in first:
            with contextlib.suppress(psycopg.errors.UndefinedColumn, psycopg.errors.FeatureNotSupported):
                client.execute(sql)
        client.execute(insert, [number])
        client.execute("COMMIT")
        assert client.execute("DELETE FROM items WHERE tenant = 3 AND name = 'kept'").rowcount == 1, first
    assert client.execute("SHOW statement_timeout").fetchone() == ("0",)


@pytest.mark.parametrize(
    "first",
    [
        "SELECT now()",
        "SELECT * FROM notes FOR UPDATE",
        "UPDATE notes SET text = text",
        "SELECT pg_advisory_xact_lock(1)",
    ],
)
def test_what_belongs_to_a_transaction_of_the_hub_keeps_it_there(client, first):
    client.execute("BEGIN")
    client.execute(first)
    refused(client, "UPDATE items SET name = name WHERE tenant = 3")
    client.execute("ROLLBACK")
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    client.execute("SELECT * FROM notes")
    refused(client, "UPDATE items SET name = name WHERE tenant = 3")
    client.execute("ROLLBACK")


def test_a_transaction_ends_after_a_refusal_also_by_the_extended_protocol(routed):
    made, _ = routed
    with Raw(made.port, "app") as raw:
        raw.sql("BEGIN")
        raw.sql("UPDATE items SET name = 'x'")
        assert raw.ask(parse("", "SELECT 1"), bind(""), EXECUTE, SYNC) == "E:25P02 Z:E"
        assert raw.ask(parse("", "ROLLBACK"), bind(""), EXECUTE, SYNC).endswith("Z:I")


def test_reads_outside_of_a_transaction_and_writes_in_it_come_in_one_pipeline(routed, client):
    client.execute("BEGIN")
    with client.pipeline() as pipeline:
        read = client.execute("SELECT text FROM notes WHERE id = %s", [3])
        pipeline.sync()
        written = client.execute("INSERT INTO items VALUES (%s, 1000, 'kept') RETURNING name", [3])
        pipeline.sync()
    assert (read.fetchone(), written.fetchone()) == (("note 3",), ("kept",))
    client.execute("ROLLBACK")
    assert client.execute("SELECT count(*) FROM items WHERE tenant = 3").fetchone() == (10,)


def test_prepared_statements_are_on_every_shard(routed, client):
    client.prepare_threshold = 0
    for binary in (False, True):
        for tenant in range(20):
            rows = client.execute(
                "SELECT id, name FROM items WHERE tenant = %s ORDER BY id", [tenant], binary=binary
            ).fetchall()
            assert len(rows) == 10 and all(name == f"name {id}" for id, name in rows)
    with client.pipeline():
        cursors = [client.execute("SELECT count(*) FROM items WHERE tenant = %s", [tenant]) for tenant in range(20)]
        assert [cursor.fetchone() for cursor in cursors] == [(10,)] * 20


def test_a_pipeline_is_one_transaction(routed, client):
    with pytest.raises(psycopg.errors.FeatureNotSupported), client.pipeline():
        for tenant in range(100, 130):
            client.execute("INSERT INTO items VALUES (%s, 1, 'piped')", [tenant])
    assert client.execute("SELECT count(*) FROM items").fetchone() == (200,), "none of it was done"
    with client.pipeline() as pipeline:
        for tenant in range(100, 130):
            client.execute("INSERT INTO items VALUES (%s, 1, 'piped')", [tenant])
            pipeline.sync()
    assert client.execute("SELECT count(*) FROM items WHERE name = 'piped'").fetchone() == (30,)
    for tenant in range(100, 130):
        client.execute("DELETE FROM items WHERE tenant = %s", [tenant])
    assert client.execute("SELECT count(*) FROM items").fetchone() == (200,)


def test_asyncpg_and_howdah(routed):
    asyncio.run(with_asyncio(*routed))


async def with_asyncio(made, fleet):
    """Statements and transactions of drivers of asyncio."""
    far = other(fleet, 3)
    for library in (asyncpg, howdah):
        connection = await library.connect(host="127.0.0.1", port=made.port, database="app", user="postgres")
        for tenant in range(20):
            assert await connection.fetchval("SELECT count(*) FROM items WHERE tenant = $1", tenant) == 10
        assert await connection.fetchval("SELECT count(*) FROM items") == 200
        async with connection.transaction():
            await connection.execute("UPDATE items SET name = name WHERE tenant = $1", 3)
            assert await connection.fetchval("SELECT count(*) FROM items WHERE tenant = 3") == 10
        with pytest.raises(library.FeatureNotSupportedError, match="a transaction is of one shard"):
            async with connection.transaction():
                await connection.execute("UPDATE items SET name = name WHERE tenant = $1", 3)
                await connection.execute("UPDATE items SET name = name WHERE tenant = $1", far)
        await connection.executemany(
            "INSERT INTO items VALUES ($1, $2, $3)", [(3, 1000 + i, "many") for i in range(50)]
        )
        assert await connection.fetchval("SELECT count(*) FROM items WHERE tenant = 3") == 60
        await connection.execute("DELETE FROM items WHERE tenant = 3 AND id >= 1000")
        await connection.close()


def test_commands_may_be_prepared(routed, client):
    made, fleet = routed
    sql = "SHOW ROUTE FOR 'SELECT * FROM items WHERE tenant = 3'"
    for threshold in (0, 5):
        client.prepare_threshold = threshold
        for _turn in range(8):
            shown = client.execute(sql)
            assert [column.name for column in shown.description] == ["route", "why", "hint"]
            assert shown.fetchone()[0] == home(fleet, 3)
            assert client.execute("SET ROUTE NOTICES TO off").statusmessage == "SET"

    async def talk(library):
        connection = await library.connect(host="127.0.0.1", port=made.port, database="app", user="postgres")
        for _turn in range(2):
            assert (await connection.fetchrow(sql))["route"] == home(fleet, 3)
            assert await connection.fetch("SET ROUTE NOTICES TO off") == []
        await connection.close()

    for library in (asyncpg, howdah):
        asyncio.run(talk(library))


def test_the_route_of_a_statement_is_shown(routed, client):
    made, fleet = routed

    def route(sql):
        return client.execute(f"SHOW ROUTE FOR {psycopg.sql.quote(sql)}").fetchone()

    assert route("SELECT * FROM items WHERE tenant = 3")[0] == home(fleet, 3)
    assert route("SELECT count(*) FROM items") == (
        "hub",
        'no condition restricts table "items" to a value of its key "tenant"',
        "add a condition that gives the key a value",
    )
    assert route("DELETE FROM items")[0] == "refused"
    assert route("SELECT * FROM notes")[:2] == ("hub", 'relation "notes" is not on the shards')
    assert route("it's no SQL")[:2] == ("hub", "the statement could not be parsed")
    console = f"host=127.0.0.1 port={made.port} dbname=howdah user=postgres"
    with psycopg.connect(console, autocommit=True) as admin:
        rows = admin.execute("SHOW SHARDS").fetchall()
    assert [(row[0], row[1], row[4], row[5]) for row in rows] == [("app", name, 1, 1) for name in fleet.shards]
    assert sum(row[2] for row in rows) == 16


def test_what_only_the_hub_knows_is_refused_on_a_shard(routed, client):
    """Also its preparation, which would fail there; and what would be done there unseen."""
    client.prepare_threshold = 0
    hub = ("SELECT * FROM notes WHERE id = 3", "NOTIFY somebody", "CREATE TABLE stray (id int)", "DO 'BEGIN END'")
    # A later COMMIT PREPARED would look for it on the hub.
    for sql in (*hub, "PREPARE TRANSACTION 'stray'"):
        for binary in (False, True):
            client.execute("BEGIN")
            assert client.execute("SELECT count(*) FROM items WHERE tenant = 3").fetchone() == (10,)
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="the transaction is on shard"):
                client.execute(sql, binary=binary)
            client.execute("ROLLBACK")
    assert client.execute("SELECT text FROM notes WHERE id = 3").fetchone() == ("note 3",)


def test_views_are_made_on_the_hub_and_not_written_through(routed, client):
    client.execute("CREATE VIEW seen AS SELECT * FROM items")
    client.execute("DROP VIEW seen")
    assert client.execute("SELECT count(*) FROM viewed WHERE tenant = 3").fetchone() == (10,)
    refused(client, "DELETE FROM viewed WHERE id < 0")
    refused(client, "WITH items AS (SELECT 1) DELETE FROM items WHERE id < 0")


def test_a_prepared_begin_waits_for_its_first_statement(routed, client):
    client.prepare_threshold = 0
    for tenant in range(20):
        client.execute("BEGIN")
        client.execute("UPDATE items SET name = name WHERE tenant = %s", [tenant])
        assert client.execute("SELECT count(*) FROM items WHERE tenant = %s", [tenant]).fetchone() == (10,)
        client.execute("COMMIT")


def test_what_the_hub_cannot_prepare_is_refused_in_its_transactions(routed, client):
    client.prepare_threshold = 0
    client.execute("BEGIN")
    client.execute("SELECT * FROM notes FOR UPDATE")
    why, _ = refused(client, "INSERT INTO items VALUES (3, 1, 'x') ON CONFLICT (tenant, id) DO UPDATE SET name = 'x'")
    assert why == "the statement is not of one shard: its transaction is on the hub"
    client.execute("ROLLBACK")


def test_a_client_that_has_waited_for_a_shard_goes_where_its_rows_are_by_then(shard_servers):
    """The slot moves while it waits for a connection, for longer than the lease."""
    with fleets.fleet(*shard_servers, "shards_waiting") as fleet:
        fleet.add_shards()
        fleet.sql(
            SCHEMA
            + DISTRIBUTE
            + "CREATE TABLE held (id int); SELECT FROM howdah_shards.distribute_table('held', 'id', 8)"
        )
        fleet.sql("SELECT howdah_shards.set_lease('2 seconds')")
        shard = home(fleet, 3)
        slot = "SELECT slot FROM howdah_shards.routes WHERE table_name = '{0}' AND shard = '{1}' AND satisfies_hash_partition('{0}'::regclass, 8, slot, {2})"
        held = next(id for id in range(100) if fleet.sql(slot.format("held", shard, id)))
        number, to = (
            fleet.sql(slot.format("items", shard, "3::bigint")),
            next(name for name in fleet.shards if name != shard),
        )
        with pooler(fleet, default_pool_size=1) as made, contextlib.ExitStack() as stack:
            place = f"host=127.0.0.1 port={made.port} dbname=app user=postgres"
            first, *others = [stack.enter_context(psycopg.connect(place, autocommit=True)) for _ in range(4)]
            reads = "SELECT count(*) FROM items WHERE tenant = 3"
            writes = "UPDATE items SET name = 'moved' WHERE tenant = 3"
            first.execute("BEGIN")
            first.execute("SELECT FROM held WHERE id = %s", [held])
            sent = [other.pgconn for other in others]
            for connection, sql in zip(sent, (reads, writes), strict=False):
                connection.send_query(sql.encode())
            sent[2].send_query_params(b"SELECT count(*) FROM items WHERE tenant = $1", [b"3"])
            wait_until(
                lambda: sum(int(row["cl_waiting"]) for row in made.show("POOLS") if row["database"] == "app") == 3
            )
            fleet.sql(f"CALL howdah_shards.move_slot('items', {number}, '{to}')")
            assert home(fleet, 3) == to
            first.execute("COMMIT")
            read, written, bound = [connection.get_result() for connection in sent]
            assert not any(connection.get_result() for connection in sent)
            assert read.get_value(0, 0) == b"10", read.error_message
            assert written.command_status == b"UPDATE 10", written.error_message
            assert bound.get_value(0, 0) == b"10", bound.error_message


def test_a_message_that_comes_in_parts_is_judged_whole(routed):
    made, fleet = routed
    far = other(fleet, 3)
    with Raw(made.port, "app") as raw:
        raw.sql("BEGIN")
        raw.sql("SELECT count(*) FROM items WHERE tenant = 3")
        whole = query(f"SELECT count(*) FROM items WHERE tenant = {far}")
        raw.send(whole[:20])
        time.sleep(0.1)
        assert raw.ask(whole[20:]) == "E:0A000 Z:E"


def test_long_statements_are_of_one_shard_or_refused(routed, client):
    _, fleet = routed
    long = "x" * 1_000_000
    client.execute("INSERT INTO items VALUES (%s, 1, %s)", [77, long])
    client.execute(f"INSERT INTO items VALUES (77, 2, '{long[:200_000]}')")
    assert fleet.on(home(fleet, 77), "SELECT sum(length(name)) FROM items WHERE tenant = 77") == "1200000"
    assert client.execute("DELETE FROM items WHERE tenant = 77 AND name <> %s", [long * 3]).rowcount == 2
    why, _ = refused(client, f"DELETE FROM items WHERE name <> '{long}'")
    assert (
        why
        == "the statement is not of one shard: the statement is too long, too deep or in an encoding that is not read"
    )
    refused(client, f"DELETE FROM items WHERE id = {'1 + ' * 20_000}1")
    refused(client, f"DELETE FROM items WHERE tenant = 3 AND name <> '{'x' * 17_000_000}'")
    values = ", ".join(f"({tenant}, 1, 'x')" for tenant in range(100, 3000))
    refused(client, f"INSERT INTO items VALUES {values}")
    assert client.execute(f"SELECT count(*) FROM notes WHERE text <> '{long}'").fetchone() == (5,)
    client.autocommit = False
    client.execute("SELECT count(*) FROM items WHERE tenant = 3")
    refused(client, f"SELECT count(*) FROM items WHERE name <> '{long}'")
    client.rollback()
    client.execute("SELECT count(*) FROM items WHERE tenant = 3")
    refused(client, "SELECT count(*) FROM items WHERE tenant = %s AND name <> %s", other(fleet, 3), long)
    client.rollback()
    assert client.execute("SELECT count(*) FROM items").fetchone() == (200,)


def test_an_entry_may_let_the_hub_write_to_several_shards(routed):
    _, fleet = routed
    bulk = entries(fleet)
    bulk["app"] += " multi_shard_writes=1"
    with (
        Pooler(fleet.hub, databases=bulk) as bulky,
        psycopg.connect(f"host=127.0.0.1 port={bulky.port} dbname=app user=postgres", autocommit=True) as client,
    ):
        with client.cursor() as cursor, cursor.copy("COPY items FROM STDIN") as copy:
            for tenant in range(1000, 1100):
                copy.write_row((tenant, 1, "copied"))
        assert client.execute("SELECT count(*) FROM items WHERE name = 'copied'").fetchone() == (100,)
        assert {home(fleet, tenant) for tenant in range(1000, 1100)} == set(fleet.shards)
        client.execute("INSERT INTO items SELECT tenant, 2, 'copied' FROM items WHERE tenant >= 1000")
        with client.transaction():
            assert client.execute("UPDATE items SET name = 'changed' WHERE tenant >= 1000").rowcount == 200
            client.execute("UPDATE items SET name = 'changed again' WHERE tenant = 1003")
            assert client.execute("SELECT count(*) FROM items WHERE name = 'changed again'").fetchone() == (2,)
        assert client.execute("DELETE FROM items WHERE tenant = 1003").rowcount == 2, "one shard's are written there"
        assert client.execute("SHOW ROUTE FOR 'DELETE FROM items'").fetchone()[0] == "hub"
        assert client.execute("DELETE FROM items WHERE tenant >= 1000").rowcount == 198
        refused(client, "TRUNCATE items")
        refused(client, "ALTER TABLE items ADD COLUMN other int")
        assert client.execute("SELECT count(*) FROM items").fetchone() == (200,)


def test_notices_and_counts_say_where_statements_go(routed):
    _, fleet = routed
    with (
        Measured(fleet.hub, databases=entries(fleet)) as made,
        psycopg.connect(f"host=127.0.0.1 port={made.port} dbname=app user=postgres", autocommit=True) as client,
    ):
        told = []
        client.add_notice_handler(lambda notice: told.append(notice.message_primary))
        client.execute("SELECT count(*) FROM items WHERE tenant = 3")
        client.execute("SET ROUTE NOTICES TO on")
        client.execute("SELECT count(*) FROM items WHERE tenant = %s", [3])
        client.execute("SELECT count(*) FROM items")
        client.execute("SELECT 1")
        refused(client, "DELETE FROM items")
        client.execute("SET route notices TO off;")
        client.execute("SELECT 1")
        assert told == [
            f"route: {home(fleet, 3)} (every sharded table in it is restricted to keys of this shard)",
            'route: hub (no condition restricts table "items" to a value of its key "tenant")',
            "route: hub (it names no sharded table; in a transaction it runs where that is)",
        ]
        counted = {
            (sample.labels["route"], sample.labels["rule"]): sample.value
            for sample in made.samples()["howdah_pooler_shard_statements"].samples
        }
        assert counted == {
            ("shard", "key"): 2,
            ("hub", "no_key"): 1,
            ("hub", "not_sharded"): 2,
            ("refused", "no_key"): 1,
        }


def test_a_transaction_fails_with_the_server_of_a_read_outside_of_it(routed, client):
    _, fleet = routed
    client.execute("BEGIN")
    read = "SELECT text FROM notes WHERE id = 3"
    hub = f"host=127.0.0.1 port={fleet.hub.port} dbname={fleet.database} user=postgres password={fleet.hub.password}"
    with psycopg.connect(hub) as blocker:
        blocker.execute("LOCK TABLE notes")
        client.pgconn.send_query(read.encode())
        ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = $${read}$$ AND wait_event_type = 'Lock'"
        wait_until(lambda: fleet.sql(ended) == "t")
    result = client.pgconn.get_result()
    assert result.status == psycopg.pq.ExecStatus.FATAL_ERROR
    assert client.pgconn.get_result() is None, result.error_message
    assert client.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        client.execute("INSERT INTO items VALUES (3, 1000, 'lost')")
    client.execute("ROLLBACK")
    client.execute("INSERT INTO items VALUES (3, 1000, 'kept')")
    assert client.execute("DELETE FROM items WHERE tenant = 3 AND id = 1000").rowcount == 1


def has_map(client):
    """Whether the pooler knows the map of the shards by now."""
    with contextlib.suppress(psycopg.Error):
        return client.execute("SELECT count(*) FROM items").fetchone() == (200,)
    return False


def test_a_transaction_fails_when_its_first_statement_gets_no_connection(routed):
    _, fleet = routed
    with pooler(fleet, default_pool_size=1, query_wait_timeout=1) as made, contextlib.ExitStack() as stack:
        place = f"host=127.0.0.1 port={made.port} dbname=app user=postgres"
        first, second = [stack.enter_context(psycopg.connect(place, autocommit=True)) for _ in range(2)]
        wait_until(lambda: has_map(first))
        first.execute("BEGIN")
        first.execute("SELECT FROM items WHERE tenant = 3")
        second.execute("BEGIN")
        with pytest.raises(psycopg.Error, match="query_wait_timeout"):
            second.execute("INSERT INTO items VALUES (3, 1000, 'first')")
        first.execute("COMMIT")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            second.execute("INSERT INTO items VALUES (3, 1001, 'second')")
        assert second.execute("COMMIT").statusmessage == "ROLLBACK"
        assert fleet.sql("SELECT count(*) FROM items WHERE id >= 1000") == "0"


def test_reads_of_the_hub_see_the_settings_of_their_transaction(routed, client):
    _, fleet = routed
    fleet.sql("CREATE VIEW own AS SELECT current_setting('my.tenant', true) AS tenant, text FROM notes WHERE id = 3")
    client.execute("BEGIN")
    client.execute("SET LOCAL my.tenant = '5'")
    assert client.execute("SELECT tenant FROM own").fetchone() == ("5",)
    client.execute("COMMIT")
    fleet.sql("DROP VIEW own")


def test_portals_of_the_hub_last_as_long_as_their_transaction(routed, client):
    made, _ = routed

    async def rows():
        connection = await asyncpg.connect(host="127.0.0.1", port=made.port, database="app", user="postgres")
        async with connection.transaction():
            found = [row["id"] async for row in connection.cursor("SELECT id FROM notes ORDER BY id", prefetch=2)]
        await connection.close()
        return found

    assert asyncio.run(rows()) == [1, 2, 3, 4, 5]
    client.autocommit = False
    with client.cursor("named") as cursor:
        cursor.itersize = 2
        assert [id for (id,) in cursor.execute("SELECT id FROM notes ORDER BY id")] == [1, 2, 3, 4, 5]
    client.rollback()


def test_settings_that_the_server_refuses_fail_their_transaction_alone(routed, client):
    for setting in ("lock_timeout = '5m'", "foo_timeout = '5s'", "my.a = 'x', 'y'", "deadlock_timeout = '-1'"):
        client.execute("BEGIN")
        with pytest.raises(psycopg.Error):
            client.execute(f"SET LOCAL {setting}")
            client.execute("SELECT count(*) FROM items WHERE tenant = 3")
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.INERROR, setting
        client.execute("ROLLBACK")
        assert client.execute("SELECT count(*) FROM items WHERE tenant = 3").fetchone() == (10,)


def test_a_begin_with_a_name_does_not_decide(routed):
    made, _ = routed
    with Raw(made.port, "app") as raw:
        begun = (parse("S_1", "BEGIN"), bind("S_1"), EXECUTE)
        read = (parse("", "SELECT text FROM notes WHERE id = 3"), bind(""), EXECUTE)
        assert raw.ask(*begun, *read, SYNC).endswith("Z:T")
        assert raw.ask(query("UPDATE items SET name = name WHERE tenant = 3")).endswith("Z:T")
        assert raw.ask(query("ROLLBACK")).endswith("Z:I")
        assert raw.ask(bind("S_1"), EXECUTE, SYNC).endswith("Z:T")
        assert raw.ask(query("UPDATE items SET name = name WHERE tenant = 4")).endswith("Z:T")
        assert raw.ask(query("ROLLBACK")).endswith("Z:I")


def test_rows_are_copied_within_a_shard_by_an_undeclared_parameter(routed):
    made, _ = routed

    async def copied():
        connection = await asyncpg.connect(host="127.0.0.1", port=made.port, database="app", user="postgres")
        done = await connection.execute(
            "INSERT INTO items SELECT tenant, id + 1000, name FROM items WHERE tenant = $1 AND id < 1000", 3
        )
        assert done == "INSERT 0 10"
        done = await connection.execute(
            "INSERT INTO items SELECT tenant, id + 2000, name FROM items WHERE tenant = ANY($1) AND id < 1000", [3]
        )
        assert done == "INSERT 0 10"
        assert await connection.execute("DELETE FROM items WHERE tenant = 3 AND id > 1000") == "DELETE 20"
        await connection.close()

    asyncio.run(copied())
