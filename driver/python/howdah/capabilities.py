"""The capabilities of a server, since not all servers that speak PostgreSQL's protocol are PostgreSQL."""

from __future__ import annotations

from typing import Any, NamedTuple

from .types import ServerVersion


class ServerCapabilities(NamedTuple):
    """What the server can do, for servers that only speak PostgreSQL's protocol are not all PostgreSQL."""

    advisory_locks: bool
    notifications: bool
    plpgsql: bool
    sql_reset: bool
    sql_close_all: bool
    sql_copy_from_where: bool
    jit: bool


def detect(server_version: ServerVersion, settings: Any) -> ServerCapabilities:
    """The capabilities of a server, by its version and by the settings that others than PostgreSQL report."""
    if hasattr(settings, "padb_revision"):
        # Amazon Redshift.
        return ServerCapabilities(False, False, False, True, False, False, False)
    if hasattr(settings, "crdb_version") or hasattr(settings, "crate_version"):
        # CockroachDB, CrateDB.
        return ServerCapabilities(False, False, False, False, False, False, False)
    return ServerCapabilities(
        advisory_locks=True,
        notifications=True,
        plpgsql=True,
        sql_reset=True,
        sql_close_all=True,
        sql_copy_from_where=server_version.major >= 12,
        jit=server_version >= (11, 0),
    )


def reset_commands(capabilities: ServerCapabilities) -> str:
    """The commands that make a session as new."""
    commands = []
    if capabilities.advisory_locks:
        commands.append("SELECT pg_advisory_unlock_all();")
    if capabilities.sql_close_all:
        commands.append("CLOSE ALL;")
    if capabilities.notifications and capabilities.plpgsql:
        commands.append("UNLISTEN *;")
    if capabilities.plpgsql:
        # RESET ALL leaves the role; nor does it know of what else a session keeps for itself. These cost nothing where
        # there is nothing to undo.
        commands.append("SET SESSION AUTHORIZATION DEFAULT;")
    if capabilities.sql_reset:
        commands.append("RESET ALL;")
    if capabilities.plpgsql:
        commands.append("DISCARD SEQUENCES;")
        commands.append("DISCARD TEMP;")
    return "\n".join(commands)
