"""librdkafka, through confluent-kafka."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka

from faults.exactly_once.library import PATIENCE_S, TRANSACTION_TIMEOUT_MS, Member, Polled

# RDKAFKA_DEBUG=eos,protocol writes librdkafka's own log to that of the worker.
_DEBUG: Final = os.environ.get("RDKAFKA_DEBUG")
SETTINGS: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    # When its only broker is down, librdkafka forgets it and starts over from its bootstrap servers. It still
    # has the forgotten broker as the group's coordinator, and send_offsets_to_transaction waits for it, for
    # ever and beyond its own timeout (2.16.0).
    "metadata.recovery.strategy": "none",
    **({"debug": _DEBUG} if _DEBUG else {"log_level": 0}),
}


class RdkafkaProducer:
    acknowledges_commits = True

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self.raw = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                **SETTINGS,
            }
        )
        self.raw.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self.raw.begin_transaction()

    def send(self, topic: str, partition: int, value: str) -> None:
        self.raw.produce(topic, value.encode(), partition=partition)

    def send_offsets(self, offsets: Mapping[int, int], consumer: Member) -> None:
        wanted = [confluent_kafka.TopicPartition(consumer.source, *each) for each in offsets.items()]
        self.raw.send_offsets_to_transaction(wanted, consumer.raw.consumer_group_metadata(), PATIENCE_S)

    def commit(self) -> None:
        self.raw.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self.raw.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        self.raw.purge()


class RdkafkaMember:
    def __init__(self, bootstrap: str, group: str, source: str) -> None:
        self.source = source
        self.raw = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 2_000,
                "heartbeat.interval.ms": 300,
                **SETTINGS,
            }
        )
        self.raw.subscribe([source])

    def poll(self) -> list[Polled]:
        messages = self.raw.consume(20, 0.3)
        return [
            Polled(each.partition(), each.offset(), each.value().decode())
            for each in messages
            if not each.error()
        ]

    def rewind(self) -> None:
        for each in self.raw.committed(self.raw.assignment(), PATIENCE_S):
            offset = each.offset if each.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            self.raw.seek(confluent_kafka.TopicPartition(each.topic, each.partition, offset))

    def close(self) -> None:
        self.raw.close()


class RdkafkaReader:
    def __init__(self, bootstrap: str, topic: str, next_offsets: Mapping[int, int]) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                **SETTINGS,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(topic, *each) for each in next_offsets.items()])

    def poll(self) -> list[Polled]:
        return [
            Polled(each.partition(), each.offset(), each.value().decode())
            for each in self._consumer.consume(100, 0.2)
            if not each.error()
        ]


make_producer, make_member, make_reader = RdkafkaProducer, RdkafkaMember, RdkafkaReader
