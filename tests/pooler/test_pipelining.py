"""Pipelining across clients: whatever clients send and servers die of, nobody gets what is another's.

The clients of `tests.pooler.model` do all that may meet in a lane, each beside a model of itself, while server processes
are ended at random. The seed is printed; HOWDAH_SEED sets it, HOWDAH_SOAK makes it last so many seconds.
"""

import asyncio
import os
import random
import signal
import time

import pytest

from devkit import Problem, postgres
from devkit.server import Server
from tests.pooler.model import SCHEMA, WATCHED, Crowd
from tests.pooler.process import Pooler

CLIENTS = int(os.environ.get("HOWDAH_CLIENTS", "200"))
SECONDS = float(os.environ.get("HOWDAH_SOAK", "20"))
BACKENDS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


@pytest.fixture
def mortal(major):
    """A server of one's own, whose processes may be killed."""
    with Server(postgres.tree(major), {"max_connections": 100}) as running:
        running.psql(SCHEMA)
        yield running


async def psql(server, sql):
    """Asks the server itself; nothing while it recovers."""
    try:
        return await asyncio.to_thread(server.psql, sql)
    except Problem:
        return ""


class Misfortune:
    """What befalls the server, and how often."""

    def __init__(self, server, dice):
        self.server = server
        self.dice = dice
        self.terminated = 0
        self.killed = 0
        self.shifted = 0

    async def terminate(self):
        """Ends one process after another in good order."""
        while True:
            await asyncio.sleep(self.dice.uniform(0.2, 1.5))
            sql = f"SELECT pg_terminate_backend(pid) {BACKENDS} ORDER BY random() LIMIT 1"
            self.terminated += await psql(self.server, sql) == "t"

    async def kill(self):
        """Kills a process now and then: the server ends all others, recovers and is up again."""
        while True:
            await asyncio.sleep(self.dice.uniform(4, 12))
            pid = await psql(self.server, f"SELECT pid {BACKENDS} ORDER BY random() LIMIT 1")
            if pid:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.killed += 1

    async def shift(self):
        """Changes what rows of a table are, so that plans grow stale."""
        while True:
            for change in ("ADD COLUMN c int", "DROP COLUMN c"):
                await asyncio.sleep(self.dice.uniform(0.1, 1))
                await psql(self.server, f"SET lock_timeout = '100ms'; ALTER TABLE shifting {change}")
                self.shifted += 1


def go(server, pooler, clients, seconds, pipelining=True):
    """A crowd that has lived for so long on a server in misfortune, and its account settled."""
    seed = os.environ.get("HOWDAH_SEED") or str(random.randrange(10**9))
    print(f"HOWDAH_SEED={seed}")
    shown = ", ".join(f"coalesce(current_setting('{name}', true), '')" for name in WATCHED)
    defaults = dict(zip(WATCHED, server.psql(f"SET application_name = ''; SELECT {shown}").split("|"), strict=True))
    crowd = Crowd(pooler.port, seed, defaults, pipelining)
    crowd.show = lambda _: print(
        *(row for what in ("CLIENTS", "SERVERS", "POOLS") for row in pooler.show(what)), sep="\n"
    )
    misfortune = Misfortune(server, random.Random(seed))
    began = time.monotonic()
    asyncio.run(crowd.run(clients, seconds, misfortune.terminate(), misfortune.kill(), misfortune.shift()))
    took = time.monotonic() - began
    deadline = time.monotonic() + 30
    while not server.answers() and time.monotonic() < deadline:
        time.sleep(0.1)
    # What was under way on servers whose clients are gone has ended.
    time.sleep(1)
    crowd.account(server)
    print(f"{crowd.units} units in {took:.0f} s; {misfortune.terminated} processes ended, {misfortune.killed} killed")
    print(
        f"rows {len(crowd.rows)}, cancelled {crowd.cancelled}, reads told of a loss {crowd.unanswered}, batches with reads "
        f"on lost connections {len(crowd.lent_and_lost)}, stale {crowd.stale}, misnamed {crowd.misnamed}"
    )
    print(f"losses {dict(crowd.losses)}")
    print(f"told {dict(crowd.told)}; dropped {dict(crowd.dropped)}; kinds {dict(crowd.kinds)}")
    assert not crowd.wrong, "\n".join(crowd.wrong[:20])
    return crowd, misfortune


def test_nobody_gets_what_is_anothers(mortal):
    with Pooler(mortal, default_pool_size=8, max_client_conn=1000) as pooler:
        crowd, misfortune = go(mortal, pooler, CLIENTS, SECONDS)
        totals = pooler.show("STATS_TOTALS")
    deaths = misfortune.terminated + misfortune.killed * 8
    assert deaths and crowd.cancelled
    assert sum(int(row["xact_count"]) for row in totals) > crowd.units / 2
    # A read on a shared connection is told of a loss only when it was at the head twice. While the catalog may be out of
    # date reads are lent a connection, as writes are: its loss is told to all that its client has sent down it, which
    # may be several reads of one batch. Either way one connection that dies strikes one client.
    lost = crowd.unanswered + len(crowd.lent_and_lost)
    assert lost <= deaths + 3, f"{lost} clients were told of a loss, {deaths} processes died"
    # Who has prepared a text before another change of the table shares its statement with fewer: each of these is told
    # once, as without a pooler.
    assert crowd.stale <= crowd.units / 500
    assert not crowd.misnamed


def test_the_same_without_pipelining(mortal):
    with Pooler(mortal, default_pool_size=8, max_client_conn=1000, pipelining="false") as pooler:
        crowd, _ = go(mortal, pooler, 50, min(SECONDS, 8), pipelining=False)
    assert not crowd.misnamed
