"""What `make wheels` leaves in `dist/`, and the driver's packages, installed by pip as a user does it."""

import os
import platform
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from devkit import notices, postgres, wheels
from devkit.places import ROOT
from devkit.release import paths
from devkit.server import Server
from tests.house import House, built, emptied

DRIVER = """
import asyncio, howdah, howdah.dbapi, howdah_server

async def ask(dsn):
    connection = await howdah.connect(dsn)
    print(await connection.fetchval("SELECT pgml.add($1::real[], $2::real[])", [1.5], [2]))
    await connection.close()

with howdah_server.start("d") as server:
    asyncio.run(ask(server.dsn))
"""

EACH = """
import asyncio, sys, howdah, howdah.dbapi

async def ask(dsn):
    connection = await howdah.connect(dsn)
    print(howdah.__version__, await connection.fetchval("SELECT ARRAY[$1::int, 2]", 1), end=" ")
    await connection.close()

asyncio.run(ask(sys.argv[1]))
with howdah.dbapi.connect(sys.argv[1]) as connection:
    print(connection.execute("SELECT %s::int", (3,)).fetchall())
"""


@pytest.fixture(scope="module", autouse=True)
def dist():
    """The folder of the packages, made by the command of README.md."""
    for old in (*wheels.DIST.glob("*.whl"), *wheels.DIST.glob("*.tar.gz")):
        old.unlink()
    done = subprocess.run(["make", "wheels"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return wheels.DIST


@pytest.fixture(scope="module")
def house(dist):
    """An empty folder of an ordinary user's, with the server and the driver of `dist`."""
    with built(dist) as home:
        home.run("pip", "install", "howdah-server", "howdah")
        with emptied(home, home.user) as fresh:
            yield fresh


@pytest.fixture(scope="module")
def server():
    """A server to ask."""
    with Server(postgres.tree(postgres.NEWEST)) as server:
        yield server


def contents(package):
    """The files of a wheel or source distribution, by name."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(package) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}


def test_there_is_a_wheel_for_each_python_and_one_of_the_server_and_a_source(dist):
    names = [path.name.split("-") for path in dist.glob(f"*_{platform.machine()}.whl")]
    assert len(list(dist.glob("*.tar.gz"))) == 1
    assert [name[0] for name in names].count("howdah_server") == 1
    assert len({name[2] for name in names if name[0] == "howdah"}) == len(wheels.pythons()) == len(names) - 1


def test_no_path_of_this_machine_is_in_a_package(dist):
    # Debian packages may lie beside them.
    for package in [*dist.glob("*.whl"), *dist.glob("*.tar.gz")]:
        for name, content in contents(package).items():
            for path in paths():
                assert bytes(path) not in content, f"{package.name}: {name} has {path} in it"


def test_each_wheel_has_the_licences_of_what_is_linked_into_it(dist):
    console = contents(next(dist.glob("howdah_console-*-py3-none-any.whl")))
    licence = next(text for name, text in console.items() if name.endswith("dist-info/licenses/LICENSE")).decode()
    assert "htmx" in licence and "Leon Sorokin" in licence
    for package in set(dist.glob("*.whl")) - set(dist.glob("howdah_console-*")):
        of_server = package.name.startswith("howdah_server")
        licence = next(text for name, text in contents(package).items() if name.endswith("dist-info/licenses/LICENSE"))
        for crate in notices.linked("pgml", "pg18") if of_server else notices.linked("howdah"):
            assert f"{crate['name']} {crate['version']} (" in licence.decode(), package.name
        assert b"License-File: LICENSE\n" in next(
            text for name, text in contents(package).items() if name.endswith("dist-info/METADATA")
        )
    source = contents(next(dist.glob("*.tar.gz")))
    assert [text for name, text in source.items() if name.count("/") == 1 and name.endswith("/LICENSE")]


def test_the_driver_says_that_it_is_typed(dist):
    for package in dist.glob("howdah-*.whl"):
        assert {"howdah/py.typed", "howdah/__init__.pyi", "howdah/_core.pyi"} <= contents(package).keys(), package.name


def test_the_driver_installs_without_a_compiler_and_talks_to_the_server(house):
    assert house.run("python", "-c", DRIVER).stdout == "[3.5]\n"


@pytest.mark.parametrize("python", wheels.pythons())
def test_each_python_has_a_wheel_that_asks_a_server(python, dist, server, tmp_path):
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    house = House(tmp_path, tmp_path / "venv", None, dist)
    house.run("pip", "install", "--only-binary=:all:", "howdah")
    assert (
        house.run("python", "-c", EACH, server.url("postgres")).stdout
        == f"{wheels.workspace_version()} [1, 2] [(3,)]\n"
    )


def test_the_drivers_source_says_in_a_sentence_that_it_needs_cargo(house, dist):
    source = shutil.copy(next(dist.glob("howdah-*.tar.gz")), house.folder)
    os.chmod(source, 0o644)
    done = house.run("pip", "install", "--force-reinstall", Path(source), check=False)
    assert done.returncode != 0
    sentence = next(line.strip() for line in done.stderr.splitlines() if "cargo" in line)
    assert sentence.startswith(
        "howdah has no wheel for this Python and system, and to build it from source a Rust toolchain is needed"
    )
    assert "Traceback" not in done.stderr
