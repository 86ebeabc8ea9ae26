"""Partitioners by name."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from klamm.client.producer.named_partitioners import MAKERS, fnv1a, names, partitioner_name
from klamm.client.producer.settings import parse
from klamm.config import ConfigError

PLACE = {"bootstrap.servers": "127.0.0.1:1"}


def choose(name: str, key: bytes | None, partitions: int = 10) -> int | None:
    return MAKERS[name](Random(1))("t", key, None, partitions)


# The published FNV-1a of 32 bits; where that is negative as a signed number, its absolute value.
@pytest.mark.parametrize(
    ("data", "unsigned"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]
)
def test_fnv1a_is_made_positive(data: bytes, unsigned: int) -> None:
    assert fnv1a(data) == 2**32 - unsigned


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
def test_no_key_is_hashed_like_an_empty_one(name: str) -> None:
    assert choose(name, None) == choose(name, b"") is not None
    assert choose(name, b"key") == choose(name, b"key")


@pytest.mark.parametrize("name", ["consistent_random", "fnv1a_random", "random"])
def test_no_key_means_anywhere(name: str) -> None:
    assert choose(name, None) is None


def test_an_empty_key_is_random_for_crc32_alone() -> None:
    chooser = MAKERS["consistent_random"](Random(1))
    assert len({chooser("t", b"", None, 10) for _ in range(100)}) > 5
    hashed = MAKERS["fnv1a_random"](Random(1))
    assert len({hashed("t", b"", None, 10) for _ in range(100)}) == 1


def test_random_ignores_the_key_and_round_robin_takes_turns() -> None:
    chooser = MAKERS["random"](Random(1))
    assert len({chooser("t", b"k", None, 10) for _ in range(100)}) > 5
    turns = MAKERS["round_robin"](Random(1))
    assert Counter(turns("t", b"k", None, 4) for _ in range(12)) == {0: 3, 1: 3, 2: 3, 3: 3}
    assert turns("u", None, None, 4) == 0


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("default", "default"),
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", "uniform_sticky"),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "default"),
        ("fnv1a", "fnv1a"),
        ("crc", None),
    ],
)
def test_names_of_java_are_understood(given: str, name: str | None) -> None:
    assert partitioner_name(given) == name


def test_uniform_sticky_ignores_keys() -> None:
    assert parse(PLACE, {"partitioner_class": "uniform_sticky"})[1].ignores_keys
    assert not parse(PLACE, {"partitioner_class": "default"})[1].ignores_keys


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"partitioner_class": "crc32"}, "consistent_random"),
        ({"partitioner_class": lambda key: 0}, "number of partitions"),
        ({"partitioner_class": 3}, "give a function"),
        ({"value_serializer": lambda: b""}, "a function of one value"),
        ({"key_serializer": 3}, "a function of one value"),
        ({"value_serializer": "yaml"}, r"klamm\.serializers:yaml"),
    ],
)
def test_what_cannot_work_is_refused_at_construction(setting: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse(PLACE, setting)


def test_every_name_is_listed() -> None:
    assert len(names()) == 10
