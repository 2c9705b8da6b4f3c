"""Models on their way to the server and back, as their libraries save them."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any, Optional, Union

# The arguments of pgml.import_model that may be given by name, and what the server is told they are.
_CASTS = {
    "format": "text",
    "task": "text",
    "features": "text[]",
    "classes": "text[]",
    "sample": "jsonb",
    "expected": "jsonb",
    "deploy": "boolean",
}


def _library(model: Any) -> Optional[str]:
    """The library of a model, by the classes that it is of: none of them needs to be installed for the others."""
    for kind in type(model).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("xgboost", "lightgbm", "catboost", "onnx"):
            return root
    return None


def _catboost(model: Any) -> bytes:
    # CatBoost saves to files only.
    with tempfile.TemporaryDirectory(prefix="howdah-") as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return path.read_bytes()


def saved(model: Any) -> bytes:
    """Give the bytes of a model as its library saves it.

    Parameters
    ----------
    model : object
        Of XGBoost, LightGBM or CatBoost, by their own or by scikit-learn's interface; of ONNX; bytes; or the path of
        a file.

    Returns
    -------
    bytes
        What `pgml.import_model` reads.

    Raises
    ------
    TypeError
        It is something else.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        return Path(model).read_bytes()
    library = _library(model)
    if library == "xgboost":
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        return bytes(booster.save_raw("ubj"))
    if library == "lightgbm":
        booster = model.booster_ if hasattr(model, "booster_") else model
        return str(booster.model_to_string()).encode()
    if library == "catboost":
        return _catboost(model)
    if library == "onnx" and hasattr(model, "SerializeToString"):
        return bytes(model.SerializeToString())
    raise TypeError(
        f"expected a model of XGBoost, LightGBM, CatBoost or ONNX, its bytes, or the path of a file, not {type(model)}"
    )


def _classes(model: Any) -> Optional[list[str]]:
    """The classes that scikit-learn's interface has kept, which the saved model has not; as SQL prints them."""
    if _library(model) not in ("xgboost", "lightgbm"):
        return None
    try:
        classes = model.classes_
    except AttributeError:
        return None
    return [str(name).lower() if isinstance(name, bool) else str(name) for name in _plain(classes)]


def _plain(value: Any) -> Any:
    """As JSON has it: lists for arrays, None for NaN."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


async def import_model(
    connection: Any, project_name: str, model: Any, *, timeout: Optional[float], options: dict[str, Any]
) -> Any:
    """Store a model. See :meth:`Connection.import_model`."""
    unknown = sorted(set(options) - set(_CASTS))
    if unknown:
        raise TypeError(f"import_model() got an unexpected keyword argument {unknown[0]!r}")
    if options.get("classes") is None:
        options["classes"] = _classes(model)
    arguments: list[Any] = [project_name, saved(model)]
    parts = ["$1::text", "$2::bytea"]
    for name, value in options.items():
        if value is None:
            continue
        cast = _CASTS[name]
        value = _plain(value)
        if cast == "jsonb":
            # As text first, so that it does not matter which codec the connection has for JSON.
            value, through = json.dumps(value, allow_nan=False), "::text"
        else:
            through = ""
            if cast == "text[]":
                value = [str(item) for item in value]
        arguments.append(value)
        parts.append(f"{name} => ${len(arguments)}{through}::{cast}")
    query = f"SELECT * FROM pgml.import_model({', '.join(parts)})"
    return await connection.fetchrow(query, *arguments, timeout=timeout)


async def export_model(
    connection: Any, model: Union[str, int], *, format: Optional[str], timeout: Optional[float]
) -> bytes:
    """Fetch a model. See :meth:`Connection.export_model`."""
    cast = "bigint" if isinstance(model, int) else "text"
    data = await connection.fetchval(f"SELECT pgml.export_model($1::{cast}, $2::text)", model, format, timeout=timeout)
    return bytes(data)
