"""Some rounds of compare.py: random messages are answered by the pooler as by PostgreSQL. By hand it runs thousands."""

import pytest

from tests.pooler import compare
from tests.pooler.process import Pooler
from tests.pooler.raw import DEADLINE

ROUNDS = 150


@pytest.fixture(scope="module")
def databases(server):
    """The server, with a database for those who are there directly, and one for those of the pooler."""
    for name in "dp":
        server.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.psql(f"CREATE DATABASE {name}")
        server.psql(compare.SETUP, name)
    yield server
    for name in "dp":
        server.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelining", "without"])
def test_random_messages_are_answered_as_postgresql_answers_them(databases, pipelining, monkeypatch):
    monkeypatch.setattr(compare, "SECONDS", DEADLINE)
    with Pooler(databases, default_pool_size=1, pipelining=pipelining) as pooler:
        comparison = compare.Comparison(databases, pooler, seed=1)
        differing = [number for number in range(ROUNDS) if comparison.round(number)]
        comparison.close()
    assert not differing, f"rounds {differing} differ: see what was printed"
