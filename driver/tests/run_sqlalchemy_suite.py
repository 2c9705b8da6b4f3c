"""Run SQLAlchemy's own tests of dialects (sqlalchemy.testing.suite) on `postgresql+howdah` and `postgresql+howdah_async`.

What fails is looked up in `sqlalchemy_differences.toml`, which says why; what is not there, or is there and passes, fails
this run.

    PYTHONPATH=tools:.:driver/python build/venv/bin/python -m driver.tests.run_sqlalchemy_suite [howdah_async] [pytest arguments]
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from devkit import postgres
from devkit.server import Server

HERE = pathlib.Path(__file__).resolve().parent
# One with PostgreSQL's own extensions, of which the tests use citext and hstore: Debian's.
PG = int(os.environ.get("HOWDAH_SUITE_PG", "15"))
DIALECTS = ("howdah", "howdah_async")

CONFTEST = """
import howdah.sqlalchemy
import pytest
import sqlalchemy as sa
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")
import sqlalchemy.dialects.postgresql.provision
from sqlalchemy.testing.plugin.pytestplugin import *
"""
SETUP = """
[sqla_testing]
requirement_cls = driver.tests.sqlalchemy_requirements:Requirements
profile_file = profiles.txt
[db]
default = {url}
"""
SUITE = """
from howdah.dbapi import StreamCursor
from sqlalchemy.testing.suite import *
from sqlalchemy.testing.suite import ServerSideCursorsTest as Theirs


class ServerSideCursorsTest(Theirs):
    def _is_server_side(self, cursor):
        # Theirs knows the drivers that SQLAlchemy has.
        return isinstance(cursor, StreamCursor) or getattr(cursor, "server_side", False)


del Theirs
"""
PROGRAM = """
import json, pathlib, pytest, sys
from driver.tests.run_asyncpg_tests import Outcomes
outcomes = Outcomes()
code = pytest.main(["-q", "-p", "no:cacheprovider", "test_suite.py", *sys.argv[1:]], [outcomes])
pathlib.Path("outcomes.json").write_text(json.dumps([sorted(outcomes.passed), outcomes.failed, outcomes.skipped, int(code)]))
"""


def run(dialect, server, rest):
    """Runs the suite; which tests passed, which failed and why, and how many were skipped."""
    import json

    url = (
        server.url("suite")
        .replace("postgres://", f"postgresql+{dialect}://")
        .replace("postgresql://", f"postgresql+{dialect}://")
    )
    with tempfile.TemporaryDirectory(prefix="howdah-sqlalchemy-") as place:
        folder = pathlib.Path(place)
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "setup.cfg").write_text(SETUP.format(url=url.replace("%", "%%")))
        (folder / "test_suite.py").write_text(SUITE)
        path = os.pathsep.join(str(pathlib.Path(entry).resolve()) for entry in sys.path if entry)
        environment = {**os.environ, "PYTHONPATH": path}
        subprocess.run([sys.executable, "-c", PROGRAM, *rest], cwd=folder, env=environment, check=False)
        passed, failed, skipped, _ = json.loads((folder / "outcomes.json").read_text())
    return [plain(name) for name in passed], {plain(name): message for name, message in failed.items()}, skipped


def plain(name):
    """A test's name without the dialect and the server's version."""
    return re.sub(r"_postgresql\+[a-z_]+(_[0-9]+)*::", "::", name.removeprefix("test_suite::"))


def main():
    import tomllib

    chosen = [name for name in sys.argv[1:] if name in DIALECTS] or DIALECTS
    rest = [argument for argument in sys.argv[1:] if argument not in DIALECTS]
    known = tomllib.loads((HERE / "sqlalchemy_differences.toml").read_text())
    wrong = 0
    for dialect in chosen:
        with Server(postgres.tree(PG), {"max_prepared_transactions": "10"}) as server:
            server.psql("create database suite")
            server.psql("create schema test_schema", "suite")
            passed, failed, skipped = run(dialect, server, rest)
        for name, message in sorted(failed.items()):
            reason = known.get(name)
            wrong += reason is None
            print(f"{'as known' if reason else 'FAILED  '} {name}: {reason or message}")
        if not rest:
            for name in sorted(set(passed) & set(known)):
                wrong += 1
                print(f"PASSES   {name}: take it out of sqlalchemy_differences.toml")
        print(f"{dialect}: {len(passed)} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
