"""What statsforecast makes of series: asked in lines of JSON on the standard input, told in lines of the output.

It runs in a virtual environment of its own, since statsforecast needs an older pandas than the other benches.
"""

import json
import sys
import time

import pandas
from statsforecast import StatsForecast, models

METHODS = {
    "ets": lambda seasons: models.AutoETS(season_length=seasons[0]),
    "theta": lambda seasons: models.AutoTheta(season_length=seasons[0]),
    "arima": lambda seasons: models.AutoARIMA(season_length=seasons[0]),
    "mstl": lambda seasons: models.MSTL(season_length=seasons),
}
# The steps are numbered.
FREQUENCY = 1


def answer(asked):
    """Forecasts by series, as lists of mean, lower and upper bound, and the seconds of all fits and forecasts."""
    method = METHODS[asked["method"]]
    frame = pandas.concat(
        pandas.DataFrame({"unique_id": name, "ds": range(len(values)), "y": values})
        for name, values in asked["series"].items()
    ).reset_index(drop=True)
    frame["y"] = frame["y"].astype(float)

    def forecast(rows):
        model = method(asked["seasons"])
        model.alias = "it"
        engine = StatsForecast(models=[model], freq=FREQUENCY, n_jobs=asked["threads"])
        return engine.forecast(df=rows, h=asked["horizon"], level=[90])

    # What is loaded or compiled at first use counts for nobody.
    few = list(asked["series"])[: asked["threads"]]
    forecast(frame[frame["unique_id"].isin(few)])
    start = time.perf_counter()
    found = forecast(frame)
    seconds = time.perf_counter() - start
    by_series = {
        name: rows[["it", "it-lo-90", "it-hi-90"]].to_numpy().tolist() for name, rows in found.groupby("unique_id")
    }
    return {"seconds": seconds, "forecasts": by_series}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
