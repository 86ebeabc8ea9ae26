"""What the modules for other libraries translate: settings, errors, partitioners, closing."""

from __future__ import annotations

from typing import Any

import pytest

import klamm
from klamm import errors
from klamm.compat.confluent_errors import KafkaError
from klamm.compat.confluent_settings import own_settings
from klamm.compat.kafka import KafkaConsumer, KafkaProducer, TopicPartition
from klamm.compat.shared import OffsetAndMetadata, committable, settings_of


@pytest.mark.parametrize(("autocommit", "committed"), [(True, 1), (False, None)])
def test_kafka_python_closes_with_or_without_a_commit(autocommit: bool, committed: int | None) -> None:
    with klamm.Broker() as broker:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            partitioner=lambda key, all_partitions, available: available[-1],
        )
        producer.send("t", b"x").get(timeout=10)
        consumer = KafkaConsumer(
            "t", group_id="g", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        )
        assert next(consumer).value == b"x"
        consumer.close(autocommit=autocommit)
        with KafkaConsumer(group_id="g", bootstrap_servers=broker.bootstrap) as other:
            assert other.committed(TopicPartition("t", 0)) == committed
        producer.close()


def test_settings_of_librdkafka_become_ours() -> None:
    heard: list[str] = []
    made = own_settings(
        {
            "metadata.broker.list": "one,two:9093",
            "queue.buffering.max.ms": 5,
            "error_cb": print,
            "stats_cb": heard.append,
            "statistics.interval.ms": 1000,
        },
        is_consumer=False,
    )
    made.pop("stats.callback")({"n": 1})
    assert heard == ['{"n": 1}']
    assert made == {
        "bootstrap.servers": "one:9092,two:9093",
        "linger.ms": 5,
        "statistics.interval.ms": 1000,
        "partitioner.class": "consistent_random",
    }
    assert (
        own_settings({"auto.offset.reset": "smallest"}, is_consumer=True)["auto.offset.reset"] == "earliest"
    )


def test_settings_of_kafka_python_become_ours() -> None:
    made = settings_of(
        {"api_version": (2, 5), "bootstrap_servers": "here", "enable_auto_commit": True}, has_group=False
    )
    assert made == {"bootstrap_servers": ["here:9092"]}


def test_offsets_with_metadata_keep_their_fields() -> None:
    place = klamm.TopicPartition("t", 0)
    assert committable({place: OffsetAndMetadata(3, "why", 2)}) == {place: klamm.Committed(3, 2, "why")}
    assert committable({place: (4, "")}) == {place: klamm.Committed(4, -1, "")}
    assert committable({place: 5}) == {place: 5}
    assert committable(None) is None


@pytest.mark.parametrize(
    ("error", "code", "retriable"),
    [
        (errors.broker_error(25, "commit"), 25, False),
        (errors.KlammTimeoutError("late"), KafkaError._TIMED_OUT, True),
        (errors.NoBrokersError("none"), KafkaError._ALL_BROKERS_DOWN, True),
        (errors.IllegalStateError("no"), KafkaError._STATE, False),
        (errors.PurgedError("gone"), KafkaError._APPLICATION, False),
    ],
)
def test_errors_become_values(error: Any, code: int, retriable: bool) -> None:
    made = KafkaError.of(error)
    assert (made.code(), made.retriable()) == (code, retriable)
    assert made == code
    assert str(error) in str(made)
