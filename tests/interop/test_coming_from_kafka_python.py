"""Programs written for kafka-python: the same with it and with `klamm.compat.kafka`, on one broker."""

from __future__ import annotations

import importlib
import json
import warnings
from typing import Any

import pytest

import klamm.compat.kafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas the old way
    import kafka

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(params=[kafka, klamm.compat.kafka], ids=["theirs", "ours"])
def lib(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_send_and_read_with_a_group(lib: Any, bootstrap: str, topic: str) -> None:
    producer = lib.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(5):
        producer.send(topic, b"message %d" % number)
    record_metadata = producer.send(topic, key=b"k", value=b"last").get(timeout=30)
    assert (record_metadata.topic, record_metadata.partition, record_metadata.offset) == (topic, 0, 5)
    producer.flush()
    consumer = lib.KafkaConsumer(
        topic,
        group_id=f"g-{topic}",
        bootstrap_servers=bootstrap.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=3000,
    )
    read = []
    for message in consumer:
        read.append((message.topic, message.partition, message.offset, message.key, message.value))
        if len(read) == 6:
            break
    assert read[0] == (topic, 0, 0, None, b"message 0")
    assert read[-1] == (topic, 0, 5, b"k", b"last")
    partition = lib.TopicPartition(topic, 0)
    consumer.commit()
    assert consumer.committed(partition) == 6
    assert consumer.position(partition) == 6
    assert consumer.assignment() == {partition}
    assert consumer.partitions_for_topic(topic) == {0}
    assert topic in consumer.topics()
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 6}
    consumer.commit({partition: lib_offset(lib, 3)})
    assert consumer.committed(partition) == 3
    consumer.close()
    producer.close()


def lib_offset(lib: Any, offset: int) -> Any:
    if lib is kafka:
        from kafka.structs import OffsetAndMetadata  # where it lives there
    else:
        from klamm.compat.kafka import OffsetAndMetadata
    return OffsetAndMetadata(offset, "", -1)


def test_without_a_group_all_partitions_are_read(lib: Any, bootstrap: str, topic: str) -> None:
    with_key = lib.KafkaProducer(bootstrap_servers=bootstrap, key_serializer=str.encode)
    with_key.send(topic, key="ping", value=b"1234").get(timeout=30)
    consumer = lib.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    message = next(consumer)
    assert (message.key, message.value) == (b"ping", b"1234")
    consumer.close()
    with_key.close()


def test_assigned_partitions_and_json(lib: Any, bootstrap: str, topic: str) -> None:
    producer = lib.KafkaProducer(
        bootstrap_servers=bootstrap,
        value_serializer=lambda value: json.dumps(value).encode("utf-8"),
        compression_type="gzip",
        retries=5,
    )
    producer.send(topic, {"foo": "bar"}, headers=[("content-encoding", b"base64")])
    producer.flush()
    consumer = lib.KafkaConsumer(
        bootstrap_servers=bootstrap, value_deserializer=json.loads, auto_offset_reset="earliest"
    )
    partition = lib.TopicPartition(topic, 0)
    consumer.assign([partition])
    found: dict[Any, list[Any]] = {}
    for _ in range(100):
        found = consumer.poll(timeout_ms=200)
        if found:
            break
    ((place, (message,)),) = found.items()
    assert place == partition
    assert message.value == {"foo": "bar"}
    assert list(message.headers) == [("content-encoding", b"base64")]
    consumer.seek(partition, 0)
    assert len(consumer.poll(timeout_ms=5000, max_records=1)[partition]) == 1
    consumer.seek_to_end(partition)
    assert consumer.position(partition) == 1
    assert consumer.metrics()
    assert producer.metrics()
    consumer.close()
    producer.close()


def test_callbacks_of_a_future(lib: Any, bootstrap: str, topic: str) -> None:
    heard: list[Any] = []
    producer = lib.KafkaProducer(bootstrap_servers=bootstrap.split(","))

    def on_send_success(record_metadata: Any) -> None:
        heard.append((record_metadata.topic, record_metadata.partition, record_metadata.offset))

    def on_send_error(excp: Exception) -> None:
        heard.append(excp)

    producer.send(topic, b"raw_bytes").add_callback(on_send_success).add_errback(on_send_error)
    producer.flush()
    assert heard == [(topic, 0, 0)]
    producer.close()


def test_a_pattern_and_a_listener(lib: Any, bootstrap: str, topic: str) -> None:
    if lib is kafka:
        from kafka.consumer.subscription_state import ConsumerRebalanceListener
    else:
        from klamm.compat.kafka import ConsumerRebalanceListener
    heard: list[str] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # one of two classes
        def on_partitions_revoked(self, revoked: Any) -> None:
            heard.append("revoked")

        def on_partitions_assigned(self, assigned: Any) -> None:
            heard.append(f"assigned {sorted(item.topic for item in assigned)}")

    producer = lib.KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(f"{topic}-awesome", b"x").get(timeout=30)
    consumer = lib.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
    )
    consumer.subscribe(pattern=f"^{topic}.*", listener=Listener())
    assert next(consumer).value == b"x"
    assert f"assigned {[f'{topic}-awesome']}" in heard
    consumer.close()
    producer.close()


def test_futures_have_their_values(lib: Any, bootstrap: str, topic: str) -> None:
    producer = lib.KafkaProducer(bootstrap_servers=bootstrap)
    sent = producer.send(topic, b"x", partition=0)
    producer.flush()
    assert (sent.value.topic, sent.value.partition, sent.value.offset) == (topic, 0, 0)

    consumer = lib.KafkaConsumer(bootstrap_servers=bootstrap, group_id=f"group-{topic}")
    partition = lib.TopicPartition(topic, 0)
    consumer.assign([partition])
    assert consumer.committed(partition) is None  # the coordinator is known now
    for offset, outcome in ((1, "succeeded"), (None, "failed")):
        seen: list[Any] = []
        wanted = partition if offset else lib.TopicPartition(f"{topic}-missing", 0)
        future = consumer.commit_async({wanted: lib.OffsetAndMetadata(1, "", -1)})
        assert future.add_both(seen.append) is future
        while not future.is_done:
            consumer.poll(100)
        assert getattr(future, outcome)()
        assert (future.value, seen) == (None, [future.exception])
    assert future.retriable()
    assert consumer.committed(partition) == 1
    consumer.close()
    producer.close()


@pytest.mark.parametrize(
    ("module", "assignor", "told"),
    [
        ("range", "RangePartitionAssignor", ["revoked", "assigned"]),
        ("cooperative_sticky", "CooperativeStickyAssignor", ["assigned"]),
    ],
)
def test_a_listener_hears_of_a_revocation_before_an_eager_assignment(
    lib: Any, bootstrap: str, topic: str, module: str, assignor: str, told: list[str]
) -> None:
    producer = lib.KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"x", partition=0).get(20)
    producer.close()
    assignors = importlib.import_module(f"{lib.__name__}.coordinator.assignors.{module}")
    calls: list[tuple[str, Any]] = []

    class Listener(lib.ConsumerRebalanceListener):  # type: ignore[misc]  # one of two
        def on_partitions_revoked(self, revoked: Any) -> None:
            calls.append(("revoked", revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            calls.append(("assigned", assigned))

    consumer = lib.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=f"group-{topic}",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[getattr(assignors, assignor)],
    )
    consumer.subscribe([topic], listener=Listener())
    next(consumer)
    assert calls[-1] == ("assigned", {lib.TopicPartition(topic, 0)})
    rounds = sum(what == "assigned" for what, _ in calls)  # it may be given none at first
    assert [what for what, _ in calls] == told * rounds
    consumer.close()


def tripled(data: bytes | None) -> str | None:
    return None if data is None else data.decode() * 3


@pytest.mark.parametrize(
    ("deserializer", "made"), [(None, b"value"), (tripled, "value" * 3), ("default", "value")]
)
def test_records_know_their_sizes_as_bytes(
    lib: Any, bootstrap: str, topic: str, deserializer: Any, made: Any
) -> None:
    producer = lib.KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"value", key=b"k", headers=[("h", b"xx")], partition=0)
    producer.send(topic, key=b"no value", partition=0)
    producer.send(topic, b"", partition=0)
    producer.flush()
    producer.close()
    consumer = lib.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=lib.serializer.DefaultSerializer() if deserializer == "default" else deserializer,
    )
    records = [next(consumer)]
    while len(records) < 3:
        records += [record for batch in consumer.poll(1000).values() for record in batch]
    first, second, third = records
    assert (first.key, first.value, first.headers) == (b"k", made, [("h", b"xx")])
    assert (first.topic, first.partition, first.offset, first.checksum) == (topic, 0, 0, None)
    assert first.timestamp > 0
    assert [
        (record.serialized_key_size, record.serialized_value_size, record.serialized_header_size)
        for record in (first, second, third)
    ] == [(1, 5, 3), (8, -1, -1), (-1, 0, -1)]
    assert (second.value, third.key) == (None, None)
    assert first._fields == kafka.consumer.fetcher.ConsumerRecord._fields
    consumer.close()


def test_what_a_named_deserializer_makes_has_no_size(bootstrap: str, topic: str) -> None:
    producer = klamm.compat.kafka.KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, b"[1, 2]", partition=0)
    producer.close()
    consumer = klamm.compat.kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer="json"
    )
    record = next(consumer)
    assert (record.value, record.serialized_value_size) == ([1, 2], -1)
    consumer.close()
