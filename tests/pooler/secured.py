"""Servers with TLS, of Debian's PostgreSQL, and those who would like to be taken for one."""

import contextlib
import shutil
import socket
import ssl
import struct
import tempfile
from pathlib import Path

from devkit import Problem
from devkit.places import SYSTEM_POSTGRES, give_to_server_user
from devkit.postgres import Tree
from tests.pooler.interpose import Listener
from tests.pooler.raw import SSL_REQUEST, message


def tree_with_tls():
    """Debian's PostgreSQL: those of the wheels are built without TLS, programs and servers."""
    found = sorted(SYSTEM_POSTGRES.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise Problem("the tests of TLS need Debian's PostgreSQL: `apt-get install postgresql`")
    bin_folder = found[-1].parent
    return Tree(int(found[-1].parts[-3]), bin_folder, bin_folder / "pg_config")


@contextlib.contextmanager
def tls_settings(authority, hba, shown=None):
    """A server's settings for TLS, with this HBA file. It shows a certificate that says `localhost` by its common name
    alone, or the one that is given.
    """
    shown = shown or authority.issue("localhost")
    home = Path(tempfile.mkdtemp(prefix="howdah-tls-", dir="/tmp"))
    files = {"ssl_cert_file": shown.cert, "ssl_key_file": shown.key, "ssl_ca_file": authority.root}
    settings = {"ssl": "on"}
    try:
        for name, source in files.items():
            settings[name] = home / source.name
            shutil.copy(source, settings[name])
        settings["hba_file"] = home / "hba"
        settings["hba_file"].write_text(hba)
        for path in [home, *home.iterdir()]:
            give_to_server_user(path)
            path.chmod(0o700 if path.is_dir() else 0o600)
        yield settings
    finally:
        shutil.rmtree(home, ignore_errors=True)


def authentication(number, data=b""):
    """A server's Authentication message."""
    return message(b"R", struct.pack("!i", number) + data)


CLEARTEXT = authentication(3)
MD5 = authentication(5, b"salt")
SCRAM = authentication(10, b"SCRAM-SHA-256\0\0")
LET_IN = authentication(0) + message(b"Z", b"I")


class Impostor(Listener):
    """Answers in the place of a server, and keeps what it is told: for each connection what came in the clear, and what
    came over TLS.

    `answer` is what it says to a request for TLS, nothing for an answer of `None`; where that is S, it shows the
    certificate `pair`. Then it says `says`, and takes what comes; when it has taken so many `answers`, it closes.
    """

    def __init__(self, answer, says=b"", pair=None, answers=None):
        super().__init__()
        self.answer, self.says, self.answers = answer, says, answers
        self.context = None
        if pair is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(pair.cert, pair.key)
        self.told, self._open = [], []

    @property
    def count(self):
        """The connections that have said something."""
        return sum(bool(clear) for clear, _ in self.told)

    def dismiss(self):
        """Ends the connections that are open."""
        for client in self._open:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    _end = dismiss

    def _begin(self, near):
        clear, sealed = bytearray(), bytearray()
        self.told.append((clear, sealed))
        self._open.append(near)
        with contextlib.ExitStack() as stack:
            stack.enter_context(near)
            kept = clear
            take_packet(near, clear)
            if clear == SSL_REQUEST and self.answer is not None:
                near.sendall(self.answer)
                if self.answer == b"S":
                    near = stack.enter_context(self.context.wrap_socket(near, server_side=True))
                    self._open.append(near)
                    kept = sealed
                take_packet(near, kept)
            near.sendall(self.says)
            taken = 0
            while taken != self.answers and (more := near.recv(4096)):
                kept += more
                taken += 1


def take_packet(client, kept):
    """Takes a first packet: its length and the rest."""
    for count in (4, None):
        wanted = count or struct.unpack("!i", kept[-4:])[0] - 4
        while wanted > 0:
            part = client.recv(wanted)
            if not part:
                raise ConnectionError("closed within a packet")
            kept += part
            wanted -= len(part)


def startup_alone(sent):
    """Whether this is a startup packet and not a byte more."""
    return len(sent) >= 8 and struct.unpack("!ii", sent[:8]) == (len(sent), 196608)
