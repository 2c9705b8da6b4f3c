"""PostgreSQL's settings and what each is worth to predictions, one by one: each beside the same fleet without it.

One replica behind one pooler and HAProxy, asked by pgbench with 100 clients; nobody is held to a share. A side is the
setting that a fleet has (`tools/devkit/fleet.py`), the other is the same but for one thing; both in turn, several
rounds. What is compared is the CPU of the server a query, which other work on the machine disturbs least, and the
rate. `plan_cache_mode` is not set in a fleet: there the side with `auto` is the usual one.

- prepared statements: `-M prepared` against `-M simple`, where each query is parsed and planned.
- `plan_cache_mode`: `force_generic_plan` against `auto`, which plans the first five times and whenever a plan made for
  the values looks cheaper.
- `jit`: off against on, by a reload; the threshold of cost is PostgreSQL's.
- the pool's size: as many connections for each server as a fleet has, against 1 and 20.
- huge pages: `on` against `off`, by a restart, on a server of its own asked directly. They have to be set aside by the
  system (`vm.nr_hugepages`), which the bench does for itself where it may, and undoes.
"""

import contextlib
from pathlib import Path

from bench.fleet.load import run
from bench.report import Report, Spread, interleave, ratios
from devkit.extension import build_into
from devkit.fleet import Fleet, allow_descriptors
from devkit.pooler import build_pooler
from devkit.postgres import NEWEST, tree
from devkit.programs import require

CLIENTS = 100
# What is compared.
RATE, COST = "queries a second", "CPU of the server"
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


def measure(quick):
    """The report."""
    require(["haproxy"])
    build_into(tree(NEWEST))
    build_pooler()
    allow_descriptors()
    rounds, seconds = (2, 1) if quick else (5, 2)
    with Fleet(1, 1, pooler={"auth_type": "any"}) as fleet:
        report = Report("tuning", quick, fleet.primary)
        for batch in (1, 20):
            rows = f"{batch} row{'s' if batch > 1 else ''}"

            def both(name, one, other, batch=batch, rows=rows):
                compare(report, f"{name}, {rows}", fleet, batch, one, other, rounds, seconds)

            both("prepared / simple", ("prepared", {}), ("simple", {}))
            both(
                "plan_cache_mode force_generic_plan / auto",
                ("prepared", {"plan_cache_mode": "force_generic_plan"}),
                ("prepared", {}),
            )
            both("jit off / on", ("prepared", {}), ("prepared", {"jit": "on"}))
        for size in (1, 20):
            pools(report, fleet, size, rounds, seconds)
        huge_pages(report, fleet, rounds, seconds)
        draw(report)
    return report


def compare(report, name, fleet, batch, one, other, rounds, seconds):
    """The ratios of one side to the other: a mode of pgbench and settings of the replica."""
    costs = {"one": [], "other": []}

    def side(which, mode, settings):
        set_to(fleet, settings)
        done = run(fleet, CLIENTS, batch, seconds, mode=mode)
        costs[which].append(done.cpu["servers"])
        return done.rate

    taken = interleave({"one": lambda: side("one", *one), "other": lambda: side("other", *other)}, rounds)
    tell(report, name, taken, costs)


def tell(report, name, taken, costs):
    """The two figures of a comparison; the first round of the costs warmed up."""
    report.add(f"{name}: {RATE}", ratios(taken["one"], taken["other"]))
    report.add(f"{name}: {COST}", ratios(costs["one"][1:], costs["other"][1:]))


def draw(report):
    """What each setting is worth, as a table and as bars."""
    found = {case["case"]: Spread(*(case[key] for key in ("median", "least", "greatest"))) for case in report.cases}
    names = [case.removesuffix(f": {RATE}") for case in found if case.endswith(RATE)]
    columns = ["the one / the other", RATE, COST]
    report.table(
        "PostgreSQL's settings, one by one",
        columns,
        [[name, found[f"{name}: {RATE}"], found[f"{name}: {COST}"]] for name in names],
    )
    series = {figure: [(name, found[f"{name}: {figure}"]) for name in names] for figure in (RATE, COST)}
    title = "What each setting is worth: with the one ÷ with the other"
    report.plot("settings", title, "", "times", series, kind="panels", even=True)


def set_to(fleet, settings):
    """Gives the sessions of the replica these settings, and none from before."""
    replica = fleet.replicas[0]
    if getattr(replica, "given", {}) == settings:
        return
    # As defaults of the role: they come to the replica as anything else does, and count above the command line.
    statements = [f"ALTER ROLE {fleet.user} RESET {name};" for name in ("plan_cache_mode", "jit")]
    statements += [f"ALTER ROLE {fleet.user} SET {name} = '{value}';" for name, value in settings.items()]
    fleet.primary.psql("".join(statements))
    fleet.primary.wait_for_replay(replica)
    for pooler in fleet.poolers:
        fleet.psql("RECONNECT", pooler.port, "pgbouncer")
    replica.given = settings


def pools(report, fleet, size, rounds, seconds):
    """The usual number of connections for each server against another."""
    costs = {"one": [], "other": []}
    usual = fleet.pooler_settings["default_pool_size"]

    def side(which, connections):
        fleet.pooler_settings["default_pool_size"] = connections
        fleet.reload()
        fleet.wait()
        done = run(fleet, CLIENTS, 1, seconds)
        costs[which].append(done.cpu["servers"])
        return done.rate

    set_to(fleet, {})
    taken = interleave({"one": lambda: side("one", usual), "other": lambda: side("other", size)}, rounds)
    side("one", usual)
    costs["one"].pop()
    tell(report, f"pool of {usual} / of {size}, 1 row", taken, costs)


def huge_pages(report, fleet, rounds, seconds):
    """Shared memory in huge pages against the usual ones."""
    with contextlib.ExitStack() as stack:
        try:
            before = HUGE_PAGES.read_text()
            stack.callback(HUGE_PAGES.write_text, before)
            HUGE_PAGES.write_text(str(int(before) + 120))
        except OSError as error:
            report.leave_out("huge pages", f"{HUGE_PAGES} is not writable ({error.strerror})")
            return
        if int(HUGE_PAGES.read_text()) < int(before) + 120:
            report.leave_out("huge pages", "the system has no 240 MB in one piece for them")
            return
        sides = {}
        for name, setting in (("one", "on"), ("other", "off")):
            server = stack.enter_context(fleet.primary.replica({"huge_pages": setting}))
            server.name = f"huge-pages-{setting}"
            sides[name] = server
            fleet.primary.wait_for_replay(server)
        costs = {"one": [], "other": []}

        def side(which):
            server = sides[which]
            fleet.replicas.append(server)
            try:
                done = run(fleet, 4, 20, seconds, port=server.port)
            finally:
                fleet.replicas.remove(server)
            costs[which].append(done.cpu["servers"])
            return done.rate

        taken = interleave({name: lambda name=name: side(name) for name in sides}, rounds)
        tell(report, "huge_pages on / off, asked directly, 20 rows", taken, costs)
