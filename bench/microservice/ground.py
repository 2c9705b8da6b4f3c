"""What all sides of the comparison stand on: the server with the flights, the model, and the stores of features."""

import dataclasses
import socket
import subprocess
from pathlib import Path

from bench.flights import DATABASE
from bench.microservice.formats import FORMATS
from bench.microservice.network import Place
from bench.microservice.processes import Running
from devkit import Problem, say
from devkit.flights import FEATURES
from devkit.server import environment, free_port

SAMPLE = 25


HERE = Place()


@dataclasses.dataclass(frozen=True)
class Ground:
    """The server, how many flights it has, the files of the model, and where client, service and store are."""

    server: object
    rows: int
    model: Path
    folder: Path
    client: Place = HERE
    service: Place = HERE
    store: Place = HERE

    @property
    def is_local(self):
        """Whether all parts are in one place."""
        return self.client is self.store

    def features(self, keys=None):
        """The keys and their features; of some keys only where they are given."""
        where = f"id = ANY (ARRAY{list(keys)})" if keys else f"id <= {self.rows}"
        copy = f"COPY (SELECT id, {', '.join(FEATURES)} FROM keyed WHERE {where}) TO STDOUT (FORMAT csv)"
        command = self.server.psql_command(DATABASE, "-qAt", "-c", copy)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as psql:
            for line in psql.stdout:
                key, *values = line.rstrip("\n").split(",")
                yield int(key), [float(value) for value in values]
        if psql.returncode != 0:
            raise Problem("the features could not be read (psql's message is above)")


def sample(ground):
    """Some keys."""
    return [1 + number * (ground.rows - 1) // SAMPLE for number in range(SAMPLE)]


def prepare(server):
    """Gives the flights a primary key, and vacuums what results: nothing is written after it. Connections by TCP from
    here and from the namespaces of `network` need no password: how long it takes to prove one is not measured.
    """
    with say.timed("giving the flights a primary key"):
        server.psql(
            f"CREATE TABLE keyed AS SELECT row_number() OVER () AS id, {', '.join(FEATURES)} FROM flights;"
            "ALTER TABLE keyed ADD PRIMARY KEY (id); VACUUM (FREEZE, ANALYZE) keyed; CHECKPOINT",
            DATABASE,
        )
    rules = server.data / "pg_hba.conf"
    trusted = "".join(f"host all all {addresses} trust\n" for addresses in ("127.0.0.1/32", "10.213.0.0/24"))
    rules.write_text(trusted + rules.read_text())
    server.psql("SELECT pg_reload_conf()")


class Redis:
    """A Redis with features under their keys, its settings the default ones but that it writes nothing to disk."""

    def __init__(self, ground):
        self.address, self.port = ground.store.address, free_port()
        options = ["--port", self.port, "--bind", self.address, "--save", "", "--appendonly", "no"]
        # Protected mode would refuse clients of another address.
        options += ["--protected-mode", "no", "--dir", ground.folder]
        with ground.store.inside():
            self._running = Running("redis-server", ["redis-server", *options], ground.folder / "redis.log")
        self.pid = self._running.pid
        try:
            with ground.store.inside(), say.timed("filling Redis with the features"):
                self._running.wait_until(lambda: answers(self.address, self.port))
                self._fill(ground.features(), FORMATS["json"].dumps)
        except BaseException:
            self.stop()
            raise

    def add(self, form, rows):
        """Adds the features of some keys in another form, under keys that start with its name."""
        self._fill(rows, FORMATS[form].dumps, form.encode() + b":")

    def _fill(self, rows, dumps, prefix=b""):
        command = ["redis-cli", "-h", self.address, "-p", str(self.port), "--pipe"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pipe:
            for key, values in rows:
                name, value = prefix + b"%d" % key, dumps(values)
                pipe.stdin.write(
                    b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(value), value)
                )
            told, _ = pipe.communicate()
        if b"errors: 0" not in told:
            raise Problem(f"Redis did not take the features: {told.decode()[-300:]}")

    def stop(self):
        """Ends it."""
        self._running.stop()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()


def answers(address, port):
    """Whether somebody listens there."""
    try:
        with socket.create_connection((address, port), 1):
            return True
    except OSError:
        return False
