"""A client for tests and benches, through the server's socket: pg8000, so only in the virtual environment."""

import contextlib

import pg8000.dbapi

from devkit.server import SUPERUSER


@contextlib.contextmanager
def connection(server, database, user=SUPERUSER, **options):
    """An open connection of pg8000, in autocommit; closed afterwards."""
    opened = pg8000.dbapi.connect(
        user=user,
        database=database,
        unix_sock=f"{server.socket_folder}/.s.PGSQL.{server.port}",
        **options,
    )
    opened.autocommit = True
    try:
        yield opened
    finally:
        # It may have been broken on purpose.
        with contextlib.suppress(pg8000.dbapi.InterfaceError):
            opened.close()
