"""The licences of the Rust crates that are linked into what a package carries, with their copyright notices."""

import json
import subprocess
from pathlib import Path

from devkit import Problem
from devkit.places import ROOT

# The texts of crates whose package has none, by their names.
SUPPLIED = ROOT / "packaging" / "notices"
NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
RULE = "-" * 78


def notices(package, *features):
    """The text: Howdah's own licence, then each crate's, those of the same text together."""
    by_text = {}
    for crate in linked(package, *features):
        for text in texts(crate):
            by_text.setdefault(text, []).append(f"{crate['name']} {crate['version']} ({crate['license']})")
    parts = [(ROOT / "LICENSE").read_text().strip(), "Linked in are these packages, under the licences that follow:"]
    for text, names in sorted(by_text.items(), key=lambda pair: pair[1]):
        parts.append(f"{RULE}\n{', '.join(names)}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def linked(package, *features):
    """What Cargo knows of the crates of others that are linked into `package`."""
    options = [f"--features={','.join(features)}"] if features else []
    tree = ["tree", f"--package={package}", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}", *options]
    names = {tuple(line.split()[:2]) for line in cargo(*tree).splitlines() if line}
    host = subprocess.run(["rustc", "--print=host-tuple"], capture_output=True, text=True, check=True).stdout.strip()
    known = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={host}"))["packages"]
    crates = [crate for crate in known if crate["source"] and (crate["name"], f"v{crate['version']}") in names]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def cargo(*arguments):
    """What Cargo prints."""
    done = subprocess.run(["cargo", *arguments, "--locked"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Problem(f"cargo {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def texts(crate):
    """The texts of a crate's licences: from its package, or supplied here."""
    folder = Path(crate["manifest_path"]).parent
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name.lower().startswith(NAMES)]
    files = [path for path in files if path.suffix not in (".rs", ".c", ".h")]
    if (SUPPLIED / crate["name"]).exists():
        files.append(SUPPLIED / crate["name"])
    if files:
        return list(dict.fromkeys(normal(path.read_text(errors="replace")) for path in files))
    if "MIT" not in crate["license"]:
        raise Problem(f"{crate['name']} has no licence text in its package: put one into {SUPPLIED / crate['name']}")
    # The permission is the same for everybody; whom it comes from is what the package says of itself.
    authors = ", ".join(crate["authors"]) or f"the authors of {crate['name']}, {crate['repository']}"
    _, _, permission = (ROOT / "LICENSE").read_text().partition("Permission is hereby granted")
    return [normal(f"MIT License\n\nCopyright (c) {authors}\n\nPermission is hereby granted{permission}")]


def normal(text):
    """A text without what differs between copies of it and means nothing."""
    return "\n".join(line.rstrip() for line in text.expandtabs().strip().splitlines())
