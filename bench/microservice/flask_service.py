"""The service of the published benchmark: Flask under Gunicorn, features in Redis, XGBoost's scikit-learn class.

`POST /` with a key gives the prediction for that key. The features lie under it in Redis as one list, serialised as
`HOWDAH_BENCH_FORMAT` says (json as published; orjson, msgpack), and so are body and answer.

Kinder than the published one: the features are a plain value, not the head of a list; redis-py finds hiredis here and
uses it; and XGBoost is told to use one thread for its one row (published: OMP_NUM_THREADS=2, which is slower here).
"""

import json
import os

import xgboost
from bench.microservice.formats import FORMATS
from flask import Flask, Response, jsonify, request
from redis import Redis

NAME = os.environ["HOWDAH_BENCH_FORMAT"]
FORMAT = FORMATS[NAME]

app = Flask(__name__)
model = xgboost.XGBRegressor(n_jobs=1)
model.load_model(os.environ["HOWDAH_BENCH_MODEL"])
model.set_params(n_jobs=1)
redis = Redis(host=os.environ["HOWDAH_BENCH_REDIS_HOST"], port=int(os.environ["HOWDAH_BENCH_REDIS_PORT"]), db=0)


@app.route("/", methods=["POST"])
def predict():
    """The prediction for the key in the body."""
    if NAME == "json":
        key = request.json
        features = json.loads(redis.get(str(key)))
        return jsonify(model.predict([features])[0].tolist())
    key = FORMAT.loads(request.get_data())
    features = FORMAT.loads(redis.get(str(key)))
    return Response(FORMAT.dumps(model.predict([features])[0].tolist()), content_type=FORMAT.kind)
