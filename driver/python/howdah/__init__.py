"""PostgreSQL for asyncio: asyncpg's interface on a native core."""
