"""The pooler beside an earlier build of it: `python -m bench.before EARLIER [--quick]`.

EARLIER is a program that `make build` has made in a clone of another commit. pgbench runs through both in turn, by
default settings and by TCP. Of each case the transactions per second are printed, and the CPU of the pooler for a
transaction, now ÷ earlier: what claims to slow nothing down is held to it.
"""

import argparse
import contextlib
import shutil
import tempfile
from pathlib import Path

from bench.pooler import CASES, DEFAULT_SIZE, SCRIPTS, TCP, Side, both_in_turn, number, shown
from bench.report import ratios
from devkit import Problem, postgres, say
from devkit.places import ROOT
from devkit.pooler import build_pooler, program
from devkit.server import Server

TRIGGERED = "a trigger"
SCRIPTS[TRIGGERED] = ["-f", ROOT / "bench" / "triggered.sql"]
TABLES = """
    CREATE TABLE stamped AS SELECT id, 0 AS v, now() AS changed FROM generate_series(1, 1000) id;
    ALTER TABLE stamped ADD PRIMARY KEY (id);
    CREATE TABLE plain AS SELECT * FROM stamped;
    ALTER TABLE plain ADD PRIMARY KEY (id);
    CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.changed := now(); RETURN NEW; END';
    CREATE TRIGGER stamp BEFORE UPDATE ON stamped FOR EACH ROW EXECUTE FUNCTION stamp();
"""


def main():
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.before", description=__doc__)
    parser.add_argument("earlier", type=Path, help="the program of the earlier build")
    parser.add_argument("--quick", action="store_true", help="one round of each case: to see that it works")
    chosen = parser.parse_args()
    if not chosen.earlier.is_file():
        raise SystemExit(f"there is no program {chosen.earlier}")
    build_pooler()
    rounds, seconds = (1, 1) if chosen.quick else (5, 2)
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder, contextlib.ExitStack() as stack:
        # A place that any account may run it from.
        Path(folder).chmod(0o755)
        programs = {"earlier": chosen.earlier, "now": program()}
        server = stack.enter_context(Server(postgres.tree(postgres.NEWEST), {"max_connections": "300"}))
        server.run("pgbench", "-i", "-q", "-s", "10", "postgres")
        server.psql(TABLES)
        sides = {}
        for name, path in programs.items():
            command = [shutil.copy(path, Path(folder) / name)]
            sides[name] = stack.enter_context(Side(name, command, server, DEFAULT_SIZE))
        for script, mode, clients, way in [*CASES, (TRIGGERED, "prepared", 10, TCP)]:
            if way == TCP:
                taken, costs = both_in_turn(sides, script, mode, clients, rounds, seconds)
                gain, cost = (ratios(of["now"], of["earlier"]) for of in (taken, costs))
                say.step(f"{shown(script)} {mode}, {number(clients)}, now / earlier: transactions/s {gain}, CPU {cost}")


if __name__ == "__main__":
    try:
        main()
    except Problem as problem:
        raise SystemExit(str(problem)) from problem
