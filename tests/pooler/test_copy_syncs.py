"""A Sync within a COPY, which a server ignores, and behind the error that has ended the COPY, which a server answers."""

import contextlib
import time

import pytest

from tests.pooler.process import Pooler
from tests.pooler.raw import EXECUTE, FLUSH, SYNC, Raw, bind, close, direct, execute, message, parse, query, show

COPY = "COPY public.lines FROM STDIN"
GOOD, BAD, END = message(b"d", b"1\n"), message(b"d", b"not a number\n"), message(b"c")
EXTENDED = (parse("", COPY), bind(""), EXECUTE)
SECRET = query("SELECT pg_sleep(0.5), 'secret of one'")


@pytest.fixture(autouse=True)
def lines(server):
    with direct(server) as owner:
        owner.sql("DROP TABLE IF EXISTS public.lines; CREATE TABLE public.lines (a int)")


@contextlib.contextmanager
def two_clients(server, pipelining=True):
    with contextlib.ExitStack() as stack:
        pooler = stack.enter_context(Pooler(server, default_pool_size=1, pipelining=pipelining))
        one, two = (stack.enter_context(Raw(pooler.port)) for _ in range(2))
        for client in (one, two):
            client.sql("SELECT 1")
        pooler.wait_for_catalog()
        yield pooler, one, two


def told(client):
    """All that a client is told, until nothing comes for half a second."""
    got = []
    while client.waiting(0.5):
        answer = client.next()
        if answer is None:
            return f"{show(got)} closed"
        got.append(answer)
    return show(got)


INSERT = "INSERT INTO public.lines VALUES (7)"


def portal(sql):
    """A statement that is run by a portal of one name."""
    return (parse("", sql), bind("", "p"), execute(portal="p"))


# Nothing here is waited for, so that the pooler has each message before the server has answered any.
AT_ONCE = {
    "a Query": [query(COPY), BAD, SYNC, SECRET],
    "an Execute": [*EXTENDED, BAD, SYNC, SECRET],
    "an Execute with a Sync of its own": [*EXTENDED, SYNC, GOOD, BAD, SYNC, END, SYNC, SECRET],
    "a COPY that is given up": [query(COPY), message(b"f", b"no\0"), SYNC, SECRET],
    "a portal of a name that an earlier unit has used": [*portal(INSERT), SYNC, *portal(COPY), SYNC, BAD, SYNC, SECRET],
    "a portal of a name that ends with a Query": [
        *portal(INSERT),
        query("SELECT 1"),
        *portal(COPY),
        SYNC,
        BAD,
        SYNC,
        SECRET,
    ],
    "two COPYs": [query(f"{COPY}; {COPY}"), GOOD, END, BAD, SYNC, SECRET],
}


@pytest.mark.parametrize("pipelining", [True, False])
@pytest.mark.parametrize("what", AT_ONCE)
def test_answers_behind_a_copy_that_fails_are_its_clients(server, what, pipelining):
    with two_clients(server, pipelining) as (pooler, one, two):
        with pooler.frozen():
            one.send(*AT_ONCE[what])
            time.sleep(0.1)
        time.sleep(0.2)
        assert two.sql("SELECT 'of two'") == "T D:of two C:SELECT 1 Z:I"
        assert two.sql("SELECT 'of two again'") == "T D:of two again C:SELECT 1 Z:I"


@pytest.mark.parametrize("form", ["query", "extended"])
@pytest.mark.parametrize("block", [False, True])
def test_a_sync_behind_the_line_that_fails_is_answered(server, form, block):
    answers = []
    with two_clients(server) as (_pooler, one, two), direct(server) as straight:
        for client in (straight, one):
            if block:
                client.sql("BEGIN")
            client.send(*([query(COPY)] if form == "query" else [*EXTENDED, FLUSH]))
            client.until(b"G")
            client.send(BAD, SYNC)
            answers.append(told(client))
            client.sql("ROLLBACK")
            answers.append(client.sql("SELECT 'goes on'"))
        assert answers[:2] == answers[2:]
        assert two.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I"


def test_a_sync_behind_an_execute_is_answered_if_the_copy_fails_before_its_first_line(server):
    with direct(server) as owner, two_clients(server) as (_pooler, one, two):
        owner.sql("CREATE OR REPLACE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql AS "
                  "'BEGIN PERFORM pg_sleep(0.1); RAISE EXCEPTION ''no''; END'")  # fmt: skip
        owner.sql("CREATE TRIGGER refuses BEFORE INSERT ON public.lines EXECUTE FUNCTION refuses()")
        answers = []
        for client in (owner, one):
            client.send(*EXTENDED, SYNC)
            answers.append(told(client))
        assert answers == ["1 2 G E:P0001 Z:I"] * 2
        assert two.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I"


STEPS = {
    "early": [*EXTENDED, SYNC, GOOD, END, SYNC],
    "early and between": [*EXTENDED, SYNC, GOOD, SYNC, END, SYNC, query("SELECT 3")],
    "behind a Query": [query(COPY), SYNC, GOOD, END, query("SELECT 3")],
    "between two COPYs": [query(f"{COPY}; {COPY}"), GOOD, END, SYNC, GOOD, END, query("SELECT 3")],
    "behind the end": [query(f"{COPY}; SELECT 5"), GOOD, END, SYNC, query("SELECT 3")],
    "behind two of one unit": [*EXTENDED, GOOD, END, *EXTENDED, GOOD, END, SYNC],
    "behind a line that fails": [*EXTENDED, BAD, GOOD, END, SYNC, query("SELECT 3")],
    "behind a DO": [parse("", "DO 'BEGIN END'"), bind(""), EXECUTE, SYNC, query("SELECT 3")],
    "behind an error": [parse("", "COPY public.nowhere FROM STDIN"), bind(""), EXECUTE, SYNC, GOOD, END, SYNC],
}


@pytest.mark.parametrize("pause", [0, 0.02])
@pytest.mark.parametrize("what", STEPS)
def test_syncs_are_answered_as_postgresql_does(server, what, pause):
    answers = []
    with direct(server) as straight, two_clients(server) as (_pooler, one, two):
        for client in (straight, one):
            for step in STEPS[what] if pause else [b"".join(STEPS[what])]:
                client.send(step)
                time.sleep(pause)
            answers.append(told(client))
            client.sql("TRUNCATE public.lines")
        assert answers[0] == answers[1]
        assert two.sql("SELECT 2") == "T D:2 C:SELECT 1 Z:I", "the connection is free again"


BEHIND = {
    "a Bind behind what forgets its name": [query(f"{COPY}; DISCARD ALL"), bind("x"), EXECUTE, SYNC],
    "a Close between two COPYs": [query(f"{COPY}; {COPY}"), close("x"), END, SYNC],
    "a Query in statement mode": [query(f"{COPY}; COMMIT"), query("SELECT 1")],
}


@pytest.mark.parametrize("what", BEHIND)
def test_a_message_that_waits_for_the_end_of_a_copy_ends_the_copy(server, what):
    mode = "statement" if what == "a Query in statement mode" else "transaction"
    with Pooler(server, default_pool_size=1, pool_mode=mode) as pooler, Raw(pooler.port) as one:
        one.send(parse("x", "SELECT 1"), SYNC)
        one.until(b"Z")
        one.send(*BEHIND[what], query("SELECT 'goes on'"))
        answers = told(one)
        assert "G E:57014 Z:I" in answers and answers.endswith("T D:goes on C:SELECT 1 Z:I"), answers


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("what", ["close", "close of an unknown name", "parse of a known text"])
def test_a_message_within_a_copy_that_the_pooler_answers_ends_the_copy(server, what, early):
    """PostgreSQL refuses the message itself; here it is the COPY that is refused, and the message is answered."""
    within = {
        "close": close(""),
        "close of an unknown name": close("x"),
        "parse of a known text": parse("y", "SELECT 1"),
    }
    with two_clients(server) as (_pooler, one, two):
        one.send(parse("x", "SELECT 1"), SYNC)
        one.until(b"Z")
        if early:
            one.send(query(COPY), within[what], SYNC, query("SELECT 'goes on'"))
        else:
            one.send(query(COPY))
            assert one.until(b"G")
            one.send(GOOD, within[what], SYNC, query("SELECT 'goes on'"))
        answers = told(one)
        assert answers.endswith("Z:I T D:goes on C:SELECT 1 Z:I") and "E:57014 Z:I" in answers, answers
        assert two.sql("SELECT count(*) FROM public.lines") == "T D:0 C:SELECT 1 Z:I"


@pytest.mark.parametrize("pipelining", [True, False])
def test_a_copy_is_asked_for_lines_before_its_client_has_sent_a_sync(server, pipelining):
    with two_clients(server, pipelining) as (_, one, two):
        one.send(*EXTENDED)
        assert show(one.until(b"G")) == "1 2 G"
        assert one.ask(GOOD, END, SYNC) == "C:COPY 1 Z:I"
        assert two.sql("TABLE public.lines") == "T D:1 C:SELECT 1 Z:I"
