"""What programs of psycopg2 and notebooks ask of the synchronous interface beyond PEP 249."""

import codecs
import contextlib
import datetime
import decimal
import enum
import io
import ipaddress
import tempfile
import uuid

import howdah.dbapi
import numpy
import pandas
import pytest


@pytest.fixture
def connection(spec):
    """A connection of the interface."""
    with howdah.dbapi.connect(**spec) as made:
        yield made


Colour = enum.Enum("Colour", {"RED": "red"})


VALUES = [
    None,
    True,
    -5,
    2.5,
    float("nan"),
    float("-inf"),
    decimal.Decimal("-1.50"),
    "it's a \\ and a '",
    b"\x00\xff'",
    uuid.UUID(int=5),
    ipaddress.ip_address("10.0.0.1"),
    ipaddress.ip_interface("10.0.0.1/8"),
    ipaddress.ip_network("fd00::/8"),
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
    datetime.datetime(2024, 2, 29, 1, 2, tzinfo=datetime.timezone.utc),
    datetime.time(1, 2, 3),
    datetime.timedelta(days=-1, seconds=5, microseconds=7),
    [1, 2],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("conforming", ["on", "off"])
def test_a_written_value_is_the_value(connection, value, conforming):
    connection.execute(f"set standard_conforming_strings = {conforming}")
    connection.execute("set escape_string_warning = off")
    text = connection.cursor().mogrify("select %s", (value,)).decode()
    (found,) = connection.execute(text).fetchone()
    if isinstance(value, float) and value != value:
        assert found != found
    else:
        assert found == value


def test_values_are_written_where_they_belong(connection):
    cursor = connection.cursor()
    assert cursor.mogrify("insert into t values (%s, %s), '$1', 5%%", (1, "it's")) == (
        b"insert into t values (1, 'it''s'), '$1', 5%"
    )
    assert cursor.mogrify("a - %(n)s and %(n)s in %(l)s", {"n": -1, "l": (1, "b")}) == b"a -  -1 and  -1 in (1, 'b')"
    assert b",".join(cursor.mogrify("(%s,%s)", row) for row in [(1, Colour.RED), (2, [])]) == b"(1,'red'),(2,'{}')"
    assert cursor.mogrify("select 5 % 2") == b"select 5 % 2"
    for value, message in ((object(), "class object has no literal"), ("a\0", "null character")):
        with pytest.raises(howdah.dbapi.ProgrammingError, match=message):
            cursor.mogrify("select %s", (value,))
    with pytest.raises(howdah.dbapi.ProgrammingError, match=r"no value for \$2"):
        cursor.mogrify("select $1, $2", (1,))


def test_libraries_find_the_paramstyle_by_a_connection(connection):
    assert __import__(type(connection).__module__).paramstyle == howdah.dbapi.paramstyle


@pytest.mark.parametrize("kind", [io.BytesIO, io.StringIO])
def test_copy_expert_takes_and_fills_files(connection, kind):
    given = "1\tZürich\n2\tKeflavík\n"
    connection.execute("create temp table copied (id int, name text)")
    cursor = connection.cursor()
    assert cursor.copy_expert("COPY copied FROM STDIN", kind(given if kind is io.StringIO else given.encode())) == 2
    assert cursor.rowcount == 2
    target = kind()
    assert cursor.copy_expert("copy (select * from copied order by id) to stdout", target) == 2
    assert target.getvalue() == (given if kind is io.StringIO else given.encode())
    with pytest.raises(howdah.dbapi.ProgrammingError, match="COPY"):
        cursor.copy_expert("select 1", target)


@pytest.mark.parametrize("kind", [tempfile.NamedTemporaryFile, tempfile.SpooledTemporaryFile, "codecs"])
@pytest.mark.parametrize("mode", ["w+", "w+b"])
def test_copy_expert_takes_temporary_files(connection, kind, mode, tmp_path):
    def empty():
        if kind == "codecs":
            return codecs.open(str(tmp_path / "file"), mode, encoding="utf-8" if mode == "w+" else None)
        return kind(mode=mode, encoding="utf-8" if mode == "w+" else None)

    given = "1\tZürich\n" * 50_000
    cursor = connection.cursor()
    connection.execute("create temp table copied (id int, name text)")
    with empty() as source:
        source.write(given if mode == "w+" else given.encode())
        source.seek(0)
        assert cursor.copy_expert("copy copied from stdin", source) == 50_000
    with empty() as target:
        assert cursor.copy_expert("copy copied to stdout", target) == 50_000
        target.seek(0)
        assert target.read() == (given if mode == "w+" else given.encode())


def test_a_copy_in_ends_when_its_connection_is_lost(spec, connection):
    pieces = 0

    def endless():
        nonlocal pieces
        while pieces < 10_000:
            pieces += 1
            if pieces == 3:
                connection.execute("select pg_terminate_backend(%s, 5000)", (lost.info.backend_pid,))
            yield b"1\n" * 1000

    with howdah.dbapi.connect(**spec) as lost:
        lost.execute("create temp table pieces (a int)")
        with pytest.raises(howdah.dbapi.OperationalError):
            lost.cursor().copy_in("copy pieces from stdin", endless())
    assert 3 <= pieces < 10_000


def test_a_copy_past_its_time_is_an_operational_error(spec):
    with howdah.dbapi.connect(**spec, command_timeout=0.2) as slow:
        for copy in (
            lambda cursor: cursor.copy_out("copy (select pg_sleep(5)) to stdout", io.BytesIO()),
            lambda cursor: cursor.copy_in("copy slow from stdin", b"1\n"),
        ):
            slow.execute("create temp table slow (a int check (pg_sleep(5) is not null))")
            with pytest.raises(howdah.dbapi.OperationalError, match=r"no answer within the timeout of 0.2 seconds"):
                copy(slow.cursor())
            slow.rollback()

        def own():
            yield b"1\n"
            raise TimeoutError("mine")

        slow.execute("create temp table own (a int)")
        with pytest.raises(TimeoutError, match="mine"):
            slow.cursor().copy_in("copy own from stdin", own())
        slow.rollback()


@pytest.mark.parametrize("refused", ["selec", "insert into kept values (1); selec", "select 1 / 0; select 1"])
def test_what_follows_a_text_that_is_refused_is_not_run_outside_of_the_transaction(spec, connection, refused):
    connection.execute("drop table if exists kept; create table kept (a int)")
    connection.commit()
    with howdah.dbapi.connect(**spec) as implicit:
        with pytest.raises(howdah.dbapi.DatabaseError):
            implicit.execute(refused)
        assert implicit.info.transaction_status == 3
        with pytest.raises(howdah.dbapi.InternalError) as caught:
            implicit.execute("insert into kept values (2)")
        assert caught.value.sqlstate == "25P02"
        implicit.rollback()
        implicit.execute("select 1")
    with howdah.dbapi.connect(**spec, autocommit=True) as single, pytest.raises(KeyError), single.transaction():
        with pytest.raises(howdah.dbapi.DatabaseError):
            single.execute(refused)
        with pytest.raises(howdah.dbapi.InternalError):
            single.execute("insert into kept values (3)")
        raise KeyError
    with howdah.dbapi.connect(**spec) as copier:
        with pytest.raises(howdah.dbapi.ProgrammingError):
            copier.cursor().copy_in("copy kept from stdin with nonsense", b"1\n")
        with pytest.raises(howdah.dbapi.InternalError):
            copier.execute("insert into kept values (4)")
        copier.rollback()
    assert connection.execute("select * from kept").fetchall() == []


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize(
    "before, after, values",
    [
        ("int", "text", ("5", "abc")),
        ("int", "bigint", ("5", "9999999999")),
        ("text", "int", ("5", "6")),
        ("varchar(3)", "text", ("abc", "abcdef")),
        ("inet", "text", ("10.0.0.1", "host")),
    ],
)
def test_a_service_outlives_a_migration_of_its_columns(spec, connection, autocommit, before, after, values):
    connection.autocommit = True
    connection.execute(f"drop table if exists migrated; create table migrated (a {before}, r int)")
    with howdah.dbapi.connect(**spec, autocommit=autocommit) as service:
        for _ in range(3):
            service.execute("insert into migrated values (%s)", (values[0],))
            service.execute("select m from migrated m limit 1").fetchone()
            service.commit()
        connection.execute(f"truncate migrated; alter table migrated alter a type {after} using a::text::{after}")
        connection.execute("alter table migrated add new date")
        failures = 0
        for ask in (("insert into migrated values (%s)", (values[1],)), ("select m from migrated m limit 1",)) * 3:
            try:
                service.execute(*ask)
                service.commit()
            except howdah.dbapi.Error:
                failures += 1
                service.rollback()
        assert failures <= 2
        service.execute("do $$ begin execute 'deallocate all'; end $$")
        with contextlib.suppress(howdah.dbapi.Error):
            service.execute("select 1")
        service.rollback()
        assert service.execute("select 1").fetchone() == (1,)
    assert connection.execute("select a::text from migrated limit 1").fetchone() == (values[1],)
    connection.execute("drop table migrated")


def test_a_type_that_is_made_anew_fails_no_more_than_one_transaction(spec, connection):
    connection.autocommit = True
    connection.execute("drop schema if exists anew cascade; create schema anew; create type anew.e as enum ('a', 'b')")
    connection.execute("create table anew.t (e anew.e)")
    queries = [
        ("insert into anew.t values (%s) returning e", ("a",)),
        ("select e from anew.t where e = any(%s::anew.e[]) limit 1", (["a"],)),
        ("select %s::anew.e", ("a",)),
    ]
    with howdah.dbapi.connect(**spec) as service, howdah.dbapi.connect(**spec, autocommit=True) as single:
        for query in queries:
            for user in (service, single):
                for _ in range(7):
                    assert user.execute(*query).fetchone() == ("a",)
                    user.commit()
        connection.execute(
            "alter type anew.e rename to old; create type anew.e as enum ('a', 'b', 'new');"
            "alter table anew.t alter column e type anew.e using e::text::anew.e; drop type anew.old"
        )
        for query in queries:
            assert single.execute(*query).fetchone() == ("a",)
            try:
                service.execute(*query)
            except howdah.dbapi.DatabaseError:
                service.rollback()
            assert service.execute(*query).fetchone() == ("a",)
            service.commit()
    connection.execute("drop schema anew cascade")


def test_errors_have_psycopgs_diagnostics(connection):
    connection.execute("create temp table unique_ids (id int constraint only_once primary key)")
    with pytest.raises(howdah.dbapi.IntegrityError) as caught:
        connection.execute("insert into unique_ids values (1), (1)")
    diag = caught.value.diag
    assert diag.constraint_name == "only_once"
    assert diag.table_name == "unique_ids"
    assert diag.sqlstate == caught.value.pgcode == "23505"
    assert diag.message_primary.startswith("duplicate key")
    assert diag.message_detail == "Key (id)=(1) already exists."
    assert diag.severity == "ERROR"
    assert diag.source_function
    assert diag.message_hint is None
    assert caught.value.pgerror.startswith("ERROR:  duplicate key")
    with pytest.raises(AttributeError, match="no field 'message'"):
        _ = diag.message
    assert {"message_primary", "constraint_name"} < set(dir(diag))
    connection.rollback()
    with pytest.raises(howdah.dbapi.ProgrammingError) as ours:
        connection.cursor().fetchone()
    assert ours.value.diag.sqlstate is None
    assert ours.value.pgerror is None


def test_columns_become_a_data_frame(connection, monkeypatch):
    query = "select n as id, n / 2.0::float8 as half, 'x' || n as name from generate_series(1, 3) n"
    frame = connection.fetch_columns(query).to_pandas()
    assert list(frame.columns) == ["id", "half", "name"]
    assert frame["half"].sum() == 3.0
    assert frame["id"].dtype == numpy.int32
    # As in pandas before 3, by pyarrow.
    monkeypatch.delattr(pandas.DataFrame, "from_arrow", raising=False)
    assert connection.fetch_columns(query).to_pandas()["name"].to_list() == ["x1", "x2", "x3"]


def test_a_notebook_shows_the_first_rows(connection):
    columns = connection.fetch_columns(
        "select case when n > 1 then n end as \"a<b\", repeat('<', n) from generate_series(1, 200) n"
    )
    shown = columns._repr_html_()
    assert shown.count("<tr>") == 51
    assert "<th>a&lt;b</th>" in shown
    assert "<td><i>NULL</i></td><td>&lt;</td>" in shown
    assert "200 rows, the first 50 are shown" in shown
    assert "1 row<" in connection.fetch_columns("select repeat('x', 1000)")._repr_html_()
    assert "<p>0 rows</p>" in connection.fetch_columns("select 1 where false")._repr_html_()
