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
    waiting = connection.fetchrow("select 1", record_class=dict)
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
