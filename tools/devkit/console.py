"""`make console`, the console over the server of `make up`; and its wheel."""

import os
import re
import subprocess

from devkit import Problem
from devkit.driver import PACKAGE, build_driver
from devkit.places import ROOT
from devkit.say import note, step
from devkit.server import SUPERUSER
from devkit.setup import python_for
from devkit.up import DATABASE, running

CONSOLE = ROOT / "console"


def console():
    """Runs the console until it is interrupted, for the server that is up."""
    server = running()
    if server is None:
        raise Problem("no server is up: `make up` first")
    python = python_for("console")
    build_driver(python)
    step(f"the console; log in as {SUPERUSER} with the password {server.password}")
    note("(Ctrl-C ends it; the guide is docs/guide/console.md)")
    dsn = f"postgresql://{SUPERUSER}@127.0.0.1:{server.port}/{DATABASE}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PACKAGE, CONSOLE)))}
    done = subprocess.run([str(python), "-m", "howdah_console", dsn, "--actions"], env=environment, check=False)
    # Ctrl-C reaches it too.
    if done.returncode not in (0, -2, 130):
        raise Problem(f"the console ended with status {done.returncode}")


def console_files():
    """The files of the package in its wheel, by name."""
    package = CONSOLE / "howdah_console"
    found = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(CONSOLE)): path.read_bytes() for path in found}


def console_metadata():
    """METADATA: what pip reads, as `pyproject.toml` has it."""
    project = (CONSOLE / "pyproject.toml").read_text()

    def value(name):
        return re.search(rf'^{name} = "(.+)"', project, re.MULTILINE)[1]

    depended = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.+)\]", project, re.MULTILINE)[1])
    lines = [
        "Metadata-Version: 2.4",
        "Name: howdah-console",
        f"Version: {value('version')}",
        f"Summary: {value('description')}",
        "License-Expression: MIT",
        "License-File: LICENSE",
        f"Requires-Python: {value('requires-python')}",
        *(f"Requires-Dist: {one}" for one in depended),
        "Classifier: Topic :: Database :: Front-Ends",
        "",
    ]
    return "\n".join(lines)


def console_wheel(folder):
    """Packs `howdah-console`; gives the path of the wheel."""
    from devkit.wheels import pack, workspace_version

    version = workspace_version()
    info = f"howdah_console-{version}.dist-info"
    static = CONSOLE / "howdah_console" / "static"
    licences = [(CONSOLE / "LICENSE").read_text()]
    licences += [f"{path.name.partition('-')[2]}:\n\n{path.read_text()}" for path in sorted(static.glob("LICENSE-*"))]
    texts = {
        f"{info}/METADATA": console_metadata(),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: howdah\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nhowdah-console = howdah_console.__main__:main\n",
        f"{info}/licenses/LICENSE": "\n\n".join(licences),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("howdah_console-*.whl"):
        stale.unlink()
    wheel = folder / f"howdah_console-{version}-py3-none-any.whl"
    pack(wheel, console_files() | {name: text.encode() for name, text in texts.items()}, f"{info}/RECORD")
    return wheel
