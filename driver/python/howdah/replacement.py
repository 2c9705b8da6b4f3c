"""Howdah in the place of asyncpg, for libraries that import it by that name."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Optional

_NAME = "asyncpg"
_OURS = __package__ or "howdah"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `asyncpg.x` where `howdah.x` is."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if not fullname.startswith(_NAME + "."):
            return None
        name = _OURS + fullname[len(_NAME) :]
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and not name.startswith(error.name):
                raise
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(module))

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """Give asyncpg's distribution when it is asked for by name."""
        if context.name == _NAME:
            from ._distribution import Distribution

            yield Distribution()


class _Loader(importlib.abc.Loader):
    """Gives a module that is there already, and leaves it as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The machinery of imports has written the other name into it.
        module.__spec__ = self._spec
        if self._spec is not None:
            module.__loader__ = self._spec.loader


def install_as_asyncpg() -> None:
    """Put howdah in the place of asyncpg: after this call `import asyncpg` gives howdah, in this process.

    Call this function before anything imports asyncpg. asyncpg need not be installed. Programs that ask for
    its version get 0.32.0, and loggers get asyncpg's names.

    Raises
    ------
    RuntimeError
        The real asyncpg has been imported already, so some modules would go on using it.

    Examples
    --------
    >>> import howdah
    >>> howdah.install_as_asyncpg()
    >>> import sqlalchemy.ext.asyncio
    >>> engine = sqlalchemy.ext.asyncio.create_async_engine("postgresql+asyncpg://localhost/app")
    """
    ours = importlib.import_module(_OURS)
    there = sys.modules.get(_NAME)
    if there is ours:
        return
    if there is not None:
        raise RuntimeError("asyncpg has been imported already: call install_as_asyncpg() before anything imports it")
    sys.meta_path.insert(0, _Finder())
    sys.modules[_NAME] = ours
    # What is loaded already needs no finding; `asyncpg.x` has to be the very same module as `howdah.x`.
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS + "."):
            sys.modules[_NAME + name[len(_OURS) :]] = module
            logger = getattr(module, "logger", None)
            if isinstance(logger, logging.Logger) and logger.name == name:
                module.logger = logging.getLogger(_NAME + name[len(_OURS) :])  # type: ignore[attr-defined]
