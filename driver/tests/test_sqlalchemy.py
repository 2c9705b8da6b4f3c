"""SQLAlchemy's two dialects on the driver: what a program of users does with them."""

import asyncio
import datetime
import decimal
import importlib
import pathlib
import sys
import uuid
from typing import Optional

import howdah.sqlalchemy
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


def url_of(spec, driver="howdah", **query):
    return sa.URL.create(
        f"postgresql+{driver}",
        spec["user"],
        spec["password"],
        spec["host"],
        spec["port"],
        spec["database"],
        query=query,
    )


@pytest.fixture
def engine(spec):
    engine = sa.create_engine(url_of(spec))
    yield engine
    engine.dispose()


META = sa.MetaData()
THINGS = sa.Table(
    "sa_sync_things",
    META,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(50), nullable=False),
    sa.Column("data", pg.JSONB),
    sa.Column("tags", pg.ARRAY(sa.Text)),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("made", sa.DateTime(timezone=True)),
    sa.Column("key", sa.Uuid),
    sa.Column("raw", sa.LargeBinary),
    sa.Column("mood", sa.Enum("glad", "sad", name="sa_sync_mood")),
    sa.Column("span", pg.INT4RANGE),
    sa.Column("spans", pg.INT4MULTIRANGE),
    sa.Column("wait", sa.Interval),
)
MADE = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)


@pytest.fixture
def things(engine):
    META.drop_all(engine)
    META.create_all(engine)
    yield THINGS
    META.drop_all(engine)


def a_thing(number):
    return {
        "id": number,
        "name": f"n{number}",
        "data": {"n": [number]},
        "tags": ["a", None],
        "price": decimal.Decimal("1.50"),
        "made": MADE,
        "key": uuid.UUID(int=number),
        "raw": b"x",
        "mood": "glad",
        "span": pg.Range(1, 5),
        "spans": pg.MultiRange([pg.Range(1, 2), pg.Range(4, 5)]),
        "wait": datetime.timedelta(seconds=5),
    }


def test_doubled_percent_signs_without_parameters(engine):
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select 7 %% 4, '100%%'").one() == (3, "100%")
        assert connection.exec_driver_sql("select 7 %% %s", (4,)).scalar_one() == 3
        assert connection.execute(sa.text("select 7 % 4, '%%'")).one() == (3, "%%")


def test_values_come_back_as_they_went(engine, things):
    with engine.begin() as connection:
        connection.execute(things.insert(), [a_thing(number) for number in range(100)])
        returned = connection.execute(things.insert().values(a_thing(100)).returning(things.c.id)).scalar_one()
    assert returned == 100
    with engine.connect() as connection:
        row = connection.execute(sa.select(things).where(things.c.id == 7)).mappings().one()
        assert dict(row) == a_thing(7)
        found = connection.scalar(sa.select(things.c.id).where(things.c.data["n"][0].as_integer() == 9))
        assert found == 9
        assert connection.scalar(sa.select(sa.func.count()).where(things.c.name.like("n1%"))) == 12
        result = connection.execute(sa.update(things).where(things.c.id < 10).values(name="new"))
        assert result.rowcount == 10
        rows = connection.execution_options(stream_results=True, max_row_buffer=10).execute(
            sa.select(things.c.id).order_by(things.c.id)
        )
        assert [row.id for row in rows] == list(range(101))


def test_a_streamed_table_that_another_alters(engine, things):
    def read():
        with engine.connect() as connection:
            rows = connection.execution_options(stream_results=True).execute(
                sa.text("select * from sa_sync_things where id = :id"), {"id": 1}
            )
            return list(rows.keys())[-1], len(rows.all())

    with engine.begin() as connection:
        connection.execute(things.insert(), a_thing(1))
    assert read()[1] == 1
    other = sa.create_engine(engine.url)
    with other.begin() as connection:
        connection.execute(sa.text("alter table sa_sync_things add column more int"))
    other.dispose()
    assert read() == ("more", 1)


def test_transactions_levels_and_errors(engine, things):
    with engine.connect() as connection:
        connection.execute(things.insert(), a_thing(1))
        connection.commit()
        with pytest.raises(sa.exc.IntegrityError) as caught:
            connection.execute(things.insert(), a_thing(1))
        assert caught.value.orig.sqlstate == "23505"
        connection.rollback()
        with pytest.raises(sa.exc.ProgrammingError):
            connection.execute(sa.text("select * from no_such_table"))
        connection.rollback()
        with connection.begin():
            with pytest.raises(RuntimeError), connection.begin_nested():
                connection.execute(things.insert(), a_thing(2))
                raise RuntimeError
            connection.execute(things.insert(), a_thing(3))
        assert connection.scalars(sa.select(things.c.id).order_by(things.c.id)).all() == [1, 3]
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        assert connection.scalar(sa.text("show transaction_isolation")) == "serializable"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("vacuum sa_sync_things"))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("show transaction_isolation")) == "read committed"
        assert connection.scalar(sa.text("select 'a%'")) == "a%"


def test_a_lost_connection_is_replaced(spec):
    engine = sa.create_engine(url_of(spec), pool_size=1, max_overflow=0)
    with engine.connect() as connection:
        pid = connection.scalar(sa.text("select pg_backend_pid()"))
    killer = sa.create_engine(url_of(spec))
    with killer.connect() as other:
        other.execute(sa.text("select pg_terminate_backend(:pid, 10000)"), {"pid": pid})
    killer.dispose()
    with pytest.raises(sa.exc.DBAPIError) as caught, engine.connect() as connection:
        connection.execute(sa.text("select 1"))
    assert caught.value.connection_invalidated
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select pg_backend_pid()")) != pid
    engine.dispose()
    engine = sa.create_engine(url_of(spec), pool_size=1, pool_pre_ping=True)
    with engine.connect() as connection:
        connection.connection.driver_connection.terminate()
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select 1")) == 1
    engine.dispose()


def test_options_of_the_url(spec):
    engine = sa.create_engine(url_of(spec, command_timeout="0.2", statement_cache_size="0", ssl="prefer"))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select 1")) == 1
        with pytest.raises(sa.exc.OperationalError):
            connection.execute(sa.text("select pg_sleep(30)"))
    engine.dispose()


def test_libpqs_options_in_the_url(spec):
    options = {"application_name": "a b", "sslmode": "disable", "work_mem": "5MB"}
    command = sa.text("select current_setting('application_name') || ' ' || current_setting('work_mem')")
    engine = sa.create_engine(url_of(spec, **options))
    with engine.connect() as connection:
        assert connection.scalar(command) == "a b 5MB"
    engine.dispose()

    async def main():
        engine = create_async_engine(url_of(spec, "howdah_async", **options))
        async with engine.connect() as connection:
            found = await connection.scalar(command)
        await engine.dispose()
        return found

    assert asyncio.run(main()) == "a b 5MB"


class Base(DeclarativeBase):
    """The base of the mapped classes."""


class Airport(Base):
    """Where flights begin."""

    __tablename__ = "orm_sync_airports"
    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(sa.String(3), unique=True)
    flights: Mapped[list["Flight"]] = relationship(back_populates="origin", cascade="all, delete-orphan")


class Flight(Base):
    """A flight."""

    __tablename__ = "orm_sync_flights"
    id: Mapped[int] = mapped_column(primary_key=True)
    delay: Mapped[Optional[float]]
    airport_id: Mapped[int] = mapped_column(sa.ForeignKey("orm_sync_airports.id"))
    origin: Mapped[Airport] = relationship(back_populates="flights")


def test_the_orm(engine):
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        flights = [Flight(delay=1.5), Flight(delay=None)]
        session.add_all([Airport(code="ZRH", flights=flights), Airport(code="KEF", flights=[])])
    with Session(engine) as session:
        loaded = session.scalars(sa.select(Airport).options(selectinload(Airport.flights)).order_by(Airport.code)).all()
        assert [(airport.code, len(airport.flights)) for airport in loaded] == [("KEF", 0), ("ZRH", 2)]
        loaded[1].flights[0].delay = 3.0
        session.commit()
        assert session.scalar(sa.select(sa.func.sum(Flight.delay))) == 3.0
        session.add(Airport(code="ZRH"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        session.rollback()
        session.delete(loaded[1])
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Flight)) == 0
    Base.metadata.drop_all(engine)


def test_the_catalog_is_read(engine, things):
    inspector = sa.inspect(engine)
    assert "sa_sync_things" in inspector.get_table_names()
    columns = {column["name"]: column["type"] for column in inspector.get_columns("sa_sync_things")}
    assert isinstance(columns["span"], pg.INT4RANGE)
    assert inspector.get_pk_constraint("sa_sync_things")["constrained_columns"] == ["id"]


def test_pandas(engine, spec):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2], "name": ["a", None]})
    assert frame.to_sql("sa_sync_frame", engine, if_exists="replace", index=False) is not None
    read = pandas.read_sql("select * from sa_sync_frame order by id", engine)
    assert read["id"].tolist() == [1, 2]
    with engine.begin() as connection:
        connection.execute(sa.text("drop table sa_sync_frame"))


def test_the_asynchronous_dialect(spec):
    async def main(driver):
        engine = create_async_engine(url_of(spec, driver))
        async with engine.begin() as connection:
            await connection.run_sync(META.drop_all)
            await connection.run_sync(META.create_all)
            await connection.execute(THINGS.insert(), [a_thing(number) for number in range(20)])
            row = (await connection.execute(sa.select(THINGS).where(THINGS.c.id == 7))).mappings().one()
            stream = await connection.stream(sa.select(THINGS.c.id).order_by(THINGS.c.id))
            assert [row.id async for row in stream] == list(range(20))
        codes = []
        # With `::` after it the name is no parameter of SQLAlchemy's, and so none of anybody's.
        for command in ("insert into sa_sync_things (id, name) values (1, 'x')", "select :a::int", "select 1/0"):
            try:
                async with engine.connect() as connection:
                    await connection.execute(sa.text(command))
            except sa.exc.DBAPIError as error:
                codes.append((type(error), error.orig.sqlstate))
        async with engine.begin() as connection:
            await connection.run_sync(META.drop_all)
        await engine.dispose()
        return engine.dialect.driver, dict(row), codes

    expected = [(sa.exc.IntegrityError, "23505"), (sa.exc.ProgrammingError, "42601"), (sa.exc.DataError, "22012")]
    for driver in ("howdah_async", "howdah"):
        assert asyncio.run(main(driver)) == ("howdah_async", a_thing(7), expected)
    assert "asyncpg" not in sys.modules or sys.modules["asyncpg"].__name__ == "asyncpg"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python reads TOML since 3.11")
def test_the_entry_points_name_what_is_there():
    import tomllib

    project = tomllib.loads((pathlib.Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["sqlalchemy.dialects"]
    assert set(named) == {"postgresql.howdah", "postgresql.howdah_async"}
    for name, place in named.items():
        module, _, attribute = place.partition(":")
        dialect = getattr(importlib.import_module(module), attribute)
        assert name == f"postgresql.{dialect.driver}"
        assert howdah.sqlalchemy.registry.load(name) is dialect


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_in_two_phases(engine, things, end):
    with engine.connect() as connection:
        transaction = connection.begin_twophase()
        connection.execute(sa.insert(THINGS).values(id=77, name="two phases"))
        transaction.prepare()
        getattr(transaction, end)()
    with engine.connect() as connection:
        count = connection.scalar(sa.select(sa.func.count()).select_from(THINGS).where(THINGS.c.id == 77))
        assert count == (end == "commit")
        assert connection.recover_twophase() == []


def test_a_prepared_transaction_is_recovered(engine):
    with engine.connect() as connection:
        transaction = connection.begin_twophase("to be recovered")
        connection.execute(sa.text("select 1"))
        transaction.prepare()
        connection.invalidate()
    with engine.connect() as connection:
        assert connection.recover_twophase() == ["to be recovered"]
        connection.commit_prepared("to be recovered", recover=True)
        assert connection.recover_twophase() == []


def test_json_without_a_type_is_read(engine):
    with engine.connect() as connection:
        row = connection.execute(sa.text("select '{\"a\": 1}'::jsonb, '[1]'::json")).one()
        assert tuple(row) == ({"a": 1}, [1])
        assert connection.scalar(sa.select(sa.func.json_build_object("k", 1))) == {"k": 1}
    engine = sa.create_engine(engine.url, json_deserializer=lambda text: f"read {text}")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("select '[1]'::json")) == "read [1]"
    engine.dispose()
