"""The checks of a pool's arguments."""

from __future__ import annotations

from typing import Any

from . import connection, protocol


def check_sizes(init_size: int, min_size: int, max_size: int) -> None:
    """Fail on sizes that contradict each other."""
    if max_size <= 0:
        raise ValueError("max_size is expected to be greater than zero")
    if min_size < 0:
        raise ValueError("min_size is expected to be greater or equal to zero")
    if min_size > max_size:
        raise ValueError("min_size is greater than max_size")
    if init_size < 0:
        raise ValueError("init_size is expected to be greater or equal to zero")
    if init_size > max_size:
        raise ValueError("init_size is greater than max_size")
    if init_size < min_size:
        raise ValueError("init_size is smaller than min_size")


def check_limits(max_queries: int, max_lifetime_jitter: float, health_check_timeout: float, **lifetimes: float) -> None:
    """Fail on times and counts out of their ranges."""
    if max_queries <= 0:
        raise ValueError("max_queries is expected to be greater than zero")
    for name, seconds in lifetimes.items():
        if seconds < 0:
            raise ValueError(f"{name} is expected to be greater or equal to zero")
    if not 0 <= max_lifetime_jitter <= 1:
        raise ValueError("max_lifetime_jitter is expected to be between zero and one")
    if health_check_timeout <= 0:
        raise ValueError("health_check_timeout is expected to be greater than zero")


def check_classes(connection_class: Any, record_class: Any) -> None:
    """Fail on classes that are not subclasses of the driver's."""
    if not issubclass(connection_class, connection.Connection):
        raise TypeError(
            "connection_class is expected to be a subclass of asyncpg.Connection, here howdah.Connection, "
            f"got {connection_class!r}"
        )
    if not issubclass(record_class, protocol.Record):
        raise TypeError(
            f"record_class is expected to be a subclass of asyncpg.Record, here howdah.Record, got {record_class!r}"
        )
