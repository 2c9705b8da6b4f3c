"""Clients that nobody knows yet: startup packets and SCRAM step by step, with all that a pooler tells on the way."""

import base64
import hashlib
import hmac
import struct

from devkit.server import SUPERUSER
from tests.pooler.raw import Raw, code, message, startup


class Stranger(Raw):
    """A connection that has sent its startup packet and no more."""

    def __init__(self, port, user=SUPERUSER, database="postgres", **parameters):
        super().__init__(port, login=False)
        self.user = user
        self.send(startup(database, user, **parameters))

    def asked(self):
        """What it is asked for: the body of the first message, which must be a request for a password."""
        kind, body = self.next()
        assert kind == b"R", (kind, body)
        return body

    def begin(self):
        """Sends the first message of SCRAM; the server's first one, by its attributes."""
        assert b"SCRAM-SHA-256\0" in self.asked()
        self.first = "n=,r=fyko+d2lbbFgONRv9qkxdawL"
        initial = b"n,," + self.first.encode()
        self.send(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(initial)) + initial))
        self.challenge = self.asked()[4:].decode()
        return dict(part.split("=", 1) for part in self.challenge.split(","))

    def prove(self, password):
        """Goes through the whole of SCRAM; the error, or None when it was let in."""
        said = self.begin()
        salt, iterations = base64.b64decode(said["s"]), int(said["i"])
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        bare = f"c=biws,r={said['r']}"
        exchange = ",".join([self.first, self.challenge, bare]).encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), exchange, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self.send(message(b"p", f"{bare},p={base64.b64encode(proof).decode()}".encode()))
        return self.outcome()

    def outcome(self):
        """The SQLSTATE and the text of the error that ends the login; None when it was let in."""
        while True:
            got = self.next()
            assert got is not None, "closed without a word"
            kind, body = got
            if kind == b"E":
                return code(body), next(part[1:].decode() for part in body.split(b"\0") if part[:1] == b"M")
            if kind == b"Z":
                return None


def md5_answer(user, password, salt):
    """What answers a request for an MD5 password."""
    inner = hashlib.md5((password + user).encode()).hexdigest()
    return message(b"p", b"md5" + hashlib.md5(inner.encode() + salt).hexdigest().encode() + b"\0")
