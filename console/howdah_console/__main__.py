"""The command `howdah-console`."""

import argparse
import sys

import uvicorn

from howdah_console import __version__
from howdah_console.app import Settings, make_app

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def arguments(words=None):
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="howdah-console",
        description="A web console for the models of a PostgreSQL database with Howdah. "
        "Whoever opens it logs in with a user and password of the database.",
    )
    parser.add_argument("dsn", metavar="DSN", help="the database, such as postgresql://127.0.0.1:5432/app")
    parser.add_argument(
        "--pooler",
        metavar="DSN",
        action="append",
        default=[],
        help="the console of a howdah-pooler or PgBouncer, such as postgresql://127.0.0.1:6432/howdah (again for more)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8484, help="the port to listen on (default: %(default)s)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a host name by which browsers may come, such as that of a proxy with TLS (again for more)",
    )
    parser.add_argument(
        "--actions",
        action="store_true",
        help="allow changes: upload, train, cancel, deploy, roll back, delete, watch, SQL that writes",
    )
    parser.add_argument(
        "--timeout", type=float, default=30, metavar="S", help="seconds for a statement of the SQL page (default: 30)"
    )
    parser.add_argument("--secure", action="store_true", help="send the cookie by HTTPS only: behind a proxy with TLS")
    parser.add_argument("--version", action="version", version=f"howdah-console {__version__}")
    return parser.parse_args(words)


def main(words=None):
    """Runs the console until it is interrupted."""
    chosen = arguments(words)
    host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    try:
        settings = Settings(
            dsn=chosen.dsn,
            pooler_dsns=tuple(chosen.pooler),
            port=chosen.port,
            names=(*LOOPBACK, host, *chosen.name),
            actions=chosen.actions,
            sql_seconds=chosen.timeout,
            secure=chosen.secure,
        )
    except ValueError as error:
        sys.exit(f"howdah-console: {error}")
    if chosen.host not in ("127.0.0.1", "::1", "localhost"):
        print(
            f"howdah-console: {chosen.host} can be reached by others, and passwords travel unencrypted: "
            "put a proxy with TLS in front of it",
            file=sys.stderr,
        )
    print(f"howdah-console: http://{host}:{chosen.port}/ ({settings.means()}; Ctrl-C ends it)", flush=True)
    # Addresses are not logged: nothing of a visitor's goes to a file.
    uvicorn.run(
        make_app(settings),
        host=chosen.host,
        port=chosen.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    main()
