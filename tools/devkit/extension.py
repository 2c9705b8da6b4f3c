"""Builds the extension for a PostgreSQL and puts it there, with the training library beside it."""

import filecmp
import os
import shutil
import subprocess
from pathlib import Path

from devkit import Problem
from devkit.places import ROOT, locked
from devkit.postgres import ask, major_of
from devkit.say import timed
from devkit.setup import LIBCLANG, LIGHTGBM, XGBOOST, check_toolchain, compiler, setup

EXTENSION = ROOT / "extension"


def build(pg_config):
    """Compiles the extension against the headers of `pg_config`."""
    check_toolchain()
    setup()
    major = major_of(pg_config)
    headers = Path(ask(pg_config, "--includedir-server"))
    if not (headers / "postgres.h").exists():
        raise Problem(
            f"PostgreSQL {major} has no headers in {headers}: `apt-get install postgresql-server-dev-{major}`"
        )
    command = ["cargo", "build", "--release", "--package=pgml", f"--features=pg{major}", "--locked"]
    with locked(f"build{major}"), timed(f"building the extension for PostgreSQL {major} (minutes the first time)"):
        if subprocess.run(command, cwd=ROOT, env=environment_for(pg_config), check=False).returncode != 0:
            raise Problem(f"the extension did not build for PostgreSQL {major} (cargo's message is above)")


def target_folder():
    """Cargo's target folder."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def library(major):
    """Where the library built for PostgreSQL `major` lies.

    Each major has a target folder of its own: Cargo gives the library of a package one place whatever its features, so
    in one folder every change of the major would compile it again.
    """
    return target_folder() / f"pg{major}" / "release" / "libpgml.so"


def environment_for(pg_config):
    """The environment in which Cargo builds the extension for the PostgreSQL of `pg_config`."""
    # libclang from a wheel comes without the compiler's own headers (stddef.h and its like).
    include = subprocess.run([compiler(), "-print-file-name=include"], capture_output=True, text=True, check=True)
    return {
        **os.environ,
        "CARGO_TARGET_DIR": str(target_folder() / f"pg{major_of(pg_config)}"),
        "PGRX_PG_CONFIG_PATH": str(pg_config),
        "LIBCLANG_PATH": str(LIBCLANG),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{include.stdout.strip()}",
    }


def files(pg_config):
    """What an installation consists of: pairs of a file and the place it goes to."""
    libraries = Path(ask(pg_config, "--pkglibdir"))
    scripts = Path(ask(pg_config, "--sharedir")) / "extension"
    yield library(major_of(pg_config)), libraries / "pgml.so"
    yield EXTENSION / "pgml.control", scripts / "pgml.control"
    for script in sorted((EXTENSION / "sql").glob("pgml--*.sql")):
        yield script, scripts / script.name
    # libxgboost.so finds its libgomp at ../../xgboost_cpu.libs.
    for folder in ("xgboost/lib", "xgboost_cpu.libs"):
        for source in sorted((XGBOOST / folder).glob("*.so*")):
            yield source, libraries / "pgml" / folder / source.name
    for source in sorted((LIGHTGBM / "lightgbm" / "lib").glob("*.so*")):
        yield source, libraries / "pgml" / "lightgbm" / "lib" / source.name


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
