"""Drivers as people use them, through the pooler in transaction pooling: their own API, many connections, few servers."""

import asyncio
import io
import sys

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload

from devkit.driver import PACKAGE
from tests.pooler.process import SUPERUSER, Pooler

sys.path.insert(0, str(PACKAGE))
import howdah

CONNECTIONS = 20


async def use(driver, port, number):
    """One application's connection: each usual operation, with an answer that only it can get."""
    connection = await driver.connect(host="127.0.0.1", port=port, user=SUPERUSER, database="postgres", ssl=False)
    try:
        for turn in range(5):
            mark = number * 1000 + turn
            assert await connection.fetchval("SELECT $1::int", mark) == mark
            rows = await connection.fetch("SELECT g, $1::text AS who FROM generate_series(1, 3) g", f"c{mark}")
            assert [tuple(row) for row in rows] == [(g, f"c{mark}") for g in (1, 2, 3)]
            with pytest.raises(driver.DivisionByZeroError):
                await connection.fetchval("SELECT $1::int / 0", mark)
            async with connection.transaction():
                await connection.execute("SET LOCAL application_name = 'inside'")
                await connection.execute("INSERT INTO used VALUES ($1)", mark)
                seen = [row["g"] async for row in connection.cursor("SELECT g FROM generate_series(1, 130) g")]
                assert seen == list(range(1, 131))
                assert await connection.fetchval("SHOW application_name") == "inside"
            statement = await connection.prepare("SELECT $1::int + $2::int")
            assert await statement.fetchval(mark, 1) == mark + 1
            await connection.executemany("INSERT INTO used VALUES ($1)", [(-mark - 1,), (-mark - 1,)])
            await connection.copy_records_to_table("copied", records=[(mark, "x" * 100)] * 10)
            out = io.BytesIO()
            await connection.copy_from_query("SELECT a FROM copied WHERE a = $1", mark, output=out)
            assert out.getvalue() == f"{mark}\n".encode() * 10
            with pytest.raises(asyncio.TimeoutError):
                await connection.fetchval("SELECT pg_sleep(5)", timeout=0.05)
            assert await statement.fetchval(mark, 2) == mark + 2
    finally:
        await connection.close()


@pytest.mark.parametrize("driver", [asyncpg, howdah], ids=["asyncpg", "howdah"])
def test_a_driver_with_prepared_statements(server, driver):
    server.psql("DROP TABLE IF EXISTS used, copied; CREATE TABLE used (a int); CREATE TABLE copied (a int, b text)")

    async def all_of_them(port):
        await asyncio.gather(*(use(driver, port, number) for number in range(1, CONNECTIONS + 1)))

    with Pooler(server, default_pool_size=4) as pooler:
        asyncio.run(asyncio.wait_for(all_of_them(pooler.port), 60))
        assert server.psql("SELECT count(*), count(*) FILTER (WHERE a > 0) FROM used") == "300|100"
        assert server.psql("SELECT count(*) FROM copied") == "1000"
        assert len(pooler.show("SERVERS")) <= 4


async def use_psycopg(port, number):
    """The same by psycopg 3, with every statement prepared at its second use."""
    place = f"host=127.0.0.1 port={port} user={SUPERUSER} dbname=postgres sslmode=disable"
    connection = await psycopg.AsyncConnection.connect(place, autocommit=True, prepare_threshold=1)
    async with connection:
        for turn in range(5):
            mark = number * 1000 + turn
            for _ in range(3):
                cursor = await connection.execute("SELECT %s::int, %s::text", (mark, f"c{mark}"))
                assert await cursor.fetchall() == [(mark, f"c{mark}")]
            with pytest.raises(psycopg.errors.DivisionByZero):
                await connection.execute("SELECT %s::int / 0", (mark,))
            async with connection.transaction():
                await connection.execute("SET LOCAL application_name = 'inside'")
                with pytest.raises(psycopg.errors.UniqueViolation):
                    async with connection.transaction():
                        await connection.execute("INSERT INTO used VALUES (%s), (%s)", (mark, mark))
                await connection.execute("INSERT INTO used VALUES (%s)", (mark,))
                async with connection.cursor("portal") as portal:
                    await portal.execute("SELECT g FROM generate_series(1, 130) g")
                    assert [row[0] async for row in portal] == list(range(1, 131))
                assert await (await connection.execute("SHOW application_name")).fetchone() == ("inside",)
            async with connection.pipeline():
                cursors = [await connection.execute("SELECT %s::int + %s::int", (mark, n)) for n in range(10)]
            assert [await cursor.fetchone() for cursor in cursors] == [(mark + n,) for n in range(10)]
            async with connection.cursor() as cursor:
                await cursor.executemany("INSERT INTO copied VALUES (%s, %s)", [(mark, "m")] * 3)
                async with cursor.copy("COPY copied FROM STDIN") as copy:
                    for _ in range(7):
                        await copy.write_row((mark, "x" * 100))
                async with cursor.copy("COPY (SELECT a FROM copied WHERE a = %s) TO STDOUT", (mark,)) as copy:
                    assert [row async for row in copy.rows()] == [(str(mark),)] * 10
            asleep = asyncio.create_task(connection.execute("SELECT pg_sleep(20)"))
            while not asleep.done():
                await asyncio.sleep(0.02)
                await connection.cancel_safe(timeout=5)
            assert isinstance(asleep.exception(), psycopg.errors.QueryCanceled)


def test_psycopg_with_prepared_statements(server):
    server.psql(
        "DROP TABLE IF EXISTS used, copied; CREATE TABLE used (a int UNIQUE); CREATE TABLE copied (a int, b text)"
    )

    async def all_of_them(port):
        await asyncio.gather(*(use_psycopg(port, number) for number in range(1, CONNECTIONS + 1)))

    with Pooler(server, default_pool_size=4) as pooler:
        asyncio.run(asyncio.wait_for(all_of_them(pooler.port), 120))
        assert server.psql("SELECT count(*) FROM used") == "100"
        assert server.psql("SELECT count(*) FROM copied") == "1000"
        assert len(pooler.show("SERVERS")) <= 4


class Base(DeclarativeBase):
    """What is mapped."""


class Author(Base):
    """One side of a relation."""

    __tablename__ = "authors"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    books: Mapped[list["Book"]] = relationship(back_populates="author", order_by="Book.title")


class Book(Base):
    """The other."""

    __tablename__ = "books"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    sold: Mapped[int] = mapped_column(default=0)
    author_id: Mapped[int] = mapped_column(sqlalchemy.ForeignKey("authors.id"))
    author: Mapped[Author] = relationship(back_populates="books")


async def keep_books(engine, number):
    """One request after another of a web application: each opens a session, as these do."""
    name = f"author {number}"
    async with AsyncSession(engine) as session, session.begin():
        session.add(Author(name=name, books=[Book(title=f"{name}, {n}") for n in range(3)]))
    one = sqlalchemy.select(Author).where(Author.name == name).options(selectinload(Author.books))
    for turn in range(5):
        async with AsyncSession(engine) as session, session.begin():
            author = (await session.scalars(one)).one()
            assert [book.title for book in author.books] == [f"{name}, {n}" for n in range(3)]
            author.books[turn % 3].sold += 1
        async with AsyncSession(engine) as session:
            author = (await session.scalars(one)).one()
            author.books[0].sold += 1000
            await session.flush()
            await session.rollback()
        async with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            total = sqlalchemy.select(sqlalchemy.func.sum(Book.sold)).join(Author).where(Author.name == name)
            assert await connection.scalar(total) == turn + 1


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_sqlalchemy(server, driver):
    server.psql("DROP TABLE IF EXISTS books, authors")

    async def all_of_them(port):
        url = f"postgresql+{driver}://{SUPERUSER}@127.0.0.1:{port}/postgres"
        engine = create_async_engine(url, pool_size=CONNECTIONS, max_overflow=0)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        try:
            await asyncio.gather(*(keep_books(engine, number) for number in range(40)))
        finally:
            await engine.dispose()

    with Pooler(server, default_pool_size=4) as pooler:
        asyncio.run(asyncio.wait_for(all_of_them(pooler.port), 120))
        assert server.psql("SELECT count(*), sum(sold) FROM books") == "120|200"
        assert len(pooler.show("SERVERS")) <= 4
