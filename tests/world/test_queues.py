"""Job queues of Python, Go and Node through the pooler: each job is done, and once."""

import subprocess
import sys

import pytest

from devkit.server import environment
from tests.world.tools import HERE, in_go, in_node, two_ways

JOBS = 200


def procrastinate(url):
    """The command of Python's."""
    return [sys.executable, HERE / "python_queue.py", url]


def river(url):
    """The command of Go's."""
    return [in_go("queue"), f"{url}?sslmode=disable"]


def pg_boss(url):
    """The command of Node's."""
    return ["node", in_node("queue.js"), url]


def started(command):
    """A process of the queue's program."""
    return subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )


def ended(process):
    """Waits for its end; what it said, if it failed."""
    said, _ = process.communicate(timeout=90)
    assert process.returncode == 0, said[-3000:]


@pytest.mark.parametrize("queue", [procrastinate, river, pg_boss])
def test_each_job_is_done_once(server, queue):
    with two_ways(server) as urls:
        url = urls["pooled"]
        server.psql("CREATE TABLE done (number int)", url.rpartition("/")[2])
        ended(started([*queue(url), "fill", JOBS]))
        # Two that compete for the jobs, and look at once.
        workers = [started([*queue(url), "work", JOBS]) for _ in range(2)]
        for worker in workers:
            ended(worker)
        done = server.psql("SELECT count(*), count(DISTINCT number), max(number) FROM done", url.rpartition("/")[2])
        assert done == f"{JOBS}|{JOBS}|{JOBS - 1}"
