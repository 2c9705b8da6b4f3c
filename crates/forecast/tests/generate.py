"""Writes cases.json: series, and what statsforecast (pip install statsforecast==2.1.1) makes of them.

python crates/forecast/tests/generate.py
"""

import json
import pathlib
import warnings

import numpy as np
from statsforecast._lib import ets as kernels
from statsforecast.ets import ets_f, forecast_ets, switch
from statsforecast.mstl import mstl
from statsforecast.theta import auto_theta, forecast_theta
from statsforecast.utils import AirPassengers
from statsmodels.tsa.seasonal import seasonal_decompose

ADDITIVE = ["ANN", "AAN", "ANA", "AAA"]
FORMS = [*ADDITIVE, "MNN", "MAN", "MNA", "MAA", "MNM", "MAM", "MMN", "MMM"]
# Its variances of these depart from the formulas of Hyndman et al. (2008): MAA multiplies alpha by beta, and the means
# of models with a multiplicative season are not moved on.
OTHER_VARIANCES = {"MAA", "MNM", "MAM", "MMN", "MMM"}


def series():
    """Name, season and values of series like those of the M4 competition."""
    random = np.random.default_rng(20)

    def made(length, season, level, slope, swing, noise, drift=0.0):
        time = np.arange(length)
        pattern = random.normal(0, swing, season)[time % season]
        walk = np.cumsum(random.normal(0, drift, length))
        return np.round(level + slope * time + pattern + walk + random.normal(0, noise, length), 2)

    yield "air passengers", 12, AirPassengers
    yield "monthly", 12, made(120, 12, 900, 3, 80, 40, 10)
    yield "quarterly", 4, made(50, 4, 5000, -20, 400, 150, 60)
    yield "yearly", 1, made(30, 1, 3000, 60, 0, 120, 50)
    yield "daily with negative values", 7, made(140, 7, 2, 0.01, 4, 1, 0.3)
    yield "two seasons of few values", 12, made(27, 12, 300, 1, 40, 10)


def iterated(model, horizon):
    """Forecasts by its one step ahead, each taken as the next value: for damped trends forecast_ets itself counts the
    first step's damping twice from the second step on, so that it departs from its own recursion.
    """
    trend, season = (switch(letter) for letter in model["components"][1:3])
    alpha, beta, gamma, phi = np.nan_to_num(model["par"][:4])
    phi = phi if model["components"][3] == "D" else 1.0
    m = model["m"]
    state = model["states"][-1]
    rest = list(state[1:])
    level = state[0]
    slope = rest.pop(0) if model["components"][1] != "N" else 0.0
    seasonal = np.array(rest if rest else [0.0])
    mean = np.empty(horizon)
    for step in range(horizon):
        kernels.forecast(mean[step : step + 1], level, slope, seasonal, m, trend, season, phi, 1)
        new = seasonal.copy()
        level, slope = kernels.update(
            new, level, slope, level, slope, seasonal, m, trend, season, alpha, beta, gamma, phi, mean[step]
        )
        seasonal = new
    return mean


def ets(season, values):
    for form in FORMS:
        for damped in [False] if form[1] == "N" else [False, True]:
            if (season == 1 and form[2] != "N") or (min(values) <= 0 and "M" in form):
                continue
            fit = ets_f(values, season, model=form, damped=damped)
            if fit["fit"] is None:
                continue
            horizon = max(12, 2 * fit["m"] + 2)
            case = {
                "form": form,
                "damped": damped,
                "likelihood": -2 * fit["loglik"],
                "parameters": list(np.nan_to_num(fit["par"][:4])),
                "states": list(fit["states"][-1]),
                "sigma": float(np.sqrt(fit["sigma2"])),
                "mean": list(iterated(fit, horizon)),
                "sigmas": None,
            }
            if not damped:
                assert np.allclose(case["mean"], forecast_ets(fit, horizon)["mean"], rtol=1e-9)
            # Of relative errors they follow from the forecasts, see `iterated`.
            if form not in OTHER_VARIANCES and not (damped and form[0] == "M"):
                # A horizon of one season: it counts the seasons of the whole horizon at every step.
                within = forecast_ets(fit, min(12, season) if form[2] != "N" else 12, level=[68])
                case["sigmas"] = list((within["hi-68"] - within["mean"]) / 0.9944578832097535)
            yield case


def theta(season, values):
    for decomposition in ["multiplicative", "additive"]:
        for kind in ["STM", "OTM", "DSTM", "DOTM"]:
            fit = auto_theta(values, season, model=kind, decomposition_type=decomposition)
            used, seasonal = fit.get("decomposition_type", decomposition), []
            if fit.get("decompose"):
                seasonal = list(seasonal_decompose(values, model=used, period=season).seasonal[:season])
            elif decomposition == "additive":
                continue
            yield {
                "kind": kind,
                "asked": decomposition,
                "used": used,
                "seasonal": seasonal,
                "alpha": fit["par"]["alpha"],
                "theta": fit["par"]["theta"],
                "states": list(fit["states"][-1][:4]),
                "squares": fit["mse"],
                "mean": list(forecast_theta(fit, 2 * season + 3)["mean"]),
            }


def decomposed(seasons, values):
    found = mstl(np.asarray(values, float), seasons)
    names = ["seasonal"] if len(seasons) == 1 else [f"seasonal{season}" for season in seasons]
    rest = found["trend"] + found["remainder"]
    return {
        "seasons": seasons,
        "last": [list(found[name].values[-season:]) for name, season in zip(names, seasons, strict=True)],
        "trend": ets_f(rest.values, 1, model="ZZN")["method"],
    }


def hourly():
    random = np.random.default_rng(21)
    time = np.arange(400)
    day, week = random.normal(0, 20, 24), random.normal(0, 8, 168)
    walk = np.cumsum(random.normal(0, 1, 400))
    return np.round(500 + day[time % 24] + week[time % 168] + walk + random.normal(0, 5, 400), 1)


def cases():
    for name, season, values in series():
        values = np.asarray(values, float)
        chosen = ets_f(values, season)
        yield {
            "name": name,
            "season": season,
            "values": list(values),
            "ets": {"chosen": chosen["method"], "forms": list(ets(season, values))},
            "theta": {"chosen": auto_theta(values, season)["modeltype"], "models": list(theta(season, values))},
            "mstl": decomposed([season], values) if season > 1 else None,
        }
    yield {
        "name": "hourly",
        "season": 24,
        "values": list(hourly()),
        "ets": {"chosen": None, "forms": []},
        "theta": {"chosen": None, "models": list(theta(24, hourly()))},
        "mstl": decomposed([24, 168], hourly()),
    }


def short(value):
    if isinstance(value, dict):
        return {key: short(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [short(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.10g}")
    return value


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    lines = ",\n".join(json.dumps(short(case)) for case in cases())
    pathlib.Path(__file__).with_name("cases.json").write_text(f"[\n{lines}\n]\n")
