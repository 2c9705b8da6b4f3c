"""The connection's methods of columns and matrices: results as columns, and models' predictions."""

from __future__ import annotations

import array
import struct
import warnings
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Optional

from . import _core, exceptions, frames, named, utils

if TYPE_CHECKING:
    from .connection import Connection

# An array of `real` takes eight bytes a number on the wire, and a message has at most one gigabyte.
_CELLS = 100_000_000

_PREDICT = """\
SELECT pgml.predict_batch(id, $2) FROM pgml.deployed_models WHERE name = $1"""

_PREDICT_UNSEEN = """\
SELECT coalesce(array_agg(prediction), '{}') FROM pgml.predict_batch($1::text, $2::real[]) prediction"""

# The function takes one row at a time: the server cuts the matrix into its rows.
_PROBABILITIES = """\
SELECT coalesce(
    (SELECT array_agg(pgml.predict_proba(id, $2[number:number]))
        FROM generate_series(1, array_length($2::real[], 1)) number),
    '{}')
FROM pgml.deployed_models WHERE name = $1"""

_PROBABILITIES_UNSEEN = """\
SELECT coalesce(array_agg(pgml.predict_proba($1::text, $2[number:number])), '{}')
FROM generate_series(1, array_length($2::real[], 1)) number"""

# So many classes are reckoned with where the answer must fit into a message.
_CLASSES = 100

# An explanation may take a tenth of a millisecond, and has a number a class and feature: so many are seconds of work.
_EXPLAINED_CELLS = 1_000_000

# A table's values become rows on the server, which take more memory there than a matrix.
_NAMED_CELLS = 10_000_000

# The same for explanations, which take a tenth as many.
_EXPLAINED_WIDTH = 100


async def fetch_columns(
    self: Connection[Any],
    query: str,
    *args: Any,
    dictionary: Any = (),
    timeout: Optional[float] = None,
    **values: Any,
) -> _core.Columns:
    """Run a query, and give its result as columns.

    The values go from the wire into Arrow's buffers without becoming Python objects. NULLs are in validity bitmaps.
    Numbers, bool, date, timestamps, time, interval (a duration: a month is 30 days, a year 365), uuid, bytea, text,
    json and jsonb (text) have Arrow types of their own, a numeric declared with its precision is a decimal, arrays of
    one dimension are lists and composites structs; the values of other types are text as the server writes it. Codecs
    of the connection are not used.

    Parameters
    ----------
    query, args, timeout, values
        As in :meth:`fetch`.
    dictionary : sequence of str
        The names of text columns that keep each different text once (dictionary encoding).

    Returns
    -------
    Columns
        The columns. Arrow's libraries take them without copying (`pyarrow.table(columns)`,
        `polars.DataFrame(columns)`), and NumPy takes each column (`numpy.asarray(columns["delay"])`).

    Examples
    --------
    >>> columns = await connection.fetch_columns("select id, delay, carrier from flights", dictionary=["carrier"])
    >>> numpy.asarray(columns["delay"]).mean()
    12.5
    """
    self._check_open()
    if values:
        query, args = named.bind(query, values, args)
    statement = await self._statements.get(query, timeout)
    statement.attach()
    try:
        with self._callbacks.logged(query, args, timeout):
            return await self._protocol.columns(statement, args, list(dictionary), timeout)  # type: ignore[no-any-return]
    finally:
        statement.detach()
        self._statements.release(statement)


async def copy_columns_to_table(
    self: Connection[Any],
    table_name: str,
    *,
    source: Any,
    columns: Any = None,
    schema_name: Optional[str] = None,
    timeout: Optional[float] = None,
) -> str:
    """Copy columns to a table, in binary, without making Python objects of their values.

    Parameters
    ----------
    table_name : str
        The table.
    source : object with Arrow's C interface
        A table of pyarrow, polars or pandas, a record batch, or the result of :meth:`fetch_columns`.
    columns : list of str, optional
        The table's columns, in the order of the source's; by default those of the source's names.
    schema_name : str, optional
        The table's schema.
    timeout : float, optional
        Seconds for the whole operation.

    Returns
    -------
    str
        The status, as `COPY 100`.

    Raises
    ------
    TypeError
        A column has a type that the table's column does not accept.
    OverflowError
        A value is out of the range of its column.

    Examples
    --------
    >>> await connection.copy_columns_to_table("flights", source=pyarrow.table({"id": [1, 2]}))
    'COPY 2'
    """
    self._check_open()
    lent = _core.ColumnSource(source)
    names = lent.names if columns is None else columns
    listed = ", ".join(utils._quote_ident(name) for name in names)
    table = utils._quote_ident(table_name)
    if schema_name:
        table = f"{utils._quote_ident(schema_name)}.{table}"
    probe = await self._prepare(f"SELECT {listed} FROM {table} LIMIT 1", name="")
    statement = f"COPY {table} ({listed}) FROM STDIN (FORMAT binary)"
    with self._callbacks.logged(statement, (), timeout):
        return str(await self._protocol.copy_in(statement, None, None, lent, probe._state, timeout))


async def predict(self: Connection[Any], project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
    """Predict for each row of a matrix or a table, by the project's deployed model on the server.

    Parameters
    ----------
    project_name : str
        The project.
    features : matrix of float32 or float64, or table
        A NumPy array, or anything with Python's buffer interface: a row for each prediction, a column for each
        feature, in the order of the training. NaN is a missing value. Or a table of pandas, polars or pyarrow, or the
        result of :meth:`fetch_columns`: its columns are found by their names, in any order, other columns are
        ignored, and a column may have texts or dates where the feature has.
    timeout : float, optional
        Seconds for each round trip; there is one for each hundred million numbers of a matrix, and one for each ten
        million values of a table.

    Returns
    -------
    numpy.ndarray or array.array of float32
        The predictions, in order; NumPy's where NumPy is installed.

    Raises
    ------
    PostgresError
        There is no such project or model, or it has another number of features.
    TypeError, ValueError
        `features` is neither a matrix nor a table of that kind, or the table lacks a column.

    Examples
    --------
    >>> await connection.predict("flights", matrix)
    array([12.5, 3.25], dtype=float32)
    """
    self._check_open()
    _check_project(project_name)
    frame = frames.named(features)
    if frame is not None:
        query = frames.query("pgml.predict", frame)
        return _floats(b"".join([reals async for reals in _by_name(self, query, project_name, frame, 1, timeout)]))
    matrix = _matrix(features)
    rows, width = matrix.shape
    step = max(1, _CELLS // max(width, 1))
    parts = []
    for start in range(0, rows, step) if rows else [0]:
        packed = _core.pack_matrix(matrix, start, min(start + step, rows))
        reals = await _fetch_bytes(self, _PREDICT, (project_name, packed), timeout)
        if reals is None:
            # Nothing is deployed under the name, which the function says in its own words; or the role may predict,
            # but not see the project in the view.
            reals = await _fetch_bytes(self, _PREDICT_UNSEEN, (project_name, packed), timeout)
        parts.append(_core.unpack_reals(reals))
    return _floats(b"".join(parts))


async def predict_proba(
    self: Connection[Any], project_name: str, features: Any, *, timeout: Optional[float] = None
) -> Any:
    """Predict the probabilities of each class for each row of a matrix or a table.

    Parameters
    ----------
    project_name, features, timeout
        As in :meth:`predict`.

    Returns
    -------
    numpy.ndarray of float32, or list of array.array
        A row for each row of `features`, a column for each class.

    Raises
    ------
    PostgresError
        There is no such project or model, it is not one that classifies, or it has another number of features.
    TypeError, ValueError
        `features` is neither a matrix nor a table of that kind, or the table lacks a column.

    Examples
    --------
    >>> await connection.predict_proba("digits", matrix)
    array([[0.9, 0.1]], dtype=float32)
    """
    self._check_open()
    _check_project(project_name)
    frame = frames.named(features)
    if frame is not None:
        query = frames.query("pgml.predict_proba", frame)
        answers = [reals async for reals in _by_name(self, query, project_name, frame, _CLASSES, timeout)]
        return _rows_of(_floats(b"".join(answers)), frame.rows)
    matrix = _matrix(features)
    rows, width = matrix.shape
    step = _CELLS // max(width, _CLASSES)
    parts = []
    for start in range(0, rows, step) if rows else [0]:
        packed = _core.pack_matrix(matrix, start, min(start + step, rows))
        reals = await _fetch_bytes(self, _PROBABILITIES, (project_name, packed), timeout)
        if reals is None:
            reals = await _fetch_bytes(self, _PROBABILITIES_UNSEEN, (project_name, packed), timeout)
        parts.append(_core.unpack_reals(reals))
    return _rows_of(_floats(b"".join(parts)), rows)


def _rows_of(found: Any, rows: int) -> Any:
    """The probabilities `found` in so many rows."""
    classes = len(found) // rows if rows else 0
    if utils._numpy() is not None:
        return found.reshape(rows, classes)
    return [found[start : start + classes] for start in range(0, len(found), classes or 1)]


async def explain(self: Connection[Any], project_name: str, features: Any, *, timeout: Optional[float] = None) -> Any:
    """Explain the predictions for a matrix's or a table's rows by the contribution of each feature: exact SHAP values.

    The contributions of a row and its bias, the mean of the training rows, add up to the margin of the project's
    deployed model: the prediction itself in a regression, the log-odds of the second of two classes, and for several
    classes the logarithm of each class's probability, up to a constant. The margin of a forest is the probability.

    Parameters
    ----------
    project_name, features
        As in :meth:`predict`.
    timeout : float, optional
        Seconds for each round trip; there is one for each million numbers.

    Returns
    -------
    numpy.ndarray or memoryview of float32
        Of shape (rows, features + 1), or (rows, classes, features + 1) for a model of more than two classes; the
        last is the bias. NumPy's where NumPy is installed.

    Raises
    ------
    PostgresError
        There is no such project or model, it has another number of features, or it cannot be explained.
    TypeError, ValueError
        `features` is neither a matrix nor a table of that kind, or the table lacks a column.

    Examples
    --------
    >>> await connection.explain("flights", matrix)
    array([[0.5, -1.25, 12.0]], dtype=float32)
    """
    self._check_open()
    _check_project(project_name)
    frame = frames.named(features)
    if frame is not None:
        return await _explain_by_name(self, project_name, frame, timeout)
    matrix = _matrix(features)
    rows, width = matrix.shape
    step = max(1, _EXPLAINED_CELLS // (width + 1))
    parts = []
    shape: tuple[int, ...] = (rows, width + 1)
    for start in range(0, rows, step) if rows else [0]:
        packed = _core.pack_matrix(matrix, start, min(start + step, rows))
        reals = await _fetch_bytes(
            self, "SELECT pgml.explain_batch($1::text, $2::real[])", (project_name, packed), timeout
        )
        dimensions = int.from_bytes(reals[:4], "big")
        if dimensions:
            shape = (rows, *struct.unpack_from(">" + "ixxxx" * dimensions, reals, 12)[1:])
        parts.append(_core.unpack_reals(reals))
    return _shaped(b"".join(parts), shape)


def _check_project(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"expected a project's name, a str, not {type(name).__name__} {name!r}")


async def _by_name(
    connection: Connection[Any],
    query: str,
    project_name: str,
    frame: frames.Frame,
    width: int,
    timeout: Optional[float],
) -> AsyncIterator[bytes]:
    """The float32s of the answers for a table's rows; `width` is how many numbers an answer may have."""
    step = max(1, _NAMED_CELLS // max(len(frame.names), width))
    for start in range(0, frame.rows, step) if frame.rows else [0]:
        try:
            reals = await _fetch_bytes(connection, query, _args(project_name, frame, start, step), timeout)
        except exceptions.DatatypeMismatchError:
            # Where categories are numbers in the table, an imported model has their names as texts.
            named = frame.with_named_categories()
            if named is None or connection.is_in_transaction():
                raise
            query, frame = query.replace(frame.source, named.source), named
            reals = await _fetch_bytes(connection, query, _args(project_name, frame, start, step), timeout)
        except exceptions.UndefinedColumnError as error:
            raise frame.refused(error) from error
        yield _core.unpack_reals(reals)


def _args(project_name: str, frame: frames.Frame, start: int, step: int) -> tuple[Any, ...]:
    return (project_name, *frame.part(start, min(start + step, frame.rows)))


async def _explain_by_name(
    connection: Connection[Any], project_name: str, frame: frames.Frame, timeout: Optional[float]
) -> Any:
    query = frames.explanation(frame)
    classes, parts = 0, []
    async for reals in _by_name(connection, query, project_name, frame, _EXPLAINED_WIDTH, timeout):
        classes = int(struct.unpack_from("=f", reals)[0])
        parts.append(reals[4:])
    contributions = b"".join(parts)
    numbers = len(contributions) // 4
    if not frame.rows:
        return _shaped(b"", (0, len(frame.names) + 1))
    if classes > 1:
        return _shaped(contributions, (frame.rows, classes, numbers // frame.rows // classes))
    return _shaped(contributions, (frame.rows, numbers // frame.rows))


async def _fetch_bytes(connection: Connection[Any], query: str, args: tuple[Any, ...], timeout: Optional[float]) -> Any:
    statement = await connection._statements.get(query, timeout)
    connection.add_log_listener(_pass_on)
    try:
        with connection._callbacks.logged(query, args, timeout):
            return await connection._protocol.bind_run(statement, args, "", 0, 6, timeout)
    finally:
        connection.remove_log_listener(_pass_on)


def _pass_on(_: Any, message: exceptions.PostgresLogMessage) -> None:
    """Have Python warn of what the server warns of: numbers that have lost digits on their way."""
    if message.severity_en == "WARNING":
        warnings.warn(str(message), RuntimeWarning, stacklevel=2)


def _shaped(reals: bytes, shape: tuple[int, ...]) -> Any:
    """The float32s of `reals` in as many dimensions as `shape` has."""
    numpy = utils._numpy()
    if numpy is not None:
        return numpy.frombuffer(bytearray(reals), dtype=numpy.float32).reshape(shape)
    flat = memoryview(reals)
    return flat.cast("f", shape) if reals else flat.cast("f")


def _matrix(features: Any) -> Any:
    """Something with a shape and Python's buffer interface."""
    features = frames.unnamed(features)
    shape = getattr(features, "shape", None)
    if shape is None:
        try:
            features = memoryview(features)
        except TypeError as error:
            given = type(features).__name__
            raise TypeError(f'expected a matrix, such as numpy.array(rows, dtype="float32"), got {given}') from error
        shape = features.shape
    if len(shape) != 2:
        raise ValueError(f"expected a matrix of two dimensions, got {len(shape)}")
    numpy = utils._numpy()
    if numpy is not None and not isinstance(features, memoryview):
        kind = getattr(features, "dtype", None)
        if kind is None or kind not in (numpy.float32, numpy.float64) or not features.flags.c_contiguous:
            features = numpy.ascontiguousarray(features, dtype=numpy.float32)
    return features


def _floats(data: bytes) -> Any:
    numpy = utils._numpy()
    if numpy is not None:
        return numpy.frombuffer(bytearray(data), dtype=numpy.float32)
    return array.array("f", data)
