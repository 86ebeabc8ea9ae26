"""The last offset of each key, which a pass compares records with."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from klamm.records.record import Record

# What Kafka counts for a key: it sizes its table by this, and users size the buffer by it.
_KAFKA_ENTRY_BYTES: Final = 24
# What a key costs besides its own bytes: its share of a dictionary, the offset, the bytes object.
_ENTRY_OVERHEAD_BYTES: Final = 130
_LONGEST_KEY_KEPT: Final = 32
_DIGEST_BYTES: Final = _LONGEST_KEY_KEPT + 1  # longer than any key kept as it is, so the two never collide
# Growing a dictionary stops every thread while entries move: many small ones stop them briefly.
_SHARDS: Final = 256
_SHARD_MASK: Final = _SHARDS - 1


class KeyOffsetMap:
    """Key to last offset, within a bound on keys and on memory."""

    __slots__ = ("_bytes_left", "_keys_left", "_shards", "last_offset")

    def __init__(self, buffer_bytes: int, load_factor: float = 0.9) -> None:
        """At most as many keys as Kafka holds in such a buffer, and never more memory than it."""
        self._shards: tuple[dict[bytes, int], ...] = tuple({} for _ in range(_SHARDS))
        self._keys_left = int(buffer_bytes / _KAFKA_ENTRY_BYTES * load_factor)
        self._bytes_left = int(buffer_bytes * load_factor)
        self.last_offset = -1  # everything up to here is mapped

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def add(self, records: Iterable[Record], from_offset: int) -> bool:
        """Map records of a batch at or above an offset; False when the map is full before the end."""
        shards = self._shards
        for offset, _, key, _, _ in records:
            if key is None or offset < from_offset:
                continue
            if len(key) > _LONGEST_KEY_KEPT:
                key = _digest(key)  # noqa: PLW2901 - the same key, shorter
            shard = shards[hash(key) & _SHARD_MASK]
            if key not in shard:
                if self._keys_left <= 0 or self._bytes_left <= 0:
                    return False
                self._keys_left -= 1
                self._bytes_left -= _ENTRY_OVERHEAD_BYTES + len(key)
            shard[key] = offset
            self.last_offset = offset
        return True

    def advance(self, last_offset: int) -> None:
        """Mark everything up to an offset as mapped, including gaps."""
        self.last_offset = max(self.last_offset, last_offset)

    def kept(self, records: Iterable[Record], *, with_tombstones: bool) -> list[Record]:
        """The records to keep: the last of each key, and all after the mapped range."""
        last_offset, shards = self.last_offset, self._shards
        kept = []
        for record in records:
            offset, _, key, value, _ = record
            if offset > last_offset:
                kept.append(record)
            elif key is not None and (value is not None or with_tombstones):
                if len(key) > _LONGEST_KEY_KEPT:
                    key = _digest(key)
                if offset >= shards[hash(key) & _SHARD_MASK].get(key, -1):
                    kept.append(record)
        return kept

    def clear(self) -> None:
        """Free the memory in small steps: freeing it at once would stop every thread for long."""
        for shard in self._shards:
            shard.clear()


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
