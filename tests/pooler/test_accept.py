"""Connections that arrive when the system has nothing left for them."""

import contextlib
import resource
import socket

from tests.pooler.process import Pooler, wait_until
from tests.pooler.raw import Raw, query, startup, values

LIMIT = 60


def descriptors_limited(pooler):
    """Lets the running pooler open so many files, sockets among them, and no more."""
    resource.prlimit(pooler.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


def test_who_waits_in_the_backlog_is_served_when_descriptors_are_free_again(server):
    """Nothing tells of those who wait already: the pooler must come back by itself."""
    with Pooler(server, default_pool_size=1) as pooler, contextlib.ExitStack() as stack:
        descriptors_limited(pooler)
        crowd = [stack.enter_context(Raw(pooler.port, login=False)) for _ in range(LIMIT)]
        wait_until(lambda: "cannot accept connections" in pooler.log.read_text())
        for client in crowd[: LIMIT - 5]:
            client.socket.close()
        late = crowd[-1]
        late.send(startup("postgres"))
        late.until(b"Z")
        late.send(query("SELECT 7"))
        assert values(late.until(b"Z")) == ["7"]
        assert pooler.log.read_text().count("cannot accept connections") == 1


def test_an_exhausted_system_is_told_once_and_not_for_each_attempt(server):
    with Pooler(server) as pooler, contextlib.ExitStack() as stack:
        descriptors_limited(pooler)
        for _ in range(2 * LIMIT):
            stack.enter_context(socket.create_connection(("127.0.0.1", pooler.port)))
        wait_until(lambda: "cannot accept connections" in pooler.log.read_text())
        stack.close()
        wait_until(lambda: "connections are accepted again" in pooler.log.read_text())
        assert pooler.log.read_text().count("cannot accept") == 1
        assert pooler.psql("SELECT 1") == "1"
