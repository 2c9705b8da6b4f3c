"""Poolers as they are now, by their consoles: pools with what waits, servers, clients by application."""

import contextlib

import howdah

from howdah_console.app import Missing
from howdah_console.ask import FAULTS, Answer, Fault, fault_of
from howdah_console.ask import name as identifier

# Of a database: what the console calls it, and what it does.
COMMANDS = {"pause": "PAUSE", "resume": "RESUME", "reconnect": "RECONNECT", "reload": "RELOAD"}


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


async def show(page):
    """The page, whose parts ask each pooler for itself."""
    return page.show("poolers.html", here="poolers", poolers=[place for _, place in page.settings.poolers])


async def pooler(page, done=None, fault=None):
    """One pooler's pools and servers."""
    page.need_part()
    asked = await Pooler(page).ask("SHOW VERSION", "SHOW POOLS", "SHOW DATABASES", "SHOW REPLICAS", "SHOW STATS")
    sizes = {row["name"]: row for row in asked.rows("SHOW DATABASES")}
    pools = []
    for row in asked.rows("SHOW POOLS"):
        database = sizes.get(row["database"], {})
        size = database.get("pool_size") or 0
        used = sum(row.get(name) or 0 for name in ("sv_active", "sv_active_cancel", "sv_being_canceled", "sv_login"))
        longest = seconds_of(row, "maxwait", "maxwait_us")
        paused = bool(database.get("paused"))
        more = {"size": size, "used": used, "share": used / size if size else 0, "longest": longest, "paused": paused}
        pools.append({**row, **more})
    pools.sort(key=lambda row: (-(row["cl_waiting"] or 0), -row["share"], row["database"], row["user"]))
    return page.show(
        "pooler.html",
        pooler=asked,
        version=next((row["version"] for row in asked.rows("SHOW VERSION")), ""),
        pools=pools[:200],
        more=len(pools) > 200,
        databases=[row for row in asked.rows("SHOW DATABASES") if row.get("name") not in ("pgbouncer", "howdah")],
        replicas=asked.rows("SHOW REPLICAS"),
        stats=asked.rows("SHOW STATS"),
        done=done,
        fault=fault,
    )


async def clients(page):
    """The clients of a pooler by application; asked for by a click, since there may be thousands."""
    page.need_part()
    asked = await Pooler(page).ask("SHOW CLIENTS")
    groups = {}
    for row in asked.rows("SHOW CLIENTS"):
        key = (row.get("application_name") or "", row.get("database") or "", row.get("user") or "")
        group = groups.setdefault(key, {"all": 0, "active": 0, "waiting": 0, "longest": 0, "pinned": {}})
        group["all"] += 1
        group["active"] += row.get("state") == "active"
        group["waiting"] += row.get("state") == "waiting"
        group["longest"] = max(group["longest"], seconds_of(row, "wait", "wait_us"))
        if row.get("pinned"):
            group["pinned"][row["pinned"]] = group["pinned"].get(row["pinned"], 0) + 1
    ordered = sorted(groups.items(), key=lambda pair: (-pair[1]["waiting"], -pair[1]["all"]))
    return page.show("clients.html", pooler=asked, groups=ordered[:200], more=len(ordered) > 200)


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
