"""The examples of docs/reference/sql.md: `docs/reference/examples.sql` has the statements, a server answers them.

A section begins with `--- NAME`, the name of a function without its schema. Each section runs in a transaction that
is rolled back, so that no example changes another; one whose first line ends with `, committed` runs without, in the
order of the file. The section `setup` runs first and stays. A statement ends with a line that ends in `;`. One after
the line `-- error` is to fail: the page has its SQLSTATE and message, in place of an output. One after the line
`-- not shown` runs, and is not on the page: what it makes is what the next statement needs.
"""

import dataclasses
import re
import subprocess

from devkit import Problem
from devkit.places import ROOT
from devkit.server import environment

SOURCE = ROOT / "docs" / "reference" / "examples.sql"
SETUP = "setup"
HEADING = re.compile(r"^--- (?P<name>\w+)(?P<committed>, committed)?$")
SHOWN, FAILS, NOT_SHOWN = "shown", "-- error", "-- not shown"
MARK = "=-=-= end of statement"
PROLOGUE = """\\set ON_ERROR_STOP on
\\pset footer off
SET client_min_messages = error;
"""


@dataclasses.dataclass
class Statement:
    """A statement of a section, of a kind: SHOWN with its output, FAILS, which is there for its error, or NOT_SHOWN."""

    sql: str
    kind: str


@dataclasses.dataclass
class Section:
    """The examples of a function."""

    name: str
    committed: bool
    statements: list


def read(text=None):
    """The sections of the examples by name, in their order."""
    sections, lines, kind = {}, [], SHOWN
    current = None
    for number, line in enumerate((SOURCE.read_text() if text is None else text).splitlines(), 1):
        heading = HEADING.match(line)
        if heading:
            if lines or kind != SHOWN:
                raise Problem(f"examples.sql, line {number}: the statement before it lacks its semicolon")
            name = heading["name"]
            if name in sections:
                raise Problem(f"examples.sql, line {number}: there are two sections of {name}")
            current = sections[name] = Section(name, heading["committed"] is not None or name == SETUP, [])
        elif line.startswith("---"):
            raise Problem(f'examples.sql, line {number}: a section begins with "--- NAME" or "--- NAME, committed"')
        elif line in (FAILS, NOT_SHOWN):
            kind = line
        elif current is not None and (lines or line) and not line.startswith("--"):
            lines.append(line)
            if line.endswith(";"):
                current.statements.append(Statement("\n".join(lines), kind))
                lines, kind = [], SHOWN
    if lines or kind != SHOWN:
        raise Problem("examples.sql: the last statement lacks its semicolon")
    return sections


def script(sections):
    """What psql is given to run the sections."""
    parts = [PROLOGUE]
    for section in sections.values():
        parts += [] if section.committed else ["BEGIN;"]
        for statement in section.statements:
            parts.append(failing(statement.sql) if statement.kind == FAILS else statement.sql)
            parts.append(f"\\echo {MARK}")
        parts += [] if section.committed else ["ROLLBACK;"]
    return "\n".join(parts) + "\n"


def failing(sql):
    """A statement that may fail, followed by what its error is."""
    before = "\\set ON_ERROR_STOP off\n\\set ON_ERROR_ROLLBACK on"
    after = "\\set ON_ERROR_ROLLBACK off\n\\set ON_ERROR_STOP on"
    return f"{before}\n{sql}\n\\echo :SQLSTATE :LAST_ERROR_MESSAGE\n{after}"


def answers(server, database, sections):
    """What each statement prints, by the names of the sections: an aligned table, or SQLSTATE and message."""
    done = subprocess.run(
        server.psql_command(database, "--quiet"),
        input=script(sections),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    printed = [part.strip("\n") for part in done.stdout.split(f"{MARK}\n")]
    statements = [(section.name, statement) for section in sections.values() for statement in section.statements]
    if done.returncode != 0:
        name, statement = statements[min(len(printed), len(statements)) - 1]
        said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("INFO:"))
        raise Problem(f"examples.sql, section {name}:\n{statement.sql}\n{said}")
    found = {name: [] for name in sections}
    for (name, statement), answer in zip(statements, printed[:-1], strict=True):
        if statement.kind == FAILS:
            answer = answer.splitlines()[-1]
            if answer.startswith("00000"):
                raise Problem(f"examples.sql, section {name}, does not fail:\n{statement.sql}")
        found[name].append("\n".join(line.rstrip() for line in answer.splitlines()))
    return found


def markdown(section, printed):
    """A section as the page has it: statements with their output, then what fails."""
    shown = list(zip(section.statements, printed, strict=True))
    parts, failures = [], []
    for statement, answer in shown:
        if statement.kind == FAILS:
            state, message = answer.split(" ", 1)
            failures.append(f"- `{state}`: {message}, by `{' '.join(statement.sql.split()).removesuffix(';')}`")
        elif statement.kind == SHOWN:
            parts.append(f"```sql\n{statement.sql}\n```\n\n```\n{answer}\n```\n")
    if failures:
        parts.append("Errors, among others:\n\n" + "\n".join(failures) + "\n")
    return "\n".join(parts)
