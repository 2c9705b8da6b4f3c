"""A crowd of clients, each beside a model of its session (tests/crowd): nobody gets what is another's."""

import pytest

from devkit import postgres
from tests.pooler.crowd import crowd, server_for_crowd

NEWEST_ONLY = True


@pytest.fixture(scope="module")
def server():
    with server_for_crowd(postgres.tree(postgres.NEWEST)) as running:
        yield running


def good(told):
    """Asserts that a crowd ended without a violation, and after a good number of units."""
    code, text = told
    assert code == 0, text
    units = int(text.split(" units in ")[0].split()[-1])
    assert units > 500, text


def test_straight_to_the_server_the_model_is_right(server):
    good(crowd(server, clients=40, seconds=5))
