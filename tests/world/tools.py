"""Other people's tools, fetched once: programs in Go, a script with its packages for Node, archives for Java, older packages of Python."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import Problem, maven, setup
from devkit.places import BUILD, locked
from devkit.server import environment
from tests.pooler.process import Pooler

HERE = Path(__file__).parent
THERE = BUILD / "world"
# Flyway 11.8.2 (Apache-2.0) with what it needs, and pgjdbc 42.7.5 (BSD): artifacts, and their digests.
FLYWAY = {
    "org.flywaydb:flyway-core:11.8.2": "0ea41bed2a5f16fa4ec9f7556b0c81f9d767b5091fb6b6d543ef7ec5ced42d09",
    "org.flywaydb:flyway-database-postgresql:11.8.2": "e752ba9bd800222c35cdddedd784cf4adcf42603dc2ac2ea561ed5885bdfc5f3",
    "com.fasterxml.jackson.core:jackson-annotations:2.15.2": "04e21f94dcfee4b078fa5a5f53047b785aaba69d19de392f616e7a7fe5d3882f",
    "com.fasterxml.jackson.core:jackson-core:2.15.2": "303c99e82b1faa91a0bae5d8fbeb56f7e2adf9b526a900dd723bf140d62bd4b4",
    "com.fasterxml.jackson.core:jackson-databind:2.15.2": "0eb2fdad6e40ab8832a78c9b22f58196dd970594e8d3d5a26ead87847c4f3a96",
    "org.postgresql:postgresql:42.7.5": "69020b3bd20984543e817393f2e6c01a890ef2e37a77dd11d6d8508181d079ab",
}


def missing(program):
    """Skips a test where the machine lacks a program that the set-up does not fetch."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")


def run(command, seconds=100, **variables):
    """What a tool prints; its failure is a Problem with what it said."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True, text=True, check=False, timeout=seconds, env=environment() | variables,
    )  # fmt: skip
    if done.returncode != 0:
        raise Problem(f"{' '.join(map(str, command[:3]))}: {(done.stdout + done.stderr).strip()[-3000:]}")
    return done.stdout


def python(*arguments, **variables):
    """The command of this Python."""
    return run([sys.executable, *arguments], **variables)


def in_python(name):
    """The folder of the packages that `tools/requirements/NAME.txt` pins, where they are other versions than this Python's."""
    folder, pins = THERE / name, setup.REQUIREMENTS / f"{name}.txt"
    with locked("world"):
        kept = folder / "pins.txt"
        if not kept.exists() or kept.read_bytes() != pins.read_bytes():
            shutil.rmtree(folder, ignore_errors=True)
            setup.pip(
                "install", "--require-hashes", "--only-binary=:all:", "--target", str(folder), f"--requirement={pins}"
            )
            shutil.copy(pins, kept)
    return folder


def in_go(name):
    """A program of `tests/world/go`."""
    missing("go")
    with locked("world"):
        THERE.mkdir(parents=True, exist_ok=True)
        built = subprocess.run(
            ["go", "build", "-mod=readonly", "-o", str(THERE / name), f"./{name}"],
            cwd=HERE / "go", capture_output=True, text=True, check=False,
        )  # fmt: skip
    if built.returncode != 0:
        raise Problem(f"tests/world/go/{name} did not build: {built.stderr}")
    return THERE / name


def in_node(script):
    """A script of `tests/world/node`, with its packages beside it."""
    missing("npm")
    folder, pins = THERE / "node", (HERE / "node" / "package-lock.json").read_bytes()
    with locked("world"):
        kept = folder / "package-lock.json"
        if not (folder / "node_modules").exists() or not kept.exists() or kept.read_bytes() != pins:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(HERE / "node", folder)
            done = subprocess.run(["npm", "ci", "--silent"], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                shutil.rmtree(folder)
                raise Problem(f"npm could not fetch the packages of tests/world/node: {done.stdout}{done.stderr}")
        shutil.copy(HERE / "node" / script, folder)
    return folder / script


def class_path():
    """The class path of Flyway and pgjdbc."""
    missing("java")
    missing("mvn")
    folder = THERE / "java"
    with locked("world"):
        folder.mkdir(parents=True, exist_ok=True)
        for artifact, digest in FLYWAY.items():
            jar = folder / f"{'-'.join(artifact.split(':')[1:])}.jar"
            if not jar.exists():
                content = maven.fetch(artifact, digest)
                jar.with_suffix(".part").write_bytes(content)
                os.replace(jar.with_suffix(".part"), jar)
    return ":".join(str(path) for path in sorted(folder.glob("*.jar")))


@contextlib.contextmanager
def two_ways(server, **settings):
    """URLs of two empty databases, by the way to them: the server itself, and a pooler before it."""
    names = {"direct": "world_direct", "pooled": "world_pooled"}
    for name in names.values():
        server.psql(f"CREATE DATABASE {name}")
    try:
        with Pooler(server, default_pool_size=5, **settings) as pooler:
            url = server.url(names["pooled"]).replace(f":{server.port}/", f":{pooler.port}/")
            yield {"direct": server.url(names["direct"]), "pooled": url}
    finally:
        for name in names.values():
            server.psql(f"DROP DATABASE {name} WITH (FORCE)")


def dump(server, database, *options):
    """A dump of a database, without what is different in each."""
    text = server.run("pg_dump", *options, database).stdout
    return re.sub(r"^\\(un)?restrict .*\n", "", text, flags=re.MULTILINE)
