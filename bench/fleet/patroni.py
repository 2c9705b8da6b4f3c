"""A cluster that fails over by itself: PostgreSQL servers under Debian's Patroni, which keeps its state in etcd.

Replication is synchronous and strictly so (`synchronous_mode_strict`): a write is acknowledged when a standby has it,
and only that standby is promoted. `primary_start_timeout` is 0: a primary that dies is replaced, not started again.
"""

import contextlib
import functools
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
import urllib.request

from devkit import Problem
from devkit.fleet import Fleet, Program, server_pids
from devkit.places import as_server_user, give_to_server_user
from devkit.postgres import NEWEST, tree
from devkit.programs import installed
from devkit.server import SUPERUSER, Server, end_with, environment, free_port, is_alive, remove_home

# The least that Patroni takes: how long the leader's key outlives it, how often it looks.
TTL = 20
LOOP_WAIT = 1
# The settings of the cluster, which docs/guide/production.md shows.
DCS = {
    "ttl": TTL,
    "loop_wait": LOOP_WAIT,
    "retry_timeout": 3,
    "synchronous_mode": True,
    "synchronous_mode_strict": True,
    "primary_start_timeout": 0,
    "postgresql": {"use_pg_rewind": True, "use_slots": True},
}


def programs():
    """The paths of Patroni and etcd."""
    return {name: installed(name) for name in ("patroni", "etcd")}


class Node(Server):
    """One PostgreSQL server under a Patroni of its own."""

    def __init__(self, name, etcd_port, password, settings):
        super().__init__(tree(NEWEST), settings)
        self.name = name
        self.etcd_port = etcd_port
        self.password = password
        self.port = free_port()
        self.rest_port = free_port()
        self.patroni = None

    def start(self, detached=False, port=None):
        """Starts Patroni, which makes or copies the data and starts PostgreSQL."""
        self._own_home()
        if not self.sockets.is_symlink():
            folder = tempfile.mkdtemp(prefix="howdah-", dir="/tmp")
            give_to_server_user(folder)
            self.sockets.symlink_to(folder)
        # YAML takes JSON.
        file = self.home / "patroni.yml"
        file.touch(mode=0o600)
        file.write_text(json.dumps(self.configuration(), indent=2))
        give_to_server_user(file)
        self.log.touch()
        with open(self.log, "a") as log:
            self.patroni = subprocess.Popen(
                [programs()["patroni"], str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                # Debian's program asks for Debian's Python; its home is for the password file.
                env=environment() | {"HOME": str(self.home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                start_new_session=True,
                # SIGTERM: it ends PostgreSQL first.
                preexec_fn=functools.partial(end_with, os.getpid(), signal.SIGTERM),
                **as_server_user(),
            )
        return self

    def configuration(self):
        """What Patroni is told."""
        place = f"127.0.0.1:{self.port}"
        login = {"username": SUPERUSER, "password": self.password}
        parameters = {name: str(value) for name, value in self.settings.items() if name != "listen_addresses"}
        return {
            "scope": "howdah",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest_port}", "connect_address": f"127.0.0.1:{self.rest_port}"},
            "etcd3": {"host": f"127.0.0.1:{self.etcd_port}"},
            "bootstrap": {
                "dcs": DCS,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
            },
            "postgresql": {
                "listen": place,
                "connect_address": place,
                "data_dir": str(self.data),
                "bin_dir": str(self.tree.bin),
                "pgpass": str(self.home / "pgpass"),
                "authentication": {"superuser": login, "replication": login, "rewind": login},
                "parameters": parameters | {"unix_socket_directories": self.socket_folder},
                # A spread one would take minutes while the primary is written to.
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                "pg_hba": [
                    "local all all trust",
                    "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication all 127.0.0.1/32 scram-sha-256",
                ],
            },
        }

    def status(self):
        """What its Patroni says of it; empty when it says nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest_port}/patroni", timeout=1) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return {}

    def role(self):
        """`primary`, `replica` while it streams, or empty."""
        said = self.status()
        if said.get("state") != "running":
            return ""
        if said.get("role") in ("master", "primary"):
            return "primary"
        return "replica" if said.get("replication_state", "streaming") == "streaming" else ""

    def kill(self, with_patroni=False):
        """Kills all of the server's processes with SIGKILL, as when its machine dies where Patroni goes too."""
        if with_patroni:
            self.patroni.kill()
            self.patroni.wait()
        pids = server_pids(self)
        # It must not start more of them meanwhile.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids[:1] if number == signal.SIGSTOP else server_pids(self):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def close(self):
        """Ends Patroni, and PostgreSQL with it, and removes what they left on disk."""
        if self.patroni is not None:
            self.patroni.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.patroni.wait(20)
            self.patroni.kill()
            self.patroni.wait()
        if is_alive(self.data / "postmaster.pid"):
            self.kill()
        remove_home(self.home)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class PatroniFleet(Fleet):
    """A fleet whose servers are under Patroni."""

    def __init__(self, replicas, poolers, **options):
        super().__init__(replicas, poolers, **options)
        self.etcd = None
        self.password = secrets.token_urlsafe(12)

    def start_servers(self):
        """etcd, then a node that becomes the primary, then its replicas."""
        self.start_etcd()
        self.primary = self.new_node("node-1", "primary")
        for number in range(2, self.count + 2):
            self.replicas.append(self.new_node(f"node-{number}", "replica"))
        # Not before: no write is acknowledged without a standby.
        self.fill()

    def start_etcd(self):
        """One etcd, which needs neither disk nor peers here."""
        self.etcd = Program("etcd", self.home / "etcd", free_port(), free_port())
        self.etcd.file.mkdir()
        give_to_server_user(self.etcd.file)
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd.port, self.etcd.metrics_port))
        self.etcd.start(
            [
                programs()["etcd"],
                f"--data-dir={self.etcd.file}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
            ],
            stays=False,
        )

    def new_node(self, name, role):
        """A node, when it has its role."""
        node = Node(name, self.etcd.port, self.password, self.settings)
        try:
            node.start()
            wait_for(lambda: node.role() == role, 60, lambda: f"{name} is no {role}; its log says:\n{node.log_tail()}")
        except BaseException:
            node.close()
            raise
        return node

    def new_replica(self, name):
        """As for other fleets."""
        return self.new_node(name, "replica")

    def name_of(self, server):
        """What a node is called, whatever its role is now."""
        return server.name

    def find_primary(self):
        """Notes who is the primary now; False when there is none."""
        servers = self.servers
        found = [node for node in servers if node.role() == "primary"]
        if len(found) != 1:
            return False
        self.primary = found[0]
        self.replicas = [node for node in servers if node is not found[0]]
        return True

    def stop(self):
        """Ends all of it."""
        # The replicas first, and none is promoted.
        super().stop()
        if self.etcd is not None:
            self.etcd.stop()


def wait_for(true, seconds, complaint):
    """Waits until `true()` is; a Problem with `complaint()` when that takes too long."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise Problem(f"not so after {seconds} s: {complaint()}")
        time.sleep(0.05)
