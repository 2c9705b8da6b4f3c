"""The small programs of the benches: the server that answers at once, the relay before it, the generator of load."""

import contextlib
import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path

import pytest

from bench.instant import Load
from bench.programs import compiled, running
from devkit.server import free_port


@pytest.fixture(scope="module")
def places():
    """The ports of an instant server and of a relay before it, and the folder of their Unix sockets."""
    folder = tempfile.mkdtemp(prefix="howdah-test-", dir="/tmp")
    Path(folder).chmod(0o777)
    server, relay = free_port(), free_port()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        stack.enter_context(running([compiled("instant", folder), str(server), folder], f"{folder}/instant.log"))
        Client(server).close()
        place = f"{folder}/.s.PGSQL.{server}"
        command = [compiled("relay", folder), str(relay), folder, place, "postgres", "postgres"]
        stack.enter_context(running(command, f"{folder}/relay.log"))
        Client(relay).close()
        yield {"server": server, "relay": relay, "folder": folder}


@pytest.fixture
def client_of(places):
    """Makes clients of one of the two, which are closed when the test ends."""
    with contextlib.ExitStack() as stack:

        def make(which="server"):
            made = Client(places[which])
            stack.callback(made.close)
            return made

        yield make


class Client:
    """A client that says messages and reads answers up to a ReadyForQuery."""

    def __init__(self, port):
        for _ in range(200):
            with contextlib.suppress(ConnectionRefusedError):
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
                break
            time.sleep(0.05)
        self.come = b""
        packet = b"\0\3\0\0user\0somebody\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!I", len(packet) + 4) + packet)
        self.greeting = self.answer()

    def answer(self):
        """The messages up to the next ReadyForQuery."""
        found = []
        while not found or found[-1][0] != b"Z":
            while len(self.come) < 5 or len(self.come) < 1 + struct.unpack_from("!I", self.come, 1)[0]:
                more = self.socket.recv(65536)
                assert more, "the connection has ended"
                self.come += more
            end = 1 + struct.unpack_from("!I", self.come, 1)[0]
            found.append((self.come[:1], self.come[5:end]))
            self.come = self.come[end:]
        return found

    def ask(self, sql):
        """The answer to a simple query."""
        self.say(message(b"Q", sql.encode() + b"\0"))
        return self.answer()

    def say(self, *messages):
        """Sends messages together."""
        self.socket.sendall(b"".join(messages))

    def close(self):
        """Goes."""
        self.socket.close()


def message(tag, body=b""):
    """One message."""
    return tag + struct.pack("!I", len(body) + 4) + body


def tags(answer):
    """The tags of messages."""
    return b"".join(tag for tag, _ in answer)


ROW = (b"D", b"\0\1\0\0\0\x011")
DONE = (b"C", b"SELECT 1\0")


def test_the_instant_server_greets_as_a_server_does(client_of):
    client = client_of()
    told = dict(body[:-1].split(b"\0") for tag, body in client.greeting if tag == b"S")
    assert told[b"server_version"].startswith(b"18.")
    assert told[b"session_authorization"] == b"somebody"
    assert told[b"search_path"] == b'"$user", public'
    assert tags(client.greeting).endswith(b"KZ")


def test_it_answers_queries_and_keeps_the_status(client_of):
    client = client_of()
    assert client.ask("select a from t where b = ';'")[1:] == [ROW, DONE, (b"Z", b"I")]
    assert client.ask("BEGIN") == [(b"C", b"BEGIN\0"), (b"Z", b"T")]
    assert tags(client.ask("nonsense")) == b"EZ"
    assert client.ask("SELECT 1")[-1] == (b"Z", b"E")
    assert client.ask("COMMIT") == [(b"C", b"ROLLBACK\0"), (b"Z", b"I")]
    assert tags(client.ask(" ; ")) == b"IZ"


def test_it_reports_what_is_set(client_of):
    client = client_of()
    answer = client.ask("SET search_path='a', 'b';SET statement_timeout = 0;select 1")
    assert answer[0] == (b"S", b"search_path\0a, b\0")
    assert tags(answer) == b"SCCTDCZ"
    assert client.ask("RESET ALL")[0] == (b"S", b'search_path\0"$user", public\0')


@pytest.mark.parametrize("which", ["server", "relay"])
def test_a_batch_is_answered_in_order(client_of, which):
    client = client_of(which)
    bind = message(b"B", b"\0one\0" + bytes(6)) + message(b"E", b"\0" + bytes(4)) + message(b"S")
    parse = message(b"P", b"one\0SELECT $1\0\0\0") + message(b"S")
    client.say(parse, bind, message(b"Q", b"SELECT 2\0"), bind)
    answers = [client.answer() for _ in range(4)]
    assert [tags(answer) for answer in answers] == [b"1Z", b"2DCZ", b"TDCZ", b"2DCZ"]


def test_the_relay_gives_each_client_its_own_answers(client_of):
    clients = [client_of("relay") for _ in range(6)]
    for client in clients:
        client.say(message(b"Q", b"SELECT 1\0"))
    gone = clients.pop()
    gone.say(message(b"Q", b"SELECT 1\0"))
    gone.close()
    for client in clients:
        assert client.answer()[1:] == [ROW, DONE, (b"Z", b"I")]
        # A name that another has prepared there already.
        client.say(message(b"P", b"name\0SELECT 1\0\0\0"), message(b"S"))
        assert tags(client.answer()) == b"1Z"


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_the_generator_says_what_came_of_its_load(places, mode):
    load = Load(places["folder"])
    for place in (places["relay"], f"{places['folder']}/.s.PGSQL.{places['relay']}"):
        rate, cpu, least = load.run(place, mode, 20, 0.2)
        assert rate > 100
        assert cpu > 0
        assert 0 < least <= 1
