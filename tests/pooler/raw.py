"""A client that sends exactly the bytes it is told, for what no driver does."""

import select
import socket
import ssl
import struct

from devkit.server import SUPERUSER

# Of what comes at all, if late: the tests share their machine with other work.
DEADLINE = 60


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


def execute(rows=0, portal=""):
    """An Execute that asks for so many rows, or for all."""
    return message(b"E", portal.encode() + b"\0" + struct.pack("!i", rows))


SSL_REQUEST = struct.pack("!ii", 8, 80877103)
EXECUTE = execute()
SYNC = message(b"S")
FLUSH = message(b"H")


class Raw:
    """A connection to a port, or to a Unix socket's path, logged in without a password, with these startup parameters,
    unless `login` is false.

    With a context of `ssl` it speaks TLS; when `direct`, without asking first.
    """

    def __init__(
        self, port, database="postgres", login=True, minor=0, user=SUPERUSER, context=None, direct=False, **parameters
    ):
        if isinstance(port, int):
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
            # After a handshake it would wait for an acknowledgement that nobody hurries to send.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(DEADLINE)
            self.socket.connect(port)
        if context is not None:
            try:
                if not direct:
                    self.socket.sendall(SSL_REQUEST)
                    assert self.socket.recv(1) == b"S"
                # An end of TCP without one of TLS is an error, as to libpq.
                self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
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

    def ask_to_cancel(self, port, **options):
        """A connection of its own that has brought a cancel request for this one."""
        key = next(body for kind, body in self.greeting if kind == b"K")
        request = Raw(port, login=False, **options)
        request.send(struct.pack("!ii", 8 + len(key), 80877102) + key)
        return request

    def cancel(self, port, **options):
        """Sends a cancel request for it, and waits until that has been taken."""
        with self.ask_to_cancel(port, **options) as request:
            assert request.is_closed()

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

    def ask(self, *parts, units=1):
        """Sends bytes and gives what so many units are answered with, as `show` shows it."""
        self.send(*parts)
        return show([message for _ in range(units) for message in self.until(b"Z")])

    def sql(self, text):
        """What a Query is answered with, as `show` shows it."""
        return self.ask(query(text))

    def value(self, text):
        """The first value that a Query answers."""
        self.send(query(text))
        found = self.until(b"Z")
        rows = values(found)
        assert rows, show(found)
        return rows[0]

    def waiting(self, seconds):
        """Whether something has come within so many seconds; it is not taken."""
        return bool(self.held) or bool(select.select([self.socket], [], [], seconds)[0])

    def reset(self):
        """Leaves without a word: the other side gets RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

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


def direct(server, **options):
    """A connection straight to a server, by its socket, which wants no password."""
    return Raw(f"{server.socket_folder}/.s.PGSQL.{server.port}", **options)


def show(messages):
    """Messages as a line of text: `T D:1 C:SELECT 1 Z:I`, errors as `E:22012`. Parameters and notices, which may come at
    any time, are left out.
    """
    return " ".join(_shown(kind, body) for kind, body in messages if kind not in (b"S", b"N"))


def _shown(kind, body):
    name = kind.decode()
    if kind == b"D":
        return "D:" + "|".join("NULL" if value is None else value for value in values([(kind, body)]))
    if kind == b"E":
        return f"E:{code(body)}"
    return f"{name}:{body.rstrip(bytes(1)).decode()}" if kind in b"CZ" else name


def field(body, name):
    """A field of an ErrorResponse or NoticeResponse: `M` is the message, `S` the severity."""
    return next((part[1:].decode() for part in body.split(b"\0") if part[:1] == name.encode()), None)


def parameters(messages):
    """The parameters that messages tell of, with the values told last."""
    told = (body.split(b"\0") for kind, body in messages if kind == b"S")
    return {name.decode(): value.decode() for name, value, *_ in told}


def refusal(port, database="postgres", user=SUPERUSER, **parameters):
    """The SQLSTATE and the message with which a login is refused."""
    with Raw(port, login=False) as client:
        client.send(startup(database, user, **parameters))
        _, body = client.until(b"E")[-1]
        assert client.is_closed()
        return code(body), field(body, "M")
