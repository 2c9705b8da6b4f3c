"""Columns for people who look at them: in pandas, and in a notebook."""

from __future__ import annotations

import importlib
from typing import Any

from . import _core
from .notebook import columns_html as to_html  # noqa: F401


def to_pandas(columns: _core.Columns) -> Any:
    """A DataFrame of columns: pandas 3 takes their memory by itself, earlier ones by pyarrow.

    Raises
    ------
    ImportError
        pandas is not installed, or is older and pyarrow is not.
    """
    pandas = importlib.import_module("pandas")
    from_arrow = getattr(pandas.DataFrame, "from_arrow", None)
    if from_arrow is not None:
        return from_arrow(columns)
    return importlib.import_module("pyarrow").table(columns).to_pandas()
