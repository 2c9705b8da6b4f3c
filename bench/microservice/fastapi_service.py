"""The service that a user would write today: FastAPI on uvicorn with uvloop and httptools, and orjson.

`GET /KEY` gives the prediction for that key. `HOWDAH_BENCH_STORE` says where the features are: `postgresql`, read by
asyncpg from a pool (which prepares its statement), or `redis`, read by redis-py with hiredis and orjson.
`HOWDAH_BENCH_ENGINE` says what predicts: `onnx`, ONNX Runtime with one thread; or `xgboost`, the booster kept and
asked by inplace_predict with one thread.
"""

import contextlib
import os
from pathlib import Path

import numpy
import orjson
from fastapi import FastAPI, Response

# Each connection is of one request at a time: as many as there are clients of a worker, up to this.
CONNECTIONS = 20
MODEL = os.environ["HOWDAH_BENCH_MODEL"]
STATEMENT = os.environ.get("HOWDAH_BENCH_STATEMENT")


def onnx():
    """A function of one row of features that asks ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(Path(MODEL).with_suffix(".onnx")), options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name
    return lambda row: session.run(None, {name: row})[0].item()


def xgboost():
    """A function of one row of features that asks XGBoost."""
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(MODEL)
    booster.set_param({"nthread": 1})
    return lambda row: booster.inplace_predict(row, validate_features=False).item()


@contextlib.asynccontextmanager
async def postgresql():
    """A function of a key that reads its features from PostgreSQL."""
    import asyncpg

    dsn = os.environ["HOWDAH_BENCH_DSN"]
    async with asyncpg.create_pool(dsn, min_size=1, max_size=CONNECTIONS) as pool:

        async def features(key):
            return await pool.fetchrow(STATEMENT, key)

        yield features


@contextlib.asynccontextmanager
async def redis():
    """A function of a key that reads its features from Redis."""
    from redis.asyncio import BlockingConnectionPool, Redis

    host, port = os.environ["HOWDAH_BENCH_REDIS_HOST"], int(os.environ["HOWDAH_BENCH_REDIS_PORT"])
    pool = BlockingConnectionPool(host=host, port=port, max_connections=CONNECTIONS)
    async with Redis(connection_pool=pool) as client:

        async def features(key):
            return orjson.loads(await client.get(str(key)))

        yield features


@contextlib.asynccontextmanager
async def lifespan(service):
    """What a worker keeps as long as it lives: the model, and the connections to the store."""
    service.state.predict = {"onnx": onnx, "xgboost": xgboost}[os.environ["HOWDAH_BENCH_ENGINE"]]()
    store = {"postgresql": postgresql, "redis": redis}[os.environ["HOWDAH_BENCH_STORE"]]
    async with store() as service.state.features:
        yield


app = FastAPI(lifespan=lifespan, openapi_url=None)


@app.get("/{key}")
async def predict(key: int) -> Response:
    """The prediction for a key."""
    row = numpy.array([await app.state.features(key)], dtype=numpy.float32)
    return Response(orjson.dumps(app.state.predict(row)), media_type="application/json")
