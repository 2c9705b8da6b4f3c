"""A client that sends exactly the bytes it is told, for what no driver does."""

import socket
import ssl
import struct

from devkit.server import SUPERUSER


def message(kind, body=b""):
    """A message of the protocol."""
    return kind + struct.pack("!i", len(body) + 4) + body


def startup(database, user=SUPERUSER, minor=0, **parameters):
    """A startup packet."""
    given = {"user": user, "database": database, **parameters}
    body = struct.pack("!HH", 3, minor)
    body += b"".join(part.encode() + b"\0" for pair in given.items() for part in pair) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql):
    """A Query."""
    return message(b"Q", sql.encode() + b"\0")


def parse(name, sql):
    """A Parse."""
    return message(b"P", name.encode() + b"\0" + sql.encode() + b"\0\0\0")


def bind(statement, portal=""):
    """A Bind without parameters."""
    return message(b"B", portal.encode() + b"\0" + statement.encode() + b"\0" + b"\0\0" * 3)


def describe(statement):
    """A Describe of a statement."""
    return message(b"D", b"S" + statement.encode() + b"\0")


def close(statement):
    """A Close of a statement."""
    return message(b"C", b"S" + statement.encode() + b"\0")


SSL_REQUEST = struct.pack("!ii", 8, 80877103)
EXECUTE = message(b"E", b"\0" + b"\0\0\0\0")
SYNC = message(b"S")
FLUSH = message(b"H")


class Raw:
    """A connection, logged in without a password, with these startup parameters, unless `login` is false.

    With a context of `ssl` it speaks TLS; when `direct`, without asking first.
    """

    def __init__(
        self, port, database="postgres", login=True, minor=0, user=SUPERUSER, context=None, direct=False, **parameters
    ):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        # After a handshake it would wait for an acknowledgement that nobody hurries to send.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            try:
                if not direct:
                    self.socket.sendall(SSL_REQUEST)
                    assert self.socket.recv(1) == b"S"
                self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
            except BaseException:
                self.socket.close()
                raise
        self.held = b""
        if login:
            self.send(startup(database, user, minor, **parameters))
            self.greeting = self.until(b"Z")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.socket.close()

    def send(self, *parts):
        """Sends bytes."""
        self.socket.sendall(b"".join(parts))

    def next(self):
        """The next message: its type and its body; None when the connection is closed."""
        while True:
            if len(self.held) >= 5:
                length = struct.unpack("!i", self.held[1:5])[0]
                if len(self.held) > length:
                    kind, body = self.held[:1], self.held[5 : 1 + length]
                    self.held = self.held[1 + length :]
                    return kind, body
            try:
                more = self.socket.recv(65536)
            except (ConnectionResetError, ssl.SSLEOFError):
                more = b""
            if not more:
                return None
            self.held += more

    def until(self, kind):
        """All messages up to one of this type."""
        found = []
        while not found or found[-1][0] != kind:
            got = self.next()
            assert got is not None, f"closed after {found}"
            found.append(got)
        return found

    def is_closed(self):
        """Whether the other side closes within the time that a read may take, having said nothing more."""
        try:
            return self.next() is None
        except ssl.SSLError:
            return True

    def kinds(self, *parts, until=b"Z"):
        """Sends bytes and gives the types of the answers up to one of a type, as text."""
        self.send(*parts)
        return b"".join(kind for kind, _ in self.until(until)).decode()


def code(body):
    """The SQLSTATE of an ErrorResponse."""
    return next(field[1:].decode() for field in body.split(b"\0") if field[:1] == b"C")


def values(messages):
    """The values of all DataRows, as text."""
    found = []
    for kind, body in messages:
        if kind == b"D":
            at = 2
            for _ in range(struct.unpack("!h", body[:2])[0]):
                length = struct.unpack("!i", body[at : at + 4])[0]
                found.append(None if length < 0 else body[at + 4 : at + 4 + length].decode())
                at += 4 + max(length, 0)
    return found
