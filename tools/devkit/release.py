"""How Cargo and the C compiler build what goes into a package: no path of this machine is left in it."""

import os
from pathlib import Path

from devkit.places import ROOT


def paths():
    """What the folders of this machine are called in a package."""
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    return {home / "registry" / "src": "/crates", ROOT: "/howdah"}


def build_for_packages():
    """From here on this process builds for packages, in a target folder of their own: other flags compile all anew."""
    rust, c = os.environ.get("RUSTFLAGS", "").split(), os.environ.get("CFLAGS", "").split()
    for path, name in paths().items():
        rust.append(f"--remap-path-prefix={path}={name}")
        c.append(f"-ffile-prefix-map={path}={name}")
    os.environ["CARGO_TARGET_DIR"] = str(ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "package")
    # Separated by what no path has in it.
    os.environ["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(rust)
    os.environ["CFLAGS"] = " ".join(c)
