"""The server and the flights that the benches measure on."""

import contextlib

from devkit import say
from devkit.extension import build_into
from devkit.flights import DATABASE, FEATURES, fill
from devkit.postgres import NEWEST, tree
from devkit.server import Server

SETTINGS = {
    "shared_buffers": "1GB",
    "autovacuum": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}
ARRAY = f"ARRAY[{', '.join(FEATURES)}]"
SCALARS = ", ".join(FEATURES)


@contextlib.contextmanager
def server_with_flights(rows, settings=None):
    """A server of its own with the extension and so many flights; nothing else runs in it."""
    chosen = tree(NEWEST)
    build_into(chosen)
    # What a training is compared with fits once, on the same rows.
    with Server(chosen, {**SETTINGS, "pgml.refit": "off", **(settings or {})}) as server:
        fill(server, DATABASE, rows)
        yield server


def train(server, project, trees, **arguments):
    """Trains and deploys a model of the flights."""
    extra = "".join(f", {name} => {value}" for name, value in arguments.items())
    with say.timed(f"training {project}: {trees} trees"):
        server.psql(
            f"SET client_min_messages = warning; SELECT pgml.train('{project}', task => 'regression', "
            "relation_name => 'flights', y_column_name => 'depdelayminutes', algorithm => 'xgboost', "
            f"""hyperparams => '{{"n_estimators": {trees}}}'{extra})""",
            DATABASE,
        )
