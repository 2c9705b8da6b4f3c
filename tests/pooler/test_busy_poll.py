"""A lone client is waited for awake, for as long as `busy_poll` says, and nobody else is."""

import os
import time
from pathlib import Path

from tests.pooler.process import Pooler, ask


def looks_while(pooler, seconds, work):
    """How much the pooler looks for what comes while `work` is done every 0.3 s, in hundredths of a second.

    That is the CPU that it uses, or, where others want the cores, how often it left one to them: it does so each time it
    has looked, and when it sleeps it leaves them of itself, which is not counted.
    """

    def found():
        process = Path(f"/proc/{pooler.process.pid}")
        fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
        left = sum(
            int(line.split()[1])
            for status in process.glob("task/*/status")
            for line in status.read_text().splitlines()
            if line.startswith("nonvoluntary_ctxt_switches")
        )
        return (int(fields[11]) + int(fields[12])) * 100 / os.sysconf("SC_CLK_TCK"), left

    cpu, left = found()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        work()
        time.sleep(0.3)
    after = found()
    return after[0] - cpu + after[1] - left


def test_a_lone_client_is_waited_for_awake_as_long_as_said(server):
    with Pooler(server) as pooler, pooler.connect() as client:

        def statement():
            assert ask(client, "SELECT 1") == [(1,)]

        statement()
        asleep = looks_while(pooler, 1.5, statement)
        pooler.reload(busy_poll="0.2")
        tries = (looks_while(pooler, 1.5, statement) for _ in range(20))
        awake = next((looks for looks in tries if looks > 2 * asleep + 10), None)
        assert awake is not None, asleep
        # Nobody speaks any more.
        assert looks_while(pooler, 1.5, lambda: None) < awake / 2 + 10


def test_clients_that_speak_together_are_served_as_ever(server):
    with Pooler(server, busy_poll="0.05") as pooler, pooler.connect() as one, pooler.connect() as other:
        for number in range(200):
            assert ask(one, f"SELECT {number}") == [(number,)]
            assert ask(other, f"SELECT {-number}") == [(-number,)]
