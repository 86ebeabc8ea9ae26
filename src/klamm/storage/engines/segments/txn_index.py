"""The `.txnindex` of a segment: aborted transactions, in the order of their markers."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.offset_index import CorruptIndexError, cut_file, write_at
from klamm.storage.producer_state import CompletedTransaction

ENTRY_BYTES: Final = 34
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedEntry(NamedTuple):
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int  # its marker
    last_stable_offset: int  # the last stable offset once the marker was visible

    @classmethod
    def of(cls, completed: CompletedTransaction) -> AbortedEntry:
        return cls(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            completed.last_stable_offset,
        )


class TxnIndex:
    """The aborted transactions whose markers are in one segment, by marker."""

    __slots__ = ("_entries", "_files", "_loaded", "_written", "path")

    def __init__(self, files: Files, path: str, *, is_new: bool = False) -> None:
        self._files = files
        self.path = path
        self._entries: list[AbortedEntry] = []
        self._written = 0
        self._loaded = is_new

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_loaded(self) -> bool:
        return self._loaded

    def load(self) -> None:
        """Read the file, if it exists; CorruptIndexError when it is not a transaction index."""
        try:
            data = self._files.read_file(self.path)
        except FileNotFoundError:
            data = b""
        if len(data) % ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path}: {len(data)} bytes are not a whole number of entries")
        entries = []
        previous_offset = -1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedEntry(*fields)
            if version != _VERSION or not previous_offset < entry.last_offset >= entry.first_offset:
                raise CorruptIndexError(f"{self.path}: invalid entry {entry}")
            previous_offset = entry.last_offset
            entries.append(entry)
        self._entries, self._written, self._loaded = entries, len(entries), True

    def add(self, entry: AbortedEntry) -> None:
        """Add an aborted transaction; markers are added in offset order."""
        assert self._loaded
        assert not self._entries or self._entries[-1].last_offset < entry.last_offset
        self._entries.append(entry)

    def entries(self) -> list[AbortedEntry]:
        return self._entries

    def flush(self) -> None:
        """Write new entries to the file, which is created with the first one. Page cache only."""
        if self._written == len(self._entries):
            return
        block = encode_entries(self._entries[self._written :])
        write_at(self._files, self.path, self._written * ENTRY_BYTES, block)
        self._written = len(self._entries)

    def truncate(self, next_offset: int) -> None:
        """Drop entries whose markers are at or above an offset."""
        while self._entries and self._entries[-1].last_offset >= next_offset:
            self._entries.pop()
        if len(self._entries) < self._written:
            self._written = len(self._entries)
            cut_file(self._files, self.path, self._written * ENTRY_BYTES)

    def reset(self) -> None:
        """Remove all entries."""
        self._entries, self._written, self._loaded = [], 0, True
        cut_file(self._files, self.path, 0)


def encode_entries(entries: Iterable[AbortedEntry]) -> bytes:
    """Encode entries as the file holds them."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)
