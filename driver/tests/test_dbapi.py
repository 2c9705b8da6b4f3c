"""PEP 249 on the driver's core: what a program that blocks sees."""

import asyncio
import dataclasses
import decimal
import io
import os
import pickle
import signal
import socket
import sys
import threading
import time

import howdah
import howdah.dbapi as dbapi
import pytest

from driver.tests.blocking import in_process, wait_until


@pytest.fixture
def connection(spec):
    with dbapi.connect(**spec) as connection:
        yield connection
        if not connection.closed:
            connection.rollback()


@pytest.fixture
def other(spec):
    with dbapi.connect(**spec, autocommit=True, command_timeout=60) as connection:
        yield connection


@pytest.fixture
def table(connection, other):
    other.execute("drop table if exists dbapi_things; create table dbapi_things (id int primary key, name text)")
    yield "dbapi_things"
    if not connection.closed:
        connection.rollback()
    other.execute("drop table dbapi_things")


# Values and placeholders.


@pytest.mark.parametrize(
    ("query", "values", "row"),
    [
        ("select 1", None, (1,)),
        ("select 'a%'", None, ("a%",)),
        ("select %s::int, %s::text", (1, "a"), (1, "a")),
        ("select %s::int, '%%s'", [1], (1, "%s")),
        ("select $1::int % 3, $2::text like 'a%', $1::int", (5, "ab"), (2, True, 5)),
        ("select %(b)s::int, %(a)s::int, %(b)s::int", {"a": 1, "b": 2, "c": 3}, (2, 1, 2)),
        ("select '$1', %s::text", ("a",), ("$1", "a")),
        ("select /* $1 */ %s::text -- ; $2", ("a",), ("a",)),
        ("select 1 where 5 % 3 = 2", None, (1,)),
        ("select %s::numeric", (decimal.Decimal("1.50"),), (decimal.Decimal("1.50"),)),
        ("select %s::int[]", ([1, 2],), ([1, 2],)),
        ("select %s::text", (None,), (None,)),
        ("select 1 as a, 2 as a", None, (1, 2)),
    ],
)
def test_values_take_the_place_of_placeholders(connection, query, values, row):
    cursor = connection.cursor()
    assert cursor.execute(query, values) is cursor
    assert cursor.fetchall() == [row]
    assert type(cursor.execute(query, values).fetchone()) is tuple


@pytest.mark.parametrize(
    ("query", "values", "message"),
    [
        ("select %s", {"a": 1}, "values by position"),
        ("select %(a)s", (1,), "values by name"),
        ("select %(a)s::int", {"b": 1}, r"no value for the placeholder %\(a\)s"),
        ("select 5 % 3, %s", (1,), "write %%"),
        ("select %d", (1,), "write %%"),
        ("select %s::int", (1, 2), "takes 1 value, 2 were given"),
        ("select %s::int, %s::int", (1,), "takes 2 values, 1 was given"),
        ("select %s::text", "abc", "a single value is written"),
        ("select %s::int", 5, "expected to be a sequence or a mapping, not int"),
    ],
)
def test_wrong_values_are_named(connection, query, values, message):
    with pytest.raises(dbapi.ProgrammingError, match=message):
        connection.execute(query, values)
    assert connection.execute("select 1").fetchone() == (1,)


def test_a_value_of_no_type_of_the_servers_is_a_data_error(connection):
    with pytest.raises(dbapi.DataError, match=r"query argument \$1"):
        connection.execute("select %s::int", ({"a": 1},))
    assert connection.execute("select 1").fetchone() == (1,)


def test_a_text_is_the_servers_to_read(connection):
    assert connection.execute("select %s::int + 1", ("41",)).fetchone() == (42,)
    with pytest.raises(dbapi.DataError) as caught:
        connection.execute("select %s::int", ("x",))
    assert caught.value.sqlstate == "22P02"


def test_so_many_values_as_the_protocol_counts(connection):
    many = 65_535
    query = f"select cardinality(array[{','.join(['%s::int'] * many)}])"
    assert connection.execute(query, range(many)).fetchone() == (many,)
    with pytest.raises(dbapi.ProgrammingError, match="at most 65535 values"):
        connection.execute(query.replace("[", "[%s::int,"), range(many + 1))


def test_columns_are_described_by_name_and_by_place(connection):
    (column,) = connection.execute("select 1 as id").description
    assert column == ("id", 23, None, 4, None, None, None)
    assert (column.name, column.type_code) == ("id", 23)
    query = "select 'a'::varchar(5), 'a'::text, 1::numeric(8, 2), 1::numeric, now()::timestamp(3), '1'::bit(7), '1 s'::interval"
    assert [column[1:6] for column in connection.execute(query).description] == [
        (1043, 5, None, None, None),
        (25, None, None, None, None),
        (1700, None, None, 8, 2),
        (1700, None, None, None, None),
        (1114, None, 8, 3, None),
        (1560, 7, None, None, None),
        (1186, None, 16, None, None),
    ]


def test_a_cursor_with_a_name_streams(connection):
    for cursor in (connection.cursor("flights"), connection.cursor(name="flights")):
        cursor.execute("select generate_series(1, 5000)")
        assert isinstance(cursor, dbapi.StreamCursor) and cursor.fetchmany(2) == [(1,), (2,)]
        cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cannot be combined"):
        connection.cursor("flights", columns=True)


# Errors.


@pytest.mark.parametrize(
    ("command", "kind", "sqlstate"),
    [
        ("select 1/0", dbapi.DataError, "22012"),
        ("selec", dbapi.ProgrammingError, "42601"),
        ("select * from no_such_table", dbapi.ProgrammingError, "42P01"),
        ("insert into dbapi_things values (1), (1)", dbapi.IntegrityError, "23505"),
        ("do $$ begin raise exception 'x' using errcode = '40001'; end $$", dbapi.OperationalError, "40001"),
        ("do $$ begin raise exception 'x' using errcode = '0A000'; end $$", dbapi.NotSupportedError, "0A000"),
        ("do $$ begin raise exception 'x'; end $$", dbapi.ProgrammingError, "P0001"),
    ],
)
def test_errors_are_of_pep_249s_classes(connection, table, command, kind, sqlstate):
    with pytest.raises(kind) as caught:
        connection.execute(command)
    assert caught.type is kind
    assert caught.value.sqlstate == caught.value.pgcode == sqlstate
    assert isinstance(caught.value.__cause__, howdah.PostgresError)
    with pytest.raises(dbapi.InternalError) as caught:
        connection.execute("select 1")
    assert caught.value.sqlstate == "25P02"
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)


def test_an_error_reaches_another_process_with_its_fields(connection):
    with pytest.raises(dbapi.DataError) as caught:
        connection.execute("select 1/0")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error), error.sqlstate) == (dbapi.DataError, "division by zero", "22012")


@pytest.mark.parametrize("query", ["select 'a\0b'", "select 1;\0 select 2", "copy (select 1) to stdout\0"])
def test_a_null_character_in_a_query_is_refused(connection, query):
    with pytest.raises(dbapi.InterfaceError, match="null character at byte"):
        if query.startswith("copy"):
            connection.cursor().copy_out(query, os.devnull)
        else:
            connection.execute(query)
    assert not connection.closed
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)


def test_an_address_that_is_not_there_is_named(spec, tmp_path):
    with pytest.raises(dbapi.OperationalError, match=str(tmp_path)):
        dbapi.connect(**{**spec, "host": str(tmp_path)})
    with pytest.raises(dbapi.OperationalError, match="no-such-host.invalid"):
        dbapi.connect(**{**spec, "host": "no-such-host.invalid"})


def test_an_error_has_the_servers_fields(connection, table):
    with pytest.raises(dbapi.IntegrityError) as caught:
        connection.execute("insert into dbapi_things values (7), (7)")
    assert caught.value.constraint_name == "dbapi_things_pkey"
    assert "(7)" in caught.value.detail
    assert caught.value.hint is None
    with pytest.raises(AttributeError):
        caught.value.no_such_field  # noqa: B018


def test_who_cannot_connect_is_told_why(spec, unused_port):
    with pytest.raises(dbapi.OperationalError, match="refused|Connect"):
        dbapi.connect(**{**spec, "port": unused_port})
    with pytest.raises(dbapi.OperationalError, match="no_such_database"):
        dbapi.connect(**{**spec, "database": "no_such_database"})
    with pytest.raises(dbapi.OperationalError, match="no_such_user"):
        dbapi.connect(**{**spec, "user": "no_such_user", "password": "x"})


@pytest.fixture
def unused_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


# Transactions.


def test_a_transaction_begins_by_itself_and_ends_when_told(connection, other, table):
    assert not connection.in_transaction
    connection.execute("insert into dbapi_things values (1)")
    assert connection.in_transaction
    assert other.execute("select count(*) from dbapi_things").fetchone() == (0,)
    connection.commit()
    assert not connection.in_transaction
    assert other.execute("select count(*) from dbapi_things").fetchone() == (1,)
    connection.execute("insert into dbapi_things values (2)")
    connection.rollback()
    assert other.execute("select count(*) from dbapi_things").fetchone() == (1,)
    connection.commit()
    connection.rollback()


def test_closing_undoes_what_was_not_committed(spec, other, table):
    connection = dbapi.connect(**spec)
    connection.execute("insert into dbapi_things values (1)")
    connection.close()
    assert connection.closed
    connection.close()
    assert other.execute("select count(*) from dbapi_things").fetchone() == (0,)
    for refused in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.OperationalError, match="closed"):
            refused()


def test_a_block_commits_or_undoes(spec, other, table):
    with dbapi.connect(**spec) as connection:
        connection.execute("insert into dbapi_things values (1)")
    assert connection.closed
    with pytest.raises(RuntimeError), dbapi.connect(**spec) as connection:
        connection.execute("insert into dbapi_things values (2)")
        raise RuntimeError
    assert other.execute("select id from dbapi_things").fetchall() == [(1,)]


def test_autocommit(other, connection, table):
    other.execute("insert into dbapi_things values (1)")
    assert not other.in_transaction
    assert connection.execute("select count(*) from dbapi_things").fetchone() == (1,)
    with pytest.raises(dbapi.ProgrammingError, match="within a transaction"):
        connection.autocommit = True
    connection.rollback()
    connection.autocommit = True
    connection.execute("vacuum dbapi_things")
    connection.autocommit = False
    other.execute("begin")
    other.execute("insert into dbapi_things values (2)")
    other.rollback()
    assert connection.execute("select count(*) from dbapi_things").fetchone() == (1,)


def test_a_commit_that_the_server_rolls_back_says_so(connection):
    with pytest.raises(dbapi.DataError):
        connection.execute("select 1/0")
    with pytest.raises(dbapi.InternalError, match="rolled back"):
        connection.commit()
    assert not connection.in_transaction


def test_levels_of_transactions(connection):
    connection.isolation_level = "serializable"
    connection.readonly = True
    connection.deferrable = True
    shown = connection.execute(
        "select current_setting('transaction_isolation'), current_setting('transaction_read_only'), "
        "current_setting('transaction_deferrable')"
    ).fetchone()
    assert shown == ("serializable", "on", "on")
    connection.rollback()
    connection.readonly = connection.deferrable = False
    connection.isolation_level = None
    assert connection.execute("show transaction_isolation").fetchone() == ("read committed",)
    connection.rollback()
    with pytest.raises(dbapi.ProgrammingError, match="isolation_level is expected"):
        connection.isolation_level = "chaos"


@pytest.mark.parametrize("autocommit", [False, True])
def test_transactions_as_blocks(spec, other, table, autocommit):
    with dbapi.connect(**spec, autocommit=autocommit) as connection:
        with connection.transaction():
            connection.execute("insert into dbapi_things values (1)")
            with pytest.raises(dbapi.IntegrityError), connection.transaction():
                connection.execute("insert into dbapi_things values (2)")
                connection.execute("insert into dbapi_things values (1)")
            with connection.transaction():
                connection.execute("insert into dbapi_things values (3)")
        assert other.execute("select id from dbapi_things order by 1").fetchall() == [(1,), (3,)]
        with pytest.raises(RuntimeError), connection.transaction():
            connection.execute("insert into dbapi_things values (4)")
            raise RuntimeError
        assert not connection.in_transaction
    assert other.execute("select id from dbapi_things order by 1").fetchall() == [(1,), (3,)]


# Cursors.


def test_what_a_cursor_tells(connection, table):
    cursor = connection.cursor()
    assert (cursor.description, cursor.rowcount, cursor.arraysize, cursor.lastrowid) == (None, -1, 1, None)
    cursor.execute("insert into dbapi_things values (1, 'a'), (2, null)")
    assert (cursor.description, cursor.rowcount, cursor.statusmessage) == (None, 2, "INSERT 0 2")
    cursor.execute("select id, name, 1.5::numeric as n, now(), 'x'::bytea as b, 5::oid from dbapi_things where id > 5")
    names = [column[0] for column in cursor.description]
    assert names == ["id", "name", "n", "now", "b", "oid"]
    kinds = (dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.BINARY, dbapi.ROWID)
    for column, kind in zip(cursor.description, kinds):
        assert len(column) == 7
        assert column[1] == kind
        assert [other == column[1] for other in kinds].count(True) == kinds.count(kind)
    assert cursor.rowcount == 0
    assert cursor.fetchone() is None
    assert cursor.fetchall() == []
    assert cursor.execute("update dbapi_things set name = 'x'").rowcount == 2
    assert cursor.execute("create temporary table dbapi_temp ()").rowcount == -1


def test_rows_are_fetched_in_their_order(connection):
    cursor = connection.cursor()
    cursor.execute("select generate_series(1, 10)")
    assert cursor.fetchone() == (1,)
    assert cursor.fetchmany() == [(2,)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [(3,), (4,)]
    assert cursor.fetchmany(3) == [(5,), (6,), (7,)]
    assert cursor.rownumber == 7
    assert next(iter(cursor)) == (8,)
    assert cursor.fetchall() == [(9,), (10,)]
    assert cursor.fetchmany(5) == []
    cursor.scroll(0, "absolute")
    assert list(cursor) == [(n,) for n in range(1, 11)]
    with pytest.raises(IndexError):
        cursor.scroll(20)


def test_without_a_result_nothing_is_fetched(connection, table):
    cursor = connection.cursor()
    for fetch in (cursor.fetchone, cursor.fetchmany, cursor.fetchall):
        with pytest.raises(dbapi.ProgrammingError, match="no result"):
            fetch()
    cursor.execute("delete from dbapi_things")
    with pytest.raises(dbapi.ProgrammingError, match="no result"):
        cursor.fetchone()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.execute("select 1")


@pytest.mark.parametrize("count", [0, 1, 3, 50_000])
def test_many_argument_lists(connection, table, count):
    cursor = connection.cursor()
    cursor.executemany("insert into dbapi_things values (%s, %s)", ((n, f"name {n}") for n in range(count)))
    assert cursor.rowcount == count
    cursor.executemany(
        "update dbapi_things set name = %(name)s where id = %(id)s",
        [{"id": n, "name": "new"} for n in range(min(count, 9))],
    )
    assert cursor.rowcount == min(count, 9)
    assert cursor.execute("select count(*), count(*) filter (where name = 'new') from dbapi_things").fetchone() == (
        count,
        min(count, 9),
    )


def test_many_argument_lists_are_all_or_none(connection, other, table):
    with pytest.raises(dbapi.IntegrityError):
        other.cursor().executemany("insert into dbapi_things values (%s)", [(n % 1000,) for n in range(50_000)])
    assert other.execute("select count(*) from dbapi_things").fetchone() == (0,)
    with pytest.raises(dbapi.DataError, match=r"element #40000"):
        other.cursor().executemany(
            "insert into dbapi_things values (%s)", [(n if n < 40000 else {},) for n in range(50_000)]
        )
    assert other.execute("select count(*) from dbapi_things").fetchone() == (0,)


def test_a_script_has_no_rows(connection, table):
    cursor = connection.cursor()
    cursor.execute("insert into dbapi_things values (1, ';'); insert into dbapi_things values (2); -- end;")
    assert cursor.description is None
    assert cursor.execute("select count(*) from dbapi_things; ").fetchone() == (2,)
    connection.rollback()
    assert cursor.execute("select count(*) from dbapi_things").fetchone() == (0,)


def test_functions_are_called_by_name(connection):
    cursor = connection.cursor()
    assert cursor.callproc("pg_catalog.upper", ["a"]) == ["a"]
    assert cursor.fetchall() == [("A",)]
    assert cursor.callproc("pg_backend_pid") == ()
    assert cursor.fetchone() == (connection.asynchronous.get_server_pid(),)
    with pytest.raises(dbapi.ProgrammingError):
        cursor.callproc('x"; drop table y; --')


@dataclasses.dataclass
class Thing:
    """A row."""

    id: int
    name: str


def test_rows_take_the_form_that_is_asked_for(connection):
    query = "select 1 as id, 'a' as name"
    assert connection.cursor(row_factory=dbapi.dict_row).execute(query).fetchall() == [{"id": 1, "name": "a"}]
    assert connection.cursor(row_factory=dbapi.class_row(Thing)).execute(query).fetchone() == Thing(1, "a")
    connection.row_factory = dbapi.dict_row
    assert list(connection.execute(query)) == [{"id": 1, "name": "a"}]
    with pytest.raises(TypeError):
        connection.cursor(row_factory=dbapi.class_row(Thing)).execute("select 1 as other").fetchone()


def test_rows_that_come_piece_by_piece(connection, other):
    with connection.cursor(stream=True) as cursor:
        cursor.itersize = 10
        cursor.execute("select n, repeat('x', 100) from generate_series(1, %s) n", (95,))
        assert cursor.fetchone()[0] == 1
        assert [row[0] for row in cursor.fetchmany(25)] == list(range(2, 27))
        assert connection.execute("select 1").fetchone() == (1,)
        assert [row[0] for row in cursor] == list(range(27, 96))
        assert cursor.fetchone() is None
        assert len(cursor.execute("select generate_series(1, 5)").fetchall()) == 5
    with pytest.raises(dbapi.ProgrammingError, match="needs a transaction"):
        other.cursor(stream=True).execute("select 1")
    with other.transaction(), other.cursor(stream=True) as cursor:
        assert cursor.execute("select generate_series(1, 5)").fetchmany(2) == [(1,), (2,)]
    cursor = connection.cursor(stream=True)
    cursor.itersize = 2
    cursor.execute("select generate_series(1, 5)")
    cursor.fetchone()
    connection.commit()
    with pytest.raises(dbapi.ProgrammingError, match="portal"):
        cursor.fetchall()
    connection.rollback()


def test_columns(connection):
    pyarrow = pytest.importorskip("pyarrow")
    cursor = connection.cursor(columns=True)
    table = cursor.execute("select n, n::text as t from generate_series(1, %(n)s) n", {"n": 1000}).fetch_arrow_table()
    assert table.schema.names == ["n", "t"]
    assert table.column("n").to_pylist() == list(range(1, 1001))
    assert isinstance(table, pyarrow.Table)
    assert cursor.rowcount == 1000
    assert [column[0] for column in cursor.description] == ["n", "t"]
    assert len(connection.fetch_columns("select 1 as a")) == 1
    with pytest.raises(dbapi.NotSupportedError, match="columns=True"):
        connection.execute("select 1").fetch_arrow_table()


def test_copy_the_wrong_way_is_refused(connection, table):
    cursor = connection.cursor()
    with pytest.raises(dbapi.ProgrammingError, match="copy_out"):
        cursor.copy_in("copy dbapi_things to stdout", b"1\ta\n")
    with pytest.raises(dbapi.ProgrammingError, match="copy_in"):
        cursor.copy_out("copy dbapi_things from stdin", os.devnull)
    assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "query",
    [
        "copy dbapi_things from '/nowhere/stdin'",
        "copy (select 'to stdout') to '/nowhere/file'",
        "copy (select * from (select 1) as stdin, stdout) to /* to stdout */ '/nowhere/file'",
    ],
)
def test_a_copy_of_the_server_is_the_servers(connection, table, query):
    with pytest.raises(dbapi.Error) as raised:
        connection.execute(query)
    assert raised.value.sqlstate in ("58P01", "42P01")


def test_a_copy_behind_a_comment_is_the_clients(connection, table):
    with pytest.raises(dbapi.InterfaceError, match="copy_in"):
        connection.execute("/* rows */ copy dbapi_things (id) -- all\n to stdout (format csv)")


def test_copy(connection, table, tmp_path):
    cursor = connection.cursor()
    assert cursor.copy_in("copy dbapi_things from stdin", b"1\ta\n2\tb\n") == 2
    assert cursor.copy_in("copy dbapi_things from stdin", (f"{n}\tx\n".encode() for n in range(3, 60_000))) == 59_997
    path = tmp_path / "things"
    assert cursor.copy_out("copy (select * from dbapi_things where id < 4 order by id) to stdout", path) == 3
    assert path.read_bytes() == b"1\ta\n2\tb\n3\tx\n"
    pieces = []
    cursor.copy_out("copy dbapi_things to stdout (format csv)", pieces.append)
    assert b"".join(pieces).count(b"\n") == 59_999
    cursor.execute("delete from dbapi_things")
    with path.open("rb") as file:
        assert cursor.copy_in("copy dbapi_things from stdin", file) == 3
    assert connection.in_transaction
    copied = connection.asynchronous.copy_records_to_table(table, records=[(10, "z")])
    assert connection.wait(copied) == "COPY 1"
    for refused in ("copy dbapi_things to stdout", "  COPY dbapi_things from stdin"):
        with pytest.raises(dbapi.InterfaceError, match="copy_in"):
            connection.execute(refused)

    def broken():
        yield b"11\tx\n"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        cursor.copy_in("copy dbapi_things from stdin", broken())
    connection.rollback()
    with pytest.raises(dbapi.DataError):
        cursor.copy_in("copy dbapi_things from stdin", b"x\ty\n")
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("method", "operation"),
    [
        ("copy_in", "copy dbapi_things frm stdin"),
        ("copy_out", "copy dbapi_things too stdout"),
        ("copy_out", "copy (selec 1) to stdout"),
        ("copy_expert", "copy dbapi_things frm stdin"),
        ("copy_expert", "copy (selec 1) to stdout"),
    ],
)
def test_a_copy_that_the_server_refuses_fails_the_transaction(connection, table, method, operation):
    call = getattr(connection.cursor(), method)
    with pytest.raises(dbapi.ProgrammingError, match="syntax error") as caught:
        call(operation, io.BytesIO())
    assert caught.value.sqlstate == "42601"
    with pytest.raises(dbapi.InternalError, match="current transaction is aborted"):
        connection.execute("insert into dbapi_things values (1)")
    connection.rollback()
    with pytest.raises(dbapi.ProgrammingError, match="no COPY with the client"):
        call("delete from dbapi_things", io.BytesIO())
    assert connection.in_transaction
    connection.rollback()


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_copy_whose_connection_is_lost_says_why(connection, other, table, size):
    pid = connection.info.backend_pid

    def pieces():
        for number in range(50):
            if number == 3:
                other.execute("select pg_terminate_backend(%s)", (pid,))
                wait_until(other, "not exists (select from pg_stat_activity where pid = %s)", pid)
            yield b"1\t" + b"a" * size + b"\n"

    with pytest.raises(dbapi.OperationalError, match="terminating connection due to administrator command") as caught:
        connection.cursor().copy_in("copy dbapi_things from stdin", pieces())
    assert caught.value.sqlstate == "57P01"


@pytest.mark.parametrize(
    "call",
    [
        lambda inner: inner.copy_records_to_table("dbapi_things", records=[(1, "a")]),
        lambda inner: inner.copy_to_table("dbapi_things", source=b"1\ta\n"),
        lambda inner: inner.execute("insert into dbapi_things values (1, 'a')"),
        lambda inner: inner.execute("insert into dbapi_things values (1, $1)", "a"),
        lambda inner: inner.executemany("insert into dbapi_things values ($1, 'a')", [(1,)]),
        lambda inner: inner.fetchmany("insert into dbapi_things values ($1, 'a') returning id", [(1,)]),
        lambda inner: inner.fetch("insert into dbapi_things values (1, 'a') returning id", record_class=dict),
        lambda inner: inner.fetchval("insert into dbapi_things values (1, 'a') returning id"),
        lambda inner: inner.fetch_columns("insert into dbapi_things values (1, 'a') returning id"),
        lambda inner: inner.cursor("insert into dbapi_things values (1, 'a') returning id"),
    ],
)
def test_a_call_of_the_asynchronous_interface_begins_a_transaction(connection, other, table, call):
    connection.wait(call(connection.asynchronous))
    assert connection.in_transaction
    connection.rollback()
    assert other.execute("select count(*) from dbapi_things").fetchone() == (0,)
    connection.autocommit = True
    if "cursor" not in call.__code__.co_names:
        connection.wait(call(connection.asynchronous))
        assert not connection.in_transaction
        assert other.execute("select count(*) from dbapi_things").fetchone() == (1,)


def test_what_sets_a_session_up_begins_no_transaction(connection, table):
    inner = connection.asynchronous

    async def own():
        async with inner.transaction():
            await inner.execute("insert into dbapi_things values (1, 'a')")

    connection.wait(inner.decode_json())
    connection.wait(inner.set_type_codec("int4", schema="pg_catalog", encoder=str, decoder=int))
    connection.wait(inner.add_listener("news", print))
    connection.wait(inner.reload_schema_state())
    connection.wait(own())
    assert not connection.in_transaction
    assert connection.execute("select pg_listening_channels(), id from dbapi_things").fetchall() == [("news", 1)]
    connection.rollback()
    with pytest.raises(dbapi.ProgrammingError):
        connection.wait(inner.fetch("selec"))
    with pytest.raises(dbapi.InternalError, match="current transaction is aborted"):
        connection.execute("select 1")
    connection.rollback()


# What changes under a prepared statement.


def test_a_table_that_another_alters(connection, other, table):
    query = "select * from dbapi_things"
    other.execute("insert into dbapi_things values (1, 'a')")
    assert connection.execute(query).fetchall() == [(1, "a")]
    connection.commit()
    other.execute("alter table dbapi_things add column more int default 5")
    assert connection.execute(query).fetchall() == [(1, "a", 5)]
    assert [column[0] for column in connection.execute(query).description] == ["id", "name", "more"]
    connection.rollback()


@pytest.mark.parametrize("kind", [{"stream": True}, {"name": "pieces"}, {"columns": True}], ids=str)
def test_a_table_that_another_alters_is_streamed_anew(connection, other, table, kind):
    def ask():
        with connection.cursor(**kind) as cursor:
            cursor.execute("select * from dbapi_things where id = %s", (1,))
            names = [column[0] for column in cursor.description]
            return names, len(cursor.fetch_columns()) if "columns" in kind else len(cursor.fetchall())

    other.execute("insert into dbapi_things values (1, 'a')")
    assert ask() == (["id", "name"], 1)
    connection.commit()
    other.execute("alter table dbapi_things add column more int default 5, alter name type varchar")
    assert ask() == (["id", "name", "more"], 1)
    assert connection.in_transaction
    connection.commit()
    # Within a transaction what was done before would be lost.
    other.execute("alter table dbapi_things drop column more")
    connection.execute("select 1")
    with pytest.raises(dbapi.NotSupportedError, match="cached statement plan is invalid"):
        ask()
    connection.rollback()
    assert ask() == (["id", "name"], 1)
    connection.rollback()
    own = "select name from pg_prepared_statements where statement like 'select * from dbapi_things where%'"
    assert len(connection.execute(own).fetchall()) == 1
    connection.rollback()


def test_a_table_that_is_altered_and_altered_back(connection, table):
    query = "select * from dbapi_things"
    assert connection.execute(query).fetchall() == []
    connection.execute("alter table dbapi_things drop column name")
    assert len(connection.execute(query).description) == 1
    connection.rollback()
    connection.execute("select 1")
    assert len(connection.execute(query).description) == 2


# Interruptions.


def interrupted_by(how, connection, other):
    """Interrupts what the connection does once the server is at it."""
    pid = connection.asynchronous.get_server_pid()

    def interrupt():
        wait_until(other, "exists (select from pg_stat_activity where pid = %s and wait_event = 'PgSleep')", pid)
        how()

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_control_c_cancels_and_the_connection_goes_on(connection, other):
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    before = connection.asynchronous.get_server_pid()
    for run in (
        lambda: connection.execute("select pg_sleep(60)"),
        lambda: connection.cursor().executemany("select pg_sleep(%s)", [(60,)] * 3),
        lambda: connection.fetch_columns("select pg_sleep(60)"),
        lambda: connection.cursor().copy_out("copy (select pg_sleep(60)) to stdout", os.devnull),
        lambda: connection.wait(connection.asynchronous.fetch("select pg_sleep(60)")),
    ):
        thread = interrupted_by(interrupt, connection, other)
        with pytest.raises(KeyboardInterrupt):
            run()
        thread.join()
        connection.rollback()
        assert connection.execute("select pg_backend_pid()").fetchone() == (before,)
        connection.rollback()


def test_ctrl_c_right_after_bytes_were_read_loses_none(spec):
    connection = dbapi.connect(**spec, command_timeout=20)
    reads = 0

    def watch(frame, event, called):
        nonlocal reads
        if event == "c_return" and called.__name__ == "recv_into":
            reads += 1
            if reads == 5:
                signal.raise_signal(signal.SIGINT)

    usual = signal.getsignal(signal.SIGINT)
    sys.setprofile(watch)
    try:
        with pytest.raises(KeyboardInterrupt):
            connection.cursor().copy_out("copy (select generate_series(1, 3000000)) to stdout", lambda data: None)
    finally:
        sys.setprofile(None)
    assert signal.getsignal(signal.SIGINT) is usual
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)
    connection.close()


def test_ctrl_c_interrupts_the_programs_own_functions_at_once(connection):
    def pieces():
        yield b"1\n"
        signal.raise_signal(signal.SIGINT)
        pytest.fail("went on")

    connection.execute("create temp table copied (id int)")
    with pytest.raises(KeyboardInterrupt):
        connection.cursor().copy_in("copy copied from stdin", pieces())
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)


def test_ctrl_c_right_after_the_end_leaves_the_connection_usable(connection):
    async def end():
        # Once the task is over, and before the loop knows that it has nothing to do.
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        connection.wait(end())
    assert connection.cursor().copy_out("copy (select 1) to stdout", lambda data: None) == 1
    assert connection.execute("select 1").fetchone() == (1,)


def test_ctrl_c_at_any_moment(spec):
    """What comes after an interrupted command is answered rightly, and nothing is complained of."""
    program = """
    import json, random, signal, sys, threading, time
    import howdah.dbapi as dbapi
    spec = json.loads(sys.argv[1])
    connection = dbapi.connect(**spec, autocommit=True)
    main = threading.main_thread().ident
    random.seed(7)
    # Some strike within callbacks of Python's own, where they are lost.
    sys.unraisablehook = lambda _: None

    def commands(number):
        assert connection.execute("select %s::int", (number,)).fetchone() == (number,)
        assert len(connection.execute("select repeat('x', 500) from generate_series(1, 1000)").fetchall()) == 1000
        connection.cursor().executemany("select %s::int", [(n,) for n in range(2000)])
        connection.cursor().copy_out("copy (select generate_series(1, 5000)) to stdout", lambda data: None)

    interrupted = 0
    for number in range(150):
        timer = threading.Timer(random.random() * 0.02, lambda: signal.pthread_kill(main, signal.SIGINT))
        try:
            try:
                timer.start()
                commands(number)
                timer.join()
                time.sleep(0.1)
            finally:
                timer.join()
        except KeyboardInterrupt:
            interrupted += 1
        assert not connection.closed
        assert connection.execute("select %s::int", (-number,)).fetchone() == (-number,)
    connection.close()
    print(interrupted > 100)
    """
    assert in_process(program, spec) == "True"


def test_another_thread_cancels(connection, other):
    thread = interrupted_by(connection.cancel, connection, other)
    with pytest.raises(dbapi.OperationalError) as caught:
        connection.execute("select pg_sleep(60)")
    thread.join()
    assert caught.value.sqlstate == "57014"
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("kind", ["query", "copy"])
def test_another_thread_drops_the_connection(spec, other, kind):
    """The one that waits fails, and neither of them reads from the socket that comes in its place."""
    dropped = []
    for turn in range(5):
        connection = dbapi.connect(**spec, autocommit=True)
        thread = interrupted_by(lambda at=connection: dropped.append(at.terminate()), connection, other)
        start = time.monotonic()
        with pytest.raises(dbapi.Error, match="closed"):
            if kind == "query":
                connection.execute("select pg_sleep(60)")
            else:
                connection.cursor().copy_out("copy (select pg_sleep(60)) to stdout", lambda data: None)
        # In the place of the old one, while that thread may still be at it.
        with dbapi.connect(**spec) as new:
            assert new.execute("select 1").fetchone() == (1,)
        thread.join(10)
        assert dropped == [None] * (turn + 1) and connection.closed
        assert time.monotonic() - start < 30


def test_a_timeout_cancels_and_the_connection_goes_on(spec):
    with dbapi.connect(**spec, command_timeout=0.2) as connection:
        with pytest.raises(dbapi.OperationalError, match="timeout"):
            connection.execute("select pg_sleep(60)")
        connection.rollback()
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_backend_that_dies(connection, other):
    pid = connection.execute("select pg_backend_pid()").fetchone()[0]
    other.execute("select pg_terminate_backend(%s)", (pid,))
    with pytest.raises(dbapi.OperationalError) as caught:
        connection.execute("select 1")
        connection.execute("select 1")
    assert "terminating connection" in str(caught.value) or "closed" in str(caught.value)
    assert connection.closed
    with pytest.raises(dbapi.OperationalError, match="closed"):
        connection.execute("select 1")


def test_the_statements_of_cursors_that_are_left_alone_are_closed(spec):
    with dbapi.connect(**spec, statement_cache_size=10) as connection:
        for number in range(100):
            cursor = connection.cursor(stream=True)
            assert cursor.execute(f"select * from generate_series({number}, 5000)").fetchone() == (number,)
            del cursor
            connection.commit()
        connection.execute("select 1")
        assert connection.execute("select count(*) from pg_prepared_statements").fetchone()[0] < 20


# Where it runs.


def test_within_a_running_loop(spec):
    async def main():
        before = asyncio.get_running_loop(), asyncio.current_task()
        with dbapi.connect(**spec) as connection:
            row = connection.execute("select %s::int", (1,)).fetchone()
            connection.cursor().executemany("select %s::text", [("x" * 1000,)] * 5000)
        await asyncio.sleep(0)
        assert (asyncio.get_running_loop(), asyncio.current_task()) == before
        return row

    assert asyncio.run(main()) == (1,)


def test_no_thread_is_started_and_large_answers_come_whole(connection):
    before = threading.active_count()
    rows = connection.execute("select n, repeat('x', 1000) from generate_series(1, 20000) n").fetchall()
    assert len(rows) == 20000
    assert sum(len(row[1]) for row in rows) == 20_000_000
    big = "y" * 30_000_000
    assert connection.execute("select %s::text", (big,)).fetchone() == (big,)
    assert threading.active_count() == before


def test_the_interpreter_runs_on_while_a_query_is_waited_for(connection):
    steps = 0
    over = threading.Event()

    def count():
        nonlocal steps
        while not over.is_set():
            steps += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    connection.execute("select pg_sleep(0.5)")
    over.set()
    thread.join()
    assert steps > 50


def test_threads_share_a_connection(connection):
    found = []

    def work(number):
        found.extend(connection.execute("select %s::int", (n,)).fetchone()[0] == n for n in range(number, number + 200))

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 1600


def test_a_forked_child_is_refused_and_harms_nothing(spec):
    program = """
    import os, sys, json, gc
    import howdah.dbapi as dbapi
    spec = json.loads(sys.argv[1])
    connection = dbapi.connect(**spec)
    connection.execute("select 1")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            connection.execute("select 2")
        except dbapi.InterfaceError as error:
            code = 0 if "fork" in str(error) else 2
        del connection
        gc.collect()
        with dbapi.connect(**spec) as own:
            assert own.execute("select 3").fetchone() == (3,)
        sys.stdout.flush()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert connection.execute("select 4").fetchone() == (4,)
    big = "x" * 10_000_000
    assert connection.execute("select %s::text", (big,)).fetchone() == (big,)
    connection.close()
    print("well")
    """
    assert in_process(program, spec) == "well"


def test_a_forgotten_connection_warns_and_is_closed(spec, other):
    connection = dbapi.connect(**spec)
    pid = connection.asynchronous.get_server_pid()
    with pytest.warns(ResourceWarning, match="unclosed connection"):
        del connection
    wait_until(other, "not exists (select from pg_stat_activity where pid = %s)", pid)
