"""Makes cases.json: what statsforecast 2.1.1 says of series by ARIMA, and which orders it chooses.

Run it by a Python that has this version: python generate.py > cases.json

Its optimiser often stops early, so its estimates of given orders are improved here: its own likelihood, as a function
of all coefficients, is minimised further. Where it stops at a saddle or a boundary, the better of both is kept.
"""

import json
import sys
import warnings

import numpy as np
from scipy.optimize import minimize
from statsforecast.arima import arima, auto_arima_f, predict_arima
from statsforecast.utils import AirPassengers

HORIZON = 14


def simulate(rng, length, ar=(), ma=(), season=1, seasonal_ar=(), seasonal_ma=(), d=0, seasonal_d=0, level=0.0):
    """A series whose values have four decimals."""

    def polynomial(short, long, sign):
        inner = np.concatenate([[1.0], sign * np.array(short)])
        outer = np.zeros(1 + season * len(long))
        outer[0] = 1.0
        outer[season::season] = sign * np.array(long)
        return np.convolve(inner, outer)

    phi, theta = polynomial(ar, seasonal_ar, -1.0), polynomial(ma, seasonal_ma, 1.0)
    errors = rng.normal(size=length + 200)
    values = np.zeros(length + 200)
    for step in range(50, len(values)):
        moving = sum(c * errors[step - lag] for lag, c in enumerate(theta))
        values[step] = moving - sum(c * values[step - lag] for lag, c in enumerate(phi) if lag)
    values = values[200:]
    for _ in range(d):
        values = np.cumsum(values)
    for _ in range(seasonal_d):
        for step in range(season, length):
            values[step] += values[step - season]
    return np.round(values + level, 4)


def regressors(case, key, first, length):
    """Those of the case, behind the steps of its drift."""
    drift = case["constant"] and case["order"][1] + case["seasonal"][1] == 1
    columns = [np.arange(first, first + length, dtype=float)] if drift else []
    columns += [np.array(column) for column in case[key]]
    return np.array(columns).T if columns else None


def fixed(case, coefficients=None):
    values = np.array(case["values"])
    given = {} if coefficients is None else {"fixed": np.array(coefficients, dtype=float)}
    return arima(
        values,
        order=tuple(case["order"]),
        seasonal={"order": tuple(case["seasonal"]), "period": case["season"]},
        xreg=regressors(case, "regressors", 1, len(values)),
        include_mean=case["constant"],
        method="CSS-ML",
        **given,
    )


def improved(case):
    first = fixed(case)
    start = np.array(list(first["coef"].values()))
    if not len(start):
        return first
    scale = np.maximum(np.abs(start), 0.1)

    def deviance(point):
        with np.errstate(all="ignore"):
            try:
                found = -fixed(case, point * scale)["loglik"]
            except (ValueError, np.linalg.LinAlgError):
                return 1e10
        return found if np.isfinite(found) else 1e10

    def gradient(point, width=1e-5):
        steps = np.eye(len(point)) * width
        return np.array([(deviance(point + s) - deviance(point - s)) / (2 * width) for s in steps])

    best = (deviance(start / scale), start / scale)
    for method in ("BFGS", "BFGS"):
        found = minimize(deviance, best[1], jac=gradient, method=method, options={"gtol": 1e-8, "maxiter": 500})
        best = min(best, (found.fun, found.x), key=lambda pair: pair[0])
    return fixed(case, best[1] * scale)


def described(case):
    model = improved(case)
    length = len(case["values"])
    mean, sigma = predict_arima(model, HORIZON, regressors(case, "future", length + 1, HORIZON))
    # Its variance is by the number of values, not by that of what is left of them after estimation.
    used, count = model["nobs"], len(model["coef"])
    sigma *= np.sqrt(used / (used - count))
    return case | {
        "log_likelihood": float(model["loglik"]),
        "mean": [float(f"{value:.12g}") for value in mean],
        "sigma": [float(f"{value:.8g}") for value in sigma],
    }


def given_orders(rng):
    air = [float(value) for value in AirPassengers]
    log_air = [round(float(np.log(value)), 6) for value in AirPassengers]

    def case(name, values, order, seasonal=(0, 0, 0), season=1, constant=False, regressors=(), future=()):
        lists = {"regressors": [list(c) for c in regressors], "future": [list(c) for c in future]}
        return {
            "name": name,
            "values": [float(v) for v in values],
            "season": season,
            "order": list(order),
            "seasonal": list(seasonal),
            "constant": constant,
        } | lists

    yield case("airline, logarithms", log_air, (0, 1, 1), (0, 1, 1), 12)
    yield case("airline", air, (2, 1, 1), (0, 1, 0), 12)
    yield case("autoregression with mean", simulate(rng, 120, ar=[0.6, -0.3], level=50.0), (2, 0, 0), constant=True)
    yield case("moving average without mean", simulate(rng, 90, ma=[0.5, 0.3]), (0, 0, 2))
    yield case("mixed with mean", simulate(rng, 200, ar=[0.7], ma=[0.4], level=-3.0), (1, 0, 1), constant=True)
    drifting = simulate(rng, 150, ar=[0.4], d=1) + np.round(0.3 * np.arange(150), 4)
    yield case("drift", drifting, (1, 1, 0), constant=True)
    yield case("two differences", simulate(rng, 100, ma=[-0.5], d=2), (0, 2, 1))
    seasonal = simulate(rng, 140, ar=[0.5], season=12, seasonal_ar=[0.6], level=20.0)
    yield case("seasonal autoregression", seasonal, (1, 0, 0), (1, 0, 0), 12, True)
    seasonal = simulate(rng, 120, ma=[0.4], season=4, seasonal_ma=[0.5], seasonal_d=1, level=10.0)
    yield case("seasonal drift", seasonal, (0, 0, 1), (0, 1, 1), 4, True)
    seasonal = simulate(rng, 150, ar=[0.3], season=7, seasonal_ar=[0.4], seasonal_ma=[-0.5], d=1)
    yield case("both seasonal parts", seasonal, (1, 1, 0), (1, 0, 1), 7)
    columns = [np.round(rng.normal(size=120), 4), np.round(np.cumsum(rng.normal(size=120)), 4)]
    future = [np.round(rng.normal(size=HORIZON), 4), np.round(np.cumsum(rng.normal(size=HORIZON)), 4)]
    explained = np.round(simulate(rng, 120, ar=[0.5], level=5.0) + 2.0 * columns[0] - 0.7 * columns[1], 4)
    yield case("regression with mean", explained, (1, 0, 0), (0, 0, 0), 1, True, columns, future)
    explained = np.round(simulate(rng, 120, ma=[0.5], d=1) + 2.0 * columns[0] - 0.7 * columns[1], 4)
    yield case("regression with drift", explained, (0, 1, 1), (0, 0, 0), 1, True, columns, future)
    yield case("walk", simulate(rng, 60, d=1), (0, 1, 0))
    yield case("noise with mean", simulate(rng, 60, level=7.0), (0, 0, 0), constant=True)
    yield case("short", simulate(rng, 15, ar=[0.5], level=7.0), (1, 0, 0), constant=True)


def chosen_orders(rng):
    """Series of which the orders are to be chosen: their season and their values."""
    yield 12, np.round(AirPassengers, 4)
    for _ in range(3):
        ar, ma, level = rng.uniform(-0.5, 0.8), rng.uniform(-0.6, 0.6), rng.uniform(0, 50)
        yield 1, simulate(rng, 100, ar=[ar], level=level)
        yield 1, simulate(rng, 100, ma=[ma], d=1)
        yield 1, simulate(rng, 120, ar=[0.5, -0.3], ma=[ma], level=level)
        yield 12, simulate(rng, 144, ma=[ma], season=12, seasonal_ma=[-0.5], d=1, seasonal_d=1)
        yield 12, simulate(rng, 120, ar=[ar], season=12, seasonal_ar=[0.7], level=level)
        yield 4, simulate(rng, 80, ar=[ar], season=4, seasonal_ma=[0.5], seasonal_d=1)
        yield 7, simulate(rng, 140, ar=[0.6], season=7, seasonal_ar=[0.4], d=1)
        yield 12, simulate(rng, 120, ma=[ma], d=1) + np.round(4 * np.sin(np.arange(120) * np.pi / 6), 4)
        yield 1, simulate(rng, 60, ma=[-0.4], d=1) + np.round(0.5 * np.arange(60), 4)
        yield 12, simulate(rng, 40, ar=[ar], level=level)


def chosen(season, values):
    values = np.round(values, 4)
    model = auto_arima_f(values.astype(float), period=season, approximation=False)
    p, q, seasonal_p, seasonal_q, _, d, seasonal_d = model["arma"]
    return {
        "season": season,
        "values": [float(value) for value in values],
        "order": [p, d, q],
        "seasonal": [seasonal_p, seasonal_d, seasonal_q],
        "constant": bool({"intercept", "drift"} & set(model["coef"])),
        "aicc": float(model["aicc"]),
    }


def main():
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(20)
    cases = {
        "given": [described(case) for case in given_orders(rng)],
        "chosen": [chosen(season, values) for season, values in chosen_orders(rng)],
    }
    json.dump(cases, sys.stdout, separators=(",", ":"))


main()
