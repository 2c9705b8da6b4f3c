"""`howdah-server demo`: from nothing to predictions, on a server that is gone afterwards."""

import shutil
import sys
import tempfile
from pathlib import Path

from howdah_server.problem import Problem
from howdah_server.server import Server

ROWS = 100_000
HERE = Path(__file__).parent
# Nothing of it need outlive the machine.
SETTINGS = {"fsync": "off", "synchronous_commit": "off", "max_wal_size": "4GB"}


def run(rows):
    """All of it."""
    if rows < 100:
        raise Problem(f"a model of {rows} rows shows nothing: expected 100 or more")
    folder = tempfile.mkdtemp(prefix="howdah-")
    # Its parent is everybody's; what is in the folder is protected by PostgreSQL itself.
    Path(folder).chmod(0o755)
    server = Server(folder)
    try:
        print(f"Starting PostgreSQL in {folder}.", flush=True)
        server.start(settings=SETTINGS)
        with server:
            print(f"Making a table of {rows:,} flights.", flush=True)
            server.psql((HERE / "flights.sql").read_text(), "-v", f"rows={rows}", "--single-transaction")
            server.psql("VACUUM ANALYZE flights")
            for block in (HERE / "tour.sql").read_text().strip().split("\n\n"):
                show(server, block)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\nThe demo is over, and its server is removed. To start a server that stays, and to connect to it:\n")
    print("    howdah-server up data\n    howdah-server psql data")


def show(server, block):
    """Prints a comment and the statement behind it, runs it, and prints the answer."""
    lines = block.splitlines()
    print("\n" + " ".join(line.removeprefix("--").strip() for line in lines if line.startswith("--")) + "\n")
    sql = "\n".join(line for line in lines if not line.startswith("--"))
    print(f"\033[1m{sql}\033[0m" if sys.stdout.isatty() else sql, flush=True)
    print("\n" + server.psql(sql, "--pset=footer=off"), flush=True)
