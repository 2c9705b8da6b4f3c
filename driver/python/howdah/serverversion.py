"""The version of a server, from the text that it reports."""

from __future__ import annotations

import re
from typing import Final

from .types import ServerVersion

_VERSION: Final = re.compile(
    r"(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<micro>\d+))?(?:\.\d+)*(?:(?P<level>[a-z]+)(?P<serial>\d+)?)?"
)


def split_server_version_string(version_string: str) -> ServerVersion:
    """Read the version out of `version_string`.

    Parameters
    ----------
    version_string : str
        The server's ``server_version``, or the text that ``postgres --version`` prints after the name.

    Raises
    ------
    ValueError
        There is no version in it.
    """
    found = _VERSION.search(version_string)
    if found is None:
        raise ValueError(f'Unable to parse Postgres version from "{version_string}"')
    major = int(found["major"])
    minor = int(found["minor"] or 0)
    micro = int(found["micro"] or 0)
    # From 10 on the second number is the one of a bug fix release.
    if major >= 10:
        minor, micro = 0, minor
    return ServerVersion(major, minor, micro, found["level"] or "final", int(found["serial"] or 0))
