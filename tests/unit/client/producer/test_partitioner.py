"""Partitions as Java chooses them."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import MappingProxyType

import pytest

from klamm.client.producer.partitioner import StickyPartitioner, partition_for_key, weights
from klamm.net.cluster import PartitionInfo, TopicInfo


def a_topic(partitions: int, without_leader: frozenset[int] = frozenset()) -> TopicInfo:
    infos = {
        number: PartitionInfo(number, -1 if number in without_leader else 1, 0, (1,), (1,))
        for number in range(partitions)
    }
    return TopicInfo("t", b"t" * 16, False, MappingProxyType(infos))


@pytest.mark.parametrize(
    ("key", "of_3", "of_12", "of_50"),
    [
        (b"", 0, 9, 31),
        (b"a", 1, 4, 24),
        (b"21", 0, 0, 40),
        (b"abc", 0, 3, 7),
        (b"key", 1, 1, 31),
        (b"foobar", 0, 6, 16),
        (b"user-42", 1, 4, 10),
        ("订单".encode(), 1, 10, 32),
        (bytes.fromhex("00000001"), 0, 0, 40),
    ],
)
def test_a_key_goes_where_java_puts_it(key: bytes, of_3: int, of_12: int, of_50: int) -> None:
    assert [partition_for_key(key, count) for count in (3, 12, 50)] == [of_3, of_12, of_50]


def test_keyless_records_stay_until_they_are_worth_a_batch() -> None:
    sticky = StickyPartitioner(100, is_adaptive=False, random=Random(5))
    topic = a_topic(64)
    first = sticky.choose(topic, dict)
    sticky.took("t", first, 60)
    assert sticky.choose(topic, dict) == first, "a short batch is no reason to move"
    sticky.took("t", first, 60)
    assert sticky.choose(topic, dict) != first


def test_all_partitions_have_their_turn() -> None:
    sticky = StickyPartitioner(100, is_adaptive=False, random=Random(5))
    topic = a_topic(8)
    drawn = set()
    for _ in range(100):
        drawn.add(current := sticky.choose(topic, dict))
        sticky.took("t", current, 100)
    assert drawn == set(range(8))


def test_partitions_without_a_leader_are_left_out_while_others_have_one() -> None:
    sticky = StickyPartitioner(1, is_adaptive=True, random=Random(2))
    topic = a_topic(4, frozenset({0, 1, 2}))
    assert sticky.choose(topic, dict) == 3


def test_longer_queues_are_chosen_less_often() -> None:
    assert weights([0, 3, 1]) == [4, 1, 3]
    sticky = StickyPartitioner(1, is_adaptive=True, random=Random(2))
    topic = a_topic(3)
    chosen: Counter[int] = Counter()
    for _ in range(4000):
        partition = sticky.choose(topic, lambda: {0: 0, 1: 3, 2: 1})
        chosen[partition] += 1
        sticky.took("t", partition, 2)
    assert [round(chosen[number] / 500) for number in range(3)] == [4, 1, 3]
