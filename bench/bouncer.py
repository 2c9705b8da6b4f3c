"""What the installed PgBouncer can do, which says how it is asked."""

import functools
import subprocess

from devkit.programs import installed


@functools.lru_cache(maxsize=None)
def version():
    """Its version, as it says it, and the major and minor number."""
    done = subprocess.run([installed("pgbouncer"), "--version"], capture_output=True, text=True, check=True)
    line = done.stdout.split("\n")[0]
    return line, tuple(int(part) for part in line.split()[1].split(".")[:2])


def prepares():
    """Whether it has prepared statements in transaction pooling, as it has since 1.21."""
    return version()[1] >= (1, 21)


def mode(asked):
    """How pgbench asks it in this mode: the extended protocol stands for prepared statements where there are none."""
    return "extended" if asked == "prepared" and not prepares() else asked


def settings():
    """What it is to be told for them; before 1.22 it has them only if it is."""
    return "max_prepared_statements = 200" if prepares() else ""
