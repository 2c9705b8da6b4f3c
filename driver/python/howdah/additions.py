"""The connection's methods that are built on its others, and that asyncpg's connections have not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import models, retry, training
from ._typing import IsolationLevel
from .notifications import Notifications

if TYPE_CHECKING:
    from .connection import Connection

_T = TypeVar("_T")


async def run_transaction(
    self: Connection[Any],
    fn: Callable[[Any], Awaitable[_T]],
    *,
    isolation: Optional[IsolationLevel] = "serializable",
    readonly: bool = False,
    deferrable: bool = False,
    attempts: int = 10,
    delay: float = 0.01,
    max_delay: float = 1.0,
) -> _T:
    """Run a coroutine function in a transaction, and again if the server aborts it because of another transaction.

    A serialization failure or a deadlock does not mean that the transaction is wrong: it may succeed when it is run
    again. So the transaction is rolled back and, after a short while, `fn` is called again; `fn` should do nothing
    outside of the database that must not be done twice.

    Parameters
    ----------
    fn : coroutine function
        Called with the connection.
    isolation : str, optional
        As in :meth:`transaction`; None for the server's default.
    readonly, deferrable : bool, default False
        As in :meth:`transaction`.
    attempts : int, default 10
        How many times to try in all.
    delay : float, default 0.01
        Seconds to wait after the first failure, roughly; twice as long after each further one.
    max_delay : float, default 1.0
        The longest wait, in seconds.

    Returns
    -------
    object
        What `fn` returns.

    Raises
    ------
    SerializationError, DeadlockDetectedError
        The last attempt failed too.
    InterfaceError
        The connection is in a transaction already.

    Examples
    --------
    >>> async def book(connection):
    ...     left = await connection.fetchval("select seats from flights where id = :id", id=7)
    ...     await connection.execute("update flights set seats = :left where id = :id", left=left - 1, id=7)
    >>> await connection.run_transaction(book)
    """
    return await retry.run_transaction(
        self,
        fn,
        isolation=isolation,
        readonly=readonly,
        deferrable=deferrable,
        attempts=attempts,
        delay=delay,
        max_delay=max_delay,
    )


def notifications(self: Connection[Any], *channels: str, max_queued: Optional[int] = None) -> Notifications:
    """Listen to channels, for `async with` and `async for`.

    Parameters
    ----------
    *channels : str
        The channels.
    max_queued : int, optional
        How many notifications may wait to be read; the oldest ones are dropped when there are more. By default all
        wait.

    Returns
    -------
    Notifications
        A block that is an asynchronous iterator of :class:`Notification`.

    Raises
    ------
    ConnectionDoesNotExistError
        From the iteration: the connection was closed.

    Examples
    --------
    >>> async with connection.notifications("orders", "returns") as feed:
    ...     async for notification in feed:
    ...         print(notification.channel, notification.payload)
    """
    return Notifications(self, channels, max_queued)


async def train(
    self: Connection[Any],
    project_name: str,
    *,
    progress: Union[Callable[[training.TrainingProgress], object], bool, None] = None,
    timeout: Optional[float] = None,
    **options: Any,
) -> Any:
    """Train a model on the server, by `pgml.train`.

    Parameters
    ----------
    project_name : str
        The project.
    progress : callable or bool, optional
        Called with a :class:`TrainingProgress` at most once per second. True shows a bar, below the cell in a notebook
        and else on the standard error output, which is also the default in a notebook and on a terminal; False shows
        nothing.
    timeout : float, optional
        Seconds for the training.
    **options
        The other arguments of `pgml.train` by name: `task`, `relation_name`, `y_column_name`, `algorithm`,
        `hyperparams` (a dict), `test_size` and so on.

    Returns
    -------
    Record
        The `project`, its `task`, the `algorithm`, and whether the model is `deployed`.

    Raises
    ------
    PostgresError
        The server refuses the training.
    TypeError
        `pgml.train` has no such option.

    Examples
    --------
    >>> await connection.train(
    ...     "flights",
    ...     task="regression",
    ...     relation_name="flights",
    ...     y_column_name="delay",
    ...     algorithm="xgboost",
    ...     hyperparams={"n_estimators": 200},
    ... )
    """
    return await training.train(self, project_name, progress=progress, timeout=timeout, options=options)


async def import_model(
    self: Connection[Any], project_name: str, model: Any, *, timeout: Optional[float] = None, **options: Any
) -> Any:
    """Store a model that was trained here as a model of a project on the server, by `pgml.import_model`.

    Parameters
    ----------
    project_name : str
        The project, which is made if there is none.
    model : object
        A model of XGBoost, LightGBM or CatBoost, by their own or by scikit-learn's interface; an ONNX model, as
        skl2onnx makes them; the bytes of one as its library saves it; or the path of such a file.
    timeout : float, optional
        Seconds for the import.
    **options
        The other arguments of `pgml.import_model` by name: `format`, `task`, `features` and `classes` (sequences of
        names; a model with scikit-learn's interface has its classes itself), `sample` (a row: a sequence, an array or a
        dict by features; NaN and None are missing), `expected` (the model's prediction for the sample: a number, a
        sequence or the class), and `deploy` (a bool).

    Returns
    -------
    Record
        The `project`, its `task`, the `algorithm`, whether the model is `deployed`, and its `model_id`.

    Raises
    ------
    PostgresError
        The model cannot be read, its names do not agree, or its prediction for the sample is not `expected`.
    TypeError
        `pgml.import_model` has no such option, or `model` is not a model.

    Examples
    --------
    >>> booster = xgboost.train({"objective": "reg:squarederror"}, xgboost.DMatrix(matrix, delays))
    >>> await connection.import_model(
    ...     "flights",
    ...     booster,
    ...     features=["distance", "hour"],
    ...     sample=matrix[0],
    ...     expected=booster.inplace_predict(matrix[:1])[0],
    ... )
    """
    return await models.import_model(self, project_name, model, timeout=timeout, options=options)


async def export_model(
    self: Connection[Any], model: Union[str, int], *, format: Optional[str] = None, timeout: Optional[float] = None
) -> bytes:
    """Fetch a model from the server as the file of the library that reads it, by `pgml.export_model`.

    Parameters
    ----------
    model : str or int
        A project, for its deployed model, or the id of a model.
    format : str, optional
        `json` for a model of XGBoost, `safetensors` for any other, with all that `import_model` needs.
    timeout : float, optional
        Seconds for the round trip.

    Returns
    -------
    bytes
        The file: UBJSON of XGBoost, text of LightGBM, JSON of CatBoost, ONNX as it was imported, safetensors of all
        others.

    Raises
    ------
    PostgresError
        There is no such model, it has no such format, or it may not be exported.

    Examples
    --------
    >>> booster = xgboost.Booster(model_file=bytearray(await connection.export_model("flights")))
    """
    return await models.export_model(self, model, format=format, timeout=timeout)
