"""The statements that a connection keeps prepared: the ones used last, each for so long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Optional


class _Entry:
    __slots__ = ("key", "statement", "timer")

    def __init__(self, key: Hashable, statement: Any) -> None:
        self.key = key
        self.statement = statement
        self.timer: Optional[asyncio.TimerHandle] = None


class _StatementCache:
    """Statements by query, class of records, whether the program's own codecs are left out, and the types declared.

    Those of the connection's own class of records stand in the session's dictionary too, where queries find them
    without coming through here; each notes there when it was used.
    """

    __slots__ = ("_entries", "_fast", "_loop", "_max_lifetime", "_max_size", "_on_remove", "_record_class")

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        max_size: int,
        on_remove: Callable[[Any], None],
        max_lifetime: float,
        session: Any = None,
    ) -> None:
        self._loop = loop
        self._max_size = max_size
        self._on_remove = on_remove
        self._max_lifetime = max_lifetime
        self._entries: dict[Hashable, _Entry] = {}
        self._fast: dict[str, Any] = {} if session is None else session._statements
        self._record_class = None if session is None else session.get_record_class()

    def __len__(self) -> int:
        return len(self._entries)

    def get_max_size(self) -> int:
        return self._max_size

    def set_max_size(self, new_size: int) -> None:
        assert new_size >= 0
        self._max_size = new_size
        self._trim()

    def get_max_lifetime(self) -> float:
        return self._max_lifetime

    def set_max_lifetime(self, new_lifetime: float) -> None:
        assert new_lifetime >= 0
        self._max_lifetime = new_lifetime
        for entry in self._entries.values():
            self._set_timer(entry)

    def get(self, key: Any, *, promote: bool = True) -> Any:
        if not self._max_size:
            return None
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.statement.closed:
            self._drop(entry)
            return None
        if promote:
            entry.statement.touch()
        return entry.statement

    def has(self, key: Any) -> bool:
        return self.get(key, promote=False) is not None

    def put(self, key: Any, statement: Any) -> None:
        if not self._max_size:
            return
        entry = _Entry(key, statement)
        replaced = self._entries.get(key)
        if replaced is not None:
            self._drop(replaced)
            self._on_remove(replaced.statement)
        self._entries[key] = entry
        if self._is_fast(key):
            self._fast[key[0]] = statement
        statement.touch()
        self._set_timer(entry)
        self._trim()

    def iter_statements(self) -> Iterator[Any]:
        return (entry.statement for entry in self._entries.values())

    def clear(self) -> None:
        entries = list(self._entries.values())
        self._entries.clear()
        self._fast.clear()
        for entry in entries:
            self._stop_timer(entry)
            self._on_remove(entry.statement)

    def _is_fast(self, key: Any) -> bool:
        return key[1] is self._record_class and not key[2]

    def _drop(self, entry: _Entry) -> None:
        self._stop_timer(entry)
        key: Any = entry.key
        del self._entries[key]
        if self._is_fast(key):
            self._fast.pop(key[0], None)

    def _trim(self) -> None:
        while len(self._entries) > self._max_size:
            oldest = min(self._entries.values(), key=lambda entry: entry.statement._used)
            self._drop(oldest)
            self._on_remove(oldest.statement)

    def _set_timer(self, entry: _Entry) -> None:
        self._stop_timer(entry)
        if self._max_lifetime:
            entry.timer = self._loop.call_later(self._max_lifetime, self._on_expired, entry)

    def _stop_timer(self, entry: _Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None

    def _on_expired(self, entry: _Entry) -> None:
        if self._entries.get(entry.key) is entry:
            self._drop(entry)
            self._on_remove(entry.statement)
