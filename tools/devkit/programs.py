"""The programs of other projects that the fleet and the benches run beside ours, and where each is to be had."""

import contextlib
import os
import shutil
import subprocess

from devkit import Problem

# Debian's package of each program.
PACKAGES = {
    "ab": "apache2-utils",
    "etcd": "etcd-server",
    "go": "golang-go",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "node": "nodejs",
    "npm": "npm",
    "patroni": "patroni",
    "pgbouncer": "pgbouncer",
    "redis-server": "redis-server",
    "wrk": "wrk",
}


def versions(names):
    """Debian's version of each of these programs, by name; those that are not Debian's are left out."""
    found = {}
    for name in names:
        package = PACKAGES.get(name, name)
        command = ["dpkg-query", "--show", "--showformat=${Version}", package]
        with contextlib.suppress(OSError):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found[name] = done.stdout
    return found


def find(name):
    """The path of a program, also of one that only administrators have on their PATH; None where it is not."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def installed(name):
    """The path of a program; a Problem where it is not."""
    require([name])
    return find(name)


def require(names):
    """Raises a Problem that names all of these programs that are not there, and how to get them at once."""
    missing = [name for name in names if find(name) is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES[name] for name in missing))
        raise Problem(f"there is no {', no '.join(missing)}: `apt-get install {packages}`")
