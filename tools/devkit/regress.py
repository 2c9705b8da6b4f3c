"""The SQL tests: each script of `extension/tests/sql` runs in a database of its own, and must print what
`extension/tests/expected` holds, on every PostgreSQL alike.
"""

import difflib
import re
import subprocess

from devkit.places import ROOT
from devkit.server import environment

SCRIPTS = ROOT / "extension" / "tests" / "sql"
EXPECTED = ROOT / "extension" / "tests" / "expected"
# A training reports progress when it takes longer than a second, which depends on the machine.
PROGRESS = re.compile(r"^INFO:  (Round \d+ of .*|\d+ rows read)\n", re.MULTILINE)


def scripts():
    """The names of the SQL tests."""
    return sorted(path.stem for path in SCRIPTS.glob("*.sql"))


def run(server, name):
    """What the script prints, as psql echoes it."""
    database = f"sql_{name}"
    server.psql(f'DROP DATABASE IF EXISTS "{database}"')
    server.psql(f'CREATE DATABASE "{database}"')
    # From standard input, so that messages do not carry a path and a line number.
    with open(SCRIPTS / f"{name}.sql") as script:
        done = subprocess.run(
            server.psql_command(database, "--echo-all", "--quiet"),
            stdin=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
            check=False,
        )
    server.psql(f'DROP DATABASE "{database}" WITH (FORCE)')
    return PROGRESS.sub("", done.stdout)


def difference(name, output):
    """A unified diff of what was expected to `output`; empty when they agree."""
    path = EXPECTED / f"{name}.out"
    expected = path.read_text() if path.exists() else ""
    return unified(expected, output, f"expected/{name}.out", f"results/{name}.out")


def unified(expected, output, expected_name, output_name):
    """The lines in which two texts differ, as a unified diff; empty when they agree."""
    lines = difflib.unified_diff(expected.splitlines(), output.splitlines(), expected_name, output_name, lineterm="")
    return "\n".join(lines)


def update(name, output):
    """Makes `output` what is expected from now on."""
    EXPECTED.mkdir(parents=True, exist_ok=True)
    (EXPECTED / f"{name}.out").write_text(output)
