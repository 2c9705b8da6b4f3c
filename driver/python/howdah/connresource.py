"""Things that live no longer than their connection is held: statements, cursors, transactions."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar

from . import exceptions

_F = TypeVar("_F", bound=Callable[..., Any])


def guarded(meth: _F) -> _F:
    """Make a method of a :class:`ConnectionResource` refuse once its connection is gone."""

    @functools.wraps(meth)
    def checked(self: ConnectionResource, *args: Any, **kwargs: Any) -> Any:
        self._check_conn_validity(meth.__name__)
        return meth(self, *args, **kwargs)

    return checked  # type: ignore[return-value]


class ConnectionResource:
    """What belongs to a connection, and ends when the connection closes or goes back to its pool."""

    __slots__ = ("_con_release_ctr", "_connection")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        # The connection counts how often it went back to its pool: another count, another holder.
        self._con_release_ctr = connection._pool_release_ctr

    def _check_conn_validity(self, meth_name: str) -> None:
        if self._connection._pool_release_ctr != self._con_release_ctr:
            reason = "has been released back to the pool"
        elif self._connection.is_closed():
            reason = "is closed"
        else:
            return
        raise exceptions.InterfaceError(
            f"cannot call {type(self).__name__}.{meth_name}(): the underlying connection {reason}"
        )
