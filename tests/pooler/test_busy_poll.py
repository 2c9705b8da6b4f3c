"""A lone client is waited for awake, for as long as `busy_poll` says, and nobody else is."""

import os
import time
from pathlib import Path

from tests.pooler.process import Pooler, ask

NEWEST_ONLY = True


def cpu_while(pooler, seconds, work):
    """The CPU seconds of the pooler while `work` is done every 0.3 s."""

    def used():
        fields = Path(f"/proc/{pooler.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        work()
        time.sleep(0.3)
    return used() - before


def test_a_lone_client_is_waited_for_awake_as_long_as_said(server):
    with Pooler(server) as pooler, pooler.connect() as client:

        def statement():
            assert ask(client, "SELECT 1") == [(1,)]

        statement()
        asleep = cpu_while(pooler, 1.5, statement)
        pooler.reload(busy_poll="0.2")
        # Cores that others want are left to them, so it is only seen to look, not how much, and on a busy machine not soon.
        tries = (cpu_while(pooler, 1.5, statement) for _ in range(20))
        awake = next((used for used in tries if used > asleep + 0.1), None)
        assert awake is not None, asleep
        # Nobody speaks any more.
        assert cpu_while(pooler, 1.5, lambda: None) < awake / 2 + 0.1


def test_clients_that_speak_together_are_served_as_ever(server):
    with Pooler(server, busy_poll="0.05") as pooler, pooler.connect() as one, pooler.connect() as other:
        for number in range(200):
            assert ask(one, f"SELECT {number}") == [(number,)]
            assert ask(other, f"SELECT {-number}") == [(-number,)]
