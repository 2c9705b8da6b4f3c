"""The metadata of an installed asyncpg, for programs that ask for its version before they use it."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
from typing import Optional, Union


class Distribution(importlib.metadata.Distribution):
    """Asyncpg's distribution, of the version whose interface howdah has."""

    def read_text(self, filename: str) -> Optional[str]:
        """Return the text of one of its files: there is only METADATA."""
        return "Metadata-Version: 2.1\nName: asyncpg\nVersion: 0.32.0\n" if filename == "METADATA" else None

    def locate_file(self, path: Union[str, os.PathLike[str]]) -> pathlib.Path:
        """Return where a file would be."""
        return pathlib.Path(__file__).parents[1] / path
