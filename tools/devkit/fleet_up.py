"""`make fleet`, `make fleet-status` and `make fleet-down`: a fleet that stays, and a table of how it does."""

import sys
import time

from devkit import Problem
from devkit.extension import build_into
from devkit.fleet import Fleet, cpu_of_server, cpu_seconds, share_or_reason
from devkit.places import runtime
from devkit.pooler import build_pooler
from devkit.postgres import NEWEST, tree
from devkit.say import note, step, timed

# How often the table is drawn, in seconds.
INTERVAL = 2


def home():
    """The folder of the fleet that stays."""
    return runtime() / "fleet"


def up(replicas, poolers, share):
    """Starts the fleet unless it runs, and says how to connect."""
    fleet = Fleet.load(home())
    if fleet is not None and fleet.runs():
        step("the fleet is up already; `make fleet-down` ends it")
    else:
        down()
        build_into(tree(NEWEST))
        build_pooler()
        share, reason = share_or_reason(replicas, share)
        if reason:
            note(f"no server is held to a share of the CPU: {reason}. Replicas here share the cores as they come")
        fleet = Fleet(replicas, poolers, home(), share)
        with timed(f"starting a primary, {replicas} replicas, {poolers} poolers and HAProxy in {home()}"):
            try:
                fleet.start()
            except BaseException:
                fleet.stop()
                raise
    for line in table(fleet, look(fleet), None):
        print(line)
    step("connect through HAProxy with")
    note(fleet.url)
    for pooler in fleet.poolers:
        note(f"{pooler.name} is on port {pooler.port}; its console is the database pgbouncer there, for {fleet.user}")
    note("the fleet stays: `make fleet-status` watches it, `make fleet-down` ends it")


def down():
    """Ends the fleet and removes its data."""
    fleet = Fleet.load(home())
    if fleet is None:
        step("no fleet is up")
        return
    with timed("ending the fleet"):
        fleet.stop()


def status(once=False):
    """Draws the table until Ctrl-C, which leaves the fleet as it is; or once, where nobody looks on."""
    fleet = Fleet.load(home())
    if fleet is None:
        raise Problem("no fleet is up: `make fleet` starts one")
    once = once or not sys.stdout.isatty()
    earlier = look(fleet)
    if not once:
        print("\033[2J", end="")
    while True:
        time.sleep(1 if once else INTERVAL)
        now = look(fleet)
        lines = table(fleet, now, earlier)
        if once:
            print("\n".join(lines))
            return
        # From the upper left corner, each line to its end, and what is below.
        print("\033[H" + "".join(f"{line}\033[K\n" for line in lines) + "\033[J", end="", flush=True)
        earlier = now


def look(fleet):
    """What is seen now: the moment, and by name what each server, pooler and HAProxy has done so far."""
    seen = {"at": time.monotonic(), "servers": {}, "programs": {}, "views": {}}
    for server in fleet.servers:
        seen["servers"][fleet.name_of(server)] = look_at(server, fleet.database) | {"cpu": cpu_of_server(server)}
    for program in [*fleet.poolers, fleet.proxy]:
        seen["programs"][program.name] = {"cpu": cpu_seconds(program.pid), "up": program.runs()}
    for pooler in fleet.poolers:
        try:
            seen["views"][pooler.name] = {row["port"]: row for row in fleet.show("REPLICAS", pooler)}
            stats = {row["database"]: row for row in fleet.show("STATS", pooler)}
            seen["programs"][pooler.name]["count"] = int(stats[fleet.database]["total_query_count"])
        except (Problem, KeyError):
            seen["views"][pooler.name] = {}
    return seen


def look_at(server, database):
    """What a server says of itself."""
    ask = (
        "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
        f"ELSE pg_current_wal_lsn() END - '0/0', xact_commit FROM pg_stat_database WHERE datname = '{database}'"
    )
    try:
        standby, position, count = server.psql(ask).split("|")
    except (Problem, ValueError):
        return {"role": "down"}
    return {"role": "replica" if standby == "t" else "primary", "position": int(position), "count": int(count)}


def table(fleet, now, earlier):
    """The lines of the table; what is a second needs an earlier look."""
    share = "of a core" if fleet.share is None else f"of {fleet.share:g} cores"
    head = f"{'server':<12}{'port':>7}  {'role':<9}{'behind':>10}{'CPU':>7}  {share:<16}{'transactions/s':>15}"
    lines = [f"{head}  seen by poolers as"]
    end = max((seen["position"] for seen in now["servers"].values() if seen["role"] == "primary"), default=None)
    for server in fleet.servers:
        name = fleet.name_of(server)
        seen = now["servers"][name]
        behind = "" if seen["role"] != "replica" or end is None else f"{max(end - seen['position'], 0):,} B"
        views = [view.get(str(server.port), {}).get("role", "-") for view in now["views"].values()]
        used, rate = "", ""
        if earlier is not None:
            part = a_second(now, earlier, "servers", name, "cpu")
            used = "" if part is None else f"{part / (fleet.share or 1):.0%}"
            count = a_second(now, earlier, "servers", name, "count")
            rate = "" if count is None else f"{count:,.0f}"
        line = f"{name:<12}{server.port:>7}  {seen['role']:<9}{behind:>10}{used:>7}  {'':<16}{rate:>15}"
        lines.append(f"{line}  {', '.join(views)}")
    for program in [*fleet.poolers, fleet.proxy]:
        up = "up" if now["programs"][program.name]["up"] else "down"
        used, rate = "", ""
        if earlier is not None:
            used = f"{a_second(now, earlier, 'programs', program.name, 'cpu') or 0:.0%}"
            count = a_second(now, earlier, "programs", program.name, "count")
            rate = "" if count is None else f"{count:,.0f}"
        lines.append(f"{program.name:<12}{program.port:>7}  {up:<9}{'':>10}{used:>7}  {'of a core':<16}{rate:>15}")
    return lines


def a_second(now, earlier, kind, name, what):
    """How much a count has grown a second since the earlier look; None where one of them is missing."""
    new, old = now[kind].get(name, {}).get(what), earlier[kind].get(name, {}).get(what)
    if new is None or old is None:
        return None
    return (new - old) / (now["at"] - earlier["at"])
