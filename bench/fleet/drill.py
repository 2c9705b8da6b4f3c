"""What clients notice when a fleet changes and when it breaks.

Readers predict and writers insert through HAProxy, each at its own steady pace, by the driver, and go on whatever
happens. Meanwhile a replica is added by a reload of the poolers, another removed, one killed, and the primary killed:
Patroni promotes the synchronous standby. At the end every write that was acknowledged is looked for on the new primary.
"""

import asyncio
import collections
import itertools
import random
import sys
import threading
import time

from bench.fleet.patroni import TTL, PatroniFleet, wait_for
from bench.report import Spread
from devkit import say
from devkit.driver import PACKAGE
from devkit.fleet import DATABASE, FEATURES

BUCKET = 0.5
READERS = 24
WRITERS = 8
PAUSE = 0.02
PATIENCE = 60
ROWS = 20_000
PREDICT = f"SELECT pgml.predict('flights', ARRAY[{', '.join(FEATURES)}]) FROM keyed WHERE id = $1"


class Load:
    """Clients in a thread of its own, from `with` to the end of its block."""

    def __init__(self, url):
        self.url = url
        self.answers = []
        self.acknowledged = []
        self.errors = []
        self.reconnects = []
        self.stopping = False
        self.thread = threading.Thread(target=lambda: asyncio.run(self.all()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.stopping = True
        self.thread.join(PATIENCE + 10)

    async def all(self):
        """All clients."""
        kinds = [self.read] * READERS + [self.write] * WRITERS
        await asyncio.gather(*(self.live(number, kind) for number, kind in enumerate(kinds)))

    async def live(self, number, kind):
        """One client: connects, asks, and after an error goes on, on a new connection where the old one has ended."""
        import howdah

        turn = 0
        connection = None
        while not self.stopping:
            began = time.monotonic()
            try:
                if connection is None or connection.is_closed():
                    connection = await asyncio.wait_for(howdah.connect(self.url), PATIENCE)
                    self.reconnects.append((time.monotonic(), number))
                turn += 1
                await asyncio.wait_for(kind(connection, number, turn), PATIENCE)
            except Exception as error:
                code = getattr(error, "sqlstate", None) or type(error).__name__
                self.errors.append((time.monotonic(), kind.__name__, code, str(error)[:120]))
                await asyncio.sleep(0.1)
            else:
                now = time.monotonic()
                self.answers.append((now, kind.__name__, now - began))
            await asyncio.sleep(PAUSE)
        if connection is not None:
            connection.terminate()

    async def read(self, connection, _number, _turn):
        """One prediction."""
        if await connection.fetchval(PREDICT, random.randint(1, ROWS)) is None:
            raise ValueError("no prediction")

    async def write(self, connection, number, turn):
        """One row, noted when it is acknowledged."""
        await connection.execute("INSERT INTO ledger VALUES ($1, $2)", number, turn)
        self.acknowledged.append((number, turn))

    def buckets(self, kind, begin, end):
        """Answers in each bucket of the time."""
        counts = collections.Counter(
            int((moment - begin) / BUCKET) for moment, what, _ in self.answers if what == kind and begin <= moment < end
        )
        return [counts[bucket] for bucket in range(int((end - begin) / BUCKET))]


def measure_drill(report, quick):
    """The report of the drill."""
    sys.path.insert(0, str(PACKAGE))
    rest = 3 if quick else 5
    with (
        say.timed("starting a primary and two replicas under Patroni, poolers and HAProxy"),
        PatroniFleet(2, 2, rows=ROWS, settings={"synchronous_commit": "on"}, pooler={"auth_type": "any"}) as fleet,
    ):
        with Load(fleet.url) as load:
            time.sleep(3)
            began = time.monotonic()
            time.sleep(rest)
            moments = [("nothing happens", began)]
            for what, event, seconds in (
                ("a replica is made and added by a reload", add, rest),
                ("a replica is removed by a reload", remove, rest),
                ("a replica is killed", kill_replica, rest),
                ("the primary is killed", kill_primary, rest + 8),
                *([] if quick else [("the machine of the primary dies", lose_primary, rest + TTL + 15)]),
            ):
                say.note(what)
                moments.append((what, time.monotonic()))
                ready = event(fleet)
                if ready:
                    ready()
                time.sleep(seconds)
            ended = time.monotonic()
        wait_for(fleet.find_primary, 60, lambda: "there is no primary at the end")
        judge(report, load, [*moments, ("", ended)])
        kept = fleet.primary.psql("SELECT client, n FROM ledger", DATABASE).splitlines()
        kept = {tuple(map(int, row.split("|"))) for row in kept}
        lost = set(load.acknowledged) - kept
        report.add("drill: writes acknowledged", Spread.of([len(load.acknowledged)]))
        case = "drill: acknowledged writes lost"
        report.add(
            case, Spread.of([len(lost)]), target=0, at_most=True, headline="acknowledged writes lost in the drill"
        )


def add(fleet):
    """A replica more: copied from the primary, and told of by a reload."""
    fleet.add_replica()


def remove(fleet):
    """The last replica less, but not the one whose acknowledgement is waited for."""
    name = fleet.primary.psql("SELECT application_name FROM pg_stat_replication WHERE sync_state = 'sync'")
    replica = next(node for node in fleet.replicas if node.name != name)
    fleet.forget(replica)
    return replica.close


def kill_replica(fleet):
    """A replica whose processes die; its Patroni starts it again."""
    fleet.replicas[-1].kill()


def kill_primary(fleet):
    """The processes of the primary die, its Patroni lives."""
    fleet.primary.kill()
    return lambda: wait_for(fleet.find_primary, 60, lambda: "there is no new primary")


def lose_primary(fleet):
    """The primary dies with its Patroni: nobody gives its key back, so it has to run out."""
    wait_for(fleet.find_primary, 30, lambda: "there is no primary to lose")
    gone = fleet.primary
    gone.kill(with_patroni=True)

    def replaced():
        others = [node for node in fleet.servers if node is not gone]
        wait_for(
            lambda: any(node.role() == "primary" for node in others), TTL + 60, lambda: "nobody has taken its place"
        )

    return replaced


def judge(report, load, moments):
    """What clients saw after each event."""
    begin = previous = moments[0][1]
    rows = []
    for (what, start), (_, end) in itertools.pairwise(moments):
        rows.append([what])
        told = collections.Counter(f"{kind} {code}" for moment, kind, code, _ in load.errors if start <= moment < end)
        for kind, plural in (("read", "predictions"), ("write", "writes")):
            # Before: since the last event. Where nothing happens it is what the machine does to a steady load.
            normal = Spread.of(load.buckets(kind, previous, start if start > previous else end)).median
            weak = [count for count in load.buckets(kind, start, end) if count < 0.9 * normal]
            report.add(f"drill: {what}: {plural} under 90 % of before", Spread.of([len(weak) * BUCKET]), unit="s")
            errors = sum(count for name, count in told.items() if name.startswith(kind))
            report.add(f"drill: {what}: errors of {plural}", Spread.of([errors]), unit="errors")
            rows[-1] += [len(weak) * BUCKET, errors]
        if told:
            say.note(f"  told: {', '.join(f'{name} {count}x' for name, count in told.items())}")
        report.content.setdefault("errors", {})[what] = dict(told)
        previous = start
    end = moments[-1][1]
    columns = ["event", "predictions: seconds under 90 % of before", "errors", "writes: seconds", "errors"]
    report.table("What clients notice, in one run", columns, rows)
    report.content["events"] = {what: round(moment - begin, 1) for what, moment in moments[:-1]}
    report.plot(
        "drill",
        "Answers while the fleet changes",
        "seconds",
        "answers a second",
        {
            plural: [(number * BUCKET, count / BUCKET) for number, count in enumerate(load.buckets(kind, begin, end))]
            for kind, plural in (("read", "predictions"), ("write", "writes"))
        },
        marks=[(moment - begin, what) for what, moment in moments[1:-1]],
    )
