"""Writes the stubs of the modules that export whole lists of names, which type checkers cannot follow otherwise.

PYTHONPATH=driver/python python driver/tools/generate_stubs.py
"""

import pathlib

import howdah
from howdah import exceptions, types
from howdah.exceptions import _base, _generated

PACKAGE = pathlib.Path(howdah.__file__).parent
HEAD = "# Made by driver/tools/generate_stubs.py.\n"


def imports(module, names):
    """Lines that export names of a module."""
    return [f"from {module} import {name} as {name}" for name in sorted(names)]


def listed(names):
    """`__all__` with these names."""
    inner = "".join(f'    "{name}",\n' for name in names)
    return f"__all__ = (\n{inner})\n"


def stub_of_exceptions():
    """`howdah/exceptions/__init__.pyi`."""
    lines = imports("._base", _base.__all__) + imports("._generated", _generated.__all__)
    return HEAD + "\n".join(lines) + "\n\n" + listed(exceptions.__all__)


def stub_of_package():
    """`howdah/__init__.pyi`: the imports of `__init__.py`, those of whole modules name by name."""
    lines = []
    for line in (PACKAGE / "__init__.py").read_text().splitlines():
        if line.startswith("from .exceptions import *"):
            lines += imports(".exceptions", exceptions.__all__)
        elif line.startswith("from .types import *"):
            lines += imports(".types", types.__all__)
        elif line.startswith("from ."):
            lines.append(line if " as " in line else f"{line} as {line.split()[-1]}")
        elif line.startswith("paramstyle ="):
            lines.append("paramstyle: str")
    return HEAD + "\n".join(lines) + "\n\n" + listed(howdah.__all__)


def stubs():
    """Each file and what it has to hold."""
    return {
        PACKAGE / "__init__.pyi": stub_of_package(),
        PACKAGE / "exceptions" / "__init__.pyi": stub_of_exceptions(),
    }


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
