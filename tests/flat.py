"""The memory of one connection over predictions and failures without end.

By hand, a million predictions of every kind together and a thousand failures:

    PYTHONPATH=tools:. build/venv/bin/python -m tests.flat --predictions 1000000 --failures 1000
"""

import argparse
import itertools
import sys

import pg8000.dbapi

from devkit import postgres
from devkit.server import Server, end_on_signals
from tests.hostile import OWNER, arena, train

ROWS = 1000
# A statement each, of a thousand predictions or explanations.
PREDICTIONS = [
    "SELECT sum(pgml.predict('line', ARRAY[i])) FROM generate_series(1, 1000) i",
    "SELECT sum(pgml.predict('line', i)) FROM generate_series(1, 1000) i",
    "SELECT sum(pgml.predict(2, ARRAY[i::real])) FROM generate_series(1, 1000) i",
    "SELECT sum(pgml.predict('soils', s)) FROM hostile.soils s, generate_series(1, 10)",
    "SELECT max(pgml.predict_label('soils', s)) FROM hostile.soils s, generate_series(1, 10)",
    "SELECT max(pgml.predict_proba('soils', soil, rain, wet)) FROM hostile.soils s, generate_series(1, 10)",
    "SELECT count(*) FROM pgml.predict_batch('line', array_fill(1::real, ARRAY[1000]))",
    "SELECT array_length(pgml.predict_agg('line', i), 1) FROM generate_series(1, 1000) i",
    "SELECT sum(contribution) FROM generate_series(1, 1000) i, pgml.explain('line', ARRAY[i])",
    "SELECT array_length(pgml.explain_batch('line', array_fill(1::real, ARRAY[1000])), 1)",
]
FAILURES = [
    "SELECT pgml.predict('nothing', ARRAY[1])",
    "SELECT pgml.predict('line', ARRAY[1, 2])",
    "SELECT pgml.predict('line', 'x'::text) FROM generate_series(1, 3)",
    "SELECT pgml.predict(99, 1)",
    "SELECT pgml.predict('line', 1, 1 / (i - 3)) FROM generate_series(1, 3) i",
    "SELECT pgml.predict('soils', (SELECT l FROM hostile.line l LIMIT 1))",
    "SELECT pgml.predict_batch('soils', '{1,2,3}')",
    "SELECT pgml.explain('soils', ARRAY[1, 2])",
    "SELECT pgml.predict_agg('line', i, 1 / (i - 3)) FROM generate_series(1, 9) i",
    "SELECT pgml.predict(repeat('n', 100000), 1)",
    "SELECT pgml.deploy('line', 'new_score')",
    "SELECT pgml.grant('line', 'nobody at all', 'all')",
    "SELECT " + train('{"max_dept": 1}'),
    "SELECT " + train('{"objective": "reg:gamma"}', data="(SELECT i AS x, -i AS y FROM generate_series(1, 9) i)"),
    "SELECT " + train('{"n_estimators": 2}', data="(SELECT 1 AS x, 1 / (i - 5) AS y FROM generate_series(1, 9) i)"),
    "SELECT " + train('{"n_estimators": 2}', data="(SELECT i AS x, NULL::int AS y FROM generate_series(1, 9) i)"),
]


class Flat:
    """A connection whose memory is looked at."""

    def __init__(self, place):
        self.caller = next(caller for caller in place.callers if caller.role == OWNER)
        self.cursor = self.caller.cursor
        self.cursor.execute("SET statement_timeout = 0")

    def predict(self, predictions):
        """So many predictions, a thousand a statement."""
        for statement in itertools.islice(itertools.cycle(PREDICTIONS), predictions // ROWS):
            self.cursor.execute(statement)
            (answer,) = self.cursor.fetchone()
            assert answer is not None, statement

    def fail(self, failures):
        """So many calls that fail."""
        for statement in itertools.islice(itertools.cycle(FAILURES), failures):
            try:
                self.cursor.execute(statement)
            except pg8000.dbapi.DatabaseError:
                continue
            raise AssertionError(f"{statement} did not fail")

    def memory(self):
        """Bytes of its own."""
        return self.caller.memory()


def grown(place, predictions, failures):
    """What a connection has after some of each, and how many bytes more after so many predictions and failures.

    Each is compared with what it was after some of the same kind: a training gives memory back when it has ended.
    """
    flat = Flat(place)
    flat.predict(len(PREDICTIONS) * ROWS * 2)
    flat.fail(len(FAILURES) * 2)
    flat.predict(len(PREDICTIONS) * ROWS * 2)
    first = flat.memory()
    flat.predict(predictions)
    predicted = flat.memory() - first
    flat.fail(len(FAILURES) * 2)
    before = flat.memory()
    flat.fail(failures)
    return first, predicted, flat.memory() - before


def main():
    """`python -m tests.flat`"""
    parser = argparse.ArgumentParser(prog="tests.flat", description=__doc__.splitlines()[0])
    parser.add_argument("--pg", type=int, default=postgres.NEWEST)
    parser.add_argument("--predictions", type=int, default=1_000_000)
    parser.add_argument("--failures", type=int, default=1000)
    chosen = parser.parse_args()
    end_on_signals()
    with Server(postgres.tree(chosen.pg)) as server, arena(server) as place:
        first, predictions, failures = grown(place, chosen.predictions, chosen.failures)
    print(f"private memory {first / 1e6:.2f} MB; {predictions / 1e3:+.0f} kB after {chosen.predictions} predictions, "
          f"{failures / 1e3:+.0f} kB after {chosen.failures} failures")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
