"""The server's messages below errors, for those who want them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..listeners import _Callback
from .errors import Diagnostics

# As many as psycopg2 keeps.
_KEPT = 50


class Notices:
    """The messages that a connection's server has sent, the newest last, and the functions to call with each."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.handlers: list[Callable[[Diagnostics], object]] = []

    def listen(self, inner: Any) -> None:
        """Hear a connection's messages, once more after a reset of its session."""
        inner._callbacks.log.add(_Callback(self._take, False, at_once=True))

    def _take(self, _: Any, message: Any) -> None:
        self.kept.append(f"{message.severity}:  {message.message}\n")
        del self.kept[:-_KEPT]
        for handler in tuple(self.handlers):
            handler(Diagnostics(message))
