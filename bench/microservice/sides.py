"""What is compared: the services, and the ways to the database.

A side starts with `with`, answers one question with `ask`, and is loaded with `load`; `roots` are the processes that,
with their children, serve its answers, the store of features among them.
"""

import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

from bench import bouncer
from bench.flights import DATABASE
from bench.microservice import load
from bench.microservice.formats import FORMATS
from bench.microservice.ground import answers, sample
from bench.microservice.processes import Running
from bench.microservice.rounds import AWAKE, HOWDAH
from devkit import Problem
from devkit.flights import FEATURES
from devkit.places import ROOT, as_server_user
from devkit.pooler import program
from devkit.programs import installed
from devkit.server import SUPERUSER, environment, free_port

SETTINGS = Path(__file__).parent
STATEMENT = f"SELECT {', '.join(FEATURES)} FROM keyed WHERE id = $1"


class Side:
    """One way to ask for a prediction by its key."""

    # Whether its float32 may differ from the database's in the last digits.
    is_rounded = False

    def __init__(self, name, ground):
        self.name, self.ground = name, ground
        self.port = free_port()
        self.running = None
        self.log = ground.folder / f"{name.replace(' ', '-').replace('/', '-')}.log"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception):
        self.stop()

    def start(self):
        """Starts what is not running yet, and waits until it answers."""

    def stop(self):
        """Ends what `start` started."""
        if self.running is not None:
            self.running.stop()
            self.running = None

    def launch(self, place, command, environ=None, **options):
        """Starts a process in a place, and waits until it listens on `port`."""
        with place.inside():
            self.running = Running(self.name, command, self.log, environ, cwd=ROOT, **options)
            self.running.wait_until(lambda: answers(place.address, self.port))


class Service(Side):
    """A service in Python."""

    def __init__(self, name, ground, store, environ):
        super().__init__(name, ground)
        self.store = store
        self.environ = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tools'}",
            # One row is predicted at a time: threads for it only cost.
            "OMP_NUM_THREADS": "1",
            "HOWDAH_BENCH_MODEL": str(ground.model),
            **environ,
        }

    @property
    def url(self):
        """Where the service is."""
        return f"http://{self.ground.service.address}:{self.port}/"

    @property
    def roots(self):
        """The service and its store."""
        return [self.running.pid, self.store.pid]

    def open(self, request):
        """The body of an answer."""
        with self.ground.client.inside(), urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()


class Flask(Service):
    """Flask under Gunicorn, features in Redis, driven by ab."""

    def __init__(self, ground, redis, preload=False):
        places = {"HOWDAH_BENCH_REDIS_HOST": redis.address, "HOWDAH_BENCH_REDIS_PORT": str(redis.port)}
        super().__init__("Flask + Redis" + ", preloaded" * preload, ground, redis, places)
        self.options = ["--preload"] if preload else []

    def start(self):
        """Starts Gunicorn."""
        bind = f"{self.ground.service.address}:{self.port}"
        command = [sys.executable, "-m", "gunicorn", "-c", SETTINGS / "gunicorn.conf.py", "-b", bind, *self.options]
        self.launch(self.ground.service, [*command, "bench.microservice.flask_service:app"], self.environ)

    def ask(self, key, form="json"):
        """The prediction for a key."""
        chosen = FORMATS[form]
        headers = {"Content-Type": chosen.kind}
        return chosen.loads(self.open(urllib.request.Request(self.path(form), chosen.dumps(key), headers)))

    def load(self, clients, seconds, form="json"):
        """Throughput and latency, of one key again and again: ab can send but one body."""
        chosen = FORMATS[form]
        body = self.ground.folder / f"body-{form}"
        body.write_bytes(chosen.dumps(sample(self.ground)[-1]))
        with self.ground.client.inside():
            return load.ab(self.path(form), body, chosen.kind, clients, seconds)

    def path(self, form):
        """Where the service speaks this form."""
        return self.url if form == "json" else self.url + form


class InForm:
    """The service that runs already, spoken to in another form."""

    is_rounded = False

    def __init__(self, service, form):
        self.name, self.form, self._service = form, form, service
        self.ground, self.roots = service.ground, service.roots

    def ask(self, key):
        """The prediction for a key."""
        return self._service.ask(key, self.form)

    def load(self, clients, seconds):
        """Throughput and latency."""
        return self._service.load(clients, seconds, self.form)


class FastAPI(Service):
    """FastAPI on uvicorn with so many workers, driven by wrk."""

    def __init__(self, ground, store, engine, workers):
        if hasattr(store, "data"):
            kind, where = "PostgreSQL", {"HOWDAH_BENCH_DSN": dsn(ground), "HOWDAH_BENCH_STATEMENT": STATEMENT}
        else:
            kind = "Redis"
            where = {"HOWDAH_BENCH_REDIS_HOST": store.address, "HOWDAH_BENCH_REDIS_PORT": str(store.port)}
        choice = {"HOWDAH_BENCH_STORE": kind.lower(), "HOWDAH_BENCH_ENGINE": engine}
        super().__init__(f"FastAPI + {kind}", ground, store, {**where, **choice})
        self.workers = workers
        self.is_rounded = engine == "onnx"

    def start(self):
        """Starts uvicorn."""
        command = [sys.executable, "-m", "uvicorn", "bench.microservice.fastapi_service:app"]
        command += ["--host", self.ground.service.address, "--port", self.port, "--workers", self.workers]
        command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
        # No connection of a load generator is closed while another side is measured.
        command += ["--timeout-keep-alive", "75"]
        self.launch(self.ground.service, command, self.environ)

    def ask(self, key):
        """The prediction for a key."""
        return FORMATS["orjson"].loads(self.open(f"{self.url}{key}"))

    def load(self, clients, seconds):
        """Throughput and latency."""
        with self.ground.client.inside():
            return load.wrk(self.url, SETTINGS / "request.lua", clients, seconds, str(self.ground.rows))


def dsn(ground):
    """How a service connects to the server: by its socket where it can."""
    server = ground.server
    if ground.is_local:
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={server.socket_folder}&port={server.port}"
    return f"postgresql://{SUPERUSER}:{server.password}@{ground.store.address}:{server.port}/{DATABASE}"


class Direct(Side):
    """PostgreSQL itself, driven by pgbench with prepared statements."""

    mode = "prepared"
    # To a pooler the name "howdah" means its own console.
    database = DATABASE

    def __init__(self, ground, name="PostgreSQL"):
        super().__init__(name, ground)
        self.port = ground.server.port
        # Where it is asked.
        self.place = ground.store

    @property
    def roots(self):
        """The server."""
        return [self.ground.server.pid]

    def ask(self, key):
        """The prediction for a key."""
        sql = (SETTINGS / "prediction.sql").read_text().splitlines()[-1].replace(":id", str(int(key)))
        place = ["-h", self.place.address, "-p", str(self.port), "-U", SUPERUSER, "-d", self.database]
        with self.ground.client.inside():
            done = subprocess.run(
                [self.ground.server.tree.program("psql"), "--no-psqlrc", "-qAt", *place, "-c", sql],
                capture_output=True,
                text=True,
                env=environment() | {"PGPASSWORD": self.ground.server.password},
                check=False,
            )
        if done.returncode != 0:
            raise Problem(f"psql through {self.name}: {done.stderr.strip()[-300:]}")
        return float(done.stdout)

    def load(self, clients, seconds):
        """Throughput and latency."""
        server, ground = self.ground.server, self.ground
        variables = ["-D", f"rows={ground.rows}"]
        with ground.client.inside():
            where = (self.place.address, self.port, self.database)
            script = SETTINGS / "prediction.sql"
            return load.pgbench(server, where, [*variables, "-f", script, "-M", self.mode], clients, seconds)


class Pooler(Direct):
    """A pooler before the server, beside it or in another place; driven by pgbench too."""

    database = "flights"

    def __init__(self, ground, name, command, settings, mode="prepared", place=None, **values):
        super().__init__(ground, name)
        self.place = place or ground.store
        self.port, self.mode = free_port(), mode
        self.command, self.settings, self.values = command, settings, values

    @property
    def roots(self):
        """The server and the pooler."""
        return [self.ground.server.pid, self.running.pid]

    def start(self):
        """Writes the settings and starts the pooler."""
        server, store = self.ground.server, self.ground.store
        host = server.socket_folder if self.place is store else store.address
        text = (SETTINGS / self.settings).read_text()
        values = {"host": host, "port": server.port, "user": SUPERUSER, "database": DATABASE}
        values["prepared_statements"] = bouncer.settings()
        values |= {"listen": self.place.address, "listen_port": self.port, **self.values}
        # Braces of its own, as TOML has them, stand doubled in the file.
        path = self.ground.folder / f"{self.port}-{self.settings}"
        path.write_text(text.format(**values))
        path.chmod(0o644)
        self.launch(self.place, [*self.command, path], **as_server_user())


def services(ground, redis, chosen):
    """The services in Python; `chosen` gives engine and number of workers of those of FastAPI."""
    modern = [FastAPI(ground, redis if "Redis" in name else ground.server, *how) for name, how in chosen.items()]
    return [Flask(ground, redis), *modern]


def ways(ground):
    """The ways to the database."""
    return [Direct(ground), pgbouncer(ground), howdah(ground, AWAKE, busy_poll=0.0001), howdah(ground)]


def howdah(ground, name=HOWDAH, place=None, busy_poll=0):
    """howdah-pooler; `busy_poll` is the seconds for which it waits awake for a single client, by default none."""
    # A place that any account may run it from.
    copy = ground.folder / "howdah-pooler"
    if not copy.exists():
        shutil.copy(program(), copy)
    return Pooler(ground, name, [copy], "howdah.toml", place=place, busy_poll=busy_poll)


def pgbouncer(ground):
    """PgBouncer."""
    return Pooler(ground, "PgBouncer", [installed("pgbouncer"), "-q"], "pgbouncer.ini", bouncer.mode("prepared"))
