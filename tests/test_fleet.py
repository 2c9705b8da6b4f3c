"""`make fleet`: a primary, replicas, poolers and HAProxy, and the shares of the CPU that its servers are held to."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bench.fleet import patroni
from devkit import Problem, fleet, programs, sharded, shares
from devkit.places import ROOT, runtime


def test_the_guide_shows_the_settings_of_patroni_that_the_bench_runs_with():
    text = (ROOT / "docs" / "guide" / "production.md").read_text().split("```yaml\n")[1].split("```")[0]
    assert yaml.safe_load(text) == {"bootstrap": {"dcs": patroni.DCS}}


def devkit(*arguments):
    """The devkit as the Makefile runs it, but for what is patched below."""
    return subprocess.run(
        [sys.executable, "-c", f"{PATCH}\nsys.argv = {['devkit', *arguments]!r}\nsys.exit(devkit.__main__.main())"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "tools:.", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


# The tests build the pooler with its assertions, and `make fleet` would build it without: minutes for the same fleet.
# And a fleet of yours may be up.
PATCH = """
import sys
import devkit.__main__, devkit.fleet, devkit.fleet_up
from devkit.places import runtime
from tests.pooler.process import PROGRAM
devkit.fleet.program = lambda: PROGRAM
devkit.fleet_up.home = lambda: runtime() / "test-fleet"
devkit.fleet_up.build_pooler = lambda: None
devkit.fleet_up.build_into = lambda tree: None
"""


@pytest.fixture
def haproxy():
    """Skips where HAProxy is missing, and says so."""
    try:
        return programs.installed("haproxy")
    except Problem as missing:
        pytest.skip(str(missing))


@pytest.fixture
def home():
    """Where the fleet of a test is; it is gone afterwards."""
    devkit("fleet-down")
    yield runtime() / "test-fleet"
    devkit("fleet-down")


def processes_of(home):
    """Command lines of the processes that have to do with a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home) in line:
            found.append(line)
    return found


def test_a_fleet_comes_up_answers_and_goes_without_a_trace(major, haproxy, home):
    done = devkit("fleet", "--replicas", "2", "--poolers", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    running = fleet.Fleet.load(home)
    assert running.url in done.stdout
    assert [running.name_of(server) for server in running.servers] == ["primary", "replica-1", "replica-2"]

    minutes = "SELECT round(pgml.predict('flights', keyed)::numeric, 1), inet_server_port() FROM keyed WHERE id = 7"
    predicted, port = running.psql(minutes).split("|")
    assert float(predicted) >= 0
    assert int(port) in [replica.port for replica in running.replicas], "replicas serve what the primary has trained"
    running.psql("INSERT INTO ledger VALUES (1, 1)")
    assert running.primary.psql("SELECT count(*) FROM ledger", running.database) == "1"

    reason = shares.why_not()
    if reason:
        assert reason in done.stdout, "that servers have no share is said"
    else:
        for server in running.servers:
            share = running.shares.of(running.name_of(server))
            # Each process is asked itself: a list of the group is not of one moment.
            outside = {pid for pid in fleet.server_pids(server) if share.holds(pid) is False}
            # But for those that ended meanwhile, whose number may be another's.
            assert not outside & set(fleet.server_pids(server))
        assert not set(running.shares.of("primary").pids()) & {program.pid for program in running.poolers}

    once = devkit("fleet-status", "--once")
    rows = {line.split()[0]: line.split()[2] for line in once.stdout.splitlines()[1:]}
    expected = {"primary": "primary", "replica-1": "replica", "replica-2": "replica", "pooler-1": "up", "haproxy": "up"}
    assert rows == expected
    assert re.search(r"transactions/s", once.stdout)

    assert "already" in devkit("fleet").stdout
    group = running.shares.folder if running.shares else None
    assert devkit("fleet-down").returncode == 0
    assert processes_of(home) == []
    assert not home.exists()
    assert group is None or not group.exists()
    assert "no fleet is up" in devkit("fleet-down").stdout
    assert "make fleet" in devkit("fleet-status").stderr


# A parent of many children that live, and of some that come and go all the time.
CROWD = """
import os, subprocess, sys, time
living = [subprocess.Popen(["sleep", "600"]) for _ in range(40)]
print(*(child.pid for child in living), flush=True)
while True:
    going = [os.spawnlp(os.P_NOWAIT, "true", "true") for _ in range(8)]
    for pid in going:
        os.waitpid(pid, 0)
"""


def test_no_child_is_missed_while_others_come_and_go():
    parent = subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        living = set(map(int, parent.stdout.readline().split()))
        assert len(living) == 40
        for _ in range(100):
            assert living <= set(fleet.children_of(parent.pid))
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait(10)
        parent.stdout.close()


def test_without_haproxy_the_package_is_named(monkeypatch):
    monkeypatch.setattr(programs.shutil, "which", lambda name, path=None: None)
    with pytest.raises(Problem, match="apt-get install haproxy"):
        programs.installed("haproxy")
    with pytest.raises(Problem, match="no ab, no wrk: `apt-get install apache2-utils wrk`"):
        programs.require(["ab", "wrk"])


def controllers(folder, *lines):
    """A file as /proc/mounts."""
    mounts = folder / "mounts"
    mounts.write_text("".join(f"{line}\n" for line in lines))
    return mounts


def test_shares_of_version_2(tmp_path):
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu io\n")
    mounts = controllers(tmp_path, f"cgroup2 {root} cgroup2 rw,nsdelegate 0 0")
    share = shares.Shares("howdah", mounts).add("replica-1", 0.25)
    assert (root / "cgroup.subtree_control").read_text() == (root / "howdah" / "cgroup.subtree_control").read_text()
    assert (root / "cgroup.subtree_control").read_text() == "+cpu"
    assert (share.folder / "cpu.max").read_text() == "5000 20000"
    assert (share.folder / "cpu.weight").read_text() == (root / "howdah" / "cpu.weight").read_text() == "1000"
    share.set(0.01)
    assert (share.folder / "cpu.max").read_text() == "1000 100000", "the kernel takes no quota under a millisecond"
    share.set(None)
    assert (share.folder / "cpu.max").read_text() == "max 20000"
    share.take([7])
    assert (share.folder / "cgroup.procs").read_text() == "7"


def test_shares_of_version_1_go_before_those_of_2(tmp_path):
    one, two = tmp_path / "cpu", tmp_path / "unified"
    for root in (one, two):
        root.mkdir()
    (two / "cgroup.controllers").write_text("hugetlb\n")
    mounts = controllers(
        tmp_path, f"cgroup {one} cgroup rw,relatime,cpu,cpuacct 0 0", f"cgroup2 {two} cgroup2 rw,relatime 0 0"
    )
    share = shares.Shares("howdah", mounts).add("primary", 2)
    assert (share.folder / "cpu.cfs_period_us").read_text() == "20000"
    assert (share.folder / "cpu.cfs_quota_us").read_text() == "40000"
    assert share.folder.is_relative_to(one)


@pytest.mark.parametrize(
    "version, held, elsewhere",
    [
        (1, "3:cpu,cpuacct:/howdah/primary\n1:name=systemd:/\n", "3:cpu:/howdah/replica-1\n2:memory:/howdah/primary\n"),
        (2, "0::/docker/7/howdah/primary\n", "0::/howdah/primary-2\n"),
    ],
)
def test_a_process_itself_says_which_share_it_is_in(tmp_path, version, held, elsewhere):
    # The kernel shows a process that is ending (10) outside its group.
    for pid, lines, flags in ((7, held, 0x400000), (8, elsewhere, 0x400000), (10, elsewhere, 0x400004)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(lines)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) b) S 1 {pid} {pid} 0 -1 {flags} 0 0")
    share = shares.Share(version, tmp_path / "howdah" / "primary", tmp_path)
    assert [share.holds(pid) for pid in (7, 8, 9, 10)] == [True, False, None, None]


@pytest.mark.skipif(shares.why_not() is not None, reason="no shares can be given here")
def test_a_parent_that_is_held_bears_nobody_outside():
    parent = subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE, text=True, start_new_session=True)
    group = shares.Shares(f"howdah-test-{os.getpid()}")
    try:
        parent.stdout.readline()
        share = group.add("parent", 1)
        share.take([parent.pid])
        share.take(fleet.children_of(parent.pid))
        for _ in range(20):
            outside = {pid for pid in fleet.children_of(parent.pid) if share.holds(pid) is False}
            assert not outside & set(fleet.children_of(parent.pid))
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait(10)
        parent.stdout.close()
        group.remove()


def test_why_there_are_no_shares_is_said(tmp_path):
    assert "no control groups" in shares.why_not(controllers(tmp_path, "proc /proc proc rw 0 0"))
    gone = tmp_path / "gone"
    mounts = controllers(tmp_path, f"cgroup {gone} cgroup rw,cpu 0 0")
    assert "not writable" in shares.why_not(mounts)
    # A plain folder makes no quota's file in a new group, as a kernel without quotas does not.
    gone.mkdir()
    for version, line in ((1, f"cgroup {gone} cgroup rw,cpu 0 0"), (2, f"cgroup2 {gone} cgroup2 rw 0 0")):
        (gone / "cgroup.controllers").write_text("cpu")
        told = shares.why_not(controllers(tmp_path, line))
        assert f"no {shares.QUOTAS[version]}" in told
        assert not list(gone.glob("howdah-*"))


def test_a_sharded_database_comes_up_routes_and_goes_without_a_trace(major, home):
    done = devkit("fleet", "--shards", "2", "--replicas", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    running = sharded.ShardedFleet.load(home)
    assert running.url in done.stdout and "SHOW ROUTE" in done.stdout
    assert [running.name_of(server) for server in running.servers] == [
        "hub", "s1", "s2", "hub-replica-1", "s1-replica-1", "s2-replica-1",
    ]  # fmt: skip
    joined = "SELECT count(*) FROM orders JOIN customers USING (customer_id) JOIN countries USING (country)"
    assert running.psql(joined) == "50000"
    homes = {running.psql(f"SHOW ROUTE FOR '{joined} WHERE customer_id = {i}'").split("|")[0] for i in range(1, 20)}
    assert homes == {"s1", "s2"}
    running.psql("BEGIN; INSERT INTO orders (customer_id, total) VALUES (7, 1) RETURNING order_id; COMMIT")
    assert running.psql(f"{joined} WHERE customer_id = 7") == "6"
    once = devkit("fleet-status", "--once")
    rows = {line.split()[0]: line.split()[2] for line in once.stdout.splitlines()[1:]}
    assert set(rows) == {*map(running.name_of, running.servers), "pooler-1"}, once.stderr
    assert rows["s1"] == "primary" and rows["s1-replica-1"] == "replica" and rows["pooler-1"] == "up"
    assert "already" in devkit("fleet").stdout
    assert devkit("fleet-down").returncode == 0
    assert processes_of(home) == [] and not home.exists()
