"""Drivers as people use them, through the pooler in transaction pooling: their own API, many connections, few servers."""

import asyncio
import io
import sys

import asyncpg
import pytest

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
