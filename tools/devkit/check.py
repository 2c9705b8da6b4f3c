"""`make test`, `make sanitize` and `make lint`: the tiers of tests, cheapest first, each shown as it runs."""

import os
import shutil
import subprocess

from devkit import Problem, bare, cargo, postgres
from devkit.driver import build_driver
from devkit.extension import build_into, environment_for
from devkit.places import ROOT
from devkit.pooler import build_pooler
from devkit.say import note, step, timed
from devkit.setup import XGBOOST, python_for, setup


def versions_for(module, majors):
    """Those of these major versions that the tests of a module run on: the newest of them (`--pg 15` alone runs all
    tests on 15), and on each where the module says `EACH_VERSION = True`, since its subject is what versions differ in.
    """
    return list(majors) if getattr(module, "EACH_VERSION", False) else [max(majors)]


# The folders of tests/ that are packages of their own.
FOLDERS = ["pooler", "world", "shards"]


def test(majors, update, pytest_arguments):
    """Runs all tiers on these major versions of PostgreSQL, or pytest alone with the arguments for it; raises at the
    first that fails.
    """
    cargo.build_for_tests()
    setup()
    python = python_for("test")
    for major in postgres.untestable():
        note(
            f"PostgreSQL {major} is installed without its headers, so it is not tested (postgresql-server-dev-{major})"
        )
    if not pytest_arguments:
        with timed("cargo test: the crates that need no server"):
            known = {"HOWDAH_XGBOOST_LIB": str(XGBOOST / "xgboost" / "lib" / "libxgboost.so")}
            known |= environment_for(postgres.tree(postgres.NEWEST).headers_config)
            run(
                ["cargo", "test", "--workspace", cargo.of_extension(postgres.NEWEST), "--locked"],
                cargo.environment(**known),
            )
    # The newest last: it is built with the pooler and the driver, and Cargo finds it as it left it.
    for major in sorted(majors):
        build_into(postgres.tree(major))
    build_pooler()
    build_driver(python)
    # The driver needs no more than a server.
    others = [major for major in bare.fetched() if major not in majors] if majors == postgres.majors() else []
    # Last, and nothing after it: the last line of the output is what the tests came to.
    step(f"pytest: SQL and live servers, on PostgreSQL {', '.join(map(str, majors))}")
    # One by one: each folder is a package of its own. Tests wait a lot: two files of them run side by side, each with
    # servers of its own.
    side_by_side = [] if update else ["--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder"]
    tiers = [(majors, pytest_arguments)]
    if not pytest_arguments:
        tiers = [([*majors, *others], ["driver/tests", *side_by_side])]
        tiers += [(majors, [f"tests/{folder}", *side_by_side]) for folder in FOLDERS]
        tiers += [(majors, ["tests", *(f"--ignore=tests/{folder}" for folder in FOLDERS), *side_by_side])]
    for chosen, what in tiers:
        options = [f"--pg={major}" for major in chosen] + (["--update-expected"] if update else [])
        run([str(python), "-m", "pytest", *options, *what])


def test_packages(pytest_arguments):
    """Makes the wheels and Debian packages, and installs and uses them."""
    setup()
    python = python_for("test")
    run([str(python), "-m", "pytest", *(pytest_arguments or ["packaging/tests"])])


def sanitize():
    """Runs the tests of what reads and predicts models and of what calls the training library, under AddressSanitizer.

    Its runtime comes with the stable compiler, which takes the option only where RUSTC_BOOTSTRAP is set.
    """
    setup()
    found = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.removeprefix("host: ") for line in found.splitlines() if line.startswith("host: "))
    environment = {
        **os.environ,
        "HOWDAH_XGBOOST_LIB": str(XGBOOST / "xgboost" / "lib" / "libxgboost.so"),
        "RUSTC_BOOTSTRAP": "1",
        "CARGO_ENCODED_RUSTFLAGS": "-Zsanitizer=address",
        "CARGO_TARGET_DIR": str(ROOT / "target" / "asan"),
        # Tests of allocations that fail need them to.
        "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=1",
    }
    crates = ["--package=encoder", "--package=forest", "--package=learn", "--package=room"]
    with timed("cargo test under AddressSanitizer"):
        # Said to be for a target, so that build scripts and macros are not instrumented. Tests that measure memory
        # would measure the sanitizer's.
        command = ["cargo", "test", *crates, "--tests", f"--target={host}", "--locked", "--no-fail-fast"]
        run([*command, "--", "--skip=_memory_"], environment)


def lint():
    """Checks form: rustfmt, clippy (the extension too), fuzz targets, ruff, and cargo-deny where it is installed."""
    setup()
    python = python_for("test")
    with timed("rustfmt"):
        run(["cargo", "fmt", "--all", "--check"])
    with timed("clippy"):
        # In the folder of the builds for tests, which have made the programs that Cargo runs as it builds.
        cargo.build_for_tests()
        known = environment_for(postgres.tree(postgres.NEWEST).headers_config)
        selected = ["--workspace", "--all-targets", cargo.of_extension(postgres.NEWEST)]
        run(["cargo", "clippy", *selected, "--locked", "--", "-D", "warnings"], cargo.environment(**known))
    with timed("the fuzz targets: whether they compile"):
        # Parts of the crates are built for them alone. A folder of its own: other flags would have all built again.
        own = {"RUSTFLAGS": "--cfg=fuzzing", "CARGO_TARGET_DIR": str(ROOT / "target" / "fuzz-check")}
        run(["cargo", "check", "--manifest-path=fuzz/Cargo.toml", "--locked"], {**os.environ, **own})
    with timed("ruff"):
        run([str(python), "-m", "ruff", "check", "."])
        run([str(python), "-m", "ruff", "format", "--check", "."])
    if shutil.which("cargo-deny"):
        with timed("cargo-deny"):
            run(["cargo", "deny", "check"])
    else:
        note("cargo-deny is not installed (`cargo install cargo-deny`): bans, licences and sources were not checked")


def run(command, environment=None):
    """Runs one tool in the clone, its output shown as it comes."""
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
        raise Problem(f"failed: {' '.join(command[:4])} ... (see above)")
