"""Partitioners by name: Java's and librdkafka's, with the same results.

A partitioner may return None: the record then goes where records without a key go.
"""

from __future__ import annotations

from binascii import crc32
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from klamm.client.producer.partitioner import Partitioner
from klamm.records.murmur2 import murmur2

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_INT32_SIGN: Final = 0x80000000


def fnv1a(data: bytes) -> int:
    """FNV-1a of 32 bits, its absolute value as a signed number: as librdkafka and Sarama have it."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return (1 << 32) - value if value & _INT32_SIGN else value


def _murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


def _round_robin(_random: Random) -> Partitioner:
    turns: Counter[str] = Counter()

    def choose(topic: str, _key: bytes | None, _value: bytes | None, partitions: int) -> int:
        turn = turns[topic]
        turns[topic] = turn + 1
        return turn % partitions

    return choose


def _random(random: Random) -> Partitioner:
    def choose(_topic: str, key: bytes | None, _value: bytes | None, partitions: int) -> int | None:
        return None if key is None else random.randrange(partitions)

    return choose


def _hashed(function: Callable[[bytes], int]) -> Callable[[Random], Partitioner]:
    """By the hash of the key; no key is hashed like an empty one."""

    def make(_random: Random) -> Partitioner:
        return lambda _topic, key, _value, partitions: function(key or b"") % partitions

    return make


def _hashed_or_random(function: Callable[[bytes], int]) -> Callable[[Random], Partitioner]:
    """By the hash of the key, where there is one."""

    def make(_random: Random) -> Partitioner:
        return lambda _topic, key, _value, partitions: None if key is None else function(key) % partitions

    return make


def _consistent_random(random: Random) -> Partitioner:
    def choose(_topic: str, key: bytes | None, _value: bytes | None, partitions: int) -> int | None:
        if key is None:
            return None
        return crc32(key) % partitions if key else random.randrange(partitions)

    return choose


# Keys by murmur2, others sticky: how klamm and Java partition without this setting.
BUILT_IN: Final = frozenset({"default", "murmur2_random"})
# Sticky for all records, keys or not.
IGNORES_KEYS: Final = frozenset({"uniform_sticky"})
MAKERS: Final[Mapping[str, Callable[[Random], Partitioner]]] = {
    "round_robin": _round_robin,
    "random": _random,
    "consistent": _hashed(crc32),
    "consistent_random": _consistent_random,
    "murmur2": _hashed(_murmur2),
    "fnv1a": _hashed(fnv1a),
    "fnv1a_random": _hashed_or_random(fnv1a),
}
_JAVA: Final = {
    "DefaultPartitioner": "default",
    "RoundRobinPartitioner": "round_robin",
    "UniformStickyPartitioner": "uniform_sticky",
}


def partitioner_name(given: str) -> str | None:
    """Our name of a partitioner, also for one of Java's classes; None for an unknown one."""
    name = _JAVA.get(given.rpartition(".")[2], given)
    return name if name in BUILT_IN | IGNORES_KEYS | MAKERS.keys() else None


def names() -> list[str]:
    return sorted(BUILT_IN | IGNORES_KEYS | MAKERS.keys())
