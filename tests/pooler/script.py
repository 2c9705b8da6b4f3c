r"""Scripts of messages: what clients send, and what they must be answered, as a table of text.

A row is a title, then steps. Behind `> ` stand the messages that a client sends, with " | " between them, and with " || "
where it waits for the answer; behind `< ` the answers, as `raw.show` shows them. `b> ` and `b< ` are a second client's,
which has the next turn. `~ ` stands in place of `< ` where only the pooler answers so. `@ ` gives startup parameters,
`@ in steps` has each answer waited for always, and `@ since 18` is for a row that earlier servers answer otherwise.
Messages:

    Q sql              Query                         S, H, c, f         Sync, Flush, CopyDone, CopyFail
    P: sql, P s: sql   Parse, under a name           d 1\n              CopyData
    B, B s, B s -> p   Bind, into a portal           d 1\n * 30         the same, so many times in one
    B s (7)            Bind with a text parameter    x sql              Parse, Bind and Execute without a name
    D, D s, C s        Describe, Close               E, E 1, E p, E p 1 Execute, of a row, of a portal
    Dp p, Cp p         the same of a portal          F                  FunctionCall: lo_creat
"""

import re
import struct
from dataclasses import dataclass, field

from tests.pooler.raw import FLUSH, SYNC, bind, close, describe, execute, message, parse, query, show

LO_CREAT = message(b"F", struct.pack("!IHHHIiH", 957, 1, 1, 1, 4, -1, 1))
PLAIN = {"S": SYNC, "H": FLUSH, "c": message(b"c"), "f": message(b"f", b"no\0"), "F": LO_CREAT, "E": execute()}


def bind_text(statement, value, portal=""):
    """A Bind of one parameter as text."""
    head = portal.encode() + b"\0" + statement.encode() + b"\0\0\0\0\1"
    return message(b"B", head + struct.pack("!i", len(value.encode())) + value.encode() + b"\0\0")


def encoded(text):
    """The bytes of one message, or of those that `x` stands for."""
    kind, _, rest = text.partition(" ")
    if text in PLAIN:
        return PLAIN[text]
    if kind == "Q":
        return query(rest)
    if kind == "x":
        return parse("", rest) + bind("") + execute()
    if text[0] == "P":
        name, _, sql = text[1:].partition(":")
        return parse(name.strip(), sql.strip())
    if kind == "B":
        statement, portal, value = re.fullmatch(r"(\S*?)(?: ?-> (\S+))?(?: ?\((.*)\))?", rest).groups()
        return bind_text(statement, value, portal or "") if value is not None else bind(statement, portal or "")
    if kind == "E":
        portal, _, rows = rest.rpartition(" ") if rest.endswith(" 1") or rest == "1" else (rest, "", "0")
        return execute(int(rows), portal)
    if kind == "d":
        line, _, times = rest.partition(" * ")
        return message(b"d", line.encode().decode("unicode_escape").encode() * int(times or 1))
    named = {"D": describe, "C": close}
    if kind in named:
        return named[kind](rest)
    assert kind in ("Dp", "Cp"), text
    return message(kind[:1].encode(), b"P" + rest.encode() + b"\0")


@dataclass
class Step:
    """What a client sends at once, and what it is answered."""

    client: str
    messages: list
    answer: str = ""


@dataclass
class Row:
    """A script."""

    title: str
    steps: list = field(default_factory=list)
    parameters: dict = field(default_factory=dict)
    of_pooler: bool = False
    in_steps: bool = False
    since: int = 0

    @property
    def clients(self):
        """The names of its clients, the first one's first."""
        return sorted({step.client for step in self.steps})


def rows(table):
    """The rows of a table."""
    found, begun = [], []
    for line in filter(None, table.splitlines()):
        mark, _, rest = line.partition(" ")
        if mark in (">", "b>"):
            begun = [
                Step(mark[:-1] or "a", [encoded(text) for text in part.split(" | ")]) for part in rest.split(" || ")
            ]
            found[-1].steps += begun
        elif mark in ("<", "b<", "~"):
            for step, answer in zip(begun, rest.split(" || "), strict=True):
                step.answer = answer
            found[-1].of_pooler |= mark == "~"
        elif line == "@ in steps":
            found[-1].in_steps = True
        elif line.startswith("@ since "):
            found[-1].since = int(line.split()[-1])
        elif mark == "@":
            found[-1].parameters |= dict(part.split("=", 1) for part in rest.split("; "))
        elif mark != "#":
            found.append(Row(line))
    return found


def expect(client, wanted):
    """Reads messages as long as they are those that are wanted."""
    told = ""
    while told != wanted:
        got = client.next()
        assert got is not None, f"closed after {told!r}, wanted {wanted!r}"
        told = f"{told} {show([got])}".strip()
        assert wanted.startswith(told), f"{told!r}, wanted {wanted!r}"
