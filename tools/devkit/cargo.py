"""How Cargo builds: for use, or for tests.

Builds for use are optimised. Builds for tests are Cargo's `dev`: with assertions, less optimised, and all of them in
one folder, so that the crates' own tests, the pooler, the driver and the extension for each PostgreSQL share what they
are made of. The environment says which: HOWDAH_BUILD=test, as `make test`, pytest and CI say.
"""

import os
import subprocess

from devkit import Problem, postgres
from devkit.places import ROOT, VENV
from devkit.setup import check_toolchain, setup

VARIABLE = "HOWDAH_BUILD"
# What is built together decides which features the crates below have, and other features compile them anew: so what is
# for tests is always built in one selection, which is that of `cargo test` too.
FOR_TESTS = ["--workspace", "--lib", "--bins", "--examples"]


def for_tests():
    """Whether builds are for tests."""
    return os.environ.get(VARIABLE) == "test"


def build_for_tests():
    """From now on builds are for tests, here and in child processes."""
    os.environ[VARIABLE] = "test"


def target_folder():
    """Cargo's target folder."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def built(name):
    """Where something built lies, by its name."""
    return target_folder() / profile() / name


def profile():
    """The folder of the profile in a target folder."""
    return "debug" if for_tests() else "release"


def environment(**more):
    """The environment of every Cargo: what differed in it would have Cargo build anew what depends on that."""
    return {**os.environ, "PYO3_PYTHON": str(VENV / "bin" / "python"), **more}


def of_extension(major):
    """An option of Cargo for a selection that the extension is in: for which PostgreSQL that is."""
    return f"--features=pgml/pg{major}"


def build_package(name, what, major=postgres.NEWEST, **more):
    """Builds a package of the workspace; for tests all of them, the extension for PostgreSQL `major` too."""
    if for_tests():
        config = postgres.tree(major).headers_config
        build(*FOR_TESTS, of_extension(major), what=what, PGRX_PG_CONFIG_PATH=str(config), **more)
    else:
        build(f"--package={name}", what=what, **more)


def build(*packages, what, **more):
    """Builds packages; options of Cargo may follow their names, and `more` is added to the environment."""
    check_toolchain()
    # libclang, for headers of PostgreSQL and for its grammar.
    setup()
    command = ["cargo", "build", *([] if for_tests() else ["--release"]), "--locked", *packages]
    if subprocess.run(command, cwd=ROOT, env=environment(**more), check=False).returncode != 0:
        raise Problem(f"{what} did not build (cargo's message is above)")
