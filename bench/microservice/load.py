"""What makes the load: ab, wrk and pgbench, all in C. Each says how many were answered, and how long they took."""

import dataclasses
import re
import subprocess
import tempfile
from pathlib import Path

from devkit import Problem
from devkit.server import SUPERUSER, environment

# Of pgbench's transactions, the share whose times are written down: all of them would cost it a good part of a core.
SAMPLED = 0.05


@dataclasses.dataclass(frozen=True)
class Load:
    """What one run of a load generator found: answers, answers a second, and milliseconds that they took."""

    count: int
    rate: float
    p50: float
    p99: float


def ab(url, body, kind, clients, seconds):
    """ApacheBench with keep-alive: one POST of the file `body`, of the content type `kind`, again and again."""
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
        shares = Path(folder) / "shares.csv"
        # -n after -t, which would else bound it by 50,000 requests.
        timing = ["-t", str(seconds), "-n", "100000000", "-c", str(clients), "-e", str(shares)]
        text = run("ab", ["ab", "-q", "-k", "-r", "-T", kind, "-p", str(body), *timing, url])
        for trouble in ("Non-2xx responses", "Failed requests"):
            if re.search(rf"{trouble}:\s+[1-9]", text):
                raise Problem(f"ab: {url} did not answer all: {text[-600:]}")
        times = dict(line.split(",") for line in shares.read_text().splitlines()[1:])
    return Load(
        int(number(text, r"Complete requests:\s+(\d+)")),
        number(text, r"Requests per second:\s+([\d.]+)"),
        float(times["50"]),
        float(times["99"]),
    )


def wrk(url, script, clients, seconds, *arguments):
    """A run of wrk: GETs that the Lua `script` makes, each of another key."""
    command = [
        "wrk",
        "-t",
        str(min(clients, 2)),
        "-c",
        str(clients),
        "-d",
        f"{seconds}s",
        "--latency",
        "-s",
        str(script),
    ]
    text = run("wrk", [*command, url, "--", *arguments])
    trouble = re.search(r"(Non-2xx|Socket errors).*", text)
    if trouble:
        raise Problem(f"wrk: {url} did not answer all: {trouble.group()}")
    times = dict(re.findall(r"^\s+(\d+)%\s+(\S+)\s*$", text, re.MULTILINE))
    if "99" not in times:
        raise Problem(f"wrk: {url} answered nothing: {text[-600:]}")
    return Load(
        int(number(text, r"(\d+) requests in")),
        number(text, r"Requests/sec:\s+([\d.]+)"),
        milliseconds(times["50"]),
        milliseconds(times["99"]),
    )


def pgbench(server, where, options, clients, seconds):
    """A run of pgbench at an address, port and database, with options that say its script, which chooses the keys."""
    host, port, database = where
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/tmp") as folder:
        place = ["-h", host, "-p", str(port), "-U", SUPERUSER]
        # Its clock runs while it connects, though that does not count in what it tells.
        timing = ["-c", str(clients), "-j", str(min(clients, 2)), "-T", str(seconds + clients // 50)]
        log = ["--log", f"--log-prefix={folder}/log", f"--sampling-rate={SAMPLED}"]
        command = [str(server.tree.program("pgbench")), "-n", *options, *place, *timing, *log, database]
        text = run("pgbench", command, environment() | {"PGPASSWORD": server.password})
        lines = (line for path in Path(folder).iterdir() for line in path.read_text().splitlines())
        times = sorted(int(line.split()[2]) / 1000 for line in lines)
    return Load(
        int(number(text, r"actually processed: (\d+)")),
        number(text, r"tps = ([\d.]+)"),
        at(times, 0.5),
        at(times, 0.99),
    )


def run(name, command, environ=None):
    """What a load generator prints; raises when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if done.returncode != 0:
        raise Problem(f"{name} failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def number(text, pattern):
    """The number that `pattern` finds."""
    found = re.search(pattern, text)
    if found is None:
        raise Problem(f"a load generator said nothing of {pattern}: {text[-600:]}")
    return float(found.group(1))


def milliseconds(text):
    """A time as wrk writes it."""
    value, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(value) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000}[unit]


def at(ordered, share):
    """The quantile of ordered values."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")
