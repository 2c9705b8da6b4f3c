"""Upload: a CSV file as a new table, whose columns and types are shown before anything is made."""

import csv
import json
import re
from urllib.parse import quote

import howdah

from howdah_console import csvfile
from howdah_console.ask import FAULTS, Fault, fault_of, name
from howdah_console.row_numbers import are_row_numbers

# A file may take so long; the server's other limits are those of the SQL page.
SECONDS = 600
MOST_COLUMNS = 1600
SHOWN = 8


async def show(page):
    """Choosing the file."""
    page.need_actions()
    return page.show("upload.html", here="train")


async def look(page):
    """What the file seems to be, by its first lines: a form that says how it will be read."""
    page.need_actions()
    page.need_part()
    text, whole = page.form.get("sample", "").removeprefix("\ufeff"), page.form.get("whole") == "1"

    def chosen(field, known):
        """What the form says, if it may."""
        value = page.form.get(field)
        return value if value in known else None

    delimiter = chosen("delimiter", csvfile.DELIMITERS) or csvfile.delimiter_of(text, whole)
    try:
        found = csvfile.read_sample(text, delimiter, whole)
    except csv.Error as error:
        return page.show("fault_part.html", fault=Fault(f"This is no CSV file: {error}."))
    if not found:
        return page.show("fault_part.html", fault=Fault("The file is empty."))
    width = len(found[0][1])
    if width > MOST_COLUMNS:
        return page.show("fault_part.html", fault=Fault(f"A table has at most {MOST_COLUMNS:,} columns."))
    ragged = [csvfile.ragged(line, len(fields), width) for line, fields in found if len(fields) != width]
    rows = [fields for _, fields in found if len(fields) == width]
    header = page.form["header"] == "1" if "header" in page.form else csvfile.is_header(rows, delimiter)
    body = rows[1 if header else 0 :]
    columns = [[row[place] for row in body] for place in range(width)]
    missing, numbers, dates = csvfile.styles_of(
        columns,
        delimiter,
        chosen("missing", csvfile.MISSING),
        chosen("numbers", csvfile.NUMBERS),
        chosen("dates", csvfile.DATES),
    )
    schemas = await page.ask(
        """
        SELECT nspname AS name, nspname = current_schema() AS usual FROM pg_namespace
        WHERE has_schema_privilege(oid, 'CREATE') AND nspname !~ '^pg_'
          AND nspname NOT IN ('information_schema', 'pgml')
        ORDER BY nspname = current_schema() DESC NULLS LAST, nspname
        """
    )
    file = page.form.get("file", "")
    table = page.form.get("table") or csvfile.names_of([re.sub(r"\.[^.]*$", "", file) or "uploaded"])[0]
    return page.show(
        "upload_look.html",
        columns=[
            preview(one, values, missing, numbers, dates)
            for one, values in zip(csvfile.names_of(rows[0] if header else [""] * width), columns, strict=True)
        ],
        counts_rows=header and not rows[0][0].strip() and number_rows(columns[0]),
        rows=len(body),
        ragged=ragged,
        whole=whole,
        table=table,
        schemas=schemas,
        known=csvfile,
        delimiter=delimiter,
        header=header,
        missing=missing,
        numbers=numbers,
        dates=dates,
        ambiguous=csvfile.is_ambiguous(columns, missing, numbers, dates),
        encoding=page.form.get("encoding", "UTF8"),
    )


def number_rows(values):
    """Whether a column of the file numbers its rows."""
    plain = all(re.fullmatch(r"0|[1-9]\d{0,17}", value, re.ASCII) for value in values)
    return plain and are_row_numbers([int(value) for value in values])


def preview(column, values, missing, numbers, dates):
    """A column with its type and first values, numbers as they are read; None for a missing one."""
    kind = csvfile.type_of(csvfile.known_of(values, missing), numbers, dates)
    cells = [csvfile.text_reader(missing)(value) for value in values[:SHOWN]]
    if kind in csvfile.NUMERIC:
        read = csvfile.number_reader(missing, numbers)
        cells = [read(value) for value in values[:SHOWN]]
    return {"name": column, "type": kind, "values": cells}


def read_plan(text):
    """How the file is to be read, as the browser says it; None for what the form cannot say."""
    try:
        plan = json.loads(text)
        known = all(
            plan[field] in choices
            for field, choices in (
                ("delimiter", csvfile.DELIMITERS),
                ("encoding", csvfile.ENCODINGS),
                ("missing", csvfile.MISSING),
                ("numbers", csvfile.NUMBERS),
                ("dates", csvfile.DATES),
            )
        )
        known = known and all(
            isinstance(one, str) and kind in (*csvfile.TYPES, csvfile.LEFT_OUT) for one, kind in plan["columns"]
        )
        known = known and any(kind != csvfile.LEFT_OUT for _, kind in plan["columns"])
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
    columns = ", ".join(f"{name(one)} {kind}" for one, kind in plan["columns"] if kind != csvfile.LEFT_OUT)
    reading = csvfile.Reading(
        plan["columns"],
        header=bool(plan["header"]),
        **{key: plan[key] for key in ("delimiter", "encoding", "missing", "numbers")},
    )

    async def rows():
        async for data in page.request.stream():
            yield reading.feed(data)
        yield reading.feed(b"", last=True)

    connection = None
    try:
        connection = await page.console.sessions.connect_apart(page.session, SECONDS)
        page.session.act()
        async with connection.transaction():
            await connection.execute("SET TRANSACTION READ WRITE")
            await connection.execute(f"SET LOCAL datestyle = '{csvfile.DATE_STYLES[plan['dates']]}'")
            await connection.execute(f"CREATE TABLE {relation} ({columns})")
            await connection.copy_to_table(
                plan["table"].strip(), schema_name=plan["schema"], source=rows(), encoding="UTF8", timeout=SECONDS
            )
        await connection.execute("BEGIN READ WRITE")
        await connection.execute(f"ANALYZE {relation}")
        await connection.execute("COMMIT")
        page.session.act()
    except csvfile.Unreadable as error:
        hint = "Change the column's type, how it is read, or the file; nothing was made."
        return page.show("fault_part.html", fault=Fault(str(error), hint))
    except FAULTS as error:
        fault = fault_of(error, SECONDS)
        where = getattr(error, "context", None) if isinstance(error, howdah.PostgresError) else None
        if where and (row := re.search(r"line (\d+)(.*)", where, re.DOTALL)):
            fault.hint = (
                f"Line {reading.line_of(int(row[1]))}{row[2]}. Change the column's type, how it is read, or the file; "
                "nothing was made."
            )
        return page.show("fault_part.html", fault=fault)
    finally:
        if connection is not None:
            connection.terminate()
    return page.go(f"/train/table?relation={quote(relation)}")
