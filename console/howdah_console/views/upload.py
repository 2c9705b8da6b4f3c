"""Upload: a CSV file as a new table, whose columns and types are shown before anything is made."""

import csv
import io
import json
import re
from urllib.parse import quote

import howdah

from howdah_console.ask import FAULTS, Fault, fault_of, name

# A file may take so long; the server's other limits are those of the SQL page.
SECONDS = 600
MOST_COLUMNS = 1600
SHOWN = 8
TYPES = ("bigint", "double precision", "numeric", "boolean", "date", "timestamp", "timestamptz", "text")
CLOCK = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?"
# A number with a zero in front is a code, such as a postal one.
PATTERNS = {
    "bigint": r"[-+]?(0|[1-9]\d{0,17})",
    "double precision": r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|infinity)|nan",
    "boolean": r"true|false|t|f|yes|no",
    "date": r"\d{4}-\d\d-\d\d",
    "timestamp": CLOCK,
    "timestamptz": CLOCK + r" ?(Z|[-+]\d\d(:?\d\d)?)",
}
MISSING = ("", "NA", "NULL", "N/A", "?", "\\N")
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
ENCODINGS = {"UTF8": "UTF-8", "WIN1252": "Windows (Western)"}


async def show(page):
    """Choosing the file."""
    page.need_actions()
    return page.show("upload.html", here="train")


def read_sample(text, delimiter, whole):
    """The rows of the first lines of a file; the last line may be cut unless they are the `whole` file."""
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    return rows if whole or len(rows) < 2 else rows[:-1]


def delimiter_of(text, whole):
    """The delimiter by which most lines have the same number of fields, more than one."""

    def score(one):
        widths = [len(row) for row in read_sample(text, one, whole)[:100]]
        return (widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0, widths[:1])

    return max(DELIMITERS, key=score)


def type_of(values, missing):
    """The narrowest type that has all values."""
    known = {value.strip() for value in values if value != missing and value.strip()}
    for kind, pattern in PATTERNS.items():
        if known and all(re.fullmatch(pattern, value, re.IGNORECASE) for value in known):
            return kind
    return "text"


def missing_of(columns):
    """How a file writes missing values: what makes the fewest columns text."""
    return min(MISSING, key=lambda one: sum(type_of(values, one) == "text" for values in columns))


def is_header(rows):
    """Whether the first row has names: one is not of its column's type, or all columns are text."""
    if len(rows) < 2:
        return True
    body = [[row[place] for row in rows[1:] if len(row) == len(rows[0])] for place in range(len(rows[0]))]
    missing = missing_of(body)
    typed = [
        (first, kind) for first, one in zip(rows[0], body, strict=True) if (kind := type_of(one, missing)) != "text"
    ]
    return not typed or any(type_of([first], missing) != kind for first, kind in typed)


def names_of(header):
    """Names of columns that SQL needs no quotes for, each once."""
    names = []
    for place, text in enumerate(header):
        plain = re.sub(r"\W+", "_", text.strip().lower()).strip("_") or f"column_{place + 1}"
        plain = plain.encode()[:56].decode(errors="ignore")
        plain = plain if not plain[0].isdigit() else "_" + plain
        count = 2
        one = plain
        while one in names:
            one, count = f"{plain}_{count}", count + 1
        names.append(one)
    return names


async def look(page):
    """What the file seems to be, by its first lines: a form that says how it will be read."""
    page.need_actions()
    page.need_part()
    text, whole = page.form.get("sample", "").removeprefix("\ufeff"), page.form.get("whole") == "1"
    delimiter = page.form.get("delimiter", "")
    delimiter = delimiter if delimiter in DELIMITERS else delimiter_of(text, whole)
    try:
        rows = read_sample(text, delimiter, whole)
    except csv.Error as error:
        return page.show("fault_part.html", fault=Fault(f"This is no CSV file: {error}."))
    if not rows:
        return page.show("fault_part.html", fault=Fault("The file is empty."))
    if len(rows[0]) > MOST_COLUMNS:
        return page.show("fault_part.html", fault=Fault(f"A table has at most {MOST_COLUMNS:,} columns."))
    header = page.form["header"] == "1" if "header" in page.form else is_header(rows)
    width = len(rows[0])
    body = [row for row in rows[1 if header else 0 :] if len(row) == width]
    columns = [[row[place] for row in body] for place in range(width)]
    missing = page.form.get("missing", missing_of(columns))
    schemas = await page.ask(
        """
        SELECT nspname AS name, nspname = current_schema() AS usual FROM pg_namespace
        WHERE has_schema_privilege(oid, 'CREATE') AND nspname !~ '^pg_'
          AND nspname NOT IN ('information_schema', 'pgml')
        ORDER BY nspname = current_schema() DESC NULLS LAST, nspname
        """
    )
    file = page.form.get("file", "")
    table = page.form.get("table") or names_of([re.sub(r"\.[^.]*$", "", file) or "uploaded"])[0]
    return page.show(
        "upload_look.html",
        columns=[
            {"name": one, "type": type_of(values, missing), "values": values[:SHOWN]}
            for one, values in zip(names_of(rows[0] if header else [""] * width), columns, strict=True)
        ],
        rows=len(body),
        whole=whole,
        table=table,
        schemas=schemas,
        types=TYPES,
        delimiters=DELIMITERS,
        delimiter=delimiter,
        header=header,
        missing=missing,
        usual_missing=MISSING,
        encodings=ENCODINGS,
        encoding=page.form.get("encoding", "UTF8"),
    )


def read_plan(text):
    """How the file is to be read, as the browser says it; None for what the form cannot say."""
    try:
        plan = json.loads(text)
        known = plan["delimiter"] in DELIMITERS and plan["encoding"] in ENCODINGS and plan["missing"] in MISSING
        known = known and all(isinstance(one, str) and kind in TYPES for one, kind in plan["columns"])
        return plan if known and all(isinstance(plan[key], str) for key in ("schema", "table")) else None
    except (KeyError, TypeError, ValueError):
        return None


async def make(page):
    """Makes the table and copies the file, which is the body, into it: both or neither."""
    page.need_actions()
    plan = read_plan(page.request.headers.get("x-plan", ""))
    if plan is None or not plan["columns"]:
        return page.show("fault_part.html", fault=Fault("The form is not complete: choose the file again."))
    if not plan["table"].strip():
        return page.show("fault_part.html", fault=Fault("Name the table."))
    relation = f"{name(plan['schema'])}.{name(plan['table'].strip())}"
    columns = ", ".join(f"{name(one)} {kind}" for one, kind in plan["columns"])
    connection = None
    try:
        connection = await page.console.sessions.connect_apart(page.session, SECONDS)
        async with connection.transaction():
            await connection.execute("SET TRANSACTION READ WRITE")
            await connection.execute(f"CREATE TABLE {relation} ({columns})")
            await connection.copy_to_table(
                plan["table"].strip(),
                schema_name=plan["schema"],
                source=page.request.stream(),
                format="csv",
                header=bool(plan["header"]),
                delimiter=plan["delimiter"],
                null=plan["missing"],
                encoding=plan["encoding"],
                timeout=SECONDS,
            )
        await connection.execute("BEGIN READ WRITE")
        await connection.execute(f"ANALYZE {relation}")
        await connection.execute("COMMIT")
    except FAULTS as error:
        fault = fault_of(error, SECONDS)
        where = getattr(error, "context", None) if isinstance(error, howdah.PostgresError) else None
        if where:
            fault.hint = f"{where}. Change the column's type, or the file; nothing was made."
        return page.show("fault_part.html", fault=fault)
    finally:
        if connection is not None:
            connection.terminate()
    return page.go(f"/train/table?relation={quote(relation)}")
