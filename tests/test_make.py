"""The Makefile and the tools behind it."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import extension, postgres, setup
from devkit.places import ROOT


def make(*arguments, **environment):
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_has_a_sentence_for_every_target():
    listed = re.findall(r"^make ([\w-]+) +\S.*\.$", make("help").stdout, re.MULTILINE)
    wanted = ["help", "setup", "build", "demo", "up", "console", "down", "fleet", "fleet-status", "fleet-down"]
    wanted += ["test", "test-packages", "sanitize", "lint", "bench", "fuzz", "wheels", "deb", "docs"]
    wanted += ["install", "clean"]
    assert sorted(listed) == sorted(wanted)


def test_one_of_the_packages_for_pip_can_be_asked_for():
    assert make("--dry-run", "wheels", "ONLY=server").stdout.endswith(" wheels --only server\n")
    done = make("wheels", "ONLY=both")
    assert done.returncode != 0 and "choose from 'server', 'driver', 'console'" in done.stderr


def programs(folder, names):
    """A folder with links to these programs and no others."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


@pytest.mark.parametrize(
    ("without", "hint"), [("cargo", "rustup.rs"), ("gcc", "apt-get install gcc")], ids=["rust", "c_compiler"]
)
def test_a_missing_toolchain_gets_one_line(tmp_path, without, hint):
    there = programs(tmp_path / "bin", {"cargo", "gcc", "sh", "make", "uname"} - {without})
    done = make("build", PATH=there, CC="", PYTHON=sys.executable)
    assert done.returncode != 0
    complaint = [line for line in done.stderr.splitlines() if not re.match(r"make(\[\d+\])?: ", line)]
    assert len(complaint) == 1
    assert hint in complaint[0]


def test_install_puts_everything_into_the_postgresql_of_pg_config(major, tmp_path):
    """As `make install PG_CONFIG=...` does, into a PostgreSQL that nobody has installed into before."""
    home = tmp_path / "postgresql"
    original = postgres.tree(major)
    root = next(folder for folder in original.bin.parents if folder.parent.name == "pg")
    shutil.copytree(root, home, symlinks=True)
    pg_config = home / original.bin.relative_to(root) / "pg_config"
    libraries = Path(postgres.ask(pg_config, "--pkglibdir"))
    scripts = Path(postgres.ask(pg_config, "--sharedir")) / "extension"
    shutil.rmtree(libraries / "pgml")
    for old in [libraries / "pgml.so", *scripts.glob("pgml*")]:
        old.unlink()
    (scripts / "pgml--0.0.1.sql").write_text("-- left behind by another version")

    changed = set(extension.install(pg_config))

    script = next((ROOT / "extension" / "sql").glob("pgml--*.sql")).name
    expected = {libraries / "pgml.so", scripts / "pgml.control", scripts / script}
    assert expected <= changed
    assert (libraries / "pgml" / "xgboost" / "lib" / "libxgboost.so").exists()
    assert list((libraries / "pgml" / "xgboost_cpu.libs").glob("libgomp*"))
    assert not (scripts / "pgml--0.0.1.sql").exists()
    for file in changed:
        assert stat.S_IMODE(file.stat().st_mode) & 0o444 == 0o444
    assert extension.install(pg_config) == []


def test_install_refuses_a_postgresql_it_does_not_support(tmp_path):
    fake = tmp_path / "pg_config"
    fake.write_text("#!/bin/sh\necho PostgreSQL 12.9\n")
    fake.chmod(0o755)
    done = make("install", f"PG_CONFIG={fake}")
    assert done.returncode != 0
    assert "PostgreSQL 13 to 18 are supported" in done.stderr


def test_install_says_so_when_there_is_no_such_pg_config():
    done = make("install", "PG_CONFIG=/nowhere/pg_config")
    assert done.returncode != 0
    assert "/nowhere/pg_config" in done.stderr


def test_all_packages_are_pinned_with_digests():
    for path in setup.REQUIREMENTS.glob("*.txt"):
        for line in path.read_text().replace("\\\n", " ").splitlines():
            if line and not line.startswith("#"):
                assert re.match(r"[\w.-]+==\S+( ;.*?)?\s+--hash=sha256:", line), f"{path.name}: {line[:60]}"


def test_the_picture_is_what_its_script_draws():
    drawn = subprocess.run([sys.executable, ROOT / "docs" / "system.py"], capture_output=True, text=True, check=True)
    assert drawn.stdout == (ROOT / "docs" / "system.svg").read_text(), "python docs/system.py > docs/system.svg"


def test_the_extension_for_tests_is_stale_when_a_source_or_the_compiler_has_changed(major, tmp_path, monkeypatch):
    config = postgres.tree(major).headers_config
    (tmp_path / "one file.rs").write_text("fn one() {}")
    listed = tmp_path / "libpgml.d"
    listed.write_text(f"{tmp_path}/libpgml.so: {tmp_path}/one\\ file.rs {tmp_path}/gone.rs\n")
    monkeypatch.setattr(extension, "sources", lambda _major: listed)
    first = extension.stamp_of(config)
    assert extension.stamp_of(config) == first
    (tmp_path / "one file.rs").write_text("fn two() {}")
    second = extension.stamp_of(config)
    monkeypatch.setenv("RUSTFLAGS", "-Copt-level=0")
    assert len({first, second, extension.stamp_of(config)}) == 3


def test_some_tests_can_be_asked_for():
    asked = make("--dry-run", "test", "PG=16", "ARGS=tests/test_sql.py -k train").stdout
    assert asked.endswith(" test --pg 16  -- tests/test_sql.py -k train\n")
