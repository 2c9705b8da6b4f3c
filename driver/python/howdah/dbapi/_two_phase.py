"""Transactions of two phases, as PEP 249 has them."""

from __future__ import annotations

import base64
import datetime
import re
from typing import Any, NamedTuple, Optional, Union

from .. import utils
from ._commands import Commands
from .errors import ProgrammingError

# How psycopg and pgjdbc write the three parts of an identifier into PostgreSQL's one.
_PARTS = re.compile(r"(\d+)_([A-Za-z0-9+/=]*)_([A-Za-z0-9+/=]*)", re.ASCII)


class Xid(NamedTuple):
    """The identifier of a transaction of two phases; one that others have made may have no more than `gtrid`."""

    format_id: Optional[int]
    gtrid: str
    bqual: Optional[str]
    prepared: Optional[datetime.datetime] = None
    owner: Optional[str] = None
    database: Optional[str] = None

    @classmethod
    def of(cls, text: str, *rest: Any) -> Xid:
        """The identifier that PostgreSQL has."""
        found = _PARTS.fullmatch(text)
        if found is not None:
            try:
                gtrid, bqual = (base64.b64decode(part, validate=True).decode() for part in found.groups()[1:])
            except ValueError:
                pass
            else:
                return cls(int(found[1]), gtrid, bqual, *rest)
        return cls(None, text, None, *rest)

    def __str__(self) -> str:
        if self.format_id is None:
            return self.gtrid
        parts = (base64.b64encode((part or "").encode()).decode() for part in (self.gtrid, self.bqual))
        return "_".join((str(self.format_id), *parts))


class TwoPhase(Commands):
    """The methods of transactions of two phases."""

    # The transaction that was begun, and whether it is prepared.
    _two_phase: Optional[tuple[Xid, bool]] = None

    def xid(self, format_id: int, gtrid: str, bqual: str) -> Xid:
        """Make an identifier.

        Parameters
        ----------
        format_id : int
            A number, not negative, of 31 bits.
        gtrid, bqual : str
            The names of the whole transaction and of the branch, of at most 64 printable characters.
        """
        if not 0 <= format_id < 1 << 31:
            raise ProgrammingError(f"format_id is expected to be a number of 31 bits, got {format_id!r}")
        for name, part in (("gtrid", gtrid), ("bqual", bqual)):
            if len(part) > 64 or not all(" " <= letter <= "~" for letter in part):
                raise ProgrammingError(f"{name} is expected to be of at most 64 printable characters, got {part!r}")
        return Xid(format_id, gtrid, bqual)

    def tpc_begin(self, xid: Union[Xid, str]) -> None:
        """Begin a transaction of two phases.

        Parameters
        ----------
        xid : Xid or str
            Its identifier, made by :meth:`xid` or PostgreSQL's own.
        """
        with self._lock:
            self._check_outside("tpc_begin()")
            if self._autocommit:
                raise ProgrammingError("tpc_begin() cannot be used with autocommit=True")
            self._two_phase = _as_xid(xid), False
            self._begin()
            self._simple(";")

    def tpc_prepare(self) -> None:
        """End the first phase: what the transaction did stays on the server until it is committed or rolled back."""
        with self._lock:
            if self._two_phase is None:
                raise ProgrammingError("tpc_prepare() needs tpc_begin() before")
            xid, prepared = self._two_phase
            if prepared:
                raise ProgrammingError("the transaction is prepared already: use tpc_commit() or tpc_rollback()")
            try:
                self._simple(f"PREPARE TRANSACTION {utils._quote_literal(str(xid))}")
            except BaseException:
                # The server has rolled it back.
                if not self.closed and not self._session.is_in_transaction():
                    self._two_phase = None
                raise
            self._two_phase = xid, True

    def tpc_commit(self, xid: Union[Xid, str, None] = None) -> None:
        """Commit the transaction that was begun, or a prepared one that :meth:`tpc_recover` gives.

        Parameters
        ----------
        xid : Xid or str, optional
            The prepared transaction; without it, the one that :meth:`tpc_begin` has begun.
        """
        self._end_two_phase("COMMIT", xid)

    def tpc_rollback(self, xid: Union[Xid, str, None] = None) -> None:
        """Roll back the transaction that was begun, or a prepared one; as :meth:`tpc_commit`."""
        self._end_two_phase("ROLLBACK", xid)

    def tpc_recover(self) -> list[Xid]:
        """Return the identifiers of the prepared transactions that wait for their second phase."""
        query = "select gid, prepared, owner::text, database::text from pg_catalog.pg_prepared_xacts order by prepared"
        with self._lock:
            begins = not self._session.is_in_transaction()
            (rows, _, _), _ = self._query(query, ())
            if begins and self._session.is_in_transaction():
                self._finish("ROLLBACK")
        return [Xid.of(*row) for row in rows]

    def _end_two_phase(self, verb: str, xid: Union[Xid, str, None]) -> None:
        with self._lock:
            if xid is not None:
                self._check_outside(f"tpc_{verb.lower()}() with an xid")
                self._simple(f"{verb} PREPARED {utils._quote_literal(str(_as_xid(xid)))}")
                return
            if self._two_phase is None:
                raise ProgrammingError(f"tpc_{verb.lower()}() without an xid needs tpc_begin() before")
            begun, prepared = self._two_phase
            if prepared:
                self._simple(f"{verb} PREPARED {utils._quote_literal(str(begun))}")
                self._two_phase = None
            else:
                self._two_phase = None
                self._finish(verb)

    def _check_outside(self, what: str) -> None:
        self._check()
        if self._two_phase is not None or self._session.is_in_transaction():
            raise ProgrammingError(f"{what} cannot be used within a transaction: commit or roll back first")

    def _check_one_phase(self, what: str) -> None:
        if self._two_phase is not None:
            raise ProgrammingError(f"{what} cannot be used within a transaction of two phases: use tpc_{what}")


def _as_xid(xid: Union[Xid, str]) -> Xid:
    return xid if isinstance(xid, Xid) else Xid.of(xid)
