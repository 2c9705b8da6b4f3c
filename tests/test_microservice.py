"""What the comparison with services stands on: processes that end, their cost, and what load generators say."""

import os
import sys
from pathlib import Path

import pytest

from bench.microservice import load, network
from bench.microservice.processes import Running, cpu_seconds, family, pss_bytes
from devkit import Problem

SPIN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_ends_with_its_children(tmp_path):
    running = Running("a shell", ["sh", "-c", "sleep 1000 & sleep 1000 & wait"], tmp_path / "log")
    running.wait_until(lambda: len(family([running.pid])) == 3)
    members = family([running.pid])
    running.stop()
    assert not any(map(alive, members))


def test_what_a_process_said_before_it_failed_is_told(tmp_path):
    running = Running("a shell", ["sh", "-c", "echo out of luck; exit 1"], tmp_path / "log")
    with pytest.raises(Problem, match="a shell did not start: out of luck"):
        running.wait_until(lambda: False)
    running.stop()


def test_cpu_counts_children_that_live_and_children_that_ended(tmp_path):
    code = (
        f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {SPIN.format(0.3)!r}])\ntime.sleep(1000)"
    )
    ended = Running("ended", [sys.executable, "-c", code], tmp_path / "ended")
    lives = Running(
        "lives", ["sh", "-c", f'"{sys.executable}" -c "{SPIN.format(0.3)}time.sleep(1000)"; :'], tmp_path / "lives"
    )
    try:
        for running in (ended, lives):
            # The kernel rounds each process's figures down to a hundredth of a second, and a sum shrinks by one or
            # two of them as an ended child's become its parent's: so the mark lies below 0.3.
            running.wait_until(lambda running=running: cpu_seconds([running.pid]) >= 0.25)
    finally:
        ended.stop()
        lives.stop()


def test_memory_is_shared_out_among_those_that_share_it(tmp_path):
    code = "import os, time\nheld = b'x' * 60_000_000\nos.fork() and os.fork()\ntime.sleep(1000)"
    running = Running("three", [sys.executable, "-c", code], tmp_path / "log")
    try:
        running.wait_until(lambda: len(family([running.pid])) == 3)
        # One copy of what it holds, not three.
        assert 60e6 < pss_bytes([running.pid]) < 120e6
    finally:
        running.stop()


@pytest.mark.parametrize("text, wanted", [("950.00us", 0.95), ("1.27ms", 1.27), ("1.05s", 1050), ("2.00m", 120_000)])
def test_a_time_of_wrk_in_milliseconds(text, wanted):
    assert load.milliseconds(text) == pytest.approx(wanted)


def test_a_figure_that_is_missing_is_told():
    with pytest.raises(Problem, match="said nothing of tps"):
        load.number("pgbench (18.4)", r"tps = ([\d.]+)")


def test_the_network_asks_for_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Problem, match="as root"):
        network.Network()
