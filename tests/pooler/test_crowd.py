"""A crowd of clients, each beside a model of its session (tests/crowd): nobody gets what is another's.

The seed is printed with a violation; HOWDAH_SEED sets it.
"""

import os
import random

import pytest

from devkit import postgres
from tests.pooler.crowd import Kind, crowd, run, server_for_crowd
from tests.pooler.secured import tree_with_tls

SECONDS = 4
KINDS = [
    Kind("one connection", 1, clients=30),
    Kind("two connections without pipelining", 2, pipelining=False, clients=40),
    Kind("eight connections", 8, clients=100),
    Kind("idle periods", 4, lull=1.5, clients=40),
    Kind("TLS on both sides", 4, tls=True, server_tls=True, clients=40),
    Kind("deaths", 4, kills=0.3, clients=60),
    Kind("a slow network", 8, proxy=True, clients=60),
]


@pytest.fixture(scope="module")
def server():
    with server_for_crowd(postgres.tree(postgres.NEWEST)) as running:
        yield running


@pytest.fixture(scope="module")
def server_with_tls(authority):
    with server_for_crowd(tree_with_tls(), authority.issue("localhost", "DNS:localhost")) as running:
        yield running


def good(told):
    """Asserts that a crowd ended without a violation, and after a good number of units."""
    code, text = told
    assert code == 0, text
    units = int(text.split(" units in ")[0].split()[-1])
    assert units > 300, text


def seed():
    return os.environ.get("HOWDAH_SEED") or random.randrange(10**9)


def test_straight_to_the_server_the_model_is_right(server):
    good(crowd(server, clients=40, seconds=SECONDS, seed=seed(), kills=0.5))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nobody_gets_what_is_anothers(kind, server, server_with_tls, authority):
    chosen = server_with_tls if kind.server_tls else server
    good(run(kind, chosen, authority, seconds=SECONDS, seed=seed()))
