"""What users of psycopg look for in `howdah.dbapi`: the same program with both gives the same."""

import contextlib
import datetime
import signal
import types

import howdah
import psycopg
import psycopg.rows
import psycopg.types.json
import pytest
from howdah import dbapi


@pytest.fixture(params=["psycopg", "howdah"])
def side(request, spec):
    """One of the two, as a function that connects."""
    if request.param == "howdah":
        return types.SimpleNamespace(connect=lambda **more: dbapi.connect(**spec, **more), module=dbapi)
    names = spec | {"dbname": spec["database"]}
    del names["database"]
    return types.SimpleNamespace(connect=lambda **more: psycopg.connect(**names, **more), module=psycopg)


@pytest.fixture
def connection(side):
    connection = side.connect()
    yield connection
    connection.close()


def test_a_transaction_of_two_phases(side, connection):
    connection.execute("create table if not exists two_phases (i int)")
    connection.commit()
    xid = connection.xid(7, "gtrid", "b'q")
    for end, stays in ((connection.tpc_commit, 1), (connection.tpc_rollback, 0)):
        connection.tpc_begin(xid)
        connection.execute("delete from two_phases")
        connection.execute("insert into two_phases values (1)")
        for wrong in (connection.commit, connection.rollback, lambda: connection.tpc_begin(xid)):
            with pytest.raises(side.module.ProgrammingError):
                wrong()
        connection.tpc_prepare()
        with side.connect() as other:
            (found,) = other.tpc_recover()
            assert (found.format_id, found.gtrid, found.bqual) == (7, "gtrid", "b'q")
            assert other.info.transaction_status == 0
        end()
        assert connection.execute("select count(*) from two_phases").fetchone() == (stays,) or stays == 0
        connection.commit()
    # One phase will do; and others may end what somebody has left.
    connection.tpc_begin(xid)
    connection.execute("insert into two_phases values (2)")
    connection.tpc_commit()
    connection.tpc_begin("plain")
    connection.execute("insert into two_phases values (3)")
    connection.tpc_prepare()
    connection.close()
    with side.connect() as other:
        (found,) = other.tpc_recover()
        assert (found.format_id, found.gtrid) == (None, "plain")
        other.tpc_rollback(found)
        assert not other.tpc_recover()
        other.execute("drop table two_phases")


def test_what_is_out_of_turn_is_refused(side, connection):
    for wrong in (connection.tpc_prepare, connection.tpc_commit, connection.tpc_rollback):
        with pytest.raises(side.module.ProgrammingError):
            wrong()
    connection.execute("select 1")
    with pytest.raises(side.module.ProgrammingError):
        connection.tpc_begin(connection.xid(1, "a", "b"))


def test_a_cursor_is_scrolled(connection):
    with connection.cursor("rows", scrollable=True) as cursor:
        cursor.execute("select generate_series(1, %s)", (300,))
        assert cursor.description[0][:2] == ("generate_series", 23)
        assert (cursor.fetchone(), cursor.fetchmany(2)) == ((1,), [(2,), (3,)])
        cursor.scroll(-2)
        assert cursor.fetchone() == (2,)
        cursor.scroll(100, "absolute")
        assert cursor.fetchone() == (101,)
        assert connection.execute("fetch prior from rows").fetchone() == (100,)
        cursor.scroll(0, mode="absolute")
        assert [row[0] for row in cursor] == list(range(1, 301))
        assert cursor.fetchone() is None and cursor.fetchall() == []


def test_a_cursor_outlives_its_transaction(side, connection):
    cursor = connection.cursor("kept", withhold=True)
    cursor.execute("select generate_series(1, 5)")
    connection.commit()
    assert cursor.fetchmany(2) == [(1,), (2,)]
    connection.rollback()
    assert cursor.fetchall() == [(3,), (4,), (5,)]
    cursor.close()
    connection.commit()
    assert connection.execute("select count(*) from pg_cursors where name = 'kept'").fetchone() == (0,)
    short = connection.cursor("short", scrollable=False)
    short.execute("select 1")
    connection.commit()
    with pytest.raises(side.module.Error):
        short.fetchone()
    connection.rollback()
    short.close()


def test_notices_are_heard(connection):
    heard = []
    connection.add_notice_handler(lambda diag: heard.append((diag.severity, diag.message_primary, diag.sqlstate)))
    connection.execute("do $$ begin raise notice 'one'; raise warning 'two'; end $$")
    assert heard == [("NOTICE", "one", "00000"), ("WARNING", "two", "01000")]


def test_the_notices_are_kept(spec):
    with dbapi.connect(**spec) as connection:
        connection.execute("do $$ begin for n in 1..60 loop raise notice '%', n; end loop; end $$")
        assert len(connection.notices) == 50 and connection.notices[-1] == "NOTICE:  60\n"


def test_what_is_known_of_a_connection(connection, spec):
    info = connection.info
    assert (info.dbname, info.user, info.host, info.port) == ("postgres", "postgres", spec["host"], spec["port"])
    assert (info.password, info.vendor, info.encoding, info.options) == (spec["password"], "PostgreSQL", "utf-8", "")
    assert connection.execute("select pg_backend_pid(), current_setting('server_version_num')::int").fetchone() == (
        info.backend_pid,
        info.server_version,
    )
    assert info.transaction_status == 2
    with contextlib.suppress(dbapi.Error, psycopg.Error):
        connection.execute("select 1/0")
    assert info.transaction_status == 3
    connection.rollback()
    connection.execute("set timezone = 'Asia/Tokyo'")
    assert str(info.timezone) == "Asia/Tokyo" and info.parameter_status("TimeZone") == "Asia/Tokyo"
    assert info.parameter_status("work_mem") is None
    assert "password" not in info.get_parameters() and spec["password"] not in info.dsn
    connection.close()
    assert info.transaction_status == 4


def test_many_argument_lists_give_their_rows(connection):
    cursor = connection.cursor()
    cursor.execute("create temp table given (i int generated always as identity, t text)")
    cursor.executemany("insert into given (t) values (%s) returning i, t", [("a",), ("b",), ("c",)], returning=True)
    found = []
    while True:
        found += cursor.fetchall()
        if not cursor.nextset():
            break
    assert found == [(1, "a"), (2, "b"), (3, "c")]


def test_the_level_by_psycopgs_name(connection):
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    assert connection.execute("show transaction_isolation").fetchone() == ("serializable",)


def test_a_copy_from_its_own_connection_is_refused(spec):
    def lines():
        yield b"1\n"
        connection.execute("select 1")
        yield b"2\n"

    with dbapi.connect(**spec) as connection:
        connection.execute("create temp table copied (i int)")
        with pytest.raises(dbapi.InterfaceError, match="the COPY whose data is being made"):
            connection.cursor().copy_in("copy copied from stdin", lines())
        connection.rollback()
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_borrower_leaves_nothing(spec):
    with dbapi.Pool(**spec, max_size=1) as pool:
        with pool.connection() as connection:
            connection.execute("drop role if exists borrower; create role borrower")
            pid = connection.info.backend_pid
        for left, probe, expected in (
            ("set role borrower", "select current_user::text", "postgres"),
            ("set session authorization borrower", "select session_user::text", "postgres"),
            ("select set_config('role', 'borrower', false)", "select current_user::text", "postgres"),
            ("create temp table left_behind (i int)", "select to_regclass('pg_temp.left_behind')::text", None),
            ("select 1 as i into temp left_behind", "select to_regclass('pg_temp.left_behind')::text", None),
            (
                "prepare left_behind as select 1",
                "select count(*) from pg_prepared_statements where from_sql",
                0,
            ),
            ("set search_path = pg_temp", "show search_path", '"$user", public'),
        ):
            with pool.connection() as connection:
                connection.execute(left)
            with pool.connection() as connection:
                assert connection.execute(probe).fetchone() == (expected,), left
                assert connection.info.backend_pid == pid
        with pool.connection() as connection:
            connection.execute("drop role borrower")


def test_objects_of_json(side, connection):
    module = psycopg.types.json if side.module is psycopg else dbapi
    connection.execute("create temp table objects (a json, b jsonb)")
    row = (module.Json([1, "é"]), module.Jsonb(2.5))
    connection.execute("insert into objects values (%s, %s)", row)
    connection.cursor().executemany("insert into objects values (%s, %s)", [row, (None, None), row])
    wanted = ('[1, "\\u00e9"]', "2.5")
    found = connection.execute("select a::text, b::text from objects order by ctid").fetchall()
    assert found == [wanted, wanted, (None, None), wanted]
    assert connection.execute("select pg_typeof(%s)::text, pg_typeof(%s)::text", row).fetchone() == ("json", "jsonb")
    assert connection.execute("select (%s)[2]::text", ([module.Jsonb(1), module.Jsonb({})],)).fetchone() == ("{}",)


def test_objects_of_json_where_json_is_decoded(spec):
    with dbapi.connect(**spec) as connection:
        connection.wait(connection.asynchronous.decode_json())
        for value in ([1, 2], 1.5, "a", None, {"a": [1]}):
            assert connection.execute("select %s", (dbapi.Jsonb(value),)).fetchone() == (value,)
            assert connection.execute("select %s", (dbapi.Json(value),)).fetchone() == (value,)
        assert connection.execute("select %s", ([dbapi.Jsonb([1])],)).fetchone() == ([[1]],)


VALUES = """
    select date '9999-12-31', date '0001-01-01', timestamp '9999-12-31 23:59:59.999999', 100000::numeric, 1e100::numeric(200, 2),
        50000.00::numeric(10, 2), 0::numeric(9, 3), -120000::numeric, 1.1::real, '{1.1,-2.5e-9,3,NaN}'::real[]::text,
        array[12.1::real, 100000], timestamptz '2024-07-01 23:30-04', array[timestamptz '2024-01-01 01:00+00']"""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_values_look_as_with_psycopg(spec, zone):
    names = {name: value for name, value in spec.items() if name != "database"}
    rows = []
    for other in (psycopg.connect(**names, dbname=spec["database"]), dbapi.connect(**spec)):
        with other:
            other.execute(f"set timezone = '{zone}'")
            row = other.execute(VALUES).fetchone()
            rows.append([str(value) for value in row[:-1]] + [row[-1][0].isoformat()])
    assert rows[0] == rows[1]


def test_the_first_and_the_last_date_are_themselves(connection):
    aware = datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
    given = (datetime.date.max, datetime.date.min, datetime.datetime.max, datetime.datetime.min, aware)
    query = "select %s::text, %s::text, %s::text, %s::text, (%s at time zone 'UTC')::text"
    last, first = "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00"
    assert connection.execute(query, given).fetchone() == ("9999-12-31", "0001-01-01", last, first, last)


@pytest.mark.parametrize(
    "value",
    ["date 'infinity'", "timestamptz '-infinity'", "date '10000-01-01'", "timestamp '0044-03-15 BC'", "time '24:00'"],
)
def test_what_python_does_not_hold_is_an_error_of_data(side, connection, value):
    with pytest.raises(side.module.DataError):
        connection.execute(f"select {value}").fetchone()
    connection.rollback()
    assert connection.execute("select 1").fetchone() == (1,)


def test_a_block_ends_its_transaction_itself(side, connection):
    connection.execute("create temp table kept (i int)")
    connection.commit()
    for end in (connection.commit, connection.rollback):
        with pytest.raises(side.module.ProgrammingError), connection.transaction(), connection.transaction():
            connection.execute("insert into kept values (1)")
            end()
        assert connection.execute("select count(*) from kept").fetchone() == (0,)
        connection.rollback()
    with connection.transaction():
        connection.execute("insert into kept values (1)")
    connection.rollback()
    assert connection.execute("select count(*) from kept").fetchone() == (1,)


def test_attributes_do_something_or_are_refused(side, connection):
    connection.read_only = True
    with pytest.raises(side.module.InternalError):
        connection.execute("create table no_table (i int)")
    connection.rollback()
    connection.read_only, connection.deferrable = False, None
    assert connection.execute("show transaction_read_only").fetchone() == ("off",)
    with pytest.raises(side.module.ProgrammingError):
        connection.read_only = None
    rows = psycopg.rows if side.module is psycopg else dbapi
    cursor = connection.cursor()
    cursor.row_factory = rows.dict_row
    assert cursor.execute("select 1 as a").fetchone() == {"a": 1}
    with pytest.raises(AttributeError, match="nothing"):
        cursor.nothing = 1
    if side.module is dbapi:
        for name in ("prepare_threshold", "cursor_factory", "nothing"):
            with pytest.raises(AttributeError, match=name):
                setattr(connection, name, None)


def test_classes_of_errors_are_psycopgs():
    for state, theirs in psycopg.errors._base_exc_map.items():
        ours = dbapi.errors.class_of(
            howdah.PostgresError, {"F": "F0", "H": "HV", "P": "P0", "X": "XX"}.get(state, state) + "000"
        )
        assert ours.__name__ == theirs.__name__, state


@pytest.mark.parametrize(("state", "name"), [("01000", "DatabaseError"), ("02000", "DatabaseError"), ("44000", None)])
def test_errors_may_have_any_state(side, connection, state, name):
    with pytest.raises(getattr(side.module, name or "ProgrammingError")) as info:
        connection.execute(f"do $$ begin raise exception 'x' using errcode = '{state}'; end $$")
    assert info.value.sqlstate == state


def test_a_lost_connection_says_why(side, connection):
    with side.connect(autocommit=True) as other:
        connection.execute("select 1")
        other.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
    with pytest.raises(side.module.OperationalError, match="administrator") as info:
        connection.execute("select 1")
    assert info.value.sqlstate == "57P01"
    for again in (lambda: connection.execute("select 1"), connection.commit, connection.rollback):
        with pytest.raises(side.module.OperationalError):
            again()


def test_a_blocks_own_exception_comes_through(side):
    other = side.connect(autocommit=True)
    with other, pytest.raises(KeyError), side.connect() as connection, connection.transaction():
        connection.execute("select 1")
        other.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        raise KeyError


def test_a_database_that_is_not_there(spec):
    with pytest.raises(dbapi.OperationalError, match="does not exist"):
        dbapi.connect(**{**spec, "database": "no_such_database"})


def test_a_signal_handlers_exception_comes_through(connection):
    def alarm(*_):
        raise TimeoutError("alarm")

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeoutError, match="alarm"):
            connection.execute("select pg_sleep(10)")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
