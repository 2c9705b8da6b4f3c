"""What stands between a pooler and its server, and does with each message what a test says.

`Interposer` passes on what a real server and the pooler say to each other, whole message by whole message. It records
what the pooler says, holds the server's answers until told, and says something in the server's place. `Scripted` is a server that
says only what a test says.

A test waits for what it can see here (a message has been asked), never for a time.
"""

import contextlib
import socket
import struct
import threading
from pathlib import Path

from tests.pooler.raw import DEADLINE, Raw, message

CANCEL = struct.pack("!i", 80877102)
SSL_REQUEST = struct.pack("!i", 80877103)
# What ends a unit, and so is answered by a ReadyForQuery.
ENDS = (b"Q", b"S", b"F")
RST = struct.pack("ii", 1, 0)


# What servers say


def ready(status="I"):
    """A ReadyForQuery."""
    return message(b"Z", status.encode())


def complete(text):
    """A CommandComplete."""
    return message(b"C", text.encode() + b"\0")


def columns(*names):
    """A RowDescription of columns of type text."""
    body = b"".join(name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0) for name in names)
    return message(b"T", struct.pack("!h", len(names)) + body)


def row(*texts):
    """A DataRow."""
    body = b"".join(struct.pack("!i", len(text.encode())) + text.encode() for text in texts)
    return message(b"D", struct.pack("!h", len(texts)) + body)


def error(code, text, severity="ERROR"):
    """An ErrorResponse."""
    fields = {"S": severity, "V": severity, "C": code, "M": text}
    return message(b"E", b"".join(f"{name}{value}".encode() + b"\0" for name, value in fields.items()) + b"\0")


def parameter(name, value):
    """A ParameterStatus."""
    return message(b"S", name.encode() + b"\0" + value.encode() + b"\0")


def answer(*texts):
    """All that a simple SELECT of one row answers."""
    return columns(*("?column?" for _ in texts)) + row(*texts) + complete("SELECT 1") + ready()


GREETING = (
    message(b"R", struct.pack("!i", 0))
    + parameter("server_version", "18.0")
    + parameter("client_encoding", "UTF8")
    + parameter("DateStyle", "ISO, MDY")
    + parameter("TimeZone", "UTC")
    + parameter("standard_conforming_strings", "on")
    + parameter("application_name", "")
)


def messages(data):
    """Cuts bytes into whole messages; gives them, and what is left."""
    found, at = [], 0
    while len(data) - at >= 5:
        total = 1 + struct.unpack_from("!i", data, at + 1)[0]
        if len(data) - at < total:
            break
        found.append((data[at : at + 1], data[at + 5 : at + total]))
        at += total
    return found, data[at:]


def unread(near):
    """How many bytes the process at the other end of a TCP connection of this machine has not read yet."""
    here, there = near.getsockname()[1], near.getpeername()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ports = [int(address.split(":")[1], 16) for address in fields[1:3]]
        if ports == [there, here]:
            return int(fields[4].split(":")[1], 16)
    return 0


def end(*sockets):
    """Shuts down sockets, which wakes whoever reads them, and closes them."""
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def reset(*sockets):
    """Ends sockets of TCP by RST."""
    for each in sockets:
        with contextlib.suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
            each.shutdown(socket.SHUT_RD)
        each.close()


def first_packet(near):
    """What a connection begins with, once TLS has been declined."""
    first = near.recv(65536)
    while first[4:8] == SSL_REQUEST:
        near.sendall(b"N")
        first = near.recv(65536)
    return first


# What the pooler calls itself where it reads the catalog.
CATALOG = b"howdah catalog"


class Listener:
    """A port of this machine, and a thread for each connection to it."""

    # Where a `Pooler` finds it, as it would find a server.
    socket_folder = "127.0.0.1"

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.changed = threading.Condition()
        self._threads = []

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *exception):
        # A thread that waits in accept is woken by this, not by the closing.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end()
        for thread in self._threads:
            thread.join(5)

    def _start(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(self._serve, near)

    def _serve(self, near):
        try:
            self._begin(near)
        except OSError:
            near.close()

    def _begin(self, near):
        raise NotImplementedError

    def _end(self):
        raise NotImplementedError

    def wait(self, true, seconds=DEADLINE):
        """Waits until `true()` is, looking whenever something has changed here; what it gave."""
        found = []
        with self.changed:
            self.changed.wait_for(lambda: found.append(true()) or found[-1], seconds)
        assert found[-1], f"not so after {seconds} s"
        return found[-1]


class Link:
    """A connection of the pooler's, passed on to the server."""

    def __init__(self, net, near, far, number):
        self.net = net
        self.near = near
        self.far = far
        # How many connections came before it.
        self.number = number
        # What the pooler has said since its startup packet, as types and bodies.
        self.said = []
        self.closed = False
        # Held by who says something to the pooler; taken before that of `net.changed`, which nobody holds while it waits
        # for the pooler to read.
        self._speaking = threading.RLock()
        self._kept = None
        # A login ends as a unit does.
        self._asked = 1
        self._answered = 0

    def asks(self, marker):
        """How often something was sent over it that holds this text."""
        return sum(marker.encode() in body for _, body in self.said)

    @property
    def is_quiet(self):
        """Whether the server has answered all that it was asked, or will answer nothing more."""
        return self.closed or self._answered == self._asked

    @property
    def kept(self):
        """The server's messages that are held."""
        return messages(self._kept or b"")[0]

    def hold(self):
        """From now on the server's answers are kept."""
        with self.net.changed:
            self._kept = self._kept or b""

    def release(self, *more):
        """Passes on what was kept, with more behind it, as one piece; then all that comes."""
        with self._speaking:
            with self.net.changed:
                kept, self._kept = (self._kept or b"") + b"".join(more), None
            self.say(kept)

    def say(self, *parts):
        """Says something in the server's place."""
        with self._speaking, contextlib.suppress(OSError):
            self.near.sendall(b"".join(parts))

    # What its threads do

    def _there(self, left):
        """Passes on what the pooler says."""
        with contextlib.suppress(OSError):
            while True:
                found, left = messages(left)
                for kind, body in found:
                    self._ask(kind, body)
                more = self.near.recv(65536)
                if not more:
                    break
                left += more
        with self.net.changed:
            self.closed = True
            self.net.changed.notify_all()
        end(self.far)

    def _ask(self, kind, body):
        with self.net.changed:
            self.said.append((kind, body))
            self.net.changed.notify_all()
        with self.net.changed:
            self._asked += kind in ENDS
        self.far.sendall(message(kind, body))

    def _back(self):
        """Passes on what the server says."""
        left = b""
        with contextlib.suppress(OSError):
            while more := self.far.recv(65536):
                found, left = messages(left + more)
                with self._speaking:
                    with self.net.changed:
                        self._answered += sum(kind == b"Z" for kind, _ in found)
                        kept = self._kept is not None
                        if kept:
                            self._kept += more
                        self.net.changed.notify_all()
                    if not kept:
                        self.say(more)
        with self.net.changed:
            self.net.changed.wait_for(lambda: self._kept is None or self.closed)
            self.closed = True
            self.net.changed.notify_all()
        end(self.near)


def pump(source, sink):
    """Passes bytes on until there are no more."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    end(source, sink)


class Interposer(Listener):
    """A port that leads to a server. Give it to a `Pooler` in the server's place."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.tree = server.tree
        self.password = server.password
        self.links = []
        # The sockets of connections that are passed on and not looked at.
        self.beside = []

    def to_server(self):
        """A connection to the server."""
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{self.server.socket_folder}/.s.PGSQL.{self.server.port}")
        return far

    def _begin(self, near):
        first = first_packet(near)
        if not first:
            near.close()
        elif first[4:8] == CANCEL:
            with self.to_server() as far:
                far.sendall(first)
                # The server has acted on it when this ends.
                while far.recv(100):
                    pass
            end(near)
        elif CATALOG in first:
            self._aside(near, first)
        else:
            self._link(near, first)

    def _aside(self, near, first):
        """The connection that the pooler reads the catalog over has no part in what is tested."""
        far = self.to_server()
        far.sendall(first)
        self.beside.extend((near, far))
        self._start(pump, far, near)
        pump(near, far)

    def _link(self, near, first):
        far = self.to_server()
        far.sendall(first)
        with self.changed:
            link = Link(self, near, far, len(self.links))
            self.links.append(link)
            self.changed.notify_all()
        self._start(link._back)
        link._there(b"")

    def _end(self):
        with self.changed:
            for link in self.links:
                link._kept = None
                link.closed = True
            self.changed.notify_all()
        for link in self.links:
            end(link.near, link.far)
        end(*self.beside)

    def asking(self, marker, count=1):
        """Waits until something that holds this text was sent so often; the link it was sent over last."""
        self.wait(lambda: sum(link.asks(marker) for link in self.links) >= count)
        return max((link for link in self.links if link.asks(marker)), key=lambda link: (not link.closed, link.number))


class Session(Raw):
    """A session of a `Scripted` server: what the pooler sends is read message by message."""

    def __init__(self, near):
        # Accepted, not made.
        near.settimeout(DEADLINE)
        self.socket = near
        self.held = b""

    def unit(self):
        """The messages up to the end of a unit."""
        found = []
        while not found or found[-1][0] not in ENDS:
            got = self.next()
            if got is None:
                raise ConnectionAbortedError
            found.append(got)
        return found


class Scripted(Listener):
    """A server that lets everybody in, and then says only what a test says."""

    tree = None
    password = ""

    def __init__(self):
        super().__init__()
        self.sessions = []

    def _begin(self, near):
        first = first_packet(near)
        if not first or first[4:8] == CANCEL or CATALOG in first:
            near.close()
        else:
            with self.changed:
                number = len(self.sessions)
                near.sendall(GREETING + message(b"K", struct.pack("!ii", 1000 + number, number)) + ready())
                session = Session(near)
                self.sessions.append(session)
                self.changed.notify_all()

    def session(self, number):
        """The session of this number, when it is there."""
        self.wait(lambda: len(self.sessions) > number)
        return self.sessions[number]

    def _end(self):
        for session in self.sessions:
            end(session.socket)
