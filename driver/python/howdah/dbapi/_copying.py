"""Sources and targets of COPY, in the forms that the driver's own functions take."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ._loop import Loop


async def _pieces(source: Iterable[bytes], loop: Loop) -> Any:
    rest = iter(source)
    while (piece := loop.call(next, rest, None)) is not None:
        yield piece


def as_source(source: Any, loop: Loop) -> Any:
    """The source in a form that the driver takes."""
    if isinstance(source, str) and not os.path.exists(source):
        raise FileNotFoundError(
            f"there is no file {source[:60]!r}: a str is the path of a file; data are passed as bytes (text.encode())"
        )
    plain = isinstance(source, (bytes, bytearray, memoryview, str)) or hasattr(source, "__fspath__")
    if plain or hasattr(source, "read") or not hasattr(source, "__iter__"):
        return source
    return _pieces(source, loop)


def as_target(target: Any, loop: Loop) -> Any:
    """The target in a form that the driver takes."""
    if not callable(target) or hasattr(target, "write"):
        return target

    async def sink(data: bytes) -> None:
        loop.call(target, data)

    return sink
