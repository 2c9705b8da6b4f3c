"""The pooler beside PgBouncer: pgbench through each, by TCP and by Unix sockets, with the same server behind both.

Three scripts are run: `-S` (one SELECT), TPC-B, and `bench/orm.sql`, a transaction as an object-relational mapper makes
it. Each side has the pool size that is best for it, found for each script by a first sweep at 100 clients; without
pipelining both have PgBouncer's. The settings are those in `Side`, the same for both. CPU is the pooler process's own,
from /proc, over the transactions that pgbench counted. PgBouncer is wanted on PATH or in /usr/sbin, Debian's or a newer
one; without it the bench says so and measures nothing. Beside both stands the floor, for `-S` alone: `bench/relay.c`
pipelines over two connections to the server and does nothing else.
"""

import concurrent.futures
import contextlib
import copy
import functools
import itertools
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from bench import bouncer
from bench.programs import compiled, running
from bench.report import Report, Spread, interleave, ratios
from devkit import Problem, postgres, say
from devkit.places import ROOT, as_server_user, give_to_server_user
from devkit.pooler import build_pooler, program
from devkit.programs import installed
from devkit.server import SUPERUSER, Server, environment, free_port

# What pgbench runs, by name.
SCRIPTS = {"-S": ["-S"], "TPC-B": [], "ORM": ["-f", ROOT / "bench" / "orm.sql"]}
MODES = ("simple", "extended", "prepared")
UNSHARED = "pipelining = 0"
# The pooler's own: connections enough for each kind of session to have some.
DEFAULT_SIZE = 20
CLIENTS = (1, 10, 100, 1000)
# How clients reach the pooler.
TCP, UNIX = "TCP", "Unix socket"
CASES = [
    *(("-S", mode, clients, TCP) for clients in CLIENTS for mode in MODES),
    *(("-S", mode, clients, UNIX) for clients in CLIENTS[1:] for mode in MODES),
    ("TPC-B", "simple", 10, TCP),
    ("TPC-B", "simple", 100, TCP),
    ("ORM", "prepared", 10, TCP),
    ("ORM", "prepared", 100, TCP),
]
# What a quick run has of `-S`.
QUICK = [("-S", "simple", clients, TCP) for clients in CLIENTS]
QUICK += [("-S", "extended", 100, TCP), ("-S", "prepared", 100, TCP), ("-S", "simple", 100, UNIX)]
# What the transactions a second (at least) and the CPU a transaction (at most) should be, in parts of PgBouncer's, of
# the relay's, and of the server's own without a pooler: for all protocols or by protocol.
NONE = (None, None)
OF_PGBOUNCER = {
    1: (1.0, 1.0),
    10: (1.15, 0.95),
    100: {"simple": (1.4, None), "extended": (2.0, 0.55), "prepared": (1.8, 0.4)},
    1000: {"simple": (1.4, None), "extended": (2.0, 0.55), "prepared": NONE},
}
OF_RELAY = {100: {"simple": (0.95, 1.25)}, 1000: {"simple": (0.95, 1.25)}}
OF_DIRECT = {"prepared": 1.6}
# So many settings have the clients whose sessions differ.
SETTINGS = 10
# Clients whose statements take a second each, beside short ones.
SLEEPERS = 4
SIZES = {"-S": (2, 5, 10, 20), "TPC-B": (5, 10, 20, 40), "ORM": (5, 10, 20, 40)}


class Direct:
    """The server itself."""

    def __init__(self, server):
        self.name, self.server, self.port, self.process = "direct", server, server.port, None
        self.host, self.folder = "127.0.0.1", server.socket_folder

    def by(self, way):
        """The same, reached by TCP or by its Unix socket."""
        found = copy.copy(self)
        found.host = "127.0.0.1" if way == TCP else str(self.folder)
        return found

    def cpu(self):
        """CPU seconds used by what stands between, if anything does."""
        if self.process is None:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def pgbench(self, mode, clients, script, seconds, *more, options="", database="postgres"):
        """What pgbench counted: transactions, and transactions a second. `options` are settings of its sessions."""
        # A thread of pgbench stands still while one of its clients prepares a statement: its others that have a
        # transaction open would keep the server connection that it waits for.
        threads = clients if script == "ORM" else min(clients, 2)
        command = [self.server.tree.program("pgbench"), "-h", self.host, "-p", str(self.port), "-U", SUPERUSER, "-n"]
        command += [
            *SCRIPTS[script],
            "-M",
            mode,
            "-c",
            str(clients),
            "-j",
            str(threads),
            "-T",
            str(seconds),
            *more,
        ]
        environ = environment() | {"PGPASSWORD": self.server.password, "PGOPTIONS": options}
        done = subprocess.run([*command, database], capture_output=True, text=True, env=environ, check=False)
        counted = re.search(r"actually processed: (\d+)", done.stdout)
        rate = re.search(r"tps = ([\d.]+)", done.stdout)
        if counted and counted.group(1) == "0":
            # pgbench's time runs while its clients connect, and on a busy machine a hundred server processes take long.
            return self.pgbench(mode, clients, script, 2 * seconds, *more, options=options, database=database)
        if done.returncode != 0 or not counted or not rate:
            raise Problem(f"pgbench through {self.name}: {(done.stderr or done.stdout).strip()[-300:]}")
        return int(counted.group(1)), float(rate.group(1))

    def measure(self, mode, clients, script, seconds, costs=None):
        """Transactions a second; the CPU a transaction, in microseconds, is appended to `costs`."""
        before = self.cpu()
        count, tps = self.pgbench(mode, clients, script, seconds)
        if costs is not None:
            costs.append((self.cpu() - before) / max(count, 1) * 1e6)
        return tps

    def latencies(self, mode, clients, script, seconds):
        """How long transactions took, in milliseconds, in order."""
        with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
            self.pgbench(mode, clients, script, seconds, "--log", f"--log-prefix={folder}/log")
            lines = (line for path in Path(folder).iterdir() for line in path.read_text().splitlines())
            return sorted(int(line.split()[2]) / 1000 for line in lines)

    def ask(self, sql):
        """Runs a statement and throws its rows away."""
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", SUPERUSER, "-d", "postgres"]
        command = [self.server.tree.program("psql"), "--no-psqlrc", "-qAt", *place, "-c", sql]
        environ = environment() | {"PGPASSWORD": self.server.password}
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environ, check=False)
        if done.returncode != 0:
            raise Problem(f"psql through {self.name}: {done.stderr.decode().strip()[-300:]}")


class Side(Direct):
    """One pooler, started with a pool size and these other settings; as one of several servers where `cluster` says
    whether reads are told from writes.
    """

    def __init__(self, name, command, server, size, settings="", cluster=None):
        super().__init__(server)
        self.name, self.port = name, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="howdah-bench-", dir="/tmp"))
        self.folder.chmod(0o755)
        give_to_server_user(self.folder)
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(
            f"""[databases]
            * = host={server.socket_folder} port={server.port} user={SUPERUSER}
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir = {self.folder}
            auth_type = any
            pool_mode = transaction
            default_pool_size = {size}
            max_client_conn = 5000
            log_connections = 0
            log_disconnections = 0
            {settings}
            """
        )
        if cluster is not None:
            ini = self.folder / "howdah.toml"
            ini.write_text(
                f"""[pooler]
                listen_addr = "127.0.0.1"
                listen_port = {self.port}
                unix_socket_dir = ""
                auth_type = "any"
                default_pool_size = {size}
                max_client_conn = 5000
                log_connections = false
                log_disconnections = false
                [databases."*"]
                user = "{SUPERUSER}"
                servers = [{{host = "{server.socket_folder}", port = {server.port}}}]
                primary_reads = "on"
                read_write_splitting = {str(cluster).lower()}
                """
            )
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen([*command, ini], stderr=log, stdout=log, cwd="/", **as_server_user())
        try:
            wait_for(server, self.port)
        except Problem as problem:
            raise Problem(f"{name} did not start: {(self.folder / 'log').read_text()}") from problem

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Ends it, once: a side that ended with a block of its own is met again at the end of the bench."""
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is not None and not exception[0]:
            raise Problem(f"{self.name} has ended: {(self.folder / 'log').read_text()[-300:]}")
        process.kill()
        process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory(self):
        """Bytes of memory that are its own (PSS)."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s+(\d+)", lines, re.MULTILINE).group(1)) * 1024


class Relay(Direct):
    """The floor: what pipelines over two connections and does nothing else."""

    def __init__(self, server, stack):
        super().__init__(server)
        self.name, self.port = "relay", free_port()
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp")))
        self.folder.chmod(0o777)
        real = f"{server.socket_folder}/.s.PGSQL.{server.port}"
        command = [compiled("relay", self.folder), str(self.port), self.folder, real, SUPERUSER, "postgres"]
        self.process = stack.enter_context(running(command, self.folder / "log"))
        wait_for(server, self.port)


def wait_for(server, port):
    """Waits until something answers at a port of 127.0.0.1."""
    for _ in range(100):
        if server.run("pg_isready", "-h", "127.0.0.1", "-p", str(port), check=False).returncode == 0:
            return
        time.sleep(0.05)
    raise Problem(f"nothing answers at port {port}")


def measure(quick):
    """The report."""
    path = installed("pgbouncer")
    build_pooler()
    rounds, seconds = (1, 2) if quick else (5, 2)
    cases = [case for case in CASES if not quick or case in QUICK or case[0] != "-S"]
    # A place that any account may run it from.
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder, contextlib.ExitStack() as stack:
        Path(folder).chmod(0o755)
        commands = {"howdah": [shutil.copy(program(), folder)], "pgbouncer": [path, "-q"]}
        server = stack.enter_context(Server(postgres.tree(postgres.NEWEST), {"max_connections": "300"}))
        server.run("pgbench", "-i", "-q", "-s", "10", "postgres")
        report = Report("pooler", quick, server)
        report.content["pgbouncer"] = bouncer.version()[0]

        def start(name, size, settings="", cluster=None):
            if name == "pgbouncer":
                settings = f"{settings}\n{bouncer.settings()}"
            return stack.enter_context(Side(name, commands[name], server, size, settings, cluster))

        sizes = {script: {name: best_size(start, name, script, quick) for name in commands} for script in SCRIPTS}
        report.content["pool_sizes"] = sizes
        others(report)
        report.content["pgbouncer_prepared"] = f"asked by -M {bouncer.mode('prepared')}"
        direct = Direct(server)
        rates = {}
        for script, by_name in sizes.items():
            sides = {name: start(name, size) for name, size in by_name.items()}
            if script == "-S":
                of_selects = dict(sides)
            if script == "-S":
                sides["relay"] = Relay(server, stack)
            for case in [case for case in cases if case[0] == script]:
                mode, clients = case[1:3]
                # A server connection a client is what the pooler is there to spare.
                both = sides | ({"direct": direct} if script == "-S" and clients == 100 and mode != "extended" else {})
                rates[case] = compare(report, both, case, rounds, seconds)
        draw(report, rates)
        without_pipelining(report, start, sizes["-S"]["pgbouncer"], rounds, seconds)
        lone_client(report, start, sizes["-S"]["howdah"], direct, rounds, seconds)
        with start("howdah", DEFAULT_SIZE) as howdah:
            sessions(report, howdah, rounds, seconds)
        splitting(report, start, sizes["-S"]["howdah"], rounds, seconds)
        beyond(report, start, of_selects["howdah"], direct, rounds, seconds)
    return report


def others(report):
    """Says which poolers are not among the sides."""
    found = [name for name in ("pgcat", "odyssey", "pgdog", "pg_doorman") if shutil.which(name)]
    why = f"this bench has no settings for {', '.join(found)}" if found else "none of them is on PATH here"
    report.leave_out("PgCat, Odyssey, PgDog, pg_doorman", why)
    line, version = bouncer.version()
    if version < (1, 25):
        report.leave_out(
            "PgBouncer 1.25", f"this machine has {line}, which prepares no statements in transaction pooling"
        )


def best_size(start, name, script, quick):
    """The pool size with the most transactions a second at 100 clients, by the better of two runs of each."""
    sizes, runs = (SIZES[script][1:3], 1) if quick else (SIZES[script], 2)
    found = dict.fromkeys(sizes, 0.0)
    for size in itertools.chain.from_iterable([sizes] * runs):
        with start(name, size) as side:
            found[size] = max(found[size], side.measure("simple", 100, script, runs))
    say.note(
        f"{name}, {script}, 100 clients, by pool size: "
        + ", ".join(f"{size}: {tps:,.0f}" for size, tps in found.items())
    )
    return max(found, key=found.get)


def both_in_turn(sides, script, mode, clients, rounds, seconds):
    """Transactions a second of each side, and the CPU microseconds a transaction, round by round."""
    costs = {name: [] for name in sides}

    def run(name, side):
        own = bouncer.mode(mode) if side.name == "pgbouncer" else mode
        return side.measure(own, clients, script, seconds, costs[name])

    taken = interleave({name: functools.partial(run, name, side) for name, side in sides.items()}, rounds)
    return taken, {name: cost[1:] for name, cost in costs.items()}


def shown(script):
    """What the page calls a script."""
    return "pgbench -S" if script == "-S" else script


def number(clients):
    """The words for so many clients."""
    return "1 client" if clients == 1 else f"{clients} clients"


def compare(report, sides, case, rounds, seconds):
    """One case, all sides in turn; gives the transactions a second of each."""
    script, mode, clients, way = case
    sides = {name: side.by(way) for name, side in sides.items()}
    taken, costs = both_in_turn(sides, script, mode, clients, rounds, seconds)
    case = f"{shown(script)} {mode}, {'' if way == TCP else f'{way}, '}{number(clients)}"
    for name in sides:
        report.add(f"{case}: {name}", Spread.of(taken[name]), unit="transactions/s")
        if name != "direct":
            report.add(f"{case}: CPU of {name}", Spread.of(costs[name]), unit="us a transaction")
    faster, cheaper = bounds(OF_PGBOUNCER, clients, mode) if script == "-S" else (1.0, None)
    gain = ratios(taken["howdah"], taken["pgbouncer"])
    headline = f"transactions a second through howdah-pooler ÷ PgBouncer, {shown(script)} {mode}, {number(clients)}"
    main = script == "-S" and mode == "simple" and clients > 1 and way == TCP
    name = f"{case}: howdah-pooler / PgBouncer"
    report.add(name, gain, target=faster, contest=True, headline=headline if main else None)
    cost = ratios(costs["howdah"], costs["pgbouncer"])
    report.add(f"{case}: CPU, howdah-pooler / PgBouncer", cost, target=cheaper, at_most=True, contest=True)
    if "relay" in sides:
        # A floor is nobody's product: it is not lost to.
        faster, cheaper = bounds(OF_RELAY, clients, mode)
        report.add(f"{case}: howdah-pooler / relay", ratios(taken["howdah"], taken["relay"]), target=faster)
        cost = ratios(costs["howdah"], costs["relay"])
        report.add(f"{case}: CPU, howdah-pooler / relay", cost, target=cheaper, at_most=True)
    if "direct" in sides:
        gain = ratios(taken["howdah"], taken["direct"])
        report.add(f"{case}: howdah-pooler / PostgreSQL directly", gain, target=OF_DIRECT.get(mode), contest=True)
    return {name: Spread.of(values) for name, values in taken.items()}


def bounds(targets, clients, mode):
    """The bounds of a case: transactions a second at least, CPU at most."""
    found = targets.get(clients, NONE)
    return found.get(mode, NONE) if isinstance(found, dict) else found


def draw(report, rates):
    """Transactions a second by the number of clients, and of the transactions that do not pipeline."""
    for mode in MODES:
        series = {}
        for (script, of, clients, way), by_name in rates.items():
            if script == "-S" and of == mode and way == TCP:
                for name, tps in by_name.items():
                    series.setdefault(name, []).append((clients, tps))
        series = {name: points for name, points in series.items() if len(points) > 1}
        if series:
            title = f"pgbench -S, {mode} protocol"
            report.plot(f"clients-{mode}", title, "clients", "transactions a second", series, log_x=True)
    bars = {}
    for (script, _, clients, _), by_name in rates.items():
        if script != "-S":
            for name, tps in by_name.items():
                bars.setdefault(name, []).append((f"{script}, {clients}", tps))
    report.plot("transactions", "Transactions that write", "script, clients", "transactions a second", bars, kind="bar")


def without_pipelining(report, start, size, rounds, seconds):
    """What the pooler costs as one that only lends connections, with as many of them as are best for PgBouncer."""
    with start("howdah", size, UNSHARED) as plain, start("pgbouncer", size) as other:
        for clients in (1, 100):
            sides = {"howdah": plain, "pgbouncer": other}
            taken, costs = both_in_turn(sides, "-S", "simple", clients, rounds, seconds)
            case = f"pipelining off, pgbench -S simple, {number(clients)}"
            gain = ratios(taken["howdah"], taken["pgbouncer"])
            report.add(f"{case}: howdah-pooler / PgBouncer", gain, target=1.0, contest=True)
            cost = ratios(costs["howdah"], costs["pgbouncer"])
            report.add(f"{case}: CPU, howdah-pooler / PgBouncer", cost, target=1.0, at_most=True, contest=True)


def lone_client(report, start, size, direct, rounds, seconds):
    """What it brings a single client that the pooler waits for it awake, and what that costs."""
    with start("howdah", size) as asleep, start("howdah", size, "busy_poll = 0.0001") as awake:
        sides = {"asleep": asleep, "awake": awake, "direct": direct}
        for mode in ("simple", "prepared"):
            taken, costs = both_in_turn(sides, "-S", mode, 1, rounds, seconds)
            case = f"busy_poll of 100 us, pgbench -S {mode}, 1 client"
            report.add(f"{case}: with / without", ratios(taken["awake"], taken["asleep"]))
            report.add(f"{case}: with / PostgreSQL directly", ratios(taken["awake"], taken["direct"]))
            report.add(f"{case}: CPU, with / without", ratios(costs["awake"], costs["asleep"]))


def sessions(report, howdah, rounds, seconds):
    """What it costs that the sessions of clients differ: a server connection is brought in line for each of them."""
    settings = [f"-c search_path=tenant_{number},public" for number in range(SETTINGS)]
    crowds = {"different": settings, "alike": settings[:1] * SETTINGS}
    for mode in ("simple", "prepared"):
        costs = {name: [] for name in crowds}

        def run(name, mode=mode, costs=costs):
            before = howdah.cpu()
            each = functools.partial(howdah.pgbench, mode, 100 // SETTINGS, "-S", seconds)
            with concurrent.futures.ThreadPoolExecutor(SETTINGS) as pool:
                counted = list(pool.map(lambda options: each(options=options), crowds[name]))
            costs[name].append((howdah.cpu() - before) / max(sum(count for count, _ in counted), 1) * 1e6)
            return sum(rate for _, rate in counted)

        taken = interleave({name: functools.partial(run, name) for name in crowds}, rounds)
        case = f"pgbench -S {mode}, 100 clients of {SETTINGS} different sessions / of sessions alike"
        report.add(f"{case}: transactions a second", ratios(taken["different"], taken["alike"]), target=0.8)
        report.add(f"{case}: CPU", ratios(costs["different"][1:], costs["alike"][1:]))


def splitting(report, start, size, rounds, seconds):
    """What it costs to tell reads from writes."""
    with start("howdah", size, cluster=True) as on, start("howdah", size, cluster=False) as off:
        _, costs = both_in_turn({"on": on, "off": off}, "-S", "simple", 100, rounds, seconds)
    cost = ratios(costs["on"], costs["off"])
    report.add("read/write splitting on / off, 100 clients: CPU a query", cost, target=1.1, at_most=True)


def beyond(report, start, howdah, direct, rounds, seconds):
    """What is not a transaction rate beside PgBouncer's."""
    tails = []
    for _ in range(rounds):
        found = howdah.latencies("simple", 1000, "-S", seconds)
        tails.append(at(found, 0.99) / at(found, 0.5))
    report.add("pgbench -S simple, 1000 clients: p99 / p50", Spread.of(tails), target=3, at_most=True)
    long = max(seconds, 3)
    calm, among = [], []
    # Each sleeper has a server connection to itself; of the pool that is fastest for short statements none may be left.
    with start("howdah", SLEEPERS + 6) as roomy:
        for _ in range(rounds):
            calm.append(at(roomy.latencies("simple", 100, "-S", long), 0.99))
            among.append(with_sleepers(roomy, long))
    case = "100 clients: p99 among pg_sleep(1) of new shapes / p99 without"
    report.add(case, ratios(among, calm), target=2, at_most=True)

    large = "SELECT repeat('x', 1000) FROM generate_series(1, 100000)"
    taken = interleave({side.name: functools.partial(timed, side, large) for side in (howdah, direct)}, rounds)
    large = ratios(taken["direct"], taken["howdah"])
    report.add("a result of 100 MB: throughput, howdah-pooler / PostgreSQL directly", large, target=0.8, contest=True)
    report.add("memory of an idle client", Spread.of([idle_bytes(howdah)]), unit="bytes", target=2048, at_most=True)


def at(ordered, share):
    """The quantile of ordered values."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def with_sleepers(side, seconds):
    """The p99 of short statements of 100 clients while some others send ones of a second, each of a new shape."""
    ending = threading.Event()

    def sleep(number):
        for turn in itertools.count():
            if ending.is_set():
                return
            side.ask(f"SELECT pg_sleep(1) AS shape_{number}_{turn}_{time.monotonic_ns()}")

    sleepers = [threading.Thread(target=sleep, args=(number,)) for number in range(SLEEPERS)]
    for sleeper in sleepers:
        sleeper.start()
    try:
        return at(side.latencies("simple", 100, "-S", seconds), 0.99)
    finally:
        ending.set()
        for sleeper in sleepers:
            sleeper.join()


def timed(side, sql):
    """Seconds that a statement takes."""
    began = time.monotonic()
    side.ask(sql)
    return time.monotonic() - began


def idle_bytes(side, count=4000):
    """Memory that an idle client costs, by the difference that these make."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 1000), hard))
    startup = b"\0\x03\0\0user\0" + SUPERUSER.encode() + b"\0database\0postgres\0\0"
    startup = (len(startup) + 4).to_bytes(4, "big") + startup
    clients = []
    try:
        before = side.memory()
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", side.port))
            client.sendall(startup)
            told = b""
            while b"Z\0\0\0\x05I" not in told:
                come = client.recv(4096)
                if not come:
                    raise Problem("the pooler let an idle client not in")
                told += come
            clients.append(client)
        return (side.memory() - before) / count
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
