"""A topic is deleted and created again: positions of the old one mean nothing in the new one."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from klamm.client.consumer.consumer import Consumer
from klamm.errors import NoOffsetForPartitionError, UnknownTopicError
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import partitions, topic_id
from unit.client.consumer.world import World

T0, T1 = partitions("t", [0, 1])
OTHER = TopicPartition("other", 0)


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.produce(T0, b"old 0", b"old 1", b"old 2")
    return world


def a_reader(world: World, **settings: Any) -> Consumer:
    """A member that has read the old topic to its end."""
    consumer = world.consumer("t", group_id="g", **settings)
    assert len(consumer.poll(1)) == 3
    return consumer


def values(world: World, consumer: Consumer) -> list[bytes | None]:
    return world.settle(consumer, rounds=100)[0]


@pytest.mark.parametrize("written", [1, 3, 10])
@pytest.mark.parametrize("epoch", [0, 5])
def test_nothing_of_the_new_topic_is_skipped(world: World, written: int, epoch: int) -> None:
    consumer = a_reader(world)
    world.cluster.recreate("t", 2)
    world.cluster.log(T0).leader_epoch = epoch
    new = [b"new %d" % number for number in range(written)]
    world.cluster.produce(T0, *new)
    assert values(world, consumer) == new
    assert world.cluster.group.committed[T0][0] == written


def test_the_old_position_is_never_committed_to_the_new_topic(world: World) -> None:
    consumer = a_reader(world, metadata_max_age_ms=3_600_000)
    world.cluster.hold(ApiKey.METADATA, ApiKey.FETCH)  # it knows nothing of what happened
    world.cluster.recreate("t", 2)
    world.pass_time(6_000)
    consumer.poll(0)  # the automatic commit is due
    world.pass_time(1_000)
    assert world.cluster.requests(ApiKey.OFFSET_COMMIT)[-1].topics[0].topic_id == topic_id("t", 1)
    assert world.cluster.group.committed == {}
    world.cluster.release(ApiKey.METADATA, ApiKey.FETCH)
    world.cluster.produce(T0, b"new")
    assert values(world, consumer) == [b"new"]


def test_closing_commits_nothing_of_the_old_topic(world: World) -> None:
    consumer = a_reader(world)
    world.cluster.recreate("t", 2)
    began_ms = world.clock.now_ms()
    consumer.close()
    assert world.cluster.group.committed == {}
    assert world.clock.now_ms() - began_ms < 2_000


def test_offsets_of_records_read_before_are_not_committed_to_the_new_topic(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = a_reader(world, enable_auto_commit=False)
    world.cluster.recreate("t", 2)
    world.settle(consumer, rounds=10)  # it knows of the new topic, and has read nothing of it
    consumer.commit({T0: 3})
    consumer.commit({T0: 3})
    assert world.cluster.group.committed == {}
    reported = [record for record in caplog.records if "not committed" in record.message]
    assert [record.levelno for record in reported] == [logging.WARNING]
    world.cluster.produce(T0, b"new")
    assert values(world, consumer) == [b"new"]
    consumer.commit({T0: 1})
    assert world.cluster.group.committed == {T0: (1, -1, "")}


def test_a_caller_that_seeks_in_the_new_topic_may_commit_there(world: World) -> None:
    consumer = a_reader(world, enable_auto_commit=False)
    world.cluster.recreate("t", 2)
    world.settle(consumer, rounds=10)
    consumer.seek(T0, 0)
    consumer.commit({T0: 0})
    assert world.cluster.group.committed == {T0: (0, -1, "")}


def test_without_a_policy_the_new_topic_is_an_error(world: World) -> None:
    consumer = world.consumer("t", group_id="g", auto_offset_reset="none", start_at="earliest")
    assert len(consumer.poll(1)) == 3
    world.cluster.recreate("t", 2)
    with pytest.raises(NoOffsetForPartitionError):
        world.settle(consumer)


def test_records_fetched_from_the_old_topic_are_dropped(world: World) -> None:
    consumer = world.consumer("t", group_id="g", max_poll_records=1)
    assert [record.value for record in consumer.poll(1)] == [b"old 0"]
    world.cluster.recreate("t", 2)
    world.cluster.produce(T0, b"new")
    world.hosts[0].core.metadata.request_update()
    world.pass_time(1_000)
    assert values(world, consumer) == [b"new"]


def test_an_answer_of_the_old_topic_that_comes_late_is_dropped(world: World) -> None:
    consumer = world.consumer(group_id="g", max_poll_records=1, enable_auto_commit=False)
    consumer.assign([T1])
    world.cluster.hold(ApiKey.FETCH)
    consumer.poll(0.2)  # a fetch of the old topic at offset 0 is on its way
    (late,) = world.cluster.held.pop(ApiKey.FETCH)
    world.cluster.produce(T1, b"old")
    answer = world.cluster._fetch(late.request)
    world.cluster.recreate("t", 2)
    world.cluster.produce(T1, b"new")
    world.hosts[0].core.metadata.request_update()
    consumer.poll(0.2)
    world.cluster.reply(late, answer)
    world.cluster.release(ApiKey.FETCH)
    assert values(world, consumer) == [b"new"]


def test_a_deleted_topic_does_not_hold_up_a_pattern_subscription(world: World) -> None:
    world.cluster.create("other")
    consumer = world.consumer(group_id="g", metadata_max_age_ms=1_000)
    consumer.subscribe(pattern="t|other")
    world.settle(consumer, rounds=10)
    world.cluster.delete("t")
    world.settle(consumer, rounds=30)
    began_ms = world.clock.now_ms()
    assert consumer.assignment() == {OTHER}
    world.cluster.produce(OTHER, b"goes on")
    assert values(world, consumer) == [b"goes on"]
    assert world.clock.now_ms() - began_ms < 20_000


def test_the_deletion_of_a_topic_delays_a_rebalance_by_one_look_at_the_metadata(world: World) -> None:
    world.cluster.create("other")
    consumer = world.consumer(group_id="g", metadata_max_age_ms=3_600_000)
    consumer.subscribe(pattern="t|other")
    world.settle(consumer, rounds=10)
    world.cluster.delete("t")
    world.cluster.group.rebalance()
    world.settle(consumer, rounds=45)  # of 100 ms; the next heartbeat brings the rebalance
    assert consumer.assignment() == {OTHER}


def test_an_offset_named_for_a_topic_that_does_not_exist_is_an_error(world: World) -> None:
    consumer = a_reader(world, enable_auto_commit=False)
    world.cluster.delete("t")
    with pytest.raises(UnknownTopicError, match="t-0: the topic does not exist"):
        consumer.commit({T0: 2})
    consumer.commit()  # of its positions there is none left to commit


def test_a_broker_without_ids_is_asked_by_name(world: World) -> None:
    consumer = a_reader(world, enable_auto_commit=False)
    consumer.commit({TopicPartition("t", 0): 1})
    world.cluster.create("unseen")
    consumer.commit({T0: 2, TopicPartition("unseen", 0): 7})
    by_id, by_name = world.cluster.requests(ApiKey.OFFSET_COMMIT)
    assert [topic.name for topic in by_id.topics] == [""]
    assert sorted(topic.name for topic in by_name.topics) == ["t", "unseen"]
    assert world.cluster.group.committed[TopicPartition("unseen", 0)][0] == 7


def test_what_was_fetched_for_the_same_offset_of_the_old_topic_is_dropped(world: World) -> None:
    consumer = world.consumer(group_id="g", enable_auto_commit=False)
    consumer.assign([T0])
    world.cluster.hold(ApiKey.FETCH)
    consumer.poll(0.2)
    world.cluster.release(ApiKey.FETCH)
    world.pass_time(100)  # the old records are here, and nobody has taken them
    world.cluster.recreate("t", 2)
    world.cluster.produce(T0, b"new")
    world.hosts[0].core.metadata.request_update()
    world.pass_time(100)
    assert consumer.position(T0) == 0
    assert values(world, consumer) == [b"new"]


def test_a_position_that_is_reset_while_records_are_decoded_stays_reset(world: World) -> None:
    held: list[Consumer] = []

    def deserialize(value: bytes | None) -> bytes | None:
        if value == b"old 2":
            world.cluster.recreate("t", 2)
            world.cluster.produce(T0, b"new")
            world.hosts[0].core.metadata.request_update()
            world.pass_time(100)
            held[0].position(T0)
        return value

    held.append(world.consumer("t", group_id="g", value_deserializer=deserialize, enable_auto_commit=False))
    assert values(world, held[0]) == [b"new"]


def test_a_refused_commit_is_reason_enough_to_look_at_the_metadata(world: World) -> None:
    consumer = a_reader(world, metadata_max_age_ms=3_600_000)
    consumer.pause(T0, T1)
    consumer.poll(0)
    world.pass_time(1_000)
    world.cluster.recreate("t", 2)
    asked = len(world.cluster.requests(ApiKey.METADATA))
    world.cluster.hold(ApiKey.FETCH)
    world.pass_time(6_000)
    consumer.poll(0)
    world.pass_time(1_000)
    assert len(world.cluster.requests(ApiKey.METADATA)) == asked + 1
