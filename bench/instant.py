"""A server that answers at once (`bench/instant.c`) and a generator of load (`bench/floor.c`): what stands between them
is the limit.

    python -m bench.instant --mode simple --clients 100 --workers 2 --size 5 --rounds 3

measures the pooler as it is built, with PYTHONPATH=tools:. and the Python of build/venv: statements a second, CPU a
statement, and the CPU of each of its threads. `--program FILE` takes another pooler's program instead of the built one,
`--no-build` the built one as it is.
"""

import argparse
import contextlib
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from bench.pooler import Side, wait_for
from bench.programs import compiled, cpu_by_thread, cpu_of, running
from devkit import Problem, postgres
from devkit.pooler import build_pooler, program
from devkit.server import SUPERUSER, Server, end_on_signals, free_port

SQL = b"SELECT abalance FROM pgbench_accounts WHERE aid = "


class Instant:
    """The instant server before a real one, which answers what the pooler asks of its own."""

    def __init__(self, server, folder, stack):
        self.server, self.tree, self.password, self.run = server, server.tree, server.password, server.run
        self.socket_folder, self.port = folder, free_port()
        real = f"{server.socket_folder}/.s.PGSQL.{server.port}"
        command = [compiled("instant", folder), str(self.port), folder, real]
        self.process = stack.enter_context(running(command, f"{folder}/instant.log"))
        wait_for(server, self.port)

    def cpu(self):
        """CPU seconds used."""
        return cpu_of(self.process.pid)


class Load:
    """The generator: so many clients, each with so many requests under way."""

    def __init__(self, folder):
        self.folder, self.program = Path(folder), compiled("floor", folder)
        for mode in ("simple", "extended", "prepared"):
            for name, segments in zip(("setup", "request"), made(mode), strict=True):
                whole = b"".join(struct.pack("!I", len(segment)) + segment for segment in segments)
                (self.folder / f"{mode}.{name}").write_bytes(whole)

    def run(self, place, mode, clients, seconds, depth=1):
        """Statements a second, the generator's own CPU microseconds a statement, the slowest client's part of the mean.

        `place` is a port of 127.0.0.1 or the path of a Unix socket.
        """
        files = [self.folder / f"{mode}.{name}" for name in ("setup", "request")]
        command = [self.program, place, SUPERUSER, "postgres", clients, depth, seconds, *files]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            raise Problem(f"the generator of load: {done.stderr.strip()[-300:]}")
        return tuple(map(float, done.stdout.split()))


def made(mode):
    """What pgbench -S says in a mode: what is sent once, and what again and again."""

    def message(tag, body):
        return tag + struct.pack("!I", len(body) + 4) + body

    run = message(b"D", b"P\0") + message(b"E", b"\0" + bytes(4)) + message(b"S", b"")
    value = b"\0\0\0\1" + struct.pack("!I", 4) + b"1234" + bytes(2)
    parse = SQL + b"$1;\0" + bytes(2)
    if mode == "simple":
        return [], [message(b"Q", SQL + b"1234;\0")]
    if mode == "extended":
        return [], [message(b"P", b"\0" + parse) + message(b"B", b"\0\0" + value) + run]
    return [message(b"P", b"P0_1\0" + parse) + message(b"S", b"")], [message(b"B", b"\0P0_1\0" + value) + run]


@contextlib.contextmanager
def behind():
    """A folder that any account may use, and the instant server before a PostgreSQL with pgbench's tables."""
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder, contextlib.ExitStack() as stack:
        Path(folder).chmod(0o777)
        server = stack.enter_context(Server(postgres.tree(postgres.NEWEST)))
        server.run("pgbench", "-i", "-q", "-s", "1", "postgres")
        yield folder, Instant(server, folder, stack)


def main():
    """Measures the pooler once, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="simple", choices=["simple", "extended", "prepared"])
    for name, default in {"clients": 100, "depth": 1, "workers": 1, "size": 5, "rounds": 3, "seconds": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--setting", action="append", default=[], help="one more line of the pooler's configuration")
    parser.add_argument("--program", help="a pooler's program; else the one in this clone is built")
    parser.add_argument("--no-build", action="store_true", help="the built one as it is")
    chosen = parser.parse_args()
    if not (chosen.program or chosen.no_build):
        build_pooler()
    settings = "\n".join([f"workers = {chosen.workers}", *chosen.setting])
    with behind() as (folder, instant):
        path = shutil.copy(chosen.program or program(), folder)
        load = Load(folder)
        with Side("howdah", [path], instant, chosen.size, settings) as pooler:
            for number in range(chosen.rounds + 1):
                before, server = cpu_by_thread(pooler.process.pid), instant.cpu()
                rate, own, least = load.run(pooler.port, chosen.mode, chosen.clients, chosen.seconds, chosen.depth)
                count = rate * chosen.seconds
                after = cpu_by_thread(pooler.process.pid)
                spent = {key: (seconds - before.get(key, 0)) / count * 1e6 for key, seconds in after.items()}
                threads = ", ".join(f"{name} {cost:.2f}" for (_, name), cost in sorted(spent.items()) if cost >= 0.01)
                if number:
                    print(
                        f"{rate:,.0f} statements/s; CPU a statement (us): {sum(spent.values()):.2f} ({threads}), "
                        f"instant server {(instant.cpu() - server) / count * 1e6:.2f}, generator {own:.2f}; "
                        f"slowest client {least:.2f} of the mean"
                    )
            print((pooler.folder / "log").read_text(), end="")


if __name__ == "__main__":
    end_on_signals()
    main()
