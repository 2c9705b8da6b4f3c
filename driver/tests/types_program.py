"""Right and wrong uses of the driver, for checkers of types: see test_form.py.

A line with the comment `wrong` has a mistake that mypy and pyright have to tell; the others have none.
"""

import asyncio
import dataclasses

import howdah
import howdah.dbapi
from howdah import AttributeRecord, Connection, Pool, Record

URL = "postgres://localhost"


@dataclasses.dataclass
class Flight:
    id: int
    origin: str


class Counting(Connection):
    asked: int = 0


async def connecting() -> None:
    connection = await howdah.connect(URL, host=["one", "two"], port=5432, ssl="verify-full", timeout=3, loop=None)
    await howdah.connect(URL, hots="one")  # wrong
    await howdah.connect(URL, port=[5432, None])  # wrong
    await howdah.connect(URL, ssl="verify_full")  # wrong
    await howdah.connect(URL, target_session_attrs="replica")  # wrong
    await howdah.connect(URL, password=lambda: "secret", server_settings={"jit": "off"}, database="app")
    await howdah.connect(URL, server_settings={"work_mem": 4})  # wrong
    await howdah.connect(URL, record_class=Flight)  # wrong
    await howdah.connect(URL, connection_class=Flight)  # wrong
    counting = await howdah.connect(URL, connection_class=Counting)
    counting.asked += 1
    counting.answered += 1  # wrong
    howdah.connect(URL)  # wrong
    connection.fetchfirst("select 1")  # wrong
    await connection.close()
    connection.close()  # wrong


async def queries(connection: Connection) -> None:
    connection.execute("insert into flights default values")  # wrong
    connection.fetch("select 1")  # wrong
    connection.fetchrow("select 1")  # wrong
    connection.fetchval("select 1")  # wrong
    status: str = await connection.execute("select 1")
    count: int = await connection.execute("select 1")  # wrong
    rows = await connection.fetch("select $1::int as a", 1, timeout=3)
    print(status, count, rows[0]["a"], rows[0][0], rows[0].get("a"), dict(rows[0]))
    rows[0].a  # wrong
    rows.a  # wrong
    await connection.fetch("select :a::int as a", a=1)
    await connection.fetch(1)  # wrong
    await connection.fetch("select 1", timeout="3")  # wrong
    await connection.fetch("select 1", record_class="tuple")  # wrong
    row = await connection.fetchrow("select 1 as a")
    row["a"]  # wrong
    if row is not None:
        print(row["a"])
    await connection.executemany("insert into flights values ($1)", [(1,), (2,)])
    await connection.executemany("insert into flights values (:id)", ({"id": id} for id in range(3)))
    await connection.executemany("insert into flights values ($1)", rows)
    await connection.executemany("insert into flights values ($1)", [1, 2])  # wrong
    listed: list[Record] = await connection.fetchmany("select $1::int", [(1,)])
    print(listed)


async def classes_of_rows(connection: Connection) -> None:
    flights = await connection.fetch("select id, origin from flights", record_class=Flight)
    origin: str = flights[0].origin
    flights[0].destination  # wrong
    flights[0]["origin"]  # wrong
    flight = await connection.fetchrow("select id, origin from flights", record_class=Flight)
    flight.origin  # wrong
    tuples = await connection.fetch("select id, origin from flights", record_class=tuple)
    print(tuples[0][1], origin, flight)
    async for flight in connection.cursor("select id, origin from flights", record_class=Flight):
        print(flight.id)
        flight.number  # wrong
    statement = await connection.prepare("select id, origin from flights", record_class=Flight)
    prepared: list[Flight] = await statement.fetch()
    records: list[Record] = await statement.fetch()  # wrong
    print(prepared, records, statement.get_attributes()[0].name)
    async with connection.pipeline() as pipeline:
        first = pipeline.fetch("select id, origin from flights", record_class=Flight)
    print(first.result()[0].id)
    first.result()[0].number  # wrong
    attributes = await howdah.connect(URL, record_class=AttributeRecord)
    found = await attributes.fetch("select 1 as a")
    print(found[0].a)
    kept: Connection[AttributeRecord] = attributes
    plain: Connection[Record] = await howdah.connect(URL)
    other: Connection[AttributeRecord] = plain  # wrong
    print(kept, other)


async def transactions(connection: Connection) -> None:
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        pass
    async with connection.transaction(isolation="repeatable read"):  # wrong
        pass
    with connection.transaction():  # wrong
        pass
    connection.transaction().start()  # wrong

    async def book(connection: Connection) -> int:
        return 1

    booked: int = await connection.run_transaction(book, isolation="serializable")
    text: str = await connection.run_transaction(book)  # wrong
    await connection.run_transaction(book, isolation="snapshot")  # wrong
    print(booked, text)


async def pools() -> None:
    pool = await howdah.create_pool(URL, max_lifetime=3, command_timeout=4, init=Connection.decode_json)
    status: str = await pool.execute("select 1")
    pool.execute("select 1")  # wrong
    print(status, pool.get_statistics().waited)
    pool.get_statistics().weighted  # wrong
    howdah.create_pool(URL, max_sise=4)  # wrong
    howdah.create_pool(URL, max_size="4")  # wrong
    howdah.create_pool(URL, init=1)  # wrong
    async with howdah.create_pool(URL, record_class=AttributeRecord) as attributes:
        rows = await attributes.fetch("select 1 as a")
        print(rows[0].a)
        async with attributes.acquire(timeout=3) as connection:
            row = await connection.fetchrow("select 1 as a")
            row.a  # wrong
            if row is not None:
                print(row.a)
            connection.execute("select 1")  # wrong
        lent = await attributes.acquire()
        await lent.execute("select 1")
        lent.release()  # wrong
        await attributes.release(lent)
    flights = await pool.fetch("select id, origin from flights", record_class=Flight)
    flights[0].destination  # wrong
    plain: Pool = pool
    plain.acquire().execute("select 1")  # wrong
    pool.set_connect_args(URL, usr="app")  # wrong
    await pool.close()


def blocking() -> None:
    connection = howdah.dbapi.connect(URL, autocommit=True, application="app")  # wrong
    connection = howdah.dbapi.connect(URL, autocommit=True, command_timeout=4)
    connection.isolation_level = "serializable"
    connection.isolation_level = "snapshot"  # wrong
    cursor = connection.cursor()
    row = cursor.execute("select %s", (1,)).fetchone()
    row[0]  # wrong
    for values in cursor.execute("select %(a)s", {"a": 1}):
        print(values[0])
        values["a"]  # wrong
    cursor.execute("select %s", 1)  # wrong
    cursor.execute(cursor.mogrify("select %s", (1,)))
    cursor.execute(None)  # wrong
    cursor.fetchfirst()  # wrong
    dicts = connection.cursor(row_factory=howdah.dbapi.dict_row)
    print(dicts.fetchall()[0]["a"])
    flights = connection.cursor(row_factory=howdah.dbapi.class_row(Flight), stream=True)
    flights.fetchall()[0].destination  # wrong
    print(flights.itersize, connection.cursor(columns=True).fetch_columns().num_rows)
    connection.cursor(columns=True).fetchall()  # wrong
    with connection.transaction() as same:
        same.execute("select 1").fetchall()
    with howdah.dbapi.Pool(URL, row_factory=howdah.dbapi.dict_row, max_size=3) as pool, pool.connection() as lent:
        print(lent.execute("select 1 as a").fetchall()[0]["a"])
        lent.execute("select 1 as a").fetchall()[0].a  # wrong
    awaited: str = connection.wait(connection.asynchronous.execute("select 1"))
    number: int = connection.wait(connection.asynchronous.execute("select 1"))  # wrong
    print(awaited, number)
    try:
        connection.commit()
    except howdah.dbapi.OperationalError:
        pass
    except howdah.dbapi.OperationlError:  # wrong
        pass


asyncio.run(pools())
