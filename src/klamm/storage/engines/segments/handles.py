"""A limit on open files: handles of idle segments are closed."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from klamm.storage.engines.segments.files import Files


class Openable(Protocol):
    """An object whose handle the pool may close."""

    is_recently_used: bool

    @property
    def is_open(self) -> bool: ...
    @property
    def is_unsynced(self) -> bool:
        """Whether it has unflushed writes: only this handle reports their errors, so it stays open."""
        ...

    @property
    def is_pinned(self) -> bool:
        """Whether readers need its handle: then it stays, because a second one would be opened beside it."""
        ...

    def rest(self) -> None:
        """Close the handle until it is needed again."""
        ...


class HandlePool:
    """Keeps the number of open handles near a limit; idle ones are closed first (second chance)."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self.limit = limit
        self._holders: deque[Openable] = deque()

    def open(self, holder: Openable, path: str) -> int:
        """Open a handle for a holder, which opens it again after the pool has closed it."""
        if len(self._holders) >= self.limit:
            self._make_room()
        handle = self._files.open(path)
        self._holders.append(holder)
        return handle

    def _make_room(self) -> None:
        for _ in range(2 * len(self._holders)):
            holder = self._holders.popleft()
            if holder.is_open and (holder.is_recently_used or holder.is_unsynced or holder.is_pinned):
                holder.is_recently_used = False
                self._holders.append(holder)
                continue
            if holder.is_open:
                holder.rest()
            if len(self._holders) < self.limit:
                return
