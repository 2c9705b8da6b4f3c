"""Predictions by key from Python services, and from the database itself.

The same model (25 trees of XGBoost, trained by pgml and handed to the services as it is stored) and the same flights
are behind every side; a client asks for the prediction of one flight by its key. Before anything is timed, every side
must give the database's predictions for a sample of keys.

- Flask + Redis: the published service: Flask under Gunicorn, 5 workers of 2 threads, features as JSON in Redis, driven
  by ab with keep-alive, which asks for one key again and again (`flask_service.py`, `gunicorn.conf.py`).
- FastAPI + PostgreSQL, FastAPI + Redis: what a user would write today (`fastapi_service.py`), driven by wrk, which asks
  for random keys (`request.lua`). Of 1, 2 and 4 workers, and of ONNX Runtime and XGBoost, the fastest is taken.
- PostgreSQL, PgBouncer, howdah-pooler: pgml in one statement (`prediction.sql`), driven by pgbench with random keys;
  settings in `pgbouncer.ini` and `howdah.toml`, and of the server here.

Load generators share the cores with the servers, on all sides; all three are in C. CPU is that of all processes that
serve: workers, stores, the server with its backends, the pooler. Memory is the PSS of the same, and the page cache of
the table and its index where the server is among them; a Flask whose workers were forked off after the model was
loaded (Gunicorn's --preload, not as published) is there for its memory alone.

Over a network (`remote.py`, `network.py`), client, service and store are in three network namespaces, 0.25 ms from
each other.
"""


def measure(quick):
    """The report."""
    # Only a bench has the packages of the services.
    from bench.microservice import comparison

    return comparison.measure(quick)
