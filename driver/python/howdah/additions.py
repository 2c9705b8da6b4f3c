"""What connections have that asyncpg's have not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Optional, TypeVar, Union

from . import notifications, retry, training

_T = TypeVar("_T")


class ConnectionAdditions:
    """Methods of :class:`Connection` that are built on its others."""

    __slots__ = ()

    async def run_transaction(
        self,
        fn: Callable[[Any], Awaitable[_T]],
        *,
        isolation: Optional[str] = "serializable",
        readonly: bool = False,
        deferrable: bool = False,
        attempts: int = 10,
        delay: float = 0.01,
        max_delay: float = 1.0,
    ) -> _T:
        """Run a coroutine function in a transaction, again when it fails for another transaction's sake.

        The server ends a transaction with a serialization failure or a deadlock when nothing is wrong with it but the
        moment. It is rolled back then, and `fn` called again after a short while, so `fn` should do nothing outside of
        the database that must not be done twice.

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
            Seconds to wait after the first failure, about; each time twice as long.
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

    def notifications(self, *channels: str, max_queued: Optional[int] = None) -> notifications.Notifications:
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
        return notifications.Notifications(self, channels, max_queued)

    async def train(
        self,
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
            Called with a :class:`TrainingProgress` at most once a second. True shows a bar on the standard error
            output, which is also the default where that is a terminal; False shows nothing.
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
            What the server has against it.
        TypeError
            An option that `pgml.train` has not.

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
