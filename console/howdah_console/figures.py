"""Numbers, times and names as people read them."""

import datetime
import json
import math
import re

# Of each metric: its name for people, whether more is better (None: neither), and what it says.
METRICS = {
    "f1": ("F1", True, "the harmonic mean of precision and recall, 0 to 1"),
    "precision": ("Precision", True, "of the rows that are predicted to be of the class, the share that is"),
    "recall": ("Recall", True, "of the rows of the class, the share that is found"),
    "accuracy": ("Accuracy", True, "the share of rows whose class is predicted right"),
    "balanced_accuracy": ("Balanced accuracy", True, "the mean recall of the classes"),
    "roc_auc": ("ROC AUC", True, "the area under the ROC curve; 0.5 is chance"),
    "average_precision": ("Average precision", True, "the area under the curve of precision and recall"),
    "mcc": ("MCC", True, "Matthews correlation, -1 to 1; 0 is chance"),
    "log_loss": ("Log loss", False, "the mean surprise at the actual class, in nats"),
    "brier": ("Brier score", False, "the mean squared error of the probabilities"),
    "r2": ("R²", True, "the share of the label's variance that is explained; 0 is the mean"),
    "mean_absolute_error": ("Mean absolute error", False, "in units of the label"),
    "root_mean_squared_error": ("Root mean squared error", False, "in units of the label"),
    "mean_squared_error": ("Mean squared error", False, "in squared units of the label"),
    "silhouette": (
        "Silhouette",
        True,
        "how well the clusters are apart, -1 to 1; of standardised columns, whatever their units",
    ),
    "davies_bouldin": ("Davies-Bouldin", False, "how much the clusters overlap; 0 is not at all"),
    "calinski_harabasz": ("Calinski-Harabasz", True, "spread between the clusters by spread within"),
    "inertia": ("Inertia", False, "the sum of squared distances to the centres"),
    "standardised_explained_variance": (
        "Explained variance, standardised",
        True,
        "the share of the variance of standardised columns that the components keep, whatever their units",
    ),
    "cumulative_explained_variance": ("Explained variance", True, "the share of the variance that the components keep"),
    "outlier_share": ("Outliers", None, "the share of the held-out rows whose score is above the threshold"),
    "mean_score": ("Mean score", None, "the mean of the scores of the held-out rows; above 0 is an outlier"),
    "mase": ("MASE", False, "the mean error by that of repeating the last season; below 1 is better than that"),
    "smape": ("sMAPE", False, "the mean error by the size of the values, in percent"),
    "crps": ("CRPS", False, "how far the forecast distribution is from the values, in their units"),
    "coverage": ("Coverage", None, "the share of the held-out values that lay in the intervals"),
}
PRIMARY = {
    "classification": "f1",
    "regression": "r2",
    "clustering": "silhouette",
    "decomposition": "standardised_explained_variance",
    "anomaly": "outlier_share",
    "forecast": "mase",
}
SECONDARY = {
    "classification": ("roc_auc", "accuracy", "log_loss"),
    "regression": ("mean_absolute_error", "root_mean_squared_error"),
    "clustering": ("davies_bouldin", "calinski_harabasz"),
    "decomposition": ("cumulative_explained_variance",),
    "anomaly": ("mean_score",),
    "forecast": ("smape", "crps", "coverage"),
}
TIMES = {"fit_time": "Fit", "refit_time": "Fit on all rows", "score_time": "Scoring"}
STRATEGIES = {
    "new_score": "newly trained, and better on the rows that neither was trained on (or the first)",
    "best_score": "deployed by hand: the best score",
    "most_recent": "deployed by hand: the most recent",
    "rollback": "rolled back to the model before",
    "specific": "deployed by hand: this model",
    "canary": "on trial: answers for a share of the keys",
    "shadow": "on trial: predicts for comparison only",
}


def number(value, digits=4):
    """A number with so many significant digits, and commas between thousands."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    value = float(value)
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e15:
        text = f"{int(value):,}"
    elif abs(value) >= 1e15 or abs(value) < 1e-4:
        text = f"{value:.{digits - 1}e}"
    else:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{places}f}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def count(value):
    """A whole number with commas."""
    return "–" if value is None else f"{int(value):,}"


def share(value):
    """A share of 1 in per cent."""
    if value is None:
        return "–"
    per_cent = 100 * value
    if 0 < per_cent < 0.1:
        return "< 0.1 %"
    if 99.95 <= per_cent < 100:
        return "> 99.9 %"
    return f"{per_cent:.1f} %".replace(".0 %", " %") if per_cent in (0, 100) else f"{per_cent:.1f} %"


def duration(seconds):
    """Seconds with the unit that fits."""
    if seconds is None:
        return "–"
    if seconds < 0.001:
        return f"{seconds * 1e6:.1f} µs" if seconds < 1e-5 else f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def moment(value):
    """A time to the minute, in UTC."""
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M} UTC"


def metric_name(name):
    """A metric's name for people."""
    return METRICS[name][0] if name in METRICS else name.replace("_", " ")


def metric_help(name):
    """What a metric says, and which way is better."""
    if name not in METRICS:
        return ""
    _, more, text = METRICS[name]
    return text + {True: "; more is better", False: "; less is better", None: ""}[more]


def plural(value, one, many=None):
    """`3 models`, `1 model`."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def parsed(value):
    """What a jsonb column has, read."""
    return json.loads(value) if isinstance(value, str) else value


def compact(value):
    """JSON for people to read in one line."""
    value = parsed(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} = {compact_value(one)}" for name, one in value.items())
    return compact_value(value)


def compact_value(value):
    """A value of JSON, a text without quotes."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cell(value):
    """A value of a result as psql would show it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + bytes(value[:200]).hex() + ("…" if len(value) > 200 else "")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return "{" + ",".join("NULL" if one is None else cell(one) for one in value) + "}"
    return str(value)


def sentence(text):
    """A message of the server, with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?", ":")) else ".")


def class_order(name):
    """The order of classes in a model: numbers by size, the rest by the alphabet."""
    return (0, float(name), "") if re.fullmatch(r"-?\d+(\.\d+)?", name) else (1, 0.0, name)


NUMBERS = ("int2", "int4", "int8", "float4", "float8", "numeric")
MOMENTS = ("date", "timestamp", "timestamptz")
# As format_type writes what models know by PostgreSQL's own names.
TYPES = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
}


def type_name(kind):
    """A type as people write it."""
    element = (kind or "").removesuffix("[]")
    return (kind or "").replace(element, TYPES.get(element, element), 1)


def as_moment(seconds, kind):
    """Seconds since 1970 as the date or time that a column of this type has."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    try:
        found = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return ""
    return f"{found:%Y-%m-%d}" if kind == "date" else f"{found:%Y-%m-%d %H:%M:%S}"


def moment_of(text):
    """A date or a time of PostgreSQL's as seconds since 1970; None for one beyond Python's, such as infinity."""
    try:
        # Of an offset Python 3.10 wants the minutes, too.
        found = datetime.datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text) if ":" in text else text)
    except ValueError:
        return None
    return found.replace(tzinfo=found.tzinfo or datetime.timezone.utc).timestamp()


FILTERS = {
    "sentence": sentence,
    "number": number,
    "number_or_text": lambda value: value if isinstance(value, str) else number(value),
    "count": count,
    "share": share,
    "duration": duration,
    "moment": moment,
    "metric_name": metric_name,
    "metric_help": metric_help,
    "plural": plural,
    "compact": compact,
    "compact_value": compact_value,
    "cell": cell,
    "type_name": type_name,
}
