"""`make docs`: the documentation as a site in `build/site`: read from files or, with its search, from a web server.

The pages keep the links that they have in the repository. What mkdocs is given is a copy of the repository's tree with
the pages of `docs/site.yml`, the design notes and every file that one of them links to; all else is left out. A link
that leads nowhere, a page of `docs/` that the menu does not have, a missing anchor: each ends the build.
"""

import json
import re
import shutil
import subprocess

from devkit import Problem
from devkit.places import BUILD, ROOT
from devkit.say import note, timed
from devkit.setup import python_for

CONFIGURATION = ROOT / "docs" / "site.yml"
SITE = BUILD / "site"
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
PAGE = re.compile(r": ([\w./-]+\.md)$", re.MULTILINE)


def site():
    """Builds the site; gives its folder."""
    python = python_for("docs")
    staged = BUILD / "site-pages"
    with timed("building the site"):
        shutil.rmtree(staged, ignore_errors=True)
        text = CONFIGURATION.read_text()
        pages = stage(staged, PAGE.findall(text))
        configuration = BUILD / "site.yml"
        places = {"docs_dir": str(staged), "site_dir": str(SITE)}
        added = "".join(f"{name}: {json.dumps(value)}\n" for name, value in places.items())
        configuration.write_text(text + "      - Design:\n" + "".join(design(pages)) + added)
        command = [python, "-m", "mkdocs", "build", "--strict", "--clean", f"--config-file={configuration}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if not line.startswith("INFO")]
        raise Problem("the documentation cannot be built:\n" + "\n".join(said))
    count = len(list(SITE.glob("**/*.html")))
    note(f"{SITE}: {count} pages; python3 -m http.server --directory {SITE}")
    return SITE


def design(pages):
    """The lines of the menu for the design notes, the newest first."""
    notes = sorted((page for page in pages if page.startswith("docs/design/")), reverse=True)
    for page in notes:
        title = re.search(r"^# (.*)$", (ROOT / page).read_text(), re.MULTILINE)[1]
        yield f"          - {json.dumps(title)}: {page}\n"


def stage(folder, named):
    """Copies these pages, the design notes and what they link to; gives the names of the pages."""
    written = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("**/*.md")}
    pages = [*named, *sorted(page for page in written if page.startswith("docs/design/"))]
    if missing := written.difference(pages):
        raise Problem(f"the menu in docs/site.yml does not have {', '.join(sorted(missing))}")
    waiting, seen = list(pages), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        source, target = ROOT / name, folder / name
        # A link that leads nowhere is mkdocs' to tell, with its page.
        if not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if source.suffix == ".md":
            waiting += linked(source)
    return pages


def linked(page):
    """The files of the repository that a page links to."""
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for link in LINK.findall(prose):
        if ":" not in link:
            yield str((page.parent / link).resolve().relative_to(ROOT))
