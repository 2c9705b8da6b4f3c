"""Training a model on the server, and seeing how far it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional, TextIO, Union

from . import notebook

_ROUND = re.compile(
    r"Round (?P<round>\d+) of (?P<rounds>\d+)(?:, (?P<metric>\S+) (?P<value>[-+.\deE]+|NaN|-?inf))?"
    r", (?P<left>\d+) s left"
)
_ROWS = re.compile(r"(?P<rows>\d+) rows read")

# The arguments of pgml.train that may be given by name, and what the server is told they are.
_CASTS = {
    "task": "text",
    "relation_name": "text",
    "y_column_name": "text",
    "algorithm": "pgml.algorithm",
    "hyperparams": "jsonb",
    "search": "pgml.search",
    "search_params": "jsonb",
    "search_args": "jsonb",
    "test_size": "real",
    "test_sampling": "pgml.sampling",
    "runtime": "pgml.runtime",
    "automatic_deploy": "boolean",
    "materialize_snapshot": "boolean",
    "preprocess": "jsonb",
    "refit": "boolean",
    "positive_class": "text",
    "metric": "text",
}


class TrainingProgress(NamedTuple):
    """How far a training is, by the server's last report.

    Attributes
    ----------
    message : str
        The text of the server's report.
    rows_read : int or None
        Rows read, while it reads.
    round : int or None
        Rounds of boosting done.
    rounds : int or None
        Rounds in all.
    metric : str or None
        What `value` is.
    value : float or None
        The metric on the rows that are held out.
    seconds_left : int or None
        How long the rest will take, in seconds, if it goes on as it went.
    """

    message: str
    rows_read: Optional[int] = None
    round: Optional[int] = None
    rounds: Optional[int] = None
    metric: Optional[str] = None
    value: Optional[float] = None
    seconds_left: Optional[int] = None


def read_report(message: str) -> TrainingProgress:
    """Understand what the server reports in a training.

    Parameters
    ----------
    message : str
        The message of an INFO line.

    Returns
    -------
    TrainingProgress
        What it says; only the message if it is not about progress.

    Examples
    --------
    >>> read_report("Round 25 of 100, rmse 0.500000, 15 s left").seconds_left
    15
    """
    if found := _ROUND.fullmatch(message):
        return TrainingProgress(
            message,
            round=int(found["round"]),
            rounds=int(found["rounds"]),
            metric=found["metric"],
            value=None if found["value"] is None else float(found["value"]),
            seconds_left=int(found["left"]),
        )
    if found := _ROWS.fullmatch(message):
        return TrainingProgress(message, rows_read=int(found["rows"]))
    return TrainingProgress(message)


class ProgressBar:
    """Shows a training's progress: in a notebook as a bar below the cell, else in one line of a terminal.

    Parameters
    ----------
    stream : text file, optional
        The terminal, also in a notebook; by default the standard error output.
    width : int, default 30
        The bar's width in characters.
    """

    def __init__(self, stream: Optional[TextIO] = None, width: int = 30) -> None:
        self._bar = notebook.Bar() if stream is None and notebook.shell() is not None else None
        self._stream = sys.stderr if stream is None else stream
        self._width = width
        self._shown = False

    def __call__(self, progress: TrainingProgress) -> None:
        """Show a report; those that are not about progress are left out."""
        done = whole = 0
        if progress.round is not None and progress.rounds:
            done, whole = progress.round, progress.rounds
            metric = "" if progress.metric is None else f"  {progress.metric} {progress.value:.6f}"
            line = f"{done}/{whole}{metric}  {progress.seconds_left} s left"
        elif progress.rows_read is not None:
            line = f"{progress.rows_read} rows read"
        else:
            return
        if self._bar is not None:
            self._bar.show(line, done, whole)
            return
        if whole:
            filled = self._width * done // whole
            line = f"[{'#' * filled}{'-' * (self._width - filled)}] {line}"
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()
        self._shown = True

    def close(self) -> None:
        """End the line."""
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()
            self._shown = False


async def train(
    connection: Any,
    project_name: str,
    *,
    progress: Union[Callable[[TrainingProgress], object], bool, None],
    timeout: Optional[float],
    options: Mapping[str, Any],
) -> Any:
    """Train a model. See :meth:`Connection.train`."""
    unknown = sorted(set(options) - set(_CASTS))
    if unknown:
        raise TypeError(f"train() got an unexpected keyword argument {unknown[0]!r}")
    arguments: list[Any] = [project_name]
    parts = ["$1"]
    for name, value in options.items():
        cast = _CASTS[name]
        if cast == "jsonb" and not isinstance(value, str):
            value = json.dumps(value)
        # As text first, so that it does not matter which codecs the connection has for these types.
        through = "" if cast in ("real", "boolean") else "::text"
        arguments.append(value)
        parts.append(f"{name} => ${len(arguments)}{through}::{cast}")
    query = f"SELECT * FROM pgml.train({', '.join(parts)})"

    bar: Optional[ProgressBar] = None
    if progress is None:
        progress = notebook.shell() is not None or sys.stderr.isatty()
    if progress is True:
        bar = ProgressBar()
        report: Callable[[TrainingProgress], object] = bar
    elif progress is False:
        return await connection.fetchrow(query, *arguments, timeout=timeout)
    else:
        report = progress

    def listen(_: Any, message: Any) -> None:
        if getattr(message, "severity_en", None) == "INFO":
            report(read_report(message.message))

    connection.add_log_listener(listen)
    try:
        return await connection.fetchrow(query, *arguments, timeout=timeout)
    finally:
        connection.remove_log_listener(listen)
        if bar is not None:
            bar.close()
