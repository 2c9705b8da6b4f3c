"""A server of the tests' own, and one connection by howdah and one by asyncpg to it, on one loop."""

import asyncio

import asyncpg
import howdah
import pytest

from devkit import postgres
from devkit.server import Server

from .sides import Sides


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL of the newest version."""
    with Server(postgres.tree(postgres.NEWEST)) as running:
        yield running


@pytest.fixture(scope="session")
def loop():
    """The event loop of both connections."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="session")
def sides(server, loop):
    """Both clients, connected."""
    where = {"host": str(server.socket_folder), "port": server.port, "user": "postgres"}
    both = Sides(
        loop,
        loop.run_until_complete(howdah.connect(**where, database="postgres", truncate=True)),
        loop.run_until_complete(asyncpg.connect(**where, database="postgres")),
    )
    yield both
    both.close()
