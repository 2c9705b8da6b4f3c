"""A network of its own for servers, in which one can be cut off: namespaces joined by a bridge.

A server that is unplugged keeps its address and its link; what is sent to it and what it sends is lost without a word,
as when a switch dies. That takes root, and the program `ip`.
"""

import contextlib
import ctypes
import os
import re
import shutil
import subprocess

from devkit import Problem

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """Why there can be no such network here, if so."""
    if os.geteuid() != 0:
        return "cutting a server off takes root (network namespaces)"
    if shutil.which("ip") is None:
        return "cutting a server off takes the program ip (iproute2)"
    return None


def ip(*arguments):
    """What `ip` prints."""
    done = subprocess.run(["ip", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"ip {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """Namespaces 1 to `count`, at `address(number)`; this process is at `address(254)`."""

    def __init__(self, count):
        self.count = count
        self.bridge = f"hwb{os.getpid()}"
        sweep()
        self.net = f"10.213.{os.getpid() % 250}"

    def __enter__(self):
        try:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("addr", "add", f"{self.address(254)}/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            for number in range(1, self.count + 1):
                space = self.space(number)
                ip("netns", "add", space)
                ip("link", "add", self.port(number), "type", "veth", "peer", "name", "eth0", "netns", space)
                ip("-n", space, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
                ip("-n", space, "link", "set", "lo", "up")
                ip("-n", space, "link", "set", "eth0", "up")
                ip("link", "set", self.port(number), "up")
                self.plug(number)
        except BaseException:
            remove(self.bridge)
            raise
        return self

    def __exit__(self, *exception):
        remove(self.bridge)

    @property
    def subnet(self):
        """The network's addresses."""
        return f"{self.net}.0/24"

    def address(self, number):
        """The address of a namespace."""
        return f"{self.net}.{number}"

    def space(self, number):
        """The name of a namespace."""
        return f"{self.bridge}-{number}"

    def port(self, number):
        """The name of the bridge's end of the cable to a namespace."""
        return f"{self.bridge}p{number}"

    def plug(self, number):
        """Joins a namespace to the others."""
        ip("link", "set", self.port(number), "master", self.bridge)

    def unplug(self, number):
        """Cuts a namespace off."""
        ip("link", "set", self.port(number), "nomaster")

    @contextlib.contextmanager
    def inside(self, number):
        """What this thread starts meanwhile lives in that namespace."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.space(number)}") as there:
            enter(there)
            try:
                yield
            finally:
                enter(home)


def remove(bridge):
    """Removes a network. Its namespaces live on for as long as sockets in them do, so cables go by themselves."""
    for link in (*re.findall(rf"\b({bridge}p\d+)@", ip("-o", "link")), bridge):
        with contextlib.suppress(Problem):
            ip("link", "del", link)
    for space in re.findall(rf"^({bridge}-\d+)\b", ip("netns", "list"), re.MULTILINE):
        with contextlib.suppress(Problem):
            ip("netns", "del", space)


def sweep():
    """Removes the networks of processes that have died."""
    for pid in set(re.findall(r"\bhwb(\d+)", ip("-o", "link") + ip("netns", "list"))):
        if not os.path.exists(f"/proc/{pid}") or int(pid) == os.getpid():
            remove(f"hwb{pid}")


def enter(namespace):
    """Moves this thread to a network namespace."""
    if _libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise Problem(f"setns: {os.strerror(ctypes.get_errno())}")
