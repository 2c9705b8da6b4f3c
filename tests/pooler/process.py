"""A `howdah-pooler` of one's own in front of a server of the devkit."""

import contextlib
import errno
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pg8000.dbapi

from devkit import Problem, cargo
from devkit.server import SUPERUSER, environment, free_port
from tests.pooler.raw import DEADLINE

PROGRAM = cargo.target_folder() / "debug" / "howdah-pooler"
# SCRAM secrets and MD5 hashes are made by the server itself; this is the password behind them.
PASSWORD = "the right one"


class Pooler:
    """A running pooler, configured by a pgbouncer.ini unless `text` is another file named `name`; `@PORT@` in that stands
    for the port.
    """

    def __init__(self, server, databases=None, users=None, name="pgbouncer.ini", text=None, **settings):
        self.server = server
        self.folder = Path(tempfile.mkdtemp(prefix="howdah-pooler-", dir="/tmp"))
        self.port = free_port()
        self.path = self.folder / name
        self.settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": self.folder,
            "auth_type": "any",
            "pool_mode": "transaction",
            "server_login_retry": "0.5",
            "admin_users": SUPERUSER,
            **settings,
        }
        self.databases = databases
        self.users = users
        self.text = text
        self.log = self.folder / "log"
        self.process = None

    def __enter__(self):
        self.configure()
        if not PROGRAM.exists():
            raise Problem(
                f"{PROGRAM} is not built: `make test ARGS=tests/pooler/test_protocol.py`, or `cargo build -p howdah-pooler`"
            )
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([PROGRAM, self.path], stderr=log, stdout=log)
        deadline = time.monotonic() + 10
        while "is up" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise Problem(f"the pooler did not start: {self.log.read_text()}")
            time.sleep(0.01)
        return self

    def __exit__(self, *exception):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self):
        """Ends the pooler at once."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(10)

    @contextlib.contextmanager
    def frozen(self):
        """While this lasts it does nothing: what comes meanwhile it finds all at once, in the order in which it came."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: stopped(self.process.pid))
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def configure(self, **changes):
        """Writes the configuration, with these settings changed."""
        self.settings |= changes
        text = self.text
        if text is None:
            place = f"host={self.server.socket_folder} port={self.server.port}"
            databases = self.databases or {"*": ""}
            lines = ["[databases]", *(f"{name} = {place} {more}" for name, more in databases.items()), "[pgbouncer]"]
            lines += [f"{key} = {value}" for key, value in self.settings.items()]
            if self.users is not None:
                users = self.folder / "users.txt"
                users.write_text("".join(f'"{user}" "{password}"\n' for user, password in self.users.items()))
                lines.append(f"auth_file = {users}")
            text = "\n".join(lines) + "\n"
        self.path.write_text(text.replace("@PORT@", str(self.port)))

    def reload(self, **changes):
        """Changes the configuration and lets the pooler read it again."""
        self.configure(**changes)
        before = self.log.read_text().count("was read again")
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.log.read_text().count("was read again") > before)

    def wait_for_catalog(self, databases=1):
        """Waits until the functions and relations of so many databases are known: until then no statement is a read."""
        wait_until(lambda: self.log.read_text().count("the catalog was read: ") >= databases)

    def psql(self, sql, database="postgres", user=SUPERUSER, password=None, check=True, flags=(), **parameters):
        """What psql answers through the pooler, unaligned. `parameters` are libpq's, as `sslmode`."""
        command = [self.server.tree.program("psql"), "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", *flags]
        place = {"host": "127.0.0.1", "port": self.port, "user": user, "dbname": database} | parameters
        quoted = {name: str(value).replace("\\", "\\\\").replace("'", "\\'") for name, value in place.items()}
        command += ["-d", " ".join(f"{name}='{value}'" for name, value in quoted.items())]
        variables = environment() | ({"PGPASSWORD": password} if password is not None else {})
        done = subprocess.run(command, input=sql, capture_output=True, text=True, env=variables, check=False)
        if check and done.returncode != 0:
            raise Problem(f"psql: {done.stderr.strip()}")
        return done.stdout.rstrip("\n") if check else done

    def show(self, what, database="pgbouncer", **options):
        """The rows of a SHOW command, as dictionaries."""
        flags = ["-A", "-F", "\t", "-P", "tuples_only=off", "-P", "footer=off"]
        lines = [line.split("\t") for line in self.psql(f"SHOW {what}", database, flags=flags, **options).splitlines()]
        return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]

    def pgbench(self, *arguments, database="postgres", variables=None, **options):
        """Runs pgbench through the pooler, with these variables of the environment."""
        command = [self.server.tree.program("pgbench"), "-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER]
        environ = environment() | (variables or {})
        done = subprocess.run(
            [*command, *arguments, database], capture_output=True, text=True, env=environ, check=False, **options
        )
        if done.returncode != 0:
            raise Problem(f"pgbench: {done.stderr.strip()}")
        return done

    @contextlib.contextmanager
    def connect(self, database="postgres", user=SUPERUSER, password=None, **options):
        """An open connection of pg8000, in autocommit."""
        opened = pg8000.dbapi.connect(
            user=user, password=password, database=database, host="127.0.0.1", port=self.port, **options
        )
        opened.autocommit = True
        try:
            yield opened
        finally:
            with contextlib.suppress(Exception):
                opened.close()


def stopped(pid):
    """Whether all threads of a process are stopped."""
    states = [path.read_text().rsplit(")", 1)[1].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "T" for state in states)


def is_refused(port):
    """Whether nobody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def wait_until(true, seconds=DEADLINE):
    """Waits until `true()` is."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {seconds} s: {true}")
        time.sleep(0.02)


def ask(connection, sql):
    """The rows of one statement."""
    cursor = connection.cursor()
    cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else None
