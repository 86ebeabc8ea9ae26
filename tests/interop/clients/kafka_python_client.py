"""kafka-python behind the line protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

from interop.clients.serve import RefusedError, Tell, from_wire, serve, to_wire

DEADLINE_S = 30
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise RefusedError(getattr(error, "errno", None), repr(error)) from error


class KafkaPythonClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.producers: dict[str, KafkaProducer] = {}

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        with refusals():
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
            try:
                yield admin
            finally:
                admin.close()

    @contextmanager
    def consumer(self, **settings: Any) -> Iterator[KafkaConsumer]:
        with refusals():
            consumer = KafkaConsumer(
                bootstrap_servers=self.bootstrap,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                **settings,
            )
            try:
                yield consumer
            finally:
                consumer.close(autocommit=False)

    def produce(self, command: dict[str, Any]) -> dict[str, Any]:
        compression = command["compression"]
        with refusals():
            producer = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if compression == "none" else compression,
                acks=command["acks"],
                enable_idempotence=command["idempotent"],
                max_request_size=command.get("max_bytes", 1_048_576),
                linger_ms=5,
            )
            try:
                sent = [
                    producer.send(
                        command["topic"],
                        partition=command["partition"],
                        key=from_wire(record["key"]),
                        value=from_wire(record["value"]),
                        headers=[(name, from_wire(value)) for name, value in record["headers"]],
                        timestamp_ms=record["timestamp_ms"],
                    )
                    for record in command["records"]
                ]
                return {"offsets": [future.get(DEADLINE_S).offset for future in sent]}
            finally:
                producer.close(DEADLINE_S)

    def consume(self, command: dict[str, Any]) -> dict[str, Any]:
        records: list[dict[str, Any]] = []
        partition = TopicPartition(command["topic"], command["partition"])
        with self.consumer(
            group_id=None,
            isolation_level=command.get("isolation", "read_uncommitted"),
            max_partition_fetch_bytes=command.get("max_bytes", 1_048_576),
        ) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, command["offset"])
            deadline = time.monotonic() + DEADLINE_S
            while len(records) < command["count"] and time.monotonic() < deadline:
                polled = consumer.poll(200, max_records=command["count"] - len(records))
                records += [
                    {
                        "offset": record.offset,
                        "timestamp_ms": record.timestamp,
                        "key": to_wire(record.key),
                        "value": to_wire(record.value),
                        "headers": [(name, to_wire(value)) for name, value in record.headers],
                    }
                    for record in polled.get(partition, [])
                ]
        return {"records": records}

    def create_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        topic = NewTopic(
            name=command["topic"],
            num_partitions=command["partitions"],
            replication_factor=1,
            topic_configs=command["configs"],
        )
        with self.admin() as admin:
            admin.create_topics([topic])
        return {}

    def delete_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        with self.admin() as admin:
            admin.delete_topics([command["topic"]])
        return {}

    def create_partitions(self, command: dict[str, Any]) -> dict[str, Any]:
        with self.admin() as admin:
            admin.create_partitions({command["topic"]: NewPartitions(command["total"])})
        return {}

    def describe_topic(self, command: dict[str, Any]) -> dict[str, Any]:
        with self.admin() as admin:
            (topic,) = admin.describe_topics([command["topic"]])
        if topic["error_code"]:
            raise RefusedError(topic["error_code"], str(topic))
        return {"partitions": len(topic["partitions"])}

    def describe_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = ConfigResource(ConfigResourceType.TOPIC, command["topic"])
        with self.admin() as admin:
            configs = admin.describe_configs([resource], config_filter="all")
        return {"value": configs["topic"][command["topic"]][command["name"]]["value"]}

    def alter_config(self, command: dict[str, Any]) -> dict[str, Any]:
        resource = ConfigResource(
            ConfigResourceType.TOPIC, command["topic"], configs={command["name"]: command["value"]}
        )
        with self.admin() as admin:
            admin.alter_configs([resource])
        return {}

    def offsets(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = TopicPartition(command["topic"], command["partition"])
        with self.consumer(group_id=None) as consumer:
            match command["at"]:
                case "earliest":
                    return {"offset": consumer.beginning_offsets([partition])[partition]}
                case "latest":
                    return {"offset": consumer.end_offsets([partition])[partition]}
                case timestamp_ms:
                    found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
                    return {"offset": -1 if found is None else found.offset}

    def delete_records(self, command: dict[str, Any]) -> dict[str, Any]:
        partition = TopicPartition(command["topic"], command["partition"])
        with self.admin() as admin:
            result = admin.delete_records({partition: command["before"]})
        return {"low_watermark": result[partition]["low_watermark"]}

    def init_transactions(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            producer = KafkaProducer(
                bootstrap_servers=self.bootstrap, transactional_id=command["transactional_id"]
            )
            self.producers[command["producer"]] = producer
            producer.init_transactions()
        return {}

    def begin_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].begin_transaction()
        return {}

    def produce_in_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self._send(command, [from_wire(value) for value in command["values"]])
        return {}

    def _send(self, command: dict[str, Any], values: list[bytes | None]) -> None:
        producer = self.producers[command["producer"]]
        sent = [producer.send(command["topic"], value, partition=command["partition"]) for value in values]
        for future in sent:
            future.get(DEADLINE_S)

    def transfer(self, command: dict[str, Any]) -> dict[str, Any]:
        with self.consumer(
            group_id=command["group"], auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.subscribe([command["source"]])
            consumer.partitions_for_topic(command["source"])  # as in member()
            values: list[bytes | None] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(values) < command["count"] and time.monotonic() < deadline:
                polled = consumer.poll(200, max_records=command["count"] - len(values))
                values += [record.value for records in polled.values() for record in records]
            self._send(command, values)
            self.producers[command["producer"]].send_offsets_to_transaction(
                {
                    partition: OffsetAndMetadata(consumer.position(partition), "", -1)
                    for partition in consumer.assignment()
                },
                consumer.group_metadata(),
            )
        return {}

    def commit_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].commit_transaction()
        return {}

    def abort_transaction(self, command: dict[str, Any]) -> dict[str, Any]:
        with refusals():
            self.producers[command["producer"]].abort_transaction()
        return {}

    def close_producer(self, command: dict[str, Any]) -> dict[str, Any]:
        self.producers.pop(command["producer"]).close(DEADLINE_S)
        return {}

    def member(self, command: dict[str, Any], stopped: threading.Event, tell: Tell) -> None:
        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
            def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
                tell({"event": "assigned", "partitions": [p.partition for p in assigned]})

            def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
                tell({"event": "revoked", "partitions": [p.partition for p in revoked]})

        with self.consumer(
            group_id=command["group"],
            group_instance_id=command["instance_id"],
            auto_offset_reset="earliest",
            session_timeout_ms=command["session_timeout_ms"],
            heartbeat_interval_ms=command["session_timeout_ms"] // 10,
            partition_assignment_strategy=[ASSIGNORS[command["assignor"]]],
        ) as consumer:
            consumer.subscribe([command["topic"]], listener=Listener())
            # A leader that learns of the topic only after its first assignment joins once more, and when its
            # poll() ends in between, kafka-python 3.0.12 forgets that join: it neither takes the new
            # assignment nor heartbeats again. So let it know the topic before it joins.
            consumer.partitions_for_topic(command["topic"])
            while not stopped.is_set():
                polled = consumer.poll(100)
                for records in polled.values():
                    for record in records:
                        tell({"event": "record", "partition": record.partition, "offset": record.offset})
                if polled:
                    try:
                        consumer.commit()
                    except KafkaError as error:
                        tell({"event": "commit_failed", "message": repr(error)})


if __name__ == "__main__":
    serve(KafkaPythonClient)
