"""Data frames to the server and back: through the pooler they are what they are without it."""

import csv
import datetime
import decimal
import io
import uuid

import numpy
import pandas
import pytest
import sqlalchemy
from pandas.testing import assert_frame_equal

from tests.world.tools import two_ways

ROWS = 3000


def frame():
    """A frame with columns of the kinds that people have, and holes in them."""
    random = numpy.random.default_rng(7)
    numbers = numpy.arange(ROWS)
    return pandas.DataFrame(
        {
            "id": numbers,
            "small": numbers.astype("int16"),
            "real": random.normal(size=ROWS),
            "holes": numpy.where(numbers % 7 == 0, numpy.nan, random.normal(size=ROWS)),
            "maybe": pandas.array([None if n % 5 == 0 else n for n in range(ROWS)], dtype="Int64"),
            "yes": numbers % 3 == 0,
            "text": [None if n % 11 == 0 else f"x{n} ünïcode '\"\\ \t" for n in range(ROWS)],
            "at": pandas.Timestamp("2026-03-29 00:30") + pandas.to_timedelta(numbers, unit="min"),
            "there": pandas.Timestamp("2026-03-29 00:30", tz="Europe/Berlin") + pandas.to_timedelta(numbers, unit="h"),
            "day": [datetime.date(2026, 1, 1) + datetime.timedelta(days=n) for n in range(ROWS)],
            "money": [decimal.Decimal(n) / 8 for n in range(ROWS)],
            "kind": pandas.Categorical.from_codes(numbers % 3, ["a", "b", "c"]),
            "key": [uuid.UUID(int=n) for n in range(ROWS)],
        }
    ).set_index("id")


def by_copy(table, connection, keys, rows):
    """The way of writing that pandas' guide shows for PostgreSQL, by psycopg's COPY."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    names = ", ".join(f'"{key}"' for key in keys)
    with connection.connection.cursor() as cursor, cursor.copy(f"COPY {table.name} ({names}) FROM STDIN CSV") as copy:
        copy.write(text.getvalue())


def there_and_back(url, method):
    """What comes back of the frame in several ways of reading."""
    engine = sqlalchemy.create_engine(url.replace("postgres://", "postgresql+psycopg://"), pool_size=2)
    sent = frame()
    with engine.begin() as connection:
        sent.head(ROWS // 2).to_sql("frame", connection, method=method, chunksize=400, dtype={"day": sqlalchemy.Date})
    sent.tail(ROWS - ROWS // 2).to_sql("frame", engine, if_exists="append", method=method, chunksize=400)
    whole = pandas.read_sql_table("frame", engine, index_col="id").sort_index()
    streamed = engine.connect().execution_options(stream_results=True)
    with streamed:
        parts = list(pandas.read_sql(sqlalchemy.text("SELECT * FROM frame ORDER BY id"), streamed, chunksize=700))
    chosen = pandas.read_sql_query(
        sqlalchemy.text("SELECT kind, sum(real), count(maybe) FROM frame WHERE at > :at GROUP BY kind ORDER BY kind"),
        engine,
        params={"at": datetime.datetime(2026, 3, 30)},
    )
    typed = pandas.read_sql("SELECT * FROM frame ORDER BY id", engine, dtype_backend="numpy_nullable")
    # Replaced as a whole, while the statements that read it are prepared.
    sent.head(10).to_sql("frame", engine, if_exists="replace", method=method)
    again = pandas.read_sql_table("frame", engine, index_col="id").sort_index()
    engine.dispose()
    return [whole, *parts, chosen, typed, again]


@pytest.mark.parametrize("method", [None, "multi", by_copy], ids=["rows", "multi", "copy"])
def test_frames_come_back_as_without_a_pooler(server, method):
    with two_ways(server) as urls:
        got = {way: there_and_back(url, method) for way, url in urls.items()}
    direct, pooled = got["direct"], got["pooled"]
    assert len(direct) == len(pooled) == 9
    for one, other in zip(direct, pooled, strict=True):
        assert len(one) > 0
        assert_frame_equal(other, one)
    assert len(direct[0]) == ROWS and direct[0]["holes"].isna().sum() == frame()["holes"].isna().sum()
