"""Rows of a read that its client has cancelled reach nobody: they are dropped, however many come."""

import contextlib

import pytest

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, direct, query
from tests.pooler.test_cancels import GROUND, LOCK, blocked, locked

# More rows than are held back before they are passed on.
MANY = 300


def rows(count, lock):
    """A read of so many long rows, which comes to its first when nobody holds the lock."""
    return (
        f"SELECT held({lock}, 'x') AS late, g, repeat('x', 1000) FROM generate_series(1, {count}) AS g"
        f" WHERE held({lock}, 'x') = 'x'"
    )


@pytest.fixture(scope="module")
def ground(server):
    """A connection straight to the server, which has what these tests use."""
    with direct(server) as looker:
        looker.sql(GROUND)
        yield looker


@contextlib.contextmanager
def readers(server, count):
    """So many clients on one connection, whose statements are known as reads that may share it."""
    # Nothing is asked elsewhere while this lasts.
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipeline_stall=5))
        clients = [stack.enter_context(Raw(pooler.port)) for _ in range(count)]
        pooler.wait_for_catalog()
        for _ in range(4):
            for client in clients:
                assert client.sql(rows(1, 1)).endswith("C:SELECT 1 Z:I")
                assert client.sql("SELECT 'next' AS other") == "T D:next C:SELECT 1 Z:I"
        yield pooler, clients


def test_late_rows_do_not_come_with_the_answer_to_the_next_statement(server, ground):
    with readers(server, 2) as (pooler, (x, y)):
        with locked(server):
            x.send(query(rows(MANY, LOCK)))
            wait_until(lambda: blocked(ground) == 1)
            # Somebody stands behind it, so that the server is not told to stop.
            y.send(query("SELECT 'of y' AS other"))
            assert y.waiting(0) is False
            x.cancel(pooler.port)
            assert x.ask() == "E:57014 Z:I"
        assert y.ask() == "T D:of y C:SELECT 1 Z:I"
        # The rows have come by now.
        assert x.sql("SELECT 'next' AS other") == "T D:next C:SELECT 1 Z:I"


def test_late_rows_do_not_come_with_the_answer_to_a_pipelined_statement(server, ground):
    with readers(server, 1) as (pooler, (x,)):
        with locked(server):
            x.send(query(rows(MANY, LOCK)), query("SELECT 'next' AS other"))
            wait_until(lambda: blocked(ground) == 1)
            x.cancel(pooler.port)
            assert x.ask() == "E:57014 Z:I"
        assert x.ask() == "T D:next C:SELECT 1 Z:I"
        assert x.sql("SELECT 'other' AS other") == "T D:other C:SELECT 1 Z:I"


def test_late_rows_of_a_client_that_has_left_reach_nobody(server, ground):
    with readers(server, 2) as (_, (x, y)):
        with locked(server):
            x.send(query(rows(MANY, LOCK)))
            wait_until(lambda: blocked(ground) == 1)
            y.send(query("SELECT 'of y' AS other"))
            x.reset()
        assert y.ask() == "T D:of y C:SELECT 1 Z:I"
        assert y.sql("SELECT 'next' AS other") == "T D:next C:SELECT 1 Z:I"
