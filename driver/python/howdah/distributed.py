"""Training across machines: XGBoost on a Dask cluster, each worker reading its share of a table through the driver.

Needs `dask`, `distributed` and `xgboost`, here and on the workers, and `howdah` on the workers too.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from howdah import dbapi

# Rows of a chunk, about: what a worker has twice in memory, as columns and as a matrix, while it reads.
_CHUNK_ROWS = 250_000
_ROUNDS = 100
# Names of parameters that a booster's configuration has not.
_ALIASES = ("n_estimators", "eta", "learning_rate", "lambda", "reg_lambda", "alpha", "reg_alpha", "gamma", "seed")
_TASKS = ("regression", "classification")
_COLUMNS = """
    SELECT a.attname::text, a.atttypid::regtype::text, t.typcategory::text
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# A partitioned table is cut as its largest partition is.
_RELATION = """
    SELECT c.oid, greatest(c.reltuples, 0)::float8, CASE
        WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid)
        WHEN c.relkind = 'p' THEN (
            SELECT coalesce(max(pg_catalog.pg_relation_size(p.relid)), 0)
            FROM pg_catalog.pg_partition_tree(c.oid) p WHERE p.isleaf)
        END / pg_catalog.current_setting('block_size')::bigint
    FROM pg_catalog.pg_class c WHERE c.oid = %s::regclass
"""


class _Source(NamedTuple):
    """What every worker is told: where to connect, the snapshot to see, and what to read."""

    dsn: Optional[str]
    options: dict[str, Any]
    snapshot: str
    query: str


class _Table(NamedTuple):
    """What the server says of a relation."""

    # The names of the features, and the SQL of each as a real.
    features: dict[str, str]
    # By the last ANALYZE.
    rows: float
    # None of a relation that has no pages of its own, as a view.
    pages: Optional[int]


def train(
    client: Any,
    project_name: str,
    relation_name: str,
    y_column_name: str,
    *,
    dsn: Optional[str] = None,
    task: str = "regression",
    hyperparams: Optional[Mapping[str, Any]] = None,
    features: Optional[Sequence[str]] = None,
    where: Optional[str] = None,
    split_by: Optional[str] = None,
    chunks: Optional[int] = None,
    deploy: Optional[bool] = None,
    **options: Any,
) -> dict[str, Any]:
    """Train XGBoost on the workers of a Dask cluster, and store the model as a project's on the server.

    Every worker connects to the server by itself and reads its chunks of the table as columns; the rows pass through
    neither this process nor the scheduler. All see one snapshot: rows that are changed meanwhile count as they were
    when the training began. The model is imported by `pgml.import_model`, which holds the prediction of one row
    against XGBoost's.

    Parameters
    ----------
    client : dask.distributed.Client
        The cluster. The server must be within reach of each worker, by the same `dsn`.
    project_name : str
        The project on the server, which is made if there is none.
    relation_name : str
        A table, partitioned table, materialized view or view; as in SQL, with a schema and quotes where needed.
    y_column_name : str
        The column to predict: a number or a boolean, for a classification any type. Rows where it is NULL are left out.
    dsn : str, optional
        As for :func:`howdah.connect`. The workers get it unchanged, with the password if it has one.
    task : {"regression", "classification"}
        The task of the model.
    hyperparams : mapping, optional
        XGBoost's parameters; `n_estimators` (100) is the number of rounds. Its `objective` is the task's by default.
    features : sequence of str, optional
        The columns to predict from, all numbers or booleans: by default all but `y_column_name`. NULL is a missing
        value.
    where : str, optional
        An SQL condition for the rows to train from; the other rows are left for `pgml.evaluate`.
    split_by : str, optional
        A column whose hash decides to which chunk a row belongs. Needed for a view; a table is divided by its pages.
    chunks : int, optional
        The number of chunks: by default one per 250,000 rows, and at least four per worker.
    deploy : bool, optional
        Whether the model is deployed; None deploys it only if the project has no deployment yet.
    **options
        Further arguments of :func:`howdah.connect`, here and on the workers: `host`, `password`, `ssl` and so on.

    Returns
    -------
    dict
        The row of `pgml.import_model`: `project`, `task`, `algorithm`, `deployed`, `model_id`.

    Raises
    ------
    ValueError
        Another task, a column that the relation does not have, a feature that is no number, no rows, one class, or a
        hyperparameter that XGBoost does not know or refuses.
    howdah.dbapi.Error
        The server refuses a statement.

    Examples
    --------
    >>> with dask.distributed.Client("scheduler:8786") as client:
    ...     howdah.distributed.train(
    ...         client, "flights", "flights", "delay", dsn="postgres://trainer@db/app", where="day < '2026-10-01'"
    ...     )
    """
    if task not in _TASKS:
        raise ValueError(f"unknown task {task!r}: regression or classification")
    hyperparams = dict(hyperparams or {})
    rounds = _rounds(hyperparams.pop("n_estimators", _ROUNDS))
    with dbapi.connect(dsn, **options) as connection:
        connection.isolation_level = "repeatable_read"
        connection.readonly = True
        # It only holds the snapshot while the workers read.
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        table = _table(connection, relation_name, y_column_name, features)
        condition = f"{_quoted(y_column_name)} IS NOT NULL" + (f" AND ({where})" if where else "")
        source = f"FROM {relation_name} WHERE {condition}"
        classes = _classes(connection, y_column_name, source) if task == "classification" else None
        label = _label(y_column_name, classes)
        columns = ", ".join(f'{sql} AS "{place}"' for place, sql in enumerate([*table.features.values(), label]))
        sample = connection.execute(f"SELECT {columns} {source} LIMIT 1").fetchone()
        if sample is None:
            raise ValueError(f"{relation_name} has no row to train from")
        parameters = _parameters(hyperparams, classes)
        _check_parameters(parameters, sample, classes)
        ((snapshot,),) = connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        parts = _parts(table, relation_name, split_by, chunks or max(4 * workers, round(table.rows / _CHUNK_ROWS)))
        told = _Source(dsn, options, snapshot, f"SELECT {columns} {source}")
        rows, labels = _read_all(client, told, parts, len(table.features))
        connection.rollback()
        booster = _boost(client, rows, labels, parameters, rounds)
        return _store(connection, project_name, booster, task, list(table.features), classes, sample[:-1], deploy)


def _table(connection: Any, relation: str, target: str, features: Optional[Sequence[str]]) -> _Table:
    ((oid, rows, pages),) = connection.execute(_RELATION, (relation,)).fetchall()
    found = {name: (kind, category) for name, kind, category in connection.execute(_COLUMNS, (oid,))}
    wanted = list(features) if features is not None else [name for name in found if name != target]
    for name in [*wanted, target]:
        if name not in found:
            raise ValueError(f"{relation} has no column {name!r}: it has {', '.join(map(repr, found))}")
    if target in wanted:
        raise ValueError(f"{target!r} is the label, so it cannot be a feature")
    if not wanted:
        raise ValueError(f"{relation} has no column beside {target!r} to predict from")
    others = [f"{name!r} ({found[name][0]})" for name in wanted if found[name][1] not in ("N", "B")]
    if others:
        raise ValueError(
            f"columns {', '.join(others)} of {relation} cannot be features, because features are numbers or booleans: "
            "name the other columns by `features`, or train from a view that encodes these columns"
        )
    return _Table({name: _as_real(name, found[name][1] == "B") for name in wanted}, rows, pages)


def _classes(connection: Any, target: str, source: str) -> list[str]:
    column = _quoted(target)
    found = connection.execute(f"SELECT {column}::text {source} GROUP BY {column} ORDER BY {column}").fetchall()
    if len(found) < 2:
        raise ValueError(f"a classification needs two classes, but {target!r} has {len(found)}")
    return [name for (name,) in found]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _as_real(name: str, is_boolean: bool) -> str:
    return f"coalesce({_quoted(name)}{'::integer' if is_boolean else ''}::real, 'NaN')"


def _label(name: str, classes: Optional[list[str]]) -> str:
    if classes is None:
        return f"{_quoted(name)}::real"
    literals = ", ".join("'" + label.replace("'", "''") + "'" for label in classes)
    return f"(pg_catalog.array_position(ARRAY[{literals}]::text[], {_quoted(name)}::text) - 1)::real"


def _parts(table: _Table, relation: str, split_by: Optional[str], count: int) -> list[str]:
    """The conditions of the chunks: each row meets one of them."""
    if split_by is not None:
        key = f"pg_catalog.hashtextextended({_quoted(split_by)}::text, 0)"
        return [f"coalesce(({key} & 9223372036854775807) % {count}, 0) = {place}" for place in range(count)]
    if table.pages is None:
        raise ValueError(f"{relation} is not a table, so it cannot be divided by pages: name a column by `split_by`")
    bounds = sorted({table.pages * place // count for place in range(1, count)} - {0})
    starts = [None, *bounds]
    ends = [*bounds, None]
    return [
        " AND ".join(f"ctid {sign} '({page},0)'" for sign, page in ((">=", start), ("<", end)) if page is not None)
        or "true"
        for start, end in zip(starts, ends)
    ]


def _read(source: _Source, part: str, width: int) -> Any:
    """On a worker: one chunk, as a matrix of its features and the column of its labels."""
    import numpy

    with dbapi.connect(source.dsn, **source.options) as connection:
        connection.isolation_level = "repeatable_read"
        connection.readonly = True
        connection.execute(f"SET TRANSACTION SNAPSHOT '{source.snapshot}'")
        columns = connection.fetch_columns(f"{source.query} AND {part}")
        matrix = numpy.empty((columns.num_rows, width), "float32")
        for place in range(width):
            matrix[:, place] = numpy.asarray(columns[str(place)])
        return matrix, numpy.array(columns[str(width)], "float32")


def _read_all(client: Any, source: _Source, parts: Sequence[str], width: int) -> tuple[Any, Any]:
    """Let the workers read; the rows stay with them."""
    import dask
    import dask.array
    from dask.distributed import futures_of, wait

    read = dask.delayed(_read, pure=False)
    chunks = [read(source, part, width) for part in parts]
    arrays = dask.array.from_delayed
    rows = [arrays(chunk[0], (math.nan, width), dtype="float32") for chunk in chunks]
    labels = [arrays(chunk[1], (math.nan,), dtype="float32") for chunk in chunks]
    kept = client.persist(
        [dask.array.concatenate(these, axis=0, allow_unknown_chunksizes=True) for these in (rows, labels)]
    )
    wait(kept)
    for future in futures_of(kept):
        if future.status == "error":
            raise future.exception()
    return kept[0], kept[1]


def _rounds(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(f"n_estimators is expected to be a number of rounds, 1 or more, got {given!r}")
    return given


def _parameters(hyperparams: dict[str, Any], classes: Optional[list[str]]) -> dict[str, Any]:
    if classes is None:
        hyperparams.setdefault("objective", "reg:squarederror")
    elif len(classes) == 2:
        hyperparams.setdefault("objective", "binary:logistic")
    else:
        hyperparams.setdefault("objective", "multi:softprob")
        hyperparams.setdefault("num_class", len(classes))
    return hyperparams


def _check_parameters(parameters: dict[str, Any], sample: Sequence[float], classes: Optional[list[str]]) -> None:
    """Refuse what XGBoost does not know, which it only warns of, or cannot use, by training a round of one row."""
    import numpy
    import xgboost

    labels = [sample[-1]] if classes is None else list(range(len(classes)))
    matrix = xgboost.DMatrix(numpy.array([sample[:-1]] * len(labels), "float32"), numpy.array(labels, "float32"))
    # The workers have the devices.
    tried = {name: value for name, value in parameters.items() if name not in ("device", "nthread")}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            booster = xgboost.train({**tried, "validate_parameters": True, "verbosity": 1}, matrix, num_boost_round=1)
        except (xgboost.core.XGBoostError, TypeError, ValueError) as error:
            reason = str(error).strip().partition("\nStack trace")[0]
            raise ValueError(f"XGBoost refuses the hyperparameters: {reason}") from error
    for warning in heard:
        found = re.search(r"Parameters: \{ (.+?) \} are not used", str(warning.message))
        if found is not None:
            unknown = [name.strip(' "') for name in found[1].split(",")]
            known = {*_names(json.loads(booster.save_config())), *_ALIASES}
            close = difflib.get_close_matches(unknown[0], sorted(known), 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"XGBoost does not know the hyperparameter {', '.join(map(repr, unknown))}{hint}")


def _names(config: Any) -> Iterator[str]:
    """The names of the parameters in a booster's configuration, at any depth."""
    if isinstance(config, dict):
        for name, value in config.items():
            yield name
            yield from _names(value)
    elif isinstance(config, list):
        for value in config:
            yield from _names(value)


def _boost(client: Any, rows: Any, labels: Any, hyperparams: dict[str, Any], rounds: int) -> Any:
    import xgboost.dask

    most = {"max_bin": hyperparams["max_bin"]} if "max_bin" in hyperparams else {}
    matrix = xgboost.dask.DaskQuantileDMatrix(client, rows, labels, **most)
    return xgboost.dask.train(client, hyperparams, matrix, num_boost_round=rounds)["booster"]


def _store(
    connection: Any,
    project: str,
    booster: Any,
    task: str,
    features: list[str],
    classes: Optional[list[str]],
    sample: Sequence[float],
    deploy: Optional[bool],
) -> dict[str, Any]:
    import numpy

    (expected,) = booster.inplace_predict(numpy.array([sample], "float32")).tolist()
    row = connection.wait(
        connection.asynchronous.import_model(
            project,
            booster,
            task=task,
            features=features,
            classes=classes,
            sample=[None if math.isnan(value) else value for value in sample],
            expected=expected,
            deploy=deploy,
        )
    )
    return dict(row)
