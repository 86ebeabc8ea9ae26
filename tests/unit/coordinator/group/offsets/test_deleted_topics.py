"""Offsets of topics that no longer exist."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.group.events import OffsetsRemoved
from klamm.coordinator.group.offsets.deleted_topics import RETRY_MS
from klamm.coordinator.group.remembered import OffsetForgotten
from klamm.coordinator.group.topics import KnownTopic
from klamm.protocol.errors import ErrorCode
from unit.coordinator.driver import World

OK: Final = ErrorCode.none


def delete(world: World, topic: str) -> None:
    del world.topics.known[topic]
    world.coordinator.topic_deleted(topic, world.context())


def test_the_offsets_of_a_deleted_topic_are_gone_in_all_groups() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t2", 0): 2})
    world.commit({("t", 3): 3}, group="other")
    delete(world, "t")
    assert world.fetch() == {("t2", 0): (2, OK)}
    assert world.fetch(group="other") == {}
    assert world.log.decoded()[-2:] == [OffsetForgotten("g", "t", 0), OffsetForgotten("other", "t", 3)]
    assert world.listed() == {"g": "Empty", "other": "Empty"}
    world.pass_ms(600_000)
    assert world.listed() == {"g": "Empty"}


def test_tombstones_that_are_too_large_for_one_batch_go_in_several() -> None:
    world = World()
    groups = [f"{number}" * 300 for number in range(5)]
    for group in groups:
        world.commit({("t", partition): 1 for partition in range(8)}, group=group)
    world.log.max_batch_bytes = 3_000
    delete(world, "t")
    assert all(world.fetch(group=group) == {} for group in groups)
    assert {OffsetForgotten(group, "t", partition) for group in groups for partition in range(8)} <= set(
        world.log.decoded()
    )
    world.restart()
    assert world.listed() == {}


def test_a_topic_that_was_deleted_while_the_shard_was_not_served_leaves_no_offsets() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t2", 0): 2})
    world.coordinator.shards.resign(0, 1)
    delete(world, "t")
    world.elect_all()
    assert world.fetch() == {("t2", 0): (2, OK)}
    assert world.log.decoded()[-1] == OffsetForgotten("g", "t", 0)
    assert [event.count for event in world.events if isinstance(event, OffsetsRemoved)] == [1]


def test_a_topic_that_was_made_anew_meanwhile_starts_without_offsets() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t2", 0): 2})
    world.topics.known["t"] = KnownTopic("t", b"another topic id", 8)
    world.restart()
    assert world.fetch() == {("t2", 0): (2, OK)}
    world.commit({("t", 1): 3})
    written = len(world.log.batches)
    world.restart()
    assert world.fetch() == {("t", 1): (3, OK), ("t2", 0): (2, OK)}
    assert len(world.log.batches) == written


def test_when_the_log_refuses_to_forget_it_is_asked_again() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t2", 0): 2})
    world.log.refuse_with = ErrorCode.kafka_storage_error
    delete(world, "t")
    world.pass_ms(2 * RETRY_MS)
    assert world.fetch() == {("t", 0): (1, OK), ("t2", 0): (2, OK)}
    world.log.refuse_with = None
    world.pass_ms(RETRY_MS)
    assert world.fetch() == {("t2", 0): (2, OK)}


def test_a_topic_that_is_back_when_the_log_is_asked_again_keeps_its_new_offsets() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t", 1): 1})
    world.log.refuse_with = ErrorCode.kafka_storage_error
    delete(world, "t")
    world.log.refuse_with = None
    world.topics.known["t"] = KnownTopic("t", b"another topic id", 8)
    world.commit({("t", 0): 5})
    world.pass_ms(RETRY_MS)
    assert world.fetch() == {("t", 0): (5, OK)}
