"""What a competent person writes in Python for the same rows, in an hour: no search, but all that everybody knows.

Ids and texts that name the row are left out, dates become their parts, a category that training has not seen is a
missing value. Of XGBoost, HistGradientBoosting and a linear model on one-hot columns, each with its library's defaults,
the one is taken that cross-validation inside the training rows prefers, and fitted to all of them. Beside it stand the
libraries that pgml's algorithms are, with their own defaults on the same columns.
"""

import json
import sys
import warnings

import lightgbm
import numpy
import pandas
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

from bench.quality import score, sets

CANDIDATES = ("xgboost", "hist", "linear")
# HistGradientBoosting takes no more categories of a column.
MOST = 255
FOLDS = 3
THREADS = 1


def compared(one):
    """For each part of the set: how good each model is in cross-validation inside the training rows and on the test
    rows, and what knowing nothing comes to.
    """
    rows = sets.load(one)
    features = prepared(one, rows)
    found = []
    with warnings.catch_warnings():
        # Of steps of a solver, of classes with one row: the person shrugs.
        warnings.simplefilter("ignore")
        for learnt, test in sets.parts(one, rows):
            learnt = learnt[rows[one.label].iloc[learnt].notna()]
            if one.time is not None:
                # For the folds of the cross-validation.
                learnt = learnt[numpy.argsort(rows[one.time].iloc[learnt], kind="stable")]
            labels, unseen = labels_of(one, rows.iloc[learnt]), labels_of(one, rows.iloc[test])
            known, fresh = features.iloc[learnt], features.iloc[test]
            found.append(
                {
                    "nothing": score.of_nothing(one.task, labels, unseen),
                    "validated": {name: validated(one, name, known, labels) for name in CANDIDATES},
                    "test": {name: fitted(one, name, known, labels, fresh, unseen) for name in MODELS},
                }
            )
    return found


def labels_of(one, rows):
    """Labels as numbers, or as text."""
    return rows[one.label].to_numpy(float) if one.task == "regression" else rows[one.label].astype(str).to_numpy()


def prepared(one, rows):
    """The features: numbers, and columns of texts."""
    columns = {}
    for name, column in rows.items():
        if name in (one.label, one.key, *one.names):
            continue
        if name in one.moments:
            columns |= {f"{name}_{part}": value for part, value in parts_of(column).items()}
        elif pandas.api.types.is_numeric_dtype(column) or pandas.api.types.is_bool_dtype(column):
            columns[name] = column.astype(float)
        else:
            columns[name] = column.astype(object)
    frame = pandas.DataFrame(columns)
    # XGBoost takes no brackets in names.
    frame.columns = [f"{number}_" + "".join(c for c in name if c.isalnum()) for number, name in enumerate(frame)]
    return frame


def parts_of(moments):
    """The parts of a date, and time since the first row."""
    names = ("year", "month", "day", "dayofweek", "dayofyear", "hour")
    found = {part: getattr(moments.dt, part).astype(float) for part in names}
    return found | {"days": (moments - pandas.Timestamp("1970-01-01")) / pandas.Timedelta(days=1)}


def validated(one, name, features, labels):
    """How good a model is in cross-validation: the mean of the folds."""
    if one.time is not None:
        cutter = TimeSeriesSplit(FOLDS)
    elif one.task == "regression":
        cutter = KFold(FOLDS, shuffle=True, random_state=0)
    else:
        cutter = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    folds = [
        fitted(one, name, features.iloc[learnt], labels[learnt], features.iloc[test], labels[test])
        for learnt, test in cutter.split(features, labels)
    ]
    return {what: float(numpy.mean([fold[what] for fold in folds])) for what in folds[0]}


def fitted(one, name, features, labels, fresh, unseen):
    """How good a model, fitted to `features`, is on the rows `fresh`."""
    # What no row has yet says nothing, and scikit-learn's binning fails on it.
    there = features.columns[features.notna().any()]
    features, fresh = categories(features[there], fresh[there])
    model = MODELS[name](one.task, features)
    if one.task == "regression":
        return score.judged(one.task, unseen, model.fit(features, labels).predict(fresh))
    classes, codes = numpy.unique(labels, return_inverse=True)
    return score.judged(one.task, unseen, model.fit(features, codes).predict_proba(fresh), classes.tolist())


def categories(features, fresh):
    """Texts as categories of the training rows; others are missing values."""
    features, fresh = features.copy(), fresh.copy()
    for name in features.select_dtypes(object):
        known = pandas.CategoricalDtype(sorted(features[name].dropna().unique(), key=str))
        features[name], fresh[name] = features[name].astype(known), fresh[name].astype(known)
    return features, fresh


def texts(features, least=0, most=float("inf")):
    """The columns of categories, of so many."""
    return [
        name
        for name, column in features.items()
        if isinstance(column.dtype, pandas.CategoricalDtype) and least <= len(column.cat.categories) <= most
    ]


def numbers(features):
    """The other columns."""
    return [name for name in features if name not in texts(features)]


def of_xgboost(task, _features):
    """XGBoost with its own defaults and its own categories."""
    made = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
    return made(enable_categorical=True, n_jobs=THREADS)


def of_lightgbm(task, _features):
    """LightGBM with its own defaults and its own categories."""
    made = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return made(n_jobs=THREADS, verbose=-1)


def of_hist(task, features):
    """Histogram boosting, with the means of the label for columns of more categories than it takes."""
    made = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    many = texts(features, least=MOST)
    if not many:
        return made(categorical_features="from_dtype", random_state=0)
    encoder = make_column_transformer(
        (TargetEncoder(random_state=0), many), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    return make_pipeline(encoder, made(categorical_features="from_dtype", random_state=0))


def of_linear(task, features):
    """Ridge or logistic regression of scaled numbers, with indicators of the missing ones, and one-hot texts."""
    whole = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    encoder = make_column_transformer(
        (whole, numbers(features)), (OneHotEncoder(handle_unknown="ignore"), texts(features))
    )
    if task == "regression":
        return make_pipeline(encoder, RidgeCV(numpy.logspace(-2, 3, 6)) if len(features) < 20_000 else Ridge())
    return make_pipeline(encoder, LogisticRegression(max_iter=1000))


def of_plain(task, features):
    """Least squares or logistic regression as they are, on means for missing numbers and one-hot texts."""
    encoder = make_column_transformer(
        (SimpleImputer(), numbers(features)), (OneHotEncoder(handle_unknown="ignore"), texts(features))
    )
    return make_pipeline(encoder, LinearRegression() if task == "regression" else LogisticRegression(max_iter=1000))


MODELS = {"xgboost": of_xgboost, "lightgbm": of_lightgbm, "hist": of_hist, "linear": of_linear, "plain": of_plain}


if __name__ == "__main__":
    print(json.dumps(compared(next(one for one in sets.SETS if one.name == sys.argv[1]))))
