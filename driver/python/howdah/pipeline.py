"""Queries asked one after the other and answered together."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Generic, Optional, Union, overload

from . import exceptions
from ._typing import RecordT, RowT


class Pipeline(Generic[RecordT]):
    """A block in which queries are sent without waiting for their answers, made by :meth:`Connection.pipeline`.

    Its methods are those of the connection that run one query; each gives a future at once. The block ends when all are
    answered, and raises the first error. Outside of a transaction each query fails alone.

    Examples
    --------
    >>> async with connection.pipeline() as pipeline:
    ...     first = pipeline.fetchval("select 1")
    ...     rows = pipeline.fetch("select * from flights")
    >>> first.result()
    1
    """

    __slots__ = ("_connection", "_futures", "_open")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._futures: list[asyncio.Future[Any]] = []
        self._open = False

    async def __aenter__(self) -> Pipeline[RecordT]:
        self._open = True
        return self

    async def __aexit__(
        self,
        extype: Optional[type[BaseException]],
        ex: Optional[BaseException],
        tb: Optional[TracebackType],
    ) -> None:
        self._open = False
        futures, self._futures = self._futures, []
        try:
            if futures:
                await asyncio.wait(futures)
        except asyncio.CancelledError:
            for future in futures:
                future.cancel()
            raise
        failed = [future for future in futures if not future.cancelled() and future.exception() is not None]
        if extype is None and failed:
            failed[0].result()

    def _ask(self, operation: Any) -> asyncio.Future[Any]:
        if not self._open:
            operation.close()
            raise exceptions.InterfaceError("the pipeline is not open: use it within `async with`")
        future: asyncio.Future[Any] = asyncio.ensure_future(operation)
        self._futures.append(future)
        return future

    def execute(self, query: str, *args: Any, timeout: Optional[float] = None, **values: Any) -> asyncio.Future[str]:
        """As :meth:`Connection.execute`."""
        return self._ask(self._connection.execute(query, *args, timeout=timeout, **values))

    @overload
    def fetch(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: None = None, **values: Any
    ) -> asyncio.Future[list[RecordT]]: ...

    @overload
    def fetch(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: type[RowT], **values: Any
    ) -> asyncio.Future[list[RowT]]: ...

    def fetch(
        self,
        query: str,
        *args: Any,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> asyncio.Future[Any]:
        """As :meth:`Connection.fetch`."""
        return self._ask(self._connection.fetch(query, *args, timeout=timeout, record_class=record_class, **values))

    def fetchval(
        self, query: str, *args: Any, column: Union[int, str] = 0, timeout: Optional[float] = None, **values: Any
    ) -> asyncio.Future[Any]:
        """As :meth:`Connection.fetchval`."""
        return self._ask(self._connection.fetchval(query, *args, column=column, timeout=timeout, **values))

    @overload
    def fetchrow(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: None = None, **values: Any
    ) -> asyncio.Future[Optional[RecordT]]: ...

    @overload
    def fetchrow(
        self, query: str, *args: Any, timeout: Optional[float] = None, record_class: type[RowT], **values: Any
    ) -> asyncio.Future[Optional[RowT]]: ...

    def fetchrow(
        self,
        query: str,
        *args: Any,
        timeout: Optional[float] = None,
        record_class: Optional[type[Any]] = None,
        **values: Any,
    ) -> asyncio.Future[Any]:
        """As :meth:`Connection.fetchrow`."""
        return self._ask(self._connection.fetchrow(query, *args, timeout=timeout, record_class=record_class, **values))
