"""A ledger on a sharded database, through the pooler, while servers and the pooler are killed: it stays balanced.

    python -m tests.shards.ledger --minutes 10 [--every 5] [--moves] [--pg 18]

Clients move money between the accounts of a tenant, which is a transaction of one shard, with an entry for each. Every few
seconds the hub, a shard or the pooler is killed as by `kill -9` and started again at once; with `--moves`, slots move to
other shards all the while instead. At the end the entries of transactions whose commit was acknowledged are there once,
those of transactions that failed before or were refused are not, the balances are those of the entries, and their sum is
what it was. A commit whose answer was lost may be either.
"""

import argparse
import collections
import contextlib
import itertools
import random
import sys
import threading
import time

import psycopg

from tests.shards import fleet as fleets

TENANTS, ACCOUNTS, BALANCE = 24, 5, 1000
TABLES = f"""
CREATE TABLE accounts (tenant bigint, account int, balance bigint NOT NULL, PRIMARY KEY (tenant, account));
CREATE TABLE entries (tenant bigint, entry bigint, debit int, credit int, amount int, PRIMARY KEY (tenant, entry));
INSERT INTO accounts SELECT t, a, {BALANCE} FROM generate_series(1, {TENANTS}) t, generate_series(1, {ACCOUNTS}) a;
SELECT FROM howdah_shards.distribute_table('accounts', 'tenant', 12);
SELECT FROM howdah_shards.distribute_table('entries', 'tenant', colocate_with => 'accounts');
"""
WHOLE = TENANTS * ACCOUNTS * BALANCE


class Client(threading.Thread):
    """A client: what became of each of its entries, and how long statements took."""

    numbers = itertools.count(1)

    def __init__(self, place, seed):
        super().__init__(daemon=True)
        self.place, self.rng = place, random.Random(seed)
        self.over = threading.Event()
        self.acknowledged, self.unknown, self.failed = {}, {}, {}
        self.counts, self.states = collections.Counter(), collections.Counter()
        self.longest, self.wrong = collections.Counter(), []
        self.doing = "routed"
        self.connection = None

    def run(self):
        """Works until it is told to stop."""
        try:
            self.run_on()
        finally:
            if self.connection is not None:
                self.connection.close()

    def run_on(self):
        """As `run`, and leaves its connection open."""
        while not self.over.is_set():
            if self.connection is None or self.connection.closed:
                try:
                    self.connection = psycopg.connect(self.place, autocommit=True, connect_timeout=10)
                    self.connection.prepare_threshold = self.rng.choice([None, 0, 5])
                except psycopg.Error:
                    time.sleep(0.05)
                    continue
            began, tenant = time.monotonic(), self.rng.randint(1, TENANTS)
            try:
                self.work(tenant)
            except psycopg.Error as error:
                self.states[error.sqlstate or "lost"] += 1
                with contextlib.suppress(psycopg.Error):
                    self.connection.execute("ROLLBACK")
                if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    self.connection.close()
            self.longest[self.doing] = max(self.longest[self.doing], time.monotonic() - began)

    def work(self, tenant):
        """One piece of work."""
        draw = self.rng.random()
        self.doing = "hub" if draw < 0.05 else "routed"
        if draw < 0.05:
            (found,) = self.ask("hub", "SELECT sum(balance) FROM accounts")
            if found != WHOLE:
                self.wrong.append(f"a report saw {found}")
        elif draw < 0.15:
            found = self.ask("routed", "SELECT sum(balance), count(*) FROM accounts WHERE tenant = %s", tenant)
            if found != (ACCOUNTS * BALANCE, ACCOUNTS):
                self.wrong.append(f"tenant {tenant} had {found}")
        else:
            self.transfer(tenant, crosses=draw > 0.97)

    def ask(self, where, sql, *values):
        """Runs a statement and counts it."""
        cursor = self.connection.execute(sql, values)
        self.counts[where] += 1
        return cursor.fetchone() if cursor.description else None

    def transfer(self, tenant, crosses):
        """A transaction; one that `crosses` ends with the account of another tenant, and is refused if that is elsewhere."""
        entry, amount = next(self.numbers), self.rng.randint(1, 50)
        debit, credit = self.rng.sample(range(1, ACCOUNTS + 1), 2)
        self.failed[entry] = tenant
        self.connection.execute("BEGIN")
        if self.rng.random() < 0.3:
            self.connection.execute("SAVEPOINT a")
        change = "UPDATE accounts SET balance = balance + %s WHERE tenant = %s AND account = %s"
        # In one order, so that they wait for each other and do not die of it.
        steps = sorted([(debit, -amount), (credit, amount)])
        self.ask("routed", "INSERT INTO entries VALUES (%s, %s, %s, %s, %s)", tenant, entry, debit, credit, amount)
        for account, sum_of in steps:
            self.ask("routed", change, sum_of, tenant, account)
        if crosses:
            try:
                self.ask("routed", change, 0, tenant % TENANTS + 1, 1)
            except psycopg.errors.FeatureNotSupported:
                self.counts["refused"] += 1
                self.connection.execute("ROLLBACK")
                return
        del self.failed[entry]
        self.unknown[entry] = tenant
        self.connection.execute("COMMIT")
        self.acknowledged[entry] = tenant
        del self.unknown[entry]


class Ledger:
    """A fleet, its pooler and its clients."""

    def __init__(self, fleet, made, clients=6):
        self.fleet, self.made = fleet, made
        place = f"host=127.0.0.1 port={made.port} dbname=app user=postgres"
        self.clients = [Client(place, seed) for seed in range(clients)]
        self.kills, self.moves = collections.Counter(), []

    def run(self, seconds, every, moves=False, seed=1):
        """Runs the load for so long, with kills or moves."""
        rng, end = random.Random(seed), time.monotonic() + seconds
        for client in self.clients:
            client.start()
        if moves:
            self.move(rng, end)
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(every, left))
            if left > every:
                self.kill(rng.choice(["pooler", "hub", *self.fleet.shards]))
        for client in self.clients:
            client.over.set()
        for client in self.clients:
            client.join(60)
            assert not client.is_alive(), "a client hangs"

    def kill(self, name):
        """Kills the pooler or a server, and starts it again at once."""
        self.kills[name] += 1
        if name == "pooler":
            self.made.process.kill()
            self.made.process.wait()
            self.made.__enter__()
            return
        server = self.fleet.hub if name == "hub" else self.fleet.shards[name]
        server._process.kill()
        fleets.begin_again(server)

    def move(self, rng, end):
        """Moves one slot after another."""
        while time.monotonic() < end:
            slot, shard = rng.randrange(12), rng.choice(list(self.fleet.shards))
            began = time.monotonic()
            self.fleet.sql(f"CALL howdah_shards.move_slot('accounts', {slot}, '{shard}')")
            self.moves.append(time.monotonic() - began)

    def faults(self):
        """What is wrong at the end."""
        found = collections.Counter()
        for shard in self.fleet.shards:
            found.update(map(int, self.fleet.on(shard, "SELECT entry FROM entries").split()))
        sure = {entry for client in self.clients for entry in client.acknowledged}
        unknown = {entry for client in self.clients for entry in client.unknown}
        faults = [fault for client in self.clients for fault in client.wrong]
        faults += [f"lost: {entry}" for entry in sure - found.keys()]
        faults += [f"there, though not acknowledged: {entry}" for entry in found.keys() - sure - unknown]
        faults += [f"there {count} times: {entry}" for entry, count in found.items() if count > 1]
        sums = f"""SELECT count(*) FROM accounts a WHERE balance <> {BALANCE}
            + coalesce((SELECT sum(amount) FROM entries e WHERE e.tenant = a.tenant AND e.credit = a.account), 0)
            - coalesce((SELECT sum(amount) FROM entries e WHERE e.tenant = a.tenant AND e.debit = a.account), 0)"""
        for shard in self.fleet.shards:
            if (wrong := self.fleet.on(shard, sums)) != "0":
                faults.append(f"{wrong} balances of {shard} are not those of their entries")
        total = self.fleet.sql("SELECT sum(balance), count(*) FROM accounts")
        if total != f"{WHOLE}|{TENANTS * ACCOUNTS}":
            faults.append(f"the accounts have {total}")
        return faults

    def report(self):
        """The figures."""
        counts = sum((client.counts for client in self.clients), collections.Counter())
        states = sum((client.states for client in self.clients), collections.Counter())
        every = max(counts.total(), 1)
        return {
            "statements": counts.total(),
            **{where: f"{counts[where] / every:.1%}" for where in ("routed", "hub", "refused")},
            "committed": sum(len(client.acknowledged) for client in self.clients),
            "unknown": sum(len(client.unknown) for client in self.clients),
            "errors": dict(states),
            **{
                f"longest {kind}": max(round(client.longest[kind], 2) for client in self.clients)
                for kind in ("routed", "hub")
            },
            "kills": dict(self.kills),
            "moves": [round(seconds, 1) for seconds in self.moves],
        }


@contextlib.contextmanager
def ledger(hub, shards, lease="5 seconds"):
    """A ledger on these servers."""
    with fleets.fleet(hub, shards, "ledger") as fleet:
        fleet.add_shards()
        fleet.sql(TABLES + f"SELECT howdah_shards.set_lease('{lease}')")
        with fleets.pooler(fleet, query_wait_timeout=30) as made:
            yield Ledger(fleet, made)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("--moves", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pg", type=int, default=18)
    options = parser.parse_args()
    with fleets.servers(options.pg) as (hub, shards), ledger(hub, shards) as made:
        made.run(options.minutes * 60, options.every, options.moves, options.seed)
        for name, figure in made.report().items():
            print(f"{name}: {figure}")
        faults = made.faults()
        print(*faults[:20], f"{len(faults)} faults", sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
