"""The container files and the compose file, their steps run in a Debian made by debootstrap.

No container runs here: each FROM is that Debian in a folder, each RUN, and each service's program, a chroot into it with
the machine's network. The images of Prometheus and Grafana are not run.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from mirrors import mirrors

from devkit.places import ROOT
from devkit.server import free_port

FOLDER = ROOT / "packaging" / "container"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
PASSWORD = "it's a secret"
# A chroot has a /proc, a /dev and a shared memory of its own, which go with its last process.
ENTER = """
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    shift
    exec "$@"
"""


class Image:
    """A container file as a folder."""

    def __init__(self, debian, name, folder):
        self.folder = folder
        self.user, self.environment, self.entrypoint, self.command = "root", {}, [], []
        subprocess.run(["cp", "-a", debian, folder], check=True)
        text = re.sub(r"^#.*\n", "", (FOLDER / f"{name}.Containerfile").read_text(), flags=re.MULTILINE)
        for line in re.sub(r"\\\n", " ", text).splitlines():
            if line:
                word, rest = line.split(maxsplit=1)
                getattr(self, f"do_{word.lower()}")(rest)

    def do_from(self, image):
        """The folder is that Debian already."""
        assert image == "debian:bookworm-slim"

    def do_copy(self, rest):
        """As `docker build` does, from the root of the clone."""
        *sources, target = rest.split()
        place = self.folder / target.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        for source in sources:
            found = list(ROOT.glob(source))
            assert found, f"nothing is {source}"
            for path in found:
                shutil.copy(path, place)

    def do_run(self, command):
        """In the chroot, as root."""
        done = self.start("root", ["sh", "-c", command], {"DEBIAN_FRONTEND": "noninteractive"}, subprocess.PIPE)
        output, _ = done.communicate(timeout=600)
        assert done.returncode == 0, output.decode()

    def do_env(self, rest):
        """For what runs later."""
        self.environment.update(part.split("=", 1) for part in shlex.split(rest))

    def do_user(self, user):
        """For what runs later."""
        self.user = user

    def do_entrypoint(self, rest):
        """A list of words."""
        self.entrypoint = yaml.safe_load(rest)

    def do_cmd(self, rest):
        """A list of words."""
        self.command = yaml.safe_load(rest)

    def do_stopsignal(self, name):
        """How a container is told to end."""
        self.stop = signal.Signals[name]

    def do_expose(self, _ports):
        """Of no effect here."""

    do_volume = do_expose

    def ids(self, user):
        """The numbers of an account of its own: by its name chroot takes the group from this machine's, if it is here."""
        accounts = (line.split(":") for line in (self.folder / "etc" / "passwd").read_text().splitlines())
        return next(f"{uid}:{gid}" for name, _, uid, gid, *_ in accounts if name == user)

    def start(self, user, command, environment, output):
        """Starts a program in it."""
        entered = ["chroot", f"--userspec={self.ids(user)}", str(self.folder), *command]
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", ENTER, "sh", str(self.folder), *entered],
            env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    @contextlib.contextmanager
    def service(self, log, **environment):
        """Its program, as a container of the image runs it."""
        with open(log, "wb") as file:
            process = self.start(
                self.user, [*self.entrypoint, *self.command], {**self.environment, **environment}, file
            )
        try:
            yield process
        finally:
            process.send_signal(getattr(self, "stop", signal.SIGTERM))
            try:
                process.wait(30)
            finally:
                subprocess.run(["pkill", "--signal", "KILL", "--parent", str(process.pid)], check=False)


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """A Debian as small as the image, with this machine's way to packages."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for chroots")
    if shutil.which("debootstrap") is None:
        pytest.skip("needs debootstrap (apt-get install debootstrap)")
    if (mirror := mirrors().get("bookworm")) is None:
        pytest.skip("needs a way to the packages of Debian 12")
    folder = tmp_path_factory.mktemp("containers") / "debian"
    subprocess.run(
        ["debootstrap", "--variant=minbase", "bookworm", folder, mirror],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=900,
    )
    shutil.rmtree(folder / "etc" / "apt")
    shutil.copytree("/etc/apt", folder / "etc" / "apt", ignore=lambda _folder, names: {"trusted.gpg"} & set(names))
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", folder / "etc" / name)
    yield folder
    shutil.rmtree(folder.parent)


@pytest.fixture(scope="module")
def packages():
    """What `make deb` leaves in dist/."""
    if not list((ROOT / "dist").glob("howdah-pooler_*.deb")):
        subprocess.run(["make", "deb"], cwd=ROOT, check=True)


def ask(port, sql, database="app"):
    command = ["psql", "-XAtq", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", database, "-c", sql]
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def answers(port, sql, wanted, log):
    """Waits until a question has this answer."""
    for _ in range(300):
        done = ask(port, sql)
        if done.stdout.strip() == wanted:
            return
        time.sleep(0.2)
    pytest.fail(f"{sql}: {done.stdout}{done.stderr}\n{Path(log).read_text()}")


def test_a_primary_a_replica_and_the_pooler_start_as_composed(debian, packages, tmp_path):
    postgres = Image(debian, "postgres", debian.parent / "primary")
    replica = Image.__new__(Image)
    replica.__dict__.update(postgres.__dict__, folder=debian.parent / "replica")
    subprocess.run(["cp", "-a", postgres.folder, replica.folder], check=True)
    pooler = Image(debian, "pooler", debian.parent / "pooler")
    ports = [str(free_port()) for _ in range(3)]
    logs = [tmp_path / name for name in ("primary", "replica", "pooler")]
    services = COMPOSE["services"]
    told = {
        name: {key: value.replace("${POSTGRES_PASSWORD}", PASSWORD) for key, value in given.items()}
        for name in ("primary", "replica")
        if (given := {**services[name]["environment"], "POSTGRES_PASSWORD": PASSWORD})
    }
    assert told["replica"]["PRIMARY_HOST"] == "primary"
    told["replica"] |= {"PRIMARY_HOST": "127.0.0.1", "PRIMARY_PORT": ports[0]}
    configuration = COMPOSE["configs"]["pooler"]["content"].replace("${POSTGRES_PASSWORD}", PASSWORD)
    for name, port in zip(("primary", "replica"), ports, strict=False):
        configuration = configuration.replace(f'host = "{name}"', f'host = "127.0.0.1", port = {port}')
    configuration = configuration.replace("6432", ports[2]).replace("9127", str(free_port()))
    (target,) = (config["target"] for config in services["pooler"]["configs"])
    (pooler.folder / target.lstrip("/")).write_text(configuration)
    with (
        postgres.service(logs[0], PGPORT=ports[0], **told["primary"]),
        replica.service(logs[1], PGPORT=ports[1], **told["replica"]),
        pooler.service(logs[2]),
    ):
        answers(ports[1], "SELECT pg_is_in_recovery()", "t", logs[1])
        answers(ports[2], "SELECT count(*) FROM pg_extension WHERE extname = 'pgml'", "1", logs[2])
        table = "CREATE TABLE r AS SELECT i::real AS x, i * 2 AS y FROM generate_series(1, 100) i"
        assert ask(ports[2], table).returncode == 0
        trained = ask(ports[2], "SELECT project FROM pgml.train('p', 'regression', 'r', 'y', 'xgboost')")
        assert trained.stdout.strip() == "p", trained.stderr
        answers(ports[1], "SELECT pgml.predict('p', 50::real) BETWEEN 90 AND 110", "t", logs[1])
        # A container that starts again finds its data.
    with postgres.service(logs[0], PGPORT=ports[0]):
        answers(ports[0], "SELECT count(*) FROM r", "100", logs[0])


def test_an_empty_folder_without_a_password_is_refused(debian, packages, tmp_path):
    image = Image(debian, "postgres", debian.parent / "refused")
    with image.service(tmp_path / "log", PGPORT=str(free_port())) as process:
        assert process.wait(20) == 1
    assert "POSTGRES_PASSWORD is not set" in (tmp_path / "log").read_text()


def test_what_the_compose_file_names_exists():
    services, volumes, configs = (COMPOSE[key] for key in ("services", "volumes", "configs"))
    for name, service in services.items():
        assert ("image" in service) != ("build" in service), name
        if "build" in service:
            assert (FOLDER / service["build"]["context"]).resolve() == ROOT
            assert (ROOT / service["build"]["dockerfile"]).exists()
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in volumes or (FOLDER / source).exists(), volume
        for config in service.get("configs", []):
            assert yaml.safe_load(configs[config["source"]]["content"]) if config["source"] != "pooler" else True
        for other in service.get("depends_on", {}):
            assert other in services
    rules = (ROOT / "monitoring" / "prometheus-rules.yml").read_text()
    assert 'job="howdah-pooler"' not in rules or "howdah-pooler" in configs["prometheus"]["content"]


def test_promtool_takes_the_configuration_of_prometheus(tmp_path):
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (apt-get install prometheus)")
    place = tmp_path / "prometheus.yml"
    # The rules, where the compose file mounts them.
    mounted = {
        target: FOLDER / source for source, target, *_ in map(mount, COMPOSE["services"]["prometheus"]["volumes"])
    }
    text = COMPOSE["configs"]["prometheus"]["content"]
    assert "/etc/prometheus/rules.yml" in text
    place.write_text(text.replace("/etc/prometheus/rules.yml", str(mounted["/etc/prometheus/rules.yml"].resolve())))
    done = subprocess.run([program, "check", "config", place], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "12 rules found" in done.stdout, done.stdout + done.stderr


def mount(volume):
    """The parts of a volume: where it comes from, where it goes, and its mode."""
    return volume.split(":")
