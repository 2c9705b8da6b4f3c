"""All parts of Howdah have one version, that of Cargo.toml."""

import re
from itertools import pairwise

import pytest

from devkit import wheels
from devkit.places import ROOT

VERSION = wheels.workspace_version()


def found(path, pattern):
    """What the pattern's group matches in a file: once."""
    (match,) = re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE)
    return match


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("driver/pyproject.toml", r'^version = "(.+)"'),
        ("driver/python/howdah/_version.py", r'^__version__ = "(.+)"'),
        ("console/pyproject.toml", r'^version = "(.+)"'),
        ("console/pyproject.toml", r'"howdah==([\d.]+)"'),
        ("console/howdah_console/__init__.py", r'^__version__ = "(.+)"'),
        ("extension/pgml.control", r"^default_version = '(.+)'"),
    ],
)
def test_a_part_has_the_version_of_the_workspace(path, pattern):
    assert found(path, pattern) == VERSION


def test_a_crate_takes_the_version_of_the_workspace():
    members = (ROOT / "Cargo.toml").read_text().partition("members = [")[2].partition("]")[0]
    crates = [ROOT / member / "Cargo.toml" for member in re.findall('"(.+)"', members)]
    assert len(crates) > 10
    assert [crate for crate in crates if "\nversion.workspace = true\n" not in crate.read_text()] == []


@pytest.mark.parametrize("lock", ["Cargo.lock", "fuzz/Cargo.lock"])
def test_a_lock_has_the_crates_of_the_workspace_at_its_version(lock):
    packages = (ROOT / lock).read_text().split("[[package]]\n")[1:]
    ours = [package for package in packages if "\nsource = " not in package]
    versions = dict(re.match(r'name = "(.+)"\nversion = "(.+)"', package).groups() for package in ours)
    # No part of Howdah, and no member.
    versions.pop("fuzz", None)
    assert {"forest", "pooling", "wire"} <= versions.keys()
    assert {name: version for name, version in versions.items() if version != VERSION} == {}


def test_scripts_lead_from_each_version_of_the_extension_to_this_one():
    folder = ROOT / "extension" / "sql"
    steps = dict(re.match(r"pgml--(.+)--(.+)\.sql", path.name).groups() for path in folder.glob("pgml--*--*.sql"))
    (version,) = (
        path.name.removeprefix("pgml--").removesuffix(".sql")
        for path in folder.glob("pgml--*.sql")
        if path.name.count("--") == 1
    )
    while steps:
        version = steps.pop(version)
    assert version == VERSION


def test_the_changelog_has_this_version_behind_what_is_not_released():
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert titles.pop(0) == "Unreleased"
    releases = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", title).groups() for title in titles]
    assert ".".join(releases[0][:3]) == VERSION
    numbers = [(tuple(map(int, release[:3])), release[3]) for release in releases]
    assert all(newer[0] > older[0] and newer[1] >= older[1] for newer, older in pairwise(numbers))
