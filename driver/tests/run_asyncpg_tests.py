"""Run asyncpg's own tests with howdah in asyncpg's place.

The tests come from asyncpg's source distribution (`pip download --no-binary :all: --no-deps asyncpg==0.32.0`,
unpacked), and need its package `distro`; they are not part of this repository. Each failure is looked up in `asyncpg_differences.toml`, which says
why it has to be; one that is not there, or that is there and passes, is a failure of this run.

    python driver/tests/run_asyncpg_tests.py --sdist asyncpg-0.32.0 --pg build/.../pginstall18 [pytest arguments]
"""

from __future__ import annotations

import argparse
import atexit
import os
import pathlib
import pwd
import re
import shutil
import stat
import subprocess
import sys
import tempfile

import pytest

if sys.version_info >= (3, 11):
    import tomllib

OPTIONS = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")
HERE = pathlib.Path(__file__).resolve().parent


def drop_root(tree: pathlib.Path, into: pathlib.Path) -> pathlib.Path:
    """A folder with PostgreSQL's programs, which run as the user postgres (or nobody) when the tests run as root."""
    if os.getuid() != 0:
        return tree
    user = next(name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()})
    programs = into / "bin"
    programs.mkdir(mode=0o755)
    into.chmod(0o755)
    for program in (tree / "bin").iterdir():
        wrapper = programs / program.name
        # Data folders are made by the tests, as root.
        wrapper.write_text(
            "#!/bin/sh\n"
            'for a in "$@"; do case "$a" in /tmp/*) [ -d "$a" ] && chown -R %s "$a";; esac; done\n'
            "cd /tmp\n"
            'exec setpriv --reuid %s --regid %s --clear-groups "%s" "$@"\n' % (user, user, user, program)
        )
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return into


def not_in(tree: pathlib.Path, name: str, message: str) -> str | None:
    """What a test needs that this PostgreSQL has not, if that is why it failed."""
    if match := re.search('extension "(.*)" is not available', message):
        return f"this PostgreSQL has no {match[1]}"
    if "SSLConnection" in name and "the server exited" in message:
        asked = subprocess.run([tree / "bin" / "pg_config", "--configure"], capture_output=True, text=True, check=True)
        if not re.search("--with-(openssl|ssl)", asked.stdout):
            return "this PostgreSQL has no TLS"
    return None


class Outcomes:
    """Takes down which tests failed, and why."""

    def __init__(self) -> None:
        self.failed: dict[str, str] = {}
        self.passed: set[str] = set()
        self.skipped = 0

    def pytest_collectreport(self, report):
        """Notes a file that cannot be read as tests."""
        if report.failed:
            message = str(report.longrepr).strip().rpartition("\n")[2]
            self.failed[pathlib.PurePath(report.nodeid).stem] = message[:200]

    def pytest_runtest_logreport(self, report):
        """Notes how a test, or a subtest of it, ended."""
        name = report.nodeid.partition("::")[2] or report.nodeid
        file = pathlib.PurePath(report.nodeid.partition("::")[0]).stem
        name = f"{file}::{name}"
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = str(crash.message if crash else report.longrepr).strip()
            self.failed.setdefault(name, message.partition("\n")[0][:200])
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed.add(name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sdist", type=pathlib.Path, required=True, help="asyncpg's source distribution, unpacked")
    parser.add_argument("--pg", type=pathlib.Path, required=True, help="a PostgreSQL installation (has bin/pg_ctl)")
    parser.add_argument("--uvloop", action="store_true", help="on uvloop in place of asyncio")
    options, rest = parser.parse_known_args()
    sdist = options.sdist.resolve()
    if options.uvloop:
        os.environ["USE_UVLOOP"] = "1"

    import howdah

    howdah.install_as_asyncpg()
    place = pathlib.Path(tempfile.mkdtemp(prefix="howdah-asyncpg-tests-"))
    # The tests' own server is stopped at the exit too, before this: last in, first out.
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    os.environ["PGINSTALLATION"] = str(drop_root(options.pg.resolve(), place) / "bin")
    # The helpers of asyncpg's tests are inside its package.
    helpers = place / "helpers"
    helpers.mkdir()
    (helpers / "_testbase").symlink_to(sdist / "asyncpg" / "_testbase")
    howdah.__path__.append(str(helpers))
    outcomes = Outcomes()
    tests = sdist / "tests"
    names = [argument for argument in rest if not argument.startswith("-") and (tests / argument).exists()]
    rest = [argument for argument in rest if argument not in names]
    targets = [str(tests / name) for name in names] or [str(tests)]
    pytest.main([*targets, f"--rootdir={sdist}", "-c", "/dev/null", *OPTIONS, *rest], [outcomes])
    known = {}
    if sys.version_info >= (3, 11):
        known = tomllib.loads((HERE / "asyncpg_differences.toml").read_text(encoding="utf-8"))
    wrong = 0
    for name, message in sorted(outcomes.failed.items()):
        reason = known.get(name) or not_in(options.pg, name, message)
        wrong += reason is None
        print(f"{'as known' if reason else 'FAILED  '} {name}: {reason or message}")
    must_fail = {name for name, reason in known.items() if not reason.startswith("sometimes: ")}
    for name in sorted(outcomes.passed & must_fail):
        wrong += 1
        print(f"PASSES   {name}: take it out of asyncpg_differences.toml")
    passed = len(outcomes.passed)
    print(f"{passed} passed, {len(outcomes.failed)} failed ({wrong} not accounted for), {outcomes.skipped} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
