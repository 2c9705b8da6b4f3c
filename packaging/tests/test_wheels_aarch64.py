"""The driver's wheel for aarch64, run by Debian's Python 3.11 for aarch64 in QEMU's emulator of that processor."""

import shutil
import subprocess
import zipfile

import pytest
from mirrors import mirrors
from test_wheels import EACH

from devkit import postgres, wheels
from devkit.places import ROOT
from devkit.server import Server

MINOR = 11
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@pytest.fixture
def emulator():
    """The program that runs others for aarch64."""
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if found is None:
        pytest.skip("needs QEMU's emulator (apt-get install qemu-user-static)")
    return found


@pytest.fixture
def foreign(emulator, tmp_path):
    """A folder with Debian's Python for aarch64, and the libraries that it needs; nothing is installed."""
    mirror = mirrors().get("bookworm")
    if mirror is None:
        pytest.skip("needs a way to the packages of Debian 12")
    apt = tmp_path / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    (apt / "status").touch()
    (apt / "sources").write_text(f"deb [arch=arm64 signed-by={KEYRING}] {mirror} bookworm main\n")
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::SourceList": apt / "sources",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": apt / "lists",
        "Dir::State::Status": apt / "status",
    }
    options = [f"--option={name}={value}" for name, value in settings.items()]
    run("apt-get", *options, "update")
    run("apt-get", *options, "--yes", "--download-only", "--no-install-recommends", "install", f"python3.{MINOR}")
    for package in (apt / "cache" / "archives").glob("*.deb"):
        run("dpkg-deb", "--extract", package, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def wheel():
    """The wheel that `make wheels` leaves in dist/."""
    if not wheels.has_standard_library(wheels.CROSS):
        pytest.skip(f"needs Rust's standard library for aarch64 (rustup target add {wheels.CROSS})")
    name = f"howdah-{wheels.workspace_version()}-cp3{MINOR}-*_aarch64.whl"
    if not list(wheels.DIST.glob(name)):
        subprocess.run(["make", "wheels", "ONLY=driver"], cwd=ROOT, check=True)
    return next(wheels.DIST.glob(name))


def run(*command, **options):
    """What a command prints."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_for_aarch64_asks_a_server(emulator, foreign, wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    python = [emulator, "-L", foreign, foreign / "usr" / "bin" / f"python3.{MINOR}"]
    assert run(*python, "-c", "import platform; print(platform.machine())") == "aarch64\n"
    with Server(postgres.tree(postgres.NEWEST)) as server:
        said = run(*python, "-c", EACH, server.url("postgres"), env={"PYTHONPATH": str(tmp_path / "site")})
    assert said == f"{wheels.workspace_version()} [1, 2] [(3,)]\n"
