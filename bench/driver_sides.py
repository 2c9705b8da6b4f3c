"""How each driver does each case, as its documentation advises who wants it fast.

`operation(case)` of a side gives a function of a connection that does the case once and returns its result, a number
of rows or the rows themselves; or None where the driver has no counterpart. psycopg 3 asks for binary results and
prepares at once; jsonb is left as text, which is what asyncpg and howdah give. psycopg2 makes Python's UUIDs as the
others do, and sends many argument lists by `execute_values` (`execute_batch` and `executemany` were tried, and are
slower). What is copied out is kept as it comes, in a list. ADBC's rows are fetched as
Python's objects, but where columns are asked for.
"""

import io

from bench.driver_cases import (
    BIG,
    COPIED_IN,
    COPIED_OUT,
    COPY_IN,
    COPY_OUT,
    QUERIES,
    TYPES,
    WRITTEN,
    rows,
)

INSERT = "insert into bench_write values ($1, $2, $3, $4, $5)"


class Asyncpg:
    """asyncpg, and howdah by asyncpg's interface."""

    blocking = False

    def __init__(self, module, url):
        self.module, self.url = module, url
        self.ours = module.__name__ == "howdah"
        self.pool = None

    async def connect(self):
        """One connection."""
        return await self.module.connect(self.url)

    async def operation(self, case):
        """The case as a coroutine function."""
        if case in QUERIES:
            query = QUERIES[case]
            return lambda connection: connection.fetch(query)
        if case == "pool.fetchval" or (case == "100 fetchval at once" and not self.ours):
            pool = self.pool = await self.module.create_pool(self.url, min_size=10, max_size=10)
            return lambda connection: pool.fetchval("select 1")
        if case.startswith("select 1") or case == "100 fetchval at once":
            return lambda connection: connection.fetchval("select 1")
        if case == "transaction + fetchval":

            async def transaction(connection):
                async with connection.transaction():
                    return await connection.fetchval("select 1")

            return transaction
        if case == "executemany":
            written = rows(WRITTEN)

            async def executemany(connection):
                await connection.executemany(INSERT, written)
                return WRITTEN

            return executemany
        if case == "copy in":
            written = rows(COPIED_IN)

            async def copy_in(connection):
                await connection.copy_records_to_table("bench_write", records=written)
                return COPIED_IN

            return copy_in
        if case == "copy out":

            async def copy_out(connection):
                query = f"select * from bench_big limit {COPIED_OUT}"
                parts = []

                async def take(data):
                    parts.append(data)

                await connection.copy_from_query(query, output=take, format="binary")
                return COPIED_OUT

            return copy_out
        if case == "columns" and self.ours:
            import pyarrow

            async def columns(connection):
                return pyarrow.table(await connection.fetch_columns(BIG)).num_rows

            return columns
        return None

    async def finish(self):
        """Lets go of what the operation needed."""
        if self.pool is not None:
            await self.pool.close()
            self.pool = None


class Psycopg:
    """psycopg 3 with its C part, asynchronous."""

    blocking = False

    def __init__(self, module, url):
        from psycopg.types.json import set_json_loads

        self.module, self.url = module, url
        self.pool = None
        set_json_loads(lambda text: text.decode() if isinstance(text, bytes) else text)

    async def connect(self):
        """One connection, which prepares what it is asked at once."""
        connection = await self.module.AsyncConnection.connect(self.url, autocommit=True)
        connection.prepare_threshold = 0
        return connection

    async def operation(self, case):
        """The case as a coroutine function."""
        if case in QUERIES:
            query = QUERIES[case]

            async def fetch(connection):
                cursor = await connection.cursor(binary=True).execute(query)
                return await cursor.fetchall()

            return fetch
        if case in ("pool.fetchval", "100 fetchval at once"):
            pool = await self.open_pool()

            async def pooled(connection):
                async with pool.connection() as connection:
                    cursor = await connection.cursor(binary=True).execute("select 1")
                    return (await cursor.fetchone())[0]

            return pooled
        if case.startswith("select 1"):

            async def fetchval(connection):
                cursor = await connection.cursor(binary=True).execute("select 1")
                return (await cursor.fetchone())[0]

            return fetchval
        if case == "transaction + fetchval":

            async def transaction(connection):
                async with connection.transaction():
                    cursor = await connection.cursor(binary=True).execute("select 1")
                    return (await cursor.fetchone())[0]

            return transaction
        return self.bulk(case)

    def bulk(self, case):
        """The cases of many rows."""
        if case == "executemany":
            written = rows(WRITTEN)
            query = "insert into bench_write values (%b, %b, %b, %b, %b)"

            async def executemany(connection):
                # All or none, as it is with asyncpg.
                async with connection.transaction():
                    await connection.cursor().executemany(query, written)
                return WRITTEN

            return executemany
        if case == "copy in":
            written = rows(COPIED_IN)

            async def copy_in(connection):
                async with connection.cursor() as cursor, cursor.copy(f"{COPY_IN} (format binary)") as copy:
                    copy.set_types(TYPES)
                    for row in written:
                        await copy.write_row(row)
                return COPIED_IN

            return copy_in
        if case == "copy out":

            async def copy_out(connection):
                async with connection.cursor() as cursor, cursor.copy(COPY_OUT) as copy:
                    parts = [block async for block in copy]
                return COPIED_OUT if parts else 0

            return copy_out
        return None

    async def open_pool(self):
        """A pool of ten like a single connection."""
        from psycopg_pool import AsyncConnectionPool

        async def configure(connection):
            connection.prepare_threshold = 0

        pool = AsyncConnectionPool(
            self.url, min_size=10, max_size=10, open=False, kwargs={"autocommit": True}, configure=configure
        )
        await pool.open(wait=True)
        self.pool = pool
        return pool

    async def finish(self):
        """Lets go of what the operation needed."""
        if self.pool is not None:
            await self.pool.close()
            self.pool = None


class Parts(list):
    """A file that keeps what is written to it."""

    write = list.append


class Psycopg2:
    """psycopg2, a thread for each connection."""

    blocking = True

    def __init__(self, module, url):
        import psycopg2.extras

        self.module, self.url = module, url
        self.pool = None
        psycopg2.extras.register_uuid()
        psycopg2.extras.register_default_jsonb(globally=True, loads=lambda text: text)

    def connect(self):
        """One connection."""
        connection = self.module.connect(self.url)
        connection.autocommit = True
        return connection

    def operation(self, case):
        """The case as a function."""
        import psycopg2.extras
        import psycopg2.pool

        if case in QUERIES:
            query = QUERIES[case]

            def fetch(connection):
                cursor = connection.cursor()
                cursor.execute(query)
                return cursor.fetchall()

            return fetch
        if case == "pool.fetchval":
            pool = self.pool = psycopg2.pool.ThreadedConnectionPool(10, 10, self.url)

            def pooled(connection):
                connection = pool.getconn()
                connection.autocommit = True
                cursor = connection.cursor()
                cursor.execute("select 1")
                value = cursor.fetchone()[0]
                pool.putconn(connection)
                return value

            return pooled
        if case.startswith("select 1"):

            def fetchval(connection):
                cursor = connection.cursor()
                cursor.execute("select 1")
                return cursor.fetchone()[0]

            return fetchval
        if case == "transaction + fetchval":

            def transaction(connection):
                connection.autocommit = False
                with connection, connection.cursor() as cursor:
                    cursor.execute("select 1")
                    value = cursor.fetchone()[0]
                connection.autocommit = True
                return value

            return transaction
        if case == "executemany":
            written = rows(WRITTEN)

            def executemany(connection):
                query = "insert into bench_write values %s"
                psycopg2.extras.execute_values(connection.cursor(), query, written, page_size=WRITTEN)
                return WRITTEN

            return executemany
        if case == "copy in":
            written = rows(COPIED_IN)

            def copy_in(connection):
                text = "".join(f"{a}\t{b}\t{c!r}\t{escape(d)}\t{e}\n" for a, b, c, d, e in written)
                connection.cursor().copy_expert(COPY_IN, io.StringIO(text))
                return COPIED_IN

            return copy_in
        if case == "copy out":

            def copy_out(connection):
                parts = Parts()
                connection.cursor().copy_expert(COPY_OUT, parts)
                return COPIED_OUT if parts else 0

            return copy_out
        return None

    def finish(self):
        """Lets go of what the operation needed."""
        if self.pool is not None:
            self.pool.closeall()
            self.pool = None


def escape(text):
    """Text as COPY reads it."""
    if "\\" in text or "\t" in text or "\n" in text or "\r" in text:
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return text


class Adbc:
    """ADBC's driver of PostgreSQL, a thread for each connection."""

    blocking = True

    def __init__(self, module, url):
        import adbc_driver_postgresql.dbapi

        self.module, self.url = adbc_driver_postgresql.dbapi, url

    def connect(self):
        """One connection."""
        return self.module.connect(self.url, autocommit=True)

    def operation(self, case):
        """The case as a function."""
        if case in QUERIES:
            query = QUERIES[case]

            def fetch(connection):
                with connection.cursor() as cursor:
                    cursor.execute(query)
                    return cursor.fetchall()

            return fetch
        if case == "columns":

            def columns(connection):
                with connection.cursor() as cursor:
                    cursor.execute(BIG)
                    return cursor.fetch_arrow_table().num_rows

            return columns
        if case == "select 1, 1 connection":

            def fetchval(connection):
                with connection.cursor() as cursor:
                    cursor.execute("select 1")
                    return cursor.fetchone()[0]

            return fetchval
        return None

    def finish(self):
        """Nothing to let go of."""


class Sync:
    """howdah.dbapi, and psycopg 3 with its C part, each a thread for each connection."""

    blocking = True

    def __init__(self, module, url):
        self.module, self.url = module, url
        self.ours = module.__name__ == "howdah.dbapi"
        self.pool = None
        if not self.ours:
            from psycopg.types.json import set_json_loads

            set_json_loads(lambda text: text.decode() if isinstance(text, bytes) else text)

    def connect(self):
        """One connection, which prepares what it is asked at once."""
        connection = self.module.connect(self.url, autocommit=True)
        if not self.ours:
            connection.prepare_threshold = 0
        return connection

    def cursor(self, connection):
        """A cursor whose values travel in binary."""
        return connection.cursor() if self.ours else connection.cursor(binary=True)

    def operation(self, case):
        """The case as a function."""
        if case in QUERIES:
            query = QUERIES[case]
            return lambda connection: self.cursor(connection).execute(query).fetchall()
        if case.startswith("select 1"):
            return lambda connection: self.cursor(connection).execute("select 1").fetchone()[0]
        if case == "pool.fetchval":
            pool = self.pool = self.open_pool()

            def pooled(connection):
                with pool.connection() as connection:
                    return self.cursor(connection).execute("select 1").fetchone()[0]

            return pooled
        if case == "transaction + fetchval":

            def transaction(connection):
                with connection.transaction():
                    return self.cursor(connection).execute("select 1").fetchone()[0]

            return transaction
        if case == "executemany":
            written = rows(WRITTEN)
            query = "insert into bench_write values (%s, %s, %s, %s, %s)"

            def executemany(connection):
                self.cursor(connection).executemany(query, written)
                return WRITTEN

            return executemany
        if case == "columns" and self.ours:
            return lambda connection: connection.cursor(columns=True).execute(BIG).fetch_arrow_table().num_rows
        return None

    def open_pool(self):
        """A pool of ten connections."""
        if self.ours:
            return self.module.Pool(self.url, min_size=10, max_size=10, autocommit=True)
        import psycopg_pool

        pool = psycopg_pool.ConnectionPool(
            self.url, min_size=10, max_size=10, open=False, kwargs={"autocommit": True, "prepare_threshold": 0}
        )
        pool.open(wait=True)
        return pool

    def finish(self):
        """Lets go of what the operation needed."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None


SIDES = {
    "howdah": ("howdah", Asyncpg),
    "asyncpg": ("asyncpg", Asyncpg),
    "psycopg": ("psycopg", Psycopg),
    "howdah.dbapi": ("howdah.dbapi", Sync),
    "psycopg, blocking": ("psycopg", Sync),
    "psycopg2": ("psycopg2", Psycopg2),
    "adbc": ("adbc_driver_postgresql", Adbc),
}
# Those that block and stand beside the drivers for asyncio, and ours that blocks.
BESIDE_ASYNCIO = ("psycopg2", "adbc")
SYNC = "howdah.dbapi"
BLOCKING = [name for name, (_, side) in SIDES.items() if side.blocking]
