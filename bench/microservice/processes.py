"""Processes that end with the bench, and what they cost: CPU and memory, of a whole family of processes."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from devkit import Problem
from devkit.server import end_with

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 60


class Running:
    """A process and its children, in a group of their own: gone with `stop`, or with the bench, however that dies."""

    def __init__(self, name, command, log, environment=None, **options):
        self.name, self.log = name, Path(log)
        parent = os.getpid()
        with open(self.log, "w") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=lambda: end_with(parent),
                **options,
            )
        self.pid = self._process.pid

    def wait_until(self, ready):
        """Waits until `ready()` is true; a process that ends before has its log told."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Problem(f"{self.name} did not start: {self.log.read_text()[-1500:]}")
            time.sleep(0.05)

    def stop(self):
        """Ends the process and its children, and waits until they have ended: their ports and memory are free."""
        members = family([self.pid])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + 5
        while any(map(lives, members)) and time.monotonic() < deadline:
            time.sleep(0.01)


def family(roots):
    """The process ids of `roots` and of all that descends from them."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            children.setdefault(int(fields_of(stat)[1]), []).append(int(stat.parent.name))
    found, waiting = [], list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def lives(pid):
    """Whether a process is there and has not ended."""
    try:
        return fields_of(f"/proc/{pid}/stat")[0] not in "ZX"
    except OSError:
        return False


def fields_of(stat):
    """The fields of a stat file of /proc that come after the program's name: the state is the first."""
    return Path(stat).read_text().rsplit(")", 1)[1].split()


def cpu_seconds(roots):
    """The CPU that a family has used: its living members, and those that have ended and were waited for."""
    ticks = 0
    for pid in family(roots):
        with contextlib.suppress(OSError, IndexError):
            ticks += sum(map(int, fields_of(f"/proc/{pid}/stat")[11:15]))
    return ticks / TICKS


def pss_bytes(roots):
    """The memory of a family, each shared page divided among those that share it."""
    total = 0
    for pid in family(roots):
        with contextlib.suppress(OSError, AttributeError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE).group(1)) * 1024
    return total
