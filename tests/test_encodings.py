"""Databases whose encoding is not UTF8: texts beyond ASCII are refused, and nothing else is."""

import pytest

from devkit import Problem
from tests.conftest import Database

# e with an acute accent, which is one byte in LATIN1, no character in UTF-8, and one that would begin a character of four.
TEXTS = ["chr(233)", "'abc' || chr(240)"]


@pytest.fixture(params=["LATIN1", "SQL_ASCII"])
def other(request, server):
    """A database in another encoding, with a model of texts."""
    name = f"in_{request.param.lower()}"
    server.psql(f"CREATE DATABASE {name} ENCODING {request.param} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    try:
        database = Database(server, name)
        database.sql("""
            CREATE EXTENSION pgml;
            CREATE TABLE t AS SELECT i AS a, 'g' || i % 3 AS g, i * 2 AS y FROM generate_series(1, 90) i""")
        yield database
    finally:
        server.psql(f"DROP DATABASE {name} WITH (FORCE)")


def test_ascii_is_taken_everywhere_and_other_bytes_are_refused(other):
    trained = other.sql("SELECT algorithm FROM pgml.train('t', 'regression', 't', 'y', 'ridge')")
    assert trained == "ridge"
    other.sql("SELECT pgml.describe(max(id), 'a text', ARRAY['one', 'two']) FROM pgml.models")
    assert other.sql("SELECT tags FROM pgml.models") == "{one,two}"
    for text in TEXTS:
        for call in [f"pgml.describe(1, {text})", f"pgml.describe(1, tags => ARRAY['x', {text}])",
                     f"pgml.chunk('character', {text})", f"pgml.train_joint('j', 'regression', 't', ARRAY['y', {text}])"]:  # fmt: skip
            with pytest.raises(Problem, match="beyond ASCII, and the encoding of the database is not UTF8"):
                other.sql(f"SELECT {call}")
    assert other.sql("SELECT count(pgml.predict('t', t)) FROM t") == "90"
