"""PostgreSQL for asyncio: asyncpg's interface on a native core."""

from __future__ import annotations

from . import exceptions as exceptions
from . import types as types
from .connection import Connection as Connection
from .connection import connect as connect
from .exceptions import *  # noqa: F403
from .exceptions import __all__ as _exceptions
from .pool import Pool as Pool
from .pool import create_pool as create_pool
from .protocol import Record as Record
from .types import *  # noqa: F403

__version__ = "3.0.0"

__all__ = ("Connection", "Pool", "Record", "connect", "create_pool", *_exceptions)
