"""One training in Python, in a process of its own so that its peak of memory is its own: see `train_memory`."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy
import xgboost

TARGET = "depdelayminutes"


def by_pandas(_url, copy):
    """The table by COPY into pandas.read_csv, as float32 so that it takes the least room."""
    import pandas

    yield
    with subprocess.Popen(copy, stdout=subprocess.PIPE) as psql:
        frame = pandas.read_csv(psql.stdout, dtype=numpy.float32)
    labels = frame.pop(TARGET)
    yield frame, labels


def by_adbc(url, _copy):
    """The table by ADBC into an Arrow table."""
    import adbc_driver_postgresql.dbapi

    yield
    with adbc_driver_postgresql.dbapi.connect(url) as client, client.cursor() as cursor:
        cursor.execute("SELECT * FROM flights")
        table = cursor.fetch_arrow_table()
    yield table.drop_columns([TARGET]), table.column(TARGET).to_numpy()


def by_csv(_url, path):
    """The table from a CSV file by pandas.read_csv as it comes, as published: its columns are float64."""
    import pandas

    yield
    frame = pandas.read_csv(path)
    labels = frame.pop(TARGET)
    yield frame, labels


def main():
    """Trains once and prints what it took as JSON."""
    way, url, trees, threads, copy = sys.argv[1:]
    read = {"pandas": by_pandas, "adbc": by_adbc, "csv": by_csv}[way](url, json.loads(copy))
    next(read)  # its imports, which do not count
    start = time.perf_counter()
    features, labels = next(read)
    threads = int(threads)
    if way == "csv":
        # The published service's training: scikit-learn's interface, which makes what matrix it likes.
        xgboost.XGBRegressor(n_estimators=int(trees), n_jobs=threads).fit(features, labels)
    else:
        matrix = xgboost.QuantileDMatrix(features, labels, nthread=threads)
        xgboost.train({"nthread": threads}, matrix, int(trees))
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    print(json.dumps({"seconds": seconds, "peak_mb": peak / 1024}))


if __name__ == "__main__":
    main()
