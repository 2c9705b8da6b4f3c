"""Archives of Maven Central, which `mvn` fetches through whatever repository it is set up with."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from devkit import Problem

# Far more than it takes; a repository that does not answer must not hold up a build.
FETCH_SECONDS = 120


def is_here():
    """Whether there is anything to fetch with."""
    return shutil.which("mvn") is not None


def fetch(artifact, digest):
    """The bytes of an artifact (`group:name:version`, perhaps with type and classifier), checked against a SHA-256."""
    with tempfile.TemporaryDirectory(prefix="howdah-maven-") as folder:
        command = ["mvn", "--quiet", "--batch-mode", "dependency:copy", f"-Dartifact={artifact}"]
        command.append(f"-DoutputDirectory={folder}")
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise Problem(f"Maven did not fetch {artifact} in {FETCH_SECONDS} s") from late
        found = next(Path(folder).glob("*.jar"), None)
        if done.returncode != 0 or found is None:
            raise Problem(f"Maven could not fetch {artifact}: {done.stdout.strip()[-500:]}")
        content = found.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise Problem(f"{artifact} is not what it was when it was chosen: its SHA-256 is another")
    return content
