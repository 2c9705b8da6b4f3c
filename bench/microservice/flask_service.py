"""The service of the published benchmark: Flask under Gunicorn, features in Redis, XGBoost's scikit-learn class.

`POST /` with a key as JSON gives the prediction for it. The features lie under the key in Redis as one JSON list.
`POST /orjson` and `POST /msgpack` do the same with another serialiser for request, features and answer; their features
lie under keys that start with its name.

Kinder than the published one: the features are a plain value, not the head of a list; redis-py finds hiredis here and
uses it; and XGBoost is told to use one thread for its one row (published: OMP_NUM_THREADS=2, which is slower here).
"""

import json
import os

import xgboost
from flask import Flask, Response, jsonify, request
from redis import Redis

from bench.microservice.formats import FORMATS

app = Flask(__name__)
model = xgboost.XGBRegressor(n_jobs=1)
model.load_model(os.environ["HOWDAH_BENCH_MODEL"])
model.set_params(n_jobs=1)
redis = Redis(host=os.environ["HOWDAH_BENCH_REDIS_HOST"], port=int(os.environ["HOWDAH_BENCH_REDIS_PORT"]), db=0)


@app.route("/", methods=["POST"])
def predict():
    """The prediction for the key in the body."""
    features = json.loads(redis.get(str(request.json)))
    return jsonify(model.predict([features])[0].tolist())


@app.route("/<form>", methods=["POST"])
def predict_by(form):
    """The prediction for the key in the body, all serialised in this form."""
    chosen = FORMATS[form]
    key = chosen.loads(request.get_data())
    features = chosen.loads(redis.get(f"{form}:{key}"))
    return Response(chosen.dumps(model.predict([features])[0].tolist()), content_type=chosen.kind)
