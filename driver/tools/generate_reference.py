"""Writes docs/reference/python.md from the docstrings of the package.

    PYTHONPATH=driver/python python driver/tools/generate_reference.py > docs/reference/python.md

A docstring is read by its sections (Parameters, Returns, Raises, Attributes, Examples); anything public without one is
an error.
"""

import importlib
import inspect
import re
import sys

# Chapters: a heading, and the public names, as `module:name` or `module:Class` for the class and its methods.
CHAPTERS = [
    ("Connecting", ["howdah:connect", "howdah:create_pool", "howdah:install_as_asyncpg"]),
    ("Connections", ["howdah:Connection"]),
    ("Transactions", ["howdah.transaction:Transaction"]),
    ("Prepared statements", ["howdah.prepared_stmt:PreparedStatement"]),
    ("Cursors", ["howdah.cursor:CursorFactory", "howdah.cursor:CursorIterator", "howdah.cursor:Cursor"]),
    ("Pools", ["howdah:Pool", "howdah:PoolStatistics"]),
    ("Notifications", ["howdah:Notifications", "howdah:Notification"]),
    (
        "The synchronous interface",
        [
            "howdah.dbapi:connect",
            "howdah.dbapi:Connection",
            "howdah.dbapi:Cursor",
            "howdah.dbapi:StreamCursor",
            "howdah.dbapi:ColumnCursor",
            "howdah.dbapi:Pool",
            "howdah.dbapi:dict_row",
            "howdah.dbapi:class_row",
            "howdah.dbapi:Json",
            "howdah.dbapi:Jsonb",
            "howdah.dbapi:Error",
            "howdah.dbapi.errors:Diagnostics",
        ],
    ),
    ("OpenTelemetry", ["howdah.opentelemetry:instrument"]),
    ("Training", ["howdah:TrainingProgress", "howdah:ProgressBar", "howdah.distributed:train"]),
    ("Reports about models", ["howdah:Report"]),
    (
        "Types",
        [
            f"howdah.types:{name}"
            for name in [
                "Type",
                "Attribute",
                "ServerVersion",
                "Range",
                "BitString",
                "Point",
                "Path",
                "Polygon",
                "Box",
                "Line",
                "LineSegment",
                "Circle",
            ]
        ],
    ),
]
INTERFACES = ("howdah.dbapi", "howdah.distributed", "howdah.opentelemetry")
SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]*)\n-{3,}$", re.MULTILINE)
ROLE = re.compile(r":(?:class|meth|func|exc|mod):`~?([^`]+)`")


def main(out):
    """Writes the page."""
    out.write(
        "# Python reference\n\n"
        "<!-- Made by driver/tools/generate_reference.py from the docstrings: change those. -->\n\n"
        "The package `howdah`. Times are in seconds. [../guide/python.md](../guide/python.md) shows how it is used.\n"
    )
    for heading, names in CHAPTERS:
        out.write(f"\n## {heading}\n")
        for name in names:
            write(out, name)


def write(out, path):
    """Writes one class or function."""
    module, name = path.split(":")
    thing = getattr(importlib.import_module(module), name)
    # Names that the other interface has too.
    prefix = f"{module.partition('.')[2]}." if module in INTERFACES else ""
    if not inspect.isclass(thing):
        entry(out, name, thing, "###", prefix)
        return
    out.write(f"\n### class {prefix}{name}\n\n{body(documentation(thing, name))}")
    for member, value in members(thing):
        entry(out, f"{name}.{member}", value, "####")


def members(cls):
    """The public methods and properties of a class, its own and those of the package's base classes, by name."""
    found = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("howdah"):
            continue
        for name, value in vars(base).items():
            plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                found[name] = plain
    return sorted(found.items())


def entry(out, name, thing, level, module=""):
    """Writes a function, a method or a property."""
    title = name.rpartition(".")[2]
    if isinstance(thing, property):
        out.write(f"\n{level} {title}\n\n{body(documentation(thing, name))}")
        return
    prefix = "async " if inspect.iscoroutinefunction(thing) else ""
    out.write(f"\n{level} {module}{title}\n\n```python\n{prefix}{module}{title}{signature(thing)}\n```\n\n")
    out.write(body(documentation(thing, name)))


def signature(function):
    """The parameters with their defaults, without types, which the text tells."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in ("self", "cls")
    ]
    line = str(inspect.Signature(parameters))
    line = re.sub(r"<class '([^']+)'>", r"\1", line)
    line = re.sub(r"<function ([^ ]+) at 0x[0-9a-f]+>", r"\1", line)
    return line


def documentation(thing, name):
    """The docstring; an error if there is none."""
    text = inspect.getdoc(thing)
    if not text:
        raise SystemExit(f"{name} has no docstring")
    return ROLE.sub(lambda found: f"`{found[1]}`", text)


def body(text):
    """A docstring as Markdown."""
    parts = SECTION.split(text)
    written = [parts[0].strip().replace("``", "`")]
    for title, content in zip(parts[1::2], parts[2::2]):
        content = inspect.cleandoc(content)
        if title == "Examples":
            written.append(f"```python\n{unprompted(content)}\n```")
        else:
            written.append(f"{title}:\n\n{definitions(content)}")
    return "\n\n".join(part for part in written if part) + "\n"


def definitions(content):
    """`name : type` with an indented text below, as a list."""
    items = []
    for line in content.splitlines():
        if line and not line.startswith(" "):
            name, colon, kind = line.partition(" : ")
            items.append([f"- `{name}`" + (f" ({kind})" if colon else ""), []])
        elif line.strip() and items:
            items[-1][1].append(line.strip())
    return "\n".join(head + (": " + " ".join(lines) if lines else "") for head, lines in items)


def unprompted(content):
    """An example without prompts: results become comments."""
    lines = []
    for line in content.splitlines():
        if line.startswith((">>> ", "... ")):
            lines.append(line[4:])
        elif line in (">>>", "..."):
            lines.append("")
        elif line:
            lines.append(f"# {line}")
        else:
            lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.stdout)
