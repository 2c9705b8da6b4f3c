"""All exceptions and warnings, one class for each error code of PostgreSQL.

The name of a class is the name of its condition in PostgreSQL's list; a class derives from the one of its group, so
that ``except IntegrityConstraintViolationError`` takes all of group 23.
"""

from . import _base, _generated
from ._base import *  # noqa: F403
from ._generated import *  # noqa: F403

__all__: tuple[str, ...] = ()
__all__ += _base.__all__
__all__ += _generated.__all__

# Tracebacks and pickles name a class where programs import it from.
for _name in _generated.__all__:
    getattr(_generated, _name).__module__ = __name__
