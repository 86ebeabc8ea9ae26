"""The last offset of each key: what a pass of the cleaner compares records with."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from klamm.records.record import Record

# What Kafka counts for a key: it sizes its table by this, and users size the buffer by it.
_KAFKA_ENTRY_BYTES: Final = 24
# What a key costs here beside its own bytes: its share of the dictionary, the offset, the bytes object.
_ENTRY_OVERHEAD_BYTES: Final = 165
_LONGEST_KEY_KEPT: Final = 32
_DIGEST_BYTES: Final = _LONGEST_KEY_KEPT + 1  # longer than any key kept as it is, so the two never meet


class OffsetMap:
    """Key to last offset, within a bound on keys and on memory."""

    __slots__ = ("_bytes_left", "_keys_left", "_offsets", "last_offset")

    def __init__(self, buffer_bytes: int, load_factor: float = 0.9) -> None:
        """At most as many keys as Kafka takes into such a buffer, and never more memory than it."""
        self._offsets: dict[bytes, int] = {}
        self._keys_left = int(buffer_bytes / _KAFKA_ENTRY_BYTES * load_factor)
        self._bytes_left = int(buffer_bytes * load_factor)
        self.last_offset = -1  # everything up to here is mapped

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, records: Iterable[Record], from_offset: int) -> bool:
        """Map records of a batch at or above an offset; False when the map is full before the end."""
        offsets = self._offsets
        for offset, _, key, _, _ in records:
            if key is None or offset < from_offset:
                continue
            if len(key) > _LONGEST_KEY_KEPT:
                key = blake2b(key, digest_size=_DIGEST_BYTES).digest()  # noqa: PLW2901 - the same key, shorter
            if key not in offsets:
                if self._keys_left <= 0 or self._bytes_left <= 0:
                    return False
                self._keys_left -= 1
                self._bytes_left -= _ENTRY_OVERHEAD_BYTES + len(key)
            offsets[key] = offset
            self.last_offset = offset
        return True

    def advance(self, last_offset: int) -> None:
        """Everything up to an offset is mapped, also where there was nothing to map."""
        self.last_offset = max(self.last_offset, last_offset)

    def is_latest(self, key: bytes, offset: int) -> bool:
        """Whether no later record of this key is mapped."""
        if len(key) > _LONGEST_KEY_KEPT:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
        return offset >= self._offsets.get(key, -1)
