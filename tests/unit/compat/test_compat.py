"""What the modules for other libraries translate: settings, errors, partitioners, closing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import klamm
from klamm import errors
from klamm.compat import kafka
from klamm.compat.callers import adapted_listener, chosen_topics, committable
from klamm.compat.confluent_kafka.error import KafkaError
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.compat.confluent_kafka.settings import own_settings
from klamm.compat.kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from klamm.compat.python_settings import KAFKA_PYTHON
from klamm.compat.python_settings import own_settings as python_settings
from klamm.compat.settings import ClientKind
from klamm.config import ConfigError
from klamm.protocol.errors import ErrorCode


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
    made = own_settings(
        {"metadata.broker.list": "one,two:9093", "queue_buffering_max_ms": 7, "message.timeout.ms": 1},
        ClientKind.PRODUCER,
    )
    assert made["bootstrap.servers"] == "one:9092,two:9093"
    assert (made["linger.ms"], made["message.timeout.ms"]) == (7, 1)
    assert made["partitioner.class"] == "consistent_random"
    made = own_settings(
        {"default.topic.config": {"auto.offset.reset": "smallest"}, "group.id": "g"}, ClientKind.CONSUMER
    )
    assert made["auto.offset.reset"] == "earliest"
    assert made["isolation.level"] == "read_committed"  # the default there, not Java's


def test_settings_of_kafka_python_become_ours() -> None:
    made = python_settings(
        KAFKA_PYTHON,
        {"api_version": (2, 5), "bootstrap_servers": "here", "enable_auto_commit": True, "ssl_cafile": None},
        ClientKind.CONSUMER,
    )
    assert made == {"bootstrap_servers": ["here:9092"]}


@pytest.mark.parametrize(
    ("name", "value"), [("ssl.engine.location", "x.so"), ("throttle_cb", print), ("queuing.strategy", "lifo")]
)
def test_what_klamm_cannot_do_is_refused_with_what_to_do(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="is not supported: ") as raised:
        own_settings({name: value}, ClientKind.PRODUCER)
    assert raised.value.name == name


def test_what_has_no_meaning_here_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "klamm.compat"):
        own_settings({"socket.nagle.disable": True, "fetch.min.bytes": 1}, ClientKind.PRODUCER)
    assert [record.getMessage() for record in caplog.records] == [
        "the setting socket.nagle.disable of confluent-kafka has no effect: klamm always disables it",
        "the setting fetch.min.bytes of confluent-kafka has no effect: a producer has no use for it",
    ]


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
        (errors.broker_error(90, "commit"), CODES["_FENCED"], False),
        (errors.KlammTimeoutError("late"), CODES["_TIMED_OUT"], True),
        (errors.NoBrokersError("none"), CODES["_ALL_BROKERS_DOWN"], True),
        (errors.IllegalStateError("no"), CODES["_STATE"], False),
        (errors.PurgedError("gone"), CODES["_PURGE_QUEUE"], False),
    ],
)
def test_errors_become_values(error: Any, code: int, retriable: bool) -> None:
    made = KafkaError.of(error)
    assert (made.code(), made.retriable()) == (code, retriable)
    assert made == code
    assert str(error) in str(made)


def test_every_code_of_a_broker_has_a_class_to_catch() -> None:
    for code in ErrorCode:
        error = errors.broker_error(code, "request")
        assert error.error_code == error.errno == code
        kind = errors.error_class(code)
        assert isinstance(error, kind)
        assert getattr(errors, kind.__name__) is kind


def test_an_isolation_level_is_a_word_or_a_member() -> None:
    with klamm.Broker() as broker:
        for level in (kafka.IsolationLevel.READ_COMMITTED, 1, "read_committed"):
            consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level=level)
            assert consumer._consumer._operations.settings.is_read_committed
            consumer.close()


def test_a_subscription_is_topics_or_a_pattern_and_text_is_no_list() -> None:
    assert chosen_topics(("a", "b"), None) == ["a", "b"]
    assert chosen_topics((), "o.*") is None
    for topics, pattern, said in (
        ("orders", None, "list of strings, not 'orders'"),
        (None, None, "list of strings, not None"),
        ((), None, "exactly one"),
        (["a"], "o.*", "exactly one"),
    ):
        with pytest.raises(TypeError, match=said):
            chosen_topics(topics, pattern)


def test_a_listener_has_the_methods_of_one() -> None:
    for wrong in (5, print, object()):
        with pytest.raises(TypeError, match="on_partitions_revoked and on_partitions_assigned"):
            adapted_listener(wrong)


def test_an_empty_list_of_servers_is_not_the_default() -> None:
    nothing: tuple[Any, ...] = ([], "", ())
    for servers in nothing:
        with pytest.raises(ConfigError, match=r"bootstrap.servers is empty"):
            kafka.KafkaProducer(bootstrap_servers=servers)


def test_what_kafka_pythons_producer_and_futures_tell() -> None:
    with klamm.Broker() as broker, kafka.KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        seen: list[Any] = []
        future = producer.send("t", b"x").add_both(seen.append)
        producer.flush()
        assert (future.is_done, [each.topic for each in seen]) == (True, ["t"])
        with pytest.raises(ValueError, match="Unrecognized partition 99 for topic t"):
            producer.send("t", b"x", partition=99)


def test_a_commit_that_succeeded_calls_back_without_an_error() -> None:
    with klamm.Broker() as broker:
        consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="g")
        reports: list[Any] = []
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics("t")
        consumer.commit({klamm.TopicPartition("t", 0): 0})
        consumer.commit_async(
            {klamm.TopicPartition("t", 0): 1}, lambda offsets, error: reports.append((len(offsets), error))
        )
        consumer.close()
        assert reports == [(1, None)]
