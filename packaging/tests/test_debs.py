"""What `make deb` leaves in `dist/`: installed, started, upgraded and removed, on this machine and Debian's own cluster."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from devkit import notices
from devkit.places import ROOT, SYSTEM_POSTGRES
from devkit.release import paths
from devkit.server import free_port
from devkit.wheels import DIST

CONFIGURATION = Path("/etc/howdah/howdah.toml")
CLUSTER = "howdah_test"


def run(*command, check=True, **options):
    """What a command prints."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd="/",
        timeout=120,
        **options,
    )
    assert not check or done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def debian():
    """A Debian on which packages can be installed, and none of ours is."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to install packages")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg")
    for name in ("howdah-pooler", "postgresql-15-pgml"):
        if is_installed(name):
            pytest.skip(f"{name} is installed here, and stays as it is")


def is_installed(package):
    done = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Abbrev}", package], capture_output=True, text=True, check=False
    )
    return done.stdout.startswith(("ii", "rc"))


@pytest.fixture(scope="module")
def packages(debian):
    """The packages by name, made by the command of docs/guide/install.md."""
    for old in DIST.glob("*.deb"):
        old.unlink()
    done = subprocess.run(["make", "deb"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name.split("_")[0]: path for path in DIST.glob("*.deb")}


def next_revision(package, folder):
    """The same package, of the revision after it."""
    run("dpkg-deb", "--raw-extract", package, folder / "next")
    control = folder / "next" / "DEBIAN" / "control"
    control.write_text(control.read_text().replace("-1\nArchitecture", "-2\nArchitecture"))
    run("dpkg-deb", "--root-owner-group", "--build", folder / "next", folder / "next.deb")
    return folder / "next.deb"


@pytest.fixture
def purged():
    """Takes the packages away again whatever happens."""
    names = []
    yield names.append
    for name in names:
        run("dpkg", "--purge", name, check=False)


class Service:
    """The pooler, started by what its unit says, with this test in systemd's place."""

    def __init__(self):
        lines = Path("/lib/systemd/system/howdah-pooler.service").read_text().splitlines()
        unit = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        assert unit["Type"] == "notify"
        self.user = pwd.getpwnam(unit["User"])
        self.states = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.states.settimeout(20)
        # A name of the kernel's: it needs no folder that both accounts can reach.
        self.states.bind(f"\0howdah-test-{os.getpid()}")
        runtime = Path("/run") / unit["RuntimeDirectory"]
        runtime.mkdir(exist_ok=True)
        os.chown(runtime, self.user.pw_uid, self.user.pw_gid)
        self.process = subprocess.Popen(
            unit["ExecStart"].split(),
            user=self.user.pw_uid,
            group=self.user.pw_gid,
            extra_groups=[],
            env={"NOTIFY_SOCKET": f"@howdah-test-{os.getpid()}"},
        )

    def said(self):
        """The next state that systemd is told."""
        return self.states.recv(100).decode().strip()

    def end(self):
        """Ends it as systemd does; the states on the way and the status."""
        try:
            self.process.send_signal(signal.SIGTERM)
            return self.said(), self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            self.states.close()
            shutil.rmtree("/run/howdah", ignore_errors=True)


@pytest.fixture
def cluster():
    """A cluster of Debian's own for the test; gives its port."""
    if shutil.which("pg_createcluster") is None or not (SYSTEM_POSTGRES / "15").exists():
        pytest.skip("needs Debian's PostgreSQL 15 (apt-get install postgresql-15)")
    port = free_port()
    run("pg_createcluster", "15", CLUSTER, "--port", port)
    try:
        run("pg_ctlcluster", "--skip-systemctl-redirect", "15", CLUSTER, "start")
        yield port
    finally:
        run("pg_dropcluster", "--stop", "15", CLUSTER, check=False)


def psql(port, sql, *options, host="/var/run/postgresql", **arguments):
    command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, *options, "-c", sql]
    return run(*command, **arguments).strip()


AS_POSTGRES = {"user": "postgres", "group": "postgres", "extra_groups": []}
USER = '\n[users.howdah_test]\npassword = "secret"\n'


def test_a_package_has_its_licences_and_no_path_of_this_machine(packages, tmp_path):
    for name, package in packages.items():
        run("dpkg-deb", "--extract", package, tmp_path / name)
        licence = (tmp_path / name / "usr/share/doc" / name / "copyright").read_text()
        crates = notices.linked("howdah-pooler") if name == "howdah-pooler" else notices.linked("pgml", "pg15")
        assert [crate["name"] for crate in crates if f"{crate['name']} {crate['version']} (" not in licence] == []
        assert name == "howdah-pooler" or ("Apache-2.0" in licence and "Microsoft" in licence)
        for file in (tmp_path / name).rglob("*"):
            found = [path for path in paths() if file.is_file() and bytes(path) in file.read_bytes()]
            assert not found, f"{file} has {found} in it"


def test_the_pooler_installs_starts_upgrades_and_goes(packages, tmp_path, purged, cluster):
    purged("howdah-pooler")
    run("dpkg", "--install", packages["howdah-pooler"])
    owner = CONFIGURATION.stat()
    assert (owner.st_uid, owner.st_gid, owner.st_mode & 0o777) == (0, pwd.getpwnam("howdah").pw_gid, 0o640)
    assert "is valid: " in run("howdah-pooler", "check", CONFIGURATION)
    page = run("zcat", "/usr/share/man/man1/howdah-pooler.1.gz")
    assert "howdah\\-pooler\\-check(1)" in page
    for command in re.findall(r"howdah\\-pooler\\-(\w+)\(1\)", page):
        assert f"howdah\\-pooler\\-{command}" in run("zcat", f"/usr/share/man/man1/howdah-pooler-{command}.1.gz")
    run("bash", "-n", "/usr/share/bash-completion/completions/howdah-pooler")
    psql(cluster, "CREATE ROLE howdah_test LOGIN PASSWORD 'secret'", **AS_POSTGRES)
    port = free_port()
    changed = CONFIGURATION.read_text().replace("listen_port = 6432", f"listen_port = {port}") + USER
    CONFIGURATION.write_text(changed.replace('host = "127.0.0.1"', f'host = "127.0.0.1"\nport = {cluster}'))
    service = Service()
    try:
        assert service.said() == "READY=1"
        who = ["-U", "howdah_test", "postgres"]
        for host in ("127.0.0.1", "/run/howdah"):
            assert ask_pooler(port, host, who) == "howdah_test"
        service.process.send_signal(signal.SIGHUP)
        assert [service.said(), service.said()] == ["RELOADING=1", "READY=1"]
        run("dpkg", "--install", next_revision(packages["howdah-pooler"], tmp_path))
        assert "-2" in run("dpkg-query", "-W", "howdah-pooler")
        # What the administrator has written stays, and so does the process, which systemd would have restarted.
        assert USER in CONFIGURATION.read_text()
        assert ask_pooler(port, "127.0.0.1", who) == "howdah_test"
    finally:
        assert service.end() == ("STOPPING=1", 0)
    run("dpkg", "--remove", "howdah-pooler")
    assert CONFIGURATION.exists() and not Path("/usr/bin/howdah-pooler").exists()
    run("dpkg", "--purge", "howdah-pooler")
    assert not CONFIGURATION.exists()


def ask_pooler(port, host, who):
    environment = {**os.environ, "PGPASSWORD": "secret"}
    command = ["psql", "-XAtq", "-h", host, "-p", str(port), *who, "-c", "SELECT current_user"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_unit_is_one_that_systemd_takes(packages, purged):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze (apt-get install systemd)")
    purged("howdah-pooler")
    run("dpkg", "--install", packages["howdah-pooler"])
    unit = "/lib/systemd/system/howdah-pooler.service"
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "howdah" not in done.stderr, done.stderr
    # From 0, nothing to be had, to 10: above this the unit is not what it says it is.
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


def test_the_extension_installs_upgrades_and_goes(packages, tmp_path, purged, cluster):
    library = SYSTEM_POSTGRES / "15" / "lib" / "pgml.so"
    if library.exists():
        pytest.skip(f"{library} is there, of no package")
    purged("postgresql-15-pgml")
    run("dpkg", "--install", packages["postgresql-15-pgml"])
    run("createdb", "-p", cluster, "app", **AS_POSTGRES)
    table = "CREATE TABLE r AS SELECT i::real AS x, (i > 50)::int AS y FROM generate_series(1, 100) i"
    psql(cluster, "CREATE EXTENSION pgml", "app", **AS_POSTGRES)
    psql(cluster, table, "app", **AS_POSTGRES)
    for algorithm in ("xgboost", "lightgbm"):
        trained = f"SELECT project FROM pgml.train('{algorithm}', 'classification', 'r', 'y', '{algorithm}')"
        assert psql(cluster, trained, "app", **AS_POSTGRES) == algorithm
    run("dpkg", "--install", next_revision(packages["postgresql-15-pgml"], tmp_path))
    assert psql(cluster, "SELECT pgml.predict('xgboost', ARRAY[1]::real[])", "app", **AS_POSTGRES) == "0"
    run("dpkg", "--purge", "postgresql-15-pgml")
    assert not library.exists() and not library.with_suffix("").exists()
