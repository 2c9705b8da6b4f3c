"""The session: the native core, and what of it is better said in Python."""

from __future__ import annotations

import asyncio
import codecs
import collections.abc
import contextlib
import datetime
import zoneinfo
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Optional

from .. import _core, compat
from .._core import (
    BUILTIN_TYPE_NAME_MAP as BUILTIN_TYPE_NAME_MAP,
)
from .._core import (
    BUILTIN_TYPE_OID_MAP as BUILTIN_TYPE_OID_MAP,
)
from .._core import (
    NO_TIMEOUT as NO_TIMEOUT,
)
from .._core import (
    ConnectionSettings as ConnectionSettings,
)
from .._core import (
    PreparedStatementState as PreparedStatementState,
)
from .._core import (
    Record as Record,
)
from .._core import (
    RecordDescriptor as RecordDescriptor,
)

# The encodings that Python knows under other names than the server.
_ENCODINGS = {
    "abc": "cp1258",
    "alt": "cp866",
    "euc_cn": "euccn",
    "euc_jp": "eucjp",
    "euc_kr": "euckr",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "shift_jis_2004": "euc_jis_2004",
    "sjis": "shift_jis",
    "sql_ascii": "ascii",
    "vscii": "cp1258",
    "tcvn": "cp1258",
    "tcvn5712": "cp1258",
    "unicode": "utf_8",
    "win": "cp1521",
    "win1250": "cp1250",
    "win1251": "cp1251",
    "win1252": "cp1252",
    "win1253": "cp1253",
    "win1254": "cp1254",
    "win1255": "cp1255",
    "win1256": "cp1256",
    "win1257": "cp1257",
    "win1258": "cp1258",
    "win866": "cp866",
    "win874": "cp874",
    "win932": "cp932",
    "win936": "cp936",
    "win949": "cp949",
    "win950": "cp950",
    "windows1258": "cp1258",
    "uhc": "cp949",
    "johab": "johab",
}


def python_encoding(name: str) -> str:
    """Python's name of an encoding of the server."""
    found = _ENCODINGS.get(name.lower(), name)
    try:
        return codecs.lookup(found).name
    except LookupError:
        return "utf-8"


def session_zone(name: str) -> Optional[datetime.tzinfo]:
    """A time zone of the server; None for UTC, and for what Python does not know, as psycopg does."""
    if name in ("UTC", "Etc/UTC"):
        return None
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        return None


# The signature of a binary COPY, with no flags and no more of a header.
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)


class Protocol(_core.Session, asyncio.BufferedProtocol):
    """A session, as asyncio's transports want protocols."""

    # Tools that measure queries keep notes on it.
    __slots__ = ("__dict__",)

    async def close(self, timeout: Optional[float]) -> None:
        """End the session politely: what is under way is cancelled, and the server closes the connection."""
        if self.is_closed():
            return
        try:
            async with compat.timeout(self._get_timeout(timeout)):
                if self.is_busy():
                    self._request_cancel()
                await self._wait_for_cancellation()
                connected = self.is_connected()
                self._set_closing()
                if connected:
                    await self._terminate()
        finally:
            self._set_closing()
            self.abort()

    async def _wait_for_cancellation(self, timeout: Optional[float] = None) -> Optional[float]:
        """Wait until a cancelled request has ended; what of `timeout` is left then."""
        if not self._is_cancelling():
            return timeout
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with compat.timeout(timeout):
            for future in self._cancellation():
                await asyncio.shield(future)
        if timeout is None:
            return None
        left = timeout - (loop.time() - started)
        if left <= 0:
            raise asyncio.TimeoutError
        return float(left)

    async def copy_out(self, copy_stmt: str, sink: Callable[[bytes], Awaitable[Any]], timeout: Optional[float]) -> str:
        """Run COPY ... TO STDOUT and give its data to `sink`; the command's status."""
        async with _within(self._get_timeout(timeout)):
            await self.copy_out_begin(copy_stmt, NO_TIMEOUT)
            try:
                while not isinstance(data := await self.copy_out_read(NO_TIMEOUT), str):
                    await sink(data)
            except BaseException:
                self.copy_out_abort()
                raise
            return data

    async def copy_in(
        self,
        copy_stmt: str,
        reader: Any,
        data: Any,
        records: Any,
        record_stmt: Any,
        timeout: Optional[float],
    ) -> str:
        """Run COPY ... FROM STDIN with data from an asynchronous iterable, a buffer or records; its status."""
        async with _within(self._get_timeout(timeout)):
            await self.copy_in_begin(copy_stmt, NO_TIMEOUT)
            try:
                if isinstance(records, _core.ColumnSource):
                    self.copy_in_write(_COPY_HEAD)
                    await self._copy_batch(records, record_stmt, self.copy_in_columns)
                    self.copy_in_write(b"\xff\xff")
                elif record_stmt is not None:
                    self.check_binary(record_stmt)
                    await self._copy_records(records, record_stmt)
                elif reader is not None:
                    if not hasattr(reader, "__aiter__"):
                        raise TypeError("reader is not an asynchronous iterable")
                    async for chunk in reader:
                        if not self.copy_in_write(chunk):
                            break
                        # The loop has a turn between pieces, or it would not hear that the session has ended.
                        await (self.drain(NO_TIMEOUT) if self.is_writing_paused() else asyncio.sleep(0))
                else:
                    self.copy_in_write(data)
            except BaseException as error:
                # The server takes the reason into its own error, which nobody sees: this one is raised.
                late = isinstance(error, (asyncio.CancelledError, asyncio.TimeoutError))
                self.copy_in_abort("TimeoutError" if late else "COPY aborted due to an exception in input generator")
                raise
            return str(await self.copy_in_end(None, NO_TIMEOUT))

    async def _copy_records(self, records: Any, record_stmt: Any) -> None:
        self.copy_in_write(_COPY_HEAD)
        if isinstance(records, collections.abc.AsyncIterable):
            batch = []
            async for record in records:
                batch.append(record)
                if len(batch) == 256:
                    await self._copy_batch(iter(batch), record_stmt)
                    batch.clear()
            await self._copy_batch(iter(batch), record_stmt)
        else:
            await self._copy_batch(iter(records), record_stmt)
        self.copy_in_write(b"\xff\xff")

    async def _copy_batch(
        self, records: Any, record_stmt: Any, write: Optional[Callable[[Any, Any], bool]] = None
    ) -> None:
        write = write or self.copy_in_rows
        while write(record_stmt, records):
            # The loop has a turn between pieces, however fast the server takes them.
            await (self.drain(NO_TIMEOUT) if self.is_writing_paused() else asyncio.sleep(0))


@contextlib.asynccontextmanager
async def _within(limit: Optional[float]) -> AsyncIterator[None]:
    """The time of a COPY, whose end the error names; a `TimeoutError` of the program's own comes through."""
    try:
        async with compat.timeout(limit):
            yield
    except asyncio.TimeoutError as error:
        if limit is None or not isinstance(error.__cause__, asyncio.CancelledError):
            raise
        raise asyncio.TimeoutError(f"no answer within the timeout of {limit:g} seconds") from error.__cause__


def _create_record(mapping: Optional[dict[str, int]], elems: tuple[object, ...]) -> Any:
    """A record of these values; for tests."""
    descriptor = RecordDescriptor(mapping or {}, tuple(mapping or ()))
    return descriptor.make_record(Record, elems)


BaseProtocol = Protocol

__all__ = ("BUILTIN_TYPE_NAME_MAP", "BUILTIN_TYPE_OID_MAP", "NO_TIMEOUT", "Protocol", "Record")
