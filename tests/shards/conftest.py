"""Fixtures: a hub and three shards, shared by the tests of a version, and a database of its own on them for each test."""

import itertools

import pytest

from tests.shards import fleet as fleets

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shard_servers(major):
    """A hub and three shards."""
    with fleets.servers(major) as made:
        yield made


@pytest.fixture
def bare_fleet(shard_servers):
    """A fresh database on the hub and on three servers that are no shards yet."""
    with fleets.fleet(*shard_servers, f"shards_{next(_numbers)}") as made:
        yield made


@pytest.fixture(scope="session")
def used_fleet(shard_servers):
    """A database on the hub and its three shards, for many tests."""
    with fleets.fleet(*shard_servers, "shards_used") as made:
        made.add_shards()
        yield made


@pytest.fixture
def fleet(used_fleet):
    """A hub and its three shards without tables."""
    yield used_fleet
    used_fleet.wipe()
