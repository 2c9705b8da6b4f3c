"""Libraries that people use with asyncpg, on howdah in its place, each in a process of its own."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import asyncio, json, sys
import howdah
howdah.install_as_asyncpg()
spec = json.loads(sys.argv[1])
"""


def run(spec, program, loop):
    """Runs a program; what it prints as JSON."""
    start = "import uvloop; uvloop.run(main())" if loop == "uvloop" else "asyncio.run(main())"
    source = PRELUDE + textwrap.dedent(program) + "\n" + start + "\n"
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", source, json.dumps(spec)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning" not in done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request):
    return request.param


def test_sqlalchemy_core(spec, loop):
    program = """
    import datetime, decimal, uuid
    import sqlalchemy as sa
    from sqlalchemy.dialects import postgresql as pg
    from sqlalchemy.ext.asyncio import create_async_engine

    async def main():
        import asyncpg
        assert asyncpg is howdah
        url = sa.URL.create("postgresql+asyncpg", spec["user"], spec["password"], spec["host"], spec["port"], "postgres")
        engine = create_async_engine(url, pool_size=3)
        assert engine.dialect.driver == "asyncpg"
        meta = sa.MetaData()
        things = sa.Table(
            "sa_things", meta,
            sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(50), nullable=False),
            sa.Column("data", pg.JSONB), sa.Column("tags", pg.ARRAY(sa.Text)), sa.Column("price", sa.Numeric(10, 2)),
            sa.Column("made", sa.DateTime(timezone=True)), sa.Column("key", sa.Uuid), sa.Column("raw", sa.LargeBinary),
            sa.Column("mood", sa.Enum("glad", "sad", name="sa_mood")), sa.Column("span", pg.INT4RANGE),
        )
        async with engine.begin() as connection:
            await connection.run_sync(meta.drop_all)
            await connection.run_sync(meta.create_all)
            made = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
            rows = [
                {"id": n, "name": f"n{n}", "data": {"n": [n]}, "tags": ["a", None], "price": decimal.Decimal("1.50"),
                 "made": made, "key": uuid.UUID(int=n), "raw": b"x", "mood": "glad", "span": pg.Range(1, 5)}
                for n in range(100)
            ]
            await connection.execute(things.insert(), rows)
        answers = []
        async with engine.connect() as connection:
            row = (await connection.execute(sa.select(things).where(things.c.id == 7))).one()
            assert row.data == {"n": [7]} and row.tags == ["a", None] and row.price == decimal.Decimal("1.50"), row
            assert row.made == made and row.key == uuid.UUID(int=7) and row.raw == b"x" and row.mood == "glad", row
            assert row.span == pg.Range(1, 5), row
            stream = await connection.stream(sa.select(things.c.id).order_by(things.c.id))
            answers.append([n async for (n,) in stream][-1])
            await connection.rollback()
            try:
                await connection.execute(things.insert(), {"id": 7, "name": "again"})
            except sa.exc.IntegrityError as error:
                answers.append(error.orig.sqlstate)
            await connection.rollback()
            nested = await connection.begin()
            try:
                async with connection.begin_nested():
                    await connection.execute(things.insert(), {"id": 200, "name": "kept not"})
                    raise RuntimeError
            except RuntimeError:
                pass
            await connection.execute(things.insert(), {"id": 201, "name": "kept"})
            await nested.commit()
            answers.append(await connection.scalar(sa.select(sa.func.count()).where(things.c.id >= 200)))
        async with engine.connect() as connection:
            serializable = await connection.execution_options(isolation_level="SERIALIZABLE")
            answers.append(await serializable.scalar(sa.text("show transaction_isolation")))
        async with engine.connect() as connection:
            auto = await connection.execution_options(isolation_level="AUTOCOMMIT")
            await auto.execute(sa.text("vacuum sa_things"))
        async def one(n):
            async with engine.connect() as connection:
                return await connection.scalar(sa.select(sa.literal(n)))
        answers.append(sum(await asyncio.gather(*(one(n) for n in range(50)))))
        async with engine.begin() as connection:
            names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
            answers.append("sa_things" in names)
            await connection.run_sync(meta.drop_all)
        await engine.dispose()
        print(json.dumps(answers))
    """
    assert run(spec, program, loop) == [99, "23505", 1, "serializable", 1225, True]


def test_sqlalchemy_orm(spec, loop):
    program = """
    import sqlalchemy as sa
    from typing import Optional
    from sqlalchemy.ext.asyncio import AsyncAttrs, async_sessionmaker, create_async_engine
    from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload

    class Base(AsyncAttrs, DeclarativeBase):
        pass

    class Airport(Base):
        __tablename__ = "orm_airports"
        id: Mapped[int] = mapped_column(primary_key=True)
        code: Mapped[str] = mapped_column(sa.String(3), unique=True)
        flights: Mapped[list["Flight"]] = relationship(back_populates="origin", cascade="all, delete-orphan")

    class Flight(Base):
        __tablename__ = "orm_flights"
        id: Mapped[int] = mapped_column(primary_key=True)
        delay: Mapped[Optional[float]]
        airport_id: Mapped[int] = mapped_column(sa.ForeignKey("orm_airports.id"))
        origin: Mapped[Airport] = relationship(back_populates="flights")

    async def main():
        url = sa.URL.create("postgresql+asyncpg", spec["user"], spec["password"], spec["host"], spec["port"], "postgres")
        engine = create_async_engine(url)
        sessions = async_sessionmaker(engine, expire_on_commit=False)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.run_sync(Base.metadata.create_all)
        async with sessions() as session, session.begin():
            session.add_all([
                Airport(code="ZRH", flights=[Flight(delay=1.5), Flight(delay=None)]), Airport(code="KEF", flights=[]),
            ])
        answers = []
        async with sessions() as session:
            loaded = (await session.scalars(
                sa.select(Airport).options(selectinload(Airport.flights)).order_by(Airport.code))).all()
            answers.append([(a.code, len(a.flights)) for a in loaded])
            zurich = await session.scalar(sa.select(Airport).where(Airport.code == "ZRH"))
            answers.append(len(await zurich.awaitable_attrs.flights))
            zurich.flights[0].delay = 3.0
            await session.commit()
            answers.append(await session.scalar(sa.select(sa.func.sum(Flight.delay))))
            session.add(Airport(code="ZRH"))
            try:
                await session.flush()
            except sa.exc.IntegrityError:
                await session.rollback()
                answers.append("refused")
            await session.delete(zurich)
            await session.commit()
            answers.append(await session.scalar(sa.select(sa.func.count()).select_from(Flight)))
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
        await engine.dispose()
        print(json.dumps(answers))
    """
    assert run(spec, program, loop) == [[["KEF", 0], ["ZRH", 2]], 2, 3.0, "refused", 0]


def test_fastapi_with_a_pool(spec, loop):
    program = """
    from contextlib import asynccontextmanager
    from fastapi import FastAPI, Request
    import asyncpg

    @asynccontextmanager
    async def lifespan(app):
        async with asyncpg.create_pool(**spec, min_size=2, max_size=5) as app.state.pool:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/square/{number}")
    async def square(number: int, request: Request):
        row = await request.app.state.pool.fetchrow("select $1::int as number, ($1::int * $1::int) as square", number)
        return dict(row)

    @app.get("/in-transaction")
    async def in_transaction(request: Request):
        async with request.app.state.pool.acquire() as connection, connection.transaction():
            return {"isolated": await connection.fetchval("select pg_current_xact_id_if_assigned() is null")}

    async def get(path):
        sent = []
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}
        async def send(message):
            sent.append(message)
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": path,
                 "raw_path": path.encode(), "query_string": b"", "headers": [], "scheme": "http", "root_path": "",
                 "server": ("test", 80), "client": ("test", 1)}
        await app(scope, receive, send)
        assert sent[0]["status"] == 200, sent
        return json.loads(b"".join(message.get("body", b"") for message in sent[1:]))

    async def main():
        async with app.router.lifespan_context(app):
            squares = await asyncio.gather(*(get(f"/square/{n}") for n in range(100)))
            inside = await get("/in-transaction")
        print(json.dumps([sum(row["square"] for row in squares), inside]))
    """
    assert run(spec, program, loop) == [sum(n * n for n in range(100)), {"isolated": True}]


def test_submodules_are_the_same_by_either_name(spec, loop):
    program = """
    import asyncpg, asyncpg.pool, asyncpg.exceptions, asyncpg.connection, asyncpg.transaction, asyncpg.protocol
    import asyncpg.pgproto.pgproto, asyncpg.types, asyncpg.cluster, asyncpg.prepared_stmt, asyncpg.cursor
    from asyncpg.exceptions import UniqueViolationError
    from asyncpg import Record, Pool, Connection

    async def main():
        import howdah.cluster
        same = [
            asyncpg.pool is howdah.pool, UniqueViolationError is howdah.UniqueViolationError,
            asyncpg.cluster is howdah.cluster, Record is howdah.Record, asyncpg.pool.__name__, asyncpg.cluster.__name__,
            asyncpg.cluster.__spec__.name,
        ]
        try:
            __import__("asyncpg.nothing_of_the_kind")
        except ModuleNotFoundError:
            same.append("missing")
        print(json.dumps(same))
    """
    expected = [True, True, True, True, "howdah.pool", "howdah.cluster", "howdah.cluster", "missing"]
    assert run(spec, program, loop) == expected


def test_tools_find_the_version_that_they_want_of_asyncpg(spec, loop):
    program = """
    import importlib.metadata

    async def main():
        distribution = importlib.metadata.distribution("asyncpg")
        others = {found.metadata["Name"] for found in importlib.metadata.distributions()}
        print(json.dumps([distribution.version, type(distribution).__module__, "pytest" in others]))
    """
    assert run(spec, program, loop) == ["0.32.0", "howdah._distribution", True]
