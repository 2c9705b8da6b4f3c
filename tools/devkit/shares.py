"""Holds processes to a share of the CPU: control groups of version 1 and 2.

    with Shares("howdah-1") as shares:
        share = shares.add("replica-1", 0.25)     # a quarter of a core
        share.take(pids)                          # these, and all that they start from now on

Only root may make groups in most places; `why_not` says what is in the way.
"""

import contextlib
import os
import time
from pathlib import Path

from devkit import Problem

# Microseconds. A server stands still for the rest of a period once its share of it is used. A longer period makes that
# longer, and the pooler takes a statement of 50 ms for slow and keeps its like out of the shared lanes; a shorter one
# lets what it does after each stop meet cold caches.
PERIOD = 20_000
# The kernel takes no smaller part of a period.
LEAST = 1_000
# A server gets its share before others get anything, ten times the usual weight: it is to have it as on a machine of
# its own, whatever else runs here.
WEIGHTS = {1: ("cpu.shares", 10 * 1024), 2: ("cpu.weight", 10 * 100)}
# A flag of a process in /proc/PID/stat (PF_EXITING of the kernel): the end of the process has begun.
EXITING = 0x4
# The files that hold a group to a quota.
QUOTAS = {1: "cpu.cfs_quota_us", 2: "cpu.max"}
MOUNTS = Path("/proc/mounts")


def controller(mounts=MOUNTS):
    """Where CPU is controlled: the version of control groups and the folder of their root; None if nowhere."""
    unified = None
    for line in mounts.read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return 1, Path(folder)
        if kind == "cgroup2" and "cpu" in words(Path(folder) / "cgroup.controllers"):
            unified = 2, Path(folder)
    return unified


def why_not(mounts=MOUNTS):
    """Why no share can be given here; None when it can."""
    found = controller(mounts)
    if found is None:
        return "no control groups with the cpu controller are mounted"
    version, root = found
    probe = root / f"howdah-probe-{os.getpid()}"
    try:
        if version == 2:
            # In a container the root may be full of processes: then it cannot give its controllers on.
            (root / "cgroup.subtree_control").write_text("+cpu")
        probe.mkdir()
        held = (probe / QUOTAS[version]).exists()
        probe.rmdir()
    except OSError as error:
        return f"{root} is not writable ({error.strerror})"
    return None if held else f"{root} has no {QUOTAS[version]}: the kernel cannot hold processes to a quota"


class Shares:
    """A group of shares, by the name of its folder below the root of the controller."""

    def __init__(self, name, mounts=MOUNTS):
        found = controller(mounts)
        if found is None:
            raise Problem(why_not(mounts))
        self.version, self.root = found
        self.folder = self.root / name

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()

    def add(self, name, cores):
        """A share of so many cores, empty yet."""
        if self.version == 2:
            for above in (self.root, self.folder):
                above.mkdir(exist_ok=True)
                (above / "cgroup.subtree_control").write_text("+cpu")
        self.folder.mkdir(exist_ok=True)
        share = Share(self.version, self.folder / name)
        share.folder.mkdir(exist_ok=True)
        for folder in (self.folder, share.folder):
            file, weight = WEIGHTS[self.version]
            (folder / file).write_text(str(weight))
        share.set(cores)
        return share

    def of(self, name):
        """A share that was added before."""
        return Share(self.version, self.folder / name)

    def remove(self):
        """Takes all shares away; the processes in them have ended."""
        if not self.folder.exists():
            return
        for share in [folder for folder in self.folder.iterdir() if folder.is_dir()]:
            Share(self.version, share).remove()
        remove(self.folder)


class Share:
    """The share of one server."""

    def __init__(self, version, folder, processes=Path("/proc")):
        self.version = version
        self.folder = folder
        self.processes = processes

    def set(self, cores):
        """Changes the share to so many cores; None is no limit."""
        period = PERIOD if cores is None else max(PERIOD, round(LEAST / cores))
        quota = None if cores is None else round(period * cores)
        if self.version == 2:
            (self.folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
        else:
            # A quota above the period's is refused where the parent has less: so lift it first.
            (self.folder / "cpu.cfs_quota_us").write_text("-1")
            (self.folder / "cpu.cfs_period_us").write_text(str(period))
            (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def take(self, pids):
        """Puts processes into it, with all that they start from now on; those that have ended are passed over."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.folder / "cgroup.procs").write_text(str(pid))

    def pids(self):
        """The processes in it. While others are born the kernel may leave some out: ask `holds` about one of them."""
        return [int(pid) for pid in words(self.folder / "cgroup.procs")]

    def holds(self, pid):
        """Whether a process is in it; None when it has ended or is ending."""
        process = self.processes / str(pid)
        try:
            lines = (process / "cgroup").read_text().splitlines()
            # The kernel takes an ending process out of its group before the process is gone. So the flags are read
            # after the group: a process that has left its group for this reason shows the flag by then.
            flags = int((process / "stat").read_text().rsplit(")", 1)[1].split()[6])
        except OSError:
            return None
        if flags & EXITING:
            return None
        # A container may see the path below that of its own group.
        own = f"/{self.folder.parent.name}/{self.folder.name}"
        controls = "cpu" if self.version == 1 else ""
        groups = [line.split(":", 2)[1:] for line in lines]
        return any(controls in names.split(",") and path.endswith(own) for names, path in groups)

    def stopped(self):
        """How many periods there were in which it was used at all, and in how many of them used up."""
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        counts = dict(line.split()[:2] for line in lines)
        return int(counts.get("nr_periods", 0)), int(counts.get("nr_throttled", 0))

    def remove(self):
        """Takes it away."""
        remove(self.folder)


def remove(folder, seconds=5):
    """Removes a group, waiting for the last of its processes to be buried."""
    deadline = time.monotonic() + seconds
    while folder.exists():
        try:
            folder.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise Problem(f"{folder} cannot be removed: {error.strerror}") from error
            time.sleep(0.05)


def words(path):
    """The words of a file; none if it cannot be read."""
    with contextlib.suppress(OSError):
        return path.read_text().split()
    return []
