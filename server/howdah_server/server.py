"""One server and the folder that holds all of it.

DIR/data        PostgreSQL's data folder; postgresql.conf in it is the user's
DIR/log         what the server says
DIR/password    the superuser's password, for connections by TCP
DIR/programs    a copy of PostgreSQL and pgml, only where the server's account cannot read the packages
DIR/.s.PGSQL... the socket; it admits the account that the server runs as, and root
"""

import contextlib
import fcntl
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

from howdah_server import programs
from howdah_server.account import account, entry, give, reaches, run_as
from howdah_server.problem import Problem

SUPERUSER = "postgres"
# Not "howdah": that is the name of the console of howdah-pooler.
DATABASE = "app"
SOCKET_PORT = 5432
# sockaddr_un has room for so many bytes before the final zero.
SOCKET_BYTES = 107
FREE_BYTES = 150 << 20
# A start after a crash replays the write-ahead log first, so it may take long.
START_SECONDS = 600
STOP_SECONDS = 120
OURS = {"data", "data.new", "log", "log.old", "lock", "password", "programs"}
LOG_BYTES = 10 << 20
# What a server writes to its log when nothing is wrong.
USUAL = ("starting ", "listening ", "database system ", "redirecting ", "ending ", "redo ", "entering ", "checkpoint ")
# What a start sets by itself, over `settings`.
OWN_SETTINGS = {
    "unix_socket_directories",
    "extension_control_path",
    "dynamic_library_path",
    "pgml.xgboost_library",
    "pgml.lightgbm_library",
}
# Linux gives out no number as large.
NOBODYS_PID = 2**31 - 1

ACCESS = """\
# Written by howdah-server when it made this folder; from here on it is yours.
# By the socket come the account that the server runs as, and root, as any role: see pg_ident.conf.
local  all          all               peer map=howdah
local  replication  all               peer map=howdah
# By TCP (howdah-server up --port) everybody who has a password.
host   all          all  127.0.0.1/32  scram-sha-256
host   all          all  ::1/128       scram-sha-256
"""
# Whoever made the database may have dropped it, or the extension: a start brings them back. A standby has what its
# primary has.
PREPARE = f"""\
SELECT pg_is_in_recovery() AS standby
\\gset
\\if :standby
\\quit
\\endif
SELECT 'CREATE DATABASE {DATABASE}' WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{DATABASE}')
\\gexec
\\connect {DATABASE}
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pgml;
ALTER EXTENSION pgml UPDATE;
"""


def start(folder, port=None, settings=None):
    """Starts the server of `folder`, which is made where there is none, and gives it; in a `with` it ends with that.

    It listens on a Unix socket in the folder, and on localhost where a `port` is given. `settings` are settings of
    PostgreSQL by name. A server that runs already is taken as it is, and goes on behind the `with`.
    """
    server = Server(folder)
    server.start(port, settings)
    return server


class Server:
    """The server of a folder, whether it runs or not."""

    def __init__(self, folder):
        # Of a shell's variable that is not set; it would be the working folder.
        if not os.fspath(folder):
            raise Problem("the name of the folder is empty")
        self.folder = Path(os.path.abspath(folder))
        self.data = self.folder / "data"
        self.log = self.folder / "log"
        self.started = False
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        # A server that was there before goes on.
        if self.started:
            self.stop()

    # Where it can be reached

    @property
    def dsn(self):
        """A URL to connect by the socket, for libpq and drivers."""
        _, port = self._address()
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={urllib.parse.quote(str(self.folder), safe='')}&port={port}"

    @property
    def url(self):
        """A URL to connect by TCP, with the superuser's password; None for a server that does not listen there.

        A standby has its primary's password, and no file with it; so has a folder whose file somebody has removed.
        """
        listens, port = self._address()
        if not listens:
            return None
        file = self.folder / "password"
        password = f":{file.read_text().strip()}" if file.exists() else ""
        return f"postgresql://{SUPERUSER}{password}@127.0.0.1:{port}/{DATABASE}"

    def _address(self):
        """Whether the server listens on TCP, and its port."""
        lines = self._pid_file()
        if len(lines) < 6:
            return False, SOCKET_PORT
        return bool(lines[5].strip()), int(lines[3])

    def last_port(self):
        """The port of localhost that the last start was given, None if it had none."""
        try:
            options = (self.data / "postmaster.opts").read_text()
        except OSError:
            return None
        port = re.search(r'"port=(\d+)"', options)
        return int(port[1]) if port and '"listen_addresses=localhost"' in options else None

    def psql_command(self, *arguments, database=DATABASE):
        """The command of PostgreSQL's psql for this server."""
        _, port = self._address()
        where = [f"--host={self.folder}", f"--port={port}", f"--username={SUPERUSER}", f"--dbname={database}"]
        return [str(programs.installed().program("psql")), *where, *arguments]

    def psql(self, sql, *options, database=DATABASE):
        """What psql prints for `sql`, by default without headers and alignment; an error is raised as a Problem."""
        command = self.psql_command(
            "--no-psqlrc", "-q", "-v", "ON_ERROR_STOP=1", *(options or ["-At"]), database=database
        )
        done = subprocess.run(command, input=sql, capture_output=True, text=True, env=environment(), check=False)
        if done.returncode != 0:
            raise Problem(f"psql: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    # Whether it runs

    def pid(self):
        """The process id of the server, None when it does not run."""
        lines = self._pid_file()
        if not lines or not lines[0].strip().isdigit():
            return None
        pid = int(lines[0])
        try:
            # The server's working folder is its data folder: another process that has got its number is told apart.
            return pid if os.path.samefile(f"/proc/{pid}/cwd", self.data) else None
        except OSError:
            return None

    def exists(self):
        """Whether the folder holds a server."""
        try:
            return (self.data / "PG_VERSION").exists()
        except PermissionError as error:
            raise self._not_ours() from error

    def _pid_file(self):
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []
        except PermissionError as error:
            raise self._not_ours() from error

    def _not_ours(self):
        owner = owner_name(self.folder)
        if owner == entry(os.geteuid()).pw_name:
            return Problem(f"the modes of {self.folder}, or of what is in it, deny its own owner, {owner}: see ls -l")
        return Problem(f"{self.folder} belongs to {owner}: run this as that user, or as root")

    # Starting

    def start(self, port=None, settings=None):
        """Starts the server unless it runs, and makes its folder unless there is one."""
        check_arguments(port, settings or {})
        self._check_folder()
        owner = account(self.data)
        self._check_owner(owner)
        # Before anything is made there; a parent that is made now is looked at below.
        self._check_reach(next(place for place in self.folder.parents if place.exists()), owner)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if self.pid() is not None:
                self._check_port(port)
                self._check_settings(settings or {})
                return
            self._prepare_folder(owner)
            found = programs.usable(programs.installed(), self.folder / "programs", owner)
            if not self.exists():
                self._create(found, owner)
            self._launch(found, owner, port, settings or {})

    def _check_folder(self):
        """Raises where the folder cannot hold a server, before anything is written."""
        path = os.fsencode(self.folder)
        longest = SOCKET_BYTES - len("/.s.PGSQL.65535")
        if len(path) > longest:
            raise Problem(
                f"the path of {self.folder} is {len(path)} bytes long, and the path of a socket's folder may have "
                f"{longest} at most: choose a shorter path, or a symbolic link to this folder"
            )
        if b"\n" in path:
            raise Problem(
                "the path of the folder has a line break, which PostgreSQL does not accept: choose another folder"
            )
        for place in (self.folder, *self.folder.parents):
            if place.is_symlink() and not place.exists():
                raise Problem(
                    f"{place} is a symbolic link to {os.readlink(place)}, which does not exist: make that folder, or "
                    "remove the link"
                )
        if self.folder.exists() and not self.folder.is_dir():
            raise Problem(f"{self.folder} is a file: a folder is needed")
        try:
            there = set(os.listdir(self.folder)) if self.folder.exists() else set()
        except PermissionError as error:
            raise self._not_ours() from error
        if "PG_VERSION" in there:
            raise Problem(
                f"{self.folder} is a data folder of PostgreSQL itself: choose another folder, and load a dump there"
            )
        if self.exists():
            self._check_version()
            return
        strange = {self.folder: [name for name in there - OURS if not name.startswith(".s.PGSQL.")]}
        if "data" in there:
            # It gets its name when it is whole, so these are somebody else's.
            strange[self.data] = os.listdir(self.data)
        for place, names in strange.items():
            if names:
                raise Problem(
                    f"{place} holds other files ({min(names)}): choose an empty folder, or one that does not exist"
                )

    def _check_version(self):
        try:
            version = (self.data / "PG_VERSION").read_text().strip()
        except PermissionError as error:
            raise self._not_ours() from error
        if version != str(programs.MAJOR):
            raise Problem(
                f"{self.data} has data of PostgreSQL {version}, and howdah-server has PostgreSQL {programs.MAJOR}: "
                f"dump the data with PostgreSQL {version} (pg_dumpall), and load the dump into another folder"
            )

    def _check_owner(self, owner):
        """Raises where the data are root's, as a copy that root has made by pg_basebackup: PostgreSQL refuses them."""
        if os.geteuid() == 0 and self.exists() and self.data.stat().st_uid == 0:
            folder = shlex.quote(str(self.folder))
            raise Problem(
                f"{self.data} belongs to root, and PostgreSQL does not run as root but as {owner.pw_name}, "
                f"who must own its data: chown -R {owner.pw_name}: {folder}"
            )

    def _check_port(self, port):
        listens, its = self._address()
        if port is not None and (not listens or its != port):
            raise self._runs_already(f"on port {its}" if listens else "without a port")

    def _check_settings(self, settings):
        """Raises where the server that runs has another value of a setting than one that is asked for."""
        if not settings:
            return
        given = (self.data / "postmaster.opts").read_text()
        for name, value in settings.items():
            if f'"{name}={value}"' in given:
                continue
            its = self.psql(f"SELECT current_setting({quoted(name)}, true)", database="postgres")
            if its != str(value):
                raise self._runs_already(f"with {name} = {its!r}, and not {str(value)!r}")

    def _runs_already(self, how):
        down = f"howdah-server down {shlex.quote(str(self.folder))}"
        return Problem(f"the server of {self.folder} runs already, {how}: end it first ({down})")

    def _prepare_folder(self, owner):
        """Gives the folder to the account of the server, which must be able to reach it."""
        if os.geteuid() not in (0, self.folder.stat().st_uid):
            raise self._not_ours()
        if not self.exists():
            give(self.folder, owner)
            free = shutil.disk_usage(self.folder).free
            if free < FREE_BYTES:
                raise Problem(
                    f"{self.folder} has {free >> 20} MB free, and a new server takes {FREE_BYTES >> 20}: "
                    "make room, or choose another disk"
                )
        self._check_reach(self.folder, owner)

    def _check_reach(self, place, owner):
        """Raises where the account that root runs the server as cannot enter a folder on the way to its own."""
        if os.geteuid() == 0 and not reaches(place, owner):
            raise Problem(
                f"PostgreSQL does not run as root but as {owner.pw_name}, who cannot reach {self.folder}: "
                f"choose a folder that {owner.pw_name} can reach, /var/lib/howdah say, or run this as an ordinary user"
            )

    def _create(self, found, owner):
        """Makes the data folder with initdb: under another name until it is whole."""
        fresh = self.folder / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        password = self.folder / "password"
        with open(os.open(password, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(15) + "\n")
        give(password, owner)
        self._run_as(
            owner,
            found.program("initdb"),
            f"--pgdata={fresh}",
            f"--username={SUPERUSER}",
            f"--pwfile={password}",
            "--auth-local=peer",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
        )
        (fresh / "pg_hba.conf").write_text(ACCESS)
        who = dict.fromkeys((owner.pw_name, "root"))
        (fresh / "pg_ident.conf").write_text("".join(f'howdah "{name}" all\n' for name in who))
        fresh.rename(self.data)

    def _run_as(self, owner, program, *arguments):
        done = subprocess.run(
            [str(program), *arguments],
            cwd="/",
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
            **run_as(owner),
        )
        if done.returncode != 0:
            raise Problem(f"{program.name} failed: {last_complaint(done.stderr or done.stdout)}")

    def _launch(self, found, owner, port, settings):
        """Starts the server, waits until it answers, and sees to the database."""
        self._clear_after_crash()
        if port:
            check_port_is_free(port, owner)
        listens = (
            {"listen_addresses": "localhost", "port": port} if port else {"listen_addresses": "", "port": SOCKET_PORT}
        )
        # Quoted, since a comma would separate two folders.
        sockets = {"unix_socket_directories": '"' + str(self.folder).replace('"', '""') + '"'}
        chosen = {**settings, **found.settings(), **listens, **sockets}
        command = [str(found.program("postgres")), "-D", str(self.data)]
        for name, value in chosen.items():
            command += ["-c", f"{name}={value}"]
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.rename(self.folder / "log.old")
        begin = self.log.stat().st_size if self.log.exists() else 0
        # Failed statements are in it as they were written, passwords too.
        with open(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as log:
            give(self.log, owner)
            # A session of its own: Ctrl-C is for the program that started it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=environment(),
                start_new_session=True,
                **run_as(owner),
            )
        try:
            self._await_ready(begin)
            self.started = True
            self.psql(PREPARE, database="postgres")
        except BaseException:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self.started = False
            raise

    def _await_ready(self, begin):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                with open(self.log, errors="replace") as log:
                    log.seek(begin)
                    complaint = last_complaint(log.read())
                raise Problem(f"PostgreSQL did not start: {complaint} (its log is {self.log})")
            lines = self._pid_file()
            if len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].startswith("ready"):
                return
            time.sleep(0.02)
        raise Problem(f"PostgreSQL did not answer in {START_SECONDS} s (its log is {self.log})")

    def _clear_after_crash(self):
        """Sees to the files of a crashed server, whose process id another process may have by now, or its own zombie.

        PostgreSQL takes any process of that number for its server, and does not start. The rest of postmaster.pid
        stays: by that PostgreSQL knows processes of the crashed server that still end.
        """
        for left in self.folder.glob(".s.PGSQL.*"):
            left.unlink()
        lines = self._pid_file()
        file = self.data / "postmaster.pid"
        if lines:
            file.write_text("\n".join([str(NOBODYS_PID), *lines[1:]]) + "\n")
        else:
            file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self):
        """Two that start or stop the server at once do it one after the other."""
        with contextlib.ExitStack() as stack:
            try:
                lock = os.open(self.folder / "lock", os.O_RDONLY | os.O_CREAT, 0o600)
            except PermissionError as error:
                raise self._not_ours() from error
            stack.callback(os.close, lock)
            # When the folder has its owner.
            stack.callback(self._keep_lock, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _keep_lock(self, lock):
        """Leaves the lock to the account of the server: another that may read it could hold it for ever."""
        if os.geteuid() == 0:
            place = self.folder.stat()
            os.fchown(lock, place.st_uid, place.st_gid)
        if os.geteuid() in (0, os.fstat(lock).st_uid):
            os.fchmod(lock, 0o600)

    # Stopping

    def wait(self):
        """Waits until a server that was started here ends by itself, or by somebody else."""
        status = self._process.wait()
        if status != 0:
            raise Problem(f"PostgreSQL ended with status {status} (its log is {self.log})")

    def stop(self):
        """Ends the server in good order, open connections with it; whether it ran."""
        with self._locked():
            pid = self.pid()
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGINT)
                except PermissionError as error:
                    raise self._not_ours() from error
                self._await_end()
            if self._process is not None:
                self._process.wait()
                self._process = None
            self.started = False
            return pid is not None

    def _await_end(self):
        deadline = time.monotonic() + STOP_SECONDS
        while self.pid() is not None:
            if time.monotonic() > deadline:
                raise Problem(f"the server did not end in {STOP_SECONDS} s (its log is {self.log})")
            time.sleep(0.02)


def environment():
    """The environment without what would lead PostgreSQL's programs elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def check_arguments(port, settings):
    """Raises where `start` was given what it cannot use, or would set otherwise."""
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536):
        raise Problem(f"{port!r} is no port: expected a number from 1 to 65535")
    for name in settings:
        if name.lower() in ("port", "listen_addresses"):
            raise Problem(f"{name} is no setting here: give start() the argument port, or up the option --port")
        if name.lower() in OWN_SETTINGS:
            raise Problem(f"{name} is no setting here: howdah-server sets it itself")


def quoted(text):
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def first_free_port():
    """The smallest port that an account without privileges may listen on."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    except (OSError, ValueError):
        return 1024


def check_port_is_free(port, owner):
    """Raises where the server's account cannot listen on this port of localhost: PostgreSQL does not say why."""
    if os.geteuid() == 0 and owner.pw_uid != 0 and port < first_free_port():
        # Root could, but the server is not root.
        raise Problem(
            f"port {port} of localhost cannot be used by {owner.pw_name}, as whom PostgreSQL runs (Permission denied): "
            f"choose another, from {first_free_port()} on"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Problem(f"port {port} of localhost cannot be used ({error.strerror}): choose another") from error


def last_complaint(text):
    """The last line of `text` in which PostgreSQL complains, and the reasons that it has written to its log before.

    Without what stands before the complaint: the time and the process.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = ("FATAL:", "PANIC:", "ERROR:", "error:")
    for place in reversed(range(len(lines))):
        for word in words:
            if word in lines[place]:
                return ": ".join([lines[place].split(word, 1)[1].strip(), *reasons(lines[:place])])
    return lines[-1] if lines else "it said nothing"


def reasons(lines):
    """What the last of these lines of a log say, joined, unless it is the usual of a start; a list of one or none."""
    found = []
    for line in reversed(lines):
        _, log, said = line.partition("LOG:")
        if log and not said.strip().startswith(USUAL):
            found.insert(0, said.strip())
        elif not any(word in line for word in ("WARNING:", "HINT:", "DETAIL:")):
            break
    return ["; ".join(found)] if found else []


def owner_name(path):
    """The name of the owner of `path`."""
    while not path.exists():
        path = path.parent
    try:
        return entry(path.stat().st_uid).pw_name
    except Problem:
        return f"user id {path.stat().st_uid}"
