"""The name under which asyncpg's users know :mod:`howdah.protocol`'s contents."""

from __future__ import annotations

from . import *  # noqa: F403
from . import BaseProtocol as BaseProtocol
from . import ConnectionSettings as ConnectionSettings
from . import PreparedStatementState as PreparedStatementState
from . import RecordDescriptor as RecordDescriptor
from . import _create_record as _create_record
