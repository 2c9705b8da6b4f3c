"""What the tests of the synchronous interface share."""

import json
import os
import subprocess
import sys
import textwrap
import time


def wait_until(other, condition, *values):
    """Waits for something that the server tells."""
    end = time.monotonic() + 30
    while not other.execute(f"select {condition}", values).fetchone()[0]:
        assert time.monotonic() < end, condition


def in_process(program, spec):
    """What a program prints that is given the arguments for a connection, and neither fails nor complains."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), json.dumps(spec)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout.strip()
