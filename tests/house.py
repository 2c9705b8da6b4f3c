"""A house: a folder with a virtual environment in it, where pip has installed what the project makes, and nothing else is.

No compiler and no cargo is on its PATH, pip asks no index, and for root its owner is an ordinary account.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devkit import setup, wheels
from devkit.places import locked, runtime

TIMEOUT = 300


class House:
    """A folder with an installation, and an account that lives there."""

    def __init__(self, folder, venv, user, dist):
        self.folder = folder
        self.venv = venv
        self.user = user
        self.dist = dist

    @contextlib.contextmanager
    def started(self, *command):
        """A command that finds nothing on its PATH but what pip has installed."""
        running = subprocess.Popen(
            list(map(str, command)),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **({"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}),
        )
        with running:
            try:
                yield running
            finally:
                running.kill()

    def run(self, *command, check=True):
        """What such a command comes to."""
        with self.started(*command) as running:
            said, complained = running.communicate(timeout=TIMEOUT)
        assert not check or running.returncode == 0, f"{command}: {said}\n{complained}"
        return subprocess.CompletedProcess(command, running.returncode, said, complained)

    def environment(self):
        """What a command finds around it."""
        dropped = ("PYTHON", "PG", "VIRTUAL_ENV", "CARGO", "PYENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        links = f"{self.dist} {wheelhouse()}"
        own = {"PATH": str(self.venv / "bin"), "HOME": str(self.folder), "TMPDIR": str(self.folder)}
        return {**kept, **own, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links}

    def server(self, *arguments, **options):
        """What `howdah-server` comes to."""
        return self.run("howdah-server", *arguments, **options)

    def refused(self, *arguments):
        """The one sentence by which `howdah-server` refuses."""
        done = self.server(*arguments, check=False)
        assert done.returncode == 1, done.stdout + done.stderr
        assert done.stderr.startswith("howdah-server: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr.strip()


def wheelhouse():
    """The packages that `howdah-server` depends on, as pip downloads them."""
    return runtime() / "wheelhouse"


def bare_python():
    """A Python that every account can run, with nothing installed."""
    for candidate in dict.fromkeys(
        (sys._base_executable, shutil.which("python3", path="/usr/bin"), *wheels.pythons_here().values())
    ):
        command = [candidate, "-c", "import ensurepip, sys; assert sys.version_info >= (3, 10)"]
        with contextlib.suppress(OSError, TypeError):
            if subprocess.run(command, capture_output=True, check=False, cwd="/", **as_ordinary()).returncode == 0:
                return candidate
    raise AssertionError(
        "no Python 3.10 or newer is here that an ordinary user can run, with venv (apt-get install python3-venv)"
    )


def ordinary():
    """The account of an ordinary user when we are root, else None for our own."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def as_ordinary():
    user = ordinary()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


def fill_wheelhouse():
    """Downloads what is pinned in requirements/wheelhouse.txt for the bare Python, once."""
    pins = setup.REQUIREMENTS / "wheelhouse.txt"
    version = subprocess.run([bare_python(), "-VV"], capture_output=True, check=True).stdout
    mark = setup.stamp("wheelhouse", pins.read_bytes(), version, str(wheelhouse()).encode())
    with locked("wheelhouse"):
        if mark.exists():
            return
        shutil.rmtree(wheelhouse(), ignore_errors=True)
        # By a pip of its own: the account that downloads may not be the one that installs.
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run([bare_python(), "-m", "venv", scratch], check=True)
            command = [f"{scratch}/bin/pip", "--quiet", "--disable-pip-version-check", "download"]
            command += ["--only-binary=:all:", "--require-hashes", f"--requirement={pins}", f"--dest={wheelhouse()}"]
            subprocess.run(command, check=True)
        setup.leave(mark)


@contextlib.contextmanager
def built(dist):
    """A house that everybody can reach; pip finds there what is in the folder `dist`, and what that depends on."""
    folder = Path(tempfile.mkdtemp(prefix="howdah-pip-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        if ordinary():
            os.chown(folder, ordinary().pw_uid, ordinary().pw_gid)
        fill_wheelhouse()
        subprocess.run([bare_python(), "-m", "venv", folder / "venv"], check=True, cwd="/", **as_ordinary())
        yield House(folder, folder / "venv", ordinary(), dist)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def emptied(house, user, where=None):
    """The house with an empty folder of the account's (root's for None), whose servers are ended in the end."""
    folder = Path(tempfile.mkdtemp(prefix="h-", dir=where or house.folder))
    folder.chmod(0o755)
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    fresh = House(folder, house.venv, user, house.dist)
    try:
        yield fresh
    finally:
        for data in folder.glob("*/data"):
            fresh.server("down", data.parent, check=False)
        shutil.rmtree(folder)
