"""Which transactions were aborted, by their markers' place: the `.txnindex` of a segment."""

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
    last_stable_offset: int  # where readers stood once the marker counted

    @classmethod
    def of(cls, completed: CompletedTransaction) -> AbortedEntry:
        return cls(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            completed.last_stable_offset,
        )


class TxnIndex:
    """The aborted transactions whose markers stand in one segment, by marker."""

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
        """Read the file, if there is one; CorruptIndexError when it cannot be a transaction index."""
        try:
            data = self._files.read_file(self.path)
        except FileNotFoundError:
            data = b""
        if len(data) % ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path} has {len(data)} bytes, which is no number of entries")
        entries = []
        previous_offset = -1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedEntry(*fields)
            if version != _VERSION or not previous_offset < entry.last_offset >= entry.first_offset:
                raise CorruptIndexError(f"{self.path} has an entry that cannot be: {entry}")
            previous_offset = entry.last_offset
            entries.append(entry)
        self._entries, self._written, self._loaded = entries, len(entries), True

    def add(self, entry: AbortedEntry) -> None:
        """Note an aborted transaction; markers come in order."""
        assert self._loaded
        assert not self._entries or self._entries[-1].last_offset < entry.last_offset
        self._entries.append(entry)

    def entries(self) -> list[AbortedEntry]:
        return self._entries

    def flush(self) -> None:
        """Bring the file up to date; it appears with its first entry. Page cache only."""
        if self._written == len(self._entries):
            return
        block = encode_entries(self._entries[self._written :])
        write_at(self._files, self.path, self._written * ENTRY_BYTES, block)
        self._written = len(self._entries)

    def truncate(self, next_offset: int) -> None:
        """Drop entries whose markers stand at or above an offset."""
        while self._entries and self._entries[-1].last_offset >= next_offset:
            self._entries.pop()
        if len(self._entries) < self._written:
            self._written = len(self._entries)
            cut_file(self._files, self.path, self._written * ENTRY_BYTES)

    def reset(self) -> None:
        """Start anew with no entries."""
        self._entries, self._written, self._loaded = [], 0, True
        cut_file(self._files, self.path, 0)


def encode_entries(entries: Iterable[AbortedEntry]) -> bytes:
    """Entries as they stand in the file."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)
