"""How pip builds the driver from source: by maturin, and in a sentence not at all where there is no Rust toolchain."""

import shutil
import sys

import maturin


def _check():
    if shutil.which("cargo") is None:
        sys.exit(
            "howdah has no wheel for this Python and system, and to build it from source a Rust toolchain is needed "
            "(no cargo is on the PATH): get one from rustup.rs, or use a Python that there is a wheel for"
        )


def get_requires_for_build_wheel(config_settings=None):
    """Return what the build needs beside maturin."""
    _check()
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def get_requires_for_build_sdist(config_settings=None):
    """Return what the packing of the source needs beside maturin."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write the metadata of the wheel."""
    _check()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the wheel."""
    _check()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build a wheel that leads to the source."""
    _check()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Pack the source."""
    return maturin.build_sdist(sdist_directory, config_settings)
