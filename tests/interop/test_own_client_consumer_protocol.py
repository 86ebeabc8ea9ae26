"""klamm's consumer with `group.protocol=consumer` on Apache Kafka, alone and beside other libraries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import klamm.aio
from interop.groups import group_on
from interop.kafka_tools import ApacheKafka
from interop.own import Own
from interop.own_members import Party
from klamm import BrokerError, Consumer, RebalanceListener, SubscriptionPattern, TopicPartition

pytestmark = [pytest.mark.groups, pytest.mark.timeout(180)]

SESSION_MS = 6_000
QUICK_EPOCHS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
PATIENCE_S = 30


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    flags = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=QUICK_EPOCHS, flags=flags) as kafka:
        yield kafka


@pytest.fixture
def cluster(kafka: ApacheKafka) -> str:
    return kafka.bootstrap


@pytest.fixture
def own(cluster: str) -> Iterator[Own]:
    with Own(cluster) as own:
        yield own


class Heard(RebalanceListener):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("assigned", [item.partition for item in partitions]))

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("revoked", [item.partition for item in partitions]))

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("lost", [item.partition for item in partitions]))


def a_consumer(own: Own, topic: str, **settings: Any) -> tuple[Consumer, Heard]:
    """A member of the group of that topic."""
    heard = Heard()
    consumer = Consumer(
        bootstrap_servers=own.bootstrap,
        group_id=f"group-of-{topic}",
        group_protocol="consumer",
        auto_offset_reset="earliest",
        **settings,
    )
    consumer.subscribe([topic], heard)
    return consumer, heard


def poll_until(what: Callable[[], bool], *consumers: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, [consumer.health() for consumer in consumers]
        for consumer in consumers:
            consumer.poll(0.05)


def test_members_join_leave_and_die_and_no_partition_has_two_owners(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 6)
    own.fill(partitions, 20)
    with Party(own.bootstrap, f"group-of-{topic}", [topic], group_protocol="consumer") as party:
        anna = party.join("anna")
        party.settle([anna], partitions)
        bert = party.join("bert")
        party.settle([anna, bert], partitions)
        carl = party.join("carl")
        party.settle([anna, bert, carl], partitions)
        own.fill(partitions, 20, start=20)
        bert.stop()
        party.settle([anna, carl], partitions)
        own.fill(partitions, 20, start=40)
        party.wait_for_records(
            {(topic, item.partition, offset) for item in partitions for offset in range(60)}
        )
        anna.stop()
        party.settle([carl], partitions)
        party.check_hand_overs()
        assert set(party.times_read().values()) == {1}  # each was committed before it moved


@pytest.mark.parametrize(
    "protocols",
    [
        {"java": "consumer", "confluent": "consumer"},
        {"java": "classic", "confluent": "consumer"},
        {"java": "consumer", "confluent": "classic"},
        {"java": "classic", "confluent": "classic"},
    ],
    ids=lambda protocols: "-".join(f"{name}-{protocol}" for name, protocol in protocols.items()),
)
def test_a_group_of_several_libraries_and_protocols_shares_its_partitions(
    own: Own, topic: str, tmp_path: Path, protocols: dict[str, str]
) -> None:
    partitions = own.create_topic(topic, 6)
    own.fill(partitions, 10)
    with group_on(own.bootstrap, topic, tmp_path) as watch:
        members = [watch.join("klamm", protocol="consumer")]
        watch.settle(members, 6)
        for name, protocol in protocols.items():
            members.append(watch.join(name, protocol=protocol))
            watch.settle(members, 6, evenly=True)
        own.fill(partitions, 10, start=10)
        watch.wait_for_records({(number, offset) for number in range(6) for offset in range(20)})
        for member in members[1:]:
            member.stop()
        watch.settle(members[:1], 6)
        own.fill(partitions, 10, start=20)
        watch.wait_for_records({(number, offset) for number in range(6) for offset in range(30)})
        assert members[0].errors == []


def test_a_group_goes_over_to_the_consumer_protocol_and_back_while_it_reads(
    own: Own, topic: str, tmp_path: Path
) -> None:
    partitions = own.create_topic(topic, 4)
    own.fill(partitions, 10)
    with group_on(own.bootstrap, topic, tmp_path) as watch:
        old = [watch.join("klamm"), watch.join("java")]
        watch.settle(old, 4)
        for protocol, start in (("consumer", 10), ("classic", 20)):
            new = []
            for member, offset in zip(old, (start, start + 5), strict=True):
                member.stop()
                new.append(watch.join("klamm", protocol=protocol))
                own.fill(partitions, 5, start=offset)
            watch.settle(new, 4, evenly=True)
            old = new
        watch.wait_for_records({(number, offset) for number in range(4) for offset in range(30)})
        assert set(watch.times_read().values()) == {1}


def test_a_static_member_that_restarts_keeps_its_partitions_and_disturbs_nobody(own: Own, topic: str) -> None:
    own.create_topic(topic, 4)
    static, _ = a_consumer(own, topic, group_instance_id="one")
    other, heard = a_consumer(own, topic)
    poll_until(lambda: len(static.assignment()) == len(other.assignment()) == 2, static, other)
    had = static.assignment()
    static.close()
    heard.calls.clear()
    again, _ = a_consumer(own, topic, group_instance_id="one")
    poll_until(lambda: again.assignment() == had, again, other)
    assert heard.calls == []
    again.close(leave=True)
    poll_until(lambda: len(other.assignment()) == 4, other)
    other.close()


def test_an_instance_id_that_is_taken_over_fences_the_former_member(own: Own, topic: str) -> None:
    own.create_topic(topic, 2)
    first, heard = a_consumer(own, topic, group_instance_id="one")
    poll_until(lambda: len(first.assignment()) == 2, first)
    first._operations.host.stop()  # it dies
    second, _ = a_consumer(own, topic, group_instance_id="one")
    poll_until(lambda: len(second.assignment()) == 2, second)  # within the session of the dead one
    second.close()
    # The coordinator's first target may be empty: it computes one for the members that it knows.
    assert [call for call in heard.calls if call[1]] == [("assigned", [0, 1])]


def test_a_member_that_is_removed_loses_its_partitions_and_joins_again(own: Own, topic: str) -> None:
    own.create_topic(topic, 2)
    consumer, heard = a_consumer(own, topic)
    poll_until(lambda: len(consumer.assignment()) == 2, consumer)
    poll_until(lambda: consumer.health().member_state == "stable", consumer)
    heard.calls.clear()
    own.admin.remove_members(f"group-of-{topic}", member_ids=consumer.group_metadata().member_id).unwrap()
    poll_until(lambda: ("assigned", [0, 1]) in heard.calls, consumer)
    assert heard.calls == [("lost", [0, 1]), ("assigned", [0, 1])]
    consumer.close()


def test_a_pattern_is_matched_by_the_coordinator_which_refuses_what_re2_does_not_know(
    own: Own, topic: str
) -> None:
    own.create_topic(f"{topic}-a", 1)
    consumer, _ = a_consumer(own, topic)
    consumer.unsubscribe()
    consumer.subscribe(pattern=SubscriptionPattern(f"{topic}-.*"))
    poll_until(lambda: consumer.assignment() == {TopicPartition(f"{topic}-a", 0)}, consumer)
    consumer.unsubscribe()
    consumer.subscribe(pattern=SubscriptionPattern("(a)\\1"))
    with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION"):
        consumer.poll(10)
    consumer.close()


def test_an_assignor_that_the_broker_does_not_have_is_an_error_of_every_poll(own: Own, topic: str) -> None:
    own.create_topic(topic, 1)
    consumer, _ = a_consumer(own, topic, group_remote_assignor="no-such")
    for _ in range(2):
        with pytest.raises(BrokerError, match="UNSUPPORTED_ASSIGNOR"):
            consumer.poll(10)
    consumer.close()


def test_the_assignor_asked_for_is_used(own: Own, topic: str) -> None:
    own.create_topic(topic, 4)
    members = [a_consumer(own, topic, group_remote_assignor="range")[0] for _ in range(2)]
    poll_until(lambda: all(len(member.assignment()) == 2 for member in members), *members)
    runs = sorted(sorted(item.partition for item in member.assignment()) for member in members)
    assert runs == [[0, 1], [2, 3]]
    for member in members:
        member.close()


def test_offsets_of_a_transaction_carry_the_epoch(own: Own, topic: str) -> None:
    (source,) = own.create_topic(topic, 1)
    (sink,) = own.create_topic(f"{topic}-out", 1)
    own.fill([source], 5)
    consumer, _ = a_consumer(own, topic, enable_auto_commit=False)
    producer = own.producer(transactional_id=f"tx-{topic}")
    producer.init_transactions()
    seen: list[bytes | None] = []

    def copied() -> bool:
        records = consumer.poll(0.1)
        if records:
            with producer.transaction():
                for record in records:
                    seen.append(record.value)
                    producer.send(sink.topic, record.value)
                producer.send_offsets_to_transaction({source: 5}, consumer.group_metadata())
        return len(seen) == 5

    poll_until(copied)  # which polls itself: no other poll may take the records
    committed = consumer.committed([source])[source]
    assert committed is not None
    assert committed.offset == 5
    consumer.close()


def test_a_member_that_stops_polling_leaves_and_comes_back(own: Own, topic: str) -> None:
    own.create_topic(topic, 2)
    slow, heard = a_consumer(own, topic, max_poll_interval_ms=1_500)
    poll_until(lambda: len(slow.assignment()) == 2, slow)
    other, _ = a_consumer(own, topic)
    poll_until(lambda: len(other.assignment()) == 2, other)
    heard.calls.clear()
    poll_until(lambda: len(slow.assignment()) == 1, slow, other)
    assert heard.calls[0][0] == "lost"
    slow.close()
    other.close()


def test_asyncio_members_share_a_group_too(own: Own, topic: str) -> None:
    partitions = own.create_topic(topic, 4)
    own.fill(partitions, 5)

    async def read() -> int:
        consumers = [
            klamm.aio.Consumer(
                topic,
                bootstrap_servers=own.bootstrap,
                group_id=f"group-of-{topic}",
                group_protocol="consumer",
                auto_offset_reset="earliest",
            )
            for _ in range(2)
        ]
        count = 0
        deadline = time.monotonic() + PATIENCE_S
        while count < 20 or any(len(consumer.assignment()) != 2 for consumer in consumers):
            assert time.monotonic() < deadline
            for consumer in consumers:
                count += len(await consumer.poll(0.1))
        for consumer in consumers:
            await consumer.close()
        return count

    assert asyncio.run(read()) == 20
