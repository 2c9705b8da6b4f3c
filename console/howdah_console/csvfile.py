"""CSV files: what one seems to be by its first lines, and all of it as text for COPY.

A cell that is blank, or has the file's mark for missing values, is NULL. Numbers are written out as PostgreSQL reads
them; dates stay as they are, for the server to read by its DateStyle. So what is inferred here and what the server
takes agree.
"""

import bisect
import codecs
import csv
import datetime
import functools
import io
import re
from array import array

# A cell may have so many characters; beyond that a quote was not closed, or this is no CSV file.
LONGEST = 1 << 24
csv.field_size_limit(LONGEST)

TYPES = ("bigint", "double precision", "numeric", "boolean", "date", "timestamp", "timestamptz", "text")
LEFT_OUT = "left out"
NUMERIC = ("bigint", "double precision", "numeric")
MISSING = ("", "NA", "NULL", "N/A", "?", "-", "\\N")
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
ENCODINGS = {"UTF8": "UTF-8", "UTF16": "UTF-16", "WIN1252": "Windows (Western)"}
CODECS = {"UTF8": "utf-8-sig", "UTF16": "utf-16", "WIN1252": "cp1252"}

NUMBERS = {"plain": "1234.56", "grouped": "1,234.56", "comma": "1.234,56"}
GROUPS = {"plain": None, "grouped": "[,'\u2019]", "comma": "[. \u00a0\u202f]"}
CURRENCY = "[$€£¥₹₩₺₽₪]"
# With a zero in front it is a code, such as a postal one.
WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
REAL = re.compile(
    r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(inf|infinity)|nan", re.IGNORECASE
)

DATES = {"iso": "2024-01-31", "day": "31.01.2024 or 31/01/2024", "month": "01/31/2024"}
DATE_STYLES = {"iso": "ISO, YMD", "day": "ISO, DMY", "month": "ISO, MDY"}
DATE = {
    "iso": re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"),
    "day": re.compile(r"(?P<day>[0-9]{1,2})([./-])(?P<month>[0-9]{1,2})\2(?P<year>[0-9]{4})"),
    "month": re.compile(r"(?P<month>[0-9]{1,2})([/-])(?P<day>[0-9]{1,2})\2(?P<year>[0-9]{4})"),
}
CLOCK = re.compile(
    r"([ T]([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]+)?)?( ?[AaPp][Mm])?)?"
    r"(?P<zone> ?(Z|[-+][0-9]{2}(:?[0-9]{2})?))?"
)
BOOLEAN = re.compile("true|false|t|f|yes|no", re.IGNORECASE)


class Unreadable(Exception):
    """What is wrong with a file, in words."""


@functools.cache
def number_pattern(style):
    """The pattern of a number in a style, perhaps with a currency or a percent sign."""
    point = "," if style == "comma" else r"\."
    whole = "[0-9]+"
    if GROUPS[style]:
        whole = rf"[0-9]{{1,3}}(?P<group>{GROUPS[style]})[0-9]{{3}}((?P=group)[0-9]{{3}})*|{whole}"
    return re.compile(
        rf"(?P<sign>[-+]?)(?P<before>{CURRENCY}?) ?(?P<whole>({whole})?)({point}(?P<digits>[0-9]*))?"
        r"(?P<power>[eE][-+]?[0-9]+)?"
        rf"[ \u00a0\u202f]?(?P<after>(%|{CURRENCY})?)"
    )


def number_of(value, style):
    """A number as (PostgreSQL's way to write it, its currency or percent sign); None for what is none in the style."""
    match = number_pattern(style).fullmatch(value)
    if match is None or not (match["whole"] or match["digits"]):
        return (value, "") if style == "plain" or (REAL.fullmatch(value) and value[-1].isalpha()) else None
    if match["before"] and match["after"]:
        return None
    whole = re.sub(r"[^0-9]", "", match["whole"])
    point = "" if match["digits"] is None else "." + match["digits"]
    return match["sign"] + whole + point + (match["power"] or ""), match["before"] or match["after"]


def records(lines, delimiter):
    """The records of a list of lines, as (number of the first line from 0, number of the one after, fields)."""
    reader, start = csv.reader(lines, delimiter=delimiter), 0
    for fields in reader:
        yield start, reader.line_num, fields
        start = reader.line_num


def lines_of(text):
    """A text's lines with their ends, all of one character."""
    return list(io.StringIO(text, newline="\n"))


# What a file seems to be


def read_sample(text, delimiter, whole):
    """The records of the first lines of a file, as (line, fields); the last may be cut unless they are all."""
    lines = lines_of(text.replace("\r\n", "\n").replace("\r", "\n"))
    found = [(start + 1, fields) for start, _, fields in records(lines, delimiter) if fields]
    return found if whole or len(found) < 2 else found[:-1]


def delimiter_of(text, whole):
    """The delimiter by which most records have the same number of fields, more than one."""

    def score(one):
        widths = [len(fields) for _, fields in read_sample(text, one, whole)[:100]]
        return (widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0, widths[:1])

    return max(DELIMITERS, key=score)


def number_type(known, style):
    """The type of numbers that has all of these values in a style, or None."""
    read = []
    for value in known:
        number = number_of(value, style)
        if number is None or not REAL.fullmatch(number[0]):
            return None
        read.append(number)
    if len({sign for _, sign in read}) > 1:
        return None
    if not all(WHOLE.fullmatch(number) for number, _ in read):
        return "double precision"
    return "bigint" if all(len(number) <= 18 for number, _ in read) else "numeric"


def moment_type(known, style):
    """The type of dates and times that has all of these values in a style, or None."""
    zones, clocks = set(), set()
    for value in known:
        # The server reads ISO's dates in any style.
        match = DATE[style].match(value) or DATE["iso"].match(value)
        clock = match and CLOCK.fullmatch(value, match.end())
        if clock is None:
            return None
        try:
            datetime.date(int(match["year"]), int(match["month"]), int(match["day"]))
        except ValueError:
            return None
        clocks.add(clock[1] is not None)
        zones.add(clock["zone"] is not None)
    # A date with a zone and no time is no moment.
    if len(clocks) > 1 or len(zones) > 1 or (zones == {True} and clocks == {False}):
        return None
    return "timestamptz" if zones == {True} else "timestamp" if clocks == {True} else "date"


def known_of(values, missing):
    """The different values of a column that are not missing."""
    return frozenset(stripped for value in values if (stripped := value.strip()) and stripped != missing)


def type_of(known, numbers, dates):
    """The narrowest type that has all of these values."""
    if not known:
        return "text"
    found = number_type(known, numbers)
    if found is None and all(BOOLEAN.fullmatch(value) for value in known):
        found = "boolean"
    return found or moment_type(known, dates) or "text"


def styles_of(columns, delimiter, missing=None, numbers=None, dates=None):
    """How a file writes (missing values, numbers, dates): what makes the fewest columns text, unless it is given."""
    usual = ("plain", "comma", "grouped") if delimiter == ";" else ("plain", "grouped", "comma")
    marks = MISSING if missing is None else (missing,)
    numbers = usual if numbers is None else (numbers,)
    likely = ("iso", "day", "month") if delimiter == ";" else ("iso", "month", "day")
    dates = likely if dates is None else (dates,)

    is_text = functools.cache(lambda *asked: type_of(*asked) == "text")

    def texts(mark, numbers, dates):
        known = [known_of(values, mark) for values in columns]
        return sum(all(is_text(one, n, d) for n in numbers for d in dates) for one in known)

    mark = min(marks, key=lambda one: texts(one, numbers, dates))
    number = min(numbers, key=lambda one: texts(mark, (one,), dates))
    return mark, number, min(dates, key=lambda one: texts(mark, (number,), (one,)))


def is_ambiguous(columns, missing, numbers, dates):
    """Whether dates were taken by their order alone: the file has them day first and month first alike."""
    if dates == "iso":
        return False
    found = [[type_of(known_of(values, missing), numbers, one) for values in columns] for one in DATES]
    return found[0] != found[1] == found[2]


def is_header(rows, delimiter):
    """Whether the first row has names: one is not of its column's type, or all columns are text."""
    if len(rows) < 2:
        return True
    body = [[row[place] for row in rows[1:] if len(row) == len(rows[0])] for place in range(len(rows[0]))]
    missing, numbers, dates = styles_of(body, delimiter)

    def type_in_style(values):
        return type_of(known_of(values, missing), numbers, dates)

    typed = [(first, kind) for first, one in zip(rows[0], body, strict=True) if (kind := type_in_style(one)) != "text"]
    return not typed or any(type_in_style([first]) != kind for first, kind in typed)


def names_of(header):
    """Names of columns in small letters and without blanks, each once."""
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


def ragged(line, width, wanted):
    """What to say of a record with more or fewer fields than the first one."""
    return f"Line {line} has {width} {'field' if width == 1 else 'fields'}, and the first line {wanted}."


# All of a file


def text_reader(missing):
    """What reads the cells of a column of text, in which blanks around it count."""
    return lambda value: None if value.strip() in ("", missing) else value


def plain_reader(missing):
    """What reads the cells of a column whose values the server reads as they are written."""

    def read(value):
        value = value.strip()
        return None if not value or value == missing else value

    return read


def number_reader(missing, style):
    """What reads the cells of a column of numbers: of one currency, or all in per cent, or none of both."""
    sign = None
    plain = style == "plain"

    def read(value):
        nonlocal sign
        value = value.strip()
        if not value or value == missing:
            return None
        if plain and not sign and value[0].isdigit() and value[-1].isdigit():
            # What most numbers are, at a glance.
            sign = ""
            return value
        number = number_of(value, style)
        if number is None:
            raise Unreadable(f"“{value}” is no number written as {NUMBERS[style]}.")
        if number[1] != sign:
            if sign is not None:
                other = f"“{sign}”" if sign else "no sign"
                raise Unreadable(f"“{value}” is in another unit than the rows before, which have {other}.")
            sign = number[1]
        return number[0]

    return read


SPECIAL = re.compile(r"[\\\t\n\r]")
ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def escaped(value):
    """A cell as COPY's text format has it."""
    if value is None:
        return "\\N"
    return SPECIAL.sub(lambda match: ESCAPES[match[0]], value) if SPECIAL.search(value) else value


class Reading:
    """Reads a file piece by piece, as text for COPY."""

    def __init__(self, columns, *, delimiter, encoding, missing, header, numbers):
        readers = {LEFT_OUT: lambda: None, "text": lambda: text_reader(missing)}
        readers |= dict.fromkeys(NUMERIC, lambda: number_reader(missing, numbers))
        self.width = len(columns)
        # Of each column that is kept: its place, its name, and what reads its cells.
        self.cells = [
            (place, name, read)
            for place, (name, kind) in enumerate(columns)
            if (read := readers.get(kind, lambda: plain_reader(missing))())
        ]
        self.delimiter = delimiter
        self.encoding = encoding
        self.decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(CODECS[encoding])(), translate=True)
        self.skip = 1 if header else 0
        self.tail = ""
        self.held = []
        # The number of the first held line, from 0, and of rows so far.
        self.line = 0
        self.rows = 0
        # From the row of a number on, lines are so many more than rows.
        self.shifted, self.shifts = array("q"), array("q")

    def feed(self, data, last=False):
        """The rows of the next piece, as bytes; a record that may go on is kept until it ends."""
        try:
            text = self.tail + self.decoder.decode(data, final=last)
        except UnicodeError as error:
            raise Unreadable(
                f"The file is not in {ENCODINGS[self.encoding]}: {error.reason}. Choose another encoding."
            ) from None
        cut = len(text) if last else text.rfind("\n") + 1
        self.tail = text[cut:]
        lines = self.held + lines_of(text[:cut])
        rows = []
        previous, keep, end = None, 0, 0
        try:
            for start, following, fields in records(lines, self.delimiter):
                if previous is not None:
                    self.take(previous, keep, rows)
                previous, keep, end = fields, start, following
        except csv.Error:
            raise Unreadable(f"Line {self.line + end + 1} has a quote that is not closed.") from None
        if last and previous is not None:
            self.take(previous, keep, rows)
            keep = len(lines)
        self.held = lines[keep:]
        self.line += keep
        if len(self.tail) > LONGEST:
            raise Unreadable(f"Line {self.line + 1} is longer than {LONGEST >> 20} MB: this is no CSV file.")
        return "".join(rows).encode()

    def take(self, fields, start, rows):
        """Adds a record, which begins in a line of those held, to the rows."""
        if not fields:
            return
        if self.skip:
            self.skip = 0
            return
        line = self.line + start
        if len(fields) != self.width:
            raise Unreadable(ragged(line + 1, len(fields), self.width))
        if (self.shifts[-1] if self.shifts else 0) != line - self.rows:
            self.shifted.append(self.rows)
            self.shifts.append(line - self.rows)
        self.rows += 1
        try:
            rows.append("\t".join([escaped(read(fields[place])) for place, _, read in self.cells]) + "\n")
        except Unreadable:
            # Which one: read again, for the name of the column.
            for place, name, read in self.cells:
                try:
                    read(fields[place])
                except Unreadable as error:
                    raise Unreadable(f"Line {line + 1}, column {name}: {error}") from None
            raise

    def line_of(self, row):
        """The line in which a row begins, both from 1."""
        at = bisect.bisect_right(self.shifted, row - 1) - 1
        return row + (self.shifts[at] if at >= 0 else 0)
