"""What the tests share: a server for each PostgreSQL, a primary with a streaming replica, and clients.

Run by `make test`, which builds the extension first and passes `--pg` for each PostgreSQL it was built for. A server,
a library or a client that is missing is an error here, never a skipped test.
"""

import contextlib

import pytest

from devkit import cargo, postgres
from devkit.check import versions_for
from devkit.client import connection
from devkit.server import Server, end_on_signals, hear_interrupts


def pytest_addoption(parser):
    parser.addoption("--pg", type=int, action="append", help="a PostgreSQL to test on (again for more); all by default")
    parser.addoption("--times", type=int, default=1, help="do the tests of faults so many times over")
    parser.addoption("--update-expected", action="store_true", help="accept what the SQL tests print")


def pytest_configure():
    cargo.build_for_tests()
    end_on_signals()
    hear_interrupts()


def majors(config):
    """The major versions to test on."""
    return config.getoption("--pg") or postgres.majors()


def pytest_generate_tests(metafunc):
    if "time_of_many" in metafunc.fixturenames:
        metafunc.parametrize("time_of_many", range(metafunc.config.getoption("--times")), ids="")
    if "major" in metafunc.fixturenames:
        chosen = versions_for(metafunc.module, majors(metafunc.config))
        metafunc.parametrize("major", chosen, ids=[f"pg{major}" for major in chosen], scope="session")
    if "older" in metafunc.fixturenames:
        chosen = majors(metafunc.config)
        older = [major for major in chosen if major < max(chosen)] or chosen
        metafunc.parametrize("older", older, ids=[f"from{major}" for major in older])


class Database:
    """A database of its own for one test, with `pgml` in it. `sql` asks psql, `connect` opens a client."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def sql(self, text):
        """What psql answers, unaligned; an ERROR is raised as `devkit.Problem`."""
        return self.server.psql(text, self.name)

    def connect(self, **options):
        """A context with an open connection of pg8000, in autocommit."""
        return connection(self.server, self.name, **options)


@pytest.fixture(scope="session")
def server(major):
    """A server of this major version, shared by the tests."""
    with Server(postgres.tree(major)) as running:
        yield running


@contextlib.contextmanager
def fresh(server, name, settings=None):
    """A database of that name with the extension, for as long as the context, with settings of its own."""
    server.psql(f"CREATE DATABASE {name}")
    try:
        server.psql("CREATE EXTENSION pgml", name)
        for setting, value in (settings or {}).items():
            server.psql(f"ALTER DATABASE {name} SET {setting} = '{value}'", name)
        yield Database(server, name)
    finally:
        server.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(server, request):
    """A fresh database with the extension, and with the settings that the test's module names: what its tests are not about."""
    settings = getattr(request.module, "DATABASE_SETTINGS", None)
    with fresh(server, f"t_{abs(hash(request.node.nodeid)) % 10**12}", settings) as made:
        yield made


class Cluster:
    """A primary and its streaming replica, with the extension in the database `app`."""

    def __init__(self, primary, replica):
        self.primary = primary
        self.replica = replica

    def catch_up(self):
        """Waits until the replica has replayed all that the primary has written."""
        self.primary.wait_for_replay(self.replica)


@pytest.fixture
def cluster(major):
    """A primary and its streaming replica of one's own: free to promote or to kill."""
    with Server(postgres.tree(major)) as primary:
        primary.psql("CREATE DATABASE app")
        primary.psql("CREATE EXTENSION pgml", "app")
        replica = primary.replica()
        try:
            yield Cluster(primary, replica)
        finally:
            replica.close()
