"""`make demo`: a model of a million flights trained and asked inside PostgreSQL, and on its streaming replica."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

from demo import tour
from devkit import Problem, say
from devkit.extension import build_into
from devkit.flights import DATABASE, fill
from devkit.postgres import NEWEST, tree
from devkit.server import Server, environment

PREDICT = Path(__file__).parent / "predict.sql"
SECONDS = 4
CLIENTS = 8
SETTINGS = {"shared_buffers": "256MB", "max_parallel_workers_per_gather": "2"}
SAMPLE = """SELECT depdelayminutes, pgml.predict('flights', flights) AS predicted
FROM flights
ORDER BY originairportid, year, month, dayofmonth, departure, flight_number_marketing_airline
LIMIT 4;"""
SECOND = """SELECT * FROM pgml.train(
    'flights',
    algorithm   => 'xgboost',
    hyperparams => '{"n_estimators": 60, "max_depth": 8}'
);"""


def demo():
    """All of it, on a server of its own that ends with it."""
    chosen = tree(NEWEST)
    build_into(chosen)
    with say.timed(f"starting PostgreSQL {chosen.major}, with a port and folders of its own"):
        primary = Server(chosen, SETTINGS)
    with primary:
        fill(primary)
        say.step("the table, and a model trained from it")
        for said, sql in tour.statements():
            tell(said)
            show(primary, sql)
        measure(primary, "primary")
        follow(primary)
    say.step("that was it; the server is gone. `make up` leaves one running, with the flights in it, to go on by hand")


def follow(primary):
    """A replica started beside the primary predicts the same, before and after a second deployment."""
    with say.timed("starting a streaming replica (pg_basebackup)"):
        replica = primary.replica()
    with replica, Conversation(replica) as open_connection:
        tell("The primary says:")
        first = show(primary, SAMPLE)
        primary.wait_for_replay(replica)
        tell("and the replica, which compiled the model for itself from its replicated tables:")
        agree(first, show(replica, SAMPLE, open_connection))
        measure(replica, "replica")
        tell("Train a second model on the primary. It is deployed if it is better:")
        show(primary, SECOND)
        second = show(primary, SAMPLE)
        if second == first:
            raise Problem("the second model predicts what the first did: it was not deployed")
        primary.wait_for_replay(replica)
        tell("The replica follows, in the connection that was open all the while:")
        agree(second, show(replica, SAMPLE, open_connection))
        tell("And back, in one statement:")
        show(primary, "SELECT * FROM pgml.deploy('flights', strategy => 'rollback');")
        primary.wait_for_replay(replica)
        agree(first, show(replica, SAMPLE, open_connection))


class Conversation:
    """One connection by psql that stays open, as an application's would."""

    def __init__(self, server):
        self._psql = subprocess.Popen(
            server.psql_command(DATABASE, "-q", "-v", "ON_ERROR_STOP=1", "--pset=footer=off"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        # The server may have ended first.
        with contextlib.suppress(BrokenPipeError):
            self._psql.stdin.close()
        self._psql.wait()
        self._psql.stdout.close()

    def ask(self, sql):
        """What the connection answers to `sql`."""
        end = "-- end of the answer --"
        self._psql.stdin.write(f"{sql}\n\\echo '{end}'\n")
        self._psql.stdin.flush()
        lines = []
        for line in self._psql.stdout:
            if line.strip() == end:
                return "\n".join(line for line in lines if line)
            lines.append(line.rstrip())
        raise Problem("the connection ended:\n" + "\n".join(lines))


def tell(text):
    """Says what comes next."""
    print(f"\n{text}", flush=True)


def bold(text):
    """`text` in bold where a person watches."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def show(server, sql, connection=None):
    """Prints `sql`, runs it, prints the answer as it comes, and gives it."""
    print(f"\n{bold(sql)}\n", flush=True)
    if connection is None:
        return tour.run(server, DATABASE, sql, lambda line: print(line, flush=True))
    answer = connection.ask(sql)
    print(answer, flush=True)
    return answer


def agree(expected, answer):
    """Raises unless the replica answered what the primary did, to the last bit that PostgreSQL prints."""
    if answer != expected:
        raise Problem(f"the replica answers something else than the primary:\n{answer}\nwhere it should be\n{expected}")
    tell("    (the same, to the last digit)")


def measure(server, name):
    """Says how many predictions a second one table lookup each makes, by pgbench."""
    statement = PREDICT.read_text().strip().splitlines()[-1]
    tell(f"Predictions a second on the {name}, {CLIENTS} clients, each a flight at a time (demo/predict.sql):")
    print(f"\n{bold(statement)}\n", flush=True)
    done = server.run(
        "pgbench",
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={CLIENTS}",
        "--jobs=2",
        f"--time={SECONDS}",
        f"--file={PREDICT}",
        DATABASE,
    )
    rate = float(re.search(r"tps = ([\d.]+)", done.stdout).group(1))
    latency = re.search(r"latency average = ([\d.]+ \w+)", done.stdout).group(1)
    print(f"{rate:,.0f} predictions a second, {latency} each as a client sees it", flush=True)
    return rate
