"""Fixtures for the pooler's tests."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from devkit.places import as_server_user, give_to_server_user
from devkit.server import SUPERUSER, Server, free_port
from tests.pooler.certificates import Authority
from tests.pooler.process import PASSWORD, Pooler, is_refused, wait_until
from tests.pooler.secured import tls_settings, tree_with_tls
from tests.pooler.trio import LOGGING, three

# What a server with TLS lets in: each user in another way.
HBA = """
local all all trust
hostssl all scram_user 127.0.0.1/32 scram-sha-256
hostssl all tls_user 127.0.0.1/32 trust
hostssl all cert_user 127.0.0.1/32 cert
hostnossl all plain_user 127.0.0.1/32 trust
host all both_user 127.0.0.1/32 trust
host all md5_user 127.0.0.1/32 md5
host all word_user 127.0.0.1/32 password
host all asker 127.0.0.1/32 scram-sha-256
"""


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


@pytest.fixture(scope="session")
def authority():
    """Whom the tests trust."""
    folder = tempfile.mkdtemp(prefix="howdah-ca-", dir="/tmp")
    yield Authority(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stranger(authority):
    """An authority that nobody trusts, though it calls itself the same."""
    return Authority(authority.folder / "stranger")


@pytest.fixture(scope="session")
def certificate(authority):
    """The pooler's certificate."""
    return authority.issue("the pooler", "IP:127.0.0.1,DNS:localhost")


@pytest.fixture(scope="session")
def tls_server(authority):
    """A server with TLS whose certificate says `localhost` by its common name alone, and its psql, which has TLS."""
    with tls_settings(authority, HBA) as settings, Server(tree_with_tls(), settings) as server:
        server.psql(
            f"""SET password_encryption = 'scram-sha-256'; CREATE ROLE scram_user LOGIN PASSWORD '{PASSWORD}';
            CREATE ROLE tls_user LOGIN; CREATE ROLE cert_user LOGIN; CREATE ROLE plain_user LOGIN;
            CREATE ROLE both_user LOGIN;
            CREATE ROLE word_user LOGIN PASSWORD '{PASSWORD}';
            CREATE ROLE asker LOGIN PASSWORD '{PASSWORD}'; GRANT pg_read_all_data TO asker;
            GRANT SELECT ON pg_authid, pg_shadow TO asker;
            SET password_encryption = 'md5'; CREATE ROLE md5_user LOGIN PASSWORD '{PASSWORD}';"""
        )
        yield server


@pytest.fixture(scope="session")
def steady_trio(major):
    """A primary and two streaming replicas for tests that leave them as they were."""
    with three(major, LOGGING) as servers:
        yield servers


@pytest.fixture(scope="session")
def real_pgbouncer(server):
    """The port of Debian's PgBouncer."""
    program = Path("/usr/sbin/pgbouncer")
    if not program.exists():
        pytest.skip("Debian's pgbouncer is not installed")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="howdah-pgbouncer-", dir="/tmp") as folder:
        path = Path(folder, "pgbouncer.ini")
        path.write_text(
            f"[databases]\npostgres = host={server.socket_folder} port={server.port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
            f"admin_users = {SUPERUSER}\n"
        )
        give_to_server_user(path.parent)
        give_to_server_user(path)
        with subprocess.Popen([program, "-q", path], stderr=subprocess.DEVNULL, **as_server_user()) as real:
            try:
                wait_until(lambda: not is_refused(port))
                yield port
            finally:
                real.kill()


@pytest.fixture
def trio(major):
    """A primary and two streaming replicas of one's own: free to promote, to stop or to kill."""
    with three(major) as servers:
        yield servers
