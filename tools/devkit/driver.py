"""Builds the native core of the Python driver beside its Python files, for use from the clone."""

import filecmp
import subprocess

from devkit import cargo
from devkit.extension import replace
from devkit.places import ROOT, locked
from devkit.say import timed

PACKAGE = ROOT / "driver" / "python"


def build_driver(python):
    """Compiles the core for this Python and puts it into `driver/python/howdah`, which can then be imported.

    `pip install ./driver` builds and installs the same for good.
    """
    with timed("building the driver"):
        cargo.build_package("howdah", "the driver", PYO3_PYTHON=str(python))
    built = cargo.built("lib_core.so")
    # Named for the Python that it is for: another would load it too, and crash.
    asked = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    suffix = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    target = PACKAGE / "howdah" / f"_core{suffix}"
    with locked("driver"):
        (PACKAGE / "howdah" / "_core.so").unlink(missing_ok=True)
        if not target.exists() or not filecmp.cmp(built, target, shallow=False):
            replace(built, target, 0o755)
