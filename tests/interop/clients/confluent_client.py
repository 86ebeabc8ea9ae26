"""confluent-kafka (librdkafka) behind the line protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from interop.clients.serve import RefusedError, Tell, from_wire, serve, to_wire

DEADLINE_S = 30


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise refused(error.args[0]) from error


def refused(error: KafkaError) -> RefusedError:
    return RefusedError(error.code(), f"{error.name()}: {error.str()}")


class ConfluentClient:
    def __init__(self, bootstrap: str) -> None:
        self.common = {"bootstrap.servers": bootstrap, "allow.auto.create.topics": False}
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producers: dict[str, Producer] = {}

    def produce(self, command: dict[str, Any]) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": self.common["bootstrap.servers"],
            "compression.type": command["compression"],
            "acks": command["acks"],
            "enable.idempotence": command["idempotent"],
            "message.max.bytes": command.get("max_bytes", 1_000_000),
            "batch.num.messages": command.get("batch_records", 10_000),
            "linger.ms": 5,
        }
        offsets: dict[int, int] = {}
        errors: list[KafkaError] = []
        producer = Producer(settings)
        with refusals():
            for position, record in enumerate(command["records"]):

                def delivered(error: KafkaError | None, message: Message, position: int = position) -> None:
                    if error is not None:
                        errors.append(error)
                    else:
                        offsets[position] = message.offset()

                producer.produce(
                    command["topic"],
                    partition=command["partition"],
                    key=from_wire(record["key"]),
                    value=from_wire(record["value"]),
                    headers=[(name, from_wire(value)) for name, value in record["headers"]],
                    timestamp=record["timestamp_ms"],
                    on_delivery=delivered,
                )
            unsent = producer.flush(DEADLINE_S)
        if errors:
            raise refused(errors[0])
        if unsent:
            raise RefusedError(None, f"{unsent} records were not delivered in time")
        return {"offsets": [offsets[position] for position in range(len(command["records"]))]}

    def consume(self, command: dict[str, Any]) -> dict[str, Any]:
        consumer = Consumer(
            {
                **self.common,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "isolation.level": command.get("isolation", "read_uncommitted"),
                "fetch.message.max.bytes": command.get("max_bytes", 1_048_576),
            }
        )
        records: list[dict[str, Any]] = []
        try:
            consumer.assign([TopicPartition(command["topic"], command["partition"], command["offset"])])
            deadline = time.monotonic() + DEADLINE_S
            while len(records) < command["count"] and time.monotonic() < deadline:
                for message in consumer.consume(command["count"] - len(records), 0.2):
                    if message.error() is not None:
                        raise refused(message.error())
                    records.append(
                        {
                            "offset": message.offset(),
                            "timestamp_ms": message.timestamp()[1],
                            "key": to_wire(message.key()),
                            "value": to_wire(message.value()),
                            "headers": [(name, to_wire(value)) for name, value in message.headers() or []],
                        }
                    )
        finally:
            consumer.close()
        return {"records": records}

    def create_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        topic = NewTopic(command["topic"], command["partitions"], 1, config=command["configs"])
        with refusals():
            self.admin.create_topics([topic])[command["topic"]].result(DEADLINE_S)
        return {}

    def delete_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.admin.delete_topics([command["topic"]])[command["topic"]].result(DEADLINE_S)
        return {}

    def create_partitions(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            grown = self.admin.create_partitions([NewPartitions(command["topic"], command["total"])])
            grown[command["topic"]].result(DEADLINE_S)
        return {}

    def describe_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            topic = self.admin.list_topics(command["topic"], timeout=DEADLINE_S).topics[command["topic"]]
        if topic.error is not None:
            raise refused(topic.error)
        return {"partitions": len(topic.partitions)}

    def describe_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = ConfigResource(ResourceType.TOPIC, command["topic"])
        with refusals():
            configs = self.admin.describe_configs([resource])[resource].result(DEADLINE_S)
        return {"value": configs[command["name"]].value}

    def alter_config(self, command: dict[str, Any]) -> dict[str, Any]:
        entry = ConfigEntry(command["name"], command["value"], incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, command["topic"], incremental_configs=[entry])
        with refusals():
            self.admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
        return {}

    def offsets(self, command: dict[str, Any]) -> dict[str, Any]:
        at = command["at"]
        specs = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest}
        spec = specs[at]() if at in specs else OffsetSpec.for_timestamp(at)
        partition = TopicPartition(command["topic"], command["partition"])
        with refusals():
            result = self.admin.list_offsets({partition: spec})[partition].result(DEADLINE_S)
        return {"offset": result.offset}

    def delete_records(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = TopicPartition(command["topic"], command["partition"], command["before"])
        with refusals():
            result = self.admin.delete_records([partition])[partition].result(DEADLINE_S)
        return {"low_watermark": result.low_watermark}

    def init_transactions(self, command: dict[str, Any]) -> dict[str, Any]:
        producer = Producer(
            {
                "bootstrap.servers": self.common["bootstrap.servers"],
                "transactional.id": command["transactional_id"],
            }
        )
        self.producers[command["producer"]] = producer
        with refusals():
            producer.init_transactions(DEADLINE_S)
        return {}

    def begin_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].begin_transaction()
        return {}

    def produce_in_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        values = [from_wire(value) for value in command["values"]]
        with refusals():
            self._send(self.producers[command["producer"]], command, values)
        return {}

    def _send(self, producer: Producer, command: dict[str, Any], values: list[bytes | None]) -> None:
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)

        for value in values:
            producer.produce(command["topic"], value, partition=command["partition"], on_delivery=delivered)
        unsent = producer.flush(DEADLINE_S)
        if errors:
            raise refused(errors[0])
        if unsent:
            raise RefusedError(None, f"{unsent} records were not delivered in time")

    def transfer(self, command: dict[str, Any]) -> dict[str, Any]:
        producer = self.producers[command["producer"]]
        consumer = Consumer(
            {
                **self.common,
                "group.id": command["group"],
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.subscribe([command["source"]])
            messages = consumer.consume(command["count"], DEADLINE_S)
            for message in messages:
                if message.error() is not None:
                    raise refused(message.error())
            with refusals():
                self._send(producer, command, [message.value() for message in messages])
                producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), DEADLINE_S
                )
        finally:
            consumer.close()
        return {}

    def commit_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].commit_transaction(DEADLINE_S)
        return {}

    def abort_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].abort_transaction(DEADLINE_S)
        return {}

    def close_producer(self, command: dict[str, Any]) -> dict[str, Any]:
        del self.producers[command["producer"]]  # librdkafka has no other way
        return {}

    def member(self, command: dict[str, Any], stopped: threading.Event, tell: Tell) -> None:
        settings = {
            **self.common,
            "group.id": command["group"],
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "group.protocol": command["protocol"],
        }
        if command["protocol"] == "classic":
            settings["session.timeout.ms"] = command["session_timeout_ms"]
            settings["heartbeat.interval.ms"] = command["session_timeout_ms"] // 10
            settings["partition.assignment.strategy"] = command["assignor"]
        if command["instance_id"] is not None:
            settings["group.instance.id"] = command["instance_id"]
        consumer = Consumer(settings)

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            tell({"event": "assigned", "partitions": [p.partition for p in partitions]})

        def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
            tell({"event": "revoked", "partitions": [p.partition for p in partitions]})

        consumer.subscribe([command["topic"]], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not stopped.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                tell({"event": "error", "message": message.error().str()})
                continue
            tell({"event": "record", "partition": message.partition(), "offset": message.offset()})
            try:
                consumer.commit(message=message, asynchronous=False)
            except KafkaException as error:
                tell({"event": "commit_failed", "message": error.args[0].str()})
        consumer.close()


if __name__ == "__main__":
    serve(ConfluentClient)
