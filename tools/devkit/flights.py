"""The flights of demo, fleet and benches: a million made by `flights.sql`, or the real ones of CSV files."""

import contextlib
import csv
import io
import os
import subprocess
import zipfile
from pathlib import Path

from devkit import Problem, say
from devkit.server import environment

# Not "howdah": that is the name of a pooler's console.
DATABASE = "app"
ROWS = 1_000_000
SCRIPT = Path(__file__).parent / "flights.sql"
# Each column of the table, and its name in the on-time data of the US Department of Transportation.
COLUMNS = {
    "depdelayminutes": "DepDelayMinutes",
    "year": "Year",
    "quarter": "Quarter",
    "month": "Month",
    "distance": "Distance",
    "dayofweek": "DayOfWeek",
    "dayofmonth": "DayofMonth",
    "flight_number_operating_airline": "Flight_Number_Operating_Airline",
    "originairportid": "OriginAirportID",
    "destairportid": "DestAirportID",
    "flight_number_marketing_airline": "Flight_Number_Marketing_Airline",
    "departure": "CRSDepTime",
}
FEATURES = [column for column in COLUMNS if column != "depdelayminutes"]


def fill(server, database=DATABASE, rows=ROWS):
    """Makes the database with the extension and the flights in it, unless it is there already."""
    if server.psql(f"SELECT count(*) FROM pg_database WHERE datname = '{database}'") == "0":
        server.psql(f"CREATE DATABASE {database}")
    server.psql("SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS pgml", database)
    if server.psql("SELECT to_regclass('flights') IS NULL", database) == "f":
        return
    given = os.environ.get("HOWDAH_FLIGHTS_CSV")
    try:
        if given:
            load(server, database, given)
        else:
            with say.timed(f"making {rows:,} flights (tools/devkit/flights.sql)"):
                generate(server, database, rows)
    except BaseException:
        # Half a table would pass for the whole the next time.
        server.psql("DROP TABLE IF EXISTS flights", database)
        raise
    server.psql("VACUUM ANALYZE flights", database)


def generate(server, database, rows):
    """Makes the table `flights` with so many rows."""
    options = ["--no-psqlrc", "--quiet", "--single-transaction", "-v", "ON_ERROR_STOP=1", "-v", f"rows={rows}"]
    server.run("psql", *options, "-f", str(SCRIPT), database)


def load(server, database, path):
    """Makes the table `flights` from the on-time data at `path`: a CSV file, a zip of such, or a folder of either."""
    generate(server, database, 0)
    kept, dropped = 0, 0
    command = server.psql_command(database, "-q", "-v", "ON_ERROR_STOP=1")
    command += ["-c", f"COPY flights ({', '.join(COLUMNS)}) FROM STDIN (FORMAT csv)"]
    with say.timed(f"loading flights from {path}"):
        psql = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment(), text=True)
        try:
            writer = csv.writer(psql.stdin)
            for name, lines in texts(Path(path)):
                for values in rows_of(name, lines):
                    # A cancelled flight has no delay to learn from.
                    if "" in values:
                        dropped += 1
                    else:
                        writer.writerow(values)
                        kept += 1
            psql.stdin.flush()
        except BrokenPipeError:
            pass
        except BaseException:
            psql.kill()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                psql.stdin.close()
            psql.wait()
    if psql.returncode != 0:
        raise Problem(f"the flights of {path} could not be copied in (psql's message is above)")
    if kept == 0:
        raise Problem(f"{path} has no flight with all of {', '.join(COLUMNS.values())}")
    say.note(f"{kept:,} flights; {dropped:,} that never left, or lack a value, were left out")


def texts(path):
    """The CSV files at `path` as pairs of a name and an open text."""
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix.lower() in (".csv", ".zip"))
        if not found:
            raise Problem(f"{path} holds no .csv and no .zip file")
        for file in found:
            yield from texts(file)
    elif not path.exists():
        raise Problem(f"HOWDAH_FLIGHTS_CSV says {path}, which is not there")
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(name for name in archive.namelist() if name.lower().endswith(".csv")):
                with archive.open(name) as raw:
                    yield f"{path}:{name}", io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="")
    else:
        with open(path, encoding="utf-8", errors="replace", newline="") as text:
            yield str(path), text


def rows_of(name, lines):
    """The values of our columns, row by row, from one CSV file with a header."""
    reader = csv.reader(lines)
    header = [title.strip().lower() for title in next(reader, [])]
    try:
        places = [header.index(title.lower()) for title in COLUMNS.values()]
    except ValueError as error:
        raise Problem(f"{name} lacks a column of the on-time data: {error}") from error
    for row in reader:
        yield [row[place].strip() if place < len(row) else "" for place in places]
