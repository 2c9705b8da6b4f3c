"""How a page asks the database: with the visitor's rights, briefly, and so that the SQL can be shown and copied."""

import asyncio
import re
from dataclasses import dataclass, field

import howdah

# What PostgreSQL 14 to 18 take for a name in quotes only, or take for another type without (`char`, `bit`).
KEYWORDS = """
all analyse analyze and any array as asc asymmetric authorization binary bit both case cast char check collate
collation column concurrently constraint create cross current_catalog current_date current_role current_schema
current_time current_timestamp current_user default deferrable desc distinct do else end except false fetch for
foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral leading
left like limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing
primary references returning right select session_user similar some symmetric system_user table tablesample then to
trailing true union unique user using variadic verbose when where window with
"""
PARAMETER = re.compile(r"\$(\d+)(::bigint\b|::text\b)?")


@dataclass
class Fault:
    """An error in place of what was asked, for the page to show there."""

    message: str
    hint: str = ""
    sqlstate: str = ""
    # The line of a statement that it is about.
    place: str = ""


@dataclass
class Answer:
    """Rows, or a fault, with the SQL that asked for them and the notices that came along."""

    sql: str
    rows: list = field(default_factory=list)
    fault: Fault | None = None
    notices: list = field(default_factory=list)

    @property
    def lacks_extension(self):
        """Whether it asked for tables of the extension, which are not there."""
        return self.fault is not None and self.fault.sqlstate in ("42P01", "3F000")

    @property
    def first(self):
        """The first row, or None."""
        return self.rows[0] if self.rows else None


def quoted(value):
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    text = str(value).replace("'", "''")
    return f"E'{text}'".replace("\\", "\\\\") if "\\" in text else f"'{text}'"


def name(identifier):
    """An identifier as SQL writes it."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", identifier) and identifier not in KEYWORDS.split():
        return identifier
    return '"' + identifier.replace('"', '""') + '"'


def written_out(text, values):
    """A statement with its values in place of its parameters: what is shown, and can be run in psql."""

    def value(match):
        given = values[int(match[1]) - 1]
        cast = match[2] or ""
        # A number is a bigint, and a quoted text a text, wherever they stand as arguments.
        return quoted(given) + (cast if given is None else "")

    return PARAMETER.sub(value, text)


def fault_of(error, seconds=None):
    """What an exception says to the visitor."""
    if isinstance(error, howdah.QueryCanceledError) and "statement timeout" in str(error):
        after = f" after {seconds:g} s" if seconds else ""
        return Fault(
            f"The server was asked to stop{after}: this took too long.", "Try a smaller relation, or a query.", "57014"
        )
    if isinstance(error, howdah.PostgresError):
        # The hint has a line of its own.
        message = str(error).partition("\nHINT:")[0]
        return Fault(message, getattr(error, "hint", None) or "", getattr(error, "sqlstate", None) or "")
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        hint = "It may be busy or down (behind a pooler: the primary), or the network slow. Try again."
        return Fault("The server did not answer in time.", hint)
    if isinstance(error, (OSError, howdah.InterfaceError)):
        return Fault("The server is away.", "Is it running? Try again when it is.")
    raise error


FAULTS = (howdah.PostgresError, howdah.InterfaceError, OSError, asyncio.TimeoutError)
# After these the connection is of no use, and neither is the page.
LOST = (
    howdah.PostgresConnectionError,
    howdah.InterfaceError,
    howdah.OperatorInterventionError,
    OSError,
    asyncio.TimeoutError,
)


# To a pooler with replicas: not one of them. To PostgreSQL it is a comment.
PRIMARY = "/* howdah: primary */ "
# A server that is silent for so long is asked whether it is there, and is to say so within as long.
SILENT_SECONDS = 1.5


class Ask:
    """Asks over one connection of the visitor's, in a `session`; `is_there` is to raise if the server is not."""

    def __init__(self, connection, seconds, session, is_there):
        self.connection = connection
        self.seconds = seconds
        self.session = session
        self.is_there = is_there
        # Whether a replica will not do.
        self.of_primary = session.has_just_acted()

    async def __call__(self, text, *values):
        """The answer to a statement; what the server refuses is the answer's fault, a lost server an exception."""
        text = re.sub(r"\n\s+", "\n", text.strip()) if "\n" in text else text
        answer = Answer(written_out(text, values))

        def listen(_, message):
            answer.notices.append(message.message)

        self.connection.add_log_listener(listen)
        try:
            sent = PRIMARY + text if self.of_primary else text
            answer.rows = await self._watched(self.connection.fetch(sent, *values, timeout=self.seconds + 3))
        except FAULTS as error:
            if isinstance(error, LOST) and not isinstance(error, howdah.QueryCanceledError):
                raise
            answer.fault = fault_of(error, self.seconds)
        finally:
            self.connection.remove_log_listener(listen)
        return answer

    async def act(self, text, *values):
        """As a call, in a transaction that may change something."""
        # The page that follows has to know of it.
        self.session.act()
        try:
            async with self.connection.transaction():
                await self._watched(self.connection.execute("SET TRANSACTION READ WRITE"))
                answer = await self(text, *values)
                if answer.fault:
                    raise Undone
        except Undone:
            pass
        return answer

    async def _watched(self, asked):
        """What was asked, unless the server turns out to be away meanwhile: a pooler lets a statement wait for it."""
        task = asyncio.ensure_future(asked)
        try:
            done, _ = await asyncio.wait({task}, timeout=SILENT_SECONDS)
            if not done:
                await asyncio.wait_for(self.is_there(), SILENT_SECONDS)
            return await task
        finally:
            task.cancel()

    async def allow(self, seconds):
        """From here on a statement may take so long."""
        self.seconds = seconds
        await self.connection.execute(f"SET statement_timeout = {int(seconds * 1000)}")


class Undone(Exception):
    """Takes a transaction back whose statement has failed."""
