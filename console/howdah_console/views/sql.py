"""A statement of the visitor's own: as a table, a plot, a plan or CSV."""

import asyncio
import contextlib
import json
import math
import re
import secrets

import howdah
from starlette.responses import Response, StreamingResponse

from howdah_console.app import Forbidden
from howdah_console.ask import FAULTS, Answer, Fault, fault_of
from howdah_console.figures import MOMENTS, NUMBERS, moment_of

MOST_ROWS = 500
MOST_CSV = 1_000_000
MOST_POINTS = 5000
# Bars of a column, and columns that are drawn as bars.
MOST_BARS = 50
MOST_BARRED = 4
# Statements of one session at once.
MOST_RUNNING = 8
CANCEL_ATTEMPTS = 20
# What a cell shows at most.
WIDEST = 300
EXAMPLE = """SELECT p.name AS project, m.algorithm, m.metrics->>'f1' AS f1, m.created_at
FROM pgml.models AS m JOIN pgml.projects AS p ON p.id = m.project_id
ORDER BY m.id DESC"""


async def show(page):
    """The page, with a statement that another page sends along."""
    return page.show(
        "sql.html", here="sql", text=EXAMPLE, run=secrets.token_urlsafe(12), seconds=page.settings.sql_seconds
    )


@contextlib.asynccontextmanager
async def transaction(page, token):
    """A connection of its own, in a transaction that is read-only unless actions are allowed."""
    running = page.session.running
    if len(running) >= MOST_RUNNING:
        raise Forbidden(f"{MOST_RUNNING} statements of yours are running: cancel one, or wait for its end.")
    connection = await page.console.sessions.connect_apart(page.session, page.settings.sql_seconds)
    # As psql shows them.
    connection.keep_texts()
    running[token] = connection.get_server_pid()
    try:
        begin = "BEGIN READ WRITE" if page.settings.actions else "BEGIN READ ONLY"
        # With this snapshot taken, no statement can make the transaction a writing one. If the primary is down, a
        # pooler lets it wait.
        for statement in (begin, "SELECT 1"):
            await connection.execute(statement, timeout=page.settings.page_seconds)
        yield connection
    finally:
        running.pop(token, None)
        # A statement that still runs ends with its connection.
        with contextlib.suppress(Exception):
            await asyncio.wait_for(connection.close(timeout=1), 2)


async def run(page):
    """Runs the statement, and shows what it gave; with `plan`, how the server would run it."""
    text = page.form.get("text", "").strip().rstrip(";").rstrip()
    token = page.form.get("run", "")[:40]
    if not text:
        return page.show("sql_result.html", answer=None, fault=Fault("Write a statement first."), run=token)
    plans = bool(page.form.get("plan"))
    if plans and not text.lower().startswith("explain"):
        text = "EXPLAIN " + text
    answer, outcome, more, columns = Answer(text), "", False, []
    began = asyncio.get_running_loop().time()
    try:
        async with transaction(page, token) as connection:
            connection.add_log_listener(
                lambda _, message: answer.notices.append(f"{message.severity}: {message.message}")
            )
            prepared = await connection.prepare(text)
            columns = [(one.name, one.type.name) for one in prepared.get_attributes()]
            # The server runs a statement that writes to its end, however few of its rows are fetched.
            if columns:
                cursor = await prepared.cursor()
                answer.rows = await cursor.fetch(MOST_ROWS + 1)
                more = len(answer.rows) > MOST_ROWS
                answer.rows = answer.rows[:MOST_ROWS]
            else:
                await prepared.fetch()
                outcome = prepared.get_statusmsg()
            # A plan that is analysed has been run, and is undone.
            if page.settings.actions and not plans:
                await connection.execute("COMMIT")
                page.session.act()
    except FAULTS as error:
        cancelled = isinstance(error, howdah.QueryCanceledError) and "user request" in str(error)
        answer.fault = Fault("Cancelled.") if cancelled else told(error, text, page.settings.sql_seconds)
    seconds = asyncio.get_running_loop().time() - began
    drawn = bars(columns, answer.rows)
    shown = [[None if value is None else cut(value) for value in row] for row in answer.rows]
    return page.show(
        "sql_result.html",
        answer=answer,
        fault=answer.fault,
        columns=columns,
        rows=shown,
        numeric=[kind in NUMBERS for _, kind in columns],
        outcome=outcome,
        more=more,
        most=MOST_ROWS,
        seconds=seconds,
        bars=drawn,
        picture=None if drawn else plot(columns, answer.rows),
        plan="\n".join(row[0] for row in answer.rows) if columns == [("QUERY PLAN", "text")] else None,
        run=token,
    )


def told(error, text, seconds):
    """What an error says, with the line of the statement that it is about."""
    fault = fault_of(error, seconds)
    position = getattr(error, "position", None)
    if position:
        before = text[: int(position) - 1]
        line, at = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        fault.place = f"LINE {line + 1}: "
        fault.place += text.splitlines()[line] + "\n" + " " * (len(fault.place) + at) + "^"
    if "cannot insert multiple commands" in fault.message:
        fault.message, fault.hint = "A cell has one statement.", "Write the others in cells of their own."
    return fault


def cut(text):
    """A cell's text, shortened."""
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def plot(columns, rows):
    """The columns of numbers over the first column if that is a number or a time, else over the rows' numbers."""
    places = [place for place, (_, kind) in enumerate(columns) if kind in NUMBERS]
    is_time = columns and columns[0][1] in MOMENTS
    if not places or len(rows) < 3:
        return None
    x, rest = (places[0], places[1:]) if len(places) > 1 else (None, places)
    if is_time:
        x, rest = 0, places
    read = moment_of if is_time else number_of
    rows = rows[:MOST_POINTS]
    if x is not None:
        rows = [(value, row) for row in rows if row[x] is not None and (value := read(row[x])) is not None]
        rows.sort(key=lambda pair: pair[0])
    else:
        rows = list(enumerate(rows, 1))
    # A line through values of one x would be none.
    lines = [
        {
            "label": columns[place][0],
            "x": [value for value, _ in rows],
            "y": [number_of(row[place]) for _, row in rows],
        }
        for place in rest[:8]
    ]
    name = columns[x][0] if x is not None else "row"
    one = columns[rest[0]][0] if len(rest) == 1 else ""
    return json.dumps({"lines": lines, "x": name, "y": one, "points": True, "time": bool(is_time)})


def number_of(text):
    """A number that can be drawn, or None."""
    return None if text is None or not math.isfinite(float(text)) else float(text)


def bars(columns, rows):
    """The numbers of the first rows by the text that a result begins with, or that is beside its only number, as
    (the text's column, [(column, [(text, number, share of the largest)])]); None for any other result.
    """
    places = [place for place, (_, kind) in enumerate(columns) if kind in NUMBERS]
    texts = [place for place, (_, kind) in enumerate(columns) if kind not in (*NUMBERS, *MOMENTS)]
    if not places or not texts or not rows or (texts[0] > 0 and len(places) > 1):
        return None
    drawn = []
    for place in places[:MOST_BARRED]:
        numbers = [number_of(row[place]) for row in rows[:MOST_BARS]]
        largest = max((abs(one) for one in numbers if one is not None), default=0) or 1
        found = [
            (None if row[texts[0]] is None else cut(row[texts[0]]), row[place], (one or 0) / largest)
            for row, one in zip(rows, numbers, strict=False)
        ]
        drawn.append((columns[place][0], found))
    return columns[texts[0]][0], drawn


async def cancel(page):
    """Asks the server to stop the statement that runs."""
    running, token = page.session.running, page.form.get("run", "")
    process = running.get(token)
    # A server process that is between two statements ignores the signal, so it is asked until it has stopped.
    for _ in range(CANCEL_ATTEMPTS):
        if process is None or running.get(token) != process:
            break
        await page.ask("SELECT pg_cancel_backend($1::int)", process)
        await asyncio.sleep(0.1)
    # What ran says how it ended.
    return Response(status_code=204)


async def csv(page):
    """The whole result as a file."""
    text = page.form.get("text", "").strip().rstrip(";").rstrip()
    token = secrets.token_urlsafe(12)
    stack = contextlib.AsyncExitStack()
    try:
        connection = await stack.enter_async_context(transaction(page, token))
        prepared = await connection.prepare(text)
        names = [one.name for one in prepared.get_attributes()]
        if not names:
            await stack.aclose()
            return page.show("fault_part.html", 400, fault=Fault("This statement has no rows to save."))
        cursor = await prepared.cursor()
        first = await cursor.fetch(1000)
    except FAULTS as error:
        await stack.aclose()
        return page.show("fault_part.html", 400, fault=told(error, text, page.settings.sql_seconds))

    async def lines():
        rows, sent = first, 0
        async with stack:
            yield written([names])
            while rows and sent < MOST_CSV:
                yield written(rows)
                sent += len(rows)
                rows = await cursor.fetch(1000)

    headers = {"Content-Disposition": 'attachment; filename="result.csv"'}
    return StreamingResponse(lines(), media_type="text/csv; charset=utf-8", headers=headers)


def written(rows):
    """Rows as CSV, as COPY writes them: an empty text is quoted, NULL is nothing."""
    return "".join(",".join(map(field, row)) + "\n" for row in rows)


def field(value):
    """A value in CSV."""
    if value is None:
        return ""
    return '"' + value.replace('"', '""') + '"' if value == "" or re.search(r'[,"\r\n]', value) else value
