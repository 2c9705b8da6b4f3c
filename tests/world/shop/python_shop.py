"""The shop by drivers of Python: python python_shop.py URL BASE DRIVER. Prints what it reads."""

import asyncio
import contextlib
import sys
from decimal import Decimal

INSERT = "INSERT INTO customers (customer_id, name, email) VALUES ({}, {}, {})"
MINE = range(8)


def sync(url, base, driver):
    """DB-API: psycopg, its cursors that bind in the client, psycopg2, howdah.dbapi."""
    if driver == "psycopg2":
        import psycopg2 as library
    elif driver == "howdah":
        from howdah import dbapi as library
    else:
        import psycopg as library
    connection = library.connect(url)
    if driver == "psycopg-client":
        connection.cursor_factory = library.ClientCursor
    if driver == "psycopg-prepared":
        connection.prepare_threshold = 0
    cursor = connection.cursor()

    def say(name, sql, *values):
        cursor.execute(sql, values)
        print(name, cursor.fetchall() if cursor.description else cursor.rowcount)

    for number in MINE:
        cursor.execute(INSERT.format("%s", "%s", "%s"), (base + number, f"name {number}", "e"))
        cursor.executemany(
            "INSERT INTO orders (customer_id, order_id, total) VALUES (%s, %s, %s)",
            [(base + number, order, Decimal(order)) for order in (1, 2, 3)],
        )
        connection.commit()
    for number in MINE:
        say("each", "SELECT name, balance, joined IS NULL FROM customers WHERE customer_id = %s", base + number)
        connection.commit()
    say(
        "join",
        "SELECT name, order_id FROM customers JOIN orders USING (customer_id) WHERE customer_id = %s ORDER BY 2",
        base,
    )
    connection.commit()
    say(
        "any",
        "SELECT customer_id FROM customers WHERE customer_id = ANY(%s) ORDER BY 1",
        [base + number for number in MINE],
    )
    connection.commit()
    say("any of one", "UPDATE orders SET status = 'seen' WHERE customer_id = ANY(%s) RETURNING order_id", [base + 1])
    connection.commit()
    say(
        "upsert",
        "INSERT INTO customers (customer_id, name, email) VALUES (%s, %s, 'e') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name RETURNING name",
        base,
        "again",
    )
    connection.commit()
    try:
        say("updated", "UPDATE customers SET balance = 99 WHERE customer_id = %s", base)
        cursor.execute(INSERT.format("%s", "%s", "%s"), (base, "n", "e"))
    except library.IntegrityError as error:
        print("duplicate", type(error).__name__)
        connection.rollback()
    say("kept", "SELECT balance FROM customers WHERE customer_id = %s", base)
    connection.commit()
    cursor.execute("SAVEPOINT a")
    say("inner", "INSERT INTO orders (customer_id, order_id) VALUES (%s, 50)", base)
    cursor.execute("ROLLBACK TO a")
    say("inner", "INSERT INTO orders (customer_id, order_id) VALUES (%s, 51) RETURNING order_id", base)
    connection.commit()
    say("locked", "SELECT order_id FROM orders WHERE customer_id = %s ORDER BY 1 FOR UPDATE", base)
    connection.commit()
    say(
        "report",
        "SELECT status, count(*), sum(total) FROM orders WHERE customer_id BETWEEN %s AND %s GROUP BY 1 ORDER BY 1",
        base,
        base + 99,
    )
    connection.commit()
    say("country", "SELECT name FROM countries WHERE code = %s", "th")
    say("country", "UPDATE customers SET country = 'th' WHERE customer_id = %s", base + 4)
    connection.commit()
    # A cursor on the server, of one shard and of all.
    for where in ("= %s", ">= %s AND customer_id < 10000000"):
        named = connection.cursor("few")
        named.execute(f"SELECT customer_id, order_id FROM orders WHERE customer_id {where} ORDER BY 1, 2", [base])
        print("cursor", named.fetchmany(2), len(named.fetchall()) > 1)
        named.close()
        connection.commit()
    try:
        say("error", "SELECT 1 / (balance - balance) FROM customers WHERE customer_id = %s", base)
    except library.Error as error:
        print("error", type(error).__name__)
    connection.rollback()
    say("delete", "DELETE FROM orders WHERE customer_id = %s", base + 7)
    connection.commit()
    connection.close()


async def asynchronous(url, base, driver):
    """asyncpg, and howdah, whose calls are the same."""
    library = __import__(driver.split("-")[0])
    connection = await library.connect(url)
    values = INSERT.format("$1", "$2", "$3")
    for number in MINE:
        async with connection.transaction():
            await connection.execute(values, base + number, f"name {number}", "e")
            await connection.executemany(
                "INSERT INTO orders (customer_id, order_id, total) VALUES ($1, $2, $3)",
                [(base + number, order, Decimal(order)) for order in (1, 2, 3)],
            )

    async def say(name, sql, *given):
        print(name, [tuple(row) for row in await connection.fetch(sql, *given)])

    for number in MINE:
        await say("each", "SELECT name, balance FROM customers WHERE customer_id = $1", base + number)
    many = [base + number for number in MINE]
    await say("any", "SELECT customer_id FROM customers WHERE customer_id = ANY($1) ORDER BY 1", many)
    await say(
        "any of one",
        "UPDATE orders SET status = 'seen' WHERE customer_id = ANY($1::bigint[]) RETURNING order_id",
        [base + 1],
    )
    await say(
        "upsert",
        "INSERT INTO customers (customer_id, name, email) VALUES ($1, $2, 'e') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name RETURNING name",
        base,
        "again",
    )
    with contextlib.suppress(library.UniqueViolationError):
        async with connection.transaction():
            await connection.execute("UPDATE customers SET balance = 99 WHERE customer_id = $1", base)
            await connection.execute(values, base, "n", "e")
    await say("kept", "SELECT balance FROM customers WHERE customer_id = $1", base)
    async with connection.transaction():
        async with connection.transaction():
            await say("inner", "INSERT INTO orders (customer_id, order_id) VALUES ($1, 50) RETURNING order_id", base)
        with contextlib.suppress(library.UniqueViolationError):
            async with connection.transaction():
                await connection.execute("INSERT INTO orders (customer_id, order_id) VALUES ($1, 50)", base)
        await say("locked", "SELECT order_id FROM orders WHERE customer_id = $1 ORDER BY 1 FOR UPDATE", base)
    async with connection.transaction():
        found = [
            row["order_id"]
            async for row in connection.cursor(
                "SELECT order_id FROM orders WHERE customer_id = $1 ORDER BY 1", base, prefetch=2
            )
        ]
        print("cursor", found)
    async with connection.transaction():
        await say("country", "SELECT name FROM countries WHERE code = $1", "th")
        await connection.execute("UPDATE customers SET country = 'th' WHERE customer_id = $1", base + 4)
    await say(
        "report",
        "SELECT status, count(*), sum(total) FROM orders WHERE customer_id BETWEEN $1 AND $2 GROUP BY 1 ORDER BY 1",
        base,
        base + 99,
    )
    await say(
        "unnest",
        "INSERT INTO lines SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::numeric[]) RETURNING line",
        [base + 5] * 2,
        [1, 1],
        [8, 9],
        ["x", "y"],
        [1, 2],
    )
    try:
        await say("error", "SELECT 1 / (balance - balance) FROM customers WHERE customer_id = $1", base)
    except library.PostgresError as error:
        print("error", error.sqlstate)
    print("delete", await connection.execute("DELETE FROM orders WHERE customer_id = $1", base + 7))
    await connection.close()


def alchemy(url, base, driver):
    """SQLAlchemy's ORM and core."""
    import sqlalchemy as sa
    from sqlalchemy.dialects.postgresql import insert
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

    if "howdah" in driver:
        import howdah.sqlalchemy  # noqa: F401 (registers the dialect)

    class Base(DeclarativeBase):
        pass

    class Customer(Base):
        __tablename__ = "customers"
        customer_id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
        name: Mapped[str]
        email: Mapped[str]
        country: Mapped[str | None]
        balance: Mapped[Decimal] = mapped_column(sa.Numeric(12, 2), server_default="0")
        orders: Mapped[list["Order"]] = relationship(order_by="Order.order_id", back_populates="customer")

    class Order(Base):
        __tablename__ = "orders"
        customer_id: Mapped[int] = mapped_column(sa.ForeignKey("customers.customer_id"), primary_key=True)
        order_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
        total: Mapped[Decimal] = mapped_column(sa.Numeric(10, 2), server_default="0")
        status: Mapped[str] = mapped_column(server_default="new")
        customer: Mapped[Customer] = relationship(back_populates="orders")

    engine = sa.create_engine(url.replace("postgres:", f"postgresql+{driver.split('-')[1]}:", 1), pool_pre_ping=True)
    for number in MINE:
        with Session(engine) as session, session.begin():
            customer = Customer(customer_id=base + number, name=f"name {number}", email="e")
            customer.orders = [Order(order_id=order, total=order) for order in (1, 2, 3)]
            session.add(customer)
    with Session(engine) as session:
        for number in MINE:
            one = session.get(Customer, base + number)
            print("get", one.name, one.balance, [order.status for order in one.orders])
            session.commit()
        many = (
            sa.select(Customer)
            .where(Customer.customer_id.in_([base, base + 1, base + 5]))
            .order_by(Customer.customer_id)
        )
        print("in", [one.name for one in session.scalars(many)])
        session.commit()
        print(
            "loaded",
            [(one.name, len(one.orders)) for one in session.scalars(many.options(selectinload(Customer.orders)))],
        )
        session.commit()
        one = session.scalars(sa.select(Customer).where(Customer.customer_id == base).with_for_update()).one()
        one.balance += 5
        one.orders[0].status = "paid"
        session.commit()
        print("changed", one.balance, [order.status for order in one.orders])
        session.commit()
        with session.begin_nested():
            session.add(Order(customer_id=base, order_id=50))
        with contextlib.suppress(sa.exc.IntegrityError), session.begin_nested():
            session.execute(sa.insert(Order).values(customer_id=base, order_id=50))
        session.execute(sa.update(Order).where(Order.customer_id == base, Order.order_id == 50).values(status="nested"))
        session.commit()
        print("nested", session.scalar(sa.select(Order.status).where(Order.customer_id == base, Order.order_id == 50)))
        session.commit()
        upsert = insert(Customer).values(customer_id=base, name="again", email="e")
        upsert = upsert.on_conflict_do_update(index_elements=["customer_id"], set_={"name": upsert.excluded.name})
        print("upsert", session.scalar(upsert.returning(Customer.name)))
        session.commit()
        session.execute(sa.insert(Order), [{"customer_id": base + 2, "order_id": order} for order in range(60, 70)])
        session.commit()
        try:
            session.execute(sa.update(Customer).where(Customer.customer_id == base).values(balance=99))
            session.execute(sa.insert(Customer).values(customer_id=base, name="n", email="e"))
        except sa.exc.IntegrityError:
            session.rollback()
        print("kept", session.get(Customer, base).balance)
        session.commit()
        report = sa.select(Order.status, sa.func.count(), sa.func.sum(Order.total)).where(
            Order.customer_id.between(base, base + 99)
        )
        print("report", [tuple(row) for row in session.execute(report.group_by(Order.status).order_by(Order.status))])
        session.commit()
        joined = (
            sa.select(Customer.name, Order.order_id)
            .join(Order)
            .where(Customer.customer_id == base + 3)
            .order_by(Order.order_id)
        )
        print("join", [tuple(row) for row in session.execute(joined)])
        session.execute(sa.delete(Order).where(Order.customer_id == base + 3, Order.order_id == 2))
        session.rollback()
        print(
            "pages",
            [
                tuple(row)
                for part in session.execute(joined.execution_options(yield_per=2)).partitions()
                for row in part
            ],
        )
        session.commit()
    engine.dispose()


def main(url, base, driver):
    """Everything of one driver."""
    if driver in ("asyncpg", "howdah-asyncio"):
        asyncio.run(asynchronous(url, base, driver))
    elif driver.startswith("sqlalchemy"):
        alchemy(url, base, driver)
    else:
        sync(url, base, driver)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
