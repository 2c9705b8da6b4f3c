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
from devkit.sharded import ShardedFleet

# How often the table is drawn, in seconds.
INTERVAL = 2


def home():
    """The folder of the fleet that stays."""
    return runtime() / "fleet"


def load():
    """The fleet that is up, or what is left of it; None if there is none."""
    return ShardedFleet.load(home()) or Fleet.load(home())


def up(replicas, poolers, share, shards=0):
    """Starts the fleet unless it runs, and says how to connect."""
    if shards and share:
        raise Problem("servers of a sharded database are held to no share: leave out SHARE")
    fleet = load()
    if fleet is not None and fleet.runs():
        step("the fleet is up already; `make fleet-down` ends it")
    else:
        down()
        build_pooler()
        fleet = ShardedFleet(shards, replicas, poolers, home()) if shards else unsharded(replicas, poolers, share)
        what = f"a hub, {shards} shards, {replicas} replicas of each" if shards else f"a primary, {replicas} replicas"
        with timed(f"starting {what}, {poolers} poolers{'' if shards else ' and HAProxy'} in {home()}"):
            try:
                fleet.start()
            except BaseException:
                fleet.stop()
                raise
    for line in table(fleet, look(fleet), None):
        print(line)
    step("the fleet answers")
    for hint in fleet.hints():
        note(hint)
    note("the fleet stays: `make fleet-status` watches it, `make fleet-down` ends it")


def unsharded(replicas, poolers, share):
    """A fleet of one primary, which is not started yet."""
    build_into(tree(NEWEST))
    share, reason = share_or_reason(replicas, share)
    if reason:
        note(f"no server is held to a share of the CPU: {reason}. Replicas here share the cores as they come")
    return Fleet(replicas, poolers, home(), share)


def down():
    """Ends the fleet and removes its data."""
    fleet = load()
    if fleet is None:
        step("no fleet is up")
        return
    with timed("ending the fleet"):
        fleet.stop()


def status(once=False):
    """Draws the table until Ctrl-C, which leaves the fleet as it is; or once, where nobody looks on."""
    fleet = load()
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
    for program in fleet.programs:
        seen["programs"][program.name] = {"cpu": cpu_seconds(program.pid), "up": program.runs()}
    for pooler in fleet.poolers:
        try:
            seen["views"][pooler.name] = {row["port"]: row for row in fleet.show("REPLICAS", pooler)}
            stats = {row["database"]: row for row in fleet.show("STATS", pooler)}
            seen["programs"][pooler.name]["count"] = sum(
                int(stats[name]["total_query_count"]) for name in fleet.databases
            )
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
    for server in fleet.servers:
        name = fleet.name_of(server)
        seen = now["servers"][name]
        those = [now["servers"][fleet.name_of(other)] for other in fleet.beside(server)]
        end = max((other["position"] for other in those if other["role"] == "primary"), default=None)
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
    for program in fleet.programs:
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
