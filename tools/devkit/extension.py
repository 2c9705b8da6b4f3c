"""Builds the extension for a PostgreSQL and puts it there, with the training library beside it."""

import filecmp
import os
import re
import shutil
import subprocess
from pathlib import Path

from devkit import Problem, cargo
from devkit.places import ROOT, locked
from devkit.postgres import ask, major_of
from devkit.say import timed
from devkit.setup import LIGHTGBM, XGBOOST, leave, stamp

EXTENSION = ROOT / "extension"
SHARDS = ROOT / "shards"


def build(pg_config):
    """Compiles the extension against the headers of `pg_config`."""
    major = major_of(pg_config)
    headers = Path(ask(pg_config, "--includedir-server"))
    if not (headers / "postgres.h").exists():
        raise Problem(
            f"PostgreSQL {major} has no headers in {headers}: `apt-get install postgresql-server-dev-{major}`"
        )
    with locked("build_for_tests" if cargo.for_tests() else f"build{major}"):
        if cargo.for_tests() and is_current(pg_config):
            return
        with timed(f"building the extension for PostgreSQL {major} (minutes the first time)"):
            what = f"the extension for PostgreSQL {major}"
            selected = cargo.FOR_TESTS if cargo.for_tests() else ["--package=pgml"]
            cargo.build(*selected, cargo.of_extension(major), what=what, **environment_for(pg_config))
        if cargo.for_tests():
            library(major).parent.mkdir(parents=True, exist_ok=True)
            for made in (library(major), sources(major)):
                shutil.copyfile(cargo.built(made.name), made)
            leave(stamp_of(pg_config))


def library(major):
    """Where the library built for PostgreSQL `major` lies.

    Cargo gives the library of a package one place whatever its features, so that in one folder every change of the
    major compiles it again. For use, each major has a target folder of its own. For tests, it is copied from the folder
    of all builds for tests, where the majors share the crates below it.
    """
    return cargo.target_folder() / f"pg{major}" / cargo.profile() / "libpgml.so"


def sources(major):
    """What Cargo left beside the library: which files that was made from."""
    return library(major).with_suffix(".d")


def is_current(pg_config):
    """Whether the library for tests is made from what is there now; Cargo would take another major's for stale."""
    major = major_of(pg_config)
    return library(major).exists() and sources(major).exists() and stamp_of(pg_config).exists()


def stamp_of(pg_config):
    """The stamp that says what the library for tests was made from and with."""
    major = major_of(pg_config)
    listed = re.split(r"(?<!\\)\s+", sources(major).read_text().strip())[1:]
    files = [Path(name.replace("\\ ", " ")) for name in listed]
    files += [ROOT / "Cargo.lock", ROOT / "Cargo.toml", *ROOT.glob("crates/*/Cargo.toml"), EXTENSION / "Cargo.toml"]
    contents = [file.read_bytes() if file.exists() else b"gone" for file in files]
    asked = [["rustc", "-vV"], [str(pg_config), "--version"]]
    printed = [subprocess.run(command, capture_output=True, check=True).stdout for command in asked]
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(("CARGO_", "RUST")))
    return stamp(f"extension{major}", str(library(major)).encode(), *contents, *printed, "\n".join(settings).encode())


def environment_for(pg_config):
    """What Cargo's environment has more to build the extension for the PostgreSQL of `pg_config`."""
    more = {"PGRX_PG_CONFIG_PATH": str(pg_config)}
    if not cargo.for_tests():
        more["CARGO_TARGET_DIR"] = str(cargo.target_folder() / f"pg{major_of(pg_config)}")
    return more


def files(pg_config):
    """What an installation consists of: pairs of a file and the place it goes to."""
    libraries = Path(ask(pg_config, "--pkglibdir"))
    scripts = Path(ask(pg_config, "--sharedir")) / "extension"
    yield library(major_of(pg_config)), libraries / "pgml.so"
    yield EXTENSION / "pgml.control", scripts / "pgml.control"
    for script in sorted((EXTENSION / "sql").glob("pgml--*.sql")):
        yield script, scripts / script.name
    yield from files_of_shards(scripts)
    # libxgboost.so finds its libgomp at ../../xgboost_cpu.libs.
    for folder in ("xgboost/lib", "xgboost_cpu.libs"):
        for source in sorted((XGBOOST / folder).glob("*.so*")):
            yield source, libraries / "pgml" / folder / source.name
    for source in sorted((LIGHTGBM / "lightgbm" / "lib").glob("*.so*")):
        yield source, libraries / "pgml" / "lightgbm" / "lib" / source.name


def files_of_shards(scripts):
    """The files of howdah_shards, which is SQL alone: pairs of a file and its place in the folder `scripts`."""
    for source in [SHARDS / "howdah_shards.control", *sorted(SHARDS.glob("howdah_shards--*.sql"))]:
        yield source, scripts / source.name


def install(pg_config):
    """Puts the extension into the PostgreSQL of `pg_config`; gives what was new or changed."""
    wanted = list(files(pg_config))
    scripts = wanted[1][1].parent
    changed = []
    try:
        for source, target in wanted:
            if not target.exists() or not filecmp.cmp(source, target, shallow=False):
                replace(source, target, 0o755 if ".so" in target.name else 0o644)
                changed.append(target)
        for stale in set(scripts.glob("pgml--*.sql")) - {target for _, target in wanted}:
            stale.unlink()
    except PermissionError as error:
        raise Problem(
            f"{error.filename} is not yours to write: run `sudo make install PG_CONFIG={pg_config}` "
            "(what is built already is not built again)"
        ) from error
    return changed


def replace(source, target, mode):
    """Copies a file into place by rename: a server may have the old one mapped, and must not see it change."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, fresh)
    fresh.chmod(mode)
    fresh.rename(target)


def build_into(tree):
    """Builds the extension for a copied tree and puts it there."""
    build(tree.headers_config)
    with locked(f"pg{tree.major}"):
        install(tree.program("pg_config"))


def install_into_system(pg_config):
    """`make install`: builds for the PostgreSQL of `pg_config` and installs there, where it may write."""
    major = major_of(pg_config)
    # Under sudo there is often no cargo: what the user has built is good.
    if shutil.which("cargo") is not None or not library(major).exists():
        build(pg_config)
    return major, install(pg_config)
