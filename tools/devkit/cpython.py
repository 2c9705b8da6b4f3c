"""CPythons that the machine does not have, for wheels of the driver.

They are JavaCPP's builds on Maven Central (Python's licence), whole interpreters with headers and pip.
"""

import io
import platform
import shutil
import subprocess
import zipfile

from devkit import Problem, maven
from devkit.places import BUILD, locked
from devkit.say import note, timed

ARTIFACT = "org.bytedeco:cpython:{version}:jar:linux-x86_64"
INSIDE = "org/bytedeco/cpython/linux-x86_64/"
# By minor version: the build, and the SHA-256 of its archive.
BUILDS = {14: ("3.14.3-1.5.13", "eb5f1a6fe2dc498ac18927189a37f28a47b0ba06ae6bd85112eff023fe2eb46f")}


def fetched(present):
    """Paths of interpreters by minor version, of those that are not `present`; why one could not be fetched is said."""
    missing = sorted(BUILDS.keys() - present)
    if not missing or platform.machine() != "x86_64":
        return {}
    if not maven.is_here():
        note(f"without Maven, CPython {', '.join(f'3.{minor}' for minor in missing)} is not fetched")
        return {}
    found = {}
    for minor in missing:
        try:
            found[minor] = str(interpreter(minor))
        except Problem as problem:
            note(f"CPython 3.{minor} is not here: {problem}")
    return found


def interpreter(minor):
    """The path of an interpreter, fetched on first use."""
    version, digest = BUILDS[minor]
    home = BUILD / "cpython" / version
    with locked(f"cpython{minor}"):
        if not home.exists():
            with timed(f"fetching CPython {version.partition('-')[0]} (27 MB)"):
                unpack(maven.fetch(ARTIFACT.format(version=version), digest), home)
    program = home / "bin" / f"python3.{minor}"
    if subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode != 0:
        raise Problem(f"{program} does not run on this machine")
    return program


def unpack(content, home):
    """Unpacks the interpreter; what JavaCPP adds to it stays behind."""
    partly = home.with_name(f"{home.name}.partly")
    shutil.rmtree(partly, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            inner = entry.filename.removeprefix(INSIDE)
            if entry.is_dir() or inner == entry.filename or "jni" in inner.rpartition("/")[2]:
                continue
            target = partly / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(entry))
            if inner.startswith("bin/"):
                target.chmod(0o755)
    partly.rename(home)
