"""What a program that was written for asyncpg sees, the same done by both."""

import asyncio
import pickle
import traceback
import unittest.mock

import asyncpg
import howdah
import pytest


@pytest.fixture(params=[asyncpg, howdah], ids=["asyncpg", "howdah"])
def package(request):
    """Each claim below holds for both."""
    return request.param


async def test_a_double_of_a_connection_can_be_awaited(package):
    double = unittest.mock.create_autospec(package.Connection, instance=True)
    for method in (double.execute, double.fetch, double.fetchrow, double.fetchval):
        method.return_value = 1
        assert await method("select 1") == 1


async def test_what_is_wrong_is_raised_where_it_is_awaited(package, spec):
    connection = await package.connect(**spec)
    waiting = connection.fetchrow("select 1", record_class=int)
    with pytest.raises(package.InterfaceError, match="record_class is expected"):
        await waiting
    connection.terminate()
    methods = (connection.execute, connection.fetch, connection.fetchrow, connection.fetchval)
    for error in await asyncio.gather(*(method("select 1") for method in methods), return_exceptions=True):
        assert isinstance(error, package.InterfaceError)


async def test_a_closed_connection_says_no_more_than_that(package, spec):
    closed = await package.connect(**spec)
    await closed.close()
    killed = await package.connect(**spec)
    other = await package.connect(**spec)
    ended = asyncio.Event()
    killed.add_termination_listener(lambda _: ended.set())
    await other.execute("select pg_terminate_backend($1)", killed.get_server_pid())
    await ended.wait()
    for connection in (closed, killed):
        with pytest.raises(package.InterfaceError) as caught:
            await connection.fetch("select 1")
        assert str(caught.value) == "connection is closed"
    await other.close()


async def test_query_loggers_see_what_transactions_send(package, spec):
    connection = await package.connect(**spec)
    logged = []
    with connection.query_logger(lambda record: logged.append(record.query.split(" ")[0])):
        async with connection.transaction():
            await connection.execute("select 1")
            async with connection.transaction():
                pass
        transaction = connection.transaction(readonly=True)
        await transaction.start()
        await transaction.rollback()
        # Callbacks are called by the loop.
        await asyncio.sleep(0)
    assert logged == ["BEGIN;", "select", "SAVEPOINT", "RELEASE", "COMMIT;", "BEGIN", "ROLLBACK;"]
    await connection.close()


async def test_errors_are_named_where_programs_import_them_from(package, spec):
    connection = await package.connect(**spec)
    with pytest.raises(package.DivisionByZeroError) as caught:
        await connection.execute("select 1 / 0")
    name = f"{package.__name__}.exceptions.DivisionByZeroError"
    assert traceback.format_exception_only(caught.type, caught.value) == [f"{name}: division by zero\n"]
    assert type(pickle.loads(pickle.dumps(caught.value))) is package.DivisionByZeroError
    await connection.close()


async def test_copy_takes_nothing_but_bytes(package, spec):
    connection = await package.connect(**spec)
    await connection.execute("create temporary table notes (note text)")
    for wrong in (5, [1, 2], "note", None):

        async def pieces(piece=wrong):
            yield piece

        with pytest.raises(TypeError, match="a bytes-like object is required, not"):
            await connection.copy_to_table("notes", source=pieces())
    for right in (b"one\n", bytearray(b"two\n"), memoryview(b"three\n")):

        async def pieces(piece=right):
            yield piece

        assert await connection.copy_to_table("notes", source=pieces()) == "COPY 1"
    await connection.close()


def watch(monkeypatch, kind, names, seen, what):
    """Puts coroutine functions in the place of methods, as tools that measure queries do."""
    for name in names:
        method = getattr(kind, name)

        async def watched(*args, _method=method, _name=name, **keywords):
            seen.append((_name, what(args, keywords)))
            return await _method(*args, **keywords)

        monkeypatch.setattr(kind, name, watched)


async def queries(connection):
    """Queries of all kinds; what they give."""
    async with connection.transaction():
        await connection.execute("create temp table watched (n int)")
        given = [await connection.execute("insert into watched values ($1)", 1)]
        await connection.executemany("insert into watched values ($1)", [(2,), (3,)])
        async for row in connection.cursor("select n from watched where n = $1", 3, prefetch=5):
            given.append(row["n"])
    transaction = connection.transaction()
    await transaction.start()
    given.append([tuple(row) for row in await connection.fetch("select n from watched order by n")])
    given.append(tuple(await connection.fetchrow("select n, n from watched where n = $1", 2)))
    given.append(await connection.fetchrow("select n from watched where n = $1", 4))
    await transaction.rollback()
    given.append(await connection.fetchval("select n, n + 1 as next from watched where n = $1", 2, column="next"))
    given.append(await (await connection.prepare("select 4")).fetchval())
    return given


GIVEN = ["INSERT 0 1", 3, [(1,), (2,), (3,)], (2, 2), None, 3, 4]


async def test_tools_see_queries_where_connections_have_them_pass(package, spec, monkeypatch):
    seen = []
    names = ("execute", "_execute", "_executemany", "_do_execute")
    watch(monkeypatch, package.Connection, names, seen, lambda args, keywords: args[1].split(" ")[0])
    prepared, name = package.prepared_stmt.PreparedStatement, "_PreparedStatement__bind_execute"
    watch(monkeypatch, prepared, (name,), seen, lambda args, keywords: args[0]._query)
    cursors = ("_bind_exec", "_exec")
    watch(monkeypatch, package.cursor.BaseCursor, cursors, seen, lambda args, keywords: args[0]._query.split(" ")[0])
    connection = await package.connect(**spec)
    assert await queries(connection) == GIVEN
    await connection.close()
    assert seen == [
        ("execute", "BEGIN;"),
        ("execute", "create"),
        ("execute", "insert"),
        ("_execute", "insert"),
        ("_do_execute", "insert"),
        ("_executemany", "insert"),
        ("_do_execute", "insert"),
        ("_bind_exec", "select"),
        ("execute", "COMMIT;"),
        ("execute", "BEGIN;"),
        *[("_execute", "select"), ("_do_execute", "select")] * 3,
        ("execute", "ROLLBACK;"),
        ("_execute", "select"),
        ("_do_execute", "select"),
        (name, "select 4"),
    ]


async def test_tools_see_queries_where_sessions_have_them_pass(package, spec, monkeypatch):
    def what(args, keywords):
        asked = args[1] if len(args) > 1 else keywords["state"]
        args[0].note = asked
        return (asked if isinstance(asked, str) else asked.query).split(" ")[0]

    seen = []
    names = ("query", "bind_execute", "bind_execute_many")
    watch(monkeypatch, package.protocol.Protocol, names, seen, what)
    connection = await package.connect(**spec)
    assert await queries(connection) == GIVEN
    await connection.close()
    assert seen == [
        ("query", "BEGIN;"),
        ("query", "create"),
        ("bind_execute", "insert"),
        ("bind_execute_many", "insert"),
        ("bind_execute", "select"),
        ("query", "COMMIT;"),
        ("query", "BEGIN;"),
        ("bind_execute", "select"),
        ("bind_execute", "select"),
        ("bind_execute", "select"),
        ("query", "ROLLBACK;"),
        ("bind_execute", "select"),
        ("bind_execute", "select"),
    ]


async def test_a_derived_class_sees_its_queries(package, spec):
    class Derived(package.Connection):
        __slots__ = ("seen",)

        def __init__(self, *args, **keywords):
            super().__init__(*args, **keywords)
            self.seen = []

        async def execute(self, query, *args, **keywords):
            self.seen.append(query.split(" ")[0])
            return await super().execute(query, *args, **keywords)

    async with package.create_pool(**spec, connection_class=Derived, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            assert await queries(connection) == GIVEN
            seen = connection.seen
        assert seen == ["BEGIN;", "create", "insert", "COMMIT;", "BEGIN;", "ROLLBACK;", "SELECT"]


async def test_a_pools_free_places_can_be_looked_at(package, spec):
    async with package.create_pool(**spec, min_size=2, max_size=3) as pool:
        async with pool.acquire():
            free = list(pool._queue._queue)
        assert pool._queue.qsize() == 3
        assert sorted(holder.is_connected() for holder in free) == [False, True]
