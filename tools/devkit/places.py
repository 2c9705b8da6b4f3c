"""Where things are, and as whom servers run.

Everything made here lies under `build/` in the clone. One case is different: PostgreSQL refuses to run as root, so for
root the servers run as the user postgres (or nobody), and where that user cannot read the clone (one under /root, say)
what the servers need is staged in `/var/tmp/howdah-<digest of the clone's path>`.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pwd
import subprocess
from pathlib import Path

from devkit import Problem

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
VENV = BUILD / "venv"
WHEELS = BUILD / "wheels"
STAMPS = BUILD / "stamps"
SYSTEM_POSTGRES = Path("/usr/lib/postgresql")


@functools.lru_cache(maxsize=None)
def server_user():
    """The account that servers run as when we are root (`pwd.struct_passwd`), or None when they run as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise Problem("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")


def as_server_user():
    """Keyword arguments for `subprocess` that run a child as the account of the servers."""
    user = server_user()
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def give_to_server_user(path):
    """Makes `path` the property of the account that servers run as."""
    user = server_user()
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


def clone_is_readable():
    """Whether the account of the servers can reach `build/`."""
    BUILD.mkdir(parents=True, exist_ok=True)
    probe = subprocess.run(
        ["/bin/sh", "-c", 'test -r "$0" && test -x "$0"', str(BUILD)], cwd="/", check=False, **as_server_user()
    )
    return probe.returncode == 0


@functools.lru_cache(maxsize=None)
def runtime():
    """The folder of what servers read and write: `build/`, or the staging folder where they cannot reach it."""
    if server_user() is None or clone_is_readable():
        return BUILD
    digest = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
    staging = Path("/var/tmp") / f"howdah-{digest}"
    staging.mkdir(mode=0o755, exist_ok=True)
    # The name is predictable and /var/tmp is everybody's: do not run what somebody else put there.
    if staging.is_symlink() or staging.stat().st_uid != os.geteuid():
        raise Problem(f"{staging} belongs to somebody else: remove it, or put the clone where servers can read it")
    staging.chmod(0o755)
    return staging


@contextlib.contextmanager
def locked(name):
    """Holds the lock `name`, so that two runs side by side do not set up the same thing at once."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    with open(STAMPS / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
