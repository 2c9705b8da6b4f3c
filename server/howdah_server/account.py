"""The account that a server runs as: the caller's own, or for root another, since PostgreSQL does not run as root."""

import os
import pwd
import subprocess

from howdah_server.problem import Problem

CANDIDATES = ("postgres", "nobody")


def account(data):
    """The entry of the user database for the account that owns, or is to own, the data folder `data`."""
    mine = os.geteuid()
    if mine != 0:
        return entry(mine)
    if data.exists() and data.stat().st_uid != 0:
        return entry(data.stat().st_uid)
    for name in CANDIDATES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Problem(
        "PostgreSQL does not run as root, and there is no account postgres or nobody to run it as: "
        "run this as an ordinary user, or make an account (useradd --system postgres)"
    )


def entry(uid):
    """The entry of a user id."""
    try:
        return pwd.getpwuid(uid)
    except KeyError as error:
        raise Problem(
            f"the user id {uid} has no name in /etc/passwd, and PostgreSQL needs one: run this as a user with a name"
        ) from error


def run_as(owner):
    """Keyword arguments for `subprocess` that run a child as the account `owner`."""
    if os.geteuid() == owner.pw_uid:
        return {}
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def give(path, owner):
    """Makes `path` the property of the account `owner`."""
    if os.geteuid() == 0:
        os.chown(path, owner.pw_uid, owner.pw_gid)


def reaches(path, owner, what="-x"):
    """Whether the account `owner` may read (`-r`) or enter (`-x`) what is at `path`."""
    try:
        probe = subprocess.run(["/bin/sh", "-c", f'test {what} "$0"', str(path)], cwd="/", check=False, **run_as(owner))
    except OSError as error:
        raise Problem(
            f"root may not run programs as the account {owner.pw_name} here ({error.strerror}): "
            "run this as an ordinary user"
        ) from error
    return probe.returncode == 0
