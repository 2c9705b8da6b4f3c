"""Fixtures for the pooler's tests."""

import pytest

from tests.pooler.process import PASSWORD, Pooler
from tests.pooler.trio import three


@pytest.fixture(scope="session")
def with_users(server):
    """The server with roles whose passwords are stored as SCRAM secrets and as MD5."""
    server.psql(
        f"""SET password_encryption = 'scram-sha-256'; CREATE ROLE scram_user LOGIN PASSWORD '{PASSWORD}';
        SET password_encryption = 'md5'; CREATE ROLE md5_user LOGIN PASSWORD '{PASSWORD}';"""
    )
    return server


@pytest.fixture
def pooler(server):
    """A pooler in transaction mode with two server connections a pool."""
    with Pooler(server, default_pool_size=2) as running:
        yield running


@pytest.fixture
def trio(major):
    """A primary and two streaming replicas of one's own: free to promote, to stop or to kill."""
    with three(major) as servers:
        yield servers
