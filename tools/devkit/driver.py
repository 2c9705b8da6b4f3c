"""Builds the native core of the Python driver beside its Python files, for use from the clone."""

import filecmp
import os
import subprocess

from devkit import Problem
from devkit.extension import replace
from devkit.places import ROOT, locked
from devkit.setup import check_toolchain

PACKAGE = ROOT / "driver" / "python"


def build_driver(python, release=True):
    """Compiles the core for this Python and puts it into `driver/python/howdah`, which can then be imported.

    `pip install ./driver` builds and installs the same for good.
    """
    check_toolchain()
    command = ["cargo", "build", "--package=howdah", "--locked", *(["--release"] if release else [])]
    environment = {**os.environ, "PYO3_PYTHON": str(python)}
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
        raise Problem("the driver did not build (cargo's message is above)")
    folder = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / ("release" if release else "debug")
    built = folder / "lib_core.so"
    # Named for the Python that it is for: another would load it too, and crash.
    asked = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    suffix = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    target = PACKAGE / "howdah" / f"_core{suffix}"
    with locked("driver"):
        (PACKAGE / "howdah" / "_core.so").unlink(missing_ok=True)
        if not target.exists() or not filecmp.cmp(built, target, shallow=False):
            replace(built, target, 0o755)
