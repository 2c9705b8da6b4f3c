"""What errors, tasks and logs say: the thing at fault by its name."""

import asyncio
import logging

import howdah
import howdah.dbapi
import pytest


async def test_a_row_that_cannot_be_copied_is_shown_with_its_column(spec):
    connection = await howdah.connect(**spec)
    await connection.execute("create temp table copied (id int, name text)")
    for rows, kind, message in (
        ([(1, "a"), (2, 3)], TypeError, r'expected str, got int \(column "name" of the row \(2, 3\)\)'),
        ([(1, "a"), (2**40, "x" * 50)], OverflowError, r'\(column "id" of the row \(1099511627776, \'x+\.\.\.\)'),
        ([(2,)], IndexError, r'tuple index out of range \(column "name" of the row \(2,\)\)'),
    ):
        with pytest.raises(kind, match=message):
            await connection.copy_records_to_table("copied", records=rows)
    with pytest.raises(TypeError, match='column "id" of the row None'):
        await connection.copy_records_to_table("copied", records=[None])
    with pytest.raises(UnicodeEncodeError):
        await connection.copy_records_to_table("copied", records=[(1, "\ud800")])
    assert await connection.fetchval("select count(*) from copied") == 0
    await connection.close()


async def test_a_parameter_that_the_server_takes_for_text_wants_a_cast(spec):
    """As those of `pgml.predict(project, $1)`, which has overloads."""
    connection = await howdah.connect(**spec)
    for value in (5, 1.5, [1.0, 2.0]):
        with pytest.raises(howdah.DataError, match=r"expected str, got") as caught:
            await connection.fetchval("select upper($1)", value)
        assert "The server takes this parameter for text" in caught.value.hint
        assert ("= any(...)" in caught.value.hint) == isinstance(value, list)
    assert await connection.fetchval("select upper($1::real[]::text)", [1.0, 2.0]) == "{1,2}"
    with pytest.raises(howdah.DataError) as caught:
        await connection.fetchval("select 1 + $1", "a")
    assert caught.value.hint is None
    await connection.close()
    with howdah.dbapi.connect(**spec) as synchronous, pytest.raises(howdah.dbapi.DataError, match="HINT: .*`real"):
        synchronous.execute("select upper(%s)", (5,))


async def test_a_timeout_says_how_long_it_was(spec):
    connection = await howdah.connect(**spec, command_timeout=0.08)
    with pytest.raises(asyncio.TimeoutError, match=r"^no answer within the timeout of 0\.0[345]\d? seconds$"):
        await connection.fetch("select pg_sleep(5)", timeout=0.05)
    with pytest.raises(asyncio.TimeoutError, match=r"timeout of 0\.0[5678]\d? seconds"):
        await connection.execute("select pg_sleep(5)")
    await connection.close()
    async with howdah.create_pool(**spec, min_size=1, max_size=1) as pool, pool.acquire():
        with pytest.raises(
            asyncio.TimeoutError, match=r"became free in timeout=0\.02 seconds: 1 of 1 connections are lent"
        ):
            await pool.acquire(timeout=0.02)


def test_a_timeout_of_the_synchronous_interface_says_it_too(spec):
    with howdah.dbapi.connect(**spec, command_timeout=0.05) as connection:
        with pytest.raises(howdah.dbapi.OperationalError, match=r"timeout of 0\.0[345]\d? seconds"):
            connection.execute("select pg_sleep(5)")
        connection.rollback()


async def test_a_task_is_called_by_its_query(spec):
    connection = await howdah.connect(**spec)
    task = asyncio.get_running_loop().create_task(connection.fetch("select 1 as asked"))
    assert "select 1 as asked" in repr(task)
    await task
    operation = connection.fetchval("select " + "1 + " * 50 + "1")
    assert operation.__name__ == "select " + "1 + " * 13 + "1..."
    operation.close()
    await connection.close()


async def test_a_pool_without_its_server_logs_a_line(spec, caplog):
    pool = await howdah.create_pool(**spec, min_size=1, max_size=2)
    pool.set_connect_args(**{**spec, "port": 1})
    with caplog.at_level(logging.WARNING, "howdah.pool"):
        async with pool.acquire() as connection:
            connection.terminate()
        pool._schedule_min_size_maintenance()
        for _ in range(100):
            await asyncio.sleep(0.02)
            if caplog.records:
                break
    (record,) = caplog.records
    assert "min_size=1, and tries again in 1 s: ConnectionRefusedError" in record.getMessage()
    assert not record.exc_info
    pool.terminate()


async def test_a_missing_password_is_told(spec, tmp_path, monkeypatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with pytest.raises(howdah.InvalidPasswordError) as missing:
        await howdah.connect(**{**spec, "password": None}, passfile=tmp_path / "none")
    assert "No password was given" in missing.value.hint
    with pytest.raises(howdah.InvalidPasswordError) as wrong:
        await howdah.connect(**{**spec, "password": "wrong"})
    assert wrong.value.hint is None


async def test_classes_are_asked_for_by_their_names(spec):
    for option in ("connection_class", "record_class"):
        with pytest.raises((howdah.InterfaceError, TypeError), match=r"here howdah\.(Connection|Record), got"):
            await howdah.connect(**spec, **{option: int})
        with pytest.raises(TypeError, match=r"here howdah\.(Connection|Record), got"):
            howdah.create_pool(**spec, **{option: int})
