"""The methods of models, which are those of the asyncio connection, run to their ends."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from .. import additions, columnar, reports
from ._commands import Commands


def _blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that runs one of the asyncio connection's; as any command it begins a transaction that is due."""

    def call(self: Commands, *args: Any, **options: Any) -> Any:
        with self._lock:
            self._check()
            self._begin()
            return self._complete(method(self._inner, *args, **options))

    functools.update_wrapper(call, method)
    text = re.sub(r"\(await ([^\n]*?\))\)", r"\1", inspect.cleandoc(method.__doc__ or ""))
    call.__doc__ = text.replace("await ", "")
    return call


class Models(Commands):
    """The methods of models."""

    calibration_curve = _blocking(reports.calibration_curve)
    drift = _blocking(reports.drift)
    evaluate = _blocking(reports.evaluate)
    explain = _blocking(columnar.explain)
    explain_row = _blocking(reports.explain_row)
    export_model = _blocking(additions.export_model)
    feature_importance = _blocking(reports.feature_importance)
    import_model = _blocking(additions.import_model)
    learning_curve = _blocking(reports.learning_curve)
    permutation_importance = _blocking(reports.permutation_importance)
    precision_recall_curve = _blocking(reports.precision_recall_curve)
    predict = _blocking(columnar.predict)
    predict_proba = _blocking(columnar.predict_proba)
    roc_curve = _blocking(reports.roc_curve)
    train = _blocking(additions.train)
