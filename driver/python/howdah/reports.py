"""The connection's methods that tell about models: metrics, curves, importance, drift, explanations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import frames, notebook, plots

if TYPE_CHECKING:
    from .connection import Connection

# Where nothing is deployed under the name the function says so in its own words.
_DEPLOYED = """\
SELECT coalesce((SELECT id FROM pgml.deployed_models WHERE name = $1::text), pgml.model_for($1::text, ''::text))"""


class Report(list[Any]):
    """Rows about a model: a list of records that is a table in a notebook, and a plot by :meth:`plot`.

    Attributes
    ----------
    name : str
        The function of pgml that has given the rows, `roc_curve` for one.
    model : str or int
        The project, or the id of the model.
    """

    def __init__(self, name: str, model: Union[str, int], rows: Sequence[Any]) -> None:
        super().__init__(rows)
        self.name = name
        self.model = model

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the rows by matplotlib, which has to be installed.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        **options
            For the importance of features `by`: `gain`, `weight` or `cover`. For an explanation `of`: the class,
            by default the one with the largest margin.

        Returns
        -------
        matplotlib.axes.Axes
            The axes; `.figure.savefig("roc.svg")` stores the plot.

        Raises
        ------
        ImportError
            matplotlib is not installed.

        Examples
        --------
        >>> (await connection.roc_curve("flights", "flights")).plot()
        """
        return plots.draw(self.name, self.model, self, ax, options)

    def _repr_html_(self) -> Optional[str]:
        return notebook.records_html(self) or f"<p>no rows of {self.name}</p>"


async def _report(
    connection: Connection[Any],
    name: str,
    model: Union[str, int],
    timeout: Optional[float],
    **options: tuple[Any, str],
) -> Report:
    """The rows of a function of pgml, whose arguments are given with their types, but for those that are None."""
    query, values = _call(name, model, options)
    return Report(name, model, await connection.fetch(f"SELECT * FROM {query}", *values, timeout=timeout))


def _call(name: str, model: Union[str, int], options: Mapping[str, tuple[Any, str]]) -> tuple[str, list[Any]]:
    if not isinstance(model, (str, int)) or isinstance(model, bool):
        raise TypeError(f"expected a project's name or a model's id, not {type(model).__name__} {model!r}")
    given = {option: pair for option, pair in options.items() if pair[0] is not None}
    casts = ["bigint" if isinstance(model, int) else "text", *(cast for _, cast in given.values())]
    names = ["", *(f"{option} => " for option in given)]
    parts = (f"{each}${place}::{cast}" for place, (each, cast) in enumerate(zip(names, casts), 1))
    return f"pgml.{name}({', '.join(parts)})", [model, *(value for value, _ in given.values())]


async def evaluate(
    self: Connection[Any],
    model: Union[str, int],
    relation_name: str,
    y_column_name: Union[str, Sequence[str], None] = None,
    *,
    rows: Optional[str] = None,
    timeout: Optional[float] = None,
) -> dict[str, Any]:
    """Measure a model on the rows of a relation, by `pgml.evaluate`.

    Parameters
    ----------
    model : str or int
        A project, for its deployed model, or the id of a model.
    relation_name : str
        A table, a view, or a query in parentheses.
    y_column_name : str or sequence of str, optional
        The label, or the labels; by default those of the training.
    rows : str, optional
        `all`, `held_out` (those that the training held out) or `trained`; by default those held out where the
        relation is that of the training, else all.
    timeout : float, optional
        Seconds for the round trip.

    Returns
    -------
    dict
        The metrics by name, the number of `rows`, and which were used (`rows_used`).

    Raises
    ------
    PostgresError
        There is no such model or relation, or the relation lacks a column.

    Examples
    --------
    >>> (await connection.evaluate("flights", "flights"))["r2"]
    0.91
    """
    cast = "text" if y_column_name is None or isinstance(y_column_name, str) else "text[]"
    label = list(y_column_name) if cast == "text[]" and y_column_name is not None else y_column_name
    query, values = _call(
        "evaluate",
        model,
        {"relation_name": (relation_name, "text"), "y_column_name": (label, cast), "rows": (rows, "text")},
    )
    # As text, so that it does not matter which codec the connection has for JSON.
    found: dict[str, Any] = json.loads(await self.fetchval(f"SELECT {query}::text", *values, timeout=timeout))
    return found


async def roc_curve(
    self: Connection[Any],
    model: Union[str, int],
    relation_name: str,
    y_column_name: Optional[str] = None,
    *,
    rows: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Report:
    """Give the ROC curve of a classifier, by `pgml.roc_curve`.

    Parameters
    ----------
    model, relation_name, y_column_name, rows, timeout
        As in :meth:`evaluate`; there is one label.

    Returns
    -------
    Report
        Records of `class`, `threshold`, `fpr` and `tpr`; :meth:`Report.plot` draws them.

    Examples
    --------
    >>> (await connection.roc_curve("flights", "flights")).plot()
    """
    options = {"relation_name": relation_name, "y_column_name": y_column_name, "rows": rows}
    return await _report(self, "roc_curve", model, timeout, **{name: (each, "text") for name, each in options.items()})


async def precision_recall_curve(
    self: Connection[Any],
    model: Union[str, int],
    relation_name: str,
    y_column_name: Optional[str] = None,
    *,
    rows: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Report:
    """Give precision and recall of a classifier at each threshold, by `pgml.precision_recall_curve`.

    Parameters
    ----------
    model, relation_name, y_column_name, rows, timeout
        As in :meth:`roc_curve`.

    Returns
    -------
    Report
        Records of `class`, `threshold`, `precision` and `recall`.

    Examples
    --------
    >>> (await connection.precision_recall_curve("flights", "flights")).plot()
    """
    options = {"relation_name": relation_name, "y_column_name": y_column_name, "rows": rows}
    texts = {name: (each, "text") for name, each in options.items()}
    return await _report(self, "precision_recall_curve", model, timeout, **texts)


async def calibration_curve(
    self: Connection[Any],
    model: Union[str, int],
    relation_name: str,
    y_column_name: Optional[str] = None,
    *,
    bins: int = 10,
    rows: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Report:
    """Compare the probabilities of a classifier with what has happened, by `pgml.calibration_curve`.

    Parameters
    ----------
    model, relation_name, y_column_name, rows, timeout
        As in :meth:`roc_curve`.
    bins : int, default 10
        How many bins of probabilities, 1 to 10000.

    Returns
    -------
    Report
        Records of `class`, `bin`, `rows`, `predicted` and `actual`.

    Examples
    --------
    >>> (await connection.calibration_curve("flights", "flights")).plot()
    """
    texts = {"relation_name": relation_name, "y_column_name": y_column_name, "rows_used": rows}
    options = {name: (each, "text") for name, each in texts.items()}
    return await _report(self, "calibration_curve", model, timeout, bins=(bins, "int"), **options)


async def feature_importance(
    self: Connection[Any], model: Union[str, int], *, timeout: Optional[float] = None
) -> Report:
    """Give the importance of the features in a model of trees, by `pgml.feature_importance`.

    Parameters
    ----------
    model, timeout
        As in :meth:`evaluate`.

    Returns
    -------
    Report
        Records of `feature`, `gain`, `weight` and `cover`, the most important first.

    Examples
    --------
    >>> (await connection.feature_importance("flights")).plot(by="weight")
    """
    return await _report(self, "feature_importance", model, timeout)


async def permutation_importance(
    self: Connection[Any],
    model: Union[str, int],
    relation_name: str,
    y_column_name: Optional[str] = None,
    *,
    repeats: int = 5,
    seed: int = 0,
    rows: Optional[str] = None,
    timeout: Optional[float] = None,
) -> Report:
    """Give the decrease of a metric when the values of a feature are shuffled, by `pgml.permutation_importance`.

    Parameters
    ----------
    model, relation_name, y_column_name, rows, timeout
        As in :meth:`roc_curve`.
    repeats : int, default 5
        How many shuffles, 1 to 1000.
    seed : int, default 0
        What determines the shuffles.

    Returns
    -------
    Report
        Records of `feature`, `importance` and `std_dev`, the most important first.

    Examples
    --------
    >>> (await connection.permutation_importance("flights", "flights")).plot()
    """
    texts = {"relation_name": relation_name, "y_column_name": y_column_name, "rows": rows}
    options = {name: (each, "text") for name, each in texts.items()}
    numbers = {"repeats": (repeats, "int"), "seed": (seed, "bigint")}
    return await _report(self, "permutation_importance", model, timeout, **options, **numbers)


async def drift(
    self: Connection[Any], model: Union[str, int], relation_name: str, *, timeout: Optional[float] = None
) -> Report:
    """Compare the rows of a relation with the training rows of a model, by `pgml.drift`.

    Parameters
    ----------
    model, relation_name, timeout
        As in :meth:`evaluate`.

    Returns
    -------
    Report
        Records of `feature`, `psi`, `ks`, `rows`, `p_value` and `unseen`, the largest `psi` first. The plot has what is
        above 0.25 and beyond chance in red.

    Examples
    --------
    >>> (await connection.drift("flights", "(select * from flights where day = current_date)")).plot()
    """
    return await _report(self, "drift", model, timeout, relation_name=(relation_name, "text"))


async def learning_curve(self: Connection[Any], model: Union[str, int], *, timeout: Optional[float] = None) -> Report:
    """Give the metrics of a model after the rounds of its training, by `pgml.learning_curve`.

    Parameters
    ----------
    model, timeout
        As in :meth:`evaluate`.

    Returns
    -------
    Report
        Records of `round`, `part` (`train` or `test`), `metric` and `value`; none for a model without rounds.

    Raises
    ------
    PostgresError
        There is no such model, or the extension is older than 3.4.

    Examples
    --------
    >>> (await connection.learning_curve("flights")).plot()
    """
    number: Any = model
    if isinstance(model, str):
        number = await self.fetchval(_DEPLOYED, model, timeout=timeout)
    return Report("learning_curve", model, await _report(self, "learning_curve", number, timeout))


async def explain_row(
    self: Connection[Any],
    model: Union[str, int],
    row: Union[Mapping[str, Any], Sequence[Any]],
    *,
    timeout: Optional[float] = None,
) -> Report:
    """Explain the prediction for one row by the contribution of each feature, by `pgml.explain`: exact SHAP values.

    Parameters
    ----------
    model, timeout
        As in :meth:`evaluate`.
    row : mapping or sequence
        The features by their names, as of a record of the table; or numbers, in the order of the training.

    Returns
    -------
    Report
        Records of `feature`, `value`, `contribution` and `class`, with the bias in the last row of each class.

    Raises
    ------
    PostgresError
        There is no such model, it lacks a feature, or it cannot be explained.

    Examples
    --------
    >>> row = await connection.fetchrow("select * from flights where id = 7")
    >>> (await connection.explain_row("flights", row)).plot()
    """
    cast = "bigint" if isinstance(model, int) else "text"
    if hasattr(row, "items"):
        frame = frames.of_row(dict(row.items()))
        query, values = frames.explained(frame, cast), frame.part(0, 1)
    else:
        query, values = f"SELECT * FROM pgml.explain($1::{cast}, $2::real[])", [list(row)]
    return Report("explain", model, await self.fetch(query, model, *values, timeout=timeout))
