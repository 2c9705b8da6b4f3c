"""The servers of the tests and the demo: private, and gone with the process that started them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devkit import Problem, postgres
from devkit.places import ROOT
from devkit.server import Ports, Server, is_alive, sweep

EACH_VERSION = True

# A process that is started in the background ignores SIGINT, and so would this.
STARTER = """
import signal, sys, time
from devkit import postgres
from devkit.server import Server, end_on_signals
signal.signal(signal.SIGINT, signal.default_int_handler)
end_on_signals()
with Server(postgres.tree(int(sys.argv[1]))) as server:
    print(server.home, server.sockets.readlink(), server.pid, flush=True)
    time.sleep(600)
"""


def start_elsewhere(major):
    """A process of its own with a server; gives the process, the server's folders, and the postmaster's id."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(major)], env=environment, stdout=subprocess.PIPE, text=True
    )
    home, sockets, pid = process.stdout.readline().split()
    return process, Path(home), Path(sockets), int(pid)


def wait_until_gone(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} is still there after {seconds} s"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl_c", "sigterm"])
def test_a_server_ends_with_its_starter_and_leaves_nothing(major, number):
    process, home, sockets, pid = start_elsewhere(major)
    with process:
        assert is_alive(home / "data" / "postmaster.pid")
        process.send_signal(number)
        process.wait(20)
    wait_until_gone(pid)
    assert not home.exists()
    assert not sockets.exists()


def test_a_server_ends_when_its_starter_is_killed_and_the_next_one_sweeps(major):
    process, home, sockets, pid = start_elsewhere(major)
    with process:
        process.kill()
        process.wait(20)
    wait_until_gone(pid)
    assert home.exists()
    sweep(home.parent)
    assert not home.exists()
    assert not sockets.exists()


def test_a_sweep_leaves_living_servers_alone(server):
    sweep(server.home.parent)
    assert server.psql("SELECT 1") == "1"


def test_servers_run_side_by_side(server, major):
    with Server(postgres.tree(major)) as other:
        assert other.port != server.port
        assert other.psql("SELECT 1") == server.psql("SELECT 1") == "1"


def test_a_server_answers_by_tcp_to_its_password_only(server):
    def ask(url):
        command = [str(server.tree.program("psql")), "--no-psqlrc", "--no-password", "-qAt", "-c", "SELECT 1", url]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert ask(server.url()).stdout.strip() == "1"
    refused = ask(server.url().replace(server.password, "wrong"))
    assert refused.returncode != 0
    assert "password authentication failed" in refused.stderr


def test_a_server_does_not_run_as_root(server):
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0


def test_a_replica_follows_and_can_be_promoted(major):
    with Server(postgres.tree(major)) as primary:
        primary.psql("CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS n")
        with primary.replica() as replica:
            primary.psql("INSERT INTO numbers VALUES (0)")
            primary.wait_for_replay(replica)
            assert replica.psql("SELECT count(*) FROM numbers") == "1001"
            with pytest.raises(Problem, match="read-only transaction"):
                replica.psql("INSERT INTO numbers VALUES (-1)")
            replica.promote()
            replica.psql("INSERT INTO numbers VALUES (-1)")


def test_a_server_keeps_its_data_over_a_restart(major):
    with Server(postgres.tree(major)) as server:
        server.psql("CREATE TABLE kept (n int)")
        server.restart()
        assert server.psql("SELECT count(*) FROM kept") == "0"


def test_settings_are_the_servers(major):
    with Server(postgres.tree(major), {"work_mem": "7MB"}) as server:
        assert server.psql("SHOW work_mem") == "7MB"


def test_a_server_that_cannot_start_says_why(major):
    with pytest.raises(Problem, match="nonsense"), Server(postgres.tree(major), {"shared_buffers": "nonsense"}):
        pass


def test_ports_of_two_processes_are_never_the_same(tmp_path):
    with contextlib.closing(Ports(tmp_path)) as one, contextlib.closing(Ports(tmp_path)) as other:
        given = [ports.next() for _ in range(Ports.SIZE // 2) for ports in (one, other)]
    assert len(set(given)) == len(given)
    last = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(Ports.FIRST <= port < last for port in given), "none that an outgoing connection may take"


def test_a_port_that_is_taken_is_passed_over(tmp_path):
    with contextlib.closing(Ports(tmp_path)) as ports, socket.socket() as taken:
        first = ports.next()
        taken.bind(("127.0.0.1", first + 1 if first % Ports.SIZE < Ports.SIZE - 1 else first - Ports.SIZE + 1))
        taken.listen()
        rest = [ports.next() for _ in range(2 * Ports.SIZE)]
        assert taken.getsockname()[1] not in rest


def test_a_port_is_not_given_twice_in_a_row_when_no_other_is_free(tmp_path):
    with contextlib.closing(Ports(tmp_path)) as ports, contextlib.ExitStack() as others:
        first = ports.next()
        block = first - first % Ports.SIZE
        for port in set(range(block, block + Ports.SIZE)) - {first}:
            with contextlib.suppress(OSError):
                others.enter_context(socket.socket()).bind(("127.0.0.1", port))
        assert ports.next() != first


def test_ports_of_servers_that_have_ended_are_given_again(tmp_path):
    with contextlib.closing(Ports(tmp_path)) as ports:
        given = [ports.next() for _ in range(Ports.SIZE)]
        for port in given:
            with (
                socket.create_server(("127.0.0.1", port)) as server,
                socket.create_connection(("127.0.0.1", port)) as one,
            ):
                # The server ends first: its side of the connection stays for a minute.
                server.accept()[0].close()
                one.recv(1)
        assert {ports.next() for _ in given} == set(given)
