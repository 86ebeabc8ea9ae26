"""The partition of an internal topic for a key: the same for every client and broker."""

from __future__ import annotations

from struct import unpack
from typing import Final

_PLACES_KEPT: Final = 1 << 18  # the hash of a long id costs more than the rest of a short request
_CHARACTERS_KEPT: Final = 1 << 23  # of all keys together: clients choose how long they are

_LONG_BYTES: Final = 256
_FACTOR_OF_EIGHT: Final = 31**8 & 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, wrapping to signed 32 bits."""
    raw = text.encode("utf-16-be", "surrogatepass")
    if len(raw) > _LONG_BYTES:
        value = _long_hash(raw)
    else:
        value = 0
        for unit in unpack(f">{len(raw) // 2}H", raw):
            value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _long_hash(raw: bytes) -> int:
    """The same of many units, which any client may send, in a twentieth of the time.

    All units are one large number. Neighbours are combined in one step for all: after three steps each 128
    bits have the hash of eight units.
    """
    count = -(-len(raw) // 16)
    value = int.from_bytes(raw, "big")
    for bits, factor in ((16, 31), (32, 31**2), (64, 31**4)):
        lane = ((1 << bits) - 1).to_bytes(bits // 4, "big")
        mask = int.from_bytes(lane * (count * 64 // bits), "big")
        value = (value & mask) + ((value >> bits) & mask) * factor
    result = 0
    for eight in unpack(f">{2 * count}Q", value.to_bytes(16 * count, "big"))[1::2]:
        result = (result * _FACTOR_OF_EIGHT + eight) & 0xFFFFFFFF
    return result


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a key. The most negative hash has no absolute value and counts as 0, as in Kafka."""
    value = abs(java_hash(key))
    return 0 if value == 1 << 31 else value % partition_count


class Places(dict[str, int]):
    """The partition of each key, computed once.

    A plain dictionary: one that tracks which entry was used last writes to several of them at each use, and
    with many keys none of them is in the processor's cache.
    """

    def __init__(self, partition_count: int) -> None:
        self._partition_count = partition_count
        self._characters = 0

    def __missing__(self, key: str) -> int:
        self._characters += len(key)
        if len(self) >= _PLACES_KEPT or self._characters > _CHARACTERS_KEPT:
            self.clear()
            self._characters = len(key)
        partition = self[key] = partition_for(key, self._partition_count)
        return partition
