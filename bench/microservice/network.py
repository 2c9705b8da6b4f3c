"""Client, service and store in three network namespaces, 0.25 ms from each other.

The kernel here may have no netem, so that `relay/` is the wire: a process that takes packets from a TUN device in one
namespace and puts them into another's a quarter of a millisecond later. It shares the cores with all else, for all
sides alike, and runs before them. What it carries a second, its CPU and how late it is are told beside each side, and
how much it can carry, so that one sees that it is not what is measured.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import re
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.microservice.processes import cpu_seconds
from devkit import Problem, say
from devkit.places import ROOT
from devkit.programs import installed
from devkit.server import end_with
from devkit.setup import check_toolchain

DELAY_US = 250
# Of the network that `ground.prepare` lets in.
ADDRESSES = {"client": "10.213.0.1", "service": "10.213.0.2", "store": "10.213.0.3"}
DEVICE = "howdah0"
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a part runs: the address that others reach it at, and a context in which processes start there."""

    address: str = "127.0.0.1"
    inside: Callable = contextlib.nullcontext


class Network:
    """Three namespaces and the relay between them, gone with the `with` block."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Problem("network namespaces need root: run the bench as root for the part over a network")
        installed("ip")
        sweep()
        self._names = {part: f"howdah-bench-{os.getpid()}-{part}" for part in ADDRESSES}
        self._relay = None

    def __enter__(self):
        program = build_relay()
        try:
            for name in self._names.values():
                ip("netns", "add", name)
            ends = [f"{self._names[part]}={address}" for part, address in ADDRESSES.items()]
            parent = os.getpid()
            self._relay = subprocess.Popen(
                [program, str(DELAY_US), *ends],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                preexec_fn=lambda: end_with(parent),
                text=True,
            )
            if self._relay.stdout.readline() != "ready\n":
                raise Problem(f"the relay did not start: {self._relay.stderr.read().strip()}")
            for part, name in self._names.items():
                ip("-n", name, "address", "add", f"{ADDRESSES[part]}/24", "dev", DEVICE)
                ip("-n", name, "link", "set", DEVICE, "txqueuelen", "10000", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        if self._relay is not None:
            self._relay.kill()
            self._relay.communicate()
        for name in self._names.values():
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def place(self, part):
        """Where a part runs."""
        return Place(ADDRESSES[part], lambda: inside(f"/run/netns/{self._names[part]}"))

    @contextlib.contextmanager
    def watched(self, found):
        """Appends to `found` what the relay did in the block: packets a second, cores used, how late packets were."""
        self._carried()
        before, start = cpu_seconds([self._relay.pid]), time.monotonic()
        yield
        took = time.monotonic() - start
        carried = self._carried()
        cpu = (cpu_seconds([self._relay.pid]) - before) / took
        packets = max(carried["packets"], 1)
        late, off = carried["late_ns"] / packets / 1000, carried["off_ns"] / packets / 1000
        found.append({"rate": packets / took, "cpu": cpu, "late_us": late, "off_us": off})

    def _carried(self):
        self._relay.stdin.write("?\n")
        self._relay.stdin.flush()
        if not select.select([self._relay.stdout], [], [], 10)[0]:
            raise Problem("the relay does not answer")
        return json.loads(self._relay.stdout.readline())


@contextlib.contextmanager
def inside(namespace):
    """In the block, this thread is in a network namespace: sockets it opens and processes it starts stay there."""
    with open("/proc/thread-self/ns/net") as home, open(namespace) as there:
        enter(there)
        try:
            yield
        finally:
            enter(home)


def enter(namespace):
    """Moves this thread."""
    if _libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise Problem(f"a network namespace could not be entered: {os.strerror(ctypes.get_errno())}")


def ip(*arguments):
    """Runs `ip`."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def sweep():
    """Deletes namespaces that benches left which were killed."""
    for line in ip("netns", "list").splitlines():
        found = re.match(r"howdah-bench-(\d+)-\w+", line)
        if found and not Path(f"/proc/{found.group(1)}").exists():
            ip("netns", "delete", found.group(0))


def build_relay():
    """Compiles the relay; gives its path."""
    check_toolchain()
    with say.timed("building the relay"):
        command = ["cargo", "build", "--release", "--package=relay", "--locked"]
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            raise Problem("the relay did not build (cargo's message is above)")
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "relay"
