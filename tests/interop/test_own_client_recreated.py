"""Topics that are deleted and created again while a group with automatic commits reads them."""

from __future__ import annotations

import time

import pytest

from interop.own import Own, poll_until, read, values
from klamm import Consumer, TopicPartition
from klamm.testing import wait_until

pytestmark = [pytest.mark.groups, pytest.mark.timeout(120)]


def recreate(own: Own, topic: str) -> TopicPartition:
    own.admin.delete_topics([topic]).unwrap()
    wait_until(lambda: topic in own.admin.describe_topics(), equals=False)
    (partition,) = own.create_topic(topic, 1)
    return partition


def a_reader(own: Own, topic: str, **settings: object) -> Consumer:
    """A member that commits often and has read ten records of the topic as it was first."""
    (partition,) = own.create_topic(topic, 1)
    own.fill([partition], 10)
    consumer = own.consumer(
        topic,
        group_id=f"g-{topic}",
        enable_auto_commit=True,
        auto_commit_interval_ms=50,
        allow_auto_create_topics=False,
        **settings,
    )
    assert len(read(consumer, 10)) == 10
    return consumer


@pytest.mark.parametrize("written", [3, 25])
@pytest.mark.parametrize("polls", [True, False])
def test_everything_in_the_new_topic_is_read(own: Own, topic: str, written: int, polls: bool) -> None:
    consumer = a_reader(own, topic)
    own.admin.delete_topics([topic]).unwrap()
    if polls:
        consumer.poll(0.2)
    wait_until(lambda: topic in own.admin.describe_topics(), equals=False)
    (partition,) = own.create_topic(topic, 1)
    own.fill([partition], written, start=100)
    expected = [b"%d" % number for number in range(100, 100 + written)]
    assert values(read(consumer, written)) == expected
    poll_until(consumer, lambda: committed(consumer, partition) == written, "the commit")
    consumer.close()
    assert committed(own.consumer(group_id=f"g-{topic}"), partition) == written


def committed(consumer: Consumer, partition: TopicPartition) -> int | None:
    found = consumer.committed([partition])[partition]
    return None if found is None else found.offset


def test_a_member_that_closes_leaves_no_old_position_in_the_new_topic(own: Own, topic: str) -> None:
    consumer = a_reader(own, topic)
    partition = recreate(own, topic)
    consumer.close()
    own.fill([partition], 15, start=100)
    successor = own.consumer(topic, group_id=f"g-{topic}")
    assert len(values(read(successor, 15))) == 15


def test_a_deleted_topic_does_not_hold_up_a_pattern(own: Own, topic: str) -> None:
    doomed, other = own.create_topic(f"{topic}.doomed", 1), own.create_topic(f"{topic}.other", 1)
    own.fill([*doomed, *other], 5)
    consumer = own.consumer(
        group_id=f"g-{topic}", enable_auto_commit=True, metadata_max_age_ms=200, max_poll_interval_ms=60_000
    )
    consumer.subscribe(pattern=f"{topic}.*")
    assert len(read(consumer, 10)) == 10
    own.admin.delete_topics([f"{topic}.doomed"]).unwrap()
    began = time.monotonic()
    poll_until(consumer, lambda: consumer.assignment() == set(other), "the rebalance")
    own.fill(other, 1, start=5)
    assert values(read(consumer, 1)) == [b"5"]
    assert time.monotonic() - began < 15
