"""The statements of `tour.sql`, and the block of README.md that shows them with their output."""

import math
import re
import subprocess
from pathlib import Path

from devkit import Problem
from devkit.places import ROOT
from devkit.server import environment

SCRIPT = Path(__file__).parent / "tour.sql"
README = ROOT / "README.md"
FRACTION = re.compile(r"-?\d+\.\d+")
BEGIN, END = "<!-- tour: made by the demo -->\n", "<!-- end of tour -->\n"


def statements(path=SCRIPT):
    """Pairs of what is said before a statement and the statement, from a script with a blank line between them."""
    for block in path.read_text().strip().split("\n\n"):
        lines = block.splitlines()
        said = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
        yield " ".join(said), "\n".join(line for line in lines if not line.startswith("--"))


def run(server, database, sql, show=None):
    """What psql prints for `sql`, aligned as for a reader; `show` gets each line as it comes."""
    psql = subprocess.Popen(
        server.psql_command(database, "-q", "-v", "ON_ERROR_STOP=1", "--pset=footer=off"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        text=True,
    )
    with psql:
        psql.stdin.write(sql)
        psql.stdin.close()
        lines = []
        for line in psql.stdout:
            lines.append(line.rstrip())
            if show is not None and lines[-1]:
                show(lines[-1])
    if psql.returncode != 0:
        raise Problem("the statement failed:\n" + "\n".join(lines))
    return "\n".join(line for line in lines if line)


def markdown(server, database):
    """The tour with its real output, as README.md has it."""
    parts = []
    for said, sql in statements():
        # Progress and timing differ from run to run, and say little to a reader.
        answer = "\n".join(line for line in run(server, database, sql).splitlines() if not line.startswith("INFO:"))
        parts.append(f"{said}\n\n```sql\n{sql}\n```\n\n```\n{answer}\n```\n")
    return "\n".join(parts)


def in_readme():
    """The tour that README.md shows."""
    found = re.search(re.escape(BEGIN) + r"\n?(.*?)\n?" + re.escape(END), README.read_text(), re.DOTALL)
    return found.group(1) if found else ""


def agree(shown, printed):
    """Whether two tours are the same, but for what another number of processors changes.

    XGBoost adds up in as many parts as it has threads, so that the last digits of a prediction can be others elsewhere:
    numbers with a decimal point may differ by a hundredth or by 0.15, all else must be equal.
    """
    if FRACTION.sub("#", squeeze(shown)) != FRACTION.sub("#", squeeze(printed)):
        return False
    pairs = zip(FRACTION.findall(shown), FRACTION.findall(printed), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.01, abs_tol=0.15) for a, b in pairs)


def squeeze(text):
    """`text` with runs of spaces and of dashes shortened: columns grow with their widest value."""
    return re.sub(r"--+", "--", re.sub(r"  +", " ", text))


def into_readme(text):
    """Makes `text` the tour that README.md shows."""
    before, rest = README.read_text().split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
