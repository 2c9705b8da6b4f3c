"""The statistics of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .pool import Pool


class PoolStatistics(NamedTuple):
    """The state of a pool at one moment, and what it has done since it was made.

    Attributes
    ----------
    size : int
        Connections that are open.
    idle : int
        Connections that are open and free.
    in_use : int
        Connections that are lent.
    waiting : int
        Tasks that wait for a connection.
    acquired : int
        How many times a connection was handed out.
    waited : int
        How many of these had to wait until a connection was free or opened.
    wait_seconds : float
        The sum of these waits, in seconds.
    resets : int
        How many times the server was asked to reset the session.
    resets_spared : int
        How many resets were left out, because nothing in the session had changed.
    connections_opened : int
        Connections opened.
    connections_closed : int
        Connections closed, or lost.
    health_checks_failed : int
        Idle connections that were replaced because they did not answer the health check.
    """

    size: int
    idle: int
    in_use: int
    waiting: int
    acquired: int
    waited: int
    wait_seconds: float
    resets: int
    resets_spared: int
    connections_opened: int
    connections_closed: int
    health_checks_failed: int


class Counts:
    """What a pool counts as it goes."""

    __slots__ = (
        "acquired",
        "connections_closed",
        "connections_opened",
        "health_checks_failed",
        "resets",
        "resets_spared",
        "wait_seconds",
        "waited",
    )

    def __init__(self) -> None:
        self.acquired = 0
        self.waited = 0
        self.wait_seconds = 0.0
        self.resets = 0
        self.resets_spared = 0
        self.connections_opened = 0
        self.connections_closed = 0
        self.health_checks_failed = 0


def get_statistics(self: Pool[Any]) -> PoolStatistics:
    """Return the pool's connections by state, and its counts since it was made.

    Returns
    -------
    PoolStatistics
        The numbers of this moment.

    Examples
    --------
    >>> numbers = pool.get_statistics()
    >>> numbers.wait_seconds / max(numbers.acquired, 1)
    """
    counts = self._counts
    size = self.get_size()
    idle = self.get_idle_size()
    return PoolStatistics(
        size=size,
        idle=idle,
        in_use=size - idle,
        waiting=0 if self._queue is None else self._queue.waiting(),
        acquired=counts.acquired,
        waited=counts.waited,
        wait_seconds=counts.wait_seconds,
        resets=counts.resets,
        resets_spared=counts.resets_spared,
        connections_opened=counts.connections_opened,
        connections_closed=counts.connections_closed,
        health_checks_failed=counts.health_checks_failed,
    )


def sizes(self: Pool[Any]) -> dict[str, int]:
    """What `howdah.opentelemetry` tells of a pool."""
    size, idle = self.get_size(), self.get_idle_size()
    waiting = 0 if self._queue is None else self._queue.waiting()
    sizes = {"idle": idle, "used": size - idle, "waiting": waiting}
    return {**sizes, "min_size": self._minsize, "max_size": self._maxsize}
