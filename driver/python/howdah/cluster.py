"""Private servers for tests: made, started, stopped and removed from Python.

The programs of PostgreSQL are those in the folder of the variable ``PGINSTALLATION`` (or ``PGBIN``), else those of the
`pg_config` on the path. PostgreSQL does not run as root.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
from typing import Any, Optional

from . import exceptions, serverversion
from .types import ServerVersion


def find_available_port() -> Optional[int]:
    """A TCP port of this machine that nobody listens on now; None if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError:
            return None
        port: int = probe.getsockname()[1]
        return port


class ClusterError(Exception):
    """A program of PostgreSQL is missing or failed, or the cluster is not in the state for what was asked."""


class Cluster:
    """A server with its data, in a folder.

    Parameters
    ----------
    data_dir : str
        The folder; it may be empty, or not be there yet.
    pg_config_path : str, optional
        The `pg_config` of the PostgreSQL to use.

    Examples
    --------
    >>> cluster = Cluster("/tmp/example")
    >>> cluster.init(username="postgres", auth="trust")
    >>> cluster.start(port="dynamic")
    >>> connection = await cluster.connect(user="postgres", database="postgres")
    """

    def __init__(self, data_dir: str, *, pg_config_path: Optional[str] = None) -> None:
        self._data_dir = data_dir
        self._pg_config_path = pg_config_path
        self._pg_bin_dir = os.environ.get("PGINSTALLATION") or os.environ.get("PGBIN")
        self._pg_ctl: Optional[str] = None
        self._daemon_process: Optional[subprocess.Popen[bytes]] = None
        self._daemon_pid: Optional[int] = None
        self._connection_addr: Optional[dict[str, Any]] = None
        self._connection_spec_override: dict[str, Any] = {}

    def get_pg_version(self) -> ServerVersion:
        """The version of the programs."""
        self._find_programs()
        return self._pg_version

    def is_managed(self) -> bool:
        """Whether the server is started and stopped from here."""
        return True

    def get_data_dir(self) -> str:
        """The folder of the data."""
        return self._data_dir

    def get_status(self) -> str:
        """``not-initialized``, ``stopped`` or ``running``."""
        status = self._pg_ctl_run("status", check=False)
        if status.returncode == 4 or not os.path.exists(self._data_dir) or not os.listdir(self._data_dir):
            return "not-initialized"
        if status.returncode == 3:
            return "stopped"
        if status.returncode != 0:
            raise ClusterError(f"pg_ctl status exited with status {status.returncode}: {status.stdout}")
        pid = re.search(r"PID\s?:\s+(\d+)", status.stdout)
        if pid is None:
            raise ClusterError(f"could not parse pg_ctl status output: {status.stdout}")
        self._daemon_pid = int(pid[1])
        self._connection_addr = self._connection_addr_from_pidfile()
        return "running"

    async def connect(self, loop: Optional[asyncio.AbstractEventLoop] = None, **kwargs: Any) -> Any:
        """Connect to the server; other arguments are those of :func:`howdah.connect`."""
        from .connection import connect

        return await connect(loop=loop, **{**self.get_connection_spec(), **kwargs})

    def init(self, **settings: str) -> str:
        """Make the data folder; `settings` are options of `initdb`. Gives what it printed."""
        self._require("init", "not-initialized", f"cluster in {self._data_dir!r} has already been initialized")
        options = {"encoding": "UTF-8", **settings}
        os.makedirs(self._data_dir, exist_ok=True)
        made = self._pg_ctl_run("init", "-o", " ".join(f"--{name}={value}" for name, value in options.items()))
        return made.stdout

    def start(self, wait: float = 60, *, server_settings: Optional[dict[str, str]] = None, **opts: Any) -> None:
        """Start the server and wait until it answers.

        Parameters
        ----------
        wait : float
            Seconds to wait at most.
        server_settings : dict, optional
            Settings, as in `postgresql.conf`.
        **opts
            Options of the program `postgres`; the `port` may be ``'dynamic'`` for any that is free.

        Raises
        ------
        ClusterError
            The data folder is empty, or the server does not answer in time.
        """
        status = self.get_status()
        if status == "running":
            return
        if status == "not-initialized":
            raise ClusterError(f"cluster in {self._data_dir!r} has not been initialized")
        port = opts.pop("port", None)
        if port == "dynamic":
            port = find_available_port()
        settings = {"unix_socket_directories": tempfile.gettempdir(), **(server_settings or {})}
        if settings.get("ssl_key_file"):
            settings["ssl_key_file"] = self._own_key(settings["ssl_key_file"])
        arguments = [f"--{name}={value}" for name, value in opts.items()]
        if port is not None:
            arguments.append(f"--port={port}")
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        output = None if os.environ.get("ASYNCPG_DEBUG_SERVER") else subprocess.DEVNULL
        self._daemon_process = subprocess.Popen(
            [self._program("postgres"), "-D", self._data_dir, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=self._data_dir,
        )
        self._daemon_pid = self._daemon_process.pid
        self._wait_until_it_answers(wait)

    def reload(self) -> None:
        """Make the server read its configuration again."""
        self._require("reload", "running", "cannot reload: cluster is not running")
        self._pg_ctl_run("reload")

    def stop(self, wait: float = 60) -> None:
        """Stop the server, without waiting for its clients; give it `wait` seconds."""
        self._pg_ctl_run("stop", "-t", str(int(wait)), "-m", "fast")
        if self._daemon_process is not None:
            try:
                self._daemon_process.wait(wait)
            except subprocess.TimeoutExpired:
                self._daemon_process.kill()
            self._daemon_process = None

    def destroy(self) -> None:
        """Remove the data; the server has to be stopped."""
        status = self.get_status()
        if status not in ("stopped", "not-initialized"):
            raise ClusterError(f"cannot destroy {status} cluster")
        shutil.rmtree(self._data_dir)

    def get_connection_spec(self) -> dict[str, Any]:
        """The arguments by which :func:`howdah.connect` reaches the server."""
        self._require("connect to", "running", "cluster is not running")
        return {**(self._connection_addr or {}), **self._connection_spec_override}

    def override_connection_spec(self, **kwargs: Any) -> None:
        """Have :meth:`get_connection_spec` give `kwargs` too."""
        self._connection_spec_override = kwargs

    def reset_wal(self, *, oid: Optional[int] = None, xid: Optional[int] = None) -> None:
        """Set the next OID or transaction id of a server that is stopped."""
        self._require("change", "stopped", "cannot modify WAL status: cluster is not stopped")
        options = [
            text for flag, value in (("-o", oid), ("-x", xid)) if value is not None for text in (flag, str(value))
        ]
        if options:
            self._run([self._program("pg_resetwal"), *options, self._data_dir])

    def reset_hba(self) -> None:
        """Take all rules out of `pg_hba.conf`."""
        self._hba().write_text("")

    def add_hba_entry(
        self,
        *,
        type: str = "host",
        database: str,
        user: str,
        address: Optional[str] = None,
        auth_method: str,
        auth_options: Any = None,
    ) -> None:
        """Add a rule to `pg_hba.conf`.

        Parameters
        ----------
        type : {'local', 'host', 'hostssl', 'hostnossl'}
            What connections it is for.
        database, user, address : str
            Which of them; no address for ``local``.
        auth_method : str
            How they authenticate.
        auth_options : iterable of (str, str), optional
            Options of the method.
        """
        if type not in {"local", "host", "hostssl", "hostnossl"}:
            raise ValueError(f"invalid HBA record type: {type!r}")
        fields = [type, database, user]
        if type != "local":
            if address is None:
                raise ValueError(f"{type!r} entry requires a valid address")
            fields.append(address)
        fields.append(auth_method)
        fields += [f"{name}={value}" for name, value in auth_options or ()]
        with self._hba().open("a") as file:
            print(*fields, file=file)

    def trust_local_connections(self) -> None:
        """Let everybody on this machine in, and nobody else."""
        self.reset_hba()
        self._trust("all", "all")

    def trust_local_replication_by(self, user: str) -> None:
        """Let `user` on this machine replicate."""
        self._trust("replication", user)

    def _trust(self, database: str, user: str) -> None:
        self.add_hba_entry(type="local", database=database, user=user, auth_method="trust")
        for address in ("127.0.0.1/32", "::1/128"):
            self.add_hba_entry(type="host", address=address, database=database, user=user, auth_method="trust")
        if self.get_status() == "running":
            self.reload()

    def _hba(self) -> pathlib.Path:
        if self.get_status() == "not-initialized":
            raise ClusterError("cannot modify HBA records: cluster is not initialized")
        return pathlib.Path(self._data_dir, "pg_hba.conf")

    def _own_key(self, key: str) -> str:
        """A copy of the private key `key` that only the server's user can read, as it demands."""
        own = os.path.join(self._data_dir, "srvkey.pem")
        shutil.copy(key, own)
        os.chmod(own, 0o600)
        return own

    def _require(self, action: str, wanted: str, message: str) -> None:
        if self.get_status() != wanted:
            raise ClusterError(message)

    def _find_programs(self) -> None:
        if self._pg_ctl is not None:
            return
        if not self._pg_bin_dir:
            config = self._pg_config_path or shutil.which("pg_config")
            if config is None:
                raise ClusterError("could not find pg_config executable")
            self._pg_bin_dir = self._run([config, "--bindir"]).stdout.strip()
        self._pg_ctl = self._program("pg_ctl")
        printed = self._run([self._program("postgres"), "--version"]).stdout
        self._pg_version = serverversion.split_server_version_string(printed.partition(")")[2])

    def _program(self, name: str) -> str:
        path = os.path.join(self._pg_bin_dir or "", name)
        if not os.path.isfile(path):
            raise ClusterError(f"could not find {name} executable: {path!r} does not exist or is not a file")
        return path

    def _pg_ctl_run(self, command: str, *options: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        self._find_programs()
        return self._run([self._pg_ctl or "pg_ctl", command, "-D", self._data_dir, *options], check=check)

    def _run(self, command: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
        # A folder that the servers' user can enter: the current one need not be.
        folder = self._data_dir if os.path.isdir(self._data_dir) else "/"
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            check=False,
        )
        if check and done.returncode != 0:
            name = " ".join([os.path.basename(command[0]), *command[1:2]])
            raise ClusterError(f"{name} exited with status {done.returncode}: {done.stdout}")
        return done

    def _connection_addr_from_pidfile(self) -> Optional[dict[str, Any]]:
        """Where the server listens; None while it does not say."""
        try:
            lines = pathlib.Path(self._data_dir, "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        # A file with another process id is what an earlier server left.
        if len(lines) < 6 or (self._daemon_pid and int(lines[0]) != self._daemon_pid):
            return None
        port, socket_folder, address = lines[3:6]
        if socket_folder:
            host = os.path.normpath(os.path.join(self._data_dir, socket_folder))
        else:
            host = {"*": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
        return {"host": host, "port": port}

    def _wait_until_it_answers(self, wait: float) -> None:
        end = time.monotonic() + wait
        while True:
            self._connection_addr = self._connection_addr_from_pidfile()
            if self._connection_addr is not None and self._answers():
                return
            if self._daemon_process is not None and self._daemon_process.poll() is not None:
                raise ClusterError(f"the server exited with status {self._daemon_process.returncode}")
            if time.monotonic() > end:
                raise ClusterError(f"the server does not answer after {wait} seconds")
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether the server talks to clients: any answer but that it is starting will do."""
        from .connection import connect

        async def probe() -> bool:
            try:
                connection = await connect(
                    database="postgres", user="postgres", timeout=5, **(self._connection_addr or {})
                )
            except (
                OSError,
                asyncio.TimeoutError,
                exceptions.CannotConnectNowError,
                exceptions.PostgresConnectionError,
            ):
                return False
            except exceptions.PostgresError:
                return True
            await connection.close()
            return True

        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(probe())
        finally:
            loop.close()


class TempCluster(Cluster):
    """A cluster in a folder of its own under the one for temporary files."""

    def __init__(
        self,
        *,
        data_dir_suffix: Optional[str] = None,
        data_dir_prefix: Optional[str] = None,
        data_dir_parent: Optional[str] = None,
        pg_config_path: Optional[str] = None,
    ) -> None:
        folder = tempfile.mkdtemp(data_dir_suffix, data_dir_prefix, data_dir_parent)
        super().__init__(folder, pg_config_path=pg_config_path)


class HotStandbyCluster(TempCluster):
    """A standby of another cluster, which can be read.

    Parameters
    ----------
    master : dict
        The connection spec of the primary.
    replication_user : str
        The user to replicate as.
    """

    def __init__(
        self,
        *,
        master: dict[str, Any],
        replication_user: str,
        data_dir_suffix: Optional[str] = None,
        data_dir_prefix: Optional[str] = None,
        data_dir_parent: Optional[str] = None,
        pg_config_path: Optional[str] = None,
    ) -> None:
        self._primary = {"host": master["host"], "port": master["port"], "user": replication_user}
        super().__init__(
            data_dir_suffix=data_dir_suffix,
            data_dir_prefix=data_dir_prefix,
            data_dir_parent=data_dir_parent,
            pg_config_path=pg_config_path,
        )

    def init(self, **settings: str) -> str:
        """Copy the data of the primary. Gives what `pg_basebackup` printed."""
        self._require("init", "not-initialized", f"cluster in {self._data_dir!r} has already been initialized")
        primary = self._primary
        copied = self._run(
            [
                self._program("pg_basebackup"),
                *("-h", str(primary["host"]), "-p", str(primary["port"])),
                *("-U", primary["user"], "-D", self._data_dir),
            ]
        )
        pathlib.Path(self._data_dir, "standby.signal").touch()
        return copied.stdout

    def start(self, wait: float = 60, *, server_settings: Optional[dict[str, str]] = None, **opts: Any) -> None:
        """Start the server as a standby; as :meth:`Cluster.start`."""
        where = " ".join(f"{name}={value}" for name, value in self._primary.items())
        super().start(wait, server_settings={**(server_settings or {}), "primary_conninfo": f'"{where}"'}, **opts)


class RunningCluster(Cluster):
    """A server that somebody else runs; the arguments are those that reach it."""

    def __init__(self, **kwargs: Any) -> None:
        self.conn_spec = kwargs

    def is_managed(self) -> bool:
        """Never."""
        return False

    def get_connection_spec(self) -> dict[str, Any]:
        """The arguments that were given."""
        return dict(self.conn_spec)

    def get_status(self) -> str:
        """``running``: it is taken for granted."""
        return "running"

    def init(self, **settings: str) -> str:
        """Do nothing."""
        return ""

    def start(self, wait: float = 60, *, server_settings: Optional[dict[str, str]] = None, **opts: Any) -> None:
        """Do nothing."""

    def stop(self, wait: float = 60) -> None:
        """Do nothing."""

    def destroy(self) -> None:
        """Do nothing."""

    def reset_hba(self) -> None:
        """Refuse."""
        raise ClusterError("cannot modify HBA records of unmanaged cluster")

    def add_hba_entry(self, **kwargs: Any) -> None:
        """Refuse."""
        raise ClusterError("cannot modify HBA records of unmanaged cluster")
