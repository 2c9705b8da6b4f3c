"""The password file of libpq: `host:port:database:user:password` on each line."""

from __future__ import annotations

import pathlib
import re
import stat
import warnings
from collections.abc import Iterator, Sequence
from typing import Optional

from . import compat

# Four fields in which a backslash protects a colon, and the password, in which colons need no protection.
_LINE = re.compile(r"((?:[^\\:]|\\.)*):" * 4 + "(.*)")

PGPASSFILE = "pgpass.conf" if compat.SYSTEM == "Windows" else ".pgpass"


def _read_password_file(passfile: pathlib.Path) -> list[tuple[str, ...]]:
    """The fields of each line of `passfile`; none at all if others could read it, as libpq does."""
    try:
        if not passfile.exists():
            return []
        if not passfile.is_file():
            warnings.warn(f"password file {str(passfile)!r} is not a plain file", stacklevel=2)
            return []
        if compat.SYSTEM != "Windows" and passfile.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.warn(
                f"password file {str(passfile)!r} has group or world access; permissions should be u=rw (0600) or less",
                stacklevel=2,
            )
            return []
        return list(_lines(passfile.read_text()))
    except OSError:
        return []


def _lines(text: str) -> Iterator[tuple[str, ...]]:
    for line in map(str.strip, text.splitlines()):
        found = _LINE.fullmatch(line)
        if found is not None and not line.startswith("#"):
            yield found.groups()


def _unescaped(field: str) -> str:
    return re.sub(r"\\(.)", r"\1", field)


def _fits(field: str, value: str) -> bool:
    # A backslash takes the meaning from the colon or backslash that follows. asyncpg compares such a field as it is
    # written, so that counts too.
    return field in ("*", value) or _unescaped(field) == value


def _read_password_from_pgpass(
    *, passfile: Optional[pathlib.Path], hosts: Sequence[str], ports: Sequence[int], database: str, user: str
) -> Optional[str]:
    """The password of the first line that fits one of the hosts; None if there is none."""
    lines = _read_password_file(passfile) if passfile is not None else []
    for host, port in zip(hosts, ports):
        # The file knows Unix sockets by this name.
        name = "localhost" if host.startswith("/") else host
        wanted = (name, str(port), database, user)
        for line in lines:
            if all(map(_fits, line, wanted)):
                return _unescaped(line[4])
    return None
