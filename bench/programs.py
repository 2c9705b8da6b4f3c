"""The small C programs of the benches, compiled when they are needed, and what runs of them."""

import contextlib
import os
import subprocess
from pathlib import Path

from devkit import Problem
from devkit.places import ROOT, as_server_user
from devkit.setup import compiler


def compiled(name, folder):
    """The program of `bench/NAME.c`, in a folder that any account may run it from."""
    program = Path(folder) / name
    command = [compiler(), "-O2", "-o", str(program), str(ROOT / "bench" / f"{name}.c")]
    if subprocess.run(command, check=False).returncode != 0:
        raise Problem(f"bench/{name}.c did not compile (the compiler's message is above)")
    return program


@contextlib.contextmanager
def running(command, log):
    """A program that runs as the account of the servers until the block ends; it must not have ended before."""
    with open(log, "w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd="/", **as_server_user())
    try:
        yield process
        if process.poll() is not None:
            raise Problem(f"{Path(command[0]).name} has ended: {Path(log).read_text()[-300:]}")
    finally:
        process.kill()
        process.wait()


def cpu_of(pid):
    """Seconds of processor time that a process has used."""
    return sum(cpu_by_thread(pid).values())


def cpu_by_thread(pid):
    """Seconds of processor time that each thread of a process has used, by its id and name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            name = (task / "comm").read_text().strip()
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            ticks = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            found[int(task.name), name] = precise(task) or ticks
    return found


def precise(task):
    """The same in nanoseconds, as the scheduler counts it; None where the kernel was made without."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    return None
