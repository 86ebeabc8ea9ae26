"""klamm's producer and consumer, end to end, with klamm's broker and with Apache Kafka."""

from __future__ import annotations

import os
from random import Random

import confluent_kafka
import pytest

from interop.harness import COMPRESSIONS, START_MS
from interop.own import Own, poll_until, read, values
from klamm import Consumer, TopicPartition
from klamm.client.producer.delivery import Delivery
from klamm.errors import (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordDeserializationError,
    RecordTooLargeError,
)
from klamm.testing import wait_until

pytestmark = pytest.mark.timeout(120)

KEYS = (None, b"", b"k", "schlüssel".encode(), bytes(range(256)))
VALUES = (None, b"", b"v", b"long " * 400)
HEADERS = (
    (),
    (("trace", b"1"),),
    (("same", b"a"), ("same", b"b"), ("same", b"a")),
    (("", b""), ("nothing", None), ("größe", bytes(300))),
)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_is_sent_comes_back_as_it_was(own: Own, topic: str, compression: str) -> None:
    (partition,) = own.create_topic(topic)
    combinations = [(key, value, headers) for key in KEYS for value in VALUES for headers in HEADERS]
    producer = own.producer(compression_type=compression, linger_ms=5)
    sent = [
        producer.send(topic, value, key, headers, timestamp_ms=START_MS + n)
        for n, (key, value, headers) in enumerate(combinations)
    ]
    assert [delivery.result(30) for delivery in sent] == [
        (topic, 0, n, START_MS + n) for n in range(len(combinations))
    ]
    consumer = own.consumer(group_id=None)
    consumer.assign([partition])
    records = read(consumer, len(combinations))
    assert [(record.key, record.value, record.headers) for record in records] == combinations
    assert [record.offset for record in records] == list(range(len(combinations)))
    assert [record.timestamp_ms for record in records] == [START_MS + n for n in range(len(combinations))]


def test_a_big_message_passes_through_small_fetches(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic, max_message_bytes="6000000")
    big = Random(1).randbytes(5_000_000)
    producer = own.producer(max_request_size=6_000_000)
    for value in (b"before", big, b"after"):
        producer.send(topic, value).result(30)
    consumer = own.consumer(group_id=None, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000)
    consumer.assign([partition])
    assert values(read(consumer, 3)) == [b"before", big, b"after"]


def test_what_is_too_large_for_the_producer_or_the_topic_is_refused(own: Own, topic: str) -> None:
    own.create_topic(topic, max_message_bytes="2000")
    producer = own.producer(max_request_size=10_000)
    with pytest.raises(RecordTooLargeError, match=r"max\.request\.size"):
        producer.send(topic, os.urandom(20_000))
    with pytest.raises(RecordTooLargeError):
        producer.send(topic, os.urandom(3_000)).result(30)
    assert producer.send(topic, os.urandom(1_000)).result(30).offset == 0


def test_a_batch_too_large_for_the_topic_is_split_and_keeps_its_order(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic, max_message_bytes="3000")
    producer = own.producer(linger_ms=100, batch_size=100_000)
    records = [b"%04d" % n + os.urandom(500) for n in range(60)]
    sent = [producer.send(topic, record) for record in records]
    producer.flush(30)
    assert [delivery.result().offset for delivery in sent] == list(range(60))
    consumer = own.consumer(group_id=None)
    consumer.assign([partition])
    assert values(read(consumer, 60)) == records


def test_keys_go_to_the_partitions_where_java_puts_them(own: Own, topic: str) -> None:
    own.create_topic(topic, 7)
    keys = [*(f"key-{n}".encode() for n in range(40)), b"", "订单".encode()]
    theirs: dict[bytes, int] = {}

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        assert error is None, error
        theirs[message.value()] = message.partition()

    librdkafka = confluent_kafka.Producer(
        {"bootstrap.servers": own.bootstrap, "partitioner": "murmur2_random"}  # Java's, by another name
    )
    for key in keys:
        if key:  # librdkafka takes an empty key for none
            librdkafka.produce(topic, key=key, value=key, on_delivery=delivered)
    assert librdkafka.flush(30) == 0
    producer = own.producer()
    ours = {key: producer.send(topic, key, key).result(30).partition for key in keys}
    assert ours[b""] == 275646681 % 7
    assert {key: number for key, number in ours.items() if key} == theirs


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(own: Own, topic: str, acks: str) -> None:
    (partition,) = own.create_topic(topic)
    producer = own.producer(acks=acks)
    offsets = [producer.send(topic, b"%d" % n).result(30).offset for n in range(3)]
    assert offsets == ([-1, -1, -1] if acks == "0" else [0, 1, 2])
    consumer = own.consumer(group_id=None)
    consumer.assign([partition])
    assert values(read(consumer, 3)) == [b"0", b"1", b"2"]


def test_callbacks_come_in_order_without_being_polled_for(own: Own, topic: str) -> None:
    own.create_topic(topic)
    offsets: list[int] = []
    producer = own.producer(linger_ms=2, batch_size=300)

    def delivered(delivery: Delivery) -> None:
        offsets.append(delivery.result().offset)

    for n in range(500):
        producer.send(topic, b"%d" % n, on_delivery=delivered)
    producer.flush(30)
    wait_until(lambda: offsets, equals=list(range(500)))


def test_a_topic_that_does_not_exist_is_made_by_the_first_record(own: Own, topic: str) -> None:
    assert own.producer().send(topic, b"first").result(30).offset == 0
    consumer = own.consumer(group_id=None)
    consumer.assign([TopicPartition(topic, 0)])
    assert values(read(consumer, 1)) == [b"first"]


def test_positions_go_where_they_are_sent(own: Own, topic: str) -> None:
    one, two = own.create_topic(topic, 2)
    producer = own.producer()
    for n in range(10):
        producer.send(topic, b"%d" % n, partition=0, timestamp_ms=START_MS + 1000 * n).result(30)
    consumer = own.consumer(group_id=None)
    consumer.assign([one, two])
    assert consumer.position(one) == 0

    consumer.seek(one, 7)
    assert consumer.position(one) == 7
    assert values(read(consumer, 3)) == [b"7", b"8", b"9"]
    assert consumer.lag(one) == 0
    consumer.seek_to_beginning(one)
    assert values(read(consumer, 1)) == [b"0"]
    assert consumer.position(one) == 1
    consumer.seek_to_end(one)
    assert consumer.position(one) == 10

    assert consumer.beginning_offsets([one, two]) == {one: 0, two: 0}
    assert consumer.end_offsets([one, two]) == {one: 10, two: 0}
    found = consumer.offsets_for_times({one: START_MS + 4_500, two: START_MS})
    in_one = found[one]
    assert in_one is not None
    assert (in_one.offset, in_one.timestamp_ms) == (5, START_MS + 5_000)
    assert found[two] is None
    assert consumer.offsets_for_times({one: START_MS + 60_000}) == {one: None}
    assert consumer.partitions_for(topic) == [one, two]


def test_a_paused_partition_rests_and_goes_on_where_it_was(own: Own, topic: str) -> None:
    one, two = own.create_topic(topic, 2)
    own.fill([one, two], 10)
    consumer = own.consumer(group_id=None)
    consumer.assign([one, two])
    consumer.pause(one)
    assert consumer.paused() == {one}
    assert {record.partition for record in read(consumer, 10)} == {1}
    assert not consumer.poll(0.2)
    consumer.resume(one)
    rest = read(consumer, 10)
    assert {record.partition for record in rest} == {0}
    assert values(rest) == [b"%d" % n for n in range(10)]


def test_reading_starts_where_start_at_says(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 10)
    consumer = own.consumer(group_id=None, start_at=6)
    consumer.assign([partition])
    assert values(read(consumer, 4)) == [b"6", b"7", b"8", b"9"]


def test_a_position_that_the_log_does_not_have_follows_the_policy(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 5)
    for policy, expected in (("earliest", 0), ("latest", 5)):
        consumer = own.consumer(group_id=None, auto_offset_reset=policy)
        consumer.assign([partition])
        consumer.seek(partition, 99)
        poll_until(consumer, lambda c=consumer: c.position(partition) != 99, "the reset")  # type: ignore[misc]  # bound now
        assert consumer.position(partition) in (expected, 5)
    strict = own.consumer(group_id=None, auto_offset_reset="none")
    strict.assign([partition])
    with pytest.raises(NoOffsetForPartitionError):
        strict.poll(10)
    strict.seek(partition, 99)
    with pytest.raises(OffsetOutOfRangeError):
        strict.poll(10)
    strict.seek(partition, 3)
    assert values(read(strict, 2)) == [b"3", b"4"]


def test_a_record_that_does_not_deserialize_stops_the_reader_until_it_is_stepped_over(
    own: Own, topic: str
) -> None:
    (partition,) = own.create_topic(topic)
    producer = own.producer()
    for value in ("1", "2", "drei", "4"):
        producer.send(topic, value).result(30)
    consumer = own.consumer(group_id=None, value_deserializer=lambda raw: int(raw or b"0"))
    consumer.assign([partition])
    assert values(read(consumer, 2)) == [1, 2]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as caught:
            consumer.poll(10)
        assert (caught.value.offset, caught.value.value) == (2, b"drei")
    consumer.seek(partition, 3)
    assert values(read(consumer, 1)) == [4]


def test_iterating_and_asking_for_one_give_each_record_once(own: Own, topic: str) -> None:
    (partition,) = own.create_topic(topic)
    own.fill([partition], 30)
    consumer = own.consumer(group_id=None, max_poll_records=7)
    consumer.assign([partition])
    first = consumer.getone(10)
    assert first is not None
    seen = [first.value]
    for record in consumer:
        seen.append(record.value)
        if len(seen) == 15:
            break
    assert consumer.position(partition) == 15
    rest = consumer.getmany(timeout_ms=10_000, max_records=100)
    seen += values(rest[partition])
    seen += values(read(consumer, 30 - len(seen)))
    assert seen == [b"%d" % n for n in range(30)]


def test_new_topics_that_match_the_pattern_are_read_too(own: Own, topic: str) -> None:
    own.fill(own.create_topic(f"{topic}-a"), 1)
    own.create_topic(f"not-{topic}-b")
    consumer = own.consumer(group_id=f"pattern-{topic}", metadata_max_age_ms=300)
    consumer.subscribe(pattern=rf"{topic}-.*")
    assert [record.topic for record in read(consumer, 1)] == [f"{topic}-a"]
    consumer.commit_sync()
    own.fill(own.create_topic(f"{topic}-c"), 1)
    assert [record.topic for record in read(consumer, 1)] == [f"{topic}-c"]
    assert consumer.subscription() == {f"{topic}-a", f"{topic}-c"}


class TestReadCommitted:
    """Against Apache Kafka, with transactions of another client."""

    @pytest.fixture
    def cluster(self, request: pytest.FixtureRequest) -> str:
        bootstrap: str = request.getfixturevalue("shared_kafka").bootstrap
        return bootstrap

    def test_aborted_and_open_transactions_stay_hidden(self, own: Own, topic: str) -> None:
        (partition,) = own.create_topic(topic)
        transactional = confluent_kafka.Producer(
            {"bootstrap.servers": own.bootstrap, "transactional.id": f"tx-{topic}"}
        )
        transactional.init_transactions(30)
        for number, commits in enumerate((True, False, True)):
            transactional.begin_transaction()
            for n in range(3):
                transactional.produce(topic, b"%d-%d" % (number, n))
            transactional.flush(30)  # else librdkafka drops what it aborts before anybody sees it
            if commits:
                transactional.commit_transaction(30)
            else:
                transactional.abort_transaction(30)
        transactional.begin_transaction()
        transactional.produce(topic, b"open")
        transactional.flush(30)

        careful = own.consumer(group_id=None, isolation_level="read_committed")
        careful.assign([partition])
        expected = [b"0-0", b"0-1", b"0-2", b"2-0", b"2-1", b"2-2"]
        assert values(read(careful, 6)) == expected
        assert not careful.poll(0.3), "the open transaction is not to be seen"
        stable_end = careful.end_offsets([partition])[partition]
        # Three records and a marker each; behind the last marker it waits for the open one.
        wait_until(lambda: self.position_after_poll(careful, partition), equals=12)
        assert stable_end == 12

        hasty = own.consumer(group_id=None)
        hasty.assign([partition])
        everything = values(read(hasty, 10))
        assert everything == [b"%d-%d" % (number, n) for number in range(3) for n in range(3)] + [b"open"]

        transactional.commit_transaction(30)
        assert values(read(careful, 1)) == [b"open"]

    def test_a_lone_marker_moves_the_position_and_ends_the_poll_early(self, own: Own, topic: str) -> None:
        (partition,) = own.create_topic(topic)
        transactional = confluent_kafka.Producer(
            {"bootstrap.servers": own.bootstrap, "transactional.id": f"tx-{topic}"}
        )
        transactional.init_transactions(30)
        transactional.begin_transaction()
        transactional.produce(topic, b"never")
        transactional.flush(30)
        transactional.abort_transaction(30)
        consumer = own.consumer(group_id=None, isolation_level="read_committed")
        consumer.assign([partition])
        poll_until(consumer, lambda: consumer.position(partition) == 2, "the marker")

    @staticmethod
    def position_after_poll(consumer: Consumer, partition: TopicPartition) -> int:
        consumer.poll(0.05)
        return consumer.position(partition)
