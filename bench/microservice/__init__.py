"""Predictions by key from Python services, and from the database itself.

The same model (25 trees of XGBoost, trained by pgml and handed to the services as it is stored) and the same flights
are behind every side; a client asks for the prediction of one flight by its key. Before anything is timed, every side
must give the database's predictions for a sample of keys.

- Flask + Redis: the published service: Flask under Gunicorn, 5 workers of 2 threads, features as JSON in Redis, driven
  by ab with keep-alive, which asks for one key again and again (`flask_service.py`, `gunicorn.conf.py`).
- FastAPI + PostgreSQL, FastAPI + Redis: what a user would write today (`fastapi_service.py`), driven by wrk, which asks
  for random keys (`request.lua`). Of 1, 2 and 4 workers, and of ONNX Runtime and XGBoost, the fastest is taken.
- PostgreSQL, PgBouncer, howdah-pooler: pgml in one statement (`prediction.sql`), driven by pgbench with random keys;
  settings in `pgbouncer.ini` and `howdah.toml`, and of the server here. howdah-pooler is there as it is by default
  and, beside that, with `busy_poll`.

Load generators share the cores with the servers, on all sides; all three are in C. CPU is that of all processes that
serve: workers, stores, the server with its backends, the pooler. Memory is the PSS of the same, and the page cache of
the table and its index where the server is among them; a Flask whose workers were forked off after the model was
loaded (Gunicorn's --preload, not as published) is there for its memory alone.

Over a network (`remote.py`, `network.py`), client, service and store are in three network namespaces, 0.25 ms from
each other. PostgreSQL, Redis and the poolers are in the store's: what asks the database crosses the network once, what
asks a service twice, the second time for the features. That is the difference between the two designs, and part of what
is measured; howdah-pooler is there once more where the services are, "a hop away", so that one sees how much of it.

Not the same on all sides, and why: Flask is asked for one key only, since ab can send no other, which helps it;
PgBouncer before 1.21 has no prepared statements, so that it is asked by the extended protocol; `shared_buffers` is
small (16 MB), as the page cache holds the table anyway, for FastAPI with PostgreSQL as for ours. Latencies of pgbench
are of a twentieth of its transactions, those of ab and wrk of all.
"""


def measure(quick):
    """The report."""
    # Only a bench has the packages of the services.
    from bench.microservice import comparison

    return comparison.measure(quick)
