"""What a prediction costs each part of a fleet, and what many a second need.

CPU is what the processes used, by the kernel's account, over the queries that pgbench counted, with nobody held to a
share: being stopped every 50 ms costs a server more than it will elsewhere. Bytes are HAProxy's own count.
"""

import socket

from bench.fleet.cells import BATCHES
from bench.fleet.load import run
from bench.report import Spread

PARTS = ("servers", "poolers", "haproxy")
# The published fleet: five replicas of 36 vCPU and 35 poolers for 1,021,692.7 predictions a second.
PUBLISHED_CORES = 5 * 36
PUBLISHED_RATE = 1.0217
PUBLISHED_POOLERS = 35
RATES = (1, 10, 100)


def measure_costs(report, fleet, quick):
    """Microseconds of CPU and bytes for a prediction, and the cores that a million a second need."""
    rounds, seconds = (1, 2) if quick else (2, 2)
    if fleet.shares is not None:
        fleet.set_share(None)
    fleet.use(2)
    run(fleet, 200, 1, 1)
    taken = {batch: [] for batch in BATCHES}
    carried = {batch: [] for batch in BATCHES}
    for _ in range(rounds):
        for batch in BATCHES:
            before = traffic(fleet)
            done = run(fleet, 200, batch, seconds)
            count = traffic(fleet) - before
            taken[batch].append(done)
            carried[batch].append(count / done.total / batch)
    series = {part: [] for part in PARTS}
    table = {}
    for batch in BATCHES:
        for part in (*PARTS, "clients"):
            cost = Spread.of([done.cpu[part] / batch for done in taken[batch]])
            report.add(f"CPU of a prediction, {batch} in a query: {part}", cost, unit="us")
            if part in PARTS:
                series[part].append((str(batch), cost))
                table[(part, batch)] = cost.median
        report.add(f"bytes of a prediction at HAProxy, {batch} in a query", Spread.of(carried[batch]), unit="bytes")
    report.plot(
        "costs",
        "CPU of a prediction by part of the fleet",
        "predictions in a query",
        "microseconds",
        series,
        kind="bar",
    )
    rows = [["published", 1.02, "1 to 20", PUBLISHED_CORES, f"{PUBLISHED_POOLERS} processes", "-", "-"]]
    for batch in (BATCHES[0], BATCHES[-1]):
        # A microsecond each is a core for a million a second.
        servers, poolers, haproxy = (table[(part, batch)] for part in PARTS)
        report.add(f"a million a second, {batch} in a query: cores of servers", Spread.of([servers]), unit="cores")
        report.add(f"a million a second, {batch} in a query: cores of poolers", Spread.of([poolers]), unit="cores")
        report.add(f"a million a second, {batch} in a query: cores of HAProxy", Spread.of([haproxy]), unit="cores")
        ratio = servers / (PUBLISHED_CORES / PUBLISHED_RATE)
        case = f"a million a second, on paper, {batch} in a query: busy cores of servers / published vCPU"
        report.add(case, Spread.of([ratio]))
        for rate in RATES:
            gigabits = Spread.of(carried[batch]).median * 8 * rate / 1000
            cores = [round(rate * part, 1) for part in (servers, poolers, haproxy)]
            rows.append(["Howdah", rate, batch, *cores, round(gigabits, 1)])
    columns = ["", "millions a second", "predictions in a query", "cores of servers", "of poolers", "of HAProxy"]
    report.table(
        "Cores for a million predictions a second, computed from these costs", [*columns, "Gbit/s at HAProxy"], rows
    )
    report.content["on_paper"] = (
        "nobody has run a million a second here: cores of ours are those that the measured costs keep wholly busy, the "
        "published ones were there and not all busy; docs/design/2026-11-21-fleet.md says where the next limits are"
    )


def traffic(fleet):
    """Bytes that HAProxy has taken from clients and given to them so far."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(fleet.home / "haproxy.sock"))
        control.sendall(b"show stat\n")
        text = b"".join(iter(lambda: control.recv(65536), b"")).decode()
    header, *rows = (line.split(",") for line in text.lstrip("# ").splitlines() if line)
    front = next(row for row in rows if row[header.index("svname")] == "FRONTEND")
    return int(front[header.index("bin")]) + int(front[header.index("bout")])
