"""Training across machines: XGBoost on a Dask cluster, each worker reading its share of a table through the driver.

Of a sharded table the workers read the shards, each slot from the server that has it. No row is read twice or left out
while slots move: the map is read before and after the shards' snapshots are taken, and is the same.

Needs `dask`, `distributed` and `xgboost`, here and on the workers, and `howdah` on the workers too.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple, Optional

from howdah import _features, dbapi
from howdah._features import quoted as _quoted

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
# A partitioned table is cut as its largest partition is. A key of one column names rows, and says nothing of new ones.
_RELATION = """
    SELECT c.oid, greatest(c.reltuples, 0)::float8, CASE
        WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid)
        WHEN c.relkind = 'p' THEN (
            SELECT coalesce(max(pg_catalog.pg_relation_size(p.relid)), 0)
            FROM pg_catalog.pg_partition_tree(c.oid) p WHERE p.isleaf)
        END / pg_catalog.current_setting('block_size')::bigint,
        c.relname::text,
        ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i
            JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL
                AND a.atttypid::regtype::text
                    IN ('smallint', 'integer', 'bigint', 'text', 'character varying', 'character', 'uuid'))
    FROM pg_catalog.pg_class c WHERE c.oid = %s::regclass
"""
_IS_SHARDED = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.to_regnamespace('howdah_shards')
        AND relname = '_slots')
"""
_MAP = """
    SELECT howdah_shards.map_version(), s.shard, n.nspname::text, s.slot_name
    FROM howdah_shards._slots s JOIN pg_catalog.pg_class c ON c.oid = s.slot_relation
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE s.relation = %s ORDER BY s.shard, s.slot
"""
# How the hub reaches a shard: a connection string, with the login of the role that asks, as far as it may see that; and
# whether that has a password.
_ADDRESS = r"""
    SELECT pg_catalog.string_agg(pg_catalog.format('%%s=''%%s''', o.option_name,
            pg_catalog.replace(pg_catalog.replace(o.option_value, '\', '\\'), '''', '\''')), ' '),
        pg_catalog.bool_or(o.option_name = 'password')
    FROM (
        SELECT x.* FROM pg_catalog.pg_foreign_server s, pg_catalog.pg_options_to_table(s.srvoptions) x
        WHERE s.srvname = %s
        UNION ALL
        SELECT x.* FROM (
            SELECT coalesce(m.umoptions, ARRAY['user=' || current_user]) AS login FROM pg_catalog.pg_user_mappings m
            WHERE m.srvname = %s AND m.usename IN (current_user, 'public')
            ORDER BY m.usename = current_user DESC LIMIT 1
        ) m, pg_catalog.pg_options_to_table(m.login) x
    ) o
    WHERE o.option_name IN ('host', 'hostaddr', 'port', 'dbname', 'user', 'password', 'sslmode', 'sslrootcert',
        'sslcert', 'sslkey', 'connect_timeout')
"""
# Of the caller's options those that are of the hub alone.
_OF_HUB = ("host", "port", "database", "user", "password", "service")


# In a query: FROM and WHERE of a piece. No name has this character.
_ROWS = "\0"


class _Source(NamedTuple):
    """Where workers read: how to connect, and the snapshot to see."""

    dsn: Optional[str]
    options: dict[str, Any]
    snapshot: str


class _Piece(NamedTuple):
    """A relation of a source, as it stands behind FROM."""

    source: int
    relation: str
    # None of a relation that has no pages of its own, as a view.
    pages: Optional[int]


class _Table(NamedTuple):
    """What the server says of a relation."""

    # Of each column its type, and the type's category.
    columns: dict[str, tuple[str, str]]
    oid: int
    name: str
    # By the last ANALYZE.
    rows: float
    pages: Optional[int]
    # Columns that name a row alone.
    keys: list[str]


class _Recipe(NamedTuple):
    """What is read of a row, and what is made of it."""

    # The SQL of the raw features, the label and the weight.
    columns: str
    steps: list[_features.Step]
    weighs: bool


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
    preprocess: Optional[Mapping[str, Any]] = None,
    shards: Optional[Mapping[str, str]] = None,
    deploy: Optional[bool] = None,
    **options: Any,
) -> dict[str, Any]:
    """Train XGBoost on the workers of a Dask cluster, and store the model as a project's on the server.

    Every worker connects to the server by itself and reads its chunks of the table as columns; the rows pass through
    neither this process nor the scheduler. All see one snapshot: rows that are changed meanwhile count as they were
    when the training began. Columns become features as by `pgml.train`: texts are categories, a date makes several
    features. The model is imported by `pgml.import_model`, which holds the prediction of one row against XGBoost's.

    Of a table that `howdah_shards` has divided, the server is the hub: the workers read the shards directly and at the
    same time, each shard mostly by workers of its own. Each shard has a snapshot of its own.

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
        The columns to predict from: numbers, booleans, texts, enums, dates, timestamps, times and intervals. By default
        all but `y_column_name` that say something: keys, texts that differ in most rows, columns without a value and
        those of other types are left out with a warning. NULL is a missing value.
    where : str, optional
        An SQL condition for the rows to train from; the other rows are left for `pgml.evaluate`.
    split_by : str, optional
        A column whose hash decides to which chunk a row belongs. Needed for a view; a table is divided by its pages.
    chunks : int, optional
        The number of chunks: by default one per 250,000 rows, and at least four per worker.
    preprocess : mapping, optional
        What is done to columns, as in `pgml.train`: `{"city": {"encode": "target"}, "area": {"impute": "median"}}`.
        Of the roles there are `feature`, `ignore` and `weight`. It is learnt from all rows that are read.
    shards : mapping of str to str, optional
        How the workers reach the shards, by their names: a `dsn` each. By default as the hub does, with the role's user
        mappings there, or `password` where the role may not see theirs.
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
        Another task, a column that the relation does not have or that cannot be a feature, what `preprocess` does not
        take, no rows, one class, or a hyperparameter that XGBoost does not know or refuses.
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
    asked = _features.check_preprocess(preprocess or {})
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(dbapi.connect(dsn, autocommit=True, **options))
        table = _table(connection, relation_name)
        wanted = _wanted(table, relation_name, y_column_name, features, asked)
        holders, sources, pieces, count = _sources(
            stack, connection, (dsn, options), table, relation_name, shards or {}
        )
        target = _quoted(y_column_name)
        condition = f"{target} IS NOT NULL" + (f" AND ({where})" if where else "")
        reader = _Reader(client, holders, sources, pieces, condition)
        classes = _classes(reader, y_column_name, table) if task == "classification" else None
        label = _label(y_column_name, table, classes)
        columns = _columns(reader, table, wanted, asked, features is not None, label)
        weight = next((name for name, spec in asked.items() if spec.get("role") == "weight"), None)
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        parts = _chunks(pieces, relation_name, split_by, chunks or max(4 * workers, round(count / _CHUNK_ROWS)))
        recipe = _learn(reader, parts, columns, label, weight)
        sample = _sample(reader, columns, recipe)
        parameters = _parameters(hyperparams, classes)
        kinds = [kind for step in recipe.steps for kind in step.kinds]
        _check_parameters(parameters, sample, kinds, classes)
        read = _read_all(reader, parts, recipe)
        # The snapshots are needed no more.
        for holder in holders:
            holder.rollback()
        booster = _boost(client, read, kinds, parameters, rounds)
        said = (y_column_name, *table.columns[y_column_name])
        names = None if classes is None else list(classes.values())
        booster.set_attr(pgml=_features.description(task, said, names, [column for column, _ in columns], recipe.steps))
        return _store(connection, project_name, booster, sample, kinds, deploy)


class _Reader:
    """What asks all pieces of a relation, on the workers."""

    def __init__(
        self, client: Any, holders: Sequence[Any], sources: Sequence[_Source], pieces: Sequence[_Piece], condition: str
    ) -> None:
        self.client = client
        self.holders = holders
        self.sources = sources
        self.pieces = pieces
        self.condition = condition

    def ask(self, queries: Sequence[str]) -> list[list[list[Any]]]:
        """The rows of queries, of each piece, with its rows in place of `_ROWS`."""
        futures = []
        for piece in self.pieces:
            rows = f"FROM {piece.relation} WHERE {self.condition}"
            filled = [query.replace(_ROWS, rows) for query in queries]
            futures.append(self.submit(piece.source, _ask, self.sources[piece.source], filled))
        return list(self.client.gather(futures))

    def submit(self, source: int, function: Any, *arguments: Any) -> Any:
        """A future of a function, on one of the workers that read this source."""
        workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        shards = len(self.sources)
        own = workers[source::shards] if len(workers) >= shards else [workers[source % len(workers)]]
        return self.client.submit(function, *arguments, pure=False, workers=own, allow_other_workers=True)

    def read(self, part: tuple[_Piece, str], function: Any, columns: str, *arguments: Any) -> Any:
        """A future of a function of the columns of a chunk."""
        piece, chunk = part
        query = f"SELECT {columns} FROM {piece.relation} WHERE {self.condition} AND {chunk}"
        return self.submit(piece.source, function, self.sources[piece.source], query, *arguments)

    def first(self, columns: str) -> Any:
        """The columns of a row, the first of any piece."""
        for piece in self.pieces:
            query = f"SELECT {columns} FROM {piece.relation} WHERE {self.condition} LIMIT 1"
            found = self.holders[piece.source].fetch_columns(query)
            if found.num_rows:
                return found
        raise ValueError("there is no row to train from")


def _session(source: _Source) -> Any:
    """A session that sees the source's snapshot."""
    connection = dbapi.connect(source.dsn, **source.options)
    connection.isolation_level = "repeatable_read"
    connection.readonly = True
    connection.execute(f"SET TRANSACTION SNAPSHOT '{source.snapshot}'")
    return connection


def _ask(source: _Source, queries: Sequence[str]) -> list[list[Any]]:
    """On a worker: the rows of queries."""
    with _session(source) as connection:
        return [[tuple(row) for row in connection.execute(query).fetchall()] for query in queries]


def _raw(column: Any, step: _features.Step) -> Any:
    """Raw values as they were read: a number less its origin, or the bucket of a text."""
    import numpy

    buckets = step.column.buckets
    if not buckets:
        with numpy.errstate(over="ignore"):
            values = numpy.asarray(column)
            return (values - step.origin if step.origin else values).astype("float32")
    texts = numpy.asarray(column).astype(object)
    known = {text: float(_features.bucket(text, buckets)) for text in set(texts.tolist()) if text is not None}
    return numpy.array([known.get(text, math.nan) for text in texts.tolist()], "float32")


def _seen(source: _Source, query: str, steps: Sequence[_features.Step]) -> list[tuple[Any, Any]]:
    """On a worker: the raw values of a chunk, each once, and how often each is met."""
    import numpy

    with _session(source) as connection:
        columns = connection.fetch_columns(query)
        return [numpy.unique(_raw(columns[str(place)], step), return_counts=True) for place, step in enumerate(steps)]


def _made(columns: Any, steps: Sequence[_features.Step]) -> Any:
    """The matrix of what steps make of columns."""
    import numpy

    matrix = numpy.zeros((columns.num_rows, sum(step.width for step in steps)), "float32")
    start = 0
    for place, step in enumerate(steps):
        step.apply(_raw(columns[str(place)], step), matrix[:, start : start + step.width])
        start += step.width
    return matrix


def _read(source: _Source, query: str, steps: Sequence[_features.Step], weighs: bool) -> Any:
    """On a worker: one chunk, as a matrix of its features and the columns of its labels and weights."""
    import numpy

    with _session(source) as connection:
        columns = connection.fetch_columns(query)
        labels = numpy.array(columns[str(len(steps))], "float32")
        weights = numpy.array(columns[str(len(steps) + 1)], "float32") if weighs else None
        return _made(columns, steps), labels, weights


def _table(connection: Any, relation: str) -> _Table:
    ((oid, rows, pages, name, keys),) = connection.execute(_RELATION, (relation,)).fetchall()
    columns = {name: (kind, category) for name, kind, category in connection.execute(_COLUMNS, (oid,))}
    return _Table(columns, oid, name, rows, pages, keys)


def _wanted(
    table: _Table, relation: str, target: str, features: Optional[Sequence[str]], asked: Mapping[str, Any]
) -> list[str]:
    """The names of the columns that may be features."""
    roles = {name: spec.get("role", "feature") for name, spec in asked.items()}
    weights = [name for name, role in roles.items() if role == "weight"]
    for name in [*(features or ()), target, *(name for name in asked if name != "*")]:
        if name not in table.columns:
            raise ValueError(f"{relation} has no column {name!r}: it has {', '.join(map(repr, table.columns))}")
    if len(weights) > 1:
        raise ValueError(f"one column has the role weight, not {' and '.join(map(repr, weights))}")
    if weights and table.columns[weights[0]][1] != "N":
        raise ValueError(f"{weights[0]!r} cannot be the weight, because it is no number")
    wanted = list(features) if features is not None else [name for name in table.columns if name != target]
    if target in wanted or target in asked:
        raise ValueError(f"{target!r} is the label, so it cannot be a feature")
    wanted = [name for name in wanted if roles.get(name, "feature") == "feature"]
    others = [name for name in wanted if not _features.is_feature_type(*table.columns[name])]
    refused = [f"{name!r} ({table.columns[name][0]})" for name in others if features is not None or name in asked]
    if refused:
        raise ValueError(
            f"columns {', '.join(refused)} of {relation} cannot be features: convert them in a view, or leave them out"
        )
    left_out = {name: f"type {table.columns[name][0]}" for name in others}
    if features is None:
        keys = {name: "a key" for name in wanted if name in table.keys and name not in asked}
        # Who has nothing but a key wants to learn from it.
        if len(keys) + len(left_out) < len(wanted):
            left_out |= keys
    wanted = [name for name in wanted if name not in left_out]
    if not wanted:
        raise ValueError(f"{relation} has no column beside {target!r} to predict from")
    _tell(left_out)
    return wanted


def _tell(left_out: Mapping[str, str]) -> None:
    if left_out:
        told = ", ".join(f'"{name}" ({why})' for name, why in left_out.items())
        warnings.warn(f"columns left out: {told}; name them by `features` or in `preprocess` to use them", stacklevel=4)


def _hold(stack: contextlib.ExitStack, dsn: Optional[str], options: Mapping[str, Any], locked: Sequence[str]) -> Any:
    """A session that holds a snapshot while workers read, and keeps these tables from being dropped."""
    connection = stack.enter_context(dbapi.connect(dsn, **options))
    # What failed in it has been told.
    stack.callback(connection.rollback)
    connection.isolation_level = "repeatable_read"
    connection.readonly = True
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    if locked:
        connection.execute(f"LOCK TABLE {', '.join(locked)} IN ACCESS SHARE MODE")
    return connection


def _snapshot(holder: Any, dsn: Optional[str], options: Mapping[str, Any]) -> _Source:
    ((snapshot,),) = holder.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()
    return _Source(dsn, dict(options), snapshot)


def _sources(
    stack: contextlib.ExitStack,
    connection: Any,
    login: tuple[Optional[str], Mapping[str, Any]],
    table: _Table,
    relation: str,
    shards: Mapping[str, str],
) -> tuple[list[Any], list[_Source], list[_Piece], float]:
    """Sessions that hold snapshots, where workers read, what, and about how many rows there are."""
    ((may_be_sharded,),) = connection.execute(_IS_SHARDED).fetchall()
    for _ in range(5):
        mapped = connection.execute(_MAP, (table.oid,)).fetchall() if may_be_sharded else []
        if not mapped:
            if shards:
                raise ValueError(f"{relation} is not a sharded table of this server, and shards are named")
            holder = _hold(stack, *login, [])
            return [holder], [_snapshot(holder, *login)], [_Piece(0, relation, table.pages)], table.rows
        with contextlib.ExitStack() as trial:
            try:
                found = _of_shards(trial, connection, login[1], table, mapped, shards)
            except dbapi.Error:
                if connection.execute(_MAP, (table.oid,)).fetchall() == mapped:
                    raise
                continue
            # What the snapshots see is where this map says, if it still says so.
            if connection.execute(_MAP, (table.oid,)).fetchall() == mapped:
                stack.push(trial.pop_all())
                return found
    raise RuntimeError(f"slots of {relation} were moved whenever it was read: try again later")


def _of_shards(
    stack: contextlib.ExitStack,
    connection: Any,
    options: Mapping[str, Any],
    table: _Table,
    mapped: Sequence[Any],
    shards: Mapping[str, str],
) -> tuple[list[Any], list[_Source], list[_Piece], float]:
    names = sorted({shard for _, shard, _, _ in mapped})
    unknown = sorted(set(shards) - set(names))
    if unknown:
        raise ValueError(f"no slot is on a shard {unknown[0]!r}: there are {', '.join(map(repr, names))}")
    holders, sources, pieces, rows = [], [], [], 0.0
    own = {name: value for name, value in options.items() if name not in _OF_HUB}
    for place, shard in enumerate(names):
        dsn, login = shards.get(shard), own
        if dsn is None:
            ((dsn, has_password),) = connection.execute(_ADDRESS, (shard, shard)).fetchall()
            if not has_password and "password" in options:
                login = own | {"password": options["password"]}
        slots = [f"{_quoted(schema)}.{_quoted(slot)}" for _, on, schema, slot in mapped if on == shard]
        holder = _hold(stack, dsn, login, slots)
        sources.append(_snapshot(holder, dsn, login))
        holders.append(holder)
        for slot in slots:
            ((_, count, pages, _, _),) = holder.execute(_RELATION, (slot,)).fetchall()
            pieces.append(_Piece(place, f"{slot} AS {_quoted(table.name)}", pages))
            rows += count
    return holders, sources, pieces, rows


def _classes(reader: _Reader, target: str, table: _Table) -> dict[str, str]:
    """The names of the classes by what tells them apart, in their order."""
    key = _class(target, table)
    answers = reader.ask([f'SELECT {key}, max({_quoted(target)}::text COLLATE "C") {_ROWS} GROUP BY 1'])
    found: dict[str, str] = {}
    for same, name in itertools.chain.from_iterable(rows for (rows,) in answers):
        found[same] = max(found.get(same, name), name)
    if len(found) < 2:
        raise ValueError(f"a classification needs two classes, but {target!r} has {len(found)}")
    order = sorted(found, key=float if table.columns[target][1] == "N" else str.encode)
    return {same: found[same] for same in order}


def _class(name: str, table: _Table) -> str:
    """The SQL of what tells a row's class from others: a text, one for numbers that are equal, as 1.0 and 1.00."""
    type_name, category = table.columns[name]
    value = _quoted(name)
    if category == "N" and type_name not in ("smallint", "integer", "bigint", "oid"):
        number = "real" if type_name == "real" else "float8"
        # With 0 added, -0 is 0.
        value = f"({value}::{number} + 0::{number})"
    return f'{value}::text COLLATE "C"'


def _label(name: str, table: _Table, classes: Optional[Iterable[str]]) -> str:
    if classes is None:
        return f"{_quoted(name)}::real"
    literals = ", ".join(map(_features.literal, classes))
    return f"(pg_catalog.array_position(ARRAY[{literals}]::text[], {_class(name, table)}) - 1)::real"


def _chunks(pieces: Sequence[_Piece], relation: str, split_by: Optional[str], count: int) -> list[tuple[_Piece, str]]:
    """Pieces and conditions on their rows: each row meets one of them. The shards take turns."""
    pages = sum(piece.pages or 0 for piece in pieces)
    cut: dict[int, list[tuple[_Piece, str]]] = {}
    for piece in pieces:
        share = count if len(pieces) == 1 else max(1, round(count * (piece.pages or 0) / max(pages, 1)))
        cut.setdefault(piece.source, []).extend(
            (piece, part) for part in _parts(piece.pages, relation, split_by, share)
        )
    turns = itertools.zip_longest(*cut.values())
    return [chunk for turn in turns for chunk in turn if chunk is not None]


def _parts(pages: Optional[int], relation: str, split_by: Optional[str], count: int) -> list[str]:
    """The conditions of the chunks: each row meets one of them."""
    if split_by is not None:
        key = f"pg_catalog.hashtextextended({_quoted(split_by)}::text, 0)"
        return [f"coalesce(({key} & 9223372036854775807) % {count}, 0) = {place}" for place in range(count)]
    if pages is None:
        raise ValueError(f"{relation} is not a table, so it cannot be divided by pages: name a column by `split_by`")
    bounds = sorted({pages * place // count for place in range(1, count)} - {0})
    starts = [None, *bounds]
    ends = [*bounds, None]
    return [
        " AND ".join(f"ctid {sign} '({page},0)'" for sign, page in ((">=", start), ("<", end)) if page is not None)
        or "true"
        for start, end in zip(starts, ends)
    ]


# What stands beside a column: its categories in the rows, if it has any.
_Grouped = tuple[_features.Column, Optional[list[_features.Group]]]


def _columns(
    reader: _Reader, table: _Table, wanted: Sequence[str], asked: Mapping[str, Any], stays: bool, label: str
) -> list[_Grouped]:
    """The columns that are learnt from, with what the rows hold of them: categories, and the extents of numbers."""
    columns = []
    for name in wanted:
        type_name, category = table.columns[name]
        encoded = asked.get(name, {}).get("encode") is not None
        spec = _features.spec_of(asked, name, category in ("S", "E") or encoded)
        columns.append(_features.Column(name, type_name, category, spec))
        _features.check_spec(columns[-1])
    grouped = [column for column in columns if column.is_category and not column.buckets]
    counts = [f"count({_quoted(column.name)})" for column in columns]
    wide = [f"nullif({value}, 'NaN')" for column in columns if column.is_wide for value in column.values()]
    extents = [
        part.replace("@", value)
        for value in wide
        for part in (
            "min(@)",
            "max(@)",
            "bool_or(CASE WHEN abs(@) > 16777216 AND abs(@) < 3e38 THEN @::real::float8 <> @ END)",
        )
    ]
    queries = [f"SELECT count(*), {', '.join([*counts, *extents])} {_ROWS}"]
    queries += [
        "SELECT w, count(*), coalesce(sum(l::float8), 0) "
        f"FROM (SELECT {column.values()[0]} AS w, {label} AS l {_ROWS}) s GROUP BY w "
        "ORDER BY count(*) DESC LIMIT 65537"
        for column in grouped
    ]
    answers = reader.ask(queries)
    numbers = [answer[0][0] for answer in answers]
    rows = sum(found[0] for found in numbers)
    if not rows:
        raise ValueError(f"{table.name} has no row to train from")
    groups = {column.name: _together(answer[place] for answer in answers) for place, column in enumerate(grouped, 1)}
    known = [sum(found[1 + place] for found in numbers) for place in range(len(columns))]
    spans = iter(_spans(numbers, 1 + len(columns)))
    kept: list[_Grouped] = []
    left_out = {}
    for column, count in zip(columns, known):
        if column.is_wide:
            column.know_numbers([next(spans) for _ in column.values()])
        of_column = groups.get(column.name)
        why = None if stays or column.name in asked else column.says_nothing(rows, count, of_column)
        if why is not None:
            left_out[column.name] = why
            continue
        if of_column is not None:
            column.know_categories(of_column)
        kept.append((column, of_column))
    if not kept:
        raise ValueError(f"no column of {table.name} says anything: {left_out}")
    _tell(left_out)
    return kept


def _together(answers: Iterable[Sequence[Any]]) -> list[_features.Group]:
    """The categories of several pieces."""
    found: dict[Optional[str], tuple[int, float]] = {}
    for name, rows, labels in itertools.chain.from_iterable(answers):
        before = found.get(name, (0, 0.0))
        found[name] = (before[0] + rows, before[1] + labels)
    return [_features.Group(name, rows, labels) for name, (rows, labels) in found.items()]


def _spans(numbers: Sequence[Any], start: int) -> Iterator[tuple[float, float, bool]]:
    """The extents of several pieces: least and greatest, and whether digits are lost."""
    for place in range(start, len(numbers[0]), 3):
        least = [found[place] for found in numbers if found[place] is not None]
        greatest = [found[place + 1] for found in numbers if found[place + 1] is not None]
        yield min(least, default=0.0), max(greatest, default=0.0), any(found[place + 2] for found in numbers)


def _learn(
    reader: _Reader, parts: Sequence[tuple[_Piece, str]], columns: Sequence[_Grouped], label: str, weight: Optional[str]
) -> _Recipe:
    """What is read, and what is made of it, learnt from all rows."""
    made = [(feature, groups) for column, groups in columns for feature in column.features()]
    steps = [_features.Step(feature, groups) for feature, groups in made]
    selected = [feature.sql for feature, _ in made]
    learning = [place for place, step in enumerate(steps) if step.needs_values or step.column.buckets]
    if learning:
        read = ", ".join(f'{selected[place]} AS "{number}"' for number, place in enumerate(learning))
        futures = [reader.read(part, _seen, read, [steps[place] for place in learning]) for part in parts]
        for place, found in zip(learning, zip(*reader.client.gather(futures))):
            steps[place].see(*_merged(found))
    for step in steps:
        step.settle()
    selected.append(label)
    if weight is not None:
        selected.append(f"coalesce({_quoted(weight)}::real, 'NaN')")
    return _Recipe(", ".join(f'{sql} AS "{place}"' for place, sql in enumerate(selected)), steps, weight is not None)


def _merged(found: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The values of several chunks, each once, and how often each is met."""
    import numpy

    values, places = numpy.unique(numpy.concatenate([values for values, _ in found]), return_inverse=True)
    counts = numpy.bincount(places.ravel(), numpy.concatenate([counts for _, counts in found]), len(values))
    return values, counts.astype("int64")


def _sample(reader: _Reader, columns: Sequence[_Grouped], recipe: _Recipe) -> tuple[Any, float, list[Any]]:
    """A row: as the model sees it, its label, and as SQL gives it."""
    import numpy

    plain = [(column, value) for column, _ in columns for value in column.values()]
    # Of one query, since another may begin with another row.
    selected = [f'{value} AS "plain {place}"' for place, (_, value) in enumerate(plain)]
    read = reader.first(", ".join([*selected, recipe.columns]))
    row = [numpy.asarray(read[f"plain {place}"]).tolist()[0] for place in range(len(plain))]
    for place, ((column, _), value) in enumerate(zip(plain, row)):
        if (column.is_category and not column.knows(value)) or (value is not None and value != value):
            row[place] = None
    return _made(read, recipe.steps), float(numpy.asarray(read[str(len(recipe.steps))])[0]), row


def _read_all(reader: _Reader, parts: Sequence[tuple[_Piece, str]], recipe: _Recipe) -> tuple[Any, Any, Any]:
    """Let the workers read; the rows stay with them."""
    import dask
    import dask.array
    from dask.distributed import wait

    futures = [reader.read(part, _read, recipe.columns, recipe.steps, recipe.weighs) for part in parts]
    wait(futures)
    for future in futures:
        if future.status == "error":
            raise future.exception()
    chunks = [dask.delayed(future) for future in futures]
    width = sum(step.width for step in recipe.steps)
    arrays = [
        dask.array.concatenate(
            [dask.array.from_delayed(chunk[place], shape, dtype="float32") for chunk in chunks],
            axis=0,
            allow_unknown_chunksizes=True,
        )
        for place, shape in enumerate([(math.nan, width), (math.nan,), (math.nan,)][: 3 if recipe.weighs else 2])
    ]
    kept = reader.client.persist(arrays)
    wait(kept)
    return kept[0], kept[1], kept[2] if recipe.weighs else None


def _rounds(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ValueError(f"n_estimators is expected to be a number of rounds, 1 or more, got {given!r}")
    return given


def _parameters(hyperparams: dict[str, Any], classes: Optional[Sized]) -> dict[str, Any]:
    if classes is None:
        hyperparams.setdefault("objective", "reg:squarederror")
    elif len(classes) == 2:
        hyperparams.setdefault("objective", "binary:logistic")
    else:
        hyperparams.setdefault("objective", "multi:softprob")
        hyperparams.setdefault("num_class", len(classes))
    return hyperparams


def _typed(kinds: Sequence[str]) -> dict[str, Any]:
    """What a matrix is told of its features, if some are categories."""
    return {"feature_types": list(kinds), "enable_categorical": True} if "c" in kinds else {}


def _check_parameters(
    parameters: dict[str, Any],
    sample: tuple[Any, float, list[Any]],
    kinds: Sequence[str],
    classes: Optional[Sized],
) -> None:
    """Refuse what XGBoost does not know, which it only warns of, or cannot use, by training a round of one row."""
    import numpy
    import xgboost

    row, label, _ = sample
    labels = [label] if classes is None else list(range(len(classes)))
    rows = numpy.repeat(row, len(labels), axis=0)
    matrix = xgboost.DMatrix(rows, numpy.array(labels, "float32"), **_typed(kinds))
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


def _boost(
    client: Any, read: tuple[Any, Any, Any], kinds: Sequence[str], hyperparams: dict[str, Any], rounds: int
) -> Any:
    import xgboost.dask

    rows, labels, weights = read
    most = {"max_bin": hyperparams["max_bin"]} if "max_bin" in hyperparams else {}
    matrix = xgboost.dask.DaskQuantileDMatrix(client, rows, labels, weight=weights, **most, **_typed(kinds))
    return xgboost.dask.train(client, hyperparams, matrix, num_boost_round=rounds)["booster"]


def _store(
    connection: Any,
    project: str,
    booster: Any,
    sample: tuple[Any, float, list[Any]],
    kinds: Sequence[str],
    deploy: Optional[bool],
) -> dict[str, Any]:
    import xgboost

    row, _, values = sample
    (expected,) = booster.predict(xgboost.DMatrix(row, **_typed(kinds))).tolist()
    stored = connection.wait(
        connection.asynchronous.import_model(project, booster, sample=values, expected=expected, deploy=deploy)
    )
    return dict(stored)
