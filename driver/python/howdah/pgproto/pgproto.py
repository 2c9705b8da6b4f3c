"""The class of values of the type `uuid`."""

from uuid import UUID as UUID

__all__ = ("UUID",)
