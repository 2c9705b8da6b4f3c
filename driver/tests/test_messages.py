"""What errors, tasks and logs say: the thing at fault by its name."""

import asyncio
import io
import json
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
        synchronous.execute("select upper(%s)", ({},))


async def test_a_timeout_says_how_long_it_was(spec):
    connection = await howdah.connect(**spec, command_timeout=0.08)
    with pytest.raises(asyncio.TimeoutError, match=r"^no answer within the timeout of 0\.05 seconds$"):
        await connection.fetch("select pg_sleep(5)", timeout=0.05)
    with pytest.raises(asyncio.TimeoutError, match=r"timeout of 0\.08 seconds"):
        await connection.execute("select pg_sleep(5)")
    await connection.close()
    async with howdah.create_pool(**spec, min_size=1, max_size=1) as pool, pool.acquire():
        with pytest.raises(
            asyncio.TimeoutError, match=r"became free in timeout=0\.02 seconds: 1 of 1 connections are lent"
        ):
            await pool.acquire(timeout=0.02)


def test_a_timeout_of_the_synchronous_interface_says_it_too(spec):
    with howdah.dbapi.connect(**spec, command_timeout=0.5) as connection:
        with pytest.raises(howdah.dbapi.OperationalError, match=r"timeout of 0\.5 seconds"):
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


async def test_records_that_lose_values_are_refused_by_their_number(spec):
    connection = await howdah.connect(**spec)
    await connection.execute("create temp table copied (id int, name text)")

    async def given(records):
        for record in records:
            yield record

    rows = [(number, "a") for number in range(300)]
    for records in ([*rows, (1, "a", 2)], [*rows, [1, "a", 2]], given([*rows, (1, "a", 2)])):
        with pytest.raises(ValueError, match=r"element #300 of the records has 3 values for 2 columns: [(\[]1, 'a', 2"):
            await connection.copy_records_to_table("copied", records=records)
    with pytest.raises(TypeError, match=r"element #1 of the records is a dict: .* tuple\(record\.values\(\)\)"):
        await connection.copy_records_to_table("copied", records=[(1, "a"), {"id": 1, "name": "a"}])
    records = await connection.fetch("select 1, 'a', 2")
    with pytest.raises(ValueError, match="element #0 of the records has 3 values"):
        await connection.copy_records_to_table("copied", records=records)
    assert await connection.fetchval("select count(*) from copied") == 0
    await connection.close()


@pytest.mark.parametrize("kind", ["json", "jsonb"])
async def test_an_object_for_json_has_a_hint(spec, kind):
    connection = await howdah.connect(**spec)
    for value in ({"a": 1}, [1]):
        with pytest.raises(howdah.DataError, match="expected str, got") as caught:
            await connection.fetchval(f"select $1::{kind}", value)
        assert (
            "JSON is text here: pass json.dumps(value), or call `await connection.decode_json()`" in caught.value.hint
        )
        assert json.loads(await connection.fetchval(f"select $1::{kind}", json.dumps(value))) == value
    await connection.decode_json()
    assert await connection.fetchval(f"select $1::{kind}", {"a": 1}) == {"a": 1}
    await connection.close()


async def test_placeholders_of_dbapi_have_the_same_hint_with_keywords(spec):
    connection = await howdah.connect(**spec)
    with pytest.raises(howdah.InterfaceError, match="the query has no parameters :id") as caught:
        await connection.fetch("select %(id)s::int", id=1)
    assert "those of howdah.dbapi" in caught.value.hint
    with pytest.raises(howdah.InterfaceError, match="the query has no parameters :id") as caught:
        await connection.fetch("select 1", id=1)
    assert caught.value.hint is None
    with pytest.raises(howdah.InterfaceError, match="howdah.Record, or tuple, dict, a dataclass, .* got <class 'int'>"):
        await connection.fetch("select 1", record_class=int)
    await connection.close()


async def test_arguments_of_connect_are_named(monkeypatch):
    for dsn, message in (
        ("host=localhost port=abc", "port=abc is expected to be a port's number, got 'abc'"),
        ("postgres://localhost:abc/db", "the port of the host 'localhost:abc' is expected .*, got 'abc'"),
        ("postgres:///db?host=localhost&port=1,x", "port=1,x is expected to be a port's number, got 'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            await howdah.connect(dsn)
    with pytest.raises(ValueError, match="^port is expected to be a port's number, got 'abc'"):
        await howdah.connect(host="localhost", port="abc")
    monkeypatch.setenv("PGPORT", "abc")
    with pytest.raises(ValueError, match="PGPORT is expected to be a port's number, got 'abc'"):
        await howdah.connect(host="localhost")
    with pytest.raises(TypeError, match="timeout is expected to be a number of seconds, got '5'"):
        await howdah.connect(timeout="5")
    with pytest.raises(ValueError, match="timeout is expected to be greater or equal to 0, got -1"):
        await howdah.connect(timeout=-1)
    for connect in (howdah.connect, howdah.create_pool):
        with pytest.raises(TypeError, match="dsn is expected to be a str, not int"):
            await connect(5)
    with pytest.raises(TypeError, match="dsn is expected to be a str, not int"):
        howdah.dbapi.connect(5)


def test_commands_of_the_synchronous_interface_are_texts_or_bytes(spec):
    with howdah.dbapi.connect(**spec) as connection, connection.cursor() as cursor:
        assert cursor.execute(cursor.mogrify("select %s", ("é",))).fetchall() == [("é",)]
        assert cursor.execute(b"select %s::int", (1,)).fetchall() == [(1,)]
        assert connection.execute(b"select 1; select 2").statusmessage == "SELECT 1"
        cursor.execute(b"create temp table rows (id int)")
        assert cursor.executemany(b"insert into rows values (%s)", [(1,), (2,)]).rowcount == 2
        assert cursor.copy_in(b"copy rows from stdin", b"5\n") == 1
        assert cursor.copy_expert(b"copy rows to stdout", io.BytesIO()) == 3
        assert cursor.mogrify(b"select %s", (1,)) == b"select 1"
        assert connection.cursor(stream=True).execute(b"select 1").fetchall() == [(1,)]
        assert connection.fetch_columns(b"select 1 as one").to_pydict() == {"one": [1]}
        others = [connection.cursor(stream=True), connection.cursor(columns=True)]
        for method in [cursor.execute, cursor.mogrify, connection.execute, *(other.execute for other in others)]:
            with pytest.raises(TypeError, match="the command is expected to be a str or bytes, not NoneType"):
                method(None)
        for method in (cursor.executemany, cursor.copy_in, cursor.copy_out, cursor.copy_expert):
            with pytest.raises(TypeError, match="the command is expected to be a str or bytes, not int"):
                method(5, [])
        assert cursor.execute("select 1").fetchone() == (1,)


def test_mistakes_in_the_synchronous_interface_are_named(spec):
    for call in (howdah.dbapi.connect, howdah.dbapi.Pool):
        with pytest.raises(TypeError, match="row_factory is expected to be a callable, .*dict_row.*, got 'dict'"):
            call(**spec, row_factory="dict")
    with howdah.dbapi.connect(**spec) as connection, connection.cursor() as cursor:
        with pytest.raises(TypeError, match="row_factory is expected to be a callable"):
            connection.cursor(row_factory="dict")
        cursor.execute("create temp table rows (id int, name text)")
        connection.commit()
        message = "argument sequence element #%d: expected a sequence or a mapping, got %s; a single value is written"
        for values, number, kind in (([1, 2], 0, "int"), ([(1,), 2], 1, "int"), (["ab"], 0, "str")):
            with pytest.raises(howdah.dbapi.ProgrammingError, match=message % (number, kind)):
                cursor.executemany("insert into rows values (%s)", values)
            connection.rollback()
        for method in (cursor.copy_in, cursor.copy_out):
            with pytest.raises(howdah.dbapi.ProgrammingError, match="the command is no COPY"):
                method("select 1", b"")
        with pytest.raises(FileNotFoundError, match="there is no file .*: a str is the path of a file; data"):
            cursor.copy_in("copy rows from stdin", "5\ta\n")
        with pytest.raises(
            howdah.dbapi.ProgrammingError, match=r"class dict has no literal: pass json\.dumps\(value\)"
        ):
            cursor.mogrify("select %s", ({"a": 1},))
