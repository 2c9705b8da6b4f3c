"""The crowd of `tests/crowd` against servers of one's own, directly or through poolers."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from devkit import Problem
from devkit.places import ROOT, give_to_server_user
from devkit.server import Server

PROFILE = os.environ.get("HOWDAH_CROWD_PROFILE", "debug")
PROGRAM = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / PROFILE / "crowd"


@contextlib.contextmanager
def server_for_crowd(tree, **settings):
    """A server that lets in everybody from here, for as many connections as a crowd makes."""
    home = Path(tempfile.mkdtemp(prefix="howdah-crowd-", dir="/tmp"))
    hba = home / "hba"
    hba.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    for path in (home, hba):
        give_to_server_user(path)
        path.chmod(0o700 if path.is_dir() else 0o600)
    given = {"hba_file": hba, "max_connections": 400, "synchronous_commit": "off", "timezone": "UTC", **settings}
    try:
        with Server(tree, given) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


def crowd(server, *arguments, pooler=None, **options):
    """Runs the crowd: its exit code and what it has printed."""
    if not PROGRAM.exists():
        raise Problem(f"{PROGRAM} is not built: `cargo build -p crowd`")
    target = ["--direct"] if pooler is None else ["--pooler", f"127.0.0.1:{pooler.port}"]
    command = [PROGRAM, "--server", f"127.0.0.1:{server.port}", *target, *arguments]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout
