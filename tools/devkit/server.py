"""A PostgreSQL server of one's own: its own data, port and socket, gone when it is no longer needed.

    with Server(tree(18)) as server:
        server.psql("CREATE EXTENSION pgml")

Any number run side by side. A server ends with the `with` block, or with the process that started it, however that
dies: the kernel is asked to stop the server when its parent goes. What a killed process left on disk is swept away by
the next one.

Connections through the socket need no password, and the folder of the socket admits only the account that the server
runs as (and root); connections by TCP, on 127.0.0.1 only, need the password in `Server.url`.
"""

import collections
import contextlib
import ctypes
import fcntl
import itertools
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path

from devkit import Problem
from devkit.places import as_server_user, give_to_server_user, runtime

SUPERUSER = "postgres"
# Good for tests and demonstrations: what they write need not survive the machine.
SETTINGS = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "max_wal_size": "4GB",
    "log_line_prefix": "%m [%p] ",
}
START_SECONDS = 60
STOP_SECONDS = 60
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_running = weakref.WeakSet()


class Server:
    """One server. `settings` are lines of postgresql.conf; `home` keeps its data in a folder that outlives it."""

    def __init__(self, tree, settings=None, home=None):
        self.tree = tree
        self.settings = {**SETTINGS, **(settings or {})}
        self.keeps_data = home is not None
        self._lock = None
        if home is None:
            self.home, self._lock = new_home()
        else:
            self.home = Path(home)
        self.sockets = self.home / "socket"
        self.data = self.home / "data"
        self.log = self.home / "log"
        self.port = None
        self.password = None
        self._process = None

    # Life

    def __enter__(self):
        try:
            if self._process is None:
                self.create()
                self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception):
        self.close()

    def create(self):
        """Makes the data folder with initdb, unless there is one."""
        self._own_home()
        if (self.data / "PG_VERSION").exists():
            self.password = (self.home / "password").read_text().strip()
            return
        self.password = secrets.token_urlsafe(12)
        password_file = self.home / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password + "\n")
        give_to_server_user(password_file)
        self.run_as_server(
            "initdb",
            f"--pgdata={self.data}",
            f"--username={SUPERUSER}",
            f"--pwfile={password_file}",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        )

    def _own_home(self):
        """Makes the server's folder, held by a lock for as long as this process lives."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o755)
        give_to_server_user(self.home)
        if self._lock is None:
            self._lock = hold(self.home)

    def start(self, detached=False, port=None):
        """Starts the server, on a free port unless one is given, and waits until it answers. A `detached` one outlives
        this process.
        """
        if not self.sockets.is_symlink():
            # The path of a socket is 107 bytes at most and a clone can lie deeper: so it is in /tmp, linked here.
            folder = tempfile.mkdtemp(prefix="howdah-", dir="/tmp")
            give_to_server_user(folder)
            self.sockets.symlink_to(folder)
        for attempt in range(5):
            self.port = port or free_port()
            if self._start_on_port(detached):
                _running.add(self)
                return self
            if "could not bind" not in self.log_tail() or attempt == 4:
                raise Problem(f"PostgreSQL {self.tree.major} did not start; its log says:\n{self.log_tail()}")
        return self

    def _start_on_port(self, detached):
        """One attempt at a start: whether the server answers."""
        settings = {**self.settings, "port": self.port, "unix_socket_directories": self.socket_folder}
        # By this a read tells which server it has run on: `current_setting('port')` is asked of the primary.
        settings["here.port"] = self.port
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [str(self.tree.program("postgres")), "-D", str(self.data), *options]
        self.log.touch()
        give_to_server_user(self.log)
        parent = os.getpid()
        with open(self.log, "w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=environment(),
                # Out of reach of Ctrl-C, which this process answers by stopping the server in good order.
                start_new_session=True,
                preexec_fn=None if detached else lambda: end_with(parent),
                **as_server_user(),
            )
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            if self.answers():
                return True
            time.sleep(0.05)
        return False

    def answers(self):
        """Whether the server accepts connections."""
        probe = [str(self.tree.program("pg_isready")), "--quiet", *self.connection_options()]
        return subprocess.run(probe, env=environment(), check=False).returncode == 0

    def stop(self, how="fast"):
        """Stops the server: `smart`, `fast`, or `immediate` (as a crash would)."""
        if self._process is None:
            return
        if self._process.poll() is None:
            name = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how]
            self._process.send_signal(name)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(STOP_SECONDS)
        self._process = None

    def restart(self):
        """Stops the server in good order and starts it again, on another port."""
        self.stop()
        return self.start()

    def close(self):
        """Stops the server and removes all that it left on disk."""
        with contextlib.suppress(ProcessLookupError):
            self.stop("fast" if self.keeps_data else "immediate")
        _running.discard(self)
        remove_home(self.home, keep_data=self.keeps_data)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def pid(self):
        """The process id of the postmaster."""
        return self._process.pid

    # Replicas

    def replica(self, settings=None, home=None, detached=False):
        """A streaming replica: a copy by pg_basebackup, started as a hot standby. Use it in a `with`, or close it."""
        standby = Server(self.tree, {**self.settings, **(settings or {})}, home)
        try:
            standby._own_home()
            standby.password = self.password
            (standby.home / "password").write_text(self.password + "\n")
            # By the replica, so that whoever finds this server again makes no slot twice.
            slot = f"replica_{standby.home.name.replace('-', '_').lower()}"
            self.run_as_server(
                "pg_basebackup",
                f"--pgdata={standby.data}",
                *self.connection_options(),
                "--checkpoint=fast",
                "--write-recovery-conf",
                "--create-slot",
                f"--slot={slot}",
                "--no-sync",
            )
            standby.start(detached)
        except BaseException:
            standby.close()
            raise
        return standby

    def wait_for_replay(self, standby, seconds=30.0):
        """Waits until `standby` has replayed all that is written here now."""
        target = self.psql("SELECT pg_current_wal_lsn()")
        deadline = time.monotonic() + seconds
        while standby.psql(f"SELECT pg_last_wal_replay_lsn() >= '{target}'") != "t":
            if time.monotonic() > deadline:
                raise Problem(f"the replica did not reach {target} in {seconds} s; its log says:\n{standby.log_tail()}")
            time.sleep(0.02)

    def promote(self, seconds=30):
        """Makes a replica a primary."""
        if self.psql(f"SELECT pg_promote(true, {seconds})") != "t":
            raise Problem(f"the replica was not promoted in {seconds} s")

    # Clients

    @property
    def socket_folder(self):
        """The folder of the server's socket."""
        return os.readlink(self.sockets)

    def connection_options(self, user=SUPERUSER):
        """Options by which PostgreSQL's programs connect through the socket."""
        return [f"--host={self.socket_folder}", f"--port={self.port}", f"--username={user}"]

    def url(self, database="postgres", user=SUPERUSER):
        """A URL to connect by TCP, with the superuser's password."""
        return f"postgres://{user}:{self.password}@127.0.0.1:{self.port}/{database}"

    def psql_command(self, database="postgres", *arguments):
        """The command of this server's psql, without the user's own psqlrc."""
        return [str(self.tree.program("psql")), "--no-psqlrc", *self.connection_options(), "-d", database, *arguments]

    def psql(self, sql, database="postgres"):
        """What psql answers to `sql`, unaligned and without headers; an error of the server is raised as a Problem."""
        command = self.psql_command(database, "-qAt", "-v", "ON_ERROR_STOP=1")
        done = subprocess.run(command, input=sql, capture_output=True, text=True, env=environment(), check=False)
        if done.returncode != 0:
            raise Problem(f"psql: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def run(self, program, *arguments, check=True, **options):
        """Runs one of this PostgreSQL's programs (pgbench, pg_dump, ...) against the server, output as text."""
        command = [str(self.tree.program(program)), *self.connection_options(), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False, **options)
        if check and done.returncode != 0:
            raise Problem(f"{program}: {done.stderr.strip()}")
        return done

    def run_as_server(self, program, *arguments):
        """What a program prints that reads or writes a data folder, run as the account of the servers."""
        command = [str(self.tree.program(program)), *arguments]
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, env=environment(), check=False, **as_server_user()
        )
        if done.returncode != 0:
            raise Problem(f"{program}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def log_tail(self, lines=20):
        """The last lines of the server's log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def environment():
    """The environment without what would lead PostgreSQL's programs elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


class Ports:
    """TCP ports for servers of this process: those of blocks that are its own for as long as it lives. They lie below
    the ports that the kernel gives to outgoing connections, of which any may be taken between a look and a bind.

    The last ports that were given are not given again: a test may name a port that nobody listens on and then ask for
    one to listen on.
    """

    SIZE = 100
    FIRST = 10_000

    def __init__(self, locks=None):
        self._locks = locks or Path(tempfile.gettempdir()) / "howdah-ports"
        self._held = []
        self._ports = iter(())
        self._last = collections.deque(maxlen=self.SIZE // 2)
        self._one_at_a_time = threading.Lock()

    def next(self):
        """A port that nobody listens on."""
        with self._one_at_a_time:
            for _ in range(2):
                for port in itertools.islice(self._ports, self.SIZE):
                    if port in self._last:
                        continue
                    with socket.socket() as probe, contextlib.suppress(OSError):
                        # As servers do: connections of a server that has ended are no hindrance.
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                        probe.bind(("127.0.0.1", port))
                        probe.listen(1)
                        self._last.append(port)
                        return port
                self._take_a_block()
        raise Problem("no TCP port is free")

    def close(self):
        """Gives the blocks back."""
        while self._held:
            os.close(self._held.pop())

    def _take_a_block(self):
        if not self._locks.exists():
            self._locks.mkdir(exist_ok=True)
            self._locks.chmod(0o1777)
        last = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        blocks = list(range(self.FIRST, last - self.SIZE + 1, self.SIZE))
        random.shuffle(blocks)
        for first in blocks:
            # Another account's block cannot be opened, and is left alone.
            with contextlib.suppress(OSError):
                lock = os.open(self._locks / str(first), os.O_WRONLY | os.O_CREAT, 0o644)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os.close(lock)
                    continue
                self._held.append(lock)
                self._ports = itertools.cycle(range(first, first + self.SIZE))
                return
        raise Problem(f"no block of TCP ports between {self.FIRST} and {last} is free: see {self._locks}")


_ports = Ports()


def free_port():
    """A TCP port that nobody listens on and nobody else is given while this process lives."""
    return _ports.next()


def end_with(parent, how=signal.SIGINT):
    """In a child about to become the server: ask the kernel to stop it, in good order, when `parent` dies."""
    _libc.prctl(PR_SET_PDEATHSIG, how)
    # It may have died before we asked.
    if os.getppid() != parent:
        os._exit(1)


def hold(home):
    """Takes the lock that says that the server at `home` has a living owner."""
    lock = open(home / "lock", "w")  # noqa: SIM115 (held open for as long as the server lives)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def new_home():
    """A folder for one server and the lock on it, after sweeping away those whose owners have died."""
    servers = runtime() / "servers"
    servers.mkdir(parents=True, exist_ok=True, mode=0o755)
    sweep(servers)
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=servers))
    fresh.chmod(0o755)
    # Sweepers know it by its final name only, which it gets when its lock is held.
    lock = hold(fresh)
    return fresh.rename(servers / fresh.name.replace("new-", "server-")), lock


def sweep(servers):
    """Removes the folders of servers whose owner is no more: nobody holds their lock."""
    for home in servers.glob("server-*"):
        try:
            with open(home / "lock") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not is_alive(home / "data" / "postmaster.pid"):
                    remove_home(home)
        except OSError:
            # Held by a living owner, or removed by another sweeper just now.
            continue


def is_alive(pid_file):
    """Whether the postmaster that wrote `pid_file` is running."""
    try:
        pid = int(pid_file.read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return False
    return b"postgres" in command and str(pid_file.parent).encode() in command


def remove_home(home, keep_data=False):
    """Removes a server's folder, and its socket folder in /tmp; or the latter alone."""
    link = home / "socket"
    if link.is_symlink():
        shutil.rmtree(os.readlink(link), ignore_errors=True)
        link.unlink()
    if not keep_data:
        shutil.rmtree(home, ignore_errors=True)


def hear_interrupts():
    """Makes SIGINT interrupt again: a shell that starts something in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end_on_signals():
    """Makes SIGTERM and SIGHUP end this process as Ctrl-C does, through every `with` block."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))
