"""The SQL in the guides of the extension runs as it stands, in its order, and prints what they show.

`make test UPDATE=1` accepts what is printed. A block of SQL is run, and compared with the block behind it if that has no
language; one below a line `<!-- not run: why -->` is not. A guide whose statements need tables that it does not make has
them in tests/guides/NAME.sql.
"""

import contextlib
import functools
import io
import re
import subprocess

import pandas
import pytest

from devkit.client import connection
from devkit.places import ROOT
from devkit.server import environment
from devkit.setup import minilm

GUIDES = ROOT / "docs" / "guide"
TABLES = ROOT / "tests" / "guides"
# Those of the pooler, the driver, the fleet and the shards have tests of their own.
NAMES = sorted(
    path.stem
    for path in GUIDES.glob("*.md")
    if "pgml." in path.read_text() and path.stem not in ("python", "fleet", "scale", "sharding")
)
BLOCK = re.compile(
    r"^(?P<indent> *)(?P<not_run><!-- not run: .*? -->\n\n?)?```sql\n(?P<sql>.*?)^(?P=indent)```\n"
    r"(?:\n```\n(?P<shown>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
MARK = "=-=-= end of block"


def answers(server, database, blocks):
    """What each block of SQL prints; the first that fails is named."""
    lines = ["\\set ON_ERROR_STOP on", "\\pset footer off", "SET client_min_messages = error;"]
    for block in blocks:
        lines += [block, f"\\echo {MARK}"]
    done = subprocess.run(
        server.psql_command(database, "--quiet"),
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    printed = [part.strip("\n") for part in done.stdout.split(f"{MARK}\n")]
    if done.returncode != 0:
        said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO:"))
        pytest.fail(f"this block fails:\n{blocks[len(printed) - 1]}\n{said}", pytrace=False)
    return ["".join(f"{line.rstrip()}\n" for line in part.splitlines()) for part in printed[:-1]]


@pytest.fixture
def empty(server):
    """The name of a database without the extension, which a guide makes itself."""
    name = "guide"
    server.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    server.psql(f"CREATE DATABASE {name}")
    yield name
    server.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("name", NAMES)
def test_the_sql_of_a_guide_runs_and_prints_what_it_shows(server, empty, name, request):
    path = GUIDES / f"{name}.md"
    text = path.read_text()
    found = list(BLOCK.finditer(text))
    assert len(found) == len(re.findall(r"^\s*```sql", text, re.MULTILINE)), f"{name}.md: a block cannot be read"
    found = [block for block in found if not block["not_run"]]
    tables = TABLES / f"{name}.sql"
    before = tables.read_text() if tables.exists() else ""
    if ":'minilm'" in before:
        before = f"\\set minilm '{minilm()}'\n{before}"
    if not any(re.search(r"CREATE EXTENSION (IF NOT EXISTS )?pgml", block["sql"]) for block in found):
        before = f"CREATE EXTENSION pgml;\n{before}"
    printed = answers(server, empty, [before, *[block["sql"] for block in found]])[1:]
    update = request.config.getoption("--update-expected")
    for block, answer in zip(reversed(found), reversed(printed), strict=True):
        if block["shown"] is not None and block["shown"] != answer:
            if not update:
                pytest.fail(f"{name}.md shows another answer to\n{block['sql']}than\n{answer}", pytrace=False)
            text = text[: block.start("shown")] + answer + text[block.end("shown") :]
    if update:
        path.write_text(text)


def anchors(path):
    """The names of a page's headings in links."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")]
    nowhere = []
    for page in pages:
        for path, anchor in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
            target = page if not path else page.parent / path
            if path.startswith("http"):
                continue
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                nowhere.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert not nowhere, "\n".join(nowhere)


SOURCES = ["bench", "console", "crates", "demo", "docs", "driver", "extension", "fuzz", "monitoring", "packaging"]
SOURCES += ["pooler", "server", "tests", "tools"]
DATED = re.compile(r"\b20\d\d-\d\d-\d\d-[a-z][a-z-]*\.md")


@functools.lru_cache(maxsize=1)
def sources():
    """Each file of the project by its path, with its text if it is code or a page."""
    found = {}
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.is_file()):
        text = path.read_text() if path.suffix in (".rs", ".py", ".pyi", ".md", ".c", ".h") else ""
        found[path.relative_to(ROOT).as_posix()] = text
    return found | {path.name: path.read_text() for path in ROOT.glob("*.md")}


def test_notes_on_the_design_name_what_exists():
    code = {path: text for path, text in sources().items() if not path.startswith("docs/")}
    words = {word for path, text in code.items() if not path.endswith(".md") for word in re.findall(r"\w+", text)}
    known = {
        "/".join(parts[start:end])
        for path in sources()
        for parts in [path.split("/")]
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    }
    missing = []
    for page, text in sources().items():
        if not page.startswith("docs/design/"):
            continue
        for name in re.findall(r"`([^`\n]+)`", text):
            if re.fullmatch(r"[\w./-]+\.(rs|py|c|sql)|[\w-]+/[\w./-]*", name):
                exists = name.rstrip("/") in known
            elif re.fullmatch(r"\w+(::\w+)+(\(.*\))?", name):
                exists = set(re.findall(r"\w+", name.split("(")[0])) <= words
            else:
                continue
            if not exists:
                missing.append(f"{page}: {name}")
    assert not missing, "\n".join(missing)


def test_notes_on_the_design_that_are_named_exist():
    notes = {path.name for path in (ROOT / "docs" / "design").glob("*.md")}
    missing = []
    for page, text in sources().items():
        if not page.startswith("bench/results/"):
            named = {*DATED.findall(text), *re.findall(r"\bdesign/([\w-]+\.md)", text)}
            missing += [f"{page}: {name}" for name in named - notes if page != "tests/test_docs_site.py"]
    assert not missing, "\n".join(missing)


def test_the_python_that_a_guide_compares_with_runs(server, empty):
    text = (GUIDES / "scikit-learn.md").read_text()
    answers(server, empty, [BLOCK.search(text)["sql"]])
    with connection(server, empty) as own:
        cursor = own.cursor()
        cursor.execute("SELECT * FROM homes ORDER BY id")
        homes = pandas.DataFrame(cursor.fetchall(), columns=[column[0] for column in cursor.description])
    (code,) = re.findall(r"^```python\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "scikit-learn.md", "exec"), {"homes": homes})
    # The guide says that the two split differently, and find the same.
    shown = re.search(r"^ (1) +\| +(0\.\d+)$", text, re.MULTILINE)
    best, score = re.fullmatch(r"\{'ridge__alpha': (.*)\} (.*)\n", printed.getvalue()).groups()
    assert best == shown[1] and abs(float(score) - float(shown[2])) < 0.01, printed.getvalue()


def test_there_are_guides():
    assert {"first-model", "models", "postgresml", "scikit-learn"} <= set(NAMES)
