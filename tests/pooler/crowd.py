"""The crowd of `tests/crowd` against servers of one's own: directly, or through poolers of all kinds.

By hand, with as many units as are wanted in all:

    python -m tests.pooler.crowd --units 10000000
"""

import argparse
import contextlib
import dataclasses
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from devkit import Problem, cargo, postgres
from devkit.places import give_to_server_user
from devkit.server import Server, free_port
from tests.pooler.certificates import Authority
from tests.pooler.process import Pooler
from tests.pooler.secured import tree_with_tls

PROGRAM = cargo.target_folder() / "debug" / "crowd"
HBA = "local all all trust\nhost all all 127.0.0.1/32 trust\n"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A pooler, what lies around it, and how much of the whole it is to carry."""

    name: str
    pool: int
    pipelining: bool = True
    # The clients speak TLS, or the pooler does with the server.
    tls: bool = False
    server_tls: bool = False
    # A proxy between pooler and server joins, splits and delays.
    proxy: bool = False
    # How often a server process is ended, or killed, in seconds on average.
    kills: float = 0
    crashes: float = 0
    # How long all are idle now and then; a server connection is checked after one second.
    lull: float = 0
    # Workers of the pooler; how many of them serve the database changes each second.
    workers: int = 1
    clients: int = 100
    share: int = 10


KINDS = [
    Kind("one connection", 1, clients=60, share=4),
    Kind("one connection without pipelining", 1, pipelining=False, clients=30, share=3),
    Kind("two connections", 2),
    Kind("two connections without pipelining", 2, pipelining=False, clients=60, share=5),
    Kind("four connections", 4, clients=200, share=20),
    Kind("eight connections", 8, clients=300, share=20),
    Kind("eight connections without pipelining", 8, pipelining=False, clients=200, share=12),
    Kind("four workers", 8, workers=4, clients=200),
    Kind("four workers without pipelining", 8, workers=4, pipelining=False, clients=200),
    Kind("four workers and deaths", 10, workers=4, kills=0.3, crashes=9),
    Kind("idle periods", 4, lull=1.5),
    Kind("TLS", 4, tls=True),
    Kind("TLS on both sides", 4, tls=True, server_tls=True),
    Kind("deaths", 4, kills=0.3, crashes=9),
    Kind("deaths without pipelining", 8, pipelining=False, kills=0.3, crashes=9),
    Kind("a slow network", 8, proxy=True, clients=200, share=6),
    Kind("a slow network without pipelining", 8, pipelining=False, proxy=True, clients=80, share=3),
    Kind("a slow network, deaths and TLS", 4, tls=True, proxy=True, kills=0.5, lull=1.5, clients=80, share=4),
]


@contextlib.contextmanager
def server_for_crowd(tree, certificate=None, **settings):
    """A server that lets in everybody from here, for as many connections as a crowd makes; with TLS where it has a
    certificate.
    """
    home = Path(tempfile.mkdtemp(prefix="howdah-crowd-", dir="/tmp"))
    given = {"hba_file": home / "hba", "max_connections": 400, "timezone": "UTC", **settings}
    (home / "hba").write_text(HBA)
    if certificate is not None:
        given |= {"ssl": "on", "ssl_cert_file": home / "crt", "ssl_key_file": home / "key"}
        shutil.copy(certificate.cert, home / "crt")
        shutil.copy(certificate.key, home / "key")
    for path in (home, *home.iterdir()):
        give_to_server_user(path)
        path.chmod(0o700 if path.is_dir() else 0o600)
    try:
        with Server(tree, given) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


def crowd(server, pooler=None, show=False, **options):
    """Runs the crowd: its exit code and what it has printed, which is also shown as it comes if `show`."""
    if not PROGRAM.exists():
        raise Problem(f"{PROGRAM} is not built: `cargo build -p crowd`")
    target = ["--direct"] if pooler is None else ["--pooler", f"127.0.0.1:{pooler.port}"]
    command = [PROGRAM, "--server", f"127.0.0.1:{server.port}", *target]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    told = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            told.append(line)
            if show:
                print(line, end="", flush=True)
    return process.returncode, "".join(told)


def run(kind, server, authority, **options):
    """Runs the crowd through a pooler of this kind."""
    settings = {
        "default_pool_size": kind.pool,
        "max_client_conn": 2000,
        "workers": kind.workers,
        "database_workers": kind.workers,
        "pipelining": "true" if kind.pipelining else "false",
        # A notice that a client waits is told to whoever waits long; here they all do.
        "query_wait_notify": 0,
        "log_connections": 0,
        "log_disconnections": 0,
        "server_tls_sslmode": "disable",
    }
    if kind.lull:
        settings["server_check_delay"] = 1
    port = free_port() if kind.proxy else server.port
    if kind.proxy:
        options["proxy"] = port
    if kind.server_tls:
        settings |= {"server_tls_sslmode": "verify-full", "server_tls_ca_file": authority.root}
    if kind.tls:
        shown = authority.issue("the pooler", "IP:127.0.0.1,DNS:localhost")
        settings |= {"client_tls_sslmode": "allow", "client_tls_cert_file": shown.cert}
        settings["client_tls_key_file"] = shown.key
        options["tls"] = authority.root
    options = {"clients": kind.clients, "kills": kind.kills, "crashes": kind.crashes, "lull": kind.lull, **options}
    # By name, so that a certificate can be verified.
    place = f"host={server.socket_folder}" if not (kind.proxy or kind.server_tls) else "host=localhost"
    with Pooler(server, databases={"crowd": f"{place} port={port}"}, **settings) as pooler:
        return crowd(server, pooler, **options)


def main():
    """Runs the whole matrix until so many units were answered, and says what came of each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=10_000_000, help="units in all")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_000)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument(
        "--pg", type=int, default=postgres.NEWEST, help="the PostgreSQL of kinds without TLS to servers"
    )
    parser.add_argument("--without", help="what clients leave out: see crowd --help")
    given = parser.parse_args()
    kinds = [kind for kind in KINDS if given.only in kind.name]
    whole = sum(kind.share for kind in kinds)
    more = {"without": given.without} if given.without else {}
    results = []
    with tempfile.TemporaryDirectory(prefix="howdah-ca-", dir="/tmp") as folder:
        authority = Authority(folder)
        for number, kind in enumerate(kinds):
            seed, units = given.seed + number, given.units * kind.share // whole
            print(f"== {kind.name}: {units} units, seed {seed}", flush=True)
            tree = tree_with_tls() if kind.server_tls else postgres.tree(given.pg)
            certificate = authority.issue("localhost", "DNS:localhost") if kind.server_tls else None
            with server_for_crowd(tree, certificate) as server:
                code, told = run(kind, server, authority, show=True, units=units, seconds=1e6, seed=seed, **more)
            counted = [line for line in told.splitlines() if " units in " in line]
            results.append((code, kind.name, seed, counted[-1].split(";")[0] if counted else "no count"))
    for code, name, seed, counted in results:
        print(f"{'good ' if code == 0 else 'WRONG'} {name}: {counted}, seed {seed}")
    sys.exit(any(code for code, *_ in results))


if __name__ == "__main__":
    main()
