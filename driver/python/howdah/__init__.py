"""PostgreSQL for asyncio: asyncpg's interface on a native core.

Whatever asyncpg 0.32 offers is here by the same name, so `import howdah as asyncpg` runs its programs;
:func:`install_as_asyncpg` does that for libraries that import it by name. What is more: queries that are asked at once
travel at once, pools that reset only what needs it, named parameters, columns, predictions.

Examples
--------
>>> connection = await howdah.connect("postgres://localhost/app")
>>> await connection.fetch("select * from flights where origin = :origin", origin="ZRH")
"""

from __future__ import annotations

from . import exceptions
from . import notebook as _notebook
from ._version import __version__ as __version__
from .connection import Connection as Connection
from .connection import connect as connect
from .exceptions import *  # noqa: F403
from .notifications import Notification as Notification
from .notifications import Notifications as Notifications
from .pool import Pool as Pool
from .pool import PoolStatistics as PoolStatistics
from .pool import create_pool as create_pool
from .protocol import Record as Record
from .records import AttributeRecord as AttributeRecord
from .replacement import install_as_asyncpg as install_as_asyncpg
from .reports import Report as Report
from .training import ProgressBar as ProgressBar
from .training import TrainingProgress as TrainingProgress
from .types import *  # noqa: F403

# Of `howdah.dbapi`: libraries that are given one of its connections look it up in the connection's top package.
paramstyle = "pyformat"

__all__: tuple[str, ...] = (
    "AttributeRecord",
    "Connection",
    "Notification",
    "Notifications",
    "Pool",
    "PoolStatistics",
    "ProgressBar",
    "Record",
    "Report",
    "TrainingProgress",
    "connect",
    "create_pool",
    "install_as_asyncpg",
)
__all__ += exceptions.__all__

_notebook.install()
