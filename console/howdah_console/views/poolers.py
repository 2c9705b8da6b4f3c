"""Poolers as they are now, by their consoles: a picture, pools, servers, clients, statements by shape, events."""

import collections
import contextlib

import howdah

from howdah_console.app import Missing
from howdah_console.ask import FAULTS, Answer, Fault, fault_of
from howdah_console.ask import name as identifier

# Of a database: what the console calls it, and what it does.
COMMANDS = {"pause": "PAUSE", "resume": "RESUME", "reconnect": "RECONNECT", "reload": "RELOAD"}
CONSOLES = ("pgbouncer", "howdah", "pgcat")
STATUS = (
    "SHOW VERSION",
    "SHOW POOLS",
    "SHOW DATABASES",
    "SHOW REPLICAS",
    "SHOW BANS",
    "SHOW SERVERS",
    "SHOW CLIENTS",
)
# What statements can be sorted by, the greatest first: the column, its name, what it says.
SORTS = {
    "total_time": ("Time", "How long they took in all"),
    "calls": ("Calls", "Statements that have ended"),
    "mean_time": ("Mean", "How long one took on average"),
    "max_time": ("Longest", "How long the slowest took"),
    "rows": ("Rows", "Rows that were returned or changed"),
    "errors": ("Errors", "Statements that failed, by SQLSTATE"),
}
# Rows that a page has at most.
MOST = 200
SHAPES = 50
CLIENTS = 50
EVENTS = 10


class Pooler:
    """One pooler's console, asked as the visitor."""

    def __init__(self, page):
        place = page.number("pooler")
        if place >= len(page.settings.poolers):
            raise Missing
        self.number = place
        self.target, self.place = page.settings.poolers[place]
        self.session = page.session
        self.answers = {}
        self.fault = None

    async def ask(self, *commands):
        """Runs commands one after the other; the rows of each are in `answers`, an error in `fault`."""
        user = self.session.user
        try:
            connection = await howdah.connect(
                self.target, user=user, password=self.session.password, timeout=3, command_timeout=3
            )
        except howdah.PostgresError as error:
            hint = "The pooler must know your user: in admin_users, or stats_users, which may look but not act."
            self.fault = Fault(str(error), getattr(error, "hint", None) or hint, error.sqlstate or "")
            return self
        except FAULTS as error:
            self.fault = Fault(f"The pooler of {self.place} does not answer. Is it running?", str(error))
            return self
        try:
            for command in commands:
                answer = Answer(command)
                self.answers[command] = answer
                try:
                    answer.rows = [dict(row) for row in await connection.fetch(command)]
                except howdah.PostgresError as error:
                    answer.fault = fault_of(error)
        except FAULTS as error:
            self.fault = fault_of(error)
        finally:
            with contextlib.suppress(Exception):
                await connection.close(timeout=1)
        return self

    def rows(self, command):
        """The rows of a command, none if it failed."""
        return self.answers[command].rows if command in self.answers else []


def seconds_of(row, whole, micros):
    """A wait, which the console gives in two columns."""
    return (row.get(whole) or 0) + (row.get(micros) or 0) / 1e6


def place_of(host, port):
    """A server's host and port."""
    return f"[{host}]:{port}" if ":" in (host or "") else f"{host or 'unix'}:{port}"


def pools_of(asked):
    """The pools, those in which clients wait first, then the fullest."""
    sizes = {row["name"]: row for row in asked.rows("SHOW DATABASES")}
    # A pool has so many connections to each server of its database.
    servers = collections.Counter(row["database"] for row in asked.rows("SHOW REPLICAS"))
    pools = []
    for row in asked.rows("SHOW POOLS"):
        if row["database"] in CONSOLES:
            continue
        database = sizes.get(row["database"], {})
        size = (database.get("pool_size") or 0) * (servers[row["database"]] or 1)
        used = sum(row.get(name) or 0 for name in ("sv_active", "sv_active_cancel", "sv_being_canceled", "sv_login"))
        longest = seconds_of(row, "maxwait", "maxwait_us")
        paused = bool(database.get("paused"))
        more = {"size": size, "used": used, "share": used / size if size else 0, "longest": longest, "paused": paused}
        pools.append({**row, **more})
    pools.sort(key=lambda row: (-(row["cl_waiting"] or 0), -row["share"], row["database"], row["user"]))
    return pools


def servers_of(asked):
    """The servers, each once for a database: its role, its lag, its ban, its connections."""
    connections = {}
    for row in asked.rows("SHOW SERVERS"):
        counts = connections.setdefault((row["database"], place_of(row["addr"], row["port"])), [0, 0])
        counts[row["state"] in ("idle", "used")] += 1
    bans = {(row["db"], row["host"]): row for row in asked.rows("SHOW BANS")}
    servers = []
    for row in asked.rows("SHOW REPLICAS"):
        key = (row["database"], place_of(row["host"], row["port"]))
        active, idle = connections.pop(key, (0, 0))
        ban = bans.get((row["database"], row["host"])) if row["banned"] else None
        servers.append({**row, "place": key[1], "active": active, "idle": idle, "ban": ban, "watched": True})
    # Databases with one server; of the others, connections to servers that have left the configuration.
    unwatched = (*CONSOLES, "*", *(server["database"] for server in servers))
    plain = {
        (row["name"], place_of(row["host"], row["port"])): (0, 0)
        for row in asked.rows("SHOW DATABASES")
        if row["name"] not in unwatched
    }
    for (database, place), (active, idle) in {**plain, **connections}.items():
        servers.append({"database": database, "place": place, "role": "server", "active": active, "idle": idle})
    order = {"primary": 0, "server": 1, "replica": 2}
    servers.sort(key=lambda server: (server["database"], order.get(server["role"], 3), server["place"]))
    return servers


def groups_of(asked):
    """The clients by application, database and user, those with clients that wait first."""
    groups = {}
    for row in asked.rows("SHOW CLIENTS"):
        if row["database"] in CONSOLES:
            continue
        key = (row.get("application_name") or "", row["database"] or "", row["user"] or "")
        group = groups.setdefault(key, {"all": 0, "active": 0, "waiting": 0, "longest": 0, "pinned": {}})
        group["all"] += 1
        group["active"] += row["state"] == "active"
        group["waiting"] += row["state"] == "waiting"
        group["longest"] = max(group["longest"], seconds_of(row, "wait", "wait_us"))
        if row.get("pinned"):
            group["pinned"][row["pinned"]] = group["pinned"].get(row["pinned"], 0) + 1
    return sorted(groups.items(), key=lambda pair: (-pair[1]["waiting"], -pair[1]["all"], pair[0]))


def applications_of(groups):
    """The clients by application alone, for the picture."""
    applications = {}
    for (name, _, _), group in groups:
        one = applications.setdefault(name or "(no name)", {"all": 0, "active": 0, "waiting": 0, "pinned": 0})
        for count in ("all", "active", "waiting"):
            one[count] += group[count]
        one["pinned"] += sum(group["pinned"].values())
    return sorted(applications.items(), key=lambda pair: (-pair[1]["waiting"], -pair[1]["all"], pair[0]))


async def show(page):
    """The page, whose parts ask each pooler for itself."""
    return page.show("poolers.html", here="poolers", poolers=[place for _, place in page.settings.poolers])


async def pooler(page, done=None, fault=None):
    """One pooler: the picture, pools, servers, databases."""
    page.need_part()
    asked = await Pooler(page).ask(*STATUS)
    pools, groups, servers = pools_of(asked), groups_of(asked), servers_of(asked)
    databases = [row for row in asked.rows("SHOW DATABASES") if row.get("name") not in CONSOLES]
    return page.show(
        "pooler.html",
        pooler=asked,
        version=next((row["version"] for row in asked.rows("SHOW VERSION")), ""),
        pools=pools[:MOST],
        more=len(pools) > MOST,
        databases=databases,
        servers=servers[:MOST],
        groups=groups[:MOST],
        more_groups=len(groups) > MOST,
        applications=applications_of(groups),
        paused=sum(bool(row.get("paused")) for row in databases),
        done=done,
        fault=fault,
    )


async def clients(page, done=None, fault=None):
    """Single clients, of one application if the request says so: those that wait longest, then pinned ones."""
    page.need_part()
    query = page.form if page.form else page.request.query_params
    wanted = {name: query[name] for name in ("application_name", "database", "user") if name in query}
    asked = await Pooler(page).ask("SHOW CLIENTS")
    found = [
        {**row, "waited": seconds_of(row, "wait", "wait_us")}
        for row in asked.rows("SHOW CLIENTS")
        if row["database"] not in CONSOLES and all((row[name] or "") == value for name, value in wanted.items())
    ]
    states = {"waiting": 0, "active": 1}
    found.sort(key=lambda row: (states.get(row["state"], 2), -row["waited"], not row.get("pinned"), row["id"]))
    values = {"wanted": wanted, "count": len(found), "done": done, "fault": fault}
    return page.show("clients.html", pooler=asked, clients=found[:CLIENTS], **values)


async def shapes(page):
    """The statements by shape, sorted as asked."""
    page.need_part()
    sort = page.request.query_params.get("sort", "total_time")
    if sort not in SORTS:
        raise Missing
    asked = await Pooler(page).ask("SHOW SHAPES")
    rows = sorted(asked.rows("SHOW SHAPES"), key=lambda row: -row[sort])
    values = {"count": len(rows), "sort": sort, "sorts": SORTS}
    return page.show("shapes.html", pooler=asked, shapes=rows[:SHAPES], **values)


async def events(page):
    """The last events; all that the pooler keeps if the address says so."""
    page.need_part()
    whole = page.request.query_params.get("all") == "1"
    asked = await Pooler(page).ask("SHOW EVENTS")
    rows = asked.rows("SHOW EVENTS")
    return page.show("events.html", pooler=asked, events=rows if whole else rows[:EVENTS], count=len(rows), whole=whole)


async def command(page):
    """Pauses, resumes or reconnects a database, or reads the configuration again."""
    page.need_actions()
    verb = COMMANDS.get(page.form.get("command", ""))
    database = page.form.get("database", "")
    if verb is None:
        raise Missing
    text = verb if verb == "RELOAD" or not database else f"{verb} {identifier(database)}"
    asked = await Pooler(page).ask(text)
    fault = asked.fault or asked.answers[text].fault
    return await pooler(page, done=None if fault else f"{text}: done.", fault=fault)


async def kill(page):
    """Closes a client."""
    page.need_actions()
    client = page.form.pop("client", "")
    if not client.isascii() or not client.isdigit() or len(client) > 18:
        raise Missing
    text = f"KILL_CLIENT {client}"
    asked = await Pooler(page).ask(text)
    fault = asked.fault or asked.answers[text].fault
    return await clients(page, done=None if fault else f"{text}: done.", fault=fault)
