"""Writes the CatBoost models of this folder: `python tests/exchange/write_catboost.py`, where catboost 1.2.10 is installed.

CatBoost is too large for `make test`, so what it saved and predicted is kept here: `NAME.json` is a model as it saves it,
and `catboost.json` has rows (null where a feature is missing), what each model predicts for them, and its SHAP values of the
first ten.
"""

import json
from pathlib import Path

import numpy
from catboost import CatBoostClassifier, CatBoostRegressor, Pool

HERE = Path(__file__).parent
random = numpy.random.default_rng(7)
features = random.normal(size=(300, 3)).astype(numpy.float32)
features[random.random(features.shape) < 0.1] = numpy.nan
known = numpy.nan_to_num(features)
LABELS = {
    "regression": known[:, 0] * 2 + known[:, 1] ** 2,
    "two": numpy.array(["ham", "spam"])[(known[:, 0] + known[:, 1] > 0).astype(int)],
    "three": numpy.array(["low", "mid", "high"])[numpy.digitize(known[:, 0], [-0.5, 0.5])],
}
rows = features[:40]
kept = {"rows": [[None if numpy.isnan(x) else float(x) for x in row] for row in rows]}
for name, labels in LABELS.items():
    settings = {"iterations": 6, "depth": 3, "verbose": 0, "random_seed": 1, "thread_count": 1}
    settings["allow_writing_files"] = False
    if name == "regression":
        model = CatBoostRegressor(**settings).fit(Pool(features, labels, feature_names=["a", "b", "c"]))
        answers = model.predict(rows)
    else:
        loss = "Logloss" if name == "two" else "MultiClass"
        model = CatBoostClassifier(loss_function=loss, **settings).fit(features, labels)
        answers = model.predict_proba(rows)
    model.save_model(str(HERE / f"catboost_{name}.json"), format="json")
    kept[name] = answers.tolist()
    kept[f"{name}_contributions"] = model.get_feature_importance(Pool(rows[:10]), type="ShapValues").tolist()
(HERE / "catboost.json").write_text(json.dumps(kept) + "\n")
