"""The commands behind the Makefile: `python3 -m devkit setup|build|up|down|fleet|test|install|clean`."""

import argparse
import shutil
import subprocess
import sys

from devkit import Problem, postgres, say
from devkit.places import BUILD, ROOT, locked, runtime
from devkit.server import end_on_signals


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="devkit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("setup", help="fetch PostgreSQL, libclang and XGBoost")
    build = commands.add_parser("build", help="build the extension and put it into the copied PostgreSQL")
    build.add_argument("majors", nargs="*", type=int, default=[postgres.NEWEST])
    install = commands.add_parser("install", help="install into the PostgreSQL of a pg_config")
    install.add_argument("pg_config")
    commands.add_parser("up", help="leave a server running, with the extension and the flights")
    commands.add_parser("console", help="show the models of the server that `up` started in a browser")
    commands.add_parser("down", help="end the server that `up` started")
    fleet = commands.add_parser("fleet", help="leave a primary, replicas, poolers and HAProxy running")
    fleet.add_argument("--replicas", type=int, help="5; of a hub and of each shard: none")
    fleet.add_argument("--poolers", type=int, help="2; before shards: 1")
    fleet.add_argument("--shards", type=int, default=0, help="a sharded database instead, with so many shards")
    fleet.add_argument("--share", type=float, help="cores of each PostgreSQL server")
    commands.add_parser("fleet-status", help="watch the fleet").add_argument("--once", action="store_true")
    commands.add_parser("fleet-down", help="end the fleet")
    test = commands.add_parser("test", help="run the tests: crates, SQL, live servers")
    test.add_argument("--update", action="store_true", help="accept what the SQL tests print as what is expected")
    test.add_argument("--pg", type=int, action="append", help="only on this major version")
    test.add_argument("pytest", nargs="*", help="arguments for pytest")
    packages = commands.add_parser("test-packages", help="make the packages and test them")
    packages.add_argument("pytest", nargs="*", help="arguments for pytest")
    commands.add_parser("sanitize", help="the crates' tests under AddressSanitizer")
    commands.add_parser("lint", help="rustfmt, clippy, ruff and, where it is installed, cargo-deny")
    bench = commands.add_parser("bench", help="run the benches, build and packages included")
    bench.add_argument("bench", nargs=argparse.REMAINDER, help="arguments for bench/run")
    wheels = commands.add_parser("wheels", help="make the Python packages")
    wheels.add_argument("--only", choices=["server", "driver", "console"], help="one of the packages")
    commands.add_parser("deb", help="make the Debian packages")
    commands.add_parser("docs", help="make the documentation's site")
    commands.add_parser("clean", help="end the server of `up` and remove all that was made")
    return parser.parse_args()


def main():
    """Runs one command; a Problem is one clear line, and status 1."""
    end_on_signals()
    chosen = arguments()
    try:
        globals()[f"run_{chosen.command.replace('-', '_')}"](chosen)
    except Problem as problem:
        say.complain(problem)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def run_setup(_chosen):
    """`make setup`"""
    from devkit.setup import setup

    setup()
    for major in postgres.majors():
        postgres.tree(major)
    say.step(f"PostgreSQL {', '.join(map(str, postgres.majors()))} are in {runtime() / 'pg'}")


def run_build(chosen):
    """`make build`"""
    from devkit.extension import build_into
    from devkit.pooler import build_pooler

    build_pooler()
    for major in chosen.majors:
        build_into(postgres.tree(major))


def run_install(chosen):
    """`make install`"""
    from devkit.extension import install_into_system

    major, changed = install_into_system(chosen.pg_config)
    say.step(f"pgml is in PostgreSQL {major}: {len(changed)} files written; in psql: CREATE EXTENSION pgml;")


def run_up(_chosen):
    """`make up`"""
    from devkit.up import up

    with locked("up"):
        up()


def run_down(_chosen):
    """`make down`"""
    from devkit.up import down

    with locked("up"):
        down()


def run_fleet(chosen):
    """`make fleet`"""
    from devkit.fleet_up import up

    with locked("fleet"):
        replicas = chosen.replicas if chosen.replicas is not None else 0 if chosen.shards else 5
        poolers = chosen.poolers if chosen.poolers is not None else 1 if chosen.shards else 2
        up(replicas, poolers, chosen.share, chosen.shards)


def run_fleet_status(chosen):
    """`make fleet-status`"""
    from devkit.fleet_up import status

    status(chosen.once)


def run_console(_chosen):
    """`make console`"""
    from devkit.console import console

    console()


def run_fleet_down(_chosen):
    """`make fleet-down`"""
    from devkit.fleet_up import down

    with locked("fleet"):
        down()


def run_test(chosen):
    """`make test`"""
    from devkit.check import test

    majors = [postgres.NEWEST] if chosen.pytest else postgres.majors()
    test(chosen.pg or majors, chosen.update, chosen.pytest)


def run_test_packages(chosen):
    """`make test-packages`"""
    from devkit.check import test_packages

    test_packages(chosen.pytest)


def run_sanitize(_chosen):
    """`make sanitize`"""
    from devkit.check import sanitize

    sanitize()


def run_lint(_chosen):
    """`make lint`"""
    from devkit.check import lint

    lint()


def run_bench(chosen):
    """`make bench`"""
    from devkit.setup import python_for

    python = python_for("bench")
    done = subprocess.run([str(python), str(ROOT / "bench" / "run"), *chosen.bench], check=False)
    if done.returncode != 0:
        raise Problem(f"bench/run ended with status {done.returncode}")


def run_wheels(chosen):
    """`make wheels`"""
    from devkit.wheels import wheels

    wheels(chosen.only)


def run_deb(_chosen):
    """`make deb`"""
    from devkit.debs import debs

    debs()


def run_docs(_chosen):
    """`make docs`"""
    from devkit.site import site

    site()


def run_clean(chosen):
    """`make clean`"""
    from devkit.cargo import target_folder
    from devkit.wheels import DIST

    run_down(chosen)
    run_fleet_down(chosen)
    staging = runtime()
    for folder in {BUILD, DIST, staging, target_folder()}:
        say.step(f"removing {folder}")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
