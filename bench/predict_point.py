"""One prediction by primary key, against the same SELECT returning one column.

Both sides are prepared statements run by pgbench with random keys, with 1 and with 8 clients. What the prediction adds
to the backend's CPU is taken from the operating system's account of the backends that have ended (the postmaster's
cutime and cstime) over the transactions that they ran.
"""

import os
import re
import tempfile
from pathlib import Path

from bench.flights import ARRAY, DATABASE, SCALARS, server_with_flights, train
from bench.report import Report, Spread, interleave, ratios
from devkit import say

ROWS = 1_000_000
TREES = 100
# What is read, as the plot calls it.
SHOWN = {"column": "a column", "array": "pgml.predict, array", "scalars": "pgml.predict, scalars"}


def measure(quick):
    """The report: transactions a second of both sides, and the CPU that a prediction adds."""
    rounds, seconds = (3, 2) if quick else (7, 6)
    with server_with_flights(ROWS) as server, tempfile.TemporaryDirectory(prefix="howdah-bench-") as folder:
        report = Report("predict-point", quick, server)
        train(server, "flights", TREES)
        with say.timed("giving the flights a primary key"):
            server.psql(
                "CREATE TABLE keyed AS SELECT row_number() OVER () AS id, * FROM flights;"
                "ALTER TABLE keyed ADD PRIMARY KEY (id); VACUUM ANALYZE keyed; CHECKPOINT",
                DATABASE,
            )
        outputs = {
            "column": "depdelayminutes",
            "array": f"pgml.predict('flights', {ARRAY})",
            "scalars": f"pgml.predict('flights', {SCALARS})",
        }
        scripts = {
            name: script(Path(folder) / f"{name}.sql", f"SELECT {output} FROM keyed WHERE id = :id;")
            for name, output in outputs.items()
        }
        bars = {}
        for clients in (1, 8):
            say.note(f"{clients} client(s), transactions a second")
            cpu = {name: [] for name in scripts}
            sides = {
                name: lambda name=name, path=path, clients=clients, cpu=cpu: pgbench(
                    server, path, clients, seconds, cpu[name]
                )
                for name, path in scripts.items()
            }
            taken = interleave(sides, rounds)
            named = f"{clients} client{'s' if clients > 1 else ''}"
            for name in scripts:
                report.add(f"{name}, {named}", Spread.of(taken[name]), unit="transactions/s")
            bars[named] = [(SHOWN[name], Spread.of(taken[name])) for name in scripts]
            for name in ("array", "scalars"):
                of_column = ratios(taken[name], taken["column"])
                headline = (
                    f"queries with a prediction ÷ queries that read a column in its place, {named}, {TREES} trees"
                )
                report.add(
                    f"{name} / column, {named}",
                    of_column,
                    target=0.93,
                    headline=headline if name == "array" else None,
                )
                # The first entry is of the round that warms up.
                added = [a - b for a, b in zip(cpu[name][1:], cpu["column"][1:], strict=True)]
                report.add(
                    f"backend CPU that {name} adds, {named}",
                    Spread.of(added),
                    target=2.0,
                    at_most=True,
                    unit="us",
                )
        title = f"A row by its key: a column of it, or a prediction of {TREES} trees"
        report.plot("rates", title, "", "transactions a second", bars, kind="panels")
    return report


def script(path, statement):
    """A script for pgbench."""
    path.write_text(f"\\set id random(1, {ROWS})\n{statement}\n")
    return path


def pgbench(server, path, clients, seconds, cpu):
    """Transactions a second; the backends' CPU a transaction, in microseconds, is appended to `cpu`."""
    before = ended_children_seconds(server.pid)
    done = server.run(
        "pgbench",
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={clients}",
        f"--jobs={min(clients, 2)}",
        f"--time={seconds}",
        f"--file={path}",
        DATABASE,
    )
    # A backend ends when its client has gone: wait until the postmaster has taken note of all.
    server.psql("SELECT pg_sleep(0.2)", DATABASE)
    transactions = int(re.search(r"actually processed: (\d+)", done.stdout).group(1))
    cpu.append((ended_children_seconds(server.pid) - before) / transactions * 1e6)
    return float(re.search(r"tps = ([\d.]+)", done.stdout).group(1))


def ended_children_seconds(pid):
    """The CPU that the ended children of a process have used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
