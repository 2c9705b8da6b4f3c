"""Fixtures for the pooler's tests."""

import pytest

from devkit import postgres
from devkit.server import Server
from tests.pooler.process import PASSWORD, Pooler


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


class Trio:
    """A primary and two streaming replicas, and the text of a howdah.toml that has them as the database `app`."""

    def __init__(self, primary, replicas):
        self.primary = primary
        self.replicas = replicas
        self.servers = [primary, *replicas]

    def toml(self, pooler="", app="", roles=("auto", "auto", "auto"), servers=None):
        """A configuration with more lines in `[pooler]` and `[databases.app]`, on all servers unless on some."""
        listed = servers or self.servers
        servers = ", ".join(
            f'{{ host = "{server.socket_folder}", port = {server.port}, role = "{role}" }}'
            for server, role in zip(listed, roles[: len(listed)], strict=True)
        )
        return f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
monitor_user = "postgres"
{pooler}
[databases.app]
dbname = "postgres"
servers = [{servers}]
{app}
"""


@pytest.fixture
def trio(major):
    """A primary and two streaming replicas of one's own: free to promote, to stop or to kill."""
    with Server(postgres.tree(major)) as primary, primary.replica() as one, primary.replica() as two:
        yield Trio(primary, [one, two])
