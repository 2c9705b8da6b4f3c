"""`make deb`: Debian packages in `dist/`, of the pooler and of the extension for each PostgreSQL of Debian's here."""

import gzip
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from devkit import Problem, extension, pooler, postgres
from devkit.notices import notices
from devkit.places import ROOT, SYSTEM_POSTGRES
from devkit.release import build_for_packages
from devkit.say import note, timed
from devkit.setup import LIGHTGBM
from devkit.wheels import DIST, glibc_of, strip, workspace_version

PACKAGING = ROOT / "packaging"
REVISION = 1
MAINTAINER = "The makers of Howdah <howdah@localhost>"
SCRIPTS = ("postinst", "prerm", "postrm")
# Where each shell looks for completions of programs.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/howdah-pooler",
    "fish": "usr/share/fish/vendor_completions.d/howdah-pooler.fish",
    "zsh": "usr/share/zsh/vendor-completions/_howdah-pooler",
}
POOLER = """Connection pooler and load balancer for PostgreSQL
 Lends a few server connections to many clients, one behind another, and
 spreads reads over replicas. Reads pgbouncer.ini and pgcat.toml too.
"""
EXTENSION = """Machine learning in SQL for PostgreSQL {major}
 CREATE EXTENSION pgml: models are trained from tables, by XGBoost, LightGBM
 and some forty other algorithms, and answer inside the query that needs them.
"""


def debs():
    """All packages."""
    if shutil.which("dpkg-deb") is None:
        raise Problem("there is no dpkg-deb: packages are made on Debian, or a system like it")
    majors = [major for major in postgres.SUPPORTED if (SYSTEM_POSTGRES / str(major) / "bin" / "postgres").exists()]
    if not majors:
        note("no PostgreSQL of Debian's is installed, so there is no package of the extension (postgresql-15, say)")
    build_for_packages()
    pooler.build_pooler()
    made = [pooler_deb(pooler.program(), DIST)]
    for major in majors:
        headers = postgres.headers_of(major)
        if headers is None:
            raise Problem(f"PostgreSQL {major} has no headers here: `apt-get install postgresql-server-dev-{major}`")
        extension.build(headers)
        with timed(f"packing postgresql-{major}-pgml"):
            made.append(extension_deb(major, DIST))
    for package in made:
        note(f"{package.relative_to(ROOT)} ({package.stat().st_size >> 10} kB)")


def pooler_deb(program, folder):
    """Packs the pooler built at `program`; gives the path of the package."""
    with tempfile.TemporaryDirectory(prefix="howdah-deb-") as scratch:
        root = Path(scratch) / "root"
        put(root / "usr/bin/howdah-pooler", mode=0o755)
        strip(program, root / "usr/bin/howdah-pooler")
        put(root / "lib/systemd/system/howdah-pooler.service", PACKAGING / "howdah-pooler.service")
        put(root / "etc/howdah/howdah.toml", PACKAGING / "howdah.toml")
        page = said(program, "man")
        write_zipped(root / "usr/share/man/man1/howdah-pooler.1.gz", page)
        # Those that it refers to.
        for command in re.findall(rb"howdah\\-pooler\\-(\w+)\(1\)", page):
            place = root / f"usr/share/man/man1/howdah-pooler-{command.decode()}.1.gz"
            write_zipped(place, said(program, "man", command.decode()))
        for shell, place in COMPLETIONS.items():
            put(root / place).write_bytes(said(program, "completions", shell))
        for script in SCRIPTS:
            put(root / "DEBIAN" / script, PACKAGING / f"howdah-pooler.{script}", 0o755)
        put(root / "DEBIAN/conffiles").write_text("/etc/howdah/howdah.toml\n")
        needs = f"{libc(program)}, libgcc-s1, init-system-helpers, passwd"
        put(copyright_of(root, "howdah-pooler")).write_text(notices("howdah-pooler"))
        return pack(root, folder, "howdah-pooler", f"{workspace_version()}-{REVISION}", "net", needs, POOLER)


def extension_deb(major, folder):
    """Packs the extension as it was built for Debian's PostgreSQL `major`; gives the path of the package."""
    with tempfile.TemporaryDirectory(prefix="howdah-deb-") as scratch:
        root = Path(scratch) / "root"
        config = SYSTEM_POSTGRES / str(major) / "bin" / "pg_config"
        for source, target in extension.files(config):
            place = root / target.relative_to("/")
            if target.name.startswith("libgomp"):
                # XGBoost's own copy of it, by its name; Debian's is as good, and Debian mends it.
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(f"/usr/lib/{platform.machine()}-linux-gnu/libgomp.so.1")
                continue
            put(place, source)
            if target.name == "pgml.so":
                strip(source, place)
        needs = f"postgresql-{major}, {libc(extension.library(major))}, libgcc-s1, libstdc++6, libgomp1"
        version = f"{workspace_version()}-{REVISION}"
        carried = (PACKAGING / "copyright").read_text() + lightgbm_licence()
        put(copyright_of(root, f"postgresql-{major}-pgml")).write_text(carried + notices("pgml", f"pg{major}"))
        return pack(root, folder, f"postgresql-{major}-pgml", version, "database", needs, EXTENSION.format(major=major))


def copyright_of(root, name):
    """Where a package has its licences."""
    return root / "usr/share/doc" / name / "copyright"


def lightgbm_licence():
    """LightGBM's licence, as its wheel has it."""
    return next(LIGHTGBM.glob("lightgbm-*.dist-info/licenses/LICENSE")).read_text() + "\n"


def pack(root, folder, name, version, section, depends, description):
    """Adds what every package has, and makes the package of the folder `root`."""
    write_zipped(root / "usr/share/doc" / name / "changelog.gz", (ROOT / "CHANGELOG.md").read_bytes())
    size = sum(file.lstat().st_size for file in root.rglob("*") if file.is_file())
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    put(root / "DEBIAN/control").write_text(
        f"Package: {name}\n"
        f"Version: {version}\n"
        f"Architecture: {architecture.stdout.strip()}\n"
        f"Maintainer: {MAINTAINER}\n"
        f"Installed-Size: {size >> 10}\n"
        f"Depends: {depends}\n"
        f"Section: {section}\n"
        "Priority: optional\n"
        f"Description: {description}"
    )
    # Whatever the umask is: a package's folders are everybody's to read.
    for place in (root, *root.rglob("*")):
        if place.is_dir():
            place.chmod(0o755)
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"{name}_{version}_{architecture.stdout.strip()}.deb"
    command = ["dpkg-deb", "--root-owner-group", "--build", str(root), str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"dpkg-deb: {done.stderr.strip()}")
    return package


def put(place, source=None, mode=0o644):
    """Puts a file into a package, a copy of `source` or an empty one; gives its place."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if source is None:
        place.touch()
    else:
        shutil.copyfile(source, place)
    place.chmod(0o755 if ".so" in place.name else mode)
    return place


def write_zipped(place, content):
    """Writes a file as gzip, the same bytes each time."""
    put(place).write_bytes(gzip.compress(content, mtime=0))


def said(program, *arguments):
    """What the pooler prints."""
    return subprocess.run([str(program), *arguments], capture_output=True, check=True).stdout


def libc(library):
    """The dependency on glibc, by what a program or library asks for."""
    return f"libc6 (>= {'.'.join(map(str, glibc_of(library)))})"
