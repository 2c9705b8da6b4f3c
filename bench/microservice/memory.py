"""Memory of a side under load: of all its processes, and of the page cache with the tables that it reads."""

import subprocess
import threading
import time

from bench.flights import DATABASE
from bench.microservice.processes import pss_bytes
from bench.microservice.rounds import AWAKE, HOWDAH
from bench.report import Spread, ratios
from devkit import Problem, say

CLIENTS = 20


def tell(report, found, target):
    """Adds each side's memory, and howdah-pooler's in parts of it; `found` by name, round by round as `measure`
    gives.
    """
    parts = {"processes (PSS)": [], "page cache of the tables": []}
    for name, rounds in found.items():
        for part, values in zip(parts, zip(*rounds, strict=True), strict=True):
            spread = Spread.of([value / 1e6 for value in values])
            report.add(f"memory of {name}: {part}", spread, unit="MB")
            parts[part].append((name, spread))
    whole = {name: [sum(values) for values in rounds] for name, rounds in found.items()}
    for name, values in whole.items():
        if name != HOWDAH:
            bound = {"target": target} if name == "Flask + Redis" else {}
            if name == "Flask + Redis, preloaded":
                bound["headline"] = f"memory ÷ {name}"
            case = f"memory: {HOWDAH} / {name}"
            report.add(case, ratios(whole[HOWDAH], values), at_most=True, contest=name != AWAKE, **bound)
    report.plot("memory", f"Memory under {CLIENTS} clients", "", "MB", parts, kind="stack")


def measure(side, seconds=2):
    """Bytes of processes and of page cache while the side is loaded, after it has been."""
    say.note(f"memory of {side.name}")
    side.load(CLIENTS, seconds)
    loading = threading.Thread(target=side.load, args=(CLIENTS, seconds))
    loading.start()
    try:
        time.sleep(seconds / 2)
        return pss_bytes(side.roots), page_cache(side.ground.server) if side.ground.server.pid in side.roots else 0
    finally:
        loading.join()


def page_cache(server):
    """Bytes of the page cache with the table of flights and its index."""
    told = server.psql(
        "SELECT pg_relation_filepath(name::regclass) FROM (VALUES ('keyed'), ('keyed_pkey')) v (name)", DATABASE
    )
    files = [file for path in told.split() for file in server.data.glob(f"{path}*")]
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", *map(str, files)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Problem(
            "fincore does not work, which tells what the page cache holds: `apt-get install util-linux`"
        ) from error
    return sum(map(int, done.stdout.split()))
