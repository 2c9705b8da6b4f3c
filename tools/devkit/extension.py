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
from devkit.setup import LIBCLANG, XGBOOST, check_toolchain, compiler, setup

EXTENSION = ROOT / "extension"


def build(pg_config):
    """Compiles the extension against the headers of `pg_config`; gives the path of the library."""
    check_toolchain()
    setup()
    major = major_of(pg_config)
    headers = Path(ask(pg_config, "--includedir-server"))
    if not (headers / "postgres.h").exists():
        raise Problem(
            f"PostgreSQL {major} has no headers in {headers}: `apt-get install postgresql-server-dev-{major}`"
        )
    environment = environment_for(pg_config)
    command = ["cargo", "build", "--release", "--package=pgml", f"--features=pg{major}", "--locked"]
    with locked("build"), timed(f"building the extension for PostgreSQL {major} (minutes the first time)"):
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
            raise Problem(f"the extension did not build for PostgreSQL {major} (cargo's message is above)")
        built = target_folder(environment) / "release" / "libpgml.so"
        # Cargo has one place for the library whatever it was built for: keep one a major.
        kept = built.with_name(f"pgml-{major}.so")
        if not kept.exists() or not filecmp.cmp(built, kept, shallow=False):
            replace(built, kept, 0o755)
    return kept


def environment_for(pg_config):
    """The environment in which Cargo builds the extension for the PostgreSQL of `pg_config`."""
    # libclang from a wheel comes without the compiler's own headers (stddef.h and its like).
    include = subprocess.run([compiler(), "-print-file-name=include"], capture_output=True, text=True, check=True)
    return {
        **os.environ,
        "PGRX_PG_CONFIG_PATH": str(pg_config),
        "LIBCLANG_PATH": str(LIBCLANG),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{include.stdout.strip()}",
    }


def target_folder(environment):
    """Cargo's target folder."""
    return ROOT / environment.get("CARGO_TARGET_DIR", "target")


def files(pg_config, library):
    """What an installation consists of: pairs of a file and the place it goes to."""
    libraries = Path(ask(pg_config, "--pkglibdir"))
    scripts = Path(ask(pg_config, "--sharedir")) / "extension"
    yield library, libraries / "pgml.so"
    yield EXTENSION / "pgml.control", scripts / "pgml.control"
    for script in sorted((EXTENSION / "sql").glob("pgml--*.sql")):
        yield script, scripts / script.name
    # libxgboost.so finds its libgomp at ../../xgboost_cpu.libs.
    for folder in ("xgboost/lib", "xgboost_cpu.libs"):
        for source in sorted((XGBOOST / folder).glob("*.so*")):
            yield source, libraries / "pgml" / folder / source.name


def install(pg_config, library):
    """Puts the extension into the PostgreSQL of `pg_config`; gives what was new or changed."""
    wanted = list(files(pg_config, library))
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
    library = build(tree.headers_config)
    with locked(f"pg{tree.major}"):
        install(tree.program("pg_config"), library)


def install_into_system(pg_config):
    """`make install`: builds for the PostgreSQL of `pg_config` and installs there, where it may write."""
    major = major_of(pg_config)
    library = target_folder(os.environ) / "release" / f"pgml-{major}.so"
    # Under sudo there is often no cargo: what the user has built is good.
    if shutil.which("cargo") is not None or not library.exists():
        library = build(pg_config)
    changed = install(pg_config, library)
    return major, changed
