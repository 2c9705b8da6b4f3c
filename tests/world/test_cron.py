"""Debian's pg_cron runs the checks and trainings that the guides schedule."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from devkit import postgres
from devkit.server import Server
from tests.conftest import fresh, majors

# The one that Debian 12 has a package of pg_cron for.
MAJOR = 15
SETTINGS = {
    "shared_preload_libraries": "pg_cron",
    "cron.database_name": "nightly",
    "cron.use_background_workers": "on",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory, request):
    """PostgreSQL with pg_cron beside the extension."""
    if MAJOR not in majors(request.config):
        pytest.skip(f"it needs PostgreSQL {MAJOR}, which is not tested in this run")
    folder = tmp_path_factory.mktemp("cron")
    try:
        fetch = ["apt-get", "--quiet", "--quiet", "download", f"postgresql-{MAJOR}-cron"]
        subprocess.run(fetch, cwd=folder, capture_output=True, check=True)
        subprocess.run(
            ["dpkg", "-x", str(next(folder.glob("*.deb"))), "."], cwd=folder, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError, StopIteration):
        pytest.skip(f"apt-get does not find postgresql-{MAJOR}-cron here")
    tree = postgres.tree(MAJOR)
    for option, of_package in (("--pkglibdir", "lib/postgresql/{}/lib"), ("--sharedir", "share/postgresql/{}")):
        # A running server keeps the old file.
        for source in (folder / "usr" / of_package.format(MAJOR)).glob("**/pg_cron*"):
            if source.suffix in (".so", ".sql", ".control"):
                part = source.relative_to(folder / "usr" / of_package.format(MAJOR))
                target = Path(postgres.ask(tree.program("pg_config"), option)) / part
                target.unlink(missing_ok=True)
                shutil.copyfile(source, target)
                target.chmod(0o644)
    return tree


def test_schedules_run_as_those_who_made_them(tree):
    with Server(tree, SETTINGS) as server, fresh(server, "nightly") as database:
        database.sql("""
            CREATE EXTENSION pg_cron;
            CREATE ROLE analyst LOGIN;
            GRANT INSERT ON pgml.projects TO analyst;
            GRANT USAGE ON SCHEMA cron TO analyst;
            SELECT pgml.load_dataset('diabetes');
            GRANT SELECT ON pgml.diabetes TO analyst;
            SET SESSION AUTHORIZATION analyst;
            SELECT pgml.train('progress', 'regression', 'pgml.diabetes', 'target', 'ridge');
            SELECT pgml.watch('progress', 'pgml.diabetes');
            SELECT cron.schedule('watch progress', '* * * * *', $$SELECT pgml.check('progress')$$);
            SELECT cron.schedule('retrain', '* * * * *', $$SELECT pgml.train_async('progress', algorithm => 'lasso')$$);
        """)
        done = "SELECT (SELECT count(*) FROM pgml.checks), (SELECT count(*) FROM pgml.jobs WHERE status = 'done')"
        end = time.monotonic() + 100
        while "|0" in (found := "|" + database.sql(done)) and time.monotonic() < end:
            time.sleep(0.5)
        told = database.sql("SELECT jobid, username, status, return_message FROM cron.job_run_details")
        assert "|0" not in found, told
        assert database.sql("SELECT DISTINCT username FROM cron.job_run_details") == "analyst"
        assert database.sql("SELECT algorithm FROM pgml.models ORDER BY id LIMIT 2") == "ridge\nlasso"
        database.sql("SELECT cron.unschedule(jobid) FROM cron.job")
