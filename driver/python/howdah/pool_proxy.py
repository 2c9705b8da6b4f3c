"""The proxy that a pool lends in place of a connection: it works until it is given back."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import compat, connection, exceptions

if TYPE_CHECKING:
    from .pool_holder import PoolConnectionHolder


def _pass_on(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that calls the connection's method of the same name, while there is a connection."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        con = self._con
        if con is None:
            raise exceptions.InterfaceError(
                f"cannot call Connection.{name}(): connection has been released back to the pool"
            )
        return getattr(con.__class__, name)(con, *args, **kwargs)

    if inspect.iscoroutinefunction(method):
        call = compat.markcoroutinefunction(call)
    return functools.update_wrapper(call, method)


class PoolConnectionProxyMeta(type):
    """Gives the proxy all public methods of connections."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], members: dict[str, Any], *, wrap: bool = False
    ) -> PoolConnectionProxyMeta:
        """Make the class, with the public methods of connections if it is to `wrap` them."""
        if wrap:
            for method_name in dir(connection.Connection):
                if method_name.startswith("_") or method_name in members:
                    continue
                method = getattr(connection.Connection, method_name)
                if inspect.isfunction(method):
                    members[method_name] = _pass_on(method_name, method)
            members.setdefault("__doc__", connection.Connection.__doc__)
        return super().__new__(mcls, name, bases, members)


# Its docstring is the connection's, which its metaclass gives it.
class PoolConnectionProxy(connection._ConnectionProxy, metaclass=PoolConnectionProxyMeta, wrap=True):  # noqa: D101
    __slots__ = ("_con", "_holder")

    def __init__(self, holder: PoolConnectionHolder, con: connection.Connection[Any]) -> None:
        self._con: Optional[connection.Connection[Any]] = con
        self._holder = holder
        con._set_proxy(self)

    def __getattr__(self, attr: str) -> Any:
        return getattr(self._con, attr)

    def _detach(self) -> Optional[connection.Connection[Any]]:
        con = self._con
        if con is not None:
            self._con = None
            con._set_proxy(None)
        return con

    def __repr__(self) -> str:
        what = "[released]" if self._con is None else repr(self._con)
        return f"<{type(self).__name__} {what} {id(self):#x}>"
