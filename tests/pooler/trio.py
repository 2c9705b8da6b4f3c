"""A primary and two streaming replicas, and what their own logs bear witness to."""

import contextlib
import os
import re
import signal
import subprocess

from devkit import postgres
from devkit.server import Server
from tests.pooler.process import wait_until

# Where a server in recovery stops being one: what its log says before this was said by a standby.
PROMOTED = "archive recovery complete"
# A standby whose primary has crashed tries again at once, so that tests need not wait.
LOGGING = {"log_statement": "all", "wal_retrieve_retry_interval": "100ms"}
# A statement as `log_statement = all` logs it, by either protocol.
LOGGED = re.compile(r"(?:statement|execute [^:]*): (.*)")
REFUSED = re.compile(r"ERROR:  cannot execute .* (?:in a read-only transaction|during recovery)")


class Trio:
    """A primary and two streaming replicas, and the text of a howdah.toml that has them as the database `app`."""

    def __init__(self, primary, replicas):
        self.primary = primary
        self.replicas = replicas
        self.servers = [primary, *replicas]
        self._earlier = {}
        self._begun = {}
        self._down = set()

    def toml(self, pooler="", app="", roles=("auto", "auto", "auto"), servers=None):
        """A configuration with more lines in `[pooler]` and `[databases.app]`, on all servers unless on some."""
        listed = servers or self.servers
        places = ", ".join(
            f'{{ host = "{server.socket_folder}", port = {server.port}, role = "{role}" }}'
            for server, role in zip(listed, roles[: len(listed)], strict=True)
        )
        return f"""[pooler]
listen_port = @PORT@
unix_socket_dir = ""
auth_type = "any"
monitor_user = "postgres"
{pooler}
[databases.app]
dbname = "postgres"
servers = [{places}]
{app}
"""

    def catch_up(self):
        """Waits until the replicas have replayed all that the primary has written."""
        for replica in self.replicas:
            self.primary.wait_for_replay(replica)

    # Life and death

    def stop(self, server):
        """Stops a server in good order."""
        server.stop("fast")
        self._keep_log(server)

    def kill(self, server):
        """Kills all of a server's processes with SIGKILL."""
        # It must not start more of them meanwhile.
        os.kill(server.pid, signal.SIGSTOP)
        pids = processes(server)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.stop()
        # Its memory is attached until the last of them is gone, and it would not start.
        wait_until(lambda: not any(is_running(pid) for pid in pids))
        self._keep_log(server)

    def start(self, server):
        """Starts a server again where it was."""
        server.start(port=server.port)
        self._down.discard(server)

    def _keep_log(self, server):
        # A start begins a new log.
        self._down.add(server)
        self._earlier.setdefault(server, []).append((text(server), self._begun.pop(server, 0)))

    # Witnesses

    def begin(self):
        """Forgets what the logs have borne witness to so far."""
        self._earlier.clear()
        self._begun = {server: len(text(server)) for server in self.servers}

    def lives(self, server):
        """A server's logs, one for each of its lives, and from where on each is to be read."""
        present = [] if server in self._down else [(text(server), self._begun.get(server, 0))]
        return [*self._earlier.get(server, []), *present]

    def statements(self, server):
        """The statements that a server was asked to run, in order."""
        return [statement for life, begun in self.lives(server) for statement in LOGGED.findall(life[begun:])]

    def writes_on_standby(self, server, marker="INSERT"):
        """What a server was asked to write while it was a standby, and its refusals to."""
        found = []
        for life, begun in self.lives(server):
            if "entering standby mode" in life:
                before = life.split(PROMOTED)[0][begun:]
                found += [statement for statement in LOGGED.findall(before) if marker in statement]
                found += REFUSED.findall(before)
        return found


def text(server):
    """A server's log of this life."""
    return server.log.read_text(errors="replace")


@contextlib.contextmanager
def three(major, settings=None, replica_settings=None):
    """A primary and two streaming replicas, beside whatever else runs."""
    with (
        Server(postgres.tree(major), settings) as primary,
        primary.replica(replica_settings) as one,
        primary.replica(replica_settings) as two,
    ):
        yield Trio(primary, [one, two])


def processes(server):
    """The server's processes, the postmaster first."""
    children = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=False)
    return [server.pid, *map(int, children.stdout.split())]


@contextlib.contextmanager
def paused(*replicas):
    """Replicas that replay nothing."""
    for replica in replicas:
        replica.psql("SELECT pg_wal_replay_pause()")
        wait_until(lambda replica=replica: replica.psql("SELECT pg_get_wal_replay_pause_state()") == "paused")
    try:
        yield
    finally:
        for replica in replicas:
            replica.psql("SELECT pg_wal_replay_resume()")


@contextlib.contextmanager
def silent(server):
    """While this lasts a server does and says nothing, as one that is cut off."""
    # It must not start more processes meanwhile.
    os.kill(server.pid, signal.SIGSTOP)
    stopped = processes(server)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def is_running(pid):
    """Whether there is such a process, and it has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
