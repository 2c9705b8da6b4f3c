"""What a pool counts."""

from __future__ import annotations

from typing import NamedTuple


class PoolStatistics(NamedTuple):
    """The state of a pool at one moment, and what it has done since it was made.

    Attributes
    ----------
    size : int
        Connections that are open.
    idle : int
        Connections that are open and free.
    in_use : int
        Connections that somebody has.
    waiting : int
        Tasks that wait for a connection.
    acquired : int
        How many times a connection was handed out.
    waited : int
        How many of these had to wait for one to become free, or to be opened.
    wait_seconds : float
        How long they waited, together.
    resets : int
        How many times the server was asked to reset the session.
    resets_spared : int
        How many times it was not, because nothing in the session had changed.
    connections_opened : int
        Connections opened.
    connections_closed : int
        Connections closed, or lost.
    health_checks_failed : int
        Idle connections that were replaced because they did not answer.
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
