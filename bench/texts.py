"""Embeddings of texts in SQL by all-MiniLM-L6-v2: a first call in a new connection, sentences alone and in an array.

The sentences are of the guides in docs/guide/. Nothing stands beside it: sentence-transformers needs torch, which
brings gigabytes. docs/design/texts.md has one comparison that was made by hand.
"""

import re
import statistics
import time

from bench.flights import SETTINGS
from bench.report import Report, Spread
from devkit.client import connection
from devkit.extension import build_into
from devkit.places import ROOT
from devkit.postgres import NEWEST, tree
from devkit.server import Server
from devkit.setup import minilm

DATABASE = "texts"
# Words of a sentence, and how many sentences there are.
WORDS = (12, 18)
SENTENCES, QUICK_SENTENCES = 300, 50
CONNECTIONS, QUICK_CONNECTIONS = 10, 2


def measure(quick):
    """The report: milliseconds of each form of a call."""
    chosen = tree(NEWEST)
    build_into(chosen)
    with Server(chosen, SETTINGS) as server:
        server.psql(f"CREATE DATABASE {DATABASE}")
        server.psql("CREATE EXTENSION pgml", DATABASE)
        server.psql(f"SELECT pgml.load_transformer('minilm', '{minilm()}')", DATABASE)
        # The first use of all makes the image that connections share.
        server.psql("SELECT pgml.embed('minilm', 'a text')", DATABASE)
        report = Report("texts", quick, server)
        firsts = [first(server) for _ in range(QUICK_CONNECTIONS if quick else CONNECTIONS)]
        report.add(
            "first call in a new connection", Spread.of(firsts), unit="ms", target=50, at_most=True,
            headline="milliseconds of the first embedding in a new connection",
        )  # fmt: skip
        texts = sentences()[: QUICK_SENTENCES if quick else SENTENCES]
        with connection(server, DATABASE) as client:
            cursor = client.cursor()
            alone = [took(cursor, "SELECT pgml.embed('minilm', %s)", text) for text in texts]
            together = took(cursor, "SELECT count(*) FROM pgml.embed('minilm', %s::text[])", texts) / len(texts)
        report.add(
            f"a sentence of {WORDS[0]} to {WORDS[1]} words, alone: median", Spread.of([statistics.median(alone)]),
            unit="ms", target=10, at_most=True, headline="milliseconds of the embedding of a sentence, on one core",
        )  # fmt: skip
        report.add("the same in an array", Spread.of([together]), unit="ms")
        bars = {
            "milliseconds": [
                ("first call", statistics.median(firsts)),
                ("a sentence alone", statistics.median(alone)),
                ("in an array", together),
            ]
        }
        report.plot("times", "Embeddings by all-MiniLM-L6-v2", "", "ms", bars, kind="panels")
    return report


def first(server):
    """Milliseconds of the first embedding of a connection."""
    with connection(server, DATABASE) as client:
        return took(client.cursor(), "SELECT pgml.embed('minilm', %s)", "a first sentence")


def took(cursor, statement, argument):
    """Milliseconds of a statement, with its answer."""
    begun = time.perf_counter()
    cursor.execute(statement, (argument,))
    cursor.fetchall()
    return 1000 * (time.perf_counter() - begun)


def sentences():
    """Sentences of the guides, in a fixed order."""
    text = " ".join(page.read_text() for page in sorted((ROOT / "docs" / "guide").glob("*.md")))
    found = re.split(r"(?<=[.:?])\s+", re.sub(r"```.*?```", " ", text, flags=re.DOTALL))
    return [one for one in found if WORDS[0] <= len(one.split()) <= WORDS[1] and "|" not in one]
