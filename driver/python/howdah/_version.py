"""The version of the package."""

__version__ = "3.2.0"
