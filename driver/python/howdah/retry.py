"""Transactions that are run again when the server gave them up for another one's sake."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Optional, TypeVar

from . import exceptions
from ._typing import IsolationLevel

_T = TypeVar("_T")

# What PostgreSQL says when nothing is wrong with a transaction but when it was run.
RETRIED = (exceptions.SerializationError, exceptions.DeadlockDetectedError)


async def run_transaction(
    connection: Any,
    fn: Callable[[Any], Awaitable[_T]],
    *,
    isolation: Optional[IsolationLevel] = "serializable",
    readonly: bool = False,
    deferrable: bool = False,
    attempts: int = 10,
    delay: float = 0.01,
    max_delay: float = 1.0,
) -> _T:
    """Run a coroutine function in a transaction, again and again while the server gives the transaction up.

    See :meth:`Connection.run_transaction`.
    """
    if attempts < 1:
        raise ValueError("attempts is expected to be greater than zero")
    if connection.is_in_transaction():
        # Only a whole transaction can be run again.
        raise exceptions.InterfaceError("cannot use Connection.run_transaction() in a transaction")
    attempt = 1
    while True:
        try:
            async with connection.transaction(isolation=isolation, readonly=readonly, deferrable=deferrable):
                return await fn(connection)
        except RETRIED:
            if attempt >= attempts or connection.is_closed():
                raise
        # Twice as long each time, and by chance, so that those who met do not meet again.
        await asyncio.sleep(min(delay * 2 ** (attempt - 1), max_delay) * (0.5 + random.random() / 2))
        attempt += 1
