"""A fleet on one machine: a primary, streaming replicas, poolers that know them all, and HAProxy in front.

    with Fleet(replicas=2, poolers=1) as fleet:
        fleet.psql("SELECT 1")          # through HAProxy, a pooler and a server

    applications -> HAProxy (TCP) -> howdah-pooler, several -> PostgreSQL: one primary, replicas

Each PostgreSQL server is held to a share of the CPU, so that a replica more is capacity more, as it is on machines of
their own; poolers, HAProxy and clients are not. A fleet in a `with` ends with it; one with a `home` stays until `down`.
"""

import contextlib
import functools
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from devkit import Problem
from devkit.flights import FEATURES, fill
from devkit.places import as_server_user, give_to_server_user
from devkit.pooler import program
from devkit.postgres import NEWEST, tree
from devkit.programs import installed
from devkit.server import Server, end_with, environment, free_port, is_alive, remove_home
from devkit.shares import Shares, why_not

# Not "howdah": that is the name of a pooler's console.
DATABASE = "flights"
USER = "app"
ROWS = 100_000
TREES = 100
START_SECONDS = 30
# What a server of a fleet is set to, beyond what all private servers are.
SETTINGS = {
    "shared_buffers": "128MB",
    "jit": "off",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    # A replica that has lost its primary, or finds a new one, tries again at once.
    "wal_retrieve_retry_interval": "200ms",
}
POOLER = {
    "auth_type": "scram-sha-256",
    "load_balancing": "least_outstanding",
    # A server here has a part of a core: more connections would only take turns on it.
    "default_pool_size": 2,
    "pipeline_connections": 1,
    # A server that has used its share of a period stands still for the rest of it: its reads are not stuck.
    "pipeline_stall": 0.25,
    "log_connections": False,
    "log_disconnections": False,
}
# The part of all CPU time that goes to PostgreSQL while a fleet answers point predictions; poolers, HAProxy and
# clients use the rest. Measured by `bench/run fleet`.
PART_OF_SERVERS = 0.4
BUSY = 0.8


def share_for(replicas):
    """The largest share, in cores, with which so many busy replicas leave a fifth of the machine idle."""
    return round(BUSY * PART_OF_SERVERS * (os.cpu_count() or 1) / max(replicas, 1), 3)


class Fleet:
    """A fleet. `share` is the cores of each server; None holds none of them to any."""

    user = USER
    database = DATABASE
    has_proxy = True

    def __init__(self, replicas=5, poolers=2, home=None, share=None, rows=ROWS, settings=None, pooler=POOLER):
        self.count = replicas
        self.count_of_poolers = poolers
        self.stays = home is not None
        self.home = Path(home) if home else None
        self.share = share
        self.rows = rows
        self.settings = {**SETTINGS, **(settings or {})}
        # What each pooler's [pooler] says beside where things are.
        self.pooler_settings = POOLER | pooler
        # The replicas that the poolers are told of; all of them when None.
        self.used = None
        self.shares = None
        self.primary = None
        self.replicas = []
        self.poolers = []
        self.proxy = None

    # Life

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *exception):
        self.stop()

    def start(self):
        """Starts all of it and waits until a prediction is answered through HAProxy."""
        if self.has_proxy:
            installed("haproxy")
        if self.home is None:
            self.home = Path(tempfile.mkdtemp(prefix="howdah-fleet-", dir="/tmp"))
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o755)
        self.start_servers()
        self.start_front()
        self.wait()
        return self

    def start_servers(self):
        """The primary with its table and model, then the replicas, then the shares."""
        chosen = tree(NEWEST)
        self.primary = Server(chosen, {**self.settings, **self.fsync}, self.home_of("primary"))
        self.primary.create()
        self.primary.start(detached=self.stays)
        self.save()
        self.fill()
        for number in range(1, self.count + 1):
            self.replicas.append(self.new_replica(f"replica-{number}"))
        self.save()
        if self.share is not None:
            self.shares = Shares(self.group)
            for server in self.servers:
                self.hold(server)

    @property
    def fsync(self):
        """What stays is to survive the machine; what a test or a bench has started need not."""
        return {"fsync": "on"} if self.stays else {}

    def home_of(self, name):
        """The folder of a server of this name; None where it is one's own, gone with it."""
        return self.home / name if self.stays else None

    def fill(self):
        """Makes the table, the model of so many trees and the user on the primary."""
        fill(self.primary, DATABASE, self.rows)
        self.primary.psql(
            f"""CREATE ROLE {USER} LOGIN PASSWORD '{self.primary.password}';
            GRANT pg_monitor TO {USER};
            CREATE TABLE keyed AS SELECT row_number() OVER () AS id, * FROM flights;
            ALTER TABLE keyed ADD PRIMARY KEY (id);
            CREATE TABLE ledger (client int, n int);
            GRANT SELECT ON flights, keyed TO {USER};
            GRANT SELECT, INSERT ON ledger TO {USER};
            VACUUM ANALYZE keyed""",
            DATABASE,
        )
        self.primary.psql(
            "SET client_min_messages = warning; SELECT pgml.train('flights', task => 'regression', "
            "relation_name => 'flights', y_column_name => 'depdelayminutes', algorithm => 'xgboost', "
            f"""hyperparams => '{{"n_estimators": {TREES}}}')""",
            DATABASE,
        )

    def new_replica(self, name, primary=None):
        """One more replica, which has caught up; not yet known to the poolers."""
        primary = primary or self.primary
        replica = primary.replica(home=self.home_of(name), detached=self.stays)
        replica.name = name
        primary.wait_for_replay(replica)
        return replica

    def hold(self, server):
        """Holds a server to its share."""
        share = self.shares.add(self.name_of(server), self.share)
        # What the postmaster starts from now on is born into it; then there is an end to those that were before.
        share.take(server_pids(server)[:1])
        while missing := [pid for pid in server_pids(server) if share.holds(pid) is False]:
            share.take(missing)

    def set_share(self, cores):
        """Gives every server another share; None is no limit."""
        self.share = cores
        for server in self.servers:
            self.shares.of(self.name_of(server)).set(cores)
        self.save()

    def start_front(self):
        """The poolers and HAProxy."""
        shutil.copy(program(), self.home / "howdah-pooler")
        (self.home / "howdah-pooler").chmod(0o755)
        for number in range(1, self.count_of_poolers + 1):
            self.poolers.append(self.start_pooler(f"pooler-{number}", free_port(), free_port()))
        if self.has_proxy:
            self.proxy = self.start_proxy()
        self.save()

    def start_pooler(self, name, port, metrics_port):
        """One pooler."""
        pooler = Program(name, self.home / f"{name}.toml", port, metrics_port)
        self.configure(pooler)
        return pooler.start([self.home / "howdah-pooler", pooler.file], self.stays)

    def configure(self, pooler):
        """Writes the configuration of a pooler as the servers are now."""
        entries = "\n".join(entry_of(*entry) for entry in self.entries())
        settings = "\n".join(f"{name} = {json.dumps(value)}" for name, value in self.pooler_settings.items())
        pooler.write(
            f"""[pooler]
listen_port = {pooler.port}
metrics_port = {pooler.metrics_port}
unix_socket_dir = ""
admin_users = "{USER}"
monitor_user = "{USER}"
{settings}
[users.{USER}]
password = "{self.primary.password}"
{entries}
"""
        )

    def entries(self):
        """The databases of the poolers: the name of each, its servers and what else is said of it."""
        yield self.database, self.servers if self.used is None else [self.primary, *self.used], ""

    def start_proxy(self):
        """HAProxy, in front of the poolers."""
        proxy = Program("haproxy", self.home / "haproxy.cfg", free_port())
        servers = "\n".join(
            f"    server {pooler.name} 127.0.0.1:{pooler.port} check port {pooler.metrics_port}"
            for pooler in self.poolers
        )
        # Two descriptors a connection, and some of its own.
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        proxy.write(
            f"""global
    maxconn {min(10_000, (descriptors - 100) // 2)}
    stats socket {self.home}/haproxy.sock mode 600
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen howdah
    bind 127.0.0.1:{proxy.port}
    balance leastconn
    # A pooler that is shutting down, or reaches no server, says so here.
    option httpchk GET /readyz
    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
{servers}
"""
        )
        return proxy.start([installed("haproxy"), "-db", "-f", proxy.file], self.stays)

    def wait(self, seconds=START_SECONDS):
        """Waits until the poolers know all servers and send reads to replicas, and HAProxy brings a prediction."""
        deadline = time.monotonic() + seconds
        expected = ["primary", *["replica"] * len(self.replicas if self.used is None else self.used)]
        ask = f"SELECT pgml.predict('flights', ARRAY[{', '.join(FEATURES)}]) FROM keyed WHERE id = 1"
        # A pooler that has not read the catalog yet takes every statement for a write.
        where = f"SELECT inet_server_port() FROM ({ask}) AS asked"
        while True:
            try:
                seen = [sorted(row["role"] for row in self.show("REPLICAS", pooler)) for pooler in self.poolers]
                read = [self.psql(where, pooler.port) for pooler in self.poolers]
                split = len(expected) == 1 or str(self.primary.port) not in read
                if all(roles == expected for roles in seen) and split and self.psql(ask):
                    return
                problem = f"the poolers see {seen} and read on the ports {read}"
            except Problem as found:
                problem = found
            if time.monotonic() > deadline:
                raise Problem(f"the fleet did not answer in {seconds} s: {problem} (its logs are in {self.home})")
            time.sleep(0.1)

    def stop(self):
        """Ends all of it and removes what it left on disk."""
        for running in [self.proxy, *self.poolers]:
            if running is not None:
                running.stop()
        for server in reversed(self.servers):
            if self.stays:
                end_server(server)
                remove_home(server.home)
            else:
                server.close()
        if self.shares is not None:
            self.shares.remove()
        if self.home is not None:
            shutil.rmtree(self.home, ignore_errors=True)

    # Changes while it runs

    def add_replica(self):
        """Starts one more replica and lets the poolers know of it by a reload."""
        taken = {self.name_of(replica) for replica in self.replicas}
        number = next(n for n in range(1, 1000) if f"replica-{n}" not in taken)
        replica = self.new_replica(f"replica-{number}")
        if self.shares is not None:
            self.hold(replica)
        self.replicas.append(replica)
        self.reload()
        return replica

    def forget(self, replica):
        """Lets the poolers forget a replica by a reload. It runs on: what is under way there ends soon."""
        self.replicas.remove(replica)
        self.reload()

    def reload(self):
        """Lets the poolers read their configuration again, as the servers are now."""
        for pooler in self.poolers:
            self.configure(pooler)
            os.kill(pooler.pid, signal.SIGHUP)
        self.save()

    def use(self, count):
        """Lets the poolers know only so many of the replicas; the others run and are idle."""
        self.used = self.replicas[:count]
        self.reload()
        self.wait()

    # What is where

    def runs(self):
        """Whether all of it does."""
        whole = len(self.programs) == self.count_of_poolers + self.has_proxy
        alive = all(is_alive(server.data / "postmaster.pid") for server in self.servers)
        return whole and alive and all(program.runs() for program in self.programs)

    @property
    def programs(self):
        """The poolers, and HAProxy."""
        return [*self.poolers, *([self.proxy] if self.proxy else [])]

    @property
    def databases(self):
        """The databases by which the poolers count statements."""
        return [self.database]

    def beside(self, _server):
        """The servers with the same data as a server, itself among them."""
        return self.servers

    def hints(self):
        """How to connect, for people."""
        ways = [f"connect {'through HAProxy ' if self.has_proxy else ''}with {self.url}"]
        for pooler in self.poolers:
            console = f"its console is the database pgbouncer there, for {USER}"
            ways.append(f"{pooler.name} is on port {pooler.port}; {console}")
        return ways

    @property
    def servers(self):
        """The primary and the replicas."""
        return [server for server in [self.primary, *self.replicas] if server is not None]

    def name_of(self, server):
        """What a server is called."""
        return "primary" if server is self.primary else server.name

    @property
    def group(self):
        """The name of the control group."""
        return f"howdah-{hashlib.sha256(str(self.home).encode()).hexdigest()[:12]}"

    @property
    def port(self):
        """The port of HAProxy."""
        return self.proxy.port

    @property
    def url(self):
        """How to connect, through HAProxy."""
        return f"postgres://{USER}:{self.primary.password}@127.0.0.1:{self.port}/{self.database}"

    def save(self):
        """Writes down what runs, for a later process to find."""
        if not self.stays:
            return
        (self.home / "state.json").write_text(json.dumps(self.state(), indent=2))

    def state(self):
        """What `load` makes it from again."""
        return {
            "share": self.share if self.shares is not None else None,
            "primary": self.primary.port,
            "replicas": {replica.name: replica.port for replica in self.replicas},
            "poolers": [pooler.state() for pooler in self.poolers],
            "proxy": self.proxy.state() if self.proxy else None,
        }

    @classmethod
    def load(cls, home):
        """The fleet that another process has left at `home`; None if there is none."""
        try:
            state = json.loads((Path(home) / "state.json").read_text())
        except (OSError, ValueError):
            return None
        fleet = cls(len(state["replicas"]), len(state["poolers"]), home, state["share"])
        fleet.take_up(state, "primary")
        if state["share"] is not None:
            fleet.shares = Shares(fleet.group)
        return fleet

    def take_up(self, state, name):
        """Takes the servers and programs of a state; the primary lies in the folder of this name."""
        self.primary = found(self.home_of(name), state["primary"])
        for replica, port in state["replicas"].items():
            self.replicas.append(found(self.home_of(replica), port))
            self.replicas[-1].name = replica
        self.poolers = [Program(**pooler) for pooler in state["poolers"]]
        self.proxy = Program(**state["proxy"]) if state["proxy"] else None

    # Clients

    def psql(self, sql, port=None, database=None, *flags):
        """What psql answers through HAProxy, or through another port, unaligned."""
        place = ["-h", "127.0.0.1", "-p", str(port or self.port), "-U", USER, "-d", database or self.database]
        command = [str(self.primary.tree.program("psql")), "--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*command, *flags, *place], input=sql, capture_output=True, text=True, env=self.environment, check=False
        )
        if done.returncode != 0:
            raise Problem(f"psql: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    @property
    def environment(self):
        """The environment of clients, with the password."""
        return environment() | {"PGPASSWORD": self.primary.password}

    def show(self, what, pooler):
        """The rows of a SHOW command of a pooler's console, as dictionaries."""
        flags = ["-F", "\t", "-P", "tuples_only=off", "-P", "footer=off"]
        lines = self.psql(f"SHOW {what}", pooler.port, "pgbouncer", *flags).splitlines()
        rows = [line.split("\t") for line in lines]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


class Program:
    """A pooler or HAProxy: its configuration file, ports and process."""

    def __init__(self, name, file, port, metrics_port=None, pid=None):
        self.name = name
        self.file = Path(file)
        self.port = port
        self.metrics_port = metrics_port
        self.pid = pid
        self._process = None

    def state(self):
        """What `Program` is made from again."""
        kept = ("name", "port", "metrics_port", "pid")
        return {name: getattr(self, name) for name in kept} | {"file": str(self.file)}

    @property
    def log(self):
        """The file that it logs to."""
        return self.file.with_suffix(".log")

    def write(self, text):
        """Writes its configuration, which has passwords, whole or not at all."""
        fresh = self.file.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(text)
        give_to_server_user(fresh)
        fresh.rename(self.file)

    def start(self, command, stays):
        """Starts it as the account of the servers, for as long as this process lives unless it stays."""
        parent = os.getpid()
        give_to_server_user(self.file.parent)
        with open(self.log, "w") as log:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
                preexec_fn=functools.partial(prepare, None if stays else parent),
                **as_server_user(),
            )
        self.pid = self._process.pid
        return self

    def runs(self):
        """Whether it runs: a process of that number that has its configuration on the command line."""
        if self._process is not None and self._process.poll() is not None:
            return False
        try:
            return str(self.file).encode() in Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False

    def stop(self, how=signal.SIGKILL):
        """Ends it."""
        if self.runs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)
        deadline = time.monotonic() + 10
        while self.runs():
            if time.monotonic() > deadline:
                raise Problem(f"{self.name} (process {self.pid}) did not end")
            time.sleep(0.02)

    def is_ready(self):
        """Whether a pooler says so."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/readyz", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False


def entry_of(name, servers, more):
    """A database of a pooler's configuration."""
    places = ",\n".join(f'    {{ host = "127.0.0.1", port = {server.port} }}' for server in servers)
    return f"[databases.{name}]\n{more}\nservers = [\n{places}\n]"


def prepare(parent):
    """In a child about to become a program: as many descriptors as it may have, and its end with `parent`, if any."""
    allow_descriptors()
    if parent is not None:
        end_with(parent, signal.SIGKILL)


def allow_descriptors():
    """Lets this process, and what it starts, open as many files and sockets as the system permits it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def found(home, port):
    """A server that another process has started."""
    server = Server(tree(NEWEST), home=home)
    server.port = port
    server.password = (home / "password").read_text().strip()
    return server


def end_server(server):
    """Stops a server that another process has started."""
    pid_file = server.data / "postmaster.pid"
    how = [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL]
    for number in how:
        if not is_alive(pid_file):
            return
        os.kill(int(pid_file.read_text().split()[0]), number)
        deadline = time.monotonic() + 20
        while is_alive(pid_file) and time.monotonic() < deadline:
            time.sleep(0.05)


def server_pids(server):
    """The processes of a server, the postmaster first."""
    try:
        main = int((server.data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return []
    return [main, *children_of(main)] if Path(f"/proc/{main}").exists() else []


def children_of(parent):
    """The children of a process: at least those that live for as long as this takes. The kernel's own list of them
    (/proc/PID/task/PID/children) leaves some out when another ends while it is read.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(int(entry.name))
    return found


def cpu_seconds(pid, of_children=False):
    """CPU that a process has used, in seconds, and its ended children too if asked; 0 when it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if of_children else 13])) / os.sysconf("SC_CLK_TCK")


def cpu_of_server(server):
    """CPU that a server's processes have used, those that have ended too."""
    main, *children = server_pids(server) or [0]
    return cpu_seconds(main, of_children=True) + sum(cpu_seconds(child) for child in children)


def share_or_reason(replicas, share=None):
    """The share of each server, or None and why there is none."""
    reason = why_not()
    return (None, reason) if reason else (share or share_for(replicas), None)
