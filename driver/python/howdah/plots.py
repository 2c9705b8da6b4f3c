"""Reports about models as plots, by matplotlib, which need not be there for anything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Optional

# As many features as a plot of bars can show.
_BARS = 20
# What `pgml.drift` calls large, and by chance.
_LARGE, _CHANCE = 0.25, 0.001
_UP, _DOWN, _GREY = "tab:red", "tab:blue", "tab:gray"


def draw(name: str, model: Any, rows: Sequence[Any], ax: Any, options: dict[str, Any]) -> Any:
    """Draw the report `name` of a model."""
    if ax is None:
        try:
            import matplotlib.pyplot
        except ImportError as error:
            raise ImportError("plots need matplotlib: `pip install matplotlib`") from error
        ax = matplotlib.pyplot.subplots(layout="constrained")[1]
    title, drawn = _PLOTS[name]
    drawn(rows, ax, **options)
    ax.set_title(f"{title} of {f'model {model}' if isinstance(model, int) else model}")
    return ax


def _each(rows: Sequence[Any], *names: str) -> dict[tuple[Any, ...], list[Any]]:
    """The rows by what they have under the names, in order."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def _curves(rows: Sequence[Any], ax: Any, x: str, y: str, labels: tuple[str, str], **style: Any) -> None:
    for (name,), points in _each(rows, "class").items():
        known = [(row[x], row[y]) for row in points if row[x] is not None and row[y] is not None]
        if not known:
            continue
        xs, ys = zip(*known)
        area = ""
        if x == "fpr":
            area = f" (AUC {sum((b - a) * (s + t) / 2 for a, b, s, t in zip(xs, xs[1:], ys, ys[1:])):.3f})"
        ax.plot(xs, ys, label=f"{name}{area}", **style)
    ax.set(xlabel=labels[0], ylabel=labels[1], xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    if ax.lines:
        ax.legend()


def _roc(rows: Sequence[Any], ax: Any) -> None:
    _curves(rows, ax, "fpr", "tpr", ("false positive rate", "true positive rate"))
    ax.plot([0, 1], [0, 1], linestyle=":", color=_GREY)


def _precision_recall(rows: Sequence[Any], ax: Any) -> None:
    _curves(rows, ax, "recall", "precision", ("recall", "precision"), drawstyle="steps-post")


def _calibration(rows: Sequence[Any], ax: Any) -> None:
    _curves(rows, ax, "predicted", "actual", ("mean predicted probability", "share of the class"), marker="o")
    ax.plot([0, 1], [0, 1], linestyle=":", color=_GREY)


def _bars(ax: Any, names: Sequence[str], widths: Sequence[float], label: str, **style: Any) -> None:
    """Bars from the top down, the first ones only if there are too many."""
    ax.barh(range(len(names)), widths, **style)
    ax.set_yticks(range(len(names)), labels=names)
    ax.invert_yaxis()
    ax.set_xlabel(label)


def _importance(rows: Sequence[Any], ax: Any, by: Optional[str] = None) -> None:
    if by is None:
        by = next((each for each in ("gain", "weight", "cover") if any(row[each] is not None for row in rows)), "gain")
    known = sorted((row for row in rows if row[by] is not None), key=lambda row: -row[by])[:_BARS]
    _bars(ax, [row["feature"] for row in known], [row[by] for row in known], by)


def _permutation(rows: Sequence[Any], ax: Any) -> None:
    rows = rows[:_BARS]
    errors = [row["std_dev"] or 0.0 for row in rows]
    widths = [row["importance"] for row in rows]
    _bars(ax, [row["feature"] for row in rows], widths, "decrease of the metric when shuffled", xerr=errors)


def _drift(rows: Sequence[Any], ax: Any) -> None:
    rows = [row for row in rows if row["psi"] is not None][:_BARS]
    sure = [row["psi"] > _LARGE and (row["p_value"] is None or row["p_value"] < _CHANCE) for row in rows]
    colors = [_UP if each else _DOWN for each in sure]
    _bars(
        ax, [row["feature"] for row in rows], [row["psi"] for row in rows], "population stability index", color=colors
    )
    ax.axvline(_LARGE, linestyle=":", color=_GREY)


def _learning(rows: Sequence[Any], ax: Any) -> None:
    for (part, metric), points in _each(rows, "part", "metric").items():
        ax.plot([row["round"] for row in points], [row["value"] for row in points], label=f"{metric}, {part}")
    ax.set(xlabel="round", ylabel="metric")
    if ax.lines:
        ax.legend()


def _explanation(rows: Sequence[Any], ax: Any, of: Optional[str] = None) -> None:
    classes = _each(rows, "class")
    if of is None:
        # What the model has decided for.
        chosen = max(classes.values(), key=lambda parts: math.fsum(row["contribution"] for row in parts))
    else:
        chosen = classes.get((of,), [])
        if not chosen:
            known = ", ".join(repr(name) for (name,) in classes)
            raise ValueError(f"the explanation has no class {of!r}: it has {known}")
    bias = chosen[-1]["contribution"]
    parts = sorted(chosen[:-1], key=lambda row: -abs(row["contribution"]))
    labels = [row["feature"] if row["value"] is None else f"{row['feature']} = {row['value']}" for row in parts]
    widths = [row["contribution"] for row in parts]
    if len(parts) > _BARS:
        labels = [*labels[: _BARS - 1], f"{len(parts) - _BARS + 1} others"]
        widths = [*widths[: _BARS - 1], math.fsum(widths[_BARS - 1 :])]
    starts = [bias + math.fsum(widths[:place]) for place in range(len(widths))]
    colors = [_UP if width > 0 else _DOWN for width in widths]
    _bars(ax, labels, widths, "", left=starts, color=colors)
    # The first bar does not begin at zero.
    ax.use_sticky_edges = False
    ax.autoscale_view()
    whole = bias + math.fsum(widths)
    name = chosen[0]["class"]
    ax.set_xlabel(f"from the mean {bias:.4g} to {whole:.4g}" + ("" if name is None else f", class {name}"))
    ax.axvline(bias, linestyle=":", color=_GREY)


# What a report is called above its plot, and what draws it.
_PLOTS: dict[str, tuple[str, Callable[..., None]]] = {
    "calibration_curve": ("Calibration", _calibration),
    "drift": ("Drift", _drift),
    "explain": ("A prediction", _explanation),
    "feature_importance": ("Importance of the features", _importance),
    "learning_curve": ("Learning curve", _learning),
    "permutation_importance": ("Importance of the features", _permutation),
    "precision_recall_curve": ("Precision and recall", _precision_recall),
    "roc_curve": ("ROC curve", _roc),
}
